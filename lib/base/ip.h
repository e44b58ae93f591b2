/* base/ip.h — IP addresses as text, as peers send them to each other. Pure functions. */
#ifndef QR_BASE_IP_H
#define QR_BASE_IP_H

#include <stdbool.h>

enum {
    QR_IP_BYTES = 48,      /* of an address, with its NUL */
    QR_IP_PORT_BYTES = 56, /* of "[address]:65535", with its NUL */
};

/* True for an address that another machine can use, as "10.0.0.7" or "fd00::1": not loopback,
 * unspecified, link-local, multicast or IPv4-mapped. */
bool qr_ip_ok(const char *ip);
/* True for such an address with a port: "10.0.0.7:2222", "[fd00::1]:2222". */
bool qr_ip_port_ok(const char *address);
/* Writes "ip:port" or "[ip]:port"; "" when the result would not be qr_ip_port_ok. */
void qr_ip_with_port(const char *ip, unsigned port, char ret[QR_IP_PORT_BYTES]);

#endif
