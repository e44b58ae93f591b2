#include "cluster/certificate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "certificate/x509.h"

#define SCHEME "qring://"
enum { MAX_NAMES = 64 };
_Static_assert((int)QR_CERTIFICATE_TEXT == (int)QR_X509_TEXT, "one name is an identity");

/* ---- whose it is ---- */

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names that count: heap. */
struct identity_names {
    char *uri, *dns[MAX_NAMES];
    size_t n_dns;
};

static bool is_ours(const char *uri) { return strncmp(uri, SCHEME, strlen(SCHEME)) == 0; }

static const char *take_name(void *ctx, bool uri, const char *text) {
    struct identity_names *s = ctx;
    if (uri) {
        if (s->uri && (is_ours(s->uri) || !is_ours(text))) return NULL;
        free(s->uri);
        s->uri = qr_xstrdup(text);
        return NULL;
    }
    if (s->n_dns == MAX_NAMES) return "it has too many names";
    s->dns[s->n_dns++] = qr_xstrdup(text);
    return NULL;
}

static const char *identity_from(struct identity_names *s, struct qr_certificate_identity *ret) {
    if (s->uri) {
        ret->kind = QR_IDENTITY_URI;
        snprintf(ret->text, sizeof ret->text, "%s", s->uri);
        return NULL;
    }
    size_t used = 0;
    qsort(s->dns, s->n_dns, sizeof *s->dns, by_text);
    for (size_t i = 0; i < s->n_dns && used < sizeof ret->text; i++)
        used += (size_t)snprintf(ret->text + used, sizeof ret->text - used, "%s%s", i ? "," : "",
                                 s->dns[i]);
    /* a cut list could be equal to another */
    if (used >= sizeof ret->text) return "it has too many names";
    if (s->n_dns) ret->kind = QR_IDENTITY_DNS;
    return NULL;
}

/* False: it is no certificate. *ret_wrong: what is wrong with the names, or NULL; *ret is no
 * identity when there are none, or something is wrong. */
static bool identity_of(const char *pem, struct qr_certificate_identity *ret,
                        const char **ret_wrong) {
    struct identity_names s = {0};
    const struct qr_x509_taker taker = {take_name, &s};
    *ret = (struct qr_certificate_identity){0};
    bool is = qr_x509_names(pem, &taker, ret_wrong);
    if (is && !*ret_wrong) *ret_wrong = identity_from(&s, ret);
    if (!is || *ret_wrong) *ret = (struct qr_certificate_identity){0};
    for (size_t i = 0; i < s.n_dns; i++) free(s.dns[i]);
    free(s.uri);
    return is;
}

/* ---- a peer's ---- */

bool qr_certificate_readable(const char *pem) { return qr_x509_readable(pem); }

static enum qr_peer_fault fault_of(enum qr_x509_trust t) {
    switch (t) {
    case QR_X509_GOOD: return QR_PEER_FINE;
    case QR_X509_WRONG_CA: return QR_PEER_WRONG_CA;
    case QR_X509_EXPIRED: return QR_PEER_EXPIRED;
    case QR_X509_NOT_YET_VALID: return QR_PEER_NOT_YET_VALID;
    default: return QR_PEER_UNFIT;
    }
}

enum qr_peer_fault qr_certificate_peer(const char *ca, const char *leaf, const char *chain,
                                       const struct qr_certificate_identity *identity, bool server,
                                       int64_t unix_s, char ret_who[QR_CERTIFICATE_TEXT],
                                       const char **ret_why) {
    struct qr_certificate_identity theirs;
    const char *wrong;
    ret_who[0] = 0;
    *ret_why = "it is no certificate";
    if (!identity_of(leaf, &theirs, &wrong)) return QR_PEER_UNFIT;
    if (theirs.kind) snprintf(ret_who, QR_CERTIFICATE_TEXT, "%s", theirs.text);
    else qr_x509_common_name(leaf, ret_who);
    enum qr_peer_fault fault = fault_of(qr_x509_verify(ca, leaf, chain, server, unix_s, ret_why));
    if (fault != QR_PEER_FINE) return fault;
    if (wrong) {
        *ret_why = wrong;
        return QR_PEER_UNFIT;
    }
    bool same =
        theirs.kind && theirs.kind == identity->kind && strcmp(theirs.text, identity->text) == 0;
    return same ? QR_PEER_FINE : QR_PEER_FOREIGN_JOB;
}

/* ---- our own ---- */

struct own_files {
    struct qr_buf certificate, key, ca;
};

static enum qr_code check_pair(const struct qr_certificate_files *f, const struct own_files *own,
                               struct qr_err *err) {
    switch (qr_x509_pair(qr_buf_string(&own->certificate), qr_buf_string(&own->key))) {
    case QR_X509_PAIR: return QR_OK;
    case QR_X509_NO_CERTIFICATE:
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: no PEM certificate in it", f->certificate);
    case QR_X509_OTHER_KEY:
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s is not the key of the certificate in %s; both must be made together",
                       f->key, f->certificate);
    case QR_X509_KEY_ENCRYPTED:
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s is encrypted, and nobody is here to type its password; store it without "
                       "one (openssl "
                       "pkey -in OLD -out NEW)",
                       f->key);
    default: return qr_fail(err, QR_INVALID_ARGUMENT, "%s: no PEM private key in it", f->key);
    }
}

static enum qr_code check_trust(const struct qr_certificate_files *f, const struct own_files *own,
                                const struct qr_x509_dates *dates, int64_t unix_s,
                                struct qr_err *err) {
    const char *ca = qr_buf_string(&own->ca), *pem = qr_buf_string(&own->certificate), *why = "";
    bool soon;
    if (!qr_x509_readable(ca))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: no PEM certificates of a CA in it, or a damaged one", f->ca);
    for (int server = 0; server < 2; server++) {
        switch (qr_x509_verify(ca, pem, pem, server, unix_s, &why)) {
        case QR_X509_GOOD: break;
        case QR_X509_EXPIRED:
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "%s: the certificate or its CA has expired (the certificate ends %s); "
                           "make new ones: "
                           "qring certs",
                           f->certificate, dates->ends);
        case QR_X509_NOT_YET_VALID:
            soon = qr_x509_verify(ca, pem, pem, server, unix_s + QR_CERTIFICATE_SOON_S, &why) ==
                   QR_X509_GOOD;
            return qr_fail(err, soon ? QR_UNAVAILABLE : QR_INVALID_ARGUMENT,
                           "%s: the certificate or its CA is not valid yet (the certificate begins "
                           "%s); is this machine's clock right?",
                           f->certificate, dates->begins);
        case QR_X509_WRONG_CA:
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "%s was not issued by a CA in %s (%s); the three files belong together",
                           f->certificate, f->ca, why);
        default:
            return qr_fail(
                err, QR_INVALID_ARGUMENT,
                "%s cannot serve as a %s's certificate: %s; it needs the usages serverAuth and "
                "clientAuth",
                f->certificate, server ? "server" : "client", why);
        }
    }
    return QR_OK;
}

static enum qr_code check_identity(const struct qr_certificate_files *f,
                                   const struct own_files *own, struct qr_certificate_identity *ret,
                                   struct qr_err *err) {
    const char *wrong = NULL;
    identity_of(qr_buf_string(&own->certificate), ret, &wrong);
    if (wrong)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: the certificate cannot serve: %s",
                       f->certificate, wrong);
    if (ret->kind) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "%s: the certificate does not say whose it is; give it a URI name " SCHEME
                   "NAMESPACE/JOB, as qring certs does",
                   f->certificate);
}

static void wipe(struct qr_buf *b) {
    if (b->p) explicit_bzero(b->p, b->cap);
    qr_buf_free(b);
}

enum qr_code qr_certificate_check(const struct qr_certificate_files *f, int64_t unix_s,
                                  struct qr_certificate_own *ret, struct qr_err *err) {
    struct own_files own = {0};
    struct qr_x509_dates dates = {0};
    struct qr_certificate_identity identity = {0};
    enum qr_code code =
        qr_file_read(f->certificate, QR_CERTIFICATE_FILE_MAX, &own.certificate, err);
    if (code == QR_OK) code = qr_file_read(f->key, QR_CERTIFICATE_FILE_MAX, &own.key, err);
    if (code == QR_OK) code = qr_file_read(f->ca, QR_CERTIFICATE_FILE_MAX, &own.ca, err);
    if (code == QR_OK) code = check_pair(f, &own, err);
    if (code == QR_OK) qr_x509_dates(qr_buf_string(&own.certificate), &dates);
    if (code == QR_OK) code = check_trust(f, &own, &dates, unix_s, err);
    if (code == QR_OK) code = check_identity(f, &own, &identity, err);
    if (code == QR_OK)
        *ret = (struct qr_certificate_own){.identity = identity, .not_after_s = dates.ends_s};
    wipe(&own.certificate);
    wipe(&own.key);
    wipe(&own.ca);
    return code;
}

/* ---- new ones ---- */

static bool is_name(const char *s) {
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");
    return n > 0 && n < 100 && !s[n];
}

static enum qr_code check_order(const struct qr_certificate_order *o, struct qr_err *err) {
    const char *const names[] = {o->name_space, o->job, o->service ? o->service : "none"};
    static const char *const what[] = {"namespace", "job", "service"};
    for (int i = 0; i < 3; i++)
        if (!is_name(names[i]))
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "the %s '%.100s' cannot stand in a certificate: use at most 99 letters, "
                           "digits, '-', "
                           "'_', '.'",
                           what[i], names[i]);
    if (o->service && (!qr_x509_is_dns_name(o->service) || !qr_x509_is_dns_name(o->name_space)))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "no DNS name can be made of the service '%.100s' in the namespace '%.100s': "
                       "between two dots there "
                       "must be something",
                       o->service, o->name_space);
    return QR_OK;
}

/* Names for other programs (openssl, grpcurl) that go by the name they dialled; workers go by
 * the URI. */
static char *names_of(const struct qr_certificate_order *o) {
    struct qr_buf b = {0};
    qr_buf_printf(&b, "URI:" SCHEME "%s/%s,DNS:localhost,IP:127.0.0.1,IP:::1", o->name_space,
                  o->job);
    if (o->service) {
        qr_buf_printf(&b, ",DNS:*.%s", o->service);
        qr_buf_printf(&b, ",DNS:*.%s.%s", o->service, o->name_space);
        qr_buf_printf(&b, ",DNS:*.%s.%s.svc", o->service, o->name_space);
        qr_buf_printf(&b, ",DNS:*.%s.%s.svc.cluster.local", o->service, o->name_space);
    }
    return (char *)b.p;
}

enum qr_code qr_certificate_make(const struct qr_certificate_order *o,
                                 struct qr_certificate_set *ret, struct qr_err *err) {
    struct qr_certificate_set set = {0};
    enum qr_code code = check_order(o, err);
    if (code != QR_OK) return code;
    qr_auto(qr_free_p) char *name = qr_xasprintf("qring worker of %s/%s", o->name_space, o->job),
                            *ca_name = qr_xasprintf("qring CA of %s/%s", o->name_space, o->job),
                            *names = names_of(o);
    const struct qr_x509_order order = {
        .common_name = name,
        .ca_common_name = ca_name,
        .names = names,
        .not_before_s = o->not_before_s,
        .not_after_s = o->not_after_s,
        .ca_not_after_s = o->ca_not_after_s,
        .ca = o->ca,
        .ca_key = o->ca_key,
    };
    code = qr_x509_make(&order, &set.certificate, &set.key, &set.ca, &set.ca_key, err);
    if (code == QR_OK) *ret = set;
    else qr_certificate_wipe(&set);
    return code;
}

void qr_certificate_wipe(struct qr_certificate_set *s) {
    wipe(&s->certificate);
    wipe(&s->key);
    wipe(&s->ca);
    wipe(&s->ca_key);
}
