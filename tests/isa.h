/* tests/isa.h — the instruction sets of this architecture. */
#ifndef TESTS_ISA_H
#define TESTS_ISA_H

#include <stdbool.h>

#include "sim/kernels/isa.h"

static inline bool of_this_architecture(int isa) {
#if defined __aarch64__
    return isa == QR_ISA_NEON;
#else
    return isa != QR_ISA_NEON;
#endif
}

#endif
