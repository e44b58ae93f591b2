/* job/job.c — reads a job file, and loads its model and data. Start reading at qr_job_load(); the
 * parts of the file are read by the *_spec.c files. */
#include "job/job.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "builtin_job.h" /* generated from deploy/jobs/qcnn.json by the Makefile */
#include "data/named_files.h"
#include "job/job_impl.h"
#include "sim/sim.h"
#include "store/store.h"

enum { MAX_JOB_BYTES = 64 << 20, MAX_MICRO_BATCH_SIZE = 4096, MAX_MICRO_BATCHES = 1 << 22 };

#define PATH(buf, where, key)                                                                      \
    char buf[160];                                                                                 \
    snprintf(buf, sizeof buf, "%s%s%s", where, *(where) ? "." : "", key)

enum qr_code qr_job_opt_i64(const struct qr_json *o, const char *where, const char *key,
                            int64_t min, int64_t max, int64_t *ret, struct qr_err *err) {
    PATH(path, where, key);
    const struct qr_json *v = qr_json_get(o, key);
    return v ? qr_json_i64(v, path, min, max, ret, err) : QR_OK;
}

enum qr_code qr_job_opt_u64(const struct qr_json *o, const char *where, const char *key,
                            uint64_t min, uint64_t max, uint64_t *ret, struct qr_err *err) {
    int64_t v = (int64_t)*ret;
    enum qr_code code = qr_job_opt_i64(o, where, key, (int64_t)min, (int64_t)max, &v, err);
    if (code == QR_OK) *ret = (uint64_t)v;
    return code;
}

enum qr_code qr_job_opt_double(const struct qr_json *o, const char *where, const char *key,
                               double min, double max, double *ret, struct qr_err *err) {
    PATH(path, where, key);
    const struct qr_json *v = qr_json_get(o, key);
    return v ? qr_json_double(v, path, min, max, ret, err) : QR_OK;
}

enum qr_code qr_job_opt_bool(const struct qr_json *o, const char *where, const char *key, bool *ret,
                             struct qr_err *err) {
    PATH(path, where, key);
    const struct qr_json *v = qr_json_get(o, key);
    return v ? qr_json_bool(v, path, ret, err) : QR_OK;
}

enum qr_code qr_job_opt_choice(const struct qr_json *o, const char *where, const char *key,
                               const char *const *names, size_t n, size_t *ret,
                               struct qr_err *err) {
    PATH(path, where, key);
    const struct qr_json *v = qr_json_get(o, key);
    return v ? qr_json_choice(v, path, names, n, ret, err) : QR_OK;
}

/* The name of a run becomes part of object names and DNS names. */
static enum qr_code read_job_name(const struct qr_json *root, struct qr_job *job,
                                  struct qr_err *err) {
    const char *name = "job";
    const struct qr_json *v = qr_json_get(root, "name");
    if (v && qr_json_string(v, "name", &name, err) != QR_OK) return err->code;
    size_t n = strlen(name);
    bool ok = n >= 1 && n <= 63;
    for (size_t i = 0; i < n && ok; i++)
        ok = (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') ||
             (name[i] >= '0' && name[i] <= '9') || (i > 0 && strchr("-_.", name[i]) != NULL);
    if (!ok)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "name: '%.80s' is not a valid job name; use 1 to 63 letters, digits, '-', "
                       "'_' or '.', beginning with a letter or digit",
                       name);
    job->name = qr_xstrdup(name);
    return QR_OK;
}

/* That of the plan of the first circuit, which reads the data. A circuit that cannot be compiled is
 * rejected when the model is built. */
static size_t default_micro_batch_size(const struct qr_job *job) {
    const struct qr_sim_options any = {.precision = job->precision, .isa = QR_ISA_PORTABLE};
    size_t first = qr_job_quantum(job, 0);
    struct qr_sim_plan *plan = NULL;
    struct qr_err err;
    if (first == job->n_layers) return 32;
    if (job->data.source == QR_DATA_NONE) return 1;
    const struct qr_quantum_options *q = &job->layers[first].quantum;
    if (qr_sim_compile(q->circuit, q->readouts, q->n_readouts, &any, &plan, &err) != QR_OK)
        return 1;
    size_t size = qr_sim_micro_batch_size(plan, job->train.batch_size);
    qr_sim_plan_free(plan);
    return size;
}

static enum qr_code read_micro_batches(const struct qr_json *root, struct qr_job *job,
                                       struct qr_err *err) {
    uint64_t size = default_micro_batch_size(job);
    if (qr_job_opt_u64(root, "", "micro_batch_size", 1, MAX_MICRO_BATCH_SIZE, &size, err) != QR_OK)
        return err->code;
    job->micro_batch_size = size;
    if (job->train.batch_size / size >= MAX_MICRO_BATCHES)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "train.batch_size: %llu samples in micro-batches of %llu exceed the limit "
                       "of %d micro-batches per step; increase micro_batch_size",
                       (unsigned long long)job->train.batch_size, (unsigned long long)size,
                       MAX_MICRO_BATCHES);
    return QR_OK;
}

/* Steps for the profiler; they do not affect the result. */
static enum qr_code read_profile(const struct qr_json *profile, struct qr_job *job,
                                 struct qr_err *err) {
    static const char *const keys[] = {"steps"};
    const int64_t most = INT64_C(1) << 53;
    int64_t step[2] = {0};
    if (!profile) return QR_OK;
    if (qr_json_want(profile, "profile", QR_JSON_OBJECT, err) != QR_OK ||
        qr_job_check_keys(profile, "profile", keys, 1, err) != QR_OK)
        return err->code;
    const struct qr_json *steps = qr_json_get(profile, "steps");
    if (!steps) return QR_OK;
    if (qr_json_want(steps, "profile.steps", QR_JSON_ARRAY, err) != QR_OK) return err->code;
    if (qr_json_size(steps) != 2)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "profile.steps has %zu entries; give the first and the last step to record, "
                       "such as [100, 110]",
                       qr_json_size(steps));
    const struct qr_json *last = qr_json_next(qr_json_first(steps));
    if (qr_json_i64(qr_json_first(steps), "profile.steps[0]", 1, most, &step[0], err) != QR_OK ||
        qr_json_i64(last, "profile.steps[1]", 1, most, &step[1], err) != QR_OK)
        return err->code;
    if (step[0] > step[1])
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "profile.steps: the first step %lld is after the last step %lld; swap them",
                       (long long)step[0], (long long)step[1]);
    job->profile_first = (uint64_t)step[0];
    job->profile_last = (uint64_t)step[1];
    return QR_OK;
}

static enum qr_code read_root(const struct qr_json *root, struct qr_job *job, struct qr_err *err) {
    static const char *const keys[] = {"name",  "seed",   "precision", "micro_batch_size",
                                       "model", "data",   "train",     "profile",
                                       "sweep", "worker", "$schema"};
    static const char *const precisions[] = {"single", "double"};
    if (qr_json_want(root, "the job", QR_JSON_OBJECT, err) != QR_OK) return err->code;
    if (qr_json_get(root, "block_size"))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "block_size is now micro_batch_size: write the same value under that name");
    if (qr_job_check_keys(root, "the job", keys, 11, err) != QR_OK) return err->code;
    const struct qr_json *schema = qr_json_get(root, "$schema"); /* for editors */
    const char *unread;
    size_t precision = 0;
    if (schema && qr_json_string(schema, "$schema", &unread, err) != QR_OK) return err->code;
    if (read_job_name(root, job, err) != QR_OK ||
        qr_job_opt_u64(root, "", "seed", 0, UINT64_C(1) << 53, &job->seed, err) != QR_OK ||
        (qr_json_get(root, "precision") &&
         qr_job_choice(qr_json_get(root, "precision"), "precision", QR_JOB_PRECISION, precisions, 2,
                       &precision, err) != QR_OK) ||
        qr_job_read_model(qr_json_get(root, "model"), job, err) != QR_OK ||
        qr_job_read_data(qr_json_get(root, "data"), job, err) != QR_OK ||
        qr_job_read_train(qr_json_get(root, "train"), job, err) != QR_OK)
        return err->code;
    job->precision = precision ? QR_DOUBLE : QR_SINGLE;
    if (qr_job_check_outputs(job, err) != QR_OK || read_micro_batches(root, job, err) != QR_OK)
        return err->code;
    job->data.seed = job->seed;
    if (read_profile(qr_json_get(root, "profile"), job, err) != QR_OK) return err->code;
    const struct qr_json *sweep = qr_json_get(root, "sweep");
    if (sweep && qr_sweep_read(sweep, &job->sweep, err) != QR_OK) return err->code;
    job->worker = qr_json_get(root, "worker");
    if (job->worker) return qr_json_want(job->worker, "worker", QR_JSON_OBJECT, err);
    return QR_OK;
}

/* Prefixes an error with the setting that caused it, or otherwise with the list of keys that were
 * set. */
static void add_error_context(const struct qr_overrides *set, const char *what,
                              struct qr_err *err) {
    struct qr_buf all = {0};
    bool blamed = set && qr_overrides_attribute(set, err);
    if (set && set->n && !blamed) qr_overrides_put(set, &all);
    if (all.n) qr_wrap(err, "%s with %.200s set", what, qr_buf_string(&all));
    else qr_wrap(err, "%s", what);
    qr_buf_free(&all);
}

static enum qr_code read_tree(struct qr_job *job, struct qr_overrides *set, const char *what,
                              struct qr_err *err) {
    enum qr_code code = set ? qr_overrides_apply(set, job->tree, err) : QR_OK;
    if (code != QR_OK) return qr_wrap(err, "%s", what);
    if ((code = read_root(job->tree, job, err)) != QR_OK) add_error_context(set, what, err);
    job->set = set && set->n ? qr_xcalloc(set->n, sizeof *job->set) : NULL;
    for (; set && job->n_set < set->n; job->n_set++)
        job->set[job->n_set] = qr_xstrdup(set->v[job->n_set].text);
    return code;
}

enum qr_code qr_job_parse_in(struct qr_bytes text, const char *what, bool is_file, char *folder,
                             struct qr_overrides *set, struct qr_job **ret, struct qr_err *err) {
    struct qr_err own;
    if (!err) err = &own;
    struct qr_job *job = qr_xcalloc(1, sizeof *job);
    job->is_file = is_file;
    job->data.folder = folder;
    enum qr_code code = qr_json_parse(text, what, &job->tree, err);
    if (code == QR_OK) code = read_tree(job, set, what, err);
    if (code != QR_OK) qr_job_free(job);
    else *ret = job;
    return code;
}

enum qr_code qr_job_parse(struct qr_bytes text, const char *what, struct qr_job **ret,
                          struct qr_err *err) {
    return qr_job_parse_in(text, what, false, NULL, NULL, ret, err);
}

enum qr_code qr_job_load(const char *url, struct qr_overrides *set, struct qr_job **ret,
                         struct qr_err *err) {
    if (!url)
        return qr_job_parse_in(qr_bytes_of(qr_builtin_job, sizeof qr_builtin_job - 1),
                               "the built-in job", false, NULL, set, ret, err);
    struct qr_buf text = {0};
    bool input = strcmp(url, "-") == 0;
    qr_auto(qr_free_p) char *in_folder = qr_path_join(url, "job.json");
    if (!input && qr_file_exists(in_folder)) url = in_folder;
    enum qr_code code = input ? qr_input_read(MAX_JOB_BYTES, &text, err)
                              : qr_url_read(url, MAX_JOB_BYTES, &text, err);
    if (code == QR_OK) {
        qr_auto(qr_free_p) char *shown = qr_url_redacted(url);
        char *what =
            input ? qr_xstrdup("the job on standard input") : qr_xasprintf("job %s", shown);
        const char *slash = strrchr(shown, '/');
        char *folder =
            slash ? qr_xstrndup(shown, (size_t)(slash - shown) + (slash == shown)) : NULL;
        code = qr_job_parse_in(qr_buf_view(&text), what, true, folder, set, ret, err);
        free(what);
    } else {
        qr_wrap(err, "cannot read the job");
    }
    qr_buf_free(&text);
    return code;
}

static void layer_fini(struct qr_layer_options *l) {
    free((void *)(uintptr_t)l->name);
    if (l->kind != QR_LAYER_QUANTUM) return;
    struct qr_observable *readouts = (struct qr_observable *)(uintptr_t)l->quantum.readouts;
    for (size_t i = 0; i < l->quantum.n_readouts; i++) qr_observable_fini(&readouts[i]);
    free(readouts);
    qr_job_free_watched(&l->quantum);
    qr_circuit_free((struct qr_circuit *)(uintptr_t)l->quantum.circuit);
}

void qr_job_free(struct qr_job *job) {
    if (!job) return;
    for (size_t i = 0; i < job->n_layers; i++) layer_fini(&job->layers[i]);
    free(job->layers);
    qr_job_free_data(&job->data);
    free(job->train.class_weight);
    free(job->train.output_weights);
    free(job->train.initial_weights);
    for (size_t i = 0; i < job->train.n_initial_layers; i++) {
        free(job->train.initial_layers[i].name);
        free(job->train.initial_layers[i].file_name);
    }
    free(job->train.initial_layers);
    qr_job_free_logged(&job->train);
    free(job->name);
    for (size_t i = 0; i < job->n_set; i++) free(job->set[i]);
    free(job->set);
    qr_sweep_free(job->sweep);
    qr_json_free(job->tree);
    free(job);
}

enum qr_code qr_job_model(const struct qr_job *job, enum qr_isa isa, size_t n_columns,
                          struct qr_model **ret, struct qr_err *err) {
    const struct qr_model_options opt = {
        .layers = job->layers,
        .n_layers = job->n_layers,
        .n_inputs = n_columns,
        .loss = job->train.loss,
        .loss_options = job->train.loss_options,
        .class_weight = job->train.class_weight,
        .n_class_weights = job->train.n_class_weights,
        .weighted = job->data.sample_weight != NULL,
        .metrics = job->train.metrics,
        .n_metrics = job->train.n_metrics,
        .top_k = job->train.top_k,
        .sim = {.precision = job->precision, .isa = isa},
        .micro_batch_size = job->micro_batch_size,
        .natural_gradient = job->train.optimizer.kind == QR_NATURAL_GRADIENT,
    };
    return qr_model_new(&opt, ret, err);
}

size_t qr_job_quantum(const struct qr_job *job, size_t n) {
    size_t i = 0;
    while (i < job->n_layers && (job->layers[i].kind != QR_LAYER_QUANTUM || n-- > 0)) i++;
    return i;
}

size_t qr_job_n_outputs(const struct qr_job *job) {
    return qr_layers_n_outputs(job->layers, job->n_layers);
}

bool qr_job_labels_are_signs(const struct qr_job *job) {
    const struct qr_train_spec *t = &job->train;
    const struct qr_loss_info *info = qr_loss_info(t->loss);
    bool bits = false;
    for (size_t i = 0; i < t->n_metrics; i++)
        bits |= qr_metric_binary_labels(t->metrics[i]) || t->metrics[i] == QR_BINARY_ACCURACY;
    /* A loss that accepts 0 for -1 leaves the choice to the metrics. */
    return info->accuracy == QR_BY_SIGN && !(info->zero_is_minus && bits);
}

struct qr_data_options qr_job_data_options(const struct qr_job *job) {
    struct qr_data_options opt = job->data;
    const struct qr_circuit *reads = qr_layers_input_circuit(job->layers, job->n_layers);
    opt.n_columns = reads ? reads->n_columns : 0; /* 0: as many as the data has */
    opt.more_columns = job->data_may_be_wider;
    opt.n_outputs = qr_job_n_outputs(job);
    /* Broadcast as in Keras; class numbers are only for that loss. */
    opt.one_label_for_all = job->train.loss != QR_CATEGORICAL_CROSSENTROPY;
    opt.no_labels = qr_loss_info(job->train.loss)->no_labels;
    if (qr_job_has_classes(job))
        opt.max_classes =
            qr_loss_info(job->train.loss)->accuracy == QR_BY_LARGEST ? opt.n_outputs : 2;
    opt.signs = qr_job_labels_are_signs(job);
    return opt;
}

/* Checks the data as a whole, and takes it over. trains: the data is the job's own. */
static enum qr_code check_data(const struct qr_job *job, bool trains, struct qr_dataset *d,
                               struct qr_dataset *ret, struct qr_err *err) {
    enum qr_code code = qr_job_check_columns(job, d, trains, err);
    if (code == QR_OK) code = qr_job_check_inputs(job, d, err);
    if (code != QR_OK && d->unquoted) qr_named_file_unquote("data", err);
    size_t n_validate = d->n_samples - d->n_train;
    if (code == QR_OK && n_validate / job->micro_batch_size >= MAX_MICRO_BATCHES)
        code = qr_fail(err, QR_INVALID_ARGUMENT,
                       "data: %zu %s in micro-batches of %zu exceed the limit of %d micro-batches; "
                       "increase micro_batch_size",
                       n_validate, trains ? "validation samples" : "samples", job->micro_batch_size,
                       MAX_MICRO_BATCHES);
    if (code == QR_OK) *ret = *d;
    else qr_dataset_fini(d);
    return code;
}

enum qr_code qr_job_data(const struct qr_job *job, struct qr_dataset *ret, struct qr_err *err) {
    struct qr_data_options opt = qr_job_data_options(job);
    struct qr_dataset d;
    enum qr_code code = qr_dataset_load(&opt, &d, err);
    return code ? code : check_data(job, true, &d, ret, err);
}

enum qr_code qr_job_check_samples(const struct qr_job *job, const struct qr_job_samples *of,
                                  struct qr_err *err) {
    qr_auto(qr_free_p) char *shown = qr_url_redacted(of->url);
    if (job->data.source == QR_DATA_NONE)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cannot use %s: the job's model takes no inputs (data.source is none); "
                       "leave out --data and --channel",
                       shown);
    return of->channel ? qr_data_check_channel(&job->data, of->channel, err) : QR_OK;
}

enum qr_code qr_job_samples(const struct qr_job *job, const struct qr_job_samples *of,
                            struct qr_dataset *ret, struct qr_err *err) {
    struct qr_data_options opt = qr_job_data_options(job);
    struct qr_dataset d;
    qr_auto(qr_free_p) char *shown = qr_url_redacted(of->url);
    enum qr_code code = qr_job_check_samples(job, of, err);
    if (code) {
        if (of->file) qr_buf_free(of->file);
        return code;
    }
    if (!of->channel) {
        opt.url = of->url;
        opt.folder = NULL; /* not relative to the job file */
    }
    if (!of->labels) opt.no_labels = opt.only_inputs = true;
    code = of->channel ? qr_dataset_load_channel(&opt, of->channel, &d, err)
                       : qr_dataset_load_samples(&opt, "--data", of->file, &d, err);
    if (code) return code;
    code = check_data(job, false, &d, ret, err);
    return code ? qr_wrap(err, "%s", shown) : QR_OK;
}

bool qr_job_has_classes(const struct qr_job *job) {
    const struct qr_train_spec *t = &job->train;
    bool asked = qr_loss_has_classes(t->loss);
    for (size_t i = 0; i < t->n_metrics; i++)
        asked |= t->metrics[i] == QR_ACCURACY || t->metrics[i] == QR_CONFUSION_MATRIX;
    return asked;
}

struct qr_metric_options qr_job_metric_options(const struct qr_job *job) {
    return (struct qr_metric_options){.loss = job->train.loss,
                                      .from_logits = job->train.loss_options.from_logits,
                                      .top_k = job->train.top_k};
}
