/* cmd/qring/destination.c — keeps a command from overwriting a file that it reads. Start reading at
 * qr_check_destination(). */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "cmd/qring/command.h"
#include "job/record.h"
#include "output/outputs.h"
#include "store/store.h"

/* True if the path is below the folder: its nearest parent that exists is. */
static bool is_below(const char *path, const char *folder) {
    qr_auto(qr_free_p) char *of = realpath(folder, NULL), *parent = qr_xstrdup(path), *real = NULL;
    while (of && !real) {
        char *slash = strrchr(parent, '/');
        if (slash) *slash = 0;
        real = realpath(!slash ? "." : *parent ? parent : "/", NULL);
        if (!slash) break;
    }
    size_t n = of ? strlen(of) : 0;
    return real && strncmp(real, of, n) == 0 && (real[n] == '/' || !real[n]);
}

static bool is_of_run(const char *url, const char *folder) {
    const char *path = qr_url_local_path(url), *run = qr_url_local_path(folder);
    static const char *const folders[] = {"checkpoints", "logs"};
    if (!path || !run) return false;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        qr_auto(qr_free_p) char *below = qr_path_join(run, folders[i]);
        if (is_below(path, below)) return true;
    }
    for (size_t i = 0; qr_outputs_file(i); i++) {
        qr_auto(qr_free_p) char *file = qr_path_join(run, qr_outputs_file(i));
        if (qr_url_same(url, file)) return true;
    }
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    qr_auto(qr_free_p) char *file = qr_path_join(run, name);
    return fnmatch("worker-*.log", name, 0) == 0 && qr_url_same(url, file);
}

enum qr_code qr_check_destination(const char *flag, const char *url, const char *const *inputs,
                                  size_t n, const struct qr_job *job, struct qr_err *err) {
    if (strcmp(url, "-") == 0) return QR_OK; /* standard output */
    bool is_read = job && qr_job_names_file(job, url);
    for (size_t i = 0; i < n && !is_read; i++)
        is_read = inputs[i] && (qr_url_same(url, inputs[i]) || is_of_run(url, inputs[i]));
    if (!is_read) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "cannot write %s (%s): the command reads this file, or the run that it reads "
                   "owns it; give another path",
                   url, flag);
}
