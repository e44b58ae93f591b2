/* monitor/metrics.c — writes /metrics. Start reading at qr_metrics_text(). */
#include "monitor/metrics.h"

#include <stdbool.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/counter.h"

static void metrics_put_label(struct qr_buf *b, const char *name, const char *value) {
    qr_buf_printf(b, "%s=\"", name);
    for (const char *c = value; *c; c++) {
        if (*c == '\\' || *c == '"') qr_buf_printf(b, "\\%c", *c);
        else if (*c == '\n') qr_buf_puts(b, "\\n");
        else qr_buf_put(b, c, 1);
    }
    qr_buf_puts(b, "\"");
}

static void metrics_put_real(struct qr_buf *b, double v) {
    if (__builtin_isnan(v)) qr_buf_puts(b, "NaN");
    else if (__builtin_isinf(v)) qr_buf_puts(b, v > 0 ? "+Inf" : "-Inf");
    else qr_buf_printf(b, "%.17g", v);
}

static void metrics_put_seconds(struct qr_buf *b, int64_t ns) {
    qr_buf_printf(b, "%lld.%09lld", (long long)(ns / QR_SECOND), (long long)(ns % QR_SECOND));
}

static void metrics_put_head(struct qr_buf *b, const char *family, const char *type,
                             const char *help) {
    qr_buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n", family, help, family, type);
}

static void metrics_put_row(struct qr_buf *b, enum qr_counter c) {
    const struct qr_counter_row *r = &qr_counter_table[c];
    bool grows = r->kind == QR_KIND_COUNT || r->kind == QR_KIND_SECONDS;
    if (r->help[0]) metrics_put_head(b, r->family, grows ? "counter" : "gauge", r->help);
    qr_buf_puts(b, r->family);
    if (r->labels[0]) qr_buf_printf(b, "{%s}", r->labels);
    qr_buf_puts(b, " ");
    if (r->kind == QR_KIND_REAL) metrics_put_real(b, qr_counter_real(c));
    else if (r->kind == QR_KIND_SECONDS) metrics_put_seconds(b, qr_counter_value(c));
    else if (r->kind == QR_KIND_GAUGE) qr_buf_printf(b, "%lld", (long long)qr_counter_value(c));
    else qr_buf_printf(b, "%llu", (unsigned long long)qr_counter_value(c));
    qr_buf_puts(b, "\n");
}

static void metrics_put_peers(struct qr_buf *b) {
    metrics_put_head(b, "qring_member", "gauge",
                     "1 if this peer is a member of this worker's generation, else 0.");
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (qr_peer_get(i) != QR_PEER_UNKNOWN)
            qr_buf_printf(b, "qring_member{index=\"%u\"} %d\n", i,
                          qr_peer_get(i) == QR_PEER_MEMBER);
    metrics_put_head(b, "qring_parameter_server", "gauge",
                     "1 if this peer is a parameter server, which computes no micro-batches.");
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (qr_peer_get(i) != QR_PEER_UNKNOWN && qr_peer_get_serves(i))
            qr_buf_printf(b, "qring_parameter_server{index=\"%u\"} 1\n", i);
    metrics_put_head(
        b, "qring_peer_no_data", "gauge",
        "1 if this peer answers, but no data passes between the peer and this worker.");
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (qr_peer_get(i) != QR_PEER_UNKNOWN)
            qr_buf_printf(b, "qring_peer_no_data{index=\"%u\"} %d\n", i, qr_peer_get_no_data(i));
    metrics_put_head(b, "qring_member_micro_batches_per_second", "gauge",
                     "Micro-batches per second that a member computes, smoothed.");
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (qr_peer_get(i) == QR_PEER_MEMBER && qr_peer_get_speed(i) > 0)
            qr_buf_printf(b, "qring_member_micro_batches_per_second{index=\"%u\"} %.6g\n", i,
                          qr_peer_get_speed(i));
    metrics_put_head(b, "qring_member_rtt_seconds", "gauge",
                     "Round-trip time of 2 KB between this worker and a member, smoothed.");
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (qr_peer_get(i) == QR_PEER_MEMBER && qr_peer_get_rtt(i) > 0)
            qr_buf_printf(b, "qring_member_rtt_seconds{index=\"%u\"} %.6g\n", i,
                          qr_peer_get_rtt(i));
}

static void metrics_put_values(struct qr_buf *b) {
    char name[QR_VALUE_NAME_BYTES];
    double value;
    metrics_put_head(
        b, "qring_value", "gauge",
        "Named values of the last committed step and of the last evaluation: metrics, watched "
        "observables, logged expressions.");
    for (size_t i = 0; i < QR_VALUES; i++) {
        if (!qr_value_get(i, name, &value)) continue;
        qr_buf_puts(b, "qring_value{");
        metrics_put_label(b, "name", name);
        qr_buf_puts(b, "} ");
        metrics_put_real(b, value);
        qr_buf_puts(b, "\n");
    }
}

/* Uses the conventional names, so that common dashboards find them. */
static void metrics_put_process(int64_t uptime_ns, struct qr_buf *b) {
    struct rusage u;
    metrics_put_head(b, "process_start_time_seconds", "gauge",
                     "Start time of this process, since 1970.");
    qr_buf_puts(b, "process_start_time_seconds ");
    metrics_put_seconds(b, qr_now_ns(&qr_clock_wall) - uptime_ns);
    qr_buf_puts(b, "\n");
    if (getrusage(RUSAGE_SELF, &u) == 0) {
        int64_t us = (int64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
                     u.ru_utime.tv_usec + u.ru_stime.tv_usec;
        metrics_put_head(b, "process_cpu_seconds_total", "counter", "CPU time of this process.");
        qr_buf_puts(b, "process_cpu_seconds_total ");
        metrics_put_seconds(b, us * QR_US);
        qr_buf_puts(b, "\n");
        metrics_put_head(b, "process_resident_memory_max_bytes", "gauge",
                         "Peak resident memory of this process.");
        qr_buf_printf(b, "process_resident_memory_max_bytes %lld\n", (long long)u.ru_maxrss * 1024);
    }
}

void qr_metrics_text(const struct qr_build *build, int64_t uptime_ns, struct qr_buf *ret) {
    metrics_put_head(ret, "qring_build_info", "gauge",
                     "Version, contract and instruction set of this program; always 1.");
    qr_buf_puts(ret, "qring_build_info{");
    metrics_put_label(ret, "version", build->version);
    qr_buf_puts(ret, ",");
    metrics_put_label(ret, "contract", build->contract);
    qr_buf_puts(ret, ",");
    metrics_put_label(ret, "isa", build->isa);
    qr_buf_puts(ret, "} 1\n");
    metrics_put_head(ret, "qring_uptime_seconds", "gauge", "Time since the start of this process.");
    qr_buf_puts(ret, "qring_uptime_seconds ");
    metrics_put_seconds(ret, uptime_ns);
    qr_buf_puts(ret, "\n");
    for (int c = 0; c < QR_N_COUNTERS; c++) metrics_put_row(ret, (enum qr_counter)c);
    metrics_put_values(ret);
    metrics_put_peers(ret);
    metrics_put_process(uptime_ns, ret);
}
