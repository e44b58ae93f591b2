"""A fake API server of Kubernetes.

It is asked by the real client, so that methods, paths and bodies are real too.
"""

from __future__ import annotations

import copy
import http.server
import json
import re
import threading
import urllib.parse

import pytest


# Paths whose texts are malformed JSON, not logs.
JSON = ("/jobs/small", "/pods", "/version/", "/configmaps/small")


class _Api(http.server.BaseHTTPRequestHandler):
    def _reply(self, status, body):
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        plain = isinstance(body, str) and not self.path.partition("?")[0].endswith(JSON)
        kind = "text/plain" if plain else "application/json"
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _refuse(self, status, message):
        self._reply(status, {"kind": "Status", "message": message, "code": status})

    def _handle(self):
        fake = self.server.fake
        path = urllib.parse.unquote(self.path.partition("?")[0])
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        fake.calls.append((self.command, self.path, body))
        for pattern, status in fake.refused:
            if re.search(pattern, f"{self.command} {path}"):
                return self._refuse(status, fake.reason)
        if path in fake.texts:
            return self._reply(200, fake.texts[path])
        if self.command == "POST":
            at = f"{path}/{body['metadata']['name']}"
            if at in fake.objects:
                return self._refuse(409, f"{body['metadata']['name']} already exists")
            body = copy.deepcopy(body)
            body["metadata"]["uid"] = f"uid-{len(fake.calls)}"
            if "dryRun=All" not in self.path:
                fake.objects[at] = body
            if fake.lost and re.search(fake.lost, at):
                return self._reply(500, "the reply is lost")
            return self._reply(201, body)
        if path.endswith("/pods"):
            return self._reply(200, {"kind": "PodList", "items": self._pods()})
        if path not in fake.objects:
            return self._refuse(404, f"{path} not found")
        if self.command == "PATCH":
            # As for the real server, a patch's type is in its header.
            assert "merge-patch+json" in self.headers["Content-Type"]
            _merge(fake.objects[path], body)
        if self.command == "DELETE":
            wanted = ((body or {}).get("preconditions") or {}).get("uid")
            if wanted not in (None, fake.objects[path]["metadata"].get("uid")):
                return self._refuse(409, "the UID in the precondition is another one")
            return self._reply(200, fake.objects.pop(path))
        return self._reply(200, fake.objects[path])

    def _pods(self):
        """Pods without an owner are those of the Job that the request names."""
        fake = self.server.fake
        query = urllib.parse.parse_qs(self.path.partition("?")[2])
        name = query["labelSelector"][0].partition("=")[2]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name}
        job = fake.of("jobs", name)
        owner["uid"] = job["metadata"].get("uid", "none") if job else "none"
        return [
            {**pod, "metadata": {"ownerReferences": [owner], **pod["metadata"]}}
            for pod in fake.pods
        ]

    do_GET = do_POST = do_PATCH = do_DELETE = _handle

    def log_message(self, *arguments):
        pass


def _merge(target, change):
    for key, value in change.items():
        if isinstance(value, dict):
            _merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


class Fake:
    """Objects, pods and logs of a cluster, and all requests."""

    def __init__(self):
        self.calls, self.objects, self.pods, self.texts, self.refused = [], {}, [], {}, []
        self.lost, self.reason = None, "refused by the test"
        version = {"major": "1", "minor": "33+", "gitVersion": "v1.33.1"}
        empty = ("gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform")
        self.objects["/version/"] = {**version, **dict.fromkeys(empty, "")}

    def of(self, kind, name="small"):
        ends = f"/{kind}/{name}"
        return next((body for path, body in self.objects.items() if path.endswith(ends)), None)

    def names(self):
        return sorted("/".join(path.split("/")[-2:]) for path in self.objects)[:-1]

    def status(self, **status):
        self.of("jobs")["status"] = status

    def condition(self, kind, reason="", message=""):
        entry = {"type": kind, "status": "True", "reason": reason, "message": message}
        self.status(conditions=[entry])

    def pod(self, index, log="", phase="Running", code=None, message="", metrics=None, reason=""):
        name = f"small-{index}-{len(self.pods)}"
        state = {}
        if code is not None:
            state = {"terminated": {"exitCode": code, "message": message, "reason": reason}}
        elif reason:
            state = {"waiting": {"reason": reason, "message": message}}
        container = {"name": "qringd", "image": "", "imageID": "", "ready": True}
        self.pods.append(
            {
                "metadata": {
                    "name": name,
                    "uid": name,
                    "labels": {"batch.kubernetes.io/job-completion-index": str(index)},
                    "creationTimestamp": f"2026-01-01T00:00:{len(self.pods):02d}Z",
                },
                "status": {
                    "phase": phase,
                    "containerStatuses": [{**container, "restartCount": 0, "state": state}],
                },
            }
        )
        base = f"/api/v1/namespaces/ml/pods/{name}"
        if log is not None:
            self.texts[f"{base}/log"] = log
        if metrics:
            self.texts[f"{base}:8080/proxy/metrics"] = metrics


@pytest.fixture
def fake():
    fake = Fake()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Api)
    server.fake = fake
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield fake
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def client(fake):
    pytest.importorskip("kubernetes", minversion="24")  # as the extra says
    module = pytest.importorskip("kubernetes.client")
    configuration = module.Configuration(host=fake.url)
    configuration.retries = False
    return module.ApiClient(configuration)
