/* monitor/status_parse.c — parses HTTP responses and Prometheus text: strict syntax, unknown
 * metrics ignored. Start reading at qr_status_parse(). */
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
    if (!line || status < 100) return qr_fail(err, QR_INVALID_ARGUMENT, "not an HTTP response");
    for (size_t i = 12; i + 4 <= reply.n; i++)
        if (memcmp(p + i, "\r\n\r\n", 4) == 0) {
            *ret_status = status;
            *ret_body = qr_bytes_of(p + i + 4, reply.n - i - 4);
            return QR_OK;
        }
    return qr_fail(err, QR_INVALID_ARGUMENT, "its HTTP response has no end of headers");
}

/* ---- a line: name{labels} value [time] ---- */

struct metric_sample {
    struct qr_bytes name, labels;
    double value;
};

static bool metric_is_name_char(uint8_t c, bool first) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':' ||
           (!first && c >= '0' && c <= '9');
}

static size_t metric_name_length(struct qr_bytes l, size_t at) {
    size_t n = 0;
    while (at + n < l.n && metric_is_name_char(l.p[at + n], n == 0)) n++;
    return n;
}

/* Position after the closing quote of the value that begins at `at`; 0 when there is no quote. */
static size_t metric_value_end(struct qr_bytes l, size_t at) {
    for (; at < l.n && l.p[at] != '"'; at++)
        if (l.p[at] == '\\' && ++at >= l.n) return 0;
    return at < l.n ? at + 1 : 0;
}

/* Position after the closing brace of the labels that begin at `at`; 0 when they are malformed. */
static size_t metric_labels_end(struct qr_bytes l, size_t at) {
    while (at < l.n && l.p[at] != '}') {
        size_t n = metric_name_length(l, at);
        if (n == 0 || at + n + 2 > l.n || l.p[at + n] != '=' || l.p[at + n + 1] != '"') return 0;
        at = metric_value_end(l, at + n + 2);
        if (at == 0) return 0;
        if (at < l.n && l.p[at] == ',') at++;
        else if (at >= l.n || l.p[at] != '}') return 0;
    }
    return at < l.n ? at + 1 : 0;
}

static bool metric_text_equals(struct qr_bytes b, const char *text) {
    return b.n == strlen(text) && (b.n == 0 || memcmp(b.p, text, b.n) == 0);
}

static bool metric_parse_value(struct qr_bytes b, double *ret) {
    if (metric_text_equals(b, "NaN")) *ret = __builtin_nan("");
    else if (metric_text_equals(b, "+Inf") || metric_text_equals(b, "Inf")) *ret = __builtin_inf();
    else if (metric_text_equals(b, "-Inf")) *ret = -__builtin_inf();
    else return b.n > 0 && b.n < 64 && qr_parse_double_n((const char *)b.p, b.n, ret);
    return true;
}

static bool metric_sample(struct qr_bytes l, struct metric_sample *ret) {
    size_t at = metric_name_length(l, 0), end, n = 0;
    double time;
    if (at == 0) return false;
    *ret = (struct metric_sample){.name = {l.p, at}};
    if (at < l.n && l.p[at] == '{') {
        end = metric_labels_end(l, at + 1);
        if (end == 0) return false;
        ret->labels = qr_bytes_of(l.p + at + 1, end - at - 2);
        at = end;
    }
    if (at >= l.n || l.p[at++] != ' ') return false;
    while (at + n < l.n && l.p[at + n] != ' ') n++;
    if (!metric_parse_value(qr_bytes_of(l.p + at, n), &ret->value)) return false;
    at += n;
    return at == l.n || metric_parse_value(qr_bytes_of(l.p + at + 1, l.n - at - 1), &time);
}

/* ---- known metrics ---- */

/* Copies a label's value, unescaped and truncated to fit; "" when the label is missing. Control
 * characters become '?', since the value is shown on a terminal. */
static void metric_copy_label(struct qr_bytes l, const char *name, char *ret, size_t cap) {
    size_t at = 0, n;
    *ret = 0;
    for (; at < l.n && (n = metric_name_length(l, at)) > 0; at++) {
        size_t end = metric_value_end(l, at + n + 2), to = 0;
        if (end == 0) return;
        bool matches = metric_text_equals(qr_bytes_of(l.p + at, n), name);
        for (size_t i = at + n + 2; matches && i + 1 < end && to + 1 < cap; i++) {
            if (l.p[i] == '\\') i++;
            ret[to++] = l.p[i] >= 0x20 && l.p[i] < 0x7f ? (char)l.p[i] : '?';
        }
        if (matches) {
            ret[to] = 0;
            return;
        }
        at = end;
    }
}

static bool metric_parse_index(struct qr_bytes labels, uint32_t *ret) {
    char text[24];
    uint64_t index;
    metric_copy_label(labels, "index", text, sizeof text);
    if (!qr_parse_u64(text, &index) || index >= QR_MAX_MEMBERS) return false;
    *ret = (uint32_t)index;
    return true;
}

/* Stores a sample in *st; true when the sample identifies a qring worker. */
static bool metric_apply(const struct metric_sample *s, struct qr_status *st) {
    uint32_t index;
    if (metric_text_equals(s->name, "qring_build_info")) {
        metric_copy_label(s->labels, "version", st->version, sizeof st->version);
        metric_copy_label(s->labels, "contract", st->contract, sizeof st->contract);
        metric_copy_label(s->labels, "isa", st->isa, sizeof st->isa);
        return true;
    }
    if (metric_text_equals(s->name, "qring_uptime_seconds")) st->uptime_s = s->value;
    else if (metric_text_equals(s->name, "process_start_time_seconds")) st->start_s = s->value;
    else if (metric_text_equals(s->name, "qring_member") && metric_parse_index(s->labels, &index))
        st->peer[index] = s->value == 1 ? QR_PEER_MEMBER : QR_PEER_ABSENT;
    else if (metric_text_equals(s->name, "qring_peer_no_data") &&
             metric_parse_index(s->labels, &index))
        st->no_data[index] = s->value == 1;
    else if (metric_text_equals(s->name, "qring_parameter_server") &&
             metric_parse_index(s->labels, &index))
        st->serves[index] = s->value == 1;
    else if (metric_text_equals(s->name, "qring_member_micro_batches_per_second") &&
             metric_parse_index(s->labels, &index))
        st->speed[index] = s->value;
    else if (metric_text_equals(s->name, "qring_member_rtt_seconds") &&
             metric_parse_index(s->labels, &index))
        st->rtt_s[index] = s->value;
    else
        for (int c = 0; c < QR_N_COUNTERS; c++)
            if (metric_text_equals(s->name, qr_counter_table[c].family) &&
                metric_text_equals(s->labels, qr_counter_table[c].labels)) {
                st->has[c] = true;
                st->value[c] = s->value;
            }
    return false;
}

enum qr_code qr_status_parse(struct qr_bytes text, struct qr_status *ret, struct qr_err *err) {
    struct qr_status st = {0};
    bool is_qring = false;
    size_t line = 1;
    for (size_t at = 0; at < text.n; line++) {
        const uint8_t *end = memchr(text.p + at, '\n', text.n - at);
        struct metric_sample s;
        if (!end)
            return qr_fail(err, QR_INVALID_ARGUMENT, "line %zu of its metrics is truncated", line);
        struct qr_bytes l = qr_bytes_of(text.p + at, (size_t)(end - text.p) - at);
        at += l.n + 1;
        if (l.n == 0 || l.p[0] == '#') continue;
        if (!metric_sample(l, &s))
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "line %zu of its metrics is not in Prometheus' text format", line);
        is_qring = metric_apply(&s, &st) || is_qring;
    }
    if (!is_qring) return qr_fail(err, QR_INVALID_ARGUMENT, "its metrics have no qring_build_info");
    *ret = st;
    return QR_OK;
}
