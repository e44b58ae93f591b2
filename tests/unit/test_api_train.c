/* Jobs of the C interface: digest, weights and predictions against the step loop that workers run,
 * over threads, instruction sets and sources of the samples; order of callbacks; cancellation from
 * a callback and from another thread; two trainings at once; weights files; misuse; failing system
 * calls. A training leaves no thread, descriptor or signal handler in the process. */
#include "tests/failing_calls.h"

#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "api/qring.h"
#include "base/clock.h"
#include "format/npz.h"
#include "job/workload.h"
#include "train/evaluate.h"
#include "train/train.h"

enum { SAMPLES = 24, INPUTS = 3, SHARE = 16 /* train */, BATCH = 4, EPOCHS = 3 };

#define HEAD "{\"name\":\"small\",\"seed\":5,\"precision\":\"double\","
#define CIRCUIT                                                                                    \
    "{\"layer\":\"quantum\",\"circuit\":{\"qubits\":3,\"gates\":[{\"ansatz\":\"angle\"},"          \
    "{\"ansatz\":\"basic-entangler\"}]},\"readouts\":[\"Z0\",\"Z1\"]}"
#define TRAIN(more)                                                                                \
    "\"train\":{\"epochs\":3,\"batch_size\":4,\"loss\":\"mse\",\"metrics\":[\"mae\"],"             \
    "\"optimizer\":{\"name\":\"adam\",\"learning_rate\":0.05}" more "}"
#define SMALL(source, more)                                                                        \
    HEAD "\"data\":{\"source\":" source ",\"train_fraction\":0.67},\"model\":[" CIRCUIT            \
         ",{\"layer\":\"dense\",\"units\":1}]," TRAIN(more) "}"
/* Begins with a dense layer, so that the data decides the number of inputs. */
#define DENSE                                                                                      \
    HEAD "\"data\":{\"source\":\"npz\",\"url\":\"small.npz\"},\"model\":[{\"layer\":\"dense\","    \
         "\"units\":2,\"activation\":\"tanh\"},{\"layer\":\"dense\",\"units\":1}]," TRAIN("") "}"
#define VQE                                                                                        \
    "{\"name\":\"vqe\",\"data\":{\"source\":\"none\"},\"model\":[{\"layer\":\"quantum\","          \
    "\"circuit\":{\"qubits\":2,\"ansatz\":\"hardware-efficient\",\"layers\":1},\"readouts\":["     \
    "\"Z0 Z1 + 0.5*X0\"]}],\"train\":{\"epochs\":4,\"loss\":\"expectation\"}}"

static const char in_file[] = SMALL("\"npz\",\"url\":\"small.npz\"", ""),
                  without_file[] = SMALL("\"npz\"", "");
/* One extra label, which a wrong number of columns reads. */
static double samples[SAMPLES][INPUTS], labels[SAMPLES + 1];
static const struct qring_array x = {samples, QRING_FLOAT64, {sizeof *samples, sizeof **samples}},
                                y = {labels, QRING_FLOAT64, {sizeof *labels, sizeof *labels}};
static const struct qring_data arrays = {sizeof arrays, SAMPLES, INPUTS, 1, &x, &y, NULL};

static struct qring_job *job_of(const char *text) {
    struct qring_job *job = NULL;
    struct qring_error e;
    CHECK(qring_job_new(text, strlen(text), dir, &job, &e) == QRING_OK, "%s", e.message);
    return job;
}

static struct qring_result *train(struct qring_job *job, const struct qring_train_options *opt) {
    struct qring_result *r = NULL;
    struct qring_error e;
    CHECK(qring_train(job, opt, &r, &e) == QRING_OK, "%s", e.message);
    return r;
}

static struct qring_train_options options(unsigned threads, const char *isa) {
    return (struct qring_train_options){
        .struct_size = sizeof(struct qring_train_options), .threads = threads, .isa = isa};
}

/* ---- the step loop of a worker ---- */

struct expected {
    struct qr_job *job;
    struct qr_workload load;
    struct qr_train_result result;
    double predicted[SAMPLES];
};

static struct expected expect(const char *text, unsigned threads) {
    struct expected w = {0};
    struct qr_job_canonical canonical = {0};
    CHECK(qr_job_parse_all(qr_bytes_of_string(text), "the test", dir, NULL, NULL, &w.job, &err) ==
                  QR_OK &&
              qr_workload_load(w.job, "auto", threads, &w.load, &err) == QR_OK,
          "%s", err.msg);
    qr_job_canonical(w.job, &w.load.data, NULL, &canonical);
    const struct qr_group_options g = {.run = "test", .clock = &qr_clock_monotonic};
    struct qr_group *group = qr_group_solo(&g);
    struct qr_pool *pool = qr_pool_new(threads);
    const struct qr_train_options opt = {.job = w.job,
                                         .canonical = &canonical,
                                         .data = &w.load.data,
                                         .model = w.load.model,
                                         .initial = w.load.initial,
                                         .group = group,
                                         .pool = pool,
                                         .clock = &qr_clock_monotonic};
    CHECK(qr_train_run(&opt, &w.result, &err) == QR_OK, "%s", err.msg);
    size_t sample[SAMPLES], n = w.load.data.n_samples;
    for (size_t i = 0; i < SAMPLES; i++) sample[i] = i;
    CHECK(qr_evaluate(w.load.model, w.result.params, &w.load.data, sample, n, pool, w.predicted,
                      NULL, NULL, &err) == QR_OK,
          "%s", err.msg);
    qr_pool_free(pool);
    qr_group_close(group);
    qr_job_canonical_fini(&canonical);
    return w;
}

static void expected_fini(struct expected *w) {
    qr_train_result_fini(&w->result);
    qr_workload_fini(&w->load);
    qr_job_free(w->job);
}

static double value_of(const struct qring_result *r, const char *name) {
    for (size_t i = 0; i < qring_result_count(r); i++)
        if (strcmp(qring_result_name(r, i), name) == 0) return qring_result_value(r, i);
    return NAN;
}

static void compare(const struct expected *w, struct qring_result *r, const char *what) {
    struct qring_weights *weights = qring_result_weights(r);
    const struct qr_model *m = w->load.model;
    CHECK(strcmp(qring_result_digest(r), w->result.state_digest) == 0, "%s: %s, not %s", what,
          qring_result_digest(r), w->result.state_digest);
    CHECK(qring_result_steps(r) == w->result.steps && qring_result_epochs(r) == w->result.epochs);
    CHECK(value_of(r, "loss") == w->result.loss, "%s", what);
    CHECK(!w->result.has_val || value_of(r, "val_loss") == w->result.val_loss, "%s", what);
    CHECK(qring_weights_count(weights) == qr_model_n_tensors(m), "%s", what);
    for (size_t i = 0; i < qring_weights_count(weights); i++) {
        const struct qr_model_tensor *t = qr_model_tensor(m, i);
        CHECK(strcmp(qring_weights_name(weights, i), t->name) == 0 &&
                  qring_weights_rank(weights, i) == t->rank &&
                  qring_weights_size(weights, i, 0) == t->dims[0] &&
                  qring_weights_size(weights, i, 1) == (t->rank > 1 ? t->dims[1] : 0) &&
                  memcmp(qring_weights_values(weights, i), w->result.params + t->offset,
                         t->n * sizeof(double)) == 0,
              "%s: %s", what, t->name);
    }
}

static void same_as_worker(void) {
    static const struct {
        const char *text, *what;
        bool arrays;
    } rows[] = {{in_file, "a file", false},
                {without_file, "arrays", true},
                {in_file, "arrays in place of a file", true},
                {DENSE, "dense layers", false},
                {VQE, "no data", false}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct expected w = expect(rows[i].text == without_file ? in_file : rows[i].text, 1);
        struct qring_job *job = job_of(rows[i].text);
        for (unsigned threads = 1; threads <= 3; threads++) {
            struct qring_train_options opt = options(threads, threads == 2 ? "portable" : NULL);
            if (rows[i].arrays) opt.data = &arrays;
            struct qring_result *r = train(job, &opt);
            if (r) compare(&w, r, rows[i].what);
            double p[SAMPLES] = {0};
            const struct qring_array ret = {p, QRING_FLOAT64, {sizeof *p, sizeof *p}};
            struct qring_error e;
            bool inputs = rows[i].text != (const char *)VQE && w.load.data.n_columns;
            size_t n = w.load.data.n_samples;
            CHECK(r && qring_predict(job, qring_result_weights(r), inputs ? &x : NULL, n,
                                     inputs ? INPUTS : 0, threads, &ret, 1, &e) == QRING_OK,
                  "%s: %s", rows[i].what, e.message);
            CHECK(memcmp(p, w.predicted, n * sizeof *p) == 0, "%s", rows[i].what);
            qring_result_free(r);
        }
        qring_job_free(job);
        expected_fini(&w);
    }
}

/* ---- callbacks and cancellation ---- */

struct progress_counts {
    size_t steps, epochs, cancel_at;
    struct qring_job *job;
    pthread_t caller;
    double last_loss;
};

static int check_progress(void *context, const struct qring_progress *p) {
    struct progress_counts *s = context;
    bool step = p->event == QRING_STEP;
    size_t batches = SHARE / BATCH;
    s->steps += step;
    CHECK(p->struct_size == sizeof *p && p->epochs == EPOCHS && p->batches == batches);
    CHECK(p->epoch == s->epochs + 1 && p->batch == s->steps - s->epochs * batches, "%zu.%zu",
          p->epoch, p->batch);
    CHECK(step || p->batch == batches);
    CHECK(p->n_values == (step ? 2 : 4) && strcmp(p->names[0], "loss") == 0 &&
          strcmp(p->names[1], "mae") == 0 && (step || strcmp(p->names[2], "val_loss") == 0));
    CHECK(pthread_equal(pthread_self(), s->caller));
    s->epochs += !step;
    s->last_loss = p->values[0];
    return s->cancel_at && s->steps == s->cancel_at;
}

static void callbacks(void) {
    struct qring_job *job = job_of(in_file);
    struct qring_error e;
    struct progress_counts s = {.caller = pthread_self()};
    struct qring_train_options opt = options(2, NULL);
    opt.progress = check_progress;
    opt.context = &s;
    struct qring_result *r = train(job, &opt), *again = NULL;
    CHECK(s.steps == EPOCHS * SHARE / BATCH && s.epochs == EPOCHS, "%zu, %zu", s.steps, s.epochs);
    CHECK(r && s.last_loss == value_of(r, "loss"));
    for (size_t at = 1; at <= EPOCHS * SHARE / BATCH; at += 3) {
        s = (struct progress_counts){.caller = pthread_self(), .cancel_at = at};
        again = r;
        CHECK(qring_train(job, &opt, &again, &e) == QRING_CANCELLED && !again &&
                  e.code == QRING_CANCELLED && strstr(e.message, "cancelled"),
              "at %zu: %s", at, e.message);
        CHECK(s.steps == at, "%zu steps, not %zu", s.steps, at);
    }
    /* A cancelled job trains again, with the same bits. */
    s = (struct progress_counts){.caller = pthread_self()};
    again = train(job, &opt);
    CHECK(r && again && strcmp(qring_result_digest(r), qring_result_digest(again)) == 0);
    qring_result_free(again);
    qring_job_cancel(job); /* before a training: cancels the next one */
    s = (struct progress_counts){.caller = pthread_self()};
    CHECK(qring_train(job, &opt, &again, &e) == QRING_CANCELLED && s.steps == 0, "%s", e.message);
    s = (struct progress_counts){.caller = pthread_self()};
    again = train(job, &opt);
    CHECK(again && s.epochs == EPOCHS);
    qring_result_free(again);
    qring_result_free(r);
    qring_job_free(job);
}

/* A thread that waits for the tenth step, then tries to use the job and cancels it. */
struct canceller {
    struct qring_job *job;
    atomic_size_t steps;
    enum qring_code used, freed;
};

static int count(void *context, const struct qring_progress *p) {
    struct canceller *m = context;
    atomic_fetch_add(&m->steps, p->event == QRING_STEP);
    return 0;
}

static void *use_and_cancel(void *context) {
    struct canceller *m = context;
    struct qring_result *r = NULL;
    struct qring_error e;
    while (atomic_load(&m->steps) < 10) qr_sleep_ns(QR_SECOND / 1000);
    m->used = qring_train(m->job, NULL, &r, &e);
    CHECK(!r && strstr(e.message, "another thread is using this job"), "%s", e.message);
    qring_job_cancel(m->job);
    return NULL;
}

static void other_thread(void) {
    struct qring_job *job = job_of(in_file);
    struct canceller m = {.job = job};
    struct qring_train_options opt = options(1, NULL);
    struct qring_result *r = NULL;
    struct qring_error e;
    pthread_t thread;
    opt.epochs = 1000000000; /* only cancellation ends it */
    opt.progress = count;
    opt.context = &m;
    CHECK(pthread_create(&thread, NULL, use_and_cancel, &m) == 0);
    CHECK(qring_train(job, &opt, &r, &e) == QRING_CANCELLED && !r, "%s", e.message);
    pthread_join(thread, NULL);
    CHECK(m.used == QRING_FAILED_PRECONDITION);
    qring_job_free(job);
}

struct trainer {
    pthread_t thread;
    const char *file;
    char digest[33];
};
static void *train_often(void *context) {
    struct trainer *t = context;
    struct qring_job *job = job_of(in_file);
    for (int i = 0; i < 10; i++) {
        struct qring_train_options opt = options(2, NULL);
        struct qring_result *r = train(job, &opt);
        if (i == 0) strcpy(t->digest, qring_result_digest(r));
        CHECK(strcmp(t->digest, qring_result_digest(r)) == 0);
        char *path = at(t->file);
        CHECK(qring_weights_write(qring_result_weights(r), path, NULL) == QRING_OK);
        free(path);
        qring_result_free(r);
    }
    qring_job_free(job);
    return NULL;
}

static void two_trainings(void) {
    struct trainer trainers[] = {{.file = "one.h5"}, {.file = "two.h5"}};
    struct expected w = expect(in_file, 1);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&trainers[i].thread, NULL, train_often, &trainers[i]) == 0);
    for (int i = 0; i < 2; i++) pthread_join(trainers[i].thread, NULL);
    for (int i = 0; i < 2; i++)
        CHECK(strcmp(trainers[i].digest, w.result.state_digest) == 0, "%s", trainers[i].digest);
    expected_fini(&w);
}

/* ---- weights ---- */

static bool weights_equal(struct qring_weights *a, struct qring_weights *b, double within) {
    if (!a || !b || qring_weights_count(a) != qring_weights_count(b)) return false;
    for (size_t i = 0; i < qring_weights_count(a); i++) {
        size_t rows = qring_weights_size(a, i, 0), columns = qring_weights_size(a, i, 1);
        if (strcmp(qring_weights_name(a, i), qring_weights_name(b, i)) != 0) return false;
        for (size_t k = 0; k < rows * (columns ? columns : 1); k++)
            if (!(fabs(qring_weights_values(a, i)[k] - qring_weights_values(b, i)[k]) <= within))
                return false;
    }
    return true;
}

static void weights(void) {
    static const char *const files[] = {"w.safetensors", "w.npz", "w.h5"}, *const texts[] = {
                                                                               in_file, DENSE};
    struct qring_error e;
    for (size_t k = 0; k < COUNT(texts); k++) {
        struct qring_job *job = job_of(texts[k]);
        struct qring_result *r = train(job, NULL), *from = NULL;
        for (size_t i = 0; i < COUNT(files); i++) {
            struct qring_weights *read = NULL;
            char *path = at(files[i]);
            CHECK(qring_weights_write(qring_result_weights(r), path, &e) == QRING_OK &&
                      qring_weights_read(job, path, &read, &e) == QRING_OK,
                  "%s: %s", files[i], e.message);
            CHECK(weights_equal(read, qring_result_weights(r), i == 2 ? 1e-6 : 0), "%s", files[i]);
            qring_weights_free(read);
            free(path);
        }
        /* The seed's own weights as initial weights change nothing, other weights do. */
        struct qring_weights *first = NULL;
        struct qring_train_options opt = options(1, NULL);
        CHECK(qring_weights_new(job, INPUTS, &first, &e) == QRING_OK, "%s", e.message);
        opt.initial = first;
        from = train(job, &opt);
        CHECK(strcmp(qring_result_digest(r), qring_result_digest(from)) == 0, "the seed's weights");
        qring_result_free(from);
        qring_weights_values(first, 0)[0] += 0.5;
        from = train(job, &opt);
        CHECK(strcmp(qring_result_digest(r), qring_result_digest(from)) != 0, "other weights");
        qring_result_free(from);
        qring_weights_free(first);
        qring_result_free(r);
        qring_job_free(job);
    }
}

/* ---- misuse ---- */

static void bad_jobs(void) {
    static const struct {
        const char *text, *says[3];
    } rows[] = {
        {"", {"the job"}},
        {"[]", {"the job"}},
        {"{\"seed\":-1,\"train\":{\"epochs\":0}}", {"seed", "model is missing", "train.epochs"}},
        {"{\"modle\":[]}", {"modle", "model"}},
        {SMALL("\"npz\"", ",\"metrics\":[\"speed\"]"), {"metrics"}},
    };
    struct qring_job *job;
    struct qring_error e;
    for (size_t i = 0; i < COUNT(rows); i++) {
        job = (struct qring_job *)&e; /* must become NULL */
        CHECK(qring_job_new(rows[i].text, strlen(rows[i].text), dir, &job, &e) ==
                      QRING_INVALID_ARGUMENT &&
                  e.code == QRING_INVALID_ARGUMENT && !job,
              "row %zu", i);
        for (size_t k = 0; k < COUNT(rows[i].says) && rows[i].says[k]; k++)
            CHECK(strstr(e.message, rows[i].says[k]), "row %zu: %s", i, e.message);
    }
    CHECK(qring_job_new(NULL, 3, NULL, &job, &e) == QRING_INVALID_ARGUMENT && e.message[0]);
    CHECK(qring_job_new("{", 1, NULL, &job, NULL) == QRING_INVALID_ARGUMENT && !job);
    /* More errors than fit into the message: it ends with the number of the others. */
    struct qr_buf many = {0};
    qr_buf_puts(&many, "{");
    qr_buf_puts(&many, "\"model\":[");
    for (int i = 0; i < 60; i++)
        qr_buf_puts(&many, i ? ",{\"layer\":\"unknown_\"}" : "{\"layer\":\"unknown_\"}");
    qr_buf_puts(&many, "]}");
    CHECK(qring_job_new(qr_buf_string(&many), many.n, NULL, &job, &e) == QRING_INVALID_ARGUMENT);
    const char *tail = strrchr(e.message, '\n');
    size_t shown = 0, left = 0;
    for (const char *p = e.message; (p = strstr(p, "unknown_")); p++) shown++;
    CHECK(tail && sscanf(tail, "\nand %zu more", &left) == 1 && shown && shown + left >= 60,
          "%zu shown, %zu left: %s", shown, left, e.message);
    qr_buf_free(&many);
}

struct misuse {
    struct qring_data data;
    const char *isa;
    size_t struct_size;
    enum qring_code code;
    const char *says;
};

static void bad_trainings(void) {
    static const double bad[2] = {1, (double)NAN};
    static const struct qring_array odd = {samples,
                                           (enum qring_dtype)7,
                                           {sizeof *samples, sizeof **samples}},
                                    none = {NULL, QRING_FLOAT64, {0}},
                                    nan_y = {(void *)(uintptr_t)bad,
                                             QRING_FLOAT64,
                                             {sizeof *bad, sizeof *bad}};
    enum { SIZE = sizeof(struct qring_data) };
    const struct misuse rows[] = {
        {{1000, SAMPLES, INPUTS, 1, &x, &y, NULL}, NULL, 0, 3, "struct_size"},
        {{SIZE, SAMPLES, INPUTS, 1, &x, &y, NULL}, NULL, 3, 3, "struct_size"},
        {{SIZE, SAMPLES, INPUTS, 1, &x, &y, NULL}, "mmx", 0, 3, "mmx"},
        {{SIZE, SAMPLES, INPUTS, 1, NULL, &y, NULL}, NULL, 0, 3, "x is NULL"},
        {{SIZE, SAMPLES, INPUTS, 1, &none, &y, NULL}, NULL, 0, 3, "x is NULL"},
        {{SIZE, SAMPLES, INPUTS, 1, &odd, &y, NULL}, NULL, 0, 3, "dtype 7"},
        {{SIZE, SAMPLES, INPUTS, 1, &x, NULL, NULL}, NULL, 0, 3, "y is NULL"},
        {{SIZE, SAMPLES, INPUTS, 0, &x, NULL, NULL}, NULL, 0, 15, "'y' is missing"},
        {{SIZE, SAMPLES, INPUTS, 2, &x, &y, NULL}, NULL, 0, 15, "y has 2 columns"},
        {{SIZE, SAMPLES, 2, 1, &x, &y, NULL}, NULL, 0, 15, "2 columns, but the model takes 3"},
        {{SIZE, 0, INPUTS, 1, &x, &y, NULL}, NULL, 0, 15, "no samples"},
        {{SIZE, 2, INPUTS, 1, &x, &nan_y, NULL}, NULL, 0, 15, "NaN"},
        {{SIZE, SIZE_MAX / 2, INPUTS, 1, &x, &y, NULL}, NULL, 0, 8, "bytes"},
        {{SIZE, SAMPLES, INPUTS, 1, &x, &y, &y}, NULL, 0, 3, "sample_weight"},
    };
    struct qring_job *job = job_of(without_file);
    struct qring_error e;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qring_train_options opt = options(1, rows[i].isa);
        struct qring_result *r = (struct qring_result *)&e;
        if (rows[i].struct_size) opt.struct_size = rows[i].struct_size;
        opt.data = &rows[i].data;
        enum qring_code code = qring_train(job, &opt, &r, &e);
        CHECK(code == rows[i].code && e.code == code && !r && strstr(e.message, rows[i].says),
              "row %zu: %d, %s", i, (int)code, e.message);
    }
    struct qring_train_options opt = options(1, NULL);
    struct qring_result *r;
    CHECK(qring_train(job, NULL, &r, &e) == QRING_INVALID_ARGUMENT && strstr(e.message, "url"),
          "%s", e.message);
    qring_job_free(job);
    static const struct {
        const char *text;
        bool arrays;
        enum qring_code code;
        const char *says;
    } jobs[] = {
        {SMALL("\"npz\",\"url\":\"missing.npz\"", ""), false, QRING_NOT_FOUND, "missing.npz"},
        {SMALL("\"csv\",\"url\":\"small.npz\"", ""), false, QRING_DATA_LOSS, "small.npz"},
        {SMALL("\"npz\",\"url\":\"gs://bucket/small.npz\"", ""), false, QRING_FAILED_PRECONDITION,
         "gs://bucket"},
        {SMALL("\"npz\"", ",\"initial_weights\":\"no.h5\""), true, QRING_NOT_FOUND, "no.h5"},
        {VQE, true, QRING_INVALID_ARGUMENT, "data.source"},
    };
    for (size_t i = 0; i < COUNT(jobs); i++) {
        job = NULL;
        opt.data = jobs[i].arrays ? &arrays : NULL;
        if (qring_job_new(jobs[i].text, strlen(jobs[i].text), dir, &job, &e) == QRING_OK)
            CHECK(qring_train(job, &opt, &r, &e) == jobs[i].code && !r &&
                      strstr(e.message, jobs[i].says),
                  "job %zu: %d, %s", i, (int)e.code, e.message);
        else CHECK(false, "job %zu: %s", i, e.message);
        qring_job_free(job);
    }
}

static void bad_weights(void) {
    struct qring_job *job = job_of(in_file), *dense = job_of(DENSE), *vqe = job_of(VQE);
    struct qring_weights *w = NULL, *other = NULL, *none = NULL;
    struct qring_error e;
    struct qring_result *r;
    struct qring_train_options opt = options(1, NULL);
    double p[SAMPLES];
    const struct qring_array ret = {p, QRING_FLOAT64, {sizeof *p, sizeof *p}};
    CHECK(qring_weights_new(job, INPUTS, &w, &e) == QRING_OK &&
              qring_weights_new(dense, INPUTS, &other, &e) == QRING_OK,
          "%s", e.message);
#define PREDICT(w, x, s, i, ret, o) qring_predict(job, w, x, s, i, 1, ret, o, &e)
    CHECK(PREDICT(other, &x, 2, INPUTS, &ret, 1) == QRING_INVALID_ARGUMENT &&
              strstr(e.message, "dense/kernel (3, 2) is not the model's"),
          "%s", e.message);
    CHECK(PREDICT(NULL, &x, 2, INPUTS, &ret, 1) == QRING_INVALID_ARGUMENT);
    CHECK(PREDICT(w, &x, 2, INPUTS, NULL, 1) == QRING_INVALID_ARGUMENT &&
          strstr(e.message, "ret is NULL"));
    CHECK(PREDICT(w, NULL, 2, INPUTS, &ret, 1) == QRING_INVALID_ARGUMENT &&
          strstr(e.message, "x is NULL"));
    CHECK(PREDICT(w, &x, 2, INPUTS, &ret, 2) == QRING_INVALID_ARGUMENT &&
          strstr(e.message, "the model has 1"));
    CHECK(PREDICT(w, &x, 2, 5, &ret, 1) == QRING_INVALID_ARGUMENT && strstr(e.message, "5 columns"),
          "%d: %s", (int)e.code, e.message);
    CHECK(PREDICT(w, NULL, 0, INPUTS, &ret, 1) == QRING_OK); /* no samples */
    struct qring_weights *angles = NULL;
    CHECK(qring_weights_new(vqe, 0, &angles, &e) == QRING_OK, "%s", e.message);
    for (size_t n = 1; n < 3; n++)
        for (size_t inputs = 0; inputs < 2; inputs++) {
            enum qring_code code = qring_predict(vqe, angles, &x, n, inputs, 1, &ret, 1, &e);
            CHECK(n == 1 && inputs == 0 ? code == QRING_OK
                                        : code == QRING_INVALID_ARGUMENT &&
                                              strstr(e.message, "give 1 sample of 0 inputs"),
                  "%zu samples of %zu inputs: %d, %s", n, inputs, (int)code, e.message);
        }
    double huge[INPUTS] = {0, 0x1p41, 0};
    const struct qring_array big = {huge, QRING_FLOAT64, {sizeof huge, sizeof *huge}};
    CHECK(PREDICT(w, &big, 1, INPUTS, &ret, 1) == QRING_DATA_LOSS && strstr(e.message, "2^40"),
          "%s", e.message);
    opt.initial = other;
    CHECK(qring_train(job, &opt, &r, &e) == QRING_INVALID_ARGUMENT && !r);
    qring_weights_values(w, 0)[1] = (double)INFINITY;
    opt.initial = w;
    CHECK(qring_train(job, &opt, &r, &e) == QRING_OUT_OF_RANGE && !r && strstr(e.message, "inf"),
          "%s", e.message);
    CHECK(PREDICT(w, &x, 2, INPUTS, &ret, 1) == QRING_OUT_OF_RANGE);
    char *path = at("small.npz"), *folder = at("small.npz/w.h5"), *text = at("w.txt");
    CHECK(qring_weights_read(job, path, &none, &e) == QRING_INVALID_ARGUMENT && !none, "%s",
          e.message);
    CHECK(qring_weights_read(job, "nothing.h5", &none, &e) == QRING_NOT_FOUND && !none);
    CHECK(qring_weights_read(job, NULL, &none, &e) == QRING_INVALID_ARGUMENT && !none);
    CHECK(qring_weights_write(other, text, &e) == QRING_INVALID_ARGUMENT, "%s", e.message);
    CHECK(qring_weights_write(other, NULL, &e) == QRING_INVALID_ARGUMENT, "%s", e.message);
    CHECK(qring_weights_write(other, "gs://bucket/w.h5", &e) == QRING_FAILED_PRECONDITION, "%s",
          e.message);
    CHECK(qring_weights_write(other, folder, &e) != QRING_OK && e.message[0]);
    CHECK(!qring_weights_name(w, 99) && !qring_weights_values(w, 99) &&
          !qring_weights_rank(w, 99) && !qring_weights_size(w, 0, 9));
    free(path);
    free(folder);
    free(text);
    qring_weights_free(w);
    qring_weights_free(other);
    qring_weights_free(angles);
    qring_weights_free(NULL);
    qring_result_free(NULL);
    qring_job_free(NULL);
    qring_job_free(job);
    qring_job_free(dense);
    qring_job_free(vqe);
}

/* ---- state of the process ---- */

static void leaves_process_unchanged(void) {
    struct sigaction before[65], now;
    /* A sanitizer starts a thread of its own beside the first pool. */
    qr_pool_free(qr_pool_new(2));
    int fds = entries("/proc/self/fd"), threads = entries("/proc/self/task");
    for (int i = 1; i < SIGRTMIN - 2; i++) sigaction(i, NULL, &before[i]);
    struct expected w = expect(in_file, 1);
    fesetround(FE_UPWARD);
    struct qring_job *job = job_of(in_file);
    struct qring_train_options opt = options(3, NULL);
    struct qring_result *r = train(job, &opt);
    CHECK(fegetround() == FE_UPWARD, "the caller's rounding is restored");
    fesetround(FE_TONEAREST);
    if (r) compare(&w, r, "with another rounding mode");
    expected_fini(&w);
    CHECK(entries(dir) == 3 + 1, "training writes no file: %d",
          entries(dir)); /* ., .., data, weights */
    qring_result_free(r);
    qring_job_free(job);
    /* A joined thread may be listed for a moment. */
    for (int i = 0; i < 1000 && entries("/proc/self/task") != threads; i++)
        qr_sleep_ns(QR_SECOND / 100);
    CHECK(entries("/proc/self/fd") == fds && entries("/proc/self/task") == threads);
    for (int i = 1; i < SIGRTMIN - 2; i++) /* the two before SIGRTMIN are the C library's */
        CHECK(sigaction(i, NULL, &now) == 0 && now.sa_handler == before[i].sa_handler, "signal %d",
              i);
}

/* Each system call on a file fails in turn. The result is an error with a message or the right
 * digest, and the weights file is the old or the new one. */
static void failing_files(const char *digest) {
    size_t failed_calls = 0;
    for (long k = 1;; k++) {
        struct qring_job *job = job_of(in_file);
        struct qring_result *r = NULL;
        struct qring_error e = {QRING_OK, ""};
        char *path = at("w.npz");
        put("w.npz", "old");
        n_calls = 0;
        fail_errno = EIO;
        fail_at = k;
        enum qring_code code = qring_train(job, NULL, &r, &e);
        if (code == QRING_OK) code = qring_weights_write(qring_result_weights(r), path, &e);
        bool reached = n_calls >= k;
        fail_at = 0;
        CHECK(code == QRING_OK || e.message[0], "call %ld", k);
        CHECK(!r || strcmp(qring_result_digest(r), digest) == 0, "call %ld", k);
        if (!has("w.npz", "old")) {
            struct qring_weights *read = NULL;
            CHECK(r && qring_weights_read(job, path, &read, &e) == QRING_OK &&
                      weights_equal(read, qring_result_weights(r), 0),
                  "call %ld", k);
            qring_weights_free(read);
        } else CHECK(code != QRING_OK, "call %ld", k);
        failed_calls += code != QRING_OK;
        free(path);
        qring_result_free(r);
        qring_job_free(job);
        if (!reached) break;
    }
    CHECK(failed_calls > 10, "%zu", failed_calls);
}

static void write_samples(void) {
    static const size_t dims[] = {SAMPLES, INPUTS};
    struct qr_tensors t = {0};
    struct qr_buf file = {0};
    for (size_t i = 0; i < SAMPLES; i++) {
        for (size_t j = 0; j < INPUTS; j++) samples[i][j] = sin((double)(i * INPUTS + j));
        labels[i] = samples[i][0] > 0 ? 1 : -1;
    }
    qr_tensors_add(&t, "x", 2, dims, samples[0]);
    qr_tensors_add(&t, "y", 1, dims, labels);
    qr_npz_write(&t, &file);
    char *path = at("small.npz");
    CHECK(qr_file_replace(path, qr_buf_view(&file), &err) == QR_OK, "%s", err.msg);
    free(path);
    qr_tensors_free(&t);
    qr_buf_free(&file);
}

int main(void) {
    snprintf(base_dir, sizeof base_dir, "/tmp/qring-api-train-XXXXXX");
    CHECK(mkdtemp(base_dir) != NULL);
    snprintf(dir, sizeof dir, "%s", base_dir);
    write_samples();
    put("w.npz", "weights");
    leaves_process_unchanged();
    same_as_worker();
    callbacks();
    other_thread();
    two_trainings();
    weights();
    bad_jobs();
    bad_trainings();
    bad_weights();
    struct expected w = expect(in_file, 1);
    failing_files(w.result.state_digest);
    expected_fini(&w);
    CHECK(remove_tree(base_dir) == 0, "no temporary file is left");
    return t_end();
}
