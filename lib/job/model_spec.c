/* job/model_spec.c — reads "model" of a job: a list of layers. Start reading at
 * qr_job_read_model(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "circuit/circuit_json.h"
#include "job/job_impl.h"

#define DIGITS "0123456789"
enum { MAX_LAYERS = 64, MAX_FILTERS = 256, MAX_UNITS = 1 << 20, MAX_READOUTS = 4096 };

/* State of reading a quantum layer; the results are owned by the job. */
struct quantum_reader {
    const struct qr_json *layer;
    const char *where;
    struct qr_job *job;
    struct qr_quantum_options *q;
    struct qr_circuit *circuit;
    struct qr_observable *readouts;
    struct qr_err *err;
};

static enum qr_code add_readout(struct quantum_reader *r, const struct qr_json *v,
                                const char *where) {
    struct qr_observable o = {0};
    if (qr_job_read_observable(r->job, v, where, r->circuit->n_qubits, &o, r->err) != QR_OK)
        return r->err->code;
    r->readouts[r->q->n_readouts++] = o;
    return QR_OK;
}

/* Without readouts: Z of each qubit that the circuit leaves. */
static enum qr_code default_readouts(struct quantum_reader *r, const struct qr_qubits *remaining) {
    for (unsigned q = qr_qubits_first(remaining); q < QR_MAX_QUBITS;
         q = qr_qubits_next(remaining, q)) {
        char text[16];
        snprintf(text, sizeof text, "Z%u", q);
        struct qr_observable o = {0};
        if (qr_observable_parse(text, r->circuit->n_qubits, &o, r->err) != QR_OK)
            return r->err->code;
        r->readouts[r->q->n_readouts++] = o;
    }
    return QR_OK;
}

static enum qr_code read_readouts(struct quantum_reader *r, const struct qr_qubits *remaining) {
    char path[96];
    snprintf(path, sizeof path, "%s.readouts", r->where);
    const struct qr_json *list = qr_json_get(r->layer, "readouts");
    if (list && qr_json_want(list, path, QR_JSON_ARRAY, r->err) != QR_OK) return r->err->code;
    size_t n = list ? qr_json_size(list) : r->circuit->n_qubits, i = 0;
    if (n < 1 || n > MAX_READOUTS)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: %zu read-outs; give 1 to %d, such as \"Z0\"", path, n, MAX_READOUTS);
    r->readouts = qr_xcalloc(n, sizeof *r->readouts);
    r->q->readouts = r->readouts;
    if (!list) return default_readouts(r, remaining);
    for (const struct qr_json *v = qr_json_first(list); v; v = qr_json_next(v)) {
        char item[112];
        snprintf(item, sizeof item, "%s[%zu]", path, i++);
        if (add_readout(r, v, item) != QR_OK) return r->err->code;
    }
    return QR_OK;
}

/* "filters" is accepted in the ansatz and in the layer, with the same meaning. */
static enum qr_code read_filters(struct quantum_reader *r, const struct qr_json *circuit,
                                 const char *path) {
    bool in_layer = qr_json_get(r->layer, "filters") != NULL,
         in_circuit = qr_json_get(circuit, "filters") != NULL;
    uint64_t filters = 1;
    if (in_layer && in_circuit)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: filters is set in the layer and in its circuit; give it once",
                       r->where);
    if (qr_job_opt_u64(in_layer ? r->layer : circuit, in_layer ? r->where : path, "filters", 1,
                       MAX_FILTERS, &filters, r->err) != QR_OK)
        return r->err->code;
    r->q->n_filters = (unsigned)filters;
    return QR_OK;
}

static enum qr_code read_quantum(const struct qr_json *layer, const char *where, struct qr_job *job,
                                 struct qr_layer_options *l, struct qr_err *err) {
    struct quantum_reader r = {
        .layer = layer, .where = where, .job = job, .q = &l->quantum, .err = err};
    char path[96];
    snprintf(path, sizeof path, "%s.circuit", where);
    const struct qr_json *circuit = qr_json_get(layer, "circuit");
    if (!circuit)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s is missing: give an ansatz or a list of gates",
                       path);
    struct qr_qubits remaining;
    if (qr_circuit_from_json(circuit, path, &r.circuit, &remaining, err) != QR_OK) return err->code;
    l->quantum.circuit = r.circuit;
    if (read_filters(&r, circuit, path) != QR_OK) return err->code;
    if (qr_layers_input_circuit(job->layers, job->n_layers) == r.circuit)
        job->data_may_be_wider = qr_json_get(circuit, "gates") && !qr_json_get(circuit, "columns");
    else if (r.circuit->n_named)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s refers to x.%.64s, but its inputs are the outputs of the previous "
                       "layer, which have no names; write x[0], x[1] and so on",
                       path, r.circuit->column_names[0]);
    job->default_readouts = !qr_json_get(layer, "readouts");
    if (read_readouts(&r, &remaining) != QR_OK) return err->code;
    return qr_job_read_watched(layer, where, job, &l->quantum, err);
}

static enum qr_code read_dense(const struct qr_json *layer, const char *where, struct qr_job *job,
                               struct qr_layer_options *l, struct qr_err *err) {
    char path[96];
    snprintf(path, sizeof path, "%s.units", where);
    int64_t units;
    size_t activation = QR_LINEAR;
    (void)job;
    if (qr_json_i64(qr_json_get(layer, "units"), path, 1, MAX_UNITS, &units, err) != QR_OK ||
        qr_job_opt_choice(layer, where, "activation", qr_activation_names, QR_ACTIVATIONS,
                          &activation, err) != QR_OK ||
        qr_job_opt_double(layer, where, "l1", 0, 1e300, &l->dense.l1, err) != QR_OK ||
        qr_job_opt_double(layer, where, "l2", 0, 1e300, &l->dense.l2, err) != QR_OK)
        return err->code;
    l->dense.units = (unsigned)units;
    l->dense.activation = (enum qr_activation)activation;
    return QR_OK;
}

static enum qr_code read_activation(const struct qr_json *layer, const char *where,
                                    struct qr_job *job, struct qr_layer_options *l,
                                    struct qr_err *err) {
    char path[96];
    size_t activation;
    (void)job;
    snprintf(path, sizeof path, "%s.activation", where);
    if (qr_json_choice(qr_json_get(layer, "activation"), path, qr_activation_names, QR_ACTIVATIONS,
                       &activation, err) != QR_OK)
        return err->code;
    l->activation = (enum qr_activation)activation;
    return QR_OK;
}

static enum qr_code read_dropout(const struct qr_json *layer, const char *where, struct qr_job *job,
                                 struct qr_layer_options *l, struct qr_err *err) {
    char path[96];
    (void)job;
    snprintf(path, sizeof path, "%s.rate", where);
    if (qr_json_double(qr_json_get(layer, "rate"), path, 0, 1, &l->dropout.rate, err) != QR_OK)
        return err->code;
    if (l->dropout.rate < 1) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s must be below 1: with 1 every value is dropped",
                   path);
}

static enum qr_code read_scale(const struct qr_json *layer, const char *where, struct qr_job *job,
                               struct qr_layer_options *l, struct qr_err *err) {
    l->scale.factor = 1;
    (void)job;
    if (!qr_json_get(layer, "factor") && !qr_json_get(layer, "offset"))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s has neither factor nor offset: give one of them, or remove the layer",
                       where);
    if (qr_job_opt_double(layer, where, "factor", -1e300, 1e300, &l->scale.factor, err) != QR_OK)
        return err->code;
    return qr_job_opt_double(layer, where, "offset", -1e300, 1e300, &l->scale.offset, err);
}

/* For each kind of layer: its reader, and its keys besides "layer". */
static const struct {
    enum qr_code (*read)(const struct qr_json *layer, const char *where, struct qr_job *job,
                         struct qr_layer_options *l, struct qr_err *err);
    bool has_weights; /* accepts "name" and "trainable" */
    const char *keys[4];
} readers[QR_LAYERS] = {
    [QR_LAYER_QUANTUM] = {read_quantum, true, {"circuit", "readouts", "filters", "watch"}},
    [QR_LAYER_DENSE] = {read_dense, true, {"units", "activation", "l1", "l2"}},
    [QR_LAYER_ACTIVATION] = {read_activation, false, {"activation"}},
    [QR_LAYER_DROPOUT] = {read_dropout, false, {"rate"}},
    [QR_LAYER_SCALE] = {read_scale, false, {"factor", "offset"}},
};

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

static enum qr_code read_layer_name(const struct qr_json *v, const char *where,
                                    struct qr_layer_options *l, struct qr_err *err) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char path[64];
    const char *name;
    snprintf(path, sizeof path, "%s.name", where);
    if (!v) return QR_OK;
    if (qr_json_string(v, path, &name, err) != QR_OK) return err->code;
    size_t n = strlen(name);
    bool ok = n >= 1 && n <= QR_LAYER_NAME && strspn(name, letters) >= 1;
    for (size_t i = 0; i < n && ok; i++)
        ok = strchr(letters, name[i]) || strchr("_-" DIGITS, name[i]);
    if (!ok)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: '%.40s' is not a valid layer name; use a letter, then up to %d "
                       "letters, digits, _ and -",
                       path, name, QR_LAYER_NAME - 1);
    if (is_default_name(name))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: '%s' is reserved for layers without a name; choose another one", path,
                       name);
    l->name = qr_xstrdup(name);
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

static enum qr_code read_layer(const struct qr_json *layer, size_t i, struct qr_job *job,
                               struct qr_err *err) {
    const char *keys[7] = {"layer"};
    char where[48], path[64];
    size_t kind, n = 1;
    snprintf(where, sizeof where, "model[%zu]", i);
    snprintf(path, sizeof path, "%s.layer", where);
    if (qr_json_want(layer, where, QR_JSON_OBJECT, err) != QR_OK) return err->code;
    if (!qr_json_get(layer, "layer") && qr_json_get(layer, "type"))
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: unknown key 'type'; did you mean 'layer'?",
                       where);
    if (qr_job_choice(qr_json_get(layer, "layer"), path, QR_JOB_LAYER, qr_layer_names, QR_LAYERS,
                      &kind, err) != QR_OK)
        return err->code;
    for (size_t k = 0; k < 4 && readers[kind].keys[k]; k++) keys[n++] = readers[kind].keys[k];
    if (readers[kind].has_weights) {
        keys[n++] = "name";
        keys[n++] = "trainable";
    }
    if (qr_json_known(layer, where, keys, n, err) != QR_OK) return err->code;
    struct qr_layer_options *l = &job->layers[job->n_layers++];
    bool trainable = true;
    l->kind = (enum qr_layer_kind)kind;
    if (readers[kind].has_weights &&
        (read_layer_name(qr_json_get(layer, "name"), where, l, err) != QR_OK ||
         qr_job_opt_bool(layer, where, "trainable", &trainable, err) != QR_OK))
        return err->code;
    l->frozen = !trainable;
    return readers[kind].read(layer, where, job, l, err);
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

static enum qr_code check_learns(const struct qr_job *job, struct qr_err *err) {
    for (size_t i = 0; i < job->n_layers; i++)
        if (readers[job->layers[i].kind].has_weights && !job->layers[i].frozen) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "model: every layer has \"trainable\": false, so nothing would train; make one "
                   "of them trainable");
}

enum qr_code qr_job_read_model(const struct qr_json *model, struct qr_job *job,
                               struct qr_err *err) {
    if (!model) return qr_fail(err, QR_INVALID_ARGUMENT, "model is missing: give a list of layers");
    if (qr_json_want(model, "model", QR_JSON_ARRAY, err) != QR_OK) return err->code;
    size_t n = qr_json_size(model), i = 0;
    if (n < 1 || n > MAX_LAYERS)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "model: %zu layers; give 1 to %d, such as {\"layer\": \"dense\", \"units\": "
                       "1}",
                       n, MAX_LAYERS);
    job->layers = qr_xcalloc(n, sizeof *job->layers);
    for (const struct qr_json *layer = qr_json_first(model); layer; layer = qr_json_next(layer))
        if (read_layer(layer, i++, job, err) != QR_OK) return err->code;
    if (check_names(job, err) != QR_OK || check_widths(job, err) != QR_OK) return err->code;
    return check_learns(job, err);
}
