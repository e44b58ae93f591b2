/* sim/report/report.h — a plan as data: which gates were fused, what is traced out where, why this
 * engine, what is computed, moved and held. `qring show` prints it; tests hold its numbers to what
 * kernels do and what is allocated (tests/unit/test_sim_plan.c).
 *
 * Numbers   flop: two for each multiply-add, multiply or add of a kernel in a lane, lanes that stay
 *           empty included: what the arithmetic units are asked for, in no time that another
 *           program could be spared. bytes: of cells that kernels read and write, from whatever
 *           cache. Not in them: 4x4 algebra of a bind, folding of pieces to integers, copies;
 *           angles and parameters that make a rotation trivial.
 * Ownership a report owns all it points to, but for parameter names, which are borrowed.
 * Cost      about a bind.
 */
#ifndef QR_SIM_REPORT_H
#define QR_SIM_REPORT_H

#include "base/bytes.h"
#include "format/json.h"
#include "sim/fusion/buffers.h"

/* Of each micro-batch; of a step's start; of a workspace's first use. */
enum qr_sim_when { QR_EACH_MICRO_BATCH, QR_EACH_STEP, QR_ONCE };
/* What is done where. */
struct qr_sim_stage {
    char name[16]; /* "layer 2" */
    const char *what;
    enum qr_sim_when when;
    double flop, bytes;
};

/* The same gates at the same places of a frame: one matrix, one sum of derivatives, for all its
 * fused gates. */
struct qr_sim_shape {
    char *gates; /* "X1^qconv0 ... ZZ^qconv6": 1 and 2 are the frame's qubits */
    unsigned n_gates, n_fused;
    unsigned n_derivatives; /* derivatives that it owes */
    /* entries of a row that are not 0: 4, or less where the kernels save the rest; 0: cells only
     * move, or change their sign */
    unsigned row;
};
struct qr_sim_fused_gate {
    /* 0-based: layers of a streaming plan, its tail last; passes of a statevector one */
    unsigned part;
    unsigned half; /* half-layer in it, 0-based; streaming */
    unsigned shape;
    uint8_t q[2];      /* the frame, qubits of the circuit */
    uint64_t controls; /* besides */
};
/* "layer 1", "0-3 end here: ..." */
struct qr_sim_line {
    char key[16];
    char *text;
};

struct qr_sim_plan;

struct qr_sim_report {
    const char *engine; /* "streaming", "statevector" */
    char *why;
    size_t n_gates, n_samples;
    /* a streaming plan's; else lambda's direction is known before the head, and both sweeps are one
     * (sim/planner.md#when-the-head-is-known) */
    bool read_outs_first;
    size_t n_lines, n_shapes, n_fused, n_stages, n_buffers, n_parts;
    struct qr_sim_line *lines;
    struct qr_sim_shape *shapes;
    struct qr_sim_fused_gate *fused;
    char (*parts)[16]; /* names */
    struct qr_sim_stage *stages;
    struct qr_sim_buffer *buffers; /* of a workspace */
    size_t n_passes;               /* over the state; 0 where no engine makes any */
    /* one workspace a thread (or for all: sim.h); numbers of a step once */
    size_t workspace_bytes, bound_bytes;
    double flop, bytes; /* of the micro-batch alone */
};

struct qr_sim_report_options {
    size_t n_samples;   /* of a micro-batch, at least 1: what it costs */
    size_t max_samples; /* that a workspace is made for; 0: n_samples */
    bool head_known;    /* an affine head: lambda's direction is known before the forward sweep */
    const char *const *param_names; /* of the circuit; NULL: "p0" ... */
};

struct qr_sim_report *qr_sim_report_new(const struct qr_sim_plan *plan,
                                        const struct qr_sim_report_options *opt);
void qr_sim_report_free(struct qr_sim_report *r);

/* A few lines; whole: also shapes, fused gates, stages and buffers. */
void qr_sim_report_text(const struct qr_sim_report *r, bool whole, struct qr_buf *to);
/* One object. */
void qr_sim_report_json(const struct qr_sim_report *r, struct qr_json_writer *w);

#endif
