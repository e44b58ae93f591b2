/* tests/t.h — checks for test programs. Each CHECK is counted; a failed one is printed and the
 * program's exit status is 1. The last line of a program is "N passed, N failed, N skipped", which
 * tests/run adds up. */
#ifndef T_H
#define T_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern _Atomic long t_passed, t_failed, t_skipped; /* threads may check too */

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
bool t_in_time(const char *what, int64_t took_ns, int64_t bound_ns, int64_t most_ns);
#define T_MINUTE INT64_C(60000000000)

/* The number of qubits of the largest circuit to test: 64, or QR_QUBITS, which emulated runs set
 * because they are a hundred times slower. */
unsigned t_qubits(void);

/* The larger of two errors, or NaN if one of them is NaN: fmax() would return the other, and a
 * comparison of the result with a tolerance would pass. */
static inline double t_worst(double worst, double error) {
    return isnan(worst) || error <= worst ? worst : error;
}

/* Prints the last line. Returns the exit status. */
int t_end(void);

#endif
