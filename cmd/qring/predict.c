#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cmd/qring/command.h"
#include "model/metric.h"
#include "store/store.h"

const char qr_help_predict[] =
    "What trained weights say of new samples, which need no labels: one row for each, in the "
    "file's order. A classifier's rows have the\n"
    "class and the probability of each; others have the values.\n"
    "\n"
    "Examples:\n"
    "  qring predict job.json --weights out/job/weights.h5 --data new.csv\n"
    "  qring predict out/job --data new.csv                    # what a run has trained: its own "
    "job and weights\n"
    "  qring predict job.json --weights w.h5 --data gs://b/new.npz --out predictions.csv\n"
    "  zcat new.csv.gz | qring predict job.json --weights w.h5 --data - --format jsonl | jq "
    ".class\n"
    "\n"
    "Usage: qring predict [JOB] --weights URL --data FILE [FLAGS]\n"
    "  JOB                    a path or URL, - for standard input, or a run's folder [QRING_JOB, "
    "else the built-in tutorial]\n"
    "  --weights URL          .h5 (also written by Keras), .npz or .safetensors [QRING_WEIGHTS, "
    "else that folder's]\n"
    "  --data FILE            CSV, whose columns are found by the names that they had in training, "
    "or npz (x); a path or URL; - is standard\n"
    "                         input\n"
    "  --channel NAME         of the job's data.channels instead\n"
    "  --format csv|jsonl     [csv]\n"
    "  --out FILE             written at once when all is computed, a path or URL [standard "
    "output]\n"
    "  --set PATH=VALUE       a key of the job, as often as wanted: --set model[1].units=8\n"
    "  --seed N               --set seed=N; QRING_SET and QRING_SEED are read too, as qringd does\n"
    "  --isa NAME             auto, portable, avx2, avx512, neon; all give the same bits\n"
    "  --threads T            [the cgroup's]\n";

enum { CHUNK = 1 << 16 }; /* bytes of text on their way to standard output */

/* How a sample's outputs are said. */
struct form {
    struct qr_metric_options options;
    bool json, probabilities;
    size_t k, n_classes; /* outputs; classes that are said of a sample: 0, 1, or one an output */
    bool by_sign;        /* the class 0 is -1 */
    const struct qr_name_list *words; /* what the classes are called; empty: by their numbers */
    double *values;
};

static struct form form_of(const struct qr_evaluation *e, bool json) {
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

static const char *name_of(const struct form *f) {
    return f->probabilities ? "probability" : "prediction";
}

/* *ret_word: NULL where the class goes by its number, which is returned. */
static long long class_of(const struct form *f, const double *p, size_t j, const char **ret_word) {
    size_t at = qr_metric_predicted_class(&f->options, f->k, p, j);
    *ret_word = at < f->words->n ? f->words->v[at] : NULL;
    return f->by_sign && at == 0 ? -1 : (long long)at;
}

/* Quoted where RFC 4180 wants it. */
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
    qr_json_put_key(&w, "sample");
    qr_json_put_i64(&w, (int64_t)sample);
    if (f->n_classes) qr_json_put_key(&w, "class");
    if (f->n_classes > 1) qr_json_open(&w, '[');
    for (size_t j = 0; j < f->n_classes; j++) {
        const char *word;
        long long class = class_of(f, p, j, &word);
        if (word) qr_json_put_string(&w, word);
        else qr_json_put_i64(&w, class);
    }
    if (f->n_classes > 1) qr_json_close(&w, ']');
    qr_json_put_key(&w, name_of(f));
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
        long long class = class_of(f, p, j, &word);
        if (!word) qr_buf_printf(b, ",%lld", class);
        if (word) qr_buf_puts(b, ","), put_word(b, word);
    }
    qr_put_csv_values(b, f->values, f->k);
    qr_buf_puts(b, "\n");
}

/* out: NULL for standard output, whose reader may be gone before the end. */
static enum qr_code write_all(const struct qr_evaluation *e, const struct form *f, const char *out,
                              struct qr_err *err) {
    struct qr_buf b = {0};
    enum qr_code code = QR_OK;
    if (!f->json) {
        qr_buf_puts(&b, "sample");
        qr_put_csv_header(&b, "class", f->n_classes);
        qr_put_csv_header(&b, name_of(f), f->k);
        qr_buf_puts(&b, "\n");
    }
    for (size_t i = 0; i < e->n && qr_buf_ok(&b) && !(out == NULL && ferror(stdout)); i++) {
        put_sample(f, e->p + i * f->k, e->sample[i], &b);
        if (out || (b.n < CHUNK && i + 1 < e->n)) continue;
        fwrite(b.p, 1, b.n, stdout);
        qr_buf_clear(&b);
    }
    if (!qr_buf_ok(&b))
        code = qr_fail(err, QR_RESOURCE_EXHAUSTED,
                       "%s: the predictions exceed 1 GiB of text; take standard output", out);
    else if (out) code = qr_url_write(out, qr_buf_view(&b), err);
    qr_buf_free(&b);
    return code;
}

static enum qr_code check(const struct qr_evaluation_flags *f, const char *format, const char *out,
                          struct qr_err *err) {
    if (!f->data && !f->channel)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--data is missing: which samples? a CSV or npz file, or - for standard "
                       "input (qring infer predicts those that the job holds out)");
    if (strcmp(format, "csv") != 0 && strcmp(format, "jsonl") != 0)
        return qr_fail(err, QR_INVALID_ARGUMENT, "--format: '%.40s' is neither csv nor jsonl",
                       format);
    if (out && f->data && strcmp(out, f->data) == 0)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--out would replace the samples in %s; give another file", out);
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
    if (code == QR_OK) code = check(&f, format, out, &err);
    if (code == QR_OK) code = qr_evaluation_new(&f, false, &e, &err);
    if (code == QR_OK) {
        struct form form = form_of(&e, strcmp(format, "jsonl") == 0);
        code = write_all(&e, &form, out, &err);
        free(form.values);
    }
    qr_evaluation_fini(&e);
    qr_overrides_fini(&f.set);
    return qr_exit_report(code, &err);
}
