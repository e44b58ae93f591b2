/* worker/results.h — converts the settings of a run's results to output options. */
#ifndef QR_WORKER_RESULTS_H
#define QR_WORKER_RESULTS_H

#include "output/outputs.h"
#include "worker/settings.h"

/* Returns the output options of the settings. Borrows from both arguments. */
struct qr_outputs_options qr_results_options(const struct qr_settings *s, const struct qr_log *log);

#endif
