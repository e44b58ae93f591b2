/* api/api_write.c — circuits for other programs, and drawings. */
#include <stdlib.h>

#include "api/api_impl.h"
#include "base/mem.h"
#include "export/export.h"

static enum qr_code check_counts(const struct qr_circuit *c, const struct qring_write_options *o,
                                 struct qr_err *err) {
    if (o->parameters && o->n_parameters != c->n_params)
        return qr_fail(err, QR_INVALID_ARGUMENT, "the circuit has %u parameters, not %zu",
                       c->n_params, o->n_parameters);
    if (o->inputs && o->n_inputs != c->n_columns)
        return qr_fail(err, QR_INVALID_ARGUMENT, "the circuit has %u inputs, not %zu", c->n_columns,
                       o->n_inputs);
    return QR_OK;
}

/* f: holds the circuit and the read-outs */
static enum qr_code write_circuit(struct qring_function *f, const char *circuit, size_t bytes,
                                  const char *format, const struct qring_write_options *options,
                                  struct qr_buf *ret, struct qr_err *err) {
    struct qring_write_options o = {.columns = 0};
    const struct qr_export_format *to;
    enum qr_drawing form;
    QR_TRY(qr_api_struct(options, "options", &o, sizeof o, err));
    if (!circuit || !format || (o.n_observables && !o.observables))
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s is NULL",
                       !circuit  ? "circuit"
                       : !format ? "format"
                                 : "observables");
    QR_TRY(qr_api_circuit(f, circuit, bytes, err));
    QR_TRY(qr_api_observables(f, o.observables, o.n_observables, err));
    QR_TRY(check_counts(f->circuit, &o, err));
    if (qr_drawing_of(format, &form, QR_IGNORED) == QR_OK) {
        qr_auto(qr_free_p) char *drawing = qr_circuit_draw(
            f->circuit, f->observables, f->n_observables, form, o.columns ? o.columns : 100);
        qr_buf_puts(ret, drawing);
        return QR_OK;
    }
    QR_TRY(qr_export_format(format, &to, err));
    return qr_export(to,
                     &(struct qr_export){.circuit = f->circuit,
                                         .readouts = f->observables,
                                         .n_readouts = f->n_observables,
                                         .theta = o.parameters,
                                         .x = o.inputs},
                     ret, err);
}

enum qring_code qring_circuit_write(const char *circuit, size_t circuit_bytes, const char *format,
                                    const struct qring_write_options *options, char **ret,
                                    size_t *ret_bytes, struct qring_error *ret_err) {
    struct qr_err err = {0};
    struct qr_number_env env;
    struct qr_buf text = {0};
    struct qring_function *f = qr_xcalloc(1, sizeof *f);
    qr_number_env_enter(&env);
    enum qr_code code = ret ? write_circuit(f, circuit, circuit_bytes, format, options, &text, &err)
                            : qr_fail(&err, QR_INVALID_ARGUMENT, "ret is NULL");
    if (code != QR_OK) code = qr_wrap(&err, "cannot write the circuit");
    if (code == QR_OK && ret_bytes) *ret_bytes = text.n;
    if (code == QR_OK) *ret = text.p ? (char *)text.p : qr_xstrdup("");
    else qr_buf_free(&text);
    qring_function_free(f);
    qr_number_env_leave(&env);
    return qr_api_report(ret_err, code, &err);
}
