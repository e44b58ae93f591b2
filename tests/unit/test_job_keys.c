/* The table of the job file's keys against the reader, on every committed job: a key that is left
 * out has the default of its row (the same canonical text); numbers outside the limits and values
 * of another type are rejected. Rows below `circuit` describe what lib/circuit reads. */
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "job/canonical.h"
#include "job/keys.h"
#include "job/overrides.h"
#include "tests/jobs.h"
#include "tests/t.h"

static size_t n_defaults, n_limits, n_types;

/* The job with path=value; NULL: it is rejected. */
static struct qr_job *job_with(const char *file, const char *path, const char *value,
                               struct qr_err *err) {
    struct qr_overrides set = {0};
    struct qr_job *job = NULL;
    enum qr_code code =
        path ? qr_overrides_add(&set, QR_OVERRIDES_FLAG, "--set", path, value, err) : QR_OK;
    if (code == QR_OK) code = qr_job_load(file, &set, &job, err);
    qr_overrides_fini(&set);
    CHECK(code == QR_OK || code == QR_INVALID_ARGUMENT, "%s %s=%s: %s", file, path ? path : "",
          value ? value : "", err->msg);
    return code == QR_OK ? job : NULL;
}

/* The hash of the job with path=value; "" when it is rejected. Frees the job. */
static void hash_with(const char *file, const char *path, const char *value, char ret[65]) {
    struct qr_err err = {0};
    struct qr_dataset none = {0};
    struct qr_job_canonical c;
    struct qr_job *job = job_with(file, path, value, &err);
    ret[0] = 0;
    if (!job) return;
    qr_job_canonical(job, &none, NULL, &c);
    memcpy(ret, c.hex, 65);
    qr_job_canonical_fini(&c);
    qr_job_free(job);
}

static void check_rejected(const char *file, const char *path, const char *value,
                           const char *word) {
    struct qr_err err = {0};
    struct qr_job *job = job_with(file, path, value, &err);
    CHECK(!job && (!word || strstr(err.msg, word)), "%s: %s=%s is accepted, or the reason is: %s",
          file, path, value, err.msg);
    qr_job_free(job);
}

/* Keys that some jobs reject whatever their value: with another key, or without it. */
static bool is_conditional(const char *name) {
    static const char *const names[] = {"ema_momentum", "warmup_learning_rate", "batch_size",
                                        "filters"};
    bool is = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) is |= strcmp(names[i], name) == 0;
    return is;
}

static void check_key(const char *file, const char *hash, const struct qr_job_object *o,
                      size_t kind, const struct qr_job_key *k, const char *path) {
    struct qr_buf value = {0};
    struct qr_json *v = NULL;
    struct qr_err err;
    char text[40], other[65];
    qr_job_key_default(o, kind, k, &value);
    if (value.n && qr_json_parse(qr_buf_view(&value), "a default", &v, &err) == QR_OK) {
        hash_with(file, path, qr_buf_string(&value), other);
        CHECK(strcmp(hash, other) == 0 || (!*other && is_conditional(k->name)),
              "%s: %s=%s is not the default", file, path, qr_buf_string(&value));
        n_defaults++;
    }
    if (k->type <= QR_KEY_NUMBER) {
        const char *word = k->type == QR_KEY_NUMBER || is_conditional(k->name) ? NULL : "between";
        double past = k->type == QR_KEY_NUMBER ? 0.5 : 1;
        if (k->low > -1e300) {
            snprintf(text, sizeof text, "%.17g", k->low - past);
            check_rejected(file, path, text, NULL);
            n_limits++;
        }
        if (k->high < 0x1p50) {
            snprintf(text, sizeof text, "%.17g", k->high + past);
            check_rejected(file, path, text, word);
            n_limits++;
        }
    }
    if (k->type != QR_KEY_OTHER && k->type != QR_KEY_OBJECT) {
        check_rejected(file, path, k->type >= QR_KEY_CHOICE ? "[1]" : "\"~~~\"", NULL);
        n_types++;
    }
    qr_json_free(v);
    qr_buf_free(&value);
}

/* The kind of a value; SIZE_MAX: none of the object's. */
static size_t kind_of(const struct qr_job_object *o, const struct qr_json *v) {
    const char *name;
    struct qr_err err;
    if (!o->by || !qr_json_get(v, o->by)) return o->kind;
    if (qr_json_string(qr_json_get(v, o->by), "", &name, &err) != QR_OK) return SIZE_MAX;
    for (size_t i = 0; i < o->n_kinds; i++)
        if (strcmp(o->kinds[i], name) == 0) return i;
    return SIZE_MAX;
}

/* Checks the keys that the object at path does not set. Keys that exclude one another in one job
 * are not tried: `skip`. */
static void check_object(const char *file, const char *hash, const struct qr_job_object *o,
                         const struct qr_json *v, const char *path) {
    static const char *const skip[] = {"clipvalue", "clipnorm", "global_clipnorm", "name"};
    size_t kind = kind_of(o, v);
    if (kind == SIZE_MAX || qr_json_type(v) != QR_JSON_OBJECT) return;
    for (size_t i = 0; i < o->n_keys; i++) {
        const struct qr_job_key *k = &o->keys[i];
        bool skipped = o->by && strcmp(k->name, o->by) == 0;
        for (size_t n = 0; n < sizeof skip / sizeof *skip; n++)
            skipped |= strcmp(skip[n], k->name) == 0;
        if (skipped || qr_json_get(v, k->name) || !qr_job_object_has(o, kind, k)) continue;
        struct qr_path at = qr_path_of("%s%s%s", path, *path ? "." : "", k->name);
        check_key(file, hash, o, kind, k, at.s);
    }
}

/* Jobs of kinds that few committed jobs have. */
#define CIRCUIT(more) "{\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"qubits\":4," more "}}],"
#define FLAT(more)                                                                                 \
    CIRCUIT("\"ansatz\":" more)                                                                    \
    "\"data\":{\"source\":\"none\"},\"train\":{\"loss\":\"expectation\"}}"
#define ENCODES(more) CIRCUIT("\"ansatz\":" more) "\"data\":{\"source\":\"csv\",\"url\":\"a.csv\"}}"
#define TRAINS(more) JOB(",\"train\":{" more "}")
#define RATE(more)                                                                                 \
    TRAINS("\"optimizer\":{\"name\":\"sgd\",\"learning_rate\":{\"schedule\":" more "}}")
static const char *const jobs[] = {
    FLAT("\"strongly-entangling\""),
    FLAT("\"basic-entangler\""),
    FLAT("\"simplified-two-design\""),
    FLAT("\"hardware-efficient\""),
    FLAT("\"qaoa\",\"cost\":\"Z0 Z1\""),
    FLAT("\"uccsd\",\"electrons\":2"),
    FLAT("\"all-singles-doubles\",\"electrons\":2"),
    FLAT("\"tensor-network\",\"kind\":\"mps\""),
    ENCODES("\"angle\""),
    ENCODES("\"iqp\""),
    ENCODES("\"zz-feature-map\""),
    ENCODES("\"amplitude\""),
    RATE("\"constant\""),
    RATE("\"step\",\"decay_steps\":10,\"decay_rate\":0.5"),
    RATE("\"exponential\",\"decay_steps\":10,\"decay_rate\":0.5"),
    RATE("\"cosine\",\"decay_steps\":10"),
    RATE("\"cosine_restarts\",\"first_decay_steps\":10"),
    RATE("\"polynomial\",\"decay_steps\":10"),
    TRAINS("\"optimizer\":{\"name\":\"sgd\"}"),
    TRAINS("\"optimizer\":{\"name\":\"adagrad\"}"),
    TRAINS("\"optimizer\":{\"name\":\"adadelta\"}"),
    TRAINS("\"optimizer\":{\"name\":\"adamax\"}"),
    TRAINS("\"optimizer\":{\"name\":\"lion\"}"),
    TRAINS("\"optimizer\":{\"name\":\"spsa\"}"),
    TRAINS("\"early_stopping\":{}"),
    TRAINS("\"loss\":{\"name\":\"huber\"}"),
    "{\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"qubits\":4,\"ansatz\":\"angle\"}},"
    "{\"layer\":\"dense\",\"units\":8,\"activation\":\"softmax\"}],"
    "\"data\":{\"source\":\"csv\",\"url\":\"a.csv\"},"
    "\"train\":{\"loss\":\"categorical_crossentropy\","
    "\"metrics\":[{\"name\":\"top_k_accuracy\"}]}}",
    STILL("lbfgs\""),
    STILL("quantum-natural-gradient\""),
};

static void check_file(const char *file) {
    char hash[65];
    struct qr_err err;
    hash_with(file, NULL, NULL, hash);
    struct qr_job *job = job_with(file, NULL, NULL, &err);
    CHECK(job, "%s: %s", file, err.msg);
    if (!job) return;
    const struct qr_json *train = qr_json_get(job->tree, "train"),
                         *optimizer = qr_json_get(train, "optimizer"),
                         *metrics = qr_json_get(train, "metrics"),
                         *model = qr_json_get(job->tree, "model");
    check_object(file, hash, qr_job_object("job"), job->tree, "");
    check_object(file, hash, qr_job_object("data"), qr_json_get(job->tree, "data"), "data");
    check_object(file, hash, qr_job_object("train"), train, "train");
    check_object(file, hash, qr_job_object("optimizer"), optimizer, "train.optimizer");
    check_object(file, hash, qr_job_object("learning_rate"),
                 qr_json_get(optimizer, "learning_rate"), "train.optimizer.learning_rate");
    check_object(file, hash, qr_job_object("early_stopping"), qr_json_get(train, "early_stopping"),
                 "train.early_stopping");
    check_object(file, hash, qr_job_object("loss"), qr_json_get(train, "loss"), "train.loss");
    for (size_t i = 0; i < qr_json_size(metrics); i++)
        check_object(file, hash, qr_job_object("metric"), qr_json_at(metrics, i),
                     qr_path_of("train.metrics[%zu]", i).s);
    for (size_t i = 0; i < qr_json_size(model); i++) {
        const struct qr_json *layer = qr_json_at(model, i);
        check_object(file, hash, qr_job_object("layer"), layer, qr_path_of("model[%zu]", i).s);
        check_object(file, hash, qr_job_object("circuit"), qr_json_get(layer, "circuit"),
                     qr_path_of("model[%zu].circuit", i).s);
    }
    qr_job_free(job);
}

/* ---- jobs with an error ---- */

static size_t n_damaged, n_reported;

static void count_report(void *context, const struct qr_err *err) {
    size_t *n = context;
    CHECK(err->code != QR_OK && err->msg[0], "an error without a message");
    ++*n;
}

/* Reading continues after an error, and reports at least one error. */
static void check_damaged(const char *file, const char *path, const char *value) {
    struct qr_overrides set = {0};
    struct qr_job *job = NULL;
    struct qr_err err = {0};
    size_t n = 0;
    if (qr_overrides_add(&set, QR_OVERRIDES_FLAG, "--set", path, value, &err) == QR_OK) {
        enum qr_code code = qr_job_load_all(file, &set, count_report, &n, &job, &err);
        CHECK(code == QR_OK ? job && !n : !job && err.msg[0], "%s: %s=%s: %zu errors, %s", file,
              path, value, n, err.msg);
        n_damaged++;
        n_reported += n;
    }
    qr_job_free(job);
    qr_overrides_fini(&set);
}

/* Sets each value below v to null and to values of other types. */
static void damage(const char *file, const struct qr_json *v, const char *path, unsigned depth) {
    static const char *const values[] = {"null", "[]", "{}", "\"~\"", "-1"};
    for (size_t i = 0; *path && i < sizeof values / sizeof *values; i++)
        check_damaged(file, path, values[i]);
    if (depth == 5) return;
    if (qr_json_type(v) == QR_JSON_OBJECT)
        for (const struct qr_json *m = qr_json_first(v); m; m = qr_json_next(m))
            damage(file, m, qr_path_of("%s%s%s", path, *path ? "." : "", qr_json_key(m)).s,
                   depth + 1);
    if (qr_json_type(v) == QR_JSON_ARRAY)
        for (size_t i = 0; i < qr_json_size(v) && i < 4; i++)
            damage(file, qr_json_at(v, i), qr_path_of("%s[%zu]", path, i).s, depth + 1);
}

static void damage_file(const char *file) {
    struct qr_err err;
    struct qr_job *job = job_with(file, NULL, NULL, &err);
    if (job) damage(file, job->tree, "", 0);
    qr_job_free(job);
}

int main(void) {
    static const char *const folders[] = {"deploy/jobs/*.json", "deploy/jobs/examples/*.json",
                                          "tests/golden/digests/jobs/*.json"};
    size_t n = 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        glob_t found;
        CHECK(glob(folders[i], 0, NULL, &found) == 0, "%s", folders[i]);
        for (size_t f = 0; f < found.gl_pathc; f++, n++)
            if (!strstr(found.gl_pathv[f], "schema")) {
                check_file(found.gl_pathv[f]);
                damage_file(found.gl_pathv[f]);
            }
        globfree(&found);
    }
    char folder[] = "/tmp/test_job_keys.XXXXXX";
    CHECK(mkdtemp(folder), "a folder");
    struct qr_path file = qr_path_of("%s/job.json", folder);
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        FILE *f = fopen(file.s, "w");
        CHECK(f && fputs(jobs[i], f) >= 0 && fclose(f) == 0, "%s", file.s);
        check_file(file.s);
        damage_file(file.s);
    }
    remove(file.s);
    remove(folder);
    CHECK(n > 50 && n_defaults > 1000 && n_limits > 1000 && n_types > 1000,
          "%zu jobs, %zu defaults, %zu limits, %zu types", n, n_defaults, n_limits, n_types);
    CHECK(n_damaged > 10000 && n_reported > n_damaged / 2, "%zu jobs with an error, %zu errors",
          n_damaged, n_reported);
    return t_end();
}
