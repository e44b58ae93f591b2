"""TensorFlow Quantum's side: loss and gradient of a batch through the tutorial's layers (AddCircuit, PQC, Dense), compiled by tf.function
as Keras does it for a training step. The number of threads is that of the processors this process may use."""
import cirq
import numpy as np
import tensorflow as tf
import tensorflow_quantum as tfq

from cases import Case, stages
from talk import serve
from tfq_qcnn import cluster, stage


def head_of(case):
    return [tf.keras.layers.Dense(8), tf.keras.layers.Dense(1)] if case.dense else []


def set_weights(case, pqc, head):
    """The case's weights; returns which symbol of TFQ's, which sorts their names, each of ours is"""
    names = [str(s) for s in pqc.symbols]
    numbered = sorted(range(len(names)), key=lambda i: int(names[i].removeprefix("qconv")))
    weights, dense = np.zeros(len(names), np.float32), iter(case.dense)
    weights[numbered] = case.weights
    pqc.set_weights([weights])
    for layer in head:
        layer.set_weights([np.reshape(next(dense), w.shape) for w in layer.get_weights()])
    return numbered


def open_case(path):
    case = Case(path)
    bits, circuit = cirq.GridQubit.rect(1, case.n), cirq.Circuit()
    for k, numbers in enumerate(stages(case.n, case.stages)):
        circuit += stage(k, [bits[i] for i in numbers], "notebook")
    left = [bits[q] for readout in case.readouts for _, (q,) in readout]
    add, prepare, head = tfq.layers.AddCircuit(), cluster(bits), head_of(case)
    pqc = tfq.layers.PQC(circuit, [cirq.Z(b) for b in left])
    data = tfq.convert_to_tensor([cirq.Circuit(cirq.rx(angle)(bits[q]) for q, angle in enumerate(x) if angle) for x in case.x])
    labels = tf.constant(case.labels)[:, None]

    def predict(circuits):
        p = pqc(add(circuits, prepend=prepare))
        for layer in head:
            p = layer(p)
        return p

    predict(data[:1])
    numbered = set_weights(case, pqc, head)
    variables = [v for layer in [pqc] + head for v in layer.trainable_variables]

    @tf.function
    def step(circuits, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(predict(circuits) - y))
        return loss, tape.gradient(loss, variables)

    def once():
        loss, gradients = step(data, labels)
        quantum, *dense = [g.numpy() for g in gradients]
        return lambda: (loss.numpy(), np.concatenate([quantum[numbered]] + [g.ravel() for g in dense]))

    return once


serve(open_case)
