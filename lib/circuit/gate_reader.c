/* circuit/gate_reader.c — shared by the readers of gates: numbers and names, also inside repeats,
 * and the limit on how many are read. Start reading at qr_gate_integer(). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "circuit/channel.h"
#include "circuit/gate_json.h"

/* Reading this many numbers and names takes seconds; more are rejected so that repeats end. */
enum { MAX_READ = 1 << 22 };

void qr_gate_reader_fini(struct qr_gate_reader *r) {
    qr_gate_list_fini(&r->list);
    for (size_t i = 0; i < r->n_channels; i++) qr_channel_fini(&r->channels[i]);
    free(r->channels);
    free(r->conditions.list);
    for (size_t i = 0; i < r->n_expressions; i++) qr_expression_fini(&r->expressions[i]);
    for (size_t i = 0; i < r->n_names; i++) free(r->names[i]);
    for (unsigned i = 0; i < r->n_named; i++) free(r->column_names[i]);
    free(r->expressions);
    free(r->names);
    free(r->column_names);
    free(r->mentions);
}

enum qr_code qr_gate_reader_depend(struct qr_gate_reader *r, size_t from, const char *where) {
    uint32_t condition = qr_conditions_add(&r->conditions, &r->condition);
    for (size_t i = from; i < r->list.n; i++) {
        struct qr_gate *g = &r->list.gates[i];
        if (g->kind == QR_GATE_CHANNEL && r->channels[g->channel].info->measures)
            return qr_fail(r->err, QR_INVALID_ARGUMENT,
                           "%s: a measurement cannot depend on bits; write it outside", where);
        if (!g->condition) g->condition = condition;
    }
    return QR_OK;
}

enum qr_code qr_gate_add_reads(struct qr_gate_reader *r, const char *path, size_t n) {
    if (r->n_repeats) r->n_read += n;
    if (r->n_read <= MAX_READ) return QR_OK;
    return qr_fail(r->err, QR_INVALID_ARGUMENT,
                   "%s: up to here the circuit's repeats read more than %d numbers and names; "
                   "repeat less often",
                   path, MAX_READ);
}

enum qr_code qr_gate_integer(struct qr_gate_reader *r, const struct qr_json *v, const char *path,
                             int64_t low, int64_t high, int64_t *ret) {
    const char *text;
    enum qr_code code = qr_gate_add_reads(r, path, 1);
    if (code) return code;
    if (!r->scope.n || !v || qr_json_type(v) != QR_JSON_STRING)
        return qr_json_i64(v, path, low, high, ret, r->err);
    int64_t value = 0;
    if ((code = qr_json_string(v, path, &text, r->err)) ||
        (code = qr_index_value(&r->scope, text, path, &value, r->err)))
        return code;
    if (value < low || value > high)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: \"%s\" is %lld; it must be between %lld and %lld", path, text,
                       (long long)value, (long long)low, (long long)high);
    *ret = value;
    return QR_OK;
}

static const char *keep_name(struct qr_gate_reader *r, const char *name) {
    if (r->n_names == r->cap_names) {
        r->cap_names = r->cap_names ? 2 * r->cap_names : 64;
        r->names = qr_xreallocarray(r->names, r->cap_names, sizeof *r->names);
    }
    return r->names[r->n_names++] = qr_xstrdup(name);
}

enum qr_code qr_gate_fill(struct qr_gate_reader *r, const char *text, const char *path, size_t most,
                          const char **ret) {
    enum qr_code code = qr_gate_add_reads(r, path, 1 + strlen(text) / 8);
    *ret = text;
    if (code || !r->scope.n || !strchr(text, '{')) return code;
    char *filled = qr_xmalloc(most + 1);
    code = qr_index_fill(&r->scope, text, path, filled, most + 1, r->err);
    if (!code) *ret = keep_name(r, filled);
    free(filled);
    return code;
}

enum qr_code qr_gate_parameter_ref(struct qr_gate_reader *r, const char *name, bool kept,
                                   const char *path, uint32_t *ret) {
    size_t n = strlen(name), all = n + (r->prefix ? strlen(r->prefix) : 0);
    if (n < 1 || all > QR_NAME_BYTES)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: a parameter's name has 1 to %d bytes, not %zu", path, QR_NAME_BYTES,
                       all);
    if (all > n || !kept) {
        char whole[QR_NAME_BYTES + 1];
        snprintf(whole, sizeof whole, "%s%s", r->prefix ? r->prefix : "", name);
        name = keep_name(r, whole);
    }
    for (size_t i = 0; i < all; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
            return qr_fail(r->err, QR_INVALID_ARGUMENT,
                           "%s: a parameter's name has no control characters", path);
    if (r->n_mentions == r->cap_mentions) {
        r->cap_mentions = r->cap_mentions ? 2 * r->cap_mentions : 64;
        r->mentions = qr_xreallocarray(r->mentions, r->cap_mentions, sizeof *r->mentions);
    }
    *ret = (uint32_t)r->n_mentions;
    r->mentions[r->n_mentions++] = (struct qr_parameter_ref){name, *ret};
    return QR_OK;
}

enum qr_code qr_gate_read_columns(struct qr_gate_reader *r, const struct qr_json *v, bool optional,
                                  const char *path, unsigned n, uint32_t *ret) {
    int64_t column = 0, all = r->columns_given ? (int64_t)r->n_columns : QR_MAX_COLUMNS;
    if (all < n)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s refers to %u column%s of data, but the circuit's columns are %d", path,
                       n, n == 1 ? "" : "s", (int)all);
    QR_TRY(optional && !v ? qr_gate_add_reads(r, path, n)
                          : qr_gate_integer(r, v, path, 0, all - n, &column));
    *ret = (uint32_t)column;
    if (*ret + n > r->n_columns) r->n_columns = *ret + n;
    return QR_OK;
}
