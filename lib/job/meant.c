/* job/meant.c — what is meant by the name that a layer, a loss or a metric has in Keras, PennyLane
 * or PyTorch. Letters alone would take hinge_accuracy for binary_accuracy. */
#include <string.h>
#include <strings.h>

#include "job/job_impl.h"

struct meaning {
    enum qr_job_name of;
    const char *name, *meant;
};

static const struct meaning meanings[] = {
    {QR_JOB_LAYER, "PQC", "did you mean 'quantum'?"},
    {QR_JOB_LAYER, "ControlledPQC", "did you mean 'quantum'?"},
    {QR_JOB_LAYER, "QNode", "did you mean 'quantum'?"},
    {QR_JOB_LAYER, "KerasLayer", "did you mean 'quantum'?"},
    {QR_JOB_LAYER, "TorchLayer", "did you mean 'quantum'?"},
    {QR_JOB_LAYER, "circuit", "did you mean 'quantum'?"},
    {QR_JOB_LAYER, "Linear", "did you mean 'dense'?"},
    {QR_JOB_LAYER, "Rescaling", "did you mean 'scale'?"},
    {QR_JOB_LAYER, "Normalization", "did you mean 'scale'?"},
    {QR_JOB_LAYER, "Flatten", "take it away: a sample is a row of numbers already"},
    {QR_JOB_LAYER, "Input", "take it away: the data says how many inputs there are"},
    {QR_JOB_LAYER, "InputLayer", "take it away: the data says how many inputs there are"},
    {QR_JOB_LAYER, "relu", "write {\"layer\": \"activation\", \"activation\": \"relu\"}"},
    {QR_JOB_LAYER, "tanh", "write {\"layer\": \"activation\", \"activation\": \"tanh\"}"},
    {QR_JOB_LAYER, "sigmoid", "write {\"layer\": \"activation\", \"activation\": \"sigmoid\"}"},
    {QR_JOB_LAYER, "softmax", "write {\"layer\": \"activation\", \"activation\": \"softmax\"}"},
    {QR_JOB_LOSS, "sparse_categorical_crossentropy",
     "write 'categorical_crossentropy': it takes class numbers too"},
    {QR_JOB_LOSS, "SparseCategoricalCrossentropy",
     "write 'categorical_crossentropy': it takes class numbers too"},
    {QR_JOB_LOSS, "CategoricalCrossentropy", "did you mean 'categorical_crossentropy'?"},
    {QR_JOB_LOSS, "CrossEntropyLoss",
     "write {\"name\": \"categorical_crossentropy\", \"from_logits\": true}"},
    {QR_JOB_LOSS, "BinaryCrossentropy", "did you mean 'binary_crossentropy'?"},
    {QR_JOB_LOSS, "BCELoss", "did you mean 'binary_crossentropy'?"},
    {QR_JOB_LOSS, "BCEWithLogitsLoss",
     "write {\"name\": \"binary_crossentropy\", \"from_logits\": true}"},
    {QR_JOB_LOSS, "mean_squared_error", "did you mean 'mse'?"},
    {QR_JOB_LOSS, "MeanSquaredError", "did you mean 'mse'?"},
    {QR_JOB_LOSS, "MSELoss", "did you mean 'mse'?"},
    {QR_JOB_LOSS, "mean_absolute_error", "did you mean 'mae'?"},
    {QR_JOB_LOSS, "MeanAbsoluteError", "did you mean 'mae'?"},
    {QR_JOB_LOSS, "L1Loss", "did you mean 'mae'?"},
    {QR_JOB_LOSS, "energy", "did you mean 'expectation'?"},
    {QR_JOB_LOSS, "expval", "did you mean 'expectation'?"},
    {QR_JOB_METRIC, "acc", "did you mean 'accuracy'?"},
    {QR_JOB_METRIC, "hinge_accuracy",
     "did you mean 'accuracy'? with the loss hinge it goes by the sign"},
    {QR_JOB_METRIC, "categorical_accuracy", "did you mean 'accuracy'?"},
    {QR_JOB_METRIC, "sparse_categorical_accuracy", "did you mean 'accuracy'?"},
    {QR_JOB_METRIC, "sparse_top_k_categorical_accuracy", "did you mean 'top_k_accuracy'?"},
    {QR_JOB_METRIC, "TopKCategoricalAccuracy", "did you mean 'top_k_accuracy'?"},
    {QR_JOB_METRIC, "mean_squared_error", "did you mean 'mse'?"},
    {QR_JOB_METRIC, "mean_absolute_error", "did you mean 'mae'?"},
};

enum qr_code qr_job_choice(const struct qr_json *v, const char *where, enum qr_job_name of,
                           const char *const *names, size_t n, size_t *ret, struct qr_err *err) {
    const char *name = "";
    if (v && qr_json_type(v) == QR_JSON_STRING && qr_json_string(v, where, &name, err) != QR_OK)
        return err->code;
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0) return *ret = i, QR_OK;
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].of == of && strcasecmp(name, meanings[i].name) == 0)
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s is '%.60s'; %s", where, name,
                           meanings[i].meant);
    return qr_json_choice(v, where, names, n, ret, err);
}
