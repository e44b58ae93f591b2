/* circuit/zero_gradient.c — parameters that no observable depends on: those in no term's cone.
 * Start reading at qr_circuit_zero_gradient(). */
#include <string.h>

#include "base/mem.h"
#include "circuit/cone.h"
#include "circuit/defer.h"

/* Clears the parameter's flag; returns whether it was set. */
static bool mark_parameter_used(uint32_t parameter, uint8_t *ret) {
    bool was_unused = ret[parameter];
    ret[parameter] = 0;
    return was_unused;
}

/* Clears the flags of a gate's parameters; returns how many were set. */
static unsigned mark_gate_used(const struct qr_circuit *c, const struct qr_gate *g, uint8_t *ret) {
    unsigned n = 0, n_args;
    const struct qr_gate_arg *args = qr_circuit_gate_args(c, g, &n_args);
    for (unsigned k = 0; k < n_args; k++) {
        const struct qr_gate_arg *a = &args[k];
        if (a->kind == QR_ARG_PARAMETER) n += mark_parameter_used(a->index, ret);
        if (a->kind != QR_ARG_EXPRESSION) continue;
        const struct qr_expression *e = &c->expressions[a->index];
        for (unsigned i = 0; i < e->n; i++)
            if (e->node[i].op == QR_EXPRESSION_PARAMETER)
                n += mark_parameter_used(e->node[i].index, ret);
    }
    return n;
}

void qr_circuit_zero_gradient(const struct qr_circuit *c, const struct qr_observable *obs,
                              size_t n_obs, uint8_t *ret) {
    struct qr_deferred *deferred;
    unsigned unseen = c->n_params;
    const struct qr_circuit *plain = qr_circuit_unconditional(c, obs, n_obs, &deferred);
    memset(ret, plain ? 1 : 0, c->n_params);
    if (!plain) return;
    struct qr_cone_finder *f = qr_cone_finder_new(plain);
    uint32_t *cone = qr_xcalloc(plain->n_gates + 1, sizeof *cone);
    for (size_t r = 0; r < n_obs; r++)
        for (size_t t = 0; t < obs[r].n_terms && unseen; t++) {
            size_t n = qr_cone_find(f, &obs[r].terms[t], cone);
            for (size_t i = 0; i < n; i++)
                unseen -= mark_gate_used(plain, &plain->gates[cone[i]], ret);
        }
    free(cone);
    qr_cone_finder_free(f);
    qr_deferred_free(deferred);
}
