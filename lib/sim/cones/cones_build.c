/* sim/cones/cones_build.c — builds a cones plan: the cone of each term, equal cones once; their
 * programs; an instance for each occurrence of a part; and the decision whether the plan is cheap
 * enough. Start reading at cones_build(). */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "observable/qubits.h"
#include "sim/cones/cones_impl.h"
#include "sim/density/density.h"
#include "sim/statevector/statevector.h"
#include "sim/streaming/streaming.h"

/* Weight of the work per step relative to the work per sample in the search for an order: about 1 /
 * (samples of a batch * instances of a class). */
#define STEP_WEIGHT (1.0 / 64)
/* Time per multiply-add of the cones engine relative to the other engines: its numbers are float64,
 * and its contractions are small. */
#define SLOWER 5.0
/* Minimum of the streaming engine's multiply-adds per amplitude and gradient. */
#define OF_STREAMING 800.0
/* Largest factor that a long search was seen to save over a quick one. */
#define SEARCH_GAINS 2.0
/* Budget of the search, in squares of numbers of tensors of all cones: half a second. */
#define SEARCH_WORK 2e7
/* Forward, and two products backward. */
#define SWEEPS 3.0
/* Largest number of gates in the cones of all terms; beyond, the circuit is rejected. */
#define ALL_GATES (1 << 18)
/* Multiply-adds of a step that justify waking a thread. */
#define SHARE_WORK 2.5e5
/* Cost of an item: its lookup, and gathering its inputs. */
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
    size_t n_gates; /* in the cones of all terms */
    bool expanded;  /* some gate was expanded */
    size_t *n_uses; /* per cone: number of terms that have it */
    struct draft_term *terms;
    double limit;       /* multiply-adds per sample from which on another engine is better */
    double cost;        /* of all cones */
    double search_work; /* squares of numbers of tensors: the cost of a trial */
};

static bool build_reject(struct qr_sim_plan *p, const char *format, ...) QR_PRINTF(2, 3);
static bool build_reject(struct qr_sim_plan *p, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    vsnprintf(p->why, sizeof p->why, format, ap);
    va_end(ap);
    return false;
}

/* ---- cones ---- */

static uint32_t build_find_equal_cone(const struct plan_builder *b, const struct cone *c) {
    for (uint32_t i = 0; i < b->n_cones; i++)
        if (b->cones[i].key.n == c->key.n &&
            (!c->key.n || memcmp(b->cones[i].key.p, c->key.p, c->key.n) == 0))
            return i;
    return CONE_NONE;
}

static bool build_add_term(struct plan_builder *b, struct cone_finder *f, uint32_t readout,
                           const struct qr_pauli_term *term) {
    if (qr_qubits_is_empty(&term->x) && qr_qubits_is_empty(&term->z)) {
        b->own->constants[readout] += term->coefficient;
        return true;
    }
    struct cone cone;
    struct draft_term t = {.readout = readout, .coefficient = term->coefficient};
    if (!cone_of_term(f, term, &cone, &t.columns))
        return build_reject(b->p,
                            "the cone of a term of read-out %u has more than %d qubits or %d gates "
                            "(expanded controlled gates included)",
                            readout, (int)CONE_MAX_QUBITS, (int)CONE_MAX_GATES);
    b->n_gates += cone.n_gates;
    t.cone = build_find_equal_cone(b, &cone);
    if (t.cone == CONE_NONE) {
        t.cone = (uint32_t)b->n_cones;
        b->cones = qr_xreallocarray(b->cones, b->n_cones + 1, sizeof *b->cones);
        b->n_uses = qr_xreallocarray(b->n_uses, b->n_cones + 1, sizeof *b->n_uses);
        b->n_uses[b->n_cones] = 0;
        b->cones[b->n_cones++] = cone;
        unsigned n_qubits = cone.n_qubits - cone.n_helpers;
        b->expanded |= cone.expanded;
        if (n_qubits > b->own->widest) b->own->widest = n_qubits;
    } else {
        cone_fini(&cone);
    }
    b->n_uses[t.cone]++;
    b->terms = qr_xreallocarray(b->terms, b->n_terms + 1, sizeof *b->terms);
    b->terms[b->n_terms++] = t;
    return true;
}

static bool build_find_cones(struct plan_builder *b, const struct qr_observable *obs,
                             size_t n_obs) {
    struct cone_finder *f = cone_finder_new(b->c, b->p->wanted);
    bool good = true;
    for (uint32_t r = 0; r < n_obs && good; r++)
        for (size_t t = 0; t < obs[r].n_terms && good && b->n_gates <= ALL_GATES; t++)
            good = build_add_term(b, f, r, &obs[r].terms[t]);
    cone_finder_free(f);
    if (good && b->expanded && !b->p->engine_requested && b->c->n_qubits < CONE_EXPANDED_QUBITS)
        return build_reject(
            b->p,
            "up to %d qubits, circuits with gates that need expansion (several controls, "
            "controls with data, or data in a gate that is not a power) use a state vector",
            CONE_EXPANDED_QUBITS - 1);
    if (b->n_gates > ALL_GATES)
        return build_reject(b->p, "the cones of all terms have more than %d gates", ALL_GATES);
    return good;
}

/* ---- fused gates ---- */

static void build_fuse(struct plan_builder *b) {
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
                if (c->level[g] == l && !cone_gate_is_unfused(&c->gates[g]))
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

/* Cost of a cone in the best order found, for all terms that have it. */
static double build_cone_cost(const struct plan_builder *b, size_t cone,
                              const struct cone_network *n, uint32_t more_trials,
                              struct cone_tree *ret) {
    cone_tree_search(n, b->cones[cone].data ? STEP_WEIGHT : 1, more_trials, ret);
    return ret->cost * (double)b->n_uses[cone];
}

/* A quick search first: most circuits are far from worth a long one. */
static bool build_networks(struct plan_builder *b, const struct cone_shapes *shapes,
                           struct cone_network *ret) {
    for (size_t i = 0; i < b->n_cones && b->cost < b->limit * SEARCH_GAINS / SWEEPS; i++) {
        struct cone_tree t;
        cone_network_make(&b->cones[i], shapes, &ret[i]);
        b->cost += build_cone_cost(b, i, &ret[i], 0, &t);
        b->search_work += (double)ret[i].n_leaves * (double)ret[i].n_leaves;
        cone_tree_fini(&t);
    }
    return b->cost < b->limit * SEARCH_GAINS / SWEEPS;
}

static bool build_programs(struct plan_builder *b, const struct cone_network *networks) {
    double more = SEARCH_WORK / b->search_work;
    uint32_t more_trials = more < CONE_MORE_TRIALS ? (uint32_t)more : CONE_MORE_TRIALS;
    b->cost = 0;
    for (size_t i = 0; i < b->n_cones && b->cost < b->limit / SWEEPS; i++) {
        struct cone_tree t;
        b->cost += build_cone_cost(b, i, &networks[i], more_trials, &t);
        if (isfinite(t.cost)) {
            cone_program_make(b->own, b->p, &networks[i], &t, &b->recipes[i]);
            b->n_recipes = i + 1;
        }
        cone_tree_fini(&t);
    }
    return b->cost < b->limit / SWEEPS;
}

static bool build_contract(struct plan_builder *b) {
    struct cone_shapes shapes;
    cone_shapes_make(&shapes, b->p);
    b->recipes = qr_xcalloc(b->n_cones + 1, sizeof *b->recipes);
    struct cone_network *networks = qr_xcalloc(b->n_cones + 1, sizeof *networks);
    bool good = build_networks(b, &shapes, networks) && build_programs(b, networks);
    for (size_t i = 0; i < b->n_cones; i++) cone_network_fini(&networks[i]);
    free(networks);
    cone_shapes_fini(&shapes);
    if (good) return true;
    return isfinite(b->cost)
               ? build_reject(b->p,
                              "the read-outs' cones need more than %.3g multiply-adds per sample, "
                              "slower than another engine",
                              b->limit)
               : build_reject(b->p, "the read-outs' cones are too wide to contract");
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

/* Returns the instance of the cone's root. */
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

static void build_find_gates(struct qr_cones *own, size_t n_transfers) {
    struct cone_gate *of = qr_xcalloc(n_transfers + 1, sizeof *of);
    for (size_t i = 0; i < own->n_tensors; i++) {
        const struct cone_tensor *t = &own->tensors[i];
        if (t->from != CONE_GATE) continue;
        for (uint32_t k = 0; k < t->size; k++) {
            unsigned entry = own->entries[t->first_entry + k];
            of[t->source].rows |= (uint16_t)(1u << entry / 16);
            of[t->source].columns |= (uint16_t)(1u << entry % 16);
        }
    }
    own->gates = of; /* The gates that are used move to the front. */
    for (uint32_t i = 0; i < n_transfers; i++) {
        of[i].shape = i;
        if (of[i].rows) of[own->n_gates++] = of[i];
    }
}

static void build_place_terms(struct plan_builder *b) {
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
    build_find_gates(own, cone_n_transfers(b->p));
    for (size_t i = 0; i < own->n_signals; i++) {
        own->signals[i].first_slot = own->n_slots;
        own->n_slots += own->signals[i].n_instances;
    }
    for (size_t i = 0; i < own->n_classes; i++) {
        own->classes[i].first_slot = own->n_slots;
        own->n_slots += own->classes[i].n_instances;
    }
}

/* ---- costs ---- */

/* Cost of another engine per sample, in multiply-adds of this one. */
static double build_other_engine_cost(struct qr_sim_plan *p, const struct qr_circuit *c,
                                      const struct qr_observable *obs, size_t n_obs) {
    if (p->n_channels) return qr_noisy_cost(p, c);
    if (c->n_qubits > QR_FUSED_QUBITS) return INFINITY;
    double of_amplitude = qr_statevector_cost(p, c);
    if (of_amplitude > OF_STREAMING && qr_streaming_engine.plan(p, c, obs, n_obs)) {
        qr_streaming_engine.plan_free(p);
        qr_plan_unfuse(p);
        of_amplitude = OF_STREAMING;
    }
    return ldexp(of_amplitude, (int)c->n_qubits) / SLOWER;
}

static double build_count_work(const struct qr_cones *own, uint32_t first, uint32_t n) {
    double work = 0;
    for (uint32_t i = first; i < first + n; i++) {
        const struct cone_contraction *c = &own->contractions[i];
        double once = (double)c->n_i * c->n_k * c->n_j;
        bool again = own->tensors[c->out].when == CONE_LANES;
        work += once * (1 + again + own->tensors[c->a].needs + own->tensors[c->b].needs);
    }
    return work;
}

/* Splits the contractions of a step into shares of about equal work, of whole classes. */
static void build_step_shares(struct qr_cones *own) {
    double all = 0, before = 0;
    for (size_t i = 0; i < own->n_classes; i++)
        all += build_count_work(own, own->classes[i].first_step, own->classes[i].n_step);
    double n = floor(all / SHARE_WORK) + 1, most = n < CONE_MAX_SHARES ? n : CONE_MAX_SHARES;
    own->shares = qr_xcalloc(CONE_MAX_SHARES, sizeof *own->shares);
    for (uint32_t i = 0; i < own->n_classes; i++) {
        const struct cone_class *k = &own->classes[i];
        double n_started = (double)own->n_shares;
        if (n_started == 0 || (n_started < most && before * most >= all * n_started))
            own->shares[own->n_shares++].first_class = i;
        struct cone_share *s = &own->shares[own->n_shares - 1];
        s->n_classes++;
        before += build_count_work(own, k->first_step, k->n_step);
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

static bool build_check_cost(struct plan_builder *b) {
    const struct qr_cones *own = b->own;
    double lanes = OF_ITEM * (double)own->n_slots, step = 0;
    for (size_t i = 0; i < own->n_classes; i++) {
        const struct cone_class *c = &own->classes[i];
        if (c->n_inputs > CONE_MAX_INPUTS)
            return build_reject(b->p, "a part of a cone has more than %d gates with data",
                                (int)CONE_MAX_INPUTS);
        lanes += build_count_work(own, c->first_lanes, c->n_lanes) * (double)c->n_instances;
        step += build_count_work(own, c->first_step, c->n_step);
    }
    double all = lanes + step / (own->n_signals ? CONE_STEP_SAMPLES : 1);
    if (all >= b->limit)
        return build_reject(b->p,
                            "the read-outs' cones need %.3g multiply-adds per sample, slower than "
                            "another engine with at most %.3g",
                            all, b->limit * SLOWER);
    char comparison[64] = "";
    if (isfinite(b->limit))
        snprintf(comparison, sizeof comparison, "; another engine needs %.3g", b->limit * SLOWER);
    snprintf(b->p->why, sizeof b->p->why,
             "each read-out term depends on at most %u qubits: %.3g multiply-adds per sample%s",
             own->widest, all, comparison);
    return true;
}

static void builder_free(struct plan_builder *b) {
    for (size_t i = 0; i < b->n_terms; i++) free(b->terms[i].columns);
    for (size_t i = 0; i < b->n_cones; i++) cone_fini(&b->cones[i]);
    for (size_t i = 0; i < b->n_recipes; i++) cone_recipe_fini(&b->recipes[i]);
    free(b->terms);
    free(b->cones);
    free(b->n_uses);
    free(b->recipes);
}

bool cones_build(struct qr_sim_plan *p, const struct qr_circuit *c, const struct qr_observable *obs,
                 size_t n_obs) {
    if (!n_obs) return build_reject(p, "the circuit has no read-out");
    if (p->n_channels && p->method > QR_METHOD_EXACT)
        return build_reject(p, "the method for noise is another one");
    struct plan_builder b = {.p = p, .c = c, .own = qr_xcalloc(1, sizeof *b.own)};
    b.own->constants = qr_xcalloc(n_obs, sizeof *b.own->constants);
    b.limit = p->engine_requested ? (double)INFINITY : build_other_engine_cost(p, c, obs, n_obs);
    bool good = build_find_cones(&b, obs, n_obs);
    if (good) {
        build_fuse(&b);
        good = build_contract(&b);
    }
    if (good) {
        build_place_terms(&b);
        build_step_shares(b.own);
        b.own->n_cones = b.n_cones;
        good = build_check_cost(&b);
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
