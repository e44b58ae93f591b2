/* cluster/tf_config.c — parses TF_CONFIG as training operators and users write it: dense, sparse in
 * both spellings, chief, master, evaluator, ps. Start reading at qr_identity_from_tf_config().
 */
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "cluster/identity_impl.h"
#include "format/json.h"

enum task { CHIEF, MASTER, WORKER, EVALUATOR, PS, TASKS, NO_TASK = -1 };
enum { MAX_OTHERS = 4096 };
static const char *const task_names[TASKS] = {"chief", "master", "worker", "evaluator", "ps"};
static const enum qr_role roles[TASKS] = {QR_ROLE_CHIEF, QR_ROLE_MASTER, QR_ROLE_WORKER,
                                          QR_ROLE_EVALUATOR, QR_ROLE_PS};

struct config {
    const struct qr_identity_inputs *in;
    const char *key;                    /* "cluster" or "sparseCluster" */
    const struct qr_json *lists[TASKS]; /* array or object; NULL when absent or null */
    bool has_cluster;
    enum task task;
    uint64_t index;
};

/* Unknown keys are ignored, but a misspelled known key is an error: treated as absent, it would
 * turn a ring member into a single worker. */
static enum qr_code reject_misspelled(const struct qr_json *object, const char *where,
                                      const char *const *known, size_t n, struct qr_err *err) {
    for (const struct qr_json *m = qr_json_first(object); m; m = qr_json_next(m)) {
        const char *key = qr_json_key(m), *near = qr_nearest(key, known, n);
        if (near && strcmp(near, key) != 0 && !qr_json_get(object, near))
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "TF_CONFIG: unknown key '%.80s'%s%s; did you mean '%s'?", key,
                           *where ? " in " : "", where, near);
    }
    return QR_OK;
}

/* ---- cluster ---- */

static bool is_keyed(const struct qr_json *list) {
    return list && qr_json_type(list) == QR_JSON_OBJECT;
}

static enum qr_code check_list(const struct config *c, enum task t, const struct qr_json *list,
                               struct qr_err *err) {
    enum qr_json_type type = qr_json_type(list);
    size_t n = qr_json_size(list);
    if (type != QR_JSON_ARRAY && type != QR_JSON_OBJECT)
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "TF_CONFIG: %s.%s is %s; it must be a list of host:port, or an object of them by index",
            c->key, task_names[t], qr_json_type_name(list));
    if ((t == CHIEF || t == MASTER) && n > 1)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "TF_CONFIG: %s.%s names %zu addresses; a job has at most one %s", c->key,
                       task_names[t], n, task_names[t]);
    if (t == WORKER && n > c->in->max_workers)
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "TF_CONFIG: %s.worker names %zu workers; at most %u (--max-workers) can work together",
            c->key, n, c->in->max_workers);
    return QR_OK;
}

static enum qr_code read_cluster(const struct qr_json *root, struct config *c, struct qr_err *err) {
    static const char *const top[] = {"cluster", "sparseCluster", "task"};
    const struct qr_json *dense = qr_json_get(root, "cluster"),
                         *sparse = qr_json_get(root, "sparseCluster"),
                         *cluster = dense ? dense : sparse;
    enum qr_code code = reject_misspelled(root, "", top, 1, err);
    if (!dense && sparse) code = QR_OK;
    if (code == QR_OK) code = reject_misspelled(root, "", top + 2, 1, err);
    if (code != QR_OK) return code;
    if (dense && sparse)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "TF_CONFIG: it has both cluster and sparseCluster; leave one out");
    c->key = sparse ? "sparseCluster" : "cluster";
    if (!cluster) return QR_OK;
    if ((code = qr_json_want(cluster, sparse ? "TF_CONFIG: sparseCluster" : "TF_CONFIG: cluster",
                             QR_JSON_OBJECT, err)) != QR_OK)
        return code;
    c->has_cluster = qr_json_size(cluster) > 0;
    if ((code = reject_misspelled(cluster, c->key, task_names, TASKS, err)) != QR_OK) return code;
    for (int t = 0; t < TASKS && code == QR_OK; t++) {
        c->lists[t] = qr_json_get(cluster, task_names[t]);
        if (c->lists[t]) code = check_list(c, (enum task)t, c->lists[t], err);
    }
    return code;
}

/* ---- task ---- */

static enum qr_code tf_config_read_index(const struct qr_json *task, uint64_t *ret,
                                         struct qr_err *err) {
    const struct qr_json *v = qr_json_get(task, "index");
    const char *text;
    int64_t i = 0;
    enum qr_code code;
    if (!v)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "TF_CONFIG: task.index is missing: set this process' index (0, 1, 2 ...)");
    if (qr_json_type(v) == QR_JSON_STRING) { /* other tools quote the index */
        if ((code = qr_json_string(v, "TF_CONFIG: task.index", &text, err)) != QR_OK) return code;
        if (!qr_parse_u64(text, ret))
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "TF_CONFIG: task.index is '%.40s', which is not an index (0, 1, 2 ...)",
                           text);
        return QR_OK;
    }
    code = qr_json_i64(v, "TF_CONFIG: task.index", 0, INT64_C(1) << 53, &i, err);
    *ret = (uint64_t)i;
    return code;
}

static enum qr_code read_task(const struct qr_json *root, struct config *c, struct qr_err *err) {
    static const char *const keys[] = {"type", "index"};
    const struct qr_json *task = qr_json_get(root, "task"), *type;
    size_t which = 0;
    enum qr_code code;
    c->task = NO_TASK;
    if (!task && !c->has_cluster) return QR_OK;
    if (!task)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "TF_CONFIG: task is missing: it says which of the cluster's processes this "
                       "one is (type, index)");
    if ((code = qr_json_want(task, "TF_CONFIG: task", QR_JSON_OBJECT, err)) != QR_OK) return code;
    if ((code = reject_misspelled(task, "task", keys, 2, err)) != QR_OK) return code;
    if (!c->has_cluster && qr_json_size(task) == 0) return QR_OK;
    type = qr_json_get(task, "type");
    if (!type)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "TF_CONFIG: task.type is missing (chief, master, worker, evaluator or ps)");
    if ((code = qr_json_choice(type, "TF_CONFIG: task.type", task_names, TASKS, &which, err)) !=
        QR_OK)
        return code;
    c->task = (enum task)which;
    return tf_config_read_index(task, &c->index, err);
}

static enum qr_code check_task(const struct config *c, struct qr_err *err) {
    const struct qr_json *list = c->lists[c->task];
    const char *name = task_names[c->task];
    size_t n = qr_json_size(list);
    bool sparse = strcmp(c->key, "sparseCluster") == 0 || is_keyed(c->lists[WORKER]);
    /* TensorFlow leaves evaluators out of the cluster. */
    if (c->task == EVALUATOR && !n) return QR_OK;
    if (!n && sparse && c->task != WORKER)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "TF_CONFIG: task.type is '%s', but the sparse %s names no %s, so no peer "
                       "can find this process (a known fault of enableDynamicWorker): leave "
                       "enableDynamicWorker off, or set QRING_INDEX and QRING_PEER_TEMPLATE",
                       name, c->key, name);
    if (!n)
        return qr_fail(err, QR_INVALID_ARGUMENT, "TF_CONFIG: task.type is '%s', but %s names no %s",
                       name, c->key, name);
    /* These lists may have gaps: the address is looked up by key later. */
    if (is_keyed(list) && (c->task == WORKER || c->task == EVALUATOR)) return QR_OK;
    if (c->index >= n)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "TF_CONFIG: task.index is %llu, but %s.%s names %zu address%s, so it must "
                       "be in 0 ... %zu",
                       (unsigned long long)c->index, c->key, name, n, n == 1 ? "" : "es", n - 1);
    return QR_OK;
}

/* ---- ring ---- */

static enum qr_code put_address(const struct config *c, const struct qr_json *v, const char *where,
                                struct qr_identity *ret, size_t at, struct qr_err *err) {
    const char *text;
    QR_TRY(qr_json_string(v, where, &text, err));
    return qr_peers_set_address(ret, at, text, true, c->in->default_port, where, err);
}

static enum qr_code put_array(const struct config *c, enum task t, struct qr_identity *ret,
                              size_t at, struct qr_err *err) {
    size_t i = 0;
    for (const struct qr_json *v = qr_json_first(c->lists[t]); v; v = qr_json_next(v), i++) {
        qr_auto(qr_free_p) char *where =
            qr_xasprintf("TF_CONFIG: %s.%s[%zu]", c->key, task_names[t], i);
        QR_TRY(put_address(c, v, where, ret, at + i, err));
    }
    return QR_OK;
}

static enum qr_code key_index(const struct config *c, enum task t, const struct qr_json *member,
                              uint64_t *ret, struct qr_err *err) {
    const char *key = qr_json_key(member);
    if (!qr_parse_u64(key, ret))
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "TF_CONFIG: %s.%s has the key '%.40s', which is not an index (\"0\", \"1\", \"2\" ...)",
            c->key, task_names[t], key);
    if (*ret >= c->in->max_workers)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "TF_CONFIG: %s.%s has index %.20s, outside 0 ... %u (--max-workers)", c->key,
                       task_names[t], key, c->in->max_workers - 1);
    return QR_OK;
}

static enum qr_code put_keyed(const struct config *c, enum task t, struct qr_identity *ret,
                              size_t at, struct qr_err *err) {
    for (const struct qr_json *v = qr_json_first(c->lists[t]); v; v = qr_json_next(v)) {
        uint64_t i;
        QR_TRY(key_index(c, t, v, &i, err));
        qr_auto(qr_free_p) char *where =
            qr_xasprintf("TF_CONFIG: %s.%s[\"%.20s\"]", c->key, task_names[t], qr_json_key(v));
        if (t == PS && i >= ret->n_servers)
            return qr_fail(
                err, QR_INVALID_ARGUMENT,
                "%s: the list must name all ps, from index 0 on: the other members count them",
                where);
        if (t != WORKER && t != PS && i > 0)
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s: a job has at most one %s, with index 0",
                           where, task_names[t]);
        if (at + i >= ret->n_peers)
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "%s: the ring would have more than %zu members (--max-workers)", where,
                           ret->n_peers);
        if (ret->peers[at + i])
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s: this index is there twice", where);
        QR_TRY(put_address(c, v, where, ret, at + i, err));
    }
    return QR_OK;
}

/* Makes a template from the own name by removing the index: "job-worker-1.ns.svc:2222" →
 * "job-worker-{i}.ns.svc:2222". */
static char *derive_template(const char *own, uint64_t index) {
    qr_auto(qr_free_p) char *tail = qr_xasprintf("-%llu", (unsigned long long)index);
    size_t label = strcspn(own, ".:"), n = strlen(tail);
    if (label <= n || strncmp(own + label - n, tail, n) != 0) return NULL;
    return qr_xasprintf("%.*s-{i}%s", (int)(label - n), own, own + label);
}

static enum qr_code expand_sparse(const struct config *c, size_t at, struct qr_identity *ret,
                                  struct qr_err *err) {
    const char *own = ret->peers[at + c->index];
    qr_auto(qr_free_p) char *text = c->in->peer_template && *c->in->peer_template
                                        ? qr_xstrdup(c->in->peer_template)
                                        : derive_template(own, c->index);
    if (!text)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "TF_CONFIG: the sparse %s names only this worker, and its address '%.200s' "
                       "does not end with '-%llu' before the "
                       "first dot, so the others' names cannot be guessed: set "
                       "QRING_PEER_TEMPLATE, as in name-{i}.service:2222",
                       c->key, own, (unsigned long long)c->index);
    return qr_peers_expand(ret, text, at, c->in->default_port,
                           "the template made from a sparse TF_CONFIG", err);
}

/* True when the keys are exactly 0 ... n-1, so no names are missing (a single worker may be the
 * first of many). */
static bool is_complete(const struct qr_json *list) {
    size_t n = qr_json_size(list);
    for (size_t i = 0; i < n; i++) {
        qr_auto(qr_free_p) char *key = qr_xasprintf("%zu", i);
        if (!qr_json_get(list, key)) return false;
    }
    return n > 1;
}

static enum qr_code sparse_size(const struct config *c, size_t first, size_t *ret,
                                struct qr_err *err) {
    uint64_t replicas = 0;
    *ret = c->in->max_workers;
    if (!c->in->replicas || !*c->in->replicas) return QR_OK;
    if (!qr_parse_u64(c->in->replicas, &replicas) || replicas < 1 || replicas > c->in->max_workers)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--replicas (QRING_REPLICAS): '%.40s' is not a number of workers in 1 ... "
                       "%u (--max-workers)",
                       c->in->replicas, c->in->max_workers);
    if (c->index < replicas && first + replicas <= c->in->max_workers) *ret = first + replicas;
    return QR_OK;
}

/* A sparse list has gaps; an evaluator guesses no names. */
static void remove_gaps(struct qr_identity *id) {
    size_t n = 0;
    for (size_t i = 0; i < id->n_peers; i++)
        if (id->peers[i]) {
            char *address = QR_MOVE(id->peers[i]);
            id->peers[n] = address;
            id->named[n++] = true;
        }
    id->n_peers = n;
}

/* Tasks that precede the workers, by index. */
enum { BEFORE_WORKERS = 3 };
static const enum task before_workers[BEFORE_WORKERS] = {PS, CHIEF, MASTER};

static enum qr_code fill_ring(const struct config *c, struct qr_identity *ret,
                              size_t *ret_first_worker, struct qr_err *err) {
    size_t first = 0, n;
    const struct qr_json *workers = c->lists[WORKER];
    bool guess = is_keyed(workers) && !is_complete(workers);
    for (size_t k = 0; k < BEFORE_WORKERS; k++) first += qr_json_size(c->lists[before_workers[k]]);
    *ret_first_worker = first;
    n = first + qr_json_size(workers);
    ret->n_servers = qr_json_size(c->lists[PS]);
    if (ret->n_servers && n == ret->n_servers && !is_keyed(workers))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "TF_CONFIG: %s names ps, but no worker, chief or master to compute", c->key);
    if (n > c->in->max_workers)
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "TF_CONFIG: %s names %zu ring members; at most %u (--max-workers) can work together",
            c->key, n, c->in->max_workers);
    if (guess) QR_TRY(sparse_size(c, first, &n, err));
    ret->count_known = !guess || n < c->in->max_workers;
    qr_peers_new(ret, n);
    for (size_t k = 0, at = 0; k < BEFORE_WORKERS; k++) {
        enum task t = before_workers[k];
        if (!c->lists[t]) continue;
        QR_TRY(is_keyed(c->lists[t]) ? put_keyed(c, t, ret, at, err)
                                     : put_array(c, t, ret, at, err));
        at += qr_json_size(c->lists[t]);
    }
    if (!is_keyed(workers)) return put_array(c, WORKER, ret, first, err);
    QR_TRY(put_keyed(c, WORKER, ret, first, err));
    if (c->task == EVALUATOR) remove_gaps(ret);
    return QR_OK;
}

static bool is_own_evaluator(const struct config *c, const struct qr_json *v, size_t i) {
    uint64_t key;
    if (c->task != EVALUATOR) return false;
    return is_keyed(c->lists[EVALUATOR]) ? qr_parse_u64(qr_json_key(v), &key) && key == c->index
                                         : i == c->index;
}

/* Checks the evaluators' addresses, duplicates included. The own one among them goes to
 * ret->address. */
static enum qr_code check_others(const struct config *c, struct qr_identity *ret,
                                 struct qr_err *err) {
    enum qr_code code = QR_OK;
    size_t n = qr_json_size(c->lists[EVALUATOR]), i = 0;
    if (n > MAX_OTHERS)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "TF_CONFIG: %s.evaluator names %zu addresses; at most %d", c->key, n,
                       MAX_OTHERS);
    qr_auto(qr_identity_fini) struct qr_identity all = {.index = -1};
    qr_peers_new(&all, ret->n_peers + n);
    memcpy(all.peers, ret->peers, ret->n_peers * sizeof *all.peers);
    for (const struct qr_json *v = qr_json_first(c->lists[EVALUATOR]); v && code == QR_OK;
         v = qr_json_next(v), i++) {
        qr_auto(qr_free_p) char *where = qr_xasprintf("TF_CONFIG: %s.evaluator[%zu]", c->key, i);
        code = put_address(c, v, where, &all, ret->n_peers + i, err);
        if (code == QR_OK && is_own_evaluator(c, v, i) && !ret->address)
            ret->address = qr_xstrdup(all.peers[ret->n_peers + i]);
    }
    memset(all.peers, 0, ret->n_peers * sizeof *all.peers); /* these stay owned by the ring */
    return code;
}

/* An evaluator is not a member, but knows the ring, and its own address where the cluster has
 * it. */
static enum qr_code tf_config_outside(const struct config *c, struct qr_identity *ret,
                                      struct qr_err *err) {
    const char *name = task_names[c->task];
    char *host;
    if (qr_json_size(c->lists[c->task]) && !ret->address)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "TF_CONFIG: task.index is %llu, but %s.%s has no address for it",
                       (unsigned long long)c->index, c->key, name);
    if (ret->address && qr_address_split(ret->address, ret->port, &host, &ret->port)) free(host);
    ret->why = qr_xasprintf("TF_CONFIG says %s %llu, which is not a member of the ring", name,
                            (unsigned long long)c->index);
    return QR_OK;
}

static enum qr_code tf_config_member(const struct config *c, size_t first, struct qr_identity *ret,
                                     struct qr_err *err) {
    size_t at = c->task == WORKER   ? first + c->index
                : c->task == MASTER ? ret->n_servers + qr_json_size(c->lists[CHIEF])
                : c->task == CHIEF  ? ret->n_servers
                                    : c->index;
    if (at >= ret->n_peers || !ret->peers[at])
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "TF_CONFIG: task.index is %llu, but %s.%s has no address for it",
                       (unsigned long long)c->index, c->key, task_names[c->task]);
    bool guess = is_keyed(c->lists[WORKER]) && !is_complete(c->lists[WORKER]);
    if (guess && c->task != WORKER)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "TF_CONFIG: the sparse %s names no workers to a %s, so it cannot find them: "
                       "leave enableDynamicWorker off, or set QRING_INDEX and QRING_PEER_TEMPLATE",
                       c->key, task_names[c->task]);
    if (guess) QR_TRY(expand_sparse(c, first, ret, err));
    qr_identity_set_index(ret, at);
    if (ret->count_known)
        ret->why =
            qr_xasprintf("TF_CONFIG says %s %llu; the ring has %zu member%s", task_names[c->task],
                         (unsigned long long)c->index, ret->n_peers, ret->n_peers == 1 ? "" : "s");
    else
        ret->why = qr_xasprintf(
            "a sparse TF_CONFIG says worker %llu; up to %zu names made from its own are probed",
            (unsigned long long)c->index, ret->n_peers);
    return QR_OK;
}

static enum qr_code tf_config_single(const struct config *c, struct qr_identity *ret,
                                     struct qr_err *err) {
    if (c->task == PS)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "TF_CONFIG: task.type is 'ps', but there is no cluster that names the "
                       "workers");
    if (c->task == EVALUATOR) {
        ret->role = roles[c->task];
        ret->why = qr_xasprintf("TF_CONFIG says %s, and names no cluster", task_names[c->task]);
        return QR_OK;
    }
    if (c->task != NO_TASK && c->index > 0)
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "TF_CONFIG: task.index is %llu, but there is no cluster that names the others",
            (unsigned long long)c->index);
    ret->role = QR_ROLE_SINGLE;
    ret->index = 0;
    ret->count_known = true;
    ret->why = qr_xstrdup("TF_CONFIG names no cluster");
    return QR_OK;
}

enum qr_code qr_identity_from_tf_config(const struct qr_identity_inputs *in,
                                        struct qr_identity *ret, struct qr_err *err) {
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    struct config c = {.in = in};
    size_t first;
    ret->source = QR_FROM_TF_CONFIG;
    QR_TRY(qr_json_parse(qr_bytes_of_string(in->tf_config), "TF_CONFIG", &root, err));
    QR_TRY(qr_json_want(root, "TF_CONFIG", QR_JSON_OBJECT, err));
    QR_TRY(read_cluster(root, &c, err));
    QR_TRY(read_task(root, &c, err));
    if (!c.has_cluster) return tf_config_single(&c, ret, err);
    QR_TRY(check_task(&c, err));
    QR_TRY(fill_ring(&c, ret, &first, err));
    QR_TRY(check_others(&c, ret, err));
    ret->role = roles[c.task];
    return c.task == EVALUATOR ? tf_config_outside(&c, ret, err)
                               : tf_config_member(&c, first, ret, err);
}
