/* worker/budget.c — the cost of a run, its end at --max-cost, and reports of progress. Start
 * reading at worker_open_progress_reporter() and worker_over_budget().
 */
#include "base/mem.h"
#include "worker/worker_impl.h"

static const int64_t last_checkpoint_ns = 620 * QR_SECOND;

static const char *cost_url(const struct worker *w) {
    return w->price.per_pod_hour > 0 ? w->outputs.checkpoints_url : NULL;
}

enum qr_code worker_find_cost(struct worker *w, struct qr_err *err) {
    if (cost_url(w)) QR_TRY(qr_cost_read_url(cost_url(w), &w->pod_ms, err));
    if (!w->pod_ms) return QR_OK;
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    qr_cost_text(&w->price, w->pod_ms, &text);
    qr_info(&w->log, "worker", "the run has cost %s so far", qr_buf_string(&text));
    return QR_OK;
}

enum qr_code worker_delete_cost(struct worker *w, struct qr_err *err) {
    return cost_url(w) ? qr_cost_delete(cost_url(w), err) : QR_OK;
}

void worker_find_progress_target(struct worker *w, char *const *environment) {
    struct qr_err err;
    const char *account = w->settings.service_account;
    if (qr_progress_find(w->settings.progress_to, account ? account : QR_PROGRESS_ACCOUNT,
                         environment, &w->progress_target, &err) != QR_OK)
        qr_warn(&w->log, "worker", "progress is not reported: %s", err.msg);
}

enum qr_code worker_open_progress_reporter(struct worker *w, struct qr_err *err) {
    struct qr_progress_sink to[QR_PROGRESS_SINKS];
    size_t n = 0;
    if (cost_url(w)) QR_TRY(qr_cost_sink(cost_url(w), &w->price, &to[n++], err));
    if (w->progress_target.what) to[n++] = qr_progress_target_sink(&w->progress_target, NULL);
    enum qr_code code =
        n ? qr_progress_reporter_new(to, n, &w->log, &w->progress_reporter, err) : QR_OK;
    w->outputs.progress_reporter = w->progress_reporter;
    return code;
}

enum qr_code worker_over_budget(struct worker *w, const struct qr_train_result *result,
                                struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    bool checkpoint = w->publisher != NULL;
    qr_info(&w->log, "worker", "--max-cost reached after step %llu%s",
            (unsigned long long)result->steps,
            checkpoint ? "; writing a checkpoint and stopping" : "");
    QR_TRY(qr_outputs_flush(&w->outputs, err));
    if (checkpoint) QR_TRY(qr_publisher_finish(w->publisher, false, last_checkpoint_ns, err));
    qr_cost_text(&w->price, result->pod_ms, &text);
    return qr_fail(err, QR_OVER_BUDGET,
                   "the run has cost %s, and --max-cost is %s: ended after step %llu, %s",
                   qr_buf_string(&text), w->settings.max_cost ? w->settings.max_cost : "less",
                   (unsigned long long)result->steps,
                   checkpoint ? "with a checkpoint; a larger --max-cost continues from it"
                              : "without a checkpoint (--checkpoints none)");
}
