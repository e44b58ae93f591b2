/* Any TF_CONFIG gives an identity that holds together, or one sentence. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    struct qr_identity_inputs in = {.tf_config = text, .default_port = 2222, .max_workers = 64};
    struct qr_identity id;
    struct qr_err err = {0};
    if (qr_identity_find(&in, &id, &err) != QR_OK) {
        QR_ASSERT(err.code == QR_INVALID_ARGUMENT && err.msg[0]);
    } else {
        struct qr_buf json = {0};
        for (size_t i = 0; i < id.n_peers; i++)
            QR_ASSERT(id.peers[i] && !qr_address_fault(id.peers[i]));
        QR_ASSERT(id.n_peers <= 64 && id.index < 64 && id.port >= 1 && id.port <= 65535);
        QR_ASSERT(id.index < 0 || !id.n_peers || strcmp(id.peers[id.index], id.address) == 0);
        qr_identity_json(&id, &json);
        qr_buf_free(&json);
        qr_identity_fini(&id);
    }
    free(text);
    return 0;
}
