/* cmd/qring/sample.c — qring sample: bit strings drawn from a circuit's final states. Start reading
 * at qr_command_sample(). */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "cmd/qring/command.h"
#include "exact/random.h"
#include "store/store.h"

const char qr_help_sample[] =
    "Bit strings drawn from the final states of a job's first circuit, one state for each sample "
    "of the\n"
    "training data. Qubit 0 is the first digit, bit 0 that of the measured bits, if the circuit "
    "has\n"
    "any. The same seed gives the same strings; with noise each is of a trajectory of its own.\n"
    "\n"
    "Examples:\n"
    "  qring sample qaoa.json --weights out/qaoa/weights.h5 --shots 1000 --counts\n"
    "  qring sample job.json --samples 0,3 --format json\n"
    "\n"
    "Usage: qring sample [JOB] [FLAGS]\n"
    "  --weights URL          .h5, .npz or .safetensors file [the job's initial weights]\n"
    "  --samples 0,3          positions in the training set before shuffling [0]\n"
    "  --shots N              strings of each sample, 1 to 2^24 [1000]\n"
    "  --counts               count equal strings, in the order of their numbers\n"
    "  --format csv|json      output format [csv]\n"
    "  --out FILE             path or URL, written at once [standard output]\n"
    "  --set PATH=VALUE       set a key of the job, repeatable\n"
    "  --seed N               random seed, as --set seed=N\n"
    "  --isa NAME             kernels [auto]: auto, portable, avx2, avx512 or neon; all give the "
    "same bits\n"
    "  --threads T            number of threads [the available CPUs]\n";

enum { MAX_SHOTS = 1 << 24 };

struct sampling {
    const char *weights, *samples, *shots, *format, *out, *isa, *threads;
    bool counts;
    struct qr_loaded l;
    const struct qr_quantum_options *circuit;
    size_t layer, n;
    size_t *sample;
    unsigned n_shots;
    struct drawn *drawn; /* n * n_shots */
};

enum { CHUNK = 1 << 16 };
struct drawn {
    uint64_t string, bits; /* bits: those that measurements set */
};

/* ---- strings ---- */

static enum qr_code sampling_find_circuit(struct sampling *s, struct qr_err *err) {
    const struct qr_job *job = s->l.job;
    s->layer = qr_job_quantum(job, 0);
    if (s->layer == job->n_layers)
        return qr_fail(err, QR_INVALID_ARGUMENT, "the job has no quantum layer to sample");
    s->circuit = &job->layers[s->layer].quantum;
    if (!s->circuit->circuit->n_columns ||
        qr_layers_input_circuit(job->layers, job->n_layers) == s->circuit->circuit)
        return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "model[%zu] reads the outputs of other layers; sample a job whose circuit reads "
                   "the data",
                   s->layer);
}

static const double *sampling_parameters(const struct sampling *s) {
    const struct qr_model *m = s->l.load.model;
    size_t i = 0;
    while (!qr_model_tensor(m, i)->circuit) i++; /* that of the first filter */
    return s->l.load.initial + qr_model_tensor(m, i)->offset;
}

/* Draws the strings of one sample. */
static bool sampling_draw_one(struct sampling *s, const struct qr_sim_bound *b,
                              struct qr_sim_workspace *ws, size_t i, uint64_t *strings) {
    const struct qr_dataset *data = &s->l.load.data;
    const double *x = data->n_columns ? data->x + s->sample[i] * data->n_columns : NULL;
    uint64_t *bits = strings + s->n_shots;
    bool fine = qr_sim_sample(b, ws, s->l.pool, x, data->n_columns, 1, strings, bits);
    for (size_t k = 0; k < s->n_shots; k++)
        s->drawn[i * s->n_shots + k] = (struct drawn){strings[k], bits[k]};
    return fine;
}

/* Draws the strings of all samples with a compiled circuit. */
static enum qr_code sampling_draw_with(struct sampling *s, const struct qr_sim_plan *plan,
                                       struct qr_err *err) {
    struct qr_sim_workspace *ws;
    QR_TRY(qr_sim_workspace_new(plan, 1, &ws, err));
    qr_auto(qr_free_p) uint64_t *strings = qr_xcalloc(2 * (size_t)s->n_shots, sizeof *strings);
    struct qr_sim_bound *b = qr_sim_bound_new(plan);
    uint64_t key =
        qr_random_u64(s->l.job->seed, QR_RANDOM_TRAJECTORY, (uint32_t)s->layer << 10, UINT64_MAX);
    enum qr_code code = QR_OK;
    qr_sim_bind(b, sampling_parameters(s), s->l.pool);
    for (size_t i = 0; i < s->n && code == QR_OK; i++) {
        const uint32_t number = (uint32_t)s->sample[i];
        qr_sim_set_draw(ws, &(struct qr_sim_draw){.key = key, .sample = &number});
        if (!sampling_draw_one(s, b, ws, i, strings))
            code = qr_fail(err, QR_OUT_OF_RANGE,
                           "sample %zu has a state that is not finite; look at the weights and at "
                           "this sample",
                           s->sample[i]);
    }
    qr_sim_bound_free(b);
    qr_sim_workspace_free(ws);
    return code;
}

static enum qr_code sampling_draw(struct sampling *s, struct qr_err *err) {
    struct qr_sim_plan *plan;
    const struct qr_circuit *c = s->circuit->circuit;
    struct qr_sim_options opt = {.precision = s->l.job->precision, .shots = s->n_shots};
    if (s->circuit->method == QR_METHOD_TRAJECTORIES) opt.method = QR_METHOD_TRAJECTORIES;
    void *p;
    QR_TRY(qr_isa_parse(s->isa ? s->isa : "auto", &opt.isa, err));
    if (c->n_qubits > 64 || c->n_bits > 64)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cannot sample %u qubits and %u measured bits: at most 64 of each",
                       c->n_qubits, c->n_bits);
    QR_TRY(qr_large_new(s->n * s->n_shots, sizeof *s->drawn, "bit strings", &p, err));
    s->drawn = p;
    QR_TRY(qr_sim_compile(c, NULL, 0, &opt, &plan, err));
    enum qr_code code = sampling_draw_with(s, plan, err);
    qr_sim_plan_free(plan);
    return code;
}

/* ---- output ---- */

static int compare_drawn(const void *a, const void *b) {
    const struct drawn *x = a, *y = b;
    if (x->string != y->string) return x->string < y->string ? -1 : 1;
    return (x->bits > y->bits) - (x->bits < y->bits);
}

static void put_digits(uint64_t digits, unsigned n, struct qr_buf *to) {
    while (n-- > 0) qr_buf_puts(to, digits >> n & 1 ? "1" : "0");
}

/* The string, and after a separator the measured bits. */
static void put_drawn(const struct sampling *s, const struct drawn *d, const char *separator,
                      struct qr_buf *to) {
    const struct qr_circuit *c = s->circuit->circuit;
    put_digits(d->string, c->n_qubits, to);
    if (c->n_bits) qr_buf_puts(to, separator);
    put_digits(d->bits, c->n_bits, to);
}

/* A string, and the number of equal ones that follow it. */
static void put_entry(const struct sampling *s, size_t i, const struct drawn *d, size_t n,
                      bool first, struct qr_buf *to) {
    if (strcmp(s->format, "json") == 0) {
        qr_buf_puts(to, first ? "\"" : ", \"");
        put_drawn(s, d, " ", to);
        qr_buf_puts(to, "\"");
        if (s->counts) qr_buf_printf(to, ": %zu", n);
        return;
    }
    qr_buf_printf(to, "%zu,", s->sample[i]);
    put_drawn(s, d, ",", to);
    if (s->counts) qr_buf_printf(to, ",%zu", n);
    qr_buf_puts(to, "\n");
}

static void put_sample(struct sampling *s, size_t i, struct qr_buf *to) {
    struct drawn *d = s->drawn + i * s->n_shots;
    bool json = strcmp(s->format, "json") == 0;
    if (s->counts) qsort(d, s->n_shots, sizeof *d, compare_drawn);
    if (json)
        qr_buf_printf(to, "{\"sample\": %zu, \"shots\": %u, \"%s\": %s", s->sample[i], s->n_shots,
                      s->counts ? "counts" : "strings", s->counts ? "{" : "[");
    for (size_t k = 0, n; k < s->n_shots; k += n) {
        for (n = 1; s->counts && k + n < s->n_shots && !compare_drawn(&d[k + n], &d[k]);) n++;
        put_entry(s, i, &d[k], n, !k, to);
        if (s->out || to->n < CHUNK) continue;
        fwrite(to->p, 1, to->n, stdout); /* a buffer holds 1 GiB */
        qr_buf_clear(to);
    }
    if (json) qr_buf_puts(to, s->counts ? "}}\n" : "]}\n");
}

static enum qr_code sampling_write(struct sampling *s, struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf b = {0};
    if (strcmp(s->format, "csv") == 0)
        qr_buf_printf(&b, "sample,string%s%s\n", s->circuit->circuit->n_bits ? ",bits" : "",
                      s->counts ? ",count" : "");
    for (size_t i = 0; i < s->n; i++) {
        put_sample(s, i, &b);
        if (s->out) continue;
        fwrite(b.p, 1, b.n, stdout);
        qr_buf_clear(&b);
    }
    if (!s->out) return QR_OK;
    if (!qr_buf_ok(&b))
        return qr_fail(err, QR_RESOURCE_EXHAUSTED,
                       "%s: the strings exceed 1 GiB of text; use --counts, or write them to "
                       "standard output",
                       s->out);
    return qr_url_write(s->out, qr_buf_view(&b), err);
}

/* ---- the command ---- */

static enum qr_code sampling_check(struct sampling *s, struct qr_err *err) {
    uint64_t n;
    if (!qr_parse_u64(s->shots, &n) || n < 1 || n > MAX_SHOTS)
        return qr_fail(err, QR_INVALID_ARGUMENT, "--shots: '%.40s' is not a number from 1 to %d",
                       s->shots, (int)MAX_SHOTS);
    s->n_shots = (unsigned)n;
    if (strcmp(s->format, "csv") != 0 && strcmp(s->format, "json") != 0)
        return qr_fail(err, QR_INVALID_ARGUMENT, "--format: '%.40s' is neither csv nor json",
                       s->format);
    if (s->out && strcmp(s->out, "-") == 0) s->out = NULL;
    if (s->out && qr_url_check_writable(s->out, err) != QR_OK) return qr_wrap(err, "--out");
    return QR_OK;
}

static enum qr_code sampling_run(struct sampling *s, const char *job, struct qr_overrides *set,
                                 struct qr_err *err) {
    QR_TRY(sampling_check(s, err));
    QR_TRY(qr_load_workload(job, set, s->isa, s->threads, &s->l, err));
    if (s->weights) QR_TRY(qr_workload_weights(&s->l.load, s->weights, s->l.load.initial, err));
    const char *const inputs[] = {job, s->weights};
    if (s->out) QR_TRY(qr_check_destination("--out", s->out, inputs, 2, s->l.job, err));
    QR_TRY(sampling_find_circuit(s, err));
    QR_TRY(qr_read_samples(s->samples, s->l.load.data.n_train, &s->sample, &s->n, err));
    QR_TRY(sampling_draw(s, err));
    return sampling_write(s, err);
}

int qr_command_sample(const struct qr_command *self, int argc, char **argv) {
    struct sampling s = {.samples = "0", .shots = "1000", .format = "csv"};
    qr_auto(qr_overrides_fini) struct qr_overrides set = {0};
    const struct qr_flag flags[] = {
        {"--weights", &s.weights, NULL}, {"--samples", &s.samples, NULL},
        {"--shots", &s.shots, NULL},     {"--counts", NULL, &s.counts},
        {"--format", &s.format, NULL},   {"--out", &s.out, NULL},
        {"--isa", &s.isa, NULL},         {"--threads", &s.threads, NULL}};
    struct qr_words words;
    struct qr_err err = {0};
    bool help;
    enum qr_code code = qr_read_flags(argc, argv, flags, sizeof flags / sizeof *flags, &set, 1,
                                      &words, &help, &err);
    if (code == QR_OK && help) return qr_print_help(self);
    if (code == QR_OK) code = sampling_run(&s, words.v[0], &set, &err);
    qr_loaded_fini(&s.l);
    free(s.sample);
    free(s.drawn);
    return qr_exit_report(code, &err);
}
