/* Peers, template, index, replicas, completion index and host name from a pod's surroundings, a
 * line each: an identity that holds together, or one sentence. */
#include "cluster/identity.h"
#include "tests/fuzz/parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *part[6] = {0};
    size_t n;
    parts_of(data, size, '\n', part, 6, &n);
    for (size_t i = 0; i < n; i++)
        if (!*part[i]) free(QR_MOVE(part[i])); /* an empty line: not set */
    const struct qr_identity_inputs in = {.index = part[0],
                                          .peers = part[1],
                                          .peer_template = part[2],
                                          .replicas = part[3],
                                          .job_completion_index = part[4],
                                          .hostname = part[5],
                                          .default_port = 2222,
                                          .max_workers = 64};
    struct qr_identity id;
    struct qr_err err = {0};
    if (qr_identity_find(&in, &id, &err) != QR_OK) {
        QR_ASSERT(err.code == QR_INVALID_ARGUMENT && err.msg[0]);
    } else {
        struct qr_buf json = {0};
        QR_ASSERT(id.n_peers <= 64 && id.index < 64);
        for (size_t i = 0; i < id.n_peers; i++)
            QR_ASSERT(id.peers[i] && !qr_address_fault(id.peers[i]));
        QR_ASSERT(id.index < 0 || !id.n_peers || strcmp(id.peers[id.index], id.address) == 0);
        qr_identity_json(&id, &json);
        qr_buf_free(&json);
        qr_identity_fini(&id);
    }
    parts_free(part, n);
    return 0;
}
