/* base/span.h — what a thread did from when to when, recorded while somebody captures it: for the
 * profiler.
 *
 * What      A span has a kind, a name (a layer's, or none), a number (a step, a micro-batch, a
 *           worker) and two times. Kinds are one table; what they are called is for a trace viewer.
 * Cost      while nobody captures: one relaxed load where a span would begin, one comparison where
 *           it would end; they stand around micro-batches, layers of them and phases of a step,
 *           never in a kernel. While somebody does: two looks at the clock and a lock of the
 *           thread's own.
 * Capture   one at a time. What began before it, or has not ended with it, is not in it.
 * Memory    QR_SPANS_MAX spans of all threads together; what comes after that is counted. Lanes of
 *           threads stay with the process.
 * Bits      spans say what happened and decide nothing.
 * Threads   any.
 */
#ifndef QR_BASE_SPAN_H
#define QR_BASE_SPAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rows.h"

/* Kind; what it is called: a name goes for %n, the number for %d, or else it is the statistic of
 * that word. A step's begins with "train" or "test": so the profile plugin knows it. What stands as
 * name:Type is an operation of its statistics. */
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
    /* of the kind's %n; NULL: it has none. Static, or a text that outlives what captures */
    const char *name;
    uint64_t number;
    enum qr_span_kind kind;
};
enum { QR_SPANS_MAX = 1 << 18, QR_SPAN_THREADS_MAX = 2048 };

extern _Atomic bool qr_spans_on;
int64_t qr_span_now_ns(void);
void qr_span_put(int64_t begin_ns, enum qr_span_kind kind, const char *name, uint64_t number);

/* 0: nobody captures. */
static inline int64_t qr_span_begin(void) {
    return atomic_load_explicit(&qr_spans_on, memory_order_relaxed) ? qr_span_now_ns() : 0;
}
static inline void qr_span_end(int64_t begin_ns, enum qr_span_kind kind, const char *name,
                               uint64_t number) {
    if (begin_ns) qr_span_put(begin_ns, kind, name, number);
}

/* What one thread did, in the order in which it ended. */
struct qr_span_thread {
    int32_t id; /* the system's */
    char name[16];
    struct qr_span *spans;
    size_t n;
};
struct qr_spans {
    int64_t begin_ns, end_ns, begin_wall_ns; /* the last since 1970 */
    size_t n_threads;
    struct qr_span_thread *threads; /* those that did anything */
    uint64_t n_lost;                /* beyond QR_SPANS_MAX, or for want of memory */
};
/* False: another capture runs. */
bool qr_spans_start(void);
/* Of a capture that was started, by who started it. */
void qr_spans_stop(struct qr_spans *ret);
void qr_spans_fini(struct qr_spans *s);

#endif
