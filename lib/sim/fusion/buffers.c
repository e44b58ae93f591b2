/* sim/fusion/buffers.c — counts or allocates one buffer at a time: qr_buffers_take(). */
#include "sim/fusion/buffers.h"

#include <string.h>

#include "base/mem.h"

/* From this size on, allocation may fail with an error instead of ending the process. */
enum { LARGE = 1 << 20 };

void qr_buffers_take(struct qr_buffers *r, const char *what, size_t bytes, void *ret_place) {
    size_t i = 0;
    if (r->code != QR_OK) return;
    bytes = bytes ? (bytes + 63) & ~(size_t)63 : 64;
    while (i < r->n && strcmp(r->list[i].name, what) != 0) i++;
    QR_ASSERT(i < QR_BUFFER_NAMES);
    if (i == r->n) r->list[r->n++] = (struct qr_sim_buffer){.name = what};
    r->list[i].bytes += bytes;
    r->bytes += bytes;
    if (!r->owner) return;
    void *p = NULL;
    if (bytes < LARGE) p = qr_xaligned(bytes);
    else r->code = qr_large_new(bytes, 1, what, &p, r->err);
    if (r->code != QR_OK) return;
    memcpy(ret_place, &p, sizeof p);
    r->owner->list = qr_xreallocarray(r->owner->list, r->owner->n + 1, sizeof p);
    r->owner->list[r->owner->n++] = p;
}

void qr_owned_free(struct qr_owned *o) {
    for (size_t i = 0; i < o->n; i++) free(o->list[i]);
    free(o->list);
}
