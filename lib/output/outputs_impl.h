/* output/outputs_impl.h — progress lines and end-of-run texts, private to lib/output. */
#ifndef QR_OUTPUT_OUTPUTS_IMPL_H
#define QR_OUTPUT_OUTPUTS_IMPL_H

#include "output/outputs.h"

/* A stopped reader (Ctrl-Z, a debugger) fills the pipe, and waiting for it would stop training: the
 * first line without room waits this long, later lines do not wait until there is room again. */
enum { READER_WITHIN_MS = 2000 };

/* Start a line, append to it and write it. A closed reader is not an error: training continues. */
struct qr_json_writer outputs_line(struct qr_outputs *o, const char *event);
void outputs_put_u64(struct qr_json_writer *w, const char *key, uint64_t v);
void outputs_emit(struct qr_outputs *o, int wait_ms);
/* Writes a line that a reader must find when it resumes. */
void outputs_emit_last(struct qr_outputs *o);

/* Callbacks of struct qr_train_observer. */
void outputs_on_progress(void *ctx, uint64_t epoch, uint64_t epochs, uint64_t batch,
                         uint64_t n_batches, const struct qr_named_value *running, size_t n);
void outputs_on_epoch(void *ctx, uint64_t epoch, uint64_t epochs, uint64_t n_batches,
                      double seconds, const struct qr_named_value *values, size_t n);

/* Writes provenance.json, after all other files of the run but result.json, whose text is given. */
QR_MUST_CHECK enum qr_code outputs_write_provenance(const struct qr_outputs *o,
                                                    const struct qr_result *result,
                                                    struct qr_bytes text,
                                                    const struct qr_job_canonical *canonical,
                                                    struct qr_err *err);

/* The location of the written weights for result.json: their URL, or their path, absolute when they
 * are not directly in the run's folder, so that it holds in any working directory. Heap. */
char *outputs_weights_location(const struct qr_outputs *o);

/* ---- run_summary.c; results are heap-allocated ---- */

/* Returns why training stopped before the last of `epochs` epochs. */
char *outputs_why_stopped(const struct qr_train_spec *t, const struct qr_train_result *r,
                          uint64_t epochs);
/* Returns "best epoch 4: val_loss 0.25; the weights are that epoch's". NULL: the weights are those
 * of the last epoch. */
char *outputs_best_text(const struct qr_early_stopping *e, const struct qr_train_result *r);
/* Returns loss and metrics of the weights that are written, logged values last. ret_n: how many. */
struct qr_named_value *outputs_values(const struct qr_train_result *r, size_t *ret_n);
/* Returns the confusion matrix as text, one row per line. */
char *outputs_confusion_text(const struct qr_train_result *r);

#endif
