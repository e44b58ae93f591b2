/* cmd/qring/evaluate.c — qring evaluate: loss and metrics of weights. Start reading at
 * qr_command_evaluate(). */
#include <stdio.h>

#include "base/text.h"
#include "cmd/qring/command.h"

const char qr_help_evaluate[] =
    "Loss, metrics and, for a classifier, the confusion matrix of trained weights, on the job's\n"
    "validation samples or on a file with labels.\n"
    "\n"
    "Examples:\n"
    "  qring evaluate --weights out/qcnn/weights.h5                # the tutorial's model\n"
    "  qring evaluate job.json --weights w.h5 --data test.csv      # another file\n"
    "  qring evaluate job.json --weights w.h5 --metric auc --metric mae --json | jq .metrics.auc\n"
    "\n"
    "Usage: qring evaluate [JOB] [--weights URL] [FLAGS]\n" QR_HELP_JOB_WEIGHTS
    "  --data FILE            CSV file (columns are found by their names in training) or npz file, "
    "with\n"
    "                         labels, a path or URL; - for standard input [validation samples]\n"
    "  --channel NAME         samples of this channel in the job's data.channels, instead of "
    "--data\n"
    "  --metric NAME          additional metric, repeatable: a name or an object as in the job "
    "file\n"
    "  --json                 print one JSON object\n" QR_HELP_SET_THREADS;

static void print_text(const struct qr_evaluation *e) {
    bool held_out = e->set[0] == 'v';
    printf("%zu sample%s (%s)\n", e->n, e->n == 1 ? "" : "s",
           e->data    ? e->data
           : held_out ? "validation set"
                      : "all: the job has no validation samples");
    printf("%-24s %s  (%s)\n", "loss", qr_text_number(e->means[0]).s,
           qr_loss_names[e->l.job->train.loss]);
    for (size_t i = 1; i < qr_model_n_values(e->l.load.model); i++)
        if (qr_metric_is_number(qr_evaluation_value_name(e, i)))
            printf("%-24s %s\n", qr_evaluation_value_name(e, i), qr_text_number(e->means[i]).s);
    qr_print_confusion(e);
}

static void print_json(const struct qr_evaluation *e) {
    struct qr_buf b = {0};
    struct qr_json_writer w = qr_json_writer(&b, 0);
    qr_json_open(&w, '{');
    qr_put_evaluation(&w, e);
    qr_json_close(&w, '}');
    printf("%s\n", qr_buf_string(&b));
    qr_buf_free(&b);
}

int qr_command_evaluate(const struct qr_command *self, int argc, char **argv) {
    struct qr_evaluation_flags f = {0};
    enum { OTHERS = 6 };
    struct qr_flag flags[OTHERS + QR_METRIC_FLAGS] = {
        {"--weights", &f.weights, NULL}, {"--data", &f.data, NULL},
        {"--channel", &f.channel, NULL}, {"--json", NULL, NULL},
        {"--isa", &f.isa, NULL},         {"--threads", &f.threads, NULL}};
    struct qr_words words;
    struct qr_evaluation e = {0};
    struct qr_err err = {0};
    bool help, json = false;
    flags[3].on = &json;
    for (size_t i = 0; i < QR_METRIC_FLAGS; i++)
        flags[OTHERS + i] = (struct qr_flag){"--metric", &f.metrics[i], NULL};
    enum qr_code code = qr_read_flags(argc, argv, flags, sizeof flags / sizeof *flags, &f.set, 1,
                                      &words, &help, &err);
    if (code == QR_OK && help) return qr_print_help(self);
    f.job = words.v[0];
    if (code == QR_OK) code = qr_evaluation_new(&f, true, &e, &err);
    if (code == QR_OK && qr_job_has_classes(e.l.job)) qr_evaluation_count(&e);
    if (code == QR_OK && json) print_json(&e);
    if (code == QR_OK && !json) print_text(&e);
    qr_evaluation_fini(&e);
    qr_overrides_fini(&f.set);
    return qr_exit_report(code, &err);
}
