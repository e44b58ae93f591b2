/* tests/fuzz/gcs_replies.h — a server of Cloud Storage whose replies are parts of the input, in
 * turn: three digits of the status, then the body; then there is no answer. */
#ifndef GCS_REPLIES_H
#define GCS_REPLIES_H

#include "store/gcs_impl.h"
#include "tests/fuzz/parts.h"

struct answers {
    struct qr_web http;
    char **part;
    size_t n, next;
};

static inline enum qr_code gcs_reply(struct qr_web *h, const struct qr_web_request *req,
                                     struct qr_web_reply *ret, struct qr_err *err) {
    struct answers *a = (struct answers *)(void *)h;
    *ret = (struct qr_web_reply){.status = 0};
    if (a->next >= a->n || strlen(a->part[a->next]) < 3)
        return qr_fail(err, QR_UNAVAILABLE, "no answer");
    const char *text = a->part[a->next++];
    ret->status = text[0] % 16 % 10 * 100 + text[1] % 16 % 10 * 10 + text[2] % 16 % 10;
    ret->body.max = req->max_reply_bytes + 1;
    qr_buf_puts(&ret->body, text + 3);
    return QR_OK;
}

#endif
