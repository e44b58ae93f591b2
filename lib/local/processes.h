/* local/processes.h — a whole job on this machine: N real worker processes on loopback, each with its TF_CONFIG.
 *
 * What      Finds free ports, starts the workers, passes their events on, stops them together. A port that somebody took in between is
 *           met by one more start with other ports.
 * End       SIGINT or SIGTERM to this process: SIGTERM to all, a bounded wait, exit code 0 (which of the two it was, the caller may tell).
 *           When a worker dies the others end by themselves (138); whoever does not within a bound is killed. Should this process die, the
 *           kernel kills the workers.
 * Threads   the caller's only. Call before any thread exists: it forks and blocks signals.
 */
#ifndef QR_LOCAL_PROCESSES_H
#define QR_LOCAL_PROCESSES_H

#include "format/json.h"

enum { QR_LOCAL_MAX_WORKERS = 64 };

struct qr_local_options {
    const char *program;           /* qringd */
    unsigned n_workers;            /* 1: no TF_CONFIG, a single worker without ports */
    const char *const *arguments;  /* after argv[0], for every worker */
    size_t n_arguments;
    char *const *environment;      /* TF_CONFIG and our names for identity are taken out */
    const char *log_dir;           /* worker-<i>.log */
    bool tls;                      /* with certificates that live as long as the run; not for one worker */
    unsigned http_port;            /* probes and metrics of worker i on http_port + i; 0: none */
    /* worker 0's events, as JSON objects */
    void (*event)(void *ctx, const struct qr_json *event);
    void *ctx;
};
struct qr_local_result {
    int exit_code;      /* 0; a worker's permanent code; 138 when one was lost */
    bool interrupted;   /* by a signal to this process */
    bool terminated;    /* and the first was SIGTERM, not SIGINT */
    int worker;         /* who ended first in a wrong way; -1: nobody */
    char *sentence;     /* what it said, or how it died; NULL when nothing went wrong. Heap */
};
/* Fails only when nothing could be started. */
QR_MUST_CHECK enum qr_code qr_local_run(const struct qr_local_options *opt, struct qr_local_result *ret, struct qr_err *err);

#endif
