/* tests/support/planted.c — bits to switches. */
#include "tests/support/planted.h"

struct qr_group_faults planted_faults(unsigned bits) {
    return (struct qr_group_faults){
        .member =
            {
                .begin_without_promise = bits & PLANTED_BEGIN_WITHOUT_PROMISE,
                .promise_any = bits & PLANTED_PROMISE_ANY,
                .keep_overlap = bits & PLANTED_KEEP_OVERLAP,
                .keep_other_base = bits & PLANTED_KEEP_OTHER_BASE,
                .no_suspend = bits & PLANTED_NO_SUSPEND,
                .leader_decides = bits & PLANTED_LEADER_DECIDES,
                .id_is_number = bits & PLANTED_ID_IS_NUMBER,
                .newcomers_first = bits & PLANTED_NEWCOMERS_FIRST,
                .control_is_enough = bits & PLANTED_CONTROL_IS_ENOUGH,
            },
        .apply_anyway = bits & PLANTED_APPLY_ANYWAY,
        .keep_anyway = bits & PLANTED_KEEP_ANYWAY,
        .take_suspended = bits & PLANTED_TAKE_SUSPENDED,
        .own_schedule = bits & PLANTED_OWN_SCHEDULE,
    };
}
