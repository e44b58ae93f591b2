/* tests/cluster_sim/sim.h — what both simulators (world.h, cluster.h) use: random numbers and
 * numbers from the environment. */
#ifndef TESTS_CLUSTER_SIM_SIM_H
#define TESTS_CLUSTER_SIM_SIM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SplitMix64's finalizer: a hash, and a generator whose number is its next state. */
static inline uint64_t mix(uint64_t z) {
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
static inline uint64_t number_from_env(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

#endif
