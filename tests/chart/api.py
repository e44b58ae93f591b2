"""Asks a Kubernetes 1.20 API server about manifests: api.py HOST:PORT TOKEN FILE... Server-side apply refuses fields that the server's schema does not have.
Fields of the Job that came after 1.20 are left out, and named."""
import copy
import json
import ssl
import sys
import urllib.error
import urllib.request

import yaml

NEWER = {"completionMode": "1.21", "podFailurePolicy": "1.25", "backoffLimitPerIndex": "1.28", "maxFailedIndexes": "1.28"}
PLURAL = {"Service": "services", "ConfigMap": "configmaps", "ServiceAccount": "serviceaccounts", "NetworkPolicy": "networkpolicies", "Job": "jobs"}
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
        return e.code, json.loads(e.read().decode()).get("message", "")


def path_of(d):
    group = "/api/v1" if d["apiVersion"] == "v1" else "/apis/" + d["apiVersion"]
    return "%s/namespaces/default/%s/%s" % (group, PLURAL[d["kind"]], d["metadata"]["name"])


def apply(d, how=""):
    return ask("PATCH", path_of(d) + "?fieldManager=test" + how, d)


def misspelt(d):
    """The object with one key of its heart misspelt, and that key."""
    d = copy.deepcopy(d)
    place, key = {"Service": (d.get("spec"), "publishNotReadyAddresses"), "ConfigMap": (d, "data"), "NetworkPolicy": (d.get("spec"), "podSelector"),
                  "ServiceAccount": (d, "automountServiceAccountToken")}.get(d["kind"]) or (d["spec"]["template"]["spec"], "restartPolicy")
    place[key + "x"] = place.pop(key)
    return d, key + "x"


def try_file(path):
    with open(path, encoding="utf-8") as f:
        every = [d for d in yaml.safe_load_all(f) if d]
    for d in every:
        name = "%s: %s/%s" % (path, d["kind"], d["metadata"]["name"])
        left = sorted(k for k in d.get("spec", {}) if d["kind"] == "Job" and k in NEWER)
        for key in left:
            status, text = apply({**d, "spec": {k: v for k, v in d["spec"].items() if k == key or k not in NEWER}}, "&dryRun=All")
            check(name + ": %s is unknown to 1.20" % key, status >= 400 and key in text, text[:200])
            del d["spec"][key]
        wrong, key = misspelt(d)
        status, text = apply(wrong, "&dryRun=All")
        check(name + ": a misspelt %s is refused" % key[:-1], status >= 400 and key in text, "%d %s" % (status, text[:200]))
        status, text = apply(d, "&dryRun=All")
        check(name + ": dry run", status in (200, 201), "%d %s" % (status, text[:300]))
        check(name + ": which left nothing", ask("GET", path_of(d))[0] == 404)
        status, text = apply(d)
        check(name + ": applied", status == 201, "%d %s" % (status, text[:300]))
        status, text = apply(d)
        check(name + ": applied again changes nothing", status == 200, "%d %s" % (status, text[:300]))
        print("%s: dry run, applied, a misspelt %s refused%s" % (name, key[:-1], "; left out: " + ", ".join("%s (%s)" % (k, NEWER[k]) for k in left) if left else ""))
    changes(path, every)
    for d in every:
        check("%s: deleted" % path_of(d), ask("DELETE", path_of(d))[0] == 200)


def changes(path, every):
    """What can change while a Job is there: the number of its pods, not the pods."""
    job = next(d for d in every if d["kind"] == "Job")
    if "parallelism" in job["spec"]:
        more = copy.deepcopy(job)
        more["spec"]["parallelism"] += 3
        check(path + ": the number of pods changes", apply(more)[0] == 200)
    other = copy.deepcopy(job)
    other["spec"]["template"]["metadata"]["annotations"]["checksum/job"] = "of another job file"
    status, text = apply(other)
    check(path + ": another job file is refused", status == 422 and "immutable" in text, "%d %s" % (status, text[:200]))


for p in sys.argv[3:]:
    try_file(p)
print("%d passed, %d failed, 0 skipped" % (passed, failed))
sys.exit(failed > 0)
