/* data/batch.h — global order, batches, micro-batches (train/step.md §3).
 *
 * Order     ascending by (Philox(seed, SHUFFLE, epoch, sample), sample); file order without
 *           shuffle. Epochs from 0.
 * Batch     batch_size consecutive positions of the order; ceil(n / batch) steps an epoch, the last
 *           is short. Nothing is padded or dropped. Batch size is global.
 * Micro-batch     micro_batch_size consecutive samples of a batch; ceil(batch / micro-batch)
 *                 micro-batches, the last short.
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
void qr_order_init(struct qr_order *o, size_t n);
void qr_order_fini(struct qr_order *o);
/* no allocation */
void qr_order_fill(struct qr_order *o, uint64_t seed, uint64_t epoch, bool shuffle);
/* Ascending by (Philox(seed, SPLIT, 0, sample), sample): which samples train, once for all. */
void qr_order_split(struct qr_order *o, uint64_t seed);

struct qr_range {
    size_t begin, end;
};
size_t qr_batch_count(size_t n_samples, size_t batch_size);
struct qr_range qr_batch_at(size_t n_samples, size_t batch_size, size_t batch);
size_t qr_micro_batch_count(struct qr_range batch, size_t micro_batch_size);
struct qr_range qr_micro_batch_at(struct qr_range batch, size_t micro_batch_size,
                                  size_t micro_batch);

#endif
