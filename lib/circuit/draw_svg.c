/* circuit/draw_svg.c — drawings as SVG without scripts or styles: boxes, dots and wires. Boxes are
 * blue with a parameter and orange with data. Start reading at svg_column(). */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "circuit/draw_impl.h"

/* Pixels. A character of --columns is CHARACTER wide. */
enum {
    CHARACTER = 8,
    ROW = 38,
    BOX = 28,
    MARK = 18,     /* width of a mark that is not a box */
    GAP = 12,      /* between columns */
    LEFT = 40,     /* names of the qubits */
    RIGHT = 36,    /* read-outs */
    BAND_GAP = 26, /* between bands */
    MARGIN = 10,
    MOST_CHARACTERS = 28, /* of a line in a box */
    MOST_NOTES = 12,
    MOST_TERMS = 8, /* of an observable that is written out */
    NORMAL = 13,
    SMALL = 10
};

static void svg_begin(struct drawing *d) {
    double least = 2 * MARGIN + LEFT + RIGHT + MOST_CHARACTERS * CHARACTER;
    d->width = d->width * CHARACTER < least ? least : d->width * CHARACTER;
    d->start = MARGIN + LEFT;
    d->width -= RIGHT + MARGIN;
    d->y = MARGIN;
}

static double wire_y(const struct drawing *d, unsigned q) { return d->y + ROW * (q + 0.5); }

static void put_escaped(struct qr_buf *to, const char *s) {
    struct qr_buf text = {0};
    qr_buf_put_printable(&text, s);
    for (const char *p = qr_buf_string(&text); *p; p++)
        if (*p == '<') qr_buf_puts(to, "&lt;");
        else if (*p == '>') qr_buf_puts(to, "&gt;");
        else if (*p == '&') qr_buf_puts(to, "&amp;");
        else qr_buf_put(to, p, 1);
    qr_buf_free(&text);
}

/* The width of Helvetica or Arial, and of what replaces them, in parts of the font's size. */
static double text_width(const char *s) {
    double w = 0;
    for (; *s; s++) {
        if (((unsigned char)*s & 0xc0) == 0x80) continue;
        w += strchr("ijl.,:;|!'()[]- ", *s)    ? 0.36
             : strchr("mwMW@%", *s)            ? 0.95
             : (*s >= 'A' && *s <= 'Z')        ? 0.72
             : ((unsigned char)*s & 0x80) != 0 ? 0.75
                                               : 0.6;
    }
    return w;
}

/* ---- boxes ---- */

/* A label in two lines: the name with its exponent, and the arguments. */
struct svg_box {
    char base[64], exponent[2 * DRAWN_ARGUMENT], second[3 * DRAWN_ARGUMENT];
    double width;
};

static struct svg_box box_of(const struct drawn_label *l) {
    struct svg_box b;
    snprintf(b.base, sizeof b.base, "%s", l->base);
    snprintf(b.exponent, sizeof b.exponent, "%s", l->exponent);
    snprintf(b.second, sizeof b.second, "%s%s%s", l->arguments,
             *l->arguments && *l->shift ? ", " : "", l->shift);
    drawing_truncate(b.exponent, MOST_CHARACTERS - 4);
    drawing_truncate(b.second, MOST_CHARACTERS);
    double first = NORMAL * text_width(b.base) + SMALL * text_width(b.exponent),
           second = SMALL * text_width(b.second);
    b.width = 10 + (first > second ? first : second);
    if (b.width < BOX) b.width = BOX;
    return b;
}

static bool uses(const struct qr_circuit *c, const struct qr_gate *g, enum qr_arg_kind kind,
                 enum qr_expression_op op) {
    for (unsigned k = 0; k < g->n_args; k++) {
        const struct qr_gate_arg *a = &g->args[k];
        if (a->kind == kind) return true;
        for (unsigned i = 0; a->kind == QR_ARG_EXPRESSION && i < c->expressions[a->index].n; i++)
            if (c->expressions[a->index].node[i].op == op) return true;
    }
    return false;
}

static const char *fill_of(const struct qr_circuit *c, const struct qr_gate *g) {
    if (uses(c, g, QR_ARG_DATA, QR_EXPRESSION_INPUT) ||
        uses(c, g, QR_ARG_DATA, QR_EXPRESSION_SHARED))
        return "#fdebd0";
    return uses(c, g, QR_ARG_PARAMETER, QR_EXPRESSION_PARAMETER) ? "#dceaf9" : "#ffffff";
}

static void put_text(struct qr_buf *to, double x, double y, int size, const char *text) {
    qr_buf_printf(to, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" fill=\"#222\">", x, y, size);
    put_escaped(to, text);
    qr_buf_puts(to, "</text>\n");
}

/* A box from y to y + height around x. */
static void put_box(struct drawing *d, const struct drawn_gate *g, const struct drawn_label *l,
                    double x, double y, double height) {
    struct qr_buf *to = &d->wire[0], full = {0};
    struct svg_box b = box_of(l);
    double middle = y + height / 2, first = *b.second ? middle - 2 : middle + 4.5;
    drawn_label_put(l, &full);
    qr_buf_puts(to, "<g><title>");
    put_escaped(to, qr_buf_string(&full));
    qr_buf_printf(to,
                  "</title><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\" "
                  "fill=\"%s\" stroke=\"#222\"/>\n<text x=\"%.1f\" y=\"%.1f\" fill=\"#222\">",
                  x - b.width / 2, y, b.width, height, fill_of(d->c, g->gate), x, first);
    put_escaped(to, b.base);
    if (*b.exponent) {
        qr_buf_printf(to, "<tspan dx=\"1\" dy=\"-5\" font-size=\"%d\">", SMALL);
        put_escaped(to, b.exponent);
        qr_buf_puts(to, "</tspan>");
    }
    qr_buf_puts(to, "</text>\n");
    if (*b.second) put_text(to, x, middle + 10, SMALL, b.second);
    qr_buf_puts(to, "</g>\n");
    qr_buf_free(&full);
}

/* ---- columns and bands ---- */

static void widen(struct drawing *d, double x) {
    if (x > d->widest) d->widest = x;
}

static void svg_band(struct drawing *d) { qr_buf_clear(&d->wire[0]); }

static double svg_measure(struct drawing *d, const struct drawn_gate *gates, size_t n) {
    double width = MARK;
    (void)d;
    for (size_t i = 0; i < n; i++)
        for (unsigned k = 0; k < gates[i].gate->n_targets; k++) {
            double w = gates[i].mark[k] == DRAWN_LABEL ? box_of(&gates[i].label[k]).width : 0;
            if (w > width) width = w;
        }
    return width + GAP;
}

static void put_mark(struct drawing *d, const struct drawn_gate *g, unsigned q, double x) {
    struct qr_buf *to = &d->wire[0];
    unsigned k = 0;
    double y = wire_y(d, q);
    switch (drawn_mark_at(g, q, &k)) {
    case DRAWN_CROSSING: return;
    case DRAWN_ON:
    case DRAWN_OFF:
        qr_buf_printf(to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\" stroke=\"#222\"/>\n",
                      x, y, drawn_mark_at(g, q, &k) == DRAWN_ON ? "#222" : "#fff");
        return;
    case DRAWN_NOT:
        qr_buf_printf(to,
                      "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"9\" fill=\"#fff\" stroke=\"#222\"/>"
                      "<path d=\"M%.1f %.1fh18m-9 -9v18\" stroke=\"#222\"/>\n",
                      x, y, x - 9, y);
        return;
    case DRAWN_SWAP:
        qr_buf_printf(to, "<path d=\"M%.1f %.1fl10 10m0 -10l-10 10\" stroke=\"#222\"/>\n", x - 5,
                      y - 5);
        return;
    case DRAWN_LABEL: put_box(d, g, &g->label[k], x, y - BOX / 2.0, BOX);
    }
}

static void svg_column(struct drawing *d, const struct drawn_gate *gates, size_t n, double width) {
    double x = d->used + width / 2;
    for (size_t i = 0; i < n; i++) {
        const struct drawn_gate *g = &gates[i];
        unsigned top =
            g->gate->targets[0] < g->gate->targets[1] ? g->gate->targets[0] : g->gate->targets[1];
        if (g->low < g->high)
            qr_buf_printf(&d->wire[0], "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#222\"/>\n", x,
                          wire_y(d, g->low), wire_y(d, g->high));
        for (unsigned q = g->low; q <= g->high; q++)
            if (!g->one_box || (q != g->gate->targets[0] && q != g->gate->targets[1]))
                put_mark(d, g, q, x);
        if (g->one_box) put_box(d, g, &g->label[0], x, wire_y(d, top) - BOX / 2.0, ROW + BOX);
    }
}

static void svg_band_end(struct drawing *d) {
    qr_buf_printf(&d->out, "<path d=\"");
    for (unsigned q = 0; q < d->c->n_qubits; q++)
        qr_buf_printf(&d->out, "M%d %.1fH%.1f", MARGIN + LEFT - 8, wire_y(d, q), d->used + 8);
    qr_buf_puts(&d->out, "\" stroke=\"#888\"/>\n");
    for (unsigned q = 0; q < d->c->n_qubits; q++) {
        char name[16];
        snprintf(name, sizeof name, "q%u", q);
        put_text(&d->out, MARGIN + (LEFT - 8) / 2.0, wire_y(d, q) + 4.5, NORMAL, name);
        char letter = d->last ? drawing_readout_at(d, q) : 0;
        snprintf(name, sizeof name, "⟨%c⟩", letter);
        if (letter) put_text(&d->out, d->used + 24, wire_y(d, q) + 4.5, NORMAL, name);
    }
    qr_buf_put(&d->out, d->wire[0].p, d->wire[0].n);
    widen(d, d->used);
    d->y += ROW * d->c->n_qubits + BAND_GAP;
    d->n_lines += d->c->n_qubits;
}

static void put_note(struct drawing *d, char *text) {
    double most = d->width / (0.6 * NORMAL);
    drawing_truncate(text, (size_t)most);
    put_text(&d->out, MARGIN, d->y, NORMAL, text);
    d->y += ROW / 2.0;
    widen(d, NORMAL * text_width(text));
}

/* Lines of text below the bands: read-outs on several qubits, and what is not drawn. */
static void put_notes(struct drawing *d) {
    char text[2 * DRAWN_ARGUMENT];
    unsigned q, n = 0;
    qr_buf_puts(&d->out, "<g text-anchor=\"start\">\n");
    if (!d->last) {
        snprintf(text, sizeof text, "… and %zu more of %zu gates", d->c->n_gates - d->n_drawn,
                 d->c->n_gates);
        put_note(d, text);
    }
    for (size_t i = 0; i < d->n_obs; i++) {
        if (drawn_single_pauli(&d->obs[i], &q)) continue;
        if (n++ == MOST_NOTES) {
            snprintf(text, sizeof text, "… of %zu read-outs", d->n_obs);
            put_note(d, text);
            break;
        }
        if (d->obs[i].n_terms > MOST_TERMS)
            snprintf(text, sizeof text, "⟨H⟩ of %zu terms", d->obs[i].n_terms);
        else snprintf(text, sizeof text, "⟨%.300s⟩", d->obs[i].text);
        put_note(d, text);
    }
    qr_buf_puts(&d->out, "</g>\n");
}

static void svg_end(struct drawing *d) {
    put_notes(d);
    struct qr_buf body = d->out;
    double width = d->widest + RIGHT + MARGIN, height = d->y - BAND_GAP + MARGIN;
    d->out = (struct qr_buf){0};
    qr_buf_printf(&d->out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                  "viewBox=\"0 0 %.0f %.0f\" fill=\"none\">\n"
                  "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
                  "<g font-family=\"Helvetica, Arial, Liberation Sans, sans-serif\" "
                  "font-size=\"%d\" text-anchor=\"middle\">\n",
                  width, height, width, height, NORMAL);
    qr_buf_put(&d->out, body.p, body.n);
    qr_buf_puts(&d->out, "</g>\n</svg>\n");
    qr_buf_free(&body);
}

const struct drawing_form drawing_svg = {.begin = svg_begin,
                                         .band = svg_band,
                                         .measure = svg_measure,
                                         .column = svg_column,
                                         .band_end = svg_band_end,
                                         .end = svg_end};
