/* cirq/cirq_reader.c — gates and read-outs while they are read, and the circuit of them with the
 * qubits in Cirq's order. Start reading at cirq_build(). */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cirq/cirq_impl.h"

enum { MAX_TERMS = 4096 }; /* of an observable's text */

/* ---- while reading ---- */

enum qr_code cirq_count(struct cirq_reader *r, const char *path, size_t n) {
    r->steps += n;
    if (r->steps <= r->max_steps) return QR_OK;
    return qr_fail(r->err, QR_INVALID_ARGUMENT,
                   "%s: up to here more than %u objects are read; use fewer nested circuits", path,
                   r->max_steps);
}

static enum qr_code check_room(struct cirq_reader *r, const char *path) {
    return r->gates.list.n < r->max_gates
               ? QR_OK
               : qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: here the circuit exceeds %u gates", path,
                         r->max_gates);
}

enum qr_code cirq_gate_add(struct cirq_reader *r, const char *path, struct qr_gate *g) {
    QR_TRY(check_room(r, path));
    g->global_shift += 0.0; /* -0 becomes 0, which is not written */
    qr_qubits_add_all(&g->controls, &r->controls);
    qr_qubits_add_all(&g->control_values, &r->control_values);
    qr_gate_list_add(&r->gates.list, g);
    return QR_OK;
}

enum qr_code cirq_channel_add(struct cirq_reader *r, const char *path, struct qr_channel *channel,
                              const uint16_t *qubits) {
    struct qr_err why;
    enum qr_code code = check_room(r, path);
    if (!code) code = cirq_touch(r, path, qubits, channel->info->n_targets);
    if (!code && qr_channel_check(channel, &why))
        code = qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: %s", path, why.msg);
    r->gates.controls = r->controls; /* qr_channel_append fails with any */
    if (!code) code = qr_channel_append(&r->gates, channel, qubits, path);
    qr_channel_fini(channel);
    return code;
}

enum qr_code cirq_touch(struct cirq_reader *r, const char *path, const uint16_t *qubits,
                        unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        if (qr_qubits_has(&r->measured, qubits[i]))
            return qr_fail(
                r->err, QR_UNIMPLEMENTED,
                "%s: its qubit %u was measured before; operations after a measurement are "
                "read from OpenQASM 3 only; write the circuit so",
                path, i);
        qr_qubits_add(&r->used, qubits[i]);
        qr_qubits_add(&r->touched, qubits[i]);
    }
    return QR_OK;
}

/* ---- read-outs ---- */

struct cirq_readout *cirq_readout_new(struct cirq_reader *r) {
    if (r->n_readouts == r->cap_readouts) {
        r->cap_readouts = r->cap_readouts ? 2 * r->cap_readouts : 64;
        r->readouts = qr_xreallocarray(r->readouts, r->cap_readouts, sizeof *r->readouts);
    }
    r->readouts[r->n_readouts] = (struct cirq_readout){0};
    return &r->readouts[r->n_readouts++];
}

enum qr_code cirq_term_add(struct cirq_reader *r, const char *path, double re, double im,
                           const uint16_t *qubits, const char *paulis, size_t n) {
    struct cirq_readout *to = &r->readouts[r->n_readouts - 1];
    struct qr_pauli_term term = {.coefficient = re};
    if (fabs(im) > 1e-6)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: the coefficient has the imaginary part %g; an observable is Hermitian",
                       path, im);
    if (to->n == MAX_TERMS)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: more than %d terms", path, MAX_TERMS);
    for (size_t i = 0; i < n; i++) {
        if (qr_qubits_has(&term.x, qubits[i]) || qr_qubits_has(&term.z, qubits[i]))
            return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: a qubit is given twice", path);
        if (paulis[i] != 'Z') qr_qubits_add(&term.x, qubits[i]);
        if (paulis[i] != 'X') qr_qubits_add(&term.z, qubits[i]);
        qr_qubits_add(&r->used, qubits[i]);
    }
    if (to->n == to->cap) {
        to->cap = to->cap ? 2 * to->cap : 1;
        to->terms = qr_xreallocarray(to->terms, to->cap, sizeof *to->terms);
    }
    to->terms[to->n++] = term;
    return QR_OK;
}

static void put_term(const struct qr_pauli_term *t, const uint16_t *place, bool first,
                     struct qr_buf *to) {
    const struct qr_qubits all = qr_pauli_qubits(t);
    qr_buf_printf(to, "%s%.17g", first ? "" : " + ", t->coefficient);
    const char *between = "*";
    for (unsigned q = qr_qubits_first(&all); q < QR_MAX_QUBITS; q = qr_qubits_next(&all, q)) {
        qr_buf_printf(to, "%s%c%u", between, qr_pauli_letter(t, q), place[q]);
        between = " ";
    }
}

/* The read-outs as texts of observables. */
static enum qr_code build_readouts(struct cirq_reader *r, const uint16_t *place, unsigned n_qubits,
                                   struct qr_program *ret) {
    ret->readouts = qr_xcalloc(r->n_readouts + 1, sizeof *ret->readouts);
    for (size_t i = 0; i < r->n_readouts; i++) {
        qr_auto(qr_buf_free) struct qr_buf text = {0};
        qr_auto(qr_observable_fini) struct qr_observable o = {0};
        for (size_t k = 0; k < r->readouts[i].n; k++)
            put_term(&r->readouts[i].terms[k], place, k == 0, &text);
        if (qr_observable_parse(text.n ? qr_buf_string(&text) : "0", n_qubits, &o, r->err))
            return qr_wrap(r->err, "read-out %zu", i);
        ret->readouts[ret->n_readouts++] = qr_xstrdup(o.text);
    }
    return QR_OK;
}

/* ---- the circuit ---- */

static struct qr_qubits moved_qubits(const struct qr_qubits *s, const uint16_t *place) {
    struct qr_qubits ret = {0};
    for (unsigned q = qr_qubits_first(s); q < QR_MAX_QUBITS; q = qr_qubits_next(s, q))
        qr_qubits_add(&ret, place[q]);
    return ret;
}

static enum qr_code check_inputs(const struct cirq_reader *r) {
    for (size_t i = 0; i < r->n_inputs; i++) {
        struct qr_buf known = {0};
        if (r->is_used[i]) continue;
        for (uint32_t k = (uint32_t)r->n_inputs; k < r->symbols.n && known.n < 200; k++)
            qr_buf_printf(&known, "%s%s", known.n ? ", " : "", r->symbols.text[k]);
        enum qr_code code = qr_fail(r->err, QR_INVALID_ARGUMENT,
                                    "the circuit has no symbol '%.64s' for an input; it has %s%s",
                                    r->inputs[i], known.n ? "" : "none", qr_buf_string(&known));
        qr_buf_free(&known);
        return code;
    }
    return QR_OK;
}

enum qr_code cirq_build(struct cirq_reader *r, unsigned n_columns, struct qr_program *ret) {
    uint16_t place[QR_MAX_QUBITS] = {0};
    struct qr_gate_list *l = &r->gates.list;
    QR_TRY(check_inputs(r));
    cirq_qubits_sort(r, place, &r->gates.n_qubits);
    if (!r->gates.n_qubits)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "the circuit has no qubits; add a gate");
    for (size_t i = 0; i < l->n; i++) {
        struct qr_gate *g = &l->gates[i];
        for (unsigned k = 0; k < g->n_targets; k++) g->targets[k] = place[g->targets[k]];
        g->controls = moved_qubits(&g->controls, place);
        g->control_values = moved_qubits(&g->control_values, place);
    }
    if (!l->n) /* a circuit has at least one gate */
        qr_gate_list_add(l, &(struct qr_gate){.kind = QR_GATE_I, .n_targets = 1});
    r->gates.n_columns = n_columns;
    QR_TRY(qr_circuit_build(&r->gates, "the circuit", &ret->circuit));
    return build_readouts(r, place, ret->circuit->n_qubits, ret);
}

/* ---- the reader ---- */

enum qr_code cirq_reader_new(const struct qr_program_options *options, struct cirq_reader **ret,
                             struct qr_err *err) {
    struct cirq_reader *r = *ret = qr_xcalloc(1, sizeof *r);
    r->inputs = options->inputs;
    r->n_inputs = options->n_inputs;
    r->max_steps = options->max_steps ? options->max_steps : QR_CIRQ_STEPS;
    r->max_gates = options->max_gates ? options->max_gates : QR_PROGRAM_GATES;
    r->err = r->gates.err = err;
    return cirq_inputs_add(r);
}

void cirq_reader_free(struct cirq_reader *r) {
    free(r->is_used);
    for (uint32_t i = 0; i < r->symbols.n; i++) free(r->texts[i]);
    for (size_t i = 0; i < r->n_readouts; i++) free(r->readouts[i].terms);
    cirq_names_fini(&r->qubit_names);
    cirq_names_fini(&r->symbols);
    cirq_names_fini(&r->symbol_texts);
    cirq_names_fini(&r->circuit_keys);
    qr_gate_reader_fini(&r->gates);
    free(r->texts);
    free(r->circuits);
    free(r->readouts);
    free(r);
}
