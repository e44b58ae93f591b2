/* sim/streaming/plan_impl.h — the streaming plan as data. Private to sim/streaming. sim/planner.md
 * explains the design. */
#ifndef QR_SIM_STREAMING_PLAN_IMPL_H
#define QR_SIM_STREAMING_PLAN_IMPL_H

#include "sim/fusion/matrix.h"

enum {
    QR_STREAM_MIN_QUBITS = 8,
    QR_STREAM_MAX_QUBITS = 36,
    /* from this size on, threads share the slices of one sample; below, each has its own samples */
    QR_STREAM_SHARED_QUBITS = 24,
    QR_STREAM_LEVELS = 3,
    QR_STREAM_HALVES = 4,      /* half-layers of a level */
    QR_STREAM_SEGMENTS = 5,    /* front, levels, tail */
    QR_STREAM_TAIL_QUBITS = 6, /* maximum; more than 5 only for the last segment */
    QR_STREAM_SET_BITS = 6,    /* bits of a tile: 2^6 cells, 8 KiB in float32 */
    QR_STREAM_PIECE_TERMS = 1024,
    QR_STREAM_BATCH_TERMS = 64, /* of a density matrix: terms summed in the amplitudes' precision */
    /* chunks per piece of the table's derivative if threads share the slices */
    QR_STREAM_SPLIT_CHUNKS = 16,
    /* coefficients of a matrix and its adjoint, shared by all lanes */
    QR_STREAM_NARROW = 64,
    QR_STREAM_WIDE = 1024, /* the same with one set per lane */
};

/* Bits of the run's word that flip the input of a fused gate (the CNOT onto a sink). */
enum {
    QR_FLIP_D = 62,    /* outcome of qubit 0 */
    QR_FLIP_A = 63,    /* outcome of the last source */
    QR_FLIP_NONE = 61, /* always 0 */
};

struct qr_stream_gate {
    uint32_t shape;
    uint8_t bit[2];  /* cell bits of the frame's positions */
    uint8_t flip[2]; /* bits of the word that flip its input */
    int8_t data[2];  /* qubit with its encoding folded in, or -1 */
    bool wide;       /* coefficients differ between lanes */
    /* offset of variant 0 in the table of coefficients, in elements; the 4 variants are
     * contiguous */
    size_t coef;
    uint32_t cross; /* index among the fused gates with summed cross matrices */
};

/* Fused gates of one half-layer that share a tile. */
struct qr_stream_set {
    unsigned n_bits;
    uint32_t first_fused, n_fused;
    bool gathered; /* strided: the tile is copied to a contiguous buffer */
    /* n_fused * 2^n_bits: per fused gate, the offsets of its groups in the state, and in a gathered
     * tile */
    uint32_t *global, *local;
    uint32_t *bases;
    size_t n_bases;
};

struct qr_stream_half {
    uint32_t first_set, n_sets;
};

struct qr_stream_level {
    unsigned m, k; /* qubits; qubits traced out at the end */
    unsigned n_halves;
    struct qr_stream_half halves[QR_STREAM_HALVES];
    uint32_t first_fused, n_fused;
};

/* A fused gate of the first layer on one of the two tables. */
struct qr_front_gate {
    uint32_t shape;
    uint8_t bit[2];
    int8_t data[2];
};

struct qr_stream_front {
    unsigned k, m; /* sources, of the left table; sinks, of the right table */
    /* k is odd: the fused gate across the centre is in the first half-layer */
    bool centre_first;
    bool wrap;           /* n is even: a fused gate joins the last and the first qubit */
    unsigned variants;   /* of the right table: one per outcome of the crossing gates */
    unsigned terms;      /* of the sum over products: 8 or 16 */
    unsigned right_bits; /* cell bits of the right chain: m, or m + 1 with the last source */
    size_t n_slices;     /* per variant */
    struct qr_front_gate *left[2], *right[2]; /* per half-layer */
    unsigned n_left[2], n_right[2];
    /* shapes of the crossing fused gates; around: QR_NO_SLOT if there is none */
    uint32_t centre, around;
};

struct qr_stream {
    bool sliced; /* n >= 12: lanes are slices, else samples */
    unsigned n;
    uint64_t edges;        /* bit q: CZ between q and q + 1 (mod n) */
    struct qr_gate *gates; /* one-qubit gates of the preparation */
    /* per qubit: gates before the CZ */
    uint32_t before[QR_FUSED_QUBITS], n_before[QR_FUSED_QUBITS];
    uint32_t after[QR_FUSED_QUBITS], n_after[QR_FUSED_QUBITS]; /* per qubit: gates after the CZ */
    struct qr_c64 state[QR_FUSED_QUBITS][2]; /* per qubit: state before the CZ; free of data */

    struct qr_stream_front front; /* if sliced */
    unsigned n_levels;
    struct qr_stream_level levels[QR_STREAM_LEVELS];
    struct qr_stream_gate *fused;
    size_t n_fused;
    struct qr_stream_set *sets;
    size_t n_sets;
    size_t n_coefs; /* elements of the table of coefficients */

    unsigned tail_bits;                /* qubits of the tail */
    unsigned dim;                      /* 2^tail_bits */
    bool diagonal;                     /* only Z follow: lambda is phi times one factor per cell */
    uint32_t tail_first, n_tail;       /* fused gates of the plan */
    struct qr_observable *observables; /* on the tail's qubits */

    size_t density_numbers; /* numbers of a density matrix, or of its diagonal */
    unsigned item_chunks;   /* chunks per piece of the right table's derivative */
    bool split;             /* threads may share the slices */
};

/* plan.c: fills p->stream, fused gates and shapes. Returns false, with the reason in p->why, for
 * other circuits. */
bool qr_stream_plan(struct qr_sim_plan *p, const struct qr_circuit *c,
                    const struct qr_observable *obs, size_t n_obs);
void qr_stream_free(struct qr_sim_plan *p);

#endif
