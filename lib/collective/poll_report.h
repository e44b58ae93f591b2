/* collective/poll_report.h — how a thread has polled the data streams of a generation. Membership
 * uses it to decide whether data passes (membership/protocol.md rule 1).
 */
#ifndef QR_COLLECTIVE_POLL_REPORT_H
#define QR_COLLECTIVE_POLL_REPORT_H

#include <stdint.h>

#include "base/bounds.h"

struct qr_poll_report {
    int64_t since_ns, turn_ns;           /* polled without a pause from since_ns to turn_ns */
    int64_t allow_ns;                    /* extra time that long messages may need */
    int64_t received_ns[QR_MAX_MEMBERS]; /* by index: last message from a member */
};

#endif
