/* tests/fuzz/identity_of.h — an identity from these inputs: an error, or an identity whose
 * invariants are checked. */
#ifndef IDENTITY_OF_H
#define IDENTITY_OF_H

#include <string.h>

#include "base/mem.h"
#include "cluster/identity.h"

static inline void identity_of(const struct qr_identity_inputs *in) {
    struct qr_identity id;
    struct qr_err err = {0};
    struct qr_buf json = {0};
    if (qr_identity_find(in, &id, &err) != QR_OK) {
        QR_ASSERT(err.code == QR_INVALID_ARGUMENT && err.msg[0]);
        return;
    }
    QR_ASSERT(id.n_peers <= 64 && id.index < 64);
    for (size_t i = 0; i < id.n_peers; i++)
        QR_ASSERT(id.peers[i] && !qr_address_fault(id.peers[i]));
    QR_ASSERT(!id.n_servers || id.n_servers < id.n_peers);
    QR_ASSERT((id.role == QR_ROLE_PS) == (id.index >= 0 && (size_t)id.index < id.n_servers));
    QR_ASSERT(id.index < 0 || !id.n_peers || strcmp(id.peers[id.index], id.address) == 0);
    if (in->tf_config && in->tf_config[0]) QR_ASSERT(id.port >= 1 && id.port <= 65535);
    qr_identity_json(&id, &json);
    qr_buf_free(&json);
    qr_identity_fini(&id);
}

#endif
