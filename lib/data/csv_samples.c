/* data/csv_samples.c — samples of a CSV file: the columns of labels, weights and inputs, and their
 * values. Start reading at qr_dataset_from_csv(). */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/parse.h"
#include "data/dataset_impl.h"
#include "data/csv.h"

enum { SHOWN_NAMES = 12 };

/* The columns of a file by role. */
struct columns {
    size_t *label; /* [n_labels], followed by the column of weights when weight is set */
    size_t n_labels;
    bool weight;
    uint8_t *is_input, *cells; /* [n_columns of the file]; cells: enum qr_csv_cells */
    size_t n_inputs;
};

static void columns_fini(struct columns *k) {
    free(k->label);
    free(k->is_input);
    free(k->cells);
}

/* The position of a column, or n_columns when it is missing. */
static size_t find_header_column(const struct qr_csv *c, const char *name) {
    return qr_name_list_find(&c->names, name);
}

/* ---- labels ---- */

/* A column with a name that is common for labels, or NULL. */
static const char *likely_label(const struct qr_csv *c) {
    static const char *const others[] = {"y",     "label",   "labels", "target",
                                         "class", "species", "outcome"};
    for (size_t j = 0; j < c->n_columns; j++)
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            if (strcasecmp(c->names.v[j], others[k]) == 0) return c->names.v[j];
    return NULL;
}

static enum qr_code no_label(const struct qr_csv *c, const char *url, size_t want,
                             struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf hint = {0};
    const char *likely = likely_label(c), *header = qr_csv_header_hint(c->names.v[0]);
    if (likely)
        qr_buf_printf(&hint, "; is it '%.60s'? give data \"labels\": \"%.60s\"", likely, likely);
    else if (!*header) qr_buf_puts(&hint, "; \"labels\" in data names another column");
    if (want > 1)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: the header has neither columns y0 to y%zu nor a column y of "
                       "classes%s%s",
                       url, want - 1, header, qr_buf_string(&hint));
    if (find_header_column(c, "y0") < c->n_columns)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: the header has y0, but the model has 1 output, whose label is a column "
                       "y; give the last layer an output for each label",
                       url);
    return qr_fail(err, QR_DATA_LOSS, "%s: the header has no column y (the labels)%s%s", url,
                   header, qr_buf_string(&hint));
}

/* Finds y, or y0 … y<k-1>; also when no labels are wanted, since a column y is not an input. */
static enum qr_code find_usual_labels(const struct qr_data_options *opt, const struct qr_csv *c,
                                      const char *url, size_t want, struct columns *k,
                                      struct qr_err *err) {
    size_t several = opt->only_inputs ? opt->n_outputs : want, plain = find_header_column(c, "y");
    for (size_t i = 0; i < several && several > 1; i++) {
        char name[32];
        snprintf(name, sizeof name, "y%zu", i);
        size_t at = find_header_column(c, name);
        if (at < c->n_columns) k->label[k->n_labels++] = at;
    }
    if (several > 1 && k->n_labels == several) return QR_OK;
    k->n_labels = plain < c->n_columns;
    k->label[0] = plain;
    return k->n_labels || want == 0 ? QR_OK : no_label(c, url, want, err);
}

/* Finds the columns that data.labels names; they may be missing when no labels are wanted. */
static enum qr_code find_named_labels(const struct qr_data_options *opt, const struct qr_csv *c,
                                      const char *url, size_t want, struct columns *k,
                                      struct qr_err *err) {
    for (size_t i = 0; i < opt->n_labels; i++) {
        size_t at = find_header_column(c, opt->labels[i]);
        if (at < c->n_columns) {
            k->label[k->n_labels++] = at;
            continue;
        }
        if (want == 0) continue;
        qr_auto(qr_buf_free) struct qr_buf there = {0};
        const char *near =
            qr_nearest(opt->labels[i], (const char *const *)c->names.v, c->n_columns);
        qr_name_list_put(&c->names, NULL, SHOWN_NAMES, &there);
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: the header has no column '%.60s', which data.labels names%s%.60s%s; it "
                       "has: %s",
                       url, opt->labels[i], near ? " (did you mean '" : "", near ? near : "",
                       near ? "'?)" : "", qr_buf_string(&there));
    }
    return QR_OK;
}

/* ---- the other columns ---- */

static enum qr_code find_weight(const struct qr_data_options *opt, const struct qr_csv *c,
                                const char *url, struct columns *k, struct qr_err *err) {
    if (!opt->sample_weight) return QR_OK;
    k->label[k->n_labels] = find_header_column(c, opt->sample_weight);
    k->weight = k->label[k->n_labels] < c->n_columns;
    if (k->weight || opt->only_inputs) return QR_OK;
    return qr_fail(err, QR_DATA_LOSS,
                   "%s: the header has no column '%.60s', which data.sample_weight names", url,
                   opt->sample_weight);
}

static bool header_has_all(const struct qr_csv *c, const struct qr_name_list *names) {
    qr_auto(qr_free_p) size_t *at = qr_xcalloc(names->n + 1, sizeof *at);
    bool all = true;
    qr_name_list_find_all(&c->names, names, at);
    for (size_t i = 0; i < names->n; i++) all &= at[i] < c->n_columns;
    return all;
}

/* Without labels no other check notices a missing header, and the first sample would be lost. The
 * names 0, 1, 2 ... are pandas' default header; those of training may be other numbers. */
static enum qr_code check_header(const struct qr_data_options *opt, const struct qr_csv *c,
                                 const char *url, struct qr_err *err) {
    if (opt->inputs && opt->inputs->n && header_has_all(c, opt->inputs)) return QR_OK;
    for (size_t j = 0; j < c->n_columns; j++) {
        double v;
        if (!qr_parse_double(c->names.v[j], &v)) return QR_OK;
    }
    if (!qr_names_are_given((const char *const *)c->names.v, c->n_columns)) return QR_OK;
    return qr_fail(err, QR_DATA_LOSS,
                   "%s: the first line has only numbers (%.40s ...); add a header line with column "
                   "names",
                   url, c->names.v[0]);
}

/* When inputs are found by name, other columns are not parsed: an id need not be a number. */
static void choose_inputs(const struct qr_data_options *opt, const struct qr_csv *c, bool by_name,
                          struct columns *k) {
    bool all_named = opt->n_picked > 0;
    qr_auto(qr_name_list_fini) struct qr_name_list wanted = {0};
    for (size_t i = 0; i < opt->n_picked; i++) all_named &= opt->picked[i].name != NULL;
    if (!by_name && !all_named) return;
    for (size_t j = 0; j < c->n_columns; j++)
        if (k->is_input[j]) k->cells[j] = QR_CSV_SKIPPED;
    for (size_t i = 0; i < (by_name ? opt->inputs->n : opt->n_picked); i++) {
        const char *name = by_name ? opt->inputs->v[i] : opt->picked[i].name;
        qr_name_list_add(&wanted, name, strlen(name));
    }
    qr_auto(qr_free_p) size_t *at = qr_xcalloc(wanted.n, sizeof *at);
    qr_name_list_find_all(&c->names, &wanted, at);
    for (size_t i = 0; i < wanted.n; i++)
        if (at[i] < c->n_columns && k->is_input[at[i]]) k->cells[at[i]] = QR_CSV_NUMBERS;
}

static bool inputs_have_names(const struct qr_csv *c, const struct columns *k) {
    qr_auto(qr_free_p) const char **names = qr_xcalloc(c->n_columns, sizeof *names);
    size_t n = 0;
    for (size_t j = 0; j < c->n_columns; j++)
        if (k->is_input[j]) names[n++] = c->names.v[j];
    return qr_names_are_given(names, n);
}

static void choose_cell_types(const struct qr_data_options *opt, const struct qr_csv *c,
                              size_t want, struct columns *k) {
    bool known = opt->classes && opt->classes->n;
    k->is_input = qr_xmalloc(c->n_columns);
    k->cells = qr_xcalloc(c->n_columns, 1); /* QR_CSV_NUMBERS */
    memset(k->is_input, 1, c->n_columns);
    for (size_t i = 0; i < k->n_labels + k->weight; i++) k->is_input[k->label[i]] = 0;
    k->n_inputs = c->n_columns - k->n_labels - k->weight;
    for (size_t j = 0; j < c->n_columns; j++)
        if (k->is_input[j]) k->cells[j] = QR_CSV_INPUTS;
    choose_inputs(opt, c, opt->inputs && opt->inputs->n && inputs_have_names(c, k), k);
    for (size_t i = 0; i < k->n_labels; i++)
        k->cells[k->label[i]] = want == 0         ? QR_CSV_SKIPPED
                                : k->n_labels > 1 ? QR_CSV_NUMBERS
                                : known           ? QR_CSV_WORDS
                                                  : QR_CSV_NUMBERS_OR_WORDS;
    if (k->weight && opt->only_inputs) k->cells[k->label[k->n_labels]] = QR_CSV_SKIPPED;
}

/* ---- values ---- */

static enum qr_code samples_put_values(const struct qr_data_options *opt, const struct qr_csv *c,
                                       const char *url, const struct columns *k,
                                       struct qr_dataset *d, struct qr_err *err) {
    qr_auto(qr_free_p) double *labels = qr_xcalloc(k->n_labels, sizeof *labels);
    for (size_t i = 0; i < c->n_rows; i++) {
        const double *row = c->values + i * c->n_columns;
        double *x = d->x + i * d->n_columns, *y = d->y + i * qr_dataset_y_width(d);
        for (size_t j = 0; j < c->n_columns; j++) {
            if (!isfinite(row[j]))
                return qr_fail(
                    err, QR_DATA_LOSS,
                    "%s: row %zu, column '%.60s' is %s; every value must be a finite number", url,
                    i + 1, c->names.v[j], qr_nonfinite_name(row[j]));
            if (k->is_input[j]) *x++ = row[j];
        }
        for (size_t l = 0; l < k->n_labels; l++) labels[l] = row[k->label[l]];
        if (c->words.n) labels[0] = qr_label_of_class(opt, (size_t)labels[0]);
        QR_TRY(qr_dataset_put_label(opt, labels, k->n_labels, d->n_outputs, y, url, i, err));
        if (d->weighted)
            QR_TRY(qr_dataset_put_weight(opt, row[k->label[k->n_labels]], y + d->n_outputs, url, i,
                                         err));
    }
    return QR_OK;
}

/* Makes the words of the labels the data set's classes, and replaces values by class numbers. */
static enum qr_code map_classes(const struct qr_data_options *opt, struct qr_csv *c,
                                const char *url, size_t column, struct qr_dataset *d,
                                struct qr_err *err) {
    if (!opt->classes) {
        QR_TRY(qr_classes_check(opt, &c->words, url, c->names.v[column], err));
        d->classes = qr_name_list_copy(&c->words);
        return QR_OK;
    }
    if (!opt->classes->n)
        return qr_fail(
            err, QR_DATA_LOSS,
            "%s: the labels in column '%.60s' are words, but the weights have no class "
            "names; use the weights.h5 or weights.safetensors of a run trained on words, "
            "or write class numbers",
            url, c->names.v[column]);
    qr_auto(qr_free_p) size_t *class = qr_xcalloc(c->words.n, sizeof *class);
    qr_name_list_find_all(opt->classes, &c->words, class);
    for (size_t i = 0; i < c->n_rows; i++) {
        double *value = &c->values[i * c->n_columns + column];
        if (!isfinite(*value)) continue;
        size_t word = (size_t)*value;
        *value = (double)class[word];
        if (class[word] < opt -> classes -> n) continue;
        qr_auto(qr_buf_free) struct qr_buf known = {0};
        qr_name_list_put(opt->classes, NULL, SHOWN_NAMES, &known);
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: row %zu, column '%.60s': '%.60s' is not a class of the trained model "
                       "(%s); correct the label or remove the row",
                       url, i + 1, c->names.v[column], c->words.v[word], qr_buf_string(&known));
    }
    d->classes = qr_name_list_copy(opt->classes);
    return QR_OK;
}

/* Moves the names of the inputs out of c. */
static char **take_input_names(struct qr_csv *c, const struct columns *k) {
    char **names = qr_xcalloc(c->n_columns, sizeof *names);
    size_t n = 0;
    for (size_t j = 0; j < c->n_columns; j++)
        if (k->is_input[j]) names[n++] = QR_MOVE(c->names.v[j]);
    return names;
}

static enum qr_code find_columns(const struct qr_data_options *opt, const struct qr_csv *c,
                                 const char *url, size_t want, struct columns *k,
                                 struct qr_err *err) {
    size_t most = want > opt->n_outputs ? want : opt->n_outputs;
    if (opt->n_labels > most) most = opt->n_labels;
    k->label = qr_xcalloc(most + 2, sizeof *k->label);
    if (opt->no_labels) QR_TRY(check_header(opt, c, url, err));
    QR_TRY(opt->n_labels ? find_named_labels(opt, c, url, want, k, err)
                         : find_usual_labels(opt, c, url, want, k, err));
    QR_TRY(find_weight(opt, c, url, k, err));
    choose_cell_types(opt, c, want, k);
    return QR_OK;
}

enum qr_code qr_dataset_from_csv(const struct qr_data_options *opt, const char *url,
                                 struct qr_buf *file, struct qr_dataset *ret, struct qr_err *err) {
    qr_auto(qr_csv_fini) struct qr_csv c = {0};
    qr_auto(columns_fini) struct columns k = {0};
    qr_auto(qr_dataset_fini) struct qr_dataset d = {0};
    bool weighted = opt->sample_weight && !opt->only_inputs;
    size_t want = opt->no_labels ? 0 : opt->n_outputs ? opt->n_outputs : 1;
    QR_TRY(qr_csv_read_header(qr_buf_view(file), url, &c, err));
    QR_TRY(find_columns(opt, &c, url, want, &k, err));
    QR_TRY(qr_csv_read_rows(qr_buf_view(file), url, k.cells,
                            qr_memory_limit_bytes() / sizeof(double), &c, err));
    qr_buf_free(file);
    QR_TRY(qr_dataset_check_sizes(opt, url, c.n_rows, k.n_inputs, inputs_have_names(&c, &k), err));
    QR_TRY(qr_dataset_alloc(&d, c.n_rows, k.n_inputs, want, weighted, err));
    if (c.words.n) QR_TRY(map_classes(opt, &c, url, k.label[0], &d, err));
    QR_TRY(samples_put_values(opt, &c, url, &k, &d, err));
    d.names = take_input_names(&c, &k);
    d.label_for_all = opt->one_label_for_all && k.n_labels < want;
    *ret = QR_MOVE(d);
    return QR_OK;
}
