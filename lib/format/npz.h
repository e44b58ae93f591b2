/* format/npz.h — NumPy's .npy and .npz (zip of .npy; stored or deflated).
 *
 * Source    NEP 1 (npy 1.0, 2.0, 3.0); zip64 as numpy.savez writes it; inflate by zlib. dtypes f4
 *           f8 i1 i2 i4 i8 u1 u2 u4 u8 b1, either byte order, C or Fortran order (transposed to C).
 *           'S' (bytes) by qr_npz_read_texts. '|O' and other dtypes are rejected by name.
 * Bounds    All headers are read first: the zip directory, each member, each npy array. Rejected
 *           before any memory is allocated for values: members that overlap; sizes that disagree,
 *           that deflate cannot produce from so few bytes, or that do not match the shape; a total
 *           (the file and all requested arrays as float64) above max_bytes; and arrays of more than
 *           QR_NPZ_FREE_BYTES in total that exceed QR_NPZ_INFLATION times the file, whatever
 *           max_bytes is. Values are decoded while they are unpacked. At most 4096 members.
 * Errors    DATA_LOSS, naming `what`, the member and the reason; RESOURCE_EXHAUSTED with both
 *           numbers above these bounds.
 * Threads   any; pure functions.
 */
#ifndef QR_FORMAT_NPZ_H
#define QR_FORMAT_NPZ_H

#include "base/bytes.h"
#include "format/tensor.h"

/* As float64, random booleans of which a half, a tenth or a fiftieth are true take 50, 84 or 243
 * times the bytes that numpy.savez_compressed writes; zeros take 8256 times. */
enum { QR_NPZ_FREE_BYTES = 256 << 20, QR_NPZ_INFLATION = 256 };

/* Reads names and shapes of all arrays. Their values are NULL; free with qr_tensors_free. */
QR_MUST_CHECK enum qr_code qr_npz_shapes(struct qr_bytes file, const char *what,
                                         struct qr_tensors *ret, struct qr_err *err);
/* Reads arrays by name.
 *
 * Args:     what        name of the file, for messages
 *           names       NULL-terminated list; NULL: all arrays. Missing names are not an error.
 *           max_bytes   bound for the file and the arrays as float64
 *           ret         row-major float64; free with qr_tensors_free
 */
QR_MUST_CHECK enum qr_code qr_npz_read(struct qr_bytes file, const char *what,
                                       const char *const *names, size_t max_bytes,
                                       struct qr_tensors *ret, struct qr_err *err);
/* Elements of bytes, each padded with NULs to the same width. */
struct qr_npz_texts {
    size_t n, width;
    uint8_t *bytes; /* n * width; NULL: the file has no array of the name */
};
/* Reads one array of bytes, of any shape, in the order of the file; free with qr_npz_texts_fini. */
QR_MUST_CHECK enum qr_code qr_npz_read_texts(struct qr_bytes file, const char *what,
                                             const char *name, size_t max_bytes,
                                             struct qr_npz_texts *ret, struct qr_err *err);
void qr_npz_texts_fini(struct qr_npz_texts *t);
/* Appends an npz file: stored, float64 ("<f8"), members "<name>.npy" in order; '/' is kept in
 * names. No time stamps: equal input gives equal bytes. */
void qr_npz_write(const struct qr_tensors *t, struct qr_buf *ret);

#endif
