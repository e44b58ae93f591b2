/* job/memory.h — estimate of the peak resident bytes of one worker.
 *
 * Parts     The process itself, the data set (and its file while it is read), workspaces of the
 *           threads, integers of a step, weights and what the update and checkpoints keep of them.
 * Process   Measured: a run of the 8-qubit tutorial on Debian 12 and 13, x86-64, less its
 *           workspaces: code and data of the program and of the libraries in use, their threads and
 *           buffers (memory.c has each figure). tests/it/memory.sh compares the sum with real
 *           workers, within 10 %.
 * Writer    HDF5, only in the leader, which writes the weights: part of total, not of follower.
 * Overflow  All sums saturate at UINT64_MAX.
 * Threads   Any; a pure function of its arguments.
 */
#ifndef QR_JOB_MEMORY_H
#define QR_JOB_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct qr_memory_process {
    unsigned threads, workers; /* workers of the ring; with 1 gRPC is not initialized */
    bool tls, hdf5, bucket;    /* TLS between workers; an HDF5 file is read or written; gs:// */
};
struct qr_memory_need {
    struct qr_memory_process process;
    uint64_t file_bytes, n_samples, n_values_per_sample, lanes, bytes_per_lane, bytes_of_state,
        n_params, n_vectors; /* n_vectors: vectors of n_params in a state */
};
/* Bytes. total: while training and writing, or while the file is read if that takes more. */
struct qr_memory_estimate {
    uint64_t process, writer, data, workspaces, numbers, vectors, total, follower;
};
struct qr_memory_estimate qr_memory_estimate(const struct qr_memory_need *n);

#endif
