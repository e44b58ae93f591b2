"""Jobs: a model, data and training, as in a job file. Start at :class:`Job` and :func:`run`.

>>> import qring
>>> job = qring.Job("job.json").set("train.epochs", 5)
>>> result = qring.run(job, workers=2)  # doctest: +SKIP
"""

from __future__ import annotations

import copy
import json
import os
import re
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence, Union

import numpy as np

from . import _program, _progress
from ._library import Code, QringError
from ._program import ProgramError
from ._samples import table_names, write_samples
from .function import expval
from .result import Result, SweepResult, read_json

__all__ = ["Job", "JobLike", "ProgramError", "Result", "SweepResult", "run", "sweep"]

# As in lib/job/job_spec.c.
_NAME = re.compile(r"[A-Za-z0-9][-_.A-Za-z0-9]{0,62}\Z")
_NUMBERED = re.compile(r"x\[[0-9]+\]\Z")
_TOKEN = re.compile(r"([^.\[\]]+)|\[([^\[\]]+)\]")


def _plain(value: Any) -> Any:
    """Return a JSON value; circuits and NumPy's numbers are converted, the rest is copied."""
    if hasattr(value, "to_json"):
        return _plain(value.to_json())
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"cannot put {value!r} into a job: {type(value).__name__} has no JSON form")


def map_files(keys: dict[str, Any], function: Callable[[str], str]) -> None:
    """Replace all local file names of a job in place by the values of a function."""

    def value(url: Any) -> Any:
        if isinstance(url, list):
            return [value(item) for item in url]
        return function(url) if isinstance(url, str) and "://" not in url else url

    def resolve(parent: Any, *names: str) -> None:
        if isinstance(parent, dict):
            for name in names:
                if name in parent:
                    parent[name] = value(parent[name])

    data = keys.get("data")
    resolve(data, "url", "validation_url")
    channels = data.get("channels") if isinstance(data, dict) else None
    if isinstance(channels, dict):
        for name, channel in channels.items():
            if isinstance(channel, dict):
                resolve(channel, "url")
            else:
                resolve(channels, name)
    train = keys.get("train")
    initial = train.get("initial_weights") if isinstance(train, dict) else None
    if isinstance(initial, dict):
        resolve(initial, "url")
    else:
        resolve(train, "initial_weights")
    model = keys.get("model")
    for layer in model if isinstance(model, list) else ():
        if isinstance(layer, dict):
            resolve(layer.get("circuit"), "url")
            watch = layer.get("watch")
            observables = list(watch.values()) if isinstance(watch, dict) else []
            readouts = layer.get("readouts")
            observables += readouts if isinstance(readouts, list) else []
            for observable in observables:
                # Otherwise the terms themselves.
                if isinstance(observable, dict) and isinstance(observable.get("hamiltonian"), str):
                    resolve(observable, "hamiltonian")


def _beside(folder: Path) -> Callable[[str], str]:
    """Resolve a file name as the program does: from the working folder, else the job's."""

    def absolute(name: str) -> str:
        if not os.path.exists(name) and (folder / name).exists():
            return str(folder / name)
        return name

    return absolute


class Job:
    """A job: model, data and training, as in a job file.

    Parameters
    ----------
    source : Job, mapping, str or path, optional
        Keys of the job, or the path of a job file. File names in it are resolved from the working
        folder, else from the job file's folder.
    **keys
        Keys of the job, which replace those of `source`. A layer of ``model`` may be a
        :class:`qring.Circuit`, and so may the value of its key ``circuit``.

    Examples
    --------
    >>> job = Job(
    ...     name="ising",
    ...     data={"source": "none"},
    ...     model=[{"layer": "quantum",
    ...             "circuit": {"qubits": 2, "ansatz": "hardware-efficient"},
    ...             "readouts": ["Z0*Z1 + 0.5*X0 + 0.5*X1"]}],
    ...     train={"epochs": 100, "loss": "expectation"},
    ... )
    >>> job.set("train.epochs", 5).to_json()["train"]["epochs"]
    5
    """

    def __init__(
        self,
        source: Job | Mapping[str, Any] | str | os.PathLike[str] | None = None,
        /,
        **keys: Any,
    ) -> None:
        folder: Path | None = None
        base: Any = {}
        if isinstance(source, (str, os.PathLike)):
            path = Path(source)
            if path.is_dir():
                # As on the command line: the folder of a run stands for the job it trained.
                path = path / "job.json"
            base = read_json(path, "the job", "give the path of a job file", Code.INVALID_ARGUMENT)
            folder = path.parent.absolute()
        elif source is not None:
            base = source
        base = _plain(base)
        if not isinstance(base, dict):
            raise TypeError(f"cannot make a job of {type(source).__name__}: give a JSON object")
        keys = _plain(keys)
        self._keys: dict[str, Any] = {**base, **keys}
        model = self._keys.get("model")
        if isinstance(model, list):
            # A circuit alone is a quantum layer.
            self._keys["model"] = [
                {"layer": "quantum", "circuit": item}
                if isinstance(item, dict) and "layer" not in item and "qubits" in item
                else item
                for item in model
            ]
        if folder is not None:
            map_files(self._keys, _beside(folder))

    @property
    def name(self) -> str:
        """Name of the job; ``"job"`` by default, as in the program."""
        name = self._keys.get("name")
        return name if isinstance(name, str) else "job"

    def to_json(self) -> dict[str, Any]:
        """Return a copy of all keys, as in a job file."""
        return copy.deepcopy(self._keys)

    def copy(self) -> Job:
        """Return an independent copy."""
        return Job(self)

    __copy__ = copy

    def set(self, path: str, value: Any) -> Job:
        """Set a key of the job in place, as ``--set PATH=VALUE`` does.

        Parameters
        ----------
        path : str
            Keys joined by points; elements of lists by number or by name:
            ``"train.optimizer.learning_rate"``, ``"model[1].units"``, ``"model[head].units"``.
        value
            A JSON value; None removes the key.

        Returns
        -------
        Job
            This job.
        """

        def fail(reason: str) -> ValueError:
            return ValueError(f"cannot set {path!r}: {reason}; see qring help job")

        tokens = [match.groups() for match in _TOKEN.finditer(path)]
        spelled = "".join(f"[{index}]" if index else f".{key}" for key, index in tokens)
        if not tokens or spelled.lstrip(".") != path or tokens[0][1]:
            raise fail("it is not a path such as train.epochs or model[0].units")

        def element(parent: Any, index: str) -> int:
            if not isinstance(parent, list):
                raise fail(f"[{index}] is not in a list")
            for i, item in enumerate(parent):
                names = (str(i), item.get("name") if isinstance(item, dict) else None)
                if index.strip("\"'") in names:
                    return i
            raise fail(f"there is no element {index}")

        parent: Any = self._keys
        for i, (key, index) in enumerate(tokens):
            last = i == len(tokens) - 1
            if index:
                at: Any = element(parent, index)
            else:
                at = key
                if not isinstance(parent, dict):
                    raise fail(f"{key!r} is not in an object")
                if not last and parent.get(at) is None:
                    parent[at] = {}
            if last and value is None:
                parent.pop(at) if isinstance(parent, list) else parent.pop(at, None)
            elif last:
                parent[at] = _plain(value)
            else:
                parent = parent[at]
        return self

    def validate(self) -> dict[str, Any]:
        """Check all that a run needs, without training (``qring validate``).

        Returns
        -------
        dict
            The program's report: ``parameters``, ``train_samples``, ``memory_bytes``,
            ``best_workers``, ``workers`` (a list with seconds per step for each number).

        Raises
        ------
        QringError
            The run would fail; the text has all problems.
        """
        text = _program.start(["validate", "-", "--json"], self._text(), accept=(0, 2, 138))
        report: dict[str, Any] = json.loads(text)
        if not report["good"]:
            problems = [_program.readable(finding["sentence"]) for finding in report["findings"]]
            code = Code[report["findings"][0]["code"]] if problems else Code.INVALID_ARGUMENT
            raise QringError("\n".join(problems), code)
        return report

    def _text(self) -> bytes:
        return json.dumps(self._keys).encode()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and self._keys == other._keys

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        layers = self._keys.get("model")
        return f"Job({self.name!r}, {len(layers) if isinstance(layers, list) else 0} layers)"


JobLike = Union[Job, Mapping[str, Any], str, "os.PathLike[str]"]


def _as_job(job: JobLike) -> Job:
    return job.copy() if isinstance(job, Job) else Job(job)


def _flags(
    workers: str, folder: Path, threads: int | None, fresh: bool, arguments: Sequence[str]
) -> list[str]:
    """Return the arguments that run and sweep share."""
    flags = ["-", "-n", workers, "--json", f"--out={folder}"]
    if threads is not None:
        flags.append(f"--threads={threads}")
    if fresh:
        flags.append("--fresh")
    return [*flags, *arguments]


def _train(command: Sequence[str], job: Job, bar: _progress.Bar) -> None:
    try:
        _program.start(command, job._text(), bar.line, bar.tick)
    except BaseException:
        bar.end(failed=True)
        raise
    bar.end(failed=False)


def _out_folder(job: Job, out: str | os.PathLike[str] | None) -> Path:
    """Return the output folder; reject the name of a job as the program does, but before a write.

    Samples are written before the program starts, and a name may be a path to another folder.
    """
    if not _NAME.match(job.name):
        raise QringError(
            f"cannot start {job.name!r}: it is not a valid job name; use 1 to 63 letters, digits, "
            "'-', '_' or '.', beginning with a letter or digit",
            Code.INVALID_ARGUMENT,
        )
    return Path(out) if out is not None else Path("out") / job.name


def _workers(number: int) -> str:
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 1:
        raise ValueError(f"cannot start {number!r} workers: give an integer from 1 to 64")
    return str(number)


def _input_names(keys: Mapping[str, Any]) -> list[str] | None:
    """Return the names of the inputs of the first layer with such, as :attr:`Function.inputs`.

    None: inputs have numbers, or the program will refuse the circuit.
    """
    model = keys.get("model")
    for layer in model if isinstance(model, list) else ():
        circuit = layer.get("circuit") if isinstance(layer, dict) else None
        if not isinstance(circuit, dict) or "qubits" not in circuit:
            continue
        try:
            names = expval(circuit, "1").inputs  # the read-outs do not change the inputs
        except (QringError, TypeError, ValueError):
            return None
        if names:
            return None if any(_NUMBERED.match(name) for name in names) else list(names)
    return None


def with_data(job: Job, data: Any, validation_data: Any, folder: Path) -> None:
    """Write arrays into `folder` and set the job's data object to these files."""
    if data is None:
        if validation_data is not None:
            raise ValueError("cannot use validation_data without data: give data=(x, y) too")
        return
    old = job.to_json().get("data")
    keep = ("train_fraction", "shuffle_split") if validation_data is None else ()
    keys = {key: old[key] for key in keep if key in old} if isinstance(old, dict) else {}
    names = table_names(data) or _input_names(job.to_json())
    path, more = write_samples(data, folder, "data", None, names)
    keys.update(more, url=str(path))
    if validation_data is not None:
        path, other = write_samples(validation_data, folder, "validation", more["source"], names)
        if other != more:
            raise ValueError(
                "cannot use validation_data: it has other kinds of arrays than data; give both "
                "labels, or both sample weights"
            )
        keys["validation_url"] = str(path)
    job.set("data", keys)


def run(
    job: JobLike,
    *,
    workers: int = 1,
    out: str | os.PathLike[str] | None = None,
    data: Any = None,
    validation_data: Any = None,
    epochs: int | None = None,
    seed: int | None = None,
    threads: int | None = None,
    fresh: bool = False,
    progress: bool | None = None,
    arguments: Sequence[str] = (),
) -> Result:
    """Train a job on this machine, with the program ``qring run``.

    An interrupted run resumes when it is called again; a finished one is not trained again.

    Parameters
    ----------
    job : Job, mapping, str or path
        The job, or the path of a job file.
    workers : int
        Number of processes, 1 to 64. The result is the same to the last bit for any number.
    out : str or path, optional
        Output folder. Default: ``out/NAME``.
    data : tuple of arrays or mapping, optional
        Samples in place of the job's data: ``(x, y)``, ``(x, y, sample_weight)`` or
        ``(x,)``, with `x` of shape (samples, inputs) and `y` of shape (samples,) or
        (samples, outputs); `y` of shape (samples,) may be words. They are written into `out`.
        The columns of a table keep their names; those of an array get the names of the circuit's
        inputs, in order of first use, if it names as many.
        ``train_fraction`` and ``shuffle_split`` of the job's data object still apply.
    validation_data : tuple of arrays or mapping, optional
        Samples that validate; all of `data` then train.
    epochs, seed : int, optional
        In place of the job's.
    threads : int, optional
        Threads of each worker. Default: the available CPUs divided by `workers`.
    fresh : bool
        Delete checkpoints and the earlier run in `out`, and start over.
    progress : bool, optional
        False: no progress bar. None: a bar in terminals and notebooks. True: a line per epoch
        elsewhere.
    arguments : sequence of str
        More flags of ``qring run``.

    Returns
    -------
    Result

    Raises
    ------
    QringError
        The job or its data is wrong, or training failed. ``exit_code`` is the program's.
    KeyboardInterrupt
        Raised again after all processes have ended with a checkpoint.
    """
    job = _as_job(job)
    # Start no work, and write no file, without the program.
    _program.find()
    count = _workers(workers)
    folder = _out_folder(job, out)
    with_data(job, data, validation_data, folder.absolute())
    if epochs is not None:
        job.set("train.epochs", epochs)
    if seed is not None:
        job.set("seed", seed)
    train = job.to_json().get("train")
    train = train if isinstance(train, dict) else {}
    source = job.to_json().get("data")
    none = isinstance(source, dict) and source.get("source") == "none"
    batch = train.get("batch_size")
    bar = _progress.bar(
        progress, job.name, folder / "steps.jsonl", batch if isinstance(batch, int) else None
    )
    planned = train.get("epochs")
    bar.plan(planned if isinstance(planned, int) else None, 1 if none else 0)
    _train(["run", *_flags(count, folder, threads, fresh, arguments)], job, bar)
    return Result(folder)


def sweep(
    job: JobLike,
    grid: Mapping[str, Any] | None = None,
    *,
    workers: int = 1,
    out: str | os.PathLike[str] | None = None,
    data: Any = None,
    validation_data: Any = None,
    trials: int | None = None,
    metric: str | None = None,
    mode: str | None = None,
    seed: int | None = None,
    threads: int | None = None,
    fresh: bool = False,
    progress: bool | None = None,
    arguments: Sequence[str] = (),
) -> SweepResult:
    """Train a job with several values of its keys, with the program ``qring sweep``.

    Parameters
    ----------
    job : Job, mapping, str or path
        The job, or the path of a job file.
    grid : mapping, optional
        Values or draws by path: ``{"train.optimizer.learning_rate": [0.01, 0.1]}``. Default: the
        job's ``sweep.keys``.
    workers : int
        Number of trials at a time; each has one worker.
    out : str or path, optional
        Output folder. Default: ``out/NAME``.
    data, validation_data : tuple of arrays or mapping, optional
        As in :func:`run`.
    trials : int, optional
        Number of trials to draw. Default: all combinations.
    metric, mode : str, optional
        What is compared, such as ``"val_loss"``, and the better value: ``"min"`` or ``"max"``.
    seed : int, optional
        Seed of the draws.
    threads, fresh, progress, arguments
        As in :func:`run`.

    Returns
    -------
    SweepResult
        All trials; ``best`` is the :class:`Result` of the best one.

    Raises
    ------
    QringError, KeyboardInterrupt
        As in :func:`run`.
    """
    job = _as_job(job)
    _program.find()
    count = _workers(workers)
    folder = _out_folder(job, out)
    with_data(job, data, validation_data, folder.absolute())
    keys = {"keys": grid, "trials": trials, "metric": metric, "mode": mode, "seed": seed}
    for key, value in keys.items():
        if value is not None:
            # The paths in a grid contain points, so the object is set as a whole.
            job.set(f"sweep.{key}", value)
    bar = _progress.bar(progress, job.name, None)
    _train(["sweep", *_flags(count, folder, threads, fresh, arguments)], job, bar)
    return SweepResult(folder)
