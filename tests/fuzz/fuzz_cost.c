/* cost.json: a pod-time that is written back unchanged, or an error that names the file. */
#include <string.h>

#include "format/json.h"
#include "output/cost.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const struct qr_price price = {.per_pod_hour = 0.25, .currency = "EUR"};
    uint64_t ms = 7, again = 0;
    struct qr_err err = {0};
    if (qr_cost_decode(qr_bytes_of(data, n), "a/cost.json", &ms, &err) != QR_OK) {
        QR_ASSERT(err.code == QR_DATA_LOSS && ms == 7 && strstr(err.msg, "a/cost.json"));
        return 0;
    }
    struct qr_buf text = {0};
    struct qr_json_writer w = qr_json_writer(&text, 2);
    qr_json_open(&w, '{');
    qr_cost_json(&price, ms, &w);
    qr_json_close(&w, '}');
    QR_ASSERT(qr_cost_decode(qr_buf_view(&text), "again", &again, &err) == QR_OK && again == ms);
    qr_buf_free(&text);
    return 0;
}
