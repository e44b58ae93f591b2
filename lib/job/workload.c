/* job/workload.c — loads the data, model and weights of a job. Start reading at
 * qr_workload_load(). */
#include "job/workload.h"

#include <string.h>

#include "base/cgroup.h"
#include "base/checksum.h"
#include "base/mem.h"
#include "data/named_files.h"
#include "record/checkpoint_folder.h"
#include "store/store.h"

static const size_t max_weights_bytes = (size_t)1 << 30;

static void set_layout(struct qr_workload *w) {
    const struct qr_model *m = w->model;
    size_t n = qr_model_n_tensors(m);
    struct qr_weights_entry *entries = qr_xcalloc(n, sizeof *entries);
    for (size_t i = 0; i < n; i++) {
        const struct qr_model_tensor *t = qr_model_tensor(m, i);
        entries[i] = (struct qr_weights_entry){
            .name = t->name, .rank = t->rank, .dims = {t->dims[0], t->dims[1]}};
        if (t->circuit) entries[i].symbols = (const char *const *)t->circuit->param_names;
    }
    w->layout = (struct qr_weights_layout){n, entries};
    w->initial = qr_xcalloc(qr_model_n_params(m) + 1, sizeof *w->initial);
}

/* Replaces ".../LATEST" by the checkpoint that it names. */
static enum qr_code resolve_latest(const char *url, char **ret, struct qr_err *err) {
    static const char name[] = "/LATEST";
    size_t n = strlen(url), m = sizeof name - 1;
    if (n <= m || strcmp(url + n - m, name) != 0) {
        *ret = qr_xstrdup(url);
        return QR_OK;
    }
    qr_auto(qr_free_p) char *dir = qr_xstrndup(url, n - m);
    struct qr_checkpoint_latest l;
    struct qr_checkpoint_folder p;
    QR_TRY(qr_checkpoint_folder_open(dir, &p, err));
    enum qr_code code = qr_checkpoint_peek(&p.at, &l, err);
    if (code == QR_OK && !*l.job_hash)
        code = qr_fail(err, QR_NOT_FOUND,
                       "%s does not exist: no checkpoint has been published in that folder", url);
    if (code == QR_OK) *ret = qr_xasprintf("%s/%s", dir, l.object);
    qr_checkpoint_folder_close(&p);
    return code;
}

/* folder: searched as well, or NULL. */
static enum qr_code read_weights(const char *from, const char *folder, struct qr_weights_file *ret,
                                 struct qr_err *err) {
    qr_auto(qr_weights_file_fini) struct qr_weights_file w = {.bytes.max = max_weights_bytes};
    qr_auto(qr_free_p) char *url = NULL;
    QR_TRY(resolve_latest(from, &url, err));
    QR_TRY(qr_weights_format_of(url, &w.format, err));
    QR_TRY(qr_named_file_read(url, folder, max_weights_bytes, &w.bytes, err));
    w.url = qr_url_redacted(url);
    *ret = QR_MOVE(w);
    return QR_OK;
}

enum qr_code qr_weights_file_read(const char *url, struct qr_weights_file *ret,
                                  struct qr_err *err) {
    qr_auto(qr_weights_file_fini) struct qr_weights_file w = {0};
    QR_TRY(read_weights(url, NULL, &w, err));
    QR_TRY(qr_weights_names(w.format, qr_buf_view(&w.bytes), w.url, &w.names, err));
    *ret = QR_MOVE(w);
    return QR_OK;
}

void qr_weights_file_fini(struct qr_weights_file *w) {
    free(w->url);
    qr_buf_free(&w->bytes);
    qr_data_names_fini(&w->names);
    *w = (struct qr_weights_file){0};
}

enum qr_code qr_workload_decode(const struct qr_workload *w, const struct qr_weights_file *from,
                                double *ret_values, struct qr_err *err) {
    return qr_weights_decode(from->format, qr_buf_view(&from->bytes), from->url, &w->layout,
                             ret_values, err);
}

static enum qr_code read_all_layers(const struct qr_workload *w, const char *from,
                                    const char *folder, double *ret_values, uint8_t ret_digest[32],
                                    struct qr_err *err) {
    qr_auto(qr_weights_file_fini) struct qr_weights_file file = {0};
    QR_TRY(read_weights(from, folder, &file, err));
    enum qr_code code = qr_workload_decode(w, &file, ret_values, err);
    if (code != QR_OK && qr_named_file_unquoted(from, folder)) qr_named_file_unquote(file.url, err);
    if (code == QR_OK && ret_digest) qr_sha256(file.bytes.p, file.bytes.n, ret_digest);
    return code;
}

enum qr_code qr_workload_weights(const struct qr_workload *w, const char *from, double *ret_values,
                                 struct qr_err *err) {
    return read_all_layers(w, from, NULL, ret_values, NULL, err);
}

enum qr_code qr_workload_initial_digest(const struct qr_job *job, uint8_t ret[32],
                                        struct qr_err *err) {
    qr_auto(qr_weights_file_fini) struct qr_weights_file file = {0};
    if (read_weights(job->train.initial_weights, job->data.folder, &file, err) != QR_OK)
        return qr_wrap(err, "train.initial_weights");
    qr_sha256(file.bytes.p, file.bytes.n, ret);
    return QR_OK;
}

/* ---- weights of some layers from a file ---- */

/* "dense_1/kernel" belongs to the layer "dense_1". */
static bool is_of_layer(const struct qr_weights_entry *e, const char *layer) {
    size_t n = strlen(layer);
    return strncmp(e->name, layer, n) == 0 && e->name[n] == '/';
}

static enum qr_code report_unknown_layer(const struct qr_weights_layout *all, const char *name,
                                         struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf names = {0};
    for (size_t i = 0; i < all->n; i++) {
        const char *entry = all->entries[i].name;
        int n = (int)strcspn(entry, "/");
        if (i && strncmp(entry, all->entries[i - 1].name, (size_t)n + 1) == 0) continue;
        qr_buf_printf(&names, "%s%.*s", i ? ", " : "", n, entry);
    }
    qr_fail(err, QR_INVALID_ARGUMENT,
            "layers: the model has no layer '%.80s' with weights; it has %s", name,
            qr_buf_string(&names));
    return QR_INVALID_ARGUMENT;
}

static enum qr_code read_one_layer(struct qr_workload *w, const struct qr_initial_layer *layer,
                                   const struct qr_weights_file *file, struct qr_err *err) {
    enum { MOST_TENSORS = 2 }; /* kernel and bias */
    char *names[MOST_TENSORS] = {0};
    const struct qr_weights_layout *all = &w->layout;
    size_t first = 0, n = 0;
    while (first < all->n && !is_of_layer(&all->entries[first], layer->name)) first++;
    if (first == all->n) return report_unknown_layer(all, layer->name, err);
    for (; first + n < all->n && is_of_layer(&all->entries[first + n], layer->name); n++) {
        QR_ASSERT(n < MOST_TENSORS);
        names[n] = qr_xasprintf("%s%s", layer->file_name,
                                all->entries[first + n].name + strlen(layer->name));
    }
    const struct qr_weights_layout some = {n, all->entries + first};
    enum qr_code code = qr_weights_decode_some(
        file->format, qr_buf_view(&file->bytes), file->url, &some, (const char *const *)names,
        w->initial + qr_model_tensor(w->model, first)->offset, err);
    for (size_t i = 0; i < n; i++) free(names[i]);
    return code;
}

/* Weights of the other layers are drawn from the seed. */
static enum qr_code read_some_layers(struct qr_workload *w, struct qr_err *err) {
    const struct qr_train_spec *t = &w->job->train;
    qr_auto(qr_weights_file_fini) struct qr_weights_file file = {0};
    enum qr_code code = QR_OK;
    QR_TRY(read_weights(t->initial_weights, w->job->data.folder, &file, err));
    qr_model_init(w->model, w->job->seed, w->initial);
    for (size_t i = 0; i < t->n_initial_layers && code == QR_OK; i++) {
        code = read_one_layer(w, &t->initial_layers[i], &file, err);
        if (code != QR_OK && qr_named_file_unquoted(t->initial_weights, w->job->data.folder))
            qr_named_file_unquote(file.url, err);
    }
    if (code == QR_OK) qr_sha256(file.bytes.p, file.bytes.n, w->initial_digest);
    return code;
}

struct qr_memory_estimate qr_workload_memory(const struct qr_workload *w,
                                             const struct qr_memory_process *process) {
    const struct qr_optimizer_options *o = &w->job->train.optimizer;
    size_t n_points = qr_optimizer_n_points(o->kind);
    struct qr_memory_need n = {
        .process = *process,
        .file_bytes = w->data.file_bytes,
        .n_samples = w->data.n_samples,
        .n_values_per_sample = w->data.n_columns + qr_dataset_y_width(&w->data),
        .lanes = w->idle                                        ? 0
                 : qr_model_micro_batches_in_parallel(w->model) ? w->n_threads
                                                                : 1,
        .bytes_per_lane = qr_model_bytes_per_thread(w->model),
        .bytes_of_state = w->idle ? 0 : qr_model_bytes_of_state(w->model) * n_points,
        .n_params = qr_model_n_params(w->model),
        /* weights, moments, best weights; two points */
        .n_vectors = 2 + qr_optimizer_n_moments(o) + 2 * (n_points > 1),
    };
    n.process.threads = w->n_threads;
    return qr_memory_estimate(&n);
}

/* For a process with two workers and all libraries. */
static struct qr_memory_estimate memory_at_most(const struct qr_workload *w) {
    const struct qr_memory_process any = {.workers = 2, .tls = true, .hdf5 = true, .bucket = true};
    return qr_workload_memory(w, &any);
}

uint64_t qr_workload_need(const struct qr_workload *w) { return memory_at_most(w).total; }

static enum qr_code check_memory_limit(const struct qr_workload *w, struct qr_err *err) {
    struct qr_memory_estimate need = memory_at_most(w);
    const char *by;
    uint64_t limit = qr_memory_limit_under("", &by);
    uint64_t available = qr_memory_available_under("", limit);
    if (need.total <= available) return QR_OK;
    if (need.total <= limit)
        return qr_fail(err, QR_UNAVAILABLE,
                       "job %s needs %llu bytes (%llu of data, %llu of workspaces for %u threads); "
                       "this process may use %llu bytes (%s), of which %llu are available now; "
                       "stop other programs, use fewer --threads or a smaller job, or retry later",
                       w->job->name, (unsigned long long)need.total, (unsigned long long)need.data,
                       (unsigned long long)need.workspaces, w->n_threads, (unsigned long long)limit,
                       by, (unsigned long long)available);
    return qr_fail(
        err, QR_RESOURCE_EXHAUSTED,
        "job %s needs %llu bytes (%llu of data, %llu of workspaces for %u threads); this process "
        "may use %llu bytes (%s); use fewer --threads, a smaller job or a larger memory limit",
        w->job->name, (unsigned long long)need.total, (unsigned long long)need.data,
        (unsigned long long)need.workspaces, w->n_threads, (unsigned long long)limit, by);
}

enum qr_code qr_workload_check_validation(const struct qr_workload *w, struct qr_err *err) {
    if (w->data.n_train < w->data.n_samples) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "an evaluator needs validation samples, but all %zu samples train; set "
                   "data.train_fraction below 1 or data.validation_url",
                   w->data.n_samples);
}

bool qr_workload_evaluates(const struct qr_workload *w) {
    return w->job->train.evaluate && w->data.n_train < w->data.n_samples;
}

enum qr_code qr_workload_check_training(const struct qr_workload *w, struct qr_err *err) {
    bool has_validation = w->data.n_train < w->data.n_samples;
    return qr_job_check_validation(w->job, has_validation, err);
}

/* samples: NULL for the job's own. */
static enum qr_code check_labels(const struct qr_workload *w, const struct qr_job_samples *samples,
                                 struct qr_err *err) {
    enum qr_code code =
        qr_model_check_labels(w->model, w->data.y, w->data.row, w->data.n_samples, err);
    if (code == QR_OK) return QR_OK;
    if (w->data.unquoted) qr_named_file_unquote("data", err);
    qr_auto(qr_free_p) char *shown = samples ? qr_url_redacted(samples->url) : NULL;
    return samples ? qr_wrap(err, "%s", shown) : code;
}

static enum qr_code load_model(struct qr_workload *w, const struct qr_job_samples *samples,
                               enum qr_isa isa, struct qr_err *err) {
    /* Reject too many qubits before reading any data. */
    if (qr_layers_input_circuit(w->job->layers, w->job->n_layers))
        QR_TRY(qr_job_model(w->job, isa, 0, &w->model, err));
    QR_TRY(samples ? qr_job_samples(w->job, samples, &w->data, err)
                   : qr_job_data(w->job, &w->data, err));
    qr_memory_trim();
    if (!w->model) QR_TRY(qr_job_model(w->job, isa, w->data.n_columns, &w->model, err));
    QR_TRY(check_memory_limit(w, err));
    if (!samples || samples->labels) QR_TRY(check_labels(w, samples, err));
    set_layout(w);
    return QR_OK;
}

static enum qr_code workload_load(struct qr_workload *w, enum qr_isa isa, struct qr_err *err) {
    QR_TRY(load_model(w, NULL, isa, err));
    if (!w->job->train.initial_weights) {
        qr_model_init(w->model, w->job->seed, w->initial);
        return QR_OK;
    }
    w->initial_from_file = true;
    enum qr_code code = w->job->train.n_initial_layers
                            ? read_some_layers(w, err)
                            : read_all_layers(w, w->job->train.initial_weights, w->job->data.folder,
                                              w->initial, w->initial_digest, err);
    return code == QR_OK ? code : qr_wrap(err, "train.initial_weights");
}

static enum qr_code load_into(struct qr_workload w, const char *isa_name, struct qr_workload *ret,
                              struct qr_err *err) {
    enum qr_isa isa = QR_ISA_PORTABLE;
    enum qr_code code = qr_isa_parse(isa_name, &isa, err);
    if (code == QR_OK) code = workload_load(&w, isa, err);
    if (code != QR_OK) qr_workload_fini(&w);
    else *ret = w;
    return code;
}

enum qr_code qr_workload_load(const struct qr_job *job, const char *isa_name, unsigned n_threads,
                              struct qr_workload *ret, struct qr_err *err) {
    return load_into(
        (struct qr_workload){.job = job, .n_threads = n_threads ? n_threads : qr_cpu_limit()},
        isa_name, ret, err);
}

enum qr_code qr_workload_load_idle(const struct qr_job *job, const char *isa_name,
                                   unsigned n_threads, struct qr_workload *ret,
                                   struct qr_err *err) {
    return load_into((struct qr_workload){.job = job,
                                          .n_threads = n_threads ? n_threads : qr_cpu_limit(),
                                          .idle = true},
                     isa_name, ret, err);
}

enum qr_code qr_workload_load_samples(const struct qr_job *job,
                                      const struct qr_job_samples *samples, const char *isa_name,
                                      unsigned n_threads, struct qr_workload *ret,
                                      struct qr_err *err) {
    struct qr_workload w = {.job = job, .n_threads = n_threads ? n_threads : qr_cpu_limit()};
    enum qr_isa isa = QR_ISA_PORTABLE;
    enum qr_code code = qr_isa_parse(isa_name, &isa, err);
    if (code == QR_OK) code = load_model(&w, samples, isa, err);
    if (code != QR_OK) qr_workload_fini(&w);
    else *ret = w;
    return code;
}

enum qr_code qr_workload_load_model(const struct qr_job *job, const char *isa_name,
                                    struct qr_workload *ret, struct qr_err *err) {
    qr_auto(qr_workload_fini) struct qr_workload w = {.job = job, .n_threads = 1};
    enum qr_isa isa = QR_ISA_PORTABLE;
    QR_TRY(qr_isa_parse(isa_name, &isa, err));
    if (!qr_layers_input_circuit(job->layers, job->n_layers))
        QR_TRY(qr_job_data(job, &w.data, err));
    QR_TRY(qr_job_model(job, isa, w.data.n_columns, &w.model, err));
    set_layout(&w);
    *ret = QR_MOVE(w);
    return QR_OK;
}

void qr_workload_fini(struct qr_workload *w) {
    free((void *)(uintptr_t)w->layout.entries);
    free(w->initial);
    qr_model_free(w->model);
    qr_dataset_fini(&w->data);
    *w = (struct qr_workload){0};
}
