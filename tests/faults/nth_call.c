/* The Nth call that changes a file below $QR_NTH_BELOW: preloaded into qringd, that call fails with
 * EIO, or the process ends at it by SIGKILL ($QR_NTH_HOW "kill"). $QR_NTH: N, from 1. Every such
 * call is noted in $QR_NTH_BELOW.calls, a line each. */
#undef _FORTIFY_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/real.h"

static atomic_long calls;

/* True: this call fails, errno is set. */
static bool is_nth(const char *call, const char *path) {
    const char *below = getenv("QR_NTH_BELOW"), *n = getenv("QR_NTH"), *how = getenv("QR_NTH_HOW");
    char line[600], name[512];
    if (!below || !n || strncmp(path, below, strlen(below)) != 0) return false;
    long at = atomic_fetch_add(&calls, 1) + 1;
    int size = snprintf(line, sizeof line, "%ld %s %s\n", at, call, path + strlen(below));
    snprintf(name, sizeof name, "%s.calls", below);
    int fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd >= 0) {
        (void)!syscall(SYS_write, fd, line, (size_t)size);
        close(fd);
    }
    if (at != atol(n)) return false;
    if (how && strcmp(how, "kill") == 0) kill(getpid(), SIGKILL);
    errno = EIO;
    return true;
}

static bool is_nth_of(const char *call, int fd) {
    char link[40], path[512];
    if (!getenv("QR_NTH_BELOW")) return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0) return false;
    path[n] = 0;
    return is_nth(call, path);
}

int unlink(const char *path) {
    REAL(unlink);
    return is_nth("unlink", path) ? -1 : real(path);
}
int rename(const char *from, const char *to) {
    REAL(rename);
    return is_nth("rename", to) ? -1 : real(from, to);
}
int link(const char *from, const char *to) {
    REAL(link);
    return is_nth("link", to) ? -1 : real(from, to);
}
int ftruncate(int fd, off_t size) {
    REAL(ftruncate);
    return is_nth_of("ftruncate", fd) ? -1 : real(fd, size);
}
ssize_t write(int fd, const void *p, size_t n) {
    REAL(write);
    return is_nth_of("write", fd) ? -1 : real(fd, p, n);
}
ssize_t pwrite(int fd, const void *p, size_t n, off_t at) {
    REAL(pwrite);
    return is_nth_of("pwrite", fd) ? -1 : real(fd, p, n, at);
}
