/* sim/statevector/statevector_facts.c — report of a statevector plan: its lines, and the costs of
 * its kernel calls. Start reading at qr_statevector_report(). */
#include "sim/report/report_build.h"
#include "sim/statevector/statevector_impl.h"

static double state_cells(const struct qr_sim_plan *p) {
    return (double)(UINT64_C(1) << p->cell_bits);
}

/* Cells that a step acts on: those that satisfy its controls; controls on lanes are ignored. */
static double step_cells(const struct qr_sim_plan *p, const struct qr_plan_step *st) {
    int controls =
        __builtin_popcountll(st->target.controls) + __builtin_popcountll(st->outer_controls);
    return state_cells(p) / (double)(UINT64_C(1) << controls);
}

static struct qr_report_sparsity step_sparsity(const struct qr_report_build *b,
                                               const struct qr_plan_step *st, bool adjoint) {
    return st->wide_slot != QR_NO_SLOT ? qr_report_dense : b->sparsity[st->shape][adjoint];
}

/* Moves one state into the tiles of a pass, or back; exchanges lanes inside tiles. */
static void tile_move_cost(const struct qr_sim_plan *p, struct qr_sim_stage *s) {
    if (p->statevector->tile_bits < p->cell_bits)
        s->bytes += 2 * state_cells(p) * (double)p->cell_bytes;
}
static void transpose_cost(const struct qr_sim_plan *p, struct qr_sim_stage *s) {
    s->bytes += 2 * state_cells(p) * (double)p->cell_bytes;
}

static void statevector_forward_cost(struct qr_report_build *b, struct qr_sim_stage *s,
                                     size_t first, size_t end) {
    const struct qr_sim_plan *p = b->p;
    const struct qr_statevector *v = p->statevector;
    for (size_t i = first; i < end; i++) {
        const struct qr_plan_pass *pass = &v->passes[i];
        for (int way = 0; way < 2; way++) tile_move_cost(p, s);
        for (const struct qr_plan_step *st = v->steps + pass->first_step;
             st < v->steps + pass->first_step + pass->n_steps; st++) {
            if (st->transpose) transpose_cost(p, s);
            else qr_cost_apply(s, step_cells(p, st), step_sparsity(b, st, false), p->cell_bytes);
        }
    }
}

/* The products of a run are computed once, and its cells are read once. */
static void statevector_readout_cost(const struct qr_sim_plan *p, struct qr_sim_stage *s) {
    const struct qr_statevector *v = p->statevector;
    for (const struct qr_plan_run *r = v->runs; r < v->runs + v->n_runs; r++)
        qr_cost(s, state_cells(p) * (2.0 * r->parities + r->n),
                state_cells(p) * (double)p->cell_bytes);
}

static void statevector_backward_cost(struct qr_report_build *b) {
    const struct qr_sim_plan *p = b->p;
    const struct qr_statevector *v = p->statevector;
    double cells = state_cells(p), terms = (double)v->n_terms, runs = (double)v->n_runs;
    qr_cost(qr_report_stage(b, "observe", "lambda = O phi"), cells * 2 * terms,
            cells * 3 * runs * (double)p->cell_bytes);
    struct qr_sim_stage *s =
        qr_report_stage(b, "back", "cross matrices and adjoints, on phi and lambda");
    for (size_t i = 0; i < v->n_passes; i++) {
        const struct qr_plan_pass *pass = &v->passes[i];
        if (pass->first_step + pass->n_steps <= v->first_cross) continue;
        for (int state = 0; state < 2; state++) {
            if (state == 0 || i + 1 < v->n_passes || !v->tiles_observe) tile_move_cost(p, s);
            /* The result of the last pass is not read. */
            if (pass->first_step > v->first_cross) tile_move_cost(p, s);
        }
    }
    for (const struct qr_plan_step *st = v->steps + v->first_cross; st < v->steps + v->n_steps;
         st++) {
        if (st->transpose) {
            transpose_cost(p, s);
            transpose_cost(p, s);
            continue;
        }
        double inside = step_cells(p, st);
        if (st->cross) qr_cost_cross(s, inside, p->cell_bytes);
        if (st->needs_adjoint)
            qr_cost_apply(s, 2 * inside, step_sparsity(b, st, true), p->cell_bytes);
    }
}

static void report_passes(struct qr_report_build *b) {
    const struct qr_sim_plan *p = b->p;
    const struct qr_statevector *v = p->statevector;
    size_t n_turns = 0;
    for (size_t i = 0; i < v->n_steps; i++) n_turns += v->steps[i].transpose;
    qr_report_line(b, "lanes", "%s",
                   p->lanes_are_samples ? "16 samples side by side"
                                        : "four qubits, exchanged within passes");
    qr_report_line(b, "tiles",
                   "2^%u of 2^%u amplitudes, each through as many fused gates as fit: %zu pass%s "
                   "over the state%s",
                   v->tile_bits + (p->lanes_are_samples ? 0 : QR_LANE_BITS), p->n, v->n_passes,
                   v->n_passes == 1 ? "" : "es",
                   n_turns ? "; some passes exchange the lane qubits" : "");
    if (v->first_pass)
        qr_report_line(b, "fixed",
                       "%zu pass%s of fused gates without data or parameters: simulated once, "
                       "the state is kept",
                       v->first_pass, v->first_pass == 1 ? "" : "es");
    if (v->first_cross < v->n_steps)
        qr_report_line(b, "back",
                       "down to the first fused gate with a parameter%s; adjoints only where "
                       "an earlier such gate shares a qubit",
                       p->wanted ? " or a differentiated input" : "");
    qr_report_line(b, "threads",
                   p->lanes_are_samples ? "each thread runs micro-batches in its own workspace"
                                        : "all threads share the tiles of one sample");
}

void qr_statevector_report(struct qr_report_build *b) {
    const struct qr_sim_plan *p = b->p;
    const struct qr_statevector *v = p->statevector;
    size_t per = p->lanes_are_samples ? QR_LANES : 1, groups = (b->r->n_samples + per - 1) / per;
    report_passes(b);
    b->r->n_passes = p->statevector->n_passes;
    for (unsigned i = 0; i < v->n_passes; i++) {
        qr_report_part(b, "pass %u", i + 1);
        for (uint32_t k = v->passes[i].first_step;
             k < v->passes[i].first_step + v->passes[i].n_steps; k++)
            if (!v->steps[k].transpose) qr_report_gate(b, v->steps[k].fused, i, 0, 0);
    }
    if (v->first_pass) {
        struct qr_sim_stage *s = qr_report_stage(b, "fixed", "fixed gates on |0...0>");
        s->when = QR_ONCE;
        statevector_forward_cost(b, s, 0, v->first_pass);
    }
    for (size_t g = 0; g < groups; g++) {
        statevector_forward_cost(b,
                                 qr_report_stage(b, "forward",
                                                 v->first_pass ? "fused gates on the fixed state"
                                                               : "fused gates on |0...0>"),
                                 v->first_pass, v->n_passes);
        statevector_readout_cost(p, qr_report_stage(b, "read-outs", "one Pauli string per term"));
        if (v->first_cross == v->n_steps) continue;
        if (g + 1 < groups)
            statevector_forward_cost(
                b,
                qr_report_stage(b, "forward again",
                                "only one state is kept; the other groups are simulated again"),
                v->first_pass, v->n_passes);
        statevector_backward_cost(b);
    }
}
