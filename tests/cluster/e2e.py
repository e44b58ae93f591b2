#!/usr/bin/python3
"""The cases of tests/cluster/e2e, on the node: e2e.py FOLDER MANIFESTS EPOCHS [CASE...]. Undisturbed runs are
FOLDER/alone, FOLDER/short (a quarter of its epochs) and FOLDER/tutorial."""
import json
import os
import signal
import subprocess
import sys
import time
import traceback

import yaml

from kube import until
from rings import Chart, Job, JobSet, StatefulSet, TFJob, TrainJob
from world import (METADATA, OUTSIDE, PODS, STORE, Stop, api, check, counts, epochs, fetch, manifests, outside, qring, rows, run, say, secret,
                   store, stored, table, work)

short = str(int(epochs) // 4) # where the whole run would only be waited for
TRAIN = "app.kubernetes.io/component=train"


def pod_specs(value):
    """Every pod's template in an object, whatever its kind."""
    if isinstance(value, dict):
        if "containers" in value:
            yield value
        else:
            for v in value.values():
                yield from pod_specs(v)
    elif isinstance(value, list):
        for v in value:
            yield from pod_specs(v)


def ours(objects, bucket, **more):
    """The objects of a manifest for this cluster: bucket and weights' name are ours, two processors are enough for all its pods, and the
    variables that say where storage is and what to train are the test's. Nothing else changes."""
    for d in objects:
        d["metadata"].setdefault("namespace", "default")
        for spec in pod_specs(d.get("spec", {})):
            for c in spec["containers"]:
                c.setdefault("resources", {}).setdefault("requests", {})["cpu"] = "100m"
                env = {"STORAGE_EMULATOR_HOST": STORE, "GCE_METADATA_HOST": METADATA, **more}
                c["env"] = (c.get("env") or []) + [{"name": k, "value": v} for k, v in env.items()]
    return objects


def read(file, bucket, **more):
    with open("%s/%s" % (manifests, file), encoding="utf-8") as f:
        text = f.read().replace("my-bucket", bucket).replace("qcnn_weights.h5", "qcnn/weights.h5")
    return ours([d for d in yaml.safe_load_all(text) if d], bucket, **more)


def big(objects):
    """With the job of the undisturbed run where the manifest has a job."""
    for d in objects:
        if d["kind"] == "ConfigMap" and "job.json" in d["data"]:
            with open("deploy/jobs/qcnn-pure-12.json", encoding="utf-8") as f:
                d["data"]["job.json"] = f.read()
    return objects


def apply(objects):
    """Server-side, as the pages say. A runtime is not there at once for the webhook of the TrainJob that names it."""
    for d in objects:
        if d["kind"] == "TFJob":
            name = d["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"].get("serviceAccountName")
            if name and not api.find("/api/v1/namespaces/default/serviceaccounts/" + name):
                api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}})
        if d["kind"] == "TrainJob":
            until(lambda d=d: api.apply(d), 20)
        else:
            api.apply(d)


def remove(objects):
    for d in reversed(objects):
        api.delete(api.path_of(d), propagationPolicy="Background")
    check("everything is gone", until(lambda: not api.list("v1", "Pod", "default"), 90))


def evict(pod):
    api.create({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.rsplit("/", 1)[1], "namespace": "default"}},
               pod + "/eviction")


def disturbed(ring, up=True, down=True, during=None):
    """From two workers that train to one that finishes; or to two, or four."""
    n = 2
    ring.reaches(2, "started", "trained")
    if during:
        during(ring)
    if up:
        ring.scale(4)
        n = 4
        ring.reaches(4, "scaled from 2 to 4", "scaled")
    ring.lose(n - 2 or 1, n, "deleted by force", "killed", lambda pod: api.delete(pod, gracePeriodSeconds=0))
    ring.lose(1, n, "evicted", "evicted", evict)
    if up and down:
        at = time.monotonic()
        ring.scale(1)
        good = until(lambda: ring.sees(ring.pods().get(0, {}), "qring_members") == 1, 120)
        check("%s: scaled from 4 to 1: it trains alone" % ring.name, good and not ring.latest().get("done"), stop=True)
        say("%s: scaled from 4 to 1: alone after %.1f s, step %d" % (ring.name, time.monotonic() - at, ring.steps()))
        ring.row["scaled"] += " %.1f" % (time.monotonic() - at)
    ends(ring, work + "/alone")
    if up and down:
        check("%s: the other pods are gone" % ring.name, until(lambda: [i for i in ring.pods() if i] == [], 120))


def ends(ring, folder, seconds=900):
    at = time.monotonic()
    if not check("%s: it has finished" % ring.name, until(ring.finished, seconds, 1)):
        ring.tell()
        raise Stop
    ring.row["finished"] = "%.1f" % (time.monotonic() - at)
    with open(folder + "/result.json", encoding="utf-8") as f:
        want = json.load(f)["state_digest"]
    latest = ring.latest()
    check("%s: done" % ring.name, latest.get("done"))
    check("%s: digest %s, qring run %s" % (ring.name, latest.get("digest"), want), latest.get("digest") == want)
    with open(folder + "/weights.h5", "rb") as f:
        check("%s: the weights in the bucket are those of qring run" % ring.name, stored(ring.bucket, "qcnn/weights.h5") == f.read())
    ring.row["digest"] = latest.get("digest", "")[:8] + (" =" if latest.get("digest") == want else " other")
    ring.row["seconds"] = "%.0f" % (time.monotonic() - ring.began)
    pauses = ", pauses " + " ".join("%.2f" % p for p in ring.pauses) if ring.pauses else ""
    if ring.pauses:
        ring.row["longest pause"] = "%.2f" % max(ring.pauses)
    say("%s: finished, digest %s%s" % (ring.name, latest.get("digest"), pauses))


def with_secret(objects):
    return [yaml.safe_load(secret())] + objects


def bucket_rules(objects):
    """What the component deploy/kustomize/gcs adds to the policy of a manifest that knows no bucket."""
    for d in objects:
        if d["kind"] == "NetworkPolicy":
            d["spec"]["egress"] += [{"ports": [{"port": 443, "protocol": "TCP"}]},
                                    {"to": [{"ipBlock": {"cidr": METADATA + "/32"}}], "ports": [{"port": 80, "protocol": "TCP"}]}]
    return objects


def plain(ring, passes=epochs):
    return bucket_rules(big(read("qcnn.yaml", ring.bucket, QRING_EPOCHS=passes, QRING_WEIGHTS="gs://%s/qcnn/weights.h5" % ring.bucket)))


def case_job():
    """The Indexed Job, its policy, and inference with its weights."""
    ring = Job("job", TRAIN)
    objects = plain(ring)
    apply(objects)
    disturbed(ring, during=policies)
    remove(objects)
    inference(ring)


def inference(ring):
    at = time.monotonic()
    objects = big(read("infer.yaml", ring.bucket, QRING_WEIGHTS="gs://%s/qcnn/weights.h5" % ring.bucket))
    apply(objects)
    path = api.path_of(next(d for d in objects if d["kind"] == "Job"))
    check("infer: the Job has completed", until(lambda: (api.find(path) or {}).get("status", {}).get("succeeded") == 1, 90))
    pods = api.list("v1", "Pod", "default", "app.kubernetes.io/component=infer")
    said = api.ask("GET", "%s/%s/log" % (PODS, pods[0]["metadata"]["name"])) if pods else ""
    here_said = qring("infer", "deploy/jobs/qcnn-pure-12.json", "--weights", work + "/alone/weights.h5")
    same = here_said.strip() and here_said.strip() in said
    check("infer: the pod prints what qring infer prints here", same)
    say("infer: " + here_said.strip().splitlines()[-1])
    rows.append({"manifest": "infer", "finished": "%.1f" % (time.monotonic() - at), "digest": "=" if same else "other",
                 "seconds": "%.0f" % (time.monotonic() - at)})
    remove(objects)


# ---- network policies ----

STRANGER = """
apiVersion: v1
kind: Pod
metadata: {name: stranger, namespace: default}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: pause
      image: localhost/pause:1
      imagePullPolicy: Never
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
"""


def network_of(pod):
    """What goes before a command that is to run in a pod's network."""
    container = pod["status"]["containerStatuses"][0]["containerID"].split("//")[1]
    pid = next(line.split()[1] for line in run("ctr", "-n", "k8s.io", "task", "ls").splitlines() if line.startswith(container))
    return ["nsenter", "-t", pid, "-n"]


def reaches(pod, address, port):
    code = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 2)"
    return subprocess.run([*network_of(pod), "/usr/bin/python3", "-c", code, address, str(port)], capture_output=True, check=False).returncode == 0


def policies(ring):
    """The manifest's policy holds: and without the table that enforces it the same questions have other answers."""
    api.apply(yaml.safe_load(STRANGER))
    stranger = until(lambda: next((p for p in [api.find(PODS + "/stranger")] if p["status"].get("containerStatuses", [{}])[0].get("ready")), None), 60)
    if not check("a pod beside the ring runs", stranger):
        return
    pods = ring.pods()
    at = {name: p["status"]["podIP"] for name, p in (("0", pods[0]), ("stranger", stranger))}
    listener = subprocess.Popen([*network_of(stranger), "/usr/bin/python3", "-m", "http.server", "9000"], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
    check("the stranger listens", until(lambda: fetch("http://%s:9000/tests" % at["stranger"]), 20))
    asked = [("a stranger", stranger, at["0"], 2222, False), ("a stranger", stranger, at["0"], 2224, False),
             ("a stranger", stranger, at["0"], 8080, True), ("a pod of the ring", pods[1], at["0"], 2222, True),
             ("a pod of the ring", pods[1], at["0"], 2224, True), ("a pod of the ring", pods[1], at["stranger"], 9000, False),
             ("a pod of the ring", pods[1], "10.96.0.10", 53, True), ("a pod of the ring", pods[1], OUTSIDE, 443, True),
             ("a pod of the ring", pods[1], METADATA, 80, True), ("a pod of the ring", pods[1], OUTSIDE, 80, False)]
    held = [check("policy: %s %s %s:%d" % (who, "reaches" if may else "does not reach", address, port), reaches(pod, address, port) == may)
            for who, pod, address, port, may in asked]
    saved = run("nft", "list", "table", "ip", "policies")
    run("nft", "delete", "table", "ip", "policies")
    free = sum(reaches(pod, address, port) for _, pod, address, port, may in asked if not may)
    run("nft", "-f", "-", input=saved)
    check("policy: without it %d of 4 closed ways are open" % free, free == 4)
    say("policy: %d of %d ways are as it says; without it %d of 4 closed ones are open" % (sum(held), len(held), free))
    listener.kill()
    api.delete(PODS + "/stranger", gracePeriodSeconds=0)


# ---- what becomes of a Job ----

def case_suspend():
    """Suspended, all pods go; resumed, they go on from the checkpoint, and the Job can be complete (1.32 to 1.34.1: kubernetes issue 134521)."""
    ring = Job("job, suspended", TRAIN, "auth-suspend")
    objects = plain(ring, short)
    apply(objects)
    ring.reaches(2, "started", "trained")
    at = time.monotonic()
    ring.suspend(True)
    check("suspended: no pod is left", until(lambda: not ring.pods(), 60), stop=True)
    step = ring.latest().get("step", 0)
    say("suspended: no pod after %.1f s, checkpoint of step %d" % (time.monotonic() - at, step))
    ring.suspend(False)
    ring.reaches(2, "resumed")
    check("resumed: from the checkpoint", step > 0 and all(ring.sees(p, "qring_step") >= step for p in ring.pods().values()))
    ends(ring, work + "/short")
    remove(objects)


def kubelet():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/comm" % pid, encoding="ascii") as f:
                if f.read() == "kubelet\n":
                    return int(pid)
        except OSError:
            pass
    raise Stop


def case_lost():
    """The kubelet is silent and a worker dead, as on a lost node: the other trains on; a deleted pod has no successor until the node is back."""
    ring = Job("job, kubelet stopped", TRAIN, "auth-lost")
    objects = plain(ring)
    apply(objects)
    ring.reaches(2, "started", "trained")
    old = ring.pods()[1]
    node = kubelet()
    try:
        os.kill(node, signal.SIGSTOP)
        at = time.monotonic()
        container = old["status"]["containerStatuses"][0]["containerID"].split("//")[1]
        run("ctr", "-n", "k8s.io", "task", "kill", "-s", "SIGKILL", container)
        check("lost: the other trains on", until(lambda: ring.sees(ring.pods()[0], "qring_members") == 1, 20), stop=True)
        say("lost: alone after %.1f s" % (time.monotonic() - at))
        api.delete("%s/%s" % (PODS, old["metadata"]["name"]))
        time.sleep(20)
        found = api.list("v1", "Pod", "default", TRAIN)
        left = [p["metadata"]["name"] for p in found if "deletionTimestamp" in p["metadata"]]
        check("lost: the deleted pod stays Terminating, without a successor: %s" % left,
              left == [old["metadata"]["name"]] and len(found) == 2)
        ready = lambda: next(c["status"] for c in api.ask("GET", "/api/v1/nodes/node0")["status"]["conditions"] if c["type"] == "Ready")
        check("lost: the node is said to be lost", until(lambda: ready() == "Unknown", 90, 1))
        say("lost: the node is Unknown after %.0f s" % (time.monotonic() - at))
    finally:
        os.kill(node, signal.SIGCONT)
    at = time.monotonic()
    good = until(lambda: ring.pods().get(1, old)["metadata"]["uid"] != old["metadata"]["uid"], 60)
    say("lost: a successor %.1f s after the node is back" % (time.monotonic() - at))
    check("lost: a successor comes with the node", good, stop=True)
    ring.reaches(2, "the node is back")
    ends(ring, work + "/alone")
    remove(objects)


# ---- the other kinds ----

def case_jobset():
    ring = JobSet("jobset", TRAIN)
    objects = with_secret(big(read("jobset.yaml", ring.bucket, QRING_EPOCHS=epochs)))
    apply(objects)
    disturbed(ring, up=False)
    remove(objects)


def case_trainjob():
    ring = TrainJob("trainjob", TRAIN)
    objects = with_secret(big(read("trainjob.yaml", ring.bucket, QRING_EPOCHS=epochs)))
    apply(objects)
    disturbed(ring, up=False)
    remove(objects)


def case_statefulset():
    ring = StatefulSet("statefulset", TRAIN)
    objects = with_secret(big(read("statefulset.yaml", ring.bucket, QRING_EPOCHS=epochs)))
    apply(objects)
    disturbed(ring)
    said = until(lambda: "already trained" in api.ask("GET", "%s/qcnn-0/log" % PODS), 60, 1)
    check("statefulset: what has ended is begun again, and ends at once", said)
    remove(objects)


def pure(bucket):
    """The job of the undisturbed run, where a TFJob's worker can read it: the tutorial's manifest has no volume."""
    with open("deploy/jobs/qcnn-pure-12.json", "rb") as f:
        store(bucket, "job.json", f.read())
    return "gs://%s/job.json" % bucket


def case_tfjob():
    """The tutorial's manifest, restartPolicy Never: an eviction is its end, and the next one goes on from the checkpoint."""
    ring = TFJob("tfjob", "app=qcnn")
    objects = read("tfjob.yaml", ring.bucket, QRING_EPOCHS=short, QRING_JOB=pure(ring.bucket))
    api.merge("/api/v1/namespaces/default", {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}})
    apply(objects)
    ring.reaches(2, "started", "trained")
    evict("%s/%s" % (PODS, ring.pods()[1]["metadata"]["name"]))
    said = until(lambda: ring.conditions().get("Failed"), 60)
    check("tfjob: Never: an eviction fails it: %s" % said, said, stop=True)
    say("tfjob: evicted: %s" % said)
    ring.row["evicted"] = "fails"
    remove(objects)
    step = ring.latest().get("step", 0)
    apply(objects)
    ring.reaches(2, "another TFJob")
    check("tfjob: another goes on from step %d" % step, step > 0 and all(ring.sees(p, "qring_step") >= step for p in ring.pods().values()))
    ends(ring, work + "/short")
    ended = {i: p["status"]["containerStatuses"][0]["state"].get("terminated", {}).get("exitCode") for i, p in ring.pods().items()}
    check("tfjob: all have ended with 0: %s" % ended, ended == {0: 0, 1: 0})
    remove(objects)
    api.merge("/api/v1/namespaces/default", {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}})


def case_refused():
    """restartPolicy ExitCode and a permanent code: the TFJob fails at once, and no pod is made again."""
    ring = TFJob("tfjob, a bad setting", TRAIN, "auth-refused")
    objects = with_secret(read("tfjob-restarts.yaml", ring.bucket, QRING_EPOCHS="none"))
    apply(objects)
    said = until(lambda: ring.conditions().get("Failed"), 90, 0.5)
    check("refused: the TFJob has failed: %s" % said, said)
    say("refused: %s" % said)
    ended = [p["status"]["containerStatuses"][0]["state"].get("terminated", {}) for p in ring.pods().values()]
    check("refused: what the worker said is in its pod: %s" % ended,
          ended and all(t.get("exitCode") == 2 and "is not a number" in t.get("message", "") for t in ended))
    ring.row.update(finished="fails", seconds="%.0f" % (time.monotonic() - ring.began))
    remove(objects)


def case_restarts():
    """restartPolicy ExitCode, every worker's success."""
    ring = TFJob("tfjob-restarts", TRAIN)
    objects = with_secret(big(read("tfjob-restarts.yaml", ring.bucket, QRING_EPOCHS=epochs)))
    apply(objects)
    disturbed(ring)
    remove(objects)


def case_ps():
    """Two workers and a parameter server, whom TF_CONFIG must name all; so an eviction is the end (no enableDynamicWorker)."""
    ring = TFJob("tfjob-ps", TRAIN)
    ring.servers = 1
    objects = with_secret(big(read("tfjob-ps.yaml", ring.bucket, QRING_EPOCHS=short)))
    api.merge("/api/v1/nodes/node0", {"metadata": {"labels": {"cloud.google.com/gke-spot": "true"}}})
    apply(objects)
    ring.reaches(2, "started", "trained")
    evict("%s/%s" % (PODS, ring.pods()[1]["metadata"]["name"]))
    said = until(lambda: ring.conditions().get("Failed"), 60)
    check("tfjob-ps: an eviction fails it: %s" % said, said, stop=True)
    say("tfjob-ps: evicted: %s" % said)
    ring.row["evicted"] = "fails"
    remove(objects)
    apply(objects)
    ring.reaches(2, "another TFJob")
    ends(ring, work + "/short")
    remove(objects)


def case_chart():
    """helm install, upgrade, test; pods of a quarter of a processor, as the chart's requests are its limits."""
    ring = Chart("chart", "app.kubernetes.io/component=train,app.kubernetes.io/instance=qcnn")
    ring.helm = os.environ["QR_HELM"]
    values = work + "/values.yaml"
    with open("deploy/jobs/qcnn-pure-12.json", encoding="utf-8") as f, open(values, "w", encoding="utf-8") as to:
        yaml.safe_dump({"cpu": "250m", "weights": "gs://%s/qcnn/weights.h5" % ring.bucket, "job": f.read(),
                        "set": ["train.epochs=" + epochs],
                        "extraEnv": [{"name": "STORAGE_EMULATOR_HOST", "value": STORE}, {"name": "GCE_METADATA_HOST", "value": METADATA}]}, to)
    try:
        run(ring.helm, "install", "qcnn", "charts/qring", "-f", values)
        disturbed(ring, down=False) # one pod of a quarter of a processor would take long
        at = time.monotonic()
        tested = subprocess.run([ring.helm, "test", "qcnn"], capture_output=True, text=True, check=False)
        check("chart: helm test: %s" % (tested.stdout + tested.stderr)[-600:], tested.returncode == 0)
        say("chart: helm test after %.1f s" % (time.monotonic() - at))
    finally:
        subprocess.run([ring.helm, "uninstall", "qcnn"], capture_output=True, check=False)
    check("everything is gone", until(lambda: not api.list("v1", "Pod", "default"), 90))


def overlay(name):
    """kubectl apply -k of an overlay: it trains, with its own job, to the digest of qring run."""
    ring = Job("overlay " + name, TRAIN, "auth-" + name)
    text = run("kubectl", "kustomize", "deploy/kustomize/" + name).replace("my-bucket", ring.bucket)
    more = {} if "--weights" in text else {"QRING_WEIGHTS": "gs://%s/qcnn/weights.h5" % ring.bucket}
    objects = with_secret(ours([d for d in yaml.safe_load_all(text) if d], ring.bucket, **more))
    if more:
        bucket_rules(objects)
    apply(objects)
    ends(ring, work + "/tutorial")
    remove(objects)


def case_overlays():
    with open("tests/schemas/monitoring.json", encoding="utf-8") as f:
        for d in json.load(f): # of operators that are not here: any fields
            kind, plural = d["names"]["kind"], d["names"]["kind"].lower() + "s"
            schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
            api.apply({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                       "metadata": {"name": "%s.%s" % (plural, d["group"])},
                       "spec": {"group": d["group"], "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                                "versions": [{"name": d["version"], "served": True, "storage": True, "schema": schema}]}})
    until(lambda: all(api.find(api.path(v, k, "default")) for v, k in (("monitoring.coreos.com/v1", "PodMonitor"),
                                                                     ("monitoring.googleapis.com/v1", "PodMonitoring"))), 30)
    api.merge("/api/v1/nodes/node0", {"metadata": {"labels": {"cloud.google.com/gke-spot": "true"}}})
    for name in ("gke", "prometheus"):
        overlay(name)


def case_sweep():
    """Four pods share sixteen trials; one of them is deleted. The table is the one of qring sweep here."""
    at = time.monotonic()
    objects = read("sweep.yaml", "auth-sweep")
    with open(work + "/sweep.json", "w", encoding="utf-8") as f:
        f.write(next(d for d in objects if d["kind"] == "ConfigMap")["data"]["job.json"])
    qring("sweep", work + "/sweep.json", "--out", work + "/sweep")
    apply(objects)
    pods = until(lambda: [p for p in api.list("v1", "Pod", "default", "app.kubernetes.io/component=sweep") if p["status"]["phase"] == "Running"], 60)
    if pods:
        api.delete("%s/%s" % (PODS, pods[0]["metadata"]["name"]), gracePeriodSeconds=0)
    path = api.path_of(next(d for d in objects if d["kind"] == "Job"))
    done = until(lambda: any(c["type"] == "Complete" and c["status"] == "True"
                             for c in (api.find(path) or {}).get("status", {}).get("conditions") or []), 180, 1)
    check("sweep: the Job is complete", done)
    with open(work + "/sweep/sweep.csv", "rb") as f:
        same = stored("auth-sweep", "qcnn-sweep/sweep.csv") == f.read()
    check("sweep: the table in the bucket is that of qring sweep here", same)
    say("sweep: complete")
    rows.append({"manifest": "sweep", "killed": "yes" if pods else "no", "finished": "yes" if done else "no", "digest": "=" if same else "other",
                 "seconds": "%.0f" % (time.monotonic() - at)})
    remove(objects)


CASES = {name[5:]: case for name, case in list(globals().items()) if name.startswith("case_")}


def clear():
    for kind in ("kubeflow.org/v1/namespaces/default/tfjobs", "trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs",
                 "jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets", "batch/v1/namespaces/default/jobs",
                 "apps/v1/namespaces/default/statefulsets", "networking.k8s.io/v1/namespaces/default/networkpolicies"):
        api.delete("/apis/" + kind, propagationPolicy="Background")
    until(lambda: not api.list("v1", "Pod", "default"), 60)


def main():
    helpers = []
    try:
        helpers.append(outside())
        api.merge("/api/v1/namespaces/default", {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}})
        for name in sys.argv[4:] or CASES:
            try:
                CASES[name]()
            except Exception as e: # pylint: disable=broad-except
                counts["failed"] += not isinstance(e, Stop)
                print("not so: %s broke off %s" % (name, "" if isinstance(e, Stop) else traceback.format_exc()), flush=True)
                clear()
    except Stop:
        pass
    for p in helpers:
        p.terminate()
    table()
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    return 1 if counts["failed"] else 0


sys.exit(main())
