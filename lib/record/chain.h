/* record/chain.h — the chain of steps.jsonl: each line has a hash of itself and of the line before,
 * so that a line cannot be changed, deleted, inserted or moved without a trace.
 *
 * First     SHA-256 of the text "qring-chain-v1\njob_hash=H\ndata_hash=D\narithmetic=A\n": hashes
 *           as hex digits, A the name of the arithmetic contract ("f32-v1").
 * Line      SHA-256 of the 64 hex digits of the chain before, followed by the line's bytes up to
 *           ,"chain": — which the line then has as its last member.
 * Bits      A function of (job, data, step) alone, for any number of workers, kills and resumes.
 * Threads   Any; pure functions.
 */
#ifndef QR_RECORD_CHAIN_H
#define QR_RECORD_CHAIN_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/checksum.h"

enum { QR_CHAIN_BYTES = QR_SHA256_BYTES, QR_CHAIN_HEX = 2 * QR_CHAIN_BYTES };
#define QR_CHAIN_KEY ",\"chain\":\""

/* Computes the chain before the first line. job_hash, data_hash: hex. */
void qr_chain_begin(const char *job_hash, const char *data_hash, const char *arithmetic,
                    uint8_t ret[QR_CHAIN_BYTES]);
/* Computes the chain of a line. line: its bytes before QR_CHAIN_KEY. */
void qr_chain_next(const uint8_t before[QR_CHAIN_BYTES], struct qr_bytes line,
                   uint8_t ret[QR_CHAIN_BYTES]);
/* False: all bytes are 0, of a run that began before lines had a chain. */
bool qr_chain_known(const uint8_t chain[QR_CHAIN_BYTES]);

#endif
