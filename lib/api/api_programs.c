/* api/api_programs.c — circuits of other programs as the circuit object of a job file. */
#include <stdio.h>
#include <string.h>

#include "api/arguments.h"
#include "base/mem.h"
#include "circuit/circuit_json.h"
#include "cirq/cirq.h"
#include "qasm/qasm.h"

static char *circuit_text(const struct qr_circuit *c) {
    struct qr_buf text = {0};
    struct qr_json_writer w = qr_json_writer(&text, 0);
    qr_circuit_put_json(c, &w);
    return (char *)text.p;
}

static char *readouts_text(const struct qr_program *q) {
    struct qr_buf text = {0};
    struct qr_json_writer w = qr_json_writer(&text, 0);
    qr_json_open(&w, '[');
    for (size_t i = 0; i < q->n_readouts; i++) qr_json_put_string(&w, q->readouts[i]);
    qr_json_close(&w, ']');
    return (char *)text.p;
}

/* Appends the line with the error and its caret to the message, if there is room. */
static void append_excerpt(struct qring_error *err, const struct qr_buf *excerpt) {
    size_t n = err ? strlen(err->message) : 0;
    if (!err || !excerpt->n || n + excerpt->n + 1 > sizeof err->message) return;
    snprintf(err->message + n, sizeof err->message - n, "\n%.*s", (int)excerpt->n - 1,
             qr_buf_string(excerpt));
}

static enum qr_code check_arguments(const void *bytes, const char *const *inputs, size_t n_inputs,
                                    char *const *ret_circuit, struct qr_err *err) {
    const char *missing = !bytes                ? "text"
                          : !ret_circuit        ? "ret_circuit"
                          : n_inputs && !inputs ? "inputs"
                                                : NULL;
    return missing ? qr_fail(err, QR_INVALID_ARGUMENT, "%s is NULL", missing) : QR_OK;
}

/* Returns the program's texts, and frees it. */
static void give_texts(struct qr_program *p, char **ret_circuit, char **ret_readouts) {
    *ret_circuit = circuit_text(p->circuit);
    if (ret_readouts) *ret_readouts = readouts_text(p);
    qr_program_fini(p);
}

enum qring_code qring_circuit_from_qasm(const char *text, size_t bytes, const char *const *inputs,
                                        size_t n_inputs, char **ret_circuit, char **ret_readouts,
                                        struct qring_error *ret_err) {
    const struct qr_program_options options = {.inputs = inputs, .n_inputs = n_inputs};
    struct qr_err err = {0};
    struct qr_program p = {0};
    struct qr_number_env env;
    qr_auto(qr_buf_free) struct qr_buf excerpt = {0};
    qr_number_env_enter(&env);
    enum qr_code code = check_arguments(text, inputs, n_inputs, ret_circuit, &err);
    if (code == QR_OK) code = qr_qasm_read(qr_bytes_of(text, bytes), &options, &p, &excerpt, &err);
    if (code != QR_OK) code = qr_wrap(&err, "cannot read the OpenQASM text");
    enum qring_code ret = qr_api_report(ret_err, code, &err);
    if (code == QR_OK) give_texts(&p, ret_circuit, ret_readouts);
    else append_excerpt(ret_err, &excerpt);
    qr_number_env_leave(&env);
    return ret;
}

enum qring_code qring_circuit_from_cirq(const void *text, size_t bytes, const char *const *inputs,
                                        size_t n_inputs, char **ret_circuit, char **ret_readouts,
                                        struct qring_error *ret_err) {
    const struct qr_program_options options = {.inputs = inputs, .n_inputs = n_inputs};
    struct qr_err err = {0};
    struct qr_program p = {0};
    struct qr_number_env env;
    qr_number_env_enter(&env);
    enum qr_code code = check_arguments(text, inputs, n_inputs, ret_circuit, &err);
    if (code == QR_OK) code = qr_cirq_read(qr_bytes_of(text, bytes), &options, &p, &err);
    if (code != QR_OK) code = qr_wrap(&err, "cannot read the circuit");
    if (code == QR_OK) give_texts(&p, ret_circuit, ret_readouts);
    qr_number_env_leave(&env);
    return qr_api_report(ret_err, code, &err);
}
