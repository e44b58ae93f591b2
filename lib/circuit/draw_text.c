/* circuit/draw_text.c — drawings as text: one line per qubit, with connectors between. */
#include <stdio.h>
#include <string.h>

#include "circuit/draw_impl.h"

enum { INDENT = 4, CELL = 2 * DRAWN_ARGUMENT };

static void text_begin(struct drawing *d) {
    d->start = snprintf(NULL, 0, "%u: ", d->c->n_qubits - 1);
}

static void text_band(struct drawing *d) {
    for (unsigned q = 0; q < d->c->n_qubits; q++) {
        qr_buf_clear(&d->wire[q]);
        qr_buf_clear(&d->below[q]);
        d->linked[q] = false;
        qr_buf_printf(&d->wire[q], "%*u: ", (int)d->start - 2, q);
        drawing_repeat(&d->below[q], " ", (size_t)d->start);
    }
}

static void text_band_end(struct drawing *d) {
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

/* What stands on a qubit, cut to the width of a band. */
static void cell_text(const struct drawing *d, const struct drawn_gate *g, unsigned q,
                      char ret[CELL]) {
    static const char *const marks[] = {
        [DRAWN_CROSSING] = "┼", [DRAWN_ON] = "●", [DRAWN_OFF] = "○"};
    unsigned k = 0;
    enum drawn_mark mark = drawn_mark_at(g, q, &k);
    struct qr_buf text = {0};
    if (mark <= DRAWN_OFF) qr_buf_puts(&text, marks[mark]);
    else drawn_label_put(&g->label[k], &text);
    snprintf(ret, CELL - 4, "%s", qr_buf_string(&text));
    qr_buf_free(&text);
    drawing_truncate(ret, (size_t)(d->width - d->start) - 2);
}

static double text_measure(struct drawing *d, const struct drawn_gate *gates, size_t n) {
    char cell[CELL];
    size_t width = 1;
    for (size_t i = 0; i < n; i++)
        for (unsigned q = gates[i].low; q <= gates[i].high; q++) {
            cell_text(d, &gates[i], q, cell);
            if (drawing_width_of(cell) > width) width = drawing_width_of(cell);
        }
    return (double)width + 2;
}

static void text_column(struct drawing *d, const struct drawn_gate *gates, size_t n, double width) {
    const struct drawn_gate *of[QR_MAX_QUBITS] = {NULL};
    size_t most = (size_t)width - 2;
    for (size_t i = 0; i < n; i++)
        for (unsigned q = gates[i].low; q <= gates[i].high; q++) of[q] = &gates[i];
    for (unsigned q = 0; q < d->c->n_qubits; q++) {
        char cell[CELL] = "";
        bool link = of[q] && q < of[q]->high;
        if (of[q]) cell_text(d, of[q], q, cell);
        qr_buf_printf(&d->wire[q], "─%s", cell);
        drawing_repeat(&d->wire[q], "─", most + 1 - drawing_width_of(cell));
        qr_buf_puts(&d->below[q], link ? " │" : "  ");
        drawing_repeat(&d->below[q], " ", most);
        d->linked[q] = d->linked[q] || link;
    }
}

static void text_end(struct drawing *d) {
    static const char reads[] = "reads:";
    size_t used = sizeof reads - 1;
    if (d->n_drawn < d->c->n_gates)
        qr_buf_printf(&d->out, "\n… and %zu more of %zu gates\n", d->c->n_gates - d->n_drawn,
                      d->c->n_gates);
    if (d->n_obs) qr_buf_printf(&d->out, "\n%s", reads);
    for (size_t r = 0; r < d->n_obs; r++) {
        char text[CELL];
        snprintf(text, sizeof text, "%.300s", d->obs[r].text);
        drawing_truncate(text, (size_t)d->width - INDENT - 2);
        if ((double)(used + drawing_width_of(text) + 2) > d->width) {
            qr_buf_puts(&d->out, "\n   ");
            used = INDENT - 1;
        }
        qr_buf_printf(&d->out, " %s%s", text, r + 1 < d->n_obs ? "," : "");
        used += drawing_width_of(text) + 2;
    }
    if (d->n_obs) qr_buf_puts(&d->out, "\n");
}

const struct drawing_form drawing_text = {.begin = text_begin,
                                          .band = text_band,
                                          .measure = text_measure,
                                          .column = text_column,
                                          .band_end = text_band_end,
                                          .end = text_end};
