/* certificate/certificate.c — reads and verifies certificates (RFC 5280), by OpenSSL. Start reading
 * at qr_certificate_peer(). */
#include "certificate/certificate.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "certificate/certificate_impl.h"

/* Security level 2: 112 bits, as Debian's TLS requires; no SHA-1, no RSA below 2048 bits. */
enum { MAX_CHAIN = 16, MAX_NAMES = 64, DNS_MAX = 253, SECURITY_LEVEL = 2 };

/* ---- PEM ---- */

void certificate_free_p(X509 **x) { X509_free(*x); }
void certificate_key_free_p(EVP_PKEY **key) { EVP_PKEY_free(*key); }

static int no_password(char *buf, int size, int rwflag, void *ctx) {
    (void)buf;
    (void)size;
    (void)rwflag;
    (void)ctx;
    return -1;
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

int certificate_read_all(const char *pem, STACK_OF(X509) * stack, X509_STORE *store) {
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

/* ---- identity ---- */

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

/* A name as text, borrowed; NULL when it has other than printable characters or is too long. */
static const char *name_text(const ASN1_STRING *s) {
    const char *text = (const char *)ASN1_STRING_get0_data(s);
    size_t bytes = (size_t)ASN1_STRING_length(s);
    if (!bytes || strnlen(text, bytes) != bytes || bytes >= QR_CERTIFICATE_TEXT) return NULL;
    for (size_t i = 0; i < bytes; i++)
        if (text[i] <= ' ' || text[i] > '~') return NULL;
    return text;
}

static bool is_uri(const char *text) {
    size_t scheme = strspn(text, LETTERS DIGITS "+-.");
    return strspn(text, LETTERS) > 0 && text[scheme] == ':';
}

static bool is_qring_uri(const char *uri) {
    return strncmp(uri, CERTIFICATE_SCHEME, strlen(CERTIFICATE_SCHEME)) == 0;
}

bool certificate_is_dns_name(const char *text) {
    if (strlen(text) > DNS_MAX) return false;
    if (strncmp(text, "*.", 2) == 0) text += 2;
    for (;; text++) {
        size_t label = strspn(text, LETTERS DIGITS "-_");
        if (!label) return false;
        text += label;
        if (*text != '.') return !*text;
    }
}

static int compare_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* E-mail addresses, IP addresses and other kinds are ignored. */
static const char *identity_of(const GENERAL_NAMES *names, struct qr_certificate_identity *ret) {
    const char *uri = NULL, *dns[MAX_NAMES];
    size_t n_dns = 0, used = 0;
    for (int i = 0, kind; i < sk_GENERAL_NAME_num(names); i++) {
        const void *value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &kind);
        if (kind != GEN_URI && kind != GEN_DNS) continue;
        const char *text = name_text(value);
        if (kind == GEN_URI) {
            if (!text || !is_uri(text)) return "it has a malformed URI";
            if (!uri || (is_qring_uri(text) && !is_qring_uri(uri))) uri = text;
        } else {
            if (!text || !certificate_is_dns_name(text)) return "it has a malformed DNS name";
            if (n_dns == MAX_NAMES) return "it has too many names";
            dns[n_dns++] = text;
        }
    }
    if (uri) {
        ret->kind = QR_IDENTITY_URI;
        snprintf(ret->text, sizeof ret->text, "%s", uri);
        return NULL;
    }
    qsort(dns, n_dns, sizeof *dns, compare_text);
    for (size_t i = 0; i < n_dns && used < sizeof ret->text; i++)
        used += (size_t)snprintf(ret->text + used, sizeof ret->text - used, "%s%s", i ? "," : "",
                                 dns[i]);
    /* A truncated list could equal another one. */
    if (used >= sizeof ret->text) return "it has too many names";
    if (n_dns) ret->kind = QR_IDENTITY_DNS;
    return NULL;
}

const char *certificate_identity(X509 *x, struct qr_certificate_identity *ret) {
    int found;
    *ret = (struct qr_certificate_identity){0};
    GENERAL_NAMES *names = X509_get_ext_d2i(x, NID_subject_alt_name, &found, NULL);
    const char *wrong = names || found == -1 ? identity_of(names, ret) : "its names are malformed";
    if (wrong) *ret = (struct qr_certificate_identity){0};
    GENERAL_NAMES_free(names);
    ERR_clear_error();
    return wrong;
}

bool certificate_same(const struct qr_certificate_identity *a,
                      const struct qr_certificate_identity *b) {
    return a->kind && a->kind == b->kind && strcmp(a->text, b->text) == 0;
}

/* ---- verification ---- */

int64_t certificate_seconds(const ASN1_TIME *t) {
    ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
    int days = 0, seconds = 0;
    if (ASN1_TIME_diff(&days, &seconds, epoch, t) != 1) days = seconds = 0;
    ASN1_TIME_free(epoch);
    return (int64_t)days * 86400 + seconds;
}

static int64_t first_expiry(const STACK_OF(X509) * chain) {
    int64_t ret = INT64_MAX;
    for (int i = 0; i < sk_X509_num(chain); i++) {
        int64_t expiry_s = certificate_seconds(X509_get0_notAfter(sk_X509_value(chain, i)));
        if (expiry_s < ret) ret = expiry_s;
    }
    return ret;
}

static enum qr_peer_fault fault_of_error(int e) {
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

enum qr_peer_fault certificate_verify(const char *ca, X509 *leaf, const char *chain, bool server,
                                      int64_t unix_s, const char **ret_why, int64_t *ret_until_s) {
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    STACK_OF(X509) *others = sk_X509_new_null();
    int e = X509_V_ERR_UNSPECIFIED;
    if (certificate_read_all(ca, NULL, store) > 0 &&
        (!chain || certificate_read_all(chain, others, NULL) >= 0) &&
        X509_STORE_CTX_init(ctx, store, leaf, others) == 1) {
        X509_VERIFY_PARAM *p = X509_STORE_CTX_get0_param(ctx);
        /* A bundle may hold an intermediate CA without its root. */
        X509_VERIFY_PARAM_set_flags(p, X509_V_FLAG_PARTIAL_CHAIN);
        X509_VERIFY_PARAM_set_auth_level(p, SECURITY_LEVEL);
        X509_VERIFY_PARAM_set_time(p, (time_t)unix_s);
        X509_STORE_CTX_set_purpose(ctx, server ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT);
        bool verified = X509_verify_cert(ctx) == 1;
        e = X509_STORE_CTX_get_error(ctx);
        if (verified != (e == X509_V_OK)) e = X509_V_ERR_UNSPECIFIED;
    }
    *ret_until_s = e == X509_V_OK ? first_expiry(X509_STORE_CTX_get0_chain(ctx)) : unix_s;
    *ret_why = e == X509_V_OK ? "" : X509_verify_cert_error_string(e);
    sk_X509_pop_free(others, X509_free);
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    ERR_clear_error();
    return fault_of_error(e);
}

/* The common name of the subject, printable; "" when there is none. */
static void common_name(const X509 *x, char ret[QR_CERTIFICATE_TEXT]) {
    if (X509_NAME_get_text_by_NID(X509_get_subject_name(x), NID_commonName, ret,
                                  QR_CERTIFICATE_TEXT) < 0)
        ret[0] = 0;
    for (char *c = ret; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
}

enum qr_peer_fault qr_certificate_peer(const char *ca, const char *leaf, const char *chain,
                                       const struct qr_certificate_identity *identity, bool server,
                                       int64_t unix_s, char ret_subject[QR_CERTIFICATE_TEXT],
                                       const char **ret_reason, int64_t *ret_until_s) {
    struct qr_certificate_identity peer;
    qr_auto(certificate_free_p) X509 *x = certificate_first(leaf);
    ret_subject[0] = 0;
    *ret_until_s = unix_s;
    *ret_reason = "it is not a certificate";
    ERR_clear_error();
    if (!x) return QR_PEER_UNFIT;
    const char *wrong = certificate_identity(x, &peer);
    if (peer.kind) snprintf(ret_subject, QR_CERTIFICATE_TEXT, "%s", peer.text);
    else common_name(x, ret_subject);
    int64_t until_s;
    enum qr_peer_fault fault =
        certificate_verify(ca, x, chain, server, unix_s, ret_reason, &until_s);
    if (fault != QR_PEER_FINE) return fault;
    if (wrong) {
        *ret_reason = wrong;
        return QR_PEER_UNFIT;
    }
    if (!certificate_same(&peer, identity)) return QR_PEER_FOREIGN_JOB;
    *ret_until_s = until_s;
    return QR_PEER_FINE;
}

/* ---- handshakes ---- */

static int on_certificate(SSL *ssl, void *ctx) {
    (void)ctx;
    SSL_set_num_tickets(ssl, 0);
    return 1;
}

/* OpenSSL sets the context's number of tickets later than this, so each SSL gets its own. An SSL's
 * own callback would be too early in OpenSSL 3.5. */
static void on_new_context(void *ssl_ctx, void *ptr, CRYPTO_EX_DATA *data, int index, long arg,
                           void *ctx) {
    (void)ptr;
    (void)data;
    (void)index;
    (void)arg;
    (void)ctx;
    SSL_CTX_set_mode(ssl_ctx, SSL_MODE_NO_AUTO_CHAIN);
    SSL_CTX_set_cert_cb(ssl_ctx, on_certificate, NULL);
}

static void register_callback(void) {
    SSL_CTX_get_ex_new_index(0, NULL, on_new_context, NULL, NULL);
}

void qr_certificate_shorten_handshakes(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_callback);
}
