/* job/memory.h — peak resident bytes of one worker: itself, the data set (and its file while it is
 * read), the threads' workspaces, the numbers of a step, weights and what the update and the
 * checkpoints keep beside them.
 *
 * Process   what a run of the 8-qubit tutorial took on Debian 12 and 13, x86-64, less its
 *           workspaces: code and data of the program and of the libraries that it has begun to use,
 *           their threads and buffers (memory.c has each figure). tests/it/memory.sh holds the sum
 *           to real workers within 10 %.
 * Writer    HDF5's share, of the worker that leads and writes the weights; total is with it,
 *           follower without. All saturate.
 * Pure      a function of its arguments.
 */
#ifndef QR_JOB_MEMORY_H
#define QR_JOB_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct qr_memory_process {
    unsigned threads, workers; /* of the ring; 1: gRPC is never begun */
    bool tls, hdf5, bucket;    /* between workers; for a file that is read or written; gs:// */
};
struct qr_memory_need {
    struct qr_memory_process process;
    uint64_t file_bytes, n_samples, n_values_per_sample, lanes, bytes_per_lane, bytes_of_state,
        n_params, n_vectors; /* n_vectors: of so many, in a state */
};
/* total: while it trains and writes, or, with large data, while the file is read. */
struct qr_memory_estimate {
    uint64_t process, writer, data, workspaces, numbers, vectors, total, follower;
};
struct qr_memory_estimate qr_memory_estimate(const struct qr_memory_need *n);

#endif
