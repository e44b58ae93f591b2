"""JAX's side: programs of ours, in the form that who knows JAX and the circuit would write. jax.numpy alone, complex64, one jitted
value_and_grad of the loss over all samples. The hybrid model by its strands (jax_strands.py), the cost of a graph by its edges' light
cones where that is less (jax_cones.py), everything else by state vectors (jax_state.py)."""
import jax
import jax.numpy as jnp

import jax_cones
import jax_state
import jax_strands
from cases import Case, hold_the_state
from talk import serve


def value_of(case):
    """The function (weights, x of all samples) -> the observable's value of each"""
    if case.name == "qcnn-hybrid" and case.n >= jax_strands.LEAST_QUBITS:
        return jax_strands.value_of(case)
    if case.name.startswith("qaoa"):
        classes = jax_cones.classes_of(case)
        if sum(2 ** local.n for local, _ in classes) < 2 ** case.n:
            return jax_cones.value_of(classes)
    hold_the_state(case)
    return jax_state.value_of(case)


def open_case(folder):
    case = Case(folder)
    value = value_of(case)
    weights, x, labels = (jnp.array(v, dtype=jnp.float32) for v in (case.weights, case.x, case.labels))

    def loss(weights, x, labels):
        return jnp.mean((value(weights, x) + case.offset - labels) ** 2)

    step = jax.jit(jax.value_and_grad(loss))

    def once():
        out = jax.block_until_ready(step(weights, x, labels))
        return lambda: out

    return once


serve(open_case)
