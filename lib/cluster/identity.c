/* cluster/identity.c — finds the index and peers of this process (identity.md). Start reading at
 * qr_identity_find(). */
#include "cluster/identity.h"

#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "cluster/identity_impl.h"
#include "format/json.h"

const char *qr_identity_source_name(enum qr_identity_source s) {
    static const char *const names[] = {"flags", "tf_config", "job_index", "statefulset", "single"};
    return names[s];
}
const char *qr_role_name(enum qr_role r) {
    static const char *const names[] = {"chief", "master", "worker", "evaluator", "ps", "single"};
    return names[r];
}

static bool is_set(const char *s) { return s && *s; }

/* ---- counts and indices ---- */

#define SERVERS "--parameter-servers (QRING_PARAMETER_SERVERS)"

static enum qr_code parse_replicas(const struct qr_identity_inputs *in, uint64_t *ret,
                                   struct qr_err *err) {
    *ret = 0;
    if (!is_set(in->replicas)) return QR_OK;
    if (!qr_parse_u64(in->replicas, ret) || *ret < 1 || *ret > in->max_workers)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--replicas (QRING_REPLICAS): '%.40s' is not a number of workers in 1 ... "
                       "%u (--max-workers)",
                       in->replicas, in->max_workers);
    return QR_OK;
}

static enum qr_code parse_index(const struct qr_identity_inputs *in, const char *text,
                                const char *where, uint64_t *ret, struct qr_err *err) {
    if (!qr_parse_u64(text, ret))
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: '%.40s' is not an index (0, 1, 2 ...)", where,
                       text);
    if (*ret >= in->max_workers)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: index %.20s is outside 0 ... %u (--max-workers)", where, text,
                       in->max_workers - 1);
    return QR_OK;
}

static size_t list_length(const char *list) {
    size_t n = is_set(list);
    for (const char *c = list; c && *c; c++) n += *c == ',';
    return n;
}

/* Stores the addresses of a list from peers[at] on. what: "--peers (QRING_PEERS), worker". */
static enum qr_code put_peer_list(const struct qr_identity_inputs *in, const char *list,
                                  const char *what, size_t at, struct qr_identity *ret,
                                  struct qr_err *err) {
    enum qr_code code = QR_OK;
    size_t i = 0;
    for (const char *s = list; is_set(list) && code == QR_OK; i++) {
        size_t len = strcspn(s, ",");
        qr_auto(qr_free_p) char *address = qr_xstrndup(s, len),
                                *where = qr_xasprintf("%s %zu", what, i);
        code = qr_peers_set_address(ret, at + i, address, true, in->default_port, where, err);
        if (!s[len]) break;
        s += len + 1;
    }
    return code;
}

/* Allocates n peers, the first of them the parameter servers. */
static enum qr_code init_peers(const struct qr_identity_inputs *in, size_t n,
                               struct qr_identity *ret, struct qr_err *err) {
    qr_peers_new(ret, n);
    return put_peer_list(in, in->parameter_servers, SERVERS ", number", 0, ret, err);
}

/* ---- roles ---- */

static enum qr_code find_role(const struct qr_identity_inputs *in, struct qr_identity *ret,
                              struct qr_err *err) {
    static const enum qr_role roles[] = {QR_ROLE_WORKER, QR_ROLE_PS, QR_ROLE_EVALUATOR};
    enum { ROLES = sizeof roles / sizeof *roles };
    size_t k = 0;
    ret->n_servers = list_length(in->parameter_servers);
    if (ret->n_servers >= in->max_workers)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       SERVERS
                       " names %zu of at most %u members (--max-workers): no member would compute",
                       ret->n_servers, in->max_workers);
    while (is_set(in->role) && k < ROLES && strcmp(in->role, qr_role_name(roles[k])) != 0) k++;
    if (k == ROLES)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--role (QRING_ROLE): '%.40s' is none of worker, ps, evaluator", in->role);
    ret->role = roles[k];
    if (ret->role == QR_ROLE_PS && !ret->n_servers)
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "--role (QRING_ROLE) is ps, but " SERVERS
            " names none: list all of them, by index, at every worker and every parameter server");
    return QR_OK;
}

/* Returns the index in the ring of the i-th process of its role; n: number of workers. */
static enum qr_code ring_index(const struct qr_identity *id, uint64_t i, size_t n, const char *from,
                               uint64_t *ret, struct qr_err *err) {
    bool server = id->role == QR_ROLE_PS;
    if (i >= (server ? id->n_servers : n))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s is %llu, but %s %zu %s: the index must be in 0 ... %zu", from,
                       (unsigned long long)i, server ? SERVERS " names" : "the limit is",
                       server ? id->n_servers : n, server ? "of them" : "workers",
                       (server ? id->n_servers : n) - 1);
    *ret = server ? i : id->n_servers + i;
    return QR_OK;
}

/* A ring member, with all workers' names from one template. An index beyond the count means that
 * the count is stale (a pod's environment does not follow scaling), unless the user gave both. */
static enum qr_code from_template(const struct qr_identity_inputs *in, uint64_t index, bool strict,
                                  const char *from, struct qr_identity *ret, struct qr_err *err) {
    uint64_t count, place;
    size_t most = in->max_workers - ret->n_servers;
    bool server = ret->role == QR_ROLE_PS;
    const char *what = server ? "parameter server" : "index";
    QR_TRY(parse_replicas(in, &count, err));
    if (strict && !server && count && index >= count)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--index is %llu, but --replicas is %llu: the index must be in 0 ... %llu",
                       (unsigned long long)index, (unsigned long long)count,
                       (unsigned long long)count - 1);
    if (count > most)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--replicas (QRING_REPLICAS) is %llu, and " SERVERS " names %zu: at most %u "
                       "(--max-workers) can work together",
                       (unsigned long long)count, ret->n_servers, in->max_workers);
    bool stale = count && !server && index >= count;
    ret->count_known = count && !stale;
    QR_TRY(ring_index(ret, index, most, from, &place, err));
    QR_TRY(init_peers(in, ret->n_servers + (ret->count_known ? count : most), ret, err));
    QR_TRY(qr_peers_expand(ret, in->peer_template, ret->n_servers, in->default_port,
                           "--peer-template (QRING_PEER_TEMPLATE)", err));
    qr_identity_set_index(ret, place);
    if (stale)
        ret->why =
            qr_xasprintf("%s says index %llu; replicas (%llu) is older than that, so 0 ... "
                         "%zu of the template are probed",
                         from, (unsigned long long)index, (unsigned long long)count, most - 1);
    else if (count)
        ret->why = qr_xasprintf("%s says %s %llu; the template names %llu workers", from, what,
                                (unsigned long long)index, (unsigned long long)count);
    else
        ret->why = qr_xasprintf(
            "%s says %s %llu; 0 ... %zu of the template are probed, since no --replicas is given",
            from, what, (unsigned long long)index, most - 1);
    return QR_OK;
}

static enum qr_code from_list(const struct qr_identity_inputs *in, uint64_t index,
                              struct qr_identity *ret, struct qr_err *err) {
    uint64_t count, place;
    size_t n = list_length(in->peers), all = ret->n_servers + n;
    QR_TRY(parse_replicas(in, &count, err));
    if (all > in->max_workers)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--peers (QRING_PEERS) names %zu workers%s; at most %u (--max-workers) can "
                       "work together",
                       all, ret->n_servers ? ", parameter servers with them" : "", in->max_workers);
    enum qr_code code = init_peers(in, all, ret, err);
    if (code == QR_OK)
        code =
            put_peer_list(in, in->peers, "--peers (QRING_PEERS), worker", ret->n_servers, ret, err);
    if (code != QR_OK) return code;
    if (count && count != n)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--replicas is %llu, but --peers names %zu workers: leave --replicas out",
                       (unsigned long long)count, n);
    if (ret->role == QR_ROLE_WORKER && index >= n)
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "--index is %llu, but --peers names %zu workers: the index must be in 0 ... %zu",
            (unsigned long long)index, n, n - 1);
    if ((code = ring_index(ret, index, n, "--index", &place, err)) != QR_OK) return code;
    ret->count_known = true;
    qr_identity_set_index(ret, place);
    ret->why = ret->role == QR_ROLE_PS
                   ? qr_xasprintf("--index says parameter server %llu of %zu beside %zu workers",
                                  (unsigned long long)index, ret->n_servers, n)
                   : qr_xasprintf("--index says %llu of the %zu workers that --peers names",
                                  (unsigned long long)index, n);
    return QR_OK;
}

static enum qr_code from_flags(const struct qr_identity_inputs *in, struct qr_identity *ret,
                               struct qr_err *err) {
    uint64_t index;
    enum qr_code code;
    ret->source = QR_FROM_FLAGS;
    if (!is_set(in->index))
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "--peers (QRING_PEERS) is set without --index (QRING_INDEX): set this worker's index");
    if ((code = parse_index(in, in->index, "--index (QRING_INDEX)", &index, err)) != QR_OK)
        return code;
    if (is_set(in->peers) && is_set(in->peer_template))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--peers and --peer-template are both set: give one of them (QRING_PEERS, "
                       "QRING_PEER_TEMPLATE)");
    if (!is_set(in->peers) && !is_set(in->peer_template))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--index (QRING_INDEX) is set without --peers or --peer-template: set one "
                       "of them to name the other workers");
    return is_set(in->peer_template) ? from_template(in, index, true, "--index", ret, err)
                                     : from_list(in, index, ret, err);
}

/* "name-3" or "name-3.service.…": returns the ordinal at the end of the first label; NULL without
 * one. */
static char *hostname_ordinal(const char *hostname) {
    size_t n = strcspn(hostname, "."), begin = n;
    while (begin && isdigit((unsigned char)hostname[begin - 1])) begin--;
    return begin < n && begin >= 2 && hostname[begin - 1] == '-'
               ? qr_xstrndup(hostname + begin, n - begin)
               : NULL;
}

static enum qr_code from_template_or_single(const struct qr_identity_inputs *in,
                                            struct qr_identity *ret, struct qr_err *err) {
    uint64_t index, count;
    enum qr_code code;
    if (is_set(in->peer_template) && is_set(in->job_completion_index)) {
        ret->source = QR_FROM_JOB_INDEX;
        QR_TRY(parse_index(in, in->job_completion_index, "JOB_COMPLETION_INDEX", &index, err));
        return from_template(in, index, false, "JOB_COMPLETION_INDEX", ret, err);
    }
    if (is_set(in->peer_template)) {
        qr_auto(qr_free_p) char *ordinal =
            is_set(in->hostname) ? hostname_ordinal(in->hostname) : NULL;
        ret->source = QR_FROM_STATEFULSET;
        if (!ordinal)
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "--peer-template (QRING_PEER_TEMPLATE) is set, but nothing says which "
                           "index this worker has: set "
                           "--index, run in an Indexed Job (JOB_COMPLETION_INDEX), or on a host "
                           "called name-<index> (this one is '%.80s')",
                           in->hostname ? in->hostname : "");
        QR_TRY(parse_index(in, ordinal, "hostname", &index, err));
        return from_template(in, index, false, "the host's name", ret, err);
    }
    if ((code = parse_replicas(in, &count, err)) != QR_OK) return code;
    if (ret->n_servers)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       SERVERS " is set, but nothing names the workers: set --peer-template or "
                               "--peers");
    if (count > 1)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--replicas (QRING_REPLICAS) is %llu, but nothing names the other workers: "
                       "set --peer-template or --peers",
                       (unsigned long long)count);
    ret->source = QR_FROM_NOTHING;
    ret->role = QR_ROLE_SINGLE;
    ret->index = 0;
    ret->count_known = true;
    ret->why = is_set(in->job_completion_index)
                   ? qr_xasprintf("JOB_COMPLETION_INDEX is %.20s, but no --peer-template names the "
                                  "others",
                                  in->job_completion_index)
                   : qr_xstrdup("no --index, no TF_CONFIG, no --peer-template");
    return QR_OK;
}

/* An evaluator ignores all other settings: they describe the ring. */
static void identity_outside(struct qr_identity *id) {
    id->source = QR_FROM_FLAGS;
    id->n_servers = 0;
    id->why = qr_xstrdup("--role says evaluator, which is not a member of the ring");
}

enum qr_code qr_identity_find(const struct qr_identity_inputs *in, struct qr_identity *ret,
                              struct qr_err *err) {
    struct qr_identity id = {.index = -1, .port = in->default_port};
    bool flags = is_set(in->index) || is_set(in->peers);
    enum qr_code code;
    if (!flags && is_set(in->tf_config)) {
        code = is_set(in->role) || is_set(in->parameter_servers)
                   ? qr_fail(err, QR_INVALID_ARGUMENT,
                             "TF_CONFIG defines the roles: leave --role (QRING_ROLE) and " SERVERS
                             " out")
                   : qr_identity_from_tf_config(in, &id, err);
    } else {
        code = find_role(in, &id, err);
        if (code == QR_OK && id.role == QR_ROLE_EVALUATOR) identity_outside(&id);
        else if (code == QR_OK)
            code = flags ? from_flags(in, &id, err) : from_template_or_single(in, &id, err);
    }
    if (code != QR_OK) qr_identity_fini(&id);
    else *ret = id;
    return code;
}

void qr_identity_json(const struct qr_identity *id, struct qr_buf *ret) {
    struct qr_json_writer w = qr_json_writer(ret, 0);
    qr_json_open(&w, '{');
    qr_json_key_string(&w, "source", qr_identity_source_name(id->source));
    qr_json_key_string(&w, "role", qr_role_name(id->role));
    qr_json_put_key(&w, "index");
    if (id->index < 0) qr_json_put_null(&w);
    else qr_json_put_i64(&w, id->index);
    qr_json_put_key(&w, "address");
    if (id->address) qr_json_put_string(&w, id->address);
    else qr_json_put_null(&w);
    qr_json_key_i64(&w, "parameter_servers", (int64_t)id->n_servers);
    qr_json_key_open(&w, "peers", '[');
    for (size_t i = 0; i < id->n_peers; i++)
        if (id->count_known || id->named[i]) qr_json_put_string(&w, id->peers[i]);
    qr_json_close(&w, ']');
    qr_json_close(&w, '}');
}
