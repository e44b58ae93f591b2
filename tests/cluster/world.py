"""What the cases of tests/cluster/e2e.py stand on: the cluster's API, a bucket outside of it, counts, the table of the end."""
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

from kube import Api, until

work, manifests, epochs = sys.argv[1:4]
api = Api(os.environ["KUBECONFIG"])
counts = {"passed": 0, "failed": 0, "skipped": 0}
began = time.monotonic()
rows = []
# Cloud Storage and a metadata server where no policy of a ring's pods lets them but by the ports and addresses that it names
OUTSIDE = "203.0.113.10"
STORE = OUTSIDE + ":443"
METADATA = "169.254.169.254"
PODS = "/api/v1/namespaces/default/pods"


class Stop(Exception):
    """What the rest of a case would stand on is not so."""


def say(what):
    print("%5.0f s  %s" % (time.monotonic() - began, what), flush=True)


def check(what, good, stop=False):
    counts["passed" if good else "failed"] += 1
    if not good:
        print("not so:", what, flush=True)
        if stop:
            raise Stop
    return good


def run(*args, **more):
    return subprocess.run(args, check=True, capture_output=True, text=True, **more).stdout


def qring(*args):
    return run(os.environ["QR_BIN"] + "/qring", *args)


def secret():
    return qring("certs", "qcnn", "--secret")


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


def store(bucket, name, data):
    url = "http://%s/upload/storage/v1/b/%s/o?uploadType=media&name=%s" % (STORE, bucket, name.replace("/", "%2F"))
    request = urllib.request.Request(url, data=data, headers={"Authorization": "Bearer " + token()})
    urllib.request.urlopen(request, timeout=10).close()


def outside():
    """A network of its own beside the pods', with tests/fake/gcs.py in it; its process."""
    if os.path.exists("/run/netns/outside"): # of an earlier run on this cluster
        run("ip", "netns", "delete", "outside")
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
    check("there is a bucket", until(token, 20), stop=True)
    return fake


def table():
    """manifest × what was done to it, in seconds where it took some."""
    columns = ["manifest", "trained", "scaled", "killed", "evicted", "finished", "digest", "longest pause", "seconds"]
    lines = [columns] + [[str(r.get(c, "–")) for c in columns] for r in rows]
    wide = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for line in lines:
        print("| " + " | ".join(cell.ljust(w) for cell, w in zip(line, wide)) + " |", flush=True)
        if line is columns:
            print("| " + " | ".join("-" * w for w in wide) + " |", flush=True)
