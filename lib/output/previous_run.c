/* output/previous_run.c — finds the files of an earlier run at start, and replaces them when a new
 * run starts. Start reading at qr_previous_run_replace(). */
#include "output/previous_run.h"

#include <errno.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "output/job_file.h"

/* In the order of removal: the file that says that a run has finished comes first. */
enum { JOB = QR_PREVIOUS_FILES - 1 };
static const char *const names[QR_PREVIOUS_FILES] = {"result.json",         "provenance.dsse.json",
                                                     "provenance.json",     "weights.h5",
                                                     "weights.safetensors", "job.json"};

void qr_previous_run_init(struct qr_previous_run *f, const char *dir) {
    *f = (struct qr_previous_run){.dir = qr_xstrdup(dir)};
    for (int i = 0; i < QR_PREVIOUS_FILES; i++) {
        qr_auto(qr_free_p) char *path = qr_path_join(dir, names[i]);
        f->present[i] = lstat(path, &f->found[i]) == 0;
    }
}

void qr_previous_run_fini(struct qr_previous_run *f) { free(f->dir); }

/* *ret: the file has not changed since qr_previous_run_init. */
static enum qr_code check_unchanged(const struct qr_previous_run *f, int i, const char *path,
                                    bool *ret, struct qr_err *err) {
    struct stat is;
    const struct stat *found = &f->found[i];
    *ret = false;
    if (!f->present[i]) return QR_OK;
    if (lstat(path, &is) != 0)
        return errno == ENOENT ? QR_OK : qr_fail_errno(err, errno, "%s", path);
    *ret = is.st_dev == found->st_dev && is.st_ino == found->st_ino &&
           is.st_size == found->st_size && is.st_mtim.tv_sec == found->st_mtim.tv_sec &&
           is.st_mtim.tv_nsec == found->st_mtim.tv_nsec;
    return QR_OK;
}

static enum qr_code replace_one(const struct qr_previous_run *f, int i, const struct qr_job *job,
                                uint64_t epochs, struct qr_err *err) {
    qr_auto(qr_free_p) char *path = qr_path_join(f->dir, names[i]);
    bool same;
    QR_TRY(check_unchanged(f, i, path, &same, err));
    if (!same) return QR_OK;
    if (i == JOB) return job ? qr_job_file_write(f->dir, job, epochs, err) : QR_OK;
    if (unlink(path) == 0 || errno == ENOENT) return QR_OK;
    return qr_fail_errno(err, errno, "cannot remove %s of an earlier run", path);
}

enum qr_code qr_previous_run_replace(struct qr_previous_run *f, struct qr_steps_log *steps,
                                     const struct qr_job *job, uint64_t epochs,
                                     struct qr_err *err) {
    if (f->replaced) return QR_OK;
    for (int i = 0; i < JOB; i++) QR_TRY(replace_one(f, i, job, epochs, err));
    QR_TRY(qr_steps_log_truncate(steps, err));
    QR_TRY(replace_one(f, JOB, job, epochs, err));
    f->replaced = true;
    return QR_OK;
}
