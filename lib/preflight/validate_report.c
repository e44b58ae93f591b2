/* preflight/validate_report.c — the report of `qring validate` as text and JSON. Start reading at
 * qr_validation_text(). */
#include <string.h>

#include "base/cgroup.h"
#include "base/mem.h"
#include "preflight/validate.h"
#include "store/store.h"

/* Number of workers among the ring's names. */
static unsigned n_named(const struct qr_validation *v) {
    return (unsigned)(v->identity.n_peers - v->identity.n_servers);
}

/* True for the rows of the text table: powers of two, 1.5 times these up to 12, the current ring,
 * the recommended number and the maximum. */
static bool is_row_shown(const struct qr_validation *v, unsigned n) {
    unsigned odd = n;
    while (odd % 2 == 0) odd /= 2;
    return odd == 1 || (odd == 3 && n <= 12) || n == v->best || n == n_named(v) ||
           n == v->max_workers;
}

/* The last row: more workers than micro-batches gain nothing. */
static unsigned last_row(const struct qr_validation *v) {
    const struct qr_estimate_facts *f = &v->facts;
    uint64_t batch = f->batch_size < f->n_train ? f->batch_size : f->n_train,
             micro_batches = (batch + f->micro_batch_size - 1) / f->micro_batch_size;
    uint64_t last = micro_batches > n_named(v) ? micro_batches : n_named(v);
    if (last < 4) last = 4;
    return last < v->max_workers ? (unsigned)last : v->max_workers;
}

static void append_seconds(struct qr_buf *b, double s) {
    if (s < 1e-3) qr_buf_printf(b, "%.3g us", s * 1e6);
    else if (s < 1) qr_buf_printf(b, "%.3g ms", s * 1e3);
    else if (s < 600) qr_buf_printf(b, "%.3g s", s);
    else if (s < 36000) qr_buf_printf(b, "%.3g min", s / 60);
    else qr_buf_printf(b, "%.4g h", s / 3600);
}

static void append_bytes(struct qr_buf *b, uint64_t n) {
    qr_buf_printf(b, "%.1f MiB", (double)n / 1048576);
}

static double row_cost(const struct qr_validation *v, const struct qr_estimate_row *r) {
    return r->pod_hours * v->load.n_threads * v->price;
}

static void ring_text(const struct qr_validation *v, struct qr_buf *b) {
    const struct qr_identity *id = &v->identity;
    size_t missing = 0;
    if (id->role == QR_ROLE_SINGLE) qr_buf_printf(b, "ring        a single worker (%s)\n", id->why);
    else if (id->index < 0)
        qr_buf_printf(b, "ring        this process is not a worker but %s (%s)\n",
                      qr_role_name(id->role), id->why);
    else
        qr_buf_printf(b, "ring        %s, index %d, at %s (%s)\n", qr_role_name(id->role),
                      id->index, id->address, id->why);
    for (size_t i = 0; i < v->n_names; i++) {
        const struct qr_peer_name *p = &v->names[i];
        const char *kind = i < id->n_servers ? "ps" : "worker";
        if (p->address) qr_buf_printf(b, "  %-6s %-3zu%s -> %s\n", kind, i, p->peer, p->address);
        else if (p->required) qr_buf_printf(b, "  %-6s %-3zu%s -> no address\n", kind, i, p->peer);
        else missing++;
    }
    if (missing)
        qr_buf_printf(b, "  and %zu candidates of the template without an address (allowed)\n",
                      missing);
}

static void load_text(const struct qr_validation *v, struct qr_buf *b) {
    const struct qr_workload *l = &v->load;
    const struct qr_memory_estimate *m = &v->memory;
    qr_buf_printf(b,
                  "data        %zu training samples, %zu validation samples; batches of %llu in "
                  "micro-batches of %zu\n",
                  l->data.n_train, l->data.n_samples - l->data.n_train,
                  (unsigned long long)v->job->train.batch_size, v->job->micro_batch_size);
    for (size_t i = 0; i < v->n_channels; i++)
        qr_buf_printf(b, "%s%zu samples in channel %s", i ? ", " : "            ",
                      v->channels[i].n_samples, v->channels[i].name);
    if (v->n_channels) qr_buf_puts(b, "\n");
    struct qr_buf inputs = {0};
    qr_job_put_inputs(v->job, &l->data, &inputs);
    if (inputs.n) qr_buf_printf(b, "inputs      %s\n", qr_buf_string(&inputs));
    qr_buf_clear(&inputs);
    qr_job_put_classes(v->job, &l->data, &inputs);
    if (inputs.n) qr_buf_printf(b, "classes     %s\n", qr_buf_string(&inputs));
    qr_buf_free(&inputs);
    qr_auto(qr_free_p) char *initial =
        qr_url_redacted(l->initial_from_file ? v->job->train.initial_weights : "");
    size_t n = qr_model_n_params(l->model), frozen = qr_model_n_frozen(l->model);
    qr_buf_printf(b, "model       %zu parameters: %zu trainable, %zu frozen%s%s\n", n, n - frozen,
                  frozen, l->initial_from_file ? ", initial weights from " : "", initial);
    qr_buf_puts(b, "memory      ");
    append_bytes(b, m->total);
    qr_buf_puts(b, " at most per worker (program ");
    append_bytes(b, m->process);
    qr_buf_puts(b, ", data ");
    append_bytes(b, m->data);
    qr_buf_puts(b, ", workspaces ");
    append_bytes(b, m->workspaces);
    const char *by;
    (void)qr_cpu_limit_under("", &by);
    qr_buf_printf(b, " for %u thread%s, %s", l->n_threads, l->n_threads == 1 ? "" : "s",
                  v->settings.threads > 0 ? "as set" : by);
    if (m->writer) {
        qr_buf_puts(b, ", ");
        append_bytes(b, m->writer);
        qr_buf_puts(b, " while the leader writes the weights");
    }
    qr_buf_puts(b, "); this process may use ");
    uint64_t limit = qr_memory_limit_under("", &by);
    append_bytes(b, limit);
    qr_buf_printf(b, " (%s), of which ", by);
    append_bytes(b, qr_memory_available_under("", limit));
    qr_buf_puts(b, " are available now\n");
}

static void advice_text(const struct qr_validation *v, struct qr_buf *b) {
    struct qr_estimate_row one = qr_estimate_row(&v->facts, 1),
                           best = qr_estimate_row(&v->facts, v->best);
    qr_buf_printf(b, "recommended: %u worker%s; a step takes ", v->best, v->best == 1 ? "" : "s");
    append_seconds(b, one.step_s);
    if (v->best > 1) {
        qr_buf_puts(b, " on one and ");
        append_seconds(b, best.step_s);
        qr_buf_printf(b, " on %u", v->best);
    }
    qr_buf_puts(b, v->best > 1 ? ", a message between pods about "
                               : " and a message between pods about ");
    append_seconds(b, v->facts.message_s);
    qr_buf_puts(b, "\n");
}

static const char *timing_text(enum qr_timing t) {
    switch (t) {
    case QR_TIMING_SCALED: return "from a part of a micro-batch measured here";
    case QR_TIMING_ESTIMATED:
        return "estimated from the number of operations and the speed of a small circuit here "
               "(within a factor of 2)";
    default: return "measured here";
    }
}

static const char *timing_name(enum qr_timing t) {
    static const char *const names[] = {NULL, "measured", "scaled", "estimated"};
    return names[t];
}

static void time_text(const struct qr_validation *v, struct qr_buf *b) {
    const struct qr_estimate_facts *f = &v->facts;
    qr_buf_printf(b, "time        %u micro-batch%s at a time: ", f->lanes,
                  f->lanes == 1 ? "" : "es");
    append_seconds(b, f->train_wave_s);
    qr_buf_printf(b, ", %s with %u thread%s; assumed between pods: ", timing_text(v->timing),
                  v->load.n_threads, v->load.n_threads == 1 ? "" : "s");
    append_seconds(b, f->message_s);
    qr_buf_printf(
        b, " per message, %.3g GB/s\n            %llu epoch%s, not counting start and end\n\n",
        f->bytes_per_s / 1e9, (unsigned long long)v->epochs, v->epochs == 1 ? "" : "s");
    qr_buf_printf(b, "  workers  step        speed-up  total       pod-hours%s\n",
                  v->price >= 0 ? "     cost" : "");
    for (unsigned n = 1; n <= last_row(v); n++) {
        struct qr_buf step = {0}, all = {0};
        if (!is_row_shown(v, n) && n != last_row(v)) continue;
        struct qr_estimate_row r = qr_estimate_row(f, n);
        append_seconds(&step, r.step_s);
        append_seconds(&all, r.total_s);
        qr_buf_printf(b, "%c %7u  %-10s  %8.2f  %-10s  %-9.4g", n == v->best ? '*' : ' ', n,
                      qr_buf_string(&step), r.speedup, qr_buf_string(&all), r.pod_hours);
        if (v->price >= 0) qr_buf_printf(b, "  %7.4g", row_cost(v, &r));
        qr_buf_puts(b, "\n");
        qr_buf_free(&step);
        qr_buf_free(&all);
    }
    qr_buf_puts(b, "\n");
    advice_text(v, b);
    if (v->price >= 0)
        qr_buf_printf(b, "cost: pod-hours x %u CPU%s x %g\n", v->load.n_threads,
                      v->load.n_threads == 1 ? "" : "s", v->price);
}

void qr_validation_text(const struct qr_validation *v, struct qr_buf *b) {
    if (v->job) qr_buf_printf(b, "job         %s\n", v->job->name);
    if (v->settings.set.n) {
        qr_buf_puts(b, "set         ");
        qr_overrides_put(&v->settings.set, b);
        qr_buf_puts(b, "\n");
    }
    if (v->job && v->job->sweep) {
        qr_buf_puts(b, "sweep       ");
        qr_sweep_describe(v->job->sweep, b);
        qr_buf_puts(b, "; all below is for the job itself\n");
    }
    if (v->has_identity) ring_text(v, b);
    if (v->outputs_good)
        qr_buf_printf(b, "results     %s and %s are writable\n", v->out, v->weights_url);
    if (v->has_load) load_text(v, b);
    if (v->timing != QR_TIMING_NONE) time_text(v, b);
    if (!v->n_findings) qr_buf_puts(b, "No problems found.\n");
    else qr_buf_printf(b, "\n%zu problem%s found:\n", v->n_findings, v->n_findings == 1 ? "" : "s");
    for (size_t i = 0; i < v->n_findings; i++)
        qr_buf_printf(b, "  - %s\n", v->findings[i].sentence);
}

/* ---- JSON ---- */

/* Every report has every key; null: not known. */
static void report_number(struct qr_json_writer *w, const char *key, bool known, double x) {
    qr_json_put_key(w, key);
    if (known) qr_json_put_double(w, x);
    else qr_json_put_null(w);
}

static void report_text(struct qr_json_writer *w, const char *key, const char *text) {
    qr_json_put_key(w, key);
    if (text) qr_json_put_string(w, text);
    else qr_json_put_null(w);
}

static void ring_json(const struct qr_validation *v, struct qr_json_writer *w) {
    qr_json_put_key(w, "ring");
    if (!v->has_identity) {
        qr_json_put_null(w);
        return;
    }
    qr_json_open(w, '{');
    report_text(w, "source", qr_identity_source_name(v->identity.source));
    report_text(w, "role", qr_role_name(v->identity.role));
    qr_json_put_key(w, "index");
    /* Null outside the ring, as for --print-identity. */
    if (v->identity.index < 0) qr_json_put_null(w);
    else qr_json_put_i64(w, v->identity.index);
    qr_json_key_open(w, "peers", '[');
    for (size_t i = 0; i < v->n_names; i++) {
        if (!v->names[i].required && !v->names[i].address) continue;
        qr_json_open(w, '{');
        report_text(w, "peer", v->names[i].peer);
        report_text(w, "address", v->names[i].address);
        qr_json_close(w, '}');
    }
    qr_json_close(w, ']');
    qr_json_close(w, '}');
}

static void load_json(const struct qr_validation *v, struct qr_json_writer *w) {
    const struct qr_workload *l = &v->load;
    bool known = v->has_load;
    report_number(w, "train_samples", known, (double)l->data.n_train);
    report_number(w, "validation_samples", known, (double)(l->data.n_samples - l->data.n_train));
    qr_json_key_open(w, "channel_samples", '{');
    for (size_t i = 0; i < v->n_channels; i++)
        report_number(w, v->channels[i].name, true, (double)v->channels[i].n_samples);
    qr_json_close(w, '}');
    report_number(w, "parameters", known, known ? (double)qr_model_n_params(l->model) : 0);
    report_number(w, "frozen_parameters", known, known ? (double)qr_model_n_frozen(l->model) : 0);
    report_number(w, "threads", known, l->n_threads);
    report_number(w, "memory_bytes", known, (double)v->memory.total);
    report_number(w, "memory_follower_bytes", known, (double)v->memory.follower);
    report_number(w, "memory_process_bytes", known, (double)v->memory.process);
    report_number(w, "memory_data_bytes", known, (double)v->memory.data);
    report_number(w, "memory_workspaces_bytes", known, (double)v->memory.workspaces);
    const char *by;
    uint64_t limit = qr_memory_limit_under("", &by);
    report_number(w, "memory_limit_bytes", true, (double)limit);
    report_text(w, "memory_limit_by", by);
    report_number(w, "memory_available_bytes", true, (double)qr_memory_available_under("", limit));
}

static void time_json(const struct qr_validation *v, struct qr_json_writer *w) {
    const struct qr_estimate_facts *f = &v->facts;
    bool known = v->timing != QR_TIMING_NONE;
    report_text(w, "timing", timing_name(v->timing));
    report_number(w, "seconds_per_wave", known, f->train_wave_s);
    report_number(w, "micro_batches_per_wave", known, f->lanes);
    report_number(w, "message_seconds_assumed", known, f->message_s);
    report_number(w, "bytes_per_second_assumed", known, f->bytes_per_s);
    report_number(w, "best_workers", known, v->best);
    qr_json_put_key(w, "workers");
    if (!known) {
        qr_json_put_null(w);
        return;
    }
    qr_json_open(w, '[');
    for (unsigned n = 1; n <= v->max_workers; n++) {
        struct qr_estimate_row r = qr_estimate_row(f, n);
        qr_json_open(w, '{');
        report_number(w, "workers", true, n);
        report_number(w, "seconds_per_step", true, r.step_s);
        report_number(w, "speed_up", true, r.speedup);
        report_number(w, "seconds", true, r.total_s);
        report_number(w, "pod_hours", true, r.pod_hours);
        report_number(w, "cost", v->price >= 0, row_cost(v, &r));
        qr_json_close(w, '}');
    }
    qr_json_close(w, ']');
}

void qr_validation_json(const struct qr_validation *v, struct qr_buf *b) {
    struct qr_json_writer w = qr_json_writer(b, 0);
    qr_json_open(&w, '{');
    report_text(&w, "job", v->job ? v->job->name : NULL);
    qr_overrides_json(&v->settings.set, &w);
    qr_json_put_key(&w, "trials");
    if (v->job && v->job->sweep) qr_json_put_i64(&w, (int64_t)v->job->sweep->n_trials);
    else qr_json_put_null(&w);
    qr_json_key_bool(&w, "good", v->n_findings == 0);
    qr_json_key_open(&w, "findings", '[');
    for (size_t i = 0; i < v->n_findings; i++) {
        qr_json_open(&w, '{');
        report_text(&w, "code", qr_code_name(v->findings[i].code));
        report_text(&w, "sentence", v->findings[i].sentence);
        qr_json_close(&w, '}');
    }
    qr_json_close(&w, ']');
    ring_json(v, &w);
    report_text(&w, "out", v->out);
    report_text(&w, "weights", v->weights_url);
    report_text(&w, "logdir", v->logdir);
    report_text(&w, "checkpoints", v->checkpoints_url);
    load_json(v, &w);
    time_json(v, &w);
    qr_json_close(&w, '}');
    qr_buf_puts(b, "\n");
}
