/* sim/report/report.h — a plan as data: which gates were fused, which qubits are traced out where,
 * why this engine was chosen, and what is computed, moved and stored. `qring show` prints it; tests
 * compare its numbers with what kernels do and with what is allocated (tests/unit/test_sim_plan.c).
 *
 * Use       qr_sim_report_new, then qr_sim_report_text or qr_sim_report_json, then
 *           qr_sim_report_free.
 * Numbers   flop: two for each multiply-add, multiply or add of a kernel in a lane, empty lanes
 *           included, because they take the same time. bytes: of cells that kernels read and write,
 *           from any cache level. Not counted: 4x4 algebra of a bind, folding of pieces to
 *           integers,
 *           copies; angles and parameters that make a rotation trivial.
 * Ownership a report owns what it points to, except parameter names, which are borrowed.
 * Threads   a report is const once it is built.
 */
#ifndef QR_SIM_REPORT_H
#define QR_SIM_REPORT_H

#include "base/bytes.h"
#include "format/json.h"
#include "sim/fusion/buffers.h"

/* Per micro-batch; at the start of a step; at the first use of a workspace. */
enum qr_sim_when { QR_EACH_MICRO_BATCH, QR_EACH_STEP, QR_ONCE };
/* The cost of one stage. */
struct qr_sim_stage {
    char name[16]; /* "layer 2" */
    const char *what;
    enum qr_sim_when when;
    double flop, bytes;
};

/* Fused gates with the same gates at the same positions of their frame share one matrix and one sum
 * of derivatives. */
struct qr_sim_shape {
    char *gates; /* "X1^qconv0 ... ZZ^qconv6"; 1 and 2 are the qubits of the frame */
    unsigned n_gates, n_fused;
    unsigned n_derivatives; /* derivatives that it contributes */
    /* nonzero entries per row: 4, or less where the kernels save the rest; 0: cells only move or
     * change their sign */
    unsigned row;
};
struct qr_sim_fused_gate {
    /* 0-based: layers of a streaming plan, its tail last; passes of a statevector plan */
    unsigned part;
    unsigned half; /* 0-based half-layer in the part; streaming only */
    unsigned shape;
    uint8_t q[2]; /* frame, as qubits of the circuit; only the first if single */
    bool single;
    uint64_t controls; /* further controls, bit q for qubit q */
};
/* "layer 1", "0-3 end here: ..." */
struct qr_sim_line {
    char key[16];
    char *text;
};

struct qr_sim_plan;

struct qr_sim_report {
    const char *engine; /* "cones", "streaming", "statevector" */
    char *why;
    size_t n_gates, n_samples;
    /* read-outs come first in a streaming plan; else lambda's direction is known before the head
     * and both sweeps run as one (sim/planner.md#when-the-head-is-known) */
    bool read_outs_first;
    size_t n_lines, n_shapes, n_fused, n_stages, n_buffers, n_parts;
    struct qr_sim_line *lines;
    struct qr_sim_shape *shapes;
    struct qr_sim_fused_gate *fused;
    char (*parts)[16]; /* names of the parts */
    struct qr_sim_stage *stages;
    struct qr_sim_buffer *buffers; /* of a workspace */
    size_t n_passes;               /* passes over the state; 0 for engines without passes */
    /* of one workspace (per thread, or for all: sim.h); of the numbers of a step */
    size_t workspace_bytes, bound_bytes;
    double flop, bytes; /* per micro-batch, without stages of a step or workspace */
};

struct qr_sim_report_options {
    size_t n_samples;   /* samples of the micro-batch to cost, at least 1 */
    size_t max_samples; /* samples that the workspace is made for; 0: n_samples */
    bool head_known;    /* affine head: lambda's direction is known before the forward sweep */
    const char *const *param_names; /* names of the circuit's parameters; NULL: "p0" ... */
};

/* Makes the report of a plan; costs about one bind. Free with qr_sim_report_free. */
struct qr_sim_report *qr_sim_report_new(const struct qr_sim_plan *plan,
                                        const struct qr_sim_report_options *opt);
void qr_sim_report_free(struct qr_sim_report *r);

/* Appends a summary; whole: also shapes, fused gates, stages and buffers. */
void qr_sim_report_text(const struct qr_sim_report *r, bool whole, struct qr_buf *to);
/* Writes the report as one JSON object. */
void qr_sim_report_json(const struct qr_sim_report *r, struct qr_json_writer *w);

#endif
