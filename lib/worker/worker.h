/* worker/worker.h — one worker, from start to exit code.
 *
 * Order     signals, settings, job, identity, model and data, outputs (writable?), job hash, group
 *           (listening), probes, first generation, training, results, goodbye, probes closed.
 *           Errors are reported before time is spent: one line "E worker: …" on stderr, the same
 *           sentence in the termination log, an exit code that says whether a retry helps
 *           (base/err.h).
 * Evaluator A process of that role has the same settings, job, probes and end, with
 *           evaluator/evaluator.h in place of group and training.
 * Waits     before the first step, each with a limit. SIGTERM ends any of them within
 *           QR_STOP_SHORT_NS (worker/stop.h).
 *             threads, descriptors, stack         tried, no wait (limits.h, watchdog.h)
 *             job, data, weights, checkpoints     a file: its disk; gs://: 10 min without success
 *                                                 (store/gcs.h); a bucket's host name: as DNS below
 *             writable outputs                    as those
 *             a certificate that begins soon      QR_TLS_BEGIN_NS (tls.h)
 *             own and peers' names in DNS         a query: 4 s each name server; missing names: the
 *                                                 form timeout
 *             a port in use                       QR_PORT_WAIT_NS each for peers and for probes
 *             gRPC's threads for the links        QR_OPEN_BOUND_NS
 *             the ring                            --form-timeout (--start-timeout with a known
 *                                                 count), plus 5 s for a proposal under way, 10 min
 *                                                 beside a ring that works and answers: its data
 *                                                 ports are read at the end of a step
 *             a state to fetch from a member      10 min without it; a lost member at once
 * The end   qr_worker_main's parts: 2 s for the termination log, 1 s for checkpoints, 3 s for
 *           connections, 2 s for the last progress report, 31 s for events on their way to a bucket
 *           (2 s after a bad end), 2 s for the rest; after SIGTERM 1, 0.75, 1, 1, 1.5 and 0.5 s.
 *           Most take milliseconds. The decided exit code holds in each.
 */
#ifndef QR_WORKER_WORKER_H
#define QR_WORKER_WORKER_H

#include "version.h" /* QR_VERSION, made from lib/VERSION */

#define QR_PORT_WAIT_NS INT64_C(10000000000)
#define QR_OPEN_BOUND_NS INT64_C(5000000000)

/* Runs the whole of qringd.
 *
 * Args:     environment  NULL-terminated "NAME=value" texts
 * Returns:  exit code: 0 done, 2 usage, 3 rejected, 4 bad data, 5 --max-cost reached, 138 temporary
 *           failure (retry), 143 (or --exit-on-drain) after SIGTERM
 */
int qr_worker_main(int argc, char *const *argv, char *const *environment);

#endif
