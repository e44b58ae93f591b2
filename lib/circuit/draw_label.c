/* circuit/draw_label.c — labels of gates and read-outs in drawings. Start reading at
 * drawn_gate_of(). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "circuit/draw_impl.h"

size_t drawing_width_of(const char *s) { /* UTF-8 continuation bytes do not count */
    size_t n = 0;
    for (; *s; s++) n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

void drawing_repeat(struct qr_buf *b, const char *s, size_t n) {
    while (n--) qr_buf_puts(b, s);
}

void drawing_truncate(char *s, size_t most) {
    if (drawing_width_of(s) <= most) return;
    char *p = s;
    for (size_t n = 0; *p; p++)
        if (((unsigned char)*p & 0xc0) != 0x80 && ++n == most) break;
    memcpy(p, "…", sizeof "…"); /* three bytes */
}

char drawing_readout_at(const struct drawing *d, unsigned qubit) {
    for (size_t i = 0; i < d->n_obs; i++) {
        unsigned q = QR_MAX_QUBITS;
        char letter = drawn_single_pauli(&d->obs[i], &q);
        if (letter && q == qubit) return letter;
    }
    return 0;
}

/* NULL unless all columns have names. */
static char *const *drawn_column_names(const struct qr_circuit *c) {
    return c->n_named == c->n_columns ? c->column_names : NULL;
}

static void arg_text(const struct qr_circuit *c, const struct qr_gate_arg *a, double factor,
                     char ret[DRAWN_ARGUMENT]) {
    char number[32] = "";
    double v = a->scale * factor;
    if (fabs(v - rint(v)) < 1e-15 * fabs(v)) v = rint(v); /* pi * (1 / pi) */
    if (a->kind == QR_ARG_CONSTANT) {
        snprintf(ret, DRAWN_ARGUMENT, "%.6g", v);
        return;
    }
    if (a->kind == QR_ARG_EXPRESSION) {
        struct qr_buf text = {0};
        const struct qr_expression_style style = {
            .parameters = c->param_names, .columns = drawn_column_names(c), .round = true};
        qr_expression_print(&c->expressions[a->index], v, &style, &text);
        snprintf(ret, DRAWN_ARGUMENT, "%.100s", qr_buf_string(&text));
        qr_buf_free(&text);
        return;
    }
    if (v == -1) snprintf(number, sizeof number, "-");
    else if (v != 1) snprintf(number, sizeof number, "%.6g*", v);
    const char *column =
        a->kind == QR_ARG_DATA && drawn_column_names(c) ? c->column_names[a->index] : NULL;
    if (column) snprintf(ret, DRAWN_ARGUMENT, "%sx.%.100s", number, column);
    else if (a->kind == QR_ARG_DATA) snprintf(ret, DRAWN_ARGUMENT, "%sx%u", number, a->index);
    else snprintf(ret, DRAWN_ARGUMENT, "%s%.100s", number, c->param_names[a->index]);
}

/* Gates that are drawn with a name of their own: with this exponent; with this angle in radians,
 * which is the exponent times per_turn. No global shift. */
static const struct {
    enum qr_gate_kind kind;
    double exponent;
    const char *name;
} fixed[] = {{QR_GATE_Z, 0.5, "S"},    {QR_GATE_Z, -0.5, "S†"}, {QR_GATE_Z, 0.25, "T"},
             {QR_GATE_Z, -0.25, "T†"}, {QR_GATE_X, 0.5, "√X"},  {QR_GATE_X, -0.5, "√X†"}};
static const struct {
    enum qr_gate_kind kind;
    double phase_exponent, per_turn;
    const char *name;
} by_angle[] = {{QR_GATE_Z, 0, M_PI, "P"},
                {QR_GATE_CZ, 0, M_PI, "P"},
                {QR_GATE_ISWAP, 0, M_PI, "XY"},
                {QR_GATE_PHASED_ISWAP, 0.25, M_PI_2, "Givens"}};

/* Whether six digits represent v. */
static bool is_short(double v) {
    char text[32];
    double back;
    snprintf(text, sizeof text, "%.6g", v);
    return qr_parse_double(text, &back) && fabs(back - v) <= 1e-14 * fabs(v);
}

/* The gate's name by its angle, where the exponent is long and the angle short: the job file then
 * had the angle. */
static const char *name_by_angle(const struct qr_circuit *c, const struct qr_gate *g,
                                 char ret_angle[DRAWN_ARGUMENT]) {
    const struct qr_gate_arg *t = &g->args[g->n_args ? g->n_args - 1 : 0], *p = &g->args[0];
    if (!g->n_args || g->global_shift != 0 || is_short(t->scale)) return NULL;
    for (size_t i = 0; i < sizeof by_angle / sizeof *by_angle; i++) {
        if (by_angle[i].kind != g->kind || !is_short(t->scale * by_angle[i].per_turn)) continue;
        if (g->n_args > 1 && (p->kind != QR_ARG_CONSTANT || p->scale != by_angle[i].phase_exponent))
            continue;
        arg_text(c, t, by_angle[i].per_turn, ret_angle);
        return by_angle[i].name;
    }
    return NULL;
}

/* "S" for Z^0.5; CZ and CNOT with the exponent get the same name, with a control. */
static const char *fixed_name(const struct qr_gate *g) {
    enum qr_gate_kind kind = g->kind == QR_GATE_CZ     ? QR_GATE_Z
                             : g->kind == QR_GATE_CNOT ? QR_GATE_X
                                                       : g->kind;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (kind == fixed[i].kind && g->args[0].kind == QR_ARG_CONSTANT && g->global_shift == 0 &&
            g->args[0].scale == fixed[i].exponent)
            return fixed[i].name;
    return NULL;
}

static struct drawn_label label_of_channel(const struct qr_circuit *c, const struct qr_gate *g) {
    enum { SHOWN = 3 }; /* arguments */
    const struct qr_channel *channel = &c->channels[g->channel];
    struct drawn_label ret = {.base = ""};
    snprintf(ret.base, sizeof ret.base, "%s", channel->info->symbol);
    if (g->bit) snprintf(ret.base, sizeof ret.base, "M→c%u", g->bit - 1u);
    bool exact = qr_channel_reads_exactly(channel);
    for (unsigned k = 0; k < channel->info->n_args && k <= SHOWN && !exact; k++) {
        char a[DRAWN_ARGUMENT];
        size_t n = strlen(ret.arguments);
        arg_text(c, &channel->args[k], 1, a);
        snprintf(ret.arguments + n, sizeof ret.arguments - n, "%s%s", k ? "," : "",
                 k < SHOWN || k + 1u == channel->info->n_args ? a : "…");
    }
    return ret;
}

/* "X?c0" acts where bit 0 is 1, "X?!c0" where it is 0. */
static void add_condition(const struct qr_condition *condition, struct drawn_label *l) {
    const struct qr_qubits *bits = &condition->bits;
    size_t n = strlen(l->base);
    for (unsigned b = qr_qubits_first(bits); b < QR_MAX_QUBITS && n + 8 < sizeof l->base;
         b = qr_qubits_next(bits, b))
        n += (size_t)snprintf(l->base + n, sizeof l->base - n, "%s%sc%u",
                              b == qr_qubits_first(bits) ? "?" : "",
                              qr_qubits_has(&condition->values, b) ? "" : "!", b);
}

/* Rotations (shift -1/2) show their angle in radians, powers their exponent. */
static struct drawn_label label_of(const struct qr_circuit *c, const struct qr_gate *g) {
    if (g->kind == QR_GATE_CHANNEL) return label_of_channel(c, g);
    const struct qr_gate_info *info = qr_gate_info(g->kind);
    struct drawn_label ret = {.base = ""};
    const char *name = info->controlled ? info->controlled
                       : info->symbol   ? info->symbol
                                        : info->name;
    char a[DRAWN_ARGUMENT] = "", b[DRAWN_ARGUMENT] = "";
    bool rotation = info->rotation && g->global_shift == -0.5;
    const char *own = fixed_name(g), *turn = own ? NULL : name_by_angle(c, g, a);
    if (own || turn || rotation) name = own ? own : turn ? turn : info->rotation;
    snprintf(ret.base, sizeof ret.base, "%s", name);
    if (own) return ret;
    if (rotation) arg_text(c, &g->args[0], M_PI, a);
    if (turn || rotation) {
        snprintf(ret.arguments, sizeof ret.arguments, "%s", a);
        return ret;
    }
    if (g->n_args > 0) arg_text(c, &g->args[0], 1, a);
    if (g->n_args > 1) arg_text(c, &g->args[1], 1, b);
    if (g->global_shift != 0) snprintf(ret.shift, sizeof ret.shift, "g=%.4g", g->global_shift);
    if (!info->has_exponent && g->n_args) {
        snprintf(ret.arguments, sizeof ret.arguments, g->n_args > 1 ? "%s,%s" : "%s", a, b);
        return ret;
    }
    if (g->n_args > 1) snprintf(ret.arguments, sizeof ret.arguments, "%s", a);
    const char *exponent = g->n_args > 1 ? b : a;
    if (!g->n_args || (g->n_args == 1 && strcmp(exponent, "1") == 0)) return ret;
    bool brackets = g->args[g->n_args - 1].kind == QR_ARG_EXPRESSION;
    snprintf(ret.exponent, sizeof ret.exponent, brackets ? "(%s)" : "%s", exponent);
    return ret;
}

void drawn_label_put(const struct drawn_label *l, struct qr_buf *to) {
    qr_buf_puts(to, l->base);
    if (*l->arguments) qr_buf_printf(to, "(%s)", l->arguments);
    if (*l->exponent) qr_buf_printf(to, "^%s", l->exponent);
    if (*l->shift) qr_buf_printf(to, "(%s)", l->shift);
}

static bool is_plain(const struct drawn_label *l, const char *base) {
    return strcmp(l->base, base) == 0 && !*l->arguments && !*l->exponent && !*l->shift;
}

/* The first target of a controlled gate is a dot; the second has the gate, or also a dot where the
 * targets are symmetric: a plain CZ. The second target of other gates has the name alone. */
struct drawn_gate drawn_gate_of(const struct qr_circuit *c, const struct qr_gate *g) {
    static const struct qr_gate_info none;
    const struct qr_gate_info *info = g->kind == QR_GATE_CHANNEL ? &none : qr_gate_info(g->kind);
    const struct qr_qubits set = qr_gate_all_qubits(g);
    struct drawn_gate ret = {.gate = g,
                             .low = qr_qubits_first(&set),
                             .high = qr_qubits_last(&set),
                             .mark = {DRAWN_LABEL, DRAWN_LABEL}};
    struct drawn_label label = label_of(c, g);
    if (g->condition) add_condition(&c->conditions.list[g->condition - 1], &label);
    bool controlled = info->controlled || !qr_qubits_is_empty(&g->controls),
         symmetric = info->factor[0] == info->factor[1];
    ret.label[0] = label;
    if (info->controlled) {
        ret.mark[0] = DRAWN_ON;
        ret.label[1] = label;
        if (symmetric && is_plain(&label, info->controlled)) ret.mark[1] = DRAWN_ON;
    } else {
        snprintf(ret.label[1].base, sizeof ret.label[1].base, "%s", label.base);
        if (info->symbol && is_plain(&label, info->symbol)) ret.mark[0] = ret.mark[1] = DRAWN_SWAP;
    }
    unsigned last = g->n_targets - 1u;
    if (controlled && ret.mark[last] == DRAWN_LABEL && is_plain(&label, "X"))
        ret.mark[last] = DRAWN_NOT;
    ret.one_box = g->n_targets == 2 && ret.mark[0] == DRAWN_LABEL && symmetric &&
                  (g->targets[0] + 1 == g->targets[1] || g->targets[1] + 1 == g->targets[0]);
    return ret;
}

enum drawn_mark drawn_mark_at(const struct drawn_gate *g, unsigned qubit, unsigned *ret_target) {
    for (unsigned k = 0; k < g->gate->n_targets; k++)
        if (g->gate->targets[k] == qubit) {
            *ret_target = k;
            return g->mark[k];
        }
    return !qr_qubits_has(&g->gate->controls, qubit)        ? DRAWN_CROSSING
           : qr_qubits_has(&g->gate->control_values, qubit) ? DRAWN_ON
                                                            : DRAWN_OFF;
}

char drawn_single_pauli(const struct qr_observable *o, unsigned *ret_qubit) {
    const struct qr_pauli_term *t = o->terms;
    struct qr_qubits both = t->x;
    qr_qubits_add_all(&both, &t->z);
    if (o->n_terms != 1 || t->coefficient != 1 || qr_qubits_count(&both) != 1) return 0;
    *ret_qubit = qr_qubits_first(&both);
    return qr_qubits_is_empty(&t->x) ? 'Z' : qr_qubits_is_empty(&t->z) ? 'X' : 'Y';
}
