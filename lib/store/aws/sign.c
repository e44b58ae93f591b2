/* store/aws/sign.c — AWS Signature Version 4
 * (docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html). Start
 * reading at qr_s3_authorization(). */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/parse.h"
#include "store/aws/aws.h"

void qr_s3_keys_fini(struct qr_s3_keys *k) {
    free(k->id);
    qr_web_wipe_text(&k->secret);
    qr_web_wipe_text(&k->session);
    *k = (struct qr_s3_keys){0};
}

/* ---- time ---- */

/* The formats hold numbers only, so the locale has no influence. */
void qr_s3_time(int64_t wall_ns, char ret[QR_S3_TIME_BYTES]) {
    const time_t seconds = wall_ns / QR_SECOND;
    struct tm utc;
    strftime(ret, QR_S3_TIME_BYTES, "%Y%m%dT%H%M%SZ", gmtime_r(&seconds, &utc));
}

bool qr_s3_time_parse(const char *text, int64_t *ret) {
    struct tm utc = {0};
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &utc);
    if (!end || utc.tm_year < 70 || utc.tm_year > 300) return false; /* years since 1900 */
    if (*end == '.') end += 1 + strspn(end + 1, "0123456789");
    if (strcmp(end, "Z") != 0 && strcmp(end, "+00:00") != 0) return false;
    *ret = timegm(&utc) * QR_SECOND;
    return true;
}

/* ---- the canonical request ---- */

struct header_line {
    char *name; /* in lower case */
    const char *value;
    size_t n;
};

static int compare_header_names(const void *a, const void *b) {
    return strcmp(((const struct header_line *)a)->name, ((const struct header_line *)b)->name);
}

static struct header_line split_header(const char *header) {
    size_t n = strcspn(header, ":");
    struct header_line l = {.name = qr_xstrndup(header, n),
                            .value = header + n + (header[n] == ':')};
    for (char *c = l.name; *c; c++)
        if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
    l.value += strspn(l.value, " \t");
    l.n = strlen(l.value);
    while (l.n && (l.value[l.n - 1] == ' ' || l.value[l.n - 1] == '\t')) l.n--;
    return l;
}

/* Appends the canonical headers to the request and their names to ret_names. */
static void put_headers(const struct qr_s3_signing *s, struct qr_buf *request,
                        struct qr_buf *ret_names) {
    struct header_line *lines = qr_xcalloc(s->n_headers + 1, sizeof *lines);
    for (size_t i = 0; i < s->n_headers; i++) lines[i] = split_header(s->headers[i]);
    if (s->n_headers) qsort(lines, s->n_headers, sizeof *lines, compare_header_names);
    for (size_t i = 0; i < s->n_headers; i++) {
        qr_buf_printf(request, "%s:%.*s\n", lines[i].name, (int)lines[i].n, lines[i].value);
        qr_buf_printf(ret_names, "%s%s", i ? ";" : "", lines[i].name);
        free(lines[i].name);
    }
    free(lines);
}

static void sha256_hex(struct qr_bytes b, char ret[QR_S3_HASH_BYTES]) {
    uint8_t hash[QR_SHA256_BYTES];
    qr_sha256(b.p, b.n, hash);
    qr_hex(hash, sizeof hash, ret);
}

static void hmac(const void *key, size_t n, const char *text, uint8_t ret[QR_SHA256_BYTES]) {
    unsigned length = QR_SHA256_BYTES;
    qr_check_memory(HMAC(EVP_sha256(), key, (int)n, (const unsigned char *)text, strlen(text), ret,
                         &length) != NULL,
                    "libcrypto");
}

char *qr_s3_authorization(const struct qr_s3_signing *s, const struct qr_s3_keys *keys) {
    qr_auto(qr_buf_free) struct qr_buf request = {0}, names = {0}, text = {0};
    char hash[QR_S3_HASH_BYTES], signature[QR_S3_HASH_BYTES];
    uint8_t key[QR_SHA256_BYTES];
    qr_buf_printf(&request, "%s\n%s\n%s\n", s->method, s->path, s->query);
    put_headers(s, &request, &names);
    qr_buf_printf(&request, "\n%s\n%s", qr_buf_string(&names), s->payload);
    sha256_hex(qr_buf_view(&request), hash);
    qr_auto(qr_free_p) char *day = qr_xstrndup(s->time, 8);
    qr_auto(qr_free_p) char *scope =
        qr_xasprintf("%s/%s/%s/aws4_request", day, s->region, s->service);
    qr_buf_printf(&text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", s->time, scope, hash);
    qr_auto(qr_web_wipe_text) char *first = qr_xasprintf("AWS4%s", keys->secret);
    hmac(first, strlen(first), day, key);
    hmac(key, sizeof key, s->region, key);
    hmac(key, sizeof key, s->service, key);
    hmac(key, sizeof key, "aws4_request", key);
    hmac(key, sizeof key, qr_buf_string(&text), key);
    qr_hex(key, sizeof key, signature);
    OPENSSL_cleanse(key, sizeof key);
    return qr_xasprintf(
        "Authorization: AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s",
        keys->id, scope, qr_buf_string(&names), signature);
}
