"""Runs the function of a hybrid job: ``python -m qring._hybrid_runner``. Start at :func:`main`.

The exit status is 0, 1 if the function failed (outcome.json says why), or 143 after SIGTERM: then
there is no outcome, and a second start in the same output folder continues.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import traceback
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, Sequence

from . import _hybrid_files as files
from ._library import Code, QringError

_INSTALL_SECONDS = 900.0
_TERMINATED = 143


class _Terminated(BaseException):
    """SIGTERM: no error of the function."""


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    # Once: a second signal must not interrupt the end of qring.run with its checkpoint.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Terminated


def _check(call: dict[str, Any]) -> None:
    here = "{}.{}".format(*sys.version_info)
    if call["python"] != here:
        raise QringError(
            f"cannot run {call['name']}: its function was stored by Python {call['python']} and "
            f"this is Python {here}; use an image, or a caller, with the other's version",
            Code.FAILED_PRECONDITION,
        )


def _install(code: Path, out: Path) -> None:
    """Install the dependencies into the output folder, once."""
    packages = out / "packages"
    if (code / "requirements.txt").exists() and not packages.exists():
        # pip writes beside the sources that it builds, and code may be read-only.
        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder) / "code"
            here.mkdir()
            shutil.copy(code / "requirements.txt", here)
            if (code / "dependencies").is_dir():
                shutil.copytree(code / "dependencies", here / "dependencies")
            part = out / "packages.part"
            shutil.rmtree(part, ignore_errors=True)
            command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
            command += ["--no-input", "--target", str(part.absolute()), "-r", "requirements.txt"]
            print("installing dependencies", flush=True)
            try:
                status = subprocess.call(command, cwd=here, timeout=_INSTALL_SECONDS)
            except subprocess.TimeoutExpired:
                reason = f"pip did not end in {_INSTALL_SECONDS:g} s"
            else:
                reason = f"pip ended with {status}" if status else ""
            if reason:
                raise QringError(
                    f"cannot install the dependencies: {reason}; see logs()", Code.UNAVAILABLE
                )
            part.replace(packages)
    if packages.exists():
        sys.path.insert(0, str(packages.absolute()))


def _pack(out: Path) -> None:
    """Write results/ as model.tar.gz."""
    part = out / ".model.tar.gz.part"
    # The files that links name may not be where the results are unpacked.
    with tarfile.open(part, "w:gz", dereference=True) as archive:
        for path in sorted((out / "results").iterdir()):
            archive.add(path, path.name)
    part.replace(out / "model.tar.gz")


def _call(folders: files.Folders) -> bytes:
    """Call the function; return its pickled value."""
    _check(json.loads((folders.code / "call.json").read_text(encoding="utf-8")))
    _install(folders.code, folders.out)
    sys.path.insert(0, str(folders.code / "modules"))
    pickler = files.cloudpickle()
    files.enter(folders)
    try:
        function, arguments, keywords = pickle.loads((folders.code / "call.pickle").read_bytes())
    except ModuleNotFoundError as error:
        raise QringError(
            f"cannot load the function: {error}; name your own module in include_modules= and "
            "a package in dependencies=",
            Code.NOT_FOUND,
        ) from None
    (folders.out / "work").mkdir(exist_ok=True)
    os.chdir(folders.out / "work")
    value = function(*arguments, **keywords)
    try:
        return bytes(pickler.dumps(value))
    except Exception as error:
        raise TypeError(
            f"cannot store the value of type {type(value).__name__} that the function returned: "
            f"{error}; return numbers, texts, arrays or dicts of these"
        ) from None


def _describe(error: BaseException) -> dict[str, Any]:
    # Without the frames of this module.
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    if frames is None:
        # An error of the runner says what to do.
        return {"state": "failed", "error": str(error), "traceback": ""}
    last = "".join(traceback.format_exception_only(type(error), error)).strip()
    lines = traceback.format_exception(type(error), error, frames)
    return {"state": "failed", "error": last, "traceback": "".join(lines)}


def run(folders: files.Folders) -> dict[str, Any]:
    """Run the job to its end; return its outcome, which a finished one has already."""
    out = folders.out
    outcome = out / "outcome.json"
    if outcome.exists():
        found: dict[str, Any] = json.loads(outcome.read_text(encoding="utf-8"))
        return found
    (out / "results").mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {"state": "succeeded", "error": None, "traceback": None}
    try:
        files.write(out / "outcome.pickle", _call(folders))
    except _Terminated:
        raise
    except BaseException as error:
        report = _describe(error)
        text = report["traceback"] or report["error"]
        print(text.rstrip(), file=sys.stderr, flush=True)
    # The function has ended: a signal must not lose its outcome.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        _pack(out)
    except OSError as error:
        if report["error"] is None:
            text = f"cannot pack the results: {error}; write files below qring.results_dir()"
            report = {"state": "failed", "error": text, "traceback": ""}
    files.write(outcome, json.dumps(report).encode())
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job in the given folders; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m qring._hybrid_runner")
    for name, text in (
        ("code", "folder with call.json and call.pickle"),
        ("input", "folder with a folder for each channel"),
        ("out", "folder for metrics, checkpoints, results and outcome"),
    ):
        parser.add_argument(f"--{name}", type=Path, required=True, metavar="DIR", help=text)
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        folders = (getattr(given, name).absolute() for name in files.Folders._fields)
        report = run(files.Folders(*folders))
    except _Terminated:
        return _TERMINATED
    return 0 if report["state"] == "succeeded" else 1


if __name__ == "__main__":
    sys.exit(main())
