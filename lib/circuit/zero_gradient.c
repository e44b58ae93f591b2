/* circuit/zero_gradient.c — parameters that no observable can see: those in no term's cone. */
#include <string.h>

#include "base/mem.h"
#include "circuit/cone.h"

/* A parameter of gate g is seen. Returns for how many that is news. */
static unsigned see(const struct qr_gate *g, uint8_t *ret) {
    unsigned n = 0;
    for (unsigned k = 0; k < g->n_args; k++)
        if (g->args[k].kind == QR_ARG_PARAMETER && ret[g->args[k].index]) {
            ret[g->args[k].index] = 0;
            n++;
        }
    return n;
}

void qr_circuit_zero_gradient(const struct qr_circuit *c, const struct qr_observable *obs,
                              size_t n_obs, uint8_t *ret) {
    struct qr_cone_finder *f = qr_cone_finder_new(c);
    uint32_t *cone = qr_xcalloc(c->n_gates + 1, sizeof *cone);
    unsigned unseen = c->n_params;
    memset(ret, 1, c->n_params);
    for (size_t r = 0; r < n_obs; r++)
        for (size_t t = 0; t < obs[r].n_terms && unseen; t++) {
            size_t n = qr_cone_find(f, &obs[r].terms[t], cone);
            for (size_t i = 0; i < n; i++) unseen -= see(&c->gates[cone[i]], ret);
        }
    free(cone);
    qr_cone_finder_free(f);
}
