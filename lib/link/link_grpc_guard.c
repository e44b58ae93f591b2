/* link/link_grpc_guard.c — a connection that opens stream after stream, or sends what nobody gets
 * to see, is cut.
 *
 * Streams   gRPC 1.51 counts only streams that are open, and only after its settings were
 *           acknowledged. A peer that opens and resets streams, or acknowledges nothing, may have
 *           as many as it likes; they cost 10 KB each until their owner has heard of them, which he
 *           cannot while gRPC reads on, in his thread. One of ours opens one stream, and another
 *           after a pause when that one has ended. So calls are counted where gRPC asks whether
 *           their metadata will do: in the middle of its reading. What is refused there is gone at
 *           once.
 * Bytes     what was read from a socket, as the kernel counts it, is compared with the messages
 *           that the link's owner was given: headers without end, messages larger than any of ours,
 *           requests for answers and messages of a stream that is closed show in it, and nothing
 *           that a good peer may send. Frames of some kinds take gRPC a microsecond a byte: while
 *           an owner does not come back from it when he wanted to, who has sent more than a little
 *           of that is cut.
 * Crowds    a hundred callers of whom nothing is known are more than a ring has; then, and when
 *           descriptors become few, those go that have been quiet for a moment.
 * Cutting   gRPC closes a stream at its owner's wish, and no connection. So the socket is looked
 *           for by the address of its other end, held by a descriptor of our own, and disconnected,
 *           which also throws away what was not read yet. The address is known of those whose first
 *           stream was accepted; before that, all of whom nothing is known are cut: the good ones
 *           among them call again.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
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
    CROWD = 128,
    QUIET_MS = 100,
    KEPT_BYTES = 64 << 10
};
#define TRIM_NS QR_SECOND
#define KEPT_NS (100 * QR_MS)

struct address {
    uint8_t ip[16]; /* IPv4 as ::ffff:a.b.c.d */
    uint16_t port;
};
struct link_grpc_caller { /* a connection */
    const void *context;  /* what gRPC knows of its certificate: one for each; NULL: free */
    /* by streams that are connections of a link; NULL: not yet, or not any more */
    grpc_auth_context *held;
    unsigned n_held;
    bool known; /* it had such a stream: */
    struct address peer;
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
static int64_t looked_ns, wait_ns = LINK_GRPC_LOOK_NS, cut_ns, trimmed_ns;

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
    return a->port == b->port && memcmp(a->ip, b->ip, sizeof a->ip) == 0;
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

static struct link_grpc_caller *accepted_from(const struct address *peer) {
    for (struct link_grpc_caller *c = callers; c < callers + CALLERS; c++)
        if (c->known && same(&c->peer, peer)) return c;
    return NULL;
}

/* Of a socket that somebody opened to one of our ports: that port's bound. Else 0. */
static uint64_t incoming(int fd, struct address *ret_far, int64_t now_ns) {
    struct address near;
    return address_of_socket(fd, true, ret_far) && address_of_socket(fd, false, &near)
               ? unseen_bytes_at(near.port, now_ns)
               : 0;
}

enum whom { THIS, STRANGERS, WHO_SENT_TOO_MUCH, QUIET_STRANGERS };
struct count {
    unsigned fds, strangers, cut;
    bool strangers_send;
};

static bool misbehaves(int fd, enum whom whom, const struct link_grpc_caller *known,
                       uint64_t unseen_bytes, struct count *count) {
    uint64_t most =
        known ? unseen_bytes + 2 * atomic_load_explicit(&known->seen_bytes, memory_order_relaxed)
              : STRANGER_BYTES;
    struct tcp_info info = {0};
    socklen_t n = sizeof info;
    /* what waits in the kernel while its owner computes is nobody's fault, and none of this
     * process's memory */
    int unread = 0;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) != 0 || ioctl(fd, FIONREAD, &unread) != 0)
        return false;
    bool quiet = info.tcpi_last_data_recv >= QUIET_MS;
    count->strangers_send |= !known && !quiet;
    return whom == QUIET_STRANGERS ? !known && quiet
                                   : info.tcpi_bytes_received > most + (uint64_t)unread;
}

static bool to_be_cut(int fd, enum whom whom, const struct address *peer, int64_t now_ns,
                      struct count *count) {
    struct address far;
    uint64_t unseen_bytes = incoming(fd, &far, now_ns);
    if (!unseen_bytes) return false;
    const struct link_grpc_caller *known = accepted_from(&far);
    count->strangers += !known;
    return whom == THIS        ? same(&far, peer)
           : whom == STRANGERS ? !known
                               : misbehaves(fd, whom, known, unseen_bytes, count);
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

/* The connection's entry; a new one takes the place of the one that was quiet for longest. Under
 * the lock. */
static struct link_grpc_caller *caller_of(const void *context, int64_t now_ns) {
    struct link_grpc_caller *oldest = NULL;
    for (struct link_grpc_caller *c = callers; c < callers + CALLERS; c++) {
        if (c->context == context) return c;
        if (c->held) continue;
        bool is_free = !c->context; /* better than any that is used */
        bool older = oldest && oldest->context && c->since_ns < oldest->since_ns;
        if (!oldest || is_free || older) oldest = c;
    }
    if (oldest) *oldest = (struct link_grpc_caller){.context = context, .since_ns = now_ns};
    return oldest;
}

/* Called by gRPC for each stream, with its metadata. */
static void on_call(void *clock, grpc_auth_context *context, const grpc_metadata *md, size_t n,
                    grpc_process_auth_metadata_done_cb done, void *done_ctx) {
    int64_t now_ns = qr_now_ns(clock);
    (void)md;
    (void)n;
    pthread_mutex_lock(&lock);
    struct link_grpc_caller *c = caller_of(context, now_ns);
    if (c && now_ns - c->since_ns > QR_SECOND) {
        c->since_ns = now_ns;
        c->n = 0;
    }
    bool much = !c || ++c->n > STREAMS_A_SECOND;
    if (c && c->n % STREAMS_A_SECOND == 1 && much)
        (void)cut(c->held ? THIS : STRANGERS, &c->peer, now_ns);
    pthread_mutex_unlock(&lock);
    done(done_ctx, NULL, 0, NULL, 0, much ? GRPC_STATUS_RESOURCE_EXHAUSTED : GRPC_STATUS_OK,
         much ? "too many streams" : NULL);
}

void link_grpc_guard(grpc_server_credentials *creds, const struct qr_clock *clock) {
    union {
        const struct qr_clock *in;
        void *out;
    } state = {.in = clock};
    grpc_server_credentials_set_auth_metadata_processor(
        creds, (grpc_auth_metadata_processor){.process = on_call, .state = state.out});
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

struct link_grpc_caller *link_grpc_guard_accepted(grpc_call *call, int64_t now_ns) {
    grpc_auth_context *context = grpc_call_auth_context(call);
    char *peer = grpc_call_get_peer(call);
    struct address a;
    pthread_mutex_lock(&lock);
    struct link_grpc_caller *c =
        context && address_of_text(peer, &a) ? caller_of(context, now_ns) : NULL;
    bool first = c && !c->held;
    if (first) {
        if (c->known && !same(&c->peer, &a)) { /* gRPC has used a context's place again */
            atomic_store(&c->seen_bytes, 0);
            c->n = 1;
        }
        c->held = context;
        c->known = true;
        c->peer = a;
    }
    if (c) c->n_held++;
    pthread_mutex_unlock(&lock);
    if (!first && context) grpc_auth_context_release(context);
    gpr_free(peer);
    return c;
}

void link_grpc_guard_seen(struct link_grpc_caller *c, size_t bytes) {
    enum { FRAMES = 256 }; /* what a small message costs on its way, and more */
    if (c) atomic_fetch_add_explicit(&c->seen_bytes, bytes + FRAMES, memory_order_relaxed);
}

void link_grpc_guard_over(struct link_grpc_caller *c) {
    if (!c) return;
    pthread_mutex_lock(&lock);
    grpc_auth_context *held = --c->n_held ? NULL : c->held;
    /* another stream may follow on the same connection: what it sent before stays known */
    if (held) c->held = NULL;
    pthread_mutex_unlock(&lock);
    if (held) grpc_auth_context_release(held);
}

/* What was cut a moment ago is freed by now, in the arenas of several threads, of which each would
 * keep some megabytes. */
static bool time_to_trim(int64_t now_ns) {
    if (!cut_ns || now_ns - cut_ns >= 2 * TRIM_NS || now_ns - trimmed_ns < TRIM_NS) return false;
    trimmed_ns = now_ns;
    return true;
}

int64_t link_grpc_guard_look(int64_t now_ns) {
    pthread_mutex_lock(&lock);
    bool trim = time_to_trim(now_ns);
    if (now_ns - looked_ns >= wait_ns) {
        struct count n = cut(WHO_SENT_TOO_MUCH, NULL, now_ns);
        struct rlimit most;
        bool few = getrlimit(RLIMIT_NOFILE, &most) == 0 && n.fds > most.rlim_cur / 4 * 3;
        if (n.strangers > CROWD || (few && n.strangers)) (void)cut(QUIET_STRANGERS, NULL, now_ns);
        looked_ns = now_ns;
        wait_ns = n.strangers_send ? LINK_GRPC_SOON_NS : LINK_GRPC_LOOK_NS;
    }
    int64_t ret = wait_ns;
    pthread_mutex_unlock(&lock);
    if (trim) malloc_trim(0);
    return ret;
}
