/* worker/results.h — where the settings want a run's results, as output takes it. */
#ifndef QR_WORKER_RESULTS_H
#define QR_WORKER_RESULTS_H

#include "output/outputs.h"
#include "worker/settings.h"

/* Borrows from both. */
struct qr_outputs_options qr_results_options(const struct qr_settings *s, const struct qr_log *log);

#endif
