/* Gloo's all-reduce, timed like tests/bench/bench_allreduce.c: equal sizes, 8-byte integers summed in place, back to
 * back.
 *
 *   allreduce_gloo RANKS ring|bcube|halving BYTES...
 *
 * Rank 0 prints one JSON line per size. Ranks are forks on loopback.
 */
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "tests/bench/peers/allreduce_runs.h"

static void add(void *out, const void *a, const void *b, size_t n) { gloo::sum<int64_t>(out, a, b, n); }

static int run(const std::string &dir, int rank, int n, const std::string &how, const std::vector<size_t> &sizes) {
    gloo::transport::tcp::attr attr;
    attr.iface = "lo";
    auto device = gloo::transport::tcp::CreateDevice(attr);
    gloo::rendezvous::FileStore store(dir);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, n);
    context->connectFullMesh(store, device);
    for (size_t bytes : sizes) {
        size_t len = bytes / sizeof(int64_t);
        std::vector<int64_t> v(len);
        std::vector<int64_t> ns(MOST_RUNS);
        int runs = runs_of(bytes);
        struct used before = {};
        gloo::AllreduceOptions options(context);
        options.setOutput(v.data(), len);
        options.setReduceFunction(add);
        options.setAlgorithm(how == "bcube" ? gloo::AllreduceOptions::Algorithm::BCUBE : gloo::AllreduceOptions::Algorithm::RING);
        std::unique_ptr<gloo::AllreduceHalvingDoubling<int64_t>> halving;
        if (how == "halving") halving.reset(new gloo::AllreduceHalvingDoubling<int64_t>(context, {v.data()}, (int)len));
        for (int i = -WARM_UP; i < runs; i++) {
            for (size_t k = 0; i == -WARM_UP && k < len; k++) v[k] = (int64_t)k + rank;
            if (i == 0) before = used_so_far();
            int64_t start = now_ns();
            if (halving) halving->run();
            else gloo::allreduce(options);
            if (i >= 0) ns[(size_t)i] = now_ns() - start;
            for (size_t k = 0; i == -WARM_UP && k < len; v[k++] = 0)
                if (v[k] != n * (int64_t)k + (int64_t)n * (n - 1) / 2) return fprintf(stderr, "gloo: wrong sum\n"), 1;
        }
        if (rank == 0) print_line("gloo", n, bytes, how.c_str(), ns.data(), runs, before);
    }
    usleep(300000); /* A rank that exits breaks the connections of ranks that have not finished. */
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 4) return fprintf(stderr, "usage: allreduce_gloo RANKS ring|bcube|halving BYTES...\n"), 2;
    int n = atoi(argv[1]), bad = 0;
    std::string how = argv[2];
    std::vector<size_t> sizes;
    for (int a = 3; a < argc; a++) sizes.push_back((size_t)strtoull(argv[a], NULL, 10));
    char dir[] = "/tmp/gloo.XXXXXX";
    if (!mkdtemp(dir)) return perror("mkdtemp"), 1;
    for (int r = 0; r < n; r++)
        if (fork() == 0) _exit(run(dir, r, n, how, sizes));
    for (int r = 0, status; r < n; r++)
        if (wait(&status) > 0 && status != 0) bad = 1;
    std::string clean = std::string("rm -rf ") + dir;
    return system(clean.c_str()) != 0 || bad;
}
