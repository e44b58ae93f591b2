/* cluster/certificate.c — identities of certificates, checking a peer's, and making new ones. Start
 * reading at qr_certificate_peer() and qr_certificate_make(). */
#include "cluster/certificate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "certificate/x509.h"
#include "cluster/certificate_impl.h"

enum { MAX_NAMES = 64 };
_Static_assert((int)QR_CERTIFICATE_TEXT == (int)QR_X509_TEXT, "one name is an identity");

/* ---- identity ---- */

static int compare_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names that form the identity; heap. */
struct identity_names {
    char *uri, *dns[MAX_NAMES];
    size_t n_dns;
};

static bool is_qring_uri(const char *uri) {
    return strncmp(uri, CERTIFICATE_SCHEME, strlen(CERTIFICATE_SCHEME)) == 0;
}

static const char *collect_name(void *ctx, bool uri, const char *text) {
    struct identity_names *s = ctx;
    if (uri) {
        if (s->uri && (is_qring_uri(s->uri) || !is_qring_uri(text))) return NULL;
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
    qsort(s->dns, s->n_dns, sizeof *s->dns, compare_text);
    for (size_t i = 0; i < s->n_dns && used < sizeof ret->text; i++)
        used += (size_t)snprintf(ret->text + used, sizeof ret->text - used, "%s%s", i ? "," : "",
                                 s->dns[i]);
    /* A truncated list could equal another one. */
    if (used >= sizeof ret->text) return "it has too many names";
    if (s->n_dns) ret->kind = QR_IDENTITY_DNS;
    return NULL;
}

bool certificate_identity(const char *pem, struct qr_certificate_identity *ret,
                          const char **ret_wrong) {
    struct identity_names s = {0};
    const struct qr_x509_name_visitor taker = {collect_name, &s};
    *ret = (struct qr_certificate_identity){0};
    bool is = qr_x509_names(pem, &taker, ret_wrong);
    if (is && !*ret_wrong) *ret_wrong = identity_from(&s, ret);
    if (!is || *ret_wrong) *ret = (struct qr_certificate_identity){0};
    for (size_t i = 0; i < s.n_dns; i++) free(s.dns[i]);
    free(s.uri);
    return is;
}

/* ---- a peer's certificate ---- */

static enum qr_peer_fault peer_fault_of(enum qr_x509_trust t) {
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
                                       int64_t unix_s, char ret_subject[QR_CERTIFICATE_TEXT],
                                       const char **ret_reason) {
    struct qr_certificate_identity peer_identity;
    const char *wrong;
    ret_subject[0] = 0;
    *ret_reason = "it is not a certificate";
    if (!certificate_identity(leaf, &peer_identity, &wrong)) return QR_PEER_UNFIT;
    if (peer_identity.kind) snprintf(ret_subject, QR_CERTIFICATE_TEXT, "%s", peer_identity.text);
    else qr_x509_common_name(leaf, ret_subject);
    enum qr_peer_fault fault =
        peer_fault_of(qr_x509_verify(ca, leaf, chain, server, unix_s, ret_reason));
    if (fault != QR_PEER_FINE) return fault;
    if (wrong) {
        *ret_reason = wrong;
        return QR_PEER_UNFIT;
    }
    bool same = peer_identity.kind && peer_identity.kind == identity->kind &&
                strcmp(peer_identity.text, identity->text) == 0;
    return same ? QR_PEER_FINE : QR_PEER_FOREIGN_JOB;
}

/* ---- new certificates ---- */

static enum qr_code check_request(const struct qr_certificate_request *o, struct qr_err *err) {
    const char *const names[] = {o->name_space, o->job, o->service ? o->service : "none"};
    static const char *const what[] = {"namespace", "job", "service"};
    for (int i = 0; i < 3; i++)
        if (!qr_is_name(names[i], 99, "-_."))
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "the %s '%.100s' cannot be used in a certificate: use at most 99 "
                           "letters, digits, '-', '_', '.'",
                           what[i], names[i]);
    if (o->service && (!qr_x509_is_dns_name(o->service) || !qr_x509_is_dns_name(o->name_space)))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cannot make a DNS name of the service '%.100s' in the namespace '%.100s': "
                       "a part between dots is empty",
                       o->service, o->name_space);
    return QR_OK;
}

/* The DNS names are for other programs (openssl, grpcurl), which check the dialed name. Workers
 * check the URI. */
static char *format_names(const struct qr_certificate_request *o) {
    struct qr_buf b = {0};
    qr_buf_printf(&b, "URI:" CERTIFICATE_SCHEME "%s/%s,DNS:localhost,IP:127.0.0.1,IP:::1",
                  o->name_space, o->job);
    if (o->service) {
        qr_buf_printf(&b, ",DNS:*.%s", o->service);
        qr_buf_printf(&b, ",DNS:*.%s.%s", o->service, o->name_space);
        qr_buf_printf(&b, ",DNS:*.%s.%s.svc", o->service, o->name_space);
        qr_buf_printf(&b, ",DNS:*.%s.%s.svc.cluster.local", o->service, o->name_space);
    }
    return (char *)b.p;
}

enum qr_code qr_certificate_make(const struct qr_certificate_request *o,
                                 struct qr_certificate_set *ret, struct qr_err *err) {
    struct qr_certificate_set set = {0};
    enum qr_code code = check_request(o, err);
    if (code != QR_OK) return code;
    qr_auto(qr_free_p) char *name = qr_xasprintf("qring worker of %s/%s", o->name_space, o->job),
                            *ca_name = qr_xasprintf("qring CA of %s/%s", o->name_space, o->job),
                            *names = format_names(o);
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

void certificate_wipe_text(struct qr_buf *text) {
    if (text->p) explicit_bzero(text->p, text->cap);
    qr_buf_free(text);
}

void qr_certificate_wipe(struct qr_certificate_set *s) {
    certificate_wipe_text(&s->certificate);
    certificate_wipe_text(&s->key);
    certificate_wipe_text(&s->ca);
    certificate_wipe_text(&s->ca_key);
}
