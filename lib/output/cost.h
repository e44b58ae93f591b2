/* output/cost.h — what a run has cost: pod-hours, and money where a price is set; cost.json.
 *
 * File      cost.json in the folder of the checkpoints, so that it is there where training goes on:
 *           {"pod_seconds": 5025.25, "pod_hours": ..., "price_per_pod_hour": ..., "cost": ...,
 *           "currency": ...}. Only pod_seconds is read again. It only grows: written by
 *           compare-and-swap, and a larger number that is there stays.
 * Threads   pure, or one at a time for each store.
 */
#ifndef QR_OUTPUT_COST_H
#define QR_OUTPUT_COST_H

#include "base/bytes.h"
#include "base/err.h"
#include "store/store.h"

enum { QR_CURRENCY_BYTES = 9 };
struct qr_price {
    double per_pod_hour;              /* 0: none is set */
    char currency[QR_CURRENCY_BYTES]; /* "" where it is not said */
};
double qr_cost_hours(uint64_t pod_ms);
double qr_cost_money(const struct qr_price *p, uint64_t pod_ms);
/* The pod-time that so much money pays; at least 1. price: above 0. */
uint64_t qr_cost_pod_ms(const struct qr_price *p, double money);
/* "1.25 EUR (0.5 pod-hours)". */
void qr_cost_text(const struct qr_price *p, uint64_t pod_ms, struct qr_buf *ret);

struct qr_json_writer;
/* The members of cost.json into the object that w is in. */
void qr_cost_json(const struct qr_price *p, uint64_t pod_ms, struct qr_json_writer *w);
/* DATA_LOSS: the bytes are no cost.json. what: its name for messages. */
QR_MUST_CHECK enum qr_code qr_cost_decode(struct qr_bytes text, const char *what, uint64_t *ret_ms,
                                          struct qr_err *err);

/* name: of cost.json in the store. *ret_ms is 0 where there is no file. */
QR_MUST_CHECK enum qr_code qr_cost_read(struct qr_store *store, const char *name, uint64_t *ret_ms,
                                        struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_cost_write(struct qr_store *store, const char *name,
                                         const struct qr_price *p, uint64_t pod_ms,
                                         struct qr_err *err);
/* The same by the folder's URL; forget: another run begins there. */
QR_MUST_CHECK enum qr_code qr_cost_read_url(const char *url, uint64_t *ret_ms, struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_cost_delete(const char *url, struct qr_err *err);

#endif
