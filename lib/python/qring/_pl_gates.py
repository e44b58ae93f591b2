"""PennyLane's operators as gates of qring's circuits.

Start reading at :data:`GATES`. An operator is described in two parts: its structure, which is
hashable and enters the key of a plan, and its scalar parameters, which become parameters or inputs
of the compiled circuit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pennylane as qml
from pennylane.fourier.mark import MarkedOp

from .expression import Input, Parameter, as_expression

Gate = dict[str, Any]
"""One entry of the list of gates of a job file's circuit object."""

Argument = Callable[[int, float], Any]
"""Maps the number of an operator's parameter and a factor to the value of a gate's argument."""

GATES: dict[str, tuple[str, tuple[str, ...]]] = {
    "Identity": ("I", ()),
    "PauliX": ("X", ()),
    "PauliY": ("Y", ()),
    "PauliZ": ("Z", ()),
    "Hadamard": ("H", ()),
    "S": ("S", ()),
    "T": ("T", ()),
    "SX": ("SX", ()),
    "Adjoint(S)": ("Sdg", ()),
    "Adjoint(T)": ("Tdg", ()),
    "Adjoint(SX)": ("SXdg", ()),
    "RX": ("RX", ("angle",)),
    "RY": ("RY", ("angle",)),
    "RZ": ("RZ", ("angle",)),
    "PhaseShift": ("PhaseShift", ("angle",)),
    "U1": ("U1", ("angle",)),
    "U2": ("U2", ("phi", "lambda")),
    "U3": ("U3", ("theta", "phi", "lambda")),
    "Rot": ("Rot", ("phi", "theta", "omega")),
    "CNOT": ("CNOT", ()),
    "CY": ("CY", ()),
    "CZ": ("CZ", ()),
    "CH": ("CH", ()),
    "CRX": ("CRX", ("angle",)),
    "CRY": ("CRY", ("angle",)),
    "CRZ": ("CRZ", ("angle",)),
    "CRot": ("CRot", ("phi", "theta", "omega")),
    "ControlledPhaseShift": ("ControlledPhaseShift", ("angle",)),
    "SWAP": ("SWAP", ()),
    "ISWAP": ("ISWAP", ()),
    "SISWAP": ("SISWAP", ()),
    "ECR": ("ECR", ()),
    "PSWAP": ("PSWAP", ("angle",)),
    "IsingXX": ("IsingXX", ("angle",)),
    "IsingYY": ("IsingYY", ("angle",)),
    "IsingZZ": ("IsingZZ", ("angle",)),
    "IsingXY": ("IsingXY", ("angle",)),
    "SingleExcitation": ("SingleExcitation", ("angle",)),
    "DoubleExcitation": ("DoubleExcitation", ("angle",)),
    "MultiRZ": ("MultiRZ", ("angle",)),
    "Toffoli": ("Toffoli", ()),
    "CCZ": ("CCZ", ()),
    "CSWAP": ("CSWAP", ()),
}
"""Name in PennyLane -> name in qring and the arguments in the order of PennyLane's parameters."""

CHANNELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "BitFlip": ("BitFlip", ("p",)),
    "PhaseFlip": ("PhaseFlip", ("p",)),
    "DepolarizingChannel": ("Depolarize", ("p",)),
    "AmplitudeDamping": ("AmplitudeDamping", ("gamma",)),
    "GeneralizedAmplitudeDamping": ("GeneralizedAmplitudeDamping", ("gamma", "p")),
    "PhaseDamping": ("PhaseDamping", ("gamma",)),
    "ResetError": ("ResetError", ("p_0", "p_1")),
    "ThermalRelaxationError": ("ThermalRelaxation", ("excited", "t1", "t2", "time")),
    "PauliError": ("PauliChannel", ()),
    "QubitChannel": ("Kraus", ()),
}
"""As :data:`GATES`, for noise channels. Their strengths are parameters, never inputs."""

CHANNEL_WIRES = 2
"""Most wires of a channel."""
KRAUS_OPERATORS = 16
"""Most operators of a QubitChannel."""

UNITARY_WIRES = 6
"""Most wires of a QubitUnitary that the circuit reader decomposes."""


def _controlled(op: Any) -> tuple[Any, tuple[Any, ...], tuple[bool, ...]]:
    """Split nested controls: the base operator, the labels of the controls and their values.

    A marker of qml.fourier.mark is left out.
    """
    controls: tuple[Any, ...] = ()
    values: tuple[bool, ...] = ()
    while op.name not in GATES and isinstance(op, (qml.ops.Controlled, MarkedOp)):
        if not isinstance(op, MarkedOp):
            controls += op.control_wires.labels
            values += tuple(bool(v) for v in op.control_values)
        op = op.base
    return op, controls, values


def _base_is_native(op: Any) -> bool:
    if op.name in GATES or op.name in ("GlobalPhase", "BasisState"):
        return True
    if op.name == "PauliRot":
        return set(op.hyperparameters["pauli_word"]) != {"I"}
    if op.name == "QubitUnitary":
        return len(op.wires) <= UNITARY_WIRES and qml.math.ndim(op.data[0]) == 2
    return False


def has_only_matrix(op: Any) -> bool:
    """Whether an operator has a matrix, and nothing else to compute it by."""
    return op.has_matrix and not op.has_decomposition and len(op.wires) <= UNITARY_WIRES


def is_native(op: Any, trainable_matrices: bool = True) -> bool:
    """Whether an operator needs no decomposition.

    Parameters
    ----------
    op : pennylane.operation.Operator
        An operator of a tape.
    trainable_matrices : bool
        False: refuse matrices that are differentiated, because they are constants of a plan.
    """
    if op.name in CHANNELS:
        if op.name == "QubitChannel" and (
            len(op.data) > KRAUS_OPERATORS
            or (not trainable_matrices and any(qml.math.requires_grad(k) for k in op.data))
        ):
            return False
        return len(op.wires) <= CHANNEL_WIRES
    base, controls, _ = _controlled(op)
    if not _base_is_native(base):
        if not has_only_matrix(base) or base.batch_size:
            return False
    elif base.name != "QubitUnitary":
        return base.name != "BasisState" or not controls
    return trainable_matrices or not any(qml.math.requires_grad(d) for d in base.data)


def describe(op: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Split an operator into its structure and its scalar parameters.

    Returns
    -------
    structure : tuple
        Hashable: name, labels of the wires, and what else determines the gates.
    parameters : tuple
        Numbers, or arrays of shape (B,) of a broadcast tape.
    """
    name = op.name
    if name in GATES:
        return (name, op.wires.labels), op.data
    if name == "PauliError":
        return (name, op.wires.labels, op.hyperparameters["operators"]), op.data
    if name == "QubitChannel":
        kraus = tuple(np.ascontiguousarray(k, dtype=np.complex128).tobytes() for k in op.data)
        return (name, op.wires.labels, kraus), ()
    if name in CHANNELS:
        return (name, op.wires.labels, None), op.data
    base, controls, values = _controlled(op)
    extra: Any = None
    data = base.data
    if base.name == "PauliRot":
        extra = base.hyperparameters["pauli_word"]
    elif base.name == "BasisState":
        extra = "".join(str(int(bit)) for bit in np.asarray(base.data[0]).ravel())
        data = ()
    elif not _base_is_native(base) or base.name == "QubitUnitary":
        matrix = np.ascontiguousarray(qml.math.toarray(base.matrix()), dtype=np.complex128)
        return ("QubitUnitary", base.wires.labels, controls, values, matrix.tobytes()), ()
    return (base.name, base.wires.labels, controls, values, extra), data


def _matrix(data: bytes, n_wires: int) -> list[Any]:
    u = np.frombuffer(data, dtype=np.complex128).reshape(2**n_wires, 2**n_wires)
    return [[[float(z.real), float(z.imag)] for z in row] for row in u]


def _global_phase(
    controls: Sequence[int], values: Sequence[bool], argument: Argument
) -> list[Gate]:
    """exp(-i angle), where the controls hold.

    RZ(2a) = diag(exp(-ia), exp(ia)), and a phase shift turns the second entry: by -2a it equals the
    first one, by -a it is 1.
    """
    target, rest = (controls[-1], controls[:-1]) if controls else (0, ())
    gates: list[Gate] = []
    if not controls or not values[-1]:
        gates.append({"gate": "RZ", "qubits": [target], "angle": argument(0, 2.0)})
    shift = argument(0, -1.0 if controls else -2.0)
    gates.append({"gate": "PhaseShift", "qubits": [target], "angle": shift})
    if rest:
        for gate in gates:
            gate["controls"] = list(rest)
            gate["control_values"] = [int(v) for v in values[:-1]]
    return gates


def _one_minus(value: Any) -> Any:
    """Return 1 minus a number, a text, or an object that refers to a symbol, as in a job file."""
    if isinstance(value, float):
        return 1 - value
    if isinstance(value, dict):
        symbol = Parameter(value["parameter"]) if "parameter" in value else Input(value["data"])
        value = value.get("scale", 1.0) * symbol
    return (1 - as_expression(value)).to_json()


def _channel(name: str, qubits: list[int], extra: Any, argument: Argument) -> list[Gate]:
    channel, keys = CHANNELS[name]
    item: Gate = {"channel": channel, "qubits": qubits}
    for i, key in enumerate(keys):
        item[key] = argument(i, 1.0)
    if name == "GeneralizedAmplitudeDamping":  # PennyLane's p is the one of an excitation
        item["p"] = _one_minus(item["p"])
    elif name == "PauliError":
        if set(extra) == {"I"}:
            return []
        words = ["".join(w) for w in itertools.product("ixyz", repeat=len(extra))][1:]
        item.update((f"p_{word}", 0.0) for word in words)
        item[f"p_{extra.lower()}"] = argument(0, 1.0)
    elif name == "QubitChannel":
        item["operators"] = [_matrix(k, len(qubits)) for k in extra]
    return [item]


def gates_of(structure: tuple[Any, ...], index: dict[Any, int], argument: Argument) -> list[Gate]:
    """Write the gates of one operator.

    Parameters
    ----------
    structure : tuple
        The first result of :func:`describe`.
    index : dict
        Label of a wire -> number of the qubit.
    argument : callable
        See :data:`Argument`.
    """
    name = structure[0]
    if name == "Identity":  # on any number of wires
        return []
    qubits = [index[w] for w in structure[1]]
    if name in GATES and len(structure) == 2:
        gate, keys = GATES[name]
        item: Gate = {"gate": gate, "qubits": qubits}
        for i, key in enumerate(keys):
            item[key] = argument(i, 1.0)
        return [item]
    if name in CHANNELS:
        return _channel(name, qubits, structure[2], argument)
    controls, values, extra = [index[w] for w in structure[2]], structure[3], structure[4]
    if name == "GlobalPhase":
        return _global_phase(controls, values, argument)
    item = {"qubits": qubits}
    if name == "QubitUnitary":
        item["gate"] = "Unitary"
        item["matrix"] = _matrix(extra, len(qubits))
    elif name == "BasisState":
        item["gate"] = "BasisState"
        item["state"] = extra
    elif name == "PauliRot":
        item["gate"] = "PauliRot"
        item["pauli_word"] = extra
        item["angle"] = argument(0, 1.0)
    else:
        item["gate"], keys = GATES[name]
        for i, key in enumerate(keys):
            item[key] = argument(i, 1.0)
    if controls:
        item["controls"] = controls
        item["control_values"] = [int(v) for v in values]
    return [item]
