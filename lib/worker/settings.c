#include "worker/settings.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "base/parse.h"
#include "cluster/identity.h"
#include "group/group.h"
#include "sim/sim.h"

/* JOB_KEYS: keys of the job and their values; JOB_KEY: the value of the job's key of that name */
enum type { TEXT, NUMBER, DURATION, SWITCH, CHOICE, JOB_KEYS, JOB_KEY };
/* HIDDEN: works, unlisted; COMMAND_LINE: a flag only; OUTSIDE: not in the job */
enum place { ANYWHERE, HIDDEN, COMMAND_LINE, OUTSIDE };

struct setting {
    const char *name;
    enum type type;
    size_t at;            /* offset in struct qr_settings */
    const char *standard; /* the default as text; NULL: unset */
    int64_t min, max;     /* of numbers */
    /* the i-th value that it may have, NULL behind the last; the rooms that have such things
     * name them */
    const char *(*choice)(size_t i);
    enum place place;
    const char *value_name; /* in --help */
    const char *shown;      /* the default as people read it; NULL: standard */
    const char *help;       /* CHOICES: those */
    /* may it differ between the workers of one ring, and whose counts */
    enum qr_setting_between between;
    /* what a newcomer with another value reads in its log; NULL: nothing, for nothing comes
     * of it */
    const char *told;
};

static const char *isa_choice(size_t i) {
    return i == 0 ? "auto" : i <= QR_ISAS ? qr_isa_name((enum qr_isa)(i - 1)) : NULL;
}
static const char *allreduce_choice(size_t i) {
    return i < QR_ALLREDUCE_KINDS ? qr_allreduce_names[i] : NULL;
}
static const char *level_choice(size_t i) { return qr_log_level_names[i]; }
static const char *log_format_choice(size_t i) {
    static const char *const names[] = {"auto", "text", "json", NULL};
    return names[i];
}
static const char *role_choice(size_t i) {
    static const enum qr_role roles[] = {QR_ROLE_WORKER, QR_ROLE_PS};
    return i < sizeof roles / sizeof *roles ? qr_role_name(roles[i]) : NULL;
}
static const char *print_choice(size_t i) { return i == 0 ? "markdown" : NULL; }

#define OWN QR_SETTING_OWN
#define RING QR_SETTING_RING
#define LEADER QR_SETTING_LEADER
#define FIRST QR_SETTING_FIRST
#define EQUAL QR_SETTING_EQUAL
/* membership/member_common.c */
#define RING_SAYS "NAME is HERE here and THERE in the ring, whose value counts until it ends"
#define PLACES_SAY                                                                                 \
    "out, weights or checkpoints name other places here than in the ring: who leads writes to "    \
    "its own"
/* link/link_grpc_tls.c */
#define TLS_SAYS "no connection: what TLS says of it, and at last who did not answer"

/* membership/member_hello.c; exit code 3 */
#define HASH_SAYS "worker N has other settings under the job name: KEY is THERE there and HERE here"

#define AT(member) offsetof(struct qr_settings, member)
static const struct setting table[] = {
    {"index", TEXT, AT(index), NULL, 0, 0, NULL, ANYWHERE, "I", "from TF_CONFIG",
     "this worker's index, with --peers or --peer-template", OWN, NULL},
    {"peers", TEXT, AT(peers), NULL, 0, 0, NULL, ANYWHERE, "LIST", "from TF_CONFIG",
     "all workers, by index: host:port,host:port", OWN, NULL},
    {"peer-template", TEXT, AT(peer_template), NULL, 0, 0, NULL, ANYWHERE, "TEXT", "from TF_CONFIG",
     "the workers' names with {i} for the index: name-{i}.service:2222; the index may come from "
     "JOB_COMPLETION_INDEX or the host's name",
     OWN, NULL},
    {"replicas", TEXT, AT(replicas), NULL, 0, 0, NULL, ANYWHERE, "N", "probed",
     "how many workers the template names", OWN, NULL},
    {"parameter-servers", TEXT, AT(parameter_servers), NULL, 0, 0, NULL, ANYWHERE, "LIST",
     "from TF_CONFIG",
     "the parameter servers, by index, before all workers: host:port,host:port; the same for all",
     OWN, NULL},
    {"role", CHOICE, AT(role), NULL, 0, 0, role_choice, ANYWHERE, "ROLE", "worker, or TF_CONFIG's",
     "what this process is: CHOICES; its index is that among its kind", OWN, NULL},
    {"max-workers", NUMBER, AT(max_workers), "64", 1, QR_MAX_MEMBERS, NULL, ANYWHERE, "N", NULL,
     "the most members there can be: 0 ... N-1 are probed where no count is known", OWN, NULL},
    {"min-workers", NUMBER, AT(min_workers), NULL, 1, QR_MAX_MEMBERS, NULL, ANYWHERE, "N",
     "half of them",
     "the fewest workers that begin without the others; parameter servers do not count", RING,
     RING_SAYS},
    {"port", NUMBER, AT(port), NULL, 0, 65535, NULL, ANYWHERE, "PORT",
     "one's own address's, else 2222", "the control port to bind", OWN, NULL},
    {"data-port", NUMBER, AT(data_port), "2224", 0, 65535, NULL, ANYWHERE, "PORT", NULL,
     "the data port to bind; 0: any", OWN, NULL},
    {"bind", TEXT, AT(bind), NULL, 0, 0, NULL, ANYWHERE, "HOST", "all; loopback when every peer is",
     "the address to bind both ports to", OWN, NULL},
    {"http-port", NUMBER, AT(http_port), "8080", 0, 65535, NULL, ANYWHERE, "PORT",
     "8080; 0 in qring run", "the port of /healthz, /readyz and /metrics; 0: none", OWN, NULL},
    {"http-bind", TEXT, AT(http_bind), NULL, 0, 0, NULL, ANYWHERE, "HOST",
     "all; loopback when every peer is", "the address to bind that port to", OWN, NULL},
    {"tls-dir", TEXT, AT(tls_dir), NULL, 0, 0, NULL, ANYWHERE, "DIR", "none",
     "the folder with the job's tls.crt, tls.key and ca.crt, as Kubernetes mounts a TLS Secret; "
     "read again when they change",
     OWN, NULL},
    {"tls-cert", TEXT, AT(tls_cert), NULL, 0, 0, NULL, ANYWHERE, "FILE", "TLS-DIR/tls.crt",
     "the certificate (PEM), intermediates behind it", OWN, NULL},
    {"tls-key", TEXT, AT(tls_key), NULL, 0, 0, NULL, ANYWHERE, "FILE", "TLS-DIR/tls.key",
     "its key (PEM, not encrypted)", OWN, NULL},
    {"tls-ca", TEXT, AT(tls_ca), NULL, 0, 0, NULL, ANYWHERE, "FILE", "TLS-DIR/ca.crt",
     "the CAs (PEM) whose certificates of this job are taken", EQUAL, TLS_SAYS},
    {"plaintext", SWITCH, AT(plaintext), NULL, 0, 0, NULL, ANYWHERE, NULL, "off",
     "talk to peers without TLS also beyond this machine, and say so in the log; qring run: make "
     "no certificates",
     EQUAL, TLS_SAYS},
    {"start-timeout", DURATION, AT(start_timeout_ns), "10m", 0, 0, NULL, ANYWHERE, "TIME", NULL,
     "the default of form-timeout where the number of workers is known", OWN, NULL},
    {"form-timeout", DURATION, AT(form_timeout_ns), NULL, 0, 0, NULL, ANYWHERE, "TIME",
     "the start-timeout; 10s where no count is known",
     "how long the first generation waits for all before it begins with those who came", OWN, NULL},
    {"threads", NUMBER, AT(threads), NULL, 1, 1024, NULL, ANYWHERE, "T", "the cgroup's",
     "threads that compute", OWN, NULL},
    {"isa", CHOICE, AT(isa), "auto", 0, 0, isa_choice, ANYWHERE, "NAME", NULL,
     "the kernels: CHOICES; all give the same bits", OWN, NULL},
    {"allreduce", CHOICE, AT(allreduce), "auto", 0, 0, allreduce_choice, ANYWHERE, "NAME", NULL,
     "how sums travel: CHOICES; all give the same bits", RING, RING_SAYS},
    {"epochs", NUMBER, AT(epochs), NULL, 1, INT64_C(1) << 53, NULL, ANYWHERE, "E", "the job's",
     "train this many epochs", RING, RING_SAYS},
    {"set", JOB_KEYS, AT(set), NULL, 0, 0, NULL, OUTSIDE, "PATH=VALUE", "none",
     "a key of the job: train.epochs=60, model[1].units=8, model[NAME].units=8; as often as "
     "wanted, "
     "in the variable a line each",
     EQUAL, HASH_SAYS},
    {"seed", JOB_KEY, AT(set), NULL, 0, 0, NULL, OUTSIDE, "N", "the job's", "--set seed=N", EQUAL,
     HASH_SAYS},
    {"out", TEXT, AT(out), NULL, 0, 0, NULL, ANYWHERE, "DIR", "out/NAME",
     "the folder for weights.h5, weights.safetensors, result.json, steps.jsonl", LEADER,
     PLACES_SAY},
    {"weights", TEXT, AT(weights), NULL, 0, 0, NULL, ANYWHERE, "URL", "OUT/weights.h5",
     "where the trained weights go: .h5 (Keras), .npz or .safetensors", LEADER, PLACES_SAY},
    {"weights-gcs-bucket", TEXT, AT(weights_gcs_bucket), NULL, 0, 0, NULL, ANYWHERE, "NAME", "none",
     "the tutorial's flag: --weights gs://BUCKET/PATH in two parts", LEADER, PLACES_SAY},
    {"weights-gcs-path", TEXT, AT(weights_gcs_path), NULL, 0, 0, NULL, ANYWHERE, "PATH", "none",
     "the object's name in that bucket", LEADER, PLACES_SAY},
    {"checkpoints", TEXT, AT(checkpoints), NULL, 0, 0, NULL, ANYWHERE, "URL",
     "OUT/checkpoints; beside weights in a bucket",
     "the folder that training goes on from when it starts again; none: it starts from the "
     "beginning",
     LEADER, PLACES_SAY},
    {"checkpoint-interval", DURATION, AT(checkpoint_interval_ns), "10s", 0, 0, NULL, ANYWHERE,
     "TIME", NULL, "a checkpoint so long after the one before", LEADER, NULL},
    {"checkpoint-steps", NUMBER, AT(checkpoint_steps), "100", 1, INT64_C(1) << 53, NULL, ANYWHERE,
     "N", NULL, "and so many steps after it: whichever comes later", LEADER, NULL},
    {"fresh", SWITCH, AT(fresh), NULL, 0, 0, NULL, COMMAND_LINE, NULL, NULL,
     "train again from the start: what --checkpoints has, of any job, is taken away", FIRST, NULL},
    {"logdir", TEXT, AT(logdir), NULL, 0, 0, NULL, ANYWHERE, "URL", "none",
     "the folder for TensorBoard, here, gs:// or s3://BUCKET/PATH: losses, metrics, gradients, "
     "read-outs, "
     "weights; qring run: OUT/logs",
     LEADER, NULL},
    {"profiler-port", NUMBER, AT(profiler_port), NULL, 1, 65535, NULL, ANYWHERE, "PORT", "none",
     "the tutorial's flag for the profiler: accepted, nothing is bound", OWN, NULL},
    {"log-level", CHOICE, AT(log_level), "info", 0, 0, level_choice, ANYWHERE, "LEVEL", NULL,
     "CHOICES", OWN, NULL},
    {"log-format", CHOICE, AT(log_format), "auto", 0, 0, log_format_choice, ANYWHERE, "FORMAT",
     NULL, "text, json (Cloud Logging's keys), or auto: text on a terminal, json elsewhere", OWN,
     NULL},
    {"exit-on-drain", NUMBER, AT(exit_on_drain), "143", 0, 255, NULL, ANYWHERE, "CODE", NULL,
     "the exit code after SIGTERM; 0 where a TFJob is scaled down", OWN, NULL},
    {"termination-log", TEXT, AT(termination_log), NULL, 0, 0, NULL, ANYWHERE, "FILE",
     "/dev/termination-log", "the file that gets the reason for the end, where it exists", OWN,
     NULL},
    {"progress-fd", NUMBER, AT(progress_fd), NULL, 0, 1 << 20, NULL, HIDDEN, "FD", NULL,
     "JSON lines of progress for qring run", OWN, NULL},
    {"lock-fd", NUMBER, AT(lock_fd), NULL, 0, 1 << 20, NULL, HIDDEN, "FD", NULL,
     "the lock on OUT, inherited from qring run", OWN, NULL},
    {"print-identity", SWITCH, AT(print_identity), NULL, 0, 0, NULL, COMMAND_LINE, NULL, NULL,
     "say who this worker believes it is, as JSON, and exit", OWN, NULL},
    {"print-settings", CHOICE, AT(print_settings), NULL, 0, 0, print_choice, HIDDEN, "FORMAT", NULL,
     "this table, for cmd/README.md", OWN, NULL},
    {"help", SWITCH, AT(help), NULL, 0, 0, NULL, COMMAND_LINE, NULL, NULL, "this text", OWN, NULL},
    {"version", SWITCH, AT(version), NULL, 0, 0, NULL, COMMAND_LINE, NULL, NULL,
     "the version and the contract's names", OWN, NULL},
};
enum { N = sizeof table / sizeof *table };
_Static_assert(QR_MAX_MEMBERS == 64, "the default of max-workers is that text");
_Static_assert((int)N <= (int)QR_SETTINGS_MAX, "origin has a place for every row");

/* What else may differ between two workers of one ring. Keys of the job file that are not here are
 * in the job hash: the first of that kind, "*". */
static const struct {
    const char *what;
    enum qr_setting_between between;
    const char *told;
} beside[] = {
    {"*", EQUAL, HASH_SAYS},
    {"data", EQUAL, HASH_SAYS}, /* what is in the files, wherever they lie */
    {"data.url", OWN, NULL},
    {"data.validation_url", OWN, NULL},
    {"name", EQUAL, "turned away worker N of another job: name is THERE there and HERE here"},
    {"train.epochs", RING, RING_SAYS},
    {"train.initial_weights", EQUAL, HASH_SAYS}, /* the file's bytes, wherever it lies */
    {"worker", OWN, NULL},                       /* each of its keys as its setting */
    {"the program's protocol", EQUAL, HASH_SAYS},
    {"the program's arithmetic", EQUAL, HASH_SAYS},
    {"the program's version", OWN, NULL},
    {"the processor", OWN, NULL},
};

static char **text_at(struct qr_settings *s, const struct setting *t) {
    return (char **)(void *)((char *)s + t->at);
}
static int64_t *number_at(struct qr_settings *s, const struct setting *t) {
    return (int64_t *)(void *)((char *)s + t->at);
}
static bool *switch_at(struct qr_settings *s, const struct setting *t) {
    return (bool *)(void *)((char *)s + t->at);
}

static const struct setting *find(const char *name) {
    for (size_t i = 0; i < N; i++)
        if (strcmp(table[i].name, name) == 0) return &table[i];
    return NULL;
}

static const char *nearest(const char *name) {
    const char *names[N];
    size_t n = 0;
    for (size_t i = 0; i < N; i++)
        if (table[i].place != HIDDEN) names[n++] = table[i].name;
    return qr_nearest(name, names, n);
}

/* ---- one value ---- */

static bool among(const char *value, const struct setting *t) {
    for (size_t i = 0; t->choice(i); i++)
        if (strcmp(t->choice(i), value) == 0) return true;
    return false;
}

static void put_choices(const struct setting *t, const char *between, struct qr_buf *ret) {
    for (size_t i = 0; t->choice(i); i++)
        qr_buf_printf(ret, "%s%s", i ? between : "", t->choice(i));
}

static enum qr_code refuse_choice(const struct setting *t, const char *value, const char *where,
                                  struct qr_err *err) {
    struct qr_buf b = {0};
    put_choices(t, "|", &b);
    enum qr_code code = qr_fail(err, QR_INVALID_ARGUMENT, "%s: '%.80s' is none of %s", where, value,
                                qr_buf_string(&b));
    qr_buf_free(&b);
    return code;
}

/* where: how the person wrote it ("--threads", "QRING_THREADS", "worker.threads"). */
static enum qr_code set_value(struct qr_settings *s, const struct setting *t, const char *value,
                              const char *where, struct qr_err *err) {
    int64_t v = -1;
    bool chosen = *value && strcmp(value, "auto") != 0;
    if (!chosen && t->standard && (t->type == NUMBER || t->type == DURATION)) {
        value = t->standard; /* as if it were not set */
        chosen = true;
    }
    switch (t->type) {
    case CHOICE:
        if (!among(value, t)) return refuse_choice(t, value, where, err);
        /* fall through */
    case TEXT:
        free(*text_at(s, t));
        *text_at(s, t) = *value ? qr_xstrdup(value) : NULL;
        return QR_OK;
    case NUMBER:
        if (chosen && (!qr_parse_i64(value, &v) || v < t->min || v > t->max))
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s: '%.80s' is not a number in %lld ... %lld",
                           where, value, (long long)t->min, (long long)t->max);
        *number_at(s, t) = v;
        return QR_OK;
    case DURATION:
        if (chosen && !qr_parse_duration_ns(value, &v))
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "%s: '%.80s' is no length of time, as in 500ms, 10s, 2m, 1h", where,
                           value);
        *number_at(s, t) = v;
        return QR_OK;
    case SWITCH:
        if (!qr_parse_bool(value, switch_at(s, t)))
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s: '%.80s' is neither true nor false", where,
                           value);
        return QR_OK;
    case JOB_KEYS:
    case JOB_KEY: break; /* gathered by offer */
    }
    return QR_OK;
}

/* A variable's come first, whatever is read first. */
static enum qr_code gather(struct qr_settings *s, const struct setting *t, const char *value,
                           enum qr_setting_origin origin, const char *where, struct qr_err *err) {
    uint8_t *have = &s->origin[find("set") - table];
    bool key = t->type == JOB_KEY;
    unsigned place = origin == QR_ORIGIN_FLAG ? QR_OVERRIDES_FLAG
                     : key                    ? QR_OVERRIDES_ENVIRONMENT_KEY
                                              : QR_OVERRIDES_ENVIRONMENT;
    if (*have < origin && *value) *have = (uint8_t)origin;
    return qr_overrides_add(&s->set, place, where, key ? t->name : NULL, value, err);
}

/* Puts a value unless one from nearer by is there. */
static enum qr_code offer(struct qr_settings *s, const struct setting *t, const char *value,
                          enum qr_setting_origin origin, const char *where, struct qr_err *err) {
    uint8_t *have = &s->origin[t - table];
    struct qr_settings scratch = {0}; /* a value that is not taken is checked all the same */
    if (t->type == JOB_KEYS || t->type == JOB_KEY) return gather(s, t, value, origin, where, err);
    if (*have > origin) {
        enum qr_code code = set_value(&scratch, t, value, where, err);
        if (t->type == TEXT || t->type == CHOICE) free(*text_at(&scratch, t));
        return code;
    }
    enum qr_code code = set_value(s, t, value, where, err);
    if (code == QR_OK) *have = (uint8_t)origin;
    return code;
}

void qr_settings_init(struct qr_settings *s) {
    *s = (struct qr_settings){0};
    for (size_t i = 0; i < N; i++) {
        const struct setting *t = &table[i];
        if (t->type == NUMBER || t->type == DURATION) *number_at(s, t) = -1;
        if (t->standard) {
            enum qr_code code = set_value(s, t, t->standard, t->name, NULL);
            QR_ASSERT(code == QR_OK);
        }
    }
}

void qr_settings_fini(struct qr_settings *s) {
    for (size_t i = 0; i < N; i++)
        if (table[i].type == TEXT || table[i].type == CHOICE) free(*text_at(s, &table[i]));
    free(s->job);
    qr_overrides_fini(&s->set);
    *s = (struct qr_settings){0};
}

enum qr_code qr_settings_set(struct qr_settings *s, const char *name, const char *value,
                             struct qr_err *err) {
    const struct setting *t = find(name);
    qr_auto(qr_free_p) char *where = qr_xasprintf("--%s", name);
    if (!t) return qr_fail(err, QR_INVALID_ARGUMENT, "unknown flag %s", where);
    return offer(s, t, value, QR_ORIGIN_FLAG, where, err);
}

/* ---- flags ---- */

static enum qr_code unknown_flag(const char *name, struct qr_err *err) {
    const char *near = nearest(name);
    if (near)
        return qr_fail(err, QR_INVALID_ARGUMENT, "unknown flag --%.80s; did you mean --%s?", name,
                       near);
    return qr_fail(err, QR_INVALID_ARGUMENT, "unknown flag --%.80s; --help lists them", name);
}

static enum qr_code flag(struct qr_settings *s, const char *text, const char *next,
                         bool *ret_took_next, struct qr_err *err) {
    const char *equals = strchr(text, '=');
    qr_auto(qr_free_p) char *name =
        qr_xstrndup(text, equals ? (size_t)(equals - text) : strlen(text));
    const struct setting *t = find(name);
    if (!t) return unknown_flag(name, err);
    const char *value = equals ? equals + 1 : t->type == SWITCH ? "true" : next;
    *ret_took_next = !equals && t->type != SWITCH;
    if (!value)
        return qr_fail(err, QR_INVALID_ARGUMENT, "--%s wants a value: --%s %s", name, name,
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
            enum qr_code code = flag(s, a + 2, i + 1 < argc ? argv[i + 1] : NULL, &took_next, err);
            if (code != QR_OK) return code;
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
static char *name_of_variable(const char *variable, size_t n) {
    char *name = qr_xstrndup(variable + 6, n - 6);
    for (char *c = name; *c; c++) *c = *c == '_' ? '-' : (char)tolower((unsigned char)*c);
    return name;
}

/* Kubernetes tells every pod of the Services around it: one called "qring" gives
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
        qr_auto(qr_free_p) char *name = name_of_variable(e, n), *where = qr_xstrndup(e, n);
        if (strcmp(name, "job") == 0) {
            if (!s->job && equals[1]) s->job = qr_xstrdup(equals + 1);
            continue;
        }
        const struct setting *t = find(name);
        if (t && t->place != COMMAND_LINE) {
            enum qr_code code = offer(s, t, equals + 1, QR_ORIGIN_ENVIRONMENT, where, err);
            if (code != QR_OK) return code;
        } else if (*ret_n_unknown < max_unknown) {
            const char *near = nearest(name);
            qr_auto(qr_free_p) char *variable = qr_xasprintf("QRING_%s", near ? near : "");
            for (char *c = variable; *c; c++)
                *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
            ret_unknown[(*ret_n_unknown)++] =
                near ? qr_xasprintf("%s is no setting and is ignored; did you mean %s?", where,
                                    variable)
                     : qr_xasprintf("%s is no setting and is ignored", where);
        }
    }
    return QR_OK;
}

/* ---- the job file ---- */

static enum qr_code json_text(const struct qr_json *v, const char *where, char **ret,
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
        const struct setting *t = find(name);
        if (t && t->place == OUTSIDE)
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "%s is for the command line and the environment: here the job's keys "
                           "themselves say it",
                           where);
        if (!t || t->place != ANYWHERE) {
            const char *near = nearest(name);
            if (near)
                return qr_fail(err, QR_INVALID_ARGUMENT, "%s is no setting; did you mean '%s'?",
                               where, near);
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s is no setting; qringd --help lists them",
                           where);
        }
        enum qr_code code = json_text(m, where, &value, err);
        if (code == QR_OK) code = offer(s, t, value, QR_ORIGIN_JOB, where, err);
        if (code != QR_OK) return code;
    }
    return QR_OK;
}

enum qr_code qr_settings_load_job(struct qr_settings *s, struct qr_job **ret, struct qr_err *err) {
    enum qr_code code = qr_job_load(s->job, &s->set, ret, err);
    if (code == QR_OK && (code = qr_settings_job(s, (*ret)->worker, err)) != QR_OK)
        qr_overrides_blame(&s->set, err);
    return code;
}

enum qr_code qr_settings_check(const struct qr_settings *s, struct qr_err *err) {
    if (s->weights && (s->weights_gcs_bucket || s->weights_gcs_path))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--weights and --weights-gcs-bucket, --weights-gcs-path say the same thing: "
                       "give one of them");
    if (!s->weights_gcs_bucket != !s->weights_gcs_path)
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "--weights-gcs-%s is missing: the bucket and the object's path in it belong together",
            s->weights_gcs_path ? "bucket" : "path");
    if (s->plaintext && (s->tls_dir || s->tls_cert || s->tls_key || s->tls_ca))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--plaintext and --tls-dir (or --tls-cert, --tls-key, --tls-ca) contradict "
                       "each other: take one away");
    if (s->min_workers > s->max_workers)
        return qr_fail(err, QR_INVALID_ARGUMENT, "--min-workers is %lld, but --max-workers is %lld",
                       (long long)s->min_workers, (long long)s->max_workers);
    return QR_OK;
}

/* ---- what people read ---- */

static void put_value(struct qr_buf *b, const struct qr_settings *s, const struct setting *t) {
    const char *p = (const char *)s + t->at;
    const char *text =
        t->type == TEXT || t->type == CHOICE ? *(char *const *)(const void *)p : NULL;
    int64_t number =
        t->type == NUMBER || t->type == DURATION ? *(const int64_t *)(const void *)p : 0;
    if (t->type == JOB_KEYS && s->set.n) qr_overrides_put(&s->set, b);
    else if (t->type == JOB_KEYS || t->type == JOB_KEY) qr_buf_puts(b, "unset");
    else if (t->type == SWITCH) qr_buf_puts(b, *(const bool *)(const void *)p ? "on" : "off");
    else if (t->type == TEXT || t->type == CHOICE)
        qr_buf_printf(b, "%.200s", text ? text : "unset");
    else if (number < 0)
        qr_buf_puts(b, t->shown && strcmp(t->shown, "none") == 0 ? "unset" : "auto");
    else if (t->type == DURATION) qr_buf_printf(b, "%.6gs", (double)number / 1e9);
    else qr_buf_printf(b, "%lld", (long long)number);
}

/* What --seed says stands with --set. */
static bool is_logged(const struct setting *t) {
    return t->place == ANYWHERE || t->type == JOB_KEYS;
}

void qr_settings_log(const struct qr_settings *s, const struct qr_log *log) {
    static const char *const from[] = {"by default", "from the job file", "from the environment",
                                       "from flags"};
    for (int origin = QR_ORIGIN_FLAG; origin >= QR_ORIGIN_DEFAULT; origin--) {
        struct qr_buf b = {0};
        for (size_t i = 0; i < N; i++) {
            if (s->origin[i] != origin || !is_logged(&table[i])) continue;
            qr_buf_printf(&b, "%s%s=", b.n ? ", " : "", table[i].name);
            put_value(&b, s, &table[i]);
        }
        if (b.n) qr_info(log, "worker", "settings %s: %s", from[origin], qr_buf_string(&b));
        qr_buf_free(&b);
    }
}

static const char *shown(const struct setting *t) {
    return t->shown ? t->shown : t->standard ? t->standard : "none";
}

static const char *const between_text[] = {
    [QR_SETTING_OWN] = "each its own",
    [QR_SETTING_RING] = "the first leader's counts for all",
    [QR_SETTING_LEADER] = "of who leads",
    [QR_SETTING_FIRST] = "the first leader's",
    [QR_SETTING_EQUAL] = "the same for all",
};

static void put_help(const struct setting *t, struct qr_buf *ret) {
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
    for (size_t i = 0; i < N; i++) {
        const struct setting *t = &table[i];
        if (t->place == HIDDEN) continue;
        qr_auto(qr_free_p) char *left = qr_xasprintf("--%s%s%s", t->name, t->value_name ? " " : "",
                                                     t->value_name ? t->value_name : "");
        if (strlen(left) > 26) qr_buf_printf(ret, "  %s\n  %26s", left, "");
        else qr_buf_printf(ret, "  %-26s", left);
        qr_buf_puts(ret, "  ");
        put_help(t, ret);
        if (t->between > QR_SETTING_OWN) qr_buf_printf(ret, "; %s", between_text[t->between]);
        if (t->place != COMMAND_LINE) qr_buf_printf(ret, " [%s]", shown(t));
        qr_buf_puts(ret, "\n");
    }
}

void qr_settings_markdown(struct qr_buf *ret) {
    qr_buf_puts(ret, "| flag | environment | default | between workers | what it sets |\n| --- | "
                     "--- | --- | --- | --- |\n");
    for (size_t i = 0; i < N; i++) {
        const struct setting *t = &table[i];
        if (t->place == HIDDEN) continue;
        qr_auto(qr_free_p) char *variable = qr_xasprintf("`QRING_%s`", t->name);
        for (char *c = variable; *c; c++) *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
        qr_buf_printf(ret, "| `--%s%s%s` | %s | %s | %s | ", t->name, t->value_name ? " " : "",
                      t->value_name ? t->value_name : "", t->place == COMMAND_LINE ? "" : variable,
                      t->place == COMMAND_LINE ? "" : shown(t), between_text[t->between]);
        put_help(t, ret);
        qr_buf_puts(ret, " |\n");
    }
}

enum qr_setting_between qr_settings_between(const char *name, const char **ret_told) {
    const struct setting *t = find(name);
    if (ret_told) *ret_told = t ? t->told : NULL;
    return t ? t->between : QR_SETTING_NONE;
}

enum qr_setting_between qr_settings_between_key(const char *path, const char **ret_told) {
    size_t found = 0;
    for (size_t i = 1; i < sizeof beside / sizeof *beside; i++)
        if (strcmp(beside[i].what, path) == 0) found = i;
    if (ret_told) *ret_told = beside[found].told;
    return beside[found].between;
}

enum qr_setting_origin qr_settings_origin(const struct qr_settings *s, const char *name) {
    const struct setting *t = find(name);
    QR_ASSERT(t);
    return (enum qr_setting_origin)s->origin[t - table];
}

int qr_settings_arity(const char *name) {
    const struct setting *t = find(name);
    return !t ? 0 : t->type == SWITCH ? 1 : 2;
}

const char *qr_settings_choices(const char *name) {
    static char joined[N][64];
    const struct setting *t = find(name);
    if (!t || !t->choice) return NULL;
    char *to = joined[t - table];
    struct qr_buf b = {0};
    put_choices(t, "|", &b);
    snprintf(to, sizeof joined[0], "%s", qr_buf_string(&b));
    qr_buf_free(&b);
    return to;
}

const char *qr_settings_name(size_t i) {
    for (size_t k = 0; k < N; k++)
        if (table[k].place != HIDDEN && i-- == 0) return table[k].name;
    return NULL;
}
