#include "base/mem.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void *check(void *p, size_t bytes) {
    if (p) return p;
    fprintf(stderr, "qring: out of memory (%zu bytes wanted)\n", bytes);
    qr_abort();
}

void qr_check_memory(bool there, const char *what) {
    if (there) return;
    fprintf(stderr, "qring: out of memory (%s cannot begin)\n", what);
    qr_abort();
}

void qr_give_back(void) {
    /* its first value: glibc raises it to the size of what was freed, and keeps pieces below it */
    (void)mallopt(M_MMAP_THRESHOLD, 128 << 10);
    (void)malloc_trim(0);
}

static size_t product(size_t count, size_t bytes) {
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total)) check(NULL, SIZE_MAX);
    return total;
}

void *qr_xmalloc(size_t bytes) { return check(malloc(bytes ? bytes : 1), bytes); }
void *qr_xcalloc(size_t count, size_t bytes) {
    size_t total = product(count, bytes);
    return check(calloc(1, total ? total : 1), total);
}
void *qr_xrealloc(void *p, size_t bytes) { return check(realloc(p, bytes ? bytes : 1), bytes); }
void *qr_xreallocarray(void *p, size_t count, size_t bytes) {
    return qr_xrealloc(p, product(count, bytes));
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
    return check(n < 0 ? NULL : p, 1);
}

void *qr_xaligned(size_t bytes) {
    size_t rounded = (bytes + 63) & ~(size_t)63;
    if (!rounded) rounded = 64;
    void *p = NULL;
    if (posix_memalign(&p, 64, rounded) != 0) p = NULL;
    check(p, rounded);
    memset(p, 0, rounded);
    return p;
}

enum qr_code qr_large_new(size_t count, size_t bytes, const char *what, void **ret_p,
                          struct qr_err *err) {
    uint64_t limit = qr_memory_limit_bytes();
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total) || total > SIZE_MAX - 64)
        return qr_fail(err, QR_RESOURCE_EXHAUSTED,
                       "%s need more than 2^64 bytes; this process may use %llu bytes", what,
                       (unsigned long long)limit);
    if (total > limit)
        return qr_fail(err, QR_RESOURCE_EXHAUSTED,
                       "%s need %zu bytes; this process may use %llu bytes", what, total,
                       (unsigned long long)limit);
    void *p = NULL;
    size_t rounded = (total + 63) & ~(size_t)63;
    if (posix_memalign(&p, 64, rounded ? rounded : 64) != 0)
        return qr_fail(err, QR_RESOURCE_EXHAUSTED, "%s need %zu bytes, which the system refused",
                       what, total);
    memset(p, 0, rounded ? rounded : 64);
    *ret_p = p;
    return QR_OK;
}

/* One decimal number from a small file; UINT64_MAX when absent or "max". */
static uint64_t number_in(const char *root, const char *name) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s%s", root, name) >= (int)sizeof path) return UINT64_MAX;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return UINT64_MAX;
    char text[64];
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    uint64_t v = 0;
    if (n <= 0 || text[0] < '0' || text[0] > '9') return UINT64_MAX;
    for (ssize_t i = 0; i < n && text[i] >= '0' && text[i] <= '9'; i++) {
        if (v > (UINT64_MAX - 9) / 10) return UINT64_MAX;
        v = v * 10 + (uint64_t)(text[i] - '0');
    }
    return v;
}

uint64_t qr_memory_limit_bytes(void) { return qr_memory_limit_bytes_under(""); }

uint64_t qr_memory_limit_bytes_under(const char *root) {
    uint64_t limit = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    /* inside a container both hierarchies are mounted at their roots */
    static const char *const files[] = {"/sys/fs/cgroup/memory.max",
                                        "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    for (size_t i = 0; i < 2; i++) {
        uint64_t v = number_in(root, files[i]);
        if (v > 0 && v < limit) limit = v;
    }
    return limit;
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
