/* output/cost.c — computes the cost of a run, and reads and writes cost.json. Start reading at
 * qr_cost_json() and qr_cost_write(). */
#include "output/cost.h"

#include <string.h>

#include "base/mem.h"
#include "format/json.h"
#include "record/checkpoint_folder.h"

enum { MAX_BYTES = 4096, TRIES = 8 };
#define HOUR_MS 3.6e6
/* exact in doubles and in nanoseconds: a century of one pod */
#define MOST_SECONDS 4e9

double qr_cost_hours(uint64_t pod_ms) { return (double)pod_ms / HOUR_MS; }

double qr_cost_money(const struct qr_price *p, uint64_t pod_ms) {
    return p->per_pod_hour * qr_cost_hours(pod_ms);
}

uint64_t qr_cost_pod_ms(const struct qr_price *p, double money) {
    double ms = money / p->per_pod_hour * HOUR_MS;
    return ms < 1 ? 1 : ms < MOST_SECONDS * 1e3 ? (uint64_t)ms : (uint64_t)(MOST_SECONDS * 1e3);
}

void qr_cost_text(const struct qr_price *p, uint64_t pod_ms, struct qr_buf *ret) {
    double hours = qr_cost_hours(pod_ms);
    if (p->per_pod_hour > 0)
        qr_buf_printf(ret, "%.6g%s%s (%.6g pod-hours)", qr_cost_money(p, pod_ms),
                      *p->currency ? " " : "", p->currency, hours);
    else qr_buf_printf(ret, "%.6g pod-hours", hours);
}

static void put_json_number(struct qr_json_writer *w, const char *key, double x) {
    qr_json_key_number(w, key, x);
}

void qr_cost_json(const struct qr_price *p, uint64_t pod_ms, struct qr_json_writer *w) {
    put_json_number(w, "pod_seconds", (double)pod_ms / 1e3);
    put_json_number(w, "pod_hours", qr_cost_hours(pod_ms));
    if (!(p->per_pod_hour > 0)) return;
    put_json_number(w, "price_per_pod_hour", p->per_pod_hour);
    put_json_number(w, "cost", qr_cost_money(p, pod_ms));
    if (!*p->currency) return;
    qr_json_key_string(w, "currency", p->currency);
}

enum qr_code qr_cost_decode(struct qr_bytes text, const char *what, uint64_t *ret_ms,
                            struct qr_err *err) {
    qr_auto(qr_json_free_p) struct qr_json *o = NULL;
    double seconds;
    struct qr_err why = {0};
    if (qr_json_parse(text, what, &o, &why) != QR_OK ||
        qr_json_want(o, what, QR_JSON_OBJECT, &why) != QR_OK ||
        qr_json_double(qr_json_get(o, "pod_seconds"), "pod_seconds", 0, MOST_SECONDS, &seconds,
                       &why) != QR_OK)
        return qr_fail(err, QR_DATA_LOSS,
                       "cannot read the cost of the run from %s; delete it to count from 0 (%s)",
                       what, why.msg);
    *ret_ms = (uint64_t)(seconds * 1e3 + 0.5);
    return QR_OK;
}

/* ---- in a store ---- */

static enum qr_code cost_read_version(struct qr_store *store, const char *name, uint64_t *ret_ms,
                                      struct qr_store_version *ret_version, struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    *ret_ms = 0;
    enum qr_code code = store->ops->get_version(store, name, MAX_BYTES, &text, ret_version, err);
    if (code == QR_RESOURCE_EXHAUSTED)
        return qr_fail(
            err, QR_DATA_LOSS,
            "cannot read the cost of the run from %s: it is too large; delete it to count from 0",
            name);
    QR_TRY(code);
    return ret_version->there ? qr_cost_decode(qr_buf_view(&text), name, ret_ms, err) : QR_OK;
}

enum qr_code qr_cost_read(struct qr_store *store, const char *name, uint64_t *ret_ms,
                          struct qr_err *err) {
    struct qr_store_version version;
    return cost_read_version(store, name, ret_ms, &version, err);
}

enum qr_code qr_cost_write(struct qr_store *store, const char *name, const struct qr_price *p,
                           uint64_t pod_ms, struct qr_err *err) {
    struct qr_store_version version;
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    struct qr_json_writer w = qr_json_writer(&text, 2);
    uint64_t there;
    qr_json_open(&w, '{');
    qr_cost_json(p, pod_ms, &w);
    qr_json_close(&w, '}');
    qr_buf_puts(&text, "\n");
    for (int i = 0; i < TRIES; i++) {
        QR_TRY(cost_read_version(store, name, &there, &version, err));
        if (there >= pod_ms) return QR_OK;
        enum qr_code code = store->ops->swap(store, name, qr_buf_view(&text), &version, err);
        if (code != QR_FAILED_PRECONDITION) return code;
    }
    return qr_fail(err, QR_UNAVAILABLE, "cannot write %s: other processes keep changing it", name);
}

enum qr_code qr_cost_read_url(const char *url, uint64_t *ret_ms, struct qr_err *err) {
    qr_auto(qr_checkpoint_folder_close) struct qr_checkpoint_folder p = {0};
    QR_TRY(qr_checkpoint_folder_open(url, &p, err));
    qr_auto(qr_free_p) char *name = qr_xasprintf("%s/cost.json", p.dir);
    return qr_cost_read(p.at.store, name, ret_ms, err);
}

enum qr_code qr_cost_delete(const char *url, struct qr_err *err) {
    qr_auto(qr_checkpoint_folder_close) struct qr_checkpoint_folder p = {0};
    QR_TRY(qr_checkpoint_folder_open(url, &p, err));
    qr_auto(qr_free_p) char *name = qr_xasprintf("%s/cost.json", p.dir);
    enum qr_code code = p.at.store->ops->remove(p.at.store, name, err);
    return code == QR_NOT_FOUND ? QR_OK : code;
}
