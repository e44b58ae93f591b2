#include <stdio.h>
#include <string.h>

#include "cmd/qring/command.h"

static const char rule[] = "_________________________________________________________________\n";
static const char double_rule[] =
    "=================================================================\n";

static void put_row(struct qr_buf *b, const char *name, const char *type, size_t outputs,
                    size_t params) {
    char layer[64], shape[32];
    snprintf(layer, sizeof layer, "%s (%s)", name, type);
    snprintf(shape, sizeof shape, "(None, %zu)", outputs);
    qr_buf_printf(b, " %-27s %-25s %zu\n", layer, shape, params);
}

void qr_model_table(const struct qr_model *m, const struct qr_job *job, struct qr_buf *ret) {
    qr_buf_printf(ret, "Model: \"%s\"\n%s %-27s %-25s %s\n%s", job->name, rule, "Layer (type)",
                  "Output Shape", "Param #", double_rule);
    size_t filters = qr_model_n_filters(m),
           per_filter = filters ? qr_model_n_readouts(m) / filters : 0;
    for (size_t i = 0; i < qr_model_n_tensors(m); i++) {
        const struct qr_model_tensor *t = qr_model_tensor(m, i);
        char name[48];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(t->name, "/"), t->name);
        if (t->quantum) {
            put_row(ret, name, "PQC", per_filter, t->n);
        } else if (t->rank == 2) { /* its bias comes next */
            put_row(ret, name, "Dense", t->dims[1], t->n + t->dims[1]);
        }
    }
    size_t n = qr_model_n_params(m);
    qr_buf_printf(ret, "%sTotal params: %zu (%zu bytes in float32)\n%s", double_rule, n, 4 * n,
                  rule);
}

static void put_tensor(struct qr_json_writer *w, const struct qr_model_tensor *t, const double *v) {
    size_t rows = t->rank == 2 ? t->dims[0] : 1, columns = t->rank == 2 ? t->dims[1] : t->n;
    if (t->rank == 2) qr_json_open(w, '[');
    for (size_t r = 0; r < rows; r++) {
        qr_json_open(w, '[');
        for (size_t c = 0; c < columns; c++) qr_json_put_double(w, v[r * columns + c]);
        qr_json_close(w, ']');
    }
    if (t->rank == 2) qr_json_close(w, ']');
}

void qr_put_tensors(struct qr_json_writer *w, const struct qr_model *m, const double *values,
                    size_t k) {
    size_t n = qr_model_n_params(m);
    qr_json_open(w, '{');
    for (size_t i = 0; i < qr_model_n_tensors(m); i++) {
        const struct qr_model_tensor *t = qr_model_tensor(m, i);
        qr_json_put_key(w, t->name);
        if (k == 0) {
            put_tensor(w, t, values + t->offset);
            continue;
        }
        qr_json_open(w, '[');
        for (size_t c = 0; c < k; c++) put_tensor(w, t, values + c * n + t->offset);
        qr_json_close(w, ']');
    }
    qr_json_close(w, '}');
}
