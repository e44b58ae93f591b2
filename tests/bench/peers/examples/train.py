"""Trains an example (../examples.py) in a peer: PennyLane's default.qubit or lightning.qubit with JAX, a compiled step; or
JAX alone. Usage: train.py PEER FOLDER NAME float32|float64 STEPS trains FOLDER/NAME.json from
FOLDER/NAME.safetensors for at most STEPS steps and prints one line of JSON: the loss of each step, its nanoseconds and
processor time (without steps that compile), steps per epoch, the time of one validation (not of lightning.qubit), and
after the last step the loss and metrics of the validation samples, or of all samples.

NAME.py in this folder defines one of these:

model(case)       returns f(weights, x), the model's outputs: weights is a dict by qring's names ("pqc/parameters", "dense/kernel" ...), each
                  an array of its shape, parameters of a circuit by number ("w2" before "w10", so strongly-entangling's may be reshaped to
                  layers, qubits, 3); x is samples x columns (no columns without data); outputs are samples x outputs, after the last
                  activation. A circuit takes the whole batch: x[:, 0] as an angle is one angle per sample.
                      def model(case):
                          @case.circuit(4)
                          def circuit(w, x):
                              qml.AngleEmbedding(x, wires=range(4))
                              qml.StronglyEntanglingLayers(w, wires=range(4))
                              return qml.expval(qml.PauliZ(0))

                          return lambda weights, x: circuit(weights["pqc/parameters"].reshape(2, 4, 3), x)[:, None]

train(case, who)  for other peers, named in PEERS of ../examples.py: trains, and returns the dict of that line.

case has who, name, dtype, job (the job file's object), tensors (name -> array), trainable (names), x, y (training samples in their order),
held_x, held_y, steps, batch, epochs; circuit(qubits), a decorator that makes a function a QNode on the peer's device; and numpy, which is
jax.numpy."""
import csv
import importlib.util
import json
import os
import struct
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def read_safetensors(path, np):
    with open(path, "rb") as f:
        size, = struct.unpack("<Q", f.read(8))
        head, data = json.loads(f.read(size)), f.read()
    head.pop("__metadata__", None)
    return {name: np.frombuffer(data[slice(*t["data_offsets"])], "<f8").reshape(t["shape"]).copy() for name, t in head.items()}


def read_data(folder, about, np):
    """(x, y) of all samples; y is samples x outputs or None"""
    if about["source"] == "none":
        return np.zeros((1, 0)), None
    path = os.path.join(folder, about["url"])
    if about["source"] == "npz":
        file = np.load(path)
        x, y = np.asarray(file["x"], float), np.asarray(file["y"], float) if "y" in file else None
        return x[:, about["columns"]] if "columns" in about else x, y if y is None else y.reshape(len(x), -1)
    with open(path) as f:
        names, *rows = csv.reader(f)
    rows = np.array(rows, float)
    labels = [i for i, n in enumerate(names) if n == "y" or n[:1] == "y" and n[1:].isdigit()]
    inputs = [i for i in range(len(names)) if i not in labels]
    if "columns" in about:
        inputs = [names.index(c) if isinstance(c, str) else inputs[c] for c in about["columns"]]
    return rows[:, inputs], rows[:, labels] if labels else None


def layers_of(model):
    """(layer, names of its tensors) for each layer"""
    counts = {"pqc": 0, "dense": 0}
    for layer in model:
        kind = {"quantum": "pqc", "dense": "dense"}.get(layer["layer"])
        names = []
        for _ in range(layer.get("filters", layer.get("circuit", {}).get("filters", 1)) if kind else 0):
            name = kind if counts[kind] == 0 else "%s_%d" % (kind, counts[kind])
            names += [name + "/parameters"] if kind == "pqc" else [name + "/kernel", name + "/bias"]
            counts[kind] += 1
        yield layer, names


class Case:
    def __init__(self, who, folder, name, dtype, steps):
        import numpy as np
        self.who, self.folder, self.name, self.dtype, self.steps = who, folder, name, dtype, steps
        with open("%s/%s.json" % (folder, name)) as f:
            self.job = json.load(f)
        self.tensors = read_safetensors("%s/%s.safetensors" % (folder, name), np)
        self.trainable = [n for layer, names in layers_of(self.job["model"]) for n in names if layer.get("trainable", True)]
        about, train = self.job["data"], self.job["train"]
        x, y = read_data(folder, about, np)
        split = int(about.get("train_fraction", 1) * len(x))
        if "validation_url" in about:
            held = read_data(folder, dict(about, url=about["validation_url"]), np)
            split, x = len(x), np.concatenate([x, held[0]])
            y = None if y is None else np.concatenate([y, held[1]])
        self.validates = split < len(x)
        part = slice(split, None) if self.validates else slice(None)
        self.x, self.held_x = x[:split], x[part]
        self.y, self.held_y = (None, None) if y is None else (y[:split], y[part])
        self.batch, self.epochs = min(train.get("batch_size", 32), split), train.get("epochs", 1)

    def use_jax(self):
        import jax
        jax.config.update("jax_enable_x64", self.dtype == "float64")
        self.jax, self.numpy = jax, jax.numpy

    def circuit(self, qubits):
        import pennylane as qml
        width = {"float32": "complex64", "float64": "complex128"}[self.dtype]
        if self.who == "lightning.qubit":
            import numpy as np
            return qml.qnode(qml.device(self.who, wires=qubits, c_dtype=np.dtype(width).type), diff_method="adjoint")
        return qml.qnode(qml.device(self.who, wires=qubits), diff_method="backprop")


def option(job, name, default):
    loss = job["train"].get("loss", "mse")
    return loss.get(name, default) if isinstance(loss, dict) else default


def loss_of(job, np):
    """f(outputs, labels), the mean over samples; labels are None for an expectation, one-hot for
    several classes"""
    loss = job["train"].get("loss", "mse")
    name = loss["name"] if isinstance(loss, dict) else loss
    if name == "expectation":
        return lambda p, y: np.mean(np.sum(p * np.asarray(option(job, "weights", [1.0] * p.shape[-1])), -1))
    if name == "categorical_crossentropy":
        return lambda p, y: -np.mean(np.sum(y * np.log(p), -1))
    if name == "binary_crossentropy":
        return lambda p, y: -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))
    return {"mse": lambda p, y: np.mean((p - y) ** 2), "mae": lambda p, y: np.mean(abs(p - y)),
            "hinge": lambda p, y: np.mean(np.maximum(0, 1 - y * p))}[name]


def metric(name, job, p, y, np):
    """A metric of deploy/jobs/README.md, for NumPy arrays"""
    loss = job["train"].get("loss", "mse")
    loss = loss["name"] if isinstance(loss, dict) else loss
    if name == "binary_accuracy":
        return float(np.mean((p > 0.5) == (y == 1)))
    if name == "accuracy":
        if loss == "categorical_crossentropy":
            return float(np.mean(p.argmax(-1) == y.argmax(-1)))
        return float(np.mean((p > 0.5) == (y > 0.5) if loss == "binary_crossentropy" else (p >= 0) == (y > 0)))
    return float(np.mean({"mse": (p - y) ** 2, "mae": abs(p - y)}[name]))


def labels_for(job, y, outputs, np):
    if y is None:
        return None
    loss = job["train"].get("loss", "mse")
    if (loss["name"] if isinstance(loss, dict) else loss) == "categorical_crossentropy" and y.shape[1] == 1:
        return np.eye(outputs)[y[:, 0].astype(int)]
    return np.broadcast_to(y, (len(y), outputs))


def rule_of(job, np):
    """Keras' update of one tensor: f(weight, gradient, state, step from 1) -> (weight, state); a
    state is two tensors, initially 0"""
    about = dict(job["train"].get("optimizer", {"name": "adam"}))
    name = about.pop("name")
    rate = about.pop("learning_rate", {"sgd": 0.01}.get(name, 0.001))

    def sgd(w, g, state, step, momentum=0.0, nesterov=False):
        v = momentum * state[0] - rate * g
        return w + (momentum * v - rate * g if nesterov else v), (v, state[1])

    def adam(w, g, state, step, beta_1=0.9, beta_2=0.999, epsilon=1e-7):
        m, v = state[0] + (g - state[0]) * (1 - beta_1), state[1] + (g * g - state[1]) * (1 - beta_2)
        alpha = rate * np.sqrt(1 - beta_2 ** step) / (1 - beta_1 ** step)
        return w - alpha * m / (np.sqrt(v) + epsilon), (m, v)

    rule = {"sgd": sgd, "adam": adam}[name]
    return lambda w, g, state, step: rule(w, g, state, step, **about)


def held_out(case, outputs, weights):
    import numpy
    size = max(case.batch, 64)
    parts = [case.held_x[i:i + size] for i in range(0, len(case.held_x), size)]
    return numpy.concatenate([numpy.asarray(outputs(weights, case.numpy.asarray(x, case.dtype)), float) for x in parts])


def fit(case, model):
    """Trains f(weights, x) with JAX."""
    import numpy
    np, job = case.numpy, case.job
    outputs, loss, rule = case.jax.jit(model), loss_of(job, np), rule_of(job, np)
    start = {n: np.asarray(t, case.dtype) for n, t in case.tensors.items()}
    frozen = {n: t for n, t in start.items() if n not in case.trainable}
    weights = {n: start[n] for n in case.trainable}
    states = {n: (np.zeros_like(t), np.zeros_like(t)) for n, t in weights.items()}
    width = outputs(start, np.asarray(case.x[:case.batch], case.dtype)).shape[-1]
    y = labels_for(job, case.y, width, numpy)

    @case.jax.jit
    def step(weights, states, x, y, number):
        value, gradients = case.jax.value_and_grad(lambda w: loss(model({**frozen, **w}, x), y))(weights)
        new = {n: rule(weights[n], gradients[n], states[n], number) for n in weights}
        return value, {n: w for n, (w, _) in new.items()}, {n: s for n, (_, s) in new.items()}

    reply, seen, number = {"losses": [], "ns": [], "cpu_ns": []}, set(), 0
    parts = [slice(i, i + case.batch) for i in range(0, len(case.x), case.batch)]
    batches = [(np.asarray(case.x[p], case.dtype), None if y is None else np.asarray(y[p], case.dtype)) for p in parts]
    while number < min(case.steps, case.epochs * len(parts)):
        x, labels = batches[number % len(parts)]
        number += 1
        cpu, began = time.process_time_ns(), time.perf_counter_ns()
        value, weights, states = step(weights, states, x, labels, np.asarray(number, case.dtype))
        reply["losses"].append(float(value))
        if len(x) in seen:
            reply["ns"].append(time.perf_counter_ns() - began)
            reply["cpu_ns"].append(time.process_time_ns() - cpu)
        seen.add(len(x))
    held, held_loss = labels_for(job, case.held_y, width, numpy), loss_of(job, numpy)
    if case.validates and case.who != "lightning.qubit":  # lightning.qubit would compile a circuit for each sample
        for _ in range(2):  # the first time compiles
            cpu, began = time.process_time_ns(), time.perf_counter_ns()
            held_loss(held_out(case, outputs, {**frozen, **weights}), held)
        reply["held_ns"], reply["held_cpu_ns"] = time.perf_counter_ns() - began, time.process_time_ns() - cpu
    if number == case.epochs * len(parts):  # the whole training
        p = held_out(case, outputs, {**frozen, **weights})
        reply["loss"] = float(held_loss(p, held))
        reply["metrics"] = {m: metric(m, job, p, held, numpy) for m in job["train"].get("metrics", [])}
    return dict(reply, steps=len(parts))


def main():
    who, folder, name, dtype, steps = *sys.argv[1:5], int(sys.argv[5])
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries' output goes to stderr
    spec = importlib.util.spec_from_file_location("example", "%s/%s.py" % (HERE, name))
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    case = Case(who, folder, name, dtype, steps)
    if who in ("default.qubit", "lightning.qubit", "jax"):
        case.use_jax()
        reply = fit(case, example.model(case))
    else:
        reply = example.train(case, who)
    print(json.dumps(reply), file=out)


if __name__ == "__main__":
    main()
