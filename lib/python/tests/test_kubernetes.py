"""qring.submit and its handle, against the Helm chart and a fake API server.

The server is asked by the real Kubernetes client, so that methods, paths and bodies are real too.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import qring
from qring import _cluster, _hybrid_cluster, _manifests

ROOT = Path(__file__).parents[3]
JOBS = ROOT / "deploy" / "jobs"
QRING = os.environ.get("QRING") or str(ROOT / "build" / "bin" / "qring")
TUTORIAL = json.dumps(json.loads((JOBS / "qcnn.json").read_text()), indent=2)

DIGEST = "ebd3b7f3cabbf682e7043ce04ab66e13"
DONE = f"done: 90 steps, loss 0.340863, val_loss 0.218534, state_digest {DIGEST}"
METRICS = """# HELP qring_step the last committed step
# TYPE qring_step gauge
qring_step 45
qring_steps_planned 90
qring_loss 0.5
qring_value{name="accuracy"} 0.75
qring_val_loss NaN
"""


@pytest.fixture(autouse=True)
def _program(monkeypatch, tmp_path):
    monkeypatch.setenv("QRING", QRING)
    monkeypatch.chdir(tmp_path)


# ---- objects, compared with the chart's ----


@pytest.fixture(scope="module")
def helm():
    program = os.environ.get("HELM") or shutil.which("helm")
    if program is None:
        found = list((ROOT / "build" / "tools").glob("helm3-*/helm"))
        program = str(found[0]) if found else None
    if program is None:
        pytest.skip("helm is missing: tests/chart/tools helm3, or set HELM")
    return program


def rendered(helm, name, *flags):
    command = [helm, "template", name, str(ROOT / "charts" / "qring"), "--namespace", "ml"]
    command += map(str, flags)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def without_hooks(objects):
    return {
        (body["kind"], body["metadata"]["name"]): body
        for body in objects
        if "helm.sh/hook" not in body["metadata"].get("annotations", {})
    }


WHERE = {"key": "zone", "operator": "In", "values": ["a"]}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [WHERE]}]
        }
    }
}
TAINT = {"key": "gpu", "operator": "Exists"}


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ({}, {}),
        ({"replicas": 4}, {"replicas": 4}),
        ({"tls": "none", "replicas": 1}, {"tls": {"mode": "none"}, "replicas": 1}),
        (
            {"parameter_servers": 2, "spot": True, "tolerations": [TAINT]},
            {"parameterServers": 2, "spot": True, "tolerations": [TAINT]},
        ),
        (
            {"weights": "gs://b/w.h5", "logdir": "gs://b/logs", "memory": "2Gi", "cpu": "500m"},
            {"weights": "gs://b/w.h5", "logdir": "gs://b/logs", "memory": "2Gi", "cpu": "500m"},
        ),
        ({"weights": "s3://b/w.h5"}, {"weights": "s3://b/w.h5"}),
        (
            {"env": {"QRING_HTTPS_TOKENS": "/t", "A": "https://a"}, "arguments": ["--isa=avx2"]},
            {
                "extraEnv": [
                    {"name": "QRING_HTTPS_TOKENS", "value": "/t"},
                    {"name": "A", "value": "https://a"},
                ],
                "extraArgs": ["--isa=avx2"],
            },
        ),
        (
            {
                "service_account": "me",
                "network_policy": False,
                "pod_disruption_budget": False,
                "spread": False,
                "output_claim": "disk",
                "image": "host/qring@sha256:" + "0" * 64,
            },
            {
                "serviceAccount": {"name": "me"},
                "networkPolicy": {"enabled": False},
                "podDisruptionBudget": {"enabled": False},
                "spread": False,
                "outputClaim": "disk",
                "image": {"repository": "host/qring", "digest": "sha256:" + "0" * 64},
            },
        ),
        (
            {
                "image": "host/qring:7",
                "image_pull_policy": "Always",
                "image_pull_secrets": ["pull"],
                "node_selector": {"a": "b"},
                "affinity": AFFINITY,
                "priority_class": "high",
                "annotations": {"c": "d"},
                "labels": {"e": "f"},
                "pod_annotations": {"g": "h"},
                "pod_labels": {"i": "j"},
                "active_deadline_seconds": 60,
                "ttl_seconds_after_finished": 70,
                "termination_grace_period_seconds": 15,
                "retries": 2,
                "volumes": [{"name": "v", "emptyDir": {}}],
                "volume_mounts": [{"name": "v", "mountPath": "/v"}],
            },
            {
                "image": {"repository": "host/qring", "tag": "7", "pullPolicy": "Always"},
                "imagePullSecrets": [{"name": "pull"}],
                "nodeSelector": {"a": "b"},
                "affinity": AFFINITY,
                "priorityClassName": "high",
                "annotations": {"c": "d"},
                "labels": {"e": "f"},
                "podAnnotations": {"g": "h"},
                "podLabels": {"i": "j"},
                "activeDeadlineSeconds": 60,
                "ttlSecondsAfterFinished": 70,
                "terminationGracePeriodSeconds": 15,
                "retries": 2,
                "extraVolumes": [{"name": "v", "emptyDir": {}}],
                "extraVolumeMounts": [{"name": "v", "mountPath": "/v"}],
            },
        ),
    ],
)
@pytest.mark.parametrize("version", ["1.28", "1.33"])
def test_objects_are_those_of_the_chart(helm, options, values, version, tmp_path):
    yaml = pytest.importorskip("yaml")
    path = tmp_path / "values.yaml"
    path.write_text(json.dumps({**values, "job": TUTORIAL}))
    text = rendered(helm, "qcnn", "--kube-version", version, "-f", path)
    expected = without_hooks(body for body in yaml.safe_load_all(text) if body)
    chosen = _manifests.Options(**options)
    certificate = None
    if chosen.tls == "generate":
        certificate = dict.fromkeys(("tls.crt", "tls.key", "ca.crt"), b"")
    per_index = version != "1.28"
    found = without_hooks(_manifests.objects("qcnn", chosen, TUTORIAL, certificate, per_index))
    assert sorted(found) == sorted(expected)
    for key, body in expected.items():
        if key[0] == "Secret":
            # Every certificate is another one.
            assert sorted(body.pop("data")) == sorted(found[key].pop("data"))
        assert found[key] == body, key


def test_names():
    name = _manifests.object_name
    assert name("My_Job.2") == "my-job-2"
    assert len(name("a" * 60)) == 46
    assert name("a" * 60) != name("a" * 61)
    for text in ("", "7up", "___"):
        with pytest.raises(ValueError, match="cannot name a Service"):
            name(text)


def test_long_names_are_those_of_the_chart(helm):
    long = "a-name-of-fifty-characters-that-the-chart-shortens"
    text = rendered(helm, long, "--show-only", "templates/disruption.yaml")
    assert f"name: {_manifests.object_name(long)}\n" in text


# ---- the fake API server of conftest.py ----


SMALL = qring.Job(
    name="small",
    data={"source": "none"},
    model=[
        {
            "layer": "quantum",
            "circuit": {"qubits": 2, "ansatz": "hardware-efficient"},
            "readouts": ["Z0*Z1"],
        }
    ],
    train={"epochs": 5, "loss": "expectation"},
)


def submit(client, job=SMALL, **options):
    options = {"namespace": "ml", "tls": "none", **options}
    return qring.submit(job, client=client, **options)


def json_line(message):
    return json.dumps({"severity": "INFO", "time": "2026-01-01T00:00:00Z", "message": message})


# ---- submit ----


def test_submit_creates_the_objects_and_the_job_last(fake, client):
    handle = submit(client, replicas=4, image="host/qring:1", cpu="2")
    assert repr(handle) == "Handle('small', namespace='ml')"
    assert fake.names() == [
        "configmaps/small",
        "jobs/small",
        "networkpolicies/small",
        "poddisruptionbudgets/small",
        "serviceaccounts/small",
        "services/small",
    ]
    posts = [path for method, path, _ in fake.calls if method == "POST"]
    assert posts[-1] == "/apis/batch/v1/namespaces/ml/jobs"
    container = fake.of("jobs")["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "host/qring:1"
    assert container["resources"]["limits"]["cpu"] == "2"
    assert fake.of("jobs")["spec"]["backoffLimitPerIndex"] == 6
    config = fake.of("configmaps")["data"]
    assert config["replicas"] == "4"
    assert json.loads(config["job.json"]) == SMALL.to_json() == handle.job.to_json()
    expected = _manifests.Options(replicas=4, image="host/qring:1", cpu="2", tls="none")
    bodies = _manifests.objects("small", expected, json.dumps(SMALL.to_json(), indent=2))
    assert [body for method, _, body in fake.calls if method == "POST"] == bodies


@pytest.mark.skipif(shutil.which(QRING) is None, reason="the program qring is not built")
def test_certificates_are_made(fake, client):
    submit(client, tls="generate")
    files = fake.of("secrets", "small-tls")["data"]
    assert sorted(files) == ["ca.crt", "tls.crt", "tls.key"]
    assert base64.b64decode(files["tls.crt"]).startswith(b"-----BEGIN CERTIFICATE-----")


def test_samples_travel_in_a_secret(fake, client, tmp_path):
    x, y = np.ones((4, 2)), np.ones(4)
    handle = submit(client, data=(x, y))
    (name,) = fake.of("secrets", "small-data")["data"]
    url = handle.job.to_json()["data"]["url"]
    assert url == f"/data/{name}"
    pod = fake.of("jobs")["spec"]["template"]["spec"]
    assert {"name": "data", "mountPath": "/data", "readOnly": True} in pod["containers"][0][
        "volumeMounts"
    ]
    assert pod["volumes"][-1]["secret"]["secretName"] == "small-data"
    (tmp_path / "a").mkdir()
    for i, folder in enumerate(("a", ".")):
        (tmp_path / folder / "d.csv").write_text(str(i))
    job = qring.Job(SMALL, data={"source": "csv", "url": "a/d.csv", "validation_url": "d.csv"})
    handle = submit(client, job, name="Two_Files")
    assert handle.name == "two-files"
    assert sorted(fake.of("secrets", "two-files-data")["data"]) == ["1-d.csv", "d.csv"]
    assert handle.job.to_json()["data"]["validation_url"] == "/data/1-d.csv"
    (tmp_path / "2-d.csv").write_text("2")
    data = {"source": "csv", "url": ["2-d.csv", "a/d.csv"], "validation_url": "d.csv"}
    submit(client, qring.Job(SMALL, data=data), name="three")
    found = fake.of("secrets", "three-data")["data"]
    assert sorted(base64.b64decode(text) for text in found.values()) == [b"0", b"1", b"2"]
    for url in ("none.csv", str(tmp_path)):
        with pytest.raises(ValueError, match="cannot send"):
            submit(client, qring.Job(job).set("data.url", url), name="bad")
    with pytest.raises(ValueError, match="upload"):
        submit(client, data=(np.ones((100_000, 2)), np.ones(100_000)), name="bad")
    assert fake.of("jobs", "bad") is None
    submit(client, qring.Job(job, data={"source": "csv", "url": "gs://b/d.csv"}), name="bucket")
    assert fake.of("secrets", "bucket-data") is None


def test_a_rejected_object_leaves_nothing(fake, client):
    before = fake.names()
    fake.refused.append(("POST .*/jobs", 403))
    with pytest.raises(qring.QringError, match="cannot create Job small in namespace ml") as error:
        submit(client)
    assert error.value.code == qring.Code.PERMISSION_DENIED
    assert fake.names() == before


@pytest.mark.parametrize("kind", ["serviceaccounts", "configmaps", "jobs"])
def test_an_object_whose_reply_was_lost_is_deleted(fake, client, kind):
    fake.lost = f"/{kind}/"
    with pytest.raises(qring.QringError) as error:
        submit(client)
    assert error.value.code == qring.Code.UNAVAILABLE
    assert fake.names() == []
    fake.lost = None
    submit(client)
    before = fake.names()
    # The objects of a run of this name stay.
    fake.refused.append(("POST", 500))
    with pytest.raises(qring.QringError):
        submit(client)
    assert fake.names() == before


def test_the_advice_names_an_object_of_another_owner(fake, client):
    own = {"kind": "ConfigMap", "metadata": {"name": "small", "labels": {}}, "data": {}}
    fake.objects["/api/v1/namespaces/ml/configmaps/small"] = own
    with pytest.raises(qring.QringError, match="choose another name") as error:
        submit(client)
    assert error.value.code == qring.Code.ALREADY_EXISTS
    assert "attach" not in str(error.value)
    assert "ConfigMap small is not of a run" in str(error.value)
    assert fake.names() == ["configmaps/small"]


def test_a_second_run_of_the_name_leaves_the_first(fake, client):
    submit(client)
    before = fake.names()
    with pytest.raises(qring.QringError, match=r"already exists.*attach\('small', 'ml'\)"):
        submit(client)
    assert fake.names() == before


def test_wrong_options(client):
    for options in ({"replicas": 0}, {"replicas": 65}, {"replicas": 63, "parameter_servers": 2}):
        with pytest.raises(ValueError, match="cannot"):
            submit(client, **options)
    with pytest.raises(TypeError, match="memry"):
        submit(client, memry="1Gi")


def test_no_cluster(monkeypatch, tmp_path, client):
    with pytest.raises(qring.QringError, match=r"cannot read Job none .*not found") as error:
        qring.attach("none", "ml", client=client)
    assert error.value.code == qring.Code.NOT_FOUND
    config = pytest.importorskip("kubernetes.config.kube_config")
    monkeypatch.setattr(config, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(qring.QringError, match="set KUBECONFIG"):
        qring.attach("none")


def test_a_server_that_does_not_answer(client):
    client.configuration.host = "http://127.0.0.1:9"
    with pytest.raises(qring.QringError, match="cannot read Job") as error:
        qring.attach("small", "ml", client=client)
    assert error.value.code == qring.Code.UNAVAILABLE


def kubeconfig(fake):
    return {
        "clusters": [{"name": "c", "cluster": {"server": fake.url}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [
            {"name": name, "context": {"cluster": "c", "user": "u", "namespace": name}}
            for name in ("ml", "other")
        ],
        "current-context": "ml",
    }


def test_the_namespace_of_the_kubeconfig(monkeypatch, tmp_path, fake):
    config = pytest.importorskip("kubernetes.config.kube_config")
    path = tmp_path / "config"
    path.write_text(json.dumps(kubeconfig(fake)))
    monkeypatch.setattr(config, "KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    assert qring.submit(SMALL, tls="none").namespace == "ml"
    assert qring.attach("small").namespace == "ml"
    assert qring.submit(SMALL, tls="none", context="other").namespace == "other"


def test_a_server_that_accepts_and_does_not_answer(monkeypatch):
    pytest.importorskip("kubernetes", minversion="24")  # as the extra says
    module = pytest.importorskip("kubernetes.client")
    monkeypatch.setattr(_cluster, "REQUEST_SECONDS", (0.1, 0.1))
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()  # accepts connections, and never replies
        configuration = module.Configuration(host=f"http://127.0.0.1:{server.getsockname()[1]}")
        configuration.retries = False
        with pytest.raises(qring.QringError, match="cannot read Job small") as caught:
            _cluster.Cluster(module.ApiClient(configuration)).read("ml", "Job", "small")
    assert caught.value.code == qring.Code.UNAVAILABLE


@pytest.mark.parametrize(
    "body",
    [
        "<html>",
        "",
        "null",
        "[]",
        "{}",
        "[" * 100_000,
        '{"kind": "Status", "status": "Failure", "message": "boom"}',
        '{"metadata": {"uid": "u"}, "status": {"conditions": "x"}}',
        '{"metadata": {"uid": "u"}, "status": {"conditions": [{"status": "True"}]}}',
        '{"metadata": {"uid": "u", "creationTimestamp": "yesterday"}}',
        '{"metadata": {"uid": "u"}, "status": {}}',
        '{"items": null}',
        '{"items": [{}]}',
        '{"items": [{"metadata": {}, "status": []}]}',
        '{"major": "1", "minor": "x"}',
    ],
    ids=lambda body: body[:30],
)
def test_malformed_replies(fake, client, body):
    handle = submit(client)
    fake.texts["/apis/batch/v1/namespaces/ml/jobs/small"] = body
    fake.texts["/api/v1/namespaces/ml/pods"] = body
    fake.texts["/version/"] = body
    for call in (
        handle.state,
        handle.pods,
        handle.logs,
        lambda: qring.attach("small", "ml", client=client),
        lambda: submit(client, name="second"),
    ):
        with pytest.raises(qring.QringError, match="the reply of the API server is mal") as error:
            call()
        assert error.value.code == qring.Code.UNAVAILABLE


@pytest.mark.parametrize("key", ["conditions", "containers", "args", "volumes"])
def test_null_in_lists_of_replies(fake, client, key):
    handle = submit(client)
    fake.pod(0, phase="Pending")
    fake.condition("Failed")
    body = fake.of("jobs")
    spec = body["spec"]["template"]["spec"]
    pod = fake.pods[0]["status"]
    if key == "conditions":
        body["status"][key] = pod[key] = [None]
    else:
        (spec["containers"][0] if key == "args" else spec)[key] = [None]
        pod["containerStatuses"] = [None]
    for call in (handle.state, lambda: qring.attach("small", "ml", client=client), handle.pods):
        with pytest.raises(qring.QringError, match="the reply of the API server is malformed"):
            call()


def test_a_malformed_job_of_the_config_map(fake, client):
    handle = submit(client)
    for data in ({}, None, {"job.json": "{"}, {"job.json": "[]"}, {"job.json": "[" * 100_000}):
        fake.of("configmaps")["data"] = data
        with pytest.raises(qring.QringError, match="cannot read the job of small") as error:
            _ = handle.job
        assert error.value.code == qring.Code.DATA_LOSS


# ---- the handle ----


def test_state(fake, client):
    handle = submit(client)
    for status, state in [
        ({}, "pending"),
        ({"active": 2}, "pending"),
        ({"active": 2, "ready": 1}, "running"),
        ({"active": 1, "ready": 0, "succeeded": 1}, "running"),
    ]:
        fake.status(**status)
        assert handle.state() == state
    for condition, state in [
        ("Suspended", "suspended"),
        ("Complete", "succeeded"),
        ("Failed", "failed"),
    ]:
        fake.condition(condition)
        assert handle.state() == state
    fake.status(conditions=[{"type": "Complete", "status": "False"}], ready=2)
    assert handle.state() == "running"


def test_a_job_that_is_complete_and_failed_has_failed(fake, client):
    handle = submit(client)
    both = [{"type": kind, "status": "True"} for kind in ("Complete", "Failed")]
    fake.status(conditions=both)
    assert handle.state() == "failed"
    assert _hybrid_cluster.Remote("small", handle._cluster, "ml").state() == "failed"


def test_scale_changes_the_three_numbers_in_order(fake, client):
    handle = submit(client)
    fake.calls.clear()
    handle.scale(8)
    changed = [
        (path.split("/")[-2], body) for method, path, body in fake.calls if method == "PATCH"
    ]
    assert changed == [
        ("configmaps", {"data": {"replicas": "8"}}),
        ("jobs", {"spec": {"completions": 8, "parallelism": 8}}),
        ("poddisruptionbudgets", {"spec": {"minAvailable": 7}}),
    ]
    for replicas in (0, 65, 2.5):
        with pytest.raises(ValueError, match="cannot"):
            handle.scale(replicas)


def test_scale_counts_parameter_servers(fake, client):
    handle = submit(client, parameter_servers=2, pod_disruption_budget=False)
    handle.scale(3)
    assert fake.of("jobs")["spec"]["completions"] == 3
    assert fake.of("jobs", "small-ps")["spec"]["completions"] == 2
    with pytest.raises(ValueError, match="at most 64"):
        handle.scale(63)


def test_scale_does_not_count_a_job_of_another_owner(fake, client):
    handle = submit(client, pod_disruption_budget=False)
    spec = {"completions": 62, "template": {"spec": {"containers": [{"name": "x"}]}}}
    other = {"kind": "Job", "metadata": {"name": "small-ps", "labels": {}}, "spec": spec}
    fake.objects["/apis/batch/v1/namespaces/ml/jobs/small-ps"] = other
    handle.scale(3)
    assert fake.of("jobs")["spec"]["completions"] == 3


def test_logs_and_metrics(fake, client):
    handle = submit(client)
    assert handle.metrics() == {}
    with pytest.raises(qring.QringError, match="worker 0 of small: it has no pod"):
        handle.logs()
    fake.pod(0, log="old")
    fake.pod(1, log="plain text\n" + json_line("step 1"), metrics=METRICS)
    fake.pod(0, log=json_line("new"))
    assert handle.logs() == "I new"
    assert handle.logs(1, lines=5) == "plain text\nI step 1"
    assert "tailLines=5" in fake.calls[-1][1]
    values = handle.metrics()
    assert values["qring_step"] == 45
    assert values['qring_value{name="accuracy"}'] == 0.75
    assert np.isnan(values["qring_val_loss"])
    assert handle.metrics(0) == {}
    fake.refused.append(("proxy", 403))
    with pytest.raises(qring.QringError, match="cannot read the metrics"):
        handle.metrics()


@pytest.mark.parametrize("value", ["NaN", "Inf", "+Inf", "-5", "1e300", "abc"])
def test_metrics_that_are_no_numbers(fake, client, monkeypatch, capsys, value):
    monkeypatch.setattr("qring.kubernetes._POLL_SECONDS", 0.01)
    handle = submit(client)
    fake.pod(0, metrics=f"qring_step {value}\nqring_steps_planned {value}\nqring_loss 0.5\n")
    fake.status(ready=1)
    assert handle.metrics()["qring_loss"] == 0.5
    from qring import _progress

    bar = _progress.Bar("small", None, None)
    handle._show(bar, "running")
    assert bar.text().startswith("step 0/? - loss: 0.5")


def test_pods_say_why_they_wait(fake, client):
    handle = submit(client)
    fake.pod(0, phase="Pending")
    waiting = {"reason": "ErrImagePull", "message": "no such image"}
    fake.pods[0]["status"]["containerStatuses"][0]["state"] = {"waiting": waiting}
    fake.pod(1, phase="Pending")
    fake.pods[1]["status"] = {
        "phase": "Pending",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "0/1 nodes: no cpu",
            }
        ],
    }
    fake.pod(1, phase="Failed", code=138, message="retry")
    fake.pod(0, metrics=METRICS)
    assert [tuple(pod.values())[1:] for pod in handle.pods()] == [
        (0, "Pending", None, "ErrImagePull: no such image"),
        (1, "Pending", None, "Unschedulable: 0/1 nodes: no cpu"),
        (1, "Failed", 138, "retry"),
        (0, "Running", None, None),
    ]


def test_wait_shows_position_and_reasons(fake, client, monkeypatch):
    from qring import _progress

    shown = []

    class Shown(_progress.Bar):
        def show(self, end):
            shown.append(self.text())

    monkeypatch.setattr("qring.kubernetes._POLL_SECONDS", 0.01)
    monkeypatch.setattr("qring._progress._INTERVAL_SECONDS", 0)
    monkeypatch.setattr("qring._progress.bar", lambda *arguments: Shown("small", None, None))
    handle = submit(client)
    fake.pod(0, phase="Pending")
    waiting = {"reason": "ErrImagePull"}
    fake.pods[0]["status"]["containerStatuses"][0]["state"] = {"waiting": waiting}
    fake.refused.append(("GET .*/jobs/small", 503))
    fake.calls.clear()
    stopped = threading.Event()

    def is_shown(start):
        return any(text.startswith(start) for text in shown)

    def wait_for(reached):
        while not reached() and not stopped.wait(0.005):
            pass

    def later():
        # Before the second request the first one was refused.
        wait_for(lambda: sum(path.endswith("/jobs/small") for _, path, _ in fake.calls) > 1)
        fake.refused.clear()
        wait_for(lambda: is_shown("step 0/? - ErrImagePull"))
        fake.pods.clear()
        fake.pod(0, metrics=METRICS)
        fake.status(ready=1)
        wait_for(lambda: is_shown("step 45/90 - loss: 0.5"))
        fake.condition("Complete")

    thread = threading.Thread(target=later)
    thread.start()
    try:
        assert handle.wait(60) == "succeeded"
    finally:
        stopped.set()
        thread.join()


def test_result_has_the_digest_of_the_log(fake, client, tmp_path):
    handle = submit(client, data=(np.ones((4, 2)), np.ones(4)))
    earlier = tmp_path / "out" / "ml" / "small"
    earlier.mkdir(parents=True)
    for name in ("weights.h5", "weights.safetensors", "steps.jsonl", "mine.txt"):
        (earlier / name).write_text("of an earlier run")
    fake.pod(0, log="\n".join([json_line("a"), json_line("b")]), code=0)
    fake.pod(1, log="\n".join([json_line("x"), json_line(DONE), json_line("wrote")]), code=0)
    fake.condition("Complete")
    result = handle.result()
    assert result.digest == DIGEST
    assert result.metrics == {"loss": 0.340863, "val_loss": 0.218534}
    assert result.out == earlier
    assert not [
        path for path in earlier.iterdir() if path.suffix in (".h5", ".safetensors", ".jsonl")
    ]
    assert (earlier / "mine.txt").exists()
    # The samples are here again, so that the job can be evaluated and trained.
    assert np.load(result.job.to_json()["data"]["url"])["x"].shape == (4, 2)
    assert DIGEST in result._repr_html_()
    with pytest.raises(qring.QringError, match=r"read the weights: .* give submit\(\) weights="):
        _ = result.weights
    again = qring.attach("small", "ml", client=client).result(out=tmp_path / "other")
    assert again.digest == DIGEST
    assert again.out == tmp_path / "other"


@pytest.mark.parametrize(
    "line",
    [
        f"done: 90 steps, loss -1.5e-3, state_digest {DIGEST}",
        f"worker: done: 90 steps, loss -1.5e-3, state_digest {DIGEST}",
        "already trained: 90 steps, 3 epochs (/out/checkpoints), "
        f"state_digest {DIGEST}; --fresh starts over",
    ],
)
def test_other_last_lines(fake, client, line):
    handle = submit(client)
    fake.pod(0, log=json_line(line), code=0)
    fake.condition("Complete")
    result = handle.result()
    assert result.digest == DIGEST
    assert result.metrics == ({"loss": -0.0015} if "loss" in line else {})


def test_a_secret_of_another_owner_is_not_copied(fake, client, tmp_path):
    handle = submit(client)
    fake.pod(0, log=DONE, code=0)
    fake.condition("Complete")
    data = {"password": "eA==", "..": "eA==", "../../up": "eA=="}
    secret = {"kind": "Secret", "metadata": {"name": "small-data", "labels": {}}, "data": data}
    fake.objects["/api/v1/namespaces/ml/secrets/small-data"] = secret
    assert handle.result(out="a").digest == DIGEST
    assert not Path("a/data").exists()
    assert not (tmp_path.parent / "up").exists()


def test_only_the_files_of_the_job_are_copied_from_its_secret(fake, client):
    handle = submit(client, data=(np.ones((4, 2)), np.ones(4)))
    fake.pod(0, log=DONE, code=0)
    fake.condition("Complete")
    secret = fake.of("secrets", "small-data")
    (name,) = secret["data"]
    secret["data"].update({"other": "eA==", "..": "eA=="})
    result = handle.result()
    (found,) = (result.out / "data").iterdir()
    assert found.name == name
    assert found.stat().st_mode & 0o777 == 0o600
    secret["data"][name] = None
    with pytest.raises(qring.QringError, match=r"cannot read .*Secret small-data"):
        handle.result(out="b")
    secret["data"][name] = "?"
    with pytest.raises(qring.QringError, match=f"cannot read {name} of Secret small-data") as error:
        handle.result(out="b")
    assert error.value.code == qring.Code.DATA_LOSS
    url = fake.of("configmaps")["data"]
    url["job.json"] = url["job.json"].replace(f"/data/{name}", "/data/..")
    assert handle.result(out="c").job.to_json()["data"]["url"] == "/data/.."


def test_pods_of_an_earlier_job_do_not_count(fake, client):
    submit(client).delete()
    handle = submit(client)
    old = {"apiVersion": "batch/v1", "kind": "Job", "name": "small", "uid": "old"}
    fake.pod(0, log=DONE.replace(DIGEST, "0" * 32), phase="Succeeded", code=0)
    fake.pods[0]["metadata"]["ownerReferences"] = [old]
    fake.pod(0, log=DONE, phase="Succeeded", code=0)
    fake.condition("Complete")
    assert handle.result().digest == DIGEST
    assert [pod["name"] for pod in handle.pods()] == ["small-0-1"]
    fake.pods.clear()
    fake.pod(0, code=2, message="old failure")
    fake.pods[0]["metadata"]["ownerReferences"] = [old]
    fake.pod(0, code=4, message="new failure")
    fake.condition("Failed")
    with pytest.raises(qring.ProgramError, match="^new failure$"):
        handle.result()


def test_a_handle_does_not_follow_a_run_that_replaced_its_own(fake, client):
    first = submit(client)
    again = qring.attach("small", "ml", client=client)
    first.delete()
    first.delete()
    second = submit(client)
    before = fake.names()
    fake.condition("Complete")
    fake.pod(0, log=DONE, code=0)
    for handle in (first, again):
        for call in (handle.state, handle.result, handle.delete, lambda h=handle: h.scale(3)):
            with pytest.raises(qring.QringError, match=r"cannot follow run small: .*attach\(") as e:
                call()
            assert e.value.code == qring.Code.FAILED_PRECONDITION
    assert fake.names() == before
    assert second.result().digest == DIGEST
    second.delete()
    assert fake.names() == []


def test_delete_names_the_object_that_was_read(fake, client):
    submit(client).delete()
    bodies = [body for method, _, body in fake.calls if method == "DELETE"]
    assert all(body["preconditions"]["uid"].startswith("uid-") for body in bodies)
    handle = submit(client)
    # Replaced between the read and the deletion.
    job = fake.of("jobs")
    find = handle._cluster.find
    handle._cluster.find = lambda *names: [find(*names), job["metadata"].update(uid="new")][0]
    handle.delete()
    assert fake.names() == ["jobs/small"]


def test_a_long_line_of_a_log_takes_linear_time(fake, client):
    handle = submit(client)
    fake.condition("Complete")
    # With a quadratic search each takes minutes.
    lines = ["done: 1 steps" * 100_000, "done: 1 steps" + ", loss 1" * 100_000]
    lines.append("I done: 1 steps" + ", loss " * 100_000)
    fake.pod(0, log="\n".join([json_line(DONE), *lines]), code=0)
    start = time.monotonic()
    assert handle.result().digest == DIGEST
    assert time.monotonic() - start < 20


def test_control_characters_of_a_pod_are_escaped(fake, client):
    handle = submit(client)
    fake.pod(0, code=4, message=json_line("\x1b[31mred\x07\x9b é\t"))
    fake.pod(1, phase="Pending", reason="ErrImagePull", message="\x1b]0;title")
    reasons = [pod["reason"] for pod in handle.pods()]
    assert reasons == ["I \\x1b[31mred\\x07\\x9b é\t", r"ErrImagePull: \x1b]0;title"]
    fake.condition("Failed", "Policy", "\x1b[31m")
    with pytest.raises(qring.ProgramError, match=r"^\\x1b\[31mred\\x07\\x9b é"):
        handle.result()
    fake.pods.clear()
    with pytest.raises(qring.ProgramError, match=r"Policy: \\x1b\[31m"):
        handle.result()


def test_control_characters_of_the_server_are_escaped(fake, client):
    handle = submit(client)
    fake.refused.append(("GET .*/jobs", 403))
    fake.reason = "\x1b]0;title\x07" + "x" * 5000
    with pytest.raises(qring.QringError, match=r"Job small .*: \\x1b\]0;title\\x07x") as e:
        handle.state()
    assert len(str(e.value)) < 1100


def test_a_last_line_with_malformed_numbers_does_not_count(fake, client):
    handle = submit(client)
    wrong = [DONE.replace("0.340863", "abc"), DONE.replace("90", "9" * 5000)]
    fake.pod(0, log="\n".join([DONE.replace("90", "80"), *wrong]), code=0)
    fake.condition("Complete")
    assert handle.result().summary["steps"] == 80


def test_result_of_deleted_pods(fake, client):
    handle = submit(client)
    fake.condition("Complete")
    with pytest.raises(qring.QringError, match="no log of its 0 pods has the digest"):
        handle.result()


def test_a_failure_is_that_of_the_worker(fake, client):
    handle = submit(client)
    fake.pod(0, code=138, message="please retry")
    fake.pod(1, log=json_line("last"), code=4, message=json_line("sample 3: x1 is not a number"))
    fake.condition("Failed", "PodFailurePolicy", "Container qringd failed")
    with pytest.raises(qring.ProgramError, match=r"^sample 3: x1 is not a number$") as error:
        handle.result()
    assert error.value.exit_code == 4
    assert error.value.code == qring.Code.DATA_LOSS
    fake.pods.clear()
    fake.condition("Failed", "DeadlineExceeded", "too long")
    with pytest.raises(qring.ProgramError, match="DeadlineExceeded: too long"):
        handle.result()


def test_wait(fake, client, monkeypatch, capsys):
    monkeypatch.setattr("qring.kubernetes._POLL_SECONDS", 0.01)
    handle = submit(client)
    with pytest.raises(TimeoutError, match="pending after 0"):
        handle.wait(timeout=0)
    fake.pod(0, metrics=METRICS)
    fake.status(ready=1)
    timer = threading.Timer(0.7, fake.condition, ["Complete"])
    timer.start()
    assert handle.wait(progress=True) == "succeeded"
    timer.join()
    assert any("proxy/metrics" in path for _, path, _ in fake.calls)


def test_wait_ends_in_time_while_the_server_fails(fake, client):
    handle = submit(client)
    for status in (500, 503):
        fake.refused[:] = [("GET .*/jobs", status)]
        start = time.monotonic()
        with pytest.raises(TimeoutError, match=r"cannot wait for small: .*refused by the test"):
            handle.wait(timeout=1.5)
        assert time.monotonic() - start < 10


def test_wait_ends_in_time_while_the_server_does_not_answer(client):
    handle = qring.kubernetes.Handle("small", "ml", _cluster.Cluster(client))
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()  # accepts connections, and never replies
        client.configuration.host = f"http://127.0.0.1:{server.getsockname()[1]}"
        start = time.monotonic()
        with pytest.raises(TimeoutError, match="cannot wait for small"):
            handle.wait(timeout=1.5)
    assert time.monotonic() - start < 30  # REQUEST_SECONDS are 60


def test_clients_of_this_package_do_not_retry(monkeypatch, tmp_path, fake):
    config = pytest.importorskip("kubernetes.config.kube_config")
    path = tmp_path / "config"
    path.write_text(json.dumps(kubeconfig(fake)))
    monkeypatch.setattr(config, "KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    # A retry would follow the time of wait(), and a redirect would take the token elsewhere.
    assert _cluster.Cluster()._client.configuration.retries is False


def test_a_log_has_a_limit(fake, client, monkeypatch):
    monkeypatch.setattr(_cluster, "_LOG_BYTES", 1000)
    handle = submit(client)
    fake.pod(0, log="x" * 5000)
    assert handle.logs() == "x" * 1000
    assert "limitBytes=1000" in fake.calls[-1][1]


def test_delete_removes_all_but_the_users_own(fake, client):
    before = fake.names()
    own = {"kind": "Secret", "metadata": {"name": "small-tls", "labels": {}}}
    fake.objects["/api/v1/namespaces/ml/secrets/small-tls"] = own
    handle = submit(
        client, tls="small-tls", parameter_servers=1, data=(np.ones((4, 2)), np.ones(4))
    )
    assert len(fake.names()) == len(before) + 9
    handle.delete()
    assert fake.names() == [*before, "secrets/small-tls"]
    paths = [path for method, path, _ in fake.calls if method == "DELETE"]
    assert "propagationPolicy=Background" in paths[0]
    handle.delete()


def test_delete_goes_on_after_a_refused_object(fake, client):
    handle = submit(client)
    fake.refused.append(("(GET|DELETE) .*/poddisruptionbudgets", 403))
    with pytest.raises(qring.QringError, match="PodDisruptionBudget small") as error:
        handle.delete()
    assert error.value.code == qring.Code.PERMISSION_DENIED
    assert fake.names() == ["poddisruptionbudgets/small"]


def test_attach_takes_runs_only(fake, client):
    submit(client)
    assert qring.attach("small", "ml", client=client).state() == "pending"
    fake.of("jobs")["metadata"]["labels"] = {}
    with pytest.raises(qring.QringError, match="it is not a run of qring"):
        qring.attach("small", "ml", client=client)


@pytest.mark.skipif(shutil.which(QRING) is None, reason="the program qring is not built")
def test_weights_come_from_the_bucket(fake, client, tmp_path, monkeypatch):
    local = qring.run(SMALL, out="local")
    calls = []
    start = qring.kubernetes._program.start

    def from_a_folder(arguments, *more):
        calls.append(arguments)
        return start([a.replace("gs://b", str(tmp_path / "local")) for a in arguments], *more)

    monkeypatch.setattr("qring.kubernetes._program.start", from_a_folder)
    done = json_line(f"done: 5 steps, loss 0, state_digest {local.digest}")
    for name, weights in (("a", "gs://b/weights.safetensors"), ("b", "gs://b/weights.h5")):
        handle = submit(client, name=name, weights=weights)
        fake.pods.clear()
        fake.pod(0, log=done, code=0)
        ends = {"type": "Complete", "status": "True"}
        fake.of("jobs", name)["status"] = {"conditions": [ends]}
        if name == "b":
            (tmp_path / "local" / "checkpoints").rename(tmp_path / "local" / "weights.checkpoints")
        result = handle.result()
        assert result.digest == local.digest
        for key, array in local.weights.items():
            np.testing.assert_array_equal(result.weights[key], array)


# ---- local ----


@pytest.mark.skipif(shutil.which(QRING) is None, reason="the program qring is not built")
def test_local_is_a_run_on_this_machine(tmp_path):
    handle = qring.submit(SMALL, replicas=2, local=True, out="here", image="host/qring:1")
    assert handle.state() == handle.wait() == "succeeded"
    assert handle.result().digest == qring.run(SMALL, out="there").digest
    assert handle.result().summary["workers"] == 2
    assert "done: 5 steps" in handle.logs()
    assert len(handle.logs(1, lines=1).splitlines()) == 1
    assert handle.metrics() == {}
    assert handle.job.name == "small"
    with pytest.raises(qring.QringError, match="cannot scale small"):
        handle.scale(3)
    with pytest.raises(qring.QringError, match="cannot read the log"):
        handle.logs(7)
    handle.delete()
    assert qring.load("here").digest == handle.result().digest


# ---- the page ----


@pytest.mark.skipif(shutil.which(QRING) is None, reason="the program qring is not built")
def test_the_cluster_snippet_of_the_page(fake, client, monkeypatch):
    page = (ROOT / "lib/python/jobs.md").read_text()
    block = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)[-1]
    fake.pods.clear()
    fake.pod(0, log=json_line(DONE), metrics=METRICS)
    attach, submit = qring.attach, qring.submit

    def attached(name):
        fake.of("jobs", name)["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
        return attach(name, client=client)

    monkeypatch.setattr(qring, "submit", lambda *a, **k: submit(*a, client=client, **k))
    monkeypatch.setattr(qring, "attach", attached)
    # There is no bucket here.
    monkeypatch.setattr(qring.kubernetes.Handle, "_fetch_weights", lambda *arguments: None)
    fake.texts = {path.replace("/ml/", "/default/"): text for path, text in fake.texts.items()}
    names = {"qring": qring, "job": qring.Job(SMALL, name="signs")}
    names.update(x=np.ones((4, 2)), y=np.ones(4))
    exec(block, names)
    assert names["result"].digest == DIGEST
    assert fake.of("jobs", "signs") is None
