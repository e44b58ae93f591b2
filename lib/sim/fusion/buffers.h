/* sim/fusion/buffers.h — the memory of workspaces and bound numbers: one walk over the list of
 * buffers counts them, the same walk allocates them, so the two cannot differ.
 *
 * A walk without an owner only adds up and leaves every pointer unchanged. Buffers are zeroed,
 * aligned to 64 bytes, and a multiple of 64 bytes long; qr_owned_free releases all buffers of an
 * owner. After a failure (see code) no more buffers are allocated. */
#ifndef QR_SIM_FUSION_BUFFERS_H
#define QR_SIM_FUSION_BUFFERS_H

#include <stddef.h>

#include "base/err.h"

/* Total size of the buffers with one name. */
struct qr_sim_buffer {
    const char *name;
    size_t bytes;
};

enum { QR_BUFFER_NAMES = 24 };

struct qr_owned {
    void **list;
    size_t n;
};
void qr_owned_free(struct qr_owned *o);

struct qr_buffers {
    struct qr_owned *owner; /* NULL: count only */
    size_t bytes;
    size_t n;
    struct qr_sim_buffer list[QR_BUFFER_NAMES]; /* buffers with the same name are added */
    enum qr_code code;
    struct qr_err *err;
};

/* Counts or allocates one buffer.
 *
 * Args:     what       static name
 *           bytes      size, rounded up to a multiple of 64
 *           ret_place  address of the pointer to set, of any type
 * Errors:   r->code and r->err
 */
void qr_buffers_take(struct qr_buffers *r, const char *what, size_t bytes, void *ret_place);

#endif
