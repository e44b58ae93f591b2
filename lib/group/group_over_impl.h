/* group/group_over_impl.h — a group over links of any form: for group_grpc.c and for tests, which
 * bring links and threads of their own. */
#ifndef QR_GROUP_GROUP_OVER_IMPL_H
#define QR_GROUP_GROUP_OVER_IMPL_H

#include <stdbool.h>

#include "base/err.h"
#include "membership/member.h"

struct qr_group;
struct qr_group_options;
struct qr_link;

/* Rules that a group leaves out when it is told to. Only tests/support/planted.h tells it. */
struct qr_group_faults {
    struct qr_member_faults member;
    bool apply_anyway;   /* applies when its generation is over */
    bool keep_anyway;    /* keeps what a Begin drops */
    bool take_suspended; /* takes micro-batches between promise and Begin */
    bool own_schedule;   /* sums by its own all-reduce, not by the ring's */
};

/* Listens on both links and takes them over, also on failure. Nothing runs until somebody
 * calls qr_group_control_run. */
QR_MUST_CHECK enum qr_code qr_group_over(const struct qr_group_options *opt,
                                         struct qr_link *control, struct qr_link *data,
                                         struct qr_group **ret, unsigned *ret_port,
                                         struct qr_err *err);
/* The control thread's body: returns, with the control link closed, after qr_group_close has asked
 * for it. */
void qr_group_control_run(struct qr_group *g);
/* How qr_group_ready starts that thread, and how qr_group_close waits for it (only if it was
 * started). start NULL: it runs already. */
void qr_group_set_thread(struct qr_group *g,
                         enum qr_code (*start)(void *ctx, struct qr_group *g, struct qr_err *err),
                         void (*join)(void *ctx), void *ctx);

#endif
