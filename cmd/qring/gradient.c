/* cmd/qring/gradient.c — qring gradient: exact derivatives as JSON. Start reading at
 * qr_command_gradient(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "cmd/qring/command.h"
#include "train/evaluate.h"

const char qr_help_gradient[] =
    "Exact derivatives as JSON with 17 digits, to compare qring with other programs.\n"
    "\n"
    "Examples:\n"
    "  qring gradient                                 # the tutorial's mean loss, initial weights\n"
    "  qring gradient job.json --weights w.safetensors --of prediction   # one line per sample\n"
    "  qring gradient job.json --samples 0,3          # the mean loss over two samples\n"
    "\n"
    "Usage: qring gradient [JOB] [FLAGS]\n"
    "  --weights URL          .h5, .npz or .safetensors file [the job's initial weights]\n"
    "  --samples 0,3          positions in the training set before shuffling [all]\n"
    "  --of loss|prediction   the mean loss over the samples, or the prediction of each sample "
    "[loss]\n"
    "  --set PATH=VALUE       set a key of the job, repeatable: --set train.epochs=5 --set "
    "'model[1].units=8'\n"
    "  --seed N               random seed, as --set seed=N\n"
    "  --isa NAME             kernels [auto]: auto, portable, avx2, avx512 or neon; all give the "
    "same bits\n"
    "  --threads T            number of threads [the available CPUs]\n"
    "\n"
    "Output, one line of JSON: {\"samples\", \"loss\", \"gradient\"}; with --of prediction one "
    "line per\n"
    "sample: {\"sample\", \"readouts\", \"prediction\", \"gradient\"}. A gradient has the names "
    "and shapes of\n"
    "the weights, parameters in natural symbol order; with k > 1 outputs it has a leading axis "
    "k.\n";

static void print_line(struct qr_buf *line) {
    qr_buf_puts(line, "\n");
    fwrite(line->p, 1, line->n, stdout);
    qr_buf_clear(line);
}

static enum qr_code print_loss_gradient(const struct qr_loaded *l, const double *params,
                                        const size_t *sample, size_t n, struct qr_err *err) {
    double loss, *gradient = qr_xcalloc(qr_model_n_params(l->load.model) + 1, sizeof *gradient);
    enum qr_code code = qr_loss_gradient(l->load.model, params, &l->load.data, sample, n, l->pool,
                                         &loss, gradient, err);
    if (code == QR_OK) {
        struct qr_buf line = {0};
        struct qr_json_writer w = qr_json_writer(&line, 0);
        qr_json_open(&w, '{');
        qr_json_key_open(&w, "samples", '[');
        for (size_t i = 0; i < n; i++) qr_json_put_i64(&w, (int64_t)sample[i]);
        qr_json_close(&w, ']');
        qr_json_key_double(&w, "loss", loss);
        qr_json_put_key(&w, "gradient");
        qr_put_tensors(&w, l->load.model, gradient, 0);
        qr_json_close(&w, '}');
        print_line(&line);
        qr_buf_free(&line);
    }
    free(gradient);
    return code;
}

struct at {
    struct qr_model_state *numbers;
    struct qr_model_workspace *workspace;
    double *p, *z, *gradient;
};

static enum qr_code print_prediction_gradient(const struct qr_loaded *l, struct at *at,
                                              size_t sample, struct qr_buf *line,
                                              struct qr_err *err) {
    const struct qr_model *m = l->load.model;
    size_t k = qr_model_n_outputs(m), n = qr_model_n_params(m), n_z = qr_model_n_readouts(m);
    const double *x = l->load.data.x + sample * l->load.data.n_columns;
    const uint32_t number = (uint32_t)sample;
    const struct qr_draw draw = {.seed = qr_model_seed(m), .sample = &number};
    bool fine = qr_model_predict(at->numbers, at->workspace, l->pool, &x, 1, &draw, at->p,
                                 n_z ? at->z : NULL);
    for (size_t c = 0; c < k && fine; c++)
        fine = qr_model_prediction_gradient(at->numbers, at->workspace, l->pool, x, &draw, c,
                                            at->gradient + c * n);
    if (!fine)
        return qr_fail(err, QR_OUT_OF_RANGE,
                       "sample %zu gives a number that is not finite or reaches 2^40; look at the "
                       "weights and at this sample",
                       sample);
    struct qr_json_writer w = qr_json_writer(line, 0);
    qr_json_open(&w, '{');
    qr_json_key_i64(&w, "sample", (int64_t)sample);
    qr_json_key_open(&w, "readouts", '[');
    for (size_t i = 0; i < n_z; i++) qr_json_put_double(&w, at->z[i]);
    qr_json_close(&w, ']');
    qr_json_put_key(&w, "prediction");
    if (k > 1) qr_json_open(&w, '[');
    for (size_t i = 0; i < k; i++) qr_json_put_double(&w, at->p[i]);
    if (k > 1) qr_json_close(&w, ']');
    qr_json_put_key(&w, "gradient");
    qr_put_tensors(&w, m, at->gradient, k > 1 ? k : 0);
    qr_json_close(&w, '}');
    print_line(line);
    return QR_OK;
}

static enum qr_code print_prediction_gradients(const struct qr_loaded *l, const double *params,
                                               const size_t *sample, size_t n, struct qr_err *err) {
    const struct qr_model *m = l->load.model;
    struct at at = {
        .numbers = qr_model_state_new(m),
        .p = qr_xcalloc(qr_model_n_outputs(m), sizeof(double)),
        .z = qr_xcalloc(qr_model_n_readouts(m) + 1, sizeof(double)),
        .gradient = qr_xcalloc(qr_model_n_outputs(m) * qr_model_n_params(m) + 1, sizeof(double))};
    struct qr_buf line = {0};
    enum qr_code code = qr_model_workspace_new(m, &at.workspace, err);
    if (code == QR_OK) qr_model_prepare(at.numbers, params, NULL);
    for (size_t i = 0; i < n && code == QR_OK; i++)
        code = print_prediction_gradient(l, &at, sample[i], &line, err);
    qr_buf_free(&line);
    qr_model_workspace_free(at.workspace);
    qr_model_state_free(at.numbers);
    free(at.p);
    free(at.z);
    free(at.gradient);
    return code;
}

int qr_command_gradient(const struct qr_command *self, int argc, char **argv) {
    const char *weights = NULL, *samples = NULL, *of = "loss", *isa = NULL, *threads = NULL;
    qr_auto(qr_overrides_fini) struct qr_overrides set = {0};
    const struct qr_flag flags[] = {{"--weights", &weights, NULL},
                                    {"--samples", &samples, NULL},
                                    {"--of", &of, NULL},
                                    {"--isa", &isa, NULL},
                                    {"--threads", &threads, NULL}};
    struct qr_words words;
    qr_auto(qr_loaded_fini) struct qr_loaded l = {0};
    struct qr_err err = {0};
    size_t *sample = NULL, n = 0;
    bool help;
    enum qr_code code = qr_read_flags(argc, argv, flags, sizeof flags / sizeof *flags, &set, 1,
                                      &words, &help, &err);
    if (code == QR_OK && help) return qr_print_help(self);
    if (code == QR_OK && strcmp(of, "loss") != 0 && strcmp(of, "prediction") != 0)
        code =
            qr_fail(&err, QR_INVALID_ARGUMENT, "--of: '%.40s' is neither loss nor prediction", of);
    if (code == QR_OK) code = qr_load_workload(words.v[0], &set, isa, threads, &l, &err);
    if (code == QR_OK && weights)
        code = qr_workload_weights(&l.load, weights, l.load.initial, &err);
    if (code == QR_OK) code = qr_read_samples(samples, l.load.data.n_train, &sample, &n, &err);
    if (code == QR_OK)
        code = strcmp(of, "loss") == 0
                   ? print_loss_gradient(&l, l.load.initial, sample, n, &err)
                   : print_prediction_gradients(&l, l.load.initial, sample, n, &err);
    free(sample);
    return qr_exit_report(code, &err);
}
