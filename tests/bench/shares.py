#!/usr/bin/python3
"""Cost of membership as shares of a step's time, and of TLS relative to plaintext. One JSON line
per case (keys: lines.py).

Shares of worker 0's step time, n qubits, one thread each: heartbeats and other control messages
(processor time of the control thread and of the acceptor thread, TLS and gRPC included; also the
span of the membership machine), coverage words (span of one micro-batch times the number hashed per
step: the worker's own, then all for the expected sum), state digests (their span). TLS: step rates
of alternating rings with and without certificates; median, minimum and maximum of the ratios of
neighbouring runs, for time and processor time of a step. SECONDS per run (1.5; LONG=1: 4), PAIRS
(2; LONG=1: 5).
"""
import json, os, statistics, subprocess, sys, time, urllib.request

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "faults"))
from ring import QRING, Ring, folder, free_ports, job, until
from lines import print_line

LONG = "LONG" in os.environ
SECONDS, PAIRS = float(os.environ.get("SECONDS", 4 if LONG else 1.5)), int(os.environ.get("PAIRS", 5 if LONG else 2))
OVERHEAD = 'qring_overhead_seconds_total{part="%s"}'


def jobs():
    with open("deploy/jobs/qcnn.json") as f: model = json.load(f)["model"]
    yield 8, 16, job("n8", micro_batch_size=16)
    model[0]["circuit"] = {"ansatz": "qcnn", "qubits": 16}
    model[0]["readouts"] = ["Z15"]
    yield 16, 1, job("n16", micro_batch_size=1, model=model)


def metrics(port):
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20).read().decode()
    return {k: float(v) for k, v in (l.rsplit(" ", 1) for l in text.splitlines() if not l.startswith("#"))}


def cpu(pid):
    """Seconds of processor time by thread name."""
    sums = {}
    for t in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{t}/comm") as f: name = f.read().strip()
        with open(f"/proc/{pid}/task/{t}/schedstat") as f: sums[name] = sums.get(name, 0) + int(f.read().split()[0]) * 1e-9
    return sums


def run_ring(name, job_file, n, tls):
    """Trains for SECONDS; returns the increments of worker 0's metrics, of its threads' CPU time,
    and the seconds."""
    port = free_ports(1)[0]
    r = Ring(name, job_file, n, 1000000, ["--checkpoints", "none"], tls=tls)
    try:
        r.start(0, "--http-port", str(port))
        for i in range(1, n): r.start(i)
        if not until(lambda: r.lines() > 20, 120): raise SystemExit(f"{name} does not train: {r.last_lines()}")
        began, m0, c0 = time.monotonic(), metrics(port), cpu(r.worker[0].pid)
        enough = lambda m: m["qring_steps_total"] >= m0["qring_steps_total"] + 20 and m["qring_micro_batches_total"] > m0["qring_micro_batches_total"]
        time.sleep(SECONDS)
        if not until(lambda: enough(metrics(port)), 300, 0.5): raise SystemExit(f"{name} makes no progress: {r.last_lines()}")
        m1, c1, ended = metrics(port), cpu(r.worker[0].pid), time.monotonic()
        return {k: m1[k] - m0[k] for k in m1 if k in m0}, {k: c1[k] - c0.get(k, 0) for k in c1}, ended - began
    finally: r.close()


def shares(qubits, job_file, n, tls, blocks):
    m, c, s = run_ring("shares", job_file, n, tls)
    steps, own = m["qring_steps_total"], m["qring_micro_batches_total"]
    control = c["qring-control"] + c.get("qring-acceptor", 0) + c.get("qring-guard", 0)
    coverage = m[OVERHEAD % "coverage"] / own * (own + steps * blocks)
    digest, spans = m[OVERHEAD % "digest"], m[OVERHEAD % "membership"]
    percent = lambda x: round(100 * x / s, 3)
    print_line("shares", "step-overhead", n=qubits, workers=n, ns=round(1e9 * s / steps), runs=int(steps), percent_heartbeats=percent(control),
        percent_membership_span=percent(spans), percent_coverage=percent(coverage), percent_digests=percent(digest),
        percent_all=percent(control + coverage + digest))


def tls_ratio(qubits, job_file, n, tls):
    def step(certs):
        m, c, s = run_ring("tls", job_file, n, certs)
        return s / m["qring_steps_total"], sum(c.values()) / m["qring_steps_total"]
    times, cpus = [], []
    for k in range(PAIRS):
        a, b = step(tls if k % 2 else None), step(None if k % 2 else tls)
        with_tls, without = (a, b) if k % 2 else (b, a)
        times.append(with_tls[0] / without[0])
        cpus.append(with_tls[1] / without[1])
    ratio, cpu_ratio = (dict(zip(("", "_low", "_high"), (round(f(x), 3) for f in (statistics.median, min, max)))) for x in (times, cpus))
    print_line("shares", "tls-over-plaintext", n=qubits, workers=n, runs=PAIRS, **{"ratio" + k: v for k, v in ratio.items()},
        **{"cpu_ratio" + k: v for k, v in cpu_ratio.items()})


for qubits, block, job_file in jobs():
    certs = folder(f"tls-{qubits}")
    subprocess.run([QRING, "certs", job_file, "--out", certs], check=True, capture_output=True)
    for n in 2, 4: shares(qubits, job_file, n, certs, 64 // block)
    for n in 2, 4: tls_ratio(qubits, job_file, n, certs)
