/* base/mem.h — memory of ours.
 *
 * Two allocators. Small things: qr_x* end the process by SIGABRT when memory is out, with one line
 * on stderr that begins "qring: out of memory (": what is being written is then as whole as after
 * any other sudden end. Large things whose size comes from outside: qr_large_new fails with both
 * numbers in the message. Everything is released by free(). Nothing below train allocates during a
 * step.
 */
#ifndef QR_BASE_MEM_H
#define QR_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"

/* A local that is written before it is read, in a function that is called often: zeroing it, as the
 * build does, would cost as much as the work. */
#define QR_RAW __attribute__((uninitialized))

/* New memory, never NULL, that free() takes back: gcc's analyzer follows it from there. clang knows
 * no malloc with a function that takes back. */
#ifdef __clang__
#define QR_NEW __attribute__((malloc, returns_nonnull))
#else
#define QR_NEW __attribute__((malloc, malloc(free, 1), returns_nonnull))
#endif

QR_NEW void *qr_xmalloc(size_t bytes);
QR_NEW void *qr_xcalloc(size_t count, size_t bytes); /* zeroed */
void *qr_xrealloc(void *p, size_t bytes) __attribute__((returns_nonnull));
void *qr_xreallocarray(void *p, size_t count, size_t bytes) __attribute__((returns_nonnull));
QR_NEW char *qr_xstrdup(const char *s);
QR_NEW char *qr_xstrndup(const char *s, size_t n);
QR_NEW char *qr_xasprintf(const char *fmt, ...) QR_PRINTF(1, 2);

/* 64-byte aligned, zeroed; aborts when memory is out. */
QR_NEW void *qr_xaligned(size_t bytes);

/* 64-byte aligned, zeroed, for `what` ("state vectors"). RESOURCE_EXHAUSTED with bytes needed
 * and bytes there when it exceeds the memory limit of this process (qr_memory_limit_bytes),
 * or overflows. */
QR_MUST_CHECK enum qr_code qr_large_new(size_t count, size_t bytes, const char *what, void **ret_p,
                                        struct qr_err *err);

/* For libraries that tell only that they have no memory to begin with: not there ends as qr_x* do.
 * what: "libcurl". */
void qr_check_memory(bool there, const char *what);

/* Gives what was freed back to the system, and lets large pieces go back at once from now on: after
 * something large was read and turned into something else. */
void qr_memory_trim(void);

/* Bytes this process may use: the smaller of its cgroups' limits (base/cgroup.h) and physical
 * memory. Never 0. Reads /proc and /sys at each call. */
uint64_t qr_memory_limit_bytes(void);
/* The same with all files looked for below root ("" = this machine's own); ret_by (may be NULL): by
 * what it is limited, static ("cgroup v2, memory.max"). */
uint64_t qr_memory_limit_under(const char *root, const char **ret_by);

/* Releases at the end of the scope: qr_auto(qr_free_p) char *p = NULL; */
#define qr_auto(fn) __attribute__((cleanup(fn)))
void qr_free_p(void *pp); /* free(*(void **)pp) */
void qr_close_p(int *fd); /* close(*fd) when >= 0 */
/* Hands p out and leaves NULL behind. */
#define QR_MOVE(p)                                                                                 \
    ({                                                                                             \
        __typeof__(p) qr_moved = (p);                                                              \
        (p) = NULL;                                                                                \
        qr_moved;                                                                                  \
    })

#endif
