/* data/column_selection.c — keeps the columns that a job picks, or that a model was trained with.
 * Start reading at qr_dataset_pick(). */
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/parse.h"
#include "data/dataset_impl.h"

enum { SHOWN = 200, SHOWN_NAMES = 12 }; /* limits of a list in a message: bytes, names */

static const char *columns_key(const struct qr_data_options *opt) {
    return opt->columns_key ? opt->columns_key : "data.columns";
}

static void put_column_names(const struct qr_dataset *d, const uint8_t *but, struct qr_buf *to) {
    to->max = SHOWN;
    for (size_t j = 0, n = 0; j < d->n_columns; j++) {
        if (but && but[j]) continue;
        if (n++) qr_buf_puts(to, ", ");
        if (d->names) qr_buf_printf(to, "%.40s", d->names[j]);
        else qr_buf_printf(to, "%zu", j);
    }
}

static enum qr_code find_column(const struct qr_data_options *opt, const struct qr_dataset *d,
                                const char *url, const char *name, size_t *ret,
                                struct qr_err *err) {
    if (!d->names)
        return qr_fail(
            err, QR_DATA_LOSS,
            "%s: its columns have no names, so there is no '%.64s'; give numbers from 0 in %s", url,
            name, columns_key(opt));
    for (*ret = 0; *ret < d->n_columns; ++*ret)
        if (strcmp(d->names[*ret], name) == 0) return QR_OK;
    qr_auto(qr_buf_free) struct qr_buf there = {0};
    const char *near = qr_nearest(name, (const char *const *)d->names, d->n_columns);
    put_column_names(d, NULL, &there);
    return qr_fail(err, QR_DATA_LOSS,
                   "%s: there is no input column '%.64s'%s%.64s%s; there are: %s", url, name,
                   near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "",
                   qr_buf_string(&there));
}

static enum qr_code find_picked(const struct qr_data_options *opt, const char *url,
                                const struct qr_dataset *d, size_t *at, uint8_t *is_picked,
                                struct qr_err *err) {
    for (size_t k = 0; k < opt->n_picked; k++) {
        const struct qr_data_column *c = &opt->picked[k];
        at[k] = c->number;
        if (c->name) QR_TRY(find_column(opt, d, url, c->name, &at[k], err));
        if (at[k] >= d->n_columns)
            return qr_fail(err, QR_DATA_LOSS, "%s: %s[%zu] is %zu, but x has columns 0 to %zu", url,
                           columns_key(opt), k, at[k], d->n_columns - 1);
        if (is_picked[at[k]])
            return qr_fail(err, QR_DATA_LOSS, "%s: %s[%zu] names a column a second time", url,
                           columns_key(opt), k);
        is_picked[at[k]] = 1;
    }
    if (!opt->pick_all || opt->n_picked == d->n_columns) return QR_OK;
    qr_auto(qr_buf_free) struct qr_buf left = {0};
    put_column_names(d, is_picked, &left);
    return qr_fail(err, QR_DATA_LOSS,
                   "%s: the circuit does not use column%s %s; if that is intended, list the "
                   "columns that it uses in data \"columns\"",
                   url, d->n_columns - opt->n_picked == 1 ? "" : "s", qr_buf_string(&left));
}

static enum qr_code keep_columns(struct qr_dataset *d, const size_t *at, size_t n,
                                 struct qr_err *err) {
    void *memory = NULL;
    QR_TRY(qr_large_new(d->n_samples * n, sizeof(double), "the data set's x", &memory, err));
    double *x = memory;
    for (size_t i = 0; i < d->n_samples; i++)
        for (size_t k = 0; k < n; k++) x[i * n + k] = d->x[i * d->n_columns + at[k]];
    free(d->x);
    d->x = x;
    if (d->names) {
        char **names = qr_xcalloc(n, sizeof *names);
        for (size_t k = 0; k < n; k++) names[k] = QR_MOVE(d->names[at[k]]);
        for (size_t j = 0; j < d->n_columns; j++) free(d->names[j]);
        free(d->names);
        d->names = names;
    }
    d->n_columns = n;
    return QR_OK;
}

/* ---- columns that the model was trained with ---- */

static enum qr_code check_trained(const struct qr_name_list *inputs, const char *url,
                                  const struct qr_dataset *d, const size_t *at,
                                  struct qr_err *err) {
    qr_auto(qr_free_p) uint8_t *is_found = qr_xcalloc(inputs->n, 1);
    size_t missing = 0;
    for (size_t k = 0; k < inputs->n; k++) {
        is_found[k] = at[k] < d->n_columns;
        missing += !is_found[k];
    }
    if (!missing) return QR_OK;
    qr_auto(qr_buf_free) struct qr_buf list = {0}, there = {0};
    qr_name_list_put(inputs, is_found, SHOWN_NAMES, &list);
    put_column_names(d, NULL, &there);
    return qr_fail(err, QR_DATA_LOSS,
                   "%s: %zu of the %zu inputs that the model was trained with %s missing: %s; the "
                   "file has %s; give its columns those names",
                   url, missing, inputs->n, missing == 1 ? "is" : "are", qr_buf_string(&list),
                   qr_buf_string(&there));
}

enum qr_code qr_dataset_pick_trained(const struct qr_data_options *opt, const char *url,
                                     struct qr_dataset *d, struct qr_err *err) {
    qr_auto(qr_free_p) size_t *at = qr_xcalloc(opt->inputs->n, sizeof *at);
    const struct qr_name_list all = {d->n_columns, d->names};
    qr_name_list_find_all(&all, opt->inputs, at);
    QR_TRY(check_trained(opt->inputs, url, d, at, err));
    if (d->n_columns > opt->inputs->n) {
        struct qr_buf left = {0};
        qr_auto(qr_free_p) uint8_t *is_picked = qr_xcalloc(d->n_columns, 1);
        for (size_t k = 0; k < opt->inputs->n; k++) is_picked[at[k]] = 1;
        qr_name_list_put(&all, is_picked, SHOWN_NAMES, &left);
        d->unread = (char *)left.p;
    }
    return keep_columns(d, at, opt->inputs->n, err);
}

/* ---- columns that the job picks ---- */

enum qr_code qr_dataset_pick(const struct qr_data_options *opt, const char *url,
                             struct qr_dataset *d, struct qr_err *err) {
    qr_auto(qr_free_p) size_t *at = qr_xcalloc(opt->n_picked, sizeof *at);
    qr_auto(qr_free_p) uint8_t *is_picked = qr_xcalloc(d->n_columns, 1);
    QR_TRY(find_picked(opt, url, d, at, is_picked, err));
    return keep_columns(d, at, opt->n_picked, err);
}
