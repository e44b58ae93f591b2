"""The MLP (mlp.py) in idiomatic NumPy, in float64, with its BLAS. Usage: numpy_mlp.py FOLDER
creates samples and weights there; numpy_mlp.py FOLDER sgd|adam RATE BATCH EPOCHS THREADS trains,
and prints one line of JSON: nanoseconds and processor time of each epoch, and mean losses."""
import json
import sys
import time

import numpy as np

SAMPLES, SIZES = 2048, (784, 128, 10)


def make(folder):
    """Each sample's class is the largest of ten random sums of its inputs."""
    rng = np.random.default_rng(1)
    x = rng.random((SAMPLES, SIZES[0]))
    y = np.argmax((x - 0.5) @ rng.normal(size=(SIZES[0], SIZES[2])), 1)
    np.savez(folder + "/data.npz", x=x, y=y.astype(float))
    weights = {}
    for layer, rows, columns in ("dense", *SIZES[:2]), ("dense_1", *SIZES[1:]):
        limit = np.sqrt(6 / (rows + columns))
        weights[layer + "/kernel"] = rng.uniform(-limit, limit, (rows, columns))
        weights[layer + "/bias"] = np.zeros(columns)
    np.savez(folder + "/weights.npz", **weights)


def loss_and_gradients(weights, x, y):
    """The batch's summed loss, and the gradients of its mean"""
    z1 = x @ weights[0] + weights[1]
    hidden = np.maximum(z1, 0)
    z2 = hidden @ weights[2] + weights[3]
    z2 -= z2.max(1, keepdims=True)
    powers = np.exp(z2)
    sums = powers.sum(1, keepdims=True)
    d2 = (powers / sums - y) / len(x)
    d1 = (d2 @ weights[2].T) * (z1 > 0)
    return -(y * (z2 - np.log(sums))).sum(), [x.T @ d1, d1.sum(0), hidden.T @ d2, d2.sum(0)]


class Sgd:
    def __init__(self, weights, rate):
        self.weights, self.rate = weights, rate

    def update(self, gradients):
        for w, g in zip(self.weights, gradients):
            w -= self.rate * g


class Adam:
    def __init__(self, weights, rate):
        self.weights, self.rate, self.steps = weights, rate, 0
        self.m, self.v = ([np.zeros_like(w) for w in weights] for _ in range(2))

    def update(self, gradients):
        self.steps += 1
        alpha = self.rate * np.sqrt(1 - 0.999 ** self.steps) / (1 - 0.9 ** self.steps)
        for w, g, m, v in zip(self.weights, gradients, self.m, self.v):
            m += (g - m) * (1 - 0.9)
            v += (g * g - v) * (1 - 0.999)
            w -= alpha * m / (np.sqrt(v) + 1e-7)


def train(folder, name, rate, batch, epochs):
    data, start = np.load(folder + "/data.npz"), np.load(folder + "/weights.npz")
    x, y = data["x"], np.eye(SIZES[2])[data["y"].astype(int)]
    weights = [start[layer] for layer in ("dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias")]
    optimizer = {"sgd": Sgd, "adam": Adam}[name](weights, rate)
    results = {"ns": [], "cpu_ns": [], "losses": []}
    for _ in range(epochs):
        cpu, began, loss = time.process_time_ns(), time.perf_counter_ns(), 0
        for i in range(0, len(x), batch):
            part, gradients = loss_and_gradients(weights, x[i:i + batch], y[i:i + batch])
            optimizer.update(gradients)
            loss += part
        results["ns"].append(time.perf_counter_ns() - began)
        results["cpu_ns"].append(time.process_time_ns() - cpu)
        results["losses"].append(loss / len(x))
    print(json.dumps(results))


if len(sys.argv) == 2:
    make(sys.argv[1])
else:
    train(*sys.argv[1:3], float(sys.argv[3]), *map(int, sys.argv[4:6]))
