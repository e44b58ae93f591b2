/* store/gcs_reply.c — parses replies of the Cloud Storage API. Start reading at
 * qr_gcs_read_object(). */
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "format/json.h"
#include "store/gcs_impl.h"

/* 64-bit numbers are strings in this API. */
static bool gcs_u64(const struct qr_json *v, uint64_t *ret) {
    return qr_parse_u64(qr_json_text(v, ""), ret);
}

enum qr_code qr_gcs_read_object(void *ctx, const struct qr_web_reply *reply, struct qr_err *err) {
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    struct qr_web_object o = {.has_crc32c = true};
    QR_TRY(qr_json_parse(qr_buf_view(&reply->body), "the object's description", &root, err));
    if (!gcs_u64(qr_json_get(root, "size"), &o.size) ||
        !gcs_u64(qr_json_get(root, "generation"), &o.generation) ||
        !qr_web_crc32c_parse(qr_json_text(qr_json_get(root, "crc32c"), ""), &o.crc32c))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "the object's description lacks size, generation or crc32c");
    const char *id = qr_json_text(qr_json_get(qr_json_get(root, "metadata"), "qring-write-id"), "");
    if (strlen(id) < sizeof o.write_id) memcpy(o.write_id, id, strlen(id));
    *(struct qr_web_object *)ctx = o;
    return QR_OK;
}

bool qr_gcs_is_error(struct qr_bytes body) {
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    int64_t n;
    return qr_json_parse(body, "", &root, QR_IGNORED) == QR_OK &&
           qr_json_i64(qr_json_get(qr_json_get(root, "error"), "code"), "", 100, 999, &n,
                       QR_IGNORED) == QR_OK;
}

void qr_gcs_error_text(struct qr_bytes body, char *ret, size_t bytes) {
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    bool parsed = qr_json_parse(body, "", &root, QR_IGNORED) == QR_OK;
    const struct qr_json *e = parsed ? qr_json_get(root, "error") : NULL;
    qr_text_cut(ret, bytes, qr_json_text(qr_json_get(e, "message"), qr_json_text(e, "")));
}
