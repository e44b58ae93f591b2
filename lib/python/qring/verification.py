"""Checks of published runs. Start at :func:`verify`."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Sequence

from . import _program
from ._library import Code, QringError

__all__ = ["Check", "Difference", "Verification", "verify"]

# Exit codes of qring verify: same, differs, not proved.
_ANSWERS = (0, 6, 7)
_NUMBERS = ("--verify-seed", "--threads")


@dataclass(frozen=True)
class Check:
    """One check of a run.

    Attributes
    ----------
    name : str
        "job", "data", "chain", "files", "signature", "checkpoints", "steps", "result",
        "weights", "arithmetic".
    result : str
        "same", "differs", or "unknown": not checked, or not proved.
    text : str
        What was compared, or the difference.
    """

    name: str
    result: str
    text: str


@dataclass(frozen=True)
class Difference:
    """The first step whose computation gives other bits.

    Attributes
    ----------
    step : int
    kind : str
        "TRAIN", or "EVAL": the evaluation after the step.
    recorded_digest, computed_digest : str
        Digests of the state after the step.
    key, recorded, computed : str
        The first value of its line that differs, and both texts; "": none.
    tensor : str
        The first tensor that differs at the next checkpoint of the run; "": there is none.
    element : int
        Its first element that differs.
    recorded_number, computed_number : float
        Both values of that element.
    """

    step: int
    kind: str
    recorded_digest: str
    computed_digest: str
    key: str = ""
    recorded: str = ""
    computed: str = ""
    tensor: str = ""
    element: int = 0
    recorded_number: float = float("nan")
    computed_number: float = float("nan")


@dataclass(frozen=True)
class Verification:
    """The answer of :func:`verify`; true if all that was checked is the same.

    Attributes
    ----------
    run : str
    verdict : str
        "same", "differs", or "unproven": the run has no chain, another arithmetic, or files
        or weights that cannot be checked, or it goes on after its result.
    checks : tuple of Check
    steps : int
        Number of steps that were computed.
    seconds : float
        Time of that computation.
    seed : int
        Seed of the drawn steps.
    difference : Difference or None
    """

    run: str
    verdict: str
    checks: tuple[Check, ...]
    steps: int
    seconds: float
    seed: int
    difference: Difference | None

    def __bool__(self) -> bool:
        return self.verdict == "same"

    def __str__(self) -> str:
        lines = [f"{check.name:12} {check.result:8} {check.text}" for check in self.checks]
        return "\n".join([*lines, self.verdict])

    def check(self, name: str) -> Check | None:
        """Return the check of that name, or None if it was not made."""
        return next((check for check in self.checks if check.name == name), None)


def _steps_arguments(
    step: int | None, steps: Sequence[int] | None, sample: int | None, everything: bool
) -> list[str]:
    given = [step is not None, steps is not None, sample is not None, everything]
    if sum(given) > 1:
        raise QringError(
            "cannot verify: give only one of step, steps, sample and all", Code.INVALID_ARGUMENT
        )
    if steps is not None:
        if len(steps) != 2:
            raise QringError(
                f"cannot verify steps {steps!r}: give the first and the last step",
                Code.INVALID_ARGUMENT,
            )
        return ["--steps", f"{int(steps[0])}..{int(steps[1])}"]
    if step is not None:
        return ["--step", str(int(step))]
    if sample is not None:
        return ["--sample", str(int(sample))]
    return ["--all"] if everything else []


def verify(
    run: str | os.PathLike[str],
    *,
    step: int | None = None,
    steps: Sequence[int] | None = None,
    sample: int | None = None,
    seed: int | None = None,
    all: bool = False,
    key: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    checkpoints: str | os.PathLike[str] | None = None,
    threads: int | None = None,
) -> Verification:
    """Check a run, and compute steps of it again; as the command ``qring verify``.

    Parameters
    ----------
    run : str or path
        Folder or URL (gs://, s3://, https://) of a run.
    step : int, optional
        Compute this step again, from the nearest checkpoint.
    steps : (int, int), optional
        Compute the steps from the first to the second again.
    sample, seed : int, optional
        Compute this many steps again, drawn by the seed; without seed, by a random one.
    all : bool
        Compute all steps again, from the start.
    key : path, optional
        File with the public key that must have signed the run.
    data : path, optional
        Data of the run, where it is not at the place in its job.json.
    checkpoints : path, optional
        Folder of its checkpoints; default: in the run.
    threads : int, optional
        Number of threads.

    Returns
    -------
    Verification

    Raises
    ------
    QringError
        The run cannot be read, or does not have the step; what differs is not an error.
    """
    arguments = ["verify", os.fspath(run), "--json"]
    arguments += _steps_arguments(step, steps, sample, all)
    flags: dict[str, Any] = {
        "--verify-seed": seed,
        "--key": key,
        "--data": data,
        "--checkpoints": checkpoints,
        "--threads": threads,
    }
    for flag, value in flags.items():
        if value is not None:
            arguments += [flag, os.fspath(value) if flag not in _NUMBERS else str(int(value))]
    answer = json.loads(_program.start(arguments, accept=_ANSWERS))
    checks = tuple(Check(c["check"], c["result"], c["text"]) for c in answer["checks"])
    differs = answer.get("difference")
    return Verification(
        answer["run"],
        answer["verdict"],
        checks,
        answer["steps"],
        answer["seconds"],
        answer["seed"],
        Difference(**differs) if differs else None,
    )
