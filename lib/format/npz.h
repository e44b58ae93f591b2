/* format/npz.h — NumPy's .npy and .npz (zip of .npy; stored or deflated).
 *
 * Source    NEP 1 (npy 1.0, 2.0, 3.0); zip64 as numpy.savez writes it; inflate by zlib. dtypes f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1, either byte
 *           order, C or Fortran order (transposed to C). '|O' and others are refused by name.
 * Bounds    every size is checked before it is allocated; members that inflate above max_bytes together are refused; at most 4096 of them.
 * Errors    DATA_LOSS, naming `what`, the member and what is wrong.
 */
#ifndef QR_FORMAT_NPZ_H
#define QR_FORMAT_NPZ_H

#include "base/bytes.h"
#include "format/tensor.h"

QR_MUST_CHECK enum qr_code qr_npz_read(struct qr_bytes file, const char *what, size_t max_bytes,
                                       struct qr_tensors *ret, struct qr_err *err);
/* Stored, float64 ("<f8"), members "<name>.npy" in order; '/' stays in names. No times: equal input, equal bytes. */
void qr_npz_write(const struct qr_tensors *t, struct qr_buf *ret);

#endif
