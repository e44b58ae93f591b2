#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "circuit/circuit_json.h"
#include "job/job_impl.h"

enum { MAX_LAYERS = 64, MAX_FILTERS = 256, MAX_UNITS = 1 << 20, MAX_READOUTS = 4096 };

static enum qr_code read_one_readout(const struct qr_json *v, const char *where, struct qr_job *job,
                                     struct qr_err *err) {
    struct qr_observable o = {0};
    if (qr_job_read_observable(job, v, where, job->circuit->n_qubits, &o, err) != QR_OK)
        return err->code;
    job->readouts[job->n_readouts++] = o;
    return QR_OK;
}

/* Without read-outs: Z of each qubit that the circuit leaves. */
static enum qr_code default_readouts(const struct qr_qubits *remaining, struct qr_job *job,
                                     struct qr_err *err) {
    for (unsigned q = qr_qubits_first(remaining); q < QR_MAX_QUBITS;
         q = qr_qubits_next(remaining, q)) {
        char text[16];
        snprintf(text, sizeof text, "Z%u", q);
        struct qr_observable o = {0};
        if (qr_observable_parse(text, job->circuit->n_qubits, &o, err) != QR_OK) return err->code;
        job->readouts[job->n_readouts++] = o;
    }
    return QR_OK;
}

static enum qr_code read_readouts(const struct qr_json *layer, const char *where,
                                  const struct qr_qubits *remaining, struct qr_job *job,
                                  struct qr_err *err) {
    char path[96];
    snprintf(path, sizeof path, "%s.readouts", where);
    const struct qr_json *list = qr_json_get(layer, "readouts");
    if (list && qr_json_want(list, path, QR_JSON_ARRAY, err) != QR_OK) return err->code;
    size_t n = list ? qr_json_size(list) : job->circuit->n_qubits;
    if (n < 1 || n > MAX_READOUTS)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: %zu read-outs; give 1 to %d, such as \"Z0\"",
                       path, n, MAX_READOUTS);
    job->readouts = qr_xcalloc(n, sizeof *job->readouts);
    job->default_readouts = !list;
    if (!list) return default_readouts(remaining, job, err);
    size_t i = 0;
    for (const struct qr_json *v = qr_json_first(list); v; v = qr_json_next(v)) {
        char item[112];
        snprintf(item, sizeof item, "%s[%zu]", path, i++);
        if (read_one_readout(v, item, job, err) != QR_OK) return err->code;
    }
    return QR_OK;
}

/* "filters" may stand beside the ansatz's other numbers or in the layer: it means the same. */
static enum qr_code read_filters(const struct qr_json *layer, const char *where,
                                 const struct qr_json *circuit, const char *path,
                                 struct qr_job *job, struct qr_err *err) {
    bool in_layer = qr_json_get(layer, "filters") != NULL,
         in_circuit = qr_json_get(circuit, "filters") != NULL;
    uint64_t filters = 1;
    if (in_layer && in_circuit)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: filters stands in the layer and in its circuit; give it once", where);
    if (qr_job_opt_u64(in_layer ? layer : circuit, in_layer ? where : path, "filters", 1,
                       MAX_FILTERS, &filters, err) != QR_OK)
        return err->code;
    job->n_filters = (unsigned)filters;
    return QR_OK;
}

static enum qr_code read_quantum(const struct qr_json *layer, const char *where, struct qr_job *job,
                                 struct qr_err *err) {
    static const char *const keys[] = {"layer", "circuit", "readouts", "filters"};
    if (qr_json_known(layer, where, keys, 4, err) != QR_OK) return err->code;
    char path[96];
    snprintf(path, sizeof path, "%s.circuit", where);
    const struct qr_json *circuit = qr_json_get(layer, "circuit");
    if (!circuit)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s is missing: give an ansatz or a list of gates",
                       path);
    struct qr_qubits remaining;
    if (qr_circuit_from_json(circuit, path, &job->circuit, &remaining, err) != QR_OK)
        return err->code;
    if (read_filters(layer, where, circuit, path, job, err) != QR_OK) return err->code;
    job->has_quantum = true;
    job->data_may_be_wider = qr_json_get(circuit, "gates") && !qr_json_get(circuit, "columns");
    return read_readouts(layer, where, &remaining, job, err);
}

static enum qr_code read_dense(const struct qr_json *layer, const char *where, struct qr_job *job,
                               struct qr_err *err) {
    static const char *const keys[] = {"layer", "units", "activation", "l1", "l2"};
    if (qr_json_known(layer, where, keys, 5, err) != QR_OK) return err->code;
    char path[96];
    snprintf(path, sizeof path, "%s.units", where);
    int64_t units;
    size_t activation = QR_LINEAR;
    double l1 = 0, l2 = 0;
    if (qr_json_i64(qr_json_get(layer, "units"), path, 1, MAX_UNITS, &units, err) != QR_OK ||
        qr_job_opt_choice(layer, where, "activation", qr_activation_names, QR_ACTIVATIONS,
                          &activation, err) != QR_OK ||
        qr_job_opt_double(layer, where, "l1", 0, 1e300, &l1, err) != QR_OK ||
        qr_job_opt_double(layer, where, "l2", 0, 1e300, &l2, err) != QR_OK)
        return err->code;
    job->penalties[job->n_dense] = (struct qr_dense_penalty){l1, l2};
    job->dense[job->n_dense++] = (struct qr_dense_options){
        .units = (unsigned)units, .activation = (enum qr_activation)activation};
    return QR_OK;
}

enum qr_code qr_job_read_model(const struct qr_json *model, struct qr_job *job,
                               struct qr_err *err) {
    static const char *const kinds[] = {"quantum", "dense"};
    if (!model) return qr_fail(err, QR_INVALID_ARGUMENT, "model is missing: give a list of layers");
    if (qr_json_want(model, "model", QR_JSON_ARRAY, err) != QR_OK) return err->code;
    size_t n = qr_json_size(model), i = 0;
    if (n < 1 || n > MAX_LAYERS)
        return qr_fail(err, QR_INVALID_ARGUMENT, "model: %zu layers; give 1 to %d", n, MAX_LAYERS);
    job->dense = qr_xcalloc(n, sizeof *job->dense);
    job->penalties = qr_xcalloc(n, sizeof *job->penalties);
    for (const struct qr_json *layer = qr_json_first(model); layer;
         layer = qr_json_next(layer), i++) {
        char where[48], kind_path[56];
        size_t kind;
        snprintf(where, sizeof where, "model[%zu]", i);
        snprintf(kind_path, sizeof kind_path, "%s.layer", where);
        if (qr_json_want(layer, where, QR_JSON_OBJECT, err) != QR_OK ||
            qr_json_choice(qr_json_get(layer, "layer"), kind_path, kinds, 2, &kind, err) != QR_OK)
            return err->code;
        if (kind == 0 && i > 0)
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "%s: a quantum layer must be the first layer and the only quantum one",
                           where);
        if ((kind == 0 ? read_quantum : read_dense)(layer, where, job, err) != QR_OK)
            return err->code;
    }
    return QR_OK;
}
