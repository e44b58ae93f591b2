#include "monitor/metrics.h"

#include <stdbool.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/counter.h"

static void put_label(struct qr_buf *b, const char *name, const char *value) {
    qr_buf_printf(b, "%s=\"", name);
    for (const char *c = value; *c; c++) {
        if (*c == '\\' || *c == '"') qr_buf_printf(b, "\\%c", *c);
        else if (*c == '\n') qr_buf_puts(b, "\\n");
        else qr_buf_put(b, c, 1);
    }
    qr_buf_puts(b, "\"");
}

static void put_real(struct qr_buf *b, double v) {
    if (__builtin_isnan(v)) qr_buf_puts(b, "NaN");
    else if (__builtin_isinf(v)) qr_buf_puts(b, v > 0 ? "+Inf" : "-Inf");
    else qr_buf_printf(b, "%.17g", v);
}

static void put_seconds(struct qr_buf *b, int64_t ns) {
    qr_buf_printf(b, "%lld.%09lld", (long long)(ns / QR_SECOND), (long long)(ns % QR_SECOND));
}

static void put_head(struct qr_buf *b, const char *family, const char *type, const char *help) {
    qr_buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n", family, help, family, type);
}

static void put_row(struct qr_buf *b, enum qr_counter c) {
    const struct qr_counter_row *r = &qr_counter_table[c];
    bool grows = r->kind == QR_KIND_COUNT || r->kind == QR_KIND_SECONDS;
    if (r->help[0]) put_head(b, r->family, grows ? "counter" : "gauge", r->help);
    qr_buf_puts(b, r->family);
    if (r->labels[0]) qr_buf_printf(b, "{%s}", r->labels);
    qr_buf_puts(b, " ");
    if (r->kind == QR_KIND_REAL) put_real(b, qr_counter_real(c));
    else if (r->kind == QR_KIND_SECONDS) put_seconds(b, qr_counter_value(c));
    else if (r->kind == QR_KIND_GAUGE) qr_buf_printf(b, "%lld", (long long)qr_counter_value(c));
    else qr_buf_printf(b, "%llu", (unsigned long long)qr_counter_value(c));
    qr_buf_puts(b, "\n");
}

static void put_peers(struct qr_buf *b) {
    put_head(b, "qring_member", "gauge",
             "1: this peer is a member of this worker's generation, 0: it is not.");
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (qr_peer_get(i) != QR_PEER_UNKNOWN)
            qr_buf_printf(b, "qring_member{index=\"%u\"} %d\n", i,
                          qr_peer_get(i) == QR_PEER_MEMBER);
    put_head(b, "qring_parameter_server", "gauge",
             "1: this peer is a parameter server, which computes no micro-batches.");
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (qr_peer_get(i) != QR_PEER_UNKNOWN && qr_peer_get_serves(i))
            qr_buf_printf(b, "qring_parameter_server{index=\"%u\"} 1\n", i);
    put_head(b, "qring_peer_no_data", "gauge",
             "1: this peer answers, but no data passes between it and this worker.");
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (qr_peer_get(i) != QR_PEER_UNKNOWN)
            qr_buf_printf(b, "qring_peer_no_data{index=\"%u\"} %d\n", i, qr_peer_get_no_data(i));
    put_head(b, "qring_member_blocks_per_second", "gauge",
             "How fast a member computes micro-batches, smoothed.");
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (qr_peer_get(i) == QR_PEER_MEMBER && qr_peer_get_speed(i) > 0)
            qr_buf_printf(b, "qring_member_blocks_per_second{index=\"%u\"} %.6g\n", i,
                          qr_peer_get_speed(i));
    put_head(b, "qring_member_rtt_seconds", "gauge",
             "How long 2 KB take from this worker to a member and back, smoothed.");
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (qr_peer_get(i) == QR_PEER_MEMBER && qr_peer_get_rtt(i) > 0)
            qr_buf_printf(b, "qring_member_rtt_seconds{index=\"%u\"} %.6g\n", i,
                          qr_peer_get_rtt(i));
}

static void put_values(struct qr_buf *b) {
    char name[QR_VALUE_NAME_BYTES];
    double value;
    put_head(b, "qring_value", "gauge",
             "The named values of the last committed step and of the last evaluation: metrics, "
             "watched observables, logged expressions.");
    for (size_t i = 0; i < QR_VALUES; i++) {
        if (!qr_value_get(i, name, &value)) continue;
        qr_buf_puts(b, "qring_value{");
        put_label(b, "name", name);
        qr_buf_puts(b, "} ");
        put_real(b, value);
        qr_buf_puts(b, "\n");
    }
}

/* The customary names, so that common dashboards find them. */
static void put_process(int64_t uptime_ns, struct qr_buf *b) {
    struct rusage u;
    put_head(b, "process_start_time_seconds", "gauge", "When this process began, since 1970.");
    qr_buf_puts(b, "process_start_time_seconds ");
    put_seconds(b, qr_now_ns(&qr_clock_wall) - uptime_ns);
    qr_buf_puts(b, "\n");
    if (getrusage(RUSAGE_SELF, &u) == 0) {
        int64_t us = (int64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
                     u.ru_utime.tv_usec + u.ru_stime.tv_usec;
        put_head(b, "process_cpu_seconds_total", "counter", "Processor time of this process.");
        qr_buf_puts(b, "process_cpu_seconds_total ");
        put_seconds(b, us * QR_US);
        qr_buf_puts(b, "\n");
        put_head(b, "process_resident_memory_max_bytes", "gauge",
                 "The most resident memory that this process had so far.");
        qr_buf_printf(b, "process_resident_memory_max_bytes %lld\n", (long long)u.ru_maxrss * 1024);
    }
}

void qr_metrics_text(const struct qr_build *build, int64_t uptime_ns, struct qr_buf *ret) {
    put_head(ret, "qring_build_info", "gauge", "What this program is; the value is 1.");
    qr_buf_puts(ret, "qring_build_info{");
    put_label(ret, "version", build->version);
    qr_buf_puts(ret, ",");
    put_label(ret, "contract", build->contract);
    qr_buf_puts(ret, ",");
    put_label(ret, "isa", build->isa);
    qr_buf_puts(ret, "} 1\n");
    put_head(ret, "qring_uptime_seconds", "gauge", "Seconds since this process began.");
    qr_buf_puts(ret, "qring_uptime_seconds ");
    put_seconds(ret, uptime_ns);
    qr_buf_puts(ret, "\n");
    for (int c = 0; c < QR_N_COUNTERS; c++) put_row(ret, (enum qr_counter)c);
    put_values(ret);
    put_peers(ret);
    put_process(uptime_ns, ret);
}
