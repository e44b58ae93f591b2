/* The all-reduce of OpenMPI, timed as tests/bench/bench_allreduce.c times ours: the same bytes,
 * 8-byte integers summed in place, back to back.
 *
 *   mpirun -np N ... allreduce_mpi BYTES...        one JSON line per size, from rank 0
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/peers/allreduce_runs.h"

int main(int argc, char **argv) {
    int rank, n;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    for (int a = 1; a < argc; a++) {
        size_t bytes = (size_t)strtoull(argv[a], NULL, 10), len = bytes / sizeof(int64_t);
        int64_t *v = malloc(bytes);
        static int64_t ns[MOST_RUNS];
        int runs = runs_of(bytes);
        struct used before = {0};
        for (int i = -WARM_UP; i < runs; i++) {
            for (size_t k = 0; i == -WARM_UP && k < len; k++) v[k] = (int64_t)k + rank;
            if (i == 0) before = used_so_far();
            int64_t start = now_ns();
            MPI_Allreduce(MPI_IN_PLACE, v, (int)len, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
            if (i >= 0) ns[i] = now_ns() - start;
            for (size_t k = 0; i == -WARM_UP && k < len; v[k++] = 0)
                if (v[k] != n * (int64_t)k + (int64_t)n * (n - 1) / 2)
                    return fprintf(stderr, "openmpi: wrong sum\n"), 1;
        }
        if (rank == 0) print_line("openmpi", n, bytes, "auto", ns, runs, before);
        free(v);
    }
    MPI_Finalize();
    return 0;
}
