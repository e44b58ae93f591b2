/* circuit/draw_latex.c — drawings as a LaTeX document with quantikz. Start reading at
 * latex_column(). */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "circuit/draw_impl.h"

enum { MOST_TERMS = 8 }; /* of an observable that is written out */

/* ---- labels in math mode ---- */

/* Letters that LaTeX has a command for, also by their English name. */
static const char *const greek[][2] = {
    {"alpha", "α"},  {"beta", "β"},  {"gamma", "γ"}, {"delta", "δ"}, {"epsilon", "ε"},
    {"zeta", "ζ"},   {"eta", "η"},   {"theta", "θ"}, {"iota", "ι"},  {"kappa", "κ"},
    {"lambda", "λ"}, {"mu", "μ"},    {"nu", "ν"},    {"xi", "ξ"},    {"pi", "π"},
    {"rho", "ρ"},    {"sigma", "σ"}, {"tau", "τ"},   {"phi", "φ"},   {"chi", "χ"},
    {"psi", "ψ"},    {"omega", "ω"}, {"Gamma", "Γ"}, {"Delta", "Δ"}, {"Theta", "Θ"},
    {"Lambda", "Λ"}, {"Phi", "Φ"},   {"Psi", "Ψ"},   {"Omega", "Ω"}, {"dagger", "†"},
    {"times", "×"},  {"sqrt", "√"},  {"dots", "…"},  {"to", "→"}};

static bool is_letter(char ch) { return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z'); }
static bool is_digit(char ch) { return ch >= '0' && ch <= '9'; }

/* A word, and the digits after it as its index: gamma0_1. Returns the end. */
static const char *put_word(struct qr_buf *to, const char *s) {
    size_t n = 0;
    while (is_letter(s[n])) n++;
    const char *command = NULL;
    for (size_t i = 0; i < sizeof greek / sizeof *greek; i++)
        if (strlen(greek[i][0]) == n && memcmp(greek[i][0], s, n) == 0) command = greek[i][0];
    if (command) qr_buf_printf(to, "\\%s", command);
    else if (n == 1) qr_buf_put(to, s, 1);
    else qr_buf_printf(to, "\\mathrm{%.*s}", (int)n, s);
    s += n;
    bool index = false;
    for (; is_digit(*s) || (*s == '_' && is_digit(s[1])); s++) {
        if (!index) qr_buf_puts(to, "_{");
        if (*s != '_') qr_buf_put(to, s, 1);
        else if (index) qr_buf_puts(to, ",");
        index = true;
    }
    qr_buf_puts(to, index ? "}" : command ? " " : "");
    return s;
}

/* A character that is not ASCII. Returns its length. */
static size_t put_symbol(struct qr_buf *to, const char *s) {
    uint32_t point;
    size_t n = qr_utf8_next((const uint8_t *)s, strlen(s), &point);
    for (size_t i = 0; i < sizeof greek / sizeof *greek; i++)
        if (n == strlen(greek[i][1]) && memcmp(greek[i][1], s, n) == 0) {
            bool raised = strcmp(greek[i][0], "dagger") == 0;
            qr_buf_printf(to, raised ? "^\\%s" : "\\%s ", greek[i][0]);
            return n;
        }
    qr_buf_puts(to, "?");
    return n ? n : 1;
}

static void put_math(struct qr_buf *to, const char *s) {
    while (*s) {
        if (is_letter(*s)) {
            s = put_word(to, s);
            continue;
        }
        if (*s & 0x80) {
            s += put_symbol(to, s);
            continue;
        }
        if (*s == '*') qr_buf_puts(to, "\\,");
        else if (*s == '\\') qr_buf_puts(to, "\\backslash ");
        else if (*s == '^' || *s == '~') qr_buf_printf(to, "\\%c{}", *s);
        else if (strchr("_#$%&{}", *s)) qr_buf_printf(to, "\\%c", *s);
        else if (*s > ' ') qr_buf_put(to, s, 1);
        s++;
    }
}

/* RX is R_{X}. */
static void put_base(struct qr_buf *to, const char *base) {
    if (base[0] == 'R' && base[1] >= 'X' && base[1] <= 'Z') qr_buf_printf(to, "R_{%s}", base + 1);
    else put_math(to, base);
}

static void put_label(struct qr_buf *to, const struct drawn_label *l) {
    put_base(to, l->base);
    if (*l->exponent) {
        qr_buf_puts(to, "^{");
        put_math(to, l->exponent);
        qr_buf_puts(to, "}");
    }
    if (*l->arguments || *l->shift) {
        qr_buf_puts(to, "(");
        put_math(to, l->arguments);
        if (*l->arguments && *l->shift) qr_buf_puts(to, ", ");
        put_math(to, l->shift);
        qr_buf_puts(to, ")");
    }
}

/* ---- columns and bands ---- */

static void latex_begin(struct drawing *d) {
    d->start = 4;
    qr_buf_puts(&d->out, "\\documentclass[border=4pt,varwidth=\\maxdimen]{standalone}\n"
                         "\\usepackage{tikz}\n"
                         "\\usetikzlibrary{quantikz}\n"
                         "\\begin{document}\n");
}

static void latex_band(struct drawing *d) {
    for (unsigned q = 0; q < d->c->n_qubits; q++) {
        qr_buf_clear(&d->wire[q]);
        qr_buf_printf(&d->wire[q], "\\lstick{$q_{%u}$}", q);
    }
}

static size_t label_columns(const struct drawn_label *l) {
    return drawing_width_of(l->base) + drawing_width_of(l->arguments) + drawing_width_of(l->shift) +
           drawing_width_of(l->exponent);
}

static double latex_measure(struct drawing *d, const struct drawn_gate *gates, size_t n) {
    size_t width = 1;
    (void)d;
    for (size_t i = 0; i < n; i++)
        for (unsigned k = 0; k < gates[i].gate->n_targets; k++)
            if (gates[i].mark[k] == DRAWN_LABEL && label_columns(&gates[i].label[k]) > width)
                width = label_columns(&gates[i].label[k]);
    return (double)width + 3;
}

static void put_cell(struct drawing *d, const struct drawn_gate *g, unsigned q) {
    static const char *const marks[] = {[DRAWN_CROSSING] = "\\qw",
                                        [DRAWN_ON] = "\\control{}",
                                        [DRAWN_OFF] = "\\ocontrol{}",
                                        [DRAWN_NOT] = "\\targ{}",
                                        [DRAWN_SWAP] = "\\targX{}"};
    struct qr_buf *to = &d->wire[q];
    unsigned k = 0, a = g->gate->targets[0], b = g->gate->targets[1], top = a < b ? a : b;
    enum drawn_mark mark = drawn_mark_at(g, q, &k);
    if (g->one_box && (q == a || q == b)) {
        if (q == top) qr_buf_puts(to, "\\gate[2]{");
        if (q == top) put_label(to, &g->label[0]);
        if (q == top) qr_buf_puts(to, "}");
    } else if (mark == DRAWN_LABEL) {
        qr_buf_puts(to, "\\gate{");
        put_label(to, &g->label[k]);
        qr_buf_puts(to, "}");
    } else {
        qr_buf_puts(to, marks[mark]);
    }
}

static void latex_column(struct drawing *d, const struct drawn_gate *gates, size_t n,
                         double width) {
    const struct drawn_gate *of[QR_MAX_QUBITS] = {NULL};
    (void)width;
    for (size_t i = 0; i < n; i++)
        for (unsigned q = gates[i].low; q <= gates[i].high; q++) of[q] = &gates[i];
    for (unsigned q = 0; q < d->c->n_qubits; q++) {
        qr_buf_puts(&d->wire[q], " & ");
        if (!of[q]) qr_buf_puts(&d->wire[q], "\\qw");
        if (of[q]) put_cell(d, of[q], q);
        bool inside = of[q] && of[q]->one_box && of[q]->high == of[q]->low + 1;
        if (of[q] && q == of[q]->low && q < of[q]->high && !inside)
            qr_buf_printf(&d->wire[q], "\\vqw{%u}", of[q]->high - q);
    }
}

static void latex_band_end(struct drawing *d) {
    qr_buf_puts(&d->out,
                "\\begin{quantikz}[row sep={0.75cm,between origins}, column sep=0.25cm]\n");
    for (unsigned q = 0; q < d->c->n_qubits; q++) {
        qr_buf_printf(&d->out, "%s & \\qw", qr_buf_string(&d->wire[q]));
        char letter = d->last ? drawing_readout_at(d, q) : 0;
        if (letter) qr_buf_printf(&d->out, "\\rstick{$\\langle %c\\rangle$}", letter);
        qr_buf_puts(&d->out, q + 1 < d->c->n_qubits ? " \\\\\n" : "\n");
    }
    qr_buf_puts(&d->out, "\\end{quantikz}\\vspace{0.5cm}\n\n");
    d->n_lines += d->c->n_qubits;
}

static void latex_end(struct drawing *d) {
    if (!d->last)
        qr_buf_printf(&d->out, "$\\dots$ and %zu more of %zu gates\n\n", d->c->n_gates - d->n_drawn,
                      d->c->n_gates);
    for (size_t i = 0; i < d->n_obs; i++) {
        char text[2 * DRAWN_ARGUMENT];
        unsigned q;
        if (drawn_single_pauli(&d->obs[i], &q)) continue;
        if (d->obs[i].n_terms > MOST_TERMS) {
            qr_buf_printf(&d->out, "$\\langle H\\rangle$ of %zu terms\n\n", d->obs[i].n_terms);
            continue;
        }
        snprintf(text, sizeof text, "%.300s", d->obs[i].text);
        drawing_truncate(text, (size_t)d->width);
        qr_buf_puts(&d->out, "$\\langle ");
        put_math(&d->out, text);
        qr_buf_puts(&d->out, "\\rangle$\n\n");
    }
    qr_buf_puts(&d->out, "\\end{document}\n");
}

const struct drawing_form drawing_latex = {.begin = latex_begin,
                                           .band = latex_band,
                                           .measure = latex_measure,
                                           .column = latex_column,
                                           .band_end = latex_band_end,
                                           .end = latex_end};
