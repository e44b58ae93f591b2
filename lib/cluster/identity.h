/* cluster/identity.h — the index of this process and the addresses of its possible peers
 * (identity.md).
 *
 * Order     The first match wins: settings (index + peers or template) → TF_CONFIG →
 *           JOB_COMPLETION_INDEX with a template → StatefulSet ordinal (with a template) → single.
 *           A TF_CONFIG that is set but wrong is INVALID_ARGUMENT, never a fall-through.
 * Index     parameter servers, then chief, master, worker i. An evaluator is never a peer.
 * Threads   any. The environment is an argument (struct qr_identity_inputs); no getenv here.
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
/* Returns flags, tf_config, job_index, statefulset or single. */
const char *qr_identity_source_name(enum qr_identity_source s);
/* Returns chief, master, worker, evaluator, ps or single. */
const char *qr_role_name(enum qr_role r);

/* Settings and environment; NULL where unset. Borrowed. */
struct qr_identity_inputs {
    const char *index;         /* --index / QRING_INDEX */
    const char *peers;         /* --peers / QRING_PEERS: comma list of host:port, by index */
    const char *peer_template; /* --peer-template / QRING_PEER_TEMPLATE: name-{i}.service:port */
    const char *replicas;      /* --replicas / QRING_REPLICAS */
    /* With peers or a template. Not with TF_CONFIG, which defines both: */
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
    int index; /* -1 for an evaluator */
    /* Own host:port ("[::1]:2222" for IPv6); NULL for single without a port. */
    char *address;
    unsigned port;    /* the control port to bind */
    size_t n_peers;   /* known ring members, this process included, by index; 0 for single */
    size_t n_servers; /* number of parameter servers at the start */
    char **peers;     /* [n_peers] host:port, none NULL */
    /* [n_peers] true: the input names this address; false: a candidate made from a template. */
    bool *named;
    /* False: sparse TF_CONFIG, or a template without replicas: peers are candidates to probe. */
    bool count_known;
    char *why; /* reason, one sentence for the log */
};
/* Finds the identity of this process.
 *
 * Args:     in   borrowed for the call
 *           ret  free with qr_identity_fini
 * Errors:   INVALID_ARGUMENT (names the setting and its value)
 */
QR_MUST_CHECK enum qr_code qr_identity_find(const struct qr_identity_inputs *in,
                                            struct qr_identity *ret, struct qr_err *err);
/* Frees the contents of an identity. */
void qr_identity_fini(struct qr_identity *id);
/* Appends {"source","role","index","address","parameter_servers","peers"}, as --print-identity
 * prints it. Candidates are listed only when named. */
void qr_identity_json(const struct qr_identity *id, struct qr_buf *ret);

/* Splits "host:port": a name, IPv4 or [IPv6]; the port may be missing.
 *
 * Args:     ret_host  heap, without brackets
 * Returns:  false when malformed; qr_address_fault has the reason
 */
bool qr_address_split(const char *address, unsigned default_port, char **ret_host,
                      unsigned *ret_port);

/* Returns what is wrong with an address, as the end of a sentence ("it has no host"), or NULL.
 * Static. */
const char *qr_address_fault(const char *address);
/* Joins "[::1]", 2222 → "[::1]:2222", with brackets where the host is IPv6. Heap. */
char *qr_address_join(const char *host, unsigned port);

#endif
