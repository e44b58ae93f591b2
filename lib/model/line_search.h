/* model/line_search.h — a line search for the strong Wolfe conditions.
 *
 * Moré and Thuente's search (ACM TOMS 20, 1994) as in MINPACK-2 and SciPy (dcsrch, dcstep) and
 * as L-BFGS-B calls it: sufficient decrease 1e-3, curvature 0.9, width 0.1, steps of 0 to 1e10.
 * Use       qr_line_search_begin, then evaluate loss and slope at s->step and call
 *           qr_line_search_next, until it returns false. A search can be interrupted between two
 *           evaluations and continued from its numbers alone.
 * Numbers   all members are float64, so that a search is part of an optimizer's state.
 * Threads   any; a search belongs to one thread at a time.
 */
#ifndef QR_MODEL_LINE_SEARCH_H
#define QR_MODEL_LINE_SEARCH_H

#include <stdbool.h>

/* One end of the interval: step, and loss and slope there. */
struct qr_line_point {
    double step, loss, slope;
};
struct qr_line_search {
    double step;        /* next step to evaluate */
    double bracketed;   /* 1: a minimum lies between best and other */
    double stage;       /* 1: no step has met the sufficient decrease yet; 2: one has */
    double loss, slope; /* at step 0 */
    struct qr_line_point best, other;  /* the lowest loss so far, and the other end */
    double least, most, width, before; /* bounds of the next step; widths of the last intervals */
};

/* Starts a search.
 *
 * Args:     loss, slope  at step 0; slope < 0
 *           step         the first step to try
 */
void qr_line_search_begin(struct qr_line_search *s, double loss, double slope, double step);
/* Processes the evaluation at s->step.
 *
 * Returns:  true: evaluate at the new s->step; false: the search ends with this step, which meets
 *           the conditions, or which rounding prevents from being improved
 */
bool qr_line_search_next(struct qr_line_search *s, double loss, double slope);

#endif
