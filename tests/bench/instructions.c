/* The cases of tests/bench/counts, run under callgrind one after the other, each warmed up once.
 * One thread, AVX2 kernels (callgrind does not support AVX-512): the same instructions on every
 * machine, whatever its load.
 *
 *   instructions              all cases
 *   instructions CASE TIMES   one case, repeated: twice simulates a slowdown
 *   instructions names        names of the cases in order; nothing if the CPU lacks AVX2 */
#include <string.h>

#include "base/file.h"
#include "exact/integer.h"
#include "format/json.h"
#include "tests/bench/gradient.h"

enum { MEGABYTE = 1 << 20, NUMBERS = MEGABYTE / QR_FIXED_BYTES };

/* Instructions are counted while this function is on the stack. */
__attribute__((noinline)) void measured(void (*work)(void *), void *ctx, long times);
void measured(void (*work)(void *), void *ctx, long times) {
    for (long i = 0; i < times; i++) work(ctx);
}
static void count(void (*work)(void *), void *ctx, long times) {
    work(ctx);
    measured(work, ctx, times);
}

static void gradient_work(void *ctx) { gradient_run(ctx); }
static void count_gradient(unsigned n, size_t batch, enum qr_engine engine, enum gradient_kind kind,
                           long times) {
    struct gradient_case k = {kind, n, batch, 1, QR_ISA_AVX2, engine, 1};
    struct gradient *g = gradient_new(&k);
    count(gradient_work, g, times);
    gradient_free(g);
}
static void pure_8(long times) { count_gradient(8, 64, QR_ENGINE_AUTO, GRADIENT_PURE, times); }
static void hybrid_8(long times) { count_gradient(8, 64, QR_ENGINE_AUTO, GRADIENT_HYBRID, times); }
static void hybrid_20(long times) {
    count_gradient(20, 64, QR_ENGINE_AUTO, GRADIENT_HYBRID, times);
}
static void pure_12(long times) { count_gradient(12, 1, QR_ENGINE_AUTO, GRADIENT_PURE, times); }
static void pure_16(long times) { count_gradient(16, 1, QR_ENGINE_AUTO, GRADIENT_PURE, times); }
static void statevector_8(long times) {
    count_gradient(8, 16, QR_ENGINE_STATEVECTOR, GRADIENT_PURE, times);
}
static void statevector_12(long times) {
    count_gradient(12, 1, QR_ENGINE_STATEVECTOR, GRADIENT_PURE, times);
}

struct sums {
    qr_fixed *acc;
    uint8_t *wire;
    double *values;
    bool ok;
};
static void add_work(void *ctx) {
    struct sums *s = ctx;
    /* Unaligned, as in a message. */
    qr_fixed_add_bytes(s->acc, s->wire + 1, NUMBERS);
}
static void exact_work(void *ctx) {
    struct sums *s = ctx;
    if (!qr_fixed_add_doubles(s->acc, s->values, NUMBERS)) s->ok = false;
}
static void count_sums(void (*work)(void *), long times) {
    struct sums s = {qr_xcalloc(NUMBERS, QR_FIXED_BYTES), qr_xcalloc(1, MEGABYTE + 1),
                     qr_xcalloc(NUMBERS, sizeof(double)), true};
    for (size_t i = 0; i < NUMBERS; i++) s.values[i] = (double)(i * 7919 % 1000) / 1000 - 0.5;
    count(work, &s, times);
    if (!s.ok) exit(1);
    free(s.acc);
    free(s.wire);
    free(s.values);
}
static void wire_add(long times) { count_sums(add_work, times); }
static void exact_add(long times) { count_sums(exact_work, times); }

static void json_work(void *ctx) {
    const struct qr_buf *text = ctx;
    struct qr_json *root = NULL;
    struct qr_err err;
    gradient_must(qr_json_parse(qr_buf_view(text), "qcnn.json", &root, &err), &err);
    qr_json_free(root);
}
static void json(long times) {
    struct qr_err err;
    struct qr_buf text = {0};
    gradient_must(qr_file_read("deploy/jobs/qcnn.json", 1 << 20, &text, &err), &err);
    count(json_work, &text, times);
    qr_buf_free(&text);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(long times);
    } cases[] = {
        {"json-parse-tutorial",
         json}, /* first, because its count depends on the state of the heap */
        {"gradient-pure-8-batch-64", pure_8},
        {"gradient-hybrid-8-batch-64", hybrid_8},
        {"gradient-hybrid-20-batch-64", hybrid_20},
        {"gradient-pure-12", pure_12},
        {"gradient-pure-16", pure_16},
        {"gradient-statevector-8-batch-16", statevector_8},
        {"gradient-statevector-12", statevector_12},
        {"allreduce-add-1MiB", wire_add},
        {"exact-sum-1MiB", exact_add},
    };
    if (!qr_isa_available(QR_ISA_AVX2)) return 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (argc == 2) puts(cases[i].name);
        else if (argc < 2 || strcmp(argv[1], cases[i].name) == 0)
            cases[i].run(argc > 2 ? strtol(argv[2], NULL, 10) : 1);
    }
    return 0;
}
