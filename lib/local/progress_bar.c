/* local/progress_bar.c — draws the progress of a worker. Start reading at qr_progress_event(). */
#include "local/progress_bar.h"

#include <string.h>

#include "base/text.h"

enum { BAR = 30 };
static const int64_t min_redraw_ns = INT64_C(50000000);

static int64_t event_i64(const struct qr_json *event, const char *key) {
    int64_t v = 0;
    (void)(qr_json_i64(qr_json_get(event, key), key, 0, INT64_C(1) << 53, &v, QR_IGNORED) == QR_OK);
    return v;
}

static double event_double(const struct qr_json *event, const char *key) {
    double v = 0;
    (void)(qr_json_double(qr_json_get(event, key), key, 0, 1e18, &v, QR_IGNORED) == QR_OK);
    return v;
}

static void bar_put(struct qr_buf *buf, uint64_t batch, uint64_t n_batches) {
    int filled = (int)(batch * BAR / n_batches);
    qr_buf_puts(buf, "[");
    for (int i = 0; i < BAR; i++)
        qr_buf_puts(buf, batch >= n_batches || i < filled - 1 ? "="
                         : i < filled || (i == 0 && !filled)  ? ">"
                                                              : ".");
    qr_buf_puts(buf, "]");
}

static void bar_put_per_step(struct qr_buf *buf, double seconds) {
    if (seconds >= 1) qr_buf_printf(buf, "%.0fs/step", seconds);
    else if (seconds >= 1e-3) qr_buf_printf(buf, "%.0fms/step", seconds * 1e3);
    else qr_buf_printf(buf, "%.0fus/step", seconds * 1e6);
}

static void bar_put_values(struct qr_buf *buf, const struct qr_json *values) {
    for (const struct qr_json *v = values ? qr_json_first(values) : NULL; v; v = qr_json_next(v)) {
        double number;
        if (qr_json_double(v, "", -1e308, 1e308, &number, QR_IGNORED) == QR_OK)
            qr_buf_printf(buf, " - %s: %s", qr_json_key(v), qr_text_number(number).s);
    }
}

void qr_progress_line(struct qr_buf *buf, uint64_t batch, uint64_t n_batches, double seconds,
                      double eta_seconds, const struct qr_json *values) {
    if (!n_batches) n_batches = 1;
    qr_buf_printf(buf, "%llu/%llu ", (unsigned long long)batch, (unsigned long long)n_batches);
    bar_put(buf, batch, n_batches);
    if (seconds < 0) {
        qr_buf_printf(buf, " - ETA: %.0fs", eta_seconds);
    } else {
        qr_buf_printf(buf, " - %.0fs ", seconds);
        bar_put_per_step(buf, seconds / (double)n_batches);
    }
    bar_put_values(buf, values);
}

static void bar_redraw(struct qr_progress *p, const char *line) {
    int n = (int)strlen(line);
    fprintf(p->out, "\r%s%*s", line, p->last_chars > n ? p->last_chars - n : 0, "");
    p->last_chars = n;
    fflush(p->out);
}

static void bar_put_epoch(struct qr_buf *buf, const struct qr_json *event) {
    qr_buf_printf(buf, "Epoch %lld/%lld - ", (long long)event_i64(event, "epoch"),
                  (long long)event_i64(event, "epochs"));
}

static void bar_on_batch(struct qr_progress *p, const struct qr_json *event) {
    int64_t epoch = event_i64(event, "epoch"), batch = event_i64(event, "batch"),
            n = event_i64(event, "batches"), now = qr_now_ns(p->clock);
    bool one_step = n == 1, begins = epoch != p->epoch;
    if (!p->terminal) return;
    if ((one_step || !begins) && now - p->drawn_ns < min_redraw_ns) return;
    if (begins) {
        p->epoch = epoch;
        p->epoch_began_ns = now;
        if (!one_step)
            fprintf(p->out, "Epoch %lld/%lld\n", (long long)epoch,
                    (long long)event_i64(event, "epochs"));
    }
    p->drawn_ns = now;
    double elapsed = (double)(now - p->epoch_began_ns) / 1e9;
    struct qr_buf line = {0};
    if (one_step) bar_put_epoch(&line, event);
    qr_progress_line(&line, (uint64_t)batch, (uint64_t)n, -1,
                     batch ? elapsed * (double)(n - batch) / (double)batch : 0,
                     qr_json_get(event, "values"));
    bar_redraw(p, qr_buf_string(&line));
    qr_buf_free(&line);
}

static void bar_on_epoch(struct qr_progress *p, const struct qr_json *event) {
    int64_t epoch = event_i64(event, "epoch"), epochs = event_i64(event, "epochs"),
            n = event_i64(event, "batches");
    struct qr_buf line = {0};
    bool one_step = n == 1;
    if (!p->terminal || one_step) bar_put_epoch(&line, event);
    else if (epoch != p->epoch)
        fprintf(p->out, "Epoch %lld/%lld\n", (long long)epoch, (long long)epochs);
    qr_progress_line(&line, (uint64_t)n, (uint64_t)n, event_double(event, "seconds"), 0,
                     qr_json_get(event, "values"));
    p->epoch = epoch;
    if (p->terminal) bar_redraw(p, qr_buf_string(&line));
    else fputs(qr_buf_string(&line), p->out);
    if (!p->terminal || !one_step) { /* otherwise the next epoch's line replaces this one */
        fputc('\n', p->out);
        p->last_chars = 0;
    }
    fflush(p->out);
    qr_buf_free(&line);
}

void qr_progress_event(struct qr_progress *p, const struct qr_json *event) {
    const char *kind = qr_json_text(qr_json_get(event, "event"), "");
    if (strcmp(kind, "progress") == 0) bar_on_batch(p, event);
    if (strcmp(kind, "epoch") == 0) bar_on_epoch(p, event);
}

void qr_progress_end(struct qr_progress *p) {
    if (p->last_chars) fputc('\n', p->out);
    p->last_chars = 0;
    fflush(p->out);
}
