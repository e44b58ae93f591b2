/* sim/sim.c — compiling: checks and sizes; the few facts that need no report. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "sim/statevector/statevector_impl.h"

/* A number of bytes that may exceed 64 bits, in decimal. */
static const char *decimal(unsigned __int128 x, char room[48]) {
    char *p = room + 47;
    *p = 0;
    do *--p = (char)('0' + (int)(x % 10));
    while (x /= 10);
    return p;
}

static enum qr_code check_memory(const struct qr_sim_plan *p, struct qr_err *err) {
    char room[48];
    unsigned __int128 bytes = (((unsigned __int128)1 << p->cell_bits) * p->cell_bytes) * 2 + p->n_slots * (p->cell_bytes * 2 << p->tile_bits);
    if (p->stream) bytes = qr_sim_bytes_per_thread(p, 1);
    uint64_t limit = qr_memory_limit_bytes();
    if (bytes <= limit) return QR_OK;
    return qr_fail(err, QR_RESOURCE_EXHAUSTED,
                   "a circuit of %u qubits in %s precision needs %s bytes for its %s; this process may "
                   "use %llu bytes: take fewer qubits%s",
                   p->n_qubits, p->opt.precision == QR_DOUBLE ? "double" : "single", decimal(bytes, room),
                   p->stream ? "slices and tables" : "two state vectors",
                   (unsigned long long)limit, p->opt.precision == QR_DOUBLE ? " or single precision" : "");
}

enum qr_code qr_sim_compile(const struct qr_circuit *circuit, const struct qr_observable *observables,
                            size_t n_observables, const struct qr_sim_options *opt, struct qr_sim_plan **ret,
                            struct qr_err *err) {
    if (!qr_isa_available(opt->isa))
        return qr_fail(err, QR_INVALID_ARGUMENT, "isa %s: this machine has it not", qr_isa_name(opt->isa));
    if (circuit->n_qubits < 1 || circuit->n_qubits > QR_MAX_QUBITS)
        return qr_fail(err, QR_INVALID_ARGUMENT, "a circuit of %u qubits: there may be 1 to %d", circuit->n_qubits,
                       (int)QR_MAX_QUBITS);
    struct qr_sim_plan *p = qr_xcalloc(1, sizeof *p);
    p->n_qubits = circuit->n_qubits;
    p->n = circuit->n_qubits < 2 ? 2 : circuit->n_qubits;
    p->n_params = circuit->n_params;
    p->n_columns = circuit->n_columns;
    p->n_readouts = (unsigned)n_observables;
    p->n_gates = circuit->n_gates;
    p->opt = *opt;
    p->kernels = qr_kernels_of(opt->isa, opt->precision);
    p->elem_bytes = opt->precision == QR_DOUBLE ? sizeof(double) : sizeof(float);
    p->cell_bytes = 2 * QR_LANES * p->elem_bytes;
    p->lanes_are_samples = p->n <= QR_SAMPLE_LANES_MAX_QUBITS;
    p->cell_bits = p->lanes_are_samples ? p->n : p->n - QR_LANE_BITS;
    p->tile_bits = p->lanes_are_samples || p->cell_bits < QR_TILE_BITS ? p->cell_bits : QR_TILE_BITS;
    p->n_slots = 1;
    if (p->tile_bits < p->cell_bits) {
        unsigned cpus = qr_cpu_limit();
        p->n_slots = cpus < 4 ? 4 : cpus;
    }
    p->invisible = qr_xcalloc(p->n_params + 1, 1);
    qr_circuit_invisible(circuit, observables, n_observables, p->invisible);
    snprintf(p->why, sizeof p->why, "it was asked for");
    bool streams = opt->engine == QR_ENGINE_AUTO && qr_stream_plan(p, circuit, observables, n_observables);
    enum qr_code code = check_memory(p, err);
    if (code != QR_OK) {
        qr_sim_plan_free(p);
        return code;
    }
    if (!streams) {
        qr_plan_fuse(p, circuit, 1, NULL);
        qr_plan_passes(p, observables, n_observables);
    }
    *ret = p;
    return QR_OK;
}

void qr_sim_plan_free(struct qr_sim_plan *p) {
    if (!p) return;
    qr_stream_free(p->stream);
    free(p->invisible);
    free(p->ops);
    free(p->numbers);
    free(p->shapes);
    free(p->slopes);
    free(p->blocks);
    free(p->steps);
    free(p->passes);
    free(p->offsets);
    free(p->terms);
    free(p);
}

bool qr_sim_lanes_are_samples(const struct qr_sim_plan *p) { return p->lanes_are_samples; }
bool qr_sim_blocks_in_parallel(const struct qr_sim_plan *p) {
    return p->lanes_are_samples || (p->stream && p->n < QR_STREAM_SHARED_QUBITS);
}

size_t qr_sim_bytes_per_thread(const struct qr_sim_plan *p, size_t max_samples) {
    struct qr_room r = {.allocate = false};
    qr_sim_workspace_room(p, max_samples, &r);
    return r.bytes;
}

struct qr_sim_facts qr_sim_facts(const struct qr_sim_plan *p) {
    const struct qr_sim_report_options one = {.n_samples = p->lanes_are_samples ? QR_LANES : 1, .head_known = true};
    struct qr_sim_report *r = qr_sim_report_new(p, &one);
    struct qr_sim_facts f = {.n_gates = p->n_gates, .n_blocks = p->n_blocks, .n_passes = p->n_passes, .engine = r->engine,
                             .flop_per_gradient = r->flop / (double)one.n_samples};
    qr_sim_report_free(r);
    return f;
}
