/* Graphs of models for TensorBoard, read back with protobuf-c: names, edges, shapes and attributes;
 * a node name that a layer already has; a graph that is too large. */
#include "output/model_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tensorboard.pb-c.h"
#include "tests/t.h"

static Qring__Tensorboard__GraphDef *graph;

static void read_graph(const char *text, size_t n_columns) {
    struct qr_err err = {0};
    struct qr_job *job = NULL;
    struct qr_model *model = NULL;
    struct qr_buf bytes = {0};
    if (qr_job_parse(qr_bytes_of_string(text), "t", &job, &err) != QR_OK ||
        qr_job_model(job, QR_ISA_PORTABLE, n_columns, &model, &err) != QR_OK) {
        CHECK(false, "%s", err.msg);
        exit(t_end());
    }
    bytes.max = 500;
    qr_model_graph(job, model, &bytes);
    CHECK(bytes.n == 0, "part of a graph: %zu bytes", bytes.n);
    qr_buf_free(&bytes);
    bytes = (struct qr_buf){0};
    qr_model_graph(job, model, &bytes);
    graph = qring__tensorboard__graph_def__unpack(NULL, bytes.n, bytes.p);
    CHECK(graph && graph->versions && graph->versions->producer == 22);
    qr_buf_free(&bytes);
    qr_model_free(model);
    qr_job_free(job);
    if (!graph) exit(t_end());
}

static const Qring__Tensorboard__Node *node(const char *name) {
    for (size_t i = 0; i < graph->n_node; i++)
        if (strcmp(graph->node[i]->name, name) == 0) return graph->node[i];
    return NULL;
}

static const Qring__Tensorboard__Attr *attr(const char *name, const char *key) {
    const Qring__Tensorboard__Node *n = node(name);
    for (size_t i = 0; n && i < n->n_attr; i++)
        if (strcmp(n->attr[i]->key, key) == 0) return n->attr[i]->value;
    CHECK(false, "%s has no %s", name, key);
    return NULL;
}

/* `inputs` and the dimensions of `shape` are separated by spaces. */
static void check_node(const char *name, const char *op, const char *inputs, const char *shape) {
    const Qring__Tensorboard__Node *n = node(name);
    struct qr_buf got = {0};
    CHECK(n && strcmp(n->op, op) == 0, "%s: %s, not %s", name, n ? n->op : "none", op);
    if (!n) return;
    for (size_t i = 0; i < n->n_input; i++) qr_buf_printf(&got, "%s%s", i ? " " : "", n->input[i]);
    CHECK(strcmp(qr_buf_string(&got), inputs) == 0, "%s has inputs '%s', not '%s'", name,
          qr_buf_string(&got), inputs);
    qr_buf_clear(&got);
    const Qring__Tensorboard__Attr *a = attr(name, "_output_shapes");
    CHECK(a && a->list && a->list->n_shape == 1, "%s", name);
    for (size_t i = 0; a && a->list && a->list->n_shape == 1 && i < a->list->shape[0]->n_dim; i++)
        qr_buf_printf(&got, "%s%lld", i ? " " : "", (long long)a->list->shape[0]->dim[i]->size);
    CHECK(strcmp(qr_buf_string(&got), shape) == 0, "%s has shape '%s', not '%s'", name,
          qr_buf_string(&got), shape);
    qr_buf_free(&got);
}

static void check_count(const char *name, const char *key, int64_t want) {
    const Qring__Tensorboard__Attr *a = attr(name, key);
    CHECK(a && a->value_case == QRING__TENSORBOARD__ATTR__VALUE_I && a->i == want, "%s %s", name,
          key);
}
static void check_text(const char *name, const char *key, const char *want) {
    const Qring__Tensorboard__Attr *a = attr(name, key);
    CHECK(a && a->value_case == QRING__TENSORBOARD__ATTR__VALUE_S && a->s.len == strlen(want) &&
              memcmp(a->s.data, want, a->s.len) == 0,
          "%s %s", name, key);
}
static void check_number(const char *name, const char *key, float want) {
    const Qring__Tensorboard__Attr *a = attr(name, key);
    CHECK(a && a->value_case == QRING__TENSORBOARD__ATTR__VALUE_F && a->f == want, "%s %s", name,
          key);
}

/* Node names are unique and valid in TensorFlow, and every input is a node. Frees the graph. */
static void check_whole(size_t n_nodes) {
    static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.",
                      rest[] =
                          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._\\/>-";
    CHECK(graph->n_node == n_nodes, "%zu nodes, not %zu", graph->n_node, n_nodes);
    for (size_t i = 0; i < graph->n_node; i++) {
        const Qring__Tensorboard__Node *n = graph->node[i];
        CHECK(node(n->name) == n, "two nodes '%s'", n->name);
        CHECK(*n->name && strchr(first, *n->name) && strspn(n->name, rest) == strlen(n->name), "%s",
              n->name);
        for (size_t k = 0; k < n->n_input; k++)
            CHECK(node(n->input[k]), "%s has input %s, which is not a node", n->name, n->input[k]);
    }
    qring__tensorboard__graph_def__free_unpacked(graph, NULL);
}

#define TRAIN(loss)                                                                                \
    "\"data\":{\"source\":\"cluster-excitations\",\"rounds\":2},\"train\":{\"loss\":\"" loss       \
    "\",\"optimizer\":{\"name\":\"sgd\",\"learning_rate\":0.5}}}"

/* Two filters, and a layer with the name of a node that is not a layer. */
static void test_qcnn(void) {
    read_graph(
        "{\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":4,"
        "\"stages\":1},\"filters\":2},{\"layer\":\"scale\",\"factor\":0.5,\"offset\":1},"
        "{\"layer\":\"dense\",\"units\":3,\"activation\":\"relu\",\"name\":\"loss\"},"
        "{\"layer\":\"dropout\",\"rate\":0.25},{\"layer\":\"dense\",\"units\":1}]," TRAIN("mse"),
        4);
    const Qring__Tensorboard__Attr *readouts = attr("pqc/readouts", "readouts");
    int64_t n = readouts && readouts->list ? (int64_t)readouts->list->n_s : 0;
    char one[24], both[24];
    snprintf(one, sizeof one, "-1 %lld", (long long)n);
    snprintf(both, sizeof both, "-1 %lld", (long long)(2 * n));
    CHECK(n > 0 && readouts->list->s[0].data[0] == 'Z');
    check_node("inputs", "Placeholder", "", "-1 4");
    check_node("pqc/encoder", "QuantumEncoder", "inputs", "-1");
    check_node("pqc/ansatz", "QuantumCircuit", "pqc/encoder pqc/parameters", "-1");
    check_node("pqc_1/ansatz", "QuantumCircuit", "pqc_1/encoder pqc_1/parameters", "-1");
    check_node("pqc/readouts", "Expectation", "pqc/ansatz", one);
    check_node("pqc/concat", "ConcatV2", "pqc/readouts pqc_1/readouts", both);
    check_count("pqc/encoder", "qubits", 4);
    check_count("pqc/encoder", "columns", 4);
    check_count("pqc/concat", "filters", 2);
    check_node("scale", "Rescaling", "pqc/concat", both);
    check_number("scale", "factor", 0.5F);
    check_node("loss/kernel", "VariableV2", "", n == 1 ? "2 3" : "4 3");
    check_node("loss/MatMul", "MatMul", "scale loss/kernel", "-1 3");
    check_count("loss/MatMul", "units", 3);
    check_text("loss/MatMul", "activation", "relu");
    check_node("loss/BiasAdd", "BiasAdd", "loss/MatMul loss/bias", "-1 3");
    check_node("loss/Relu", "Relu", "loss/BiasAdd", "-1 3");
    check_node("dropout", "Dropout", "loss/Relu", "-1 3");
    check_number("dropout", "rate", 0.25F);
    check_node("dense/BiasAdd", "BiasAdd", "dense/MatMul dense/bias", "-1 1");
    check_node("labels", "Placeholder", "", "-1 1");
    check_node("loss_1", "Loss", "dense/BiasAdd labels", "");
    check_text("loss_1", "loss", "mse");
    check_node("optimizer", "Optimizer", "loss_1", "");
    check_text("optimizer", "optimizer", "sgd");
    check_number("optimizer", "learning_rate", 0.5F);
    check_whole(1 + 2 * 4 + 1 + 1 + 5 + 1 + 4 + 3);
}

/* Data after a parameter and in an expression; a circuit that begins with a parameter has no
 * encoder. */
static void test_circuits(void) {
    read_graph(
        "{\"model\":[{\"layer\":\"quantum\",\"trainable\":false,\"circuit\":{\"qubits\":2,"
        "\"gates\":[{\"gate\":\"H\",\"qubits\":[0]},"
        "{\"gate\":\"RX\",\"qubits\":[0],\"angle\":{\"data\":0}},"
        "{\"gate\":\"RY\",\"qubits\":[0],\"angle\":{\"parameter\":\"a\"}},"
        "{\"gate\":\"RX\",\"qubits\":[1],\"angle\":\"b * x[1]\"}]},"
        "\"readouts\":[\"Z0\",\"0.5*X0 Z1\"]},{\"layer\":\"activation\",\"activation\":\"tanh\"},"
        "{\"layer\":\"quantum\",\"circuit\":{\"qubits\":1,"
        "\"gates\":[{\"gate\":\"RY\",\"qubits\":[0],\"angle\":{\"parameter\":\"c\"}},"
        "{\"gate\":\"RX\",\"qubits\":[0],\"angle\":{\"data\":1}},"
        "{\"gate\":\"RX\",\"qubits\":[0],\"angle\":{\"data\":0}}]},\"readouts\":[\"Z0\"]}]," TRAIN(
            "expectation"),
        2);
    check_node("pqc/encoder", "QuantumEncoder", "inputs", "-1");
    check_count("pqc/encoder", "gates", 2);
    check_node("pqc/ansatz", "QuantumCircuit", "pqc/encoder inputs pqc/parameters", "-1");
    check_count("pqc/ansatz", "gates", 2);
    check_count("pqc/ansatz", "parameters", 2);
    check_node("activation", "Tanh", "pqc/readouts", "-1 2");
    check_node("pqc_1/ansatz", "QuantumCircuit", "activation pqc_1/parameters", "-1");
    CHECK(!node("pqc_1/encoder") && !node("labels"));
    check_node("loss", "Loss", "pqc_1/readouts", "");
    const Qring__Tensorboard__Attr *frozen = attr("pqc/parameters", "trainable"),
                                   *learns = attr("pqc_1/parameters", "trainable");
    CHECK(frozen && !frozen->b && learns && learns->b);
    check_whole(1 + 4 + 1 + 3 + 2);
}

int main(void) {
    test_qcnn();
    test_circuits();
    return t_end();
}
