/* Cost of forming a ring, by number of workers, with and without TLS: from the start of the first
 * process until the last worker is a member.
 *
 *   bench_ring [WORKERS]      the most workers [32; with LONG=1: 64] */
#include "tests/bench/figures.h"
#include "tests/support/large_ring.h"
#include "tests/t.h"

static void measure(unsigned n, bool tls) {
    struct large_ring r = large_ring(n, tls, 3);
    unsigned pairs = n * (n - 1) / 2;
    double formed_ns = (double)r.formed_ns;
    char name[32];
    CHECK(r.n_ok == n, "%u of %u workers formed; %s", r.n_ok, n, r.text);
    snprintf(name, sizeof name, "form-%u%s", n, tls ? "-tls" : "");
    bench_open("ring", name);
    bench_put_ns(bench_spread(&formed_ns, 1), 1);
    bench_put_number("cpu_ms_per_pair", (double)r.cpu_ns / 1e6 / pairs);
    bench_put_number("handshakes_per_pair", (double)r.n_handshakes / pairs);
    bench_put_number("idle_share", r.idle_share);
    bench_close();
}

int main(int argc, char **argv) {
    static const unsigned sizes[] = {8, 16, 32, 64};
    unsigned most = argc > 1 ? (unsigned)atoi(argv[1]) : getenv("LONG") ? 64 : 32;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && sizes[i] <= most; i++) {
        measure(sizes[i], true);
        measure(sizes[i], false);
    }
    return t_failed != 0;
}
