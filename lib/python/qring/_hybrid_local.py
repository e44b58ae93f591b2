"""Hybrid jobs on this machine: a process of their own. Start at :class:`Local`.

``python -m qring._hybrid_local FOLDER`` supervises the runner. It is not a child of the caller, so
a notebook may end before the job, and no zombie remains. Supervisor and runner hold a lock on the
file ``lock``; a job without outcome whose lock is free has been killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Callable

from . import _hybrid_files as files
from ._library import Code, QringError

if TYPE_CHECKING:
    from .hybrid import HybridOptions

_START_SECONDS = 60.0
# More than qring.run takes to end with a checkpoint.
_STOP_SECONDS = 40.0
_POLL_SECONDS = 0.05
_LOCKED = 3


def _lock(folder: Path, kind: int) -> IO[bytes] | None:
    """Return the locked file, or None: another process holds it."""
    file = (folder / "lock").open("rb" if kind == fcntl.LOCK_SH else "ab")
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def _until(reached: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not reached():
        if time.monotonic() >= end:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _environment() -> dict[str, str]:
    """Return the environment for a process in another folder: with absolute paths."""
    environment = dict(os.environ)
    paths = list(filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)))
    root = str(Path(__file__).parents[1])
    if not root.endswith("-packages"):
        # A source tree. The folder of installed packages must stay behind Python's own.
        paths.insert(0, root)
    if paths:
        environment["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, paths))
    for name in ("QRING", "QRING_LIBRARY", "QRING_XLA"):
        if os.sep in environment.get(name, ""):
            environment[name] = os.path.abspath(environment[name])
    return environment


class Local:
    """The backend of jobs on this machine.

    Parameters
    ----------
    folder : Path
        The job's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, options: HybridOptions | None = None) -> None:
        """Start the job whose ``code`` and ``input`` are in the folder; again, without options."""
        if options is not None:
            keys = {"env": dict(options.env), "timeout": options.timeout}
            files.write(self.folder / "start.json", json.dumps(keys).encode())
        command = [sys.executable, "-m", "qring._hybrid_local", str(self.folder)]
        with (self.folder / "supervisor.log").open("wb") as log:
            try:
                code = subprocess.call(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.folder,
                    env=_environment(),
                    timeout=_START_SECONDS,
                )
            except subprocess.TimeoutExpired:
                raise QringError(
                    f"cannot start {self.folder.name}: {sys.executable} did not start in "
                    f"{_START_SECONDS:g} s; try again when this machine is less busy",
                    Code.DEADLINE_EXCEEDED,
                ) from None
        if code == _LOCKED:
            raise QringError(
                f"cannot start {self.folder.name}: it runs already; wait, or cancel it",
                Code.FAILED_PRECONDITION,
            )
        if code != 0:
            text = (self.folder / "supervisor.log").read_text(errors="replace").strip()
            raise QringError(
                f"cannot start {self.folder.name}: "
                f"{text.splitlines()[-1] if text else f'{sys.executable} ended with {code}'}",
                Code.INTERNAL,
            )

    def _running(self) -> bool:
        try:
            file = _lock(self.folder, fcntl.LOCK_SH)
        except FileNotFoundError:
            return False
        if file is None:
            return True
        file.close()
        return False

    def state(self) -> str:
        """Return the state, as of :meth:`qring.HybridJob.state`."""
        if not (self.folder / "lock").exists():
            raise QringError(
                f"cannot find the job {self.folder}: its folder was deleted or moved; call "
                "qring.attach(FOLDER, local=True)",
                Code.NOT_FOUND,
            )
        running = self._running()
        # Read after the lock: the outcome is there before the lock is free.
        outcome = self.read("out/outcome.json")
        if outcome is not None:
            return str(json.loads(outcome)["state"])
        if running:
            return "running"
        return "cancelled" if (self.folder / "cancelled").exists() else "failed"

    def reason(self) -> str:
        """Return why a job has failed without an outcome."""
        text = self.read("exit.json")
        if text is None:
            return "its processes were killed, or the machine was restarted"
        return str(json.loads(text)["error"])

    def read(self, path: str) -> bytes | None:
        """Return the content of a file below the job's folder; None: it does not exist."""
        try:
            return (self.folder / path).read_bytes()
        except FileNotFoundError:
            return None

    def names(self, path: str) -> list[str]:
        """Return the names of the files in a folder below the job's folder."""
        folder = self.folder / path
        found = folder.iterdir() if folder.is_dir() else ()
        return sorted(item.name for item in found if not item.name.startswith("."))

    def logs(self, lines: int | None = None) -> str:
        """Return standard output and error of the function."""
        text = (self.read("out/log") or b"").decode("utf-8", "replace").splitlines()
        return "\n".join(text if lines is None else text[max(0, len(text) - lines) :])

    def cancel(self) -> None:
        """End the job's processes."""
        group = self.read("group")
        if group is None or not self._running():
            return
        files.write(self.folder / "cancelled", b"")
        for number, seconds in ((signal.SIGTERM, _STOP_SECONDS), (signal.SIGKILL, _STOP_SECONDS)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(group), number)
            if _until(lambda: not self._running(), seconds):
                return
        raise QringError(
            f"cannot cancel {self.folder.name}: process group {int(group)} does not end",
            Code.DEADLINE_EXCEEDED,
        )

    def delete(self) -> None:
        """End the job, and delete its folder."""
        self.cancel()
        shutil.rmtree(self.folder, ignore_errors=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the runner and what it has started."""
    os.killpg(0, signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _supervise(folder: Path, lock: IO[bytes]) -> None:
    """Run the job; write exit.json if it leaves no outcome."""
    # The group is the job's processes. cancel() sends it SIGTERM; the runner restores the default.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    start: dict[str, Any] = json.loads((folder / "start.json").read_text(encoding="utf-8"))
    command = [sys.executable, "-u", "-m", "qring._hybrid_runner"]
    command += [f"--{name}={folder / name}" for name in files.Folders._fields]
    error = ""
    with (folder / "out" / "log").open("ab") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            env={**os.environ, **start["env"]},
            pass_fds=(lock.fileno(),),
        )
        try:
            code = process.wait(start["timeout"])
        except subprocess.TimeoutExpired:
            _end(process)
            error = f"it did not end in {start['timeout']:g} s; give a longer timeout="
        else:
            error = f"its process ended with exit code {code}"
            if code < 0:
                hint = "; the memory may be too small" if code == -signal.SIGKILL else ""
                name = signal.strsignal(-code)
                error = f"its process was ended by signal {-code} ({name}){hint}"
    if not (folder / "out" / "outcome.json").exists():
        files.write(folder / "exit.json", json.dumps({"error": error}).encode())
    # Processes that the function left would hold the lock; this one has nothing more to do.
    os.killpg(0, signal.SIGKILL)


def main() -> int:
    """Start the supervisor of the job in the folder sys.argv[1]; return at once."""
    # Signals of the caller's terminal do not reach the job.
    os.setsid()
    folder = Path(sys.argv[1])
    # A state() in another process may hold the lock for a moment.
    locked: list[IO[bytes]] = []

    def lock() -> bool:
        file = _lock(folder, fcntl.LOCK_EX)
        locked.extend([file] if file else [])
        return file is not None

    if not _until(lock, 1.0):
        return _LOCKED
    (folder / "out").mkdir(exist_ok=True)
    for name in ("cancelled", "exit.json"):
        (folder / name).unlink(missing_ok=True)
    ready, done = os.pipe()
    if os.fork() == 0:
        # A group without this process's parent, which may still run when a short job has ended.
        os.setpgid(0, 0)
        files.write(folder / "group", str(os.getpid()).encode())
        os.close(done)
        _supervise(folder, locked[0])
    os.close(done)
    os.read(ready, 1)  # until the job can be cancelled, or the supervisor has ended
    return 0


if __name__ == "__main__":
    sys.exit(main())
