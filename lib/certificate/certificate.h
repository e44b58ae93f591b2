/* certificate/certificate.h — X.509 certificates of a job's workers, by OpenSSL (RFC 5280): checks
 * of the own certificate and of a peer's, and new ones.
 *
 * Identity  of a certificate: its URI "qring://NAMESPACE/JOB"; else its first URI; else its DNS
 *           names, sorted. Nothing else counts, nor does the common name. All workers of a job show
 *           certificates of one identity, whatever names and addresses are dialed; a URI is never
 *           equal to DNS names. A certificate with a malformed URI or DNS name is rejected,
 *           whatever else it contains.
 * Names     A URI has a scheme and printable characters without blanks. A DNS name has labels of
 *           letters, digits, '-' and '_'; the first label may be '*'. Other kinds are ignored.
 * Time      seconds since 1970, passed by the caller.
 * Secrets   Keys are never part of an error; buffers with a key are wiped by qr_certificate_wipe.
 * Threads   any.
 */
#ifndef QR_CERTIFICATE_CERTIFICATE_H
#define QR_CERTIFICATE_CERTIFICATE_H

#include <stdbool.h>

#include "base/bytes.h"

enum { QR_CERTIFICATE_SOON_S = 600 };
enum { QR_CERTIFICATE_TEXT = 1024, QR_CERTIFICATE_DATE = 32, QR_CERTIFICATE_FILE_MAX = 1 << 20 };

/* ---- the own certificate ---- */

/* Paths of PEM files; certificate: the leaf, then intermediates. */
struct qr_certificate_files {
    const char *certificate, *key, *ca;
};
enum qr_identity_kind { QR_IDENTITY_NONE, QR_IDENTITY_URI, QR_IDENTITY_DNS };
/* text: the URI, or DNS names separated by ','. */
struct qr_certificate_identity {
    enum qr_identity_kind kind;
    char text[QR_CERTIFICATE_TEXT];
};
struct qr_certificate_own {
    struct qr_certificate_identity identity;
    int64_t not_after_s;
};
/* Reads all three files and checks that they are usable: readable, the key unencrypted and the
 * certificate's own, the certificate valid at unix_s, issued by the CA, for servers and clients.
 *
 * Errors:   codes with exit code 2, the message names the file; but UNAVAILABLE when the only
 *           problem is that the certificate begins within the next QR_CERTIFICATE_SOON_S: the
 *           clocks of its issuer and this machine differ a little
 */
QR_MUST_CHECK enum qr_code qr_certificate_check(const struct qr_certificate_files *files,
                                                int64_t unix_s, struct qr_certificate_own *ret,
                                                struct qr_err *err);
/* Formats "2026-11-24 18:00 UTC". */
void qr_certificate_date(int64_t unix_s, char ret[QR_CERTIFICATE_DATE]);

/* ---- the own certificate, while the files change ---- */

/* The last good content of the three files. Certificate and key are replaced as a pair, by a pair
 * that passes qr_certificate_check and has the identity of the first. The CA is replaced by any
 * readable one. Unusable files (empty, truncated, of another key, expired, missing) change nothing.
 * One thread at a time. */
struct qr_certificate_reload;
/* Reads the files. Free with qr_certificate_reload_free. Errors as qr_certificate_check. */
QR_MUST_CHECK enum qr_code qr_certificate_reload_new(const struct qr_certificate_files *files,
                                                     int64_t unix_s,
                                                     struct qr_certificate_reload **ret,
                                                     struct qr_err *err);
void qr_certificate_reload_free(struct qr_certificate_reload *r); /* NULL is fine */
enum {
    QR_CERTIFICATE_NEW_PAIR = 1,
    QR_CERTIFICATE_NEW_CA = 2,
    /* Described by err; reported once, when two polls in a row find it. */
    QR_CERTIFICATE_PROBLEM = 4,
    QR_CERTIFICATE_RECOVERED = 8 /* the reported problem is over */
};
/* Reads the files again; never waits. Returns a set of the flags above. */
unsigned qr_certificate_reload_poll(struct qr_certificate_reload *r, int64_t unix_s,
                                    struct qr_err *err);
/* Returns what is in use; borrowed until the next poll. pair: PEM, the key, then the certificate
 * and its intermediates, nothing else. */
const struct qr_certificate_own *qr_certificate_reload_own(const struct qr_certificate_reload *r);
const char *qr_certificate_reload_ca(const struct qr_certificate_reload *r);
struct qr_bytes qr_certificate_reload_pair(const struct qr_certificate_reload *r);

/* ---- a peer's certificate ---- */

enum qr_peer_fault {
    QR_PEER_FINE,
    QR_PEER_WRONG_CA,
    QR_PEER_EXPIRED,
    QR_PEER_NOT_YET_VALID,
    QR_PEER_FOREIGN_JOB,
    QR_PEER_UNFIT
};
/* Checks that a certificate belongs to a worker of the job `identity`.
 *
 * Args:     ca           PEM certificates, each trusted by itself
 *           leaf, chain  PEM, as the peer sent them; chain may be NULL
 *           server       the peer accepted the connection, else dialed it
 *           ret_subject  its identity for a log line: printable, "" when unreadable
 *           ret_reason   the fault, or ""; static
 *           ret_until_s  the same arguments have the same result from unix_s until then; with a
 *                        fault: unix_s
 * Returns:  QR_PEER_FINE, or the first fault
 */
enum qr_peer_fault qr_certificate_peer(const char *ca, const char *leaf, const char *chain,
                                       const struct qr_certificate_identity *identity, bool server,
                                       int64_t unix_s, char ret_subject[QR_CERTIFICATE_TEXT],
                                       const char **ret_reason, int64_t *ret_until_s);

/* Makes OpenSSL leave two things out of the handshakes of all contexts that this process creates
 * later, for which gRPC has no options and which cost a sixth of a handshake: session tickets of
 * TLS 1.3, since workers never resume a session, and issuers that are not in the certificate file,
 * since peers have the CA. */
void qr_certificate_shorten_handshakes(void);

/* ---- new certificates ---- */

struct qr_certificate_request {
    const char *name_space, *job; /* of the URI: letters, digits, '-', '_', '.' */
    /* Headless Service: for DNS names *.service.namespace.svc and shorter; NULL: none. Like job, a
     * DNS name. */
    const char *service;
    int64_t not_before_s, not_after_s;
    int64_t ca_not_after_s;  /* of a new CA; 0: as the certificate */
    const char *ca, *ca_key; /* PEM of an existing CA; both NULL: make one */
};
struct qr_certificate_set {
    struct qr_buf certificate, key, ca, ca_key; /* PEM */
};
/* Makes a CA for the job, unless one is given, and one certificate that all its workers share;
 * ECDSA P-256, each with its own key.
 *
 * Args:     order  borrowed
 *           ret    wipe with qr_certificate_wipe; ca_key is the new CA's, or a copy of the order's
 * Errors:   INVALID_ARGUMENT (a name; the CA cannot be read, does not match its key, or ends
 *           earlier), INTERNAL (OpenSSL)
 */
QR_MUST_CHECK enum qr_code qr_certificate_make(const struct qr_certificate_request *order,
                                               struct qr_certificate_set *ret, struct qr_err *err);
/* Overwrites and frees a set. */
void qr_certificate_wipe(struct qr_certificate_set *set);

#endif
