/* The response of /status that `qring status` reads: numbers, or an error, and no terminal control
 * sequences. Written again, it reads back the same. */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "monitor/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct qr_status_pair s = {.interval_s = 1};
    struct qr_status again;
    struct qr_err err = {0};
    struct qr_buf out = {0};
    if (qr_status_parse(qr_bytes_of(data, size), &s.is, &err) != QR_OK) {
        QR_ASSERT((err.code == QR_INVALID_ARGUMENT || err.code == QR_RESOURCE_EXHAUSTED) &&
                  err.msg[0]);
        return 0;
    }
    s.was = s.is;
    qr_status_text(&s, "host:8080", &out);
    qr_status_line(&s, &out);
    for (size_t i = 0; i < out.n; i++) out.p[i] = out.p[i] == '\n' ? ' ' : out.p[i];
    QR_ASSERT(qr_text_ok(qr_buf_string(&out)));
    qr_buf_clear(&out);
    qr_status_json(&s, "host:8080", 0, &out);
    QR_ASSERT(qr_status_parse(qr_buf_view(&out), &again, &err) == QR_OK);
    QR_ASSERT(memcmp(again.peer, s.is.peer, sizeof again.peer) == 0 &&
              strcmp(again.last_error, s.is.last_error) == 0 &&
              strcmp(again.version, s.is.version) == 0);
    qr_buf_free(&out);
    return 0;
}
