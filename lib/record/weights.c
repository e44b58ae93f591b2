/* record/weights.c — encodes and decodes weight files, and matches a file with a model's layout.
 * Start reading at qr_weights_decode(). */
#include "record/weights.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/hdf5.h"
#include "format/json.h"
#include "format/npz.h"
#include "format/safetensors.h"
#include "record/checkpoint.h"

enum { NAME_CHARS = 256 };
static const size_t max_npz_bytes = (size_t)1 << 30;

static bool weights_has_suffix(const char *s, const char *with) {
    size_t n = strlen(s), m = strlen(with);
    return n >= m && strcmp(s + n - m, with) == 0;
}

enum qr_code qr_weights_format_of(const char *url, enum qr_weights_format *ret,
                                  struct qr_err *err) {
    qr_auto(qr_free_p) char *shown = qr_url_redacted(url), *name = qr_xstrdup(shown);
    if (strcmp(shown, url) != 0) name[strcspn(name, "?")] = 0; /* drop the query */
    if (weights_has_suffix(name, ".weights.h5"))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: under a name that ends with .weights.h5 Keras reads another format; "
                       "rename it, for example to weights.h5 or x_weights.h5",
                       shown);
    if (weights_has_suffix(name, ".h5")) *ret = QR_WEIGHTS_H5;
    else if (weights_has_suffix(name, ".npz")) *ret = QR_WEIGHTS_NPZ;
    else if (weights_has_suffix(name, ".safetensors")) *ret = QR_WEIGHTS_SAFETENSORS;
    else
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: unknown suffix; name weights .h5 (Keras), .npz or .safetensors", shown);
    return QR_OK;
}

static size_t weights_entry_size(const struct qr_weights_entry *e) {
    size_t n = 1;
    for (unsigned d = 0; d < e->rank; d++) n *= e->dims[d];
    return n;
}

/* The length of the layer's name in "dense_1/kernel". */
static size_t layer_name_length(const char *name) { return strcspn(name, "/"); }

static bool weights_same_layer(const char *a, const char *b) {
    return layer_name_length(a) == layer_name_length(b) && memcmp(a, b, layer_name_length(a)) == 0;
}

static int weights_compare_symbols(const void *a, const void *b, void *symbols) {
    const char *const *s = symbols;
    return strcmp(s[*(const size_t *)a], s[*(const size_t *)b]);
}

/* TFQ's order: element i is the natural index of the i-th symbol when sorted as strings. NULL for
 * weights without symbols. */
static size_t *keras_symbol_order(const struct qr_weights_entry *e) {
    if (!e->symbols) return NULL;
    size_t *order = qr_xcalloc(e->dims[0], sizeof *order);
    for (size_t i = 0; i < e->dims[0]; i++) order[i] = i;
    const char **symbols = qr_xcalloc(e->dims[0], sizeof(const char *));
    memcpy(symbols, e->symbols, e->dims[0] * sizeof(const char *));
    qsort_r(order, e->dims[0], sizeof *order, weights_compare_symbols, symbols);
    free(symbols);
    return order;
}

/* ---- Keras ---- */

/* Adds a layer without weights, named by the first part of a path. */
static void keras_add_layer(struct qr_keras_file *k, const char *path) {
    k->layers = qr_xreallocarray(k->layers, k->n_layers + 1, sizeof *k->layers);
    k->layers[k->n_layers++] =
        (struct qr_keras_layer){.name = qr_xstrndup(path, layer_name_length(path))};
}

/* The layers of the tutorial's model in Keras' order, with those without weights: after the
 * circuits comes a concatenate layer if there are several filters, or the tutorial's
 * readout_histogram_layer if there is one and dense layers follow. */
static struct qr_keras_file keras_make_layers(const struct qr_weights_layout *layout,
                                              const double *values) {
    struct qr_keras_file k = {0};
    size_t n_quantum = 0;
    while (n_quantum < layout->n && layout->entries[n_quantum].symbols) n_quantum++;
    keras_add_layer(&k, "input_1");
    if (n_quantum) keras_add_layer(&k, "add_circuit");
    for (size_t i = 0; i < layout->n; i++) {
        const struct qr_weights_entry *e = &layout->entries[i];
        bool first = i == 0 || !weights_same_layer(e->name, layout->entries[i - 1].name);
        if (i == n_quantum && n_quantum)
            keras_add_layer(&k, n_quantum > 1 ? "concatenate" : "readout_histogram_layer");
        if (first) keras_add_layer(&k, e->name);
        char name[NAME_CHARS];
        snprintf(name, sizeof name, "%s:0",
                 e->symbols ? e->name + layer_name_length(e->name) + 1 : e->name);
        qr_auto(qr_free_p) size_t *order = keras_symbol_order(e);
        struct qr_tensor *t =
            qr_tensors_add(&k.layers[k.n_layers - 1].weights, name, e->rank, e->dims, values);
        for (size_t j = 0; order && j < t->n; j++) t->values[j] = values[order[j]];
        values += t->n;
    }
    if (n_quantum > 1 && n_quantum == layout->n) keras_add_layer(&k, "concatenate");
    return k;
}

static enum qr_code weights_encode_keras(const struct qr_weights_layout *layout,
                                         const double *values, const struct qr_data_names *names,
                                         struct qr_buf *ret, struct qr_err *err) {
    const double *v = values;
    for (size_t i = 0; i < layout->n; v += weights_entry_size(&layout->entries[i]), i++)
        for (size_t j = 0; j < weights_entry_size(&layout->entries[i]); j++)
            if (isfinite(v[j]) && fabs(v[j]) > (double)FLT_MAX)
                return qr_fail(err, QR_OUT_OF_RANGE,
                               "%s[%zu] is %.17g, above the range of float32 in a Keras file; "
                               "write .safetensors or .npz",
                               layout->entries[i].name, j, v[j]);
    qr_auto(qr_keras_file_fini) struct qr_keras_file k = keras_make_layers(layout, values);
    return qr_keras_write(k.layers, k.n_layers, names, ret, err);
}

/* ---- match a file with a layout ---- */

static enum qr_code weights_check_shape(const struct qr_weights_entry *e, const struct qr_tensor *t,
                                        const char *what, struct qr_err *err) {
    bool same = t->rank == e->rank;
    for (unsigned d = 0; d < e->rank && same; d++) same = t->dims[d] == e->dims[d];
    if (!same && t->rank == 1 && e->rank == 1)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: %s has %zu values in the file, the job's model has %zu; these are the "
                       "weights of another model",
                       what, e->name, t->dims[0], e->dims[0]);
    if (!same) {
        char there[QR_SHAPE_CHARS], here[QR_SHAPE_CHARS];
        qr_shape_text(t->rank, t->dims, there);
        qr_shape_text(e->rank, e->dims, here);
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: %s has shape %s in the file, the job's model has %s; these are the "
                       "weights of another model",
                       what, e->name, there, here);
    }
    return QR_OK;
}

static enum qr_code weights_check_entry(const struct qr_weights_entry *e, const struct qr_tensor *t,
                                        const char *what, struct qr_err *err) {
    QR_TRY(weights_check_shape(e, t, what, err));
    for (size_t i = 0; i < t->n; i++)
        if (!isfinite(t->values[i]))
            return qr_fail(err, QR_DATA_LOSS, "%s: %s[%zu] is %g; weights must be finite", what,
                           e->name, i, t->values[i]);
    return QR_OK;
}

/* Appends "pqc (1), dense (2)": layers and the number of weights of each. */
static void keras_list_layers(const struct qr_keras_file *k, struct qr_buf *ret) {
    for (size_t i = 0; i < k->n_layers; i++)
        if (k->layers[i].weights.n)
            qr_buf_printf(ret, "%s%.60s (%zu)", ret->n ? ", " : "", k->layers[i].name,
                          k->layers[i].weights.n);
}

static enum qr_code weights_fail_layers(const struct qr_keras_file *k, const char *what,
                                        const struct qr_weights_layout *layout,
                                        struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf there = {.max = 300}, here = {.max = 300};
    keras_list_layers(k, &there);
    for (size_t i = 0, n = 1; i < layout->n; i += n, n = 1) {
        const char *name = layout->entries[i].name;
        while (i + n < layout->n && weights_same_layer(layout->entries[i + n].name, name)) n++;
        qr_buf_printf(&here, "%s%.*s (%zu)", here.n ? ", " : "", (int)layer_name_length(name), name,
                      n);
    }
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "%s: the file's layers with weights are %s; the job's model has %s: these are "
                   "the weights of another model",
                   what, there.n ? qr_buf_string(&there) : "none", qr_buf_string(&here));
}

/* Copies a tensor of a Keras file into natural order; returns the end of the copy. */
static double *keras_copy_values(const struct qr_weights_entry *e, const struct qr_tensor *t,
                                 double *ret) {
    qr_auto(qr_free_p) size_t *order = keras_symbol_order(e);
    for (size_t j = 0; j < t->n; j++) ret[order ? order[j] : j] = t->values[j];
    return ret + t->n;
}

/* Matches as Keras does: layers that have weights, by position; shapes must match, names need
 * not. */
static enum qr_code weights_match_keras(const struct qr_keras_file *k, const char *what,
                                        const struct qr_weights_layout *layout, double *ret,
                                        struct qr_err *err) {
    size_t layer = 0, weight = 0;
    for (size_t i = 0; i < layout->n; i++) {
        const struct qr_weights_entry *e = &layout->entries[i];
        bool first = i == 0 || !weights_same_layer(e->name, layout->entries[i - 1].name);
        if (first) {
            if (i && weight != k->layers[layer++].weights.n)
                return weights_fail_layers(k, what, layout, err);
            while (layer < k->n_layers && k->layers[layer].weights.n == 0) layer++;
            weight = 0;
        }
        if (layer == k->n_layers || weight == k->layers[layer].weights.n)
            return weights_fail_layers(k, what, layout, err);
        const struct qr_tensor *t = &k->layers[layer].weights.v[weight++];
        QR_TRY(weights_check_entry(e, t, what, err));
        ret = keras_copy_values(e, t, ret);
    }
    if (layout->n && weight != k->layers[layer++].weights.n)
        return weights_fail_layers(k, what, layout, err);
    for (; layer < k->n_layers; layer++)
        if (k->layers[layer].weights.n) return weights_fail_layers(k, what, layout, err);
    return QR_OK;
}

/* ret NULL: checks only names and shapes; t has no values. */
static enum qr_code weights_match_names(const struct qr_tensors *t, const char *what,
                                        const struct qr_weights_layout *layout, double *ret,
                                        struct qr_err *err) {
    for (size_t i = 0; i < layout->n; i++) {
        const struct qr_weights_entry *e = &layout->entries[i];
        const struct qr_tensor *x = qr_tensors_find(t, e->name);
        if (!x) {
            char shape[QR_SHAPE_CHARS];
            qr_shape_text(e->rank, e->dims, shape);
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "%s: %s %s of the job's model is not in the file; these are the weights "
                           "of another model",
                           what, e->name, shape);
        }
        QR_TRY(ret ? weights_check_entry(e, x, what, err) : weights_check_shape(e, x, what, err));
        if (!ret) continue;
        memcpy(ret, x->values, x->n * sizeof *ret);
        ret += x->n;
    }
    for (size_t i = 0; i < t->n; i++) {
        size_t j = 0;
        while (j < layout->n && strcmp(layout->entries[j].name, t->v[i].name) != 0) j++;
        if (j == layout->n)
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "%s: the file's '%.100s' is not in the job's model; these are the "
                           "weights of another model",
                           what, t->v[i].name);
    }
    return QR_OK;
}

static void weights_encode_safetensors(const struct qr_tensors *t,
                                       const struct qr_data_names *names, struct qr_buf *ret) {
    qr_auto(qr_buf_free) struct qr_buf inputs = {0}, classes = {0};
    struct qr_metadata metadata[2];
    size_t n = 0;
    if (names && names->inputs.n) {
        qr_name_list_json(&names->inputs, &inputs);
        metadata[n++] = (struct qr_metadata){QR_NAMES_INPUTS, qr_buf_string(&inputs)};
    }
    if (names && names->classes.n) {
        qr_name_list_json(&names->classes, &classes);
        metadata[n++] = (struct qr_metadata){QR_NAMES_CLASSES, qr_buf_string(&classes)};
    }
    qr_safetensors_write(t, metadata, n, ret);
}

enum qr_code qr_weights_encode(enum qr_weights_format f, const struct qr_weights_layout *layout,
                               const double *values, const struct qr_data_names *names,
                               struct qr_buf *ret, struct qr_err *err) {
    if (f == QR_WEIGHTS_H5) return weights_encode_keras(layout, values, names, ret, err);
    qr_auto(qr_tensors_free) struct qr_tensors t = {0};
    for (size_t i = 0; i < layout->n; i++) {
        const struct qr_weights_entry *e = &layout->entries[i];
        values += qr_tensors_add(&t, e->name, e->rank, e->dims, values)->n;
    }
    if (f == QR_WEIGHTS_NPZ) qr_npz_write(&t, ret);
    else weights_encode_safetensors(&t, names, ret);
    return qr_buf_ok(ret)
               ? QR_OK
               : qr_fail(err, QR_RESOURCE_EXHAUSTED, "the weights are larger than a file of 1 GiB");
}

/* ---- names of the data ---- */

static enum qr_code weights_read_metadata(const struct qr_json *metadata, const char *key,
                                          const char *what, struct qr_name_list *ret,
                                          struct qr_err *err) {
    const struct qr_json *v = qr_json_get(metadata, key);
    const char *text;
    qr_auto(qr_free_p) char *where = qr_xasprintf("%s: __metadata__.%s", what, key);
    if (!v) return QR_OK;
    if (qr_json_string(v, where, &text, err) != QR_OK)
        return qr_fail(err, QR_DATA_LOSS, "%s is not a string", where);
    return qr_name_list_parse(qr_bytes_of_string(text), where, ret, err);
}

static enum qr_code weights_safetensors_names(struct qr_bytes file, const char *what,
                                              struct qr_data_names *ret, struct qr_err *err) {
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    QR_TRY(qr_safetensors_header(file, what, &root, err));
    const struct qr_json *metadata = qr_json_get(root, "__metadata__");
    QR_TRY(weights_read_metadata(metadata, QR_NAMES_INPUTS, what, &ret->inputs, err));
    return weights_read_metadata(metadata, QR_NAMES_CLASSES, what, &ret->classes, err);
}

enum qr_code qr_weights_names(enum qr_weights_format f, struct qr_bytes file, const char *what,
                              struct qr_data_names *ret, struct qr_err *err) {
    qr_auto(qr_data_names_fini) struct qr_data_names names = {0};
    if (f == QR_WEIGHTS_H5) QR_TRY(qr_keras_read_names(file, what, &names, err));
    if (f == QR_WEIGHTS_SAFETENSORS) QR_TRY(weights_safetensors_names(file, what, &names, err));
    *ret = QR_MOVE(names);
    return QR_OK;
}

/* Reads a checkpoint's weights after verifying the whole file. */
static enum qr_code weights_read_checkpoint(struct qr_bytes file, const char *what,
                                            struct qr_tensors *ret, struct qr_err *err) {
    qr_auto(qr_checkpoint_fini) struct qr_checkpoint c = {0};
    struct qr_tensors weights = {0};
    QR_TRY(qr_checkpoint_decode(file, what, &c, err));
    for (size_t i = 0; i < c.tensors.n; i++) {
        const struct qr_tensor *t = &c.tensors.v[i];
        bool other = false;
        for (const char *const *o = qr_checkpoint_non_weights; *o; o++)
            other |= strncmp(t->name, *o, strlen(*o)) == 0;
        if (!other) qr_tensors_add(&weights, t->name, t->rank, t->dims, t->values);
    }
    *ret = weights;
    return QR_OK;
}

static enum qr_code weights_read_tensors(enum qr_weights_format f, struct qr_bytes file,
                                         const char *what, struct qr_tensors *ret,
                                         struct qr_err *err) {
    return f == QR_WEIGHTS_NPZ ? qr_npz_read(file, what, NULL, max_npz_bytes, ret, err)
                               : qr_safetensors_read(file, what, ret, err);
}

/* A small npz can unpack to much: reject another model's file before it is unpacked. */
static enum qr_code weights_check_npz(struct qr_bytes file, const char *what,
                                      const struct qr_weights_layout *layout, struct qr_err *err) {
    qr_auto(qr_tensors_free) struct qr_tensors shapes = {0};
    QR_TRY(qr_npz_shapes(file, what, &shapes, err));
    return weights_match_names(&shapes, what, layout, NULL, err);
}

enum qr_code qr_weights_decode(enum qr_weights_format f, struct qr_bytes file, const char *what,
                               const struct qr_weights_layout *layout, double *ret_values,
                               struct qr_err *err) {
    size_t n = 0;
    for (size_t i = 0; i < layout->n; i++) n += weights_entry_size(&layout->entries[i]);
    qr_auto(qr_free_p) double *values = qr_xcalloc(n, sizeof *values);
    if (f == QR_WEIGHTS_H5) {
        qr_auto(qr_keras_file_fini) struct qr_keras_file k = {0};
        QR_TRY(qr_keras_read(file, what, &k, err));
        QR_TRY(weights_match_keras(&k, what, layout, values, err));
    } else {
        qr_auto(qr_tensors_free) struct qr_tensors t = {0};
        bool checkpoint = f == QR_WEIGHTS_SAFETENSORS && qr_checkpoint_is(file);
        if (f == QR_WEIGHTS_NPZ) QR_TRY(weights_check_npz(file, what, layout, err));
        QR_TRY(checkpoint ? weights_read_checkpoint(file, what, &t, err)
                          : weights_read_tensors(f, file, what, &t, err));
        QR_TRY(weights_match_names(&t, what, layout, values, err));
    }
    if (n) memcpy(ret_values, values, n * sizeof *values);
    return QR_OK;
}

enum qr_code qr_weights_list(enum qr_weights_format f, struct qr_bytes file, const char *what,
                             struct qr_tensors *ret, struct qr_err *err) {
    if (f != QR_WEIGHTS_H5) return weights_read_tensors(f, file, what, ret, err);
    qr_auto(qr_keras_file_fini) struct qr_keras_file k = {0};
    QR_TRY(qr_keras_read(file, what, &k, err));
    struct qr_tensors all = {0};
    for (size_t i = 0; i < k.n_layers; i++)
        for (size_t j = 0; j < k.layers[i].weights.n; j++) {
            const char *layer = k.layers[i].name;
            struct qr_tensor *t = &k.layers[i].weights.v[j];
            size_t n = strlen(t->name), m = strlen(layer);
            if (weights_has_suffix(t->name, ":0")) t->name[n - 2] = 0;
            bool scoped = strncmp(t->name, layer, m) == 0 && t->name[m] == '/';
            char *name = scoped ? qr_xstrdup(t->name) : qr_xasprintf("%s/%s", layer, t->name);
            all.v = qr_xreallocarray(all.v, all.n + 1, sizeof *all.v);
            all.v[all.n] = *t;
            all.v[all.n++].name = name;
            t->values = NULL; /* owned by `all` now */
        }
    *ret = all;
    return QR_OK;
}

static enum qr_code weights_fail_missing(const struct qr_tensors *t, const char *what,
                                         const char *name, struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf there = {.max = 300};
    for (size_t i = 0; i < t->n; i++) {
        const char *layer = t->v[i].name;
        if (i == 0 || !weights_same_layer(layer, t->v[i - 1].name))
            qr_buf_printf(&there, "%s%.*s", there.n ? ", " : "", (int)layer_name_length(layer),
                          layer);
    }
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s: the file has no '%.100s'; its layers are %s",
                   what, name, there.n ? qr_buf_string(&there) : "none");
}

enum qr_code qr_weights_decode_some(enum qr_weights_format f, struct qr_bytes file,
                                    const char *what, const struct qr_weights_layout *layout,
                                    const char *const *names, double *ret_values,
                                    struct qr_err *err) {
    qr_auto(qr_tensors_free) struct qr_tensors t = {0};
    QR_TRY(qr_weights_list(f, file, what, &t, err));
    qr_auto(qr_free_p) const struct qr_tensor **found = qr_xcalloc(layout->n + 1, sizeof *found);
    for (size_t i = 0; i < layout->n; i++) {
        found[i] = qr_tensors_find(&t, names[i]);
        if (!found[i]) return weights_fail_missing(&t, what, names[i], err);
        QR_TRY(weights_check_entry(&layout->entries[i], found[i], what, err));
    }
    for (size_t i = 0; i < layout->n; i++) {
        struct qr_weights_entry e = layout->entries[i];
        if (f != QR_WEIGHTS_H5) e.symbols = NULL; /* in natural order already */
        ret_values = keras_copy_values(&e, found[i], ret_values);
    }
    return QR_OK;
}
