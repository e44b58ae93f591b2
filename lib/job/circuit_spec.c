/* job/circuit_spec.c — reads a circuit of a job, also from a file of another program. Start reading
 * at qr_job_read_circuit(). */
#include <stdio.h>

#include "base/mem.h"
#include "circuit/circuit_json.h"
#include "cirq/cirq.h"
#include "data/named_files.h"
#include "job/job_impl.h"
#include "qasm/qasm.h"

enum { MAX_FILTERS = 256, MAX_INPUTS = 1 << 20 };

/* Z of each qubit that the circuit leaves. */
static enum qr_code set_default_readouts(struct qr_quantum_options *q,
                                         const struct qr_qubits *remaining, struct qr_err *err) {
    struct qr_observable *all = qr_xcalloc(q->circuit->n_qubits, sizeof *all);
    q->readouts = all;
    for (unsigned i = qr_qubits_first(remaining); i < QR_MAX_QUBITS;
         i = qr_qubits_next(remaining, i)) {
        char text[16];
        snprintf(text, sizeof text, "Z%u", i);
        QR_TRY(qr_observable_parse(text, q->circuit->n_qubits, &all[q->n_readouts], err));
        q->n_readouts++;
    }
    return QR_OK;
}

/* ---- circuits in files ---- */

static enum qr_code read_input_names(const struct qr_json *v, const char *where,
                                     const char ***ret_names, size_t *ret_n, struct qr_err *err) {
    struct qr_path path = qr_path_of("%s.inputs", where);
    size_t n = 0;
    if (v) QR_TRY(qr_json_want(v, path.s, QR_JSON_ARRAY, err));
    if (qr_json_size(v) > MAX_INPUTS)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s has more than %d names", path.s, MAX_INPUTS);
    *ret_names = qr_xcalloc(qr_json_size(v) + 1, sizeof **ret_names);
    for (const struct qr_json *m = qr_json_first(v); m; m = qr_json_next(m), n++)
        QR_TRY(qr_json_string(m, qr_path_of("%s[%zu]", path.s, n).s, &(*ret_names)[n], err));
    *ret_n = n;
    return QR_OK;
}

static enum qr_code set_file_readouts(struct qr_quantum_options *q, const struct qr_program *file,
                                      struct qr_err *err) {
    struct qr_observable *all = qr_xcalloc(file->n_readouts, sizeof *all);
    q->readouts = all;
    for (; q->n_readouts < file->n_readouts; q->n_readouts++)
        QR_TRY(qr_observable_parse(file->readouts[q->n_readouts], q->circuit->n_qubits,
                                   &all[q->n_readouts], err));
    return QR_OK;
}

/* Reads {"url", "inputs"?}. ret: freed with qr_program_fini */
static enum qr_code read_file(const struct qr_job *job, const struct qr_json *v, const char *where,
                              struct qr_program *ret, struct qr_err *err) {
    static const char *const known[] = {"url", "inputs", "filters", "noise"};
    struct qr_path path = qr_path_of("%s.url", where);
    qr_auto(qr_free_p) const char **inputs = NULL;
    qr_auto(qr_buf_free) struct qr_buf file = {0};
    struct qr_buf excerpt = {0};
    const char *url;
    size_t n = 0;
    QR_TRY(qr_json_known(v, where, known, sizeof known / sizeof *known, err));
    QR_TRY(qr_json_string(qr_json_get(v, "url"), path.s, &url, err));
    QR_TRY(read_input_names(qr_json_get(v, "inputs"), where, &inputs, &n, err));
    QR_TRY(qr_job_read_file(job, path.s, url, QR_PROGRAM_BYTES, "gates", &file, err));
    struct qr_bytes bytes = qr_buf_view(&file);
    const struct qr_program_options options = {.inputs = inputs, .n_inputs = n};
    enum qr_code code = qr_cirq_recognizes(bytes)
                            ? qr_cirq_read(bytes, &options, ret, err)
                            : qr_qasm_read(bytes, &options, ret, &excerpt, err);
    qr_buf_free(&excerpt);
    if (code == QR_OK) return QR_OK;
    if (qr_named_file_unquoted(url, job->data.folder)) qr_named_file_unquote(url, err);
    else qr_wrap(err, "%s", url);
    return qr_wrap(err, "%s", path.s);
}

/* ---- circuits ---- */

/* ret_file: read-outs of a file, else none */
static enum qr_code read_circuit(const struct qr_job *job, const struct qr_json *v,
                                 const char *where, struct qr_circuit **ret,
                                 struct qr_qubits *ret_remaining, struct qr_program *ret_file,
                                 struct qr_err *err) {
    if (!qr_json_get(v, "url")) return qr_circuit_from_json(v, where, ret, ret_remaining, err);
    QR_TRY(read_file(job, v, where, ret_file, err));
    QR_TRY(qr_noise_read(qr_json_get(v, "noise"), qr_path_of("%s.noise", where).s,
                         &ret_file->circuit, err));
    *ret = QR_MOVE(ret_file->circuit);
    for (unsigned q = 0; q < (*ret)->n_qubits; q++) qr_qubits_add(ret_remaining, q);
    return QR_OK;
}

static enum qr_code read_filters(struct qr_job_reader *r, const struct qr_json *v,
                                 const char *where, struct qr_quantum_options *q) {
    int64_t n;
    if (!v) return QR_OK;
    if (qr_json_get(r->object, "filters"))
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: filters is set in the layer and in its circuit; give it once",
                       r->where);
    QR_TRY(qr_json_i64(v, qr_path_of("%s.filters", where).s, 1, MAX_FILTERS, &n, r->err));
    q->n_filters = (unsigned)n;
    return QR_OK;
}

/* Reads the circuit, and "filters" in it: accepted there and in the layer, with one meaning. */
enum qr_code qr_job_read_circuit(struct qr_job_reader *r, const struct qr_json *v,
                                 const char *where, void *to) {
    struct qr_quantum_options *q = to;
    struct qr_job *job = r->job;
    struct qr_circuit *circuit;
    struct qr_qubits remaining = {{0}};
    qr_auto(qr_program_fini) struct qr_program file = {0};
    QR_TRY(read_circuit(job, v, where, &circuit, &remaining, &file, r->err));
    q->circuit = circuit;
    if (qr_layers_input_circuit(job->layers, job->n_layers) == circuit)
        job->data_may_be_wider = qr_json_get(v, "gates") && !qr_json_get(v, "columns");
    else if (circuit->n_named)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s refers to x.%.64s, but its inputs are the outputs of the previous "
                       "layer, which have no names; write x[0], x[1] and so on",
                       where, circuit->column_names[0]);
    QR_TRY(read_filters(r, qr_json_get(v, "filters"), where, q));
    bool none = !qr_json_get(r->object, "readouts");
    job->default_readouts = none && !file.n_readouts;
    if (job->default_readouts) return set_default_readouts(q, &remaining, r->err);
    return none ? set_file_readouts(q, &file, r->err) : QR_OK;
}
