/* link/dns.c — encodes DNS queries and reads addresses from replies. Start reading at
 * qr_dns_question(). */
#include "link/dns.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <resolv.h>
#include <string.h>
#include <strings.h>

/* Largest UDP reply without fragmentation: DNS flag day 2020. */
enum { ANSWER_BYTES = 1232 };

/* SRV and address forms alternate: a server that answers only one type gets a new form every other
 * time. */
static const struct qr_dns_form forms[QR_DNS_FORMS] = {
    {.srv = true},
    {.checking_disabled = true},
    {.srv = true, .checking_disabled = true},
    {.dnssec_ok = true},
    {.srv = true, .dnssec_ok = true},
    {.dnssec_ok = true, .checking_disabled = true},
    {.srv = true, .dnssec_ok = true, .checking_disabled = true},
};

struct qr_dns_form qr_dns_form_at(int64_t wall_ns, int64_t *ret_number) {
    *ret_number = wall_ns / QR_DNS_FORM_NS;
    return forms[(uint64_t)*ret_number % QR_DNS_FORMS];
}

/* RFC 1035, 4.1; OPT: RFC 6891, 6.1.2 (its class is the maximum reply size, its TTL has the bit
 * DO). */
size_t qr_dns_question(struct qr_dns_form form, bool ipv6, const char *name, uint16_t id,
                       uint8_t ret[QR_DNS_QUESTION_BYTES]) {
    unsigned type = form.srv ? ns_t_srv : ipv6 ? ns_t_aaaa : ns_t_a;
    uint8_t *p = ret;
    NS_PUT16(id, p);
    *p++ = 0x01; /* RD */
    *p++ = form.checking_disabled ? 0x10 : 0;
    NS_PUT16(1, p);
    NS_PUT32(0, p); /* no answers, no authorities */
    NS_PUT16(form.dnssec_ok, p);
    int n = dn_comp(name, p, NS_MAXCDNAME, NULL, NULL);
    if (n < 0) return 0;
    p += n;
    NS_PUT16(type, p);
    NS_PUT16(ns_c_in, p);
    if (form.dnssec_ok) {
        *p++ = 0; /* the root's name */
        NS_PUT16(ns_t_opt, p);
        NS_PUT16(ANSWER_BYTES, p);
        NS_PUT32(NS_OPT_DNSSEC_OK, p);
        NS_PUT16(0, p);
    }
    return (size_t)(p - ret);
}

static bool is_address(ns_rr rr, char ret[QR_IP_BYTES]) {
    bool v4 = ns_rr_type(rr) == ns_t_a && ns_rr_rdlen(rr) == NS_INADDRSZ,
         v6 = ns_rr_type(rr) == ns_t_aaaa && ns_rr_rdlen(rr) == NS_IN6ADDRSZ;
    return ns_rr_class(rr) == ns_c_in && (v4 || v6) &&
           inet_ntop(v4 ? AF_INET : AF_INET6, ns_rr_rdata(rr), ret, QR_IP_BYTES) && qr_ip_ok(ret);
}

/* The target of an SRV record; empty when malformed. */
static void srv_target(const ns_msg *m, ns_rr rr, char ret[NS_MAXDNAME]) {
    enum { PRIORITY_WEIGHT_PORT = 6 };
    *ret = '\0';
    if (ns_rr_rdlen(rr) <= PRIORITY_WEIGHT_PORT ||
        dn_expand(ns_msg_base(*m), ns_msg_end(*m), ns_rr_rdata(rr) + PRIORITY_WEIGHT_PORT, ret,
                  NS_MAXDNAME) < 0)
        *ret = '\0';
}

/* Addresses of an alias count too: the server has followed the CNAME. */
static bool read_answers(ns_msg *m, char ret[QR_IP_BYTES], char target[NS_MAXDNAME]) {
    ns_rr rr;
    for (int i = 0; i < ns_msg_count(*m, ns_s_an); i++) {
        if (ns_parserr(m, ns_s_an, i, &rr) != 0) return false;
        if (is_address(rr, ret)) return true;
        if (ns_rr_type(rr) == ns_t_srv && !*target) srv_target(m, rr, target);
    }
    return false;
}

bool qr_dns_answer(const uint8_t *p, size_t n, char ret[QR_IP_BYTES]) {
    char target[NS_MAXDNAME] = "";
    ns_msg m;
    ns_rr rr;
    if (n > NS_MAXMSG || ns_initparse(p, (int)n, &m) != 0 || !ns_msg_getflag(m, ns_f_qr) ||
        ns_msg_getflag(m, ns_f_rcode) != ns_r_noerror)
        return false;
    if (read_answers(&m, ret, target)) return true;
    for (int i = 0; *target && i < ns_msg_count(m, ns_s_ar); i++) {
        if (ns_parserr(&m, ns_s_ar, i, &rr) != 0) return false;
        if (is_address(rr, ret) && strcasecmp(ns_rr_name(rr), target) == 0) return true;
    }
    return false;
}
