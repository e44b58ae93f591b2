"""Compares the tutorial, 50 epochs from program start to weights on disk: qring run and TensorFlow
Quantum's Keras model, with one worker and two. Both train on the same samples in the same order
from the same weights, and must reach the same validation loss. qring writes all that it always
writes (event files, checkpoints, a log of steps); TFQ only the weights."""
import json
import os
import selectors
import socket
import statistics
import subprocess
import sys
import time

import lines

EPOCHS, MORE_EPOCHS = 50, 1050
QRING_TIMES = 7      # runs of qring in each round, whose median counts: they are short
WEIGHTS_S = 600      # timeout until the weights are on disk: TFQ takes half a minute on an idle machine
LINGER_S = 30        # timeout for the exit of TFQ's workers afterwards
LOSS_TOLERANCE = 1e-3  # of the validation loss: TFQ is off by about 1e-4


def job(work):
    folder = work + "/tutorial"
    subprocess.run([sys.executable, "tests/it/golden.py", "train-job", folder, "50ep", "single"], check=True)
    return folder


def qring_once(folder, workers, epochs):
    out = "%s/qring-%d" % (folder, workers)
    command = [os.environ.get("QR_BIN", "build/bin") + "/qring", "run", folder + "/job.json", "-n", str(workers), "--epochs", str(epochs),
               "--fresh", "--out", out]
    start = time.perf_counter_ns()
    with open(out + ".log", "w") as log:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=WEIGHTS_S)
    took = time.perf_counter_ns() - start
    with open(out + "/result.json") as f:
        return took, json.load(f)["val_loss"]


def qring(folder, workers, epochs):
    runs = [qring_once(folder, workers, epochs) for _ in range(QRING_TIMES)]
    return statistics.median(t for t, _ in runs), runs[0][1]


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def first_line(process, log):
    """Output of the first worker when the weights are on disk"""
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdout, selectors.EVENT_READ)
        if not waiting.select(WEIGHTS_S):
            raise RuntimeError("TFQ wrote no weights in %d s" % WEIGHTS_S)
    line = process.stdout.readline()
    if not line:
        with open(log) as f:
            raise RuntimeError("TFQ exited without weights: " + f.read()[-400:].strip())
    return json.loads(line)


def tfq(python, folder, workers, environment):
    """(nanoseconds until the weights are on disk, seconds of each epoch, validation loss)"""
    weights = "%s/tfq-%d.h5" % (folder, workers)
    if os.path.exists(weights):
        os.remove(weights)
    addresses = ["127.0.0.1:%d" % p for p in free_ports(workers)]
    processes, start = [], time.perf_counter_ns()
    try:
        for i in range(workers):
            env = dict(os.environ, **environment)
            if workers > 1:
                env["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": i}})
            with open("%s/tfq-%d-%d.log" % (folder, workers, i), "w") as log:
                processes.append(subprocess.Popen([python, "tests/bench/peers/tfq_tutorial.py", str(EPOCHS), weights], env=env,
                                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log))
        reply = first_line(processes[0], "%s/tfq-%d-0.log" % (folder, workers))
        took, deadline = time.perf_counter_ns() - start, time.monotonic() + LINGER_S
        for p in processes:
            try:
                p.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass
    finally:
        for p in processes:
            if p.poll() is None:
                p.kill()
            p.wait()
            p.stdout.close()
    if not os.path.exists(weights):
        raise RuntimeError("TFQ reported weights in %s, but there is no such file" % weights)
    return took, reply["epochs"], reply["val_loss"]


def check(ours, theirs):
    if abs(ours - theirs) > LOSS_TOLERANCE:
        raise RuntimeError("qring and TFQ trained to different validation losses: %.6f and %.6f" % (ours, theirs))


def one_round(ns, python, folder, environment):
    whole, loss = qring(folder, 1, EPOCHS)
    more, _ = qring(folder, 1, MORE_EPOCHS)
    took, epochs, their_loss = tfq(python, folder, 1, environment)
    check(loss, their_loss)
    ns["whole"].append((whole, took))
    two, loss = qring(folder, 2, EPOCHS)
    took, _, their_loss = tfq(python, folder, 2, environment)
    check(loss, their_loss)
    ns["two-workers"].append((two, took))
    if more <= whole:
        raise RuntimeError("qring took no longer for %d epochs than for %d: this machine is too busy" % (MORE_EPOCHS, EPOCHS))
    ns["epoch"].append(((more - whole) / (MORE_EPOCHS - EPOCHS), statistics.median(epochs[1:]) * 1e9))  # the first one compiles


def compare(out, python, work, environment, runs):
    ns = {"whole": [], "epoch": [], "two-workers": []}
    try:
        folder = job(work)
        for _ in range(runs):
            one_round(ns, python, folder, environment)
    except (RuntimeError, OSError, subprocess.SubprocessError) as e:
        out.problem("the tutorial: %s" % e)
    for name, pairs in ns.items():
        if not pairs:
            continue
        about, both = {"name": name, "n": 8, "batch": 64, "threads": 2}, [lines.spread(side) for side in zip(*pairs)]
        for who, figures in zip(("qring", "tfq"), both):
            out.measured("tutorial", dict(about, who=who, **figures))
        out.ratio("tutorial", dict(about, against="tfq"), *([{"ns": v} for v in side] for side in zip(*pairs)), *both)
