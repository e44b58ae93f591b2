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
    const char *text;
    return qr_json_string(v, "", &text, QR_IGNORED) == QR_OK && qr_parse_u64(text, ret);
}

enum qr_code qr_gcs_read_object(void *ctx, const struct qr_web_reply *reply, struct qr_err *err) {
    struct qr_gcs_object *ret = ctx;
    struct qr_json *root = NULL;
    struct qr_gcs_object o = {0};
    const char *text;
    enum qr_code code =
        qr_json_parse(qr_buf_view(&reply->body), "the object's description", &root, err);
    if (code != QR_OK) return code;
    if (!gcs_u64(qr_json_get(root, "size"), &o.size) ||
        !gcs_u64(qr_json_get(root, "generation"), &o.generation) ||
        qr_json_string(qr_json_get(root, "crc32c"), "crc32c", &text, QR_IGNORED) != QR_OK ||
        !qr_web_crc32c_parse(text, &o.crc32c))
        code = qr_fail(err, QR_INVALID_ARGUMENT,
                       "the object's description lacks size, generation or crc32c");
    if (qr_json_string(qr_json_get(qr_json_get(root, "metadata"), "qring-write-id"), "", &text,
                       QR_IGNORED) == QR_OK &&
        strlen(text) < sizeof o.write_id)
        memcpy(o.write_id, text, strlen(text));
    qr_json_free(root);
    if (code == QR_OK) *ret = o;
    return code;
}

bool qr_gcs_is_error(struct qr_bytes body) {
    struct qr_json *root = NULL;
    int64_t n;
    if (qr_json_parse(body, "", &root, QR_IGNORED) != QR_OK) return false;
    bool is = qr_json_i64(qr_json_get(qr_json_get(root, "error"), "code"), "", 100, 999, &n,
                          QR_IGNORED) == QR_OK;
    qr_json_free(root);
    return is;
}

void qr_gcs_error_text(struct qr_bytes body, char *ret, size_t bytes) {
    struct qr_json *root = NULL;
    const char *text = "";
    if (qr_json_parse(body, "", &root, QR_IGNORED) == QR_OK) {
        const struct qr_json *e = qr_json_get(root, "error");
        if (qr_json_string(qr_json_get(e, "message"), "", &text, QR_IGNORED) != QR_OK &&
            qr_json_string(e, "", &text, QR_IGNORED) != QR_OK)
            text = "";
    }
    qr_text_cut(ret, bytes, text);
    qr_json_free(root);
}
