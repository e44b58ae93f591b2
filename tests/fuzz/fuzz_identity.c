/* Peers, template, index, replicas, completion index, host name, role and parameter servers from a
 * pod's environment, a line each: a consistent identity, or an error. */
#include "tests/fuzz/identity_of.h"
#include "tests/fuzz/parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *part[8] = {0};
    size_t n;
    parts_of(data, size, '\n', part, 8, &n);
    for (size_t i = 0; i < n; i++)
        if (!*part[i]) free(QR_MOVE(part[i])); /* an empty line is unset */
    const struct qr_identity_inputs in = {.index = part[0],
                                          .peers = part[1],
                                          .peer_template = part[2],
                                          .replicas = part[3],
                                          .job_completion_index = part[4],
                                          .hostname = part[5],
                                          .role = part[6],
                                          .parameter_servers = part[7],
                                          .default_port = 2222,
                                          .max_workers = 64};
    identity_of(&in);
    parts_free(part, n);
    return 0;
}
