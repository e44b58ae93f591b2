#!/usr/bin/env python3
"""Makes lbfgs.json, spsa.json and natural-gradient.json: optimizers of SciPy and PennyLane, step by step.

    pip install pennylane==0.45.1 scipy==1.17.1; python tests/golden/optimizers/make.py [NAME ...]

lbfgs: a row has a function (tests/unit/test_model_lbfgs.c computes the same), options, and every point at which SciPy's
L-BFGS-B evaluated it, in order, with the losses there and the point that it returned.
spsa: a function, options, and the weights after each step of PennyLane's SPSAOptimizer, whose signs are ours: bits of
Philox(seed, SPSA, weight / 64, step) (lib/exact/contract.md).
natural-gradient: a job, its first weights, PennyLane's block-diagonal metric there, and the weights after each step of its
QNGOptimizer."""
import json
import math
import os
import sys

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))


def lcg(seed):
    while True:
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        yield (seed >> 33) / 2**30 - 1


# ---- L-BFGS ----
def rosenbrock(x):
    n = len(x)
    f, g = 0.0, np.zeros(n)
    for i in range(n - 1):
        a, b = x[i + 1] - x[i] * x[i], 1 - x[i]
        f += 100 * a * a + b * b
        g[i] += -400 * a * x[i] - 2 * b
        g[i + 1] += 200 * a
    return f, g


def quadratic(x):
    """sum (i + 1)^2 / 2 x_i^2, each x_i coupled to the next, less the sum"""
    n = len(x)
    f, g = 0.0, np.zeros(n)
    for i in range(n):
        f += 0.5 * (i + 1) * (i + 1) * x[i] * x[i] - x[i]
        g[i] += (i + 1) * (i + 1) * x[i] - 1
        if i + 1 < n:
            f += 0.25 * x[i] * x[i + 1]
            g[i] += 0.25 * x[i + 1]
            g[i + 1] += 0.25 * x[i]
    return f, g


def waves(x):
    """what the energy of a circuit looks like: products of cosines, many minima"""
    n = len(x)
    f, g = 0.0, np.zeros(n)
    for i in range(n):
        k = (i + 1) % n
        f += math.cos(x[i]) * math.cos(x[k]) + 0.5 * math.sin(x[i])
        g[i] += -math.sin(x[i]) * math.cos(x[k]) + 0.5 * math.cos(x[i])
        g[k] += -math.cos(x[i]) * math.sin(x[k])
    return f, g


def flat(x):
    """sum x_i^4 / (1 + x_i^2): a line search has to go far, and back"""
    f, g = 0.0, np.zeros(len(x))
    for i, v in enumerate(x):
        f += v * v * v * v / (1 + v * v)
        g[i] = (2 * v * v * v * v * v + 4 * v * v * v) / ((1 + v * v) * (1 + v * v))
    return f, g


def lbfgs():
    from scipy.optimize import minimize
    rows, r = [], lcg(5)
    for function, n, spread in [(rosenbrock, 2, 2), (rosenbrock, 5, 1.5), (quadratic, 6, 1), (quadratic, 12, 3), (waves, 3, 3), (waves, 8, 3),
                                (waves, 15, 3), (flat, 4, 5), (flat, 7, 0.5)]:
        for memory in (10, 3):
            start, seen, losses = np.array([spread * next(r) for _ in range(n)]), [], []

            def evaluate(x):
                f, g = function(x)
                seen.append([float(v) for v in x])
                losses.append(f)
                return f, g

            options = {"maxcor": memory, "gtol": 1e-8, "ftol": 1e-13, "maxiter": 300}
            end = minimize(evaluate, start, jac=True, method="L-BFGS-B", options=options)
            rows.append({"function": function.__name__, "memory": memory, "gradient_tolerance": 1e-8, "loss_tolerance": 1e-13,
                         "why": end.message, "evaluations": seen, "losses": losses, "end": [float(v) for v in end.x], "loss": float(end.fun)})
    return rows


# ---- SPSA ----
def philox(seed, purpose, a, b):
    """Philox4x32-10 (Salmon et al., SC'11): words 0 and 1"""
    k, c, low = [seed & 0xFFFFFFFF, seed >> 32], [purpose, a, b & 0xFFFFFFFF, b >> 32], 0xFFFFFFFF
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [q >> 32 ^ c[1] ^ k[0], q & low, p >> 32 ^ c[3] ^ k[1], p & low]
        k = [k[0] + 0x9E3779B9 & low, k[1] + 0xBB67AE85 & low]
    return c[1] << 32 | c[0]


def spsa():
    import pennylane as qml
    rows, r = [], lcg(8)
    for function, n, spread, seed, options in [
            (waves, 8, 3, 1, {"A": 10}), (quadratic, 6, 1, 3, {"A": 10, "a": 0.02}), (quadratic, 3, 1, 2**63 + 5, {"A": 5, "c": 0.1, "a": 0.1}),
            (waves, 70, 3, 9, {"A": 20, "a": 0.5}), (waves, 130, 3, 4, {"A": 2, "alpha": 1.0, "gamma": 1 / 6, "c": 0.05}),
            (rosenbrock, 5, 1, 2**40, {"A": 100, "a": 0.01}), (flat, 4, 2, 7, {"A": 10, "gamma": 0.0}), (flat, 4, 2, 7, {"A": 10, "alpha": 0.0})]:
        opt, w, after = qml.SPSAOptimizer(**options), np.array([spread * next(r) for _ in range(n)]), []
        start, draw = [float(v) for v in w], np.random.choice
        for step in range(30):
            words = [philox(seed, 10, i, step) for i in range(n // 64 + 1)]
            np.random.choice = lambda values, size: np.array([1 if words[i // 64] >> i % 64 & 1 else -1 for i in range(n)])
            w = opt.step(lambda x: np.array(function(x)[0]), qml.numpy.array(w, requires_grad=True))
            after.append([float(v) for v in w])
        np.random.choice = draw
        rows.append({"function": function.__name__, "seed": str(seed), "learning_rate": opt.a / (opt.A + 1)**opt.alpha, "perturbation": opt.c,
                     "stability": opt.A, "alpha": opt.alpha, "gamma": opt.gamma, "weights": start, "after": after})
    return rows


# ---- natural gradient ----
GATES = {"RX": "RX", "RY": "RY", "RZ": "RZ", "IsingXX": "RXX", "IsingYY": "RYY", "IsingZZ": "RZZ", "PhaseShift": "P", "CNOT": "CX", "CZ": "CZ",
         "Hadamard": "H"}


def layered(n, depth):
    """an ansatz: its gates as (name, qubits, index of the weight or None, factor)"""
    gates, at = [], 0
    for d in range(depth):
        for q in range(n):
            gates.append((("RY", "RX", "RZ")[(d + q) % 3], [q], at, 1))
            at += 1
        for q in range(n - 1): gates.append(("CNOT" if d % 2 else "CZ", [q, q + 1], None, 1))
    return gates


def natural_gradient():
    import pennylane as qml
    from pennylane import numpy as pnp
    terms2 = [("Z0 Z1", 1.0, qml.Z(0) @ qml.Z(1)), ("X0", 0.5, qml.X(0)), ("Y1", -0.25, qml.Y(1))]
    terms3 = terms2 + [("X1 Y2", 0.7, qml.X(1) @ qml.Y(2)), ("Z2", -0.4, qml.Z(2))]
    start = [("Hadamard", [q], None, 1) for q in range(3)]
    field = [("RY", [0], 0, 1), ("IsingXX", [0, 1], 1, 1), ("RX", [2], 2, 1), ("IsingZZ", [1, 2], 3, 1), ("PhaseShift", [0], 4, 1),
             ("RZ", [2], 5, 1), ("IsingYY", [0, 2], 6, 1), ("RY", [1], 7, 1), ("CNOT", [0, 1], None, 1), ("RX", [0], 8, 1)]
    shared = [("IsingZZ", [0, 1], 0, 2), ("IsingZZ", [1, 2], 0, 2), ("RX", [0], 1, 1), ("RX", [1], 1, 1), ("RX", [2], 1, -1),
              ("IsingZZ", [0, 1], 2, 2), ("RX", [0], 3, 0.5), ("RY", [1], 0, 1)]
    rows, r = [], lcg(31)
    for gates, terms, rate, lam in [(layered(2, 2), terms2, 0.01, 0), (layered(3, 3), terms3, 0.05, 0.1), (start + field, terms3, 0.02, 0.01),
                                    (start + shared, terms3, 0.02, 0)]:
        n, w = 1 + max(max(q) for _, q, _, _ in gates), [3 * next(r) for _ in range(1 + max(k for _, _, k, _ in gates if k is not None))]
        hamiltonian = qml.Hamiltonian([c for _, c, _ in terms], [o for _, _, o in terms])

        @qml.qnode(qml.device("default.qubit", wires=n))
        def energy(x):
            for gate, qubits, k, factor in gates:
                if k is None: getattr(qml, gate)(wires=qubits)
                else: getattr(qml, gate)(factor * x[k], wires=qubits)
            return qml.expval(hamiltonian)

        x = pnp.array(w, requires_grad=True)
        metric, opt, after = qml.metric_tensor(energy, approx="block-diag")(x), qml.QNGOptimizer(stepsize=rate, lam=lam), []
        for _ in range(8):
            x = opt.step(energy, x)
            after.append([float(v) for v in x])
        job = {"precision": "double",
               "model": [{"layer": "quantum",
                          "circuit": {"qubits": n, "gates": [{"gate": GATES[g], "qubits": q, **({} if k is None else
                                                              {"angle": {"parameter": f"w{k}", "scale": f}})} for g, q, k, f in gates]},
                          "readouts": [{"hamiltonian": [[t, c] for t, c, _ in terms]}]}],
               "data": {"source": "none"},
               "train": {"loss": "expectation", "optimizer": {"name": "quantum-natural-gradient", "learning_rate": rate, "regularization": lam}}}
        rows.append({"job": json.dumps(job), "weights": w, "metric": np.array(metric).tolist(), "after": after})
    return rows


made = {"lbfgs": lbfgs, "spsa": spsa, "natural-gradient": natural_gradient}
for name in sys.argv[1:] or made:
    rows = made[name]()
    with open(os.path.join(here, name + ".json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
