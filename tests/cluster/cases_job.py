"""Cases of tests/cluster/e2e: an Indexed Job under disturbances; its pod failure policy;
inference."""
import os
import signal
import subprocess
import time

import yaml

from kube import until
from objects import apply, big, plain, read, remove
from rings import Job, disturbed, ends, evict
from world import (METADATA, OUTSIDE, Stop, api, check, enter, epochs, fetch, half, here, listed, pod_path, qring, run, say, short,
                   work)

TRAIN = "app.kubernetes.io/component=train"


def case_job():
    """The Indexed Job, its policy, and inference with its weights."""
    ring = Job("job", TRAIN)
    objects = plain(ring.bucket, epochs)
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
    pods = api.list("v1", "Pod", here.space, "app.kubernetes.io/component=infer")
    said = api.ask("GET", pod_path(pods[0]["metadata"]["name"] + "/log")) if pods else ""
    here_said = qring("infer", "deploy/jobs/qcnn-pure-12.json", "--weights", work + "/alone/weights.h5")
    same = here_said.strip() and here_said.strip() in said
    check("infer: the pod prints what qring infer prints here", same)
    say("infer: " + here_said.strip().splitlines()[-1])
    here.rows.append({"manifest": "infer", "finished": "%.1f" % (time.monotonic() - at), "digest": "=" if same else "other",
                      "seconds": "%.0f" % (time.monotonic() - at)})
    remove(objects)


def process(name):
    """The one of that name."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/comm" % pid, encoding="ascii") as f:
                if f.read() == name + "\n":
                    return int(pid)
        except OSError:
            pass
    raise Stop


# ---- network policies ----

STRANGER = """
apiVersion: v1
kind: Pod
metadata: {name: stranger}
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
    until(lambda: apply([yaml.safe_load(STRANGER)]) or True, 20) # once its account is there
    stranger = until(lambda: next((p for p in [api.find(pod_path("stranger"))] if p["status"].get("containerStatuses", [{}])[0].get("ready")), None), 60)
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
    enforcer = process("policies.py") # stands still meanwhile: pods of other cases come and go
    os.kill(enforcer, signal.SIGSTOP)
    try:
        saved = run("nft", "list", "table", "ip", "policies")
        run("nft", "delete", "table", "ip", "policies")
        free = sum(reaches(pod, address, port) for _, pod, address, port, may in asked if not may)
        run("nft", "-f", "-", input=saved)
    finally:
        os.kill(enforcer, signal.SIGCONT)
    check("policy: without it %d of 4 closed ways are open" % free, free == 4)
    say("policy: %d of %d ways are as it says; without it %d of 4 closed ones are open" % (sum(held), len(held), free))
    listener.kill()
    api.delete(pod_path("stranger"), gracePeriodSeconds=0)


# ---- what becomes of a Job ----

def case_suspend():
    """Suspended, all pods go; resumed, they go on from the checkpoint, and the Job can be complete (1.32 to 1.34.1: kubernetes issue 134521)."""
    ring = Job("job, suspended", TRAIN, "auth-suspend")
    objects = plain(ring.bucket, short)
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
    ends(ring, "short")
    remove(objects)


def slow(objects):
    for d in objects:
        if d["kind"] == "Job":
            d["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "250m"


def last_words(known):
    """What pods that are gone, or going, have said: their names to exit code and message. KNOWN has what was seen before."""
    for p in api.list("v1", "Pod", here.space, TRAIN):
        for c in p["status"].get("containerStatuses") or []:
            ended = c["state"].get("terminated")
            if ended:
                known[p["metadata"]["name"]] = "%d %s" % (ended["exitCode"], ended.get("message", ""))
    return known


def case_namespace():
    """Its namespace is deleted while a Job trains: what pods say, what is left; the same in another namespace goes on from the bucket."""
    ring = Job("job, namespace deleted", TRAIN, "auth-namespace")
    objects = plain(ring.bucket, half)
    apply(objects)
    ring.reaches(2, "started", "trained")
    check("namespace: a checkpoint is there", until(lambda: ring.latest().get("step"), 60), stop=True)
    space = "/api/v1/namespaces/" + here.space
    at = time.monotonic()
    api.delete(space)
    words = {}
    until(lambda: last_words(words) is None or not api.list("v1", "Pod", here.space, TRAIN), 20, 0.05)
    left = [p["metadata"]["name"] for p in api.list("v1", "Pod", here.space, TRAIN)]
    took = time.monotonic() - at
    if left: # their finalizers wait for successors that nobody may make
        say("namespace: %s after %.1f s, and there are still %s" % (api.find(space)["status"]["phase"], took, " ".join(left)))
        api.delete(ring.path, propagationPolicy="Background")
    check("namespace: it is gone", until(lambda: not api.find(space), 60), stop=True)
    say("namespace: gone after %.1f s%s; its pods said %s" % (time.monotonic() - at, ", the Job deleted by hand" if left else "", words))
    check("namespace: both pods were asked to stop: %s" % words,
          len(words) == 2 and all(w.startswith("143 step ") and w.endswith(": drained on SIGTERM") for w in words.values()))
    there = listed(ring.bucket)
    step = ring.latest().get("step", 0)
    time.sleep(5)
    check("namespace: nothing was written after it was gone", listed(ring.bucket) == there)
    # a state is committed with the next reduction: of what both did last nobody knows whether the other has it
    check("namespace: the last checkpoint is of the step that they left at, or of the one before: %d" % step,
          any("step %d of" % s in w for w in words.values() for s in (step, step + 1)))
    enter(here.space + "-again")
    apply(objects)
    ring.reaches(2, "in another namespace")
    check("namespace: from the checkpoint of step %d" % step, step > 0 and all(ring.sees(p, "qring_step") >= step for p in ring.pods().values()))
    ends(ring, "half")
    remove(objects)


def case_lost():
    """The kubelet is silent and a worker dead, as on a lost node: the other trains on; a deleted pod has no successor until the node is back."""
    ring = Job("job, kubelet stopped", TRAIN, "auth-lost")
    objects = plain(ring.bucket, half)
    slow(objects) # a node is not missed for a minute: whoever is left must not be done by then
    apply(objects)
    ring.reaches(2, "started", "trained")
    old = ring.pods()[1]
    node = process("kubelet")
    try:
        os.kill(node, signal.SIGSTOP)
        at = time.monotonic()
        container = old["status"]["containerStatuses"][0]["containerID"].split("//")[1]
        run("ctr", "-n", "k8s.io", "task", "kill", "-s", "SIGKILL", container)
        check("lost: the other trains on", until(lambda: ring.sees(ring.pods()[0], "qring_members") == 1, 20), stop=True)
        say("lost: alone after %.1f s" % (time.monotonic() - at))
        api.delete(pod_path(old["metadata"]["name"]))
        time.sleep(20)
        found = api.list("v1", "Pod", here.space, TRAIN)
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
    ends(ring, "half")
    remove(objects)


