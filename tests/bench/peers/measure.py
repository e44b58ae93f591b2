#!/usr/bin/env python3
"""qring beside TensorFlow Quantum and PennyLane Lightning. Everybody does one repetition in turn, in processes that live on, so that what
disturbs the machine meets all alike; a ratio is that of two neighbours in one round. Whether both computed the same is checked first.
Usage: measure.py TFQ_PYTHON LIGHTNING_PYTHON, from the repository's root; writes build/bench/peers.jsonl. LONG=1: 22 and 23 qubits too.
RUNS=n: so many repetitions at most. ONLY=gradient or tutorial: the rest is left out."""
import json
import os
import signal
import statistics
import subprocess
import sys

sys.path.insert(0, "tests/bench")
import cases
import lines
import report
import tutorial
from talk import Failed, Peer

WORK = "build/peers/work"
PYTHON_ENV = {"TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}
HERE = "tests/bench/peers/"
LEAST_MS = 50  # a repetition goes on for so long: then the first gradient's cold caches do not count

# How far a derivative of the loss may be from qring's, absolute. TFQ's read-outs have derivatives up to 7e-5 off (finite differences of
# float32 gate matrices), the loss up to four times that; Lightning's and qring's statevector engine have the rounding of float32 amplitudes.
TOLERANCE = {"tfq": 3e-4, "lightning": 4e-5, "qring": 1e-5}
# and whoever is off by more than this part of the largest component has computed something else
OTHER_THING = 0.02


class Sides:
    """The processes, started when first asked."""

    def __init__(self, tfq, lightning):
        cores = sorted(os.sched_getaffinity(0))
        self.cores = {1: {cores[-1]}, 2: set(cores[-2:])}
        self.commands = {"qring": [os.environ.get("QR_B", "build/release") + "/" + HERE + "gradient"],
                         "tfq": [tfq, HERE + "tfq_gradient.py"], "lightning": [lightning, HERE + "lightning_gradient.py"]}
        self.running = {}

    def ask(self, key, request):
        who, threads, engine = key
        if key not in self.running:
            extra = [str(threads)] if who == "qring" else []
            log = "%s/%s-%d%s.log" % (WORK, who, threads, engine)
            self.running[key] = Peer(who, self.commands[who] + extra, self.cores[threads], log, PYTHON_ENV)
        try:
            return self.running[key].ask(request)
        except Failed:
            del self.running[key]
            raise

    def stop(self):
        for peer in self.running.values():
            peer.stop()


def sides_of(name, n, batch):
    """(who, threads, engine) of everybody who takes part in a case"""
    sides = [("qring", 1, ""), ("tfq", 1, ""), ("qring", 2, ""), ("tfq", 2, "")]
    if name == "qcnn-pure" and n <= 20 and (n, batch) not in ((8, 16), (8, 112)):
        sides.insert(1, ("lightning", 1, ""))
    if n == 20:
        sides.append(("qring", 1, "-statevector"))
    return sides


def agree(key, mine, theirs):
    """A sentence when two did not compute the same thing, or None."""
    largest = max(map(abs, mine["gradient"]))
    off = max([abs(a - b) for a, b in zip(mine["gradient"], theirs["gradient"])] + [abs(mine["loss"] - theirs["loss"])])
    if len(mine["gradient"]) == len(theirs["gradient"]) and off <= TOLERANCE[key[0]] and off <= OTHER_THING * largest:
        return None
    return "%s%s computed something else: off by %.2g, largest component %.2g" % (key[0], key[2], off, largest)


def set_up(sides, everybody, path):
    """What each says of itself, when all compute the same."""
    facts, first = {}, None
    for key in everybody:
        facts[key] = sides.ask(key, "open " + (cases.with_engine(path, "statevector") if key[2] else path))
        result = sides.ask(key, "result")
        first = first or result
        problem = agree(key, first, result)
        if problem:
            raise Failed(problem)
    return facts


def figures(facts, runs, batch):
    """The keys of a line beyond the case and who it is; the last ones only qring has"""
    own = dict(lines.spread([r["ns"] / batch for r in runs]), cpu_ns=round(statistics.median(r["cpu_ns"] for r in runs) / batch))
    if not facts:
        return own
    ceiling, gflops = max(r["gflops_ceiling"] for r in runs), facts["flops"] / own["ns"]
    return dict(facts, **own, gflops=round(gflops, 2), gflops_ceiling=ceiling, ceiling_percent=round(100 * gflops / ceiling, 1))


def gradient_case(sides, out, name, n, batch, times):
    path = "%s/%s-%d-%d" % (WORK, name, n, batch)
    cases.write_case(path, name, n, batch)
    everybody = sides_of(name, n, batch)
    facts, runs = set_up(sides, everybody, path), {key: [] for key in everybody}
    for _ in range(times):
        for key in everybody:
            runs[key].append(sides.ask(key, "run %d" % LEAST_MS))
    about, own = {"name": name, "n": n, "batch": batch}, {key: figures(facts[key], runs[key], batch) for key in everybody}
    for key in everybody:
        out.measured("gradient", dict(about, who=key[0], threads=key[1], **own[key]))

    def ratio(ours, theirs, against, **more):
        out.ratio("gradient", dict(about, threads=ours[1], against=against, **more), runs[ours], runs[theirs], own[ours], own[theirs])

    for key in everybody:
        if key[0] != "qring":
            ratio(("qring", key[1], ""), key, key[0])
    ratio(("qring", 2, ""), ("qring", 1, ""), "one thread")
    if n == 20:
        ratio(("qring", 1, "-statevector"), ("tfq", 1, ""), "tfq", engine="statevector")


def versions(tfq, lightning):
    ask = "import importlib.metadata as m, json, sys; print(json.dumps({p: m.version(p) for p in sys.argv[1:]}))"
    pip = [[tfq, "-c", ask, "tensorflow-quantum", "tensorflow", "tf_keras", "cirq-core"],
           [lightning, "-c", ask, "pennylane", "pennylane-lightning"]]
    debian = ["dpkg-query", "-W", "-f", '{"${Package}": "${Version}"}\n', "openmpi-bin", "libgloo-dev"]
    said = [subprocess.run(c, check=True, stdout=subprocess.PIPE, text=True).stdout for c in [*pip, debian]]
    return {name: version for line in "".join(said).splitlines() for name, version in json.loads(line).items()}


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the processes that were started end too
    tfq, lightning = sys.argv[1:3]
    only, limit = os.environ.get("ONLY"), int(os.environ.get("RUNS", "1000"))
    os.makedirs(WORK, exist_ok=True)
    out = report.Report("build/bench/peers.jsonl", versions(tfq, lightning))
    sides = Sides(tfq, lightning)
    gradients = cases.GRADIENTS + (cases.LONG_GRADIENTS if os.environ.get("LONG") else [])
    if len(sides.cores[2]) < 2:
        out.problem("this machine lends one processor: two are needed")
    try:
        for *case, times in gradients if only in (None, "gradient") else []:
            try:
                gradient_case(sides, out, *case, min(times, limit))
            except Failed as e:
                out.problem("%s, %d qubits, batch %d: %s" % (*case, e))
    finally:
        sides.stop()
    if only in (None, "tutorial"):
        tutorial.compare(out, tfq, WORK, PYTHON_ENV, min(3, limit))
    return 0 if out.end() else 1


if __name__ == "__main__":
    sys.exit(main())
