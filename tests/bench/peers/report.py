"""Results: JSON lines (keys: tests/bench/lines.py; the first line has the versions of all programs)
and a table with goals, then the fastest program of each case. A ratio is the time of `against` over
qring's: median over the rounds, minimum and maximum; with `goal` and `met` if there is a goal.
"problem": not measured; "skipped": a program is missing or cannot compute a case, with the
reason."""
import json
import os
import statistics
import sys

import lines

# minimum ratio: (bench, name, qubits, batch, threads, against, engine) -> goal
GOALS = {("gradient", "qcnn-pure", n, batch, 1, "tfq", None): goal
         for n, batch, goal in ((8, 64, 1000), (12, 16, 200), (16, 16, 140), (20, 2, 160), (22, 2, 220), (23, 1, 220))}
GOALS.update({("gradient", "qcnn-pure", n, batch, 1, "lightning", None): goal
              for n, batch, goal in ((8, 64, 700), (12, 16, 150), (16, 16, 90), (20, 2, 110))})
GOALS.update({("gradient", "qcnn-pure", n, batch, 2, "one thread", None): 1.8 for n, batch in ((16, 16), (20, 2), (22, 2), (23, 1))})
GOALS.update({("gradient", name, n, batch, threads, "tfq", None): 50
              for name, n, batch in (("qcnn-trajectories", 8, 1), ("qcnn-shots", 8, 1), ("qcnn-trajectories", 12, 1)) for threads in (1, 2)})
GOALS.update({("gradient", "qcnn-trajectories", n, 1, threads, "tfq noiseless", None): 1 for n in (8, 12) for threads in (1, 2)})
GOALS.update({("noisy-training", name, 8, 4, 1, "tfq noiseless", None): 1 for name in ("step-exact", "step-trajectories")})
GOALS.update({("gradient", name, n, 1, 1, peer, None): goal if n < 24 else 6
              for name, goal in (("ising-10", 8), ("cnot-layers-10", 8), ("brickwork-10", 14)) for n in (16, 20, 24) for peer in ("lightning", "kokkos")})
GOALS.update({("gradient", name, n, 1, 2, "one thread", None): 1.8 for name in ("ising-10", "cnot-layers-10") for n in (16, 20, 24)})
GOALS[("gradient", "brickwork-10", 16, 1, 2, "one thread", None)] = 1.8
GOALS.update({("gradient", "qcnn-pure", 20, 2, 1, "tfq", "statevector"): 45, ("tutorial", "whole", 8, 64, 2, "tfq", None): 200,
              ("tutorial", "epoch", 8, 64, 2, "tfq", None): 300, ("tutorial", "two-workers", 8, 64, 2, "tfq", None): 100})

HEAD = ("", "n", "batch", "cores", "qring", "of peak", "against", "theirs", "ratio", "min - max", "processor", "goal")


def verdict(key, ratio, percent):
    """From 20 qubits on, 75 % of the machine's multiply-add rate also meets the goal of the ratio
    to TFQ."""
    goal = GOALS.get(key)
    if goal is None:
        return {}
    at_the_ceiling = key[2] >= 20 and key[5:] == ("tfq", None) and percent >= 75
    return {"goal": goal, "met": ratio >= goal or at_the_ceiling}


def rounded(ratio):
    """Two decimals; below 1, three significant digits"""
    return round(ratio, 2) if ratio >= 1 else float("%.3g" % ratio)


class Report:
    def __init__(self, path, versions, absent):
        """absent: program that could not be installed -> reason"""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.path, self.rows, self.problems, self.lines, self.absent = path, [], [], [], absent
        self.file = open(path, "w", buffering=1)
        where = dict(lines.machine(), versions=versions)
        self.line(where)
        print("# " + json.dumps(where), flush=True)
        for who, why in absent.items():
            self.skipped({"who": who}, why)

    def line(self, about):
        self.lines.append(about)
        self.file.write(json.dumps(about) + "\n")

    def measured(self, bench, figures):
        self.line({"bench": bench, **figures})

    def ratio(self, bench, about, ours, theirs, our_figures, their_figures):
        """Writes the ratio theirs / ours of each round. Rounds have ns, and cpu_ns where processor
        time is known."""
        def of(key): return [b[key] / a[key] for a, b in zip(ours, theirs)]
        ratio, percent = statistics.median(of("ns")), our_figures.get("ceiling_percent")
        cpu = {"cpu_ratio": rounded(statistics.median(of("cpu_ns")))} if "cpu_ns" in ours[0] else {}
        goal = verdict((bench, *(about.get(k) for k in ("name", "n", "batch", "threads", "against", "engine"))), ratio, percent)
        self.line({"bench": bench + "-ratio", "who": "qring", **about, "ratio": rounded(ratio), "ratio_low": rounded(min(of("ns"))),
                   "ratio_high": rounded(max(of("ns"))), "runs": len(ours), **cpu, **goal})
        if about.get("rounds_apart"):
            print("%d rounds excluded: the two processors were one core" % about["rounds_apart"], file=sys.stderr)
        cells = (" ".join([bench, about["name"], about.get("engine", "")]).strip(), about["n"], about["batch"], about["threads"],
                 lines.time(our_figures["ns"]), "" if percent is None else "%.0f %%" % percent, about["against"],
                 lines.time(their_figures["ns"]), "%.4g" % ratio, "%.4g - %.4g" % (min(of("ns")), max(of("ns"))),
                 "%.4g" % cpu["cpu_ratio"] if cpu else "", "%g %s" % (goal["goal"], "met" if goal["met"] else "MISSED") if goal else "")
        self.rows.append([str(c) for c in cells])
        print("  ".join(self.rows[-1]), file=sys.stderr)

    def problem(self, sentence, about=None):
        where = "".join("%s, %d qubits, batch %d: " % (about["name"], about["n"], about["batch"]) if about else "")
        self.problems.append(where + sentence)
        self.line({"bench": "problem", **(about or {}), "what": sentence})
        print("not measured: " + where + sentence, file=sys.stderr)

    def skipped(self, about, why):
        """A missing program, or one that cannot compute a case: reported, not a failure"""
        self.line({"bench": "skipped", **about, "what": why})
        print("SKIPPED: %s%s: %s" % (about["who"], " %(name)s, %(n)d qubits" % about if "name" in about else "", why), file=sys.stderr)

    def fastest(self):
        """Prints the fastest other program of each case, on one core"""
        print("\ncase, qubits, batch: qring, the fastest other program, ratio; below 1 it is faster than qring")
        for case, ours, theirs in lines.best_of(self.lines):
            words = "%-14s %3d %5d  %9s  " % (*case, lines.time(ours["ns"]) if ours else "none")
            if theirs:
                ratio = theirs[0]["ratio"]
                words += "%-13s %9s  %s" % (theirs[0]["who"], lines.time(theirs[0]["ns"]), "" if ratio is None else "%.3g" % ratio)
                words += lines.shifted(theirs[0]) + ("  FASTER THAN QRING" if ratio is None or ratio < 1 else "")
            print(words.rstrip())

    def agreements(self):
        """Prints the differences of the examples' peers from qring; all are within their bounds"""
        found = [l for l in self.lines if "loss_off" in l]
        if found:
            print("\nexample, program: largest difference of a loss in the first steps, difference of the last loss; metrics, equal to qring's")
        for l in found:
            last = "%9.2g" % l["last_loss_off"] if "last_loss_off" in l else "         "
            metrics = ", ".join("%s %.6g" % m for m in l.get("metrics", {}).items())
            print(("%-24s %-16s %9.2g %s  %s" % (l["name"], l["who"], l["loss_off"], last, metrics)).rstrip())

    def end(self):
        """Prints the tables; returns True when everything was measured."""
        width = [max(len(r[i]) for r in [HEAD, *self.rows]) for i in range(len(HEAD))]
        for row in [HEAD, *self.rows]:
            print("  ".join(c.ljust(w) if i in (0, 6, 9, 11) else c.rjust(w) for i, (c, w) in enumerate(zip(row, width))).rstrip())
        self.fastest()
        self.agreements()
        goals = [r[-1] for r in self.rows if r[-1]]
        print("%d ratios, %d of %d goals missed, %d cases not measured; lines in %s" % (
            len(self.rows), sum("MISSED" in g for g in goals), len(goals), len(self.problems), self.path))
        for who, why in self.absent.items():
            print("skipped: %s: %s" % (who, why))
        for p in self.problems:
            print("not measured: " + p)
        return not self.problems
