/* The connection to Cloud Storage breaks after the k-th byte sent or received, once or permanently,
 * by a reset, a close or silence: for every operation and for token requests, at each of the first
 * bytes, every few bytes of headers and some of bodies. A relay between the client and
 * tests/fake/gcs.py counts the bytes. After one break the operation succeeds; a permanent one may
 * end in an error that names the object and asks for a retry. The bucket has the whole old or new
 * object. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "tests/fake/client.h"
#include "tests/fake/guard.h"

/* ---- the relay: a process, controlled through shared memory ---- */

enum fault { NO_FAULT, RESET, HANG_UP, SILENCE };
static struct relay {
    atomic_long passed[2]; /* bytes: [0] to the server, [1] from it */
    atomic_long cut_at;    /* in `direction` */
    atomic_int direction, fault, for_good, fired;
} * relay;
static char relay_host[64];

enum { PAIRS = 64, PIECE = 1 << 16 };
struct pair {
    int fd[2]; /* [0] the client, [1] the server */
    bool silent;
};

static void close_pair(struct pair *p, bool reset) {
    const struct linger hard = {1, 0};
    for (int i = 0; i < 2; i++) {
        if (p->fd[i] < 0) continue;
        if (reset) setsockopt(p->fd[i], SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        close(p->fd[i]);
        p->fd[i] = -1;
    }
    p->silent = false;
}
static bool send_all(int fd, const uint8_t *p, size_t n) {
    while (n) {
        ssize_t took = send(fd, p, n, MSG_NOSIGNAL);
        if (took < 0 && errno == EINTR) continue;
        if (took <= 0) return false;
        p += took;
        n -= (size_t)took;
    }
    return true;
}
static int connect_server(const struct sockaddr_in *server) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd >= 0 && connect(fd, (const struct sockaddr *)server, sizeof *server) != 0) {
        close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}
/* Forwards what was received on side `from` of a pair, up to the cut. */
static void forward(struct pair *p, int from) {
    static uint8_t piece[PIECE];
    ssize_t n = recv(p->fd[from], piece, sizeof piece, 0);
    if (n <= 0) {
        close_pair(p, n < 0);
        return;
    }
    long before = relay->passed[from], room = relay->cut_at - before;
    bool cut = relay->fault != NO_FAULT && relay->direction == from && !relay->fired && room < n;
    if (!cut) {
        relay->passed[from] += n;
        if (!send_all(p->fd[1 - from], piece, (size_t)n)) close_pair(p, true);
        return;
    }
    relay->passed[from] += room > 0 ? room : 0;
    relay->fired = 1;
    if (room > 0) (void)send_all(p->fd[1 - from], piece, (size_t)room);
    if (relay->fault == SILENCE) p->silent = true;
    else close_pair(p, relay->fault == RESET);
}
static void accept_client(int listener, struct pair *pairs, const struct sockaddr_in *server) {
    int fd = accept(listener, NULL, NULL), on = 1;
    if (fd < 0) return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (int i = 0; i < PAIRS; i++) {
        if (pairs[i].fd[0] >= 0) continue;
        pairs[i] = (struct pair){{fd, connect_server(server)}, false};
        if (pairs[i].fd[1] < 0 || (relay->fired && relay->for_good))
            close_pair(&pairs[i], relay->fault != HANG_UP);
        return;
    }
    close(fd);
}
static void run_relay(int listener, const struct sockaddr_in *server) {
    struct pair pairs[PAIRS];
    for (int i = 0; i < PAIRS; i++) pairs[i] = (struct pair){{-1, -1}, false};
    for (;;) {
        struct pollfd p[1 + 2 * PAIRS] = {{.fd = listener, .events = POLLIN}};
        for (int i = 0; i < 2 * PAIRS; i++)
            p[1 + i] = (struct pollfd){.fd = pairs[i / 2].silent ? -1 : pairs[i / 2].fd[i % 2],
                                       .events = POLLIN};
        if (poll(p, 1 + 2 * PAIRS, -1) < 0) continue;
        for (int i = 0; i < 2 * PAIRS; i++)
            if (p[1 + i].revents && pairs[i / 2].fd[i % 2] == p[1 + i].fd)
                forward(&pairs[i / 2], i % 2);
        if (p[0].revents) accept_client(listener, pairs, server);
    }
}
static pid_t start_relay(void) {
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)},
                       own = server;
    socklen_t n = sizeof own;
    server.sin_port = htons((uint16_t)strtol(strchr(fake_host, ':') + 1, NULL, 10));
    relay = mmap(NULL, sizeof *relay, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = bind(listener, (const struct sockaddr *)&own, sizeof own) == 0 &&
                listen(listener, 64) == 0 &&
                getsockname(listener, (struct sockaddr *)&own, &n) == 0;
    CHECK(good, "the relay does not listen");
    snprintf(relay_host, sizeof relay_host, "127.0.0.1:%d", ntohs(own.sin_port));
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run_relay(listener, &server);
    }
    close(listener);
    return pid;
}

/* ---- the operations ---- */

enum { LARGE = (8 << 20) + (300 << 10) };
static char *large; /* text without a NUL, compared by strcmp */

struct operation {
    const char *name;
    void (*before)(void);
    enum qr_code (*run)(struct qr_store *s, struct qr_err *err);
    bool (*whole)(bool done); /* may be NULL */
    bool big;                 /* bodies of megabytes: fewer cuts */
};

static enum qr_code wrong(struct qr_err *err, const char *what) {
    return qr_fail(err, QR_INTERNAL, "wrong: %.100s", what);
}
static void nothing(void) {}
static void old_object(void) { put_text("w", "the old text"); }
static void no_object(void) { remove_text("new"); }
static void no_large(void) { remove_text("large"); }
static bool replaced(bool done) {
    return is(text_of("w"), "the new text", done ? "the new text" : "the old text");
}
static bool created(bool done) {
    return is(text_of("new"), "the new text", done ? "the new text" : "");
}
static bool removed(bool done) { return is(text_of("w"), "", done ? "" : "the old text"); }
static bool large_created(bool done) { return is(text_of("large"), large, done ? large : ""); }

static enum qr_code put_new(struct qr_store *s, struct qr_err *err) {
    return s->ops->put(s, "w", qr_bytes_of_string("the new text"), false, err);
}
static enum qr_code create_new(struct qr_store *s, struct qr_err *err) {
    return s->ops->put(s, "new", qr_bytes_of_string("the new text"), true, err);
}
static enum qr_code create_large(struct qr_store *s, struct qr_err *err) {
    return s->ops->put(s, "large", qr_bytes_of(large, LARGE), true, err);
}
static enum qr_code remove_object(struct qr_store *s, struct qr_err *err) {
    return s->ops->remove(s, "w", err);
}
static enum qr_code check_store(struct qr_store *s, struct qr_err *err) {
    return s->ops->check_writable(s, "w", err);
}
static enum qr_code check_get(struct qr_store *s, const char *name, const char *want,
                              struct qr_err *err) {
    struct qr_buf b = {0};
    enum qr_code code = s->ops->get(s, name, TEXT_MAX, &b, err);
    if (code == QR_OK && strcmp(qr_buf_string(&b), want) != 0) code = wrong(err, "other bytes");
    qr_buf_free(&b);
    return code;
}
static enum qr_code get_old(struct qr_store *s, struct qr_err *err) {
    return check_get(s, "w", "the old text", err);
}
static enum qr_code get_large(struct qr_store *s, struct qr_err *err) {
    return check_get(s, "read", large, err);
}
/* Three names a page: two pages. */
static enum qr_code list_objects(struct qr_store *s, struct qr_err *err) {
    struct qr_buf b = {0};
    enum qr_code code = s->ops->list(s, "l/", &b, err);
    if (code == QR_OK && strcmp(qr_buf_string(&b), "l/1\nl/2\nl/3\nl/4") != 0)
        code = wrong(err, qr_buf_string(&b));
    qr_buf_free(&b);
    return code;
}

static const struct operation operations[] = {
    {"put", old_object, put_new, replaced, false},
    {"create", no_object, create_new, created, false},
    {"get", old_object, get_old, NULL, false},
    {"list", nothing, list_objects, NULL, false},
    {"delete", old_object, remove_object, removed, false},
    {"check", nothing, check_store, NULL, false},
    {"upload in parts", no_large, create_large, large_created, true},
    {"large download", nothing, get_large, NULL, true},
};

/* ---- trials ---- */

static long n_tries, n_recovered, n_errors;

static void try_cut(const struct operation *o, enum fault fault, bool for_good, int direction,
                    long at, long ret_passed[2]) {
    static const char *const names[] = {"nothing", "reset", "hung up", "silent"};
    struct qr_err err = {0};
    o->before();
    struct qr_store *s = opened(relay_host);
    relay->fault = NO_FAULT;
    relay->passed[0] = 0;
    relay->passed[1] = 0;
    relay->fired = 0;
    relay->cut_at = at;
    relay->direction = direction;
    relay->for_good = for_good;
    relay->fault = (int)fault;
    enum qr_code code = o->run(s, &err);
    s->ops->close(s);
    relay->fault = NO_FAULT;
    bool fired = relay->fired;
    char where[160];
    snprintf(where, sizeof where, "%s, %s %s after byte %ld %s", o->name, names[fault],
             for_good ? "for good" : "once", at, direction ? "received" : "sent");
    bool token = strstr(err.msg, "metadata server");
    if (!for_good || !fired) CHECK(code == QR_OK, "%s: %s", where, err.msg);
    else if (code != QR_OK)
        CHECK(code == QR_UNAVAILABLE && strstr(err.msg, "gs://auth-torture") &&
                  (token || strstr(err.msg, "please retry")),
              "%s: %s %s", where, qr_code_name(code), err.msg);
    if (o->whole)
        CHECK(o->whole(code == QR_OK), "%s: a partial or wrong object is in the bucket", where);
    n_tries += fault != NO_FAULT;
    n_recovered += fired && code == QR_OK;
    n_errors += code != QR_OK;
    for (int i = 0; i < 2 && ret_passed; i++) ret_passed[i] = relay->passed[i];
}

/* The next cut after `at` of `n` bytes: every byte at first, then every `step`; a few in big
 * bodies, the last bytes again like headers. */
static long next_cut(long at, long n, long step, bool big) {
    if (at < 8) return at + 1;
    bool headers = !big || at < 2500 || n - at < 1500;
    long next = at + (headers ? step : n / 5);
    return !headers || !big || at >= 2500 || next < 2500 ? next : 2500;
}

static void torture(const struct operation *o, long step) {
    long n[2];
    try_cut(o, NO_FAULT, false, 0, 0, n);
    long tries = n_tries, recovered = n_recovered, errors = n_errors;
    for (int direction = 0; direction < 2; direction++) {
        int turn = 0;
        for (long at = 0; at < n[direction];
             at = next_cut(at, n[direction], o->big ? 97 * step : step, o->big)) {
            try_cut(o, turn % 2 ? HANG_UP : RESET, false, direction, at, NULL);
            if (turn++ % 4 == 0)
                try_cut(o, turn % 8 == 1 ? RESET : HANG_UP, true, direction, at, NULL);
        }
        /* Takes seconds of real time. */
        if (o->run == get_large || o->run == put_new)
            try_cut(o, SILENCE, false, direction, n[direction] / 2, NULL);
    }
    printf("%-16s %7ld bytes sent, %7ld received: %ld cuts, %ld succeeded, %ld errors\n", o->name,
           n[0], n[1], n_tries - tries, n_recovered - recovered, n_errors - errors);
}

int main(void) {
    pid_t pid = start_fake(fake_host, sizeof fake_host);
    if (pid < 0) {
        SKIP("there is no /usr/bin/python3 for the fake of Cloud Storage");
        return t_end();
    }
    large = qr_xmalloc(LARGE + 1);
    for (size_t i = 0; i < LARGE; i++) large[i] = (char)('a' + (i * 2654435761U >> 13) % 26);
    large[LARGE] = 0;
    pid_t relay_pid = start_relay();
    put_text("read", large);
    put_text("l/1", "1");
    put_text("l/2", "2");
    put_text("l/3", "3");
    put_text("l/4", "4");
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_UNDEFINED__
    long step = 37;
#else
    long step = 7;
#endif
    for (size_t i = 0; i < COUNT(operations); i++) torture(&operations[i], step);
    kill(relay_pid, SIGKILL);
    waitpid(relay_pid, NULL, 0);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    plain()->ops->close(plain());
    free(large);
    return t_end();
}
