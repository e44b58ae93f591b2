/* record/envelope.c — signs statements and checks signatures. Start reading at
 * qr_envelope_sign(). */
#include "record/envelope.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <string.h>

#include "base/checksum.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "format/json.h"

#define PAYLOAD_TYPE "application/vnd.in-toto+json"
enum { MAX_KEY_BYTES = 16384 };

struct qr_signing_key {
    EVP_PKEY *key;
    char id[65];
};

/* ---- keys ---- */

static void set_key_id(EVP_PKEY *key, char ret[65]) {
    uint8_t digest[QR_SHA256_BYTES], *der = NULL;
    int n = i2d_PUBKEY(key, &der);
    qr_check_memory(n > 0, "a public key");
    qr_sha256(der, (size_t)n, digest);
    qr_hex(digest, sizeof digest, ret);
    OPENSSL_free(der);
}

/* No passphrase: OpenSSL would ask on the terminal. */
static int no_passphrase(char *buf, int size, int writing, void *ctx) {
    (void)buf, (void)size, (void)writing, (void)ctx;
    return -1;
}

/* NULL: no Ed25519 key in the text. */
static EVP_PKEY *parse_key(const struct qr_buf *pem, bool private) {
    BIO *bio = BIO_new_mem_buf(pem->p, (int)pem->n);
    EVP_PKEY *key = !bio      ? NULL
                    : private ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL)
                              : PEM_read_bio_PUBKEY(bio, NULL, no_passphrase, NULL);
    BIO_free(bio);
    ERR_clear_error();
    if (!key || EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519) return key;
    EVP_PKEY_free(key);
    return NULL;
}

static enum qr_code read_key(const char *path, bool private, EVP_PKEY **ret, struct qr_err *err) {
    struct qr_buf pem = {0};
    enum qr_code code = qr_file_read(path, MAX_KEY_BYTES, &pem, err);
    EVP_PKEY *key = code == QR_OK ? parse_key(&pem, private) : NULL;
    if (pem.p) OPENSSL_cleanse(pem.p, pem.n);
    qr_buf_free(&pem);
    if (code != QR_OK) return code;
    if (!key)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       private ? "%s has no Ed25519 private key (PEM, not encrypted); make one "
                                 "with openssl genpkey -algorithm ed25519 -out FILE"
                               : "%s has no Ed25519 public key (PEM); make it with openssl pkey "
                                 "-in KEY -pubout -out FILE",
                       path);
    *ret = key;
    return QR_OK;
}

enum qr_code qr_signing_key_read(const char *path, struct qr_signing_key **ret,
                                 struct qr_err *err) {
    EVP_PKEY *key;
    QR_TRY(read_key(path, true, &key, err));
    struct qr_signing_key *k = qr_xcalloc(1, sizeof *k);
    k->key = key;
    set_key_id(key, k->id);
    *ret = k;
    return QR_OK;
}

void qr_signing_key_free(struct qr_signing_key *k) {
    if (!k) return;
    EVP_PKEY_free(k->key);
    free(k);
}

/* ---- base64 ---- */

static char *base64_text(const void *p, size_t n) {
    char *text = qr_xcalloc(4 * (n / 3 + 1) + 1, 1);
    EVP_EncodeBlock((unsigned char *)text, p, (int)n);
    return text;
}

/* Appends the bytes. False: malformed. */
static bool base64_read(const char *text, struct qr_buf *ret) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = strlen(text), plain = strspn(text, digits), padding = n - plain;
    if (n % 4 || padding > 2 || (padding && strspn(text + plain, "=") != padding)) return false;
    uint8_t *to = n ? qr_buf_grow(ret, n / 4 * 3) : NULL;
    if (n && (!to || EVP_DecodeBlock(to, (const unsigned char *)text, (int)n) < 0)) return false;
    ret->n -= padding;
    return true;
}

/* ---- envelopes ---- */

/* DSSE's pre-authentication encoding. */
static void put_signed(struct qr_bytes statement, struct qr_buf *ret) {
    qr_buf_printf(ret, "DSSEv1 %zu %s %zu ", strlen(PAYLOAD_TYPE), PAYLOAD_TYPE, statement.n);
    qr_buf_put(ret, statement.p, statement.n);
}

enum qr_code qr_envelope_sign(struct qr_signing_key *k, struct qr_bytes statement,
                              struct qr_buf *ret, struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    uint8_t signature[QR_SIGNATURE_BYTES];
    size_t n = sizeof signature;
    put_signed(statement, &text);
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    bool good = c && EVP_DigestSignInit(c, NULL, NULL, NULL, k->key) == 1 &&
                EVP_DigestSign(c, signature, &n, text.p, text.n) == 1 && n == sizeof signature;
    EVP_MD_CTX_free(c);
    ERR_clear_error();
    if (!good) return qr_fail(err, QR_INTERNAL, "cannot sign provenance.json: OpenSSL failed");
    qr_auto(qr_free_p) char *payload = base64_text(statement.p, statement.n),
                            *sig = base64_text(signature, sizeof signature);
    struct qr_json_writer w = qr_json_writer(ret, 0);
    qr_json_open(&w, '{');
    qr_json_key_string(&w, "payloadType", PAYLOAD_TYPE);
    qr_json_key_string(&w, "payload", payload);
    qr_json_key_open(&w, "signatures", '[');
    qr_json_open(&w, '{');
    qr_json_key_string(&w, "keyid", k->id);
    qr_json_key_string(&w, "sig", sig);
    qr_json_close(&w, '}');
    qr_json_close(&w, ']');
    qr_json_close(&w, '}');
    qr_buf_puts(ret, "\n");
    return QR_OK;
}

void qr_envelope_fini(struct qr_envelope *e) {
    qr_buf_free(&e->statement);
    *e = (struct qr_envelope){0};
}

static bool read_envelope(const struct qr_json *root, struct qr_envelope *e) {
    qr_auto(qr_buf_free) struct qr_buf signature = {0};
    if (qr_json_type(root) != QR_JSON_OBJECT) return false;
    const struct qr_json *list = qr_json_get(root, "signatures"),
                         *first = list && qr_json_type(list) == QR_JSON_ARRAY ? qr_json_first(list)
                                                                              : NULL;
    if (!first || qr_json_type(first) != QR_JSON_OBJECT) return false;
    const char *id = qr_json_text(qr_json_get(first, "keyid"), "");
    if (qr_is_hex(id, 64)) memcpy(e->key_id, id, 65);
    if (strcmp(qr_json_text(qr_json_get(root, "payloadType"), ""), PAYLOAD_TYPE) != 0 ||
        !base64_read(qr_json_text(qr_json_get(root, "payload"), "="), &e->statement) ||
        !base64_read(qr_json_text(qr_json_get(first, "sig"), "="), &signature) ||
        signature.n != sizeof e->signature)
        return false;
    memcpy(e->signature, signature.p, sizeof e->signature);
    return true;
}

enum qr_code qr_envelope_read(struct qr_bytes text, const char *what, struct qr_envelope *ret,
                              struct qr_err *err) {
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    qr_auto(qr_envelope_fini) struct qr_envelope e = {0};
    if (qr_json_parse(text, what, &root, err) != QR_OK) return err->code = QR_DATA_LOSS;
    if (!read_envelope(root, &e))
        return qr_fail(err, QR_DATA_LOSS, "%s is not a DSSE envelope of qring", what);
    *ret = QR_MOVE(e);
    return QR_OK;
}

enum qr_code qr_envelope_check(const struct qr_envelope *e, const char *path, bool *ret_good,
                               char ret_key_id[65], struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    EVP_PKEY *key;
    QR_TRY(read_key(path, false, &key, err));
    set_key_id(key, ret_key_id);
    put_signed(qr_buf_view(&e->statement), &text);
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    *ret_good = c && EVP_DigestVerifyInit(c, NULL, NULL, NULL, key) == 1 &&
                EVP_DigestVerify(c, e->signature, sizeof e->signature, text.p, text.n) == 1;
    EVP_MD_CTX_free(c);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return QR_OK;
}
