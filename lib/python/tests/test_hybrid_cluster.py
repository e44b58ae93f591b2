"""qring.hybrid_job on a cluster: its objects, and its pod's program in a process on this machine.

The API server is that of conftest.py; a test runs the pod's program and gives the fake its output
as the pod's log.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import numpy as np
import pytest

import qring
from qring import _hybrid_cluster, _hybrid_pod

pytest.importorskip("cloudpickle")

PACKAGE = Path(qring.__file__).parents[1]
SECONDS = 60.0


@pytest.fixture(autouse=True)
def _folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


class Pod:
    """The program of a pod, with the Secrets that the fake API server has."""

    def __init__(self, fake, folder, **limits):
        self.parts, self.job = folder / "parts", folder / "job"
        self.parts.mkdir(parents=True)
        (self.job / "out").mkdir(parents=True, exist_ok=True)
        for source in fake.of("jobs")["spec"]["template"]["spec"]["volumes"][0]["projected"][
            "sources"
        ]:
            (item,) = source["secret"]["items"]
            data = fake.of("secrets", source["secret"]["name"])["data"][item["key"]]
            (self.parts / item["path"]).write_bytes(base64.b64decode(data))
        lines = [
            "import os, sys",
            "from qring import _hybrid_pod as pod",
            f"pod.PARTS, pod.JOB, pod._TICK_SECONDS = {str(self.parts)!r}, {str(self.job)!r}, 0.1",
            *(f"pod.{name} = {value}" for name, value in limits.items()),
            "status = pod.main()",
            "sys.stdout.flush()",
            "os._exit(status)",
        ]
        self.path = folder / "log"
        with self.path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", "\n".join(lines)],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(PACKAGE)},
            )

    def log(self):
        return self.path.read_text()

    def end(self):
        code = self.process.wait(SECONDS)
        return self.log(), code


def job(client, **keys):
    return qring.hybrid_job("small", client=client, namespace="ml", **keys)


def run(fake, folder, **limits):
    """Run the pod to its end, as the cluster does."""
    log, code = Pod(fake, folder, **limits).end()
    fake.pod(0, log, "Succeeded" if code == 0 else "Failed", code, "ended")
    fake.condition("Complete" if code == 0 else "Failed", "PodFailurePolicy", "exit code")
    return log


def train(n, fail=False):
    print("begins")
    print("\x1e{not a record of the pod}")
    for step in range(n):
        qring.log_metric("loss", 1 / (step + 1), step)
    qring.save_checkpoint(np.arange(n))
    (qring.results_dir() / "a.txt").write_text("a")
    if fail:
        return 1 // 0
    found = {path.name: path.read_text() for path in qring.input_dir("c").iterdir()}
    return found, qring.load_checkpoint("old"), np.full(n, 0.5)


# ---- objects ----


def test_objects(fake, client, tmp_path):
    handle = job(client, service_account="me", output_claim="disk", timeout=1.5, env={"A": "b"})(
        train
    )(3)
    assert handle.name == "small"
    assert fake.names() == ["jobs/small", "networkpolicies/small", "secrets/small-code-0"]
    body = fake.of("jobs")
    spec = body["spec"]["template"]["spec"]
    assert body["spec"]["activeDeadlineSeconds"] == 2
    assert spec["serviceAccountName"] == "me"
    assert spec["automountServiceAccountToken"]
    assert spec["restartPolicy"] == "Never"
    assert spec["securityContext"]["runAsNonRoot"]
    (container,) = spec["containers"]
    version = "{}.{}".format(*sys.version_info)
    assert container["image"] == f"qring-python:{qring.__version__}-py{version}"
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"name": "A", "value": "b"} in container["env"]
    folders = [mount.get("subPath") for mount in container["volumeMounts"]]
    assert {"name": "out", "persistentVolumeClaim": {"claimName": "disk"}} in spec["volumes"]
    policy = fake.of("networkpolicies")["spec"]
    assert policy["policyTypes"] == ["Ingress"]
    assert "ingress" not in policy
    assert policy["podSelector"]["matchLabels"].items() <= body["metadata"]["labels"].items()
    handle.delete()
    assert fake.names() == []
    job(client, output_claim="disk")(train)(3)
    mounts = fake.of("jobs")["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    assert mounts[2]["subPath"].startswith("small-")
    assert mounts[2]["subPath"] not in folders  # with the outcome of the first one
    qring.attach("small", "ml", client=client).delete()
    job(client)(train)(3)
    spec = fake.of("jobs")["spec"]["template"]["spec"]
    assert not spec["automountServiceAccountToken"]
    assert "serviceAccountName" not in spec
    with pytest.raises(qring.QringError, match=r"already exists.*attach\('small', 'ml'\)"):
        job(client)(train)(3)


def test_large_input_travels_in_several_secrets(fake, client, tmp_path):
    data = np.random.default_rng(1).bytes(2_500_000)
    Path("x.bin").write_bytes(data)

    @job(client, input_data="x.bin")
    def read():
        return len((qring.input_dir() / "x.bin").read_bytes())

    handle = read()
    secrets = [body for path, body in fake.objects.items() if "/secrets/" in path]
    assert len(secrets) == 3
    for body in secrets:
        assert sum(len(base64.b64decode(text)) for text in body["data"].values()) < 2**20
    run(fake, tmp_path / "pod")
    assert handle.result() == 2_500_000
    handle.delete()
    assert fake.names() == []
    Path("x.bin").write_bytes(4 * data)
    with pytest.raises(ValueError, match="8 Secrets hold 8000000; upload"):
        read()
    assert fake.names() == []


def foreign(kind, name):
    template = {"spec": {"containers": [{"name": "x"}]}}
    spec = {"podSelector": {}} if kind == "NetworkPolicy" else {"template": template}
    return {"kind": kind, "metadata": {"name": name, "labels": {"app": "other"}}, "spec": spec}


def test_delete_leaves_objects_of_others(fake, client):
    handle = job(client)(train)(1)
    fake.objects["/api/v1/namespaces/ml/secrets/small-code-5"] = foreign("Secret", "small-code-5")
    handle.delete()
    assert fake.names() == ["secrets/small-code-5"]
    handle = job(client)(train)(1)
    for path in [path for path in fake.objects if path.endswith("/small")]:
        kind = "Job" if "/jobs/" in path else "NetworkPolicy"
        fake.objects[path] = foreign(kind, "small")
    for call in (handle.delete, handle.resume, handle.cancel):
        with contextlib.suppress(qring.QringError):
            call()
    assert fake.names() == ["jobs/small", "networkpolicies/small", "secrets/small-code-5"]
    assert fake.of("jobs") == foreign("Job", "small")


def test_wait_is_patient_with_the_server(fake, client):
    handle = job(client)(train)(1)
    fake.refused.append(("GET .*/jobs", 503))
    with pytest.raises(TimeoutError, match=r"cannot wait for small: .*refused by the test"):
        handle.wait(0.5)
    fake.condition("Complete")
    timer = threading.Timer(0.5, fake.refused.clear)
    timer.start()
    assert handle.wait(SECONDS) == "succeeded"
    timer.join()


def test_resume_keeps_the_job_that_cannot_be_created_again(fake, client):
    handle = job(client)(train)(1)
    fake.condition("Failed")
    fake.refused.append(("POST .*/jobs", 403))
    with pytest.raises(qring.QringError, match="refused by the test"):
        handle.resume()
    assert handle.state() == "failed"
    fake.refused.clear()
    # Refused after the deletion: the job can still be started again.
    create = handle._backend._cluster.create

    def fail(*arguments, **keys):
        if not keys:
            raise qring.QringError("refused", qring.Code.UNAVAILABLE)
        return create(*arguments, **keys)

    handle._backend._cluster.create = fail
    with pytest.raises(qring.QringError, match="refused"):
        handle.resume()
    handle._backend._cluster.create = create
    handle.resume()
    assert handle.state() == "pending"


def test_a_job_that_replaced_this_one_is_not_followed(fake, client):
    first = job(client)(train)(1)
    fake.condition("Failed")
    first.resume()
    assert first.state() == "pending"
    first.delete()
    second = job(client)(train)(1)
    before = fake.names()
    for call in (first.state, first.cancel, first.resume, first.delete):
        with pytest.raises(qring.QringError, match="cannot follow run small") as caught:
            call()
        assert caught.value.code == qring.Code.FAILED_PRECONDITION
    assert fake.names() == before
    assert second.state() == "pending"


# ---- what comes back ----


def test_value_metrics_log_results_and_checkpoints(fake, client, tmp_path):
    Path("one.txt").write_text("1")
    source = job(client, input_data={"c": "one.txt"})
    handle = source(train)(4)
    assert handle.state() == "pending"
    log = run(fake, tmp_path / "pod")
    found, old, values = handle.result(SECONDS)
    assert found == {"one.txt": "1"}
    assert old is None
    np.testing.assert_array_equal(values, [0.5] * 4)
    np.testing.assert_array_equal(handle.metrics()["loss"], 1 / np.arange(1, 5))
    assert handle.logs().splitlines() == ["begins", "{not a record of the pod}"]
    assert handle.logs(1) == "{not a record of the pod}"
    assert (handle.results(tmp_path / "r") / "a.txt").read_text() == "a"
    np.testing.assert_array_equal(handle.checkpoints()["checkpoint"], np.arange(4))
    assert handle.hyperparameters == {"n": "4", "fail": "False"}
    again = qring.attach("small", "ml", client=client)
    assert type(again) is qring.HybridJob
    assert again.result()[0] == found
    # A log that is being written has any prefix of this one.
    for end in range(0, len(log), 97):
        _hybrid_pod.Files(log[:end])
    fake.pods.clear()
    assert handle.result()[0] == found  # read before the pod was deleted
    again = qring.attach("small", "ml", client=client)
    with pytest.raises(qring.QringError, match="its pod is gone, with the log") as caught:
        again.result()
    assert caught.value.code == qring.Code.DATA_LOSS


def test_checkpoints_are_copied(fake, client, tmp_path):
    Path("one.txt").write_text("1")
    first = qring.hybrid_job("first", local=True)(lambda: qring.save_checkpoint({"w": 7}, "old"))()
    first.wait(SECONDS)
    second = job(client, input_data={"c": "one.txt"}, copy_checkpoints_from=first)(train)(2)
    assert second.checkpoints() == {"old": {"w": 7}}
    run(fake, tmp_path / "pod")
    assert second.result()[1] == {"w": 7}


def test_checkpoints_are_copied_by_name(fake, client, tmp_path):
    job(client)(train)(2, fail=True)
    run(fake, tmp_path / "pod")
    keys = {"client": client, "namespace": "ml", "copy_checkpoints_from": "small"}
    second = qring.hybrid_job("second", **keys)(train)(2)
    assert second._backend.names("code/checkpoints") == ["checkpoint"]


def test_a_checkpoint_whose_name_is_a_path_is_rejected(fake, client, tmp_path):
    job(client)(train)(2)
    escaped = tmp_path / "escaped"
    path = "out/checkpoints/" + "../" * 20 + str(escaped)[1:]
    fake.pod(0, "\n".join(_hybrid_pod.records(path, b"x")), "Succeeded", 0)
    before = fake.names()
    keys = {"client": client, "namespace": "ml", "copy_checkpoints_from": "small"}
    with pytest.raises(ValueError, match="as the name of a checkpoint"):
        qring.hybrid_job("second", **keys)(train)(2)
    assert not escaped.exists()
    assert fake.names() == before


def test_a_failure_has_its_traceback(fake, client, tmp_path):
    handle = job(client)(train)(2, fail=True)
    run(fake, tmp_path / "pod")
    assert handle.state() == "failed"
    with pytest.raises(qring.hybrid.HybridJobError, match="ZeroDivisionError") as caught:
        handle.result()
    assert ", in train\n" in caught.value.traceback
    assert ", in train\n" in handle.logs()
    np.testing.assert_array_equal(handle.checkpoints()["checkpoint"], np.arange(2))


def test_metrics_and_checkpoints_while_it_runs_and_a_second_pod(fake, client, tmp_path):
    def count(n):
        at = qring.load_checkpoint() or 0
        for i in range(at, n):
            qring.save_checkpoint(i + 1)
            qring.log_metric("i", i, i)
            time.sleep(0.1)
        return at

    handle = job(client, output_claim="disk")(count)(1000)
    # The function ends within its own time: a busy disk holds a checkpoint up.
    pod = Pod(fake, tmp_path / "one", _STOP_SECONDS=SECONDS)
    fake.pod(0)
    fake.status(ready=1)
    end = time.monotonic() + SECONDS
    while len(handle.metrics().get("i", ())) < 5:
        assert time.monotonic() < end
        fake.texts["/api/v1/namespaces/ml/pods/small-0-0/log"] = pod.log()
        time.sleep(0.05)
    assert handle.state() == "running"
    assert handle.checkpoints()["checkpoint"] >= 5
    pod.process.send_signal(signal.SIGTERM)
    assert pod.end()[1] == 143
    # The claim is what the second pod has of the first.
    (tmp_path / "two" / "job").mkdir(parents=True)
    (tmp_path / "one" / "job" / "out").rename(tmp_path / "two" / "job" / "out")
    second = Pod(fake, tmp_path / "two", _STOP_SECONDS=SECONDS)
    fake.pods.clear()
    while "checkpoints/" not in second.log():
        assert time.monotonic() < end
        time.sleep(0.05)
    second.process.send_signal(signal.SIGTERM)
    log, code = second.end()
    assert code == 143
    fake.pod(0, log)
    steps = list(handle.metrics()["i"])
    assert steps == list(range(len(steps)))
    assert handle.checkpoints()["checkpoint"] >= 5


def test_records_that_are_malformed():
    good = _hybrid_pod.records("a", b"12345")[0]
    entry = json.loads(good[1:])
    bomb = base64.b64encode(zlib.compress(b"\0" * 50_000_000)).decode()
    for change in (
        {"at": "0"},
        {"at": None},
        {"at": -2},
        {"at": 0.0},
        {"size": "5"},
        {"path": ["a"]},
        {"data": bomb},
        {"data": bomb, "size": 50_000_000},
        {"data": 5},
        {"data": "é"},
        {"data": entry["data"][:12]},
    ):
        assert _hybrid_pod.Files("\x1e" + json.dumps({**entry, **change})).content == {}, change
    wrong = json.dumps({"path": ["a"], "at": 0, "size": 5})
    lines = ["\x1e" + text for text in ("[1]", "[" * 100_000, "9" * 5000, wrong)]
    assert _hybrid_pod.Files("\n".join([*lines, good])).content == {"a": b"12345"}


def test_files_of_a_job_that_are_malformed(fake, client):
    handle = job(client)(train)(1)
    sent = fake.of("secrets", "small-code-0")
    bodies = (b"{}", b"null", b'{"kind": "Job"}', b'{"kind": "Pod", "metadata": {"name": "small"}}')
    wrong = [{"job.json": base64.b64encode(body).decode()} for body in bodies]
    wrong += [{}, None, {"part": "!"}, {"part": "aGVsbG8="}]
    for data in wrong:
        fake.objects["/api/v1/namespaces/ml/secrets/small-code-0"] = {**sent, "data": data}
        with pytest.raises(qring.QringError, match="cannot read what was sent") as caught:
            qring.attach("small", "ml", client=client).hyperparameters  # noqa: B018
        assert caught.value.code == qring.Code.DATA_LOSS
        fake.condition("Failed")
        with pytest.raises(qring.QringError, match="cannot start small: .* is malformed") as caught:
            handle.resume()
        assert caught.value.code == qring.Code.DATA_LOSS
    null = {**sent, "data": {"part": None, "job.json": None}}
    fake.objects["/api/v1/namespaces/ml/secrets/small-code-0"] = null
    for call in (handle.resume, lambda: handle._backend.read("code/call.json")):
        # Clients from version 37 on reject the reply.
        with pytest.raises(qring.QringError, match=r"cannot .* malformed"):
            call()
    for text in (b"[]", b"{", b'{"error": "x"}', b"[" * 100_000):
        fake.pods.clear()
        fake.pod(0, "\n".join(_hybrid_pod.records("out/outcome.json", text)), "Failed", 1)
        with pytest.raises(qring.HybridJobError, match="small failed: .*outcome.json is mal"):
            qring.attach("small", "ml", client=client).result()
    good = {"name": "a", "step": 1, "value": 2, "time": 3}
    wrong = [{"name": 5}, {"step": "x"}, {"step": [1]}, {"step": 1e300}, {"step": -1}]
    wrong += [{"value": "<script>"}, {"value": float("inf")}, {"time": None}]
    lines = [json.dumps({**good, **change}) for change in wrong]
    lines += [json.dumps({**good, "step": i, "value": x}) for i, x in ((2, 1e308), (3, -1e308))]
    data = "\n".join(["[" * 100_000, *lines, json.dumps(good)]).encode()
    fake.pods.clear()
    fake.pod(0, "\n".join(_hybrid_pod.records("out/metrics.jsonl", data)), "Failed", 1)
    handle = qring.attach("small", "ml", client=client)
    assert list(handle.metrics()["a"]) == [2, 1e308, -1e308]
    fake.objects["/api/v1/namespaces/ml/secrets/small-code-0"] = sent
    assert "script" not in handle._repr_html_()


def test_limits(fake, client, tmp_path):
    def large():
        print("line\n" * 1000)
        qring.save_checkpoint(1)
        return np.random.default_rng(1).bytes(50_000)

    handle = job(client, output_claim="disk")(large)()
    log = run(fake, tmp_path / "pod", OUTPUT_BYTES=10_000, END_BYTES=20_000)
    assert len(log) < 30_000
    assert "see out/log" in handle.logs(1)
    with pytest.raises(
        qring.QringError, match=r"it has 500\d\d bytes.*disk: small-\w+/outc"
    ) as caught:
        handle.result()
    assert caught.value.code == qring.Code.RESOURCE_EXHAUSTED
    assert handle.checkpoints() == {"checkpoint": 1}


# ---- state ----


def test_states_reasons_cancel_and_resume(fake, client):
    handle = job(client, timeout=60)(train)(1)
    fake.pod(0, None, "Pending", reason="ErrImagePull", message="no such image")
    with pytest.raises(qring.QringError, match="it runs on a cluster; call results"):
        handle.folder  # noqa: B018
    assert handle.state() == "pending"
    assert handle.logs() == "pending: ErrImagePull: no such image"
    fake.status(ready=1)
    assert handle.state() == "running"
    with pytest.raises(qring.QringError, match="it is running; wait"):
        handle.resume()
    handle.cancel()
    assert fake.of("jobs")["spec"]["suspend"] is True
    assert handle.state() == "cancelled"
    handle.resume()
    assert fake.of("jobs")["spec"]["suspend"] is False
    first = fake.of("jobs")
    fake.pods.clear()
    fake.pod(0, "", "Failed", 137, reason="OOMKilled")
    fake.condition("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    with pytest.raises(qring.hybrid.HybridJobError, match=r"137 \(OOMKilled\); give more memory="):
        handle.result()
    fake.condition("Failed", "DeadlineExceeded", "too long")
    with pytest.raises(qring.hybrid.HybridJobError, match="did not end in 60 s; give a longer"):
        handle.result()
    handle.resume()
    assert fake.of("jobs") is not first
    assert "status" not in fake.of("jobs")
    assert (
        fake.of("jobs")["spec"]["template"]
        == json.loads(base64.b64decode(fake.of("secrets", "small-code-0")["data"]["job.json"]))[
            "spec"
        ]["template"]
    )
    assert (
        _hybrid_cluster.COMPONENT
        == fake.of("jobs")["metadata"]["labels"]["app.kubernetes.io/component"]
    )
