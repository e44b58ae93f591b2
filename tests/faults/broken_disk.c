/* A disk that breaks for one process: preloaded into qringd, the calls named in the file
 * $QR_BROKEN_DISK.ctl ("fsync write", with "EIO" or another errno in front) fail for every path
 * below $QR_BROKEN_DISK. Without that file it does nothing. */
#undef _FORTIFY_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/real.h"

static bool below(const char *path) {
    const char *root = getenv("QR_BROKEN_DISK");
    return root && strncmp(path, root, strlen(root)) == 0;
}
static bool fails(const char *call) {
    char text[128] = "", name[256];
    snprintf(name, sizeof name, "%s.ctl", getenv("QR_BROKEN_DISK"));
    FILE *f = fopen(name, "r");
    if (!f) return false;
    bool yes = fgets(text, sizeof text, f) && strstr(text, call);
    fclose(f);
    errno = strstr(text, "EROFS") ? EROFS : strstr(text, "ENOSPC") ? ENOSPC : EIO;
    return yes;
}
static bool broken(int fd, const char *call) {
    char link[40], path[512];
    if (!getenv("QR_BROKEN_DISK")) return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0) return false;
    path[n] = 0;
    return below(path) && fails(call);
}

int fsync(int fd) {
    REAL(fsync);
    return broken(fd, "fsync") ? -1 : real(fd);
}
ssize_t write(int fd, const void *p, size_t n) {
    REAL(write);
    return broken(fd, "write") ? -1 : real(fd, p, n);
}
ssize_t pwrite(int fd, const void *p, size_t n, off_t at) {
    REAL(pwrite);
    return broken(fd, "write") ? -1 : real(fd, p, n, at);
}
int rename(const char *from, const char *to) {
    REAL(rename);
    return below(to) && fails("rename") ? -1 : real(from, to);
}
