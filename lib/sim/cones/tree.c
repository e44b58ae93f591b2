/* sim/cones/tree.c — the order in which a network is contracted: repeated greedy searches. Each
 * next pair is the one with the smallest product relative to the pair (Gray and Kourtis,
 * Quantum 5, 410), with different weights for lanes and with random noise. The order with the least
 * counted cost wins. Start reading at cone_tree_search(). */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "exact/random.h"
#include "sim/cones/cones_impl.h"

enum { FIRST_TRIALS = 3 };
/* Overhead of a contraction's call, in multiply-adds. */
#define CALL_LANES 2.0
#define CALL_NUMBERS 16.0
#define FIXED_WEIGHT 1e-6

struct tree_node {
    enum cone_when when;
    double size;
    uint64_t *legs; /* bit set of the node's legs */
};

struct tree_search {
    const struct cone_network *n;
    double step_weight;
    size_t n_words;
    struct tree_node *nodes; /* 2 * n_leaves */
    uint64_t *words;
    /* per remaining leg: the two nodes that it joins, and the score of contracting it now */
    uint32_t (*owner)[2];
    double *score;
    uint16_t *left;
    size_t n_left;
    uint32_t (*pair)[2];
    /* of the current trial */
    double lane_weight, noise;
    uint32_t trial, draws;
    double cost;
};

static double tree_random(struct tree_search *s) {
    uint32_t key[2] = {s->trial, 0}, counter[4] = {s->draws++, 0, 0, 0}, out[4];
    qr_philox4x32(key, counter, out);
    return (double)out[0] / 4294967296.0;
}

/* Product of the dimensions of the legs that a and b share, or of those that only one has. */
static double tree_product_size(const struct tree_search *s, const struct tree_node *a,
                                const struct tree_node *b, bool shared) {
    double size = 1;
    for (size_t w = 0; w < s->n_words; w++) {
        uint64_t bits = shared ? a->legs[w] & b->legs[w] : a->legs[w] ^ b->legs[w];
        for (; bits; bits &= bits - 1) size *= s->n->dim[w * 64 + (size_t)__builtin_ctzll(bits)];
    }
    return size;
}

static enum cone_when tree_later(enum cone_when a, enum cone_when b) { return a > b ? a : b; }

static double tree_weight(const struct tree_search *s, enum cone_when when) {
    return when == CONE_LANES ? s->lane_weight : 1;
}

static void tree_set_score(struct tree_search *s, uint16_t leg) {
    const struct tree_node *a = &s->nodes[s->owner[leg][0]], *b = &s->nodes[s->owner[leg][1]];
    double out = tree_product_size(s, a, b, false) * tree_weight(s, tree_later(a->when, b->when)),
           in = a->size * tree_weight(s, a->when) + b->size * tree_weight(s, b->when);
    s->score[leg] = out - in;
    if (s->noise > 0) s->score[leg] += s->noise * (tree_random(s) - 0.5) * (out + in);
}

static void tree_add_cost(struct tree_search *s, double out, double shared, enum cone_when when) {
    bool lanes = when == CONE_LANES;
    double w = lanes ? 1 : when == CONE_STEP ? s->step_weight : FIXED_WEIGHT;
    s->cost += w * (out * shared + (lanes ? CALL_LANES : CALL_NUMBERS));
    if (out > (lanes ? CONE_MAX_ROWS : CONE_MAX_NUMBERS)) s->cost = INFINITY;
}

/* Contracts all legs that nodes a and b share. */
static void tree_contract_pair(struct tree_search *s, uint32_t a, uint32_t b, size_t nth) {
    uint32_t to = (uint32_t)(s->n->n_leaves + nth);
    struct tree_node *x = &s->nodes[a], *y = &s->nodes[b], *z = &s->nodes[to];
    z->when = tree_later(x->when, y->when);
    z->size = tree_product_size(s, x, y, false);
    tree_add_cost(s, z->size, tree_product_size(s, x, y, true), z->when);
    for (size_t w = 0; w < s->n_words; w++) z->legs[w] = x->legs[w] ^ y->legs[w];
    s->pair[nth][0] = a;
    s->pair[nth][1] = b;
    size_t n = 0;
    for (size_t i = 0; i < s->n_left; i++) {
        uint32_t *owner = s->owner[s->left[i]];
        bool first = owner[0] == a || owner[0] == b, second = owner[1] == a || owner[1] == b;
        if (first && second) continue;
        if (first) owner[0] = to;
        if (second) owner[1] = to;
        s->left[n++] = s->left[i];
    }
    s->n_left = n;
    for (size_t i = 0; i < n; i++) {
        const uint32_t *owner = s->owner[s->left[i]];
        if (owner[0] == to || owner[1] == to) tree_set_score(s, s->left[i]);
    }
}

static void tree_start_trial(struct tree_search *s) {
    s->cost = 0;
    s->draws = 0;
    s->n_left = 0;
    memset(s->owner, 0xff, s->n->n_legs * sizeof *s->owner);
    for (uint32_t i = 0; i < s->n->n_leaves; i++)
        for (unsigned k = 0; k < s->n->leaves[i].n_legs; k++) {
            uint32_t *owner = s->owner[s->n->leaves[i].leg[k]];
            owner[owner[0] != CONE_NONE] = i;
        }
    for (size_t l = 0; l < s->n->n_legs; l++)
        if (s->owner[l][1] != CONE_NONE) s->left[s->n_left++] = (uint16_t)l;
    for (size_t i = 0; i < s->n_left; i++) tree_set_score(s, s->left[i]);
}

/* Multiplies the nodes that no leg joins; those known earliest first. */
static void tree_join_parts(struct tree_search *s, size_t nth) {
    size_t n_nodes = s->n->n_leaves + nth;
    bool *used = qr_xcalloc(2 * s->n->n_leaves, sizeof *used);
    for (size_t i = 0; i < nth; i++) used[s->pair[i][0]] = used[s->pair[i][1]] = true;
    uint32_t have = CONE_NONE;
    for (int when = CONE_FIXED; when <= CONE_LANES; when++)
        for (uint32_t i = 0; i < n_nodes; i++) {
            if (used[i] || (int)s->nodes[i].when != when) continue;
            if (have == CONE_NONE) {
                have = i;
                continue;
            }
            tree_contract_pair(s, have, i, nth);
            have = (uint32_t)(s->n->n_leaves + nth++);
        }
    free(used);
}

static void tree_run_trial(struct tree_search *s, double least) {
    tree_start_trial(s);
    size_t nth = 0;
    while (s->n_left && s->cost < least) {
        uint16_t best = s->left[0];
        for (size_t i = 1; i < s->n_left; i++)
            if (s->score[s->left[i]] < s->score[best]) best = s->left[i];
        tree_contract_pair(s, s->owner[best][0], s->owner[best][1], nth++);
    }
    if (s->cost < least) tree_join_parts(s, nth);
}

static void tree_allocate(struct tree_search *s, const struct cone_network *n) {
    s->n_words = n->n_legs / 64 + 1;
    s->nodes = qr_xcalloc(2 * n->n_leaves, sizeof *s->nodes);
    s->words = qr_xcalloc(2 * n->n_leaves * s->n_words, sizeof *s->words);
    s->owner = qr_xcalloc(n->n_legs + 1, sizeof *s->owner);
    s->score = qr_xcalloc(n->n_legs + 1, sizeof *s->score);
    s->left = qr_xcalloc(n->n_legs + 1, sizeof *s->left);
    s->pair = qr_xcalloc(n->n_leaves, sizeof *s->pair);
    for (size_t i = 0; i < 2 * n->n_leaves; i++) s->nodes[i].legs = s->words + i * s->n_words;
    for (size_t i = 0; i < n->n_leaves; i++) {
        const struct cone_leaf *l = &n->leaves[i];
        s->nodes[i].when = l->when;
        s->nodes[i].size = (double)l->size;
        for (unsigned k = 0; k < l->n_legs; k++)
            s->nodes[i].legs[l->leg[k] / 64] |= UINT64_C(1) << l->leg[k] % 64;
    }
}

void cone_tree_search(const struct cone_network *n, double step_weight, uint32_t more_trials,
                      struct cone_tree *ret) {
    static const double lane_weights[FIRST_TRIALS] = {64, 8, 1};
    struct tree_search s = {.n = n, .step_weight = step_weight};
    uint32_t n_trials = FIRST_TRIALS + more_trials;
    tree_allocate(&s, n);
    *ret = (struct cone_tree){.n_pairs = n->n_leaves - 1,
                              .pair = qr_xcalloc(n->n_leaves, sizeof *ret->pair),
                              .cost = INFINITY};
    for (s.trial = 0; s.trial < n_trials; s.trial++) {
        s.lane_weight = lane_weights[s.trial % FIRST_TRIALS];
        s.noise = s.trial < FIRST_TRIALS ? 0 : 0.5;
        tree_run_trial(&s, ret->cost);
        if (s.cost >= ret->cost) continue;
        ret->cost = s.cost;
        memcpy(ret->pair, s.pair, ret->n_pairs * sizeof *ret->pair);
    }
    free(s.nodes);
    free(s.words);
    free(s.owner);
    free(s.score);
    free(s.left);
    free(s.pair);
}

void cone_tree_fini(struct cone_tree *t) { free(t->pair); }
