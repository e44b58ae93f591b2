/* data/dataset_load.c — loads files, channels (the files of one name are concatenated, for
 * training, validation or evaluation) and whole data sets. Start reading at qr_dataset_load(). */
#include <math.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "data/dataset_impl.h"
#include "data/named_files.h"
#include "store/store.h"

/* ---- files ---- */

static enum qr_code load_bytes(const struct qr_data_options *opt, bool npz, const char *url,
                               struct qr_buf *file, struct qr_dataset *ret, struct qr_err *err) {
    uint64_t bytes = file->n;
    struct qr_data_options all = *opt;
    qr_auto(qr_dataset_fini) struct qr_dataset d = {0};
    if (opt->n_picked) all.n_columns = 0;
    QR_TRY(qr_dataset_check_format(qr_buf_view(file), npz, url, err));
    QR_TRY(npz ? qr_dataset_from_npz(&all, url, file, &d, err)
               : qr_dataset_from_csv(&all, url, file, &d, err));
    if (opt->inputs && opt->inputs->n && d.names &&
        qr_names_are_given((const char *const *)d.names, d.n_columns))
        QR_TRY(qr_dataset_pick_trained(opt, url, &d, err));
    else if (opt->n_picked) QR_TRY(qr_dataset_pick(opt, url, &d, err));
    d.file_bytes = bytes;
    *ret = QR_MOVE(d);
    return QR_OK;
}

static enum qr_code load_file(const struct qr_data_options *opt, const char *key, const char *url,
                              struct qr_dataset *ret, struct qr_err *err) {
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

/* ---- channels ---- */

/* A file's samples. */
struct part {
    struct qr_dataset d;
    char *shown; /* its redacted URL, for messages */
    bool own_columns;
};
struct joined {
    struct part *v;
    size_t n;
};

static void joined_fini(struct joined *p) {
    for (size_t i = 0; i < p->n; i++) {
        qr_dataset_fini(&p->v[i].d);
        free(p->v[i].shown);
    }
    free(p->v);
}

/* Finds the channel of a name: one of data.channels, or data.url and data.validation_url. */
static bool channel_find(const struct qr_data_options *opt, const char *name,
                         struct qr_data_channel *ret, char **ret_key) {
    bool trains = strcmp(name, "train") == 0, validates = strcmp(name, "validation") == 0;
    const char *const *url = trains ? &opt->url : validates ? &opt->validation_url : NULL;
    for (size_t i = 0; i < opt->n_channels; i++) {
        if (strcmp(opt->channels[i].name, name) != 0) continue;
        *ret = opt->channels[i];
        *ret_key = qr_xasprintf("data.channels.%s", name);
        return true;
    }
    if (!url || !*url) return false;
    *ret = (struct qr_data_channel){.name = name, .n_urls = 1, .urls = url, .source = opt->source};
    *ret_key = qr_xstrdup(trains ? "data.url" : "data.validation_url");
    return true;
}

bool qr_data_has_channel(const struct qr_data_options *opt, const char *name) {
    struct qr_data_channel c;
    qr_auto(qr_free_p) char *key = NULL;
    return channel_find(opt, name, &c, &key);
}

/* Inputs are matched by position, so the positions must have the same names in both files. */
static enum qr_code check_same_names(const struct part *first, const struct part *more,
                                     struct qr_err *err) {
    const struct qr_dataset *a = &first->d, *b = &more->d;
    if (!a->names || !b->names || first->own_columns || more->own_columns) return QR_OK;
    for (size_t j = 0; j < a->n_columns; j++)
        if (strcmp(a->names[j], b->names[j]) != 0)
            return qr_fail(err, QR_DATA_LOSS,
                           "%s: input %zu is '%.60s', but in %s it is '%.60s'; give both files "
                           "the same columns in the same order, or their names as data.columns",
                           more->shown, j, b->names[j], first->shown, a->names[j]);
    return QR_OK;
}

/* Appends a place for samples; counted by the caller. */
static struct part *new_part(struct joined *all) {
    all->v = qr_xreallocarray(all->v, all->n + 1, sizeof *all->v);
    all->v[all->n] = (struct part){0};
    return &all->v[all->n];
}

/* Appends the samples in memory. */
static enum qr_code add_arrays(const struct qr_data_options *opt, struct joined *all,
                               struct qr_err *err) {
    struct part *p = new_part(all);
    QR_TRY(qr_dataset_from_arrays(opt, &p->d, err));
    p->shown = qr_xstrdup("the arrays");
    all->n++;
    return QR_OK;
}

/* Appends a file, which must have the columns of the first one. */
static enum qr_code add_file(const struct qr_data_options *opt, const char *key, const char *url,
                             bool own_columns, struct joined *all, struct qr_err *err) {
    struct qr_data_options o = *opt;
    if (all->n) {
        o.n_columns = all->v[0].d.n_columns;
        o.more_columns = false;
        o.n_outputs = all->v[0].d.n_outputs;
    }
    struct part *p = new_part(all);
    p->own_columns = own_columns;
    QR_TRY(load_file(&o, key, url, &p->d, err));
    p->shown = qr_url_redacted(url);
    all->n++;
    enum qr_code code = check_same_names(&all->v[0], p, err);
    bool unquoted = all->v[0].d.unquoted || p->d.unquoted;
    return code != QR_OK && unquoted ? qr_named_file_unquote(p->shown, err) : code;
}

static enum qr_code add_channel(const struct qr_data_options *opt, const char *name,
                                struct joined *all, struct qr_err *err) {
    struct qr_data_channel c;
    qr_auto(qr_free_p) char *key = NULL, *columns = NULL;
    if (!channel_find(opt, name, &c, &key)) return QR_OK;
    struct qr_data_options o = *opt;
    o.source = c.source;
    if (c.n_picked) {
        columns = qr_xasprintf("%s.columns", key);
        o.n_picked = c.n_picked, o.picked = c.picked, o.columns_key = columns;
        o.pick_all = false;
        o.inputs = NULL; /* its columns have other names than the training data */
    }
    for (size_t i = 0; i < c.n_urls; i++) {
        qr_auto(qr_name_list_fini) struct qr_name_list files = {0};
        enum qr_code code = qr_named_files(c.urls[i], opt->folder, &files, err);
        if (code != QR_OK) return code == QR_NOT_FOUND ? qr_wrap(err, "%s", key) : code;
        for (size_t k = 0; k < files.n; k++)
            QR_TRY(add_file(&o, key, files.v[k], c.n_picked > 0, all, err));
    }
    return QR_OK;
}

static enum qr_code join_classes(const struct qr_data_options *opt, const struct joined *all,
                                 struct qr_err *err) {
    qr_auto(qr_free_p) struct qr_dataset **d = qr_xcalloc(all->n, sizeof *d);
    qr_auto(qr_free_p) const char **url = qr_xcalloc(all->n, sizeof *url);
    for (size_t i = 0; i < all->n; i++) d[i] = &all->v[i].d, url[i] = all->v[i].shown;
    enum qr_code code = qr_classes_join(opt, d, url, all->n, err);
    bool unquoted = false;
    for (size_t i = 0; i < all->n; i++) unquoted |= d[i]->unquoted;
    return code != QR_OK && unquoted ? qr_named_file_unquote(url[0], err) : code;
}

/* Concatenates the files, and frees each after it was copied. A single file is moved. */
static enum qr_code concatenate_parts(struct joined *all, struct qr_dataset *ret,
                                      struct qr_err *err) {
    struct qr_dataset *first = &all->v[0].d, d = {0};
    size_t n = 0, at = 0, width = qr_dataset_y_width(first);
    uint64_t beside = 0;
    if (all->n == 1) {
        *ret = QR_MOVE(*first);
        return QR_OK;
    }
    for (size_t i = 0; i < all->n; i++) {
        const struct qr_dataset *p = &all->v[i].d;
        uint64_t bytes = p->n_samples * (p->n_columns + width) * sizeof *p->x;
        n += p->n_samples;
        beside = bytes > beside ? bytes : beside;
        beside = p->file_bytes > beside ? p->file_bytes : beside;
    }
    if (n > UINT32_MAX)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s and %zu more: %zu samples; at most 2^32 - 1 are supported",
                       all->v[0].shown, all->n - 1, n);
    QR_TRY(qr_dataset_alloc(&d, n, first->n_columns, first->n_outputs, first->weighted, err));
    d.names = QR_MOVE(first->names);
    d.unread = QR_MOVE(first->unread);
    d.classes = QR_MOVE(first->classes);
    d.label_for_all = first->label_for_all;
    d.file_bytes = beside;
    for (size_t i = 0; i < all->n; i++) {
        struct qr_dataset *p = &all->v[i].d;
        memcpy(d.x + at * d.n_columns, p->x, p->n_samples * d.n_columns * sizeof *d.x);
        memcpy(d.y + at * width, p->y, p->n_samples * width * sizeof *d.y);
        at += p->n_samples;
        d.unquoted |= p->unquoted;
        qr_dataset_fini(p);
    }
    *ret = d;
    return QR_OK;
}

/* Loads the channels "train" and "validation". *ret_split: n_train is set, since there is a channel
 * "validation". */
static enum qr_code load_channels(const struct qr_data_options *opt, struct qr_dataset *ret,
                                  bool *ret_split, struct qr_err *err) {
    qr_auto(joined_fini) struct joined all = {0};
    size_t n_train = 0;
    if (!opt->arrays && !qr_data_has_channel(opt, "train"))
        return qr_fail(err, QR_INVALID_ARGUMENT, "data: url is missing; add it");
    QR_TRY(opt->arrays ? add_arrays(opt, &all, err) : add_channel(opt, "train", &all, err));
    for (size_t i = 0; i < all.n; i++) n_train += all.v[i].d.n_samples;
    QR_TRY(add_channel(opt, "validation", &all, err));
    QR_TRY(join_classes(opt, &all, err));
    QR_TRY(concatenate_parts(&all, ret, err));
    *ret_split = qr_data_has_channel(opt, "validation");
    if (*ret_split) ret->n_train = n_train;
    return QR_OK;
}

enum qr_code qr_data_check_channel(const struct qr_data_options *opt, const char *name,
                                   struct qr_err *err) {
    static const char *const own[] = {"train", "validation"};
    if (qr_data_has_channel(opt, name)) return QR_OK;
    qr_auto(qr_buf_free) struct qr_buf names = {.max = 400};
    for (size_t i = 0; i < 2; i++)
        if (qr_data_has_channel(opt, own[i]))
            qr_buf_printf(&names, "%s%s", names.n ? ", " : "", own[i]);
    for (size_t i = 0; i < opt->n_channels; i++)
        if (strcmp(opt->channels[i].name, own[0]) != 0 &&
            strcmp(opt->channels[i].name, own[1]) != 0)
            qr_buf_printf(&names, "%s%s", names.n ? ", " : "", opt->channels[i].name);
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "data.channels: there is no channel '%.60s'; there %s%s", name,
                   names.n ? "are: " : "are none", qr_buf_string(&names));
}

enum qr_code qr_dataset_load_channel(const struct qr_data_options *opt, const char *name,
                                     struct qr_dataset *ret, struct qr_err *err) {
    qr_auto(joined_fini) struct joined all = {0};
    QR_TRY(qr_data_check_channel(opt, name, err));
    QR_TRY(add_channel(opt, name, &all, err));
    QR_TRY(join_classes(opt, &all, err));
    return concatenate_parts(&all, ret, err);
}

/* ---- data sets ---- */

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
                                              : load_channels(opt, &d, &split, err));
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
