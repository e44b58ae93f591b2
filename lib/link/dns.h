/* link/dns.h — DNS queries for the address of a host, in forms that a cache stores separately, and
 * their replies. Pure.
 *
 * Why       A cache between the machine and its DNS server remembers that a name did not exist, for
 *           half a minute in many clusters, also when the name exists a moment later. The cache
 *           stores each query separately, by name, type, and the bits DO and CD (RFC 6891; RFC
 *           4035, 3.2; RFC 2308, 5; CoreDNS' cache keys by all four). So the same name is queried
 *           in another form, which no process has used recently.
 * When      By the wall clock all workers use one form at a time, so that no form is used before
 *           its turn: QR_DNS_FORMS forms of QR_DNS_FORM_NS each take longer than the 30 s of a
 *           negative cache entry. The plain address query, which all other programs use, is not
 *           among them.
 * SRV       A cluster's DNS answers an SRV query for the name of a pod, with the address in the
 *           additional data (RFC 2782).
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
    bool srv; /* type SRV; else A or AAAA */
    bool dnssec_ok, checking_disabled;
};

/* Returns the current form. *ret_number: increases by one every QR_DNS_FORM_NS. */
struct qr_dns_form qr_dns_form_at(int64_t wall_ns, int64_t *ret_number);

/* Encodes one query. ipv6: type AAAA, unless the form is SRV. Returns its size in bytes; 0: not a
 * valid name. */
size_t qr_dns_question(struct qr_dns_form form, bool ipv6, const char *name, uint16_t id,
                       uint8_t ret[QR_DNS_QUESTION_BYTES]);

/* Reads the first address in a reply that other machines can use too (qr_ip_ok); false: none. */
bool qr_dns_answer(const uint8_t *p, size_t n, char ret[QR_IP_BYTES]);

#endif
