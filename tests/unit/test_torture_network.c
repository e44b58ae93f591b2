/* The connection to Cloud Storage cut after the k-th byte of what is sent or received, once or for
 * good, by a reset or by an end, or fallen silent: for every operation and for token requests, at
 * the first bytes, at every few of the headers, at some of the bodies. Between client and
 * tests/fake/gcs.py stands a relay of ours that counts bytes. Once: the operation ends well. For
 * good: one sentence that names the object and says to retry. In the bucket is the old object or
 * the new one, whole. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "tests/fake/client.h"

/* ---- the relay: a process, ruled through shared memory ---- */

enum fault { NO_FAULT, RESET, HANG_UP, SILENCE };
static struct relay {
    atomic_long passed[2]; /* bytes: [0] to the server, [1] from it */
    atomic_long cut_at;    /* of that direction */
    atomic_int direction, fault, for_good, fired;
} * relay;
static char relay_host[64];

enum { PAIRS = 64, PIECE = 1 << 16 };
struct pair {
    int fd[2]; /* [0] the client, [1] the server */
    bool silent;
};

static void drop(struct pair *p, bool reset) {
    const struct linger hard = {1, 0};
    for (int i = 0; i < 2; i++) {
        if (p->fd[i] < 0) continue;
        if (reset) setsockopt(p->fd[i], SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        close(p->fd[i]);
        p->fd[i] = -1;
    }
    p->silent = false;
}
static bool all_sent(int fd, const uint8_t *p, size_t n) {
    while (n) {
        ssize_t took = send(fd, p, n, MSG_NOSIGNAL);
        if (took < 0 && errno == EINTR) continue;
        if (took <= 0) return false;
        p += took;
        n -= (size_t)took;
    }
    return true;
}
static int to_server(const struct sockaddr_in *server) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd >= 0 && connect(fd, (const struct sockaddr *)server, sizeof *server) != 0) {
        close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}
/* What came on side `from` of a pair goes on, up to the cut. */
static void pass_on(struct pair *p, int from) {
    static uint8_t piece[PIECE];
    ssize_t n = recv(p->fd[from], piece, sizeof piece, 0);
    if (n <= 0) {
        drop(p, n < 0);
        return;
    }
    long before = relay->passed[from], room = relay->cut_at - before;
    bool cut = relay->fault != NO_FAULT && relay->direction == from && !relay->fired && room < n;
    if (!cut) {
        relay->passed[from] += n;
        if (!all_sent(p->fd[1 - from], piece, (size_t)n)) drop(p, true);
        return;
    }
    relay->passed[from] += room > 0 ? room : 0;
    relay->fired = 1;
    if (room > 0) (void)all_sent(p->fd[1 - from], piece, (size_t)room);
    if (relay->fault == SILENCE) p->silent = true;
    else drop(p, relay->fault == RESET);
}
static void take_in(int listener, struct pair *pairs, const struct sockaddr_in *server) {
    int fd = accept(listener, NULL, NULL), on = 1;
    if (fd < 0) return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (int i = 0; i < PAIRS; i++) {
        if (pairs[i].fd[0] >= 0) continue;
        pairs[i] = (struct pair){{fd, to_server(server)}, false};
        if (pairs[i].fd[1] < 0 || (relay->fired && relay->for_good))
            drop(&pairs[i], relay->fault != HANG_UP);
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
                pass_on(&pairs[i / 2], i % 2);
        if (p[0].revents) take_in(listener, pairs, server);
    }
}
static pid_t start_relay(void) {
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)},
                       own = server;
    socklen_t n = sizeof own;
    server.sin_port = htons((uint16_t)strtol(strchr(host, ':') + 1, NULL, 10));
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
static char *large; /* text, so that it can be compared as such */

struct operation {
    const char *name;
    void (*before)(void);
    enum qr_code (*run)(struct qr_store *s, struct qr_err *err);
    bool (*whole)(bool done); /* may be NULL */
    bool big;                 /* bodies of megabytes: fewer places */
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
static enum qr_code remove_it(struct qr_store *s, struct qr_err *err) {
    return s->ops->remove(s, "w", err);
}
static enum qr_code check_it(struct qr_store *s, struct qr_err *err) {
    return s->ops->check_writable(s, "w", err);
}
static enum qr_code got(struct qr_store *s, const char *name, const char *want,
                        struct qr_err *err) {
    struct qr_buf b = {0};
    enum qr_code code = s->ops->get(s, name, TEXT_MAX, &b, err);
    if (code == QR_OK && strcmp(qr_buf_string(&b), want) != 0) code = wrong(err, "other bytes");
    qr_buf_free(&b);
    return code;
}
static enum qr_code get_old(struct qr_store *s, struct qr_err *err) {
    return got(s, "w", "the old text", err);
}
static enum qr_code get_large(struct qr_store *s, struct qr_err *err) {
    return got(s, "read", large, err);
}
/* three on a page: two pages */
static enum qr_code list_it(struct qr_store *s, struct qr_err *err) {
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
    {"list", nothing, list_it, NULL, false},
    {"delete", old_object, remove_it, removed, false},
    {"check", nothing, check_it, NULL, false},
    {"upload in parts", no_large, create_large, large_created, true},
    {"large download", nothing, get_large, NULL, true},
};

/* ---- the trying ---- */

static long n_tries, n_healed, n_sentences;

static void try(const struct operation *o, enum fault fault, bool for_good, int direction, long at,
                long ret_passed[2]) {
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
    snprintf(where, sizeof where, "%s, %s %s after byte %ld of what is %s", o->name, names[fault],
             for_good ? "for good" : "once", at, direction ? "received" : "sent");
    bool token = strstr(err.msg, "metadata server");
    if (!for_good || !fired) CHECK(code == QR_OK, "%s: %s", where, err.msg);
    else if (code != QR_OK)
        CHECK(code == QR_UNAVAILABLE && strstr(err.msg, "gs://auth-torture") &&
                  (token || strstr(err.msg, "please retry")),
              "%s: %s %s", where, qr_code_name(code), err.msg);
    if (o->whole)
        CHECK(o->whole(code == QR_OK), "%s: half of something, or something else, is in the bucket",
              where);
    n_tries += fault != NO_FAULT;
    n_healed += fired && code == QR_OK;
    n_sentences += code != QR_OK;
    for (int i = 0; i < 2 && ret_passed; i++) ret_passed[i] = relay->passed[i];
}

/* The next place after `at` of n: dense at the beginning, then every `step`; in big bodies a few,
 * the last bytes again like headers. */
static long next_place(long at, long n, long step, bool big) {
    if (at < 8) return at + 1;
    bool headers = !big || at < 2500 || n - at < 1500;
    long next = at + (headers ? step : n / 5);
    return !headers || !big || at >= 2500 || next < 2500 ? next : 2500;
}

static void tortured(const struct operation *o, long step) {
    long n[2];
    try(o, NO_FAULT, false, 0, 0, n);
    long tries = n_tries, healed = n_healed, sentences = n_sentences;
    for (int direction = 0; direction < 2; direction++) {
        int turn = 0;
        for (long at = 0; at < n[direction];
             at = next_place(at, n[direction], o->big ? 97 * step : step, o->big)) {
            try(o, turn % 2 ? HANG_UP : RESET, false, direction, at, NULL);
            if (turn++ % 4 == 0) try(o, turn % 8 == 1 ? RESET : HANG_UP, true, direction, at, NULL);
        }
        /* takes seconds of the real time */
        if (o->run == get_large || o->run == put_new)
            try(o, SILENCE, false, direction, n[direction] / 2, NULL);
    }
    printf("%-16s %7ld bytes sent, %7ld received: %ld cuts, %ld ended well, %ld in a sentence\n",
           o->name, n[0], n[1], n_tries - tries, n_healed - healed, n_sentences - sentences);
}

int main(void) {
    pid_t pid = start_fake(host, sizeof host);
    if (pid < 0) {
        SKIP("there is no /usr/bin/python3 for the fake of Cloud Storage");
        return t_end();
    }
    large = qr_xmalloc(LARGE + 1);
    for (size_t i = 0; i < LARGE; i++) large[i] = (char)('a' + (i * 2654435761U >> 13) % 26);
    large[LARGE] = 0;
    pid_t between = start_relay();
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
    for (size_t i = 0; i < COUNT(operations); i++) tortured(&operations[i], step);
    kill(between, SIGKILL);
    waitpid(between, NULL, 0);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    plain()->ops->close(plain());
    free(large);
    return t_end();
}
