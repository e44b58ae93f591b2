#include "link/resolver.h"

/* c-ares 1.34 (Debian 13) deprecates ares_send and ares_getsock; 1.18 (Debian 12) has no other. */
#define CARES_NO_DEPRECATED
#include <ares.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "link/dns.h"

enum { TIMEOUT_MS = 2000, TRIES = 2, MAX_DOMAINS = 8, LOOK_MS = 50 };

/* A name that is wanted. */
struct sought {
    char *host;      /* NULL: a free place */
    uint64_t serial; /* which of those that had this place: late answers are for nobody */
    int64_t asked; /* the form in which it was asked for last, and in which it was found; 0: none */
    int64_t found;
    char ip[QR_IP_BYTES];
};

struct qr_resolver {
    const struct qr_clock *wall;
    void (*found)(void *ctx);
    void *ctx;
    ares_channel channel; /* the thread's, as what follows */
    char *domain[MAX_DOMAINS];
    unsigned n_domains;
    bool ipv6;
    int event; /* something has changed */
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    struct sought wanted[QR_RESOLVER_NAMES];
    uint64_t serial;
    bool closing;
};

/* A question that is on its way. */
struct question {
    struct qr_resolver *r;
    size_t place;
    uint64_t serial;
    int64_t form;
};

/* ---- one question ---- */

static void on_answer(void *arg, int status, int n_timeouts, unsigned char *p, int n) {
    struct question *q = arg;
    struct qr_resolver *r = q->r;
    char ip[QR_IP_BYTES];
    bool found = false;
    (void)n_timeouts;
    if (status == ARES_SUCCESS && p && n > 0 && qr_dns_answer(p, (size_t)n, ip)) {
        pthread_mutex_lock(&r->lock);
        struct sought *w = &r->wanted[q->place];
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

static void ask(struct question q, struct qr_dns_form form, const char *name) {
    uint8_t bytes[QR_DNS_QUESTION_BYTES];
    uint16_t id;
    qr_entropy(&id, sizeof id);
    size_t n = qr_dns_question(form, q.r->ipv6, name, id, bytes);
    if (n == 0) return;
    struct question *own = qr_xmalloc(sizeof *own);
    *own = q;
    ares_send(q.r->channel, bytes, (int)n, on_answer, own);
}

/* By each name that this may stand for. */
static void ask_all(struct question q, struct qr_dns_form form, const char *host) {
    size_t n = strlen(host);
    ask(q, form, host);
    if (n == 0 || host[n - 1] == '.') return;
    for (unsigned i = 0; i < q.r->n_domains; i++) {
        char *name = qr_xasprintf("%s.%s", host, q.r->domain[i]);
        ask(q, form, name);
        free(name);
    }
}

/* ---- the thread ---- */

/* Those that were not asked for in the form of now. False: nobody is wanted. */
static bool ask_due(struct qr_resolver *r) {
    int64_t number;
    struct qr_dns_form form = qr_dns_form_at(qr_now_ns(r->wall), &number);
    bool any = false;
    for (size_t i = 0; i < QR_RESOLVER_NAMES; i++) {
        struct sought *w = &r->wanted[i];
        char *host = NULL;
        pthread_mutex_lock(&r->lock);
        struct question q = {.r = r, .place = i, .serial = w->serial, .form = number};
        any |= w->host != NULL;
        if (w->host && w->asked != number) host = qr_xstrdup(w->host);
        w->asked = number;
        pthread_mutex_unlock(&r->lock);
        if (host) ask_all(q, form, host);
        free(host);
    }
    return any;
}

/* Until something comes, or for a moment: the wall's clock may be set. */
static void sit(struct qr_resolver *r, bool any) {
    ares_socket_t socket[ARES_GETSOCK_MAXNUM];
    /* by hand: c-ares' own macros shift a one into the sign */
    unsigned mask = (unsigned)ares_getsock(r->channel, socket, ARES_GETSOCK_MAXNUM);
    struct pollfd p[ARES_GETSOCK_MAXNUM + 1] = {{.fd = r->event, .events = POLLIN}};
    nfds_t n = 1;
    for (int i = 0; i < ARES_GETSOCK_MAXNUM; i++) {
        bool reads = mask >> i & 1, writes = mask >> (i + ARES_GETSOCK_MAXNUM) & 1;
        if (!reads && !writes) continue;
        p[n++] = (struct pollfd){.fd = socket[i],
                                 .events = (short)((reads ? POLLIN : 0) | (writes ? POLLOUT : 0))};
    }
    if (poll(p, n, any ? LOOK_MS : -1) < 0) {
        qr_sleep_ns(QR_MS); /* no memory just now, or a signal */
        return;
    }
    uint64_t count;
    if (p[0].revents && read(r->event, &count, sizeof count) < 0) return;
    for (nfds_t i = 1; i < n; i++)
        ares_process_fd(r->channel,
                        p[i].revents & (POLLIN | POLLERR | POLLHUP) ? p[i].fd : ARES_SOCKET_BAD,
                        p[i].revents & POLLOUT ? p[i].fd : ARES_SOCKET_BAD);
    ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD); /* what took too long */
}

static void *serve(void *resolver) {
    struct qr_resolver *r = resolver;
    for (bool closing = false; !closing;) {
        sit(r, ask_due(r));
        pthread_mutex_lock(&r->lock);
        closing = r->closing;
        pthread_mutex_unlock(&r->lock);
    }
    return NULL;
}

static void wake(struct qr_resolver *r) {
    const uint64_t one = 1;
    if (write(r->event, &one, sizeof one) < 0) return; /* it is awake */
}

/* ---- its owner's side ---- */

static void read_domains(struct qr_resolver *r, const char *domain) {
    struct ares_options o = {0};
    int mask = 0;
    if (ares_save_options(r->channel, &o, &mask) == ARES_SUCCESS) {
        for (int i = 0; i < o.ndomains && r->n_domains < MAX_DOMAINS && !domain; i++)
            r->domain[r->n_domains++] = qr_xstrdup(o.domains[i]);
    }
    ares_destroy_options(&o);
    if (domain) r->domain[r->n_domains++] = qr_xstrdup(domain);
}

/* No machine beside this one is reached by IPv4. */
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

static bool start(struct qr_resolver *r, const struct qr_resolver_options *opt) {
    struct ares_options o = {.timeout = TIMEOUT_MS, .tries = TRIES};
    if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS) return false;
    if (ares_init_options(&r->channel, &o, ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES) == ARES_SUCCESS) {
        bool set = !opt->server || ares_set_servers_ports_csv(r->channel, opt->server) == 0;
        read_domains(r, opt->domain);
        r->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (set && r->event >= 0 && pthread_create(&r->thread, NULL, serve, r) == 0) return true;
        if (r->event >= 0) close(r->event);
        ares_destroy(r->channel);
    }
    ares_library_cleanup();
    return false;
}

static void forget(struct qr_resolver *r) {
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
    if (start(r, opt)) return r;
    forget(r);
    return NULL;
}

void qr_resolver_free(struct qr_resolver *r) {
    if (!r) return;
    pthread_mutex_lock(&r->lock);
    r->closing = true;
    pthread_mutex_unlock(&r->lock);
    wake(r);
    pthread_join(r->thread, NULL);
    ares_destroy(r->channel); /* which gives the questions back */
    ares_library_cleanup();
    close(r->event);
    forget(r);
}

/* Its place, or a free one, or none. */
static struct sought *place_of(struct qr_resolver *r, const char *host) {
    struct sought *free_one = NULL;
    for (size_t i = 0; i < QR_RESOLVER_NAMES; i++) {
        struct sought *w = &r->wanted[i];
        if (w->host && strcmp(w->host, host) == 0) return w;
        if (!w->host && !free_one) free_one = w;
    }
    return free_one;
}

void qr_resolver_want(struct qr_resolver *r, const char *host) {
    pthread_mutex_lock(&r->lock);
    struct sought *w = place_of(r, host);
    bool is_new = w && !w->host;
    if (is_new) *w = (struct sought){.host = qr_xstrdup(host), .serial = ++r->serial};
    pthread_mutex_unlock(&r->lock);
    if (is_new) wake(r);
}

void qr_resolver_drop(struct qr_resolver *r, const char *host) {
    pthread_mutex_lock(&r->lock);
    struct sought *w = place_of(r, host);
    if (w && w->host) {
        free(w->host);
        *w = (struct sought){0};
    }
    pthread_mutex_unlock(&r->lock);
}

bool qr_resolver_find(struct qr_resolver *r, const char *host, int64_t *seen,
                      char ret[QR_IP_BYTES]) {
    pthread_mutex_lock(&r->lock);
    struct sought *w = place_of(r, host);
    bool news = w && w->host && w->found && w->found != *seen;
    if (news) {
        *seen = w->found;
        memcpy(ret, w->ip, QR_IP_BYTES);
    }
    pthread_mutex_unlock(&r->lock);
    return news;
}
