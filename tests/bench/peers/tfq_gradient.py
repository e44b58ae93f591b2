"""TensorFlow Quantum: loss and gradient of a batch through the tutorial's layers (AddCircuit, PQC,
Dense), compiled by tf.function as in Keras' training step. Uses as many threads as the process has
processors."""
import cirq
import numpy as np
import tensorflow as tf
import tensorflow_quantum as tfq

from cases import REPETITIONS, Case, stages
from talk import serve
from tfq_qcnn import cluster, stage


def head_of(case):
    return [tf.keras.layers.Dense(8), tf.keras.layers.Dense(1)] if case.dense else []


def noisy(noise, circuit):
    """Adds depolarizing noise after each gate"""
    if not noise:
        return circuit
    return cirq.Circuit(op for gate in circuit.all_operations() for op in [gate, *cirq.depolarize(noise).on_each(gate.qubits)])


def numbered_of(pqc):
    """Index of TFQ's symbol, which are sorted by name, for each weight in the order of numbers"""
    names = [str(s) for s in pqc.symbols]
    return sorted(range(len(names)), key=lambda i: int(names[i].removeprefix("qconv")))


def set_weights(values, dense, pqc, head):
    weights, dense = np.zeros(len(pqc.symbols), np.float32), iter(dense)
    weights[numbered_of(pqc)] = values
    pqc.set_weights([weights])
    for layer in head:
        layer.set_weights([np.reshape(next(dense), w.shape) for w in layer.get_weights()])


def open_case(path):
    case = Case(path)
    bits, circuit = cirq.GridQubit.rect(1, case.n), cirq.Circuit()
    for k, numbers in enumerate(stages(case.n, case.stages)):
        circuit += stage(k, [bits[i] for i in numbers], "notebook")
    left = [bits[q] for readout in case.readouts for _, ((_, q),) in readout]
    add, prepare, head = tfq.layers.AddCircuit(), noisy(case.noise, cluster(bits)), head_of(case)
    observables = [cirq.Z(b) for b in left]
    if case.noise:
        pqc = tfq.layers.NoisyPQC(noisy(case.noise, circuit), observables, repetitions=REPETITIONS, sample_based=case.samples_shots)
    else:
        pqc = tfq.layers.PQC(circuit, observables)
    inputs = [cirq.Circuit(cirq.rx(angle)(bits[q]) for q, angle in enumerate(x) if angle or case.noise) for x in case.x]
    data = tfq.convert_to_tensor([noisy(case.noise, c) for c in inputs])
    labels = tf.constant(case.labels)[:, None]

    def predict(circuits):
        p = pqc(add(circuits, prepend=prepare))
        for layer in head:
            p = layer(p)
        return p

    predict(data[:1])
    set_weights(case.weights, case.dense, pqc, head)
    numbered = numbered_of(pqc)
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


if __name__ == "__main__":
    serve(open_case)
