/* sim/statevector/shots.c — bit strings drawn from states, and read-outs as means over them. Start
 * reading at qr_shots_measure().
 *
 * Terms of observables that agree in their Pauli on every qubit are one group, measured together:
 * the qubits of X and Y are turned to the basis of Z, and a string is found by its random number in
 * the running sums of the probabilities. All in float64, in the order of strings. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "exact/random.h"
#include "sim/statevector/statevector_impl.h"

/* ---- the plan ---- */

/* Whether the term can be measured in the basis of a group; adds its qubits to it. measured: qubits
 * that the group's terms have. */
static bool group_takes(struct qr_shot_group *g, struct qr_qubits *measured,
                        const struct qr_pauli_term *t) {
    const struct qr_qubits on = qr_pauli_qubits(t);
    for (unsigned q = qr_qubits_first(&on); q < QR_MAX_QUBITS; q = qr_qubits_next(&on, q)) {
        char have = qr_qubits_has(&g->x, q) ? 'X' : qr_qubits_has(&g->y, q) ? 'Y' : 'Z';
        if (qr_qubits_has(measured, q) && have != qr_pauli_letter(t, q)) return false;
    }
    for (unsigned q = qr_qubits_first(&on); q < QR_MAX_QUBITS; q = qr_qubits_next(&on, q)) {
        qr_qubits_add(measured, q);
        if (qr_pauli_letter(t, q) == 'X') qr_qubits_add(&g->x, q);
        if (qr_pauli_letter(t, q) == 'Y') qr_qubits_add(&g->y, q);
    }
    return true;
}

static uint64_t parity_of(const struct qr_pauli_term *t, unsigned n_qubits) {
    const struct qr_qubits on = qr_pauli_qubits(t);
    uint64_t parity = 0;
    for (unsigned q = qr_qubits_first(&on); q < QR_MAX_QUBITS; q = qr_qubits_next(&on, q))
        parity |= UINT64_C(1) << (n_qubits - 1 - q);
    return parity;
}

static void place_terms(struct qr_sim_plan *p, struct qr_shots *s, const struct qr_observable *obs,
                        size_t n_obs) {
    size_t n = 0;
    for (size_t r = 0; r < n_obs; r++) n += obs[r].n_terms;
    s->groups = qr_xcalloc(n + 1, sizeof *s->groups);
    s->terms = qr_xcalloc(n + 1, sizeof *s->terms);
    struct qr_qubits *measured = qr_xcalloc(n + 1, sizeof *measured);
    uint32_t *group = qr_xcalloc(n + 1, sizeof *group), at = 0;
    for (size_t r = 0; r < n_obs; r++)
        for (size_t t = 0; t < obs[r].n_terms; t++, at++) {
            uint32_t g = 0;
            while (g < s->n_groups && !group_takes(&s->groups[g], &measured[g], &obs[r].terms[t]))
                g++;
            if (g == s->n_groups)
                (void)group_takes(&s->groups[s->n_groups++], &measured[g], &obs[r].terms[t]);
            group[at] = g;
        }
    for (uint32_t g = 0; g < s->n_groups; g++) {
        s->groups[g].first_term = s->n_terms;
        at = 0;
        for (size_t r = 0; r < n_obs; r++)
            for (size_t t = 0; t < obs[r].n_terms; t++, at++) {
                const struct qr_pauli_term *from = &obs[r].terms[t];
                uint64_t parity = parity_of(from, p->n_qubits);
                if (group[at] != g) continue;
                if (!parity) s->constants[r] += from->coefficient;
                else
                    s->terms[s->n_terms++] = (struct qr_shot_term){
                        .readout = (uint32_t)r, .coefficient = from->coefficient, .parity = parity};
            }
        s->groups[g].n_terms = s->n_terms - s->groups[g].first_term;
    }
    free(measured);
    free(group);
}

/* The random numbers below it have an event of this probability. */
static uint64_t threshold_of(double p) { return p >= 1 ? UINT64_MAX : (uint64_t)ldexp(p, 64); }

void qr_shots_plan(struct qr_sim_plan *p, const struct qr_observable *obs, size_t n_obs) {
    struct qr_shots *s = p->statevector->shots = qr_xcalloc(1, sizeof *s);
    s->constants = qr_xcalloc(n_obs + 1, sizeof *s->constants);
    place_terms(p, s, obs, n_obs);
    if (!p->readout_errors) return;
    s->errors = qr_xcalloc(p->n_qubits, sizeof *s->errors);
    for (unsigned q = 0; q < p->n_qubits; q++)
        for (int bit = 0; bit < 2; bit++)
            s->errors[q][bit] = threshold_of(p->readout_errors[q][bit]);
}

void qr_shots_plan_free(struct qr_shots *s) {
    if (!s) return;
    free(s->groups);
    free(s->terms);
    free(s->constants);
    free(s->errors);
    free(s);
}

void qr_shots_buffers(struct qr_buffers *r, struct qr_statevector_workspace *ws) {
    const struct qr_sim_plan *p = ws->head.plan;
    size_t n = (size_t)1 << p->n_qubits;
    struct qr_shot_buffers unused, *s;
    qr_buffers_take(r, "shots", sizeof *ws->shots, &ws->shots);
    s = ws->shots ? ws->shots : &unused;
    qr_buffers_take(r, "shots", 2 * n * sizeof *s->state, &s->state);
    qr_buffers_take(r, "shots", n * sizeof *s->sums, &s->sums);
    qr_buffers_take(r, "shots", p->shots * sizeof *s->strings, &s->strings);
    qr_buffers_take(r, "shots", p->n_readouts * sizeof *s->z, &s->z);
}

void qr_shots_of(const struct qr_sim_plan *p, uint32_t trajectory, unsigned *ret_first,
                 unsigned *ret_n) {
    uint64_t all = p->shots, n = p->n_trajectories;
    *ret_first = (unsigned)(all * trajectory / n);
    *ret_n = (unsigned)(all * (trajectory + 1) / n) - *ret_first;
}

/* ---- draws ---- */

static void draw_block(uint64_t key, uint32_t a, uint32_t low, uint32_t high, uint64_t ret[2]) {
    const uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)},
                   counter[4] = {QR_RANDOM_SHOT, a, low, high};
    uint32_t out[4];
    qr_philox4x32(k, counter, out);
    ret[0] = (uint64_t)out[1] << 32 | out[0];
    ret[1] = (uint64_t)out[3] << 32 | out[2];
}

/* Turns qubit q of the state: H for X; H S^adjoint for Y. */
static void turn_qubit(double *state, unsigned n_qubits, unsigned q, bool y) {
    const double half = 0x1.6a09e667f3bcdp-1; /* 1 / sqrt 2 */
    size_t bit = (size_t)1 << (n_qubits - 1 - q);
    for (size_t i = 0; i < (size_t)1 << n_qubits; i++) {
        double *a = state + 2 * i, *b = state + 2 * (i | bit);
        if (i & bit) continue;
        double re = y ? b[1] : b[0], im = y ? -b[0] : b[1]; /* b, or -i b */
        double sum[2] = {half * (a[0] + re), half * (a[1] + im)},
               difference[2] = {half * (a[0] - re), half * (a[1] - im)};
        memcpy(a, sum, sizeof sum);
        memcpy(b, difference, sizeof difference);
    }
}

/* The state of a lane in the basis of a group (NULL: Z), as running sums of probabilities. */
static bool set_sums(struct qr_statevector_workspace *ws, size_t lane,
                     const struct qr_shot_group *g) {
    const struct qr_sim_plan *p = ws->head.plan;
    double *state = ws->shots->state, sum = 0;
    qr_statevector_copy_state(ws, lane, state);
    for (unsigned q = 0; g && q < p->n_qubits; q++)
        if (qr_qubits_has(&g->x, q) || qr_qubits_has(&g->y, q))
            turn_qubit(state, p->n_qubits, q, qr_qubits_has(&g->y, q));
    for (size_t i = 0; i < (size_t)1 << p->n_qubits; i++) {
        sum += state[2 * i] * state[2 * i] + state[2 * i + 1] * state[2 * i + 1];
        ws->shots->sums[i] = sum;
    }
    return isfinite(sum) && sum > 0;
}

/* The first string whose running sum exceeds u, below the last sum. */
static uint64_t find_string(const double *sums, unsigned n_qubits, double u) {
    uint64_t at = 0;
    for (unsigned bit = n_qubits; bit-- > 0;)
        if (sums[(at | UINT64_C(1) << bit) - 1] <= u) at |= UINT64_C(1) << bit;
    return at;
}

static uint64_t with_read_errors(const struct qr_sim_plan *p, uint64_t key, uint32_t shot,
                                 uint64_t string) {
    const struct qr_shots *s = p->statevector->shots;
    uint64_t u[2] = {0, 0}, read = string;
    for (unsigned q = 0; q < p->n_qubits; q++) {
        uint64_t bit = UINT64_C(1) << (p->n_qubits - 1 - q);
        if (q % 2 == 0) draw_block(key, 1 + q / 2, shot, 0, u);
        if (u[q % 2] < s->errors[q][!!(string & bit)]) read ^= bit;
    }
    return read;
}

static void draw_strings(const struct qr_statevector_workspace *ws,
                         const struct qr_shot_source *from, uint32_t group, uint64_t *ret) {
    const struct qr_sim_plan *p = ws->head.plan;
    const double *sums = ws->shots->sums, all = sums[((size_t)1 << p->n_qubits) - 1];
    uint64_t key[2], u[2];
    draw_block(ws->head.draw.key, group, from->trajectory, qr_noise_sample(ws, from->sample), key);
    for (unsigned i = 0; i < from->n; i++) {
        draw_block(key[0], 0, from->first + i, 0, u);
        ret[i] = find_string(sums, p->n_qubits, (double)(u[0] >> 11) * 0x1p-53 * all);
        if (p->readout_errors) ret[i] = with_read_errors(p, key[0], from->first + i, ret[i]);
    }
}

bool qr_shots_draw(struct qr_statevector_workspace *ws, const struct qr_shot_source *from,
                   uint64_t *ret) {
    if (!set_sums(ws, from->lane, NULL)) return false;
    draw_strings(ws, from, 0, ret);
    return true;
}

bool qr_shots_measure(struct qr_statevector_workspace *ws, const struct qr_shot_source *from,
                      double *z) {
    const struct qr_sim_plan *p = ws->head.plan;
    const struct qr_shots *s = p->statevector->shots;
    uint64_t *strings = ws->shots->strings;
    for (uint32_t g = 0; g < s->n_groups; g++) {
        const struct qr_shot_group *group = &s->groups[g];
        if (!group->n_terms || !from->n) continue;
        if (!set_sums(ws, from->lane, group)) return false;
        draw_strings(ws, from, g, strings);
        for (size_t t = group->first_term; t < group->first_term + group->n_terms; t++) {
            int64_t sum = 0;
            for (unsigned i = 0; i < from->n; i++)
                sum += __builtin_parityll(strings[i] & s->terms[t].parity) ? -1 : 1;
            z[s->terms[t].readout] += s->terms[t].coefficient * (double)sum / p->shots;
        }
    }
    return true;
}
