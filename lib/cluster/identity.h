/* cluster/identity.h — who am I, who may be my peers (identity.md).
 *
 * First match wins: our settings (index + peers or template) → TF_CONFIG → JOB_COMPLETION_INDEX
 * with a template → StatefulSet ordinal (with a template) → single. TF_CONFIG that is set but wrong
 * is INVALID_ARGUMENT, never a fall-through.
 * Index     parameter servers, then chief, master, worker i. An evaluator is never a peer.
 * Pure      the environment is an argument (struct qr_identity_inputs); no getenv here.
 */
#ifndef QR_CLUSTER_IDENTITY_H
#define QR_CLUSTER_IDENTITY_H

#include <stdbool.h>

#include "base/bytes.h"

enum qr_identity_source {
    QR_FROM_FLAGS,
    QR_FROM_TF_CONFIG,
    QR_FROM_JOB_INDEX,
    QR_FROM_STATEFULSET,
    QR_FROM_NOTHING
};
enum qr_role {
    QR_ROLE_CHIEF,
    QR_ROLE_MASTER,
    QR_ROLE_WORKER,
    QR_ROLE_EVALUATOR,
    QR_ROLE_PS,
    QR_ROLE_SINGLE
};
/* flags tf_config job_index statefulset single */
const char *qr_identity_source_name(enum qr_identity_source s);
/* chief master worker evaluator ps single */
const char *qr_role_name(enum qr_role r);

/* NULL where unset. Borrowed. */
struct qr_identity_inputs {
    const char *index;         /* --index / QRING_INDEX */
    const char *peers;         /* --peers / QRING_PEERS: comma list of host:port, by index */
    const char *peer_template; /* --peer-template / QRING_PEER_TEMPLATE: name-{i}.service:port */
    const char *replicas;      /* --replicas / QRING_REPLICAS */
    /* beside peers or a template, not beside TF_CONFIG, which says both itself: */
    const char *role;              /* --role / QRING_ROLE: worker, ps, evaluator */
    const char *parameter_servers; /* --parameter-servers / QRING_PARAMETER_SERVERS: a list */
    const char *tf_config;         /* TF_CONFIG */
    const char *job_completion_index;
    const char *hostname;  /* for the StatefulSet ordinal */
    unsigned default_port; /* 2222 */
    unsigned max_workers;  /* QR_MAX_MEMBERS at most */
};

struct qr_identity {
    enum qr_identity_source source;
    enum qr_role role;
    int index; /* -1 outside the ring */
    /* host:port of oneself ("[::1]:2222" for IPv6); NULL for single without a port */
    char *address;
    unsigned port;    /* the control port to bind */
    size_t n_peers;   /* known ring members with oneself, by index; 0 for single */
    size_t n_servers; /* the first so many of them are parameter servers */
    char **peers;     /* host:port; NULL entries never */
    /* n_peers: true for an address that the input names, false for a candidate made from
     * a template */
    bool *named;
    /* false: sparse TF_CONFIG or a template without replicas: peers are candidates to probe */
    bool count_known;
    char *why; /* one sentence for the log */
};
QR_MUST_CHECK enum qr_code qr_identity_find(const struct qr_identity_inputs *in,
                                            struct qr_identity *ret, struct qr_err *err);
void qr_identity_fini(struct qr_identity *id);
/* {"source","role","index","address","parameter_servers","peers"}: what --print-identity prints.
 * Of candidates only the named ones are peers. */
void qr_identity_json(const struct qr_identity *id, struct qr_buf *ret);

/* "host:port" → parts (host on the heap, without brackets). Accepts name, IPv4, [IPv6]; port may be
 * missing (default_port). False when malformed; qr_address_fault says why. */
bool qr_address_split(const char *address, unsigned default_port, char **ret_host,
                      unsigned *ret_port);

/* What is wrong with an address, as the end of a sentence ("it has no host"); NULL when nothing
 * is. Static. */
const char *qr_address_fault(const char *address);
/* "[::1]", 2222 → "[::1]:2222": brackets where the host is IPv6. Heap. */
char *qr_address_join(const char *host, unsigned port);

#endif
