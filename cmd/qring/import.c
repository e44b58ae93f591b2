/* cmd/qring/import.c — qring import: prints an OpenQASM text as the circuit object of a job file.
 * Start reading at qr_command_import(). */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "circuit/circuit_json.h"
#include "cmd/qring/command.h"
#include "qasm/qasm.h"
#include "store/store.h"

const char qr_help_import[] =
    "Reads OpenQASM 2 or 3 and prints the circuit object of a job file, in native gates. Free "
    "symbols\n"
    "(input float, input angle) become trainable parameters, or columns of data if --inputs names\n"
    "them. What cannot be simulated is refused with its line.\n"
    "\n"
    "Examples:\n"
    "  qring import ansatz.qasm > circuit.json\n"
    "  qring import model.qasm --inputs a,b      # a is x[0], b is x[1]\n"
    "  qring import model.qasm --layer           # with the measured qubits as read-outs\n"
    "\n"
    "Usage: qring import FILE [FLAGS]\n"
    "  FILE                   path or URL, - for standard input\n"
    "  --inputs NAMES         free symbols that are data, separated by commas: columns 0, 1 and so "
    "on\n"
    "  --layer                print a layer: the circuit, and as read-outs Z of the qubits that "
    "the text\n"
    "                         measures and the results of Braket's pragmas\n";

enum { MAX_INPUTS = 1024 };

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

static void print_imported(const struct qr_program *q, bool layer) {
    struct qr_buf text = {0};
    struct qr_json_writer w = qr_json_writer(&text, 2);
    if (layer) {
        qr_json_open(&w, '{');
        qr_json_key_string(&w, "layer", "quantum");
        qr_json_put_key(&w, "circuit");
    }
    qr_circuit_put_json(q->circuit, &w);
    if (layer && q->n_readouts) {
        qr_json_key_open(&w, "readouts", '[');
        for (size_t i = 0; i < q->n_readouts; i++) qr_json_put_string(&w, q->readouts[i]);
        qr_json_close(&w, ']');
    }
    if (layer) qr_json_close(&w, '}');
    puts(qr_buf_string(&text));
    qr_buf_free(&text);
}

static enum qr_code import_file(const char *file, char *inputs, bool layer, struct qr_buf *excerpt,
                                struct qr_err *err) {
    const char *names[MAX_INPUTS];
    struct qr_qasm_options options = {.inputs = names};
    struct qr_program q = {0};
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    if (!file)
        return qr_fail(err, QR_INVALID_ARGUMENT, "cannot import: no file is given; give a path");
    if (inputs) QR_TRY(split_inputs(inputs, names, &options.n_inputs, err));
    enum qr_code code = strcmp(file, "-") == 0 ? qr_input_read(QR_QASM_BYTES, &text, err)
                                               : qr_url_read(file, QR_QASM_BYTES, &text, err);
    if (code == QR_OK) code = qr_qasm_read(qr_buf_view(&text), &options, &q, excerpt, err);
    if (code != QR_OK) {
        qr_auto(qr_free_p) char *shown = qr_url_redacted(file);
        return qr_wrap(err, "cannot import %s", shown);
    }
    print_imported(&q, layer);
    qr_program_fini(&q);
    return QR_OK;
}

int qr_command_import(const struct qr_command *self, int argc, char **argv) {
    const char *inputs = NULL;
    bool help, layer = false;
    const struct qr_flag flags[] = {{"--inputs", &inputs, NULL}, {"--layer", NULL, &layer}};
    struct qr_words words;
    struct qr_buf excerpt = {0};
    struct qr_err err = {0};
    enum qr_code code = qr_read_flags(argc, argv, flags, sizeof flags / sizeof *flags, NULL, 1,
                                      &words, &help, &err);
    if (code == QR_OK && help) return qr_print_help(self);
    qr_auto(qr_free_p) char *names = inputs ? qr_xstrdup(inputs) : NULL;
    if (code == QR_OK) code = import_file(words.v[0], names, layer, &excerpt, &err);
    int exit_code = qr_exit_report(code, &err);
    fputs(qr_buf_string(&excerpt), stderr);
    qr_buf_free(&excerpt);
    return exit_code;
}
