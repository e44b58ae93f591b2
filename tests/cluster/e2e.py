#!/usr/bin/python3
"""The cases of tests/cluster/e2e, on the node: e2e.py FOLDER MANIFESTS EPOCHS [CASE...]. FOLDER/alone is the undisturbed run."""
import copy
import json
import os
import re
import subprocess
import sys
import time
import traceback
import urllib.error
import urllib.request

import yaml

from kube import Api, Refused, until

work, manifests, epochs = sys.argv[1:4]
here = os.path.dirname(os.path.abspath(__file__))
api = Api(os.environ["KUBECONFIG"])
counts = {"passed": 0, "failed": 0, "skipped": 0}
STORE = "10.200.0.10:4443"
PODS = "/api/v1/namespaces/default/pods"
TFJOB = "kubeflow.org/v1"
began = time.monotonic()


class Stop(Exception):
    """What the rest of a case would stand on is not so."""


def say(what):
    print("%5.0f s  %s" % (time.monotonic() - began, what), flush=True)


def check(what, good, stop=False):
    counts["passed" if good else "failed"] += 1
    if not good:
        print("not so:", what, flush=True)
        if stop:
            raise Stop
    return good


def fetch(url, token=None):
    request = urllib.request.Request(url, headers={"Authorization": "Bearer " + token} if token else {"Metadata-Flavor": "Google"})
    with urllib.request.urlopen(request, timeout=10) as reply:
        return reply.read()


def token():
    return json.loads(fetch("http://%s/computeMetadata/v1/instance/service-accounts/default/token" % STORE))["access_token"]


def stored(bucket, name):
    """An object's bytes, or None."""
    try:
        return fetch("http://%s/storage/v1/b/%s/o/%s?alt=media" % (STORE, bucket, name.replace("/", "%2F")), token())
    except urllib.error.HTTPError as e:
        if e.code == 404:
            return None
        raise


def store(bucket, name, data):
    url = "http://%s/upload/storage/v1/b/%s/o?uploadType=media&name=%s" % (STORE, bucket, name.replace("/", "%2F"))
    request = urllib.request.Request(url, data=data, headers={"Authorization": "Bearer " + token()})
    urllib.request.urlopen(request, timeout=10).close()


class Ring:
    """What a manifest starts, as it changes: its pods by their index, and how its kind is scaled."""

    def __init__(self, name, kind, labels, bucket):
        self.name, self.kind, self.labels, self.bucket, self.pauses = name, kind, labels, bucket, []

    def pods(self):
        found = {}
        for p in api.list("v1", "Pod", "default", self.labels):
            index = p["metadata"]["labels"].get("training.kubeflow.org/replica-index")
            if index is None:
                index = (p["spec"].get("hostname") or p["metadata"]["name"]).rsplit("-", 1)[1]
            if int(index) not in found or "deletionTimestamp" not in p["metadata"]: # beside the one that it replaces
                found[int(index)] = p
        return found

    def sees(self, pod, name):
        try:
            text = fetch("http://%s:8080/metrics" % pod["status"]["podIP"]).decode()
            return float(re.search(r"^%s (.*)$" % name, text, re.M)[1])
        except (OSError, KeyError, TypeError, ValueError):
            return None

    def members(self, n):
        """Exactly n pods, each of which counts n members."""
        pods = self.pods()
        return sorted(pods) == list(range(n)) and all(self.sees(p, "qring_members") == n for p in pods.values())

    def steps(self):
        return max([self.sees(p, "qring_step") or 0 for p in self.pods().values()], default=0)

    def reaches(self, n, what):
        good = until(lambda: self.members(n), 180)
        if not good:
            self.tell()
        check("%s: %s: %d members" % (self.name, what, n), good, stop=True)
        at = self.steps()
        check("%s: %s: they train" % (self.name, what), until(lambda: self.steps() > at + 10, 120), stop=True)
        pause = self.sees(self.pods()[0], "qring_last_pause_seconds")
        say("%s: %s: %d members, step %d, the last pause took %.2f s" % (self.name, what, n, self.steps(), pause))
        self.pauses.append(pause)
        check("%s: %s: it is not over yet (QR_EPOCHS)" % (self.name, what), not self.latest().get("done"), stop=True)

    def latest(self):
        return json.loads(stored(self.bucket, "qcnn/weights.checkpoints/LATEST") or "{}")

    def lose(self, index, what, how):
        old = self.pods()[index]["metadata"]
        how("%s/%s" % (PODS, old["name"]))
        good = until(lambda: self.pods().get(index, {"metadata": old})["metadata"]["uid"] != old["uid"], 120)
        if not good:
            self.tell()
        check("%s: pod %d has a successor before it is all over (QR_EPOCHS)" % (self.name, index), good, stop=True)
        self.reaches(4, "pod %d %s" % (index, what))

    def tell(self):
        for index, p in sorted(self.pods().items()):
            status = p.get("status", {})
            what = json.dumps(status.get("containerStatuses") or status.get("conditions"))
            print("  pod %d: %s %s" % (index, status.get("phase"), what[:600]))
            events = api.ask("GET", "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=" + p["metadata"]["name"])
            for e in events["items"][-4:]:
                print("    event:", e["message"][:200])
            try:
                print("    " + api.ask("GET", "%s/%s/log?tailLines=4" % (PODS, p["metadata"]["name"])).replace("\n", "\n    "), flush=True)
            except (OSError, Refused) as e:
                print("    no log:", e)


class StatefulSet(Ring):
    def scale(self, n):
        api.merge("/api/v1/namespaces/default/configmaps/qcnn", {"data": {"replicas": str(n)}})
        api.merge("/apis/apps/v1/namespaces/default/statefulsets/qcnn/scale", {"spec": {"replicas": n}})

    def finished(self):
        """Its pods begin again when they have ended: worker 0 has ended with 0 once."""
        pod = self.pods().get(0, {})
        states = [s for c in pod.get("status", {}).get("containerStatuses") or [] for s in (c.get("state", {}), c.get("lastState", {}))]
        return any(s.get("terminated", {}).get("exitCode") == 0 for s in states)


class Jobs(Ring):
    """The Indexed Job of qcnn.yaml for a cluster that knows none: a Job an index, with what the index would have given its pod."""

    def take(self, job):
        self.job = job
        for key in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "maxFailedIndexes"):
            job["spec"].pop(key)
        job["spec"].update(completions=1, parallelism=1)

    def path(self, index):
        return "/apis/batch/v1/namespaces/default/jobs/qcnn-%d" % index

    def scale(self, n):
        api.merge("/api/v1/namespaces/default/configmaps/qcnn", {"data": {"replicas": str(n)}})
        for i in range(n):
            if not api.find(self.path(i)):
                job = copy.deepcopy(self.job)
                job["metadata"]["name"] = "qcnn-%d" % i
                pod = job["spec"]["template"]["spec"]
                pod["hostname"] = "qcnn-%d" % i
                pod["containers"][0]["env"].append({"name": "JOB_COMPLETION_INDEX", "value": str(i)})
                api.create(job)
        i = n
        while api.delete(self.path(i), propagationPolicy="Background"):
            i += 1

    def finished(self):
        return (api.find(self.path(0)) or {}).get("status", {}).get("succeeded") == 1


class TFJob(Ring):
    path = "/apis/%s/namespaces/default/tfjobs/qcnn" % TFJOB

    def scale(self, n):
        api.merge(self.path, {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": n}}}})

    def conditions(self):
        return [c["type"] for c in (api.find(self.path) or {}).get("status", {}).get("conditions", []) if c["status"] == "True"]

    def finished(self):
        c = self.conditions()
        if "Failed" in c:
            raise Stop
        return "Succeeded" in c

    def peers(self, index):
        """How many workers a pod's TF_CONFIG names: as many as there were when the pod was made."""
        env = self.pods()[index]["spec"]["containers"][0]["env"]
        return len(json.loads(next(e["value"] for e in env if e["name"] == "TF_CONFIG"))["cluster"]["worker"])


def read(file, bucket, **more):
    """The objects of a manifest for this cluster: bucket and weights' name are ours, two processors are enough for all its pods, their
    grace period is 10 s, and the variables that say where storage is and what to train are the test's. Nothing else changes."""
    with open("%s/%s" % (manifests, file), encoding="utf-8") as f:
        text = f.read().replace("my-bucket", bucket).replace("qcnn_weights.h5", "qcnn/weights.h5")
    objects = [d for d in yaml.safe_load_all(text) if d]
    for d in objects:
        d["metadata"].setdefault("namespace", "default")
        spec = d.get("spec", {})
        for template in [spec.get("template")] + [r["template"] for r in spec.get("tfReplicaSpecs", {}).values()]:
            if template: # a kubelet of 1.20 may wait for it, twice even, though the worker is out within a second
                template["spec"]["terminationGracePeriodSeconds"] = 10
            for c in template["spec"]["containers"] if template else []:
                c.setdefault("resources", {}).setdefault("requests", {})["cpu"] = "100m"
                env = {"STORAGE_EMULATOR_HOST": STORE, "GCE_METADATA_HOST": STORE, **more}
                c["env"] = (c.get("env") or []) + [{"name": k, "value": v} for k, v in env.items()]
    return objects


def absent(file):
    there = os.path.exists("%s/%s" % (manifests, file))
    if not there:
        counts["skipped"] += 1
        print("SKIP there is no %s in %s" % (file, manifests), flush=True)
    return not there


def apply(objects):
    for d in objects:
        if d["kind"] == "TFJob":
            name = d["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"].get("serviceAccountName")
            if name and not api.find("/api/v1/namespaces/default/serviceaccounts/" + name):
                api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}})
        api.apply(d)


def remove(objects):
    for d in objects:
        api.delete(api.path_of(d), propagationPolicy="Background")
    check("everything is gone", until(lambda: not api.list("v1", "Pod", "default"), 90))


def big(objects):
    """With the job of the undisturbed run where the manifest has a job."""
    for d in objects:
        if d["kind"] == "ConfigMap":
            with open("deploy/jobs/qcnn-pure-12.json", encoding="utf-8") as f:
                d["data"]["job.json"] = f.read()
    return objects


def qring(*args):
    return subprocess.run([os.environ["QR_BIN"] + "/qring", *args], check=True, capture_output=True, text=True).stdout


def secret():
    return yaml.safe_load(qring("certs", "qcnn", "--secret"))


def disturbed(ring):
    """The issue's sequence, from two workers that train to one that finishes."""
    ring.reaches(2, "started")
    ring.scale(4)
    ring.reaches(4, "scaled from 2 to 4")
    if ring.kind == "TFJob":
        said = [ring.peers(i) for i in range(4)]
        check("the older pods' TF_CONFIG is stale: %s" % said, said == [2, 2, 4, 4])
    ring.lose(2, "deleted by force", lambda pod: api.delete(pod, gracePeriodSeconds=0))
    ring.lose(1, "evicted", lambda pod: api.create({
        "apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": pod.rsplit("/", 1)[1], "namespace": "default"}},
        pod + "/eviction"))
    at = time.monotonic()
    ring.scale(1)
    good = until(lambda: ring.sees(ring.pods().get(0, {}), "qring_members") == 1, 120)
    check("%s: scaled from 4 to 1: it trains alone" % ring.name, good and not ring.latest().get("done"), stop=True)
    say("%s: scaled from 4 to 1: alone after %.1f s, step %d" % (ring.name, time.monotonic() - at, ring.steps()))
    ends(ring, work + "/alone")
    check("%s: the other pods are gone" % ring.name, until(lambda: sorted(ring.pods()) == [0], 120))


def ends(ring, folder, seconds=900):
    if not check("%s: it has finished" % ring.name, until(ring.finished, seconds, 1)):
        ring.tell()
        raise Stop
    with open(folder + "/result.json", encoding="utf-8") as f:
        want = json.load(f)["state_digest"]
    latest = ring.latest()
    check("%s: done" % ring.name, latest.get("done"))
    check("%s: digest %s, qring run %s" % (ring.name, latest.get("digest"), want), latest.get("digest") == want)
    with open(folder + "/weights.h5", "rb") as f:
        check("%s: the weights in the bucket are those of qring run" % ring.name, stored(ring.bucket, "qcnn/weights.h5") == f.read())
    pauses = ", pauses " + " ".join("%.2f" % p for p in ring.pauses) if ring.pauses else ""
    say("%s: finished, digest %s%s" % (ring.name, latest.get("digest"), pauses))


def case_statefulset():
    if absent("statefulset.yaml"):
        return
    ring = StatefulSet("statefulset", "StatefulSet", "app.kubernetes.io/component=train", "auth-statefulset")
    objects = big(read("statefulset.yaml", ring.bucket, QRING_EPOCHS=epochs)) + [secret()]
    apply(reversed(objects))
    disturbed(ring)
    said = until(lambda: "already trained" in api.ask("GET", "%s/qcnn-0/log" % PODS), 60, 1)
    check("statefulset: what has ended is begun again, and ends at once", said)
    remove(objects)


def case_job():
    ring = Jobs("job", "Job", "app.kubernetes.io/component=train", "auth-job")
    objects = big(read("qcnn.yaml", ring.bucket, QRING_EPOCHS=epochs, QRING_WEIGHTS="gs://auth-job/qcnn/weights.h5"))
    ring.take(next(d for d in objects if d["kind"] == "Job"))
    apply(d for d in objects if d["kind"] != "Job")
    ring.scale(2)
    disturbed(ring)
    ring.scale(0)
    remove([d for d in objects if d["kind"] != "Job"])


def pure(bucket):
    """The job of the undisturbed run, where a TFJob's worker can read it: the tutorial's manifest has no volume."""
    with open("deploy/jobs/qcnn-pure-12.json", "rb") as f:
        store(bucket, "job.json", f.read())
    return "gs://%s/job.json" % bucket


def case_tfjob():
    """The tutorial's manifest, restartPolicy Never: who is asked to leave must exit with 0."""
    ring = TFJob("tfjob", "TFJob", "app=qcnn", "auth-tfjob")
    objects = read("tfjob.yaml", ring.bucket, QRING_EPOCHS=epochs, QRING_EXIT_ON_DRAIN="0", QRING_JOB=pure(ring.bucket))
    apply(objects)
    disturbed(ring)
    remove(objects)


def case_last():
    """Three workers to their end: the tutorial's own model and epochs; names that exist once a pod is ready; worker 0 is the last to exit,
    as the operator takes the others' pods away at that moment (cleanPodPolicy Running); then inference."""
    out = work + "/tutorial"
    qring("run", "deploy/jobs/qcnn.json", "-n", "1", "--fresh", "--out", out)
    ring = TFJob("last", "TFJob", "app=qcnn", "auth-last")
    objects = read("tfjob.yaml", ring.bucket)
    for d in objects:
        d["spec"]["runPolicy"]["cleanPodPolicy"] = "Running"
        worker = d["spec"]["tfReplicaSpecs"]["Worker"]
        worker["replicas"] = 3
        worker["template"]["spec"]["containers"][0]["readinessProbe"] = {
            "httpGet": {"path": "/readyz", "port": 8080}, "periodSeconds": 1, "initialDelaySeconds": 4}
    apply(objects)
    unready = named = 0
    def started():
        nonlocal unready, named
        with open("build/cluster/hosts/cluster", encoding="ascii") as f:
            names = f.read()
        pods = ring.pods()
        for i, p in pods.items():
            ready = any(c["type"] == "Ready" and c["status"] == "True" for c in p.get("status", {}).get("conditions") or [])
            up = any(c.get("state", {}).get("running") for c in p.get("status", {}).get("containerStatuses") or [])
            if up and not ready:
                unready += 1
                named += " qcnn-worker-%d." % i in names
        return ring.latest().get("done") or "Failed" in ring.conditions()
    until(started, 180, 0.1)
    check("last: pods ran before they were ready (%d looks), and had no name then (%d)" % (unready, named), unready > 0 and named == 0)
    ends(ring, out, 60)
    ended = {i: p["status"]["containerStatuses"][0]["state"].get("terminated", {}) for i, p in ring.pods().items()}
    check("last: all three ended with 0: %s" % {i: t.get("exitCode") for i, t in ended.items()},
          [ended.get(i, {}).get("exitCode") for i in range(3)] == [0, 0, 0])
    at = {i: t.get("finishedAt", "") for i, t in ended.items()}
    check("last: worker 0 was the last: %s" % at, at.get(0) == max(at.values(), default=None))
    inference(ring, out)
    remove(objects)


def inference(ring, out):
    objects = read("infer.yaml", ring.bucket, QRING_WEIGHTS="gs://%s/qcnn/weights.h5" % ring.bucket)
    job = next(d for d in objects if d["kind"] == "Job")
    job["spec"].pop("podFailurePolicy", None)
    apply(objects)
    path = api.path_of(job)
    check("infer: the Job has completed", until(lambda: (api.find(path) or {}).get("status", {}).get("succeeded") == 1, 90))
    pods = api.list("v1", "Pod", "default", "app.kubernetes.io/component=infer")
    said = api.ask("GET", "%s/%s/log" % (PODS, pods[0]["metadata"]["name"])) if pods else ""
    here_said = qring("infer", "deploy/jobs/qcnn.json", "--weights", out + "/weights.h5")
    check("infer: the pod prints what qring infer prints here", here_said.strip() and here_said.strip() in said)
    say("infer: " + here_said.strip().splitlines()[-1])
    for d in objects:
        api.delete(api.path_of(d), propagationPolicy="Background")


def case_refused():
    """restartPolicy ExitCode and a permanent code: the TFJob fails at once with the worker's last words, and no pod is made again."""
    ring = TFJob("refused", "TFJob", "app=qcnn", "auth-refused")
    objects = read("tfjob.yaml", ring.bucket, QRING_EPOCHS="none")
    for d in objects:
        d["spec"]["tfReplicaSpecs"]["Worker"]["restartPolicy"] = "ExitCode"
    apply(objects)
    check("refused: the TFJob has failed", until(lambda: "Failed" in ring.conditions(), 90, 0.5))
    said = [c["message"] for c in (api.find(ring.path) or {}).get("status", {}).get("conditions", []) if c["type"] == "Failed"]
    check("refused: by exit code 2, with what the worker said: %s" % said, said and re.search("exit code 2: .*is not a number", said[0]))
    with open(work + "/operator.log", encoding="utf-8") as f:
        check("refused: no pod was made twice", f.read().split("Created")[-1].count("made pod") == 2)
    say("refused: " + (said or ["nothing"])[0])
    remove(objects)


def case_restarts():
    """restartPolicy ExitCode, every worker's success: 143 is tried again, and no failure where a worker is scaled away."""
    if absent("tfjob-restarts.yaml"):
        return
    ring = TFJob("restarts", "TFJob", "app.kubernetes.io/component=train", "auth-restarts")
    objects = big(read("tfjob-restarts.yaml", ring.bucket, QRING_EPOCHS=epochs)) + [secret()]
    apply(reversed(objects))
    disturbed(ring)
    remove(objects)


def without(value, key):
    if isinstance(value, dict):
        return {k: without(v, key) for k, v in value.items() if k != key}
    return [without(v, key) for v in value] if isinstance(value, list) else value


def operate():
    """The operator's definition of a TFJob, without its CEL rules (1.23 and later), and its stand-in."""
    with open("tests/schemas/crd-tfjob.json", encoding="utf-8") as f:
        d = without(json.load(f), "x-kubernetes-validations")
    d.pop("status", None)
    api.apply(d)
    check("TFJob is served", until(lambda: api.find("/apis/%s/tfjobs" % TFJOB), 30), stop=True)
    log = open(work + "/operator.log", "w", encoding="utf-8")
    return subprocess.Popen([here + "/tfjob_operator.py", os.environ["KUBECONFIG"]], stdout=log, stderr=log)


CASES = {"statefulset": case_statefulset, "job": case_job, "tfjob": case_tfjob, "last": case_last,
         "refused": case_refused, "restarts": case_restarts}


def main():
    log = open(work + "/store.log", "w", encoding="utf-8")
    host, port = STORE.split(":")
    helpers = [subprocess.Popen(["/usr/bin/python3", "tests/fake/gcs.py", port, work + "/store.port", host], stdout=log, stderr=log)]
    try:
        check("there is a bucket", until(lambda: token(), 20), stop=True)
        helpers.append(operate())
        for name in sys.argv[4:] or CASES:
            try:
                CASES[name]()
            except Exception as e: # pylint: disable=broad-except
                counts["failed"] += not isinstance(e, Stop)
                print("not so: %s broke off %s" % (name, "" if isinstance(e, Stop) else traceback.format_exc()), flush=True)
                for path in ("/apis/%s/namespaces/default/tfjobs" % TFJOB, "/apis/batch/v1/namespaces/default/jobs",
                             "/apis/apps/v1/namespaces/default/statefulsets"):
                    api.delete(path, propagationPolicy="Background")
                until(lambda: not api.list("v1", "Pod", "default"), 60)
    except Stop:
        pass
    for p in helpers:
        p.terminate()
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    return 1 if counts["failed"] else 0


sys.exit(main())
