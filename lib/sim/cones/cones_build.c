/* sim/cones/cones_build.c — a cones plan from a circuit: each term's cone, equal ones once; their
 * programs; an instance for each place where a part stands; and whether it is worth it. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "observable/qubits.h"
#include "sim/cones/cones_impl.h"

/* A step's work as a part of a sample's, in the search for an order: about a batch's samples times
 * the places of equal parts. */
#define STEP_WEIGHT (1.0 / 64)
/* Multiply-adds of the cones engine take that many times as long as those of the others, all in
 * all: they are float64, and come in small pieces. */
#define SLOWER 5.0
/* The others' multiply-adds for an amplitude and a gradient: of a fused gate, and of the streaming
 * engine at least. */
#define OF_FUSED_GATE 62.0
#define OF_STREAMING 800.0
/* What a long search may save beside a quick one, at most as far as was seen. */
#define SEARCH_GAINS 2.0
/* Of all cones, in squares of their numbers of tensors: half a second. */
#define SEARCH_WORK 2e7
/* Forward, and two products backward. */
#define SWEEPS 3.0
/* Gates of all terms' cones: what is more is not looked at for long. */
#define ALL_GATES (1 << 18)
/* Multiply-adds of a step that are worth waking a thread for. */
#define SHARE_WORK 2.5e5
/* Of an item: to look for it, to gather what it is made of. */
#define OF_ITEM 40.0

struct draft_term {
    uint32_t readout, cone;
    double coefficient;
    uint32_t *columns;
};

struct plan_builder {
    struct qr_sim_plan *p;
    const struct qr_circuit *c;
    struct qr_cones *own;
    struct cone *cones;
    struct cone_recipe *recipes;
    size_t n_cones, n_recipes, n_terms;
    size_t n_gates; /* of all terms' cones */
    bool expanded;  /* one of them is */
    size_t *places; /* of each cone: how many terms have it */
    struct draft_term *terms;
    double limit;       /* multiply-adds of a sample, from which on another engine is better */
    double cost;        /* of all cones */
    double search_work; /* squares of their numbers of tensors: what a trial takes */
};

static bool refuse(struct qr_sim_plan *p, const char *format, ...) QR_PRINTF(2, 3);
static bool refuse(struct qr_sim_plan *p, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    vsnprintf(p->why, sizeof p->why, format, ap);
    va_end(ap);
    return false;
}

/* ---- cones ---- */

static uint32_t cone_like(const struct plan_builder *b, const struct cone *c) {
    for (uint32_t i = 0; i < b->n_cones; i++)
        if (b->cones[i].key.n == c->key.n &&
            (!c->key.n || memcmp(b->cones[i].key.p, c->key.p, c->key.n) == 0))
            return i;
    return CONE_NONE;
}

static bool add_term(struct plan_builder *b, struct cone_finder *f, uint32_t readout,
                     const struct qr_pauli_term *term) {
    if (qr_qubits_is_empty(&term->x) && qr_qubits_is_empty(&term->z)) {
        b->own->constants[readout] += term->coefficient;
        return true;
    }
    struct cone cone;
    struct draft_term t = {.readout = readout, .coefficient = term->coefficient};
    if (!cone_of_term(f, term, &cone, &t.columns))
        return refuse(b->p,
                      "the cone of a term of read-out %u has over %d qubits or %d gates, those "
                      "counted that stand for its controlled gates",
                      readout, (int)CONE_MAX_QUBITS, (int)CONE_MAX_GATES);
    b->n_gates += cone.n_gates;
    t.cone = cone_like(b, &cone);
    if (t.cone == CONE_NONE) {
        t.cone = (uint32_t)b->n_cones;
        b->cones = qr_xreallocarray(b->cones, b->n_cones + 1, sizeof *b->cones);
        b->places = qr_xreallocarray(b->places, b->n_cones + 1, sizeof *b->places);
        b->places[b->n_cones] = 0;
        b->cones[b->n_cones++] = cone;
        unsigned n_qubits = cone.n_qubits - cone.n_helpers;
        b->expanded |= cone.expanded;
        if (n_qubits > b->own->widest) b->own->widest = n_qubits;
    } else {
        cone_fini(&cone);
    }
    b->places[t.cone]++;
    b->terms = qr_xreallocarray(b->terms, b->n_terms + 1, sizeof *b->terms);
    b->terms[b->n_terms++] = t;
    return true;
}

static bool find_cones(struct plan_builder *b, const struct qr_observable *obs, size_t n_obs) {
    struct cone_finder *f = cone_finder_new(b->c, b->p->wanted);
    bool good = true;
    for (uint32_t r = 0; r < n_obs && good; r++)
        for (size_t t = 0; t < obs[r].n_terms && good && b->n_gates <= ALL_GATES; t++)
            good = add_term(b, f, r, &obs[r].terms[t]);
    cone_finder_free(f);
    if (good && b->expanded && !b->p->at_any_cost && b->c->n_qubits < CONE_EXPANDED_QUBITS)
        return refuse(b->p,
                      "gates with several controls, or with controls and data, or with data and no "
                      "power: a state vector has them up to %d qubits",
                      CONE_EXPANDED_QUBITS - 1);
    if (b->n_gates > ALL_GATES)
        return refuse(b->p, "the cones of all terms have over %d gates", ALL_GATES);
    return good;
}

/* ---- fused gates ---- */

static void fuse(struct plan_builder *b) {
    size_t n = 0, n_gates = 0, at = 0;
    for (size_t i = 0; i < b->n_cones; i++) {
        n += b->cones[i].n_levels;
        n_gates += b->cones[i].n_gates;
    }
    struct qr_circuit *levels = qr_xcalloc(n + 1, sizeof *levels);
    struct qr_gate *gates = qr_xcalloc(n_gates + 1, sizeof *gates), *free_gates = gates;
    uint32_t *first = qr_xcalloc(n + 1, sizeof *first);
    for (size_t i = 0; i < b->n_cones; i++) {
        const struct cone *c = &b->cones[i];
        for (size_t l = 0; l < c->n_levels; l++) {
            struct qr_circuit *to = &levels[at + l];
            *to = (struct qr_circuit){
                .n_qubits = c->n_qubits, .n_params = b->c->n_params, .gates = free_gates};
            for (size_t g = 0; g < c->n_gates; g++)
                if (c->level[g] == l && !cone_gate_is_apart(&c->gates[g]))
                    to->gates[to->n_gates++] = c->gates[g];
            free_gates += to->n_gates;
        }
        at += c->n_levels;
    }
    qr_plan_fuse(b->p, levels, n, first);
    at = 0;
    for (size_t i = 0; i < b->n_cones; i++) {
        struct cone *c = &b->cones[i];
        c->first_fused = qr_xcalloc(c->n_levels + 1, sizeof *first);
        memcpy(c->first_fused, first + at, (c->n_levels + 1) * sizeof *first);
        at += c->n_levels;
    }
    free(levels);
    free(gates);
    free(first);
}

/* ---- programs ---- */

/* What a cone costs by the best order of so many, for all its places. */
static double cost_of(const struct plan_builder *b, size_t cone, const struct cone_network *n,
                      uint32_t more_trials, struct cone_tree *ret) {
    cone_tree_search(n, b->cones[cone].data ? STEP_WEIGHT : 1, more_trials, ret);
    return ret->cost * (double)b->places[cone];
}

/* A quick look first: many circuits are far from being worth a long search. */
static bool make_networks(struct plan_builder *b, const struct cone_shapes *shapes,
                          struct cone_network *ret) {
    for (size_t i = 0; i < b->n_cones && b->cost < b->limit * SEARCH_GAINS / SWEEPS; i++) {
        struct cone_tree t;
        cone_network_make(&b->cones[i], shapes, &ret[i]);
        b->cost += cost_of(b, i, &ret[i], 0, &t);
        b->search_work += (double)ret[i].n_leaves * (double)ret[i].n_leaves;
        cone_tree_fini(&t);
    }
    return b->cost < b->limit * SEARCH_GAINS / SWEEPS;
}

static bool make_programs(struct plan_builder *b, const struct cone_network *networks) {
    double more = SEARCH_WORK / b->search_work;
    uint32_t more_trials = more < CONE_MORE_TRIALS ? (uint32_t)more : CONE_MORE_TRIALS;
    b->cost = 0;
    for (size_t i = 0; i < b->n_cones && b->cost < b->limit / SWEEPS; i++) {
        struct cone_tree t;
        b->cost += cost_of(b, i, &networks[i], more_trials, &t);
        if (isfinite(t.cost)) {
            cone_program_make(b->own, b->p, &networks[i], &t, &b->recipes[i]);
            b->n_recipes = i + 1;
        }
        cone_tree_fini(&t);
    }
    return b->cost < b->limit / SWEEPS;
}

static bool contract(struct plan_builder *b) {
    struct cone_shapes shapes;
    cone_shapes_make(&shapes, b->p);
    b->recipes = qr_xcalloc(b->n_cones + 1, sizeof *b->recipes);
    struct cone_network *networks = qr_xcalloc(b->n_cones + 1, sizeof *networks);
    bool good = make_networks(b, &shapes, networks) && make_programs(b, networks);
    for (size_t i = 0; i < b->n_cones; i++) cone_network_fini(&networks[i]);
    free(networks);
    cone_shapes_fini(&shapes);
    if (good) return true;
    return isfinite(b->cost)
               ? refuse(b->p,
                        "the read-outs' cones would take over %.3g multiply-adds a sample, "
                        "and with them longer than another engine",
                        b->limit)
               : refuse(b->p, "the read-outs' cones are too wide to be contracted");
}

/* ---- instances ---- */

static uint32_t instance_of_signal(struct cone_signal *s, uint32_t column) {
    for (uint32_t i = 0; i < s->n_instances; i++)
        if (s->columns[i] == column) return i;
    if (s->n_instances == s->cap_instances) {
        s->cap_instances = s->cap_instances ? 2 * s->cap_instances : 16;
        s->columns = qr_xreallocarray(s->columns, s->cap_instances, sizeof *s->columns);
    }
    s->columns[s->n_instances] = column;
    return (uint32_t)s->n_instances++;
}

static uint32_t instance_of_class(struct cone_class *c, const uint32_t *inputs) {
    size_t bytes = c->n_inputs * sizeof *inputs;
    for (uint32_t i = 0; i < c->n_instances; i++)
        if (!bytes || memcmp(c->instances + (size_t)i * c->n_inputs, inputs, bytes) == 0) return i;
    if (c->n_instances == c->cap_instances) {
        c->cap_instances = c->cap_instances ? 2 * c->cap_instances : 16;
        c->instances = qr_xreallocarray(c->instances, c->cap_instances + 1, bytes + 1);
    }
    if (bytes) memcpy(c->instances + c->n_instances * c->n_inputs, inputs, bytes);
    return (uint32_t)c->n_instances++;
}

/* The root's. */
static uint32_t instance_of_term(struct plan_builder *b, const struct draft_term *t) {
    const struct cone_recipe *r = &b->recipes[t->cone];
    uint32_t *instance = qr_xcalloc(r->n_parts, sizeof *instance),
             *inputs = qr_xcalloc(r->n_inputs + 1, sizeof *inputs);
    for (size_t i = 0; i < r->n_parts; i++) {
        struct cone_class *c = &b->own->classes[r->parts[i].class];
        for (uint32_t k = 0; k < c->n_inputs; k++) {
            const struct cone_input *in = &b->own->inputs[c->first_input + k];
            uint32_t of = r->inputs[r->parts[i].first_input + k];
            inputs[k] = in->is_signal ? instance_of_signal(&b->own->signals[in->of], t->columns[of])
                                      : instance[of];
        }
        instance[i] = instance_of_class(c, inputs);
    }
    uint32_t root = instance[r->n_parts - 1];
    free(instance);
    free(inputs);
    return root;
}

static void find_gates(struct qr_cones *own, size_t n_shapes) {
    struct cone_gate *of = qr_xcalloc(n_shapes + 1, sizeof *of);
    for (size_t i = 0; i < own->n_tensors; i++) {
        const struct cone_tensor *t = &own->tensors[i];
        if (t->from != CONE_GATE) continue;
        for (uint32_t k = 0; k < t->size; k++) {
            unsigned entry = own->entries[t->first_entry + k];
            of[t->source].rows |= (uint16_t)(1u << entry / 16);
            of[t->source].columns |= (uint16_t)(1u << entry % 16);
        }
    }
    own->gates = of; /* those that are used move to the front */
    for (uint32_t i = 0; i < n_shapes; i++) {
        of[i].shape = i;
        if (of[i].rows) of[own->n_gates++] = of[i];
    }
}

static void place_terms(struct plan_builder *b) {
    struct qr_cones *own = b->own;
    own->terms = qr_xcalloc(b->n_terms + 1, sizeof *own->terms);
    own->n_terms = b->n_terms;
    for (size_t i = 0; i < b->n_terms; i++) {
        const struct cone_recipe *r = &b->recipes[b->terms[i].cone];
        own->terms[i] = (struct cone_term){.readout = b->terms[i].readout,
                                           .coefficient = b->terms[i].coefficient,
                                           .class = r->parts[r->n_parts - 1].class,
                                           .instance = instance_of_term(b, &b->terms[i])};
    }
    find_gates(own, b->p->n_shapes);
    for (size_t i = 0; i < own->n_signals; i++) {
        own->signals[i].first_slot = own->n_slots;
        own->n_slots += own->signals[i].n_instances;
    }
    for (size_t i = 0; i < own->n_classes; i++) {
        own->classes[i].first_slot = own->n_slots;
        own->n_slots += own->classes[i].n_instances;
    }
}

/* ---- is it worth it? ---- */

/* What another engine takes for a sample, in multiply-adds of this one. */
static double others(struct qr_sim_plan *p, const struct qr_circuit *c) {
    if (c->n_qubits > QR_FUSED_QUBITS) return INFINITY;
    qr_plan_fuse(p, c, 1, NULL);
    double of_amplitude = OF_FUSED_GATE * (double)p->n_fused;
    qr_plan_unfuse(p);
    /* the streaming engine knows no derivatives by inputs */
    if (!p->wanted && of_amplitude > OF_STREAMING) of_amplitude = OF_STREAMING;
    return ldexp(of_amplitude, (int)c->n_qubits) / SLOWER;
}

static double work_of(const struct qr_cones *own, uint32_t first, uint32_t n) {
    double work = 0;
    for (uint32_t i = first; i < first + n; i++) {
        const struct cone_contraction *c = &own->contractions[i];
        double once = (double)c->n_i * c->n_k * c->n_j;
        bool again = own->tensors[c->out].when == CONE_LANES;
        work += once * (1 + again + own->tensors[c->a].needs + own->tensors[c->b].needs);
    }
    return work;
}

/* A step's contractions as shares of about equal work, of whole classes. */
static void share_step(struct qr_cones *own) {
    double all = 0, before = 0;
    for (size_t i = 0; i < own->n_classes; i++)
        all += work_of(own, own->classes[i].first_step, own->classes[i].n_step);
    double n = floor(all / SHARE_WORK) + 1, most = n < CONE_MAX_SHARES ? n : CONE_MAX_SHARES;
    own->shares = qr_xcalloc(CONE_MAX_SHARES, sizeof *own->shares);
    for (uint32_t i = 0; i < own->n_classes; i++) {
        const struct cone_class *k = &own->classes[i];
        double begun = (double)own->n_shares;
        if (begun == 0 || (begun < most && before * most >= all * begun))
            own->shares[own->n_shares++].first_class = i;
        struct cone_share *s = &own->shares[own->n_shares - 1];
        s->n_classes++;
        before += work_of(own, k->first_step, k->n_step);
        for (uint32_t j = 0; j < k->n_step; j++) {
            const struct cone_contraction *c = &own->contractions[k->first_step + j];
            size_t of_b = (size_t)c->n_k * c->n_j, of_out = (size_t)c->n_i * c->n_j;
            if (of_b > s->numbers) s->numbers = of_b;
            if (of_out > s->numbers) s->numbers = of_out;
        }
    }
    for (size_t i = 0; i < own->n_shares; i++) {
        own->shares[i].scratch = own->n_scratch;
        own->n_scratch += own->shares[i].numbers;
    }
}

static bool is_worth_it(struct plan_builder *b) {
    const struct qr_cones *own = b->own;
    double lanes = OF_ITEM * (double)own->n_slots, step = 0;
    for (size_t i = 0; i < own->n_classes; i++) {
        const struct cone_class *c = &own->classes[i];
        if (c->n_inputs > CONE_MAX_INPUTS)
            return refuse(b->p, "a part of a cone has over %d gates with data",
                          (int)CONE_MAX_INPUTS);
        lanes += work_of(own, c->first_lanes, c->n_lanes) * (double)c->n_instances;
        step += work_of(own, c->first_step, c->n_step);
    }
    double all = lanes + step / (own->n_signals ? CONE_STEP_SAMPLES : 1);
    if (all >= b->limit)
        return refuse(b->p,
                      "the read-outs' cones would take %.3g multiply-adds a sample, and with them "
                      "longer than another engine with at most %.3g",
                      all, b->limit * SLOWER);
    char others[64] = "";
    if (isfinite(b->limit))
        snprintf(others, sizeof others, "; another engine would take %.3g", b->limit * SLOWER);
    snprintf(b->p->why, sizeof b->p->why,
             "each term of a read-out sees at most %u qubits: %.3g multiply-adds a sample%s",
             own->widest, all, others);
    return true;
}

static void builder_free(struct plan_builder *b) {
    for (size_t i = 0; i < b->n_terms; i++) free(b->terms[i].columns);
    for (size_t i = 0; i < b->n_cones; i++) cone_fini(&b->cones[i]);
    for (size_t i = 0; i < b->n_recipes; i++) cone_recipe_fini(&b->recipes[i]);
    free(b->terms);
    free(b->cones);
    free(b->places);
    free(b->recipes);
}

bool cones_build(struct qr_sim_plan *p, const struct qr_circuit *c, const struct qr_observable *obs,
                 size_t n_obs) {
    if (!n_obs) return refuse(p, "there is no read-out");
    struct plan_builder b = {.p = p, .c = c, .own = qr_xcalloc(1, sizeof *b.own)};
    b.own->constants = qr_xcalloc(n_obs, sizeof *b.own->constants);
    b.limit = p->at_any_cost ? (double)INFINITY : others(p, c);
    bool good = find_cones(&b, obs, n_obs);
    if (good) {
        fuse(&b);
        good = contract(&b);
    }
    if (good) {
        place_terms(&b);
        share_step(b.own);
        b.own->n_cones = b.n_cones;
        good = is_worth_it(&b);
    }
    builder_free(&b);
    if (good) {
        p->cones = b.own;
        return true;
    }
    cones_free(b.own);
    qr_plan_unfuse(p);
    return false;
}

void cones_free(struct qr_cones *own) {
    for (size_t i = 0; i < own->n_classes; i++) {
        qr_buf_free(&own->classes[i].key);
        free(own->classes[i].instances);
    }
    for (size_t i = 0; i < own->n_signals; i++) free(own->signals[i].columns);
    free(own->tensors);
    free(own->contractions);
    free(own->inputs);
    free(own->classes);
    free(own->signals);
    free(own->terms);
    free(own->constants);
    free(own->gates);
    free(own->shares);
    free(own->fixed);
    free(own->entries);
    free(own->orders);
    free(own);
}
