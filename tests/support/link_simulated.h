/* tests/support/link_simulated.h — links over a simulated network: virtual time, seeds, faults.
 *
 * What      Every delay and fault follows from the seed and the calls, so that a run can be
 *           repeated. Connections are ordered and reliable until they break. With `lose`, `repeat`
 *           and `reorder` they do to messages what no real link does; the state machines above must
 *           survive stale and repeated messages too.
 * Time      poll moves it: it runs the network until this link has an event or the deadline passes.
 *           A driver of many links polls each with deadline qr_sim_net_now_ns, then moves time
 *           itself by qr_sim_net_advance.
 * Addresses "host:port" as listened on; "0.0.0.0:port" accepts connections to every host.
 * Bodies    are copied: unreleased() is always 0.
 * Sites     blocks, rates and losses belong to a site, that is, a machine: the links that run there
 *           one after the other share them. A link without a site has one of its own, whose blocks
 *           end with the link.
 * Owner     the net frees its links. link->ops->free is the orderly end of a process: what it has
 *           sent arrives, then its connections break.
 * Threads   one.
 */
#ifndef QR_TESTS_SUPPORT_LINK_SIMULATED_H
#define QR_TESTS_SUPPORT_LINK_SIMULATED_H

#include "base/clock.h"
#include "link/link.h"

struct qr_sim_net_options {
    uint64_t seed;
    int64_t min_delay_ns, max_delay_ns; /* of a message; max 0: 100 us to 500 us */
    unsigned lose, repeat, reorder;     /* of 1000 messages */
    /* The address of a dialed host; NULL: unknown at present. Default: hosts are addresses. */
    const char *(*resolve)(void *ctx, const char *host);
    void *ctx;
};
enum { QR_SIM_SITES = 32 };
struct qr_sim_net;
struct qr_sim_net *qr_sim_net_new(const struct qr_sim_net_options *opt);
void qr_sim_net_free(struct qr_sim_net *net);
struct qr_link *qr_link_simulated_new(struct qr_sim_net *net);
/* site: below QR_SIM_SITES */
struct qr_link *qr_link_simulated_at(struct qr_sim_net *net, unsigned site);

int64_t qr_sim_net_now_ns(const struct qr_sim_net *net);
struct qr_clock qr_sim_net_clock(struct qr_sim_net *net);
/* The time of the next event in the network; INT64_MAX: none. */
int64_t qr_sim_net_next_ns(const struct qr_sim_net *net);
void qr_sim_net_advance(struct qr_sim_net *net, int64_t to_ns); /* runs the events until then */
bool qr_sim_link_ready(const struct qr_link *l);                /* poll would return an event */

/* Replaces those of the options. */
void qr_sim_net_faults(struct qr_sim_net *net, unsigned lose, unsigned repeat, unsigned reorder);
/* Messages from a to b (and dials) wait until the block ends. */
void qr_sim_net_block(struct qr_sim_net *net, const struct qr_link *a, const struct qr_link *b,
                      bool blocked);
/* Breaks every connection between a and b now; messages in flight may be lost. */
void qr_sim_net_break(struct qr_sim_net *net, const struct qr_link *a, const struct qr_link *b);
/* The same between two sites, for present and later links. */
void qr_sim_net_block_sites(struct qr_sim_net *net, unsigned a, unsigned b, bool blocked);
/* lose: packets of 1000 from and to this site that are lost and sent again as by TCP. A loss delays
 * the message, and all later ones of the connection, by 200 ms, each further loss of the packet by
 * 250 ms, because acknowledgements of later packets report it. A packet lost eight times breaks its
 * connection. */
void qr_sim_net_lossy(struct qr_sim_net *net, unsigned site, unsigned lose);
/* Bytes per second that sites 2k and 2k + 1 (the two links of a machine) send together, and that
 * they receive together; 0: no limit. */
void qr_sim_net_rate(struct qr_sim_net *net, unsigned site, int64_t bytes_per_s);
/* Dials of `host` reach the same port at `other`, or nothing if that is NULL. Ends with a call with
 * host NULL. */
void qr_sim_net_lie(struct qr_sim_net *net, const char *host, const char *other);
/* Kills the process of the link: it sends nothing more, its connections break, and messages in
 * flight arrive in part. */
void qr_sim_net_kill(struct qr_link *l);

#endif
