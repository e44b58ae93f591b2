/* cmd/qring/status.c — qring status: prints the state of a running worker. Start reading at
 * qr_command_status(). */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/qring/command.h"
#include "monitor/status.h"

const char qr_help_status[] =
    "State of a running worker, from its port for probes and metrics: members of the ring, steps "
    "per\n"
    "second, slowest member, checkpoints, rejected connections and last error. Sends two requests, "
    "one\n"
    "second apart, and changes nothing.\n"
    "\n"
    "Examples:\n"
    "  qring status localhost:8080\n"
    "  kubectl port-forward pod/qcnn-0 8080 & qring status localhost   # port 8080 is the default\n"
    "  qring status qcnn-3.qcnn:8080 --json | jq .steps_per_second\n"
    "  qring status localhost:8080 --watch              # until Ctrl-C, or the end of the run\n"
    "\n"
    "Usage: qring status HOST[:PORT] [--watch] [--json]\n"
    "  PORT is the worker's --http-port [8080]; workers of qring run have one only if it is "
    "given.\n"
    "  --json                 print one JSON object: members in \"peers\", counters in \"metrics\" "
    "by their\n"
    "                         names in /metrics\n"
    "  --watch                repeat every second: redrawn on a terminal, otherwise a line each "
    "(with\n"
    "                         --json an object each); ends after 5 s without a response\n"
    "\n"
    "Exit codes: 0 the worker responded (with --watch: and has ended), 130 Ctrl-C, 2 the address "
    "is not\n"
    "valid or another program responds there, 138 no response (please retry).\n";

/* ---- with --watch ---- */

static const int64_t gone_ns = 5 * QR_SECOND;
enum watch_form { DRAWN, LINES, OBJECTS };

/* Overwrites the screen: clears each line to its end, and everything below. */
static void redraw(const struct qr_buf *text, bool first) {
    fputs(first ? "\033[2J\033[H" : "\033[H", stdout);
    for (size_t i = 0; i < text->n; i++) {
        if (text->p[i] == '\n') fputs("\033[K", stdout);
        putchar(text->p[i]);
    }
    fputs("\033[J", stdout);
}

static bool print_status(const struct qr_status_pair *s, const char *address, enum watch_form form,
                         bool first) {
    struct qr_buf text = {0};
    if (form == DRAWN) qr_status_text(s, address, &text);
    else if (form == LINES) qr_status_line(s, &text);
    else qr_status_json(s, address, 0, &text);
    if (form == DRAWN) redraw(&text, first);
    else fwrite(text.p, 1, text.n, stdout);
    qr_buf_free(&text);
    return fflush(stdout) == 0; /* otherwise the reader has closed the pipe */
}

static int report_gone(const struct qr_status_pair *s, const char *address, enum watch_form form,
                       const struct qr_err *why) {
    double step = s->is.value[QR_STEP], planned = s->is.value[QR_STEPS_PLANNED];
    if (form != OBJECTS)
        printf("%s does not respond any more: its last response was at step %.0f of %.0f (%s)\n",
               address, step, planned, why->msg);
    return 0;
}

/* Repeats the request until the worker has not responded for gone_ns. */
static int watch_worker(const char *address, struct qr_status_pair *s, bool json) {
    bool terminal = isatty(STDOUT_FILENO), first = true;
    struct qr_err err;
    enum watch_form form = json                                                 ? OBJECTS
                           : qr_log_wants_color(terminal, NULL, getenv("TERM")) ? DRAWN
                                                                                : LINES;
    int64_t next_ns = qr_now_ns(&qr_clock_monotonic), silent_ns = 0;
    enum qr_code code = QR_OK;
    for (;;) {
        int64_t now_ns = qr_now_ns(&qr_clock_monotonic);
        if (code == QR_OK && !print_status(s, address, form, first)) return 0;
        if (code == QR_OK) first = false;
        if (code == QR_INVALID_ARGUMENT) return qr_exit_report(code, &err);
        silent_ns = code == QR_OK ? 0 : silent_ns ? silent_ns : now_ns;
        if (silent_ns && now_ns - silent_ns >= gone_ns) return report_gone(s, address, form, &err);
        next_ns = next_ns + QR_SECOND > now_ns ? next_ns + QR_SECOND : now_ns + QR_SECOND;
        qr_sleep_ns(next_ns - now_ns);
        code = qr_status_query(address, s, &err);
    }
}

int qr_command_status(const struct qr_command *self, int argc, char **argv) {
    bool json = false, watched = false, help;
    struct qr_words words;
    struct qr_err err = {0};
    struct qr_status_pair s = {0};
    struct qr_buf text = {0};
    const struct qr_flag flags[] = {{"--json", NULL, &json}, {"--watch", NULL, &watched}};
    enum qr_code code = qr_read_flags(argc, argv, flags, sizeof flags / sizeof *flags, NULL, 1,
                                      &words, &help, &err);
    if (code == QR_OK && help) return qr_print_help(self);
    if (code == QR_OK && words.n == 0)
        code = qr_fail(&err, QR_INVALID_ARGUMENT,
                       "the worker is missing; give HOST:PORT (see --help)");
    if (code == QR_OK) code = qr_status_query(words.v[0], &s, &err);
    if (code != QR_OK) return qr_exit_report(code, &err);
    if (watched) return watch_worker(words.v[0], &s, json);
    if (json) qr_status_json(&s, words.v[0], 2, &text);
    else qr_status_text(&s, words.v[0], &text);
    fwrite(text.p, 1, text.n, stdout);
    qr_buf_free(&text);
    return 0;
}
