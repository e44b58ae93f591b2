"""The folder of a hybrid job, and the functions that a job calls. Start at :func:`enter`.

The caller writes ``code/`` (call.json, call.pickle, requirements.txt, dependencies/, modules/,
checkpoints/) and ``input/CHANNEL/``, which the job only reads. The job writes ``out/``:
metrics.jsonl, checkpoints/, results/, model.tar.gz, outcome.pickle and, last, outcome.json.
"""

from __future__ import annotations

import importlib
import io
import json
import math
import os
import pickle
import re
import tarfile
import time
import zlib
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from ._library import Code, QringError

_NAME = re.compile(r"[A-Za-z0-9_][-A-Za-z0-9_.]{0,99}\Z")
_COLUMNS = frozenset({"step", "time", "val_step", "val_time", "val_"})


class Folders(NamedTuple):
    """The folders of the job that runs in this process."""

    code: Path
    input: Path
    out: Path


_current: Folders | None = None


def enter(folders: Folders) -> None:
    """Make this process the job's: called by the runner."""
    global _current
    _current = folders


def _folders(what: str) -> Folders:
    if _current is None:
        raise QringError(
            f"cannot {what}: this process is not a hybrid job; call it in a function with "
            "@qring.hybrid_job",
            Code.FAILED_PRECONDITION,
        )
    return _current


def check_name(name: str, what: str) -> str:
    """Return the name of a file or folder in a job.

    Raises
    ------
    ValueError
        It is a path, or has other characters than letters, digits, ``_``, ``-`` and ``.``.
    """
    if not isinstance(name, str) or not _NAME.match(name):
        raise ValueError(
            f"cannot use {name!r} as the name of {what}: give at most 100 letters, digits, "
            "'_', '-' and '.', and no path"
        )
    return name


def cloudpickle() -> Any:
    """Return the module cloudpickle."""
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        raise ImportError(
            "cannot store a function: cloudpickle is missing; pip install 'qring[hybrid]'"
        ) from None


def write(path: Path, data: bytes) -> None:
    """Write a file so that it is never there in part."""
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def unpack(data: bytes, folder: Path) -> None:
    """Unpack a compressed archive of files and folders that the caller or the job has made.

    Raises
    ------
    QringError
        The archive is damaged, or has other members, or paths that leave the folder.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            members = archive.getmembers()
            # Versions of Python before the filters trust the archive.
            for member in members:
                path = PurePosixPath(member.name)
                if not (member.isreg() or member.isdir()):
                    raise tarfile.TarError(f"{member.name!r} is neither a file nor a folder")
                if path.is_absolute() or ".." in path.parts:
                    raise tarfile.TarError(f"the path {member.name!r} leaves the folder")
                member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(folder, members)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise QringError(
            f"cannot unpack the archive: {error}; run the job again", Code.DATA_LOSS
        ) from None


def log_metric(name: str, value: float, step: int | None = None) -> None:
    """Record a value of the hybrid job that calls this.

    Parameters
    ----------
    name : str
        Letters, digits, ``_``, ``-`` and ``.``. Values named ``val_…`` are evaluations, as in
        :class:`qring.History`.
    value : float
        A finite number.
    step : int, optional
        Default: the number of earlier values with this name. A later value of the same step
        replaces an earlier one, so a job that starts again overwrites what it repeats.
    """
    out = _folders(f"log the metric {name!r}").out
    check_name(name, "a metric")
    if name in _COLUMNS:
        raise ValueError(f"cannot log the metric {name!r}: it is a column of every job's metrics")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"cannot log the metric {name!r}: {number} is not a finite number")
    if step is not None:
        step = int(step)
        if step < 0:
            raise ValueError(f"cannot log the metric {name!r}: step {step} is negative")
    line = json.dumps({"name": name, "value": number, "step": step, "time": time.time()})
    # One write per line: threads and processes of the job do not mix theirs. A line that a killed
    # process left without its end is ended by the empty line.
    file = os.open(out / "metrics.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(file, f"\n{line}\n".encode())
    finally:
        os.close(file)


def metric_rows(data: bytes) -> list[tuple[bool, dict[str, Any]]]:
    """Return the lines of metrics.jsonl for :meth:`qring.History.of`, one row per step."""
    rows: dict[tuple[bool, int], dict[str, Any]] = {}
    counts: dict[str, int] = {}
    for line in data.split(b"\n"):
        try:
            entry = json.loads(line)
            name, step, at = entry["name"], entry["step"], entry["time"]
            value = entry["value"]
            valid = isinstance(name, str) and all(map(math.isfinite, (at, value)))
            if not valid or not (step is None or (isinstance(step, int) and 0 <= step < 2**63)):
                continue
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue  # the last line of a process that was killed, or is writing
        if step is None:
            step = counts.get(name, 0)
        counts[name] = counts.get(name, 0) + 1
        evaluated = name.startswith("val_")
        row = rows.setdefault((evaluated, step), {"step": step})
        row["time"] = at
        row[name.removeprefix("val_")] = value
    return [(key[0], rows[key]) for key in sorted(rows)]


def input_dir(channel: str = "input") -> Path:
    """Return the folder with the input data of the hybrid job that calls this.

    Parameters
    ----------
    channel : str
        Name in ``input_data=``; ``"input"`` if that was a single path.

    Returns
    -------
    Path
        The content of a folder; or a file with its name.
    """
    folder = _folders("read input data").input
    path = folder / check_name(channel, "a channel")
    if not path.is_dir():
        found = sorted(item.name for item in folder.iterdir()) if folder.is_dir() else []
        raise QringError(
            f"cannot read the channel {channel!r}: the job has "
            f"{', '.join(found) or 'no input data'}; name it in input_data=",
            Code.NOT_FOUND,
        )
    return path


def results_dir() -> Path:
    """Return the folder whose files the hybrid job that calls this keeps, as model.tar.gz."""
    path = _folders("keep results").out / "results"
    path.mkdir(exist_ok=True)
    return path


def save_checkpoint(data: Any, name: str | None = None) -> None:
    """Store an object of the hybrid job that calls this, in place of the last one of this name.

    Parameters
    ----------
    data
        Anything that pickle stores: dicts, arrays, weights.
    name : str, optional
        Default: ``"checkpoint"``.
    """
    folder = _folders("save a checkpoint").out / "checkpoints"
    name = check_name(name or "checkpoint", "a checkpoint")
    try:
        content = cloudpickle().dumps(data)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
        raise TypeError(f"cannot save the checkpoint {name!r}: {error}") from None
    folder.mkdir(exist_ok=True)
    write(folder / name, content)


def load_checkpoint(name: str | None = None) -> Any:
    """Return the last checkpoint of the hybrid job that calls this, or one that was copied to it.

    Parameters
    ----------
    name : str, optional
        As of :func:`save_checkpoint`.

    Returns
    -------
    object or None
        None: there is none, because the job starts for the first time.
    """
    folders = _folders("load a checkpoint")
    name = check_name(name or "checkpoint", "a checkpoint")
    for folder in (folders.out, folders.code):
        path = folder / "checkpoints" / name
        if path.exists():
            return pickle.loads(path.read_bytes())
    return None
