/* cmd/qring/certs.c — qring certs: creates a CA and a certificate. Start reading at
 * qr_command_certs(). */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/parse.h"
#include "certificate/certificate.h"
#include "cmd/qring/command.h"

const char qr_help_certs[] =
    "Creates a job's CA and the certificate that all its workers present to each other, as a "
    "Kubernetes\n"
    "Secret or as three files.\n"
    "\n"
    "Examples:\n"
    "  qring certs qcnn --namespace ml --service qcnn --secret | kubectl apply -f -\n"
    "  qring certs qcnn --out certs               # tls.crt, tls.key, ca.crt for qringd --tls-dir "
    "certs\n"
    "  qring certs qcnn --out certs --keep-ca     # and ca.key, to renew under the same CA later:\n"
    "  qring certs qcnn --ca certs --out certs    # a new certificate and key; workers reload "
    "them\n"
    "\n"
    "Usage: qring certs JOB [FLAGS]\n"
    "  JOB is the job's name, or its job file (*.json, or - for standard input). The certificate "
    "is\n"
    "  issued to qring://NAMESPACE/JOB: workers reject those of other jobs.\n"
    "  --namespace NS         namespace of the pods [default]\n"
    "  --service NAME         headless Service of the pods [JOB]; its names are for other "
    "programs,\n"
    "                         workers do not need them\n"
    "  --days N               validity of CA and certificate, in days [365]\n"
    "  --out DIR              folder for tls.crt, tls.key and ca.crt, readable by the owner only\n"
    "  --secret               print a Secret of type kubernetes.io/tls on standard output\n"
    "  --name NAME            name of the Secret [JOB-tls]\n"
    "  --keep-ca              write ca.key too; without it nothing can be signed with this CA "
    "later\n"
    "  --ca DIR               sign with the CA in DIR (ca.crt, ca.key) instead of a new one\n"
    "  --force                replace files of another CA; workers that use them are cut off\n";

/* Valid from an hour ago, since clocks differ. */
enum { DAYS_MAX = 3650, DAY_S = 86400, BEFORE_S = 3600 };

struct certs {
    const char *name_space, *service, *days, *out, *name, *ca_dir;
    bool secret, keep_ca, force, help;
    char *job;
    struct qr_certificate_request order;
    struct qr_buf ca, ca_key;
    struct qr_certificate_set set;
};

/* ---- arguments ---- */

static enum qr_code job_name(const char *word, char **ret, struct qr_err *err) {
    size_t n = strlen(word);
    struct qr_job *job;
    bool input = strcmp(word, "-") == 0;
    if (!input && (n < 5 || strcmp(word + n - 5, ".json") != 0)) {
        *ret = qr_xstrdup(word);
        return QR_OK;
    }
    QR_TRY(qr_job_load(word, NULL, &job, err));
    *ret = qr_xstrdup(job->name);
    qr_job_free(job);
    return QR_OK;
}

static enum qr_code read_ca(struct certs *c, struct qr_err *err) {
    if (!c->ca_dir) return QR_OK;
    qr_auto(qr_free_p) char *ca = qr_path_join(c->ca_dir, "ca.crt"),
                            *key = qr_path_join(c->ca_dir, "ca.key");
    enum qr_code code = qr_file_read(ca, QR_CERTIFICATE_FILE_MAX, &c->ca, err);
    if (code == QR_OK) code = qr_file_read(key, QR_CERTIFICATE_FILE_MAX, &c->ca_key, err);
    if (code == QR_NOT_FOUND)
        return qr_wrap(err, "--ca %s (ca.key exists only if the CA was made with --keep-ca)",
                       c->ca_dir);
    c->order.ca = qr_buf_string(&c->ca);
    c->order.ca_key = qr_buf_string(&c->ca_key);
    return code;
}

static enum qr_code certs_check(struct certs *c, const struct qr_words *words, struct qr_err *err) {
    uint64_t days = 365;
    if (words->n == 0)
        return qr_fail(err, QR_INVALID_ARGUMENT, "the job is missing; give JOB (see --help)");
    if (!c->out == !c->secret)
        return qr_fail(err, QR_INVALID_ARGUMENT, "give either --out DIR or --secret");
    if (c->keep_ca && !c->out)
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "--keep-ca needs --out DIR: the key of a CA must not be in the workers' Secret");
    if (c->days && (!qr_parse_u64(c->days, &days) || days < 1 || days > DAYS_MAX))
        return qr_fail(err, QR_INVALID_ARGUMENT, "--days: '%.40s' is not a number in 1 ... %d",
                       c->days, DAYS_MAX);
    QR_TRY(job_name(words->v[0], &c->job, err));
    int64_t now_s = qr_now_ns(&qr_clock_wall) / QR_SECOND;
    c->order = (struct qr_certificate_request){
        .name_space = c->name_space ? c->name_space : "default",
        .job = c->job,
        .service = c->service ? c->service : c->job,
        .not_before_s = now_s - BEFORE_S,
        .not_after_s = now_s + (int64_t)days * DAY_S,
    };
    /* The CA is to sign later certificates. */
    if (c->keep_ca) c->order.ca_not_after_s = now_s + (int64_t)DAYS_MAX * DAY_S + BEFORE_S;
    return read_ca(c, err);
}

/* ---- output ---- */

static enum qr_code write_pem(const char *dir, const char *name, const struct qr_buf *text,
                              struct qr_err *err) {
    qr_auto(qr_free_p) char *path = qr_path_join(dir, name);
    return qr_file_replace(path, qr_buf_view(text), err);
}

/* Files of another CA under the same names may be in use by running workers. */
static enum qr_code check_replaceable_ca(const struct certs *c, struct qr_err *err) {
    qr_auto(qr_free_p) char *path = qr_path_join(c->out, "ca.crt");
    struct qr_buf old = {0};
    if (c->force || !qr_file_exists(path)) return QR_OK;
    enum qr_code code = qr_file_read(path, QR_CERTIFICATE_FILE_MAX, &old, err);
    bool same = code == QR_OK && strcmp(qr_buf_string(&old), qr_buf_string(&c->set.ca)) == 0;
    qr_buf_free(&old);
    if (code != QR_OK || same) return code;
    return qr_fail(err, QR_ALREADY_EXISTS,
                   "cannot replace %s: it is of another CA, and workers that use it would reject "
                   "the new certificates; renew with --ca %s, or replace with --force",
                   path, c->out);
}

/* The key is written last: until then a reader finds the old pair or one that does not match, which
 * it takes for incomplete. */
static enum qr_code write_files(const struct certs *c, struct qr_err *err) {
    enum qr_code code = check_replaceable_ca(c, err);
    mode_t mask = umask(0077);
    if (code == QR_OK) code = write_pem(c->out, "ca.crt", &c->set.ca, err);
    if (code == QR_OK && c->keep_ca) code = write_pem(c->out, "ca.key", &c->set.ca_key, err);
    if (code == QR_OK) code = write_pem(c->out, "tls.crt", &c->set.certificate, err);
    if (code == QR_OK) code = write_pem(c->out, "tls.key", &c->set.key, err);
    umask(mask);
    return code;
}

static void print_block(const char *name, const struct qr_buf *text) {
    printf("  %s: |\n", name);
    for (const char *line = qr_buf_string(text), *end; *line; line = end + (*end == '\n')) {
        end = line + strcspn(line, "\n");
        printf("    %.*s\n", (int)(end - line), line);
    }
}

/* Names of Kubernetes objects have lower-case letters, digits and '-'. */
static char *object_name(const char *text) {
    char *name = qr_xstrdup(text);
    for (char *p = name; *p; p++)
        *p = *p == '_' || *p == '.' ? '-' : (char)tolower((unsigned char)*p);
    return name;
}

static void print_secret(const struct certs *c) {
    qr_auto(qr_free_p) char *plain = c->name ? qr_xstrdup(c->name) : qr_xasprintf("%s-tls", c->job),
                            *name = object_name(plain);
    printf("apiVersion: v1\nkind: Secret\nmetadata:\n  name: %s\n  namespace: %s\n  labels:\n    "
           "app.kubernetes.io/name: qring\n",
           name, c->order.name_space);
    printf("type: kubernetes.io/tls\nstringData:\n");
    print_block("ca.crt", &c->set.ca);
    print_block("tls.crt", &c->set.certificate);
    print_block("tls.key", &c->set.key);
}

static void certs_print_summary(const struct certs *c) {
    char date[32] = "?";
    struct tm tm;
    time_t end = (time_t)c->order.not_after_s;
    if (gmtime_r(&end, &tm)) strftime(date, sizeof date, "%Y-%m-%d", &tm);
    if (!c->out) return;
    printf("wrote %s/tls.crt, tls.key, ca.crt%s: qring://%s/%s until %s\n", c->out,
           c->keep_ca ? ", ca.key" : "", c->order.name_space, c->job, date);
    printf("to use them: qringd --tls-dir %s\n", c->out);
}

int qr_command_certs(const struct qr_command *self, int argc, char **argv) {
    struct certs c = {0};
    const struct qr_flag flags[] = {
        {"--namespace", &c.name_space, NULL},
        {"--service", &c.service, NULL},
        {"--days", &c.days, NULL},
        {"--out", &c.out, NULL},
        {"--name", &c.name, NULL},
        {"--ca", &c.ca_dir, NULL},
        {"--secret", NULL, &c.secret},
        {"--keep-ca", NULL, &c.keep_ca},
        {"--force", NULL, &c.force},
    };
    struct qr_words words;
    struct qr_err err = {0};
    enum qr_code code = qr_read_flags(argc, argv, flags, sizeof flags / sizeof *flags, NULL, 1,
                                      &words, &c.help, &err);
    if (code == QR_OK && c.help) return qr_print_help(self);
    if (code == QR_OK) code = certs_check(&c, &words, &err);
    if (code == QR_OK) code = qr_certificate_make(&c.order, &c.set, &err);
    if (code == QR_OK && c.out) code = write_files(&c, &err);
    if (code == QR_OK && c.secret) print_secret(&c);
    if (code == QR_OK) certs_print_summary(&c);
    qr_certificate_wipe(&c.set);
    qr_buf_free(&c.ca);
    qr_buf_free(&c.ca_key);
    free(c.job);
    return code == QR_OK ? 0 : qr_exit_report(code, &err);
}
