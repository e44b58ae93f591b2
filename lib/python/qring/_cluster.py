"""The calls of the Kubernetes client that are used here. Start at :class:`Cluster`."""

from __future__ import annotations

import contextlib
import contextvars
import importlib
import json
import re
import time
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Sequence, cast

from . import _manifests
from ._library import Code, QringError
from ._manifests import Object

_CODES = {
    400: Code.INVALID_ARGUMENT,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.NOT_FOUND,
    409: Code.ALREADY_EXISTS,
    422: Code.INVALID_ARGUMENT,
}

# To connect, and between two pieces of a reply.
REQUEST_SECONDS = (10.0, 60.0)
# A request at the end of a wait has so much time.
_LEAST_SECONDS = 0.5
_AWAY_SECONDS = 60.0
# Characters of the API server's reason in an error.
_REASON_LENGTH = 1000
# Nodes keep 10 MB of a pod's log (containerLogMaxSize) by default.
_LOG_BYTES = 64 << 20

_end: contextvars.ContextVar[float | None] = contextvars.ContextVar("end", default=None)

# What the client and this package raise for a reply that is not such an object.
MALFORMED = (ValueError, TypeError, LookupError, AttributeError, RecursionError)

# Kinds by the API class of the client, and the word in its methods.
_KINDS = {
    "ServiceAccount": ("CoreV1Api", "service_account"),
    "Secret": ("CoreV1Api", "secret"),
    "ConfigMap": ("CoreV1Api", "config_map"),
    "NetworkPolicy": ("NetworkingV1Api", "network_policy"),
    "PodDisruptionBudget": ("PolicyV1Api", "pod_disruption_budget"),
    "Service": ("CoreV1Api", "service"),
    "Job": ("BatchV1Api", "job"),
}


@contextlib.contextmanager
def until(end: float | None) -> Iterator[None]:
    """Limit the requests inside to a time of :func:`time.monotonic`; None: no limit."""
    token = _end.set(end)
    try:
        yield
    finally:
        _end.reset(token)


def _timeout() -> tuple[float, float]:
    end = _end.get()
    if end is None:
        return REQUEST_SECONDS
    left = max(end - time.monotonic(), _LEAST_SECONDS)
    return min(REQUEST_SECONDS[0], left), min(REQUEST_SECONDS[1], left)


def patient_state(what: str, state: Callable[[], str], end: float | None, pause: float) -> str:
    """Return state(); an API server may be away for a minute.

    Raises
    ------
    QringError
        The server is away for longer.
    TimeoutError
        The server is away at the end.
    """
    away = time.monotonic() + _AWAY_SECONDS
    while True:
        try:
            with until(end):
                return state()
        except QringError as error:
            now = time.monotonic()
            if error.code != Code.UNAVAILABLE:
                raise
            if end is not None and now >= end:
                raise TimeoutError(f"{what}: {error}") from None
            if now >= away:
                raise
        time.sleep(pause)


def message(line: str) -> str:
    """Return a line of a worker's log as text."""
    try:
        entry = json.loads(line)
        return f"{entry['severity'][:1]} {entry['message']}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return line


def _has_null(value: Any) -> bool:
    """Return whether a list in a reply has null: clients before version 37 accept that."""
    if isinstance(value, dict):
        return any(map(_has_null, value.values()))
    return isinstance(value, list) and any(item is None or _has_null(item) for item in value)


def _whole(reply: Any) -> Any:
    """Return a reply without null in its lists."""
    if _has_null(reply.to_dict()):
        raise ValueError("a list has null")
    return reply


def _object(reply: Any) -> Any:
    """Return an object that has metadata."""
    reply.metadata.labels  # noqa: B018
    return _whole(reply)


def _job(reply: Any) -> Any:
    """Return a Job that has a pod."""
    reply.spec.template.spec.containers[0]  # noqa: B018
    return _object(reply)


def _text(reply: Any) -> str:
    """Return the beginning of a reply; a server may ignore a limit."""
    try:
        return str(reply.read(_LOG_BYTES).decode("utf-8", "replace"))
    finally:
        reply.close()


def printable(text: str) -> str:
    """Return a text of a pod in which control characters are escaped, but tabs and newlines."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda m: f"\\x{ord(m[0]):02x}", text)


def conditions(job: Any) -> Sequence[Any]:
    """Return the conditions of a Job."""
    return (job.status.conditions if job.status else None) or ()


def exit_of(pod: Any) -> tuple[int, str] | None:
    """Return exit code and message of a pod whose container has ended."""
    for status in (pod.status.container_statuses if pod.status else None) or ():
        ended = status.state.terminated if status.state else None
        if ended is not None:
            lines = (ended.message or ended.reason or "").strip().splitlines()
            text = printable(message(lines[-1])) if lines else "no message"
            return int(ended.exit_code), text
    return None


def waits_for(pod: Any) -> str | None:
    """Return why a pod does not run, such as an image that cannot be pulled."""
    if pod.status is None:
        return None
    for status in pod.status.container_statuses or ():
        waiting = status.state.waiting if status.state else None
        if waiting is not None:
            return printable(": ".join(filter(None, (waiting.reason, waiting.message))))
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return printable(": ".join(filter(None, (condition.reason, condition.message))))
    return None


class Cluster:
    """A cluster; its errors are those of this package.

    Parameters
    ----------
    client : kubernetes.client.ApiClient, optional
        A client to use.
    context : str, optional
        Context of the kubeconfig. Default: the current one, or the cluster of this pod.

    Attributes
    ----------
    namespace : str
        Default namespace.
    """

    def __init__(self, client: Any = None, context: str | None = None) -> None:
        try:
            self._module = importlib.import_module("kubernetes.client")
            self._config = importlib.import_module("kubernetes.config")
        except ImportError:
            raise ImportError(
                "cannot reach a cluster: the Kubernetes client is missing; "
                "pip install 'qring[kubernetes]'"
            ) from None
        self.namespace = "default"
        if client is None:
            client, self.namespace = self._connect(context)
        self._client = client

    def _configuration(self) -> Any:
        """Return a configuration without retries, which have timeouts of their own."""
        configuration = self._module.Configuration()
        configuration.retries = False
        return configuration

    def _connect(self, context: str | None) -> tuple[Any, str]:
        """Return a client and the default namespace: of a kubeconfig, else of this pod."""
        failure = self._config.ConfigException
        try:
            configuration = self._configuration()
            self._config.load_kube_config(context=context, client_configuration=configuration)
            client = self._module.ApiClient(configuration)
            contexts, active = self._config.list_kube_config_contexts()
            if context is not None:
                active = next(item for item in contexts if item["name"] == context)
            return client, active["context"].get("namespace") or "default"
        except failure as error:
            outside = error
        try:
            configuration = self._configuration()
            self._config.load_incluster_config(client_configuration=configuration)
            path = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
            return self._module.ApiClient(configuration), path.read_text().strip()
        except (failure, OSError):
            raise QringError(
                f"cannot reach a cluster: {outside}; set KUBECONFIG, or give context=",
                Code.UNAVAILABLE,
            ) from None

    def _call(
        self,
        what: str,
        api: str,
        method: str,
        *arguments: Any,
        use: Callable[[Any], Any] = lambda reply: reply,
        **keys: Any,
    ) -> Any:
        """Call a method of the client; return what `use` makes of the reply."""
        function = getattr(getattr(self._module, api)(self._client), method)

        def failure(reason: Any, code: int = Code.UNAVAILABLE) -> QringError:
            return QringError(f"cannot {what}: {printable(str(reason))[:_REASON_LENGTH]}", code)

        try:
            return use(function(*arguments, _request_timeout=_timeout(), **keys))
        except self._module.ApiException as error:
            reason = error.reason
            try:
                reason = json.loads(error.body)["message"]
            except MALFORMED:
                pass
            raise failure(reason, _CODES.get(error.status, Code.UNAVAILABLE)) from None
        except OSError as error:
            raise failure(error) from None
        except Exception as error:
            # urllib3's errors, without an import of its names.
            if type(error).__module__.partition(".")[0] == "urllib3":
                raise failure(error) from None
            if isinstance(error, MALFORMED):
                reason = " ".join(str(error).split())[:200]
                raise failure(
                    "the reply of the API server is malformed; check the address of the server, "
                    f"and proxies before it ({reason})"
                ) from None
            raise

    def create(self, namespace: str, body: Object, *, dry_run: bool = False) -> Any:
        """Create an object from its manifest; return its UID. A dry run only checks."""
        kind, name = body["kind"], body["metadata"]["name"]
        api, word = _KINDS[kind]
        what = f"create {kind} {name} in namespace {namespace}"
        method = f"create_namespaced_{word}"
        keys = {"dry_run": "All"} if dry_run else {}

        def uid(created: Any) -> Any:
            return created.metadata.uid

        return self._call(what, api, method, namespace, body, use=uid, **keys)

    def create_all(self, namespace: str, bodies: Sequence[Object]) -> Any:
        """Create objects, and return the UID of the last; after an error, delete those before it.

        Raises
        ------
        QringError
            As of the object; for a name that exists, with what to do.
        """
        created: list[tuple[Object, Any]] = []
        uid = None
        try:
            for body in bodies:
                uid = self.create(namespace, body)
                created.append((body, uid))
            return uid
        except BaseException as error:
            code = error.code if isinstance(error, QringError) else Code.UNAVAILABLE
            # The first error is the one to report.
            if code == Code.UNAVAILABLE:
                with contextlib.suppress(QringError):
                    self._delete_lost(namespace, bodies, len(created))
            for body, uid in reversed(created):
                with contextlib.suppress(QringError):
                    self.delete(namespace, body["kind"], body["metadata"]["name"], uid)
            if isinstance(error, QringError) and code == Code.ALREADY_EXISTS:
                advice = self._advice(namespace, bodies, len(created))
                raise QringError(f"{error}; {advice}", code) from None
            raise

    def _delete_lost(self, namespace: str, bodies: Sequence[Object], i: int) -> None:
        """Delete an object whose creation had no reply, unless it may be one of another run."""
        kind, name = bodies[i]["kind"], bodies[i]["metadata"]["name"]
        run = bodies[-1]["metadata"]["name"]
        # The Job is the last one: another run of this name has objects that would have conflicted.
        last = i == len(bodies) - 1
        if last or self.find(namespace, "Job", run, run) is None:
            found = self.find(namespace, kind, name, run)
            if found is not None:
                self.delete(namespace, kind, name, found.metadata.uid)

    def _advice(self, namespace: str, bodies: Sequence[Object], i: int) -> str:
        """Return what to do about an object that exists."""
        kind, name = bodies[i]["kind"], bodies[i]["metadata"]["name"]
        run = bodies[-1]["metadata"]["name"]
        with contextlib.suppress(QringError):
            if self.find(namespace, kind, name, run) is None:
                return f"{kind} {name} is not of a run of qring; choose another name"
            if self.find(namespace, "Job", run, run) is None:
                command = f"kubectl delete -n {namespace} {kind} {name}"
                return f"choose another name, or delete it, as it has no Job: {command}"
        return f"choose another name, or call qring.attach({run!r}, {namespace!r}).delete()"

    def read(self, namespace: str, kind: str, name: str) -> Any:
        """Return an object as the client has it."""
        api, word = _KINDS[kind]
        what = f"read {kind} {name} in namespace {namespace}"
        use = _job if kind == "Job" else _object
        return self._call(what, api, f"read_namespaced_{word}", name, namespace, use=use)

    def job(self, namespace: str, run: str, uid: str | None) -> Any:
        """Return the Job of a run, which has this UID; None: any.

        Raises
        ------
        QringError
            Another run of this name has replaced it.
        """
        return self._same(self.read(namespace, "Job", run), namespace, run, uid)

    def _same(self, job: Any, namespace: str, run: str, uid: str | None) -> Any:
        if uid not in (None, job.metadata.uid):
            raise QringError(
                f"cannot follow run {run}: it was replaced by another run of this name; call "
                f"qring.attach({run!r}, {namespace!r})",
                Code.FAILED_PRECONDITION,
            )
        return job

    def find(self, namespace: str, kind: str, name: str, run: str) -> Any:
        """Return an object of a run; None: there is none, or one of this name is not the run's."""
        try:
            found = self.read(namespace, kind, name)
        except QringError as error:
            if error.code != Code.NOT_FOUND:
                raise
            return None
        labels = found.metadata.labels or {}
        return found if _manifests.selector(run).items() <= labels.items() else None

    def patch(self, namespace: str, kind: str, name: str, body: Object) -> None:
        """Change the given fields of an object."""
        api, word = _KINDS[kind]
        what = f"change {kind} {name} in namespace {namespace}"
        self._call(what, api, f"patch_namespaced_{word}", name, namespace, body)

    def delete(self, namespace: str, kind: str, name: str, uid: str | None = None) -> None:
        """Delete an object, with this UID if one is given; one that is gone is not an error."""
        api, word = _KINDS[kind]
        what = f"delete {kind} {name} in namespace {namespace}"
        # The default of a Job orphans its pods.
        keys: Object = {"propagation_policy": "Background"}
        gone = [Code.NOT_FOUND]
        if uid is not None:
            keys["body"] = {"preconditions": {"uid": uid}}
            # The status for another UID.
            gone.append(Code.ALREADY_EXISTS)
        try:
            self._call(what, api, f"delete_namespaced_{word}", name, namespace, **keys)
        except QringError as error:
            if error.code not in gone:
                raise

    def delete_run(
        self, namespace: str, run: str, uid: str | None, objects: Iterable[tuple[str, str]]
    ) -> None:
        """Delete objects of a run, by kind and name; objects of others of these names stay.

        Raises
        ------
        QringError
            Another run has replaced the one with this UID; or the first error, after an attempt
            for each object.
        """
        job = self.find(namespace, "Job", run, run)
        if job is not None:
            self._same(job, namespace, run, uid)
        failure: QringError | None = None
        for kind, name in objects:
            try:
                found = self.find(namespace, kind, name, run)
                if found is not None:
                    own = uid if (kind, name) == ("Job", run) else None
                    self.delete(namespace, kind, name, own or found.metadata.uid)
            except QringError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def pods(self, namespace: str, name: str, uid: str | None) -> list[Any]:
        """Return the pods of the Job with this UID, oldest first.

        Pods of a deleted Job of the same name may still terminate.
        """
        keys = {"label_selector": f"batch.kubernetes.io/job-name={name}"}
        what = f"list the pods of {name} in namespace {namespace}"

        def own(reply: Any) -> list[Any]:
            return [
                pod
                for pod in _whole(reply).items
                if any(owner.uid == uid for owner in pod.metadata.owner_references or ())
            ]

        found = self._call(what, "CoreV1Api", "list_namespaced_pod", namespace, use=own, **keys)
        return sorted(found, key=lambda pod: str(pod.metadata.creation_timestamp))

    def log(
        self,
        namespace: str,
        pod: str,
        lines: int | None,
        container: str = _manifests.CONTAINER,
    ) -> str:
        """Return the log of a pod."""
        keys: Object = {"container": container, "_preload_content": False}
        keys["limit_bytes"] = _LOG_BYTES
        if lines is not None:
            keys["tail_lines"] = lines
        what = f"read the log of pod {pod} in namespace {namespace}"
        # Without _preload_content the client would change a log of one JSON line.
        method = "read_namespaced_pod_log"
        return str(self._call(what, "CoreV1Api", method, pod, namespace, use=_text, **keys))

    def metrics(self, namespace: str, pod: str) -> str:
        """Return the metrics of a pod, as Prometheus reads them."""
        reply = self._call(
            f"read the metrics of pod {pod} in namespace {namespace}",
            "CoreV1Api",
            "connect_get_namespaced_pod_proxy_with_path",
            f"{pod}:{_manifests.HTTP_PORT}",
            namespace,
            "metrics",
            _preload_content=False,
            use=_text,
        )
        return str(reply)

    def version(self) -> tuple[int, int]:
        """Return the version of Kubernetes."""

        def numbers(info: Any) -> tuple[int, int]:
            return int(info.major), int(re.sub(r"\D.*", "", info.minor))

        found = self._call("read the cluster's version", "VersionApi", "get_code", use=numbers)
        return cast("tuple[int, int]", found)
