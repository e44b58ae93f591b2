/* record/chain.c — hashes of the lines of steps.jsonl. Start reading at qr_chain_next(). */
#include "record/chain.h"

#include <string.h>

#include "base/mem.h"

void qr_chain_begin(const char *job_hash, const char *data_hash, const char *arithmetic,
                    uint8_t ret[QR_CHAIN_BYTES]) {
    qr_auto(qr_free_p) char *text =
        qr_xasprintf("qring-chain-v1\njob_hash=%s\ndata_hash=%s\narithmetic=%s\n", job_hash,
                     data_hash, arithmetic);
    qr_sha256(text, strlen(text), ret);
}

void qr_chain_next(const uint8_t before[QR_CHAIN_BYTES], struct qr_bytes line,
                   uint8_t ret[QR_CHAIN_BYTES]) {
    char hex[QR_CHAIN_HEX + 1];
    qr_hex(before, QR_CHAIN_BYTES, hex);
    const struct qr_bytes parts[] = {qr_bytes_of(hex, QR_CHAIN_HEX), line};
    qr_sha256_parts(parts, sizeof parts / sizeof *parts, ret);
}

bool qr_chain_known(const uint8_t chain[QR_CHAIN_BYTES]) {
    static const uint8_t none[QR_CHAIN_BYTES];
    return memcmp(chain, none, sizeof none) != 0;
}
