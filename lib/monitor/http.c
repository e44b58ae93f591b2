/* monitor/http.c — libmicrohttpd in a thread of its own, with limits on connections that
 * libmicrohttpd lacks. Start reading at http_serve(). */
#include "monitor/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "monitor/health.h"
#include "monitor/last_error.h"
#include "monitor/status.h"

/* MAX_CLOSING: slots beyond o.connections for connections that are shut down but not closed yet.
 * BACKLOG: large, because a client that finds the backlog full retries after a second, too late for
 * a probe. */
enum { POOL_BYTES = 8192, LOOK_MS = 1000, BACKLOG = 1024, MAX_CLOSING = 32 };

struct http_connection {
    enum { CONNECTION_FREE, CONNECTION_OPEN, CONNECTION_CLOSING } state;
    int fd;
    int64_t since_ns;
    uint64_t turn;
    uint8_t address[16]; /* IPv4 as ::ffff:a.b.c.d */
};

struct qr_http {
    struct qr_http_options o;
    char *version, *contract, *isa;
    struct MHD_Daemon *daemon;
    pthread_t thread;
    int wake, epoll;
    atomic_bool quit, ready;
    struct qr_watch watch[QR_HTTP_N_WATCHES];
    /* Used by the server's thread only */
    struct http_connection *slots; /* o.connections + MAX_CLOSING of them */
    uint64_t turns;
    struct qr_buf text;
};

/* ---- answers ---- */

static enum MHD_Result http_respond(struct MHD_Connection *c, unsigned status, const char *type,
                                    const char *text, size_t n) {
    struct MHD_Response *r =
        MHD_create_response_from_buffer(n, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    if (!r) return MHD_NO;
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    /* One request per connection, since the duration of a connection is limited. */
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result done = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return done;
}

static enum MHD_Result http_respond_text(struct MHD_Connection *c, unsigned status,
                                         const char *text) {
    return http_respond(c, status, "text/plain; charset=utf-8", text, strlen(text));
}

static enum MHD_Result respond_healthz(struct qr_http *h, struct MHD_Connection *c) {
    char why[160];
    qr_buf_clear(&h->text);
    for (int i = 0; i < QR_HTTP_N_WATCHES; i++)
        if (!qr_watch_check(&h->watch[i], why, sizeof why)) qr_buf_printf(&h->text, "%s\n", why);
    if (!h->text.n) return http_respond_text(c, MHD_HTTP_OK, "ok\n");
    return http_respond_text(c, MHD_HTTP_SERVICE_UNAVAILABLE, qr_buf_string(&h->text));
}

static enum MHD_Result respond_metrics(struct qr_http *h, struct MHD_Connection *c) {
    qr_buf_clear(&h->text);
    qr_metrics_text(&h->o.build, qr_now_ns(h->o.clock) - h->o.began_ns, &h->text);
    return http_respond(c, MHD_HTTP_OK, QR_METRICS_TYPE, (const char *)h->text.p, h->text.n);
}

static enum MHD_Result respond_status(struct qr_http *h, struct MHD_Connection *c) {
    struct qr_status s = qr_status_of_process(&h->o.build, qr_now_ns(h->o.clock) - h->o.began_ns);
    qr_buf_clear(&h->text);
    struct qr_json_writer w = qr_json_writer(&h->text, 0);
    qr_json_open(&w, '{');
    qr_status_put(&s, &w);
    qr_json_close(&w, '}');
    return http_respond(c, MHD_HTTP_OK, "application/json", (const char *)h->text.p, h->text.n);
}

static enum MHD_Result respond_last_error(struct qr_http *h, struct MHD_Connection *c) {
    char line[2048];
    double at_s = qr_last_error_get(line, sizeof line);
    qr_buf_clear(&h->text);
    if (*line) qr_buf_printf(&h->text, "%.0f %s\n", at_s, line);
    return http_respond_text(c, MHD_HTTP_OK, qr_buf_string(&h->text));
}

static enum MHD_Result http_on_request(void *ctx, struct MHD_Connection *c, const char *url,
                                       const char *method, const char *version, const char *upload,
                                       size_t *upload_bytes, void **per_request) {
    struct qr_http *h = ctx;
    (void)version;
    (void)upload;
    (void)upload_bytes;
    (void)per_request;
    bool known = strcmp(url, "/healthz") == 0 || strcmp(url, "/readyz") == 0 ||
                 strcmp(url, "/metrics") == 0 || strcmp(url, "/status") == 0 ||
                 strcmp(url, "/last-error") == 0;
    if (!known)
        return http_respond_text(
            c, MHD_HTTP_NOT_FOUND,
            "not found; try /healthz, /readyz, /metrics, /status or /last-error\n");
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return http_respond_text(c, MHD_HTTP_METHOD_NOT_ALLOWED,
                                 "method not allowed; use GET or HEAD\n");
    if (url[1] == 'h') return respond_healthz(h, c);
    if (url[1] == 'm') return respond_metrics(h, c);
    if (url[1] == 's') return respond_status(h, c);
    if (url[1] == 'l') return respond_last_error(h, c);
    if (atomic_load(&h->ready)) return http_respond_text(c, MHD_HTTP_OK, "listening\n");
    return http_respond_text(c, MHD_HTTP_SERVICE_UNAVAILABLE, "not listening for peers\n");
}

/* ---- limits on connections ---- */

static unsigned http_n_slots(const struct qr_http *h) { return h->o.connections + MAX_CLOSING; }

static void http_close_connection(struct http_connection *v) {
    shutdown(v->fd, SHUT_RDWR); /* MHD sees the end and closes it */
    v->state = CONNECTION_CLOSING;
}

static void http_copy_address(const struct sockaddr *sa, uint8_t ret[16]) {
    static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};
    union {
        const struct sockaddr *any;
        const struct sockaddr_in *v4;
        const struct sockaddr_in6 *v6;
    } a = {.any = sa};
    memset(ret, 0, 16);
    if (sa->sa_family == AF_INET6) {
        memcpy(ret, &a.v6->sin6_addr, 16);
    } else if (sa->sa_family == AF_INET) {
        memcpy(ret, v4_prefix, sizeof v4_prefix);
        memcpy(ret + sizeof v4_prefix, &a.v4->sin_addr, 4);
    }
}

static unsigned http_count_from(const struct qr_http *h, const uint8_t address[16]) {
    unsigned n = 0;
    for (unsigned i = 0; i < http_n_slots(h); i++)
        n += h->slots[i].state == CONNECTION_OPEN && memcmp(h->slots[i].address, address, 16) == 0;
    return n;
}

/* Returns the oldest connection from `address`; with address NULL, from the address that has most
 * connections. */
static struct http_connection *http_find_oldest(struct qr_http *h, const uint8_t *address) {
    struct http_connection *found = NULL;
    unsigned most = 0;
    for (struct http_connection *v = h->slots; v < h->slots + http_n_slots(h); v++) {
        if (v->state != CONNECTION_OPEN || (address && memcmp(v->address, address, 16) != 0))
            continue;
        unsigned n = address ? 1 : http_count_from(h, v->address);
        if (found && (n < most || (n == most && v->turn > found->turn))) continue;
        found = v;
        most = n;
    }
    return found;
}

/* Closes an old connection when a limit is exceeded. A probe is served within milliseconds, so the
 * newest connection must not be the one that is closed. */
static void http_enforce_limits(struct qr_http *h, const struct http_connection *newcomer) {
    unsigned here = 0;
    for (unsigned i = 0; i < http_n_slots(h); i++) here += h->slots[i].state == CONNECTION_OPEN;
    struct http_connection *victim = NULL;
    if (http_count_from(h, newcomer->address) > h->o.per_address)
        victim = http_find_oldest(h, newcomer->address);
    else if (here > h->o.connections) victim = http_find_oldest(h, NULL);
    if (victim) http_close_connection(victim);
}

static void http_on_connection(void *ctx, struct MHD_Connection *c, void **per_connection,
                               enum MHD_ConnectionNotificationCode what) {
    struct qr_http *h = ctx;
    struct http_connection *v = *per_connection;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (v) v->state = CONNECTION_FREE;
        *per_connection = NULL;
        return;
    }
    /* MHD 1.0 returns the info of a connection in the same memory each time: copy before the next
     * call. */
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (!info) return;
    int fd = info->connect_fd;
    info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (!info) return;
    for (v = h->slots; v < h->slots + http_n_slots(h) && v->state != CONNECTION_FREE;) v++;
    QR_ASSERT(v < h->slots + http_n_slots(h)); /* MHD's own limit */
    *v = (struct http_connection){
        .state = CONNECTION_OPEN, .fd = fd, .since_ns = qr_now_ns(h->o.clock), .turn = ++h->turns};
    http_copy_address(info->client_addr, v->address);
    *per_connection = v;
    http_enforce_limits(h, v);
}

/* Closes connections that exceed timeout_ns. MHD's own timeout restarts with every byte, so a slow
 * client could stay for hours. Returns the time of the next check. */
static int64_t http_close_expired(struct qr_http *h, int64_t now_ns) {
    int64_t next_ns = now_ns + LOOK_MS * QR_MS;
    for (struct http_connection *v = h->slots; v < h->slots + http_n_slots(h); v++) {
        if (v->state != CONNECTION_OPEN) continue;
        int64_t end_ns = v->since_ns + h->o.timeout_ns;
        if (end_ns <= now_ns) http_close_connection(v);
        else if (end_ns < next_ns) next_ns = end_ns;
    }
    return next_ns;
}

static void *http_serve(void *ctx) {
    struct qr_http *h = ctx;
    while (!atomic_load(&h->quit)) {
        MHD_UNSIGNED_LONG_LONG mhd_ms;
        int64_t now_ns = qr_now_ns(h->o.clock);
        for (int i = 0; i < QR_HTTP_N_WATCHES; i++) qr_watch_sample(&h->watch[i], now_ns);
        int64_t wait_ms = (http_close_expired(h, now_ns) - now_ns) / QR_MS + 1;
        if (MHD_get_timeout(h->daemon, &mhd_ms) == MHD_YES &&
            mhd_ms < (MHD_UNSIGNED_LONG_LONG)wait_ms)
            wait_ms = (int64_t)mhd_ms;
        struct pollfd p[2] = {{.fd = h->epoll, .events = POLLIN},
                              {.fd = h->wake, .events = POLLIN}};
        poll(p, 2, (int)wait_ms);
        MHD_run(h->daemon);
    }
    return NULL;
}

/* ---- open and close ---- */

static int http_listen_at(const struct addrinfo *a, int *ret_errno) {
    int yes = 1, no = 0, fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (a->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
        if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) return fd;
    }
    *ret_errno = errno;
    if (fd >= 0) close(fd);
    return -1;
}

/* For all addresses: one dual-stack IPv6 socket, or IPv4 only on machines without IPv6. */
static enum qr_code http_bind_port(const char *host, unsigned port, int *ret_fd,
                                   struct qr_err *err) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *list = NULL;
    char service[8];
    int fd = -1, sys = EADDRNOTAVAIL;
    snprintf(service, sizeof service, "%u", port);
    int gai = getaddrinfo(host, service, &hints, &list);
    if (gai != 0)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--http-bind %s: %s; give an address of this machine", host ? host : "",
                       gai_strerror(gai));
    for (int six = 1; six >= 0 && fd < 0 && sys != EADDRINUSE; six--)
        for (const struct addrinfo *a = list; a && fd < 0 && sys != EADDRINUSE; a = a->ai_next)
            if ((a->ai_family == AF_INET6) == six) fd = http_listen_at(a, &sys);
    freeaddrinfo(list);
    *ret_fd = fd;
    if (fd >= 0) return QR_OK;
    if (sys == EADDRINUSE)
        return qr_fail(err, QR_ALREADY_EXISTS,
                       "cannot listen for probes and metrics on port %u%s%s: the port is in use; "
                       "choose another --http-port (0: none) or stop the program that uses it",
                       port, host ? " of " : "", host ? host : "");
    if (sys == EADDRNOTAVAIL)
        return qr_fail(err, QR_INVALID_ARGUMENT, "--http-bind %s is not an address of this machine",
                       host ? host : "");
    return qr_fail_errno(err, sys, "cannot listen for probes and metrics on port %u", port);
}

static unsigned http_bound_port(int fd) {
    struct sockaddr_storage a = {0};
    socklen_t n = sizeof a;
    char port[8] = "0";
    unsigned value = 0;
    if (getsockname(fd, (struct sockaddr *)&a, &n) != 0) return 0;
    if (getnameinfo((struct sockaddr *)&a, n, NULL, 0, port, sizeof port, NI_NUMERICSERV) != 0)
        return 0;
    for (const char *c = port; *c; c++) value = value * 10 + (unsigned)(*c - '0');
    return value;
}

static void http_set_defaults(struct qr_http *h) {
    struct qr_http_options *o = &h->o;
    if (!o->connections) o->connections = QR_HTTP_CONNECTIONS;
    if (!o->per_address) o->per_address = QR_HTTP_CONNECTIONS_PER_ADDRESS;
    if (!o->timeout_ns) o->timeout_ns = QR_HTTP_TIMEOUT_NS;
    int64_t control_ns = o->control_bound_ns ? o->control_bound_ns : QR_HTTP_CONTROL_BOUND_NS;
    int64_t training_ns = o->training_bound_ns ? o->training_bound_ns : QR_HTTP_TRAINING_BOUND_NS;
    h->watch[QR_HTTP_CONTROL] = (struct qr_watch){.thread = "the control thread",
                                                  .turns = QR_TURNS_CONTROL,
                                                  .floor_ns = control_ns,
                                                  .first_ns = control_ns};
    h->watch[QR_HTTP_TRAINING] = (struct qr_watch){
        .thread = "the training thread",
        .turns = QR_TURNS_TRAINING,
        .floor_ns = training_ns,
        .first_ns = o->training_first_ns ? o->training_first_ns : QR_HTTP_TRAINING_FIRST_NS};
    h->version = qr_xstrdup(o->build.version);
    h->contract = qr_xstrdup(o->build.contract);
    h->isa = qr_xstrdup(o->build.isa);
    o->build = (struct qr_build){h->version, h->contract, h->isa};
}

static void http_free(struct qr_http *h) {
    qr_close_p(&h->wake);
    qr_buf_free(&h->text);
    free(h->slots);
    free(h->version);
    free(h->contract);
    free(h->isa);
    free(h);
}

/* Takes ownership of the socket. */
static enum qr_code http_start(struct qr_http *h, int fd, struct qr_err *err) {
    h->daemon =
        MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, http_on_request, h, MHD_OPTION_LISTEN_SOCKET,
                         fd, MHD_OPTION_CONNECTION_LIMIT, http_n_slots(h),
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(h->o.timeout_ns / QR_SECOND) + 1,
                         MHD_OPTION_NOTIFY_CONNECTION, http_on_connection, h, MHD_OPTION_END);
    if (!h->daemon) {
        close(fd);
        return qr_fail(err, QR_INTERNAL,
                       "cannot start libmicrohttpd; --http-port 0 disables probes and metrics");
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    h->epoll = info ? info->epoll_fd : -1;
    int sys = pthread_create(&h->thread, NULL, http_serve, h);
    if (!sys) return QR_OK;
    MHD_stop_daemon(h->daemon);
    return qr_fail_errno(err, sys, "cannot start the thread for probes and metrics");
}

enum qr_code qr_http_open(const struct qr_http_options *opt, struct qr_http **ret,
                          unsigned *ret_port, struct qr_err *err) {
    int fd = -1;
    enum qr_code code = http_bind_port(opt->bind, opt->port, &fd, err);
    if (code != QR_OK) return code;
    unsigned port = http_bound_port(fd);
    struct qr_http *h = qr_xcalloc(1, sizeof *h);
    h->o = *opt;
    http_set_defaults(h);
    h->slots = qr_xcalloc(http_n_slots(h), sizeof *h->slots);
    h->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->wake < 0) {
        close(fd);
        code = qr_fail_errno(err, errno, "cannot create an eventfd for probes and metrics");
    } else {
        code = http_start(h, fd, err);
    }
    if (code != QR_OK) {
        http_free(h);
        return code;
    }
    *ret = h;
    *ret_port = port;
    return QR_OK;
}

void qr_http_close(struct qr_http *h) {
    if (!h) return;
    atomic_store(&h->quit, true);
    eventfd_write(h->wake, 1);
    pthread_join(h->thread, NULL);
    MHD_stop_daemon(h->daemon);
    http_free(h);
}

void qr_http_ready(struct qr_http *h, bool ready) {
    if (h) atomic_store(&h->ready, ready);
}

void qr_http_watch(struct qr_http *h, enum qr_http_watch which, bool on) {
    if (h) qr_watch_on(&h->watch[which], on);
}
