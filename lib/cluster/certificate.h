/* cluster/certificate.h — whose a certificate is: what we show, what a peer shows, and both made
 * new. The X.509 is certificate/x509.h's.
 *
 * Identity  what of a certificate says whose it is: its URI "qring://NAMESPACE/JOB"; else its first
 *           URI; else its DNS names, sorted. Nothing else does, the common name neither. All
 *           workers of a job show certificates of one identity, whatever names and addresses they
 *           are dialled by; a URI is never equal to DNS names. A certificate with a URI or DNS name
 *           that is none is not taken, whatever else it holds.
 * Time      seconds since 1970, given by the caller.
 * Secrets   keys are never part of an error; buffers that held one are wiped
 *           by qr_certificate_wipe.
 * Threads   any.
 */
#ifndef QR_CLUSTER_CERTIFICATE_H
#define QR_CLUSTER_CERTIFICATE_H

#include <stdbool.h>

#include "base/bytes.h"

enum { QR_CERTIFICATE_SOON_S = 600 };
enum { QR_CERTIFICATE_TEXT = 1024, QR_CERTIFICATE_DATE = 32, QR_CERTIFICATE_FILE_MAX = 1 << 20 };

/* ---- ours ---- */

/* paths of PEM files; certificate: the leaf, then intermediates */
struct qr_certificate_files {
    const char *certificate, *key, *ca;
};
enum qr_identity_kind { QR_IDENTITY_NONE, QR_IDENTITY_URI, QR_IDENTITY_DNS };
/* DNS: names with ',' between them */
struct qr_certificate_identity {
    enum qr_identity_kind kind;
    char text[QR_CERTIFICATE_TEXT];
};
struct qr_certificate_own {
    struct qr_certificate_identity identity;
    int64_t not_after_s;
};
/* Reads all three and proves that they can serve: readable, the key not encrypted and the
 * certificate's own, the certificate valid at unix_s, issued by the CA, for servers and clients.
 * The code is qr_exit_code 2's, the sentence names the file; but UNAVAILABLE where all that is
 * wrong is that it begins within the next QR_CERTIFICATE_SOON_S: the clocks of who made it and of
 * this machine differ a little. */
QR_MUST_CHECK enum qr_code qr_certificate_check(const struct qr_certificate_files *files,
                                                int64_t unix_s, struct qr_certificate_own *ret,
                                                struct qr_err *err);
/* "2026-11-24 18:00 UTC" */
void qr_certificate_date(int64_t unix_s, char ret[QR_CERTIFICATE_DATE]);

/* ---- ours, while the files change ---- */

/* The last good content of the three files. The certificate and its key are replaced as a pair: by
 * a pair that passes qr_certificate_check and has the identity of the first. The CA is replaced by
 * any readable one. What cannot serve (empty, cut, of another key, expired, missing) changes
 * nothing. One thread at a time. */
struct qr_certificate_reload;
/* As qr_certificate_check. */
QR_MUST_CHECK enum qr_code qr_certificate_reload_new(const struct qr_certificate_files *files,
                                                     int64_t unix_s,
                                                     struct qr_certificate_reload **ret,
                                                     struct qr_err *err);
void qr_certificate_reload_free(struct qr_certificate_reload *r); /* NULL is fine */
enum {
    QR_CERTIFICATE_NEW_PAIR = 1,
    QR_CERTIFICATE_NEW_CA = 2,
    QR_CERTIFICATE_PROBLEM = 4,  /* err says which: once, at its second look in a row */
    QR_CERTIFICATE_RECOVERED = 8 /* the problem that was told is over */
};
/* Reads the files again; waits for nothing. A set of the above. */
unsigned qr_certificate_reload_poll(struct qr_certificate_reload *r, int64_t unix_s,
                                    struct qr_err *err);
/* What is in use; borrowed until the next look. pair: PEM, the key, then the certificate and its
 * intermediates, and nothing else. */
const struct qr_certificate_own *qr_certificate_reload_own(const struct qr_certificate_reload *r);
const char *qr_certificate_reload_ca(const struct qr_certificate_reload *r);
struct qr_bytes qr_certificate_reload_pair(const struct qr_certificate_reload *r);

/* ---- a peer's ---- */

enum qr_peer_fault {
    QR_PEER_FINE,
    QR_PEER_WRONG_CA,
    QR_PEER_EXPIRED,
    QR_PEER_NOT_YET_VALID,
    QR_PEER_FOREIGN_JOB,
    QR_PEER_UNFIT
};
/* Is this the certificate of a worker of the job `identity`? ca: one or more PEM certificates, each
 * trusted for itself. leaf and chain (may be NULL): as the peer sent them, PEM. server: the peer
 * answers (else it called). ret_who: whose it is, for a log line: printable, "" when it cannot be
 * read. ret_why: what is wrong with it in OpenSSL's words or ours, or ""; static. */
enum qr_peer_fault qr_certificate_peer(const char *ca, const char *leaf, const char *chain,
                                       const struct qr_certificate_identity *identity, bool server,
                                       int64_t unix_s, char ret_who[QR_CERTIFICATE_TEXT],
                                       const char **ret_why);

/* ---- new ones ---- */

struct qr_certificate_request {
    const char *name_space, *job; /* of the URI: letters, digits, '-', '_', '.' */
    /* the headless Service: DNS names *.service.namespace.svc and shorter; NULL: none. As job, a
     * DNS name */
    const char *service;
    int64_t not_before_s, not_after_s;
    int64_t ca_not_after_s;  /* of a new CA; 0: as its certificate */
    const char *ca, *ca_key; /* PEM of a CA to go on with; both NULL: a new one */
};
struct qr_certificate_set {
    struct qr_buf certificate, key, ca, ca_key; /* PEM */
};
/* A CA of the job's own, and the one certificate that all its workers show. ret->ca_key is the new
 * CA's or a copy of the order's. */
QR_MUST_CHECK enum qr_code qr_certificate_make(const struct qr_certificate_request *order,
                                               struct qr_certificate_set *ret, struct qr_err *err);
void qr_certificate_wipe(struct qr_certificate_set *set);

#endif
