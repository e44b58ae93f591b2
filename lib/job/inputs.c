/* job/inputs.c — checks the values of the data against a job: inputs out of range, angles that look
 * like degrees, a batch larger than the training set; lists the classes. Start reading at
 * qr_job_check_inputs(). */
#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "circuit/rotations.h"
#include "job/job_impl.h"

enum { SHOWN_CLASSES = 12 };
static const double most_turns = 2; /* full turns per input above which a warning is given */
static const double pi = 0x1.921fb54442d18p+1;

static double max_double(double a, double b) { return a > b ? a : b; }

static void put_column(const struct qr_dataset *data, size_t j, struct qr_buf *b) {
    if (data->names && !data->unquoted) qr_buf_printf(b, "column '%.60s'", data->names[j]);
    else qr_buf_printf(b, "column %zu", j);
}

static size_t n_inputs_of(const struct qr_job *job, const struct qr_dataset *data) {
    const struct qr_circuit *c = qr_layers_input_circuit(job->layers, job->n_layers);
    return c && c->n_columns < data->n_columns ? c->n_columns : data->n_columns;
}

enum qr_code qr_job_check_inputs(const struct qr_job *job, const struct qr_dataset *data,
                                 struct qr_err *err) {
    size_t n = n_inputs_of(job, data);
    for (size_t i = 0; i < data->n_samples; i++)
        for (size_t j = 0; j < n; j++) {
            double x = data->x[i * data->n_columns + j];
            if (fabs(x) < 0x1p40) continue;
            struct qr_buf column = {0};
            put_column(data, j, &column);
            qr_fail(err, QR_DATA_LOSS,
                    "data: sample %zu (counted from 0), %s is %g; inputs must be below 2^40 "
                    "(1.1e12), and angles are in radians; scale the column",
                    qr_dataset_row(data, i), qr_buf_string(&column), x);
            qr_buf_free(&column);
            return QR_DATA_LOSS;
        }
    return QR_OK;
}

char *qr_job_warn_angles(const struct qr_job *job, const struct qr_dataset *data) {
    const struct qr_circuit *c = qr_layers_input_circuit(job->layers, job->n_layers);
    size_t worst = 0, many = 0;
    double turns = 0;
    if (!c || c->n_columns > data->n_columns || !data->x) return NULL;
    double *by = qr_xcalloc(c->n_columns, sizeof *by);
    qr_circuit_turns_per_unit(c, by);
    for (size_t j = 0; j < c->n_columns; j++) {
        double most = 0;
        for (size_t i = 0; i < data->n_samples && by[j] > 0; i++)
            most = max_double(most, fabs(data->x[i * data->n_columns + j]));
        most *= by[j];
        many += most > most_turns;
        if (most > turns) turns = most, worst = j;
    }
    free(by);
    if (!many) return NULL;
    struct qr_buf text = {0};
    qr_buf_puts(&text, "data: ");
    put_column(data, worst, &text);
    if (many > 1) qr_buf_printf(&text, " (and %zu more)", many - 1);
    qr_buf_printf(&text,
                  " rotates a gate by up to %.4g radians, %.3g full turns; multiply degrees by "
                  "pi/180, or scale the inputs to about 0 to pi",
                  2 * pi * turns, turns);
    return (char *)text.p;
}

char *qr_job_warn_constants(const struct qr_job *job) {
    for (size_t l = 0; l < job->n_layers; l++) {
        double turns;
        if (job->layers[l].kind != QR_LAYER_QUANTUM) continue;
        const struct qr_gate *g =
            qr_circuit_large_constant(job->layers[l].quantum.circuit, most_turns, &turns);
        if (g)
            return qr_xasprintf("model[%zu]: a gate on qubit %u rotates by %.6g radians, %.3g full "
                                "turns; multiply degrees by pi/180",
                                l, g->targets[0], 2 * pi * turns, fabs(turns));
    }
    return NULL;
}

char *qr_job_warn_batch(const struct qr_job *job, const struct qr_dataset *data) {
    unsigned long long batch = job->train.batch_size;
    const struct qr_json *train = qr_json_get(job->tree, "train");
    if (job->data.source == QR_DATA_NONE || batch <= data->n_train ||
        !qr_json_get(train, "batch_size"))
        return NULL;
    return qr_xasprintf(
        "train.batch_size is %llu, but only %zu sample%s: each epoch is a single step", batch,
        data->n_train, data->n_train == 1 ? " trains" : "s train");
}

void qr_job_put_classes(const struct qr_job *job, const struct qr_dataset *data,
                        struct qr_buf *ret) {
    bool signs = qr_job_labels_are_signs(job);
    if (data->unquoted && data->classes.n) qr_buf_printf(ret, "%zu words", data->classes.n);
    if (data->unquoted) return;
    for (size_t i = 0; i < data->classes.n && i < SHOWN_CLASSES; i++)
        qr_buf_printf(ret, "%s%.60s (%lld)", i ? ", " : "", data->classes.v[i],
                      signs ? 2 * (long long)i - 1 : (long long)i);
    if (data->classes.n > SHOWN_CLASSES)
        qr_buf_printf(ret, " and %zu more", data->classes.n - SHOWN_CLASSES);
}
