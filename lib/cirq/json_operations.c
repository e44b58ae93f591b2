/* cirq/json_operations.c — Cirq's JSON: circuits, operations with their controls and repetitions,
 * observables. Start reading at cirq_json(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cirq/cirq_impl.h"

/* ---- qubits ---- */

static enum qr_code read_qubit(struct cirq_reader *r, const struct cirq_scope *scope,
                               const struct qr_json *v, const char *path, uint16_t *ret) {
    const char *type = cirq_json_type(v);
    struct cirq_qubit q = {.kind = CIRQ_GRID};
    if (strcmp(type, "GridQubit") == 0) {
        QR_TRY(qr_json_i64(qr_json_get(v, "row"), path, INT32_MIN, INT32_MAX, &q.row, r->err));
        QR_TRY(qr_json_i64(qr_json_get(v, "col"), path, INT32_MIN, INT32_MAX, &q.column, r->err));
    } else if (strcmp(type, "LineQubit") == 0) {
        q.kind = CIRQ_LINE;
        QR_TRY(qr_json_i64(qr_json_get(v, "x"), path, INT32_MIN, INT32_MAX, &q.column, r->err));
    } else if (strcmp(type, "NamedQubit") == 0) {
        q.kind = CIRQ_NAMED;
        QR_TRY(qr_json_string(qr_json_get(v, "name"), path, &q.name, r->err));
    } else {
        return qr_fail(r->err, QR_UNIMPLEMENTED,
                       "%s: '%.40s' is not a GridQubit, LineQubit or NamedQubit", path, type);
    }
    QR_TRY(cirq_qubit_number(r, path, &q, ret));
    if (scope && *ret < scope->n_mapped) *ret = scope->map[*ret];
    return QR_OK;
}

static enum qr_code read_qubits(struct cirq_reader *r, const struct cirq_scope *scope,
                                const struct qr_json *list, const char *path,
                                uint16_t ret[QR_MAX_QUBITS], unsigned *ret_n) {
    struct qr_qubits seen = {0};
    *ret_n = 0;
    QR_TRY(qr_json_want(list, path, QR_JSON_ARRAY, r->err));
    for (const struct qr_json *v = qr_json_first(list); v; v = qr_json_next(v)) {
        struct qr_path at = qr_path_of("%s[%u]", path, *ret_n);
        uint16_t q = 0;
        QR_TRY(read_qubit(r, scope, v, at.s, &q));
        if (qr_qubits_has(&seen, q))
            return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: the qubit is given twice", at.s);
        qr_qubits_add(&seen, q);
        ret[(*ret_n)++] = q;
    }
    return QR_OK;
}

/* ---- Pauli strings ---- */

struct pauli_string {
    unsigned n;
    uint16_t qubits[QR_MAX_QUBITS];
    char paulis[QR_MAX_QUBITS + 1];
    double complex coefficient;
};

/* Of _PauliX or XPowGate. */
static enum qr_code read_pauli(struct cirq_reader *r, const struct qr_json *v, const char *path,
                               char *ret) {
    const char *type = cirq_json_type(v);
    if (strncmp(type, "_Pauli", 6) != 0 || !type[6] || !strchr("XYZ", type[6]) || type[7])
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: '%.40s' is not a Pauli", path, type);
    *ret = type[6];
    return QR_OK;
}

/* [[qubit, Pauli], ..] */
static enum qr_code read_pauli_map(struct cirq_reader *r, const struct cirq_scope *scope,
                                   const struct qr_json *list, const char *path,
                                   struct pauli_string *ret) {
    struct qr_qubits seen = {0};
    QR_TRY(qr_json_want(list, path, QR_JSON_ARRAY, r->err));
    for (const struct qr_json *v = qr_json_first(list); v; v = qr_json_next(v)) {
        struct qr_path at = qr_path_of("%s[%u]", path, ret->n);
        if (ret->n == QR_MAX_QUBITS || qr_json_size(v) != 2)
            return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s must be a qubit and its Pauli", at.s);
        QR_TRY(read_qubit(r, scope, qr_json_at(v, 0), at.s, &ret->qubits[ret->n]));
        QR_TRY(read_pauli(r, qr_json_at(v, 1), at.s, &ret->paulis[ret->n]));
        if (qr_qubits_has(&seen, ret->qubits[ret->n]))
            return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: the qubit is given twice", at.s);
        qr_qubits_add(&seen, ret->qubits[ret->n++]);
    }
    return QR_OK;
}

static enum qr_code read_pauli_string(struct cirq_reader *r, const struct cirq_scope *scope,
                                      const struct qr_json *v, const char *path,
                                      struct pauli_string *ret) {
    const struct qr_json *map = qr_json_get(v, "qubit_pauli_map");
    struct qr_path at = qr_path_of("%s.qubit_pauli_map", path);
    ret->n = 0;
    QR_TRY(read_pauli_map(r, scope, map, at.s, ret));
    ret->paulis[ret->n] = 0;
    at = qr_path_of("%s.coefficient", path);
    return cirq_json_complex(r, qr_json_get(v, "coefficient"), at.s, &ret->coefficient);
}

/* ---- operations ---- */

struct operation {
    const struct cirq_scope *scope;
    const struct qr_json *v;
    const char *path;
};

static enum qr_code read_operation(struct cirq_reader *r, const struct cirq_scope *scope,
                                   const struct qr_json *v, const char *path);

static enum qr_code read_gate_operation(struct cirq_reader *r, const struct operation *o) {
    uint16_t qubits[QR_MAX_QUBITS];
    unsigned n = 0;
    struct qr_path path = qr_path_of("%s.qubits", o->path);
    QR_TRY(read_qubits(r, o->scope, qr_json_get(o->v, "qubits"), path.s, qubits, &n));
    path = qr_path_of("%s.gate", o->path);
    return cirq_json_gate(r, o->scope, qr_json_get(o->v, "gate"), path.s, qubits, n);
}

static enum qr_code read_one_pauli(struct cirq_reader *r, const struct operation *o) {
    uint16_t qubit = 0;
    struct qr_path path = qr_path_of("%s.qubit", o->path);
    QR_TRY(read_qubit(r, o->scope, qr_json_get(o->v, "qubit"), path.s, &qubit));
    path = qr_path_of("%s.pauli", o->path);
    return cirq_json_gate(r, o->scope, qr_json_get(o->v, "pauli"), path.s, &qubit, 1);
}

static enum qr_code read_pauli_operation(struct cirq_reader *r, const struct operation *o) {
    struct pauli_string p;
    QR_TRY(read_pauli_string(r, o->scope, o->v, o->path, &p));
    return cirq_paulis_apply(r, o->path, p.qubits, p.paulis, p.n, p.coefficient);
}

static enum qr_code read_phasor(struct cirq_reader *r, const struct operation *o) {
    struct pauli_string p;
    struct qr_path path = qr_path_of("%s.pauli_string", o->path);
    QR_TRY(read_pauli_string(r, o->scope, qr_json_get(o->v, "pauli_string"), path.s, &p));
    return cirq_phasor_apply(r, o->scope, o->v, o->path, p.qubits, p.paulis, p.n, p.coefficient);
}

static enum qr_code read_tagged(struct cirq_reader *r, const struct operation *o) {
    struct qr_path path = qr_path_of("%s.sub_operation", o->path);
    return read_operation(r, o->scope, qr_json_get(o->v, "sub_operation"), path.s);
}

static enum qr_code read_global_phase(struct cirq_reader *r, const struct operation *o) {
    return cirq_json_gate(r, o->scope, o->v, o->path, NULL, 0);
}

/* ---- controls ---- */

struct controlled {
    const struct operation *o;
    const uint16_t *qubits; /* the controls, then those of a gate */
    unsigned n, n_controls;
};

static enum qr_code read_controlled_part(struct cirq_reader *r, const struct controlled *c) {
    const struct operation *o = c->o;
    const struct qr_json *gate = qr_json_get(o->v, "sub_gate");
    struct qr_path path = qr_path_of("%s.%s", o->path, gate ? "sub_gate" : "sub_operation");
    return gate ? cirq_json_gate(r, o->scope, gate, path.s, c->qubits + c->n_controls,
                                 c->n - c->n_controls)
                : read_operation(r, o->scope, qr_json_get(o->v, "sub_operation"), path.s);
}

/* Adds the control, reads what is controlled, and leaves the control as it was. */
static enum qr_code read_product(struct cirq_reader *r, const struct controlled *c,
                                 const struct qr_json *values, const char *path) {
    const struct qr_qubits controls = r->controls, control_values = r->control_values;
    const struct qr_json *v = qr_json_first(values);
    QR_TRY(qr_json_want(values, path, QR_JSON_ARRAY, r->err));
    for (unsigned k = 0; k < c->n_controls; k++, v = qr_json_next(v)) {
        /* A list of values, of which any will do; in a sum of products the value itself */
        const struct qr_json *one = v && qr_json_type(v) == QR_JSON_ARRAY ? qr_json_first(v) : v;
        bool on[2] = {false, false};
        for (; one; one = one == v ? NULL : qr_json_next(one)) {
            int64_t value;
            QR_TRY(qr_json_i64(one, path, 0, 1, &value, r->err));
            on[value] = true;
        }
        if (!on[0] && !on[1])
            return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s must have a value for each control",
                           path);
        if (qr_qubits_has(&r->controls, c->qubits[k]))
            return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: a control is given twice", path);
        if (on[0] && on[1]) continue;
        qr_qubits_add(&r->controls, c->qubits[k]);
        if (on[1]) qr_qubits_add(&r->control_values, c->qubits[k]);
    }
    QR_TRY(read_controlled_part(r, c));
    r->controls = controls;
    r->control_values = control_values;
    return QR_OK;
}

static enum qr_code read_controls(struct cirq_reader *r, const struct controlled *c) {
    const struct qr_json *values = qr_json_get(c->o->v, "control_values"),
                         *data = qr_json_type(values) == QR_JSON_OBJECT
                                     ? qr_json_get(values, "data")
                                     : values;
    struct qr_path path = qr_path_of("%s.control_values", c->o->path);
    QR_TRY(cirq_touch(r, c->o->path, c->qubits, c->n_controls));
    if (strcmp(cirq_json_type(values), "SumOfProducts") != 0)
        return read_product(r, c, data, path.s);
    /* The products are different, so at most one holds. */
    QR_TRY(qr_json_want(data, path.s, QR_JSON_ARRAY, r->err));
    for (const struct qr_json *v = qr_json_first(data); v; v = qr_json_next(v))
        QR_TRY(read_product(r, c, v, path.s));
    return QR_OK;
}

static enum qr_code read_controlled(struct cirq_reader *r, const struct operation *o) {
    uint16_t qubits[QR_MAX_QUBITS];
    unsigned n = 0;
    struct qr_path path = qr_path_of("%s.controls", o->path);
    QR_TRY(read_qubits(r, o->scope, qr_json_get(o->v, "controls"), path.s, qubits, &n));
    return read_controls(r, &(struct controlled){o, qubits, n, n});
}

enum qr_code cirq_json_controlled(struct cirq_reader *r, const struct cirq_scope *scope,
                                  const struct qr_json *gate, const char *path,
                                  const uint16_t *qubits, unsigned n) {
    const struct qr_json *shape = qr_json_get(gate, "control_qid_shape");
    unsigned n_controls = (unsigned)qr_json_size(shape);
    if (n_controls > n)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s has %u controls, but %u qubits", path,
                       n_controls, n);
    const struct operation o = {scope, gate, path};
    return read_controls(r, &(struct controlled){&o, qubits, n, n_controls});
}

/* ---- circuits in circuits ---- */

/* The object that {"cirq_type": "VAL", "key", "val"} or an earlier one with this key has. */
static enum qr_code read_shared(struct cirq_reader *r, const struct qr_json *v, const char *path,
                                const struct qr_json **ret) {
    const char *type = cirq_json_type(v);
    bool val = strcmp(type, "VAL") == 0 || strcmp(type, "_SerializedContext") == 0,
         ref = strcmp(type, "REF") == 0 || strcmp(type, "_SerializedKey") == 0;
    char key[32];
    int64_t number = 0;
    *ret = v;
    if (!val && !ref) return QR_OK;
    QR_TRY(qr_json_i64(qr_json_get(v, "key"), path, INT32_MIN, INT32_MAX, &number, r->err));
    snprintf(key, sizeof key, "%lld", (long long)number);
    uint32_t before = r->circuit_keys.n, i = cirq_name_number(&r->circuit_keys, key);
    if (i == before) {
        r->circuits = qr_xreallocarray(r->circuits, r->circuit_keys.cap, sizeof *r->circuits);
        r->circuits[i] = NULL;
    }
    if (val) r->circuits[i] = qr_json_get(v, *type == 'V' ? "val" : "obj");
    *ret = r->circuits[i];
    return *ret ? QR_OK
                : qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: no circuit has the key %s", path, key);
}

static enum qr_code read_moments(struct cirq_reader *r, const struct cirq_scope *scope,
                                 const struct qr_json *circuit, const char *path) {
    const struct qr_json *moments = qr_json_get(circuit, "moments");
    struct qr_path at = qr_path_of("%s%smoments", path, *path ? "." : "");
    unsigned m = 0;
    QR_TRY(qr_json_want(moments, at.s, QR_JSON_ARRAY, r->err));
    for (const struct qr_json *moment = qr_json_first(moments); moment;
         moment = qr_json_next(moment), m++) {
        unsigned i = 0;
        QR_TRY(cirq_count(r, at.s, 1));
        for (const struct qr_json *v = qr_json_first(qr_json_get(moment, "operations")); v;
             v = qr_json_next(v), i++) {
            struct qr_path one = qr_path_of("%s[%u].operations[%u]", at.s, m, i);
            QR_TRY(read_operation(r, scope, v, one.s));
        }
    }
    return QR_OK;
}

/* Composes the map with that of the outer scope. */
static enum qr_code read_qubit_map(struct cirq_reader *r, const struct operation *o,
                                   struct cirq_scope *ret) {
    const struct qr_json *map = qr_json_get(o->v, "qubit_map");
    struct qr_path path = qr_path_of("%s.qubit_map", o->path);
    uint16_t inner[2];
    for (unsigned pass = 0; pass < 2; pass++) { /* first the numbers, then the map */
        for (const struct qr_json *v = qr_json_first(map); v; v = qr_json_next(v)) {
            QR_TRY(cirq_count(r, path.s, 1));
            QR_TRY(read_qubit(r, NULL, qr_json_at(v, 0), path.s, &inner[0]));
            QR_TRY(read_qubit(r, o->scope, qr_json_at(v, 1), path.s, &inner[1]));
            if (pass) ret->map[inner[0]] = inner[1];
        }
        if (pass) break;
        ret->n_mapped = r->qubit_names.n;
        for (uint32_t q = 0; q < ret->n_mapped; q++)
            ret->map[q] = o->scope && q < o->scope->n_mapped ? o->scope->map[q] : (uint16_t)q;
    }
    return QR_OK;
}

static enum qr_code read_circuit_operation(struct cirq_reader *r, const struct operation *o) {
    const struct qr_json *circuit, *resolver = qr_json_get(o->v, "param_resolver");
    size_t from = r->gates.list.n, n_readouts = r->n_readouts;
    int64_t times;
    struct cirq_scope *scope = qr_xcalloc(1, sizeof *scope);
    qr_auto(qr_free_p) void *owned = scope;
    struct qr_path path = qr_path_of("%s.circuit", o->path),
                   repetitions = qr_path_of("%s.repetitions", o->path);
    if (qr_json_get(o->v, "repeat_until"))
        return qr_fail(r->err, QR_UNIMPLEMENTED,
                       "%s repeats until a measurement; write the repetitions", o->path);
    QR_TRY(qr_json_i64(qr_json_get(o->v, "repetitions"), repetitions.s, -(1ll << 53), 1ll << 53,
                       &times, r->err));
    *scope =
        (struct cirq_scope){.outer = o->scope, .parameters = qr_json_get(resolver, "param_dict")};
    QR_TRY(read_shared(r, qr_json_get(o->v, "circuit"), path.s, &circuit));
    QR_TRY(read_qubit_map(r, o, scope));
    QR_TRY(read_moments(r, scope, circuit, path.s));
    if (r->n_readouts > n_readouts && times != 1)
        return qr_fail(r->err, QR_UNIMPLEMENTED,
                       "%s: a circuit with measurements is repeated; measure at the end",
                       repetitions.s);
    if (times < 0) QR_TRY(qr_channel_reject(&r->gates, from, o->path, "inverted"));
    return qr_gate_list_power(&r->gates.list, from, (double)times, r->max_gates - from, r->err)
               ? qr_wrap(r->err, "%s", repetitions.s)
               : QR_OK;
}

/* ---- any operation ---- */

static const struct {
    const char *type;
    enum qr_code (*read)(struct cirq_reader *r, const struct operation *o);
} operations[] = {
    {"GateOperation", read_gate_operation},
    {"SingleQubitPauliStringGateOperation", read_one_pauli},
    {"ControlledOperation", read_controlled},
    {"TaggedOperation", read_tagged},
    {"CircuitOperation", read_circuit_operation},
    {"PauliString", read_pauli_operation},
    {"PauliStringPhasor", read_phasor},
    {"GlobalPhaseOperation", read_global_phase},
};

static enum qr_code read_operation(struct cirq_reader *r, const struct cirq_scope *scope,
                                   const struct qr_json *v, const char *path) {
    const char *type = cirq_json_type(v);
    enum qr_code code = QR_OK;
    QR_TRY(cirq_count(r, path, 1));
    if (r->depth == QR_CIRQ_DEPTH)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: more than %d nested operations", path,
                       QR_CIRQ_DEPTH);
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        if (strcmp(operations[i].type, type) != 0) continue;
        r->depth++;
        code = operations[i].read(r, &(struct operation){scope, v, path});
        r->depth--;
        return code;
    }
    if (strcmp(type, "ClassicallyControlledOperation") == 0)
        return qr_fail(r->err, QR_UNIMPLEMENTED,
                       "%s depends on a measurement, which is read from OpenQASM 3 only; write the "
                       "circuit so",
                       path);
    return qr_fail(r->err, QR_UNIMPLEMENTED,
                   "%s: the operation '%.60s' is unknown; cirq.expand_composite may rewrite it",
                   path, type);
}

/* ---- the whole ---- */

/* A PauliString, or a PauliSum: [[[[qubit, Pauli], ..], coefficient], ..]. */
static enum qr_code read_observable(struct cirq_reader *r, const struct qr_json *v,
                                    const char *path) {
    const char *type = cirq_json_type(v);
    struct pauli_string p;
    cirq_readout_new(r);
    if (strcmp(type, "PauliString") == 0) {
        QR_TRY(read_pauli_string(r, NULL, v, path, &p));
        return cirq_term_add(r, path, creal(p.coefficient), cimag(p.coefficient), p.qubits,
                             p.paulis, p.n);
    }
    if (strcmp(type, "SingleQubitPauliStringGateOperation") == 0) {
        QR_TRY(read_qubit(r, NULL, qr_json_get(v, "qubit"), path, &p.qubits[0]));
        QR_TRY(read_pauli(r, qr_json_get(v, "pauli"), path, &p.paulis[0]));
        return cirq_term_add(r, path, 1, 0, p.qubits, p.paulis, 1);
    }
    if (strcmp(type, "PauliSum") != 0)
        return qr_fail(r->err, QR_UNIMPLEMENTED,
                       "%s: '%.40s' is not a PauliString or PauliSum; a list is a circuit and "
                       "observables",
                       path, type);
    unsigned i = 0;
    for (const struct qr_json *term = qr_json_first(qr_json_get(v, "items")); term;
         term = qr_json_next(term), i++) {
        struct qr_path at = qr_path_of("%s.items[%u]", path, i);
        p.n = 0;
        QR_TRY(read_pauli_map(r, NULL, qr_json_at(term, 0), at.s, &p));
        QR_TRY(cirq_json_complex(r, qr_json_at(term, 1), at.s, &p.coefficient));
        QR_TRY(cirq_term_add(r, at.s, creal(p.coefficient), cimag(p.coefficient), p.qubits,
                             p.paulis, p.n));
    }
    return QR_OK;
}

/* Cirq 1.3 and earlier list shared circuits first, and what uses them last. */
static enum qr_code read_dag(struct cirq_reader *r, const struct qr_json *list,
                             const struct qr_json **ret) {
    for (const struct qr_json *v = qr_json_first(list); v; v = qr_json_next(v))
        QR_TRY(read_shared(r, v, "object_dag", ret));
    return QR_OK;
}

static enum qr_code read_circuit(struct cirq_reader *r, const struct qr_json *v, const char *path) {
    const struct qr_json *circuit = v;
    if (strcmp(cirq_json_type(v), "_ContextualSerialization") == 0)
        QR_TRY(read_dag(r, qr_json_get(v, "object_dag"), &circuit));
    QR_TRY(read_shared(r, circuit, path, &circuit));
    const char *type = cirq_json_type(circuit);
    if (strcmp(type, "Circuit") != 0 && strcmp(type, "FrozenCircuit") != 0)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s%s'%.40s' is not a circuit of Cirq; write it with cirq.to_json(circuit)",
                       path, *path ? ": " : "", type);
    return read_moments(r, NULL, circuit, path);
}

static enum qr_code read_root(struct cirq_reader *r, const struct qr_json *root) {
    if (qr_json_type(root) != QR_JSON_ARRAY) return read_circuit(r, root, "");
    const struct qr_json *v = qr_json_first(root);
    QR_TRY(read_circuit(r, v, "[0]"));
    for (unsigned i = 1; v && (v = qr_json_next(v)); i++) {
        struct qr_path path = qr_path_of("[%u]", i);
        QR_TRY(read_observable(r, v, path.s));
    }
    return QR_OK;
}

enum qr_code cirq_json(struct cirq_reader *r, struct qr_bytes bytes) {
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    QR_TRY(qr_json_parse(bytes, "the circuit", &root, r->err));
    return read_root(r, root);
}
