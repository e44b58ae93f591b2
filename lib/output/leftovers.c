/* output/leftovers.c — names of temporary files that interrupted writes leave, and their removal.
 * Start reading at qr_leftovers_remove(). */
#include "output/leftovers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "record/checkpoint.h"

enum { HEX_DIGITS = 8, PROBE_CHARS = 6 };

/* Offset of ".tmp-<pid>-<hex>" at the end of the first n characters; 0: not there. */
static size_t suffix_at(const char *name, size_t n) {
    static const char mark[] = ".tmp-";
    size_t at = n, digits = 0;
    if (n <= HEX_DIGITS || strspn(name + n - HEX_DIGITS, "0123456789abcdef") < HEX_DIGITS) return 0;
    at -= HEX_DIGITS + 1;
    if (name[at] != '-') return 0;
    for (; at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9'; at--) digits++;
    if (!digits || at < sizeof mark - 1) return 0;
    at -= sizeof mark - 1;
    return memcmp(name + at, mark, sizeof mark - 1) == 0 ? at : 0;
}

static bool is_probe(const char *name) {
    static const char head[] = ".qring-probe-";
    size_t n = sizeof head - 1;
    return strncmp(name, head, n) == 0 && strlen(name + n) == PROBE_CHARS;
}

bool qr_leftovers_has_name(const char *name) {
    static const char *const files[] = {"weights.h5",
                                        "weights.safetensors",
                                        "result.json",
                                        "provenance.json",
                                        "provenance.dsse.json",
                                        "job.json",
                                        "LATEST",
                                        "cost.json"};
    size_t n = strlen(name), at = suffix_at(name, n), next;
    if (is_probe(name)) return true;
    if (!at) return false;
    if ((next = suffix_at(name, at)) > 0) at = next; /* of a file that is created only once */
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strlen(files[i]) == at && memcmp(name, files[i], at) == 0) return true;
    qr_auto(qr_free_p) char *base = qr_xstrndup(name, at);
    return qr_checkpoint_has_name(base);
}

/* Returns the number of removed files. */
static unsigned remove_in(const char *path, int flags, time_t before_s, const struct qr_log *log) {
    struct stat st;
    struct qr_err err;
    const struct dirent *e;
    unsigned n = 0;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC | flags);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        if (fd >= 0) close(fd);
        return 0;
    }
    while ((e = readdir(d))) {
        if (!qr_leftovers_has_name(e->d_name)) continue;
        if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (!S_ISREG(st.st_mode) || st.st_mtim.tv_sec >= before_s) continue;
        if (unlinkat(fd, e->d_name, 0) == 0) {
            n++;
        } else {
            qr_fail_errno(&err, errno, "cannot remove %s/%s", path, e->d_name);
            qr_debug(log, "worker", "%s", err.msg);
        }
    }
    closedir(d);
    return n;
}

void qr_leftovers_remove(const char *dir, time_t before_s, const struct qr_log *log) {
    qr_auto(qr_free_p) char *checkpoints = qr_path_join(dir, "checkpoints");
    unsigned n = remove_in(dir, 0, before_s, log);
    n += remove_in(checkpoints, O_NOFOLLOW, before_s, log);
    if (n)
        qr_info(log, "worker", "removed %u temporary file%s of an interrupted write from %s", n,
                n == 1 ? "" : "s", dir);
}
