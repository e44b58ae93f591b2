/* tests/support/link_simulated_impl.h — data of a network in virtual time: links, connections,
 * messages in flight, and the heap of events. */
#ifndef TESTS_SUPPORT_LINK_SIMULATED_IMPL_H
#define TESTS_SUPPORT_LINK_SIMULATED_IMPL_H

#include <string.h>

#include "base/mem.h"
#include "tests/support/link_simulated.h"

enum { MAX_LINKS = 512, MAX_WAITING = 64, PACKET_BYTES = 1400, MAX_RESENDS = 8 };
#define MAX_WAITING_BYTES ((size_t)8 << 20)
#define DIAL_FIRST_NS INT64_C(50000000)
#define DIAL_LAST_NS INT64_C(1000000000)
#define RESEND_FIRST_NS INT64_C(200000000)
#define RESEND_AGAIN_NS INT64_C(250000000)
#define BLOCK_LOOK_NS INT64_C(20000000)

struct item { /* an event for the owner of a link, or a message in flight */
    struct item *next;
    enum qr_link_event_kind kind;
    uint32_t conn, tag;
    bool outgoing;
    char reason[100];
    size_t n;
    uint8_t bytes[];
};
struct list {
    struct item *first, **last;
    size_t n, n_bytes;
};

struct sim_link;
struct side {
    struct sim_link *link;
    uint32_t number;
    bool open;     /* its owner may send and receive */
    bool outgoing; /* its owner dialed */
    bool up;       /* its owner has an event QR_LINK_UP */
    bool paused;
    struct list way; /* messages in flight to it */
    int64_t last_ns; /* time of the last planned delivery */
};
struct sim_conn {
    struct sim_conn *next;
    struct side side[2]; /* 0 dialed */
    uint32_t tag;
    unsigned planned; /* events that name it */
};
struct dial {
    struct dial *next;
    uint32_t tag;
    char *address;
    bool on;
    struct sim_conn *conn;
    int64_t wait_ns;
};
struct sim_link {
    struct qr_link base;
    struct qr_sim_net *net;
    unsigned site;
    bool dead, woken, lone; /* lone: the only link of its site */
    char *address;          /* that it listens on */
    struct dial *dials;
    struct list events;
    struct item *lent; /* the message that the last poll returned */
};
enum what { DO_DIAL, DO_DELIVER, DO_BREAK, DO_RESET };
struct event {
    int64_t at_ns;
    uint64_t order;
    enum what what;
    struct dial *dial;
    struct sim_link *link;
    struct sim_conn *conn;
    int side;
};
struct qr_sim_net {
    struct qr_sim_net_options opt;
    uint64_t random, order;
    int64_t now_ns;
    uint32_t conns_made, ports;
    struct event *heap;
    size_t n, cap;
    struct sim_link *link[MAX_LINKS];
    unsigned n_links;
    struct sim_conn *conns;
    bool blocked[QR_SIM_SITES + MAX_LINKS][QR_SIM_SITES + MAX_LINKS]; /* from, to */
    unsigned lossy[QR_SIM_SITES];
    /* busy_ns: end of the last transfer, out and in */
    int64_t rate[QR_SIM_SITES / 2], busy_ns[QR_SIM_SITES / 2][2];
    char lie[2][64]; /* host, other */
};

static inline uint64_t random_of(struct qr_sim_net *net) {
    uint64_t z = net->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline int64_t delay_of(struct qr_sim_net *net) {
    return net->opt.min_delay_ns +
           (int64_t)(random_of(net) %
                     (uint64_t)(net->opt.max_delay_ns - net->opt.min_delay_ns + 1));
}

/* ---- lists ---- */
static inline void list_add(struct list *l, struct item *it) {
    if (l->first == NULL) l->last = &l->first;
    *l->last = it;
    l->last = &it->next;
    it->next = NULL;
    l->n++;
    l->n_bytes += it->n;
}

static inline struct item *list_cut(struct list *l, struct item **at) {
    struct item *it = *at;
    *at = it->next;
    if (l->last == &it->next) l->last = at;
    l->n--;
    l->n_bytes -= it->n;
    return it;
}

static inline void list_clear(struct list *l) {
    while (l->first) free(list_cut(l, &l->first));
}

static inline struct item *item_new(enum qr_link_event_kind kind, uint32_t conn, size_t n) {
    struct item *it = qr_xcalloc(1, sizeof *it + n + 1);
    it->kind = kind;
    it->conn = conn;
    it->n = n;
    return it;
}

/* ---- the heap of events ---- */
static inline bool before(const struct event *a, const struct event *b) {
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static inline void plan(struct qr_sim_net *net, struct event e) {
    if (net->n == net->cap)
        net->heap = qr_xreallocarray(net->heap, net->cap = net->cap ? 2 * net->cap : 256,
                                     sizeof *net->heap);
    e.order = net->order++;
    if (e.conn) e.conn->planned++;
    size_t i = net->n++;
    for (; i && before(&e, &net->heap[(i - 1) / 2]); i = (i - 1) / 2)
        net->heap[i] = net->heap[(i - 1) / 2];
    net->heap[i] = e;
}

static inline struct event next_of(struct qr_sim_net *net) {
    struct event top = net->heap[0], e = net->heap[--net->n];
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < net->n; i = k) {
        if (k + 1 < net->n && before(&net->heap[k + 1], &net->heap[k])) k++;
        if (!before(&net->heap[k], &e)) break;
        net->heap[i] = net->heap[k];
    }
    net->heap[i] = e;
    return top;
}

#endif
