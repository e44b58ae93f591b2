/* tests/fuzz/store_replies.h — a store in a bucket whose server's replies are parts of the input,
 * in turn: three digits of the status, then data for the target. After the last part there is no
 * reply. Time is virtual: a sleep moves the clock. */
#ifndef STORE_REPLIES_H
#define STORE_REPLIES_H

#include "store/store.h"
#include "store/web/bucket.h"
#include "tests/fuzz/parts.h"

enum { MAX_PARTS = 12 };
struct answers {
    struct qr_web web;
    char **part;
    size_t n, next;
};

/* Returns the text after the next part's status, which is set in *ret; NULL: there is no reply. */
static inline const char *next_answer(struct answers *a, const struct qr_web_request *req,
                                      struct qr_web_reply *ret) {
    *ret = (struct qr_web_reply){.status = 0};
    if (a->next >= a->n || strlen(a->part[a->next]) < 3) return NULL;
    const char *text = a->part[a->next++];
    ret->status = text[0] % 16 % 10 * 100 + text[1] % 16 % 10 * 10 + text[2] % 16 % 10;
    ret->body.max = req->max_reply_bytes + 1;
    return text + 3;
}

static inline void close_nothing(struct qr_web *h) { (void)h; }

static int64_t virtual_ns;
static inline int64_t now(void *ctx) { return (void)ctx, virtual_ns; }
static inline void pass_time(int64_t ns) { virtual_ns += ns; }
static const struct qr_clock virtual_clock = {now, NULL};
static const struct qr_web_waits virtual_waits = {.clock = &virtual_clock,
                                                  .wall = &virtual_clock,
                                                  .sleep = pass_time,
                                                  .deadline_ns = 60 * QR_SECOND};

enum op { GET, LIST, PUT, CREATE, REMOVE, SWAP, CHECK_WRITE };
static inline enum qr_code run_operation(struct qr_store *s, enum op op, struct qr_buf *b,
                                         struct qr_err *err) {
    const char *name = "dir/w";
    struct qr_store_version v = {.there = true};
    struct qr_bytes content = qr_bytes_of_string("weights");
    enum qr_code code = QR_OK;
    switch (op) {
    case GET: code = s->ops->get(s, name, 1 << 16, b, err); break;
    case LIST: code = s->ops->list(s, name, b, err); break;
    case PUT: code = s->ops->put(s, name, content, false, err); break;
    case CREATE: code = s->ops->put(s, name, content, true, err); break;
    case REMOVE: code = s->ops->remove(s, name, err); break;
    case SWAP: code = s->ops->swap(s, name, content, &v, err); break;
    case CHECK_WRITE: code = s->ops->check_writable(s, name, err); break;
    }
    QR_ASSERT(code == QR_OK || (err->code == code && err->msg[0]));
    return code;
}

#endif
