"""Applies manifests to a Kubernetes API server: api.py HOST:PORT TOKEN DEFINITIONS FILE... The
folder DEFINITIONS has the CustomResourceDefinitions of operators' kinds. api.py HOST:PORT TOKEN ask
METHOD PATH prints an object's data, or a status other than 200."""
import copy
import glob
import json
import ssl
import sys
import time
import urllib.error
import urllib.request

import yaml

PLURAL = {"NetworkPolicy": "networkpolicies"}
cluster_wide = set()  # kinds without a namespace
server, token = sys.argv[1:3]
passed = failed = 0


def check(what, fact, more=""):
    global passed, failed
    passed, failed = passed + bool(fact), failed + (not fact)
    if not fact:
        print("not so: %s %s" % (what, more))


def ask(method, path, body=None):
    """Returns status and text. The certificate is not verified: the server, on loopback, generates
    it for each run."""
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
    place = group if d["kind"] in cluster_wide else group + "/namespaces/default"
    return "%s/%s/%s" % (place, PLURAL.get(d["kind"], d["kind"].lower() + "s"), d["metadata"]["name"])


def apply(d, how=""):
    return ask("PATCH", path_of(d) + "?fieldManager=test&fieldValidation=Strict" + how, d)


def misspelt(d):
    """Returns the object with one essential key misspelt, and that key."""
    d = copy.deepcopy(d)
    place = d if d["kind"] in ("ConfigMap", "ServiceAccount") else d["spec"]
    key = {"Service": "selector", "ConfigMap": "data", "NetworkPolicy": "podSelector", "ServiceAccount": "automountServiceAccountToken",
           "TFJob": "tfReplicaSpecs", "JobSet": "replicatedJobs", "TrainingRuntime": "template", "TrainJob": "runtimeRef",
           "Deployment": "selector", "PodDisruptionBudget": "selector"}.get(d["kind"], "template")
    if d["kind"] in ("Job", "StatefulSet"):
        place, key = d["spec"]["template"]["spec"], "securityContext"
    place[key + "x"] = place.pop(key)
    return d, key + "x"


def try_file(path):
    every = documents(path)
    for d in every:
        name, before = "%s: %s/%s" % (path, d["kind"], d["metadata"]["name"]), failed
        wrong, key = misspelt(d)
        status, text = apply(wrong, "&dryRun=All")
        check(name + ": a misspelt %s is refused" % key[:-1], status >= 400 and key in text, "%d %s" % (status, text[:200]))
        status, text = apply(d, "&dryRun=All")
        check(name + ": dry run", status in (200, 201), "%d %s" % (status, text[:300]))
        check(name + ": the dry run creates nothing", ask("GET", path_of(d))[0] == 404)
        status, text = apply(d)
        check(name + ": applied", status == 201, "%d %s" % (status, text[:300]))
        status, text = apply(d)
        check(name + ": applied again changes nothing", status == 200, "%d %s" % (status, text[:300]))
        if failed == before:
            print("%s: dry run, applied, a misspelt %s refused" % (name, key[:-1]))
    for job in every:
        if job["kind"] == "Job":
            changes(path, job)
    for d in every:
        check("%s: deleted" % path_of(d), ask("DELETE", path_of(d))[0] == 200)


def changes(path, job):
    """Fields of an existing Job: the number of its pods can change, the pods' template cannot."""
    if "parallelism" in job["spec"]:
        more = copy.deepcopy(job)
        more["spec"]["parallelism"] += 3
        check(path + ": the number of pods changes", apply(more)[0] == 200)
    other = copy.deepcopy(job)
    other["spec"]["template"]["metadata"]["annotations"]["checksum/job"] = "of another job file"
    status, text = apply(other)
    check(path + ": another job file is refused", status == 422 and "immutable" in text, "%d %s" % (status, text[:200]))


def define(d):
    """Applies an operator's CustomResourceDefinition; waits until the kind is served."""
    kind = d["spec"]["names"]["kind"]
    if d["spec"]["scope"] == "Cluster":
        cluster_wide.add(kind)
    d.pop("status", None)
    status, text = apply(d)
    check("the definition of %s is accepted" % kind, status in (200, 201), "%d %s" % (status, text[:300]))
    group = "/apis/%s/%s" % (d["spec"]["group"], d["spec"]["versions"][-1]["name"])
    for _ in range(100):
        if ask("GET", "%s/%s" % (group, d["spec"]["names"]["plural"]))[0] == 200 and kind in ask("GET", "/openapi/v3" + group)[1]:
            return
        time.sleep(0.2)
    check(kind + " is served", False)


def documents(path):
    with open(path, encoding="utf-8") as f:
        return [d for d in yaml.safe_load_all(f) if d]


if sys.argv[3] == "ask":
    status, text = ask(*sys.argv[4:])
    print(json.dumps(json.loads(text).get("data"), sort_keys=True) if status == 200 else status)
    sys.exit(0)
files = sys.argv[4:]
kinds = {d["kind"] for p in files for d in documents(p)}
for p in sorted(glob.glob(sys.argv[3] + "/*.yaml")):
    for d in documents(p):
        if d["kind"] == "CustomResourceDefinition" and d["spec"]["names"]["kind"] in kinds:
            define(d)
for p in files:
    try_file(p)
print("%d passed, %d failed, 0 skipped" % (passed, failed))
sys.exit(failed > 0)
