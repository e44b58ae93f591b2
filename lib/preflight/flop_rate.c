/* preflight/flop_rate.c — times a gradient of the tutorial's circuit. Start reading at
 * qr_measure_flop_rate(). */
#include "preflight/flop_rate.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "circuit/qcnn.h"
#include "preflight/stopwatch.h"

enum { QUBITS = 16 };
static const int64_t for_ns = QR_SECOND / 10;

/* The fastest of several runs of 0.5 ms each, or 4 ms with the statevector engine. */
static int64_t gradient_ns(const struct qr_sim_plan *plan, size_t n_params,
                           struct qr_sim_workspace *ws) {
    static const double x[QUBITS] = {0.7};
    double *theta = qr_xcalloc(n_params + 1, sizeof *theta), direction = 1, scale = 1, z = 0;
    qr_auto(qr_free_p) qr_fixed *gradient = qr_xcalloc(n_params + 1, sizeof *gradient);
    struct qr_sim_bound *bound = qr_sim_bound_new(plan);
    int64_t began_ns = qr_now_ns(&qr_clock_monotonic), best_ns = INT64_MAX;
    for (size_t i = 0; i < n_params; i++) theta[i] = 0.37 * (double)i;
    qr_sim_bind(bound, theta, NULL);
    for (int i = 0; i < 64; i++) {
        struct qr_stopwatch began = qr_stopwatch_begin();
        qr_sim_forward_for_gradient(bound, ws, NULL, x, QUBITS, 1, &direction, &z);
        bool good = qr_sim_backward(bound, ws, NULL, &direction, &scale, gradient, NULL);
        int64_t took_ns = qr_stopwatch_ns(&began, 1);
        if (good && took_ns < best_ns) best_ns = took_ns;
        if (qr_now_ns(&qr_clock_monotonic) - began_ns > for_ns) break;
    }
    qr_sim_bound_free(bound);
    free(theta);
    return best_ns > 0 ? best_ns : 1;
}

enum qr_code qr_measure_flop_rate(const struct qr_sim_options *opt, double *ret,
                                  struct qr_err *err) {
    const struct qr_qcnn_options small = {.n_qubits = QUBITS, .variant = QR_QCNN_NOTEBOOK};
    struct qr_circuit *circuit = NULL;
    struct qr_observable last = {0};
    struct qr_sim_plan *plan = NULL;
    struct qr_sim_workspace *ws = NULL;
    struct qr_qubits left;
    char name[16];
    enum qr_code code = qr_qcnn_new(&small, &circuit, &left, err);
    if (code == QR_OK) {
        snprintf(name, sizeof name, "Z%u", qr_qubits_first(&left));
        code = qr_observable_parse(name, QUBITS, &last, err);
    }
    if (code == QR_OK) code = qr_sim_compile(circuit, &last, 1, opt, &plan, err);
    if (code == QR_OK) code = qr_sim_workspace_new(plan, 1, &ws, err);
    if (code == QR_OK)
        *ret = qr_sim_facts(plan).flop_per_gradient * 1e9 /
               (double)gradient_ns(plan, circuit->n_params, ws);
    qr_sim_workspace_free(ws);
    qr_sim_plan_free(plan);
    qr_observable_fini(&last);
    qr_circuit_free(circuit);
    return code;
}
