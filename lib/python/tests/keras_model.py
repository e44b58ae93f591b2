"""Program of test_keras.py: runs one action on the backend in KERAS_BACKEND.

usage: keras_model.py derivatives|train FILE|predict FILE|misuse|noise|shots
"""

from __future__ import annotations

import json
import sys

import keras
import numpy as np
from framework_model import OBSERVABLES, SHOTS, circuit, data

import qring
import qring.keras


def samples() -> np.ndarray:
    """Return the inputs (24, 4) of the trained model."""
    return np.random.default_rng(3).uniform(-1, 1, (24, 4)).astype("float32")


def layer_with(w: np.ndarray, dtype: str, **options: object) -> qring.keras.Layer:
    """Return a built layer with the given weights."""
    layer = qring.keras.Layer(circuit(), OBSERVABLES, dtype=dtype, **options)
    layer = qring.keras.Layer.from_config(layer.get_config())
    layer.build((None, 3))
    layer.weight.assign(w)
    return layer


def gradients(layer: qring.keras.Layer, w: np.ndarray, x: np.ndarray, c: np.ndarray) -> list:
    """Return values and derivatives of (values * c).sum() by weights and inputs."""
    backend = keras.config.backend()
    if backend == "torch":
        import torch

        at = torch.tensor(x, requires_grad=True)
        values = layer(at)
        values.backward(torch.tensor(c))
        return [values.detach().numpy(), layer.weight.value.grad.numpy(), at.grad.numpy()]
    if backend == "jax":
        import jax

        def call(w: object, x: object) -> object:
            return layer.stateless_call([w], [], x)[0]

        values, pull = jax.vjp(call, w, x)
        return [values, *pull(c)]
    import tensorflow as tf

    at = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(at)
        values = layer(at)
    return [values, *tape.gradient(values, [layer.weight.value, at], c)]


def derivatives(**options: object) -> dict[str, object]:
    """Compare with qring.Function with the same options."""
    largest = {}
    for dtype in ("float64", "float32"):
        if dtype == "float64" and keras.config.backend() == "jax":
            import jax

            jax.config.update("jax_enable_x64", True)
        w, x = (a.astype(dtype) for a in data(7))
        c = np.random.default_rng(1).normal(size=(7, 2)).astype(dtype)
        found = gradients(layer_with(w, dtype, **options), w, x, c)
        f = qring.expval(circuit(), OBSERVABLES, dtype=dtype, **options)
        expected = f.value_and_vjp(w, x, c)
        largest[dtype] = max(
            float(np.abs(np.asarray(a) - b.astype(dtype)).max()) for a, b in zip(found, expected)
        )
    return largest


def train(path: str) -> dict[str, object]:
    """Train a model some steps and save it."""
    keras.utils.set_random_seed(0)
    x = samples()
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(3),
            qring.keras.Layer(circuit(), OBSERVABLES, name="circuit", threads=1),
            keras.layers.Dense(1),
        ]
    )
    model.compile(keras.optimizers.Adam(0.05), "mse")
    history = model.fit(x, np.sin(x.sum(1, keepdims=True)), epochs=8, batch_size=8, verbose=0)
    model.save(path)
    shape = list(model.get_layer("circuit").output.shape)
    return {
        "loss": history.history["loss"],
        "shape": shape,
        "predictions": model.predict(x, verbose=0).tolist(),
    }


def predict(path: str) -> dict[str, object]:
    """Load a model and predict."""
    model = keras.saving.load_model(path)
    layer = model.get_layer("circuit")
    return {
        "predictions": model.predict(samples(), verbose=0).tolist(),
        "circuit": layer.get_config()["circuit"] == circuit().to_json(),
        "observables": layer.get_config()["observables"] == OBSERVABLES,
        "threads": layer.get_config()["threads"],
        "names": layer.parameter_names,
    }


def misuse() -> dict[str, object]:
    """Return messages of wrong calls, and the dtype under a 16-bit policy."""
    w, x = data(4)
    layer = layer_with(w.astype("float32"), "float32")
    messages = []
    for call in (
        lambda: layer(x[:, :2].astype("float32")),
        lambda: qring.keras.Layer(circuit(), "Z7"),
        lambda: qring.keras.Layer(circuit(), "Z0")(keras.Input((4,))),
    ):
        try:
            call()
            messages.append("no error")
        except (ValueError, qring.QringError) as error:
            messages.append(str(error))
    half = qring.keras.Layer(circuit(), OBSERVABLES, dtype="mixed_bfloat16")
    values = half(keras.ops.convert_to_tensor(x.astype("float32")))
    again = qring.keras.Layer.from_config(half.get_config())
    return {
        "messages": messages,
        "dtype": keras.backend.standardize_dtype(values.dtype),
        "weight": keras.backend.standardize_dtype(half.weight.dtype),
        "policy": again.dtype_policy.name,
        "batch": list(layer(x.reshape(2, 2, 3).astype("float32")).shape),
    }


def noise() -> dict[str, object]:
    """Return the largest difference to the function with the same options, after a copy."""
    options = {"method": "trajectories", "trajectories": 8, "seed": 5}
    noisy = qring.Circuit(1).rx("x[0]", 0).ry("w", 0).channel("BitFlip", 0, p=0.2)
    layer = qring.keras.Layer.from_config(qring.keras.Layer(noisy, "Z0", **options).get_config())
    x = np.linspace(-1, 1, 20, dtype="float32")[:, None]
    got = keras.ops.convert_to_numpy(layer(keras.ops.convert_to_tensor(x)))
    w = keras.ops.convert_to_numpy(layer.weight)
    want = qring.expval(noisy, "Z0", "float32", **options)(w, x)
    return {"difference": float(np.abs(got - want).max())}


if __name__ == "__main__":
    action = {
        "derivatives": derivatives,
        "train": train,
        "predict": predict,
        "misuse": misuse,
        "noise": noise,
        "shots": lambda: derivatives(**SHOTS),
    }
    print(json.dumps(action[sys.argv[1]](*sys.argv[2:])))
