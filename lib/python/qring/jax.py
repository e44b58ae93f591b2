"""Quantum circuits as JAX functions. Start reading at :func:`expval`.

Compiled programs call libqring through XLA's foreign function interface (lib/api/xla_ffi.c), so no
Python runs in them.

>>> import jax, jax.numpy as jnp, qring, qring.jax
>>> f = qring.jax.expval(qring.Circuit(2).rx("x[0]", 0).ry("w0", 0).cnot(0, 1), ["Z0", "Z1"])
>>> f(jnp.zeros(1), jnp.zeros((5, 1))).shape
(5, 2)
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import threading
import weakref
from pathlib import Path
from typing import Any, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from . import _library
from ._function_set import FunctionSet
from .circuit import Circuit
from .function import DType, Function

__all__ = ["Expval", "expval"]


# ---- handlers ----


def _minor_version() -> int:
    """Return the minor version of the running XLA's interface; -1 if its header is missing."""
    header = Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
    try:
        found = re.search(r"^#define XLA_FFI_API_MINOR (\d+)", header.read_text(), re.MULTILINE)
    except OSError:
        return -1
    return int(found[1]) if found else -1


def _load() -> ctypes.CDLL:
    """Load the handlers and register them with JAX."""
    path = Path(__file__).with_name("_xla.so")
    if not path.exists():
        path = Path(os.environ.get("QRING_XLA", path))
    try:
        handlers = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(
            f"cannot load the handlers for JAX: {error}; install the wheel, or set QRING_XLA to "
            "the path of _xla.so (make xla)"
        ) from None
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    handlers.qring_xla_bind.argtypes = [pointer, pointer, pointer, ctypes.c_int]
    handlers.qring_xla_bind.restype = None
    handlers.qring_xla_add.argtypes = [pointer, size, size, size]
    handlers.qring_xla_add.restype = ctypes.c_int64
    handlers.qring_xla_remove.argtypes = [ctypes.c_int64]
    handlers.qring_xla_remove.restype = None
    lib = _library.lib
    calls = (lib.qring_forward, lib.qring_vjp, lib.qring_jacobian)
    handlers.qring_xla_bind(*(ctypes.cast(c, pointer) for c in calls), _minor_version())
    for name in ("qring_xla_forward", "qring_xla_vjp"):
        capsule = jax.ffi.pycapsule(getattr(handlers, name))  # type: ignore[no-untyped-call]
        jax.ffi.register_ffi_target(name, capsule, platform="cpu", api_version=1)
    return handlers


_handlers = _load()


def _remove(number: int, function: Function) -> None:
    # The function is an argument so that it is freed after its number was removed.
    _handlers.qring_xla_remove(number)


# ---- functions ----


def _shape(shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]


class Expval:
    """Expectation values of a circuit as a JAX function ``f(weights, inputs)``.

    Made by :func:`expval`. It must live as long as compiled programs that call it.
    """

    def __init__(self, functions: FunctionSet) -> None:
        self._functions = functions
        self._lock = threading.Lock()
        self._numbers: dict[tuple[str, bool], int] = {}
        self._differentiable = jax.custom_vjp(self._values)
        # With symbolic zeros, derivatives by inputs are only computed where they are used.
        self._differentiable.defvjp(self._forward, self._backward, symbolic_zeros=True)

    def __reduce__(self) -> tuple[Any, ...]:
        return Expval, (self._functions,)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters, in natural order (w2 before w10)."""
        return self._functions.parameters

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs, in order of columns."""
        return self._functions.inputs

    @property
    def n_qubits(self) -> int:
        """Number of qubits."""
        return self._functions.n_qubits

    @property
    def n_outputs(self) -> int:
        """Number of observables, R."""
        return self._functions.n_outputs

    def draw(self, columns: int = 100, format: str = "text") -> str:
        """Draw the circuit; as :meth:`Circuit.draw`."""
        return self._functions.draw(columns, format)

    def __repr__(self) -> str:
        shots = self._functions.options["shots"]
        return (
            f"qring.jax.expval({self.n_qubits} qubits, {len(self.parameters)} parameters, "
            f"{len(self.inputs)} inputs, {self.n_outputs} outputs"
            f"{f', {shots} shots' if shots else ''})"
        )

    def _number(self, dtype: Any, by_inputs: bool) -> np.int64:
        """Return the number by which programs call the function for a dtype of weights."""
        key = (np.dtype(dtype).name, by_inputs)
        with self._lock:
            if key not in self._numbers:
                # Compiled for this object alone: the handlers' mutex does not exclude Python calls.
                function = self._functions.get(*key)
                sizes = len(function.parameters), len(function.inputs), function.n_outputs
                number = _handlers.qring_xla_add(function._handle, *sizes)
                if not number:
                    raise MemoryError("cannot register a function with JAX: out of memory")
                weakref.finalize(self, _remove, number, function)
                self._numbers[key] = number
            return np.int64(self._numbers[key])

    def _call(self, weights: Any, samples: Any, by_inputs: bool) -> Any:
        shape = _shape((samples.shape[0], self.n_outputs), weights.dtype)
        call: Any = jax.ffi.ffi_call("qring_xla_forward", shape, vmap_method="expand_dims")
        return call(weights, samples, function=self._number(weights.dtype, by_inputs))

    def _values(self, weights: Any, samples: Any) -> Any:
        return self._call(weights, samples, False)

    def _forward(self, weights: Any, samples: Any) -> Any:
        by_inputs = bool(samples.perturbed and self.inputs)
        values = self._call(weights.value, samples.value, by_inputs)
        # The last residual tells by its structure whether derivatives by inputs are needed.
        return values, (weights.value, samples.value, () if by_inputs else None)

    def _backward(self, residuals: Any, cotangents: Any) -> Any:
        weights, samples, marker = residuals
        by_inputs = marker is not None
        if isinstance(cotangents, jax.custom_derivatives.SymbolicZero):
            return jnp.zeros_like(weights), jnp.zeros_like(samples)
        shapes = [_shape(weights.shape, weights.dtype)]
        if by_inputs:
            shapes.append(_shape(samples.shape, samples.dtype))
        call: Any = jax.ffi.ffi_call("qring_xla_vjp", shapes, vmap_method="expand_dims")
        number = self._number(weights.dtype, by_inputs)
        found = call(weights, samples, cotangents, function=number)
        return found[0], found[1] if by_inputs else jnp.zeros_like(samples)

    def __call__(self, weights: Any, inputs: Any = None) -> jax.Array:
        """Compute expectation values.

        Parameters
        ----------
        weights : array_like, (P,)
            In the order of `parameters`, float32 or (with ``jax_enable_x64``) float64.
        inputs : array_like, (..., I), optional
            Needed if the circuit has inputs.

        Returns
        -------
        jax.Array, (..., R)
            Of the common dtype of weights and inputs.
        """
        weights = jnp.asarray(weights)
        n = len(self.parameters)
        if weights.shape != (n,):
            raise ValueError(
                f"cannot use weights of shape {weights.shape}: the circuit has {n} parameters; "
                f"give shape ({n},), and use jax.vmap for many"
            )
        samples = jnp.zeros((1, 0), weights.dtype) if inputs is None else jnp.asarray(inputs)
        shape = None if inputs is None else samples.shape
        self._functions.check_inputs(shape)
        dtype = jnp.result_type(weights, samples)
        if jnp.issubdtype(dtype, jnp.integer):
            dtype = jnp.result_type(float)
        if dtype not in (jnp.float32, jnp.float64):
            raise TypeError(f"cannot use numbers of {dtype}: give float32 or float64")
        batch = () if shape is None else shape[:-1]
        rows = samples.reshape(math.prod(samples.shape[:-1]), len(self.inputs))
        values: jax.Array = self._differentiable(weights.astype(dtype), rows.astype(dtype))
        return values.reshape(*batch, self.n_outputs)


def expval(
    circuit: Circuit | dict[str, Any],
    observables: str | Sequence[str],
    dtype: DType | None = None,
    threads: int | None = None,
    method: str = "auto",
    trajectories: int | None = None,
    seed: int = 0,
    shots: int | None = None,
    gradient: str = "adjoint",
) -> Expval:
    """Compile a circuit and its observables to a JAX function.

    The function works under ``jit``, ``vmap`` and ``grad`` (reverse mode, first derivatives, by
    weights and inputs), on CPU devices. A batch of inputs in one call is faster than ``vmap``.

    Parameters
    ----------
    circuit : qring.Circuit or dict
        The circuit, or the circuit object of a job file.
    observables : str or sequence of str
        Sums of products of Paulis, for example ``"Z0"`` or ``["Z0", "0.5*X0 Z1"]``.
    dtype : str or numpy.dtype, optional
        float32 or float64, the precision of amplitudes. Default: that of the arrays of a call.
    threads : int, optional
        Default: all processors that this process may use. Results do not depend on it.
    method, trajectories, seed, shots, gradient
        How noise channels and shots are simulated, as for :func:`qring.expval`.

    Returns
    -------
    Expval
        A function of weights (P,) and inputs (..., I), which returns values (..., R).

    Examples
    --------
    >>> import jax, jax.numpy as jnp, qring, qring.jax
    >>> f = qring.jax.expval(qring.Circuit(1).rx("x[0]", 0).ry("w0", 0), "Z0")
    >>> jax.jit(jax.grad(lambda w, x: f(w, x).sum()))(jnp.zeros(1), jnp.zeros((3, 1))).shape
    (1,)
    """
    options = (dtype, threads, method, trajectories, seed, shots, gradient)
    return Expval(FunctionSet(circuit, observables, *options))
