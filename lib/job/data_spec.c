/* job/data_spec.c — reads "data" of a job: source, files, channels, columns, labels and the split.
 * Start reading at qr_job_read_data(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "job/job_impl.h"

enum { MAX_ROUNDS = 1 << 20 };

static enum qr_code add_url(const struct qr_json *v, const char *where, const char **ret,
                            struct qr_err *err) {
    const char *url = "";
    if (qr_json_string(v, where, &url, err) != QR_OK) return err->code;
    if (!*url) return qr_fail(err, QR_INVALID_ARGUMENT, "%s is empty; give a path or URL", where);
    *ret = qr_xstrdup(url);
    return QR_OK;
}

static enum qr_code opt_url(const struct qr_json *data, const char *key, const char **ret,
                            struct qr_err *err) {
    char path[48];
    snprintf(path, sizeof path, "data.%s", key);
    const struct qr_json *v = qr_json_get(data, key);
    return v ? add_url(v, path, ret, err) : QR_OK;
}

static enum qr_code read_excitations(const struct qr_json *data, struct qr_job *job,
                                     struct qr_err *err) {
    static const char *const keys[] = {"source", "rounds", "train_fraction"};
    uint64_t rounds = 20;
    if (qr_json_known(data, "data", keys, 3, err) != QR_OK ||
        qr_job_opt_u64(data, "data", "rounds", 1, MAX_ROUNDS, &rounds, err) != QR_OK)
        return err->code;
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
    job->data.rounds = (unsigned)rounds;
    job->data.qubits = reads->n_columns;
    return QR_OK;
}

/* One sample without inputs: the read-outs of a circuit depend on its weights only. */
static enum qr_code read_none(const struct qr_json *data, struct qr_job *job, struct qr_err *err) {
    static const char *const keys[] = {"source"};
    if (qr_json_known(data, "data", keys, 1, err) != QR_OK) return err->code;
    const struct qr_circuit *reads = qr_layers_input_circuit(job->layers, job->n_layers);
    if (!reads)
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "data.source: none, but a model that does not begin with a quantum layer is a "
            "function of its data; give a circuit, or data");
    if (reads->n_columns > 0)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data.source: none, but the circuit takes %u input%s; remove the data "
                       "gates, or give data",
                       reads->n_columns, reads->n_columns == 1 ? "" : "s");
    return QR_OK;
}

static enum qr_code read_split(const struct qr_json *data, struct qr_job *job, struct qr_err *err) {
    job->data.shuffle_split = qr_json_get(data, "shuffle_split") != NULL;
    if (!job->data.shuffle_split) return QR_OK;
    if (qr_job_opt_u64(data, "data", "shuffle_split", 0, UINT64_C(1) << 53, &job->data.split_seed,
                       err) != QR_OK)
        return err->code;
    const char *held = job->data.validation_url ? "validation_url" : "channels.validation";
    if (qr_data_has_channel(&job->data, "validation"))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data: shuffle_split and %s exclude each other; with %s nothing is split",
                       held, held);
    return QR_OK;
}

/* Trims blanks, as the CSV reader does in the header. */
static char *column_name(const char *text) {
    size_t n = strlen(text += strspn(text, " \t"));
    while (n && strchr(" \t", text[n - 1])) n--;
    return qr_xstrndup(text, n);
}

static enum qr_code read_sample_weight(const struct qr_json *data, struct qr_job *job,
                                       struct qr_err *err) {
    const struct qr_json *v = qr_json_get(data, "sample_weight");
    const char *name;
    if (!v) return QR_OK;
    if (qr_json_string(v, "data.sample_weight", &name, err) != QR_OK) return err->code;
    bool npz = job->data.source == QR_DATA_NPZ;
    if (!*name || strcmp(name, "y") == 0 || (npz && strcmp(name, "x") == 0))
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "data.sample_weight: '%s' is not a valid %s of weights; give the name of one", name,
            npz ? "array" : "column");
    job->data.sample_weight = column_name(name);
    return QR_OK;
}

enum { MAX_COLUMNS = 4096 };

static enum qr_code add_label(const struct qr_json *v, const char *where, struct qr_job *job,
                              const char **labels, struct qr_err *err) {
    struct qr_data_options *d = &job->data;
    const char *text;
    if (qr_json_string(v, where, &text, err) != QR_OK) return err->code;
    labels[d->n_labels++] = column_name(text);
    const char *name = labels[d->n_labels - 1];
    bool npz = d->source == QR_DATA_NPZ;
    if (!*name || (npz && strcmp(name, "x") == 0) ||
        (d->sample_weight && strcmp(name, d->sample_weight) == 0))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: '%.60s' is not a valid %s of labels; give the name of one", where, name,
                       npz ? "array" : "column");
    for (size_t i = 0; i + 1 < d->n_labels; i++)
        if (strcmp(labels[i], name) == 0)
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s: '%.60s' is a duplicate; remove it", where,
                           name);
    return QR_OK;
}

/* One name, or a name for each output. */
static enum qr_code read_labels(const struct qr_json *v, struct qr_job *job, struct qr_err *err) {
    bool list = v && qr_json_type(v) == QR_JSON_ARRAY;
    size_t n = list ? qr_json_size(v) : 1, n_outputs = qr_job_n_outputs(job), i = 0;
    if (!v) return QR_OK;
    if (n < 1 || (n > 1 && job->data.source == QR_DATA_NPZ))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data.labels has %zu entries; give the name of one %s", n,
                       n ? "array" : "column");
    if (n > 1 && n != n_outputs)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data.labels names %zu columns, but the model has %zu output%s; name one "
                       "column, or one for each output",
                       n, n_outputs, n_outputs == 1 ? "" : "s");
    const char **labels = qr_xcalloc(n, sizeof *labels);
    job->data.labels = labels;
    if (!list) return add_label(v, "data.labels", job, labels, err);
    for (const struct qr_json *l = qr_json_first(v); l; l = qr_json_next(l)) {
        char path[48];
        snprintf(path, sizeof path, "data.labels[%zu]", i++);
        if (add_label(l, path, job, labels, err) != QR_OK) return err->code;
    }
    return QR_OK;
}

static enum qr_code read_column(const struct qr_json *v, const char *where, size_t i,
                                struct qr_data_column *ret, struct qr_err *err) {
    char path[128];
    int64_t number;
    snprintf(path, sizeof path, "%s[%zu]", where, i);
    if (qr_json_type(v) == QR_JSON_STRING) {
        const char *name;
        if (qr_json_string(v, path, &name, err) != QR_OK) return err->code;
        ret->name = column_name(name);
        return QR_OK;
    }
    if (qr_json_type(v) != QR_JSON_NUMBER)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s must be a column's name or its number from 0, not %s", path,
                       qr_json_type_name(v));
    if (qr_json_i64(v, path, 0, INT32_MAX, &number, err) != QR_OK) return err->code;
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
    if (!list) return QR_OK;
    if (qr_json_want(list, where, QR_JSON_ARRAY, err) != QR_OK) return err->code;
    size_t n = qr_json_size(list), i = 0;
    if (n < 1 || n > MAX_COLUMNS)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s has %zu entries; give 1 to %d names or numbers of columns", where, n,
                       MAX_COLUMNS);
    struct qr_data_column *picked = qr_xcalloc(n, sizeof *picked);
    *ret = picked;
    *ret_n = n;
    for (const struct qr_json *v = qr_json_first(list); v; v = qr_json_next(v), i++) {
        if (read_column(v, where, i, &picked[i], err) != QR_OK) return err->code;
        for (size_t k = 0; k < i; k++)
            if (same_column(&picked[k], &picked[i]))
                return qr_fail(err, QR_INVALID_ARGUMENT, "%s[%zu] is the same column as %s[%zu]",
                               where, i, where, k);
    }
    return QR_OK;
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
    if (c && c->n_named && !job->data.n_picked && pick_named(c, job, err) != QR_OK)
        return err->code;
    if (!c || !job->data.n_picked) return QR_OK;
    if (!job->data_may_be_wider && c->n_columns - c->n_named != job->data.n_picked)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data.columns picks %zu columns, but the circuit takes %u",
                       job->data.n_picked, c->n_columns - c->n_named);
    const char **names = qr_xcalloc(job->data.n_picked, sizeof *names);
    for (size_t i = 0; i < job->data.n_picked; i++) names[i] = job->data.picked[i].name;
    enum qr_code code = qr_circuit_resolve_columns(c, names, (unsigned)job->data.n_picked, err);
    free(names);
    return code ? qr_wrap(err, "data.columns") : QR_OK;
}

/* ---- channels ---- */

enum { MAX_CHANNELS = 32, MAX_URLS = 4096, MAX_NAME = 63 };

/* A URL or a list of URLs. */
static enum qr_code read_urls(const struct qr_json *v, const char *where, struct qr_data_channel *c,
                              struct qr_err *err) {
    bool list = qr_json_type(v) == QR_JSON_ARRAY;
    size_t n = list ? qr_json_size(v) : 1;
    if (n < 1 || n > MAX_URLS)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s has %zu entries; give 1 to %d paths or URLs",
                       where, n, MAX_URLS);
    const char **urls = qr_xcalloc(n, sizeof *urls);
    c->urls = urls;
    if (!list) c->n_urls = 1;
    if (!list) return add_url(v, where, &urls[0], err);
    for (const struct qr_json *u = qr_json_first(v); u; u = qr_json_next(u)) {
        char path[128];
        snprintf(path, sizeof path, "%s[%zu]", where, c->n_urls);
        if (add_url(u, path, &urls[c->n_urls++], err) != QR_OK) return err->code;
    }
    return QR_OK;
}

static enum qr_code read_channel(const struct qr_json *v, const char *where,
                                 const struct qr_job *job, struct qr_data_channel *c,
                                 struct qr_err *err) {
    static const char *const keys[] = {"url", "source", "columns"};
    static const char *const sources[] = {"npz", "csv"};
    char path[120];
    c->source = job->data.source;
    if (qr_json_type(v) == QR_JSON_STRING || qr_json_type(v) == QR_JSON_ARRAY)
        return read_urls(v, where, c, err);
    if (qr_json_type(v) != QR_JSON_OBJECT)
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "%s must be a path or URL, a list of them, or an object with \"url\", not %s", where,
            qr_json_type_name(v));
    if (qr_json_known(v, where, keys, 3, err) != QR_OK) return err->code;
    snprintf(path, sizeof path, "%s.url", where);
    if (!qr_json_get(v, "url"))
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s is missing: give the path or URL of the data",
                       path);
    if (read_urls(qr_json_get(v, "url"), path, c, err) != QR_OK) return err->code;
    size_t source = c->source == QR_DATA_CSV;
    if (qr_job_opt_choice(v, where, "source", sources, 2, &source, err) != QR_OK) return err->code;
    c->source = source ? QR_DATA_CSV : QR_DATA_NPZ;
    snprintf(path, sizeof path, "%s.columns", where);
    if (read_columns(qr_json_get(v, "columns"), path, &c->picked, &c->n_picked, err) != QR_OK)
        return err->code;
    if (c->n_picked && c->n_picked != job->data.n_picked)
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            job->data.n_picked
                ? "%s picks %zu columns, but the inputs are %zu"
                : "%s picks %zu columns; give data.columns too, which define the inputs (%zu now)",
            path, c->n_picked, job->data.n_picked);
    return QR_OK;
}

/* Names are part of paths of --set, of flags and of messages. */
static bool is_channel_name(const char *name) { return qr_is_name(name, MAX_NAME, "-_"); }

static enum qr_code read_channels(const struct qr_json *data, struct qr_job *job,
                                  struct qr_err *err) {
    const struct qr_json *channels = qr_json_get(data, "channels");
    if (!channels) return QR_OK;
    if (qr_json_want(channels, "data.channels", QR_JSON_OBJECT, err) != QR_OK) return err->code;
    size_t n = qr_json_size(channels);
    if (n < 1 || n > MAX_CHANNELS)
        return qr_fail(err, QR_INVALID_ARGUMENT, "data.channels has %zu names; give 1 to %d", n,
                       MAX_CHANNELS);
    struct qr_data_channel *all = qr_xcalloc(n, sizeof *all);
    job->data.channels = all;
    for (const struct qr_json *v = qr_json_first(channels); v; v = qr_json_next(v)) {
        const char *name = qr_json_key(v);
        char path[96];
        if (!is_channel_name(name))
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "data.channels: '%.80s' is not a valid channel name; use 1 to %d "
                           "letters, digits, '-' or '_'",
                           name, MAX_NAME);
        snprintf(path, sizeof path, "data.channels.%s", name);
        struct qr_data_channel *c = &all[job->data.n_channels++];
        c->name = qr_xstrdup(name);
        bool trains = strcmp(name, "train") == 0, validates = strcmp(name, "validation") == 0;
        if ((trains && job->data.url) || (validates && job->data.validation_url))
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "%s and data.%s name the same samples; give one of them", path,
                           trains ? "url" : "validation_url");
        if (read_channel(v, path, job, c, err) != QR_OK) return err->code;
    }
    return QR_OK;
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

static enum qr_code read_file(const struct qr_json *data, struct qr_job *job, struct qr_err *err) {
    static const char *const keys[] = {
        "source",        "url",           "validation_url", "channels", "train_fraction",
        "shuffle_split", "sample_weight", "columns",        "labels"};
    struct qr_data_options *d = &job->data;
    if (qr_job_check_keys(data, "data", keys, 9, err) != QR_OK ||
        opt_url(data, "url", &d->url, err) != QR_OK ||
        opt_url(data, "validation_url", &d->validation_url, err) != QR_OK ||
        read_sample_weight(data, job, err) != QR_OK ||
        read_labels(qr_json_get(data, "labels"), job, err) != QR_OK ||
        read_columns(qr_json_get(data, "columns"), "data.columns", &d->picked, &d->n_picked, err) !=
            QR_OK ||
        place_columns(job, err) != QR_OK || read_channels(data, job, err) != QR_OK)
        return err->code;
    if (!qr_data_has_channel(d, "train"))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data.url is missing: give the path or URL of the data%s",
                       d->n_channels ? ", or a channel \"train\"" : "");
    if (qr_data_has_channel(d, "validation") && qr_json_get(data, "train_fraction"))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       d->validation_url
                           ? "data: train_fraction and validation_url exclude each other; with "
                             "validation_url all samples of url train"
                           : "data: train_fraction and channels.validation exclude each other; "
                             "with channels.validation all other samples train");
    return read_split(data, job, err);
}

enum qr_code qr_job_read_data(const struct qr_json *data, struct qr_job *job, struct qr_err *err) {
    /* in the order of enum qr_data_source */
    static const char *const sources[] = {"cluster-excitations", "npz", "csv", "none"};
    static enum qr_code (*const readers[])(const struct qr_json *, struct qr_job *,
                                           struct qr_err *) = {read_excitations, read_file,
                                                               read_file, read_none};
    if (!data) return qr_fail(err, QR_INVALID_ARGUMENT, "data is missing: give {\"source\": ...}");
    size_t source;
    job->data.train_fraction = 1;
    if (qr_json_want(data, "data", QR_JSON_OBJECT, err) != QR_OK ||
        qr_json_choice(qr_json_get(data, "source"), "data.source", sources, 4, &source, err) !=
            QR_OK)
        return err->code;
    job->data.source = (enum qr_data_source)source;
    if (readers[source](data, job, err) != QR_OK ||
        qr_job_opt_double(data, "data", "train_fraction", 0, 1, &job->data.train_fraction, err) !=
            QR_OK)
        return err->code;
    if (job->data.train_fraction <= 0)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data.train_fraction must be above 0: with 0 there are no training samples");
    if (job->data.shuffle_split && job->data.train_fraction >= 1)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data.shuffle_split: all samples train, so there is nothing to split; give "
                       "data.train_fraction below 1");
    return QR_OK;
}
