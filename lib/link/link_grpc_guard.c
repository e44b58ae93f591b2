/* link/link_grpc_guard.c — cuts a connection that opens stream after stream, or sends more than its
 * messages.
 *
 * Streams   gRPC 1.51 limits open streams only, and only after the peer has acknowledged its
 *           settings. A peer that opens and resets streams, or acknowledges nothing, may have any
 *           number; each costs 10 KB until it is taken. A worker opens one stream, and another
 *           after a pause when that one has ended. So every stream is counted by its connection
 *           when the server's thread takes it (link_grpc_acceptor.c). gRPC could call back for each
 *           stream while it reads (an auth metadata processor), but it then encodes all metadata
 *           for it, and aborts the process where a peer sends a name that is gRPC's own.
 * Bytes     what was read from a socket, as the kernel counts it, is compared with the messages
 *           that the link's owner was given: headers without end, messages larger than any of ours,
 *           requests for answers and messages of a stream that is closed show in it, and nothing
 *           that a good peer may send. Frames of some kinds take gRPC a microsecond a byte: while
 *           an owner does not return from gRPC when it wanted to, a connection that has sent more
 *           than a little of that is cut.
 * Crowds    256 connections without a stream are more than a ring has, where each of 63 peers may
 *           have one to each port, and one that it has given up; then, and when
 *           descriptors become few, those are cut that have been quiet for a moment.
 * Cutting   gRPC closes a stream when its owner wants it, but no connection. So the socket is found
 *           by the address of its other end, held by a descriptor of our own, and disconnected,
 *           which also discards what was not read yet.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <grpc/grpc.h>
#include <grpc/support/alloc.h>
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
    CALLERS = 512,
    PORTS = 8,
    STRANGER_BYTES = 256 << 10,
    HANDSHAKE_BYTES = 8 << 10,
    CROWD = 256,
    QUIET_MS = 100,
    KEPT_BYTES = 64 << 10
};
#define TRIM_NS QR_SECOND
#define KEPT_NS (100 * QR_MS)
#define REST_MOST_NS (100 * QR_MS)

/* The far end of a connection, and the port of ours that it came to: one far port may have a
 * connection to each of ours. */
struct address {
    uint8_t ip[16]; /* IPv4 as ::ffff:a.b.c.d */
    uint16_t port, to;
};
struct link_grpc_caller { /* a connection that has opened a stream */
    bool used;
    struct address peer;
    unsigned n_held;     /* streams that are not over */
    uint64_t read_bytes; /* when it was looked at: fewer are those of a later connection */
    _Atomic uint64_t seen_bytes;
    unsigned n; /* streams since */
    int64_t since_ns;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct link_grpc_caller callers[CALLERS];
/* of this process' servers; number 0: free */
static struct port {
    uint16_t number;
    uint64_t unseen_bytes;
    const _Atomic int64_t *due_ns;
} ports[PORTS];
static int64_t looked_ns, wait_ns = LINK_GRPC_CHECK_NS, cut_ns, trimmed_ns;

static void map_v4(const struct in_addr *v4, uint8_t ip[16]) {
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
    memcpy(ip, prefix, sizeof prefix);
    memcpy(ip + sizeof prefix, v4, 4);
}

/* As gRPC writes it: "ipv4:10.0.0.1:4567", "ipv6:%5Bfe80::1%25eth0%5D:4567". */
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
    struct sockaddr_storage room;
    union {
        const struct sockaddr_storage *any;
        const struct sockaddr_in *v4;
        const struct sockaddr_in6 *v6;
    } a = {.any = &room};
    socklen_t n = sizeof room;
    if ((far ? getpeername : getsockname)(fd, (struct sockaddr *)&room, &n) != 0) return false;
    if (room.ss_family == AF_INET) {
        map_v4(&a.v4->sin_addr, ret->ip);
        ret->port = ntohs(a.v4->sin_port);
        return true;
    }
    if (room.ss_family != AF_INET6) return false;
    memcpy(ret->ip, &a.v6->sin6_addr, sizeof ret->ip);
    ret->port = ntohs(a.v6->sin6_port);
    return true;
}

static bool same(const struct address *a, const struct address *b) {
    return a->port == b->port && a->to == b->to && memcmp(a->ip, b->ip, sizeof a->ip) == 0;
}

/* How much may come at this port that is in none of its messages; 0: it is not ours. */
static uint64_t unseen_bytes_at(uint16_t number, int64_t now_ns) {
    for (const struct port *p = ports; p < ports + PORTS; p++) {
        if (p->number != number) continue;
        bool kept =
            p->due_ns && now_ns - atomic_load_explicit(p->due_ns, memory_order_relaxed) > KEPT_NS;
        return kept ? KEPT_BYTES : p->unseen_bytes;
    }
    return 0;
}

static struct link_grpc_caller *caller_at(const struct address *peer) {
    for (struct link_grpc_caller *c = callers; c < callers + CALLERS; c++)
        if (c->used && same(&c->peer, peer)) return c;
    return NULL;
}

enum whom { THIS, WHO_SENT_TOO_MUCH, QUIET_STRANGERS };
struct count {
    unsigned fds, strangers, cut;
    bool strangers_send, in_doubt;
};

/* Of a connection that was opened to one of our ports: that port's bound. Else 0. */
static uint64_t incoming(int fd, struct address *ret_far, int64_t now_ns) {
    struct address near;
    uint64_t ret = address_of_socket(fd, false, &near) ? unseen_bytes_at(near.port, now_ns) : 0;
    if (!ret || !address_of_socket(fd, true, ret_far)) return 0;
    ret_far->to = near.port;
    return ret;
}

/* What this connection may have sent. */
static uint64_t most_bytes(struct link_grpc_caller *known, uint64_t read_bytes,
                           uint64_t unseen_bytes) {
    if (!known) return STRANGER_BYTES;
    if (read_bytes < known->read_bytes)
        atomic_store_explicit(&known->seen_bytes, 0, memory_order_relaxed);
    known->read_bytes = read_bytes;
    return unseen_bytes + 2 * atomic_load_explicit(&known->seen_bytes, memory_order_relaxed);
}

static bool misbehaves(int fd, enum whom whom, struct link_grpc_caller *known,
                       uint64_t unseen_bytes, struct count *count) {
    struct tcp_info info = {0};
    socklen_t n = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) != 0) return false;
    bool quiet = info.tcpi_last_data_recv >= QUIET_MS;
    uint64_t most = most_bytes(known, info.tcpi_bytes_received, unseen_bytes);
    count->strangers_send |= !known && !quiet;
    count->in_doubt |= known ? info.tcpi_bytes_received > most - unseen_bytes / 2
                             : !quiet && info.tcpi_bytes_received > HANDSHAKE_BYTES;
    if (whom == QUIET_STRANGERS) return !known && quiet;
    /* what waits in the kernel while its owner computes is nobody's fault, and none of this
     * process's memory */
    int unread = 0;
    return info.tcpi_bytes_received > most && ioctl(fd, FIONREAD, &unread) == 0 &&
           info.tcpi_bytes_received > most + (uint64_t)unread;
}

static bool to_be_cut(int fd, enum whom whom, const struct address *peer, int64_t now_ns,
                      struct count *count) {
    struct address far;
    uint64_t unseen_bytes = incoming(fd, &far, now_ns);
    if (!unseen_bytes) return false;
    struct link_grpc_caller *known = caller_at(&far);
    if (known && !known->n_held && !atomic_load(&known->seen_bytes)) known = NULL; /* refused */
    count->strangers += !known;
    return whom == THIS ? same(&far, peer) : misbehaves(fd, whom, known, unseen_bytes, count);
}

/* The copy pins what fd names: whoever closes fd meanwhile, no other socket can be hit. */
static void cut_if(int fd, enum whom whom, const struct address *peer, int64_t now_ns,
                   struct count *count) {
    const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    struct count again = {0};
    int own = to_be_cut(fd, whom, peer, now_ns, count) ? dup(fd) : -1;
    if (own < 0) return;
    if (to_be_cut(own, whom, peer, now_ns, &again) && connect(own, &nobody, sizeof nobody) == 0) {
        qr_count(QR_LINK_CUT, 1);
        count->cut++;
    }
    close(own);
}

/* Under the lock. */
static struct count cut(enum whom whom, const struct address *peer, int64_t now_ns) {
    struct count count = {0};
    uint64_t fd;
    DIR *d = opendir("/proc/self/fd");
    for (const struct dirent *e; d && (e = readdir(d));)
        if (qr_parse_u64(e->d_name, &fd)) {
            cut_if((int)fd, whom, peer, now_ns, &count);
            count.fds++;
        }
    if (d) closedir(d);
    if (count.cut) cut_ns = now_ns;
    return count;
}

/* The connection's entry; a new one takes the place of the one that was quiet for longest. NULL:
 * all are in use. Under the lock. */
static struct link_grpc_caller *caller_of(const struct address *peer, int64_t now_ns) {
    struct link_grpc_caller *ret = caller_at(peer);
    for (struct link_grpc_caller *c = callers; !ret && c < callers + CALLERS; c++)
        if (!c->used) ret = c;
    if (!ret)
        for (struct link_grpc_caller *c = callers; c < callers + CALLERS; c++)
            if (!c->n_held && (!ret || c->since_ns < ret->since_ns)) ret = c;
    if (ret && (!ret->used || !same(&ret->peer, peer)))
        *ret = (struct link_grpc_caller){.used = true, .peer = *peer, .since_ns = now_ns};
    return ret;
}

void link_grpc_guard_port(int port, uint64_t unseen_bytes, const _Atomic int64_t *due_ns) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < PORTS; i++)
        if (ports[i].number == (unseen_bytes ? 0 : port)) {
            ports[i] = (struct port){unseen_bytes ? (uint16_t)port : 0, unseen_bytes, due_ns};
            break;
        }
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
    struct link_grpc_caller *c = peer && address_of_text(peer, &a) ? caller_of(&a, now_ns) : NULL;
    if (c && now_ns - c->since_ns > QR_SECOND) {
        c->since_ns = now_ns;
        c->n = 0;
    }
    bool much = c && ++c->n > STREAMS_A_SECOND;
    if (much && c->n % STREAMS_A_SECOND == 1) (void)cut(THIS, &a, now_ns);
    if (much) c = NULL;
    if (c) c->n_held++;
    pthread_mutex_unlock(&lock);
    gpr_free(peer);
    return c;
}

void link_grpc_guard_delivered(struct link_grpc_caller *c, size_t bytes) {
    enum { FRAMES = 256 }; /* what a small message costs on its way, and more */
    if (c) atomic_fetch_add_explicit(&c->seen_bytes, bytes + FRAMES, memory_order_relaxed);
}

void link_grpc_guard_end(struct link_grpc_caller *c) {
    if (!c) return;
    pthread_mutex_lock(&lock);
    c->n_held--; /* another stream may follow: what the connection sent before stays known */
    pthread_mutex_unlock(&lock);
}

/* What was cut a moment ago is freed by now, in the arenas of several threads, of which each would
 * keep some megabytes. */
static bool time_to_trim(int64_t now_ns) {
    if (!cut_ns || now_ns - cut_ns >= 2 * TRIM_NS || now_ns - trimmed_ns < TRIM_NS) return false;
    trimmed_ns = now_ns;
    return true;
}

static int64_t thread_cpu_ns(void) {
    struct timespec t = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * QR_SECOND + t.tv_nsec;
}

/* A look takes a tenth of a millisecond of the processor where there are 250 descriptors, as in a
 * ring of 64. It may take a four hundredth of a core, a fiftieth while a connection sends more than
 * a good peer does. */
static int64_t rest_after(int64_t took_ns, const struct count *n) {
    int64_t least_ns = n->strangers_send ? LINK_GRPC_CHECK_SOON_NS : LINK_GRPC_CHECK_NS,
            rest_ns = took_ns * (n->in_doubt ? 49 : 399);
    if (rest_ns > REST_MOST_NS) rest_ns = REST_MOST_NS;
    return rest_ns > least_ns ? rest_ns : least_ns;
}

int64_t link_grpc_guard_check(const struct qr_clock *clock) {
    int64_t now_ns = qr_now_ns(clock);
    pthread_mutex_lock(&lock);
    bool trim = time_to_trim(now_ns);
    if (now_ns - looked_ns >= wait_ns) {
        int64_t began_ns = thread_cpu_ns();
        struct count n = cut(WHO_SENT_TOO_MUCH, NULL, now_ns);
        struct rlimit most;
        bool few = getrlimit(RLIMIT_NOFILE, &most) == 0 && n.fds > most.rlim_cur / 4 * 3;
        if (n.strangers > CROWD || (few && n.strangers)) (void)cut(QUIET_STRANGERS, NULL, now_ns);
        looked_ns = now_ns;
        wait_ns = rest_after(thread_cpu_ns() - began_ns, &n);
    }
    int64_t ret = looked_ns + wait_ns - now_ns;
    pthread_mutex_unlock(&lock);
    if (trim) malloc_trim(0);
    return ret;
}
