/* job/job_facts.c — what follows from a job's model, loss and metrics. Start reading at
 * qr_job_n_outputs(). */
#include "job/job_impl.h"

size_t qr_job_quantum(const struct qr_job *job, size_t n) {
    size_t i = 0;
    while (i < job->n_layers && (job->layers[i].kind != QR_LAYER_QUANTUM || n-- > 0)) i++;
    return i;
}

size_t qr_job_n_outputs(const struct qr_job *job) {
    return qr_layers_n_outputs(job->layers, job->n_layers);
}

bool qr_job_labels_are_signs(const struct qr_job *job) {
    const struct qr_train_spec *t = &job->train;
    const struct qr_loss_info *info = qr_loss_info(t->loss);
    bool bits = false;
    for (size_t i = 0; i < t->n_metrics; i++)
        bits |= qr_metric_binary_labels(t->metrics[i]) || t->metrics[i] == QR_BINARY_ACCURACY;
    /* A loss that accepts 0 for -1 leaves the choice to the metrics. */
    return info->accuracy == QR_BY_SIGN && !(info->zero_is_minus && bits);
}

bool qr_job_has_classes(const struct qr_job *job) {
    const struct qr_train_spec *t = &job->train;
    bool asked = qr_loss_has_classes(t->loss);
    for (size_t i = 0; i < t->n_metrics; i++)
        asked |= t->metrics[i] == QR_ACCURACY || t->metrics[i] == QR_CONFUSION_MATRIX;
    return asked;
}

struct qr_metric_options qr_job_metric_options(const struct qr_job *job) {
    return (struct qr_metric_options){.loss = job->train.loss,
                                      .from_logits = job->train.loss_options.from_logits,
                                      .top_k = job->train.top_k};
}
