"""The ring that a manifest starts: its pods by index, and scaling by kind."""
import calendar
import json
import re
import time

from kube import Refused, until
from world import Stop, api, check, fetch, here, log_line, pod_path, run, stored, work


class Ring:
    kind = None # (apiVersion, kind)
    folder = "qcnn" # of weights and checkpoints in the bucket
    servers = 0 # parameter servers, which count as members
    start_limit_s = 8 # from the last pod's readiness to the first steps

    def __init__(self, name, labels, bucket=None):
        self.name, self.labels, self.bucket, self.pauses = name, labels, bucket or "auth-" + name, []
        self.row = {"manifest": name}
        self.began = time.monotonic()
        here.rows.append(self.row)

    @property
    def path(self):
        return api.path(*self.kind, here.space, "qcnn")

    @staticmethod
    def config(n):
        """Sets the number of replicas that pods read at their start."""
        api.merge(api.path("v1", "ConfigMap", here.space, "qcnn"), {"data": {"replicas": str(n)}})

    def pods(self):
        found = {}
        for p in api.list("v1", "Pod", here.space, self.labels):
            if p["metadata"]["labels"].get("training.kubeflow.org/replica-type") == "ps":
                continue
            index = p["metadata"]["labels"].get("training.kubeflow.org/replica-index")
            if index is None:
                index = (p["spec"].get("hostname") or p["metadata"]["name"]).rsplit("-", 1)[1]
            if int(index) not in found or "deletionTimestamp" not in p["metadata"]: # a replacement wins over a terminating pod
                found[int(index)] = p
        return found

    def metric(self, pod, name):
        try:
            text = fetch("http://%s:8080/metrics" % pod["status"]["podIP"]).decode()
            return float(re.search(r"^%s (.*)$" % name, text, re.M)[1])
        except (OSError, KeyError, TypeError, ValueError):
            return None

    def members(self, n):
        """Whether there are exactly n pods and each reports n members (and the servers)."""
        found = self.pods()
        return sorted(found) == list(range(n)) and all(self.metric(p, "qring_members") == n + self.servers for p in found.values())

    def failures(self):
        """Number of pods that count against backoffLimit."""
        return 0

    def steps(self):
        return max([self.metric(p, "qring_step") or 0 for p in self.pods().values()], default=0)

    def reaches(self, n, what, column=None):
        """Waits until n members train; records the time in the table's column."""
        from_ = time.monotonic()
        good = until(lambda: self.members(n), 180)
        if not good:
            self.print_pods()
        took = time.monotonic() - (self.began if column == "trained" else from_)
        check("%s: %s: %d members" % (self.name, what, n), good, stop=True)
        at = self.steps()
        check("%s: %s: training continues" % (self.name, what), until(lambda: self.steps() > at + 10, 120), stop=True)
        pause = self.metric(self.pods()[0], "qring_last_pause_seconds")
        if column == "trained":
            late = self.after_ready()
            what += ", %.0f s after the last pod was ready" % late
            check("%s: %s: within %d s" % (self.name, what, self.start_limit_s), late <= self.start_limit_s)
        log_line("%s: %s: %d members after %.1f s, step %d, last pause %.2f s" % (self.name, what, n, took, self.steps(), pause))
        if column:
            self.row[column] = "%.1f" % took
        if column != "trained":
            self.pauses.append(pause)
        check("%s: %s: training has not ended yet (QR_EPOCHS)" % (self.name, what), not self.latest().get("done"), stop=True)

    def latest(self):
        return json.loads(stored(self.bucket, self.folder + "/weights.checkpoints/LATEST") or "{}")

    def after_ready(self):
        """Seconds since the last pod became ready; 0 if one is not ready."""
        ready = [c for p in self.pods().values() for c in p["status"]["conditions"] if c["type"] == "Ready"]
        if any(c["status"] != "True" for c in ready):
            return 0
        return max(0, time.time() - max(calendar.timegm(time.strptime(c["lastTransitionTime"], "%Y-%m-%dT%H:%M:%SZ")) for c in ready))

    def lose(self, index, n, what, column, how):
        old = self.pods()[index]["metadata"]
        how(pod_path(old["name"]))
        good = until(lambda: self.pods().get(index, {"metadata": old})["metadata"]["uid"] != old["uid"], 120)
        if not good:
            self.print_pods()
        check("%s: pod %d is replaced before training ends (QR_EPOCHS)" % (self.name, index), good, stop=True)
        self.reaches(n, "pod %d %s" % (index, what), column)

    def print_pods(self):
        for index, p in sorted(self.pods().items()):
            status = p.get("status", {})
            what = json.dumps(status.get("containerStatuses") or status.get("conditions"))
            print("  pod %d: %s %s" % (index, status.get("phase"), what[:600]))
            events = api.ask("GET", "/api/v1/namespaces/%s/events?fieldSelector=involvedObject.name=%s" % (here.space, p["metadata"]["name"]))
            for e in events["items"][-4:]:
                print("    event:", e["message"][:200])
            try:
                print("    " + api.ask("GET", pod_path(p["metadata"]["name"] + "/log?tailLines=4")).replace("\n", "\n    "), flush=True)
            except (OSError, Refused) as e:
                print("    no log:", e)
        print("  " + json.dumps((api.find(self.path) or {}).get("status"))[:1200], flush=True)

    def conditions(self):
        found = (api.find(self.path) or {}).get("status", {}).get("conditions", [])
        return {c["type"]: c.get("message", "") for c in found if c["status"] == "True"}

    def finished(self):
        """Whether the run is complete. Raises Stop when it has failed."""
        c = self.conditions()
        for bad in ("Failed", "FailureTarget"):
            if bad in c:
                print("  %s has failed: %s" % (self.name, c[bad]))
                raise Stop
        return any(good in c for good in ("Complete", "Completed", "Succeeded"))


class Job(Ring):
    kind = "batch/v1", "Job"

    def scale(self, n):
        """As documented: the ConfigMap, then both numbers of the Job in one patch."""
        self.config(n)
        api.merge(self.path, {"spec": {"completions": n, "parallelism": n}})

    def failures(self):
        return (api.find(self.path) or {}).get("status", {}).get("failed", 0)

    def suspend(self, suspended):
        api.merge(self.path, {"spec": {"suspend": suspended}})


class Chart(Job):
    def scale(self, n):
        run(self.helm, "upgrade", "qcnn", "charts/qring", "-n", here.space, "--reuse-values", "--set", "replicas=%d" % n)


class StatefulSet(Ring):
    kind = "apps/v1", "StatefulSet"

    def scale(self, n):
        self.config(n)
        api.merge(self.path + "/scale", {"spec": {"replicas": n}})

    def finished(self):
        """Pods of a StatefulSet restart after they exit: whether worker 0 has exited with 0
        once."""
        pod = self.pods().get(0, {})
        states = [s for c in pod.get("status", {}).get("containerStatuses") or [] for s in (c.get("state", {}), c.get("lastState", {}))]
        return any(s.get("terminated", {}).get("exitCode") == 0 for s in states)


class JobSet(Ring):
    kind = "jobset.x-k8s.io/v1alpha2", "JobSet"


class TrainJob(Ring):
    kind = "trainer.kubeflow.org/v1alpha1", "TrainJob"


class TFJob(Ring):
    kind = "kubeflow.org/v1", "TFJob"

    def scale(self, n):
        api.merge(self.path, {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": n}}}})

    def peers(self, index):
        """The workers in a pod's TF_CONFIG."""
        env = self.pods()[index]["spec"]["containers"][0]["env"]
        return json.loads(next(e["value"] for e in env if e["name"] == "TF_CONFIG"))["cluster"]["worker"]


def evict(pod):
    """Evicts a pod as kubectl drain does, with retries while the disruption budget forbids it."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.rsplit("/", 1)[1], "namespace": here.space}}
    check("%s is evicted" % pod, until(lambda: api.create(eviction, pod + "/eviction"), 30, 0.5), stop=True)


def disturb(ring, folder="alone", scales=True, during=None):
    """Starts with two workers, scales to four (where the kind can be scaled), deletes and evicts a
    pod, scales to one, and checks the end against the undisturbed run in FOLDER."""
    n = 2
    ring.reaches(2, "started", "trained")
    if during:
        during(ring)
    if scales:
        ring.scale(4)
        n = 4
        ring.reaches(4, "scaled from 2 to 4", "scaled")
    ring.lose(n - 2 or 1, n, "deleted by force", "killed", lambda pod: api.delete(pod, gracePeriodSeconds=0))
    counted = ring.failures()
    ring.lose(1, n, "evicted", "evicted", evict)
    check("%s: the eviction does not count as a failure: %d, before %d" % (ring.name, ring.failures(), counted), ring.failures() == counted)
    if scales:
        at = time.monotonic()
        ring.scale(1)
        good = until(lambda: ring.metric(ring.pods().get(0, {}), "qring_members") == 1 + ring.servers, 120)
        check("%s: scaled from 4 to 1: worker 0 trains alone" % ring.name, good and not ring.latest().get("done"), stop=True)
        log_line("%s: scaled from 4 to 1: alone after %.1f s, step %d" % (ring.name, time.monotonic() - at, ring.steps()))
        ring.row["scaled"] += " %.1f" % (time.monotonic() - at)
    check_end(ring, folder)
    if scales:
        check("%s: the other pods are deleted" % ring.name, until(lambda: [i for i in ring.pods() if i] == [], 120))


def check_end(ring, folder, seconds=900):
    at = time.monotonic()
    if not check("%s: the run has finished" % ring.name, until(ring.finished, seconds, 1)):
        ring.print_pods()
        raise Stop
    ring.row["finished"] = "%.1f" % (time.monotonic() - at)
    folder = "%s/%s" % (work, folder)
    with open(folder + "/result.json", encoding="utf-8") as f:
        want = json.load(f)["state_digest"]
    latest = ring.latest()
    check("%s: done" % ring.name, latest.get("done"))
    check("%s: digest %s, qring run %s" % (ring.name, latest.get("digest"), want), latest.get("digest") == want)
    with open(folder + "/weights.h5", "rb") as f:
        check("%s: the weights in the bucket equal those of qring run" % ring.name, stored(ring.bucket, ring.folder + "/weights.h5") == f.read())
    ring.row["digest"] = latest.get("digest", "")[:8] + (" =" if latest.get("digest") == want else " other")
    ring.row["seconds"] = "%.0f" % (time.monotonic() - ring.began)
    pauses = ", pauses " + " ".join("%.2f" % p for p in ring.pauses) if ring.pauses else ""
    if ring.pauses:
        ring.row["longest pause"] = "%.2f" % max(ring.pauses)
    log_line("%s: finished, digest %s%s" % (ring.name, latest.get("digest"), pauses))
