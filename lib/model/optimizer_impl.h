/* model/optimizer_impl.h — what an optimizer's own file gives: its rule. */
#ifndef QR_MODEL_OPTIMIZER_IMPL_H
#define QR_MODEL_OPTIMIZER_IMPL_H

#include "model/optimizer.h"

/* Of some weights: vector k begins at v + k * row. */
struct qr_moments {
    double *v;
    size_t row;
};

struct qr_optimizer_rule {
    double learning_rate;                /* Keras' default */
    const char *keys[QR_OPTIMIZER_KEYS]; /* options as keys of a job file; NULL ends them */
    size_t n_products;
    /* Names of the vectors that the options use, in the order in which they stand; returns
     * how many. */
    size_t (*moments)(const struct qr_optimizer_options *o, const char **ret);
    /* What all of them begin with; NULL: 0. */
    double (*begin)(const struct qr_optimizer_options *o);
    /* Keras' defaults that others have otherwise; NULL: there are none. */
    void (*set_defaults)(struct qr_optimizer_options *o);
    /* What a step makes of the products, first of all; NULL: it has none. */
    void (*advance)(const struct qr_optimizer_options *o, double *products);
    /* One update of w by the gradient g: of n weights, each by itself. */
    void (*update)(const struct qr_optimizer_options *o, double lr, size_t n, const double *g,
                   double *w, struct qr_moments moments, const double *products);
    /* What a step's rate is of the schedule's; NULL: all of it. */
    double (*gain)(const struct qr_optimizer_options *o, uint64_t step);
    /* Of a rule that wants the loss alone, at two points: these, and the gradient that follows
     * (optimizer.h). NULL: it wants the gradient. */
    void (*points)(const struct qr_optimizer_options *o, uint64_t seed, uint64_t step, size_t n,
                   const uint8_t *still, const double *w, double *ret_plus, double *ret_minus);
    void (*estimate)(const struct qr_optimizer_options *o, uint64_t seed, uint64_t step, size_t n,
                     const uint8_t *still, double difference, double *ret);
    /* Instead of update, of a rule that finds its own steps: loss and gradient at w; w becomes
     * where they are wanted next. The first of its moments is the point that it has reached. NULL:
     * it is no such rule. */
    void (*evaluated)(const struct qr_optimizer_options *o, double loss, size_t n, const double *g,
                      double *w, double *moments, double *products);
    const char *(*ended)(const double *products); /* why, or NULL: it has not */
};

#define QR_OPTIMIZER_RULE(kind, name, rule) extern const struct qr_optimizer_rule rule;
QR_OPTIMIZER_ROWS(QR_OPTIMIZER_RULE)
#undef QR_OPTIMIZER_RULE

/* An update of exactly 0 leaves the weight alone, the sign of a -0 too. */
static inline void qr_weight_move(double *w, double by) {
    if (by != 0) *w += by;
}

/* Two weights at a time; each as by itself. */
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
