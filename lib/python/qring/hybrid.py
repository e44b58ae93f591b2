"""Python functions as jobs. Start at :func:`hybrid_job` and :class:`HybridJob`.

Needs cloudpickle: ``pip install 'qring[hybrid]'``.

>>> import qring
>>> @qring.hybrid_job(local=True, input_data="samples.csv")  # doctest: +SKIP
... def train(epochs):
...     qring.log_metric("loss", 0.5, step=1)
...     return {"path": str(qring.input_dir() / "samples.csv")}
>>> train(epochs=5).result()  # doctest: +SKIP
"""

from __future__ import annotations

import dataclasses
import functools
import html
import importlib.util
import inspect
import json
import os
import pickle
import re
import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Generic,
    Mapping,
    Protocol,
    Sequence,
    TypeVar,
    Union,
)

from . import _curve, _manifests
from . import _hybrid_files as files
from ._cluster import Cluster, patient_state
from ._hybrid_cluster import Remote
from ._hybrid_files import input_dir, load_checkpoint, log_metric, results_dir, save_checkpoint
from ._hybrid_local import Local
from ._library import Code, QringError
from ._version import __version__
from .result import History

if TYPE_CHECKING:
    from typing import ParamSpec

    P = ParamSpec("P")

__all__ = [
    "HybridJob",
    "HybridJobError",
    "HybridOptions",
    "hybrid_job",
    "input_dir",
    "load_checkpoint",
    "log_metric",
    "results_dir",
    "save_checkpoint",
]

R = TypeVar("R")
PathLike = Union[str, "os.PathLike[str]"]

_MAX_TEXT = 2500
_POLL_SECONDS = (0.02, 1.0)
_COLOURS = ("#4c78a8", "#f58518", "#54a24b")
_ENDS = ("succeeded", "failed", "cancelled")
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*\Z")


@dataclasses.dataclass(frozen=True)
class HybridOptions:
    """More options of :func:`hybrid_job`. A job on this machine uses `env` and `timeout` only.

    Parameters
    ----------
    image : str
        Image with Python, this package and the caller's version of Python.
    namespace, context, client
        As of :func:`qring.submit`.
    service_account : str
        Account of the pod, with which the function may call :func:`qring.submit`.
    output_claim : str
        PersistentVolumeClaim where the job's files stay, in a folder ``NAME-xxxxxxxx``. With one,
        a job whose pod was deleted finds its checkpoints.
    cpu, memory : str
        Requests and limits of the pod.
    env : mapping
        More environment variables.
    timeout : float
        Seconds after which the job is ended and has failed. None: no limit.
    """

    image: str = "qring-python:{}-py{}.{}".format(__version__, *sys.version_info)
    namespace: str | None = None
    context: str | None = None
    client: Any = None
    service_account: str = ""
    output_claim: str = ""
    cpu: str = "1"
    memory: str = "1Gi"
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    timeout: float | None = None

    def __post_init__(self) -> None:
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"cannot use timeout={self.timeout!r}: give seconds above 0, or None")
        for key, value in self.env.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise TypeError(f"cannot set env {key!r} to {value!r}: give texts")


class Backend(Protocol):
    """Where a job runs. Paths are relative to the job's folder, such as ``out/metrics.jsonl``.

    Attributes
    ----------
    folder : Path
        In it, :func:`hybrid_job` has written ``code`` and ``input`` before :meth:`start`.
    """

    folder: Path

    def start(self, options: HybridOptions | None = None) -> None:
        """Start the job; None: again, with the options of the first start."""

    def state(self) -> str:
        """Return the state, as of :meth:`HybridJob.state`."""

    def reason(self) -> str:
        """Return why a job has failed without an outcome."""

    def read(self, path: str) -> bytes | None:
        """Return the content of a file, or None: it does not exist."""

    def names(self, path: str) -> list[str]:
        """Return the names of the files in a folder; empty if it does not exist."""

    def logs(self, lines: int | None = None) -> str:
        """Return standard output and error of the function."""

    def cancel(self) -> None:
        """End the job; nothing if it has ended."""

    def delete(self) -> None:
        """End the job, and delete all of it."""


class HybridJobError(QringError):
    """A hybrid job failed or was cancelled.

    Attributes
    ----------
    traceback : str
        The traceback of the function's exception; empty if it raised none.
    """

    def __init__(self, message: str, traceback: str = "", code: int = Code.UNKNOWN) -> None:
        super().__init__(message, code)
        self.traceback = traceback

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.traceback, int(self.code))


class HybridJob(Generic[R]):
    """A job that runs a Python function; :func:`qring.attach` makes another one.

    Its value and checkpoints are unpickled, which can execute code: only what the job itself has
    written is read, so use jobs and folders of your own.

    Attributes
    ----------
    name : str
        Name of the job.
    """

    def __init__(self, name: str, backend: Backend) -> None:
        self.name = name
        self._backend = backend

    def __repr__(self) -> str:
        return f"HybridJob({self.name!r})"

    @property
    def folder(self) -> Path:
        """Folder of a job on this machine."""
        if not isinstance(self._backend, Local):
            raise QringError(
                f"cannot name the folder of {self.name}: it runs on a cluster; call results()",
                Code.FAILED_PRECONDITION,
            )
        return self._backend.folder

    def state(self) -> str:
        """Return ``"pending"``, ``"running"``, ``"succeeded"``, ``"failed"`` or ``"cancelled"``."""
        return self._backend.state()

    def wait(self, timeout: float | None = None) -> str:
        """Wait for the end of the job; return its state.

        Parameters
        ----------
        timeout : float, optional
            Seconds; None: no limit.

        Raises
        ------
        TimeoutError
            The job goes on.
        """
        end = None if timeout is None else time.monotonic() + timeout
        pause, longest = _POLL_SECONDS
        what = f"cannot wait for {self.name}"
        while (state := patient_state(what, self.state, end, pause)) not in _ENDS:
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"{what}: {state} after {timeout} s")
            time.sleep(pause)
            pause = min(1.5 * pause, longest)
        return state

    def result(self, timeout: float | None = None) -> R:
        """Wait for the end, and return what the function returned.

        Parameters
        ----------
        timeout : float, optional
            Seconds; None: no limit.

        Raises
        ------
        HybridJobError
            The function raised an exception, or its process was killed or cancelled.
        TimeoutError
            The job goes on.
        """
        state = self.wait(timeout)
        if state != "succeeded":
            raise self._failure(state)
        value: R = self._unpickle("out/outcome.pickle", "value")
        return value

    def _failure(self, state: str) -> HybridJobError:
        if state == "cancelled":
            return HybridJobError(f"{self.name} was cancelled", code=Code.CANCELLED)
        data = self._backend.read("out/outcome.json")
        if data is None:
            text = f"{self.name} failed: {self._backend.reason()}; see logs(); resume() goes on"
            return HybridJobError(text, code=Code.ABORTED)
        try:
            outcome = json.loads(data)
            error, traceback = str(outcome["error"]), str(outcome["traceback"])
        except (ValueError, KeyError, TypeError, RecursionError):
            error, traceback = "out/outcome.json is malformed; see logs()", ""
        return HybridJobError(f"{self.name} failed: {error}\n\n{traceback}".strip(), traceback)

    def _unpickle(self, path: str, what: str) -> Any:
        data = self._backend.read(path)
        if data is None:
            raise QringError(
                f"cannot read the {what} of {self.name}: {path} is missing", Code.DATA_LOSS
            )
        try:
            return pickle.loads(data)
        except Exception as error:
            raise QringError(
                f"cannot read the {what} of {self.name}: {error}; import what it consists of",
                Code.FAILED_PRECONDITION,
            ) from None

    @property
    def hyperparameters(self) -> dict[str, str]:
        """Arguments of the call as texts, long ones shortened to 2500 characters."""
        call = json.loads(self._backend.read("code/call.json") or b"{}")
        return dict(call.get("hyperparameters", {}))

    def logs(self, lines: int | None = None) -> str:
        """Return what the function printed, with its errors.

        Parameters
        ----------
        lines : int, optional
            Only so many lines, from the end.
        """
        return self._backend.logs(lines)

    def metrics(self) -> History:
        """Return the values of :func:`log_metric` so far, also while the job runs.

        Returns
        -------
        History
            ``step``, ``time`` (seconds since 1970) and each metric, as arrays with an element per
            step; NaN where a step has no value. ``val_…`` have steps of their own.
        """
        return History.of(files.metric_rows(self._backend.read("out/metrics.jsonl") or b""))

    def checkpoints(self) -> dict[str, Any]:
        """Return the last checkpoints by name, also while the job runs."""
        return {name: self._unpickle(path, "checkpoint") for name, path in self._saved().items()}

    def _saved(self) -> dict[str, str]:
        """Return the paths of checkpoints: its own, else those that were copied to it."""
        folders = ("code/checkpoints", "out/checkpoints")
        return {name: f"{path}/{name}" for path in folders for name in self._backend.names(path)}

    def results(self, out: PathLike | None = None) -> Path:
        """Unpack model.tar.gz: what the function wrote below :func:`results_dir`.

        Parameters
        ----------
        out : str or path, optional
            Local folder. Default: ``out/NAME/results``.

        Returns
        -------
        Path
            The folder.
        """
        data = self._backend.read("out/model.tar.gz")
        if data is None:
            raise QringError(
                f"cannot read the results of {self.name}: it is {self.state()}; they are packed "
                "when the function ends",
                Code.NOT_FOUND,
            )
        folder = Path("out") / self.name / "results" if out is None else Path(out)
        folder.mkdir(parents=True, exist_ok=True)
        files.unpack(data, folder)
        return folder

    def resume(self) -> None:
        """Start the function again after its process was killed or cancelled.

        It finds its own checkpoints. A job whose function has returned or raised stays as it is.
        """
        self._backend.start()

    def cancel(self) -> None:
        """End the job; what it has written stays."""
        self._backend.cancel()

    def delete(self) -> None:
        """End the job, and delete all of it."""
        self._backend.delete()

    def _repr_html_(self) -> str:
        """Return state, arguments and curves, for notebooks."""
        rows = {"state": self.state(), **self.hyperparameters}
        cells = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>"
            for name, text in rows.items()
        )
        history = self.metrics()
        lines = [
            (name, colour, history["val_step" if name.startswith("val_") else "step"], values)
            for (name, values), colour in zip(
                ((k, v) for k, v in history.items() if not re.match(r"(val_)?(step|time)\Z", k)),
                _COLOURS,
            )
        ]
        picture = _curve.curve(self.name, "step", lines) if lines else ""
        return f"<div>{picture}<table>{cells}</table></div>"


# ---- what the caller writes ----


def _copy(source: Path, target: Path, what: str) -> None:
    """Copy a file or folder, without the folder with jobs that is in it."""

    def ignored(folder: str, names: list[str]) -> list[str]:
        inside = target.resolve().parents
        return [n for n in names if n == "__pycache__" or Path(folder, n).resolve() in inside]

    try:
        if source.is_dir():
            shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    except (OSError, shutil.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(
            f"cannot copy {what} {source}: {reason}; give an existing file or folder"
        ) from None


def _write_input(folder: Path, input_data: PathLike | Mapping[str, PathLike] | None) -> None:
    folder.mkdir()
    if input_data is None:
        return
    channels = input_data if isinstance(input_data, Mapping) else {"input": input_data}
    for channel, given in channels.items():
        files.check_name(channel, "a channel")
        if "://" in os.fspath(given):
            raise ValueError(
                f"cannot copy {given}: input_data takes local files and folders; give the URL to "
                "the function as an argument"
            )
        path = Path(given)
        target = folder / channel
        _copy(path, target if path.is_dir() else target / path.name, "input data")


def _write_requirements(code: Path, dependencies: PathLike | Sequence[str] | None) -> list[str]:
    """Write requirements.txt, with local wheels and folders beside it; return its lines."""
    if dependencies is None:
        return []
    if isinstance(dependencies, (str, os.PathLike)):
        try:
            given = Path(dependencies).read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise ValueError(
                f"cannot read the dependencies {dependencies}: {error.strerror}; give the path of "
                "a requirements file, or a list"
            ) from None
    else:
        given = list(map(str, dependencies))
    lines = [text for line in given if (text := re.sub(r"(^|\s)#.*", "", line).strip())]
    for i, line in enumerate(lines):
        if re.match(r"-[rce]\b|--(requirement|constraint|editable)\b", line):
            raise ValueError(f"cannot send the dependency {line!r}: give its packages themselves")
        path = Path(line)
        if path.exists() and (os.sep in line or path.is_file()):
            name = path.absolute().name
            _copy(path, code / "dependencies" / name, "the dependency")
            lines[i] = f"./dependencies/{name}"
    (code / "requirements.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return lines


def _write_modules(folder: Path, include: PathLike | Sequence[PathLike] | None) -> None:
    folder.mkdir()
    if include is None:
        return
    for item in [include] if isinstance(include, (str, os.PathLike)) else include:
        found = [Path(item)]
        if isinstance(item, str) and _MODULE.match(item):
            # A module inside a package needs the whole package.
            top = item.partition(".")[0]
            try:
                spec = importlib.util.find_spec(top)
            except ValueError:
                spec = None
            if spec is not None and spec.submodule_search_locations is not None:
                found = [Path(path) for path in spec.submodule_search_locations]
            elif spec is not None and spec.has_location and spec.origin:
                found = [Path(spec.origin)]
            elif not found[0].exists():
                raise ValueError(
                    f"cannot include the module {item!r}: it cannot be imported from a file; give "
                    "its name or path"
                )
        for path in found:
            _copy(path, folder / path.absolute().name, "the module")


def _write_checkpoints(folder: Path, source: HybridJob[Any] | PathLike | None, local: Any) -> None:
    folder.mkdir()
    if source is None:
        return
    job = source if isinstance(source, HybridJob) else _find(source, local)
    for name, path in job._saved().items():
        # On a cluster the names come from the log of a pod.
        target = folder / files.check_name(name, "a checkpoint")
        target.write_bytes(job._backend.read(path) or b"")


def _find(source: PathLike, options: HybridOptions | None) -> HybridJob[Any]:
    if options is None or not isinstance(source, str) or Path(source).is_dir():
        return find_local(source)
    from .kubernetes import attach

    keys = {"context": options.context, "client": options.client}
    job = attach(source, options.namespace, **keys)
    if not isinstance(job, HybridJob):
        raise ValueError(f"cannot copy checkpoints from {source}: it is not a hybrid job")
    return job


def _text(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 4] + " ..."


def _hyperparameters(
    function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> dict[str, str]:
    """Return the arguments by name; raise TypeError as the call would."""
    bound = inspect.signature(function).bind(*arguments, **keywords)
    bound.apply_defaults()
    kinds = {name: item.kind for name, item in bound.signature.parameters.items()}
    values: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        values.update(value if kinds[name] == inspect.Parameter.VAR_KEYWORD else {name: value})
    return {name: _text(value) for name, value in values.items()}


def _pickle(function: Callable[..., Any], arguments: Any, keywords: Any) -> bytes:
    """Return function and arguments; what its own module defines travels by value."""
    pickler = files.cloudpickle()
    module = sys.modules.get(function.__module__)
    # __main__ and code without a module travel by value anyway.
    known = module is None or function.__module__ in (
        "__main__",
        *pickler.list_registry_pickle_by_value(),
    )
    if not known:
        pickler.register_pickle_by_value(module)
    try:
        return bytes(pickler.dumps((function, arguments, keywords)))
    except Exception as error:
        raise TypeError(
            f"cannot send {function.__qualname__} to a job: {error}; pass as arguments, and use "
            "from its module, what pickle can store, and open files and connections inside"
        ) from None
    finally:
        if not known:
            pickler.unregister_pickle_by_value(module)


def _default_name(function: Callable[..., Any]) -> str:
    text = re.sub(r"[^a-z0-9]+", "-", function.__name__.lower()).strip("-0123456789")
    stamp = time.strftime("%y%m%d-%H%M%S", time.gmtime())
    return f"{text[:24].strip('-') or 'job'}-{stamp}-{secrets.token_hex(2)}"


def find_local(folder: PathLike) -> HybridJob[Any]:
    """Return the handle of the job on this machine in a folder."""
    path = Path(folder).absolute()
    try:
        call = json.loads((path / "code" / "call.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise QringError(
            f"cannot find a hybrid job in {path}: it has no code/call.json; give the job's folder",
            Code.NOT_FOUND,
        ) from None
    return HybridJob(call["name"], Local(path))


def _new_folder(path: Path, name: str) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Others must not replace what is unpickled here.
        path.mkdir(mode=0o700)
    except FileExistsError:
        raise QringError(
            f"cannot start {name}: {path} exists; choose another name= or out=, or call "
            f"qring.attach({str(path)!r}, local=True).delete()",
            Code.ALREADY_EXISTS,
        ) from None
    return path.absolute()


def hybrid_job(
    name: str | None = None,
    *,
    local: bool = False,
    wait: bool = False,
    input_data: PathLike | Mapping[str, PathLike] | None = None,
    dependencies: PathLike | Sequence[str] | None = None,
    include_modules: PathLike | Sequence[PathLike] | None = None,
    copy_checkpoints_from: HybridJob[Any] | PathLike | None = None,
    out: PathLike | None = None,
    **options: Any,
) -> Callable[[Callable[P, R]], Callable[P, HybridJob[R]]]:
    """Make a job of a Python function: each call starts one, and returns its handle at once.

    The function and its arguments travel by value, with what it uses of its own module. Other
    modules of yours are named in `include_modules`. Inside, it calls :func:`log_metric`,
    :func:`input_dir`, :func:`results_dir`, :func:`save_checkpoint`, :func:`load_checkpoint`, and
    :func:`qring.run` or :func:`qring.submit`. Its working folder is one of the job's. Where it
    runs, Python has the caller's minor version.

    Parameters
    ----------
    name : str, optional
        Name of the job, for one call. Default: the function's name, the time and four digits.
    local : bool
        Run in a process on this machine, which goes on when the caller ends.
    wait : bool
        Return when the job has ended.
    input_data : str, path or mapping, optional
        Local file or folder for the channel ``"input"``, or paths by channel. They are copied.
    dependencies : str, path or sequence of str, optional
        Path of a requirements file, or its lines, for pip. Local wheels and folders travel.
    include_modules : str, path or sequence, optional
        Names of modules and packages that can be imported here, or paths.
    copy_checkpoints_from : HybridJob, str or path, optional
        A job, its folder or its name on the cluster: the new job begins with its checkpoints.
    out : str or path, optional
        New folder of a job on this machine. Default: ``out/NAME``.
    **options
        As of :class:`HybridOptions`: ``image="registry/qring-python:0.1.0"``, ``cpu="2"``,
        ``output_claim="results"``, ``env={…}``, ``timeout=3600`` …

    Returns
    -------
    callable
        The decorator.

    Raises
    ------
    QringError
        By a call: the job cannot be started, or one of this name exists.
    """
    if callable(name):
        raise TypeError("cannot make a job: write @qring.hybrid_job() with parentheses")
    settings = HybridOptions(**options)  # checks names and values

    def decorate(function: Callable[P, R]) -> Callable[P, HybridJob[R]]:
        @functools.wraps(function)
        def call(*arguments: P.args, **keywords: P.kwargs) -> HybridJob[R]:
            chosen = _default_name(function) if name is None else _manifests.object_name(name)
            record = {
                "name": chosen,
                "created": time.time(),
                "python": "{}.{}".format(*sys.version_info),
                "qring": __version__,
                "hyperparameters": _hyperparameters(function, arguments, keywords),
            }
            data = _pickle(function, arguments, keywords)
            backend: Backend
            if local:
                folder = _new_folder(Path("out") / chosen if out is None else Path(out), chosen)
                backend = Local(folder)
            else:
                folder = Path(tempfile.mkdtemp())
            try:
                if not local:
                    cluster = Cluster(settings.client, settings.context)
                    namespace = settings.namespace or cluster.namespace
                    backend = Remote(chosen, cluster, namespace, folder)
                code = folder / "code"
                code.mkdir()
                (code / "call.pickle").write_bytes(data)
                record["dependencies"] = _write_requirements(code, dependencies)
                _write_modules(code / "modules", include_modules)
                source = None if local else settings
                _write_checkpoints(code / "checkpoints", copy_checkpoints_from, source)
                _write_input(folder / "input", input_data)
                (code / "call.json").write_text(json.dumps(record), encoding="utf-8")
                backend.start(settings)
            except BaseException:
                # With its processes, after Ctrl-C.
                Local(folder).delete()
                raise
            if not local:
                shutil.rmtree(folder, ignore_errors=True)
            job: HybridJob[R] = HybridJob(chosen, backend)
            if wait:
                job.wait()
            return job

        return call

    return decorate
