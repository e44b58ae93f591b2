/* cmd/qring/infer.c — qring infer: predictions in the form of the tutorial. Start reading at
 * qr_command_infer(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "cmd/qring/command.h"
#include "store/store.h"

const char qr_help_infer[] =
    "Predictions, labels and mean squared error (or the job's other loss) of trained weights on "
    "the\n"
    "job's validation samples, or all samples if there are none. The output has the form of the\n"
    "tutorial's inference, and is the same on a laptop and in a pod.\n"
    "\n"
    "Examples:\n"
    "  qring infer --weights out/qcnn/weights.h5                        # the tutorial's model\n"
    "  qring infer out/qcnn                                             # job and weights of a "
    "run\n"
    "  qring infer job.json --weights w.h5 --predictions predictions.csv\n"
    "  qring infer job.json --weights w.safetensors --json | jq .loss\n"
    "  QRING_JOB=gs://b/job.json QRING_WEIGHTS=gs://b/w.h5 qring infer  # in a pod\n"
    "\n"
    "Usage: qring infer [JOB] [--weights URL] [FLAGS]\n" QR_HELP_JOB_WEIGHTS
    "  --weights-gcs-bucket NAME, --weights-gcs-path PATH\n"
    "                         the tutorial's flags: --weights gs://NAME/PATH in two parts\n"
    "  --wait TIME            time to wait for weights that do not exist yet [0s], such as 30s or "
    "10m;\n"
    "                         after it the exit code is 138 (please retry)\n"
    "  --channel NAME         samples of this channel in the job's data.channels [validation "
    "samples]\n"
    "  --predictions FILE     CSV file for all predictions: sample, label, prediction; - prints "
    "them on\n"
    "                         standard output instead of the text\n"
    "  --json                 print one JSON object, with the predictions\n" QR_HELP_SET_THREADS;

/* NumPy's print(), which the tutorial uses: arrays longer than WHOLE are abbreviated. */
enum { WHOLE = 1000, ENDS = 3, PREDICTIONS_A_LINE = 6, LABELS_A_LINE = 24 };

static void put_csv(const struct qr_evaluation *a, struct qr_buf *b) {
    const struct qr_dataset *d = &a->l.load.data;
    size_t k = qr_model_n_outputs(a->l.load.model);
    qr_buf_puts(b, "sample");
    qr_put_csv_header(b, "label", d->n_outputs);
    qr_put_csv_header(b, "prediction", k);
    for (size_t i = 0; i < a->n; i++) {
        qr_buf_printf(b, "\n%zu", qr_dataset_row(d, a->sample[i]));
        qr_put_csv_values(b, qr_dataset_y(d, a->sample[i]), d->n_outputs);
        qr_put_csv_values(b, a->p + i * k, k);
    }
    qr_buf_puts(b, "\n");
}

static enum qr_code write_csv(const struct qr_evaluation *a, const char *path, struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf b = {0};
    enum qr_code code = QR_OK;
    put_csv(a, &b);
    if (!qr_buf_ok(&b))
        code =
            qr_fail(err, QR_RESOURCE_EXHAUSTED, "%s: the predictions exceed 1 GiB of text", path);
    else if (strcmp(path, "-") == 0) fputs(qr_buf_string(&b), stdout);
    else code = qr_url_write(path, qr_buf_view(&b), err);
    return code;
}

static enum qr_code print_json(const struct qr_evaluation *a, struct qr_err *err) {
    size_t k = qr_model_n_outputs(a->l.load.model);
    struct qr_buf b = {0};
    struct qr_json_writer w = qr_json_writer(&b, 0);
    qr_json_open(&w, '{');
    qr_put_evaluation(&w, a);
    qr_json_key_open(&w, "predictions", '[');
    for (size_t i = 0; i < a->n; i++) {
        if (k > 1) qr_json_open(&w, '[');
        for (size_t c = 0; c < k; c++) qr_json_put_double(&w, a->p[i * k + c]);
        if (k > 1) qr_json_close(&w, ']');
    }
    qr_json_close(&w, ']');
    qr_json_close(&w, '}');
    enum qr_code code = qr_buf_ok(&b) ? QR_OK
                                      : qr_fail(err, QR_RESOURCE_EXHAUSTED,
                                                "cannot print the predictions: they exceed 1 GiB "
                                                "of JSON; use qring predict --format jsonl");
    if (code == QR_OK) printf("%s\n", qr_buf_string(&b));
    qr_buf_free(&b);
    return code;
}

/* Prints [a b c ...], samples with several columns as [a b]. row: values of sample i. */
static void print_array(const struct qr_evaluation *a, size_t columns, size_t a_line, bool fixed,
                        const double *(*row)(const struct qr_evaluation *a, size_t i)) {
    size_t lines = columns > 1 ? 1 : a_line;
    putchar('[');
    for (size_t i = 0, shown = 0; i < a->n; i++, shown++) {
        if (shown) fputs(shown % lines ? " " : "\n ", stdout);
        if (a->n > WHOLE && i == ENDS) {
            fputs("...", stdout);
            i = a->n - ENDS - 1;
            continue;
        }
        if (columns > 1) putchar('[');
        for (size_t c = 0; c < columns; c++) {
            qr_auto(qr_free_p) char *cell =
                fixed ? qr_xasprintf("%11.8f", row(a, i)[c]) : qr_xasprintf("%2g", row(a, i)[c]);
            printf("%s%s", c ? " " : "", cell);
        }
        if (columns > 1) putchar(']');
    }
    puts("]");
}

static const double *predictions_of(const struct qr_evaluation *a, size_t i) {
    return a->p + i * qr_model_n_outputs(a->l.load.model);
}
static const double *labels_of(const struct qr_evaluation *a, size_t i) {
    return qr_dataset_y(&a->l.load.data, a->sample[i]);
}

/* Prints what the tutorial's inference prints, and one more line. The text does not depend on the
 * machine or on the path of the weights. */
static void print_text(const struct qr_evaluation *a) {
    enum qr_loss loss = a->l.job->train.loss;
    puts("Results");
    print_array(a, qr_model_n_outputs(a->l.load.model), PREDICTIONS_A_LINE, true, predictions_of);
    if (a->l.load.data.n_outputs > 0) {
        puts("Test Labels");
        print_array(a, a->l.load.data.n_outputs, LABELS_A_LINE, false, labels_of);
    }
    const struct qr_text_number text = qr_text_number(a->means[0]);
    if (loss == QR_MSE) printf("Mean squared error:  %s\n", text.s);
    else printf("Loss (%s):  %s\n", qr_loss_names[loss], text.s);
    qr_print_confusion(a);
    if (a->n > WHOLE) printf("(--predictions FILE writes all %zu)\n", a->n);
    printf("%zu sample%s (%s)", a->n, a->n == 1 ? "" : "s",
           a->data                             ? a->data
           : strcmp(a->set, "validation") == 0 ? "validation set"
                                               : "all: the job has no validation samples");
    for (size_t i = 0; i < qr_model_n_values(a->l.load.model); i++)
        if (qr_metric_is_number(qr_evaluation_value_name(a, i)))
            printf(" - %s: %s", qr_evaluation_value_name(a, i), qr_text_number(a->means[i]).s);
    printf("\n");
}

int qr_command_infer(const struct qr_command *self, int argc, char **argv) {
    struct qr_evaluation_flags f = {0};
    const char *predictions = NULL;
    bool help, json = false;
    const struct qr_flag flags[] = {{"--weights", &f.weights, NULL},
                                    {"--weights-gcs-bucket", &f.bucket, NULL},
                                    {"--weights-gcs-path", &f.path, NULL},
                                    {"--wait", &f.wait, NULL},
                                    {"--channel", &f.channel, NULL},
                                    {"--predictions", &predictions, NULL},
                                    {"--json", NULL, &json},
                                    {"--isa", &f.isa, NULL},
                                    {"--threads", &f.threads, NULL}};
    struct qr_words words;
    struct qr_evaluation e = {0};
    struct qr_err err = {0};
    size_t at;
    enum qr_code code = qr_read_flags(argc, argv, flags, sizeof flags / sizeof *flags, &f.set, 1,
                                      &words, &help, &err);
    if (code == QR_OK && help) return qr_print_help(self);
    bool csv = predictions && strcmp(predictions, "-") == 0;
    if (code == QR_OK && csv && json)
        code = qr_fail(&err, QR_INVALID_ARGUMENT,
                       "--json and --predictions - both write to standard output; the JSON "
                       "contains the predictions too");
    if (code == QR_OK && predictions && (code = qr_url_check_writable(predictions, &err)) != QR_OK)
        qr_wrap(&err, "--predictions");
    f.job = words.v[0];
    if (code == QR_OK) code = qr_evaluation_new(&f, true, &e, &err);
    if (code == QR_OK && qr_model_confusion(e.l.load.model, &at)) qr_evaluation_count(&e);
    const char *const inputs[] = {f.job, e.weights};
    if (code == QR_OK && predictions)
        code = qr_check_destination("--predictions", predictions, inputs, 2, e.l.job, &err);
    if (code == QR_OK && predictions) code = write_csv(&e, predictions, &err);
    if (code == QR_OK && json) code = print_json(&e, &err);
    if (code == QR_OK && !json && !csv) print_text(&e);
    qr_evaluation_fini(&e);
    qr_overrides_fini(&f.set);
    return qr_exit_report(code, &err);
}
