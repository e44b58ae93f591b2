/* export/angles.c — arguments of gates as angles in radians, and shared expressions. Start reading
 * at export_angle(). */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "export/export_impl.h"

/* Appends pi times the number with few characters, if this gives back the number: "pi/4", "-pi",
 * "0.3*pi". */
static bool put_multiple_of_pi(double half_turns, struct qr_buf *to) {
    enum { SHORT = 7 };
    char text[32];
    double part = rint(1 / half_turns);
    if (fabs(part) >= 1 && fabs(part) <= 64 && M_PI / part / M_PI == half_turns) {
        qr_buf_puts(to, part < 0 ? "-pi" : "pi");
        if (fabs(part) > 1) qr_buf_printf(to, "/%.0f", fabs(part));
        return true;
    }
    qr_number_text(half_turns, text);
    if (strlen(text) > SHORT || half_turns * M_PI / M_PI != half_turns) return false;
    qr_buf_printf(to, "%s*pi", text);
    return true;
}

/* The number of radians, as short as possible. */
static double radians_of(double half_turns) {
    double angle;
    return qr_gate_angle_of(half_turns, &angle) ? angle : half_turns * M_PI;
}

static void put_number(double v, struct qr_buf *to) {
    char text[32];
    qr_number_text(v, text);
    qr_buf_puts(to, text);
}

/* Appends what an argument multiplies, in brackets where `factor` precedes it. */
static void put_symbols(const struct qr_circuit *c, const struct qr_expression_style *style,
                        const struct qr_gate_arg *a, bool factor, struct qr_buf *to) {
    struct qr_expression_node leaf = {.op = a->kind == QR_ARG_DATA ? QR_EXPRESSION_INPUT
                                                                   : QR_EXPRESSION_PARAMETER,
                                      .index = a->index};
    const struct qr_expression one = {.n = 1, .node = &leaf},
                               *e = a->kind == QR_ARG_EXPRESSION ? &c->expressions[a->index] : &one;
    enum qr_expression_op op = e->node[e->n - 1].op;
    bool brackets = factor && (qr_expression_has_two(op) || op == QR_EXPRESSION_NEGATE);
    if (brackets) qr_buf_puts(to, "(");
    qr_expression_print(e, 1, style, to);
    if (brackets) qr_buf_puts(to, ")");
}

void export_strength(const struct qr_circuit *c, const struct qr_expression_style *style,
                     const struct qr_gate_arg *a, struct qr_buf *to) {
    bool symbols = a->kind != QR_ARG_CONSTANT, factor = symbols && a->scale != 1;
    if (!symbols || factor) put_number(a->scale, to);
    if (factor) qr_buf_puts(to, "*");
    if (symbols) put_symbols(c, style, a, factor, to);
}

void export_angle(const struct qr_circuit *c, const struct qr_expression_style *style,
                  const struct qr_gate_arg *a, struct qr_buf *to) {
    double radians = radians_of(a->scale);
    size_t before = to->n;
    if (a->kind == QR_ARG_CONSTANT) {
        if (a->scale == 0 || !put_multiple_of_pi(a->scale, to)) put_number(radians, to);
        return;
    }
    if (radians == -1) {
        qr_buf_puts(to, "-");
    } else if (radians != 1) {
        if (a->scale == 0 || !put_multiple_of_pi(a->scale, to)) put_number(radians, to);
        qr_buf_puts(to, "*");
    }
    put_symbols(c, style, a, to->n > before, to);
}

void export_shared(const struct qr_circuit *c, const struct qr_expression_style *style,
                   const char *before, const char *after, struct qr_buf *to) {
    qr_auto(qr_free_p) bool *shared = qr_xcalloc(c->n_expressions + 1, sizeof *shared);
    for (size_t i = 0; i < c->n_expressions; i++)
        for (unsigned k = 0; k < c->expressions[i].n; k++)
            if (c->expressions[i].node[k].op == QR_EXPRESSION_SHARED)
                shared[c->expressions[i].node[k].index] = true;
    for (size_t i = 0; i < c->n_expressions; i++) {
        if (!shared[i]) continue;
        qr_buf_printf(to, "%s%s%zu = ", before, style->shared, i);
        qr_expression_print(&c->expressions[i], 1, style, to);
        qr_buf_puts(to, after);
    }
}
