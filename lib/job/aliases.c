/* job/aliases.c — advice for the names that layers, losses, metrics, optimizers and keys have in
 * Keras, PennyLane, Qiskit or PyTorch. Edit distance alone would suggest binary_accuracy for
 * hinge_accuracy. Start reading at qr_job_choice(). */
#include <string.h>
#include <strings.h>

#include "job/job_impl.h"

/* names: separated by blanks, in any case. advice: one word is the name to write. */
static const struct {
    enum qr_job_names of;
    const char *names, *advice;
} aliases[] = {
    {QR_JOB_LAYER, "PQC ControlledPQC QNode KerasLayer TorchLayer circuit", "quantum"},
    {QR_JOB_LAYER, "Linear", "dense"},
    {QR_JOB_LAYER, "Rescaling Normalization", "scale"},
    {QR_JOB_LAYER, "Flatten", "remove it: a sample is already a row of numbers"},
    {QR_JOB_LAYER, "Input InputLayer", "remove it: the number of inputs follows from the data"},
    {QR_JOB_LAYER, "relu", "write {\"layer\": \"activation\", \"activation\": \"relu\"}"},
    {QR_JOB_LAYER, "tanh", "write {\"layer\": \"activation\", \"activation\": \"tanh\"}"},
    {QR_JOB_LAYER, "sigmoid", "write {\"layer\": \"activation\", \"activation\": \"sigmoid\"}"},
    {QR_JOB_LAYER, "softmax", "write {\"layer\": \"activation\", \"activation\": \"softmax\"}"},
    {QR_JOB_LOSS, "sparse_categorical_crossentropy SparseCategoricalCrossentropy",
     "write 'categorical_crossentropy': it takes class numbers too"},
    {QR_JOB_LOSS, "CategoricalCrossentropy cce", "categorical_crossentropy"},
    {QR_JOB_LOSS, "CrossEntropyLoss",
     "write {\"name\": \"categorical_crossentropy\", \"from_logits\": true}"},
    {QR_JOB_LOSS, "BinaryCrossentropy BCELoss bce", "binary_crossentropy"},
    {QR_JOB_LOSS, "BCEWithLogitsLoss",
     "write {\"name\": \"binary_crossentropy\", \"from_logits\": true}"},
    {QR_JOB_LOSS, "mean_squared_error MeanSquaredError MSELoss squared_error", "mse"},
    {QR_JOB_LOSS, "mean_absolute_error MeanAbsoluteError L1Loss absolute_error", "mae"},
    {QR_JOB_LOSS, "cross_entropy crossentropy",
     "did you mean 'categorical_crossentropy', or 'binary_crossentropy' of one output?"},
    {QR_JOB_LOSS, "energy expval", "expectation"},
    {QR_JOB_METRIC, "acc categorical_accuracy sparse_categorical_accuracy", "accuracy"},
    {QR_JOB_METRIC, "hinge_accuracy",
     "did you mean 'accuracy'? with the hinge loss it compares signs"},
    {QR_JOB_METRIC, "sparse_top_k_categorical_accuracy TopKCategoricalAccuracy", "top_k_accuracy"},
    {QR_JOB_METRIC, "f1 f1_score", "use \"precision\" and \"recall\": F1 is their harmonic mean"},
    {QR_JOB_METRIC, "loss", "remove it: the loss is always reported"},
    {QR_JOB_METRIC, "val_loss",
     "remove it: it is always reported when there are validation samples"},
    {QR_JOB_METRIC, "mean_squared_error", "mse"},
    {QR_JOB_METRIC, "mean_absolute_error", "mae"},
    {QR_JOB_OPTIMIZER, "qng QNGOptimizer", "quantum-natural-gradient"},
    {QR_JOB_OPTIMIZER, "QNSPSA", "did you mean 'spsa', or 'quantum-natural-gradient'?"},
    {QR_JOB_OPTIMIZER, "gradient-descent GradientDescent GradientDescentOptimizer", "sgd"},
    {QR_JOB_OPTIMIZER, "momentum", "write 'sgd' with \"momentum\": 0.9"},
    {QR_JOB_OPTIMIZER, "NesterovMomentumOptimizer",
     "write 'sgd' with \"momentum\": 0.9, \"nesterov\": true"},
    {QR_JOB_OPTIMIZER, "AdamOptimizer", "adam"},
    {QR_JOB_OPTIMIZER, "SPSAOptimizer", "spsa"},
    {QR_JOB_OPTIMIZER, "COBYLA Nelder-Mead",
     "not supported; use 'spsa' (gradient-free), or 'lbfgs' for VQE"},
    {QR_JOB_OPTIMIZER, "SLSQP", "not supported; use 'lbfgs', for objectives without data"},
    {QR_JOB_OPTIMIZER, "BFGS L-BFGS-B L_BFGS_B", "lbfgs"},
    {QR_JOB_SCHEDULE, "CosineDecay cosine_decay", "cosine"},
    {QR_JOB_SCHEDULE, "CosineDecayRestarts cosine_decay_restarts", "cosine_restarts"},
    {QR_JOB_SCHEDULE, "ExponentialDecay exponential_decay", "exponential"},
    {QR_JOB_SCHEDULE, "PolynomialDecay", "polynomial"},
    {QR_JOB_SCHEDULE, "linear", "did you mean 'polynomial'? its power is 1"},
    {QR_JOB_SCHEDULE, "PiecewiseConstantDecay", "piecewise"},
    {QR_JOB_SCHEDULE, "warmup", "write \"warmup_steps\" beside any schedule, such as 'constant'"},
    {QR_JOB_PRECISION, "float64 complex128", "double"},
    {QR_JOB_PRECISION, "float32 complex64", "single"},
};

static const char in_optimizer[] =
    "it is a key of the optimizer: {\"name\": \"adam\", \"learning_rate\": 0.01}";
static const char in_train[] = "it is a key of \"train\"; move it there";
static const char in_data[] = "it is a key of \"data\"; move it there";
static const char in_job[] = "it is a key of the job; move it there";
static const char as_epochs[] = "set train.epochs: the number of steps follows from it";
static const char as_fraction[] = "write \"train_fraction\": 0.8 where this is 0.2";
/* path: of the object (keys.h). */
static const struct {
    const char *path, *names, *advice;
} keys[] = {
    {"", "epochs batch_size loss metrics optimizer initial_weights", in_train},
    {"", "layers", "model"},
    {"", "circuit", "it is a key of a quantum layer in \"model\""},
    {"", "threads", "it is a key of \"worker\"; move it there"},
    {"model[]", "type", "layer"},
    {"train", "learning_rate lr weight_decay", in_optimizer},
    {"train", "steps max_iter maxiter", as_epochs},
    {"train", "validation_split", "write \"train_fraction\" in data: 0.8 where this is 0.2"},
    {"train", "train_fraction labels", in_data},
    {"train", "sample_weight", "it is a key of \"data\": the name of a column"},
    {"train", "seed precision", in_job},
    {"train.optimizer", "lr rate stepsize step_size", "learning_rate"},
    {"train.optimizer", "eps", "epsilon"},
    {"train.optimizer", "betas", "write \"beta_1\" and \"beta_2\""},
    {"train.optimizer", "decay", "write \"weight_decay\", or learning_rate as a schedule"},
    {"train.optimizer", "schedule", "it is a key of learning_rate, as an object"},
    {"train.optimizer", "type", "name"},
    {"train.optimizer", "steps maxiter", as_epochs},
    {"train.optimizer", "lam", "regularization"},
    {"train.optimizer", "a", "write \"learning_rate\": that of the first step"},
    {"train.optimizer", "c", "perturbation"},
    {"train.optimizer", "A", "stability"},
    {"train.optimizer.learning_rate", "name type", "schedule"},
    {"data", "path file filename", "url"},
    {"data", "test_size validation_split", as_fraction},
    {"data", "shuffle", "it is a key of \"train\"; \"shuffle_split\" shuffles before the split"},
    {"data", "random_state", "shuffle_split"},
    {"data", "batch_size", in_train},
    {"data", "features", "columns"},
    {"data", "label target y label_column", "labels"},
};
enum { N_ALIASES = sizeof aliases / sizeof *aliases, N_KEYS = sizeof keys / sizeof *keys };

static bool has_name(const char *names, const char *name, bool any_case) {
    size_t n = strlen(name);
    for (const char *p = names; n && *p; p += strcspn(p, " "), p += *p == ' ')
        if (strcspn(p, " ") == n && (any_case ? strncasecmp : strncmp)(p, name, n) == 0)
            return true;
    return false;
}

/* prefix: "train: unknown key 'lr'". */
static enum qr_code give_advice(const char *prefix, const char *advice, struct qr_err *err) {
    bool name = !strchr(advice, ' ');
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s; %s%s%s", prefix, name ? "did you mean '" : "",
                   advice, name ? "'?" : "");
}

enum qr_code qr_job_check_keys(const struct qr_json *object, const struct qr_job_object *o,
                               const char *where, const char *const *known, size_t n,
                               struct qr_err *err) {
    for (const struct qr_json *m = qr_json_first(object); m; m = qr_json_next(m)) {
        const char *key = qr_json_key(m);
        size_t k = 0;
        while (k < n && strcmp(known[k], key) != 0) k++;
        for (size_t i = 0; k == n && i < N_KEYS; i++)
            if (strcmp(o->path, keys[i].path) == 0 && has_name(keys[i].names, key, false))
                return give_advice(qr_path_of("%s: unknown key '%s'", where, key).s, keys[i].advice,
                                   err);
    }
    return known ? qr_json_known(object, where, known, n, err) : QR_OK;
}

const char *qr_job_key_alias(const char *word) {
    for (size_t i = 0; i < N_KEYS; i++)
        if (has_name(keys[i].names, word, false) && !strchr(keys[i].advice, ' '))
            return keys[i].advice;
    return NULL;
}

enum qr_code qr_job_choice(const struct qr_json *v, const char *where, enum qr_job_names of,
                           const char *const *names, size_t n, size_t *ret, struct qr_err *err) {
    const char *name = "";
    if (v && qr_json_type(v) == QR_JSON_STRING) QR_TRY(qr_json_string(v, where, &name, err));
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0) return *ret = i, QR_OK;
    for (size_t i = 0; i < N_ALIASES; i++)
        if (aliases[i].of == of && has_name(aliases[i].names, name, true))
            return give_advice(qr_path_of("%s is '%.60s'", where, name).s, aliases[i].advice, err);
    return qr_json_choice(v, where, names, n, ret, err);
}
