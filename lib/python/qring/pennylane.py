"""PennyLane's device ``qring`` and :func:`from_qnode`. Start reading at :class:`QringDevice`.

>>> import pennylane as qml
>>> dev = qml.device("qring", wires=2)
>>> @qml.qnode(dev)
... def circuit(w):
...     qml.RY(w, wires=0)
...     qml.CNOT(wires=[0, 1])
...     return qml.expval(qml.Z(0) @ qml.Z(1))
>>> float(circuit(0.3))
1.0
"""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pennylane as qml
from pennylane.devices import Device, ExecutionConfig
from pennylane.devices.modifiers import simulator_tracking, single_tape_support
from pennylane.devices.preprocess import (
    decompose,
    validate_device_wires,
    validate_measurements,
)
from pennylane.devices.qubit.measure import measure
from pennylane.exceptions import DeviceError
from pennylane.measurements import SampleMeasurement, StateMeasurement, VarianceMP
from pennylane.transforms import broadcast_expand, defer_measurements, split_non_commuting
from pennylane.transforms.core import CompilePipeline

from ._pl_gates import CHANNELS, GATES, has_only_matrix, is_native
from ._pl_measurements import MATRIX_WIRES, VALUES, Floats, has_outputs
from ._pl_plans import Combination, Plan, Tape, read_tape, to_wires, wire_order
from ._pl_qnode import from_qnode
from ._version import __version__
from .circuit import _integer

__all__ = ["QringDevice", "from_qnode"]

_TARGET_GATES = (
    frozenset(GATES)
    | frozenset(CHANNELS)
    | {
        "GlobalPhase",
        "BasisState",
        "PauliRot",
        "QubitUnitary",
        "MultiControlledX",
        *(f"C({name})" for name in GATES),
    }
)


def _nothing(results: Any) -> Any:
    return results[0]


def _variance_in_one_basis(mp: Any) -> Any:
    """Return the variance of a sum as that of a matrix: it is not a sum of those of the terms."""
    if not isinstance(mp, VarianceMP) or mp.obs is None:
        return mp
    if not isinstance(mp.obs.simplify(), qml.ops.Sum):
        return mp
    if len(mp.obs.wires) > MATRIX_WIRES:
        raise DeviceError(
            f"cannot draw the variance of a sum on {len(mp.obs.wires)} wires: its basis is known "
            f"for up to {MATRIX_WIRES}; remove the shots, or measure its terms"
        )
    return VarianceMP(obs=qml.Hermitian(mp.obs.matrix(), mp.obs.wires))


@qml.transform  # type: ignore[untyped-decorator]
def _turn_to_strings(tape: Any) -> tuple[Sequence[Any], Callable[[Any], Any]]:
    """Split a tape with shots into tapes whose results follow from bit strings."""
    if not tape.shots:
        return (tape,), _nothing
    measurements = [_variance_in_one_basis(mp) for mp in tape.measurements]
    tapes, join = split_non_commuting(tape.copy(measurements=measurements))
    turned = [t.copy(operations=[*t.operations, *t.diagonalizing_gates]) for t in tapes]
    return turned, join


def _with_control_values(op: Any) -> Any:
    """Return a batch without ControlledQubitUnitary: broadcast_expand loses its control values."""
    if not op.batch_size:
        return op
    if isinstance(op, qml.ops.Controlled):
        base = _with_control_values(op.base)
        return qml.ops.ControlledOp(base, op.control_wires, op.control_values)
    if isinstance(op, qml.ops.Adjoint):
        return qml.ops.Adjoint(_with_control_values(op.base))
    if isinstance(op, qml.ops.Pow):
        return qml.ops.Pow(_with_control_values(op.base), op.z)
    return op


@qml.transform  # type: ignore[untyped-decorator]
def _expand_broadcast_matrices(tape: Any) -> tuple[Sequence[Any], Callable[[Any], Any]]:
    """Split tapes with a batch of states or matrices, which are constants of a plan.

    PennyLane's decomposition of FermionicSWAP refuses a batch.
    """
    if any(
        op.batch_size
        and (np.ndim(op.data[0]) > 1 or has_only_matrix(op) or "FermionicSWAP" in op.name)
        for op in tape.operations
        if type(op).__name__ not in GATES and op.data
    ):
        tape = tape.copy(operations=[_with_control_values(op) for op in tape.operations])
        expanded: tuple[Sequence[Any], Callable[[Any], Any]] = broadcast_expand(tape)
        return expanded
    return (tape,), _nothing


@qml.transform  # type: ignore[untyped-decorator]
def _warn_of_matrices(tape: Any) -> tuple[tuple[Any, ...], Callable[[Any], Any]]:
    for mp in tape.measurements:
        if mp.obs is not None and mp.obs.name in ("Hermitian", "Projector"):
            if any(qml.math.requires_grad(d) for d in mp.obs.data):
                warnings.warn(
                    f"cannot differentiate by the parameters of {mp.obs.name}: derivatives by "
                    "them are 0; mark them as not trainable",
                    UserWarning,
                    stacklevel=2,
                )
    return (tape,), _nothing


def _state_measurement(mp: Any) -> bool:
    return isinstance(mp, StateMeasurement)


def _sample_measurement(mp: Any) -> bool:
    return isinstance(mp, SampleMeasurement)


@simulator_tracking
@single_tape_support
class QringDevice(Device):  # type: ignore[misc]
    """Exact expectation values, adjoint derivatives, and bit strings by qring.

    Tapes of the same structure (gates, wires and Pauli words, whatever the numbers) share a
    compiled plan. A batch of them, or a broadcast tape, is computed by one call.

    Parameters
    ----------
    wires : int, iterable or None
        Number of wires or their labels; the first is the most significant bit. None: those of
        each tape.
    shots : int, optional
        PennyLane's default number of shots for QNodes: results are then those of bit strings.
    dtype : {"float64", "float32"}
        Precision of amplitudes. Results are float64.
    threads : int, optional
        Default: all processors that this process may use.
    plans : int
        Most plans that are kept.
    probability_wires : int
        Most wires of probabilities that are differentiated: they cost 2**wires observables.
    seed : int, optional
        Of bit strings; each tape that is executed draws others. Default: another for each device.
    """

    name = "qring"
    author = "The qring authors"
    version = __version__
    pennylane_requires = ">=0.45"

    def __init__(
        self,
        wires: Any = None,
        shots: Any = None,
        *,
        dtype: str = "float64",
        threads: int | None = None,
        plans: int = 64,
        probability_wires: int = 10,
        seed: int | None = None,
    ) -> None:
        if np.dtype(dtype).name not in ("float32", "float64"):
            raise DeviceError(f"cannot compute in {dtype!r}: use 'float64' or 'float32'")
        super().__init__(wires=wires, shots=shots)
        self._dtype = np.dtype(dtype).name
        self._threads = threads
        self._most_plans = max(1, plans)
        self._probability_wires = probability_wires
        self._seeds = np.random.default_rng(
            None if seed is None else _integer(seed, "a seed", 0, (1 << 64) - 1)
        )
        self._start()

    def _start(self) -> None:
        """Make what a copy does not share: locks and plans."""
        self._plans: OrderedDict[tuple[Any, ...], Plan] = OrderedDict()
        self._lock = threading.Lock()
        self._draws = threading.Lock()
        self._hits = self._misses = 0

    def __getstate__(self) -> dict[str, Any]:
        own = ("_plans", "_lock", "_draws", "_hits", "_misses")
        return {k: v for k, v in self.__dict__.items() if k not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    def plan_cache(self) -> dict[str, int]:
        """Count uses of plans: ``{"hits", "misses", "plans"}``."""
        return {"hits": self._hits, "misses": self._misses, "plans": len(self._plans)}

    # ---- preparation ----

    def setup_execution_config(
        self, config: ExecutionConfig | None = None, circuit: Any = None
    ) -> ExecutionConfig:
        """Choose adjoint derivatives, vector-Jacobian products and deferred measurements."""
        config = config or ExecutionConfig()
        for option in config.device_options:
            raise DeviceError(f"cannot use the device option {option}: qring has none; remove it")
        updated: dict[str, Any] = {}
        shots = circuit is not None and circuit.shots
        if config.gradient_method in ("best", "device") and not shots:
            updated["gradient_method"] = "adjoint"
        adjoint = updated.get("gradient_method", config.gradient_method) == "adjoint"
        if config.use_device_gradient is None:
            updated["use_device_gradient"] = adjoint
        # A QNode passes device_vjp=False where the user says nothing. A vector-Jacobian product
        # costs one backward sweep for any number of results, and has no array for each sample of
        # a broadcast parameter. Compiled JAX programs ask for Jacobians only.
        if adjoint and config.interface != qml.math.Interface.JAX_JIT:
            updated["use_device_jacobian_product"] = True
        if config.grad_on_execution is None:
            updated["grad_on_execution"] = False
        method = config.mcm_config.mcm_method
        if method not in (None, "deferred", "device"):
            raise DeviceError(
                f"cannot use mcm_method {str(method)!r}: qring defers measurements; use 'deferred'"
            )
        updated["mcm_config"] = replace(config.mcm_config, mcm_method="deferred")
        return replace(config, **updated)

    def preprocess_transforms(
        self, execution_config: ExecutionConfig | None = None
    ) -> CompilePipeline:
        """Return the transforms after which a tape has only gates that qring computes."""
        config = execution_config or ExecutionConfig()
        adjoint = config.gradient_method == "adjoint"
        pipeline = CompilePipeline()
        pipeline.add_transform(defer_measurements, allow_postselect=False)
        pipeline.add_transform(_turn_to_strings)
        pipeline.add_transform(_expand_broadcast_matrices)
        pipeline.add_transform(
            decompose,
            stopping_condition=lambda op: is_native(op, trainable_matrices=not adjoint),
            skip_initial_state_prep=False,
            device_wires=self.wires,
            target_gates=_TARGET_GATES,
            name=self.name,
        )
        # After the transforms that may add wires.
        pipeline.add_transform(validate_device_wires, self.wires, name=self.name)
        pipeline.add_transform(
            validate_measurements,
            analytic_measurements=self._differentiable if adjoint else _state_measurement,
            sample_measurements=_sample_measurement,
            name=f"adjoint + {self.name}" if adjoint else self.name,
        )
        if adjoint:
            pipeline.add_transform(_warn_of_matrices)
        return pipeline

    def _differentiable(self, mp: Any) -> bool:
        return has_outputs(mp, self._probability_wires)

    def supports_derivatives(
        self, execution_config: ExecutionConfig | None = None, circuit: Any = None
    ) -> bool:
        """Return whether all measurements can be differentiated, in first order."""
        if execution_config is not None:
            if execution_config.gradient_method not in ("adjoint", "best", "device"):
                return False
            if execution_config.derivative_order != 1:
                return False
        if circuit is None:
            return True
        return not circuit.shots and all(self._differentiable(mp) for mp in circuit.measurements)

    def supports_vjp(
        self, execution_config: ExecutionConfig | None = None, circuit: Any = None
    ) -> bool:
        """Return :meth:`supports_derivatives`."""
        return self.supports_derivatives(execution_config, circuit)

    # ---- plans ----

    def _plan(self, tape: Tape) -> Plan:
        with self._lock:
            plan = self._plans.get(tape.key)
            if plan is not None:
                self._hits += 1
                self._plans.move_to_end(tape.key)
                return plan
            self._misses += 1
            plan = self._plans[tape.key] = Plan(tape, self._dtype, self._threads)
            if len(self._plans) > self._most_plans:
                self._plans.popitem(last=False)
            return plan

    def _groups(self, tapes: Sequence[Tape]) -> list[_Group]:
        """Group tapes by structure, in order of first appearance."""
        found: dict[tuple[Any, ...], list[int]] = {}
        for i, tape in enumerate(tapes):
            found.setdefault(tape.group(i), []).append(i)
        return [
            _Group(self._plan(tapes[members[0]]), members, [tapes[i] for i in members])
            for members in found.values()
        ]

    def _read(
        self, circuits: Sequence[Any], derivatives: bool, measurements: Any = None
    ) -> list[Tape]:
        ret = []
        for i, circuit in enumerate(circuits):
            if circuit.shots:
                raise DeviceError(
                    "cannot differentiate a tape with shots on qring: the device's derivatives are "
                    "exact; use parameter-shift, or remove the shots"
                )
            wanted = circuit.measurements if measurements is None else measurements[i]
            wires = wire_order(circuit, self.wires)
            ret.append(read_tape(circuit, wires, wanted, derivatives))
        return ret

    # ---- execution ----

    def execute(
        self, circuits: Sequence[Any], execution_config: ExecutionConfig | None = None
    ) -> tuple[Any, ...]:
        """Compute results of a batch of tapes; one call of qring for each structure.

        A tape with shots is a call of its own.
        """
        exact = [c for c in circuits if not c.shots]
        values = iter(self._exact_results(exact) if exact else ())
        return tuple(self._sampled_results(c) if c.shots else next(values) for c in circuits)

    def _sampled_results(self, circuit: Any) -> Any:
        """Draw bit strings of a tape whose measurements they tell."""
        wires = wire_order(circuit, self.wires)
        tape = read_tape(circuit, wires, None, derivatives=False)
        (group,) = self._groups([tape])
        with self._draws:  # a plan's function has one seed
            seed = int(self._seeds.integers(1 << 63))
            samples = group.samples(circuit.shots.total_shots, seed).astype(np.int64)
        if tape.batch is None:
            samples = samples[0]
        ret = []
        for bounds in circuit.shots.bins():
            results = [
                mp.process_samples(samples, wire_order=qml.wires.Wires(wires), shot_range=bounds)
                for mp in circuit.measurements
            ]
            ret.append(results[0] if len(results) == 1 else tuple(results))
        return tuple(ret) if circuit.shots.has_partitioned_shots else ret[0]

    def _exact_results(self, circuits: Sequence[Any]) -> tuple[Any, ...]:
        wanted = [
            [
                has_outputs(mp, self._probability_wires)
                if _is_noisy(c)
                else isinstance(mp, VALUES) and has_outputs(mp, 0)
                for mp in c.measurements
            ]
            for c in circuits
        ]
        results: list[list[Any]] = [[None] * len(c.measurements) for c in circuits]
        rows = [i for i, w in enumerate(wanted) if any(w)]
        if rows:
            chosen = [
                [mp for mp, use in zip(circuits[i].measurements, wanted[i], strict=True) if use]
                for i in rows
            ]
            for i, values in zip(
                rows, self._values([circuits[i] for i in rows], chosen), strict=True
            ):
                values = list(values)
                for j, use in enumerate(wanted[i]):
                    if use:
                        results[i][j] = values.pop(0)
        states = [i for i, w in enumerate(wanted) if not all(w)]
        if states:
            self._measure_states([circuits[i] for i in states], [results[i] for i in states])
        return tuple(r[0] if len(r) == 1 else tuple(r) for r in results)

    def _values(self, circuits: Sequence[Any], measurements: Any) -> list[list[Any]]:
        tapes = self._read(circuits, False, measurements)
        ret: list[list[Any]] = [[] for _ in tapes]
        for group in self._groups(tapes):
            rows = group.forward()
            for i, tape, at in group:
                y = group.plan.combination(tape.outputs).results(rows[at])
                ret[i] = _shaped(tape, y)
        return ret

    def _measure_states(self, circuits: Sequence[Any], results: list[list[Any]]) -> None:
        """Compute final states, and fills the results that are still None from them."""
        if any(_is_noisy(c) for c in circuits):
            raise DeviceError(
                "cannot measure a state of a circuit with channels: it is mixed; return expval, "
                "var, or probs of fewer wires"
            )
        tapes = [read_tape(c, wire_order(c, self.wires), None, derivatives=False) for c in circuits]
        for group in self._groups(tapes):
            states = group.states()
            for i, tape, at in group:
                index = {label: q for q, label in enumerate(tape.key[0])}
                batched = tape.batch is not None
                shape = (2,) * len(index)
                psi = states[at].reshape((-1, *shape)) if batched else states[at].reshape(shape)
                for j, mp in enumerate(tape.tape.measurements):
                    if results[i][j] is None:
                        results[i][j] = measure(to_wires(mp, index), psi, is_state_batched=batched)

    # ---- derivatives ----

    def compute_vjp(
        self,
        circuits: Sequence[Any],
        cotangents: Any,
        execution_config: ExecutionConfig | None = None,
    ) -> tuple[Any, ...]:
        """Compute vector-Jacobian products of a batch of tapes.

        Returns
        -------
        tuple
            For each tape a tuple with one array for each trainable parameter, of its shape.
        """
        vjps: tuple[Any, ...] = self._vjp(circuits, cotangents)[1]
        return vjps

    def execute_and_compute_vjp(
        self,
        circuits: Sequence[Any],
        cotangents: Any,
        execution_config: ExecutionConfig | None = None,
    ) -> tuple[Any, Any]:
        """Compute results and vector-Jacobian products in one call."""
        return self._vjp(circuits, cotangents)

    def _vjp(self, circuits: Sequence[Any], cotangents: Any) -> tuple[Any, Any]:
        tapes = self._read(circuits, True)
        results: list[Any] = [None] * len(tapes)
        vjps: list[Any] = [None] * len(tapes)
        for group in self._groups(tapes):
            combinations = [group.plan.combination(t.outputs) for t in group.tapes]
            dy = [_flat(tape, cotangents[i]) for i, tape, _ in group]
            rows, by_slot = group.vjp(combinations, dy)
            for k, (i, tape, at) in enumerate(group):
                results[i] = _result(tape, combinations[k].results(rows[at]))
                vjps[i] = tuple(
                    _parameter_vjp(tape, p, by_slot[k], dy[k], group.plan, rows[at])
                    for p in tape.tape.trainable_params
                )
        return tuple(results), tuple(vjps)

    def compute_derivatives(
        self, circuits: Sequence[Any], execution_config: ExecutionConfig | None = None
    ) -> tuple[Any, ...]:
        """Compute Jacobians of a batch of tapes by all trainable parameters."""
        jacobians: tuple[Any, ...] = self._jacobians(circuits)[1]
        return jacobians

    def execute_and_compute_derivatives(
        self, circuits: Sequence[Any], execution_config: ExecutionConfig | None = None
    ) -> tuple[Any, Any]:
        """Compute results and Jacobians."""
        return self._jacobians(circuits)

    def _jacobians(self, circuits: Sequence[Any]) -> tuple[Any, Any]:
        tapes = self._read(circuits, True)
        results: list[Any] = [None] * len(tapes)
        jacobians: list[Any] = [None] * len(tapes)
        for group in self._groups(tapes):
            combinations = [group.plan.combination(t.outputs) for t in group.tapes]
            rows = group.forward()
            by_slot = group.jacobian(combinations, rows)
            for k, (i, tape, at) in enumerate(group):
                results[i] = _result(tape, combinations[k].results(rows[at]))
                jacobians[i] = _jacobian(tape, by_slot[at], group.plan, rows[at])
        return tuple(results), tuple(jacobians)


def _is_noisy(tape: Any) -> bool:
    return any(op.name in CHANNELS for op in tape.operations)


class _Group:
    """Tapes of one structure: samples are stacked in order of the tapes."""

    def __init__(self, plan: Plan, members: list[int], tapes: list[Tape]) -> None:
        self.plan, self.tapes = plan, tapes
        self._members = members
        bounds = np.cumsum([0] + [t.samples for t in tapes])
        self._slices = [slice(a, b) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
        self._n = int(bounds[-1])
        self._n_slots = len(tapes[0].slots)

    def __iter__(self) -> Any:
        return zip(self._members, self.tapes, self._slices, strict=True)

    def _all_inputs(self) -> Floats:
        """All parameters of all samples: (S, number of slots)."""
        x = np.empty((self._n, self._n_slots))
        for tape, at in zip(self.tapes, self._slices, strict=True):
            for k, value in enumerate(tape.values):
                x[at, k] = value
        return x

    def _as_inputs(self) -> tuple[bytes, Floats | None, Floats | None]:
        """As :meth:`_arguments`: all slots but strengths are inputs."""
        strengths = self.tapes[0].strengths
        as_input = bytearray([1]) * self._n_slots
        for k in strengths:
            as_input[k] = 0
        weights = np.array([self.tapes[0].values[k] for k in strengths], np.float64)
        x = self._all_inputs()[:, np.frombuffer(as_input, np.uint8) != 0]
        return bytes(as_input), weights if strengths else None, x if x.shape[1] else None

    def _arguments(self) -> tuple[bytes, Floats | None, Floats | None]:
        """Which slots are inputs, the weights (P,) and the inputs (S, I).

        Parameters of a single tape are weights, but for those that are broadcast; parameters of
        several tapes are inputs.
        """
        if len(self.tapes) > 1:
            return self._as_inputs()
        values = self.tapes[0].values
        as_input = bytes(type(v) is not float and v.ndim == 1 for v in values)
        weights = np.array([v for v, i in zip(values, as_input, strict=True) if not i], np.float64)
        columns = [v for v, i in zip(values, as_input, strict=True) if i]
        inputs = np.stack(columns, axis=1) if columns else None
        return as_input, weights, inputs

    def forward(self) -> Floats:
        """Compute expectation values of the plan's words: (S, R)."""
        if self.plan.n_rows == 0:
            return np.empty((self._n, 0))
        as_input, weights, inputs = self._arguments()
        rows = self.plan.function(as_input, False).forward(weights, inputs)
        return np.broadcast_to(rows, (self._n, self.plan.n_rows))

    def states(self) -> Any:
        """Compute final states: (S, 2**n)."""
        as_input, weights, inputs = self._arguments()
        psi = self.plan.state_function(as_input)(weights, inputs)
        return np.broadcast_to(psi, (self._n, psi.shape[-1]))

    def samples(self, shots: int, seed: int) -> Any:
        """Draw bit strings: (S, shots, n)."""
        as_input, weights, inputs = self._arguments()
        f = self.plan.sample_function(as_input, shots)
        f.seed = seed
        bits = f(weights, inputs)
        return bits if inputs is not None else bits[None]

    def vjp(
        self, combinations: list[Combination], dy: list[Floats]
    ) -> tuple[Floats, list[list[Any]]]:
        """Rows (S, R), and for each tape the derivatives by its slots, scalar or (B,)."""
        if self.plan.n_rows == 0:
            zeros = [[np.zeros_like(v) for v in t.values] for t in self.tapes]
            return np.empty((self._n, 0)), zeros
        rows = self.forward() if any(c.any_quadratic for c in combinations) else np.empty((0, 0))
        cotangents = np.empty((self._n, self.plan.n_rows))
        for c, g, at in zip(combinations, dy, self._slices, strict=True):
            if c.any_quadratic:
                cotangents[at] = np.einsum("so,sor->sr", g, c.derivative(rows[at]))
            else:
                cotangents[at] = g if c.identity else g @ c.linear
        as_input, weights, inputs = self._arguments()
        slot_of = {p: k for k, p in enumerate(self.tapes[0].slots)}
        wanted = {slot_of.get(p) for t in self.tapes for p in t.tape.trainable_params}
        gradients = any(as_input[k] for k in wanted if k is not None)
        f = self.plan.function(as_input, gradients)
        batched = inputs is not None
        values, d_weights, d_inputs = f.value_and_vjp(
            weights, inputs, cotangents if batched else cotangents[0]
        )
        if not batched:
            values = values[None]
        if len(self.tapes) > 1:
            # Derivatives by strengths are not wanted: Tape.group.
            by_slot = np.zeros((self._n, self._n_slots))
            if d_inputs is not None:
                by_slot[:, np.frombuffer(as_input, np.uint8) != 0] = d_inputs
            slots = [
                [
                    by_slot[at, k] if np.ndim(v) else by_slot[at, k].sum()
                    for k, v in enumerate(tape.values)
                ]
                for tape, at in zip(self.tapes, self._slices, strict=True)
            ]
            return np.broadcast_to(values, (self._n, self.plan.n_rows)), slots
        by_weight = iter(d_weights)
        by_input = iter(() if d_inputs is None else d_inputs.T)
        return values, [[next(by_input, None) if i else next(by_weight) for i in as_input]]

    def jacobian(self, combinations: list[Combination], rows: Floats) -> Floats:
        """Compute derivatives of each result by each slot: (S, O, number of slots)."""
        n_outputs = len(combinations[0].constant)
        if self.plan.n_rows == 0 or self._n_slots == 0:
            return np.zeros((self._n, n_outputs, self._n_slots))
        as_input, weights, x = self._as_inputs()
        f = self.plan.function(as_input, True)
        by_row = np.empty((self._n, n_outputs, self.plan.n_rows))
        for c, at in zip(combinations, self._slices, strict=True):
            by_row[at] = c.derivative(rows[at])
        if weights is not None or self.plan.n_rows <= n_outputs:
            jacobian = np.empty((self._n, self.plan.n_rows, self._n_slots))
            by_weights, by_inputs = f.jacobian(weights, x)
            inputs = np.frombuffer(as_input, np.uint8) != 0
            jacobian[:, :, ~inputs] = by_weights
            jacobian[:, :, inputs] = by_inputs
            return np.asarray(by_row @ jacobian)
        # Fewer results than words: one backward sweep for each result.
        assert x is not None  # without strengths all slots are inputs
        repeated = np.repeat(x, n_outputs, axis=0)
        _, d_inputs = f.vjp(None, repeated, by_row.reshape(-1, self.plan.n_rows))
        assert d_inputs is not None
        return d_inputs.reshape(self._n, n_outputs, self._n_slots)


def _shaped(tape: Tape, y: Floats) -> list[Any]:
    """Split (S, O) into the results of the measurements."""
    ret, at = [], 0
    for o in tape.outputs:
        n = len(o.constant)
        part = y[:, at : at + n]
        at += n
        if o.shape == ():
            part = part[:, 0]
        ret.append(part if tape.batch is not None else part[0])
    return ret


def _result(tape: Tape, y: Floats) -> Any:
    parts = _shaped(tape, y)
    return parts[0] if len(parts) == 1 else tuple(parts)


def _flat(tape: Tape, cotangents: Any) -> Floats:
    """Cotangents of the results of a tape as (S, O)."""
    parts = (cotangents,) if len(tape.outputs) == 1 else cotangents
    if len(tape.outputs) == 1 and isinstance(cotangents, (tuple, list)) and len(cotangents) == 1:
        parts = cotangents
    columns = [
        np.asarray(qml.math.toarray(c), dtype=np.float64).reshape(tape.samples, len(o.constant))
        for c, o in zip(parts, tape.outputs, strict=True)
    ]
    return columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)


def _coefficient(tape: Tape, parameter: int, plan: Plan, rows: Floats) -> tuple[int, Floats] | None:
    """Return the measurement's number and derivatives (S,) of its value by one coefficient."""
    found = tape.coefficients.get(parameter)
    if found is None:
        return None
    j, (above, below, difference) = found
    values = Combination(plan, [above, below]).results(rows)
    return j, (values[:, 0] - values[:, 1]) / difference


def _parameter_vjp(
    tape: Tape, parameter: int, by_slot: list[Any], dy: Floats, plan: Plan, rows: Floats
) -> Any:
    """Return the derivative by one trainable parameter."""
    if parameter in (slots := _slot_numbers(tape)):
        return np.asarray(by_slot[slots[parameter]])
    if (coefficient := _coefficient(tape, parameter, plan, rows)) is None:
        return np.zeros_like(tape.tape.get_parameters(trainable_only=False)[parameter], dtype=float)
    j, derivative = coefficient
    column = sum(len(o.constant) for o in tape.outputs[:j])
    return np.asarray(dy[:, column] @ derivative)


def _slot_numbers(tape: Tape) -> dict[int, int]:
    return {p: k for k, p in enumerate(tape.slots)}


def _jacobian(tape: Tape, by_slot: Floats, plan: Plan, rows: Floats) -> Any:
    """Arranges (S, O, slots) as PennyLane does: by measurement, then by trainable parameter."""
    slots = _slot_numbers(tape)
    columns = []
    for parameter in tape.tape.trainable_params:
        if parameter in slots:
            k = slots[parameter]
            if np.ndim(tape.values[k]):
                raise DeviceError(
                    "cannot compute a Jacobian by a broadcast parameter: one array for each "
                    "sample would be needed; use vector-Jacobian products (device_vjp=True)"
                )
            columns.append(by_slot[:, :, k])
            continue
        column = np.zeros(by_slot.shape[:2])
        if (coefficient := _coefficient(tape, parameter, plan, rows)) is not None:
            j, derivative = coefficient
            column[:, sum(len(o.constant) for o in tape.outputs[:j])] = derivative
        columns.append(column)
    by_parameter = [_shaped(tape, c) for c in columns]
    by_measurement = []
    for j in range(len(tape.outputs)):
        parts = tuple(np.asarray(p[j]) for p in by_parameter)
        by_measurement.append(parts[0] if len(parts) == 1 else parts)
    return by_measurement[0] if len(by_measurement) == 1 else tuple(by_measurement)
