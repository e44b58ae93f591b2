/* Weight files: tf-keras' files are read, and written ones are read by all three readers. */
#include "tests/t.h"

#include <math.h>

#include "base/checksum.h"
#include "base/file.h"
#include "base/mem.h"
#include "format/hdf5.h"
#include "format/json.h"
#include "record/result.h"
#include "record/weights.h"

/* The tutorial's symbols in natural order; qconv6 is not used by the research variant. */
static const char *const research[20] = {"qconv0",  "qconv1",  "qconv2",  "qconv3",  "qconv4",
                                         "qconv5",  "qconv7",  "qconv8",  "qconv9",  "qconv10",
                                         "qconv11", "qconv12", "qconv13", "qconv14", "qconv15",
                                         "qconv16", "qconv17", "qconv18", "qconv19", "qconv20"};
static const char *const notebook[21] = {
    "qconv0",  "qconv1",  "qconv2",  "qconv3",  "qconv4",  "qconv5",  "qconv6",
    "qconv7",  "qconv8",  "qconv9",  "qconv10", "qconv11", "qconv12", "qconv13",
    "qconv14", "qconv15", "qconv16", "qconv17", "qconv18", "qconv19", "qconv20"};
static const struct qr_weights_entry hybrid_entries[] = {{"pqc/parameters", 1, {20, 0}, research},
                                                         {"dense/kernel", 2, {4, 8}, NULL},
                                                         {"dense/bias", 1, {8, 0}, NULL},
                                                         {"dense_1/kernel", 2, {8, 1}, NULL},
                                                         {"dense_1/bias", 1, {1, 0}, NULL}};
static const struct qr_weights_entry three_entries[] = {{"pqc/parameters", 1, {21, 0}, notebook},
                                                        {"pqc_1/parameters", 1, {21, 0}, notebook},
                                                        {"pqc_2/parameters", 1, {21, 0}, notebook},
                                                        {"dense/kernel", 2, {12, 8}, NULL},
                                                        {"dense/bias", 1, {8, 0}, NULL},
                                                        {"dense_1/kernel", 2, {8, 1}, NULL},
                                                        {"dense_1/bias", 1, {1, 0}, NULL}};
static const struct qr_weights_layout hybrid = {5, hybrid_entries}, three = {7, three_entries},
                                      pure = {1, three_entries},
                                      classical = {4, hybrid_entries + 1};
enum { HYBRID = 69, THREE = 63 + 113 };

static struct qr_buf load(const char *path) {
    struct qr_buf b = {0};
    struct qr_err err;
    CHECK(qr_file_read(path, 1 << 24, &b, &err) == QR_OK, "%s", err.msg);
    return b;
}

static void test_read_keras_file(void) {
    struct qr_buf h5 = load("tests/golden/tfq/qcnn_weights.h5"),
                  text = load("tests/golden/tfq/qcnn_weights_check.json");
    struct qr_err err;
    struct qr_json *check = NULL;
    double got[HYBRID];
    CHECK(qr_json_parse(qr_buf_view(&text), "check", &check, &err) == QR_OK, "%s", err.msg);
    CHECK(qr_weights_decode(QR_WEIGHTS_H5, qr_buf_view(&h5), "golden", &hybrid, got, &err) == QR_OK,
          "%s", err.msg);
    const struct qr_json *weights = qr_json_get(check, "weights"),
                         *symbols = qr_json_get(check, "symbols_sorted");
    CHECK(qr_json_size(weights) == 5 && qr_json_size(symbols) == 20);
    for (size_t i = 0; i < 20; i++) {
        const char *symbol;
        double want;
        size_t natural = 0;
        CHECK(qr_json_string(qr_json_at(symbols, i), "symbol", &symbol, &err) == QR_OK);
        CHECK(qr_json_double(qr_json_at(qr_json_at(weights, 0), i), "weight", -1e9, 1e9, &want,
                             &err) == QR_OK);
        while (natural < 19 && strcmp(research[natural], symbol) != 0) natural++;
        CHECK(got[natural] == want, "%s: %.17g, not %.17g", symbol, got[natural], want);
    }
    double *at = got + 20;
    for (size_t k = 1; k < 5; k++)
        for (const struct qr_json *v = qr_json_first(qr_json_at(weights, k)); v;
             v = qr_json_next(v), at++) {
            double want;
            CHECK(qr_json_double(v, "weight", -1e9, 1e9, &want, &err) == QR_OK && *at == want);
        }
    CHECK(at == got + HYBRID);
    qr_json_free(check);
    qr_buf_free(&h5);
    qr_buf_free(&text);
}

/* Layers, weights, shapes and values are as in Keras' file, and two writes give the same bytes. */
static void test_written_file(const char *golden, const struct qr_weights_layout *layout,
                              size_t n) {
    struct qr_buf theirs = load(golden), ours = {0}, again = {0};
    struct qr_err err;
    struct qr_keras_file a = {0}, b = {0};
    double *values = qr_xcalloc(n, sizeof *values), *back = qr_xcalloc(n, sizeof *back);
    CHECK(qr_weights_decode(QR_WEIGHTS_H5, qr_buf_view(&theirs), "golden", layout, values, &err) ==
              QR_OK,
          "%s", err.msg);
    CHECK(qr_weights_encode(QR_WEIGHTS_H5, layout, values, NULL, &ours, &err) == QR_OK, "%s",
          err.msg);
    CHECK(qr_weights_encode(QR_WEIGHTS_H5, layout, values, NULL, &again, &err) == QR_OK);
    CHECK(ours.n == again.n && memcmp(ours.p, again.p, ours.n) == 0, "two writes differ");
    CHECK(qr_weights_decode(QR_WEIGHTS_H5, qr_buf_view(&ours), "ours", layout, back, &err) == QR_OK,
          "%s", err.msg);
    CHECK(memcmp(values, back, n * sizeof *values) == 0, "values change in a round trip");
    CHECK(qr_keras_read(qr_buf_view(&theirs), "theirs", &a, &err) == QR_OK, "%s", err.msg);
    CHECK(qr_keras_read(qr_buf_view(&ours), "ours", &b, &err) == QR_OK, "%s", err.msg);
    CHECK(a.n_layers == b.n_layers, "%zu and %zu layers", a.n_layers, b.n_layers);
    for (size_t i = 0; i < a.n_layers && i < b.n_layers; i++) {
        CHECK(strcmp(a.layers[i].name, b.layers[i].name) == 0, "%s, not %s", b.layers[i].name,
              a.layers[i].name);
        CHECK(a.layers[i].weights.n == b.layers[i].weights.n);
        for (size_t k = 0; k < a.layers[i].weights.n && k < b.layers[i].weights.n; k++) {
            const struct qr_tensor *x = &a.layers[i].weights.v[k], *y = &b.layers[i].weights.v[k];
            CHECK(strcmp(x->name, y->name) == 0, "%s, not %s", y->name, x->name);
            CHECK(x->rank == y->rank && memcmp(x->dims, y->dims, sizeof x->dims) == 0 &&
                  memcmp(x->values, y->values, x->n * sizeof(double)) == 0);
        }
    }
    qr_keras_file_fini(&a);
    qr_keras_file_fini(&b);
    qr_buf_free(&theirs);
    qr_buf_free(&ours);
    qr_buf_free(&again);
    free(values);
    free(back);
}

static void test_layers_without_golden_file(void) {
    static const struct {
        const struct qr_weights_layout *layout;
        const char *layers;
    } rows[] = {{&pure, "input_1 add_circuit pqc "},
                {&classical, "input_1 dense dense_1 "},
                {&hybrid, "input_1 add_circuit pqc readout_histogram_layer dense dense_1 "}};
    double values[HYBRID] = {0};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_buf b = {0}, names = {0};
        struct qr_err err;
        struct qr_keras_file k = {0};
        CHECK(qr_weights_encode(QR_WEIGHTS_H5, rows[i].layout, values, NULL, &b, &err) == QR_OK,
              "%s", err.msg);
        CHECK(qr_keras_read(qr_buf_view(&b), "ours", &k, &err) == QR_OK, "%s", err.msg);
        for (size_t j = 0; j < k.n_layers; j++) qr_buf_printf(&names, "%s ", k.layers[j].name);
        CHECK(strcmp(qr_buf_string(&names), rows[i].layers) == 0, "%s", qr_buf_string(&names));
        qr_keras_file_fini(&k);
        qr_buf_free(&b);
        qr_buf_free(&names);
    }
}

static void test_round_trip(void) {
    double values[HYBRID], back[HYBRID];
    for (size_t i = 0; i < HYBRID; i++) values[i] = (double)(i + 1) / 7 * (i % 2 ? -1 : 1);
    for (int f = QR_WEIGHTS_H5; f <= QR_WEIGHTS_SAFETENSORS; f++) {
        struct qr_buf b = {0};
        struct qr_err err;
        struct qr_tensors t = {0};
        CHECK(qr_weights_encode(f, &hybrid, values, NULL, &b, &err) == QR_OK, "%s", err.msg);
        CHECK(qr_weights_decode(f, qr_buf_view(&b), "file", &hybrid, back, &err) == QR_OK, "%s",
              err.msg);
        /* float64 formats are exact, float32 rounds. */
        for (size_t i = 0; i < HYBRID; i++)
            CHECK(back[i] == (f == QR_WEIGHTS_H5 ? (double)(float)values[i] : values[i]),
                  "format %d, weight %zu", f, i);
        CHECK(qr_weights_list(f, qr_buf_view(&b), "file", &t, &err) == QR_OK && t.n == 5, "%s",
              err.msg);
        for (size_t i = 0; i < t.n; i++)
            CHECK(strcmp(t.v[i].name, hybrid_entries[i].name) == 0, "%s", t.v[i].name);
        qr_tensors_free(&t);
        /* Truncated anywhere: an error, and nothing is written. */
        for (size_t n = 0; n < b.n; n += 1 + n / 16)
            CHECK(qr_weights_decode(f, qr_bytes_of(b.p, n), "file", &hybrid, back, &err) != QR_OK &&
                      err.code == QR_DATA_LOSS && strstr(err.msg, "file"),
                  "format %d truncated at %zu", f, n);
        qr_buf_free(&b);
    }
}

static void test_hdf5_order(void) {
    double values[21];
    struct qr_buf b = {0};
    struct qr_err err;
    struct qr_keras_file k = {0};
    for (size_t i = 0; i < 21; i++) values[i] = (double)i;
    CHECK(qr_weights_encode(QR_WEIGHTS_H5, &pure, values, NULL, &b, &err) == QR_OK);
    CHECK(qr_keras_read(qr_buf_view(&b), "ours", &k, &err) == QR_OK && k.n_layers == 3);
    static const double want[21] = {0,  1, 10, 11, 12, 13, 14, 15, 16, 17, 18,
                                    19, 2, 20, 3,  4,  5,  6,  7,  8,  9};
    for (size_t i = 0; i < 21; i++)
        CHECK(k.layers[2].weights.v[0].values[i] == want[i], "index %zu", i);
    qr_keras_file_fini(&k);
    qr_buf_free(&b);
}

static void test_other_models(void) {
    double values[THREE] = {0}, back[THREE];
    static const struct qr_weights_entry wide[] = {{"pqc/parameters", 1, {20, 0}, research},
                                                   {"dense/kernel", 2, {5, 8}, NULL},
                                                   {"dense/bias", 1, {8, 0}, NULL},
                                                   {"dense_1/kernel", 2, {8, 1}, NULL},
                                                   {"dense_1/bias", 1, {1, 0}, NULL}};
    static const struct qr_weights_entry long_pqc[] = {{"pqc/parameters", 1, {21, 0}, notebook},
                                                       {"dense/kernel", 2, {4, 8}, NULL},
                                                       {"dense/bias", 1, {8, 0}, NULL},
                                                       {"dense_1/kernel", 2, {8, 1}, NULL},
                                                       {"dense_1/bias", 1, {1, 0}, NULL}};
    static const struct qr_weights_layout wider = {5, wide}, longer = {5, long_pqc};
    static const struct {
        const struct qr_weights_layout *file, *job;
        const char *words[2], *h5_words[2];
    } rows[] = {
        {&longer,
         &hybrid,
         {"pqc/parameters has 21 values in the file, the job's model has 20", ""},
         {"pqc/parameters has 21 values", "has 20"}},
        {&wider,
         &hybrid,
         {"dense/kernel has shape (5, 8) in the file", "(4, 8)"},
         {"dense/kernel has shape (5, 8) in the file", "(4, 8)"}},
        {&pure, &hybrid, {"pqc/parameters has 21", "20"}, {"pqc/parameters has 21", "20"}},
        {&three, &hybrid, {"pqc/parameters has 21", "20"}, {"pqc/parameters has 21", "20"}},
        {&three,
         &longer,
         {"dense/kernel has shape (12, 8)", "(4, 8)"},
         {"dense/kernel has shape (21,)", "(4, 8)"}},
        {&pure,
         &longer,
         {"dense/kernel (4, 8)", "not in the file"},
         {"are pqc (1)", "pqc (1), dense (2), dense_1 (2)"}},
        {&longer,
         &pure,
         {"'dense/kernel' is not in the job's model", ""},
         {"pqc (1), dense (2), dense_1 (2)", "has pqc (1)"}},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        for (int f = QR_WEIGHTS_H5; f <= QR_WEIGHTS_SAFETENSORS; f++) {
            struct qr_buf b = {0};
            struct qr_err err;
            CHECK(qr_weights_encode(f, rows[i].file, values, NULL, &b, &err) == QR_OK, "%s",
                  err.msg);
            for (size_t j = 0; j < THREE; j++) back[j] = 7;
            CHECK(qr_weights_decode(f, qr_buf_view(&b), "old.h5", rows[i].job, back, &err) ==
                      QR_INVALID_ARGUMENT,
                  "row %zu format %d", i, f);
            for (size_t w = 0; w < 2; w++)
                CHECK(strstr(err.msg, f ? rows[i].words[w] : rows[i].h5_words[w]),
                      "row %zu format %d: %s", i, f, err.msg);
            CHECK(strstr(err.msg, "old.h5") && strstr(err.msg, "another model"), "%s", err.msg);
            CHECK(back[0] == 7.0, "the weights were changed");
            qr_buf_free(&b);
        }
    struct qr_buf b = {0};
    struct qr_err err;
    values[3] = (double)NAN;
    CHECK(qr_weights_encode(QR_WEIGHTS_NPZ, &hybrid, values, NULL, &b, &err) == QR_OK);
    CHECK(qr_weights_decode(QR_WEIGHTS_NPZ, qr_buf_view(&b), "x", &hybrid, back, &err) ==
                  QR_DATA_LOSS &&
              strstr(err.msg, "pqc/parameters[3] is nan"),
          "%s", err.msg);
    qr_buf_free(&b);
    values[3] = 1e39;
    CHECK(qr_weights_encode(QR_WEIGHTS_H5, &hybrid, values, NULL, &b, &err) == QR_OUT_OF_RANGE &&
              strstr(err.msg, "pqc/parameters[3]"),
          "%s", err.msg);
    qr_buf_free(&b);
}

static void test_suffixes(void) {
    enum qr_weights_format f;
    struct qr_err err;
    CHECK(qr_weights_format_of("gs://b/w.h5", &f, &err) == QR_OK && f == QR_WEIGHTS_H5);
    CHECK(qr_weights_format_of("w.npz", &f, &err) == QR_OK && f == QR_WEIGHTS_NPZ);
    CHECK(qr_weights_format_of("w.safetensors", &f, &err) == QR_OK && f == QR_WEIGHTS_SAFETENSORS);
    CHECK(qr_weights_format_of("qcnn_weights.h5", &f, &err) == QR_OK && f == QR_WEIGHTS_H5);
    CHECK(qr_weights_format_of("qcnn.weights.h5", &f, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "Keras reads another format"),
          "%s", err.msg);
    CHECK(qr_weights_format_of("w.pt", &f, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, ".safetensors"),
          "%s", err.msg);
}

static void test_results(void) {
    static const struct qr_named_value metrics[] = {{"accuracy", 0.9375}, {"val_accuracy", 0.1}};
    struct qr_buf b = {0};
    qr_step_json(
        &(struct qr_step_line){
            .step = 3, .epoch = 1, .samples = 64, .loss = 0.1, .metrics = metrics, .n_metrics = 1},
        &b);
    CHECK(strcmp(qr_buf_string(&b),
                 "{\"step\":3,\"epoch\":1,\"kind\":\"TRAIN\",\"samples\":64,\"loss\":0."
                 "10000000000000001,\"metrics\":{\"accuracy\":0.9375}}\n") == 0,
          "%s", qr_buf_string(&b));
    qr_buf_clear(&b);
    qr_step_json(&(struct qr_step_line){.step = 3, .epoch = 1, .state_digest = "ab", .chain = "cd"},
                 &b);
    CHECK(
        strcmp(qr_buf_string(&b),
               "{\"step\":3,\"epoch\":1,\"kind\":\"TRAIN\",\"samples\":0,\"loss\":0,\"metrics\":{},"
               "\"state_digest\":\"ab\",\"chain\":\"cd\"}\n") == 0,
        "%s", qr_buf_string(&b));
    qr_buf_clear(&b);
    const struct qr_result r = {.job = "qcnn",
                                .job_hash = "ab",
                                .steps = 100,
                                .epochs = 50,
                                .loss = 0.25,
                                .metrics = metrics,
                                .n_metrics = 2,
                                .data_hash = "aa",
                                .arithmetic = "f32-v1",
                                .program = "0.1.0",
                                .chain = "bb",
                                .state_digest = "cd",
                                .weights_url = "out/weights.h5",
                                .weights_sha256 = "ef",
                                .workers = 2,
                                .seconds = 1.5};
    qr_result_json(&r, &b);
    struct qr_json *j = NULL;
    struct qr_err err;
    CHECK(qr_json_parse(qr_buf_view(&b), "result", &j, &err) == QR_OK, "%s", err.msg);
    static const char *const keys[] = {"job",      "job_hash", "data_hash",    "arithmetic",
                                       "program",  "steps",    "epochs",       "loss",
                                       "val_loss", "metrics",  "state_digest", "chain",
                                       "weights",  "workers",  "seconds"};
    CHECK(qr_json_size(j) == COUNT(keys));
    for (size_t i = 0; i < COUNT(keys); i++)
        CHECK(strcmp(qr_json_key(qr_json_at(j, i)), keys[i]) == 0, "%s", keys[i]);
    CHECK(qr_json_type(qr_json_at(j, 8)) == QR_JSON_NULL);
    qr_json_free(j);
    qr_buf_free(&b);
}

/* Data names survive HDF5 and safetensors, also more than one attribute holds. Files without names
 * have no extra bytes. */
static void test_data_names(void) {
    enum { MANY = 5000 };
    static const enum qr_weights_format formats[] = {QR_WEIGHTS_H5, QR_WEIGHTS_SAFETENSORS,
                                                     QR_WEIGHTS_NPZ};
    static char cat[] = "cat", dog[] = "\"d\xc3\xb6g\", the", *animals[] = {cat, dog};
    double values[HYBRID] = {1, 2, 3}, back[HYBRID];
    struct qr_data_names some = {{MANY, qr_xcalloc(MANY, sizeof(char *))}, {2, animals}}, no = {0};
    for (size_t i = 0; i < MANY; i++) some.inputs.v[i] = qr_xasprintf("input %zu", i);
    for (size_t i = 0; i < COUNT(formats); i++) {
        enum qr_weights_format f = formats[i];
        struct qr_buf with = {0}, without = {0}, empty = {0};
        struct qr_data_names got = {0};
        struct qr_err err = {0};
        CHECK(qr_weights_encode(f, &hybrid, values, &some, &with, &err) == QR_OK &&
                  qr_weights_encode(f, &hybrid, values, NULL, &without, &err) == QR_OK &&
                  qr_weights_encode(f, &hybrid, values, &no, &empty, &err) == QR_OK,
              "%s", err.msg);
        CHECK(without.n == empty.n && memcmp(without.p, empty.p, empty.n) == 0);
        CHECK(qr_weights_decode(f, qr_buf_view(&with), "file", &hybrid, back, &err) == QR_OK &&
                  memcmp(values, back, sizeof back) == 0,
              "%s", err.msg);
        CHECK(qr_weights_names(f, qr_buf_view(&without), "file", &got, &err) == QR_OK &&
                  got.inputs.n == 0 && got.classes.n == 0,
              "%s", err.msg);
        CHECK(qr_weights_names(f, qr_buf_view(&with), "file", &got, &err) == QR_OK, "%s", err.msg);
        if (f == QR_WEIGHTS_NPZ) CHECK(got.inputs.n == 0 && got.classes.n == 0);
        else CHECK(got.inputs.n == MANY && got.classes.n == 2, "%zu", got.inputs.n);
        for (size_t k = 0; k < got.inputs.n; k++)
            CHECK(strcmp(got.inputs.v[k], some.inputs.v[k]) == 0);
        for (size_t k = 0; k < got.classes.n; k++) CHECK(strcmp(got.classes.v[k], animals[k]) == 0);
        qr_data_names_fini(&got);
        /* Damaged names are rejected. */
        for (size_t at = 0; f == QR_WEIGHTS_SAFETENSORS && at + 8 < with.n; at++)
            if (memcmp(with.p + at, "input 4", 7) == 0) {
                with.p[at + 6] = '3';
                CHECK(qr_weights_names(f, qr_buf_view(&with), "the file", &got, &err) ==
                              QR_DATA_LOSS &&
                          strstr(err.msg,
                                 "the file: __metadata__.qring.inputs: duplicate name 'input 3'"),
                      "%s", err.msg);
                break;
            }
        qr_buf_free(&with);
        qr_buf_free(&without);
        qr_buf_free(&empty);
    }
    qr_name_list_fini(&some.inputs);
}

int main(void) {
    test_data_names();
    test_read_keras_file();
    test_written_file("tests/golden/tfq/qcnn_weights.h5", &hybrid, HYBRID);
    test_written_file("tests/golden/tfq/qcnn_three_weights.h5", &three, THREE);
    test_layers_without_golden_file();
    test_hdf5_order();
    test_round_trip();
    test_other_models();
    test_suffixes();
    test_results();
    return t_end();
}
