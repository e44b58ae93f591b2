"""Kubernetes objects of a run, as charts/qring makes them. Start at :func:`objects`.

tests/test_kubernetes.py compares them with the output of ``helm template``. The comments in the
chart's templates say why each field is there.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
from typing import Any, Mapping, Sequence

from ._version import __version__

Object = dict[str, Any]

MAX_MEMBERS = 64
CONTROL_PORT, DATA_PORT, HTTP_PORT = 2222, 2224, 8080
DATA_FOLDER = "/data"
CONTAINER = "qringd"

_MAX_NAME = 46
_USER = 65532
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
_SPOT = "cloud.google.com/gke-spot"


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of :func:`qring.submit`; each is the chart's value of the same meaning.

    Parameters
    ----------
    image : str
        Image with registry and tag or digest.
    replicas : int
        Number of workers, one pod each.
    parameter_servers : int
        Number of state replicas that do not compute; with one, no step is lost when all workers
        are preempted.
    weights, logdir : str
        Where weights and TensorBoard's files go: ``gs://``, ``s3://`` or below ``/out``.
    output_claim : str
        PersistentVolumeClaim for ``/out``.
    tls : str
        ``"generate"``: certificates made by ``qring certs``; ``"none"``: no TLS; else the name of
        a Secret with tls.crt, tls.key and ca.crt.
    cpu, memory : str
        Requests and limits of each pod.
    retries : int
        Restarts per worker.
    spot : bool
        Run workers on GKE's Spot nodes.
    arguments : sequence of str
        More flags of ``qringd``.
    env : mapping
        More environment variables.
    """

    image: str = f"qring:{__version__}"
    replicas: int = 2
    parameter_servers: int = 0
    weights: str = ""
    logdir: str = ""
    output_claim: str = ""
    tls: str = "generate"
    cpu: str = "1"
    memory: str = "512Mi"
    retries: int = 6
    spot: bool = False
    spread: bool = True
    arguments: Sequence[str] = ()
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    termination_grace_period_seconds: int = 25
    active_deadline_seconds: int = 0
    ttl_seconds_after_finished: int = 0
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: Sequence[str] = ()
    node_selector: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tolerations: Sequence[Mapping[str, Any]] = ()
    affinity: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    priority_class: str = ""
    service_account: str = ""
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    pod_annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    pod_labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    volumes: Sequence[Mapping[str, Any]] = ()
    volume_mounts: Sequence[Mapping[str, Any]] = ()
    network_policy: bool = True
    pod_disruption_budget: bool = True

    def __post_init__(self) -> None:
        """Check the numbers that Kubernetes would accept."""
        check_members(self.replicas, self.parameter_servers)


def check_members(replicas: int, servers: int) -> None:
    """Raise ValueError unless the numbers of workers and parameter servers are possible."""
    for what, number, low in (("replicas", replicas, 1), ("parameter_servers", servers, 0)):
        if isinstance(number, bool) or not isinstance(number, int) or number < low:
            raise ValueError(f"cannot use {what}={number!r}: give an integer from {low} up")
    if replicas + servers > MAX_MEMBERS:
        raise ValueError(
            f"cannot start {replicas} replicas and {servers} parameter servers: a ring has at "
            f"most {MAX_MEMBERS} members"
        )


def object_name(text: str) -> str:
    """Return the name of all objects for the name of a job.

    Raises
    ------
    ValueError
        No name of a Service can be made of it.
    """
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if len(name) > _MAX_NAME:
        # As the chart does: NAME-test-63-abcde has at most 63 characters.
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]
        name = f"{name[:37].removesuffix('-')}-{digest}"
    if not _NAME.match(name):
        raise ValueError(
            f"cannot name a Service {text!r}: give name= with letters, digits and dashes, first a "
            "letter"
        )
    return name


def selector(name: str) -> dict[str, str]:
    """Return the labels that all objects of a run have."""
    return {"app.kubernetes.io/name": "qring", "app.kubernetes.io/instance": name}


def labels(name: str) -> dict[str, str]:
    """Return the labels of an object of a run."""
    return {**selector(name), "app.kubernetes.io/version": __version__}


def _rule(*ports: tuple[int, str], **peers: Any) -> Object:
    return {**peers, "ports": [{"port": port, "protocol": kind} for port, kind in ports]}


def min_available(replicas: int, servers: int) -> int:
    """Return the number of pods that an eviction must leave."""
    return max(0, replicas + servers - 1)


def _network_policy(name: str, options: Options, job_text: str) -> Object:
    ring: list[Object] = [{"podSelector": {"matchLabels": selector(name)}}]
    members = ((CONTROL_PORT, "TCP"), (DATA_PORT, "TCP"))
    egress = [_rule(*members, to=ring), _rule((53, "UDP"), (53, "TCP"))]
    # The chart looks for URLs in all its values too.
    values = job_text + json.dumps(
        {field.name: getattr(options, field.name) for field in dataclasses.fields(options)},
        default=list,
    )

    def hosts(*addresses: str) -> list[Object]:
        return [{"ipBlock": {"cidr": f"{address}/32"}} for address in addresses]

    https = _rule((443, "TCP"))
    if re.search("gs://|weights-gcs-bucket|weights_gcs_bucket|WEIGHTS_GCS_BUCKET", values):
        metadata = hosts("169.254.169.254", "169.254.169.252")
        egress += [https, _rule((80, "TCP"), (988, "TCP"), to=metadata)]
    if "s3://" in values:
        egress += [https, _rule((80, "TCP"), to=hosts("169.254.169.254", "169.254.170.23"))]
    if "https://" in values:
        egress += [https]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "labels": labels(name)},
        "spec": {
            "podSelector": {"matchLabels": selector(name)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": ring, **_rule(*members)}, _rule((HTTP_PORT, "TCP"))],
            "egress": egress,
        },
    }


def pod_security() -> Object:
    """Return the security context of a pod."""
    return {
        "runAsNonRoot": True,
        "runAsUser": _USER,
        "runAsGroup": _USER,
        "fsGroup": _USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Object:
    """Return the security context of a container."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def failure_policy(container: str) -> Object:
    """Return which ends of a pod make a Job fail: exit codes below 128; an eviction is none."""
    return {
        "rules": [
            {
                "action": "Ignore",
                "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
            },
            {
                "action": "FailJob",
                "onExitCodes": {
                    "containerName": container,
                    "operator": "In",
                    "values": list(range(1, 128)),
                },
            },
        ]
    }


def _pod_spec(name: str, component: str, options: Options, tls_secret: str) -> Object:
    spot = options.spot and component != "ps"
    spec: Object = {"subdomain": name}
    if options.spread:
        spread = {**selector(name), "app.kubernetes.io/component": component}
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": spread},
            }
        ]
    out: Object = {"emptyDir": {}}
    if options.output_claim:
        out = {"persistentVolumeClaim": {"claimName": options.output_claim}}
    volumes: list[Any] = [
        {
            "name": "job",
            "configMap": {"name": name, "items": [{"key": "job.json", "path": "job.json"}]},
        },
        {"name": "out", **out},
        {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
    ]
    if tls_secret:
        secret = {"secretName": tls_secret, "defaultMode": 0o440}
        volumes.append({"name": "tls", "secret": secret})
    spec.update(
        restartPolicy="Never",
        serviceAccountName=options.service_account or name,
        automountServiceAccountToken=False,
        enableServiceLinks=False,
        terminationGracePeriodSeconds=options.termination_grace_period_seconds,
        securityContext=pod_security(),
        volumes=volumes + [dict(volume) for volume in options.volumes],
    )
    node_selector = {**({_SPOT: "true"} if spot else {}), **options.node_selector}
    tolerations: list[Any] = [dict(item) for item in options.tolerations]
    if spot:
        taint = {"key": _SPOT, "operator": "Equal", "value": "true", "effect": "NoSchedule"}
        tolerations.insert(0, taint)
    optional = {
        "priorityClassName": options.priority_class,
        "imagePullSecrets": [{"name": secret} for secret in options.image_pull_secrets],
        "nodeSelector": node_selector,
        "tolerations": tolerations,
        "affinity": dict(options.affinity),
    }
    spec.update((key, value) for key, value in optional.items() if value)
    return spec


def _probe(path: str, period: int, timeout: int, failures: int | None = None) -> Object:
    probe: Object = {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": period,
        "timeoutSeconds": timeout,
    }
    if failures is not None:
        probe["failureThreshold"] = failures
    return probe


def _container(name: str, component: str, options: Options, tls_secret: str) -> Object:
    size = {"cpu": options.cpu, "memory": options.memory}
    mounts: list[Any] = [
        {"name": "job", "mountPath": "/etc/qring", "readOnly": True},
        {"name": "out", "mountPath": "/out"},
        {"name": "tmp", "mountPath": "/tmp"},
    ]
    if tls_secret:
        mounts.append({"name": "tls", "mountPath": "/etc/qring/tls", "readOnly": True})
    arguments = ["--tls-dir=/etc/qring/tls"] if tls_secret else ["--plaintext"]
    arguments.append("--out=/out")
    if options.weights:
        arguments.append(f"--weights={options.weights}")
    if options.logdir:
        arguments.append(f"--logdir={options.logdir}")
    env: list[Object] = []
    if component == "ps":
        env.append({"name": "QRING_ROLE", "value": "ps"})
    if options.parameter_servers:
        servers = [f"{name}-ps-{i}.{name}:{CONTROL_PORT}" for i in range(options.parameter_servers)]
        env.append({"name": "QRING_PARAMETER_SERVERS", "value": ",".join(servers)})
    env.append({"name": "QRING_PEER_TEMPLATE", "value": f"{name}-{{i}}.{name}:{CONTROL_PORT}"})
    number = {"configMapKeyRef": {"name": name, "key": "replicas"}}
    env.append({"name": "QRING_REPLICAS", "valueFrom": number})
    env += [{"name": key, "value": value} for key, value in options.env.items()]
    return {
        "name": CONTAINER,
        "image": options.image,
        "imagePullPolicy": options.image_pull_policy,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": container_security(),
        "resources": {"requests": dict(size), "limits": dict(size)},
        "volumeMounts": mounts + [dict(mount) for mount in options.volume_mounts],
        "command": [CONTAINER],
        "args": ["/etc/qring/job.json", *arguments, *options.arguments],
        "env": env,
        "ports": [
            {"name": "control", "containerPort": CONTROL_PORT},
            {"name": "data", "containerPort": DATA_PORT},
            {"name": "http", "containerPort": HTTP_PORT},
        ],
        "startupProbe": _probe("/readyz", 2, 2, 900),
        "readinessProbe": _probe("/readyz", 5, 2),
        "livenessProbe": _probe("/healthz", 10, 5, 6),
    }


def _ring(
    name: str,
    component: str,
    options: Options,
    job_text: str,
    tls_secret: str,
    per_index: bool,
) -> Object:
    """Return the Indexed Job of the workers or of the parameter servers."""
    server = component == "ps"
    count = options.parameter_servers if server else options.replicas
    metadata: Object = {
        "name": f"{name}-ps" if server else name,
        "labels": {**labels(name), **options.labels},
    }
    if options.annotations:
        metadata["annotations"] = dict(options.annotations)
    spec: Object = {"completionMode": "Indexed", "completions": count, "parallelism": count}
    if per_index:
        spec.update(backoffLimitPerIndex=options.retries, maxFailedIndexes=0)
    else:
        spec["backoffLimit"] = options.retries * count
    if options.active_deadline_seconds:
        spec["activeDeadlineSeconds"] = options.active_deadline_seconds
    if options.ttl_seconds_after_finished:
        spec["ttlSecondsAfterFinished"] = options.ttl_seconds_after_finished
    spec["podFailurePolicy"] = failure_policy(CONTAINER)
    pod = _pod_spec(name, component, options, tls_secret)
    pod["containers"] = [_container(name, component, options, tls_secret)]
    spec["template"] = {
        "metadata": {
            "labels": {
                **labels(name),
                "app.kubernetes.io/component": component,
                **options.pod_labels,
            },
            "annotations": {
                "checksum/job": hashlib.sha256(job_text.encode()).hexdigest(),
                **options.pod_annotations,
            },
        },
        "spec": pod,
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def secret(name: str, instance: str, kind: str, files: Mapping[str, bytes]) -> Object:
    """Return a Secret with files."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": labels(instance)},
        "type": kind,
        "data": {key: base64.b64encode(value).decode() for key, value in files.items()},
    }


def tls_secret_name(name: str, options: Options) -> str:
    """Return the name of the Secret with the certificate; empty without TLS."""
    if options.tls == "none":
        return ""
    return f"{name}-tls" if options.tls == "generate" else options.tls


def objects(
    name: str,
    options: Options,
    job_text: str,
    certificate: Mapping[str, bytes] | None = None,
    per_index: bool = True,
) -> list[Object]:
    """Return all objects of a run, the Jobs last.

    Parameters
    ----------
    name : str
        Name of the objects.
    options : Options
        What a user may choose.
    job_text : str
        The job file.
    certificate : mapping, optional
        Files tls.crt, tls.key and ca.crt, for ``tls="generate"``.
    per_index : bool
        Count retries by index: Kubernetes 1.29 and later.
    """
    metadata = {"name": name, "labels": labels(name)}
    found: list[Object] = []
    if not options.service_account:
        found.append(
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": metadata,
                "automountServiceAccountToken": False,
            }
        )
    tls = tls_secret_name(name, options)
    if certificate is not None:
        found.append(secret(tls, name, "kubernetes.io/tls", certificate))
    found.append(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {"replicas": str(options.replicas), "job.json": job_text.strip() + "\n"},
        }
    )
    if options.network_policy:
        found.append(_network_policy(name, options, job_text))
    if options.pod_disruption_budget:
        components = {
            "key": "app.kubernetes.io/component",
            "operator": "In",
            "values": ["train", "ps"],
        }
        found.append(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": metadata,
                "spec": {
                    "minAvailable": min_available(options.replicas, options.parameter_servers),
                    "unhealthyPodEvictionPolicy": "AlwaysAllow",
                    "selector": {
                        "matchLabels": selector(name),
                        "matchExpressions": [components],
                    },
                },
            }
        )
    ports = (("control", CONTROL_PORT), ("data", DATA_PORT), ("http", HTTP_PORT))
    found.append(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": selector(name),
                "ports": [
                    {"name": text, "port": port, "protocol": "TCP", "targetPort": text}
                    for text, port in ports
                ],
            },
        }
    )
    for component in ("ps", "train") if options.parameter_servers else ("train",):
        found.append(_ring(name, component, options, job_text, tls, per_index))
    return found
