/* A plan's report against its execution: operations of the kernels, bytes that they touch, memory
 * that is allocated, and its text. This program replaces the library's portable table by one of its
 * own: the kernels' template over a scalar that counts, so that all operations of the engines are
 * counted, in the amplitudes' precision and in the tail's. A call's operations must be those of its
 * shape, and their sum those of the report. Above 12 qubits counting each operation would take
 * minutes: there the calls' shapes are summed, and the machine's fastest table computes. */
#include "sim/cones/cones_impl.h"
#include "sim/report/report_build.h"
#include "sim/sim.h"
#include "sim/statevector/statevector_impl.h"
#include "sim/streaming/streaming_impl.h"
#include "tests/ref/problem.h"
#include "tests/support/counted_kernels.h"
#include "tests/t.h"

#include <math.h>

/* ---- lasting allocations, by base/mem.h's functions ---- */

static size_t allocated;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { ALLOCATIONS_SEEN = 0 };
#else
enum { ALLOCATIONS_SEEN = 1, RECENT = 64 };
static struct {
    void *p;
    size_t n;
} recent[RECENT]; /* from calloc: some are freed at once */
static size_t n_recent;
void *__libc_calloc(size_t count, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);
__attribute__((visibility("default"))) void *calloc(size_t count, size_t n) {
    void *p = __libc_calloc(count, n);
    allocated += count * n;
    recent[n_recent % RECENT].p = p;
    recent[n_recent++ % RECENT].n = count * n;
    return p;
}
__attribute__((visibility("default"))) int posix_memalign(void **ret, size_t align, size_t n) {
    allocated += n;
    *ret = __libc_memalign(align, n);
    return *ret ? 0 : 12;
}
__attribute__((visibility("default"))) void free(void *p) {
    for (size_t i = 0; p && i < RECENT; i++) {
        if (recent[i].p != p) continue;
        allocated -= recent[i].n;
        recent[i].p = NULL;
    }
    __libc_free(p);
}
#endif

/* ---- a plan and its execution ---- */

static size_t n_cases;
static const uint8_t *inputs; /* inputs whose derivatives are computed too, or NULL */

/* All byte counts are exact; operation counts too, where the kernels count. */
static void check_plan(const struct problem *p, enum qr_engine engine, enum qr_precision precision,
                       bool known, bool count, const char *wanted) {
    struct qr_err err;
    struct qr_sim_options opt = {
        .precision = precision, .isa = QR_ISA_PORTABLE, .engine = engine, .wanted = inputs};
    struct qr_sim_plan *plan = NULL;
    struct qr_sim_workspace *ws = NULL;
    double z[MAX_SAMPLES * MAX_OBS], dx[MAX_SAMPLES * MAX_COLUMNS];
    qr_fixed grad[MAX_PARAMS] = {0};
    unsigned n = p->c->n_qubits;
    counts = count;
    for (int k = 0; k < 2; k++)
        real[k] = count || qr_isa_best() == QR_ISA_PORTABLE
                      ? k ? &f64_table : &f32_table
                      : qr_kernels_of(qr_isa_best(), (enum qr_precision)k);
    CHECK(qr_sim_compile(p->c, p->obs, p->n_obs, &opt, &plan, &err) == QR_OK, "%s", err.msg);
    CHECK(!wanted || strcmp(qr_sim_facts(plan).engine, wanted) == 0, "n %u: %s", n, plan->why);
    allocated = 0;
    CHECK(qr_sim_workspace_new(plan, p->n_samples, &ws, &err) == QR_OK, "%s", err.msg);
    size_t heads = plan->stream  ? sizeof(struct qr_stream_workspace)
                   : plan->cones ? sizeof(struct cones_workspace)
                                 : sizeof(struct qr_statevector_workspace),
           said = qr_sim_bytes_per_thread(plan, p->n_samples) + heads;
    CHECK(!ALLOCATIONS_SEEN || said == allocated,
          "n %u %s: a workspace takes %zu bytes, the plan reports %zu", n, plan->why, allocated,
          said);
    allocated = 0;
    struct qr_sim_bound *b = qr_sim_bound_new(plan);
    heads =
        sizeof *b + (plan->stream ? sizeof *b->stream : 0) + (plan->cones ? sizeof *b->cones : 0);
    said = qr_sim_bound_bytes(plan) + heads;
    CHECK(!ALLOCATIONS_SEEN || said == allocated,
          "n %u %s: numbers of a step take %zu bytes, the plan reports %zu", n, plan->why,
          allocated, said);

    struct qr_sim_report *r = qr_sim_report_new(
        plan, &(struct qr_sim_report_options){.n_samples = p->n_samples, .head_known = known});
    double flop[3] = {0}, bytes[3] = {0}; /* by stage of execution */
    for (size_t i = 0; i < r->n_stages; i++) {
        flop[r->stages[i].when] += r->stages[i].flop;
        bytes[r->stages[i].when] += r->stages[i].bytes;
    }
    CHECK(r->workspace_bytes == qr_sim_bytes_per_thread(plan, p->n_samples) &&
              flop[QR_EACH_MICRO_BATCH] == r->flop && bytes[QR_EACH_MICRO_BATCH] == r->bytes,
          "n %u", n);
    sum_operations = sum_bytes = wrong_calls = 0;
    qr_sim_bind(b, p->theta, NULL);
    CHECK(2 * sum_operations == flop[QR_EACH_STEP] && sum_bytes == bytes[QR_EACH_STEP],
          "n %u: a bind takes %.17g flop, %.17g bytes; the plan reports %.17g, %.17g", n,
          2 * sum_operations, sum_bytes, flop[QR_EACH_STEP], bytes[QR_EACH_STEP]);
    for (int again = 0; again < 2; again++) {
        double want_flop = flop[QR_EACH_MICRO_BATCH] + (again ? 0 : flop[QR_ONCE]),
               want_bytes = bytes[QR_EACH_MICRO_BATCH] + (again ? 0 : bytes[QR_ONCE]);
        uint64_t before = operations;
        sum_operations = sum_bytes = 0;
        qr_sim_forward_for_gradient(b, ws, NULL, p->x, p->c->n_columns, p->n_samples,
                                    known ? p->direction : NULL, z);
        CHECK(qr_sim_backward(b, ws, NULL, p->direction, p->scale, grad, dx));
        CHECK(fabs(2 * sum_operations - want_flop) <= 1e-9 * want_flop,
              "n %u %s: %.17g flop by the calls' shapes, the plan reports %.17g", n, plan->why,
              2 * sum_operations, want_flop);
        CHECK(fabs(sum_bytes - want_bytes) <= 1e-9 * want_bytes,
              "n %u %s: %.17g bytes, the plan reports %.17g", n, plan->why, sum_bytes, want_bytes);
        CHECK(!count || fabs(2 * (double)(operations - before) - want_flop) <= 1e-9 * want_flop,
              "n %u %s: counted %.17g flop, the plan reports %.17g", n, plan->why,
              2 * (double)(operations - before), want_flop);
    }
    CHECK(!wrong_calls, "n %u: %u calls of kernels did other operations than their shapes imply", n,
          wrong_calls);
    n_cases++;
    qr_sim_report_free(r);
    qr_sim_workspace_free(ws);
    qr_sim_bound_free(b);
    qr_sim_plan_free(plan);
}

/* With a direction for each sample, then with one for all samples that is known in advance. */
static void check_orders(struct problem *p, enum qr_engine engine, enum qr_precision precision,
                         bool count, const char *wanted) {
    check_plan(p, engine, precision, false, count, wanted);
    for (size_t i = 1; i < p->n_samples; i++)
        memcpy(p->direction + i * p->n_obs, p->direction, p->n_obs * sizeof *p->direction);
    check_plan(p, engine, precision, true, count, wanted);
}

static void check_streaming(unsigned n, unsigned stages, enum kind kind, size_t samples,
                            enum qr_precision precision, bool count) {
    struct problem p = case_of(n, stages, kind, samples);
    check_orders(&p, QR_ENGINE_STREAMING, precision, count, "streaming");
    problem_fini(&p);
}

/* Every sample has different angles, so no two items are equal: the report's figures are exact. */
static void check_cones(unsigned n, unsigned stages, enum kind kind, size_t samples,
                        enum qr_precision precision) {
    struct problem p = case_of(n, stages, kind, samples);
    check_orders(&p, QR_ENGINE_CONES, precision, true, "cones");
    problem_fini(&p);
}

static void check_statevector(unsigned n, unsigned stages, size_t samples, bool count) {
    struct problem p = case_of(n, stages, stages ? EACH : LAST, samples);
    check_orders(&p, QR_ENGINE_STATEVECTOR, QR_SINGLE, count, "statevector");
    problem_fini(&p);
}

/* Gates of all kinds, with controls; a read-out of a few terms, and one of many terms that flip the
 * same qubits. */
static void check_random(unsigned n, uint64_t seed, size_t samples) {
    struct problem p = {
        .c = ref_random_circuit(seed, n, 40 + 2 * n), .n_obs = 2, .n_samples = samples};
    p.obs[0] = ref_random_observable(seed, n);
    p.obs[1] = ref_alike_observable(seed, n, n % 3 ? 70 : 1);
    problem_alloc(&p, p.c->n_columns);
    ref_random_numbers(seed, p.c->n_params, 0, 6.28, p.theta);
    ref_random_numbers(seed + 1, samples * p.c->n_columns, -2, 2, p.x);
    ref_random_numbers(seed + 2, samples * 2, -1, 1, p.direction);
    ref_random_numbers(seed + 3, samples, -2, 2, p.scale);
    check_orders(&p, QR_ENGINE_STATEVECTOR, n % 2 ? QR_DOUBLE : QR_SINGLE, n < 12, "statevector");
    problem_fini(&p);
}

/* ---- text, and the reason for an engine ---- */

static void check_words(const struct problem *p, enum qr_engine engine, const char *const *want,
                        size_t n_want) {
    struct qr_sim_options opt = {
        .precision = QR_SINGLE, .isa = QR_ISA_PORTABLE, .engine = engine, .wanted = inputs};
    struct qr_sim_plan *plan = NULL;
    struct qr_err err;
    struct qr_buf text = {0}, flat = {0};
    CHECK(qr_sim_compile(p->c, p->obs, p->n_obs, &opt, &plan, &err) == QR_OK, "%s", err.msg);
    struct qr_sim_report *r =
        qr_sim_report_new(plan, &(struct qr_sim_report_options){.n_samples = 1});
    qr_sim_report_text(r, true, &text);
    for (const char *c = qr_buf_string(&text); *c; c++) /* join wrapped lines */
        if (*c != '\n') qr_buf_printf(&flat, "%c", *c);
        else if (strncmp(c + 1, "            ", 12) == 0) c += 12, qr_buf_puts(&flat, " ");
        else qr_buf_puts(&flat, "\n");
    for (size_t i = 0; i < n_want; i++)
        CHECK(strstr(qr_buf_string(&flat), want[i]), "n %u: no \"%s\" in\n%s", p->c->n_qubits,
              want[i], qr_buf_string(&flat));
    qr_buf_free(&text);
    qr_buf_free(&flat);
    qr_sim_report_free(r);
    qr_sim_plan_free(plan);
}

static void check_case(unsigned n, unsigned stages, enum kind kind, enum qr_engine engine,
                       const char *const *want, size_t n_want) {
    struct problem p = case_of(n, stages, kind, 1);
    check_words(&p, engine, want, n_want);
    problem_fini(&p);
}

/* A QCNN with one more gate at its end. */
static void check_rejected(unsigned n, const struct qr_gate *more, const char *reason) {
    struct problem p = case_of(n, 0, LAST, 1);
    struct qr_err err;
    CHECK(qr_circuit_add(p.c, more, &err) == QR_OK, "%s", err.msg);
    check_words(&p, QR_ENGINE_AUTO, (const char *const[]){"statevector engine", reason}, 2);
    problem_fini(&p);
}

static void check_texts(void) {
    static const char *const pure_8[] = {"16 samples",
                                         "layer 1   qubits 0-7: 4 fused gates",
                                         "0-3 are traced out by the pool onto 4-7",
                                         "matrix of 16 x 16",
                                         "one read-out: lambda's direction is known",
                                         "8 one-qubit gates and 8 CZ"};
    static const char *const pure_16[] = {
        "a table of 2^8 (qubits 0-7) times one of 2^8 (8-15) for 4 outcomes, 16 products",
        "256 of 2^8 amplitudes", "layer 2   qubits 8-15",
        "8-11 are traced out by the pool onto 12-15", "tail      4 qubits"};
    static const char *const hybrid_15[] = {"for 1 outcome, 8 products", "across the cut: 6-7;",
                                            "read-outs of Z only", "read-outs first"};
    static const char *const shared_24[] = {"all threads share the slices of one sample"};
    static const char *const asked[] = {"statevector engine", "requested by name",
                                        "forward and read-outs, then the head"};
    static const char *const small[] = {"statevector engine",
                                        "7 qubits: streaming supports 8 to 36"};
    static const char *const cones_15[] = {
        "cones engine", "each read-out term depends on at most 12 qubits",
        "8 terms, 5 distinct cones of at most 12 qubits", "16 items side by side"};
    check_case(8, 0, LAST, QR_ENGINE_AUTO, pure_8, COUNT(pure_8));
    check_case(16, 0, LAST, QR_ENGINE_AUTO, pure_16, COUNT(pure_16));
    check_case(15, 1, EACH, QR_ENGINE_STREAMING, hybrid_15, COUNT(hybrid_15));
    check_case(15, 1, EACH, QR_ENGINE_AUTO, cones_15, COUNT(cones_15));
    check_case(24, 0, LAST, QR_ENGINE_AUTO, shared_24, COUNT(shared_24));
    check_case(8, 0, LAST, QR_ENGINE_STATEVECTOR, asked, COUNT(asked));
    check_case(7, 0, LAST, QR_ENGINE_AUTO, small, COUNT(small));
    const struct qr_gate data = {.kind = QR_GATE_X,
                                 .n_targets = 1,
                                 .n_args = 1,
                                 .targets = {8},
                                 .args = {{QR_ARG_DATA, 1, 0}}};
    check_rejected(9, &data, "(X) uses data after the preparation");
    const struct qr_gate onto_a_source = {.kind = QR_GATE_ZZ,
                                          .n_targets = 2,
                                          .n_args = 1,
                                          .targets = {0, 11},
                                          .args = {{QR_ARG_CONSTANT, 0.3, 0}}};
    check_rejected(12, &onto_a_source, "after 0 layers there is no pool");
}

/* Plans with derivatives by all inputs, or by every second one. */
static void check_inputs(unsigned top) {
    uint8_t some[MAX_COLUMNS];
    inputs = some;
    for (unsigned turn = 0; turn < 2; turn++) {
        for (unsigned i = 0; i < MAX_COLUMNS; i++) some[i] = !turn || i % 2;
        for (unsigned n = 8; n <= 16 && n <= top; n += 4)
            check_cones(n, 1, EACH, 1 + n % 5, QR_SINGLE);
        check_cones(10, 1, MIXED, 17, QR_SINGLE);
        for (unsigned n = 8; n <= 13 && n <= top; n += 1 + n / 10) {
            check_statevector(n, 1, n <= 11 ? 17 : 2, n < 10);
            check_random(n, 170 + n, n <= 11 ? 18 : 2);
        }
    }
    static const char
        *const cones[] = {"cones engine", "equal data and no input derivatives are computed",
                          "inputs    derivatives with respect to 7 of 15 data columns"},
               *const statevector[] = {"statevector engine",
                                       "why       derivatives with respect to inputs are required",
                                       "inputs    derivatives with respect to 4 of 8 data columns"};
    check_case(15, 1, EACH, QR_ENGINE_AUTO, cones, COUNT(cones));
    check_case(8, 0, LAST, QR_ENGINE_AUTO, statevector, COUNT(statevector));
    inputs = NULL;
}

/* Streaming memory is O(2^(n/2)). 32 qubits with as many threads as there are CPUs, up to four. */
static void check_memory(void) {
    size_t last = 0;
    for (unsigned n = 12; n <= 36; n++) {
        struct problem p = case_of(n, 0, LAST, 1);
        struct qr_sim_options opt = {
            .precision = QR_SINGLE, .isa = QR_ISA_PORTABLE, .engine = QR_ENGINE_AUTO};
        struct qr_sim_plan *plan = NULL;
        struct qr_err err;
        CHECK(qr_sim_compile(p.c, p.obs, 1, &opt, &plan, &err) == QR_OK, "%s", err.msg);
        size_t bytes = qr_sim_bytes_per_thread(plan, 1);
        CHECK(plan->stream && bytes > last / 2, "n %u", n);
        if (n == 24) CHECK(bytes < (size_t)32 << 20, "%zu bytes", bytes);
        if (n == 32 && qr_cpu_limit() <= 4)
            CHECK(bytes <= (size_t)200 * 1000 * 1000, "%zu bytes", bytes);
        last = bytes;
        qr_sim_plan_free(plan);
        problem_fini(&p);
    }
}

/* The statevector engine takes two state vectors and 5 % for two threads, in a circuit of ten
 * layers whose angles are all parameters. */
static void check_state_memory(void) {
    const unsigned n = 20;
    struct qr_circuit *c = qr_circuit_new(n, 0);
    struct qr_observable obs;
    struct qr_err err;
    for (unsigned i = 0; i < 10 * 2 * n; i++) {
        unsigned q = i % n;
        char name[16];
        snprintf(name, sizeof name, "w%u", i);
        bool pairs = i / n % 2 == 0;
        struct qr_gate g = {.kind = pairs ? QR_GATE_ZZ : QR_GATE_X,
                            .n_targets = pairs ? 2 : 1,
                            .n_args = 1,
                            .targets = {(uint16_t)q, (uint16_t)(pairs ? (q + 1) % n : 0)},
                            .args = {{QR_ARG_PARAMETER, 1, 0}}};
        g.args[0].index = (uint32_t)qr_circuit_param(c, name);
        CHECK(qr_circuit_add(c, &g, &err) == QR_OK, "%s", err.msg);
    }
    CHECK(qr_observable_parse("Z0 Z1 + X3 + X19", n, &obs, &err) == QR_OK, "%s", err.msg);
    struct qr_sim_options opt = {
        .precision = QR_SINGLE, .isa = QR_ISA_PORTABLE, .engine = QR_ENGINE_STATEVECTOR};
    struct qr_sim_plan *plan = NULL;
    CHECK(qr_sim_compile(c, &obs, 1, &opt, &plan, &err) == QR_OK, "%s", err.msg);
    double states = (double)((size_t)16 << n), bytes = (double)qr_sim_bytes_per_thread(plan, 1);
    if (qr_cpu_limit() > 2) SKIP("memory at 20 qubits: this machine has more than two processors");
    else CHECK(bytes <= 1.05 * states, "%.2f %% above two states", 100 * (bytes / states - 1));
    qr_sim_plan_free(plan);
    qr_observable_fini(&obs);
    qr_circuit_free(c);
}

int main(void) {
    unsigned top = t_qubits();
    for (unsigned n = 8; n <= 20 && n <= top; n++) {
        size_t samples = n <= 11 ? 17 : n <= 16 ? 2 : 1;
        check_streaming(n, 0, LAST, samples, QR_SINGLE, n <= 12);
        check_streaming(n, 1, EACH, samples, n % 2 ? QR_DOUBLE : QR_SINGLE, n <= 12);
    }
    check_streaming(10, 1, MIXED, 5, QR_SINGLE, true);
    check_streaming(12, 2, EACH, 1, QR_DOUBLE, true);
    if (top >= 21) check_streaming(21, 0, LAST, 1, QR_SINGLE, false);
    for (unsigned n = 8; n <= 14 && n <= top; n++) {
        check_statevector(n, 0, n <= 11 ? 17 : 2, n < 10);
        check_statevector(n, 1, n <= 11 ? 16 : 1, n < 10);
    }
    for (unsigned n = 8; n <= 20 && n <= top; n++)
        check_cones(n, 1, EACH, 1 + n % 5, n % 2 ? QR_DOUBLE : QR_SINGLE);
    check_cones(10, 1, MIXED, 17, QR_SINGLE);
    check_cones(9, 2, EACH, 2, QR_SINGLE);
    for (unsigned n = 2; n <= 14 && n <= top; n++) check_random(n, 70 + n, n <= 11 ? 18 : 2);
    check_inputs(top);
    check_texts();
    check_memory();
    check_state_memory();
    printf("%zu plans\n", n_cases);
    return t_end();
}
