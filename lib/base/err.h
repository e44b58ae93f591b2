/* base/err.h — why a call failed, and what its caller should do about it.
 *
 * What      One code enum (the canonical RPC codes with gRPC's numbers, and three of its own) and
 *           one struct with a sentence for a person. Plain data on the caller's stack; owns
 *           nothing.
 * Use       QR_TRY(qr_x(..., err));
 *           if (qr_x(..., err) != QR_OK) return qr_wrap(err, "read job %s", path);
 * Messages  say what, where and what to do; outermost context first: "read job a.json:
 *           model[0]: ...".
 * Threads   an error object belongs to one thread. There is no global error.
 */
#ifndef QR_BASE_ERR_H
#define QR_BASE_ERR_H

#include <stdbool.h>

#define QR_MUST_CHECK __attribute__((warn_unused_result))
#define QR_PRINTF(fmt_ix, arg_ix) __attribute__((format(printf, fmt_ix, arg_ix)))

enum qr_code {
    QR_OK = 0,
    QR_CANCELLED = 1, /* SIGTERM drain: save and leave */
    QR_UNKNOWN = 2,
    QR_INVALID_ARGUMENT = 3,  /* settings, job file, TF_CONFIG, circuit: stop, exit 2 */
    QR_DEADLINE_EXCEEDED = 4, /* a bounded wait ran out: please retry */
    QR_NOT_FOUND = 5,         /* a file or object that should exist */
    QR_ALREADY_EXISTS = 6,    /* port in use, object that must be new */
    QR_PERMISSION_DENIED = 7,
    QR_RESOURCE_EXHAUSTED = 8, /* memory or disk, full or broken; numbers are in the message */
    QR_FAILED_PRECONDITION =
        9,           /* other settings than the ring's; a create-only put or a swap that was lost */
    QR_ABORTED = 10, /* the generation changed: redo the step in the new group */
    QR_OUT_OF_RANGE = 11, /* a number left the range of the arithmetic (NaN, |x| >= 2^40) */
    QR_UNIMPLEMENTED = 12,
    QR_INTERNAL = 13,    /* a broken invariant of qring: stop and report */
    QR_UNAVAILABLE = 14, /* a peer or service is gone: please retry */
    QR_DATA_LOSS = 15,   /* a damaged or inconsistent file; bad values in data */
    QR_UNAUTHENTICATED = 16,
    /* qring's own: */
    QR_OVER_BUDGET = 17, /* --max-cost is reached; a checkpoint was written */
    QR_DIFFERS = 18,     /* qring verify: a line, a file or a recomputed step differs */
    /* qring verify: no chain, another arithmetic, unchecked files, or a run that goes on after its
     * result */
    QR_UNPROVEN = 19,
};

enum { QR_ERR_MSG_BYTES = 768 };

/* The err of a call whose code alone matters. */
#define QR_IGNORED (&(struct qr_err){.code = QR_OK})

struct qr_err {
    enum qr_code code;
    int sys;          /* errno at the time, or 0 */
    const char *file; /* source file of the failing call; static */
    int line;
    /* Always terminated; cut with "..." when too long; printable (base/text.h) */
    char msg[QR_ERR_MSG_BYTES];
};

/* err is never NULL in any function of qring. */
#define QR_ERR_REQUIRED __attribute__((nonnull(1)))

/* Fills *err and returns code. code is not QR_OK. */
enum qr_code qr_fail_at(struct qr_err *err, enum qr_code code, const char *file, int line,
                        const char *fmt, ...) QR_ERR_REQUIRED QR_PRINTF(5, 6);
#define qr_fail(err, code, ...) qr_fail_at((err), (code), __FILE__, __LINE__, __VA_ARGS__)

/* As qr_fail, with the code and text that belong to an errno value taken by the caller;
 * the message becomes "…: No such file or directory". That of EMFILE names the limit to raise. */
enum qr_code qr_fail_errno_at(struct qr_err *err, int sys, const char *file, int line,
                              const char *fmt, ...) QR_ERR_REQUIRED QR_PRINTF(5, 6);
#define qr_fail_errno(err, sys, ...) qr_fail_errno_at((err), (sys), __FILE__, __LINE__, __VA_ARGS__)

/* Puts "context: " in front of the message and returns err->code. */
enum qr_code qr_wrap(struct qr_err *err, const char *fmt, ...) QR_ERR_REQUIRED QR_PRINTF(2, 3);

/* Returns the code of a call that failed from the calling function. Locals that own something are
 * released by qr_auto (base/mem.h). */
#define QR_TRY(expr)                                                                               \
    do {                                                                                           \
        enum qr_code qr_try_code = (expr);                                                         \
        if (qr_try_code != QR_OK) {                                                                \
            return qr_try_code;                                                                    \
        }                                                                                          \
    } while (0)

/* "INVALID_ARGUMENT" … ; "?" for a number outside the enum. Static. */
const char *qr_code_name(enum qr_code code);

/* The process exit code that belongs to an error (deploy/runbook.md lists them): 0 for QR_OK;
 * 2 usage or job file (INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED,
 * RESOURCE_EXHAUSTED, UNIMPLEMENTED, UNAUTHENTICATED), 3 FAILED_PRECONDITION (refused by the job's
 * leader), 4 bad data (DATA_LOSS, OUT_OF_RANGE), 5 OVER_BUDGET, 6 DIFFERS, 7 UNPROVEN, 138 "please
 * retry" (UNAVAILABLE, ABORTED, DEADLINE_EXCEEDED), 143 CANCELLED, 1 otherwise. */
int qr_exit_code(enum qr_code code);

/* For bugs of qring only, never for input. Prints the condition and aborts. On in every build. */
#define QR_ASSERT(cond) ((cond) ? (void)0 : qr_assert_failed(#cond, __FILE__, __LINE__))
_Noreturn void qr_assert_failed(const char *cond, const char *file, int line);
/* Calls abort(). The caller has printed the reason to stderr. */
_Noreturn void qr_abort(void);
/* True after a call of qr_abort. Any thread, also in a signal handler. */
bool qr_abort_reported(void);

enum { QR_PATH_BYTES = 256 };
/* The path of a value in a document ("model[0].circuit"), for messages; a very long one is cut. */
struct qr_path {
    char s[QR_PATH_BYTES];
};
struct qr_path qr_path_of(const char *fmt, ...) QR_PRINTF(1, 2);

#endif
