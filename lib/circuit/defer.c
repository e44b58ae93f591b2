/* circuit/defer.c — measurements as CNOTs, conditions as controls. Start reading at
 * qr_circuit_defer(). */
#include "circuit/defer.h"

#include <string.h>

#include "base/mem.h"

/* What happens to the result of a measurement. */
enum result { NOT_USED, IN_ITSELF, IN_ANOTHER };

struct deferral {
    const struct qr_circuit *c;
    struct qr_circuit *to;
    uint8_t *results; /* per gate: enum result of a measurement */
    bool *unread;     /* per gate: an unused measurement changes nothing that is read */
    uint16_t *place;  /* n_bits */
    unsigned next;    /* the next further qubit */
    struct qr_err *err;
};

static const struct qr_channel *measurement_of(const struct qr_circuit *c,
                                               const struct qr_gate *g) {
    const struct qr_channel *n = g->kind == QR_GATE_CHANNEL ? &c->channels[g->channel] : NULL;
    return n && n->info->measures ? n : NULL;
}

/* ---- which results are used ---- */

/* Walks back. quiet: qubits that later gates have as controls alone and that are read in the basis
 * of Z; used: bits that later gates depend on. Returns the number of further qubits. */
static unsigned find_results(struct deferral *d, struct qr_qubits quiet, struct qr_qubits used) {
    unsigned n = 0;
    for (size_t i = d->c->n_gates; i-- > 0;) {
        const struct qr_gate *g = &d->c->gates[i];
        const struct qr_channel *m = measurement_of(d->c, g);
        if (g->condition) qr_qubits_add_all(&used, &d->c->conditions.list[g->condition - 1].bits);
        if (!m) {
            for (unsigned k = 0; k < g->n_targets; k++) qr_qubits_remove(&quiet, g->targets[k]);
            continue;
        }
        bool is_quiet = qr_qubits_has(&quiet, g->targets[0]);
        d->unread[i] = is_quiet;
        if (!g->bit || !qr_qubits_has(&used, g->bit - 1u)) continue;
        qr_qubits_remove(&used, g->bit - 1u);
        d->results[i] = is_quiet && qr_channel_reads_exactly(m) ? IN_ITSELF : IN_ANOTHER;
        n += d->results[i] == IN_ANOTHER;
    }
    return n;
}

static struct qr_qubits all_until(unsigned n) {
    struct qr_qubits all = {{0}};
    for (unsigned i = 0; i < n; i++) qr_qubits_add(&all, i);
    return all;
}

static struct qr_qubits read_in_z(const struct qr_circuit *c, const struct qr_observable *obs,
                                  size_t n_obs) {
    struct qr_qubits all = all_until(c->n_qubits);
    for (size_t r = 0; r < n_obs; r++)
        for (size_t t = 0; t < obs[r].n_terms; t++)
            for (unsigned w = 0; w < QR_QUBITS_WORDS; w++)
                all.word[w] &= ~obs[r].terms[t].x.word[w];
    return all;
}

/* ---- the gates ---- */

static enum qr_code add_measurement(struct deferral *d, size_t i) {
    struct qr_gate g = d->c->gates[i];
    uint16_t bit = g.bit, qubit = g.targets[0];
    if (d->results[i] == NOT_USED) {
        g.bit = 0;
        return d->unread[i] ? QR_OK : qr_circuit_add(d->to, &g, d->err);
    }
    d->place[bit - 1] = d->results[i] == IN_ITSELF ? qubit : (uint16_t)d->next++;
    if (d->results[i] == IN_ITSELF) return QR_OK;
    const struct qr_gate copy = {.kind = QR_GATE_CNOT,
                                 .n_targets = 2,
                                 .n_args = 1,
                                 .targets = {qubit, d->place[bit - 1]},
                                 .args = {{QR_ARG_CONSTANT, 1, 0}}};
    const struct qr_channel *m = measurement_of(d->c, &g);
    QR_TRY(qr_circuit_add(d->to, &copy, d->err));
    if (qr_channel_reads_exactly(m)) return QR_OK;
    /* Becomes 1 in place of 0 with p_01, 0 in place of 1 with p_10. */
    const struct qr_channel errors = {.info = qr_channel_info_of("ResetError", 1),
                                      .args = {m->args[1], m->args[0]}};
    return qr_circuit_add_channel(d->to, qr_circuit_channel(d->to, &errors), &d->place[bit - 1],
                                  d->err);
}

/* Operators |v><v| x K_k and |1 - v><1 - v| x 1, on the bit's qubit and the channel's. */
static enum qr_code add_conditional_channel(struct deferral *d, const struct qr_gate *g,
                                            const struct qr_condition *condition) {
    const struct qr_channel *c = &d->c->channels[g->channel];
    unsigned bit = qr_qubits_first(&condition->bits), n = 0;
    bool value = qr_qubits_has(&condition->values, bit);
    double a[QR_CHANNEL_ARGS];
    double complex one[QR_CHANNEL_KRAUS * 16], all[QR_CHANNEL_KRAUS * 16] = {0};
    bool known =
        g->n_targets == 1 && qr_channel_is_constant(c) && qr_qubits_count(&condition->bits) == 1;
    if (known) {
        qr_channel_values(c, NULL, a);
        n = qr_channel_operators(c, a, one);
    }
    if (!known || n == QR_CHANNEL_KRAUS)
        return qr_fail(d->err, QR_UNIMPLEMENTED,
                       "a channel (%s) depends on measured bits; only constant channels on one "
                       "qubit that depend on one bit can be simulated exactly",
                       c->info->names[0]);
    for (unsigned k = 0; k < n; k++)
        for (unsigned i = 0; i < 4; i++)
            all[k * 16 + (2u * value + i / 2) * 4 + 2u * value + i % 2] = one[k * 16 + i];
    for (unsigned i = 0; i < 2; i++) all[n * 16 + (2u * !value + i) * 5] = 1;
    struct qr_channel both = {
        .info = qr_channel_info_of("Kraus", 2), .n_kraus = n + 1, .kraus = all};
    return qr_circuit_add_channel(d->to, qr_circuit_channel(d->to, &both),
                                  (uint16_t[]){d->place[bit], g->targets[0]}, d->err);
}

static enum qr_code add_gate(struct deferral *d, const struct qr_gate *from) {
    struct qr_gate g = *from;
    if (!g.condition) return qr_circuit_add(d->to, &g, d->err);
    const struct qr_condition *condition = &d->c->conditions.list[g.condition - 1];
    if (g.kind == QR_GATE_CHANNEL) return add_conditional_channel(d, from, condition);
    g.condition = 0;
    for (unsigned b = qr_qubits_first(&condition->bits); b < QR_MAX_QUBITS;
         b = qr_qubits_next(&condition->bits, b)) {
        unsigned q = d->place[b];
        bool value = qr_qubits_has(&condition->values, b);
        if (qr_qubits_has(&g.controls, q) && qr_qubits_has(&g.control_values, q) != value)
            return QR_OK; /* never acts */
        qr_qubits_add(&g.controls, q);
        if (value) qr_qubits_add(&g.control_values, q);
    }
    return qr_circuit_add(d->to, &g, d->err);
}

/* A copy without gates and conditions, with n_more qubits. */
static struct qr_circuit *copy_for(const struct qr_circuit *c, unsigned n_more) {
    struct qr_circuit *to = qr_circuit_copy(c);
    to->n_gates = to->conditions.n = to->n_bits = 0;
    to->measured = (struct qr_qubits){{0}};
    to->n_qubits += n_more;
    if (!c->readout_errors) return to;
    to->readout_errors =
        qr_xreallocarray(to->readout_errors, to->n_qubits, sizeof *to->readout_errors);
    memset(to->readout_errors + c->n_qubits, 0, n_more * sizeof *to->readout_errors);
    return to;
}

static enum qr_code defer_gates(struct deferral *d) {
    for (size_t i = 0; i < d->c->n_gates; i++)
        QR_TRY(measurement_of(d->c, &d->c->gates[i]) ? add_measurement(d, i)
                                                     : add_gate(d, &d->c->gates[i]));
    return QR_OK;
}

enum qr_code qr_circuit_defer(const struct qr_circuit *c, const struct qr_observable *obs,
                              size_t n_obs, bool bits, struct qr_deferred **ret,
                              struct qr_err *err) {
    struct deferral d = {.c = c, .next = c->n_qubits, .err = err};
    d.results = qr_xcalloc(c->n_gates + 1, sizeof *d.results);
    d.unread = qr_xcalloc(c->n_gates + 1, sizeof *d.unread);
    d.place = qr_xcalloc(c->n_bits + 1, sizeof *d.place);
    memset(d.place, 0xff, c->n_bits * sizeof *d.place);
    unsigned n_more = find_results(&d, read_in_z(c, obs, n_obs), all_until(bits ? c->n_bits : 0));
    enum qr_code code = QR_OK;
    if (c->n_qubits + n_more > QR_MAX_QUBITS)
        code = qr_fail(err, QR_UNIMPLEMENTED,
                       "%u measured bits need qubits of their own; a circuit has at most %d qubits",
                       n_more, (int)QR_MAX_QUBITS);
    if (code == QR_OK) {
        d.to = copy_for(c, n_more);
        code = defer_gates(&d);
    }
    free(d.results);
    free(d.unread);
    struct qr_deferred *deferred = qr_xcalloc(1, sizeof *deferred);
    *deferred = (struct qr_deferred){
        .circuit = d.to, .n_more = n_more, .n_bits = c->n_bits, .place = d.place};
    if (code == QR_OK) *ret = deferred;
    else qr_deferred_free(deferred);
    return code;
}

void qr_deferred_free(struct qr_deferred *d) {
    if (!d) return;
    qr_circuit_free(d->circuit);
    free(d->place);
    free(d);
}

const struct qr_circuit *qr_circuit_unconditional(const struct qr_circuit *c,
                                                  const struct qr_observable *obs, size_t n_obs,
                                                  struct qr_deferred **ret) {
    *ret = NULL;
    if (!c->conditions.n) return c;
    if (qr_circuit_defer(c, obs, n_obs, false, ret, QR_IGNORED) != QR_OK) return NULL;
    return (*ret)->circuit;
}
