/* tests/support/link_simulated.h — the link interface over a network that is only computed: virtual
 * time, seeds, faults.
 *
 * What      Every delay and fault follows from the seed and the calls: the same run twice is the
 *           same run. Connections are ordered and reliable until they break; with `faulty` they
 *           also lose, repeat and reorder messages, which no real link does: the machines above
 *           must survive stale and repeated ones all the same.
 * Time      poll moves it: it runs the network until this link has an event or the deadline passes.
 *           A driver of many links polls each with deadline qr_sim_net_now_ns, then moves time
 *           itself by qr_sim_net_advance.
 * Addresses "host:port" as listened on; "0.0.0.0:port" answers to every host. Bodies are copied:
 *           unreleased() is always 0.
 * Sites     what holds between two machines (blocks, rates, losses) holds for whatever process runs
 *           there: links of one site, one after the other, share it. A link without a site has one
 *           of its own, whose blocks end with it.
 * Owner     links belong to the net and go with it; link->ops->free before is the orderly end of
 *           that process: what it has sent arrives, then its connections break.
 * Threads   one.
 */
#ifndef QR_TESTS_SUPPORT_LINK_SIMULATED_H
#define QR_TESTS_SUPPORT_LINK_SIMULATED_H

#include "base/clock.h"
#include "link/link.h"

struct qr_sim_net_options {
    uint64_t seed;
    int64_t min_delay_ns, max_delay_ns; /* of a message; max 0: 100 us to 500 us */
    unsigned lose, repeat, reorder;     /* faulty: of 1000 messages */
    /* where a dialed host is, NULL: nowhere, now; by default it is an address already */
    const char *(*resolve)(void *ctx, const char *host);
    void *ctx;
};
enum { QR_SIM_SITES = 32 };
struct qr_sim_net;
struct qr_sim_net *qr_sim_net_new(const struct qr_sim_net_options *opt);
void qr_sim_net_free(struct qr_sim_net *net);
struct qr_link *qr_link_simulated_new(struct qr_sim_net *net);
/* below QR_SIM_SITES */
struct qr_link *qr_link_simulated_at(struct qr_sim_net *net, unsigned site);

int64_t qr_sim_net_now_ns(const struct qr_sim_net *net);
struct qr_clock qr_sim_net_clock(struct qr_sim_net *net);
/* When something next happens in the network; INT64_MAX: nothing ever. */
int64_t qr_sim_net_next_ns(const struct qr_sim_net *net);
void qr_sim_net_advance(struct qr_sim_net *net, int64_t to_ns); /* does everything due until then */
bool qr_sim_link_ready(const struct qr_link *l);                /* poll would return an event now */

/* from now on */
void qr_sim_net_faults(struct qr_sim_net *net, unsigned lose, unsigned repeat, unsigned reorder);
/* Messages from a to b (and dials) wait until the block ends. */
void qr_sim_net_block(struct qr_sim_net *net, const struct qr_link *a, const struct qr_link *b,
                      bool blocked);
/* Breaks every connection between a and b now; what is under way may be lost. */
void qr_sim_net_break(struct qr_sim_net *net, const struct qr_link *a, const struct qr_link *b);
/* The same between two sites, whatever runs there, now or later. */
void qr_sim_net_block_sites(struct qr_sim_net *net, unsigned a, unsigned b, bool blocked);
/* Of 1000 packets from and to this site so many are lost and sent again, as TCP does: what they
 * carry, and all behind it on that connection, comes 200 ms later, and 250 ms for each time that it
 * is lost again (what is sent behind it is acknowledged, and tells of it); a packet lost eight
 * times breaks its connection. */
void qr_sim_net_lossy(struct qr_sim_net *net, unsigned site, unsigned lose);
/* Bytes per second that leave this site and its neighbour (2k and 2k + 1: one machine's two links),
 * all connections together, and as many that come; 0: no bound. */
void qr_sim_net_rate(struct qr_sim_net *net, unsigned site, int64_t bytes_per_s);
/* Who dials `host` reaches the same port at `other`, or, where that is NULL, nobody; until the next
 * call with host NULL. */
void qr_sim_net_lie(struct qr_sim_net *net, const char *host, const char *other);
/* The process dies: nothing more goes out, its connections break; what was under way arrives
 * in part. */
void qr_sim_net_kill(struct qr_link *l);

#endif
