/* circuit/gate_items.c — items of a gate list: gates, ansätze, noise channels, measurements,
 * repeats, and blocks, which invert, control, condition or repeat their gates. Start reading at
 * qr_items_read(). */
#include "circuit/gate_items.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"

enum { MAX_ROUNDS = 1 << 20, MAX_POWER = 1 << 20 };

enum qr_code qr_items_bounded(const struct qr_gate_reader *r, const char *where) {
    if (r->list.n <= QR_MAX_GATES) return QR_OK;
    return qr_fail(r->err, QR_INVALID_ARGUMENT,
                   "%s: here the circuit exceeds %d gates (after expanding composite gates)", where,
                   QR_MAX_GATES);
}

/* ---- gates of an item ---- */

/* Inside, index expressions are known, and n. */
static enum qr_code enter_item(struct qr_gate_reader *r, const char *where) {
    if (r->n_enclosing == QR_MAX_REPEATS)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: repeats and blocks are nested more than %d deep; nest fewer", where,
                       QR_MAX_REPEATS);
    r->n_enclosing++;
    if (r->scope.n) return QR_OK;
    r->scope.known[0].name = "n";
    r->scope.known[0].value = qr_gate_qubits(r);
    r->scope.n = 1;
    return QR_OK;
}

static enum qr_code find_item_gates(struct qr_gate_reader *r, const struct qr_json *item,
                                    const struct qr_path *path, const struct qr_json **ret) {
    *ret = qr_json_get(item, "gates");
    enum qr_code code = qr_json_want(*ret, path->s, QR_JSON_ARRAY, r->err);
    if (!code && !qr_json_size(*ret))
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s has no gates", path->s);
    return code;
}

static enum qr_code read_item_gates(struct qr_gate_reader *r, const struct qr_json *item,
                                    const char *where) {
    struct qr_path path = qr_path_of("%s.gates", where);
    const struct qr_json *gates;
    QR_TRY(find_item_gates(r, item, &path, &gates));
    return qr_items_read(r, gates, path.s);
}

/* ---- repeats ---- */

/* Appends " (i = 3)" to the message of a failure in this round. */
static void append_repeat_index(struct qr_err *err, const char *index, int64_t value) {
    if (!err || !index) return;
    size_t n = strlen(err->msg);
    snprintf(err->msg + n, sizeof err->msg - n, " (%s = %lld)", index, (long long)value);
}

static enum qr_code read_repeat_index(struct qr_gate_reader *r, const struct qr_json *repeat,
                                      const char *where, const char **ret) {
    const struct qr_json *v = qr_json_get(repeat, "index");
    struct qr_path path = qr_path_of("%s.index", where);
    *ret = NULL;
    if (!v) return QR_OK;
    QR_TRY(qr_json_string(v, path.s, ret, r->err));
    if (!qr_index_is_name(*ret))
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s is '%.40s'; give a name such as \"i\": up to 16 letters, digits and _, "
                       "not starting with a digit",
                       path.s, *ret);
    for (unsigned i = 0; i < r->scope.n; i++)
        if (strcmp(r->scope.known[i].name, *ret) == 0)
            return qr_fail(r->err, QR_INVALID_ARGUMENT,
                           "%s: '%s' is %s already; choose another name", path.s, *ret,
                           i ? "the index of an enclosing repeat" : "the number of qubits");
    return QR_OK;
}

static enum qr_code read_repeat_rounds(struct qr_gate_reader *r, const struct qr_json *repeat,
                                       const char *where, int64_t n) {
    struct qr_path path = qr_path_of("%s.gates", where);
    const struct qr_json *gates;
    const char *index;
    enum qr_code code = read_repeat_index(r, repeat, where, &index);
    if (!code) code = find_item_gates(r, repeat, &path, &gates);
    unsigned at = r->scope.n;
    if (index) r->scope.known[r->scope.n++].name = index;
    for (int64_t i = 0; i < n && !code; i++) {
        if (index) r->scope.known[at].value = i;
        code = qr_items_read(r, gates, path.s);
        if (code) append_repeat_index(r->err, index, i);
    }
    r->scope.n = at;
    return code;
}

static enum qr_code read_repeat(struct qr_gate_reader *r, const struct qr_json *repeat,
                                const char *where) {
    static const char *const known[] = {"repeat", "index", "gates"};
    struct qr_path path = qr_path_of("%s.repeat", where);
    int64_t n = 0;
    enum qr_code code = qr_json_known(repeat, where, known, 3, r->err);
    r->n_repeats++;
    if (!code) code = qr_gate_integer(r, qr_json_get(repeat, "repeat"), path.s, 0, MAX_ROUNDS, &n);
    if (!code) code = read_repeat_rounds(r, repeat, where, n);
    r->n_repeats--;
    return code;
}

/* ---- blocks ---- */

static enum qr_code read_adjoint(struct qr_gate_reader *r, const struct qr_json *item,
                                 const char *where) {
    static const char *const known[] = {"adjoint", "gates"};
    struct qr_path path = qr_path_of("%s.adjoint", where);
    size_t from = r->list.n;
    bool adjoint;
    QR_TRY(qr_json_known(item, where, known, 2, r->err));
    QR_TRY(qr_json_bool(qr_json_get(item, "adjoint"), path.s, &adjoint, r->err));
    QR_TRY(read_item_gates(r, item, where));
    if (!adjoint) return QR_OK;
    QR_TRY(qr_channel_reject(r, from, where, "inverted"));
    qr_gate_list_invert(&r->list, from);
    return QR_OK;
}

static enum qr_code read_control(struct qr_gate_reader *r, const struct qr_json *item,
                                 const char *where) {
    static const char *const known[] = {"control", "control_values", "gates"};
    struct qr_qubits controls = r->controls, values = r->control_values;
    enum qr_code code = qr_json_known(item, where, known, 3, r->err);
    if (!code)
        code = qr_gate_read_controls(r, item, where, "control", &r->controls, &r->control_values);
    if (!code) code = read_item_gates(r, item, where);
    r->controls = controls, r->control_values = values;
    return code;
}

static enum qr_code read_if(struct qr_gate_reader *r, const struct qr_json *item,
                            const char *where) {
    static const char *const known[] = {"if", "if_values", "gates"};
    struct qr_condition around = r->condition;
    size_t from = r->list.n;
    enum qr_code code = qr_json_known(item, where, known, 3, r->err);
    if (!code) code = qr_gate_read_condition(r, item, where, &r->condition);
    if (!code) code = read_item_gates(r, item, where);
    if (!code) code = qr_gate_reader_depend(r, from, where);
    r->condition = around;
    return code;
}

static enum qr_code read_power(struct qr_gate_reader *r, const struct qr_json *item,
                               const char *where) {
    static const char *const known[] = {"power", "gates"};
    struct qr_path path = qr_path_of("%s.power", where);
    const struct qr_json *v = qr_json_get(item, "power"), *gates;
    size_t from = r->list.n;
    int64_t whole = 0;
    double power = 0;
    QR_TRY(qr_json_known(item, where, known, 2, r->err));
    if (v && qr_json_type(v) == QR_JSON_STRING) {
        QR_TRY(qr_gate_integer(r, v, path.s, -MAX_POWER, MAX_POWER, &whole));
        power = (double)whole;
    } else {
        QR_TRY(qr_gate_add_reads(r, path.s, 1));
        QR_TRY(qr_json_double(v, path.s, -MAX_POWER, MAX_POWER, &power, r->err));
    }
    if (power == 0) { /* as a repeat of 0 */
        struct qr_path inner = qr_path_of("%s.gates", where);
        return find_item_gates(r, item, &inner, &gates);
    }
    QR_TRY(read_item_gates(r, item, where));
    if (power < 0 || power != floor(power)) QR_TRY(qr_channel_reject(r, from, where, "inverted"));
    struct qr_err why;
    if (qr_gate_list_power(&r->list, from, power, QR_MAX_GATES, &why) != QR_OK)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: %s", path.s, why.msg);
    return QR_OK;
}

/* ---- any item ---- */

static enum qr_code read_ansatz_item(struct qr_gate_reader *r, const struct qr_json *item,
                                     const char *where) {
    const struct qr_ansatz *row;
    uint16_t qubits[QR_MAX_QUBITS];
    unsigned n = 0;
    QR_TRY(qr_ansatz_named(item, where, &row, r->err));
    if (!row)
        return qr_fail(
            r->err, QR_INVALID_ARGUMENT,
            "%s.ansatz: a 'qcnn' is a whole circuit with an encoder of its own; write it as the "
            "layer's \"circuit\"",
            where);
    if (qr_json_get(item, "noise"))
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s.noise belongs to the whole circuit; write it there", where);
    const struct qr_json *list = qr_json_get(item, "qubits");
    if (list) QR_TRY(qr_gate_read_qubits(r, list, where, "qubits", qubits, &n));
    for (; !list && n < qr_gate_qubits(r); n++) qubits[n] = r->map ? r->map[n] : (uint16_t)n;
    if (!n)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s.qubits is empty; leave it out for all qubits", where);
    return qr_ansatz_read(r, item, where, row, qubits, n);
}

/* The key that an item of each kind has, and no other. */
static const struct {
    const char *key;
    enum qr_code (*read)(struct qr_gate_reader *r, const struct qr_json *item, const char *where);
    bool has_gates;
} kinds[] = {{"gate", qr_gate_read, false},
             {"repeat", read_repeat, true},
             {"ansatz", read_ansatz_item, false},
             {"adjoint", read_adjoint, true},
             {"control", read_control, true},
             {"power", read_power, true},
             {"channel", qr_channel_read, false},
             {"measure", qr_measurement_read, false},
             {"if", read_if, true}};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* Fails on an item with none of these keys. */
static enum qr_code reject_item(struct qr_gate_reader *r, const struct qr_json *item,
                                const char *where) {
    const char *names[N_KINDS];
    for (unsigned k = 0; k < N_KINDS; k++) names[k] = kinds[k].key;
    const struct qr_json *gates = qr_json_get(item, "gates");
    for (const struct qr_json *v = qr_json_first(item); v; v = qr_json_next(v)) {
        const char *near = v == gates ? NULL : qr_nearest(qr_json_key(v), names, N_KINDS);
        if (near && strcmp(near, qr_json_key(v)) == 0)
            return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s.%s is null; give its value", where,
                           near);
        if (near)
            return qr_fail(r->err, QR_INVALID_ARGUMENT,
                           "%s: unknown key '%.40s'; did you mean '%s'?", where, qr_json_key(v),
                           near);
    }
    if (gates)
        return qr_fail(
            r->err, QR_INVALID_ARGUMENT,
            "%s has \"gates\" but no \"repeat\" (the number of repetitions), \"adjoint\", "
            "\"control\", \"if\" or \"power\"",
            where);
    return qr_gate_read(r, item, where);
}

static enum qr_code read_item(struct qr_gate_reader *r, const struct qr_json *item,
                              const char *where) {
    unsigned n = 0, has[N_KINDS];
    QR_TRY(qr_json_want(item, where, QR_JSON_OBJECT, r->err));
    for (unsigned k = 0; k < N_KINDS; k++)
        if (qr_json_get(item, kinds[k].key)) has[n++] = k;
    if (!n) return reject_item(r, item, where);
    if (n > 1)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s has both \"%s\" and \"%s\"; give one%s",
                       where, kinds[has[0]].key, kinds[has[1]].key,
                       kinds[has[0]].has_gates || kinds[has[1]].has_gates
                           ? " (items inside another go into its \"gates\")"
                           : "");
    if (!kinds[*has].has_gates) {
        QR_TRY(kinds[*has].read(r, item, where));
        return qr_items_bounded(r, where);
    }
    struct qr_index_scope around = r->scope;
    QR_TRY(enter_item(r, where));
    enum qr_code code = kinds[*has].read(r, item, where);
    r->n_enclosing--;
    r->scope = around;
    return code ? code : qr_items_bounded(r, where);
}

enum qr_code qr_items_read(struct qr_gate_reader *r, const struct qr_json *list, const char *path) {
    enum qr_code code = QR_OK;
    size_t i = 0;
    for (const struct qr_json *v = qr_json_first(list); v && !code; v = qr_json_next(v), i++) {
        struct qr_path item = qr_path_of("%s[%zu]", path, i);
        code = read_item(r, v, item.s);
    }
    return code;
}
