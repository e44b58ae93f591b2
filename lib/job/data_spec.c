/* job/data_spec.c — reads the irregular keys of "data" of a job: channels, columns, labels and the
 * split. Start reading at qr_job_finish_data(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "job/job_impl.h"

enum { MAX_COLUMNS = 4096, MAX_CHANNELS = 32, MAX_URLS = 4096, MAX_NAME = 63 };

void qr_job_set_data_defaults(size_t kind, void *to) {
    struct qr_data_options *d = to;
    d->source = (enum qr_data_source)kind;
    d->train_fraction = 1;
    d->rounds = 20;
}

/* ---- labels and weights ---- */

/* Trims blanks, as the CSV reader does in the header. */
static char *column_name(const char *text) {
    size_t n = strlen(text += strspn(text, " \t"));
    while (n && strchr(" \t", text[n - 1])) n--;
    return qr_xstrndup(text, n);
}

enum qr_code qr_job_read_sample_weight(struct qr_job_reader *r, const struct qr_json *v,
                                       const char *where, void *to) {
    const char *name;
    QR_TRY(qr_json_string(v, where, &name, r->err));
    bool npz = r->kind == QR_DATA_NPZ;
    if (!*name || strcmp(name, "y") == 0 || (npz && strcmp(name, "x") == 0))
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: '%s' is not a valid %s of weights; give the name of one", where, name,
                       npz ? "array" : "column");
    *(char **)to = column_name(name);
    return QR_OK;
}

static enum qr_code add_label(struct qr_job_reader *r, const struct qr_json *v, const char *where,
                              const char **labels) {
    struct qr_data_options *d = &r->job->data;
    const char *text;
    QR_TRY(qr_json_string(v, where, &text, r->err));
    const char *name = labels[d->n_labels++] = column_name(text);
    bool npz = d->source == QR_DATA_NPZ;
    if (!*name || (npz && strcmp(name, "x") == 0) ||
        (d->sample_weight && strcmp(name, d->sample_weight) == 0))
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: '%.60s' is not a valid %s of labels; give the name of one", where, name,
                       npz ? "array" : "column");
    for (size_t i = 0; i + 1 < d->n_labels; i++)
        if (strcmp(labels[i], name) == 0)
            return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: '%.60s' is a duplicate; remove it",
                           where, name);
    return QR_OK;
}

/* One name, or a name for each output. */
enum qr_code qr_job_read_labels(struct qr_job_reader *r, const struct qr_json *v, const char *where,
                                void *to) {
    bool list = qr_json_type(v) == QR_JSON_ARRAY;
    size_t n = list ? qr_json_size(v) : 1, n_outputs = qr_job_n_outputs(r->job), i = 0;
    if (n < 1 || (n > 1 && r->kind == QR_DATA_NPZ))
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s has %zu entries; give the name of one %s",
                       where, n, n ? "array" : "column");
    if (n > 1 && n != n_outputs)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s names %zu columns, but the model has %zu output%s; name one column, or "
                       "one for each output",
                       where, n, n_outputs, n_outputs == 1 ? "" : "s");
    const char **labels = *(const char ***)to = qr_xcalloc(n, sizeof *labels);
    if (!list) return add_label(r, v, where, labels);
    for (const struct qr_json *l = qr_json_first(v); l; l = qr_json_next(l))
        QR_TRY(add_label(r, l, qr_path_of("%s[%zu]", where, i++).s, labels));
    return QR_OK;
}

/* ---- columns ---- */

static enum qr_code read_column(const struct qr_json *v, const char *where,
                                struct qr_data_column *ret, struct qr_err *err) {
    int64_t number;
    const char *name;
    if (qr_json_type(v) == QR_JSON_STRING) {
        QR_TRY(qr_json_string(v, where, &name, err));
        ret->name = column_name(name);
        return QR_OK;
    }
    if (qr_json_type(v) != QR_JSON_NUMBER)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s must be a column's name or its number from 0, not %s", where,
                       qr_json_type_name(v));
    QR_TRY(qr_json_i64(v, where, 0, INT32_MAX, &number, err));
    ret->number = (size_t)number;
    return QR_OK;
}

static bool same_column(const struct qr_data_column *a, const struct qr_data_column *b) {
    return a->name && b->name ? strcmp(a->name, b->name) == 0
                              : !a->name && !b->name && a->number == b->number;
}

/* Reads "columns" of data or of a channel. *ret is freed by the caller, also on failure. */
static enum qr_code read_columns(const struct qr_json *list, const char *where,
                                 const struct qr_data_column **ret, size_t *ret_n,
                                 struct qr_err *err) {
    QR_TRY(qr_json_want(list, where, QR_JSON_ARRAY, err));
    size_t n = qr_json_size(list), i = 0;
    if (n < 1 || n > MAX_COLUMNS)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s has %zu entries; give 1 to %d names or numbers of columns", where, n,
                       MAX_COLUMNS);
    struct qr_data_column *picked = qr_xcalloc(n, sizeof *picked);
    *ret = picked;
    *ret_n = n;
    for (const struct qr_json *v = qr_json_first(list); v; v = qr_json_next(v), i++) {
        QR_TRY(read_column(v, qr_path_of("%s[%zu]", where, i).s, &picked[i], err));
        for (size_t k = 0; k < i; k++)
            if (same_column(&picked[k], &picked[i]))
                return qr_fail(err, QR_INVALID_ARGUMENT, "%s[%zu] is the same column as %s[%zu]",
                               where, i, where, k);
    }
    return QR_OK;
}

enum qr_code qr_job_read_data_columns(struct qr_job_reader *r, const struct qr_json *v,
                                      const char *where, void *to) {
    return read_columns(v, where, to, &r->job->data.n_picked, r->err);
}

enum qr_code qr_job_read_channel_columns(struct qr_job_reader *r, const struct qr_json *v,
                                         const char *where, void *to) {
    struct qr_data_channel *c =
        (struct qr_data_channel *)((char *)to - offsetof(struct qr_data_channel, picked));
    size_t wanted = r->job->data.n_picked;
    QR_TRY(read_columns(v, where, &c->picked, &c->n_picked, r->err));
    if (c->n_picked == wanted) return QR_OK;
    return qr_fail(
        r->err, QR_INVALID_ARGUMENT,
        wanted ? "%s picks %zu columns, but the inputs are %zu"
               : "%s picks %zu columns; give data.columns too, which define the inputs (%zu now)",
        where, c->n_picked, wanted);
}

/* Picks the columns that the circuit refers to by name. */
static enum qr_code pick_named(const struct qr_circuit *c, struct qr_job *job, struct qr_err *err) {
    if (c->n_columns > c->n_named)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "model: the circuit calls some columns by name (x.%.64s) and others by "
                       "number (x[%u]); list all of them by name in data.columns",
                       c->column_names[0], c->n_columns - c->n_named - 1);
    struct qr_data_column *picked = qr_xcalloc(c->n_named, sizeof *picked);
    for (unsigned i = 0; i < c->n_named; i++) picked[i].name = qr_xstrdup(c->column_names[i]);
    job->data.picked = picked;
    job->data.n_picked = c->n_named;
    job->data.pick_all = true;
    return QR_OK;
}

/* Maps the inputs of the circuit to the columns that data.columns picks. */
static enum qr_code place_columns(struct qr_job *job, struct qr_err *err) {
    struct qr_circuit *c =
        (struct qr_circuit *)(uintptr_t)qr_layers_input_circuit(job->layers, job->n_layers);
    if (c && c->n_named && !job->data.n_picked) QR_TRY(pick_named(c, job, err));
    if (!c || !job->data.n_picked) return QR_OK;
    if (!job->data_may_be_wider && c->n_columns - c->n_named != job->data.n_picked)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data.columns picks %zu columns, but the circuit takes %u",
                       job->data.n_picked, c->n_columns - c->n_named);
    qr_auto(qr_free_p) const char **names = qr_xcalloc(job->data.n_picked, sizeof *names);
    for (size_t i = 0; i < job->data.n_picked; i++) names[i] = job->data.picked[i].name;
    enum qr_code code = qr_circuit_resolve_columns(c, names, (unsigned)job->data.n_picked, err);
    return code ? qr_wrap(err, "data.columns") : QR_OK;
}

/* ---- channels ---- */

static enum qr_code add_url(struct qr_job_reader *r, const struct qr_json *v, const char *where,
                            const char **ret) {
    static const struct qr_job_key url = {.type = QR_KEY_URL};
    return qr_job_read_value(r, &url, v, where, ret);
}

/* A URL or a list of URLs. */
enum qr_code qr_job_read_urls(struct qr_job_reader *r, const struct qr_json *v, const char *where,
                              void *to) {
    struct qr_data_channel *c =
        (struct qr_data_channel *)((char *)to - offsetof(struct qr_data_channel, urls));
    bool list = qr_json_type(v) == QR_JSON_ARRAY;
    size_t n = list ? qr_json_size(v) : 1;
    if (n < 1 || n > MAX_URLS)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s has %zu entries; give 1 to %d paths or URLs", where, n, MAX_URLS);
    const char **urls = qr_xcalloc(n, sizeof *urls);
    c->urls = urls;
    if (!list) return add_url(r, v, where, &urls[c->n_urls++]);
    for (const struct qr_json *u = qr_json_first(v); u; u = qr_json_next(u), c->n_urls++)
        QR_TRY(add_url(r, u, qr_path_of("%s[%zu]", where, c->n_urls).s, &urls[c->n_urls]));
    return QR_OK;
}

enum qr_code qr_job_read_file_source(struct qr_job_reader *r, const struct qr_json *v,
                                     const char *where, void *to) {
    static const char *const names[] = {"npz", "csv"};
    size_t source;
    QR_TRY(qr_json_choice(v, where, names, 2, &source, r->err));
    *(enum qr_data_source *)to = source ? QR_DATA_CSV : QR_DATA_NPZ;
    return QR_OK;
}

/* A URL, a list of URLs, or an object. */
static enum qr_code read_channel(struct qr_job_reader *r, const struct qr_json *v,
                                 const char *where, struct qr_data_channel *c) {
    enum qr_json_type type = qr_json_type(v);
    c->source = r->job->data.source;
    if (type == QR_JSON_STRING || type == QR_JSON_ARRAY)
        return qr_job_read_urls(r, v, where, &c->urls);
    if (type != QR_JSON_OBJECT)
        return qr_fail(
            r->err, QR_INVALID_ARGUMENT,
            "%s must be a path or URL, a list of them, or an object with \"url\", not %s", where,
            qr_json_type_name(v));
    return qr_job_read_object(r, qr_job_object_of(r, "channel"), v, where, c);
}

/* Names are part of paths of --set, of flags and of messages. */
static bool is_channel_name(const char *name) { return qr_is_name(name, MAX_NAME, "-_"); }

enum qr_code qr_job_read_channels(struct qr_job_reader *r, const struct qr_json *v,
                                  const char *where, void *to) {
    struct qr_data_options *d = &r->job->data;
    QR_TRY(qr_json_want(v, where, QR_JSON_OBJECT, r->err));
    size_t n = qr_json_size(v);
    if (n < 1 || n > MAX_CHANNELS)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s has %zu names; give 1 to %d", where, n,
                       MAX_CHANNELS);
    struct qr_data_channel *all = *(struct qr_data_channel **)to = qr_xcalloc(n, sizeof *all);
    for (const struct qr_json *m = qr_json_first(v); m; m = qr_json_next(m)) {
        const char *name = qr_json_key(m);
        if (!is_channel_name(name))
            return qr_fail(r->err, QR_INVALID_ARGUMENT,
                           "%s: '%.80s' is not a valid channel name; use 1 to %d letters, digits, "
                           "'-' or '_'",
                           where, name, MAX_NAME);
        struct qr_path path = qr_path_of("%s.%s", where, name);
        struct qr_data_channel *c = &all[d->n_channels++];
        c->name = qr_xstrdup(name);
        bool trains = strcmp(name, "train") == 0, validates = strcmp(name, "validation") == 0;
        if ((trains && d->url) || (validates && d->validation_url))
            return qr_fail(r->err, QR_INVALID_ARGUMENT,
                           "%s and data.%s name the same samples; give one of them", path.s,
                           trains ? "url" : "validation_url");
        QR_TRY(read_channel(r, m, path.s, c));
    }
    return QR_OK;
}

/* ---- all of it ---- */

enum qr_code qr_job_read_shuffle_split(struct qr_job_reader *r, const struct qr_json *v,
                                       const char *where, void *to) {
    static const struct qr_job_key seed = {.type = QR_KEY_COUNT, .high = 0x1p53};
    r->job->data.shuffle_split = true;
    return qr_job_read_value(r, &seed, v, where, to);
}

static enum qr_code finish_excitations(struct qr_job *job, struct qr_err *err) {
    const struct qr_circuit *reads = qr_layers_input_circuit(job->layers, job->n_layers);
    if (!reads || reads->n_columns == 0)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data.source: cluster-excitations makes one angle per qubit, but the model "
                       "does not begin with a quantum layer that has data gates");
    if (reads->n_named)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data.source: the columns of cluster-excitations have no names, but the "
                       "circuit refers to x.%.64s; write x[0], x[1] and so on",
                       reads->column_names[0]);
    job->data.qubits = reads->n_columns;
    return QR_OK;
}

/* One sample without inputs: the read-outs of a circuit depend on its weights only. */
static enum qr_code finish_none(struct qr_job *job, struct qr_err *err) {
    const struct qr_circuit *reads = qr_layers_input_circuit(job->layers, job->n_layers);
    if (!reads)
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "data.source: none, but a model that does not begin with a quantum layer is a "
            "function of its data; give a circuit, or data");
    if (reads->n_columns == 0) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "data.source: none, but the circuit takes %u input%s; remove the data gates, or "
                   "give data",
                   reads->n_columns, reads->n_columns == 1 ? "" : "s");
}

static enum qr_code finish_files(struct qr_job *job, const struct qr_json *data,
                                 struct qr_err *err) {
    struct qr_data_options *d = &job->data;
    const char *held = d->validation_url ? "validation_url" : "channels.validation";
    bool validates = qr_data_has_channel(d, "validation");
    QR_TRY(place_columns(job, err));
    if (!job->data_may_follow && !qr_data_has_channel(d, "train"))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data.url is missing: give the path or URL of the data%s",
                       d->n_channels ? ", or a channel \"train\"" : "");
    if (validates && qr_json_get(data, "train_fraction"))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data: train_fraction and %s exclude each other; with %s all %s train", held,
                       held, d->validation_url ? "samples of url" : "other samples");
    if (validates && d->shuffle_split)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data: shuffle_split and %s exclude each other; with %s nothing is split",
                       held, held);
    if (d->shuffle_split && d->train_fraction >= 1)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data.shuffle_split: all samples train, so there is nothing to split; give "
                       "data.train_fraction below 1");
    return QR_OK;
}

enum qr_code qr_job_finish_data(struct qr_job_reader *r, void *to) {
    switch (((struct qr_data_options *)to)->source) {
    case QR_DATA_EXCITATIONS: return finish_excitations(r->job, r->err);
    case QR_DATA_NONE: return finish_none(r->job, r->err);
    default: return finish_files(r->job, r->object, r->err);
    }
}

static void free_columns(const struct qr_data_column *picked, size_t n) {
    for (size_t i = 0; i < n; i++) free((void *)(uintptr_t)picked[i].name);
    free((void *)(uintptr_t)picked);
}

void qr_job_free_data(struct qr_data_options *d) {
    for (size_t i = 0; i < d->n_channels; i++) {
        const struct qr_data_channel *c = &d->channels[i];
        for (size_t k = 0; k < c->n_urls; k++) free((void *)(uintptr_t)c->urls[k]);
        free((void *)(uintptr_t)c->urls);
        free((void *)(uintptr_t)c->name);
        free_columns(c->picked, c->n_picked);
    }
    free((void *)(uintptr_t)d->channels);
    free((void *)(uintptr_t)d->url);
    free((void *)(uintptr_t)d->folder);
    free((void *)(uintptr_t)d->validation_url);
    free((void *)(uintptr_t)d->sample_weight);
    for (size_t i = 0; i < d->n_labels; i++) free((void *)(uintptr_t)d->labels[i]);
    free((void *)(uintptr_t)d->labels);
    free_columns(d->picked, d->n_picked);
}
