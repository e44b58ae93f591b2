/* format/hdf5_read.c — reads Keras weight files: layer names, weight names and datasets. Start
 * reading at qr_keras_read(). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/hdf5.h"
#include "format/hdf5_impl.h"

enum { MAX_PARTS = 1000, OBJECT_CHARS = 256 };

/* Reads an attribute of strings, which Keras splits into name0, name1, ... if it is long. */
static enum qr_code keras_read_strings(struct qr_h5 *f, uint64_t object, const char *name,
                                       bool *ret_found, struct qr_h5_strings *ret) {
    enum qr_code code = qr_h5_attribute(f, object, name, ret_found, ret);
    if (code != QR_OK || *ret_found) return code;
    struct qr_h5_strings all = {0};
    for (unsigned i = 0; i < MAX_PARTS && code == QR_OK; i++) {
        char part[64];
        bool there;
        struct qr_h5_strings more = {0};
        snprintf(part, sizeof part, "%s%u", name, i);
        code = qr_h5_attribute(f, object, part, &there, &more);
        if (code != QR_OK || !there) break;
        *ret_found = true;
        if (more.n) {
            all.v = qr_xreallocarray(all.v, all.n + more.n, sizeof *all.v);
            memcpy(all.v + all.n, more.v, more.n * sizeof *more.v);
        }
        all.n += more.n;
        free(more.v); /* the strings are now owned by `all` */
    }
    if (code == QR_OK) *ret = all;
    else qr_h5_strings_free(&all);
    return code;
}

/* Reads one weight. Its name is a path below its layer's group. */
static enum qr_code keras_read_weight(struct qr_h5 *f, uint64_t group, const char *layer,
                                      const char *name, struct qr_tensors *to) {
    char object[OBJECT_CHARS];
    snprintf(object, sizeof object, "/%.100s/%.100s", layer, name);
    f->object = object;
    uint64_t at = group;
    enum qr_code code = QR_OK;
    bool found = *name;
    for (const char *p = name; *p && found && code == QR_OK;) {
        size_t n = strcspn(p, "/");
        if (n) code = qr_h5_find(f, at, p, n, &found, &at);
        p += n + (p[n] == '/');
    }
    if (code == QR_OK && !found)
        code = qr_fail(f->err, QR_DATA_LOSS, "%s: %s is listed in weight_names but is missing",
                       f->what, object);
    if (code == QR_OK) code = qr_h5_dataset(f, at, name, to);
    f->object = "/";
    return code;
}

static enum qr_code keras_read_layer(struct qr_h5 *f, uint64_t root, const char *name,
                                     struct qr_tensors *to) {
    char object[OBJECT_CHARS];
    bool found = false;
    uint64_t group = 0;
    struct qr_h5_strings weights = {0};
    enum qr_code code = qr_h5_find(f, root, name, strlen(name), &found, &group);
    if (code != QR_OK) return code;
    if (!found)
        return qr_fail(f->err, QR_DATA_LOSS,
                       "%s: layer '%.100s' is listed in layer_names but is missing", f->what, name);
    snprintf(object, sizeof object, "/%.100s", name);
    f->object = object;
    code = keras_read_strings(f, group, "weight_names", &found, &weights);
    if (code == QR_OK && !found)
        code =
            qr_fail(f->err, QR_DATA_LOSS, "%s: %s has no attribute weight_names", f->what, object);
    for (size_t i = 0; i < weights.n && code == QR_OK; i++)
        code = keras_read_weight(f, group, name, weights.v[i], to);
    qr_h5_strings_free(&weights);
    f->object = "/";
    return code;
}

static enum qr_code keras_read_layer_names(struct qr_h5 *f, uint64_t *root,
                                           struct qr_h5_strings *ret) {
    bool found, saved = false, keras3 = false;
    uint64_t other;
    enum qr_code code = keras_read_strings(f, *root, "layer_names", &found, ret);
    if (code != QR_OK || found) return code;
    if ((code = qr_h5_find(f, *root, "model_weights", strlen("model_weights"), &saved, &other)) !=
        QR_OK)
        return code;
    if (saved) { /* model.save(): the same tree one level down */
        f->object = "/model_weights";
        *root = other;
        code = keras_read_strings(f, other, "layer_names", &found, ret);
        f->object = "/";
        if (code != QR_OK || found) return code;
    }
    static const char *const marks[] = {"layers", "_layer_checkpoint_dependencies"};
    for (size_t i = 0; i < 2 && !keras3; i++)
        if ((code = qr_h5_find(f, *root, marks[i], strlen(marks[i]), &keras3, &other)) != QR_OK)
            return code;
    return qr_fail(f->err, QR_DATA_LOSS,
                   keras3 ? "%s: a Keras 3 .weights.h5 file; save it with model.save_weights under "
                            "a name that ends with .h5 but not with .weights.h5"
                          : "%s: no attribute layer_names: not a file of Keras weights",
                   f->what);
}

void qr_keras_file_fini(struct qr_keras_file *k) {
    if (!k) return;
    for (size_t i = 0; i < k->n_layers; i++) {
        qr_auto(qr_free_p) const char *name = k->layers[i].name; /* a heap copy */
        qr_tensors_free(&k->layers[i].weights);
        k->layers[i].name = NULL;
    }
    free(k->layers);
    *k = (struct qr_keras_file){0};
}

enum qr_code qr_keras_read(struct qr_bytes file, const char *what, struct qr_keras_file *ret,
                           struct qr_err *err) {
    struct qr_err local_err;
    struct qr_h5 f = {.file = file, .what = what, .err = err ? err : &local_err};
    enum qr_code code = qr_h5_open(&f);
    if (code != QR_OK) return code;
    f.object = "/";
    uint64_t root = f.root;
    struct qr_h5_strings names = {0};
    if ((code = keras_read_layer_names(&f, &root, &names)) != QR_OK) return code;
    struct qr_keras_file k = {0};
    k.layers = qr_xcalloc(names.n, sizeof *k.layers);
    for (; k.n_layers < names.n && code == QR_OK; k.n_layers++) {
        struct qr_keras_layer *layer = &k.layers[k.n_layers];
        layer->name = QR_MOVE(names.v[k.n_layers]);
        code = keras_read_layer(&f, root, layer->name, &layer->weights);
    }
    qr_h5_strings_free(&names);
    if (code == QR_OK) *ret = k;
    else qr_keras_file_fini(&k);
    return code;
}

static enum qr_code keras_read_name_list(struct qr_h5 *f, const char *attribute,
                                         struct qr_name_list *ret) {
    bool found;
    struct qr_h5_strings s = {0};
    enum qr_code code = keras_read_strings(f, f->root, attribute, &found, &s);
    if (code != QR_OK) return code;
    qr_auto(qr_free_p) char *what = qr_xasprintf("%s: %s", f->what, attribute);
    *ret = (struct qr_name_list){s.n, s.v};
    return qr_name_list_check(ret, what, f->err);
}

enum qr_code qr_keras_read_names(struct qr_bytes file, const char *what, struct qr_data_names *ret,
                                 struct qr_err *err) {
    struct qr_err local_err;
    struct qr_h5 f = {.file = file, .what = what, .err = err ? err : &local_err};
    struct qr_data_names names = {0};
    enum qr_code code = qr_h5_open(&f);
    f.object = "/";
    if (code == QR_OK) code = keras_read_name_list(&f, QR_NAMES_INPUTS, &names.inputs);
    if (code == QR_OK) code = keras_read_name_list(&f, QR_NAMES_CLASSES, &names.classes);
    if (code == QR_OK) *ret = names;
    else qr_data_names_fini(&names);
    return code;
}
