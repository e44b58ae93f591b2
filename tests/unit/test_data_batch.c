/* Order, batches, micro-batches: a permutation that depends only on (seed, epoch), sorted as
 * lib/train/step.md §3 says; ranges without gaps. */
#include "data/batch.h"
#include "exact/random.h"
#include "tests/t.h"

static void orders(void) {
    static const size_t sizes[] = {0, 1, 2, 3, 7, 112, 160, 1000, 4097};
    for (size_t k = 0; k < COUNT(sizes); k++) {
        size_t n = sizes[k], not_sorted = 0, not_once = 0, moved = 0, other = 0;
        struct qr_order o, again;
        uint8_t *seen = calloc(n + 1, 1);
        qr_order_init(&o, n);
        qr_order_init(&again, n);
        qr_order_fill(&again, 5, 7, true); /* an earlier order, which must not affect the next */
        qr_order_fill(&o, 1, 2, true);
        qr_order_fill(&again, 1, 2, true);
        for (size_t i = 0; i < n; i++) {
            uint64_t key = qr_random_u64(1, QR_RANDOM_SHUFFLE, 2, o.index[i]);
            if (i) {
                uint64_t before = qr_random_u64(1, QR_RANDOM_SHUFFLE, 2, o.index[i - 1]);
                not_sorted += !(before < key || (before == key && o.index[i - 1] < o.index[i]));
            }
            not_once += o.index[i] >= n || seen[o.index[i]]++;
            moved += o.index[i] != i;
        }
        CHECK(not_sorted == 0 && not_once == 0, "n = %zu: %zu %zu", n, not_sorted, not_once);
        CHECK(n == 0 || memcmp(o.index, again.index, n * sizeof *o.index) == 0);
        CHECK(n < 100 || moved > n / 2);
        qr_order_fill(&again, 1, 3, true);
        for (size_t i = 0; i < n; i++) other += o.index[i] != again.index[i];
        CHECK(n < 100 || other > n / 2, "epochs must differ");
        qr_order_fill(&o, 1, 2, false);
        for (size_t i = 0; i < n; i++) not_once += o.index[i] != i;
        CHECK(not_once == 0);
        free(seen);
        qr_order_fini(&o);
        qr_order_fini(&again);
    }
}

static void ranges(void) {
    static const size_t sizes[] = {1, 2, 15, 16, 17, 48, 64, 112, 113, 1000};
    for (size_t a = 0; a < COUNT(sizes); a++)
        for (size_t b = 0; b < COUNT(sizes); b++)
            for (size_t k = 0; k < COUNT(sizes); k++) {
                size_t n = sizes[a], batch = sizes[b], micro_batch = sizes[k], at = 0, wrong = 0;
                for (size_t i = 0; i < qr_batch_count(n, batch); i++) {
                    struct qr_range r = qr_batch_at(n, batch, i);
                    wrong += r.begin != at || r.end <= r.begin || r.end - r.begin > batch ||
                             (r.end - r.begin < batch && r.end != n);
                    for (size_t j = 0; j < qr_micro_batch_count(r, micro_batch); j++) {
                        struct qr_range s = qr_micro_batch_at(r, micro_batch, j);
                        wrong += s.begin != at || s.end <= s.begin || s.end > r.end ||
                                 s.end - s.begin > micro_batch ||
                                 (s.end - s.begin < micro_batch && s.end != r.end);
                        at = s.end;
                    }
                    wrong += at != r.end;
                }
                CHECK(wrong == 0 && at == n, "%zu samples, batch %zu, micro-batch %zu", n, batch,
                      micro_batch);
            }
    CHECK(qr_batch_count(112, 64) == 2 && qr_batch_at(112, 64, 1).end == 112 &&
          qr_batch_count(0, 64) == 0);
    CHECK(qr_micro_batch_count(qr_batch_at(112, 64, 1), 16) == 3);
}

int main(void) {
    orders();
    ranges();
    return t_end();
}
