/* tests/support/large_ring.c — workers are forks that report to their parent through pipes. Start
 * reading at large_ring. */
#include "tests/support/large_ring.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/counter.h"
#include "base/mem.h"
#include "group/group.h"
#include "tests/group_form.h"
#include "tests/support/ports.h"
#include "tests/tls.h"

struct large_worker { /* a worker writes one, when it has formed or failed */
    enum qr_code code;
    int64_t formed_ns, cpu_ns, handshake_ends;
    char text[200];
};

static char large_address[QR_MAX_MEMBERS][32];

static enum qr_code large_work(unsigned n, uint32_t index, const struct qr_link_tls *tls,
                               struct large_worker *ret, struct qr_group **ret_group,
                               struct qr_err *err) {
    /* The group reads peers and field until it is closed. */
    static const char *peers[QR_MAX_MEMBERS];
    static const struct qr_field field = {"contract", "f32-v1"};
    for (unsigned i = 0; i < n; i++) peers[i] = large_address[i];
    struct qr_group_options o = {.run = "large",
                                 .fields = &field,
                                 .n_fields = 1,
                                 .index = index,
                                 .n_peers = n,
                                 .peers = peers,
                                 .count_known = true,
                                 .listen_address = large_address[index],
                                 .form_timeout_ns = 300 * QR_SECOND,
                                 .clock = &qr_clock_monotonic,
                                 .tls = tls,
                                 .min_workers = n};
    struct qr_group *g;
    struct qr_group_view view = {0};
    struct rusage u;
    unsigned port = 0;
    enum qr_code code = qr_group_open(&o, &g, &port, err);
    if (code != QR_OK) return code;
    code = form_group(g, &view, err);
    ret->formed_ns = qr_now_ns(&qr_clock_monotonic);
    getrusage(RUSAGE_SELF, &u);
    ret->cpu_ns = (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * QR_SECOND +
                  (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * QR_MS / 1000;
    if (code == QR_OK && view.n_members != n)
        code = qr_fail(err, QR_INTERNAL, "%u members", view.n_members);
    ret->handshake_ends = qr_counter_value(QR_TLS_ACCEPTED);
    *ret_group = g;
    return code;
}

static pid_t large_fork(unsigned n, uint32_t index, const struct tls_dir *dir, int *ret_from) {
    int p[2];
    fflush(NULL);
    CHECK(pipe(p) == 0);
    pid_t pid = fork();
    if (pid != 0) {
        close(p[1]);
        *ret_from = p[0];
        return pid;
    }
    close(p[0]);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when the test is killed */
    setenv("GRPC_POLL_STRATEGY", "poll", 1);
    setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "", 1);
    struct qr_err err = {0};
    struct large_worker w = {0};
    struct qr_link_tls *tls = dir ? tls_open(dir) : NULL;
    struct qr_group *g = NULL;
    w.code = large_work(n, index, tls, &w, &g, &err);
    snprintf(w.text, sizeof w.text, "%.190s", err.msg);
    if (write(p[1], &w, sizeof w) != (ssize_t)sizeof w) _exit(9);
    /* Stay a member: the others may need another generation. */
    struct qr_group_start next;
    while (w.code == QR_OK && qr_group_join(g, &next, &err) == QR_OK) continue;
    for (;;) pause();
}

static double large_cpu_ns(const pid_t *pid, unsigned n) {
    double ns = 0;
    for (unsigned i = 0; i < n; i++) {
        clockid_t id;
        struct timespec t = {0};
        if (clock_getcpuclockid(pid[i], &id) == 0) clock_gettime(id, &t);
        ns += (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
    }
    return ns;
}

struct large_ring large_ring(unsigned n, bool with_tls, unsigned idle_s) {
    struct large_ring r = {0};
    struct tls_dir dir;
    pid_t pid[QR_MAX_MEMBERS];
    int from[QR_MAX_MEMBERS];
    if (with_tls) {
        const struct qr_certificate_request order = tls_order("large");
        struct qr_certificate_set set = tls_make(&order);
        dir = tls_dir_new();
        tls_dir_put(&dir, &set);
        qr_certificate_wipe(&set);
    }
    for (unsigned i = 0; i < n; i++)
        snprintf(large_address[i], sizeof *large_address, "127.0.0.1:%u", test_port());
    int64_t began_ns = qr_now_ns(&qr_clock_monotonic), last_ns = began_ns;
    for (unsigned i = 0; i < n; i++) pid[i] = large_fork(n, i, with_tls ? &dir : NULL, &from[i]);
    for (unsigned i = 0; i < n; i++) {
        struct large_worker w = {.code = QR_UNKNOWN};
        bool whole = read(from[i], &w, sizeof w) == (ssize_t)sizeof w;
        close(from[i]);
        r.n_ok += whole && w.code == QR_OK;
        if ((!whole || w.code != QR_OK) && !*r.text)
            snprintf(r.text, sizeof r.text, "worker %u: %.180s", i, whole ? w.text : "it exited");
        if (w.formed_ns > last_ns) last_ns = w.formed_ns;
        r.cpu_ns += w.cpu_ns;
        r.n_handshakes += w.handshake_ends;
    }
    if (r.n_ok == n && idle_s) {
        double had_ns = large_cpu_ns(pid, n);
        sleep(idle_s);
        r.idle_share = (large_cpu_ns(pid, n) - had_ns) / 1e9 / idle_s / n;
    }
    for (unsigned i = 0; i < n; i++) kill(pid[i], SIGKILL);
    for (unsigned i = 0; i < n; i++) waitpid(pid[i], NULL, 0);
    r.n_handshakes /= 2;
    r.formed_ns = last_ns - began_ns;
    if (with_tls) tls_dir_free(&dir);
    return r;
}
