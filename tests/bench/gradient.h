/* tests/bench/gradient.h — gradient of a batch as a training step computes it: bind once, then
 * all micro-batches, for the tutorial's models. bench_sim.c times it, instructions.c counts it. */
#ifndef BENCH_GRADIENT_H
#define BENCH_GRADIENT_H

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "circuit/qcnn.h"
#include "model/model.h"
#include "sim/streaming/plan_impl.h"
#include "tests/ref/chain.h"

/* pure: down to one qubit, whose Z is the prediction. hybrid: one stage, a read-out on each qubit
 * that another was pooled onto, dense 8, dense 1. filters: three copies of hybrid's circuit in
 * front of the same head. */
enum gradient_kind { GRADIENT_PURE, GRADIENT_HYBRID, GRADIENT_FILTERS };
static const char *const gradient_names[] = {"qcnn-pure", "qcnn-hybrid", "qcnn-filters3"};

struct gradient_case {
    enum gradient_kind kind;
    unsigned n;
    size_t batch;
    unsigned threads;
    enum qr_isa isa;
    enum qr_engine engine;
    unsigned part; /* compute 1/part of the slices */
};

struct gradient {
    struct gradient_case k;
    struct qr_circuit *circuit;
    struct qr_observable readouts[QR_MAX_QUBITS];
    size_t n_readouts, block;
    struct qr_model *model;
    struct qr_model_state *state;
    struct qr_pool *pool;
    unsigned n_lanes;
    struct qr_model_workspace **lanes;
    double *params, *x, *y;
    const double **x_rows, **y_rows;
    size_t n_values;
    qr_fixed *values; /* per lane */
    atomic_bool bad;
};

static inline void gradient_must(enum qr_code code, const struct qr_err *err) {
    if (code == QR_OK) return;
    fprintf(stderr, "%s\n", err->msg);
    exit(1);
}

/* The default of a job. */
static inline size_t gradient_block_size(const struct gradient *g,
                                         const struct qr_sim_options *sim) {
    struct qr_sim_plan *plan = NULL;
    struct qr_err err;
    gradient_must(qr_sim_compile(g->circuit, g->readouts, g->n_readouts, sim, &plan, &err), &err);
    size_t size = qr_sim_micro_batch_size(plan, g->k.batch);
    qr_sim_plan_free(plan);
    return size;
}

static inline void gradient_model(struct gradient *g) {
    static const struct qr_dense_options head[] = {{.units = 8, .activation = QR_LINEAR},
                                                   {.units = 1, .activation = QR_LINEAR}};
    struct qr_err err;
    struct qr_qcnn_options qcnn = {g->k.n, g->k.kind != GRADIENT_PURE, QR_QCNN_NOTEBOOK};
    struct qr_qubits remaining;
    char text[16];
    gradient_must(qr_qcnn_new(&qcnn, &g->circuit, &remaining, &err), &err);
    for (unsigned q = 0; q < g->k.n; q++) {
        if (!qr_qubits_has(&remaining, q) || g->n_readouts == g->k.n / 2) continue;
        snprintf(text, sizeof text, "Z%u", q);
        gradient_must(qr_observable_parse(text, g->k.n, &g->readouts[g->n_readouts++], &err), &err);
    }
    const struct qr_sim_options sim = {
        .precision = QR_SINGLE, .isa = g->k.isa, .engine = g->k.engine};
    g->block = gradient_block_size(g, &sim);
    const struct qr_quantum_options quantum = {.circuit = g->circuit,
                                               .readouts = g->readouts,
                                               .n_readouts = g->n_readouts,
                                               .n_filters = g->k.kind == GRADIENT_FILTERS ? 3 : 1};
    const struct chain chain = chain_of(&quantum, head, g->k.kind == GRADIENT_PURE ? 0 : 2);
    struct qr_model_options o = {.layers = chain.layers,
                                 .n_layers = chain.n,
                                 .loss = QR_MSE,
                                 .sim = sim,
                                 .micro_batch_size = g->block};
    gradient_must(qr_model_new(&o, &g->model, &err), &err);
}

/* All slices take the same time: with a smaller number of slices the plan does that share of the
 * work, with whole tables and in at least two items. */
static inline void gradient_take_part(struct gradient *g) {
    struct qr_stream *s =
        ((struct qr_sim_plan *)(uintptr_t)qr_model_layer(g->model, 0).plan)->stream;
    if (g->k.part == 1) return;
    s->front.n_slices /= g->k.part;
    while (s->front.n_slices / QR_LANES / s->item_chunks < 2) s->item_chunks /= 2;
}

static inline struct gradient *gradient_new(const struct gradient_case *k) {
    struct qr_err err;
    struct gradient *g = qr_xcalloc(1, sizeof *g);
    g->k = *k;
    gradient_model(g);
    size_t n = k->n, batch = k->batch;
    if (k->threads > 1) g->pool = qr_pool_new(k->threads);
    g->n_lanes = qr_model_micro_batches_in_parallel(g->model) ? k->threads : 1;
    g->lanes = qr_xcalloc(g->n_lanes, sizeof *g->lanes);
    for (unsigned i = 0; i < g->n_lanes; i++)
        gradient_must(qr_model_workspace_new(g->model, &g->lanes[i], &err), &err);
    gradient_take_part(g);
    g->state = qr_model_state_new(g->model);
    g->params = qr_xcalloc(qr_model_n_params(g->model), sizeof *g->params);
    qr_model_init(g->model, 1, g->params);
    g->x = qr_xcalloc(batch * n, sizeof *g->x);
    g->y = qr_xcalloc(batch, sizeof *g->y);
    g->x_rows = qr_xcalloc(batch, sizeof *g->x_rows);
    g->y_rows = qr_xcalloc(batch, sizeof *g->y_rows);
    for (size_t i = 0; i < batch; i++) { /* one excited qubit in each sample, as in the tutorial */
        g->x[i * n + i % n] = 0.7 + 0.01 * (double)i;
        g->y[i] = i % 2 ? 1 : -1;
        g->x_rows[i] = g->x + i * n;
        g->y_rows[i] = g->y + i;
    }
    g->n_values = qr_model_n_sums(g->model) + qr_model_n_params(g->model);
    g->values = qr_xcalloc(g->n_lanes * g->n_values, sizeof *g->values);
    return g;
}

static inline void gradient_block(void *ctx, size_t i, unsigned worker) {
    struct gradient *g = ctx;
    size_t first = i * g->block, n = g->k.batch - first < g->block ? g->k.batch - first : g->block;
    unsigned lane = g->n_lanes == 1 ? 0 : worker;
    qr_fixed *sums = g->values + lane * g->n_values;
    if (!qr_model_micro_batch(g->state, g->lanes[lane], g->pool, g->x_rows + first,
                              g->y_rows + first, n, NULL, sums, sums + qr_model_n_sums(g->model)))
        atomic_store(&g->bad, true);
}

/* Computes the gradient of the whole batch. */
static inline void gradient_run(struct gradient *g) {
    size_t blocks = (g->k.batch + g->block - 1) / g->block;
    qr_model_prepare(g->state, g->params, g->pool);
    memset(g->values, 0, g->n_lanes * g->n_values * sizeof *g->values);
    if (g->n_lanes > 1) qr_pool_for(g->pool, blocks, gradient_block, g);
    for (size_t i = 0; i < blocks && g->n_lanes == 1; i++) gradient_block(g, i, 0);
    if (!atomic_load(&g->bad)) return;
    fprintf(stderr, "%s, n = %u: a number is not finite\n", gradient_names[g->k.kind], g->k.n);
    exit(1);
}

static inline void gradient_free(struct gradient *g) {
    for (unsigned i = 0; i < g->n_lanes; i++) qr_model_workspace_free(g->lanes[i]);
    qr_model_state_free(g->state);
    qr_model_free(g->model);
    qr_pool_free(g->pool);
    for (size_t i = 0; i < g->n_readouts; i++) qr_observable_fini(&g->readouts[i]);
    qr_circuit_free(g->circuit);
    free(g->lanes);
    free(g->params);
    free(g->x);
    free(g->y);
    free(g->x_rows);
    free(g->y_rows);
    free(g->values);
    free(g);
}

#endif
