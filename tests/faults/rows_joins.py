#!/usr/bin/python3
"""Row 47: a worker joins a ring of three training workers again and again. Measures how long the
others pause, idle and beside two busy processes. JOINS=40 gives a meaningful median and maximum."""
import os, signal, subprocess, sys, time

from ring import Ring, check, figure, job, main, report, row, statistics, until

JOINS = int(os.environ.get("JOINS", "4"))


class Busy:
    """Context manager: two processes that compute endlessly."""

    def __enter__(self): self.processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]

    def __exit__(self, *_):
        for p in self.processes:
            p.kill()
            p.wait()


class Idle:
    def __enter__(self): pass
    def __exit__(self, *_): pass


def measure_joins(what, beside):
    r = Ring("joins-" + what.split()[0], job("joins"), 4, 1000000, ["--min-workers", "1"])
    if not r.start_all(): return
    pauses, joins = [], []
    with beside:
        for _ in range(JOINS):
            r.kill(3)
            r.worker[3].wait()
            until(lambda: "over 3 workers" in r.log(0) or "with 3 workers" in r.log(0))
            r.grows_after(time.monotonic(), 20)
            at = time.monotonic()
            since = r.position(3)
            r.start(3)
            joins.append(r.joins(3, since))
            end = time.monotonic()
            r.grows_after(end, 5)
            pauses.append(r.longest_gap(at, end + 0.2))
    report(47, f"{what}: from start to membership", f"median {statistics.median(joins):.3f} s, worst {max(joins):.3f} s of {JOINS}", "none")
    report(47, f"{what}: the others' longest pause", f"median {statistics.median(pauses):.3f} s, worst {max(pauses):.3f} s of {JOINS}", "1 s")
    figure(47, f"{what}: the others' longest pause, worst of {JOINS}", max(pauses), 1.0)
    r.settle()
    r.same()


@row(47, timed=True)
def idle(): measure_joins("idle machine", Idle())


@row(47, timed=True)
def beside(): measure_joins("beside two busy processes", Busy())


main()
