/* worker/worker.h — one worker from its first instruction to its exit code.
 *
 * Evaluator a process of that role has the same settings, job, probes and end, and between them
 *           evaluator/evaluator.h in place of group and training.
 * Order     signals, settings, job, identity, model and data, outputs (can they be written?), job
 *           hash, group (listening), probes, first generation, training, results, goodbye, probes
 *           closed. Whatever is wrong is said before anything is spent: one line "E worker: …" on
 *           stderr, the same sentence in the termination log, an exit code that says whether to try
 *           again (base/err.h).
 * Waits     before the first step, each with its bound. SIGTERM ends any of them within
 *           QR_STOP_SHORT_NS (worker/stop.h).
 *             threads, descriptors, stack         tried, not waited for (limits.h, ending.h)
 *             job, data, weights, checkpoints     a file: its disk; gs://: 10 min without success
 *                                                 (store/gcs.h); a name of a bucket's host: as
 *                                                 DNS below
 *             what can be written?                as those
 *             a certificate that begins soon      QR_TLS_BEGIN_NS (tls.h)
 *             own and peers' names in DNS         a question: 4 s each name server; missing ones:
 *                                                 the form timeout
 *             a port that is in use               QR_PORT_WAIT_NS each for peers and for probes
 *             gRPC's threads for the links        QR_OPEN_BOUND_NS
 *             the ring                            --form-timeout (--start-timeout where the count
 *                                                 is known), and 5 s for a proposal under way, 10
 *                                                 min beside a ring that works and answers: its
 *                                                 data ports are read at the end of a step
 *             a state to fetch from a member      10 min without it; the member's death at once
 * The end   qr_worker_main's parts: 2 s for the last words, 1 s for checkpoints, 3 s for
 *           connections, 2 s for who is told of the run, 31 s for events on their way to a bucket
 *           (2 s after a bad end), 2 s for the rest; after SIGTERM 1, 0.75, 1, 1, 1.5 and 0.5 s.
 *           Most take milliseconds. The code that was decided holds in each.
 */
#ifndef QR_WORKER_WORKER_H
#define QR_WORKER_WORKER_H

#include "version.h" /* QR_VERSION, by make from lib/VERSION */

#define QR_PORT_WAIT_NS INT64_C(10000000000)
#define QR_OPEN_BOUND_NS INT64_C(5000000000)

/* The whole of qringd. environment: NULL-terminated "NAME=value" texts. Returns the process'
 * exit code: 0 done, 2 usage, 3 refused, 4 bad data, 5 --max-cost is spent, 138 please retry, 143
 * (or --exit-on-drain) after SIGTERM. */
int qr_worker_main(int argc, char *const *argv, char *const *environment);

#endif
