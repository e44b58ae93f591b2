/* local/sweep_end.c — publishes the results of a sweep, or deletes them. Start reading at
 * qr_local_sweep_publish(). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file.h"
#include "base/mem.h"
#include "job/record.h"
#include "local/local_sweep.h"
#include "output/run_checkpoints.h"
#include "store/store.h"

enum { MAX_FILE_BYTES = 1 << 30 };

static char *join_url(const char *url, const char *name) {
    size_t n = strlen(url);
    while (n > 1 && url[n - 1] == '/') n--;
    return qr_xasprintf("%.*s/%s", (int)n, url, name);
}

/* Writes to OUT, and to the board if that is elsewhere. */
static enum qr_code write_to_both(const struct qr_local_sweep_options *opt, const char *name,
                                  struct qr_bytes bytes, struct qr_err *err) {
    qr_auto(qr_free_p) char *here = join_url(opt->out, name),
                            *there = join_url(opt->board_url, name);
    QR_TRY(qr_file_replace(here, bytes, err));
    return strcmp(here, there) == 0 ? QR_OK : qr_url_write(there, bytes, err);
}

/* ---- best/ ---- */

enum { WEIGHTS, SAFETENSORS, RESULT, FILES };
static const char *const names[FILES] = {"weights.h5", "weights.safetensors", "result.json"};

static enum qr_code fail_not_its_file(const struct qr_local_sweep_options *opt,
                                      const struct qr_sweep_row *row, const char *from,
                                      struct qr_err *err) {
    qr_auto(qr_free_p) char *there = qr_local_trial_folder(opt->board_url, row->trial);
    return qr_fail(err, QR_DATA_LOSS,
                   "cannot publish the best trial's weights: %.200s is not the file that trial %zu "
                   "wrote; remove %.200s and %.200s/sweep/rows/%zu-%04zu.json, and the trial is "
                   "trained again",
                   from, row->trial, there, opt->board_url, row->rung, row->trial);
}

static bool has_digest(struct qr_bytes bytes, const char *hex) {
    uint8_t digest[QR_SHA256_BYTES];
    char text[2 * QR_SHA256_BYTES + 1];
    qr_sha256(bytes.p, bytes.n, digest);
    qr_hex(digest, sizeof digest, text);
    return strcmp(text, hex) == 0;
}

/* Checks that the row follows from this result.json. */
static bool result_matches_row(struct qr_bytes text, const char *from,
                               const struct qr_sweep_row *row) {
    qr_auto(qr_sweep_row_fini) struct qr_sweep_row found = {0};
    qr_auto(qr_buf_free) struct qr_buf there = {0}, here = {0};
    struct qr_err unread;
    if (qr_sweep_row_of_result(text, from, row->trial, row->rung, &found, &unread) != QR_OK)
        return false;
    qr_sweep_row_json(row, &there);
    qr_sweep_row_json(&found, &here);
    return there.n == here.n && memcmp(there.p, here.p, here.n) == 0;
}

/* Reads a file of the best trial, and checks it against the trial's row. */
static enum qr_code read_best(const struct qr_local_sweep_options *opt,
                              const struct qr_sweep_row *row, size_t which, const char *from,
                              struct qr_buf *ret, struct qr_err *err) {
    enum qr_code code = qr_url_read(from, MAX_FILE_BYTES, ret, err);
    if (code == QR_NOT_FOUND) return fail_not_its_file(opt, row, from, err);
    if (code != QR_OK) return code;
    struct qr_bytes b = qr_buf_view(ret);
    bool its = which == WEIGHTS       ? has_digest(b, row->weights_sha256)
               : which == SAFETENSORS ? has_digest(b, row->safetensors_sha256)
                                      : result_matches_row(b, from, row);
    return its ? QR_OK : fail_not_its_file(opt, row, from, err);
}

static enum qr_code trial_job_record(const struct qr_local_sweep_options *opt, size_t trial,
                                     struct qr_buf *ret, struct qr_err *err) {
    const struct qr_sweep_spec *s = opt->job->sweep;
    struct qr_job *job = NULL;
    QR_TRY(qr_job_trial(opt->job, trial, &job, err));
    qr_job_record(job, s->n_rungs > 1 ? s->epochs[s->n_rungs - 1] : job->train.epochs, ret);
    qr_job_free(job);
    return QR_OK;
}

static void free_files(struct qr_buf (*file)[FILES]) {
    for (size_t i = 0; i < FILES; i++) qr_buf_free(&(*file)[i]);
}

/* Removes those files of best/ in OUT that this sweep does not write: an earlier sweep's. */
static enum qr_code remove_others(const struct qr_local_sweep_options *opt, size_t n_written,
                                  struct qr_err *err) {
    qr_auto(qr_free_p) char *best = join_url(opt->out, "best");
    for (size_t i = n_written; i < FILES; i++) {
        qr_auto(qr_free_p) char *old = join_url(best, names[i]);
        if (unlink(old) != 0 && errno != ENOENT && errno != ENOTDIR)
            return qr_fail_errno(err, errno, "remove %s", old);
    }
    return QR_OK;
}

/* A board elsewhere has the weights; this machine may have none. */
static enum qr_code publish_best(const struct qr_local_sweep_options *opt,
                                 const struct qr_sweep_row *row, struct qr_err *err) {
    qr_auto(qr_free_p) char *best = join_url(opt->out, "best"),
                            *dir = qr_local_trial_folder(opt->out, row->trial),
                            *there = qr_local_trial_weights(opt->board_url, opt->job->sweep,
                                                            row->trial, row->rung);
    size_t n = strcmp(opt->board_url, opt->out) == 0 ? FILES : 1;
    qr_auto(free_files) struct qr_buf file[FILES] = {0};
    qr_auto(qr_buf_free) struct qr_buf job = {0};
    QR_TRY(trial_job_record(opt, row->trial, &job, err));
    for (size_t i = 0; i < n; i++) { /* check all before writing one */
        qr_auto(qr_free_p) char *from = n == 1 ? qr_xstrdup(there) : join_url(dir, names[i]);
        QR_TRY(read_best(opt, row, i, from, &file[i], err));
    }
    QR_TRY(qr_dir_make(best, err));
    QR_TRY(remove_others(opt, n, err));
    for (size_t i = 0; i < n; i++) {
        qr_auto(qr_free_p) char *to = join_url("best", names[i]);
        QR_TRY(write_to_both(opt, to, qr_buf_view(&file[i]), err));
    }
    return write_to_both(opt, "best/job.json", qr_buf_view(&job), err);
}

enum qr_code qr_local_sweep_publish(const struct qr_local_sweep_options *opt,
                                    const struct qr_sweep_rows *rows, struct qr_err *err) {
    qr_auto(qr_free_p) size_t *best = qr_xcalloc(rows->sweep->n_trials, sizeof *best);
    qr_auto(qr_buf_free) struct qr_buf csv = {0}, json = {0};
    qr_sweep_csv(rows, &csv);
    qr_sweep_json(rows, &json);
    if (qr_sweep_best(rows, best))
        QR_TRY(publish_best(opt, qr_sweep_row_at(rows, rows->sweep->n_rungs - 1, best[0]), err));
    else QR_TRY(remove_others(opt, 0, err));
    QR_TRY(write_to_both(opt, "sweep.csv", qr_buf_view(&csv), err));
    return write_to_both(opt, "sweep.json", qr_buf_view(&json), err);
}

/* Checks the folders of a trial: files below a symbolic link do not belong to the sweep. */
static enum qr_code check_trial_folders(const char *url, size_t trial, struct qr_err *err) {
    qr_auto(qr_free_p) char *trials = join_url(url, "trials"),
                            *dir = qr_local_trial_folder(url, trial);
    qr_auto(qr_free_p) char *checkpoints = join_url(dir, "checkpoints");
    if (qr_url_remote(url)) return QR_OK;
    QR_TRY(qr_dir_check_no_link(trials, err));
    QR_TRY(qr_dir_check_no_link(dir, err));
    return qr_dir_check_no_link(checkpoints, err);
}

enum qr_code qr_local_sweep_delete(const struct qr_local_sweep_options *opt,
                                   struct qr_sweep_board *board, struct qr_err *err) {
    size_t n = opt->job->sweep->n_trials;
    for (size_t t = 0; t < n; t++) {
        QR_TRY(check_trial_folders(opt->out, t, err));
        QR_TRY(check_trial_folders(opt->board_url, t, err));
    }
    QR_TRY(qr_sweep_board_delete(board, err));
    for (size_t t = 0; t < n; t++) {
        qr_auto(qr_free_p) char *here = qr_local_trial_folder(opt->out, t),
                                *there = qr_local_trial_folder(opt->board_url, t);
        qr_auto(qr_free_p) char *result = join_url(here, "result.json"),
                                *checkpoints = join_url(there, "checkpoints");
        if (unlink(result) != 0 && errno != ENOENT && errno != ENOTDIR)
            return qr_fail_errno(err, errno, "remove %s", result);
        QR_TRY(qr_run_checkpoints_delete(checkpoints, err));
    }
    return QR_OK;
}
