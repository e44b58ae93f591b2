"""Case of tests/cluster/e2e: one run in a queue of Kueue, scaled from 1 to 4 pods to 1, resized,
evicted, suspended, its image updated. tests/cluster/draw draws the samples."""
import json
import os
import shutil
import subprocess
import threading
import time

import yaml

from kube import Refused, until
from objects import adapt, apply, bucket_rules, remove, with_large_job
from rings import Job, check_end, evict
from world import METADATA, STORE, api, check, epochs, here, images, log_line, pod_path, run, work

KUEUE = "kueue.x-k8s.io/v1beta2"
POD = 100 # thousandths of a processor that a pod requests
TRAIN = "app.kubernetes.io/component=train"


class Record(threading.Thread):
    """Samples the numbers of pods, workers, threads and steps about twice a second; records
    events."""
    def __init__(self, ring, path):
        super().__init__(daemon=True)
        self.ring, self.space, self.path, self.lines, self.over = ring, here.space, path, [], threading.Event()
        self.began = time.monotonic()

    def line(self, **what):
        self.lines.append({"seconds": round(time.monotonic() - self.began, 2), **what})

    def run(self):
        here.space = self.space
        while not self.over.wait(0.4):
            try:
                pods = [p for p in self.ring.pods().values() if p["status"].get("phase") == "Running" and "deletionTimestamp" not in p["metadata"]]
            except (OSError, Refused):
                continue
            members, threads, steps = ([int(self.ring.metric(p, "qring_" + of) or 0) for p in pods] for of in ("members", "threads", "step"))
            self.line(pods=len(pods), workers=max(members, default=0), threads=sum(threads), **({"step": max(steps)} if any(steps) else {}))

    def event(self, what):
        self.line(event=what)

    def end(self):
        self.over.set()
        self.join()
        with open(self.path, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(line) + "\n" for line in self.lines)


def queue_objects(pods):
    """The queue's objects, with quota for that many pods."""
    resource = {"name": "cpu", "nominalQuota": "%dm" % (POD * pods)}
    return [{"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "any"}},
            {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": "shared"},
             "spec": {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": [
                 {"name": "any", "resources": [resource, {"name": "memory", "nominalQuota": "64Gi"}]}]}]}},
            {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": {"name": "my-queue"}, "spec": {"clusterQueue": "shared"}}]


def set_stop_policy(policy):
    api.merge(api.path(KUEUE, "ClusterQueue", None, "shared"), {"spec": {"stopPolicy": policy}})


def other_job(pods):
    """Another Job of the queue, which needs that many pods at once."""
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
           "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
           "containers": [{"name": "pause", "image": "localhost/pause:1", "imagePullPolicy": "Never", "resources": {"requests": {"cpu": "%dm" % POD}},
                           "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "other", "labels": {"kueue.x-k8s.io/queue-name": "my-queue"}},
            "spec": {"completions": pods, "parallelism": pods, "template": {"spec": pod}}}


def is_suspended(name):
    return api.ask("GET", api.path("batch/v1", "Job", here.space, name))["spec"].get("suspend", False)


def container_status(pod):
    return pod["status"].get("containerStatuses", [{}])[0]


def resize_pod(ring, record, cpu, threads):
    """kubectl patch --subresource resize: the container continues, and its number of threads
    follows."""
    pod = ring.pods()[0]
    name, before = pod["metadata"]["name"], container_status(pod)
    at = time.monotonic()
    record.event("pod 0: %s CPU" % cpu.replace("500m", "0.5"))
    api.ask("PATCH", pod_path(name + "/resize"), {"spec": {"containers": [{"name": "qringd", "resources": {"limits": {"cpu": cpu}}}]}},
            "application/strategic-merge-patch+json")
    good = until(lambda: ring.metric(ring.pods()[0], "qring_threads") == threads, 60, 0.1)
    took = time.monotonic() - at
    after = container_status(ring.pods()[0])
    check("resized to %s CPU: %d threads, not %s" % (cpu, threads, ring.metric(ring.pods()[0], "qring_threads")), good, stop=True)
    check("resized in place", (after["containerID"], after["restartCount"]) == (before["containerID"], before["restartCount"]))
    log_line("kueue: resized to %s CPU: %d threads after %.1f s" % (cpu, threads, took))


def update_images(ring, record, image):
    """kubectl set image on each pod, one after the other: a Job's template is immutable, a pod's
    image is not."""
    n = len(ring.pods())
    for index in range(n):
        pod = ring.pods()[index]
        before = container_status(pod)
        record.event("pod %d: other image" % index)
        api.ask("PATCH", pod_path(pod["metadata"]["name"]), {"spec": {"containers": [{"name": "qringd", "image": image}]}},
                "application/strategic-merge-patch+json")
        updated = lambda i=index, b=before: container_status(ring.pods()[i]).get("restartCount") == b["restartCount"] + 1 and \
            "running" in container_status(ring.pods()[i])["state"] and container_status(ring.pods()[i])["imageID"] != b["imageID"]
        check("image of pod %d is updated" % index, until(updated, 60), stop=True)
        check("the pod is the same", ring.pods()[index]["metadata"]["uid"] == pod["metadata"]["uid"])
        ring.reaches(n, "image of pod %d updated" % index)


def make_volume():
    """Creates a folder of the node for /out, which outlives the pods; returns it and the objects of
    its claim."""
    path = os.path.dirname(os.environ["KUBECONFIG"]) + "/kueue"
    shutil.rmtree(path, ignore_errors=True)
    os.mkdir(path)
    os.chmod(path, 0o777)
    size = {"storage": "1Gi"}
    return path, [{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "kueue"},
                   "spec": {"capacity": size, "accessModes": ["ReadWriteMany"], "storageClassName": "", "hostPath": {"path": path}}},
                  {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "out"},
                   "spec": {"resources": {"requests": size}, "accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": "kueue"}}]


def case_kueue():
    """Kueue is installed for this case only: its webhooks receive every pod of the cluster."""
    manifest = images + "/kueue.yaml"
    run("ctr", "-n", "k8s.io", "images", "import", images + "/next/image.tar")
    at = time.monotonic()
    run("kubectl", "apply", "--server-side", "-f", manifest)
    try:
        ready = until(lambda: subprocess.run(["kubectl", "wait", "-n", "kueue-system", "--for=condition=Available", "deployment", "--all", "--timeout=1s"],
                                             capture_output=True, check=False).returncode == 0, 180, 1)
        check("Kueue is ready", ready, stop=True)
        queue = queue_objects(1)
        check("Kueue accepts a queue", until(lambda: apply(queue) or True, 60, 1), stop=True)
        log_line("kueue: installed after %.0f s" % (time.monotonic() - at))
        try:
            run_in_queue(queue)
        finally: # Kueue's finalizers need Kueue
            for name in ("qcnn", "other"):
                api.delete(api.path("batch/v1", "Job", here.space, name), propagationPolicy="Background")
            check("no workload remains", until(lambda: not api.list(KUEUE, "Workload", here.space), 60))
            remove(queue)
    finally:
        subprocess.run(["kubectl", "delete", "-f", manifest, "--ignore-not-found", "--timeout=60s"], capture_output=True, check=False)


def run_in_queue(queue):
    ring = Job("kueue", TRAIN)
    ring.row["manifest"] = "job, Kueue"
    ring.start_limit_s = 12 # a ring without a number of workers waits ten seconds for others
    with open("tests/chart/kustomize/kueue.yaml", encoding="utf-8") as f:
        objects = [d for d in yaml.safe_load_all(f) if d]
    weights = "gs://%s/qcnn/weights.h5" % ring.bucket
    objects = bucket_rules(with_large_job(adapt(objects, ring.bucket, QRING_EPOCHS=epochs, QRING_WEIGHTS=weights)))
    out, claim = make_volume()
    for d in objects:
        if d["kind"] == "Job":
            d["spec"].update(completions=1, parallelism=1)
            pod = d["spec"]["template"]["spec"]
            pod["containers"][0]["resources"]["limits"]["cpu"] = "500m"
            pod["volumes"] = [{"name": "out", "persistentVolumeClaim": {"claimName": "out"}} if v["name"] == "out" else v for v in pod["volumes"]]
    objects = claim + objects
    apply(objects)
    uid = api.find(ring.path)["metadata"]["uid"]
    record = Record(ring, work + "/kueue.jsonl")
    record.start()
    try:
        run_events(ring, record, queue)
        check_end(ring, "alone")
        record.event("done")
    finally:
        record.end()
    job = api.find(ring.path)
    check("the Job is the same, without a failed pod: %s" % job["status"], job["metadata"]["uid"] == uid and not job["status"].get("failed"))
    check_steps(ring, out)
    remove(objects)


def run_events(ring, record, queue):
    ring.reaches(1, "admitted", "trained")
    resize_pod(ring, record, "2", 2)
    time.sleep(8) # long enough for the picture
    resize_pod(ring, record, "500m", 1)
    time.sleep(4)
    # More pods than quota: the new ones wait, and the ring trains.
    record.event("scaled to 4")
    ring.scale(4)
    gated = lambda: [p for p in api.list("v1", "Pod", here.space, TRAIN) if p["spec"].get("schedulingGates")]
    check("three pods wait for quota", until(lambda: len(gated()) == 3, 30), stop=True)
    at = ring.steps()
    time.sleep(5)
    check("the ring trains while they wait", ring.steps() > at and ring.metric(ring.pods()[0], "qring_members") == 1)
    record.event("quota for 4")
    queue[:] = queue_objects(4)
    apply(queue)
    ring.reaches(4, "quota for 4", "scaled")
    record.event("pod 1 evicted")
    ring.lose(1, 4, "evicted", "evicted", evict)
    record.event("queue stopped")
    set_stop_policy("HoldAndDrain")
    check("the queue is stopped: no pod remains", until(lambda: is_suspended("qcnn") and not ring.pods(), 60), stop=True)
    step = ring.latest().get("step", 0)
    time.sleep(3)
    record.event("queue resumed")
    set_stop_policy("None")
    ring.reaches(4, "the queue is resumed")
    check("from the checkpoint", step > 0 and all(ring.metric(p, "qring_step") >= step for p in ring.pods().values()))
    update_images(ring, record, "docker.io/library/qring:next")
    # Fewer pods: their quota goes to another Job of the queue.
    apply([other_job(3)])
    time.sleep(2)
    check("another Job waits", is_suspended("other"))
    record.event("scaled to 1")
    at = time.monotonic()
    ring.scale(1)
    good = until(lambda: ring.members(1), 60)
    if not good:
        ring.print_pods()
    check("scaled to 1: one worker trains", good, stop=True)
    ring.row["scaled"] += " %.1f" % (time.monotonic() - at)
    check("the other Job has its quota", until(lambda: not is_suspended("other"), 60))
    api.delete(api.path("batch/v1", "Job", here.space, "other"), propagationPolicy="Background")
    time.sleep(2)
    resize_pod(ring, record, "2", 2) # shortens the rest
    check("training has not ended yet (QR_EPOCHS)", not ring.latest().get("done"))


def check_steps(ring, out):
    """Checks that steps.jsonl in the volume has each step once and equals the undisturbed run's."""
    with open(out + "/steps.jsonl", encoding="utf-8") as f, open(work + "/alone/steps.jsonl", encoding="utf-8") as g:
        written, wanted = f.read(), g.read()
    steps = [json.loads(line)["step"] for line in written.splitlines() if '"kind":"TRAIN"' in line]
    check("each step once, in order", steps and steps == list(range(1, len(steps) + 1)))
    check("steps.jsonl equals the undisturbed run's", written == wanted)
    env = dict(os.environ, STORAGE_EMULATOR_HOST=STORE, GCE_METADATA_HOST=METADATA)
    got = subprocess.run([os.environ["QR_BIN"] + "/qring", "verify", out, "--checkpoints", "gs://%s/qcnn/weights.checkpoints" % ring.bucket,
                          "--steps", "%d..%d" % (len(steps) - 9, len(steps))], capture_output=True, text=True, check=False, env=env)
    check("qring verify: %s" % (got.stdout + got.stderr)[-800:], got.returncode == 0)
    log_line("kueue: %d steps, each once; qring verify: %s" % (len(steps), got.stdout.strip().splitlines()[-1] if got.stdout else ""))
