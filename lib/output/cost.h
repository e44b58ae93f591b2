/* output/cost.h — the cost of a run: pod-hours, and money if a price is set; reads and writes
 * cost.json.
 *
 * File      cost.json in the folder of the checkpoints, so that a resumed run finds it:
 *           {"pod_seconds": 5025.25, "pod_hours": ..., "price_per_pod_hour": ..., "cost": ...,
 *           "currency": ...}. Only pod_seconds is read back. It never decreases: it is written by
 *           compare-and-swap, and a larger number in the file is kept.
 * Threads   Any for the pure functions; one at a time for each store.
 */
#ifndef QR_OUTPUT_COST_H
#define QR_OUTPUT_COST_H

#include "base/bytes.h"
#include "base/err.h"
#include "store/store.h"

enum { QR_CURRENCY_BYTES = 9 };
struct qr_price {
    double per_pod_hour;              /* 0: not set */
    char currency[QR_CURRENCY_BYTES]; /* "" if not set */
};
double qr_cost_hours(uint64_t pod_ms);
double qr_cost_money(const struct qr_price *p, uint64_t pod_ms);
/* Returns the pod-time in ms that the money pays for, at least 1. The price must be above 0. */
uint64_t qr_cost_pod_ms(const struct qr_price *p, double money);
/* Appends "1.25 EUR (0.5 pod-hours)". */
void qr_cost_text(const struct qr_price *p, uint64_t pod_ms, struct qr_buf *ret);

struct qr_json_writer;
/* Writes the members of cost.json into the open object of w. */
void qr_cost_json(const struct qr_price *p, uint64_t pod_ms, struct qr_json_writer *w);
/* Reads pod_seconds of a cost.json. what: its name in messages. DATA_LOSS: malformed. */
QR_MUST_CHECK enum qr_code qr_cost_decode(struct qr_bytes text, const char *what, uint64_t *ret_ms,
                                          struct qr_err *err);

/* name: name of cost.json in the store. *ret_ms is 0 if the file does not exist. Errors: DATA_LOSS,
 * those of the store. */
QR_MUST_CHECK enum qr_code qr_cost_read(struct qr_store *store, const char *name, uint64_t *ret_ms,
                                        struct qr_err *err);
/* Writes cost.json, unless the file has a larger number. UNAVAILABLE: other processes keep changing
 * the file. */
QR_MUST_CHECK enum qr_code qr_cost_write(struct qr_store *store, const char *name,
                                         const struct qr_price *p, uint64_t pod_ms,
                                         struct qr_err *err);
/* As qr_cost_read, and deletion for a new run, by the URL of the folder. */
QR_MUST_CHECK enum qr_code qr_cost_read_url(const char *url, uint64_t *ret_ms, struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_cost_delete(const char *url, struct qr_err *err);

#endif
