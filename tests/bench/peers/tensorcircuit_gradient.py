"""TensorCircuit (tensorcircuit-ng) on JAX, complex64, all samples in one jitted value and gradient.
A convolution of the tutorial is one gate, and so is a pool: hundreds of small gates take minutes to
compile. Usage: tensorcircuit_gradient.py state: all amplitudes; contraction: a network per term,
within its light cone."""
import sys

import numpy as np
import tensorcircuit as tc

from cases import Case, hold_the_state, stages
from jax_state import eigenvalues
from jax_strands import stages_of
from talk import serve

K = tc.set_backend("jax")
tc.set_dtype("complex64")


def circuit_of(case, matrices, weights, x):
    """matrices: those of the tutorial's convolutions and pools, or None"""
    c = tc.Circuit(case.n)
    for g in case.gates:
        if g.weight is None and g.column is None and (g.name != "CNOT" or not matrices):
            getattr(c, g.name.lower())(*g.qubits)
        elif g.column is not None or not matrices:
            getattr(c, g.name.lower())(*g.qubits, theta=g.scale * (x[g.column] if g.weight is None else weights[g.weight]))
    for u, p, bits in zip(*matrices(weights), stages(case.n, case.stages)) if matrices else []:
        half = len(bits) // 2
        for a, b in list(zip(bits[0::2], bits[1::2])) + list(zip(bits[1::2], bits[2::2] + bits[:1])):
            c.any(a, b, unitary=u)
        for a, b in zip(bits[:half], bits[half:]):
            c.any(a, b, unitary=p)
    return c


def open_case(folder):
    case, contract = Case(folder), sys.argv[1] == "contraction"
    matrices = stages_of(case) if case.name.startswith("qcnn") else None
    if not contract:
        hold_the_state(case)
        obs = eigenvalues(case.n, case.observable)

    def value(weights, x):
        c = circuit_of(case, matrices, weights, x)
        if not contract:
            return K.real(K.tensordot(K.abs(c.state()) ** 2, obs, 1))
        return sum(a * K.real(c.expectation_ps(z=list(qubits), reuse=False, enable_lightcone=True)) for a, qubits in case.observable)

    every = K.vmap(value, vectorized_argnums=1)

    def loss(weights, x, labels):
        return K.mean((every(weights, x) + case.offset - labels) ** 2)

    step = K.jit(K.value_and_grad(loss))
    weights, x, labels = (K.convert_to_tensor(np.array(v, dtype=np.float32)) for v in (case.weights, case.x, case.labels))

    def once():
        out = step(weights, x, labels)
        out[1].block_until_ready()
        return lambda: out

    return once


serve(open_case)
