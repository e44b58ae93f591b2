/* monitor/metrics.h — the counters in Prometheus' text format 0.0.4.
 *
 * What      base/counter.h's table, qring_build_info, uptime and process metrics. HELP and TYPE
 *           come once for each family, then one line per row; times in seconds; NaN and infinities
 *           as Prometheus spells them.
 * Threads   any.
 */
#ifndef QR_MONITOR_METRICS_H
#define QR_MONITOR_METRICS_H

#include "base/bytes.h"

#define QR_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct qr_build {
    const char *version, *contract, *isa; /* borrowed; escaped when written */
};

/* Appends the text to ret. */
void qr_metrics_text(const struct qr_build *build, int64_t uptime_ns, struct qr_buf *ret);

#endif
