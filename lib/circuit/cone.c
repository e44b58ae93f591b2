/* circuit/cone.c — light cones by commutation. Start reading at qr_cone_find().
 *
 * Walking back from one Pauli term, keep for every qubit the Paulis that certainly commute with the
 * operator O so far (O is the term carried back through the gates already passed, U^dagger O U):
 * all three while O does not touch the qubit, one where O has only that Pauli there, none in
 * general.
 *   A gate is a product of exponentials of products with one Pauli factor per qubit (X on the
 * target of X^t and CNOT^t, Z on every control, ...), or of a wider operator ("any"). If O commutes
 * with the factor on every qubit of the gate, O commutes with the gate and with its generator:
 * U^dagger O U = O, and the derivative of <O> with respect to the gate's arguments is exactly zero,
 * for every initial state.
 *   Otherwise the gate is in the cone, and on a qubit where the gate has the factor P only, O and
 * U both commute with P, so U^dagger O U still does; on a qubit with "any" nothing is known
 * afterwards. A noise channel is in the cone if O touches one of its qubits.
 *   Only gates on qubits that O touches are visited: a heap has the last unvisited gate of each
 *   such
 * qubit, and the latest of them comes next.
 */
#include "circuit/cone.h"

#include <string.h>

#include "base/mem.h"

enum { ALL = QR_PAULI_X | QR_PAULI_Y | QR_PAULI_Z, ANY = 0 };

/* One qubit of one gate. */
struct leg {
    uint32_t gate;
    uint16_t qubit;
    uint8_t factor;
};

/* The latest unvisited gate on a qubit. */
struct head {
    uint32_t gate;
    uint16_t qubit;
};

struct qr_cone_finder {
    unsigned n_qubits;
    /* n_gates + 1: start of each gate's legs, in `legs`; identities have none */
    size_t *gate_first;
    struct leg *legs;
    size_t *qubit_first; /* n_qubits + 1: start of each qubit's gates, ascending, in `gates` */
    uint32_t *gates;
    /* State of one walk: */
    uint8_t known[QR_MAX_QUBITS]; /* Paulis that commute with O on this qubit; ALL between walks */
    size_t left[QR_MAX_QUBITS];   /* end of the qubit's unvisited gates */
    struct head heap[QR_MAX_QUBITS];
    size_t n_heap;
};

static void add_leg(struct leg *legs, size_t *n, size_t gate, unsigned qubit, uint8_t factor) {
    legs[(*n)++] = (struct leg){(uint32_t)gate, (uint16_t)qubit, factor};
}

/* Pauli errors and damping multiply a Pauli by a number and may add the identity: whatever commuted
 * with O on the qubit does so afterwards. */
static uint8_t channel_factor(const struct qr_channel *c) { return c->info->kraus ? ANY : ALL; }

static void find_legs(struct qr_cone_finder *f, const struct qr_circuit *c) {
    size_t n = 0, most = 0;
    for (size_t i = 0; i < c->n_gates; i++)
        most += c->gates[i].n_targets + qr_qubits_count(&c->gates[i].controls);
    f->gate_first = qr_xcalloc(c->n_gates + 1, sizeof *f->gate_first);
    f->legs = qr_xcalloc(most + 1, sizeof *f->legs);
    for (size_t i = 0; i < c->n_gates; i++, f->gate_first[i] = n) {
        const struct qr_gate *g = &c->gates[i];
        bool channel = g->kind == QR_GATE_CHANNEL;
        const struct qr_gate_info *info = channel ? NULL : qr_gate_info(g->kind);
        if (info && info->identity) continue;
        for (unsigned k = 0; k < g->n_targets; k++)
            add_leg(f->legs, &n, i, g->targets[k],
                    channel ? channel_factor(&c->channels[g->channel]) : info->factor[k]);
        const struct qr_qubits *on = &g->controls;
        for (unsigned q = qr_qubits_first(on); q < QR_MAX_QUBITS; q = qr_qubits_next(on, q))
            add_leg(f->legs, &n, i, q, QR_PAULI_Z);
    }
}

struct qr_cone_finder *qr_cone_finder_new(const struct qr_circuit *c) {
    struct qr_cone_finder *f = qr_xcalloc(1, sizeof *f);
    f->n_qubits = c->n_qubits;
    find_legs(f, c);
    size_t n_legs = f->gate_first[c->n_gates];
    /* Counting sort: legs are in gate order, so each qubit's gates ascend */
    f->qubit_first = qr_xcalloc((size_t)c->n_qubits + 2, sizeof *f->qubit_first);
    f->gates = qr_xcalloc(n_legs + 1, sizeof *f->gates);
    for (size_t i = 0; i < n_legs; i++) f->qubit_first[f->legs[i].qubit + 2]++;
    for (unsigned q = 2; q < c->n_qubits + 2; q++) f->qubit_first[q] += f->qubit_first[q - 1];
    for (size_t i = 0; i < n_legs; i++)
        f->gates[f->qubit_first[f->legs[i].qubit + 1]++] = f->legs[i].gate;
    memset(f->known, ALL, sizeof f->known);
    return f;
}

void qr_cone_finder_free(struct qr_cone_finder *f) {
    if (!f) return;
    free(f->gate_first);
    free(f->legs);
    free(f->qubit_first);
    free(f->gates);
    free(f);
}

/* ---- the heap: the latest gate first ---- */

static void cone_heap_push(struct qr_cone_finder *f, unsigned q) {
    if (f->left[q] == f->qubit_first[q]) return;
    struct head new = {f->gates[--f->left[q]], (uint16_t)q};
    size_t i = f->n_heap++;
    for (; i && f->heap[(i - 1) / 2].gate < new.gate; i = (i - 1) / 2)
        f->heap[i] = f->heap[(i - 1) / 2];
    f->heap[i] = new;
}

static unsigned cone_heap_pop(struct qr_cone_finder *f) {
    unsigned q = f->heap[0].qubit;
    struct head last = f->heap[--f->n_heap];
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < f->n_heap; i = k) {
        if (k + 1 < f->n_heap && f->heap[k + 1].gate > f->heap[k].gate) k++;
        if (f->heap[k].gate <= last.gate) break;
        f->heap[i] = f->heap[k];
    }
    f->heap[i] = last;
    return q;
}

/* O touches the qubit from here on: adds its gates before gate `end`. */
static void cone_reach_qubit(struct qr_cone_finder *f, unsigned q, size_t end) {
    size_t low = f->qubit_first[q], high = f->qubit_first[q + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (f->gates[middle] < end) low = middle + 1;
        else high = middle;
    }
    f->left[q] = low;
    cone_heap_push(f, q);
}

/* ---- the walk ---- */

static bool leg_commutes(uint8_t known, uint8_t factor) {
    return factor == ANY ? known == ALL : (known & factor) == factor;
}

/* Carries O through gate i; returns whether the gate is in the cone. */
static bool cone_carry(struct qr_cone_finder *f, size_t i) {
    const struct leg *first = f->legs + f->gate_first[i], *end = f->legs + f->gate_first[i + 1];
    bool passes = true;
    for (const struct leg *l = first; l < end && passes; l++)
        passes = leg_commutes(f->known[l->qubit], l->factor);
    if (passes) return false;
    for (const struct leg *l = first; l < end; l++) {
        uint8_t before = f->known[l->qubit];
        f->known[l->qubit] &= l->factor;
        if (before == ALL) cone_reach_qubit(f, l->qubit, i);
    }
    return true;
}

size_t qr_cone_find(struct qr_cone_finder *f, const struct qr_pauli_term *term,
                    uint32_t *ret_gates) {
    struct qr_qubits on = term->x;
    qr_qubits_add_all(&on, &term->z);
    for (unsigned q = qr_qubits_first(&on); q < QR_MAX_QUBITS; q = qr_qubits_next(&on, q)) {
        bool x = qr_qubits_has(&term->x, q), z = qr_qubits_has(&term->z, q);
        f->known[q] = x && z ? QR_PAULI_Y : x ? QR_PAULI_X : QR_PAULI_Z;
        cone_reach_qubit(f, q, SIZE_MAX);
    }
    size_t n = 0;
    while (f->n_heap) {
        uint32_t gate = f->heap[0].gate;
        unsigned q;
        do {
            q = cone_heap_pop(f);
            cone_heap_push(f, q);
        } while (f->n_heap && f->heap[0].gate == gate);
        if (cone_carry(f, gate)) ret_gates[n++] = gate;
    }
    for (size_t i = 0, k = n; i + 1 < k; i++) {
        uint32_t late = ret_gates[i];
        ret_gates[i] = ret_gates[--k];
        ret_gates[k] = late;
    }
    memset(f->known, ALL, f->n_qubits);
    return n;
}
