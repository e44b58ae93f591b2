#!/usr/bin/python3
"""Whole trainings by `qring run` with start-up, and the time of an epoch without it. One JSON line per case.

tutorial         program start to weights on disk: 50 epochs of deploy/jobs/qcnn.json by one worker, by two, and by two threads
tutorial-epoch   one of its epochs, of 112 and 48 samples: the mean over 2000 more epochs
epoch-pure       1000 samples of 23 qubits, batches of 32, two threads; 64 of the samples (key `part`), or all with LONG=1
epoch-hybrid     1000 samples of 23 and of 1024 qubits (11 and 512 read-outs, dense 8, dense 1), batches of 64, two threads
workers          an epoch of 256 samples of the pure model by one worker and by two, alternating, one thread each; efficiency:
                 first / second / 2 of neighbouring runs. The difference of two runs, of enough epochs to take two workers a
                 second or two: start-up times differ by 50 ms
"""
import csv, json, os, shutil, statistics, subprocess, sys, tempfile, time

from lines import print_line, spread

LONG = "LONG" in os.environ
QRING = os.path.abspath(os.path.join(os.environ.get("QR_BIN", "build/bin"), "qring"))
WORK = tempfile.mkdtemp(prefix="qring-bench-")
os.environ["QRING_HTTP_PORT"] = "0"


def job(name, n, samples, batch, pure):
    """Writes a job with `samples` training samples of n qubits, one qubit excited in each."""
    x = os.path.join(WORK, name + ".csv")
    with open(x, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow([f"x{q}" for q in range(n)] + ["y"])
        for i in range(samples): w.writerow([0.7 + 0.001 * i if q == i % n else 0 for q in range(n)] + [1 if i % 2 else -1])
    quantum = {"layer": "quantum", "circuit": {"ansatz": "qcnn", "qubits": n}}
    head = [] if pure else [{"layer": "dense", "units": 8}, {"layer": "dense", "units": 1}]
    if not pure:
        quantum["circuit"]["stages"] = 1
        quantum["readouts"] = [f"Z{q}" for q in range(n // 2, n // 2 * 2)]  # the sinks of the pooling
    path = os.path.join(WORK, name + ".json")
    with open(path, "w") as f:
        json.dump({"name": name, "seed": 1, "model": [quantum] + head, "data": {"source": "csv", "url": x},
                   "train": {"epochs": 1, "batch_size": batch, "loss": "mse", "optimizer": {"name": "adam", "learning_rate": 0.02}}}, f)
    return path


def run(job_file, epochs, workers, threads):
    """Nanoseconds from the program's start to its exit, after which the weights are on disk."""
    out = os.path.join(WORK, "out")
    shutil.rmtree(out, ignore_errors=True)
    start = time.monotonic_ns()
    numbers = ["-n", str(workers), "--threads", str(threads), "--epochs", str(epochs)]
    r = subprocess.run([QRING, "run", job_file, *numbers, "--fresh", "--out", out], capture_output=True, text=True)
    ns = time.monotonic_ns() - start
    if r.returncode or not os.path.exists(out + "/weights.h5"): raise SystemExit(f"qring run {job_file}: exit {r.returncode}\n{r.stderr}")
    return ns


def tutorial(runs):
    rings = [(1, 1), (1, 2), (2, 1)]
    more = {ring: [] for ring in rings}
    whole = {ring: [] for ring in rings}
    for i in range(-1, runs):
        for ring in rings:
            short = run("deploy/jobs/qcnn.json", 50, *ring)
            if i < 0: continue
            whole[ring].append(short)
            if i % 3 == 0: more[ring].append((run("deploy/jobs/qcnn.json", 2050, *ring) - short) / 2000)
    for w, t in rings:
        print_line("train", "tutorial", n=8, batch=64, workers=w, threads=t, epochs=50, **spread(whole[w, t]))
        print_line("train", "tutorial-epoch", n=8, batch=64, workers=w, threads=t, epochs=1, **spread(more[w, t]))


def epoch(kind, n, batch, samples, runs):
    path = job(f"epoch-{kind}-{n}-{samples}", n, samples, batch, kind == "pure")
    part = {} if samples == 1000 else {"part": samples / 1000}
    ns = [run(path, 1, 1, 2) for _ in range(runs)]
    print_line("train", f"epoch-{kind}", n=n, batch=batch, workers=1, threads=2, epochs=1, samples=1000, **part, **spread(ns))


def workers(n, epochs, runs):
    path = job(f"workers-{n}", n, 256, 64, True)
    ns = {1: [], 2: []}
    for i in range(runs):
        for w in 1, 2: ns[w].append((run(path, 1 + epochs, w, 1) - run(path, 1, w, 1)) / epochs)
    ratios = sorted(one / two / 2 for one, two in zip(ns[1], ns[2]))
    efficiency = {"efficiency": statistics.median(ratios), "efficiency_low": ratios[0], "efficiency_high": ratios[-1]}
    print_line("train", "workers", n=n, batch=64, workers=1, threads=1, epochs=1, **spread(ns[1]))
    print_line("train", "workers", n=n, batch=64, workers=2, threads=1, epochs=1, **spread(ns[2]), **{k: round(v, 3) for k, v in efficiency.items()})


def main():
    what = sys.argv[1:] or ["tutorial", "epoch", "workers"]
    try:
        if "tutorial" in what: tutorial(7)
        if "epoch" in what:
            epoch("pure", 23, 32, 1000 if LONG else 64, 1)
            for n in 23, 1024: epoch("hybrid", n, 64, 1000, 5)
        if "workers" in what:
            for n, epochs in (12, 300), (16, 20), (20, 1): workers(n, epochs, 5 if LONG else 3)
    finally: shutil.rmtree(WORK, ignore_errors=True)


main()
