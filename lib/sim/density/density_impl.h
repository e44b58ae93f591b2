/* sim/density/density_impl.h — a density plan as data. Private to sim/density.
 *
 * State     the Pauli coordinates r_P = Tr(P rho) of n qubits: 4^n real numbers, one base-4 digit
 *           per qubit, qubit 0 most significant (cones/pauli_transfer.h).
 * Groups    gates and channels that follow each other on the same two qubits are one real 16x16
 *           matrix.
 * Backward  a channel has no inverse, so vectors are kept: every `span` groups in a first sweep
 *           forward, then, from the last span to the first, before every group of the span.
 *           Derivatives by a group's matrix are sums of lambda_P r_Q over all other digits.
 * Helpers   a gate with several controls uses helper qubits (sim/cones/cones.md), which start again
 *           after it.
 * Numbers   float64 in both precisions. Sums of derivatives: pieces of DENSITY_CHUNK terms, then
 *           integers.
 */
#ifndef QR_SIM_DENSITY_DENSITY_IMPL_H
#define QR_SIM_DENSITY_DENSITY_IMPL_H

#include "sim/cones/pauli_transfer.h"
#include "sim/fusion/bind.h"
#include "sim/fusion/engine.h"

enum {
    DENSITY_MAX_QUBITS = 12,
    DENSITY_CHUNK = 128,         /* columns of the 16 x 4^(n-2) matrix that are processed at once */
    DENSITY_CHUNKS_OF_ITEM = 16, /* chunks that a thread takes together */
    DENSITY_SHARED_QUBITS = 9,   /* from here on the threads share one sample */
};

enum density_what {
    DENSITY_GATE,
    DENSITY_CHANNEL,
    DENSITY_AND,    /* first target, a helper: itself AND (second target == argument) */
    DENSITY_RESTART /* a helper: the sum over its two values; then |1> */
};

/* A gate or channel in the frame of its group. */
struct density_item {
    enum density_what what;
    bool data, needs;
    uint32_t channel;
    struct qr_plan_op op; /* its targets' frame positions; the gate */
};

struct density_group {
    uint8_t q[2];
    bool data, needs; /* of any item */
    uint32_t first_item, n_items;
};

struct density_term {
    uint32_t readout;
    double coefficient;
    uint64_t at;
};

struct qr_density {
    unsigned n; /* qubits with helpers */
    size_t n_items, n_groups, n_terms;
    struct density_item *items; /* by group */
    struct density_group *groups;
    size_t most_items;   /* of a group */
    size_t first_needed; /* first group with derivatives; n_groups: none */
    size_t span;
    struct density_term *terms;
    double *start; /* n * 4: coordinates of the initial state of each qubit */
    bool shared;   /* threads share a sample, instead of each having its own */
};

struct qr_density_bound {
    double *items;  /* n_items * QR_TRANSFER; unused for items with data */
    double *groups; /* n_groups * QR_TRANSFER; unused for groups with data */
};

/* One thread's part of a sweep. */
struct density_slot {
    double *in, *out;     /* 16 * DENSITY_CHUNK each */
    double *turned;       /* the same, transposed */
    double *sums;         /* QR_TRANSFER */
    qr_fixed *derivative; /* QR_TRANSFER, by the matrix of the group in progress */
    bool bad;
};

struct density_workspace {
    struct qr_sim_workspace head;
    struct qr_pool *pool; /* of the call in progress */
    double *x;            /* max_samples * n_columns */
    size_t n_samples;
    double *r, *lambda;
    double *heads, *inner; /* vectors at the start of each span, and before each group of one */
    unsigned n_slots;      /* threads that the workspace supports */
    struct density_slot *slots;
    qr_fixed *derivatives;    /* n_groups * QR_TRANSFER: sums over the samples */
    double *chain;            /* (most_items + 2) * QR_TRANSFER */
    double *own;              /* most_items * QR_TRANSFER: items of a group with data */
    double *params, *scratch; /* n_params */
};

/* density_plan.c */
bool density_plan(struct qr_sim_plan *p, const struct qr_circuit *c,
                  const struct qr_observable *obs, size_t n_obs);
void density_plan_free(struct qr_sim_plan *p);

/* density_groups.c: matrices of items and groups; derivatives by parameters and inputs. */
void density_item_matrix(const struct qr_sim_bound *b, const struct density_item *item,
                         const double *x, double ret[QR_TRANSFER]);
/* The matrix of a group; items: of each, set unless NULL. */
void density_group_matrix(const struct qr_sim_bound *b, const struct density_group *g,
                          const double *x, double *items, double ret[QR_TRANSFER]);
/* Adds the derivatives that follow from d, those by the group's matrix.
 *
 * Args:     items   matrices of the group's items
 *           chain   scratch, (n_items + 2) * QR_TRANSFER
 *           params  n_params
 *           dx      n_columns, or NULL
 */
void density_group_gradient(const struct qr_sim_bound *b, const struct density_group *g,
                            const double *items, const double *d, const double *x, double *chain,
                            double *params, double *dx);

#endif
