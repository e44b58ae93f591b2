#include "job/estimate.h"

#include "collective/schedule.h"
#include "exact/integer.h"

enum { VECTOR_HEAD = 18 }; /* bad blocks, the sum of their ids, samples, read-outs (train/step.h) */

static uint64_t up(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

double qr_estimate_reduce_s(const struct qr_estimate_facts *f, unsigned n, uint64_t n_integers) {
    if (n < 2) return 0;
    double whole_s = (double)n_integers * QR_FIXED_BYTES / f->bytes_per_s;
    struct qr_schedule s = qr_schedule_make(f->allreduce, n, 0, n_integers);
    switch (s.kind) {
    case QR_ALLREDUCE_DOUBLING: return s.n_rounds * (f->message_s + whole_s);
    case QR_ALLREDUCE_HALVING: return s.n_rounds * f->message_s + 2 * (n - 1) * (whole_s / n);
    case QR_ALLREDUCE_RING: return 2 * (n - 1) * (f->message_s + whole_s / n);
    default: return 2 * (f->message_s + (n - 1) * whole_s);
    }
}

/* One reduction over so many samples. */
static double reduction_s(const struct qr_estimate_facts *f, unsigned n, uint64_t samples, double wave_s, uint64_t n_integers) {
    uint64_t busiest = up(up(samples, f->block_size), n);
    return f->own_s + (double)up(busiest, f->lanes) * wave_s + qr_estimate_reduce_s(f, n, n_integers + n);
}

static double total_s(const struct qr_estimate_facts *f, unsigned n) {
    uint64_t sums = VECTOR_HEAD + f->n_sums, whole = f->n_train / f->batch_size, rest = f->n_train % f->batch_size;
    double epoch_s = (double)whole * reduction_s(f, n, f->batch_size, f->train_wave_s, sums + f->n_params);
    if (rest) epoch_s += reduction_s(f, n, rest, f->train_wave_s, sums + f->n_params);
    if (f->n_validate) epoch_s += reduction_s(f, n, f->n_validate, f->validate_wave_s, sums);
    return (double)f->epochs * epoch_s;
}

struct qr_estimate_row qr_estimate_row(const struct qr_estimate_facts *f, unsigned n) {
    uint64_t batch = f->batch_size < f->n_train ? f->batch_size : f->n_train;
    double alone_s = total_s(f, 1), all_s = total_s(f, n);
    return (struct qr_estimate_row){
        .n_workers = n, .step_s = reduction_s(f, n, batch, f->train_wave_s, VECTOR_HEAD + f->n_sums + f->n_params), .total_s = all_s,
        .speedup = n > 1 && all_s > 0 ? alone_s / all_s : 1, .pod_hours = n * all_s / 3600,
    };
}

unsigned qr_estimate_best(const struct qr_estimate_facts *f, unsigned max_workers) {
    unsigned best = 1;
    double least_s = total_s(f, 1);
    for (unsigned n = 2; n <= max_workers; n++) {
        struct qr_estimate_row row = qr_estimate_row(f, n);
        if (row.total_s >= least_s || 2 * row.speedup < n) continue;
        best = n;
        least_s = row.total_s;
    }
    return best;
}

static uint64_t times(uint64_t a, uint64_t b) {
    uint64_t r;
    return __builtin_mul_overflow(a, b, &r) ? UINT64_MAX : r;
}
static uint64_t plus(uint64_t a, uint64_t b) {
    uint64_t r;
    return __builtin_add_overflow(a, b, &r) ? UINT64_MAX : r;
}

/* Medians of three to five runs; a run differs from the next by 0.2 MiB. */
enum {
    READS_KIB = 15150,      /* when the data is read: neither threads nor HDF5 yet */
    ALONE_KIB = 17950,      /* code and data of the program and its 20 libraries, as far as they are begun; gRPC is not */
    THREAD_KIB = 50,        /* of the pool: its stack, an arena */
    RING_KIB = 3850,        /* gRPC begun: its pages, its threads, a server and a channel */
    PEER_KIB = 150,         /* each further channel, its buffers */
    RING_TLS_KIB = 1900,    /* OpenSSL between workers */
    PEER_TLS_KIB = 350,
    HDF5_KIB = 3750,        /* a file of weights read or written: the library's pages, one chunk each */
    BUCKET_KIB = 2000,      /* libcurl 0.6 MiB, and the CAs that the system trusts 1.3 MiB */
};

static uint64_t process_bytes(const struct qr_estimate_process *p) {
    uint64_t kib = ALONE_KIB + THREAD_KIB * (uint64_t)(p->threads > 1 ? p->threads - 1 : 0), peers = p->workers > 1 ? p->workers - 1 : 0;
    if (peers) kib += RING_KIB + PEER_KIB * (peers - 1);
    if (peers && p->tls) kib += RING_TLS_KIB + PEER_TLS_KIB * (peers - 1);
    if (p->bucket) kib += BUCKET_KIB;
    return kib << 10;
}

struct qr_estimate_memory qr_estimate_memory(const struct qr_estimate_need *n) {
    struct qr_estimate_memory m = {
        .process = process_bytes(&n->process),
        .writer = n->process.hdf5 ? (uint64_t)HDF5_KIB << 10 : 0,
        .data = times(n->n_samples, times(n->n_values_per_sample, sizeof(double))),
        .workspaces = times(n->lanes, n->bytes_per_lane),
        .numbers = n->bytes_of_state,
        /* integers of a step and what is received; weights, moments, best state, gradients; two copies of the state and its file, twice, for
         * checkpoints */
        .vectors = times(n->n_params, 16 * 4 + 8 * 8 + 8 * 5 * 5),
    };
    uint64_t reads = plus((uint64_t)READS_KIB << 10, plus(n->file_bytes, m.data));
    m.follower = plus(plus(m.process, plus(m.data, m.numbers)), plus(m.workspaces, m.vectors));
    m.total = plus(m.follower, m.writer);
    if (m.follower < reads) m.follower = reads;
    if (m.total < reads) m.total = reads;
    return m;
}
