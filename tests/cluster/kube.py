"""Client of a cluster's API for a kubeconfig of tests/cluster/node: a server and a token. The
server's certificate is not verified: tests/cluster/node generates it for each run."""
import json
import ssl
import time
import urllib.error
import urllib.request

import yaml

GROUPS = {"v1": "/api/v1"}
CLUSTER_WIDE = ("ClusterQueue", "ClusterTrainingRuntime", "CustomResourceDefinition", "Namespace", "PersistentVolume",
                "ResourceFlavor")
PLURALS = {"Endpoints": "endpoints", "NetworkPolicy": "networkpolicies"}


class Refused(Exception):
    def __init__(self, status, text):
        super().__init__("%d: %s" % (status, text))
        self.status = status


class Api:
    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            config = yaml.safe_load(f)
        self.server, self.token = config["clusters"][0]["cluster"]["server"], config["users"][0]["user"]["token"]
        self.context = ssl._create_unverified_context()

    def ask(self, method, path, body=None, kind="application/json"):
        """Returns the reply's JSON object, or its text if it is not JSON. Raises Refused for an
        error status."""
        request = urllib.request.Request(self.server + path, method=method, data=None if body is None else json.dumps(body).encode())
        request.add_header("Authorization", "Bearer " + self.token)
        request.add_header("Content-Type", kind)
        try:
            with urllib.request.urlopen(request, context=self.context, timeout=30) as reply:
                text = reply.read().decode(errors="replace")
                return json.loads(text) if "json" in reply.headers.get("Content-Type", "") else text
        except urllib.error.HTTPError as e:
            text = e.read().decode(errors="replace")
            raise Refused(e.code, json.loads(text).get("message", "") if text.startswith("{") else text) from None

    @staticmethod
    def path(api, kind, namespace=None, name=None):
        plural = PLURALS.get(kind, kind.lower() + "s")
        group = GROUPS.get(api, "/apis/" + api)
        return "".join([group, "/namespaces/" + namespace if namespace else "", "/", plural, "/" + name if name else ""])

    def path_of(self, d):
        cluster_wide = d["kind"] in CLUSTER_WIDE
        namespace = None if cluster_wide else d["metadata"].get("namespace", "default")
        return self.path(d["apiVersion"], d["kind"], namespace, d["metadata"]["name"])

    def list(self, api, kind, namespace=None, labels=""):
        return self.ask("GET", self.path(api, kind, namespace) + ("?labelSelector=" + labels if labels else ""))["items"]

    def find(self, path):
        """The object at a path, or None."""
        try:
            return self.ask("GET", path)
        except Refused as e:
            if e.status == 404:
                return None
            raise

    def create(self, d, path=None):
        return self.ask("POST", path or self.path_of(d).rsplit("/", 1)[0], d)

    def apply(self, d):
        """Server-side apply, which rejects unknown fields."""
        return self.ask("PATCH", self.path_of(d) + "?fieldManager=test&force=true", d, "application/apply-patch+yaml")

    def merge(self, path, change):
        return self.ask("PATCH", path, change, "application/merge-patch+json")

    def delete(self, path, **options):
        """Returns whether there was an object to delete."""
        try:
            self.ask("DELETE", path, options or None)
            return True
        except Refused as e:
            if e.status == 404:
                return False
            raise


def until(test, seconds, every=0.2):
    """Repeats test() until its result is true or the time is over; returns the last result. Errors
    of the API server count as None."""
    end = time.monotonic() + seconds
    while True:
        try:
            got = test()
        except (OSError, Refused):
            got = None
        if got or time.monotonic() > end:
            return got
        time.sleep(every)
