"""Shared by the cases of tests/cluster/e2e.py: the cluster's API, a bucket outside the cluster,
counts, the final table."""
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

from kube import Api, until

work, manifests, epochs = sys.argv[1:4]
half, short = str(int(epochs) // 2), str(int(epochs) // 4) # for cases that need no longer run
images = os.path.dirname(os.environ["KUBECONFIG"]) + "/images"
api = Api(os.environ["KUBECONFIG"])
counts = {"passed": 0, "failed": 0, "skipped": 0}
lock = threading.Lock() # cases run in parallel
here = threading.local() # the thread's case: its namespace (space) and its rows of the table (rows)
began = time.monotonic()
# Cloud Storage and metadata server at addresses that a ring's policy allows only by port or address
OUTSIDE = "203.0.113.10"
STORE = OUTSIDE + ":443"
METADATA = "169.254.169.254"
COLUMNS = {"manifest": 24, "trained": 7, "scaled": 9, "killed": 6, "evicted": 7, "finished": 8, "digest": 10, "longest pause": 13, "seconds": 7}


def pod_path(name=""):
    """API path of this case's pods, or of one of them."""
    return "/api/v1/namespaces/%s/pods%s" % (here.space, "/" + name if name else "")


def enter(space, level="restricted"):
    """Creates the case's own namespace, so that its DNS names, which are cached, are not shared
    with other cases."""
    until(lambda: not api.find("/api/v1/namespaces/" + space), 60)
    api.create({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": space, "labels": {"pod-security.kubernetes.io/enforce": level}}}, "/api/v1/namespaces")
    here.space = space


class Stop(Exception):
    """A precondition of the rest of a case does not hold."""


def log_line(what):
    print("%5.0f s  %s" % (time.monotonic() - began, what), flush=True)


def check(what, good, stop=False):
    with lock:
        counts["passed" if good else "failed"] += 1
    if not good:
        print("not so: " + what, flush=True)
        if stop:
            raise Stop
    return good


def run(*args, **more):
    return subprocess.run(args, check=True, capture_output=True, text=True, **more).stdout


def qring(*args):
    return run(os.environ["QR_BIN"] + "/qring", *args)


def secret(name="qcnn"):
    return qring("certs", name, "--secret", "--namespace", here.space)


def fetch(url, token=None):
    request = urllib.request.Request(url, headers={"Authorization": "Bearer " + token} if token else {"Metadata-Flavor": "Google"})
    with urllib.request.urlopen(request, timeout=10) as reply:
        return reply.read()


def token():
    return json.loads(fetch("http://%s/computeMetadata/v1/instance/service-accounts/default/token" % METADATA))["access_token"]


def stored(bucket, name):
    """An object's bytes, or None."""
    try:
        return fetch("http://%s/storage/v1/b/%s/o/%s?alt=media" % (STORE, bucket, name.replace("/", "%2F")), token())
    except urllib.error.HTTPError as e:
        if e.code == 404:
            return None
        raise


def listed(bucket):
    """{name: generation} of all objects; a write changes the generation."""
    found = json.loads(fetch("http://%s/storage/v1/b/%s/o" % (STORE, bucket), token()))
    return {d["name"]: d["generation"] for d in found.get("items", [])}


def store(bucket, name, data):
    url = "http://%s/upload/storage/v1/b/%s/o?uploadType=media&name=%s" % (STORE, bucket, name.replace("/", "%2F"))
    request = urllib.request.Request(url, data=data, headers={"Authorization": "Bearer " + token()})
    urllib.request.urlopen(request, timeout=10).close()


def outside():
    """Starts tests/fake/gcs.py in its own network outside the pods'; returns its process."""
    if os.path.exists("/run/netns/outside"): # left by an earlier run on this cluster
        run("ip", "netns", "delete", "outside")
        until(lambda: not os.path.exists("/sys/class/net/outside"), 20)
    for command in ("ip netns add outside", "ip link add outside type veth peer name eth0 netns outside",
                    "ip address add 203.0.113.1/24 dev outside", "ip link set outside up",
                    "ip -n outside address add %s/24 dev eth0" % OUTSIDE, "ip -n outside address add %s/32 dev eth0" % METADATA,
                    "ip -n outside link set eth0 up", "ip -n outside link set lo up",
                    "ip -n outside route add default via 203.0.113.1", "ip route add %s via %s" % (METADATA, OUTSIDE)):
        run(*command.split())
    run("ip", "netns", "exec", "outside", "nft", "-f", "-",
        input="table ip a {\n chain a {\n  type nat hook prerouting priority -100\n  tcp dport 80 redirect to :443\n }\n}\n")
    log = open(work + "/store.log", "w", encoding="utf-8")
    fake = subprocess.Popen(["ip", "netns", "exec", "outside", "/usr/bin/python3", "tests/fake/gcs.py", "443", work + "/store.port", "0.0.0.0"],
                            stdout=log, stderr=log)
    check("the bucket server replies", until(token, 20), stop=True)
    return fake


def row(of):
    """A line of the table: the seconds of each event of a manifest."""
    return "| " + " | ".join(str(of.get(c, "–")).ljust(w) for c, w in COLUMNS.items()) + " |"


def table(rows):
    head = [row({c: c for c in COLUMNS}), row({c: "-" * w for c, w in COLUMNS.items()})]
    print("\n".join(head + [row(r) for r in rows]), flush=True)
