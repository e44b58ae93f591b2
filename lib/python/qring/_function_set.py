"""Functions of one circuit as framework layers use them. Start reading at :class:`FunctionSet`."""

from __future__ import annotations

from typing import Any, Sequence

from .circuit import Circuit
from .function import DType, Function, _new_lock, expval


class FunctionSet:
    """A circuit's functions in float32 and float64, with and without derivatives by inputs.

    Each is compiled when it is first used: a framework decides by its arrays which one a call
    needs. Functions without derivatives by inputs are faster.

    Parameters
    ----------
    circuit : Circuit or dict
        The circuit, or the circuit object of a job file.
    observables : str or sequence of str
        As for :func:`qring.expval`.
    dtype : str or numpy.dtype, optional
        Precision of amplitudes; default: that of the weights of a call.
    threads : int, optional
        Default: all processors that this process may use.
    method, trajectories, seed, shots, gradient
        How noise channels and shots are simulated, as for :func:`qring.expval`.
    """

    def __init__(
        self,
        circuit: Circuit | dict[str, Any],
        observables: str | Sequence[str],
        dtype: DType | None = None,
        threads: int | None = None,
        method: str = "auto",
        trajectories: int | None = None,
        seed: int = 0,
        shots: int | None = None,
        gradient: str = "adjoint",
    ) -> None:
        # Compiled at once, so that errors come from the layer's constructor.
        self.options: dict[str, Any] = {
            "method": method,
            "trajectories": trajectories,
            "seed": seed,
            "shots": shots,
            "gradient": gradient,
        }
        first = expval(
            circuit,
            observables,
            dtype or "float32",
            threads,
            input_gradients=False,
            **self.options,
        )
        self.circuit: dict[str, Any] = (
            circuit.to_json() if isinstance(circuit, Circuit) else dict(circuit)
        )
        self.observables = first.observables
        self.dtype = None if dtype is None else first.dtype.name
        self.threads = threads
        self.parameters = first.parameters
        self.inputs = first.inputs
        self.n_qubits = first.n_qubits
        self.n_outputs = first.n_outputs
        self._lock = _new_lock(self)
        self._functions: dict[tuple[str, bool], Function] = {(first.dtype.name, False): first}

    def get(self, dtype: str, input_gradients: bool = False) -> Function:
        """Return the function for weights of a dtype.

        Parameters
        ----------
        dtype : {"float32", "float64"}
            Of the weights.
        input_gradients : bool
            Whether derivatives by inputs will be needed.
        """
        key = (self.dtype or dtype, input_gradients and bool(self.inputs))
        found = self._functions.get(key)
        if found is not None:
            return found
        with self._lock:
            if key not in self._functions:
                self._functions[key] = expval(
                    self.circuit, self.observables, key[0], self.threads, key[1], **self.options
                )
            return self._functions[key]

    def draw(self, columns: int = 100, format: str = "text") -> str:
        """Draw the circuit; as :meth:`Circuit.draw`."""
        return next(iter(self._functions.values())).draw(columns, format)

    def check_inputs(self, shape: tuple[int, ...] | None) -> None:
        """Raise ValueError unless the last axis of the inputs has the circuit's columns.

        Parameters
        ----------
        shape : tuple of int, optional
            None: a call without inputs.
        """
        n = len(self.inputs)
        names = ", ".join(self.inputs[:4]) + (", ..." if n > 4 else "")
        if shape is None:
            if n:
                raise ValueError(
                    f"cannot call without inputs: the circuit has {n} ({names}); give an array of "
                    f"shape (..., {n})"
                )
        elif not shape or shape[-1] != n:
            raise ValueError(
                f"cannot use inputs of shape {tuple(shape)}: the circuit has {n} inputs"
                f"{f' ({names})' if n else ''}; give shape (..., {n})"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        options = tuple(self.options.values())
        return FunctionSet, (self.circuit, self.observables, self.dtype, self.threads, *options)


class CircuitNames:
    """Names and drawing of the circuit of a layer."""

    _functions: FunctionSet

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the circuit's parameters, in natural order (w2 before w10)."""
        return self._functions.parameters

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the circuit's inputs, in order of columns."""
        return self._functions.inputs

    def draw(self, columns: int = 100, format: str = "text") -> str:
        """Draw the circuit; as :meth:`Circuit.draw`."""
        return self._functions.draw(columns, format)
