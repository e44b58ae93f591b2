/* output/model_graph.h — the model of a job as a graph for TensorBoard: a tensorflow.GraphDef
 * (proto/tensorboard.proto).
 *
 * Names     A layer is a scope with the name of its weights, or the name in `qring show` if it has
 *           no weights; each filter is a layer of its own. Weights have their names in weights.h5
 *           (dense/kernel), followed by the operations on them. A quantum layer has: encoder, the
 *           gates before the first one with a parameter, if these read the data; ansatz, the other
 *           gates; readouts; with several filters, concat in the first one. Beside the layers:
 *           inputs, labels, sample_weights, loss, optimizer, with the suffix _1 if a layer has that
 *           name. Names are unique, and use only characters that TensorFlow accepts.
 * Attrs     _output_shapes (-1: the samples), and those of the job file: units, activation, qubits,
 *           gates, parameters, readouts (the first 64) and so on.
 * Bytes     A function of the job and its model; training does not read them.
 * Threads   Any.
 */
#ifndef QR_OUTPUT_MODEL_GRAPH_H
#define QR_OUTPUT_MODEL_GRAPH_H

#include "job/job.h"

enum { QR_MODEL_GRAPH_BYTES = 512 << 10 };
/* Writes the graph into an empty buffer, which stays empty if the graph exceeds ret->max, or
 * QR_MODEL_GRAPH_BYTES if that is 0. */
void qr_model_graph(const struct qr_job *job, const struct qr_model *m, struct qr_buf *ret);

#endif
