"""A Cloud Storage server (tests/fake/gcs.py) that fails on request, and small jobs that publish
often. Used by tests/faults/rows_store.py and rows_replies.py."""
import json, os, subprocess, urllib.request

from ring import ROOT, check, folder, job, until

SMALL = dict(model=[{"layer": "quantum", "circuit": {"ansatz": "qcnn", "qubits": 4, "stages": 1}}, {"layer": "dense", "units": 1}],
             data={"rounds": 4})
OFTEN = ["--checkpoint-interval", "20ms", "--checkpoint-steps", "5", "--logdir="]


def small(name): return job(name, model=SMALL["model"], data=SMALL["data"])


class Fake:
    def __init__(self, name):
        ready = f"{folder('fake-' + name)}/port"
        self.process = subprocess.Popen(["/usr/bin/python3", "-B", ROOT + "/tests/fake/gcs.py", "0", ready], stdout=subprocess.DEVNULL)
        check("the fake server starts", until(lambda: os.path.exists(ready) and os.path.getsize(ready) > 1))
        with open(ready) as f: self.at = "127.0.0.1:" + f.read().strip()
        self.env = {"STORAGE_EMULATOR_HOST": self.at, "GCE_METADATA_HOST": self.at, "NO_GCE_CHECK": "",
                    "GOOGLE_APPLICATION_CREDENTIALS": ""}

    def ask(self, what, body=None):
        request = urllib.request.Request(f"http://{self.at}/control/{what}", data=None if body is None else json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=20) as r: return json.load(r)

    def stored(self, part): return [o for o in self.ask("state")["stored"] if part in o[1]]
    def __enter__(self): return self
    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
