/* group/group_over_impl.h — a group over links of any kind, for tests with their own links and
 * threads.
 */
#ifndef QR_GROUP_GROUP_OVER_IMPL_H
#define QR_GROUP_GROUP_OVER_IMPL_H

#include <stdbool.h>

#include "base/err.h"
#include "membership/member.h"

struct qr_group;
struct qr_group_options;
struct qr_link;

/* Rules that a group leaves out on request. Only tests/support/planted.h sets them. */
struct qr_group_faults {
    struct qr_member_faults member;
    bool apply_anyway;   /* applies a state although its generation is over */
    bool keep_anyway;    /* keeps micro-batches that a Begin drops */
    bool take_suspended; /* takes micro-batches between promise and Begin */
    bool own_schedule;   /* sums by its own all-reduce setting, not the ring's */
};

/* Listens on both links and takes ownership of them, also on failure. No code runs until
 * qr_group_control_run is called. */
QR_MUST_CHECK enum qr_code qr_group_over(const struct qr_group_options *opt,
                                         struct qr_link *control, struct qr_link *data,
                                         struct qr_group **ret, unsigned *ret_port,
                                         struct qr_err *err);
/* The body of the control thread. Returns, with the control link closed, after qr_group_close. */
void qr_group_control_run(struct qr_group *g);
/* Sets how qr_group_ready starts that thread and how qr_group_close joins it (only if started).
 * start NULL: the thread is running already. */
typedef enum qr_code qr_group_start_fn(void *ctx, struct qr_group *g, struct qr_err *err);
void qr_group_set_thread(struct qr_group *g, qr_group_start_fn *start, void (*join)(void *ctx),
                         void *ctx);

#endif
