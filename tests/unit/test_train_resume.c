/* Training is interrupted after every reduction and resumes from the encoded checkpoint after it:
 * lines, result and digest are those of an undisturbed run. */
#include <math.h>

#include "base/mem.h"
#include "tests/t.h"
#include "train/train_checkpoint.h"
#include "train/evaluate.h"
#include "train/train.h"

#define QCNN(data, train)                                                                          \
    "{\"seed\":3,\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":4," \
    "\"stages\":1}},"                                                                              \
    "{\"layer\":\"dense\",\"units\":1}],\"data\":{\"source\":\"cluster-excitations\",\"rounds\":"  \
    "8" data "},\"train\":{\"loss\":\"mse\"," train "}}"

/* An objective without data. */
#define VQE(optimizer)                                                                             \
    "{\"seed\":4,\"precision\":\"double\",\"model\":[{\"layer\":\"quantum\",\"circuit\":{"         \
    "\"qubits\":3,\"gates\":[" ROW("0") "," ROW(                                                   \
        "1") "]},\"readouts\":[\"Z0 Z1 + 0.5*X1 Y2 - X2\""                                         \
             "]}],\"data\":{\"source\":\"none\"},\"train\":{\"epochs\":40,\"loss\":"               \
             "\"expectation\","                                                                    \
             "\"optimizer\":{" optimizer "}}}"
#define TURN(gate, name, qubit)                                                                    \
    "{\"gate\":\"" gate "\",\"qubits\":[" qubit "],\"angle\":{\"parameter\":\"" name "\"}},"
#define ROW(k)                                                                                     \
    TURN("RY", "a" k, "0")                                                                         \
    TURN("RY", "b" k, "1")                                                                         \
    TURN("RX", "c" k, "2")                                                                         \
    TURN("RZ", "d" k, "1")                                                                         \
    "{\"gate\":\"CX\",\"qubits\":[0,1]},{\"gate\":\"CX\",\"qubits\":[1,2]}"

enum { MAX_REDUCTIONS = 64 };
struct run {
    struct qr_job *job;
    struct qr_dataset data;
    struct qr_model *model;
    struct qr_job_canonical canonical;
    struct qr_pool *pool;
    /* what was reported */
    struct qr_buf lines[MAX_REDUCTIONS]; /* by reductions, from 1 */
    struct qr_buf files[MAX_REDUCTIONS]; /* the checkpoint of each committed state */
    /* reductions before the start of this run; lines reported in it */
    uint64_t first, n_lines;
    bool keep, same_lines;
    struct qr_state taken; /* the observer's state, exchanged as by the publisher */
};
static struct qr_err err;

static enum qr_code on_step(void *ctx, bool leader, const struct qr_step_line *line,
                            const struct qr_step_detail *detail, struct qr_err *e) {
    struct run *r = ctx;
    struct qr_buf text = {0};
    (void)leader, (void)detail, (void)e;
    uint64_t reductions = r->first + ++r->n_lines;
    if (reductions >= MAX_REDUCTIONS) return qr_fail(e, QR_INTERNAL, "too many reductions");
    qr_step_json(line, &text);
    if (r->keep) qr_buf_put(&r->lines[reductions], text.p, text.n);
    else r->same_lines &= strcmp(qr_buf_string(&text), qr_buf_string(&r->lines[reductions])) == 0;
    qr_buf_free(&text);
    return QR_OK;
}
static enum qr_code on_committed(void *ctx, bool leader, struct qr_state *s, struct qr_err *e) {
    struct run *r = ctx;
    struct qr_checkpoint c;
    (void)leader;
    if (s->reductions != r->first + r->n_lines)
        return qr_fail(e, QR_INTERNAL,
                       "the state after %d reductions is committed, %d lines were reported",
                       (int)s->reductions, (int)r->n_lines);
    if (r->keep) {
        qr_state_save(s, r->job, r->model, r->canonical.hex, &c);
        CHECK(qr_checkpoint_encode(&c, &r->files[s->reductions], NULL, &err) == QR_OK, "%s",
              err.msg);
        qr_checkpoint_fini(&c);
    } else {
        /* Exchange the states as the publisher does. Training must not read what it gets back. */
        qr_state_exchange(&r->taken, s);
        for (size_t i = 0; i < s->n_all; i++) s->all[i] = NAN;
        memset(s->stop, 0xff, sizeof s->stop);
        s->step = s->epoch = s->reductions = UINT64_MAX / 3;
    }
    return QR_OK;
}

static enum qr_code train(struct run *r, const struct qr_state *from, uint64_t epochs,
                          struct qr_train_result *ret) {
    struct qr_group_options g = {.run = "t", .clock = &qr_clock_monotonic};
    memcpy(g.job_hash, r->canonical.hash, 32);
    struct qr_group *group = qr_group_solo(&g);
    struct qr_train_options o = {
        .job = r->job,
        .canonical = &r->canonical,
        .data = &r->data,
        .model = r->model,
        .group = group,
        .pool = r->pool,
        .clock = &qr_clock_monotonic,
        .resume = from,
        .epochs = epochs,
        .observer = {.ctx = r, .step = on_step, .committed = on_committed}};
    r->first = from ? from->reductions : 0;
    r->n_lines = 0;
    r->same_lines = true;
    qr_state_init(&r->taken, r->job, r->model);
    enum qr_code code = qr_train_run(&o, ret, &err);
    qr_state_fini(&r->taken);
    qr_group_close(group);
    return code;
}

static bool same_result(const struct run *r, const struct qr_train_result *a,
                        const struct qr_train_result *b) {
    bool is = a->steps == b->steps && a->epochs == b->epochs && a->loss == b->loss &&
              a->has_val == b->has_val && a->val_loss == b->val_loss &&
              a->n_metrics == b->n_metrics && a->stopped_early == b->stopped_early &&
              strcmp(a->state_digest, b->state_digest) == 0;
    for (size_t i = 0; is && i < a->n_metrics; i++)
        is = memcmp(&a->metrics[i].value, &b->metrics[i].value, sizeof(double)) == 0;
    size_t n = a->confusion.n;
    is &= a->best_epoch == b->best_epoch && a->best == b->best && a->restored == b->restored &&
          n == b->confusion.n;
    if (is && n) /* without classes there are no matrices */
        is = !memcmp(a->confusion.training, b->confusion.training, 8 * n * n) &&
             (!a->has_val || !memcmp(a->confusion.validation, b->confusion.validation, 8 * n * n));
    return is && memcmp(a->params, b->params, qr_model_n_params(r->model) * sizeof *a->params) == 0;
}

/* The result's validation values are those of an evaluation of its weights, to the last bit. */
static void check_validation(const struct run *r, const char *what,
                             const struct qr_train_result *ret) {
    size_t n = r->data.n_samples - r->data.n_train, sample[64], n_val = qr_model_n_values(r->model);
    double means[16];
    if (!ret->has_val) return;
    for (size_t i = 0; i < n; i++) sample[i] = r->data.n_train + i;
    CHECK(qr_evaluate(r->model, ret->params, &r->data, sample, n, r->pool, NULL, NULL, means,
                      &err) == QR_OK,
          "%s", err.msg);
    CHECK(means[0] == ret->val_loss, "%s: %.17g, of its weights %.17g", what, ret->val_loss,
          means[0]);
    for (size_t i = 1; i < n_val; i++)
        CHECK(means[i] == ret->metrics[n_val + i - 2].value, "%s: %s %.17g, of its weights %.17g",
              what, ret->metrics[n_val + i - 2].name, ret->metrics[n_val + i - 2].value, means[i]);
    uint64_t counted = 0;
    for (size_t i = 0; i < ret->confusion.n * ret->confusion.n; i++)
        counted += ret->confusion.validation[i];
    CHECK(!ret->confusion.n || counted == n);
}

static void test_each_reduction(const char *what, const char *text) {
    struct run *r = qr_xcalloc(1, sizeof *r);
    struct qr_train_result whole = {0}, part;
    CHECK(qr_job_parse(qr_bytes_of_string(text), what, &r->job, &err) == QR_OK, "%s", err.msg);
    if (!r->job) return free(r);
    CHECK(qr_job_data(r->job, &r->data, &err) == QR_OK &&
              qr_job_model(r->job, qr_isa_best(), r->data.n_columns, &r->model, &err) == QR_OK,
          "%s", err.msg);
    qr_job_canonical(r->job, &r->data, NULL, &r->canonical);
    r->pool = qr_pool_new(1);
    r->keep = true;
    CHECK(train(r, NULL, 0, &whole) == QR_OK, "%s: %s", what, err.msg);
    check_validation(r, what, &whole);
    r->keep = false;
    uint64_t n_reductions = r->n_lines;
    CHECK(n_reductions > 5 && r->files[n_reductions].n, "%s: %d reductions", what,
          (int)n_reductions);
    for (uint64_t p = 0; p <= n_reductions; p++) {
        struct qr_checkpoint c = {0};
        struct qr_state s;
        qr_state_init(&s, r->job, r->model);
        CHECK(qr_checkpoint_decode(qr_buf_view(&r->files[p]), what, &c, &err) == QR_OK, "%s",
              err.msg);
        CHECK(qr_state_load(&c, r->job, r->model, &s, &err) == QR_OK && s.reductions == p, "%s",
              err.msg);
        part = (struct qr_train_result){0};
        CHECK(train(r, &s, 0, &part) == QR_OK, "%s, from reduction %d: %s", what, (int)p, err.msg);
        CHECK(r->same_lines && r->n_lines == n_reductions - p,
              "%s, from reduction %d: %d lines, %s", what, (int)p, (int)r->n_lines,
              r->same_lines ? "the same" : "different");
        CHECK(part.params && same_result(r, &whole, &part), "%s, from reduction %d: %s and %s",
              what, (int)p, whole.state_digest, part.state_digest);
        qr_train_result_fini(&part);
        qr_checkpoint_fini(&c);
        qr_state_fini(&s);
    }
    qr_train_result_fini(&whole);
    for (size_t i = 0; i < MAX_REDUCTIONS; i++)
        qr_buf_free(&r->lines[i]), qr_buf_free(&r->files[i]);
    qr_pool_free(r->pool);
    qr_job_canonical_fini(&r->canonical);
    qr_model_free(r->model);
    qr_dataset_fini(&r->data);
    qr_job_free(r->job);
    free(r);
}

/* A checkpoint of another optimizer, or of one with or without an average of the weights, is
 * rejected. */
static void test_other_optimizers(void) {
    static const char *const names[] = {"adam", "nadam", "adagrad", "lion", "sgd"};
    enum { N = 2 * COUNT(names) };
    struct qr_job *job[N] = {0};
    struct qr_model *model[N] = {0};
    struct qr_checkpoint c[N];
    for (size_t i = 0; i < N; i++) {
        struct qr_state s;
        qr_auto(qr_free_p) char *text = qr_xasprintf(
            "{\"model\":[{\"layer\":\"dense\",\"units\":1}],\"data\":{\"source\":\"csv\",\"url\":"
            "\"x\"},\"train\":{\"optimizer\":{\"name\":\"%s\",\"use_ema\":%s}}}",
            names[i / 2], i % 2 ? "true" : "false");
        CHECK(qr_job_parse(qr_bytes_of_string(text), "t", &job[i], &err) == QR_OK &&
                  qr_job_model(job[i], qr_isa_best(), 3, &model[i], &err) == QR_OK,
              "%s", err.msg);
        qr_state_init(&s, job[i], model[i]);
        qr_state_save(&s, job[i], model[i], "00", &c[i]);
        qr_state_fini(&s);
    }
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < N; k++) {
            struct qr_state s;
            qr_state_init(&s, job[k], model[k]);
            enum qr_code code = qr_state_load(&c[i], job[k], model[k], &s, &err);
            CHECK(code == (i == k ? QR_OK : QR_DATA_LOSS), "%s %d for %s %d: %s", names[i / 2],
                  (int)(i % 2), names[k / 2], (int)(k % 2), err.msg);
            CHECK(i == k || strstr(err.msg, "optimizer/"), "%s", err.msg);
            qr_state_fini(&s);
        }
    for (size_t i = 0; i < N; i++)
        qr_checkpoint_fini(&c[i]), qr_model_free(model[i]), qr_job_free(job[i]);
}

/* The average is written, except where early stopping keeps the best weights. */
static void test_averages(void) {
    static const char *const texts[] = {
        QCNN(",\"train_fraction\":0.7",
             "\"epochs\":1,\"batch_size\":5,\"optimizer\":{\"name\":\"sgd\","
             "\"learning_rate\":0.5}"),
        QCNN(",\"train_fraction\":0.7",
             "\"epochs\":1,\"batch_size\":5,\"optimizer\":{\"name\":\"sgd\","
             "\"learning_rate\":0.5,\"use_ema\":true}"),
        QCNN(",\"train_fraction\":0.7", "\"epochs\":1,\"batch_size\":5,\"early_stopping\":{"
                                        "\"patience\":9},\"optimizer\":{\"name\":\"sgd\","
                                        "\"learning_rate\":0.5,\"use_ema\":true}"),
    };
    double kernel[COUNT(texts)];
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct run r = {.pool = qr_pool_new(1)};
        struct qr_train_result result = {0};
        CHECK(qr_job_parse(qr_bytes_of_string(texts[i]), "t", &r.job, &err) == QR_OK &&
                  qr_job_data(r.job, &r.data, &err) == QR_OK &&
                  qr_job_model(r.job, qr_isa_best(), r.data.n_columns, &r.model, &err) == QR_OK,
              "%s", err.msg);
        qr_job_canonical(r.job, &r.data, NULL, &r.canonical);
        CHECK(train(&r, NULL, 0, &result) == QR_OK, "%s", err.msg);
        kernel[i] = result.params[qr_model_n_params(r.model) - 2];
        free(result.params);
        qr_pool_free(r.pool);
        qr_job_canonical_fini(&r.canonical);
        qr_model_free(r.model);
        qr_dataset_fini(&r.data);
        qr_job_free(r.job);
    }
    CHECK(kernel[1] != kernel[0] && kernel[2] == kernel[0], "%g %g %g", kernel[0], kernel[1],
          kernel[2]);
}

/* A checkpoint of another model or contract is rejected, and the error names the difference. */
static void test_other_models(void) {
    struct qr_job *job[2] = {0};
    struct qr_model *model[2] = {0};
    for (int i = 0; i < 2; i++) {
        qr_auto(qr_free_p) char *text =
            qr_xasprintf("{\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\","
                         "\"qubits\":4,\"stages\":1}},"
                         "{\"layer\":\"dense\",\"units\":%d},{\"layer\":\"dense\",\"units\":1}],"
                         "\"data\":{\"source\":"
                         "\"cluster-excitations\",\"rounds\":2},\"train\":{\"loss\":\"mse\"}}",
                         i + 2);
        CHECK(qr_job_parse(qr_bytes_of_string(text), "t", &job[i], &err) == QR_OK &&
                  qr_job_model(job[i], qr_isa_best(), 4, &model[i], &err) == QR_OK,
              "%s", err.msg);
    }
    struct qr_state a, b;
    struct qr_checkpoint c;
    qr_state_init(&a, job[0], model[0]);
    qr_state_init(&b, job[1], model[1]);
    qr_state_save(&a, job[0], model[0], "00", &c);
    CHECK(qr_state_load(&c, job[1], model[1], &b, &err) == QR_DATA_LOSS &&
              strstr(err.msg, "dense/kernel"),
          "%s", err.msg);
    c.contract[1] = '6';
    CHECK(qr_state_load(&c, job[0], model[0], &a, &err) == QR_DATA_LOSS &&
              strstr(err.msg, "f62-v1"),
          "%s", err.msg);
    c.contract[1] = '3';
    c.n_digested--;
    CHECK(qr_state_load(&c, job[0], model[0], &a, &err) == QR_DATA_LOSS, "%s", err.msg);
    qr_checkpoint_fini(&c);
    qr_state_fini(&a);
    qr_state_fini(&b);
    for (int i = 0; i < 2; i++) qr_model_free(model[i]), qr_job_free(job[i]);
}

int main(void) {
    test_each_reduction("adam with validation",
                        QCNN(",\"train_fraction\":0.7",
                             "\"epochs\":4,\"batch_size\":9,\"metrics\":[\"accuracy\",\"mae\"]"));
    test_each_reduction("no validation, momentum",
                        QCNN("", "\"epochs\":4,\"batch_size\":12,\"optimizer\":{\"name\":\"sgd\","
                                 "\"learning_rate\":0.1,\"momentum\":0.9}"));
    test_each_reduction(
        "a schedule",
        QCNN(",\"train_fraction\":0.7",
             "\"epochs\":4,\"batch_size\":9,\"optimizer\":{\"name\":\"rmsprop\",\"learning_rate\":"
             "{\"schedule\":\"exponential\",\"initial_learning_rate\":0.1,\"decay_steps\":2,"
             "\"decay_rate\":0.5}}"));
    test_each_reduction("early stopping that keeps the best",
                        QCNN(",\"train_fraction\":0.7",
                             "\"epochs\":30,\"batch_size\":30,\"optimizer\":{\"name\":\"adam\","
                             "\"learning_rate\":0.9},\"metrics\":[\"accuracy\",\"mae\","
                             "\"confusion_matrix\"],\"log\":{\"gap\":\"val_loss - loss\"},"
                             "\"early_stopping\":{\"monitor\":\"val_loss\","
                             "\"patience\":2,\"restore_best_weights\":true}"));
    test_each_reduction(
        "adamw, a warm-up and a polynomial that cycles",
        QCNN(",\"train_fraction\":0.7",
             "\"epochs\":4,\"batch_size\":9,\"optimizer\":{\"name\":\"adamw\",\"learning_rate\":"
             "{\"schedule\":\"polynomial\",\"initial_learning_rate\":0.1,\"decay_steps\":3,"
             "\"cycle\":true,\"warmup_steps\":4}}"));
    test_each_reduction(
        "nadam, with restarts",
        QCNN(",\"train_fraction\":0.7",
             "\"epochs\":4,\"batch_size\":9,\"optimizer\":{\"name\":\"nadam\",\"learning_rate\":"
             "{\"schedule\":\"cosine_restarts\",\"initial_learning_rate\":0.1,"
             "\"first_decay_steps\":2}}"));
    test_each_reduction(
        "adagrad, decay, an average that overwrites",
        QCNN(",\"train_fraction\":0.7",
             "\"epochs\":4,\"batch_size\":9,\"optimizer\":{\"name\":\"adagrad\",\"weight_decay\":"
             "0.1,\"use_ema\":true,\"ema_momentum\":0.9,\"ema_overwrite_frequency\":5,"
             "\"learning_rate\":{\"schedule\":\"piecewise\",\"boundaries\":[3,7],\"values\":"
             "[0.1,0.05,0.2]}}"));
    test_each_reduction("an average beside the best weights",
                        QCNN(",\"train_fraction\":0.7",
                             "\"epochs\":30,\"batch_size\":30,\"optimizer\":{\"name\":\"adamax\","
                             "\"learning_rate\":0.9,\"use_ema\":true},\"metrics\":[\"accuracy\","
                             "\"confusion_matrix\"],\"early_stopping\":{\"patience\":"
                             "2,\"restore_best_weights\":false}"));
    test_each_reduction("early stopping by the training loss, without validation",
                        QCNN("", "\"epochs\":30,\"batch_size\":16,\"metrics\":[\"accuracy\"],"
                                 "\"optimizer\":{\"name\":\"adam\",\"learning_rate\":0.9},"
                                 "\"early_stopping\":{\"monitor\":\"loss\",\"patience\":2}"));
    test_each_reduction("early stopping by an expression of training, beside validation",
                        QCNN(",\"train_fraction\":0.7",
                             "\"epochs\":30,\"batch_size\":12,\"optimizer\":{\"name\":\"adam\","
                             "\"learning_rate\":0.9},\"log\":{\"x\":\"loss + samples/100\"},"
                             "\"early_stopping\":{\"monitor\":\"x\",\"patience\":2}"));
    /* Interrupted within line searches too: there are about as many steps as evaluations. */
    test_each_reduction("lbfgs", VQE("\"name\":\"lbfgs\",\"memory\":4,\"loss_tolerance\":1e-10"));
    test_each_reduction(
        "spsa with validation, decay and an average",
        QCNN(",\"train_fraction\":0.7",
             "\"epochs\":4,\"batch_size\":9,\"metrics\":[\"accuracy\"],\"optimizer\":{"
             "\"name\":\"spsa\",\"weight_decay\":0.01,\"use_ema\":true}"));
    test_each_reduction("natural gradient",
                        VQE("\"name\":\"quantum-natural-gradient\",\"learning_rate\":0.05,"
                            "\"clipvalue\":0.5"));
    test_averages();
    test_other_models();
    test_other_optimizers();
    return t_end();
}
