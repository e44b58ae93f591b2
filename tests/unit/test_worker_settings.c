/* The settings table: flags, environment, job file, default, in this order; rejected values and
 * their messages. */
#include "base/file.h"
#include "base/mem.h"
#include "job/canonical.h"
#include "tests/t.h"
#include "base/clock.h"
#include "worker/settings.h"

static enum qr_code read_flags(struct qr_settings *s, struct qr_err *err, const char *a,
                               const char *b, const char *c) {
    const char *const given[] = {"qringd", a, b, c};
    char *argv[4];
    int n = 0;
    for (size_t i = 0; i < 4; i++)
        if (given[i]) argv[n++] = strdup(given[i]);
    enum qr_code code = qr_settings_flags(s, n, argv, err);
    for (int i = 0; i < n; i++) free(argv[i]);
    return code;
}

static enum qr_code read_environment(struct qr_settings *s, struct qr_err *err, const char *a,
                                     const char *b, char *unknown, size_t room) {
    char *env[3] = {0}, *messages[4];
    size_t n = 0, n_messages;
    if (a) env[n++] = strdup(a);
    if (b) env[n++] = strdup(b);
    enum qr_code code = qr_settings_environment(s, env, messages, 4, &n_messages, err);
    unknown[0] = 0;
    for (size_t i = 0; i < n_messages; i++) {
        snprintf(unknown + strlen(unknown), room - strlen(unknown), "%s\n", messages[i]);
        free(messages[i]);
    }
    for (size_t i = 0; i < n; i++) free(env[i]);
    return code;
}

static enum qr_code read_job(struct qr_settings *s, struct qr_err *err, const char *text) {
    struct qr_json *root;
    if (qr_json_parse(qr_bytes_of_string(text), "test", &root, err) != QR_OK) return err->code;
    enum qr_code code = qr_settings_job(s, root, err);
    qr_json_free(root);
    return code;
}

static void test_defaults(void) {
    struct qr_settings s;
    qr_settings_init(&s);
    CHECK(s.max_workers == 64 && s.data_port == 2224 && s.port == -1 && s.threads == -1 &&
          s.epochs == -1 && s.min_workers == -1);
    CHECK(s.start_timeout_ns == INT64_C(600000000000) && s.form_timeout_ns == -1 &&
          s.exit_on_drain == 143);
    CHECK(strcmp(s.isa, "auto") == 0 && strcmp(s.allreduce, "auto") == 0 &&
          strcmp(s.log_level, "info") == 0 && !s.out && !s.weights && !s.job);
    qr_settings_fini(&s);
}

/* The precedence does not depend on the order of reading. */
static void test_order(void) {
    char unknown[512];
    for (int turn = 0; turn < 6; turn++) {
        static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                         {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
        struct qr_settings s;
        struct qr_err err = {0};
        qr_settings_init(&s);
        for (int k = 0; k < 3; k++) {
            enum qr_code code = QR_OK;
            if (orders[turn][k] == 0) code = read_flags(&s, &err, "--threads=3", NULL, NULL);
            if (orders[turn][k] == 1)
                code = read_environment(&s, &err, "QRING_THREADS=4", "QRING_DATA_PORT=7", unknown,
                                        sizeof unknown);
            if (orders[turn][k] == 2)
                code = read_job(&s, &err,
                                "{\"threads\": 5, \"data_port\": 8, \"form-timeout\": \"2m\", "
                                "\"plaintext\": true}");
            CHECK(code == QR_OK, "%s", err.msg);
        }
        CHECK(s.threads == 3 && s.data_port == 7 && s.form_timeout_ns == INT64_C(120000000000) &&
                  s.plaintext,
              "order %d", turn);
        qr_settings_fini(&s);
    }
}

static void test_forms(void) {
    struct qr_settings s;
    struct qr_err err = {0};
    qr_settings_init(&s);
    CHECK(read_flags(&s, &err, "job.json", "--isa", "avx2") == QR_OK &&
              strcmp(s.isa, "avx2") == 0 && strcmp(s.job, "job.json") == 0,
          "%s", err.msg);
    CHECK(read_flags(&s, &err, "--plaintext", "--exit-on-drain=0", "--start-timeout=500ms") ==
                  QR_OK &&
              s.plaintext && s.exit_on_drain == 0,
          "%s", err.msg);
    CHECK(s.start_timeout_ns == 500000000);
    CHECK(read_flags(&s, &err, "--plaintext=false", "--threads=auto", "--index=") == QR_OK &&
              !s.plaintext && s.threads == -1 && !s.index,
          "%s", err.msg);
    CHECK(read_flags(&s, &err, "--weights-gcs-bucket=b", "--weights-gcs-path=p/x.h5",
                     "--profiler-port=2223") == QR_OK,
          "%s", err.msg);
    CHECK(read_flags(&s, &err, "--logdir", "gs://b/logs", NULL) == QR_OK &&
              qr_settings_check(&s, &err) == QR_OK,
          "%s", err.msg);
    CHECK(read_flags(&s, &err, "--weights=w.h5", NULL, NULL) == QR_OK &&
              qr_settings_check(&s, &err) == QR_INVALID_ARGUMENT,
          "both weights settings");
    qr_settings_fini(&s);
    static const char *const files[] = {"--tls-dir=d", "--tls-cert=c", "--tls-key=k", "--tls-ca=a"};
    for (size_t i = 0; i < COUNT(files); i++) {
        qr_settings_init(&s);
        CHECK(read_flags(&s, &err, "--plaintext", files[i], NULL) == QR_OK &&
                  qr_settings_check(&s, &err) == QR_INVALID_ARGUMENT &&
                  strstr(err.msg, "exclude each other"),
              "%s: %s", files[i], err.msg);
        qr_settings_fini(&s);
    }
}

/* An empty value, as in a manifest, counts as unset. */
static void test_empty(void) {
    struct qr_settings s, unset;
    struct qr_err err = {0};
    qr_settings_init(&s);
    qr_settings_init(&unset);
    CHECK(read_flags(&unset, &err, NULL, NULL, NULL) == QR_OK, "%s", err.msg);
    CHECK(read_flags(&s, &err, "--max-workers=", "--data-port=auto", "--http-port=") == QR_OK, "%s",
          err.msg);
    CHECK(s.max_workers == unset.max_workers && s.max_workers == 64, "%lld workers",
          (long long)s.max_workers);
    CHECK(s.data_port == 2224 && s.http_port == unset.http_port && s.http_port == 8080);
    CHECK(read_flags(&s, &err, "--start-timeout=", "--checkpoint-steps=",
                     "--checkpoint-interval=auto") == QR_OK &&
              read_flags(&s, &err, "--exit-on-drain=", NULL, NULL) == QR_OK,
          "%s", err.msg);
    CHECK(s.start_timeout_ns == 600 * QR_SECOND && s.checkpoint_steps == 100 &&
          s.checkpoint_interval_ns == 10 * QR_SECOND && s.exit_on_drain == unset.exit_on_drain);
    CHECK(s.form_timeout_ns == -1 && s.threads == -1 && s.min_workers == -1, "no default");
    qr_settings_fini(&s);
    qr_settings_fini(&unset);
}

static void test_rejected(void) {
    static const struct {
        const char *a, *b, *words;
    } rows[] = {
        {"--thread=2", NULL, "--thread; did you mean --threads?"},
        {"--zzzzzz", NULL, "unknown flag --zzzzzz"},
        {"-n", NULL, "unknown flag -n"},
        {"--threads", NULL, "--threads needs a value"},
        {"--threads=0", NULL, "--threads: '0' is not a number in 1 ... 1024"},
        {"--threads=2x", NULL, "'2x'"},
        {"--port=65536", NULL, "0 ... 65535"},
        {"--isa=avx", NULL, "'avx' is none of auto|portable|avx2|avx512"},
        {"--allreduce=", NULL, "none of auto|ring|doubling|star|halving"},
        {"--form-timeout=soon", NULL, "'soon' is not a duration"},
        {"--plaintext=maybe", NULL, "neither true nor false"},
        {"a.json", "b.json", "two jobs are named, 'a.json' and 'b.json'"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_settings s;
        struct qr_err err = {0};
        qr_settings_init(&s);
        CHECK(read_flags(&s, &err, rows[i].a, rows[i].b, NULL) == QR_INVALID_ARGUMENT &&
                  strstr(err.msg, rows[i].words),
              "%s: %s", rows[i].a, err.msg);
        qr_settings_fini(&s);
    }
}

static void test_environment(void) {
    struct qr_settings s;
    struct qr_err err = {0};
    char unknown[512];
    qr_settings_init(&s);
    CHECK(read_environment(&s, &err, "QRING_THREDS=2", "QRING_JOB=j.json", unknown,
                           sizeof unknown) == QR_OK,
          "%s", err.msg);
    CHECK(strstr(unknown, "QRING_THREDS") && strstr(unknown, "did you mean QRING_THREADS?") &&
              s.threads == -1,
          "%s", unknown);
    CHECK(s.job && strcmp(s.job, "j.json") == 0);
    /* Variables of a Service named qring or qring-worker-0 are neither settings nor mistakes. */
    CHECK(read_environment(&s, &err, "QRING_PORT=tcp://10.0.0.1:2222",
                           "QRING_WORKER_0_SERVICE_HOST=10.0.0.1", unknown,
                           sizeof unknown) == QR_OK,
          "%s", err.msg);
    CHECK(!unknown[0] && s.port == -1, "%s", unknown);
    /* Nor are variables of other programs, and an entry without a value. */
    CHECK(read_environment(&s, &err, "THREADS=3", "QRING_THREADS", unknown, sizeof unknown) ==
                  QR_OK &&
              !unknown[0] && s.threads == -1,
          "%s %s", err.msg, unknown);
    CHECK(read_environment(&s, &err, "QRING_THREADS=many", NULL, unknown, sizeof unknown) ==
                  QR_INVALID_ARGUMENT &&
              strstr(err.msg, "QRING_THREADS"),
          "%s", err.msg);
    CHECK(read_environment(&s, &err, "QRING_HELP=1", NULL, unknown, sizeof unknown) == QR_OK &&
              !s.help && strstr(unknown, "QRING_HELP is ignored: it is a flag only, --help"),
          "%s", unknown);
    qr_settings_fini(&s);
}

static void test_job(void) {
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"{\"thread\": 2}", "worker.thread is not a setting; did you mean 'threads'?"},
        {"{\"threads\": 1.5}", "worker.threads: '1.5'"},
        {"{\"threads\": [1]}", "worker.threads must be a text, a number, true or false"},
        {"{\"help\": true}", "worker.help cannot be set in a job file: give the flag --help"},
        {"{\"fresh\": true}", "worker.fresh cannot be set in a job file: give the flag --fresh"},
        {"{\"isa\": \"sse\"}", "worker.isa: 'sse'"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_settings s;
        struct qr_err err = {0};
        qr_settings_init(&s);
        CHECK(read_job(&s, &err, rows[i].text) == QR_INVALID_ARGUMENT &&
                  strstr(err.msg, rows[i].words),
              "%s: %s", rows[i].text, err.msg);
        qr_settings_fini(&s);
    }
}

/* Overrides of job keys accumulate: those of the environment first, then flags in their order. */
static void test_set(void) {
    struct qr_settings s;
    struct qr_err err = {0};
    struct qr_buf b = {0};
    struct qr_job *j = NULL;
    char unknown[512];
    qr_settings_init(&s);
    CHECK(read_flags(&s, &err, "--set=train.epochs=60", "--seed=9", "--set=seed=4") == QR_OK, "%s",
          err.msg);
    CHECK(read_environment(&s, &err, "QRING_SEED=7",
                           "QRING_SET=\n train.epochs=5 \r\n\nworker.threads=3\n", unknown,
                           sizeof unknown) == QR_OK &&
              !unknown[0],
          "%s %s", err.msg, unknown);
    qr_overrides_put(&s.set, &b);
    CHECK(strcmp(qr_buf_string(&b), "train.epochs=5, worker.threads=3, seed=7, train.epochs=60, "
                                    "seed=9, seed=4") == 0,
          "%s", qr_buf_string(&b));
    CHECK(qr_settings_origin(&s, "set") == QR_ORIGIN_FLAG);
    CHECK(qr_settings_load_job(&s, NULL, NULL, &j, &err) == QR_OK && j->seed == 4 &&
              j->train.epochs == 60 && s.threads == 3,
          "%s", err.msg);
    qr_job_free(j);
    qr_settings_fini(&s);
    qr_settings_init(&s);
    CHECK(read_flags(&s, &err, "--set=", "--seed=", NULL) == QR_OK && s.set.n == 0,
          "empty values are ignored");
    CHECK(read_flags(&s, &err, "--set", "epochs", NULL) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "--set: 'epochs' is not PATH=VALUE"),
          "%s", err.msg);
    CHECK(read_environment(&s, &err, "QRING_SET=a=1\nb", NULL, unknown, sizeof unknown) ==
                  QR_INVALID_ARGUMENT &&
              strstr(err.msg, "QRING_SET: 'b' is not PATH=VALUE"),
          "%s", err.msg);
    CHECK(read_job(&s, &err, "{\"set\": \"seed=1\"}") == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "worker.set belongs on the command line or in the environment"),
          "%s", err.msg);
    qr_settings_fini(&s);
    qr_settings_init(&s);
    CHECK(
        read_flags(&s, &err, "--set=worker.thread=2", NULL, NULL) == QR_OK &&
            qr_settings_load_job(&s, NULL, NULL, &j, &err) == QR_INVALID_ARGUMENT &&
            strstr(err.msg, "--set worker.thread=2: worker.thread is not a setting; did you mean"),
        "%s", err.msg);
    qr_job_free(j);
    qr_buf_free(&b);
    qr_settings_fini(&s);
}

static void collect(void *ctx, enum qr_log_level level, const char *module, const char *message) {
    (void)level, (void)module;
    qr_buf_printf(ctx, "%s\n", message);
}

static void test_texts(void) {
    struct qr_settings s;
    struct qr_err err;
    struct qr_buf b = {0};
    struct qr_log log = {.write = collect, .ctx = &b};
    qr_settings_init(&s);
    CHECK(read_flags(&s, &err, "--threads=2", NULL, NULL) == QR_OK &&
          read_job(&s, &err, "{\"isa\": \"portable\"}") == QR_OK);
    qr_settings_log(&s, &log);
    CHECK(strstr(qr_buf_string(&b), "from flags: threads=2\n") &&
              strstr(qr_buf_string(&b), "from the job file: isa=portable\n"),
          "%s", qr_buf_string(&b));
    CHECK(strstr(qr_buf_string(&b), "data-port=2224"), "%s", qr_buf_string(&b));
    qr_buf_clear(&b);
    CHECK(read_flags(&s, &err, "--progress-to=https://me:hush@h:1/hush?hush", "--weights",
                     "https://me:hush@h/w.h5?hush") == QR_OK);
    qr_settings_log(&s, &log);
    CHECK(strstr(qr_buf_string(&b), "progress-to=https://h:1") &&
              strstr(qr_buf_string(&b), "weights=https://h/w.h5?...") &&
              !strstr(qr_buf_string(&b), "hush"),
          "%s", qr_buf_string(&b));
    qr_buf_clear(&b);
    qr_settings_markdown(&b);
    for (size_t i = 0; qr_settings_name(i); i++) {
        char cell[80];
        snprintf(cell, sizeof cell, "| `--%s", qr_settings_name(i));
        CHECK(strstr(qr_buf_string(&b), cell), "%s", cell);
        CHECK(qr_settings_arity(qr_settings_name(i)) > 0);
    }
    CHECK(!strstr(qr_buf_string(&b), "progress-fd") && qr_settings_arity("progress-fd") == 2 &&
          qr_settings_arity("nothing") == 0);
    CHECK(strcmp(qr_settings_choices("allreduce"), "auto|ring|doubling|star|halving") == 0);
    CHECK(!qr_settings_choices("threads") && !qr_settings_choices("nothing"));
    qr_buf_clear(&b);
    qr_settings_help(&b);
    CHECK(strstr(qr_buf_string(&b), "--data-port PORT") && strstr(qr_buf_string(&b), "[2224]"));
    qr_buf_free(&b);
    qr_settings_fini(&s);
}

/* Each setting has a scope: whether it may differ between workers, and whose value applies. It has
 * a message for a newcomer with another value. */
static void test_scopes(void) {
    static const struct {
        const char *name;
        enum qr_setting_scope scope;
    } rows[] = {
        {"epochs", QR_SETTING_RING},
        {"allreduce", QR_SETTING_RING},
        {"min-workers", QR_SETTING_RING},
        {"fresh", QR_SETTING_FIRST},
        {"plaintext", QR_SETTING_EQUAL},
        {"tls-ca", QR_SETTING_EQUAL},
        {"out", QR_SETTING_LEADER},
        {"checkpoints", QR_SETTING_LEADER},
        {"checkpoint-interval", QR_SETTING_LEADER},
        {"threads", QR_SETTING_OWN},
        {"set", QR_SETTING_EQUAL},
        {"seed", QR_SETTING_EQUAL},
    };
    const char *message;
    size_t n[QR_SETTING_EQUAL + 1] = {0};
    for (size_t i = 0; qr_settings_name(i); i++) {
        enum qr_setting_scope b = qr_settings_scope(qr_settings_name(i), &message);
        CHECK(b > QR_SETTING_NONE && b <= QR_SETTING_EQUAL, "--%s has no scope",
              qr_settings_name(i));
        CHECK(message || (b != QR_SETTING_RING && b != QR_SETTING_EQUAL),
              "--%s has no message for a newcomer", qr_settings_name(i));
        CHECK(!message || b != QR_SETTING_OWN, "--%s", qr_settings_name(i));
        n[b]++;
    }
    for (size_t i = 0; i < COUNT(rows); i++)
        CHECK(qr_settings_scope(rows[i].name, NULL) == rows[i].scope, "--%s", rows[i].name);
    CHECK(n[QR_SETTING_RING] == 3, "a fourth one needs a field in struct qr_common");
    CHECK(qr_settings_scope("nothing", &message) == QR_SETTING_NONE && !message &&
          qr_settings_scope("progress-fd", NULL) == QR_SETTING_OWN);
}

/* The job keys that must be equal are those in the job hash. */
#define MODEL "\"model\":[{\"layer\":\"dense\",\"units\":1}]"
#define NPZ(file, more)                                                                            \
    "\"data\":{\"source\":\"csv\",\"url\":\"/tmp/qring-settings-" file ".csv\"" more "}"
static void hash_of(const char *text, char ret[65]) {
    struct qr_job *j = NULL;
    struct qr_err err = {0};
    struct qr_dataset d = {0};
    struct qr_job_canonical c;
    CHECK(qr_job_parse(qr_bytes_of_string(text), "test", &j, &err) == QR_OK &&
              qr_job_data(j, &d, &err) == QR_OK,
          "%s: %s", text, err.msg);
    qr_job_canonical(j, &d, NULL, &c);
    snprintf(ret, 65, "%s", c.hex);
    qr_job_canonical_fini(&c);
    qr_dataset_fini(&d);
    qr_job_free(j);
}
static void test_keys(void) {
    static const struct {
        const char *key, *text;
    } rows[] = {
        {"name", "{" MODEL "," NPZ("a", "") ",\"name\":\"other\"}"},
        {"seed", "{" MODEL "," NPZ("a", "") ",\"seed\":7}"},
        {"precision", "{" MODEL "," NPZ("a", "") ",\"precision\":\"double\"}"},
        {"micro_batch_size", "{" MODEL "," NPZ("a", "") ",\"micro_batch_size\":2}"},
        {"model", "{\"model\":[{\"layer\":\"dense\",\"units\":1,\"activation\":\"tanh\"}]," NPZ(
                      "a", "") "}"},
        {"data.url", "{" MODEL "," NPZ("b", "") "}"},
        {"data", "{" MODEL "," NPZ("c", "") "}"},
        {"data.train_fraction", "{" MODEL "," NPZ("a", ",\"train_fraction\":0.5") "}"},
        {"train.epochs", "{" MODEL "," NPZ("a", "") ",\"train\":{\"epochs\":9}}"},
        {"train.batch_size", "{" MODEL "," NPZ("a", "") ",\"train\":{\"batch_size\":2}}"},
        {"train.loss", "{" MODEL "," NPZ("a", "") ",\"train\":{\"loss\":\"mae\"}}"},
        {"train.metrics", "{" MODEL "," NPZ("a", "") ",\"train\":{\"metrics\":[\"mae\"]}}"},
        {"train.optimizer",
         "{" MODEL "," NPZ("a", "") ",\"train\":{\"optimizer\":{\"name\":\"sgd\"}}}"},
        {"train.shuffle", "{" MODEL "," NPZ("a", "") ",\"train\":{\"shuffle\":false}}"},
        {"train.early_stopping",
         "{" MODEL "," NPZ("a", ",\"train_fraction\":0.5") ",\"train\":{\"early_stopping\":{}}}"},
        {"worker", "{" MODEL "," NPZ("a", "") ",\"worker\":{\"threads\":2}}"},
    };
    static const char *const files[] = {"a", "b", "c"};
    struct qr_err err;
    const char *message;
    char hash[65], other[65], path[64];
    for (size_t i = 0; i < COUNT(files); i++) {
        snprintf(path, sizeof path, "/tmp/qring-settings-%s.csv", files[i]);
        CHECK(qr_file_replace(path,
                              qr_bytes_of_string(i < 2 ? "x,y\n1,0\n2,1\n3,0\n4,1\n"
                                                       : "x,y\n1,0\n2,1\n3,0\n4,0\n"),
                              &err) == QR_OK,
              "%s", err.msg);
    }
    hash_of("{" MODEL "," NPZ("a", "") "}", hash);
    for (size_t i = 0; i < COUNT(rows); i++) {
        hash_of(rows[i].text, other);
        enum qr_setting_scope b = qr_settings_scope_key(rows[i].key, &message);
        bool hashed = strcmp(hash, other) != 0,
             must_be_equal = b == QR_SETTING_EQUAL && message && strstr(message, "KEY is");
        CHECK(hashed == must_be_equal, "%s: %s the job hash", rows[i].key,
              hashed ? "in" : "not in");
        CHECK((b == QR_SETTING_OWN) == !message, "%s", rows[i].key);
    }
    for (size_t i = 0; i < COUNT(files); i++) {
        snprintf(path, sizeof path, "/tmp/qring-settings-%s.csv", files[i]);
        remove(path);
    }
}

int main(void) {
    test_defaults();
    test_order();
    test_forms();
    test_empty();
    test_rejected();
    test_environment();
    test_job();
    test_set();
    test_texts();
    test_scopes();
    test_keys();
    return t_end();
}
