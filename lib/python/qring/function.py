"""Expectation values of circuits and their exact derivatives. Start reading at :func:`expval`."""

from __future__ import annotations

import ctypes
import operator
import os
import threading
import weakref
from typing import Any, NamedTuple, Union

import numpy as np
import numpy.typing as npt

from ._library import FLOAT32, FLOAT64, Array, Error, Options, failure, lib, utf8
from ._observables import is_operator, observable_text
from ._write import draw
from .circuit import Circuit, _integer

__all__ = ["Function", "SampleFunction", "StateFunction", "Sum", "expval", "sample", "state"]

Floats = npt.NDArray[np.float64]
DType = Union[str, type, "np.dtype[Any]"]

_DTYPES: dict[Any, int] = {np.dtype(np.float32): FLOAT32, np.dtype(np.float64): FLOAT64}
_ISAS = ("auto", "portable", "avx2", "avx512", "neon")
_METHODS = ("auto", "exact", "density", "trajectories")
_GRADIENTS = ("adjoint", "parameter-shift")
# Five times faster than ndarray.ctypes.data.
_buffer: Any = (ctypes.c_char * 0).from_buffer
_address = ctypes.addressof


class Shape(NamedTuple):
    """Sizes of a function."""

    parameters: int
    inputs: int
    outputs: int


# ---- arguments ----


def _floats(value: Any, what: str) -> npt.NDArray[Any]:
    """Return an array of float32 or float64, without a copy where the value is one."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"cannot use the {what}: {error}; give an array of numbers") from None
    if array.dtype in _DTYPES:
        return array
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"cannot use the {what}: dtype {array.dtype} is not real; give float32 or float64"
        )
    with np.errstate(over="ignore"):  # the library rejects infinities
        return array.astype(np.float64)


class _Argument:
    """A struct qring_array that is filled again for each call, which is faster than a new one."""

    __slots__ = ("pointer", "strides", "struct")

    def __init__(self) -> None:
        self.struct = Array()
        self.strides = self.struct.strides
        self.pointer = ctypes.byref(self.struct)

    def fill(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Refer to the array; returns the array to keep until after the call."""
        try:
            address = _address(_buffer(array))
        except (TypeError, ValueError, BufferError):  # read-only or not contiguous
            address = array.__array_interface__["data"][0]
        strides = array.strides
        bits = address
        for stride in strides:
            bits |= stride
        if bits & (array.itemsize - 1):  # a field of a packed record: C reads aligned numbers only
            return self.fill(array.copy())
        struct = self.struct
        struct.data = address
        struct.dtype = _DTYPES[array.dtype]
        n = len(strides)
        if n == 1:
            self.strides[0] = strides[0]
        elif n == 2:
            self.strides[0], self.strides[1] = strides
        else:
            self.strides[:n] = strides
        return array


def _check_threads(threads: int | None) -> int:
    if threads is None:
        return 0
    if isinstance(threads, bool):
        raise TypeError(f"cannot use {threads!r} threads: give an integer or None")
    try:
        n = operator.index(threads)
    except TypeError:
        raise TypeError(f"cannot use {threads!r} threads: give an integer or None") from None
    if not 1 <= n <= 4096:
        raise ValueError(f"cannot use {n} threads: give 1 to 4096, or None for all processors")
    return n


def _check_dtype(dtype: DType) -> np.dtype[Any]:
    found = np.dtype(dtype)
    if found not in _DTYPES:
        raise ValueError(f"cannot compute in {found}: it is not supported; use float32 or float64")
    return found


def _check_observables(observables: Any, circuit: Any) -> tuple[str, ...]:
    one = isinstance(observables, str) or is_operator(observables)
    numbers = getattr(circuit, "_qubit_numbers", None)
    try:
        given = (observables,) if one else tuple(observables)
    except TypeError:
        raise TypeError(
            f"cannot measure {observables!r}: it is not an observable; give a text such as "
            "'X0 Z1', an operator or a sequence of these"
        ) from None
    texts = tuple(observable_text(o, numbers) if is_operator(o) else o for o in given)
    if not texts:
        raise ValueError("cannot measure: the list of observables is empty; give one, such as Z0")
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"cannot use {text!r} as an observable: give a text such as 'X0 Z1'")
        if "\0" in text:
            raise ValueError(f"cannot use {text!r} as an observable: it contains a NUL; remove it")
    return texts


# ---- locks ----

_locked: weakref.WeakSet[Any] = weakref.WeakSet()


def _new_lock(owner: Any) -> Any:
    """Return the lock of a new object."""
    _locked.add(owner)
    return threading.RLock()


def _renew_locks() -> None:
    """Replace all locks in the child of a fork, where the threads that hold them do not exist."""
    for owner in list(_locked):
        owner._lock = threading.RLock()


def _unheld(lock: Any, what: str) -> Any:
    """Return the lock, for a with statement.

    A thread that holds it already is in a signal handler, which runs within the call: waiting would
    not end, and the call's arguments must not be overwritten.
    """
    if lock._is_owned():
        raise RuntimeError(
            f"cannot {what}, as from a signal handler; set a flag there and call afterwards"
        )
    return lock


os.register_at_fork(after_in_child=_renew_locks)


# ---- functions ----


class _Handle:
    """A compiled circuit: owns a struct qring_function."""

    _free = staticmethod(lib.qring_function_free)
    _handle: int | None = None

    def __init__(
        self,
        circuit: Circuit | dict[str, Any],
        observables: tuple[str, ...],
        dtype: DType,
        threads: int | None,
        isa: str,
        input_gradients: bool,
        states: bool,
        method: str = "auto",
        trajectories: int | None = None,
        seed: int = 0,
        shots: int | None = None,
        gradient: str = "adjoint",
    ) -> None:
        if isinstance(circuit, dict):
            circuit = Circuit.from_json(circuit)
        if not isinstance(circuit, Circuit):
            raise TypeError(
                f"cannot compile {circuit!r}: it is not a circuit; give a qring.Circuit"
            )
        if isa not in _ISAS:
            raise ValueError(
                f"cannot use isa {isa!r}: it is unknown; use one of {', '.join(_ISAS)}"
            )
        for what, name, known in (("method", method, _METHODS), ("gradient", gradient, _GRADIENTS)):
            if name not in known:
                raise ValueError(
                    f"cannot use {what} {name!r}: it is unknown; use one of {', '.join(known)}"
                )
        self._method = method
        self._gradient = gradient
        self._shots = None if shots is None else _integer(shots, "shots", 1, 1 << 24)
        self._trajectories = trajectories
        if trajectories is not None:
            self._trajectories = _integer(trajectories, "trajectories", 1, 1 << 20)
        self._seed = _integer(seed, "a seed", 0, (1 << 64) - 1)
        self._text = circuit._text()
        self._observables = observables
        self._dtype = _check_dtype(dtype)
        self._threads = _check_threads(threads)
        self._isa = isa
        self._input_gradients = bool(input_gradients)
        self._states = states
        self._compile()
        handle = self._handle
        n_inputs = lib.qring_n_inputs(handle)
        self._parameters = tuple(
            lib.qring_parameter_name(handle, i).decode()
            for i in range(lib.qring_n_parameters(handle))
        )
        names = [lib.qring_input_name(handle, i) for i in range(n_inputs)]
        self._inputs = tuple(f"x[{i}]" if n is None else n.decode() for i, n in enumerate(names))
        self._n_qubits: int = lib.qring_n_qubits(handle)
        self._n_bits: int = lib.qring_n_bits(handle)
        self._n_gates: int = lib.qring_n_gates(handle)
        self._engine: str = lib.qring_engine(handle).decode()
        self._shape = Shape(len(self._parameters), n_inputs, len(observables))

    def _compile(self) -> None:
        self._lock = _new_lock(self)
        self._error = Error()
        self._error_pointer = ctypes.byref(self._error)
        self._weights_argument = _Argument()
        self._inputs_argument = _Argument()
        self._cotangents_argument = _Argument()
        self._results = tuple(_Argument() for _ in range(3))
        options = Options(
            ctypes.sizeof(Options),
            _DTYPES[self._dtype],
            self._threads,
            self._isa.encode(),
            self._input_gradients,
            self._states,
            self._method.encode(),
            self._trajectories or 0,
            self._seed,
            self._shots or 0,
            self._gradient.encode(),
        )
        n = len(self._observables)
        texts = (ctypes.c_char_p * max(n, 1))(*map(utf8, self._observables))
        ret = ctypes.c_void_p()
        if lib.qring_circuit_function(
            self._text,
            len(self._text),
            texts,
            n,
            ctypes.byref(options),
            ctypes.byref(ret),
            self._error_pointer,
        ):
            raise failure(self._error)
        self._handle = ret.value

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters, in natural order (w2 before w10)."""
        return self._parameters

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs, in order of columns; ``"x[0]"`` for an input without a name."""
        return self._inputs

    @property
    def n_qubits(self) -> int:
        """Number of qubits."""
        return self._n_qubits

    @property
    def n_gates(self) -> int:
        """Number of native gates."""
        return self._n_gates

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of amplitudes; sums and results are float64."""
        return self._dtype

    @property
    def engine(self) -> str:
        """Engine that simulates the circuit.

        ``cones``, ``streaming`` or ``statevector``; with noise channels ``cones`` or ``density``
        (exact), or ``statevector`` (trajectories).
        """
        return self._engine

    @property
    def seed(self) -> int:
        """Seed of trajectories and shots. Set it for other draws of the same function."""
        return self._seed

    @seed.setter
    def seed(self, seed: int) -> None:
        self._seed = _integer(seed, "a seed", 0, (1 << 64) - 1)
        with self._guard():
            lib.qring_set_seed(self._open(), self._seed)

    def draw(self, columns: int = 100, format: str = "text") -> str:
        """Draw the circuit and its read-outs; as :meth:`Circuit.draw`."""
        with self._guard():
            self._open()
        return draw(self._text, self._observables, columns, format)

    def _repr_svg_(self) -> str:
        """Draw the circuit in a notebook."""
        return self.draw(format="svg")

    def close(self) -> None:
        """Free the compiled circuit. Later calls raise ValueError."""
        with self._guard():
            handle, self._handle = self._handle, None
        if handle:
            self._free(handle)

    def __del__(self) -> None:
        handle, self._handle = self._handle, None
        if handle:
            self._free(handle)

    def _guard(self) -> Any:
        return _unheld(self._lock, "call the function within a call of it")

    def _open(self) -> int:
        """Return the handle, with the lock held."""
        if self._handle is None:
            raise ValueError("cannot use the function: it was closed; compile the circuit again")
        return self._handle

    def _weights(self, weights: Any) -> npt.NDArray[Any] | None:
        n = self._shape.parameters
        if weights is None:
            if n:
                raise ValueError(
                    f"cannot call without weights: the circuit has {n} parameters; give an array "
                    f"of shape ({n},)"
                )
            return None
        array: npt.NDArray[Any] = weights
        if type(weights) is not np.ndarray or weights.dtype not in _DTYPES:
            array = _floats(weights, "weights")
        self._check_weights(array.shape)
        return array

    def _check_weights(self, shape: tuple[int, ...]) -> None:
        n = self._shape.parameters
        if shape != (n,):
            raise ValueError(
                f"cannot use weights of shape {tuple(shape)}: the circuit has {n} parameters; "
                f"give shape ({n},)"
            )

    def _samples(self, inputs: Any, batch: int | None) -> tuple[npt.NDArray[Any] | None, int, bool]:
        """Return the inputs as (S, I), S, and whether results have a batch axis.

        Parameters
        ----------
        batch : int, optional
            S as the cotangents have it, for a circuit without inputs.
        """
        n = self._shape.inputs
        if inputs is None:
            if n:
                names = ", ".join(self._inputs[:4]) + (", ..." if n > 4 else "")
                raise ValueError(
                    f"cannot call without inputs: the circuit has {n} ({names}); give an array of "
                    f"shape (B, {n}) or ({n},)"
                )
            return None, 1 if batch is None else batch, batch is not None
        array: npt.NDArray[Any] = inputs
        if type(inputs) is not np.ndarray or inputs.dtype not in _DTYPES:
            array = _floats(inputs, "inputs")
        shape = array.shape
        if len(shape) == 2 and shape[1] == n:
            return array, shape[0], True
        if shape == (n,):
            return array[None], 1, False
        raise ValueError(
            f"cannot use inputs of shape {shape}: the circuit has {n} inputs; give shape "
            f"(B, {n}) or ({n},)"
        )

    def _forward(
        self,
        call: Any,
        w: Any,
        x: Any,
        n: int,
        ret: Any,
        fill: Any = _Argument.fill,
        address: int | None = None,
    ) -> None:
        """Call with checked arrays, or with those of the framework that `fill` knows.

        Parameters
        ----------
        address : int, optional
            Of a result that is not a struct qring_array, in place of ret.
        """
        with self._guard():
            handle = self._open()
            wa, xa, ra = self._weights_argument, self._inputs_argument, self._results[0]
            w_kept = None if w is None else fill(wa, w)
            x_kept = None if x is None else fill(xa, x)
            if address is None:
                fill(ra, ret)
            if call(
                handle,
                None if w_kept is None else wa.pointer,
                None if x_kept is None else xa.pointer,
                n,
                ra.pointer if address is None else address,
                self._error_pointer,
            ):
                raise failure(self._error)


class Function(_Handle):
    """Expectation values of a circuit, as a function of weights and inputs.

    Made by :func:`expval`. P is the number of parameters, I of inputs, R of observables, B of
    samples. Arrays are NumPy's or anything that ``np.asarray`` takes; float32 and float64 arrays
    with any strides are read without a copy. Results are float64. Inputs of shape (I,) are one
    sample, and results then have no batch axis.

    One function may be used from several threads; calls run one after the other. Calls release
    the interpreter's lock. A signal handler cannot call a function while its thread is in a call of
    it: RuntimeError. A function can be pickled; the copy is compiled again.

    Raises
    ------
    QringError
        A number is not finite, or 2^40 or more in magnitude (``Code.OUT_OF_RANGE``); memory is
        exhausted (``Code.RESOURCE_EXHAUSTED``).
    ValueError, TypeError
        An array has the wrong shape or dtype, or the function is closed.
    """

    @property
    def n_outputs(self) -> int:
        """Number of observables, R."""
        return self._shape.outputs

    @property
    def observables(self) -> tuple[str, ...]:
        """The observables, as given."""
        return self._observables

    @property
    def input_gradients(self) -> bool:
        """Whether derivatives by inputs can be computed."""
        return self._input_gradients

    def __reduce__(self) -> tuple[Any, ...]:
        return _compiled, (
            type(self),
            self._text,
            self._observables,
            self._dtype.name,
            self._threads or None,
            self._isa,
            self._input_gradients,
            False,
            self._method,
            self._trajectories,
            self._seed,
            self._shots,
            self._gradient,
        )

    def __repr__(self) -> str:
        n = self._shape
        return (
            f"Function({self._n_qubits} qubits, {n.parameters} parameters, {n.inputs} inputs, "
            f"{n.outputs} outputs, {self._dtype.name}, {self._engine})"
        )

    def __call__(
        self, weights: npt.ArrayLike | None, inputs: npt.ArrayLike | None = None
    ) -> Floats:
        """Compute expectation values, as :meth:`forward`."""
        return self.forward(weights, inputs)

    def forward(
        self,
        weights: npt.ArrayLike | None,
        inputs: npt.ArrayLike | None = None,
        *,
        out: npt.NDArray[Any] | None = None,
    ) -> Floats:
        """Compute expectation values.

        Parameters
        ----------
        weights : array_like, (P,)
            Values of the parameters.
        inputs : array_like, (B, I) or (I,), optional
            Needed if the circuit has inputs.
        out : ndarray, (B, R) or (R,), float32 or float64, optional
            Array for the result; it may overlap the arguments.

        Returns
        -------
        ndarray, (B, R) or (R,)
            Expectation values; `out` if it was given.
        """
        w = self._weights(weights)
        x, n, batched = self._samples(inputs, None)
        r = self._shape.outputs
        if out is None:
            z: npt.NDArray[Any] = np.empty((n, r))
        else:
            z = self._out(out, (n, r) if batched else (r,))
            if any(a is not None and np.may_share_memory(z, a) for a in (w, x)):
                z[...] = self.forward(weights, inputs)
                return out
        self._forward(lib.qring_forward, w, x, n, z)
        if out is not None:
            return out
        return z if batched else z[0]

    @staticmethod
    def _out(out: Any, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """Return the array to write to, with a batch axis."""
        if not isinstance(out, np.ndarray) or out.dtype not in _DTYPES:
            raise TypeError("cannot write to out: it is not an array of float32 or float64")
        if out.shape != shape:
            raise ValueError(f"cannot write to out of shape {out.shape}: give shape {shape}")
        if not out.flags.writeable or not out.flags.aligned:
            raise ValueError("cannot write to out: it is read-only or not aligned; give another")
        return out[None] if len(shape) == 1 else out

    def _cotangents(self, cotangents: Any) -> npt.NDArray[Any]:
        array: npt.NDArray[Any] = cotangents
        if type(cotangents) is not np.ndarray or cotangents.dtype not in _DTYPES:
            array = _floats(cotangents, "cotangents")
        if array.ndim not in (1, 2):
            raise ValueError(
                f"cannot use cotangents of shape {array.shape}: give the shape of the values"
            )
        return array

    def value_and_vjp(
        self,
        weights: npt.ArrayLike | None,
        inputs: npt.ArrayLike | None,
        cotangents: npt.ArrayLike,
        *,
        sum: Sum | None = None,
    ) -> tuple[Floats, Floats, Floats | None]:
        """Compute expectation values and a vector-Jacobian product.

        Parameters
        ----------
        weights : array_like, (P,)
            Values of the parameters.
        inputs : array_like, (B, I) or (I,), or None
            None if the circuit has no inputs; the cotangents then determine B.
        cotangents : array_like, (B, R) or (R,)
            Derivatives of a loss by the expectation values.
        sum : Sum, optional
            Exact accumulator, to which the derivatives by weights are added.

        Returns
        -------
        values : ndarray, (B, R) or (R,)
            Expectation values.
        d_weights : ndarray, (P,)
            Derivatives of the loss by weights, summed over the batch.
        d_inputs : ndarray, (B, I) or (I,), or None
            Derivatives of the loss by inputs; None without ``input_gradients``.
        """
        values, d_weights, d_inputs = self._vjp(weights, inputs, cotangents, sum, True)
        assert values is not None
        return values, d_weights, d_inputs

    def vjp(
        self,
        weights: npt.ArrayLike | None,
        inputs: npt.ArrayLike | None,
        cotangents: npt.ArrayLike,
        *,
        sum: Sum | None = None,
    ) -> tuple[Floats, Floats | None]:
        """Compute a vector-Jacobian product: :meth:`value_and_vjp` without the values.

        Returns
        -------
        d_weights : ndarray, (P,)
            Derivatives of the loss by weights, summed over the batch.
        d_inputs : ndarray, (B, I) or (I,), or None
            Derivatives of the loss by inputs; None without ``input_gradients``.
        """
        return self._vjp(weights, inputs, cotangents, sum, False)[1:]

    def _vjp(
        self,
        weights: Any,
        inputs: Any,
        cotangents: Any,
        total: Sum | None,
        with_values: bool,
    ) -> tuple[Floats | None, Floats, Floats | None]:
        n_parameters, n_inputs, n_outputs = self._shape
        w = self._weights(weights)
        c = self._cotangents(cotangents)
        x, n, batched = self._samples(inputs, c.shape[0] if c.ndim == 2 else None)
        if c.shape != ((n, n_outputs) if batched else (n_outputs,)):
            expected = (n, n_outputs) if batched else (n_outputs,)
            raise ValueError(
                f"cannot use cotangents of shape {c.shape}: the values have shape {expected}; "
                "give the same"
            )
        if total is not None:
            Sum._check(total, n_parameters)
        values = np.empty((n, n_outputs)) if with_values else None
        d_weights = np.empty(n_parameters)
        d_inputs = np.empty((n, n_inputs)) if self._input_gradients else None
        self._vjp_into(w, x, n, c if batched else c[None], values, d_weights, d_inputs, total)
        if batched:
            return values, d_weights, d_inputs
        return (
            None if values is None else values[0],
            d_weights,
            None if d_inputs is None else d_inputs[0],
        )

    def _vjp_into(
        self,
        w: Any,
        x: Any,
        n: int,
        c: Any,
        values: Any,
        d_weights: Any,
        d_inputs: Any,
        total: Sum | None = None,
        fill: Any = _Argument.fill,
    ) -> None:
        """Call with checked arrays, or with those of the framework that `fill` knows."""
        n_parameters, n_inputs, _ = self._shape
        with self._guard():
            handle = self._open()
            wa, xa, ca = self._weights_argument, self._inputs_argument, self._cotangents_argument
            za, dwa, dxa = self._results
            w_kept = None if w is None else fill(wa, w)
            x_kept = None if x is None else fill(xa, x)
            c_kept = fill(ca, c)
            if values is not None:
                fill(za, values)
            fill(dwa, d_weights)
            if d_inputs is not None:
                fill(dxa, d_inputs)
            arguments = (
                handle,
                None if w_kept is None else wa.pointer,
                None if x_kept is None else xa.pointer,
                n,
                ca.pointer,
                None if values is None else za.pointer,
                dwa.pointer if n_parameters else None,
                dxa.pointer if n_inputs and d_inputs is not None else None,
            )
            if total is None:
                code = lib.qring_vjp(*arguments, None, self._error_pointer)
            else:
                with total._guard():
                    code = lib.qring_vjp(*arguments, total._open(), self._error_pointer)
            del c_kept
            if code:
                raise failure(self._error)

    def jacobian(
        self, weights: npt.ArrayLike | None, inputs: npt.ArrayLike | None = None
    ) -> tuple[Floats, Floats | None]:
        """Compute all derivatives, at the cost of R backward sweeps for each sample.

        Parameters
        ----------
        weights : array_like, (P,)
            Values of the parameters.
        inputs : array_like, (B, I) or (I,), optional
            Needed if the circuit has inputs.

        Returns
        -------
        by_weights : ndarray, (B, R, P) or (R, P)
            Derivatives of each expectation value by weights.
        by_inputs : ndarray, (B, R, I) or (R, I), or None
            Derivatives by the sample's inputs; None without ``input_gradients``.
        """
        n_parameters, n_inputs, n_outputs = self._shape
        w = self._weights(weights)
        x, n, batched = self._samples(inputs, None)
        by_weights = np.empty((n, n_outputs, n_parameters))
        by_inputs = np.empty((n, n_outputs, n_inputs)) if self._input_gradients else None
        with self._guard():
            handle = self._open()
            wa, xa = self._weights_argument, self._inputs_argument
            _, dwa, dxa = self._results
            w_kept = None if w is None else wa.fill(w)
            x_kept = None if x is None else xa.fill(x)
            dwa.fill(by_weights)
            if by_inputs is not None:
                dxa.fill(by_inputs)
            if lib.qring_jacobian(
                handle,
                None if w_kept is None else wa.pointer,
                None if x_kept is None else xa.pointer,
                n,
                None,
                dwa.pointer if n_parameters else None,
                dxa.pointer if n_inputs and by_inputs is not None else None,
                self._error_pointer,
            ):
                raise failure(self._error)
        if batched:
            return by_weights, by_inputs
        return by_weights[0], None if by_inputs is None else by_inputs[0]

    def sum(self) -> Sum:
        """Return an exact accumulator for the P derivatives by weights."""
        return Sum(self._shape.parameters)


class Sum:
    """Exact sum of derivatives by weights over calls, batches, threads and functions.

    Each sample's term is rounded once, to a multiple of 2^-64, and terms are added as integers:
    any split of the samples gives the same bits.

    Parameters
    ----------
    n : int
        Number of derivatives; :meth:`Function.sum` gives it.

    Examples
    --------
    >>> from qring import Circuit, expval
    >>> f = expval(Circuit(1).ry("w", 0).rx("x[0]", 0), "Z0")
    >>> total = f.sum()
    >>> for batch in ([[0.1], [0.2]], [[0.3]]):
    ...     _ = f.vjp([0.5], batch, [[1.0]] * len(batch), sum=total)
    >>> total.values().shape
    (1,)
    """

    _free = staticmethod(lib.qring_sum_free)
    _handle: int | None = None

    def __init__(self, n: int) -> None:
        self._n = operator.index(n)
        if not 0 <= self._n < 1 << 40:
            raise ValueError(f"cannot make a sum of {n} numbers: give 0 to 2^40 - 1")
        self._lock = _new_lock(self)
        self._handle = lib.qring_sum_new(self._n)
        if self._handle is None:
            raise MemoryError(f"cannot make a sum of {n} numbers: out of memory; use fewer")

    def __len__(self) -> int:
        """Return the number of derivatives."""
        return self._n

    def __del__(self) -> None:
        handle, self._handle = self._handle, None
        if handle:
            self._free(handle)

    def _check(self, n: int) -> None:
        if not isinstance(self, Sum):
            raise TypeError(f"cannot add to {self!r}: it is not a qring.Sum; use function.sum()")
        if self._n != n:
            raise ValueError(
                f"cannot add {n} derivatives to a sum of {self._n}: use the function's sum()"
            )

    def __copy__(self) -> Sum:
        return Sum(self._n).add(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Sum:
        return self.__copy__()

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle a Sum: its exact bits have no file format; pickle values()")

    def _guard(self) -> Any:
        return _unheld(self._lock, "use the sum within a call that uses it")

    def _open(self) -> int:
        if self._handle is None:
            raise ValueError("cannot use the sum: it was freed; make another")
        return self._handle

    def add(self, other: Sum) -> Sum:
        """Add another sum of the same size; returns this sum."""
        Sum._check(other, self._n)
        if other is self:
            other = Sum(self._n).add(self)
        error = Error()
        # In order of identity, so that a.add(b) and b.add(a) at the same time do not block.
        first, second = sorted((self, other), key=id)
        with first._guard(), second._guard():
            if lib.qring_sum_add(self._open(), other._open(), ctypes.byref(error)):
                raise failure(error)
        return self

    def __iadd__(self, other: Sum) -> Sum:
        return self.add(other) if isinstance(other, Sum) else NotImplemented

    def values(self) -> Floats:
        """Return the sum, rounded once.

        Returns
        -------
        ndarray, (P,)
            In the order of ``Function.parameters``.
        """
        ret = np.empty(self._n)
        error, argument = Error(), _Argument()
        argument.fill(ret)
        with self._guard():
            if lib.qring_sum_values(self._open(), argument.pointer, ctypes.byref(error)):
                raise failure(error)
        return ret

    def __repr__(self) -> str:
        return f"Sum({self._n})"


class StateFunction(_Handle):
    """Final states of a circuit, as a function of weights and inputs.

    Parameters
    ----------
    circuit : Circuit or dict
        The circuit, or the circuit object of a job file.
    dtype : str or numpy.dtype
        float32 or float64, the precision of the simulation.
    threads : int, optional
        Default: all processors that this process may use.
    """

    def __init__(
        self,
        circuit: Circuit | dict[str, Any],
        dtype: DType = "float64",
        threads: int | None = None,
        isa: str = "auto",
    ) -> None:
        super().__init__(circuit, (), dtype, threads, isa, False, True)

    def __call__(
        self, weights: npt.ArrayLike | None = None, inputs: npt.ArrayLike | None = None
    ) -> npt.NDArray[np.complex128]:
        """Compute final states.

        Parameters
        ----------
        weights : array_like, (P,), optional
            Values of the parameters.
        inputs : array_like, (B, I) or (I,), optional
            Needed if the circuit has inputs.

        Returns
        -------
        ndarray, complex, (B, 2**n_qubits) or (2**n_qubits,)
            Amplitudes; qubit 0 is the most significant bit of the index.
        """
        w = self._weights(weights)
        x, n, batched = self._samples(inputs, None)
        ret = np.empty((n, 1 << self._n_qubits), np.complex128)
        parts = ret.view(np.float64).reshape(*ret.shape, 2)
        self._forward(lib.qring_states, w, x, n, parts)
        return ret if batched else ret[0]

    def __reduce__(self) -> tuple[Any, ...]:
        options = (self._dtype.name, self._threads or None, self._isa)
        return _compiled, (type(self), self._text, *options)

    def __repr__(self) -> str:
        n = self._shape
        return (
            f"StateFunction({self._n_qubits} qubits, {n.parameters} parameters, {n.inputs} "
            f"inputs, {self._dtype.name})"
        )


class SampleFunction(_Handle):
    """Bit strings drawn from final states, as a function of weights and inputs.

    Parameters
    ----------
    circuit : Circuit or dict
        The circuit, or the circuit object of a job file. At most 64 qubits.
    shots : int
        Strings of each sample, at most 2^24.
    dtype, threads, isa, trajectories, seed
        As for :func:`qring.expval`. Default: a trajectory for each string, which are independent.
    """

    def __init__(
        self,
        circuit: Circuit | dict[str, Any],
        shots: int,
        dtype: DType = "float64",
        threads: int | None = None,
        isa: str = "auto",
        trajectories: int | None = None,
        seed: int = 0,
    ) -> None:
        _integer(shots, "shots", 1, 1 << 24)
        super().__init__(
            circuit, (), dtype, threads, isa, False, False, "auto", trajectories, seed, shots
        )

    def __call__(
        self, weights: npt.ArrayLike | None = None, inputs: npt.ArrayLike | None = None
    ) -> npt.NDArray[np.int8]:
        """Draw bit strings.

        Parameters
        ----------
        weights : array_like, (P,), optional
            Values of the parameters.
        inputs : array_like, (B, I) or (I,), optional
            Needed if the circuit has inputs.

        Returns
        -------
        ndarray, int8, (B, shots, n_qubits) or (shots, n_qubits)
            0 or 1 of each qubit.
        """
        return self._draw(weights, inputs)[0]

    @property
    def shots(self) -> int:
        """Number of strings of each sample."""
        return self._shots or 0

    def bits(
        self, weights: npt.ArrayLike | None = None, inputs: npt.ArrayLike | None = None
    ) -> npt.NDArray[np.int8]:
        """Draw the bits that the circuit measures, of the same draws as a call.

        Parameters
        ----------
        weights, inputs
            As of a call.

        Returns
        -------
        ndarray, int8, (B, shots, n_bits) or (shots, n_bits)
            0 or 1 of each bit of :meth:`Circuit.measure`; 0 of those that are not measured.
        """
        return self._draw(weights, inputs)[1]

    def _draw(self, weights: Any, inputs: Any) -> tuple[npt.NDArray[np.int8], ...]:
        w = self._weights(weights)
        x, n, batched = self._samples(inputs, None)
        drawn = np.empty((2, n, self._shots or 0), np.uint64)

        def call(*arguments: Any) -> Any:
            return lib.qring_sample_bits(*arguments[:-1], drawn[1].ctypes.data, arguments[-1])

        self._forward(call, w, x, n, None, address=drawn[0].ctypes.data)
        digits = [
            (strings[..., None] >> np.arange(count - 1, -1, -1, dtype=np.int64).astype(np.uint64))
            & np.uint64(1)
            for strings, count in zip(drawn, (self._n_qubits, self._n_bits))
        ]
        return tuple(d.astype(np.int8) if batched else d[0].astype(np.int8) for d in digits)

    def __reduce__(self) -> tuple[Any, ...]:
        return _compiled, (
            type(self),
            self._text,
            self._shots,
            self._dtype.name,
            self._threads or None,
            self._isa,
            self._trajectories,
            self._seed,
        )

    def __repr__(self) -> str:
        n = self._shape
        return (
            f"SampleFunction({self._n_qubits} qubits, {n.parameters} parameters, {n.inputs} "
            f"inputs, {self._shots} shots, {self._dtype.name})"
        )


def _compiled(kind: type[_Handle], text: bytes, *options: Any) -> _Handle:
    return kind(Circuit.from_json(text.decode()), *options)


def expval(
    circuit: Circuit | dict[str, Any],
    observables: Any,
    dtype: DType = "float64",
    threads: int | None = None,
    input_gradients: bool = True,
    isa: str = "auto",
    method: str = "auto",
    trajectories: int | None = None,
    seed: int = 0,
    shots: int | None = None,
    gradient: str = "adjoint",
) -> Function:
    """Compile a circuit and its observables.

    Parameters
    ----------
    circuit : Circuit or dict
        The circuit, or the circuit object of a job file.
    observables : str, operator, or sequence of these
        Sums of products of Paulis, for example ``"Z0"`` or ``["Z0", "0.5*X0 Z1 - Y2"]``; or as
        operators of Qiskit (``SparsePauliOp``, ``SparseObservable``, ``Operator``), PennyLane,
        OpenFermion (``QubitOperator``) and Cirq (``PauliSum``).
    dtype : str or numpy.dtype
        float32 or float64, the precision of amplitudes. Results are float64.
    threads : int, optional
        Default: all processors that this process may use. Results do not depend on it.
    input_gradients : bool
        Whether derivatives by inputs will be needed. False is faster where a circuit has inputs.
    isa : {"auto", "portable", "avx2", "avx512", "neon"}
        Instruction set. Results do not depend on it.
    method : {"auto", "exact", "density", "trajectories"}
        How noise channels are simulated: exactly, exactly by a density matrix, or by averages over
        random trajectories, which are unbiased. Default: exactly unless trajectories cost much
        less.
    trajectories : int, optional
        Number for each sample, for that method. Default: 128.
    seed : int
        Of the random numbers of trajectories and shots. They depend on it and on the number of the
        sample in a call only.
    shots : int, optional
        Expectation values are means over so many bit strings, at most 2^24. Default: exact.
    gradient : {"adjoint", "parameter-shift"}
        Derivatives of the exact expectation values (of the trajectories), or from shifted
        read-outs with shots and trajectories of their own, as on a device.

    Returns
    -------
    Function
        The compiled function.

    Raises
    ------
    QringError
        The circuit or an observable is invalid; the message has the path of the value.

    Examples
    --------
    >>> from qring import Circuit, expval
    >>> f = expval(Circuit(2).ry("w0", 0).cnot(0, 1), ["Z0", "Z0 Z1"])
    >>> f.forward([0.0])
    array([1., 1.])
    """
    return Function(
        circuit,
        _check_observables(observables, circuit),
        dtype,
        threads,
        isa,
        input_gradients,
        False,
        method,
        trajectories,
        seed,
        shots,
        gradient,
    )


def state(
    circuit: Circuit | dict[str, Any],
    weights: npt.ArrayLike | None = None,
    inputs: npt.ArrayLike | None = None,
    dtype: DType = "float64",
    threads: int | None = None,
) -> npt.NDArray[np.complex128]:
    """Compute the final state of a circuit.

    Parameters
    ----------
    circuit : Circuit or dict
        The circuit, or the circuit object of a job file.
    weights : array_like, (P,), optional
        Values of the parameters, in natural order of their names.
    inputs : array_like, (B, I) or (I,), optional
        Inputs.
    dtype : str or numpy.dtype
        float32 or float64, the precision of the simulation.
    threads : int, optional
        Default: all processors that this process may use.

    Returns
    -------
    ndarray, complex, (B, 2**n_qubits) or (2**n_qubits,)
        Amplitudes; qubit 0 is the most significant bit of the index.

    Examples
    --------
    >>> from qring import Circuit, state
    >>> abs(state(Circuit(2).x(0))) ** 2
    array([0., 0., 1., 0.])
    """
    return StateFunction(circuit, dtype, threads)(weights, inputs)


def sample(
    circuit: Circuit | dict[str, Any],
    weights: npt.ArrayLike | None = None,
    inputs: npt.ArrayLike | None = None,
    shots: int = 1000,
    dtype: DType = "float64",
    threads: int | None = None,
    trajectories: int | None = None,
    seed: int = 0,
) -> npt.NDArray[np.int8]:
    """Draw bit strings from the final states of a circuit.

    The strings are those of ``qring sample`` with the same seed and precision.

    Parameters
    ----------
    circuit : Circuit or dict
        The circuit, or the circuit object of a job file.
    weights : array_like, (P,), optional
        Values of the parameters, in natural order of their names.
    inputs : array_like, (B, I) or (I,), optional
        Inputs.
    shots : int
        Strings of each sample.
    dtype, threads, trajectories, seed
        As for :func:`expval`.

    Returns
    -------
    ndarray, int8, (B, shots, n_qubits) or (shots, n_qubits)
        0 or 1 of each qubit.

    Examples
    --------
    >>> from qring import Circuit, sample
    >>> bits = sample(Circuit(2).h(0).cnot(0, 1), shots=100)
    >>> bool((bits[:, 0] == bits[:, 1]).all())
    True
    """
    f = SampleFunction(circuit, shots, dtype, threads, "auto", trajectories, seed)
    return f(weights, inputs)
