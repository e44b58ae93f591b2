/* local/processes.h — runs a job on this machine: N worker processes on loopback, each with its
 * TF_CONFIG.
 *
 * What      Finds free ports, starts the workers, passes their events on, stops them together. If a
 *           port was taken meanwhile, starts once more with other ports.
 * End       SIGINT or SIGTERM to this process: SIGTERM to all, a bounded wait, exit code 0 (the
 *           caller may report which signal it was); a second signal: SIGKILL to all. When a worker
 *           is lost the others continue, and `restart` restarts it after 0.5 s, then 1, 2 … 8 s.
 *           When one ends successfully or with a permanent code, the others must end soon; those
 *           that do not are killed. If this process is killed, the kernel kills the workers.
 * Threads   the caller's only. Call before any other thread exists: it forks and blocks signals.
 */
#ifndef QR_LOCAL_PROCESSES_H
#define QR_LOCAL_PROCESSES_H

#include "base/bounds.h"
#include "base/err.h"
#include "format/json.h"

struct qr_local_options {
    const char *program;          /* qringd */
    unsigned n_workers;           /* 1: no TF_CONFIG, a single worker without ports */
    const char *const *arguments; /* for every worker, after argv[0] */
    size_t n_arguments;
    char *const *environment; /* without TF_CONFIG and settings of identity, which are removed */
    const char *log_dir;      /* for worker-<i>.log */
    const int *lock_fd;       /* inherited by every worker, as --lock-fd; NULL: none */
    /* Every worker reads this process's standard input, a file, from its beginning; otherwise no
     * input. */
    bool input;
    /* With certificates for this run only; ignored for one worker. */
    bool tls;
    unsigned http_port;     /* probes and metrics of worker i on http_port + i; 0: none */
    unsigned profiler_port; /* profiler of worker i on profiler_port + i; 0: none */
    bool restart;           /* restart lost workers */
    bool fresh;             /* --fresh for each worker started before any has trained */
    /* Receives events of the lowest running worker, and "done" of any, as JSON objects. */
    void (*event)(void *ctx, const struct qr_json *event);
    /* A worker is lost (or could not be restarted), while n_left others are running; NULL is
     * fine. */
    void (*lost)(void *ctx, unsigned worker, const char *sentence, unsigned n_left,
                 bool comes_back);
    /* Called several times a second while any is running; false: stop all, as by a signal. NULL is
     * fine. */
    bool (*go_on)(void *ctx);
    void *ctx;
};
struct qr_local_result {
    /* 0 on success, also when some were lost meanwhile; a worker's permanent code; 138 when all
     * were lost. */
    int exit_code;
    bool interrupted;  /* by a signal to this process */
    bool terminated;   /* the first signal was SIGTERM, not SIGINT */
    int worker;        /* first worker that failed; -1: none */
    char *sentence;    /* its error message, or how it ended; NULL without a failure. Heap */
    enum qr_code code; /* code of the message; QR_OK: no message */
    int signal;        /* signal that ended it; 0: none */
};
/* Runs the workers to their end.
 *
 * Args:     ret  its sentence is on the heap
 * Errors:   only when no worker could be started
 */
QR_MUST_CHECK enum qr_code qr_local_run(const struct qr_local_options *opt,
                                        struct qr_local_result *ret, struct qr_err *err);

#endif
