/* record/weights.h — reads and writes trained weights: Keras HDF5, safetensors, npz.
 *
 * Use       qr_weights_format_of for the format of a URL, then encode or decode.
 * Names     pqc/parameters, dense/kernel ... Quantum vectors are in natural symbol order, except in
 *           HDF5: there in TFQ's order, sorted by the symbol's name as a string (qconv0, qconv1,
 *           qconv10, ...). Values are float64 in safetensors and npz, float32 in HDF5. The data's
 *           names of inputs and classes (format/data_names.h) are root attributes in HDF5 and
 *           metadata in safetensors; npz has none.
 * Bytes     contain no time, host or worker count: equal weights and names give equal bytes.
 * Errors    of readers: DATA_LOSS (damaged, or not finite), INVALID_ARGUMENT (another model's
 *           weights), RESOURCE_EXHAUSTED; messages begin with `what`, the name of the file.
 * Threads   any; pure functions.
 */
#ifndef QR_RECORD_WEIGHTS_H
#define QR_RECORD_WEIGHTS_H

#include <stdbool.h>

#include "base/bytes.h"
#include "format/data_names.h"
#include "format/tensor.h"

enum qr_weights_format { QR_WEIGHTS_H5, QR_WEIGHTS_NPZ, QR_WEIGHTS_SAFETENSORS };
/* Chooses the format by suffix. INVALID_ARGUMENT for unknown suffixes, and for *.weights.h5, under
 * which Keras would read another format. */
QR_MUST_CHECK enum qr_code qr_weights_format_of(const char *url, enum qr_weights_format *ret,
                                                struct qr_err *err);

/* Names and shapes of a model's weights. Declared here so that record does not depend on model. */
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

/* Appends a weight file.
 *
 * Args:     values   all entries concatenated, natural order
 *           names    of the data; NULL: none
 * Errors:   OUT_OF_RANGE: a value above float32's range, for HDF5; RESOURCE_EXHAUSTED: above 1 GiB
 */
QR_MUST_CHECK enum qr_code qr_weights_encode(enum qr_weights_format f,
                                             const struct qr_weights_layout *layout,
                                             const double *values,
                                             const struct qr_data_names *names, struct qr_buf *ret,
                                             struct qr_err *err);
/* Reads the data's names from a file. Empty lists when the file has none, as a checkpoint or
 * another program's file. */
QR_MUST_CHECK enum qr_code qr_weights_names(enum qr_weights_format f, struct qr_bytes file,
                                            const char *what, struct qr_data_names *ret,
                                            struct qr_err *err);
/* Reads the weights of a model from a weight file or a checkpoint.
 *
 * Args:     ret_values   all entries concatenated, natural order; unchanged on failure
 * Errors:   INVALID_ARGUMENT: weights of another model, naming the tensor and both shapes
 */
QR_MUST_CHECK enum qr_code qr_weights_decode(enum qr_weights_format f, struct qr_bytes file,
                                             const char *what,
                                             const struct qr_weights_layout *layout,
                                             double *ret_values, struct qr_err *err);
/* Reads some tensors of a file: names[i] is the name in the file, also in HDF5, of the layout's
 * i-th tensor. INVALID_ARGUMENT when one is missing (lists the file's layers) or has another
 * shape. */
QR_MUST_CHECK enum qr_code qr_weights_decode_some(enum qr_weights_format f, struct qr_bytes file,
                                                  const char *what,
                                                  const struct qr_weights_layout *layout,
                                                  const char *const *names, double *ret_values,
                                                  struct qr_err *err);
/* Reads all tensors of a file without a model; HDF5 in file order, with names "dense/kernel:0" →
 * "dense/kernel". Free with qr_tensors_free. */
QR_MUST_CHECK enum qr_code qr_weights_list(enum qr_weights_format f, struct qr_bytes file,
                                           const char *what, struct qr_tensors *ret,
                                           struct qr_err *err);

#endif
