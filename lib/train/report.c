/* train/report.c — which lines and states of a run are reported, and when. Start reading at
 * train_report(). */
#include <string.h>

#include "base/counter.h"
#include "base/mem.h"
#include "train/train_impl.h"

static const char line_end[] = "}\n";

void train_chain(struct train_run *r, struct qr_state *s, struct qr_step_values *line) {
    struct qr_named_value metrics[QR_LINE_VALUES], logged[QR_MAX_LOGGED];
    struct qr_step_line l;
    struct qr_buf *text = &r->next_text;
    char hex[QR_CHAIN_HEX + 1];
    qr_buf_clear(text);
    if (!qr_chain_known(r->state.chain)) return;
    qr_logged_line(r->job, r->opt->model, line, metrics, logged, &l);
    qr_step_json(&l, text);
    text->n -= sizeof line_end - 1;
    qr_chain_next(r->state.chain, qr_buf_view(text), s->chain);
    memcpy(line->chain, s->chain, sizeof line->chain);
    qr_hex(s->chain, sizeof s->chain, hex);
    qr_buf_puts(text, QR_CHAIN_KEY);
    qr_buf_puts(text, hex);
    qr_buf_puts(text, "\"");
    qr_buf_puts(text, line_end);
}

/* The text of the line that led to the state, unless that line was fetched. */
static struct qr_bytes text_of(const struct train_run *r, const struct qr_step_line *line) {
    size_t end = QR_CHAIN_HEX + 1 + sizeof line_end - 1;
    bool same = *line->chain && r->text.n > end &&
                memcmp(r->text.p + r->text.n - end, line->chain, QR_CHAIN_HEX) == 0;
    return same ? qr_buf_view(&r->text) : (struct qr_bytes){0};
}

static void set_lines(struct train_run *r) {
    for (size_t k = 0; k < r->lines.n; k++)
        qr_logged_line(r->job, r->opt->model, &r->lines.line[k], r->reported_metrics[k],
                       r->reported_logged[k], &r->reported[k]);
    if (r->lines.n) {
        struct qr_step_line *last = &r->reported[r->lines.n - 1];
        last->text = text_of(r, last);
    }
}

/* Keras' running means: sums since the epoch began over samples since then. */
static void running_means(const struct train_run *r, struct qr_named_value *ret) {
    const struct qr_state *s = &r->state;
    for (size_t i = 0; i < r->n_values; i++)
        ret[i].value = qr_model_running_mean(r->opt->model, i, s->sums, s->sums[s->n_sums]);
}

enum qr_code train_report(struct train_run *r, struct qr_err *err) {
    if (r->lines.n == 0 || (!r->lines.waits && (r->reported_leading || !train_leads(r))))
        return QR_OK;
    const struct qr_step_values *last = &r->lines.line[r->lines.n - 1];
    uint64_t place = 2 * last->step + last->eval;
    bool again = place <= r->last_reported;
    r->lines.waits = false;
    r->reported_leading = train_leads(r);
    if (train_leads(r) && !again) r->last_reported = place;
    if (last->eval) {
        qr_gauge_real(QR_VAL_LOSS, last->value[0]);
    } else {
        qr_gauge(QR_STEP, (int64_t)last->step);
        qr_gauge(QR_EPOCH, (int64_t)last->epoch);
        qr_gauge_real(QR_LOSS, last->value[0]);
    }
    qr_logged_publish(r->job, r->opt->model, last);
    const struct qr_train_observer *o = &r->opt->observer;
    if (!o->step || again) return QR_OK;
    set_lines(r);
    running_means(r, r->values);
    const struct qr_step_detail detail = {
        .weights = r->state.weights,
        .gradient = last->eval ? NULL : r->gradient,
        .ends_epoch = last->ends_epoch,
        .readouts = qr_model_n_readouts(r->opt->model) ? last->readouts : NULL,
        .readout_bound = qr_model_readout_bound(r->opt->model),
        .learning_rate = qr_learning_rate_at(&r->job->train.optimizer, r->state.step),
        .pod_ms = qr_pod_time_ms(&r->pod_time, qr_now_ns(r->opt->clock)),
        .running = r->values,
        .n_running = r->n_values,
        .before = r->reported,
        .n_before = r->lines.n - 1,
    };
    return o->step(o->ctx, train_leads(r), &r->reported[r->lines.n - 1], &detail, err);
}

enum qr_code train_report_again(struct train_run *r, struct qr_err *err) {
    const struct qr_train_observer *o = &r->opt->observer;
    size_t n = r->lines.n - r->lines.waits;
    if (!o->reported || n == 0) return QR_OK;
    set_lines(r);
    return o->reported(o->ctx, train_leads(r), r->reported, n, err);
}

enum qr_code train_note_committed(struct train_run *r, struct qr_err *err) {
    const struct qr_train_observer *o = &r->opt->observer;
    if (train_report(r, err) != QR_OK) return err->code;
    return o->committed ? o->committed(o->ctx, train_leads(r), &r->state, err) : QR_OK;
}

void train_show_values(struct train_run *r) {
    running_means(r, r->values);
    for (size_t i = 0; i < r->n_values; i++) r->val_values[i].value = r->state.validation[i];
}

void train_show(struct train_run *r, const struct qr_step_values *line) {
    const struct qr_train_observer *o = &r->opt->observer;
    if (!line->eval) {
        uint64_t batch = line->step - (line->epoch - 1) * r->n_batches;
        qr_count(QR_STEPS, 1);
        if (o->progress)
            o->progress(o->ctx, line->epoch, r->epochs, batch, r->n_batches, r->values,
                        r->n_values);
    }
    if (!line->ends_epoch || !o->epoch) return;
    memcpy(r->epoch_values, r->values, r->n_values * sizeof *r->values);
    memcpy(r->epoch_values + r->n_values, r->val_values, r->n_values * sizeof *r->values);
    double seconds = (double)(qr_now_ns(r->opt->clock) - r->epoch_began_ns) / (double)QR_SECOND;
    o->epoch(o->ctx, line->epoch, r->epochs, r->n_batches, seconds, r->epoch_values,
             r->n_values * (r->has_val ? 2 : 1));
}
