/* model/line_search.c — Moré and Thuente's line search. Start reading at qr_line_search_next(). */
#include "model/line_search.h"

#include <math.h>

static const double decrease = 1e-3, curvature = 0.9, narrow = 0.1, longest = 1e10;

void qr_line_search_begin(struct qr_line_search *s, double loss, double slope, double step) {
    *s = (struct qr_line_search){.step = step,
                                 .stage = 1,
                                 .loss = loss,
                                 .slope = slope,
                                 .best = {0, loss, slope},
                                 .other = {0, loss, slope},
                                 .most = step + 4 * step,
                                 .width = longest,
                                 .before = longest / 0.5};
}

static double max_of(double a, double b) { return a > b ? a : b; }
static double min_of(double a, double b) { return a < b ? a : b; }

/* The cubic through a and b with their slopes: dcstep's theta, and gamma without sign. */
struct cubic {
    double theta, gamma;
};
static struct cubic cubic_of(struct qr_line_point a, struct qr_line_point b) {
    double theta = 3.0 * (a.loss - b.loss) / (b.step - a.step) + a.slope + b.slope;
    double scale = max_of(fabs(theta), max_of(fabs(a.slope), fabs(b.slope)));
    double under = theta / scale * (theta / scale) - a.slope / scale * (b.slope / scale);
    return (struct cubic){theta, scale * sqrt(max_of(0, under))};
}

/* The minimum of the cubic, relative to `from`. */
static double cubic_step(struct qr_line_point from, struct qr_line_point to, double theta,
                         double gamma) {
    double p = (gamma - from.slope) + theta, q = ((gamma - from.slope) + gamma) + to.slope;
    return from.step + p / q * (to.step - from.step);
}

/* The minimum according to the two slopes, relative to `from`. */
static double secant_step(struct qr_line_point from, struct qr_line_point to) {
    return from.step + from.slope / (from.slope - to.slope) * (to.step - from.step);
}

/* A higher loss: the minimum is bracketed. */
static double step_back(struct qr_line_point x, struct qr_line_point p) {
    struct cubic c = cubic_of(x, p);
    double by_cubic = cubic_step(x, p, c.theta, p.step < x.step ? -c.gamma : c.gamma);
    double fall = (x.loss - p.loss) / (p.step - x.step) + x.slope;
    double by_square = x.step + x.slope / fall / 2.0 * (p.step - x.step);
    if (fabs(by_cubic - x.step) <= fabs(by_square - x.step)) return by_cubic;
    return by_cubic + (by_square - by_cubic) / 2.0;
}

/* A lower loss and a slope of the other sign: also bracketed. */
static double step_between(struct qr_line_point x, struct qr_line_point p) {
    struct cubic c = cubic_of(x, p);
    double by_cubic = cubic_step(p, x, c.theta, p.step > x.step ? -c.gamma : c.gamma);
    double by_secant = secant_step(p, x);
    return fabs(by_cubic - p.step) > fabs(by_secant - p.step) ? by_cubic : by_secant;
}

/* A lower loss and a flatter slope of the same sign. */
static double step_on(const struct qr_line_search *s, struct qr_line_point p) {
    struct qr_line_point x = s->best, y = s->other;
    struct cubic c = cubic_of(x, p);
    double gamma = p.step > x.step ? -c.gamma : c.gamma;
    double r = ((gamma - p.slope) + c.theta) / ((gamma + (x.slope - p.slope)) + gamma);
    double by_cubic = r < 0 && gamma != 0 ? p.step + r * (x.step - p.step)
                      : p.step > x.step   ? s->most
                                          : s->least;
    double by_secant = secant_step(p, x);
    bool cubic_is_near = fabs(by_cubic - p.step) < fabs(by_secant - p.step);
    if (!s->bracketed) {
        bool cubic_is_far = fabs(by_cubic - p.step) > fabs(by_secant - p.step);
        return max_of(s->least, min_of(s->most, cubic_is_far ? by_cubic : by_secant));
    }
    double step = cubic_is_near ? by_cubic : by_secant, at = p.step + 0.66 * (y.step - p.step);
    return p.step > x.step ? min_of(at, step) : max_of(at, step);
}

/* A lower loss and a slope that is at least as steep. */
static double step_far(const struct qr_line_search *s, struct qr_line_point p) {
    if (!s->bracketed) return p.step > s->best.step ? s->most : s->least;
    struct cubic c = cubic_of(p, s->other); /* theta and gamma do not depend on the direction */
    return cubic_step(p, s->other, c.theta, p.step > s->other.step ? -c.gamma : c.gamma);
}

static double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

/* Sets the next step, and the interval that p gives. */
static void update_interval(struct qr_line_search *s, struct qr_line_point p) {
    bool turns = sign_of(p.slope) * sign_of(s->best.slope)<0, higher = p.loss> s->best.loss;
    s->step = higher                                ? step_back(s->best, p)
              : turns                               ? step_between(s->best, p)
              : fabs(p.slope) < fabs(s->best.slope) ? step_on(s, p)
                                                    : step_far(s, p);
    if (higher || turns) s->bracketed = 1;
    if (higher) {
        s->other = p;
    } else {
        if (turns) s->other = s->best;
        s->best = p;
    }
}

/* The loss minus the sufficient decrease; lowered() is the inverse. */
static struct qr_line_point lifted(struct qr_line_point p, double by) {
    return (struct qr_line_point){p.step, p.loss - p.step * by, p.slope - by};
}
static struct qr_line_point lowered(struct qr_line_point p, double by) {
    return (struct qr_line_point){p.step, p.loss + p.step * by, p.slope + by};
}

static bool interval_exhausted(const struct qr_line_search *s) {
    return s->bracketed &&
           (s->step <= s->least || s->step >= s->most || s->most - s->least <= narrow * s->most);
}

static void set_bounds(struct qr_line_search *s) {
    double best = s->best.step, other = s->other.step;
    if (!s->bracketed) {
        s->least = s->step + 1.1 * (s->step - best);
        s->most = s->step + 4.0 * (s->step - best);
        return;
    }
    if (fabs(other - best) >= 0.66 * s->before) s->step = best + 0.5 * (other - best);
    s->before = s->width;
    s->width = fabs(other - best);
    s->least = min_of(best, other);
    s->most = max_of(best, other);
}

bool qr_line_search_next(struct qr_line_search *s, double loss, double slope) {
    struct qr_line_point p = {s->step, loss, slope};
    double falls = decrease * s->slope, enough = s->loss + s->step * falls;
    if (s->stage == 1 && loss <= enough && slope >= 0) s->stage = 2;
    bool ends = interval_exhausted(s) || (s->step == longest && loss <= enough && slope <= falls) ||
                (s->step == 0 && (loss > enough || slope >= falls)) ||
                (loss <= enough && fabs(slope) <= curvature * -s->slope);
    if (ends) return false;
    if (s->stage == 1 && loss <= s->best.loss && loss > enough) {
        s->best = lifted(s->best, falls);
        s->other = lifted(s->other, falls);
        update_interval(s, lifted(p, falls));
        s->best = lowered(s->best, falls);
        s->other = lowered(s->other, falls);
    } else {
        update_interval(s, p);
    }
    set_bounds(s);
    s->step = max_of(0, min_of(longest, s->step));
    if (interval_exhausted(s)) s->step = s->best.step;
    return true;
}
