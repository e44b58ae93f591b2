/* sim/cones/lanes.c — runs the program of a class on sixteen items at a time, forward and backward.
 * Start reading at cones_class_forward(). */
#include <string.h>

#include "base/mem.h"
#include "sim/cones/cones_impl.h"

/* A block of up to sixteen items of a class. */
struct block {
    const struct qr_sim_bound *b;
    const struct qr_cones *own;
    const struct cone_class *c;
    struct cones_workspace *ws;
    struct cone_items *items;
    cone_row *rows;
    size_t first;
    unsigned n;
};

static struct cone_items *block_input_items(const struct block *k, const struct cone_input *in,
                                            size_t *ret_size) {
    *ret_size =
        in->is_signal ? (size_t)QR_SIGNALS : k->own->tensors[k->own->classes[in->of].root].size;
    return in->is_signal ? &k->ws->signals[in->of] : &k->ws->classes[in->of];
}

static void block_gather_input(const struct block *k, uint32_t i) {
    static const double none[CONE_PART_NUMBERS]; /* for lanes without an item */
    const struct cone_input *in = &k->own->inputs[k->c->first_input + i];
    const struct cone_tensor *t = &k->own->tensors[in->tensor];
    const uint16_t *entries = k->own->entries + t->first_entry;
    const uint32_t *key = k->items->keys + k->first * k->c->n_inputs + i;
    cone_row *to = k->rows + t->at;
    const double *value[QR_LANES] QR_RAW;
    size_t size, step = k->c->n_inputs;
    const double *values = block_input_items(k, in, &size)->values;
    for (unsigned l = 0; l < k->n; l++) value[l] = values + key[l * step] * size;
    for (unsigned l = k->n; l < QR_LANES; l++) value[l] = none;
    for (uint32_t e = 0, n = t->size; e < n; e++) {
        size_t entry = entries[e];
#pragma GCC unroll 16
        for (unsigned l = 0; l < QR_LANES; l++) to[e][l] = value[l][entry];
    }
}

static void block_gather(const struct block *k) {
    for (uint32_t i = 0; i < k->c->n_inputs; i++) block_gather_input(k, i);
}

static void block_contract(const struct block *k, const struct cone_contraction *c) {
    const struct qr_kernels *kernels = k->b->plan->kernels;
    const struct cone_tensor *ta = &k->own->tensors[c->a];
    cone_row *out = k->rows + k->own->tensors[c->out].at, *b = k->rows + k->own->tensors[c->b].at;
    cone_row *result = c->order_out == NO_ORDER ? out : k->ws->result;
    if (ta->when == CONE_LANES)
        cones_lanes(kernels, k->ws->pool, result, k->rows + ta->at, c->n_k, 1, b, 1, c->n_j, c->n_i,
                    c->n_k, c->n_j, false);
    else
        cones_matmul(kernels, k->ws->pool, *result, cones_numbers(k->b, ta), c->n_k, 1, *b, c->n_i,
                     c->n_k, (size_t)c->n_j * QR_LANES);
    if (result == out) return;
    const uint32_t *order = k->own->orders + c->order_out;
    for (size_t x = 0; x < (size_t)c->n_i * c->n_j; x++)
        memcpy(out[order[x]], result[x], sizeof *out);
}

static void block_forward(const struct block *k) {
    block_gather(k);
    for (uint32_t i = 0; i < k->c->n_lanes; i++)
        block_contract(k, &k->own->contractions[k->c->first_lanes + i]);
}

static void block_contract_backward(const struct block *k, const struct cone_contraction *c) {
    const struct qr_kernels *kernels = k->b->plan->kernels;
    const struct cone_tensor *ta = &k->own->tensors[c->a], *tb = &k->own->tensors[c->b],
                             *out = &k->own->tensors[c->out];
    if (!out->needs) return;
    cone_row *result = k->ws->d_rows + out->at, *a = k->rows + ta->at, *b = k->rows + tb->at;
    if (c->order_out != NO_ORDER) {
        const uint32_t *order = k->own->orders + c->order_out;
        for (size_t x = 0; x < (size_t)c->n_i * c->n_j; x++)
            memcpy(k->ws->result[x], result[order[x]], sizeof *result);
        result = k->ws->result;
    }
    bool lanes = ta->when == CONE_LANES;
    if (ta->needs) /* sum over j of result[i][j] b[k][j] */
        cones_lanes(kernels, k->ws->pool, lanes ? k->ws->d_rows + ta->at : k->ws->sums + c->sums,
                    result, c->n_j, 1, b, c->n_j, 1, c->n_i, c->n_j, c->n_k, !lanes);
    if (!tb->needs) return;
    cone_row *d = k->ws->d_rows + tb->at; /* sum over i of a[i][k] result[i][j] */
    if (lanes)
        cones_lanes(kernels, k->ws->pool, d, a, 1, c->n_k, result, 1, c->n_j, c->n_k, c->n_i,
                    c->n_j, false);
    else
        cones_matmul(kernels, k->ws->pool, *d, cones_numbers(k->b, ta), 1, c->n_k, *result, c->n_k,
                     c->n_i, (size_t)c->n_j * QR_LANES);
}

/* Adds the derivatives by input i, from these lanes. */
static void block_scatter_input(const struct block *k, uint32_t i, unsigned lane, unsigned end) {
    const struct cone_input *in = &k->own->inputs[k->c->first_input + i];
    const struct cone_tensor *t = &k->own->tensors[in->tensor];
    if (!t->needs) return;
    const uint16_t *entries = k->own->entries + t->first_entry;
    const uint32_t *key = k->items->keys + k->first * k->c->n_inputs + i;
    const cone_row *from = k->ws->d_rows + t->at;
    double *to[QR_LANES] QR_RAW;
    size_t size, step = k->c->n_inputs;
    double *d = block_input_items(k, in, &size)->d;
    bool all = end - lane == QR_LANES;
    for (unsigned l = lane; l < end; l++) to[l] = d + key[l * step] * size;
    for (uint32_t e = 0, n = t->size; e < n; e++) {
        size_t entry = entries[e];
        for (unsigned l = lane; l < end && !all; l++) to[l][entry] += from[e][l];
        if (!all) continue;
#pragma GCC unroll 16
        for (unsigned l = 0; l < QR_LANES; l++) to[l][entry] += from[e][l];
    }
}

/* Input by input; lane by lane if derivatives by input columns are requested: a sample's sums are
 * then in the order of its own items, independent of the other samples in the micro-batch. */
static void block_scatter(const struct block *k) {
    unsigned lanes = k->c->wanted ? 1 : k->n;
    for (unsigned l = 0; l < k->n; l += lanes)
        for (uint32_t i = 0; i < k->c->n_inputs; i++) block_scatter_input(k, i, l, l + lanes);
}

static struct block lanes_first_block(const struct qr_sim_bound *b, struct cones_workspace *ws,
                                      uint32_t class) {
    const struct qr_cones *own = b->plan->cones;
    return (struct block){
        .b = b, .own = own, .c = &own->classes[class], .ws = ws, .items = &ws->classes[class]};
}

static bool block_is_kept(const struct block *k) { return k->first / QR_LANES < k->items->n_kept; }

/* Returns false if no items remain. */
static bool block_set(struct block *k, size_t first) {
    size_t left = k->items->n - first;
    k->first = first;
    k->n = left < QR_LANES ? (unsigned)left : QR_LANES;
    k->rows = k->ws->rows;
    if (block_is_kept(k))
        k->rows = k->ws->kept + k->items->first_kept + first / QR_LANES * k->c->n_rows;
    return first < k->items->n;
}

size_t cones_blocks_kept(const struct cone_class *c, size_t n_items, size_t *rows) {
    size_t n = (n_items + QR_LANES - 1) / QR_LANES, free_rows = CONE_KEPT_ROWS - *rows;
    if (!c->needs || !c->n_lanes) return 0;
    if (n > free_rows / c->n_rows) n = free_rows / c->n_rows;
    *rows += n * c->n_rows;
    return n;
}

void cones_class_forward(const struct qr_sim_bound *b, struct cones_workspace *ws, uint32_t class) {
    struct block k = lanes_first_block(b, ws, class);
    const struct cone_tensor *root = &k.own->tensors[k.c->root];
    if (root->when != CONE_LANES) {
        memcpy(k.items->values, cones_numbers(b, root), root->size * sizeof(double));
        return;
    }
    k.items->first_kept = ws->n_kept;
    k.items->n_kept = cones_blocks_kept(k.c, k.items->n, &ws->n_kept);
    for (size_t first = 0; block_set(&k, first); first += QR_LANES) {
        block_forward(&k);
        const cone_row *from = k.rows + root->at;
        double *to = k.items->values + first * root->size;
        for (uint32_t e = 0, n = root->size; e < n; e++)
            for (unsigned l = 0; l < k.n; l++) to[l * n + e] = from[e][l];
    }
}

/* A vector of two lanes, which every base instruction set has. */
typedef double pair __attribute__((vector_size(16)));

/* Sums derivatives by the step's numbers over the lanes. */
static void block_fold_sums(const struct block *k, double *d_step) {
    for (uint32_t i = 0; i < k->c->n_lanes; i++) {
        const struct cone_contraction *c = &k->own->contractions[k->c->first_lanes + i];
        const struct cone_tensor *t = &k->own->tensors[c->a];
        if (t->when != CONE_STEP || !t->needs) continue;
        const cone_row *sums = k->ws->sums + c->sums;
        for (uint32_t x = 0; x < t->size; x++) {
            pair v[QR_LANES / 2] QR_RAW;
            memcpy(v, sums[x], sizeof v);
#pragma GCC unroll 3
            for (unsigned half = QR_LANES / 4; half; half /= 2)
#pragma GCC unroll 4
                for (unsigned l = 0; l < half; l++) v[l] += v[l + half];
            d_step[t->at + x] = v[0][0] + v[0][1];
        }
    }
}

void cones_class_backward(const struct qr_sim_bound *b, struct cones_workspace *ws,
                          uint32_t class) {
    struct block k = lanes_first_block(b, ws, class);
    const struct cone_tensor *root = &k.own->tensors[k.c->root];
    if (!k.c->needs) return;
    if (root->when != CONE_LANES) {
        memcpy(ws->d_step + root->at, k.items->d, root->size * sizeof(double));
        return;
    }
    memset(ws->sums, 0, k.c->n_sums * sizeof *ws->sums);
    for (size_t first = 0; block_set(&k, first); first += QR_LANES) {
        if (!block_is_kept(&k)) block_forward(&k);
        cone_row *to = ws->d_rows + root->at;
        const double *from = k.items->d + first * root->size;
        if (k.n < QR_LANES) memset(to, 0, root->size * sizeof *to);
        for (uint32_t e = 0, n = root->size; e < n; e++)
            for (unsigned l = 0; l < k.n; l++) to[e][l] = from[l * n + e];
        for (uint32_t i = k.c->n_lanes; i-- > 0;)
            block_contract_backward(&k, &k.own->contractions[k.c->first_lanes + i]);
        block_scatter(&k);
    }
    block_fold_sums(&k, ws->d_step);
}
