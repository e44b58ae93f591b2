#include "link/dns.h"

#include <ares.h>
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <resolv.h>
#include <string.h>
#include <strings.h>

/* what a path carries in one piece: DNS flag day 2020 */
enum { ANSWER_BYTES = 1232, OPT_BYTES = 11 };

/* Those of SRV and of addresses in turn: a server that answers one kind only is asked in a new form
 * every other time. */
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

size_t qr_dns_question(struct qr_dns_form form, bool ipv6, const char *name, uint16_t id,
                       uint8_t ret[QR_DNS_QUESTION_BYTES]) {
    unsigned char *p = NULL;
    int n = 0, type = form.srv ? ns_t_srv : ipv6 ? ns_t_aaaa : ns_t_a;
    int status =
        ares_create_query(name, ns_c_in, type, id, 1, &p, &n, form.dnssec_ok ? ANSWER_BYTES : 0);
    bool fits = status == ARES_SUCCESS && n <= QR_DNS_QUESTION_BYTES;
    if (fits) {
        memcpy(ret, p, (size_t)n);
        if (form.checking_disabled) ret[3] |= 0x10;
        /* of OPT, which ends the question: name, type, size, code, version, flags, length */
        if (form.dnssec_ok) ret[n - OPT_BYTES + 7] |= 0x80;
    }
    ares_free_string(p);
    return fits ? (size_t)n : 0;
}

static bool is_address(ns_rr rr, char ret[QR_IP_BYTES]) {
    bool v4 = ns_rr_type(rr) == ns_t_a && ns_rr_rdlen(rr) == NS_INADDRSZ,
         v6 = ns_rr_type(rr) == ns_t_aaaa && ns_rr_rdlen(rr) == NS_IN6ADDRSZ;
    return ns_rr_class(rr) == ns_c_in && (v4 || v6) &&
           inet_ntop(v4 ? AF_INET : AF_INET6, ns_rr_rdata(rr), ret, QR_IP_BYTES) && qr_ip_ok(ret);
}

/* Whom an SRV record names; empty: nobody. */
static void target_of(const ns_msg *m, ns_rr rr, char ret[NS_MAXDNAME]) {
    enum { PRIORITY_WEIGHT_PORT = 6 };
    *ret = '\0';
    if (ns_rr_rdlen(rr) <= PRIORITY_WEIGHT_PORT ||
        dn_expand(ns_msg_base(*m), ns_msg_end(*m), ns_rr_rdata(rr) + PRIORITY_WEIGHT_PORT, ret,
                  NS_MAXDNAME) < 0)
        *ret = '\0';
}

/* An alias' address counts too: the server has followed it. */
static bool answered(ns_msg *m, char ret[QR_IP_BYTES], char target[NS_MAXDNAME]) {
    ns_rr rr;
    for (int i = 0; i < ns_msg_count(*m, ns_s_an); i++) {
        if (ns_parserr(m, ns_s_an, i, &rr) != 0) return false;
        if (is_address(rr, ret)) return true;
        if (ns_rr_type(rr) == ns_t_srv && !*target) target_of(m, rr, target);
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
    if (answered(&m, ret, target)) return true;
    for (int i = 0; *target && i < ns_msg_count(m, ns_s_ar); i++) {
        if (ns_parserr(&m, ns_s_ar, i, &rr) != 0) return false;
        if (is_address(rr, ret) && strcasecmp(ns_rr_name(rr), target) == 0) return true;
    }
    return false;
}
