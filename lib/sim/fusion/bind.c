/* sim/fusion/bind.c — binds a plan to one theta: gate matrices, fused gates, weights of the
 * derivatives. Start reading at qr_bound_set(). */
#include <string.h>

#include "base/mem.h"
#include "sim/fusion/bind.h"
#include "sim/fusion/engine.h"

static void bound_take_buffers(struct qr_buffers *r, struct qr_sim_bound *b) {
    const struct qr_sim_plan *p = b->plan;
    qr_buffers_take(r, "parameters", p->n_params * sizeof *b->theta, &b->theta);
    if (p->lowered)
        qr_buffers_take(r, "parameters", p->n_params * sizeof *b->theta, &b->lowered_theta);
    qr_buffers_take(r, "gates", p->n_numbers * 16 * sizeof *b->matrices, &b->matrices);
    qr_buffers_take(r, "gates", p->n_numbers * 32 * sizeof *b->derivatives, &b->derivatives);
    qr_buffers_take(r, "fused gates", p->n_shapes * sizeof *b->suffix, &b->suffix);
    qr_buffers_take(r, "fused gates", p->n_shapes * QR_NARROW * sizeof *b->narrow, &b->narrow);
    qr_buffers_take(r, "derivatives", p->n_derivatives * QR_CROSS * sizeof *b->weights,
                    &b->weights);
    if (p->engine->bound_buffers) p->engine->bound_buffers(r, b);
}

static struct qr_sim_bound *bound_new_head(const struct qr_sim_plan *p) {
    struct qr_sim_bound *b = qr_xcalloc(1, sizeof *b);
    b->plan = p;
    if (p->engine->bound_size) b->own = qr_xcalloc(1, p->engine->bound_size);
    return b;
}

size_t qr_bound_bytes(const struct qr_sim_plan *p) {
    struct qr_buffers r = {.owner = NULL};
    struct qr_sim_bound *b = bound_new_head(p);
    bound_take_buffers(&r, b);
    qr_bound_free(b);
    return r.bytes;
}

struct qr_sim_bound *qr_bound_new(const struct qr_sim_plan *p) {
    struct qr_sim_bound *b = bound_new_head(p);
    struct qr_err err;
    struct qr_buffers r = {.owner = &b->owned, .err = &err};
    bound_take_buffers(&r, b);
    qr_check_memory(r.code == QR_OK, "numbers of a step");
    return b;
}

void qr_bound_free(struct qr_sim_bound *b) {
    if (!b) return;
    qr_owned_free(&b->owned);
    free(b->own);
    free(b);
}

static size_t op_entries(const struct qr_plan_op *op) { return op->gate.n_targets == 2 ? 16 : 4; }

/* Walks back from the last op: so_far is the product of the ops after the present one. */
static void bind_shape(struct qr_sim_bound *b, uint32_t shape) {
    const struct qr_sim_plan *p = b->plan;
    const struct qr_plan_shape *s = &p->shapes[shape];
    struct qr_m4 after QR_RAW;
    const struct qr_m4 *so_far = NULL; /* NULL: identity */
    uint32_t next = s->first_derivative + s->n_derivatives;
    for (uint32_t i = s->n_ops; i-- > s->n_prefix;) {
        const struct qr_plan_op *op = &p->ops[s->first_op + i];
        const double complex *u = b->matrices + (size_t)op->number * 16;
        while (next > s->first_derivative && p->derivatives[next - 1].op == s->first_op + i) {
            const struct qr_plan_derivative *d = &p->derivatives[--next];
            const double complex *du =
                b->derivatives + (size_t)op->number * 32 + d->arg * op_entries(op);
            qr_derivative_weights(so_far, op, u, du, d->scale,
                                  b->weights + (size_t)next * QR_CROSS);
        }
        after = qr_m4_mul_gate(so_far, op, u, false);
        so_far = &after;
    }
    if (!so_far) after = qr_m4_identity();
    b->suffix[shape] = after;
    if (!s->n_prefix) qr_narrow_numbers(&after, b->narrow + shape * QR_NARROW);
}

/* Per task of a pool, which so takes about as long as waking a thread. */
enum { TASK_GATES = 128, TASK_SHAPES = 32 };

static void bind_gates_task(void *ctx, size_t task, unsigned worker) {
    const struct qr_sim_bound *b = ctx;
    const struct qr_sim_plan *p = b->plan;
    (void)worker;
    for (size_t i = task * TASK_GATES; i < p->n_numbers && i < (task + 1) * TASK_GATES; i++) {
        const struct qr_gate *g = &p->ops[p->numbers[i]].gate;
        double a[2] = {0, 0};
        for (unsigned k = 0; k < g->n_args; k++)
            a[k] = qr_gate_arg_value(&g->args[k], b->theta, NULL);
        qr_gate_matrix(g, a, b->matrices + i * 16, b->derivatives + i * 32);
    }
}

static void bind_shapes_task(void *ctx, size_t task, unsigned worker) {
    struct qr_sim_bound *b = ctx;
    (void)worker;
    for (size_t s = task * TASK_SHAPES; s < b->plan->n_shapes && s < (task + 1) * TASK_SHAPES; s++)
        bind_shape(b, (uint32_t)s);
}

void qr_bound_set(struct qr_sim_bound *b, const double *theta, struct qr_pool *pool) {
    const struct qr_sim_plan *p = b->plan;
    if (p->lowered) {
        qr_lowered_theta(p->lowered, theta, b->lowered_theta);
        theta = b->lowered_theta;
    }
    if (p->n_params) memcpy(b->theta, theta, p->n_params * sizeof *theta);
    qr_pool_for(pool, (p->n_numbers + TASK_GATES - 1) / TASK_GATES, bind_gates_task, b);
    qr_pool_for(pool, (p->n_shapes + TASK_SHAPES - 1) / TASK_SHAPES, bind_shapes_task, b);
    if (p->engine->bind) p->engine->bind(b, pool);
}

struct qr_m4 qr_bound_data_matrix(const struct qr_sim_bound *b, const struct qr_plan_shape *s,
                                  uint32_t first, const double *x) {
    const struct qr_sim_plan *p = b->plan;
    struct qr_m4 after = b->suffix[s - p->shapes];
    for (uint32_t i = s->n_prefix; i-- > first;) {
        const struct qr_plan_op *op = &p->ops[s->first_op + i];
        double complex own[16];
        const double complex *u = own;
        if (op->number == QR_NO_SLOT) {
            double a[2] = {0, 0};
            for (unsigned k = 0; k < op->gate.n_args; k++)
                a[k] = qr_gate_arg_value(&op->gate.args[k], b->theta, x);
            qr_gate_matrix(&op->gate, a, own, NULL);
        } else {
            u = b->matrices + (size_t)op->number * 16;
        }
        after = qr_m4_mul_gate(&after, op, u, false);
    }
    return after;
}
