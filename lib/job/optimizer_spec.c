/* job/optimizer_spec.c — reads the irregular keys of train.optimizer and of its learning rate.
 * Start reading at qr_job_read_optimizer() and qr_job_read_rate(). */
#include <string.h>

#include "base/mem.h"
#include "job/job_impl.h"

#define MAX_STEPS (INT64_C(1) << 40)
/* Keys of all optimizers, but those with a line search. */
static const char *const common[] = {
    "learning_rate", "clipvalue", "clipnorm",     "global_clipnorm",
    "weight_decay",  "use_ema",   "ema_momentum", "ema_overwrite_frequency"};

static bool in_list(const char *const *keys, size_t n, const char *key) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(keys[i], key) == 0) return true;
    return false;
}

bool qr_job_optimizer_has(size_t kind, const char *key) {
    const char *own[QR_OPTIMIZER_KEYS];
    size_t n = qr_optimizer_keys((enum qr_optimizer_kind)kind, own);
    if (in_list(common, sizeof common / sizeof *common, key))
        return !qr_optimizer_has_line_search((enum qr_optimizer_kind)kind);
    return in_list(own, n, key);
}

enum qr_code qr_job_reject_optimizer_key(size_t kind, const char *key, const char *where,
                                         struct qr_err *err) {
    if (!in_list(common, sizeof common / sizeof *common, key)) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "%s.%s: %s chooses the length of its steps from the loss, and does not use this "
                   "key; remove it",
                   where, key, qr_optimizer_names[kind]);
}

void qr_job_set_optimizer_defaults(size_t kind, void *to) {
    *(struct qr_optimizer_options *)to = qr_optimizer_defaults((enum qr_optimizer_kind)kind);
}

enum qr_code qr_job_read_optimizer(struct qr_job_reader *r, const struct qr_json *v,
                                   const char *where, void *to) {
    if (qr_json_type(v) == QR_JSON_STRING)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s must be an object, such as {\"name\": \"adam\"}, not a string", where);
    return qr_job_read_object(r, qr_job_object_of(r, "optimizer"), v, where, to);
}

enum qr_code qr_job_finish_optimizer(struct qr_job_reader *r, void *to) {
    const struct qr_optimizer_options *o = to;
    const char *unused =
        qr_json_get(r->object, "ema_momentum") ? "ema_momentum" : "ema_overwrite_frequency";
    if ((o->clipvalue > 0) + (o->clipnorm > 0) + (o->global_clipnorm > 0) > 1) /* as in Keras */
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: give one of clipvalue, clipnorm and global_clipnorm", r->where);
    if (o->use_ema || !qr_json_get(r->object, unused)) return QR_OK;
    return qr_fail(r->err, QR_INVALID_ARGUMENT,
                   "%s.%s: no average of the weights is kept; set \"use_ema\": true too, or remove "
                   "the key",
                   r->where, unused);
}

/* ---- learning rate ---- */

/* A number, or an object. */
enum qr_code qr_job_read_rate(struct qr_job_reader *r, const struct qr_json *v, const char *where,
                              void *to) {
    static const struct qr_job_key number = {.type = QR_KEY_NUMBER, .high = 1e300};
    if (qr_json_type(v) == QR_JSON_STRING)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s must be a number, not %s; a schedule is an object, such as "
                       "{\"schedule\": \"cosine\", \"decay_steps\": 1000}",
                       where, qr_json_type_name(v));
    if (qr_json_type(v) != QR_JSON_OBJECT) return qr_job_read_value(r, &number, v, where, to);
    return qr_job_read_object(r, qr_job_object_of(r, "learning_rate"), v, where,
                              (char *)to - offsetof(struct qr_optimizer_options, learning_rate));
}

bool qr_job_schedule_has(size_t kind, const char *key) {
    const char *keys[QR_SCHEDULE_KEYS];
    size_t needed, n = qr_rate_schedule_keys((enum qr_schedule_kind)kind, keys, &needed);
    return strncmp(key, "warmup_", 7) == 0 || in_list(keys, n, key);
}

/* "train.optimizer.learning_rate.alpha: the step schedule does not use it (cosine does)". */
enum qr_code qr_job_reject_schedule_key(size_t kind, const char *key, const char *where,
                                        struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf list = {0};
    size_t n = 0, i = 0;
    for (size_t k = 0; k < QR_SCHEDULES; k++) n += qr_job_schedule_has(k, key);
    for (size_t k = 0; k < QR_SCHEDULES; k++)
        if (qr_job_schedule_has(k, key))
            qr_buf_printf(&list, "%s%s", !i++ ? "" : i == n ? " and " : ", ", qr_schedule_names[k]);
    qr_fail(err, QR_INVALID_ARGUMENT,
            "%s.%s: the %s schedule does not use it (%s do%s); remove it, or choose another "
            "schedule",
            where, key, qr_schedule_names[kind], qr_buf_string(&list), n == 1 ? "es" : "");
    return err->code;
}

enum qr_code qr_job_read_boundaries(struct qr_job_reader *r, const struct qr_json *v,
                                    const char *where, void *to) {
    struct qr_rate_schedule *s = to;
    QR_TRY(qr_json_want(v, where, QR_JSON_ARRAY, r->err));
    size_t n = qr_json_size(v);
    if (n == 0 || n >= QR_RATE_PIECES)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s has %zu entries; give 1 to %d", where, n,
                       QR_RATE_PIECES - 1);
    for (const struct qr_json *m = qr_json_first(v); m; m = qr_json_next(m)) {
        struct qr_path path = qr_path_of("%s[%zu]", where, s->n_boundaries);
        int64_t at;
        QR_TRY(qr_json_i64(m, path.s, 0, MAX_STEPS, &at, r->err));
        if (s->n_boundaries && (uint64_t)at <= s->boundaries[s->n_boundaries - 1])
            return qr_fail(
                r->err, QR_INVALID_ARGUMENT,
                "%s: %lld is not above the one before it; give increasing numbers of updates",
                path.s, (long long)at);
        s->boundaries[s->n_boundaries++] = (uint64_t)at;
    }
    return QR_OK;
}

enum qr_code qr_job_read_rate_values(struct qr_job_reader *r, const struct qr_json *v,
                                     const char *where, void *to) {
    struct qr_rate_schedule *s = to;
    const struct qr_job_numbers any = {.most = SIZE_MAX, .high = 1e300};
    qr_auto(qr_free_p) double *values = NULL;
    size_t n = 0, wanted = s->n_boundaries + 1;
    if (qr_json_type(v) == QR_JSON_ARRAY && qr_json_size(v) != wanted)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s has %zu entries for %zu boundaries; give %zu: the last one is the rate "
                       "after the last boundary",
                       where, qr_json_size(v), s->n_boundaries, wanted);
    QR_TRY(qr_job_read_numbers(r, v, where, &any, &values, &n));
    memcpy(s->values, values, n * sizeof *values);
    return QR_OK;
}

enum qr_code qr_job_finish_schedule(struct qr_job_reader *r, void *to) {
    struct qr_optimizer_options *o = to;
    if (o->schedule.n_boundaries) o->learning_rate = o->schedule.values[0];
    if (o->schedule.warmup_steps || !qr_json_get(r->object, "warmup_learning_rate")) return QR_OK;
    return qr_fail(r->err, QR_INVALID_ARGUMENT,
                   "%s.warmup_learning_rate: there is no warm-up; set warmup_steps too, or remove "
                   "the key",
                   r->where);
}
