/* format/hdf5.h — reads and writes Keras 2's legacy HDF5 weight files, in memory.
 *
 * Writing   by libhdf5's core driver (used only here), under one mutex, since libhdf5 is not
 *           thread-safe.
 * Reading   by qring's own reader, because libhdf5 1.10.8 crashes on damaged files (6 of 400 copies
 *           of a Keras file with one to eight bytes changed). Supports the classic layout that
 *           Keras and h5py write (superblock 0 or 1, version 1 object headers, symbol tables,
 *           contiguous or compact values); HDF5 File Format 3.0.
 * Layout    as tf-keras 2.18's save_weights_to_hdf5_group writes it (listed in
 *           tests/golden/tfq/qcnn_weights_listing.txt): root attributes layer_names, backend,
 *           keras_version (variable-length ASCII), one group per layer with weight_names (an empty
 *           float64 array when there are none), datasets F32LE, /top_level_model_weights. No time
 *           stamps or host names: equal input gives equal bytes.
 * Bounds    a file of at most 1 GiB; values never take more than twice the file's size (float32
 *           becomes float64).
 * Errors    DATA_LOSS, naming `what` (the file), object and reason. Rejects external and soft
 *           links, filters, chunks, huge dimensions, and files with libver='latest' structures;
 *           RESOURCE_EXHAUSTED when memory is short.
 * Threads   any.
 */
#ifndef QR_FORMAT_HDF5_H
#define QR_FORMAT_HDF5_H

#include "base/bytes.h"
#include "format/data_names.h"
#include "format/tensor.h"

/* One Keras layer and its weights, in order, named as in the file ("dense/kernel:0"). */
struct qr_keras_layer {
    char *name;
    struct qr_tensors weights;
};

/* Appends a weight file.
 *
 * Args:     names   NULL, or names stored as root attributes of strings, which Keras ignores:
 *                   qring.inputs and qring.classes, split if long, as Keras does (qring.inputs0
 *                   ...)
 * Errors:   INVALID_ARGUMENT: too many layers or weights; RESOURCE_EXHAUSTED; INTERNAL: libhdf5
 *           failed
 */
QR_MUST_CHECK enum qr_code qr_keras_write(const struct qr_keras_layer *layers, size_t n_layers,
                                          const struct qr_data_names *names, struct qr_buf *ret,
                                          struct qr_err *err);
/* Layers in file order (layer_names), also those without weights; names are heap copies. Also reads
 * model.save() files (/model_weights). */
struct qr_keras_file {
    size_t n_layers;
    struct qr_keras_layer *layers;
};
QR_MUST_CHECK enum qr_code qr_keras_read(struct qr_bytes file, const char *what,
                                         struct qr_keras_file *ret, struct qr_err *err);
void qr_keras_file_fini(struct qr_keras_file *f);
/* Reads only the data's names; empty lists when the file has none. */
QR_MUST_CHECK enum qr_code qr_keras_read_names(struct qr_bytes file, const char *what,
                                               struct qr_data_names *ret, struct qr_err *err);

#endif
