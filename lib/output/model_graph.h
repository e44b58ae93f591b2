/* output/model_graph.h — a job's model as TensorBoard's graph tab draws it: a tensorflow.GraphDef
 * (proto/tensorboard.proto).
 *
 * Names     a layer is a scope by the name that its weights have, or that `qring show` gives one
 *           without weights; a filter is a layer of its own. In a scope the weights stand by their
 *           names in weights.h5 (dense/kernel), behind them what is done with them. A quantum
 *           layer: encoder, the gates before the first one with a parameter, where they read the
 *           data; ansatz, the others; readouts; of several filters the first one has concat.
 *           Beside the layers: inputs, labels, sample_weights, loss, optimizer; of a name that a
 *           layer has taken, with _1 behind it. No two are equal; all are of characters that
 *           TensorFlow takes.
 * Attrs     _output_shapes (-1: the samples), and those of the job file: units, activation, qubits,
 *           gates, parameters, readouts (the first 64) and so on.
 * Bytes     a function of the job and its model; nothing in training reads them.
 */
#ifndef QR_OUTPUT_MODEL_GRAPH_H
#define QR_OUTPUT_MODEL_GRAPH_H

#include "job/job.h"

enum { QR_MODEL_GRAPH_BYTES = 512 << 10 };
/* Puts it into an empty buffer, which stays empty where the graph has more bytes than its max, or
 * than that where it has none. */
void qr_model_graph(const struct qr_job *job, const struct qr_model *m, struct qr_buf *ret);

#endif
