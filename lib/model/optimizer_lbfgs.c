/* model/optimizer_lbfgs.c — L-BFGS, one evaluation per step; optimizer.h describes it. Start
 * reading at lbfgs_evaluated().
 *
 * Source    Nocedal and Wright, Numerical Optimization, algorithms 7.4 and 7.5; L-BFGS-B 3.0 (and
 *           so SciPy) without bounds: its first step, its line search, its end conditions, and when
 *           it discards its pairs.
 */
#include <math.h>
#include <string.h>

#include "model/line_search.h"
#include "model/optimizer_impl.h"

enum { EVALUATIONS = 20 }; /* maximum of one line search */

/* Products of a state begin as 1. */
enum stage { AT_START = 1, SEARCHES, FLAT, LEVEL, STUCK };

/* Numbers kept between two evaluations besides vectors: the state's products, so all float64. */
struct kept {
    double stage, iterations, n_pairs, oldest, n_evaluations, loss;
    struct qr_line_search line;
};
_Static_assert(sizeof(struct kept) == QR_LBFGS_PRODUCTS * sizeof(double), "products of a state");

/* The state's vectors: the point that the search starts from, its gradient, the direction; then
 * pairs of step and change of the gradient. */
struct lbfgs {
    size_t n, memory;
    double *w, *point, *gradient, *direction, *pairs;
    struct kept k;
};

static double *pair_step(const struct lbfgs *l, size_t age) {
    size_t at = ((size_t)l->k.oldest + age) % l->memory;
    return l->pairs + 2 * at * l->n;
}
static double *pair_change(const struct lbfgs *l, size_t age) { return pair_step(l, age) + l->n; }

static double dot(const double *a, const double *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static double largest(const double *g, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) most = fabs(g[i]) > most ? fabs(g[i]) : most;
    return most;
}

/* direction = - (inverse Hessian) gradient, by the pairs. */
static void set_direction(struct lbfgs *l) {
    size_t n = l->n, n_pairs = (size_t)l->k.n_pairs;
    double *d = l->direction, by[QR_LBFGS_MEMORY], curvature[QR_LBFGS_MEMORY];
    for (size_t i = 0; i < n; i++) d[i] = -l->gradient[i];
    for (size_t p = n_pairs; p-- > 0;) {
        const double *s = pair_step(l, p), *y = pair_change(l, p);
        curvature[p] = dot(s, y, n);
        by[p] = dot(s, d, n) / curvature[p];
        for (size_t i = 0; i < n; i++) d[i] -= by[p] * y[i];
    }
    if (n_pairs) {
        const double *y = pair_change(l, n_pairs - 1);
        double scale = curvature[n_pairs - 1] / dot(y, y, n);
        for (size_t i = 0; i < n; i++) d[i] *= scale;
    }
    for (size_t p = 0; p < n_pairs; p++) {
        const double *s = pair_step(l, p), *y = pair_change(l, p);
        double back = dot(y, d, n) / curvature[p];
        for (size_t i = 0; i < n; i++) d[i] += (by[p] - back) * s[i];
    }
}

static void go_to_step(struct lbfgs *l) {
    memcpy(l->w, l->point, l->n * sizeof *l->w);
    for (size_t i = 0; i < l->n; i++) qr_weight_move(&l->w[i], l->k.line.step * l->direction[i]);
}

/* Starts a line search from the point; without pairs the direction is the steepest descent, and if
 * that is not a descent either, the optimizer ends. */
static void lbfgs_search(struct lbfgs *l) {
    for (;;) {
        set_direction(l);
        double slope = dot(l->gradient, l->direction, l->n),
               length = sqrt(dot(l->direction, l->direction, l->n)), first = 1;
        if (l->k.iterations == 0) first = 1 / length < 1e10 ? 1 / length : 1e10;
        l->k.n_evaluations = 1;
        l->k.stage = SEARCHES;
        qr_line_search_begin(&l->k.line, l->k.loss, slope, first);
        if (slope < 0) return go_to_step(l);
        if (l->k.n_pairs == 0) break;
        l->k.n_pairs = 0;
    }
    l->k.stage = STUCK;
}

/* The search found no step: tries again without the pairs. */
static void lbfgs_fail(struct lbfgs *l) {
    memcpy(l->w, l->point, l->n * sizeof *l->w);
    if (l->k.n_pairs == 0) {
        l->k.stage = STUCK;
        return;
    }
    l->k.n_pairs = 0;
    lbfgs_search(l);
}

/* Adds the pair of the accepted step, unless its curvature is not positive. */
static void lbfgs_add_pair(struct lbfgs *l, const double *g) {
    double slope = l->k.line.slope, step = l->k.line.step,
           curvature = (dot(g, l->direction, l->n) - slope) * step;
    if (curvature <= 0x1p-52 * -slope * step) return;
    bool full = l->k.n_pairs == (double)l->memory;
    if (full) l->k.oldest = (double)(((size_t)l->k.oldest + 1) % l->memory);
    else l->k.n_pairs++;
    double *s = pair_step(l, (size_t)l->k.n_pairs - 1), *y = s + l->n;
    for (size_t i = 0; i < l->n; i++) {
        s[i] = step * l->direction[i];
        y[i] = g[i] - l->gradient[i];
    }
}

static void lbfgs_accept(struct lbfgs *l, const struct qr_optimizer_options *o, double loss,
                         const double *g) {
    double before = l->k.loss, size = 1;
    if (fabs(before) > size) size = fabs(before);
    if (fabs(loss) > size) size = fabs(loss);
    l->k.iterations++;
    lbfgs_add_pair(l, g);
    memcpy(l->point, l->w, l->n * sizeof *l->point);
    memcpy(l->gradient, g, l->n * sizeof *g);
    l->k.loss = loss;
    if (largest(g, l->n) <= o->gradient_tolerance) l->k.stage = FLAT;
    else if (before - loss <= o->loss_tolerance * size) l->k.stage = LEVEL;
    else lbfgs_search(l);
}

static void lbfgs_begin(struct lbfgs *l, const struct qr_optimizer_options *o, double loss,
                        const double *g) {
    l->k = (struct kept){.stage = FLAT, .loss = loss};
    memcpy(l->point, l->w, l->n * sizeof *l->point);
    memcpy(l->gradient, g, l->n * sizeof *g);
    if (largest(g, l->n) > o->gradient_tolerance) lbfgs_search(l);
}

/* Near a minimum a loss rounded by float32 may not decrease as the line search requires, although
 * the gradient, which has the same relative rounding, meets its tolerance. */
static bool is_flat(const struct lbfgs *l, const struct qr_optimizer_options *o, double loss,
                    const double *g) {
    return loss <= l->k.loss && largest(g, l->n) <= o->gradient_tolerance;
}

/* Processes loss and gradient at the line search's step. */
static void lbfgs_tried(struct lbfgs *l, const struct qr_optimizer_options *o, double loss,
                        const double *g) {
    double step = l->k.line.step;
    bool goes_on = qr_line_search_next(&l->k.line, loss, dot(g, l->direction, l->n));
    if (goes_on ? is_flat(l, o, loss, g) : loss <= l->k.loss) {
        l->k.line.step = step; /* not the next one */
        lbfgs_accept(l, o, loss, g);
    } else if (!goes_on || ++l->k.n_evaluations > EVALUATIONS) {
        lbfgs_fail(l);
    } else {
        go_to_step(l);
    }
}

static void lbfgs_evaluated(const struct qr_optimizer_options *o, double loss, size_t n,
                            const double *g, double *w, double *moments, double *products) {
    struct lbfgs l = {.n = n,
                      .memory = o->memory,
                      .w = w,
                      .point = moments,
                      .gradient = moments + n,
                      .direction = moments + 2 * n,
                      .pairs = moments + 3 * n};
    memcpy(&l.k, products, sizeof l.k);
    if (l.k.stage == AT_START) lbfgs_begin(&l, o, loss, g);
    else if (l.k.stage == SEARCHES) lbfgs_tried(&l, o, loss, g);
    else return;
    memcpy(products, &l.k, sizeof l.k);
}

static const char *lbfgs_ended(const double *products) {
    switch ((enum stage)products[0]) {
    case FLAT: return "no derivative is larger than gradient_tolerance";
    case LEVEL: return "the loss falls by no more than loss_tolerance";
    case STUCK: return "no step of the line search lowers the loss";
    default: return NULL;
    }
}

#define PAIR(i) "step_" #i, "change_" #i
static const char *const moment_names[] = {
    "point",  "gradient", "direction", PAIR(1),  PAIR(2),  PAIR(3),  PAIR(4),  PAIR(5),
    PAIR(6),  PAIR(7),    PAIR(8),     PAIR(9),  PAIR(10), PAIR(11), PAIR(12), PAIR(13),
    PAIR(14), PAIR(15),   PAIR(16),    PAIR(17), PAIR(18), PAIR(19), PAIR(20)};
_Static_assert(sizeof moment_names / sizeof moment_names[0] == QR_OPTIMIZER_MOMENTS, "a name each");

static size_t lbfgs_moments(const struct qr_optimizer_options *o, const char **ret) {
    size_t n = 3 + 2 * (size_t)o->memory;
    for (size_t i = 0; i < n; i++) ret[i] = moment_names[i];
    return n;
}

const struct qr_optimizer_rule qr_optimizer_lbfgs = {
    .learning_rate = 1,
    .keys = {"memory", "gradient_tolerance", "loss_tolerance"},
    .n_products = QR_LBFGS_PRODUCTS,
    .moments = lbfgs_moments,
    .evaluated = lbfgs_evaluated,
    .ended = lbfgs_ended,
};
