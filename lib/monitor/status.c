/* monitor/status.c — /status: collects it, writes it, queries it from a worker. Start reading at
 * qr_status_query(). */
#include "monitor/status.h"

#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/text.h"
#include "cluster/identity.h"
#include "monitor/last_error.h"
#include "store/post.h"

enum { HTTP_PORT = 8080, NAME_BYTES = 96 };

/* ---- writing ---- */

struct qr_status qr_status_of_process(const struct qr_build *build, int64_t uptime_ns) {
    struct qr_status s = {.uptime_s = (double)uptime_ns / QR_SECOND,
                          .now_s = (double)qr_now_ns(&qr_clock_wall) / QR_SECOND};
    qr_text_cut(s.version, sizeof s.version, build->version);
    qr_text_cut(s.contract, sizeof s.contract, build->contract);
    qr_text_cut(s.isa, sizeof s.isa, build->isa);
    for (enum qr_counter c = 0; c < QR_N_COUNTERS; c++) {
        enum qr_counter_kind kind = qr_counter_table[c].kind;
        s.value[c] = kind == QR_KIND_REAL
                         ? qr_counter_real(c)
                         : (double)qr_counter_value(c) / (kind == QR_KIND_SECONDS ? QR_SECOND : 1);
    }
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
        s.peer[i] = qr_peer_get(i);
        s.no_data[i] = qr_peer_get_no_data(i);
        s.serves[i] = qr_peer_get_serves(i);
        s.speed[i] = qr_peer_get_speed(i);
        s.rtt_s[i] = qr_peer_get_rtt(i);
    }
    s.last_error_s = qr_last_error_get(s.last_error, sizeof s.last_error);
    return s;
}

/* Writes the name of a row as in /metrics. */
static const char *counter_name(enum qr_counter c, char ret[NAME_BYTES]) {
    const struct qr_counter_row *r = &qr_counter_table[c];
    snprintf(ret, NAME_BYTES, r->labels[0] ? "%s{%s}" : "%s%s", r->family, r->labels);
    return ret;
}

void qr_status_put(const struct qr_status *s, struct qr_json_writer *w) {
    char name[NAME_BYTES];
    qr_json_key_string(w, "version", s->version);
    qr_json_key_string(w, "contract", s->contract);
    qr_json_key_string(w, "isa", s->isa);
    qr_json_key_double(w, "uptime_seconds", s->uptime_s);
    qr_json_key_double(w, "unix_seconds", s->now_s);
    qr_json_key_open(w, "peers", '[');
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
        bool member = s->peer[i] == QR_PEER_MEMBER;
        if (s->peer[i] == QR_PEER_UNKNOWN) continue;
        qr_json_open(w, '{');
        qr_json_key_i64(w, "index", i);
        qr_json_key_bool(w, "member", member);
        qr_json_key_bool(w, "parameter_server", s->serves[i]);
        qr_json_key_bool(w, "no_data", s->no_data[i]);
        qr_json_key_double(w, "micro_batches_per_second",
                           member && s->speed[i] > 0 ? s->speed[i] : __builtin_nan(""));
        qr_json_key_double(w, "rtt_seconds",
                           member && s->rtt_s[i] > 0 ? s->rtt_s[i] : __builtin_nan(""));
        qr_json_close(w, '}');
    }
    qr_json_close(w, ']');
    qr_json_key_string(w, "last_error", *s->last_error ? s->last_error : NULL);
    qr_json_key_double(w, "last_error_unix_seconds",
                       *s->last_error ? s->last_error_s : __builtin_nan(""));
    qr_json_key_open(w, "metrics", '{');
    for (enum qr_counter c = 0; c < QR_N_COUNTERS; c++)
        qr_json_key_double(w, counter_name(c, name), s->value[c]);
    qr_json_close(w, '}');
}

/* ---- reading ---- */

/* A missing number leaves *ret unchanged. */
static enum qr_code status_read_number(const struct qr_json *object, const char *key, double *ret,
                                       struct qr_err *err) {
    const struct qr_json *v = qr_json_get(object, key);
    return v ? qr_json_double(v, key, -1e300, 1e300, ret, err) : QR_OK;
}

static enum qr_code status_read_text(const struct qr_json *root, const char *key, char *ret,
                                     size_t cap, struct qr_err *err) {
    const char *text;
    QR_TRY(qr_json_string(qr_json_get(root, key), key, &text, err));
    qr_text_cut(ret, cap, text);
    return QR_OK;
}

static enum qr_code status_read_peer(const struct qr_json *v, struct qr_status *s,
                                     struct qr_err *err) {
    int64_t i;
    bool member;
    QR_TRY(qr_json_want(v, "peers", QR_JSON_OBJECT, err));
    QR_TRY(qr_json_i64(qr_json_get(v, "index"), "index", 0, QR_MAX_MEMBERS - 1, &i, err));
    QR_TRY(qr_json_bool(qr_json_get(v, "member"), "member", &member, err));
    QR_TRY(
        qr_json_bool(qr_json_get(v, "parameter_server"), "parameter_server", &s->serves[i], err));
    QR_TRY(qr_json_bool(qr_json_get(v, "no_data"), "no_data", &s->no_data[i], err));
    QR_TRY(status_read_number(v, "micro_batches_per_second", &s->speed[i], err));
    s->peer[i] = member ? QR_PEER_MEMBER : QR_PEER_ABSENT;
    return status_read_number(v, "rtt_seconds", &s->rtt_s[i], err);
}

enum qr_code qr_status_parse(struct qr_bytes text, struct qr_status *ret, struct qr_err *err) {
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    struct qr_status s = {0};
    char name[NAME_BYTES];
    QR_TRY(qr_json_parse(text, "/status", &root, err));
    QR_TRY(status_read_text(root, "version", s.version, sizeof s.version, err));
    QR_TRY(status_read_text(root, "contract", s.contract, sizeof s.contract, err));
    QR_TRY(status_read_text(root, "isa", s.isa, sizeof s.isa, err));
    QR_TRY(status_read_number(root, "uptime_seconds", &s.uptime_s, err));
    QR_TRY(status_read_number(root, "unix_seconds", &s.now_s, err));
    const struct qr_json *peers = qr_json_get(root, "peers"),
                         *metrics = qr_json_get(root, "metrics");
    QR_TRY(qr_json_want(peers, "peers", QR_JSON_ARRAY, err));
    for (const struct qr_json *v = qr_json_first(peers); v; v = qr_json_next(v))
        QR_TRY(status_read_peer(v, &s, err));
    if (qr_json_get(root, "last_error"))
        QR_TRY(status_read_text(root, "last_error", s.last_error, sizeof s.last_error, err));
    QR_TRY(status_read_number(root, "last_error_unix_seconds", &s.last_error_s, err));
    QR_TRY(qr_json_want(metrics, "metrics", QR_JSON_OBJECT, err));
    for (enum qr_counter c = 0; c < QR_N_COUNTERS; c++) {
        s.value[c] = __builtin_nan("");
        QR_TRY(status_read_number(metrics, counter_name(c, name), &s.value[c], err));
    }
    *ret = s;
    return QR_OK;
}

/* ---- a query ---- */

static enum qr_code status_get(const char *address, const char *url, struct qr_status *ret,
                               struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf reply = {0};
    struct qr_err why = {0};
    struct qr_poster *p = qr_poster_new(NULL);
    enum qr_code code =
        qr_poster_send(p,
                       &(struct qr_post){.method = "GET",
                                         .url = url,
                                         .direct = true,
                                         .reply = &reply,
                                         .timeout_ms = QR_STATUS_TIMEOUT_NS / QR_MS},
                       (struct qr_bytes){0}, &why);
    qr_poster_free(p);
    if (code == QR_UNAVAILABLE && why.sys != EPROTO)
        return qr_fail(err, code,
                       "cannot query %s: check that the worker runs and that this is its "
                       "--http-port",
                       why.msg);
    if (code == QR_OK) code = qr_status_parse(qr_buf_view(&reply), ret, &why);
    if (code == QR_OK) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s is not a qring worker: %s", address, why.msg);
}

enum qr_code qr_status_query(const char *address, struct qr_status_pair *s, struct qr_err *err) {
    qr_auto(qr_free_p) char *host = NULL, *joined = NULL, *url = NULL;
    struct qr_status was = s->is, is;
    unsigned port;
    if (!qr_address_split(address, HTTP_PORT, &host, &port))
        return qr_fail(err, QR_INVALID_ARGUMENT, "'%.200s' is not HOST:PORT: %s", address,
                       qr_address_fault(address));
    joined = qr_address_join(host, port);
    url = qr_xasprintf("http://%s/status", joined);
    if (!*was.version) {
        QR_TRY(status_get(address, url, &was, err));
        qr_sleep_ns(QR_SECOND);
    }
    QR_TRY(status_get(address, url, &is, err));
    bool restarted = !(is.uptime_s > was.uptime_s);
    *s = (struct qr_status_pair){restarted ? is : was, is,
                                 restarted ? 1 : is.uptime_s - was.uptime_s};
    return QR_OK;
}
