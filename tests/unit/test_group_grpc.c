/* Groups of real processes over gRPC on loopback: forming, reducing, ending together; all others
 * name a killed member.
 *
 * Each worker is a fork of this program, made before gRPC starts, and reports through a pipe. */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "group/group.h"
#include "tests/group_form.h"
#include "tests/support/ports.h"
#include "tests/t.h"

enum { MAX_N = 4, TEXT = 700 };
enum scenario { STEPS, FOREVER, NO_PEER, INTERRUPTED, PORT_TAKEN, LEADER_FAILS, SOLO };
struct report { /* what a child writes once, at its end */
    enum qr_code code;
    int64_t end_ns;
    char text[TEXT];
};
struct child {
    pid_t pid;
    int from; /* "f" when formed, then a report */
    struct report report;
};
static char address[MAX_N][32];

static void choose_ports(void) {
    for (int i = 0; i < MAX_N; i++)
        snprintf(address[i], sizeof address[i], "127.0.0.1:%u", test_port());
}

static struct qr_contribution contribution(uint32_t rank, uint32_t n_ranks, uint64_t step,
                                           enum qr_reduction_kind kind, qr_fixed *v, size_t n) {
    struct qr_contribution c = {
        .key = {.reductions = step, .kind = kind}, .n_micro_batches = 7, .vector = v, .n = n};
    memset(c.key.base_digest, (int)(step * 3 + 1), 16);
    for (uint64_t b = rank; b < c.n_micro_batches; b += n_ranks)
        qr_coverage_add_micro_batch(&c.coverage, &c.key, b);
    for (size_t i = 0; i < n; i++) v[i] = (qr_fixed)(i * 3 + rank + step) << 60;
    return c;
}
static enum qr_code one_step(struct qr_group *g, const struct qr_group_view *v, uint64_t step,
                             enum qr_reduction_kind kind, size_t n, struct qr_err *err) {
    qr_fixed *mine = qr_xcalloc(n + 1, sizeof *mine), *sum = qr_xcalloc(n + 1, sizeof *sum);
    struct qr_contribution c = contribution(v->rank, v->n_members, step, kind, mine, n);
    enum qr_code code = qr_group_reduce(g, &c, sum, err);
    for (size_t i = 0; i < n && code == QR_OK; i++) {
        qr_fixed want = 0;
        for (uint32_t r = 0; r < v->n_members; r++) want += (qr_fixed)(i * 3 + r + step) << 60;
        if (sum[i] != want)
            code = qr_fail(err, QR_INTERNAL, "step %d: integer %zu is wrong", (int)step, i);
    }
    uint8_t digest[16];
    memset(digest, (int)(step * 3 + 4), sizeof digest);
    if (code == QR_OK) code = qr_group_apply(g, step + 1, digest, err);
    free(mine), free(sum);
    return code;
}
static int64_t resumed_ns;
static char warnings[2000]; /* of this process */
static void keep_warnings(void *ctx, enum qr_log_level level, const char *module,
                          const char *message) {
    (void)ctx, (void)level, (void)module;
    size_t n = strlen(warnings);
    snprintf(warnings + n, sizeof warnings - n, "%s\n", message);
}
static const struct qr_log log_of_warnings = {.level = QR_LOG_WARNING, .write = keep_warnings};
static void *interrupter(void *g) {
    qr_sleep_ns(200 * QR_MS);
    qr_group_interrupt(g);
    return NULL;
}
static enum qr_code steps(struct qr_group *g, const struct qr_group_view *view, enum scenario what,
                          struct qr_err *err) {
    static const size_t lengths[] = {0, 1, 10, 4096, 5000, 60000};
    enum qr_code code = QR_OK;
    for (uint64_t step = 0; code == QR_OK && (what == FOREVER || step < 18); step++) {
        if (step % 7 == view->rank) qr_sleep_ns(2 * QR_MS);
        code = one_step(g, view, step, step % 5 == 4 ? QR_REDUCTION_EVAL : QR_REDUCTION_TRAIN,
                        lengths[step % 6], err);
    }
    if (code == QR_ABORTED) { /* the remaining members do one more step */
        struct qr_group_start start;
        code = qr_group_join(g, &start, err);
        if (code == QR_OK) code = one_step(g, &start.view, 1000, QR_REDUCTION_TRAIN, 10, err);
        if (code != QR_OK) return code;
        resumed_ns = qr_now_ns(&qr_clock_monotonic);
        /* A member that leaves at once may drop its last chunk to the others. */
        qr_sleep_ns(200 * QR_MS);
        return qr_fail(err, QR_ABORTED, "%s", warnings);
    }
    if (code != QR_OK) return code;
    code = one_step(g, view, 18, QR_REDUCTION_CLOSE, 0, err);
    struct qr_err refused = {.code = QR_PERMISSION_DENIED, .msg = "bucket b: 403"};
    if (code == QR_OK && view->rank == 0) qr_sleep_ns(50 * QR_MS); /* as if it wrote the weights */
    if (code == QR_OK)
        code = qr_group_done(g, what == LEADER_FAILS ? &refused : NULL, 5 * QR_SECOND, err);
    return code;
}
static enum qr_code worker(enum scenario what, uint32_t index, uint32_t n, int to,
                           struct qr_err *err) {
    const char *peers[MAX_N];
    for (uint32_t i = 0; i < n; i++) peers[i] = address[i];
    struct qr_field field = {"contract", "f32-v1"};
    struct qr_group_options o = {
        .run = "test",
        .fields = &field,
        .n_fields = 1,
        .index = index,
        .n_peers = n,
        .peers = peers,
        .count_known = true,
        .listen_address = address[index],
        .form_timeout_ns = (what == NO_PEER ? 1 : 20) * QR_SECOND,
        .allreduce = QR_ALLREDUCE_AUTO,
        .clock = &qr_clock_monotonic,
        .min_workers = what == FOREVER ? n - 1 : n,
        .log = &log_of_warnings,
    };
    struct qr_group *g;
    unsigned port = 0;
    if (what == SOLO) {
        g = qr_group_solo(&o);
    } else {
        enum qr_code code = qr_group_open(&o, &g, &port, err);
        if (code != QR_OK) return code;
    }
    struct qr_group_view view = {0};
    pthread_t thread;
    if (what == INTERRUPTED) pthread_create(&thread, NULL, interrupter, g);
    enum qr_code code = form_group(g, &view, err);
    if (what == INTERRUPTED) pthread_join(thread, NULL);
    if (code == QR_OK && (view.n_members != n || view.index[view.rank] != index))
        code = qr_fail(err, QR_INTERNAL, "unexpected view");
    if (code == QR_OK && write(to, "f", 1) == 1) code = steps(g, &view, what, err);
    qr_group_close(g);
    return code;
}

static struct child spawn(enum scenario what, uint32_t index, uint32_t n, int delay_ms) {
    int p[2];
    struct child c = {0};
    fflush(NULL);
    if (pipe(p) != 0 || (c.pid = fork()) < 0) abort();
    if (c.pid == 0) {
        close(p[0]);
        setenv("GRPC_POLL_STRATEGY", "poll", 1);
        qr_sleep_ns((int64_t)delay_ms * QR_MS);
        struct qr_err err = {0};
        struct report r = {0};
        r.code = worker(what, index, n, p[1], &err);
        r.end_ns = resumed_ns ? resumed_ns : qr_now_ns(&qr_clock_monotonic);
        snprintf(r.text, sizeof r.text, "%.600s", err.msg);
        if (write(p[1], &r, sizeof r) != (ssize_t)sizeof r) _exit(9);
        close(p[1]);
        exit(0);
    }
    close(p[1]);
    c.from = p[0];
    return c;
}
static void wait_formed(struct child *c) {
    char f = 0;
    CHECK(read(c->from, &f, 1) == 1 && f == 'f');
}
static void collect(struct child *c, bool formed) {
    int status = 0;
    char f;
    if (formed && read(c->from, &f, 1) != 1) c->report.code = QR_UNKNOWN;
    if (read(c->from, &c->report, sizeof c->report) != (ssize_t)sizeof c->report)
        c->report.code = QR_UNKNOWN;
    close(c->from);
    waitpid(c->pid, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d: %s", status, c->report.text);
}

static void test_together(enum scenario what, enum qr_code want) {
    for (uint32_t n = 1; n <= MAX_N; n++) {
        struct child c[MAX_N];
        choose_ports();
        /* They start 100 ms apart, in the order of their indexes. */
        for (uint32_t i = 0; i < n; i++) c[i] = spawn(what, i, n, (int)(i * 53 % 4) * 100);
        for (uint32_t i = 0; i < n; i++) {
            collect(&c[i], true);
            CHECK(c[i].report.code == want, "worker %u of %u: %s: %s", i, n,
                  qr_code_name(c[i].report.code), c[i].report.text);
            if (want != QR_OK)
                CHECK(strstr(c[i].report.text, "bucket b: 403"), "%s", c[i].report.text);
        }
    }
}
/* SIGKILL breaks the member's connections. SIGSTOP stops its heartbeats, so the others time out. */
static void test_killed(uint32_t victim, int signo) {
    struct child c[MAX_N];
    choose_ports();
    for (uint32_t i = 0; i < MAX_N; i++) c[i] = spawn(FOREVER, i, MAX_N, 0);
    for (uint32_t i = 0; i < MAX_N; i++) wait_formed(&c[i]);
    qr_sleep_ns(300 * QR_MS);
    char named[64];
    snprintf(named, sizeof named, "worker %u (%s)", victim, address[victim]);
    int64_t killed_ns = qr_now_ns(&qr_clock_monotonic);
    kill(c[victim].pid, signo);
    for (uint32_t i = 0; i < MAX_N; i++) {
        if (i == victim) continue;
        collect(&c[i], false);
        CHECK(c[i].report.code == QR_ABORTED && strstr(c[i].report.text, named),
              "worker %u, killed %u: %s: %s", i, victim, qr_code_name(c[i].report.code),
              c[i].report.text);
        int64_t took_ns = c[i].report.end_ns - killed_ns;
        CHECK(t_in_time("a worker resumes after a signal to another", took_ns, 2 * QR_SECOND,
                        T_MINUTE));
        printf("worker %u: resumes %lld ms after signal %d: %s\n", i, (long long)(took_ns / QR_MS),
               signo, c[i].report.text);
    }
    kill(c[victim].pid, SIGKILL);
    int status;
    waitpid(c[victim].pid, &status, 0);
    close(c[victim].from);
}
static void test_single_member(void) {
    choose_ports();
    struct child c = spawn(NO_PEER, 0, 2, 0); /* its peer never starts */
    collect(&c, false);
    CHECK(c.report.code == QR_DEADLINE_EXCEEDED && strstr(c.report.text, address[1]), "%s: %s",
          qr_code_name(c.report.code), c.report.text);
    c = spawn(INTERRUPTED, 0, 2, 0);
    int64_t start_ns = qr_now_ns(&qr_clock_monotonic);
    collect(&c, false);
    CHECK(c.report.code == QR_CANCELLED && c.report.end_ns - start_ns < T_MINUTE, "%s: %s",
          qr_code_name(c.report.code), c.report.text);
    unsigned port = test_port();
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                            .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address[0], sizeof address[0], "127.0.0.1:%u", port);
    CHECK(bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 1) == 0);
    c = spawn(PORT_TAKEN, 0, 2, 0);
    collect(&c, false);
    close(fd);
    CHECK(c.report.code == QR_ALREADY_EXISTS && strstr(c.report.text, address[0]), "%s: %s",
          qr_code_name(c.report.code), c.report.text);
    c = spawn(SOLO, 0, 1, 0);
    collect(&c, true);
    CHECK(c.report.code == QR_OK, "%s", c.report.text);
}

int main(void) {
    test_together(STEPS, QR_OK);
    test_together(LEADER_FAILS, QR_PERMISSION_DENIED);
    test_killed(2, SIGKILL);
    test_killed(0, SIGKILL);
    test_killed(1, SIGSTOP);
    test_single_member();
    return t_end();
}
