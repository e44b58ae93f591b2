#!/usr/bin/python3
"""Row 37, short: random faults on four workers under `qring run --restart`, which restarts them,
until Ctrl-C. N=20 runs twenty seeds, SEED=7 one. `make soak` is longer, without immediate
restarts."""
import os, random, signal, subprocess, time

from ring import QRING, Ring, check, job, main, report, row, until


def disturb(run, dice, seconds):
    """Sends random signals until the run exits or the time is over; returns the numbers of SIGKILL,
    SIGTERM and SIGSTOP."""
    def workers():
        try:
            with open(f"/proc/{run.pid}/task/{run.pid}/children") as f: return [int(p) for p in f.read().split()]
        except OSError: return []

    def send(pid, number):
        try: os.kill(pid, number)
        except OSError: pass
    stopped, done, end = {}, [0, 0, 0], time.monotonic() + seconds
    while run.poll() is None and time.monotonic() < end:
        time.sleep(dice.uniform(0.02, 0.4))
        for pid in [p for p, at in stopped.items() if time.monotonic() >= at]:
            send(pid, signal.SIGCONT)
            del stopped[pid]
        pids = workers()
        if len(pids) < 2: continue  # leave one running
        pid, what = dice.choice(pids), dice.randrange(3)
        if pid in stopped: continue
        done[what] += 1
        send(pid, (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)[what])
        if what == 2: stopped[pid] = time.monotonic() + dice.uniform(0.05, 2.5)
    for pid in stopped: send(pid, signal.SIGCONT)
    return done


@row(37)
def random_faults():
    for seed in [int(os.environ["SEED"])] if "SEED" in os.environ else range(1, int(os.environ.get("N", "2")) + 1):
        r = Ring(f"seed{seed}", job("random"), 4, 1000000)
        with open(r.dir + "/run.log", "w") as log:
            command = [QRING, "run", r.job, "-n", "4", "--restart", "--epochs", str(r.epochs), "--out", r.out]
            run = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until(lambda: run.poll() is not None or r.lines() > 20, 60)
        killed, terminated, stopped = disturb(run, random.Random(seed), 5)
        lines = r.lines()
        check(f"seed {seed} continues", until(lambda: r.lines() > lines + 20))
        run.send_signal(signal.SIGINT)
        try: code = run.wait(60)
        except subprocess.TimeoutExpired:
            run.kill()
            code = "none: does not exit"
        report(37, f"seed {seed}: {killed} SIGKILL, {terminated} SIGTERM, {stopped} SIGSTOP, restarted by qring run: exit code after Ctrl-C", code, "-2")
        check(f"seed {seed} is terminated by SIGINT, not {code}", code == -signal.SIGINT)
        r.settle()
        r.same()
        r.close()


main()
