"""Cases of tests/cluster/e2e: qring.submit and qring.hybrid_job of lib/python, with Kubernetes'
Python client."""
import os
import shutil
import subprocess
import sys
import time

import numpy as np

import qring
from kube import until
from rings import Job
from world import METADATA, STORE, api, check, half, here, images, log_line, pod_path, run, work

KINDS = [("v1", "Secret"), ("v1", "ConfigMap"), ("v1", "Service"), ("v1", "ServiceAccount"), ("v1", "Pod"), ("batch/v1", "Job"),
         ("networking.k8s.io/v1", "NetworkPolicy"), ("policy/v1", "PodDisruptionBudget")]
# Storage settings of the pods, and of result() in this process
STORAGE = {"STORAGE_EMULATOR_HOST": STORE, "GCE_METADATA_HOST": METADATA}


def objects_of(name):
    """The objects that a run has in the cluster."""
    labels = "app.kubernetes.io/instance=" + name
    return ["%s/%s" % (kind, d["metadata"]["name"]) for group, kind in KINDS for d in api.list(group, kind, here.space, labels)]


def in_other_process(code):
    """Output of Python code in another process."""
    got = subprocess.run([sys.executable, "-c", "import qring\n" + code], capture_output=True, text=True, timeout=120, check=False)
    return got.stdout + got.stderr[-1500:]


def delete(handle):
    """Deletes a run; returns the seconds until none of its objects remains."""
    handle.delete()
    at = time.monotonic()
    done = until(lambda: not objects_of(handle.name), 90)
    check("%s: delete() removes all objects: %s" % (handle.name, objects_of(handle.name)), done)
    return time.monotonic() - at


def case_submit():
    """qring.submit: scaled to 4 while it trains, a pod deleted, attached from another process; same
    digest and weights as qring.run."""
    os.environ.update(STORAGE)
    job = qring.Job("deploy/jobs/qcnn-pure-12.json").set("train.epochs", int(half))
    handle = qring.submit(job, replicas=2, namespace=here.space, image="qring:0.1.0", name="submit", cpu="250m",
                          weights="gs://auth-submit/qcnn/weights.safetensors", env=STORAGE)
    ring = Job("qring.submit", "app.kubernetes.io/instance=submit", "auth-submit")
    check("submit: the state is pending at first", handle.state() == "pending")
    good = until(lambda: handle.state() == "running" and handle.metrics().get("qring_members") == 2 and handle.metrics().get("qring_step", 0) > 10, 180)
    if not check("submit: two workers train: %s %s" % (handle.state(), handle.metrics().get("qring_step")), good, stop=False):
        print("  %s\n%s" % (handle.pods(), handle.logs(lines=20)))
        return
    ring.row["trained"] = "%.1f" % (time.monotonic() - ring.began)
    check("submit: the log is readable", "step" in handle.logs() and not handle.logs().startswith("{"))
    at = time.monotonic()
    handle.scale(4)
    check("submit: four workers train", until(lambda: handle.metrics().get("qring_members") == 4, 180), stop=True)
    ring.row["scaled"] = "%.1f" % (time.monotonic() - at)
    old = ring.pods()[2]["metadata"]
    at = time.monotonic()
    api.delete(pod_path(old["name"]), gracePeriodSeconds=0)
    good = until(lambda: ring.pods().get(2, {"metadata": old})["metadata"]["uid"] != old["uid"] and handle.metrics().get("qring_members") == 4, 180)
    check("submit: the deleted pod is replaced, and four workers train", good, stop=True)
    ring.row["killed"] = "%.1f" % (time.monotonic() - at)
    output = in_other_process("h = qring.attach('submit', %r)\nprint(h.state(), h.job.name, int(h.metrics()['qring_members']))" % here.space)
    check("submit: attached by name from another process: %s" % output, output == "running %s 4\n" % job.name)
    at = time.monotonic()
    result = handle.result(timeout=900, out=work + "/submit")
    ring.row["finished"] = "%.1f" % (time.monotonic() - at)
    want = qring.run(job, out=work + "/run")
    check("submit: digest %s, qring.run %s" % (result.digest, want.digest), result.digest == want.digest)
    same = list(result.weights) == list(want.weights) and all(np.array_equal(result.weights[k], want.weights[k]) for k in want.weights)
    check("submit: the weights equal those of qring.run", same)
    same = all(np.isclose(value, want.metrics[key], rtol=1e-5) for key, value in result.metrics.items())
    check("submit: the losses equal those of qring.run to the digits of the log", same and "loss" in result.metrics)
    check("submit: the state is succeeded", handle.state() == "succeeded")
    ring.row["digest"] = result.digest[:8] + (" =" if result.digest == want.digest else " other")
    ring.row["seconds"] = "%.0f" % (time.monotonic() - ring.began)
    log_line("submit: digest %s; delete() took %.1f s" % (result.digest, delete(handle)))


# ---- functions that run in pods ----

SMALL = {"name": "inside", "seed": 1, "data": {"source": "none"}, "train": {"epochs": 30, "loss": "expectation"},
         "model": [{"layer": "quantum", "circuit": {"qubits": 4, "ansatz": "hardware-efficient"}, "readouts": ["Z0*Z1"]}]}


def train(epochs, job):
    """Reads two input channels, trains with qring.run, writes metrics, a checkpoint and a
    result."""
    x = np.load(qring.input_dir("samples") / "x.npy")
    label = (qring.input_dir("labels") / "labels.csv").read_text()
    for step in range(epochs):
        qring.log_metric("loss", 1 / (step + 1), step)
    found = qring.run(job)
    qring.save_checkpoint({"weights": found.weights, "epochs": epochs})
    (qring.results_dir() / "model.txt").write_text("as trained")
    print("trained", found.digest)
    try:
        with open("/usr/bin/here", "w", encoding="ascii"):
            writable = True
    except OSError:
        writable = False
    token = os.path.exists("/var/run/secrets/kubernetes.io/serviceaccount/token")
    return {"sum": float(x.sum()), "label": label, "digest": found.digest, "id": os.getuid(), "writable": writable, "token": token}


def read_checkpoint():
    return qring.load_checkpoint()


def fails(x):
    return 1 // x


def counts_to(n):
    """Counts from its checkpoint on; returns how often it was started."""
    at, starts = qring.load_checkpoint() or (0, 0)
    for i in range(at, n):
        qring.save_checkpoint((i + 1, starts + 1))
        qring.log_metric("i", i, i)
        time.sleep(0.2)
    return starts + 1


def submits(job, namespace):
    run = qring.submit(job, replicas=2, namespace=namespace, image="qring:0.1.0", name="inside", cpu="250m")
    digest = run.result(timeout=300).digest
    run.delete()
    return digest


def claim(name):
    """Creates a PersistentVolumeClaim backed by a folder of the node."""
    volume = "/api/v1/persistentvolumes/" + here.space
    until(lambda: not api.delete(volume), 60) # of an earlier run on this cluster
    folder = "/var/lib/" + here.space
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    size = {"storage": "1Gi"}
    api.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": here.space},
                "spec": {"capacity": size, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": folder}, "storageClassName": "",
                         "claimRef": {"namespace": here.space, "name": name}}}, "/api/v1/persistentvolumes")
    api.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": here.space},
                "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": size}, "volumeName": here.space}})


def account(name):
    """Creates a service account with the permissions of an ordinary user (ClusterRole edit) in the
    namespace."""
    api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": here.space}})
    api.create({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name, "namespace": here.space},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": here.space}]})
    return name


def job_of(name, **options):
    return qring.hybrid_job(name, namespace=here.space, cpu="250m", memory="512Mi", **options)


def value(job, seconds=300):
    try:
        return job.result(timeout=seconds)
    except Exception as error: # pylint: disable=broad-except
        print("  %s: %s %s\n%s" % (job.name, job.state(), error, job.logs(lines=20)), flush=True)
        return None


def case_hybrid():
    """qring.hybrid_job: input, metrics, results, a checkpoint for a second job, a traceback, a
    deleted pod, qring.submit in a job."""
    at = time.monotonic()
    here.rows.append({"manifest": "qring.hybrid_job"})
    run("ctr", "-n", "k8s.io", "images", "import", images + "/python/image.tar")
    folder = work + "/hybrid"
    os.makedirs(folder + "/samples")
    np.save(folder + "/samples/x.npy", np.arange(10.0))
    with open(folder + "/labels.csv", "w", encoding="ascii") as f:
        f.write("a,b\n")
    want = qring.run(qring.Job(SMALL), out=folder + "/run").digest

    first = job_of("first", input_data={"samples": folder + "/samples", "labels": folder + "/labels.csv"})(train)(epochs=5, job=SMALL)
    got = value(first)
    here.rows[0]["trained"] = "%.1f" % (time.monotonic() - at)
    check("hybrid: value %s, local digest %s" % (got, want),
          got == {"sum": 45.0, "label": "a,b\n", "digest": want, "id": 65532, "writable": False, "token": False})
    check("hybrid: metrics", np.allclose(first.metrics()["loss"], 1 / np.arange(1, 6)))
    check("hybrid: log: %s" % first.logs(), "trained " + want in first.logs() and "\x1e" not in first.logs())
    check("hybrid: arguments: %s" % first.hyperparameters, first.hyperparameters["epochs"] == "5")
    check("hybrid: results", (first.results(folder + "/results") / "model.txt").read_text() == "as trained")
    second = job_of("second", copy_checkpoints_from=first)(read_checkpoint)()
    got = value(second)
    check("hybrid: a checkpoint is copied to a second job: %s" % got, got is not None and got["epochs"] == 5 and "pqc/parameters" in got["weights"])
    log_line("hybrid: first and second job after %.1f s, digest %s" % (time.monotonic() - at, want))

    third = job_of("third")(fails)(0)
    try:
        third.result(timeout=180)
        check("hybrid: a failing function has no value", False)
    except qring.HybridJobError as error:
        check("hybrid: its traceback: %s" % error, "ZeroDivisionError" in str(error) and ", in fails\n" in error.traceback and third.state() == "failed")
        log_line("hybrid: " + error.traceback.strip().replace("\n", " | "))

    claim("results")
    lasting = job_of("lasting", output_claim="results")(counts_to)(150)
    check("hybrid: metrics while the job runs", until(lambda: len(lasting.metrics().get("i", ())) > 10, 120))
    output = in_other_process("j = qring.attach('lasting', %r)\nprint(type(j).__name__, j.state(), len(j.metrics()['i']) > 10, j.checkpoints()['checkpoint'][1])"
                     % here.space)
    check("hybrid: attached by name from another process: %s" % output, output == "HybridJob running True 1\n")
    labels = "batch.kubernetes.io/job-name=lasting"
    old = api.list("v1", "Pod", here.space, labels)[0]["metadata"]
    api.delete(pod_path(old["name"]))
    deleted_at = time.monotonic()
    again = until(lambda: next((p for p in api.list("v1", "Pod", here.space, labels)
                                if p["metadata"]["uid"] != old["uid"] and p["status"]["phase"] == "Running"), None), 120)
    check("hybrid: the deleted pod is replaced", again)
    here.rows[0]["killed"] = "%.1f" % (time.monotonic() - deleted_at)
    got = value(lasting)
    check("hybrid: it resumed from its checkpoint: started %s times" % got, got == 2)
    check("hybrid: the metrics of both pods", list(lasting.metrics()["i"]) == list(range(150)))

    inside = job_of("outside", service_account=account("submitter"))(submits)(SMALL, here.space)
    got = value(inside)
    check("hybrid: qring.submit in a job: %s" % got, got == want)
    here.rows[0]["digest"] = want[:8] + (" =" if got == want else " other")
    took = [delete(job) for job in (first, second, third, lasting, inside)]
    api.delete("/api/v1/persistentvolumes/" + here.space)
    here.rows[0]["seconds"] = "%.0f" % (time.monotonic() - at)
    log_line("hybrid: digest of qring.submit in a job %s; the longest delete() took %.1f s" % (got, max(took)))
