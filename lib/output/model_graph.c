/* output/model_graph.c — writes the model of a job as a graph for TensorBoard. Start reading at
 * qr_model_graph(). */
#include "output/model_graph.h"

#include <stdio.h>
#include <string.h>

#include "base/protobuf.h"

enum { NAME = 2 * QR_LAYER_NAME + 64, TEXTS = 64 };

struct graph {
    const struct qr_job *job;
    const struct qr_model *model;
    struct qr_buf *out, node, attr, value, list, shape;
    size_t tensor;             /* index of the next one */
    size_t unnamed[QR_LAYERS]; /* number of layers without weights so far */
    char last[NAME];           /* node with the inputs of the next layer; "": none */
};

/* ---- one node ---- */

static void begin_node(struct graph *g, const char *name, const char *op) {
    qr_protobuf_text(&g->node, 1, name);
    qr_protobuf_text(&g->node, 2, op);
}

static void add_input(struct graph *g, const char *name) {
    if (*name) qr_protobuf_text(&g->node, 3, name);
}

/* Adds g->value as attribute `key`. */
static void put_attr(struct graph *g, const char *key) {
    qr_protobuf_text(&g->attr, 1, key);
    qr_protobuf_part(&g->attr, 2, &g->value);
    qr_protobuf_part(&g->node, 5, &g->attr);
}

static void text_attr(struct graph *g, const char *key, const char *text) {
    qr_protobuf_text(&g->value, 2, text);
    put_attr(g, key);
}

static void count_attr(struct graph *g, const char *key, size_t n) {
    qr_protobuf_uint(&g->value, 3, n);
    put_attr(g, key);
}

static void number_attr(struct graph *g, const char *key, double v) {
    qr_protobuf_float(&g->value, 4, (float)v);
    put_attr(g, key);
}

static void trainable_attr(struct graph *g, bool frozen) {
    qr_protobuf_uint(&g->value, 5, !frozen);
    put_attr(g, "trainable");
}

static void readouts_attr(struct graph *g, const struct qr_quantum_options *q) {
    for (size_t i = 0; i < q->n_readouts && i < TEXTS; i++)
        qr_protobuf_text(&g->list, 2, q->readouts[i].text);
    qr_protobuf_part(&g->value, 1, &g->list);
    put_attr(g, "readouts");
}

/* dims[0] -1: number of samples. */
static void end_node(struct graph *g, unsigned rank, const int64_t *dims) {
    for (unsigned i = 0; i < rank; i++) {
        qr_protobuf_uint(&g->value, 1, (uint64_t)dims[i]);
        qr_protobuf_part(&g->shape, 2, &g->value);
    }
    qr_protobuf_part(&g->list, 7, &g->shape);
    qr_protobuf_part(&g->value, 1, &g->list);
    put_attr(g, "_output_shapes");
    qr_protobuf_part(g->out, 1, &g->node);
}

static void end_node_rows(struct graph *g, size_t columns) {
    end_node(g, 2, (const int64_t[]){-1, (int64_t)columns});
}

/* ---- names ---- */

static int scope_length(const char *tensor) { return (int)strcspn(tensor, "/"); }

static bool is_scope(const struct qr_model *m, const char *name) {
    size_t n = strlen(name);
    for (size_t i = 0; i < qr_model_n_tensors(m); i++) {
        const char *tensor = qr_model_tensor(m, i)->name;
        if ((size_t)scope_length(tensor) == n && strncmp(tensor, name, n) == 0) return true;
    }
    return false;
}

/* Returns the word, or the word with the first number from nth on as suffix, that is not the name
 * of a layer. Returns that number plus 1. */
static size_t name_beside(const struct graph *g, const char *word, size_t nth, char ret[NAME]) {
    do {
        if (nth) snprintf(ret, NAME, "%s_%zu", word, nth);
        else snprintf(ret, NAME, "%s", word);
        nth++;
    } while (is_scope(g->model, ret));
    return nth;
}

static void name_unnamed(struct graph *g, enum qr_layer_kind kind, char ret[NAME]) {
    g->unnamed[kind] = name_beside(g, qr_layer_names[kind], g->unnamed[kind], ret);
}

static void join_scope(char ret[NAME], const char *scope, const char *name) {
    snprintf(ret, NAME, "%.*s/%s", NAME - 16, scope, name);
}

/* ---- layers ---- */

static void put_weights(struct graph *g, const struct qr_model_tensor *t) {
    begin_node(g, t->name, "VariableV2");
    trainable_attr(g, t->frozen);
    end_node(g, t->rank, (const int64_t[]){(int64_t)t->dims[0], (int64_t)t->dims[1]});
}

/* True if the gate reads parameters, or the data if `parameters` is false. */
static bool reads(const struct qr_circuit *c, const struct qr_gate *gate, bool parameters) {
    for (unsigned i = 0; i < gate->n_args; i++) {
        const struct qr_gate_arg *a = &gate->args[i];
        if (a->kind == (parameters ? QR_ARG_PARAMETER : QR_ARG_DATA)) return true;
        if (a->kind != QR_ARG_EXPRESSION) continue;
        const struct qr_expression *e = &c->expressions[a->index];
        for (unsigned k = 0; k < e->n; k++) {
            enum qr_expression_op op = e->node[k].op;
            /* Shared subexpressions contain inputs only. */
            if (parameters ? op == QR_EXPRESSION_PARAMETER
                           : op == QR_EXPRESSION_INPUT || op == QR_EXPRESSION_SHARED)
                return true;
        }
    }
    return false;
}

static bool any_reads(const struct qr_circuit *c, size_t from, size_t end_at, bool parameters) {
    for (size_t i = from; i < end_at; i++)
        if (reads(c, &c->gates[i], parameters)) return true;
    return false;
}

static void end_gates(struct graph *g, const struct qr_circuit *c, size_t n_gates) {
    count_attr(g, "qubits", c->n_qubits);
    count_attr(g, "gates", n_gates);
    end_node(g, 1, (const int64_t[]){-1});
}

static void put_filter(struct graph *g, const struct qr_model_layer *l,
                       const struct qr_quantum_options *q, const char *scope,
                       const struct qr_model_tensor *weights, char ret_last[NAME]) {
    const struct qr_circuit *c = l->circuit;
    size_t first = 0; /* index of the first gate with a parameter */
    char name[NAME], encoder[NAME] = "";
    while (first < c->n_gates && !reads(c, &c->gates[first], true)) first++;
    if (any_reads(c, 0, first, false)) {
        join_scope(encoder, scope, "encoder");
        begin_node(g, encoder, "QuantumEncoder");
        add_input(g, g->last);
        count_attr(g, "columns", c->n_columns);
        end_gates(g, c, first);
    } else first = 0;
    if (l->n_params) put_weights(g, weights);
    join_scope(name, scope, "ansatz");
    begin_node(g, name, "QuantumCircuit");
    add_input(g, encoder);
    if (any_reads(c, first, c->n_gates, false)) add_input(g, g->last);
    if (l->n_params) add_input(g, weights->name);
    count_attr(g, "parameters", c->n_params);
    end_gates(g, c, c->n_gates - first);
    join_scope(ret_last, scope, "readouts");
    begin_node(g, ret_last, "Expectation");
    add_input(g, name);
    readouts_attr(g, q);
    end_node_rows(g, q->n_readouts);
}

static void put_quantum(struct graph *g, const struct qr_model_layer *l,
                        const struct qr_quantum_options *q) {
    struct qr_buf concat = {0};
    char name[NAME], scope[NAME], last[NAME] = "";
    for (size_t f = 0; f < l->n_filters; f++, g->tensor++) {
        const struct qr_model_tensor *t = qr_model_tensor(g->model, g->tensor);
        if (l->n_params) snprintf(scope, NAME, "%.*s", scope_length(t->name), t->name);
        else name_unnamed(g, l->kind, scope);
        put_filter(g, l, q, scope, t, last);
        qr_protobuf_text(&concat, 3, last);
        if (f == 0) join_scope(name, scope, "concat");
    }
    if (l->n_filters > 1) {
        begin_node(g, name, "ConcatV2");
        qr_buf_put(&g->node, concat.p, concat.n);
        count_attr(g, "filters", l->n_filters);
        end_node_rows(g, l->n_out);
        memcpy(last, name, NAME);
    }
    memcpy(g->last, last, NAME);
    qr_buf_free(&concat);
}

/* Starts a node with the output of the previous one as input. */
static void begin_next(struct graph *g, const char *name, const char *op) {
    begin_node(g, name, op);
    add_input(g, g->last);
    snprintf(g->last, NAME, "%s", name);
}

static const char *const activation_ops[QR_ACTIVATIONS] = {[QR_LINEAR] = "Identity",
                                                           [QR_RELU] = "Relu",
                                                           [QR_TANH] = "Tanh",
                                                           [QR_SIGMOID] = "Sigmoid",
                                                           [QR_SOFTMAX] = "Softmax"};

static void put_dense(struct graph *g, const struct qr_model_layer *l,
                      const struct qr_dense_options *d) {
    const struct qr_model_tensor *kernel = qr_model_tensor(g->model, g->tensor),
                                 *bias = qr_model_tensor(g->model, g->tensor + 1);
    char scope[NAME], name[NAME];
    g->tensor += 2;
    snprintf(scope, NAME, "%.*s", scope_length(kernel->name), kernel->name);
    put_weights(g, kernel);
    put_weights(g, bias);
    join_scope(name, scope, "MatMul");
    begin_next(g, name, "MatMul");
    add_input(g, kernel->name);
    count_attr(g, "units", d->units);
    text_attr(g, "activation", qr_activation_names[d->activation]);
    end_node_rows(g, l->n_out);
    join_scope(name, scope, "BiasAdd");
    begin_next(g, name, "BiasAdd");
    add_input(g, bias->name);
    end_node_rows(g, l->n_out);
    if (d->activation == QR_LINEAR) return;
    join_scope(name, scope, activation_ops[d->activation]);
    begin_next(g, name, activation_ops[d->activation]);
    end_node_rows(g, l->n_out);
}

static void put_layer(struct graph *g, size_t i) {
    const struct qr_model_layer l = qr_model_layer(g->model, i);
    const struct qr_layer_options *o = &g->job->layers[i];
    char name[NAME];
    if (l.kind == QR_LAYER_QUANTUM) {
        put_quantum(g, &l, &o->quantum);
        return;
    }
    if (l.kind == QR_LAYER_DENSE) {
        put_dense(g, &l, &o->dense);
        return;
    }
    name_unnamed(g, l.kind, name);
    if (l.kind == QR_LAYER_ACTIVATION) {
        begin_next(g, name, activation_ops[o->activation]);
        text_attr(g, "activation", qr_activation_names[o->activation]);
    } else if (l.kind == QR_LAYER_DROPOUT) {
        begin_next(g, name, "Dropout");
        number_attr(g, "rate", o->dropout.rate);
    } else {
        begin_next(g, name, "Rescaling");
        number_attr(g, "factor", o->scale.factor);
        number_attr(g, "offset", o->scale.offset);
    }
    end_node_rows(g, l.n_out);
}

/* ---- other nodes ---- */

/* A placeholder for columns of the data; *ret is "" if n is 0. */
static void put_columns(struct graph *g, const char *word, size_t n, char ret[NAME]) {
    *ret = 0;
    if (!n) return;
    name_beside(g, word, 0, ret);
    begin_node(g, ret, "Placeholder");
    end_node_rows(g, n);
}

static void put_training(struct graph *g) {
    const struct qr_train_spec *t = &g->job->train;
    size_t columns = qr_model_n_label_columns(g->model),
           n_labels = qr_loss_info(t->loss)->no_labels ? 0 : qr_model_n_outputs(g->model);
    char labels[NAME], weights[NAME], loss[NAME], name[NAME];
    put_columns(g, "labels", n_labels, labels);
    put_columns(g, "sample_weights", columns - n_labels, weights);
    name_beside(g, "loss", 0, loss);
    begin_node(g, loss, "Loss");
    add_input(g, g->last);
    add_input(g, labels);
    add_input(g, weights);
    text_attr(g, "loss", qr_loss_names[t->loss]);
    end_node(g, 0, NULL);
    name_beside(g, "optimizer", 0, name);
    begin_node(g, name, "Optimizer");
    add_input(g, loss);
    text_attr(g, "optimizer", qr_optimizer_names[t->optimizer.kind]);
    number_attr(g, "learning_rate", t->optimizer.learning_rate);
    end_node(g, 0, NULL);
}

void qr_model_graph(const struct qr_job *job, const struct qr_model *m, struct qr_buf *ret) {
    enum { PRODUCER = 22 }; /* TensorFlow's graph version since 1.0 */
    struct graph g = {.job = job, .model = m, .out = ret};
    if (!ret->max) ret->max = QR_MODEL_GRAPH_BYTES;
    put_columns(&g, "inputs", qr_model_n_inputs(m), g.last);
    for (size_t i = 0; i < qr_model_n_layers(m); i++) put_layer(&g, i);
    put_training(&g);
    qr_protobuf_uint(&g.value, 1, PRODUCER);
    qr_protobuf_part(ret, 4, &g.value);
    if (!qr_buf_ok(ret)) qr_buf_clear(ret);
    qr_buf_free(&g.node);
    qr_buf_free(&g.attr);
    qr_buf_free(&g.value);
    qr_buf_free(&g.list);
    qr_buf_free(&g.shape);
}
