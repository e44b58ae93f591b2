/* cmd/qring/summary.c — the model as a table, and weights as JSON. Start reading at
 * qr_model_table(). */
#include <stdio.h>
#include <string.h>

#include "cmd/qring/command.h"

static const char rule[] = "_________________________________________________________________\n";
static const char double_rule[] =
    "=================================================================\n";

enum {
    SHOWN = 8
}; /* filters with a row of their own; of more filters, the first, and the others in one row */

static void put_row(struct qr_buf *b, const char *name, const char *type, size_t outputs,
                    size_t params, const char *each) {
    char layer[2 * QR_LAYER_NAME + 64], shape[32];
    snprintf(layer, sizeof layer, "%s (%s)", name, type);
    snprintf(shape, sizeof shape, "(None, %zu)", outputs);
    qr_buf_printf(b, " %-27s %-25s %zu%s\n", layer, shape, params, each);
}

/* "pqc" of the tensor "pqc/parameters" */
static int name_length(const char *tensor) { return (int)strcspn(tensor, "/"); }

/* A quantum layer is one Keras layer per filter. */
static void put_layer(struct qr_buf *b, const struct qr_model *m, const struct qr_model_layer *l,
                      size_t *tensor, size_t seen[QR_LAYERS]) {
    static const char *const types[QR_LAYERS] = {[QR_LAYER_QUANTUM] = "PQC",
                                                 [QR_LAYER_DENSE] = "Dense",
                                                 [QR_LAYER_ACTIVATION] = "Activation",
                                                 [QR_LAYER_DROPOUT] = "Dropout",
                                                 [QR_LAYER_SCALE] = "Rescaling"};
    size_t n = l->n_filters ? l->n_filters : 1;
    for (size_t f = 0; f < n; f++) {
        char name[2 * QR_LAYER_NAME + 48];
        const char *first = l->n_params ? qr_model_tensor(m, *tensor)->name : NULL;
        bool rest = n > SHOWN && f == 1 && first;
        size_t nth = first ? 0 : seen[l->kind]++;
        if (rest) {
            *tensor += n - 2, f = n - 1;
            const char *last = qr_model_tensor(m, *tensor)->name;
            snprintf(name, sizeof name, "%.*s ... %.*s", name_length(first), first,
                     name_length(last), last);
        } else if (first) snprintf(name, sizeof name, "%.*s", name_length(first), first);
        else if (nth) snprintf(name, sizeof name, "%s_%zu", qr_layer_names[l->kind], nth);
        else snprintf(name, sizeof name, "%s", qr_layer_names[l->kind]);
        put_row(b, name, types[l->kind], l->n_out / n, l->n_params / n, rest ? " each" : "");
        if (l->kind == QR_LAYER_QUANTUM) *tensor += 1;
        if (l->kind == QR_LAYER_DENSE) *tensor += 2;
    }
}

void qr_model_table(const struct qr_model *m, const struct qr_job *job, struct qr_buf *ret) {
    size_t tensor = 0, seen[QR_LAYERS] = {0}, n = qr_model_n_params(m),
           frozen = qr_model_n_frozen(m);
    qr_buf_printf(ret, "Model: \"%s\"\n%s %-27s %-25s %s\n%s", job->name, rule, "Layer (type)",
                  "Output Shape", "Param #", double_rule);
    for (size_t i = 0; i < qr_model_n_layers(m); i++) {
        const struct qr_model_layer l = qr_model_layer(m, i);
        put_layer(ret, m, &l, &tensor, seen);
    }
    qr_buf_printf(ret, "%sTotal params: %zu (%zu bytes in float32)\n", double_rule, n, 4 * n);
    qr_buf_printf(ret, "Trainable params: %zu\nNon-trainable params: %zu\n", n - frozen, frozen);
    qr_buf_puts(ret, rule);
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
