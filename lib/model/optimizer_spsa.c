/* model/optimizer_spsa.c — simultaneous perturbation stochastic approximation (Spall, IEEE TAC 37,
 * 1992; the gains of Spall 1998), as in PennyLane; optimizer.h has the formulas. Start reading at
 * spsa_points(). */
#include <string.h>

#include "exact/functions.h"
#include "exact/random.h"
#include "model/optimizer_impl.h"

static size_t spsa_moments(const struct qr_optimizer_options *o, const char **ret) {
    (void)o, (void)ret;
    return 0;
}

/* Spall's a_k over a_1; k counts from 1. */
static double spsa_gain(const struct qr_optimizer_options *o, uint64_t step) {
    return qr_pow((o->stability + 1.0) / (o->stability + ((double)step + 1.0)), o->alpha);
}

/* c_k */
static double spsa_perturbation(const struct qr_optimizer_options *o, uint64_t step) {
    return o->perturbation / qr_pow((double)step + 1.0, o->gamma);
}

/* Word i of a step has the signs of 64 weights. */
static bool spsa_sign_is_positive(uint64_t seed, uint64_t step, size_t i) {
    return qr_random_u64(seed, QR_RANDOM_SPSA, (uint32_t)(i / 64), step) >> i % 64 & 1;
}

static void spsa_points(const struct qr_optimizer_options *o, uint64_t seed, uint64_t step,
                        size_t n, const uint8_t *still, const double *w, double *ret_plus,
                        double *ret_minus) {
    double by = spsa_perturbation(o, step);
    memcpy(ret_plus, w, n * sizeof *w);
    memcpy(ret_minus, w, n * sizeof *w);
    for (size_t i = 0; i < n; i++) {
        if (still[i]) continue;
        double towards = spsa_sign_is_positive(seed, step, i) ? by : -by;
        ret_plus[i] += towards;
        ret_minus[i] -= towards;
    }
}

static void spsa_estimate(const struct qr_optimizer_options *o, uint64_t seed, uint64_t step,
                          size_t n, const uint8_t *still, double difference, double *ret) {
    double slope = difference / (2.0 * spsa_perturbation(o, step));
    for (size_t i = 0; i < n; i++)
        ret[i] = still[i] ? 0 : spsa_sign_is_positive(seed, step, i) ? slope : -slope;
}

static void spsa_update(const struct qr_optimizer_options *o, double lr, size_t n, const double *g,
                        double *w, struct qr_moments moments, const double *products) {
    qr_optimizer_sgd.update(o, lr, n, g, w, moments, products);
}

const struct qr_optimizer_rule qr_optimizer_spsa = {
    .learning_rate = 0.05,
    .keys = {"perturbation", "stability", "alpha", "gamma"},
    .moments = spsa_moments,
    .gain = spsa_gain,
    .points = spsa_points,
    .estimate = spsa_estimate,
    .update = spsa_update,
};
