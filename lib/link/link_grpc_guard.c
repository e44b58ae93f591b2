/* link/link_grpc_guard.c — cuts a connection that opens too many streams, or sends more than its
 * messages. Start reading at link_grpc_guard_check().
 *
 * Streams   gRPC 1.51 limits open streams only, and only after the peer has acknowledged its
 *           settings. A peer that opens and resets streams, or never acknowledges, may have any
 *           number; each costs 10 KB until it is accepted. A worker opens one stream, and another
 *           one after a pause when the first has ended. So every stream is counted by its
 *           connection when the server's thread accepts it (link_grpc_acceptor.c). gRPC could call
 *           back for each stream while it reads (an auth metadata processor), but then it encodes
 *           all metadata for the callback, and aborts the process when a peer sends a name that
 *           gRPC reserves.
 * Bytes     The bytes read from a socket, as the kernel counts them, are compared with the messages
 *           delivered to the link's owner. The difference shows endless headers, oversized
 *           messages, PINGs and messages of closed streams, and nothing that a correct peer sends.
 *           Some kinds of frames take gRPC a microsecond per byte: while the owner is late in
 *           returning from gRPC, a connection is cut after KEPT_BYTES of them.
 * Idle      256 connections without a stream are more than a ring has: each of 63 peers may have
 *           one to each port, and an abandoned one. Beyond that, and when descriptors run low,
 *           connections without a stream are cut after 100 ms without data. Beyond 1024, or 256
 *           when descriptors run low, all of them are cut, since a handshake that gets a byte now
 *           and then keeps its memory, and for a second no connection is accepted. A peer dials
 *           again.
 * Cutting   gRPC can close a stream but not a connection. So the socket is found by the address of
 *           its peer, duplicated, and disconnected, which also discards unread bytes.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <grpc/grpc.h>
#include <grpc/support/alloc.h>
#include <linux/filter.h>
#include <linux/tcp.h>
#include <malloc.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/counter.h"
#include "base/parse.h"
#include "link/link_grpc_parts_impl.h"

enum {
    STREAMS_A_SECOND = 64,
    MAX_CALLERS = 512,
    MAX_PORTS = 8,
    STREAMLESS_BYTES = 256 << 10,
    HANDSHAKE_BYTES = 8 << 10,
    MAX_STREAMLESS = 256,
    CROWD = 1024,
    QUIET_MS = 100,
    KEPT_BYTES = 64 << 10
};
#define TRIM_NS QR_SECOND
#define KEPT_NS (100 * QR_MS)
#define MAX_WAIT_NS (100 * QR_MS)
#define MAX_CALM_NS QR_SECOND
#define REFUSE_NS QR_SECOND

/* The peer's address of a connection, and the own port (to): one peer port may have a connection to
 * each own port. */
struct address {
    uint8_t ip[16]; /* IPv4 as ::ffff:a.b.c.d */
    uint16_t port, to;
};
struct link_grpc_caller { /* a connection that has opened a stream */
    bool used;
    struct address peer;
    unsigned n_held;     /* open streams */
    uint64_t read_bytes; /* at the last check; fewer bytes mean that this is a later connection */
    _Atomic uint64_t seen_bytes; /* of delivered messages */
    unsigned n;                  /* streams since since_ns */
    int64_t since_ns;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct link_grpc_caller callers[MAX_CALLERS];
/* The ports of this process' servers; number 0: free. */
static struct port {
    uint16_t number;
    uint64_t unseen_bytes;
    const _Atomic int64_t *due_ns;
} ports[MAX_PORTS];
static int64_t checked_ns, wait_ns = LINK_GRPC_CHECK_NS, cut_ns, trimmed_ns;
static bool accepting = true;
static int64_t refused_ns; /* when that changed to false */
static int64_t calm_ns;    /* the process' processor time, until which it is calm */

static void map_v4(const struct in_addr *v4, uint8_t ip[16]) {
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
    memcpy(ip, prefix, sizeof prefix);
    memcpy(ip + sizeof prefix, v4, 4);
}

/* Parses an address in gRPC's form: "ipv4:10.0.0.1:4567", "ipv6:%5Bfe80::1%25eth0%5D:4567". */
static bool address_of_text(const char *text, struct address *ret) {
    char host[INET6_ADDRSTRLEN] = "";
    const char *begin = strchr(text, ':'), *colon = strrchr(text, ':'), *end;
    uint64_t port;
    struct in_addr v4;
    if (!begin || begin == colon || !qr_parse_u64(colon + 1, &port) || port > UINT16_MAX)
        return false;
    begin++;
    if (strncmp(begin, "%5B", 3) == 0) begin += 3;
    else if (*begin == '[') begin++;
    end = begin + strcspn(begin, "%]");
    if (end > colon) end = colon;
    if ((size_t)(end - begin) >= sizeof host) return false;
    memcpy(host, begin, (size_t)(end - begin));
    ret->port = (uint16_t)port;
    if (inet_pton(AF_INET6, host, ret->ip) == 1) return true;
    if (inet_pton(AF_INET, host, &v4) != 1) return false;
    map_v4(&v4, ret->ip);
    return true;
}

static bool address_of_socket(int fd, bool far, struct address *ret) {
    struct sockaddr_storage storage;
    union {
        const struct sockaddr_storage *any;
        const struct sockaddr_in *v4;
        const struct sockaddr_in6 *v6;
    } a = {.any = &storage};
    socklen_t n = sizeof storage;
    if ((far ? getpeername : getsockname)(fd, (struct sockaddr *)&storage, &n) != 0) return false;
    if (storage.ss_family == AF_INET) {
        map_v4(&a.v4->sin_addr, ret->ip);
        ret->port = ntohs(a.v4->sin_port);
        return true;
    }
    if (storage.ss_family != AF_INET6) return false;
    memcpy(ret->ip, &a.v6->sin6_addr, sizeof ret->ip);
    ret->port = ntohs(a.v6->sin6_port);
    return true;
}

static bool same_address(const struct address *a, const struct address *b) {
    return a->port == b->port && a->to == b->to && memcmp(a->ip, b->ip, sizeof a->ip) == 0;
}

/* Bytes that a connection to this port may send beyond its messages; 0: not a guarded port. */
static uint64_t unseen_bytes_at(uint16_t number, int64_t now_ns) {
    for (const struct port *p = ports; p < ports + MAX_PORTS; p++) {
        if (p->number != number) continue;
        bool kept =
            p->due_ns && now_ns - atomic_load_explicit(p->due_ns, memory_order_relaxed) > KEPT_NS;
        return kept ? KEPT_BYTES : p->unseen_bytes;
    }
    return 0;
}

static struct link_grpc_caller *find_caller(const struct address *peer) {
    for (struct link_grpc_caller *c = callers; c < callers + MAX_CALLERS; c++)
        if (c->used && same_address(&c->peer, peer)) return c;
    return NULL;
}

enum cut_rule { CUT_ONE, CUT_EXCESS, CUT_IDLE, CUT_STREAMLESS };
struct tally {
    unsigned fds, streamless, cut;
    bool streamless_send, suspicious;
};

/* For an incoming connection to a guarded port, the limit of unseen_bytes_at; else 0. */
static uint64_t unseen_limit(int fd, struct address *ret_far, int64_t now_ns) {
    struct address near;
    uint64_t ret = address_of_socket(fd, false, &near) ? unseen_bytes_at(near.port, now_ns) : 0;
    if (!ret || !address_of_socket(fd, true, ret_far)) return 0;
    ret_far->to = near.port;
    return ret;
}

/* Bytes that this connection may have sent. */
static uint64_t byte_limit(struct link_grpc_caller *known, uint64_t read_bytes,
                           uint64_t unseen_bytes) {
    if (!known) return STREAMLESS_BYTES;
    if (read_bytes < known->read_bytes)
        atomic_store_explicit(&known->seen_bytes, 0, memory_order_relaxed);
    known->read_bytes = read_bytes;
    return unseen_bytes + 2 * atomic_load_explicit(&known->seen_bytes, memory_order_relaxed);
}

static bool exceeds_limit(int fd, enum cut_rule rule, struct link_grpc_caller *known,
                          uint64_t unseen_bytes, struct tally *tally) {
    struct tcp_info info = {0};
    socklen_t n = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) != 0) return false;
    bool quiet = info.tcpi_last_data_recv >= QUIET_MS;
    uint64_t limit = byte_limit(known, info.tcpi_bytes_received, unseen_bytes);
    tally->streamless_send |= !known && !quiet;
    tally->suspicious |= known ? info.tcpi_bytes_received > limit - unseen_bytes / 2
                               : !quiet && info.tcpi_bytes_received > HANDSHAKE_BYTES;
    if (rule == CUT_IDLE) return !known && quiet;
    if (rule == CUT_STREAMLESS) return !known;
    /* Bytes that wait in the kernel while the owner computes are not the peer's fault, and do not
     * use this process's memory. */
    int unread = 0;
    return info.tcpi_bytes_received > limit && ioctl(fd, FIONREAD, &unread) == 0 &&
           info.tcpi_bytes_received > limit + (uint64_t)unread;
}

static bool should_cut(int fd, enum cut_rule rule, const struct address *peer, int64_t now_ns,
                       struct tally *tally) {
    struct address far;
    uint64_t unseen_bytes = unseen_limit(fd, &far, now_ns);
    if (!unseen_bytes) return false;
    struct link_grpc_caller *known = find_caller(&far);
    if (known && !known->n_held && !atomic_load(&known->seen_bytes)) known = NULL; /* rejected */
    tally->streamless += !known;
    return rule == CUT_ONE ? same_address(&far, peer)
                           : exceeds_limit(fd, rule, known, unseen_bytes, tally);
}

/* The duplicate pins the socket: if another thread closes fd meanwhile, no other socket is cut. */
static void cut_if_due(int fd, enum cut_rule rule, const struct address *peer, int64_t now_ns,
                       struct tally *tally) {
    const struct sockaddr unspec = {.sa_family = AF_UNSPEC};
    struct tally again = {0};
    int own = should_cut(fd, rule, peer, now_ns, tally) ? dup(fd) : -1;
    if (own < 0) return;
    if (should_cut(own, rule, peer, now_ns, &again) && connect(own, &unspec, sizeof unspec) == 0) {
        qr_count(QR_LINK_CUT, 1);
        tally->cut++;
    }
    close(own);
}

/* Cuts all connections that the rule applies to. The caller holds the lock. */
static struct tally cut_connections(enum cut_rule rule, const struct address *peer,
                                    int64_t now_ns) {
    struct tally tally = {0};
    uint64_t fd;
    DIR *d = opendir("/proc/self/fd");
    for (const struct dirent *e; d && (e = readdir(d));)
        if (qr_parse_u64(e->d_name, &fd)) {
            cut_if_due((int)fd, rule, peer, now_ns, &tally);
            tally.fds++;
        }
    if (d) closedir(d);
    if (tally.cut) cut_ns = now_ns;
    return tally;
}

/* gRPC accepts every connection at once: while `accepts` is false, a filter on the listening
 * sockets drops what begins one. The caller holds the lock. */
static void set_accepting(bool accepts, int64_t now_ns) {
    struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
    const struct sock_fprog filter = {.len = 1, .filter = &drop};
    uint64_t fd;
    DIR *d = opendir("/proc/self/fd");
    for (const struct dirent *e; d && (e = readdir(d));) {
        struct address near;
        int listens = 0;
        socklen_t n = sizeof listens;
        if (!qr_parse_u64(e->d_name, &fd) ||
            getsockopt((int)fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n) != 0 || !listens ||
            !address_of_socket((int)fd, false, &near) || !unseen_bytes_at(near.port, now_ns))
            continue;
        (void)setsockopt((int)fd, SOL_SOCKET, accepts ? SO_DETACH_FILTER : SO_ATTACH_FILTER,
                         &filter, sizeof filter);
        (void)listen((int)fd, MAX_STREAMLESS); /* gRPC would let thousands wait */
    }
    if (d) closedir(d);
    accepting = accepts;
    if (!accepts) refused_ns = now_ns;
}

/* Returns the connection's entry; a new one replaces the entry that is unused for longest. NULL:
 * all are in use. The caller holds the lock. */
static struct link_grpc_caller *get_caller(const struct address *peer, int64_t now_ns) {
    struct link_grpc_caller *ret = find_caller(peer);
    for (struct link_grpc_caller *c = callers; !ret && c < callers + MAX_CALLERS; c++)
        if (!c->used) ret = c;
    if (!ret)
        for (struct link_grpc_caller *c = callers; c < callers + MAX_CALLERS; c++)
            if (!c->n_held && (!ret || c->since_ns < ret->since_ns)) ret = c;
    if (ret && (!ret->used || !same_address(&ret->peer, peer)))
        *ret = (struct link_grpc_caller){.used = true, .peer = *peer, .since_ns = now_ns};
    return ret;
}

void link_grpc_guard_port(int port, uint64_t unseen_bytes, const _Atomic int64_t *due_ns) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MAX_PORTS; i++)
        if (ports[i].number == (unseen_bytes ? 0 : port)) {
            ports[i] = (struct port){unseen_bytes ? (uint16_t)port : 0, unseen_bytes, due_ns};
            break;
        }
    set_accepting(true, 0);
    pthread_mutex_unlock(&lock);
}

void link_grpc_host(grpc_call *call, char *ret, size_t cap) {
    static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};
    char *peer = grpc_call_get_peer(call);
    struct address a;
    *ret = '\0';
    if (peer && address_of_text(peer, &a)) {
        bool mapped = memcmp(a.ip, v4, sizeof v4) == 0;
        const uint8_t *ip = mapped ? a.ip + sizeof v4 : a.ip;
        if (!inet_ntop(mapped ? AF_INET : AF_INET6, ip, ret, (socklen_t)cap)) *ret = '\0';
    }
    gpr_free(peer);
}

struct link_grpc_caller *link_grpc_guard_stream(grpc_call *call, int port, int64_t now_ns) {
    char *peer = grpc_call_get_peer(call);
    struct address a = {.to = (uint16_t)port};
    pthread_mutex_lock(&lock);
    struct link_grpc_caller *c = peer && address_of_text(peer, &a) ? get_caller(&a, now_ns) : NULL;
    if (c && now_ns - c->since_ns > QR_SECOND) {
        c->since_ns = now_ns;
        c->n = 0;
    }
    bool too_many = c && ++c->n > STREAMS_A_SECOND;
    if (too_many && c->n % STREAMS_A_SECOND == 1) (void)cut_connections(CUT_ONE, &a, now_ns);
    if (too_many) c = NULL;
    if (c) c->n_held++;
    pthread_mutex_unlock(&lock);
    gpr_free(peer);
    return c;
}

void link_grpc_guard_delivered(struct link_grpc_caller *c, size_t bytes) {
    enum { FRAMES = 256 }; /* at least the overhead of a small message */
    if (c) atomic_fetch_add_explicit(&c->seen_bytes, bytes + FRAMES, memory_order_relaxed);
}

void link_grpc_guard_end(struct link_grpc_caller *c) {
    if (!c) return;
    pthread_mutex_lock(&lock);
    c->n_held--; /* Keep the counts of the connection: another stream may follow. */
    pthread_mutex_unlock(&lock);
}

/* True when it is time to return the memory of cut connections to the system: otherwise the arenas
 * of several threads would keep some megabytes each. */
static bool time_to_trim(int64_t now_ns) {
    if (!cut_ns || now_ns - cut_ns >= 2 * TRIM_NS || now_ns - trimmed_ns < TRIM_NS) return false;
    trimmed_ns = now_ns;
    return true;
}

static int64_t cpu_ns(clockid_t clock) {
    struct timespec t = {0};
    clock_gettime(clock, &t);
    return t.tv_sec * QR_SECOND + t.tv_nsec;
}

/* A check takes 0.1 ms of processor time with 250 descriptors, as in a ring of 64. Checks may take
 * 1/400 of a core, 1/50 while a connection sends more than a correct peer does, and 1/10 while
 * there are more connections than a ring has. */
static int64_t next_wait_ns(int64_t took_ns, const struct tally *n) {
    int64_t least_ns = n->streamless_send ? LINK_GRPC_CHECK_SOON_NS : LINK_GRPC_CHECK_NS,
            rest_ns = took_ns * (n->streamless > MAX_STREAMLESS ? 9
                                 : n->suspicious                ? 49
                                                                : 399);
    if (rest_ns > MAX_WAIT_NS) rest_ns = MAX_WAIT_NS;
    return rest_ns > least_ns ? rest_ns : least_ns;
}

/* What a peer sends costs this process processor time. So the next check is postponed, to a second
 * after the last one at most, until the process has used 50 times what a check takes: many idle
 * workers on one machine would spend a tenth of it on checks. */
static bool is_calm(int64_t now_ns) {
    return now_ns - checked_ns < MAX_CALM_NS && cpu_ns(CLOCK_PROCESS_CPUTIME_ID) < calm_ns;
}

int64_t link_grpc_guard_check(const struct qr_clock *clock) {
    int64_t now_ns = qr_now_ns(clock), ret;
    pthread_mutex_lock(&lock);
    bool trim = time_to_trim(now_ns);
    if (now_ns - checked_ns < wait_ns) {
        ret = checked_ns + wait_ns - now_ns;
    } else if (is_calm(now_ns)) {
        ret = wait_ns;
    } else {
        int64_t began_ns = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
        struct tally n = cut_connections(CUT_EXCESS, NULL, now_ns);
        struct rlimit limit;
        bool low_on_fds = getrlimit(RLIMIT_NOFILE, &limit) == 0 && n.fds > limit.rlim_cur / 4 * 3;
        bool crowded =
            n.streamless > (low_on_fds ? MAX_STREAMLESS : CROWD) ||
            (!accepting && (n.streamless > MAX_STREAMLESS || now_ns - refused_ns < REFUSE_NS));
        if (crowded != !accepting) set_accepting(!crowded, now_ns);
        if (crowded) (void)cut_connections(CUT_STREAMLESS, NULL, now_ns);
        else if (n.streamless > MAX_STREAMLESS || (low_on_fds && n.streamless))
            (void)cut_connections(CUT_IDLE, NULL, now_ns);
        int64_t took_ns = cpu_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
        checked_ns = now_ns;
        ret = wait_ns = next_wait_ns(took_ns, &n);
        calm_ns =
            n.suspicious || n.streamless_send ? 0 : cpu_ns(CLOCK_PROCESS_CPUTIME_ID) + 50 * took_ns;
    }
    pthread_mutex_unlock(&lock);
    if (trim) malloc_trim(0);
    return ret;
}
