/* sim/sim.c — the public functions: they forward to the plan's engine, around the lowered circuit's
 * samples, read-out errors and parameter shifts. Start reading at qr_sim_compile(). */
#include "sim/sim.h"

#include <string.h>

#include "base/mem.h"
#include "sim/compile.h"
#include "sim/fusion/bind.h"
#include "sim/fusion/workspace.h"
#include "sim/readout_errors.h"
#include "sim/shift.h"

enum qr_code qr_sim_compile(const struct qr_circuit *circuit,
                            const struct qr_observable *observables, size_t n_observables,
                            const struct qr_sim_options *opt, struct qr_sim_plan **ret,
                            struct qr_err *err) {
    struct qr_observable *read = NULL;
    struct qr_sim_plan *p = NULL;
    if (circuit->readout_errors && !(opt->shots && opt->parameter_shift))
        QR_TRY(qr_readouts_with_errors(observables, n_observables,
                                       (const double(*)[2])circuit->readout_errors, &read, err));
    const struct qr_observable *obs = read ? read : observables;
    enum qr_code code = qr_plan_compile(circuit, obs, observables, n_observables, opt, &p, err);
    if (code == QR_OK && opt->parameter_shift)
        code = qr_shift_new(p->lowered ? p->lowered->circuit : circuit, p->wanted, p->zero_gradient,
                            opt->shots ? observables : obs, n_observables, opt, &p->shift, err);
    qr_readouts_free(read, n_observables);
    if (code == QR_OK) *ret = p;
    else qr_sim_plan_free(p);
    return code;
}

void qr_sim_plan_free(struct qr_sim_plan *p) {
    if (p) qr_shift_free(p->shift);
    qr_plan_free(p);
}

enum qr_engine qr_sim_engine_of(const struct qr_sim_plan *p) { return qr_plan_engine(p); }

const char *qr_sim_engine_name(const struct qr_sim_plan *p) { return p->engine->name; }
size_t qr_sim_micro_batch_size(const struct qr_sim_plan *p, size_t batch_size) {
    return p->engine->micro_batch_size ? p->engine->micro_batch_size(p, batch_size)
           : p->lanes_are_samples      ? QR_LANES
                                       : 1;
}
bool qr_sim_micro_batches_in_parallel(const struct qr_sim_plan *p) {
    return p->engine->micro_batches_in_parallel(p);
}
bool qr_sim_threads_share(const struct qr_sim_plan *p) {
    return !qr_sim_micro_batches_in_parallel(p) ||
           (p->engine->threads_share && p->engine->threads_share(p));
}

size_t qr_sim_bytes_per_thread(const struct qr_sim_plan *p, size_t max_samples) {
    size_t shift =
        p->shift ? qr_shift_bytes(p->shift, max_samples) + 2 * p->n_params * sizeof(double) : 0;
    return qr_workspace_buffers(p, max_samples).bytes + shift;
}

struct qr_sim_facts qr_sim_facts(const struct qr_sim_plan *p) {
    const struct qr_sim_report_options one = {.n_samples = qr_sim_micro_batch_size(p, 1),
                                              .head_known = true};
    struct qr_sim_report *r = qr_sim_report_new(p, &one);
    struct qr_sim_facts f = {.n_gates = p->n_gates,
                             .n_fused = p->n_fused,
                             .n_passes = r->n_passes,
                             .engine = r->engine,
                             .flop_per_gradient = r->flop / (double)one.n_samples};
    qr_sim_report_free(r);
    return f;
}

size_t qr_sim_bound_bytes(const struct qr_sim_plan *p) { return qr_bound_bytes(p); }
struct qr_sim_bound *qr_sim_bound_new(const struct qr_sim_plan *p) {
    return qr_bound_new(p);
}
void qr_sim_bound_free(struct qr_sim_bound *b) { qr_bound_free(b); }
void qr_sim_bind(struct qr_sim_bound *b, const double *theta, struct qr_pool *pool) {
    qr_bound_set(b, theta, pool);
}
enum qr_code qr_sim_workspace_new(const struct qr_sim_plan *p, size_t max_samples,
                                  struct qr_sim_workspace **ret, struct qr_err *err) {
    struct qr_sim_workspace *ws;
    QR_TRY(qr_workspace_new(p, max_samples, &ws, err));
    if (p->shift) {
        ws->shift_params = qr_xcalloc(2 * p->n_params + 1, sizeof *ws->shift_params);
        enum qr_code code = qr_shift_workspace_new(p->shift, max_samples, &ws->shift, err);
        if (code != QR_OK) {
            qr_sim_workspace_free(ws);
            return code;
        }
    }
    *ret = ws;
    return QR_OK;
}
void qr_sim_workspace_free(struct qr_sim_workspace *ws) {
    if (!ws) return;
    qr_shift_workspace_free(ws->shift);
    free(ws->shift_params);
    qr_workspace_free(ws);
}

void qr_sim_set_draw(struct qr_sim_workspace *ws, const struct qr_sim_draw *draw) {
    ws->draw = *draw;
}

/* The samples as the engine takes them. */
static const double *sim_lower(const struct qr_sim_bound *b, struct qr_sim_workspace *ws,
                               const double *x, size_t *x_stride, size_t n_samples) {
    QR_ASSERT(ws->plan == b->plan);
    if (!b->plan->lowered) return x;
    x = qr_workspace_lower(b, ws, x, *x_stride, n_samples);
    *x_stride = b->plan->n_columns;
    return x;
}

static void sim_forward(const struct qr_sim_bound *b, struct qr_sim_workspace *ws,
                        struct qr_pool *pool, const double *x, size_t x_stride, size_t n_samples,
                        bool gradient, const double *direction, double *ret_z) {
    x = sim_lower(b, ws, x, &x_stride, n_samples);
    if (ws->shift && gradient) qr_shift_keep(ws->shift, x, x_stride, n_samples);
    gradient &= !ws->shift;
    b->plan->engine->forward(b, ws, pool, x, x_stride, n_samples, gradient, direction, ret_z);
}

void qr_sim_forward(const struct qr_sim_bound *b, struct qr_sim_workspace *ws, struct qr_pool *pool,
                    const double *x, size_t x_stride, size_t n_samples, double *ret_z) {
    sim_forward(b, ws, pool, x, x_stride, n_samples, false, NULL, ret_z);
}

void qr_sim_forward_for_gradient(const struct qr_sim_bound *b, struct qr_sim_workspace *ws,
                                 struct qr_pool *pool, const double *x, size_t x_stride,
                                 size_t n_samples, const double *direction, double *ret_z) {
    sim_forward(b, ws, pool, x, x_stride, n_samples, true, direction, ret_z);
}

/* As the backward sweep of an engine. */
static bool sim_shift(const struct qr_sim_bound *b, struct qr_sim_workspace *ws,
                      struct qr_pool *pool, const double *direction, const double *scale,
                      qr_fixed *ret_grad, double *dx) {
    const struct qr_sim_plan *p = b->plan;
    size_t n_samples;
    const double *x = qr_shift_samples(ws->shift, &n_samples);
    memset(ws->shift_params, 0, (p->n_params + 1) * sizeof *ws->shift_params);
    if (p->wanted) memset(dx, 0, n_samples * p->n_columns * sizeof *dx);
    const struct qr_bound_sums sums = {
        .params = ws->shift_params, .x = p->lowered ? ws->lowered_x : x, .n_samples = n_samples};
    return qr_shift_gradient(ws->shift, pool, b->theta, &ws->draw, direction, scale,
                             ws->shift_params, p->wanted ? dx : NULL) &&
           qr_bound_gradient(b, &sums, ws->shift_params + p->n_params, ret_grad, dx);
}

bool qr_sim_backward(const struct qr_sim_bound *b, struct qr_sim_workspace *ws,
                     struct qr_pool *pool, const double *direction, const double *scale,
                     qr_fixed *ret_grad, double *ret_dx) {
    double *dx = b->plan->lowered ? ws->lowered_dx : ret_dx;
    if (ws->shift) {
        if (!sim_shift(b, ws, pool, direction, scale, ret_grad, dx)) return false;
    } else if (!b->plan->engine->backward(b, ws, pool, direction, scale, ret_grad, dx)) {
        return false;
    }
    if (b->plan->lowered && b->plan->inputs_wanted) qr_workspace_raise(ws, ret_dx);
    return true;
}

/* The measured bits in a string with further qubits; bit 0 is the most significant. */
static uint64_t sim_bits(const struct qr_sim_plan *p, uint64_t string) {
    uint64_t bits = 0;
    for (unsigned i = 0; i < p->deferred->n_bits; i++) {
        unsigned q = p->deferred->place[i];
        bits = bits << 1 | (q == QR_NO_PLACE ? 0 : string >> (p->n_qubits - 1 - q) & 1);
    }
    return bits;
}

bool qr_sim_sample(const struct qr_sim_bound *b, struct qr_sim_workspace *ws, struct qr_pool *pool,
                   const double *x, size_t x_stride, size_t n_samples, uint64_t *ret,
                   uint64_t *ret_bits) {
    const struct qr_sim_plan *p = b->plan;
    QR_ASSERT(p->shots);
    x = sim_lower(b, ws, x, &x_stride, n_samples);
    bool fine = p->engine->sample(b, ws, pool, x, x_stride, n_samples, ret, ret_bits);
    for (size_t i = 0; p->deferred && i < n_samples * p->shots; i++) {
        if (ret_bits) ret_bits[i] = sim_bits(p, ret[i]);
        ret[i] >>= p->deferred->n_more;
    }
    return fine;
}

void qr_sim_states(const struct qr_sim_bound *b, struct qr_sim_workspace *ws, struct qr_pool *pool,
                   const double *x, size_t x_stride, size_t n_samples, double *ret) {
    x = sim_lower(b, ws, x, &x_stride, n_samples);
    b->plan->engine->states(b, ws, pool, x, x_stride, n_samples, ret);
}
