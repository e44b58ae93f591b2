/* link/dns.h — questions of DNS for the address of a host, in forms that a cache keeps apart, and
 * their answers. Pure.
 *
 * Why       A cache between the machine and its DNS server remembers that a name did not exist, for
 *           half a minute in many clusters, also when the name is there a moment later. It does so
 *           for each question by itself: name, type, and the bits DO and CD (RFC 6891; RFC 4035,
 *           3.2; RFC 2308, 5; CoreDNS' cache keys by all four). So the same is asked in another
 *           form, which nobody has used for long.
 * When      By the wall's clock all workers use one form at a time, so that none is used up before
 *           its time: QR_DNS_FORMS of them, QR_DNS_FORM_NS each, take longer than what is
 *           remembered for 30 s. The form that everybody else uses, the plain question for an
 *           address, is none of them.
 * SRV       A cluster's DNS answers it for the name of a pod, with the address beside (RFC 2782:
 *           additional data).
 */
#ifndef QR_LINK_DNS_H
#define QR_LINK_DNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/ip.h"

enum { QR_DNS_FORMS = 7, QR_DNS_QUESTION_BYTES = 300 };
#define QR_DNS_FORM_NS (QR_SECOND * 9 / 2)

struct qr_dns_form {
    bool srv; /* SRV; else A or AAAA */
    bool dnssec_ok, checking_disabled;
};

/* Which form is used now, and its number, which is another one after QR_DNS_FORM_NS. */
struct qr_dns_form qr_dns_form_at(int64_t wall_ns, int64_t *ret_number);

/* One question; ipv6: for AAAA, where it is not for SRV. Returns its bytes; 0: this is no name. */
size_t qr_dns_question(struct qr_dns_form form, bool ipv6, const char *name, uint16_t id,
                       uint8_t ret[QR_DNS_QUESTION_BYTES]);

/* The first address that an answer has for the name that was asked for, and that means the same
 * elsewhere (qr_ip_ok); false: none. */
bool qr_dns_answer(const uint8_t *p, size_t n, char ret[QR_IP_BYTES]);

#endif
