/* Progress lines and a reader that stalls: the training thread waits for it once, and the lines
 * after it resumes are whole. */
#include "tests/t.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "output/outputs.h"

static const struct qr_log quiet = {.level = QR_LOG_ERROR};
static const struct qr_named_value loss = {.name = "loss", .value = 0.25};

/* Counts the whole and broken lines received so far, and copies the last whole one. */
static unsigned drain(int fd, unsigned *ret_broken, char last[static 512]) {
    unsigned n_whole = 0;
    char byte, line[65536];
    size_t n = 0;
    while (read(fd, &byte, 1) == 1) {
        if (byte != '\n') {
            if (n < sizeof line - 1) line[n++] = byte;
            continue;
        }
        line[n] = '\0';
        bool whole = n > 1 && line[0] == '{' && line[n - 1] == '}';
        if (n) *(whole ? &n_whole : ret_broken) += 1;
        if (whole) snprintf(last, 512, "%.500s", line);
        n = 0;
    }
    return n_whole;
}

static void test_stalled_reader(void) {
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    struct qr_outputs o;
    const struct qr_outputs_options where = {.progress_fd = ends[1], .log = &quiet};
    qr_outputs_init(&o, &where, "progress");
    const struct qr_train_observer on = qr_outputs_observer(&o);
    unsigned broken = 0;
    char last[512] = "";
    on.epoch(on.ctx, 1, 9, 4, 0.5, &loss, 1);
    CHECK(drain(ends[0], &broken, last) == 1 && !broken && strstr(last, "\"epoch\":1"), "%s", last);

    int64_t began_ns = qr_now_ns(&qr_clock_monotonic);
    for (unsigned i = 0; i < 5000; i++) on.progress(on.ctx, 2, 9, i, 5000, &loss, 1);
    int64_t full_ns = qr_now_ns(&qr_clock_monotonic);
    CHECK(t_in_time("5000 reports without a reader", full_ns - began_ns, QR_SECOND, T_MINUTE));
    for (unsigned i = 2; i < 40; i++) on.epoch(on.ctx, i, 40, 4, 0.5, &loss, 1);
    int64_t waited_ns = qr_now_ns(&qr_clock_monotonic) - full_ns;
    CHECK(waited_ns > QR_SECOND &&
          t_in_time("38 epochs without a reader", waited_ns, 10 * QR_SECOND, T_MINUTE));

    CHECK(drain(ends[0], &broken, last) > 100 && broken <= 1, "%u broken", broken);
    broken = 0;
    on.epoch(on.ctx, 40, 40, 4, 0.5, &loss, 1);
    CHECK(drain(ends[0], &broken, last) == 1 && !broken && strstr(last, "\"epoch\":40"), "%s",
          last);

    close(ends[0]); /* The reader is gone. */
    on.epoch(on.ctx, 41, 41, 4, 0.5, &loss, 1);
    qr_outputs_report_listening(&o, 2222);
    qr_outputs_fini(&o);
    close(ends[1]);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN); /* as worker/stop.h does */
    test_stalled_reader();
    return t_end();
}
