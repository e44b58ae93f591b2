/* monitor/metrics.h — the counters as Prometheus' text, format 0.0.4.
 *
 * What      base/counter.h's table, what this process is (qring_build_info) and how long it has
 *           run. Families stand together, HELP and TYPE come once, a line for each row; times in
 *           seconds, NaN and infinities as Prometheus spells them.
 * Threads   any.
 */
#ifndef QR_MONITOR_METRICS_H
#define QR_MONITOR_METRICS_H

#include "base/bytes.h"

#define QR_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct qr_build {
    const char *version, *contract, *isa; /* borrowed; any text: it is escaped */
};

/* Appends to ret. */
void qr_metrics_text(const struct qr_build *build, int64_t uptime_ns, struct qr_buf *ret);

#endif
