"""Hybrid jobs on a Kubernetes cluster. Start at :class:`Remote`.

Code and input travel in Secrets that only the job's pod mounts, and what the job writes comes back
in the log of its pod (:mod:`qring._hybrid_pod`).
"""

from __future__ import annotations

import base64
import io
import json
import math
import secrets
import tarfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _manifests
from ._cluster import MALFORMED, Cluster, conditions, exit_of, printable, waits_for
from ._hybrid_pod import JOB, PARTS, Files, pack
from ._library import Code, QringError
from ._manifests import Object

if TYPE_CHECKING:
    from .hybrid import HybridOptions

COMPONENT = "hybrid"

# A Secret holds 1 MiB, and the node keeps those of a pod in memory.
_PART_BYTES = 1_000_000
_MAX_PARTS = 8
_CONTAINER = "job"
_RETRIES = 6


def manifests(name: str, options: HybridOptions, parts: list[bytes]) -> list[Object]:
    """Return all objects of a job, the Job last.

    Parameters
    ----------
    name : str
        Name of the job.
    options : HybridOptions
        What a user may choose.
    parts : list of bytes
        The archive of code and input, in parts.
    """
    labels = {**_manifests.labels(name), "app.kubernetes.io/component": COMPONENT}
    names = [f"{name}-code-{i}" for i in range(len(parts))]
    sources = [
        {"secret": {"name": secret, "items": [{"key": "part", "path": f"{i:03}"}]}}
        for i, secret in enumerate(names)
    ]
    out: Object = {"emptyDir": {}}
    mount: Object = {"name": "out", "mountPath": f"{JOB}/out"}
    if options.output_claim:
        out = {"persistentVolumeClaim": {"claimName": options.output_claim}}
        # Another job of this name must not find the outcome of this one.
        mount["subPath"] = f"{name}-{secrets.token_hex(4)}"
    size = {"cpu": options.cpu, "memory": options.memory}
    environment = {"HOME": "/tmp", **options.env}
    container: Object = {
        "name": _CONTAINER,
        "image": options.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-u", "-m", "qring._hybrid_pod"],
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "securityContext": _manifests.container_security(),
        "resources": {"requests": size, "limits": dict(size)},
        "volumeMounts": [
            {"name": "parts", "mountPath": PARTS, "readOnly": True},
            {"name": "job", "mountPath": JOB},
            mount,
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
    pod: Object = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": bool(options.service_account),
        "enableServiceLinks": False,
        "securityContext": _manifests.pod_security(),
        "containers": [container],
        "volumes": [
            {"name": "parts", "projected": {"sources": sources, "defaultMode": 0o440}},
            {"name": "job", "emptyDir": {}},
            {"name": "out", **out},
            {"name": "tmp", "emptyDir": {}},
        ],
    }
    if options.service_account:
        pod["serviceAccountName"] = options.service_account
    spec: Object = {
        "backoffLimit": _RETRIES,
        "podFailurePolicy": _manifests.failure_policy(_CONTAINER),
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    if options.timeout is not None:
        spec["activeDeadlineSeconds"] = math.ceil(options.timeout)
    metadata: Object = {"name": name, "labels": labels}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    # For a second start, because the API server adds to the Job what no new one may have.
    again = {"job.json": json.dumps(job).encode()}
    bodies = [
        _manifests.secret(secret, name, "Opaque", {"part": part, **(again if i == 0 else {})})
        for i, (secret, part) in enumerate(zip(names, parts))
    ]
    policy: Object = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {
            "podSelector": {"matchLabels": _manifests.selector(name)},
            "policyTypes": ["Ingress"],
        },
    }
    return [*bodies, policy, job]


def _split(data: bytes) -> list[bytes]:
    parts = [data[at : at + _PART_BYTES] for at in range(0, len(data), _PART_BYTES)]
    if len(parts) > _MAX_PARTS:
        raise ValueError(
            f"cannot send code and input to the pod: they have {len(data)} bytes compressed, and "
            f"{_MAX_PARTS} Secrets hold {_MAX_PARTS * _PART_BYTES}; upload the large files, and "
            "give the function their gs://, s3:// or https:// URLs as arguments"
        )
    return parts


class Remote:
    """The backend of jobs on a cluster; see :class:`qring.hybrid.Backend`.

    Parameters
    ----------
    name : str
        Name of the job.
    cluster : Cluster
        Where it runs.
    namespace : str
        Its namespace.
    folder : Path, optional
        Local folder with ``code`` and ``input``, before the start.
    uid : str, optional
        UID of the Job, after the start.
    """

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        namespace: str,
        folder: Path | None = None,
        uid: str | None = None,
    ) -> None:
        self.name = name
        self.folder = folder or Path(name)
        self._cluster = cluster
        self._namespace = namespace
        self._uid = uid
        self._code: dict[str, bytes] | None = None
        self._ended: tuple[str, Files] | None = None

    # ---- start and end ----

    def start(self, options: HybridOptions | None = None) -> None:
        """Create the objects; without options, start a job again that was cancelled or failed."""
        if options is None:
            self._start_again()
            return
        bodies = manifests(self.name, options, _split(pack(self.folder)))
        self._uid = self._cluster.create_all(self._namespace, bodies)

    def _start_again(self) -> None:
        try:
            state = self.state()
        except QringError as error:
            if error.code != Code.NOT_FOUND:
                raise
            # Deleted by a start that could not create it again, if its Secret is still there.
            state = "deleted"
        if state in ("pending", "running"):
            raise QringError(
                f"cannot start {self.name}: it is {state}; wait, or cancel it",
                Code.FAILED_PRECONDITION,
            )
        self._ended = None
        if state == "cancelled":
            self._cluster.patch(self._namespace, "Job", self.name, {"spec": {"suspend": False}})
            return
        try:
            body = json.loads(self._secret(0)["job.json"])
            if (body["kind"], body["metadata"]["name"]) != ("Job", self.name):
                raise ValueError("it is another object")
        except MALFORMED as error:
            raise QringError(
                f"cannot start {self.name}: job.json of Secret {self.name}-code-0 is malformed "
                f"({error}); start the function again",
                Code.DATA_LOSS,
            ) from None
        # An error of the API server comes while the old Job is still there.
        try:
            self._cluster.create(self._namespace, body, dry_run=True)
        except QringError as error:
            if error.code != Code.ALREADY_EXISTS:
                raise
        self._cluster.delete(self._namespace, "Job", self.name, self._uid)
        self._uid = self._cluster.create(self._namespace, body)

    def cancel(self) -> None:
        """Suspend the Job: its pod is deleted, with its log."""
        if self.state() in ("pending", "running"):
            self._cluster.patch(self._namespace, "Job", self.name, {"spec": {"suspend": True}})

    def delete(self) -> None:
        """Delete all objects; files in a claim stay."""
        parts = [("Secret", f"{self.name}-code-{i}") for i in range(_MAX_PARTS)]
        objects = [("Job", self.name), ("NetworkPolicy", self.name), *parts]
        self._cluster.delete_run(self._namespace, self.name, self._uid, objects)

    # ---- state ----

    def _job(self) -> Any:
        return self._cluster.job(self._namespace, self.name, self._uid)

    def _pods(self) -> list[Any]:
        return self._cluster.pods(self._namespace, self.name, self._uid)

    def state(self) -> str:
        """Return the state, as of :meth:`qring.HybridJob.state`."""
        job = self._job()
        true = [item.type for item in conditions(job) if item.status == "True"]
        if "Failed" in true:
            return "failed"
        if "Complete" in true:
            return "succeeded"
        if job.spec.suspend:
            return "cancelled"
        return "running" if job.status and job.status.ready else "pending"

    def reason(self) -> str:
        """Return why a job has failed without an outcome."""
        job = self._job()
        failed = next((item for item in conditions(job) if item.type == "Failed"), None)
        if failed is not None and failed.reason == "DeadlineExceeded":
            seconds = job.spec.active_deadline_seconds
            return f"it did not end in {seconds} s; give a longer timeout="
        ends = [end for pod in self._pods() if (end := exit_of(pod)) is not None]
        if ends:
            code, text = ends[-1]
            hint = "; give more memory=" if "OOMKilled" in text else ""
            return f"its pod ended with exit code {code} ({text}){hint}"
        if failed is None:
            return "its pod is gone"
        return printable(f"{failed.reason}: {failed.message}")

    # ---- files ----

    def _log(self, pod: Any) -> str:
        try:
            return self._cluster.log(self._namespace, pod.metadata.name, None, _CONTAINER)
        except QringError as error:
            # No log yet, or the pod was deleted meanwhile.
            if error.code in (Code.INVALID_ARGUMENT, Code.NOT_FOUND):
                return ""
            raise

    def _files(self) -> Files:
        """Return what the newest pod with a log has written."""
        pods = self._pods()
        newest = Files("")
        for pod in reversed(pods):
            if self._ended is not None and self._ended[0] == pod.metadata.uid:
                return self._ended[1]
            found = Files(self._log(pod))
            if found.content or found.missing:
                if exit_of(pod) is not None:
                    self._ended = (pod.metadata.uid, found)
                return found
            newest = newest if newest.output else found
        # Deleted with its pod after this handle had read the log.
        if not pods and self._ended is not None:
            return self._ended[1]
        return newest

    def _secret(self, i: int) -> dict[str, bytes]:
        secret = f"{self.name}-code-{i}"
        found = self._cluster.find(self._namespace, "Secret", secret, self.name)
        if found is None:
            raise QringError(
                f"cannot read what was sent to {self.name}: Secret {secret} in namespace "
                f"{self._namespace} is missing; start the function again",
                Code.NOT_FOUND,
            )
        return {key: base64.b64decode(text) for key, text in (found.data or {}).items()}

    def _sent(self) -> dict[str, bytes]:
        """Return the files of the folder ``code``, as they were sent."""
        if self._code is None:
            volumes = self._job().spec.template.spec.volumes or ()
            code: dict[str, bytes] = {}
            try:
                parts = [len(item.projected.sources) for item in volumes if item.name == "parts"]
                data = b"".join(self._secret(i)["part"] for i in range(parts[0]))
                with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                    for member in archive:
                        file = archive.extractfile(member) if member.isfile() else None
                        if file is not None and member.name.startswith("code/"):
                            code[member.name] = file.read()
            except (*MALFORMED, tarfile.TarError, EOFError, zlib.error) as error:
                raise QringError(
                    f"cannot read what was sent to {self.name}: its Secrets are malformed "
                    f"({error}); start the function again",
                    Code.DATA_LOSS,
                ) from None
            self._code = code
        return self._code

    def read(self, path: str) -> bytes | None:
        """Return the content of a file below the job's folder; None: it does not exist."""
        if path.startswith("code/"):
            return self._sent().get(path)
        found = self._files()
        if path in found.content:
            return found.content[path]
        what = f"cannot read {path} of {self.name}"
        if path in found.missing:
            pod = self._job().spec.template.spec
            claim = {item.name: item for item in pod.volumes}["out"].persistent_volume_claim
            where = "give output_claim= to keep it"
            if claim is not None:
                mount = {item.name: item for item in pod.containers[0].volume_mounts}["out"]
                where = f"it is in the claim {claim.claim_name}: {mount.sub_path}{path[3:]}"
            raise QringError(
                f"{what}: it has {found.missing[path]} bytes, and the log of a pod carries 3 MB of "
                f"files; {where}",
                Code.RESOURCE_EXHAUSTED,
            )
        if path in ("out/outcome.pickle", "out/model.tar.gz") and self.state() == "succeeded":
            reason = (
                "its pod is gone, with the log" if not self._pods() else "the log is incomplete"
            )
            raise QringError(
                f"{what}: {reason}; with output_claim= resume() reads it again", Code.DATA_LOSS
            )
        return None

    def names(self, path: str) -> list[str]:
        """Return the names of the files in a folder below the job's folder."""
        found = self._sent() if path.startswith("code/") else self._files().content
        return sorted(name[len(path) + 1 :] for name in found if name.startswith(f"{path}/"))

    def logs(self, lines: int | None = None) -> str:
        """Return standard output and error of the function, or why its pod does not run."""
        output = self._files().output
        if not output:
            reasons = [text for pod in self._pods() if (text := waits_for(pod))]
            return f"pending: {reasons[-1]}" if reasons else ""
        return "\n".join(output if lines is None else output[max(0, len(output) - lines) :])
