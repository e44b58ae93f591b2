/* cluster/identity_impl.h — shared by identity.c, tf_config.c and peers.c. */
#ifndef QR_CLUSTER_IDENTITY_IMPL_H
#define QR_CLUSTER_IDENTITY_IMPL_H

#include "cluster/identity.h"

/* Reads the identity from a set, non-empty TF_CONFIG. */
enum qr_code qr_identity_from_tf_config(const struct qr_identity_inputs *in,
                                        struct qr_identity *ret, struct qr_err *err);

/* Allocates peers[0..n), all NULL. */
void qr_peers_new(struct qr_identity *id, size_t n);
/* Checks an address and stores its canonical form (host:port) at peers[i]. Rejects duplicates.
 * where names the address in messages. */
enum qr_code qr_peers_set_address(struct qr_identity *id, size_t i, const char *address, bool named,
                                  unsigned default_port, const char *where, struct qr_err *err);
/* Fills every peers[i] that is still NULL, from a template with {i} = i - offset. Checks the
 * template. */
enum qr_code qr_peers_expand(struct qr_identity *id, const char *template_text, size_t offset,
                             unsigned default_port, const char *where, struct qr_err *err);
/* Sets index, address and port from peers[index]. */
void qr_identity_set_index(struct qr_identity *id, size_t index);

#endif
