/* Keras HDF5 files: files of other programs (made by tests/interop/h5cases.py with h5py), damaged
 * files, and a written file listed by h5py. */
#include "tests/t.h"

#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "format/hdf5.h"
#include "record/weights.h"

#define CASES "tests/fuzz/corpus/hdf5/"

static struct qr_buf load(const char *path) {
    struct qr_buf b = {0};
    struct qr_err err;
    CHECK(qr_file_read(path, 1 << 24, &b, &err) == QR_OK, "%s", err.msg);
    return b;
}

static void good_files(void) {
    static const char *const names[] = {
        "good-vlen.h5",       "good-utf8.h5",       "good-fixed.h5",       "good-float64.h5",
        "good-big-endian.h5", "good-split.h5",      "good-saved-model.h5", "good-spacepad.h5",
        "good-compact.h5",    "good-many-layers.h5"};
    for (size_t i = 0; i < COUNT(names); i++) {
        char path[128];
        snprintf(path, sizeof path, CASES "%s", names[i]);
        struct qr_buf b = load(path);
        struct qr_keras_file k = {0};
        struct qr_err err = {0};
        CHECK(qr_keras_read(qr_buf_view(&b), path, &k, &err) == QR_OK, "%s", err.msg);
        CHECK(k.n_layers == (strstr(names[i], "many") ? 41 : 2), "%s: %zu layers", path,
              k.n_layers);
        if (k.n_layers >= 2) {
            const struct qr_tensors *w = &k.layers[k.n_layers - 1].weights;
            CHECK(strcmp(k.layers[0].name, "input_1") == 0 && k.layers[0].weights.n == 0, "%s",
                  k.layers[0].name);
            CHECK(strncmp(k.layers[1].name, "dense", 5) == 0 && w->n == 2);
            CHECK(strstr(w->v[0].name, "/kernel:0") && w->v[0].rank == 2 && w->v[0].dims[0] == 3 &&
                      w->v[0].dims[1] == 2,
                  "%s", path);
            for (size_t j = 0; j < 6; j++)
                CHECK(w->v[0].values[j] == (double)j / 4, "%s: %zu", path, j);
            CHECK(w->v[1].n == 2 && w->v[1].values[0] == 1.0 && w->v[1].values[1] == -2.0, "%s",
                  path);
        }
        qr_keras_file_fini(&k);
        qr_buf_free(&b);
    }
}

static void bad_files(void) {
    static const struct {
        const char *name, *words;
    } rows[] = {
        {"bad-gzip.h5", "compressed"},
        {"bad-chunks.h5", "chunked storage is not supported"},
        {"bad-latest.h5", "libver='latest'"},
        {"bad-integers.h5", "not float32 or float64"},
        {"bad-soft-link.h5", "soft link"},
        {"bad-external-link.h5", "its members are links"},
        {"bad-missing-weight.h5", "/dense/dense/bias:0 is listed in weight_names but is missing"},
        {"bad-missing-layer.h5", "layer 'dense' is listed in layer_names but is missing"},
        {"bad-no-weight-names.h5", "no attribute weight_names"},
        {"bad-no-layer-names.h5", "no attribute layer_names"},
        {"bad-keras3.h5", "Keras 3"},
        {"bad-number-names.h5", "holds no strings"},
        {"bad-dataset-as-layer.h5", "no attribute weight_names"},
        {"bad-huge.h5", "too large"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char path[128];
        snprintf(path, sizeof path, CASES "%s", rows[i].name);
        struct qr_buf b = load(path);
        struct qr_keras_file k = {0};
        struct qr_err err = {0};
        CHECK(qr_keras_read(qr_buf_view(&b), path, &k, &err) == QR_DATA_LOSS, "%s", path);
        CHECK(strstr(err.msg, path) && strstr(err.msg, rows[i].words), "%s", err.msg);
        CHECK(k.layers == NULL);
        qr_buf_free(&b);
    }
    static const struct {
        const char *bytes, *words;
    } texts[] = {{"", "not an HDF5 file"},
                 {"PK\3\4 what is this", "not an HDF5 file"},
                 {"\x89HDF\r\n\x1a\n", "truncated"}};
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct qr_keras_file k = {0};
        struct qr_err err = {0};
        CHECK(qr_keras_read(qr_bytes_of_string(texts[i].bytes), "w.h5", &k, &err) == QR_DATA_LOSS &&
                  strstr(err.msg, texts[i].words),
              "%s", err.msg);
    }
}

/* Truncated files and bytes set to other values: a result or an error, never a crash (sanitizers
 * check). */
static void damaged_files(void) {
    struct qr_buf b = load(CASES "good-vlen.h5");
    static const uint8_t values[] = {0x00, 0x01, 0x7f, 0xff};
    size_t refused = 0, step = b.n > 4096 ? 3 : 1;
    for (size_t i = 0; i < b.n; i += step)
        for (size_t v = 0; v < COUNT(values); v++) {
            uint8_t was = b.p[i];
            b.p[i] = values[v];
            struct qr_keras_file k = {0};
            struct qr_err err = {0};
            if (qr_keras_read(qr_buf_view(&b), "w.h5", &k, &err) != QR_OK)
                refused += err.code == QR_DATA_LOSS && strncmp(err.msg, "w.h5", 4) == 0;
            qr_keras_file_fini(&k);
            b.p[i] = was;
        }
    CHECK(refused > 50, "%zu", refused);
    for (size_t n = 0; n < b.n; n += 7) {
        struct qr_keras_file k = {0};
        struct qr_err err = {0};
        CHECK(qr_keras_read(qr_bytes_of(b.p, n), "w.h5", &k, &err) == QR_DATA_LOSS, "cut at %zu",
              n);
    }
    qr_buf_free(&b);
}

/* A root group whose header continues in a block that continues in itself: at most 64 blocks are
 * read. A continuation too short for an address and a length is none. */
static void endless_headers(void) {
    for (uint16_t bytes = 8; bytes <= 16; bytes += 8) {
        uint8_t file[256] = "\x89HDF\r\n\x1a\n", *header = file + 128, *message = header + 16;
        file[13] = file[14] = 8;              /* bytes of an address and of a length */
        qr_set_u64le(file + 40, sizeof file); /* the file's length */
        qr_set_u64le(file + 48, UINT64_MAX);  /* no driver block */
        qr_set_u64le(file + 64, 128);         /* the root's header: */
        header[0] = 1, header[2] = 200;       /* 200 messages, */
        header[8] = 24, message[0] = 16;      /* the first a continuation, */
        message[2] = (uint8_t)bytes;          /* of 8 or 16 bytes: */
        qr_set_u64le(message + 8, bytes < 16 ? 1 << 20 : 128 + 16); /* the same message again */
        qr_set_u64le(message + 16, 24);
        struct qr_keras_file k = {0};
        struct qr_err err = {0};
        CHECK(qr_keras_read(qr_bytes_of(file, sizeof file), "w.h5", &k, &err) == QR_DATA_LOSS &&
                  strcmp(err.msg, "w.h5: /: its header is in too many parts") == 0,
              "%u: %s", bytes, err.msg);
        CHECK(k.layers == NULL);
    }
}

/* The output of a command, or an empty string. */
static struct qr_buf output(const char *command) {
    struct qr_buf b = {0};
    FILE *p = popen(command, "r");
    char line[4096];
    size_t n;
    while (p && (n = fread(line, 1, sizeof line, p)) > 0) qr_buf_put(&b, line, n);
    if (p && pclose(p) != 0) qr_buf_clear(&b);
    return b;
}

/* The written file and Keras' have the same listing: tree, types, attributes and their values. */
static void walk_by_h5py(const char *h5, const char *listing,
                         const struct qr_weights_layout *layout) {
    double values[256];
    struct qr_buf golden = load(h5), ours = {0};
    struct qr_err err;
    char dir[] = "/tmp/qring-hdf5-XXXXXX", path[64], command[256];
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/w.h5", dir);
    CHECK(qr_weights_decode(QR_WEIGHTS_H5, qr_buf_view(&golden), h5, layout, values, &err) == QR_OK,
          "%s", err.msg);
    CHECK(qr_weights_encode(QR_WEIGHTS_H5, layout, values, NULL, &ours, &err) == QR_OK, "%s",
          err.msg);
    CHECK(qr_file_replace(path, qr_buf_view(&ours), &err) == QR_OK, "%s", err.msg);
    snprintf(command, sizeof command, "/usr/bin/python3 tests/interop/h5walk.py %s", path);
    struct qr_buf got = output(command);
    snprintf(command, sizeof command, "/usr/bin/python3 tests/interop/h5walk.py --listing %s",
             listing);
    struct qr_buf want = output(command);
    CHECK(want.n > 1000 && strcmp(qr_buf_string(&got), qr_buf_string(&want)) == 0, "%s\n%s",
          listing, qr_buf_string(&got));
    unlink(path);
    rmdir(dir);
    qr_buf_free(&golden);
    qr_buf_free(&ours);
    qr_buf_free(&got);
    qr_buf_free(&want);
}

static void same_walk_as_keras(void) {
    if (system("/usr/bin/python3 -c 'import h5py' 2>/dev/null") != 0) {
        SKIP("h5py walk of our files (python3-h5py is not installed)");
        return;
    }
    static const char *symbols[21];
    static char names[21][12];
    for (int i = 0; i < 21; i++) {
        snprintf(names[i], sizeof names[i], "s%d", i);
        symbols[i] = names[i];
    }
    const struct qr_weights_entry hybrid[] = {{"pqc/parameters", 1, {20, 0}, symbols},
                                              {"dense/kernel", 2, {4, 8}, NULL},
                                              {"dense/bias", 1, {8, 0}, NULL},
                                              {"dense_1/kernel", 2, {8, 1}, NULL},
                                              {"dense_1/bias", 1, {1, 0}, NULL}};
    const struct qr_weights_entry three[] = {
        {"pqc/parameters", 1, {21, 0}, symbols},   {"pqc_1/parameters", 1, {21, 0}, symbols},
        {"pqc_2/parameters", 1, {21, 0}, symbols}, {"dense/kernel", 2, {12, 8}, NULL},
        {"dense/bias", 1, {8, 0}, NULL},           {"dense_1/kernel", 2, {8, 1}, NULL},
        {"dense_1/bias", 1, {1, 0}, NULL}};
    walk_by_h5py("tests/golden/tfq/qcnn_weights.h5", "tests/golden/tfq/qcnn_weights_listing.txt",
                 &(struct qr_weights_layout){5, hybrid});
    walk_by_h5py("tests/golden/tfq/qcnn_three_weights.h5",
                 "tests/golden/tfq/qcnn_three_weights_listing.txt",
                 &(struct qr_weights_layout){7, three});
}

int main(void) {
    good_files();
    bad_files();
    damaged_files();
    endless_headers();
    same_walk_as_keras();
    return t_end();
}
