/* sim/cones/cones_facts.c — report of a cones plan: its lines, and the costs of its kernel calls.
 * Start reading at qr_cones_report(). */
#include "sim/cones/cones_impl.h"
#include "sim/report/report_build.h"

enum { FLOP = 2 }; /* per multiply-add */

/* Costs of `times` kernel calls. */
static void count_matmul(struct qr_sim_stage *s, double times, double n_i, double n_k, double n_j) {
    s->flop += times * FLOP * n_i * n_k * n_j;
    s->bytes += times * (double)sizeof(double) * (n_i * n_k + n_k * n_j + n_i * n_j);
}
static void count_lanes(struct qr_sim_stage *s, double times, double n_i, double n_s, double n_o) {
    s->flop += times * FLOP * QR_LANES * n_i * n_s * n_o;
    s->bytes += times * (double)sizeof(cone_row) * (n_i * n_s + n_s * n_o + n_i * n_o);
}

static void cones_forward_cost(const struct qr_cones *own, struct qr_sim_stage *s,
                               const struct cone_contraction *c, double times) {
    if (own->tensors[c->a].when == CONE_LANES) count_lanes(s, times, c->n_i, c->n_k, c->n_j);
    else if (own->tensors[c->b].when == CONE_LANES)
        count_matmul(s, times, c->n_i, c->n_k, (double)c->n_j * QR_LANES);
    else count_matmul(s, times, c->n_i, c->n_k, c->n_j);
}

static void cones_backward_cost(const struct qr_cones *own, struct qr_sim_stage *s,
                                const struct cone_contraction *c, double times) {
    const struct cone_tensor *a = &own->tensors[c->a], *b = &own->tensors[c->b];
    if (!own->tensors[c->out].needs) return;
    if (b->when != CONE_LANES) {
        if (a->needs) count_matmul(s, times, c->n_i, c->n_j, c->n_k);
        if (b->needs) count_matmul(s, times, c->n_k, c->n_i, c->n_j);
        return;
    }
    if (a->needs) count_lanes(s, times, c->n_i, c->n_j, c->n_k);
    if (!b->needs) return;
    if (a->when == CONE_LANES) count_lanes(s, times, c->n_k, c->n_i, c->n_j);
    else count_matmul(s, times, c->n_k, c->n_i, (double)c->n_j * QR_LANES);
}

/* Number of blocks of sixteen items if all items differ. */
static double cones_block_count(const struct cone_class *c, size_t n_samples) {
    return c->n_inputs ? (double)((c->n_instances * n_samples + QR_LANES - 1) / QR_LANES) : 1;
}

/* rows: rows kept for the classes before this one; increased by those of this class. */
static void cones_report_class(struct qr_report_build *b, const struct cone_class *c,
                               size_t *rows) {
    const struct qr_cones *own = b->p->cones;
    const struct cone_contraction *first = own->contractions + c->first_step;
    double blocks = cones_block_count(c, b->r->n_samples);
    double kept = (double)cones_blocks_kept(c, c->n_instances * b->r->n_samples, rows);
    for (const struct cone_contraction *x = first; x < first + c->n_step; x++) {
        struct qr_sim_stage *s = qr_report_stage(b, "bind", "contractions without data");
        s->when = QR_EACH_STEP;
        cones_forward_cost(own, s, x, 1);
        cones_backward_cost(
            own, qr_report_stage(b, "bind's back", "the same, back to transfer matrices"), x, 1);
    }
    first = own->contractions + c->first_lanes;
    for (const struct cone_contraction *x = first; x < first + c->n_lanes; x++) {
        cones_forward_cost(own, qr_report_stage(b, "items", "16 side by side, to the read-outs"), x,
                           blocks);
        if (!c->needs) continue;
        struct qr_sim_stage *s =
            qr_report_stage(b, "items' back", "backward; forward again where rows were not kept");
        cones_forward_cost(own, s, x, blocks - kept);
        cones_backward_cost(own, s, x, blocks);
    }
}

void qr_cones_report(struct qr_report_build *b) {
    const struct qr_sim_plan *p = b->p;
    const struct qr_cones *own = p->cones;
    size_t n_instances = 0;
    for (size_t i = 0; i < own->n_classes; i++) n_instances += own->classes[i].n_instances;
    qr_report_line(b, "cones", "%zu term%s, %zu distinct cone%s of at most %u qubits", own->n_terms,
                   own->n_terms == 1 ? "" : "s", own->n_cones, own->n_cones == 1 ? "" : "s",
                   own->widest);
    qr_report_line(
        b, "parts",
        "%zu in %zu class%s of equal parts; parts with equal data%s are computed once per "
        "micro-batch",
        n_instances, own->n_classes, own->n_classes == 1 ? "" : "es",
        p->wanted ? " and no input derivatives" : "");
    qr_report_line(b, "numbers",
                   "Pauli coordinates in float64; %zu per step, at most %zu per "
                   "item",
                   own->n_step, own->max_rows);
    qr_report_line(b, "lanes", "16 items side by side");
    qr_report_line(
        b, "threads",
        "each thread runs micro-batches in its own workspace; large contractions in slices");
    qr_report_part(b, "cones");
    for (uint32_t i = 0; i < p->n_fused; i++) qr_report_gate(b, i, 0, 0, 0);
    size_t rows = 0;
    for (size_t i = 0; i < own->n_classes; i++) cones_report_class(b, &own->classes[i], &rows);
}
