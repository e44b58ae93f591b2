/* job/schedule_spec.c — reads learning_rate as a schedule. Start reading at
 * qr_job_read_schedule(). */
#include <stdio.h>
#include <string.h>

#include "job/job_impl.h"

#define MAX_STEPS (UINT64_C(1) << 40)
#define MAX_GROWTH 0x1p20 /* of a period: finite after any number of updates */
#define WHERE "train.optimizer.learning_rate"

/* All keys of all schedules, without duplicates. */
enum { OWN_KEYS = 3, MOST_KEYS = OWN_KEYS + QR_SCHEDULES * QR_SCHEDULE_KEYS };
static size_t all_keys(const char *ret[MOST_KEYS]) {
    static const char *const own[OWN_KEYS] = {"schedule", "warmup_steps", "warmup_learning_rate"};
    size_t n = OWN_KEYS;
    memcpy(ret, own, sizeof own);
    for (int kind = 0; kind < QR_SCHEDULES; kind++) {
        const char *keys[QR_SCHEDULE_KEYS];
        size_t needed, n_keys = qr_rate_schedule_keys((enum qr_schedule_kind)kind, keys, &needed);
        for (size_t k = 0; k < n_keys; k++) {
            size_t i = 0;
            while (i < n && strcmp(ret[i], keys[k]) != 0) i++;
            if (i == n) ret[n++] = keys[k];
        }
    }
    return n;
}

static bool schedule_uses(int kind, const char *key) {
    const char *keys[QR_SCHEDULE_KEYS];
    size_t needed, n = qr_rate_schedule_keys((enum qr_schedule_kind)kind, keys, &needed);
    for (size_t k = 0; k < n; k++)
        if (strcmp(keys[k], key) == 0) return true;
    return false;
}

/* Writes "step, exponential and cosine do". */
static void list_schedules(const char *key, char *ret, size_t cap) {
    const char *by[QR_SCHEDULES];
    size_t n = 0, at = 0;
    for (int kind = 0; kind < QR_SCHEDULES; kind++)
        if (schedule_uses(kind, key)) by[n++] = qr_schedule_names[kind];
    *ret = 0;
    for (size_t i = 0; i < n && at < cap; i++)
        at += (size_t)snprintf(ret + at, cap - at, "%s%s",
                               i == 0       ? ""
                               : i + 1 == n ? " and "
                                            : ", ",
                               by[i]);
    if (at < cap) snprintf(ret + at, cap - at, n == 1 ? " does" : " do");
}

/* Rejects keys of other schedules. */
static enum qr_code check_keys(const struct qr_json *o, int kind, struct qr_err *err) {
    const char *keys[MOST_KEYS];
    size_t needed, n = all_keys(keys);
    for (size_t i = OWN_KEYS; i < n; i++) {
        char by[160];
        if (!qr_json_get(o, keys[i]) || schedule_uses(kind, keys[i])) continue;
        list_schedules(keys[i], by, sizeof by);
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            WHERE
            ".%s: the %s schedule does not use it (%s); remove it, or choose another schedule",
            keys[i], qr_schedule_names[kind], by);
    }
    qr_rate_schedule_keys((enum qr_schedule_kind)kind, keys, &needed);
    for (size_t i = 0; i < needed; i++)
        if (!qr_json_get(o, keys[i]))
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           WHERE ".%s is missing: the %s schedule needs it", keys[i],
                           qr_schedule_names[kind]);
    return QR_OK;
}

static enum qr_code read_boundaries(const struct qr_json *list, struct qr_rate_schedule *s,
                                    struct qr_err *err) {
    if (!list) return QR_OK;
    if (qr_json_want(list, WHERE ".boundaries", QR_JSON_ARRAY, err) != QR_OK) return err->code;
    size_t n = qr_json_size(list);
    if (n == 0 || n >= QR_RATE_PIECES)
        return qr_fail(err, QR_INVALID_ARGUMENT, WHERE ".boundaries has %zu entries; give 1 to %d",
                       n, QR_RATE_PIECES - 1);
    for (const struct qr_json *v = qr_json_first(list); v; v = qr_json_next(v)) {
        char where[64];
        int64_t at;
        snprintf(where, sizeof where, WHERE ".boundaries[%zu]", s->n_boundaries);
        if (qr_json_i64(v, where, 0, MAX_STEPS, &at, err) != QR_OK) return err->code;
        if (s->n_boundaries && (uint64_t)at <= s->boundaries[s->n_boundaries - 1])
            return qr_fail(
                err, QR_INVALID_ARGUMENT,
                "%s: %lld is not above the one before it; give increasing numbers of updates",
                where, (long long)at);
        s->boundaries[s->n_boundaries++] = (uint64_t)at;
    }
    return QR_OK;
}

static enum qr_code read_rate_values(const struct qr_json *list, struct qr_rate_schedule *s,
                                     struct qr_err *err) {
    size_t n = 0;
    if (!list) return QR_OK;
    if (qr_json_want(list, WHERE ".values", QR_JSON_ARRAY, err) != QR_OK) return err->code;
    if (qr_json_size(list) != s->n_boundaries + 1)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       WHERE ".values has %zu entries for %zu boundaries; give %zu: the last one "
                             "is the rate after the last boundary",
                       qr_json_size(list), s->n_boundaries, s->n_boundaries + 1);
    for (const struct qr_json *v = qr_json_first(list); v; v = qr_json_next(v), n++) {
        char where[64];
        snprintf(where, sizeof where, WHERE ".values[%zu]", n);
        if (qr_json_double(v, where, 0, 1e300, &s->values[n], err) != QR_OK) return err->code;
    }
    return QR_OK;
}

static enum qr_code read_warmup(const struct qr_json *o, struct qr_rate_schedule *s,
                                struct qr_err *err) {
    if (qr_job_opt_u64(o, WHERE, "warmup_steps", 0, MAX_STEPS, &s->warmup_steps, err) != QR_OK ||
        qr_job_opt_double(o, WHERE, "warmup_learning_rate", 0, 1e300, &s->warmup_from, err) !=
            QR_OK)
        return err->code;
    if (s->warmup_steps == 0 && qr_json_get(o, "warmup_learning_rate"))
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            WHERE
            ".warmup_learning_rate: there is no warm-up; set warmup_steps too, or remove the key");
    return QR_OK;
}

static enum qr_code read_numbers(const struct qr_json *o, double *rate, struct qr_rate_schedule *s,
                                 struct qr_err *err) {
    const char *steps =
        s->kind == QR_SCHEDULE_COSINE_RESTARTS ? "first_decay_steps" : "decay_steps";
    if (qr_job_opt_double(o, WHERE, "initial_learning_rate", 0, 1e300, rate, err) != QR_OK ||
        qr_job_opt_u64(o, WHERE, steps, 1, MAX_STEPS, &s->decay_steps, err) != QR_OK ||
        qr_job_opt_double(o, WHERE, "decay_rate", 0, 1e300, &s->decay_rate, err) != QR_OK ||
        qr_job_opt_bool(o, WHERE, "staircase", &s->staircase, err) != QR_OK ||
        qr_job_opt_double(o, WHERE, "alpha", 0, 1, &s->alpha, err) != QR_OK ||
        qr_job_opt_double(o, WHERE, "t_mul", 1, MAX_GROWTH, &s->t_mul, err) != QR_OK ||
        qr_job_opt_double(o, WHERE, "m_mul", 0, 1e300, &s->m_mul, err) != QR_OK ||
        qr_job_opt_double(o, WHERE, "end_learning_rate", 0, 1e300, &s->end, err) != QR_OK ||
        qr_job_opt_double(o, WHERE, "power", 0, 1e300, &s->power, err) != QR_OK ||
        qr_job_opt_bool(o, WHERE, "cycle", &s->cycle, err) != QR_OK ||
        read_boundaries(qr_json_get(o, "boundaries"), s, err) != QR_OK ||
        read_rate_values(qr_json_get(o, "values"), s, err) != QR_OK)
        return err->code;
    return read_warmup(o, s, err);
}

enum qr_code qr_job_read_schedule(const struct qr_json *o, double *ret_rate,
                                  struct qr_rate_schedule *ret, struct qr_err *err) {
    const char *keys[MOST_KEYS];
    struct qr_rate_schedule s = qr_rate_schedule_defaults();
    size_t kind;
    if (qr_job_check_keys(o, WHERE, keys, all_keys(keys), err) != QR_OK ||
        qr_job_choice(qr_json_get(o, "schedule"), WHERE ".schedule", QR_JOB_SCHEDULE,
                      qr_schedule_names, QR_SCHEDULES, &kind, err) != QR_OK)
        return err->code;
    s.kind = (enum qr_schedule_kind)kind;
    if (check_keys(o, (int)kind, err) != QR_OK || read_numbers(o, ret_rate, &s, err) != QR_OK)
        return err->code;
    if ((s.kind == QR_SCHEDULE_STEP || s.kind == QR_SCHEDULE_EXPONENTIAL) && s.decay_rate <= 0)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       WHERE ".decay_rate must be above 0 for the %s schedule",
                       qr_schedule_names[kind]);
    if (s.kind == QR_SCHEDULE_PIECEWISE) *ret_rate = s.values[0];
    *ret = s;
    return QR_OK;
}
