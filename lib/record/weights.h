/* record/weights.h — trained weights as files: Keras HDF5, safetensors, npz.
 *
 * Names     pqc/parameters, dense/kernel ... in natural symbol order everywhere but in HDF5, where
 *           quantum vectors are in TFQ's order: sorted by the symbol's name as a string (qconv0,
 *           qconv1, qconv10, ...). Values are float64 in safetensors and npz, float32 in HDF5.
 *           What the data calls inputs and classes stands beside them (format/data_names.h): in
 *           HDF5 as root attributes, in safetensors as metadata; npz has none.
 * Bytes     hold no time, host or worker count: equal weights and names, equal bytes.
 */
#ifndef QR_RECORD_WEIGHTS_H
#define QR_RECORD_WEIGHTS_H

#include <stdbool.h>

#include "base/bytes.h"
#include "format/data_names.h"
#include "format/tensor.h"

enum qr_weights_format { QR_WEIGHTS_H5, QR_WEIGHTS_NPZ, QR_WEIGHTS_SAFETENSORS };
/* By suffix; INVALID_ARGUMENT for others, and for *.weights.h5 with the hint that Keras would read
 * another format. */
QR_MUST_CHECK enum qr_code qr_weights_format_of(const char *url, enum qr_weights_format *ret,
                                                struct qr_err *err);

/* What the weights of a model look like; model-agnostic so that record stays below model. */
struct qr_weights_entry {
    const char *name; /* "pqc/parameters" */
    unsigned rank;
    size_t dims[2];
    const char *const *symbols; /* quantum: dims[0] parameter names in natural order; else NULL */
};
struct qr_weights_layout {
    size_t n;
    const struct qr_weights_entry *entries;
};

/* values: all entries one after the other, natural order. names: of the data; NULL: none. */
QR_MUST_CHECK enum qr_code qr_weights_encode(enum qr_weights_format f,
                                             const struct qr_weights_layout *layout,
                                             const double *values,
                                             const struct qr_data_names *names, struct qr_buf *ret,
                                             struct qr_err *err);
/* The names that a file has; empty lists where it has none, as a checkpoint or another program's
 * file. DATA_LOSS when they are damaged. */
QR_MUST_CHECK enum qr_code qr_weights_names(enum qr_weights_format f, struct qr_bytes file,
                                            const char *what, struct qr_data_names *ret,
                                            struct qr_err *err);
/* A checkpoint gives its weights. INVALID_ARGUMENT when the file is of another model: names the
 * tensor and both shapes. DATA_LOSS when damaged. ret_values untouched on failure. */
QR_MUST_CHECK enum qr_code qr_weights_decode(enum qr_weights_format f, struct qr_bytes file,
                                             const char *what,
                                             const struct qr_weights_layout *layout,
                                             double *ret_values, struct qr_err *err);
/* Of a file that may have more: names[i] is the name there of the layout's i-th tensor, in HDF5
 * too. INVALID_ARGUMENT when one is not there (says which layers are), or has another shape. */
QR_MUST_CHECK enum qr_code qr_weights_decode_some(enum qr_weights_format f, struct qr_bytes file,
                                                  const char *what,
                                                  const struct qr_weights_layout *layout,
                                                  const char *const *names, double *ret_values,
                                                  struct qr_err *err);
/* Without a model: whatever tensors the file has, HDF5 in file order and names ("dense/kernel:0"
 * → "dense/kernel"). */
QR_MUST_CHECK enum qr_code qr_weights_list(enum qr_weights_format f, struct qr_bytes file,
                                           const char *what, struct qr_tensors *ret,
                                           struct qr_err *err);

#endif
