/* cmd/qring/predict.c — qring predict: predictions for new samples. Start reading at
 * qr_command_predict(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cmd/qring/command.h"
#include "model/metric.h"
#include "store/store.h"

const char qr_help_predict[] =
    "Predictions of trained weights for new samples, which need no labels: one row per sample, in "
    "the\n"
    "order of the file. Rows of a classifier have the class and the probability of each class; "
    "other\n"
    "rows have the values.\n"
    "\n"
    "Examples:\n"
    "  qring predict job.json --weights out/job/weights.h5 --data new.csv\n"
    "  qring predict out/job --data new.csv                    # job and weights of a run\n"
    "  qring predict job.json --weights w.h5 --data gs://b/new.npz --out predictions.csv\n"
    "  zcat new.csv.gz | qring predict job.json --weights w.h5 --data - --format jsonl | jq "
    ".class\n"
    "\n"
    "Usage: qring predict [JOB] [--weights URL] --data FILE [FLAGS]\n" QR_HELP_JOB_WEIGHTS
    "  --data FILE            CSV file (columns are found by their names in training) or npz file "
    "(x),\n"
    "                         a path or URL; - for standard input\n"
    "  --channel NAME         samples of this channel in the job's data.channels, instead of "
    "--data\n"
    "  --format csv|jsonl     output format [csv]\n"
    "  --out FILE             path or URL, written at once after all samples [standard "
    "output]\n" QR_HELP_SET_THREADS;

enum { CHUNK = 1 << 16 }; /* bytes buffered for standard output */

/* Format of the outputs of a sample. */
struct form {
    struct qr_metric_options options;
    bool json, probabilities;
    size_t k, n_classes;              /* outputs; classes per sample: 0, 1, or one per output */
    bool by_sign;                     /* class 0 is -1 */
    const struct qr_name_list *words; /* names of the classes; empty: numbers */
    double *values;
};

static struct form choose_form(const struct qr_evaluation *e, bool json) {
    struct form f = {.options = qr_job_metric_options(e->l.job),
                     .json = json,
                     .k = qr_model_n_outputs(e->l.load.model)};
    enum qr_class_rule by = qr_loss_info(f.options.loss)->accuracy;
    bool classes = qr_job_has_classes(e->l.job);
    f.n_classes = !classes ? 0 : by == QR_BY_LARGEST ? 1 : f.k;
    f.by_sign = by == QR_BY_SIGN;
    f.probabilities = classes && !f.by_sign;
    f.words = &e->names.classes;
    f.values = qr_xcalloc(f.k, sizeof *f.values);
    return f;
}

static const char *prediction_key(const struct form *f) {
    return f->probabilities ? "probability" : "prediction";
}

/* Returns the number of the class. *ret_word: its name, or NULL. */
static long long predicted_class(const struct form *f, const double *p, size_t j,
                                 const char **ret_word) {
    size_t at = qr_metric_predicted_class(&f->options, f->k, p, j);
    *ret_word = at < f->words->n ? f->words->v[at] : NULL;
    return f->by_sign && at == 0 ? -1 : (long long)at;
}

/* Quotes a word as in RFC 4180. */
static void put_word(struct qr_buf *b, const char *word) {
    bool quote = word[strcspn(word, ",\"\r\n")] != 0;
    if (quote) qr_buf_puts(b, "\"");
    for (const char *p = word; *p; p++) {
        if (*p == '"') qr_buf_puts(b, "\"");
        qr_buf_put(b, p, 1);
    }
    if (quote) qr_buf_puts(b, "\"");
}

static void put_object(const struct form *f, const double *p, size_t sample, struct qr_buf *b) {
    struct qr_json_writer w = qr_json_writer(b, 0);
    qr_json_open(&w, '{');
    qr_json_key_i64(&w, "sample", (int64_t)sample);
    if (f->n_classes) qr_json_put_key(&w, "class");
    if (f->n_classes > 1) qr_json_open(&w, '[');
    for (size_t j = 0; j < f->n_classes; j++) {
        const char *word;
        long long class = predicted_class(f, p, j, &word);
        if (word) qr_json_put_string(&w, word);
        else qr_json_put_i64(&w, class);
    }
    if (f->n_classes > 1) qr_json_close(&w, ']');
    qr_json_put_key(&w, prediction_key(f));
    if (f->k > 1) qr_json_open(&w, '[');
    for (size_t j = 0; j < f->k; j++) qr_json_put_double(&w, f->values[j]);
    if (f->k > 1) qr_json_close(&w, ']');
    qr_json_close(&w, '}');
    qr_buf_puts(b, "\n");
}

static void put_sample(const struct form *f, const double *p, size_t sample, struct qr_buf *b) {
    if (f->probabilities) qr_metric_probabilities(&f->options, f->k, p, f->values);
    else memcpy(f->values, p, f->k * sizeof *p);
    if (f->json) {
        put_object(f, p, sample, b);
        return;
    }
    qr_buf_printf(b, "%zu", sample);
    for (size_t j = 0; j < f->n_classes; j++) {
        const char *word;
        long long class = predicted_class(f, p, j, &word);
        if (!word) qr_buf_printf(b, ",%lld", class);
        if (word) qr_buf_puts(b, ","), put_word(b, word);
    }
    qr_put_csv_values(b, f->values, f->k);
    qr_buf_puts(b, "\n");
}

/* out: NULL for standard output, which may be closed early by its reader. */
static enum qr_code write_predictions(const struct qr_evaluation *e, const struct form *f,
                                      const char *out, struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf b = {0};
    enum qr_code code = QR_OK;
    if (!f->json) {
        qr_buf_puts(&b, "sample");
        qr_put_csv_header(&b, "class", f->n_classes);
        qr_put_csv_header(&b, prediction_key(f), f->k);
        qr_buf_puts(&b, "\n");
    }
    for (size_t i = 0; i < e->n && qr_buf_ok(&b) && !(out == NULL && ferror(stdout)); i++) {
        put_sample(f, e->p + i * f->k, e->sample[i], &b);
        if (out || (b.n < CHUNK && i + 1 < e->n)) continue;
        fwrite(b.p, 1, b.n, stdout);
        qr_buf_clear(&b);
    }
    if (!qr_buf_ok(&b))
        code =
            qr_fail(err, QR_RESOURCE_EXHAUSTED,
                    "%s: the predictions exceed 1 GiB of text; write them to standard output", out);
    else if (out) code = qr_url_write(out, qr_buf_view(&b), err);
    return code;
}

static enum qr_code predict_check(const struct qr_evaluation_flags *f, const char *format,
                                  const char *out, struct qr_err *err) {
    if (!f->data && !f->channel)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--data is missing; give a CSV or npz file, or - for standard input (qring "
                       "infer predicts the job's validation samples)");
    if (strcmp(format, "csv") != 0 && strcmp(format, "jsonl") != 0)
        return qr_fail(err, QR_INVALID_ARGUMENT, "--format: '%.40s' is neither csv nor jsonl",
                       format);
    if (out && qr_url_check_writable(out, err) != QR_OK) return qr_wrap(err, "--out");
    return QR_OK;
}

int qr_command_predict(const struct qr_command *self, int argc, char **argv) {
    struct qr_evaluation_flags f = {0};
    const char *format = "csv", *out = NULL;
    bool help;
    const struct qr_flag flags[] = {{"--weights", &f.weights, NULL}, {"--data", &f.data, NULL},
                                    {"--channel", &f.channel, NULL}, {"--format", &format, NULL},
                                    {"--out", &out, NULL},           {"--isa", &f.isa, NULL},
                                    {"--threads", &f.threads, NULL}};
    struct qr_words words;
    struct qr_evaluation e = {0};
    struct qr_err err = {0};
    enum qr_code code = qr_read_flags(argc, argv, flags, sizeof flags / sizeof *flags, &f.set, 1,
                                      &words, &help, &err);
    if (code == QR_OK && help) return qr_print_help(self);
    f.job = words.v[0];
    if (out && strcmp(out, "-") == 0) out = NULL;
    if (code == QR_OK) code = predict_check(&f, format, out, &err);
    if (code == QR_OK) code = qr_evaluation_new(&f, false, &e, &err);
    const char *const inputs[] = {f.job, e.weights, f.data};
    if (code == QR_OK && out) code = qr_check_destination("--out", out, inputs, 3, e.l.job, &err);
    if (code == QR_OK) {
        struct form form = choose_form(&e, strcmp(format, "jsonl") == 0);
        code = write_predictions(&e, &form, out, &err);
        free(form.values);
    }
    qr_evaluation_fini(&e);
    qr_overrides_fini(&f.set);
    return qr_exit_report(code, &err);
}
