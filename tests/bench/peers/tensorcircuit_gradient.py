"""TensorCircuit's side (tensorcircuit-ng), JAX below, complex64, all samples in one jitted value and gradient.
Usage: tensorcircuit_gradient.py state, all amplitudes; or contraction, each term's own network, within its light cone."""
import sys

import numpy as np
import tensorcircuit as tc

from cases import Case, hold_the_state
from jax_state import eigenvalues
from talk import serve

K = tc.set_backend("jax")
tc.set_dtype("complex64")


def circuit_of(case, weights, x):
    c = tc.Circuit(case.n)
    for g in case.gates:
        if g.weight is None and g.column is None:
            getattr(c, g.name.lower())(*g.qubits)
        else:
            getattr(c, g.name.lower())(*g.qubits, theta=g.scale * (x[g.column] if g.weight is None else weights[g.weight]))
    return c


def open_case(folder):
    case, contract = Case(folder), sys.argv[1] == "contraction"
    if not contract:
        hold_the_state(case)
        obs = eigenvalues(case.n, case.observable)

    def value(weights, x):
        c = circuit_of(case, weights, x)
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
