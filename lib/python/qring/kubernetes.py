"""Runs on a Kubernetes cluster. Start at :func:`submit` and :class:`Handle`.

Needs the client of the Kubernetes project: ``pip install qring[kubernetes]``.

>>> import qring
>>> run = qring.submit("job.json", replicas=4, image="registry/qring:0.1.0")  # doctest: +SKIP
>>> run.result().digest  # doctest: +SKIP
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any, Mapping

import numpy as np

from . import _hybrid_cluster, _manifests, _program, _progress
from ._cluster import (
    MALFORMED,
    Cluster,
    conditions,
    exit_of,
    message,
    patient_state,
    printable,
    until,
    waits_for,
)
from ._library import Code, QringError
from ._manifests import Options
from ._program import ProgramError
from .job import Job, JobLike, map_files, run, with_data
from .result import Result

__all__ = ["Handle", "LocalHandle", "Options", "attach", "submit"]

# A Secret holds at most 1 MiB, with its keys.
_MAX_DATA_BYTES = 1_000_000
_PER_INDEX_SINCE = (1, 29)
_POLL_SECONDS = 1.0
# Above it a float64 has no odd numbers; NaN is not below it.
_MAX_STEPS = 2.0**53
# The digest is in the last lines of the leader's log.
_LAST_LINES = 1000
_INDEX = "batch.kubernetes.io/job-completion-index"
# A result from a cluster may lack some of the files that a run writes.
_FILES_OF_A_RUN = (
    "result.json",
    "provenance.dsse.json",
    "provenance.json",
    "weights.h5",
    "weights.safetensors",
    "steps.jsonl",
)

# At the start of a message, after severity and module: a search takes quadratic time.
_DONE = re.compile(
    r"(?:[A-Z] )?(?:\w+: )?(?:done|already trained): (?P<steps>\d+) steps.*?"
    r"(?:, loss (?P<loss>[^ ,]+))?(?:, val_loss (?P<val_loss>[^ ,]+))?"
    r", state_digest (?P<digest>[0-9a-f]{32})"
)
_METRIC = re.compile(r"([a-zA-Z_:][\w:]*(?:\{.*\})?)\s+(\S+)")


def _index_of(pod: Any) -> int | None:
    for values in (pod.metadata.labels, pod.metadata.annotations):
        if values and str(values.get(_INDEX, "")).isdecimal():
            return int(values[_INDEX])
    return None


class Handle:
    """A run on a cluster; :func:`attach` makes another one from its name.

    Attributes
    ----------
    name, namespace : str
        Of all objects of the run.
    """

    def __init__(self, name: str, namespace: str, cluster: Cluster, uid: str | None = None) -> None:
        self.name = name
        self.namespace = namespace
        self._cluster = cluster
        # Of the Job; None until it is read.
        self._uid = uid

    def __repr__(self) -> str:
        return f"Handle({self.name!r}, namespace={self.namespace!r})"

    def _job(self) -> Any:
        job = self._cluster.job(self.namespace, self.name, self._uid)
        self._uid = job.metadata.uid
        return job

    def _pods(self) -> list[Any]:
        uid = self._uid or self._job().metadata.uid
        return self._cluster.pods(self.namespace, self.name, uid)

    def state(self) -> str:
        """Return the state of the run.

        Returns
        -------
        str
            ``"pending"`` (no worker is ready), ``"running"``, ``"suspended"``, ``"succeeded"`` or
            ``"failed"``.
        """
        job = self._job()
        true = [item.type for item in conditions(job) if item.status == "True"]
        for condition, state in (
            ("Failed", "failed"),
            ("Complete", "succeeded"),
            ("Suspended", "suspended"),
        ):
            if condition in true:
                return state
        # At the end, pods that have succeeded are no longer ready.
        status = job.status
        return "running" if status and (status.ready or status.succeeded) else "pending"

    def pods(self) -> list[dict[str, Any]]:
        """Return the pods of the workers, oldest first.

        Returns
        -------
        list of dict
            ``name``, ``index`` of the worker, ``phase`` as Kubernetes has it, ``exit_code`` of one
            that has ended, and ``reason``: why it waits, or its last message.
        """
        found = []
        for pod in self._pods():
            ended = exit_of(pod)
            found.append(
                {
                    "name": pod.metadata.name,
                    "index": _index_of(pod),
                    "phase": pod.status.phase if pod.status else None,
                    "exit_code": ended[0] if ended else None,
                    "reason": ended[1] if ended else waits_for(pod),
                }
            )
        return found

    def logs(self, index: int = 0, lines: int | None = None) -> str:
        """Return the log of a worker: of its newest pod.

        Parameters
        ----------
        index : int
            Number of the worker.
        lines : int, optional
            Only so many lines, from the end.
        """
        pods = [pod for pod in self._pods() if _index_of(pod) == index]
        if not pods:
            raise QringError(
                f"cannot read the log of worker {index} of {self.name}: it has no pod; see state()",
                Code.NOT_FOUND,
            )
        text = self._cluster.log(self.namespace, pods[-1].metadata.name, lines)
        return "\n".join(map(message, text.splitlines()))

    def metrics(self, index: int | None = None) -> dict[str, float]:
        """Return the metrics of a worker that runs.

        Parameters
        ----------
        index : int, optional
            Number of the worker. Default: the first one that answers.

        Returns
        -------
        dict
            By Prometheus' names: ``qring_step``, ``qring_steps_planned``, ``qring_loss``,
            ``qring_members``, ``qring_value{name="accuracy"}`` and so on. Empty if no worker runs.
        """
        failure: QringError | None = None
        for pod in self._pods():
            running = pod.status is not None and pod.status.phase == "Running"
            if not running or index not in (None, _index_of(pod)):
                continue
            try:
                text = self._cluster.metrics(self.namespace, pod.metadata.name)
            except QringError as error:
                failure = error
                continue
            values: dict[str, float] = {}
            for match in filter(None, map(_METRIC.match, text.splitlines())):
                with contextlib.suppress(ValueError):
                    values[match.group(1)] = float(match.group(2))
            return values
        # A pod that has just started or ended does not answer, but a missing right is an error.
        if failure is not None and failure.code == Code.PERMISSION_DENIED:
            raise failure
        return {}

    def scale(self, replicas: int) -> None:
        """Change the number of workers while they train; the result does not change.

        Parameters
        ----------
        replicas : int
            New number of workers.
        """
        self._job()  # not one that has replaced it
        ring = self._cluster.find(self.namespace, "Job", f"{self.name}-ps", self.name)
        servers = int(ring.spec.completions) if ring is not None else 0
        _manifests.check_members(replicas, servers)
        # The ConfigMap first: a new pod reads the number there.
        number = {"data": {"replicas": str(replicas)}}
        self._cluster.patch(self.namespace, "ConfigMap", self.name, number)
        both = {"spec": {"completions": replicas, "parallelism": replicas}}
        self._cluster.patch(self.namespace, "Job", self.name, both)
        least = {"spec": {"minAvailable": _manifests.min_available(replicas, servers)}}
        try:
            self._cluster.patch(self.namespace, "PodDisruptionBudget", self.name, least)
        except QringError as error:
            if error.code != Code.NOT_FOUND:
                raise

    def wait(self, timeout: float | None = None, progress: bool | None = None) -> str:
        """Wait for the end of the run.

        Parameters
        ----------
        timeout : float, optional
            Seconds; None: no limit.
        progress : bool, optional
            As of :func:`qring.run`.

        Returns
        -------
        str
            ``"succeeded"`` or ``"failed"``.

        Raises
        ------
        TimeoutError
            The run goes on.
        """
        end = None if timeout is None else time.monotonic() + timeout
        bar = _progress.bar(progress, self.name, None)
        moving = type(bar) is not _progress.Bar
        what = f"cannot wait for {self.name}"
        while True:
            state = patient_state(what, self.state, end, _POLL_SECONDS)
            if state in ("succeeded", "failed"):
                break
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"{what}: {state} after {timeout} s")
            if moving:
                with until(end):
                    self._show(bar, state)
            time.sleep(_POLL_SECONDS)
        if moving:
            bar.end(failed=state == "failed")
        return state

    def _show(self, bar: _progress.Bar, state: str) -> None:
        with contextlib.suppress(QringError):
            values = self.metrics() if state == "running" else {}
            loss = values.get("qring_loss")
            text = state if loss is None else f"loss: {loss:.6g}"
            if state == "pending":
                reasons = [pod["reason"] for pod in self.pods() if pod["reason"]]
                text = reasons[0] if reasons else text
            numbers = (values.get(f"qring_{key}", 0) for key in ("step", "steps_planned"))
            step, planned = (int(x) if 0 <= x <= _MAX_STEPS else 0 for x in numbers)
            bar.at(step, planned, text)
        bar.tick()

    @property
    def job(self) -> Job:
        """The job, as the pods read it."""
        data = self._cluster.read(self.namespace, "ConfigMap", self.name).data
        try:
            return Job(json.loads((data or {})["job.json"]))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise QringError(
                f"cannot read the job of {self.name}: job.json of ConfigMap {self.name} in "
                f"namespace {self.namespace} is malformed ({error}); submit the run again",
                Code.DATA_LOSS,
            ) from None

    def result(
        self,
        timeout: float | None = None,
        out: str | os.PathLike[str] | None = None,
        progress: bool | None = None,
    ) -> Result:
        """Wait for the end, and return the result.

        Weights come from the bucket that the run was submitted with (``weights=``); without one
        the result has the digest, the losses and the job only. Losses have the digits of the log.
        A history stays with the pods.

        Parameters
        ----------
        timeout : float, optional
            Seconds; None: no limit.
        out : str or path, optional
            Local folder for the result. Default: ``out/NAMESPACE/NAME``. Files of an earlier
            run in it are removed.
        progress : bool, optional
            As of :func:`qring.run`.

        Raises
        ------
        QringError
            The run has failed: message and exit code of its worker.
        TimeoutError
            The run goes on.
        """
        if self.wait(timeout, progress) == "failed":
            raise self._failure()
        folder = Path("out") / self.namespace / self.name if out is None else Path(out)
        summary = self._summary()
        folder.mkdir(parents=True, exist_ok=True)
        keys = self._fetch_data(folder.absolute())
        for name in _FILES_OF_A_RUN:
            (folder / name).unlink(missing_ok=True)
        path = folder / "job.json"
        path.write_text(json.dumps(keys, indent=2) + "\n", encoding="utf-8")
        if not self._fetch_weights(folder, path):
            summary["no_weights"] = (
                f"{self.name} left them in its pods or its claim; give submit() "
                'weights="gs://BUCKET/NAME.safetensors", or s3://, to have them here'
            )
        (folder / "result.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
        return Result(folder)

    def _failure(self) -> ProgramError:
        """Return the error of the pod that made the Job fail."""
        ends = [end for pod in self._pods() if (end := exit_of(pod)) and end[0] != 0]
        # Permanent codes are below 128; others were retried.
        ends.sort(key=lambda end: end[0] >= 128)
        if ends:
            code, text = ends[0]
            return ProgramError(re.sub(r"^[A-Z] ", "", text), code, self._tail())
        failed = [item for item in conditions(self._job()) if item.type == "Failed"]
        reasons = [f"{item.reason}: {item.message}" for item in failed]
        text = printable("; ".join(reasons)) or "no reason"
        return ProgramError(f"{self.name} failed: {text}", 138)

    def _tail(self) -> str:
        try:
            return self.logs(lines=50)
        except QringError:
            return ""

    def _summary(self) -> dict[str, Any]:
        """Read digest and losses from the leader's log."""
        pods = self._pods()
        for pod in pods:
            try:
                text = self._cluster.log(self.namespace, pod.metadata.name, _LAST_LINES)
            except QringError:
                # The log of a pod whose node is gone; others may have led.
                continue
            for line in reversed(text.splitlines()):
                match = _DONE.match(message(line))
                # A line with malformed numbers is not the program's.
                with contextlib.suppress(ValueError):
                    if match:
                        values = {key: match[key] for key in ("loss", "val_loss")}
                        return {
                            "job": self.name,
                            "steps": int(match["steps"]),
                            **{key: float(value) for key, value in values.items() if value},
                            "state_digest": match["digest"],
                        }
        raise QringError(
            f"cannot read the result of {self.name}: no log of its {len(pods)} pods has the "
            "digest; pods that were deleted have no log",
            Code.DATA_LOSS,
        )

    def _fetch_data(self, folder: Path) -> dict[str, Any]:
        """Write the samples that came with the job; return the keys of a job that reads them."""
        keys = self.job.to_json()
        secret = f"{self.name}-data"
        try:
            found = self._cluster.find(self.namespace, "Secret", secret, self.name)
        except QringError as error:
            if error.code != Code.PERMISSION_DENIED:
                raise
            return keys
        data = found.data if found is not None else None

        def local(path: str) -> str:
            inside, name = os.path.split(path)
            sent = inside == _manifests.DATA_FOLDER and name not in ("", ".", "..")
            if not sent or name not in (data or {}):
                return path
            try:
                content = base64.b64decode(data[name], validate=True)
            except MALFORMED as error:
                raise QringError(
                    f"cannot read {name} of Secret {secret} in namespace {self.namespace}: "
                    f"{error}; submit the run again",
                    Code.DATA_LOSS,
                ) from None
            target = folder / "data" / name
            target.parent.mkdir(exist_ok=True)
            # As the Secret, for its owner only.
            with open(target, "wb", opener=lambda at, flags: os.open(at, flags, 0o600)) as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(content)
            return str(target)

        map_files(keys, local)
        return keys

    def _fetch_weights(self, folder: Path, job: Path) -> bool:
        """Copy the weights from the bucket into the folder; return whether there is one."""
        container = self._job().spec.template.spec.containers[0]
        flags = container.args or ()
        url = next((x[10:] for x in flags if x.startswith("--weights=")), "")
        if not url.startswith(("gs://", "s3://")):
            return False
        target = str(folder / "weights.safetensors")
        if url.endswith((".safetensors", ".npz")):
            _program.start(["weights", url, "--to", target])
            return True
        # An .h5 file has float32 only; the last checkpoint beside it has all bits.
        flag = next((x[14:] for x in flags if x.startswith("--checkpoints=")), "")
        latest = (flag or re.sub(r"\.[^./]*$", "", url) + ".checkpoints").rstrip("/") + "/LATEST"
        setting = f"train.initial_weights={json.dumps(latest)}"
        _program.start(["weights", "--init", str(job), "--set", setting, "--to", target])
        return True

    def delete(self) -> None:
        """Delete all objects of the run; files in a bucket or claim stay."""
        names = {
            "Job": ("", "-ps"),
            "Service": ("",),
            "PodDisruptionBudget": ("",),
            "NetworkPolicy": ("",),
            "ConfigMap": ("",),
            "Secret": ("-data", "-tls"),
            "ServiceAccount": ("",),
        }
        # A Secret or ServiceAccount of the user's own may have such a name too.
        objects = ((kind, self.name + end) for kind, ends in names.items() for end in ends)
        self._cluster.delete_run(self.namespace, self.name, self._uid, objects)


class LocalHandle:
    """A run on this machine with the methods of :class:`Handle`; it has ended.

    Attributes
    ----------
    name : str
        Name of the job.
    namespace : str
        ``"local"``.
    """

    namespace = "local"

    def __init__(self, name: str, result: Result) -> None:
        self.name = name
        self._result = result

    def __repr__(self) -> str:
        return f"LocalHandle({self.name!r}, out={str(self._result.out)!r})"

    @property
    def job(self) -> Job:
        """The job as trained."""
        return self._result.job

    def state(self) -> str:
        """Return ``"succeeded"``: a failure was an exception of :func:`submit`."""
        return "succeeded"

    def wait(self, timeout: float | None = None, progress: bool | None = None) -> str:
        """Return the state at once."""
        return self.state()

    def logs(self, index: int = 0, lines: int | None = None) -> str:
        """Return the log of a worker."""
        path = self._result.out / f"worker-{index}.log"
        try:
            found = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError as error:
            raise QringError(
                f"cannot read the log {path}: {error.strerror}", Code.NOT_FOUND
            ) from None
        return "\n".join(found if lines is None else found[len(found) - min(lines, len(found)) :])

    def metrics(self, index: int | None = None) -> dict[str, float]:
        """Return an empty dict: no worker runs."""
        return {}

    def scale(self, replicas: int) -> None:
        """Raise QringError: the run has ended."""
        raise QringError(
            f"cannot scale {self.name}: the run on this machine has ended; give replicas to submit",
            Code.FAILED_PRECONDITION,
        )

    def result(
        self,
        timeout: float | None = None,
        out: str | os.PathLike[str] | None = None,
        progress: bool | None = None,
    ) -> Result:
        """Return the result."""
        return self._result

    def delete(self) -> None:
        """Do nothing: the files in the output folder stay."""


def _certificate(name: str, namespace: str) -> dict[str, bytes]:
    """Make a certificate with ``qring certs``; the key of its CA is discarded."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--namespace", namespace, "--service", name, "--out", folder]
        _program.start(["certs", name, *flags])
        files = ("tls.crt", "tls.key", "ca.crt")
        return {file: (Path(folder) / file).read_bytes() for file in files}


def _pack(job: Job) -> dict[str, bytes]:
    """Read the local files of a job, and rename them in it to those that the pods see."""
    files: dict[str, bytes] = {}
    paths: dict[str, str] = {}
    keys = job.to_json()

    def pack(path: str) -> str:
        path = path.removeprefix("file://")
        if path in paths:
            return paths[path]
        what = f"cannot send {path} to the pods"
        try:
            if os.path.isfile(path) and os.path.getsize(path) > _MAX_DATA_BYTES:
                raise ValueError(
                    f"{what}: it has {os.path.getsize(path)} bytes, and a Secret holds "
                    f"{_MAX_DATA_BYTES}; upload it, and set its gs://, s3:// or https:// URL"
                )
            content = Path(path).read_bytes()
        except OSError as error:
            raise ValueError(
                f"{what}: {error.strerror}; give the path of a file, or a gs://, s3:// or https:// "
                "URL"
            ) from None
        name = re.sub(r"[^-._a-zA-Z0-9]", "_", os.path.basename(path))
        wanted, number = name, len(files)
        while name in files:
            name, number = f"{number}-{wanted}", number + 1
        files[name] = content
        paths[path] = f"{_manifests.DATA_FOLDER}/{name}"
        return paths[path]

    map_files(keys, pack)
    total = sum(map(len, files.values()))
    if total > _MAX_DATA_BYTES:
        raise ValueError(
            f"cannot send {len(files)} files of {total} bytes to the pods: a Secret holds "
            f"{_MAX_DATA_BYTES}; upload them, and set their gs://, s3:// or https:// URLs"
        )
    for key in keys:
        job.set(key, keys[key])
    return files


def _mount(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Add the volume with the samples to the options."""
    volume = {"name": "data", "secret": {"secretName": f"{name}-data", "defaultMode": 0o440}}
    mount = {"name": "data", "mountPath": _manifests.DATA_FOLDER, "readOnly": True}
    return {
        **options,
        "volumes": [*options.get("volumes", ()), volume],
        "volume_mounts": [*options.get("volume_mounts", ()), mount],
    }


def submit(
    job: JobLike,
    *,
    replicas: int = 2,
    namespace: str | None = None,
    image: str | None = None,
    name: str | None = None,
    data: Any = None,
    validation_data: Any = None,
    local: bool = False,
    out: str | os.PathLike[str] | None = None,
    context: str | None = None,
    client: Any = None,
    **options: Any,
) -> Handle | LocalHandle:
    """Start a run on a Kubernetes cluster; return at once.

    The objects are those of the Helm chart: an Indexed Job, a headless Service, ConfigMap,
    ServiceAccount, NetworkPolicy, PodDisruptionBudget and certificate. Local files of the job and
    arrays, up to 1 MB, travel in a Secret.

    Parameters
    ----------
    job : Job, mapping, str or path
        The job, or the path of a job file.
    replicas : int
        Number of workers, one pod each. The result is the same to the last bit for any number.
    namespace : str, optional
        Default: that of the current context.
    image : str, optional
        Image with registry and tag or digest. Default: ``qring:VERSION``.
    name : str, optional
        Name of all objects. Default: that of the job.
    data, validation_data : tuple of arrays or mapping, optional
        As of :func:`qring.run`.
    local : bool
        Train on this machine instead, with :func:`qring.run`, and return when it has ended.
    out : str or path, optional
        Output folder of a local run.
    context : str, optional
        Context of the kubeconfig. Default: the current one; in a pod, its own cluster.
    client : kubernetes.client.ApiClient, optional
        A client to use, instead of `context`.
    **options
        As of :class:`qring.kubernetes.Options`: ``weights="gs://BUCKET/w.safetensors"``,
        ``cpu="2"``, ``memory="1Gi"``, ``parameter_servers=1``, ``spot=True``, ``tls="none"`` …

    Returns
    -------
    Handle or LocalHandle

    Raises
    ------
    QringError
        The cluster rejects an object (those before it are deleted), or there is a run of this
        name.
    """
    job = job.copy() if isinstance(job, Job) else Job(job)
    if isinstance(replicas, np.integer):
        replicas = int(replicas)
    settings = dict(options, replicas=replicas)
    if image is not None:
        settings["image"] = image
    Options(**settings)  # checks names and numbers
    if local:
        finished = run(job, workers=replicas, out=out, data=data, validation_data=validation_data)
        return LocalHandle(job.name, finished)
    name = _manifests.object_name(name or job.name)
    with tempfile.TemporaryDirectory() as folder:
        with_data(job, data, validation_data, Path(folder))
        files = _pack(job)
    cluster = Cluster(client, context)
    namespace = namespace or cluster.namespace
    if files:
        settings = _mount(name, settings)
    chosen = Options(**settings)
    certificate = _certificate(name, namespace) if chosen.tls == "generate" else None
    text = json.dumps(job.to_json(), indent=2)
    per_index = cluster.version() >= _PER_INDEX_SINCE
    bodies = _manifests.objects(name, chosen, text, certificate, per_index)
    if files:
        bodies.insert(0, _manifests.secret(f"{name}-data", name, "Opaque", files))
    return Handle(name, namespace, cluster, cluster.create_all(namespace, bodies))


def attach(
    name: str,
    namespace: str | None = None,
    *,
    local: bool = False,
    context: str | None = None,
    client: Any = None,
) -> Any:
    """Find a run on a cluster, or a hybrid job, again.

    Parameters
    ----------
    name : str
        Name of the run, also of one that Helm or kubectl has started; or the folder of a hybrid
        job on this machine, with ``local=True``.
    namespace, context, client
        As of :func:`submit`.
    local : bool
        The job is one on this machine.

    Returns
    -------
    Handle or HybridJob

    Raises
    ------
    QringError
        There is no run of this name.
    """
    if local:
        from .hybrid import find_local

        return find_local(name)
    cluster = Cluster(client, context)
    handle = Handle(name, namespace or cluster.namespace, cluster)
    labels = handle._job().metadata.labels or {}
    if labels.get("app.kubernetes.io/name") != "qring":
        raise QringError(
            f"cannot use Job {name} in namespace {handle.namespace}: it is not a run of qring",
            Code.FAILED_PRECONDITION,
        )
    if labels.get("app.kubernetes.io/component") == _hybrid_cluster.COMPONENT:
        from .hybrid import HybridJob

        remote = _hybrid_cluster.Remote(name, cluster, handle.namespace, uid=handle._uid)
        return HybridJob(name, remote)
    return handle
