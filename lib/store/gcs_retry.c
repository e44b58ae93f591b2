#include "store/gcs_impl.h"

enum { MAX_DELAY_S = 32 };

int64_t qr_gcs_awake_ns(const struct qr_gcs_options *opt) {
    return qr_now_ns(opt->awake ? opt->awake : opt->clock);
}

void qr_gcs_retry_begin(struct qr_gcs_retry *r, const struct qr_gcs_options *opt) {
    *r = (struct qr_gcs_retry){.opt = opt, .began_ns = qr_gcs_awake_ns(opt)};
}

bool qr_gcs_success(int status) { return status / 100 == 2; }

bool qr_gcs_retryable(int status) {
    return status == 408 || status == 429 || (status >= 500 && status <= 599);
}

bool qr_gcs_retry_wait(struct qr_gcs_retry *r, int64_t retry_after_s) {
    const struct qr_gcs_options *o = r->opt;
    bool stopping = o->stopping && o->stopping();
    int64_t bound = stopping         ? (o->stop_deadline_ns ? o->stop_deadline_ns : 120 * QR_SECOND)
                    : o->deadline_ns ? o->deadline_ns
                                     : 600 * QR_SECOND;
    int64_t left = r->began_ns + bound - qr_gcs_awake_ns(o);
    if (left <= 0) return false;
    int64_t most = (r->n < 5 ? INT64_C(1) << r->n : MAX_DELAY_S) * QR_SECOND;
    uint64_t random;
    qr_entropy(&random, sizeof random);
    int64_t delay = (int64_t)(random % (uint64_t)most) + 1;
    if (retry_after_s > 0 && delay < retry_after_s * QR_SECOND) delay = retry_after_s * QR_SECOND;
    /* the last attempt is made at the deadline, not given up before it */
    o->sleep(delay < left ? delay : left);
    r->n++;
    return true;
}
