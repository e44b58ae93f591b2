"""The tutorial's hybrid model with depolarizing noise of 1 % after each gate, trained by qring and by TensorFlow Quantum's
NoisyPQC from the same weights on the same samples, with the same number of trajectories. TFQ's estimates are random, and so
is its training. Comparisons:

  read-outs   qring's exact read-outs, at the initial weights and at the final ones of both, in standard errors of TFQ's repeated evaluations
  loss        of each step: mean and standard deviation of qring's trainings with other seeds by TFQ's rule, parameter shifts
              with their own trajectories
  last loss   the exact loss at the final weights: the same; and trainings with adjoint gradients, of trajectories and exact,
              which have less noise and therefore reach a lower loss

A z above MOST is a failure, which by chance happens once in 1000 runs (Student's t with 11 degrees of freedom); so is a root
mean square of z above MOST_RMS. Times are those of a step with adjoint gradients, on one core."""
import json
import math
import os
import statistics
import subprocess
import sys

import cases
import lines
from mlp import timed

sys.path.insert(0, "tests/it")
import golden

NOISE, SAMPLES, STEPS, REPETITIONS = 0.01, 4, 20, 50
SEEDS, EVALUATIONS, MOST, MOST_RMS = 12, 24, 7, 1.8
ADJOINT_SEEDS = 24
MORE_STEPS, ROUNDS = 220, 3  # of qring, to measure a step
TFQ_S = 3600


def qring(*arguments, cores, log):
    return timed([os.environ.get("QR_BIN", "build/bin") + "/qring", *arguments], {}, cores, log)


class Training:
    def __init__(self, folder, cores):
        """Writes the jobs: that of golden.py, with fewer samples and with noise."""
        self.folder, self.cores = folder, cores
        subprocess.run([sys.executable, "tests/it/golden.py", "train-job", folder, "50ep", "single"], check=True)
        with open(folder + "/data.csv") as f:
            rows = f.readlines()
        with open(folder + "/data.csv", "w") as f:
            f.writelines(rows[:1 + SAMPLES])
        with open(folder + "/job.json") as f:
            job = json.load(f)
        self.initial = job["train"]["initial_weights"]
        job["data"]["train_fraction"] = 1
        job["train"].update(epochs=STEPS, batch_size=SAMPLES)
        quantum = job["model"][0]
        quantum["circuit"]["noise"] = {"after": {"*": {"channel": "Depolarize", "p": NOISE}}}
        trajectories = {"method": "trajectories", "trajectories": REPETITIONS}
        for name, keys in {"exact": {"method": "exact"}, "adjoint": trajectories, "job": dict(trajectories, gradient="parameter-shift")}.items():
            job["model"][0] = dict(quantum, **keys)
            with open("%s/%s.json" % (folder, name), "w") as f:
                json.dump(job, f)

    def run(self, job, *flags):
        return qring("run", "%s/%s.json" % (self.folder, job), "-n", "1", "--threads", "1", "--fresh", "--checkpoints", "none", "--logdir", "",
                     "--out", self.folder + "/out", *flags, cores=self.cores, log=self.folder + "/qring.log")[0]

    def train(self, job, seed):
        """Returns (losses of the steps, file of the final weights)"""
        self.run(job, "--seed", str(seed))
        with open(self.folder + "/out/steps.jsonl") as f:
            losses = [json.loads(line)["loss"] for line in f]
        path = "%s/%s-%d.safetensors" % (self.folder, job, seed)
        cases.write_safetensors(path, golden.read_safetensors(self.folder + "/out/weights.safetensors"))
        return losses, path

    def trainings(self, job, seeds):
        """[(losses of the steps, exact loss at the final weights)] for each seed"""
        found = [self.train(job, seed) for seed in range(1, 1 + seeds)]
        return [(losses, self.exact_loss(path)) for losses, path in found]

    def exact(self, weights, of):
        output = qring("gradient", self.folder + "/exact.json", "--weights", weights, "--of", of, cores=self.cores, log=self.folder + "/qring.log")[2]
        return [json.loads(line) for line in output.splitlines()]

    def exact_loss(self, weights):
        return self.exact(weights, "loss")[0]["loss"]

    def step_ns(self, job):
        short, long = (self.run(job, "--epochs", str(n)) for n in (STEPS, STEPS + MORE_STEPS))
        return max(1, (long - short) / MORE_STEPS)


def deviation(value, sample):
    """Deviation from the sample's mean, in standard deviations, including the error of the mean"""
    return (value - statistics.mean(sample)) / (statistics.stdev(sample) * math.sqrt(1 + 1 / len(sample)))


def readout_deviations(exact, found):
    """z of all samples and read-outs"""
    return [(m - e["readouts"][i]) / error for e, mean, errors in zip(exact, found["mean"], found["error"])
            for i, (m, error) in enumerate(zip(mean, errors))]


def save(path, initial, values):
    shapes = {name: shape for name, (shape, _) in golden.read_safetensors(initial).items()}
    names = "pqc/parameters", "dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"
    cases.write_safetensors(path, {name: (shapes[name], v) for name, v in zip(names, values)})


def both(training, python, environment):
    """Returns ({quantity: (TFQ's, qring's, its standard deviation or None, z, the largest z allowed
    or None)}, TFQ's output)"""
    _, exact_weights = training.train("exact", 1)
    trainings = training.trainings("job", SEEDS)
    command = [python, "tests/bench/peers/tfq_noisy_training.py", training.folder, str(STEPS), str(REPETITIONS), str(EVALUATIONS),
               training.initial, exact_weights]
    reply = json.loads(timed(command, environment, training.cores, training.folder + "/tfq.log", TFQ_S)[2].splitlines()[-1])
    theirs, rows = training.folder + "/tfq.safetensors", {}
    save(theirs, training.initial, reply["weights"])
    for what, key, weights in (("read-outs, initial weights", training.initial, training.initial),
                               ("read-outs, qring's final weights", exact_weights, exact_weights),
                               ("read-outs, TFQ's final weights", "tfq", theirs)):
        z = readout_deviations(training.exact(weights, "prediction"), reply["readouts"][key])
        rows["%s: %d, root mean square of z" % (what, len(z))] = (None, None, None, math.sqrt(statistics.mean(v * v for v in z)), MOST_RMS)
        rows[what + ", largest z"] = (None, None, None, max(z, key=abs), MOST)

    def compare_with(what, value, ours, most):
        rows[what] = value, statistics.mean(ours), statistics.stdev(ours), deviation(value, ours), most

    for step in range(STEPS):
        compare_with("loss, step %d" % (step + 1), reply["losses"][step], [losses[step] for losses, _ in trainings], MOST)
    last = training.exact_loss(theirs)
    compare_with("last loss", last, [loss for _, loss in trainings], MOST)
    ours = [loss for _, loss in training.trainings("adjoint", ADJOINT_SEEDS)]
    compare_with("last loss, qring's gradients adjoint", last, ours, None)
    end, spread = training.exact_loss(exact_weights), statistics.stdev(ours)
    rows["last loss, qring's gradients exact"] = last, end, spread, (last - end) / spread, None
    return rows, reply


def show(rows):
    print("\nnoisy training: TFQ's, qring's, its standard deviation, z")
    for what, (*losses, z, _) in rows.items():
        print("%-68s %s %6.2f" % (what, " ".join("%8s" % ("" if v is None else "%.4f" % v) for v in losses), z))


def compare(out, python, work, environment, rounds, cores):
    try:
        training = Training(work + "/noisy", cores)
        rows, reply = both(training, python, environment)
        ns = {job: [training.step_ns(job) for _ in range(min(ROUNDS, rounds))] for job in ("exact", "adjoint")}
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as e:
        out.problem("the noisy training: %s" % e)
        return
    show(rows)
    about = {"n": 8, "batch": SAMPLES, "threads": 1}
    far = {what: round(z, 2) for what, (*_, z, most) in rows.items() if most and not abs(z) <= most}
    if far:
        out.problem("TFQ's noisy training differs from qring's: z is %s" % far)
        return
    for what, (theirs, ours, spread, z, _) in rows.items():
        facts = {} if theirs is None else {"loss": theirs, "qring_loss": ours, "deviation": spread}
        out.measured("noisy-training", dict(about, name=what, who="tfq", **facts, z=round(z, 3)))
    theirs = {"tfq": reply["seconds"][1:], "tfq noiseless": reply["noiseless_seconds"][1:]}  # the first ones compile
    for job, name in ("exact", "step-exact"), ("adjoint", "step-trajectories"):
        figures = {peer: lines.spread([s * 1e9 for s in seconds]) for peer, seconds in theirs.items()}
        own = lines.spread(ns[job])
        out.measured("noisy-training", dict(about, name=name, who="qring", **own))
        for peer, figure in figures.items():
            out.measured("noisy-training", dict(about, name=name, who=peer, **figure))
            out.ratio("noisy-training", dict(about, name=name, against=peer), [{"ns": v} for v in ns[job]],
                      [{"ns": figure["ns"]}] * len(ns[job]), own, figure)
