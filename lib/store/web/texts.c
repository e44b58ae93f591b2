/* store/web/texts.c — UUIDs, URL escapes, forms, base64 checksums and secrets of requests. */
#include <curl/curl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "store/web/web.h"

void qr_web_id(char ret[QR_WEB_ID_BYTES]) {
    uint8_t b[16];
    char hex[33];
    qr_entropy(b, sizeof b);
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    qr_hex(b, sizeof b, hex);
    snprintf(ret, QR_WEB_ID_BYTES, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16,
             hex + 20);
}

void qr_web_escape(struct qr_buf *ret, const char *text) {
    char *escaped = curl_easy_escape(NULL, text, 0);
    qr_check_memory(escaped != NULL, "libcurl");
    qr_buf_puts(ret, escaped);
    curl_free(escaped);
}

enum { BASE64_OF_4 = 8 };

void qr_web_crc32c_text(uint32_t crc, char ret[9]) {
    const unsigned char bytes[4] = {(unsigned char)(crc >> 24), (unsigned char)(crc >> 16),
                                    (unsigned char)(crc >> 8), (unsigned char)crc};
    EVP_EncodeBlock((unsigned char *)ret, bytes, 4);
}

bool qr_web_crc32c_parse(const char *base64, uint32_t *ret) {
    unsigned char bytes[6];
    if (strlen(base64) != BASE64_OF_4 || strcmp(base64 + 6, "==") != 0 ||
        EVP_DecodeBlock(bytes, (const unsigned char *)base64, BASE64_OF_4) != 6)
        return false;
    *ret = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
    return true;
}

/* ---- secrets ---- */

enum { MAX_SECRET_BYTES = 64 << 10 };

bool qr_web_is_token(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (text[i] <= ' ' || text[i] > '~') return false;
    return n > 0;
}

void qr_web_trim(struct qr_buf *b) {
    while (b->n && strchr(" \r\n", b->p[b->n - 1])) b->p[--b->n] = 0;
}

enum qr_code qr_web_read_secret(const char *path, struct qr_buf *ret, struct qr_err *err) {
    QR_TRY(qr_file_read(path, MAX_SECRET_BYTES, ret, err));
    qr_web_trim(ret);
    return QR_OK;
}

void qr_web_put_field(struct qr_buf *form, const char *name, const char *value) {
    qr_buf_printf(form, "%s%s=", form->n ? "&" : "", name);
    qr_web_escape(form, value);
}

void qr_web_wipe(struct qr_buf *b) {
    if (b->p) OPENSSL_cleanse(b->p, b->n);
    qr_buf_free(b);
}

void qr_web_wipe_text(char **text) {
    if (*text) OPENSSL_cleanse(*text, strlen(*text));
    free(QR_MOVE(*text));
}

void qr_web_reply_wipe(struct qr_web_reply *r) {
    qr_web_wipe(&r->body);
    qr_web_reply_fini(r);
}
