/* job/optimizer_spec.c — reads train.optimizer. Start reading at qr_job_read_optimizer(). */
#include "job/job_impl.h"

/* "learning_rate": a number, or {"schedule": name, ...}. */
static enum qr_code read_rate(const struct qr_json *o, struct qr_optimizer_options *opt,
                              struct qr_err *err) {
    const struct qr_json *rate = qr_json_get(o, "learning_rate");
    if (!rate) return QR_OK;
    if (qr_json_type(rate) == QR_JSON_OBJECT)
        return qr_job_read_schedule(rate, &opt->learning_rate, &opt->schedule, err);
    if (qr_json_type(rate) == QR_JSON_STRING)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "train.optimizer.learning_rate must be a number, not %s; a schedule is an "
                       "object, such as {\"schedule\": \"cosine\", \"decay_steps\": 1000}",
                       qr_json_type_name(rate));
    return qr_json_double(rate, "train.optimizer.learning_rate", 0, 1e300, &opt->learning_rate,
                          err);
}

/* As in Keras, only one kind of clipping at a time. */
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

/* Keras' three keys of the moving average. */
static enum qr_code read_average(const struct qr_json *o, const char *where,
                                 struct qr_optimizer_options *opt, struct qr_err *err) {
    if (qr_job_opt_bool(o, where, "use_ema", &opt->use_ema, err) != QR_OK ||
        qr_job_opt_double(o, where, "ema_momentum", 0, 1, &opt->ema_momentum, err) != QR_OK ||
        qr_job_opt_u64(o, where, "ema_overwrite_frequency", 1, UINT64_C(1) << 40,
                       &opt->ema_overwrite, err) != QR_OK)
        return err->code;
    const char *unused =
        qr_json_get(o, "ema_momentum") ? "ema_momentum" : "ema_overwrite_frequency";
    if (!opt->use_ema && qr_json_get(o, unused))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s.%s: no average of the weights is kept; set \"use_ema\": true too, or "
                       "remove the key",
                       where, unused);
    return QR_OK;
}

enum qr_code qr_job_read_optimizer(const struct qr_json *o, struct qr_optimizer_options *ret,
                                   struct qr_err *err) {
    enum { OF_ALL = 9 };
    const char *keys[OF_ALL + QR_OPTIMIZER_KEYS] = {
        "name",     "learning_rate",   "clipvalue",
        "clipnorm", "global_clipnorm", "weight_decay",
        "use_ema",  "ema_momentum",    "ema_overwrite_frequency"};
    const char *where = "train.optimizer";
    size_t kind = QR_ADAM;
    if (!o) return QR_OK;
    if (qr_json_type(o) == QR_JSON_STRING)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s must be an object, such as {\"name\": \"adam\"}, not a string", where);
    if (qr_json_want(o, where, QR_JSON_OBJECT, err) != QR_OK) return err->code;
    const struct qr_json *name = qr_json_get(o, "name");
    if (name && qr_job_choice(name, "train.optimizer.name", QR_JOB_OPTIMIZER, qr_optimizer_names,
                              QR_OPTIMIZERS, &kind, err) != QR_OK)
        return err->code;
    if (qr_optimizer_has_line_search((enum qr_optimizer_kind)kind))
        for (size_t i = 1; i < OF_ALL; i++)
            if (qr_json_get(o, keys[i]))
                return qr_fail(err, QR_INVALID_ARGUMENT,
                               "%s.%s: %s chooses the length of its steps from the loss, and does "
                               "not use this key; remove it",
                               where, keys[i], qr_optimizer_names[kind]);
    size_t n_keys = OF_ALL + qr_optimizer_keys((enum qr_optimizer_kind)kind, keys + OF_ALL);
    struct qr_optimizer_options opt = qr_optimizer_defaults((enum qr_optimizer_kind)kind);
    double below_one = 1 - 0x1p-53;
    uint64_t memory = opt.memory;
    if (qr_job_check_keys(o, where, keys, n_keys, err) != QR_OK ||
        read_rate(o, &opt, err) != QR_OK || read_clipping(o, where, &opt, err) != QR_OK ||
        qr_job_opt_double(o, where, "weight_decay", 0, 1e300, &opt.weight_decay, err) != QR_OK ||
        read_average(o, where, &opt, err) != QR_OK ||
        qr_job_opt_double(o, where, "momentum", 0, 1, &opt.momentum, err) != QR_OK ||
        qr_job_opt_bool(o, where, "nesterov", &opt.nesterov, err) != QR_OK ||
        qr_job_opt_double(o, where, "rho", 0, 1, &opt.rho, err) != QR_OK ||
        qr_job_opt_double(o, where, "epsilon", 0, 1e300, &opt.epsilon, err) != QR_OK ||
        qr_job_opt_double(o, where, "initial_accumulator_value", 0, 1e300, &opt.initial_accumulator,
                          err) != QR_OK ||
        qr_job_opt_bool(o, where, "centered", &opt.centered, err) != QR_OK ||
        qr_job_opt_double(o, where, "beta_1", 0, below_one, &opt.beta_1, err) != QR_OK ||
        qr_job_opt_double(o, where, "beta_2", 0, below_one, &opt.beta_2, err) != QR_OK ||
        qr_job_opt_bool(o, where, "amsgrad", &opt.amsgrad, err) != QR_OK ||
        qr_job_opt_double(o, where, "perturbation", 1e-300, 1e300, &opt.perturbation, err) !=
            QR_OK ||
        qr_job_opt_double(o, where, "stability", 0, 1e300, &opt.stability, err) != QR_OK ||
        qr_job_opt_double(o, where, "alpha", 0, 100, &opt.alpha, err) != QR_OK ||
        qr_job_opt_double(o, where, "gamma", 0, 100, &opt.gamma, err) != QR_OK ||
        qr_job_opt_double(o, where, "regularization", 0, 1e300, &opt.regularization, err) !=
            QR_OK ||
        qr_job_opt_u64(o, where, "memory", 1, QR_LBFGS_MEMORY, &memory, err) != QR_OK ||
        qr_job_opt_double(o, where, "gradient_tolerance", 0, 1e300, &opt.gradient_tolerance, err) !=
            QR_OK ||
        qr_job_opt_double(o, where, "loss_tolerance", 0, 1e300, &opt.loss_tolerance, err) != QR_OK)
        return err->code;
    opt.memory = (unsigned)memory;
    *ret = opt;
    return QR_OK;
}
