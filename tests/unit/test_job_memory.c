/* Estimated peak memory of a worker: its parts, their sum, and saturation. */
#include <stdint.h>

#include "job/memory.h"
#include "tests/t.h"

int main(void) {
    struct qr_memory_need n = {.process = {.threads = 4, .workers = 1},
                               .n_samples = 100,
                               .n_values_per_sample = 9,
                               .lanes = 4,
                               .bytes_per_lane = 1000,
                               .bytes_of_state = 77,
                               .n_params = 10,
                               .n_vectors = 4};
    struct qr_memory_estimate m = qr_memory_estimate(&n), more;
    CHECK(m.data == 7200 && m.workspaces == 4000 && m.vectors == 3840 && m.numbers == 77 &&
          !m.writer);
    CHECK(m.total == m.process + 7200 + 4000 + 3840 + 77);
    n.n_vectors = 5; /* with an average of the weights */
    more = qr_memory_estimate(&n);
    CHECK(more.vectors == m.vectors + 10 * 10 * 8);
    n.n_vectors = 4;
    n.process.hdf5 = true;
    more = qr_memory_estimate(&n);
    CHECK(more.writer > 0 && more.total == m.total + more.writer && more.follower == m.total &&
          more.process == m.process);
    n.process.workers = 2;
    m = qr_memory_estimate(&n);
    CHECK(m.process > more.process);
    n.process.tls = true;
    more = qr_memory_estimate(&n);
    CHECK(more.process > m.process);
    n.process.workers = 3;
    CHECK(qr_memory_estimate(&n).process > more.process);
    n.file_bytes = UINT64_C(1) << 30; /* reading it takes more than training */
    m = qr_memory_estimate(&n);
    CHECK(m.total == m.follower && m.total > n.file_bytes + 7200);
    n.n_samples = UINT64_MAX;
    CHECK(qr_memory_estimate(&n).total == UINT64_MAX);
    return t_end();
}
