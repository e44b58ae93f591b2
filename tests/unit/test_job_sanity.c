/* Errors and warnings about jobs whose training would be useless. */
#include <math.h>

#include "base/mem.h"
#include "job/job.h"
#include "circuit/readouts.h"
#include "tests/jobs.h"
#include "tests/t.h"

#define LAST(layer, loss)                                                                          \
    "{\"model\":[" layer "],\"data\":{\"source\":\"npz\",\"url\":\"x.npz\"},\"train\":{\"loss\":"  \
    "\"" loss "\"}}"
#define LAST_OF(layer, loss, more)                                                                 \
    "{\"model\":[" layer "],\"data\":{\"source\":\"npz\",\"url\":\"x.npz\"},\"train\":{" more      \
    "\"loss\":" loss "}}"
#define METRIC(list) "\"metrics\":[" list "],"
#define LOGITS(loss) "{\"name\":\"" loss "\",\"from_logits\":true}"
#define UNIT(n, activation)                                                                        \
    "{\"layer\":\"dense\",\"units\":" #n ",\"activation\":\"" activation "\"}"
#define DENSE(activation) "{\"layer\":\"dense\",\"units\":3,\"activation\":\"" activation "\"}"
#define READ_OF(angle, text)                                                                       \
    "{\"layer\":\"quantum\",\"circuit\":{\"qubits\":3,\"gates\":[{\"gate\":\"RY\",\"qubits\":[0]," \
    "\"angle\":" angle "},{\"gate\":\"CNOT\",\"qubits\":[0,1]}]},\"readouts\":[" text "]}"
#define READ(text) READ_OF("\"w\"", text)
#define RATE(rate) "\"optimizer\":{\"name\":\"sgd\",\"learning_rate\":" rate "},"
static const struct {
    const char *text, *error, *warning;
} output_rows[] = {
    {LAST(DENSE("linear"), "categorical_crossentropy"),
     "model[0]: its outputs (activation linear) may be below 0", NULL},
    {LAST(DENSE("tanh"), "categorical_crossentropy"), "\"softmax\"", NULL},
    {LAST(DENSE("linear"), "binary_crossentropy"),
     "train.loss binary_crossentropy expects probabilities; set \"activation\": \"sigmoid\" there, "
     "or \"from_logits\": true in the loss",
     NULL},
    {LAST_OF(DENSE("linear"), LOGITS("binary_crossentropy"), ""), NULL, NULL},
    {LAST_OF(DENSE("tanh"), LOGITS("categorical_crossentropy"), ""), NULL, NULL},
    {LAST_OF(READ("\"Z1\""), LOGITS("binary_crossentropy"), ""), NULL, NULL},
    {LAST_OF(DENSE("softmax"), LOGITS("categorical_crossentropy"), ""),
     "train.loss: from_logits is set, but model[0] outputs probabilities (activation softmax); "
     "remove one",
     NULL},
    {LAST_OF(DENSE("sigmoid"), LOGITS("categorical_crossentropy"), ""), "activation sigmoid", NULL},
    {LAST_OF(DENSE("linear"), LOGITS("binary_crossentropy"), "\"metrics\":[\"binary_accuracy\"],"),
     NULL, "train.metrics[0]: binary_accuracy compares outputs with 0.5"},
    {LAST_OF(DENSE("softmax"), "\"categorical_crossentropy\"", "\"class_weight\":[1,2],"),
     "train.class_weight: 2 numbers for 3 classes", NULL},
    {LAST_OF(DENSE("softmax"), "\"categorical_crossentropy\"", "\"class_weight\":[1,2,0],"), NULL,
     NULL},
    {LAST_OF(DENSE("sigmoid"), "\"binary_crossentropy\"", "\"class_weight\":[1,2],"),
     "a sample with 3 outputs has no single class; use data.sample_weight", NULL},
    {LAST_OF(DENSE("linear"), "\"mse\"", "\"class_weight\":[1,2],"),
     "train.class_weight: mse has no classes", NULL},
    {LAST_OF(DENSE("linear"), "\"hinge\"", "\"class_weight\":[0,0],"), "all weights are 0", NULL},
    {LAST_OF(DENSE("linear"), "\"hinge\"", "\"class_weight\":[1,-1],"), "train.class_weight[1]",
     NULL},
    {LAST_OF(DENSE("linear"), "\"hinge\"", "\"class_weight\":[1],"),
     "1 numbers; give one for each class", NULL},
    {LAST_OF(DENSE("linear"), "{\"name\":\"huber\",\"delta\":0}", ""),
     "train.loss.delta must be above 0", NULL},
    {LAST_OF(DENSE("softmax"), "\"mse\"", METRIC("\"top_k_accuracy\"")),
     "train.metrics[0]: top_k_accuracy with k 5 of 3 outputs is always 1; give a smaller \"k\"",
     NULL},
    {LAST_OF(DENSE("softmax"), "\"mse\"", METRIC("{\"name\":\"top_k_accuracy\",\"k\":3}")),
     "with k 3 of 3 outputs", NULL},
    {LAST_OF(DENSE("softmax"), "\"mse\"",
             METRIC("\"recall\",{\"name\":\"top_k_accuracy\",\"k\":2},{\"name\":\"mse\"}")),
     NULL, NULL},
    {LAST_OF(DENSE("softmax"), "\"mse\"", METRIC("{\"name\":\"mse\",\"k\":2}")),
     "train.metrics[0]: unknown key 'k'", NULL},
    {LAST_OF(DENSE("softmax"), "\"mse\"", METRIC("{\"name\":\"top_k_accuracy\",\"k\":0}")),
     "train.metrics[0].k is 0", NULL},
    {LAST_OF(DENSE("softmax"), "\"mse\"", METRIC("{\"k\":2}")), "train.metrics[0].name", NULL},
    {LAST_OF(DENSE("softmax"), "\"mse\"", METRIC("{\"name\":\"mse\"},\"mse\"")),
     "'mse' is a duplicate", NULL},
    {LAST_OF(DENSE("linear"), "{\"name\":\"mse\",\"delta\":1}", ""), "unknown key 'delta'", NULL},
    {LAST_OF(DENSE("linear"), "{\"name\":\"huber\",\"from_logits\":true}", ""),
     "unknown key 'from_logits'", NULL},
    {LAST_OF(DENSE("softmax"), "{\"name\":\"categorical_crossentropy\",\"label_smoothing\":1.5}",
             ""),
     "train.loss.label_smoothing", NULL},
    {LAST_OF(DENSE("linear"), "{\"delta\":1}", ""), "unknown key 'delta'", NULL},
    {LAST(DENSE("sigmoid"), "categorical_crossentropy"), NULL, "not softmax"},
    {LAST(DENSE("relu"), "categorical_crossentropy"), NULL, "not softmax"},
    {LAST(DENSE("softmax"), "categorical_crossentropy"), NULL, NULL},
    {LAST(DENSE("sigmoid"), "binary_crossentropy"), NULL, NULL},
    {LAST(DENSE("relu"), "binary_crossentropy"), NULL, "can exceed 1"},
    {LAST(DENSE("sigmoid"), "hinge"), NULL, "never below 0"},
    {LAST(DENSE("tanh"), "hinge"), NULL, NULL},
    {LAST(DENSE("linear"), "mse"), NULL, NULL},
    {LAST(READ("\"0.5 + 0.5*Z0\",\"Z1\""), "binary_crossentropy"),
     "model[0].readouts[1]: Z1 lies in -1 to 1", NULL},
    {LAST(READ("\"0.5 + 0.5*Z0\""), "binary_crossentropy"), NULL, NULL},
    {LAST(READ("\"1 + Z0\""), "binary_crossentropy"), NULL, "can exceed 1"},
    /* probabilities that are sums of several terms */
    {LAST(READ("\"0.25 + 0.25*Z0 + 0.25*Z1 + 0.25*Z0 Z1\",\"0.5 + 0.3*X0 - 0.4*Z0\""),
          "categorical_crossentropy"),
     NULL, NULL},
    {LAST(READ("\"0.5 + 0.3*X0 - 0.4*Z1\""), "binary_crossentropy"),
     "model[0].readouts[0]: 0.5 + 0.3*X0 - 0.4*Z1 lies in -0.2 to 1.2", NULL},
    {LAST(DENSE("sigmoid") ",{\"layer\":\"scale\",\"factor\":-1}", "binary_crossentropy"),
     "model[1]: its outputs lie in -1 to 0", NULL},
    {LAST_OF(DENSE("tanh") ",{\"layer\":\"scale\",\"factor\":0.5,\"offset\":0.5}",
             "\"binary_crossentropy\"", METRIC("\"auc\"")),
     NULL, NULL},
    {LAST(DENSE("linear") ",{\"layer\":\"scale\",\"factor\":0}", "binary_crossentropy"), NULL,
     NULL},
    /* constant read-outs */
    {LAST(READ("\"Z0\",\"Z2\",\"X2\""), "mse"), NULL,
     "model[0].readouts[1]: no weight or input can change Z2 (constant read-outs: 2 of 3)"},
    {LAST(READ("\"Z2\""), "mse"), NULL, "model: no trainable weight can change the read-outs"},
    {LAST(READ_OF("0.5", "\"Z0\""), "mse"), NULL, "no trainable weight"},
    {LAST("{\"layer\":\"quantum\",\"circuit\":{\"qubits\":1,\"gates\":[{\"repeat\":150000,"
          "\"gates\":["
          "{\"gate\":\"H\",\"qubits\":[0]},{\"gate\":\"T\",\"qubits\":[0]}]}]}}",
          "mse"),
     NULL, NULL}, /* too many gates to analyze before a worker starts */
    {LAST(READ_OF("\"x[0]\"", "\"Z0\"") "," DENSE("linear"), "mse"), NULL, NULL},
    {LAST_OF(DENSE("linear"), "\"mse\"", RATE("0")), NULL,
     "train.optimizer.learning_rate is 0: the weights never change"},
    {LAST_OF(DENSE("linear"), "\"mse\"",
             RATE("{\"schedule\":\"polynomial\",\"initial_learning_rate\":0,\"decay_steps\":5}")),
     NULL, NULL},
    {LAST_OF(DENSE("softmax"), "{\"name\":\"categorical_crossentropy\",\"label_smoothing\":1}", ""),
     NULL, "train.loss.label_smoothing is 1"},
    {LAST(UNIT(1, "softmax"), "mse"), "model[0].activation: softmax of one value is always 1",
     NULL},
    {LAST(READ("\"Z0\"") ",{\"layer\":\"activation\",\"activation\":\"softmax\"}", "mse"),
     "model[1].activation: softmax of one value is always 1", NULL},
    {JOB(), NULL, NULL},
};

/* The last layer's outputs against the loss: the words of an error, of a warning, or neither. */
static void test_outputs(void) {
    for (size_t i = 0; i < COUNT(output_rows); i++) {
        struct qr_err err = {0};
        struct qr_job *job = NULL;
        enum qr_code code =
            qr_job_parse(qr_bytes_of_string(output_rows[i].text), "the test", &job, &err);
        if (output_rows[i].error)
            CHECK(code == QR_INVALID_ARGUMENT && strstr(err.msg, output_rows[i].error),
                  "row %zu: %s", i, err.msg);
        else CHECK(code == QR_OK, "row %zu: %s", i, err.msg);
        if (code != QR_OK) continue;
        struct qr_job_warnings d;
        qr_job_warnings(job, NULL, &d);
        CHECK(d.n == (output_rows[i].warning != NULL) &&
                  (!d.n || strstr(d.sentence[0], output_rows[i].warning)),
              "row %zu: %zu, %s", i, d.n, d.n ? d.sentence[0] : "");
        qr_job_warnings_fini(&d);
        qr_job_free(job);
    }
}

#define OF(model, loss)                                                                            \
    "{\"model\":[" model "],\"data\":{\"source\":\"npz\",\"url\":\"x.npz\"},"                      \
    "\"train\":{\"loss\":\"" loss "\"}}"
#define ON_DATA(a, b, more)                                                                        \
    "{\"layer\":\"quantum\",\"circuit\":{\"qubits\":2,\"gates\":[{\"gate\":\"RX\",\"qubits\":[0]," \
    "\"angle\":{\"data\":" #a "}},{\"gate\":\"RX\",\"qubits\":[1],\"angle\":{\"data\":" #b         \
    "}}]}" more "}"
static char letters[][2] = {"a", "b", "c", "d"};
static char *names[] = {letters[0], letters[1], letters[2], letters[3]};
static const struct {
    const char *job;
    double y[6]; /* four samples, the last validates */
    bool named, for_all;
    const char *warning, *inputs;
} data_rows[] = {
    {OF(UNIT(1, "linear"), "mse"), {1, -1, 1, 1}, true, false, NULL, "a, b, c, d"},
    {OF(UNIT(1, "linear"), "mse"), {1, -1, 1, 1}, false, false, NULL, "columns 0, 1, 2, 3"},
    {OF(UNIT(1, "linear"), "hinge"),
     {1, 1, 1, -1},
     true,
     false,
     "all 3 training samples have the label 1, so there is only one answer to learn, and 1 "
     "validation samples have another; if the file is sorted, set \"shuffle_split\"",
     "a, b, c, d"},
    {OF(UNIT(1, "linear"), "hinge"), {1, 1, 1, 1}, true, false, "only one answer", NULL},
    {OF(UNIT(1, "tanh"), "mse"), {1, 0.5, -2, 1}, true, false, "lie in -2 to 1", NULL},
    {OF(UNIT(1, "sigmoid"), "mae"), {1, -1, 1, 1}, true, false, "outputs in 0 to 1", NULL},
    {OF(UNIT(1, "sigmoid"), "mse"), {1, 0, 1, 1}, true, false, NULL, NULL},
    {OF(ON_DATA(0, 3, ",\"readouts\":[\"Z0\"]"), "mse"),
     {1, -1, 1, 1},
     true,
     false,
     "the circuit does not use columns b, c",
     "a, d (2 of 4 columns)"},
    {OF(ON_DATA(0, 3, ",\"readouts\":[\"Z0\"]"), "mse"),
     {1, -1, 1, 1},
     false,
     false,
     "the circuit does not use columns 1, 2",
     "columns 0, 3 (2 of 4 columns)"},
};
static const double hot[8] = {1, 0, 1, 0, 1, 0, 0, 1},
                    three[12] = {1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1};
static const struct {
    const char *job;
    const double *y;
    size_t n_outputs;
    bool for_all;
    const char *warning;
} wide_rows[] = {
    {OF(UNIT(2, "softmax"), "categorical_crossentropy"), hot, 2, false, "have the class 0"},
    {OF(UNIT(3, "softmax"), "categorical_crossentropy"), three, 3, false,
     "no training sample has class 2; if the file is sorted"},
    {OF(ON_DATA(0, 1, ""), "mse"), hot, 2, true,
     "used for all 2 outputs: without readouts the layer reads Z of 2 qubits"},
    {OF(UNIT(2, "linear"), "mse"), hot, 2, true, "give labels y0 to y1"},
};

/* Warnings about the data: one with these words, or none. */
static void test_data_warnings(void) {
    for (size_t i = 0; i < COUNT(data_rows) + COUNT(wide_rows); i++) {
        bool is_wide = i >= COUNT(data_rows);
        size_t w = i - COUNT(data_rows);
        struct qr_err err = {0};
        struct qr_job *job = NULL;
        double y[12];
        memcpy(y, is_wide ? wide_rows[w].y : data_rows[i].y,
               is_wide ? 4 * wide_rows[w].n_outputs * sizeof *y : sizeof data_rows[i].y);
        struct qr_dataset data = {.n_samples = 4,
                                  .n_train = 3,
                                  .n_columns = is_wide ? 2 : 4,
                                  .n_outputs = is_wide ? wide_rows[w].n_outputs : 1,
                                  .y = y,
                                  .names = !is_wide && data_rows[i].named ? names : NULL,
                                  .label_for_all = is_wide && wide_rows[w].for_all};
        const char *want = is_wide ? wide_rows[w].warning : data_rows[i].warning;
        CHECK(qr_job_parse(qr_bytes_of_string(is_wide ? wide_rows[w].job : data_rows[i].job),
                           "the test", &job, &err) == QR_OK,
              "row %zu: %s", i, err.msg);
        if (!job) continue;
        struct qr_job_warnings d;
        struct qr_buf inputs = {0};
        qr_job_warnings(job, &data, &d);
        bool found = false;
        for (size_t k = 0; want && k < d.n; k++) found |= strstr(d.sentence[k], want) != NULL;
        CHECK(want ? found : d.n == 0, "row %zu: %zu, %s", i, d.n, d.n ? d.sentence[0] : "");
        qr_job_put_inputs(job, &data, &inputs);
        if (!is_wide && data_rows[i].inputs)
            CHECK(strcmp(qr_buf_string(&inputs), data_rows[i].inputs) == 0, "row %zu: %s", i,
                  qr_buf_string(&inputs));
        qr_buf_free(&inputs);
        qr_job_warnings_fini(&d);
        qr_job_free(job);
    }
}

/* Bounds of expectation values, computed by hand. */
static void bounds(void) {
    static const struct {
        const char *text;
        double low, high;
    } table[] = {
        {"Z4", -1, 1},
        {"0.5 + 0.5*Z0", 0, 1},
        {"2 - 3*X0 Y1", -1, 5},
        {"0.5*Z0 + 0.25*Z1 - 0.25*Z2", -1, 1},
        /* the probability of one outcome, each qubit in a basis of its own */
        {"0.25 + 0.25*Z0 - 0.25*X1 - 0.25*Z0 X1", 0, 1},
        {"0.25 + 0.25*Y0 + 0.25*Y5 + 0.25*Y0 Y5", 0, 1},
        /* signs that cannot all hold at once */
        {"Z0 Z1 + Z1 Z2 + Z0 Z2", -1, 3},
        /* different bases: a Bloch vector and a Bell state */
        {"0.5 + 0.3*X0 + 0.4*Z0", 0, 1},
        {"0.6*X0 + 0.8*Y0", -1, 1},
        {"X0 + Y0 + Z0", -1.7320508075688772, 1.7320508075688772},
        {"0.25 + 0.25*X0 X7 - 0.25*Y0 Y7 + 0.25*Z0 Z7", 0, 1},
        {"X0 X1 + Y0 Y1 + Z0 Z1", -3, 1},
        {"X0 Y1 - Y0 X1", -2, 2},
        {"X0 X1 X2 + Z0 + Z1 + Z2", -3.1622776601683795, 3.1622776601683795},
        /* squares that overflow or underflow */
        {"6e199*X0 + 8e199*Y0", -1e200, 1e200},
        {"6e-201*X0 + 8e-201*Y0", -1e-200, 1e-200},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        struct qr_observable o = {0};
        struct qr_err err = {.msg = ""};
        double low, high;
        CHECK(qr_observable_parse(table[i].text, 8, &o, &err) == QR_OK, "%s", err.msg);
        qr_readout_bounds(&o, &low, &high);
        double most = 1e-12 * fabs(table[i].high);
        CHECK(fabs(low - table[i].low) < most && fabs(high - table[i].high) < most,
              "'%s': %.17g to %.17g", table[i].text, low, high);
        qr_observable_fini(&o);
    }
}

int main(void) {
    bounds();
    test_outputs();
    test_data_warnings();
    return t_end();
}
