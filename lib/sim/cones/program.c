/* sim/cones/program.c — converts a contraction tree to classes: contractions in order, each with
 * its operands laid out as it needs them. Start reading at cone_program_make(). */
#include <string.h>

#include "base/mem.h"
#include "sim/cones/cones_impl.h"

enum {
    CUT_WORK = 4, /* least multiply-adds of a class per number of its output */
    PADDING = 8,  /* in numbers: tensors are aligned to 64 bytes */
};

/* A node of the tree. */
struct node {
    enum cone_when when;
    unsigned n_legs;
    uint16_t leg[CONE_MAX_LEGS]; /* ascending */
    size_t size;
    /* CONE_LANES: multiply-adds per lane below it, without the parts that are cut off */
    double work;
    bool cut;
    uint32_t part; /* if cut: part of the recipe; CONE_NONE: not made yet */
};

/* A class under construction, with its own numbering of tensors and contractions. */
struct draft_class {
    struct cone_class c;
    size_t n_tensors, n_contractions, n_inputs;
    struct cone_tensor *tensors;
    struct cone_contraction *contractions;
    struct cone_input *inputs;
    uint32_t *input_of; /* n_inputs: local column, or part */
};

struct program {
    struct qr_cones *own;
    const struct qr_sim_plan *p;
    const struct cone_network *n;
    const struct cone_tree *t;
    struct node *nodes;
    struct cone_recipe *recipe;
};

#define APPEND(list, n)                                                                            \
    ((list) = qr_xreallocarray((list), (n) + 1, sizeof *(list)),                                   \
     memset(&(list)[n], 0, sizeof *(list)), &(list)[(n)++])

/* ---- nodes ---- */

static void sort_legs(uint16_t *leg, unsigned n) {
    for (unsigned i = 1; i < n; i++)
        for (unsigned k = i; k > 0 && leg[k - 1] > leg[k]; k--) {
            uint16_t t = leg[k];
            leg[k] = leg[k - 1];
            leg[k - 1] = t;
        }
}

static bool node_has_leg(const struct node *x, uint16_t leg) {
    for (unsigned i = 0; i < x->n_legs; i++)
        if (x->leg[i] == leg) return true;
    return false;
}

/* Selects those of n legs that x has (or has not), in their order. */
static unsigned program_select_legs(const uint16_t *leg, unsigned n, const struct node *x, bool has,
                                    uint16_t *ret) {
    unsigned n_ret = 0;
    for (unsigned i = 0; i < n; i++)
        if (node_has_leg(x, leg[i]) == has) ret[n_ret++] = leg[i];
    return n_ret;
}

static size_t program_legs_size(const struct program *g, const uint16_t *leg, unsigned n) {
    size_t size = 1;
    for (unsigned i = 0; i < n; i++) size *= g->n->dim[leg[i]];
    return size;
}

static bool program_is_leaf(const struct program *g, uint32_t node) {
    return node < g->n->n_leaves;
}
static const uint32_t *program_children(const struct program *g, uint32_t node) {
    return g->t->pair[node - g->n->n_leaves];
}

static void program_set_inner(struct program *g, uint32_t node, bool is_root) {
    const uint32_t *pair = program_children(g, node);
    const struct node *a = &g->nodes[pair[0]], *b = &g->nodes[pair[1]];
    struct node *x = &g->nodes[node];
    uint16_t shared[CONE_MAX_LEGS];
    x->when = a->when > b->when ? a->when : b->when;
    x->n_legs = program_select_legs(a->leg, a->n_legs, b, false, x->leg);
    x->n_legs += program_select_legs(b->leg, b->n_legs, a, false, x->leg + x->n_legs);
    sort_legs(x->leg, x->n_legs);
    x->size = program_legs_size(g, x->leg, x->n_legs);
    if (x->when != CONE_LANES) return;
    unsigned n_shared = program_select_legs(a->leg, a->n_legs, b, true, shared);
    x->work = (double)(x->size * program_legs_size(g, shared, n_shared)) + (a->cut ? 0 : a->work) +
              (b->cut ? 0 : b->work);
    x->cut = is_root || (x->size <= CONE_PART_NUMBERS && x->work >= (double)(CUT_WORK * x->size));
}

static void program_set_nodes(struct program *g) {
    size_t n = g->n->n_leaves + g->t->n_pairs;
    g->nodes = qr_xcalloc(n, sizeof *g->nodes);
    for (uint32_t i = 0; i < n; i++) {
        struct node *x = &g->nodes[i];
        x->part = CONE_NONE;
        if (!program_is_leaf(g, i)) {
            program_set_inner(g, i, i == n - 1);
            continue;
        }
        const struct cone_leaf *l = &g->n->leaves[i];
        x->when = l->when;
        x->n_legs = l->n_legs;
        memcpy(x->leg, l->leg, l->n_legs * sizeof *l->leg);
        sort_legs(x->leg, x->n_legs);
        x->size = l->size;
    }
}

/* ---- orders ---- */

/* order[i] is the index, over the legs `from`, of value i over the legs `to`. */
static uint32_t *program_order(const struct program *g, const uint16_t *from, const uint16_t *to,
                               unsigned n) {
    size_t size = program_legs_size(g, to, n);
    uint32_t *order = qr_xcalloc(size + 1, sizeof *order), stride_to = 1;
    for (unsigned k = n; k-- > 0; stride_to *= g->n->dim[to[k]]) {
        uint32_t stride_from = 1;
        for (unsigned i = n; i-- > 0 && from[i] != to[k];) stride_from *= g->n->dim[from[i]];
        for (uint32_t x = 0; x < size; x++)
            order[x] += x / stride_to % g->n->dim[to[k]] * stride_from;
    }
    return order;
}

static bool order_is_identity(const uint32_t *order, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (order[i] != i) return false;
    return true;
}

/* ---- products ---- */

/* A node over `both` as the product of two matrices: its child a over `left`, with the last
 * n_shared legs shared, and b over `right`, with the first n_shared legs shared. */
struct product {
    unsigned n_left, n_shared, n_right; /* legs of a only, of both, of b only */
    uint16_t left[CONE_MAX_LEGS], right[CONE_MAX_LEGS], both[CONE_MAX_LEGS];
};

/* legs: the n legs that a and b do not share; each keeps its own in their order. */
static struct product program_product(const struct node *a, const struct node *b,
                                      const uint16_t *legs, unsigned n) {
    struct product p;
    p.n_left = program_select_legs(legs, n, a, true, p.left);
    p.n_shared = program_select_legs(a->leg, a->n_legs, b, true, p.left + p.n_left);
    memcpy(p.right, p.left + p.n_left, p.n_shared * sizeof *p.right);
    p.n_right = program_select_legs(legs, n, b, true, p.right + p.n_shared);
    memcpy(p.both, p.left, p.n_left * sizeof *p.both);
    memcpy(p.both + p.n_left, p.right + p.n_shared, p.n_right * sizeof *p.both);
    return p;
}

/* ---- tensors of a class ---- */

static size_t padded_size(size_t n) { return (n + PADDING - 1) / PADDING * PADDING; }

static double *program_new_fixed(struct qr_cones *own, size_t n, size_t *ret_at) {
    *ret_at = own->n_fixed;
    own->n_fixed += padded_size(n);
    own->fixed = qr_xreallocarray(own->fixed, own->n_fixed + 1, sizeof *own->fixed);
    memset(own->fixed + *ret_at, 0, padded_size(n) * sizeof *own->fixed);
    return own->fixed + *ret_at;
}

static size_t program_keep_entries(struct qr_cones *own, const uint16_t *entries,
                                   const uint32_t *order, size_t n) {
    size_t at = own->n_entries;
    own->n_entries += n;
    own->entries = qr_xreallocarray(own->entries, own->n_entries + 1, sizeof *own->entries);
    for (size_t i = 0; i < n; i++)
        own->entries[at + i] = entries ? entries[order[i]] : (uint16_t)order[i];
    return at;
}

static struct cone_tensor *program_new_tensor(struct draft_class *d, enum cone_source from,
                                              enum cone_when when, size_t size) {
    struct cone_tensor *t = APPEND(d->tensors, d->n_tensors);
    t->from = from;
    t->when = when;
    t->size = (uint32_t)size;
    return t;
}

/* Computes a part that depends on neither parameters nor data, over these legs. The caller frees
 * it. */
static double *program_fixed_numbers(const struct program *g, uint32_t node, const uint16_t *legs) {
    const struct node *x = &g->nodes[node];
    double *ret = qr_xcalloc(x->size, sizeof *ret);
    if (program_is_leaf(g, node)) {
        uint32_t *order = program_order(g, g->n->leaves[node].leg, legs, x->n_legs);
        for (size_t i = 0; i < x->size; i++) ret[i] = g->n->leaves[node].numbers[order[i]];
        free(order);
        return ret;
    }
    const uint32_t *pair = program_children(g, node);
    const struct node *a = &g->nodes[pair[0]], *b = &g->nodes[pair[1]];
    struct product p = program_product(a, b, legs, x->n_legs);
    double *u = program_fixed_numbers(g, pair[0], p.left),
           *v = program_fixed_numbers(g, pair[1], p.right);
    size_t n_k = program_legs_size(g, p.right, p.n_shared), n_j = b->size / n_k;
    uint32_t *order = program_order(g, p.both, legs, x->n_legs);
    for (size_t i = 0; i < x->size; i++) {
        size_t row = order[i] / n_j, column = order[i] % n_j;
        for (size_t k = 0; k < n_k; k++) ret[i] += u[row * n_k + k] * v[k * n_j + column];
    }
    free(u);
    free(v);
    free(order);
    return ret;
}

static uint32_t program_make_part(struct program *g, uint32_t node);

/* Adds a signal, or the output of a part, as an input. */
static void program_add_input(struct draft_class *d, uint32_t tensor, bool is_signal, uint32_t of,
                              uint32_t what) {
    d->tensors[tensor].source = (uint32_t)d->n_inputs;
    d->input_of = qr_xreallocarray(d->input_of, d->n_inputs + 1, sizeof *d->input_of);
    d->input_of[d->n_inputs] = what;
    struct cone_input *in = APPEND(d->inputs, d->n_inputs);
    *in = (struct cone_input){.is_signal = is_signal, .of = of, .tensor = tensor};
}

static uint32_t program_find_signal(struct qr_cones *own, double scale, bool wanted) {
    for (uint32_t i = 0; i < own->n_signals; i++)
        if (qr_bits_of_double(own->signals[i].scale) == qr_bits_of_double(scale) &&
            own->signals[i].wanted == wanted)
            return i;
    *APPEND(own->signals, own->n_signals) = (struct cone_signal){.scale = scale, .wanted = wanted};
    return (uint32_t)own->n_signals - 1;
}

static uint32_t program_add_leaf(struct program *g, struct draft_class *d, uint32_t node,
                                 const uint16_t *legs) {
    const struct cone_leaf *l = &g->n->leaves[node];
    struct cone_tensor *t = program_new_tensor(d, l->from, l->when, l->size);
    uint32_t tensor = (uint32_t)d->n_tensors - 1,
             *order = program_order(g, l->leg, legs, l->n_legs);
    t->first_entry = program_keep_entries(g->own, l->entries, order, l->size);
    free(order);
    if (l->from == CONE_GATE) {
        t->source = l->shape;
        t->needs = l->shape < g->p->n_shapes ? g->p->shapes[l->shape].n_derivatives > 0
                                             : g->p->channel_needs[l->shape - g->p->n_shapes];
    } else {
        t->needs = l->wanted;
        d->c.wanted |= l->wanted;
        program_add_input(d, tensor, true, program_find_signal(g->own, l->scale, l->wanted),
                          l->column);
    }
    return tensor;
}

/* Uses the root of another class; its legs ascend. */
static uint32_t program_add_cut(struct program *g, struct draft_class *d, uint32_t node,
                                const uint16_t *legs) {
    struct node *x = &g->nodes[node];
    if (x->part == CONE_NONE) x->part = program_make_part(g, node);
    uint32_t class = g->recipe->parts[x->part].class;
    struct cone_tensor *t = program_new_tensor(d, CONE_INPUT, CONE_LANES, x->size);
    uint32_t tensor = (uint32_t)d->n_tensors - 1,
             *order = program_order(g, x->leg, legs, x->n_legs);
    t->needs = g->own->classes[class].needs;
    d->c.wanted |= g->own->classes[class].wanted;
    t->first_entry = program_keep_entries(g->own, NULL, order, x->size);
    free(order);
    program_add_input(d, tensor, false, class, x->part);
    return tensor;
}

static uint32_t program_add_node(struct program *g, struct draft_class *d, uint32_t node,
                                 const uint16_t *legs);

static uint32_t program_add_contraction(struct program *g, struct draft_class *d, uint32_t node,
                                        const uint16_t *legs) {
    const struct node *x = &g->nodes[node];
    uint32_t pair[2] = {program_children(g, node)[0], program_children(g, node)[1]};
    const struct node *a = &g->nodes[pair[0]], *b = &g->nodes[pair[1]];
    bool swap = a->when != b->when
                    ? a->when == CONE_LANES || (b->when != CONE_LANES && a->size > b->size)
                    : a->size > b->size;
    if (swap) {
        uint32_t t = pair[0];
        pair[0] = pair[1];
        pair[1] = t;
        a = &g->nodes[pair[0]];
        b = &g->nodes[pair[1]];
    }
    struct product p = program_product(a, b, legs, x->n_legs);
    uint32_t u = program_add_node(g, d, pair[0], p.left),
             v = program_add_node(g, d, pair[1], p.right);
    struct cone_tensor *t = program_new_tensor(d, CONE_NUMBERS, x->when, x->size);
    t->needs = d->tensors[u].needs || d->tensors[v].needs;
    qr_auto(qr_free_p) uint32_t *order = program_order(g, legs, p.both, p.n_left + p.n_right);
    struct cone_contraction *c = APPEND(d->contractions, d->n_contractions);
    *c = (struct cone_contraction){
        .a = u,
        .b = v,
        .out = (uint32_t)d->n_tensors - 1,
        .n_i = (uint32_t)program_legs_size(g, p.left, p.n_left),
        .n_k = (uint32_t)program_legs_size(g, p.right, p.n_shared),
        .n_j = (uint32_t)program_legs_size(g, p.right + p.n_shared, p.n_right),
        .order_out = NO_ORDER,
        .sums = 0};
    if (!order_is_identity(order, x->size)) {
        struct qr_cones *own = g->own;
        c->order_out = own->n_orders;
        own->orders = qr_xreallocarray(own->orders, own->n_orders + x->size, sizeof *own->orders);
        memcpy(own->orders + own->n_orders, order, x->size * sizeof *order);
        own->n_orders += x->size;
    }
    return c->out;
}

/* Returns the tensor of a node over these legs. */
static uint32_t program_add_node(struct program *g, struct draft_class *d, uint32_t node,
                                 const uint16_t *legs) {
    const struct node *x = &g->nodes[node];
    if (x->when == CONE_FIXED) {
        double *numbers = program_fixed_numbers(g, node, legs);
        struct cone_tensor *t = program_new_tensor(d, CONE_NUMBERS, CONE_FIXED, x->size);
        memcpy(program_new_fixed(g->own, x->size, &t->at), numbers, x->size * sizeof *numbers);
        free(numbers);
        return (uint32_t)d->n_tensors - 1;
    }
    if (program_is_leaf(g, node)) return program_add_leaf(g, d, node, legs);
    if (x->cut) return program_add_cut(g, d, node, legs);
    return program_add_contraction(g, d, node, legs);
}

/* ---- classes ---- */

/* Everything that the numbers of a class depend on. */
static void program_append_key(const struct qr_cones *own, struct draft_class *d) {
    struct qr_buf *key = &d->c.key;
    for (size_t i = 0; i < d->n_tensors; i++) {
        const struct cone_tensor *t = &d->tensors[i];
        uint32_t head[4] = {t->from, t->when, t->size, t->from == CONE_GATE ? t->source : 0};
        qr_buf_put(key, head, sizeof head);
        if (t->from != CONE_NUMBERS)
            qr_buf_put(key, own->entries + t->first_entry, t->size * sizeof *own->entries);
        else if (t->when == CONE_FIXED)
            qr_buf_put(key, own->fixed + t->at, t->size * sizeof *own->fixed);
    }
    for (size_t i = 0; i < d->n_inputs; i++) {
        uint32_t in[3] = {d->inputs[i].is_signal, d->inputs[i].of, d->inputs[i].tensor};
        qr_buf_put(key, in, sizeof in);
    }
    for (size_t i = 0; i < d->n_contractions; i++) {
        const struct cone_contraction *c = &d->contractions[i];
        uint32_t head[6] = {c->a, c->b, c->n_i, c->n_k, c->n_j, c->order_out != NO_ORDER};
        qr_buf_put(key, head, sizeof head);
        if (c->order_out != NO_ORDER)
            qr_buf_put(key, own->orders + c->order_out,
                       (size_t)c->n_i * c->n_j * sizeof *own->orders);
    }
}

static void program_raise_max(size_t *most, size_t n) {
    if (n > *most) *most = n;
}

static void program_place_tensors(struct qr_cones *own, struct draft_class *d) {
    for (size_t i = 0; i < d->n_tensors; i++) {
        struct cone_tensor *t = &d->tensors[i];
        if (t->when == CONE_LANES) {
            t->at = d->c.n_rows;
            d->c.n_rows += t->size;
            continue;
        }
        if (t->when == CONE_FIXED) continue;
        t->at = own->n_step;
        own->n_step += padded_size(t->size);
    }
}

/* Contractions of the step first, then those of lanes; the order within each stays. */
static void program_add_contractions(struct qr_cones *own, struct draft_class *d,
                                     uint32_t first_tensor) {
    for (int lanes = 0; lanes < 2; lanes++) {
        uint32_t *n = lanes ? &d->c.n_lanes : &d->c.n_step;
        *(lanes ? &d->c.first_lanes : &d->c.first_step) = (uint32_t)own->n_contractions;
        for (size_t i = 0; i < d->n_contractions; i++) {
            struct cone_contraction c = d->contractions[i];
            if ((d->tensors[c.out].when == CONE_LANES) != lanes) continue;
            if (lanes && d->tensors[c.a].when != CONE_LANES && d->tensors[c.a].needs) {
                c.sums = d->c.n_sums;
                d->c.n_sums += (size_t)c.n_i * c.n_k;
            }
            if (lanes) program_raise_max(&own->max_result, (size_t)c.n_i * c.n_j);
            c.a += first_tensor;
            c.b += first_tensor;
            c.out += first_tensor;
            *APPEND(own->contractions, own->n_contractions) = c;
            ++*n;
        }
    }
}

static uint32_t program_add_class(struct qr_cones *own, struct draft_class *d) {
    uint32_t first = (uint32_t)own->n_tensors;
    program_place_tensors(own, d);
    for (size_t i = 0; i < d->n_tensors; i++) *APPEND(own->tensors, own->n_tensors) = d->tensors[i];
    d->c.first_input = (uint32_t)own->n_inputs;
    d->c.n_inputs = (uint32_t)d->n_inputs;
    for (size_t i = 0; i < d->n_inputs; i++) {
        struct cone_input *in = APPEND(own->inputs, own->n_inputs);
        *in = d->inputs[i];
        in->tensor += first;
    }
    program_add_contractions(own, d, first);
    d->c.needs = d->tensors[d->c.root].needs;
    d->c.root += first;
    program_raise_max(&own->max_rows, d->c.n_rows);
    program_raise_max(&own->max_sums, d->c.n_sums);
    *APPEND(own->classes, own->n_classes) = d->c;
    return (uint32_t)own->n_classes - 1;
}

static uint32_t program_find_class(struct qr_cones *own, const struct qr_buf *key) {
    for (uint32_t i = 0; i < own->n_classes; i++)
        if (own->classes[i].key.n == key->n && memcmp(own->classes[i].key.p, key->p, key->n) == 0)
            return i;
    return CONE_NONE;
}

/* Makes the part of a node, of a new class or an equal existing one. Returns its index. */
static uint32_t program_make_part(struct program *g, uint32_t node) {
    struct qr_cones *own = g->own;
    const struct node *x = &g->nodes[node];
    struct draft_class d = {.c = {.key = {0}}};
    bool whole = program_is_leaf(g, node) || x->when != CONE_LANES;
    d.c.root = whole ? program_add_node(g, &d, node, x->leg)
                     : program_add_contraction(g, &d, node, x->leg);
    program_append_key(own, &d);
    uint32_t class = program_find_class(own, &d.c.key);
    if (class == CONE_NONE) class = program_add_class(own, &d);
    else qr_buf_free(&d.c.key);
    struct cone_recipe *r = g->recipe;
    struct cone_part *part = APPEND(r->parts, r->n_parts);
    *part = (struct cone_part){.class = class, .first_input = (uint32_t)r->n_inputs};
    r->inputs = qr_xreallocarray(r->inputs, r->n_inputs + d.n_inputs + 1, sizeof *r->inputs);
    if (d.n_inputs) memcpy(r->inputs + r->n_inputs, d.input_of, d.n_inputs * sizeof *r->inputs);
    r->n_inputs += d.n_inputs;
    free(d.tensors);
    free(d.contractions);
    free(d.inputs);
    free(d.input_of);
    return (uint32_t)r->n_parts - 1;
}

void cone_program_make(struct qr_cones *own, const struct qr_sim_plan *p,
                       const struct cone_network *n, const struct cone_tree *t,
                       struct cone_recipe *ret) {
    struct program g = {.own = own, .p = p, .n = n, .t = t, .recipe = ret};
    *ret = (struct cone_recipe){0};
    program_set_nodes(&g);
    program_make_part(&g, (uint32_t)(n->n_leaves + t->n_pairs - 1));
    free(g.nodes);
}

void cone_recipe_fini(struct cone_recipe *r) {
    free(r->parts);
    free(r->inputs);
}
