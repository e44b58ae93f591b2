"""The JAX programs, specialized by hand for each circuit: jax.numpy only, complex64, one jitted
value_and_grad of the loss over all samples. The hybrid model by its strands (jax_strands.py), the
cost of a graph by the light cones of its edges where that is faster (jax_cones.py), everything else
by state vectors (jax_state.py)."""
import jax
import jax.numpy as jnp

import jax_cones
import jax_state
import jax_strands
from cases import Case, hold_the_state
from talk import serve


BATCHED = 13  # qubits: larger states are computed one after the other, to stay in the caches


def cones_of(case):
    """The light cones of a graph's edges if they are smaller than the state, or []"""
    classes = jax_cones.classes_of(case) if case.name.startswith("qaoa") else []
    return classes if sum(2 ** local.n for local, _ in classes) < 2 ** case.n else []


def batched_step(case, value):
    """value: a function of all samples"""
    def loss(weights, x, labels):
        return jnp.mean((value(weights, x) + case.offset - labels) ** 2)

    return jax.value_and_grad(loss)


def sequential_step(case, value):
    """value: a function of one sample"""
    def step(weights, x, labels):
        def one(sample):
            v, d = jax.value_and_grad(value)(weights, sample[0])
            off = v + case.offset - sample[1]
            return off ** 2, 2 * off * d

        losses, gradients = jax.lax.map(one, (x, labels))
        return jnp.mean(losses), jnp.mean(gradients, 0)

    return step


def step_of(case):
    classes = cones_of(case)
    if classes:
        return batched_step(case, jax_cones.value_of(classes))
    if case.name == "qcnn-hybrid" and case.n >= jax_strands.LEAST_QUBITS:
        return batched_step(case, jax_strands.value_of(case))
    hold_the_state(case)
    if case.n > BATCHED:
        return sequential_step(case, jax_state.value_of_one(case))
    return batched_step(case, jax_state.value_of(case))


def open_case(folder):
    case = Case(folder)
    step = jax.jit(step_of(case))
    weights, x, labels = (jnp.array(v, dtype=jnp.float32) for v in (case.weights, case.x, case.labels))

    def once():
        out = jax.block_until_ready(step(weights, x, labels))
        return lambda: out

    return once


serve(open_case)
