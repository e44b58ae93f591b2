#include <string.h>

#include "job/job_impl.h"

#define MAX_STEPS (UINT64_C(1) << 40)

/* A key that the schedule does not use was meant for another one. */
static enum qr_code check_used(const struct qr_json *o, const char *where, size_t kind,
                               struct qr_err *err) {
    static const struct {
        const char *key;
        bool used[QR_SCHEDULES];
        const char *by;
    } rows[] = {
        {"decay_steps", {false, true, true, true}, "step, exponential and cosine do"},
        {"decay_rate", {false, true, true, false}, "step and exponential do"},
        {"staircase", {false, false, true, false}, "exponential does"},
        {"alpha", {false, false, false, true}, "cosine does"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (qr_json_get(o, rows[i].key) && !rows[i].used[kind])
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "%s.%s: the %s schedule does not use it (%s); take it away, or choose "
                           "another schedule",
                           where, rows[i].key, qr_schedule_names[kind], rows[i].by);
    return QR_OK;
}

/* "learning_rate": a number, or {"schedule": name, "initial_learning_rate": …}. */
static enum qr_code read_schedule(const struct qr_json *o, struct qr_optimizer_options *opt,
                                  struct qr_err *err) {
    static const char *const keys[] = {
        "schedule", "initial_learning_rate", "decay_steps", "decay_rate", "staircase", "alpha"};
    const char *where = "train.optimizer.learning_rate";
    struct qr_rate_schedule *s = &opt->schedule;
    size_t kind;
    if (qr_json_known(o, where, keys, 6, err) != QR_OK ||
        qr_json_choice(qr_json_get(o, "schedule"), "train.optimizer.learning_rate.schedule",
                       qr_schedule_names, QR_SCHEDULES, &kind, err) != QR_OK ||
        qr_job_opt_double(o, where, "initial_learning_rate", 0, 1e300, &opt->learning_rate, err) !=
            QR_OK ||
        qr_job_opt_u64(o, where, "decay_steps", 1, MAX_STEPS, &s->decay_steps, err) != QR_OK ||
        qr_job_opt_double(o, where, "decay_rate", 0, 1e300, &s->decay_rate, err) != QR_OK ||
        qr_job_opt_bool(o, where, "staircase", &s->staircase, err) != QR_OK ||
        qr_job_opt_double(o, where, "alpha", 0, 1, &s->alpha, err) != QR_OK ||
        check_used(o, where, kind, err) != QR_OK)
        return err->code;
    s->kind = (enum qr_schedule_kind)kind;
    if (s->kind != QR_SCHEDULE_CONSTANT && s->decay_steps == 0)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s.decay_steps is missing: the %s schedule needs it", where,
                       qr_schedule_names[kind]);
    if ((s->kind == QR_SCHEDULE_STEP || s->kind == QR_SCHEDULE_EXPONENTIAL) && s->decay_rate <= 0)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s.decay_rate must be above 0 for the %s schedule", where,
                       qr_schedule_names[kind]);
    return QR_OK;
}

static enum qr_code read_rate(const struct qr_json *o, struct qr_optimizer_options *opt,
                              struct qr_err *err) {
    const struct qr_json *rate = qr_json_get(o, "learning_rate");
    if (!rate) return QR_OK;
    if (qr_json_type(rate) == QR_JSON_OBJECT) return read_schedule(rate, opt, err);
    return qr_json_double(rate, "train.optimizer.learning_rate", 0, 1e300, &opt->learning_rate,
                          err);
}

/* Keras takes one way of clipping at a time. */
static enum qr_code read_clipping(const struct qr_json *o, const char *where,
                                  struct qr_optimizer_options *opt, struct qr_err *err) {
    if (qr_job_opt_double(o, where, "clipvalue", 0, 1e300, &opt->clipvalue, err) != QR_OK ||
        qr_job_opt_double(o, where, "clipnorm", 0, 1e300, &opt->clipnorm, err) != QR_OK ||
        qr_job_opt_double(o, where, "global_clipnorm", 0, 1e300, &opt->global_clipnorm, err) !=
            QR_OK)
        return err->code;
    if ((opt->clipvalue > 0) + (opt->clipnorm > 0) + (opt->global_clipnorm > 0) > 1)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: give one of clipvalue, clipnorm and global_clipnorm", where);
    return QR_OK;
}

enum qr_code qr_job_read_optimizer(const struct qr_json *o, struct qr_optimizer_options *ret,
                                   struct qr_err *err) {
    const char *keys[5 + QR_OPTIMIZER_KEYS] = {"name", "learning_rate", "clipvalue", "clipnorm",
                                               "global_clipnorm"};
    const char *where = "train.optimizer";
    size_t kind = QR_ADAM;
    if (!o) return QR_OK;
    if (qr_json_want(o, where, QR_JSON_OBJECT, err) != QR_OK ||
        qr_json_choice(qr_json_get(o, "name"), "train.optimizer.name", qr_optimizer_names,
                       QR_OPTIMIZERS, &kind, err) != QR_OK)
        return err->code;
    size_t n_keys = 5 + qr_optimizer_keys((enum qr_optimizer_kind)kind, keys + 5);
    struct qr_optimizer_options opt = qr_optimizer_defaults((enum qr_optimizer_kind)kind);
    double below_one = 1 - 0x1p-53;
    if (qr_json_known(o, where, keys, n_keys, err) != QR_OK || read_rate(o, &opt, err) != QR_OK ||
        read_clipping(o, where, &opt, err) != QR_OK ||
        qr_job_opt_double(o, where, "momentum", 0, 1, &opt.momentum, err) != QR_OK ||
        qr_job_opt_bool(o, where, "nesterov", &opt.nesterov, err) != QR_OK ||
        qr_job_opt_double(o, where, "rho", 0, 1, &opt.rho, err) != QR_OK ||
        qr_job_opt_double(o, where, "epsilon", 0, 1e300, &opt.epsilon, err) != QR_OK ||
        qr_job_opt_bool(o, where, "centered", &opt.centered, err) != QR_OK ||
        qr_job_opt_double(o, where, "beta_1", 0, below_one, &opt.beta_1, err) != QR_OK ||
        qr_job_opt_double(o, where, "beta_2", 0, below_one, &opt.beta_2, err) != QR_OK ||
        qr_job_opt_bool(o, where, "amsgrad", &opt.amsgrad, err) != QR_OK)
        return err->code;
    *ret = opt;
    return QR_OK;
}
