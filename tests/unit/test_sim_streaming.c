/* The streaming engine against the blocked one. */
#include "base/mem.h"
#include "base/pool.h"
#include "circuit/qcnn.h"
#include "sim/sim.h"
#include "tests/ref/dense.h"
#include "tests/t.h"

#include <math.h>

enum { MAX_OBS = 8, MAX_SAMPLES = 20, MAX_PARAMS = 256 };

struct answer { double z[MAX_SAMPLES * MAX_OBS]; qr_fixed grad[MAX_PARAMS]; bool ok; char engine[64]; };
struct problem {
    struct qr_circuit *c;
    struct qr_observable obs[MAX_OBS];
    size_t n_obs, n_samples;
    double theta[MAX_PARAMS], *x, direction[MAX_SAMPLES * MAX_OBS], scale[MAX_SAMPLES];
};

static struct answer ours(const struct problem *p, enum qr_engine engine, enum qr_precision precision, enum qr_isa isa, unsigned threads,
                          const double *known) {
    struct qr_err err;
    struct qr_sim_options opt = {precision, isa, engine};
    struct qr_sim_plan *plan = NULL;
    struct qr_sim_workspace *ws = NULL;
    struct answer a;
    memset(&a, 0, sizeof a);
    if (qr_sim_compile(p->c, p->obs, p->n_obs, &opt, &plan, &err) != QR_OK ||
        qr_sim_workspace_new(plan, p->n_samples, &ws, &err) != QR_OK) {
        CHECK(false, "%s", err.msg);
        return a;
    }
    snprintf(a.engine, sizeof a.engine, "%s", qr_sim_facts(plan).engine);
    struct qr_sim_bound *b = qr_sim_bound_new(plan);
    struct qr_pool *pool = threads ? qr_pool_new(threads) : NULL;
    qr_sim_bind(b, p->theta);
    if (known) qr_sim_forward_for_gradient(b, ws, pool, p->x, p->c->n_columns, p->n_samples, known, a.z);
    else qr_sim_forward(b, ws, pool, p->x, p->c->n_columns, p->n_samples, a.z);
    a.ok = qr_sim_backward(b, ws, pool, p->direction, p->scale, a.grad);
    qr_pool_free(pool);
    qr_sim_workspace_free(ws);
    qr_sim_bound_free(b);
    qr_sim_plan_free(plan);
    return a;
}

static struct problem make(unsigned n, unsigned stages, size_t n_samples, const char *const *obs, size_t n_obs, uint64_t seed) {
    struct problem p;
    memset(&p, 0, sizeof p);
    struct qr_err err;
    struct qr_qcnn_options o = {n, stages, QR_QCNN_NOTEBOOK};
    uint64_t remaining;
    CHECK(qr_qcnn_new(&o, &p.c, &remaining, &err) == QR_OK, "%s", err.msg);
    p.n_obs = n_obs;
    p.n_samples = n_samples;
    for (size_t r = 0; r < n_obs; r++) CHECK(qr_observable_parse(obs[r], n, &p.obs[r], &err) == QR_OK, "%s", err.msg);
    p.x = qr_xcalloc(n_samples * n + 1, sizeof *p.x);
    ref_random_numbers(seed, p.c->n_params, 0, 6.28, p.theta);
    ref_random_numbers(seed + 1, n_samples * n, -2, 2, p.x);
    ref_random_numbers(seed + 2, n_samples * n_obs, -1, 1, p.direction);
    ref_random_numbers(seed + 3, n_samples, -2, 2, p.scale);
    return p;
}

static void drop(struct problem *p) {
    qr_circuit_free(p->c);
    for (size_t r = 0; r < p->n_obs; r++) qr_observable_fini(&p->obs[r]);
    free(p->x);
}

static void compare(const struct problem *p, const struct answer *a, const struct answer *b, double tolerance, const char *what) {
    double top = 0, worst = 0, worst_z = 0;
    for (unsigned k = 0; k < p->c->n_params; k++) top = fmax(top, fabs(qr_fixed_to_double(b->grad[k])));
    for (unsigned k = 0; k < p->c->n_params; k++) worst = fmax(worst, fabs(qr_fixed_to_double(a->grad[k]) - qr_fixed_to_double(b->grad[k])));
    for (size_t i = 0; i < p->n_samples * p->n_obs; i++) worst_z = fmax(worst_z, fabs(a->z[i] - b->z[i]));
    CHECK(a->ok && b->ok && worst <= tolerance * top && worst_z <= tolerance * 4, "%s n %u: engine %s: gradient off by %.3g of %.3g (%.2g), z by %.3g", what,
          p->c->n_qubits, a->engine, worst, top, worst / top, worst_z);
    if (getenv("VERBOSE")) printf("%s n %u: engine %s: gradient off by %.3g of %.3g (%.2g), z by %.3g\n", what,
          p->c->n_qubits, a->engine, worst, top, worst / top, worst_z);
}

/* The read-outs that are left after `stages` stages: one on the last qubit, Z on each, or strings with X and Y too. */
enum kind { LAST, EACH, MIXED };

static struct problem case_of(unsigned n, unsigned stages, enum kind kind, size_t samples) {
    char text[MAX_OBS][48];
    const char *obs[MAX_OBS];
    unsigned left = n, n_obs = 0;
    for (unsigned s = 0; s < stages; s++) left -= left / 2;
    if (kind == LAST) snprintf(text[n_obs++], sizeof text[0], "Z%u", n - 1);
    for (unsigned q = n - left; kind == EACH && q < n && n_obs < MAX_OBS; q++) snprintf(text[n_obs++], sizeof text[0], "Z%u", q);
    if (kind == MIXED) {
        snprintf(text[n_obs++], sizeof text[0], "0.5*X%u Z%u - Y%u", n - 1, n - 2, n - 2);
        snprintf(text[n_obs++], sizeof text[0], "Y%u Y%u + 0.25*Z%u", n - 1, n - 2, n - 1);
    }
    for (unsigned i = 0; i < n_obs; i++) obs[i] = text[i];
    return make(n, stages, samples, obs, n_obs, 17 * n + stages);
}

static void check(unsigned n, unsigned stages, enum kind kind, const char *engine) {
    struct problem p = case_of(n, stages, kind, n <= 11 ? 19 : 2);
    struct answer b = ours(&p, QR_ENGINE_BLOCKED, QR_DOUBLE, qr_isa_best(), 0, NULL);
    struct answer a = ours(&p, QR_ENGINE_AUTO, QR_DOUBLE, qr_isa_best(), 0, NULL);
    CHECK(strcmp(a.engine, engine) == 0, "n %u stages %u: engine %s", n, stages, a.engine);
    compare(&p, &a, &b, 1e-12, "double");
    struct answer single = ours(&p, QR_ENGINE_AUTO, QR_SINGLE, qr_isa_best(), 0, NULL);
    compare(&p, &single, &b, 2e-6, "single");
    /* one direction for all samples, before and after the forward sweep */
    for (size_t i = p.n_obs; i < p.n_samples * p.n_obs; i++) p.direction[i] = p.direction[i - p.n_obs];
    b = ours(&p, QR_ENGINE_BLOCKED, QR_DOUBLE, qr_isa_best(), 0, NULL);
    a = ours(&p, QR_ENGINE_AUTO, QR_DOUBLE, qr_isa_best(), 0, p.direction);
    compare(&p, &a, &b, 1e-12, "directed");
    drop(&p);
}

int main(void) {
    for (unsigned n = 8; n <= 16; n++) check(n, 0, LAST, "streaming");
    for (unsigned n = 8; n <= 15; n++) check(n, 1, EACH, "streaming");
    check(8, 2, EACH, "streaming");
    check(10, 1, MIXED, "streaming");
    check(12, 2, EACH, "streaming");
    check(13, 2, MIXED, "streaming");
    check(14, 1, MIXED, "blocked"); /* seven qubits left, and not only Z */
    return t_end();
}
