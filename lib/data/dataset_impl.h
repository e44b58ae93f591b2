/* data/dataset_impl.h — functions shared by the files of this component. */
#ifndef QR_DATA_DATASET_IMPL_H
#define QR_DATA_DATASET_IMPL_H

#include "data/dataset.h"

/* Allocates samples in *ret (sizes set, x and y zeroed). RESOURCE_EXHAUSTED above the memory limit;
 * the message has both numbers. */
QR_MUST_CHECK enum qr_code qr_dataset_alloc(struct qr_dataset *ret, size_t n_samples,
                                            size_t n_columns, size_t n_outputs, bool weighted,
                                            struct qr_err *err);
/* Builds a data set of opt->arrays, which it empties. */
QR_MUST_CHECK enum qr_code qr_dataset_from_arrays(const struct qr_data_options *opt,
                                                  struct qr_dataset *ret, struct qr_err *err);

/* ---- shared by npz and CSV ---- */

const char *qr_nonfinite_name(double v); /* "NaN", "infinity" or "-infinity" */
/* Checks the numbers of samples and columns. named: the file's columns have names. */
QR_MUST_CHECK enum qr_code qr_dataset_check_sizes(const struct qr_data_options *opt,
                                                  const char *url, size_t n_samples,
                                                  size_t n_columns, bool named, struct qr_err *err);
/* Converts one row of y with `have` values to `want` outputs: a single value becomes one-hot, or
 * the label of every output (opt->one_label_for_all). */
QR_MUST_CHECK enum qr_code qr_dataset_put_label(const struct qr_data_options *opt,
                                                const double *from, size_t have, size_t want,
                                                double *to, const char *url, size_t row,
                                                struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_dataset_put_weight(const struct qr_data_options *opt, double weight,
                                                 double *to, const char *url, size_t row,
                                                 struct qr_err *err);
/* Reads an npz file; frees its bytes. */
QR_MUST_CHECK enum qr_code qr_dataset_from_npz(const struct qr_data_options *opt, const char *url,
                                               struct qr_buf *file, struct qr_dataset *ret,
                                               struct qr_err *err);
/* Reads a CSV file; frees its bytes. */
QR_MUST_CHECK enum qr_code qr_dataset_from_csv(const struct qr_data_options *opt, const char *url,
                                               struct qr_buf *file, struct qr_dataset *ret,
                                               struct qr_err *err);
/* DATA_LOSS for a file in a known unsupported format; the message says how to convert it. */
QR_MUST_CHECK enum qr_code qr_dataset_check_format(struct qr_bytes file, bool npz, const char *url,
                                                   struct qr_err *err);
/* False when the names are the positions 0, 1, 2 and so on, which pandas writes for columns without
 * names. */
bool qr_names_are_given(const char *const *names, size_t n);

/* ---- classes ---- */

/* The label of a class: its number, or -1 and 1 (opt->signs). */
double qr_label_of_class(const struct qr_data_options *opt, size_t class);
/* DATA_LOSS: more classes than the model has. */
QR_MUST_CHECK enum qr_code qr_classes_check(const struct qr_data_options *opt,
                                            const struct qr_name_list *classes, const char *url,
                                            const char *column, struct qr_err *err);
/* Gives the classes of n files one common order. url: of each file, for messages. */
QR_MUST_CHECK enum qr_code qr_classes_join(const struct qr_data_options *opt,
                                           struct qr_dataset *const *d, const char *const *url,
                                           size_t n, struct qr_err *err);

/* ---- others ---- */

/* Generates "cluster-excitations"; the caller sets n_train and digest. */
QR_MUST_CHECK enum qr_code qr_excitations(const struct qr_data_options *opt, struct qr_dataset *ret,
                                          struct qr_err *err);
/* Shuffles the samples by the seed; d->row maps each sample to its row in the file. */
void qr_dataset_shuffle(struct qr_dataset *d, uint64_t seed);
/* Keeps the columns that the trained model has, by name; d->unread lists the others. */
QR_MUST_CHECK enum qr_code qr_dataset_pick_trained(const struct qr_data_options *opt,
                                                   const char *url, struct qr_dataset *d,
                                                   struct qr_err *err);
/* Keeps the columns that opt picks. */
QR_MUST_CHECK enum qr_code qr_dataset_pick(const struct qr_data_options *opt, const char *url,
                                           struct qr_dataset *d, struct qr_err *err);

#endif
