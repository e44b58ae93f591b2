"""TensorFlow Quantum's side: forward and adjoint through the tutorial's two quantum layers, AddCircuit and PQC, compiled by tf.function as
Keras does it for a training step. The number of threads is that of the processors this process may use."""
import cirq
import numpy as np
import tensorflow as tf
import tensorflow_quantum as tfq

from cases import Case
from talk import serve
from tfq_qcnn import cluster, model_circuit


def open_case(path):
    case = Case(path)
    bits = cirq.GridQubit.rect(1, case.n)
    circuit, left = model_circuit(bits, case.stages, case.variant)
    add, prepare = tfq.layers.AddCircuit(), cluster(bits)
    pqc = tfq.layers.PQC(circuit, [cirq.Z(b) for b in left])
    data = tfq.convert_to_tensor([cirq.Circuit(cirq.rx(angle)(bits[q])) for q, angle in case.samples])
    pqc(add(data[:1], prepend=prepare))
    names = [str(s) for s in pqc.symbols]
    numbered = sorted(range(len(names)), key=lambda i: int(names[i].removeprefix("qconv")))
    weights = np.zeros(len(names), np.float32)
    weights[numbered] = case.theta
    pqc.set_weights([weights])

    @tf.function
    def step(circuits):
        with tf.GradientTape() as tape:
            z = pqc(add(circuits, prepend=prepare))
            total = tf.reduce_sum(z)
        return total, tape.gradient(total, pqc.trainable_variables[0])

    def once():
        total, gradient = step(data)
        gradient = gradient.numpy()
        return lambda: (total.numpy() / len(case.samples), gradient[numbered] / len(case.samples))

    return once


serve(open_case)
