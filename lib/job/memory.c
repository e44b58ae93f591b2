#include "job/memory.h"

#include <features.h>

#include "base/bytes.h"

static uint64_t times(uint64_t a, uint64_t b) {
    uint64_t r;
    return __builtin_mul_overflow(a, b, &r) ? UINT64_MAX : r;
}
static uint64_t plus(uint64_t a, uint64_t b) {
    uint64_t r;
    return __builtin_add_overflow(a, b, &r) ? UINT64_MAX : r;
}

/* By the C library that it is built with: Debian 13's libraries, or Debian 12's. Medians of three
 * to five runs; a run differs from the next by 0.2 MiB. */
enum {
    DEBIAN_13 = __GLIBC__ * 1000 + __GLIBC_MINOR__ >= 2041,
    /* when the data is read: neither threads nor HDF5 yet */
    READS_KIB = DEBIAN_13 ? 17800 : 16150,
    /* code and data of the program and its 20 libraries, as far as they are begun; gRPC is not */
    ALONE_KIB = DEBIAN_13 ? 20700 : 18500,
    THREAD_KIB = 50, /* of the pool: its stack, an arena */
    /* gRPC begun: its pages, its threads, a server and a channel */
    RING_KIB = DEBIAN_13 ? 5550 : 4600,
    PEER_KIB = 150,                         /* each further channel, its buffers */
    RING_TLS_KIB = DEBIAN_13 ? 4300 : 2900, /* OpenSSL between workers */
    PEER_TLS_KIB = 350,
    /* a file of weights read or written: the library's pages, one chunk each */
    HDF5_KIB = 3750,
    BUCKET_KIB = 2000, /* libcurl 0.6 MiB, and the CAs that the system trusts 1.3 MiB */
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
        .data = times(n->n_samples, times(n->n_values_per_sample, sizeof(double))),
        .workspaces = times(n->lanes, n->bytes_per_lane),
        .numbers = n->bytes_of_state,
        /* integers of a step and what is received, gradients; two states, and eight times one for
         * checkpoints: what two million weights took with two to six vectors */
        .vectors = times(n->n_params, 16 * 4 + 8 * (2 + 8) * n->n_vectors),
    };
    uint64_t reads = plus((uint64_t)READS_KIB << 10, plus(n->file_bytes, m.data));
    m.follower = plus(plus(m.process, plus(m.data, m.numbers)), plus(m.workspaces, m.vectors));
    m.total = plus(m.follower, m.writer);
    if (m.follower < reads) m.follower = reads;
    if (m.total < reads) m.total = reads;
    return m;
}
