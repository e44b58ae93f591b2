/* tests/faults/proxy.c — a bad network between pods, in user space: the kernel of a test machine
 * may lack netem.
 *
 *   proxy INTERFACE...      the pods' ends of their veth pairs, taken off the bridge:
 *                           port 0, 1, ...
 *
 * What      A switch between its ports that delays (so reorders), loses, doubles, damages and
 *           throttles frames from port to port. It works on frames, not on connections: TCP
 *           retransmits, backs off and reorders as it does on a bad network, and no process
 *           dials it.
 * Orders    one a line on stdin, each answered by one line on stdout:
 *             FROM TO KEY NUMBER ...   FROM, TO: a port, or *; of the keys what is not named stays
 *                                      as it is:
 *               delay US, jitter US (uniform around delay), loss PPM, double PPM, flip PPM (of
 *               frames with TCP payload: one bit of it), port N (only frames from or to that port
 *               are flipped; 0: all), rate KBIT (a second; 0: any), stall 1 (nothing passes)
 *             clear                    as a plain switch again; what is under way arrives
 *             count                    frames, bytes, lost, doubled, reordered, flipped, ns from
 *                                      the kernel to it and on: mean and worst
 *           It ends with stdin.
 * Checksums Frames come with the offload header, as the sender's stack left them. A flipped bit
 *           therefore passes TCP's checksum: where that is computed later, it covers the damage;
 *           where it is there, it is corrected. So a flip is seen above TCP or not at all.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_PORTS = 16,
    MAX_FRAME = 70000,
    MAX_QUEUED = 16384,
    MAX_MACS = 64,
    BACKLOG_NS = 400000000,
    TURN = 64
};

struct path { /* from one port to another */
    long delay, jitter, loss, twice, flip, port, rate, stall;
    int64_t free_ns; /* when the throttled path has sent what it took */
    uint64_t last;   /* newest frame that went out */
};
struct frame {
    int64_t due_ns, came_ns;
    uint64_t number;
    int from, to;
    size_t n;
    uint8_t bytes[]; /* offload header, Ethernet frame */
};
static struct path path[MAX_PORTS][MAX_PORTS];
static int port_fd[MAX_PORTS], n_ports;
static struct {
    uint8_t mac[6];
    int port;
} mac[MAX_MACS];
static int n_macs;
static struct frame *heap[MAX_QUEUED]; /* the one that is due first is heap[0] */
static size_t n_heap;
static uint64_t n_frames, n_bytes, n_lost, n_doubled, n_reordered, n_flipped, next_number = 1;
static int64_t sum_ns, worst_ns;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static uint64_t dice(void) { /* xorshift */
    static uint64_t x = 88172645463325252;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return x;
}
static bool chance(long ppm) { return ppm > 0 && (long)(dice() % 1000000) < ppm; }

/* ---- the queue ---- */

static bool before(const struct frame *a, const struct frame *b) {
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->number < b->number;
}

static void push(struct frame *f) {
    size_t i = n_heap++;
    for (; i > 0 && before(f, heap[(i - 1) / 2]); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = f;
}

static struct frame *pop(void) {
    struct frame *top = heap[0], *f = heap[--n_heap];
    size_t i = 0;
    for (size_t c = 1; c < n_heap; c = 2 * i + 1) {
        if (c + 1 < n_heap && before(heap[c + 1], heap[c])) c++;
        if (!before(heap[c], f)) break;
        heap[i] = heap[c];
        i = c;
    }
    heap[i] = f;
    return top;
}

static void send_frame(struct frame *f) {
    struct path *p = &path[f->from][f->to];
    if (f->number < p->last) n_reordered++;
    else p->last = f->number;
    if (write(port_fd[f->to], f->bytes, f->n) < 0) n_lost++;
    int64_t took_ns = now_ns() - f->came_ns;
    sum_ns += took_ns;
    if (took_ns > worst_ns) worst_ns = took_ns;
    free(f);
}

/* ---- what happens to a frame ---- */

/* Flips one bit of the TCP payload, if there is any, and it is this frame's turn. */
static void flip(uint8_t *bytes, size_t n, const struct path *p) {
    struct virtio_net_hdr *h = (void *)bytes;
    uint8_t *eth = bytes + sizeof *h, *ip = eth + 14;
    if (n < sizeof *h + 54 || eth[12] != 8 || eth[13] != 0 || ip[9] != IPPROTO_TCP) return;
    size_t total = (size_t)ip[2] << 8 | ip[3], head = (size_t)(ip[0] & 15) * 4;
    uint8_t *tcp = ip + head;
    size_t at = head + (size_t)(tcp[12] >> 4) * 4;
    bool meant = !p->port || (tcp[0] << 8 | tcp[1]) == p->port || (tcp[2] << 8 | tcp[3]) == p->port;
    if (total <= at || sizeof *h + 14 + total > n || !meant || !chance(p->flip)) return;
    size_t i = at + dice() % (total - at), word = (i - head) & ~(size_t)1;
    uint32_t old = (uint32_t)(tcp[word] << 8 | tcp[word + 1]);
    ip[i] ^= (uint8_t)(1u << dice() % 8);
    n_flipped++;
    if (h->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) return;
    uint32_t new = (uint32_t)(tcp[word] << 8 | tcp[word + 1]),
             sum = (uint32_t)(tcp[16] << 8 | tcp[17]);
    sum = (~sum & 0xffff) + (~old & 0xffff) + new; /* RFC 1624 */
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~((sum & 0xffff) + (sum >> 16)) & 0xffff;
    tcp[16] = (uint8_t)(sum >> 8);
    tcp[17] = (uint8_t)sum;
}

static void queue(int from, int to, const uint8_t *bytes, size_t n, int64_t now) {
    struct path *p = &path[from][to];
    int64_t due = now;
    struct frame *f =
        n_heap < MAX_QUEUED && !p->stall && !chance(p->loss) ? malloc(sizeof *f + n) : NULL;
    if (f && p->rate) {
        int64_t starts = p->free_ns > now ? p->free_ns : now;
        if (starts - now > BACKLOG_NS) {
            free(f);
            f = NULL;
        } else {
            due = p->free_ns = starts + (int64_t)n * 8000000 / p->rate;
        }
    }
    if (!f) {
        n_lost++;
        return;
    }
    long spread = p->jitter ? (long)(dice() % (uint64_t)(2 * p->jitter + 1)) - p->jitter : 0;
    due += (p->delay + spread) * 1000;
    *f = (struct frame){
        .due_ns = due, .came_ns = now, .number = next_number++, .from = from, .to = to, .n = n};
    memcpy(f->bytes, bytes, n);
    if (p->flip) flip(f->bytes, n, p);
    push(f);
}

static void forward(int from, const uint8_t *bytes, size_t n, int64_t now) {
    const uint8_t *to = bytes + sizeof(struct virtio_net_hdr), *source = to + 6;
    int known = -1, i = 0;
    if (n < sizeof(struct virtio_net_hdr) + 14) return;
    n_frames++;
    n_bytes += n;
    while (i < n_macs && memcmp(mac[i].mac, source, 6) != 0) i++;
    if (i == n_macs && n_macs < MAX_MACS && !(source[0] & 1)) memcpy(mac[n_macs++].mac, source, 6);
    if (i < n_macs) mac[i].port = from;
    for (i = 0; i < n_macs; i++)
        if (memcmp(mac[i].mac, to, 6) == 0) known = mac[i].port;
    for (int p = 0; p < n_ports; p++) {
        if (p == from || (known >= 0 && known != p)) continue;
        queue(from, p, bytes, n, now);
        if (!chance(path[from][p].twice)) continue;
        n_doubled++;
        queue(from, p, bytes, n, now);
    }
}

/* ---- orders ---- */

static long *key_of(struct path *p, const char *key) {
    const struct {
        const char *name;
        long *at;
    } keys[] = {
        {"delay", &p->delay}, {"jitter", &p->jitter}, {"loss", &p->loss}, {"double", &p->twice},
        {"flip", &p->flip},   {"port", &p->port},     {"rate", &p->rate}, {"stall", &p->stall},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i].name, key) == 0) return keys[i].at;
    return NULL;
}

/* Ports first..last that a word names; false: none. */
static bool ports_of(const char *word, int *ret_first, int *ret_last) {
    char *end;
    long n = strtol(word, &end, 10);
    bool all = strcmp(word, "*") == 0;
    if (!all && (*end || end == word || n < 0 || n >= n_ports)) return false;
    *ret_first = all ? 0 : (int)n;
    *ret_last = all ? n_ports - 1 : (int)n;
    return true;
}

static bool set_keys(int a, int b, int c, int d, char **save) {
    for (char *key; (key = strtok_r(NULL, " \n", save)) != NULL;) {
        char *value = strtok_r(NULL, " \n", save);
        if (!value) return false;
        for (int from = a; from <= b; from++)
            for (int to = c; to <= d; to++) {
                long *at = key_of(&path[from][to], key);
                if (!at) return false;
                *at = strtol(value, NULL, 10);
            }
    }
    return true;
}

static void obey(char *line) {
    char *save = NULL, *word = strtok_r(line, " \n", &save), *to = NULL;
    int a, b, c, d;
    bool good = true;
    if (!word) return;
    if (strcmp(word, "count") == 0) {
        uint64_t sent = n_frames ? n_frames : 1;
        printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64
               " %" PRId64 "\n",
               n_frames, n_bytes, n_lost, n_doubled, n_reordered, n_flipped, sum_ns / (int64_t)sent,
               worst_ns);
    } else {
        if (strcmp(word, "clear") == 0) memset(path, 0, sizeof path);
        else if ((to = strtok_r(NULL, " \n", &save)) == NULL) good = false;
        else good = ports_of(word, &a, &b) && ports_of(to, &c, &d) && set_keys(a, b, c, d, &save);
        puts(good ? "ok" : "what?");
    }
    fflush(stdout);
}

/* False at the end of the orders. */
static bool read_orders(void) {
    static char text[4096];
    static size_t have;
    ssize_t n = read(0, text + have, sizeof text - 1 - have);
    if (n <= 0) return false;
    have += (size_t)n;
    text[have] = 0;
    for (char *end; (end = memchr(text, '\n', have)) != NULL;) {
        size_t used = (size_t)(end + 1 - text);
        *end = 0;
        obey(text);
        memmove(text, text + used, have -= used);
    }
    return have < sizeof text - 1;
}

static int open_port(const char *name) {
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, htons(ETH_P_ALL)), yes = 1,
        room = 8 << 20;
    struct sockaddr_ll at = {.sll_family = AF_PACKET,
                             .sll_protocol = htons(ETH_P_ALL),
                             .sll_ifindex = (int)if_nametoindex(name)};
    bool good = fd >= 0 && at.sll_ifindex &&
                setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &yes, sizeof yes) == 0 &&
                setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof yes) == 0 &&
                bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
    if (!good) {
        fprintf(stderr, "proxy: %s: %s\n", name, strerror(errno));
        exit(1);
    }
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) != 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    return fd;
}

int main(int argc, char **argv) {
    static uint8_t bytes[MAX_FRAME];
    struct pollfd fds[MAX_PORTS + 1] = {{.fd = 0, .events = POLLIN}};
    if (argc < 3 || argc > MAX_PORTS + 1) {
        fprintf(stderr, "usage: proxy INTERFACE... (2 to %d)\n", MAX_PORTS);
        return 2;
    }
    for (; n_ports < argc - 1; n_ports++) {
        port_fd[n_ports] = open_port(argv[n_ports + 1]);
        fds[n_ports + 1] = (struct pollfd){.fd = port_fd[n_ports], .events = POLLIN};
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        int64_t wait_ns = n_heap ? heap[0]->due_ns - now_ns() : 1000000000;
        const struct timespec wait = {.tv_sec = wait_ns > 0 ? wait_ns / 1000000000 : 0,
                                      .tv_nsec = wait_ns > 0 ? wait_ns % 1000000000 : 0};
        if (ppoll(fds, (nfds_t)n_ports + 1, &wait, NULL) < 0 && errno != EINTR) return 1;
        for (int p = 0; p < n_ports; p++)
            for (int i = 0; fds[p + 1].revents && i < TURN; i++) {
                ssize_t n = read(port_fd[p], bytes, sizeof bytes);
                if (n <= 0) break;
                forward(p, bytes, (size_t)n, now_ns());
            }
        if (fds[0].revents && !read_orders()) return 0;
        while (n_heap && heap[0]->due_ns <= now_ns()) send_frame(pop());
    }
}
