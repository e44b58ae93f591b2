/* monitor/status_parse.c — bytes of a worker's port → numbers. Strict in form, and deaf to what it
 * does not know. */
#include "monitor/status.h"

#include <stdio.h>
#include <string.h>

#include "base/parse.h"

/* ---- HTTP ---- */

enum qr_code qr_status_reply(struct qr_bytes reply, unsigned *ret_status, struct qr_bytes *ret_body,
                             struct qr_err *err) {
    const uint8_t *p = reply.p;
    bool line =
        reply.n > 12 && memcmp(p, "HTTP/1.", 7) == 0 && (p[7] == '0' || p[7] == '1') && p[8] == ' ';
    unsigned status = 0;
    for (size_t i = 9; line && i < 12; i++) {
        line = p[i] >= '0' && p[i] <= '9';
        status = status * 10 + (unsigned)(p[i] - '0');
    }
    if (!line || status < 100) return qr_fail(err, QR_INVALID_ARGUMENT, "it does not speak HTTP");
    for (size_t i = 12; i + 4 <= reply.n; i++)
        if (memcmp(p + i, "\r\n\r\n", 4) == 0) {
            *ret_status = status;
            *ret_body = qr_bytes_of(p + i + 4, reply.n - i - 4);
            return QR_OK;
        }
    return qr_fail(err, QR_INVALID_ARGUMENT, "its HTTP answer has no end of headers");
}

/* ---- a line: name{labels} value [time] ---- */

struct sample {
    struct qr_bytes name, labels;
    double value;
};

static bool is_name(uint8_t c, bool first) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':' ||
           (!first && c >= '0' && c <= '9');
}

static size_t name_at(struct qr_bytes l, size_t at) {
    size_t n = 0;
    while (at + n < l.n && is_name(l.p[at + n], n == 0)) n++;
    return n;
}

/* After the closing quote of the value that begins at `at`; 0 when it does not end. */
static size_t value_end(struct qr_bytes l, size_t at) {
    for (; at < l.n && l.p[at] != '"'; at++)
        if (l.p[at] == '\\' && ++at >= l.n) return 0;
    return at < l.n ? at + 1 : 0;
}

/* After the closing brace of the labels that begin at `at`; 0 when they are none. */
static size_t labels_end(struct qr_bytes l, size_t at) {
    while (at < l.n && l.p[at] != '}') {
        size_t n = name_at(l, at);
        if (n == 0 || at + n + 2 > l.n || l.p[at + n] != '=' || l.p[at + n + 1] != '"') return 0;
        at = value_end(l, at + n + 2);
        if (at == 0) return 0;
        if (at < l.n && l.p[at] == ',') at++;
        else if (at >= l.n || l.p[at] != '}') return 0;
    }
    return at < l.n ? at + 1 : 0;
}

static bool is(struct qr_bytes b, const char *text) {
    return b.n == strlen(text) && (b.n == 0 || memcmp(b.p, text, b.n) == 0);
}

static bool number(struct qr_bytes b, double *ret) {
    if (is(b, "NaN")) *ret = __builtin_nan("");
    else if (is(b, "+Inf") || is(b, "Inf")) *ret = __builtin_inf();
    else if (is(b, "-Inf")) *ret = -__builtin_inf();
    else return b.n > 0 && b.n < 64 && qr_parse_double_n((const char *)b.p, b.n, ret);
    return true;
}

static bool sample(struct qr_bytes l, struct sample *ret) {
    size_t at = name_at(l, 0), end, n = 0;
    double time;
    if (at == 0) return false;
    *ret = (struct sample){.name = {l.p, at}};
    if (at < l.n && l.p[at] == '{') {
        end = labels_end(l, at + 1);
        if (end == 0) return false;
        ret->labels = qr_bytes_of(l.p + at + 1, end - at - 2);
        at = end;
    }
    if (at >= l.n || l.p[at++] != ' ') return false;
    while (at + n < l.n && l.p[at + n] != ' ') n++;
    if (!number(qr_bytes_of(l.p + at, n), &ret->value)) return false;
    at += n;
    return at == l.n || number(qr_bytes_of(l.p + at + 1, l.n - at - 1), &time);
}

/* ---- what we know ---- */

/* A label's value, unescaped, cut to fit; "" when it is not there. Control characters become '?':
 * it is shown on a terminal. */
static void label(struct qr_bytes l, const char *name, char *ret, size_t cap) {
    size_t at = 0, n;
    *ret = 0;
    for (; at < l.n && (n = name_at(l, at)) > 0; at++) {
        size_t end = value_end(l, at + n + 2), to = 0;
        if (end == 0) return;
        bool mine = is(qr_bytes_of(l.p + at, n), name);
        for (size_t i = at + n + 2; mine && i + 1 < end && to + 1 < cap; i++) {
            if (l.p[i] == '\\') i++;
            ret[to++] = l.p[i] >= 0x20 && l.p[i] < 0x7f ? (char)l.p[i] : '?';
        }
        if (mine) {
            ret[to] = 0;
            return;
        }
        at = end;
    }
}

static bool index_of(struct qr_bytes labels, uint32_t *ret) {
    char text[24];
    uint64_t index;
    label(labels, "index", text, sizeof text);
    if (!qr_parse_u64(text, &index) || index >= QR_MAX_MEMBERS) return false;
    *ret = (uint32_t)index;
    return true;
}

/* True when it says that this is a qring worker. */
static bool take(const struct sample *s, struct qr_status *st) {
    uint32_t index;
    if (is(s->name, "qring_build_info")) {
        label(s->labels, "version", st->version, sizeof st->version);
        label(s->labels, "contract", st->contract, sizeof st->contract);
        label(s->labels, "isa", st->isa, sizeof st->isa);
        return true;
    }
    if (is(s->name, "qring_uptime_seconds")) st->uptime_s = s->value;
    else if (is(s->name, "process_start_time_seconds")) st->start_s = s->value;
    else if (is(s->name, "qring_member") && index_of(s->labels, &index))
        st->peer[index] = s->value == 1 ? QR_PEER_MEMBER : QR_PEER_ABSENT;
    else if (is(s->name, "qring_peer_no_data") && index_of(s->labels, &index))
        st->no_data[index] = s->value == 1;
    else if (is(s->name, "qring_parameter_server") && index_of(s->labels, &index))
        st->serves[index] = s->value == 1;
    else if (is(s->name, "qring_member_blocks_per_second") && index_of(s->labels, &index))
        st->speed[index] = s->value;
    else if (is(s->name, "qring_member_rtt_seconds") && index_of(s->labels, &index))
        st->rtt_s[index] = s->value;
    else
        for (int c = 0; c < QR_N_COUNTERS; c++)
            if (is(s->name, qr_counter_table[c].family) &&
                is(s->labels, qr_counter_table[c].labels)) {
                st->has[c] = true;
                st->value[c] = s->value;
            }
    return false;
}

enum qr_code qr_status_parse(struct qr_bytes text, struct qr_status *ret, struct qr_err *err) {
    struct qr_status st = {0};
    bool ours = false;
    size_t line = 1;
    for (size_t at = 0; at < text.n; line++) {
        const uint8_t *end = memchr(text.p + at, '\n', text.n - at);
        struct sample s;
        if (!end)
            return qr_fail(err, QR_INVALID_ARGUMENT, "line %zu of its metrics is cut off", line);
        struct qr_bytes l = qr_bytes_of(text.p + at, (size_t)(end - text.p) - at);
        at += l.n + 1;
        if (l.n == 0 || l.p[0] == '#') continue;
        if (!sample(l, &s))
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "line %zu of its metrics is no sample of Prometheus' text format", line);
        ours = take(&s, &st) || ours;
    }
    if (!ours)
        return qr_fail(err, QR_INVALID_ARGUMENT, "it has no qring_build_info among its metrics");
    *ret = st;
    return QR_OK;
}
