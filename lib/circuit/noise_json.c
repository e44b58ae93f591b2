/* circuit/noise_json.c — "noise" of a circuit: channels after gates of a kind, and read-out errors.
 * Start reading at qr_noise_read(). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "circuit/circuit_impl.h"
#include "circuit/circuit_json.h"
#include "circuit/gate_items.h"
#include "circuit/gate_json.h"

enum { MAX_RULES = 256, GATE_NAMES = 5, GATE_NAME = 48 };
#define NO_CHANNEL UINT32_MAX

/* A channel after gates of this name: entry `channel` of the reader's; NO_CHANNEL: an empty list.
 * */
struct noise_rule {
    const char *after;
    uint32_t channel;
};

struct noise_reader {
    struct qr_gate_reader gates; /* its channels and names; no gates */
    const struct qr_circuit *c;
    struct noise_rule rules[MAX_RULES];
    size_t n_rules;
};

/* ---- names of gates ---- */

/* The names that a rule may give to a gate, the most special first; returns their number. A
 * rotation is RX, then X; controls are letters C before it. */
static unsigned gate_names(const struct qr_gate *g, char ret[GATE_NAMES][GATE_NAME]) {
    const struct qr_gate_info *info = qr_gate_info(g->kind);
    unsigned n_controls = qr_qubits_count(&g->controls), n = 0;
    const char *controls = &"CCCCCCC"[n_controls < 7 ? 7 - n_controls : 0];
    if (info->rotation && g->global_shift == -0.5)
        snprintf(ret[n++], GATE_NAME, "%s%s", controls, info->rotation);
    snprintf(ret[n++], GATE_NAME, "%s%s", controls, info->name);
    if (info->controlled) snprintf(ret[n++], GATE_NAME, "C%s%s", controls, info->controlled);
    snprintf(ret[n++], GATE_NAME, "*%u", n_controls + g->n_targets);
    snprintf(ret[n++], GATE_NAME, "*");
    return n;
}

static bool name_is_valid(const char *name) {
    if (*name == '*') return !name[1] || (strchr("123456789", name[1]) && !name[2]);
    for (const char *s = name;; s++) {
        if (qr_gate_kind_of(s) >= 0) return true;
        if (*s != 'C' && *s != 'c') return false;
    }
}

/* ---- rules ---- */

/* v NULL: an empty list */
static enum qr_code read_rule(struct noise_reader *r, const char *after, const struct qr_json *v,
                              const char *where) {
    struct qr_channel channel = {0};
    struct qr_gate_reader *g = &r->gates;
    if (r->n_rules == MAX_RULES)
        return qr_fail(g->err, QR_INVALID_ARGUMENT, "%s: more than %d channels", where, MAX_RULES);
    if (!v) {
        r->rules[r->n_rules++] = (struct noise_rule){after, NO_CHANNEL};
        return QR_OK;
    }
    enum qr_code code = qr_channel_read_alone(g, v, where, &channel);
    if (code) {
        qr_channel_fini(&channel);
        return code;
    }
    r->rules[r->n_rules++] = (struct noise_rule){after, (uint32_t)g->n_channels};
    qr_channel_keep(g, &channel);
    return QR_OK;
}

static enum qr_code read_after(struct noise_reader *r, const struct qr_json *after,
                               const char *where) {
    struct qr_err *err = r->gates.err;
    QR_TRY(qr_json_want(after, where, QR_JSON_OBJECT, err));
    for (const struct qr_json *v = qr_json_first(after); v; v = qr_json_next(v)) {
        const char *name = qr_json_key(v);
        struct qr_path path = qr_path_of("%s.%.40s", where, name);
        size_t i = 0;
        if (!name_is_valid(name))
            return qr_fail(
                err, QR_INVALID_ARGUMENT,
                "%s: '%.40s' is not a native gate; give the name of a gate that qring show "
                "draws (CNOT, CZ, RX), * for all, *1 for those on one qubit",
                where, name);
        if (qr_json_type(v) != QR_JSON_ARRAY) {
            QR_TRY(read_rule(r, name, v, path.s));
            continue;
        }
        if (!qr_json_first(v)) QR_TRY(read_rule(r, name, NULL, path.s));
        for (const struct qr_json *m = qr_json_first(v); m; m = qr_json_next(m), i++)
            QR_TRY(read_rule(r, name, m, qr_path_of("%s[%zu]", path.s, i).s));
    }
    return QR_OK;
}

/* ---- read-out errors ---- */

static enum qr_code read_probability(const struct qr_json *object, const char *key,
                                     const char *where, double *ret, struct qr_err *err) {
    const struct qr_json *v = qr_json_get(object, key);
    return v ? qr_json_double(v, qr_path_of("%s.%s", where, key).s, 0, 1, ret, err) : QR_OK;
}

static enum qr_code read_readout(struct noise_reader *r, const struct qr_json *v, const char *where,
                                 bool listed, struct qr_circuit *to) {
    static const char *const known[] = {"p", "p_01", "p_10", "qubits"};
    struct qr_err *err = r->gates.err;
    double p[2] = {0, 0};
    uint16_t qubits[QR_MAX_QUBITS];
    unsigned n = 0;
    QR_TRY(qr_json_want(v, where, QR_JSON_OBJECT, err));
    QR_TRY(qr_json_known(v, where, known, listed ? 4 : 3, err));
    if (qr_json_get(v, "p") && (qr_json_get(v, "p_01") || qr_json_get(v, "p_10")))
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: give p, or p_01 and p_10", where);
    QR_TRY(read_probability(v, "p", where, &p[0], err));
    p[1] = p[0];
    QR_TRY(read_probability(v, "p_01", where, &p[0], err));
    QR_TRY(read_probability(v, "p_10", where, &p[1], err));
    if (listed)
        QR_TRY(
            qr_gate_read_qubits(&r->gates, qr_json_get(v, "qubits"), where, "qubits", qubits, &n));
    for (; !listed && n < to->n_qubits; n++) qubits[n] = (uint16_t)n;
    if (!to->readout_errors)
        to->readout_errors = qr_xcalloc(to->n_qubits, sizeof *to->readout_errors);
    for (unsigned i = 0; i < n; i++) memcpy(to->readout_errors[qubits[i]], p, sizeof p);
    return QR_OK;
}

static enum qr_code read_readouts(struct noise_reader *r, const struct qr_json *v,
                                  const char *where, struct qr_circuit *to) {
    size_t i = 0;
    if (!v) return QR_OK;
    if (qr_json_type(v) != QR_JSON_ARRAY) return read_readout(r, v, where, false, to);
    for (const struct qr_json *m = qr_json_first(v); m; m = qr_json_next(m), i++)
        QR_TRY(read_readout(r, m, qr_path_of("%s[%zu]", where, i).s, true, to));
    return QR_OK;
}

/* ---- the circuit with channels ---- */

static int compare_parameters(const void *a, const void *b) {
    return qr_natural_compare(*(const char *const *)a, *(const char *const *)b);
}

/* Adds the names of both, in natural order. */
static void add_parameters(const struct noise_reader *r, struct qr_circuit *to) {
    size_t n = 0;
    const char **names = qr_xcalloc(r->c->n_params + r->gates.n_mentions + 1, sizeof *names);
    for (unsigned i = 0; i < r->c->n_params; i++) names[n++] = r->c->param_names[i];
    for (size_t i = 0; i < r->gates.n_mentions; i++) names[n++] = r->gates.mentions[i].name;
    qsort(names, n, sizeof *names, compare_parameters);
    for (size_t i = 0; i < n; i++)
        if (!i || strcmp(names[i], names[i - 1]) != 0) qr_circuit_append_param(to, names[i]);
    free(names);
}

/* New indices of the parameters and expressions of a circuit, or of the reader's. */
struct moved {
    uint32_t *parameters, *expressions;
};

static struct moved move_names(struct qr_circuit *to, char *const *names,
                               const struct qr_parameter_ref *mentions, size_t n_params,
                               const struct qr_expression *expressions, size_t n_expressions) {
    struct moved m = {qr_xcalloc(n_params + 1, sizeof *m.parameters),
                      qr_xcalloc(n_expressions + 1, sizeof *m.expressions)};
    for (size_t i = 0; i < n_params; i++) {
        const char *name = names ? names[i] : mentions[i].name;
        m.parameters[names ? i : mentions[i].number] = qr_circuit_param(to, name);
    }
    for (size_t i = 0; i < n_expressions; i++) {
        struct qr_expression e = qr_expression_copy(&expressions[i]);
        for (unsigned k = 0; k < e.n; k++) {
            if (e.node[k].op == QR_EXPRESSION_PARAMETER)
                e.node[k].index = m.parameters[e.node[k].index];
            if (e.node[k].op == QR_EXPRESSION_SHARED)
                e.node[k].index = m.expressions[e.node[k].index];
        }
        m.expressions[i] = qr_circuit_expression(to, &e);
        qr_expression_fini(&e);
    }
    return m;
}

static void moved_fini(struct moved *m) {
    free(m->parameters);
    free(m->expressions);
}

static void move_arguments(const struct moved *m, struct qr_gate_arg *args, unsigned n) {
    for (struct qr_gate_arg *a = args; a < args + n; a++) {
        if (a->kind == QR_ARG_PARAMETER) a->index = m->parameters[a->index];
        if (a->kind == QR_ARG_EXPRESSION) a->index = m->expressions[a->index];
    }
}

static uint32_t move_channel(struct qr_circuit *to, const struct moved *m,
                             const struct qr_channel *c) {
    struct qr_channel channel = *c; /* Its operators are borrowed. */
    move_arguments(m, channel.args, channel.info->n_args);
    return qr_circuit_channel(to, &channel);
}

static enum qr_code add_channel(struct qr_circuit *to, uint32_t channel, const uint16_t *qubits,
                                uint32_t condition, struct qr_err *err) {
    QR_TRY(qr_circuit_add_channel(to, channel, qubits, err));
    to->gates[to->n_gates - 1].condition = condition;
    return QR_OK;
}

/* Gives a measurement the errors of its qubit in place of those that were not given. */
static enum qr_code add_reading_errors(struct qr_circuit *to, struct qr_gate *g,
                                       struct qr_err *err) {
    if (g->kind != QR_GATE_CHANNEL || !to->readout_errors) return QR_OK;
    struct qr_channel c = to->channels[g->channel];
    if (!c.unset) return QR_OK;
    for (unsigned k = 0; k < 2; k++)
        if (c.unset >> k & 1) c.args[k].scale = to->readout_errors[g->targets[0]][k];
    bool mixed = c.unset != 3; /* both of a read-out may have a larger sum */
    c.unset = 0;
    g->channel = qr_circuit_channel(to, &c);
    if (!mixed || qr_channel_check(&c, err) == QR_OK) return QR_OK;
    return qr_wrap(err, "measurement of qubit %u, with the noise's readout", g->targets[0]);
}

/* Adds the channels of the rules with the most special name of the gate. */
static enum qr_code add_channels(const struct noise_reader *r, const uint32_t *channels,
                                 const struct qr_gate *g, const char *where,
                                 struct qr_circuit *to) {
    char names[GATE_NAMES][GATE_NAME];
    struct qr_err *err = r->gates.err;
    uint16_t qubits[QR_MAX_QUBITS];
    unsigned n_names = gate_names(g, names), n = 0;
    const char *name = NULL;
    for (unsigned k = 0; k < n_names && !name; k++)
        for (size_t i = 0; i < r->n_rules && !name; i++)
            if (strcasecmp(r->rules[i].after, names[k]) == 0) name = r->rules[i].after;
    for (unsigned q = qr_qubits_first(&g->controls); q < QR_MAX_QUBITS;
         q = qr_qubits_next(&g->controls, q))
        qubits[n++] = (uint16_t)q;
    for (unsigned k = 0; k < g->n_targets; k++) qubits[n++] = g->targets[k];
    for (size_t i = 0; i < r->n_rules && name; i++) {
        if (strcasecmp(r->rules[i].after, name) != 0 || channels[i] == NO_CHANNEL) continue;
        unsigned per = to->channels[channels[i]].info->n_targets;
        if (per == 2 && n != 2)
            return qr_fail(
                err, QR_INVALID_ARGUMENT,
                "%s.%.40s: a channel on two qubits, but %s is on %u; give it after gates "
                "on two (*2)",
                where, name, names[0], n);
        for (unsigned k = 0; k < n; k += per)
            QR_TRY(add_channel(to, channels[i], qubits + k, g->condition, err));
    }
    return QR_OK;
}

static enum qr_code copy_gates(const struct noise_reader *r, const char *where,
                               struct qr_circuit *to) {
    const struct qr_circuit *c = r->c;
    struct moved own = move_names(to, c->param_names, NULL, c->n_params, c->expressions,
                                  c->n_expressions),
                 more = move_names(to, NULL, r->gates.mentions, r->gates.n_mentions,
                                   r->gates.expressions, r->gates.n_expressions);
    qr_auto(qr_free_p) uint32_t *channels = qr_xcalloc(r->n_rules + 1, sizeof *channels);
    enum qr_code code = QR_OK;
    for (size_t i = 0; i < r->n_rules; i++)
        channels[i] = r->rules[i].channel == NO_CHANNEL
                          ? NO_CHANNEL
                          : move_channel(to, &more, &r->gates.channels[r->rules[i].channel]);
    for (size_t i = 0; i < c->n_gates && !code; i++) {
        struct qr_gate g = c->gates[i];
        move_arguments(&own, g.args, g.n_args);
        if (g.kind == QR_GATE_CHANNEL) g.channel = move_channel(to, &own, &c->channels[g.channel]);
        code = add_reading_errors(to, &g, r->gates.err);
        if (!code) code = qr_circuit_add(to, &g, r->gates.err);
        if (!code && g.kind != QR_GATE_CHANNEL && !qr_gate_info(g.kind)->identity)
            code = add_channels(r, channels, &g, where, to);
        if (!code && to->n_gates > QR_MAX_GATES)
            code = qr_fail(r->gates.err, QR_INVALID_ARGUMENT, "%s: more than %d gates and channels",
                           where, QR_MAX_GATES);
    }
    moved_fini(&own);
    moved_fini(&more);
    return code;
}

static enum qr_code make_circuit(struct noise_reader *r, const struct qr_json *noise,
                                 const char *where, struct qr_circuit *to) {
    const struct qr_circuit *c = r->c;
    struct qr_path after = qr_path_of("%s.after", where), readout = qr_path_of("%s.readout", where);
    const struct qr_json *rules = qr_json_get(noise, "after");
    if (rules) QR_TRY(read_after(r, rules, after.s));
    add_parameters(r, to);
    if (c->n_named) to->column_names = qr_xcalloc(c->n_named, sizeof *to->column_names);
    for (unsigned i = 0; i < c->n_named; i++)
        if (c->column_names[i]) to->column_names[i] = qr_xstrdup(c->column_names[i]);
    to->n_named = c->n_named;
    qr_circuit_copy_classical(to, c);
    QR_TRY(read_readouts(r, qr_json_get(noise, "readout"), readout.s, to));
    return copy_gates(r, after.s, to);
}

enum qr_code qr_noise_read(const struct qr_json *noise, const char *where, struct qr_circuit **c,
                           struct qr_err *err) {
    static const char *const known[] = {"after", "readout"};
    if (!noise) return QR_OK;
    QR_TRY(qr_json_want(noise, where, QR_JSON_OBJECT, err));
    QR_TRY(qr_json_known(noise, where, known, 2, err));
    struct noise_reader *r = qr_xcalloc(1, sizeof *r);
    r->c = *c;
    r->gates = (struct qr_gate_reader){.n_qubits = (*c)->n_qubits,
                                       .n_columns = (*c)->n_columns,
                                       .columns_given = true,
                                       .err = err};
    struct qr_circuit *to = qr_circuit_new((*c)->n_qubits, (*c)->n_columns);
    enum qr_code code = make_circuit(r, noise, where, to);
    qr_gate_reader_fini(&r->gates);
    free(r);
    if (code) {
        qr_circuit_free(to);
        return code;
    }
    qr_circuit_free(*c);
    *c = to;
    return QR_OK;
}
