/* sim/compile.c — compiles a circuit with the first engine that supports it. Start reading at
 * qr_plan_compile(). */
#include "sim/compile.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "sim/cones/cones.h"
#include "sim/density/density.h"
#include "sim/fusion/bind.h"
#include "sim/fusion/workspace.h"
#include "sim/statevector/statevector.h"
#include "sim/streaming/streaming.h"

/* In the order of preference; the last supports any circuit of at most its max_qubits. */
static const struct {
    enum qr_engine kind;
    const struct qr_sim_engine *engine;
    bool plain, noisy; /* supports circuits without and with noise channels */
    bool draws;        /* supports shots, and gates that depend on measured bits */
} engines[] = {
    {QR_ENGINE_CONES, &qr_cones_engine, true, true, false},
    {QR_ENGINE_STREAMING, &qr_streaming_engine, true, false, false},
    {QR_ENGINE_DENSITY, &qr_density_engine, false, true, false},
    {QR_ENGINE_STATEVECTOR, &qr_statevector_engine, true, true, true},
};
enum { N_ENGINES = sizeof engines / sizeof *engines };

const char *const qr_method_names[] = {"auto", "exact", "density", "trajectories"};

/* Formats a number that may exceed 64 bits. */
static const char *format_u128(unsigned __int128 x, char buffer[48]) {
    char *p = buffer + 47;
    *p = 0;
    do *--p = (char)('0' + (int)(x % 10));
    while (x /= 10);
    return p;
}

static enum qr_code sim_check_memory(const struct qr_sim_plan *p, struct qr_err *err) {
    char digits[48];
    bool twice = p->precision == QR_DOUBLE;
    unsigned __int128 bytes = p->engine->least_bytes
                                  ? p->engine->least_bytes(p)
                                  : qr_workspace_buffers(p, 1).bytes + qr_bound_bytes(p);
    uint64_t limit = qr_memory_limit_bytes();
    if (bytes <= limit) return QR_OK;
    return qr_fail(
        err, QR_RESOURCE_EXHAUSTED,
        "cannot simulate %u qubits in %s precision: %s bytes are needed for %s, and this "
        "process may use %llu bytes; use fewer qubits%s",
        p->n_qubits, twice ? "double" : "single", format_u128(bytes, digits), p->engine->memory,
        (unsigned long long)limit, twice ? " or single precision" : "");
}

/* Memory per gate while planning: in the job and the model, in the attempts of the engines, and in
 * the plan if no other gate is like it. Measured: 1420 bytes, with 131 072 to 524 286 gates that
 * mostly have a weight each, on 8 qubits. */
enum { GATE_BYTES = 1420 };

/* Rejects a circuit before anything is planned. */
static enum qr_code sim_check_gates(const struct qr_circuit *circuit, struct qr_err *err) {
    uint64_t limit = qr_memory_limit_bytes();
    if (circuit->n_gates <= limit / GATE_BYTES) return QR_OK;
    return qr_fail(
        err, QR_RESOURCE_EXHAUSTED,
        "cannot plan a circuit of %zu gates: planning needs about %.0f bytes, and this process "
        "may use %llu bytes; use fewer gates or raise the memory limit",
        circuit->n_gates, (double)circuit->n_gates * GATE_BYTES, (unsigned long long)limit);
}

static struct qr_sim_plan *sim_new_plan(const struct qr_circuit *circuit, size_t n_observables,
                                        const struct qr_sim_options *opt) {
    struct qr_sim_plan *p = qr_xcalloc(1, sizeof *p);
    p->n_qubits = circuit->n_qubits;
    p->n = circuit->n_qubits < 2 ? 2 : circuit->n_qubits;
    p->n_params = circuit->n_params;
    p->n_columns = circuit->n_columns;
    p->n_readouts = (unsigned)n_observables;
    p->n_gates = circuit->n_gates;
    p->precision = opt->precision;
    p->isa = opt->isa;
    p->kernels = qr_kernels_of(opt->isa, opt->precision);
    p->elem_bytes = opt->precision == QR_DOUBLE ? sizeof(double) : sizeof(float);
    p->cell_bytes = 2 * QR_LANES * p->elem_bytes;
    p->lanes_are_samples = p->n <= QR_SAMPLE_LANES_MAX_QUBITS;
    p->cell_bits = p->lanes_are_samples ? p->n : p->n - QR_LANE_BITS;
    p->zero_gradient = qr_xcalloc(p->n_params + 1, 1);
    p->engine_requested = opt->engine != QR_ENGINE_AUTO;
    p->method = opt->method;
    p->shots = opt->shots;
    p->n_trajectories = opt->n_trajectories ? opt->n_trajectories
                        : n_observables     ? QR_TRAJECTORIES
                                            : p->shots; /* of independent strings */
    if (!p->n_trajectories) p->n_trajectories = QR_TRAJECTORIES;
    if (p->shots && p->shots < p->n_trajectories) p->n_trajectories = p->shots;
    snprintf(p->why, sizeof p->why, "requested by name");
    return p;
}

/* Copies the channels of a circuit with noise. */
static void sim_set_channels(struct qr_sim_plan *p, const struct qr_circuit *circuit) {
    if (!qr_circuit_is_noisy(circuit)) return;
    p->n_channels = circuit->n_channels;
    p->channels = qr_xcalloc(p->n_channels, sizeof *p->channels);
    p->channel_needs = qr_xcalloc(p->n_channels, sizeof *p->channel_needs);
    for (size_t i = 0; i < p->n_channels; i++) {
        const struct qr_channel *c = &circuit->channels[i];
        p->channels[i] = qr_channel_copy(c);
        for (unsigned k = 0; k < c->info->n_args; k++)
            p->channel_needs[i] |=
                c->args[k].kind == QR_ARG_PARAMETER && !p->zero_gradient[c->args[k].index];
    }
}

/* Sets p->wanted: inputs with requested derivatives, and derived columns that those derivatives, or
 * derivatives by parameters, depend on. circuit: before lowering. */
static void sim_set_wanted(struct qr_sim_plan *p, const struct qr_circuit *circuit,
                           const struct qr_observable *obs, size_t n_obs, const uint8_t *wanted) {
    uint8_t *all = qr_xcalloc(p->n_columns + 1, 1), *unseen = NULL;
    bool any = false;
    if (p->lowered) {
        unseen = qr_xcalloc(circuit->n_params + 1, 1);
        qr_circuit_zero_gradient(circuit, obs, n_obs, unseen);
        any = qr_lowered_wanted(p->lowered, wanted, unseen, all);
    } else if (wanted && memchr(wanted, 1, p->n_columns)) {
        memcpy(all, wanted, p->n_columns);
        any = true;
    }
    p->inputs_wanted = wanted && memchr(wanted, 1, circuit->n_columns);
    if (any) p->wanted = QR_MOVE(all);
    free(all);
    free(unseen);
}

static void sim_reject_engine(struct qr_sim_plan *p, const char *engine) {
    p->rejected[p->n_rejected].engine = engine;
    snprintf(p->rejected[p->n_rejected++].why, sizeof p->why, "%s", p->why);
}

/* Picks the first engine that is not ruled out and can plan the circuit. */
static enum qr_code sim_choose_engine(struct qr_sim_plan *p, const struct qr_circuit *circuit,
                                      const struct qr_observable *obs, size_t n_obs,
                                      enum qr_engine wanted, struct qr_err *err) {
    for (size_t i = 0; i < N_ENGINES; i++) {
        const struct qr_sim_engine *e = engines[i].engine;
        bool suits = (p->n_channels ? engines[i].noisy : engines[i].plain) &&
                     ((!p->shots && !p->conditions.n) || engines[i].draws);
        if (p->engine_requested ? engines[i].kind != wanted : !suits) continue;
        if (!suits)
            snprintf(p->why, sizeof p->why, "%s",
                     p->shots          ? "shots need a state vector"
                     : p->conditions.n ? "gates depend on measured bits, which need trajectories"
                     : p->n_channels   ? "the circuit has noise"
                                       : "the circuit has no noise");
        else if (p->n_qubits > e->max_qubits)
            snprintf(p->why, sizeof p->why, "at most %u qubits", e->max_qubits);
        else if (e->plan(p, circuit, obs, n_obs)) {
            p->engine = e;
            return QR_OK;
        }
        sim_reject_engine(p, e->name);
    }
    qr_auto(qr_buf_free) struct qr_buf why = {0};
    for (unsigned i = 0; i < p->n_rejected; i++)
        qr_buf_printf(&why, "%s%s: %s", i ? "; " : "", p->rejected[i].engine, p->rejected[i].why);
    return qr_fail(
        err, QR_RESOURCE_EXHAUSTED,
        "cannot simulate this circuit of %u qubits: no engine supports it (%s); use fewer qubits",
        p->n_qubits, qr_buf_string(&why));
}

/* What is compiled. */
struct sim_source {
    const struct qr_circuit *circuit;
    struct qr_lowered *lowered; /* owned by the plan, once there is one */
    const struct qr_observable *obs, *measured;
    size_t n_obs;
    const struct qr_sim_options *opt;
};

/* The circuit that engines see, before measurements are deferred. */
static const struct qr_circuit *plain_circuit(const struct sim_source *from) {
    return from->lowered ? from->lowered->circuit : from->circuit;
}

/* deferred: NULL, or taken over on success */
static enum qr_code sim_compile_one(const struct sim_source *from, struct qr_deferred *deferred,
                                    struct qr_sim_plan **ret, struct qr_err *err) {
    const struct qr_circuit *plain = deferred ? deferred->circuit : plain_circuit(from);
    struct qr_sim_plan *p = sim_new_plan(plain, from->n_obs, from->opt);
    p->lowered = from->lowered;
    p->deferred = deferred;
    qr_circuit_zero_gradient(plain, from->obs, from->n_obs, p->zero_gradient);
    sim_set_channels(p, plain);
    p->n_bits = plain->n_bits;
    p->measured = from->measured;
    for (size_t i = 0; i < plain->conditions.n; i++)
        (void)qr_conditions_add(&p->conditions, &plain->conditions.list[i]);
    if (p->shots && plain->readout_errors) {
        size_t bytes = p->n_qubits * sizeof *p->readout_errors;
        p->readout_errors = qr_xcalloc(1, bytes);
        memcpy(p->readout_errors, plain->readout_errors, bytes);
    }
    sim_set_wanted(p, from->circuit, from->obs, from->n_obs, from->opt->wanted);
    enum qr_code code = sim_choose_engine(p, plain, from->obs, from->n_obs, from->opt->engine, err);
    p->measured = NULL;
    if (code == QR_OK) code = sim_check_memory(p, err);
    if (code == QR_OK) {
        *ret = p;
        return QR_OK;
    }
    p->lowered = NULL;
    p->deferred = NULL;
    qr_plan_free(p);
    return code;
}

/* Whether a plan with qubits in place of bits costs less than trajectories: n more qubits cost 2^n
 * simulations. */
static bool deferral_pays(const struct qr_sim_plan *p) {
    if (p->n_channels) return p->engine != &qr_statevector_engine || !p->deferred->n_more;
    return p->deferred->n_more < 32 && UINT32_C(1) << p->deferred->n_more <= p->n_trajectories;
}

/* Exact methods, and if that costs less any method, have qubits in place of measured bits. *ret
 * NULL: another plan is needed. */
static enum qr_code sim_compile_deferred(const struct sim_source *from, struct qr_sim_plan **ret,
                                         struct qr_err *err) {
    const struct qr_circuit *plain = plain_circuit(from);
    struct qr_deferred *deferred;
    bool any = from->opt->method == QR_METHOD_AUTO;
    *ret = NULL;
    if (!qr_circuit_measures(plain) || from->opt->method == QR_METHOD_TRAJECTORIES) return QR_OK;
    enum qr_code code =
        qr_circuit_defer(plain, from->obs, from->n_obs, from->opt->shots, &deferred, err);
    if (code != QR_OK) return any ? QR_OK : code;
    code = sim_compile_one(from, deferred, ret, err);
    if (code != QR_OK) {
        qr_deferred_free(deferred);
        return any ? QR_OK : code;
    }
    if (!any || deferral_pays(*ret)) return QR_OK;
    (*ret)->lowered = NULL;
    qr_plan_free(*ret);
    *ret = NULL;
    return QR_OK;
}

enum qr_code qr_plan_compile(const struct qr_circuit *circuit,
                             const struct qr_observable *observables,
                             const struct qr_observable *measured, size_t n_observables,
                             const struct qr_sim_options *opt, struct qr_sim_plan **ret,
                             struct qr_err *err) {
    if (!qr_isa_available(opt->isa))
        return qr_fail(err, QR_INVALID_ARGUMENT, "isa %s is not supported by this CPU",
                       qr_isa_name(opt->isa));
    if (circuit->n_qubits < 1 || circuit->n_qubits > QR_MAX_QUBITS)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cannot simulate a circuit of %u qubits: 1 to %d are supported",
                       circuit->n_qubits, (int)QR_MAX_QUBITS);
    QR_TRY(sim_check_gates(circuit, err));
    struct sim_source from = {.circuit = circuit,
                              .lowered = qr_circuit_lower(circuit),
                              .obs = observables,
                              .measured = measured,
                              .n_obs = n_observables,
                              .opt = opt};
    enum qr_code code = sim_compile_deferred(&from, ret, err);
    if (code == QR_OK && !*ret) code = sim_compile_one(&from, NULL, ret, err);
    if (code != QR_OK) qr_lowered_free(from.lowered);
    return code;
}

void qr_plan_free(struct qr_sim_plan *p) {
    if (!p) return;
    if (p->engine) p->engine->plan_free(p);
    qr_plan_unfuse(p);
    qr_lowered_free(p->lowered);
    qr_deferred_free(p->deferred);
    free(p->conditions.list);
    for (size_t i = 0; i < p->n_channels; i++) qr_channel_fini(&p->channels[i]);
    free(p->channels);
    free(p->channel_needs);
    free(p->readout_errors);
    free(p->zero_gradient);
    free(p->wanted);
    free(p);
}

enum qr_engine qr_plan_engine(const struct qr_sim_plan *p) {
    size_t i = 0;
    while (engines[i].engine != p->engine) i++;
    return engines[i].kind;
}
