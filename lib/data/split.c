/* data/split.c — shuffles the samples by a seed before they are split into training and validation.
 * Start reading at qr_dataset_shuffle(). */
#include <string.h>

#include "base/mem.h"
#include "data/batch.h"
#include "data/dataset_impl.h"

/* Moves row from[i] to row i, cycle by cycle, without a second copy in memory. */
static void permute_rows(double *rows, size_t width, const uint32_t *from, size_t n) {
    qr_auto(qr_free_p) uint8_t *done = qr_xcalloc(n, 1);
    qr_auto(qr_free_p) double *first = qr_xcalloc(width, sizeof *first);
    const size_t bytes = width * sizeof *rows;
    for (size_t i = 0; i < n; i++) {
        if (done[i]) continue;
        memcpy(first, rows + i * width, bytes);
        size_t at = i;
        for (; from[at] != i; at = from[at]) {
            memcpy(rows + at * width, rows + from[at] * width, bytes);
            done[at] = 1;
        }
        memcpy(rows + at * width, first, bytes);
        done[at] = 1;
    }
}

void qr_dataset_shuffle(struct qr_dataset *d, uint64_t seed) {
    struct qr_order order;
    qr_order_init(&order, d->n_samples);
    qr_order_split(&order, seed);
    permute_rows(d->x, d->n_columns, order.index, d->n_samples);
    permute_rows(d->y, qr_dataset_y_width(d), order.index, d->n_samples);
    d->row = QR_MOVE(order.index);
    qr_order_fini(&order);
}
