/* format/safetensors.h — u64le N | N bytes of JSON header | data.
 *
 * Written as F64, header padded by blanks so that data begins at a multiple of 8, tensors in order,
 * metadata sorted. Reads F64 F32 I64 I32 U8 and the other integer types. Refuses holes, overlap,
 * ranges outside the file, sizes that do not match shapes, headers > 100 MB.
 * Errors    DATA_LOSS naming `what` and the tensor.
 */
#ifndef QR_FORMAT_SAFETENSORS_H
#define QR_FORMAT_SAFETENSORS_H

#include "base/bytes.h"
#include "format/tensor.h"

struct qr_metadata {
    const char *key, *value;
};
void qr_safetensors_write(const struct qr_tensors *t, const struct qr_metadata *metadata,
                          size_t n_metadata, struct qr_buf *ret);
QR_MUST_CHECK enum qr_code qr_safetensors_read(struct qr_bytes file, const char *what,
                                               struct qr_tensors *ret, struct qr_err *err);
/* The header as JSON, with "__metadata__" where the file has any; the values are not looked at.
 * Free with qr_json_free. */
struct qr_json;
QR_MUST_CHECK enum qr_code qr_safetensors_header(struct qr_bytes file, const char *what,
                                                 struct qr_json **ret, struct qr_err *err);

#endif
