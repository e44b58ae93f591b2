/* format/hdf5_impl.h — the structures of an HDF5 file, read from memory with bounds; private to the
 * Keras reader.
 *
 * Source    HDF5 File Format Specification 3.0: superblock 0 and 1 (II.A), version 1 B-trees
 *           (III.A.1), symbol tables (III.B, C), local and global heaps (III.D, E), version 1
 *           object headers (IV.A.1.a) and their messages (IV.A.2).
 * Bounds    Every address is checked against the file before it is followed, and every step uses up
 *           a common budget, so that cycles and crafted sizes end in an error.
 * Errors    DATA_LOSS, naming what and object.
 */
#ifndef QR_FORMAT_HDF5_IMPL_H
#define QR_FORMAT_HDF5_IMPL_H

#include <stdbool.h>

#include "base/bytes.h"
#include "format/data_names.h"
#include "format/tensor.h"

struct qr_h5 {
    struct qr_bytes file;
    const char *what;   /* the file, for messages */
    char object[256];   /* path of the object being read, for messages */
    uint64_t root;      /* address of the root group's object header */
    size_t budget;      /* steps left */
    size_t value_bytes; /* bytes of values and names left to read */
    struct qr_err *err;
};

/* Message types of an object header. */
enum qr_h5_message {
    QR_H5_DATASPACE = 1,
    QR_H5_LINK_INFO = 2,
    QR_H5_DATATYPE = 3,
    QR_H5_LINK = 6,
    QR_H5_EXTERNAL = 7,
    QR_H5_LAYOUT = 8,
    QR_H5_FILTERS = 11,
    QR_H5_ATTRIBUTE = 12,
    QR_H5_CONTINUATION = 16,
    QR_H5_SYMBOL_TABLE = 17,
    QR_H5_ATTRIBUTE_INFO = 21,
};

/* Reads the superblock. The caller has set file, what and err. */
QR_MUST_CHECK enum qr_code qr_h5_open(struct qr_h5 *f);
/* Finds the object header address of `name` (one path component) in a group. */
QR_MUST_CHECK enum qr_code qr_h5_find(struct qr_h5 *f, uint64_t group, const char *name,
                                      size_t name_n, bool *ret_found, uint64_t *ret);
/* Reads a 1-D attribute of strings (or an empty one of any type) and appends them to ret; free it
 * also after an error. */
QR_MUST_CHECK enum qr_code qr_h5_attribute(struct qr_h5 *f, uint64_t object, const char *name,
                                           bool *ret_found, struct qr_name_list *ret);
/* Reads a dataset of float32 or float64 and appends it to `to` under `name`. */
QR_MUST_CHECK enum qr_code qr_h5_dataset(struct qr_h5 *f, uint64_t object, const char *name,
                                         struct qr_tensors *to);

#endif
