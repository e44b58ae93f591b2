/* tests/t.c — counts of checks, and the last line of a test program. */
#include "tests/t.h"

_Atomic long t_passed, t_failed, t_skipped;

bool t_in_time(const char *what, int64_t took_ns, int64_t bound_ns, int64_t most_ns) {
    printf("%s: %lld ms (bound %lld ms)\n", what, (long long)(took_ns / 1000000),
           (long long)(bound_ns / 1000000));
    return took_ns < (getenv("QR_BOUNDS") ? bound_ns : most_ns);
}

unsigned t_qubits(void) {
    const char *most = getenv("QR_QUBITS");
    if (most) SKIP("circuits of more than %s qubits: QR_QUBITS says so", most);
    return most ? (unsigned)strtoul(most, NULL, 10) : 64;
}

int t_end(void) {
    printf("%ld passed, %ld failed, %ld skipped\n", t_passed, t_failed, t_skipped);
    return t_failed ? 1 : 0;
}
