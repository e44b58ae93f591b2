/* circuit/ansatz/ansatz.c — functions that the ansätze share: gates, keys, pairs of qubits. Start
 * reading at qr_ansatz_emit(). */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "circuit/ansatz/ansatz_impl.h"

/* ---- gates ---- */

void qr_ansatz_emit(struct qr_ansatz_builder *b, const struct qr_ansatz_gate *g) {
    if (!b->code) b->code = b->use->host->add(b->use->at, g);
    b->n_emitted++;
}

void qr_ansatz_emit_phase(struct qr_ansatz_builder *b, const struct qr_ansatz_angle *angle) {
    if (!b->code) b->code = b->use->host->add_phase(b->use->at, angle);
}

void qr_ansatz_emit_one(struct qr_ansatz_builder *b, const char *gate, unsigned place,
                        const struct qr_ansatz_angle *angle) {
    uint16_t at = (uint16_t)place;
    qr_ansatz_emit(b, &(struct qr_ansatz_gate){gate, &at, 1, angle ? 1 : 0, angle, NULL});
}

void qr_ansatz_emit_two(struct qr_ansatz_builder *b, const char *gate, unsigned p, unsigned q) {
    uint16_t at[2] = {(uint16_t)p, (uint16_t)q};
    qr_ansatz_emit(b, &(struct qr_ansatz_gate){gate, at, 2, 0, NULL, NULL});
}

struct qr_ansatz_angle qr_ansatz_weight(double factor, const char *fmt, ...) {
    struct qr_ansatz_angle a = {QR_ANSATZ_WEIGHT, factor, 0, ""};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(a.name, sizeof a.name, fmt, ap);
    va_end(ap);
    return a;
}

void qr_ansatz_terms_fini(struct qr_ansatz_terms *t) {
    free(t->terms);
    free(t->positions);
    *t = (struct qr_ansatz_terms){0};
}

/* ---- keys ---- */

struct qr_ansatz_path qr_ansatz_path(const struct qr_ansatz_builder *b, const char *key) {
    struct qr_ansatz_path p;
    snprintf(p.s, sizeof p.s, "%s%s%s", b->use->where, key ? "." : "", key ? key : "");
    return p;
}

void qr_ansatz_fail(struct qr_ansatz_builder *b, const char *key, const char *fmt, ...) {
    char why[256];
    va_list ap;
    if (b->code) return;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    b->code = qr_fail(b->use->err, QR_INVALID_ARGUMENT, "%s: %s", qr_ansatz_path(b, key).s, why);
}

unsigned qr_ansatz_integer(struct qr_ansatz_builder *b, const char *key, unsigned low,
                           unsigned high, unsigned absent) {
    const struct qr_json *v = qr_json_get(b->use->options, key);
    int64_t value = absent;
    if (v && !b->code)
        b->code = qr_json_i64(v, qr_ansatz_path(b, key).s, low, high, &value, b->use->err);
    return (unsigned)value;
}

double qr_ansatz_number(struct qr_ansatz_builder *b, const char *key, double absent) {
    const struct qr_json *v = qr_json_get(b->use->options, key);
    double value = absent;
    if (v && !b->code)
        b->code =
            qr_json_double(v, qr_ansatz_path(b, key).s, -INFINITY, INFINITY, &value, b->use->err);
    return value;
}

bool qr_ansatz_flag(struct qr_ansatz_builder *b, const char *key, bool absent) {
    const struct qr_json *v = qr_json_get(b->use->options, key);
    bool value = absent;
    if (v && !b->code) b->code = qr_json_bool(v, qr_ansatz_path(b, key).s, &value, b->use->err);
    return value;
}

unsigned qr_ansatz_choice(struct qr_ansatz_builder *b, const char *key, const char *const *names,
                          unsigned n, unsigned absent) {
    const struct qr_json *v = qr_json_get(b->use->options, key);
    size_t which = absent;
    if (v && !b->code)
        b->code = qr_json_choice(v, qr_ansatz_path(b, key).s, names, n, &which, b->use->err);
    return (unsigned)which;
}

unsigned qr_ansatz_layers(struct qr_ansatz_builder *b, unsigned absent) {
    return qr_ansatz_integer(b, "layers", 1, 1 << 20, absent);
}

/* ---- pairs, in the order in which Qiskit entangles them ---- */

enum qr_ansatz_pattern qr_ansatz_entanglement(struct qr_ansatz_builder *b,
                                              enum qr_ansatz_pattern absent) {
    static const char *const names[QR_ANSATZ_PATTERNS] = {"full",     "linear", "reverse_linear",
                                                          "circular", "sca",    "pairwise"};
    return (enum qr_ansatz_pattern)qr_ansatz_choice(b, "entanglement", names, QR_ANSATZ_PATTERNS,
                                                    absent);
}

/* The last qubit with the first, then neighbors; for two qubits their pair. */
static struct qr_ansatz_pair ring_pair(unsigned n, unsigned k) {
    if (n == 2) return (struct qr_ansatz_pair){0, 1};
    if (k == 0) return (struct qr_ansatz_pair){(uint16_t)(n - 1), 0};
    return (struct qr_ansatz_pair){(uint16_t)(k - 1), (uint16_t)k};
}

struct qr_ansatz_pair *qr_ansatz_pairs(enum qr_ansatz_pattern pattern, unsigned n, unsigned layer,
                                       size_t *ret_n) {
    bool ring = n > 2 && (pattern == QR_ANSATZ_CIRCULAR || pattern == QR_ANSATZ_SCA);
    size_t count = pattern == QR_ANSATZ_FULL ? (size_t)n * (n - 1) / 2 : ring ? n : n - 1, i = 0;
    struct qr_ansatz_pair *pairs = qr_xcalloc(count + 1, sizeof *pairs);
    *ret_n = count;
    for (unsigned p = 0; pattern == QR_ANSATZ_FULL && p < n; p++)
        for (unsigned q = p + 1; q < n; q++)
            pairs[i++] = (struct qr_ansatz_pair){(uint16_t)p, (uint16_t)q};
    for (unsigned k = 0; i < count; k++, i++) {
        unsigned p = k; /* the lower of two neighbors */
        if (pattern == QR_ANSATZ_REVERSE_LINEAR) p = n - 2 - k;
        if (pattern == QR_ANSATZ_PAIRWISE) p = k < n / 2 ? 2 * k : 2 * (k - n / 2) + 1;
        pairs[i] = (struct qr_ansatz_pair){(uint16_t)p, (uint16_t)(p + 1)};
        if (pattern == QR_ANSATZ_CIRCULAR) pairs[i] = ring_pair(n, k);
        if (pattern == QR_ANSATZ_SCA) { /* shifted by one per layer, and reversed in every other */
            struct qr_ansatz_pair at =
                ring_pair(n, (unsigned)((k + count - layer % count) % count));
            pairs[i] = layer % 2 ? (struct qr_ansatz_pair){at.q, at.p} : at;
        }
    }
    return pairs;
}
