/* sim/statevector/facts.c — a blocked plan in words, and what its kernels are called for. */
#include "sim/report/build.h"

static double cells_of(const struct qr_sim_plan *p) { return (double)(UINT64_C(1) << p->cell_bits); }

/* Cells that a step acts on: those inside its controls, lanes left aside. */
static double step_cells(const struct qr_sim_plan *p, const struct qr_plan_step *st) {
    int controls = __builtin_popcountll(st->place.controls) + __builtin_popcountll(st->outer_controls);
    return cells_of(p) / (double)(UINT64_C(1) << controls);
}

static struct qr_report_way way_of(const struct qr_report_build *b, const struct qr_plan_step *st, bool adjoint) {
    return st->wide_slot != QR_NO_SLOT ? qr_report_dense : b->way[st->shape][adjoint];
}

/* One state into a pass's tiles, or out of them again; and lanes that change places, in a tile. */
static void move_cost(const struct qr_sim_plan *p, struct qr_sim_stage *s) {
    if (p->tile_bits < p->cell_bits) s->bytes += 2 * cells_of(p) * (double)p->cell_bytes;
}
static void turn_cost(const struct qr_sim_plan *p, struct qr_sim_stage *s) { s->bytes += 2 * cells_of(p) * (double)p->cell_bytes; }

static void forward_cost(struct qr_report_build *b, struct qr_sim_stage *s, size_t first, size_t end) {
    const struct qr_sim_plan *p = b->p;
    for (size_t i = first; i < end; i++) {
        const struct qr_plan_pass *pass = &p->passes[i];
        for (int way = 0; way < 2; way++) move_cost(p, s);
        for (const struct qr_plan_step *st = p->steps + pass->first_step; st < p->steps + pass->first_step + pass->n_steps; st++) {
            if (st->transpose) turn_cost(p, s);
            else qr_cost_apply(s, step_cells(p, st), way_of(b, st, false), p->cell_bytes);
        }
    }
}

static void backward_cost(struct qr_report_build *b) {
    const struct qr_sim_plan *p = b->p;
    double cells = cells_of(p), terms = (double)p->n_terms;
    qr_cost(qr_report_stage(b, "observe", "lambda = O phi"), cells * 2 * terms, cells * 3 * terms * (double)p->cell_bytes);
    struct qr_sim_stage *s = qr_report_stage(b, "back", "cross matrices and adjoints, on phi and lambda");
    for (size_t i = 0; i < p->n_passes; i++) {
        const struct qr_plan_pass *pass = &p->passes[i];
        if (pass->first_step + pass->n_steps <= p->first_cross) continue;
        for (int state = 0; state < 2; state++) {
            if (state == 0 || i + 1 < p->n_passes || !p->tiles_observe) move_cost(p, s);
            if (pass->first_step > p->first_cross) move_cost(p, s); /* nothing reads what the last pass leaves */
        }
    }
    for (const struct qr_plan_step *st = p->steps + p->first_cross; st < p->steps + p->n_steps; st++) {
        if (st->transpose) {
            turn_cost(p, s);
            turn_cost(p, s);
            continue;
        }
        double inside = step_cells(p, st);
        if (st->cross) qr_cost_cross(s, inside, p->cell_bytes);
        if (st->back) qr_cost_apply(s, 2 * inside, way_of(b, st, true), p->cell_bytes);
    }
}

static void say_blocked(struct qr_report_build *b) {
    const struct qr_sim_plan *p = b->p;
    size_t n_turns = 0;
    for (size_t i = 0; i < p->n_steps; i++) n_turns += p->steps[i].transpose;
    qr_report_line(b, "lanes", "%s", p->lanes_are_samples ? "16 samples side by side" : "four qubits, by turns");
    qr_report_line(b, "tiles", "2^%u of 2^%u amplitudes, each through as many blocks as fit: %zu pass%s over the state%s",
                   p->tile_bits + (p->lanes_are_samples ? 0 : QR_LANE_BITS), p->n, p->n_passes, p->n_passes == 1 ? "" : "es",
                   n_turns ? "; in some of them other qubits turn into lanes" : "");
    if (p->first_pass)
        qr_report_line(b, "fixed", "%zu pass%s of blocks without data and parameters: simulated once, their state is kept", p->first_pass,
                       p->first_pass == 1 ? "" : "es");
    if (p->first_cross < p->n_steps)
        qr_report_line(b, "back", "down to the first block that has a parameter; adjoints only where one that has shares a qubit");
    qr_report_line(b, "threads", p->lanes_are_samples ? "each takes blocks of samples, in a workspace of its own" : "all share the tiles of one sample");
}

void qr_report_blocked(struct qr_report_build *b) {
    const struct qr_sim_plan *p = b->p;
    size_t per = p->lanes_are_samples ? QR_LANES : 1, groups = (b->r->n_samples + per - 1) / per;
    say_blocked(b);
    for (unsigned i = 0; i < p->n_passes; i++) {
        qr_report_part(b, "pass %u", i + 1);
        for (uint32_t k = p->passes[i].first_step; k < p->passes[i].first_step + p->passes[i].n_steps; k++)
            if (!p->steps[k].transpose) qr_report_block(b, p->steps[k].block, i, 0, 0);
    }
    if (p->first_pass) {
        struct qr_sim_stage *s = qr_report_stage(b, "fixed", "fixed blocks on |0...0>");
        s->when = QR_ONCE;
        forward_cost(b, s, 0, p->first_pass);
    }
    for (size_t g = 0; g < groups; g++) {
        forward_cost(b, qr_report_stage(b, "forward", p->first_pass ? "blocks on the fixed state" : "blocks on |0...0>"), p->first_pass, p->n_passes);
        qr_cost(qr_report_stage(b, "read-outs", "a Pauli string each"), cells_of(p) * 3 * (double)p->n_terms,
                cells_of(p) * (double)p->n_terms * (double)p->cell_bytes);
        if (p->first_cross == p->n_steps) continue;
        if (g + 1 < groups)
            forward_cost(b, qr_report_stage(b, "forward again", "one state is kept: the others are simulated again"), p->first_pass, p->n_passes);
        backward_cost(b);
    }
}
