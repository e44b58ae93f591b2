"""Expectation values of quantum circuits and their exact derivatives.

>>> import qring
>>> circuit = qring.Circuit(2).ry("w0", 0).cnot(0, 1)
>>> qring.expval(circuit, "Z0 Z1").forward([0.3])
array([1.])

NumPy and frameworks are imported when they are first needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._library import Code, QringError
from ._version import __version__
from .circuit import Circuit, Expression, Input, Parameter

if TYPE_CHECKING:
    from ._qiskit_noise import noise_from_qiskit as noise_from_qiskit
    from .function import Function, SampleFunction, StateFunction, Sum, expval, sample, state
    from .hybrid import HybridJob as HybridJob
    from .hybrid import HybridJobError as HybridJobError
    from .hybrid import hybrid_job as hybrid_job
    from .hybrid import input_dir as input_dir
    from .hybrid import load_checkpoint as load_checkpoint
    from .hybrid import log_metric as log_metric
    from .hybrid import results_dir as results_dir
    from .hybrid import save_checkpoint as save_checkpoint
    from .job import Job as Job
    from .job import ProgramError as ProgramError
    from .job import run as run
    from .job import sweep as sweep
    from .kubernetes import attach as attach
    from .kubernetes import submit as submit
    from .pennylane import from_qnode as from_qnode
    from .readouts import fidelity, probs, projector
    from .result import History as History
    from .result import Result as Result
    from .result import SweepResult as SweepResult
    from .result import load as load
    from .verification import Verification as Verification
    from .verification import verify as verify

__all__ = [
    "Circuit",
    "Code",
    "Expression",
    "Function",
    "Input",
    "Parameter",
    "QringError",
    "SampleFunction",
    "StateFunction",
    "Sum",
    "__version__",
    "expval",
    "fidelity",
    "probs",
    "projector",
    "sample",
    "state",
]

_SUBMODULES = frozenset(
    {
        "torch",
        "jax",
        "keras",
        "pennylane",
        "job",
        "result",
        "kubernetes",
        "hybrid",
        "verification",
    }
)
# Names of submodules that can be used as qring.NAME.
_NAMES = {
    **dict.fromkeys(
        ("Function", "SampleFunction", "StateFunction", "Sum", "expval", "sample", "state"),
        "function",
    ),
    "from_qnode": "pennylane",
    "noise_from_qiskit": "_qiskit_noise",
    **dict.fromkeys(("fidelity", "probs", "projector"), "readouts"),
    **dict.fromkeys(("Job", "ProgramError", "run", "sweep"), "job"),
    **dict.fromkeys(("History", "Result", "SweepResult", "load"), "result"),
    **dict.fromkeys(("HybridJob", "HybridJobError", "hybrid_job", "input_dir"), "hybrid"),
    **dict.fromkeys(("load_checkpoint", "log_metric", "results_dir", "save_checkpoint"), "hybrid"),
    **dict.fromkeys(("attach", "submit"), "kubernetes"),
    **dict.fromkeys(("Verification", "verify"), "verification"),
}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _NAMES:
        module = importlib.import_module(f"{__name__}.{_NAMES[name]}")
        value = getattr(module, name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES, *_NAMES})
