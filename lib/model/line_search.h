/* model/line_search.h — how far along a direction: a step that meets Wolfe's strong conditions.
 *
 * Moré and Thuente's search (ACM TOMS 20, 1994) as MINPACK-2 and SciPy have it (dcsrch, dcstep) and
 * as L-BFGS-B calls it: sufficient decrease 1e-3, curvature 0.9, width 0.1, steps of 0 to 1e10. One
 * evaluation of loss and slope at a time is asked for and told, so that a search may be cut off
 * between any two and gone on with from its numbers alone.
 * Numbers   all members are float64, so that a search is part of an optimizer's state.
 */
#ifndef QR_MODEL_LINE_SEARCH_H
#define QR_MODEL_LINE_SEARCH_H

#include <stdbool.h>

/* One end of the interval: step, loss there, slope there. */
struct qr_line_point {
    double step, loss, slope;
};
struct qr_line_search {
    double step;        /* where loss and slope are wanted */
    double bracketed;   /* 1: a minimum lies between best and other */
    double stage;       /* 1: no step has met the sufficient decrease yet; 2: one has */
    double loss, slope; /* at step 0 */
    struct qr_line_point best, other;  /* the lowest loss so far, and the other end */
    double least, most, width, before; /* bounds of the next step; widths of the last intervals */
};

/* loss and slope at step 0, slope < 0; the first step to try. */
void qr_line_search_begin(struct qr_line_search *s, double loss, double slope, double step);
/* Of s->step. True: another is wanted, at the new s->step. False: the search ends with this one,
 * which meets the conditions, or rounding lets nothing better be found. */
bool qr_line_search_next(struct qr_line_search *s, double loss, double slope);

#endif
