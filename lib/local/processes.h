/* local/processes.h — a whole job on this machine: N real worker processes on loopback, each with
 * its TF_CONFIG.
 *
 * What      Finds free ports, starts the workers, passes their events on, stops them together. A
 *           port that somebody took in between is met by one more start with other ports.
 * End       SIGINT or SIGTERM to this process: SIGTERM to all, a bounded wait, exit code 0 (which
 *           of the two it was, the caller may tell); a second one: SIGKILL to all. When a worker
 *           dies the others go on, and `restart` brings it back, after 0.5 s, then 1, 2 … 8 s. When
 *           one ends well, or with a permanent code, the others must soon; whoever does not within
 *           a bound is killed. Should this process die, the kernel kills the workers.
 * Threads   the caller's only. Call before any thread exists: it forks and blocks signals.
 */
#ifndef QR_LOCAL_PROCESSES_H
#define QR_LOCAL_PROCESSES_H

#include "base/bounds.h"
#include "base/err.h"
#include "format/json.h"

struct qr_local_options {
    const char *program;          /* qringd */
    unsigned n_workers;           /* 1: no TF_CONFIG, a single worker without ports */
    const char *const *arguments; /* after argv[0], for every worker */
    size_t n_arguments;
    char *const *environment; /* TF_CONFIG and our names for identity are taken out */
    const char *log_dir;      /* worker-<i>.log */
    const int *lock_fd;       /* every worker inherits it, as --lock-fd; NULL: none */
    /* every worker reads this process's standard input, a file, from its beginning; else nothing */
    bool input;
    /* with certificates that live as long as the run; not for one worker */
    bool tls;
    unsigned http_port;     /* probes and metrics of worker i on http_port + i; 0: none */
    unsigned profiler_port; /* likewise */
    bool restart;           /* a worker that is lost is started again */
    bool fresh;             /* --fresh for each that is started before any has trained */
    /* the events of the lowest worker that lives, and "done" of any, as JSON objects */
    void (*event)(void *ctx, const struct qr_json *event);
    /* a worker is lost (or could not be started again), while n_left others live; NULL is fine */
    void (*lost)(void *ctx, unsigned worker, const char *sentence, unsigned n_left,
                 bool comes_back);
    /* looked at several times a second while any lives; false: all are asked to stop, as by a
     * signal. NULL is fine */
    bool (*go_on)(void *ctx);
    void *ctx;
};
struct qr_local_result {
    /* 0, also when some were lost on the way; a worker's permanent code; 138 when all were lost */
    int exit_code;
    bool interrupted;  /* by a signal to this process */
    bool terminated;   /* and the first was SIGTERM, not SIGINT */
    int worker;        /* who ended first in a wrong way; -1: nobody */
    char *sentence;    /* what it said, or how it died; NULL when nothing went wrong. Heap */
    enum qr_code code; /* of what it said; QR_OK: it said nothing */
    int signal;        /* that it died of; 0: none */
};
/* Fails only when nothing could be started. */
QR_MUST_CHECK enum qr_code qr_local_run(const struct qr_local_options *opt,
                                        struct qr_local_result *ret, struct qr_err *err);

#endif
