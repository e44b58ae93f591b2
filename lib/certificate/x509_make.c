/* certificate/x509_make.c — makes certificates and CAs. Start reading at qr_x509_make(). */
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "certificate/x509.h"
#include "certificate/x509_impl.h"

enum { COMMON_NAME_MAX = 64 }; /* ub-common-name, RFC 5280 */

static bool add_extension(X509 *x, X509 *issuer, int nid, const char *value) {
    X509V3_CTX ctx;
    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool good = e && X509_add_ext(x, e, -1) == 1;
    X509_EXTENSION_free(e);
    return good;
}

/* A certificate without extensions and signature. */
static X509 *new_certificate(EVP_PKEY *key, const char *common_name, const X509_NAME *issuer,
                             int64_t from_s, int64_t to_s) {
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
                X509_set_issuer_name(x, issuer ? issuer : subject) == 1;
    BN_free(number);
    if (good) return x;
    X509_free(x);
    return NULL;
}

static X509 *new_ca(EVP_PKEY *key, const struct qr_x509_order *o) {
    X509 *x = new_certificate(key, o->ca_common_name, NULL, o->not_before_s,
                              o->ca_not_after_s ? o->ca_not_after_s : o->not_after_s);
    if (x && add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
        add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
        add_extension(x, x, NID_subject_key_identifier, "hash") &&
        X509_sign(x, key, EVP_sha256()) > 0)
        return x;
    X509_free(x);
    return NULL;
}

static X509 *new_leaf(EVP_PKEY *key, X509 *ca, EVP_PKEY *ca_key, const struct qr_x509_order *o) {
    X509 *x = new_certificate(key, o->common_name, X509_get_subject_name(ca), o->not_before_s,
                              o->not_after_s);
    if (x && add_extension(x, ca, NID_basic_constraints, "critical,CA:FALSE") &&
        add_extension(x, ca, NID_key_usage, "critical,digitalSignature") &&
        add_extension(x, ca, NID_ext_key_usage, "serverAuth,clientAuth") &&
        add_extension(x, ca, NID_subject_alt_name, o->names) &&
        add_extension(x, ca, NID_subject_key_identifier, "hash") &&
        add_extension(x, ca, NID_authority_key_identifier, "keyid:always") &&
        X509_sign(x, ca_key, EVP_sha256()) > 0)
        return x;
    X509_free(x);
    return NULL;
}

/* ---- PEM ---- */

static void append_bio(BIO *bio, struct qr_buf *ret) {
    char *p;
    long n = BIO_get_mem_data(bio, &p);
    qr_buf_put(ret, p, (size_t)n);
    OPENSSL_cleanse(p, (size_t)n);
    BIO_free(bio);
}

bool x509_put_certificate(X509 *x, struct qr_buf *ret) {
    BIO *bio = BIO_new(BIO_s_mem());
    bool good = PEM_write_bio_X509(bio, x) == 1;
    append_bio(bio, ret);
    return good;
}

bool x509_put_key(EVP_PKEY *key, struct qr_buf *ret) {
    BIO *bio = BIO_new(BIO_s_mem());
    bool good = PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1;
    append_bio(bio, ret);
    return good;
}

/* ---- certificates ---- */

/* Loads the CA of the order, or makes a new one. */
static enum qr_code load_or_make_ca(const struct qr_x509_order *o, X509 **ret, EVP_PKEY **ret_key,
                                    struct qr_err *err) {
    *ret_key = o->ca_key ? x509_key(o->ca_key) : EVP_EC_gen("P-256");
    *ret = !*ret_key ? NULL : o->ca ? x509_first(o->ca) : new_ca(*ret_key, o);
    if (!*ret)
        return qr_fail(err, QR_INVALID_ARGUMENT, "cannot use the CA's certificate and key: %s",
                       x509_reason());
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

enum qr_code qr_x509_make(const struct qr_x509_order *o, struct qr_buf *ret_certificate,
                          struct qr_buf *ret_key, struct qr_buf *ret_ca, struct qr_buf *ret_ca_key,
                          struct qr_err *err) {
    EVP_PKEY *ca_key = NULL, *key = NULL;
    X509 *ca = NULL, *leaf = NULL;
    enum qr_code code = load_or_make_ca(o, &ca, &ca_key, err);
    if (code == QR_OK) {
        key = EVP_EC_gen("P-256");
        leaf = key ? new_leaf(key, ca, ca_key, o) : NULL;
        if (!leaf || !x509_put_certificate(leaf, ret_certificate) || !x509_put_key(key, ret_key) ||
            !x509_put_certificate(ca, ret_ca) || !x509_put_key(ca_key, ret_ca_key))
            code = qr_fail(err, QR_INTERNAL, "cannot make a certificate: %s", x509_reason());
    }
    X509_free(leaf);
    X509_free(ca);
    EVP_PKEY_free(key);
    EVP_PKEY_free(ca_key);
    ERR_clear_error();
    return code;
}
