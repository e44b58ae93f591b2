/* certificate/certificate_make.c — makes certificates and CAs. Start reading at
 * qr_certificate_make(). */
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "certificate/certificate_impl.h"

enum { COMMON_NAME_MAX = 64 }; /* ub-common-name, RFC 5280 */

struct extension {
    int nid;
    const char *value;
};

/* An unsigned certificate for this key; from_s, to_s: seconds since 1970. issuer NULL: its own. */
static X509 *new_certificate(EVP_PKEY *key, const char *common_name, X509 *issuer, int64_t from_s,
                             int64_t to_s) {
    X509 *x = X509_new();
    uint8_t serial[16];
    qr_entropy(serial, sizeof serial);
    serial[0] = (uint8_t)((serial[0] & 0x3f) | 0x40); /* positive, and of constant length */
    BIGNUM *number = BN_bin2bn(serial, sizeof serial, NULL);
    X509_NAME *subject = X509_get_subject_name(x);
    qr_auto(qr_free_p) char *name = qr_xstrndup(common_name, COMMON_NAME_MAX);
    bool good = X509_set_version(x, X509_VERSION_3) == 1 &&
                BN_to_ASN1_INTEGER(number, X509_get_serialNumber(x)) != NULL &&
                ASN1_TIME_set(X509_getm_notBefore(x), (time_t)from_s) != NULL &&
                ASN1_TIME_set(X509_getm_notAfter(x), (time_t)to_s) != NULL &&
                X509_set_pubkey(x, key) == 1 &&
                X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_UTF8,
                                           (const unsigned char *)name, -1, -1, 0) == 1 &&
                X509_set_issuer_name(x, issuer ? X509_get_subject_name(issuer) : subject) == 1;
    BN_free(number);
    if (good) return x;
    X509_free(x);
    return NULL;
}

/* Adds n extensions and signs. Returns x, or frees it and returns NULL. */
static X509 *extend_and_sign(X509 *x, const struct extension *e, size_t n, X509 *issuer,
                             EVP_PKEY *issuer_key) {
    bool good = x != NULL;
    for (size_t i = 0; good && i < n; i++) {
        X509V3_CTX ctx;
        X509V3_set_ctx_nodb(&ctx);
        X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
        X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, e[i].nid, e[i].value);
        good = extension && X509_add_ext(x, extension, -1) == 1;
        X509_EXTENSION_free(extension);
    }
    if (good && X509_sign(x, issuer_key, EVP_sha256()) > 0) return x;
    X509_free(x);
    return NULL;
}

static X509 *new_ca(EVP_PKEY *key, const struct qr_certificate_request *o) {
    static const struct extension extensions[] = {
        {NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
        {NID_key_usage, "critical,keyCertSign,cRLSign"},
        {NID_subject_key_identifier, "hash"},
    };
    qr_auto(qr_free_p) char *name = qr_xasprintf("qring CA of %s/%s", o->name_space, o->job);
    X509 *x = new_certificate(key, name, NULL, o->not_before_s,
                              o->ca_not_after_s ? o->ca_not_after_s : o->not_after_s);
    return extend_and_sign(x, extensions, sizeof extensions / sizeof *extensions, x, key);
}

static X509 *new_leaf(EVP_PKEY *key, X509 *ca, EVP_PKEY *ca_key,
                      const struct qr_certificate_request *o) {
    qr_auto(qr_buf_free) struct qr_buf names = {0};
    qr_buf_printf(&names, "URI:" CERTIFICATE_SCHEME "%s/%s,DNS:localhost,IP:127.0.0.1,IP:::1",
                  o->name_space, o->job);
    /* The DNS names are for other programs (openssl, grpcurl), which check the dialed name. Workers
     * check the URI. */
    if (o->service)
        qr_buf_printf(&names,
                      ",DNS:*.%1$s,DNS:*.%1$s.%2$s,DNS:*.%1$s.%2$s.svc,"
                      "DNS:*.%1$s.%2$s.svc.cluster.local",
                      o->service, o->name_space);
    const struct extension extensions[] = {
        {NID_basic_constraints, "critical,CA:FALSE"},
        {NID_key_usage, "critical,digitalSignature"},
        {NID_ext_key_usage, "serverAuth,clientAuth"},
        {NID_subject_alt_name, qr_buf_string(&names)},
        {NID_subject_key_identifier, "hash"},
        {NID_authority_key_identifier, "keyid:always"},
    };
    qr_auto(qr_free_p) char *name = qr_xasprintf("qring worker of %s/%s", o->name_space, o->job);
    X509 *x = extend_and_sign(new_certificate(key, name, ca, o->not_before_s, o->not_after_s),
                              extensions, sizeof extensions / sizeof *extensions, ca, ca_key);
    return x;
}

/* ---- PEM ---- */

static bool append_bio(BIO *bio, bool good, struct qr_buf *ret) {
    char *p;
    long n = BIO_get_mem_data(bio, &p);
    qr_buf_put(ret, p, (size_t)n);
    OPENSSL_cleanse(p, (size_t)n);
    BIO_free(bio);
    return good;
}

bool certificate_put(X509 *x, struct qr_buf *ret) {
    BIO *bio = BIO_new(BIO_s_mem());
    return append_bio(bio, PEM_write_bio_X509(bio, x) == 1, ret);
}

bool certificate_put_key(EVP_PKEY *key, struct qr_buf *ret) {
    BIO *bio = BIO_new(BIO_s_mem());
    return append_bio(bio, PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1,
                      ret);
}

/* ---- requests ---- */

static enum qr_code check_request(const struct qr_certificate_request *o, struct qr_err *err) {
    const char *const names[] = {o->name_space, o->job, o->service ? o->service : "none"};
    static const char *const what[] = {"namespace", "job", "service"};
    for (int i = 0; i < 3; i++)
        if (!qr_is_name(names[i], 99, "-_."))
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "the %s '%.100s' cannot be used in a certificate: use at most 99 "
                           "letters, digits, '-', '_', '.'",
                           what[i], names[i]);
    if (o->service &&
        (!certificate_is_dns_name(o->service) || !certificate_is_dns_name(o->name_space)))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cannot make a DNS name of the service '%.100s' in the namespace '%.100s': "
                       "a part between dots is empty",
                       o->service, o->name_space);
    return QR_OK;
}

/* Returns OpenSSL's last error as text (static or of this thread) and clears its queue. */
static const char *openssl_reason(void) {
    unsigned long e = ERR_peek_last_error();
    const char *text = e ? ERR_reason_error_string(e) : NULL;
    ERR_clear_error();
    return text ? text : "no reason given";
}

/* Loads the CA of the request, or makes a new one. */
static enum qr_code load_or_make_ca(const struct qr_certificate_request *o, X509 **ret,
                                    EVP_PKEY **ret_key, struct qr_err *err) {
    *ret_key = o->ca_key ? certificate_key(o->ca_key) : EVP_EC_gen("P-256");
    *ret = !*ret_key ? NULL : o->ca ? certificate_first(o->ca) : new_ca(*ret_key, o);
    if (!*ret)
        return qr_fail(err, QR_INVALID_ARGUMENT, "cannot use the CA's certificate and key: %s",
                       openssl_reason());
    if (X509_check_private_key(*ret, *ret_key) != 1) {
        ERR_clear_error();
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "the CA's key does not match the CA's certificate");
    }
    time_t end = (time_t)o->not_after_s - 1; /* X509_cmp_time: -1 means at or before */
    if (X509_cmp_time(X509_get0_notAfter(*ret), &end) < 0)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "the certificate would outlive its CA; choose fewer days or make a new CA");
    return QR_OK;
}

enum qr_code qr_certificate_make(const struct qr_certificate_request *o,
                                 struct qr_certificate_set *ret, struct qr_err *err) {
    qr_auto(certificate_free_p) X509 *ca = NULL, *leaf = NULL;
    qr_auto(certificate_key_free_p) EVP_PKEY *ca_key = NULL, *key = NULL;
    struct qr_certificate_set set = {0};
    QR_TRY(check_request(o, err));
    QR_TRY(load_or_make_ca(o, &ca, &ca_key, err));
    key = EVP_EC_gen("P-256");
    leaf = key ? new_leaf(key, ca, ca_key, o) : NULL;
    if (!leaf || !certificate_put(leaf, &set.certificate) || !certificate_put_key(key, &set.key) ||
        !certificate_put(ca, &set.ca) || !certificate_put_key(ca_key, &set.ca_key)) {
        qr_certificate_wipe(&set);
        return qr_fail(err, QR_INTERNAL, "cannot make a certificate: %s", openssl_reason());
    }
    ERR_clear_error();
    *ret = set;
    return QR_OK;
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
