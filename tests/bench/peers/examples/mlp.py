"""deploy/jobs/examples/mlp.json in NumPy and in Keras. The run for comparison, in float64, drops
the same units as qring, whose random numbers follow from seed, step, sample and unit
(lib/exact/random.h). The timed run, in float32, draws its own."""
import time

import numpy as np

TENSORS = ("dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias")
DROPOUT, DENSE_RATE, UNITS, CLASSES = 9, 0.2, 32, 10  # DROPOUT: the counter for this purpose
FACTOR = 0.1111111111111111


def random64(seed, a, b):
    """Random numbers of Philox4x32-10 with key `seed` and counters (DROPOUT, a, b), arrays of one
    shape"""
    seed, a, b = np.broadcast_arrays(*(np.asarray(v, np.uint64) for v in (seed, a, b)))
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    k0, k1 = seed & low, seed >> half
    c0, c1, c2, c3 = np.full_like(a, DROPOUT), a & low, b & low, b >> half
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> half) ^ c1 ^ k0, p1 & low, (p0 >> half) ^ c3 ^ k1, p0 & low
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return c1 << half | c0


class Factors:
    """Dropout factors of the units of a batch: 0 or 1 / (1 - rate)"""

    def __init__(self, case, layer):
        self.seed, self.layer, self.dtype = case.job["seed"], layer, case.dtype
        self.free = np.random.default_rng(1) if case.dtype == "float32" else None

    def draw(self, step, samples):
        if self.free:
            uniform = self.free.random((len(samples), UNITS), np.float32)
        else:
            key = random64(self.seed, self.layer, step)
            uniform = (random64(key, np.arange(UNITS)[None, :], samples[:, None]) >> np.uint64(11)) * 2.0 ** -53
        return np.where(uniform < DENSE_RATE, 0, 1 / (1 - DENSE_RATE)).astype(self.dtype)


class Numpy:
    """Steps of Adam in idiomatic NumPy"""

    def __init__(self, case):
        about = case.job["train"]["optimizer"]
        self.weights, self.rate, self.steps = [case.tensors[n].astype(case.dtype) for n in TENSORS], about["learning_rate"], 0
        self.m, self.v = ([np.zeros_like(w) for w in self.weights] for _ in range(2))

    def forward(self, x, factors):
        a, b, c, d = self.weights
        self.x = x * x.dtype.type(FACTOR)
        self.z = self.x @ a + b
        self.hidden = np.maximum(self.z, 0)
        self.hidden = self.hidden if factors is None else self.hidden * factors
        z = self.hidden @ c + d
        z -= z.max(1, keepdims=True)
        return z

    def probabilities(self, x):
        powers = np.exp(self.forward(x, None))
        return powers / powers.sum(1, keepdims=True)

    def step(self, x, y, factors):
        z = self.forward(x, factors)
        powers = np.exp(z)
        sums = powers.sum(1, keepdims=True)
        d2 = (powers / sums - y) / len(x)
        d1 = (d2 @ self.weights[2].T) * factors * (self.z > 0)
        self.steps += 1
        alpha = self.rate * np.sqrt(1 - 0.999 ** self.steps) / (1 - 0.9 ** self.steps)
        for w, g, m, v in zip(self.weights, [self.x.T @ d1, d1.sum(0), self.hidden.T @ d2, d2.sum(0)], self.m, self.v):
            m += (g - m) * (1 - 0.9)
            v += (g * g - v) * (1 - 0.999)
            w -= (alpha * m / (np.sqrt(v) + 1e-7)).astype(w.dtype)
        return float(-(y * (z - np.log(sums))).sum() / len(x))


class Keras:
    """train_on_batch of a compiled model. The run for comparison takes dropout factors as an input,
    the timed one uses Keras' dropout. Constants are NumPy scalars: Keras would round Python floats
    to float32."""

    def __init__(self, case):
        import tensorflow as tf
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        tf.keras.backend.set_floatx(case.dtype)
        layers, self.own = tf.keras.layers, case.dtype == "float32"
        x, factors = layers.Input((case.x.shape[1],)), layers.Input((UNITS,))
        hidden = layers.Dense(UNITS, activation="relu")(layers.Rescaling(np.float64(FACTOR))(x))
        dropped = layers.Dropout(DENSE_RATE)(hidden) if self.own else layers.Multiply()([hidden, factors])
        out = layers.Activation("softmax")(layers.Dense(CLASSES)(dropped))
        self.model = tf.keras.Model(x if self.own else [x, factors], out)
        self.model.set_weights([case.tensors[n] for n in TENSORS])
        adam = tf.keras.optimizers.Adam(case.job["train"]["optimizer"]["learning_rate"], beta_1=np.float64(0.9), beta_2=np.float64(0.999))
        self.model.compile(optimizer=adam, loss="categorical_crossentropy")

    def probabilities(self, x):
        return self.model.predict(x if self.own else [x, np.ones((len(x), UNITS))], batch_size=len(x), verbose=0)

    def step(self, x, y, factors):
        return float(self.model.train_on_batch(x if self.own else [x, factors], y))


def train(case, who):
    program, factors = {"numpy": Numpy, "keras": Keras}[who](case), Factors(case, 2)
    one_hot = np.eye(CLASSES, dtype=case.dtype)
    x, y = case.x.astype(case.dtype), one_hot[case.y[:, 0].astype(int)]
    starts, reply, seen = range(0, len(x), case.batch), {"losses": [], "ns": [], "cpu_ns": []}, set()
    while len(reply["losses"]) < min(case.steps, case.epochs * len(starts)):
        number = len(reply["losses"])
        at = starts[number % len(starts)]
        part = slice(at, min(at + case.batch, len(x)))
        dropped = None if who == "keras" and case.dtype == "float32" else factors.draw(number, np.arange(part.start, part.stop))
        cpu, began = time.process_time_ns(), time.perf_counter_ns()
        reply["losses"].append(program.step(x[part], y[part], dropped))
        if part.stop - part.start in seen:
            reply["ns"].append(time.perf_counter_ns() - began)
            reply["cpu_ns"].append(time.process_time_ns() - cpu)
        seen.add(part.stop - part.start)
    held, held_x = case.held_y[:, 0].astype(int), case.held_x.astype(case.dtype)
    program.probabilities(held_x)
    cpu, began = time.process_time_ns(), time.perf_counter_ns()
    p = program.probabilities(held_x)
    reply["held_ns"], reply["held_cpu_ns"] = time.perf_counter_ns() - began, time.process_time_ns() - cpu
    if len(reply["losses"]) == case.epochs * len(starts):
        reply["loss"] = float(-np.log(p[np.arange(len(held)), held]).mean())
        reply["metrics"] = {"accuracy": float((p.argmax(1) == held).mean())}
    return dict(reply, steps=len(starts))
