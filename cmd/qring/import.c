/* cmd/qring/import.c — qring import: circuits of other programs as the circuit object of a job
 * file, or as a job. Start reading at qr_command_import(). */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "circuit/circuit_json.h"
#include "cirq/cirq.h"
#include "cmd/qring/command.h"
#include "format/npz.h"
#include "qasm/qasm.h"
#include "store/store.h"

const char qr_help_import[] =
    "Reads a circuit of another program and prints the circuit object of a job file, in native "
    "gates:\n"
    "OpenQASM 2 or 3; JSON of Cirq (cirq.to_json); a program of TensorFlow Quantum "
    "(convert_to_tensor).\n"
    "Free symbols become trainable parameters, or columns of data if --inputs names them. What\n"
    "cannot be simulated is refused with its line or path.\n"
    "\n"
    "A model of TensorFlow Quantum with its data circuits is an npz file of convert_to_tensor's\n"
    "programs as bytes: circuit, readouts (Pauli sums), x (a data circuit per sample) and labels "
    "y; "
    "if\n"
    "wanted prepend, a circuit before the data circuits. --job makes a job of it, whose data are "
    "the\n"
    "numbers of the data circuits:\n"
    "  s = lambda circuits: tfq.convert_to_tensor(circuits).numpy().astype('S')\n"
    "  numpy.savez('model.npz', circuit=s([model]), readouts=s(readouts), x=s(data), y=labels)\n"
    "\n"
    "Examples:\n"
    "  qring import ansatz.qasm > circuit.json\n"
    "  qring import model.json --inputs a,b      # a is x[0], b is x[1]\n"
    "  qring import model.qasm --layer           # with the measured qubits as read-outs\n"
    "  qring import model.npz --job out --weights weights.h5 && qring run out/job.json\n"
    "\n"
    "Usage: qring import FILE [FLAGS]\n"
    "  FILE                   path or URL, - for standard input\n"
    "  --inputs NAMES         free symbols that are data, separated by commas: columns 0, 1 and so "
    "on\n"
    "  --layer                print a layer: the circuit, and as read-outs Z of the measured "
    "qubits, the\n"
    "                         results of Braket's pragmas, the observables of Cirq's JSON or of an "
    "npz file\n"
    "  --job FOLDER           write job.json and columns.npz of an npz file to FOLDER\n"
    "  --weights URL          with --job: weights to start with, as of Keras' save_weights\n";

enum { MAX_INPUTS = 1024, MAX_FILE = 1 << 30 };

/* Splits names at commas, in place. */
static enum qr_code split_inputs(char *names, const char *ret[MAX_INPUTS], size_t *ret_n,
                                 struct qr_err *err) {
    *ret_n = 0;
    for (char *name = names; name; (*ret_n)++) {
        char *comma = strchr(name, ',');
        if (comma) *comma++ = 0;
        if (*ret_n == MAX_INPUTS)
            return qr_fail(err, QR_INVALID_ARGUMENT, "--inputs: more than %d names", MAX_INPUTS);
        ret[*ret_n] = name;
        name = comma;
    }
    return QR_OK;
}

/* A circuit with its read-outs and, of an npz file, its samples. */
struct imported {
    struct qr_program program;
    struct qr_tfq_samples samples;
    struct qr_tensors labels; /* y, or none */
};

static void imported_fini(struct imported *m) {
    qr_program_fini(&m->program);
    free(m->samples.x);
    qr_tensors_free(&m->labels);
}

/* ---- reading ---- */

/* The arrays of an npz file. */
struct model_arrays {
    struct qr_npz_texts prepend, x, circuit, readouts;
};

static void model_arrays_fini(struct model_arrays *a) {
    qr_npz_texts_fini(&a->prepend);
    qr_npz_texts_fini(&a->x);
    qr_npz_texts_fini(&a->circuit);
    qr_npz_texts_fini(&a->readouts);
}

static struct qr_tfq_tensor tensor_of(const struct qr_npz_texts *t) {
    return (struct qr_tfq_tensor){t->bytes, t->n, t->width};
}

static enum qr_code read_model(struct qr_bytes file, const char *what, struct imported *ret,
                               struct qr_err *err) {
    static const char *const names[] = {"prepend", "x", "circuit", "readouts"};
    static const char *const labels[] = {"y", NULL};
    qr_auto(model_arrays_fini) struct model_arrays a = {0};
    struct qr_npz_texts *const to[] = {&a.prepend, &a.x, &a.circuit, &a.readouts};
    size_t most = (size_t)qr_memory_limit_bytes();
    for (size_t i = 0; i < 4; i++)
        if (qr_npz_read_texts(file, what, names[i], most, to[i], err))
            return qr_wrap(err, "write the arrays as .astype('S')");
    QR_TRY(qr_npz_read(file, what, labels, most, &ret->labels, err));
    if (!a.circuit.bytes)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s has no array 'circuit'; qring import --help says how to write it", what);
    if (ret->labels.n &&
        (!a.x.bytes || !ret->labels.v[0].rank || ret->labels.v[0].dims[0] != a.x.n))
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: x has %zu data circuits, but y has %zu rows",
                       what, a.x.n, ret->labels.v[0].rank ? ret->labels.v[0].dims[0] : 1);
    const struct qr_tfq_model model = {tensor_of(&a.prepend), tensor_of(&a.x),
                                       tensor_of(&a.circuit), tensor_of(&a.readouts)};
    return qr_tfq_read(&model, &ret->program, &ret->samples, err);
}

static enum qr_code read_program(struct qr_bytes file, char *inputs, struct qr_program *ret,
                                 struct qr_buf *excerpt, struct qr_err *err) {
    const char *names[MAX_INPUTS];
    size_t n = 0;
    if (inputs) QR_TRY(split_inputs(inputs, names, &n, err));
    const struct qr_program_options options = {.inputs = names, .n_inputs = n};
    if (qr_cirq_recognizes(file)) return qr_cirq_read(file, &options, ret, err);
    return qr_qasm_read(file, &options, ret, excerpt, err);
}

/* ---- writing ---- */

static void put_layer(const struct qr_program *p, struct qr_json_writer *w) {
    qr_json_open(w, '{');
    qr_json_key_string(w, "layer", "quantum");
    qr_json_put_key(w, "circuit");
    qr_circuit_put_json(p->circuit, w);
    if (p->n_readouts) {
        qr_json_key_open(w, "readouts", '[');
        for (size_t i = 0; i < p->n_readouts; i++) qr_json_put_string(w, p->readouts[i]);
        qr_json_close(w, ']');
    }
    qr_json_close(w, '}');
}

static const char data_file[] = "columns.npz";

/* Without data or labels the expectation value is minimized. */
static void put_job(const struct imported *m, const char *weights, struct qr_json_writer *w) {
    bool data = m->samples.x, labels = m->labels.n;
    qr_json_open(w, '{');
    qr_json_key_open(w, "model", '[');
    put_layer(&m->program, w);
    qr_json_close(w, ']');
    qr_json_key_open(w, "data", '{');
    qr_json_key_string(w, "source", data ? "npz" : "none");
    if (data) qr_json_key_string(w, "url", data_file);
    qr_json_close(w, '}');
    qr_json_key_open(w, "train", '{');
    qr_json_key_string(w, "loss", labels ? "mse" : "expectation");
    if (weights) qr_json_key_string(w, "initial_weights", weights);
    qr_json_close(w, '}');
    qr_json_close(w, '}');
}

static enum qr_code write_file(const char *folder, const char *name, const struct qr_buf *content,
                               struct qr_err *err) {
    qr_auto(qr_free_p) char *path = qr_path_join(folder, name);
    if (!qr_buf_ok(content))
        return qr_fail(err, QR_RESOURCE_EXHAUSTED, "cannot write %s: it exceeds 1 GiB", path);
    return qr_file_replace(path, qr_buf_view(content), err);
}

static enum qr_code write_job(const struct imported *m, const char *folder, const char *weights,
                              struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf job = {0}, data = {0};
    struct qr_json_writer w = qr_json_writer(&job, 2);
    qr_auto(qr_tensors_free) struct qr_tensors arrays = {0};
    const size_t dims[] = {m->samples.n_samples, m->samples.n_columns};
    put_job(m, weights, &w);
    qr_buf_puts(&job, "\n");
    if (m->samples.x) {
        qr_tensors_add(&arrays, "x", 2, dims, m->samples.x);
        if (m->labels.n) {
            const struct qr_tensor *y = &m->labels.v[0];
            qr_tensors_add(&arrays, "y", y->rank, y->dims, y->values);
        }
        qr_npz_write(&arrays, &data);
        QR_TRY(write_file(folder, data_file, &data, err));
    }
    return write_file(folder, "job.json", &job, err);
}

static void print_imported(const struct qr_program *p, bool layer) {
    struct qr_buf text = {0};
    struct qr_json_writer w = qr_json_writer(&text, 2);
    if (layer) put_layer(p, &w);
    else qr_circuit_put_json(p->circuit, &w);
    puts(qr_buf_string(&text));
    qr_buf_free(&text);
}

/* ---- the command ---- */

struct import_options {
    const char *file, *job, *weights;
    char *inputs;
    bool layer;
};

static enum qr_code import_bytes(const struct import_options *o, struct qr_bytes file,
                                 struct imported *m, struct qr_buf *excerpt, struct qr_err *err) {
    bool npz = file.n >= 4 && memcmp(file.p, "PK\3\4", 4) == 0;
    if (o->job && !npz)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--job needs an npz file with data circuits; use --layer and write the job "
                       "around the layer");
    if (!npz) QR_TRY(read_program(file, o->inputs, &m->program, excerpt, err));
    else QR_TRY(read_model(file, "the npz file", m, err));
    if (o->job) return write_job(m, o->job, o->weights, err);
    print_imported(&m->program, o->layer);
    return QR_OK;
}

static enum qr_code import_file(const struct import_options *o, struct qr_buf *excerpt,
                                struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf file = {0};
    qr_auto(imported_fini) struct imported m = {0};
    if (!o->file)
        return qr_fail(err, QR_INVALID_ARGUMENT, "cannot import: no file is given; give a path");
    if (o->weights && !o->job)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cannot import: --weights is for a job; add --job FOLDER");
    enum qr_code code = strcmp(o->file, "-") == 0 ? qr_input_read(MAX_FILE, &file, err)
                                                  : qr_url_read(o->file, MAX_FILE, &file, err);
    if (code == QR_OK) code = import_bytes(o, qr_buf_view(&file), &m, excerpt, err);
    if (code == QR_OK) return QR_OK;
    qr_auto(qr_free_p) char *shown = qr_url_redacted(o->file);
    return qr_wrap(err, "cannot import %s", shown);
}

int qr_command_import(const struct qr_command *self, int argc, char **argv) {
    const char *inputs = NULL;
    bool help;
    struct import_options o = {0};
    const struct qr_flag flags[] = {{"--inputs", &inputs, NULL},
                                    {"--layer", NULL, &o.layer},
                                    {"--job", &o.job, NULL},
                                    {"--weights", &o.weights, NULL}};
    struct qr_words words;
    qr_auto(qr_buf_free) struct qr_buf excerpt = {0};
    struct qr_err err = {0};
    enum qr_code code = qr_read_flags(argc, argv, flags, sizeof flags / sizeof *flags, NULL, 1,
                                      &words, &help, &err);
    if (code == QR_OK && help) return qr_print_help(self);
    qr_auto(qr_free_p) char *names = o.inputs = inputs ? qr_xstrdup(inputs) : NULL;
    if (code == QR_OK) {
        o.file = words.v[0];
        code = import_file(&o, &excerpt, &err);
    }
    int exit_code = qr_exit_report(code, &err);
    fputs(qr_buf_string(&excerpt), stderr);
    return exit_code;
}
