/* cluster/address.c — parsing and formatting of host:port addresses. Start reading at
 * address_parse(). */
#include <arpa/inet.h>
#include <ctype.h>
#include <net/if.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "cluster/identity.h"

enum { MAX_HOST = 253, MAX_LABEL = 63, MAX_ZONE = IFNAMSIZ - 1 };

/* [host, host + n) in the address, and the text after the colon (NULL without a port). */
struct parts {
    const char *host;
    size_t n;
    const char *port;
    bool v6;
};

static bool is_zone(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && !strchr("._-", s[i])) return false;
    return n >= 1 && n <= MAX_ZONE;
}

static const char *v6_fault(const char *s, size_t n) {
    char text[INET6_ADDRSTRLEN];
    struct in6_addr a;
    const char *zone = memchr(s, '%', n); /* fe80::1%eth0 */
    if (zone && !is_zone(zone + 1, n - (size_t)(zone + 1 - s)))
        return "the zone after '%' is not 1 to 15 letters, digits, '.', '_' and '-'";
    if (zone) n = (size_t)(zone - s);
    if (n >= sizeof text) return "the text in brackets is not an IPv6 address";
    memcpy(text, s, n);
    text[n] = 0;
    return inet_pton(AF_INET6, text, &a) == 1 ? NULL
                                              : "the text in brackets is not an IPv6 address";
}

static const char *name_fault(const char *s, size_t n) {
    size_t label = 0;
    if (n == 0) return "it has no host";
    if (n > MAX_HOST) return "the host is longer than 253 characters";
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '.') {
            if (label == 0) return "the host has an empty part between dots";
            label = 0;
        } else if (isalnum(c) || c == '-' || c == '_') {
            if (++label > MAX_LABEL) return "a part of the host is longer than 63 characters";
        } else {
            return "the host has a character other than letters, digits, '-', '_' and '.'";
        }
    }
    return NULL;
}

static const char *address_parse(const char *a, struct parts *ret) {
    const char *fault, *end;
    if (!*a) return "it is empty";
    if (strstr(a, "://")) return "write host:port without a scheme";
    if (*a == '[') {
        end = strchr(a, ']');
        if (!end) return "the bracket of its IPv6 address is not closed";
        *ret = (struct parts){.host = a + 1, .n = (size_t)(end - a - 1), .v6 = true};
        if ((fault = v6_fault(ret->host, ret->n))) return fault;
        if (end[1] && end[1] != ':') return "the text after the IPv6 address is not :port";
        if (end[1]) ret->port = end + 2;
    } else {
        end = strchr(a, ':');
        if (end && strchr(end + 1, ':'))
            return "an IPv6 address needs brackets, as in [fd00::1]:2222";
        *ret = (struct parts){
            .host = a, .n = end ? (size_t)(end - a) : strlen(a), .port = end ? end + 1 : NULL};
        if ((fault = name_fault(ret->host, ret->n))) return fault;
    }
    uint64_t port;
    if (!ret->port) return NULL;
    if (!*ret->port) return "it ends with ':' and has no port";
    if (!qr_parse_u64(ret->port, &port)) return "the port is not a number";
    return port >= 1 && port <= 65535 ? NULL : "the port is not in 1 ... 65535";
}

const char *qr_address_fault(const char *address) {
    struct parts p;
    return address_parse(address, &p);
}

bool qr_address_split(const char *address, unsigned default_port, char **ret_host,
                      unsigned *ret_port) {
    struct parts p;
    uint64_t port = default_port;
    if (address_parse(address, &p)) return false;
    if (p.port && !qr_parse_u64(p.port, &port)) return false;
    *ret_host = qr_xstrndup(p.host, p.n);
    *ret_port = (unsigned)port;
    return true;
}

char *qr_address_join(const char *host, unsigned port) {
    return strchr(host, ':') ? qr_xasprintf("[%s]:%u", host, port)
                             : qr_xasprintf("%s:%u", host, port);
}
