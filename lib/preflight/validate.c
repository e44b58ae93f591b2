/* preflight/validate.c — the checks of `qring validate`; validate_report.c prints the result. Start
 * reading at qr_validate(). */
#include "preflight/validate.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/pool.h"
#include "output/run_checkpoints.h"
#include "preflight/stopwatch.h"
#include "preflight/flop_rate.h"
#include "sim/sim.h"
#include "store/store.h"
#include "train/state.h"
#include "train/step.h"
#include "worker/results.h"
#include "worker/tls.h"

static const int64_t resolve_within_ns = 10 * QR_SECOND, measure_for_ns = QR_SECOND / 5;
static const double run_at_most_s = 2;         /* maximum expected time of a timed run */
static const double assumed_bytes_per_s = 1e9; /* 8 Gbit/s between pods */

static void add_finding(void *validation, const struct qr_err *err) {
    struct qr_validation *v = validation;
    if (v->n_findings == sizeof v->findings / sizeof *v->findings) return;
    v->findings[v->n_findings++] = (struct qr_finding){err->code, qr_xstrdup(err->msg)};
}

/* ---- the ring ---- */

static void report_missing_name(struct qr_validation *v, const struct qr_peer_name *p,
                                const char *host) {
    struct qr_err err;
    switch (p->code) {
    case QR_NOT_FOUND:
        qr_fail(&err, p->code,
                "peer %s: the name %s has no address here; a pod's name exists once its pod does, "
                "so check the spelling, and validate inside the cluster",
                p->peer, host);
        break;
    case QR_DEADLINE_EXCEEDED:
        qr_fail(&err, p->code,
                "peer %s: no reply for the name %s within 10 s; check that the DNS server is "
                "reachable",
                p->peer, host);
        break;
    default:
        qr_fail(&err, p->code,
                "peer %s: cannot look up the name %s now; check that the DNS server is reachable",
                p->peer, host);
    }
    add_finding(v, &err);
}

static void resolve_peers(struct qr_validation *v) {
    const struct qr_identity *id = &v->identity;
    size_t n = id->n_peers;
    char **hosts = qr_xcalloc(n + 1, sizeof *hosts),
         **addresses = qr_xcalloc(n + 1, sizeof *addresses);
    enum qr_code *codes = qr_xcalloc(n + 1, sizeof *codes);
    unsigned port;
    v->names = qr_xcalloc(n + 1, sizeof *v->names);
    for (size_t i = 0; i < n; i++)
        if (!qr_address_split(id->peers[i], 2222, &hosts[i], &port))
            hosts[i] = qr_xstrdup(id->peers[i]);
    qr_ring_resolve((const char *const *)hosts, n, resolve_within_ns, codes, addresses);
    for (size_t i = 0; i < n; i++) {
        struct qr_peer_name *p = &v->names[v->n_names++];
        *p = (struct qr_peer_name){qr_xstrdup(id->peers[i]), addresses[i], codes[i],
                                   id->count_known || id->named[i]};
        if (p->required && p->code != QR_OK) report_missing_name(v, p, hosts[i]);
        free(hosts[i]);
    }
    free(hosts);
    free(addresses);
    free(codes);
}

static void validate_ring(struct qr_validation *v, char *const *environment) {
    struct qr_certificate_own own;
    struct qr_err err;
    bool local;
    if (qr_ring_identity(&v->settings, environment, &v->identity, &err) != QR_OK) {
        add_finding(v, &err);
        return;
    }
    v->has_identity = true;
    if (v->identity.n_peers && qr_ring_network(&v->settings, &v->identity, &local, &err) != QR_OK)
        add_finding(v, &err);
    else if (v->identity.n_peers && qr_tls_given(&v->settings) &&
             qr_tls_check(&v->settings, &own, &err) != QR_OK)
        add_finding(v, &err);
    resolve_peers(v);
}

/* ---- results ---- */

/* The missing parent folders of a path, nearest to the root first: a check may create them. */
struct folders {
    char *path[64];
    size_t n;
};

static void note_missing_folders(struct folders *f, const char *path) {
    for (size_t i = 1; path[0] && f->n < sizeof f->path / sizeof *f->path; i++) {
        if (path[i] != '/' && path[i]) continue;
        char *part = qr_xstrndup(path, i);
        if (qr_file_exists(part)) free(part);
        else f->path[f->n++] = part;
        if (!path[i]) break;
    }
}

static void note_parent(struct folders *f, const char *url) {
    struct qr_store *store;
    char *name;
    if (qr_url_remote(url) || qr_store_resolve(url, &store, &name, QR_IGNORED) != QR_OK) return;
    store->ops->close(store);
    char *slash = strrchr(name, '/');
    if (slash && slash != name) {
        *slash = 0;
        note_missing_folders(f, name);
    }
    free(name);
}

static void remove_folders(struct folders *f) {
    while (f->n) {
        rmdir(f->path[--f->n]); /* fails for folders that are not empty */
        free(f->path[f->n]);
    }
}

static void validate_outputs(struct qr_validation *v, const struct qr_log *log) {
    struct qr_outputs outputs;
    struct folders made = {0};
    struct qr_err err;
    const struct qr_outputs_options where = qr_results_options(&v->settings, log);
    qr_outputs_init(&outputs, &where, v->job->name);
    if (!strstr(outputs.dir, "://")) note_missing_folders(&made, outputs.dir);
    if (outputs.logdir && !strstr(outputs.logdir, "://"))
        note_missing_folders(&made, outputs.logdir);
    note_parent(&made, outputs.weights_url);
    v->outputs_good = qr_outputs_check_key(&outputs, &err) == QR_OK;
    if (!v->outputs_good) add_finding(v, &err);
    bool folders_good = qr_outputs_check_folders(&outputs, &err) == QR_OK;
    if (!folders_good) {
        v->outputs_good = false;
        add_finding(v, &err);
    }
    if ((folders_good || v->settings.weights || v->settings.weights_gcs_bucket) &&
        qr_outputs_check_weights(&outputs, &err) != QR_OK) {
        v->outputs_good = false;
        add_finding(v, &err);
    }
    if (outputs.checkpoints_url) note_parent(&made, outputs.checkpoints_url);
    if (v->outputs_good && qr_outputs_check_checkpoints(&outputs, &err) != QR_OK) {
        v->outputs_good = false;
        add_finding(v, &err);
    }
    if (v->outputs_good && outputs.checkpoints_url)
        v->checkpoints_url = qr_xstrdup(outputs.checkpoints_url);
    if (v->outputs_good) v->earlier_checkpoints = qr_outputs_earlier_checkpoints(&outputs);
    if (outputs.logdir_url && qr_outputs_check_logdir(&outputs, &err) != QR_OK) {
        v->outputs_good = false;
        add_finding(v, &err);
    }
    if (v->outputs_good && qr_outputs_lock(&outputs, v->job->name,
                                           v->has_identity ? &v->identity : NULL, &err) != QR_OK) {
        v->outputs_good = false;
        add_finding(v, &err);
    }
    v->out = qr_xstrdup(outputs.dir);
    if (outputs.logdir)
        v->logdir = qr_xstrdup(outputs.logdir_url ? outputs.logdir_url : outputs.logdir);
    v->weights_url = qr_xstrdup(outputs.weights_url);
    (void)qr_outputs_fini(&outputs); /* nothing was uploaded, so it cannot fail */
    remove_folders(&made);
}

/* Checkpoints of an earlier run may stop this one: those of another job, damaged ones, or ones
 * beyond these epochs. */
static void validate_checkpoints(struct qr_validation *v) {
    uint64_t epochs = v->settings.epochs > 0 ? (uint64_t)v->settings.epochs : v->job->train.epochs;
    struct qr_resume_point start;
    struct qr_err err;
    enum qr_code code;
    if (!v->earlier_checkpoints || v->settings.fresh) return;
    if (v->checkpoints_url) {
        code = qr_run_checkpoints_load(v->checkpoints_url, v->out, &v->load, epochs, &start, &err);
        if (code == QR_OK)
            code =
                qr_run_checkpoints_check_epochs(v->checkpoints_url, &v->load, epochs, &start, &err);
        qr_resume_point_fini(&start);
    } else {
        code = qr_run_checkpoints_check_earlier(v->earlier_checkpoints, v->out, &v->load, epochs,
                                                &err);
    }
    if (code != QR_OK) add_finding(v, &err);
}

/* ---- time ---- */

struct measurement {
    unsigned n_threads;
    struct qr_stepper *stepper;
    struct qr_step_work work;
};

/* The fastest of several runs: the speed of an otherwise idle machine. */
static double fastest_s(struct measurement *m, const qr_fixed **ret_vector) {
    int64_t began_ns = qr_now_ns(&qr_clock_monotonic), best_ns = INT64_MAX;
    struct qr_coverage coverage;
    for (int i = 0; i < 64; i++) {
        struct qr_stopwatch began = qr_stopwatch_begin();
        qr_stepper_compute(m->stepper, &m->work, ret_vector, &coverage);
        int64_t took_ns = qr_stopwatch_ns(&began, m->n_threads);
        if (took_ns < best_ns) best_ns = took_ns;
        if (qr_now_ns(&qr_clock_monotonic) - began_ns > measure_for_ns) break;
    }
    return (double)best_ns / 1e9;
}

/* The time of a worker's step besides its micro-batches: state preparation and update. */
static double own_s(struct qr_validation *v, struct qr_stepper *stepper, const double *gradient) {
    const struct qr_model *m = v->load.model;
    size_t n = qr_model_n_params(m), n_tensors = qr_model_n_tensors(m);
    qr_auto(qr_free_p) struct qr_optimizer_tensor *tensors =
        qr_xcalloc(n_tensors + 1, sizeof *tensors);
    qr_auto(qr_free_p) double *scratch = qr_xcalloc(n + 1, sizeof *scratch);
    struct qr_state state;
    int64_t best_ns = INT64_MAX;
    for (size_t i = 0; i < n_tensors; i++)
        tensors[i] = (struct qr_optimizer_tensor){qr_model_tensor(m, i)->n, false};
    qr_state_init(&state, v->job, m);
    memcpy(state.weights, v->load.initial, n * sizeof *state.weights);
    int64_t began_ns = qr_now_ns(&qr_clock_monotonic);
    for (int i = 0; i < 8 && qr_now_ns(&qr_clock_monotonic) - began_ns < measure_for_ns; i++) {
        struct qr_stopwatch began = qr_stopwatch_begin();
        memcpy(scratch, gradient, n * sizeof *scratch);
        if (v->job->train.optimizer.kind == QR_NATURAL_GRADIENT)
            qr_model_natural_gradient(m, state.weights, v->job->train.optimizer.regularization,
                                      NULL, scratch);
        qr_optimizer_apply(&v->job->train.optimizer, (uint64_t)i, 0, n, tensors, n_tensors, scratch,
                           state.weights, state.moments, state.products);
        qr_stepper_prepare(stepper, v->load.initial);
        int64_t took_ns = qr_stopwatch_ns(&began, v->load.n_threads);
        if (took_ns < best_ns) best_ns = took_ns;
    }
    qr_state_fini(&state);
    return (double)best_ns / 1e9;
}

/* How to time a wave: run `samples` and multiply their time by scale, or (ESTIMATED) use wave_s. */
struct timing {
    enum qr_timing kind;
    uint64_t samples;
    double scale, wave_s;
};

/* Seconds of one sample's gradient in all quantum layers, with full lanes, in the order that the
 * layers need. */
static enum qr_code sample_s(const struct qr_validation *v, double *ret, struct qr_err *err) {
    const struct qr_model *m = v->load.model;
    *ret = 0;
    for (size_t n = 0, at; (at = qr_model_quantum(m, n)) < qr_model_n_layers(m); n++) {
        const struct qr_model_layer l = qr_model_layer(m, at);
        bool streams = qr_sim_engine_of(l.plan) == QR_ENGINE_STREAMING;
        const struct qr_sim_report_options opt = {.n_samples = qr_sim_micro_batch_size(l.plan, 1),
                                                  .head_known = l.head_known};
        struct qr_sim_options small = {.precision = v->job->precision,
                                       .engine =
                                           streams ? QR_ENGINE_STREAMING : QR_ENGINE_STATEVECTOR};
        double flop_per_s;
        QR_TRY(qr_isa_parse(v->settings.isa, &small.isa, err));
        QR_TRY(qr_measure_flop_rate(&small, &flop_per_s, err));
        struct qr_sim_report *r = qr_sim_report_new(l.plan, &opt);
        *ret += r->flop / (double)opt.n_samples * (double)l.n_filters / flop_per_s;
        qr_sim_report_free(r);
    }
    return QR_OK;
}

static enum qr_code choose_timing(const struct qr_validation *v, struct timing *ret,
                                  struct qr_err *err) {
    const struct qr_workload *l = &v->load;
    size_t first = qr_model_quantum(l->model, 0);
    uint64_t size = v->job->micro_batch_size, n_train = l->data.n_train,
             batch = v->facts.batch_size < n_train ? v->facts.batch_size : n_train;
    uint64_t wave = v->facts.lanes * size < batch ? v->facts.lanes * size : batch, part = 1;
    double one_s;
    *ret = (struct timing){.kind = QR_TIMING_MEASURED, .samples = wave, .scale = 1};
    if (first == qr_model_n_layers(l->model)) return QR_OK;
    QR_TRY(sample_s(v, &one_s, err));
    one_s /= (double)l->n_threads / v->facts.lanes; /* threads per micro-batch */
    if (size > batch) size = batch;
    /* One sample takes as long as this many together. */
    uint64_t together = qr_sim_micro_batch_size(qr_model_layer(l->model, first).plan, batch);
    part = size < together ? size : together;
    if (one_s * (double)size <= run_at_most_s) return QR_OK;
    ret->scale = (double)size / (double)part;
    ret->samples = part;
    ret->kind = one_s * (double)part <= run_at_most_s ? QR_TIMING_SCALED : QR_TIMING_ESTIMATED;
    ret->wave_s = one_s * (double)size;
    return QR_OK;
}

static enum qr_code run_waves(struct qr_validation *v, struct measurement *m,
                              const struct timing *t, struct qr_err *err) {
    struct qr_estimate_facts *f = &v->facts;
    const qr_fixed *vector;
    m->work = (struct qr_step_work){.kind = QR_REDUCTION_TRAIN, .range = {0, t->samples}};
    f->train_wave_s = fastest_s(m, &vector) * t->scale;
    if (vector[QR_VECTOR_BAD])
        return qr_stepper_find_bad_sample(m->stepper, &m->work, 1, 1, 0, err);
    m->work.kind = QR_REDUCTION_EVAL;
    if (f->n_validate) f->validate_wave_s = fastest_s(m, &vector) * t->scale;
    return QR_OK;
}

static enum qr_code measure_times(struct qr_validation *v, struct qr_err *err) {
    const struct qr_workload *l = &v->load;
    struct qr_estimate_facts *f = &v->facts;
    struct qr_pool *pool = qr_pool_new(l->n_threads);
    const struct qr_stepper_options opt = {
        .model = l->model,
        .data = &l->data,
        .micro_batch_size = v->job->micro_batch_size,
        .seed = v->job->seed,
        .n_points = qr_optimizer_n_points(v->job->train.optimizer.kind),
        .rank = 0,
        .n_members = 1,
        .pool = pool,
        .clock = &qr_clock_monotonic,
    };
    struct measurement m = {.n_threads = l->n_threads};
    struct timing t;
    enum qr_code code = choose_timing(v, &t, err);
    if (code == QR_OK) code = qr_stepper_new(&opt, &m.stepper, err);
    if (code == QR_OK) {
        double *zero = qr_xcalloc(qr_model_n_params(l->model) + 1, sizeof *zero);
        if (opt.n_points > 1) qr_stepper_prepare_points(m.stepper, l->initial, l->initial);
        else qr_stepper_prepare(m.stepper, l->initial);
        if (t.kind == QR_TIMING_ESTIMATED) {
            f->train_wave_s = t.wave_s;
            /* A gradient costs about three simulations (sim/sim.h). */
            f->validate_wave_s = t.wave_s / 3;
        } else code = run_waves(v, &m, &t, err);
        if (code == QR_OK) f->own_s = own_s(v, m.stepper, zero);
        if (code == QR_OK) v->timing = t.kind;
        free(zero);
    }
    qr_stepper_free(m.stepper);
    qr_pool_free(pool);
    return code;
}

static void estimate_run(struct qr_validation *v, int64_t message_ns) {
    const struct qr_workload *l = &v->load;
    struct qr_err err;
    v->epochs = v->settings.epochs > 0 ? (uint64_t)v->settings.epochs : v->job->train.epochs;
    v->facts = (struct qr_estimate_facts){
        .n_train = l->data.n_train,
        .n_validate = qr_workload_evaluates(l) ? l->data.n_samples - l->data.n_train : 0,
        .batch_size = v->job->train.batch_size,
        .micro_batch_size = v->job->micro_batch_size,
        .epochs = v->epochs,
        .n_derivatives = qr_optimizer_n_points(v->job->train.optimizer.kind) > 1
                             ? 1
                             : qr_model_n_params(l->model),
        .n_sums = qr_model_n_sums(l->model),
        .lanes = qr_model_micro_batches_in_parallel(l->model) ? l->n_threads : 1,
        .message_s = (double)message_ns / 1e9,
        .bytes_per_s = assumed_bytes_per_s,
        .allreduce = qr_ring_allreduce(&v->settings),
    };
    if (measure_times(v, &err) != QR_OK) {
        add_finding(v, &err);
        return;
    }
    v->max_workers = (unsigned)v->settings.max_workers;
    v->best = qr_estimate_best(&v->facts, v->max_workers);
}

/* ---- memory ---- */

static bool in_hdf5(const char *url) {
    enum qr_weights_format format;
    return url && qr_weights_format_of(url, &format, QR_IGNORED) == QR_OK &&
           format == QR_WEIGHTS_H5;
}

static void estimate_memory(struct qr_validation *v) {
    const struct qr_memory_process process = {
        .workers = v->has_identity && v->identity.n_peers ? (unsigned)v->identity.n_peers : 1,
        .tls = qr_tls_given(&v->settings),
        .hdf5 = in_hdf5(v->weights_url) || in_hdf5(v->job->train.initial_weights),
        .bucket = qr_url_remote(v->weights_url) || qr_url_remote(v->checkpoints_url) ||
                  qr_url_remote(v->logdir),
    };
    v->memory = qr_workload_memory(&v->load, &process);
}

/* ---- all of it ---- */

static bool read_job(struct qr_validation *v, char *const *environment, const struct qr_log *log) {
    char *unknown[8];
    size_t n_unknown = 0;
    struct qr_err err;
    enum qr_code code =
        qr_settings_environment(&v->settings, environment, unknown, 8, &n_unknown, &err);
    for (size_t i = 0; i < n_unknown; i++) {
        if (code == QR_OK) qr_warn(log, "qring", "%s", unknown[i]);
        free(unknown[i]);
    }
    if (code == QR_OK) code = qr_settings_load_job(&v->settings, add_finding, v, &v->job, &err);
    if (code == QR_OK) code = qr_settings_check(&v->settings, &err);
    /* Errors of the job file were reported one by one. */
    if (code != QR_OK && !v->n_findings) add_finding(v, &err);
    return code == QR_OK;
}

static void log_warnings(const struct qr_validation *v, const struct qr_log *log) {
    struct qr_job_warnings warnings;
    qr_job_warnings(v->job, v->has_load ? &v->load.data : NULL, &warnings);
    for (size_t i = 0; i < warnings.n; i++) qr_warn(log, "qring", "%s", warnings.sentence[i]);
    qr_job_warnings_fini(&warnings);
}

/* Checks the channels that training does not read: their inputs only, since labels matter only for
 * an evaluation. */
static void validate_channels(struct qr_validation *v) {
    struct qr_data_options *d = &v->job->data;
    const struct qr_data_names names = qr_dataset_data_names(&v->load.data);
    if (v->has_load) d->inputs = &names.inputs; /* names that training will store with weights */
    for (size_t i = 0; i < d->n_channels; i++) {
        const char *name = d->channels[i].name;
        if (strcmp(name, "train") == 0 || strcmp(name, "validation") == 0) continue;
        qr_auto(qr_free_p) char *what = qr_xasprintf("channel %s", name);
        const struct qr_job_samples samples = {.channel = name, .url = what};
        struct qr_dataset data = {0};
        struct qr_err err;
        if (qr_job_samples(v->job, &samples, &data, &err) != QR_OK) {
            add_finding(v, &err);
            continue;
        }
        v->channels = qr_xreallocarray(v->channels, v->n_channels + 1, sizeof *v->channels);
        v->channels[v->n_channels++] =
            (struct qr_channel_samples){.name = name, .n_samples = data.n_samples};
        qr_dataset_fini(&data);
    }
    d->inputs = NULL;
}

/* Checks every trial, each of which is a job. When the data could not be read, assumes validation
 * samples. */
static void validate_sweep(struct qr_validation *v) {
    const struct qr_dataset *d = &v->load.data;
    const char *metric;
    bool maximize;
    struct qr_err err;
    if (v->job->sweep && qr_job_check_trials(v->job, !v->has_load || d->n_samples > d->n_train,
                                             &metric, &maximize, &err) != QR_OK)
        add_finding(v, &err);
}

enum qr_code qr_validate(int argc, char *const *argv, char *const *environment, int64_t message_ns,
                         double price, const struct qr_log *log, struct qr_validation *ret,
                         struct qr_err *err) {
    struct qr_validation v = {.price = price};
    struct qr_err why;
    qr_settings_init(&v.settings);
    enum qr_code code = qr_settings_flags(&v.settings, argc, argv, err);
    if (code != QR_OK) {
        qr_validation_fini(&v);
        return code;
    }
    if (!v.settings.help && read_job(&v, environment, log)) {
        validate_ring(&v, environment);
        validate_outputs(&v, log);
        unsigned n_threads = v.settings.threads > 0 ? (unsigned)v.settings.threads : 0;
        code = v.has_identity && v.identity.role == QR_ROLE_PS
                   ? qr_workload_load_idle(v.job, v.settings.isa, n_threads, &v.load, &why)
                   : qr_workload_load(v.job, v.settings.isa, n_threads, &v.load, &why);
        v.has_load = code == QR_OK;
        log_warnings(&v, log);
        if (v.has_load) estimate_memory(&v);
        validate_sweep(&v);
        validate_channels(&v);
        if (code == QR_OK) code = qr_workload_check_training(&v.load, &why);
        if (code == QR_OK && v.has_identity && v.identity.role == QR_ROLE_EVALUATOR)
            code = qr_workload_check_validation(&v.load, &why);
        if (code == QR_OK) validate_checkpoints(&v);
        if (code != QR_OK) add_finding(&v, &why);
        else estimate_run(&v, message_ns);
    }
    *ret = v;
    return QR_OK;
}

void qr_validation_fini(struct qr_validation *v) {
    if (v->has_load) qr_workload_fini(&v->load);
    if (v->has_identity) qr_identity_fini(&v->identity);
    for (size_t i = 0; i < v->n_names; i++) {
        free(v->names[i].peer);
        free(v->names[i].address);
    }
    for (size_t i = 0; i < v->n_findings; i++) free(v->findings[i].sentence);
    free(v->names);
    free(v->channels);
    free(v->out);
    free(v->weights_url);
    free(v->logdir);
    free(v->checkpoints_url);
    free(v->earlier_checkpoints);
    qr_job_free(v->job);
    qr_settings_fini(&v->settings);
    *v = (struct qr_validation){0};
}

int qr_validation_exit_code(const struct qr_validation *v) {
    for (size_t i = 0; i < v->n_findings; i++)
        if (qr_exit_code(v->findings[i].code) != 138) return 2;
    return v->n_findings ? 138 : 0;
}
