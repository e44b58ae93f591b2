/* record/envelope.h — signatures of a run: DSSE envelopes with Ed25519, by OpenSSL.
 *
 * Envelope  https://github.com/secure-systems-lab/dsse, payload type
 *           application/vnd.in-toto+json, one signature. Its keyid is the SHA-256 of the public key
 *           (SubjectPublicKeyInfo, DER), hex.
 * Keys      PEM files: openssl genpkey -algorithm ed25519 -out signing.key;
 *           openssl pkey -in signing.key -pubout -out signing.pub
 * Threads   Any; a key belongs to one thread at a time.
 */
#ifndef QR_RECORD_ENVELOPE_H
#define QR_RECORD_ENVELOPE_H

#include <stdbool.h>

#include "base/bytes.h"

enum { QR_SIGNATURE_BYTES = 64 };

struct qr_signing_key;
/* Reads a private key. INVALID_ARGUMENT: not an Ed25519 key, or encrypted; those of
 * qr_file_read. */
QR_MUST_CHECK enum qr_code qr_signing_key_read(const char *path, struct qr_signing_key **ret,
                                               struct qr_err *err);
void qr_signing_key_free(struct qr_signing_key *k); /* NULL is fine */
/* Signs a statement; appends the envelope. INTERNAL: OpenSSL cannot sign. */
QR_MUST_CHECK enum qr_code qr_envelope_sign(struct qr_signing_key *k, struct qr_bytes statement,
                                            struct qr_buf *ret, struct qr_err *err);

struct qr_envelope {
    struct qr_buf statement;
    char key_id[65]; /* as the envelope says; "": it does not */
    uint8_t signature[QR_SIGNATURE_BYTES];
};
/* Reads an envelope of another process. DATA_LOSS: malformed. ret: freed with qr_envelope_fini. */
QR_MUST_CHECK enum qr_code qr_envelope_read(struct qr_bytes text, const char *what,
                                            struct qr_envelope *ret, struct qr_err *err);
void qr_envelope_fini(struct qr_envelope *e);
/* Checks the signature.
 *
 * Args:     path        file with the public key
 *           ret_good    the key has signed the statement
 *           ret_key_id  of the key in the file
 * Errors:   INVALID_ARGUMENT: not an Ed25519 public key; those of qr_file_read
 */
QR_MUST_CHECK enum qr_code qr_envelope_check(const struct qr_envelope *e, const char *path,
                                             bool *ret_good, char ret_key_id[65],
                                             struct qr_err *err);

#endif
