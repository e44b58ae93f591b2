/* data/dataset_impl.h — what the files of this room share. */
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
/* The seeded generator; n_train and digest are the caller's. */
QR_MUST_CHECK enum qr_code qr_excitations(const struct qr_data_options *opt, struct qr_dataset *ret,
                                          struct qr_err *err);
/* Shuffles the samples by the seed; d->row says which is which. */
void qr_dataset_shuffle(struct qr_dataset *d, uint64_t seed);
/* Leaves d with the columns that opt picks. */
QR_MUST_CHECK enum qr_code qr_dataset_pick(const struct qr_data_options *opt, const char *url,
                                           struct qr_dataset *d, struct qr_err *err);

#endif
