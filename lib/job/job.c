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

enum { MAX_JOB_BYTES = 64 << 20 };

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

/* Adds the context to an error, and passes it on. */
static void report_error(void *source, const struct qr_err *err) {
    const struct qr_job_source *from = source;
    struct qr_err whole = *err;
    add_error_context(from->set, from->what, &whole);
    from->report(from->context, &whole);
}

static struct qr_job_reader new_reader(struct qr_job *job, struct qr_err *err) {
    return (struct qr_job_reader){
        .job = job, .err = err, .objects = qr_job_objects, .n_objects = qr_job_n_objects};
}

enum qr_code qr_job_add_metric(struct qr_job *job, const char *text, struct qr_err *err) {
    struct qr_job_reader r = new_reader(job, err);
    return qr_job_read_metric(&r, text);
}

static enum qr_code read_tree(struct qr_job *job, const struct qr_job_source *from,
                              struct qr_err *err) {
    struct qr_job_reader r = new_reader(job, err);
    r.report = from->report ? report_error : NULL;
    r.context = (void *)(uintptr_t)from;
    struct qr_overrides *set = from->set;
    if (set && qr_overrides_apply(set, job->tree, err) != QR_OK)
        return qr_wrap(err, "%s", from->what);
    if (qr_job_read_object(&r, &qr_job_objects[0], job->tree, "", job) != QR_OK) {
        add_error_context(set, from->what, err);
        return err->code;
    }
    job->set = set && set->n ? qr_xcalloc(set->n, sizeof *job->set) : NULL;
    for (; set && job->n_set < set->n; job->n_set++)
        job->set[job->n_set] = qr_xstrdup(set->v[job->n_set].text);
    return QR_OK;
}

enum qr_code qr_job_parse_in(struct qr_bytes text, const struct qr_job_source *from,
                             struct qr_job **ret, struct qr_err *err) {
    struct qr_job *job = qr_xcalloc(1, sizeof *job);
    job->is_file = from->is_file;
    job->data_may_follow = from->data_may_follow;
    job->data.folder = from->folder;
    enum qr_code code = qr_json_parse(text, from->what, &job->tree, err);
    if (code == QR_OK) code = read_tree(job, from, err);
    if (code != QR_OK) qr_job_free(job);
    else *ret = job;
    return code;
}

enum qr_code qr_job_parse(struct qr_bytes text, const char *what, struct qr_job **ret,
                          struct qr_err *err) {
    return qr_job_parse_in(text, &(struct qr_job_source){.what = what}, ret, err);
}

enum qr_code qr_job_parse_all(struct qr_bytes text, const char *what, const char *folder,
                              void (*report)(void *context, const struct qr_err *err),
                              void *context, struct qr_job **ret, struct qr_err *err) {
    const struct qr_job_source from = {.what = what,
                                       .is_file = true,
                                       .data_may_follow = true,
                                       .folder = folder ? qr_xstrdup(folder) : NULL,
                                       .report = report,
                                       .context = context};
    return qr_job_parse_in(text, &from, ret, err);
}

enum qr_code qr_job_load_all(const char *url, struct qr_overrides *set,
                             void (*report)(void *context, const struct qr_err *err), void *context,
                             struct qr_job **ret, struct qr_err *err) {
    struct qr_job_source from = {
        .what = "the built-in job", .set = set, .report = report, .context = context};
    if (!url)
        return qr_job_parse_in(qr_bytes_of(qr_builtin_job, sizeof qr_builtin_job - 1), &from, ret,
                               err);
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    bool input = strcmp(url, "-") == 0;
    qr_auto(qr_free_p) char *in_folder = qr_path_join(url, "job.json");
    if (!input && qr_file_exists(in_folder)) url = in_folder;
    if ((input ? qr_input_read(MAX_JOB_BYTES, &text, err)
               : qr_url_read(url, MAX_JOB_BYTES, &text, err)) != QR_OK)
        return qr_wrap(err, "cannot read the job");
    qr_auto(qr_free_p) char *shown = qr_url_redacted(url), *what = qr_xasprintf("job %s", shown);
    const char *slash = strrchr(shown, '/');
    from.what = input ? "the job on standard input" : what;
    from.is_file = true;
    if (slash) from.folder = qr_xstrndup(shown, (size_t)(slash - shown) + (slash == shown));
    return qr_job_parse_in(qr_buf_view(&text), &from, ret, err);
}

enum qr_code qr_job_load(const char *url, struct qr_overrides *set, struct qr_job **ret,
                         struct qr_err *err) {
    return qr_job_load_all(url, set, NULL, NULL, ret, err);
}

static void layer_fini(struct qr_layer_options *l) {
    free((void *)(uintptr_t)l->name);
    if (l->kind != QR_LAYER_QUANTUM) return;
    struct qr_observable *readouts = (struct qr_observable *)(uintptr_t)l->quantum.readouts;
    for (size_t i = 0; i < l->quantum.n_readouts; i++) qr_observable_fini(&readouts[i]);
    free(readouts);
    struct qr_observable *watched = (struct qr_observable *)(uintptr_t)l->quantum.watched;
    for (size_t i = 0; i < l->quantum.n_watched; i++) {
        qr_observable_fini(&watched[i]);
        free(l->quantum.watched_names[i]);
    }
    free(watched);
    free((void *)(uintptr_t)l->quantum.watched_names);
    qr_circuit_free((struct qr_circuit *)(uintptr_t)l->quantum.circuit);
}

void qr_job_free(struct qr_job *job) {
    if (!job) return;
    for (size_t i = 0; i < job->n_layers; i++) layer_fini(&job->layers[i]);
    free(job->layers);
    qr_job_free_data(&job->data);
    qr_job_free_train(&job->train);
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
        .seed = job->seed,
        .micro_batch_size = job->micro_batch_size,
        .natural_gradient = job->train.optimizer.kind == QR_NATURAL_GRADIENT,
    };
    return qr_model_new(&opt, ret, err);
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
    if (code == QR_OK && n_validate / job->micro_batch_size >= QR_JOB_MAX_MICRO_BATCHES)
        code = qr_fail(err, QR_INVALID_ARGUMENT,
                       "data: %zu %s in micro-batches of %zu exceed the limit of %d micro-batches; "
                       "increase micro_batch_size",
                       n_validate, trains ? "validation samples" : "samples", job->micro_batch_size,
                       QR_JOB_MAX_MICRO_BATCHES);
    if (code == QR_OK) *ret = *d;
    else qr_dataset_fini(d);
    return code;
}

enum qr_code qr_job_data(const struct qr_job *job, struct qr_dataset *ret, struct qr_err *err) {
    struct qr_data_options opt = qr_job_data_options(job);
    struct qr_dataset d;
    QR_TRY(qr_dataset_load(&opt, &d, err));
    return check_data(job, true, &d, ret, err);
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
        opt.arrays = of->arrays;
        opt.folder = NULL; /* not relative to the job file */
    }
    if (!of->labels) opt.no_labels = opt.only_inputs = true;
    QR_TRY(of->channel ? qr_dataset_load_channel(&opt, of->channel, &d, err)
                       : qr_dataset_load_samples(&opt, "--data", of->file, &d, err));
    code = check_data(job, false, &d, ret, err);
    return code ? qr_wrap(err, "%s", shown) : QR_OK;
}
