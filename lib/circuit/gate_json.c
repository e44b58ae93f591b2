/* circuit/gate_json.c — reads one gate of a job file: name, qubits, controls, arguments. Start
 * reading at qr_gate_read(). */
#include "circuit/gate_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/mem.h"

/* Entries with seven digits are accurate enough. */
#define UNITARY_WITHIN 1e-6

/* A state on 14 qubits takes 229 thousand, on 10 about eleven thousand. */
enum { MAX_COMBINED = 1 << 18 };

/* ---- one argument ---- */

static enum qr_code read_parameter(struct qr_gate_reader *r, const struct qr_json *v,
                                   const char *path, struct qr_gate_arg *arg) {
    const char *name;
    QR_TRY(qr_json_string(v, path, &name, r->err));
    QR_TRY(qr_gate_fill(r, name, path, QR_NAME_BYTES, &name));
    return qr_gate_parameter_ref(r, name, true, path, &arg->index);
}

/* ---- expressions ---- */

/* Context while an expression's names are read. */
struct names_reader {
    struct qr_gate_reader *r;
    const char *path;
    /* Of its names; set when a name fails, for example because its prefix makes it too long */
    enum qr_code code;
};

static uint32_t name_parameter(void *reader, const char *name, size_t n) {
    char text[QR_EXPRESSION_NAME + 1];
    uint32_t number = 0;
    struct names_reader *e = reader;
    snprintf(text, sizeof text, "%.*s", (int)n, name);
    for (unsigned i = 0; i < e->r->scope.n && !e->code; i++)
        if (strcmp(e->r->scope.known[i].name, text) == 0)
            e->code = qr_fail(e->r->err, QR_INVALID_ARGUMENT,
                              "%s: '%s' is %s here; an expression writes it as {%s}", e->path, text,
                              i ? "an index" : "the number of qubits", text);
    if (!e->code) e->code = qr_gate_parameter_ref(e->r, text, false, e->path, &number);
    return number;
}

static const char *name_column(void *reader, const char *name, size_t n, uint32_t *ret) {
    struct qr_gate_reader *r = ((struct names_reader *)reader)->r;
    unsigned i = 0;
    while (i < r->n_named && !(strncmp(r->column_names[i], name, n) == 0 && !r->column_names[i][n]))
        i++;
    if (i == QR_MAX_NAMED_COLUMNS) return "too many named columns";
    if (i == r->n_named) {
        if (!r->column_names)
            r->column_names = qr_xcalloc(QR_MAX_NAMED_COLUMNS, sizeof *r->column_names);
        r->column_names[r->n_named++] = qr_xstrndup(name, n);
    }
    *ret = QR_MAX_COLUMNS + i;
    return NULL;
}

static void note_column(struct qr_gate_reader *r, uint32_t column) {
    if (column < QR_MAX_COLUMNS && column >= r->n_columns) r->n_columns = column + 1;
}

static uint32_t keep_expression(struct qr_gate_reader *r, const struct qr_expression *e) {
    if (r->n_expressions == r->cap_expressions) {
        r->cap_expressions = r->cap_expressions ? 2 * r->cap_expressions : 64;
        r->expressions =
            qr_xreallocarray(r->expressions, r->cap_expressions, sizeof *r->expressions);
    }
    r->expressions[r->n_expressions] = *e;
    return (uint32_t)r->n_expressions++;
}

enum qr_code qr_gate_combine(struct qr_gate_reader *r, enum qr_expression_op op,
                             struct qr_expression_node a, struct qr_expression_node b,
                             const char *path, uint32_t *ret) {
    struct qr_expression_node nodes[] = {a, b, {.op = op, .index = 0}};
    const struct qr_expression e = {.n = 3, .node = nodes};
    if (++r->n_combined > MAX_COMBINED)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: up to here states of inputs take more than %d numbers", path,
                       MAX_COMBINED);
    struct qr_expression kept = qr_expression_copy(&e);
    *ret = keep_expression(r, &kept);
    return QR_OK;
}

/* A number times one parameter or input becomes the argument that the job file could have had
 * without an expression. */
enum qr_code qr_gate_expression(struct qr_gate_reader *r, const char *text, const char *path,
                                struct qr_gate_arg *ret) {
    struct names_reader reader = {r, path, QR_OK};
    const struct qr_expression_names names = {.context = &reader,
                                              .parameter = name_parameter,
                                              .column = name_column,
                                              .n_columns =
                                                  r->columns_given ? r->n_columns : QR_MAX_COLUMNS};
    struct qr_expression e;
    struct qr_gate_arg arg = {.kind = QR_ARG_EXPRESSION};
    QR_TRY(qr_gate_fill(r, text, path, QR_EXPRESSION_BYTES, &text));
    QR_TRY(qr_expression_parse(text, path, &names, &arg.scale, &e, r->err));
    if (reader.code) {
        qr_expression_fini(&e);
        return reader.code;
    }
    for (unsigned i = 0; i < e.n; i++)
        if (e.node[i].op == QR_EXPRESSION_INPUT) note_column(r, e.node[i].index);
    *ret = arg;
    if (e.n == 1) {
        ret->index = e.node->index;
        ret->kind = e.node->op == QR_EXPRESSION_PARAMETER ? QR_ARG_PARAMETER
                    : e.node->op == QR_EXPRESSION_INPUT   ? QR_ARG_DATA
                                                          : QR_ARG_CONSTANT;
        if (ret->kind == QR_ARG_CONSTANT) ret->scale = e.node->number;
        qr_expression_fini(&e);
        return QR_OK;
    }
    ret->index = keep_expression(r, &e);
    return QR_OK;
}

/* ---- any argument ---- */

enum qr_code qr_gate_read_arg(struct qr_gate_reader *r, const struct qr_json *v, const char *where,
                              const char *key, struct qr_gate_arg *ret) {
    struct qr_path path = qr_path_of("%s.%s", where, key);
    if (!v)
        return qr_fail(
            r->err, QR_INVALID_ARGUMENT,
            "%s is missing; it must be a number, {\"parameter\": name}, {\"data\": column} or an "
            "expression such as \"2*w + x[0]\"",
            path.s);
    struct qr_gate_arg arg = {QR_ARG_CONSTANT, 1, 0};
    enum qr_code code;
    if (qr_json_type(v) == QR_JSON_NUMBER) {
        if ((code = qr_json_double(v, path.s, -INFINITY, INFINITY, &arg.scale, r->err)))
            return code;
        *ret = arg;
        return QR_OK;
    }
    if (qr_json_type(v) == QR_JSON_STRING) {
        const char *text;
        QR_TRY(qr_json_string(v, path.s, &text, r->err));
        return qr_gate_expression(r, text, path.s, ret);
    }
    if (qr_json_type(v) != QR_JSON_OBJECT)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s must be a number, {\"parameter\": name}, {\"data\": column} or an "
                       "expression such as \"2*w + x[0]\", not %s",
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
        struct qr_path inner = qr_path_of("%s.scale", path.s);
        if ((code = qr_json_double(scale, inner.s, -INFINITY, INFINITY, &arg.scale, r->err)))
            return code;
    }
    arg.kind = parameter ? QR_ARG_PARAMETER : QR_ARG_DATA;
    struct qr_path inner = qr_path_of("%s.%s", path.s, parameter ? "parameter" : "data");
    QR_TRY(parameter ? read_parameter(r, parameter, inner.s, &arg)
                     : qr_gate_read_columns(r, data, false, inner.s, 1, &arg.index));
    *ret = arg;
    return QR_OK;
}

/* ---- accepted keys ---- */

static const char *const keys[] = {
    /* The keys of a gate's input follow */
    "gate",           "qubits",       "controls",   "control_values", "exponent", "angle",
    "phase_exponent", "theta",        "phi",        "lambda",         "delta",    "gamma",
    "omega",          "global_shift", "pauli_word", "matrix",         "state"};
enum { N_KEYS = sizeof keys / sizeof *keys, N_COMMON_KEYS = 4, MAX_TAKEN = 6 };

/* The keys that a gate accepts; messages list the first n_listed of them. */
struct accepted_keys {
    const char *keys[MAX_TAKEN];
    unsigned n, n_listed;
};

static void accepted_add(struct accepted_keys *t, const char *key, bool listed) {
    t->keys[t->n++] = key;
    if (listed) t->n_listed = t->n;
}

static bool accepted_has(const struct accepted_keys *t, const char *key) {
    for (unsigned i = 0; i < t->n; i++)
        if (strcmp(t->keys[i], key) == 0) return true;
    return false;
}

/* Fails on keys that belong to other gates. */
static enum qr_code reject_other_keys(struct qr_gate_reader *r, const struct qr_json *gate,
                                      const char *where, const char *name,
                                      const struct accepted_keys *t) {
    for (unsigned i = N_COMMON_KEYS; i < N_KEYS; i++) {
        if (accepted_has(t, keys[i]) || !qr_json_get(gate, keys[i])) continue;
        struct qr_buf list = {0};
        for (unsigned k = 0; k < t->n_listed; k++)
            qr_buf_printf(&list, "%s%s",
                          !k                    ? ""
                          : k + 1 < t->n_listed ? ", "
                                                : " and ",
                          t->keys[k]);
        enum qr_code code =
            qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: %s takes %s, not \"%s\"", where, name,
                    t->n_listed ? qr_buf_string(&list) : "no arguments", keys[i]);
        qr_buf_free(&list);
        return code;
    }
    return QR_OK;
}

/* ---- a native gate ---- */

static enum qr_code check_native_keys(struct qr_gate_reader *r, const struct qr_json *gate,
                                      const char *where, const struct qr_gate_info *info,
                                      bool angle, bool angle_only) {
    struct accepted_keys t = {.n = 0};
    if (angle) accepted_add(&t, "angle", true);
    for (unsigned k = 0; k < info->n_args && !angle; k++)
        accepted_add(&t, info->arg_names[k], true);
    if (info->has_exponent && !angle) accepted_add(&t, "global_shift", false);
    for (unsigned i = N_COMMON_KEYS; i < N_KEYS && angle && !angle_only; i++)
        if (!accepted_has(&t, keys[i]) && qr_json_get(gate, keys[i]))
            return qr_fail(r->err, QR_INVALID_ARGUMENT,
                           "%s has \"angle\" and \"%s\"; give the angle alone (it sets the "
                           "exponent to angle / pi and the global shift to -1/2)",
                           where, keys[i]);
    return reject_other_keys(r, gate, where, angle_only ? info->rotation : info->name, &t);
}

static enum qr_code read_native_args(struct qr_gate_reader *r, const struct qr_json *gate,
                                     const char *where, bool angle_only, struct qr_gate *g) {
    const struct qr_gate_info *info = qr_gate_info(g->kind);
    bool angle = info->power && (angle_only || qr_json_get(gate, "angle"));
    enum qr_code code = check_native_keys(r, gate, where, info, angle, angle_only);
    if (code) return code;
    g->n_args = info->n_args;
    if (angle) {
        code = qr_gate_read_arg(r, qr_json_get(gate, "angle"), where, "angle", &g->args[0]);
        g->args[0].scale /= M_PI;
        g->global_shift = -0.5;
        return code;
    }
    for (unsigned k = 0; k < info->n_args; k++) {
        const struct qr_json *v = qr_json_get(gate, info->arg_names[k]);
        g->args[k] = (struct qr_gate_arg){QR_ARG_CONSTANT, 1, 0};
        if (!v && strcmp(info->arg_names[k], "exponent") == 0) continue;
        if ((code = qr_gate_read_arg(r, v, where, info->arg_names[k], &g->args[k]))) return code;
    }
    const struct qr_json *shift = qr_json_get(gate, "global_shift");
    if (!shift) return QR_OK;
    struct qr_path path = qr_path_of("%s.global_shift", where);
    return qr_json_double(shift, path.s, -INFINITY, INFINITY, &g->global_shift, r->err);
}

static enum qr_code read_native(struct qr_gate_reader *r, const struct qr_json *gate,
                                const char *where, enum qr_gate_kind kind, bool angle_only,
                                const struct qr_gate_use *use) {
    struct qr_gate g = {.kind = kind,
                        .n_targets = (uint8_t)use->n_qubits,
                        .controls = use->controls,
                        .control_values = use->control_values};
    for (unsigned k = 0; k < use->n_qubits; k++) g.targets[k] = use->qubits[k];
    QR_TRY(read_native_args(r, gate, where, angle_only, &g));
    qr_gate_list_add(&r->list, &g);
    return QR_OK;
}

/* ---- a composite gate ---- */

static enum qr_code read_gate_paulis(struct qr_gate_reader *r, const struct qr_json *gate,
                                     const char *where, struct qr_gate_use *use) {
    struct qr_path path = qr_path_of("%s.pauli_word", where);
    QR_TRY(qr_json_string(qr_json_get(gate, "pauli_word"), path.s, &use->paulis, r->err));
    size_t good = strspn(use->paulis, "IXYZ");
    if (use->paulis[good])
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: letter %zu is not I, X, Y or Z; give one letter per qubit", path.s,
                       good + 1);
    if (good != use->n_qubits)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s has %zu letters, but %u qubits are given",
                       path.s, good, use->n_qubits);
    if (strspn(use->paulis, "I") == good)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s is I on all qubits, which does nothing; remove the gate", path.s);
    return QR_OK;
}

/* Reads "0101", or {"data": column of the first qubit}. */
static enum qr_code read_basis_state(struct qr_gate_reader *r, const struct qr_json *gate,
                                     const char *where, struct qr_gate_use *use) {
    struct qr_path path = qr_path_of("%s.state", where);
    const struct qr_json *v = qr_json_get(gate, "state");
    enum qr_code code;
    if (v && qr_json_type(v) == QR_JSON_OBJECT) {
        static const char *const known[] = {"data"};
        struct qr_path inner = qr_path_of("%s.data", path.s);
        if ((code = qr_json_known(v, path.s, known, 1, r->err))) return code;
        return qr_gate_read_columns(r, qr_json_get(v, "data"), false, inner.s, use->n_qubits,
                                    &use->column);
    }
    if ((code = qr_json_string(v, path.s, &use->state, r->err))) return code;
    size_t good = strspn(use->state, "01");
    if (use->state[good] || good != use->n_qubits)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s must have %u digits 0 or 1, one per qubit",
                       path.s, use->n_qubits);
    return QR_OK;
}

/* Reads a number, or [re, im]. */
static enum qr_code read_matrix_entry(struct qr_gate_reader *r, const struct qr_json *v,
                                      const char *path, double complex *ret) {
    double part[2] = {0, 0};
    enum qr_code code = QR_OK;
    if (qr_json_type(v) == QR_JSON_NUMBER) {
        code = qr_json_double(v, path, -INFINITY, INFINITY, &part[0], r->err);
    } else if (qr_json_type(v) != QR_JSON_ARRAY || qr_json_size(v) != 2) {
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s must be [re, im] or a number", path);
    } else {
        for (unsigned k = 0; k < 2 && !code; k++) {
            struct qr_path inner = qr_path_of("%s[%u]", path, k);
            code = qr_json_double(qr_json_at(v, k), inner.s, -INFINITY, INFINITY, &part[k], r->err);
        }
    }
    *ret = __builtin_complex(part[0], part[1]);
    return code;
}

/* Entries far above 1 are rejected first: their sums of products would overflow. */
static enum qr_code check_unitary(struct qr_gate_reader *r, const char *path, unsigned dim,
                                  const double complex *u) {
    unsigned row = 0, column = 0;
    for (unsigned i = 0; i < dim * dim; i++)
        if (fabs(creal(u[i])) > 2 || fabs(cimag(u[i])) > 2)
            return qr_fail(r->err, QR_INVALID_ARGUMENT,
                           "%s[%u][%u] is above 1: no entry of a unitary matrix is", path, i / dim,
                           i % dim);
    double off = qr_unitarity_error(u, dim, &row, &column);
    if (off <= UNITARY_WITHIN) return QR_OK;
    return row == column
               ? qr_fail(r->err, QR_INVALID_ARGUMENT,
                         "%s is not unitary: the squares of row %u's entries add up to 1 only "
                         "within %.2g; at most %g is allowed",
                         path, row, off, UNITARY_WITHIN)
               : qr_fail(r->err, QR_INVALID_ARGUMENT,
                         "%s is not unitary: rows %u and %u are not orthogonal (their product is "
                         "%.2g; at most %g is allowed)",
                         path, row < column ? row : column, row < column ? column : row, off,
                         UNITARY_WITHIN);
}

enum qr_code qr_gate_read_matrix(struct qr_gate_reader *r, const struct qr_json *m,
                                 const char *path, unsigned n_qubits, double complex *ret) {
    unsigned dim = 1u << n_qubits, i = 0;
    enum qr_code code = qr_json_want(m, path, QR_JSON_ARRAY, r->err);
    if (!code) code = qr_gate_add_reads(r, path, 2 * dim * dim);
    if (code) return code;
    if (qr_json_size(m) != dim)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s has %zu rows; on %u qubit%s it must be %ux%u", path, qr_json_size(m),
                       n_qubits, n_qubits == 1 ? "" : "s", dim, dim);
    for (const struct qr_json *row = qr_json_first(m); row; row = qr_json_next(row)) {
        struct qr_path at = qr_path_of("%s[%u]", path, i / dim);
        if ((code = qr_json_want(row, at.s, QR_JSON_ARRAY, r->err))) return code;
        if (qr_json_size(row) != dim)
            return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s has %zu entries; it must have %u", at.s,
                           qr_json_size(row), dim);
        for (const struct qr_json *v = qr_json_first(row); v; v = qr_json_next(v), i++) {
            struct qr_path entry = qr_path_of("%s[%u]", at.s, i % dim);
            if ((code = read_matrix_entry(r, v, entry.s, &ret[i]))) return code;
        }
    }
    return QR_OK;
}

static enum qr_code read_unitary(struct qr_gate_reader *r, const struct qr_json *gate,
                                 const char *where, unsigned n_qubits, double complex *ret) {
    struct qr_path path = qr_path_of("%s.matrix", where);
    QR_TRY(qr_gate_read_matrix(r, qr_json_get(gate, "matrix"), path.s, n_qubits, ret));
    return check_unitary(r, path.s, 1u << n_qubits, ret);
}

/* PennyLane's U2 and U3 have "delta" where Qiskit's have "lambda". */
static enum qr_code read_composite_arg(struct qr_gate_reader *r, const struct qr_json *gate,
                                       const char *where, const char *key,
                                       struct qr_gate_arg *ret) {
    const struct qr_json *v = qr_json_get(gate, key),
                         *delta = strcmp(key, "lambda") == 0 ? qr_json_get(gate, "delta") : NULL;
    if (v && delta)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s has \"lambda\" and \"delta\", two names of one angle; give one", where);
    return delta ? qr_gate_read_arg(r, delta, where, "delta", ret)
                 : qr_gate_read_arg(r, v, where, key, ret);
}

static enum qr_code read_composite(struct qr_gate_reader *r, const struct qr_json *gate,
                                   const char *where, struct qr_gate_use *use) {
    static const char *const also[] = {NULL, "pauli_word", "matrix", "state"};
    const struct qr_composite_gate *w = use->gate;
    struct accepted_keys t = {.n = 0};
    for (unsigned k = 0; k < QR_COMPOSITE_ARGS && w->args[k]; k++)
        accepted_add(&t, w->args[k], true);
    if (w->takes) accepted_add(&t, also[w->takes], true);
    if (accepted_has(&t, "lambda")) accepted_add(&t, "delta", false);
    enum qr_code code = reject_other_keys(r, gate, where, w->names[0], &t);
    for (unsigned k = 0; k < QR_COMPOSITE_ARGS && w->args[k] && !code; k++)
        code = read_composite_arg(r, gate, where, w->args[k], &use->args[k]);
    if (!code && w->takes == QR_COMPOSITE_PAULIS) code = read_gate_paulis(r, gate, where, use);
    if (!code && w->takes == QR_COMPOSITE_STATE) code = read_basis_state(r, gate, where, use);
    double complex *matrix = NULL;
    if (!code && w->takes == QR_COMPOSITE_MATRIX) {
        use->matrix = matrix = qr_xcalloc((size_t)1 << 2 * use->n_qubits, sizeof *matrix);
        code = read_unitary(r, gate, where, use->n_qubits, matrix);
    }
    if (!code) qr_gate_expand(use, &r->list);
    free(matrix);
    return code;
}

/* ---- any gate ---- */

/* Reads an array of at most `most` integers in 0..high. */
static enum qr_code read_gate_integers(struct qr_gate_reader *r, const struct qr_json *v,
                                       const char *where, const char *key, int64_t high,
                                       unsigned most, uint16_t *ret, unsigned *ret_n) {
    struct qr_path path = qr_path_of("%s.%s", where, key);
    enum qr_code code = qr_json_want(v, path.s, QR_JSON_ARRAY, r->err);
    if (code) return code;
    unsigned n = 0;
    for (const struct qr_json *i = qr_json_first(v); i; i = qr_json_next(i), n++) {
        int64_t q;
        struct qr_path item = qr_path_of("%s[%u]", path.s, n);
        if (n == most)
            return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s has more than %u entries", path.s,
                           most);
        if ((code = qr_gate_integer(r, i, item.s, 0, high, &q))) return code;
        ret[n] = (uint16_t)q;
    }
    *ret_n = n;
    return QR_OK;
}

/* Different integers up to `high`; noun: of one. */
static enum qr_code read_different(struct qr_gate_reader *r, const struct qr_json *v,
                                   const char *where, const char *key, int64_t high,
                                   const char *noun, uint16_t *ret, unsigned *ret_n) {
    unsigned n = 0;
    struct qr_qubits seen = {0};
    QR_TRY(read_gate_integers(r, v, where, key, high, QR_MAX_QUBITS, ret, &n));
    for (unsigned i = 0; i < n; i++) {
        if (qr_qubits_has(&seen, ret[i]))
            return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s.%s: %s %u is given twice", where, key,
                           noun, ret[i]);
        qr_qubits_add(&seen, ret[i]);
    }
    *ret_n = n;
    return QR_OK;
}

enum qr_code qr_gate_read_qubits(struct qr_gate_reader *r, const struct qr_json *v,
                                 const char *where, const char *key, uint16_t *ret,
                                 unsigned *ret_n) {
    QR_TRY(read_different(r, v, where, key, (int64_t)qr_gate_qubits(r) - 1, "qubit", ret, ret_n));
    for (unsigned i = 0; i < *ret_n && r->map; i++) ret[i] = r->map[ret[i]];
    return QR_OK;
}

enum qr_code qr_gate_read_bits(struct qr_gate_reader *r, const struct qr_json *v, const char *where,
                               const char *key, uint16_t *ret, unsigned *ret_n) {
    return read_different(r, v, where, key, QR_MAX_QUBITS - 1, "bit", ret, ret_n);
}

/* Adds n members and their values (given: 0 or 1, or absent: 1) to sets that have none of them. */
static enum qr_code add_members(struct qr_gate_reader *r, const struct qr_json *item,
                                const char *where, const char *key, const uint16_t *members,
                                unsigned n, const char *values_key, const char *noun,
                                struct qr_qubits *to, struct qr_qubits *to_values) {
    const struct qr_json *given = qr_json_get(item, values_key);
    uint16_t value[QR_MAX_QUBITS];
    unsigned n_values = 0;
    if (given)
        QR_TRY(read_gate_integers(r, given, where, values_key, 1, QR_MAX_QUBITS, value, &n_values));
    if (given && n != n_values)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s has %u %ss, but %u %s", where, n, noun,
                       n_values, values_key);
    for (unsigned i = 0; i < n; i++) {
        if (qr_qubits_has(to, members[i]))
            return qr_fail(r->err, QR_INVALID_ARGUMENT,
                           "%s.%s: %s %u is a %s of an enclosing item already; remove it", where,
                           key, *noun == 'b' ? "bit" : "qubit", members[i], noun);
        qr_qubits_add(to, members[i]);
        if (!given || value[i]) qr_qubits_add(to_values, members[i]);
    }
    return QR_OK;
}

enum qr_code qr_gate_read_controls(struct qr_gate_reader *r, const struct qr_json *item,
                                   const char *where, const char *key, struct qr_qubits *controls,
                                   struct qr_qubits *values) {
    uint16_t qubits[QR_MAX_QUBITS];
    unsigned n = 0;
    QR_TRY(qr_gate_read_qubits(r, qr_json_get(item, key), where, key, qubits, &n));
    return add_members(r, item, where, key, qubits, n, "control_values", "control", controls,
                       values);
}

enum qr_code qr_gate_read_condition(struct qr_gate_reader *r, const struct qr_json *item,
                                    const char *where, struct qr_condition *ret) {
    uint16_t bits[QR_MAX_QUBITS];
    unsigned n = 0;
    QR_TRY(qr_gate_read_bits(r, qr_json_get(item, "if"), where, "if", bits, &n));
    if (!n) return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s.if is empty", where);
    return add_members(r, item, where, "if", bits, n, "if_values", "bit", &ret->bits, &ret->values);
}

/* What a gate's name determines. */
struct named {
    const struct qr_composite_gate *gate; /* NULL: a native gate */
    enum qr_gate_kind kind;
    bool angle_only; /* the name is a rotation's */
    const char *name;
    unsigned least, most; /* number of qubits; most 0: any number */
};

static enum qr_code read_gate_name(struct qr_gate_reader *r, const struct qr_json *v,
                                   const char *where, struct named *ret) {
    const char *name;
    struct qr_path path = qr_path_of("%s.gate", where);
    QR_TRY(qr_json_string(v, path.s, &name, r->err));
    int kind = qr_gate_kind_of(name);
    *ret = (struct named){.gate = kind < 0 ? qr_composite_gate_of(name) : NULL};
    if (ret->gate) {
        ret->name = ret->gate->names[0];
        ret->least = ret->gate->least;
        ret->most = ret->gate->most;
        return QR_OK;
    }
    if (kind < 0) {
        qr_auto(qr_free_p) char *hint = qr_gate_hint(name);
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: unknown gate '%.40s'%s", path.s, name,
                       hint);
    }
    const struct qr_gate_info *info = qr_gate_info((enum qr_gate_kind)kind);
    ret->kind = (enum qr_gate_kind)kind;
    ret->angle_only = info->rotation && strcasecmp(name, info->rotation) == 0;
    ret->name = info->name;
    ret->least = ret->most = info->n_targets;
    return QR_OK;
}

static enum qr_code read_gate_qubits(struct qr_gate_reader *r, const struct qr_json *gate,
                                     const char *where, const struct named *named, uint16_t *qubits,
                                     struct qr_gate_use *use) {
    unsigned n = 0;
    QR_TRY(qr_gate_read_qubits(r, qr_json_get(gate, "qubits"), where, "qubits", qubits, &n));
    char to[16] = "";
    if (named->most > named->least) snprintf(to, sizeof to, " to %u", named->most);
    if (n < named->least || (named->most && n > named->most))
        return qr_fail(
            r->err, QR_INVALID_ARGUMENT, "%s.qubits: %s acts on %s%u%s qubit%s, but %u %s given",
            where, named->name, named->most ? "" : "at least ", named->least, to,
            (named->most ? named->most : named->least) == 1 ? "" : "s", n, n == 1 ? "is" : "are");
    use->qubits = qubits;
    use->n_qubits = n;
    use->controls = r->controls, use->control_values = r->control_values;
    if (qr_json_get(gate, "controls"))
        QR_TRY(qr_gate_read_controls(r, gate, where, "controls", &use->controls,
                                     &use->control_values));
    else if (qr_json_get(gate, "control_values"))
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s has control_values, but no controls",
                       where);
    for (unsigned k = 0; k < n; k++)
        if (qr_qubits_has(&use->controls, qubits[k]))
            return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: qubit %u is a target and a control",
                           where, qubits[k]);
    return QR_OK;
}

enum qr_code qr_gate_read(struct qr_gate_reader *r, const struct qr_json *gate, const char *where) {
    struct named named;
    uint16_t qubits[QR_MAX_QUBITS];
    const struct qr_json *name;
    QR_TRY(qr_json_want(gate, where, QR_JSON_OBJECT, r->err));
    /* Read the name first: the accepted keys depend on it. */
    if ((name = qr_json_get(gate, "gate"))) QR_TRY(read_gate_name(r, name, where, &named));
    if (qr_json_get(gate, "wires"))
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: unknown key 'wires'; did you mean 'qubits'?", where);
    QR_TRY(qr_json_known(gate, where, keys, N_KEYS, r->err));
    if (!name) QR_TRY(read_gate_name(r, NULL, where, &named));
    struct qr_gate_use use = {.gate = named.gate};
    QR_TRY(read_gate_qubits(r, gate, where, &named, qubits, &use));
    return named.gate ? read_composite(r, gate, where, &use)
                      : read_native(r, gate, where, named.kind, named.angle_only, &use);
}
