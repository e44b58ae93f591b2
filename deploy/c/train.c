/* Trains a job file, shows progress, writes the weights, and predicts the samples on standard input.
 *
 * Build: cc train.c $(pkg-config --cflags --libs qring-train) -o train
 * Use:   ./train job.json weights.safetensors <inputs
 *        inputs: "samples inputs outputs", then the numbers of each sample */
#include <qring.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile sig_atomic_t asked_to_stop;
static void on_sigint(int number) {
    (void)number;
    asked_to_stop = 1;
}

static int show(void *context, const struct qring_progress *p) {
    (void)context;
    if (p->event == QRING_EPOCH)
        fprintf(stderr, "epoch %zu/%zu - %s %.6f\n", p->epoch, p->epochs, p->names[0],
                p->values[0]);
    return asked_to_stop;
}

static char *read_file(const char *path, size_t *bytes) {
    FILE *f = fopen(path, "rb");
    char *text = (char *)malloc(1 << 20);
    if (!f || !text) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(2);
    }
    *bytes = fread(text, 1, 1 << 20, f);
    fclose(f);
    return text;
}

/* The folder of a path, in which the job's own files are. */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 1;
    char *folder = (char *)calloc(n + 1, 1);
    if (folder) memcpy(folder, slash ? path : ".", n);
    return folder;
}

static enum qring_code predict(struct qring_job *job, const struct qring_weights *weights,
                               struct qring_error *err) {
    size_t n, inputs, outputs;
    if (scanf("%zu %zu %zu", &n, &inputs, &outputs) != 3) return QRING_OK;
    double *x = (double *)calloc(n * inputs + 1, sizeof *x),
           *p = (double *)calloc(n * outputs + 1, sizeof *p);
    const struct qring_array
        samples = {x, QRING_FLOAT64, {(ptrdiff_t)(inputs * sizeof *x), sizeof *x}},
        ret = {p, QRING_FLOAT64, {(ptrdiff_t)(outputs * sizeof *p), sizeof *p}};
    for (size_t i = 0; i < n * inputs; i++)
        if (scanf("%lf", &x[i]) != 1) break;
    enum qring_code code =
        qring_predict(job, weights, &samples, n, inputs, 0, &ret, outputs, err);
    for (size_t i = 0; code == QRING_OK && i < n * outputs; i++)
        printf("%.17g%c", p[i], (i + 1) % outputs ? ' ' : '\n');
    free(x);
    free(p);
    return code;
}

int main(int argc, char **argv) {
    struct qring_error err;
    struct qring_job *job = NULL;
    struct qring_result *result = NULL;
    const struct qring_train_options options = {sizeof options, 0, NULL, 0, NULL, NULL, show, NULL};
    size_t bytes;
    if (argc != 3) {
        fprintf(stderr, "usage: train JOB WEIGHTS\n");
        return 2;
    }
    char *text = read_file(argv[1], &bytes), *folder = folder_of(argv[1]);
    signal(SIGINT, on_sigint);
    enum qring_code code = qring_job_new(text, bytes, folder, &job, &err);
    if (code == QRING_OK) code = qring_train(job, &options, &result, &err);
    if (code == QRING_OK) {
        printf("%s\n", qring_result_digest(result));
        code = qring_weights_write(qring_result_weights(result), argv[2], &err);
    }
    if (code == QRING_OK) code = predict(job, qring_result_weights(result), &err);
    if (code != QRING_OK) fprintf(stderr, "%s\n", err.message);
    qring_result_free(result);
    qring_job_free(job);
    free(text);
    free(folder);
    return code == QRING_OK ? 0 : 1;
}
