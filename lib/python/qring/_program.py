"""Starts the program ``qring``. Start at :func:`start`.

The program is not part of the wheel: it needs gRPC and other shared objects of the system.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from typing import Any, Callable, Sequence

from ._library import Code, QringError

# Seconds that the program gets after a first and a second SIGINT. The first one ends with a
# checkpoint, which may go to a bucket.
_STOP_SECONDS = (30.0, 5.0)
_TICK_SECONDS = 0.1
_TAIL_LINES = 200

# Exit codes are those of deploy/runbook.md. Others below 128 are permanent, and unknown here.
_CODES = {
    1: Code.INTERNAL,
    2: Code.INVALID_ARGUMENT,
    3: Code.FAILED_PRECONDITION,
    4: Code.DATA_LOSS,
    5: Code.OUT_OF_RANGE,
    130: Code.CANCELLED,
    134: Code.RESOURCE_EXHAUSTED,
    137: Code.RESOURCE_EXHAUSTED,
    138: Code.UNAVAILABLE,
    143: Code.CANCELLED,
}

# The kernel sends SIGTERM to the program when the Python process is killed. Otherwise a restarted
# notebook kernel would leave workers that train on and keep the output folder locked. preexec_fn
# could do the same, but it is not safe beside threads.
_TIED = (
    "import ctypes, os, sys\n"
    "ctypes.CDLL(None).prctl(1, 15, 0, 0, 0)\n"
    "os.execv(sys.argv[1], sys.argv[1:])\n"
)


class ProgramError(QringError):
    """The program ``qring``, or a pod of it, ended with an error.

    Attributes
    ----------
    exit_code : int
        Exit code of the program; below 128 a retry does not help.
    log : str
        End of its output.
    """

    def __init__(self, message: str, exit_code: int, log: str = "") -> None:
        super().__init__(message, _CODES.get(exit_code, Code.UNKNOWN))
        self.exit_code = exit_code
        self.log = log

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.exit_code, self.log)


def find() -> str:
    """Return the path of the program: environment variable QRING, else from PATH.

    Raises
    ------
    QringError
        The program is not installed.
    """
    given = os.environ.get("QRING")
    path = shutil.which(given or "qring")
    if path is None:
        reason = f"QRING is {given!r}, which is not a program" if given else "it is not on PATH"
        raise QringError(
            f"cannot start the program qring: {reason}; build it from the source (make, then "
            "make install), or set QRING to its path, such as build/bin/qring",
            Code.NOT_FOUND,
        )
    return path


def readable(text: str) -> str:
    """Return a message without the way in which the job came to the program."""
    return text.replace("the job on standard input", "the job")


def error_text(lines: Sequence[str], exit_code: int) -> str:
    """Return the last error line of the program's output, without its prefix."""
    for line in reversed(lines):
        if line.startswith("E "):
            return line[2:].split(": ", 1)[-1] if line.startswith("E qring: ") else line[2:]
    shown = [line for line in lines if line.strip()]
    if shown:
        return shown[-1]
    return f"qring ended with exit code {exit_code} and no message"


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the program and its workers: with a checkpoint, then at once, then by SIGKILL."""
    for seconds in _STOP_SECONDS:
        try:
            process.send_signal(signal.SIGINT)
            process.wait(seconds)
            return
        except subprocess.TimeoutExpired:
            continue
        except KeyboardInterrupt:
            # The user asks again: do not wait for the checkpoint.
            continue
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def start(
    arguments: Sequence[str],
    stdin: bytes = b"",
    on_line: Callable[[str], None] | None = None,
    on_tick: Callable[[], None] | None = None,
    accept: Sequence[int] = (0,),
) -> bytes:
    """Run the program to its end.

    Parameters
    ----------
    arguments : sequence of str
        Command line without the program.
    stdin : bytes
        Standard input.
    on_line : callable, optional
        Called with each line of standard error, in a thread of its own; its exceptions are ignored.
    on_tick : callable, optional
        Called about ten times per second while the program runs.
    accept : sequence of int
        Exit codes that are not errors.

    Returns
    -------
    bytes
        Standard output.

    Raises
    ------
    ProgramError
        The program ended with another exit code.
    KeyboardInterrupt
        After all processes of the program have ended.
    """
    command = [find(), *arguments]
    if sys.executable and sys.platform == "linux":
        command = [sys.executable, "-I", "-S", "-c", _TIED, *command]
    environment = dict(os.environ)
    # The program warns of variables that it does not know.
    environment.pop("QRING_LIBRARY", None)
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    # Files instead of pipes: the program never waits for this process to read.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as output:
        given.write(stdin)
        given.seek(0)
        process = subprocess.Popen(
            command,
            stdin=given,
            stdout=output,
            stderr=subprocess.PIPE,
            env=environment,
            # A group of its own, so that Ctrl-C reaches the program once, from _stop().
            start_new_session=True,
        )
        pipe = process.stderr
        assert pipe is not None

        def read() -> None:
            for raw in pipe:
                line = raw.decode("utf-8", "replace").rstrip("\n")
                tail.append(line)
                if on_line is not None:
                    # The program waits if nothing reads, so a closed stderr must not end the loop.
                    with contextlib.suppress(Exception):
                        on_line(line)

        reader = threading.Thread(target=read, daemon=True)
        try:
            reader.start()
            while True:
                try:
                    code = process.wait(_TICK_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    if on_tick is not None:
                        on_tick()
        except BaseException:
            _stop(process)
            raise
        finally:
            reader.join(_STOP_SECONDS[1])
            pipe.close()
        if code < 0:  # ended by a signal
            code = 128 - code
        lines = list(tail)
        if code == 130:
            # A SIGINT from elsewhere, such as a notebook's stop button sent to all processes.
            raise KeyboardInterrupt
        if code not in accept:
            raise ProgramError(readable(error_text(lines, code)), code, "\n".join(lines))
        output.seek(0)
        return output.read()
