/* job/aliases.c — advice for the names that layers, losses, metrics, optimizers and keys have in
 * Keras, PennyLane, Qiskit or PyTorch. Edit distance alone would suggest binary_accuracy for
 * hinge_accuracy. Start reading at qr_job_choice(). */
#include <string.h>
#include <strings.h>

#include "job/job_impl.h"

struct alias {
    enum qr_job_name of;
    const char *name, *advice;
};

static const struct alias aliases[] = {
    {QR_JOB_LAYER, "PQC", "did you mean 'quantum'?"},
    {QR_JOB_LAYER, "ControlledPQC", "did you mean 'quantum'?"},
    {QR_JOB_LAYER, "QNode", "did you mean 'quantum'?"},
    {QR_JOB_LAYER, "KerasLayer", "did you mean 'quantum'?"},
    {QR_JOB_LAYER, "TorchLayer", "did you mean 'quantum'?"},
    {QR_JOB_LAYER, "circuit", "did you mean 'quantum'?"},
    {QR_JOB_LAYER, "Linear", "did you mean 'dense'?"},
    {QR_JOB_LAYER, "Rescaling", "did you mean 'scale'?"},
    {QR_JOB_LAYER, "Normalization", "did you mean 'scale'?"},
    {QR_JOB_LAYER, "Flatten", "remove it: a sample is already a row of numbers"},
    {QR_JOB_LAYER, "Input", "remove it: the number of inputs follows from the data"},
    {QR_JOB_LAYER, "InputLayer", "remove it: the number of inputs follows from the data"},
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
    {QR_JOB_LOSS, "bce", "did you mean 'binary_crossentropy'?"},
    {QR_JOB_LOSS, "cce", "did you mean 'categorical_crossentropy'?"},
    {QR_JOB_LOSS, "cross_entropy",
     "did you mean 'categorical_crossentropy', or 'binary_crossentropy' of one output?"},
    {QR_JOB_LOSS, "crossentropy",
     "did you mean 'categorical_crossentropy', or 'binary_crossentropy' of one output?"},
    {QR_JOB_LOSS, "squared_error", "did you mean 'mse'?"},
    {QR_JOB_LOSS, "absolute_error", "did you mean 'mae'?"},
    {QR_JOB_LOSS, "energy", "did you mean 'expectation'?"},
    {QR_JOB_LOSS, "expval", "did you mean 'expectation'?"},
    {QR_JOB_METRIC, "acc", "did you mean 'accuracy'?"},
    {QR_JOB_METRIC, "hinge_accuracy",
     "did you mean 'accuracy'? with the hinge loss it compares signs"},
    {QR_JOB_METRIC, "categorical_accuracy", "did you mean 'accuracy'?"},
    {QR_JOB_METRIC, "sparse_categorical_accuracy", "did you mean 'accuracy'?"},
    {QR_JOB_METRIC, "sparse_top_k_categorical_accuracy", "did you mean 'top_k_accuracy'?"},
    {QR_JOB_METRIC, "TopKCategoricalAccuracy", "did you mean 'top_k_accuracy'?"},
    {QR_JOB_METRIC, "f1", "use \"precision\" and \"recall\": F1 is their harmonic mean"},
    {QR_JOB_METRIC, "f1_score", "use \"precision\" and \"recall\": F1 is their harmonic mean"},
    {QR_JOB_METRIC, "loss", "remove it: the loss is always reported"},
    {QR_JOB_METRIC, "val_loss",
     "remove it: it is always reported when there are validation samples"},
    {QR_JOB_METRIC, "mean_squared_error", "did you mean 'mse'?"},
    {QR_JOB_METRIC, "mean_absolute_error", "did you mean 'mae'?"},
    {QR_JOB_OPTIMIZER, "qng", "did you mean 'quantum-natural-gradient'?"},
    {QR_JOB_OPTIMIZER, "QNGOptimizer", "did you mean 'quantum-natural-gradient'?"},
    {QR_JOB_OPTIMIZER, "QNSPSA", "did you mean 'spsa', or 'quantum-natural-gradient'?"},
    {QR_JOB_OPTIMIZER, "gradient-descent", "did you mean 'sgd'?"},
    {QR_JOB_OPTIMIZER, "GradientDescent", "did you mean 'sgd'?"},
    {QR_JOB_OPTIMIZER, "GradientDescentOptimizer", "did you mean 'sgd'?"},
    {QR_JOB_OPTIMIZER, "momentum", "write 'sgd' with \"momentum\": 0.9"},
    {QR_JOB_OPTIMIZER, "NesterovMomentumOptimizer",
     "write 'sgd' with \"momentum\": 0.9, \"nesterov\": true"},
    {QR_JOB_OPTIMIZER, "AdamOptimizer", "did you mean 'adam'?"},
    {QR_JOB_OPTIMIZER, "SPSAOptimizer", "did you mean 'spsa'?"},
    {QR_JOB_OPTIMIZER, "COBYLA", "not supported; use 'spsa' (gradient-free), or 'lbfgs' for VQE"},
    {QR_JOB_OPTIMIZER, "Nelder-Mead",
     "not supported; use 'spsa' (gradient-free), or 'lbfgs' for VQE"},
    {QR_JOB_OPTIMIZER, "SLSQP", "not supported; use 'lbfgs', for objectives without data"},
    {QR_JOB_OPTIMIZER, "BFGS", "did you mean 'lbfgs'?"},
    {QR_JOB_OPTIMIZER, "L-BFGS-B", "did you mean 'lbfgs'?"},
    {QR_JOB_OPTIMIZER, "L_BFGS_B", "did you mean 'lbfgs'?"},
    {QR_JOB_SCHEDULE, "CosineDecay", "did you mean 'cosine'?"},
    {QR_JOB_SCHEDULE, "cosine_decay", "did you mean 'cosine'?"},
    {QR_JOB_SCHEDULE, "CosineDecayRestarts", "did you mean 'cosine_restarts'?"},
    {QR_JOB_SCHEDULE, "cosine_decay_restarts", "did you mean 'cosine_restarts'?"},
    {QR_JOB_SCHEDULE, "ExponentialDecay", "did you mean 'exponential'?"},
    {QR_JOB_SCHEDULE, "exponential_decay", "did you mean 'exponential'?"},
    {QR_JOB_SCHEDULE, "PolynomialDecay", "did you mean 'polynomial'?"},
    {QR_JOB_SCHEDULE, "linear", "did you mean 'polynomial'? its power is 1"},
    {QR_JOB_SCHEDULE, "PiecewiseConstantDecay", "did you mean 'piecewise'?"},
    {QR_JOB_SCHEDULE, "warmup", "write \"warmup_steps\" beside any schedule, such as 'constant'"},
    {QR_JOB_PRECISION, "float64", "did you mean 'double'?"},
    {QR_JOB_PRECISION, "float32", "did you mean 'single'?"},
    {QR_JOB_PRECISION, "complex128", "did you mean 'double'?"},
    {QR_JOB_PRECISION, "complex64", "did you mean 'single'?"},
};

static const char in_optimizer[] =
    "it is a key of the optimizer: {\"name\": \"adam\", \"learning_rate\": 0.01}";
static const char in_train[] = "it is a key of \"train\"; move it there";
static const char as_epochs[] = "set train.epochs: the number of steps follows from it";
/* where: path of the object */
static const struct {
    const char *where, *key, *advice;
} keys[] = {
    {"the job", "epochs", in_train},
    {"the job", "batch_size", in_train},
    {"the job", "loss", in_train},
    {"the job", "metrics", in_train},
    {"the job", "optimizer", in_train},
    {"the job", "initial_weights", in_train},
    {"the job", "layers", "did you mean 'model'?"},
    {"the job", "circuit", "it is a key of a quantum layer in \"model\""},
    {"the job", "threads", "it is a key of \"worker\"; move it there"},
    {"train", "learning_rate", in_optimizer},
    {"train", "lr", in_optimizer},
    {"train", "weight_decay", in_optimizer},
    {"train", "steps", as_epochs},
    {"train", "max_iter", as_epochs},
    {"train", "maxiter", as_epochs},
    {"train", "validation_split", "write \"train_fraction\" in data: 0.8 where this is 0.2"},
    {"train", "train_fraction", "it is a key of \"data\"; move it there"},
    {"train", "sample_weight", "it is a key of \"data\": the name of a column"},
    {"train", "seed", "it is a key of the job; move it there"},
    {"train", "precision", "it is a key of the job; move it there"},
    {"train.optimizer", "lr", "did you mean 'learning_rate'?"},
    {"train.optimizer", "rate", "did you mean 'learning_rate'?"},
    {"train.optimizer", "stepsize", "did you mean 'learning_rate'?"},
    {"train.optimizer", "step_size", "did you mean 'learning_rate'?"},
    {"train.optimizer", "eps", "did you mean 'epsilon'?"},
    {"train.optimizer", "betas", "write \"beta_1\" and \"beta_2\""},
    {"train.optimizer", "decay", "write \"weight_decay\", or learning_rate as a schedule"},
    {"train.optimizer", "schedule", "it is a key of learning_rate, as an object"},
    {"train.optimizer", "type", "did you mean 'name'?"},
    {"train.optimizer", "steps", as_epochs},
    {"train.optimizer", "maxiter", as_epochs},
    {"train.optimizer", "lam", "did you mean 'regularization'?"},
    {"train.optimizer", "a", "write \"learning_rate\": that of the first step"},
    {"train.optimizer", "c", "did you mean 'perturbation'?"},
    {"train.optimizer", "A", "did you mean 'stability'?"},
    {"train.optimizer.learning_rate", "name", "did you mean 'schedule'?"},
    {"train.optimizer.learning_rate", "type", "did you mean 'schedule'?"},
    {"data", "path", "did you mean 'url'?"},
    {"data", "file", "did you mean 'url'?"},
    {"data", "filename", "did you mean 'url'?"},
    {"data", "test_size", "write \"train_fraction\": 0.8 where this is 0.2"},
    {"data", "validation_split", "write \"train_fraction\": 0.8 where this is 0.2"},
    {"data", "shuffle", "it is a key of \"train\"; \"shuffle_split\" shuffles before the split"},
    {"data", "random_state", "did you mean 'shuffle_split'?"},
    {"data", "batch_size", in_train},
    {"data", "features", "did you mean 'columns'?"},
    {"data", "label", "did you mean 'labels'?"},
    {"data", "target", "did you mean 'labels'?"},
    {"data", "y", "did you mean 'labels'?"},
    {"data", "label_column", "did you mean 'labels'?"},
    {"train", "labels", "it is a key of \"data\"; move it there"},
};

enum qr_code qr_job_check_keys(const struct qr_json *object, const char *where,
                               const char *const *known, size_t n, struct qr_err *err) {
    enum qr_code code = qr_json_want(object, where, QR_JSON_OBJECT, err);
    for (size_t i = 0; !code && i < sizeof keys / sizeof *keys; i++) {
        bool is_known = false;
        if (strcmp(where, keys[i].where) != 0 || !qr_json_get(object, keys[i].key)) continue;
        for (size_t k = 0; k < n; k++) is_known |= strcmp(known[k], keys[i].key) == 0;
        if (!is_known)
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s: unknown key '%s'; %s", where, keys[i].key,
                           keys[i].advice);
    }
    return code ? code : qr_json_known(object, where, known, n, err);
}

enum qr_code qr_job_choice(const struct qr_json *v, const char *where, enum qr_job_name of,
                           const char *const *names, size_t n, size_t *ret, struct qr_err *err) {
    const char *name = "";
    if (v && qr_json_type(v) == QR_JSON_STRING && qr_json_string(v, where, &name, err) != QR_OK)
        return err->code;
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0) return *ret = i, QR_OK;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (aliases[i].of == of && strcasecmp(name, aliases[i].name) == 0)
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s is '%.60s'; %s", where, name,
                           aliases[i].advice);
    return qr_json_choice(v, where, names, n, ret, err);
}
