#!/usr/bin/env python3
"""Measures qring and other programs in alternation: each does one repetition in turn, in long-lived
processes, so that disturbances of the machine affect all; a ratio is of two neighbouring runs in
one round. Results are compared first. Usage: measure.py, from the repository's root, after `run`
has created the environments under build/peers; writes build/bench/peers.jsonl. LONG=1: also 22 and
23 qubits. RUNS=n: at most n repetitions. ONLY=gradient, mlp, tutorial, noise or examples: only that
part. CASES=PREFIX: only cases whose name and qubits (qaoa-2-20), or batch (mlp-sgd-128), have this
prefix."""
import json
import os
import signal
import statistics
import subprocess
import sys

sys.path.insert(0, "tests/bench")
import cases
import examples
import lines
import mlp
import noisy_training
import report
import tutorial
from talk import Failed, Peer

WORK = "build/peers/work"
PYTHON_ENV = {"TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1",
              "OMP_PROC_BIND": "false", "JAX_PLATFORMS": "cpu"}
HERE = "tests/bench/peers/"
LEAST_MS = 50  # minimum duration of a repetition, which makes the first gradient's cold caches negligible

# peer: (environment, packages whose versions are recorded, program)
PROGRAMS = {
    "tfq": ("tfq", ["tensorflow-quantum", "tensorflow", "tf_keras", "cirq-core"], ["tfq_gradient.py"]),
    "lightning": ("lightning", ["pennylane", "pennylane-lightning"], ["lightning_gradient.py", "lightning.qubit"]),
    "kokkos": ("lightning", ["pennylane-lightning-kokkos"], ["lightning_gradient.py", "lightning.kokkos"]),
    "qulacs": ("qulacs", ["qulacs"], ["qulacs_gradient.py"]),
    "scaluq": ("scaluq", ["scaluq"], ["scaluq_gradient.py"]),
    "mindquantum": ("mindquantum", ["mindquantum"], ["mindquantum_gradient.py"]),
    "catalyst": ("catalyst", ["pennylane-catalyst"], ["catalyst_gradient.py"]),
    "jax": ("jax", ["jax"], ["jax_gradient.py"]),
    "tensorcircuit": ("jax", ["tensorcircuit-ng"], ["tensorcircuit_gradient.py", "state"]),
    "contraction": ("jax", [], ["tensorcircuit_gradient.py", "contraction"]),
    "mixed": ("lightning", [], ["mixed_gradient.py"]),
    "qsim": ("qsim", ["qsimcirq"], ["qsim_gradient.py"]),
    "aer": ("aer", ["qiskit", "qiskit-aer"], ["aer_gradient.py"]),
    "numpy": ("jax", ["numpy"], ["numpy_mlp.py"]),
    "keras": ("tfq", ["tf_keras"], ["keras_mlp.py"]),
}

# Tolerance of a derivative, as a part of the largest component. TFQ's derivatives of read-outs are
# off by up to 7e-5 (finite differences of float32 gate matrices), those of the loss by up to four
# times that, so TFQ has an absolute bound, and a relative one that only a different computation
# would exceed.
PART, TFQ_ABSOLUTE, TFQ_PART = 1e-4, 3e-4, 0.02
# Estimates are compared with qring's exact method: the mean of ESTIMATES may be off by ERRORS
# standard errors, exceeded once in 2000 runs by Student's t. Loss and gradient of an estimated
# read-out also have a bias of at most a third of a standard error: the read-out's variance, and its
# covariance with the derivative.
ESTIMATES, ERRORS = 6, 8


def python_of(environment):
    return "build/peers/%s/bin/python" % environment


def missing(environment):
    """Why the environment is missing (from tests/venv, by `run`), or None if it exists"""
    if os.path.exists("build/peers/%s/.installed" % environment):
        return None
    try:
        with open("build/peers/%s.why" % environment) as f:
            return f.read().strip().splitlines()[-1]
    except (OSError, IndexError):
        return "not installed"


class Sides:
    """The measured processes, each started by its first request."""

    def __init__(self):
        cores = sorted(os.sched_getaffinity(0))
        self.cores = {1: {cores[-1]}, 2: set(cores[-2:])}
        self.running = {}

    def command(self, who, threads, engine):
        if who == "qring":
            return [os.environ.get("QR_B", "build/release") + "/" + HERE + "gradient", str(threads)] + ([engine] if engine == "statevector" else [])
        environment, _, (program, *arguments) = PROGRAMS[who]
        return [python_of(environment), HERE + program] + arguments

    def ask(self, key, request):
        who, threads, engine = key
        if key not in self.running:
            log = "%s/%s-%d%s.log" % (WORK, who, threads, engine)
            self.running[key] = Peer(who, self.command(*key), self.cores[threads], log, PYTHON_ENV)
        try:
            return self.running[key].ask(request)
        except (Failed, cases.Cannot) as e:
            if not self.running[key].alive():
                del self.running[key]
            raise e

    def stop(self):
        for peer in self.running.values():
            peer.stop()
        self.running = {}


def sides_of(who):
    """(program, threads, engine) of each side of a case, qring first; noiseless: the same circuit
    without noise"""
    sides = [("qring", 1, "")] + [(w, 1, "") for w in who if w in PROGRAMS]
    if "2" in who:
        sides += [("qring", 2, "")] + [("tfq", 2, "")] * ("tfq" in who)
    noiseless = [("tfq", threads, w) for w in who if w == "noiseless" for threads in (1, 2)]
    return sides + [("qring", 1, w) for w in who if w == "statevector"] + noiseless


def name_of(key):
    return key[0] + " noiseless" * (key[2] == "noiseless")


def disagree(key, mine, theirs):
    """Describes the difference of two results, or None if they agree. A peer may omit the head's
    derivatives, and has None for others that it does not compute."""
    n = min(len(mine["gradient"]), len(theirs["gradient"]))
    largest = max(map(abs, mine["gradient"][:n]))
    off = max(abs(a - b) for a, b in zip(mine["gradient"], theirs["gradient"]) if b is not None)
    loss_off = abs(mine["loss"] - theirs["loss"])
    if key[0] == "tfq":
        fine = max(off, loss_off) <= min(TFQ_ABSOLUTE, TFQ_PART * largest)
    else:
        fine = off <= PART * largest and loss_off <= PART * max(largest, abs(mine["loss"]))
    return None if fine else "%s%s computed something else: off by %.2g, loss by %.2g, largest component %.2g" % (
        key[0], key[2], off, loss_off, largest)


def estimates_disagree(key, exact, ask):
    """The same for estimates: of the loss, and of the gradient's component along the exact
    gradient"""
    results = []
    for _ in range(ESTIMATES):
        ask("run 0")
        results.append(ask("result"))
    for what in "loss", "gradient":
        known = [b if g is not None else 0 for b, g in zip(exact["gradient"], results[0]["gradient"])]
        part = (lambda r: r["loss"]) if what == "loss" else (lambda r: sum(a * b for a, b in zip(r["gradient"], known) if b))
        found = [part(r) for r in results]
        off, error = statistics.mean(found) - part(exact), statistics.stdev(found) / ESTIMATES ** 0.5
        if abs(off) > ERRORS * error:
            return "%s%s estimated something else: %s off by %.2g, standard error %.2g" % (key[0], key[2], what, off, error)
    return None


def exact_result(sides, path):
    key = "qring", 1, "exact"
    sides.ask(key, "open " + path)
    return sides.ask(key, "result")


def set_up(sides, out, about, keys, path_of):
    """Returns {side: its reply to open}. A side that cannot compute the case, fails, or computes
    something else is reported and left out. The reference is the first result; for estimates,
    qring's exact method."""
    facts, first, estimated = {}, None, about["name"] in cases.ESTIMATED
    if estimated:
        first = exact_result(sides, path_of(("qring", 1, "exact")))
    for key in keys:
        try:
            reply = sides.ask(key, "open " + path_of(key))
            result = sides.ask(key, "result")
            first = first or result
            if key[2] == "noiseless":
                problem = None  # another circuit, which has its own case
            elif estimated:
                problem = estimates_disagree(key, first, lambda request: sides.ask(key, request))
            else:
                problem = disagree(key, first, result)
            if problem:
                raise Failed(problem)
            facts[key] = reply
        except cases.Cannot as e:
            out.skipped(dict(about, who=key[0]), str(e))
        except Failed as e:
            out.problem(str(e), dict(about, who=key[0]))
    return facts


def figures(facts, runs, batch):
    """The keys of a line besides the case and the program; only qring has flops"""
    own = dict(lines.spread([r["ns"] / batch for r in runs]), cpu_ns=round(statistics.median(r["cpu_ns"] for r in runs) / batch))
    if "flops" not in facts:
        return dict(own, **facts)
    ceiling, gflops = max(r["gflops_ceiling"] for r in runs), facts["flops"] / own["ns"]
    return dict(facts, **own, gflops=round(gflops, 2), gflops_ceiling=ceiling, ceiling_percent=round(100 * gflops / ceiling, 1))


def rounds_of_two_cores(one, two):
    """Rounds in which two threads had at least 1.8 times the multiply-adds of one. In the others
    the two processors of a virtual machine ran on one core."""
    return [i for i, (a, b) in enumerate(zip(one, two)) if b["gflops_ceiling"] >= 1.8 * a["gflops_ceiling"]]


def gradient_case(sides, out, name, n, batch, times, who):
    def path_of(key):
        named = {"exact": "qcnn-exact", "noiseless": "qcnn-pure"}.get(key[2], name)
        path = "%s/%s-%d-%d" % (WORK, named, n, batch)
        if path not in written:
            cases.write_case(path, named, n, batch)
            written.add(path)
        return path

    written, about = set(), {"name": name, "n": n, "batch": batch}
    facts = set_up(sides, out, about, [k for k in sides_of(who) if k[0] not in out.absent], path_of)
    keys, runs = list(facts), {key: [] for key in facts}
    for _ in range(times):
        for key in keys:
            runs[key].append(sides.ask(key, "run %d" % LEAST_MS))
    own = {key: figures(facts[key], runs[key], batch) for key in keys}
    for key in keys:
        out.measured("gradient", dict(about, who=name_of(key), threads=key[1], **own[key]))

    def ratio(ours, theirs, against, rounds=None, **more):
        if ours in own and theirs in own:
            both = [(runs[ours][i], runs[theirs][i]) for i in (range(times) if rounds is None else rounds)]
            out.ratio("gradient", dict(about, threads=ours[1], against=against, **more), *zip(*both), own[ours], own[theirs])

    for key in keys:
        if key[0] != "qring":
            ratio(("qring", key[1], ""), key, name_of(key))
    one, two = ("qring", 1, ""), ("qring", 2, "")
    if one in own and two in own:
        rounds = rounds_of_two_cores(runs[one], runs[two])
        if rounds:
            ratio(two, one, "one thread", rounds, rounds_apart=times - len(rounds))
        else:
            out.problem("the two processors were one core in all rounds", about)
    ratio(("qring", 1, "statevector"), ("tfq", 1, ""), "tfq", engine="statevector")


def versions(absent):
    ask = "import importlib.metadata as m, json, sys; print(json.dumps({p: m.version(p) for p in sys.argv[1:]}))"
    outputs = [subprocess.run([python_of(environment), "-c", ask] + packages, check=True, stdout=subprocess.PIPE, text=True).stdout
               for who, (environment, packages, _) in PROGRAMS.items() if who not in absent]
    debian = ["dpkg-query", "-W", "-f", '{"${Package}": "${Version}"}\n', "openmpi-bin", "libgloo-dev"]
    outputs.append(subprocess.run(debian, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout)  # installed ones only
    return {name: version for line in "".join(outputs).splitlines() for name, version in json.loads(line).items()}


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # runs the finally blocks, which end the started processes
    only, limit, begin = os.environ.get("ONLY"), int(os.environ.get("RUNS", "1000")), os.environ.get("CASES", "")
    os.makedirs(WORK, exist_ok=True)
    absent = {who: why for who, why in ((who, missing(p[0])) for who, p in PROGRAMS.items()) if why}
    out = report.Report("build/bench/peers.jsonl", versions(absent), absent)
    sides = Sides()
    if len(sides.cores[2]) < 2:
        out.problem("only one processor is available: two are needed")
    try:
        for name, n, batch, times, who in cases.CASES + (cases.LONG_CASES if os.environ.get("LONG") else []):
            if only not in (None, "gradient") or not ("%s-%d" % (name, n)).startswith(begin):
                continue
            try:
                gradient_case(sides, out, name, n, batch, min(times, limit), who)
            except (Failed, cases.Cannot) as e:
                out.problem("%s, %d qubits, batch %d: %s" % (name, n, batch, e))
            sides.stop()  # a compiled program of 20 qubits may use gigabytes
    finally:
        sides.stop()
    if only in (None, "mlp"):
        programs = {who: sides.command(who, 1, "") for who in ("numpy", "keras") if who not in absent}
        mlp.compare(out, programs, WORK, PYTHON_ENV, min(5, limit), sides.cores, begin)
    if only in (None, "tutorial") and "tfq" not in absent:
        tutorial.compare(out, python_of("tfq"), WORK, PYTHON_ENV, min(3, limit))
    if only in (None, "noise") and "tfq" not in absent:
        noisy_training.compare(out, python_of("tfq"), WORK, PYTHON_ENV, limit, sides.cores[1])
    if only in (None, "examples"):
        examples.compare(out, python_of, missing, WORK, PYTHON_ENV, min(examples.ROUNDS, limit), sides.cores, begin)
    return 0 if out.end() else 1


if __name__ == "__main__":
    sys.exit(main())
