/* data/dataset.c — a data set's memory and names, and checks of samples that npz and CSV share.
 * Loading is in dataset_load.c. Start reading at qr_dataset_alloc(). */
#include "data/dataset.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "data/dataset_impl.h"
#include "data/named_files.h"
#include "format/npz.h"
#include "store/store.h"

enum qr_code qr_dataset_alloc(struct qr_dataset *ret, size_t n_samples, size_t n_columns,
                              size_t n_outputs, bool weighted, struct qr_err *err) {
    struct qr_dataset d = {.n_samples = n_samples,
                           .n_columns = n_columns,
                           .n_outputs = n_outputs,
                           .weighted = weighted};
    size_t width, values, y_width = qr_dataset_y_width(&d);
    qr_auto(qr_free_p) void *x = NULL, *y = NULL;
    if (__builtin_add_overflow(n_columns, y_width, &width) ||
        __builtin_mul_overflow(width, n_samples, &values))
        values = SIZE_MAX;
    if (values > SIZE_MAX / sizeof(double) || values * sizeof(double) > qr_memory_limit_bytes())
        return qr_fail(err, QR_RESOURCE_EXHAUSTED,
                       "the data set (%zu samples of %zu values) needs %.0f bytes; this process "
                       "may use %llu bytes",
                       n_samples, width, (double)n_samples * (double)width * (double)sizeof(double),
                       (unsigned long long)qr_memory_limit_bytes());
    QR_TRY(qr_large_new(n_samples * n_columns, sizeof(double), "the data set's x", &x, err));
    QR_TRY(qr_large_new(n_samples * y_width, sizeof(double), "the data set's y", &y, err));
    d.x = QR_MOVE(x);
    d.y = QR_MOVE(y);
    *ret = d;
    return QR_OK;
}

void qr_dataset_fini(struct qr_dataset *d) {
    for (size_t j = 0; d->names && j < d->n_columns; j++) free(d->names[j]);
    free(d->names);
    qr_name_list_fini(&d->classes);
    free(d->unread);
    free(d->row);
    free(d->x);
    free(d->y);
    *d = (struct qr_dataset){0};
}

struct qr_data_names qr_dataset_data_names(const struct qr_dataset *d) {
    struct qr_data_names names = {{0}, {0}};
    if (d->unquoted) return names;
    names.classes = d->classes;
    if (d->names && qr_names_are_given((const char *const *)d->names, d->n_columns))
        names.inputs = (struct qr_name_list){d->n_columns, d->names};
    return names;
}

bool qr_names_are_given(const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char position[24];
        snprintf(position, sizeof position, "%zu", i);
        if (strcmp(names[i], position) != 0) return true;
    }
    return false;
}

const char *qr_nonfinite_name(double v) {
    return isnan(v) ? "NaN" : v > 0 ? "infinity" : "-infinity";
}

/* ---- checks shared by npz and CSV ---- */

enum qr_code qr_dataset_check_sizes(const struct qr_data_options *opt, const char *url,
                                    size_t n_samples, size_t n_columns, bool named,
                                    struct qr_err *err) {
    size_t n_trained = opt->inputs ? opt->inputs->n : 0;
    if (n_samples == 0) return qr_fail(err, QR_DATA_LOSS, "%s: the file has no samples", url);
    if (n_samples > UINT32_MAX)
        return qr_fail(err, QR_DATA_LOSS, "%s: %zu samples; at most 2^32 - 1 are supported", url,
                       n_samples);
    if (n_columns == 0) return qr_fail(err, QR_DATA_LOSS, "%s: x has no columns", url);
    if (n_trained && (named || opt->n_picked)) return QR_OK; /* picked by name later */
    if (n_trained && n_columns != n_trained)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: x has %zu columns without names, but the model was trained with %zu; "
                       "correct the file",
                       url, n_columns, n_trained);
    if (opt->n_columns &&
        (opt->more_columns ? n_columns < opt->n_columns : n_columns != opt->n_columns))
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: x has %zu columns, but the model takes %zu; correct one of them", url,
                       n_columns, opt->n_columns);
    return QR_OK;
}

enum qr_code qr_dataset_put_label(const struct qr_data_options *opt, const double *from,
                                  size_t have, size_t want, double *to, const char *url, size_t row,
                                  struct qr_err *err) {
    if (opt->no_labels) return QR_OK;
    if (opt->one_label_for_all && have == 1) {
        for (size_t k = 0; k < want; k++) to[k] = from[0];
        return QR_OK;
    }
    if (have == want) {
        memcpy(to, from, want * sizeof *to);
        return QR_OK;
    }
    double label = from[0];
    if (!(label >= 0 && label < (double)want && label == floor(label)))
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: row %zu of y is %.17g; the model has %zu outputs, so y must be a class "
                       "number from 0 to %zu, or %zu columns",
                       url, row + 1, label, want, want - 1, want);
    to[(size_t)label] = 1;
    return QR_OK;
}

enum qr_code qr_dataset_put_weight(const struct qr_data_options *opt, double weight, double *to,
                                   const char *url, size_t row, struct qr_err *err) {
    *to = weight;
    if (weight >= 0 && weight < 0x1p40) return QR_OK;
    return qr_fail(
        err, QR_DATA_LOSS,
        "%s: row %zu: the weight in '%.60s' is %g; a weight is 0 or more, and below 2^40", url,
        row + 1, opt->sample_weight, weight);
}
