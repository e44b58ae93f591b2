#!/usr/bin/env python3
"""Writes losses.json, optimizers.json and metrics.json beside itself: tf-keras 2.18's rules evaluated in Python; the later rows of optimizers.json, and
metrics.json, by tf-keras itself.

The formulas are written down here from tf-keras' documentation and source (optimizers/{sgd,rmsprop,adam}.py, losses.py, backend.py),
independently of lib/model: losses (with their options and a sample's weight too) and their derivatives with 50 decimal digits (derivatives by central differences of step 1e-18),
the first optimizers in float64, Adam with powers instead of running products. No TensorFlow is needed for those.

    make.py losses       with any Python
    make.py optimizers   with tf-keras 2.18.0 and tensorflow-cpu 2.18.1: tf-keras in float64 makes the rows of keras_rows()
    make.py metrics      with the same two: tf_keras.metrics.AUC (float32) and tf.math.confusion_matrix
"""
import json, math, os, sys
from decimal import Decimal as D, getcontext

getcontext().prec = 60
here = os.path.dirname(os.path.abspath(__file__))
EPS = D("1e-7")


def lcg(seed):
    state = seed
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield state / 2.0**64 * 2 - 1


# ---- losses: last layer's values z -> activation -> loss, derivative by z ----
def sigmoid(z): return 1 / (1 + (-z).exp())
def clip(p): return min(max(p, EPS), 1 - EPS)


def activate(name, z):
    if name == "linear": return list(z)
    if name == "relu": return [max(v, D(0)) for v in z]
    if name == "tanh": return [((2 * v).exp() - 1) / ((2 * v).exp() + 1) for v in z]
    if name == "sigmoid": return [sigmoid(v) for v in z]
    e = [v.exp() for v in z]
    return [v / sum(e) for v in e]


def loss_of(loss, activation, z, y):
    p, k = activate(activation, z), len(z)
    if loss == "mse": return sum((a - b) ** 2 for a, b in zip(p, y)) / k
    if loss == "mae": return sum(abs(a - b) for a, b in zip(p, y)) / k
    if loss == "hinge":
        y = [2 * b - 1 if all(c in (0, 1) for c in y) else b for b in y]
        return sum(max(1 - a * b, D(0)) for a, b in zip(p, y)) / k
    if loss == "binary_crossentropy":
        if activation == "sigmoid":  # from logits
            return sum(max(a, D(0)) - a * b + (1 + (-abs(a)).exp()).ln() for a, b in zip(z, y)) / k
        q = [clip(a) for a in p]
        return -sum(b * (a + EPS).ln() + (1 - b) * (1 - a + EPS).ln() for a, b in zip(q, y)) / k
    if activation == "softmax":  # from logits
        return sum(v.exp() for v in z).ln() - sum(a * b for a, b in zip(z, y))
    return -sum(b * clip(a / sum(p)).ln() for a, b in zip(p, y))


def losses():
    rows, r = [], lcg(7)
    pick = {"mse": "real", "mae": "real", "hinge": "sign", "binary_crossentropy": "bit", "categorical_crossentropy": "hot"}
    for loss, labels in pick.items():
        for activation in ["linear", "relu", "tanh", "sigmoid", "softmax"]:
            for k in [1, 3] if labels != "hot" else [3]:
                if activation == "softmax" and k == 1: continue
                for case in range(3):
                    z = [next(r) * 2.5 for _ in range(k)]
                    if loss.endswith("crossentropy") and activation == "linear":
                        z = [abs(v) / 3 if case < 2 else 0.4 for v in z]
                        if case == 1 and k == 1: z = [1.75]  # clipped
                    if loss == "categorical_crossentropy" and activation in ("relu", "tanh"): z = [abs(v) + 0.1 for v in z]
                    draw = [next(r) for _ in range(k)]
                    y = {"real": draw, "sign": [1.0 if v >= 0 else -1.0 for v in draw], "bit": [1.0 if v >= 0 else 0.0 for v in draw],
                         "hot": [1.0 if i == case else 0.0 for i in range(k)]}[labels]
                    dz, dy, h = [D(v) for v in z], [D(v) for v in y], D("1e-18")
                    grad = []
                    for i in range(k):
                        up, down = list(dz), list(dz)
                        up[i] += h
                        down[i] -= h
                        grad.append(float((loss_of(loss, activation, up, dy) - loss_of(loss, activation, down, dy)) / (2 * h)))
                    rows.append({"loss": loss, "activation": activation, "z": z, "y": y,
                                 "p": [float(v) for v in activate(activation, dz)],
                                 "value": float(loss_of(loss, activation, dz, dy)), "gradient": grad})
    return rows


# ---- losses with options, and the weight of one sample: Keras' sum over the batch of weight times loss ----
def smoothed(y, s, rest): return [b * (1 - s) + rest * s for b in y]


def option_loss(loss, options, activation, z, y):
    p, k = activate(activation, z), len(z)
    if loss == "huber":
        delta = D(options.get("delta", 1.0))
        each = [abs(a - b) for a, b in zip(p, y)]
        return sum(e * e / 2 if e <= delta else delta * e - delta * delta / 2 for e in each) / k
    if loss == "log_cosh": return sum((((a - b).exp() + (b - a).exp()) / 2).ln() for a, b in zip(p, y)) / k
    y = smoothed(y, D(options.get("label_smoothing", 0.0)), D(1) / 2 if loss == "binary_crossentropy" else D(1) / k)
    if options.get("from_logits"):
        if loss == "binary_crossentropy":
            return sum(max(a, D(0)) - a * b + (1 + (-abs(a)).exp()).ln() for a, b in zip(p, y)) / k
        return sum(b * (sum(v.exp() for v in p).ln() - a) for a, b in zip(p, y))
    return loss_of(loss, activation, z, y)


def losses_with_options():
    rows, r = [], lcg(19)
    bce, cce = "binary_crossentropy", "categorical_crossentropy"
    kinds = [("huber", {}, "linear"), ("huber", {"delta": 0.5}, "linear"), ("huber", {"delta": 2.0}, "tanh"), ("huber", {}, "sigmoid"),
             ("log_cosh", {}, "linear"), ("log_cosh", {}, "relu"), ("log_cosh", {}, "softmax"), (bce, {"from_logits": True}, "linear"),
             (bce, {"from_logits": True}, "tanh"), (bce, {"label_smoothing": 0.1}, "sigmoid"), (bce, {"label_smoothing": 0.3}, "relu"),
             (bce, {"from_logits": True, "label_smoothing": 0.2}, "linear"), (cce, {"from_logits": True}, "linear"),
             (cce, {"from_logits": True}, "relu"), (cce, {"label_smoothing": 0.1}, "softmax"), (cce, {"label_smoothing": 0.25}, "relu"),
             (cce, {"from_logits": True, "label_smoothing": 0.2}, "linear")]
    for loss, options, activation in kinds:
        for k in [1, 3] if loss != cce and activation != "softmax" else [3]:
            for case in range(3):
                z, draw = [next(r) * 2.5 for _ in range(k)], [next(r) for _ in range(k)]
                y = {bce: [1.0 if v >= 0 else 0.0 for v in draw], cce: [1.0 if i == case else 0.0 for i in range(k)]}.get(loss, draw)
                if activation == "relu" and loss in (bce, cce) and not options.get("from_logits"):
                    z = [abs(v) / 3 + 0.05 for v in z]
                weight = [1.0, 0.25, 3.5][case]
                dz, dy, h, grad = [D(v) for v in z], [D(v) for v in y], D("1e-18"), []
                for i in range(k):
                    up, down = list(dz), list(dz)
                    up[i] += h
                    down[i] -= h
                    slope = option_loss(loss, options, activation, up, dy) - option_loss(loss, options, activation, down, dy)
                    grad.append(float(D(weight) * slope / (2 * h)))
                rows.append({"loss": loss, "options": options, "activation": activation, "weight": weight, "z": z, "y": y,
                             "p": [float(v) for v in activate(activation, dz)],
                             "value": float(D(weight) * option_loss(loss, options, activation, dz, dy)), "gradient": grad})
    return rows


# ---- optimizers ----
def rate(o, step):
    s, lr = o.get("schedule", {"kind": "constant"}), o["learning_rate"]
    if s["kind"] == "constant": return lr
    t = s["decay_steps"]
    if s["kind"] == "cosine":
        c = 0.5 * (1 + math.cos(math.pi * min(step, t) / t))
        return lr * ((1 - s["alpha"]) * c + s["alpha"])
    p = step / t
    if s["kind"] == "step" or s.get("staircase"): p = math.floor(p)
    return lr * s["decay_rate"] ** p


def clipped(o, tensors):
    if o.get("clipnorm"):
        out = []
        for g in tensors:
            norm = math.sqrt(sum(v * v for v in g))
            out.append([v * o["clipnorm"] / max(norm, o["clipnorm"]) for v in g])
        return out
    if o.get("global_clipnorm"):
        norm = math.sqrt(sum(v * v for g in tensors for v in g))
        return [[v * (o["global_clipnorm"] * min(1 / norm, 1 / o["global_clipnorm"])) for v in g] for g in tensors]
    c = o.get("clipvalue")
    return [[max(-c, min(c, v)) for v in g] for g in tensors] if c else tensors


def train(o, weights, gradients, sizes):
    w, n = list(weights), len(weights)
    a, b, c = [0.0] * n, [0.0] * n, [0.0] * n
    history = []
    for step, g in enumerate(gradients):
        split, at = [], 0
        for size in sizes:
            split.append(g[at:at + size])
            at += size
        g = [v for t in clipped(o, split) for v in t]
        lr = rate(o, step)
        for i in range(n):
            if o["name"] == "sgd":
                m = o.get("momentum", 0)
                a[i] = a[i] * m - lr * g[i]
                w[i] += a[i] * m - lr * g[i] if o.get("nesterov") and m else a[i] if m else -lr * g[i]
            elif o["name"] == "rmsprop":
                a[i] = o["rho"] * a[i] + (1 - o["rho"]) * g[i] ** 2
                den = a[i] + o["epsilon"]
                if o.get("centered"):
                    c[i] = o["rho"] * c[i] + (1 - o["rho"]) * g[i]
                    den = a[i] - c[i] ** 2 + o["epsilon"]
                inc = lr * g[i] / math.sqrt(den)
                if o.get("momentum"):
                    b[i] = o["momentum"] * b[i] + inc
                    inc = b[i]
                w[i] -= inc
            else:
                t = step + 1
                alpha = lr * math.sqrt(1 - o["beta_2"] ** t) / (1 - o["beta_1"] ** t)
                a[i] += (g[i] - a[i]) * (1 - o["beta_1"])
                b[i] += (g[i] ** 2 - b[i]) * (1 - o["beta_2"])
                c[i] = max(c[i], b[i])
                w[i] -= a[i] * alpha / (math.sqrt(c[i] if o.get("amsgrad") else b[i]) + o["epsilon"])
        history.append(list(w))
    return history


def optimizers():
    r, sizes, steps = lcg(11), [3, 2], 8
    adam = {"name": "adam", "learning_rate": 0.02, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}
    rms = {"name": "rmsprop", "learning_rate": 0.01, "rho": 0.9, "epsilon": 1e-7}
    sgd = {"name": "sgd", "learning_rate": 0.1}
    kinds = [sgd, dict(sgd, momentum=0.9), dict(sgd, momentum=0.9, nesterov=True), rms, dict(rms, momentum=0.8), dict(rms, centered=True),
             dict(rms, momentum=0.8, centered=True, epsilon=1e-3), adam, dict(adam, amsgrad=True), dict(adam, beta_1=0.5, epsilon=1e-3),
             dict(adam, clipvalue=0.3), dict(sgd, clipnorm=0.7), dict(sgd, global_clipnorm=0.9),
             dict(adam, schedule={"kind": "exponential", "decay_steps": 3, "decay_rate": 0.8}),
             dict(sgd, schedule={"kind": "exponential", "decay_steps": 3, "decay_rate": 0.8, "staircase": True}),
             dict(sgd, schedule={"kind": "step", "decay_steps": 2, "decay_rate": 0.5}),
             dict(sgd, schedule={"kind": "cosine", "decay_steps": 6, "alpha": 0.1})]
    rows = []
    for o in kinds:
        weights = [next(r) for _ in range(5)]
        gradients = [[next(r) for _ in range(5)] for _ in range(steps)]
        if o.get("amsgrad"): gradients = gradients[:2] + [[0.05 * v for v in g] for g in gradients[2:]]
        rows.append({"optimizer": o, "tensor_sizes": sizes, "weights": weights, "gradients": gradients,
                     "after": train(o, weights, gradients, sizes)})
    return rows


# ---- optimizers and schedules by tf-keras itself ----
def float64(o):
    """Python's numbers as NumPy's float64: tf-keras takes them for float32 otherwise."""
    import numpy
    return {k: numpy.float64(v) if isinstance(v, float) else v for k, v in o.items()}


def keras_schedule(tf_keras, s, rate):
    import numpy
    kind, rate, schedules = SCHEDULES[s["kind"]], numpy.float64(rate), tf_keras.optimizers.schedules
    s = float64({k: v for k, v in s.items() if k != "kind"})
    if "warmup_steps" in s and kind == "CosineDecay":  # Keras' own warm-up
        w = {"warmup_target": rate, "warmup_steps": s["warmup_steps"]}
        return schedules.CosineDecay(numpy.float64(s["warmup_from"]), s["decay_steps"], s["alpha"], **w)
    warmup, start = s.pop("warmup_steps", 0), s.pop("warmup_from", 0.0)
    if kind == "PiecewiseConstantDecay": inner = schedules.PiecewiseConstantDecay(s["boundaries"], [numpy.float64(v) for v in s["values"]])
    elif kind == "CosineDecayRestarts": inner = schedules.CosineDecayRestarts(rate, s.pop("decay_steps"), **s)
    elif kind == "PolynomialDecay": inner = schedules.PolynomialDecay(rate, s["decay_steps"], s["end"], s["power"], s["cycle"])
    else: inner = lambda n: rate

    class Warm(schedules.LearningRateSchedule):
        def __call__(self, n):
            import tensorflow as tf
            x = tf.cast(n, tf.float64)
            return (rate - start) * (x / warmup) + start if n < warmup else tf.cast(inner(n - warmup), tf.float64)
    return Warm() if warmup else inner


SCHEDULES = {"constant": "", "cosine": "CosineDecay", "cosine_restarts": "CosineDecayRestarts", "polynomial": "PolynomialDecay",
             "piecewise": "PiecewiseConstantDecay"}
CLASSES = {"sgd": "SGD", "rmsprop": "RMSprop", "adam": "Adam", "adamw": "AdamW", "nadam": "Nadam", "adagrad": "Adagrad", "adadelta": "Adadelta",
           "adamax": "Adamax", "lion": "Lion"}


def keras_train(tf, tf_keras, o, weights, gradients, sizes):
    """Weights after each step, and what fit() leaves in the model."""
    import numpy
    args = float64({k: v for k, v in o.items() if k not in ("name", "schedule")})
    if "schedule" in o: args["learning_rate"] = keras_schedule(tf_keras, o["schedule"], o["learning_rate"])
    optimizer = getattr(tf_keras.optimizers, CLASSES[o["name"]])(jit_compile=False, **args)
    ends = [sum(sizes[:i + 1]) for i in range(len(sizes))]
    split = lambda v: [numpy.array(v[e - s:e], "float64") for s, e in zip(sizes, ends)]
    variables = [tf.Variable(v, dtype=tf.float64) for v in split(weights)]
    flat, history = lambda: [float(x) for v in variables for x in v.numpy()], []
    for g in gradients:
        optimizer.apply_gradients(zip([tf.constant(v) for v in split(g)], variables))
        history.append(flat())
    optimizer.finalize_variable_values(variables)
    return history, flat()


def keras_rows():
    import tensorflow as tf, tf_keras
    import tensorflow.compat.v2 as v2
    tf_keras.backend.set_floatx("float64")
    cast = v2.cast  # Nadam's own 0.96 would be float32's
    v2.cast = lambda x, dtype, name=None: tf.constant(x, dtype) if isinstance(x, float) else cast(x, dtype, name)
    r, sizes, steps, rows = lcg(13), [3, 2], 24, []
    adamw = {"name": "adamw", "learning_rate": 0.02, "weight_decay": 0.1}
    adam, nadam = dict(adamw, name="adam", weight_decay=0.3), {"name": "nadam", "learning_rate": 0.02}
    adagrad, sgd = {"name": "adagrad", "learning_rate": 0.1}, {"name": "sgd", "learning_rate": 0.1}
    adadelta, adamax = {"name": "adadelta", "learning_rate": 1.0}, {"name": "adamax", "learning_rate": 0.02}
    lion, rms = {"name": "lion", "learning_rate": 0.02}, {"name": "rmsprop", "learning_rate": 0.01, "weight_decay": 0.2}
    polynomial = {"kind": "polynomial", "decay_steps": 7, "end": 0.01, "power": 1.0, "cycle": False}
    restarts = {"kind": "cosine_restarts", "decay_steps": 5, "t_mul": 2.0, "m_mul": 1.0, "alpha": 0.0}
    piecewise = {"kind": "piecewise", "boundaries": [4, 9, 10], "values": [0.1, 0.05, 0.2, 0.01]}
    kinds = [adamw, {"name": "adamw", "learning_rate": 0.02}, dict(adamw, amsgrad=True, epsilon=1e-3), nadam, dict(nadam, beta_1=0.5, beta_2=0.99, epsilon=1e-3),
             dict(nadam, weight_decay=0.2), adagrad, dict(adagrad, initial_accumulator_value=0.5, epsilon=1e-3), adadelta,
             dict(adadelta, rho=0.8, epsilon=1e-4, weight_decay=0.01), adamax, dict(adamax, beta_1=0.8, beta_2=0.9, epsilon=1e-3, weight_decay=0.1), lion,
             dict(lion, beta_1=0.5, beta_2=0.8, weight_decay=0.1), dict(sgd, momentum=0.9, nesterov=True, weight_decay=0.2), rms, dict(adam, clipnorm=0.7),
             dict(sgd, use_ema=True), dict(adam, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=5),
             dict(adamw, schedule=dict(polynomial, warmup_steps=4, warmup_from=0.0)), dict(nadam, schedule=restarts),
             dict(adagrad, schedule=piecewise, weight_decay=0.1, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=7)]
    for o in kinds:
        weights = [next(r) for _ in range(5)]
        gradients = [[next(r) for _ in range(5)] for _ in range(steps)]
        if o.get("amsgrad"): gradients = gradients[:4] + [[0.05 * v for v in g] for g in gradients[4:]]
        after, result = keras_train(tf, tf_keras, o, weights, gradients, sizes)
        rows.append({"optimizer": o, "tensor_sizes": sizes, "weights": weights, "gradients": gradients, "after": after, "result": result})
    warm = {"warmup_steps": 6, "warmup_from": 0.02}
    for s in [polynomial, dict(polynomial, power=2.5), dict(polynomial, power=0.5, cycle=True), dict(polynomial, **warm), restarts,
              dict(restarts, t_mul=1.0, m_mul=0.75), dict(restarts, decay_steps=4, t_mul=1.5, m_mul=0.9, alpha=0.1), dict(restarts, decay_steps=3, t_mul=3.0, m_mul=1.25),
              dict(restarts, **warm), piecewise, dict(piecewise, **warm), {"kind": "cosine", "decay_steps": 20, "alpha": 0.1, **warm}, {"kind": "constant", **warm}]:
        schedule = keras_schedule(tf_keras, s, 0.1)
        rows.append({"optimizer": dict(sgd, schedule=s), "rates": [float(schedule(tf.constant(n, tf.int64))) for n in range(45)]})
    return rows


# ---- metrics of counts: outputs z and labels y of many samples -> AUC, confusion matrix ----
def metrics():
    import tensorflow as tf, tf_keras
    r, rows = lcg(23), []

    def row(loss, k, logits, n, spread, labels):
        # no output lies within 1e-4 of a threshold, where float32 could decide otherwise
        z = [[round(spread * next(r), 2) + 0.0037 if logits else round(0.5 + 0.5 * next(r), 2) + 0.0013 for _ in range(k)] for _ in range(n)]
        y = []
        for i in range(n):
            hot = int(k * (0.5 + 0.5 * next(r)))
            y.append([1.0 if j == hot else 0.0 for j in range(k)] if labels == "hot" else [float(labels == 1 or (labels == "bit" and next(r) + z[i][j] - 0.4 > 0)) for j in range(k)])
        p = tf.constant(z, tf.float32)
        if logits: p = tf.nn.softmax(p) if labels == "hot" else tf.sigmoid(p)
        auc = tf_keras.metrics.AUC()
        auc.update_state(tf.constant(y, tf.float32), p)
        if labels == "hot": true, answer = tf.argmax(y, 1), tf.argmax(z, 1)
        else: true, answer = tf.reshape(tf.constant(y), -1), tf.reshape(tf.constant([[float(v > (0 if logits else 0.5)) for v in s] for s in z]), -1)
        matrix = tf.math.confusion_matrix(tf.cast(true, tf.int64), tf.cast(answer, tf.int64), k if labels == "hot" else 2)
        return {"loss": loss, "from_logits": logits, "k": k, "z": z, "y": y, "auc": float(auc.result()), "confusion_matrix": matrix.numpy().tolist()}

    for loss, k, labels in [("binary_crossentropy", 1, "bit"), ("binary_crossentropy", 3, "bit"), ("categorical_crossentropy", 2, "hot"), ("categorical_crossentropy", 4, "hot")]:
        for logits in False, True:
            for n in 1, 7, 60: rows.append(row(loss, k, logits, n, 4, labels))
    rows += [row("binary_crossentropy", 1, False, 9, 1, 1), row("binary_crossentropy", 1, True, 9, 1, 0)]
    return rows


for name, made in [("losses", lambda: losses() + losses_with_options()), ("optimizers", lambda: optimizers() + keras_rows()), ("metrics", metrics)]:
    if name not in (sys.argv[1:] or ["losses", "optimizers", "metrics"]): continue
    rows = made()
    with open(os.path.join(here, name + ".json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
