#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "job/record.h"
#include "local/sweep.h"
#include "output/place.h"
#include "store/store.h"

enum { MAX_FILE_BYTES = 1 << 30 };

static char *in(const char *url, const char *name) {
    size_t n = strlen(url);
    while (n > 1 && url[n - 1] == '/') n--;
    return qr_xasprintf("%.*s/%s", (int)n, url, name);
}

/* Into OUT, and to the board where that is another place. */
static enum qr_code write_both(const struct qr_local_sweep_options *opt, const char *name,
                               struct qr_bytes bytes, struct qr_err *err) {
    qr_auto(qr_free_p) char *here = in(opt->out, name), *there = in(opt->board_url, name);
    enum qr_code code = qr_file_replace(here, bytes, err);
    if (code == QR_OK && strcmp(here, there) != 0) code = qr_url_write(there, bytes, err);
    return code;
}

static enum qr_code copy_best(const struct qr_local_sweep_options *opt, const char *from,
                              const char *name, struct qr_err *err) {
    struct qr_buf bytes = {0};
    enum qr_code code = qr_url_read(from, MAX_FILE_BYTES, &bytes, err);
    if (code == QR_OK) code = write_both(opt, name, qr_buf_view(&bytes), err);
    qr_buf_free(&bytes);
    return code;
}

static enum qr_code publish_best(const struct qr_local_sweep_options *opt,
                                 const struct qr_sweep_row *row, struct qr_err *err) {
    const struct qr_sweep_spec *s = opt->job->sweep;
    qr_auto(qr_free_p) char *best = in(opt->out, "best"),
                            *dir = qr_local_trial_folder(opt->out, row->trial);
    qr_auto(qr_free_p) char *safetensors = in(dir, "weights.safetensors"),
                            *result = in(dir, "result.json"), *own = in(dir, "weights.h5");
    bool here = strcmp(opt->board_url, opt->out) == 0;
    qr_auto(qr_free_p) char *weights =
        !here ? qr_local_trial_weights(opt->board_url, s, row->trial, row->rung) : qr_xstrdup(own);
    struct qr_job *trial = NULL;
    struct qr_buf text = {0};
    if (qr_dir_make(best, err) != QR_OK) return err->code;
    enum qr_code code = copy_best(opt, weights, "best/weights.h5", err);
    if (code == QR_OK && here) code = copy_best(opt, safetensors, "best/weights.safetensors", err);
    if (code == QR_OK && here) code = copy_best(opt, result, "best/result.json", err);
    if (code == QR_OK) code = qr_job_trial(opt->job, row->trial, &trial, err);
    if (code != QR_OK) return code;
    qr_job_record(trial, s->n_rungs > 1 ? s->epochs[s->n_rungs - 1] : trial->train.epochs, &text);
    code = write_both(opt, "best/job.json", qr_buf_view(&text), err);
    qr_buf_free(&text);
    qr_job_free(trial);
    return code;
}

enum qr_code qr_local_sweep_publish(const struct qr_local_sweep_options *opt,
                                    const struct qr_sweep_rows *rows, struct qr_err *err) {
    qr_auto(qr_free_p) size_t *best = qr_xcalloc(rows->sweep->n_trials, sizeof *best);
    struct qr_buf csv = {0}, json = {0};
    qr_sweep_csv(rows, &csv);
    qr_sweep_json(rows, &json);
    enum qr_code code = QR_OK;
    if (qr_sweep_best(rows, best))
        code = publish_best(opt, qr_sweep_row_at(rows, rows->sweep->n_rungs - 1, best[0]), err);
    if (code == QR_OK) code = write_both(opt, "sweep.csv", qr_buf_view(&csv), err);
    if (code == QR_OK) code = write_both(opt, "sweep.json", qr_buf_view(&json), err);
    qr_buf_free(&csv);
    qr_buf_free(&json);
    return code;
}

/* The folders of a trial in this place: what lies below a link is not the sweep's. */
static enum qr_code check_folders(const char *url, size_t trial, struct qr_err *err) {
    qr_auto(qr_free_p) char *trials = in(url, "trials"), *dir = qr_local_trial_folder(url, trial);
    qr_auto(qr_free_p) char *checkpoints = in(dir, "checkpoints");
    if (qr_url_remote(url)) return QR_OK;
    enum qr_code code = qr_dir_check_no_link(trials, err);
    if (code == QR_OK) code = qr_dir_check_no_link(dir, err);
    return code == QR_OK ? qr_dir_check_no_link(checkpoints, err) : code;
}

enum qr_code qr_local_sweep_forget(const struct qr_local_sweep_options *opt,
                                   struct qr_sweep_board *board, struct qr_err *err) {
    size_t n = opt->job->sweep->n_trials;
    enum qr_code code = QR_OK;
    for (size_t t = 0; t < n && code == QR_OK; t++) {
        code = check_folders(opt->out, t, err);
        if (code == QR_OK) code = check_folders(opt->board_url, t, err);
    }
    if (code == QR_OK) code = qr_sweep_board_forget(board, err);
    for (size_t t = 0; t < n && code == QR_OK; t++) {
        qr_auto(qr_free_p) char *here = qr_local_trial_folder(opt->out, t),
                                *there = qr_local_trial_folder(opt->board_url, t);
        qr_auto(qr_free_p) char *result = in(here, "result.json"),
                                *checkpoints = in(there, "checkpoints");
        if (unlink(result) != 0 && errno != ENOENT && errno != ENOTDIR)
            return qr_fail_errno(err, errno, "remove %s", result);
        code = qr_place_forget(checkpoints, err);
    }
    return code;
}
