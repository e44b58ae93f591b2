#!/usr/bin/env python3
"""The variance of the energy's derivative by the first angle, over the random circuits of barren-plateaus.json, for several numbers of qubits:
with two qubits more it is about a quarter.

    python3 deploy/jobs/examples/barren-plateaus.py [QUBITS...]    # 4 6 8 10 unless given
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile


def derivatives(job):
    """One a copy of the circuit, each with its own random angles"""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(job, f)
        f.flush()
        said = subprocess.run(["qring", "gradient", f.name], check=True, stdout=subprocess.PIPE)
    return [copy[0] for copy in json.loads(said.stdout)["gradient"].values()]


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "barren-plateaus.json"), encoding="utf-8") as f:
    job = json.load(f)
for qubits in [int(n) for n in sys.argv[1:]] or [4, 6, 8, 10]:
    job["model"][0]["circuit"]["qubits"] = qubits
    print("%2d qubits: variance %.5f" % (qubits, statistics.pvariance(derivatives(job))))
