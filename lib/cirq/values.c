/* cirq/values.c — numbers and sympy's expressions of Cirq's JSON. Start reading at
 * cirq_json_arg(). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "cirq/cirq_impl.h"

const char *cirq_json_type(const struct qr_json *v) {
    return qr_json_text(qr_json_get(v, "cirq_type"), "");
}

/* ---- expressions as texts ---- */

struct value_writer {
    struct cirq_reader *r;
    struct qr_buf *to; /* overflows above the length of an expression */
};

static enum qr_code put_value(const struct value_writer *w, const struct cirq_scope *scope,
                              const struct qr_json *v, const char *path);

static void put_number(const struct value_writer *w, double v) {
    char text[32];
    qr_number_text(v, text);
    qr_buf_printf(w->to, v < 0 ? "(%s)" : "%s", text);
}

/* The value that a CircuitOperation gives the symbol in its scope; NULL: none. */
static enum qr_code find_parameter(struct cirq_reader *r, const struct cirq_scope *scope,
                                   const char *name, const char *path, const struct qr_json **ret) {
    *ret = NULL;
    for (const struct qr_json *p = qr_json_first(scope->parameters); p && !*ret;
         p = qr_json_next(p)) {
        const struct qr_json *key = qr_json_first(p);
        QR_TRY(cirq_count(r, path, 1));
        const char *text = qr_json_text(key, qr_json_text(qr_json_get(key, "name"), ""));
        if (qr_json_size(p) == 2 && strcmp(text, name) == 0) *ret = qr_json_next(key);
    }
    return QR_OK;
}

static enum qr_code put_symbol(const struct value_writer *w, const struct cirq_scope *scope,
                               const struct qr_json *v, const char *path) {
    const char *name, *text;
    const struct qr_json *given;
    QR_TRY(qr_json_string(qr_json_get(v, "name"), path, &name, w->r->err));
    for (; scope; scope = scope->outer) {
        QR_TRY(find_parameter(w->r, scope, name, path, &given));
        if (given) return put_value(w, scope->outer, given, path);
    }
    QR_TRY(cirq_symbol_text(w->r, path, name, &text));
    qr_buf_puts(w->to, text);
    return QR_OK;
}

/* Add, Mul and Pow of args. */
static enum qr_code put_operation(const struct value_writer *w, const struct cirq_scope *scope,
                                  const struct qr_json *v, const char *path, const char *before,
                                  const char *between) {
    const struct qr_json *args = qr_json_get(v, "args");
    if (!qr_json_first(args) || (*before == 'p' && qr_json_size(args) != 2))
        return qr_fail(w->r->err, QR_INVALID_ARGUMENT, "%s: %s has %zu arguments", path,
                       cirq_json_type(v), qr_json_size(args));
    qr_buf_puts(w->to, before);
    for (const struct qr_json *a = qr_json_first(args); a; a = qr_json_next(a)) {
        if (a != qr_json_first(args)) qr_buf_puts(w->to, between);
        QR_TRY(put_value(w, scope, a, path));
    }
    qr_buf_puts(w->to, ")");
    return QR_OK;
}

static enum qr_code put_rational(const struct value_writer *w, const struct qr_json *v,
                                 const char *path) {
    double p, q;
    QR_TRY(qr_json_double(qr_json_get(v, "p"), path, -INFINITY, INFINITY, &p, w->r->err));
    QR_TRY(qr_json_double(qr_json_get(v, "q"), path, -INFINITY, INFINITY, &q, w->r->err));
    if (q == 0) return qr_fail(w->r->err, QR_INVALID_ARGUMENT, "%s: division by zero", path);
    put_number(w, p / q);
    return QR_OK;
}

static enum qr_code put_value(const struct value_writer *w, const struct cirq_scope *scope,
                              const struct qr_json *v, const char *path) {
    const char *type = cirq_json_type(v);
    const struct qr_json *number = qr_json_type(v) == QR_JSON_NUMBER    ? v
                                   : strcmp(type, "sympy.Float") == 0   ? qr_json_get(v, "approx")
                                   : strcmp(type, "sympy.Integer") == 0 ? qr_json_get(v, "i")
                                                                        : NULL;
    double x;
    if (!qr_buf_ok(w->to)) return QR_OK;
    if (number) {
        QR_TRY(qr_json_double(number, path, -INFINITY, INFINITY, &x, w->r->err));
        put_number(w, x);
        return QR_OK;
    }
    if (strcmp(type, "sympy.Symbol") == 0) return put_symbol(w, scope, v, path);
    if (strcmp(type, "sympy.Add") == 0) return put_operation(w, scope, v, path, "(", " + ");
    if (strcmp(type, "sympy.Mul") == 0) return put_operation(w, scope, v, path, "(", "*");
    if (strcmp(type, "sympy.Pow") == 0) return put_operation(w, scope, v, path, "pow(", ", ");
    if (strcmp(type, "sympy.Rational") == 0) return put_rational(w, v, path);
    bool pi = strcmp(type, "sympy.pi") == 0, e = strcmp(type, "sympy.E") == 0;
    if (!pi && !e)
        return qr_fail(w->r->err, *type ? QR_UNIMPLEMENTED : QR_INVALID_ARGUMENT,
                       "%s: %s%.60s%s; expected a number or an expression of symbols", path,
                       *type ? "'" : "", *type ? type : qr_json_type_name(v), *type ? "'" : "");
    qr_buf_puts(w->to, pi ? "pi" : "exp(1)");
    return QR_OK;
}

/* ---- any value ---- */

enum qr_code cirq_json_arg(struct cirq_reader *r, const struct cirq_scope *scope,
                           const struct qr_json *v, const char *path, struct qr_gate_arg *ret) {
    qr_auto(qr_buf_free) struct qr_buf text = {.max = QR_EXPRESSION_BYTES};
    *ret = (struct qr_gate_arg){.kind = QR_ARG_CONSTANT};
    if (!v) return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s is missing", path);
    if (qr_json_type(v) == QR_JSON_NUMBER)
        return qr_json_double(v, path, -INFINITY, INFINITY, &ret->scale, r->err);
    QR_TRY(put_value(&(struct value_writer){r, &text}, scope, v, path));
    if (!qr_buf_ok(&text))
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: the expression exceeds %d bytes; simplify it", path,
                       QR_EXPRESSION_BYTES);
    return qr_gate_expression(&r->gates, qr_buf_string(&text), path, ret);
}

enum qr_code cirq_json_complex(struct cirq_reader *r, const struct qr_json *v, const char *path,
                               double complex *ret) {
    bool is_complex = strcmp(cirq_json_type(v), "complex") == 0;
    double re, im = 0;
    QR_TRY(qr_json_double(is_complex ? qr_json_get(v, "real") : v, path, -INFINITY, INFINITY, &re,
                          r->err));
    if (is_complex)
        QR_TRY(qr_json_double(qr_json_get(v, "imag"), path, -INFINITY, INFINITY, &im, r->err));
    *ret = __builtin_complex(re, im);
    return QR_OK;
}
