/* certificate/x509.c — reads and verifies certificates. Start reading at qr_x509_verify(). */
#include "certificate/x509.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "certificate/x509_impl.h"

/* Security level 2: 112 bits, as Debian's TLS requires; no SHA-1, no RSA below 2048 bits. */
enum { MAX_CHAIN = 16, DNS_MAX = 253, SECURITY_LEVEL = 2 };

static int no_password(char *buf, int size, int rwflag, void *ctx) {
    (void)buf;
    (void)size;
    (void)rwflag;
    (void)ctx;
    return -1;
}

const char *x509_reason(void) {
    unsigned long e = ERR_peek_last_error();
    const char *text = e ? ERR_reason_error_string(e) : NULL;
    ERR_clear_error();
    return text ? text : "no reason given";
}

static BIO *bio_of(const char *pem) { return BIO_new_mem_buf(pem, (int)strlen(pem)); }

X509 *x509_first(const char *pem) {
    BIO *bio = bio_of(pem);
    X509 *x = PEM_read_bio_X509(bio, NULL, no_password, NULL);
    BIO_free(bio);
    return x;
}

EVP_PKEY *x509_key(const char *pem) {
    BIO *bio = bio_of(pem);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL);
    BIO_free(bio);
    return key;
}

/* Adds all certificates of a text to a stack and a store (either may be NULL). Returns their
 * number, or -1 when one is malformed. */
static int read_certificates(const char *pem, STACK_OF(X509) * stack, X509_STORE *store) {
    BIO *bio = bio_of(pem);
    int n = 0;
    bool good = true;
    for (X509 *x; good && (x = PEM_read_bio_X509(bio, NULL, no_password, NULL)); n++) {
        if (store) good = X509_STORE_add_cert(store, x) == 1;
        if (stack) good = n < MAX_CHAIN && sk_X509_push(stack, X509_dup(x)) > 0;
        X509_free(x);
    }
    /* Any other reason means that reading stopped before the end of the text. */
    if (good) good = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    ERR_clear_error();
    BIO_free(bio);
    return good ? n : -1;
}

bool qr_x509_readable(const char *pem) { return read_certificates(pem, NULL, NULL) > 0; }

/* ---- contents ---- */

/* A name as text, borrowed; NULL when it has other than printable characters or is too long. */
static const char *name_text(const ASN1_STRING *s) {
    const char *text = (const char *)ASN1_STRING_get0_data(s);
    size_t bytes = (size_t)ASN1_STRING_length(s);
    if (!bytes || strnlen(text, bytes) != bytes || bytes >= QR_X509_TEXT) return NULL;
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

bool qr_x509_is_dns_name(const char *text) {
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

/* Returns the reason to reject a name, or NULL. E-mail addresses, IP addresses and other kinds are
 * ignored. */
static const char *visit_name(const struct qr_x509_name_visitor *visitor, const GENERAL_NAME *n) {
    int kind;
    const void *value = GENERAL_NAME_get0_value(n, &kind);
    if (kind != GEN_URI && kind != GEN_DNS) return NULL;
    const char *text = name_text(value);
    if (kind == GEN_URI && (!text || !is_uri(text))) return "it has a malformed URI";
    if (kind == GEN_DNS && (!text || !qr_x509_is_dns_name(text)))
        return "it has a malformed DNS name";
    return visitor->take(visitor->ctx, kind == GEN_URI, text);
}

bool qr_x509_names(const char *pem, const struct qr_x509_name_visitor *visitor,
                   const char **ret_wrong) {
    X509 *x = x509_first(pem);
    int found;
    ERR_clear_error();
    if (!x) return false;
    GENERAL_NAMES *names = X509_get_ext_d2i(x, NID_subject_alt_name, &found, NULL);
    const char *wrong = names || found == -1 ? NULL : "its names are malformed";
    for (int i = 0; !wrong && i < sk_GENERAL_NAME_num(names); i++)
        wrong = visit_name(visitor, sk_GENERAL_NAME_value(names, i));
    GENERAL_NAMES_free(names);
    X509_free(x);
    *ret_wrong = wrong;
    return true;
}

void qr_x509_common_name(const char *pem, char ret[QR_X509_TEXT]) {
    X509 *x = x509_first(pem);
    ERR_clear_error();
    if (!x ||
        X509_NAME_get_text_by_NID(X509_get_subject_name(x), NID_commonName, ret, QR_X509_TEXT) < 0)
        ret[0] = 0;
    for (char *c = ret; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
    X509_free(x);
}

static int64_t unix_seconds(const ASN1_TIME *t) {
    ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
    int days = 0, seconds = 0;
    if (ASN1_TIME_diff(&days, &seconds, epoch, t) != 1) days = seconds = 0;
    ASN1_TIME_free(epoch);
    return (int64_t)days * 86400 + seconds;
}

static void format_date(const ASN1_TIME *t, char ret[QR_X509_DATE]) {
    BIO *bio = BIO_new(BIO_s_mem());
    ASN1_TIME_print(bio, t);
    int n = BIO_read(bio, ret, QR_X509_DATE - 1);
    ret[n > 0 ? n : 0] = 0;
    BIO_free(bio);
}

void qr_x509_dates(const char *pem, struct qr_x509_dates *ret) {
    X509 *x = x509_first(pem);
    QR_ASSERT(x);
    format_date(X509_get0_notBefore(x), ret->begins);
    format_date(X509_get0_notAfter(x), ret->ends);
    ret->ends_s = unix_seconds(X509_get0_notAfter(x));
    X509_free(x);
}

/* ---- verification ---- */

static enum qr_x509_trust trust_from_error(int e) {
    switch (e) {
    case X509_V_OK: return QR_X509_GOOD;
    case X509_V_ERR_CERT_HAS_EXPIRED: return QR_X509_EXPIRED;
    case X509_V_ERR_CERT_NOT_YET_VALID: return QR_X509_NOT_YET_VALID;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_CERT_UNTRUSTED: return QR_X509_WRONG_CA;
    default: return QR_X509_UNFIT;
    }
}

enum qr_x509_trust qr_x509_verify(const char *ca, const char *pem, const char *chain, bool server,
                                  int64_t unix_s, const char **ret_why) {
    X509 *leaf = x509_first(pem);
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    STACK_OF(X509) *others = sk_X509_new_null();
    int e = X509_V_ERR_UNSPECIFIED;
    if (leaf && read_certificates(ca, NULL, store) > 0 &&
        (!chain || read_certificates(chain, others, NULL) >= 0) &&
        X509_STORE_CTX_init(ctx, store, leaf, others) == 1) {
        X509_VERIFY_PARAM *p = X509_STORE_CTX_get0_param(ctx);
        /* A bundle may hold an intermediate CA without its root. */
        X509_VERIFY_PARAM_set_flags(p, X509_V_FLAG_PARTIAL_CHAIN);
        X509_VERIFY_PARAM_set_auth_level(p, SECURITY_LEVEL);
        X509_VERIFY_PARAM_set_time(p, (time_t)unix_s);
        X509_STORE_CTX_set_purpose(ctx, server ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT);
        e = X509_verify_cert(ctx) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(ctx);
        if (e == X509_V_OK && X509_STORE_CTX_get_error(ctx) != X509_V_OK)
            e = X509_V_ERR_UNSPECIFIED;
    }
    *ret_why = e == X509_V_OK ? "" : X509_verify_cert_error_string(e);
    sk_X509_pop_free(others, X509_free);
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    X509_free(leaf);
    ERR_clear_error();
    return e == X509_V_OK ? QR_X509_GOOD : trust_from_error(e);
}

enum qr_x509_pair qr_x509_pair(const char *pem, const char *key_pem) {
    X509 *x = x509_first(pem);
    EVP_PKEY *key = x ? x509_key(key_pem) : NULL;
    bool same = key && X509_check_private_key(x, key) == 1, has_key = key != NULL,
         has_certificate = x != NULL;
    EVP_PKEY_free(key);
    X509_free(x);
    ERR_clear_error();
    if (same) return QR_X509_PAIR;
    if (!has_certificate) return QR_X509_NO_CERTIFICATE;
    if (has_key) return QR_X509_OTHER_KEY;
    return strstr(key_pem, "ENCRYPTED") ? QR_X509_KEY_ENCRYPTED : QR_X509_NO_KEY;
}

bool qr_x509_pair_text(const char *pem, const char *key_pem, struct qr_buf *ret) {
    EVP_PKEY *key = x509_key(key_pem);
    STACK_OF(X509) *chain = sk_X509_new_null();
    bool good = key && read_certificates(pem, chain, NULL) > 0 && x509_put_key(key, ret);
    for (int i = 0; good && i < sk_X509_num(chain); i++)
        good = x509_put_certificate(sk_X509_value(chain, i), ret);
    sk_X509_pop_free(chain, X509_free);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return good;
}
