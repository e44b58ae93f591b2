#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "cmd/qring/command.h"
#include "store/store.h"
#include "train/evaluate.h"

const char qr_help_infer[] =
    "Predictions, labels and mean squared error (or the job's other loss) of trained weights on "
    "the test set: the samples that training\n"
    "holds out for validation. Printed as the tutorial's inference prints them; the same on a "
    "laptop and in a pod.\n"
    "\n"
    "Examples:\n"
    "  qring infer --weights out/qcnn/weights.h5                        # the tutorial's model\n"
    "  qring infer out/qcnn                                             # what a run has trained: "
    "its own job and weights\n"
    "  qring infer job.json --weights w.h5 --predictions predictions.csv\n"
    "  qring infer job.json --weights w.safetensors --json | jq .loss\n"
    "  QRING_JOB=gs://b/job.json QRING_WEIGHTS=gs://b/w.h5 qring infer  # in a pod\n"
    "\n"
    "Usage: qring infer [JOB] --weights URL [FLAGS]\n"
    "  JOB                    a path or URL, - for standard input, or a run's folder [QRING_JOB, "
    "else the built-in tutorial]\n"
    "  --weights URL          .h5 (also written by Keras), .npz or .safetensors [QRING_WEIGHTS, "
    "else that folder's]\n"
    "  --weights-gcs-bucket NAME, --weights-gcs-path PATH\n"
    "                         the tutorial's flags: --weights gs://NAME/PATH in two parts\n"
    "  --predictions FILE     all predictions as CSV: sample, label, prediction; - instead of the "
    "text on standard output\n"
    "  --json                 one object on standard output, predictions included\n"
    "  --set PATH=VALUE       a key of the job, as often as wanted: --set train.epochs=5 --set "
    "model[1].units=8\n"
    "  --seed N               --set seed=N; QRING_SET and QRING_SEED are read too, as qringd does\n"
    "  --isa NAME             auto, portable, avx2, avx512, neon; all give the same bits\n"
    "  --threads T            [the cgroup's]\n";

/* NumPy's, whose print() the tutorial uses: beyond WHOLE only both ends are shown. */
enum { WHOLE = 1000, ENDS = 3, PREDICTIONS_A_LINE = 6, LABELS_A_LINE = 24 };

struct answer {
    const struct qr_loaded *l;
    size_t *sample, n;
    bool held_out;
    double *p, *means, *sums;
};

static void put_cells(struct qr_buf *b, const double *v, size_t n) {
    for (size_t i = 0; i < n; i++) qr_buf_printf(b, ",%.17g", v[i]);
}

/* No head where there are no labels. */
static void put_heads(struct qr_buf *b, const char *name, size_t n) {
    if (n == 1) qr_buf_printf(b, ",%s", name);
    else
        for (size_t i = 0; i < n; i++) qr_buf_printf(b, ",%s_%zu", name, i);
}

static void put_csv(const struct answer *a, struct qr_buf *b) {
    const struct qr_dataset *d = &a->l->load.data;
    size_t k = qr_model_n_outputs(a->l->load.model);
    qr_buf_puts(b, "sample");
    put_heads(b, "label", d->n_outputs);
    put_heads(b, "prediction", k);
    for (size_t i = 0; i < a->n; i++) {
        qr_buf_printf(b, "\n%zu", qr_dataset_row(d, a->sample[i]));
        put_cells(b, qr_dataset_y(d, a->sample[i]), d->n_outputs);
        put_cells(b, a->p + i * k, k);
    }
    qr_buf_puts(b, "\n");
}

static enum qr_code write_csv(const struct answer *a, const char *path, struct qr_err *err) {
    struct qr_buf b = {0};
    enum qr_code code = QR_OK;
    put_csv(a, &b);
    if (!qr_buf_ok(&b))
        code =
            qr_fail(err, QR_RESOURCE_EXHAUSTED, "%s: the predictions exceed 1 GiB of text", path);
    else if (strcmp(path, "-") == 0) fputs(qr_buf_string(&b), stdout);
    else code = qr_url_write(path, qr_buf_view(&b), err);
    qr_buf_free(&b);
    return code;
}

static const char *metric_name(const struct answer *a, size_t i) {
    return qr_model_value_name(a->l->load.model, i, false);
}

/* The counts, label by label; *ret_n rows; NULL: the job does not ask for it. */
static const double *confusion_of(const struct answer *a, size_t *ret_n) {
    size_t at = 0;
    *ret_n = qr_model_confusion(a->l->load.model, &at);
    return *ret_n ? a->sums + at : NULL;
}

static void put_confusion(const struct answer *a, struct qr_json_writer *w) {
    size_t n;
    const double *counts = confusion_of(a, &n);
    if (!counts) return;
    qr_json_put_key(w, "confusion_matrix");
    qr_json_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        qr_json_open(w, '[');
        for (size_t j = 0; j < n; j++) qr_json_put_i64(w, (int64_t)counts[i * n + j]);
        qr_json_close(w, ']');
    }
    qr_json_close(w, ']');
}

static void print_json(const struct answer *a, const char *weights) {
    size_t k = qr_model_n_outputs(a->l->load.model), n_values = qr_model_n_values(a->l->load.model);
    struct qr_buf b = {0};
    struct qr_json_writer w = qr_json_writer(&b, 0);
    qr_json_open(&w, '{');
    qr_json_put_key(&w, "job");
    qr_json_put_string(&w, a->l->job->name);
    qr_json_put_key(&w, "weights");
    qr_json_put_string(&w, weights);
    qr_json_put_key(&w, "set");
    qr_json_put_string(&w, a->held_out ? "validation" : "all");
    qr_json_put_key(&w, "samples");
    qr_json_put_i64(&w, (int64_t)a->n);
    qr_json_put_key(&w, "loss");
    qr_json_put_double(&w, a->means[0]);
    qr_json_put_key(&w, "metrics");
    qr_json_open(&w, '{');
    for (size_t i = 1; i < n_values; i++) {
        qr_json_put_key(&w, metric_name(a, i));
        qr_json_put_double(&w, a->means[i]);
    }
    qr_json_close(&w, '}');
    put_confusion(a, &w);
    qr_json_put_key(&w, "predictions");
    qr_json_open(&w, '[');
    for (size_t i = 0; i < a->n; i++) {
        if (k > 1) qr_json_open(&w, '[');
        for (size_t c = 0; c < k; c++) qr_json_put_double(&w, a->p[i * k + c]);
        if (k > 1) qr_json_close(&w, ']');
    }
    qr_json_close(&w, ']');
    qr_json_close(&w, '}');
    printf("%s\n", qr_buf_string(&b));
    qr_buf_free(&b);
}

static void print_confusion(const struct answer *a) {
    size_t n;
    const double *counts = confusion_of(a, &n);
    if (!counts) return;
    puts("Confusion matrix (a row a label, a column an answer)");
    for (size_t i = 0; i < n * n; i++) printf("%7.0f%s", counts[i], i % n == n - 1 ? "\n" : "");
}

/* [a b c ...] over lines, samples with more than one column as [a b] each. row: values of
 * sample i. */
static void print_array(const struct answer *a, size_t columns, size_t a_line, bool fixed,
                        const double *(*row)(const struct answer *a, size_t i)) {
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

static const double *predictions_of(const struct answer *a, size_t i) {
    return a->p + i * qr_model_n_outputs(a->l->load.model);
}
static const double *labels_of(const struct answer *a, size_t i) {
    return qr_dataset_y(&a->l->load.data, a->sample[i]);
}

/* As the tutorial's inference prints its results, then a line of ours. Nothing here depends on the
 * machine or on where the weights lie. */
static void print_text(const struct answer *a) {
    enum qr_loss loss = a->l->job->train.loss;
    puts("Results");
    print_array(a, qr_model_n_outputs(a->l->load.model), PREDICTIONS_A_LINE, true, predictions_of);
    if (a->l->load.data.n_outputs > 0) {
        puts("Test Labels");
        print_array(a, a->l->load.data.n_outputs, LABELS_A_LINE, false, labels_of);
    }
    if (loss == QR_MSE) printf("Mean squared error:  %.8f\n", a->means[0]);
    else printf("Loss (%s):  %.8f\n", qr_loss_names[loss], a->means[0]);
    print_confusion(a);
    if (a->n > WHOLE) printf("(--predictions FILE writes all %zu)\n", a->n);
    printf("%zu sample%s%s", a->n, a->n == 1 ? "" : "s",
           a->held_out ? " (validation set)" : " (all: the job holds none out)");
    for (size_t i = 0; i < qr_model_n_values(a->l->load.model); i++)
        printf(" - %s: %.4f", metric_name(a, i), a->means[i]);
    printf("\n");
}

static enum qr_code evaluate(struct answer *a, struct qr_err *err) {
    const struct qr_workload *w = &a->l->load;
    size_t begin = w->data.n_train < w->data.n_samples ? w->data.n_train : 0;
    a->held_out = begin > 0;
    a->n = w->data.n_samples - begin;
    a->sample = qr_xcalloc(a->n, sizeof *a->sample);
    a->p = qr_xcalloc(a->n * qr_model_n_outputs(w->model), sizeof *a->p);
    a->means = qr_xcalloc(qr_model_n_values(w->model), sizeof *a->means);
    a->sums = qr_xcalloc(qr_model_n_sums(w->model), sizeof *a->sums);
    for (size_t i = 0; i < a->n; i++) a->sample[i] = begin + i;
    return qr_evaluate(w->model, w->initial, &w->data, a->sample, a->n, a->l->pool, a->p, NULL,
                       a->means, a->sums, err);
}

/* Of a run's folder; NULL: it is none, or the run has not ended. Heap. */
static char *weights_of_run(const char *job) {
    qr_auto(qr_free_p) char *file = job ? qr_path_join(job, "job.json") : NULL;
    qr_auto(qr_free_p) char *weights = job ? qr_path_join(job, "weights.safetensors") : NULL;
    return job && qr_file_exists(file) && qr_file_exists(weights) ? QR_MOVE(weights) : NULL;
}

/* Where the weights are: --weights, the tutorial's two flags, QRING_WEIGHTS, the run's folder.
 * *ret_url on the heap. */
static enum qr_code find_weights(const char *job, const char *weights, const char *bucket,
                                 const char *path, char **ret_url, struct qr_err *err) {
    const char *set = getenv("QRING_WEIGHTS");
    if (weights && (bucket || path))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--weights and --weights-gcs-%s name two places; give one",
                       bucket ? "bucket" : "path");
    if (!bucket != !path)
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "--weights-gcs-bucket and --weights-gcs-path go together; --weights-gcs-%s is missing",
            path ? "bucket" : "path");
    if (!weights && !bucket && set && *set) weights = set;
    if (!weights && !bucket && (*ret_url = weights_of_run(job))) return QR_OK;
    if (!weights && !bucket)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--weights is missing: which weights are to be tried? (qring run writes "
                       "out/NAME/weights.h5)");
    *ret_url = weights ? qr_xstrdup(weights) : qr_xasprintf("gs://%s/%s", bucket, path);
    return QR_OK;
}

static const char *job_of(const struct qr_words *words) {
    const char *set = getenv("QRING_JOB");
    return words->v[0] ? words->v[0] : set && *set ? set : NULL;
}

/* As a worker of the job reads them. */
static enum qr_code set_by_environment(struct qr_overrides *set, struct qr_err *err) {
    const char *keys = getenv("QRING_SET"), *seed = getenv("QRING_SEED");
    enum qr_code code = QR_OK;
    if (keys) code = qr_overrides_add(set, QR_OVERRIDES_ENVIRONMENT, "QRING_SET", NULL, keys, err);
    if (seed && code == QR_OK)
        code = qr_overrides_add(set, QR_OVERRIDES_ENVIRONMENT_KEY, "QRING_SEED", "seed", seed, err);
    return code;
}

int qr_command_infer(const struct qr_command *self, int argc, char **argv) {
    const char *weights = NULL, *bucket = NULL, *path = NULL, *predictions = NULL, *isa = NULL,
               *threads = NULL;
    bool help, json = false;
    struct qr_overrides set = {0};
    const struct qr_flag flags[] = {{"--weights", &weights, NULL},
                                    {"--weights-gcs-bucket", &bucket, NULL},
                                    {"--weights-gcs-path", &path, NULL},
                                    {"--predictions", &predictions, NULL},
                                    {"--json", NULL, &json},
                                    {"--isa", &isa, NULL},
                                    {"--threads", &threads, NULL}};
    qr_auto(qr_free_p) char *url = NULL;
    struct qr_words words;
    struct qr_loaded l = {0};
    struct answer a = {.l = &l};
    struct qr_err err = {0};
    enum qr_code code = qr_read_flags(argc, argv, flags, sizeof flags / sizeof *flags, &set, 1,
                                      &words, &help, &err);
    if (code == QR_OK && help) {
        fputs(self->help, stdout);
        return 0;
    }
    bool csv = predictions && strcmp(predictions, "-") == 0;
    if (code == QR_OK) code = find_weights(job_of(&words), weights, bucket, path, &url, &err);
    if (code == QR_OK && csv && json)
        code = qr_fail(&err, QR_INVALID_ARGUMENT,
                       "--json and --predictions - both want standard output; the JSON has the "
                       "predictions too");
    if (code == QR_OK) code = set_by_environment(&set, &err);
    if (code == QR_OK) code = qr_load(job_of(&words), &set, isa, threads, &l, &err);
    if (code == QR_OK) code = qr_workload_weights(&l.load, url, l.load.initial, &err);
    if (code == QR_OK) code = evaluate(&a, &err);
    if (code == QR_OK && predictions) code = write_csv(&a, predictions, &err);
    if (code == QR_OK && json) print_json(&a, url);
    if (code == QR_OK && !json && !csv) print_text(&a);
    free(a.sample);
    free(a.p);
    free(a.means);
    free(a.sums);
    qr_loaded_fini(&l);
    qr_overrides_fini(&set);
    return qr_conclude(code, &err);
}
