/* output/progress.c — progress as JSON lines, for the process that started this worker (qring run).
 * Start reading at outputs_on_progress(). */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include "base/text.h"
#include "output/outputs_impl.h"

/* True if PIPE_BUF bytes can be written without blocking, now or within wait_ms. */
static bool has_room(const struct qr_outputs *o, int wait_ms) {
    struct pollfd p = {.fd = o->progress_fd, .events = POLLOUT};
    int n;
    do n = poll(&p, 1, wait_ms);
    while (n < 0 && errno == EINTR);
    return n == 1;
}

void outputs_emit(struct qr_outputs *o, int wait_ms) {
    size_t at = 0;
    qr_buf_puts(&o->line, "\n");
    while (at < o->line.n && has_room(o, o->reader_stalled ? 0 : wait_ms)) {
        size_t left = o->line.n - at, piece = left < PIPE_BUF ? left : PIPE_BUF;
        ssize_t n = write(o->progress_fd, o->line.p + at, piece);
        if (n <= 0) break;
        at += (size_t)n;
        o->reader_stalled = false;
    }
    if (at < o->line.n && wait_ms) o->reader_stalled = true;
    o->cut_line = at > 0 && at < o->line.n;
    qr_buf_clear(&o->line);
}

void outputs_emit_last(struct qr_outputs *o) {
    o->reader_stalled = false;
    outputs_emit(o, READER_WITHIN_MS);
}

struct qr_json_writer outputs_line(struct qr_outputs *o, const char *event) {
    qr_buf_clear(&o->line);
    if (o->cut_line) qr_buf_puts(&o->line, "\n"); /* end the cut line, so that this one is whole */
    struct qr_json_writer w = qr_json_writer(&o->line, 0);
    qr_json_open(&w, '{');
    qr_json_key_string(&w, "event", event);
    return w;
}

void outputs_put_u64(struct qr_json_writer *w, const char *key, uint64_t v) {
    qr_json_key_i64(w, key, (int64_t)v);
}

/* Selects the values that are single numbers. */
static size_t choose_numbers(const struct qr_named_value *values, size_t n,
                             struct qr_named_value *ret) {
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (qr_metric_is_number(values[i].name)) ret[k++] = values[i];
    return k;
}

void outputs_on_progress(void *ctx, uint64_t epoch, uint64_t epochs, uint64_t batch,
                         uint64_t n_batches, const struct qr_named_value *running, size_t n) {
    struct qr_outputs *o = ctx;
    o->snapshot.steps = epochs * n_batches;
    if (o->progress_fd < 0) return;
    struct qr_json_writer w = outputs_line(o, "progress");
    outputs_put_u64(&w, "epoch", epoch);
    outputs_put_u64(&w, "epochs", epochs);
    outputs_put_u64(&w, "batch", batch);
    outputs_put_u64(&w, "batches", n_batches);
    struct qr_named_value shown[1 + QR_MAX_METRICS];
    qr_named_values_json(&w, "values", shown, choose_numbers(running, n, shown));
    qr_json_close(&w, '}');
    outputs_emit(o, 0);
}

void outputs_on_epoch(void *ctx, uint64_t epoch, uint64_t epochs, uint64_t n_batches,
                      double seconds, const struct qr_named_value *values, size_t n) {
    struct qr_outputs *o = ctx;
    struct qr_named_value shown[2 * (1 + QR_MAX_METRICS)];
    n = choose_numbers(values, n, shown);
    if (o->progress_fd >= 0) {
        struct qr_json_writer w = outputs_line(o, "epoch");
        outputs_put_u64(&w, "epoch", epoch);
        outputs_put_u64(&w, "epochs", epochs);
        outputs_put_u64(&w, "batches", n_batches);
        qr_json_key_double(&w, "seconds", seconds);
        qr_named_values_json(&w, "values", shown, n);
        qr_json_close(&w, '}');
        outputs_emit(o, READER_WITHIN_MS);
    } else if (o->leader) {
        qr_buf_clear(&o->line);
        for (size_t i = 0; i < n; i++)
            qr_buf_printf(&o->line, " - %s: %s", shown[i].name, qr_text_number(shown[i].value).s);
        qr_info(o->log, "train", "epoch %llu/%llu - %.3fs%s", (unsigned long long)epoch,
                (unsigned long long)epochs, seconds, qr_buf_string(&o->line));
    }
}
