/* tests/t.h — checks for test programs. Each CHECK is counted; a failed one is printed and the
 * program's exit status is 1. The last line of a program is "N passed, N failed, N skipped", which
 * tests/run adds up. */
#ifndef T_H
#define T_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long t_passed, t_failed, t_skipped;

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

/* The largest circuit: QR_QUBITS where a machine is emulated, and each multiply a hundred
 * times slower. */
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
