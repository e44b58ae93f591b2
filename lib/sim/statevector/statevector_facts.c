/* sim/statevector/statevector_facts.c — report of a statevector plan: its lines, and the costs of
 * its kernel calls. Start reading at qr_statevector_report(). */
#include "base/mem.h"
#include "sim/report/report_build.h"
#include "sim/statevector/statevector_impl.h"

static double state_cells(const struct qr_sim_plan *p) {
    return (double)(UINT64_C(1) << p->cell_bits);
}

/* Cells of the tiles that differ in these bits outside them. */
static double pass_cells(const struct qr_sim_plan *p, uint64_t outside) {
    return (double)(UINT64_C(1) << (p->statevector->tile_bits +
                                    (unsigned)__builtin_popcountll(outside)));
}

/* Cells that a matrix acts on: those that satisfy its controls; controls on lanes are ignored. */
static double step_cells(const struct qr_sim_plan *p, const struct qr_plan_step *st,
                         uint64_t outside) {
    if (st->outer_values & ~outside) return 0;
    int controls = __builtin_popcountll(st->target.controls) +
                   __builtin_popcountll(st->outer_controls & outside);
    return pass_cells(p, outside) / (double)(UINT64_C(1) << controls);
}

static struct qr_report_sparsity step_sparsity(const struct qr_report_build *b,
                                               const struct qr_plan_step *st, bool adjoint) {
    return st->wide_slot != QR_NO_SLOT || st->numbers != QR_NO_SLOT
               ? qr_report_dense
               : b->sparsity[st->shape][adjoint];
}

/* Moves one state into the tiles of a pass, or back; exchanges lanes inside tiles. */
static void tile_move_cost(const struct qr_sim_plan *p, struct qr_sim_stage *s, double cells) {
    if (p->statevector->tile_bits < p->cell_bits) s->bytes += 2 * cells * (double)p->cell_bytes;
}

/* Operations of a one-qubit gate on a cell. */
static double gate_operations(const struct qr_report_build *b, const struct qr_plan_shape *s,
                              struct qr_growth *g) {
    struct qr_m4 m = s->data_slot == QR_NO_SLOT ? b->probe->suffix[s - b->p->shapes]
                                                : qr_bound_data_matrix(b->probe, s, 0, b->x);
    double narrow[QR_NARROW], numbers[QR_ROTATION_NUMBERS], adjoint[QR_ROTATION_NUMBERS];
    struct qr_c64 unused;
    qr_narrow_numbers(&m, narrow);
    qr_rotation_set(b->p, narrow, g, numbers, adjoint, &unused);
    return qr_rotation_operations(qr_rotation_form(numbers));
}

/* Sets b->operations of the steps of one-qubit gates. */
static void rotation_operations(struct qr_report_build *b) {
    const struct qr_statevector *v = b->p->statevector;
    struct qr_growth growth[2] = {{.norm = 1}, {.norm = 1}};
    for (size_t i = 0; i < v->n_steps; i++) {
        const struct qr_plan_step *st = &v->steps[i];
        struct qr_growth *g = &growth[st->needs_adjoint];
        if (st->kind == QR_FUSED_PHASE) (void)qr_growth_scale(g);
        for (uint32_t k = 0; k < st->n_gates && st->kind == QR_FUSED_ROTATION; k++)
            b->operations[i] += gate_operations(b, qr_step_shape(b->p, st, k), g);
    }
}

/* Operations of their cross numbers. */
static double rotation_cross(const struct qr_report_build *b, const struct qr_plan_step *st) {
    double sum = 0;
    for (uint32_t k = 0; k < st->n_gates; k++)
        sum += 2 * __builtin_popcount(qr_rotation_wanted(b->probe, qr_step_shape(b->p, st, k)));
    return sum;
}

/* Operations to make the phase of a cell. */
static double phase_operations(const struct qr_sim_plan *p, const struct qr_plan_step *st) {
    for (uint32_t k = 0; k < st->n_gates; k++) {
        const uint8_t *bit = p->statevector->gates[st->first_gate + k].bit;
        if (!qr_step_gate(p, st, k)->single && bit[0] < QR_LANE_BITS + QR_PHASE_BITS &&
            bit[1] < QR_LANE_BITS + QR_PHASE_BITS)
            return 8;
    }
    return 4;
}

/* Operations on one state and, backward, on two; states: how many are read and written. */
static void step_cost(struct qr_report_build *b, struct qr_sim_stage *s,
                      const struct qr_plan_step *st, uint64_t outside, bool back) {
    const struct qr_sim_plan *p = b->p;
    double cells = pass_cells(p, outside), cell = (double)p->cell_bytes, states = back ? 2 : 1;
    bool apply = !back || st->needs_adjoint;
    if (st->transpose) {
        s->bytes += states * 2 * cells * cell;
        return;
    }
    switch (st->kind) {
    case QR_FUSED_MATRIX:
        if (back && st->cross) qr_cost_cross(s, step_cells(p, st, outside), p->cell_bytes);
        if (apply)
            qr_cost_apply(s, states * step_cells(p, st, outside), step_sparsity(b, st, back),
                          p->cell_bytes);
        break;
    case QR_FUSED_ROTATION:
        if (back && st->cross) qr_cost(s, cells * rotation_cross(b, st), 0);
        if (apply) qr_cost(s, states * cells * b->operations[st - p->statevector->steps], 0);
        qr_cost(s, 0, cells * cell * (apply ? 2 * states : st->cross ? 2 : 0));
        break;
    case QR_FUSED_PHASE:
        if (back && st->cross) {
            unsigned bits = p->statevector->tile_bits;
            double tiles = cells / (double)(UINT64_C(1) << bits);
            qr_cost(s, tiles * qr_parity_operations(bits), cells * cell * 2);
        }
        if (apply)
            qr_cost(s, cells * (phase_operations(p, st) + 4 * states), cells * cell * 2 * states);
        break;
    case QR_FUSED_PERMUTATION:
        qr_cost(s, 0,
                states * 2 * cell * cells * st->n_cells /
                    (double)(UINT64_C(1) << p->statevector->tile_bits));
        break;
    }
}

static void statevector_forward_cost(struct qr_report_build *b, struct qr_sim_stage *s,
                                     size_t first, size_t end) {
    const struct qr_sim_plan *p = b->p;
    const struct qr_statevector *v = p->statevector;
    for (size_t i = first; i < end; i++) {
        const struct qr_plan_pass *pass = &v->passes[i];
        uint64_t outside = qr_pass_outside(p, i, false);
        for (int way = 0; way < 2; way++) tile_move_cost(p, s, pass_cells(p, outside));
        for (const struct qr_plan_step *st = v->steps + pass->first_step;
             st < v->steps + pass->first_step + pass->n_steps; st++)
            step_cost(b, s, st, outside, false);
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
        uint64_t outside = qr_pass_outside(p, i, true);
        if (pass->first_step + pass->n_steps <= v->first_cross) continue;
        for (int state = 0; state < 2; state++) {
            double moved = pass_cells(p, outside);
            if (state == 0 || i + 1 < v->n_passes || !v->tiles_observe) tile_move_cost(p, s, moved);
            /* The result of the last pass is not read. */
            if (pass->first_step > v->first_cross) tile_move_cost(p, s, moved);
        }
        for (const struct qr_plan_step *st = v->steps + pass->first_step;
             st < v->steps + pass->first_step + pass->n_steps; st++)
            if ((size_t)(st - v->steps) >= v->first_cross) step_cost(b, s, st, outside, true);
    }
}

/* Fused gates and steps of each kind. */
static void report_kinds(struct qr_report_build *b) {
    const struct qr_statevector *v = b->p->statevector;
    size_t gates[QR_FUSED_KINDS] = {0}, steps[QR_FUSED_KINDS] = {0}, moves = 0;
    for (size_t i = 0; i < v->n_steps; i++) {
        gates[v->steps[i].kind] += v->steps[i].n_gates;
        steps[v->steps[i].kind] += !v->steps[i].transpose;
        moves += v->steps[i].kind == QR_FUSED_PERMUTATION && v->steps[i].n_cells;
    }
    if (!b->p->structured) return;
    qr_report_line(b, "kinds",
                   "%zu one-qubit matrices in %zu steps, %zu diagonal ones in %zu products, %zu "
                   "permutations of indices, %zu moves of cells, %zu others",
                   gates[QR_FUSED_ROTATION], steps[QR_FUSED_ROTATION], gates[QR_FUSED_PHASE],
                   steps[QR_FUSED_PHASE], gates[QR_FUSED_PERMUTATION], moves,
                   gates[QR_FUSED_MATRIX]);
}

static void report_passes(struct qr_report_build *b) {
    const struct qr_sim_plan *p = b->p;
    const struct qr_statevector *v = p->statevector;
    size_t n_rotations = 0;
    for (size_t i = 0; i < v->n_steps; i++) n_rotations += v->steps[i].transpose;
    qr_report_line(b, "lanes", "%s",
                   p->lanes_are_samples ? "16 samples side by side"
                                        : "four qubits, exchanged within passes");
    qr_report_line(b, "tiles",
                   "2^%u of 2^%u amplitudes, each through as many fused gates as fit: %zu pass%s "
                   "over the state%s",
                   v->tile_bits + (p->lanes_are_samples ? 0 : QR_LANE_BITS), p->n, v->n_passes,
                   v->n_passes == 1 ? "" : "es",
                   n_rotations ? "; some passes exchange the lane qubits" : "");
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
    if (v->n_stops)
        qr_report_line(
            b, "prefix",
            "the state without errors is kept at %zu of %zu steps: a trajectory begins at "
            "the last one before its first error, and ends there backward",
            v->n_stops, v->n_steps);
    if (p->engine->micro_batches_in_parallel(p))
        qr_report_line(b, "threads", "each thread runs micro-batches in its own workspace%s",
                       p->n_channels ? "; idle threads share the trajectories of one" : "");
    else
        qr_report_line(b, "threads", "all threads share %s",
                       v->tile_bits < p->cell_bits ? "the tiles of one sample"
                                                   : "the trajectories of one sample");
}

void qr_statevector_report(struct qr_report_build *b) {
    const struct qr_sim_plan *p = b->p;
    const struct qr_statevector *v = p->statevector;
    size_t per = p->lanes_are_samples ? QR_LANES : 1, groups = (b->r->n_samples + per - 1) / per;
    b->operations = qr_xcalloc(v->n_steps + 1, sizeof *b->operations);
    rotation_operations(b);
    report_passes(b);
    report_kinds(b);
    b->r->n_passes = p->statevector->n_passes;
    for (unsigned i = 0; i < v->n_passes; i++) {
        qr_report_part(b, "pass %u", i + 1);
        for (uint32_t k = v->passes[i].first_step;
             k < v->passes[i].first_step + v->passes[i].n_steps; k++)
            for (uint32_t g = 0; g < v->steps[k].n_gates; g++)
                qr_report_gate(b, v->gates[v->steps[k].first_gate + g].fused, i, 0, 0);
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
