/* tests/support/planted.h — bugs that the simulator plants in a group, one bit each below 1 << 16:
 * rules that membership or the group leaves out. membership/member.h and group/group_over_impl.h
 * document each. */
#ifndef QR_TESTS_SUPPORT_PLANTED_H
#define QR_TESTS_SUPPORT_PLANTED_H

#include "group/group_over_impl.h"

enum planted {
    PLANTED_BEGIN_WITHOUT_PROMISE = 1 << 0,
    PLANTED_PROMISE_ANY = 1 << 1,
    PLANTED_KEEP_OVERLAP = 1 << 2,
    PLANTED_KEEP_OTHER_BASE = 1 << 3,
    PLANTED_NO_SUSPEND = 1 << 4,
    PLANTED_LEADER_DECIDES = 1 << 5,
    PLANTED_ID_IS_NUMBER = 1 << 6,
    PLANTED_CONTROL_IS_ENOUGH = 1 << 7,
    PLANTED_APPLY_ANYWAY = 1 << 8,
    PLANTED_KEEP_ANYWAY = 1 << 9,
    PLANTED_TAKE_SUSPENDED = 1 << 10,
    PLANTED_OWN_SCHEDULE = 1 << 11,
    PLANTED_NEWCOMERS_FIRST = 1 << 12,
};
/* The bugs of these bits. */
struct qr_group_faults planted_faults(unsigned bits);

#endif
