"""JSON lines of the benchmarks: keys, writing, reading. The first line of a file describes the machine; each
other line has `bench`, `name`, `who`, and the applicable ones of these keys:

  bench            gradient, ceiling, train, start, ring, shares, allreduce, mlp, example, noisy-training; gradient-ratio ... for the ratios of
                   make bench-peers; skipped: `who` is missing or cannot compute a case, `what` has the reason; problem: `what` was not measured
  name             case: qcnn-pure, qcnn-hybrid, qcnn-filters3, qaoa-1, layers-4 ... (peers/cases.py); fma-float32, read-l1, triad-dram,
                   tcp-pingpong ... of ceilings; tutorial, tutorial-epoch, epoch-pure, workers of trainings; form-N of rings;
                   step-exact, step-trajectories, and the compared quantities, of the noisy training
  who              qring, or another program: tfq, lightning, kokkos (lightning.kokkos), qulacs, scaluq, mindquantum, catalyst, jax,
                   tensorcircuit (state vector), contraction (TensorCircuit's networks), numpy, mixed (default.mixed), qsim, aer (Qiskit Aer), keras,
                   openmpi, gloo, default.qubit, lightning.qubit
  n, batch, threads            qubits (inputs of an MLP), samples of a step, threads of a process
  workers, epochs, samples     of a training
  ranks, bytes, schedule       of an all-reduce; `bytes` of a gradient: memory traffic of all passes; of a ceiling: bytes moved
  table, engine    kernels portable, avx2, avx512, neon; streaming or statevector
  loss_off, steps_compared, last_loss_off  of an example: largest difference of a loss from qring's in the first steps; after training.
                   Relative for losses above 1
  part             share of the work that was done; ns and flops are of this share
  ns, ns_low, ns_high, runs    median, p10, p90, number of runs: ns per sample of a gradient, per step of an MLP, per epoch of an example,
                   per call of anything else
  cpu_ns           processor time of all threads: median per sample of a gradient; rank 0's mean per call of an all-reduce
  blocked_percent  share of the threads' time neither running nor runnable. Median
  switches         of an all-reduce: context switches of rank 0 per call
  loss, qring_loss, deviation, z   of the noisy training: TFQ's loss, the mean of qring's and its standard deviation, their difference in standard deviations
  open_ns          of another program: reading the case, compiling, first gradient
  executions       of a gradient by parameter shifts: circuits run per sample, and those of a whole gradient; ns and cpu_ns are scaled
                   to the latter
  flops            useful operations by the engine's cost model (qr_sim_facts): a complex multiply-add is 8, a fused one 2. Work on duplicated
                   data, padding and address arithmetic do not count
  gflops, gb_per_s             flops or bytes over ns; _best: over the fastest run
  ceiling_percent  gflops in percent of gflops_ceiling: the best rate of fused multiply-adds from registers, same table, threads and precision
  resident_bytes   peak resident memory of the process
  efficiency, _low, _high      of w workers: one worker's time / theirs / w, of neighbouring runs: median, minimum, maximum
  ratio, _low, _high           median of the ratios of neighbouring runs, minimum, maximum; cpu_ratio: of processor time;
                               rounds_apart: rounds excluded because two threads had less than 1.8 times the multiply-adds of one
  against          of a ratio: the other program, or "one thread"
  goal, met        of a ratio: its target, and whether it is reached
  beside           other load: "busy", a computing process on each processor
  percent_*        of shares: percent of a step's time
  cpu_ms_per_pair, handshakes_per_pair, idle_share   of a ring: cost of forming (two handshakes per pair are necessary); share of a core
                               that an idle worker uses
"""
import json, os, platform


def print_line(bench, name, **figures):
    print(json.dumps({"bench": bench, "name": name, "who": "qring", **figures}), flush=True)


def spread(values):
    """ns, ns_low, ns_high, runs of measured nanoseconds: median, p10, p90, without
    interpolation."""
    v, last = sorted(values), len(values) - 1
    return {"ns": round(v[len(v) // 2]), "ns_low": round(v[last // 10]), "ns_high": round(v[last - last // 10]), "runs": len(v)}


def machine():
    """First line of a file: the machine, and its load at the start."""
    with open("/proc/cpuinfo") as f: first = f.read().split("\n\n")[0].splitlines()
    cpu = dict(tuple(map(str.strip, l.split(":", 1))) for l in first if ":" in l)
    name = cpu.get("model name") or cpu.get("CPU part") or "unknown"
    if "cpu family" in cpu: name += f" (family {cpu['cpu family']}, model {cpu['model']})"
    return {"bench": "machine", "cpu": name, "processors": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "load": round(os.getloadavg()[0], 2)}


def read(path):
    with open(path) as f: return [json.loads(l) for l in f if l.startswith("{")]


def best_of(lines, bench="gradient", threads=1):
    """For each case of make bench-peers with that many threads: ((name, n, batch), qring's line or
    None, the others' lines, fastest first). Where qring has the case, theirs have `ratio`: the
    median over the rounds."""
    found, ratio = {}, {}
    for l in lines:
        case = l.get("name"), l.get("n"), l.get("batch")
        if bench == "gradient" and l["bench"] in ("problem", "skipped") and "name" in l: found.setdefault(case, [])
        if l.get("threads") != threads or l["bench"] not in (bench, bench + "-ratio"): continue
        if l["bench"] == bench: found.setdefault(case, []).append(l)
        elif "engine" not in l: ratio[case, l["against"]] = l["ratio"]
    for case, sides in found.items():
        ours = [l for l in sides if l["who"] == "qring"]
        others = [dict(l, ratio=ratio.get((case, l["who"]))) for l in sides if l["who"] != "qring"]
        yield case, ours[0] if ours else None, sorted(others, key=lambda l: l["ns"])


def shifted(l):
    """How a gradient by parameter shifts was measured"""
    if "executions" not in l: return ""
    run, whole = l["executions"]
    return f" (shifts: {whole} circuits{f', {run} measured' if run < whole else ''})"


def time(ns):
    for unit, size in ("s", 1e9), ("ms", 1e6), ("µs", 1e3):
        if ns >= size: return f"{ns / size:.3g} {unit}" if ns < 1000 * size else f"{ns / size:.0f} {unit}"
    return f"{ns:.0f} ns"


def size(n):
    for unit, least in ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10):
        if n >= least: return f"{n / least:.0f} {unit}" if n >= 100 * least else f"{n / least:.3g} {unit}"
    return f"{n:.0f} B"
