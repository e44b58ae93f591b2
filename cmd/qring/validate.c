/* cmd/qring/validate.c — qring validate: its flags and output; the checks are in preflight/. Start
 * reading at qr_command_validate(). */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/parse.h"
#include "cmd/qring/command.h"
#include "preflight/validate.h"

const char qr_help_validate[] =
    "Checks everything that a run needs before it costs anything: the ring and every name in it,\n"
    "credentials and bucket, data and memory. Measures a step on this machine (estimates it where "
    "that\n"
    "would take long) and prints how many workers pay off, and the pod-hours. Trains nothing and\n"
    "leaves no files.\n"
    "\n"
    "Examples:\n"
    "  qring validate                                   # the tutorial's model\n"
    "  qring validate job.json --weights gs://my-bucket/w.h5 --price-per-cpu-hour 0.04\n"
    "  TF_CONFIG='{\"cluster\": ...}' qring validate job.json --plaintext   # in a pod: its own "
    "ring\n"
    "  qring validate job.json --index 0 --peer-template 'job-{i}.svc:2222' --replicas 3 --json\n"
    "\n"
    "Usage: qring validate [JOB] [FLAGS]\n"
    "  --price-per-cpu-hour P price of a CPU-hour: adds the cost of the run, with one CPU per "
    "thread\n"
    "  --message-time TIME    assumed time of a message between two pods [200us]\n"
    "  --json                 print one JSON object; unknown values are null\n"
    "  and every flag of qringd (qringd --help), from the command line, QRING_ variables and the "
    "job's\n"
    "  \"worker\" object, as in qringd.\n"
    "\n"
    "Exit codes: 0 no problem was found, 2 the run would fail, 138 only problems that may be "
    "temporary.\n";

struct own {
    const char *price, *message;
    bool json;
};

/* Separates the flags of this command from those of a worker. */
static enum qr_code split_arguments(int argc, char **argv, struct own *own, char **ret_rest,
                                    int *ret_n, struct qr_err *err) {
    const struct qr_flag flags[] = {{"--price-per-cpu-hour", &own->price, NULL},
                                    {"--message-time", &own->message, NULL},
                                    {"--json", NULL, &own->json}};
    for (int i = 0; i < argc; i++) {
        const struct qr_flag *mine = NULL;
        size_t n = strcspn(argv[i], "=");
        for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
            if (strlen(flags[k].name) == n && strncmp(flags[k].name, argv[i], n) == 0)
                mine = &flags[k];
        if (!mine) ret_rest[(*ret_n)++] = argv[i];
        else if (mine->on && argv[i][n])
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s takes no value", mine->name);
        else if (mine->on) *mine->on = true;
        else if (argv[i][n]) *mine->text = argv[i] + n + 1;
        else if (i + 1 < argc) *mine->text = argv[++i];
        else return qr_fail(err, QR_INVALID_ARGUMENT, "%s needs a value", mine->name);
    }
    return QR_OK;
}

static enum qr_code read_own(const struct own *own, double *ret_price, int64_t *ret_message_ns,
                             struct qr_err *err) {
    *ret_price = -1;
    *ret_message_ns = 200 * QR_US;
    if (own->price && (!qr_parse_double(own->price, ret_price) || *ret_price < 0))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--price-per-cpu-hour: '%.40s' is not a price, such as 0.04", own->price);
    if (own->message && !qr_parse_duration_ns(own->message, ret_message_ns))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--message-time: '%.40s' is not a duration, such as 200us or 1ms",
                       own->message);
    return QR_OK;
}

int qr_command_validate(const struct qr_command *self, int argc, char **argv) {
    struct own own = {0};
    struct qr_validation v;
    struct qr_err err = {0};
    double price;
    int64_t message_ns;
    int n = 0, exit_code = 0;
    char **rest = qr_xcalloc((size_t)argc + 1, sizeof *rest);
    enum qr_code code = split_arguments(argc, argv, &own, rest, &n, &err);
    if (code == QR_OK) code = read_own(&own, &price, &message_ns, &err);
    if (code == QR_OK)
        code = qr_validate(n, rest, environ, message_ns, price, qr_command_log(), &v, &err);
    free(rest);
    if (code != QR_OK) return qr_exit_report(code, &err);
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    if (v.settings.help) qr_buf_puts(&text, self->help);
    else if (own.json) qr_validation_json(&v, &text);
    else qr_validation_text(&v, &text);
    if (own.json) fwrite(text.p, 1, text.n, stdout);
    else qr_print_escaped(stdout, qr_buf_string(&text));
    if (!v.settings.help) exit_code = qr_validation_exit_code(&v);
    qr_validation_fini(&v);
    return exit_code;
}
