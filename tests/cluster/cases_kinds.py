"""Cases of tests/cluster/e2e: the operators' kinds, StatefulSet, chart and overlays, sweep."""
import json
import os
import subprocess
import time

import yaml

from kube import until
from objects import adapt, apply, bucket_rules, check_gone, indexed_job, read, remove, with_large_job, with_secret
from rings import Chart, Job, JobSet, StatefulSet, TFJob, TrainJob, check_end, disturb, evict
from world import METADATA, STORE, api, check, epochs, half, here, log_line, pod_path, qring, run, short, store, stored, work

TRAIN = "app.kubernetes.io/component=train"


def case_jobset():
    ring = JobSet("jobset", TRAIN)
    objects = with_secret(with_large_job(read("jobset.yaml", ring.bucket, QRING_EPOCHS=epochs)))
    apply(objects)
    disturb(ring, scales=False)
    remove(objects)


def case_trainjob():
    ring = TrainJob("trainjob", TRAIN)
    objects = with_secret(with_large_job(read("trainjob.yaml", ring.bucket, QRING_EPOCHS=epochs)))
    apply(objects)
    disturb(ring, scales=False)
    remove(objects)


def case_runtime():
    """A TrainJob of four lines with a ClusterTrainingRuntime."""
    ring = TrainJob("trainjob-cluster", TRAIN)
    ring.folder = here.space + "/qcnn"
    objects = with_secret(read("clustertrainingruntime.yaml", ring.bucket) + read("trainjob-cluster.yaml", ring.bucket), "qring")
    apply(objects)
    check_end(ring, "tutorial")
    remove(objects)


def case_statefulset():
    ring = StatefulSet("statefulset", TRAIN)
    objects = with_secret(with_large_job(read("statefulset.yaml", ring.bucket, QRING_EPOCHS=epochs)))
    apply(objects)
    disturb(ring)
    trained = until(lambda: "already trained" in api.ask("GET", pod_path("qcnn-0/log")), 60, 1)
    check("statefulset: a restarted worker finds the training complete", trained)
    remove(objects)


def store_job(bucket):
    """Stores the undisturbed run's job in the bucket: the tutorial's TFJob has no volume for it."""
    with open("deploy/jobs/qcnn-pure-12.json", "rb") as f:
        store(bucket, "job.json", f.read())
    return "gs://%s/job.json" % bucket


def case_tfjob():
    """The tutorial's manifest with restartPolicy Never: an eviction fails it; the next TFJob
    resumes from the checkpoint."""
    ring = TFJob("tfjob", "app=qcnn")
    objects = read("tfjob.yaml", ring.bucket, QRING_EPOCHS=short, QRING_JOB=store_job(ring.bucket))
    apply(objects)
    ring.reaches(2, "started", "trained")
    evict(pod_path(ring.pods()[1]["metadata"]["name"]))
    message = until(lambda: ring.conditions().get("Failed"), 60)
    check("tfjob: Never: an eviction fails it: %s" % message, message and "1 Worker replica(s) failed" in message, stop=True)
    log_line("tfjob: evicted: %s" % message)
    ring.row["evicted"] = "fails"
    remove(objects)
    step = ring.latest().get("step", 0)
    apply(objects)
    ring.reaches(2, "another TFJob")
    check("tfjob: another resumes from step %d" % step, step > 0 and all(ring.metric(p, "qring_step") >= step for p in ring.pods().values()))
    check_end(ring, "short")
    ended = {i: p["status"]["containerStatuses"][0]["state"].get("terminated", {}).get("exitCode") for i, p in ring.pods().items()}
    check("tfjob: all have exited with 0: %s" % ended, ended == {0: 0, 1: 0})
    remove(objects)


def case_refused():
    """A bad setting gives a permanent exit code: Job and TFJob (restartPolicy ExitCode) fail at
    once without new pods."""
    for ring, objects, why in (
            (Job("job, a bad setting", TRAIN, "auth-refused"), indexed_job("auth-refused", "none"), "matching FailJob rule"),
            (TFJob("tfjob, a bad setting", TRAIN, "auth-refused"), with_secret(read("tfjob-restarts.yaml", "auth-refused", QRING_EPOCHS="none")),
             '"Worker" replica(s) failed')):
        began = time.monotonic()
        apply(objects)
        message = until(lambda r=ring: r.conditions().get("Failed"), 90, 0.5)
        check("%s: it has failed: %s" % (ring.name, message), message and why in message)
        log_line("%s: %s" % (ring.name, message))
        ended = [p["status"]["containerStatuses"][0]["state"].get("terminated", {}) for p in ring.pods().values()]
        # When the first of a Job's two pods fails, the other is killed, possibly before it reports
        # the setting.
        first = [t for t in ended if t.get("exitCode") == 2 and "is not a number" in t.get("message", "")]
        check("%s: the worker's message is in its pod's status: %s" % (ring.name, ended), first and all(t.get("exitCode") in (2, 137, 143) for t in ended))
        ring.row.update(finished="fails", seconds="%.0f" % (time.monotonic() - began))
        remove(objects)


def case_restarts():
    """TFJob with restartPolicy ExitCode, which succeeds when every worker has."""
    ring = TFJob("tfjob-restarts", TRAIN)
    ring.start_limit_s = 10 # without a number of workers a first ring forms after --form-timeout
    objects = with_secret(with_large_job(read("tfjob-restarts.yaml", ring.bucket, QRING_EPOCHS=epochs)))
    apply(objects)
    disturb(ring)
    remove(objects)


def case_ps():
    """Two workers and a parameter server, with names from a template and a list: workers are
    evicted and scaled as without one."""
    ring = TFJob("tfjob-ps", TRAIN)
    ring.start_limit_s = 10 # without a number of workers a first ring forms after --form-timeout
    ring.servers = 1
    objects = with_secret(with_large_job(read("tfjob-ps.yaml", ring.bucket, QRING_EPOCHS=epochs)))
    api.merge("/api/v1/nodes/node0", {"metadata": {"labels": {"cloud.google.com/gke-spot": "true"}}})
    apply(objects)
    disturb(ring)
    remove(objects)


def case_evaluator():
    """Workers that only train, and an evaluator that evaluates every fifth epoch."""
    ring = TFJob("tfjob-evaluator", TRAIN)
    objects = with_secret(read("tfjob-evaluator.yaml", ring.bucket))
    apply(objects)
    check_end(ring, "tutorial")
    found = lambda: api.list("v1", "Pod", here.space, "app.kubernetes.io/component=evaluator")
    done = until(lambda: found() and found()[0]["status"]["phase"] == "Succeeded", 60)
    check("evaluator: it has succeeded: %s" % [p["status"]["phase"] for p in found()], done)
    messages = [json.loads(line)["message"] for line in api.ask("GET", pod_path(found()[0]["metadata"]["name"] + "/log")).splitlines() if "{" in line]
    check("evaluator: it has evaluated the last epoch: %s" % messages[-3:], any("epoch 50" in line for line in messages))
    remove(objects)


def case_chart():
    """helm install, upgrade, test. Pods have a quarter of a processor, because the chart's requests
    equal its limits."""
    ring = Chart("chart", "app.kubernetes.io/component=train,app.kubernetes.io/instance=qcnn")
    ring.helm = os.environ["QR_HELM"]
    values = work + "/values.yaml"
    with open("deploy/jobs/qcnn-pure-12.json", encoding="utf-8") as f, open(values, "w", encoding="utf-8") as to:
        yaml.safe_dump({"cpu": "250m", "weights": "gs://%s/qcnn/weights.h5" % ring.bucket, "job": f.read(),
                        "set": ["train.epochs=" + half],
                        "extraEnv": [{"name": "STORAGE_EMULATOR_HOST", "value": STORE}, {"name": "GCE_METADATA_HOST", "value": METADATA}]}, to)
    try:
        run(ring.helm, "install", "qcnn", "charts/qring", "-n", here.space, "-f", values)
        disturb(ring, "half") # pods have a quarter of a processor
        at = time.monotonic()
        tested = subprocess.run([ring.helm, "test", "qcnn", "-n", here.space], capture_output=True, text=True, check=False)
        check("chart: helm test: %s" % (tested.stdout + tested.stderr)[-600:], tested.returncode == 0)
        log_line("chart: helm test after %.1f s" % (time.monotonic() - at))
    finally:
        subprocess.run([ring.helm, "uninstall", "qcnn", "-n", here.space], capture_output=True, check=False)
    check_gone()


def overlay(name):
    """kubectl apply -k of an overlay trains its own job to the digest of qring run."""
    ring = Job("overlay " + name, TRAIN, "auth-" + name)
    text = run("kubectl", "kustomize", "deploy/kustomize/" + name).replace("my-bucket", ring.bucket)
    more = {} if "--weights" in text else {"QRING_WEIGHTS": "gs://%s/qcnn/weights.h5" % ring.bucket}
    objects = with_secret(adapt([d for d in yaml.safe_load_all(text) if d], ring.bucket, **more))
    if more:
        bucket_rules(objects)
    apply(objects)
    check_end(ring, "tutorial")
    remove(objects)


def case_overlays():
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}} # their operators are not installed
    for group, kind in (("monitoring.coreos.com", "PodMonitor"), ("monitoring.coreos.com", "PrometheusRule"),
                        ("monitoring.googleapis.com", "PodMonitoring"), ("monitoring.googleapis.com", "Rules")):
        plural = kind.lower() + "s"
        api.apply({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "%s.%s" % (plural, group)},
                   "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}]}})
    until(lambda: all(api.find(api.path(v, k, here.space)) for v, k in (("monitoring.coreos.com/v1", "PodMonitor"),
                                                                     ("monitoring.googleapis.com/v1", "PodMonitoring"))), 30)
    api.merge("/api/v1/nodes/node0", {"metadata": {"labels": {"cloud.google.com/gke-spot": "true"}}})
    for name in ("gke", "prometheus"):
        overlay(name)


def case_sweep():
    """Four pods share sixteen trials; one pod is deleted. The table equals that of a local qring
    sweep."""
    at = time.monotonic()
    objects = read("sweep.yaml", "auth-sweep")
    with open(work + "/sweep.json", "w", encoding="utf-8") as f:
        f.write(next(d for d in objects if d["kind"] == "ConfigMap")["data"]["job.json"])
    qring("sweep", work + "/sweep.json", "--out", work + "/sweep")
    apply(objects)
    pods = until(lambda: [p for p in api.list("v1", "Pod", here.space, "app.kubernetes.io/component=sweep") if p["status"]["phase"] == "Running"], 60)
    if pods:
        api.delete(pod_path(pods[0]["metadata"]["name"]), gracePeriodSeconds=0)
    path = api.path_of(next(d for d in objects if d["kind"] == "Job"))
    done = until(lambda: any(c["type"] == "Complete" and c["status"] == "True"
                             for c in (api.find(path) or {}).get("status", {}).get("conditions") or []), 180, 1)
    check("sweep: the Job is complete", done)
    with open(work + "/sweep/sweep.csv", "rb") as f:
        same = stored("auth-sweep", "qcnn-sweep/sweep.csv") == f.read()
    check("sweep: the table in the bucket equals that of a local qring sweep", same)
    log_line("sweep: complete")
    here.rows.append({"manifest": "sweep", "killed": "yes" if pods else "no", "finished": "yes" if done else "no", "digest": "=" if same else "other",
                      "seconds": "%.0f" % (time.monotonic() - at)})
    remove(objects)
