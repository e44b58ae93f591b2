/* The profiler as TensorBoard's plugin calls it: captures over gRPC, rejected and concurrent calls;
 * and captures of a job's steps, written to a folder. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/span.h"
#include "monitor/profile/profile.h"
#include "link/link_grpc_service.h"
#include "monitor/profiler.h"
#include "profiler.pb-c.h"
#include "tests/t.h"
#include "tests/unary.h"

#define SERVICE "/tensorflow.ProfilerService/"

#ifdef __SANITIZE_ADDRESS__
/* c-ares of Debian 12 leaks the name that it looks up in /etc/hosts. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libcares.so"; }
#endif

static struct qr_log quiet;
static unsigned port;
static atomic_bool working;

/* Records one step of 1 ms after the other. */
static void *train(void *arg) {
    (void)arg;
    for (uint64_t step = 1; atomic_load(&working); step++) {
        int64_t began_ns = qr_span_begin();
        qr_sleep_ns(QR_MS);
        qr_span_end(began_ns, QR_SPAN_STEP, NULL, step);
    }
    return NULL;
}

static struct qr_bytes request(uint64_t ms, char *session, uint64_t start_ns) {
    static uint8_t packed[512];
    Qring__Profiler__ProfileRequest r;
    Qring__Profiler__ProfileOptions o;
    qring__profiler__profile_request__init(&r);
    qring__profiler__profile_options__init(&o);
    r.duration_ms = ms;
    r.session_id = session;
    r.opts = &o;
    o.start_timestamp_ns = start_ns;
    return qr_bytes_of(packed, qring__profiler__profile_request__pack(&r, packed));
}

static struct unary *call_begin(const char *method, struct qr_bytes message) {
    return unary_begin(port, method, message, 1);
}

/* Ends the call. The status must be `status`, and the message must contain `words`. */
static void expect(struct unary *u, grpc_status_code status, const char *words, const char *what) {
    unary_end(u);
    CHECK(u->status == status && strstr(u->said, words), "%s: status %d, %s", what, (int)u->status,
          u->said);
    unary_free(u);
}

static size_t steps_in(const uint8_t *p, size_t n) {
    Qring__Profiler__XSpace *x = qring__profiler__xspace__unpack(NULL, n, p);
    size_t steps = 0;
    for (size_t i = 0; x && i < x->n_planes; i++)
        for (size_t k = 0; k < x->planes[i]->n_lines; k++)
            steps += x->planes[i]->lines[k]->n_events;
    if (x) qring__profiler__xspace__free_unpacked(x, NULL);
    return steps;
}

/* Number of spans in the response; SIZE_MAX if it is malformed. */
static size_t response_spans(const struct unary *u) {
    size_t n = SIZE_MAX;
    Qring__Profiler__ProfileResponse *r =
        qring__profiler__profile_response__unpack(NULL, u->bytes.n, u->bytes.p);
    if (r && r->empty_trace) n = 0;
    else if (r && r->n_tool_data == 1)
        n = steps_in(r->tool_data[0]->data.data, r->tool_data[0]->data.len);
    if (r) qring__profiler__profile_response__free_unpacked(r, NULL);
    return n;
}

/* Starts a capture of 15 s and waits until it records, however busy the machine is. */
static struct unary *capture_start(char *session) {
    struct unary *u = call_begin(SERVICE "Profile", request(15000, session, 0));
    for (int turns = 0; turns < 1000 && !qr_spans_on; turns++) unary_go_on(u, 10);
    CHECK(qr_spans_on, "the capture does not start");
    unary_go_on(u, 100);
    return u;
}

static void test_captures(void) {
    char session[] = "one", two[] = "two";
    int64_t began_ns = qr_now_ns(&qr_clock_monotonic);
    struct unary *u = call_begin(SERVICE "Profile", request(300, session, 0));
    unary_end(u);
    int64_t took_ns = qr_now_ns(&qr_clock_monotonic) - began_ns;
    size_t n = response_spans(u);
    CHECK(u->status == GRPC_STATUS_OK && took_ns >= 300 * QR_MS, "status %d", (int)u->status);
    CHECK(n > 0 && n <= 300, "%zu steps of a millisecond in 300", n);
    unary_free(u);

    began_ns = qr_now_ns(&qr_clock_monotonic);
    u = capture_start(two);
    expect(call_begin(SERVICE "Profile", request(10, session, 0)), GRPC_STATUS_ALREADY_EXISTS,
           "another capture of this worker is running", "a second capture");
    expect(call_begin(SERVICE "Terminate", qr_bytes_of("\x0a\x03one", 5)), GRPC_STATUS_NOT_FOUND,
           "no capture of that session", "terminating another session");
    expect(call_begin(SERVICE "Terminate", qr_bytes_of("\x0a\x03two", 5)), GRPC_STATUS_OK, "",
           "terminating it");
    unary_end(u);
    took_ns = qr_now_ns(&qr_clock_monotonic) - began_ns;
    n = response_spans(u);
    CHECK(took_ns < 14 * QR_SECOND && n > 0 && n < 14000, "%zu steps, ended early", n);
    unary_free(u);

    uint64_t at_ns = (uint64_t)qr_now_ns(&qr_clock_wall) + UINT64_C(200000000);
    began_ns = qr_now_ns(&qr_clock_monotonic);
    u = call_begin(SERVICE "Profile", request(100, session, at_ns));
    unary_end(u);
    took_ns = qr_now_ns(&qr_clock_monotonic) - began_ns;
    CHECK(took_ns >= 280 * QR_MS && response_spans(u) > 0, "begins when it was asked to");
    unary_free(u);
}

/* A cancelled call ends its capture: another one may start. */
static void test_cancel(void) {
    char session[] = "left";
    struct unary *u = capture_start(session);
    grpc_call_cancel(u->call, NULL);
    expect(u, GRPC_STATUS_CANCELLED, "", "a cancelled call");
    int64_t by_ns = qr_now_ns(&qr_clock_monotonic) + 5 * QR_SECOND;
    size_t n = 0;
    while (n == 0 && qr_now_ns(&qr_clock_monotonic) < by_ns) {
        u = call_begin(SERVICE "Profile", request(50, session, 0));
        unary_end(u);
        n = u->status == GRPC_STATUS_OK ? response_spans(u) : 0;
        unary_free(u);
    }
    CHECK(n > 0, "no capture after a cancelled call");
}

static void test_rejected(void) {
    char session[] = "s";
    uint64_t far_ns = (uint64_t)qr_now_ns(&qr_clock_wall) + UINT64_C(62000000000);
    static uint8_t large[QR_PROFILE_REQUEST_MAX + 1];
    expect(call_begin(SERVICE "Profile", request(0, session, 0)), GRPC_STATUS_INVALID_ARGUMENT,
           "1 to 600000", "no duration");
    expect(call_begin(SERVICE "Profile", request(600001, session, 0)), GRPC_STATUS_INVALID_ARGUMENT,
           "1 to 600000", "too long");
    expect(call_begin(SERVICE "Profile", request(5, session, far_ns)), GRPC_STATUS_INVALID_ARGUMENT,
           "clocks", "too far ahead");
    expect(call_begin(SERVICE "Profile", qr_bytes_of("\x0b", 1)), GRPC_STATUS_INVALID_ARGUMENT,
           "not a protobuf message", "garbage");
    expect(call_begin(SERVICE "Terminate", qr_bytes_of("\x0a\x7f", 2)),
           GRPC_STATUS_INVALID_ARGUMENT, "not a protobuf message", "garbage");
    expect(call_begin(SERVICE "Monitor", qr_bytes_of("\x08", 1)), GRPC_STATUS_INVALID_ARGUMENT,
           "not a protobuf message", "garbage");
    expect(call_begin(SERVICE "Profile", qr_bytes_of(large, sizeof large)),
           GRPC_STATUS_INVALID_ARGUMENT, "too long", "a long request");
    expect(call_begin("/tensorflow.ProfileAnalysis/NewSession", (struct qr_bytes){0}),
           GRPC_STATUS_UNIMPLEMENTED, "host:port,host:port", "a fleet's capture");
    expect(call_begin("/qring.Link/Stream", (struct qr_bytes){0}), GRPC_STATUS_UNIMPLEMENTED,
           "no such method", "another method");
    int64_t began_ns = qr_now_ns(&qr_clock_monotonic);
    expect(unary_begin(port, SERVICE "Profile", (struct qr_bytes){0}, 0),
           GRPC_STATUS_DEADLINE_EXCEEDED, "did not arrive", "a request that does not arrive");
    CHECK(t_in_time("the end of a request that does not arrive",
                    qr_now_ns(&qr_clock_monotonic) - began_ns, 2 * QR_SERVICE_REQUEST_NS,
                    T_MINUTE));
}

static void test_monitor(void) {
    struct unary *u = call_begin(SERVICE "Monitor", qr_bytes_of("\x08\x64", 2));
    unary_end(u);
    Qring__Profiler__MonitorResponse *r =
        qring__profiler__monitor_response__unpack(NULL, u->bytes.n, u->bytes.p);
    CHECK(u->status == GRPC_STATUS_OK && r && strstr(r->data, "worker w_0\nstep 0 of 0") &&
              strstr(r->data, "steps/s"),
          "%s", r ? r->data : u->said);
    if (r) qring__profiler__monitor_response__free_unpacked(r, NULL);
    unary_free(u);
}

/* As many calls as allowed, and one more, for which the oldest one is rejected. Closing then waits
 * for none of them. */
static void test_call_limit(struct qr_profiler *p) {
    struct unary *all[QR_SERVICE_CALLS];
    for (int i = 0; i < QR_SERVICE_CALLS; i++)
        all[i] = call_begin(SERVICE "Monitor", qr_bytes_of("\x08\x90\x4e", 3)); /* 10 s */
    /* A call progresses only while it is polled: on a busy machine one round may not be enough to
     * connect. */
    for (int turn = 0; turn < 20; turn++)
        for (int i = 0; i < QR_SERVICE_CALLS; i++) unary_go_on(all[i], 5);
    expect(call_begin(SERVICE "Monitor", qr_bytes_of("\x08\x64", 2)), GRPC_STATUS_OK, "",
           "one more");
    unsigned n_rejected = 0;
    int64_t began_ns = qr_now_ns(&qr_clock_monotonic);
    qr_profiler_close(p);
    CHECK(t_in_time("close during calls of 10 s", qr_now_ns(&qr_clock_monotonic) - began_ns,
                    5 * QR_SECOND, 9 * QR_SECOND));
    for (int i = 0; i < QR_SERVICE_CALLS; i++) {
        unary_end(all[i]);
        bool rejected = all[i]->status == GRPC_STATUS_RESOURCE_EXHAUSTED;
        CHECK(rejected ? strstr(all[i]->said, "too many calls of this client") != NULL
                       : all[i]->status == GRPC_STATUS_UNAVAILABLE,
              "during close: %d, %s", (int)all[i]->status, all[i]->said);
        n_rejected += rejected;
        unary_free(all[i]);
    }
    CHECK(n_rejected == 1, "%u calls rejected", n_rejected);
    CHECK(!qr_spans_on);
}

static struct qr_profiler_options options(const char *address, const char *logdir) {
    return (struct qr_profiler_options){.address = address,
                                        .host = "w_0",
                                        .logdir = logdir,
                                        .clock = &qr_clock_monotonic,
                                        .wall = &qr_clock_wall,
                                        .log = &quiet};
}

static void test_port(void) {
    struct qr_profiler_options opt = options("127.0.0.1:0", NULL);
    struct qr_profiler *p, *second;
    struct qr_err err;
    char address[64];
    pthread_t t;
    unsigned unused;
    CHECK(qr_profiler_open(&opt, &p, &port, &err) == QR_OK && port > 0, "%s", err.msg);
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    opt = options(address, NULL);
    CHECK(qr_profiler_open(&opt, &second, &unused, &err) == QR_ALREADY_EXISTS &&
              strstr(err.msg, "in use"),
          "%s", err.msg);
    opt = options("nowhere", NULL);
    CHECK(qr_profiler_open(&opt, &second, &unused, &err) == QR_INVALID_ARGUMENT, "%s", err.msg);
    char none[] = "none";
    struct unary *u = call_begin(SERVICE "Profile", request(20, none, 0));
    unary_end(u);
    CHECK(u->status == GRPC_STATUS_OK && response_spans(u) == 0, "nothing was recorded");
    unary_free(u);
    atomic_store(&working, true);
    pthread_create(&t, NULL, train, NULL);
    test_captures();
    test_cancel();
    test_rejected();
    test_monitor();
    atomic_store(&working, false);
    pthread_join(t, NULL);
    test_call_limit(p);
}

/* ---- steps of the job ---- */

static char wrote_name[256];
static size_t wrote_bytes;
static void wrote(void *ctx, const char *name, size_t bytes) {
    (void)ctx;
    snprintf(wrote_name, sizeof wrote_name, "%s", name);
    wrote_bytes = bytes;
}

/* Trains from the state of step `from` to that of step `to`. Returns the number of steps in the
 * file, or 0 without one. */
static size_t capture_steps(const char *logdir, uint64_t from, uint64_t to, uint64_t first,
                            uint64_t last) {
    struct qr_profiler_options opt = options(NULL, logdir);
    struct qr_profiler *p;
    struct qr_err err;
    struct qr_buf file = {0};
    unsigned none;
    size_t n = 0;
    opt.first_step = first;
    opt.last_step = last;
    opt.wrote = wrote;
    *wrote_name = '\0';
    CHECK(qr_profiler_open(&opt, &p, &none, &err) == QR_OK && none == 0);
    for (uint64_t step = from; step < to; step++) {
        qr_profiler_on_reduction(p, QR_REDUCTION_TRAIN, step);
        int64_t began_ns = qr_span_begin();
        qr_span_end(began_ns, QR_SPAN_STEP, NULL, step + 1);
        if (step % 10 == 9) qr_profiler_on_reduction(p, QR_REDUCTION_EVAL, step + 1);
    }
    qr_profiler_finish(p);
    CHECK(!qr_spans_on, "the capture goes on after its last step");
    qr_profiler_close(p);
    if (!*wrote_name) return 0;
    qr_auto(qr_free_p) char *path = qr_path_join(logdir, wrote_name);
    CHECK(qr_file_read(path, 1 << 20, &file, &err) == QR_OK && file.n == wrote_bytes, "%s", path);
    n = steps_in(file.p, file.n);
    qr_buf_free(&file);
    return n;
}

static void test_job_steps(void) {
    char dir[] = "/tmp/qring-profiler-XXXXXX";
    CHECK(mkdtemp(dir) != NULL);
    size_t n = capture_steps(dir, 0, 40, 5, 12);
    CHECK(n == 8 && strncmp(wrote_name, "plugins/profile/steps_5_12/w_0_", 31) == 0, "%zu in %s", n,
          wrote_name);
    CHECK((n = capture_steps(dir, 0, 40, 1, 1)) == 1, "the first step: %zu", n);
    CHECK((n = capture_steps(dir, 7, 40, 5, 12)) == 5, "resumed after step 7: %zu", n);
    CHECK((n = capture_steps(dir, 0, 8, 5, 12)) == 4, "ended after step 8: %zu", n);
    CHECK((n = capture_steps(dir, 0, 40, 40, 40)) == 1, "the last step: %zu", n);
    CHECK((n = capture_steps(dir, 20, 40, 5, 12)) == 0, "resumed after the last step: %zu", n);
    CHECK(qr_spans_start()); /* Another capture is on. */
    struct qr_spans s;
    struct qr_profiler_options opt = options(NULL, dir);
    struct qr_profiler *p;
    unsigned none;
    opt.first_step = opt.last_step = 1;
    opt.wrote = wrote;
    *wrote_name = '\0';
    CHECK(qr_profiler_open(&opt, &p, &none, QR_IGNORED) == QR_OK);
    qr_profiler_on_reduction(p, QR_REDUCTION_TRAIN, 0);
    qr_profiler_on_reduction(p, QR_REDUCTION_TRAIN, 1);
    CHECK(qr_spans_on && !*wrote_name, "the other capture goes on");
    qr_profiler_close(p);
    qr_spans_stop(&s);
    qr_spans_fini(&s);
    /* A file is in the folder's place: training goes on. */
    qr_auto(qr_free_p) char *blocked = qr_path_join(dir, "blocked");
    CHECK(qr_file_replace(blocked, qr_bytes_of_string("x"), QR_IGNORED) == QR_OK);
    CHECK((n = capture_steps(blocked, 0, 40, 5, 12)) == 0, "wrote below a file: %zu", n);
    CHECK((n = capture_steps(NULL, 0, 40, 5, 12)) == 0, "wrote without a logdir: %zu", n);
    qr_auto(qr_free_p) char *remove = qr_xasprintf("rm -rf '%s'", dir);
    CHECK(system(remove) == 0);
}

int main(void) {
    setenv("GRPC_POLL_STRATEGY", "poll", 0);
    quiet = qr_log_stderr(QR_LOG_ERROR, QR_LOG_TEXT);
    grpc_init();
    test_job_steps();
    test_port();
    grpc_shutdown_blocking();
    return t_end();
}
