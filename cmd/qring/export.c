/* cmd/qring/export.c — qring export: writes the circuit of a job for another program. Start reading
 * at qr_command_export(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "cmd/qring/command.h"
#include "export/export.h"
#include "store/store.h"

const char qr_help_export[] =
    "Writes the circuit of a job for another program: with symbols, or with numbers from --weights "
    "and\n"
    "--inputs.\n"
    "\n"
    "Examples:\n"
    "  qring export job.json --to qasm3                         # input float[64] NAME;\n"
    "  qring export out/qcnn --weights out/qcnn/weights.h5 --to qasm3\n"
    "\n"
    "Usage: qring export [JOB] --to FORMAT [FLAGS]\n"
    "  --to FORMAT            qasm3 or qasm2: OpenQASM; cirq: JSON of Cirq; tfq: bytes of "
    "TensorFlow\n"
    "                         Quantum; python: a function of PennyLane. qasm2 has no symbols: it "
    "needs\n"
    "                         --weights and --inputs\n"
    "  --weights URL          numbers for the parameters: .h5, .npz or .safetensors file\n"
    "  --inputs NUMBERS       numbers for the inputs, separated by commas: x[0], x[1] and so on\n"
    "  --layer N              number of the layer in the model, from 0 [the quantum layer]\n"
    "  --copy N               the copy whose weights are used, of a circuit with filters [0]\n"
    "  --readouts             cirq: a list of the circuit and a PauliSum for each read-out\n"
    "  --out FILE             path or URL [standard output]\n"
    "  --set PATH=VALUE       set a key of the job, repeatable: --set train.epochs=5 --set "
    "'model[1].units=8'\n"
    "  --seed N               random seed, as --set seed=N\n";

struct exported {
    const char *to, *weights, *inputs, *layer, *copy, *out; /* flags */
    bool readouts;
    struct qr_overrides set;
    struct qr_job *job;
    struct qr_workload load;
    double *x;
};

static enum qr_code read_flag_index(const char *flag, const char *text, uint64_t below, size_t *ret,
                                    struct qr_err *err) {
    uint64_t n;
    if (!qr_parse_u64(text, &n) || n >= below)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: '%.40s' is not a number from 0 to %llu", flag,
                       text, (unsigned long long)below - 1);
    *ret = (size_t)n;
    return QR_OK;
}

/* The layer of --layer, or the only quantum layer. */
static enum qr_code choose_layer(const struct exported *e, size_t *ret, struct qr_err *err) {
    const struct qr_model *m = e->load.model;
    size_t n = qr_model_n_layers(m);
    *ret = qr_model_quantum(m, 0);
    if (e->layer) QR_TRY(read_flag_index("--layer", e->layer, n, ret, err));
    if (*ret == n) return qr_fail(err, QR_INVALID_ARGUMENT, "the job has no quantum layer");
    if (!qr_model_layer(m, *ret).circuit)
        return qr_fail(err, QR_INVALID_ARGUMENT, "--layer: model[%zu] is not a quantum layer",
                       *ret);
    return !e->layer && qr_model_quantum(m, 1) < n
               ? qr_fail(err, QR_INVALID_ARGUMENT,
                         "the job has several quantum layers: model[%zu], model[%zu]; choose one "
                         "with --layer",
                         *ret, qr_model_quantum(m, 1))
               : QR_OK;
}

/* The weights of a copy of the layer's circuit. */
static enum qr_code choose_weights(const struct exported *e, const struct qr_model_layer *l,
                                   const double **ret, struct qr_err *err) {
    const struct qr_model *m = e->load.model;
    size_t copy = 0, seen = 0;
    if (e->copy) QR_TRY(read_flag_index("--copy", e->copy, l->n_filters, &copy, err));
    if (!e->weights) return QR_OK;
    QR_TRY(qr_workload_weights(&e->load, e->weights, e->load.initial, err));
    for (size_t i = 0; i < qr_model_n_tensors(m); i++) {
        const struct qr_model_tensor *t = qr_model_tensor(m, i);
        if (t->circuit == l->circuit && seen++ == copy) *ret = e->load.initial + t->offset;
    }
    if (!*ret) *ret = e->load.initial; /* the circuit has no parameters */
    return QR_OK;
}

static enum qr_code read_inputs(struct exported *e, unsigned n, struct qr_err *err) {
    unsigned i = 0;
    const char *at = e->inputs;
    e->x = qr_xcalloc(n + 1, sizeof *e->x);
    for (; at; i++) {
        size_t length = strcspn(at, ",");
        double v;
        if (!qr_parse_double_n(at, length, &v))
            return qr_fail(err, QR_INVALID_ARGUMENT, "--inputs: '%.*s' is not a number",
                           (int)(length > 40 ? 40 : length), at);
        if (i < n) e->x[i] = v;
        at = at[length] ? at + length + 1 : NULL;
    }
    return i == n ? QR_OK
                  : qr_fail(err, QR_INVALID_ARGUMENT,
                            "--inputs has %u numbers, but the circuit has %u inputs", i, n);
}

static enum qr_code write_export(struct exported *e, const char *job, struct qr_err *err) {
    const struct qr_export_format *format;
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    size_t at;
    if (!e->to)
        return qr_fail(err, QR_INVALID_ARGUMENT, "--to is missing; choose one of %s",
                       qr_export_formats());
    QR_TRY(qr_export_format(e->to, &format, err));
    if (e->out) QR_TRY(qr_url_check_writable(e->out, err));
    QR_TRY(qr_job_load(job, &e->set, &e->job, err));
    const char *const inputs[] = {job, e->weights};
    if (e->out) QR_TRY(qr_check_destination("--out", e->out, inputs, 2, e->job, err));
    QR_TRY(qr_workload_load_model(e->job, "auto", &e->load, err));
    QR_TRY(choose_layer(e, &at, err));
    const struct qr_model_layer l = qr_model_layer(e->load.model, at);
    const struct qr_quantum_options *q = &e->job->layers[at].quantum;
    bool alone = qr_export_circuit_alone(format) && !e->readouts;
    struct qr_export what = {.circuit = l.circuit,
                             .readouts = q->readouts,
                             .n_readouts = alone ? 0 : q->n_readouts,
                             .title = e->job->name};
    QR_TRY(choose_weights(e, &l, &what.theta, err));
    if (e->inputs) QR_TRY(read_inputs(e, l.circuit->n_columns, err));
    what.x = e->x;
    QR_TRY(qr_export(format, &what, &text, err));
    if (e->out) return qr_url_write(e->out, qr_buf_view(&text), err);
    fwrite(text.p, 1, text.n, stdout);
    return QR_OK;
}

int qr_command_export(const struct qr_command *self, int argc, char **argv) {
    bool help;
    struct exported e = {.to = NULL};
    const struct qr_flag flags[] = {{"--to", &e.to, NULL},
                                    {"--weights", &e.weights, NULL},
                                    {"--inputs", &e.inputs, NULL},
                                    {"--layer", &e.layer, NULL},
                                    {"--copy", &e.copy, NULL},
                                    {"--out", &e.out, NULL},
                                    {"--readouts", NULL, &e.readouts}};
    struct qr_words words;
    struct qr_err err = {0};
    enum qr_code code = qr_read_flags(argc, argv, flags, sizeof flags / sizeof *flags, &e.set, 1,
                                      &words, &help, &err);
    if (code == QR_OK && help) return qr_print_help(self);
    if (code == QR_OK) code = write_export(&e, words.v[0], &err);
    qr_workload_fini(&e.load);
    if (e.job) qr_job_free(e.job);
    qr_overrides_fini(&e.set);
    free(e.x);
    return qr_exit_report(code, &err);
}
