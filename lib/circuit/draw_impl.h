/* circuit/draw_impl.h — the layout that all forms of a drawing share: columns of gates that do not
 * overlap, labels of their targets, bands of columns. */
#ifndef QR_CIRCUIT_DRAW_IMPL_H
#define QR_CIRCUIT_DRAW_IMPL_H

#include "base/bytes.h"
#include "circuit/circuit.h"

enum { DRAWN_ARGUMENT = 160 };

/* base(arguments)^exponent(shift); absent parts are empty. Symbols are those of the circuit. */
struct drawn_label {
    char base[40], arguments[2 * DRAWN_ARGUMENT], exponent[DRAWN_ARGUMENT + 2], shift[48];
};
/* What a gate has on a qubit between its outermost ones. */
enum drawn_mark { DRAWN_CROSSING, DRAWN_ON, DRAWN_OFF, DRAWN_NOT, DRAWN_SWAP, DRAWN_LABEL };
struct drawn_gate {
    const struct qr_gate *gate;
    unsigned low, high;      /* the outermost qubits */
    enum drawn_mark mark[2]; /* of the targets */
    struct drawn_label label[2];
    bool one_box; /* the targets are neighbours and exchangeable: the first label is for both */
};
struct drawn_gate drawn_gate_of(const struct qr_circuit *c, const struct qr_gate *g);
/* The mark of a qubit from low to high; *ret_target is set for a target. */
enum drawn_mark drawn_mark_at(const struct drawn_gate *g, unsigned qubit, unsigned *ret_target);
/* The parts of a label in one line. */
void drawn_label_put(const struct drawn_label *l, struct qr_buf *to);
/* The letter of a single Pauli with coefficient 1, and *ret_qubit; 0: another observable. */
char drawn_single_pauli(const struct qr_observable *o, unsigned *ret_qubit);

/* ---- the drawing ---- */

struct drawing {
    const struct qr_circuit *c;
    const struct qr_observable *obs;
    size_t n_obs;
    double width, used, start; /* of a band, so far, before its first column; in the form's unit */
    size_t n_lines, n_drawn;   /* lines of all bands; gates */
    bool last;                 /* the band ends the circuit */
    double y, widest;          /* SVG: top of the band, right end of the bands so far */
    struct qr_buf out;
    /* Of the band: text and LaTeX have a line for each qubit, SVG its marks in wire[0]. */
    struct qr_buf wire[QR_MAX_QUBITS], below[QR_MAX_QUBITS];
    bool linked[QR_MAX_QUBITS]; /* text: the line below this qubit has a connector */
};
/* A form: how wide a column is, and how columns, bands and the end are written. */
struct drawing_form {
    void (*begin)(struct drawing *d); /* sets width and start */
    void (*band)(struct drawing *d);
    double (*measure)(struct drawing *d, const struct drawn_gate *gates, size_t n);
    void (*column)(struct drawing *d, const struct drawn_gate *gates, size_t n, double width);
    void (*band_end)(struct drawing *d);
    void (*end)(struct drawing *d);
};
extern const struct drawing_form drawing_text, drawing_svg, drawing_latex;

/* The letter of a read-out on this qubit alone; 0: none. */
char drawing_readout_at(const struct drawing *d, unsigned qubit);
size_t drawing_width_of(const char *s); /* in characters */
/* Cuts a text to `most` characters, the last being an ellipsis; the buffer has two spare bytes. */
void drawing_truncate(char *s, size_t most);
void drawing_repeat(struct qr_buf *b, const char *s, size_t n);

#endif
