/* monitor/status.c — an HTTP client with a deadline for a worker's port. Start reading at
 * status_query(). */
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

/* ---- one request ---- */

struct status_request {
    const char *address, *host;
    unsigned port;
    int64_t end_ns;
};

/* True when the socket becomes readable or writable before the deadline. */
static bool status_wait_for(const struct status_request *v, int fd, short events) {
    struct pollfd p = {.fd = fd, .events = events};
    int64_t left_ns = v->end_ns - qr_now_ns(&qr_clock_monotonic);
    return left_ns > 0 && poll(&p, 1, (int)(left_ns / QR_MS) + 1) > 0;
}

static enum qr_code status_fail_late(const struct status_request *v, const char *what,
                                     struct qr_err *err) {
    return qr_fail(err, QR_DEADLINE_EXCEEDED,
                   "%s %s within %d s: check that this is a worker's --http-port", v->address, what,
                   (int)(QR_STATUS_TIMEOUT_NS / QR_SECOND));
}

/* Returns a connected socket, or -1 with errno; ETIMEDOUT at the deadline. */
static int status_connect_to(const struct status_request *v, const struct addrinfo *a) {
    int sys = 0, fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t n = sizeof sys;
    if (fd < 0) return -1;
    if (connect(fd, a->ai_addr, a->ai_addrlen) == 0) return fd;
    if (errno != EINPROGRESS) sys = errno;
    else if (!status_wait_for(v, fd, POLLOUT)) sys = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &sys, &n) != 0) sys = errno;
    if (!sys) return fd;
    close(fd);
    errno = sys;
    return -1;
}

static enum qr_code status_dial(struct status_request *v, int *ret_fd, struct qr_err *err) {
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
        fd = status_connect_to(v, a);
        if (fd < 0) sys = errno;
    }
    freeaddrinfo(list);
    *ret_fd = fd;
    if (fd >= 0) return QR_OK;
    if (sys == ETIMEDOUT) return status_fail_late(v, "did not accept the connection", err);
    if (sys == ECONNREFUSED)
        return qr_fail(err, QR_UNAVAILABLE,
                       "no process listens on port %u of %s: the worker has exited, or its "
                       "--http-port is another one, or 0",
                       v->port, v->host);
    return qr_fail_errno(err, sys, "cannot connect to %s", v->address);
}

static enum qr_code status_exchange(const struct status_request *v, int fd,
                                    const struct qr_buf *request, struct qr_buf *ret,
                                    struct qr_err *err) {
    char part[4096];
    size_t sent = 0;
    while (sent < request->n) {
        ssize_t n = send(fd, request->p + sent, request->n - sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return qr_fail(err, QR_UNAVAILABLE, "%s closed the connection", v->address);
        if (n > 0) sent += (size_t)n;
        else if (!status_wait_for(v, fd, POLLOUT))
            return status_fail_late(v, "did not read the request", err);
    }
    for (;;) {
        if (!status_wait_for(v, fd, POLLIN)) return status_fail_late(v, "did not answer", err);
        ssize_t n = recv(fd, part, sizeof part, 0);
        if (n == 0) return QR_OK;
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (n < 0)
            return qr_fail(err, QR_UNAVAILABLE,
                           "%s reset the connection: the worker may be exiting", v->address);
        qr_buf_put(ret, part, (size_t)n);
        if (!qr_buf_ok(ret))
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "%s is not a qring worker: its response exceeds 1 MiB", v->address);
    }
}

/* Returns the body of a response with status 200; empty for 404. */
static enum qr_code status_get(struct status_request *v, const char *path, struct qr_buf *ret,
                               struct qr_bytes *ret_body, struct qr_err *err) {
    struct qr_buf request = {0};
    unsigned status = 0;
    int fd;
    if (status_dial(v, &fd, err) != QR_OK) return err->code;
    qr_buf_printf(&request, "GET %s HTTP/1.0\r\nHost: %s\r\nConnection: close\r\n\r\n", path,
                  v->host);
    qr_buf_clear(ret);
    enum qr_code code = status_exchange(v, fd, &request, ret, err);
    close(fd);
    qr_buf_free(&request);
    if (code != QR_OK) return code;
    if (ret->n == 0)
        return qr_fail(err, QR_UNAVAILABLE, "%s closed the connection without a response",
                       v->address);
    if (qr_status_reply(qr_buf_view(ret), &status, ret_body, err) != QR_OK)
        return qr_wrap(err, "%s is not a qring worker", v->address);
    if (status == 404) *ret_body = (struct qr_bytes){0};
    else if (status != 200)
        return qr_fail(err, QR_UNAVAILABLE, "%s answers %s with status %u", v->address, path,
                       status);
    return QR_OK;
}

/* ---- a query ---- */

static enum qr_code status_get_metrics(struct status_request *v, struct qr_buf *text,
                                       struct qr_status *ret, struct qr_err *err) {
    struct qr_bytes body;
    enum qr_code code = status_get(v, "/metrics", text, &body, err);
    if (code != QR_OK) return code;
    return qr_status_parse(body, ret, err) == QR_OK
               ? QR_OK
               : qr_wrap(err, "%s is not a qring worker", v->address);
}

/* Parses "1700000000 W group: ...". */
static void status_read_last_error(struct qr_bytes body, struct qr_status_pair *s) {
    size_t i = 0, n = 0;
    for (; i < body.n && body.p[i] >= '0' && body.p[i] <= '9'; i++)
        s->last_error_s = s->last_error_s * 10 + (body.p[i] - '0');
    if (i < body.n && body.p[i] == ' ') i++;
    for (; i < body.n && body.p[i] != '\n' && n + 1 < sizeof s->last_error; i++) {
        bool plain = body.p[i] >= 0x20 && body.p[i] != 0x7f; /* for a terminal */
        s->last_error[n++] = plain ? (char)body.p[i] : '?';
    }
    s->last_error[n] = 0;
}

/* first: sends two requests, a second apart; else ret->is is taken as the first response. */
static enum qr_code status_query(const char *address, bool first, struct qr_status_pair *ret,
                                 struct qr_err *err) {
    qr_auto(qr_free_p) char *host = NULL;
    struct status_request v = {.address = address};
    struct qr_status_pair s = {0};
    struct qr_buf text = {.max = REPLY_BYTES};
    struct qr_bytes body = {0};
    enum qr_code code = QR_OK;
    if (!qr_address_split(address, HTTP_PORT, &host, &v.port))
        return qr_fail(err, QR_INVALID_ARGUMENT, "'%.200s' is not HOST:PORT: %s", address,
                       qr_address_fault(address));
    v.host = host;
    if (first) code = status_get_metrics(&v, &text, &s.was, err);
    else s.was = ret->is;
    if (code == QR_OK && first) qr_sleep_ns(QR_SECOND);
    if (code == QR_OK) code = status_get_metrics(&v, &text, &s.is, err);
    bool restarted = code == QR_OK && !(s.is.uptime_s > s.was.uptime_s);
    if (restarted && first)
        code = qr_fail(err, QR_UNAVAILABLE, "%s was restarted meanwhile: please retry", address);
    if (code == QR_OK) code = status_get(&v, "/last-error", &text, &body, err);
    if (code == QR_OK) {
        if (restarted) s.was = s.is;
        s.interval_s = restarted ? 1 : s.is.uptime_s - s.was.uptime_s;
        status_read_last_error(body, &s);
        *ret = s;
    }
    qr_buf_free(&text);
    return code;
}

enum qr_code qr_status_query(const char *address, struct qr_status_pair *ret, struct qr_err *err) {
    return status_query(address, true, ret, err);
}

enum qr_code qr_status_query_again(const char *address, struct qr_status_pair *ret,
                                   struct qr_err *err) {
    return status_query(address, false, ret, err);
}
