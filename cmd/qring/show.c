#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/parse.h"
#include "cmd/qring/command.h"
#include "sim/sim.h"

const char qr_help_show[] =
    "Draws a job's circuit; says its parameters, gates, fused gates and what a gradient costs; "
    "lists parameters that no read-out can see.\n"
    "With --plan: which gates were fused, on which qubits, in which order; operations, bytes and "
    "memory of each stage.\n"
    "\n"
    "Examples:\n"
    "  qring show                     # the tutorial's model\n"
    "  qring show job.json --columns 200\n"
    "  qring show job.json --plan\n"
    "  qring show job.json --json\n"
    "\n"
    "Usage: qring show [JOB] [FLAGS]\n"
    "  --columns N            width of the drawing [the terminal's, else 120]\n"
    "  --plan                 the whole execution plan, without the drawing\n"
    "  --isa NAME             the kernels to compile for: auto, portable, avx2, avx512, neon\n"
    "  --json                 one object on standard output, without the drawing\n";

struct shown {
    struct qr_job *job;
    struct qr_dataset data;
    struct qr_model *model;
    uint8_t *zero_gradient;
};

static enum qr_code load(struct shown *s, const char *job, const char *isa_name,
                         struct qr_err *err) {
    enum qr_isa isa = QR_ISA_PORTABLE;
    size_t columns = 0;
    enum qr_code code = qr_isa_parse(isa_name, &isa, err);
    if (code == QR_OK) code = qr_job_load(job, &s->job, err);
    if (code == QR_OK && !s->job->has_quantum) { /* how wide its data is, only the data says */
        code = qr_job_data(s->job, &s->data, err);
        columns = s->data.n_columns;
    }
    if (code == QR_OK) code = qr_job_model(s->job, isa, columns, &s->model, err);
    if (code != QR_OK) return code;
    s->zero_gradient = qr_xcalloc(qr_model_n_params(s->model) + 1, 1);
    qr_model_zero_gradient(s->model, s->zero_gradient);
    return QR_OK;
}

static void fini(struct shown *s) {
    qr_model_free(s->model);
    qr_dataset_fini(&s->data);
    if (s->job) qr_job_free(s->job);
    free(s->zero_gradient);
}

static enum qr_code read_width(const char *columns, unsigned *ret, struct qr_err *err) {
    struct winsize size;
    uint64_t n;
    if (columns && (!qr_parse_u64(columns, &n) || n < 20 || n > 100000))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--columns: '%.40s' is not a number in 20 ... 100000", columns);
    *ret = columns                                                             ? (unsigned)n
           : ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20 ? size.ws_col
                                                                               : 120;
    return QR_OK;
}

/* "qconv20", or "qconv20 of pqc_1" where there are several filters. */
static void put_zero_gradient_name(struct qr_buf *b, const struct shown *s,
                                   const struct qr_model_tensor *t, size_t i) {
    const struct qr_circuit *c = qr_model_circuit(s->model);
    qr_buf_puts(b, c->param_names[i]);
    if (s->job->n_filters > 1) qr_buf_printf(b, " of %.*s", (int)strcspn(t->name, "/"), t->name);
}

static size_t put_zero_gradient(const struct shown *s, struct qr_buf *b, struct qr_json_writer *w) {
    size_t n = 0;
    for (size_t i = 0; i < qr_model_n_tensors(s->model); i++) {
        const struct qr_model_tensor *t = qr_model_tensor(s->model, i);
        for (size_t k = 0; t->quantum && k < t->n; k++) {
            struct qr_buf name = {0};
            if (!s->zero_gradient[t->offset + k]) continue;
            put_zero_gradient_name(&name, s, t, k);
            if (w) qr_json_put_string(w, qr_buf_string(&name));
            else qr_buf_printf(b, "%s%s", n ? ", " : "", qr_buf_string(&name));
            qr_buf_free(&name);
            n++;
        }
    }
    return n;
}

static void put_flop(struct qr_buf *b, double flop) {
    static const char *const units[] = {"flop", "Kflop", "Mflop", "Gflop", "Tflop", "Pflop"};
    int u = 0;
    for (; flop >= 1000 && u < 5; u++) flop /= 1000;
    qr_buf_printf(b, "%.3g %s", flop, units[u]);
}

/* Of the micro-batches that the job trains in. */
static struct qr_sim_report *report_of(const struct shown *s) {
    size_t batch = s->job->train.batch_size, size = s->job->micro_batch_size;
    const struct qr_sim_report_options opt = {
        .n_samples = size < batch ? size : batch,
        .max_samples = size,
        .head_known = qr_model_head_known(s->model),
        .param_names = (const char *const *)qr_model_circuit(s->model)->param_names};
    return qr_sim_report_new(qr_model_plan(s->model), &opt);
}

static void circuit_text(const struct shown *s, bool plan, unsigned columns, struct qr_buf *b) {
    const struct qr_circuit *c = qr_model_circuit(s->model);
    qr_auto(qr_free_p) char *drawing =
        plan ? NULL : qr_circuit_draw(c, s->job->readouts, s->job->n_readouts, columns);
    struct qr_sim_report *r = report_of(s);
    if (drawing) qr_buf_printf(b, "%s\n", drawing);
    qr_buf_printf(b, "circuit     %u qubits, %zu gates, %u parameters, %u data columns",
                  c->n_qubits, c->n_gates, c->n_params, c->n_columns);
    if (s->job->n_filters > 1) qr_buf_printf(b, "; %u independent copies", s->job->n_filters);
    qr_buf_puts(b, "\nread-outs   ");
    for (size_t i = 0; i < s->job->n_readouts; i++)
        qr_buf_printf(b, "%s%s", i ? ", " : "", s->job->readouts[i].text);
    qr_buf_puts(b, "\ngradient 0  ");
    if (!put_zero_gradient(s, b, NULL)) qr_buf_puts(b, "none: every parameter can move a read-out");
    else qr_buf_puts(b, " (no read-out sees them: constants here, gradient exactly 0)");
    qr_buf_puts(b, "\n");
    qr_sim_report_text(r, plan, b);
    if (!plan) {
        qr_buf_puts(b, "gradient    ");
        put_flop(b, r->flop / (double)r->n_samples * s->job->n_filters);
        qr_buf_printf(b, " a sample, all parameters at once; %zu bytes a thread\n",
                      qr_model_bytes_per_thread(s->model));
    }
    qr_sim_report_free(r);
}

static void text_of(const struct shown *s, bool plan, unsigned columns, struct qr_buf *b) {
    if (qr_model_circuit(s->model)) circuit_text(s, plan, columns, b);
    else if (plan) qr_buf_puts(b, "plan        none: a job without a circuit\n");
    if (plan) return;
    qr_buf_printf(b, "batches     of %llu samples, in micro-batches of %zu\n\n",
                  (unsigned long long)s->job->train.batch_size, s->job->micro_batch_size);
    qr_model_table(s->model, s->job, b);
}

static void put_number(struct qr_json_writer *w, const char *key, double v) {
    qr_json_put_key(w, key);
    qr_json_put_double(w, v);
}

static void json_of(const struct shown *s, struct qr_buf *b) {
    const struct qr_circuit *c = qr_model_circuit(s->model);
    struct qr_json_writer w = qr_json_writer(b, 0);
    qr_json_open(&w, '{');
    qr_json_put_key(&w, "job");
    qr_json_put_string(&w, s->job->name);
    put_number(&w, "parameters", (double)qr_model_n_params(s->model));
    put_number(&w, "micro_batch_size", (double)s->job->micro_batch_size);
    put_number(&w, "batch_size", (double)s->job->train.batch_size);
    put_number(&w, "bytes_per_thread", (double)qr_model_bytes_per_thread(s->model));
    if (c) {
        struct qr_sim_report *r = report_of(s);
        put_number(&w, "qubits", c->n_qubits);
        put_number(&w, "gates", (double)c->n_gates);
        put_number(&w, "circuit_parameters", c->n_params);
        put_number(&w, "filters", s->job->n_filters);
        put_number(&w, "fused_gates", (double)r->n_fused);
        put_number(&w, "flop_per_gradient", r->flop / (double)r->n_samples);
        qr_json_put_key(&w, "engine");
        qr_json_put_string(&w, r->engine);
        qr_json_put_key(&w, "readouts");
        qr_json_open(&w, '[');
        for (size_t i = 0; i < s->job->n_readouts; i++)
            qr_json_put_string(&w, s->job->readouts[i].text);
        qr_json_close(&w, ']');
        qr_json_put_key(&w, "zero_gradient");
        qr_json_open(&w, '[');
        put_zero_gradient(s, NULL, &w);
        qr_json_close(&w, ']');
        qr_json_put_key(&w, "plan");
        qr_sim_report_json(r, &w);
        qr_sim_report_free(r);
    }
    qr_json_close(&w, '}');
    qr_buf_puts(b, "\n");
}

int qr_command_show(const struct qr_command *self, int argc, char **argv) {
    const char *columns = NULL, *isa = "auto";
    bool help, json = false, plan = false;
    unsigned width = 0;
    const struct qr_flag flags[] = {{"--columns", &columns, NULL},
                                    {"--isa", &isa, NULL},
                                    {"--plan", NULL, &plan},
                                    {"--json", NULL, &json}};
    struct qr_words words;
    struct shown s = {0};
    struct qr_buf text = {0};
    struct qr_err err = {0};
    enum qr_code code =
        qr_read_flags(argc, argv, flags, sizeof flags / sizeof *flags, 1, &words, &help, &err);
    if (code == QR_OK && help) {
        fputs(self->help, stdout);
        return 0;
    }
    if (code == QR_OK) code = read_width(columns, &width, &err);
    if (code == QR_OK) code = load(&s, words.v[0], isa, &err);
    if (code == QR_OK && json) json_of(&s, &text);
    if (code == QR_OK && !json) text_of(&s, plan, width, &text);
    fputs(qr_buf_string(&text), stdout);
    qr_buf_free(&text);
    fini(&s);
    return qr_conclude(code, &err);
}
