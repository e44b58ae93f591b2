/* model/optimizer_lbfgs.c — L-BFGS, an evaluation a step; optimizer.h says how.
 *
 * Source    Nocedal and Wright, Numerical Optimization, algorithms 7.4 and 7.5; what L-BFGS-B 3.0
 *           (and so SciPy) does without bounds: its first step, its line search, when it ends, and
 *           when it forgets its pairs.
 */
#include <math.h>
#include <string.h>

#include "model/line_search.h"
#include "model/optimizer_impl.h"

enum { EVALUATIONS = 20 }; /* of one line search, at most */

/* Products of a state begin as 1. */
enum stage { AT_START = 1, SEARCHES, FLAT, LEVEL, STUCK };

/* What is kept between two evaluations besides vectors: the state's products, so all float64. */
struct kept {
    double stage, iterations, n_pairs, oldest, n_evaluations, loss;
    struct qr_line_search line;
};
_Static_assert(sizeof(struct kept) == QR_LBFGS_PRODUCTS * sizeof(double), "products of a state");

/* The state's vectors: the point that the search goes from, its gradient, the direction; then pairs
 * of step and change of the gradient. */
struct lbfgs {
    size_t n, memory;
    double *w, *point, *gradient, *direction, *pairs;
    struct kept k;
};

static double *step_of(const struct lbfgs *l, size_t age) {
    size_t at = ((size_t)l->k.oldest + age) % l->memory;
    return l->pairs + 2 * at * l->n;
}
static double *change_of(const struct lbfgs *l, size_t age) { return step_of(l, age) + l->n; }

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
        const double *s = step_of(l, p), *y = change_of(l, p);
        curvature[p] = dot(s, y, n);
        by[p] = dot(s, d, n) / curvature[p];
        for (size_t i = 0; i < n; i++) d[i] -= by[p] * y[i];
    }
    if (n_pairs) {
        const double *y = change_of(l, n_pairs - 1);
        double scale = curvature[n_pairs - 1] / dot(y, y, n);
        for (size_t i = 0; i < n; i++) d[i] *= scale;
    }
    for (size_t p = 0; p < n_pairs; p++) {
        const double *s = step_of(l, p), *y = change_of(l, p);
        double back = dot(y, d, n) / curvature[p];
        for (size_t i = 0; i < n; i++) d[i] += (by[p] - back) * s[i];
    }
}

static void go_to_step(struct lbfgs *l) {
    memcpy(l->w, l->point, l->n * sizeof *l->w);
    for (size_t i = 0; i < l->n; i++) qr_weight_move(&l->w[i], l->k.line.step * l->direction[i]);
}

/* From the point on; where even the gradient's direction leads nowhere, the end. */
static void search(struct lbfgs *l) {
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

/* No step was found: once more without what was learnt of the curvature. */
static void fail(struct lbfgs *l) {
    memcpy(l->w, l->point, l->n * sizeof *l->w);
    if (l->k.n_pairs == 0) {
        l->k.stage = STUCK;
        return;
    }
    l->k.n_pairs = 0;
    search(l);
}

/* The pair of the step that was taken, unless its curvature is not positive. */
static void learn(struct lbfgs *l, const double *g) {
    double slope = l->k.line.slope, step = l->k.line.step,
           curvature = (dot(g, l->direction, l->n) - slope) * step;
    if (curvature <= 0x1p-52 * -slope * step) return;
    bool full = l->k.n_pairs == (double)l->memory;
    if (full) l->k.oldest = (double)(((size_t)l->k.oldest + 1) % l->memory);
    else l->k.n_pairs++;
    double *s = step_of(l, (size_t)l->k.n_pairs - 1), *y = s + l->n;
    for (size_t i = 0; i < l->n; i++) {
        s[i] = step * l->direction[i];
        y[i] = g[i] - l->gradient[i];
    }
}

static void accept(struct lbfgs *l, const struct qr_optimizer_options *o, double loss,
                   const double *g) {
    double before = l->k.loss, size = 1;
    if (fabs(before) > size) size = fabs(before);
    if (fabs(loss) > size) size = fabs(loss);
    l->k.iterations++;
    learn(l, g);
    memcpy(l->point, l->w, l->n * sizeof *l->point);
    memcpy(l->gradient, g, l->n * sizeof *g);
    l->k.loss = loss;
    if (largest(g, l->n) <= o->gradient_tolerance) l->k.stage = FLAT;
    else if (before - loss <= o->loss_tolerance * size) l->k.stage = LEVEL;
    else search(l);
}

static void begin(struct lbfgs *l, const struct qr_optimizer_options *o, double loss,
                  const double *g) {
    l->k = (struct kept){.stage = FLAT, .loss = loss};
    memcpy(l->point, l->w, l->n * sizeof *l->point);
    memcpy(l->gradient, g, l->n * sizeof *g);
    if (largest(g, l->n) > o->gradient_tolerance) search(l);
}

/* Near a minimum a loss that float32 has rounded may not fall as the line search wants, though the
 * gradient, whose rounding is as small relative to itself, meets its tolerance. */
static bool is_flat(const struct lbfgs *l, const struct qr_optimizer_options *o, double loss,
                    const double *g) {
    return loss <= l->k.loss && largest(g, l->n) <= o->gradient_tolerance;
}

/* Loss and gradient at the line search's step. */
static void tried(struct lbfgs *l, const struct qr_optimizer_options *o, double loss,
                  const double *g) {
    double step = l->k.line.step;
    bool goes_on = qr_line_search_next(&l->k.line, loss, dot(g, l->direction, l->n));
    if (goes_on ? is_flat(l, o, loss, g) : loss <= l->k.loss) {
        l->k.line.step = step; /* not the next one */
        accept(l, o, loss, g);
    } else if (!goes_on || ++l->k.n_evaluations > EVALUATIONS) {
        fail(l);
    } else {
        go_to_step(l);
    }
}

static void evaluated(const struct qr_optimizer_options *o, double loss, size_t n, const double *g,
                      double *w, double *moments, double *products) {
    struct lbfgs l = {.n = n,
                      .memory = o->memory,
                      .w = w,
                      .point = moments,
                      .gradient = moments + n,
                      .direction = moments + 2 * n,
                      .pairs = moments + 3 * n};
    memcpy(&l.k, products, sizeof l.k);
    if (l.k.stage == AT_START) begin(&l, o, loss, g);
    else if (l.k.stage == SEARCHES) tried(&l, o, loss, g);
    else return;
    memcpy(products, &l.k, sizeof l.k);
}

static const char *ended(const double *products) {
    switch ((enum stage)products[0]) {
    case FLAT: return "no derivative is larger than gradient_tolerance";
    case LEVEL: return "the loss falls by no more than loss_tolerance";
    case STUCK: return "no step of the line search lowers the loss";
    default: return NULL;
    }
}

#define PAIR(i) "step_" #i, "change_" #i
static const char *const names[] = {"point",  "gradient", "direction", PAIR(1),  PAIR(2),  PAIR(3),
                                    PAIR(4),  PAIR(5),    PAIR(6),     PAIR(7),  PAIR(8),  PAIR(9),
                                    PAIR(10), PAIR(11),   PAIR(12),    PAIR(13), PAIR(14), PAIR(15),
                                    PAIR(16), PAIR(17),   PAIR(18),    PAIR(19), PAIR(20)};
_Static_assert(sizeof names / sizeof names[0] == QR_OPTIMIZER_MOMENTS, "a name each");

static size_t moments(const struct qr_optimizer_options *o, const char **ret) {
    size_t n = 3 + 2 * (size_t)o->memory;
    for (size_t i = 0; i < n; i++) ret[i] = names[i];
    return n;
}

const struct qr_optimizer_rule qr_optimizer_lbfgs = {
    .learning_rate = 1,
    .keys = {"memory", "gradient_tolerance", "loss_tolerance"},
    .n_products = QR_LBFGS_PRODUCTS,
    .moments = moments,
    .evaluated = evaluated,
    .ended = ended,
};
