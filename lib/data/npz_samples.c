/* data/npz_samples.c — samples of npz files and of arrays. Start reading at
 * qr_dataset_from_npz(). */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "data/dataset_impl.h"
#include "format/npz.h"

static enum qr_code npz_find_array(const struct qr_tensors *t, const char *name, const char *url,
                                   const struct qr_tensor **ret, struct qr_err *err) {
    *ret = qr_tensors_find(t, name);
    if (*ret) return QR_OK;
    qr_auto(qr_buf_free) struct qr_buf there = {.max = 200};
    for (size_t i = 0; i < t->n; i++) qr_buf_printf(&there, "%s%.40s", i ? ", " : "", t->v[i].name);
    return qr_fail(err, QR_DATA_LOSS, "%s: array '%s' is missing; the file has: %s", url, name,
                   t->n ? qr_buf_string(&there) : "no arrays");
}

static enum qr_code npz_check_finite(const struct qr_tensor *t, const char *url,
                                     struct qr_err *err) {
    size_t width = t->rank == 2 ? t->dims[1] : 1;
    for (size_t i = 0; i < t->n; i++)
        if (!isfinite(t->values[i]))
            return qr_fail(err, QR_DATA_LOSS,
                           "%s: array %s: row %zu, column %zu (counted from 1) is %s; every value "
                           "must be a finite number",
                           url, t->name, i / width + 1, i % width + 1,
                           qr_nonfinite_name(t->values[i]));
    return QR_OK;
}

static enum qr_code npz_check_labels(const struct qr_data_options *opt, const char *url,
                                     const struct qr_tensor *y, size_t n, size_t *ret_want,
                                     struct qr_err *err) {
    if (y->rank != 1 && y->rank != 2)
        return qr_fail(
            err, QR_DATA_LOSS,
            "%s: array y has %u dimensions; it must have one (a label per sample) or two", url,
            y->rank);
    if (y->dims[0] != n)
        return qr_fail(err, QR_DATA_LOSS, "%s: x has %zu samples, but y has %zu", url, n,
                       y->dims[0]);
    size_t have = y->rank == 2 ? y->dims[1] : 1, want = opt->n_outputs ? opt->n_outputs : have;
    if (have == 0 || (have != want && have != 1))
        return qr_fail(err, QR_DATA_LOSS, "%s: y has %zu columns, but the model has %zu output%s",
                       url, have, want, want == 1 ? "" : "s");
    *ret_want = want;
    return QR_OK;
}

/* Checks the shapes before memory is allocated for values. y: NULL without labels. *ret_want:
 * columns of y in the data set. */
static enum qr_code npz_check_shapes(const struct qr_data_options *opt, const char *url,
                                     const struct qr_tensor *x, const struct qr_tensor *y,
                                     const struct qr_tensor *weights, size_t *ret_want,
                                     struct qr_err *err) {
    if (x->rank != 2 && !(x->rank == 1 && opt->n_columns <= 1))
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: array x has %u dimension%s; it must be samples × columns (reshape it)",
                       url, x->rank, x->rank == 1 ? "" : "s");
    size_t n = x->dims[0], n_columns = x->rank == 2 ? x->dims[1] : 1;
    QR_TRY(qr_dataset_check_sizes(opt, url, n, n_columns, false, err));
    if (y) QR_TRY(npz_check_labels(opt, url, y, n, ret_want, err));
    if (weights && weights->n != n)
        return qr_fail(err, QR_DATA_LOSS, "%s: x has %zu samples, but %s has %zu weights", url, n,
                       weights->name, weights->n);
    return QR_OK;
}

/* The arrays that a data set is built of; y and weights NULL: not read. */
struct npz_arrays {
    const struct qr_tensor *x, *y, *weights;
    size_t want; /* columns of y in the data set */
};

static const char *npz_weight(const struct qr_data_options *opt) {
    return opt->only_inputs ? NULL : opt->sample_weight;
}

/* Finds the arrays, and checks their shapes. */
static enum qr_code npz_choose(const struct qr_data_options *opt, const char *url,
                               const char *label, const struct qr_tensors *t,
                               struct npz_arrays *ret, struct qr_err *err) {
    struct npz_arrays a = {0};
    QR_TRY(npz_find_array(t, "x", url, &a.x, err));
    if (!opt->no_labels) QR_TRY(npz_find_array(t, label, url, &a.y, err));
    if (npz_weight(opt)) QR_TRY(npz_find_array(t, npz_weight(opt), url, &a.weights, err));
    QR_TRY(npz_check_shapes(opt, url, a.x, a.y, a.weights, &a.want, err));
    *ret = a;
    return QR_OK;
}

/* Builds the data set; takes the values of x out of the list. */
static enum qr_code npz_build(const struct qr_data_options *opt, const char *url, const char *label,
                              struct qr_tensors *t, struct qr_dataset *ret, struct qr_err *err) {
    struct npz_arrays a;
    QR_TRY(npz_choose(opt, url, label, t, &a, err));
    const struct qr_tensor *x = a.x, *y = a.y, *weights = a.weights;
    size_t have = !y ? 0 : y->rank == 2 ? y->dims[1] : 1, width = a.want + (weights != NULL);
    void *labels = NULL;
    QR_TRY(npz_check_finite(x, url, err));
    if (y) QR_TRY(npz_check_finite(y, url, err));
    QR_TRY(qr_large_new(x->dims[0] * width, sizeof(double), "the data set's y", &labels, err));
    qr_auto(qr_dataset_fini) struct qr_dataset d = {.n_samples = x->dims[0],
                                                    .n_columns = x->rank == 2 ? x->dims[1] : 1,
                                                    .n_outputs = a.want,
                                                    .weighted = weights != NULL,
                                                    .label_for_all =
                                                        opt->one_label_for_all && have < a.want,
                                                    .y = labels};
    for (size_t i = 0; y && i < d.n_samples; i++)
        QR_TRY(qr_dataset_put_label(opt, y->values + i * have, have, a.want, d.y + i * width, url,
                                    i, err));
    for (size_t i = 0; weights && i < d.n_samples; i++)
        QR_TRY(
            qr_dataset_put_weight(opt, weights->values[i], d.y + i * width + a.want, url, i, err));
    d.x = QR_MOVE(t->v[x - t->v].values);
    *ret = QR_MOVE(d);
    return QR_OK;
}

enum qr_code qr_dataset_from_npz(const struct qr_data_options *opt, const char *url,
                                 struct qr_buf *file, struct qr_dataset *ret, struct qr_err *err) {
    const char *weight = npz_weight(opt), *label = opt->n_labels == 1 ? opt->labels[0] : "y",
               *const all[] = {"x", label, weight, NULL}, *const unlabelled[] = {"x", weight, NULL},
               *const *names = opt->no_labels ? unlabelled : all;
    qr_auto(qr_tensors_free) struct qr_tensors shapes = {0}, t = {0};
    struct npz_arrays unread;
    QR_TRY(qr_npz_shapes(qr_buf_view(file), url, &shapes, err));
    QR_TRY(npz_choose(opt, url, label, &shapes, &unread, err));
    QR_TRY(qr_npz_read(qr_buf_view(file), url, names, qr_memory_limit_bytes(), &t, err));
    qr_buf_free(file);
    return npz_build(opt, url, label, &t, ret, err);
}

enum qr_code qr_dataset_from_arrays(const struct qr_data_options *opt, struct qr_dataset *ret,
                                    struct qr_err *err) {
    struct qr_data_options o = *opt;
    if (o.n_picked) o.n_columns = o.n_picked, o.more_columns = false;
    o.n_picked = 0;
    o.inputs = NULL;
    qr_auto(qr_tensors_free) struct qr_tensors t = QR_MOVE(*opt->arrays);
    return npz_build(&o, "the arrays", "y", &t, ret, err);
}
