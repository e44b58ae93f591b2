#include "monitor/status.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "cluster/identity.h"

enum { REPLY_BYTES = 1 << 20, HTTP_PORT = 8080 };

/* ---- one question ---- */

struct status_visit {
    const char *address, *host;
    unsigned port;
    int64_t end_ns;
};

/* True when the socket may be read from or written to before the end. */
static bool wait_for(const struct status_visit *v, int fd, short events) {
    struct pollfd p = {.fd = fd, .events = events};
    int64_t left_ns = v->end_ns - qr_now_ns(&qr_clock_monotonic);
    return left_ns > 0 && poll(&p, 1, (int)(left_ns / QR_MS) + 1) > 0;
}

static enum qr_code late(const struct status_visit *v, const char *what, struct qr_err *err) {
    return qr_fail(err, QR_DEADLINE_EXCEEDED,
                   "%s %s within %d s: is it a worker's port for probes (--http-port)?", v->address,
                   what, (int)(QR_STATUS_TIMEOUT_NS / QR_SECOND));
}

/* The socket, connected, or -1 and why in errno; ETIMEDOUT at the end of the time. */
static int connect_to(const struct status_visit *v, const struct addrinfo *a) {
    int sys = 0, fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t n = sizeof sys;
    if (fd < 0) return -1;
    if (connect(fd, a->ai_addr, a->ai_addrlen) == 0) return fd;
    if (errno != EINPROGRESS) sys = errno;
    else if (!wait_for(v, fd, POLLOUT)) sys = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &sys, &n) != 0) sys = errno;
    if (!sys) return fd;
    close(fd);
    errno = sys;
    return -1;
}

static enum qr_code dial(struct status_visit *v, int *ret_fd, struct qr_err *err) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    char service[8];
    int fd = -1, sys = 0;
    snprintf(service, sizeof service, "%u", v->port);
    int gai = getaddrinfo(v->host, service, &hints, &list);
    if (gai != 0)
        return qr_fail(err, gai == EAI_AGAIN ? QR_UNAVAILABLE : QR_INVALID_ARGUMENT, "%s: %s",
                       v->address, gai_strerror(gai));
    v->end_ns = qr_now_ns(&qr_clock_monotonic) + QR_STATUS_TIMEOUT_NS;
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = connect_to(v, a);
        if (fd < 0) sys = errno;
    }
    freeaddrinfo(list);
    *ret_fd = fd;
    if (fd >= 0) return QR_OK;
    if (sys == ETIMEDOUT) return late(v, "takes no connection", err);
    if (sys == ECONNREFUSED)
        return qr_fail(err, QR_UNAVAILABLE,
                       "nobody listens on port %u of %s: the worker has ended, or its --http-port "
                       "is another one, or 0",
                       v->port, v->host);
    return qr_fail_errno(err, sys, "connect to %s", v->address);
}

static enum qr_code exchange(const struct status_visit *v, int fd, const struct qr_buf *request,
                             struct qr_buf *ret, struct qr_err *err) {
    char part[4096];
    size_t sent = 0;
    while (sent < request->n) {
        ssize_t n = send(fd, request->p + sent, request->n - sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return qr_fail(err, QR_UNAVAILABLE, "%s closed the connection", v->address);
        if (n > 0) sent += (size_t)n;
        else if (!wait_for(v, fd, POLLOUT)) return late(v, "reads nothing", err);
    }
    for (;;) {
        if (!wait_for(v, fd, POLLIN)) return late(v, "did not answer", err);
        ssize_t n = recv(fd, part, sizeof part, 0);
        if (n == 0) return QR_OK;
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (n < 0)
            return qr_fail(err, QR_UNAVAILABLE,
                           "%s broke the connection: the worker may just be ending", v->address);
        qr_buf_put(ret, part, (size_t)n);
        if (!qr_buf_ok(ret))
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "%s is no qring worker: its answer has more than 1 MiB", v->address);
    }
}

/* The body of a good answer; empty for 404. */
static enum qr_code get(struct status_visit *v, const char *path, struct qr_buf *ret,
                        struct qr_bytes *ret_body, struct qr_err *err) {
    struct qr_buf request = {0};
    unsigned status = 0;
    int fd;
    if (dial(v, &fd, err) != QR_OK) return err->code;
    qr_buf_printf(&request, "GET %s HTTP/1.0\r\nHost: %s\r\nConnection: close\r\n\r\n", path,
                  v->host);
    qr_buf_clear(ret);
    enum qr_code code = exchange(v, fd, &request, ret, err);
    close(fd);
    qr_buf_free(&request);
    if (code != QR_OK) return code;
    if (ret->n == 0)
        return qr_fail(err, QR_UNAVAILABLE, "%s closed the connection without an answer",
                       v->address);
    if (qr_status_reply(qr_buf_view(ret), &status, ret_body, err) != QR_OK)
        return qr_wrap(err, "%s is no qring worker", v->address);
    if (status == 404) *ret_body = (struct qr_bytes){0};
    else if (status != 200)
        return qr_fail(err, QR_UNAVAILABLE, "%s answers %s with status %u", v->address, path,
                       status);
    return QR_OK;
}

/* ---- all of them ---- */

static enum qr_code metrics(struct status_visit *v, struct qr_buf *text, struct qr_status *ret,
                            struct qr_err *err) {
    struct qr_bytes body;
    enum qr_code code = get(v, "/metrics", text, &body, err);
    if (code != QR_OK) return code;
    return qr_status_parse(body, ret, err) == QR_OK
               ? QR_OK
               : qr_wrap(err, "%s is no qring worker", v->address);
}

/* "1700000000 W group: ..." */
static void read_last_error(struct qr_bytes body, struct qr_status_pair *s) {
    size_t i = 0, n = 0;
    for (; i < body.n && body.p[i] >= '0' && body.p[i] <= '9'; i++)
        s->last_error_s = s->last_error_s * 10 + (body.p[i] - '0');
    if (i < body.n && body.p[i] == ' ') i++;
    for (; i < body.n && body.p[i] != '\n' && n + 1 < sizeof s->last_error; i++) {
        bool plain = body.p[i] >= 0x20 && body.p[i] != 0x7f; /* it is shown on a terminal */
        s->last_error[n++] = plain ? (char)body.p[i] : '?';
    }
    s->last_error[n] = 0;
}

/* first: asks twice, a second apart; else what was known is the first answer. */
static enum qr_code ask(const char *address, bool first, struct qr_status_pair *ret,
                        struct qr_err *err) {
    qr_auto(qr_free_p) char *host = NULL;
    struct status_visit v = {.address = address};
    struct qr_status_pair s = {0};
    struct qr_buf text = {.max = REPLY_BYTES};
    struct qr_bytes body = {0};
    enum qr_code code = QR_OK;
    if (!qr_address_split(address, HTTP_PORT, &host, &v.port))
        return qr_fail(err, QR_INVALID_ARGUMENT, "'%.200s' is no HOST:PORT: %s", address,
                       qr_address_fault(address));
    v.host = host;
    if (first) code = metrics(&v, &text, &s.was, err);
    else s.was = ret->is;
    if (code == QR_OK && first) qr_sleep_ns(QR_SECOND);
    if (code == QR_OK) code = metrics(&v, &text, &s.is, err);
    bool anew = code == QR_OK && !(s.is.uptime_s > s.was.uptime_s);
    if (anew && first)
        code = qr_fail(err, QR_UNAVAILABLE, "%s was started again just now: ask again", address);
    if (code == QR_OK) code = get(&v, "/last-error", &text, &body, err);
    if (code == QR_OK) {
        if (anew) s.was = s.is;
        s.interval_s = anew ? 1 : s.is.uptime_s - s.was.uptime_s;
        read_last_error(body, &s);
        *ret = s;
    }
    qr_buf_free(&text);
    return code;
}

enum qr_code qr_status_query(const char *address, struct qr_status_pair *ret, struct qr_err *err) {
    return ask(address, true, ret, err);
}

enum qr_code qr_status_query_again(const char *address, struct qr_status_pair *ret,
                                   struct qr_err *err) {
    return ask(address, false, ret, err);
}
