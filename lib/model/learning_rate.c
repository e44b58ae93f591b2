/* model/learning_rate.c — learning-rate schedules. Start reading at qr_rate_schedule_at(). */
#include "model/learning_rate.h"

#include <math.h>

#include "exact/functions.h"

struct rule {
    const char *keys[QR_SCHEDULE_KEYS]; /* keys of a job file; required ones first */
    size_t n_needed;
    double (*rate)(const struct qr_rate_schedule *s, double r, double n);
};

static double constant_rate(const struct qr_rate_schedule *s, double r, double n) {
    (void)s, (void)n;
    return r;
}
static const struct rule constant = {
    .keys = {"initial_learning_rate"},
    .rate = constant_rate,
};

static double step_rate(const struct qr_rate_schedule *s, double r, double n) {
    return r * qr_pow(s->decay_rate, floor(n / (double)s->decay_steps));
}
static const struct rule step = {
    .keys = {"decay_steps", "decay_rate", "initial_learning_rate"},
    .n_needed = 2,
    .rate = step_rate,
};

static double exponential_rate(const struct qr_rate_schedule *s, double r, double n) {
    double p = n / (double)s->decay_steps;
    return r * qr_pow(s->decay_rate, s->staircase ? floor(p) : p);
}
static const struct rule exponential = {
    .keys = {"decay_steps", "decay_rate", "initial_learning_rate", "staircase"},
    .n_needed = 2,
    .rate = exponential_rate,
};

/* Falls from 1 to 0 while x rises from 0 to 1. */
static double half_wave(double x) {
    double sine, cosine;
    qr_sincospi(x, &sine, &cosine);
    return 0.5 * (1.0 + cosine);
}

static double cosine_rate(const struct qr_rate_schedule *s, double r, double n) {
    double d = (double)s->decay_steps;
    return r * ((1.0 - s->alpha) * half_wave((n < d ? n : d) / d) + s->alpha);
}
static const struct rule cosine = {
    .keys = {"decay_steps", "initial_learning_rate", "alpha"},
    .n_needed = 1,
    .rate = cosine_rate,
};

/* Start of period i, in units of the first period. */
static double period_begin(double t_mul, double i) {
    return t_mul == 1.0 ? i : (qr_pow(t_mul, i) - 1.0) / (t_mul - 1.0);
}
/* The period that contains x. Rounding of the logarithms is off by one at most. */
static double period_at(double t_mul, double x) {
    if (t_mul == 1.0) return floor(x);
    double i = floor(qr_log1p(x * (t_mul - 1.0)) / qr_log(t_mul));
    if (x >= period_begin(t_mul, i + 1.0)) return i + 1.0;
    return i > 0 && x < period_begin(t_mul, i) ? i - 1.0 : i;
}
static double cosine_restarts_rate(const struct qr_rate_schedule *s, double r, double n) {
    double x = n / (double)s->decay_steps, i = period_at(s->t_mul, x);
    double over = (x - period_begin(s->t_mul, i)) / qr_pow(s->t_mul, i);
    double wave = half_wave(over) * qr_pow(s->m_mul, i);
    return r * ((1.0 - s->alpha) * wave + s->alpha);
}
static const struct rule cosine_restarts = {
    .keys = {"first_decay_steps", "initial_learning_rate", "t_mul", "m_mul", "alpha"},
    .n_needed = 1,
    .rate = cosine_restarts_rate,
};

static double polynomial_rate(const struct qr_rate_schedule *s, double r, double n) {
    double d = (double)s->decay_steps;
    if (s->cycle) d *= n > 0 ? ceil(n / d) : 1.0;
    else if (n > d) n = d;
    return (r - s->end) * qr_pow(1.0 - n / d, s->power) + s->end;
}
static const struct rule polynomial = {
    .keys = {"decay_steps", "initial_learning_rate", "end_learning_rate", "power", "cycle"},
    .n_needed = 1,
    .rate = polynomial_rate,
};

static double piecewise_rate(const struct qr_rate_schedule *s, double r, double n) {
    size_t i = 0;
    (void)r;
    while (i < s->n_boundaries && n > (double)s->boundaries[i]) i++;
    return s->values[i];
}
static const struct rule piecewise = {
    .keys = {"boundaries", "values"},
    .n_needed = 2,
    .rate = piecewise_rate,
};

const char *const qr_schedule_names[QR_SCHEDULES] = {QR_SCHEDULE_ROWS(QR_ROW_NAME)};
#define RULE(kind, name, rule) [kind] = &(rule),
static const struct rule *const rules[QR_SCHEDULES] = {QR_SCHEDULE_ROWS(RULE)};

struct qr_rate_schedule qr_rate_schedule_defaults(void) {
    return (struct qr_rate_schedule){
        .kind = QR_SCHEDULE_CONSTANT, .t_mul = 2, .m_mul = 1, .end = 0.0001, .power = 1};
}

size_t qr_rate_schedule_keys(enum qr_schedule_kind kind, const char *ret[QR_SCHEDULE_KEYS],
                             size_t *ret_needed) {
    size_t n = 0;
    for (; n < QR_SCHEDULE_KEYS && rules[kind]->keys[n]; n++) ret[n] = rules[kind]->keys[n];
    *ret_needed = rules[kind]->n_needed;
    return n;
}

double qr_rate_schedule_at(const struct qr_rate_schedule *s, double rate, uint64_t at) {
    double n = (double)at, warmup = (double)s->warmup_steps;
    if (at < s->warmup_steps) return (rate - s->warmup_from) * (n / warmup) + s->warmup_from;
    return rules[s->kind]->rate(s, rate, n - warmup);
}
