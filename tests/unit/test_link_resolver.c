/* The resolver beside a DNS server on loopback that remembers what it said, each form of a question
 * by itself; each call to the system made to fail once. Its wall's clock runs fifteen times as
 * fast as time. */
#undef _FORTIFY_SOURCE
#include "link/resolver.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/dns.h"
#include "tests/real.h"
#include "tests/t.h"

/* of time, not of the wall */
enum { FASTER = 15, FORM_MS = 4500 / FASTER, REMEMBERS_MS = 30000 / FASTER, BOUND_MS = 20000 };

static int64_t fast(void *ctx) {
    (void)ctx;
    return qr_now_ns(&qr_clock_monotonic) * FASTER;
}
static const struct qr_clock wall = {fast, NULL};
static int64_t form_now(void) { return fast(NULL) / QR_DNS_FORM_NS; }
static int64_t now_ms(void) { return qr_now_ns(&qr_clock_monotonic) / QR_MS; }

/* ---- calls that fail ---- */

static atomic_long n_calls, fail_at; /* 0: nothing fails */
static _Thread_local bool is_server;
static bool fails(int sys) {
    if (is_server || fail_at == 0 || ++n_calls != fail_at) return false;
    errno = sys;
    return true;
}
#define SEEN __attribute__((visibility("default")))
SEEN int socket(int domain, int type, int protocol) {
    REAL(socket);
    return fails(EMFILE) ? -1 : real(domain, type, protocol);
}
SEEN int connect(int fd, const struct sockaddr *to, socklen_t n) {
    REAL(connect);
    return fails(ENETUNREACH) ? -1 : real(fd, to, n);
}
SEEN ssize_t send(int fd, const void *p, size_t n, int flags) {
    REAL(send);
    return fails(EPERM) ? -1 : real(fd, p, n, flags);
}
SEEN ssize_t sendto(int fd, const void *p, size_t n, int flags, const struct sockaddr *to,
                    socklen_t n_to) {
    REAL(sendto);
    return fails(EPERM) ? -1 : real(fd, p, n, flags, to, n_to);
}
SEEN ssize_t recvfrom(int fd, void *p, size_t n, int flags, struct sockaddr *from,
                      socklen_t *n_from) {
    REAL(recvfrom);
    return fails(ECONNREFUSED) ? -1 : real(fd, p, n, flags, from, n_from);
}
SEEN int poll(struct pollfd *p, nfds_t n, int ms) {
    REAL(poll);
    return fails(ENOMEM) ? -1 : real(p, n, ms);
}
SEEN int eventfd(unsigned count, int flags) {
    REAL(eventfd);
    return fails(EMFILE) ? -1 : real(count, flags);
}
SEEN int pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *),
                        void *arg) {
    REAL(pthread_create);
    return fails(EAGAIN) ? EAGAIN : real(ret, attr, run, arg);
}

/* ---- a server ---- */

enum { MAX_SAID = 4096, NAME = NS_MAXDNAME };
static struct {
    int fd;
    unsigned port;
    pthread_t thread;
    atomic_bool closing, silent, no_srv;
    pthread_mutex_t lock; /* guards what follows */
    char there[80][NAME]; /* names that exist */
    size_t n_there;
    struct {
        char name[NAME];
        unsigned form;
        bool found;
        int64_t until_ms;
    } said[MAX_SAID];
    size_t n_said, n_asked, n_plain;
} server = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_there(const char *name) {
    for (size_t i = 0; i < server.n_there; i++)
        if (strcmp(server.there[i], name) == 0) return true;
    return false;
}
static bool remembered(const char *name, unsigned form) {
    size_t at = server.n_said;
    for (size_t i = 0; i < server.n_said; i++)
        if (server.said[i].form == form && strcmp(server.said[i].name, name) == 0) at = i;
    if (at < server.n_said && now_ms() < server.said[at].until_ms) return server.said[at].found;
    bool found = is_there(name);
    if (at == server.n_said) {
        if (at == MAX_SAID) abort();
        server.n_said++;
        memcpy(server.said[at].name, name, strlen(name) + 1);
    }
    server.said[at].form = form;
    server.said[at].found = found;
    server.said[at].until_ms = now_ms() + REMEMBERS_MS;
    return found;
}
/* Makes a question an answer. Returns its bytes. */
static size_t reply(uint8_t *p, size_t n) {
    static const uint8_t node[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 10, 0, 0, 7},
                         service[] = {0xc0, 12, 0, 33, 0, 1,    0,    0,    0,    30,
                                      0,    8,  0, 0,  0, 0x64, 0x08, 0xae, 0xc0, 12};
    ns_msg m;
    ns_rr rr;
    if (ns_initparse(p, (int)n, &m) != 0 || ns_parserr(&m, ns_s_qd, 0, &rr) != 0) abort();
    bool srv = ns_rr_type(rr) == ns_t_srv, has_do = ns_msg_count(m, ns_s_ar) > 0;
    unsigned form = srv + 2U * has_do + 4U * (unsigned)ns_msg_getflag(m, ns_f_cd);
    server.n_asked++;
    server.n_plain += form == 0;
    bool found = remembered(ns_rr_name(rr), form) && !(srv && server.no_srv);
    size_t end = 12 + strlen(ns_rr_name(rr)) + 2 + 4;
    p[2] = 0x81, p[3] = (uint8_t)((p[3] & 0x10) | 0x80 | (found ? 0 : 3));
    memset(p + 6, 0, 6);
    if (!found) return end;
    p[7] = 1, p[11] = srv;
    if (srv) memcpy(p + end, service, sizeof service), end += sizeof service;
    memcpy(p + end, node, sizeof node);
    return end + sizeof node;
}
static void *serve(void *arg) {
    uint8_t p[1024];
    struct sockaddr_in who;
    is_server = true;
    while (!server.closing) {
        socklen_t n_who = sizeof who;
        ssize_t n = recvfrom(server.fd, p, sizeof p / 2, 0, (struct sockaddr *)&who, &n_who);
        if (n <= 0 || server.silent) continue;
        pthread_mutex_lock(&server.lock);
        size_t n_reply = reply(p, (size_t)n);
        pthread_mutex_unlock(&server.lock);
        sendto(server.fd, p, n_reply, 0, (const struct sockaddr *)&who, n_who);
    }
    return arg;
}
static void open_server(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_usec = 100000};
    socklen_t n = sizeof a;
    server.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (bind(server.fd, (const struct sockaddr *)&a, sizeof a) != 0 ||
        getsockname(server.fd, (struct sockaddr *)&a, &n) != 0 ||
        setsockopt(server.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0)
        abort();
    server.port = ntohs(a.sin_port);
    if (pthread_create(&server.thread, NULL, serve, NULL) != 0) abort();
}
static void exists(const char *name) {
    pthread_mutex_lock(&server.lock);
    snprintf(server.there[server.n_there++], NAME, "%s", name);
    pthread_mutex_unlock(&server.lock);
}
static void forgets(void) {
    pthread_mutex_lock(&server.lock);
    server.n_there = server.n_said = server.n_asked = server.n_plain = 0;
    pthread_mutex_unlock(&server.lock);
}
static size_t asked(void) {
    pthread_mutex_lock(&server.lock);
    size_t n = server.n_asked;
    pthread_mutex_unlock(&server.lock);
    return n;
}

/* ---- the resolver ---- */

static atomic_uint n_found;
static void found(void *ctx) {
    (void)ctx;
    n_found++;
}
static struct qr_resolver *resolver_in(const char *domain) {
    char at[64];
    snprintf(at, sizeof at, "127.0.0.1:%u", server.port);
    return qr_resolver_new(&(struct qr_resolver_options){
        .wall = &wall, .found = found, .server = at, .domain = domain});
}
static struct qr_resolver *resolver(void) { return resolver_in("svc.cluster.local"); }
/* In how many ms; -1: not at all. */
static int64_t until_found(struct qr_resolver *r, const char *host, int64_t *seen) {
    char ip[QR_IP_BYTES];
    int64_t began_ms = now_ms();
    while (now_ms() < began_ms + BOUND_MS) {
        if (qr_resolver_find(r, host, seen, ip)) {
            CHECK(strcmp(ip, "10.0.0.7") == 0, "%s", ip);
            return now_ms() - began_ms;
        }
        qr_sleep_ns(QR_MS);
    }
    return -1;
}
static void pass_forms(unsigned n) { qr_sleep_ns((int64_t)n * FORM_MS * QR_MS); }

static void test_there(void) {
    struct qr_resolver *r = resolver();
    int64_t seen = 0, first;
    n_found = 0;
    exists("w0.ring.svc.cluster.local");
    qr_resolver_want(r, "w0.ring");
    CHECK(until_found(r, "w0.ring", &seen) >= 0 && n_found >= 1 && seen > 0);
    first = seen;
    CHECK(until_found(r, "w0.ring", &seen) >= 0 && seen > first, "a later form says so again");
    qr_resolver_free(r);
}

/* The whole name and that with the domain; a name with a dot at its end stands for itself. */
static void test_domains(void) {
    struct qr_resolver *r = resolver();
    int64_t seen = 0;
    exists("w0.whole");
    qr_resolver_want(r, "w0.whole");
    CHECK(until_found(r, "w0.whole", &seen) >= 0, "the domain's answer does not decide");
    exists("w0.other.svc.cluster.local");
    qr_resolver_want(r, "w0.other.");
    pass_forms(4);
    char ip[QR_IP_BYTES];
    seen = 0;
    CHECK(!qr_resolver_find(r, "w0.other.", &seen, ip), "%s", ip);
    CHECK(!qr_resolver_find(r, "nobody wants it", &seen, ip));
    qr_resolver_free(r);
}

/* The search list of the system; resolver(5): this variable replaces that of resolv.conf. */
static void test_search_list(void) {
    setenv("LOCALDOMAIN", "default.svc.example svc.example", 1);
    struct qr_resolver *r = resolver_in(NULL);
    int64_t seen = 0;
    exists("w0.listed.svc.example");
    qr_resolver_want(r, "w0.listed");
    CHECK(until_found(r, "w0.listed", &seen) >= 0, "each domain of the list is tried");
    qr_resolver_free(r);
    unsetenv("LOCALDOMAIN");
}

/* Whoever asks, and whenever: it is found in the next form, or, on a machine that is busy, in one
 * soon after, when no answer was forgotten yet. */
static void test_remembered(void) {
    enum { WORKERS = 3 };
    for (unsigned late = 0; late < 9; late += 2) {
        struct qr_resolver *r[WORKERS];
        forgets();
        for (unsigned i = 0; i < WORKERS; i++) {
            r[i] = resolver();
            qr_resolver_want(r[i], "w0.late");
        }
        pass_forms(late);
        qr_sleep_ns(late % 3 * 100 * QR_MS);
        int64_t at = form_now(), seen[WORKERS] = {0};
        exists("w0.late.svc.cluster.local");
        for (unsigned i = 0; i < WORKERS; i++) {
            CHECK(until_found(r[i], "w0.late", &seen[i]) >= 0, "late %u, worker %u", late, i);
            CHECK(seen[i] >= at - 1 && seen[i] <= at + 5, "%u: %ld forms", late,
                  (long)(seen[i] - at));
        }
        for (unsigned i = 0; i < WORKERS; i++) qr_resolver_free(r[i]);
        pthread_mutex_lock(&server.lock);
        size_t n_plain = server.n_plain;
        pthread_mutex_unlock(&server.lock);
        CHECK(n_plain == 0, "everybody's question was asked %zu times", n_plain);
    }
}

static void test_addresses_alone(void) {
    struct qr_resolver *r = resolver();
    int64_t seen = 0;
    forgets();
    server.no_srv = true;
    exists("w0.plain.svc.cluster.local");
    qr_resolver_want(r, "w0.plain");
    CHECK(until_found(r, "w0.plain", &seen) >= 0, "a server that knows of no SRV");
    server.no_srv = false;
    qr_resolver_free(r);
}

static void test_dropped(void) {
    struct qr_resolver *r = resolver();
    char host[32];
    forgets();
    int64_t began = form_now();
    for (int i = 0; i <= QR_RESOLVER_NAMES; i++) { /* one too many */
        snprintf(host, sizeof host, "w%d.many", i);
        qr_resolver_want(r, host);
        qr_resolver_want(r, host);
    }
    pass_forms(3);
    size_t n = asked();
    size_t forms = (size_t)(form_now() - began) + 1;
    CHECK(n >= 3 * 2 * QR_RESOLVER_NAMES && n <= forms * 2 * QR_RESOLVER_NAMES, "%zu in %zu", n,
          forms);
    for (int i = 0; i <= QR_RESOLVER_NAMES; i++) {
        snprintf(host, sizeof host, "w%d.many", i);
        qr_resolver_drop(r, host);
    }
    pass_forms(1);
    n = asked();
    pass_forms(3);
    CHECK(asked() == n, "nobody is wanted, and %zu questions more", asked() - n);
    /* there is room again; what was found for who is not wanted any more is for nobody */
    int64_t seen = 0;
    exists("w64.many.svc.cluster.local");
    qr_resolver_want(r, "w64.many");
    CHECK(until_found(r, "w64.many", &seen) >= 0);
    qr_resolver_free(r);
}

static void test_silence(void) {
    struct qr_resolver *r = resolver();
    server.silent = true;
    qr_resolver_want(r, "w0.silent");
    pass_forms(2);
    int64_t began_ms = now_ms();
    qr_resolver_free(r);
    /* questions are given 2 s */
    CHECK(t_in_time("a resolver that waits for answers is freed",
                    (now_ms() - began_ms) * INT64_C(1000000), INT64_C(1900000000), T_MINUTE));
    server.silent = false;
}

static int descriptors(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}
/* Who could not be made is not there; who is there finds the name at last. */
static void test_failures(void) {
    long made = 0, refused = 0, at = 1;
    for (; at < 200; at++) {
        int before = descriptors();
        int64_t seen = 0;
        forgets();
        exists("w0.broken.svc.cluster.local");
        n_calls = 0;
        fail_at = at;
        struct qr_resolver *r = resolver();
        if (r) {
            qr_resolver_want(r, "w0.broken");
            CHECK(until_found(r, "w0.broken", &seen) >= 0, "call %ld", at);
            qr_resolver_free(r);
        }
        made += r != NULL;
        refused += r == NULL;
        bool all = n_calls < at;
        fail_at = 0;
        CHECK(descriptors() == before, "call %ld: %d descriptors, %d before", at, descriptors(),
              before);
        if (all) break;
    }
    CHECK(at > 6 && at < 200 && refused >= 2 && made >= 4, "%ld calls: %ld made, %ld refused", at,
          made, refused);
}

int main(void) {
    open_server();
    test_there();
    test_domains();
    test_search_list();
    test_remembered();
    test_addresses_alone();
    test_dropped();
    test_silence();
    test_failures();
    server.closing = true;
    pthread_join(server.thread, NULL);
    close(server.fd);
    return t_end();
}
