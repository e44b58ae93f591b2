"""Compares an MLP, 784-128-10 with relu, softmax and categorical cross-entropy in float64: qring
run, NumPy with its BLAS, and Keras, on one core and on two. A batch is one micro-batch, which both
cores share. All train on the same samples in the same order from the same weights, and must have
the same loss in the first epoch. The time of a step is that of an epoch without start-up, divided
by its batches: for qring the difference of a long and a short run, with all that it always writes
(event files, a log of steps); the others write nothing."""
import json
import os
import resource
import statistics
import subprocess
import time

import lines

SAMPLES = 2048  # numpy_mlp.py's
CASES = [(name, batch, threads) for name in ("sgd", "adam") for batch in (32, 128) for threads in (1, 2)]
RATES = {"sgd": 2 ** -7, "adam": 2 ** -10}  # exact in float32, Keras' type for them
MORE_STEPS = 640  # of qring's longer run; the shorter one is an epoch, whose loss is compared
LOSS_TOLERANCE = 1e-6  # of the first epoch's mean loss: small differences grow with each step
RUN_S = 300
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def timed(command, environment, cores, log, limit_s=RUN_S):
    """(nanoseconds, nanoseconds of processor time, standard output)"""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter_ns()
    env = dict(os.environ, **environment, **{name: str(len(cores)) for name in THREADS})
    with open(log, "w") as err:
        output = subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, text=True, env=env,
                                timeout=limit_s, preexec_fn=lambda: os.sched_setaffinity(0, cores)).stdout
    took, after = time.perf_counter_ns() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, int((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e9), output


def write_job(folder, name, batch):
    job = {"name": "mlp-%s-%d" % (name, batch), "micro_batch_size": batch,
           "model": [{"layer": "dense", "units": 128, "activation": "relu"}, {"layer": "dense", "units": 10, "activation": "softmax"}],
           "data": {"source": "npz", "url": folder + "/data.npz", "train_fraction": 1},
           "train": {"batch_size": batch, "loss": "categorical_crossentropy", "shuffle": False,
                     "optimizer": {"name": name, "learning_rate": RATES[name]}, "initial_weights": folder + "/weights.npz"}}
    path = "%s/%s-%d.json" % (folder, name, batch)
    with open(path, "w") as f:
        json.dump(job, f, indent=1)
    return path


def qring(folder, job, batch, cores):
    """{ns, cpu_ns} of a step, and the first epoch's loss"""
    more, took = MORE_STEPS * batch // SAMPLES, []
    for epochs in 1, 1 + more:
        out = folder + "/out"
        command = [os.environ.get("QR_BIN", "build/bin") + "/qring", "run", job, "-n", "1", "--threads", str(len(cores)),
                   "--epochs", str(epochs), "--fresh", "--out", out]
        took.append(timed(command, {}, cores, folder + "/qring.log")[:2])
        if epochs == 1:
            with open(out + "/result.json") as f:
                loss = json.load(f)["loss"]
    steps = more * SAMPLES // batch
    return {"ns": (took[1][0] - took[0][0]) / steps, "cpu_ns": (took[1][1] - took[0][1]) / steps}, loss


def peer(command, folder, name, batch, cores, environment):
    """The same for another program; its first epoch is a warm-up."""
    arguments = [folder, name, str(RATES[name]), str(batch), str(1 + MORE_STEPS * batch // SAMPLES), str(len(cores))]
    reply = json.loads(timed(command + arguments, environment, cores, folder + "/peer.log")[2].splitlines()[-1])
    steps = SAMPLES // batch
    return {key: statistics.median(reply[key][1:]) / steps for key in ("ns", "cpu_ns")}, reply["losses"][0]


def one_case(out, programs, folder, environment, case, runs, cores):
    name, batch, threads = case
    about = {"name": "mlp-" + name, "n": 784, "batch": batch, "threads": threads}
    job, rounds = write_job(folder, name, batch), {who: [] for who in ("qring", *programs)}
    for _ in range(runs):
        mine, loss = qring(folder, job, batch, cores[threads])
        rounds["qring"].append(mine)
        for who, command in programs.items():
            theirs, their_loss = peer(command, folder, name, batch, cores[threads], environment)
            if abs(loss - their_loss) > LOSS_TOLERANCE:
                raise RuntimeError("qring and %s have different losses: %.12g and %.12g" % (who, loss, their_loss))
            rounds[who].append(theirs)
    figures = {who: dict(lines.spread([r["ns"] for r in rounds[who]]), cpu_ns=round(statistics.median(r["cpu_ns"] for r in rounds[who])))
               for who in rounds}
    for who in rounds:
        out.measured("mlp", dict(about, who=who, **figures[who]))
    for who in programs:
        out.ratio("mlp", dict(about, against=who), rounds["qring"], rounds[who], figures["qring"], figures[who])


def compare(out, programs, work, environment, runs, cores, begin):
    """programs: peer -> its command. begin: prefix of name and batch. NumPy's program generates the
    samples."""
    folder = work + "/mlp"
    chosen = [c for c in CASES if ("mlp-%s-%d" % c[:2]).startswith(begin)]
    if not chosen or "numpy" not in programs:
        return
    try:
        os.makedirs(folder, exist_ok=True)
        subprocess.run(programs["numpy"] + [folder], check=True, timeout=RUN_S)
    except (OSError, subprocess.SubprocessError) as e:
        out.problem("the MLP's samples: %s" % e)
        return
    for case in chosen:
        try:
            one_case(out, programs, folder, environment, case, runs, cores)
        except (RuntimeError, OSError, ValueError, KeyError, subprocess.SubprocessError) as e:
            out.problem("mlp-%s, batch %d, %d cores: %s" % (*case, e))
