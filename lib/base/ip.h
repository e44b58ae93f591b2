/* base/ip.h — IP addresses as texts that one machine tells another. Pure. */
#ifndef QR_BASE_IP_H
#define QR_BASE_IP_H

#include <stdbool.h>

enum {
    QR_IP_BYTES = 48,      /* with its NUL */
    QR_IP_PORT_BYTES = 56, /* and [...]:65535 */
};

/* "10.0.0.7", "fd00::1": an address that means the same elsewhere: none of loopback, of a link, of
 * many machines. */
bool qr_ip_ok(const char *ip);
/* Such a one with a port: "10.0.0.7:2222", "[fd00::1]:2222". */
bool qr_ip_port_ok(const char *address);
/* *ret empty: it is none of these. */
void qr_ip_with_port(const char *ip, unsigned port, char ret[QR_IP_PORT_BYTES]);

#endif
