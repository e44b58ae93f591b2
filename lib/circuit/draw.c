/* circuit/draw.c — circuits as text: one line per qubit, gates as far left as possible, in bands of
 * at most `columns` characters. Start reading at qr_circuit_draw(). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/parse.h"
#include "circuit/circuit.h"
#include "circuit/circuit_impl.h"

enum { LABEL_BYTES = 160, MIN_COLUMNS = 20, INDENT = 4, MAX_LINES = 4096 };

static size_t width_of(const char *s) { /* in characters; UTF-8 continuation bytes do not count */
    size_t n = 0;
    for (; *s; s++) n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static void draw_repeat(struct qr_buf *b, const char *s, size_t n) {
    while (n--) qr_buf_puts(b, s);
}

/* Cuts a label to `most` characters, the last being an ellipsis. */
static void truncate_label(char *s, size_t most) {
    if (width_of(s) <= most) return;
    char *p = s;
    for (size_t n = 0; *p; p++)
        if (((unsigned char)*p & 0xc0) != 0x80 && ++n == most) break;
    memcpy(p, "…", sizeof "…"); /* three bytes: label buffers have spare bytes */
}

/* NULL unless all columns have names. */
static char *const *drawn_column_names(const struct qr_circuit *c) {
    return c->n_named == c->n_columns ? c->column_names : NULL;
}

static void arg_text(const struct qr_circuit *c, const struct qr_gate_arg *a, double factor,
                     char ret[LABEL_BYTES]) {
    char number[32] = "";
    double v = a->scale * factor;
    if (fabs(v - rint(v)) < 1e-15 * fabs(v)) v = rint(v); /* pi * (1 / pi) */
    if (a->kind == QR_ARG_CONSTANT) {
        snprintf(ret, LABEL_BYTES, "%.6g", v);
        return;
    }
    if (a->kind == QR_ARG_EXPRESSION) {
        struct qr_buf text = {0};
        const struct qr_expression_style style = {
            .parameters = c->param_names, .columns = drawn_column_names(c), .round = true};
        qr_expression_print(&c->expressions[a->index], v, &style, &text);
        snprintf(ret, LABEL_BYTES, "%.100s", qr_buf_string(&text));
        qr_buf_free(&text);
        return;
    }
    if (v == -1) snprintf(number, sizeof number, "-");
    else if (v != 1) snprintf(number, sizeof number, "%.6g*", v);
    const char *column =
        a->kind == QR_ARG_DATA && drawn_column_names(c) ? c->column_names[a->index] : NULL;
    if (column) snprintf(ret, LABEL_BYTES, "%sx.%.100s", number, column);
    else if (a->kind == QR_ARG_DATA) snprintf(ret, LABEL_BYTES, "%sx%u", number, a->index);
    else snprintf(ret, LABEL_BYTES, "%s%.100s", number, c->param_names[a->index]);
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
                                 char ret_angle[LABEL_BYTES]) {
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

static void wrap_in_brackets(char text[LABEL_BYTES]) {
    char inner[LABEL_BYTES];
    snprintf(inner, sizeof inner, "%s", text);
    snprintf(text, LABEL_BYTES, "(%.120s)", inner);
}

/* Labels of both targets. On the first of a controlled gate a dot; on the second the gate, or also
 * a dot where the targets are symmetric: a plain CZ. Rotations (shift -1/2) show their angle in
 * radians, powers their exponent. */
static void target_labels(const struct qr_circuit *c, const struct qr_gate *g,
                          char ret[2][2 * LABEL_BYTES]) {
    const struct qr_gate_info *info = qr_gate_info(g->kind);
    const char *name = info->controlled ? info->controlled
                       : info->symbol   ? info->symbol
                                        : info->name;
    char a[LABEL_BYTES] = "", b[LABEL_BYTES] = "", label[2 * LABEL_BYTES];
    size_t size = sizeof label;
    bool rotation = info->rotation && g->global_shift == -0.5;
    const char *own = fixed_name(g), *turn = own ? NULL : name_by_angle(c, g, a);
    if (own || turn || rotation) name = own ? own : turn ? turn : info->rotation;
    if (rotation) arg_text(c, &g->args[0], M_PI, a);
    if (own) {
        snprintf(label, size, "%s", name);
    } else if (turn || rotation) {
        snprintf(label, size, "%s(%.140s)", name, a);
    } else {
        char shift[48] = "", power[2 * LABEL_BYTES] = "";
        if (g->n_args > 0) arg_text(c, &g->args[0], 1, a);
        if (g->n_args > 1) arg_text(c, &g->args[1], 1, b);
        if (g->global_shift != 0) snprintf(shift, sizeof shift, "(g=%.4g)", g->global_shift);
        char *exponent = g->n_args > 1 ? b : a;
        if (g->n_args && g->args[g->n_args - 1].kind == QR_ARG_EXPRESSION && info->has_exponent)
            wrap_in_brackets(exponent);
        if (g->n_args == 1 && strcmp(a, "1") != 0) snprintf(power, sizeof power, "^%s", a);
        if (g->n_args < 2) snprintf(label, size, "%s%.200s%s", name, power, shift);
        else if (info->has_exponent) snprintf(label, size, "%s(%.140s)^%.140s", name, a, b);
        else snprintf(label, size, "%s(%.140s,%.140s)", name, a, b);
    }
    bool alike = info->controlled && info->factor[0] == info->factor[1] &&
                 strcmp(label, info->controlled) == 0;
    snprintf(ret[0], size, "%s", info->controlled ? "●" : label);
    snprintf(ret[1], size, "%s", alike ? "●" : info->controlled ? label : name);
}

struct extent {
    unsigned low, high; /* the outermost qubits */
};
static struct extent extent_of(const struct qr_gate *g) {
    struct qr_qubits set = g->controls;
    for (unsigned k = 0; k < g->n_targets; k++) qr_qubits_add(&set, g->targets[k]);
    return (struct extent){qr_qubits_first(&set), qr_qubits_last(&set)};
}

struct drawing {
    const struct qr_circuit *c;
    size_t columns, used; /* characters in this band */
    unsigned prefix;
    size_t n_lines, n_drawn; /* lines of all bands; gates */
    struct qr_buf out;
    struct qr_buf wire[QR_MAX_QUBITS], below[QR_MAX_QUBITS];
    bool linked[QR_MAX_QUBITS]; /* the line below this qubit has a connector in this band */
    char cell[QR_MAX_QUBITS][2 * LABEL_BYTES];
};

static void band_begin(struct drawing *d) {
    for (unsigned q = 0; q < d->c->n_qubits; q++) {
        qr_buf_clear(&d->wire[q]);
        qr_buf_clear(&d->below[q]);
        d->linked[q] = false;
        qr_buf_printf(&d->wire[q], "%*u: ", (int)d->prefix - 2, q);
        draw_repeat(&d->below[q], " ", d->prefix);
    }
    d->used = d->prefix;
}

static void band_end(struct drawing *d) {
    if (d->used == d->prefix) return;
    if (d->out.n) qr_buf_puts(&d->out, "\n");
    for (unsigned q = 0; q < d->c->n_qubits; q++) {
        qr_buf_printf(&d->out, "%s\n", qr_buf_string(&d->wire[q]));
        d->n_lines++;
        if (!d->linked[q]) continue;
        d->n_lines++;
        size_t n = d->below[q].n;
        while (n && d->below[q].p[n - 1] == ' ') n--;
        qr_buf_put(&d->out, d->below[q].p, n);
        qr_buf_puts(&d->out, "\n");
    }
}

/* Draws the gates of one moment (their spans do not overlap) as one column. False: the drawing has
 * reached its last band. */
static bool draw_moment(struct drawing *d, const size_t *gates, size_t n) {
    unsigned n_qubits = d->c->n_qubits;
    bool link[QR_MAX_QUBITS] = {false};
    size_t width = 1, most = d->columns - d->prefix - 2;
    for (unsigned q = 0; q < n_qubits; q++) d->cell[q][0] = 0;
    for (size_t i = 0; i < n; i++) {
        const struct qr_gate *g = &d->c->gates[gates[i]];
        char label[2][2 * LABEL_BYTES];
        struct extent s = extent_of(g);
        target_labels(d->c, g, label);
        for (unsigned q = s.low; q <= s.high; q++) {
            link[q] = q < s.high;
            const char *mark = !qr_qubits_has(&g->controls, q)        ? "┼"
                               : qr_qubits_has(&g->control_values, q) ? "●"
                                                                      : "○";
            for (unsigned k = 0; k < g->n_targets; k++)
                if (g->targets[k] == q) mark = label[k];
            memcpy(d->cell[q], mark, strlen(mark) + 1);
            truncate_label(d->cell[q], most);
            if (width_of(d->cell[q]) > width) width = width_of(d->cell[q]);
        }
    }
    if (d->used + width + 2 > d->columns) {
        band_end(d);
        band_begin(d);
        if (d->n_lines >= MAX_LINES) return false;
    }
    for (unsigned q = 0; q < n_qubits; q++) {
        qr_buf_puts(&d->wire[q], "─");
        qr_buf_puts(&d->wire[q], d->cell[q]);
        draw_repeat(&d->wire[q], "─", width + 1 - width_of(d->cell[q]));
        qr_buf_puts(&d->below[q], link[q] ? " │" : "  ");
        draw_repeat(&d->below[q], " ", width);
        d->linked[q] = d->linked[q] || link[q];
    }
    d->used += width + 2;
    d->n_drawn += n;
    return true;
}

static void draw_moments(struct drawing *d) {
    const struct qr_circuit *c = d->c;
    size_t *at = qr_xcalloc(c->n_gates, sizeof *at), free_at[QR_MAX_QUBITS] = {0}, n_moments = 0;
    for (size_t i = 0; i < c->n_gates; i++) {
        struct extent s = extent_of(&c->gates[i]);
        for (unsigned q = s.low; q <= s.high; q++)
            if (free_at[q] > at[i]) at[i] = free_at[q];
        for (unsigned q = s.low; q <= s.high; q++) free_at[q] = at[i] + 1;
        if (at[i] + 1 > n_moments) n_moments = at[i] + 1;
    }
    /* Counting sort: the gates of each moment in program order */
    size_t *first = qr_xcalloc(n_moments + 2, sizeof *first),
           *order = qr_xcalloc(c->n_gates, sizeof *order);
    for (size_t i = 0; i < c->n_gates; i++) first[at[i] + 2]++;
    for (size_t m = 2; m < n_moments + 2; m++) first[m] += first[m - 1];
    for (size_t i = 0; i < c->n_gates; i++) order[first[at[i] + 1]++] = i;
    size_t m = 0;
    while (m < n_moments && draw_moment(d, order + first[m], first[m + 1] - first[m])) m++;
    free(at);
    free(first);
    free(order);
}

static void draw_readouts(struct drawing *d, const struct qr_observable *obs, size_t n_obs) {
    if (!n_obs) return;
    size_t used = (size_t)snprintf(NULL, 0, "reads:");
    qr_buf_puts(&d->out, "\nreads:");
    for (size_t r = 0; r < n_obs; r++) {
        char text[2 * LABEL_BYTES];
        snprintf(text, sizeof text, "%.300s", obs[r].text);
        truncate_label(text, d->columns - INDENT - 2);
        if (used + width_of(text) + 2 > d->columns) {
            qr_buf_puts(&d->out, "\n   ");
            used = INDENT - 1;
        }
        qr_buf_printf(&d->out, " %s%s", text, r + 1 < n_obs ? "," : "");
        used += width_of(text) + 2;
    }
    qr_buf_puts(&d->out, "\n");
}

char *qr_circuit_draw(const struct qr_circuit *c, const struct qr_observable *obs, size_t n_obs,
                      unsigned columns) {
    struct drawing *d = qr_xcalloc(1, sizeof *d);
    d->c = c;
    d->columns = columns < MIN_COLUMNS ? MIN_COLUMNS : columns;
    d->prefix = (unsigned)snprintf(NULL, 0, "%u: ", c->n_qubits - 1);
    band_begin(d);
    draw_moments(d);
    band_end(d);
    if (d->n_drawn < c->n_gates)
        qr_buf_printf(&d->out, "\n… and %zu more of %zu gates\n", c->n_gates - d->n_drawn,
                      c->n_gates);
    draw_readouts(d, obs, n_obs);
    char *text = qr_xstrdup(qr_buf_string(&d->out));
    for (unsigned q = 0; q < c->n_qubits; q++) {
        qr_buf_free(&d->wire[q]);
        qr_buf_free(&d->below[q]);
    }
    qr_buf_free(&d->out);
    free(d);
    return text;
}
