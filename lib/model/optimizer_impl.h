/* model/optimizer_impl.h — the rule that an optimizer's file provides. */
#ifndef QR_MODEL_OPTIMIZER_IMPL_H
#define QR_MODEL_OPTIMIZER_IMPL_H

#include "model/optimizer.h"

/* Moments of some weights: vector k begins at v + k * row. */
struct qr_moments {
    double *v;
    size_t row;
};

struct qr_optimizer_rule {
    double learning_rate;                /* Keras' default */
    const char *keys[QR_OPTIMIZER_KEYS]; /* options as keys of a job file, terminated by NULL */
    size_t n_products;
    /* Required, also of a rule without state, which returns 0. Writes the names of the vectors that
     * the options use, in their order; returns how many. */
    size_t (*moments)(const struct qr_optimizer_options *o, const char **ret);
    /* Initial value of all vectors; NULL: 0. */
    double (*begin)(const struct qr_optimizer_options *o);
    /* Sets Keras' defaults that differ from the common ones; NULL: none. */
    void (*set_defaults)(struct qr_optimizer_options *o);
    /* Updates the products at the beginning of a step; NULL: none. */
    void (*advance)(const struct qr_optimizer_options *o, double *products);
    /* Updates n weights w by the gradient g, independently of one another (parts run in any
     * order), by qr_weight_move, so that a change of 0 keeps the bits of -0. */
    void (*update)(const struct qr_optimizer_options *o, double lr, size_t n, const double *g,
                   double *w, struct qr_moments moments, const double *products);
    /* Factor of the schedule's rate; NULL: 1. */
    double (*gain)(const struct qr_optimizer_options *o, uint64_t step);
    /* With two points: the points, and the gradient estimated from the losses (optimizer.h). NULL:
     * the rule takes a gradient. */
    void (*points)(const struct qr_optimizer_options *o, uint64_t seed, uint64_t step, size_t n,
                   const uint8_t *still, const double *w, double *ret_plus, double *ret_minus);
    void (*estimate)(const struct qr_optimizer_options *o, uint64_t seed, uint64_t step, size_t n,
                     const uint8_t *still, double difference, double *ret);
    /* Instead of update, for a rule with a line search: loss and gradient at w; sets w to the next
     * point to evaluate. The first of its moments is the point reached. NULL: no line search. */
    void (*evaluated)(const struct qr_optimizer_options *o, double loss, size_t n, const double *g,
                      double *w, double *moments, double *products);
    /* Why the optimizer has ended; NULL: it has not */
    const char *(*ended)(const double *products);
};

#define QR_OPTIMIZER_RULE(kind, name, rule) extern const struct qr_optimizer_rule rule;
QR_OPTIMIZER_ROWS(QR_OPTIMIZER_RULE)
#undef QR_OPTIMIZER_RULE

/* Adds to a weight; a change of exactly 0 leaves all bits unchanged, also the sign of -0. */
static inline void qr_weight_move(double *w, double by) {
    if (by != 0) *w += by;
}

/* Two weights at a time, each computed as on its own. */
typedef double qr_two __attribute__((vector_size(16)));
typedef double qr_two_at __attribute__((vector_size(16), aligned(8), may_alias));
typedef int64_t qr_two_words __attribute__((vector_size(16)));

/* a where the word is -1, b where it is 0 */
static inline qr_two qr_two_select(qr_two_words which, qr_two a, qr_two b) {
    return (qr_two)(((qr_two_words)a & which) | ((qr_two_words)b & ~which));
}

static inline void qr_two_move(double *w, qr_two by) {
    qr_two was = *(const qr_two_at *)w;
    *(qr_two_at *)w = qr_two_select(by != 0, was + by, was);
}

#endif
