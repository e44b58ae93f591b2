"""The circuits of TFQ's QCNN tutorial, with the same gates and moments, for any number of qubits; a
Keras callback that times epochs."""
import time

import cirq
import sympy
import tensorflow as tf


def one_qubit(q, s):
    return cirq.Circuit(cirq.X(q) ** s[0], cirq.Y(q) ** s[1], cirq.Z(q) ** s[2])


def two_qubit(b, s, variant):
    k = 7 if variant == "research" else 6  # the research code's numbering: 6 is never used, 9 is used twice
    c = cirq.Circuit()
    c += one_qubit(b[0], s[0:3])
    c += one_qubit(b[1], s[3:6])
    c += [cirq.ZZ(*b) ** s[k]]
    c += [cirq.YY(*b) ** s[k + 1]]
    c += [cirq.XX(*b) ** s[k + 2]]
    c += one_qubit(b[0], s[9:12])
    c += one_qubit(b[1], s[12:])
    return c


def two_qubit_pool(source, sink, s):
    basis = one_qubit(sink, s[0:3])
    c = cirq.Circuit()
    c += basis
    c += one_qubit(source, s[3:6])
    c.append(cirq.CNOT(source, sink))
    c.append(basis ** -1)
    return c


def stage(k, bits, variant):
    """Stage k on these qubits; it pools the first half into the second"""
    s = sympy.symbols("qconv%d:%d" % (21 * k, 21 * k + 21))
    c = cirq.Circuit()
    for a, b in zip(bits[0::2], bits[1::2]):
        c += two_qubit([a, b], s[0:15], variant)
    for a, b in zip(bits[1::2], bits[2::2] + [bits[0]]):
        c += two_qubit([a, b], s[0:15], variant)
    half = len(bits) // 2
    for a, b in zip(bits[:half], bits[half:]):
        c += two_qubit_pool(a, b, s[15:21])
    return c


def cluster(bits):
    c = cirq.Circuit()
    c.append(cirq.H.on_each(bits))
    for a, b in zip(bits, bits[1:] + [bits[0]]):
        c.append(cirq.CZ(a, b))
    return c


class EpochSeconds(tf.keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seconds = []

    def on_epoch_begin(self, epoch, logs=None):
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(time.perf_counter() - self.start)
