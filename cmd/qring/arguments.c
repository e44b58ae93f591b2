/* cmd/qring/arguments.c — reads flags and loads jobs, for all commands. Start reading at
 * qr_read_arguments(). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/pool.h"
#include "cmd/qring/command.h"
#include "worker/settings.h"

static const struct qr_flag *find_flag(const struct qr_flag *flags, size_t n, const char *name,
                                       size_t chars) {
    const struct qr_flag *last = NULL;
    for (size_t i = 0; i < n && !(last && last->text && !*last->text); i++)
        if (strlen(flags[i].name) == chars && strncmp(flags[i].name, name, chars) == 0)
            last = &flags[i];
    return last;
}

static enum qr_code reject_flag(const char *arg, const struct qr_flag_reader *r,
                                struct qr_err *err) {
    enum { MAX_FLAGS = 32, NAME_BYTES = 40 };
    const char *names[QR_SETTINGS_MAX + MAX_FLAGS + 2];
    char settings[QR_SETTINGS_MAX][NAME_BYTES];
    size_t n = 0;
    QR_ASSERT(r->n_flags <= MAX_FLAGS);
    for (; n < r->n_flags; n++) names[n] = r->flags[n].name;
    for (size_t i = 0; r->setting && qr_settings_name(i); i++, n++) {
        snprintf(settings[i], sizeof settings[i], "--%s", qr_settings_name(i));
        names[n] = settings[i];
    }
    if (r->set) {
        names[n++] = "--set";
        names[n++] = "--seed";
    }
    const char *near = qr_nearest(arg, names, n);
    if (near)
        return qr_fail(err, QR_INVALID_ARGUMENT, "unknown flag %.80s; did you mean %s?", arg, near);
    return qr_fail(err, QR_INVALID_ARGUMENT, "unknown flag %.80s; --help lists them%s", arg,
                   r->setting ? ", and qringd --help those of the workers" : "");
}

/* Returns the value of the flag at argv[*i], after '=' or in the next argument. */
static const char *flag_value(int argc, char **argv, int *i, struct qr_err *err) {
    const char *a = argv[*i], *equals = strchr(a, '=');
    if (equals) return equals + 1;
    if (*i + 1 < argc) return argv[++*i];
    qr_fail(err, QR_INVALID_ARGUMENT, "%s needs a value", a);
    return NULL;
}

static bool is_flag(const char *arg, const char *name) {
    size_t n = strlen(name);
    return strncmp(arg, name, n) == 0 && (!arg[n] || arg[n] == '=');
}

/* Reads --set or --seed at argv[*i]. */
static enum qr_code set_key(struct qr_overrides *set, int argc, char **argv, int *i,
                            struct qr_err *err) {
    bool seed = is_flag(argv[*i], "--seed");
    const char *value = flag_value(argc, argv, i, err);
    return value ? qr_overrides_add(set, QR_OVERRIDES_FLAG, seed ? "--seed" : "--set",
                                    seed ? "seed" : NULL, value, err)
                 : err->code;
}

static enum qr_code read_flag(const struct qr_flag *f, int argc, char **argv, int *i,
                              struct qr_err *err) {
    if (f->on && strchr(argv[*i], '='))
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s takes no value", f->name);
    if (f->on) *f->on = true;
    else if (!(*f->text = flag_value(argc, argv, i, err))) return err->code;
    return QR_OK;
}

/* Reads a flag of qringd at argv[*i]. */
static enum qr_code read_setting(const struct qr_flag_reader *r, int argc, char **argv, int *i,
                                 struct qr_err *err) {
    const char *a = argv[*i] + 2;
    qr_auto(qr_free_p) char *name = qr_xstrndup(a, strcspn(a, "="));
    bool alone = qr_settings_arity(name) == 1 && !strchr(a, '=');
    const char *value = alone ? "true" : flag_value(argc, argv, i, err);
    return value ? r->setting(r->context, name, value, err) : err->code;
}

static bool is_setting(const struct qr_flag_reader *r, const char *a) {
    if (!r->setting || strncmp(a, "--", 2) != 0) return false;
    qr_auto(qr_free_p) char *name = qr_xstrndup(a + 2, strcspn(a + 2, "="));
    return qr_settings_arity(name) != 0;
}

/* "-n2": the flag, whose value follows its letter; NULL: it is none. */
static const struct qr_flag *short_flag(const struct qr_flag_reader *r, const char *a) {
    const struct qr_flag *f =
        a[1] != '-' && a[1] && a[2] ? find_flag(r->flags, r->n_flags, a, 2) : NULL;
    return f && f->text ? f : NULL;
}

enum qr_code qr_read_arguments(int argc, char **argv, const struct qr_flag_reader *r,
                               struct qr_words *ret_words, bool *ret_help, struct qr_err *err) {
    *ret_words = (struct qr_words){.n = 0};
    *ret_help = false;
    enum qr_code code = QR_OK;
    for (int i = 1; i < argc && code == QR_OK; i++) {
        const char *a = argv[i];
        if (strcmp(a, "--help") == 0 || strcmp(a, "-h") == 0) {
            *ret_help = true;
            return QR_OK;
        }
        if (a[0] != '-' || !a[1]) {
            if (ret_words->n == r->max_words)
                return qr_fail(err, QR_INVALID_ARGUMENT, "unexpected argument '%.200s'; see --help",
                               a);
            ret_words->v[ret_words->n++] = a;
            continue;
        }
        const struct qr_flag *f = find_flag(r->flags, r->n_flags, a, strcspn(a, "="));
        const struct qr_flag *joined = f ? NULL : short_flag(r, a);
        if (f) code = read_flag(f, argc, argv, &i, err);
        else if (joined) *joined->text = a + 2;
        else if (r->set && (is_flag(a, "--set") || is_flag(a, "--seed")))
            code = set_key(r->set, argc, argv, &i, err);
        else if (is_setting(r, a)) code = read_setting(r, argc, argv, &i, err);
        else return reject_flag(a, r, err);
    }
    return code;
}

enum qr_code qr_read_flags(int argc, char **argv, const struct qr_flag *flags, size_t n_flags,
                           struct qr_overrides *set, size_t max_words, struct qr_words *ret_words,
                           bool *ret_help, struct qr_err *err) {
    const struct qr_flag_reader r = {
        .flags = flags, .n_flags = n_flags, .set = set, .max_words = max_words};
    return qr_read_arguments(argc, argv, &r, ret_words, ret_help, err);
}

enum qr_code qr_read_environment(struct qr_settings *s, struct qr_err *err) {
    char *unknown[8];
    size_t n_unknown = 0;
    enum qr_code code = qr_settings_environment(s, environ, unknown, 8, &n_unknown, err);
    for (size_t i = 0; i < n_unknown; i++) {
        if (code == QR_OK) qr_warn(qr_command_log(), "qring", "%s", unknown[i]);
        free(unknown[i]);
    }
    return code;
}

enum qr_code qr_parse_workers(const char *text, unsigned *ret, struct qr_err *err) {
    uint64_t n = *ret;
    if (text && (!qr_parse_u64(text, &n) || n < 1 || n > QR_MAX_MEMBERS))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "-n is '%.40s'; it must be an integer from 1 to %d", text, QR_MAX_MEMBERS);
    *ret = (unsigned)n;
    return QR_OK;
}

enum qr_code qr_load_workload(const char *url, struct qr_overrides *set, const char *isa,
                              const char *threads, struct qr_loaded *ret, struct qr_err *err) {
    struct qr_job *job;
    QR_TRY(qr_job_load(url, set, &job, err));
    return qr_load_job(job, NULL, isa, threads, ret, err);
}

enum qr_code qr_load_job(struct qr_job *job, const struct qr_job_samples *samples, const char *isa,
                         const char *threads, struct qr_loaded *ret, struct qr_err *err) {
    struct qr_loaded l = {.job = job};
    uint64_t n_threads = 0;
    enum qr_code code = QR_OK;
    if (!isa) isa = "auto";
    if (threads && (!qr_parse_u64(threads, &n_threads) || n_threads < 1 || n_threads > 1024))
        code = qr_fail(err, QR_INVALID_ARGUMENT, "--threads: '%.40s' is not a number in 1 ... 1024",
                       threads);
    if (code == QR_OK)
        code = samples
                   ? qr_workload_load_samples(job, samples, isa, (unsigned)n_threads, &l.load, err)
                   : qr_workload_load(job, isa, (unsigned)n_threads, &l.load, err);
    if (code != QR_OK) {
        qr_job_free(job);
        return code;
    }
    l.pool = qr_pool_new(l.load.n_threads);
    *ret = l;
    return QR_OK;
}

void qr_loaded_fini(struct qr_loaded *l) {
    if (!l->job) return;
    qr_pool_free(l->pool);
    qr_workload_fini(&l->load);
    qr_job_free(l->job);
    *l = (struct qr_loaded){0};
}

static struct qr_log command_log;

const struct qr_log *qr_command_log(void) {
    bool color = !command_log.write &&
                 qr_log_wants_color(isatty(STDERR_FILENO), getenv("NO_COLOR"), getenv("TERM"));
    if (!command_log.write)
        command_log = qr_log_stderr(QR_LOG_INFO, color ? QR_LOG_COLOR : QR_LOG_TEXT);
    return &command_log;
}

void qr_command_quiet(void) {
    qr_command_log();
    command_log.level = QR_LOG_ERROR;
}

int qr_exit_report(enum qr_code code, const struct qr_err *err) {
    if (code != QR_OK) qr_error(qr_command_log(), "qring", "%s", err->msg);
    return qr_exit_code(code);
}

void qr_print_escaped(FILE *out, const char *text) {
    struct qr_buf shown = {0};
    while (*text) {
        size_t n = strcspn(text, "\n");
        qr_auto(qr_free_p) char *line = qr_xstrndup(text, n);
        qr_buf_put_printable(&shown, line);
        text += n;
        if (*text && text++) qr_buf_puts(&shown, "\n");
    }
    fputs(qr_buf_string(&shown), out);
    qr_buf_free(&shown);
}

int qr_print_help(const struct qr_command *self) {
    fputs(self->help, stdout);
    return 0;
}
