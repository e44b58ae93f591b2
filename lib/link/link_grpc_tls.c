/* link/link_grpc_tls.c — see link_grpc_tls.h.
 *
 * gRPC proves that the peer has the key of the certificate that it shows, and takes our own from
 * link_grpc_certificates.c. Whether that certificate is one of ours is decided here alone, at every
 * handshake (also a resumed one), by the verifier that both kinds of credentials carry: gRPC's own
 * check would say neither why nor who, and compares host names, which pods do not keep. A caller
 * without any certificate never gets so far: OpenSSL ends its handshake, and all that is told of it
 * is a log line.
 */
#include "link/link_grpc_tls.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/log.h>
#include <grpc/support/string_util.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/counter.h"
#include "base/mem.h"
#include "link/link_grpc_parts_impl.h"

enum {
    REFRESH_SECONDS = 1,
    REASONS = QR_TLS_REFUSED_HANDSHAKE - QR_TLS_REFUSED_NO_CERTIFICATE + 1
};
#define LOG_FIRST_NS (10 * QR_SECOND)
#define LOG_LEAST_OFTEN_NS (600 * QR_SECOND)

/* Of the lines of one reason. */
struct quiet {
    int64_t until_ns, pause_ns;
    unsigned long unsaid;
};

struct qr_link_tls {
    atomic_size_t refs; /* the owner's and one for each verifier, which gRPC may keep for longer */
    struct qr_certificate_own own;
    const struct qr_clock *clock, *wall;
    const struct qr_log *log;
    struct link_grpc_certificates *certificates;
    pthread_mutex_t lock; /* quiet, log, and what verifiers have accepted */
    struct quiet quiet[REASONS];
    bool silent; /* its owner is gone, and the log with it */
    grpc_channel_credentials *channel;
    grpc_server_credentials *server;
};
/* What the verdict on a certificate follows from, beside the verifier itself. */
struct evidence {
    char *ca, *leaf, *chain;
    int64_t now_s;
};
struct verifier {
    grpc_tls_certificate_verifier_external base;
    struct qr_link_tls *tls;
    bool peer_is_server;
    /* The last certificate that was accepted, under tls->lock. A ring's workers show the same
     * certificate, and to parse it takes longer than the rest of a handshake. */
    struct evidence accepted;
};

/* Whose log gets what only gRPC's log tells. */
static pthread_mutex_t current_lock = PTHREAD_MUTEX_INITIALIZER;
static struct qr_link_tls *current;

static void unref(struct qr_link_tls *t) {
    if (atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1) return;
    pthread_mutex_destroy(&t->lock);
    link_grpc_certificates_free(t->certificates);
    free(t);
}

/* ---- what is said ---- */

static const char *advice(enum qr_counter reason) {
    switch (reason) {
    case QR_TLS_REFUSED_NO_CERTIFICATE:
        return "it showed no certificate: if it is a worker of this job, give it --tls-dir; else "
               "it has "
               "no business here";
    case QR_TLS_REFUSED_WRONG_CA:
        return "its certificate is from another CA: give all workers of a job one Secret, or "
               "ca.crt both CAs "
               "while they change";
    case QR_TLS_REFUSED_EXPIRED:
        return "its certificate has expired: renew it (qring certs, or cert-manager); the files "
               "are read again "
               "when they change";
    case QR_TLS_REFUSED_NOT_YET_VALID:
        return "its certificate is not valid yet: are both clocks right?";
    case QR_TLS_REFUSED_FOREIGN_JOB: return "its certificate is of another job";
    case QR_TLS_REFUSED_UNFIT: return "its certificate cannot serve here";
    case QR_TLS_REFUSED_PLAINTEXT:
        return "it does not speak TLS: if it is a worker of this job, one of the two has "
               "--plaintext and the "
               "other has not";
    default: return "no TLS handshake with it came to an end";
    }
}

static void refuse(struct qr_link_tls *t, enum qr_counter reason, const char *who,
                   const char *why) {
    qr_count(reason, 1);
    struct quiet *q = &t->quiet[reason - QR_TLS_REFUSED_NO_CERTIFICATE];
    pthread_mutex_lock(&t->lock);
    int64_t now_ns = qr_now_ns(t->clock);
    if (t->silent || now_ns < q->until_ns) {
        q->unsaid++;
    } else {
        char more[64] = "";
        if (q->unsaid)
            snprintf(more, sizeof more, " (%lu more since the last such line)", q->unsaid);
        q->pause_ns = !q->pause_ns                           ? LOG_FIRST_NS
                      : 2 * q->pause_ns > LOG_LEAST_OFTEN_NS ? LOG_LEAST_OFTEN_NS
                                                             : 2 * q->pause_ns;
        q->until_ns = now_ns + q->pause_ns;
        q->unsaid = 0;
        qr_warn(t->log, "group", "refused %s: %s%s%s%s%s", who, advice(reason), *why ? " [" : "",
                why, *why ? "]" : "", more);
    }
    pthread_mutex_unlock(&t->lock);
}

/* What gRPC says of a handshake that failed inside OpenSSL; anything else that it says is our
 * mistake in its words, and comes to us as an error too. */
static void on_grpc_log(gpr_log_func_args *args) {
    static const struct {
        const char *words;
        enum qr_counter reason;
    } known[] = {
        {"peer did not return a certificate", QR_TLS_REFUSED_NO_CERTIFICATE},
        {"wrong version number", QR_TLS_REFUSED_PLAINTEXT},
        {"http request", QR_TLS_REFUSED_PLAINTEXT},
    };
    if (strstr(args->message, "Failed accept4")) link_grpc_accept_failed(true);
    const char *failed = strstr(args->message, "Handshake failed"),
               *why = failed ? strstr(failed, "routines:") : NULL;
    enum qr_counter reason = QR_TLS_REFUSED_HANDSHAKE;
    if (!failed) return;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(failed, known[i].words)) reason = known[i].reason;
    /* "error:0A0000C7:SSL routines::the reason." */
    for (const char *c = why; c; c = strchr(c, ':')) why = ++c;
    pthread_mutex_lock(&current_lock);
    if (current) refuse(current, reason, "a connection", why ? why : "");
    pthread_mutex_unlock(&current_lock);
}

void link_grpc_log_hook(void) { gpr_set_log_function(on_grpc_log); }

/* A process's first dial would else read the machine's 150 roots, which takes 25 ms, and which
 * decide nothing: the verifier does. gRPC wants one. It asks here when its environment names no
 * file of roots (worker.c). */
static grpc_ssl_roots_override_result own_root(char **ret_pem) {
    *ret_pem = NULL;
    pthread_mutex_lock(&current_lock);
    if (current) {
        qr_auto(qr_free_p) char *ca = link_grpc_certificates_ca(current->certificates);
        *ret_pem = gpr_strdup(ca); /* gRPC frees it */
    }
    pthread_mutex_unlock(&current_lock);
    return *ret_pem ? GRPC_SSL_ROOTS_OVERRIDE_OK : GRPC_SSL_ROOTS_OVERRIDE_FAIL;
}

/* ---- who may connect ---- */

static enum qr_counter reason_of(enum qr_peer_fault f) {
    switch (f) {
    case QR_PEER_WRONG_CA: return QR_TLS_REFUSED_WRONG_CA;
    case QR_PEER_EXPIRED: return QR_TLS_REFUSED_EXPIRED;
    case QR_PEER_NOT_YET_VALID: return QR_TLS_REFUSED_NOT_YET_VALID;
    case QR_PEER_FOREIGN_JOB: return QR_TLS_REFUSED_FOREIGN_JOB;
    default: return QR_TLS_REFUSED_UNFIT;
    }
}

static void evidence_free(struct evidence *e) {
    free(e->ca);
    free(e->leaf);
    free(e->chain);
    *e = (struct evidence){0};
}

static bool was_accepted(struct verifier *v, const struct evidence *e) {
    const struct evidence *a = &v->accepted;
    pthread_mutex_lock(&v->tls->lock);
    bool same = a->ca && a->now_s == e->now_s && strcmp(a->ca, e->ca) == 0 &&
                strcmp(a->leaf, e->leaf) == 0 && strcmp(a->chain, e->chain) == 0;
    pthread_mutex_unlock(&v->tls->lock);
    return same;
}

static void accepted(struct verifier *v, const struct evidence *e) {
    pthread_mutex_lock(&v->tls->lock);
    evidence_free(&v->accepted);
    v->accepted =
        (struct evidence){qr_xstrdup(e->ca), qr_xstrdup(e->leaf), qr_xstrdup(e->chain), e->now_s};
    pthread_mutex_unlock(&v->tls->lock);
}

static int verify(void *ctx, grpc_tls_custom_verification_check_request *r,
                  grpc_tls_on_custom_verification_check_done_cb done, void *done_ctx,
                  grpc_status_code *ret_status, char **ret_text) {
    struct verifier *v = ctx;
    struct qr_link_tls *t = v->tls;
    char name[QR_CERTIFICATE_TEXT], who[2 * QR_CERTIFICATE_TEXT];
    const char *why = "", *leaf = r->peer_info.peer_cert,
               *chain = r->peer_info.peer_cert_full_chain;
    (void)done;
    (void)done_ctx;
    qr_auto(qr_free_p) char *ca = link_grpc_certificates_ca(t->certificates);
    const struct evidence now = {ca, (char *)(uintptr_t)(leaf ? leaf : ""),
                                 (char *)(uintptr_t)(chain ? chain : ""),
                                 qr_now_ns(t->wall) / QR_SECOND};
    bool again = was_accepted(v, &now);
    enum qr_peer_fault fault = again
                                   ? QR_PEER_FINE
                                   : qr_certificate_peer(ca, now.leaf, chain, &t->own.identity,
                                                         v->peer_is_server, now.now_s, name, &why);
    *ret_status = fault == QR_PEER_FINE ? GRPC_STATUS_OK : GRPC_STATUS_UNAUTHENTICATED;
    if (fault == QR_PEER_FINE) {
        if (!again) accepted(v, &now);
        qr_count(QR_TLS_ACCEPTED, 1);
        return 1;
    }
    const char *whose = *name ? name : "a nameless peer",
               *target = r->target_name ? r->target_name : "?";
    if (v->peer_is_server) snprintf(who, sizeof who, "%s, dialled as %s,", whose, target);
    else snprintf(who, sizeof who, "a connection from %s", whose);
    refuse(t, reason_of(fault), who, why);
    *ret_text = gpr_strdup("its certificate was refused");
    return 1;
}

/* a verification never waits */
static void cancel(void *ctx, grpc_tls_custom_verification_check_request *r) {
    (void)ctx;
    (void)r;
}

static void destruct(void *ctx) {
    struct verifier *v = ctx;
    evidence_free(&v->accepted);
    unref(v->tls);
    free(v);
}

/* ---- credentials ---- */

static grpc_tls_credentials_options *options_of(struct qr_link_tls *t,
                                                grpc_tls_certificate_provider *files,
                                                bool peer_is_server) {
    struct verifier *v = qr_xcalloc(1, sizeof *v);
    *v = (struct verifier){
        .base = {.user_data = v, .verify = verify, .cancel = cancel, .destruct = destruct},
        .tls = t,
        .peer_is_server = peer_is_server};
    atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    grpc_tls_certificate_verifier *verifier =
        grpc_tls_certificate_verifier_external_create(&v->base);
    grpc_tls_credentials_options *o = grpc_tls_credentials_options_create();
    grpc_tls_credentials_options_set_certificate_provider(o, files);
    grpc_tls_credentials_options_watch_identity_key_cert_pairs(o);
    grpc_tls_credentials_options_set_certificate_verifier(o, verifier);
    /* see above: names are the verifier's */
    grpc_tls_credentials_options_set_check_call_host(o, 0);
    if (peer_is_server) grpc_tls_credentials_options_set_verify_server_cert(o, 0);
    else
        grpc_tls_credentials_options_set_cert_request_type(
            o, GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
    grpc_tls_certificate_verifier_release(verifier);
    return o;
}

enum qr_code qr_link_tls_new(const struct qr_link_tls_options *opt, struct qr_link_tls **ret,
                             struct qr_err *err) {
    struct link_grpc_certificates *certificates;
    struct qr_certificate_own own;
    enum qr_code code = link_grpc_certificates_new(opt, &own, &certificates, err);
    if (code != QR_OK) return code;
    struct qr_link_tls *t = qr_xcalloc(1, sizeof *t);
    *t = (struct qr_link_tls){.own = own,
                              .clock = opt->clock,
                              .wall = opt->wall,
                              .log = opt->log,
                              .certificates = certificates};
    atomic_init(&t->refs, 1);
    pthread_mutex_init(&t->lock, NULL);
    link_grpc_log_hook();
    grpc_set_ssl_roots_override_callback(own_root);
    grpc_init();
    const char *pair = link_grpc_certificates_path(certificates);
    grpc_tls_certificate_provider *files =
        grpc_tls_certificate_provider_file_watcher_create(pair, pair, NULL, REFRESH_SECONDS);
    t->channel = grpc_tls_credentials_create(options_of(t, files, true));
    t->server = grpc_tls_server_credentials_create(options_of(t, files, false));
    grpc_tls_certificate_provider_release(files);
    pthread_mutex_lock(&current_lock);
    current = t;
    pthread_mutex_unlock(&current_lock);
    *ret = t;
    return QR_OK;
}

void qr_link_tls_free(struct qr_link_tls *t) {
    if (!t) return;
    pthread_mutex_lock(&current_lock);
    if (current == t) current = NULL;
    pthread_mutex_unlock(&current_lock);
    link_grpc_certificates_stop(t->certificates);
    pthread_mutex_lock(&t->lock);
    t->silent = true;
    pthread_mutex_unlock(&t->lock);
    grpc_channel_credentials_release(t->channel);
    grpc_server_credentials_release(t->server);
    grpc_shutdown_blocking();
    unref(t);
}

const struct qr_certificate_own *qr_link_tls_own(const struct qr_link_tls *t) { return &t->own; }

/* ---- for the link ---- */

grpc_channel_credentials *link_grpc_tls_channel(const struct qr_link_tls *t) { return t->channel; }
grpc_server_credentials *link_grpc_tls_server(const struct qr_link_tls *t) { return t->server; }
