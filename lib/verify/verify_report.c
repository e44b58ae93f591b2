/* verify/verify_report.c — the checks of a verification, and its answer as code, text and JSON.
 * Start reading at qr_verification_code(). */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "format/json.h"
#include "verify/verify_impl.h"

void verify_add(struct verifying *v, const char *name, enum qr_check_state state, const char *fmt,
                ...) {
    va_list ap;
    struct qr_check *c = &v->ret->check[v->ret->n];
    char raw[sizeof c->text];
    QR_ASSERT(v->ret->n < QR_CHECKS_MAX);
    va_start(ap, fmt);
    vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    qr_printable(c->text, sizeof c->text, raw);
    c->name = name;
    c->state = state;
    v->ret->n++;
}

enum qr_code qr_verification_code(const struct qr_verification *v, struct qr_err *err) {
    const struct qr_check *of = NULL;
    for (size_t i = 0; i < v->n; i++) {
        const struct qr_check *c = &v->check[i];
        if (c->state == QR_CHECK_DIFFERS && (!of || of->state != QR_CHECK_DIFFERS)) of = c;
        if (c->state == QR_CHECK_UNPROVEN && !of) of = c;
    }
    if (!of) return QR_OK;
    return qr_fail(err, of->state == QR_CHECK_DIFFERS ? QR_DIFFERS : QR_UNPROVEN, "%s %s: %s",
                   v->run, of->name, of->text);
}

static const char *const state_names[] = {[QR_CHECK_SAME] = "same",
                                          [QR_CHECK_DIFFERS] = "DIFFERS",
                                          [QR_CHECK_UNKNOWN] = "not checked",
                                          [QR_CHECK_UNPROVEN] = "not proved"};

void qr_verification_text(const struct qr_verification *v, struct qr_buf *ret) {
    struct qr_err err;
    for (size_t i = 0; i < v->n; i++)
        qr_buf_printf(ret, "%-12s %-12s %s\n", v->check[i].name, state_names[v->check[i].state],
                      v->check[i].text);
    enum qr_code code = qr_verification_code(v, &err);
    qr_buf_printf(ret, "%s\n",
                  code == QR_OK        ? "same"
                  : code == QR_DIFFERS ? "differs"
                                       : "not proved");
}

static void put_difference(struct qr_json_writer *w, const struct qr_replay *d) {
    qr_json_key_open(w, "difference", '{');
    qr_json_key_i64(w, "step", (int64_t)d->step);
    qr_json_key_string(w, "kind", d->eval ? "EVAL" : "TRAIN");
    qr_json_key_string(w, "recorded_digest", d->recorded);
    qr_json_key_string(w, "computed_digest", d->computed);
    if (*d->key) {
        qr_json_key_string(w, "key", d->key);
        qr_json_key_string(w, "recorded", d->recorded_value);
        qr_json_key_string(w, "computed", d->computed_value);
    }
    if (*d->tensor) {
        qr_json_key_string(w, "tensor", d->tensor);
        qr_json_key_i64(w, "element", (int64_t)d->element);
        qr_json_key_double(w, "recorded_number", d->recorded_number);
        qr_json_key_double(w, "computed_number", d->computed_number);
    }
    qr_json_close(w, '}');
}

void qr_verification_json(const struct qr_verification *v, struct qr_buf *ret) {
    static const char *const names[] = {"same", "differs", "unknown", "unknown"};
    struct qr_err err;
    struct qr_json_writer w = qr_json_writer(ret, 2);
    enum qr_code code = qr_verification_code(v, &err);
    qr_json_open(&w, '{');
    qr_json_key_string(&w, "run", v->run);
    qr_json_key_string(&w, "verdict",
                       code == QR_OK        ? "same"
                       : code == QR_DIFFERS ? "differs"
                                            : "unproven");
    qr_json_key_open(&w, "checks", '[');
    for (size_t i = 0; i < v->n; i++) {
        qr_json_open(&w, '{');
        qr_json_key_string(&w, "check", v->check[i].name);
        qr_json_key_string(&w, "result", names[v->check[i].state]);
        qr_json_key_string(&w, "text", v->check[i].text);
        qr_json_close(&w, '}');
    }
    qr_json_close(&w, ']');
    qr_json_key_i64(&w, "steps", (int64_t)v->n_steps);
    qr_json_key_double(&w, "seconds", v->seconds);
    qr_json_key_i64(&w, "seed", (int64_t)v->seed);
    if (v->difference.differs) put_difference(&w, &v->difference);
    qr_json_close(&w, '}');
    qr_buf_puts(ret, "\n");
}
