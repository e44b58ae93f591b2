/* output/run_summary.c — texts at the end of a run: why training stopped, the best epoch, the
 * values of the weights that are written, the confusion matrix. Start reading at
 * outputs_why_stopped(). */
#include "base/mem.h"
#include "base/text.h"
#include "output/outputs_impl.h"

char *outputs_why_stopped(const struct qr_train_spec *t, const struct qr_train_result *r,
                          uint64_t epochs) {
    const struct qr_early_stopping *e = &t->early_stopping;
    struct qr_buf b = {0};
    if (r->ended)
        return qr_xasprintf("stopped after step %llu of %llu: %s: %s", (unsigned long long)r->steps,
                            (unsigned long long)epochs, qr_optimizer_names[t->optimizer.kind],
                            r->ended);
    qr_buf_printf(&b, "stopped early after epoch %llu of %llu: %s has not improved",
                  (unsigned long long)r->epochs, (unsigned long long)epochs, e->monitor);
    if (e->min_delta > 0) qr_buf_printf(&b, " by more than %g", e->min_delta);
    if (e->patience > 1) qr_buf_printf(&b, " for %llu epochs", (unsigned long long)e->patience);
    return (char *)b.p;
}

char *outputs_best_text(const struct qr_early_stopping *e, const struct qr_train_result *r) {
    const char *of = r->restored           ? "that epoch's"
                     : r->evaluated_at_end ? "an average of the trained ones"
                                           : "the last epoch's";
    if (!e->on || !r->best_epoch)
        return r->evaluated_at_end ? qr_xasprintf("the weights are %s", of) : NULL;
    return qr_xasprintf("best epoch %llu: %s %s; the weights are %s",
                        (unsigned long long)r->best_epoch, e->monitor, qr_text_number(r->best).s,
                        of);
}

struct qr_named_value *outputs_values(const struct qr_train_result *r, size_t *ret_n) {
    struct qr_named_value *v = qr_xcalloc(r->n_metrics + 2, sizeof *v);
    size_t n = 0, own = r->n_metrics - r->n_logged, training = r->has_val ? own / 2 : own;
    v[n++] = (struct qr_named_value){"loss", r->loss};
    for (size_t i = 0; i < training; i++) v[n++] = r->metrics[i];
    if (r->has_val) v[n++] = (struct qr_named_value){"val_loss", r->val_loss};
    for (size_t i = training; i < r->n_metrics; i++) v[n++] = r->metrics[i];
    *ret_n = n;
    return v;
}

char *outputs_confusion_text(const struct qr_train_result *r) {
    enum { SHOWN = 20 };
    const uint64_t *counts = r->has_val ? r->confusion.validation : r->confusion.training;
    const char *samples = r->has_val ? "validation" : "training";
    size_t n = r->confusion.n;
    struct qr_buf b = {0};
    if (n > SHOWN) return qr_xasprintf("confusion matrix of %zu classes: see result.json", n);
    qr_buf_printf(
        &b, "confusion matrix of the %s samples (rows: labels, columns: predictions):", samples);
    for (size_t i = 0; i < n * n; i++)
        qr_buf_printf(&b, "%s%7llu", i % n ? "" : "\n", (unsigned long long)counts[i]);
    return (char *)QR_MOVE(b.p);
}
