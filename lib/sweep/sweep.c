/* sweep/sweep.c — reads a sweep object and computes the values of its trials. Start reading at
 * read_sweep() and qr_sweep_value(). */
#include "sweep/sweep.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "exact/functions.h"
#include "exact/random.h"

/* Integers up to this are exact in a double, and in JSON. */
static const int64_t max_integer = INT64_C(1) << 53;

#define PATH_BYTES 200

/* ---- reading ---- */

static char *key_json_text(const struct qr_json *v) {
    struct qr_buf b = {0};
    struct qr_json_writer w = qr_json_writer(&b, 0);
    qr_json_put_shortest(&w, v);
    return (char *)QR_MOVE(b.p);
}

static enum qr_code read_choices(const struct qr_json *v, const char *where, struct qr_sweep_key *k,
                                 struct qr_err *err) {
    size_t n = qr_json_size(v);
    QR_TRY(qr_json_want(v, where, QR_JSON_ARRAY, err));
    if (!n)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s has no values; list some or remove the key",
                       where);
    if (n > QR_SWEEP_MAX_TRIALS)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s has %zu values; at most %d are supported",
                       where, n, QR_SWEEP_MAX_TRIALS);
    k->kind = QR_SWEEP_LIST;
    k->values = qr_xcalloc(n, sizeof *k->values);
    for (const struct qr_json *m = qr_json_first(v); m; m = qr_json_next(m))
        k->values[k->n_values++] = key_json_text(m);
    return QR_OK;
}

static enum qr_code key_read_range(const struct qr_json *v, const char *where,
                                   struct qr_sweep_key *k, struct qr_err *err) {
    char low[PATH_BYTES + 8], high[PATH_BYTES + 8];
    snprintf(low, sizeof low, "%s[0]", where);
    snprintf(high, sizeof high, "%s[1]", where);
    QR_TRY(qr_json_want(v, where, QR_JSON_ARRAY, err));
    if (qr_json_size(v) != 2)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s has %zu values; give the lowest and highest",
                       where, qr_json_size(v));
    bool integer = k->kind == QR_SWEEP_INTEGER, logarithm = k->kind == QR_SWEEP_LOG_UNIFORM;
    double least = logarithm ? 1e-300 : -1e300;
    if (integer) {
        QR_TRY(qr_json_i64(qr_json_at(v, 0), low, -max_integer, max_integer, &k->first, err));
        QR_TRY(qr_json_i64(qr_json_at(v, 1), high, -max_integer, max_integer, &k->last, err));
    } else {
        QR_TRY(qr_json_double(qr_json_at(v, 0), low, least, 1e300, &k->low, err));
        QR_TRY(qr_json_double(qr_json_at(v, 1), high, least, 1e300, &k->high, err));
    }
    if (integer ? k->first > k->last : k->low > k->high)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: give the lowest value first", where);
    return QR_OK;
}

static enum qr_code read_key_values(const struct qr_json *v, const char *where,
                                    struct qr_sweep_key *k, struct qr_err *err) {
    static const char *const names[] = {"choice", "uniform", "log_uniform", "integer"};
    if (qr_json_type(v) != QR_JSON_OBJECT) return read_choices(v, where, k, err);
    QR_TRY(qr_json_known(v, where, names, 4, err));
    if (qr_json_size(v) != 1)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: give one of choice, uniform, log_uniform and integer, as in "
                       "{\"log_uniform\": [0.001, 0.1]}, or a list",
                       where);
    const struct qr_json *m = qr_json_first(v);
    qr_auto(qr_free_p) char *at = qr_xasprintf("%s.%s", where, qr_json_key(m));
    for (int i = 0; i < 4; i++)
        if (strcmp(qr_json_key(m), names[i]) == 0) k->kind = (enum qr_sweep_kind)i;
    return k->kind == QR_SWEEP_LIST ? read_choices(m, at, k, err) : key_read_range(m, at, k, err);
}

/* Rejects keys that do not affect training, and keys that the sweep itself sets. */
static enum qr_code sweep_check_path(const struct qr_sweep_spec *s, const char *path,
                                     struct qr_err *err) {
    static const char *const excluded[] = {"sweep", "worker", "name", "$schema"};
    size_t n = strcspn(path, ".[");
    for (size_t i = 0; i < sizeof excluded / sizeof *excluded; i++)
        if (n == strlen(excluded[i]) && strncmp(path, excluded[i], n) == 0)
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "sweep.keys.%.80s: trials cannot differ in %s, which does not affect "
                           "training; remove the key",
                           path, excluded[i]);
    if (s->n_rungs > 1 && strcmp(path, "train.epochs") == 0)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "sweep.keys.train.epochs: sweep.halving sets the epochs; remove one of the "
                       "two");
    bool blank = false;
    for (const char *c = path; *c; c++) blank |= (unsigned char)*c <= ' ';
    if (!*path || blank || strchr(path, '=') || strlen(path) > 120)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "sweep.keys: '%.40s' is not a path; write one such as "
                       "train.optimizer.learning_rate or model[1].units",
                       path);
    return QR_OK;
}

static enum qr_code read_keys(const struct qr_json *o, struct qr_sweep_spec *s,
                              struct qr_err *err) {
    size_t n = qr_json_size(o);
    QR_TRY(qr_json_want(o, "sweep.keys", QR_JSON_OBJECT, err));
    if (n < 1 || n > QR_SWEEP_MAX_KEYS)
        return qr_fail(err, QR_INVALID_ARGUMENT, "sweep.keys has %zu keys; give 1 to %d", n,
                       QR_SWEEP_MAX_KEYS);
    s->keys = qr_xcalloc(n, sizeof *s->keys);
    for (const struct qr_json *m = qr_json_first(o); m; m = qr_json_next(m)) {
        struct qr_sweep_key *k = &s->keys[s->n_keys++];
        char where[PATH_BYTES];
        k->path = qr_xstrdup(qr_json_key(m));
        snprintf(where, sizeof where, "sweep.keys.%.150s", k->path);
        QR_TRY(sweep_check_path(s, k->path, err));
        QR_TRY(read_key_values(m, where, k, err));
        if (k->kind != QR_SWEEP_LIST && !s->random)
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "%s is drawn at random; set the number of draws with sweep.trials, or "
                           "list its values",
                           where);
    }
    return QR_OK;
}

static enum qr_code count_grid(struct qr_sweep_spec *s, struct qr_err *err) {
    s->n_trials = 1;
    for (size_t i = 0; i < s->n_keys; i++) {
        s->n_trials *= s->keys[i].n_values; /* each factor is at most QR_SWEEP_MAX_TRIALS */
        if (s->n_trials > QR_SWEEP_MAX_TRIALS)
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "sweep.keys: the grid has more than %d trials; shorten its lists, or "
                           "draw some with sweep.trials",
                           QR_SWEEP_MAX_TRIALS);
    }
    return QR_OK;
}

static enum qr_code read_rungs(const struct qr_json *v, struct qr_sweep_spec *s,
                               struct qr_err *err) {
    size_t n = qr_json_size(v);
    QR_TRY(qr_json_want(v, "sweep.halving.epochs", QR_JSON_ARRAY, err));
    if (n < 2 || n > QR_SWEEP_MAX_RUNGS)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "sweep.halving.epochs has %zu values; give 2 to %d, as in [2, 4, 8]", n,
                       QR_SWEEP_MAX_RUNGS);
    s->n_rungs = 0;
    for (const struct qr_json *m = qr_json_first(v); m; m = qr_json_next(m)) {
        char where[48];
        int64_t e, least = s->n_rungs ? (int64_t)s->epochs[s->n_rungs - 1] + 1 : 1;
        snprintf(where, sizeof where, "sweep.halving.epochs[%zu]", s->n_rungs);
        QR_TRY(qr_json_i64(m, where, least, max_integer, &e, err));
        s->epochs[s->n_rungs++] = (uint64_t)e;
    }
    return QR_OK;
}

static enum qr_code read_halving(const struct qr_json *o, struct qr_sweep_spec *s,
                                 struct qr_err *err) {
    static const char *const keys[] = {"epochs", "factor"};
    int64_t factor = 2;
    if (!o) return QR_OK;
    QR_TRY(qr_json_want(o, "sweep.halving", QR_JSON_OBJECT, err));
    QR_TRY(qr_json_known(o, "sweep.halving", keys, 2, err));
    const struct qr_json *v = qr_json_get(o, "factor");
    if (v) QR_TRY(qr_json_i64(v, "sweep.halving.factor", 2, QR_SWEEP_MAX_TRIALS, &factor, err));
    QR_TRY(read_rungs(qr_json_get(o, "epochs"), s, err));
    s->factor = (uint64_t)factor;
    return QR_OK;
}

static enum qr_code read_sweep(const struct qr_json *o, struct qr_sweep_spec *s,
                               struct qr_err *err) {
    static const char *const keys[] = {"keys", "trials", "seed", "metric", "mode", "halving"};
    static const char *const modes[] = {"auto", "min", "max"};
    int64_t trials = 0, seed = 0;
    size_t mode = 0;
    const char *metric = NULL;
    const struct qr_json *v;
    QR_TRY(qr_json_want(o, "sweep", QR_JSON_OBJECT, err));
    QR_TRY(qr_json_known(o, "sweep", keys, 6, err));
    if ((v = qr_json_get(o, "trials")))
        QR_TRY(qr_json_i64(v, "sweep.trials", 1, QR_SWEEP_MAX_TRIALS, &trials, err));
    if ((v = qr_json_get(o, "seed")))
        QR_TRY(qr_json_i64(v, "sweep.seed", 0, max_integer, &seed, err));
    s->has_seed = v != NULL;
    s->seed = (uint64_t)seed;
    if ((v = qr_json_get(o, "metric"))) QR_TRY(qr_json_string(v, "sweep.metric", &metric, err));
    if ((v = qr_json_get(o, "mode"))) QR_TRY(qr_json_choice(v, "sweep.mode", modes, 3, &mode, err));
    s->random = trials > 0;
    s->n_trials = (size_t)trials;
    s->mode = (int)mode;
    s->metric = metric ? qr_xstrdup(metric) : NULL;
    QR_TRY(read_halving(qr_json_get(o, "halving"), s, err));
    QR_TRY(read_keys(qr_json_get(o, "keys"), s, err));
    return s->random ? QR_OK : count_grid(s, err);
}

enum qr_code qr_sweep_read(const struct qr_json *o, struct qr_sweep_spec **ret,
                           struct qr_err *err) {
    struct qr_sweep_spec *s = qr_xcalloc(1, sizeof *s);
    s->n_rungs = 1;
    enum qr_code code = read_sweep(o, s, err);
    if (code == QR_OK) *ret = s;
    else qr_sweep_free(s);
    return code;
}

void qr_sweep_free(struct qr_sweep_spec *s) {
    if (!s) return;
    for (size_t i = 0; i < s->n_keys; i++) {
        for (size_t k = 0; k < s->keys[i].n_values; k++) free(s->keys[i].values[k]);
        free(s->keys[i].values);
        free(s->keys[i].path);
    }
    free(s->keys);
    free(s->metric);
    free(s);
}

/* ---- trials ---- */

static double clamp_value(const struct qr_sweep_key *k, double x) {
    return x < k->low ? k->low : x > k->high ? k->high : x;
}

/* Maps 64 random bits to 0 ... n-1. */
static uint64_t random_index(uint64_t bits, uint64_t n) {
    return (uint64_t)(((unsigned __int128)bits * n) >> 64);
}

static void draw_value(const struct qr_sweep_key *k, uint64_t seed, size_t trial, size_t key,
                       struct qr_buf *ret) {
    struct qr_json_writer w = qr_json_writer(ret, 0);
    uint64_t bits = qr_random_u64(seed, QR_RANDOM_SWEEP, (uint32_t)key, trial);
    double u = qr_random_uniform(seed, QR_RANDOM_SWEEP, (uint32_t)key, trial);
    switch (k->kind) {
    case QR_SWEEP_LIST: qr_buf_puts(ret, k->values[random_index(bits, k->n_values)]); break;
    case QR_SWEEP_UNIFORM:
        qr_json_put_number(&w, clamp_value(k, k->low * (1 - u) + k->high * u));
        break;
    case QR_SWEEP_LOG_UNIFORM:
        qr_json_put_number(&w,
                           clamp_value(k, qr_exp(qr_log(k->low) * (1 - u) + qr_log(k->high) * u)));
        break;
    case QR_SWEEP_INTEGER:
        qr_json_put_i64(&w,
                        k->first + (int64_t)random_index(bits, (uint64_t)(k->last - k->first) + 1));
        break;
    }
}

void qr_sweep_value(const struct qr_sweep_spec *s, uint64_t seed, size_t trial, size_t key,
                    struct qr_buf *ret) {
    QR_ASSERT(trial < s->n_trials && key < s->n_keys);
    const struct qr_sweep_key *k = &s->keys[key];
    if (s->random) {
        draw_value(k, s->has_seed ? s->seed : seed, trial, key, ret);
        return;
    }
    for (size_t i = s->n_keys; i-- > key + 1;) trial /= s->keys[i].n_values;
    qr_buf_puts(ret, k->values[trial % k->n_values]);
}

size_t qr_sweep_promoted(const struct qr_sweep_spec *s, size_t n) {
    return (n + (size_t)s->factor - 1) / (size_t)s->factor;
}

void qr_sweep_describe(const struct qr_sweep_spec *s, struct qr_buf *ret) {
    qr_buf_printf(ret, "%zu trial%s: %s of %zu key%s (", s->n_trials, s->n_trials == 1 ? "" : "s",
                  s->random ? "draws" : "a grid", s->n_keys, s->n_keys == 1 ? "" : "s");
    for (size_t i = 0; i < s->n_keys; i++)
        qr_buf_printf(ret, "%s%s", i ? ", " : "", s->keys[i].path);
    qr_buf_puts(ret, ")");
    size_t n = s->n_trials;
    for (size_t r = 0; s->n_rungs > 1 && r < s->n_rungs; r++) {
        qr_buf_printf(ret, "%s%zu to %llu epochs", r ? ", " : "; ", n,
                      (unsigned long long)s->epochs[r]);
        n = qr_sweep_promoted(s, n);
    }
}
