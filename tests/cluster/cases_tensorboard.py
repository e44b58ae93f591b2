"""Case of tests/cluster/e2e: TensorBoard through a forwarded port, with the image of
tests/cluster/tensorboard/image."""
import json
import struct
import subprocess
import time
import urllib.request

from kube import until
from objects import apply, bucket_rules, read, remove
from rings import Job, check_end
from world import STORE, Stop, api, check, here, images, log_line, pod_path, run, work

RUNS = [".", "train", "validation"] # the first has the model, for the graph tab


def forwarded(service, port):
    """Starts kubectl port-forward; returns the process and its local address."""
    command = ["kubectl", "port-forward", "-n", here.space, "service/" + service, ":%d" % port]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    line = process.stdout.readline()
    return process, line.split(" -> ")[0].rpartition(" ")[2] if line.startswith("Forwarding from") else None


def curve(address, run_, tag):
    with urllib.request.urlopen("http://%s/data/plugin/scalars/scalars?run=%s&tag=%s" % (address, run_, tag), timeout=20) as reply:
        return [(step, value) for _, step, value in json.load(reply)]


def runs(address):
    with urllib.request.urlopen("http://%s/data/runs" % address, timeout=20) as reply:
        return sorted(json.load(reply))


def rounded(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def case_tensorboard():
    """deploy/jobs/tensorboard.yaml through a forwarded port: its runs are those of the pods, its
    values those of qring run."""
    ring = Job("tensorboard", "app.kubernetes.io/component=train")
    logs = "gs://%s/qcnn/logs" % ring.bucket
    trained = bucket_rules(read("qcnn.yaml", ring.bucket, QRING_WEIGHTS="gs://%s/qcnn/weights.h5" % ring.bucket, QRING_LOGDIR=logs))
    apply(trained)
    objects = read("tensorboard.yaml", ring.bucket, STORAGE_EMULATOR_HOST="http://" + STORE)
    run("ctr", "-n", "k8s.io", "images", "import", images + "/tensorboard/image.tar")
    check_end(ring, "tutorial")
    at = time.monotonic()
    apply(objects)
    path = api.path_of(next(d for d in objects if d["kind"] == "Deployment"))
    up = until(lambda: (api.find(path) or {}).get("status", {}).get("availableReplicas"), 120)
    if not check("tensorboard: its pod is ready", up):
        for p in api.list("v1", "Pod", here.space, "app.kubernetes.io/name=qcnn-tensorboard"):
            print(json.dumps(p["status"])[:1500], api.ask("GET", pod_path(p["metadata"]["name"] + "/log?tailLines=20")), flush=True)
        raise Stop
    log_line("tensorboard: ready after %.1f s" % (time.monotonic() - at))
    process, address = forwarded("qcnn-tensorboard", 6006)
    try:
        check("tensorboard: kubectl forwards a port", address, stop=True)
        until(lambda: runs(address) == RUNS, 60, 1)
        found = runs(address)
        check("tensorboard: /data/runs has the runs of the bucket: %s" % found, found == RUNS, stop=True)
        with open(work + "/tutorial/steps.jsonl", encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        want = [(d["step"], rounded(d["loss"])) for d in lines if d["kind"] == "TRAIN"]
        got = until(lambda: curve(address, "train", "batch_loss") == want and want, 60, 1)
        shown = len(curve(address, "train", "batch_loss"))
        check("tensorboard: batch_loss equals qring run's at each step (%d of %d steps)" % (shown, len(want)), got)
        log_line("tensorboard: %s, %d values of batch_loss, equal to qring run's" % (found, shown))
    finally:
        process.kill()
    ring.row["seconds"] = "%.0f" % (time.monotonic() - ring.began)
    remove(trained + objects)
