/* URLs of jobs, data and weights: a store and a name in it, or an error; no store receives a
 * request. */
#include "base/clock.h"
#include "record/weights.h"
#include "store/gcs.h"
#include "store/https.h"
#include "tests/fuzz/parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool configured;
    char *url = size ? qr_xstrndup((const char *)data, size) : qr_xstrdup(""), *name = NULL;
    struct qr_store *s = NULL;
    struct qr_err err = {0};
    enum qr_weights_format format;
    if (!configured)
        qr_https_configure(&(struct qr_https_options){.waits.clock = &qr_clock_monotonic});
    if (!configured)
        qr_gcs_configure(&(struct qr_gcs_options){.emulator_host = "127.0.0.1:1",
                                                  .waits.clock = &qr_clock_monotonic});
    configured = true;
    if (qr_store_resolve(url, &s, &name, &err) == QR_OK) {
        QR_ASSERT(s && name && *name);
        s->ops->close(s);
        free(name);
    } else {
        QR_ASSERT(!s && !name && err.msg[0]);
    }
    if (qr_weights_format_of(url, &format, &err) != QR_OK) QR_ASSERT(err.msg[0]);
    free(url);
    return 0;
}
