/* A web server with arbitrary replies: the first part, up to a NUL, is the URL, the second the file
 * of tokens, the others are replies in turn (three digits of the status, header lines up to an
 * empty one, the body; one that begins with ! breaks off). Every read ends with success or an
 * error; its result has the announced size; a token goes only to its host, and no request to an
 * unencrypted server except on this machine. The parts are also read as addresses and redirects. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "store/https.h"
#include "tests/fuzz/store_replies.h"

struct web_answers {
    struct answers a;
    size_t most; /* bytes of the longest body */
};

static enum qr_code answer(struct qr_web *h, const struct qr_web_request *req,
                           struct qr_web_reply *ret, struct qr_err *err) {
    struct web_answers *a = (struct web_answers *)(void *)h;
    struct qr_web_url at;
    struct qr_err ignored;
    QR_ASSERT(qr_web_url_parse(NULL, req->url, &at, &ignored) == QR_OK);
    QR_ASSERT(strcmp(at.whole, req->url) == 0 && (at.https || at.loopback));
    for (size_t i = 0; i < req->n_headers; i++) {
        QR_ASSERT(!strpbrk(req->headers[i], "\r\n"));
        if (strncmp(req->headers[i], "Authorization:", 14) == 0) {
            char *again = NULL;
            QR_ASSERT(qr_https_token(qr_bytes_of_string(a->a.part[1]), at.host, &again, &ignored) ==
                          QR_OK &&
                      again && strcmp(again, req->headers[i]) == 0);
            free(again);
        }
    }
    qr_web_url_fini(&at);
    const char *text = next_answer(&a->a, req, ret);
    if (!text) return qr_fail(err, QR_UNAVAILABLE, "no answer");
    bool broken = *text == '!';
    text += broken;
    while (*text && *text != '\n') {
        size_t n = strcspn(text, "\n");
        qr_web_reply_header(ret, text, n);
        text += n + (text[n] == '\n');
    }
    size_t n = *text ? strlen(text + 1) : 0, max = req->max_reply_bytes;
    if (!ret->has_length && req->max_unsized_bytes < max) max = req->max_unsized_bytes;
    ret->too_long = n > max || (ret->has_length && n && ret->length > max);
    if (ret->too_long) return qr_fail(err, QR_DATA_LOSS, "too long");
    if (n) qr_buf_put(&ret->body, text + 1, n);
    /* As in libcurl: no more than the announced length, and less is an incomplete reply. */
    if (ret->has_length && n > ret->length) ret->body.n = (size_t)ret->length;
    if (ret->body.n > a->most) a->most = ret->body.n;
    broken |= ret->has_length && n < ret->length;
    return broken ? qr_fail(err, QR_UNAVAILABLE, "connection broke") : QR_OK;
}

static void addresses(const char *text) {
    struct qr_web_url u, again;
    struct qr_err err;
    qr_auto(qr_free_p) char *shown = qr_web_url_redacted(text);
    qr_auto(qr_free_p) char *host = qr_web_url_host(text);
    QR_ASSERT(strlen(shown) <= strlen(text) + 3);
    QR_ASSERT(!strpbrk(host, "@/?#"));
    static const char *const bases[] = {NULL, "https://h.example/a/b?c"};
    for (size_t i = 0; i < 2; i++) {
        if (qr_web_url_parse(bases[i], text, &u, &err) != QR_OK) {
            QR_ASSERT(err.msg[0]);
            continue;
        }
        QR_ASSERT(u.whole[u.path] == '/' && !strpbrk(u.whole, " \r\n#") && strchr(u.host, ':'));
        QR_ASSERT(qr_web_url_parse(NULL, u.whole, &again, &err) == QR_OK);
        QR_ASSERT(strcmp(u.whole, again.whole) == 0 && strcmp(u.host, again.host) == 0 &&
                  u.loopback == again.loopback && u.https == again.https && u.path == again.path);
        qr_web_url_fini(&u);
        qr_web_url_fini(&again);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct qr_https_options opt = {.waits = virtual_waits};
    char *part[MAX_PARTS], *name = NULL, *token = NULL;
    struct web_answers a = {.a = {.web = {answer, close_nothing}, .part = part, .next = 2}};
    struct qr_store *s = NULL;
    struct qr_err err = {0};
    struct qr_buf b = {0};
    parts_of(data, size, 0, part, MAX_PARTS, &a.a.n);
    for (size_t i = 0; i < a.a.n; i++) addresses(part[i]);
    if (a.a.n > 1 &&
        qr_https_token(qr_bytes_of_string(part[1]), "h.example:443", &token, &err) != QR_OK)
        QR_ASSERT(err.msg[0] && !token);
    virtual_ns = 1700000000 * QR_SECOND;
    char tokens[40];
    int fd = memfd_create("tokens", MFD_CLOEXEC);
    snprintf(tokens, sizeof tokens, "/proc/self/fd/%d", fd);
    if (a.a.n > 1 && fd >= 0 && write(fd, part[1], strlen(part[1])) == (ssize_t)strlen(part[1]))
        opt.tokens = tokens;
    if (qr_store_https_new(part[0], &opt, &a.a.web, &s, &name, &err) == QR_OK) {
        enum qr_code code = s->ops->get(s, name, 1 << 12, &b, &err);
        QR_ASSERT(code == QR_OK ? b.n <= 1 << 12 : err.code == code && err.msg[0]);
        s->ops->close(s);
    } else {
        QR_ASSERT(err.msg[0] && !s && !name);
    }
    if (fd >= 0) close(fd);
    free(name);
    free(token);
    qr_buf_free(&b);
    parts_free(part, a.a.n);
    return 0;
}
