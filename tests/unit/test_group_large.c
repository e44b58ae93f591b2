/* Rings of many workers on few cores form, and slow connecting does not cause more connecting. A
 * pair needs a control connection, and a data stream where data passes between the two, with one
 * handshake each. */
#include "collective/allreduce_schedule.h"
#include "tests/support/large_ring.h"
#include "tests/t.h"

static void test_ring(unsigned n, bool tls) {
    struct large_ring r = large_ring(n, tls, 0);
    unsigned needed = n * (n - 1) / 2;
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < a; b++) needed += qr_schedule_pairs(n, a, b);
    CHECK(r.n_ok == n, "%u of %u workers formed; %s", r.n_ok, n, r.text);
    CHECK(!tls || r.n_handshakes >= needed, "%lld handshakes", (long long)r.n_handshakes);
    CHECK(r.n_handshakes <= 2 * needed, "%lld handshakes, %u needed", (long long)r.n_handshakes,
          needed);
    printf("%u workers%s: formed in %.2f s, %.2f s of processor, %lld handshakes, %u needed\n", n,
           tls ? ", TLS" : "", (double)r.formed_ns / 1e9, (double)r.cpu_ns / 1e9,
           (long long)r.n_handshakes, needed);
}

#ifdef __SANITIZE_ADDRESS__ /* ten times the work */
enum { MANY = 16 };
#else
enum { MANY = 32 };
#endif

int main(void) {
    test_ring(8, true);
    test_ring(MANY, true);
    test_ring(MANY, false);
    return t_end();
}
