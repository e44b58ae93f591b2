/* The resolver with a DNS server on loopback that caches its answer for each form of a query; each
 * system call fails once. The wall clock runs fifteen times as fast as real time. */
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

/* In real time, not that of `wall`. */
enum { FASTER = 15, FORM_MS = 4500 / FASTER, CACHED_MS = 30000 / FASTER, BOUND_MS = 20000 };

static int64_t fast_clock(void *ctx) {
    (void)ctx;
    return qr_now_ns(&qr_clock_monotonic) * FASTER;
}
static const struct qr_clock wall = {fast_clock, NULL};
static int64_t form_now(void) { return fast_clock(NULL) / QR_DNS_FORM_NS; }
static int64_t now_ms(void) { return qr_now_ns(&qr_clock_monotonic) / QR_MS; }

/* ---- calls that fail ---- */

static atomic_long n_calls, fail_at; /* 0: nothing fails */
static _Thread_local bool is_server;
static bool fails(int sys) {
    if (is_server || fail_at == 0 || ++n_calls != fail_at) return false;
    errno = sys;
    return true;
}
#define EXPORTED __attribute__((visibility("default")))
EXPORTED int socket(int domain, int type, int protocol) {
    REAL(socket);
    return fails(EMFILE) ? -1 : real(domain, type, protocol);
}
EXPORTED int connect(int fd, const struct sockaddr *to, socklen_t n) {
    REAL(connect);
    return fails(ENETUNREACH) ? -1 : real(fd, to, n);
}
EXPORTED ssize_t send(int fd, const void *p, size_t n, int flags) {
    REAL(send);
    return fails(EPERM) ? -1 : real(fd, p, n, flags);
}
EXPORTED ssize_t sendto(int fd, const void *p, size_t n, int flags, const struct sockaddr *to,
                        socklen_t n_to) {
    REAL(sendto);
    return fails(EPERM) ? -1 : real(fd, p, n, flags, to, n_to);
}
EXPORTED ssize_t recvfrom(int fd, void *p, size_t n, int flags, struct sockaddr *from,
                          socklen_t *n_from) {
    REAL(recvfrom);
    return fails(ECONNREFUSED) ? -1 : real(fd, p, n, flags, from, n_from);
}
EXPORTED int poll(struct pollfd *p, nfds_t n, int ms) {
    REAL(poll);
    return fails(ENOMEM) ? -1 : real(p, n, ms);
}
EXPORTED int eventfd(unsigned count, int flags) {
    REAL(eventfd);
    return fails(EMFILE) ? -1 : real(count, flags);
}
EXPORTED int pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *),
                            void *arg) {
    REAL(pthread_create);
    return fails(EAGAIN) ? EAGAIN : real(ret, attr, run, arg);
}

/* ---- a server ---- */

enum { MAX_CACHED = 4096, NAME = NS_MAXDNAME };
static struct {
    int fd;
    unsigned port;
    pthread_t thread;
    atomic_bool closing, silent, no_srv;
    pthread_mutex_t lock; /* guards what follows */
    char names[80][NAME]; /* names that exist */
    size_t n_names;
    struct {
        char name[NAME];
        unsigned form;
        bool found;
        int64_t until_ms;
    } cache[MAX_CACHED];
    size_t n_cached, n_queries, n_plain;
} server = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool name_exists(const char *name) {
    for (size_t i = 0; i < server.n_names; i++)
        if (strcmp(server.names[i], name) == 0) return true;
    return false;
}
static bool cached_answer(const char *name, unsigned form) {
    size_t at = server.n_cached;
    for (size_t i = 0; i < server.n_cached; i++)
        if (server.cache[i].form == form && strcmp(server.cache[i].name, name) == 0) at = i;
    if (at < server.n_cached && now_ms() < server.cache[at].until_ms) return server.cache[at].found;
    bool found = name_exists(name);
    if (at == server.n_cached) {
        if (at == MAX_CACHED) abort();
        server.n_cached++;
        memcpy(server.cache[at].name, name, strlen(name) + 1);
    }
    server.cache[at].form = form;
    server.cache[at].found = found;
    server.cache[at].until_ms = now_ms() + CACHED_MS;
    return found;
}
/* Turns a query into its response. Returns the response's size. */
static size_t reply(uint8_t *p, size_t n) {
    static const uint8_t node[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 10, 0, 0, 7},
                         service[] = {0xc0, 12, 0, 33, 0, 1,    0,    0,    0,    30,
                                      0,    8,  0, 0,  0, 0x64, 0x08, 0xae, 0xc0, 12};
    ns_msg m;
    ns_rr rr;
    if (ns_initparse(p, (int)n, &m) != 0 || ns_parserr(&m, ns_s_qd, 0, &rr) != 0) abort();
    bool srv = ns_rr_type(rr) == ns_t_srv, has_do = ns_msg_count(m, ns_s_ar) > 0;
    unsigned form = srv + 2U * has_do + 4U * (unsigned)ns_msg_getflag(m, ns_f_cd);
    server.n_queries++;
    server.n_plain += form == 0;
    bool found = cached_answer(ns_rr_name(rr), form) && !(srv && server.no_srv);
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
    struct sockaddr_in client;
    is_server = true;
    while (!server.closing) {
        socklen_t n_client = sizeof client;
        ssize_t n = recvfrom(server.fd, p, sizeof p / 2, 0, (struct sockaddr *)&client, &n_client);
        if (n <= 0 || server.silent) continue;
        pthread_mutex_lock(&server.lock);
        size_t n_reply = reply(p, (size_t)n);
        pthread_mutex_unlock(&server.lock);
        sendto(server.fd, p, n_reply, 0, (const struct sockaddr *)&client, n_client);
    }
    return arg;
}
static void open_server(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval timeout = {.tv_usec = 100000};
    socklen_t n = sizeof a;
    server.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (bind(server.fd, (const struct sockaddr *)&a, sizeof a) != 0 ||
        getsockname(server.fd, (struct sockaddr *)&a, &n) != 0 ||
        setsockopt(server.fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) != 0)
        abort();
    server.port = ntohs(a.sin_port);
    if (pthread_create(&server.thread, NULL, serve, NULL) != 0) abort();
}
static void add_name(const char *name) {
    pthread_mutex_lock(&server.lock);
    snprintf(server.names[server.n_names++], NAME, "%s", name);
    pthread_mutex_unlock(&server.lock);
}
static void reset_server(void) {
    pthread_mutex_lock(&server.lock);
    server.n_names = server.n_cached = server.n_queries = server.n_plain = 0;
    pthread_mutex_unlock(&server.lock);
}
static size_t queries_received(void) {
    pthread_mutex_lock(&server.lock);
    size_t n = server.n_queries;
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
/* Returns the time until it is found, in ms; -1: not found. */
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

static void test_found(void) {
    struct qr_resolver *r = resolver();
    int64_t seen = 0, first;
    n_found = 0;
    add_name("w0.ring.svc.cluster.local");
    qr_resolver_want(r, "w0.ring");
    CHECK(until_found(r, "w0.ring", &seen) >= 0 && n_found >= 1 && seen > 0);
    first = seen;
    CHECK(until_found(r, "w0.ring", &seen) >= 0 && seen > first, "a later form finds it again");
    qr_resolver_free(r);
}

/* A name is queried as it is and with the domain; one that ends with a dot only as it is. */
static void test_domains(void) {
    struct qr_resolver *r = resolver();
    int64_t seen = 0;
    add_name("w0.whole");
    qr_resolver_want(r, "w0.whole");
    CHECK(until_found(r, "w0.whole", &seen) >= 0, "no such name in the domain does not decide");
    add_name("w0.other.svc.cluster.local");
    qr_resolver_want(r, "w0.other.");
    pass_forms(4);
    char ip[QR_IP_BYTES];
    seen = 0;
    CHECK(!qr_resolver_find(r, "w0.other.", &seen, ip), "%s", ip);
    CHECK(!qr_resolver_find(r, "unwanted", &seen, ip));
    qr_resolver_free(r);
}

/* The system's search list: LOCALDOMAIN replaces that of resolv.conf (resolv.conf(5)). */
static void test_search_list(void) {
    setenv("LOCALDOMAIN", "default.svc.example svc.example", 1);
    struct qr_resolver *r = resolver_in(NULL);
    int64_t seen = 0;
    add_name("w0.listed.svc.example");
    qr_resolver_want(r, "w0.listed");
    CHECK(until_found(r, "w0.listed", &seen) >= 0, "each domain of the list is tried");
    qr_resolver_free(r);
    unsetenv("LOCALDOMAIN");
}

/* Whenever a name appears, every worker finds it in the next form, or on a busy machine in one soon
 * after, before any cached answer has expired. */
static void test_cached(void) {
    enum { WORKERS = 3 };
    for (unsigned late = 0; late < 9; late += 2) {
        struct qr_resolver *r[WORKERS];
        reset_server();
        for (unsigned i = 0; i < WORKERS; i++) {
            r[i] = resolver();
            qr_resolver_want(r[i], "w0.late");
        }
        pass_forms(late);
        qr_sleep_ns(late % 3 * 100 * QR_MS);
        int64_t at = form_now(), seen[WORKERS] = {0};
        add_name("w0.late.svc.cluster.local");
        for (unsigned i = 0; i < WORKERS; i++) {
            CHECK(until_found(r[i], "w0.late", &seen[i]) >= 0, "late %u, worker %u", late, i);
            CHECK(seen[i] >= at - 1 && seen[i] <= at + 5, "%u: %ld forms", late,
                  (long)(seen[i] - at));
        }
        for (unsigned i = 0; i < WORKERS; i++) qr_resolver_free(r[i]);
        pthread_mutex_lock(&server.lock);
        size_t n_plain = server.n_plain;
        pthread_mutex_unlock(&server.lock);
        CHECK(n_plain == 0, "the plain query was sent %zu times", n_plain);
    }
}

static void test_addresses_alone(void) {
    struct qr_resolver *r = resolver();
    int64_t seen = 0;
    reset_server();
    server.no_srv = true;
    add_name("w0.plain.svc.cluster.local");
    qr_resolver_want(r, "w0.plain");
    CHECK(until_found(r, "w0.plain", &seen) >= 0, "a server without SRV records");
    server.no_srv = false;
    qr_resolver_free(r);
}

static void test_dropped(void) {
    struct qr_resolver *r = resolver();
    char host[32];
    reset_server();
    int64_t began = form_now();
    for (int i = 0; i <= QR_RESOLVER_NAMES; i++) { /* one too many */
        snprintf(host, sizeof host, "w%d.many", i);
        qr_resolver_want(r, host);
        qr_resolver_want(r, host);
    }
    pass_forms(3);
    size_t n = queries_received();
    size_t forms = (size_t)(form_now() - began) + 1;
    CHECK(n >= 3 * 2 * QR_RESOLVER_NAMES && n <= forms * 2 * QR_RESOLVER_NAMES, "%zu in %zu", n,
          forms);
    for (int i = 0; i <= QR_RESOLVER_NAMES; i++) {
        snprintf(host, sizeof host, "w%d.many", i);
        qr_resolver_drop(r, host);
    }
    pass_forms(1);
    n = queries_received();
    pass_forms(3);
    CHECK(queries_received() == n, "all names are dropped, but %zu more queries were sent",
          queries_received() - n);
    /* There is room for a name again. */
    int64_t seen = 0;
    add_name("w64.many.svc.cluster.local");
    qr_resolver_want(r, "w64.many");
    CHECK(until_found(r, "w64.many", &seen) >= 0);
    qr_resolver_free(r);
}

static void test_silent_server(void) {
    struct qr_resolver *r = resolver();
    server.silent = true;
    qr_resolver_want(r, "w0.silent");
    pass_forms(2);
    int64_t began_ms = now_ms();
    qr_resolver_free(r);
    /* queries time out after 2 s */
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
/* If a call fails, either the resolver is not created, or it finds the name later. */
static void test_failures(void) {
    long n_created = 0, n_failed = 0, at = 1;
    for (; at < 200; at++) {
        int before = descriptors();
        int64_t seen = 0;
        reset_server();
        add_name("w0.broken.svc.cluster.local");
        n_calls = 0;
        fail_at = at;
        struct qr_resolver *r = resolver();
        if (r) {
            qr_resolver_want(r, "w0.broken");
            CHECK(until_found(r, "w0.broken", &seen) >= 0, "call %ld", at);
            qr_resolver_free(r);
        }
        n_created += r != NULL;
        n_failed += r == NULL;
        bool all = n_calls < at;
        fail_at = 0;
        CHECK(descriptors() == before, "call %ld: %d descriptors, %d before", at, descriptors(),
              before);
        if (all) break;
    }
    CHECK(at > 6 && at < 200 && n_failed >= 2 && n_created >= 4,
          "%ld calls: %ld created, %ld failed", at, n_created, n_failed);
}

int main(void) {
    open_server();
    test_found();
    test_domains();
    test_search_list();
    test_cached();
    test_addresses_alone();
    test_dropped();
    test_silent_server();
    test_failures();
    server.closing = true;
    pthread_join(server.thread, NULL);
    close(server.fd);
    return t_end();
}
