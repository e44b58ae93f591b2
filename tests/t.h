/* tests/t.h — checks for test programs. Each CHECK is counted; a failed one is printed and the
 * program's exit status is 1. The last line of a program is "N passed, N failed, N skipped", which
 * tests/run adds up. */
#ifndef T_H
#define T_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic long t_passed, t_failed, t_skipped; /* threads may check too */

#define CHECK(c, ...)                                                                              \
    do {                                                                                           \
        if (c) {                                                                                   \
            t_passed++;                                                                            \
        } else {                                                                                   \
            t_failed++;                                                                            \
            fprintf(stderr, "%s:%d: not so: %s ", __FILE__, __LINE__, #c);                         \
            fprintf(stderr, " " __VA_ARGS__);                                                      \
            fputc('\n', stderr);                                                                   \
        }                                                                                          \
    } while (0)
#define SKIP(...)                                                                                  \
    do {                                                                                           \
        t_skipped++;                                                                               \
        printf("SKIP " __VA_ARGS__);                                                               \
        putchar('\n');                                                                             \
    } while (0)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Prints a time and compares it with bound_ns if QR_BOUNDS is set (make faults, on an idle
 * machine), else with most_ns, because other programs run too. */
static inline bool t_in_time(const char *what, int64_t took_ns, int64_t bound_ns, int64_t most_ns) {
    printf("%s: %lld ms (bound %lld ms)\n", what, (long long)(took_ns / 1000000),
           (long long)(bound_ns / 1000000));
    return took_ns < (getenv("QR_BOUNDS") ? bound_ns : most_ns);
}
#define T_MINUTE INT64_C(60000000000)

/* The largest circuit to test; QR_QUBITS limits it under emulation, a hundred times slower. */
static inline unsigned t_qubits(void) {
    const char *most = getenv("QR_QUBITS");
    if (most) SKIP("circuits of more than %s qubits: QR_QUBITS says so", most);
    return most ? (unsigned)strtoul(most, NULL, 10) : 64;
}

static inline int t_end(void) {
    printf("%ld passed, %ld failed, %ld skipped\n", t_passed, t_failed, t_skipped);
    return t_failed ? 1 : 0;
}

#endif
