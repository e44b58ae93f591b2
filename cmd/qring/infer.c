#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cmd/qring/command.h"
#include "store/store.h"
#include "train/evaluate.h"

const char qr_help_infer[] =
    "Predictions, loss and accuracy of trained weights on the test set: the samples that training holds out for validation.\n"
    "\n"
    "Examples:\n"
    "  qring infer --weights out/qcnn/weights.h5                        # the tutorial's model\n"
    "  qring infer job.json --weights w.h5 --predictions predictions.csv\n"
    "  qring infer job.json --weights w.safetensors --json | jq .loss\n"
    "\n"
    "Usage: qring infer [JOB] --weights URL [FLAGS]\n"
    "  --weights URL          .h5 (also written by Keras), .npz or .safetensors\n"
    "  --predictions FILE     all predictions as CSV: sample, label, prediction\n"
    "  --json                 one object on standard output, predictions included\n"
    "  --isa NAME             auto, portable, avx2, avx512; all give the same bits\n"
    "  --threads T            [the cgroup's]\n";

enum { SHOWN = 10 };

struct answer {
    const struct qr_loaded *l;
    size_t *sample, n;
    bool held_out;
    double *p, *means;
};

static void put_cells(struct qr_buf *b, const double *v, size_t n) {
    for (size_t i = 0; i < n; i++) qr_buf_printf(b, ",%.17g", v[i]);
}

static void put_heads(struct qr_buf *b, const char *name, size_t n) {
    if (n == 1) qr_buf_printf(b, ",%s", name);
    else for (size_t i = 0; i < n; i++) qr_buf_printf(b, ",%s_%zu", name, i);
}

static enum qr_code write_csv(const struct answer *a, const char *path, struct qr_err *err) {
    const struct qr_dataset *d = &a->l->load.data;
    size_t k = qr_model_n_outputs(a->l->load.model);
    struct qr_buf b = {0};
    qr_buf_puts(&b, "sample");
    put_heads(&b, "label", d->n_outputs);
    put_heads(&b, "prediction", k);
    for (size_t i = 0; i < a->n; i++) {
        qr_buf_printf(&b, "\n%zu", a->sample[i]);
        put_cells(&b, d->y + a->sample[i] * d->n_outputs, d->n_outputs);
        put_cells(&b, a->p + i * k, k);
    }
    qr_buf_puts(&b, "\n");
    enum qr_code code = qr_buf_ok(&b) ? qr_url_write(path, qr_buf_view(&b), err)
                                      : qr_fail(err, QR_RESOURCE_EXHAUSTED, "%s: the predictions exceed 1 GiB of text", path);
    qr_buf_free(&b);
    return code;
}

static const char *metric_name(const struct answer *a, size_t i) { return i ? qr_metric_names[a->l->job->train.metrics[i - 1]] : "loss"; }

static void print_json(const struct answer *a, const char *weights) {
    size_t k = qr_model_n_outputs(a->l->load.model), n_sums = qr_model_n_sums(a->l->load.model);
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
    for (size_t i = 1; i < n_sums; i++) {
        qr_json_put_key(&w, metric_name(a, i));
        qr_json_put_double(&w, a->means[i]);
    }
    qr_json_close(&w, '}');
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

static void print_text(const struct answer *a) {
    const struct qr_dataset *d = &a->l->load.data;
    size_t k = qr_model_n_outputs(a->l->load.model), n_sums = qr_model_n_sums(a->l->load.model);
    printf("%8s  %-12s %s\n", "sample", "label", "prediction");
    for (size_t i = 0; i < a->n && i < SHOWN; i++) {
        printf("%8zu  ", a->sample[i]);
        for (size_t c = 0; c < d->n_outputs; c++) printf("%-*.4g ", d->n_outputs > 1 ? 4 : 12, d->y[a->sample[i] * d->n_outputs + c]);
        for (size_t c = 0; c < k; c++) printf("%.4f%s", a->p[i * k + c], c + 1 < k ? " " : "\n");
    }
    if (a->n > SHOWN) printf("     ...  (--predictions FILE writes all %zu)\n", a->n);
    printf("%zu samples%s", a->n, a->held_out ? " (validation set)" : " (all: the job holds none out)");
    for (size_t i = 0; i < n_sums; i++) printf(" - %s: %.4f", metric_name(a, i), a->means[i]);
    printf("\n");
}

static enum qr_code evaluate(struct answer *a, struct qr_err *err) {
    const struct qr_workload *w = &a->l->load;
    size_t begin = w->data.n_train < w->data.n_samples ? w->data.n_train : 0;
    a->held_out = begin > 0;
    a->n = w->data.n_samples - begin;
    a->sample = qr_xcalloc(a->n, sizeof *a->sample);
    a->p = qr_xcalloc(a->n * qr_model_n_outputs(w->model), sizeof *a->p);
    a->means = qr_xcalloc(qr_model_n_sums(w->model), sizeof *a->means);
    for (size_t i = 0; i < a->n; i++) a->sample[i] = begin + i;
    return qr_evaluate(w->model, w->initial, &w->data, a->sample, a->n, a->l->pool, a->p, NULL, a->means, err);
}

int qr_command_infer(const struct qr_command *self, int argc, char **argv) {
    const char *weights = NULL, *predictions = NULL, *isa = NULL, *threads = NULL;
    bool help, json = false;
    const struct qr_flag flags[] = {{"--weights", &weights, NULL}, {"--predictions", &predictions, NULL}, {"--json", NULL, &json},
                                    {"--isa", &isa, NULL},
                                    {"--threads", &threads, NULL}};
    struct qr_words words;
    struct qr_loaded l = {0};
    struct answer a = {.l = &l};
    struct qr_err err = {0};
    enum qr_code code = qr_read_flags(argc, argv, flags, sizeof flags / sizeof *flags, 1, &words, &help, &err);
    if (code == QR_OK && help) {
        fputs(self->help, stdout);
        return 0;
    }
    if (code == QR_OK && !weights)
        code = qr_fail(&err, QR_INVALID_ARGUMENT,
                       "--weights is missing: which weights are to be tried? (qring run writes out/NAME/weights.h5)");
    if (code == QR_OK) code = qr_load(words.v[0], isa, threads, &l, &err);
    if (code == QR_OK) code = qr_workload_weights(&l.load, weights, l.load.initial, NULL, &err);
    if (code == QR_OK) code = evaluate(&a, &err);
    if (code == QR_OK && predictions) code = write_csv(&a, predictions, &err);
    if (code == QR_OK && json) print_json(&a, weights);
    if (code == QR_OK && !json) print_text(&a);
    free(a.sample);
    free(a.p);
    free(a.means);
    qr_loaded_fini(&l);
    return qr_conclude(code, &err);
}
