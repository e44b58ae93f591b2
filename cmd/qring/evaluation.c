/* cmd/qring/evaluation.c — shared by infer, evaluate and predict: finds weights and samples, and
 * evaluates them. Start reading at qr_evaluation_new(). */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/parse.h"
#include "cmd/qring/command.h"
#include "model/metric.h"
#include "store/store.h"
#include "train/evaluate.h"

enum { SHOWN_NAMES = 12 };

/* Path of the weights in the folder of a run; NULL: not a run, or not finished. Heap. */
static char *weights_of_run(const char *job) {
    qr_auto(qr_free_p) char *file = job ? qr_path_join(job, "job.json") : NULL;
    qr_auto(qr_free_p) char *weights = job ? qr_path_join(job, "weights.safetensors") : NULL;
    return job && qr_file_exists(file) && qr_file_exists(weights) ? QR_MOVE(weights) : NULL;
}

/* Finds the weights: --weights, the two flags of the tutorial, QRING_WEIGHTS, or the folder of the
 * run. *ret_url: heap. */
static enum qr_code find_weights(const struct qr_evaluation_flags *f, const char *job,
                                 char **ret_url, struct qr_err *err) {
    const char *weights = f->weights, *set = getenv("QRING_WEIGHTS");
    if (weights && (f->bucket || f->path))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--weights and --weights-gcs-%s are both given; give one of them",
                       f->bucket ? "bucket" : "path");
    if (!f->bucket != !f->path)
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "--weights-gcs-bucket and --weights-gcs-path go together; --weights-gcs-%s is missing",
            f->path ? "bucket" : "path");
    if (!weights && !f->bucket && set && *set) weights = set;
    if (!weights && !f->bucket && (*ret_url = weights_of_run(job))) return QR_OK;
    if (!weights && !f->bucket)
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "--weights is missing; give trained weights (qring run writes out/NAME/weights.h5)");
    *ret_url = weights ? qr_xstrdup(weights) : qr_xasprintf("gs://%s/%s", f->bucket, f->path);
    return QR_OK;
}

/* QRING_SET and QRING_SEED, as a worker reads them. */
static enum qr_code add_environment_keys(struct qr_overrides *set, struct qr_err *err) {
    const char *keys = getenv("QRING_SET"), *seed = getenv("QRING_SEED");
    enum qr_code code = QR_OK;
    if (keys) code = qr_overrides_add(set, QR_OVERRIDES_ENVIRONMENT, "QRING_SET", NULL, keys, err);
    if (seed && code == QR_OK)
        code = qr_overrides_add(set, QR_OVERRIDES_ENVIRONMENT_KEY, "QRING_SEED", "seed", seed, err);
    return code;
}

static struct qr_job_samples samples_of(const struct qr_evaluation_flags *f, bool labels,
                                        const struct qr_evaluation *e) {
    return (struct qr_job_samples){
        .channel = f->channel, .url = f->channel ? e->data : f->data, .labels = labels};
}

/* True if data.columns has other names than the inputs in training: it maps columns of a file to
 * the inputs. */
static bool renames_columns(const struct qr_data_options *d, const struct qr_name_list *inputs) {
    bool others = d->n_picked != inputs->n;
    if (!d->n_picked || d->pick_all) return false;
    for (size_t i = 0; i < d->n_picked; i++) {
        if (!d->picked[i].name) return false;
        others = others || strcmp(d->picked[i].name, inputs->v[i]) != 0;
    }
    return others;
}

/* Takes over the job. */
static enum qr_code evaluation_load(const struct qr_evaluation_flags *f, bool labels,
                                    struct qr_job *job, struct qr_evaluation *e,
                                    struct qr_err *err) {
    struct qr_job_samples samples = samples_of(f, labels, e);
    qr_auto(qr_buf_free) struct qr_buf input = {0};
    enum qr_code code = QR_OK;
    /* The job's own data is read as for training; for other samples, the class names are those of
     * the weights. */
    if (!renames_columns(&job->data, &e->names.inputs)) job->data.inputs = &e->names.inputs;
    if (e->data || e->names.classes.n) job->data.classes = &e->names.classes;
    if (f->data && strcmp(f->data, "-") == 0) {
        samples.url = "standard input";
        samples.file = &input;
        code = qr_input_read(qr_memory_limit_bytes(), &input, err);
    }
    if (code == QR_OK)
        code = qr_load_job(job, e->data ? &samples : NULL, f->isa, f->threads, &e->l, err);
    else qr_job_free(job);
    return code;
}

/* Reports unreadable data before waiting for the weights. */
static enum qr_code check_data_loads(const struct qr_evaluation_flags *f, const struct qr_job *job,
                                     const struct qr_evaluation *e, struct qr_err *err) {
    const struct qr_job_samples samples = samples_of(f, true, e);
    qr_auto(qr_workload_fini) struct qr_workload w = {0};
    return e->data ? qr_workload_load_samples(job, &samples, "auto", 1, &w, err)
                   : qr_workload_load(job, "auto", 1, &w, err);
}

static void choose_samples(const struct qr_evaluation_flags *f, struct qr_evaluation *e) {
    const struct qr_dataset *d = &e->l.load.data;
    size_t begin = !e->data && d->n_train < d->n_samples ? d->n_train : 0;
    e->set = f->channel ? "channel" : f->data ? "data" : begin > 0 ? "validation" : "all";
    e->n = d->n_samples - begin;
    e->sample = qr_xcalloc(e->n, sizeof *e->sample);
    for (size_t i = 0; i < e->n; i++) e->sample[i] = begin + i;
}

/* A mismatch may be caused by a missing column: a model that does not begin with a circuit takes
 * all columns. */
static enum qr_code decode_weights(struct qr_evaluation *e, const struct qr_weights_file *file,
                                   struct qr_err *err) {
    const struct qr_workload *w = &e->l.load;
    enum qr_code code = qr_workload_decode(w, file, w->initial, err);
    if (code == QR_OK || !e->data || qr_layers_input_circuit(e->l.job->layers, e->l.job->n_layers))
        return code;
    return qr_wrap(err, "with the %zu input column%s of %s", w->data.n_columns,
                   w->data.n_columns == 1 ? "" : "s", e->data);
}

/* Logs how columns were assigned to inputs. */
static void log_columns(const struct qr_evaluation *e) {
    const struct qr_dataset *d = &e->l.load.data;
    const struct qr_data_names names = qr_dataset_data_names(d);
    if (d->unread && !d->unquoted)
        qr_info(qr_command_log(), "qring", "%s: ignoring columns that are not inputs: %s",
                e->data ? e->data : "data", d->unread);
    if (!e->data || e->names.inputs.n || !names.inputs.n || e->l.job->data.n_picked) return;
    struct qr_buf list = {0};
    qr_name_list_put(&names.inputs, NULL, SHOWN_NAMES, &list);
    qr_info(qr_command_log(), "qring",
            "%s: the weights hold no names of inputs; using the columns in file order: %s", e->data,
            qr_buf_string(&list));
    qr_buf_free(&list);
}

/* The first process of a container is not ended by a signal with the default action. */
static void exit_by_signal(int sig) {
    signal(sig, SIG_DFL);
    raise(sig);
    _exit(128 + sig);
}

static void handle_signals(const int *sig, size_t n) {
    for (size_t i = 0; i < n; i++) {
        struct sigaction was, now = {.sa_handler = exit_by_signal, .sa_flags = SA_NODEFER};
        sigemptyset(&now.sa_mask);
        if (sigaction(sig[i], NULL, &was) == 0 && was.sa_handler == SIG_DFL)
            (void)sigaction(sig[i], &now, NULL);
    }
}

/* Reads the weights, and waits for them with --wait. */
static enum qr_code await_weights(const struct qr_evaluation_flags *f, const struct qr_job *job,
                                  struct qr_evaluation *e, struct qr_weights_file *ret,
                                  struct qr_err *err) {
    const char *wait = f->wait;
    static const int ends[] = {SIGTERM, SIGINT};
    const struct qr_clock *clock = &qr_clock_monotonic;
    int64_t patience = 0, pause = QR_SECOND / 4;
    if (wait && !qr_parse_duration_ns(wait, &patience))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--wait: '%.40s' is not a duration, such as 30s, 10m or 2h", wait);
    int64_t began = qr_now_ns(clock);
    for (bool said = false;; said = true) {
        enum qr_code code = qr_weights_file_read(e->weights, ret, err);
        int64_t left = patience - (qr_now_ns(clock) - began);
        if (code != QR_NOT_FOUND || !patience) return code;
        if (left <= 0)
            return qr_fail(err, QR_DEADLINE_EXCEEDED,
                           "no weights at %s after %s (--wait); check whether the training that "
                           "writes them still runs",
                           e->weights, wait);
        if (!said) {
            if ((code = check_data_loads(f, job, e, err)) != QR_OK) return code;
            handle_signals(ends, sizeof ends / sizeof *ends);
            qr_info(qr_command_log(), "infer", "no weights yet at %s: waiting up to %s", e->weights,
                    wait);
        }
        qr_sleep_ns(pause < left ? pause : left);
        pause = pause < 5 * QR_SECOND / 2 ? 2 * pause : 5 * QR_SECOND;
    }
}

enum qr_code qr_evaluation_new(struct qr_evaluation_flags *f, bool labels,
                               struct qr_evaluation *ret, struct qr_err *err) {
    const char *set = getenv("QRING_JOB");
    const char *url = f->job ? f->job : set && *set ? set : NULL;
    struct qr_evaluation e = {.channel = f->channel,
                              .data = f->channel ? qr_xasprintf("channel %s", f->channel)
                                      : f->data  ? qr_url_redacted(f->data)
                                                 : NULL};
    struct qr_job *job = NULL;
    struct qr_weights_file file = {0};
    enum qr_code code = find_weights(f, url, &e.weights, err);
    if (code == QR_OK && f->channel && f->data)
        code = qr_fail(err, QR_INVALID_ARGUMENT,
                       "--channel and --data are both given; give one of them");
    if (code == QR_OK && url && f->data && strcmp(url, "-") == 0 && strcmp(f->data, "-") == 0)
        code = qr_fail(err, QR_INVALID_ARGUMENT,
                       "the job and --data are both standard input; give one of them as a file");
    if (code == QR_OK) code = add_environment_keys(&f->set, err);
    if (code == QR_OK) code = qr_job_load(url, &f->set, &job, err);
    for (size_t i = 0; i < QR_METRIC_FLAGS && f->metrics[i] && code == QR_OK; i++)
        if ((code = qr_job_add_metric(job, f->metrics[i], err)) != QR_OK) qr_job_free(job);
    const struct qr_job_samples samples = samples_of(f, labels, &e);
    if (code == QR_OK && ((e.data && (code = qr_job_check_samples(job, &samples, err)) != QR_OK) ||
                          (code = await_weights(f, job, &e, &file, err)) != QR_OK))
        qr_job_free(job);
    e.names = file.names;
    file.names = (struct qr_data_names){0};
    if (code == QR_OK) code = evaluation_load(f, labels, job, &e, err);
    const struct qr_workload *w = &e.l.load;
    if (code == QR_OK) code = decode_weights(&e, &file, err);
    qr_weights_file_fini(&file);
    if (code == QR_OK) {
        qr_auto(qr_free_p) char *whole = QR_MOVE(e.weights);
        e.weights = qr_url_redacted(whole);
        log_columns(&e);
        choose_samples(f, &e);
        e.p = qr_xcalloc(e.n * qr_model_n_outputs(w->model), sizeof *e.p);
        if (labels) e.means = qr_xcalloc(qr_model_n_values(w->model), sizeof *e.means);
        code = qr_evaluate(w->model, w->initial, &w->data, e.sample, e.n, e.l.pool, e.p, NULL,
                           e.means, err);
        if (code != QR_OK && e.data)
            qr_wrap(err, "%s", strcmp(e.data, "-") == 0 ? "standard input" : e.data);
    }
    if (code != QR_OK) qr_evaluation_fini(&e);
    else *ret = e;
    return code;
}

void qr_evaluation_fini(struct qr_evaluation *e) {
    free(e->weights);
    free(e->data);
    free(e->sample);
    free(e->p);
    free(e->means);
    free(e->counts);
    qr_data_names_fini(&e->names);
    qr_loaded_fini(&e->l);
    *e = (struct qr_evaluation){0};
}

void qr_evaluation_count(struct qr_evaluation *e) {
    const struct qr_metric_options o = qr_job_metric_options(e->l.job);
    size_t k = qr_model_n_outputs(e->l.load.model), n = qr_metric_classes(&o, k);
    size_t n_sums = qr_metric_n_sums(QR_CONFUSION_MATRIX, &o, k);
    if (n > QR_MAX_CONFUSION_CLASSES || e->l.load.data.n_outputs != k) return;
    qr_fixed *sums = qr_xaligned(n_sums * sizeof *sums);
    bool fine = true;
    for (size_t i = 0; i < e->n; i++)
        fine &= qr_metric_add(QR_CONFUSION_MATRIX, &o, k, e->p + i * k,
                              qr_dataset_y(&e->l.load.data, e->sample[i]), sums);
    QR_ASSERT(fine);
    e->n_classes = n;
    e->counts = qr_xcalloc(n * n, sizeof *e->counts);
    for (size_t i = 0; i < n * n; i++) e->counts[i] = (int64_t)qr_fixed_to_double(sums[1 + i]);
    free(sums);
}

const char *qr_evaluation_value_name(const struct qr_evaluation *e, size_t i) {
    return qr_model_value_name(e->l.load.model, i, false);
}

void qr_print_confusion(const struct qr_evaluation *e) {
    size_t n = e->n_classes;
    if (!n) return;
    struct qr_buf classes = {0};
    qr_job_put_classes(e->l.job, &e->l.load.data, &classes);
    if (classes.n) printf("Classes: %s\n", qr_buf_string(&classes));
    qr_buf_free(&classes);
    puts("Confusion matrix (rows: labels, columns: predictions)");
    for (size_t i = 0; i < n * n; i++)
        printf("%7lld%s", (long long)e->counts[i], i % n == n - 1 ? "\n" : "");
}

void qr_put_name_list(struct qr_json_writer *w, const char *key, const struct qr_name_list *l) {
    if (!l->n) return;
    qr_json_key_open(w, key, '[');
    for (size_t i = 0; i < l->n; i++) qr_json_put_string(w, l->v[i]);
    qr_json_close(w, ']');
}

void qr_put_evaluation(struct qr_json_writer *w, const struct qr_evaluation *e) {
    size_t n = e->n_classes, n_values = qr_model_n_values(e->l.load.model);
    qr_json_key_string(w, "job", e->l.job->name);
    qr_json_key_string(w, "weights", e->weights);
    qr_json_key_string(w, "set", e->set);
    if (e->data) {
        qr_json_key_string(w, e->set, e->channel ? e->channel : e->data);
    }
    qr_json_key_i64(w, "samples", (int64_t)e->n);
    qr_json_key_double(w, "loss", e->means[0]);
    qr_json_key_open(w, "metrics", '{');
    for (size_t i = 1; i < n_values; i++) {
        qr_json_key_double(w, qr_evaluation_value_name(e, i), e->means[i]);
    }
    qr_json_close(w, '}');
    qr_put_name_list(w, "classes", &e->l.load.data.classes);
    if (!n) return;
    qr_json_key_open(w, "confusion_matrix", '[');
    for (size_t i = 0; i < n; i++) {
        qr_json_open(w, '[');
        for (size_t j = 0; j < n; j++) qr_json_put_i64(w, e->counts[i * n + j]);
        qr_json_close(w, ']');
    }
    qr_json_close(w, ']');
}

void qr_put_csv_header(struct qr_buf *b, const char *name, size_t n) {
    if (n == 1) qr_buf_printf(b, ",%s", name);
    else
        for (size_t i = 0; i < n; i++) qr_buf_printf(b, ",%s_%zu", name, i);
}

void qr_put_csv_values(struct qr_buf *b, const double *v, size_t n) {
    for (size_t i = 0; i < n; i++) qr_buf_printf(b, ",%.17g", v[i]);
}

enum qr_code qr_read_samples(const char *text, size_t n_train, size_t **ret, size_t *ret_n,
                             struct qr_err *err) {
    size_t n = 0, *list;
    if (!text) {
        list = qr_xcalloc(n_train, sizeof *list);
        for (size_t i = 0; i < n_train; i++) list[i] = i;
        *ret = list;
        *ret_n = n_train;
        return QR_OK;
    }
    list = qr_xcalloc(strlen(text) + 1, sizeof *list);
    for (const char *s = text;; s++) {
        size_t len = strcspn(s, ",");
        qr_auto(qr_free_p) char *one = qr_xstrndup(s, len);
        uint64_t v;
        if (!qr_parse_u64(one, &v) || v >= n_train) {
            free(list);
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "--samples: '%.40s' is not a position in the training set (0 ... %zu)",
                           one, n_train - 1);
        }
        list[n++] = v;
        s += len;
        if (!*s) break;
    }
    *ret = list;
    *ret_n = n;
    return QR_OK;
}
