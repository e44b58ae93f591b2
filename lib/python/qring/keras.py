"""Quantum circuits as layers of Keras 3. Start reading at :class:`Layer`.

>>> import keras, qring, qring.keras
>>> circuit = qring.Circuit(2).rx("x[0]", 0).ry("w0", 0).cnot(0, 1).ry("w1", 1)
>>> model = keras.Sequential([keras.layers.Dense(1), qring.keras.Layer(circuit, ["Z0", "Z1"])])
>>> model(keras.ops.zeros((5, 3))).shape[1]
2
"""

from __future__ import annotations

import math
from typing import Any, Callable, Sequence

import keras  # type: ignore[import-untyped,unused-ignore]
import numpy as np

from ._function_set import CircuitNames, FunctionSet
from .circuit import Circuit
from .function import DType

__all__ = ["Layer"]

if not hasattr(keras, "config") or not hasattr(keras, "KerasTensor"):
    raise ImportError(
        f"cannot use Keras {getattr(keras, '__version__', '')}: qring.keras needs Keras 3; pip "
        "install -U keras"
    )

Call = Callable[[Any, Any], Any]

# ---- backends ----
#
# Each returns a function of weights (P,) and inputs (..., I), differentiable in its framework.


def _torch_call(functions: FunctionSet) -> Call:
    from . import torch as backend

    number = backend._register(functions)
    return lambda weights, inputs: backend._call(functions, number, weights, inputs)


def _jax_call(functions: FunctionSet) -> Call:
    from . import jax as backend

    return backend.Expval(functions)


def _tensorflow_call(functions: FunctionSet) -> Call:
    import tensorflow as tf  # type: ignore[import-untyped,unused-ignore]

    # TensorFlow has no stable C interface for operators: its graph calls Python, which costs some
    # microseconds and releases the interpreter's lock during the simulation.
    def forward(weights: Any, samples: Any) -> Any:
        # The function of the derivatives, which keeps the weights' gates for them.
        function = functions.get(weights.dtype.name, True)
        return function.forward(weights, samples).astype(weights.dtype, copy=False)

    def vjp(weights: Any, samples: Any, cotangents: Any) -> Any:
        function = functions.get(weights.dtype.name, True)
        by_weights, by_inputs = function.vjp(weights, samples, cotangents)
        by_inputs = np.zeros_like(samples) if by_inputs is None else by_inputs
        return tuple(a.astype(weights.dtype, copy=False) for a in (by_weights, by_inputs))

    @tf.custom_gradient  # type: ignore[untyped-decorator,unused-ignore]
    def flat(weights: Any, samples: Any) -> Any:
        dtype = weights.dtype
        values = tf.numpy_function(forward, [weights, samples], dtype, stateful=False)
        values = tf.ensure_shape(values, (samples.shape[0], functions.n_outputs))

        def pull(cotangents: Any) -> Any:
            arguments = [weights, samples, cotangents]
            found = tf.numpy_function(vjp, arguments, [dtype, dtype], stateful=False)
            return (
                tf.ensure_shape(found[0], weights.shape),
                tf.ensure_shape(found[1], samples.shape),
            )

        return values, pull

    def call(weights: Any, inputs: Any) -> Any:
        rows = tf.reshape(inputs, (-1, len(functions.inputs))) if functions.inputs else inputs
        if rows.shape.rank != 2:
            raise ValueError(
                "cannot call a circuit without inputs with this batch: give inputs of shape (B, 0)"
            )
        shape = tf.concat([tf.shape(inputs)[:-1], [functions.n_outputs]], 0)
        return tf.reshape(flat(weights, rows), shape)

    return call


def _numpy_call(functions: FunctionSet) -> Call:
    def call(weights: Any, inputs: Any) -> Any:
        rows = inputs.reshape(math.prod(inputs.shape[:-1]), len(functions.inputs))
        values = functions.get(weights.dtype.name).forward(weights, rows)
        return values.astype(weights.dtype).reshape(*inputs.shape[:-1], functions.n_outputs)

    return call


_CALLS: dict[str, Callable[[FunctionSet], Call]] = {
    "torch": _torch_call,
    "jax": _jax_call,
    "tensorflow": _tensorflow_call,
    "numpy": _numpy_call,
}

# ---- layer ----


@keras.saving.register_keras_serializable(package="qring")  # type: ignore[untyped-decorator,unused-ignore]
class Layer(CircuitNames, keras.layers.Layer):  # type: ignore[misc,unused-ignore]
    """Expectation values of a circuit as a Keras layer, on every backend that trains.

    P is the number of parameters of the circuit, I of inputs, R of observables. Inputs have shape
    (..., I), outputs (..., R). Derivatives by weights and inputs are exact (adjoint
    differentiation). A saved model contains the circuit; to load one, import ``qring.keras`` first.

    Parameters
    ----------
    circuit : qring.Circuit or dict
        The circuit, or the circuit object of a job file.
    observables : str or sequence of str
        Sums of products of Paulis, for example ``"Z0"`` or ``["Z0", "0.5*X0 Z1"]``.
    precision : str or numpy.dtype, optional
        float32 or float64, the precision of amplitudes. Default: that of the layer's ``dtype``.
    threads : int, optional
        Default: all processors that this process may use. Results do not depend on it.
    method, trajectories, seed, shots, gradient
        How noise channels and shots are simulated, as for :func:`qring.expval`.
    initializer : str, dict or keras.Initializer, optional
        Of the weights. Default: uniform in [0, 2 pi).
    **kwargs
        Of ``keras.layers.Layer``: ``name``, ``dtype``, ``trainable``.

    Examples
    --------
    >>> import keras, qring, qring.keras
    >>> layer = qring.keras.Layer(qring.Circuit(1).rx("x[0]", 0).ry("w0", 0), "Z0")
    >>> layer(keras.ops.zeros((3, 1))).shape[1]
    1
    """

    def __init__(
        self,
        circuit: Circuit | dict[str, Any],
        observables: str | Sequence[str],
        *,
        precision: DType | None = None,
        threads: int | None = None,
        method: str = "auto",
        trajectories: int | None = None,
        seed: int = 0,
        shots: int | None = None,
        gradient: str = "adjoint",
        initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        options = (precision, threads, method, trajectories, seed, shots, gradient)
        self._functions = FunctionSet(circuit, observables, *options)
        self._initializer = keras.initializers.get(
            initializer or keras.initializers.RandomUniform(0.0, 2 * math.pi)
        )
        backend = keras.config.backend()
        if backend not in _CALLS:
            raise ImportError(
                f"cannot use the Keras backend {backend!r}: it is not supported; set KERAS_BACKEND "
                f"to {', '.join(_CALLS)}"
            )
        self._evaluate = _CALLS[backend](self._functions)
        if backend == "tensorflow":
            self.supports_jit = False  # XLA cannot compile calls of Python

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights.

        Parameters
        ----------
        input_shape : tuple of int or None
            (..., I).
        """
        self._functions.check_inputs(tuple(input_shape))  # type: ignore[arg-type]
        self.weight = self.add_weight(
            shape=(len(self._functions.parameters),),
            initializer=self._initializer,
            autocast=False,
            name="weight",
        )
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Compute expectation values.

        Parameters
        ----------
        inputs : tensor, (..., I)
            Values of the inputs, in the order of `input_names`.

        Returns
        -------
        tensor, (..., R)
            Of the layer's compute dtype.
        """
        self._functions.check_inputs(tuple(inputs.shape))
        # 16-bit policies: the weights and the simulation stay in float32.
        dtype = self.compute_dtype if self.compute_dtype in ("float32", "float64") else "float32"
        weights = keras.ops.cast(keras.ops.convert_to_tensor(self.weight), dtype)
        values = self._evaluate(weights, keras.ops.cast(inputs, dtype))
        return keras.ops.cast(values, self.compute_dtype)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return (..., R) for (..., I)."""
        return (*input_shape[:-1], self._functions.n_outputs)

    def compute_output_spec(self, inputs: Any) -> Any:
        """Return shape and dtype of the outputs without a simulation."""
        self._functions.check_inputs(tuple(inputs.shape))
        shape = self.compute_output_shape(inputs.shape)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor; the circuit as a job file's object."""
        functions = self._functions
        return {
            **super().get_config(),
            "circuit": functions.circuit,
            "observables": list(functions.observables),
            "precision": functions.dtype,
            "threads": functions.threads,
            **functions.options,
            "initializer": keras.initializers.serialize(self._initializer),
        }
