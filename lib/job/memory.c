/* job/memory.c — measured sizes and their sum. Start reading at qr_memory_estimate(). */
#include "job/memory.h"

#include <features.h>

#include "base/bytes.h"

static uint64_t mul_saturate(uint64_t a, uint64_t b) {
    uint64_t r;
    return __builtin_mul_overflow(a, b, &r) ? UINT64_MAX : r;
}
static uint64_t add_saturate(uint64_t a, uint64_t b) {
    uint64_t r;
    return __builtin_add_overflow(a, b, &r) ? UINT64_MAX : r;
}

/* By the C library of the build: the libraries of Debian 13, or those of Debian 12. Medians of
 * three to five runs, which differ by 0.2 MiB. */
enum {
    DEBIAN_13 = __GLIBC__ * 1000 + __GLIBC_MINOR__ >= 2041,
    /* while the data is read: neither threads nor HDF5 yet */
    READS_KIB = DEBIAN_13 ? 17800 : 16150,
    /* code and data of the program and its 20 libraries, as far as they are in use; without gRPC */
    ALONE_KIB = DEBIAN_13 ? 20000 : 18500,
    THREAD_KIB = 50, /* a thread of the pool: stack, arena */
    /* gRPC in use: its pages, threads, a server and a channel */
    RING_KIB = DEBIAN_13 ? 4800 : 4600,
    PEER_KIB = 150,                         /* each further channel, its buffers */
    RING_TLS_KIB = DEBIAN_13 ? 4800 : 2900, /* OpenSSL between workers */
    PEER_TLS_KIB = 350,
    /* a weights file read or written: pages of the library, one chunk each */
    HDF5_KIB = 3750,
    BUCKET_KIB = 2000, /* libcurl 0.6 MiB, CAs of the system 1.3 MiB */
};

static uint64_t process_bytes(const struct qr_memory_process *p) {
    uint64_t kib = ALONE_KIB + THREAD_KIB * (uint64_t)(p->threads > 1 ? p->threads - 1 : 0),
             peers = p->workers > 1 ? p->workers - 1 : 0;
    if (peers) kib += RING_KIB + PEER_KIB * (peers - 1);
    if (peers && p->tls) kib += RING_TLS_KIB + PEER_TLS_KIB * (peers - 1);
    if (p->bucket) kib += BUCKET_KIB;
    return kib << 10;
}

struct qr_memory_estimate qr_memory_estimate(const struct qr_memory_need *n) {
    struct qr_memory_estimate m = {
        .process = process_bytes(&n->process),
        .writer = n->process.hdf5 ? (uint64_t)HDF5_KIB << 10 : 0,
        .data = mul_saturate(n->n_samples, mul_saturate(n->n_values_per_sample, sizeof(double))),
        .workspaces = mul_saturate(n->lanes, n->bytes_per_lane),
        .numbers = n->bytes_of_state,
        /* Integers of a step and the received ones, gradients; two states, and eight times a state
         * for checkpoints: measured with two million weights and two to six vectors. */
        .vectors = mul_saturate(n->n_params, 16 * 4 + 8 * (2 + 8) * n->n_vectors),
    };
    uint64_t reads = add_saturate((uint64_t)READS_KIB << 10, add_saturate(n->file_bytes, m.data));
    m.follower = add_saturate(add_saturate(m.process, add_saturate(m.data, m.numbers)),
                              add_saturate(m.workspaces, m.vectors));
    m.total = add_saturate(m.follower, m.writer);
    if (m.follower < reads) m.follower = reads;
    if (m.total < reads) m.total = reads;
    return m;
}
