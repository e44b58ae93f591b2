/* qring's side of tests/bench/peers: gradients of a batch, one repetition each time it is told to.
 *
 * gradient THREADS reads one request a line and answers each with one line of JSON (talk.py has the
 * other sides):
 *   open FILE   makes the case that FILE describes (cases.py) and runs it once
 *   run MS      gradients, one after the other, until MS milliseconds have passed, at least one:
 *               mean nanoseconds of one, by the clock and of processor time, and what the machine's
 *               multiply-adds gave before
 *   result      what the last one computed: mean loss and its gradient */
#include "base/parse.h"
#include "tests/bench/gradient.h"
#include "tests/bench/peak.h"

#include <errno.h>

enum { MAX_LINE = 1 << 16, MAX_BATCH = 1024, MAX_NUMBERS = 1024 };

struct sample {
    unsigned qubit;
    double angle, label;
};
struct numbers {
    struct gradient_case k;
    double params[MAX_NUMBERS];
    size_t n_params;
    struct sample samples[MAX_BATCH];
};

static _Noreturn void stop(const char *what, const char *detail) {
    fprintf(stderr, "gradient: %s: %s\n", what, detail);
    exit(1);
}

static unsigned whole(const char *text, unsigned most) {
    uint64_t v = 0;
    if (!text || !qr_parse_u64(text, &v) || v > most)
        stop("no number in its range", text ? text : "nothing");
    return (unsigned)v;
}

static double real(const char *text) {
    double v = 0;
    if (!text || !qr_parse_double(text, &v)) stop("no number", text ? text : "nothing");
    return v;
}

static const char *next(char **rest) { return strsep(rest, " \n"); }

static void read_line(struct numbers *c, char *line) {
    char *rest = line;
    const char *key = next(&rest), *word = next(&rest);
    if (!word) stop("half a line in the case", key);
    if (strcmp(key, "kind") == 0)
        c->k.kind =
            strcmp(word, gradient_names[GRADIENT_PURE]) == 0 ? GRADIENT_PURE : GRADIENT_HYBRID;
    else if (strcmp(key, "qubits") == 0) c->k.n = whole(word, QR_MAX_QUBITS);
    else if (strcmp(key, "engine") == 0)
        c->k.engine = strcmp(word, "statevector") == 0 ? QR_ENGINE_STATEVECTOR : QR_ENGINE_AUTO;
    else if (strcmp(key, "weights") == 0) {
        for (; word && *word && c->n_params < MAX_NUMBERS; word = next(&rest))
            c->params[c->n_params++] = real(word);
    } else if (strcmp(key, "sample") == 0 && c->k.n > 0 && c->k.batch < MAX_BATCH) {
        struct sample *s = &c->samples[c->k.batch++];
        s->qubit = whole(word, c->k.n - 1);
        s->angle = real(next(&rest));
        s->label = real(next(&rest));
    } else stop("unknown line in the case", key);
}

static struct gradient *open_case(const char *path, unsigned threads) {
    static char line[MAX_LINE];
    static struct numbers c;
    c = (struct numbers){.k = {.threads = threads, .isa = qr_isa_best(), .part = 1}};
    FILE *f = fopen(path, "r");
    if (!f) stop(path, strerror(errno));
    while (fgets(line, sizeof line, f)) read_line(&c, line);
    fclose(f);
    if (c.k.batch == 0) stop(path, "no samples");
    struct gradient *g = gradient_new(&c.k);
    if (qr_model_n_params(g->model) != c.n_params)
        stop(path, "another number of weights than the model has");
    memcpy(g->params, c.params, c.n_params * sizeof *g->params);
    memset(g->x, 0, c.k.batch * c.k.n * sizeof *g->x);
    for (size_t i = 0; i < c.k.batch; i++) {
        g->x[i * c.k.n + c.samples[i].qubit] = c.samples[i].angle;
        g->y[i] = c.samples[i].label;
    }
    gradient_run(g);
    struct qr_sim_facts facts = qr_sim_facts(qr_model_plan(g->model));
    printf("{\"table\": \"%s\", \"engine\": \"%s\", \"flops\": %.0f}\n", qr_isa_name(c.k.isa),
           facts.engine, facts.flop_per_gradient);
    return g;
}

static void answer_run(struct gradient *g, unsigned ms) {
    double gflops = peak_gflops(g->pool, g->k.isa, QR_SINGLE, 48);
    int64_t cpu_ns = bench_cpu_ns(), start_ns = bench_now_ns(), took_ns;
    int count = 0;
    do {
        gradient_run(g);
        count++;
        took_ns = bench_now_ns() - start_ns;
    } while (took_ns < (int64_t)ms * 1000000);
    cpu_ns = bench_cpu_ns() - cpu_ns;
    printf("{\"ns\": %.1f, \"cpu_ns\": %.1f, \"gflops_ceiling\": %.1f}\n", (double)took_ns / count,
           (double)cpu_ns / count, gflops);
}

static void answer_result(struct gradient *g) {
    size_t n_sums = qr_model_n_sums(g->model), n = qr_model_n_params(g->model);
    double batch = (double)g->k.batch;
    for (unsigned i = 1; i < g->n_lanes; i++) {
        qr_fixed *lane = g->values + i * g->n_values;
        qr_fixed_add(g->values, lane, g->n_values);
        memset(lane, 0, g->n_values * sizeof *lane);
    }
    printf("{\"loss\": %.9g, \"gradient\": [", qr_fixed_to_double(g->values[0]) / batch);
    for (size_t i = 0; i < n; i++)
        printf("%s%.9g", i ? ", " : "", qr_fixed_to_double(g->values[n_sums + i]) / batch);
    printf("]}\n");
}

int main(int argc, char **argv) {
    static char line[MAX_LINE];
    unsigned threads = argc > 1 ? whole(argv[1], 256) : 1;
    struct gradient *g = NULL;
    while (fgets(line, sizeof line, stdin)) {
        char *rest = line;
        const char *word = next(&rest), *argument = strsep(&rest, "\n");
        if (strcmp(word, "open") == 0 && argument) {
            if (g) gradient_free(g);
            g = open_case(argument, threads);
        } else if (strcmp(word, "run") == 0 && g) answer_run(g, whole(argument, 100000));
        else if (strcmp(word, "result") == 0 && g) answer_result(g);
        else stop("unknown request", word);
        fflush(stdout);
    }
    if (g) gradient_free(g);
    return 0;
}
