/* circuit/gate_items.c — items of a gate list: gates, repeats, ansätze. Start reading at
 * qr_items_read(). */
#include "circuit/gate_items.h"

#include <stdio.h>
#include <string.h>

#include "base/parse.h"

enum { MAX_ROUNDS = 1 << 20 };

enum qr_code qr_items_bounded(const struct qr_gate_reader *r, const char *where) {
    if (r->list.n <= QR_MAX_GATES) return QR_OK;
    return qr_fail(r->err, QR_INVALID_ARGUMENT,
                   "%s: here the circuit exceeds %d gates (after expanding composite gates)", where,
                   QR_MAX_GATES);
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
    enum qr_code code = qr_json_string(v, path.s, ret, r->err);
    if (code) return code;
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
    const struct qr_json *gates = qr_json_get(repeat, "gates");
    const char *index;
    enum qr_code code = read_repeat_index(r, repeat, where, &index);
    if (!code) code = qr_json_want(gates, path.s, QR_JSON_ARRAY, r->err);
    if (!code && !qr_json_size(gates))
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s has no gates", path.s);
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
    struct qr_index_scope around = r->scope;
    int64_t n = 0;
    enum qr_code code = qr_json_known(repeat, where, known, 3, r->err);
    if (code) return code;
    if (r->n_repeats == QR_MAX_REPEATS)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: repeats are nested more than %d deep; nest fewer", where,
                       QR_MAX_REPEATS);
    if (!r->n_repeats++) {
        r->scope.known[0].name = "n";
        r->scope.known[0].value = qr_gate_qubits(r);
        r->scope.n = 1;
    }
    code = qr_gate_integer(r, qr_json_get(repeat, "repeat"), path.s, 0, MAX_ROUNDS, &n);
    if (!code) code = read_repeat_rounds(r, repeat, where, n);
    r->n_repeats--;
    r->scope = around;
    return code;
}

/* ---- any item ---- */

static enum qr_code read_ansatz_item(struct qr_gate_reader *r, const struct qr_json *item,
                                     const char *where) {
    const struct qr_ansatz *row;
    uint16_t qubits[QR_MAX_QUBITS];
    unsigned n = 0;
    enum qr_code code = qr_ansatz_named(item, where, &row, r->err);
    if (code) return code;
    if (!row)
        return qr_fail(
            r->err, QR_INVALID_ARGUMENT,
            "%s.ansatz: a 'qcnn' is a whole circuit with an encoder of its own; write it as the "
            "layer's \"circuit\"",
            where);
    const struct qr_json *list = qr_json_get(item, "qubits");
    if (list) code = qr_gate_read_qubits(r, list, where, "qubits", qubits, &n);
    for (; !list && n < qr_gate_qubits(r); n++) qubits[n] = r->map ? r->map[n] : (uint16_t)n;
    if (!code && !n)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s.qubits is empty; leave it out for all qubits", where);
    return code ? code : qr_ansatz_read(r, item, where, row, qubits, n);
}

/* Fails on an item with none, or two, of the keys "gate", "repeat" and "ansatz". */
static enum qr_code reject_item(struct qr_gate_reader *r, const struct qr_json *item,
                                const char *where) {
    static const char *const kinds[] = {"gate", "repeat", "ansatz"};
    const char *has[3];
    unsigned n = 0;
    for (unsigned k = 0; k < 3; k++)
        if (qr_json_get(item, kinds[k])) has[n++] = kinds[k];
    if (n > 1)
        return qr_fail(
            r->err, QR_INVALID_ARGUMENT, "%s has both \"%s\" and \"%s\"; give one%s", where, has[0],
            has[1], qr_json_get(item, "repeat") ? " (the items to repeat go into \"gates\")" : "");
    const struct qr_json *gates = qr_json_get(item, "gates");
    for (const struct qr_json *v = qr_json_first(item); v; v = qr_json_next(v)) {
        const char *near = v == gates ? NULL : qr_nearest(qr_json_key(v), kinds, 3);
        if (near)
            return qr_fail(r->err, QR_INVALID_ARGUMENT,
                           "%s: unknown key '%.40s'; did you mean '%s'?", where, qr_json_key(v),
                           near);
    }
    if (gates)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s has \"gates\" but no \"repeat\" (the number of repetitions)", where);
    return qr_gate_read(r, item, where);
}

static enum qr_code read_item(struct qr_gate_reader *r, const struct qr_json *item,
                              const char *where) {
    enum qr_code code = qr_json_want(item, where, QR_JSON_OBJECT, r->err);
    if (code) return code;
    bool gate = qr_json_get(item, "gate"), repeat = qr_json_get(item, "repeat"),
         ansatz = qr_json_get(item, "ansatz");
    if (gate + repeat + ansatz != 1) return reject_item(r, item, where);
    code = (gate ? qr_gate_read : repeat ? read_repeat : read_ansatz_item)(r, item, where);
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
