/* DNS queries in forms that a cache keeps apart, and the addresses in their responses: bytes
 * written by hand from RFC 1035, queries checked by the C library's parser. */
#include <arpa/nameser.h>
#include <string.h>

#include "link/dns.h"
#include "tests/t.h"

static const char pod[] = "w1.ring.default.svc.cluster.local";

/* ---- queries ---- */

static struct qr_dns_form form_of(int64_t number) {
    int64_t ret_number;
    struct qr_dns_form f =
        qr_dns_form_at(number * QR_DNS_FORM_NS + QR_DNS_FORM_NS / 3, &ret_number);
    CHECK(ret_number == number);
    return f;
}

static void test_forms(void) {
    const int64_t first = INT64_C(1795000000) * QR_SECOND / QR_DNS_FORM_NS;
    for (int64_t k = first; k < first + QR_DNS_FORMS; k++) {
        struct qr_dns_form a = form_of(k);
        CHECK(a.srv || a.dnssec_ok || a.checking_disabled, "that is the plain query");
        CHECK(a.srv != form_of(k + 1).srv || k % QR_DNS_FORMS == QR_DNS_FORMS - 1);
        for (int64_t j = k + 1; j < k + QR_DNS_FORMS; j++) {
            struct qr_dns_form b = form_of(j);
            CHECK(a.srv != b.srv || a.dnssec_ok != b.dnssec_ok ||
                      a.checking_disabled != b.checking_disabled,
                  "a form repeats within a round");
        }
        struct qr_dns_form again = form_of(k + QR_DNS_FORMS);
        CHECK(memcmp(&a, &again, sizeof a) == 0);
    }
    /* An answer that is cached for half a minute has expired when its form comes again. */
    CHECK((QR_DNS_FORMS - 1) * QR_DNS_FORM_NS < 30 * QR_SECOND &&
          QR_DNS_FORMS * QR_DNS_FORM_NS > 30 * QR_SECOND);
}

static void test_question(struct qr_dns_form form, bool ipv6) {
    uint8_t bytes[QR_DNS_QUESTION_BYTES];
    size_t n = qr_dns_question(form, ipv6, pod, 0xabcd, bytes);
    ns_msg m;
    ns_rr rr;
    bool is = n > 0 && ns_initparse(bytes, (int)n, &m) == 0;
    CHECK(is);
    if (!is) return;
    CHECK(ns_msg_id(m) == 0xabcd && ns_msg_getflag(m, ns_f_qr) == 0 &&
          ns_msg_getflag(m, ns_f_rd) == 1 && ns_msg_getflag(m, ns_f_cd) == form.checking_disabled);
    CHECK(ns_msg_count(m, ns_s_qd) == 1 && ns_parserr(&m, ns_s_qd, 0, &rr) == 0);
    CHECK(ns_rr_type(rr) == (form.srv ? ns_t_srv
                             : ipv6   ? ns_t_aaaa
                                      : ns_t_a) &&
          ns_rr_class(rr) == ns_c_in && strcmp(ns_rr_name(rr), pod) == 0);
    CHECK(ns_msg_count(m, ns_s_an) == 0 && ns_msg_count(m, ns_s_ar) == form.dnssec_ok);
    if (!form.dnssec_ok) return;
    CHECK(ns_parserr(&m, ns_s_ar, 0, &rr) == 0);
    CHECK(ns_rr_type(rr) == ns_t_opt && strcmp(ns_rr_name(rr), ".") == 0 && rr.rr_class == 1232 &&
          ns_rr_ttl(rr) == NS_OPT_DNSSEC_OK && ns_rr_rdlen(rr) == 0);
}

static void test_names(void) {
    uint8_t bytes[QR_DNS_QUESTION_BYTES];
    const struct qr_dns_form most = {true, true, true};
    char label[80], longest[300] = "";
    CHECK(qr_dns_question(most, false, "w1..ring", 1, bytes) == 0);
    memset(label, 'x', sizeof label);
    snprintf(label + 64, sizeof label - 64, ".y");
    CHECK(qr_dns_question(most, false, label, 1, bytes) == 0, "64 characters in a label");
    for (int i = 0; i < 25; i++) strcat(longest, "123456789.");
    strcat(longest, "abc");
    CHECK(qr_dns_question(most, false, longest, 1, bytes) > 0, "253 characters");
    strcat(longest, "de");
    CHECK(qr_dns_question(most, false, longest, 1, bytes) == 0, "255 characters");
    CHECK(qr_dns_question(most, false, "w1.ring.", 1, bytes) ==
          qr_dns_question(most, false, "w1.ring", 1, bytes));
}

/* ---- responses ---- */

static uint8_t answer[1024];
static size_t n_answer;

static void put(const void *p, size_t n) {
    memcpy(answer + n_answer, p, n);
    n_answer += n;
}
static void put16(unsigned v) { put((uint8_t[]){(uint8_t)(v >> 8), (uint8_t)v}, 2); }
static void head(unsigned flags, unsigned answers, unsigned more) {
    static const char name[] = "\2w1\4ring\7default\3svc\7cluster\5local"; /* with its final 0 */
    n_answer = 0;
    put16(7), put16(flags), put16(1), put16(answers), put16(0), put16(more);
    put(name, sizeof name);
    put16(ns_t_a), put16(ns_c_in);
}
/* name: labels; NULL: the name of the query */
static void record(const char *name, unsigned type, const void *data, size_t n) {
    if (name) put(name, strlen(name) + 1);
    else put16(0xc00c);
    put16(type), put16(ns_c_in), put16(0), put16(30), put16((unsigned)n);
    put(data, n);
}
static void a(const char *name, const char *ip4) { record(name, ns_t_a, ip4, 4); }
static const char node[] = "\12\0\0\7", other_node[] = "\12\0\0\10", loop[] = "\177\0\0\1";

static void check_found(const char *what, const char *ip) {
    char found[QR_IP_BYTES] = "";
    bool is = qr_dns_answer(answer, n_answer, found);
    CHECK(is == (ip != NULL) && (!ip || strcmp(found, ip) == 0), "%s: %d, %s", what, is, found);
    /* Truncated anywhere: no read beyond the end, and no other address. */
    for (size_t n = 0; n < n_answer; n++) {
        uint8_t *cut = malloc(n ? n : 1);
        memcpy(cut, answer, n);
        CHECK(!qr_dns_answer(cut, n, found) || (ip && strcmp(found, ip) == 0), "%s", what);
        free(cut);
    }
}

static void test_addresses(void) {
    head(0x8180, 1, 0), a(NULL, node);
    check_found("an address", "10.0.0.7");
    head(0x8183, 1, 0), a(NULL, node);
    check_found("no such name", NULL);
    head(0x8182, 1, 0), a(NULL, node);
    check_found("server failure", NULL);
    head(0x0100, 1, 0), a(NULL, node);
    check_found("a query", NULL);
    head(0x8180, 0, 0);
    check_found("no record of that type", NULL);
    head(0x8180, 2, 0), a(NULL, loop), a(NULL, other_node);
    check_found("the first address that other machines can use", "10.0.0.8");
    head(0x8180, 2, 0), record(NULL, ns_t_cname, "\1b", 3), a("\1b", other_node);
    check_found("an alias", "10.0.0.8");
    head(0x8180, 1, 0), record(NULL, ns_t_a, node, 3);
    check_found("an address of three bytes", NULL);
    head(0x8180, 1, 0), record(NULL, ns_t_aaaa, "\375\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 16);
    check_found("IPv6", "fd00::1");
    head(0x8180, 1, 0), record(NULL, ns_t_aaaa, "\376\200\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 16);
    check_found("a link-local address", NULL);
}

static void test_services(void) {
    static const char to_itself[] = "\0\0\0\144\10\256\300\14", to_other[] = "\0\0\0\144\10\256\1W";
    head(0x8180, 1, 1), record(NULL, ns_t_srv, to_itself, 8), a(NULL, node);
    check_found("as a cluster's DNS answers", "10.0.0.7");
    head(0x8180, 1, 2), record(NULL, ns_t_srv, to_other, sizeof to_other), a("\1v", node),
        a("\1w", other_node);
    check_found("the target's address, in other case, and not another host's", "10.0.0.8");
    head(0x8180, 0, 1), a(NULL, node);
    check_found("an additional record without an answer", NULL);
    head(0x8180, 1, 1), record(NULL, ns_t_srv, to_itself, 6), a(NULL, node);
    check_found("a service without a target", NULL);
    head(0x8180, 1, 1), record(NULL, ns_t_srv, "\0\0\0\144\10\256\377\377", 8), a(NULL, node);
    check_found("a target beyond the end", NULL);
    head(0x8180, 1, 0), record(NULL, ns_t_srv, to_itself, 8);
    check_found("a target without an address", NULL);
}

int main(void) {
    test_forms();
    for (int i = 0; i < 16; i++) test_question((struct qr_dns_form){i & 1, i & 2, i & 4}, i & 8);
    test_names();
    test_addresses();
    test_services();
    return t_end();
}
