#!/usr/bin/env python3
"""Time per training step of qring's framework layers beside PennyLane's, on one core.

usage: bench_frameworks.py [--frameworks torch jax keras] [--qubits 4 8 12 16] [--budget SECONDS]

The model is that of PennyLane's tutorial on Torch layers: inputs by RX, three layers of RY and RZ
on each qubit and a ring of CNOTs, Z of every qubit; then a linear layer, mean squared error and
Adam. Batch 64, float64. PennyLane runs lightning.qubit with adjoint differentiation. Both train
from the same weights; the losses of all steps that both made are compared. PennyLane makes fewer
than 20 steps where they would take longer than the budget. Every run is a process of its own.

Needs qring, pennylane, pennylane-lightning, and the frameworks to compare.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from typing import Any, Callable, NamedTuple

BATCH, LAYERS, STEPS, RATE = 64, 3, 20, 0.01
TOLERANCE = 1e-5
MEMORY = 12 << 30  # bytes of a run; PennyLane's jitted step for JAX took 24 GB at 8 qubits


class Problem(NamedTuple):
    """Data and first weights."""

    n: int
    inputs: Any  # (64, n)
    targets: Any  # (64, 1)
    weights: Any  # (LAYERS, n, 2)
    kernel: Any  # (n, 1) of the linear layer
    bias: Any  # (1,)


def problem(n: int) -> Problem:
    """Return the same problem in every process."""
    import numpy as np

    rng = np.random.default_rng(n)
    inputs = rng.uniform(-1, 1, (BATCH, n))
    targets = np.sin(inputs.sum(1, keepdims=True))
    weights = rng.uniform(0, 2 * np.pi, (LAYERS, n, 2))
    return Problem(n, inputs, targets, weights, rng.normal(size=(n, 1)) / n, np.zeros(1))


# ---- circuits ----


def qring_circuit(n: int) -> tuple[Any, list[str]]:
    """Return circuit and observables; parameters are in the order of the flat weights."""
    import qring

    c = qring.Circuit(n)
    for i in range(n):
        c.rx(f"x[{i}]", i)
    for layer in range(LAYERS):
        for i in range(n):
            c.ry(f"w{(layer * n + i) * 2}", i)
            c.rz(f"w{(layer * n + i) * 2 + 1}", i)
        for i in range(n):
            c.cnot(i, (i + 1) % n)
    return c, [f"Z{i}" for i in range(n)]


def pennylane_node(n: int, interface: str) -> Any:
    """Return the QNode of (inputs, weights)."""
    import pennylane as qml

    @qml.qnode(qml.device("lightning.qubit", wires=n), diff_method="adjoint", interface=interface)
    def node(inputs: Any, weights: Any) -> Any:
        qml.AngleEmbedding(inputs, wires=range(n))
        for layer in range(LAYERS):
            for i in range(n):
                qml.RY(weights[layer, i, 0], wires=i)
                qml.RZ(weights[layer, i, 1], wires=i)
            for i in range(n):
                qml.CNOT(wires=[i, (i + 1) % n])
        return [qml.expval(qml.PauliZ(i)) for i in range(n)]

    return node


# ---- training loops: each returns a function that makes one step and returns its loss ----

Step = Callable[[], float]


def torch_layer(peer: str, p: Problem, dtype: str) -> Any:
    """Return the quantum layer with the problem's weights."""
    import torch

    if peer == "pennylane":
        import pennylane as qml

        node = pennylane_node(p.n, "torch")
        layer = qml.qnn.TorchLayer(node, {"weights": p.weights.shape}).double()
        with torch.no_grad():
            layer.weights.copy_(torch.tensor(p.weights))
        return layer
    import qring.torch

    layer = qring.torch.Layer(*qring_circuit(p.n), threads=1, dtype=dtype).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(p.weights.ravel()))
    return layer


def torch_step(peer: str, p: Problem, dtype: str) -> Step:
    """PyTorch: Layer beside TorchLayer."""
    import torch

    torch.set_num_threads(1)
    linear = torch.nn.Linear(p.n, 1).double()
    with torch.no_grad():
        linear.weight.copy_(torch.tensor(p.kernel.T))
        linear.bias.copy_(torch.tensor(p.bias))
    model = torch.nn.Sequential(torch_layer(peer, p, dtype), linear)
    inputs, targets = torch.tensor(p.inputs), torch.tensor(p.targets)
    optimizer = torch.optim.Adam(model.parameters(), RATE)

    def step() -> float:
        optimizer.zero_grad()
        loss = ((model(inputs) - targets) ** 2).mean()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def jax_step(peer: str, p: Problem, dtype: str) -> Step:
    """JAX: a step with Adam; expval in a jitted step beside a QNode in an eager one."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    if peer == "pennylane":
        node = pennylane_node(p.n, "jax")

        def circuit(weights: Any, inputs: Any) -> Any:
            return jnp.stack(node(inputs, weights), axis=-1)

        first = jnp.asarray(p.weights)
    else:
        import qring.jax

        circuit = qring.jax.expval(*qring_circuit(p.n), threads=1, dtype=dtype)
        first = jnp.asarray(p.weights.ravel())
    inputs, targets = jnp.asarray(p.inputs), jnp.asarray(p.targets)
    tree = jax.tree_util.tree_map

    def loss_of(at: Any) -> Any:
        weights, kernel, bias = at
        return ((circuit(weights, inputs) @ kernel + bias - targets) ** 2).mean()

    def update(at: Any, m: Any, v: Any, t: Any) -> Any:
        loss, g = jax.value_and_grad(loss_of)(at)
        m = tree(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = tree(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        a, b = 1 - 0.9**t, 1 - 0.999**t
        move = lambda w, m, v: w - RATE * (m / a) / (jnp.sqrt(v / b) + 1e-8)  # noqa: E731
        return loss, tree(move, at, m, v), m, v

    if peer == "qring":  # PennyLane's jitted step takes minutes and 24 GB to compile
        update = jax.jit(update)
    at = (first, jnp.asarray(p.kernel), jnp.asarray(p.bias))
    zeros = tree(jnp.zeros_like, at)
    state = [at, zeros, zeros, 1.0]

    def step() -> float:
        loss, state[0], state[1], state[2] = update(*state)
        state[3] += 1
        return float(loss)

    return step


def keras_step(peer: str, p: Problem, dtype: str) -> Step:
    """Keras 3 on PyTorch: Layer beside TorchLayer in Keras's TorchModuleWrapper."""
    os.environ["KERAS_BACKEND"] = "torch"
    import keras
    import torch

    torch.set_num_threads(1)
    keras.config.set_floatx("float64")
    if peer == "pennylane":
        layer = keras.layers.TorchModuleWrapper(torch_layer(peer, p, dtype))
    else:
        import qring.keras

        layer = qring.keras.Layer(*qring_circuit(p.n), threads=1, precision=dtype)
    dense = keras.layers.Dense(1)
    model = keras.Sequential([layer, dense])
    if peer == "qring":
        model.build((BATCH, p.n))
        layer.weight.assign(p.weights.ravel())
    else:
        dense.build((BATCH, p.n))
    dense.set_weights([p.kernel, p.bias])
    model.compile(keras.optimizers.Adam(RATE, epsilon=1e-8), "mse")

    def step() -> float:
        return float(model.train_on_batch(p.inputs, p.targets))

    return step


STEP = {"torch": torch_step, "jax": jax_step, "keras": keras_step}


# ---- one run ----


def watch_library() -> list[float]:
    """Return a list whose element is the time spent in libqring's calls by Python, in seconds."""
    from qring._library import lib

    total = [0.0]

    def timed(call: Any) -> Any:
        def inner(*arguments: Any) -> Any:
            start = time.perf_counter()
            code = call(*arguments)
            total[0] += time.perf_counter() - start
            return code

        return inner

    lib.qring_forward, lib.qring_vjp = timed(lib.qring_forward), timed(lib.qring_vjp)
    return total


def one(framework: str, peer: str, n: int, dtype: str, budget: float) -> None:
    """Run one loop and print its losses and times."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    step = STEP[framework](peer, problem(n), dtype)
    losses, times = [], []
    start = time.perf_counter()
    while len(losses) < STEPS:
        before = time.perf_counter()
        losses.append(step())
        times.append(time.perf_counter() - before)
        if len(losses) == 1:  # compiled
            start = time.perf_counter()
        elif time.perf_counter() - start > budget:
            break
    outside = None
    if peer == "qring" and framework != "jax":
        inside = watch_library()
        before = time.perf_counter()
        for _ in range(STEPS):
            step()
        elapsed = time.perf_counter() - before
        outside = 1 - inside[0] / elapsed
    median = sorted(times[1:])[len(times[1:]) // 2]
    print(json.dumps({"losses": losses, "seconds": median, "outside": outside}))


def call_overhead() -> float:
    """Return the time of one forward call on 2 qubits and 1 sample, in seconds."""
    import numpy as np

    import qring

    f = qring.expval(qring.Circuit(2).ry("w0", 0).cnot(0, 1).ry("w1", 1), "Z1", threads=1)
    w = np.zeros(2)
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(2000):
            f.forward(w)
        best = min(best, (time.perf_counter() - start) / 2000)
    return best


# ---- table ----


def run(framework: str, peer: str, n: int, dtype: str, budget: float) -> Any:
    """Run one loop in a process of its own; None if it failed, with the reason on stderr."""
    arguments = ["--one", framework, peer, str(n), dtype, "--budget", str(budget)]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, __file__, *arguments],
        env={**os.environ, **threads},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        print(f"{framework} {peer} {n} qubits: failed: {reason[0]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def cell(value: float | None, form: str = "{:.2f}") -> str:
    """Format a number of a table."""
    return "-" if value is None else form.format(value)


def row(framework: str, n: int, budget: float) -> bool:
    """Print one row; False if losses differ."""
    qring64 = run(framework, "qring", n, "float64", budget)
    qring32 = run(framework, "qring", n, "float32", budget)
    peer = run(framework, "pennylane", n, "float64", budget)
    if qring64 is None:
        return False
    ms, ms32 = qring64["seconds"] * 1e3, qring32 and qring32["seconds"] * 1e3
    peer_ms = peer and peer["seconds"] * 1e3
    difference = None
    steps = 0
    if peer:
        steps = len(peer["losses"])
        difference = max(abs(a - b) for a, b in zip(peer["losses"], qring64["losses"]))
    cells = [
        framework,
        str(n),
        cell(ms),
        cell(ms32),
        cell(peer_ms, "{:.1f}"),
        cell(peer_ms and peer_ms / ms, "{:.0f}"),
        str(steps),
        cell(difference, "{:.1e}"),
        cell(qring64["outside"] and qring64["outside"] * 100, "{:.1f}"),
    ]
    print("| " + " | ".join(cells) + " |", flush=True)
    return difference is None or difference <= TOLERANCE


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frameworks", nargs="+", default=list(STEP), choices=list(STEP))
    parser.add_argument("--qubits", nargs="+", type=int, default=[4, 8, 12, 16])
    parser.add_argument("--budget", type=float, default=60, help="seconds of a run [60]")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        framework, peer, n, dtype = given.one
        one(framework, peer, int(n), dtype, given.budget)
        return 0
    print(f"one call of forward on 2 qubits: {call_overhead() * 1e6:.1f} us\n")
    print("batch 64, one core; ms per step (median)")
    heads = ["framework", "qubits", "qring", "qring float32", "PennyLane", "ratio"]
    heads += ["steps compared", "largest difference of losses", "% outside libqring"]
    print("| " + " | ".join(heads) + " |")
    print("|" + " --- |" * len(heads), flush=True)
    fine = [row(f, n, given.budget) for f in given.frameworks for n in given.qubits]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
