/* Identity of certificates: names of each kind, made with OpenSSL and signed by the job's CA,
 * against a URI and against DNS names; how long a check holds; what a handshake sends. */
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/clock.h"
#include "base/file.h"
#include "certificate/certificate.h"
#include "tests/t.h"
#include "tests/tls.h"

struct name {
    int kind;
    const char *text;
    size_t n; /* 0: strlen */
};
#define DNS(text)                                                                                  \
    { GEN_DNS, text, 0 }
#define URI(text)                                                                                  \
    { GEN_URI, text, 0 }
#define WITH_NUL(kind, text)                                                                       \
    { kind, text, sizeof(text) - 1 }

static struct qr_certificate_set ca;
static const struct qr_certificate_identity uri = {QR_IDENTITY_URI, "qring://tests/job"},
                                            dns = {QR_IDENTITY_DNS, "a.job,b.job"},
                                            dns_one = {QR_IDENTITY_DNS, "job"},
                                            uri_odd = {QR_IDENTITY_URI, "spiffe://a/b,c"};

static GENERAL_NAME *name_new(const struct name *n) {
    GENERAL_NAME *g = GENERAL_NAME_new();
    size_t bytes = n->n ? n->n : strlen(n->text);
    if (n->kind == GEN_OTHERNAME) {
        ASN1_TYPE *value = ASN1_TYPE_new();
        ASN1_UTF8STRING *text = ASN1_UTF8STRING_new();
        ASN1_STRING_set(text, n->text, (int)bytes);
        ASN1_TYPE_set(value, V_ASN1_UTF8STRING, text);
        GENERAL_NAME_set0_othername(g, OBJ_txt2obj("1.3.6.1.4.1.311.20.2.3", 1), value);
    } else if (n->kind == GEN_DIRNAME) {
        X509_NAME *dir = X509_NAME_new();
        X509_NAME_add_entry_by_NID(dir, NID_commonName, MBSTRING_ASC,
                                   (const unsigned char *)n->text, (int)bytes, -1, 0);
        GENERAL_NAME_set0_value(g, GEN_DIRNAME, dir);
    } else if (n->kind == GEN_RID) {
        GENERAL_NAME_set0_value(g, GEN_RID, OBJ_txt2obj("1.2.3.4", 1));
    } else {
        ASN1_STRING *s = n->kind == GEN_IPADD ? ASN1_OCTET_STRING_new() : ASN1_IA5STRING_new();
        ASN1_STRING_set(s, n->text, (int)bytes);
        GENERAL_NAME_set0_value(g, n->kind, s);
    }
    return g;
}

static void add_extension(X509 *x, int nid, const char *value) {
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    CHECK(e && X509_add_ext(x, e, -1) == 1);
    X509_EXTENSION_free(e);
}

static char *text_of(BIO *bio) {
    char *p;
    long bytes = BIO_get_mem_data(bio, &p);
    char *text = qr_xstrndup(p, (size_t)bytes);
    BIO_free(bio);
    return text;
}

static const char *leaf_curve = "P-256";

/* Returns the PEM text of a certificate of the CA with these names; *ret_key, unless NULL, gets
 * that of its key. The caller frees both. common_name may be a job's URI, which must not count. */
static char *leaf_with(const struct name *names, size_t n, const char *common_name,
                       char **ret_key) {
    BIO *ca_pem = BIO_new_mem_buf(ca.ca.p, (int)ca.ca.n),
        *key_pem = BIO_new_mem_buf(ca.ca_key.p, (int)ca.ca_key.n), *out = BIO_new(BIO_s_mem());
    X509 *issuer = PEM_read_bio_X509(ca_pem, NULL, NULL, NULL), *x = X509_new();
    EVP_PKEY *ca_key = PEM_read_bio_PrivateKey(key_pem, NULL, NULL, NULL),
             *key = EVP_EC_gen(leaf_curve);
    GENERAL_NAMES *all = GENERAL_NAMES_new();
    for (size_t i = 0; i < n; i++) sk_GENERAL_NAME_push(all, name_new(&names[i]));
    X509_set_version(x, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 7);
    ASN1_TIME_set(X509_getm_notBefore(x), (time_t)tls_now_s() - 60);
    ASN1_TIME_set(X509_getm_notAfter(x), (time_t)tls_now_s() + 3000);
    X509_set_pubkey(x, key);
    X509_NAME_add_entry_by_NID(X509_get_subject_name(x), NID_commonName, MBSTRING_ASC,
                               (const unsigned char *)common_name, -1, -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(issuer));
    add_extension(x, NID_ext_key_usage, "serverAuth,clientAuth");
    if (n) CHECK(X509_add1_ext_i2d(x, NID_subject_alt_name, all, 0, X509V3_ADD_DEFAULT) == 1);
    CHECK(X509_sign(x, ca_key, EVP_sha256()) > 0 && PEM_write_bio_X509(out, x) == 1);
    BIO *key_out = BIO_new(BIO_s_mem());
    CHECK(PEM_write_bio_PrivateKey(key_out, key, NULL, NULL, 0, NULL, NULL) == 1);
    if (ret_key) *ret_key = text_of(key_out);
    else BIO_free(key_out);
    sk_GENERAL_NAME_pop_free(all, GENERAL_NAME_free);
    X509_free(x);
    X509_free(issuer);
    EVP_PKEY_free(key);
    EVP_PKEY_free(ca_key);
    BIO_free(ca_pem);
    BIO_free(key_pem);
    return text_of(out);
}

static void check_identity(const char *what, enum qr_peer_fault want,
                           const struct qr_certificate_identity *of, const struct name *names,
                           size_t n, const char *common_name) {
    qr_auto(qr_free_p) char *pem = leaf_with(names, n, common_name, NULL);
    char found_names[QR_CERTIFICATE_TEXT];
    const char *reason;
    int64_t now_s = tls_now_s(), until_s;
    const struct qr_certificate_identity *other[] = {&uri, &dns, &dns_one, &uri_odd};
    for (int server = 0; server < 2; server++) {
        enum qr_peer_fault fault = qr_certificate_peer(qr_buf_string(&ca.ca), pem, NULL, of, server,
                                                       now_s, found_names, &reason, &until_s);
        CHECK(fault == want, "%s: %d, not %d (%s, %s)", what, (int)fault, (int)want, found_names,
              reason);
        CHECK(want != QR_PEER_UNFIT || *reason, "%s: has a reason", what);
        CHECK(want == QR_PEER_FINE ? until_s > now_s : until_s == now_s, "%s: holds for %lld s",
              what, (long long)(until_s - now_s));
        /* A certificate matches no second identity. */
        for (size_t i = 0; i < sizeof other / sizeof *other; i++)
            if (other[i] != of)
                CHECK(qr_certificate_peer(qr_buf_string(&ca.ca), pem, NULL, other[i], server, now_s,
                                          found_names, &reason, &until_s) != QR_PEER_FINE,
                      "%s: also %s", what, other[i]->text);
    }
}
#define CHECK_IDENTITY(what, want, of, cn, ...)                                                    \
    do {                                                                                           \
        static const struct name row_names[] = {__VA_ARGS__};                                      \
        check_identity(what, want, of, row_names, sizeof row_names / sizeof *row_names, cn);       \
    } while (0)

static void test_kinds(void) {
    CHECK_IDENTITY("the job's URI", QR_PEER_FINE, &uri, "x", URI("qring://tests/job"));
    CHECK_IDENTITY("a DNS name that is the job's URI", QR_PEER_UNFIT, &uri, "x",
                   DNS("qring://tests/job"));
    CHECK_IDENTITY("a URI that is the job's DNS name", QR_PEER_UNFIT, &dns_one, "x", URI("job"));
    CHECK_IDENTITY("two DNS names", QR_PEER_FINE, &dns, "x", DNS("b.job"), DNS("a.job"));
    CHECK_IDENTITY("one DNS name with a comma", QR_PEER_UNFIT, &dns, "x", DNS("a.job,b.job"));
    CHECK_IDENTITY("a URI that is two DNS names", QR_PEER_UNFIT, &dns, "x", URI("a.job,b.job"));
    CHECK_IDENTITY("a URI with a comma", QR_PEER_FINE, &uri_odd, "x", URI("spiffe://a/b,c"));
    CHECK_IDENTITY("that URI, split at its comma", QR_PEER_UNFIT, &uri_odd, "x",
                   URI("spiffe://a/b"), URI("c"));
    CHECK_IDENTITY("an e-mail address", QR_PEER_FOREIGN_JOB, &uri, "x",
                   {GEN_EMAIL, "qring://tests/job", 0});
    CHECK_IDENTITY("an IP address", QR_PEER_FOREIGN_JOB, &dns_one, "x", {GEN_IPADD, "jobs", 0});
    CHECK_IDENTITY("a name of another kind", QR_PEER_FOREIGN_JOB, &uri, "x",
                   {GEN_OTHERNAME, "qring://tests/job", 0});
    CHECK_IDENTITY("a directory name", QR_PEER_FOREIGN_JOB, &uri, "x",
                   {GEN_DIRNAME, "qring://tests/job", 0});
    CHECK_IDENTITY("a registered ID", QR_PEER_FOREIGN_JOB, &uri, "x", {GEN_RID, "", 0});
    check_identity("the common name alone", QR_PEER_FOREIGN_JOB, &uri, NULL, 0,
                   "qring://tests/job");
    CHECK_IDENTITY("the common name beside a DNS name", QR_PEER_FOREIGN_JOB, &uri,
                   "qring://tests/job", DNS("job.other"));
    CHECK_IDENTITY("names of all kinds, one of them the job's", QR_PEER_FINE, &uri, "x",
                   {GEN_EMAIL, "a@b", 0}, {GEN_IPADD, "\x7f\0\0\1", 4}, DNS("*.job.tests.svc"),
                   {GEN_OTHERNAME, "x", 0}, URI("spiffe://x"), URI("qring://tests/job"),
                   DNS("localhost"));
    CHECK_IDENTITY("the job's URI and a malformed DNS name", QR_PEER_UNFIT, &uri, "x",
                   URI("qring://tests/job"), DNS("qring://tests/other"));
}

static void test_texts(void) {
    CHECK_IDENTITY("a URI with a NUL inside", QR_PEER_UNFIT, &uri, "x",
                   WITH_NUL(GEN_URI, "qring://tests/job\0.other"));
    CHECK_IDENTITY("a DNS name with a NUL inside", QR_PEER_UNFIT, &dns_one, "x",
                   WITH_NUL(GEN_DNS, "job\0.other"));
    CHECK_IDENTITY("a NUL at the end", QR_PEER_UNFIT, &uri, "x",
                   WITH_NUL(GEN_URI, "qring://tests/job\0"));
    CHECK_IDENTITY("a name that is a NUL", QR_PEER_UNFIT, &uri, "x", URI("qring://tests/job"),
                   WITH_NUL(GEN_DNS, "\0"));
    CHECK_IDENTITY("control bytes", QR_PEER_UNFIT, &uri, "x", URI("qring://tests/job\n"));
    CHECK_IDENTITY("a blank", QR_PEER_UNFIT, &dns_one, "x", DNS("job "));
    CHECK_IDENTITY("not ASCII", QR_PEER_UNFIT, &dns_one, "x", DNS("job\xc3\xa4"));
    static const char *const odd[] = {"job:",  "/job", "a,b",    "a..b", ".job", "job.", "*",
                                      "a.*.b", "*job", "**.job", "*.",   "a@b",  "a%b",  "[::1]"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        const struct name one[] = {URI("qring://tests/job"), DNS(odd[i])};
        check_identity(odd[i], QR_PEER_UNFIT, &uri, one, 2, "x");
    }
    static const char *const good[] = {"job", "a-1.b_2.C", "*.job", "1"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        const struct name one[] = {URI("qring://tests/job"), DNS(good[i])};
        check_identity(good[i], QR_PEER_FINE, &uri, one, 2, "x");
    }
    char text[65][8], wide[400];
    struct name many[65];
    for (int i = 0; i < 65; i++) {
        snprintf(text[i], sizeof text[i], "n%02d", i);
        many[i] = (struct name)DNS(text[i]);
    }
    check_identity("64 names, none the job's", QR_PEER_FOREIGN_JOB, &dns, many, 64, "x");
    check_identity("65 names", QR_PEER_UNFIT, &dns, many, 65, "x");
    memset(wide, 'a', sizeof wide);
    wide[254] = 0;
    const struct name one = DNS(wide);
    check_identity("a name of 254 letters", QR_PEER_UNFIT, &dns, &one, 1, "x");
    static char far[QR_CERTIFICATE_TEXT + 1] = "spiffe://a/";
    for (size_t bytes = QR_CERTIFICATE_TEXT - 1; bytes <= QR_CERTIFICATE_TEXT; bytes++) {
        memset(far + 11, 'b', bytes - 11);
        const struct name longest = URI(far);
        check_identity("a URI as long as the text of an identity",
                       bytes < QR_CERTIFICATE_TEXT ? QR_PEER_FOREIGN_JOB : QR_PEER_UNFIT, &uri,
                       &longest, 1, "x");
    }
}

/* The worker's own certificate is checked by the same rules, with an error message. */
static void test_own(void) {
    static const struct name odd[] = {URI("qring://tests/job"), DNS("a,b")};
    struct tls_dir d = tls_dir_new();
    struct qr_certificate_own own;
    struct qr_err err = {0};
    tls_dir_put(&d, &ca);
    const struct qr_certificate_files f = {d.certificate, d.key, d.ca};
    CHECK(qr_certificate_check(&f, tls_now_s(), &own, &err) == QR_OK, "%s", err.msg);
    CHECK(own.identity.kind == QR_IDENTITY_URI &&
          strcmp(own.identity.text, "qring://tests/job") == 0);
    qr_auto(qr_free_p) char *key = NULL, *pem = leaf_with(odd, 2, "x", &key);
    tls_put(d.certificate, pem);
    tls_put(d.key, key);
    CHECK(qr_certificate_check(&f, tls_now_s(), &own, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "it has a malformed DNS name"),
          "%s", err.msg);
    tls_dir_free(&d);
}

/* A curve that no handshake can use is an error before the first one. */
static void test_curves(void) {
    static const struct name job = URI("qring://tests/job");
    static const struct {
        const char *curve;
        bool good;
    } row[] = {{"P-256", true},  {"P-384", true},      {"P-521", true},
               {"P-224", false}, {"secp256k1", false}, {"brainpoolP256r1", false}};
    struct tls_dir d = tls_dir_new();
    const struct qr_certificate_files f = {d.certificate, d.key, d.ca};
    tls_dir_put(&d, &ca);
    for (size_t i = 0; i < COUNT(row); i++) {
        struct qr_certificate_own own;
        struct qr_err err = {0};
        leaf_curve = row[i].curve;
        qr_auto(qr_free_p) char *key = NULL, *pem = leaf_with(&job, 1, "x", &key);
        tls_put(d.certificate, pem);
        tls_put(d.key, key);
        enum qr_code code = qr_certificate_check(&f, tls_now_s(), &own, &err);
        CHECK(row[i].good ? code == QR_OK
                          : code == QR_INVALID_ARGUMENT && strstr(err.msg, "P-256, P-384 or P-521"),
              "%s: %d, %s", row[i].curve, (int)code, err.msg);
    }
    leaf_curve = row[0].curve;
    tls_dir_free(&d);
}

static void test_requests(void) {
    static const struct {
        const char *name_space, *job, *service;
        bool good;
    } row[] = {
        {"tests", "job", "job", true},   {"tests", "my_job", NULL, true},
        {"tests", "a.b", "a.b", true},   {"tests", "job", "a..b", false},
        {"tests", "job", ".b", false},   {"tests", "job", "b.", false},
        {"tests.", "job", "b", false},   {"tests", "job", "a,b", false},
        {"tests", "job", "a:b", false},  {"tests", "job", "a/b", false},
        {"tests", "a/b", NULL, false},   {"a,b", "job", NULL, false},
        {"tests", "job\n", NULL, false}, {"tests", "job", "*.b", false},
        {"tests", "", NULL, false},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct qr_certificate_request o = tls_order(row[i].job);
        struct qr_certificate_set s = {0};
        struct qr_err err = {0};
        o.name_space = row[i].name_space;
        o.service = row[i].service;
        enum qr_code code = qr_certificate_make(&o, &s, &err);
        CHECK(code == (row[i].good ? QR_OK : QR_INVALID_ARGUMENT), "row %zu: %s", i, err.msg);
        qr_certificate_wipe(&s);
    }
}

/* A check holds until the leaf or its CA expires, whichever is first; from then on it fails. */
static void check_until(const char *what, const char *leaf, int64_t first_s) {
    char found_names[QR_CERTIFICATE_TEXT];
    const char *reason, *ca_text = qr_buf_string(&ca.ca);
    const int64_t at_s[] = {tls_now_s(), first_s - 1, first_s};
    for (int i = 0; i < 3; i++) {
        int64_t until_s;
        enum qr_peer_fault want = i < 2 ? QR_PEER_FINE : QR_PEER_EXPIRED,
                           fault = qr_certificate_peer(ca_text, leaf, leaf, &uri, true, at_s[i],
                                                       found_names, &reason, &until_s);
        CHECK(fault == want && until_s == first_s, "%s: %d, until %lld s after it (%s)", what,
              (int)fault, (long long)(until_s - first_s), reason);
    }
}
static void test_until(void) {
    static const struct name job[] = {URI("qring://tests/job")};
    struct qr_certificate_request o = tls_order("job");
    struct qr_certificate_set whole = ca;
    o.ca_not_after_s = o.not_after_s;
    o.not_after_s = tls_now_s() + 1000; /* leaf_with makes one for longer */
    ca = tls_make(&o);
    check_until("the leaf ends first", qr_buf_string(&ca.certificate), o.not_after_s);
    qr_certificate_wipe(&ca);
    o.ca_not_after_s = o.not_after_s;
    ca = tls_make(&o);
    qr_auto(qr_free_p) char *leaf = leaf_with(job, 1, "x", NULL);
    check_until("the CA ends first", leaf, o.ca_not_after_s);
    qr_certificate_wipe(&ca);
    ca = whole;
}

/* ---- handshakes ---- */

static int accept_any(int good, X509_STORE_CTX *ctx) {
    (void)good;
    (void)ctx;
    return 1;
}
static unsigned n_tickets;
static int count_ticket(SSL *ssl, SSL_SESSION *session) {
    (void)ssl;
    (void)session;
    n_tickets++;
    return 0;
}
/* As gRPC makes it: the pair, and the CA among the certificates that it trusts. */
static SSL_CTX *ssl_ctx(const SSL_METHOD *method) {
    qr_auto(qr_free_p) char *key_pem = NULL;
    static const struct name job[] = {URI("qring://tests/job")};
    qr_auto(qr_free_p) char *pem = leaf_with(job, 1, "x", &key_pem);
    BIO *leaf = BIO_new_mem_buf(pem, -1), *key = BIO_new_mem_buf(key_pem, -1),
        *issuer = BIO_new_mem_buf(ca.ca.p, (int)ca.ca.n);
    SSL_CTX *ctx = SSL_CTX_new(method);
    X509 *x = PEM_read_bio_X509(leaf, NULL, NULL, NULL),
         *root = PEM_read_bio_X509(issuer, NULL, NULL, NULL);
    EVP_PKEY *k = PEM_read_bio_PrivateKey(key, NULL, NULL, NULL);
    CHECK(SSL_CTX_use_certificate(ctx, x) == 1 && SSL_CTX_use_PrivateKey(ctx, k) == 1 &&
          X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), root) == 1);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, accept_any);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_BOTH);
    SSL_CTX_sess_set_new_cb(ctx, count_ticket);
    SSL_CTX_set_session_id_context(ctx, (const unsigned char *)"x", 1);
    X509_free(x);
    X509_free(root);
    EVP_PKEY_free(k);
    BIO_free(leaf);
    BIO_free(key);
    BIO_free(issuer);
    return ctx;
}

/* A handshake of two ends in memory; certificates that each of them gets, and the client's
 * tickets. */
static void check_handshake(const char *what, int certificates, unsigned tickets) {
    SSL_CTX *server_ctx = ssl_ctx(TLS_server_method()), *client_ctx = ssl_ctx(TLS_client_method());
    SSL *server = SSL_new(server_ctx), *client = SSL_new(client_ctx);
    BIO *near = NULL, *far = NULL;
    CHECK(BIO_new_bio_pair(&near, 1 << 16, &far, 1 << 16) == 1);
    SSL_set_bio(server, near, near);
    SSL_set_bio(client, far, far);
    SSL_CTX_sess_set_new_cb(server_ctx, NULL);
    n_tickets = 0;
    char byte;
    for (int i = 0; i < 10; i++) {
        SSL_connect(client);
        SSL_accept(server);
        if (SSL_is_init_finished(client)) SSL_read(client, &byte, 1);
    }
    CHECK(SSL_is_init_finished(client) && SSL_is_init_finished(server) &&
              SSL_version(client) == TLS1_3_VERSION,
          "%s: %s", what, SSL_state_string_long(client));
    int of_server = sk_X509_num(SSL_get_peer_cert_chain(client)),
        of_client = sk_X509_num(SSL_get_peer_cert_chain(server)) + 1; /* without its leaf */
    CHECK(of_server == certificates && of_client == certificates, "%s: %d and %d certificates",
          what, of_server, of_client);
    CHECK(n_tickets == tickets, "%s: %u tickets", what, n_tickets);
    SSL_free(server);
    SSL_free(client);
    SSL_CTX_free(server_ctx);
    SSL_CTX_free(client_ctx);
}

int main(void) {
    struct qr_certificate_request o = tls_order("job");
    ca = tls_make(&o);
    test_until();
    check_handshake("as OpenSSL does it", 2, 2);
    qr_certificate_shorten_handshakes();
    qr_certificate_shorten_handshakes();
    check_handshake("shortened", 1, 0);
    test_kinds();
    test_texts();
    test_own();
    test_curves();
    test_requests();
    qr_certificate_wipe(&ca);
    return t_end();
}
