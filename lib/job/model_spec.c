/* job/model_spec.c — reads "model" of a job: a list of layers. Start reading at
 * qr_job_read_model(). */
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "job/job_impl.h"
#include "observable/projector.h"

#define DIGITS "0123456789"
enum { MAX_LAYERS = 64, MAX_READOUTS = 4096, MAX_PROBS = 8 /* qubits */ };

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

/* ---- quantum layers ---- */

/* Reads {"probs": [0, 1]}: a read-out for each bit string of these qubits, in order. */
static enum qr_code read_probs(struct qr_job_reader *r, const struct qr_json *v, const char *where,
                               struct qr_quantum_options *q, struct qr_observable *all) {
    static const char *const known[] = {"probs"};
    struct qr_path path = qr_path_of("%s.probs", where);
    uint16_t qubits[QR_PROJECTOR_QUBITS];
    unsigned n = 0;
    QR_TRY(qr_json_known(v, where, known, 1, r->err));
    QR_TRY(qr_projector_qubits(qr_json_get(v, "probs"), path.s, q->circuit->n_qubits, qubits, &n,
                               r->err));
    if (n > MAX_PROBS)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: %u qubits; give at most %d, or projectors onto the strings of interest",
                       path.s, n, MAX_PROBS);
    if (q->n_readouts + ((size_t)1 << n) > MAX_READOUTS)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: more than %d read-outs", path.s,
                       MAX_READOUTS);
    for (uint64_t bits = 0; bits < UINT64_C(1) << n; bits++)
        all[q->n_readouts++] = qr_projector(qubits, n, bits);
    return QR_OK;
}

enum qr_code qr_job_read_readouts(struct qr_job_reader *r, const struct qr_json *v,
                                  const char *where, void *to) {
    struct qr_quantum_options *q = to;
    size_t i = 0;
    QR_TRY(qr_json_want(v, where, QR_JSON_ARRAY, r->err));
    size_t n = qr_json_size(v);
    if (n < 1 || n > MAX_READOUTS)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: %zu read-outs; give 1 to %d, such as \"Z0\"", where, n, MAX_READOUTS);
    struct qr_observable *all = qr_xcalloc(MAX_READOUTS, sizeof *all);
    q->readouts = all;
    for (const struct qr_json *m = qr_json_first(v); m; m = qr_json_next(m), i++) {
        struct qr_path path = qr_path_of("%s[%zu]", where, i);
        if (qr_json_get(m, "probs")) {
            QR_TRY(read_probs(r, m, path.s, q, all));
            continue;
        }
        if (q->n_readouts == MAX_READOUTS)
            return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: more than %d read-outs", path.s,
                           MAX_READOUTS);
        QR_TRY(qr_job_read_observable(r->job, m, path.s, q->circuit->n_qubits, &all[q->n_readouts],
                                      r->err));
        q->n_readouts++;
    }
    return QR_OK;
}

/* ---- layers ---- */

void qr_job_set_layer_defaults(size_t kind, void *to) {
    struct qr_layer_options *l = to;
    l->kind = (enum qr_layer_kind)kind;
    if (l->kind == QR_LAYER_QUANTUM) {
        l->quantum.n_filters = 1;
        l->quantum.n_trajectories = QR_TRAJECTORIES;
    }
    if (l->kind == QR_LAYER_SCALE) l->scale.factor = 1;
}

enum qr_code qr_job_finish_layer(struct qr_job_reader *r, void *to) {
    const struct qr_layer_options *l = to;
    if (l->kind != QR_LAYER_SCALE || qr_json_get(r->object, "factor") ||
        qr_json_get(r->object, "offset"))
        return QR_OK;
    return qr_fail(r->err, QR_INVALID_ARGUMENT,
                   "%s has neither factor nor offset: give one of them, or remove the layer",
                   r->where);
}

/* Names of layers without a name: pqc, dense_2. */
static bool is_default_name(const char *name) {
    static const char *const words[] = {"pqc", "dense"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i]);
        if (strncmp(name, words[i], n) != 0) continue;
        if (!name[n] || (name[n] == '_' && name[n + 1 + strspn(name + n + 1, DIGITS)] == 0))
            return true;
    }
    return false;
}

enum qr_code qr_job_read_layer_name(struct qr_job_reader *r, const struct qr_json *v,
                                    const char *where, void *to) {
    const char *name;
    QR_TRY(qr_json_string(v, where, &name, r->err));
    size_t n = strlen(name);
    if (n < 1 || n > QR_LAYER_NAME || strspn(name, letters) != n || strchr("_-" DIGITS, *name))
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: '%.40s' is not a valid layer name; use a letter, then up to %d "
                       "letters, digits, _ and -",
                       where, name, QR_LAYER_NAME - 1);
    if (is_default_name(name))
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: '%s' is reserved for layers without a name; choose another one", where,
                       name);
    *(char **)to = qr_xstrdup(name);
    return QR_OK;
}

/* True if a filter of a has the name of b: NAME, NAME_1 and so on. */
static bool same_names(const struct qr_layer_options *a, const struct qr_layer_options *b) {
    size_t n = strlen(a->name), filters = a->kind == QR_LAYER_QUANTUM ? a->quantum.n_filters : 1;
    uint64_t nth;
    if (strncmp(a->name, b->name, n) != 0) return false;
    if (!b->name[n]) return true;
    return b->name[n] == '_' && qr_parse_u64(b->name + n + 1, &nth) && nth < filters;
}

static enum qr_code check_names(const struct qr_job *job, struct qr_err *err) {
    for (size_t i = 0; i < job->n_layers; i++)
        for (size_t k = 0; k < job->n_layers; k++) {
            const struct qr_layer_options *a = &job->layers[i], *b = &job->layers[k];
            if (i == k || !a->name || !b->name || !same_names(a, b)) continue;
            return qr_fail(
                err, QR_INVALID_ARGUMENT,
                "model[%zu].name: '%s' is also a name of model[%zu]; give each layer its own name",
                k, b->name, i);
        }
    return QR_OK;
}

static enum qr_activation activation_of(const struct qr_layer_options *l) {
    if (l->kind == QR_LAYER_DENSE) return l->dense.activation;
    return l->kind == QR_LAYER_ACTIVATION ? l->activation : QR_LINEAR;
}

/* INVALID_ARGUMENT if a layer does not take as many inputs as the previous layer gives. */
static enum qr_code check_widths(const struct qr_job *job, struct qr_err *err) {
    size_t width = 0; /* 0: as many as the data has columns */
    for (size_t i = 0; i < job->n_layers; i++) {
        const struct qr_layer_options *l = &job->layers[i];
        unsigned takes = l->kind == QR_LAYER_QUANTUM ? l->quantum.circuit->n_columns : 0;
        if (l->kind == QR_LAYER_QUANTUM && i > 0 && takes == 0)
            return qr_fail(
                err, QR_INVALID_ARGUMENT,
                "model[%zu].circuit takes no inputs, so the layers before it cannot affect the "
                "outputs; use x[0] in one of its angles, or remove those layers",
                i);
        if (l->kind == QR_LAYER_QUANTUM && width && takes != width)
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "model[%zu].circuit takes %u input%s, but model[%zu] gives %zu; make "
                           "the numbers equal, or insert a dense layer with %u unit%s between",
                           i, takes, takes == 1 ? "" : "s", i - 1, width, takes,
                           takes == 1 ? "" : "s");
        if (l->kind == QR_LAYER_QUANTUM) width = l->quantum.n_readouts * l->quantum.n_filters;
        if (l->kind == QR_LAYER_DENSE) width = l->dense.units;
        if (width == 1 && activation_of(l) == QR_SOFTMAX)
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "model[%zu].activation: softmax of one value is always 1; use "
                           "\"sigmoid\" with one output, or give a unit for each class",
                           i);
    }
    if (!qr_layers_n_outputs(job->layers, job->n_layers))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "model: no layer has weights; add a dense or a quantum layer");
    return QR_OK;
}

static enum qr_code check_learns(const struct qr_job_reader *r) {
    const struct qr_job *job = r->job;
    const struct qr_job_object *o = qr_job_object_of(r, "layer");
    const struct qr_job_key *trainable = qr_job_key(o, "trainable");
    for (size_t i = 0; i < job->n_layers; i++)
        if (qr_job_object_has(o, job->layers[i].kind, trainable) && !job->layers[i].frozen)
            return QR_OK;
    return qr_fail(r->err, QR_INVALID_ARGUMENT,
                   "model: every layer has \"trainable\": false, so nothing would train; make one "
                   "of them trainable");
}

enum qr_code qr_job_read_model(struct qr_job_reader *r, const struct qr_json *v, const char *where,
                               void *to) {
    struct qr_job *job = r->job;
    unsigned before = r->n_errors;
    QR_TRY(qr_json_want(v, where, QR_JSON_ARRAY, r->err));
    size_t n = qr_json_size(v);
    if (n < 1 || n > MAX_LAYERS)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "model: %zu layers; give 1 to %d, such as {\"layer\": \"dense\", \"units\": "
                       "1}",
                       n, MAX_LAYERS);
    struct qr_layer_options *layers = *(struct qr_layer_options **)to =
        qr_xcalloc(n, sizeof *layers);
    for (const struct qr_json *m = qr_json_first(v); m; m = qr_json_next(m)) {
        struct qr_path path = qr_path_of("%s[%zu]", where, job->n_layers);
        struct qr_layer_options *l = &layers[job->n_layers++];
        unsigned so_far = r->n_errors;
        QR_TRY(qr_job_note(r, so_far,
                           qr_job_read_object(r, qr_job_object_of(r, "layer"), m, path.s, l)));
    }
    if (r->n_errors > before) return QR_INVALID_ARGUMENT;
    QR_TRY(check_names(job, r->err));
    QR_TRY(check_widths(job, r->err));
    return check_learns(r);
}
