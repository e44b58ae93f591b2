/* base/mem.c — allocators that abort or return an error, and the memory limit. Start reading at
 * qr_large_new(). */
#include "base/mem.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cgroup.h"

static void *mem_require(void *p, size_t bytes) {
    if (p) return p;
    fprintf(stderr, "qring: out of memory (%zu bytes requested)\n", bytes);
    qr_abort();
}

void qr_check_memory(bool there, const char *what) {
    if (there) return;
    fprintf(stderr, "qring: out of memory (cannot initialize %s)\n", what);
    qr_abort();
}

void qr_memory_trim(void) {
    /* Reset the threshold to its initial value: glibc raises it to the size of a freed block and
     * then caches blocks below it. */
    (void)mallopt(M_MMAP_THRESHOLD, 128 << 10);
    (void)malloc_trim(0);
}

static size_t mem_checked_size(size_t count, size_t bytes) {
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total)) mem_require(NULL, SIZE_MAX);
    return total;
}

void *qr_xmalloc(size_t bytes) { return mem_require(malloc(bytes ? bytes : 1), bytes); }
void *qr_xcalloc(size_t count, size_t bytes) {
    size_t total = mem_checked_size(count, bytes);
    return mem_require(calloc(1, total ? total : 1), total);
}
void *qr_xrealloc(void *p, size_t bytes) {
    return mem_require(realloc(p, bytes ? bytes : 1), bytes);
}
void *qr_xreallocarray(void *p, size_t count, size_t bytes) {
    return qr_xrealloc(p, mem_checked_size(count, bytes));
}
char *qr_xstrdup(const char *s) { return qr_xstrndup(s, strlen(s)); }
char *qr_xstrndup(const char *s, size_t n) {
    n = strnlen(s, n);
    char *p = qr_xmalloc(n + 1);
    memcpy(p, s, n);
    p[n] = 0;
    return p;
}

char *qr_xasprintf(const char *fmt, ...) {
    char *p = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&p, fmt, ap);
    va_end(ap);
    return mem_require(n < 0 ? NULL : p, 1);
}

void *qr_xaligned(size_t bytes) {
    size_t rounded = (bytes + 63) & ~(size_t)63;
    if (!rounded) rounded = 64;
    void *p = NULL;
    if (posix_memalign(&p, 64, rounded) != 0) p = NULL;
    mem_require(p, rounded);
    memset(p, 0, rounded);
    return p;
}

enum qr_code qr_large_new(size_t count, size_t bytes, const char *what, void **ret_p,
                          struct qr_err *err) {
    enum { HUGE_PAGE = 2 << 20 };
    enum { SMALL = 1 << 16 }; /* below, the limit is not read: that takes longer than the work */
    const char *by = NULL;
    size_t total;
    bool over = __builtin_mul_overflow(count, bytes, &total) || total > SIZE_MAX - 64;
    uint64_t limit = over || total > SMALL ? qr_memory_limit_under("", &by) : UINT64_MAX;
    if (over)
        return qr_fail(err, QR_RESOURCE_EXHAUSTED,
                       "%s need more than 2^64 bytes; this process may use %llu bytes (%s)", what,
                       (unsigned long long)limit, by);
    if (total > limit)
        return qr_fail(err, QR_RESOURCE_EXHAUSTED,
                       "%s need %zu bytes; this process may use %llu bytes (%s)", what, total,
                       (unsigned long long)limit, by);
    void *p = NULL;
    size_t rounded = (total + 63) & ~(size_t)63;
    bool huge = total >= 2 * HUGE_PAGE;
    if (posix_memalign(&p, huge ? HUGE_PAGE : 64, rounded ? rounded : 64) != 0)
        return qr_fail(err, QR_RESOURCE_EXHAUSTED,
                       "%s need %zu bytes, which the system cannot allocate", what, total);
    /* A state vector is read in pieces of 128 bytes that lie far apart. */
    if (huge) (void)madvise(p, rounded & ~(size_t)(HUGE_PAGE - 1), MADV_HUGEPAGE);
    memset(p, 0, rounded ? rounded : 64);
    *ret_p = p;
    return QR_OK;
}

uint64_t qr_memory_limit_bytes(void) { return qr_memory_limit_under("", NULL); }

uint64_t qr_memory_limit_under(const char *root, const char **ret_by) {
    static const char *const whole[] = {"the machine's, no cgroup found",
                                        "the machine's, cgroup v1 sets no lower limit",
                                        "the machine's, cgroup v2 sets no lower limit"};
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    struct qr_cgroup c;
    qr_cgroup_read(root, &c);
    bool lower = c.memory_bytes < machine;
    if (ret_by) *ret_by = lower ? c.memory_by : whole[c.memory_version];
    return lower ? c.memory_bytes : machine;
}

void qr_free_p(void *pp) {
    void **p = pp;
    free(*p);
    *p = NULL;
}

void qr_close_p(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}
