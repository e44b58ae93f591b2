/* What answers where `qring status` asks: an HTTP reply, and Prometheus' text. Numbers, or a
 * sentence; nothing for a terminal to obey. */
#include <string.h>

#include "base/mem.h"
#include "monitor/status.h"

static void one(struct qr_bytes text) {
    struct qr_status_pair s = {.interval_s = 1};
    struct qr_err err = {0};
    struct qr_buf out = {0};
    if (qr_status_parse(text, &s.is, &err) != QR_OK) {
        QR_ASSERT(err.code == QR_INVALID_ARGUMENT && err.msg[0]);
        return;
    }
    s.was = s.is;
    qr_status_text(&s, "host:8080", &out);
    for (size_t i = 0; i < out.n; i++)
        QR_ASSERT(out.p[i] == '\n' || (out.p[i] >= 0x20 && out.p[i] < 0x7f));
    qr_buf_clear(&out);
    qr_status_json(&s, "host:8080", &out);
    QR_ASSERT(out.n > 2 && out.p[out.n - 2] == '}');
    qr_buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct qr_bytes body;
    struct qr_err err = {0};
    unsigned status;
    one(qr_bytes_of(data, size));
    if (qr_status_reply(qr_bytes_of(data, size), &status, &body, &err) == QR_OK) {
        QR_ASSERT(status >= 100 && status <= 999 && body.p >= data &&
                  body.p + body.n == data + size);
        one(body);
    } else {
        QR_ASSERT(err.msg[0]);
    }
    return 0;
}
