/* data/dataset.c — loads data sets; npz files, checks and the digest. CSV is in csv_samples.c,
 * channels in channel.c. Start reading at qr_dataset_load(). */
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

/* ---- npz ---- */

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

static enum qr_code load_npz(const struct qr_data_options *opt, const char *url,
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

/* ---- data sets ---- */

static enum qr_code load_bytes(const struct qr_data_options *opt, bool npz, const char *url,
                               struct qr_buf *file, struct qr_dataset *ret, struct qr_err *err) {
    uint64_t bytes = file->n;
    struct qr_data_options all = *opt;
    qr_auto(qr_dataset_fini) struct qr_dataset d = {0};
    if (opt->n_picked) all.n_columns = 0;
    QR_TRY(qr_dataset_check_format(qr_buf_view(file), npz, url, err));
    QR_TRY(npz ? load_npz(&all, url, file, &d, err)
               : qr_dataset_from_csv(&all, url, file, &d, err));
    if (opt->inputs && opt->inputs->n && d.names &&
        qr_names_are_given((const char *const *)d.names, d.n_columns))
        QR_TRY(qr_dataset_pick_trained(opt, url, &d, err));
    else if (opt->n_picked) QR_TRY(qr_dataset_pick(opt, url, &d, err));
    d.file_bytes = bytes;
    *ret = QR_MOVE(d);
    return QR_OK;
}

enum qr_code qr_dataset_load_file(const struct qr_data_options *opt, const char *key,
                                  const char *url, struct qr_dataset *ret, struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf file = {0};
    qr_auto(qr_free_p) char *shown = qr_url_redacted(url);
    QR_TRY(qr_dataset_read(key, url, opt->folder, qr_memory_limit_bytes(), &file, err));
    bool unquoted = qr_named_file_unquoted(url, opt->folder);
    enum qr_code code = load_bytes(opt, opt->source == QR_DATA_NPZ, shown, &file, ret, err);
    if (code) return unquoted ? qr_named_file_unquote(shown, err) : code;
    ret->unquoted = unquoted;
    return QR_OK;
}

enum qr_code qr_dataset_load_samples(const struct qr_data_options *opt, const char *key,
                                     struct qr_buf *file, struct qr_dataset *ret,
                                     struct qr_err *err) {
    static const char zip[] = "PK\3\4";
    qr_auto(qr_buf_free) struct qr_buf own = {0};
    if (!file && opt->arrays) return qr_dataset_from_arrays(opt, ret, err);
    if (file) own = QR_MOVE(*file);
    else QR_TRY(qr_dataset_read(key, opt->url, opt->folder, qr_memory_limit_bytes(), &own, err));
    bool npz = own.n >= 4 && memcmp(own.p, zip, 4) == 0;
    qr_auto(qr_free_p) char *shown = qr_url_redacted(opt->url);
    return load_bytes(opt, npz, shown, &own, ret, err);
}

/* The data manifest. It hashes the digests of x and y, so no copy of both is needed. */
static void compute_digest(struct qr_dataset *d) {
    uint8_t text[4 * 8 + 2 * QR_SHA256_BYTES];
    const uint64_t sizes[4] = {d->n_samples, d->n_train, d->n_columns, d->n_outputs};
    for (int i = 0; i < 4; i++) qr_set_u64le(text + 8 * i, sizes[i]);
    qr_sha256(d->x, d->n_samples * d->n_columns * sizeof *d->x, text + 32);
    qr_sha256(d->y, d->n_samples * qr_dataset_y_width(d) * sizeof *d->y,
              text + 32 + QR_SHA256_BYTES);
    qr_sha256(text, sizeof text, d->digest);
}

/* True also when the data has no weights. */
static bool has_positive_weight(const struct qr_dataset *d) {
    for (size_t i = 0; i < d->n_train; i++)
        if (!d->weighted || qr_dataset_y(d, i)[d->n_outputs] > 0) return true;
    return false;
}

enum qr_code qr_dataset_load(const struct qr_data_options *opt, struct qr_dataset *ret,
                             struct qr_err *err) {
    if (!(opt->train_fraction > 0 && opt->train_fraction <= 1))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "train_fraction is %.17g; it must be above 0 and at most 1",
                       opt->train_fraction);
    bool file = opt->source == QR_DATA_NPZ || opt->source == QR_DATA_CSV;
    bool split = false;
    qr_auto(qr_dataset_fini) struct qr_dataset d = {0};
    QR_TRY(opt->source == QR_DATA_EXCITATIONS ? qr_excitations(opt, &d, err)
           : !file                            ? qr_dataset_alloc(&d, 1, 0, 0, false, err)
                                              : qr_dataset_load_channels(opt, &d, &split, err));
    if (!split) d.n_train = (size_t)floor((double)d.n_samples * opt->train_fraction);
    if (d.n_train == 0)
        return qr_fail(err, QR_DATA_LOSS,
                       "train_fraction %.17g of %zu samples leaves none to train on",
                       opt->train_fraction, d.n_samples);
    if (opt->shuffle_split && !split) qr_dataset_shuffle(&d, opt->split_seed);
    if (!has_positive_weight(&d))
        return qr_fail(err, QR_DATA_LOSS,
                       "data.sample_weight: the weights in '%.60s' are 0 for all %zu training "
                       "samples; give some of them a weight above 0",
                       opt->sample_weight, d.n_train);
    compute_digest(&d);
    *ret = QR_MOVE(d);
    return QR_OK;
}
