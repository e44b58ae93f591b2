#!/usr/bin/env python3
"""Time per training step of qring's framework layers beside PennyLane's, on one core.

usage: bench_frameworks.py [--frameworks torch jax keras] [--qubits 4 8 12 16] [--budget SECONDS]

The model is that of PennyLane's tutorial on Torch layers: inputs by RX, three layers of RY and RZ
on each qubit and a ring of CNOTs, Z of every qubit; then a linear layer, mean squared error and
Adam. Batch 64, float64. PennyLane runs lightning.qubit with adjoint differentiation, and
default.qubit with backpropagation, which suits a batch of small circuits better.

Each of the three trains in each way of WAYS, in a process of its own, from the same weights, and
continues in its fastest. Processes make steps in turn, 20 of qring for five of PennyLane, so that
other load on the machine slows both. Losses are compared step by step. Fewer than 20 steps are
made where PennyLane's would take longer than the budget.

Needs qring, pennylane, pennylane-lightning, and the frameworks to compare.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import subprocess
import sys
import time
from typing import Any, Callable, NamedTuple

BATCH, LAYERS, STEPS, BLOCK, RATE = 64, 3, 20, 5, 0.01
TOLERANCE = 1e-5
MEMORY = 12 << 30  # bytes of a process; PennyLane's jitted step with a broadcast batch takes 24 GB

# Ways to train. "vjp" is the QNode's device_vjp=True. A jitted PennyLane step with vmap calls the
# device for each sample; with a broadcast batch it takes minutes to compile at 4 qubits.
WAYS = {
    ("torch", "qring"): ["eager"],
    ("torch", "lightning.qubit"): ["eager", "eager vjp"],
    ("torch", "default.qubit"): ["eager"],
    ("jax", "qring"): ["jit"],
    ("jax", "lightning.qubit"): ["jit vmap", "eager"],
    ("jax", "default.qubit"): ["jit"],
    ("keras", "qring"): ["jax", "torch"],
    ("keras", "lightning.qubit"): ["torch", "torch vjp", "jax vmap"],
    ("keras", "default.qubit"): ["jax", "torch"],
}
PEERS = ("lightning.qubit", "default.qubit")


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


def pennylane_node(peer: str, way: str, n: int, interface: str) -> Any:
    """Return the QNode of (inputs, weights)."""
    import pennylane as qml

    method = "adjoint" if peer == "lightning.qubit" else "backprop"
    options = {"diff_method": method, "interface": interface, "device_vjp": "vjp" in way}

    @qml.qnode(qml.device(peer, wires=n), **options)
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


# ---- training loops: each returns a function that makes k steps ----


class Block(NamedTuple):
    """Losses and seconds of steps."""

    losses: list[float]
    seconds: list[float]


Steps = Callable[[int], Block]


def repeated(step: Callable[[], float]) -> Steps:
    """Return a loop over a function that makes one step and returns its loss."""

    def steps(k: int) -> Block:
        ret = Block([], [])
        for _ in range(k):
            start = time.perf_counter()
            ret.losses.append(step())
            ret.seconds.append(time.perf_counter() - start)
        return ret

    return steps


def torch_layer(peer: str, way: str, p: Problem, dtype: str) -> Any:
    """Return the quantum layer with the problem's weights."""
    import torch

    if peer in PEERS:
        import pennylane as qml

        node = pennylane_node(peer, way, p.n, "torch")
        layer = qml.qnn.TorchLayer(node, {"weights": p.weights.shape}).double()
        with torch.no_grad():
            layer.weights.copy_(torch.tensor(p.weights))
        return layer
    import qring.torch

    layer = qring.torch.Layer(*qring_circuit(p.n), threads=1, dtype=dtype).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(p.weights.ravel()))
    return layer


def torch_steps(peer: str, way: str, p: Problem, dtype: str) -> Steps:
    """PyTorch: Layer beside TorchLayer."""
    import torch

    torch.set_num_threads(1)
    linear = torch.nn.Linear(p.n, 1).double()
    with torch.no_grad():
        linear.weight.copy_(torch.tensor(p.kernel.T))
        linear.bias.copy_(torch.tensor(p.bias))
    model = torch.nn.Sequential(torch_layer(peer, way, p, dtype), linear)
    inputs, targets = torch.tensor(p.inputs), torch.tensor(p.targets)
    optimizer = torch.optim.Adam(model.parameters(), RATE)

    def step() -> float:
        optimizer.zero_grad()
        loss = ((model(inputs) - targets) ** 2).mean()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return repeated(step)


def jax_node(peer: str, way: str, n: int) -> Any:
    """Return PennyLane's function of (inputs, weights), with values (B, R)."""
    import jax
    import jax.numpy as jnp

    node = pennylane_node(peer, way, n, "jax")

    def values(inputs: Any, weights: Any) -> Any:
        return jnp.stack(node(inputs, weights), axis=-1)

    return jax.vmap(values, in_axes=(0, None)) if "vmap" in way else values


def jax_steps(peer: str, way: str, p: Problem, dtype: str) -> Steps:
    """JAX: a step with Adam."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    if peer in PEERS:
        node = jax_node(peer, way, p.n)
        first = jnp.asarray(p.weights)
    else:
        import qring.jax

        f = qring.jax.expval(*qring_circuit(p.n), threads=1, dtype=dtype)
        node = lambda inputs, weights: f(weights, inputs)  # noqa: E731
        first = jnp.asarray(p.weights.ravel())
    inputs, targets = jnp.asarray(p.inputs), jnp.asarray(p.targets)
    tree = jax.tree_util.tree_map

    def loss_of(at: Any) -> Any:
        weights, kernel, bias = at
        return ((node(inputs, weights) @ kernel + bias - targets) ** 2).mean()

    def update(at: Any, m: Any, v: Any, t: Any) -> Any:
        loss, g = jax.value_and_grad(loss_of)(at)
        m = tree(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = tree(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        a, b = 1 - 0.9**t, 1 - 0.999**t
        move = lambda w, m, v: w - RATE * (m / a) / (jnp.sqrt(v / b) + 1e-8)  # noqa: E731
        return loss, tree(move, at, m, v), m, v

    if "jit" in way:
        update = jax.jit(update)
    at = (first, jnp.asarray(p.kernel), jnp.asarray(p.bias))
    zeros = tree(jnp.zeros_like, at)
    state = [at, zeros, zeros, 1.0]

    def step() -> float:
        loss, state[0], state[1], state[2] = update(*state)
        state[3] += 1
        return float(loss)

    return repeated(step)


def keras_layer(peer: str, way: str, p: Problem, dtype: str) -> Any:
    """Return the quantum layer with the problem's weights, for the backend in the way's name."""
    import keras

    if peer in PEERS and "torch" in way:
        return keras.layers.TorchModuleWrapper(torch_layer(peer, way, p, dtype))
    if peer in PEERS:
        node = jax_node(peer, way, p.n)

        class NodeLayer(keras.layers.Layer):  # type: ignore[misc]
            def build(self, shape: Any) -> None:
                self.weight = self.add_weight(shape=p.weights.shape, name="weight")
                self.weight.assign(p.weights)

            def call(self, inputs: Any) -> Any:
                return node(inputs, self.weight.value)

        return NodeLayer()
    import qring.keras

    layer = qring.keras.Layer(*qring_circuit(p.n), threads=1, precision=dtype)
    layer.build((BATCH, p.n))
    layer.weight.assign(p.weights.ravel())
    return layer


def keras_steps(peer: str, way: str, p: Problem, dtype: str) -> Steps:
    """Keras 3: model.fit, whose steps are those of its batches."""
    os.environ["KERAS_BACKEND"] = way.split()[0]
    import keras
    import numpy as np

    if "torch" in way:
        import torch

        torch.set_num_threads(1)
    else:
        import jax

        jax.config.update("jax_enable_x64", True)
    keras.config.set_floatx("float64")
    dense = keras.layers.Dense(1)
    model = keras.Sequential([keras_layer(peer, way, p, dtype), dense])
    if peer == "qring" or "jax" in way:
        model.build((BATCH, p.n))
    else:
        dense.build((BATCH, p.n))
    dense.set_weights([p.kernel, p.bias])
    model.compile(keras.optimizers.Adam(RATE, epsilon=1e-8), "mse")

    class Watch(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_begin(self, logs: Any = None) -> None:
            self.block, self.total = Block([], []), 0.0

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if batch == 0:  # later steps start where the one before ended
                self.start = time.perf_counter()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            total = float(logs["loss"]) * (batch + 1)  # Keras reports the mean of the epoch
            now = time.perf_counter()
            self.block.losses.append(total - self.total)
            self.block.seconds.append(now - self.start)
            self.total, self.start = total, now

    def steps(k: int) -> Block:
        watch = Watch()
        x, y = np.tile(p.inputs, (k, 1)), np.tile(p.targets, (k, 1))
        model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0, callbacks=[watch])
        return watch.block

    return steps


MAKE = {"torch": torch_steps, "jax": jax_steps, "keras": keras_steps}


# ---- one process ----


def layer_overhead(p: Problem) -> float:
    """Return the seconds of the PyTorch layer's calls outside libqring, forward and backward.

    They are Python's in qring and PyTorch's for an operator: what the layer adds to a step.
    """
    import torch

    from qring._library import lib

    inside = [0.0]

    def timed(call: Any) -> Any:
        def inner(*arguments: Any) -> Any:
            start = time.perf_counter()
            code = call(*arguments)
            inside[0] += time.perf_counter() - start
            return code

        return inner

    lib.qring_forward, lib.qring_vjp = timed(lib.qring_forward), timed(lib.qring_vjp)
    layer = torch_layer("qring", "eager", p, "float64")
    inputs = torch.tensor(p.inputs)
    cotangents = torch.ones(BATCH, p.n, dtype=torch.float64)
    found = []
    for _ in range(STEPS):
        inside[0] = 0.0
        start = time.perf_counter()
        layer(inputs).backward(cotangents)
        found.append(time.perf_counter() - start - inside[0])
    return sorted(found)[len(found) // 2]


def serve(framework: str, peer: str, way: str, n: int, dtype: str) -> None:
    """Make as many steps as each line of standard input says; 0: print the layer's overhead."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    steps = MAKE[framework](peer, way, problem(n), dtype)
    for line in sys.stdin:
        k = int(line)
        print(json.dumps(steps(k) if k else layer_overhead(problem(n))), flush=True)


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


class Runner:
    """A process that trains in one way."""

    def __init__(self, framework: str, peer: str, way: str, n: int, dtype: str) -> None:
        self.way, self.losses, self.seconds = way, [], []  # seconds without the first step's
        self._name = f"{framework} {peer} ({way}) {n} qubits {dtype}"
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--one", framework, peer, way, str(n), dtype],
            env={**os.environ, **threads},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ask(self, k: int, limit: float) -> Any:
        """Return the answer to k; None, with the reason on stderr, if there is none in time."""
        pipes = self._process.stdin, self._process.stdout, self._process.stderr
        assert None not in pipes
        reason = f"no step within {limit:.0f} s"
        try:
            self._process.stdin.write(f"{k}\n")
            self._process.stdin.flush()
            if select.select([self._process.stdout], [], [], limit)[0]:
                line = self._process.stdout.readline()
                if line:
                    return json.loads(line)
                lines = self._process.stderr.read().strip().splitlines()
                reason = lines[-1] if lines else f"exit status {self._process.wait(10)}"
        except BrokenPipeError:
            reason = f"exit status {self._process.wait(10)}"
        print(f"{self._name}: {reason}", file=sys.stderr, flush=True)
        return None

    def steps(self, k: int, limit: float) -> bool:
        """Make k steps."""
        found = self.ask(k, limit)
        if found is None:
            return False
        self.seconds += found[1][0 if self.losses else 1 :]  # the first step compiles
        self.losses += found[0]
        return True

    def median(self) -> float:
        """Return the median of the seconds of a step."""
        return sorted(self.seconds)[len(self.seconds) // 2]

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def fastest(framework: str, peer: str, n: int, dtype: str, limit: float) -> Runner | None:
    """Return the fastest way after two steps; None if none makes them within the limit."""
    best: Runner | None = None
    for way in WAYS[framework, peer]:
        runner = Runner(framework, peer, way, n, dtype)
        fine = runner.steps(1, limit) and runner.steps(1, limit)
        if fine and (best is None or runner.median() < best.median()):
            best, runner = runner, best
        if runner is not None:
            runner.close()
    return best


def train(runners: list[Runner], budget: float, limit: float) -> None:
    """Make steps in turn, until PennyLane's runner, the last, made 20 or the budget is spent."""
    start = time.perf_counter()
    while len(runners[-1].losses) < STEPS and time.perf_counter() - start < budget:
        left = budget - (time.perf_counter() - start)
        k = min(BLOCK, STEPS - len(runners[-1].losses), max(1, int(left / runners[-1].median())))
        ours, peer = runners[:-1], runners[-1]
        if not (all(r.steps(4 * k, limit) for r in ours) and peer.steps(k, limit)):
            break


def cell(value: float | None, form: str = "{:.2f}") -> str:
    """Format a number of a table."""
    return "-" if value is None else form.format(value)


def row(framework: str, n: int, budget: float, limit: float) -> bool:
    """Print one row; False if losses differ or qring fails."""
    ours = fastest(framework, "qring", n, "float64", limit)
    if ours is None:
        return False
    ours32 = fastest(framework, "qring", n, "float32", limit)
    cells = [framework, str(n)]
    differences = []
    for name in PEERS:
        peer = fastest(framework, name, n, "float64", limit)
        if peer is None:
            cells.append("-")
            continue
        train([r for r in (ours32, ours, peer) if r is not None], budget, limit)
        differences += [abs(a - b) for a, b in zip(peer.losses, ours.losses)]
        ratio, least = peer.median() / ours.median(), min(peer.seconds) / min(ours.seconds)
        cells.append(
            f"{peer.median() * 1e3:.1f} ({peer.way}): {ratio:.0f} (least: {least:.0f}), "
            f"{len(peer.losses)} steps"
        )
        peer.close()
    cells[2:2] = [f"{ours.median() * 1e3:.2f} ({ours.way})", cell(ours32 and ours32.median() * 1e3)]
    overhead = ours.ask(0, limit) if framework == "torch" else None
    cells.append(cell(overhead and overhead / ours.median() * 100, "{:.1f}"))
    cells.append(cell(max(differences) if differences else None, "{:.1e}"))
    print("| " + " | ".join(cells) + " |", flush=True)
    for runner in filter(None, (ours, ours32)):
        runner.close()
    return all(d <= TOLERANCE for d in differences)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frameworks", nargs="+", default=list(MAKE), choices=list(MAKE))
    parser.add_argument("--qubits", nargs="+", type=int, default=[4, 8, 12, 16])
    parser.add_argument("--budget", type=float, default=60, help="seconds of a row's steps [60]")
    parser.add_argument("--limit", type=float, default=300, help="most seconds of a step [300]")
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        framework, peer, way, n, dtype = given.one
        serve(framework, peer, way, int(n), dtype)
        return 0
    print(f"one call of forward on 2 qubits: {call_overhead() * 1e6:.1f} us\n")
    print("batch 64, one core; ms per step (median), with the fastest way of each side")
    heads = ["framework", "qubits", "qring", "qring float32"]
    heads += [f"{peer}: times qring's" for peer in PEERS]
    heads += ["% in the layer outside libqring", "largest difference of losses"]
    print("| " + " | ".join(heads) + " |")
    print("|" + " --- |" * len(heads), flush=True)
    rows = [(f, n) for n in given.qubits for f in given.frameworks]
    fine = [row(f, n, given.budget, given.limit) for f, n in rows]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
