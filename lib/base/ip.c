/* base/ip.c — checks and formats IP addresses from peers. Start reading at qr_ip_ok(). */
#include "base/ip.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"

bool qr_ip_ok(const char *host) {
    struct in6_addr six;
    struct in_addr four;
    if (strlen(host) >= QR_IP_BYTES) return false;
    if (inet_pton(AF_INET, host, &four) == 1) {
        uint32_t ip = ntohl(four.s_addr), top = ip >> 24;
        return top != 0 && top != 127 && top < 224 && ip >> 16 != 0xa9fe;
    }
    return inet_pton(AF_INET6, host, &six) == 1 && !IN6_IS_ADDR_LOOPBACK(&six) &&
           !IN6_IS_ADDR_UNSPECIFIED(&six) && !IN6_IS_ADDR_MULTICAST(&six) &&
           !IN6_IS_ADDR_LINKLOCAL(&six) && !IN6_IS_ADDR_V4MAPPED(&six);
}

bool qr_ip_port_ok(const char *address) {
    char host[QR_IP_BYTES + 2];
    const char *colon = strrchr(address, ':');
    uint64_t port;
    if (!colon || !qr_parse_u64(colon + 1, &port) || port < 1 || port > 65535) return false;
    size_t n = (size_t)(colon - address);
    bool bracketed = n > 2 && address[0] == '[' && colon[-1] == ']';
    if (bracketed) address++, n -= 2;
    if (n >= sizeof host || strlen(colon) > 6) return false;
    memcpy(host, address, n);
    host[n] = '\0';
    return bracketed == (strchr(host, ':') != NULL) && qr_ip_ok(host);
}

void qr_ip_with_port(const char *ip, unsigned port, char ret[QR_IP_PORT_BYTES]) {
    bool six = strchr(ip, ':') != NULL;
    snprintf(ret, QR_IP_PORT_BYTES, "%s%s%s:%u", six ? "[" : "", ip, six ? "]" : "", port & 0xffff);
    if (!qr_ip_port_ok(ret)) *ret = '\0';
}
