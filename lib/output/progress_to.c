/* output/progress_to.c — finds a target for progress and sends to it. Start reading at
 * qr_progress_find() and send_progress(). */
#include "output/progress_to.h"

#include <ctype.h>
#include <string.h>

#include "base/counter.h"
#include "base/file.h"
#include "base/mem.h"
#include "store/post.h"

enum { WITHIN_MS = 3000, DONE_WITHIN_MS = 1200, LAST_WITHIN_MS = 500, MAX_NAME = 253 };
static const int64_t status_every_ns = 5 * QR_SECOND, object_every_ns = 10 * QR_SECOND,
                     most_ns = 60 * QR_SECOND;

static const struct {
    const char *kind, *api, *plural;
} kinds[] = {
    {"job", "apis/batch/v1", "jobs"},
    {"pod", "api/v1", "pods"},
    {"statefulset", "apis/apps/v1", "statefulsets"},
    {"jobset", "apis/jobset.x-k8s.io/v1alpha2", "jobsets"},
    {"tfjob", "apis/kubeflow.org/v1", "tfjobs"},
    {"trainjob", "apis/trainer.kubeflow.org/v1alpha1", "trainjobs"},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* ---- the target ---- */

static bool has_prefix(const char *s, const char *with) {
    return strncmp(s, with, strlen(with)) == 0;
}

static bool is_url(const char *t) {
    const char *host = strstr(t, "://");
    if (!has_prefix(t, "https://") && !has_prefix(t, "http://")) return false;
    for (const char *c = t; *c; c++)
        if (*c <= ' ' || *c > '~') return false;
    return host[3] && !strchr("/?#:", host[3]);
}

/* Row of KIND in KIND/NAME; N_KINDS: none. */
static size_t kind_of(const char *t) {
    size_t i = 0;
    while (i < N_KINDS && !(has_prefix(t, kinds[i].kind) && t[strlen(kinds[i].kind)] == '/')) i++;
    return i;
}

static bool is_object_name(const char *name) {
    size_t n = strlen(name);
    if (n == 0 || n > MAX_NAME) return false;
    for (size_t i = 0; i < n; i++) {
        bool letter = (name[i] >= 'a' && name[i] <= 'z') || isdigit((unsigned char)name[i]);
        if (!letter && (i == 0 || i == n - 1 || !strchr("-.", name[i]))) return false;
    }
    return true;
}

char *qr_progress_shown(const char *target) {
    bool may_hold_secrets = strstr(target, "://") || strchr(target, '@');
    return may_hold_secrets ? qr_post_url_redacted(target) : qr_xstrdup(target);
}

enum qr_code qr_progress_check(const char *target, struct qr_err *err) {
    if (!target || !*target || strcmp(target, "none") == 0 || is_url(target)) return QR_OK;
    size_t k = kind_of(target);
    if (k < N_KINDS && is_object_name(target + strlen(kinds[k].kind) + 1)) return QR_OK;
    qr_auto(qr_buf_free) struct qr_buf known = {0};
    qr_auto(qr_free_p) char *shown = qr_progress_shown(target);
    for (size_t i = 0; i < N_KINDS; i++)
        qr_buf_printf(&known, "%s%s", i ? ", " : "", kinds[i].kind);
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "--progress-to: '%.80s' is not a valid target; give an http:// or "
                   "https:// URL, KIND/NAME such as job/qcnn (kinds: %s), or none",
                   shown, qr_buf_string(&known));
}

static const char *variable(char *const *environment, const char *name) {
    size_t n = strlen(name);
    for (; *environment; environment++)
        if (strncmp(*environment, name, n) == 0 && (*environment)[n] == '=' &&
            (*environment)[n + 1])
            return *environment + n + 1;
    return NULL;
}

static enum qr_code find_trainjob(char *const *environment, struct qr_progress_target *ret,
                                  struct qr_err *err) {
    const char *url = variable(environment, "KUBEFLOW_TRAINER_SERVER_URL"),
               *ca = variable(environment, "KUBEFLOW_TRAINER_SERVER_CA_CERT"),
               *token = variable(environment, "KUBEFLOW_TRAINER_SERVER_TOKEN");
    if (!url) return QR_OK;
    if (!is_url(url) || !has_prefix(url, "https://"))
        return qr_fail(err, QR_FAILED_PRECONDITION,
                       "KUBEFLOW_TRAINER_SERVER_URL is not an https:// URL");
    if (!ca || !token)
        return qr_fail(err, QR_FAILED_PRECONDITION,
                       "KUBEFLOW_TRAINER_SERVER_URL is set, but KUBEFLOW_TRAINER_SERVER_%s is not",
                       ca ? "TOKEN" : "CA_CERT");
    *ret = (struct qr_progress_target){.what = qr_xstrdup("the TrainJob"),
                                       .url = qr_xstrdup(url),
                                       .token_file = qr_xstrdup(token),
                                       .ca_file = qr_xstrdup(ca)};
    return QR_OK;
}

/* Reads the namespace of the pod; heap. */
static enum qr_code read_namespace(const char *account, char **ret, struct qr_err *err) {
    qr_auto(qr_free_p) char *path = qr_path_join(account, "namespace");
    qr_auto(qr_buf_free) struct qr_buf b = {0};
    enum qr_code code = qr_file_read(path, 4096, &b, err);
    while (b.n && isspace(b.p[b.n - 1])) b.p[--b.n] = 0;
    if (code != QR_OK) {
        struct qr_err why = *err;
        code = qr_fail(err, QR_FAILED_PRECONDITION,
                       "%s; check that the pod mounts its service account token "
                       "(automountServiceAccountToken)",
                       why.msg);
    } else if (strlen(qr_buf_string(&b)) != b.n || !is_object_name(qr_buf_string(&b))) {
        code =
            qr_fail(err, QR_FAILED_PRECONDITION, "%s does not hold the name of a namespace", path);
    } else {
        *ret = qr_xstrdup(qr_buf_string(&b));
    }
    return code;
}

static enum qr_code find_object(const char *target, const char *account, char *const *environment,
                                struct qr_progress_target *ret, struct qr_err *err) {
    const char *host = variable(environment, "KUBERNETES_SERVICE_HOST"),
               *port = variable(environment, "KUBERNETES_SERVICE_PORT");
    size_t k = kind_of(target);
    qr_auto(qr_free_p) char *name = NULL;
    if (!host)
        return qr_fail(
            err, QR_FAILED_PRECONDITION,
            "KUBERNETES_SERVICE_HOST is not set: this process is not in a Kubernetes pod");
    QR_TRY(read_namespace(account, &name, err));
    const char *open = strchr(host, ':') ? "[" : "", *close = *open ? "]" : "";
    char *url = qr_xasprintf("https://%s%s%s:%s/%s/namespaces/%s/%s/%s", open, host, close,
                             port ? port : "443", kinds[k].api, name, kinds[k].plural,
                             target + strlen(kinds[k].kind) + 1);
    if (!is_url(url)) {
        free(url);
        return qr_fail(
            err, QR_FAILED_PRECONDITION,
            "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not a valid address");
    }
    *ret = (struct qr_progress_target){.what = qr_xstrdup(target),
                                       .url = url,
                                       .token_file = qr_path_join(account, "token"),
                                       .ca_file = qr_path_join(account, "ca.crt"),
                                       .annotations = true};
    return QR_OK;
}

enum qr_code qr_progress_find(const char *target, const char *account, char *const *environment,
                              struct qr_progress_target *ret, struct qr_err *err) {
    *ret = (struct qr_progress_target){0};
    QR_TRY(qr_progress_check(target, err));
    if (!target || !*target) return find_trainjob(environment, ret, err);
    if (strcmp(target, "none") == 0) return QR_OK;
    if (!is_url(target)) return find_object(target, account, environment, ret, err);
    ret->what = qr_progress_shown(target);
    ret->url = qr_xstrdup(target);
    return QR_OK;
}

void qr_progress_target_fini(struct qr_progress_target *t) {
    free(t->what);
    free(t->url);
    free(t->token_file);
    free(t->ca_file);
    *t = (struct qr_progress_target){0};
}

/* ---- the sink ---- */

struct progress_listener {
    const struct qr_progress_target *target;
    struct qr_poster *poster;
    struct qr_pace pace;
    struct qr_buf text;
};

static enum qr_code send_progress(void *ctx, const struct qr_progress_snapshot *s,
                                  enum qr_report_kind when, struct qr_err *err) {
    struct progress_listener *p = ctx;
    const struct qr_progress_target *t = p->target;
    bool done = when == QR_REPORT_DONE;
    double left_s = qr_pace_left_s(&p->pace, qr_now_ns(&qr_clock_monotonic), s);
    int64_t wall_ns = qr_now_ns(&qr_clock_wall);
    const struct qr_post post = {.method = t->annotations ? "PATCH" : "POST",
                                 .url = t->url,
                                 .type = t->annotations ? "application/merge-patch+json"
                                                        : "application/json",
                                 .token_file = t->token_file,
                                 .ca_file = t->ca_file,
                                 .timeout_ms = done                     ? DONE_WITHIN_MS
                                               : when == QR_REPORT_LAST ? LAST_WITHIN_MS
                                                                        : WITHIN_MS};
    qr_buf_clear(&p->text);
    if (t->annotations) qr_progress_snapshot_annotations(s, done, left_s, wall_ns, &p->text);
    else qr_progress_snapshot_trainer_status(s, done, left_s, wall_ns, &p->text);
    enum qr_code code = qr_poster_send(p->poster, &post, qr_buf_view(&p->text), err);
    qr_count(code == QR_OK ? QR_PROGRESS_REPORTS : QR_PROGRESS_ERRORS, 1);
    if (code == QR_PERMISSION_DENIED && t->annotations)
        return qr_wrap(err, "the pod's service account may not patch it");
    return code;
}

static void free_sink(void *ctx) {
    struct progress_listener *p = ctx;
    qr_poster_free(p->poster);
    qr_buf_free(&p->text);
    free(p);
}

struct qr_progress_sink qr_progress_target_sink(const struct qr_progress_target *t,
                                                struct qr_web *(*web)(void)) {
    struct progress_listener *p = qr_xcalloc(1, sizeof *p);
    *p = (struct progress_listener){.target = t, .poster = qr_poster_new(web)};
    return (struct qr_progress_sink){.what = t->what,
                                     .every_ns = t->annotations ? object_every_ns : status_every_ns,
                                     .most_ns = most_ns,
                                     .send = send_progress,
                                     .free = free_sink,
                                     .ctx = p};
}
