/* store/web/retry.c — delays and deadlines of retries. Start reading at qr_web_retry_wait(). */
#include "store/web/web.h"

enum { MAX_DELAY_S = 32 };
static const int64_t first_notice_ns = 5 * QR_SECOND, next_notice_ns = 60 * QR_SECOND;

int64_t qr_web_awake_ns(const struct qr_web_waits *waits) {
    return qr_now_ns(waits->awake ? waits->awake : waits->clock);
}

void qr_web_retry_begin(struct qr_web_retry *r, const struct qr_web_waits *waits) {
    *r = (struct qr_web_retry){.waits = waits, .began_ns = qr_web_awake_ns(waits)};
}

void qr_web_retry_progress(struct qr_web_retry *r, size_t bytes) {
    int64_t left_ns = qr_web_awake_ns(r->waits) - r->began_ns;
    double earned_ns = (double)bytes / QR_WEB_MIN_BYTES_PER_S * (double)QR_SECOND;
    if (earned_ns >= (double)left_ns) {
        qr_web_retry_begin(r, r->waits);
    } else {
        r->began_ns += (int64_t)earned_ns;
        r->n = 0;
    }
}

bool qr_web_success(int status) { return status / 100 == 2; }

bool qr_web_retryable(int status) {
    return status == 408 || status == 429 || (status >= 500 && status <= 599);
}

bool qr_web_reply_retryable(const struct qr_web_reply *reply) {
    return qr_web_retryable(reply->status);
}

bool qr_web_retry_wait(struct qr_web_retry *r, int64_t retry_after_s) {
    const struct qr_web_waits *o = r->waits;
    bool stopping = o->stopping && o->stopping();
    int64_t bound = stopping         ? (o->stop_deadline_ns ? o->stop_deadline_ns : 120 * QR_SECOND)
                    : o->deadline_ns ? o->deadline_ns
                                     : 600 * QR_SECOND;
    int64_t left = r->began_ns + bound - qr_web_awake_ns(o);
    if (left <= 0) return false;
    int64_t most = (r->n < 5 ? INT64_C(1) << r->n : MAX_DELAY_S) * QR_SECOND;
    uint64_t random;
    qr_entropy(&random, sizeof random);
    int64_t delay = (int64_t)(random % (uint64_t)most) + 1;
    if (retry_after_s > 0 && delay < retry_after_s * QR_SECOND) delay = retry_after_s * QR_SECOND;
    /* The last attempt starts at the deadline, not before. */
    o->sleep(delay < left ? delay : left);
    r->n++;
    return true;
}

bool qr_web_retry_notice(struct qr_web_retry *r, int64_t *ret_seconds) {
    int64_t now = qr_web_awake_ns(r->waits);
    if (!r->waits->notice || now - r->began_ns < first_notice_ns ||
        (r->noticed_ns && now - r->noticed_ns < next_notice_ns))
        return false;
    *ret_seconds = (now - r->began_ns) / QR_SECOND;
    r->noticed_ns = now;
    return true;
}
