/* data/dataset_impl.h — what the files of this component share. */
#ifndef QR_DATA_DATASET_IMPL_H
#define QR_DATA_DATASET_IMPL_H

#include "data/dataset.h"

/* Room for samples in *ret (sizes set, x and y zeroed). RESOURCE_EXHAUSTED with both numbers. */
QR_MUST_CHECK enum qr_code qr_dataset_room(struct qr_dataset *ret, size_t n_samples,
                                           size_t n_columns, size_t n_outputs, bool weighted,
                                           struct qr_err *err);
/* One file, of opt's source; key: what the error of a file that is not there begins with. */
QR_MUST_CHECK enum qr_code qr_dataset_load_file(const struct qr_data_options *opt, const char *key,
                                                const char *url, struct qr_dataset *ret,
                                                struct qr_err *err);
/* What trains and what validates. *ret_split: n_train is set, by a channel "validation". */
QR_MUST_CHECK enum qr_code qr_dataset_load_channels(const struct qr_data_options *opt,
                                                    struct qr_dataset *ret, bool *ret_split,
                                                    struct qr_err *err);
/* ---- what npz and CSV share ---- */

const char *qr_nonfinite_name(double v); /* "NaN", "infinity": a value that is not finite */
/* named: the file's columns have names. */
QR_MUST_CHECK enum qr_code qr_dataset_check_sizes(const struct qr_data_options *opt,
                                                  const char *url, size_t n_samples,
                                                  size_t n_columns, bool named, struct qr_err *err);
/* One row of y with `have` values into `want` outputs; a single value becomes one-hot, or every
 * output's, where several are wanted. */
QR_MUST_CHECK enum qr_code qr_dataset_put_label(const struct qr_data_options *opt,
                                                const double *from, size_t have, size_t want,
                                                double *to, const char *url, size_t row,
                                                struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_dataset_put_weight(const struct qr_data_options *opt, double weight,
                                                 double *to, const char *url, size_t row,
                                                 struct qr_err *err);
/* Frees the file. */
QR_MUST_CHECK enum qr_code qr_dataset_from_csv(const struct qr_data_options *opt, const char *url,
                                               struct qr_buf *file, struct qr_dataset *ret,
                                               struct qr_err *err);
/* DATA_LOSS naming the format of a file that is neither CSV nor npz, and what to do. */
QR_MUST_CHECK enum qr_code qr_dataset_check_format(struct qr_bytes file, bool npz, const char *url,
                                                   struct qr_err *err);
/* False: the names are places, 0, 1, 2 and so on, as pandas writes those that it does not have. */
bool qr_names_are_given(const char *const *names, size_t n);

/* ---- classes ---- */

/* The label of a class: its number, or -1 and 1. */
double qr_label_of_class(const struct qr_data_options *opt, size_t class);
/* DATA_LOSS: they are more than the model tells apart. */
QR_MUST_CHECK enum qr_code qr_classes_check(const struct qr_data_options *opt,
                                            const struct qr_name_list *classes, const char *url,
                                            const char *column, struct qr_err *err);
/* Gives n files one order of classes. url: of each, for messages. */
QR_MUST_CHECK enum qr_code qr_classes_join(const struct qr_data_options *opt,
                                           struct qr_dataset *const *d, const char *const *url,
                                           size_t n, struct qr_err *err);

/* ---- others ---- */

/* The seeded generator; n_train and digest are the caller's. */
QR_MUST_CHECK enum qr_code qr_excitations(const struct qr_data_options *opt, struct qr_dataset *ret,
                                          struct qr_err *err);
/* Shuffles the samples by the seed; d->row says which is which. */
void qr_dataset_shuffle(struct qr_dataset *d, uint64_t seed);
/* Leaves d with the columns that the trained model has by name; d->unread lists the others. */
QR_MUST_CHECK enum qr_code qr_dataset_pick_trained(const struct qr_data_options *opt,
                                                   const char *url, struct qr_dataset *d,
                                                   struct qr_err *err);
/* Leaves d with the columns that opt picks. */
QR_MUST_CHECK enum qr_code qr_dataset_pick(const struct qr_data_options *opt, const char *url,
                                           struct qr_dataset *d, struct qr_err *err);

#endif
