/* certificate/x509.c — see x509.h: checking what we show and what a peer shows. */
#include "certificate/x509.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "certificate/x509_impl.h"

enum { MAX_NAMES = 64, MAX_CHAIN = 16, DNS_MAX = 253, SECURITY_LEVEL = 2 }; /* 2: 112 bits, as Debian's TLS asks for; no SHA-1, no RSA below 2048 */

static int no_password(char *buf, int size, int rwflag, void *ctx) {
    (void)buf;
    (void)size;
    (void)rwflag;
    (void)ctx;
    return -1;
}

const char *certificate_reason(void) {
    unsigned long e = ERR_peek_last_error();
    const char *text = e ? ERR_reason_error_string(e) : NULL;
    ERR_clear_error();
    return text ? text : "no reason given";
}

static BIO *bio_of(const char *pem) { return BIO_new_mem_buf(pem, (int)strlen(pem)); }

X509 *certificate_first(const char *pem) {
    BIO *bio = bio_of(pem);
    X509 *x = PEM_read_bio_X509(bio, NULL, no_password, NULL);
    BIO_free(bio);
    return x;
}

EVP_PKEY *certificate_key(const char *pem) {
    BIO *bio = bio_of(pem);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL);
    BIO_free(bio);
    return key;
}

/* All certificates of a text into to (a stack or a store); -1 when one cannot be read. */
static int each(const char *pem, STACK_OF(X509) *stack, X509_STORE *store) {
    BIO *bio = bio_of(pem);
    int n = 0;
    bool good = true;
    for (X509 *x; good && (x = PEM_read_bio_X509(bio, NULL, no_password, NULL)); n++) {
        if (store) good = X509_STORE_add_cert(store, x) == 1;
        if (stack) good = n < MAX_CHAIN && sk_X509_push(stack, X509_dup(x)) > 0;
        X509_free(x);
    }
    if (good) good = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE; /* else it was not the end that stopped us */
    ERR_clear_error();
    BIO_free(bio);
    return good ? n : -1;
}

bool qr_certificate_readable(const char *pem) { return each(pem, NULL, NULL) > 0; }

/* ---- whose it is ---- */

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* A name as text, borrowed; NULL when it holds what a text cannot. */
static const char *name_text(const ASN1_STRING *s) {
    const char *text = (const char *)ASN1_STRING_get0_data(s);
    size_t bytes = (size_t)ASN1_STRING_length(s);
    if (!bytes || strnlen(text, bytes) != bytes || bytes >= QR_CERTIFICATE_TEXT) return NULL;
    for (size_t i = 0; i < bytes; i++)
        if (text[i] <= ' ' || text[i] > '~') return NULL;
    return text;
}

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

static bool is_uri(const char *text) {
    size_t scheme = strspn(text, LETTERS DIGITS "+-.");
    return strspn(text, LETTERS) > 0 && text[scheme] == ':';
}

bool certificate_is_dns_name(const char *text) {
    size_t n = strlen(text);
    if (n > DNS_MAX) return false;
    if (strncmp(text, "*.", 2) == 0) text += 2;
    for (;; text++) {
        size_t label = strspn(text, LETTERS DIGITS "-_");
        if (!label) return false;
        text += label;
        if (*text != '.') return !*text;
    }
}

static void common_name(X509 *x, char ret[QR_CERTIFICATE_TEXT]) {
    if (X509_NAME_get_text_by_NID(X509_get_subject_name(x), NID_commonName, ret, QR_CERTIFICATE_TEXT) < 0) ret[0] = 0;
    for (char *c = ret; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
}

/* The names that count, borrowed. */
struct names { const char *uri, *dns[MAX_NAMES]; size_t n_dns; };

/* What is wrong with it, or NULL. E-mail addresses, IP addresses and names of other kinds say nothing here. */
static const char *add_name(struct names *s, const GENERAL_NAME *n) {
    int kind;
    const void *value = GENERAL_NAME_get0_value(n, &kind);
    if (kind != GEN_URI && kind != GEN_DNS) return NULL;
    const char *text = name_text(value);
    if (kind == GEN_URI) {
        if (!text || !is_uri(text)) return "a URI in it is none";
        bool ours = strncmp(text, "qring://", 8) == 0;
        if (!s->uri || (ours && strncmp(s->uri, "qring://", 8) != 0)) s->uri = text;
        return NULL;
    }
    if (!text || !certificate_is_dns_name(text)) return "a DNS name in it is none";
    if (s->n_dns == MAX_NAMES) return "it has too many names";
    s->dns[s->n_dns++] = text;
    return NULL;
}

static const char *identity_from(struct names *s, struct qr_certificate_identity *ret) {
    if (s->uri) {
        ret->kind = QR_IDENTITY_URI;
        snprintf(ret->text, sizeof ret->text, "%s", s->uri);
        return NULL;
    }
    size_t used = 0;
    qsort(s->dns, s->n_dns, sizeof *s->dns, by_text);
    for (size_t i = 0; i < s->n_dns && used < sizeof ret->text; i++)
        used += (size_t)snprintf(ret->text + used, sizeof ret->text - used, "%s%s", i ? "," : "", s->dns[i]);
    if (used >= sizeof ret->text) return "it has too many names"; /* a cut list could be equal to another */
    if (s->n_dns) ret->kind = QR_IDENTITY_DNS;
    return NULL;
}

/* What is wrong with the names, or NULL; *ret is no identity when there are none, or something is wrong. */
static const char *identity_of(X509 *x, struct qr_certificate_identity *ret) {
    int found;
    GENERAL_NAMES *names = X509_get_ext_d2i(x, NID_subject_alt_name, &found, NULL);
    struct names s = {0};
    const char *why = names || found == -1 ? NULL : "its names cannot be read";
    *ret = (struct qr_certificate_identity){0};
    for (int i = 0; !why && i < sk_GENERAL_NAME_num(names); i++) why = add_name(&s, sk_GENERAL_NAME_value(names, i));
    if (!why) why = identity_from(&s, ret);
    if (why) *ret = (struct qr_certificate_identity){0};
    GENERAL_NAMES_free(names);
    return why;
}

/* ---- is it good? ---- */

static enum qr_peer_fault fault_of(int e) {
    switch (e) {
    case X509_V_OK: return QR_PEER_FINE;
    case X509_V_ERR_CERT_HAS_EXPIRED: return QR_PEER_EXPIRED;
    case X509_V_ERR_CERT_NOT_YET_VALID: return QR_PEER_NOT_YET_VALID;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_CERT_UNTRUSTED: return QR_PEER_WRONG_CA;
    default: return QR_PEER_UNFIT;
    }
}

static enum qr_peer_fault verify(X509 *leaf, const char *ca, const char *chain, bool server, int64_t unix_s, const char **ret_why) {
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    STACK_OF(X509) *others = sk_X509_new_null();
    int e = X509_V_ERR_UNSPECIFIED;
    if (each(ca, NULL, store) > 0 && (!chain || each(chain, others, NULL) >= 0) && X509_STORE_CTX_init(ctx, store, leaf, others) == 1) {
        X509_VERIFY_PARAM *p = X509_STORE_CTX_get0_param(ctx);
        X509_VERIFY_PARAM_set_flags(p, X509_V_FLAG_PARTIAL_CHAIN); /* a bundle may hold an issuer without its root */
        X509_VERIFY_PARAM_set_auth_level(p, SECURITY_LEVEL);
        X509_VERIFY_PARAM_set_time(p, (time_t)unix_s);
        X509_STORE_CTX_set_purpose(ctx, server ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT);
        e = X509_verify_cert(ctx) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(ctx);
        if (e == X509_V_OK && X509_STORE_CTX_get_error(ctx) != X509_V_OK) e = X509_V_ERR_UNSPECIFIED;
    }
    *ret_why = e == X509_V_OK ? "" : X509_verify_cert_error_string(e);
    sk_X509_pop_free(others, X509_free);
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    ERR_clear_error();
    return e == X509_V_OK ? QR_PEER_FINE : fault_of(e);
}

enum qr_peer_fault qr_certificate_peer(const char *ca, const char *leaf, const char *chain, const struct qr_certificate_identity *identity,
                                       bool server, int64_t unix_s, char ret_who[QR_CERTIFICATE_TEXT], const char **ret_why) {
    struct qr_certificate_identity theirs;
    X509 *x = certificate_first(leaf);
    ret_who[0] = 0;
    *ret_why = "it is no certificate";
    ERR_clear_error();
    if (!x) return QR_PEER_UNFIT;
    const char *odd = identity_of(x, &theirs);
    if (theirs.kind) snprintf(ret_who, QR_CERTIFICATE_TEXT, "%s", theirs.text);
    else common_name(x, ret_who);
    enum qr_peer_fault fault = verify(x, ca, chain, server, unix_s, ret_why);
    X509_free(x);
    if (fault != QR_PEER_FINE) return fault;
    if (odd) {
        *ret_why = odd;
        return QR_PEER_UNFIT;
    }
    bool same = theirs.kind && theirs.kind == identity->kind && strcmp(theirs.text, identity->text) == 0;
    return same ? QR_PEER_FINE : QR_PEER_FOREIGN_JOB;
}

/* ---- our own ---- */

struct own { struct qr_buf certificate, key, ca; };

static enum qr_code check_pair(const struct qr_certificate_files *f, const struct own *own, X509 **ret, struct qr_err *err) {
    const char *key_text = qr_buf_string(&own->key);
    X509 *x = certificate_first(qr_buf_string(&own->certificate));
    ERR_clear_error();
    if (!x) return qr_fail(err, QR_INVALID_ARGUMENT, "%s: no PEM certificate in it", f->certificate);
    EVP_PKEY *key = certificate_key(key_text);
    bool same = key && X509_check_private_key(x, key) == 1;
    EVP_PKEY_free(key);
    ERR_clear_error();
    if (same) {
        *ret = x;
        return QR_OK;
    }
    X509_free(x);
    if (key)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s is not the key of the certificate in %s; both must be made together", f->key,
                       f->certificate);
    if (strstr(key_text, "ENCRYPTED"))
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s is encrypted, and nobody is here to type its password; store it without one (openssl "
                                                 "pkey -in OLD -out NEW)",
                       f->key);
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s: no PEM private key in it", f->key);
}

static int64_t seconds_of(const ASN1_TIME *t) {
    ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
    int days = 0, seconds = 0;
    if (ASN1_TIME_diff(&days, &seconds, epoch, t) != 1) days = seconds = 0;
    ASN1_TIME_free(epoch);
    return (int64_t)days * 86400 + seconds;
}

static const char *date_of(const ASN1_TIME *t, char ret[64]) {
    BIO *bio = BIO_new(BIO_s_mem());
    ASN1_TIME_print(bio, t);
    int n = BIO_read(bio, ret, 63);
    ret[n > 0 ? n : 0] = 0;
    BIO_free(bio);
    return ret;
}

static enum qr_code check_trust(const struct qr_certificate_files *f, const struct own *own, X509 *x, int64_t unix_s, struct qr_err *err) {
    const char *ca = qr_buf_string(&own->ca), *chain = qr_buf_string(&own->certificate), *why = "";
    char date[64];
    bool soon;
    if (!qr_certificate_readable(ca))
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: no PEM certificates of a CA in it, or a damaged one", f->ca);
    for (int server = 0; server < 2; server++) {
        switch (verify(x, ca, chain, server, unix_s, &why)) {
        case QR_PEER_FINE: break;
        case QR_PEER_EXPIRED:
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s: the certificate or its CA has expired (the certificate ends %s); make new ones: "
                                                     "qring certs",
                           f->certificate, date_of(X509_get0_notAfter(x), date));
        case QR_PEER_NOT_YET_VALID:
            soon = verify(x, ca, chain, server, unix_s + QR_CERTIFICATE_SOON_S, &why) == QR_PEER_FINE;
            return qr_fail(err, soon ? QR_UNAVAILABLE : QR_INVALID_ARGUMENT,
                           "%s: the certificate or its CA is not valid yet (the certificate begins %s); is this machine's clock right?",
                           f->certificate, date_of(X509_get0_notBefore(x), date));
        case QR_PEER_WRONG_CA:
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s was not issued by a CA in %s (%s); the three files belong together",
                           f->certificate, f->ca, why);
        default:
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s cannot serve as a %s's certificate: %s; it needs the usages serverAuth and "
                                                     "clientAuth",
                           f->certificate, server ? "server" : "client", why);
        }
    }
    return QR_OK;
}

enum qr_code qr_certificate_check(const struct qr_certificate_files *f, int64_t unix_s, struct qr_certificate_own *ret,
                                  struct qr_err *err) {
    struct own own = {0};
    X509 *x = NULL;
    struct qr_certificate_identity identity = {0};
    enum qr_code code = qr_file_read(f->certificate, QR_CERTIFICATE_FILE_MAX, &own.certificate, err);
    if (code == QR_OK) code = qr_file_read(f->key, QR_CERTIFICATE_FILE_MAX, &own.key, err);
    if (code == QR_OK) code = qr_file_read(f->ca, QR_CERTIFICATE_FILE_MAX, &own.ca, err);
    if (code == QR_OK) code = check_pair(f, &own, &x, err);
    if (code == QR_OK) code = check_trust(f, &own, x, unix_s, err);
    if (code == QR_OK) {
        const char *odd = identity_of(x, &identity);
        if (odd)
            code = qr_fail(err, QR_INVALID_ARGUMENT, "%s: the certificate cannot serve: %s", f->certificate, odd);
        else if (!identity.kind)
            code = qr_fail(err, QR_INVALID_ARGUMENT, "%s: the certificate does not say whose it is; give it a URI name "
                                                     "qring://NAMESPACE/JOB, as qring certs does",
                           f->certificate);
    }
    if (code == QR_OK) *ret = (struct qr_certificate_own){.identity = identity, .not_after_s = seconds_of(X509_get0_notAfter(x))};
    X509_free(x);
    if (own.key.p) OPENSSL_cleanse(own.key.p, own.key.cap);
    qr_buf_free(&own.certificate);
    qr_buf_free(&own.key);
    qr_buf_free(&own.ca);
    return code;
}
