/* worker/network.c — the ports that a worker opens: peers, probes, profiler. Start reading at
 * worker_open_group(). */
#include "worker/worker_impl.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "worker/ring.h"
#include "worker/stop.h"

static const int64_t port_retry_ns = QR_SECOND / 4;

enum qr_code worker_choose_address(struct worker *w, struct qr_err *err) {
    const struct qr_settings *s = &w->settings;
    const struct qr_identity *id = &w->identity;
    bool local;
    unsigned unused;
    qr_auto(qr_free_p) char *own = NULL;
    QR_TRY(qr_ring_network(s, id, &local, err));
    w->local = local;
    if (!qr_address_split(id->address, 2222, &own, &unused))
        return qr_fail(err, QR_INTERNAL, "own address %s", id->address);
    QR_TRY(qr_tls_open(s, &w->log, &w->tls, err));
    if (!local && !w->tls)
        qr_warn(&w->log, "worker",
                "--plaintext: gradients and weights are sent between the workers unencrypted and "
                "unauthenticated");
    const char *host = s->bind ? s->bind : local ? own : strchr(own, ':') ? "::" : "0.0.0.0";
    w->listen = qr_address_join(host, s->port >= 0 ? (unsigned)s->port : id->port);
    return QR_OK;
}

enum qr_code worker_await_port(struct worker *w,
                               enum qr_code (*open)(struct worker *w, struct qr_err *err),
                               struct qr_err *err) {
    enum qr_code code = open(w, err);
    if (code != QR_ALREADY_EXISTS) return code;
    qr_info(&w->log, "worker", "%s; retrying for %lld s", err->msg,
            (long long)(QR_PORT_WAIT_NS / QR_SECOND));
    for (int64_t waited_ns = 0;
         code == QR_ALREADY_EXISTS && waited_ns < QR_PORT_WAIT_NS && !qr_stop_requested();
         waited_ns += port_retry_ns) {
        qr_sleep_ns(port_retry_ns);
        code = open(w, err);
    }
    return code == QR_ALREADY_EXISTS && qr_stop_requested()
               ? qr_fail(err, QR_CANCELLED, "asked to stop while a port was in use")
               : code;
}

/* gRPC may hang when it gets no thread. */
static enum qr_code open_links(struct worker *w, const struct qr_group_options *opt,
                               unsigned *ret_port, struct qr_err *err) {
    qr_stop_bound(QR_OPEN_BOUND_NS, qr_exit_code(QR_UNAVAILABLE),
                  "while opening the ports for peers; check the limits of threads (ulimit -u, the "
                  "pod's pids)");
    enum qr_code code = qr_group_open(opt, &w->group, ret_port, err);
    qr_stop_bound(0, 0, NULL);
    return code;
}

enum qr_code worker_open_group(struct worker *w, struct qr_err *err) {
    const struct qr_settings *s = &w->settings;
    const struct qr_identity *id = &w->identity;
    free(w->places); /* of an earlier attempt */
    w->places = qr_xasprintf("%s\n%s\n%s", w->outputs.dir, w->outputs.weights_url,
                             w->outputs.checkpoints_url ? w->outputs.checkpoints_url : "none");
    int64_t form_ns = s->form_timeout_ns >= 0 ? s->form_timeout_ns
                      : id->count_known       ? s->start_timeout_ns
                                              : 10 * QR_SECOND;
    bool solo = id->role == QR_ROLE_SINGLE;
    unsigned port = 0;
    free(w->fields);
    w->fields = qr_xcalloc(w->canonical.n, sizeof *w->fields);
    for (size_t i = 0; i < w->canonical.n; i++)
        w->fields[i] = (struct qr_field){w->canonical.fields[i].name, w->canonical.fields[i].value};
    struct qr_group_options opt = {
        .run = w->job->name,
        .fields = w->fields,
        .n_fields = w->canonical.n,
        .index = (uint32_t)id->index,
        .n_peers = id->n_peers,
        .peers = (const char *const *)id->peers,
        .count_known = id->count_known,
        .n_servers = (unsigned)id->n_servers,
        .server = id->role == QR_ROLE_PS,
        .min_workers = s->min_workers > 0 ? (unsigned)s->min_workers : 0,
        .listen_address = w->listen,
        .data_port = (unsigned)s->data_port,
        .form_timeout_ns = form_ns,
        .allreduce = qr_ring_allreduce(s),
        .places = w->places,
        .echo = true,
        .tls = w->tls,
        .clock = &qr_clock_monotonic,
        .awake = &qr_clock_awake,
        .log = &w->log,
    };
    memcpy(opt.job_hash, w->canonical.hash, sizeof opt.job_hash);
    if (solo) {
        w->group = qr_group_solo(&opt);
        qr_info(&w->log, "worker", "working alone: no ports are bound");
    } else {
        QR_TRY(open_links(w, &opt, &port, err));
        qr_info(&w->log, "worker", "listening on %s (control port %u, data port %lld%s)", w->listen,
                port, (long long)s->data_port, s->data_port ? "" : ": any");
        qr_outputs_report_listening(&w->outputs, port);
    }
    qr_stop_set_group(w->group);
    return QR_OK;
}

enum qr_code worker_open_http(struct worker *w, struct qr_err *err) {
    const struct qr_settings *s = &w->settings;
    enum qr_isa isa = QR_ISA_PORTABLE;
    unsigned port = 0;
    if (s->http_port <= 0) return QR_OK;
    QR_TRY(qr_isa_parse(s->isa, &isa, err));
    const struct qr_http_options opt = {
        .bind = s->http_bind ? s->http_bind
                : w->local   ? "127.0.0.1"
                             : NULL,
        .port = (unsigned)s->http_port,
        .began_ns = w->began_ns,
        .build = {QR_VERSION, qr_contract_name(w->job->precision), qr_isa_name(isa)},
        .clock = &qr_clock_monotonic,
    };
    QR_TRY(qr_http_open(&opt, &w->http, &port, err));
    qr_http_ready(w->http, true);
    qr_http_watch(w->http, QR_HTTP_CONTROL, w->identity.role != QR_ROLE_SINGLE);
    qr_info(&w->log, "worker", "probes and metrics on port %u%s%s: /healthz, /readyz, /metrics",
            port, opt.bind ? " of " : "", opt.bind ? opt.bind : "");
    return QR_OK;
}

enum qr_code worker_open_profiler(struct worker *w, struct qr_err *err) {
    const struct qr_settings *s = &w->settings;
    char host[256] = "";
    unsigned port = 0;
    if (s->profiler_port <= 0 && !w->job->profile_first) return QR_OK;
    gethostname(host, sizeof host - 1);
    bool solo = w->identity.role == QR_ROLE_SINGLE;
    qr_auto(qr_free_p) char *name =
        solo ? qr_xstrdup(host) : qr_xasprintf("%s_%d", host, w->identity.index);
    const char *bind = s->profiler_bind ? s->profiler_bind : "127.0.0.1";
    qr_auto(qr_free_p) char *address =
        s->profiler_port > 0 ? qr_address_join(bind, (unsigned)s->profiler_port) : NULL;
    const struct qr_profiler_options opt = {
        .address = address,
        .host = name,
        .first_step = w->job->profile_first,
        .last_step = w->job->profile_last,
        .logdir = w->outputs.logdir,
        .wrote = qr_outputs_wrote,
        .wrote_ctx = &w->outputs,
        .clock = &qr_clock_monotonic,
        .wall = &qr_clock_wall,
        .log = &w->log,
    };
    if (qr_profiler_open(&opt, &w->profiler, &port, err) != QR_OK)
        return qr_wrap(err, "--profiler-port");
    if (port)
        qr_info(&w->log, "worker",
                "profiler on port %u of %s: TensorBoard's \"Capture profile\" takes HOST:%u", port,
                bind, port);
    return QR_OK;
}
