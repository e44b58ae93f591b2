/* worker/settings_cost.c — the settings of price and cost limit. Start reading at
 * qr_settings_price(). */
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "worker/settings.h"

#define MOST 1e12

static enum qr_code cost_number(const char *text, const char *name, double min, double *ret,
                                struct qr_err *err) {
    if (qr_parse_double(text, ret) && *ret >= min && *ret <= MOST && *ret > 0) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT, "--%s: '%.40s' is not a number above 0, as in 0.25",
                   name, text);
}

enum qr_code qr_settings_price(const struct qr_settings *s, struct qr_price *ret,
                               uint64_t *ret_max_pod_ms, struct qr_err *err) {
    struct qr_price price = {0};
    double most = 0;
    *ret_max_pod_ms = 0;
    const char *currency = s->currency ? s->currency : "";
    size_t n = strlen(currency);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)currency[i] < ' ' || currency[i] == 0x7f) n = QR_CURRENCY_BYTES;
    if (n >= QR_CURRENCY_BYTES)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--currency: '%.40s' is not a currency: at most %d bytes, as in EUR",
                       currency, QR_CURRENCY_BYTES - 1);
    if ((s->max_cost || *currency) && !s->price_per_pod_hour)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--%s needs a price: set --price-per-pod-hour too (1 to count pod-hours)",
                       s->max_cost ? "max-cost" : "currency");
    if (s->price_per_pod_hour && cost_number(s->price_per_pod_hour, "price-per-pod-hour", 1e-9,
                                             &price.per_pod_hour, err) != QR_OK)
        return err->code;
    if (s->max_cost && cost_number(s->max_cost, "max-cost", 1e-9, &most, err) != QR_OK)
        return err->code;
    snprintf(price.currency, sizeof price.currency, "%s", currency);
    *ret = price;
    if (s->max_cost) *ret_max_pod_ms = qr_cost_pod_ms(&price, most);
    return QR_OK;
}
