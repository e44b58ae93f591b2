/* circuit/lower.c — expressions as derived parameters and columns. Start reading at
 * qr_circuit_lower(). */
#include "circuit/lower.h"

#include <string.h>

#include "base/mem.h"
#include "circuit/circuit_impl.h"

static bool expression_uses(const struct qr_expression *e, enum qr_expression_op op) {
    for (unsigned i = 0; i < e->n; i++)
        if (e->node[i].op == op) return true;
    return false;
}

/* A copy that refers to shared expressions by their columns. */
static struct qr_expression lowered_copy(const struct qr_expression *e,
                                         const struct qr_gate_arg *of) {
    struct qr_expression copy = qr_expression_copy(e);
    for (unsigned k = 0; k < copy.n; k++) {
        struct qr_expression_node *n = &copy.node[k];
        if (n->op != QR_EXPRESSION_SHARED) continue;
        QR_ASSERT(of[n->index].kind == QR_ARG_DATA);
        n->index = of[n->index].index;
    }
    return copy;
}

/* Assigns a derived parameter or column to each expression; a parameter's name is its text. */
static struct qr_gate_arg *derive_arguments(struct qr_lowered *l, const struct qr_circuit *c) {
    struct qr_gate_arg *of = qr_xcalloc(c->n_expressions, sizeof *of);
    l->params = qr_xcalloc(c->n_expressions, sizeof *l->params);
    l->columns = qr_xcalloc(c->n_expressions, sizeof *l->columns);
    for (size_t i = 0; i < c->n_expressions; i++) {
        const struct qr_expression *e = &c->expressions[i];
        if (expression_uses(e, QR_EXPRESSION_INPUT) || expression_uses(e, QR_EXPRESSION_SHARED)) {
            of[i] = (struct qr_gate_arg){.kind = QR_ARG_DATA,
                                         .index = l->n_columns + l->n_derived_columns};
            l->columns[l->n_derived_columns++] = lowered_copy(e, of);
            continue;
        }
        struct qr_buf text = {0};
        qr_expression_print(e, 1, &(struct qr_expression_style){.parameters = c->param_names},
                            &text);
        of[i] = (struct qr_gate_arg){.kind = QR_ARG_PARAMETER,
                                     .index =
                                         qr_circuit_append_param(l->circuit, qr_buf_string(&text))};
        qr_buf_free(&text);
        l->params[l->n_derived_params++] = qr_expression_copy(e);
    }
    l->circuit->n_columns = l->n_columns + l->n_derived_columns;
    return of;
}

/* Columns that no expression shares ascend, then the shared ones descend. */
static void set_order(struct qr_lowered *l) {
    unsigned n = l->n_derived_columns, at = 0;
    uint8_t *shared = qr_xcalloc(n + 1, 1);
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < l->columns[i].n; k++)
            if (l->columns[i].node[k].op == QR_EXPRESSION_SHARED)
                shared[l->columns[i].node[k].index - l->n_columns] = 1;
    l->order = qr_xcalloc(n + 1, sizeof *l->order);
    for (unsigned i = 0; i < n; i++)
        if (!shared[i]) l->order[at++] = i;
    for (unsigned i = n; i-- > 0;)
        if (shared[i]) l->order[at++] = i;
    free(shared);
}

/* Replaces an expression with its parameter or column. */
static void lower_argument(struct qr_gate_arg *arg, const struct qr_gate_arg *of) {
    double scale = arg->scale;
    if (arg->kind != QR_ARG_EXPRESSION) return;
    *arg = of[arg->index];
    arg->scale = scale;
}

static uint32_t lower_channel(struct qr_lowered *l, const struct qr_channel *c,
                              const struct qr_gate_arg *of) {
    struct qr_channel channel = *c; /* The operators are borrowed. */
    for (unsigned k = 0; k < c->info->n_args; k++) lower_argument(&channel.args[k], of);
    return qr_circuit_channel(l->circuit, &channel);
}

struct qr_lowered *qr_circuit_lower(const struct qr_circuit *c) {
    if (!c->n_expressions) return NULL;
    struct qr_lowered *l = qr_xcalloc(1, sizeof *l);
    l->n_params = c->n_params;
    l->n_columns = c->n_columns;
    l->circuit = qr_circuit_new(c->n_qubits, c->n_columns);
    for (unsigned i = 0; i < c->n_params; i++)
        qr_circuit_append_param(l->circuit, c->param_names[i]);
    struct qr_gate_arg *of = derive_arguments(l, c);
    set_order(l);
    qr_circuit_copy_classical(l->circuit, c);
    for (size_t i = 0; i < c->n_gates; i++) {
        struct qr_gate g = c->gates[i];
        for (unsigned k = 0; k < g.n_args; k++) lower_argument(&g.args[k], of);
        if (g.kind == QR_GATE_CHANNEL) g.channel = lower_channel(l, &c->channels[g.channel], of);
        QR_ASSERT(qr_circuit_add(l->circuit, &g, QR_IGNORED) == QR_OK);
    }
    free(of);
    return l;
}

void qr_lowered_free(struct qr_lowered *l) {
    if (!l) return;
    for (unsigned i = 0; i < l->n_derived_params; i++) qr_expression_fini(&l->params[i]);
    for (unsigned i = 0; i < l->n_derived_columns; i++) qr_expression_fini(&l->columns[i]);
    free(l->params);
    free(l->columns);
    free(l->order);
    qr_circuit_free(l->circuit);
    free(l);
}

/* derived: flags of the columns that e may share. */
static bool has_derivative(const struct qr_expression *e, const uint8_t *wanted,
                           const uint8_t *zero_gradient, const uint8_t *derived) {
    bool any = false;
    for (unsigned i = 0; i < e->n; i++) {
        const struct qr_expression_node *n = &e->node[i];
        if (n->op == QR_EXPRESSION_PARAMETER && zero_gradient[n->index]) return false;
        any |= n->op == QR_EXPRESSION_PARAMETER ||
               (n->op == QR_EXPRESSION_INPUT && wanted && wanted[n->index]) ||
               (n->op == QR_EXPRESSION_SHARED && derived[n->index]);
    }
    return any;
}

bool qr_lowered_wanted(const struct qr_lowered *l, const uint8_t *wanted,
                       const uint8_t *zero_gradient, uint8_t *ret) {
    bool any = false;
    for (unsigned i = 0; i < l->n_columns; i++) any |= ret[i] = wanted ? wanted[i] != 0 : 0;
    for (unsigned i = 0; i < l->n_derived_columns; i++)
        any |= ret[l->n_columns + i] = has_derivative(&l->columns[i], wanted, zero_gradient, ret);
    return any;
}

void qr_lowered_theta(const struct qr_lowered *l, const double *theta, double *ret) {
    if (l->n_params) memcpy(ret, theta, l->n_params * sizeof *ret);
    for (unsigned i = 0; i < l->n_derived_params; i++)
        ret[l->n_params + i] = qr_expression_value(&l->params[i], theta, NULL);
}

void qr_lowered_x(const struct qr_lowered *l, const double *theta, const double *x, double *ret) {
    if (l->n_columns) memcpy(ret, x, l->n_columns * sizeof *ret);
    for (unsigned i = 0; i < l->n_derived_columns; i++)
        ret[l->n_columns + i] = qr_expression_value(&l->columns[i], theta, ret);
}

/* d: derivative by the expression's value. A zero derivative is not passed on, since an operand's
 * derivative may be infinite. */
static void chain_expression(const struct qr_expression *e, double d, const double *theta,
                             const double *x, const uint8_t *wanted, double *d_theta, double *d_x) {
    double by[QR_EXPRESSION_NODES];
    if (d == 0) return;
    qr_expression_derivatives(e, theta, x, by);
    for (unsigned i = 0; i < e->n; i++) {
        const struct qr_expression_node *n = &e->node[i];
        if (n->op == QR_EXPRESSION_PARAMETER) d_theta[n->index] += d * by[i];
        else if ((n->op == QR_EXPRESSION_INPUT || n->op == QR_EXPRESSION_SHARED) && wanted &&
                 wanted[n->index])
            d_x[n->index] += d * by[i];
    }
}

void qr_lowered_chain(const struct qr_lowered *l, const double *theta, const double *x,
                      size_t n_samples, const uint8_t *wanted, double *d_theta, double *d_x) {
    size_t width = l->n_columns + l->n_derived_columns;
    for (unsigned i = 0; i < l->n_derived_params; i++)
        chain_expression(&l->params[i], d_theta[l->n_params + i], theta, NULL, NULL, d_theta, NULL);
    for (unsigned k = 0; d_x && k < l->n_derived_columns; k++) {
        unsigned i = l->order[k];
        for (size_t s = 0; s < n_samples; s++)
            chain_expression(&l->columns[i], d_x[s * width + l->n_columns + i], theta,
                             x + s * width, wanted, d_theta, d_x + s * width);
    }
}
