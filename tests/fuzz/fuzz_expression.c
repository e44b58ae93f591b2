/* Expressions: any text is a program or an error with its column. A program has a text that reads
 * back as itself, a value, and derivatives of that value; a circuit can hold it, and has no
 * expressions after lowering. */
#include <string.h>

#include "base/mem.h"
#include "circuit/lower.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { N = 4 };

static uint32_t parameter(void *context, const char *name, size_t n) {
    (void)context, (void)name;
    return (uint32_t)(n % N);
}
static const char *column(void *context, const char *name, size_t n, uint32_t *ret) {
    (void)context;
    *ret = (uint32_t)(n % N);
    return *name == '!' ? "no column has this name" : NULL;
}

static void lower(const struct qr_expression *e, double scale) {
    struct qr_circuit *c = qr_circuit_new(2, N);
    for (unsigned i = 0; i < N; i++) qr_circuit_param(c, (const char[]){(char)('a' + i), 0});
    struct qr_gate g = {.kind = QR_GATE_X,
                        .n_targets = 1,
                        .n_args = 1,
                        .args = {{QR_ARG_EXPRESSION, scale, qr_circuit_expression(c, e)}}};
    QR_ASSERT(qr_circuit_expression(c, e) == 0 && qr_circuit_add(c, &g, QR_IGNORED) == QR_OK);
    free(qr_circuit_draw(c, NULL, 0, QR_DRAWING_TEXT, 80));
    struct qr_lowered *l = qr_circuit_lower(c);
    const double some[N] = {0.25, -1, 0, 2};
    double theta[N + 1], x[N + 1];
    qr_lowered_theta(l, some, theta);
    qr_lowered_x(l, some, some, x);
    QR_ASSERT(l->n_derived_params + l->n_derived_columns == 1 && !l->circuit->n_expressions);
    double d_theta[N + 1] = {1, 1, 1, 1, 1}, d_x[N + 1] = {1, 1, 1, 1, 1};
    const uint8_t wanted[N + 1] = {1, 1, 0, 1, 1};
    qr_lowered_chain(l, theta, x, 1, wanted, d_theta, d_x);
    qr_lowered_free(l);
    qr_circuit_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const struct qr_expression_names names = {NULL, parameter, column, N, NULL};
    char *text = qr_xstrndup((const char *)data, n);
    char *letters[N] = {(char[]){"dddd"}, (char[]){"a"}, (char[]){"bb"}, (char[]){"ccc"}};
    struct qr_expression e, again;
    struct qr_err err = {0};
    struct qr_buf shown = {0};
    double scale, scale_again, d[QR_EXPRESSION_NODES];
    if (qr_expression_parse(text, "angle", &names, &scale, &e, &err) != QR_OK) {
        QR_ASSERT(err.msg[0]);
        free(text);
        return 0;
    }
    const double some[N] = {0.5, -0.25, 3, 0};
    double v = qr_expression_value(&e, some, some),
           same = qr_expression_derivatives(&e, some, some, d);
    QR_ASSERT(memcmp(&v, &same, sizeof v) == 0 || (v != v && same != same));
    qr_expression_print(&e, scale, &(struct qr_expression_style){.parameters = letters}, &shown);
    /* The printed text is longer if numbers have all their digits. */
    if (shown.n <= QR_EXPRESSION_BYTES && e.n < QR_EXPRESSION_NODES - 2 &&
        qr_expression_parse(qr_buf_string(&shown), "angle", &names, &scale_again, &again, &err) ==
            QR_OK) {
        QR_ASSERT(scale == scale_again && qr_expression_equal(&e, &again));
        qr_expression_fini(&again);
    } else {
        QR_ASSERT(shown.n > QR_EXPRESSION_BYTES || e.n >= QR_EXPRESSION_NODES - 2 ||
                  strstr(err.msg, "more than"));
    }
    if (e.n > 1) lower(&e, scale);
    qr_buf_free(&shown);
    qr_expression_fini(&e);
    free(text);
    return 0;
}
