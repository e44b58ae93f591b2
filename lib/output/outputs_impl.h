/* output/outputs_impl.h — lines of progress, as outputs.c tells them too (inside the room). */
#ifndef QR_OUTPUT_OUTPUTS_IMPL_H
#define QR_OUTPUT_OUTPUTS_IMPL_H

#include "output/outputs.h"

/* A reader that is stopped (Ctrl-Z, a debugger) fills the pipe, and who waits for it trains no
 * more: the first line that finds no room waits so long, those after it not at all until there is
 * room. */
enum { READER_WITHIN_MS = 2000 };

/* A line begins, and is written. Nobody's fault when the reader is gone: training goes on. */
struct qr_json_writer outputs_line(struct qr_outputs *o, const char *event);
void outputs_put_u64(struct qr_json_writer *w, const char *key, uint64_t v);
void outputs_emit(struct qr_outputs *o, int wait_ms);
/* What a reader that goes on again must find. */
void outputs_emit_last(struct qr_outputs *o);

/* Of struct qr_train_observer. */
void outputs_on_progress(void *ctx, uint64_t epoch, uint64_t epochs, uint64_t batch,
                         uint64_t n_batches, const struct qr_named_value *running, size_t n);
void outputs_on_epoch(void *ctx, uint64_t epoch, uint64_t epochs, uint64_t n_batches,
                      double seconds, const struct qr_named_value *values, size_t n);

/* ---- run_summary.c; all on the heap ---- */

/* Why training stopped before its last epoch, of so many. */
char *outputs_why_stopped(const struct qr_train_spec *t, const struct qr_train_result *r,
                          uint64_t epochs);
/* "best epoch 4: val_loss 0.25; the weights are that epoch's". NULL: nothing but the last epoch. */
char *outputs_best_text(const struct qr_early_stopping *e, const struct qr_train_result *r);
/* Loss and metrics of the weights that are written, those that the job logs last. ret_n: how
 * many. */
struct qr_named_value *outputs_values(const struct qr_train_result *r, size_t *ret_n);
/* For people, a row a line. */
char *outputs_confusion_text(const struct qr_train_result *r);

#endif
