"""Asks a Kubernetes 1.20 API server about manifests: api.py HOST:PORT TOKEN FILE...; api.py HOST:PORT TOKEN ask METHOD PATH prints an
object's data, or the status that is no 200.
Server-side apply refuses fields that the server's schema does not have. Fields of the Job that came after 1.20 are left out, and named."""
import copy
import json
import ssl
import sys
import time
import urllib.error
import urllib.request

import yaml

NEWER = {"completionMode": "1.21", "podFailurePolicy": "1.25", "backoffLimitPerIndex": "1.28", "maxFailedIndexes": "1.28"}
PLURAL = {"Service": "services", "ConfigMap": "configmaps", "ServiceAccount": "serviceaccounts", "TFJob": "tfjobs",
          "NetworkPolicy": "networkpolicies", "Job": "jobs"}
server, token = sys.argv[1:3]
passed = failed = 0


def check(what, fact, more=""):
    global passed, failed
    passed, failed = passed + bool(fact), failed + (not fact)
    if not fact:
        print("not so: %s %s" % (what, more))


def ask(method, path, body=None):
    """Status and text. The certificate is the server's own, of this run; the server is on loopback."""
    request = urllib.request.Request("https://%s%s" % (server, path), method=method, data=body and json.dumps(body).encode())
    request.add_header("Authorization", "Bearer " + token)
    request.add_header("Content-Type", "application/apply-patch+yaml")
    try:
        with urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=30) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as e:
        text = e.read().decode()
        return e.code, json.loads(text).get("message", "") if text.startswith("{") else text


def path_of(d):
    if d["kind"] == "CustomResourceDefinition":
        return "/apis/%s/customresourcedefinitions/%s" % (d["apiVersion"], d["metadata"]["name"])
    group = "/api/v1" if d["apiVersion"] == "v1" else "/apis/" + d["apiVersion"]
    return "%s/namespaces/default/%s/%s" % (group, PLURAL[d["kind"]], d["metadata"]["name"])


def apply(d, how=""):
    return ask("PATCH", path_of(d) + "?fieldManager=test" + how, d)


def misspelt(d):
    """The object with one key of its heart misspelt, and that key."""
    d = copy.deepcopy(d)
    if d["kind"] == "TFJob":
        place, key = d["spec"], "tfReplicaSpecs"  # for custom resources 1.20 drops unknown keys, so one that must be there
    elif d["kind"] == "Job":
        place, key = d["spec"]["template"]["spec"], "restartPolicy"
    else:
        key = {"Service": "publishNotReadyAddresses", "ConfigMap": "data", "NetworkPolicy": "podSelector",
               "ServiceAccount": "automountServiceAccountToken"}[d["kind"]]
        place = d if key in d else d["spec"]
    place[key + "x"] = place.pop(key)
    return d, key + "x"


def try_file(path):
    with open(path, encoding="utf-8") as f:
        every = [d for d in yaml.safe_load_all(f) if d]
    for d in every:
        name, before = "%s: %s/%s" % (path, d["kind"], d["metadata"]["name"]), failed
        left = sorted(k for k in d.get("spec", {}) if d["kind"] == "Job" and k in NEWER)
        for key in left:
            status, text = apply({**d, "spec": {k: v for k, v in d["spec"].items() if k == key or k not in NEWER}}, "&dryRun=All")
            check(name + ": %s is unknown to 1.20" % key, status >= 400 and key in text, text[:200])
            del d["spec"][key]
        wrong, key = misspelt(d)
        status, text = apply(wrong, "&dryRun=All")
        check(name + ": a misspelt %s is refused" % key[:-1], status >= 400 and key[:-1] in text, "%d %s" % (status, text[:200]))
        status, text = apply(d, "&dryRun=All")
        check(name + ": dry run", status in (200, 201), "%d %s" % (status, text[:300]))
        check(name + ": which left nothing", ask("GET", path_of(d))[0] == 404)
        status, text = apply(d)
        check(name + ": applied", status == 201, "%d %s" % (status, text[:300]))
        status, text = apply(d)
        check(name + ": applied again changes nothing", status == 200, "%d %s" % (status, text[:300]))
        if failed == before:
            print("%s: dry run, applied, a misspelt %s refused%s" % (
                name, key[:-1], "; left out: " + ", ".join("%s (%s)" % (k, NEWER[k]) for k in left) if left else ""))
    for job in every:
        if job["kind"] == "Job":
            changes(path, job)
    for d in every:
        check("%s: deleted" % path_of(d), ask("DELETE", path_of(d))[0] == 200)


def changes(path, job):
    """What can change while a Job is there: the number of its pods, not the pods."""
    if "parallelism" in job["spec"]:
        more = copy.deepcopy(job)
        more["spec"]["parallelism"] += 3
        check(path + ": the number of pods changes", apply(more)[0] == 200)
    other = copy.deepcopy(job)
    other["spec"]["template"]["metadata"]["annotations"]["checksum/job"] = "of another job file"
    status, text = apply(other)
    check(path + ": another job file is refused", status == 422 and "immutable" in text, "%d %s" % (status, text[:200]))


def without(value, key):
    if isinstance(value, dict):
        return {k: without(v, key) for k, v in value.items() if k != key}
    return [without(v, key) for v in value] if isinstance(value, list) else value


def define(path):
    """The training operator's own definition of a TFJob, without its CEL rules (1.23 and later)."""
    with open(path, encoding="utf-8") as f:
        d = without(json.load(f), "x-kubernetes-validations")
    d.pop("status", None)
    status, text = apply(d)
    check("the definition of TFJob is accepted", status in (200, 201), "%d %s" % (status, text[:300]))
    for _ in range(100):
        if ask("GET", "/apis/kubeflow.org/v1/namespaces/default/tfjobs")[0] == 200 and "tfReplicaSpecs" in ask("GET", "/openapi/v2")[1]:
            return
        time.sleep(0.2)
    check("TFJob is served", False)


if sys.argv[3] == "ask":
    status, text = ask(*sys.argv[4:])
    print(json.dumps(json.loads(text).get("data"), sort_keys=True) if status == 200 else status)
    sys.exit(0)
define("tests/schemas/crd-tfjob.json")
for p in sys.argv[3:]:
    try_file(p)
print("%d passed, %d failed, 0 skipped" % (passed, failed))
sys.exit(failed > 0)
