/* base/span.h — time spans of each thread's work, recorded during a capture: for the profiler.
 *
 * What      A span has a kind, a name (of a layer, or none), a number (a step, a micro-batch, a
 *           worker) and two times. One table lists the kinds with their names for a trace viewer.
 * Use       int64_t t = qr_span_begin(); ... qr_span_end(t, QR_SPAN_COMPUTE, NULL, 0);
 *           the profiler calls qr_spans_start, qr_spans_stop and qr_spans_fini.
 * Cost      without a capture: one relaxed load at the begin, one comparison at the end. Spans
 *           enclose micro-batches, their layers and phases of a step, never the inside of a kernel.
 *           During a capture: two clock reads and an uncontended lock.
 * Capture   one at a time. A span that began before the capture, or ends after it, is not recorded.
 * Memory    QR_SPANS_MAX spans of all threads together; further ones are only counted. The record
 *           of a thread is kept until the process ends.
 * Results   spans have no effect on any result.
 * Threads   any.
 */
#ifndef QR_BASE_SPAN_H
#define QR_BASE_SPAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rows.h"

/* Kind; text, with the span's name for %n and its number for %d; name of the statistic that holds
 * the number otherwise. The profile plugin recognizes steps by texts that begin with "train" or
 * "test", and lists a text name:Type as an operation in its statistics. */
#define QR_SPAN_ROWS(ROW)                                                                          \
    ROW(QR_SPAN_STEP, "train", "step_num")                                                         \
    ROW(QR_SPAN_EVALUATION, "test", "step_num")                                                    \
    ROW(QR_SPAN_CLOSING, "closing reduction", NULL)                                                \
    ROW(QR_SPAN_REGROUP, "regroup", "step_num")                                                    \
    ROW(QR_SPAN_COMPUTE, "compute", NULL)                                                          \
    ROW(QR_SPAN_MICRO_BATCH, "micro-batch", "micro_batch")                                         \
    ROW(QR_SPAN_FORWARD, "forward/%n", "samples")                                                  \
    ROW(QR_SPAN_BACKWARD, "backward/%n", "samples")                                                \
    ROW(QR_SPAN_GRADIENT, "gradient/%n", "samples")                                                \
    ROW(QR_SPAN_LOSS, "loss:Loss", "samples")                                                      \
    ROW(QR_SPAN_SUM, "sum of threads", NULL)                                                       \
    ROW(QR_SPAN_REDUCE, "reduce:AllReduce", "integers")                                            \
    ROW(QR_SPAN_WAIT, "wait for worker %d", NULL)                                                  \
    ROW(QR_SPAN_UPDATE, "update:Optimizer", "step_num")                                            \
    ROW(QR_SPAN_PREPARE, "prepare", NULL)                                                          \
    ROW(QR_SPAN_REPORT, "report", "step_num")                                                      \
    ROW(QR_SPAN_PUBLISH, "publish checkpoint", "step_num")

enum qr_span_kind { QR_SPAN_ROWS(QR_ROW_KIND) QR_SPAN_KINDS };
struct qr_span_row {
    const char *text, *statistic;
};
extern const struct qr_span_row qr_span_rows[QR_SPAN_KINDS];

struct qr_span {
    int64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
    /* Replaces %n of the kind's text; NULL: none. Static, or valid until the capture is encoded */
    const char *name;
    uint64_t number;
    enum qr_span_kind kind;
};
enum { QR_SPANS_MAX = 1 << 18, QR_SPAN_THREADS_MAX = 2048 };

extern _Atomic bool qr_spans_on;
int64_t qr_span_now_ns(void);
void qr_span_put(int64_t begin_ns, enum qr_span_kind kind, const char *name, uint64_t number);

/* Returns the start time, or 0 when no capture is running. */
static inline int64_t qr_span_begin(void) {
    return atomic_load_explicit(&qr_spans_on, memory_order_relaxed) ? qr_span_now_ns() : 0;
}
static inline void qr_span_end(int64_t begin_ns, enum qr_span_kind kind, const char *name,
                               uint64_t number) {
    if (begin_ns) qr_span_put(begin_ns, kind, name, number);
}

/* Spans of one thread, in the order in which they ended. */
struct qr_span_thread {
    int32_t id; /* gettid(2) */
    char name[16];
    struct qr_span *spans;
    size_t n;
};
struct qr_spans {
    int64_t begin_ns, end_ns, begin_wall_ns; /* CLOCK_MONOTONIC; the last one since 1970 */
    size_t n_threads;
    struct qr_span_thread *threads; /* those with at least one span */
    uint64_t n_lost;                /* spans beyond QR_SPANS_MAX, or for lack of memory */
};
/* Starts a capture; false when another one is running. */
bool qr_spans_start(void);
/* Ends the capture that the caller started. Free *ret with qr_spans_fini. */
void qr_spans_stop(struct qr_spans *ret);
void qr_spans_fini(struct qr_spans *s);

#endif
