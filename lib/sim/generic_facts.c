/* sim/generic_facts.c — a blocked plan in words, and what its kernels are called for. */
#include "sim/report_impl.h"

static double cells_of(const struct qr_sim_plan *p) { return (double)(UINT64_C(1) << p->cell_bits); }

/* Cells that a step acts on: those inside its controls, lanes left aside. */
static double step_cells(const struct qr_sim_plan *p, const struct qr_plan_step *st) {
    int controls = __builtin_popcountll(st->place.controls) + __builtin_popcountll(st->outer_controls);
    return cells_of(p) / (double)(UINT64_C(1) << controls);
}

/* Up to where a group of samples or one sample is moved through: gathered and scattered, or turned. */
static void move_cost(const struct qr_sim_plan *p, struct qr_sim_stage *s, const struct qr_plan_pass *pass, bool there, bool back) {
    double bytes = cells_of(p) * (double)p->cell_bytes;
    if (pass->transpose) s->bytes += 2 * bytes;
    else if (p->tile_bits < p->cell_bits) s->bytes += (there + back) * 2 * bytes;
}

static unsigned row_of(const struct qr_report_build *b, const struct qr_plan_step *st, bool adjoint) {
    return st->wide_slot != QR_NO_SLOT ? 4 : b->row[st->shape][adjoint];
}

static void forward_cost(struct qr_report_build *b, const char *name, const char *what) {
    const struct qr_sim_plan *p = b->p;
    struct qr_sim_stage *s = qr_report_stage(b, name, what);
    for (size_t i = 0; i < p->n_passes; i++) move_cost(p, s, &p->passes[i], true, true);
    for (size_t i = 0; i < p->n_steps; i++) qr_cost_apply(s, step_cells(p, &p->steps[i]), row_of(b, &p->steps[i], false), p->cell_bytes);
}

static void backward_cost(struct qr_report_build *b) {
    const struct qr_sim_plan *p = b->p;
    double cells = cells_of(p), terms = (double)p->n_terms;
    qr_cost(qr_report_stage(b, "observe", "lambda = O phi"), cells * 2 * terms, cells * 3 * terms * (double)p->cell_bytes);
    struct qr_sim_stage *s = qr_report_stage(b, "back", "cross matrices and adjoints, on phi and lambda");
    for (size_t i = 0; i < p->n_passes; i++) {
        const struct qr_plan_pass *pass = &p->passes[i];
        if (pass->first_step + pass->n_steps <= p->first_cross) continue;
        for (int state = 0; state < 2; state++) move_cost(p, s, pass, true, pass->first_step > p->first_cross);
    }
    for (size_t i = p->first_cross; i < p->n_steps; i++) {
        double inside = step_cells(p, &p->steps[i]);
        if (p->steps[i].cross) qr_cost_cross(s, inside, p->cell_bytes);
        if (i > p->first_cross) qr_cost_apply(s, 2 * inside, row_of(b, &p->steps[i], true), p->cell_bytes);
    }
}

void qr_report_blocked(struct qr_report_build *b) {
    const struct qr_sim_plan *p = b->p;
    size_t per = p->lanes_are_samples ? QR_LANES : 1, groups = (b->r->n_samples + per - 1) / per, n_turns = 0;
    for (size_t i = 0; i < p->n_passes; i++) n_turns += p->passes[i].transpose;
    qr_report_line(b, "lanes", "%s", p->lanes_are_samples ? "16 samples side by side" : "four qubits, by turns");
    qr_report_line(b, "tiles", "2^%u of 2^%u amplitudes, each through as many blocks as fit: %zu pass%s over the state%s",
                   p->tile_bits + (p->lanes_are_samples ? 0 : QR_LANE_BITS), p->n, p->n_passes - n_turns, p->n_passes - n_turns == 1 ? "" : "es",
                   n_turns ? ", and between some of them a turn of other qubits into lanes" : "");
    if (p->first_cross < p->n_steps) qr_report_line(b, "back", "down to block %zu of %zu: none before it has a parameter", p->first_cross + 1, p->n_blocks);
    qr_report_line(b, "threads", p->lanes_are_samples ? "each takes blocks of samples, in a workspace of its own" : "all share the tiles of one sample");
    for (unsigned i = 0; i < p->n_passes; i++) {
        qr_report_part(b, p->passes[i].transpose ? "turn" : "pass %u", i + 1);
        for (uint32_t k = 0; k < p->passes[i].n_steps; k++) qr_report_block(b, p->steps[p->passes[i].first_step + k].block, i, 0, 0);
    }
    for (size_t g = 0; g < groups; g++) {
        forward_cost(b, "forward", "blocks on |0...0>");
        qr_cost(qr_report_stage(b, "read-outs", "a Pauli string each"), cells_of(p) * 3 * (double)p->n_terms,
                cells_of(p) * (double)p->n_terms * (double)p->cell_bytes);
        if (p->first_cross == p->n_steps) continue;
        if (g + 1 < groups) forward_cost(b, "forward again", "one state is kept: the others are simulated again");
        backward_cost(b);
    }
}
