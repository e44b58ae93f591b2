/* collective/poll_report.h — how a thread has polled the data streams of a generation: what
 * membership
 * judges by whether data passes (membership/protocol.md rule 1). */
#ifndef QR_COLLECTIVE_POLL_REPORT_H
#define QR_COLLECTIVE_POLL_REPORT_H

#include <stdint.h>

#include "base/bounds.h"

struct qr_poll_report {
    int64_t since_ns, turn_ns;        /* without a pause from then until then */
    int64_t allow_ns;                 /* what the length of its messages explains */
    int64_t heard_ns[QR_MAX_MEMBERS]; /* by index: the last message from a member */
};

#endif
