/* cluster/peers.c — the addresses of an identity: a list of its own, or by a template. Start
 * reading at qr_peers_expand(). */
#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "cluster/identity_impl.h"

void qr_peers_new(struct qr_identity *id, size_t n) {
    id->n_peers = n;
    id->peers = qr_xcalloc(n + 1, sizeof *id->peers);
    id->named = qr_xcalloc(n + 1, sizeof *id->named);
}

/* Splits a canonical address without allocation. Returns the host's length, without the final dot
 * of DNS. */
static size_t peer_host(const char *address, const char **ret_port) {
    size_t n = (size_t)(strrchr(address, ':') - address);
    *ret_port = address + n;
    return n && address[n - 1] == '.' ? n - 1 : n;
}

static bool parse_v6(const char *brackets, size_t n, struct in6_addr *ret) {
    char text[INET6_ADDRSTRLEN];
    if (n < 2 || n - 2 >= sizeof text) return false;
    memcpy(text, brackets + 1, n - 2);
    text[n - 2] = 0;
    return inet_pton(AF_INET6, text, ret) == 1;
}

/* True when two canonical addresses mean the same one, as far as that is known without DNS. */
static bool is_same_peer(const char *a, const char *b) {
    const char *a_port, *b_port;
    struct in6_addr a6, b6;
    size_t na = peer_host(a, &a_port), nb = peer_host(b, &b_port);
    if (strcmp(a_port, b_port) != 0) return false;
    if (na == nb && strncasecmp(a, b, na) == 0) return true;
    return *a == '[' && *b == '[' && parse_v6(a, na, &a6) && parse_v6(b, nb, &b6) &&
           memcmp(&a6, &b6, sizeof a6) == 0;
}

enum qr_code qr_peers_set_address(struct qr_identity *id, size_t i, const char *address, bool named,
                                  unsigned default_port, const char *where, struct qr_err *err) {
    const char *fault = qr_address_fault(address);
    char *host;
    unsigned port;
    if (fault || !qr_address_split(address, default_port, &host, &port))
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: '%.200s' is not an address: %s", where,
                       address, fault ? fault : "it is malformed");
    qr_auto(qr_free_p) char *canonical = qr_address_join(host, port);
    free(host);
    for (size_t k = 0; k < id->n_peers; k++)
        if (id->peers[k] && k != i && is_same_peer(id->peers[k], canonical))
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "%s: the address '%.200s' is there twice; each process needs its own",
                           where, canonical);
    free(id->peers[i]);
    id->peers[i] = QR_MOVE(canonical);
    id->named[i] = named;
    return QR_OK;
}

/* Replaces {i} in the template. */
static char *substitute_index(const char *text, size_t i) {
    const char *at = strstr(text, "{i}");
    return qr_xasprintf("%.*s%zu%s", (int)(at - text), text, i, at + 3);
}

static enum qr_code check_template(const char *text, const char *where, struct qr_err *err) {
    const char *at = strstr(text, "{i}"), *colon = strrchr(text, ':');
    if (!at)
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "%s: '%.200s' has no {i}, where a worker's index goes, as in name-{i}.service:2222",
            where, text);
    if (strstr(at + 3, "{i}"))
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: '%.200s' has {i} more than once", where,
                       text);
    if (colon && colon < at && !strchr(at, ']'))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: '%.200s' has {i} in its port; the index goes into the host", where,
                       text);
    return QR_OK;
}

enum qr_code qr_peers_expand(struct qr_identity *id, const char *template_text, size_t offset,
                             unsigned default_port, const char *where, struct qr_err *err) {
    enum qr_code code = check_template(template_text, where, err);
    for (size_t i = offset; code == QR_OK && i < id->n_peers; i++) {
        if (id->peers[i]) continue;
        qr_auto(qr_free_p) char *address = substitute_index(template_text, i - offset);
        code = qr_peers_set_address(id, i, address, false, default_port, where, err);
    }
    return code;
}

void qr_identity_set_index(struct qr_identity *id, size_t index) {
    char *host = NULL;
    id->index = (int)index;
    id->named[index] = true;
    id->address = qr_xstrdup(id->peers[index]);
    if (qr_address_split(id->address, id->port, &host, &id->port)) free(host);
}

void qr_identity_fini(struct qr_identity *id) {
    for (size_t i = 0; i < id->n_peers; i++) free(id->peers[i]);
    free(id->peers);
    free(id->named);
    free(id->address);
    free(id->why);
    *id = (struct qr_identity){.index = -1};
}
