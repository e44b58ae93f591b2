/* worker/worker.h — one worker from its first instruction to its exit code.
 *
 * Order     signals, settings, job, identity, model and data, outputs (can they be written?), job hash, group (listening), probes, first
 *           generation, training, results, goodbye, probes closed. Whatever is wrong is said before anything is spent: one line "E worker:
 *           …" on stderr, the same sentence in the termination log, an exit code that says whether to try again (base/err.h).
 */
#ifndef QR_WORKER_WORKER_H
#define QR_WORKER_WORKER_H

#define QR_VERSION "0.1.0"

/* The whole of qringd. environment: NULL-terminated "NAME=value" texts. Returns the process' exit code: 0 done, 2 usage, 3 refused, 4 bad
 * data, 138 please retry, 143 (or --exit-on-drain) after SIGTERM. */
int qr_worker_main(int argc, char *const *argv, char *const *environment);

#endif
