/* format/hdf5_read.c — reads Keras weight files: layer names, weight names and datasets. Start
 * reading at qr_keras_read(). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/hdf5.h"
#include "format/hdf5_impl.h"

enum { MAX_PARTS = 1000 };

/* Reads an attribute of strings, which Keras splits into name0, name1, ... if it is long. */
static enum qr_code keras_read_strings(struct qr_h5 *f, uint64_t object, const char *name,
                                       bool *ret_found, struct qr_name_list *ret) {
    QR_TRY(qr_h5_attribute(f, object, name, ret_found, ret));
    bool more = !*ret_found;
    for (unsigned i = 0; i < MAX_PARTS && more; i++) {
        char part[64];
        snprintf(part, sizeof part, "%s%u", name, i);
        QR_TRY(qr_h5_attribute(f, object, part, &more, ret));
        *ret_found |= more;
    }
    return QR_OK;
}

/* Reads one weight. Its name is a path below its layer's group. */
static enum qr_code keras_read_weight(struct qr_h5 *f, uint64_t group, const char *layer,
                                      const char *name, struct qr_tensors *to) {
    snprintf(f->object, sizeof f->object, "/%.100s/%.100s", layer, name);
    uint64_t at = group;
    bool found = *name;
    for (const char *p = name; *p && found;) {
        size_t n = strcspn(p, "/");
        if (n) QR_TRY(qr_h5_find(f, at, p, n, &found, &at));
        p += n + (p[n] == '/');
    }
    if (!found)
        return qr_fail(f->err, QR_DATA_LOSS, "%s: %s is listed in weight_names but is missing",
                       f->what, f->object);
    return qr_h5_dataset(f, at, name, to);
}

static enum qr_code keras_read_layer(struct qr_h5 *f, uint64_t root, const char *name,
                                     struct qr_tensors *to) {
    bool found = false;
    uint64_t group = 0;
    qr_auto(qr_name_list_fini) struct qr_name_list weights = {0};
    snprintf(f->object, sizeof f->object, "/");
    QR_TRY(qr_h5_find(f, root, name, strlen(name), &found, &group));
    if (!found)
        return qr_fail(f->err, QR_DATA_LOSS,
                       "%s: layer '%.100s' is listed in layer_names but is missing", f->what, name);
    snprintf(f->object, sizeof f->object, "/%.100s", name);
    QR_TRY(keras_read_strings(f, group, "weight_names", &found, &weights));
    if (!found)
        return qr_fail(f->err, QR_DATA_LOSS, "%s: %s has no attribute weight_names", f->what,
                       f->object);
    for (size_t i = 0; i < weights.n; i++)
        QR_TRY(keras_read_weight(f, group, name, weights.v[i], to));
    return QR_OK;
}

static enum qr_code keras_read_layer_names(struct qr_h5 *f, uint64_t *root,
                                           struct qr_name_list *ret) {
    bool found, saved = false, keras3 = false;
    uint64_t other;
    QR_TRY(keras_read_strings(f, *root, "layer_names", &found, ret));
    if (found) return QR_OK;
    QR_TRY(qr_h5_find(f, *root, "model_weights", strlen("model_weights"), &saved, &other));
    if (saved) { /* model.save(): the same tree one level down */
        snprintf(f->object, sizeof f->object, "/model_weights");
        *root = other;
        QR_TRY(keras_read_strings(f, other, "layer_names", &found, ret));
        snprintf(f->object, sizeof f->object, "/");
        if (found) return QR_OK;
    }
    static const char *const marks[] = {"layers", "_layer_checkpoint_dependencies"};
    for (size_t i = 0; i < 2 && !keras3; i++)
        QR_TRY(qr_h5_find(f, *root, marks[i], strlen(marks[i]), &keras3, &other));
    return qr_fail(f->err, QR_DATA_LOSS,
                   keras3 ? "%s: a Keras 3 .weights.h5 file; save it with model.save_weights under "
                            "a name that ends with .h5 but not with .weights.h5"
                          : "%s: no attribute layer_names: not a file of Keras weights",
                   f->what);
}

void qr_keras_file_fini(struct qr_keras_file *k) {
    for (size_t i = 0; i < k->n_layers; i++) {
        free(k->layers[i].name);
        qr_tensors_free(&k->layers[i].weights);
    }
    free(k->layers);
    *k = (struct qr_keras_file){0};
}

enum qr_code qr_keras_read(struct qr_bytes file, const char *what, struct qr_keras_file *ret,
                           struct qr_err *err) {
    struct qr_h5 f = {.file = file, .what = what, .err = err};
    qr_auto(qr_name_list_fini) struct qr_name_list names = {0};
    qr_auto(qr_keras_file_fini) struct qr_keras_file k = {0};
    QR_TRY(qr_h5_open(&f));
    uint64_t root = f.root;
    QR_TRY(keras_read_layer_names(&f, &root, &names));
    k.layers = qr_xcalloc(names.n, sizeof *k.layers);
    for (size_t i = 0; i < names.n; i++) {
        struct qr_keras_layer *layer = &k.layers[k.n_layers++];
        layer->name = QR_MOVE(names.v[i]);
        QR_TRY(keras_read_layer(&f, root, layer->name, &layer->weights));
    }
    *ret = QR_MOVE(k);
    return QR_OK;
}

static enum qr_code keras_read_name_list(struct qr_h5 *f, const char *attribute,
                                         struct qr_name_list *ret) {
    bool found;
    QR_TRY(keras_read_strings(f, f->root, attribute, &found, ret));
    qr_auto(qr_free_p) char *what = qr_xasprintf("%s: %s", f->what, attribute);
    return qr_name_list_check(ret, what, f->err);
}

enum qr_code qr_keras_read_names(struct qr_bytes file, const char *what, struct qr_data_names *ret,
                                 struct qr_err *err) {
    struct qr_h5 f = {.file = file, .what = what, .err = err};
    qr_auto(qr_data_names_fini) struct qr_data_names names = {0};
    QR_TRY(qr_h5_open(&f));
    QR_TRY(keras_read_name_list(&f, QR_NAMES_INPUTS, &names.inputs));
    QR_TRY(keras_read_name_list(&f, QR_NAMES_CLASSES, &names.classes));
    *ret = QR_MOVE(names);
    return QR_OK;
}
