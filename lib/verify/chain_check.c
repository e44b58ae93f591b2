/* verify/chain_check.c — checks the chain of steps.jsonl. Start reading at qr_chain_check(). */
#include "verify/chain_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define HEAD "{\"step\":"
#define EPOCH_KEY ",\"epoch\":"
#define DIGEST_KEY ",\"state_digest\":\""
enum { DIGEST_HEX = 32, NUMBER_DIGITS = 16 };

uint64_t qr_chain_position(const struct qr_chain_line *line) { return 2 * line->step + line->eval; }

/* ---- one line ---- */

/* Reads KEY followed by hex digits and a quote at the end of the first *n bytes; *n is then what
 * precedes them. */
static bool read_tail(struct qr_bytes text, size_t *n, const char *key, size_t digits,
                      uint8_t *ret) {
    size_t key_n = strlen(key), all = key_n + digits + 1;
    char hex[QR_CHAIN_HEX + 1];
    if (*n < all || text.p[*n - 1] != '"' || memcmp(text.p + *n - all, key, key_n) != 0)
        return false;
    memcpy(hex, text.p + *n - digits - 1, digits);
    hex[digits] = 0;
    *n -= all;
    return qr_unhex(hex, ret, digits / 2);
}

/* Reads a number from 1 behind KEY, which is at *at; *at is then behind both. */
static bool read_number_behind(struct qr_bytes text, size_t *at, const char *key, uint64_t *ret) {
    size_t key_n = strlen(key), first = *at + key_n;
    if (text.n < first || memcmp(text.p + *at, key, key_n) != 0) return false;
    for (*at = first, *ret = 0; *at < text.n && *at - first <= NUMBER_DIGITS; ++*at) {
        if (text.p[*at] < '0' || text.p[*at] > '9') break;
        *ret = 10 * *ret + (uint64_t)(text.p[*at] - '0');
    }
    return *ret > 0 && *at - first <= NUMBER_DIGITS;
}

static bool read_line(struct qr_bytes text, bool *ret_chained, struct qr_chain_line *ret) {
    static const char eval[] = "\"kind\":\"EVAL\"";
    struct qr_chain_line l = {.text = text};
    uint8_t digest[DIGEST_HEX / 2];
    size_t n = text.n, at = 0;
    if (!read_number_behind(text, &at, HEAD, &l.step) || text.p[n - 1] != '}') return false;
    if (!read_number_behind(text, &at, EPOCH_KEY, &l.epoch) || l.epoch > l.step) return false;
    l.eval = memmem(text.p, n, eval, sizeof eval - 1) != NULL;
    n--;
    *ret_chained = read_tail(text, &n, QR_CHAIN_KEY, QR_CHAIN_HEX, l.chain);
    if (*ret_chained && !read_tail(text, &n, DIGEST_KEY, DIGEST_HEX, digest)) return false;
    if (*ret_chained) qr_hex(digest, sizeof digest, l.digest);
    *ret = l;
    return true;
}

/* True if the line follows from this chain. */
static bool follows(const struct qr_chain_line *l, const uint8_t *before) {
    uint8_t chain[QR_CHAIN_BYTES];
    size_t tail = sizeof QR_CHAIN_KEY - 1 + QR_CHAIN_HEX + 2;
    qr_chain_next(before, qr_bytes_of(l->text.p, l->text.n - tail), chain);
    return memcmp(chain, l->chain, sizeof chain) == 0;
}

/* ---- the file ---- */

__attribute__((format(printf, 2, 3))) static void broken(struct qr_chain *c, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->why, sizeof c->why, fmt, ap);
    va_end(ap);
    c->state = QR_CHAIN_BROKEN;
}

static const char *kind_of(const struct qr_chain_line *l) {
    return l->eval ? "the evaluation of step" : "step";
}

static uint64_t position_before(const struct qr_chain *c, size_t i) {
    return i ? qr_chain_position(&c->line[i - 1]) : 1;
}

/* Steps ascend by one from 1, and the evaluation of a step follows the step. */
static bool is_in_place(const struct qr_chain *c, size_t i) {
    uint64_t is = qr_chain_position(&c->line[i]), was = position_before(c, i);
    return is > was && is <= was + (was % 2 ? 1 : 2);
}

/* Says what is wrong with the place of line i, if it is. */
static bool explain_order(struct qr_chain *c, size_t i) {
    const struct qr_chain_line *l = &c->line[i], *last = i ? l - 1 : NULL;
    unsigned long long step = (unsigned long long)l->step,
                       before = last ? (unsigned long long)last->step : 0;
    if (is_in_place(c, i)) return false;
    if (qr_chain_position(l) <= position_before(c, i))
        broken(c, "line %zu (%s %llu) is out of order: it follows %s %llu", i + 1, kind_of(l), step,
               kind_of(last), before);
    else
        broken(c, "lines are missing before line %zu: %s %llu follows %s %llu", i + 1, kind_of(l),
               step, last ? kind_of(last) : "step", before);
    return true;
}

/* Says whether an evaluation is missing before line i, or line i is one too many: after the first
 * evaluation, an evaluation follows each epoch. */
static bool explain_evaluation(struct qr_chain *c, size_t i) {
    const struct qr_chain_line *l = &c->line[i];
    uint64_t epoch = c->first_evaluation;
    if (!epoch || !i) return false;
    if (!l->eval && !l[-1].eval && (l->step - 1) % epoch == 0)
        broken(c, "the evaluation of step %llu is missing before line %zu",
               (unsigned long long)l->step - 1, i + 1);
    else if (l->eval && l->step % epoch != 0)
        broken(c, "line %zu (%s %llu) is out of order: it ends no epoch", i + 1, kind_of(l),
               (unsigned long long)l->step);
    return c->state == QR_CHAIN_BROKEN;
}

/* Line i does not follow from the line before. */
static void explain(struct qr_chain *c, size_t i, const uint8_t *before) {
    const struct qr_chain_line *l = &c->line[i], *next = i + 1 < c->n ? l + 1 : NULL;
    uint64_t is = qr_chain_position(l);
    unsigned long long step = (unsigned long long)l->step;
    bool next_follows = next && follows(next, l->chain);
    bool again = i + 2 < c->n && qr_chain_position(l + 2) == is; /* the line stands there as well */
    if (next && follows(next, before) && follows(l, next->chain) && !again)
        broken(c, "lines %zu and %zu were swapped: %s %llu precedes %s %llu", i + 1, i + 2,
               kind_of(l), step, kind_of(next), (unsigned long long)next->step);
    else if (next && follows(next, before))
        broken(c, "line %zu (%s %llu) was inserted: line %zu follows from line %zu", i + 1,
               kind_of(l), step, i + 2, i);
    else if (explain_order(c, i) || ((next_follows || !next) && explain_evaluation(c, i))) return;
    else if (i == 0)
        broken(c,
               "line 1 does not follow from job hash, data hash and arithmetic: that line or one "
               "of these was changed");
    else if (next_follows || !next)
        broken(c, "line %zu (%s %llu) was changed", i + 1, kind_of(l), step);
    else
        broken(c,
               "line %zu (%s %llu) and its chain were changed: neither it nor line %zu follows "
               "from the line before",
               i + 1, kind_of(l), step, i + 2);
}

static void check_lines(struct qr_chain *c, const uint8_t *first) {
    const uint8_t *before = first;
    size_t i = 0;
    for (; i < c->n; i++) {
        const struct qr_chain_line *l = &c->line[i];
        if (before && !follows(l, before)) explain(c, i, before);
        else if (!explain_order(c, i)) explain_evaluation(c, i);
        if (c->state == QR_CHAIN_BROKEN) break;
        if (l->eval && !c->first_evaluation) c->first_evaluation = l->step;
        before = l->chain;
    }
    c->n_in_place = i + (i < c->n && is_in_place(c, i));
}

void qr_chain_check(struct qr_bytes file, const uint8_t *first, struct qr_chain *ret) {
    struct qr_chain c = {0};
    size_t cap = 0, n_chained = 0, number = 0, malformed = 0;
    const uint8_t *at = file.p, *end = file.p + file.n, *stop = NULL;
    for (; at < end && (stop = memchr(at, '\n', (size_t)(end - at))); at = stop + 1) {
        struct qr_chain_line l;
        bool chained = false, good = read_line(qr_bytes_of(at, (size_t)(stop - at)), &chained, &l);
        number++;
        n_chained += chained;
        if (!good && !malformed) malformed = number;
        if (malformed) continue;
        if (c.n == cap) c.line = qr_xreallocarray(c.line, cap = cap ? 2 * cap : 64, sizeof *c.line);
        c.line[c.n++] = l;
    }
    for (size_t i = 0; n_chained && i < c.n; i++) /* a line without a chain has no digest */
        if (!*c.line[i].digest) malformed = i + 1, c.n = i;
    if (c.n && !n_chained) {
        c.state = QR_CHAIN_MISSING;
        snprintf(c.why, sizeof c.why,
                 "the lines have no chain: the run began with an earlier version of qring");
    } else {
        check_lines(&c, first);
        if (c.state == QR_CHAIN_INTACT && malformed)
            broken(&c, "line %zu was changed: it is not a line of qring with a chain", malformed);
        else if (c.state == QR_CHAIN_INTACT && at < end)
            broken(&c, "line %zu is cut off", number + 1);
        else if (c.state == QR_CHAIN_INTACT && !c.n) broken(&c, "there is no line");
    }
    *ret = c;
}

void qr_chain_fini(struct qr_chain *c) {
    free(c->line);
    *c = (struct qr_chain){0};
}

const struct qr_chain_line *qr_chain_find(const struct qr_chain *c, uint64_t step, bool eval) {
    for (size_t low = 0, high = c->n; low < high;) {
        size_t middle = low + (high - low) / 2;
        const struct qr_chain_line *l = &c->line[middle];
        if (qr_chain_position(l) == 2 * step + eval) return l;
        if (qr_chain_position(l) < 2 * step + eval) low = middle + 1;
        else high = middle;
    }
    return NULL;
}
