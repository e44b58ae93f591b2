/* sim/streaming/plan_impl.h — the streaming plan as data, and what runs it (inside the room).
 * sim/planner.md tells why it is so. */
#ifndef QR_SIM_STREAMING_PLAN_IMPL_H
#define QR_SIM_STREAMING_PLAN_IMPL_H

#include "sim/fusion/matrix.h"

enum {
    QR_STREAM_MIN_QUBITS = 8,
    QR_STREAM_MAX_QUBITS = 36,
    /* from here on threads share the slices of one sample; below, each has samples of its own */
    QR_STREAM_SHARED_QUBITS = 24,
    QR_STREAM_LEVELS = 3,
    QR_STREAM_HALVES = 4,      /* half-layers of a level */
    QR_STREAM_SEGMENTS = 5,    /* front, levels, tail */
    QR_STREAM_TAIL_QUBITS = 6, /* at most; more than 5 only when nothing else is left to do */
    QR_STREAM_SET_BITS = 6,    /* cells of a tile: 2^6, 8 KiB in float32 */
    QR_STREAM_PIECE_TERMS = 1024,
    QR_STREAM_BATCH_TERMS = 64, /* of a density matrix: summed in the amplitudes' precision */
    /* chunks of one piece of the table's derivative where slices are shared out among threads */
    QR_STREAM_SPLIT_CHUNKS = 16,
    /* coefficients of a matrix and its adjoint, the same in all lanes */
    QR_STREAM_NARROW = 64,
    QR_STREAM_WIDE = 1024, /* and one set per lane */
};

/* Where a fused gate's input is flipped (the CNOT onto a sink): a bit of the run's word. */
enum {
    QR_FLIP_D = 62,    /* the outcome of qubit 0 */
    QR_FLIP_A = 63,    /* the outcome of the last source */
    QR_FLIP_NONE = 61, /* always 0 */
};

struct qr_stream_gate {
    uint32_t shape;
    uint8_t bit[2];  /* cell bits of the frame's positions */
    uint8_t flip[2]; /* bit of the word that flips the input there */
    int8_t data[2];  /* qubit whose encoding is folded in, or -1 */
    bool wide;       /* coefficients differ from lane to lane */
    /* of variant 0, in elements of the table of coefficients; 4 variants follow each other */
    size_t coef;
    uint32_t cross; /* number among the fused gates whose cross matrices are summed here */
};

/* Fused gates of one half-layer that a tile holds together. */
struct qr_stream_set {
    unsigned n_bits;
    uint32_t first_fused, n_fused;
    bool gathered; /* strided: the tile is copied to where it is contiguous */
    /* n_fused * 2^n_bits: per fused gate its groups' offsets in the state, and in a
     * gathered tile */
    uint32_t *global, *local;
    uint32_t *bases;
    size_t n_bases;
};

struct qr_stream_half {
    uint32_t first_set, n_sets;
};

struct qr_stream_level {
    unsigned m, k; /* qubits; of these traced out at the end */
    unsigned n_halves;
    struct qr_stream_half halves[QR_STREAM_HALVES];
    uint32_t first_fused, n_fused;
};

/* A fused gate of the first layer where it is never simulated as a whole: on one of the
 * two tables. */
struct qr_front_gate {
    uint32_t shape;
    uint8_t bit[2];
    int8_t data[2];
};

struct qr_stream_front {
    unsigned k, m; /* sources, which make the left table; the others make the right one */
    /* k is odd: the fused gate across the centre is in the first half-layer */
    bool centre_first;
    bool wrap;           /* n is even: a fused gate joins the last qubit and the first */
    unsigned variants;   /* of the right table: outcomes that it depends on */
    unsigned terms;      /* of the sum over products: 8 or 16 */
    unsigned right_bits; /* of the right chain's cells: m, or m + 1 with the last source */
    size_t n_slices;     /* per variant */
    struct qr_front_gate *left[2], *right[2]; /* half-layers */
    unsigned n_left[2], n_right[2];
    uint32_t centre, around; /* shapes of the crossing fused gates; around: QR_NO_SLOT without */
};

struct qr_stream {
    bool sliced; /* n >= 12: lanes are slices; else samples */
    unsigned n;
    uint64_t edges;        /* bit q: CZ between q and q + 1 (mod n) */
    struct qr_gate *gates; /* one-qubit gates of the preparation */
    uint32_t before[QR_FUSED_QUBITS], n_before[QR_FUSED_QUBITS]; /* on each qubit before the CZ */
    uint32_t after[QR_FUSED_QUBITS], n_after[QR_FUSED_QUBITS];   /* and after */
    struct qr_c64 state[QR_FUSED_QUBITS][2]; /* of each qubit before the CZ: no data there */

    struct qr_stream_front front; /* sliced only */
    unsigned n_levels;
    struct qr_stream_level levels[QR_STREAM_LEVELS];
    struct qr_stream_gate *fused;
    size_t n_fused;
    struct qr_stream_set *sets;
    size_t n_sets;
    size_t n_coefs; /* elements of the table of coefficients */

    unsigned tail_bits; /* qubits of the tail */
    unsigned dim;       /* 2^tail_bits */
    bool diagonal;      /* nothing but Z follows: lambda is phi times a number for each cell */
    uint32_t tail_first, n_tail;       /* fused gates of the plan */
    struct qr_observable *observables; /* on the tail's qubits */

    size_t density_numbers; /* sums of a piece of the density matrix, or of its diagonal */
    unsigned item_chunks;   /* chunks that one piece of the right table's derivative takes */
    bool split;             /* slices may be shared out among threads */
};

/* plan.c: fills p->stream, and fused gates and shapes, when the circuit is of this kind; else
 * false, and p->why says what is in the way. */
bool qr_stream_plan(struct qr_sim_plan *p, const struct qr_circuit *c,
                    const struct qr_observable *obs, size_t n_obs);
void qr_stream_free(struct qr_sim_plan *p);

#endif
