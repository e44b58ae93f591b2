/* worker/results.c — the output options that follow from the settings. Start reading at
 * qr_results_options(). */
#include "worker/results.h"

#include "worker/stop.h"

struct qr_outputs_options qr_results_options(const struct qr_settings *s,
                                             const struct qr_log *log) {
    return (struct qr_outputs_options){
        .out = s->out,
        .weights = s->weights,
        .weights_gcs_bucket = s->weights_gcs_bucket,
        .weights_gcs_path = s->weights_gcs_path,
        .checkpoints = s->checkpoints,
        .signing_key = s->signing_key,
        .logdir = s->logdir,
        .progress_fd = (int)s->progress_fd,
        .stopping = qr_stop_requested,
        .log = log,
    };
}
