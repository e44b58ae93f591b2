"""What a manifest starts, as it changes: its pods by their index, and how its kind is scaled."""
import json
import re
import time

from kube import Refused, until
from world import PODS, Stop, api, check, fetch, rows, run, say, stored


class Ring:
    path = None
    servers = 0 # members beside the workers, in every pod's count

    def __init__(self, name, labels, bucket=None):
        self.name, self.labels, self.bucket, self.pauses = name, labels, bucket or "auth-" + name, []
        self.row = {"manifest": name}
        self.began = time.monotonic()
        rows.append(self.row)

    def pods(self):
        found = {}
        for p in api.list("v1", "Pod", "default", self.labels):
            if p["metadata"]["labels"].get("training.kubeflow.org/replica-type") == "ps":
                continue
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
        return sorted(pods) == list(range(n)) and all(self.sees(p, "qring_members") == n + self.servers for p in pods.values())

    def steps(self):
        return max([self.sees(p, "qring_step") or 0 for p in self.pods().values()], default=0)

    def reaches(self, n, what, column=None):
        """n members that train; how long that took goes to the table."""
        from_ = time.monotonic()
        good = until(lambda: self.members(n), 180)
        if not good:
            self.tell()
        took = time.monotonic() - (self.began if column == "trained" else from_)
        check("%s: %s: %d members" % (self.name, what, n), good, stop=True)
        at = self.steps()
        check("%s: %s: they train" % (self.name, what), until(lambda: self.steps() > at + 10, 120), stop=True)
        pause = self.sees(self.pods()[0], "qring_last_pause_seconds")
        say("%s: %s: %d members after %.1f s, step %d, the last pause took %.2f s" % (self.name, what, n, took, self.steps(), pause))
        if column:
            self.row[column] = "%.1f" % took
        if column != "trained":
            self.pauses.append(pause)
        check("%s: %s: it is not over yet (QR_EPOCHS)" % (self.name, what), not self.latest().get("done"), stop=True)

    def latest(self):
        return json.loads(stored(self.bucket, "qcnn/weights.checkpoints/LATEST") or "{}")

    def lose(self, index, n, what, column, how):
        old = self.pods()[index]["metadata"]
        how("%s/%s" % (PODS, old["name"]))
        good = until(lambda: self.pods().get(index, {"metadata": old})["metadata"]["uid"] != old["uid"], 120)
        if not good:
            self.tell()
        check("%s: pod %d has a successor before it is all over (QR_EPOCHS)" % (self.name, index), good, stop=True)
        self.reaches(n, "pod %d %s" % (index, what), column)

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
        if self.path:
            print("  " + json.dumps((api.find(self.path) or {}).get("status"))[:1200], flush=True)

    def conditions(self):
        found = (api.find(self.path) or {}).get("status", {}).get("conditions", [])
        return {c["type"]: c.get("message", "") for c in found if c["status"] == "True"}

    def finished(self):
        """True once it is done; a failure is the end."""
        c = self.conditions()
        for bad in ("Failed", "FailureTarget"):
            if bad in c:
                print("  %s has failed: %s" % (self.name, c[bad]))
                raise Stop
        return any(good in c for good in ("Complete", "Completed", "Succeeded"))


class Job(Ring):
    path = "/apis/batch/v1/namespaces/default/jobs/qcnn"

    def scale(self, n):
        """As the page says: the ConfigMap, then both numbers of the Job together."""
        api.merge("/api/v1/namespaces/default/configmaps/qcnn", {"data": {"replicas": str(n)}})
        api.merge(self.path, {"spec": {"completions": n, "parallelism": n}})

    def suspend(self, so):
        api.merge(self.path, {"spec": {"suspend": so}})


class Chart(Job):
    def scale(self, n):
        run(self.helm, "upgrade", "qcnn", "charts/qring", "--reuse-values", "--set", "replicas=%d" % n)


class StatefulSet(Ring):
    path = "/apis/apps/v1/namespaces/default/statefulsets/qcnn"

    def scale(self, n):
        api.merge("/api/v1/namespaces/default/configmaps/qcnn", {"data": {"replicas": str(n)}})
        api.merge(self.path + "/scale", {"spec": {"replicas": n}})

    def finished(self):
        """Its pods begin again when they have ended: worker 0 has ended with 0 once."""
        pod = self.pods().get(0, {})
        states = [s for c in pod.get("status", {}).get("containerStatuses") or [] for s in (c.get("state", {}), c.get("lastState", {}))]
        return any(s.get("terminated", {}).get("exitCode") == 0 for s in states)


class JobSet(Ring):
    path = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/qcnn"


class TrainJob(Ring):
    path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/qcnn"


class TFJob(Ring):
    path = "/apis/kubeflow.org/v1/namespaces/default/tfjobs/qcnn"

    def scale(self, n):
        api.merge(self.path, {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": n}}}})

    def peers(self, index):
        """The workers that a pod's TF_CONFIG names."""
        env = self.pods()[index]["spec"]["containers"][0]["env"]
        return json.loads(next(e["value"] for e in env if e["name"] == "TF_CONFIG"))["cluster"]["worker"]
