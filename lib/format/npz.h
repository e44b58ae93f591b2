/* format/npz.h — NumPy's .npy and .npz (zip of .npy; stored or deflated).
 *
 * Source    NEP 1 (npy 1.0, 2.0, 3.0); zip64 as numpy.savez writes it; inflate by zlib. dtypes f4
 *           f8 i1 i2 i4 i8 u1 u2 u4 u8 b1, either byte order, C or Fortran order (transposed to C).
 *           '|O' and others are refused by name.
 * Bounds    headers first: of the zip directory, of each member, of each npy array. Members that
 *           overlap, sizes that lie, that deflate cannot make of so few bytes, or that are not what
 *           the shape needs are refused before memory is taken for values; so is what would take
 *           more than max_bytes: the file and all wanted numbers as float64; so are numbers of more
 *           than QR_NPZ_FREE_BYTES that are over QR_NPZ_INFLATION times the file, however large
 *           max_bytes. Values are decoded as they are unpacked. At most 4096 members.
 * Errors    DATA_LOSS, naming `what`, the member and what is wrong; RESOURCE_EXHAUSTED with both
 *           numbers above these bounds.
 */
#ifndef QR_FORMAT_NPZ_H
#define QR_FORMAT_NPZ_H

#include "base/bytes.h"
#include "format/tensor.h"

/* Random booleans of which a half, a tenth, a fiftieth are true become 50, 84, 243 times what
 * numpy.savez_compressed makes of them; zeros 8256 times. */
enum { QR_NPZ_FREE_BYTES = 256 << 20, QR_NPZ_INFLATION = 256 };

/* Names and shapes of all arrays; their values are NULL. */
QR_MUST_CHECK enum qr_code qr_npz_shapes(struct qr_bytes file, const char *what,
                                         struct qr_tensors *ret, struct qr_err *err);
/* The arrays of these names, as far as they are there (a list that ends with NULL; NULL: all). */
QR_MUST_CHECK enum qr_code qr_npz_read(struct qr_bytes file, const char *what,
                                       const char *const *names, size_t max_bytes,
                                       struct qr_tensors *ret, struct qr_err *err);
/* Stored, float64 ("<f8"), members "<name>.npy" in order; '/' stays in names. No times: equal
 * input, equal bytes. */
void qr_npz_write(const struct qr_tensors *t, struct qr_buf *ret);

#endif
