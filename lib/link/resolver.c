/* link/resolver.c — the thread that looks up missing names by c-ares. Start reading at
 * resolver_thread(). */
#include "link/resolver.h"

/* c-ares 1.34 (Debian 13) deprecates ares_send and ares_getsock; 1.18 (Debian 12) has no others. */
#define CARES_NO_DEPRECATED
#include <ares.h>
#include <arpa/nameser.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <netinet/in.h>
#include <pthread.h>
#include <resolv.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "link/dns.h"

enum { TIMEOUT_MS = 2000, TRIES = 2, CHECK_MS = 50 };

/* A name that is looked up. */
struct wanted_name {
    char *host;      /* NULL: a free entry */
    uint64_t serial; /* of this use of the entry: late replies for an earlier use are ignored */
    int64_t asked;   /* number of the last form in which it was looked up; 0: none */
    int64_t found;   /* number of the form in which it was found; 0: none */
    char ip[QR_IP_BYTES];
};

struct qr_resolver {
    const struct qr_clock *wall;
    void (*found)(void *ctx);
    void *ctx;
    ares_channel channel; /* used by the thread alone, as the fields down to ipv6 */
    char *domain[MAXDNSRCH];
    unsigned n_domains;
    bool ipv6;
    int event; /* eventfd: wakes the thread */
    pthread_t thread;
    pthread_mutex_t lock; /* guards the fields below */
    struct wanted_name wanted[QR_RESOLVER_NAMES];
    uint64_t serial;
    bool closing;
};

/* A query that waits for its reply. */
struct question {
    struct qr_resolver *r;
    size_t entry;
    uint64_t serial;
    int64_t form;
};

/* ---- one query ---- */

static void on_reply(void *arg, int status, int n_timeouts, unsigned char *p, int n) {
    struct question *q = arg;
    struct qr_resolver *r = q->r;
    char ip[QR_IP_BYTES];
    bool found = false;
    (void)n_timeouts;
    if (status == ARES_SUCCESS && p && n > 0 && qr_dns_answer(p, (size_t)n, ip)) {
        pthread_mutex_lock(&r->lock);
        struct wanted_name *w = &r->wanted[q->entry];
        found = w->host && w->serial == q->serial && w->found != q->form;
        if (found) {
            memcpy(w->ip, ip, sizeof w->ip);
            w->found = q->form;
        }
        pthread_mutex_unlock(&r->lock);
    }
    free(q);
    if (found) r->found(r->ctx);
}

static void send_question(struct question q, struct qr_dns_form form, const char *name) {
    uint8_t bytes[QR_DNS_QUESTION_BYTES];
    uint16_t id;
    qr_entropy(&id, sizeof id);
    size_t n = qr_dns_question(form, q.r->ipv6, name, id, bytes);
    if (n == 0) return;
    struct question *own = qr_xmalloc(sizeof *own);
    *own = q;
    ares_send(q.r->channel, bytes, (int)n, on_reply, own);
}

/* Sends queries for the name and for each name that the search list makes of it. */
static void ask_all(struct question q, struct qr_dns_form form, const char *host) {
    size_t n = strlen(host);
    send_question(q, form, host);
    if (n == 0 || host[n - 1] == '.') return;
    for (unsigned i = 0; i < q.r->n_domains; i++) {
        char *name = qr_xasprintf("%s.%s", host, q.r->domain[i]);
        send_question(q, form, name);
        free(name);
    }
}

/* ---- the thread ---- */

/* Sends queries for the names that were not looked up in the current form. False: no name is
 * wanted. */
static bool ask_due(struct qr_resolver *r) {
    int64_t number;
    struct qr_dns_form form = qr_dns_form_at(qr_now_ns(r->wall), &number);
    bool any = false;
    for (size_t i = 0; i < QR_RESOLVER_NAMES; i++) {
        struct wanted_name *w = &r->wanted[i];
        char *host = NULL;
        pthread_mutex_lock(&r->lock);
        struct question q = {.r = r, .entry = i, .serial = w->serial, .form = number};
        any |= w->host != NULL;
        if (w->host && w->asked != number) host = qr_xstrdup(w->host);
        w->asked = number;
        pthread_mutex_unlock(&r->lock);
        if (host) ask_all(q, form, host);
        free(host);
    }
    return any;
}

/* Waits for a reply or an event; while names are wanted, at most CHECK_MS, since the wall clock may
 * be set. */
static void wait_for_events(struct qr_resolver *r, bool any) {
    ares_socket_t socket[ARES_GETSOCK_MAXNUM];
    /* c-ares' own macros shift a 1 into the sign bit. */
    unsigned mask = (unsigned)ares_getsock(r->channel, socket, ARES_GETSOCK_MAXNUM);
    struct pollfd p[ARES_GETSOCK_MAXNUM + 1] = {{.fd = r->event, .events = POLLIN}};
    nfds_t n = 1;
    for (int i = 0; i < ARES_GETSOCK_MAXNUM; i++) {
        bool reads = mask >> i & 1, writes = mask >> (i + ARES_GETSOCK_MAXNUM) & 1;
        if (!reads && !writes) continue;
        p[n++] = (struct pollfd){.fd = socket[i],
                                 .events = (short)((reads ? POLLIN : 0) | (writes ? POLLOUT : 0))};
    }
    if (poll(p, n, any ? CHECK_MS : -1) < 0) {
        qr_sleep_ns(QR_MS); /* out of memory, or a signal */
        return;
    }
    uint64_t count;
    if (p[0].revents && read(r->event, &count, sizeof count) < 0) return;
    for (nfds_t i = 1; i < n; i++)
        ares_process_fd(r->channel,
                        p[i].revents & (POLLIN | POLLERR | POLLHUP) ? p[i].fd : ARES_SOCKET_BAD,
                        p[i].revents & POLLOUT ? p[i].fd : ARES_SOCKET_BAD);
    ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD); /* timeouts */
}

static void *resolver_thread(void *resolver) {
    struct qr_resolver *r = resolver;
    for (bool closing = false; !closing;) {
        wait_for_events(r, ask_due(r));
        pthread_mutex_lock(&r->lock);
        closing = r->closing;
        pthread_mutex_unlock(&r->lock);
    }
    return NULL;
}

static void resolver_wake(struct qr_resolver *r) {
    const uint64_t one = 1;
    if (write(r->event, &one, sizeof one) < 0) return; /* full: already signaled */
}

/* ---- the owner's thread ---- */

/* The search list. c-ares 1.34 does not tell the one that it reads. */
static void read_domains(struct qr_resolver *r, const char *domain) {
    struct __res_state system = {0};
    if (domain) {
        r->domain[r->n_domains++] = qr_xstrdup(domain);
    } else if (res_ninit(&system) == 0) {
        while (r->n_domains < MAXDNSRCH && system.dnsrch[r->n_domains]) {
            r->domain[r->n_domains] = qr_xstrdup(system.dnsrch[r->n_domains]);
            r->n_domains++;
        }
        res_nclose(&system);
    }
}

/* True when this machine has only IPv6 addresses, apart from loopback. */
static bool has_ipv6_alone(void) {
    struct ifaddrs *list = NULL;
    bool v4 = false, v6 = false;
    if (getifaddrs(&list) != 0) return false;
    for (const struct ifaddrs *a = list; a; a = a->ifa_next) {
        bool counts = a->ifa_addr && !(a->ifa_flags & IFF_LOOPBACK);
        v4 |= counts && a->ifa_addr->sa_family == AF_INET;
        v6 |= counts && a->ifa_addr->sa_family == AF_INET6;
    }
    freeifaddrs(list);
    return v6 && !v4;
}

static bool start_thread(struct qr_resolver *r, const struct qr_resolver_options *opt) {
    struct ares_options o = {.timeout = TIMEOUT_MS, .tries = TRIES};
    if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS) return false;
    if (ares_init_options(&r->channel, &o, ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES) == ARES_SUCCESS) {
        bool set = !opt->server || ares_set_servers_ports_csv(r->channel, opt->server) == 0;
        read_domains(r, opt->domain);
        r->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (set && r->event >= 0 && pthread_create(&r->thread, NULL, resolver_thread, r) == 0)
            return true;
        if (r->event >= 0) close(r->event);
        ares_destroy(r->channel);
    }
    ares_library_cleanup();
    return false;
}

static void resolver_destroy(struct qr_resolver *r) {
    for (size_t i = 0; i < QR_RESOLVER_NAMES; i++) free(r->wanted[i].host);
    for (unsigned i = 0; i < r->n_domains; i++) free(r->domain[i]);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

struct qr_resolver *qr_resolver_new(const struct qr_resolver_options *opt) {
    struct qr_resolver *r = qr_xcalloc(1, sizeof *r);
    r->wall = opt->wall;
    r->found = opt->found;
    r->ctx = opt->ctx;
    r->ipv6 = has_ipv6_alone();
    pthread_mutex_init(&r->lock, NULL);
    if (start_thread(r, opt)) return r;
    resolver_destroy(r);
    return NULL;
}

void qr_resolver_free(struct qr_resolver *r) {
    if (!r) return;
    pthread_mutex_lock(&r->lock);
    r->closing = true;
    pthread_mutex_unlock(&r->lock);
    resolver_wake(r);
    pthread_join(r->thread, NULL);
    ares_destroy(r->channel); /* calls on_reply for each open query */
    ares_library_cleanup();
    close(r->event);
    resolver_destroy(r);
}

/* Returns the entry of the host, or a free one, or NULL. */
static struct wanted_name *find_entry(struct qr_resolver *r, const char *host) {
    struct wanted_name *free_entry = NULL;
    for (size_t i = 0; i < QR_RESOLVER_NAMES; i++) {
        struct wanted_name *w = &r->wanted[i];
        if (w->host && strcmp(w->host, host) == 0) return w;
        if (!w->host && !free_entry) free_entry = w;
    }
    return free_entry;
}

void qr_resolver_want(struct qr_resolver *r, const char *host) {
    pthread_mutex_lock(&r->lock);
    struct wanted_name *w = find_entry(r, host);
    bool is_new = w && !w->host;
    if (is_new) *w = (struct wanted_name){.host = qr_xstrdup(host), .serial = ++r->serial};
    pthread_mutex_unlock(&r->lock);
    if (is_new) resolver_wake(r);
}

void qr_resolver_drop(struct qr_resolver *r, const char *host) {
    pthread_mutex_lock(&r->lock);
    struct wanted_name *w = find_entry(r, host);
    if (w && w->host) {
        free(w->host);
        *w = (struct wanted_name){0};
    }
    pthread_mutex_unlock(&r->lock);
}

bool qr_resolver_find(struct qr_resolver *r, const char *host, int64_t *seen,
                      char ret[QR_IP_BYTES]) {
    pthread_mutex_lock(&r->lock);
    struct wanted_name *w = find_entry(r, host);
    bool is_new = w && w->host && w->found && w->found != *seen;
    if (is_new) {
        *seen = w->found;
        memcpy(ret, w->ip, QR_IP_BYTES);
    }
    pthread_mutex_unlock(&r->lock);
    return is_new;
}
