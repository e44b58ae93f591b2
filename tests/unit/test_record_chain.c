/* The chain of steps.jsonl: values computed by Python's hashlib, and a chain that depends on every
 * byte of a line and of the lines before. */
#include "tests/t.h"

#include <string.h>

#include "record/chain.h"

static char hex[QR_CHAIN_HEX + 1];
static const char *text_of(const uint8_t chain[QR_CHAIN_BYTES]) {
    qr_hex(chain, QR_CHAIN_BYTES, hex);
    return hex;
}

/* hashlib.sha256(b"qring-chain-v1\njob_hash=aa...\ndata_hash=bb...\narithmetic=f32-v1\n"), and
 * hashlib.sha256(that.hexdigest() + '{"step":1') */
static void test_values(void) {
    char job[65], data[65];
    uint8_t first[QR_CHAIN_BYTES], chain[QR_CHAIN_BYTES];
    memset(job, 'a', 64);
    memset(data, 'b', 64);
    job[64] = data[64] = 0;
    qr_chain_begin(job, data, "f32-v1", first);
    CHECK(strcmp(text_of(first),
                 "84919468aac8b3f05a0982df0d377c0c19f009e8c1b785f437145e2a335d25e9") == 0,
          "%s", hex);
    qr_chain_next(first, qr_bytes_of_string("{\"step\":1"), chain);
    CHECK(strcmp(text_of(chain),
                 "027476d33fc9cdc7bfc14870cdef7ff1861e7913b122c37cc96268e22e192cda") == 0,
          "%s", hex);
    qr_chain_next(first, qr_bytes_of_string("{\"step\":2"), chain);
    CHECK(strcmp(text_of(chain),
                 "027476d33fc9cdc7bfc14870cdef7ff1861e7913b122c37cc96268e22e192cda") != 0);
    static const uint8_t none[QR_CHAIN_BYTES];
    CHECK(qr_chain_known(chain) && !qr_chain_known(none));
}

/* Job hash, data hash and arithmetic enter the first chain. */
static void test_first(void) {
    static const char *const of[][3] = {
        {"1", "2", "f32-v1"}, {"0", "2", "f32-v1"}, {"1", "0", "f32-v1"}, {"1", "2", "f64-v1"}};
    uint8_t chain[4][QR_CHAIN_BYTES];
    for (size_t i = 0; i < 4; i++) qr_chain_begin(of[i][0], of[i][1], of[i][2], chain[i]);
    for (size_t i = 1; i < 4; i++) CHECK(memcmp(chain[0], chain[i], sizeof *chain) != 0, "%zu", i);
}

int main(void) {
    test_values();
    test_first();
    return t_end();
}
