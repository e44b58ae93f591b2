"""Cases of tests/cluster/e2e: an Indexed Job under disturbances; network policies; inference;
suspension, a deleted namespace, a lost node."""
import os
import signal
import subprocess
import time

import yaml

from kube import until
from objects import apply, indexed_job, read, remove, with_large_job
from rings import Job, check_end, disturb, evict
from world import (METADATA, OUTSIDE, Stop, api, check, enter, epochs, fetch, half, here, listed, log_line, pod_path, qring,
                   run, short, work)

TRAIN = "app.kubernetes.io/component=train"


def case_job():
    """The Indexed Job, its policy, and inference with its weights."""
    ring = Job("job", TRAIN)
    objects = indexed_job(ring.bucket, epochs)
    apply(objects)
    disturb(ring, during=policies)
    remove(objects)
    inference(ring)


def inference(ring):
    at = time.monotonic()
    objects = with_large_job(read("infer.yaml", ring.bucket, QRING_WEIGHTS="gs://%s/qcnn/weights.h5" % ring.bucket))
    apply(objects)
    path = api.path_of(next(d for d in objects if d["kind"] == "Job"))
    check("infer: the Job has completed", until(lambda: (api.find(path) or {}).get("status", {}).get("succeeded") == 1, 90))
    pods = api.list("v1", "Pod", here.space, "app.kubernetes.io/component=infer")
    log = api.ask("GET", pod_path(pods[0]["metadata"]["name"] + "/log")) if pods else ""
    local = qring("infer", "deploy/jobs/qcnn-pure-12.json", "--weights", work + "/alone/weights.h5")
    same = local.strip() and local.strip() in log
    check("infer: the pod prints the same as a local qring infer", same)
    log_line("infer: " + local.strip().splitlines()[-1])
    here.rows.append({"manifest": "infer", "finished": "%.1f" % (time.monotonic() - at), "digest": "=" if same else "other",
                      "seconds": "%.0f" % (time.monotonic() - at)})
    remove(objects)


def process(name):
    """Process id of the process with that name."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/comm" % pid, encoding="ascii") as f:
                if f.read() == name + "\n":
                    return int(pid)
        except OSError:
            pass
    raise Stop


# ---- network policies ----

OTHER_POD = """
apiVersion: v1
kind: Pod
metadata: {name: other}
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
    """Command prefix that runs a command in a pod's network namespace."""
    container = pod["status"]["containerStatuses"][0]["containerID"].split("//")[1]
    pid = next(line.split()[1] for line in run("ctr", "-n", "k8s.io", "task", "ls").splitlines() if line.startswith(container))
    return ["nsenter", "-t", pid, "-n"]


def reaches(pod, address, port):
    code = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 2)"
    return subprocess.run([*network_of(pod), "/usr/bin/python3", "-c", code, address, str(port)], capture_output=True, check=False).returncode == 0


def policies(ring):
    """Checks connections that the manifest's policy allows and rejects; without the table that
    enforces it all rejected ones succeed."""
    until(lambda: apply([yaml.safe_load(OTHER_POD)]) or True, 20) # retried until its service account exists
    other = until(lambda: next((p for p in [api.find(pod_path("other"))] if p["status"].get("containerStatuses", [{}])[0].get("ready")), None), 60)
    if not check("a pod outside the ring runs", other):
        return
    pods = ring.pods()
    at = {name: p["status"]["podIP"] for name, p in (("0", pods[0]), ("other", other))}
    listener = subprocess.Popen([*network_of(other), "/usr/bin/python3", "-m", "http.server", "9000"], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
    check("the other pod listens", until(lambda: fetch("http://%s:9000/tests" % at["other"]), 20))
    tried = [("another pod", other, at["0"], 2222, False), ("another pod", other, at["0"], 2224, False),
             ("another pod", other, at["0"], 8080, True), ("a pod of the ring", pods[1], at["0"], 2222, True),
             ("a pod of the ring", pods[1], at["0"], 2224, True), ("a pod of the ring", pods[1], at["other"], 9000, False),
             ("a pod of the ring", pods[1], "10.96.0.10", 53, True), ("a pod of the ring", pods[1], OUTSIDE, 443, True),
             ("a pod of the ring", pods[1], METADATA, 80, True), ("a pod of the ring", pods[1], OUTSIDE, 80, False)]
    held = [check("policy: %s %s %s:%d" % (source, "reaches" if allowed else "does not reach", address, port), reaches(pod, address, port) == allowed)
            for source, pod, address, port, allowed in tried]
    enforcer = process("policies.py") # stopped, so that pods of other cases do not restore the table
    os.kill(enforcer, signal.SIGSTOP)
    try:
        saved = run("nft", "list", "table", "ip", "policies")
        run("nft", "delete", "table", "ip", "policies")
        opened = sum(reaches(pod, address, port) for _, pod, address, port, allowed in tried if not allowed)
        run("nft", "-f", "-", input=saved)
    finally:
        os.kill(enforcer, signal.SIGCONT)
    check("policy: without it %d of 4 rejected connections succeed" % opened, opened == 4)
    log_line("policy: %d of %d connections are as specified; without it %d of 4 rejected ones succeed" % (sum(held), len(held), opened))
    listener.kill()
    api.delete(pod_path("other"), gracePeriodSeconds=0)


# ---- suspension, a deleted namespace, a lost node ----

def case_suspend():
    """A suspended Job has no pods; resumed, it continues from the checkpoint and can complete (in
    1.32 to 1.34.1 it could not: kubernetes issue 134521)."""
    ring = Job("job, suspended", TRAIN, "auth-suspend")
    objects = indexed_job(ring.bucket, short)
    apply(objects)
    ring.reaches(2, "started", "trained")
    at = time.monotonic()
    ring.suspend(True)
    check("suspended: no pod remains", until(lambda: not ring.pods(), 60), stop=True)
    step = ring.latest().get("step", 0)
    log_line("suspended: no pod after %.1f s, checkpoint of step %d" % (time.monotonic() - at, step))
    ring.suspend(False)
    ring.reaches(2, "resumed")
    check("resumed: from the checkpoint", step > 0 and all(ring.metric(p, "qring_step") >= step for p in ring.pods().values()))
    check_end(ring, "short")
    remove(objects)


def limit_cpu(objects):
    for d in objects:
        if d["kind"] == "Job":
            d["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "250m"


def termination_messages(known):
    """Adds to KNOWN the exit code and message of each terminated pod by name."""
    for p in api.list("v1", "Pod", here.space, TRAIN):
        for c in p["status"].get("containerStatuses") or []:
            ended = c["state"].get("terminated")
            if ended:
                known[p["metadata"]["name"]] = "%d %s" % (ended["exitCode"], ended.get("message", ""))
    return known


def case_namespace():
    """The namespace is deleted while a Job trains: termination messages, remaining objects; in
    another namespace the Job resumes from the bucket."""
    ring = Job("job, namespace deleted", TRAIN, "auth-namespace")
    objects = indexed_job(ring.bucket, half)
    apply(objects)
    ring.reaches(2, "started", "trained")
    check("namespace: a checkpoint exists", until(lambda: ring.latest().get("step"), 60), stop=True)
    space = "/api/v1/namespaces/" + here.space
    at = time.monotonic()
    api.delete(space)
    messages = {}
    until(lambda: termination_messages(messages) is None or not api.list("v1", "Pod", here.space, TRAIN), 20, 0.05)
    left = [p["metadata"]["name"] for p in api.list("v1", "Pod", here.space, TRAIN)]
    took = time.monotonic() - at
    if left: # their finalizers wait for replacement pods, which a terminating namespace rejects
        log_line("namespace: %s after %.1f s, remaining pods: %s" % (api.find(space)["status"]["phase"], took, " ".join(left)))
        api.delete(ring.path, propagationPolicy="Background")
    check("namespace: the namespace is deleted", until(lambda: not api.find(space), 60), stop=True)
    log_line("namespace: deleted after %.1f s%s; termination messages %s" % (time.monotonic() - at, ", the Job deleted explicitly" if left else "", messages))
    check("namespace: both pods drained on SIGTERM: %s" % messages,
          len(messages) == 2 and all(w.startswith("143 step ") and w.endswith(": drained on SIGTERM") for w in messages.values()))
    before = listed(ring.bucket)
    step = ring.latest().get("step", 0)
    time.sleep(5)
    check("namespace: no object changes after its deletion", listed(ring.bucket) == before)
    # A state is committed with the next reduction, so a worker that stops cannot know whether its
    # last step is.
    check("namespace: the last checkpoint is of the last step, or of the one before: %d" % step,
          any("step %d of" % s in w for w in messages.values() for s in (step, step + 1)))
    enter(here.space + "-again")
    apply(objects)
    ring.reaches(2, "in another namespace")
    check("namespace: from the checkpoint of step %d" % step, step > 0 and all(ring.metric(p, "qring_step") >= step for p in ring.pods().values()))
    check_end(ring, "half")
    remove(objects)


def case_lost():
    """The kubelet is stopped and a worker killed, as on a lost node: the other worker continues; a
    deleted pod is replaced only when the node is back."""
    ring = Job("job, kubelet stopped", TRAIN, "auth-lost")
    objects = indexed_job(ring.bucket, half)
    limit_cpu(objects) # a node counts as lost after a minute: the other worker must not finish before
    apply(objects)
    ring.reaches(2, "started", "trained")
    old = ring.pods()[1]
    node = process("kubelet")
    try:
        os.kill(node, signal.SIGSTOP)
        at = time.monotonic()
        container = old["status"]["containerStatuses"][0]["containerID"].split("//")[1]
        run("ctr", "-n", "k8s.io", "task", "kill", "-s", "SIGKILL", container)
        check("lost: the other worker continues", until(lambda: ring.metric(ring.pods()[0], "qring_members") == 1, 20), stop=True)
        log_line("lost: alone after %.1f s" % (time.monotonic() - at))
        api.delete(pod_path(old["metadata"]["name"]))
        time.sleep(20)
        found = api.list("v1", "Pod", here.space, TRAIN)
        left = [p["metadata"]["name"] for p in found if "deletionTimestamp" in p["metadata"]]
        check("lost: the deleted pod stays Terminating and is not replaced: %s" % left,
              left == [old["metadata"]["name"]] and len(found) == 2)
        ready = lambda: next(c["status"] for c in api.ask("GET", "/api/v1/nodes/node0")["status"]["conditions"] if c["type"] == "Ready")
        check("lost: the node's Ready condition is Unknown", until(lambda: ready() == "Unknown", 90, 1))
        log_line("lost: the node is Unknown after %.0f s" % (time.monotonic() - at))
    finally:
        os.kill(node, signal.SIGCONT)
    at = time.monotonic()
    good = until(lambda: ring.pods().get(1, old)["metadata"]["uid"] != old["metadata"]["uid"], 60)
    log_line("lost: replaced %.1f s after the node is back" % (time.monotonic() - at))
    check("lost: the pod is replaced when the node is back", good, stop=True)
    ring.reaches(2, "the node is back")
    check_end(ring, "half")
    remove(objects)


