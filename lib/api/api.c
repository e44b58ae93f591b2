/* api/api.c — functions of the C interface: a compiled circuit with all that a call needs. Start
 * reading at qring_circuit_function(); api_calls.c has the calls. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api_impl.h"
#include "base/mem.h"
#include "circuit/circuit_json.h"
#include "exact/random.h"
#include "format/json.h"
#include "version.h"

const char *qring_version(void) { return QR_VERSION; }

/* ---- options ---- */

enum { MAX_TRAJECTORIES = 1 << 20, MAX_SHOTS = 1 << 24 }; /* as in a job */

static enum qr_code read_options(const struct qring_options *from, struct qring_options *ret,
                                 struct qr_err *err) {
    *ret = (struct qring_options){0};
    QR_TRY(qr_api_struct(from, "options", ret, sizeof *ret, err));
    if (!ret->dtype) ret->dtype = QRING_FLOAT64;
    if (!ret->isa) ret->isa = "auto";
    if (ret->dtype != QRING_FLOAT32 && ret->dtype != QRING_FLOAT64)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cannot use dtype %d: it is neither QRING_FLOAT32 nor QRING_FLOAT64",
                       (int)ret->dtype);
    if (ret->trajectories > MAX_TRAJECTORIES)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cannot use %u trajectories: give at most %d, or 0 for %d",
                       ret->trajectories, (int)MAX_TRAJECTORIES, (int)QR_TRAJECTORIES);
    if (ret->shots > MAX_SHOTS || (ret->shots && ret->states))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cannot use %u shots%s: give at most %d, and no states", ret->shots,
                       ret->states ? " with states" : "", (int)MAX_SHOTS);
    return QR_OK;
}

/* name NULL: auto */
static enum qr_code read_method(const char *name, enum qr_method *ret, struct qr_err *err) {
    *ret = QR_METHOD_AUTO;
    if (!name) return QR_OK;
    for (size_t i = 0; i < sizeof qr_method_names / sizeof *qr_method_names; i++)
        if (strcmp(name, qr_method_names[i]) == 0) {
            *ret = (enum qr_method)i;
            return QR_OK;
        }
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "cannot use method '%.40s': it is unknown; use auto, exact, density or "
                   "trajectories",
                   name);
}

static enum qr_code read_gradient(const char *name, bool *ret_shift, struct qr_err *err) {
    *ret_shift = name && strcmp(name, "parameter-shift") == 0;
    if (!name || *ret_shift || strcmp(name, "adjoint") == 0) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "cannot use gradient '%.40s': it is unknown; use adjoint or parameter-shift",
                   name);
}

/* ---- compiling ---- */

enum qr_code qr_api_circuit(struct qring_function *f, const char *text, size_t bytes,
                            struct qr_err *err) {
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    struct qr_qubits unused;
    QR_TRY(qr_json_parse((struct qr_bytes){(const uint8_t *)text, bytes}, "circuit", &root, err));
    return qr_circuit_from_json(root, "circuit", &f->circuit, &unused, err);
}

enum qr_code qr_api_observables(struct qring_function *f, const char *const *texts, size_t n,
                                struct qr_err *err) {
    void *p;
    QR_TRY(qr_large_new(n, sizeof *f->observables, "observables", &p, err));
    f->observables = p;
    for (; f->n_observables < n; f->n_observables++) {
        size_t i = f->n_observables;
        if (!texts[i]) return qr_fail(err, QR_INVALID_ARGUMENT, "observables[%zu] is missing", i);
        if (qr_observable_parse(texts[i], f->circuit->n_qubits, &f->observables[i], err) != QR_OK)
            return qr_wrap(err, "observables[%zu]", i);
    }
    return QR_OK;
}

/* The key of the evaluations of a job's first filter (model/layers/quantum.c). */
void qring_set_seed(struct qring_function *f, unsigned long long seed) {
    f->draw_key = qr_random_u64(seed, QR_RANDOM_TRAJECTORY, 0, UINT64_MAX);
}

static enum qr_code compile_plan(struct qring_function *f, const struct qring_options *opt,
                                 struct qr_err *err) {
    struct qr_sim_options sim = {
        .precision = opt->dtype == QRING_FLOAT32 ? QR_SINGLE : QR_DOUBLE,
        .engine = opt->states ? QR_ENGINE_STATEVECTOR : QR_ENGINE_AUTO,
        .n_trajectories = opt->trajectories,
        .shots = opt->shots,
    };
    QR_TRY(qr_isa_parse(opt->isa, &sim.isa, err));
    QR_TRY(read_method(opt->method, &sim.method, err));
    QR_TRY(read_gradient(opt->gradient, &sim.parameter_shift, err));
    if (opt->shots && (f->circuit->n_qubits > 64 || (!f->n_observables && f->circuit->n_bits > 64)))
        return qr_fail(err, QR_UNIMPLEMENTED,
                       "cannot draw shots of %u qubits and %u measured bits: at most 64 of each",
                       f->circuit->n_qubits, f->circuit->n_bits);
    if (opt->shots && f->circuit->n_channels && !qr_circuit_measures(f->circuit) &&
        (sim.method == QR_METHOD_EXACT || sim.method == QR_METHOD_DENSITY))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cannot draw shots with method '%s': use trajectories", opt->method);
    if (opt->states && f->circuit->n_channels)
        return qr_fail(err, QR_UNIMPLEMENTED,
                       "cannot compute states: the circuit has noise channels or measurements, and "
                       "its states are mixed; remove these, or compute expectation values");
    qring_set_seed(f, opt->seed);
    qr_auto(qr_free_p) uint8_t *wanted = NULL;
    if (opt->input_gradients) {
        wanted = qr_xcalloc(f->circuit->n_columns + 1, 1);
        memset(wanted, 1, f->circuit->n_columns);
        sim.wanted = wanted;
    }
    QR_TRY(qr_sim_compile(f->circuit, f->observables, f->n_observables, &sim, &f->plan, err));
    f->in_parallel = qr_sim_micro_batches_in_parallel(f->plan);
    f->bound = qr_sim_bound_new(f->plan);
    f->bound_weights = qr_xcalloc(f->circuit->n_params + 1, sizeof *f->bound_weights);
    return QR_OK;
}

static enum qr_code make_function(struct qring_function *f, const char *circuit, size_t bytes,
                                  const char *const *observables, size_t n,
                                  const struct qring_options *options, struct qr_err *err) {
    struct qring_options opt;
    QR_TRY(read_options(options, &opt, err));
    if (!circuit || (n && !observables))
        return qr_fail(err, QR_INVALID_ARGUMENT, "cannot compile: %s is NULL",
                       circuit ? "observables" : "circuit");
    if (!n && !opt.states && !opt.shots)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cannot compile: there is no observable; give at least one, such as \"Z0\"");
    f->states = opt.states;
    f->shots = opt.shots;
    f->input_gradients = opt.input_gradients;
    f->n_threads = qr_api_threads(opt.threads);
    QR_TRY(qr_api_circuit(f, circuit, bytes, err));
    QR_TRY(qr_api_observables(f, observables, n, err));
    return compile_plan(f, &opt, err);
}

enum qring_code qring_circuit_function(const char *circuit, size_t circuit_bytes,
                                       const char *const *observables, size_t n_observables,
                                       const struct qring_options *options,
                                       struct qring_function **ret, struct qring_error *ret_err) {
    struct qr_err err = {0};
    struct qr_number_env env;
    struct qring_function *f = qr_xcalloc(1, sizeof *f);
    qr_number_env_enter(&env);
    atomic_flag_clear(&f->busy);
    enum qr_code code =
        make_function(f, circuit, circuit_bytes, observables, n_observables, options, &err);
    if (code != QR_OK) qring_function_free(QR_MOVE(f));
    *ret = f;
    qr_number_env_leave(&env);
    return qr_api_report(ret_err, code, &err);
}

static void free_workspaces(struct qring_function *f) {
    for (unsigned i = 0; i < f->n_workspaces; i++) qr_sim_workspace_free(f->workspaces[i]);
    free(f->workspaces);
    f->workspaces = NULL;
    f->n_workspaces = 0;
}

void qring_function_free(struct qring_function *f) {
    if (!f) return;
    free_workspaces(f);
    if (f->pool_process == getpid()) qr_pool_free(f->pool);
    qr_sim_bound_free(f->bound);
    qr_sim_plan_free(f->plan);
    for (size_t i = 0; i < f->n_observables; i++) qr_observable_fini(&f->observables[i]);
    free(f->observables);
    qr_circuit_free(f->circuit);
    free(f->bound_weights);
    free(f);
}

/* ---- threads and workspaces ---- */

/* After a fork the child has no threads of the pool. */
struct qr_pool *qr_api_pool(struct qring_function *f) {
    if (f->n_threads == 1) return NULL;
    if (f->pool && f->pool_process == getpid()) return f->pool;
    f->pool = qr_pool_new(f->n_threads);
    f->pool_process = getpid();
    return f->pool;
}

enum qr_code qr_api_reserve(struct qring_function *f, unsigned n, size_t n_samples,
                            struct qr_err *err) {
    if (n <= f->n_workspaces && n_samples <= f->workspace_samples) return QR_OK;
    if (n < f->n_workspaces) n = f->n_workspaces;
    if (n_samples < f->workspace_samples) n_samples = f->workspace_samples;
    free_workspaces(f);
    f->workspaces = qr_xcalloc(n, sizeof(struct qr_sim_workspace *));
    f->workspace_samples = n_samples;
    for (; f->n_workspaces < n; f->n_workspaces++)
        QR_TRY(qr_sim_workspace_new(f->plan, n_samples, &f->workspaces[f->n_workspaces], err));
    return QR_OK;
}

/* ---- facts ---- */

size_t qring_n_qubits(const struct qring_function *f) { return f->circuit->n_qubits; }
size_t qring_n_parameters(const struct qring_function *f) { return f->circuit->n_params; }
size_t qring_n_inputs(const struct qring_function *f) { return f->circuit->n_columns; }
size_t qring_n_observables(const struct qring_function *f) { return f->n_observables; }
size_t qring_n_bits(const struct qring_function *f) { return f->circuit->n_bits; }
size_t qring_n_gates(const struct qring_function *f) { return f->circuit->n_gates; }
const char *qring_engine(const struct qring_function *f) { return qr_sim_engine_name(f->plan); }

const char *qring_parameter_name(const struct qring_function *f, size_t i) {
    return i < f->circuit->n_params ? f->circuit->param_names[i] : NULL;
}

const char *qring_input_name(const struct qring_function *f, size_t i) {
    size_t unnamed = f->circuit->n_columns - f->circuit->n_named;
    return i < f->circuit->n_columns && i >= unnamed ? f->circuit->column_names[i - unnamed] : NULL;
}

char *qring_draw(const struct qring_function *f, unsigned columns) {
    struct qr_number_env env;
    qr_number_env_enter(&env);
    char *text =
        qr_circuit_draw(f->circuit, f->observables, f->n_observables, QR_DRAWING_TEXT, columns);
    qr_number_env_leave(&env);
    return text;
}
void qring_text_free(char *text) { free(text); }
