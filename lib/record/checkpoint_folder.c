/* record/checkpoint_folder.c — resolves the URL of a checkpoint directory to a store. Start reading
 * at qr_checkpoint_folder_open(). */
#include "record/checkpoint_folder.h"

#include <string.h>

#include "base/mem.h"

enum qr_code qr_checkpoint_folder_open(const char *url, struct qr_checkpoint_folder *ret,
                                       struct qr_err *err) {
    qr_auto(qr_free_p) char *bare = qr_xstrdup(url), *full = NULL;
    struct qr_checkpoint_folder p = {0};
    for (size_t n = strlen(bare); n > 1 && bare[n - 1] == '/'; n--) bare[n - 1] = 0;
    full = qr_xasprintf("%s/LATEST", bare);
    QR_TRY(qr_store_resolve(full, &p.at.store, &p.dir, err));
    char *slash = strrchr(p.dir, '/');
    if (!slash) {
        qr_checkpoint_folder_close(&p);
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: checkpoints need a directory of their own in the bucket: use %s/NAME",
                       url, bare);
    }
    *slash = 0;
    p.url = QR_MOVE(bare);
    p.at.dir = p.dir;
    p.at.url = p.url;
    *ret = p;
    return QR_OK;
}

void qr_checkpoint_folder_close(struct qr_checkpoint_folder *p) {
    if (p->at.store) p->at.store->ops->close(p->at.store);
    free(p->url);
    free(p->dir);
    *p = (struct qr_checkpoint_folder){0};
}
