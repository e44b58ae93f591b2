#include <math.h>

#include "exact/functions.h"
#include "model/optimizer.h"

const char *const qr_schedule_names[QR_SCHEDULES] = {[QR_SCHEDULE_CONSTANT] = "constant",
                                                     [QR_SCHEDULE_STEP] = "step",
                                                     [QR_SCHEDULE_EXPONENTIAL] = "exponential",
                                                     [QR_SCHEDULE_COSINE] = "cosine"};

/* tf-keras' ExponentialDecay and CosineDecay (without warm-up); `step` is ExponentialDecay
 * with staircase. */
double qr_learning_rate_at(const struct qr_optimizer_options *o, uint64_t step) {
    const struct qr_rate_schedule *s = &o->schedule;
    if (s->kind == QR_SCHEDULE_CONSTANT) return o->learning_rate;
    double at = (double)step, period = (double)s->decay_steps;
    if (s->kind == QR_SCHEDULE_COSINE) {
        double sine, cosine;
        qr_sincospi((at < period ? at : period) / period, &sine, &cosine);
        return o->learning_rate * ((1.0 - s->alpha) * (0.5 * (1.0 + cosine)) + s->alpha);
    }
    double p = at / period;
    if (s->kind == QR_SCHEDULE_STEP || s->staircase) p = floor(p);
    return o->learning_rate * qr_pow(s->decay_rate, p);
}
