"""Runs a hybrid job in its pod: ``python -m qring._hybrid_pod``. Start at :func:`main`.

The pod's log carries what the job writes, so the caller needs no right but to read logs, and no
bucket. The function's output is passed on line by line. Between its lines are records: the
character RS and a JSON object with a part of a file (:class:`Files` reads them). A node keeps
10 MB of a pod's log (``containerLogMaxSize``), so the amounts below are limits.
"""

from __future__ import annotations

import base64
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import zlib
from pathlib import Path
from types import FrameType
from typing import IO, Any, Iterator

from . import _hybrid_files as files

PARTS = "/etc/qring/parts"
JOB = "/job"
# Bytes of the log for the function's output, for metrics and checkpoints while it runs, and for
# the files at the end, of which 3 MB become that many. Together with the node's time stamps they
# are below 10 MB.
OUTPUT_BYTES, LIVE_BYTES, END_BYTES = 3_000_000, 2_000_000, 4_200_000
# At the end, by their importance.
_FINAL = ("outcome.json", "outcome.pickle", "model.tar.gz", "checkpoints", "metrics.jsonl")
_RECORD = "\x1e"
_CHUNK_BYTES = 8192
# The time stamp that a node writes before each line, rounded up.
_LINE_BYTES = 64
_TICK_SECONDS = 1.0
_STOP_SECONDS = 20.0


class Files:
    """The files that a log carries.

    Attributes
    ----------
    content : dict
        Content by path, of the last complete version.
    missing : dict
        Size in bytes by path, of files that were too large.
    output : list of str
        The other lines.
    """

    def __init__(self, log: str) -> None:
        self.content: dict[str, bytes] = {}
        self.missing: dict[str, int] = {}
        self.output: list[str] = []
        growing: dict[str, bytearray] = {}
        for line in log.split("\n"):
            if not line.startswith(_RECORD):
                self.output.append(line)
                continue
            try:
                entry = json.loads(line[1:])
                path, at, size = entry["path"], entry["at"], entry["size"]
                data = _part(entry["data"]) if "data" in entry else None
                numbers = isinstance(at, int) and isinstance(size, int) and min(at, size) >= 0
                if not isinstance(path, str) or not numbers:
                    continue
            except (ValueError, KeyError, TypeError, RecursionError, zlib.error):
                continue  # the end of the log is being written
            if data is None:
                self.missing[path] = size
                continue
            whole = growing.setdefault(path, bytearray())
            if at > len(whole):
                continue  # the log does not have its beginning
            whole[at:] = data
            if len(whole) == size:
                self.content[path] = bytes(whole)
                self.missing.pop(path, None)
        if self.output and not self.output[-1]:
            self.output.pop()


def _part(text: str) -> bytes:
    """Return a part of a file, which :func:`records` limits."""
    stream = zlib.decompressobj()
    data = stream.decompress(base64.b64decode(text), _CHUNK_BYTES + 1)
    if not stream.eof or len(data) > _CHUNK_BYTES:
        raise ValueError("the part is incomplete or too large")
    return data


def records(path: str, data: bytes, at: int = 0) -> list[str]:
    """Return the lines for a file, from the position `at` on."""
    lines = []
    for start in range(at, max(len(data), at + 1), _CHUNK_BYTES):
        part = base64.b64encode(zlib.compress(data[start : start + _CHUNK_BYTES])).decode()
        entry = {"path": path, "at": start, "size": len(data), "data": part}
        lines.append(_RECORD + json.dumps(entry))
    return lines


def pack(folder: Path) -> bytes:
    """Return ``code`` and ``input`` of a job's folder, for :func:`_hybrid_files.unpack`."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        for name in ("code", "input"):
            archive.add(folder / name, name)
    return target.getvalue()


class _Log:
    """Standard output of the pod, for two threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent: dict[str, tuple[Any, int]] = {}
        self._output, self._live = OUTPUT_BYTES, LIVE_BYTES

    def write(self, lines: list[str]) -> None:
        with self._lock:
            sys.stdout.write("".join(f"{line}\n" for line in lines))
            sys.stdout.flush()

    def pass_on(self, pipe: IO[bytes], copy: IO[bytes]) -> None:
        """Write the function's output here, as far as the limit allows, and into a file."""
        for raw in pipe:
            copy.write(raw)
            if self._output <= 0:
                continue
            self._output -= len(raw) + _LINE_BYTES
            line = raw.decode("utf-8", "replace").rstrip("\n").lstrip(_RECORD)
            if self._output <= 0:
                line = f"(the log of a pod has {OUTPUT_BYTES} bytes of output; see out/log)"
            self.write([line])

    def send_live(self, out: Path) -> None:
        """Send new metrics and changed checkpoints, as far as the limit allows."""
        for path in _files(out, ("metrics.jsonl", "checkpoints")):
            name = str(path.relative_to(out))
            state = path.stat()
            version, sent = self._sent.get(name, (None, 0))
            if version == (state.st_mtime_ns, state.st_size):
                continue
            data = path.read_bytes()
            lines = records(f"out/{name}", data, sent if name == "metrics.jsonl" else 0)
            size = sum(len(line) + _LINE_BYTES for line in lines)
            if size > self._live:
                continue
            self._live -= size
            self._sent[name] = ((state.st_mtime_ns, state.st_size), len(data))
            self.write(lines)

    def send_end(self, out: Path) -> None:
        """Send all files, the most important first; of one that is too large, its size."""
        left = END_BYTES
        for path in _files(out, _FINAL):
            name, data = f"out/{path.relative_to(out)}", path.read_bytes()
            lines = records(name, data)
            size = sum(len(line) + _LINE_BYTES for line in lines)
            if size > left:
                lines = [_RECORD + json.dumps({"path": name, "at": 0, "size": len(data)})]
            else:
                left -= size
            self.write(lines)


def _files(out: Path, names: tuple[str, ...]) -> Iterator[Path]:
    for name in names:
        path = out / name
        for item in sorted(path.iterdir()) if path.is_dir() else [path]:
            if item.is_file() and not item.name.startswith("."):
                yield item


def main() -> int:
    """Run the job of this pod; return the exit status, which is the runner's."""
    job = Path(JOB)
    out = job / "out"
    parts = sorted(item for item in Path(PARTS).iterdir() if not item.name.startswith("."))
    files.unpack(b"".join(item.read_bytes() for item in parts), job)
    (job / "input").mkdir(exist_ok=True)
    command = [sys.executable, "-u", "-m", "qring._hybrid_runner"]
    command += [f"--{name}={job / name}" for name in ("code", "input", "out")]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )

    def stop(number: int, frame: FrameType | None) -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            threading.Timer(_STOP_SECONDS, process.kill).start()

    signal.signal(signal.SIGTERM, stop)
    log = _Log()
    assert process.stdout is not None
    with (out / "log").open("ab", buffering=0) as copy:
        reader = threading.Thread(target=log.pass_on, args=(process.stdout, copy), daemon=True)
        reader.start()
        while True:
            try:
                process.wait(_TICK_SECONDS)
                break
            except subprocess.TimeoutExpired:
                log.send_live(out)
        # A process that the function has left may keep the pipe open.
        reader.join(_TICK_SECONDS)
    log.send_end(out)
    code = process.returncode
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # Timers and the reader do not end by themselves.
    os._exit(status)
