#include "worker/place.h"

#include <string.h>

#include "base/mem.h"
#include "train/checkpoint.h"

enum qr_code qr_place_open(const char *url, struct qr_place *ret, struct qr_err *err) {
    qr_auto(qr_free_p) char *bare = qr_xstrdup(url), *full = NULL;
    struct qr_place p = {0};
    for (size_t n = strlen(bare); n > 1 && bare[n - 1] == '/'; n--) bare[n - 1] = 0;
    full = qr_xasprintf("%s/LATEST", bare);
    enum qr_code code = qr_store_resolve(full, &p.at.store, &p.dir, err);
    if (code != QR_OK) return code;
    *strrchr(p.dir, '/') = 0;
    p.url = QR_MOVE(bare);
    p.at.dir = p.dir;
    p.at.url = p.url;
    *ret = p;
    return QR_OK;
}

void qr_place_close(struct qr_place *p) {
    if (p->at.store) p->at.store->ops->close(p->at.store);
    free(p->url);
    free(p->dir);
    *p = (struct qr_place){0};
}

enum qr_code qr_place_find(const struct qr_place *p, const struct qr_job *job, const struct qr_model *m, const char *job_hash, uint64_t epochs,
                           size_t n_batches, enum qr_found *ret, struct qr_state *ret_state, struct qr_buf *notes, struct qr_err *err) {
    struct qr_checkpoint c = {0};
    bool done = false;
    enum qr_found found = QR_FOUND_NOTHING;
    enum qr_code code = qr_checkpoint_load(&p->at, job_hash, &c, &done, notes, err);
    if (code != QR_OK) return code;
    if (*c.job_hash) {
        struct qr_state s;
        qr_state_init(&s, job, m);
        code = qr_state_load(&c, job, m, &s, err);
        bool complete = done && (s.epoch >= epochs || s.stop[QR_STOP_STOPPED] > 0);
        if (code != QR_OK) qr_wrap(err, "%s", p->url);
        else if (!complete && s.step > epochs * n_batches)
            code = qr_fail(err, QR_INVALID_ARGUMENT, "%s: the checkpoint of step %llu lies beyond %llu epochs of %zu steps: give more --epochs, or --fresh "
                           "to train again from the start", p->url, (unsigned long long)s.step, (unsigned long long)epochs, n_batches);
        found = complete ? QR_FOUND_DONE : QR_FOUND_STATE;
        if (code == QR_OK) qr_state_copy(ret_state, &s);
        qr_state_fini(&s);
    }
    qr_checkpoint_fini(&c);
    if (code == QR_OK) *ret = found;
    return code;
}
