/* link/link_grpc_tls.c — credentials of gRPC and verification of peers. Start reading at
 * verify_peer().
 *
 * gRPC proves that the peer has the key of the certificate that it presents, and takes the own
 * certificate from link_grpc_certificates.c. The verifier in this file, which both kinds of
 * credentials carry, decides at every handshake (also a resumed one) whether the peer's certificate
 * is accepted: gRPC's own check would report neither the reason nor the peer, and compares host
 * names, which pods do not keep. The verifier does not see a peer without a certificate: OpenSSL
 * fails its handshake, which gRPC reports as a log line only.
 */
#include "link/link_grpc_tls.h"

#include <dlfcn.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/log.h>
#include <grpc/support/string_util.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "abseil.h"
#include "base/counter.h"
#include "base/mem.h"
#include "link/link_grpc_parts_impl.h"

enum {
    REFRESH_SECONDS = 1,
    REASONS = QR_TLS_REFUSED_HANDSHAKE - QR_TLS_REFUSED_NO_CERTIFICATE + 1
};
#define LOG_FIRST_NS (10 * QR_SECOND)
#define LOG_MAX_PAUSE_NS (600 * QR_SECOND)

/* Rate limit for the log lines of one reason. */
struct log_limit {
    int64_t until_ns, pause_ns;
    unsigned long suppressed; /* since the last line */
};

struct qr_link_tls {
    atomic_size_t refs; /* one of the owner and one of each verifier, which gRPC may keep longer */
    struct qr_certificate_own own;
    const struct qr_clock *clock, *wall;
    const struct qr_log *log;
    struct link_grpc_certificates *certificates;
    pthread_mutex_t lock; /* guards limits, log, silent, and the verifiers' accepted */
    struct log_limit limits[REASONS];
    bool silent; /* the owner has freed it: log is invalid */
    grpc_channel_credentials *channel;
    grpc_server_credentials *server;
};
/* The inputs of a verification, apart from the verifier itself. The result is the same from now_s
 * until until_s. */
struct evidence {
    char *ca, *leaf, *chain;
    int64_t now_s, until_s;
};
struct verifier {
    grpc_tls_certificate_verifier_external base;
    struct qr_link_tls *tls;
    bool peer_is_server;
    /* The last accepted certificate, under tls->lock. All workers of a ring present the same
     * certificate, and parsing it takes longer than the rest of a handshake. */
    struct evidence accepted;
};

/* Receives the failures that only gRPC's log reports. */
static pthread_mutex_t current_lock = PTHREAD_MUTEX_INITIALIZER;
static struct qr_link_tls *current_tls;

static void tls_unref(struct qr_link_tls *t) {
    if (atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1) return;
    pthread_mutex_destroy(&t->lock);
    link_grpc_certificates_free(t->certificates);
    free(t);
}

/* ---- log lines ---- */

static const char *rejection_hint(enum qr_counter reason) {
    switch (reason) {
    case QR_TLS_REFUSED_NO_CERTIFICATE:
        return "it presented no certificate; if it is a worker of this job, give it --tls-dir";
    case QR_TLS_REFUSED_WRONG_CA:
        return "its certificate is from another CA; give all workers of a job the same Secret, or "
               "put both CAs into ca.crt during a change";
    case QR_TLS_REFUSED_EXPIRED:
        return "its certificate has expired; renew it (qring certs, or cert-manager): changed "
               "files are reloaded";
    case QR_TLS_REFUSED_NOT_YET_VALID: return "its certificate is not valid yet; check both clocks";
    case QR_TLS_REFUSED_FOREIGN_JOB: return "its certificate is of another job";
    case QR_TLS_REFUSED_UNFIT: return "its certificate cannot be used here";
    case QR_TLS_REFUSED_PLAINTEXT:
        return "it does not use TLS; if it is a worker of this job, only one of the two has "
               "--plaintext";
    default: return "the TLS handshake failed";
    }
}

static void tls_reject(struct qr_link_tls *t, enum qr_counter reason, const char *peer_text,
                       const char *why) {
    qr_count(reason, 1);
    struct log_limit *q = &t->limits[reason - QR_TLS_REFUSED_NO_CERTIFICATE];
    pthread_mutex_lock(&t->lock);
    int64_t now_ns = qr_now_ns(t->clock);
    if (t->silent || now_ns < q->until_ns) {
        q->suppressed++;
    } else {
        char more[64] = "";
        if (q->suppressed)
            snprintf(more, sizeof more, " (%lu more since the last line)", q->suppressed);
        q->pause_ns = !q->pause_ns                         ? LOG_FIRST_NS
                      : 2 * q->pause_ns > LOG_MAX_PAUSE_NS ? LOG_MAX_PAUSE_NS
                                                           : 2 * q->pause_ns;
        q->until_ns = now_ns + q->pause_ns;
        q->suppressed = 0;
        qr_warn(t->log, "group", "rejected %s: %s%s%s%s%s", peer_text, rejection_hint(reason),
                *why ? " [" : "", why, *why ? "]" : "", more);
    }
    pthread_mutex_unlock(&t->lock);
}

/* Reads gRPC's log for handshakes that fail inside OpenSSL, which gRPC reports nowhere else. It
 * returns other failures as errors too. */
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
    if (current_tls) tls_reject(current_tls, reason, "a connection", why ? why : "");
    pthread_mutex_unlock(&current_lock);
}

/* Distributions build Abseil, and so every mutex of gRPC, with a detection of deadlocks that costs
 * a tenth of gRPC's time. */
static void disable_deadlock_detection(void) {
#ifdef ABSEIL_DEADLOCK_MODE
    enum { IGNORE };
    void (*set_mode)(int) = NULL;
    *(void **)&set_mode = dlsym(RTLD_DEFAULT, ABSEIL_DEADLOCK_MODE);
    if (set_mode) set_mode(IGNORE);
#endif
}

void link_grpc_init(void) {
    disable_deadlock_detection();
    gpr_set_log_function(on_grpc_log);
    grpc_init();
}

/* Gives gRPC one root certificate. Without it, the first dial of a process would load the machine's
 * 150 roots, which takes 25 ms, although the verifier does not use them. gRPC calls this function
 * when the environment names no file of roots (worker.c). */
static grpc_ssl_roots_override_result provide_root(char **ret_pem) {
    *ret_pem = NULL;
    pthread_mutex_lock(&current_lock);
    if (current_tls) {
        qr_auto(qr_free_p) char *ca = link_grpc_certificates_ca(current_tls->certificates);
        *ret_pem = gpr_strdup(ca); /* gRPC frees it */
    }
    pthread_mutex_unlock(&current_lock);
    return *ret_pem ? GRPC_SSL_ROOTS_OVERRIDE_OK : GRPC_SSL_ROOTS_OVERRIDE_FAIL;
}

/* ---- verification ---- */

static enum qr_counter rejection_counter(enum qr_peer_fault f) {
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
    bool same = a->ca && a->now_s <= e->now_s && e->now_s < a->until_s &&
                strcmp(a->ca, e->ca) == 0 && strcmp(a->leaf, e->leaf) == 0 &&
                strcmp(a->chain, e->chain) == 0;
    pthread_mutex_unlock(&v->tls->lock);
    return same;
}

static void remember_accepted(struct verifier *v, const struct evidence *e) {
    pthread_mutex_lock(&v->tls->lock);
    evidence_free(&v->accepted);
    v->accepted = (struct evidence){qr_xstrdup(e->ca), qr_xstrdup(e->leaf), qr_xstrdup(e->chain),
                                    e->now_s, e->until_s};
    pthread_mutex_unlock(&v->tls->lock);
}

static int verify_peer(void *ctx, grpc_tls_custom_verification_check_request *r,
                       grpc_tls_on_custom_verification_check_done_cb done, void *done_ctx,
                       grpc_status_code *ret_status, char **ret_text) {
    struct verifier *v = ctx;
    struct qr_link_tls *t = v->tls;
    char name[QR_CERTIFICATE_TEXT], peer_text[2 * QR_CERTIFICATE_TEXT];
    const char *why = "", *leaf = r->peer_info.peer_cert,
               *chain = r->peer_info.peer_cert_full_chain;
    (void)done;
    (void)done_ctx;
    qr_auto(qr_free_p) char *ca = link_grpc_certificates_ca(t->certificates);
    struct evidence now = {.ca = ca,
                           .leaf = (char *)(uintptr_t)(leaf ? leaf : ""),
                           .chain = (char *)(uintptr_t)(chain ? chain : ""),
                           .now_s = qr_now_ns(t->wall) / QR_SECOND};
    bool again = was_accepted(v, &now);
    enum qr_peer_fault fault =
        again ? QR_PEER_FINE
              : qr_certificate_peer(ca, now.leaf, chain, &t->own.identity, v->peer_is_server,
                                    now.now_s, name, &why, &now.until_s);
    *ret_status = fault == QR_PEER_FINE ? GRPC_STATUS_OK : GRPC_STATUS_UNAUTHENTICATED;
    if (fault == QR_PEER_FINE) {
        if (!again) remember_accepted(v, &now);
        qr_count(QR_TLS_ACCEPTED, 1);
        return 1;
    }
    const char *peer_name = *name ? name : "an unnamed peer",
               *target = r->target_name ? r->target_name : "?";
    if (v->peer_is_server)
        snprintf(peer_text, sizeof peer_text, "%s, dialed as %s,", peer_name, target);
    else snprintf(peer_text, sizeof peer_text, "a connection from %s", peer_name);
    tls_reject(t, rejection_counter(fault), peer_text, why);
    *ret_text = gpr_strdup("its certificate was rejected");
    return 1;
}

/* Verification is synchronous: there is nothing to cancel. */
static void cancel_verification(void *ctx, grpc_tls_custom_verification_check_request *r) {
    (void)ctx;
    (void)r;
}

static void destroy_verifier(void *ctx) {
    struct verifier *v = ctx;
    evidence_free(&v->accepted);
    tls_unref(v->tls);
    free(v);
}

/* ---- credentials ---- */

static grpc_tls_credentials_options *new_credential_options(struct qr_link_tls *t,
                                                            grpc_tls_certificate_provider *files,
                                                            bool peer_is_server) {
    struct verifier *v = qr_xcalloc(1, sizeof *v);
    *v = (struct verifier){.base = {.user_data = v,
                                    .verify = verify_peer,
                                    .cancel = cancel_verification,
                                    .destruct = destroy_verifier},
                           .tls = t,
                           .peer_is_server = peer_is_server};
    atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    grpc_tls_certificate_verifier *verifier =
        grpc_tls_certificate_verifier_external_create(&v->base);
    grpc_tls_credentials_options *o = grpc_tls_credentials_options_create();
    grpc_tls_credentials_options_set_certificate_provider(o, files);
    grpc_tls_credentials_options_watch_identity_key_cert_pairs(o);
    grpc_tls_credentials_options_set_certificate_verifier(o, verifier);
    /* The verifier checks identities; host names do not matter. */
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
    QR_TRY(link_grpc_certificates_new(opt, &own, &certificates, err));
    struct qr_link_tls *t = qr_xcalloc(1, sizeof *t);
    *t = (struct qr_link_tls){.own = own,
                              .clock = opt->clock,
                              .wall = opt->wall,
                              .log = opt->log,
                              .certificates = certificates};
    atomic_init(&t->refs, 1);
    pthread_mutex_init(&t->lock, NULL);
    grpc_set_ssl_roots_override_callback(provide_root);
    qr_certificate_shorten_handshakes();
    link_grpc_init();
    const char *pair = link_grpc_certificates_path(certificates);
    grpc_tls_certificate_provider *files =
        grpc_tls_certificate_provider_file_watcher_create(pair, pair, NULL, REFRESH_SECONDS);
    t->channel = grpc_tls_credentials_create(new_credential_options(t, files, true));
    t->server = grpc_tls_server_credentials_create(new_credential_options(t, files, false));
    grpc_tls_certificate_provider_release(files);
    pthread_mutex_lock(&current_lock);
    current_tls = t;
    pthread_mutex_unlock(&current_lock);
    *ret = t;
    return QR_OK;
}

void qr_link_tls_free(struct qr_link_tls *t) {
    if (!t) return;
    pthread_mutex_lock(&current_lock);
    if (current_tls == t) current_tls = NULL;
    pthread_mutex_unlock(&current_lock);
    link_grpc_certificates_stop(t->certificates);
    pthread_mutex_lock(&t->lock);
    t->silent = true;
    pthread_mutex_unlock(&t->lock);
    grpc_channel_credentials_release(t->channel);
    grpc_server_credentials_release(t->server);
    grpc_shutdown_blocking();
    tls_unref(t);
}

const struct qr_certificate_own *qr_link_tls_own(const struct qr_link_tls *t) { return &t->own; }

/* ---- for the link ---- */

grpc_channel_credentials *link_grpc_tls_channel(const struct qr_link_tls *t) { return t->channel; }
grpc_server_credentials *link_grpc_tls_server(const struct qr_link_tls *t) { return t->server; }
