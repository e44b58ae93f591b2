"""Progress bars in terminals and notebooks. Start at :func:`bar`.

Position and loss come from the last line of steps.jsonl, the length from the program's output.
"""

from __future__ import annotations

import html
import importlib
import json
import math
import os
import re
import sys
import time
from pathlib import Path
from typing import Any, Mapping

_TAIL_BYTES = 65536
_WIDTH = 24
_INTERVAL_SECONDS = 0.2
_EPOCH = re.compile(r"Epoch (\d+)/(\d+) - (\d+)/(\d+) .*?- (loss: .*)")
_SAMPLES = re.compile(r"(\d+) training samples")
_TRIAL = re.compile(r"trial (\d+): ")
_TRIALS = re.compile(r"(\d+) trials?\b")


def _last_line(path: Path) -> Mapping[str, Any] | None:
    """Return the last complete TRAIN line of steps.jsonl."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            lines = file.read().split(b"\n")[:-1]
    except OSError:
        return None
    for line in reversed(lines):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and value.get("kind") == "TRAIN":
            step = value.get("step")
            if isinstance(step, int) and 0 <= step < 2**63:
                return value
    return None


class Bar:
    """State of a run as text; subclasses show it.

    Parameters
    ----------
    name : str
        Name of the job.
    steps : Path or None
        Path of steps.jsonl; None: a sweep, which counts trials.
    batch_size : int or None
        Samples per step, to know the number of steps before the first epoch has ended.
    """

    def __init__(self, name: str, steps: Path | None, batch_size: int | None) -> None:
        self.name = name
        self.unit = "trial" if steps is None else "step"
        self._path = steps
        self._batch = batch_size
        self._epochs = self._per_epoch = self._done = 0
        self._text = ""
        self._start = self._shown = time.monotonic()
        self._first: int | None = None
        self._visible = False
        self._stale = self._stamp()

    def _stamp(self) -> tuple[int, int] | None:
        try:
            stat = self._path.stat() if self._path else None
        except OSError:
            return None
        return (stat.st_mtime_ns, stat.st_size) if stat else None

    def plan(self, epochs: int | None, per_epoch: int) -> None:
        """Set the numbers of epochs and of steps per epoch, as far as they are known."""
        self._epochs, self._per_epoch = epochs or 0, per_epoch

    def at(self, done: int, total: int, text: str) -> None:
        """Set position, length and text, of a run on a cluster."""
        self._done, self._epochs, self._per_epoch, self._text = done, 1, total, text
        self.unit = "step"

    def line(self, text: str) -> None:
        """Read a line of the program's output."""
        if self._path is None:
            if match := _TRIAL.match(text):
                self._done += 1
                self._text = text
            elif match := _TRIALS.match(text):
                self._epochs, self._per_epoch = int(match.group(1)), 1
        elif match := _EPOCH.match(text):
            self._epochs, self._per_epoch = int(match.group(2)), int(match.group(4))
            self._done = max(self._done, int(match.group(1)) * self._per_epoch)
            self._text = match.group(5)
        elif (match := _SAMPLES.match(text)) and self._batch:
            self._per_epoch = math.ceil(int(match.group(1)) / self._batch)

    def tick(self, end: bool = False) -> None:
        """Read steps.jsonl and show the state, a few times per second."""
        now = time.monotonic()
        if not end and now - self._shown < _INTERVAL_SECONDS:
            return
        self._shown = now
        # Lines of an earlier run in the same folder do not count.
        if self._path is not None and self._stamp() != self._stale:
            last = _last_line(self._path)
            if last is not None:
                self._done = int(last["step"])
                if isinstance(last.get("loss"), (int, float)) and "val_" not in self._text:
                    self._text = f"loss: {last['loss']:.6g}"
        if self._first is None and self._done:
            self._first = self._done
        self._visible = True
        self.show(end)

    def end(self, failed: bool) -> None:
        """Show the last state; a failure before the first one shows nothing."""
        if self._visible or not failed:
            self.tick(end=True)

    @property
    def total(self) -> int:
        """Number of steps or trials; 0: not known yet."""
        return self._epochs * self._per_epoch

    @property
    def fraction(self) -> float:
        """Finished part, 0 to 1."""
        return min(1.0, self._done / self.total) if self.total else 0.0

    def text(self) -> str:
        """Return position, values and remaining time."""
        seconds = self._shown - self._start
        parts = [f"{self.unit} {self._done}/{self.total or '?'}"]
        if self._text:
            parts.append(self._text)
        new = self._done - (self._first or 0)
        if self.total > self._done and new > 0:
            parts.append(f"{seconds * (self.total - self._done) / new:.0f} s left")
        else:
            parts.append(f"{seconds:.1f} s")
        return " - ".join(parts)

    def show(self, end: bool) -> None:
        """Show the state; here: nowhere."""


class _Terminal(Bar):
    def show(self, end: bool) -> None:
        full = round(self.fraction * _WIDTH)
        text = f"{self.name} [{'=' * full}{' ' * (_WIDTH - full)}] {self.text()}"
        try:
            columns = os.get_terminal_size(sys.stderr.fileno()).columns
        except (OSError, ValueError):
            columns = 80
        # Erase to the end of the line: the text may have become shorter.
        sys.stderr.write("\r" + text[: columns - 1] + "\x1b[K" + ("\n" if end else ""))
        sys.stderr.flush()


class _Lines(Bar):
    """One line per epoch or trial, for logs."""

    def line(self, text: str) -> None:
        super().line(text)
        if _EPOCH.match(text) or _TRIAL.match(text):
            sys.stderr.write(f"{self.name}: {text}\n")
            sys.stderr.flush()


class _Notebook(Bar):
    _handle: Any = None

    def show(self, end: bool) -> None:
        display = importlib.import_module("IPython.display")
        text = (
            f"<div><code>{html.escape(self.name)}</code> "
            f'<progress value="{self.fraction:.4f}" max="1"></progress> '
            f"{html.escape(self.text())}</div>"
        )
        if self._handle is None:
            self._handle = display.display(display.HTML(text), display_id=True)
        else:
            self._handle.update(display.HTML(text))


def _in_notebook() -> bool:
    # A notebook has imported IPython; a program that has not does not pay for the import.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and getattr(shell, "kernel", None) is not None


def bar(progress: bool | None, name: str, steps: Path | None, batch_size: int | None = None) -> Bar:
    """Return the bar for this process.

    Parameters
    ----------
    progress : bool or None
        False: none. None: a bar in terminals and notebooks. True: otherwise a line per epoch.
    name : str
        Name of the job.
    steps : Path or None
        Path of steps.jsonl; None: a sweep.
    batch_size : int, optional
        Samples per step.
    """
    kind: type[Bar]
    if progress is False:
        kind = Bar
    elif _in_notebook():
        kind = _Notebook
    elif sys.stderr is not None and sys.stderr.isatty():
        kind = _Terminal
    else:
        kind = _Lines if progress else Bar
    return kind(name, steps, batch_size)
