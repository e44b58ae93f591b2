/* worker/ring.c — identity, network and DNS names of the ring that a worker would join. Start
 * reading at qr_ring_identity(). */
#include "worker/ring.h"

#include <netdb.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/parse.h"
#include "worker/tls.h"

enum qr_code qr_ring_identity(const struct qr_settings *s, char *const *environment,
                              struct qr_identity *ret, struct qr_err *err) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    const struct qr_identity_inputs in = {
        .index = s->index,
        .peers = s->peers,
        .peer_template = s->peer_template,
        .replicas = s->replicas,
        .role = s->role,
        .parameter_servers = s->parameter_servers,
        .tf_config = qr_variable(environment, "TF_CONFIG"),
        .job_completion_index = qr_variable(environment, "JOB_COMPLETION_INDEX"),
        .hostname = host,
        .default_port = 2222,
        .max_workers = (unsigned)s->max_workers,
    };
    return qr_identity_find(&in, ret, err);
}

static bool is_loopback_host(const char *host) {
    return strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
           strncmp(host, "127.", 4) == 0;
}

static bool all_loopback(const struct qr_identity *id) {
    bool all = true;
    for (size_t i = 0; i < id->n_peers && all; i++) {
        char *host;
        unsigned port;
        all = qr_address_split(id->peers[i], 2222, &host, &port);
        if (!all) break;
        all = is_loopback_host(host);
        free(host);
    }
    return all;
}

enum qr_code qr_ring_network(const struct qr_settings *s, const struct qr_identity *id,
                             bool *ret_local, struct qr_err *err) {
    bool local = all_loopback(id) && (!s->bind || is_loopback_host(s->bind));
    if (!local && !s->plaintext && !qr_tls_given(s))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "the peers are not on this machine and there are no certificates: set "
                       "--tls-dir to the job's (qring certs makes them), or --plaintext "
                       "(QRING_PLAINTEXT=1) if only you use the network between the workers");
    *ret_local = local;
    return QR_OK;
}

enum qr_allreduce qr_ring_allreduce(const struct qr_settings *s) {
    enum qr_allreduce found = QR_ALLREDUCE_AUTO;
    for (int i = 0; i < QR_ALLREDUCE_KINDS; i++)
        if (strcmp(qr_allreduce_names[i], s->allreduce) == 0) found = (enum qr_allreduce)i;
    return found;
}

/* ---- DNS names ---- */

static enum qr_code resolve_code(int fault) {
    switch (fault) {
    case 0: return QR_OK;
    case EAI_INPROGRESS:
    case EAI_CANCELED: return QR_DEADLINE_EXCEEDED;
    case EAI_AGAIN:
    case EAI_MEMORY:
    case EAI_SYSTEM: return QR_UNAVAILABLE;
    default: return QR_NOT_FOUND;
    }
}

static char *address_text(const struct addrinfo *a) {
    char host[NI_MAXHOST];
    return a && getnameinfo(a->ai_addr, a->ai_addrlen, host, sizeof host, NULL, 0,
                            NI_NUMERICHOST) == 0
               ? qr_xstrdup(host)
               : NULL;
}

/* Waits until none is in progress, or until the timeout. */
static void await_names(struct gaicb *const *list, size_t n, int64_t timeout_ns) {
    int64_t end_ns = qr_now_ns(&qr_clock_monotonic) + timeout_ns;
    for (size_t i = 0; i < n;) {
        int64_t left_ns = end_ns - qr_now_ns(&qr_clock_monotonic);
        const struct timespec left = {.tv_sec = left_ns / QR_SECOND,
                                      .tv_nsec = left_ns % QR_SECOND};
        if (gai_error(list[i]) != EAI_INPROGRESS) i++;
        else if (left_ns <= 0) return;
        else gai_suspend((const struct gaicb *const *)list + i, 1, &left);
    }
}

void qr_ring_resolve(const char *const *hosts, size_t n, int64_t timeout_ns, enum qr_code *ret_code,
                     char **ret_address) {
    static const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct gaicb **list = qr_xcalloc(n + 1, sizeof *list);
    bool pending = false;
    for (size_t i = 0; i < n; i++) {
        list[i] = qr_xcalloc(1, sizeof **list);
        *list[i] = (struct gaicb){.ar_name = qr_xstrdup(hosts[i]), .ar_request = &hints};
    }
    int fault = n ? getaddrinfo_a(GAI_NOWAIT, list, (int)n, NULL) : 0;
    /* After an error some requests may still be under way, and their answers are written here. */
    await_names(list, n, timeout_ns);
    for (size_t i = 0; i < n; i++) {
        int answer = gai_error(list[i]);
        if (answer == 0 && !list[i]->ar_result) answer = fault ? fault : EAI_AGAIN;
        ret_code[i] = resolve_code(answer);
        ret_address[i] = answer == 0 ? address_text(list[i]->ar_result) : NULL;
        if (answer == 0) freeaddrinfo(list[i]->ar_result);
        /* A resolver thread still writes there. */
        if (answer == EAI_INPROGRESS && gai_cancel(list[i]) == EAI_NOTCANCELED) {
            pending = true;
            continue;
        }
        free((void *)(uintptr_t)list[i]->ar_name);
        free(list[i]);
        list[i] = NULL;
    }
    static struct gaicb **left_behind; /* kept until the process exits */
    if (pending) left_behind = list;
    else free(list);
    (void)left_behind;
}
