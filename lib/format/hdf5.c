/* format/hdf5.c — writes Keras weight files with libhdf5. Start reading at qr_keras_write(). */
#include "format/hdf5.h"

#include <hdf5.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static pthread_mutex_t hdf5_mutex = PTHREAD_MUTEX_INITIALIZER;

/* A name takes 16 bytes of an attribute, whose size is limited to 64 KiB. */
enum { GROW_BYTES = 1 << 16, MAX_NAMES = 4000 };

/* The property lists and string types of one file. bad: a call has failed. */
struct hdf5_writer {
    hid_t file, text, utf8, group_plist, set_plist;
    bool bad;
};

static hid_t hdf5_check(struct hdf5_writer *w, hid_t id) {
    if (id < 0) w->bad = true;
    return id;
}

static void hdf5_put_attribute(struct hdf5_writer *w, hid_t at, const char *name, hid_t type,
                               hid_t space, const void *value) {
    hid_t a = hdf5_check(w, H5Acreate2(at, name, type, space, H5P_DEFAULT, H5P_DEFAULT));
    if (a < 0) return;
    if (value && H5Awrite(a, type, value) < 0) w->bad = true;
    H5Aclose(a);
}

static void hdf5_put_string(struct hdf5_writer *w, hid_t at, const char *name, const char *value) {
    hid_t space = hdf5_check(w, H5Screate(H5S_SCALAR));
    hdf5_put_attribute(w, at, name, w->text, space, &value);
    H5Sclose(space);
}

/* Writes variable-length ASCII strings; an empty float64 array when there are none, as h5py does
 * for an empty list. */
static void hdf5_put_strings(struct hdf5_writer *w, hid_t at, const char *name,
                             const char *const *values, size_t n) {
    hsize_t dims[1] = {n};
    hid_t space = hdf5_check(w, H5Screate_simple(1, dims, NULL));
    hdf5_put_attribute(w, at, name, n ? w->text : H5T_IEEE_F64LE, space, n ? values : NULL);
    H5Sclose(space);
}

/* Writes names of the data, split into several attributes if their references need it. */
static void hdf5_put_names(struct hdf5_writer *w, const char *name, const struct qr_name_list *l) {
    for (size_t from = 0, part = 0; from < l->n; from += MAX_NAMES, part++) {
        char numbered[64];
        hsize_t dims[1] = {l->n - from < MAX_NAMES ? l->n - from : MAX_NAMES};
        snprintf(numbered, sizeof numbered, "%s%zu", name, part);
        hid_t space = hdf5_check(w, H5Screate_simple(1, dims, NULL));
        hdf5_put_attribute(w, w->file, l->n > MAX_NAMES ? numbered : name, w->utf8, space,
                           l->v + from);
        H5Sclose(space);
    }
}

/* Opens the group `name` in `at`, creating it if missing: explicitly, so that it has no time
 * stamps. */
static hid_t hdf5_open_group(struct hdf5_writer *w, hid_t at, const char *name) {
    htri_t there = H5Lexists(at, name, H5P_DEFAULT);
    if (there > 0) return hdf5_check(w, H5Gopen2(at, name, H5P_DEFAULT));
    return hdf5_check(w, H5Gcreate2(at, name, H5P_DEFAULT, w->group_plist, H5P_DEFAULT));
}

static void hdf5_put_values(struct hdf5_writer *w, hid_t at, const char *name,
                            const struct qr_tensor *t) {
    hsize_t dims[QR_MAX_RANK] = {0};
    for (unsigned d = 0; d < t->rank; d++) dims[d] = t->dims[d];
    qr_auto(qr_free_p) float *values = qr_xcalloc(t->n, sizeof *values);
    for (size_t i = 0; i < t->n; i++) values[i] = (float)t->values[i];
    hid_t space = hdf5_check(w, H5Screate_simple((int)t->rank, dims, NULL));
    hid_t set = hdf5_check(
        w, H5Dcreate2(at, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, w->set_plist, H5P_DEFAULT));
    if (set >= 0) {
        if (H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
            w->bad = true;
        H5Dclose(set);
    }
    H5Sclose(space);
}

/* "dense/kernel:0" becomes a dataset in a group `dense` of the layer's group. */
static void hdf5_put_tensor(struct hdf5_writer *w, hid_t at, const char *name,
                            const struct qr_tensor *t) {
    const char *slash = strchr(name, '/');
    if (!slash) {
        hdf5_put_values(w, at, name, t);
        return;
    }
    qr_auto(qr_free_p) char *first = qr_xstrndup(name, (size_t)(slash - name));
    hid_t g = hdf5_open_group(w, at, first);
    if (g < 0) return;
    hdf5_put_tensor(w, g, slash + 1, t);
    H5Gclose(g);
}

static void hdf5_put_layer(struct hdf5_writer *w, const char *name,
                           const struct qr_tensors *weights) {
    hid_t g = hdf5_open_group(w, w->file, name);
    if (g < 0) return;
    qr_auto(qr_free_p) const char **names = qr_xcalloc(weights->n, sizeof(const char *));
    for (size_t i = 0; i < weights->n; i++) names[i] = weights->v[i].name;
    hdf5_put_strings(w, g, "weight_names", names, weights->n);
    for (size_t i = 0; i < weights->n && !w->bad; i++)
        hdf5_put_tensor(w, g, names[i], &weights->v[i]);
    H5Gclose(g);
}

static void hdf5_put_all(struct hdf5_writer *w, const struct qr_keras_layer *layers,
                         size_t n_layers, const struct qr_data_names *of_data) {
    qr_auto(qr_free_p) const char **names = qr_xcalloc(n_layers, sizeof(const char *));
    for (size_t i = 0; i < n_layers; i++) names[i] = layers[i].name;
    hdf5_put_strings(w, w->file, "layer_names", names, n_layers);
    hdf5_put_string(w, w->file, "backend", "tensorflow");
    hdf5_put_string(w, w->file, "keras_version", "2.18.0");
    if (of_data) {
        hdf5_put_names(w, QR_NAMES_INPUTS, &of_data->inputs);
        hdf5_put_names(w, QR_NAMES_CLASSES, &of_data->classes);
    }
    for (size_t i = 0; i < n_layers && !w->bad; i++)
        hdf5_put_layer(w, layers[i].name, &layers[i].weights);
    hdf5_put_layer(w, "top_level_model_weights", &(struct qr_tensors){0});
}

static hid_t hdf5_make_plist(struct hdf5_writer *w, hid_t class) {
    hid_t plist = hdf5_check(w, H5Pcreate(class));
    if (class == H5P_FILE_ACCESS) {
        if (H5Pset_libver_bounds(plist, H5F_LIBVER_EARLIEST, H5F_LIBVER_V18) < 0 ||
            H5Pset_fapl_core(plist, GROW_BYTES, 0) < 0 ||
            H5Pset_fclose_degree(plist, H5F_CLOSE_STRONG) < 0)
            w->bad = true;
    } else if (H5Pset_obj_track_times(plist, 0) < 0) {
        w->bad = true;
    }
    return plist;
}

static hid_t hdf5_make_string_type(struct hdf5_writer *w, H5T_cset_t set) {
    hid_t type = hdf5_check(w, H5Tcopy(H5T_C_S1));
    if (H5Tset_size(type, H5T_VARIABLE) < 0 || H5Tset_cset(type, set) < 0) w->bad = true;
    return type;
}

static bool hdf5_write_file(const struct qr_keras_layer *layers, size_t n_layers,
                            const struct qr_data_names *names, struct qr_buf *image) {
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* do not print libhdf5's errors */
    struct hdf5_writer w = {.file = -1};
    w.group_plist = hdf5_make_plist(&w, H5P_GROUP_CREATE);
    w.set_plist = hdf5_make_plist(&w, H5P_DATASET_CREATE);
    w.text = hdf5_make_string_type(&w, H5T_CSET_ASCII);
    w.utf8 = hdf5_make_string_type(&w, H5T_CSET_UTF8);
    hid_t create = hdf5_make_plist(&w, H5P_FILE_CREATE),
          access = hdf5_make_plist(&w, H5P_FILE_ACCESS);
    /* The file exists in memory only, in spite of its name. */
    if (!w.bad) w.file = hdf5_check(&w, H5Fcreate("qring.h5", H5F_ACC_TRUNC, create, access));
    if (w.file >= 0) {
        hdf5_put_all(&w, layers, n_layers, names);
        if (H5Fflush(w.file, H5F_SCOPE_GLOBAL) < 0) w.bad = true;
        ssize_t n = w.bad ? -1 : H5Fget_file_image(w.file, NULL, 0);
        uint8_t *at = n > 0 ? qr_buf_grow(image, (size_t)n) : NULL;
        if (!at || H5Fget_file_image(w.file, at, (size_t)n) != n) w.bad = true;
        H5Fclose(w.file);
    }
    H5Pclose(create);
    H5Pclose(access);
    H5Pclose(w.group_plist);
    H5Pclose(w.set_plist);
    H5Tclose(w.text);
    H5Tclose(w.utf8);
    return !w.bad;
}

/* libhdf5 1.10.8 frees twice, crashes or stays broken when an allocation fails inside it. So first
 * allocate and free as much as it will need. For each value: a float32, its file twice while that
 * grows, the image twice. For each byte of a name the same, and 64 bytes of references per name. */
enum { LIBRARY_BYTES = 4 << 20, VALUE_BYTES = 5 * 4, NAME_VALUES = 64 / 4 };

static size_t names_as_values(const struct qr_name_list *l) {
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) n += strlen(l->v[i]) / 4 + NAME_VALUES;
    return n;
}

static enum qr_code hdf5_check_memory(const struct qr_keras_layer *layers, size_t n_layers,
                                      const struct qr_data_names *names, struct qr_err *err) {
    size_t n = names ? names_as_values(&names->inputs) + names_as_values(&names->classes) : 0;
    qr_auto(qr_free_p) void *probe = NULL;
    for (size_t i = 0; i < n_layers; i++)
        for (size_t j = 0; j < layers[i].weights.n; j++) n += layers[i].weights.v[j].n;
    return qr_large_new(1, LIBRARY_BYTES + n * VALUE_BYTES,
                        "the buffers that make a Keras HDF5 file", &probe, err);
}

enum qr_code qr_keras_write(const struct qr_keras_layer *layers, size_t n_layers,
                            const struct qr_data_names *names, struct qr_buf *ret,
                            struct qr_err *err) {
    if (n_layers > MAX_NAMES)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%zu layers do not fit into a Keras HDF5 file; the limit is %d", n_layers,
                       MAX_NAMES);
    for (size_t i = 0; i < n_layers; i++)
        if (layers[i].weights.n > MAX_NAMES)
            return qr_fail(
                err, QR_INVALID_ARGUMENT,
                "layer '%s' has %zu weights, above the limit of %d for a Keras HDF5 file",
                layers[i].name, layers[i].weights.n, MAX_NAMES);
    qr_auto(qr_buf_free) struct qr_buf image = {0};
    QR_TRY(hdf5_check_memory(layers, n_layers, names, err));
    pthread_mutex_lock(&hdf5_mutex);
    bool good = hdf5_write_file(layers, n_layers, names, &image);
    pthread_mutex_unlock(&hdf5_mutex);
    if (good) qr_buf_put(ret, image.p, image.n);
    if (!good || !qr_buf_ok(ret))
        return qr_fail(err, QR_INTERNAL,
                       "libhdf5 cannot write the weights: out of memory, two weights with the same "
                       "name, or more than 1 GiB");
    return QR_OK;
}
