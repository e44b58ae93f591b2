/* sim/statevector/noise_sites.c — Pauli errors inside fused gates: their draws, the numbers of
 * steps with errors, and what derivatives see of them. Start reading at qr_noise_prepare().
 *
 * A fused gate with errors has numbers of its own in that lane: M times B^adjoint P B for each
 * error P, in order of time, where M is the fused gate's matrix, and B the product of its gates
 * before the error. */
#include <string.h>

#include "base/mem.h"
#include "exact/random.h"
#include "sim/statevector/statevector_impl.h"

enum { PAULIS = QR_NOISE_PAULIS };

size_t qr_noise_numbers_size(const struct qr_sim_plan *p) {
    return p->lanes_are_samples ? QR_WIDE : QR_NARROW;
}

/* ---- draws ---- */

/* Two draws: words 0 and 1, and words 2 and 3, of one block. */
void qr_noise_draw_pair(uint64_t key, uint32_t pair, uint32_t sample, uint32_t trajectory,
                        uint64_t ret[2]) {
    const uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)},
                   counter[4] = {QR_RANDOM_TRAJECTORY, pair, trajectory, sample};
    uint32_t out[4];
    qr_philox4x32(k, counter, out);
    ret[0] = (uint64_t)out[1] << 32 | out[0];
    ret[1] = (uint64_t)out[3] << 32 | out[2];
}

/* The same for pairs `pair` .. pair + QR_PHILOX_MANY - 1. */
enum { DRAWS = 2 * QR_PHILOX_MANY };
static void draw_many(uint64_t key, uint32_t pair, uint32_t sample, uint32_t trajectory,
                      uint64_t ret[DRAWS]) {
    const uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    uint32_t word[4][QR_PHILOX_MANY];
    for (uint32_t i = 0; i < QR_PHILOX_MANY; i++) {
        word[0][i] = QR_RANDOM_TRAJECTORY;
        word[1][i] = pair + i;
        word[2][i] = trajectory;
        word[3][i] = sample;
    }
    qr_philox4x32_many(k, word);
    for (uint32_t i = 0; i < QR_PHILOX_MANY; i++) {
        ret[2 * i] = (uint64_t)word[1][i] << 32 | word[0][i];
        ret[2 * i + 1] = (uint64_t)word[3][i] << 32 | word[2][i];
    }
}

uint32_t qr_noise_sample(const struct qr_statevector_workspace *ws, uint32_t sample) {
    return ws->head.draw.sample ? ws->head.draw.sample[sample] : sample;
}

static uint8_t pauli_of(const uint64_t *thresholds, unsigned n, uint64_t u) {
    if (u >= thresholds[0]) return 0;
    uint8_t p = 1;
    while (p + 1u < n && u >= thresholds[p]) p++;
    return p;
}

/* Draws the Paulis of a row; returns whether there is an error. */
bool qr_noise_draw_row(const struct qr_sim_bound *b, const struct qr_statevector_workspace *ws,
                       uint32_t sample, uint32_t trajectory, uint8_t *ret) {
    const struct qr_sim_plan *p = b->plan;
    const uint32_t *channel = p->statevector->site_channels;
    uint32_t number = qr_noise_sample(ws, sample);
    bool any = false;
    for (size_t i = 0; i < p->n_noise; i += DRAWS) {
        uint64_t u[DRAWS];
        draw_many(ws->head.draw.key, (uint32_t)(i / 2), number, trajectory, u);
        for (size_t k = i; k < i + DRAWS && k < p->n_noise; k++) {
            ret[k] = 0;
            if (channel[k] == QR_NO_SLOT) continue;
            unsigned n = p->channels[channel[k]].info->n_targets == 1 ? 4 : 16;
            ret[k] =
                pauli_of(b->statevector->thresholds + (size_t)channel[k] * PAULIS, n, u[k - i]);
            any |= ret[k] != 0;
        }
    }
    return any;
}

/* ---- Pauli errors in fused gates ---- */

/* The Pauli on both frame positions. */
static unsigned frame_pauli(const struct qr_plan_site *site, unsigned pauli) {
    if (site->n_targets == 1) return site->t[0] ? pauli : pauli * 4;
    return site->t[0] ? pauli % 4 * 4 + pauli / 4 : pauli;
}

/* The nonzero entry of a frame Pauli in a row: its column, and its power of i. */
static unsigned pauli_column(unsigned pauli, unsigned row, unsigned *ret_power) {
    unsigned column = row;
    *ret_power = 0;
    for (unsigned k = 0; k < 2; k++) {
        unsigned digit = k ? pauli % 4 : pauli / 4, bit = k ? 1 : 2;
        bool one = row & bit;
        if (digit == 1 || digit == 2) column ^= bit;
        if (digit == 2) *ret_power += one ? 1 : 3; /* Y: -i in row 0, i in row 1 */
        if (digit == 3 && one) *ret_power += 2;
    }
    *ret_power %= 4;
    return column;
}

static struct qr_c64 times_power_of_i(struct qr_c64 z, unsigned power) {
    switch (power) {
    case 1: return (struct qr_c64){-z.im, z.re};
    case 2: return (struct qr_c64){-z.re, -z.im};
    case 3: return (struct qr_c64){z.im, -z.re};
    default: return z;
    }
}

/* P m */
static struct qr_m4 pauli_times(unsigned pauli, const struct qr_m4 *m) {
    struct qr_m4 ret;
    for (unsigned r = 0; r < 4; r++) {
        unsigned power, from = pauli_column(pauli, r, &power);
        for (unsigned c = 0; c < 4; c++)
            ret.e[r * 4 + c] = times_power_of_i(m->e[from * 4 + c], power);
    }
    return ret;
}

/* a^adjoint P a */
static struct qr_m4 turned_pauli(const struct qr_m4 *a, unsigned pauli) {
    struct qr_m4 back = qr_m4_adjoint(a), turned = pauli_times(pauli, a);
    return qr_m4_mul(&back, &turned);
}

static const struct qr_plan_site *event_site(const struct qr_sim_plan *p,
                                             const struct qr_plan_step *st,
                                             const struct qr_noise_event *e) {
    return &p->sites[p->shapes[st->shape].first_site + e->site];
}

/* The fused gate's matrix with the errors of one lane, first .. end - 1. */
static struct qr_m4 matrix_with_errors(const struct qr_sweep *r, const struct qr_plan_step *st,
                                       const struct qr_noise_event *first,
                                       const struct qr_noise_event *end) {
    const struct qr_sim_plan *p = r->p;
    struct qr_m4 m = r->b->suffix[st->shape];
    for (const struct qr_noise_event *e = end; e-- > first;) {
        const struct qr_plan_site *site = event_site(p, st, e);
        struct qr_m4 error =
            turned_pauli(&r->b->statevector->before[site - p->sites], frame_pauli(site, e->pauli));
        m = qr_m4_mul(&m, &error);
    }
    return m;
}

/* Errors of a step in one lane; *ret_end: after the last. */
static const struct qr_noise_event *lane_events(const struct qr_trajectories *t, uint32_t slot,
                                                unsigned lane,
                                                const struct qr_noise_event **ret_end) {
    const struct qr_noise_event *e = t->events + t->first_event[slot],
                                *end = t->events + t->first_event[slot + 1];
    while (e < end && e->lane < lane) e++;
    *ret_end = e;
    while (*ret_end < end && (*ret_end)->lane == lane) ++*ret_end;
    return e;
}

/* Of a lane; a shape with data has no sites. */
static struct qr_m4 step_matrix(const struct qr_sweep *r, const struct qr_plan_step *st,
                                unsigned lane) {
    const struct qr_plan_shape *s = &r->p->shapes[st->shape];
    const struct qr_noise_event *end, *e = lane_events(r->ws->noise, st->noise_slot, lane, &end);
    if (lane >= r->n || (st->condition && !qr_condition_holds(r, st, lane)))
        return qr_m4_identity();
    if (s->data_slot != QR_NO_SLOT)
        return qr_bound_data_matrix(r->b, s, 0, r->x + lane * r->p->n_columns);
    return e < end ? matrix_with_errors(r, st, e, end) : r->b->suffix[st->shape];
}

static void set_step_numbers(const struct qr_sweep *r, const struct qr_plan_step *st) {
    double *to = r->ws->noise->numbers + (size_t)st->noise_slot * qr_noise_numbers_size(r->p);
    for (unsigned l = 0; l < (r->p->lanes_are_samples ? QR_LANES : 1); l++) {
        struct qr_m4 m = step_matrix(r, st, l);
        if (r->p->lanes_are_samples) qr_wide_numbers(&m, l, to);
        else qr_narrow_numbers(&m, to);
        if (!st->needs_adjoint && r->v->n_stops) { /* m becomes the matrix without errors */
            struct qr_m4 back = qr_m4_adjoint(&m);
            double numbers[QR_NARROW];
            back = qr_m4_mul(&r->b->suffix[st->shape], &back);
            qr_narrow_numbers(&back, numbers);
            memcpy(to + QR_NARROW / 2, numbers, sizeof numbers / 2);
        }
    }
}

bool qr_noise_is_undone(const struct qr_sweep *r, const struct qr_plan_step *st) {
    return st->needs_adjoint || (r->v->n_stops && qr_noise_numbers(r, st));
}

bool qr_condition_holds(const struct qr_sweep *r, const struct qr_plan_step *st, unsigned lane) {
    return !st->condition || r->ws->noise->holds[st->noise_slot] >> lane & 1;
}

uint16_t qr_condition_forward(const struct qr_sweep *r, const struct qr_plan_step *st) {
    struct qr_trajectories *t = r->ws->noise;
    const struct qr_condition *c = &r->p->conditions.list[st->condition - 1];
    uint16_t holds = 0;
    for (unsigned l = 0; l < r->n; l++) {
        bool all = true;
        for (unsigned b = qr_qubits_first(&c->bits); b < QR_MAX_QUBITS;
             b = qr_qubits_next(&c->bits, b))
            all &= t->bits[b * QR_LANES + l] == qr_qubits_has(&c->values, b);
        if (all) holds |= (uint16_t)(1u << l);
    }
    t->holds[st->noise_slot] = holds;
    if (st->branch == QR_NO_SLOT && r->p->lanes_are_samples) set_step_numbers(r, st);
    return holds;
}

void qr_noise_prepare(const struct qr_sweep *r) {
    const struct qr_sim_plan *p = r->p;
    struct qr_trajectories *t = r->ws->noise;
    size_t n_events = 0;
    for (size_t l = 0; l < r->n; l++) {
        const struct qr_trajectory *row = &t->rows->list[r->first + l];
        uint8_t *to = t->outcomes + l * p->n_noise;
        if (row->shared) memset(to, 0, p->n_noise);
        else if (t->rows->outcomes)
            memcpy(to,
                   t->rows->outcomes +
                       ((size_t)row->sample * p->n_trajectories + row->number) * p->n_noise,
                   p->n_noise);
        else qr_noise_draw_row(r->b, r->ws, row->sample, row->number, to);
    }
    for (size_t i = 0; i < r->v->n_steps; i++) {
        const struct qr_plan_step *st = &r->v->steps[i];
        if (st->noise_slot == QR_NO_SLOT) continue;
        uint32_t n_sites = p->shapes[st->shape].n_sites,
                 first = qr_step_gate(p, st, 0)->first_noise;
        t->first_event[st->noise_slot] = (uint32_t)n_events;
        for (uint8_t l = 0; l < r->n; l++)
            for (uint32_t k = 0; k < n_sites; k++) {
                uint8_t pauli = t->outcomes[l * p->n_noise + p->noise[first + k].number];
                if (!pauli) continue;
                t->events[n_events++] = (struct qr_noise_event){
                    .noise_slot = st->noise_slot, .site = k, .lane = l, .pauli = pauli};
            }
        t->first_event[st->noise_slot + 1] = (uint32_t)n_events;
        /* Lanes of a condition are known later; with one lane the step acts or not. */
        t->holds[st->noise_slot] = UINT16_MAX;
        if (n_events > t->first_event[st->noise_slot]) set_step_numbers(r, st);
    }
}

const double *qr_noise_numbers(const struct qr_sweep *r, const struct qr_plan_step *st) {
    const struct qr_trajectories *t = r->ws->noise;
    size_t size = qr_noise_numbers_size(r->p);
    if (st->branch != QR_NO_SLOT) return t->branch_numbers + (size_t)st->branch * size;
    if (st->noise_slot == QR_NO_SLOT ||
        (!(st->condition && r->p->lanes_are_samples) &&
         t->first_event[st->noise_slot] == t->first_event[st->noise_slot + 1]))
        return NULL;
    return t->numbers + (size_t)st->noise_slot * size;
}

/* ---- their derivatives ---- */

/* K, which is anti-Hermitian, from its numbers, and back. */
static struct qr_m4 matrix_of_cross(const double k[QR_CROSS]) {
    static const uint8_t rows[6] = {0, 0, 0, 1, 1, 2}, columns[6] = {1, 2, 3, 2, 3, 3};
    struct qr_m4 m = {0};
    for (unsigned i = 0; i < 6; i++) {
        m.e[rows[i] * 4 + columns[i]] = (struct qr_c64){k[2 * i], k[2 * i + 1]};
        m.e[columns[i] * 4 + rows[i]] = (struct qr_c64){-k[2 * i], k[2 * i + 1]};
    }
    for (unsigned i = 0; i < 4; i++) m.e[i * 5].im = 2 * k[12 + i];
    return m;
}
static void cross_of_matrix(const struct qr_m4 *m, double ret[QR_CROSS]) {
    static const uint8_t rows[6] = {0, 0, 0, 1, 1, 2}, columns[6] = {1, 2, 3, 2, 3, 3};
    for (unsigned i = 0; i < 6; i++) {
        ret[2 * i] = m->e[rows[i] * 4 + columns[i]].re;
        ret[2 * i + 1] = m->e[rows[i] * 4 + columns[i]].im;
    }
    for (unsigned i = 0; i < 4; i++) ret[12 + i] = m->e[i * 5].im / 2;
}

/* Gates before an error see K turned by Q = A P A^adjoint, A the product of the gates after it. The
 * correction of the error's site is the difference. */
static void correct_lane(const struct qr_sweep *r, const struct qr_plan_step *st, unsigned lane,
                         double k[QR_CROSS], struct qr_sweep_slot *slot) {
    const struct qr_sim_plan *p = r->p;
    const struct qr_noise_event *end,
        *first = lane_events(r->ws->noise, st->noise_slot, lane, &end);
    struct qr_m4 m = matrix_of_cross(k);
    for (const struct qr_noise_event *e = end; e-- > first;) {
        const struct qr_plan_site *site = event_site(p, st, e);
        struct qr_m4 back = qr_m4_adjoint(&r->b->statevector->after[site - p->sites]),
                     q = turned_pauli(&back, frame_pauli(site, e->pauli)), half = qr_m4_mul(&q, &m);
        double turned[QR_CROSS];
        m = qr_m4_mul(&half, &q); /* Q is its own adjoint. */
        cross_of_matrix(&m, turned);
        qr_fixed *to = slot->sites + (size_t)(site - p->sites) * QR_CROSS;
        for (unsigned i = 0; i < QR_CROSS; i++) {
            qr_fixed f;
            if (qr_fixed_from_double(turned[i] - k[i], &f)) to[i] += f;
            else slot->bad = true;
            k[i] = turned[i];
        }
    }
}

void qr_noise_correct(const struct qr_sweep *r, const struct qr_plan_step *st,
                      const double (*acc)[QR_LANES], const double *sum,
                      struct qr_sweep_slot *slot) {
    const struct qr_trajectories *t = r->ws->noise;
    const struct qr_noise_event *e = t->events + t->first_event[st->noise_slot],
                                *end = t->events + t->first_event[st->noise_slot + 1];
    double k[QR_CROSS];
    while (e < end) {
        unsigned lane = e->lane;
        for (unsigned i = 0; i < QR_CROSS; i++) k[i] = acc ? acc[i][lane] * r->scale[lane] : sum[i];
        correct_lane(r, st, lane, k, slot);
        while (e < end && e->lane == lane) e++;
    }
}
