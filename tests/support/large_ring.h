/* tests/support/large_ring.h — forms a ring of up to 64 processes over gRPC on loopback and
 * measures the cost. */
#ifndef TESTS_SUPPORT_LARGE_RING_H
#define TESTS_SUPPORT_LARGE_RING_H

#include <stdbool.h>
#include <stdint.h>

struct large_ring {
    unsigned n_ok;        /* workers that formed */
    int64_t formed_ns;    /* from the first fork until the last worker had formed */
    int64_t cpu_ns;       /* of all workers until they had formed */
    int64_t n_handshakes; /* of TLS until then */
    double idle_share;    /* of a core, for each worker without work; 0: not measured */
    char text[200];       /* error of the first worker that failed, or "" */
};

/* Forks n workers, so call it before gRPC starts in this process; kills them before it returns.
 * idle_s: seconds over which to measure idle_share after all have formed, may be 0. */
struct large_ring large_ring(unsigned n, bool with_tls, unsigned idle_s);

#endif
