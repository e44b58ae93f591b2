/* sim/cones/cones_facts.c — a cones plan in words, and what its kernels are called for. */
#include "sim/cones/cones_impl.h"
#include "sim/report/report_build.h"

enum { FLOP = 2 }; /* of a multiply-add */

/* The kernels' calls, so many of them. */
static void matmul(struct qr_sim_stage *s, double times, double n_i, double n_k, double n_j) {
    s->flop += times * FLOP * n_i * n_k * n_j;
    s->bytes += times * (double)sizeof(double) * (n_i * n_k + n_k * n_j + n_i * n_j);
}
static void lanes(struct qr_sim_stage *s, double times, double n_i, double n_s, double n_o) {
    s->flop += times * FLOP * QR_LANES * n_i * n_s * n_o;
    s->bytes += times * (double)sizeof(cone_row) * (n_i * n_s + n_s * n_o + n_i * n_o);
}

static void forward_cost(const struct qr_cones *own, struct qr_sim_stage *s,
                         const struct cone_contraction *c, double times) {
    if (own->tensors[c->a].when == CONE_LANES) lanes(s, times, c->n_i, c->n_k, c->n_j);
    else if (own->tensors[c->b].when == CONE_LANES)
        matmul(s, times, c->n_i, c->n_k, (double)c->n_j * QR_LANES);
    else matmul(s, times, c->n_i, c->n_k, c->n_j);
}

static void backward_cost(const struct qr_cones *own, struct qr_sim_stage *s,
                          const struct cone_contraction *c, double times) {
    const struct cone_tensor *a = &own->tensors[c->a], *b = &own->tensors[c->b];
    if (!own->tensors[c->out].needs) return;
    if (b->when != CONE_LANES) {
        if (a->needs) matmul(s, times, c->n_i, c->n_j, c->n_k);
        if (b->needs) matmul(s, times, c->n_k, c->n_i, c->n_j);
        return;
    }
    if (a->needs) lanes(s, times, c->n_i, c->n_j, c->n_k);
    if (!b->needs) return;
    if (a->when == CONE_LANES) lanes(s, times, c->n_k, c->n_i, c->n_j);
    else matmul(s, times, c->n_k, c->n_i, (double)c->n_j * QR_LANES);
}

/* Blocks of sixteen items, all of them different. */
static double blocks_of(const struct cone_class *c, size_t n_samples) {
    return c->n_inputs ? (double)((c->n_instances * n_samples + QR_LANES - 1) / QR_LANES) : 1;
}

/* rows: kept of the classes before it, and with it. */
static void report_class(struct qr_report_build *b, const struct cone_class *c, size_t *rows) {
    const struct qr_cones *own = b->p->cones;
    const struct cone_contraction *first = own->contractions + c->first_step;
    double blocks = blocks_of(c, b->r->n_samples);
    double kept = (double)cones_blocks_kept(c, c->n_instances * b->r->n_samples, rows);
    for (const struct cone_contraction *x = first; x < first + c->n_step; x++) {
        struct qr_sim_stage *s = qr_report_stage(b, "bind", "what no sample reaches, contracted");
        s->when = QR_EACH_STEP;
        forward_cost(own, s, x, 1);
        backward_cost(own, qr_report_stage(b, "bind's back", "the same, to transfer matrices"), x,
                      1);
    }
    first = own->contractions + c->first_lanes;
    for (const struct cone_contraction *x = first; x < first + c->n_lanes; x++) {
        forward_cost(own, qr_report_stage(b, "items", "sixteen side by side, to the read-outs"), x,
                     blocks);
        if (!c->needs) continue;
        struct qr_sim_stage *s = qr_report_stage(
            b, "items' back", "backward; forward again where there are too many to keep");
        forward_cost(own, s, x, blocks - kept);
        backward_cost(own, s, x, blocks);
    }
}

void qr_cones_report(struct qr_report_build *b) {
    const struct qr_sim_plan *p = b->p;
    const struct qr_cones *own = p->cones;
    size_t n_instances = 0;
    for (size_t i = 0; i < own->n_classes; i++) n_instances += own->classes[i].n_instances;
    qr_report_line(b, "cones", "%zu term%s, %zu different cone%s of at most %u qubits",
                   own->n_terms, own->n_terms == 1 ? "" : "s", own->n_cones,
                   own->n_cones == 1 ? "" : "s", own->widest);
    qr_report_line(
        b, "parts",
        "%zu in %zu class%s of equal ones; what has equal data too%s is computed once in a "
        "micro-batch",
        n_instances, own->n_classes, own->n_classes == 1 ? "" : "es",
        p->wanted ? ", and no input that is wanted," : "");
    qr_report_line(b, "numbers",
                   "Pauli coordinates in float64; %zu once a step, at most %zu of an "
                   "item",
                   own->n_step, own->max_rows);
    qr_report_line(b, "lanes", "16 items side by side");
    qr_report_line(
        b, "threads",
        "each takes micro-batches, in a workspace of its own; large contractions in slices");
    qr_report_part(b, "cones");
    for (uint32_t i = 0; i < p->n_fused; i++) qr_report_gate(b, i, 0, 0, 0);
    size_t rows = 0;
    for (size_t i = 0; i < own->n_classes; i++) report_class(b, &own->classes[i], &rows);
}
