#!/usr/bin/python3
"""A stand-in for the TFJob operator: tfjob_operator.py KUBECONFIG [--old]. It does what the training operator 1.9 was read to do, with
--old what tf-operator 1.1 was seen to do, as far as a worker can notice:

- pods are made first, in no order, their Services after them: one headless Service a replica, which selects that one pod by its labels and,
  as it does not publish what is not ready, gives it a name only once the pod is ready;
- TF_CONFIG goes into the container "tensorflow" when the pod is made and never again: after scaling the older pods have a stale one. One
  replica in all gets none; enableDynamicWorker gets the sparse form;
- restartPolicy ExitCode: the pod is never restarted but deleted and made again after a code that can be retried (from 1.5 on 128 and above,
  before 130, 137, 138, 143); under OnFailure and Always the kubelet restarts it, and from 1.6 on a pod in phase Failed is made again too
  (an eviction);
- a failed replica that is not made again fails the job, also one that is just being scaled away; worker 0's success, or the chief's, is
  the job's;
- at its end cleanPodPolicy (None, before 1.6 Running) decides which pods go, and their Services with them.
"""
import json
import random
import sys
import time

from kube import Api, Refused

API = "kubeflow.org/v1"
PREFIX = "training.kubeflow.org/"
TYPES = ("Chief", "Evaluator", "Master", "PS", "Worker")
FINAL = ("Succeeded", "Failed")


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def exit_code(pod):
    for c in pod.get("status", {}).get("containerStatuses") or []:
        if c["name"] == "tensorflow" and "terminated" in c.get("state", {}):
            return c["state"]["terminated"]["exitCode"]
    return 0xbeef # the operator's own word for "none"


def mislaid(pod):
    """A kubelet may remove a container of a pod that is being deleted before it has written down how that ended, and then calls the pod
    Failed with 137, whatever the exit code was (kubernetes/kubernetes issue 104107; 1.20 does it often). What the worker did cannot be told
    from it; the real operator fails a TFJob whose policy is Never for it."""
    last = [c.get("lastState", {}).get("terminated", {}) for c in pod["status"].get("containerStatuses") or []]
    return "deletionTimestamp" in pod["metadata"] and any(t.get("reason") == "ContainerStatusUnknown" for t in last)


def restarts(pod):
    return sum(c.get("restartCount", 0) for c in pod.get("status", {}).get("containerStatuses") or [])


class Job:
    def __init__(self, operator, d):
        self.operator, self.api, self.d = operator, operator.api, d
        self.name, self.namespace = d["metadata"]["name"], d["metadata"]["namespace"]
        self.replicas = {t: d["spec"]["tfReplicaSpecs"][t] for t in TYPES if t in d["spec"]["tfReplicaSpecs"]}
        self.policy = d["spec"].get("runPolicy") or {}
        self.status = json.loads(json.dumps(d.get("status") or {}))
        self.status.setdefault("conditions", [])
        self.pods = {}
        for pod in self.api.list("v1", "Pod", self.namespace, PREFIX + "job-name=" + self.name):
            labels = pod["metadata"]["labels"]
            self.pods[labels[PREFIX + "replica-type"], int(labels[PREFIX + "replica-index"])] = pod

    def count(self, kind):
        n = self.replicas[kind].get("replicas")
        return 1 if n is None else n

    def template(self, kind):
        """A pod's template, and its port: what the operator adds where it is missing."""
        template = json.loads(json.dumps(self.replicas[kind]["template"]))
        container = next(c for c in template["spec"]["containers"] if c["name"] == "tensorflow")
        ports = container.setdefault("ports", [])
        port = next((p["containerPort"] for p in ports if p.get("name") == "tfjob-port"), None)
        if port is None:
            port = 2222
            if all(p["containerPort"] != port for p in ports):
                ports.append({"name": "tfjob-port", "containerPort": port})
        return template, container, port

    def address(self, kind, index):
        return "%s-%s-%d.%s.svc:%d" % (self.name, kind.lower(), index, self.namespace, self.template(kind)[2])

    def tf_config(self, kind, index):
        task = {"type": kind.lower(), "index": index}
        if self.d["spec"].get("enableDynamicWorker"):
            servers = [self.address("PS", i) for i in range(self.count("PS"))] if "PS" in self.replicas else None
            workers = {str(index): self.address(kind, index)} if kind == "Worker" else {}
            return {"sparseCluster" if self.operator.old else "cluster": {"ps": servers, "worker": workers}, "task": task}
        cluster = {t.lower(): [self.address(t, i) for i in range(self.count(t))] for t in sorted(self.replicas)}
        return {"cluster": cluster, "task": task, "environment": "cloud"}

    def labels(self, kind, index):
        # Bare names before 1.5, the new ones from 1.4 on: worth nothing to a worker, so all of them.
        bare = {"job-name": self.name, "replica-type": kind.lower(), "replica-index": str(index), "operator-name": "tfjob-controller"}
        if kind in ("Chief", "Master") or kind == "Worker" and index == 0 and not {"Chief", "Master"} & set(self.replicas):
            bare["job-role"] = "master"
        return {**{PREFIX + k: v for k, v in bare.items()}, "group-name": "kubeflow.org", **bare}

    def owner(self):
        return [{"apiVersion": API, "kind": "TFJob", "name": self.name, "uid": self.d["metadata"]["uid"], "controller": True,
                 "blockOwnerDeletion": True}]

    def make_pod(self, kind, index):
        template, container, _ = self.template(kind)
        if sum(self.count(t) for t in self.replicas) != 1:
            said = json.dumps(self.tf_config(kind, index), separators=(",", ":"))
            container["env"] = (container.get("env") or []) + [{"name": "TF_CONFIG", "value": said}]
        meta = template.get("metadata") or {}
        policy = self.replicas[kind].get("restartPolicy", "Never")
        template["spec"]["restartPolicy"] = "Never" if policy == "ExitCode" else policy
        self.api.create({"apiVersion": "v1", "kind": "Pod", "spec": template["spec"], "metadata": {
            "name": "%s-%s-%d" % (self.name, kind.lower(), index), "namespace": self.namespace, "ownerReferences": self.owner(),
            "annotations": meta.get("annotations") or {}, "labels": {**(meta.get("labels") or {}), **self.labels(kind, index)}}})
        self.say("made pod %s-%s-%d" % (self.name, kind.lower(), index))

    def make_services(self):
        """After the pods, for those that are there."""
        there = {s["metadata"]["name"] for s in self.api.list("v1", "Service", self.namespace, PREFIX + "job-name=" + self.name)}
        for kind in self.replicas:
            for index in range(self.count(kind)):
                name = "%s-%s-%d" % (self.name, kind.lower(), index)
                if name not in there:
                    port = self.template(kind)[2]
                    self.api.create({"apiVersion": "v1", "kind": "Service", "metadata": {
                        "name": name, "namespace": self.namespace, "ownerReferences": self.owner(), "labels": self.labels(kind, index)},
                        "spec": {"clusterIP": "None", "ports": [{"name": "tfjob-port", "port": port}],
                                 "selector": {PREFIX + "job-name": self.name, PREFIX + "replica-type": kind.lower(),
                                              PREFIX + "replica-index": str(index)}}})

    def drop(self, kind, index, service):
        path = "/api/v1/namespaces/%s/%%s/%s-%s-%d" % (self.namespace, self.name, kind.lower(), index)
        self.api.delete(path % "pods")
        if service:
            self.api.delete(path % "services")

    def retryable(self, code):
        return code in (130, 137, 138, 143) if self.operator.old else code >= 128

    def again(self, kind, pod):
        """Is a failed pod to be made again?"""
        policy = self.replicas[kind].get("restartPolicy", "Never")
        if policy == "ExitCode":
            return self.retryable(exit_code(pod))
        return policy in ("OnFailure", "Always") and not self.operator.old

    def condition(self, kind, message):
        conditions, left = self.status["conditions"], {"Running": "Restarting", "Restarting": "Running"}.get(kind)
        last = next((c for c in conditions if c["type"] == kind), None)
        if last and last["status"] == "True" and kind != "Restarting":
            return
        conditions[:] = [c for c in conditions if c["type"] not in (kind, left)]
        if kind in FINAL:
            for c in conditions:
                if c["type"] == "Running":
                    c["status"] = "False"
        conditions.append({"type": kind, "status": "True", "reason": "TFJob" + kind, "message": message,
                           "lastTransitionTime": now(), "lastUpdateTime": now()})
        self.say("%s: %s" % (kind, message))

    def over(self):
        return any(c["type"] in FINAL and c["status"] == "True" for c in self.status["conditions"])

    def say(self, what):
        print(now(), self.name, what, flush=True)

    def reconcile(self):
        if self.over():
            self.clean()
            return
        self.condition("Created", "TFJob %s is created." % self.name)
        self.status.setdefault("startTime", now())
        counts, restarting, failed, done = {}, None, [], []
        kinds = list(self.replicas)
        random.shuffle(kinds)
        for kind in kinds:
            n = counts[kind] = {"active": 0, "succeeded": 0, "failed": 0}
            for (k, index), pod in sorted(self.pods.items()):
                if k != kind.lower():
                    continue
                phase, leaving = pod.get("status", {}).get("phase"), "deletionTimestamp" in pod["metadata"]
                if phase == "Failed" and mislaid(pod):
                    if pod["metadata"]["uid"] not in self.operator.mislaid:
                        self.operator.mislaid.add(pod["metadata"]["uid"])
                        self.say("pod %s-%s-%d: the kubelet has mislaid its exit code" % (self.name, k, index))
                    continue
                if index >= self.count(kind) and not leaving:
                    self.say("pod %s-%s-%d is out of range: deleted" % (self.name, k, index))
                    self.drop(kind, index, True)
                if phase == "Failed" and self.again(kind, pod):
                    restarting = "pod %s-%s-%d ended with %s" % (self.name, k, index, exit_code(pod))
                    if not leaving:
                        self.drop(kind, index, False)
                n["active"] += phase == "Running"
                n["succeeded"] += phase == "Succeeded"
                n["failed"] += phase == "Failed"
                if phase == "Failed" and not self.again(kind, pod):
                    states = [c.get("state", {}).get("terminated", {}) for c in pod["status"].get("containerStatuses") or []]
                    failed.append("%d %s replica(s) failed: pod %s-%s-%d, exit code %s: %s" % (
                        n["failed"], kind, self.name, k, index, exit_code(pod), " ".join(t.get("message", "") for t in states).strip()))
                if phase == "Succeeded" and self.decides(kind, index):
                    done.append(index)
            missing = [i for i in range(self.count(kind)) if (kind.lower(), i) not in self.pods]
            random.shuffle(missing)
            for index in missing:
                self.make_pod(kind, index)
        self.make_services()
        self.status["replicaStatuses"] = counts
        limit = self.policy.get("backoffLimit")
        if limit is not None and sum(restarts(p) for p in self.pods.values() if p.get("status", {}).get("phase") == "Running") > limit:
            failed.append("TFJob %s has failed because it has reached the specified backoff limit" % self.name)
        if done and (self.d["spec"].get("successPolicy") != "AllWorkers" or len(done) == self.count("Worker")):
            self.condition("Succeeded", "TFJob %s successfully completed." % self.name)
        elif failed:
            self.condition("Failed", failed[0])
        elif restarting:
            self.condition("Restarting", restarting)
        elif sum(n["active"] for n in counts.values()):
            self.condition("Running", "TFJob %s is running." % self.name)
        if self.over():
            self.status["completionTime"] = now()

    def decides(self, kind, index):
        """Whose success is the job's: the chief's or master's; without them worker 0's, or under AllWorkers each worker's."""
        if {"Chief", "Master"} & set(self.replicas):
            return kind in ("Chief", "Master")
        return kind == "Worker" and (index == 0 or self.d["spec"].get("successPolicy") == "AllWorkers")

    def clean(self):
        policy = self.policy.get("cleanPodPolicy") or ("Running" if self.operator.old else "None")
        for (k, index), pod in self.pods.items():
            if "deletionTimestamp" in pod["metadata"]:
                continue
            if policy == "All" or policy == "Running" and pod.get("status", {}).get("phase") in ("Running", "Pending"):
                self.say("pod %s-%s-%d is cleaned up" % (self.name, k, index))
                self.drop(k, index, True)


class Operator:
    def __init__(self, config, old):
        self.api, self.old, self.mislaid = Api(config), old, set()

    def turn(self):
        for d in self.api.list(API, "TFJob"):
            if "deletionTimestamp" in d["metadata"]:
                continue
            try:
                job = Job(self, d)
                job.reconcile()
                if job.status != d.get("status"):
                    self.api.merge(self.api.path_of(d) + "/status", {"status": job.status})
            except Refused as e:
                if e.status not in (404, 409): # made or gone meanwhile: the next turn sees it
                    print(now(), d["metadata"]["name"], e, flush=True)

    def run(self):
        while True:
            try:
                self.turn()
            except OSError as e:
                print(now(), "the API server does not answer:", e, flush=True)
            time.sleep(0.3)


Operator(sys.argv[1], "--old" in sys.argv).run()
