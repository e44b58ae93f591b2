/* circuit/channel_json.c — reads noise channels of gate lists. Start reading at
 * qr_channel_read(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "circuit/channel.h"
#include "circuit/gate_json.h"

enum { MAX_KEYS = QR_CHANNEL_ARGS + 3 };

enum qr_code qr_channel_reject(const struct qr_gate_reader *r, size_t from, const char *where,
                               const char *what) {
    for (size_t i = from; i < r->list.n; i++)
        if (r->list.gates[i].kind == QR_GATE_CHANNEL)
            return qr_fail(r->err, QR_INVALID_ARGUMENT,
                           "%s: a noise channel (%s) cannot be %s; write it outside", where,
                           r->channels[r->list.gates[i].channel].info->names[0], what);
    return QR_OK;
}

void qr_channel_keep(struct qr_gate_reader *r, struct qr_channel *channel) {
    if (r->n_channels == r->cap_channels) {
        r->cap_channels = r->cap_channels ? 2 * r->cap_channels : 16;
        r->channels = qr_xreallocarray(r->channels, r->cap_channels, sizeof *r->channels);
    }
    r->channels[r->n_channels++] = *channel;
    channel->kraus = NULL;
}

enum qr_code qr_channel_append(struct qr_gate_reader *r, struct qr_channel *channel,
                               const uint16_t *qubits, const char *where) {
    struct qr_gate *g;
    if (!qr_qubits_is_empty(&r->controls))
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: a noise channel (%s) cannot be controlled; write it outside", where,
                       channel->info->names[0]);
    g = qr_gate_list_new(&r->list);
    *g = (struct qr_gate){.kind = QR_GATE_CHANNEL,
                          .n_targets = channel->info->n_targets,
                          .channel = (uint32_t)r->n_channels};
    memcpy(g->targets, qubits, g->n_targets * sizeof *qubits);
    qr_channel_keep(r, channel);
    return QR_OK;
}

/* ---- arguments ---- */

bool qr_channel_reads_inputs(const struct qr_gate_reader *r, const struct qr_gate_arg *a) {
    if (a->kind == QR_ARG_DATA) return true;
    if (a->kind != QR_ARG_EXPRESSION) return false;
    const struct qr_expression *e = &r->expressions[a->index];
    for (unsigned i = 0; i < e->n; i++)
        if (e->node[i].op == QR_EXPRESSION_INPUT || e->node[i].op == QR_EXPRESSION_SHARED)
            return true;
    return false;
}

static enum qr_code read_strengths(struct qr_gate_reader *r, const struct qr_json *item,
                                   const char *where, struct qr_channel *c) {
    const struct qr_channel_info *info = c->info;
    bool given = false;
    for (unsigned k = 0; k < info->n_args; k++)
        given |= qr_json_get(item, info->arg_names[k]) != NULL;
    for (unsigned k = 0; k < info->n_args; k++) {
        const struct qr_json *v = qr_json_get(item, info->arg_names[k]);
        c->args[k] = (struct qr_gate_arg){QR_ARG_CONSTANT, 0, 0};
        if (!v && info->measures) c->unset |= 1u << k;
        if (!v && (given || info->measures) && k + info->n_optional >= info->n_args) continue;
        QR_TRY(qr_gate_read_arg(r, v, where, info->arg_names[k], &c->args[k]));
        if (qr_channel_reads_inputs(r, &c->args[k]))
            return qr_fail(r->err, QR_INVALID_ARGUMENT,
                           "%s.%s depends on inputs; give a number, or an expression of weights",
                           where, info->arg_names[k]);
    }
    return QR_OK;
}

static enum qr_code read_operators(struct qr_gate_reader *r, const struct qr_json *item,
                                   const char *where, struct qr_channel *c) {
    struct qr_path path = qr_path_of("%s.operators", where);
    const struct qr_json *list = qr_json_get(item, "operators");
    QR_TRY(qr_json_want(list, path.s, QR_JSON_ARRAY, r->err));
    size_t n = qr_json_size(list), size = c->info->n_targets == 1 ? 4 : 16;
    if (n < 1 || n > QR_CHANNEL_KRAUS)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s has %zu matrices; give 1 to %d", path.s, n,
                       (int)QR_CHANNEL_KRAUS);
    c->kraus = qr_xcalloc(n * size, sizeof *c->kraus);
    for (const struct qr_json *m = qr_json_first(list); m; m = qr_json_next(m), c->n_kraus++)
        QR_TRY(qr_gate_read_matrix(r, m, qr_path_of("%s[%u]", path.s, c->n_kraus).s,
                                   c->info->n_targets, c->kraus + c->n_kraus * size));
    return QR_OK;
}

static enum qr_code check_keys(struct qr_gate_reader *r, const struct qr_json *item,
                               const char *where, const struct qr_channel_info *info) {
    const char *known[MAX_KEYS] = {info->measures ? "measure" : "channel",
                                   info->measures ? "bits" : "qubits"};
    size_t n = 2;
    for (unsigned k = 0; k < info->n_args; k++) known[n++] = info->arg_names[k];
    if (info->kraus) known[n++] = "operators";
    return qr_json_known(item, where, known, n, r->err);
}

/* ---- a channel ---- */

static enum qr_code find_channel(struct qr_gate_reader *r, const char *name, const char *path,
                                 unsigned n_qubits, const struct qr_channel_info **ret) {
    *ret = n_qubits == 2 ? qr_channel_info_of(name, 2) : NULL;
    if (!*ret) *ret = qr_channel_info_of(name, 1);
    if (*ret && (*ret)->measures)
        return qr_fail(
            r->err, QR_INVALID_ARGUMENT,
            "%s: a measurement is {\"measure\": [qubits], \"bits\": [bits]}; write it so", path);
    if (*ret) return QR_OK;
    if (qr_channel_info_of(name, 2))
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: %s acts on two qubits, but %u are given",
                       path, name, n_qubits);
    qr_auto(qr_buf_free) struct qr_buf all = {0};
    const struct qr_channel_info *last = NULL;
    for (size_t i = 0; qr_channel_info_at(i); last = qr_channel_info_at(i++))
        if (!qr_channel_info_at(i)->measures &&
            (!last || strcmp(last->names[0], qr_channel_info_at(i)->names[0]) != 0))
            qr_buf_printf(&all, "%s%s", last ? ", " : "", qr_channel_info_at(i)->names[0]);
    return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: unknown channel '%.40s'; one of %s", path,
                   name, qr_buf_string(&all));
}

static enum qr_code read_one(struct qr_gate_reader *r, const struct qr_json *item,
                             const char *where, struct qr_channel *c) {
    struct qr_err why;
    QR_TRY(check_keys(r, item, where, c->info));
    QR_TRY(c->info->kraus ? read_operators(r, item, where, c) : read_strengths(r, item, where, c));
    if (qr_channel_check(c, &why) == QR_OK) return QR_OK;
    return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: %s", where, why.msg);
}

enum qr_code qr_channel_read_alone(struct qr_gate_reader *r, const struct qr_json *item,
                                   const char *where, struct qr_channel *ret) {
    const char *name;
    int64_t n = 1;
    struct qr_path path = qr_path_of("%s.channel", where), qubits = qr_path_of("%s.qubits", where);
    const struct qr_json *given = qr_json_get(item, "qubits");
    QR_TRY(qr_json_want(item, where, QR_JSON_OBJECT, r->err));
    QR_TRY(qr_json_string(qr_json_get(item, "channel"), path.s, &name, r->err));
    if (given) QR_TRY(qr_json_i64(given, qubits.s, 1, 2, &n, r->err));
    else if (!qr_channel_info_of(name, 1) && qr_channel_info_of(name, 2)) n = 2;
    QR_TRY(find_channel(r, name, path.s, (unsigned)n, &ret->info));
    return read_one(r, item, where, ret);
}

enum qr_code qr_channel_read(struct qr_gate_reader *r, const struct qr_json *item,
                             const char *where) {
    uint16_t qubits[QR_MAX_QUBITS];
    unsigned n = 0;
    const char *name;
    struct qr_path path = qr_path_of("%s.channel", where);
    struct qr_channel c = {0};
    QR_TRY(qr_json_string(qr_json_get(item, "channel"), path.s, &name, r->err));
    QR_TRY(qr_gate_read_qubits(r, qr_json_get(item, "qubits"), where, "qubits", qubits, &n));
    if (!n) return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s.qubits is empty", where);
    QR_TRY(find_channel(r, name, path.s, n, &c.info));
    enum qr_code code = read_one(r, item, where, &c);
    for (unsigned i = 0; i < n && !code; i += c.info->n_targets) {
        struct qr_channel copy = qr_channel_copy(&c);
        code = qr_channel_append(r, &copy, qubits + i, where);
        qr_channel_fini(&copy);
    }
    qr_channel_fini(&c);
    return code;
}

/* ---- a measurement ---- */

enum qr_code qr_measurement_append(struct qr_gate_reader *r, const struct qr_channel *errors,
                                   uint16_t qubit, unsigned bit, const char *where) {
    struct qr_channel c = {.info = qr_channel_info_of("Measure", 1), .unset = 3};
    if (errors) c = *errors;
    QR_TRY(qr_channel_append(r, &c, &qubit, where));
    r->list.gates[r->list.n - 1].bit = (uint16_t)(bit < QR_MAX_QUBITS ? bit + 1 : 0);
    return QR_OK;
}

enum qr_code qr_measurement_read(struct qr_gate_reader *r, const struct qr_json *item,
                                 const char *where) {
    uint16_t qubits[QR_MAX_QUBITS], bits[QR_MAX_QUBITS];
    unsigned n = 0, n_bits = 0;
    struct qr_channel c = {.info = qr_channel_info_of("Measure", 1)};
    const struct qr_json *given = qr_json_get(item, "bits");
    QR_TRY(qr_gate_read_qubits(r, qr_json_get(item, "measure"), where, "measure", qubits, &n));
    if (given) QR_TRY(qr_gate_read_bits(r, given, where, "bits", bits, &n_bits));
    if (!n || (n_bits && n_bits != n))
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s measures %u qubits into %u bits; give a bit for each qubit", where, n,
                       n_bits);
    QR_TRY(read_one(r, item, where, &c));
    for (unsigned i = 0; i < n; i++)
        QR_TRY(qr_measurement_append(r, &c, qubits[i],
                                     n_bits  ? bits[i]
                                     : given ? (unsigned)QR_MAX_QUBITS
                                             : qubits[i],
                                     where));
    return QR_OK;
}
