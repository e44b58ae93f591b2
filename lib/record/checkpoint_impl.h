/* record/checkpoint_impl.h — file names of checkpoints; private to checkpoint*.c. */
#ifndef QR_RECORD_CHECKPOINT_IMPL_H
#define QR_RECORD_CHECKPOINT_IMPL_H

#include "record/checkpoint.h"

enum { CHECKPOINT_HASH_CHARS = 16 }; /* characters of the job hash in a file name */
/* Writes "0123456789abcdef-0000000000000300-<digest>.safetensors"; names of one job sort by
 * step. */
void checkpoint_name(const char *job_hash, uint64_t step, const char *digest, char *ret,
                     size_t cap);

#endif
