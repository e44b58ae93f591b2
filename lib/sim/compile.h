/* sim/compile.h — plans without what sim.h adds to them: read-out errors and shifts. */
#ifndef QR_SIM_COMPILE_H
#define QR_SIM_COMPILE_H

#include "sim/fusion/engine.h"
#include "sim/sim_options.h"

/* As qr_sim_compile, _plan_free and _engine_of of sim.h. measured: what shots measure, which have
 * read-out errors of their own; observables: what derivatives by adjoints are of. */
QR_MUST_CHECK enum qr_code qr_plan_compile(const struct qr_circuit *circuit,
                                           const struct qr_observable *observables,
                                           const struct qr_observable *measured,
                                           size_t n_observables, const struct qr_sim_options *opt,
                                           struct qr_sim_plan **ret, struct qr_err *err);
void qr_plan_free(struct qr_sim_plan *p);
enum qr_engine qr_plan_engine(const struct qr_sim_plan *p);

#endif
