/* data/batch.c — order of samples, batches and micro-batches. Start reading at qr_order_fill(). */
#include "data/batch.h"

#include "base/err.h"
#include "base/mem.h"
#include "exact/random.h"

void qr_order_init(struct qr_order *o, size_t n) {
    QR_ASSERT(n <= UINT32_MAX);
    o->n = n;
    o->index = qr_xcalloc(n, sizeof *o->index);
    o->keys = qr_xcalloc(n, sizeof *o->keys);
    for (size_t i = 0; i < n; i++) o->index[i] = (uint32_t)i;
}

void qr_order_fini(struct qr_order *o) {
    free(o->index);
    free(o->keys);
    *o = (struct qr_order){0};
}

/* (key, sample) pairs are distinct, so the sorted order is unique, whatever the algorithm. */
static bool order_before(const struct qr_order *o, size_t a, size_t b) {
    return o->keys[a] != o->keys[b] ? o->keys[a] < o->keys[b] : o->index[a] < o->index[b];
}

static void order_swap(struct qr_order *o, size_t a, size_t b) {
    uint64_t key = o->keys[a];
    uint32_t index = o->index[a];
    o->keys[a] = o->keys[b], o->index[a] = o->index[b];
    o->keys[b] = key, o->index[b] = index;
}

static void order_sift(struct qr_order *o, size_t root, size_t end) {
    for (size_t child; (child = 2 * root + 1) < end; root = child) {
        if (child + 1 < end && order_before(o, child, child + 1)) child++;
        if (!order_before(o, root, child)) return;
        order_swap(o, root, child);
    }
}

/* Heapsort: in place, n log n in the worst case (qsort allocates for large arrays). */
static void order_sort(struct qr_order *o) {
    for (size_t i = o->n / 2; i-- > 0;) order_sift(o, i, o->n);
    for (size_t end = o->n; end-- > 1;) {
        order_swap(o, 0, end);
        order_sift(o, 0, end);
    }
}

static void order_shuffle(struct qr_order *o, uint64_t seed, enum qr_random_purpose purpose,
                          uint32_t epoch) {
    for (size_t i = 0; i < o->n; i++) {
        o->index[i] = (uint32_t)i;
        o->keys[i] = qr_random_u64(seed, purpose, epoch, i);
    }
    order_sort(o);
}

void qr_order_fill(struct qr_order *o, uint64_t seed, uint64_t epoch, bool shuffle) {
    QR_ASSERT(epoch <= UINT32_MAX);
    if (shuffle) order_shuffle(o, seed, QR_RANDOM_SHUFFLE, (uint32_t)epoch);
    else
        for (size_t i = 0; i < o->n; i++) o->index[i] = (uint32_t)i;
}

void qr_order_split(struct qr_order *o, uint64_t seed) {
    order_shuffle(o, seed, QR_RANDOM_SPLIT, 0);
}

static struct qr_range range_part(struct qr_range whole, size_t part, size_t i) {
    size_t n = whole.end - whole.begin;
    QR_ASSERT(part > 0 && i <= n / part && i * part < n);
    struct qr_range r = {whole.begin + i * part, whole.end};
    if (n - i * part > part) r.end = r.begin + part;
    return r;
}

static size_t part_count(size_t n, size_t part) {
    QR_ASSERT(part > 0);
    return n / part + (n % part != 0);
}

size_t qr_batch_count(size_t n_samples, size_t batch_size) {
    return part_count(n_samples, batch_size);
}
struct qr_range qr_batch_at(size_t n_samples, size_t batch_size, size_t batch) {
    return range_part((struct qr_range){0, n_samples}, batch_size, batch);
}
size_t qr_micro_batch_count(struct qr_range batch, size_t micro_batch_size) {
    return part_count(batch.end - batch.begin, micro_batch_size);
}
struct qr_range qr_micro_batch_at(struct qr_range batch, size_t micro_batch_size,
                                  size_t micro_batch) {
    return range_part(batch, micro_batch_size, micro_batch);
}
