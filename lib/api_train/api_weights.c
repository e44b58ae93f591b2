/* api_train/api_weights.c — weights of the C interface: named tensors of a model, read and written
 * as files. Start reading at qr_api_weights(). */
#include <math.h>
#include <string.h>

#include "api_train/api_train_impl.h"
#include "base/mem.h"
#include "store/store.h"

/* ---- creating ---- */

static char **copy_texts(const char *const *texts, size_t n) {
    char **ret = qr_xcalloc(n + 1, sizeof *ret);
    for (size_t i = 0; i < n; i++) ret[i] = qr_xstrdup(texts[i]);
    return ret;
}

struct qring_weights *qr_api_weights(const struct qr_model *m, const struct qr_data_names *names) {
    struct qring_weights *w = qr_xcalloc(1, sizeof *w);
    w->n = qr_model_n_tensors(m);
    w->entries = qr_xcalloc(w->n + 1, sizeof *w->entries);
    for (size_t i = 0; i < w->n; i++) {
        const struct qr_model_tensor *t = qr_model_tensor(m, i);
        w->entries[i] = (struct qr_weights_entry){
            .name = qr_xstrdup(t->name), .rank = t->rank, .dims = {t->dims[0], t->dims[1]}};
        if (t->circuit)
            w->entries[i].symbols = (const char *const *)copy_texts(
                (const char *const *)t->circuit->param_names, t->dims[0]);
    }
    w->n_values = qr_model_n_params(m);
    w->values = qr_xcalloc(w->n_values + 1, sizeof *w->values);
    w->names.inputs = qr_name_list_copy(&names->inputs);
    w->names.classes = qr_name_list_copy(&names->classes);
    return w;
}

void qring_weights_free(struct qring_weights *w) {
    if (!w) return;
    for (size_t i = 0; i < w->n; i++) {
        char **symbols = (char **)(uintptr_t)w->entries[i].symbols;
        for (size_t k = 0; symbols && symbols[k]; k++) free(symbols[k]);
        free(symbols);
        free((void *)(uintptr_t)w->entries[i].name);
    }
    free(w->entries);
    free(w->values);
    qr_data_names_fini(&w->names);
    free(w);
}

static size_t entry_size(const struct qr_weights_entry *e) {
    return e->rank == 2 ? e->dims[0] * e->dims[1] : e->dims[0];
}

static struct qr_weights_layout layout_of(const struct qring_weights *w) {
    return (struct qr_weights_layout){w->n, w->entries};
}

/* ---- use ---- */

static enum qr_code check_entry(const struct qr_weights_entry *e, const struct qr_model_tensor *t,
                                struct qr_err *err) {
    char have[QR_SHAPE_CHARS], want[QR_SHAPE_CHARS];
    if (strcmp(e->name, t->name) == 0 && e->rank == t->rank && e->dims[0] == t->dims[0] &&
        (e->rank < 2 || e->dims[1] == t->dims[1]))
        return QR_OK;
    qr_shape_text(e->rank, e->dims, have);
    qr_shape_text(t->rank, t->dims, want);
    return qr_fail(
        err, QR_INVALID_ARGUMENT,
        "cannot use the weights: %s %s is not the model's %s %s; give weights of this job", e->name,
        have, t->name, want);
}

enum qr_code qr_api_weights_take(const struct qring_weights *w, const struct qr_model *m,
                                 double *ret, struct qr_err *err) {
    size_t n = qr_model_n_tensors(m);
    for (size_t i = 0; i < w->n && i < n; i++)
        QR_TRY(check_entry(&w->entries[i], qr_model_tensor(m, i), err));
    if (w->n != n)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cannot use the weights: they have %zu tensors, the model has %zu; give "
                       "weights of this job",
                       w->n, n);
    for (size_t i = 0; i < w->n_values; i++)
        if (!(fabs(w->values[i]) < 0x1p40))
            return qr_fail(err, QR_OUT_OF_RANGE,
                           "cannot use the weights: value %zu of all is %g; numbers must be finite "
                           "and below 2^40",
                           i, w->values[i]);
    memcpy(ret, w->values, w->n_values * sizeof *ret);
    return QR_OK;
}

size_t qring_weights_count(const struct qring_weights *w) { return w->n; }

const char *qring_weights_name(const struct qring_weights *w, size_t i) {
    return i < w->n ? w->entries[i].name : NULL;
}

unsigned qring_weights_rank(const struct qring_weights *w, size_t i) {
    return i < w->n ? w->entries[i].rank : 0;
}

size_t qring_weights_size(const struct qring_weights *w, size_t i, unsigned dimension) {
    return i < w->n && dimension < w->entries[i].rank ? w->entries[i].dims[dimension] : 0;
}

double *qring_weights_values(struct qring_weights *w, size_t i) {
    double *at = w->values;
    if (i >= w->n) return NULL;
    for (size_t k = 0; k < i; k++) at += entry_size(&w->entries[k]);
    return at;
}

/* ---- files ---- */

/* Number of inputs of the weights in a file: rows of the model's first kernel. 0: the model's first
 * tensor is not a kernel, so a circuit determines the number, or it is unknown. */
static enum qr_code count_inputs(const struct qr_job *job, const struct qr_weights_file *file,
                                 size_t *ret, struct qr_err *err) {
    struct qr_model *any = NULL;
    qr_auto(qr_tensors_free) struct qr_tensors all = {0};
    *ret = 1;
    if (qr_layers_input_circuit(job->layers, job->n_layers)) return QR_OK;
    QR_TRY(qr_job_model(job, QR_ISA_PORTABLE, 1, &any, err));
    enum qr_code code =
        qr_weights_list(file->format, qr_buf_view(&file->bytes), file->url, &all, err);
    for (size_t i = 0; code == QR_OK && i < qr_model_n_tensors(any); i++) {
        const struct qr_tensor *t = qr_tensors_find(&all, qr_model_tensor(any, i)->name);
        if (!t || t->rank != 2 || !t->dims[0]) continue;
        *ret = t->dims[0];
        break;
    }
    qr_model_free(any);
    return code;
}

static enum qr_code weights_decode(const struct qr_job *job, const struct qr_weights_file *file,
                                   struct qring_weights **ret, struct qr_err *err) {
    struct qr_model *m = NULL;
    size_t n_inputs;
    QR_TRY(count_inputs(job, file, &n_inputs, err));
    QR_TRY(qr_job_model(job, QR_ISA_PORTABLE, n_inputs, &m, err));
    struct qring_weights *w = qr_api_weights(m, &file->names);
    const struct qr_weights_layout layout = layout_of(w);
    qr_model_free(m);
    enum qr_code code = qr_weights_decode(file->format, qr_buf_view(&file->bytes), file->url,
                                          &layout, w->values, err);
    if (code == QR_OK) *ret = w;
    else qring_weights_free(w);
    return code;
}

static enum qr_code weights_read(const struct qr_job *job, const char *path,
                                 struct qring_weights **ret, struct qr_err *err) {
    struct qr_weights_file file;
    if (!path) return qr_fail(err, QR_INVALID_ARGUMENT, "cannot read the weights: path is NULL");
    QR_TRY(qr_weights_file_read(path, &file, err));
    enum qr_code code = weights_decode(job, &file, ret, err);
    qr_weights_file_fini(&file);
    return code;
}

enum qring_code qring_weights_read(struct qring_job *j, const char *path,
                                   struct qring_weights **ret, struct qring_error *ret_err) {
    struct qr_err err = {0};
    struct qr_number_env env;
    *ret = NULL;
    enum qr_code code = qr_api_begin(&j->busy, "job", &env, &err);
    if (code != QR_OK) return qr_api_report(ret_err, code, &err);
    code = weights_read(j->job, path, ret, &err);
    qr_api_end(&j->busy, &env);
    return qr_api_report(ret_err, code, &err);
}

enum qring_code qring_weights_new(struct qring_job *j, size_t n_inputs, struct qring_weights **ret,
                                  struct qring_error *ret_err) {
    static const struct qr_data_names none;
    struct qr_model *m = NULL;
    struct qr_err err = {0};
    struct qr_number_env env;
    *ret = NULL;
    enum qr_code code = qr_api_begin(&j->busy, "job", &env, &err);
    if (code != QR_OK) return qr_api_report(ret_err, code, &err);
    code = qr_job_model(j->job, QR_ISA_PORTABLE, n_inputs, &m, &err);
    if (code == QR_OK) {
        *ret = qr_api_weights(m, &none);
        qr_model_init(m, j->job->seed, (*ret)->values);
        qr_model_free(m);
    }
    qr_api_end(&j->busy, &env);
    return qr_api_report(ret_err, code, &err);
}

static enum qr_code weights_write(const struct qring_weights *w, const char *path,
                                  struct qr_err *err) {
    enum qr_weights_format format;
    qr_auto(qr_buf_free) struct qr_buf file = {0};
    const struct qr_weights_layout layout = layout_of(w);
    if (!path) return qr_fail(err, QR_INVALID_ARGUMENT, "cannot write the weights: path is NULL");
    QR_TRY(qr_weights_format_of(path, &format, err));
    QR_TRY(qr_weights_encode(format, &layout, w->values, &w->names, &file, err));
    return qr_url_write(path, qr_buf_view(&file), err);
}

enum qring_code qring_weights_write(const struct qring_weights *w, const char *path,
                                    struct qring_error *ret_err) {
    struct qr_err err = {0};
    struct qr_number_env env;
    qr_number_env_enter(&env);
    enum qr_code code = weights_write(w, path, &err);
    qr_number_env_leave(&env);
    if (code != QR_OK) qr_wrap(&err, "cannot write the weights");
    return qr_api_report(ret_err, code, &err);
}
