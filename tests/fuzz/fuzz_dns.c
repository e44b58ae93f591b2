/* Replies of a DNS server, possibly forged: an address that is accepted is valid on
 * other machines. */
#include "link/dns.h"

#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    char ip[QR_IP_BYTES];
    if (qr_dns_answer(data, n, ip)) QR_ASSERT(qr_ip_ok(ip));
    return 0;
}
