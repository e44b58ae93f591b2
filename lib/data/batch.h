/* data/batch.h — order of samples, batches, micro-batches (train/step.md §3).
 *
 * Usage     qr_order_init once; qr_order_fill for each epoch; qr_batch_at and qr_micro_batch_at for
 *           positions in the order; qr_order_fini.
 * Order     ascending by (Philox(seed, SHUFFLE, epoch, sample), sample); file order without
 *           shuffle. Epochs count from 0. All workers compute the same order.
 * Batch     batch_size consecutive positions of the order; ceil(n / batch_size) batches in an
 *           epoch, the last one short. No sample is padded or dropped. The size is that of the
 *           whole ring.
 * Micro-batch     micro_batch_size consecutive samples of a batch; ceil(batch / micro_batch_size)
 *                 micro-batches, the last one short.
 * Threads   any; an order belongs to one thread at a time.
 */
#ifndef QR_DATA_BATCH_H
#define QR_DATA_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qr_order {
    size_t n;
    uint32_t *index; /* position → sample */
    uint64_t *keys;
};
/* Allocates an order of n samples (n < 2^32), in file order; qr_order_fini frees it. */
void qr_order_init(struct qr_order *o, size_t n);
void qr_order_fini(struct qr_order *o);
/* Computes the order of an epoch; does not allocate. */
void qr_order_fill(struct qr_order *o, uint64_t seed, uint64_t epoch, bool shuffle);
/* The order that decides which samples train: ascending by (Philox(seed, SPLIT, 0, sample),
 * sample), the same for all epochs. */
void qr_order_split(struct qr_order *o, uint64_t seed);

struct qr_range {
    size_t begin, end; /* end excluded */
};
/* Number of batches in an epoch, and the positions of one of them. */
size_t qr_batch_count(size_t n_samples, size_t batch_size);
struct qr_range qr_batch_at(size_t n_samples, size_t batch_size, size_t batch);
/* Number of micro-batches in a batch, and the positions of one of them. */
size_t qr_micro_batch_count(struct qr_range batch, size_t micro_batch_size);
struct qr_range qr_micro_batch_at(struct qr_range batch, size_t micro_batch_size,
                                  size_t micro_batch);

#endif
