/* sim/report/plan_report.c — the report of a plan: shapes, buffers and figures; the engine adds
 * its lines, parts and stages. Start reading at qr_sim_report_new(). */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "sim/fusion/engine.h"
#include "sim/fusion/workspace.h"
#include "sim/report/report_build.h"

/* ---- shapes ---- */

/* The expression of a derived parameter or column; NULL for one of the circuit's own. */
static const struct qr_expression *report_expression(const struct qr_sim_plan *p,
                                                     const struct qr_gate_arg *a) {
    const struct qr_lowered *l = p->lowered;
    if (l && a->kind == QR_ARG_PARAMETER && a->index >= l->n_params)
        return &l->params[a->index - l->n_params];
    if (l && a->kind == QR_ARG_DATA && a->index >= l->n_columns)
        return &l->columns[a->index - l->n_columns];
    return NULL;
}

static void report_put_argument(const struct qr_sim_plan *p, const struct qr_gate_arg *a,
                                const char *const *names, struct qr_buf *to) {
    const struct qr_expression *e = report_expression(p, a);
    if (a->kind == QR_ARG_CONSTANT) {
        qr_buf_printf(to, "%.6g", a->scale);
        return;
    }
    if (e) {
        qr_buf_puts(to, "(");
        qr_expression_print(e, a->scale,
                            &(struct qr_expression_style){
                                .parameters = (char *const *)(uintptr_t)names, .round = true},
                            to);
        qr_buf_puts(to, ")");
        return;
    }
    if (a->scale == -1) qr_buf_puts(to, "-");
    else if (a->scale != 1) qr_buf_printf(to, "%.6g*", a->scale);
    if (a->kind == QR_ARG_DATA) qr_buf_printf(to, "x[%u]", a->index);
    else if (names) qr_buf_puts(to, names[a->index]);
    else qr_buf_printf(to, "p%u", a->index);
}

static void report_put_op(const struct qr_sim_plan *p, const struct qr_plan_op *op,
                          const char *const *names, struct qr_buf *to) {
    const struct qr_gate *g = &op->gate;
    qr_buf_puts(to, qr_gate_info(g->kind)->name);
    if (g->n_targets == 1) qr_buf_printf(to, "%u", op->t[0] + 1u);
    else if (op->t[0]) qr_buf_puts(to, "21");
    if (op->has_control)
        qr_buf_printf(to, "(%s%u)", op->control_value ? "" : "not ", 2u - op->t[0]);
    if (!g->n_args ||
        (g->n_args == 1 && g->args[0].kind == QR_ARG_CONSTANT && g->args[0].scale == 1))
        return;
    qr_buf_puts(to, g->n_args == 1 ? "^" : "(");
    for (unsigned k = 0; k < g->n_args; k++) {
        if (k) qr_buf_puts(to, ", ");
        report_put_argument(p, &g->args[k], names, to);
    }
    if (g->n_args > 1) qr_buf_puts(to, ")");
}

static void report_probe_sparsity(struct qr_report_build *b, uint32_t shape) {
    const struct qr_plan_shape *s = &b->p->shapes[shape];
    double own[QR_NARROW];
    const double *numbers = b->probe->narrow + (size_t)shape * QR_NARROW;
    if (s->n_prefix) {
        struct qr_m4 m = qr_bound_data_matrix(b->probe, s, 0, b->x);
        qr_narrow_numbers(&m, own);
        numbers = own;
    }
    for (int adjoint = 0; adjoint < 2; adjoint++)
        b->sparsity[shape][adjoint] = qr_report_sparsity(numbers + adjoint * QR_NARROW / 2);
}

static void report_list_shapes(struct qr_report_build *b, const char *const *names) {
    const struct qr_sim_plan *p = b->p;
    b->r->n_shapes = p->n_shapes;
    b->r->shapes = qr_xcalloc(p->n_shapes + 1, sizeof *b->r->shapes);
    for (uint32_t i = 0; i < p->n_shapes; i++) {
        const struct qr_plan_shape *s = &p->shapes[i];
        struct qr_buf text = {0};
        for (uint32_t k = 0; k < s->n_ops; k++) {
            if (k) qr_buf_puts(&text, " ");
            report_put_op(p, &p->ops[s->first_op + k], names, &text);
        }
        report_probe_sparsity(b, i);
        b->r->shapes[i] = (struct qr_sim_shape){.gates = qr_xstrdup(qr_buf_string(&text)),
                                                .n_gates = s->n_ops,
                                                .n_derivatives = s->n_derivatives,
                                                .row = b->sparsity[i][0].row};
        qr_buf_free(&text);
    }
}

/* Binds the plan to parameters and data that make no gate trivial and no two gates equal. */
static void report_make_probe(struct qr_report_build *b) {
    const struct qr_sim_plan *p = b->p;
    double *theta = qr_xcalloc(p->n_params + 1, sizeof *theta);
    for (unsigned i = 0; i < p->n_params; i++)
        theta[i] =
            0.1 + 0.8 * fabs(0.6180339887498949 * (i + 1) - floor(0.6180339887498949 * (i + 1)));
    b->x = qr_xcalloc(p->n_columns + 1, sizeof *b->x);
    for (unsigned i = 0; i < p->n_columns; i++) b->x[i] = 0.2 + 0.9 / (i + 1.5);
    b->probe = qr_bound_new(p);
    qr_bound_set(b->probe, theta, NULL);
    b->sparsity = qr_xcalloc(p->n_shapes + 1, sizeof *b->sparsity);
    free(theta);
}

static void report_list_buffers(struct qr_report_build *b, size_t max_samples) {
    struct qr_sim_report *r = b->r;
    struct qr_buffers all = qr_workspace_buffers(b->p, max_samples ? max_samples : r->n_samples);
    r->buffers = qr_xcalloc(all.n, sizeof *r->buffers);
    memcpy(r->buffers, all.list, all.n * sizeof *r->buffers);
    r->n_buffers = all.n;
    r->workspace_bytes = all.bytes;
    r->bound_bytes = qr_bound_bytes(b->p);
}

/* The circuit's own columns come first, then the derived ones, which are expressions. */
static void report_inputs(struct qr_report_build *b) {
    const struct qr_sim_plan *p = b->p;
    unsigned n_own = p->lowered ? p->lowered->n_columns : p->n_columns, own = 0, derived = 0;
    if (!p->wanted) return;
    for (unsigned i = 0; i < p->n_columns; i++) *(i < n_own ? &own : &derived) += p->wanted[i];
    struct qr_buf text = {0};
    if (own) qr_buf_printf(&text, "%u of %u data columns", own, n_own);
    if (derived)
        qr_buf_printf(&text, "%s%u of %u expressions of data columns", own ? " and " : "", derived,
                      p->n_columns - n_own);
    qr_report_line(b, "inputs", "derivatives with respect to %s, per sample", qr_buf_string(&text));
    qr_buf_free(&text);
}

static void report_bits(struct qr_report_build *b) {
    const struct qr_sim_plan *p = b->p;
    size_t n = 0;
    for (size_t i = 0; i < p->n_fused; i++) n += p->fused[i].condition != 0;
    if (p->deferred)
        qr_report_line(b, "bits",
                       "measurements are deferred: %u more qubits; gates that depend on bits are "
                       "controlled",
                       p->deferred->n_more);
    else if (n)
        qr_report_line(b, "bits", "%zu fused gates depend on bits that the trajectory measured", n);
}

static void report_order(struct qr_report_build *b) {
    if (!b->p->engine->joins_sweeps)
        qr_report_line(
            b, "order",
            "forward and read-outs, then the head; backward with each sample's own direction");
    else if (b->p->n_readouts == 1)
        qr_report_line(b, "order",
                       "one read-out: lambda's direction is known; both sweeps run as one and are "
                       "scaled later");
    else if (!b->r->read_outs_first)
        qr_report_line(
            b, "order",
            "affine head: lambda's direction is known in advance; both sweeps run as one "
            "and are scaled later");
    else
        qr_report_line(
            b, "order",
            "read-outs first, then the head; both sweeps with each sample's own direction");
}

struct qr_sim_report *qr_sim_report_new(const struct qr_sim_plan *p,
                                        const struct qr_sim_report_options *opt) {
    struct qr_sim_report *r = qr_xcalloc(1, sizeof *r);
    struct qr_report_build b = {.p = p, .r = r};
    r->engine = p->engine->name;
    r->why = qr_xstrdup(p->why);
    r->n_gates = p->n_gates;
    r->n_samples = opt->n_samples;
    r->read_outs_first = p->engine->joins_sweeps && !opt->head_known && p->n_readouts != 1;
    r->fused = qr_xcalloc(p->n_fused + 1, sizeof *r->fused);
    for (unsigned i = 0; i < p->n_rejected; i++)
        if (strcmp(p->rejected[i].why, p->why) != 0)
            qr_report_line(&b, "not", "%s: %s", p->rejected[i].engine, p->rejected[i].why);
    report_make_probe(&b);
    report_list_shapes(&b, opt->param_names);
    report_list_buffers(&b, opt->max_samples);
    p->engine->report(&b);
    report_inputs(&b);
    report_bits(&b);
    report_order(&b);
    for (size_t i = 0; i < r->n_stages; i++) {
        if (r->stages[i].when != QR_EACH_MICRO_BATCH) continue;
        r->flop += r->stages[i].flop;
        r->bytes += r->stages[i].bytes;
    }
    qr_bound_free(b.probe);
    free(b.sparsity);
    free(b.operations);
    free(b.x);
    return r;
}

void qr_sim_report_free(struct qr_sim_report *r) {
    if (!r) return;
    for (size_t i = 0; i < r->n_lines; i++) free(r->lines[i].text);
    for (size_t i = 0; i < r->n_shapes; i++) free(r->shapes[i].gates);
    free(r->why);
    free(r->lines);
    free(r->shapes);
    free(r->fused);
    free(r->parts);
    free(r->stages);
    free(r->buffers);
    free(r);
}
