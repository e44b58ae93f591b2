/* Keys of a job that are set outside its file: paths, values, precedence, and the source that an
 * error names; the record of a trained job, and its differences from another job. */
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "job/record.h"
#include "tests/t.h"

static const char tree[] =
    "{\"a\":{\"b\":1,\"c\":[{\"name\":\"x\",\"n\":1},{\"n\":2},{\"name\":\"y\"}]},\"t\":\"s\"}";

static struct qr_json *parse(const char *text) {
    struct qr_json *v = NULL;
    struct qr_err err;
    CHECK(qr_json_parse(qr_bytes_of_string(text), "test", &v, &err) == QR_OK, "%s", err.msg);
    return v;
}

static void test_paths(void) {
    static const struct {
        const char *path, *value, *want, *where;
    } rows[] = {
        {"a.b", "2",
         "{\"a\":{\"b\":2,\"c\":[{\"name\":\"x\",\"n\":1},{\"n\":2},{\"name\":\"y\"}]},"
         "\"t\":\"s\"}",
         "a.b"},
        {"a", "null", "{\"t\":\"s\"}", "a"},
        {"a.b", "null",
         "{\"a\":{\"c\":[{\"name\":\"x\",\"n\":1},{\"n\":2},{\"name\":\"y\"}]},\"t\":\"s\"}",
         "a.b"},
        /* the reader of the tree decides whether such a key is known */
        {"T", "null",
         "{\"a\":{\"b\":1,\"c\":[{\"name\":\"x\",\"n\":1},{\"n\":2},{\"name\":\"y\"}]},"
         "\"t\":\"s\",\"T\":null}",
         "T"},
        {"a.c", "[]", "{\"a\":{\"b\":1,\"c\":[]},\"t\":\"s\"}", "a.c"},
        {"a.c[1]", "7",
         "{\"a\":{\"b\":1,\"c\":[{\"name\":\"x\",\"n\":1},7,{\"name\":\"y\"}]},"
         "\"t\":\"s\"}",
         "a.c[1]"},
        {"a.c[y].n", "\"3\"",
         "{\"a\":{\"b\":1,\"c\":[{\"name\":\"x\",\"n\":1},{\"n\":2},{\"name\":\"y\",\"n\":\"3\"}]},"
         "\"t\":\"s\"}",
         "a.c[2].n"},
        {"t", "true and more",
         "{\"a\":{\"b\":1,\"c\":[{\"name\":\"x\",\"n\":1},{\"n\":2},{\"name\":\"y\"}]},"
         "\"t\":\"true and more\"}",
         "t"},
        {"u.v.w", "007",
         "{\"a\":{\"b\":1,\"c\":[{\"name\":\"x\",\"n\":1},{\"n\":2},{\"name\":\"y\"}]},"
         "\"t\":\"s\",\"u\":{\"v\":{\"w\":\"007\"}}}",
         "u.v.w"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_json *v = parse(tree);
        struct qr_buf where = {0}, text = {0};
        struct qr_err err = {0};
        CHECK(qr_json_set(v, rows[i].path, rows[i].value, &where, &err) == QR_OK, "%s", err.msg);
        struct qr_json_writer w = qr_json_writer(&text, 0);
        qr_json_put_value(&w, v, false);
        CHECK(strcmp(qr_buf_string(&text), rows[i].want) == 0, "%s: %s", rows[i].path,
              qr_buf_string(&text));
        CHECK(strcmp(qr_buf_string(&where), rows[i].where) == 0, "%s", qr_buf_string(&where));
        qr_buf_free(&where);
        qr_buf_free(&text);
        qr_json_free(v);
    }
}

static void test_no_paths(void) {
    static const struct {
        const char *path, *words;
    } rows[] = {
        {"", "is not a path"},
        {".a", "is not a path"},
        {"a.", "is not a path"},
        {"a..b", "is not a path"},
        {"[0]", "is not a path"},
        {"a.c[", "is not a path"},
        {"a.c[]", "is not a path"},
        {"a.c[1", "is not a path"},
        {"a.c]1", "is not a path"},
        {"a.c[1]n", "is not a path"},
        {"a.c[[1]]", "is not a path"},
        {"a.\xff", "is not valid UTF-8"},
        {"a.c[3]",
         "a.c has 3 elements, counted from 0, and no [3]; to add an element, give the whole array: "
         "a.c=[...]"},
        {"a.c[18446744073709551616].n", "no [184467440737095516"},
        {"a.c[z].n", "no element has the \"name\" 'z'; there are: x, y"},
        {"a[0]", "a is an object, not an array, so it has no [0]"},
        {"t.u", "t is a string, not an object, so it has no 'u'"},
        {"a.b.c.d", "a.b is a number, not an object, so it has no 'c'"},
        {"n[0]", "n is missing or empty, not an array"},
        {"a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a", "is not a path"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_json *v = parse(tree);
        struct qr_buf where = {0};
        struct qr_err err = {0};
        CHECK(qr_json_set(v, rows[i].path, "1", &where, &err) == QR_INVALID_ARGUMENT &&
                  strstr(err.msg, rows[i].words),
              "%s: %s", rows[i].path, err.msg);
        qr_buf_free(&where);
        qr_json_free(v);
    }
    static const struct {
        const char *value;
        bool rejected;
    } values[] = {{"9007199254740992", false},
                  {"9007199254740993", true},
                  {"-9007199254740993", true},
                  {"123456789012345678901234567890", true},
                  {"007", false},
                  {"{\"a\":1", true},
                  {"[1,2", true},
                  {"\"x", true},
                  {"x[1", false},
                  {"-[", false},
                  {"9007199254740993rd", false},
                  {"-", false}};
    for (size_t i = 0; i < COUNT(values); i++) {
        struct qr_json *v = parse(tree);
        struct qr_buf where = {0};
        struct qr_err err = {0};
        bool rejected = qr_json_set(v, "t", values[i].value, &where, &err) != QR_OK;
        CHECK(rejected == values[i].rejected, "%s: %s", values[i].value, err.msg);
        const char *words = strchr("{[\"", *values[i].value) ? "value: line 1" : "is above 2^53";
        CHECK(!rejected || strstr(err.msg, words), "%s", err.msg);
        qr_buf_free(&where);
        qr_json_free(v);
    }
}

/* Loads the built-in job with these overrides, one a line. */
static enum qr_code load(const char *lines, struct qr_job **ret, struct qr_err *err) {
    struct qr_overrides set = {0};
    *ret = NULL;
    enum qr_code code = qr_overrides_add(&set, QR_OVERRIDES_FLAG, "--set", NULL, lines, err);
    if (code == QR_OK) code = qr_job_load(NULL, &set, ret, err);
    qr_overrides_fini(&set);
    return code;
}

static void test_jobs(void) {
    struct qr_job *job;
    struct qr_err err = {0};
    CHECK(load("train.epochs=60\nseed=3\ntrain.epochs=61\ntrain.shuffle=false\n"
               "train.optimizer.learning_rate=0.5",
               &job, &err) == QR_OK,
          "%s", err.msg);
    if (job)
        CHECK(job->train.epochs == 61 && job->seed == 3 && !job->train.shuffle &&
                  job->train.optimizer.learning_rate == 0.5,
              "a later override has precedence");
    qr_job_free(job);
    CHECK(load("model[1].name=head\nmodel[head].units=5", &job, &err) == QR_OK, "%s", err.msg);
    if (job) CHECK(job->layers[1].dense.units == 5);
    qr_job_free(job);
    CHECK(load("", &job, &err) == QR_OK && job->seed == 1);
    qr_job_free(job);
}

/* null removes a key, even one that is not set; missing parents of a key are created, with
 * defaults. */
static void test_defaults(void) {
    struct qr_job *job;
    struct qr_err err = {0};
    CHECK(load("train.optimizer=null\ntrain.metrics=null\ntrain.early_stopping=null\n"
               "worker.threads=null\ntrain.log=null",
               &job, &err) == QR_OK,
          "%s", err.msg);
    if (job)
        CHECK(job->train.optimizer.kind == QR_ADAM && job->train.optimizer.learning_rate == 0.001 &&
              job->train.n_metrics == 0 && !job->train.early_stopping.on);
    qr_job_free(job);
    CHECK(load("train.optimizer=null\ntrain.optimizer.beta_1=0.5\ntrain.loss=null\n"
               "train.loss.name=huber\ntrain.early_stopping.patience=3\n"
               "train.log.gap=val_loss - loss\ntrain.log.gap=null",
               &job, &err) == QR_OK,
          "%s", err.msg);
    if (job)
        CHECK(job->train.optimizer.kind == QR_ADAM && job->train.optimizer.beta_1 == 0.5 &&
              job->train.loss == QR_HUBER && job->train.early_stopping.on &&
              job->train.early_stopping.patience == 3 && job->train.n_logged == 0 &&
              strcmp(job->train.early_stopping.monitor, "val_loss") == 0);
    qr_job_free(job);
}

static void test_error_sources(void) {
    static const struct {
        const char *lines, *words;
    } rows[] = {
        {"train.epochs=many", "the built-in job: --set train.epochs=many: train.epochs must be an "
                              "integer, not the string \"many\""},
        {"train.optimizer.learning_rat=1",
         "the built-in job: --set train.optimizer.learning_rat=1: train.optimizer: unknown key "
         "'learning_rat'; did you mean 'learning_rate'?"},
        {"train.epoch=null", "--set train.epoch=null: train: unknown key 'epoch'; did you mean"},
        {"model=null", "model is missing"},
        {"model[1]=null", "--set model[1]=null: model[1] must be an object, not null"},
        {"sed=1\nseed=2", "--set sed=1: the job: unknown key 'sed'; did you mean 'seed'?"},
        {"model[1]={\"layer\":\"dense\",\"unit\":1}",
         "--set model[1]={\"layer\":\"dense\",\"unit\":1}: model[1]: unknown key 'unit'"},
        {"model[1].name=head\nmodel[head].units=0",
         "--set model[head].units=0: model[1].units is 0"},
        {"seed=x\nseed=2\nseed=y", "--set seed=y: seed must be"},
        {"model[0].circuit.qubits=4",
         "the built-in job with model[0].circuit.qubits=4 set: model[0].readouts"},
        {"model[9].units=1", "the built-in job: --set model[9].units=1: model has 3 elements"},
        {"epochs", "--set: 'epochs' is not PATH=VALUE"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_job *job;
        struct qr_err err = {0};
        CHECK(load(rows[i].lines, &job, &err) == QR_INVALID_ARGUMENT &&
                  strstr(err.msg, rows[i].words),
              "%s: %s", rows[i].lines, err.msg);
        qr_job_free(job);
    }
    struct qr_overrides many = {0};
    struct qr_err err = {0};
    enum qr_code code = QR_OK;
    for (size_t i = 0; i <= QR_MAX_OVERRIDES && code == QR_OK; i++)
        code = qr_overrides_add(&many, QR_OVERRIDES_FLAG, "--seed", "seed", "1", &err);
    CHECK(code == QR_INVALID_ARGUMENT && many.n == QR_MAX_OVERRIDES, "%s", err.msg);
    qr_overrides_fini(&many);
}

/* The record is a job file of the same job; its files have absolute paths. */
static void test_record(void) {
    char folder[] = "/tmp/qring-test-record-XXXXXX", want[128];
    struct qr_err err = {0};
    struct qr_job *job = NULL, *again = NULL;
    struct qr_buf text = {0};
    CHECK(mkdtemp(folder) != NULL);
    qr_auto(qr_free_p) char *path = qr_path_join(folder, "j.json"),
                            *data = qr_path_join(folder, "true");
    CHECK(qr_file_replace(path,
                          qr_bytes_of_string(
                              "{\"model\":[{\"layer\":\"dense\",\"units\":1}],\"data\":{\"source\":"
                              "\"csv\",\"url\":\"true\"},\"train\":{\"optimizer\":{\"name\":"
                              "\"sgd\",\"learning_rate\":0.1}}}"),
                          &err) == QR_OK &&
              qr_file_replace(data, qr_bytes_of_string("x,y\n1,2\n"), &err) == QR_OK,
          "%s", err.msg);
    CHECK(qr_job_load(path, NULL, &job, &err) == QR_OK, "%s", err.msg);
    qr_job_record(job, 7, &text);
    snprintf(want, sizeof want, "\"url\": \"%s/true\"", folder);
    CHECK(strstr(qr_buf_string(&text), want) && strstr(qr_buf_string(&text), "\"epochs\": 7") &&
              strstr(qr_buf_string(&text), "\"learning_rate\": 0.1\n"),
          "%s", qr_buf_string(&text));
    CHECK(qr_job_parse(qr_buf_view(&text), "the record", &again, &err) == QR_OK &&
              again->train.epochs == 7,
          "%s", err.msg);
    qr_job_free(job);
    qr_job_free(again);
    qr_buf_free(&text);
    unlink(path);
    unlink(data);
    rmdir(folder);
}

static void test_differences(void) {
    static const struct {
        const char *there, *here, *want;
    } rows[] = {
        {"{\"seed\":1}", "{\"seed\":1.0}", ""},
        {"{\"seed\":1,\"a\":{\"b\":1}}", "{\"a\":{\"b\":1},\"seed\":1}", ""},
        {"{\"worker\":{\"threads\":1},\"$schema\":\"x\"}", "{}", ""},
        {"{\"train\":{\"epochs\":50}}", "{\"train\":{\"epochs\":60}}",
         "train.epochs: 50 in the run, 60 here"},
        {"{\"seed\":1}", "{\"train\":{\"shuffle\":false}}",
         "seed: 1 in the run, not set here; train: not set in the run, {\"shuffle\":false} here"},
        {"{\"m\":[{\"n\":1},{\"n\":2}]}", "{\"m\":[{\"n\":1},{\"n\":0.1}]}",
         "m[1].n: 2 in the run, 0.1 here"},
        {"{\"m\":[1]}", "{\"m\":[1,2]}", "m: [1] in the run, [1,2] here"},
        {"{\"a\":null,\"b\":{\"c\":null}}", "{\"d\":null,\"b\":{}}", ""},
        {"{\"m\":\"1\"}", "{\"m\":1}", "m: \"1\" in the run, 1 here"},
        {"{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1}",
         "{\"a\":2,\"b\":2,\"c\":2,\"d\":2,\"e\":2}",
         "a: 1 in the run, 2 here; b: 1 in the run, 2 here; c: 1 in the run, 2 here; d: 1 in the "
         "run, 2 here; and 2 more"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_json *there = parse(rows[i].there), *here = parse(rows[i].here);
        struct qr_buf text = {0};
        qr_job_differences(there, here, "the run", &text);
        CHECK(strcmp(qr_buf_string(&text), rows[i].want) == 0, "%s", qr_buf_string(&text));
        qr_buf_free(&text);
        qr_json_free(there);
        qr_json_free(here);
    }
}

int main(void) {
    test_paths();
    test_no_paths();
    test_jobs();
    test_defaults();
    test_error_sources();
    test_record();
    test_differences();
    return t_end();
}
