/* cmd/qring/show.c — qring show: draws the circuit and prints the plan. Start reading at
 * qr_command_show(). */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/parse.h"
#include "cmd/qring/command.h"
#include "sim/sim.h"

const char qr_help_show[] =
    "Draws the circuit of a job; prints its parameters, gates, fused gates, the cost of a gradient "
    "and\n"
    "the parameters that affect no read-out. With --plan: the fused gates, their qubits and order, "
    "and\n"
    "operations, bytes and memory of each stage.\n"
    "\n"
    "Examples:\n"
    "  qring show                     # the tutorial's model\n"
    "  qring show job.json --columns 200\n"
    "  qring show job.json --plan\n"
    "  qring show job.json --json\n"
    "\n"
    "Usage: qring show [JOB] [FLAGS]\n"
    "  --columns N            width of the drawing, in characters [the terminal's, else 120]\n"
    "  --format FORMAT        form of the drawing [text]: text, svg, or latex (quantikz); svg and "
    "latex\n"
    "                         print the drawing alone; blue boxes have parameters, orange ones "
    "data\n"
    "  --plan                 print the execution plan instead of the drawing\n"
    "  --isa NAME             kernels to compile for [auto]: auto, portable, avx2, avx512 or neon\n"
    "  --set PATH=VALUE       set a key of the job, repeatable: --set train.epochs=5 --set "
    "'model[1].units=8'\n"
    "  --seed N               random seed, as --set seed=N\n"
    "  --json                 print one JSON object instead of the drawing\n";

struct shown {
    struct qr_overrides set;
    struct qr_job *job;
    struct qr_workload load;
    const struct qr_model *model; /* of load */
    uint8_t *zero_gradient;
};

static enum qr_code show_load(struct shown *s, const char *job, const char *isa,
                              struct qr_err *err) {
    QR_TRY(qr_job_load(job, &s->set, &s->job, err));
    QR_TRY(qr_workload_load_model(s->job, isa, &s->load, err));
    s->model = s->load.model;
    s->zero_gradient = qr_xcalloc(qr_model_n_params(s->model) + 1, 1);
    qr_model_zero_gradient(s->model, s->zero_gradient);
    return QR_OK;
}

static void shown_fini(struct shown *s) {
    qr_workload_fini(&s->load);
    if (s->job) qr_job_free(s->job);
    free(s->zero_gradient);
    qr_overrides_fini(&s->set);
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

/* "qconv20", or "qconv20 of pqc_1" if there are several filters or quantum layers. */
static void put_zero_gradient_name(struct qr_buf *b, const struct shown *s,
                                   const struct qr_model_tensor *t, size_t i) {
    size_t n = qr_model_n_layers(s->model);
    bool several = qr_model_quantum(s->model, 1) < n ||
                   qr_model_layer(s->model, qr_model_quantum(s->model, 0)).n_filters > 1;
    qr_buf_puts(b, t->circuit->param_names[i]);
    if (several) qr_buf_printf(b, " of %.*s", (int)strcspn(t->name, "/"), t->name);
}

/* Parameters of one circuit, in all its filters. */
static void zero_gradient_json(const struct shown *s, const struct qr_circuit *c,
                               struct qr_json_writer *w) {
    for (size_t i = 0; i < qr_model_n_tensors(s->model); i++) {
        const struct qr_model_tensor *t = qr_model_tensor(s->model, i);
        for (size_t k = 0; t->circuit == c && k < t->n; k++) {
            struct qr_buf name = {0};
            if (!s->zero_gradient[t->offset + k]) continue;
            put_zero_gradient_name(&name, s, t, k);
            qr_json_put_string(w, qr_buf_string(&name));
            qr_buf_free(&name);
        }
    }
}

/* Parameters of one circuit; the same in all its filters. */
static void zero_gradient_text(const struct shown *s, const struct qr_model_layer *l,
                               struct qr_buf *b) {
    enum { SHOWN = 12 };
    size_t at = 0, n = 0;
    while (at < qr_model_n_tensors(s->model) &&
           qr_model_tensor(s->model, at)->circuit != l->circuit)
        at++;
    const struct qr_model_tensor *t =
        at < qr_model_n_tensors(s->model) ? qr_model_tensor(s->model, at) : NULL;
    for (size_t k = 0; t && k < t->n; k++)
        if (s->zero_gradient[t->offset + k] && n++ < SHOWN)
            qr_buf_printf(b, "%s%s", n > 1 ? ", " : "", l->circuit->param_names[k]);
    if (!n) {
        qr_buf_puts(b, "none");
        return;
    }
    if (n > SHOWN) qr_buf_printf(b, " and %zu more", n - SHOWN);
    qr_buf_printf(b, "%s (%s gradient is always 0)", l->n_filters > 1 ? ", in each copy" : "",
                  n > 1 ? "their" : "its");
}

static void put_flop(struct qr_buf *b, double flop) {
    static const char *const units[] = {"flop", "Kflop", "Mflop", "Gflop", "Tflop", "Pflop"};
    int u = 0;
    for (; flop >= 1000 && u < 5; u++) flop /= 1000;
    qr_buf_printf(b, "%.3g %s", flop, units[u]);
}

/* Report for the micro-batches of training. */
static struct qr_sim_report *report_of(const struct shown *s, const struct qr_model_layer *l) {
    size_t batch = s->job->train.batch_size, size = s->job->micro_batch_size;
    const struct qr_sim_report_options opt = {.n_samples = size < batch ? size : batch,
                                              .max_samples = size,
                                              .head_known = l->head_known,
                                              .param_names =
                                                  (const char *const *)l->circuit->param_names};
    return qr_sim_report_new(l->plan, &opt);
}

static void circuit_text(const struct shown *s, size_t at, bool plan, unsigned columns,
                         struct qr_buf *b) {
    const struct qr_model_layer l = qr_model_layer(s->model, at);
    const struct qr_quantum_options *q = &s->job->layers[at].quantum;
    const struct qr_circuit *c = l.circuit;
    qr_auto(qr_free_p) char *drawing =
        plan ? NULL : qr_circuit_draw(c, q->readouts, q->n_readouts, QR_DRAWING_TEXT, columns);
    struct qr_sim_report *r = report_of(s, &l);
    if (qr_model_quantum(s->model, 1) < qr_model_n_layers(s->model))
        qr_buf_printf(b, "layer       model[%zu]%s\n", at, l.frozen ? ", not trainable" : "");
    if (drawing) qr_buf_printf(b, "%s\n", drawing);
    qr_buf_printf(b, "circuit     %u qubits, %zu gates, %u parameters, %u data columns",
                  c->n_qubits, c->n_gates, c->n_params, c->n_columns);
    if (l.n_filters > 1) qr_buf_printf(b, "; %zu independent copies", l.n_filters);
    qr_buf_puts(b, "\nread-outs   ");
    for (size_t i = 0; i < q->n_readouts; i++)
        qr_buf_printf(b, "%s%s", i ? ", " : "", q->readouts[i].text);
    qr_buf_puts(b, "\nno effect   ");
    if (l.frozen) qr_buf_puts(b, "not listed: the layer is not trainable");
    else zero_gradient_text(s, &l, b);
    qr_buf_puts(b, "\n");
    qr_sim_report_text(r, plan, b);
    if (!plan) {
        qr_buf_puts(b, "gradient    ");
        put_flop(b, r->flop / (double)r->n_samples * (double)l.n_filters);
        qr_buf_printf(b, " per sample for all parameters; %zu bytes per thread\n",
                      qr_model_bytes_per_thread(s->model));
    }
    qr_sim_report_free(r);
}

static void show_text(const struct shown *s, bool plan, unsigned columns, struct qr_buf *b) {
    size_t n_layers = qr_model_n_layers(s->model);
    if (s->set.n) {
        qr_buf_puts(b, "set         ");
        qr_overrides_put(&s->set, b);
        qr_buf_puts(b, "\n");
    }
    if (s->job->sweep) {
        qr_buf_puts(b, "sweep       ");
        qr_sweep_describe(s->job->sweep, b);
        qr_buf_puts(b, "\n");
    }
    for (size_t n = 0, at; (at = qr_model_quantum(s->model, n)) < n_layers; n++)
        circuit_text(s, at, plan, columns, b);
    if (plan && qr_model_quantum(s->model, 0) == n_layers)
        qr_buf_puts(b, "plan        none: the job has no circuit\n");
    if (plan) return;
    qr_buf_printf(b, "batches     of %llu samples, in micro-batches of %zu\n\n",
                  (unsigned long long)s->job->train.batch_size, s->job->micro_batch_size);
    qr_model_table(s->model, s->job, b);
}

/* The drawings of all circuits, one after the other. */
static void show_drawing(const struct shown *s, enum qr_drawing form, unsigned columns,
                         struct qr_buf *b) {
    size_t n_layers = qr_model_n_layers(s->model);
    for (size_t n = 0, at; (at = qr_model_quantum(s->model, n)) < n_layers; n++) {
        const struct qr_quantum_options *q = &s->job->layers[at].quantum;
        qr_auto(qr_free_p) char *drawing = qr_circuit_draw(
            qr_model_layer(s->model, at).circuit, q->readouts, q->n_readouts, form, columns);
        qr_buf_puts(b, drawing);
    }
}

static void put_json_number(struct qr_json_writer *w, const char *key, double v) {
    qr_json_key_double(w, key, v);
}

static void circuit_json(const struct shown *s, size_t at, struct qr_json_writer *w) {
    const struct qr_model_layer l = qr_model_layer(s->model, at);
    const struct qr_quantum_options *q = &s->job->layers[at].quantum;
    struct qr_sim_report *r = report_of(s, &l);
    put_json_number(w, "qubits", l.circuit->n_qubits);
    put_json_number(w, "gates", (double)l.circuit->n_gates);
    put_json_number(w, "circuit_parameters", l.circuit->n_params);
    put_json_number(w, "filters", (double)l.n_filters);
    put_json_number(w, "fused_gates", (double)r->n_fused);
    put_json_number(w, "flop_per_gradient", r->flop / (double)r->n_samples);
    qr_json_key_string(w, "engine", r->engine);
    qr_json_key_open(w, "readouts", '[');
    for (size_t i = 0; i < q->n_readouts; i++) qr_json_put_string(w, q->readouts[i].text);
    qr_json_close(w, ']');
    qr_json_key_open(w, "zero_gradient", '[');
    zero_gradient_json(s, l.circuit, w);
    qr_json_close(w, ']');
    qr_json_put_key(w, "plan");
    qr_sim_report_json(r, w);
    qr_sim_report_free(r);
}

/* Members of a single circuit are in the object itself; several circuits are in "circuits". */
static void show_json(const struct shown *s, struct qr_buf *b) {
    size_t n_layers = qr_model_n_layers(s->model), first = qr_model_quantum(s->model, 0);
    struct qr_json_writer w = qr_json_writer(b, 0);
    qr_json_open(&w, '{');
    qr_json_key_string(&w, "job", s->job->name);
    qr_overrides_json(&s->set, &w);
    if (s->job->sweep) put_json_number(&w, "trials", (double)s->job->sweep->n_trials);
    put_json_number(&w, "parameters", (double)qr_model_n_params(s->model));
    put_json_number(&w, "frozen_parameters", (double)qr_model_n_frozen(s->model));
    put_json_number(&w, "micro_batch_size", (double)s->job->micro_batch_size);
    put_json_number(&w, "batch_size", (double)s->job->train.batch_size);
    put_json_number(&w, "bytes_per_thread", (double)qr_model_bytes_per_thread(s->model));
    bool several = qr_model_quantum(s->model, 1) < n_layers;
    if (first < n_layers && !several) circuit_json(s, first, &w);
    if (several) {
        qr_json_key_open(&w, "circuits", '[');
        for (size_t n = 0, at; (at = qr_model_quantum(s->model, n)) < n_layers; n++) {
            qr_json_open(&w, '{');
            put_json_number(&w, "layer", (double)at);
            circuit_json(s, at, &w);
            qr_json_close(&w, '}');
        }
        qr_json_close(&w, ']');
    }
    qr_json_close(&w, '}');
    qr_buf_puts(b, "\n");
}

int qr_command_show(const struct qr_command *self, int argc, char **argv) {
    const char *columns = NULL, *isa = "auto", *format = "text";
    enum qr_drawing form = QR_DRAWING_TEXT;
    bool help, json = false, plan = false;
    unsigned width = 0;
    struct shown s = {0};
    const struct qr_flag flags[] = {{"--columns", &columns, NULL},
                                    {"--format", &format, NULL},
                                    {"--isa", &isa, NULL},
                                    {"--plan", NULL, &plan},
                                    {"--json", NULL, &json}};
    struct qr_words words;
    struct qr_buf text = {0};
    struct qr_err err = {0};
    enum qr_code code = qr_read_flags(argc, argv, flags, sizeof flags / sizeof *flags, &s.set, 1,
                                      &words, &help, &err);
    if (code == QR_OK && help) return qr_print_help(self);
    if (code == QR_OK) code = read_width(columns, &width, &err);
    if (code == QR_OK && qr_drawing_of(format, &form, &err) != QR_OK)
        code = qr_wrap(&err, "--format");
    if (code == QR_OK) code = show_load(&s, words.v[0], isa, &err);
    if (code == QR_OK && form != QR_DRAWING_TEXT && (json || plan))
        code = qr_fail(&err, QR_INVALID_ARGUMENT, "--format %s excludes --json and --plan", format);
    if (code == QR_OK && json) show_json(&s, &text);
    if (code == QR_OK && form != QR_DRAWING_TEXT) show_drawing(&s, form, width, &text);
    else if (code == QR_OK && !json) show_text(&s, plan, width, &text);
    if (json || form != QR_DRAWING_TEXT) fputs(qr_buf_string(&text), stdout);
    else qr_print_escaped(stdout, qr_buf_string(&text));
    qr_buf_free(&text);
    shown_fini(&s);
    return qr_exit_report(code, &err);
}
