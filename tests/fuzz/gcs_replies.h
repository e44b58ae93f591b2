/* tests/fuzz/gcs_replies.h — a Cloud Storage server whose replies are parts of the input, in turn:
 * three digits of the status, then the body. After the last part there is no reply. */
#ifndef GCS_REPLIES_H
#define GCS_REPLIES_H

#include "store/gcs_impl.h"
#include "tests/fuzz/store_replies.h"

static inline enum qr_code gcs_reply(struct qr_web *h, const struct qr_web_request *req,
                                     struct qr_web_reply *ret, struct qr_err *err) {
    const char *text = next_answer((struct answers *)(void *)h, req, ret);
    if (!text) return qr_fail(err, QR_UNAVAILABLE, "no answer");
    qr_buf_puts(&ret->body, text);
    return QR_OK;
}

#endif
