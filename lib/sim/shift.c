/* sim/shift.c — a circuit in which every occurrence of a parameter or input can be shifted alone.
 * Start reading at qr_shift_new() and qr_shift_gradient(). */
#include "sim/shift.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "circuit/composite_gates.h"
#include "exact/random.h"
#include "sim/compile.h"
#include "sim/fusion/bind.h"
#include "sim/fusion/gate_expansion.h"
#include "sim/fusion/workspace.h"

struct occurrence {
    bool input;
    uint32_t of; /* parameter or column of the original circuit */
    double scale;
};

/* Parameters and columns of the plan: those of the circuit, then one for each occurrence, which
 * have a number in its list. */
struct qr_shift {
    struct qr_sim_plan *plan;
    unsigned n_params, n_columns, n_own_params, n_own_columns;
    size_t n_readouts;
    struct occurrence *params, *columns;
};

struct qr_shift_workspace {
    const struct qr_shift *s;
    struct qr_sim_bound *bound;
    struct qr_sim_workspace *sim;
    double *theta, *x, *z[2]; /* all parameters; all columns of the samples; read-outs */
    size_t n_samples;
};

/* ---- powers ---- */

/* Appends the gate as powers of involutions, each either without controls or without shift: the
 * phase of a controlled gate is a gate of its own. */
static enum qr_code append_powers(struct qr_gate_list *to, const struct qr_gate *g,
                                  struct qr_err *err) {
    struct qr_gate power = *g;
    bool controlled = !qr_qubits_is_empty(&g->controls);
    const struct qr_gate_info *info = qr_gate_info(g->kind);
    if (!info->power && !info->identity) {
        struct qr_simple_gates list = {0};
        if (controlled)
            return qr_fail(
                err, QR_UNIMPLEMENTED,
                "parameter-shift: a controlled %s is not a power of an involution; write it "
                "as such gates, or choose another gradient",
                info->name);
        qr_powers_expand(&list, g);
        for (size_t i = 0; i < list.n; i++) qr_gate_list_add(to, &list.gates[i]);
        free(list.gates);
        return QR_OK;
    }
    if (controlled && g->global_shift != 0) {
        struct qr_gate_arg phase = g->args[0];
        phase.scale *= g->global_shift;
        power.global_shift = 0;
        qr_gate_list_add_phase(to, &g->controls, &g->control_values, phase);
    }
    qr_gate_list_add(to, &power);
    return QR_OK;
}

static bool argument_is_constant(const struct qr_gate_arg *a) { return a->kind == QR_ARG_CONSTANT; }

static bool gate_is_constant(const struct qr_gate *g) {
    bool constant = true;
    for (unsigned k = 0; k < g->n_args; k++) constant &= argument_is_constant(&g->args[k]);
    return constant;
}

/* ---- the circuit ---- */

static void add_occurrence(struct occurrence **list, unsigned *n, bool input,
                           const struct qr_gate_arg *a) {
    *list = qr_xreallocarray(*list, *n + 1, sizeof **list);
    (*list)[(*n)++] = (struct occurrence){.input = input, .of = a->index, .scale = a->scale};
}

/* Gives a differentiated argument a parameter or column of its own. */
static void own_argument(struct qr_shift *s, struct qr_gate_arg *a, const uint8_t *wanted,
                         const uint8_t *zero_gradient) {
    if (a->kind == QR_ARG_PARAMETER && !zero_gradient[a->index] && a->scale != 0) {
        add_occurrence(&s->params, &s->n_own_params, false, a);
        a->index = s->n_params + s->n_own_params - 1;
    } else if (a->kind == QR_ARG_DATA && wanted && wanted[a->index] && a->scale != 0) {
        add_occurrence(&s->columns, &s->n_own_columns, true, a);
        a->index = s->n_columns + s->n_own_columns - 1;
    }
}

static enum qr_code list_gates(struct qr_shift *s, const struct qr_circuit *c,
                               const uint8_t *wanted, const uint8_t *zero_gradient,
                               struct qr_gate_list *list, struct qr_err *err) {
    for (size_t i = 0; i < c->n_gates; i++) {
        const struct qr_gate *g = &c->gates[i];
        unsigned n_args;
        const struct qr_gate_arg *args = qr_circuit_gate_args(c, g, &n_args);
        for (unsigned k = 0; k < n_args && g->kind == QR_GATE_CHANNEL; k++)
            if (args[k].kind == QR_ARG_PARAMETER && !zero_gradient[args[k].index])
                return qr_fail(err, QR_UNIMPLEMENTED,
                               "parameter-shift: strengths of noise with weights (%s) have no such "
                               "rule; choose another gradient",
                               c->param_names[args[k].index]);
        if (g->kind == QR_GATE_CHANNEL || gate_is_constant(g)) qr_gate_list_add(list, g);
        else {
            size_t from = list->n;
            QR_TRY(append_powers(list, g, err));
            for (; from < list->n; from++) list->gates[from].condition = g->condition;
        }
    }
    for (size_t i = 0; i < list->n; i++)
        for (unsigned k = 0; k < list->gates[i].n_args; k++)
            own_argument(s, &list->gates[i].args[k], wanted, zero_gradient);
    return QR_OK;
}

static struct qr_circuit *circuit_of_list(const struct qr_shift *s, const struct qr_circuit *c,
                                          const struct qr_gate_list *list) {
    struct qr_circuit *to = qr_circuit_new(c->n_qubits, s->n_columns + s->n_own_columns);
    char name[32];
    for (unsigned i = 0; i < s->n_params; i++) (void)qr_circuit_param(to, c->param_names[i]);
    for (unsigned i = 0; i < s->n_own_params; i++) {
        snprintf(name, sizeof name, "shifted %u", i);
        (void)qr_circuit_param(to, name);
    }
    for (size_t i = 0; i < c->n_channels; i++) (void)qr_circuit_channel(to, &c->channels[i]);
    qr_circuit_copy_classical(to, c);
    for (size_t i = 0; i < list->n; i++)
        QR_ASSERT(qr_circuit_add(to, &list->gates[i], QR_IGNORED) == QR_OK);
    return to;
}

enum qr_code qr_shift_new(const struct qr_circuit *circuit, const uint8_t *wanted,
                          const uint8_t *zero_gradient, const struct qr_observable *obs,
                          size_t n_obs, const struct qr_sim_options *opt, struct qr_shift **ret,
                          struct qr_err *err) {
    struct qr_shift *s = qr_xcalloc(1, sizeof *s);
    struct qr_gate_list list = {0};
    struct qr_sim_options plain = *opt;
    plain.parameter_shift = false;
    plain.wanted = NULL;
    s->n_params = circuit->n_params;
    s->n_columns = circuit->n_columns;
    s->n_readouts = n_obs;
    enum qr_code code = list_gates(s, circuit, wanted, zero_gradient, &list, err);
    if (code == QR_OK) {
        struct qr_circuit *c = circuit_of_list(s, circuit, &list);
        code = qr_plan_compile(c, obs, obs, n_obs, &plain, &s->plan, err);
        qr_circuit_free(c);
    }
    qr_gate_list_fini(&list);
    if (code == QR_OK) *ret = s;
    else qr_shift_free(s);
    return code;
}

void qr_shift_free(struct qr_shift *s) {
    if (!s) return;
    qr_plan_free(s->plan);
    free(s->params);
    free(s->columns);
    free(s);
}

/* ---- the workspace ---- */

static size_t all_columns(const struct qr_shift *s) { return s->n_columns + s->n_own_columns; }

size_t qr_shift_bytes(const struct qr_shift *s, size_t max_samples) {
    return qr_workspace_buffers(s->plan, max_samples).bytes + qr_bound_bytes(s->plan) +
           (s->n_params + s->n_own_params + max_samples * (all_columns(s) + 2 * s->n_readouts)) *
               sizeof(double);
}

enum qr_code qr_shift_workspace_new(const struct qr_shift *s, size_t max_samples,
                                    struct qr_shift_workspace **ret, struct qr_err *err) {
    struct qr_sim_workspace *sim;
    QR_TRY(qr_workspace_new(s->plan, max_samples, &sim, err));
    struct qr_shift_workspace *ws = qr_xcalloc(1, sizeof *ws);
    ws->s = s;
    ws->sim = sim;
    ws->bound = qr_bound_new(s->plan);
    ws->theta = qr_xcalloc(s->n_params + s->n_own_params + 1, sizeof *ws->theta);
    ws->x = qr_xcalloc(max_samples * all_columns(s) + 1, sizeof *ws->x);
    for (int k = 0; k < 2; k++)
        ws->z[k] = qr_xcalloc(max_samples * s->n_readouts + 1, sizeof *ws->z[k]);
    *ret = ws;
    return QR_OK;
}

void qr_shift_workspace_free(struct qr_shift_workspace *ws) {
    if (!ws) return;
    qr_workspace_free(ws->sim);
    qr_bound_free(ws->bound);
    free(ws->theta);
    free(ws->x);
    free(ws->z[0]);
    free(ws->z[1]);
    free(ws);
}

void qr_shift_keep(struct qr_shift_workspace *ws, const double *x, size_t x_stride,
                   size_t n_samples) {
    const struct qr_shift *s = ws->s;
    ws->n_samples = n_samples;
    for (size_t i = 0; i < n_samples && all_columns(s); i++) {
        double *to = ws->x + i * all_columns(s);
        if (s->n_columns) memcpy(to, x + i * x_stride, s->n_columns * sizeof *to);
        for (unsigned k = 0; k < s->n_own_columns; k++) to[s->n_columns + k] = to[s->columns[k].of];
    }
}

const double *qr_shift_samples(const struct qr_shift_workspace *ws, size_t *ret_n) {
    *ret_n = ws->n_samples;
    return ws->x;
}

/* ---- derivatives ---- */

/* Read-outs at t + 1/2 and t - 1/2 of an occurrence, t = scale * value; nth: of all, for its draws.
 * */
static void evaluate_pair(struct qr_shift_workspace *ws, struct qr_pool *pool,
                          const struct occurrence *o, unsigned own, uint32_t nth,
                          const struct qr_sim_draw *draw) {
    const struct qr_shift *s = ws->s;
    size_t stride = all_columns(s);
    for (int sign = 0; sign < 2; sign++) {
        double by = (sign ? -0.5 : 0.5) / o->scale, kept = 0;
        struct qr_sim_draw each = *draw;
        each.key = qr_random_u64(draw->key, QR_RANDOM_SHIFT, nth, (uint64_t)sign);
        ws->sim->draw = each;
        if (!o->input) {
            kept = ws->theta[s->n_params + own];
            ws->theta[s->n_params + own] = kept + by;
        }
        for (size_t i = 0; o->input && i < ws->n_samples; i++) {
            double *x = ws->x + i * stride;
            x[s->n_columns + own] = x[o->of] + by;
        }
        if (!o->input || own == 0) qr_bound_set(ws->bound, ws->theta, pool);
        s->plan->engine->forward(ws->bound, ws->sim, pool, ws->x, stride, ws->n_samples, false,
                                 NULL, ws->z[sign]);
        if (!o->input) ws->theta[s->n_params + own] = kept;
        for (size_t i = 0; o->input && i < ws->n_samples; i++) {
            double *x = ws->x + i * stride;
            x[s->n_columns + own] = x[o->of];
        }
    }
}

static double slope_of_sample(const struct qr_shift_workspace *ws, const struct occurrence *o,
                              size_t sample, const double *direction, const double *scale) {
    size_t n = ws->s->n_readouts;
    double sum = 0;
    for (size_t r = 0; r < n; r++)
        sum += direction[sample * n + r] * (ws->z[0][sample * n + r] - ws->z[1][sample * n + r]);
    return M_PI_2 * o->scale * scale[sample] * sum;
}

bool qr_shift_gradient(struct qr_shift_workspace *ws, struct qr_pool *pool, const double *theta,
                       const struct qr_sim_draw *draw, const double *direction, const double *scale,
                       double *ret_params, double *ret_dx) {
    const struct qr_shift *s = ws->s;
    uint32_t nth = 0;
    bool finite = true;
    if (s->n_params) memcpy(ws->theta, theta, s->n_params * sizeof *theta);
    for (unsigned k = 0; k < s->n_own_params; k++)
        ws->theta[s->n_params + k] = theta[s->params[k].of];
    for (unsigned k = 0; k < s->n_own_params; k++, nth++) {
        const struct occurrence *o = &s->params[k];
        evaluate_pair(ws, pool, o, k, nth, draw);
        for (size_t i = 0; i < ws->n_samples; i++) {
            double slope = slope_of_sample(ws, o, i, direction, scale);
            finite &= isfinite(slope) != 0;
            ret_params[o->of] += slope;
        }
    }
    for (unsigned k = 0; k < s->n_own_columns; k++, nth++) {
        const struct occurrence *o = &s->columns[k];
        evaluate_pair(ws, pool, o, k, nth, draw);
        for (size_t i = 0; i < ws->n_samples; i++) {
            double slope = slope_of_sample(ws, o, i, direction, scale);
            finite &= isfinite(slope) != 0;
            if (ret_dx) ret_dx[i * s->n_columns + o->of] += slope;
        }
    }
    return finite;
}
