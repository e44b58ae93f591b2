#include "data/dataset.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "base/parse.h"
#include "data/dataset_impl.h"
#include "data/find.h"
#include "format/csv.h"
#include "format/npz.h"
#include "store/store.h"

enum qr_code qr_dataset_room(struct qr_dataset *ret, size_t n_samples, size_t n_columns,
                             size_t n_outputs, bool weighted, struct qr_err *err) {
    struct qr_dataset d = {.n_samples = n_samples,
                           .n_columns = n_columns,
                           .n_outputs = n_outputs,
                           .weighted = weighted};
    size_t width, values, y_width = qr_dataset_y_width(&d);
    void *x = NULL, *y = NULL;
    if (__builtin_add_overflow(n_columns, y_width, &width) ||
        __builtin_mul_overflow(width, n_samples, &values))
        values = SIZE_MAX;
    if (values > SIZE_MAX / sizeof(double) || values * sizeof(double) > qr_memory_limit_bytes())
        return qr_fail(err, QR_RESOURCE_EXHAUSTED,
                       "the data set (%zu samples of %zu values) needs %.0f bytes; this process "
                       "may use %llu bytes",
                       n_samples, width, (double)n_samples * (double)width * (double)sizeof(double),
                       (unsigned long long)qr_memory_limit_bytes());
    enum qr_code code =
        qr_large_new(n_samples * n_columns, sizeof(double), "the data set's x", &x, err);
    if (!code)
        code = qr_large_new(n_samples * y_width, sizeof(double), "the data set's y", &y, err);
    if (code) {
        free(x);
        return code;
    }
    d.x = x;
    d.y = y;
    *ret = d;
    return QR_OK;
}

void qr_dataset_fini(struct qr_dataset *d) {
    for (size_t j = 0; d->names && j < d->n_columns; j++) free(d->names[j]);
    free(d->names);
    free(d->row);
    free(d->x);
    free(d->y);
    *d = (struct qr_dataset){0};
}

static const char *what_is(double v) { return isnan(v) ? "NaN" : v > 0 ? "infinity" : "-infinity"; }

/* ---- checks that npz and CSV share ---- */

static enum qr_code check_sizes(const struct qr_data_options *opt, const char *url,
                                size_t n_samples, size_t n_columns, struct qr_err *err) {
    if (n_samples == 0) return qr_fail(err, QR_DATA_LOSS, "%s: there are no samples in it", url);
    if (n_samples > UINT32_MAX)
        return qr_fail(err, QR_DATA_LOSS, "%s: %zu samples; at most 2^32 - 1 are taken", url,
                       n_samples);
    if (n_columns == 0) return qr_fail(err, QR_DATA_LOSS, "%s: x has no columns", url);
    if (opt->n_columns &&
        (opt->more_columns ? n_columns < opt->n_columns : n_columns != opt->n_columns))
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: x has %zu columns, but the model takes %zu; correct one of them", url,
                       n_columns, opt->n_columns);
    return QR_OK;
}

/* One row of y with `have` values into `want` outputs; a single value becomes one-hot, or every
 * output's, where several are wanted. */
static enum qr_code put_label(const struct qr_data_options *opt, const double *from, size_t have,
                              size_t want, double *to, const char *url, size_t row,
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

static enum qr_code put_weight(const struct qr_data_options *opt, double weight, double *to,
                               const char *url, size_t row, struct qr_err *err) {
    *to = weight;
    if (weight >= 0 && weight < 0x1p40) return QR_OK;
    return qr_fail(
        err, QR_DATA_LOSS,
        "%s: row %zu: the weight in '%.60s' is %g; a weight is 0 or more, and below 2^40", url,
        row + 1, opt->sample_weight, weight);
}

/* ---- npz ---- */

static enum qr_code find_array(const struct qr_tensors *t, const char *name, const char *url,
                               const struct qr_tensor **ret, struct qr_err *err) {
    *ret = qr_tensors_find(t, name);
    if (*ret) return QR_OK;
    struct qr_buf there = {.max = 200};
    for (size_t i = 0; i < t->n; i++) qr_buf_printf(&there, "%s%.40s", i ? ", " : "", t->v[i].name);
    enum qr_code code = qr_fail(err, QR_DATA_LOSS, "%s: array '%s' is missing; the file has: %s",
                                url, name, t->n ? qr_buf_string(&there) : "no arrays");
    qr_buf_free(&there);
    return code;
}

static enum qr_code check_finite(const struct qr_tensor *t, const char *url, struct qr_err *err) {
    size_t width = t->rank == 2 ? t->dims[1] : 1;
    for (size_t i = 0; i < t->n; i++)
        if (!isfinite(t->values[i]))
            return qr_fail(err, QR_DATA_LOSS,
                           "%s: array %s: row %zu, column %zu (counted from 1) is %s; every value "
                           "must be a finite number",
                           url, t->name, i / width + 1, i % width + 1, what_is(t->values[i]));
    return QR_OK;
}

static enum qr_code check_labels(const struct qr_data_options *opt, const char *url,
                                 const struct qr_tensor *y, size_t n, size_t *ret_want,
                                 struct qr_err *err) {
    if (y->rank != 1 && y->rank != 2)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: array y has %u dimensions; it must have one (a label a sample) or two",
                       url, y->rank);
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

/* What the headers say: before memory is taken for values. y: NULL without labels. *ret_want:
 * columns of y in the data set. */
static enum qr_code check_shapes(const struct qr_data_options *opt, const char *url,
                                 const struct qr_tensor *x, const struct qr_tensor *y,
                                 const struct qr_tensor *weights, size_t *ret_want,
                                 struct qr_err *err) {
    if (x->rank != 2 && !(x->rank == 1 && opt->n_columns <= 1))
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: array x has %u dimension%s; it must be samples × columns (reshape it)",
                       url, x->rank, x->rank == 1 ? "" : "s");
    size_t n = x->dims[0], n_columns = x->rank == 2 ? x->dims[1] : 1;
    enum qr_code code = check_sizes(opt, url, n, n_columns, err);
    if (!code && y) code = check_labels(opt, url, y, n, ret_want, err);
    if (code) return code;
    if (weights && weights->n != n)
        return qr_fail(err, QR_DATA_LOSS, "%s: x has %zu samples, but %s has %zu weights", url, n,
                       weights->name, weights->n);
    return QR_OK;
}

/* Takes x's values over. */
static enum qr_code take_arrays(const struct qr_data_options *opt, const char *url,
                                struct qr_tensor *x, const struct qr_tensor *y,
                                const struct qr_tensor *weights, size_t want,
                                struct qr_dataset *ret, struct qr_err *err) {
    size_t have = !y ? 0 : y->rank == 2 ? y->dims[1] : 1, width = want + (weights != NULL);
    void *labels = NULL;
    enum qr_code code = check_finite(x, url, err);
    if (!code && y) code = check_finite(y, url, err);
    if (!code)
        code = qr_large_new(x->dims[0] * width, sizeof(double), "the data set's y", &labels, err);
    if (code) return code;
    struct qr_dataset d = {.n_samples = x->dims[0],
                           .n_columns = x->rank == 2 ? x->dims[1] : 1,
                           .n_outputs = want,
                           .weighted = weights != NULL,
                           .label_for_all = opt->one_label_for_all && have < want,
                           .y = labels};
    for (size_t i = 0; y && i < d.n_samples && !code; i++)
        code = put_label(opt, y->values + i * have, have, want, d.y + i * width, url, i, err);
    for (size_t i = 0; weights && i < d.n_samples && !code; i++)
        code = put_weight(opt, weights->values[i], d.y + i * width + want, url, i, err);
    if (!code) d.x = QR_MOVE(x->values);
    if (code) qr_dataset_fini(&d);
    else *ret = d;
    return code;
}

static enum qr_code from_npz(const struct qr_data_options *opt, const char *url,
                             struct qr_buf *file, struct qr_dataset *ret, struct qr_err *err) {
    const char *weight = opt->only_inputs ? NULL : opt->sample_weight,
               *const all[] = {"x", "y", weight, NULL}, *const unlabelled[] = {"x", weight, NULL},
               *const *names = opt->no_labels ? unlabelled : all;
    struct qr_tensors t = {0};
    const struct qr_tensor *x, *y = NULL, *weights = NULL;
    size_t want = 0;
    enum qr_code code = qr_npz_shapes(qr_buf_view(file), url, &t, err);
    if (code) return code;
    if (!(code = find_array(&t, "x", url, &x, err)) &&
        (opt->no_labels || !(code = find_array(&t, "y", url, &y, err))) &&
        (!weight || !(code = find_array(&t, weight, url, &weights, err))))
        code = check_shapes(opt, url, x, y, weights, &want, err);
    qr_tensors_free(&t);
    if (!code) code = qr_npz_read(qr_buf_view(file), url, names, qr_memory_limit_bytes(), &t, err);
    qr_buf_free(file);
    if (code) return code;
    size_t x_is = 0;
    while (strcmp(t.v[x_is].name, "x") != 0) x_is++;
    weights = weight ? qr_tensors_find(&t, weight) : NULL;
    y = opt->no_labels ? NULL : qr_tensors_find(&t, "y");
    code = take_arrays(opt, url, &t.v[x_is], y, weights, want, ret, err);
    qr_tensors_free(&t);
    return code;
}

/* ---- CSV ---- */

/* A name that elsewhere is that of the labels, maybe between blanks; NULL: there is none. */
static const char *column_meant(const struct qr_csv *c) {
    static const char *const others[] = {"y", "label", "labels", "target", "class"};
    for (size_t j = 0; j < c->n_columns; j++) {
        const char *name = c->names[j] + strspn(c->names[j], " ");
        size_t n = strcspn(name, " ");
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            if (n == strlen(others[k]) && strncasecmp(name, others[k], n) == 0) return c->names[j];
    }
    return NULL;
}

/* Which columns are labels: y, or y0 … y<k-1>; where none is wanted, a y that is there all the
 * same. ret_at[k] gets their places; *ret_have how many there are. */
static enum qr_code label_columns(const struct qr_data_options *opt, const struct qr_csv *c,
                                  const char *url, size_t want, size_t *ret_at, size_t *ret_have,
                                  struct qr_err *err) {
    size_t found = 0, plain = SIZE_MAX;
    for (size_t j = 0; j < c->n_columns; j++)
        if (strcmp(c->names[j], "y") == 0) plain = j;
    size_t several = opt->only_inputs ? opt->n_outputs : want;
    for (size_t k = 0; k < several && several > 1; k++) {
        char name[32];
        snprintf(name, sizeof name, "y%zu", k);
        for (size_t j = 0; j < c->n_columns; j++)
            if (strcmp(c->names[j], name) == 0) ret_at[found++] = j;
    }
    if (several > 1 && found == several) {
        *ret_have = several;
        return QR_OK;
    }
    *ret_have = want > 0 || plain != SIZE_MAX;
    ret_at[0] = plain;
    if (plain != SIZE_MAX || want == 0) return QR_OK;
    if (want > 1)
        return qr_fail(
            err, QR_DATA_LOSS,
            "%s: the header has neither columns y0 to y%zu nor a column y of class numbers%s", url,
            want - 1, qr_csv_header_hint(c->names[0]));
    for (size_t j = 0; j < c->n_columns; j++)
        if (strcmp(c->names[j], "y0") == 0)
            return qr_fail(err, QR_DATA_LOSS,
                           "%s: the header has y0, but the model has 1 output, whose label is a "
                           "column y; let the last layer have an output for each label",
                           url);
    const char *meant = column_meant(c);
    return qr_fail(err, QR_DATA_LOSS, "%s: the header has no column y (the labels)%s%s%s%s", url,
                   qr_csv_header_hint(c->names[0]), meant ? "; is it '" : "", meant ? meant : "",
                   meant ? "'? call it y" : "");
}

/* Where the weights are, if there should be any. */
static enum qr_code weight_column(const struct qr_data_options *opt, const struct qr_csv *c,
                                  const char *url, size_t *ret_at, struct qr_err *err) {
    *ret_at = SIZE_MAX;
    if (!opt->sample_weight) return QR_OK;
    for (size_t j = 0; j < c->n_columns; j++)
        if (strcmp(c->names[j], opt->sample_weight) == 0) *ret_at = j;
    if (*ret_at != SIZE_MAX || opt->only_inputs) return QR_OK;
    return qr_fail(err, QR_DATA_LOSS,
                   "%s: the header has no column '%.60s', which data.sample_weight names", url,
                   opt->sample_weight);
}

/* Without labels nothing else misses a header: the first sample would be lost as one. Names that
 * are places (0, 1, 2 ...) are pandas'. */
static enum qr_code check_header(const struct qr_csv *c, const char *url, struct qr_err *err) {
    bool places = true;
    for (size_t j = 0; j < c->n_columns; j++) {
        double v;
        if (!qr_parse_double(c->names[j], &v)) return QR_OK;
        places &= v == (double)j;
    }
    if (places) return QR_OK;
    return qr_fail(err, QR_DATA_LOSS,
                   "%s: the first line has numbers alone (%.40s ...); write a line with the "
                   "columns' names above it",
                   url, c->names[0]);
}

/* label_at[have] is where the weights are, where there are any. */
static enum qr_code shape_csv(const struct qr_data_options *opt, const struct qr_csv *c,
                              const char *url, const size_t *label_at, size_t have,
                              struct qr_dataset *d, struct qr_err *err) {
    enum qr_code code = QR_OK;
    uint8_t *is_label = qr_xcalloc(c->n_columns, 1);
    double *labels = qr_xcalloc(have, sizeof *labels);
    for (size_t k = 0; k < have + d->weighted; k++) is_label[label_at[k]] = 1;
    for (size_t i = 0; i < c->n_rows && !code; i++) {
        const double *row = c->values + i * c->n_columns;
        double *x = d->x + i * d->n_columns;
        for (size_t j = 0; j < c->n_columns && !code; j++) {
            if (!isfinite(row[j]))
                code = qr_fail(
                    err, QR_DATA_LOSS,
                    "%s: row %zu, column '%.60s' is %s; every value must be a finite number", url,
                    i + 1, c->names[j], what_is(row[j]));
            if (!is_label[j]) *x++ = row[j];
        }
        for (size_t k = 0; k < have; k++) labels[k] = row[label_at[k]];
        double *y = d->y + i * qr_dataset_y_width(d);
        if (!code) code = put_label(opt, labels, have, d->n_outputs, y, url, i, err);
        if (!code && d->weighted)
            code = put_weight(opt, row[label_at[have]], y + d->n_outputs, url, i, err);
    }
    free(labels);
    free(is_label);
    return code;
}

/* Those of the inputs, taken over. */
static char **take_names(struct qr_csv *c, const size_t *label_at, size_t have) {
    char **names = qr_xcalloc(c->n_columns, sizeof *names);
    size_t n = 0;
    for (size_t j = 0; j < c->n_columns; j++) {
        bool is_label = false;
        for (size_t k = 0; k < have; k++) is_label |= label_at[k] == j;
        if (!is_label) names[n++] = QR_MOVE(c->names[j]);
    }
    return names;
}

static enum qr_code from_csv(const struct qr_data_options *opt, const char *url,
                             struct qr_buf *file, struct qr_dataset *ret, struct qr_err *err) {
    struct qr_csv c = {0};
    enum qr_code code =
        qr_csv_read(qr_buf_view(file), url, qr_memory_limit_bytes() / sizeof(double), &c, err);
    qr_buf_free(file);
    if (code) return code;
    bool weighted = opt->sample_weight && !opt->only_inputs;
    size_t want = opt->no_labels   ? 0
                  : opt->n_outputs ? opt->n_outputs
                                   : 1,
           have = 0, n_columns = 0,
           *at = qr_xcalloc((want > opt->n_outputs ? want : opt->n_outputs) + 2, sizeof *at);
    struct qr_dataset d = {0};
    if (opt->no_labels) code = check_header(&c, url, err);
    if (!code) code = label_columns(opt, &c, url, want, at, &have, err);
    if (!code) code = weight_column(opt, &c, url, &at[have], err);
    if (!code && opt->only_inputs) have += at[have] != SIZE_MAX; /* left out as a label is */
    if (!code) n_columns = c.n_columns - have - weighted;
    if (!code) code = check_sizes(opt, url, c.n_rows, n_columns, err);
    if (!code) code = qr_dataset_room(&d, c.n_rows, n_columns, want, weighted, err);
    if (!code) code = shape_csv(opt, &c, url, at, have, &d, err);
    if (!code) d.names = take_names(&c, at, have + weighted);
    d.label_for_all = opt->one_label_for_all && have < want;
    if (code) qr_dataset_fini(&d);
    else *ret = d;
    free(at);
    qr_csv_fini(&c);
    return code;
}

/* ---- the whole ---- */

/* Frees the file. */
static enum qr_code from_bytes(const struct qr_data_options *opt, bool npz, const char *url,
                               struct qr_buf *file, struct qr_dataset *ret, struct qr_err *err) {
    uint64_t bytes = file->n;
    struct qr_data_options all = *opt;
    if (opt->n_picked) all.n_columns = 0;
    enum qr_code code =
        npz ? from_npz(&all, url, file, ret, err) : from_csv(&all, url, file, ret, err);
    qr_buf_free(file);
    if (!code && opt->n_picked && (code = qr_dataset_pick(opt, url, ret, err)))
        qr_dataset_fini(ret);
    if (!code) ret->file_bytes = bytes;
    return code;
}

enum qr_code qr_dataset_load_file(const struct qr_data_options *opt, const char *key,
                                  const char *url, struct qr_dataset *ret, struct qr_err *err) {
    struct qr_buf file = {0};
    qr_auto(qr_free_p) char *shown = qr_url_shown(url);
    enum qr_code code = qr_dataset_read(key, url, opt->folder, qr_memory_limit_bytes(), &file, err);
    if (code) return code;
    bool unquoted = qr_named_file_unquoted(url, opt->folder);
    code = from_bytes(opt, opt->source == QR_DATA_NPZ, shown, &file, ret, err);
    if (code) return unquoted ? qr_named_file_unquote(shown, err) : code;
    ret->unquoted = unquoted;
    return QR_OK;
}

enum qr_code qr_dataset_load_samples(const struct qr_data_options *opt, const char *key,
                                     struct qr_buf *file, struct qr_dataset *ret,
                                     struct qr_err *err) {
    static const char zip[] = "PK\3\4";
    struct qr_buf own = {0};
    if (file) {
        own = *file;
        *file = (struct qr_buf){0};
    }
    enum qr_code code =
        file ? QR_OK
             : qr_dataset_read(key, opt->url, opt->folder, qr_memory_limit_bytes(), &own, err);
    if (code) return code;
    bool npz = own.n >= 4 && memcmp(own.p, zip, 4) == 0;
    qr_auto(qr_free_p) char *shown = qr_url_shown(opt->url);
    return from_bytes(opt, npz, shown, &own, ret, err);
}

/* The manifest: x and y by their own digests, so that nothing is copied to be hashed. */
static void digest(struct qr_dataset *d) {
    uint8_t text[4 * 8 + 2 * QR_SHA256_BYTES];
    const uint64_t sizes[4] = {d->n_samples, d->n_train, d->n_columns, d->n_outputs};
    for (int i = 0; i < 4; i++) qr_set_u64le(text + 8 * i, sizes[i]);
    qr_sha256(d->x, d->n_samples * d->n_columns * sizeof *d->x, text + 32);
    qr_sha256(d->y, d->n_samples * qr_dataset_y_width(d) * sizeof *d->y,
              text + 32 + QR_SHA256_BYTES);
    qr_sha256(text, sizeof text, d->digest);
}

/* True too where there are no weights. */
static bool any_weight(const struct qr_dataset *d) {
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
    struct qr_dataset d = {0};
    enum qr_code code = opt->source == QR_DATA_EXCITATIONS ? qr_excitations(opt, &d, err)
                        : !file ? qr_dataset_room(&d, 1, 0, 0, false, err)
                                : qr_dataset_load_channels(opt, &d, &split, err);
    if (code) return code;
    if (!split) d.n_train = (size_t)floor((double)d.n_samples * opt->train_fraction);
    if (d.n_train == 0) {
        code = qr_fail(err, QR_DATA_LOSS,
                       "train_fraction %.17g of %zu samples leaves none to train on",
                       opt->train_fraction, d.n_samples);
        qr_dataset_fini(&d);
        return code;
    }
    if (opt->shuffle_split && !split) qr_dataset_shuffle(&d, opt->split_seed);
    if (!any_weight(&d)) {
        code = qr_fail(err, QR_DATA_LOSS,
                       "data.sample_weight: the weights in '%.60s' are 0 for all %zu samples that "
                       "train; nothing would train",
                       opt->sample_weight, d.n_train);
        qr_dataset_fini(&d);
        return code;
    }
    digest(&d);
    *ret = d;
    return QR_OK;
}
