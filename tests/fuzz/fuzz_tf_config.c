/* Any TF_CONFIG gives a consistent identity, or an error. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/identity_of.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    struct qr_identity_inputs in = {.tf_config = text, .default_port = 2222, .max_workers = 64};
    identity_of(&in);
    free(text);
    return 0;
}
