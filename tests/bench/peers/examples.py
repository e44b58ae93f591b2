"""Compares the examples of deploy/jobs/examples with the same models in PennyLane with JAX (or
another program of PEERS), on one core. examples/NAME.py has the peers' models; examples/train.py
trains them and documents the interface. All start from the weights of the job's seed and train on
the same samples in the same order (not shuffled) by the same rule, without early stopping. The
losses of the first 20 steps must agree, and, where the peer is fast enough for the whole training,
the final loss and metrics. Peers are compared in float64 and timed in the job's precision. The time
of qring's epoch is the difference of a long and a short run, with all that it always writes; that
of a peer is the median step (without compilation) times the steps, plus one validation."""
import glob
import json
import os
import shutil
import statistics
import subprocess

import lines
from mlp import timed

FOLDER = "deploy/jobs/examples"
PENNYLANE = {"default.qubit": "catalyst", "lightning.qubit": "catalyst"}  # peer: environment under build/peers
PEERS = {"transfer-base": {"jax": "catalyst"}, "mlp": {"numpy": "jax", "keras": "tfq"}, "mnist": dict(PENNYLANE, jax="jax"),
         "barren-plateaus": {"jax": "jax"}}  # examples with other peers; a step of its 88000 gates takes PennyLane's minutes
FIRST = 20  # steps whose losses are compared
LOSS_TOLERANCE = {"single": 1e-6, "double": 1e-12}
FINAL_TOLERANCE = {"single": 1e-4, "double": 1e-9}  # of the last loss: differences grow with each step
WHOLE = ("default.qubit", "jax", "numpy", "keras")  # peers fast enough for the whole training
SLOW = {("mnist", "default.qubit")}  # exceptions
ROUNDS = 5
LEAST_NS = 3e8  # minimum difference of the long and the short run
RUN_S = 900


def names():
    return sorted(os.path.basename(p)[:-5] for p in glob.glob(FOLDER + "/*.json"))


def run(folder, job, cores, epochs=None):
    """Trains into FOLDER/out; returns (nanoseconds, nanoseconds of processor time)"""
    command = [os.environ.get("QR_BIN", "build/bin") + "/qring", "run", job, "-n", "1", "--threads", str(len(cores)), "--fresh",
               "--out", folder + "/out"] + (["--epochs", str(epochs)] if epochs else [])
    return timed(command, {}, cores, folder + "/qring.log")[:2]


def write_job(folder, name, cores):
    """Writes the job for both sides to a copy of the examples' folder; returns (its path, its
    content). The initial weights come from a run with learning rate 0."""
    path = "%s/%s.json" % (folder, name)
    with open(path) as f:
        job = json.load(f)
    train = job["train"]
    train.pop("early_stopping", None)
    still = dict(job, train=dict(train, epochs=1, optimizer={"name": "sgd", "learning_rate": 0}))
    with open(folder + "/still.json", "w") as f:
        json.dump(still, f)
    run(folder, folder + "/still.json", cores)
    weights = "%s/%s.safetensors" % (folder, name)
    shutil.copy(folder + "/out/weights.safetensors", weights)
    train.update(shuffle=False, initial_weights=weights)
    with open(path, "w") as f:
        json.dump(job, f)
    return path, job


def whole_training(folder, path, cores):
    """Losses of all steps, and validation loss and metrics with the final weights"""
    run(folder, path, cores)
    with open(folder + "/out/steps.jsonl") as f:
        steps = [json.loads(line) for line in f]
    infer = [os.environ.get("QR_BIN", "build/bin") + "/qring", "infer", path, "--weights", folder + "/out/weights.safetensors", "--json"]
    reply = json.loads(timed(infer, {}, cores, folder + "/qring.log")[2])
    return {"losses": [s["loss"] for s in steps if s["kind"] == "TRAIN"], "loss": reply["loss"], "metrics": reply["metrics"]}


def epochs_that_last(folder, path, cores, job):
    """Number of epochs beyond the first that take long enough to be measured"""
    short, more = run(folder, path, cores, 1)[0], max(1, job["train"].get("epochs", 1))
    while run(folder, path, cores, 1 + more)[0] - short < LEAST_NS:
        more *= 4
    return more


def one_epoch(folder, path, cores, more):
    short, long = run(folder, path, cores, 1), run(folder, path, cores, 1 + more)
    return {"ns": (long[0] - short[0]) / more, "cpu_ns": (long[1] - short[1]) / more}


def peer(python, program, folder, name, dtype, steps, cores, environment):
    command = [python, "tests/bench/peers/examples/train.py", program, folder, name, dtype, str(steps)]
    return json.loads(timed(command, environment, cores, "%s/%s.log" % (folder, program), RUN_S)[2].splitlines()[-1])


def epochs_of(reply):
    """A peer's times of an epoch, one per round: the steps are divided into rounds; the median step
    of each times the number of steps, plus one validation"""
    size = max(1, len(reply["ns"]) // ROUNDS)
    return [{key: statistics.median(reply[key][i * size:(i + 1) * size]) * reply["steps"] + reply.get("held_" + key, 0)
             for key in ("ns", "cpu_ns")} for i in range(min(ROUNDS, len(reply["ns"])))]


def disagreement(precision, ours, theirs):
    """(largest difference of a loss, difference of the last loss or None, problem or None)"""
    off = max(abs(a - b) / max(1, abs(b)) for a, b in zip(ours["losses"][:FIRST], theirs["losses"][:FIRST]))  # relative above 1: a sum of energies may be large
    last = abs(ours["loss"] - theirs["loss"]) / max(1, abs(theirs["loss"])) if "loss" in theirs else None
    if not off <= LOSS_TOLERANCE[precision]:
        return off, last, "a loss of the first %d steps is off by %.2g" % (FIRST, off)
    if last is not None and not last <= FINAL_TOLERANCE[precision]:
        return off, last, "the last loss is off by %.2g" % last
    for metric, value in theirs.get("metrics", {}).items():
        mine = ours["metrics"][metric]
        if not abs(mine - value) <= FINAL_TOLERANCE[precision]:
            return off, last, "%s is %.12g, the peer's %.12g" % (metric, mine, value)
    return off, last, None


def one_example(out, pythons, work, environment, name, rounds, cores):
    """pythons: peer -> its Python"""
    folder = "%s/examples/%s" % (work, name)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(FOLDER, folder)
    path, job = write_job(folder, name, cores)
    precision = job.get("precision", "single")
    about = {"name": name, "n": max([layer["circuit"]["qubits"] for layer in job["model"] if layer["layer"] == "quantum"] or [0]),
             "batch": job["train"].get("batch_size", 32) if job["data"]["source"] != "none" else 1, "threads": 1}
    ours, more, found = whole_training(folder, path, cores), epochs_that_last(folder, path, cores, job), {}
    for program, python in pythons.items():
        steps = len(ours["losses"]) if program in WHOLE and (name, program) not in SLOW else FIRST
        try:
            reply = peer(python, program, folder, name, "float64", steps, cores, environment)
            off, last, problem = disagreement(precision, ours, reply)
            if problem:
                out.problem("the example %s, compared with %s: %s" % (name, program, problem))
                continue
            if precision == "single":
                timing = peer(python, program, folder, name, "float32", max(steps, FIRST + reply["steps"]), cores, environment)
                reply.update({key: v for key, v in timing.items() if key.endswith("ns")})
        except (OSError, ValueError, KeyError, subprocess.SubprocessError) as e:
            out.problem("the example %s, compared with %s: %s" % (name, program, e))
            continue
        found[program] = dict({"loss_off": off, "steps_compared": min(FIRST, len(reply["losses"]))},
                          **({} if last is None else {"last_loss_off": last, "metrics": reply["metrics"]})), epochs_of(reply)
    mine = [one_epoch(folder, path, cores, more) for _ in range(rounds)]
    figures = {program: dict(lines.spread([r["ns"] for r in runs]), cpu_ns=round(statistics.median(r["cpu_ns"] for r in runs)))
               for program, runs in [("qring", mine)] + [(w, f[1]) for w, f in found.items()]}
    out.measured("example", dict(about, who="qring", loss=ours["loss"], metrics=ours["metrics"], **figures["qring"]))
    for program, (facts, runs) in found.items():
        out.measured("example", dict(about, who=program, **facts, **figures[program]))
        out.ratio("example", dict(about, against=program), mine, runs, figures["qring"], figures[program])


def compare(out, python_of, missing, work, environment, rounds, cores, begin):
    """python_of(environment), missing(environment): those of measure.py. begin: prefix of the
    examples' names."""
    for name in names():
        if not name.startswith(begin):
            continue
        peers = PEERS.get(name, PENNYLANE)
        for program, why in ((w, missing(e)) for w, e in peers.items()):
            if why:
                out.skipped({"who": program}, "%s: %s" % (name, why))
        try:
            one_example(out, {w: python_of(e) for w, e in peers.items() if not missing(e)}, work, environment, name, rounds, cores[1])
        except (OSError, ValueError, KeyError, subprocess.SubprocessError) as e:
            out.problem("the example %s: %s" % (name, e))
