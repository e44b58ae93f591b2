/* sim/fusion/buffers.h — what a workspace and bound numbers take: one list, walked to count and
 * walked to allocate, so that the two cannot differ.
 *
 * A walk without `allocate` adds up only and leaves every pointer as it is. Pieces are zeroed,
 * begin on 64 bytes and are a multiple of 64 long. Ownership each piece is the caller's and is
 * released by free. After a failure (code) nothing more is handed out.
 */
#ifndef QR_SIM_FUSION_BUFFERS_H
#define QR_SIM_FUSION_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Memory of a name. */
struct qr_sim_buffer {
    const char *name;
    size_t bytes;
};

enum { QR_BUFFER_NAMES = 24 };

struct qr_buffers {
    bool allocate;
    size_t bytes;
    size_t n;
    struct qr_sim_buffer list[QR_BUFFER_NAMES]; /* pieces with one name are added */
    enum qr_code code;
    struct qr_err *err;
};

/* what: a string that stays. ret_place: where the pointer goes, a void ** of any type. */
void qr_buffers_take(struct qr_buffers *r, const char *what, size_t bytes, void *ret_place);

#endif
