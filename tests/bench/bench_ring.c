/* What it costs a ring to form on this machine, by the number of its workers, with and without TLS:
 * from the start of the first process until the last worker is a member. */
#include "tests/large_ring.h"

int main(int argc, char **argv) {
    unsigned sizes[] = {8, 16, 32, 64};
    int most = argc > 1 ? atoi(argv[1]) : 64;
    printf("%8s %10s %12s %10s %12s %12s\n", "workers", "TLS", "formed in", "processor", "a pair",
           "handshakes");
    for (int tls = 1; tls >= 0; tls--)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            unsigned n = sizes[i], pairs = n * (n - 1) / 2;
            if ((int)n > most) continue;
            struct large_ring r = large_ring(n, tls);
            printf("%8u %10s %10.2f s %8.2f s %9.2f ms %12lld\n", n, tls ? "yes" : "no",
                   (double)r.formed_ns / 1e9, (double)r.cpu_ns / 1e9,
                   (double)r.cpu_ns / 1e6 / pairs, (long long)r.n_handshakes);
        }
    return t_failed != 0;
}
