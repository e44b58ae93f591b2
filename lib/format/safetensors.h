/* format/safetensors.h — reads and writes safetensors: u64le N | N bytes of JSON header | data.
 *
 * Writing   F64; the header is padded with blanks so that the data begins at a multiple of 8;
 *           tensors in order, metadata sorted: equal input gives equal bytes.
 * Reading   F64 F32, all integer types, BOOL. Rejects gaps, overlaps, ranges outside the file,
 *           sizes that do not match shapes, and headers above 100 MiB.
 * Errors    DATA_LOSS, naming `what` (the file) and the tensor; RESOURCE_EXHAUSTED.
 * Threads   any; pure functions.
 */
#ifndef QR_FORMAT_SAFETENSORS_H
#define QR_FORMAT_SAFETENSORS_H

#include "base/bytes.h"
#include "format/tensor.h"

struct qr_metadata {
    const char *key, *value;
};
/* Appends a file. */
void qr_safetensors_write(const struct qr_tensors *t, const struct qr_metadata *metadata,
                          size_t n_metadata, struct qr_buf *ret);
/* Reads all tensors in the header's order; free with qr_tensors_free. */
QR_MUST_CHECK enum qr_code qr_safetensors_read(struct qr_bytes file, const char *what,
                                               struct qr_tensors *ret, struct qr_err *err);
/* Reads the header as JSON, with "__metadata__" if the file has any. Values are not read. Free with
 * qr_json_free. */
struct qr_json;
QR_MUST_CHECK enum qr_code qr_safetensors_header(struct qr_bytes file, const char *what,
                                                 struct qr_json **ret, struct qr_err *err);

#endif
