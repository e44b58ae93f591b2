/* train/logged.c — values that a job logs. Start reading at qr_logged_add(). */
#include "train/logged.h"

#include <string.h>

#include "base/counter.h"
#include "record/tensorboard.h"

/* Values that expressions of this line may refer to. */
static void set_named_values(const struct qr_job *job, const struct qr_model *m,
                             const struct qr_state *s, const struct qr_step_values *line,
                             double ret[QR_LOG_NAMES]) {
    size_t n = qr_model_n_values(m);
    ret[QR_LOG_STEP] = (double)line->step;
    ret[QR_LOG_EPOCH] = (double)line->epoch;
    ret[QR_LOG_SAMPLES] = (double)line->samples;
    ret[QR_LOG_LEARNING_RATE] =
        qr_learning_rate_at(&job->train.optimizer, line->step ? line->step - 1 : 0);
    for (size_t i = 0; i < n; i++)
        ret[QR_LOG_VALUES + i] =
            line->eval ? qr_model_running_mean(m, i, s->sums, s->sums[s->n_sums]) : line->value[i];
    for (size_t i = 0; i < n && line->eval; i++) ret[QR_LOG_VAL_VALUES + i] = line->value[i];
}

static double logged_value(const struct qr_logged *l, const double named[QR_LOG_NAMES]) {
    return l->scale * qr_expression_value(&l->expression, named, NULL);
}

void qr_logged_add(const struct qr_job *job, const struct qr_model *m, const struct qr_state *s,
                   const double *gradient, struct qr_step_values *line) {
    const struct qr_train_spec *t = &job->train;
    double named[QR_LOG_NAMES] = {0};
    if (!t->n_logged) return;
    set_named_values(job, m, s, line, named);
    for (size_t i = 0; i < t->n_logged; i++) {
        const struct qr_logged *l = &t->logged[i];
        if (l->evaluation != line->eval) continue;
        if (l->gradient) named[QR_LOG_GRADIENT_NORM] = qr_gradient_norm(gradient, s->n_params);
        line->value[qr_model_n_values(m) + i] = logged_value(l, named);
    }
}

static size_t logged_copy(const struct qr_job *job, const struct qr_model *m,
                          const struct qr_step_values *line, struct qr_named_value *ret) {
    const struct qr_train_spec *t = &job->train;
    size_t n = 0;
    for (size_t i = 0; i < t->n_logged; i++)
        if (t->logged[i].evaluation == line->eval)
            ret[n++] =
                (struct qr_named_value){t->logged[i].name, line->value[qr_model_n_values(m) + i]};
    return n;
}

/* "" for zeros. */
static void set_hex(const uint8_t *bytes, size_t n, char *ret) {
    static const uint8_t none[QR_CHAIN_BYTES];
    *ret = 0;
    if (memcmp(bytes, none, n) != 0) qr_hex(bytes, n, ret);
}

void qr_logged_line(const struct qr_job *job, const struct qr_model *m,
                    const struct qr_step_values *line, struct qr_named_value *ret_metrics,
                    struct qr_named_value *ret_logged, struct qr_step_line *ret) {
    size_t n = qr_model_n_values(m);
    for (size_t i = 1; i < n; i++)
        ret_metrics[i - 1] =
            (struct qr_named_value){qr_model_value_name(m, i, false), line->value[i]};
    *ret = (struct qr_step_line){.step = line->step,
                                 .epoch = line->epoch,
                                 .eval = line->eval,
                                 .samples = line->samples,
                                 .loss = line->value[0],
                                 .metrics = ret_metrics,
                                 .n_metrics = n - 1,
                                 .logged = ret_logged,
                                 .n_logged = logged_copy(job, m, line, ret_logged)};
    set_hex(line->digest, sizeof line->digest, ret->state_digest);
    set_hex(line->chain, sizeof line->chain, ret->chain);
}

double qr_logged_epoch(const struct qr_job *job, const struct qr_model *m, const struct qr_state *s,
                       const struct qr_epoch_value *v, uint64_t n_validation) {
    double named[QR_LOG_NAMES] = {0};
    uint64_t n = v->evaluation ? n_validation : (uint64_t)s->sums[s->n_sums];
    struct qr_step_values end = {.step = s->step, .epoch = s->epoch, .samples = n, .eval = true};
    memcpy(end.value, s->validation, qr_model_n_values(m) * sizeof *end.value);
    set_named_values(job, m, s, &end, named);
    if (!v->logged) return named[(v->evaluation ? QR_LOG_VAL_VALUES : QR_LOG_VALUES) + v->at];
    return logged_value(&job->train.logged[v->at], named);
}

size_t qr_logged_last(const struct qr_job *job, const struct qr_model *m, const struct qr_state *s,
                      uint64_t n_validation, struct qr_named_value *ret) {
    size_t n = 0;
    for (size_t i = 0; i < job->train.n_logged; i++) {
        const struct qr_logged *l = &job->train.logged[i];
        const struct qr_epoch_value v = {.evaluation = l->evaluation, .logged = true, .at = i};
        if (l->gradient || (l->evaluation && !n_validation)) continue;
        ret[n++] = (struct qr_named_value){l->name, qr_logged_epoch(job, m, s, &v, n_validation)};
    }
    return n;
}

void qr_logged_register(const struct qr_job *job, const struct qr_model *m) {
    size_t n = qr_model_n_values(m);
    for (size_t i = 1; i < n; i++) {
        qr_value_name(i - 1, qr_model_value_name(m, i, false));
        qr_value_name(n + i - 2, qr_model_value_name(m, i, true));
    }
    for (size_t i = 0; i < job->train.n_logged; i++)
        qr_value_name(2 * n - 2 + i, job->train.logged[i].name);
}

void qr_logged_publish(const struct qr_job *job, const struct qr_model *m,
                       const struct qr_step_values *line) {
    size_t n = qr_model_n_values(m);
    for (size_t i = 1; i < n; i++) qr_value_set(line->eval ? n + i - 2 : i - 1, line->value[i]);
    for (size_t i = 0; i < job->train.n_logged; i++)
        if (job->train.logged[i].evaluation == line->eval)
            qr_value_set(2 * n - 2 + i, line->value[n + i]);
}
