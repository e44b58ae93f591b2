/* base/mem.h — memory allocation.
 *
 * What      Two allocators. For small objects: qr_x* end the process by SIGABRT when memory is
 *           exhausted, after one line on stderr that begins "qring: out of memory (". Files being
 *           written are then as consistent as after any other sudden exit. For large objects whose
 *           size comes from input: qr_large_new returns an error with both sizes. Release all
 *           memory by free(). Components below train do not allocate during a step.
 * Threads   any.
 */
#ifndef QR_BASE_MEM_H
#define QR_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"

/* Marks a local variable that is written before it is read, in a function that is called often. The
 * build zeroes all other locals; here that would cost as much as the work. */
#define QR_RAW __attribute__((uninitialized))

/* Marks functions that return new memory, never NULL, to be released by free(), for gcc's analyzer.
 * clang does not support the deallocator argument. */
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

/* 64-byte aligned, zeroed; aborts when memory is exhausted. */
QR_NEW void *qr_xaligned(size_t bytes);

/* Allocates a large array, 64-byte aligned and zeroed; from 4 MiB on with huge pages, if the system
 * has them.
 *
 * Args:     count, bytes   elements, bytes of each
 *           what           plural noun for messages ("state vectors")
 *           ret_p          the array; caller frees
 * Errors:   RESOURCE_EXHAUSTED with bytes needed and bytes available when the size overflows or
 *           exceeds this process's memory limit (qr_memory_limit_bytes, read above 64 KiB only), or
 *           malloc fails
 */
QR_MUST_CHECK enum qr_code qr_large_new(size_t count, size_t bytes, const char *what, void **ret_p,
                                        struct qr_err *err);

/* Ends the process as qr_x* do when `there` is false: for the initialization of a library (`what`,
 * as "libcurl") that can fail only for lack of memory. */
void qr_check_memory(bool there, const char *what);

/* Returns freed memory to the system, and lets large blocks return immediately from now on. Call
 * after a large input was read and converted. */
void qr_memory_trim(void);

/* Returns the bytes this process may use: the least of its cgroups' limits (base/cgroup.h) and
 * physical memory. Never 0. Reads /proc and /sys at each call. */
uint64_t qr_memory_limit_bytes(void);
/* The same, with all files read below root ("" for this machine). *ret_by (may be NULL): what sets
 * the limit, static ("cgroup v2, memory.max"). */
uint64_t qr_memory_limit_under(const char *root, const char **ret_by);

/* Releases a variable at the end of its scope: qr_auto(qr_free_p) char *p = NULL; */
#define qr_auto(fn) __attribute__((cleanup(fn)))
void qr_free_p(void *pp); /* free(*(void **)pp), sets it to NULL */
void qr_close_p(int *fd); /* close(*fd) when >= 0, sets it to -1 */
/* Evaluates to p and zeroes p, a pointer or a struct: moves ownership out of a qr_auto variable. */
#define QR_MOVE(p)                                                                                 \
    ({                                                                                             \
        __typeof__(p) qr_moved = (p);                                                              \
        (p) = (__typeof__(p)){0};                                                                  \
        qr_moved;                                                                                  \
    })

#endif
