"""What was measured: JSON lines and a table with the goals. The first line names the machine and the versions of the peers. "gradient" and
"tutorial" have tests/bench's keys. "gradient-ratio" and "tutorial-ratio" say how many times longer `against` takes: the median over
the rounds, ratio_low and ratio_high a tenth from either end, `goal` where there is one, `met`. "problem": what could not be measured."""
import json
import math
import os
import platform
import statistics
import sys

# the ratio that is wanted: (bench, name, qubits, batch, threads, against[, engine])
GOALS = {("gradient", "qcnn-pure", n, batch, 1, "tfq"): goal
         for n, batch, goal in ((8, 64, 1000), (12, 16, 200), (16, 16, 140), (20, 2, 160), (22, 2, 220), (23, 1, 220))}
GOALS.update({("gradient", "qcnn-pure", n, batch, 1, "lightning"): goal
              for n, batch, goal in ((8, 64, 700), (12, 16, 150), (16, 16, 90), (20, 2, 110))})
GOALS.update({("gradient", "qcnn-pure", n, batch, 2, "qring, one thread"): 1.8 for n, batch in ((16, 16), (20, 2), (22, 2), (23, 1))})
GOALS.update({("gradient", "qcnn-pure", 20, 2, 1, "tfq", "blocked"): 45, ("tutorial", "whole", 8, 64, 2, "tfq"): 200,
              ("tutorial", "epoch", 8, 64, 2, "tfq"): 300, ("tutorial", "two-workers", 8, 64, 2, "tfq"): 100})


def spread(values):
    """median, and the values a tenth from either end"""
    v, last = sorted(values), len(values) - 1
    return statistics.median(v), v[math.floor(0.1 * last)], v[math.ceil(0.9 * last)]


def people(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return "%.3g %s" % (ns / size, unit) if ns < 100 * size else "%.0f %s" % (ns / size, unit)
    return "%.0f ns" % ns


def machine():
    cpu = "unknown"
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                cpu = line.split(": ", 1)[1].strip()
                break
    return {"bench": "machine", "cpu": cpu, "processors": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "load": os.getloadavg()[0]}


def at_the_ceiling(about):
    """From 20 qubits on, three quarters of what the machine's multiply-adds can give are as good as the ratio."""
    streaming = about["bench"] == "gradient" and about["against"] == "tfq" and "engine" not in about
    return streaming and about["n"] >= 20 and about["ceiling_percent"] >= 75


class Report:
    def __init__(self, path, versions):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.path, self.rows, self.problems, self.medians = path, [], [], {}
        self.file = open(path, "w", buffering=1)
        self.line(dict(machine(), versions=versions))
        print("# %s" % json.dumps(dict(machine(), versions=versions)), flush=True)

    def line(self, about):
        self.file.write(json.dumps(about) + "\n")

    def measured(self, about, ns):
        median, low, high = spread(ns)
        self.line(dict(about, ns=round(median, 1), ns_low=round(low, 1), ns_high=round(high, 1), runs=len(ns)))

    def ratio(self, about, ours, theirs):
        """Round by round: theirs over ours."""
        median, low, high = spread([b / a for a, b in zip(ours, theirs)])
        key = tuple(about.get(k) for k in ("bench", "name", "n", "batch", "threads", "against"))
        goal = GOALS.get(key + ((about["engine"],) if "engine" in about else ()))
        met = goal is not None and (median >= goal or at_the_ceiling(about))
        verdict = {} if goal is None else {"goal": goal, "met": met}
        self.line(dict(about, bench=about["bench"] + "-ratio", who="qring", ratio=round(median, 2), ratio_low=round(low, 2),
                       ratio_high=round(high, 2), runs=len(ours), **verdict))
        name = "%s %s%s" % (about["bench"], about["name"], " (%s engine)" % about["engine"] if "engine" in about else "")
        percent = about.get("ceiling_percent")
        row = "%-36s %3d %5d %5d  %9s %5s  %-17s %9s  %7.4g (%.4g - %.4g)" % (
            name, about["n"], about["batch"], about["threads"], people(statistics.median(ours)),
            "" if percent is None else "%.0f %%" % percent, about["against"], people(statistics.median(theirs)), median, low, high)
        self.rows.append("%-121s %s" % (row, "" if goal is None else "%4g %s" % (goal, "met" if met else "MISSED")))
        print(self.rows[-1], file=sys.stderr)

    def problem(self, sentence):
        self.problems.append(sentence)
        self.line({"bench": "problem", "what": sentence})
        print("not measured: " + sentence, file=sys.stderr)

    def end(self):
        """The table again, whole; true when everything was measured."""
        print("\n%-36s %3s %5s %5s  %9s %5s  %-17s %9s  %-27s %s" % (
            "", "n", "batch", "cores", "qring", "peak", "beside", "theirs", "ratio (p10 - p90)", "goal"))
        print("\n".join(self.rows))
        missed = sum("MISSED" in r for r in self.rows)
        print("\n%d ratios, %d of %d goals missed, %d things not measured; lines in %s" % (
            len(self.rows), missed, missed + sum(r.endswith(" met") for r in self.rows), len(self.problems), self.path))
        for p in self.problems:
            print("not measured: " + p)
        return not self.problems
