#include "circuit/circuit_json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/parse.h"
#include "circuit/circuit_impl.h"
#include "circuit/qcnn.h"

enum { MAX_GATES = 1 << 20, MAX_COLUMNS = 1 << 20, MAX_NAME = 64, PATH_BYTES = 256 };

/* The path of a value, for messages; a very long one is cut. */
struct path {
    char s[PATH_BYTES];
};
static struct path path_of(const char *fmt, ...) QR_PRINTF(1, 2);
static struct path path_of(const char *fmt, ...) {
    struct path p;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p.s, sizeof p.s, fmt, ap);
    va_end(ap);
    return p;
}

/* A place where a parameter is named; indices are given once all names are known. */
struct mention {
    const char *name;
    size_t gate;
    unsigned arg;
};

struct gates_reader {
    unsigned n_qubits;
    unsigned n_columns; /* given, or 1 + the highest seen */
    bool columns_given;
    size_t n_gates, n_mentions, cap_mentions;
    struct qr_gate *gates;
    struct mention *mentions;
    struct qr_err *err;
};

/* ---- one argument ---- */

static enum qr_code read_parameter(struct gates_reader *r, const struct qr_json *v,
                                   const char *path, struct mention *ret) {
    const char *name;
    enum qr_code code = qr_json_string(v, path, &name, r->err);
    if (code) return code;
    size_t n = strlen(name);
    if (n < 1 || n > MAX_NAME)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: a parameter's name has 1 to %d bytes, not %zu", path, MAX_NAME, n);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
            return qr_fail(r->err, QR_INVALID_ARGUMENT,
                           "%s: a parameter's name has no control characters", path);
    if (r->n_mentions == r->cap_mentions) {
        r->cap_mentions = r->cap_mentions ? 2 * r->cap_mentions : 64;
        r->mentions = qr_xreallocarray(r->mentions, r->cap_mentions, sizeof *r->mentions);
    }
    ret->name = name;
    r->mentions[r->n_mentions++] = *ret;
    return QR_OK;
}

static enum qr_code read_column(struct gates_reader *r, const struct qr_json *v, const char *path,
                                struct qr_gate_arg *arg) {
    int64_t column;
    int64_t last = r->columns_given ? (int64_t)r->n_columns - 1 : MAX_COLUMNS - 1;
    if (last < 0)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s refers to data, but the circuit's columns are 0", path);
    enum qr_code code = qr_json_i64(v, path, 0, last, &column, r->err);
    if (code) return code;
    arg->index = (uint32_t)column;
    if (arg->index >= r->n_columns) r->n_columns = arg->index + 1;
    return QR_OK;
}

/* v: a number or {"parameter" | "data", "scale"?} */
static enum qr_code read_arg(struct gates_reader *r, const struct qr_json *v, const char *where,
                             const char *key, unsigned k, struct qr_gate_arg *ret) {
    struct path path = path_of("%s.%s", where, key);
    if (!v)
        return qr_fail(
            r->err, QR_INVALID_ARGUMENT,
            "%s is missing; it must be a number, {\"parameter\": name} or {\"data\": column}",
            path.s);
    struct qr_gate_arg arg = {QR_ARG_CONSTANT, 1, 0};
    enum qr_code code;
    if (qr_json_type(v) == QR_JSON_NUMBER) {
        if ((code = qr_json_double(v, path.s, -INFINITY, INFINITY, &arg.scale, r->err)))
            return code;
        *ret = arg;
        return QR_OK;
    }
    if (qr_json_type(v) != QR_JSON_OBJECT)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s must be a number, {\"parameter\": name} or {\"data\": column}, not %s",
                       path.s, qr_json_type_name(v));
    static const char *const known[] = {"parameter", "data", "scale"};
    if ((code = qr_json_known(v, path.s, known, 3, r->err))) return code;
    const struct qr_json *parameter = qr_json_get(v, "parameter"), *data = qr_json_get(v, "data"),
                         *scale = qr_json_get(v, "scale");
    if (!parameter == !data)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s must have %s", path.s,
                       data ? "one of \"parameter\" and \"data\", not both"
                            : "\"parameter\" (a name) or \"data\" (a column)");
    if (scale) {
        struct path inner = path_of("%s.scale", path.s);
        if ((code = qr_json_double(scale, inner.s, -INFINITY, INFINITY, &arg.scale, r->err)))
            return code;
    }
    arg.kind = parameter ? QR_ARG_PARAMETER : QR_ARG_DATA;
    struct path inner = path_of("%s.%s", path.s, parameter ? "parameter" : "data");
    struct mention mention = {NULL, r->n_gates, k};
    code = parameter ? read_parameter(r, parameter, inner.s, &mention)
                     : read_column(r, data, inner.s, &arg);
    if (!code) *ret = arg;
    return code;
}

/* ---- one gate ---- */

static enum qr_code read_args(struct gates_reader *r, const struct qr_json *gate, const char *where,
                              bool angle_only, struct qr_gate *g) {
    const struct qr_gate_info *info = qr_gate_info(g->kind);
    static const char *const keys[] = {"exponent", "angle", "phase_exponent",
                                       "theta",    "phi",   "global_shift"};
    bool angle = info->power && (angle_only || qr_json_get(gate, "angle"));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        bool takes = strcmp(keys[i], "global_shift") == 0 ? info->has_exponent && !angle
                     : strcmp(keys[i], "angle") == 0      ? angle
                                                          : false;
        for (unsigned k = 0; k < info->n_args && !angle; k++)
            takes = takes || strcmp(keys[i], info->arg_names[k]) == 0;
        if (takes || !qr_json_get(gate, keys[i])) continue;
        if (angle && !angle_only)
            return qr_fail(r->err, QR_INVALID_ARGUMENT,
                           "%s has \"angle\" and \"%s\"; an angle stands alone (it is exponent "
                           "angle / pi with global shift -1/2)",
                           where, keys[i]);
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: %s takes %s%s%s%s, not \"%s\"", where,
                       angle_only ? "a rotation" : info->name,
                       angle          ? "\"angle\""
                       : info->n_args ? ""
                                      : "no arguments",
                       angle              ? ""
                       : info->n_args > 0 ? info->arg_names[0]
                                          : "",
                       !angle && info->n_args > 1 ? " and " : "",
                       !angle && info->n_args > 1 ? info->arg_names[1] : "", keys[i]);
    }
    g->n_args = info->n_args;
    if (angle) {
        enum qr_code code = read_arg(r, qr_json_get(gate, "angle"), where, "angle", 0, &g->args[0]);
        g->args[0].scale /= M_PI;
        g->global_shift = -0.5;
        return code;
    }
    for (unsigned k = 0; k < info->n_args; k++) {
        const struct qr_json *v = qr_json_get(gate, info->arg_names[k]);
        g->args[k] = (struct qr_gate_arg){QR_ARG_CONSTANT, 1, 0};
        if (!v && strcmp(info->arg_names[k], "exponent") == 0) continue;
        enum qr_code code = read_arg(r, v, where, info->arg_names[k], k, &g->args[k]);
        if (code) return code;
    }
    const struct qr_json *shift = qr_json_get(gate, "global_shift");
    if (!shift) return QR_OK;
    struct path path = path_of("%s.global_shift", where);
    return qr_json_double(shift, path.s, -INFINITY, INFINITY, &g->global_shift, r->err);
}

/* An array of at most `most` integers in 0..high. */
static enum qr_code read_ints(struct gates_reader *r, const struct qr_json *v, const char *where,
                              const char *key, int64_t high, unsigned most, uint16_t *ret,
                              unsigned *ret_n) {
    struct path path = path_of("%s.%s", where, key);
    enum qr_code code = qr_json_want(v, path.s, QR_JSON_ARRAY, r->err);
    if (code) return code;
    unsigned n = 0;
    for (const struct qr_json *i = qr_json_first(v); i; i = qr_json_next(i), n++) {
        int64_t q;
        struct path item = path_of("%s[%u]", path.s, n);
        if (n == most)
            return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s has more than %u entries", path.s,
                           most);
        if ((code = qr_json_i64(i, item.s, 0, high, &q, r->err))) return code;
        ret[n] = (uint16_t)q;
    }
    *ret_n = n;
    return QR_OK;
}

static enum qr_code read_controls(struct gates_reader *r, const struct qr_json *gate,
                                  const char *where, struct qr_gate *g) {
    const struct qr_json *controls = qr_json_get(gate, "controls"),
                         *values = qr_json_get(gate, "control_values");
    uint16_t qubit[QR_MAX_QUBITS], value[QR_MAX_QUBITS];
    unsigned n = 0, n_values = 0;
    if (!controls && values)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s has control_values, but no controls",
                       where);
    if (!controls) return QR_OK;
    enum qr_code code = read_ints(r, controls, where, "controls", (int64_t)r->n_qubits - 1,
                                  QR_MAX_QUBITS, qubit, &n);
    if (!code && values)
        code = read_ints(r, values, where, "control_values", 1, QR_MAX_QUBITS, value, &n_values);
    if (code) return code;
    if (values && n != n_values)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s has %u controls, but %u control_values",
                       where, n, n_values);
    for (unsigned i = 0; i < n; i++) {
        if (qr_qubits_has(&g->controls, qubit[i]))
            return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s.controls: qubit %u is given twice",
                           where, qubit[i]);
        qr_qubits_add(&g->controls, qubit[i]);
        if (!values || value[i]) qr_qubits_add(&g->control_values, qubit[i]);
    }
    return QR_OK;
}

/* Names as job files have them, TFQ's and Cirq's left out. */
static enum qr_code unknown_gate(struct gates_reader *r, const char *name, const char *path) {
    const char *known[2 * QR_GATE_KINDS];
    size_t n = 0;
    for (int also = 0; also < 2; also++)
        for (int k = 0; k < QR_GATE_KINDS; k++) {
            const struct qr_gate_info *info = qr_gate_info((enum qr_gate_kind)k);
            const char *one = also ? info->also : info->name;
            if (one) known[n++] = one;
        }
    const char *near = qr_nearest(name, known, n);
    if (near)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: unknown gate '%.40s'; did you mean '%s'?",
                       path, name, near);
    struct qr_buf all = {0};
    for (size_t i = 0; i < n; i++) qr_buf_printf(&all, " %s", known[i]);
    enum qr_code code =
        qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: unknown gate '%.40s'; known are%s", path, name,
                qr_buf_string(&all));
    qr_buf_free(&all);
    return code;
}

/* *ret_angle: the name is a rotation's, which takes an angle alone. */
static enum qr_code read_kind(struct gates_reader *r, const struct qr_json *v, const char *where,
                              enum qr_gate_kind *ret, bool *ret_angle) {
    const char *name;
    struct path path = path_of("%s.gate", where);
    enum qr_code code = qr_json_string(v, path.s, &name, r->err);
    if (code) return code;
    int kind = qr_gate_kind_of(name);
    if (kind < 0) return unknown_gate(r, name, path.s);
    *ret = (enum qr_gate_kind)kind;
    const char *rotation = qr_gate_info(*ret)->rotation;
    *ret_angle = rotation && strcasecmp(name, rotation) == 0;
    return QR_OK;
}

static enum qr_code read_gate(struct gates_reader *r, const struct qr_json *gate,
                              const char *where) {
    static const char *const known[] = {"gate",           "qubits",      "exponent", "angle",
                                        "phase_exponent", "theta",       "phi",      "controls",
                                        "control_values", "global_shift"};
    enum qr_code code = qr_json_want(gate, where, QR_JSON_OBJECT, r->err);
    if (!code) code = qr_json_known(gate, where, known, sizeof known / sizeof *known, r->err);
    struct qr_gate g = {0};
    bool angle_only = false;
    if (!code) code = read_kind(r, qr_json_get(gate, "gate"), where, &g.kind, &angle_only);
    if (code) return code;
    const struct qr_gate_info *info = qr_gate_info(g.kind);
    uint16_t targets[QR_MAX_QUBITS];
    unsigned n = 0;
    code = read_ints(r, qr_json_get(gate, "qubits"), where, "qubits", (int64_t)r->n_qubits - 1,
                     QR_MAX_QUBITS, targets, &n);
    if (code) return code;
    if (n != info->n_targets)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s.qubits: %s acts on %u qubit%s, but %u are given", where, info->name,
                       info->n_targets, info->n_targets == 1 ? "" : "s", n);
    g.n_targets = info->n_targets;
    for (unsigned k = 0; k < n; k++) g.targets[k] = targets[k];
    code = read_args(r, gate, where, angle_only, &g);
    if (!code) code = read_controls(r, gate, where, &g);
    if (!code) r->gates[r->n_gates++] = g;
    return code;
}

/* ---- the circuit ---- */

static int by_name(const void *a, const void *b) {
    const struct mention *x = a, *y = b;
    int order = qr_natural_compare(x->name, y->name);
    if (order) return order;
    if (x->gate != y->gate) return x->gate < y->gate ? -1 : 1;
    return (int)x->arg - (int)y->arg;
}

static enum qr_code build(struct gates_reader *r, const char *where, struct qr_circuit **ret) {
    struct qr_circuit *c = qr_circuit_new(r->n_qubits, r->n_columns);
    if (r->n_mentions) qsort(r->mentions, r->n_mentions, sizeof *r->mentions, by_name);
    for (size_t i = 0; i < r->n_mentions; i++) {
        const struct mention *m = &r->mentions[i];
        if (i == 0 || strcmp(m->name, r->mentions[i - 1].name) != 0)
            qr_circuit_append_param(c, m->name);
        r->gates[m->gate].args[m->arg].index = c->n_params - 1;
    }
    for (size_t i = 0; i < r->n_gates; i++) {
        enum qr_code code = qr_circuit_add(c, &r->gates[i], r->err);
        if (code) {
            qr_circuit_free(c);
            return r->err ? qr_wrap(r->err, "%s.gates[%zu]", where, i) : code;
        }
    }
    *ret = c;
    return QR_OK;
}

static enum qr_code read_gates(struct gates_reader *r, const struct qr_json *circuit,
                               const char *where, struct qr_circuit **ret) {
    struct path path = path_of("%s.columns", where);
    const struct qr_json *columns = qr_json_get(circuit, "columns"),
                         *gates = qr_json_get(circuit, "gates");
    enum qr_code code;
    int64_t n;
    if (columns) {
        if ((code = qr_json_i64(columns, path.s, 0, MAX_COLUMNS, &n, r->err))) return code;
        r->n_columns = (unsigned)n;
        r->columns_given = true;
    }
    path = path_of("%s.gates", where);
    if ((code = qr_json_want(gates, path.s, QR_JSON_ARRAY, r->err))) return code;
    size_t n_gates = qr_json_size(gates);
    if (n_gates < 1 || n_gates > MAX_GATES)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s has %zu gates; it must have 1 to %d",
                       path.s, n_gates, MAX_GATES);
    r->gates = qr_xcalloc(n_gates, sizeof *r->gates);
    for (const struct qr_json *g = qr_json_first(gates); g; g = qr_json_next(g)) {
        path = path_of("%s.gates[%zu]", where, r->n_gates);
        if ((code = read_gate(r, g, path.s))) return code;
    }
    return build(r, where, ret);
}

static enum qr_code read_qcnn(struct gates_reader *r, const struct qr_json *circuit,
                              const char *where, struct qr_circuit **ret,
                              struct qr_qubits *ret_readouts) {
    static const char *const variants[] = {
        [QR_QCNN_NOTEBOOK] = "notebook", [QR_QCNN_RESEARCH] = "research"};
    const struct qr_json *stages = qr_json_get(circuit, "stages"),
                         *variant = qr_json_get(circuit, "variant");
    struct qr_qcnn_options opt = {.n_qubits = r->n_qubits};
    enum qr_code code;
    if (stages) {
        int64_t n;
        struct path path = path_of("%s.stages", where);
        if ((code = qr_json_i64(stages, path.s, 1, QR_MAX_QUBITS, &n, r->err))) return code;
        opt.n_stages = (unsigned)n;
    }
    if (variant) {
        size_t which;
        struct path path = path_of("%s.variant", where);
        if ((code = qr_json_choice(variant, path.s, variants, 2, &which, r->err))) return code;
        opt.variant = (enum qr_qcnn_variant)which;
    }
    code = qr_qcnn_new(&opt, ret, ret_readouts, r->err);
    return code && r->err ? qr_wrap(r->err, "%s", where) : code;
}

enum qr_code qr_circuit_from_json(const struct qr_json *circuit, const char *where,
                                  struct qr_circuit **ret, struct qr_qubits *ret_default_readouts,
                                  struct qr_err *err) {
    static const char *const of_qcnn[] = {"ansatz", "qubits", "stages", "variant", "filters"};
    static const char *const of_gates[] = {"qubits", "columns", "gates"};
    static const char *const of_any[] = {"ansatz",  "qubits",  "stages", "variant",
                                         "filters", "columns", "gates"};
    static const char *const ansatz_names[] = {"qcnn"};
    enum qr_code code = qr_json_want(circuit, where, QR_JSON_OBJECT, err);
    if (code) return code;
    const struct qr_json *ansatz = qr_json_get(circuit, "ansatz"),
                         *gates = qr_json_get(circuit, "gates");
    code = ansatz && gates
               ? qr_fail(err, QR_INVALID_ARGUMENT,
                         "%s has \"ansatz\" and \"gates\"; it is one or the other", where)
           : ansatz ? qr_json_known(circuit, where, of_qcnn, 5, err)
           : gates  ? qr_json_known(circuit, where, of_gates, 3, err)
                    : qr_json_known(circuit, where, of_any, 7, err);
    if (!code && !ansatz && !gates)
        code = qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s must have \"ansatz\": \"qcnn\", or \"gates\": [...]", where);
    int64_t n_qubits;
    size_t which;
    struct path path = path_of("%s.ansatz", where);
    if (!code && ansatz) code = qr_json_choice(ansatz, path.s, ansatz_names, 1, &which, err);
    path = path_of("%s.qubits", where);
    if (!code)
        code =
            qr_json_i64(qr_json_get(circuit, "qubits"), path.s, 1, QR_MAX_QUBITS, &n_qubits, err);
    if (code) return code;
    struct gates_reader r = {.n_qubits = (unsigned)n_qubits, .err = err};
    struct qr_circuit *built = NULL;
    struct qr_qubits readouts = {0};
    code = ansatz ? read_qcnn(&r, circuit, where, &built, &readouts)
                  : read_gates(&r, circuit, where, &built);
    for (unsigned q = 0; !ansatz && q < r.n_qubits; q++) qr_qubits_add(&readouts, q);
    free(r.gates);
    free(r.mentions);
    if (code) return code;
    *ret = built;
    *ret_default_readouts = readouts;
    return QR_OK;
}
