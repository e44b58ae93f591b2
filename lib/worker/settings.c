/* worker/settings.c — reads settings from flags, environment and job file; prints them. Start
 * reading at setting_apply(). */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "base/parse.h"
#include "output/progress_to.h"
#include "store/store.h"
#include "worker/settings_impl.h"

static bool setting_is_text(const struct setting *t) {
    return t->type == TEXT || t->type == TARGET || t->type == CHOICE;
}
static char **setting_text(struct qr_settings *s, const struct setting *t) {
    return (char **)(void *)((char *)s + t->at);
}
static int64_t *setting_number(struct qr_settings *s, const struct setting *t) {
    return (int64_t *)(void *)((char *)s + t->at);
}
static bool *setting_switch(struct qr_settings *s, const struct setting *t) {
    return (bool *)(void *)((char *)s + t->at);
}

static const char *nearest_setting(const char *name) {
    const char *names[QR_SETTINGS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < settings_n; i++)
        if (settings_table[i].allowed != HIDDEN) names[n++] = settings_table[i].name;
    return qr_nearest(name, names, n);
}

/* ---- one value ---- */

static bool is_choice(const char *value, const struct setting *t) {
    for (size_t i = 0; t->choice(i); i++)
        if (strcmp(t->choice(i), value) == 0) return true;
    return false;
}

static void put_choices(const struct setting *t, const char *between, struct qr_buf *ret) {
    for (size_t i = 0; t->choice(i); i++)
        qr_buf_printf(ret, "%s%s", i ? between : "", t->choice(i));
}

static enum qr_code reject_choice(const struct setting *t, const char *value, const char *where,
                                  struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf b = {0};
    put_choices(t, "|", &b);
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s: '%.80s' is none of %s", where, value,
                   qr_buf_string(&b));
}

/* where: the setting as typed ("--threads", "QRING_THREADS", "worker.threads"). */
static enum qr_code setting_set(struct qr_settings *s, const struct setting *t, const char *value,
                                const char *where, struct qr_err *err) {
    int64_t v = -1;
    bool chosen = *value && strcmp(value, "auto") != 0;
    if (!chosen && t->standard && (t->type == NUMBER || t->type == DURATION)) {
        value = t->standard; /* as if unset */
        chosen = true;
    }
    switch (t->type) {
    case CHOICE:
        if ((*value || t->standard) && !is_choice(value, t))
            return reject_choice(t, value, where, err);
        /* fall through */
    case TEXT:
    case TARGET:
        free(*setting_text(s, t));
        *setting_text(s, t) = *value ? qr_xstrdup(value) : NULL;
        return QR_OK;
    case NUMBER:
        if (chosen && (!qr_parse_i64(value, &v) || v < t->min || v > t->max))
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s: '%.80s' is not a number in %lld ... %lld",
                           where, value, (long long)t->min, (long long)t->max);
        *setting_number(s, t) = v;
        return QR_OK;
    case DURATION:
        if (chosen && !qr_parse_duration_ns(value, &v))
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "%s: '%.80s' is not a duration, such as 500ms, 10s, 2m or 1h", where,
                           value);
        *setting_number(s, t) = v;
        return QR_OK;
    case SWITCH:
        if (!qr_parse_bool(value, setting_switch(s, t)))
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s: '%.80s' is neither true nor false", where,
                           value);
        return QR_OK;
    case JOB_KEYS:
    case JOB_KEY: break; /* handled by setting_apply */
    }
    return QR_OK;
}

/* Environment variables come first, in whatever order they are read. */
static enum qr_code add_override(struct qr_settings *s, const struct setting *t, const char *value,
                                 enum qr_setting_origin origin, const char *where,
                                 struct qr_err *err) {
    uint8_t *have = &s->origin[settings_find("set") - settings_table];
    bool key = t->type == JOB_KEY;
    unsigned place = origin == QR_ORIGIN_FLAG ? QR_OVERRIDES_FLAG
                     : key                    ? QR_OVERRIDES_ENVIRONMENT_KEY
                                              : QR_OVERRIDES_ENVIRONMENT;
    if (*have < origin && *value) *have = (uint8_t)origin;
    return qr_overrides_add(&s->set, place, where, key ? t->name : NULL, value, err);
}

/* Stores a value unless one with higher precedence is set. */
static enum qr_code setting_apply(struct qr_settings *s, const struct setting *t, const char *value,
                                  enum qr_setting_origin origin, const char *where,
                                  struct qr_err *err) {
    uint8_t *have = &s->origin[t - settings_table];
    struct qr_settings scratch = {0}; /* an overridden value is checked too */
    if (t->type == JOB_KEYS || t->type == JOB_KEY)
        return add_override(s, t, value, origin, where, err);
    if (*have > origin) {
        enum qr_code code = setting_set(&scratch, t, value, where, err);
        if (setting_is_text(t)) free(*setting_text(&scratch, t));
        return code;
    }
    QR_TRY(setting_set(s, t, value, where, err));
    *have = (uint8_t)origin;
    return QR_OK;
}

void qr_settings_init(struct qr_settings *s) {
    *s = (struct qr_settings){0};
    for (size_t i = 0; i < settings_n; i++) {
        const struct setting *t = &settings_table[i];
        if (t->type == NUMBER || t->type == DURATION) *setting_number(s, t) = -1;
        if (t->standard) {
            enum qr_code code = setting_set(s, t, t->standard, t->name, QR_IGNORED);
            QR_ASSERT(code == QR_OK);
        }
    }
}

void qr_settings_fini(struct qr_settings *s) {
    for (size_t i = 0; i < settings_n; i++)
        if (setting_is_text(&settings_table[i])) free(*setting_text(s, &settings_table[i]));
    free(s->job);
    qr_overrides_fini(&s->set);
    *s = (struct qr_settings){0};
}

enum qr_code qr_settings_set(struct qr_settings *s, const char *name, const char *value,
                             struct qr_err *err) {
    const struct setting *t = settings_find(name);
    qr_auto(qr_free_p) char *where = qr_xasprintf("--%s", name);
    if (!t) return qr_fail(err, QR_INVALID_ARGUMENT, "unknown flag %s", where);
    return setting_apply(s, t, value, QR_ORIGIN_FLAG, where, err);
}

/* ---- flags ---- */

static enum qr_code fail_unknown_flag(const char *name, struct qr_err *err) {
    const char *near = nearest_setting(name);
    if (near)
        return qr_fail(err, QR_INVALID_ARGUMENT, "unknown flag --%.80s; did you mean --%s?", name,
                       near);
    return qr_fail(err, QR_INVALID_ARGUMENT, "unknown flag --%.80s; --help lists them", name);
}

static enum qr_code parse_flag(struct qr_settings *s, const char *text, const char *next,
                               bool *ret_took_next, struct qr_err *err) {
    const char *equals = strchr(text, '=');
    qr_auto(qr_free_p) char *name =
        qr_xstrndup(text, equals ? (size_t)(equals - text) : strlen(text));
    const struct setting *t = settings_find(name);
    if (!t) return fail_unknown_flag(name, err);
    const char *value = equals ? equals + 1 : t->type == SWITCH ? "true" : next;
    *ret_took_next = !equals && t->type != SWITCH;
    if (!value)
        return qr_fail(err, QR_INVALID_ARGUMENT, "--%s needs a value: --%s %s", name, name,
                       t->value_name);
    return qr_settings_set(s, name, value, err);
}

enum qr_code qr_settings_flags(struct qr_settings *s, int argc, char *const *argv,
                               struct qr_err *err) {
    bool only_names = false, took_next = false;
    const char *job = NULL;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (!only_names && strcmp(a, "--") == 0) {
            only_names = true;
        } else if (!only_names && strncmp(a, "--", 2) == 0) {
            QR_TRY(parse_flag(s, a + 2, i + 1 < argc ? argv[i + 1] : NULL, &took_next, err));
            i += took_next;
        } else if (!only_names && strcmp(a, "-h") == 0) {
            s->help = true;
        } else if (!only_names && a[0] == '-' && a[1]) {
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "unknown flag %.80s; flags begin with two dashes, --help lists them", a);
        } else if (job) {
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "two jobs are named, '%.200s' and '%.200s'; a worker runs one", job, a);
        } else {
            job = a;
        }
    }
    if (job) {
        free(s->job);
        s->job = qr_xstrdup(job);
    }
    return QR_OK;
}

/* ---- environment ---- */

/* "QRING_DATA_PORT" → "data-port". */
static char *variable_to_name(const char *variable, size_t n) {
    char *name = qr_xstrndup(variable + 6, n - 6);
    for (char *c = name; *c; c++) *c = *c == '_' ? '-' : (char)tolower((unsigned char)*c);
    return name;
}

/* Kubernetes sets variables for every Service in the namespace: a Service "qring" gives
 * QRING_PORT=tcp://…, "qring-a" QRING_A_SERVICE_HOST. */
static bool is_service_link(const char *variable, size_t n, const char *value) {
    static const char *const ends[] = {"_SERVICE_HOST", "_SERVICE_PORT", "_TCP",
                                       "_TCP_PROTO",    "_TCP_PORT",     "_TCP_ADDR"};
    if (strstr(value, "://") && n > 5 && strncmp(variable + n - 5, "_PORT", 5) == 0) return true;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t m = strlen(ends[i]);
        if (n > m && strncmp(variable + n - m, ends[i], m) == 0) return true;
    }
    return n > 14 && memmem(variable, n, "_SERVICE_PORT_", 14) != NULL;
}

enum qr_code qr_settings_environment(struct qr_settings *s, char *const *environment,
                                     char **ret_unknown, size_t max_unknown, size_t *ret_n_unknown,
                                     struct qr_err *err) {
    *ret_n_unknown = 0;
    for (; *environment; environment++) {
        const char *e = *environment, *equals = strchr(e, '=');
        if (!equals || strncmp(e, "QRING_", 6) != 0) continue;
        size_t n = (size_t)(equals - e);
        if (is_service_link(e, n, equals + 1)) continue;
        if (strncmp(e, "QRING_HTTPS_TOKENS=", n + 1) == 0) continue; /* read by the stores */
        qr_auto(qr_free_p) char *name = variable_to_name(e, n), *where = qr_xstrndup(e, n);
        if (strcmp(name, "job") == 0) {
            if (!s->job && equals[1]) s->job = qr_xstrdup(equals + 1);
            continue;
        }
        const struct setting *t = settings_find(name);
        if (t && t->allowed != COMMAND_LINE) {
            QR_TRY(setting_apply(s, t, equals + 1, QR_ORIGIN_ENVIRONMENT, where, err));
        } else if (*ret_n_unknown < max_unknown) {
            const char *near = nearest_setting(name);
            qr_auto(qr_free_p) char *variable = qr_xasprintf("QRING_%s", near ? near : "");
            for (char *c = variable; *c; c++)
                *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
            ret_unknown[(*ret_n_unknown)++] =
                t      ? qr_xasprintf("%s is ignored: it is a flag only, --%s", where, name)
                : near ? qr_xasprintf("%s is not a setting and is ignored; did you mean %s?", where,
                                      variable)
                       : qr_xasprintf("%s is not a setting and is ignored", where);
        }
    }
    return QR_OK;
}

/* ---- the job file ---- */

static enum qr_code setting_json_text(const struct qr_json *v, const char *where, char **ret,
                                      struct qr_err *err) {
    const char *text;
    double number;
    bool yes;
    enum qr_code code;
    switch (qr_json_type(v)) {
    case QR_JSON_STRING:
        if ((code = qr_json_string(v, where, &text, err)) == QR_OK) *ret = qr_xstrdup(text);
        return code;
    case QR_JSON_NUMBER:
        if ((code = qr_json_double(v, where, -9007199254740992.0, 9007199254740992.0, &number,
                                   err)) == QR_OK)
            *ret = qr_xasprintf("%.17g", number);
        return code;
    case QR_JSON_BOOL:
        if ((code = qr_json_bool(v, where, &yes, err)) == QR_OK)
            *ret = qr_xstrdup(yes ? "true" : "false");
        return code;
    default:
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s must be a text, a number, true or false, not %s", where,
                       qr_json_type_name(v));
    }
}

enum qr_code qr_settings_job(struct qr_settings *s, const struct qr_json *worker,
                             struct qr_err *err) {
    for (const struct qr_json *m = worker ? qr_json_first(worker) : NULL; m; m = qr_json_next(m)) {
        qr_auto(qr_free_p) char *name = qr_xstrdup(qr_json_key(m)),
                                *where = qr_xasprintf("worker.%.80s", name), *value = NULL;
        for (char *c = name; *c; c++) *c = *c == '_' ? '-' : *c;
        const struct setting *t = settings_find(name);
        if (t && t->allowed == OUTSIDE)
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "%s belongs on the command line or in the environment; set the job's "
                           "own keys instead",
                           where);
        if (t && t->allowed == COMMAND_LINE)
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "%s cannot be set in a job file: give the flag --%s", where, name);
        if (!t || t->allowed != ANYWHERE) {
            const char *near = nearest_setting(name);
            if (near)
                return qr_fail(err, QR_INVALID_ARGUMENT, "%s is not a setting; did you mean '%s'?",
                               where, near);
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "%s is not a setting; qringd --help lists them", where);
        }
        if (qr_json_type(m) == QR_JSON_NULL) continue; /* not set */
        QR_TRY(setting_json_text(m, where, &value, err));
        QR_TRY(setting_apply(s, t, value, QR_ORIGIN_JOB, where, err));
    }
    return QR_OK;
}

enum qr_code qr_settings_load_job(struct qr_settings *s,
                                  void (*report)(void *context, const struct qr_err *err),
                                  void *context, struct qr_job **ret, struct qr_err *err) {
    QR_TRY(qr_job_load_all(s->job, &s->set, report, context, ret, err));
    enum qr_code code = qr_settings_job(s, (*ret)->worker, err);
    if (code != QR_OK) qr_overrides_attribute(&s->set, err);
    return code;
}

enum qr_code qr_settings_check(const struct qr_settings *s, struct qr_err *err) {
    if (s->weights && (s->weights_gcs_bucket || s->weights_gcs_path))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--weights and --weights-gcs-bucket, --weights-gcs-path are alternatives: "
                       "set one of them");
    if (!s->weights_gcs_bucket != !s->weights_gcs_path)
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "--weights-gcs-%s is missing: the bucket and the object's path in it belong together",
            s->weights_gcs_path ? "bucket" : "path");
    if (s->plaintext && (s->tls_dir || s->tls_cert || s->tls_key || s->tls_ca))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--plaintext and --tls-dir (or --tls-cert, --tls-key, --tls-ca) exclude "
                       "each other: remove one");
    QR_TRY(qr_progress_check(s->progress_to, err));
    struct qr_price price;
    uint64_t most;
    QR_TRY(qr_settings_price(s, &price, &most, err));
    if (s->min_workers > s->max_workers)
        return qr_fail(err, QR_INVALID_ARGUMENT, "--min-workers is %lld, but --max-workers is %lld",
                       (long long)s->min_workers, (long long)s->max_workers);
    return QR_OK;
}

/* ---- output for users ---- */

/* URLs without possible secrets. */
static void setting_put_text(struct qr_buf *b, const struct setting *t, const char *text) {
    qr_auto(qr_free_p) char *shown = !text               ? qr_xstrdup("unset")
                                     : t->type == TARGET ? qr_progress_shown(text)
                                                         : qr_url_redacted(text);
    qr_buf_printf(b, "%.200s", shown);
}

static void setting_put_value(struct qr_buf *b, const struct qr_settings *s,
                              const struct setting *t) {
    const char *p = (const char *)s + t->at;
    const char *text = setting_is_text(t) ? *(char *const *)(const void *)p : NULL;
    int64_t number =
        t->type == NUMBER || t->type == DURATION ? *(const int64_t *)(const void *)p : 0;
    if (t->type == JOB_KEYS && s->set.n) qr_overrides_put(&s->set, b);
    else if (t->type == JOB_KEYS || t->type == JOB_KEY) qr_buf_puts(b, "unset");
    else if (t->type == SWITCH) qr_buf_puts(b, *(const bool *)(const void *)p ? "on" : "off");
    else if (setting_is_text(t)) setting_put_text(b, t, text);
    else if (number < 0)
        qr_buf_puts(b, t->shown && strcmp(t->shown, "none") == 0 ? "unset" : "auto");
    else if (t->type == DURATION) qr_buf_printf(b, "%.6gs", (double)number / 1e9);
    else qr_buf_printf(b, "%lld", (long long)number);
}

/* --seed is logged as part of --set. */
static bool setting_is_logged(const struct setting *t) {
    return t->allowed == ANYWHERE || t->type == JOB_KEYS;
}

void qr_settings_log(const struct qr_settings *s, const struct qr_log *log) {
    static const char *const from[] = {"by default", "from the job file", "from the environment",
                                       "from flags"};
    for (int origin = QR_ORIGIN_FLAG; origin >= QR_ORIGIN_DEFAULT; origin--) {
        struct qr_buf b = {0};
        for (size_t i = 0; i < settings_n; i++) {
            if (s->origin[i] != origin || !setting_is_logged(&settings_table[i])) continue;
            qr_buf_printf(&b, "%s%s=", b.n ? ", " : "", settings_table[i].name);
            setting_put_value(&b, s, &settings_table[i]);
        }
        if (b.n) qr_info(log, "worker", "settings %s: %s", from[origin], qr_buf_string(&b));
        qr_buf_free(&b);
    }
}

static const char *setting_default_text(const struct setting *t) {
    return t->shown ? t->shown : t->standard ? t->standard : "none";
}

static const char *const scope_text[] = {
    [QR_SETTING_OWN] = "own value",       [QR_SETTING_RING] = "first leader's for all",
    [QR_SETTING_LEADER] = "the leader's", [QR_SETTING_FIRST] = "first leader's",
    [QR_SETTING_EQUAL] = "same for all",
};

static void setting_put_help(const struct setting *t, struct qr_buf *ret) {
    static const char mark[] = "CHOICES";
    const char *at = strstr(t->help, mark);
    if (!at) {
        qr_buf_puts(ret, t->help);
        return;
    }
    qr_buf_put(ret, t->help, (size_t)(at - t->help));
    put_choices(t, ", ", ret);
    qr_buf_puts(ret, at + strlen(mark));
}

void qr_settings_help(struct qr_buf *ret) {
    for (size_t i = 0; i < settings_n; i++) {
        const struct setting *t = &settings_table[i];
        if (t->allowed == HIDDEN) continue;
        qr_auto(qr_free_p) char *left = qr_xasprintf("--%s%s%s", t->name, t->value_name ? " " : "",
                                                     t->value_name ? t->value_name : "");
        if (strlen(left) > 26) qr_buf_printf(ret, "  %s\n  %26s", left, "");
        else qr_buf_printf(ret, "  %-26s", left);
        qr_buf_puts(ret, "  ");
        setting_put_help(t, ret);
        if (t->scope > QR_SETTING_OWN) qr_buf_printf(ret, "; %s", scope_text[t->scope]);
        if (t->allowed != COMMAND_LINE) qr_buf_printf(ret, " [%s]", setting_default_text(t));
        qr_buf_puts(ret, "\n");
    }
}

void qr_settings_markdown(struct qr_buf *ret) {
    qr_buf_puts(ret, "| flag | environment | default | between workers | what it sets |\n| --- | "
                     "--- | --- | --- | --- |\n");
    for (size_t i = 0; i < settings_n; i++) {
        const struct setting *t = &settings_table[i];
        if (t->allowed == HIDDEN) continue;
        qr_auto(qr_free_p) char *variable = qr_xasprintf("`QRING_%s`", t->name);
        for (char *c = variable; *c; c++) *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
        qr_buf_printf(
            ret, "| `--%s%s%s` | %s | %s | %s | ", t->name, t->value_name ? " " : "",
            t->value_name ? t->value_name : "", t->allowed == COMMAND_LINE ? "" : variable,
            t->allowed == COMMAND_LINE ? "" : setting_default_text(t), scope_text[t->scope]);
        setting_put_help(t, ret);
        qr_buf_puts(ret, " |\n");
    }
}

enum qr_setting_origin qr_settings_origin(const struct qr_settings *s, const char *name) {
    const struct setting *t = settings_find(name);
    QR_ASSERT(t);
    return (enum qr_setting_origin)s->origin[t - settings_table];
}

int qr_settings_arity(const char *name) {
    const struct setting *t = settings_find(name);
    return !t ? 0 : t->type == SWITCH ? 1 : 2;
}

const char *qr_settings_choices(const char *name) {
    static char joined[QR_SETTINGS_MAX][64];
    const struct setting *t = settings_find(name);
    if (!t || !t->choice) return NULL;
    char *to = joined[t - settings_table];
    qr_auto(qr_buf_free) struct qr_buf b = {0};
    put_choices(t, "|", &b);
    snprintf(to, sizeof joined[0], "%s", qr_buf_string(&b));
    return to;
}

const char *qr_settings_name(size_t i) {
    for (size_t k = 0; k < settings_n; k++)
        if (settings_table[k].allowed != HIDDEN && i-- == 0) return settings_table[k].name;
    return NULL;
}

bool qr_settings_in_job(const char *name) { return settings_find(name)->allowed == ANYWHERE; }
