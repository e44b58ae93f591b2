/* train/state_transfer.c — encodes and decodes a transferred state. Start reading at
 * qr_transfer_encode(). */
#include "train/state_transfer.h"

#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"

enum {
    COUNTERS = 3,
    CHAIN_WORDS = QR_CHAIN_BYTES / 8,
    LINE_WORDS = 5 + QR_LINE_VALUES + QR_READOUT_BUCKETS + QR_XXH3_BYTES / 8 + CHAIN_WORDS
};

void qr_lines_add(struct qr_lines *l, const struct qr_step_values *t) {
    if (l->n == QR_LINES_KEPT) memmove(l->line, l->line + 1, --l->n * sizeof *l->line);
    l->line[l->n++] = *t;
}

size_t qr_transfer_length(const struct qr_state *s) {
    size_t words = COUNTERS + CHAIN_WORDS + s->n_all + QR_STOP_COUNTERS + s->n_params + 2 +
                   (size_t)QR_LINES_KEPT * LINE_WORDS;
    return 8 * words + QR_XXH3_BYTES;
}

static uint8_t *transfer_put_u64(uint8_t *at, uint64_t v) {
    qr_set_u64le(at, v);
    return at + 8;
}
static uint8_t *transfer_put_doubles(uint8_t *at, const double *v, size_t n) {
    for (size_t i = 0; i < n; i++) at = transfer_put_u64(at, qr_bits_of_double(v[i]));
    return at;
}
static uint8_t *transfer_put_bytes(uint8_t *at, const uint8_t *p, size_t n) {
    memcpy(at, p, n);
    return at + n;
}
static const uint8_t *transfer_get_bytes(const uint8_t *at, uint8_t *ret, size_t n) {
    memcpy(ret, at, n);
    return at + n;
}
static const uint8_t *transfer_get_u64(const uint8_t *at, uint64_t *ret) {
    *ret = qr_get_u64le(at);
    return at + 8;
}
static const uint8_t *transfer_get_doubles(const uint8_t *at, double *ret, size_t n) {
    for (size_t i = 0; i < n; i++) ret[i] = qr_double_of_bits(qr_get_u64le(at + 8 * i));
    return at + 8 * n;
}

void qr_transfer_encode(const struct qr_state *s, const double *gradient, const struct qr_lines *l,
                        struct qr_buf *ret) {
    size_t n = qr_transfer_length(s);
    uint8_t *begin = qr_buf_grow(ret, n);
    QR_ASSERT(begin != NULL);
    uint8_t *at = transfer_put_u64(begin, s->step);
    at = transfer_put_u64(at, s->epoch);
    at = transfer_put_u64(at, s->reductions);
    at = transfer_put_bytes(at, s->chain, sizeof s->chain);
    at = transfer_put_doubles(at, s->all, s->n_all);
    at = transfer_put_doubles(at, s->stop, QR_STOP_COUNTERS);
    at = transfer_put_doubles(at, gradient, s->n_params);
    at = transfer_put_u64(at, l->n);
    at = transfer_put_u64(at, l->waits);
    for (size_t i = 0; i < QR_LINES_KEPT; i++) {
        static const struct qr_step_values none;
        const struct qr_step_values *t = i < l->n ? &l->line[i] : &none;
        at = transfer_put_u64(at, t->step);
        at = transfer_put_u64(at, t->epoch);
        at = transfer_put_u64(at, t->samples);
        at = transfer_put_u64(at, t->eval);
        at = transfer_put_u64(at, t->ends_epoch);
        at = transfer_put_doubles(at, t->value, QR_LINE_VALUES);
        for (size_t k = 0; k < QR_READOUT_BUCKETS; k++) at = transfer_put_u64(at, t->readouts[k]);
        at = transfer_put_bytes(at, t->digest, sizeof t->digest);
        at = transfer_put_bytes(at, t->chain, sizeof t->chain);
    }
    QR_ASSERT((size_t)(at - begin) == n - QR_XXH3_BYTES);
    qr_xxh3(begin, n - QR_XXH3_BYTES, at);
}

static const uint8_t *transfer_get_lines(const uint8_t *at, struct qr_lines *ret) {
    uint64_t n, flag;
    *ret = (struct qr_lines){0};
    at = transfer_get_u64(at, &n);
    at = transfer_get_u64(at, &flag);
    ret->n = n < QR_LINES_KEPT ? (size_t)n : QR_LINES_KEPT;
    ret->waits = flag != 0;
    for (size_t i = 0; i < QR_LINES_KEPT; i++) {
        struct qr_step_values *t = &ret->line[i];
        at = transfer_get_u64(at, &t->step);
        at = transfer_get_u64(at, &t->epoch);
        at = transfer_get_u64(at, &t->samples);
        at = transfer_get_u64(at, &flag);
        t->eval = flag != 0;
        at = transfer_get_u64(at, &flag);
        t->ends_epoch = flag != 0;
        at = transfer_get_doubles(at, t->value, QR_LINE_VALUES);
        for (size_t k = 0; k < QR_READOUT_BUCKETS; k++) at = transfer_get_u64(at, &t->readouts[k]);
        at = transfer_get_bytes(at, t->digest, sizeof t->digest);
        at = transfer_get_bytes(at, t->chain, sizeof t->chain);
    }
    return at;
}

enum qr_code qr_transfer_decode(struct qr_bytes bytes, uint64_t reductions,
                                const uint8_t digest[16], struct qr_state *ret_state,
                                double *ret_gradient, struct qr_lines *ret_lines,
                                struct qr_err *err) {
    size_t n = qr_transfer_length(ret_state);
    uint8_t sum[QR_XXH3_BYTES], found[16];
    if (bytes.n != n)
        return qr_fail(
            err, QR_UNAVAILABLE,
            "received a state of %zu bytes, expected %zu: the workers run different programs",
            bytes.n, n);
    qr_xxh3(bytes.p, n - QR_XXH3_BYTES, sum);
    if (memcmp(sum, bytes.p + n - QR_XXH3_BYTES, sizeof sum) != 0)
        return qr_fail(err, QR_UNAVAILABLE,
                       "the received state is corrupt: its checksum does not match");
    struct qr_state s = *ret_state;
    s.all = qr_xaligned(s.n_all * sizeof *s.all);
    qr_state_point(&s);
    const uint8_t *at = transfer_get_u64(bytes.p, &s.step);
    at = transfer_get_u64(at, &s.epoch);
    at = transfer_get_u64(at, &s.reductions);
    at = transfer_get_bytes(at, s.chain, sizeof s.chain);
    at = transfer_get_doubles(at, s.all, s.n_all);
    at = transfer_get_doubles(at, s.stop, QR_STOP_COUNTERS);
    qr_state_digest(&s, found);
    enum qr_code code = QR_OK;
    if (s.reductions != reductions || memcmp(found, digest, sizeof found) != 0)
        code = qr_fail(err, QR_UNAVAILABLE,
                       "the received state is not the one that the group resumes from");
    if (code == QR_OK) {
        qr_state_copy(ret_state, &s);
        at = transfer_get_doubles(at, ret_gradient, s.n_params);
        transfer_get_lines(at, ret_lines);
    }
    free(s.all);
    return code;
}
