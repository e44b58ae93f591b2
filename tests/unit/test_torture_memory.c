/* Each allocation in the formats, the memory and file stores, a stepper and a job of the C API
 * fails in turn, once or from then on (tests/torture.h). */
#include "tests/torture.h"

#include <dirent.h>

#include "api/qring.h"
#include "base/file.h"
#include "data/csv.h"
#include "format/event.h"
#include "format/hdf5.h"
#include "format/json.h"
#include "format/message.h"
#include "format/npz.h"
#include "format/safetensors.h"
#include "format/tfrecord.h"
#include "store/store.h"
#include "tests/ref/chain.h"
#include "train/step.h"

/* Ends the failures, so that the result can be checked. */
static void stop_failing(void) { fail_from = 0; }

static enum qr_code fail_wrong(struct qr_err *err, const char *what) {
    return qr_fail(err, QR_INTERNAL, "wrong: %s", what);
}

static uint64_t fold(uint64_t h, const void *p, size_t n) {
    const uint8_t *b = p;
    for (size_t i = 0; i < n; i++) h = (h ^ b[i]) * UINT64_C(1099511628211);
    return h;
}
/* Compares a result with that of the first run; *first is 0 before it. */
static enum qr_code same(uint64_t h, uint64_t *first, const char *what, struct qr_err *err) {
    if (!*first) *first = h | 1;
    return *first == (h | 1) ? QR_OK : fail_wrong(err, what);
}

/* ---- reading files: the corpus of the fuzzers has one of each kind ---- */

static struct qr_buf file;
static void load(const char *path) {
    struct qr_err err = {0};
    CHECK(qr_file_read(path, 1 << 24, &file, &err) == QR_OK, "%s", err.msg);
}

static uint64_t fold_tensors(const struct qr_tensors *t) {
    uint64_t h = 1;
    for (size_t i = 0; i < t->n; i++)
        h = fold(fold(h, t->v[i].name, strlen(t->v[i].name)), t->v[i].values,
                 t->v[i].n * sizeof(double));
    return h;
}

static enum qr_code run_json(struct qr_err *err) {
    static uint64_t first;
    struct qr_json *root = NULL;
    struct qr_buf text = {0};
    enum qr_code code = qr_json_parse(qr_buf_view(&file), "the text", &root, err);
    if (code != QR_OK) return code;
    struct qr_json_writer w = qr_json_writer(&text, 2);
    qr_json_put_value(&w, root, true);
    stop_failing();
    code = same(fold(1, text.p, text.n), &first, "JSON", err);
    qr_buf_free(&text);
    qr_json_free(root);
    return code;
}
static enum qr_code tensors_read(enum qr_code code, struct qr_tensors *t, uint64_t *first,
                                 struct qr_err *err) {
    stop_failing();
    if (code == QR_OK) code = same(fold_tensors(t), first, "tensors", err);
    qr_tensors_free(t);
    return code;
}
static enum qr_code run_npz(struct qr_err *err) {
    static uint64_t first;
    struct qr_tensors t = {0};
    enum qr_code code = qr_npz_read(qr_buf_view(&file), "the file", NULL, 1 << 24, &t, err);
    return tensors_read(code, &t, &first, err);
}
static enum qr_code run_safetensors(struct qr_err *err) {
    static uint64_t first;
    struct qr_tensors t = {0};
    enum qr_code code = qr_safetensors_read(qr_buf_view(&file), "the file", &t, err);
    return tensors_read(code, &t, &first, err);
}
static enum qr_code run_csv(struct qr_err *err) {
    static uint64_t first;
    struct qr_csv c = {0};
    static const uint8_t cells[] = {QR_CSV_NUMBERS, QR_CSV_NUMBERS_OR_WORDS, QR_CSV_SKIPPED};
    enum qr_code code = qr_csv_read_header(qr_buf_view(&file), "the file", &c, err);
    QR_ASSERT(code != QR_OK || c.n_columns == COUNT(cells));
    if (code == QR_OK)
        code = qr_csv_read_rows(qr_buf_view(&file), "the file", cells, 1000, &c, err);
    stop_failing();
    if (code == QR_OK)
        code = same(fold(c.n_rows + c.words.n, c.values, c.n_rows * c.n_columns * sizeof(double)),
                    &first, "CSV", err);
    qr_csv_fini(&c);
    return code;
}
static enum qr_code keras_read(uint64_t *first, struct qr_err *err) {
    struct qr_keras_file k = {0};
    uint64_t h = 1;
    enum qr_code code = qr_keras_read(qr_buf_view(&file), "the file", &k, err);
    stop_failing();
    for (size_t i = 0; i < k.n_layers; i++)
        h = fold(fold_tensors(&k.layers[i].weights) + h, k.layers[i].name,
                 strlen(k.layers[i].name));
    if (code == QR_OK) code = same(h, first, "Keras' layers", err);
    qr_keras_file_fini(&k);
    return code;
}
static enum qr_code run_keras(struct qr_err *err) {
    static uint64_t first;
    return keras_read(&first, err);
}
static enum qr_code run_saved(struct qr_err *err) {
    static uint64_t first;
    return keras_read(&first, err);
}
static enum qr_code run_split(struct qr_err *err) {
    static uint64_t first;
    return keras_read(&first, err);
}
static enum qr_code run_events(struct qr_err *err) {
    static uint64_t first;
    static const uint8_t quarter[4] = {0, 0, 0x80, 0x3e};
    const struct qr_event_value loss = {.tag = "epoch_loss",
                                        .plugin = "scalars",
                                        .data_class = QR_EVENT_CLASS_SCALAR,
                                        .dtype = QR_EVENT_FLOAT,
                                        .tensor = {quarter, sizeof quarter}};
    const struct qr_hparam rate = {.name = "lr", .number = 0.5};
    struct qr_buf event = {0}, framed = {0};
    qr_event_encode(&(struct qr_event){.step = 3, .n_values = 1, .values = &loss}, &event);
    qr_hparams_start(&rate, 1, "g", 2.0, &event);
    qr_tfrecord_put(&framed, qr_buf_view(&event));
    stop_failing();
    enum qr_code code = same(fold(1, framed.p, framed.n), &first, "events", err);
    qr_buf_free(&event);
    qr_buf_free(&framed);
    return code;
}

static void json_file(void) { load("tests/fuzz/corpus/json/good-job.json"); }
static void npz_file(void) { load("tests/fuzz/corpus/npz/good-compressed.npz"); }
static void safetensors_file(void) { load("tests/fuzz/corpus/safetensors/good-types.safetensors"); }
static void csv_file(void) { load("tests/fuzz/corpus/csv/good-words.csv"); }
static void keras_file(void) { load("tests/golden/tfq/qcnn_weights.h5"); }
static void saved_file(void) { load("tests/fuzz/corpus/hdf5/good-saved-model.h5"); }
static void split_file(void) { load("tests/fuzz/corpus/hdf5/good-split.h5"); }

/* ---- writing ---- */

static struct qr_tensors weights;
static void some_weights(void) {
    static const double values[8] = {1, -2, 3.5, 0.25, -7, 11, 1e-3, 42};
    static const size_t dims[2] = {2, 4};
    if (weights.n) return;
    qr_tensors_add(&weights, "pqc/parameters:0", 1, dims + 1, values);
    qr_tensors_add(&weights, "dense/kernel:0", 2, dims, values);
}
static enum qr_code run_write_npz(struct qr_err *err) {
    static uint64_t first;
    struct qr_buf b = {0};
    qr_npz_write(&weights, &b);
    stop_failing();
    enum qr_code code = same(fold(1, b.p, b.n), &first, "an npz file", err);
    qr_buf_free(&b);
    return code;
}
static enum qr_code run_write_safetensors(struct qr_err *err) {
    static uint64_t first;
    static const struct qr_metadata metadata[2] = {{"step", "7"}, {"job", "qcnn"}};
    struct qr_buf b = {0};
    qr_safetensors_write(&weights, metadata, 2, &b);
    stop_failing();
    enum qr_code code = same(fold(1, b.p, b.n), &first, "a safetensors file", err);
    qr_buf_free(&b);
    return code;
}
/* Compare what the reader finds in the bytes instead of the bytes: that needs no first run. */
static enum qr_code run_write_keras(struct qr_err *err) {
    static char input[] = "input_1", pqc[] = "pqc", dense[] = "dense";
    const struct qr_keras_layer layers[] = {
        {input, {0}}, {pqc, {1, weights.v}}, {dense, {1, weights.v + 1}}};
    static char a[] = "a", second[] = "b", cat[] = "cat", dog[] = "dog", *inputs[] = {a, second},
                *classes[] = {cat, dog};
    const struct qr_data_names names = {{2, inputs}, {2, classes}};
    struct qr_buf b = {0};
    struct qr_keras_file k = {0};
    struct qr_data_names back = {0};
    enum qr_code code = qr_keras_write(layers, COUNT(layers), &names, &b, err);
    stop_failing();
    /* libhdf5 gives no reasons. */
    if (code == QR_INTERNAL && strstr(err->msg, "memory")) code = err->code = QR_RESOURCE_EXHAUSTED;
    if (code == QR_OK && (qr_keras_read(qr_buf_view(&b), "what was written", &k, err) != QR_OK ||
                          k.n_layers != COUNT(layers)))
        code = fail_wrong(err, "a Keras file");
    if (code == QR_OK &&
        (qr_keras_read_names(qr_buf_view(&b), "what was written", &back, err) != QR_OK ||
         back.inputs.n != 2 || back.classes.n != 2 || strcmp(back.classes.v[1], "dog") != 0))
        code = fail_wrong(err, "a Keras file's names");
    qr_data_names_fini(&back);
    for (size_t i = 1; i < COUNT(layers) && code == QR_OK; i++)
        if (k.layers[i].weights.n != 1 || k.layers[i].weights.v[0].n != weights.v[i - 1].n)
            code = fail_wrong(err, "a Keras file's shapes");
        else if (memcmp(k.layers[i].weights.v[0].values, weights.v[i - 1].values,
                        4 * sizeof(double)) != 0) /* 4: exact in float32 */
            code = fail_wrong(err, "a Keras file's values");
    qr_keras_file_fini(&k);
    qr_buf_free(&b);
    return code;
}
static enum qr_code run_message(struct qr_err *err) {
    static struct qr_message in, back;
    struct qr_buf b = {0};
    in = (struct qr_message){.kind = QR_MESSAGE_FIELD};
    snprintf(in.field.name, sizeof in.field.name, "train.batch_size");
    snprintf(in.field.value, sizeof in.field.value, "64");
    enum qr_code code = qr_message_encode(&in, &b, err);
    if (code == QR_OK) code = qr_message_decode(qr_buf_view(&b), &back, err);
    stop_failing();
    if (code == QR_OK && (back.kind != in.kind || strcmp(back.field.name, in.field.name) != 0 ||
                          strcmp(back.field.value, in.field.value) != 0))
        code = fail_wrong(err, "a message");
    qr_buf_free(&b);
    return code;
}
static enum qr_code run_hparams(struct qr_err *err) {
    static uint64_t first;
    static const struct qr_hparam h[2] = {{"optimizer", "adam", 0}, {"batch_size", NULL, 64}};
    static const struct qr_hparam_metric m[1] = {{"validation", "epoch_loss", true}};
    struct qr_buf b = {0};
    qr_hparams_experiment(h, 2, m, 1, &b);
    qr_hparams_start(h, 2, "run", 5, &b);
    qr_hparams_end(true, 6, &b);
    stop_failing();
    enum qr_code code = same(fold(1, b.p, b.n), &first, "hparams", err);
    qr_buf_free(&b);
    return code;
}

/* ---- stores ---- */

static char dir[] = "/tmp/qring-torture-memory-XXXXXX";

static enum qr_code with_store(struct qr_store *s,
                               enum qr_code (*fn)(struct qr_store *s, struct qr_err *err),
                               struct qr_err *err) {
    enum qr_code code = fn(s, err);
    s->ops->close(s);
    return code;
}
static enum qr_code store_calls(struct qr_store *s, struct qr_err *err) {
    struct qr_buf b = {0};
    enum qr_code code = s->ops->put(s, "run/b", qr_bytes_of_string("two"), true, err);
    if (code == QR_OK) code = s->ops->put(s, "run/a", qr_bytes_of_string("one"), false, err);
    if (code == QR_OK) code = s->ops->put(s, "run/a", qr_bytes_of_string("ONE"), false, err);
    if (code == QR_OK) code = s->ops->list(s, "run/", &b, err);
    if (code == QR_OK && strcmp(qr_buf_string(&b), "run/a\nrun/b") != 0)
        code = fail_wrong(err, "a list");
    if (code == QR_OK) code = s->ops->get(s, "run/a", 10, &b, err);
    if (code == QR_OK && strcmp(qr_buf_string(&b), "ONE") != 0) code = fail_wrong(err, "an object");
    if (code == QR_OK) code = s->ops->remove(s, "run/a", err);
    if (code == QR_OK) code = s->ops->remove(s, "run/b", err);
    stop_failing();
    qr_buf_free(&b);
    return code;
}
static enum qr_code run_memory(struct qr_err *err) {
    return with_store(qr_store_memory_new(), store_calls, err);
}

static void clean_dir(void) {
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = readdir(d));) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (e->d_name[0] != '.' || strlen(e->d_name) > 2) unlink(path);
    }
    if (d) closedir(d);
}
static void old_object(void) {
    char path[96];
    clean_dir();
    snprintf(path, sizeof path, "%s/f", dir);
    FILE *f = fopen(path, "w");
    if (f) {
        fputs("the old text", f);
        fclose(f);
    }
}
/* The folder has only f, with one of these texts; NULL stands for no f. */
static bool only_file_is(const char *one, const char *other) {
    char path[96], text[64] = "";
    int n = 0;
    DIR *d = opendir(dir);
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    snprintf(path, sizeof path, "%s/f", dir);
    FILE *f = fopen(path, "r");
    if (!f) return n == 2 && (!one || !other);
    size_t got = fread(text, 1, sizeof text - 1, f);
    text[got] = 0;
    fclose(f);
    return n == 3 && ((one && strcmp(text, one) == 0) || (other && strcmp(text, other) == 0));
}
static enum qr_code put_new(struct qr_store *s, struct qr_err *err) {
    return s->ops->put(s, "f", qr_bytes_of_string("the new text"), false, err);
}
static enum qr_code create_new(struct qr_store *s, struct qr_err *err) {
    return s->ops->put(s, "f", qr_bytes_of_string("the new text"), true, err);
}
static enum qr_code remove_object(struct qr_store *s, struct qr_err *err) {
    return s->ops->remove(s, "f", err);
}
static enum qr_code check_store(struct qr_store *s, struct qr_err *err) {
    return s->ops->check_writable(s, "f", err);
}
static enum qr_code get_old(struct qr_store *s, struct qr_err *err) {
    struct qr_buf b = {0};
    enum qr_code code = s->ops->get(s, "f", 100, &b, err);
    if (code == QR_OK && strcmp(qr_buf_string(&b), "the old text") != 0)
        code = fail_wrong(err, "a file");
    qr_buf_free(&b);
    return code;
}
static enum qr_code list_objects(struct qr_store *s, struct qr_err *err) {
    struct qr_buf b = {0};
    enum qr_code code = s->ops->list(s, "", &b, err);
    if (code == QR_OK && strcmp(qr_buf_string(&b), "f") != 0) code = fail_wrong(err, "a list");
    qr_buf_free(&b);
    return code;
}
static enum qr_code run_put(struct qr_err *err) {
    return with_store(qr_store_file_new(dir), put_new, err);
}
static enum qr_code run_create(struct qr_err *err) {
    return with_store(qr_store_file_new(dir), create_new, err);
}
static enum qr_code run_remove(struct qr_err *err) {
    return with_store(qr_store_file_new(dir), remove_object, err);
}
static enum qr_code run_check(struct qr_err *err) {
    return with_store(qr_store_file_new(dir), check_store, err);
}
static enum qr_code run_get(struct qr_err *err) {
    return with_store(qr_store_file_new(dir), get_old, err);
}
static enum qr_code run_list(struct qr_err *err) {
    return with_store(qr_store_file_new(dir), list_objects, err);
}
static bool replaced(bool done) {
    return done ? only_file_is("the new text", "the new text")
                : only_file_is("the old text", "the new text");
}
static bool created(bool done) {
    return done ? only_file_is("the new text", "the new text") : only_file_is("the new text", NULL);
}
static bool removed(bool done) {
    return done ? only_file_is(NULL, NULL) : only_file_is("the old text", NULL);
}
static bool untouched(bool done) {
    return (void)done, only_file_is("the old text", "the old text");
}

/* Sizes read from a file are allocated by qr_large_new, which returns an error. */
static enum qr_code run_large(struct qr_err *err) {
    void *p = NULL;
    enum qr_code code = qr_large_new(1000, 1000, "state vectors", &p, err);
    if (code == QR_RESOURCE_EXHAUSTED && !strstr(err->msg, "state vectors need 1000000 bytes"))
        code = fail_wrong(err, "no size in the message");
    free(p);
    return code;
}

/* The numbers of a layer in a lane are allocated by qr_large_new, too. */
static struct qr_model *model;
static void a_model(void) {
    static const struct qr_dense_options dense = {.units = 1};
    struct chain c = chain_of(NULL, &dense, 1);
    const struct qr_model_options opt = {
        .n_inputs = 2, .layers = c.layers, .n_layers = c.n, .micro_batch_size = 4};
    struct qr_err err;
    if (!model) CHECK(qr_model_new(&opt, &model, &err) == QR_OK, "%s", err.msg);
}
static enum qr_code run_stepper(struct qr_err *err) {
    const struct qr_stepper_options opt = {
        .model = model, .micro_batch_size = 4, .n_points = 1, .n_members = 1};
    struct qr_stepper *s = NULL;
    enum qr_code code = qr_stepper_new(&opt, &s, err);
    stop_failing();
    qr_stepper_free(s);
    return code;
}

/* A job of the C API: parsed, trained on arrays, and used for a prediction. */
static enum qr_code fail_from_c(const struct qring_error *from, struct qr_err *err) {
    return qr_fail(err, (enum qr_code)from->code, "%s", from->message);
}
static enum qr_code run_c_job(struct qr_err *err) {
    static uint64_t first;
    static const char text[] =
        "{\"data\":{\"source\":\"npz\"},\"model\":[{\"layer\":\"dense\",\"units\":1}],\"train\":{"
        "\"epochs\":2,\"batch_size\":2,\"loss\":\"mse\"}}";
    static double values[] = {0.5, -0.25, 1, 2};
    double p[2] = {0};
    const struct qring_array x = {values, QRING_FLOAT64, {16, 8}}, y = {values, QRING_FLOAT64, {8}},
                             ret = {p, QRING_FLOAT64, {8}};
    const struct qring_data data = {sizeof data, 2, 2, 1, &x, &y, NULL};
    const struct qring_train_options opt = {
        .struct_size = sizeof opt, .threads = 1, .isa = "portable", .data = &data};
    struct qring_job *job = NULL;
    struct qring_result *r = NULL;
    struct qring_error e = {QRING_OK, ""};
    enum qring_code code = qring_job_new(text, sizeof text - 1, NULL, &job, &e);
    if (code == QRING_OK) code = qring_train(job, &opt, &r, &e);
    if (code == QRING_OK)
        code = qring_predict(job, qring_result_weights(r), &x, 2, 2, 1, &ret, 1, &e);
    stop_failing();
    enum qr_code result = code != QRING_OK ? fail_from_c(&e, err)
                                           : same(fold(fold(1, qring_result_digest(r), 32), p, 16),
                                                  &first, "a job of the C API", err);
    qring_result_free(r);
    qring_job_free(job);
    return result;
}

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_UNDEFINED__
enum { HDF5_STRIDE = 13, COLD_STRIDE = 499 };
#else
enum { HDF5_STRIDE = 1, COLD_STRIDE = 53 };
#endif
static const struct operation operations[] = {
    {.name = "large", .run = run_large},
    {.name = "stepper", .before = a_model, .run = run_stepper},
    {.name = "train a job from C", .run = run_c_job, .caches = true},
    {.name = "read JSON", .before = json_file, .run = run_json},
    {.name = "read npz, deflated", .before = npz_file, .run = run_npz},
    {.name = "read safetensors", .before = safetensors_file, .run = run_safetensors},
    {.name = "read CSV", .before = csv_file, .run = run_csv},
    {.name = "read HDF5", .before = keras_file, .run = run_keras},
    {.name = "read HDF5, a saved model", .before = saved_file, .run = run_saved},
    {.name = "read HDF5, names in parts", .before = split_file, .run = run_split},
    {.name = "write events", .run = run_events},
    {.name = "write hparams", .run = run_hparams},
    {.name = "write npz", .before = some_weights, .run = run_write_npz},
    {.name = "write safetensors", .before = some_weights, .run = run_write_safetensors},
    {.name = "write and read a message", .run = run_message},
    {.name = "memory store", .run = run_memory},
    {.name = "file store, put", .before = old_object, .run = run_put, .whole = replaced},
    {.name = "file store, create", .before = clean_dir, .run = run_create, .whole = created},
    {.name = "file store, get", .before = old_object, .run = run_get, .whole = untouched},
    {.name = "file store, list", .before = old_object, .run = run_list, .whole = untouched},
    {.name = "file store, remove", .before = old_object, .run = run_remove, .whole = removed},
    {.name = "file store, check", .before = old_object, .run = run_check, .whole = untouched},
    {.name = "write HDF5, first time",
     .before = some_weights,
     .run = run_write_keras,
     .caches = true,
     .cold = true,
     .brittle = true,
     .stride = COLD_STRIDE},
    {.name = "write HDF5",
     .before = some_weights,
     .run = run_write_keras,
     .caches = true,
     .brittle = true,
     .stride = HDF5_STRIDE},
};

int main(void) {
    CHECK(mkdtemp(dir) != NULL);
    tortured(operations, COUNT(operations));
    clean_dir();
    CHECK(rmdir(dir) == 0);
    qr_model_free(model);
    qr_tensors_free(&weights);
    qr_buf_free(&file);
    return t_end();
}
