/* circuit/draw.c — drawings: gates as far left as possible in columns, columns in bands of a
 * limited width. Start reading at qr_circuit_draw(). */
#include <string.h>

#include "base/mem.h"
#include "circuit/draw_impl.h"

enum { MAX_LINES = 4096 };

static const struct {
    const char *name;
    const struct drawing_form *form;
} forms[] = {[QR_DRAWING_TEXT] = {"text", &drawing_text},
             [QR_DRAWING_SVG] = {"svg", &drawing_svg},
             [QR_DRAWING_LATEX] = {"latex", &drawing_latex}};
enum { N_FORMS = sizeof forms / sizeof *forms };

enum qr_code qr_drawing_of(const char *name, enum qr_drawing *ret, struct qr_err *err) {
    for (int i = 0; i < N_FORMS; i++)
        if (strcmp(forms[i].name, name) == 0) {
            *ret = (enum qr_drawing)i;
            return QR_OK;
        }
    return qr_fail(err, QR_INVALID_ARGUMENT, "unknown format '%.40s'; choose text, svg or latex",
                   name);
}

static void draw_columns(struct drawing *d, const struct drawing_form *form) {
    size_t *first, *order, n_columns = qr_circuit_moments(d->c, true, &first, &order);
    struct drawn_gate *gates = qr_xcalloc(d->c->n_qubits, sizeof *gates);
    form->band(d);
    d->used = d->start;
    for (size_t m = 0; m < n_columns; m++) {
        size_t n = first[m + 1] - first[m];
        for (size_t i = 0; i < n; i++)
            gates[i] = drawn_gate_of(d->c, &d->c->gates[order[first[m] + i]]);
        double width = form->measure(d, gates, n);
        if (d->used + width > d->width && d->used > d->start) {
            form->band_end(d);
            if (d->n_lines >= MAX_LINES) break;
            form->band(d);
            d->used = d->start;
        }
        form->column(d, gates, n, width);
        d->used += width;
        d->n_drawn += n;
    }
    d->last = d->n_drawn == d->c->n_gates;
    if (d->last) form->band_end(d);
    free(gates);
    free(first);
    free(order);
}

char *qr_circuit_draw(const struct qr_circuit *c, const struct qr_observable *obs, size_t n_obs,
                      enum qr_drawing drawing, unsigned columns) {
    enum { MIN_COLUMNS = 20 };
    const struct drawing_form *form = forms[drawing].form;
    struct drawing *d = qr_xcalloc(1, sizeof *d);
    d->c = c;
    d->obs = obs;
    d->n_obs = n_obs;
    d->width = columns < MIN_COLUMNS ? MIN_COLUMNS : columns;
    form->begin(d);
    draw_columns(d, form);
    form->end(d);
    char *text = qr_xstrdup(qr_buf_string(&d->out));
    for (unsigned q = 0; q < c->n_qubits; q++) {
        qr_buf_free(&d->wire[q]);
        qr_buf_free(&d->below[q]);
    }
    qr_buf_free(&d->out);
    free(d);
    return text;
}
