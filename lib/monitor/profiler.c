/* monitor/profiler.c — serves the profile plugin's requests and captures the job's steps. Start
 * reading at profiler_on_request() and qr_profiler_on_reduction(). */
#include "monitor/profiler.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/counter.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/span.h"
#include "base/text.h"
#include "monitor/profile/profile.h"
#include "link/link_grpc_service.h"

#define SERVICE "/tensorflow.ProfilerService/"
#define ANALYSIS "/tensorflow.ProfileAnalysis/"

/* A pending Monitor call. */
struct monitor_call {
    struct qr_service_call *call; /* NULL: free */
    int64_t since_ns, until_ns;
    int64_t steps, samples; /* counter values at since_ns */
};

struct qr_profiler {
    struct qr_profiler_options opt;
    char *host, *logdir;
    struct qr_service *service;
    /* Used by the service's thread: the call that requested the capture (NULL: none), its
     * session */
    struct qr_service_call *call;
    struct qr_profile_request request;
    char session[QR_PROFILE_TEXT_MAX];
    int64_t begin_ns, end_ns;
    bool runs;
    struct monitor_call monitor_calls[QR_SERVICE_CALLS];
    /* Used by the training thread */
    bool steps_run, steps_over;
};

/* ---- end of a capture ---- */

static void profiler_collect(const struct qr_profiler *p, struct qr_buf *ret) {
    struct qr_spans spans;
    qr_spans_stop(&spans);
    if (spans.n_threads) qr_xspace_encode(&spans, p->host, (int32_t)getpid(), ret);
    if (spans.n_lost)
        qr_warn(p->opt.log, "profiler",
                "%llu spans beyond the limit of %d were dropped: capture a shorter time",
                (unsigned long long)spans.n_lost, QR_SPANS_MAX);
    qr_spans_fini(&spans);
}

/* ---- requests at the port ---- */

static void profiler_end_capture(struct qr_profiler *p) {
    struct qr_buf xspace = {0}, answer = {0};
    struct qr_err err;
    struct qr_service_call *call = p->call;
    if (p->runs) profiler_collect(p, &xspace);
    p->runs = false;
    p->call = NULL;
    if (!call) {
        qr_buf_free(&xspace);
        return;
    }
    qr_profile_response_encode(qr_buf_view(&xspace), p->request.emit_xspace, &answer);
    if (qr_buf_ok(&xspace) && qr_buf_ok(&answer)) {
        qr_service_answer(call, qr_buf_view(&answer));
    } else {
        qr_fail(&err, QR_RESOURCE_EXHAUSTED, "the capture is too large for one response");
        qr_service_refuse(call, &err);
    }
    qr_info(p->opt.log, "profiler", "captured %zu bytes for session %.80s", xspace.n, p->session);
    qr_buf_free(&xspace);
    qr_buf_free(&answer);
}

/* Computes the start of a capture by the service's clock. */
static enum qr_code profiler_start_time(const struct qr_profiler *p,
                                        const struct qr_profile_request *r, int64_t *ret_ns,
                                        struct qr_err *err) {
    int64_t wall_ns = qr_now_ns(p->opt.wall), now_ns = qr_now_ns(p->opt.clock);
    if (r->duration_ms < 1 || r->duration_ms > QR_PROFILE_MAX_MS)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "duration of %llu ms is out of range: use 1 to %d ms",
                       (unsigned long long)r->duration_ms, QR_PROFILE_MAX_MS);
    *ret_ns = now_ns;
    if (r->start_timestamp_ns <= (uint64_t)wall_ns) return QR_OK;
    uint64_t ahead_ns = r->start_timestamp_ns - (uint64_t)wall_ns;
    if (ahead_ns > (uint64_t)QR_PROFILE_AHEAD_NS)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "capture starts in %llu s, more than %lld s ahead: check the clocks",
                       (unsigned long long)(ahead_ns / (uint64_t)QR_SECOND),
                       (long long)(QR_PROFILE_AHEAD_NS / QR_SECOND));
    *ret_ns += (int64_t)ahead_ns;
    return QR_OK;
}

static enum qr_code profiler_fail_running(struct qr_err *err) {
    return qr_fail(err, QR_ALREADY_EXISTS,
                   "another capture of this worker is running: retry later");
}

static enum qr_code profiler_profile(struct qr_profiler *p, struct qr_service_call *call,
                                     struct qr_bytes message, struct qr_err *err) {
    struct qr_profile_request r;
    int64_t begin_ns = 0;
    QR_TRY(qr_profile_request_decode(message, &r, err));
    QR_TRY(profiler_start_time(p, &r, &begin_ns, err));
    if (p->call) QR_TRY(profiler_fail_running(err));
    p->call = call;
    p->request = r;
    p->begin_ns = begin_ns;
    p->end_ns = begin_ns + (int64_t)r.duration_ms * QR_MS;
    snprintf(p->session, sizeof p->session, "%.*s", (int)r.session_id.n,
             (const char *)r.session_id.p);
    p->request.session_id = (struct qr_bytes){0}; /* it points into the message */
    return QR_OK;
}

static enum qr_code profiler_terminate(struct qr_profiler *p, struct qr_service_call *call,
                                       struct qr_bytes message, struct qr_err *err) {
    struct qr_bytes id;
    QR_TRY(qr_terminate_request_decode(message, &id, err));
    if (!p->call || id.n != strlen(p->session) || memcmp(id.p, p->session, id.n) != 0)
        return qr_fail(err, QR_NOT_FOUND, "no capture of that session is running");
    profiler_end_capture(p);
    qr_service_answer(call, (struct qr_bytes){0});
    return QR_OK;
}

static enum qr_code profiler_monitor(struct qr_profiler *p, struct qr_service_call *call,
                                     struct qr_bytes message, struct qr_err *err) {
    uint64_t duration_ms;
    size_t i = 0;
    QR_TRY(qr_monitor_request_decode(message, &duration_ms, err));
    if (duration_ms > QR_PROFILE_MAX_MS)
        return qr_fail(err, QR_INVALID_ARGUMENT, "duration of %llu ms exceeds the limit of %d ms",
                       (unsigned long long)duration_ms, QR_PROFILE_MAX_MS);
    while (p->monitor_calls[i].call) i++; /* one slot for each possible call */
    int64_t now_ns = qr_now_ns(p->opt.clock);
    p->monitor_calls[i] =
        (struct monitor_call){call, now_ns, now_ns + (int64_t)duration_ms * QR_MS,
                              qr_counter_value(QR_STEPS), qr_counter_value(QR_SAMPLES)};
    return QR_OK;
}

static void profiler_answer_monitor(struct qr_profiler *p, struct monitor_call *w, int64_t now_ns) {
    struct qr_buf text = {0}, answer = {0};
    double s = (double)(now_ns - w->since_ns) / 1e9;
    qr_buf_printf(
        &text, "worker %s\nstep %lld of %lld, epoch %lld of %lld, loss %s\n", p->host,
        (long long)qr_counter_value(QR_STEP), (long long)qr_counter_value(QR_STEPS_PLANNED),
        (long long)qr_counter_value(QR_EPOCH), (long long)qr_counter_value(QR_EPOCHS_PLANNED),
        qr_text_number(qr_counter_real(QR_LOSS)).s);
    if (s > 0)
        qr_buf_printf(&text, "%.4g steps/s, %.4g samples/s of this worker, over %.3g s\n",
                      (double)(qr_counter_value(QR_STEPS) - w->steps) / s,
                      (double)(qr_counter_value(QR_SAMPLES) - w->samples) / s, s);
    qr_monitor_response_encode(qr_buf_string(&text), &answer);
    qr_service_answer(w->call, qr_buf_view(&answer));
    w->call = NULL;
    qr_buf_free(&text);
    qr_buf_free(&answer);
}

static void profiler_on_request(void *ctx, struct qr_service_call *call, const char *method,
                                struct qr_bytes message) {
    struct qr_profiler *p = ctx;
    struct qr_err err;
    enum qr_code code;
    if (strcmp(method, SERVICE "Profile") == 0) code = profiler_profile(p, call, message, &err);
    else if (strcmp(method, SERVICE "Terminate") == 0)
        code = profiler_terminate(p, call, message, &err);
    else if (strcmp(method, SERVICE "Monitor") == 0)
        code = profiler_monitor(p, call, message, &err);
    else if (strncmp(method, ANALYSIS, strlen(ANALYSIS)) == 0)
        code = qr_fail(&err, QR_UNIMPLEMENTED,
                       "a qring worker captures only itself: list all workers as "
                       "host:port,host:port instead of a worker list");
    else code = qr_fail(&err, QR_UNIMPLEMENTED, "no such method");
    if (code != QR_OK) qr_service_refuse(call, &err);
}

static void profiler_on_disconnect(void *ctx, struct qr_service_call *call) {
    struct qr_profiler *p = ctx;
    struct qr_buf unread = {0};
    for (size_t i = 0; i < QR_SERVICE_CALLS; i++)
        if (p->monitor_calls[i].call == call) p->monitor_calls[i].call = NULL;
    if (p->call != call) return;
    p->call = NULL;
    if (p->runs) profiler_collect(p, &unread);
    p->runs = false;
    qr_buf_free(&unread);
    qr_info(p->opt.log, "profiler", "client of session %.80s disconnected; capture discarded",
            p->session);
}

static int64_t profiler_on_turn(void *ctx, int64_t now_ns) {
    struct qr_profiler *p = ctx;
    struct qr_err err;
    int64_t next_ns = INT64_MAX;
    if (p->call && !p->runs && now_ns >= p->begin_ns) {
        p->runs = qr_spans_start();
        if (!p->runs) {
            profiler_fail_running(&err);
            qr_service_refuse(p->call, &err);
            p->call = NULL;
        }
    }
    if (p->call && now_ns >= p->end_ns) profiler_end_capture(p);
    if (p->call) next_ns = p->runs ? p->end_ns : p->begin_ns;
    for (struct monitor_call *w = p->monitor_calls; w < p->monitor_calls + QR_SERVICE_CALLS; w++) {
        if (w->call && now_ns >= w->until_ns) profiler_answer_monitor(p, w, now_ns);
        if (w->call && w->until_ns < next_ns) next_ns = w->until_ns;
    }
    return next_ns;
}

/* ---- steps of the job ---- */

static void profiler_write_steps(struct qr_profiler *p) {
    struct qr_buf xspace = {0};
    struct qr_err err = {0};
    unsigned long long first = p->opt.first_step, last = p->opt.last_step;
    profiler_collect(p, &xspace);
    /* The time makes the name unique: a restarted worker writes another file. */
    qr_auto(qr_free_p) char *name =
        qr_xasprintf("plugins/profile/steps_%llu_%llu/%s_%lld.xplane.pb", first, last, p->host,
                     (long long)(qr_now_ns(p->opt.wall) / QR_SECOND));
    qr_auto(qr_free_p) char *path = qr_path_join(p->logdir, name),
                            *folder = qr_xstrndup(path, (size_t)(strrchr(path, '/') - path));
    enum qr_code code = QR_OK;
    if (!qr_buf_ok(&xspace))
        code = qr_fail(&err, QR_RESOURCE_EXHAUSTED, "more than 1 GiB: capture fewer steps");
    if (code == QR_OK) code = qr_dir_make(folder, &err);
    if (code == QR_OK) code = qr_file_replace(path, qr_buf_view(&xspace), &err);
    if (code == QR_OK) {
        qr_info(p->opt.log, "profiler", "recorded steps %llu to %llu: %s", first, last, path);
        if (p->opt.wrote) p->opt.wrote(p->opt.wrote_ctx, name, xspace.n);
    } else {
        qr_count(QR_STORE_PUT_ERRORS, 1);
        qr_warn(p->opt.log, "profiler", "cannot write the capture of steps %llu to %llu: %s", first,
                last, err.msg);
    }
    qr_buf_free(&xspace);
}

void qr_profiler_on_reduction(void *profiler, enum qr_reduction_kind kind, uint64_t step) {
    struct qr_profiler *p = profiler;
    bool trains = kind == QR_REDUCTION_TRAIN;
    if (p->steps_over || !p->opt.first_step) return;
    if (p->steps_run && (step >= p->opt.last_step || kind == QR_REDUCTION_CLOSE)) {
        qr_profiler_finish(p);
    } else if (!p->steps_run && trains && step + 1 > p->opt.last_step) {
        p->steps_over = true;
    } else if (!p->steps_run && trains && step + 1 >= p->opt.first_step) {
        p->steps_run = qr_spans_start();
        p->steps_over = !p->steps_run;
        if (p->steps_over)
            qr_warn(p->opt.log, "profiler",
                    "steps %llu to %llu are not captured: another capture is running",
                    (unsigned long long)p->opt.first_step, (unsigned long long)p->opt.last_step);
    }
}

void qr_profiler_finish(struct qr_profiler *p) {
    if (!p) return;
    if (p->steps_run) profiler_write_steps(p);
    p->steps_run = false;
    p->steps_over = true;
}

/* ---- open and close ---- */

enum qr_code qr_profiler_open(const struct qr_profiler_options *opt, struct qr_profiler **ret,
                              unsigned *ret_port, struct qr_err *err) {
    struct qr_profiler *p = qr_xcalloc(1, sizeof *p);
    const struct qr_service_owner owner = {.ctx = p,
                                           .max_request = QR_PROFILE_REQUEST_MAX,
                                           .request = profiler_on_request,
                                           .gone = profiler_on_disconnect,
                                           .turn = profiler_on_turn};
    p->opt = *opt;
    p->host = qr_xstrdup(opt->host);
    p->logdir = opt->logdir ? qr_xstrdup(opt->logdir) : NULL;
    p->steps_over = !opt->logdir;
    *ret_port = 0;
    if (opt->address &&
        qr_service_open(opt->address, &owner, opt->clock, &p->service, ret_port, err) != QR_OK) {
        enum qr_code code = err->code;
        qr_profiler_close(p);
        return code;
    }
    *ret = p;
    return QR_OK;
}

void qr_profiler_close(struct qr_profiler *p) {
    struct qr_buf unread = {0};
    if (!p) return;
    qr_service_close(p->service);
    if (p->runs || p->steps_run) profiler_collect(p, &unread);
    qr_buf_free(&unread);
    free(p->host);
    free(p->logdir);
    free(p);
}
