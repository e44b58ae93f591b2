#!/usr/bin/python3
"""tests/soak/soak.py MINUTES: six workers on loopback, over TLS, with a random fault every 5 s.

Faults are kill -9, SIGTERM, SIGSTOP with SIGCONT, a new worker, and for some seconds a limit on
descriptors or address space just above the use, or on data. One worker is never killed or limited; its
memory and descriptors must not grow. Then all get SIGTERM, and an undisturbed ring of three finishes
two epochs later: digest and steps.jsonl are those of one undisturbed worker. SEED=7 selects the
faults.
"""
import os, random, resource, signal, sys, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "faults"))
from ring import Ring, certs, check, job, main, row, truth

N, EVERY_S = 6, 5
minutes, seed = float(sys.argv.pop(1)), int(os.environ.get("SEED", os.getpid()))
rng = random.Random(seed)


def size(pid):  # resident KiB, descriptors
    with open(f"/proc/{pid}/statm") as f: pages = int(f.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024, len(os.listdir(f"/proc/{pid}/fd"))


def set_limit(pid):
    """Limit a resource of a process; returns the resource and the old limit."""
    kib, fds = size(pid)
    with open(f"/proc/{pid}/statm") as f: space = int(f.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    what, room = rng.choice([(resource.RLIMIT_NOFILE, fds + rng.randrange(4)), (resource.RLIMIT_AS, space + rng.randrange(8 << 20)),
                              (resource.RLIMIT_DATA, rng.randrange(1 << 20, 64 << 20))])
    before = resource.prlimit(pid, what)
    resource.prlimit(pid, what, (min(room, before[1]) if before[1] >= 0 else room, before[1]))
    return what, before


def restore_limits(limited, now):
    for pid in [p for p, (_, _, until) in limited.items() if now >= until]:
        what, before, _ = limited.pop(pid)
        try: resource.prlimit(pid, what, before)
        except ProcessLookupError: pass  # the process has exited


def disturb(r, survivor, stopped, limited, done):
    alive = r.alive()
    inactive = [i for i in range(N) if i not in alive]
    others = [i for i in alive if i != survivor and i not in stopped]
    kind = rng.choice(["SIGSTOP"] + ["start"] * 2 * bool(inactive) + ["kill -9", "SIGTERM", "limit"] * bool(others))
    done[kind] += 1
    if kind == "start": r.start(rng.choice(inactive))
    elif kind == "SIGSTOP":
        i = rng.choice(alive)
        r.kill(i, signal.SIGSTOP)
        stopped[i] = time.monotonic() + rng.uniform(0.1, 4)
    elif kind == "limit":
        pid = r.worker[rng.choice(others)].pid
        if pid not in limited: limited[pid] = (*set_limit(pid), time.monotonic() + rng.uniform(0.5, 10))
    else: r.kill(rng.choice(others), signal.SIGKILL if kind == "kill -9" else signal.SIGTERM)


def run_faults(r):
    survivor, stopped, limited, sizes = rng.randrange(N), {}, {}, []
    done = dict.fromkeys(("kill -9", "SIGTERM", "SIGSTOP", "limit", "start"), 0)
    began = fault = minute = time.monotonic()
    before = r.lines()
    while time.monotonic() < began + 60 * minutes:
        time.sleep(0.1)
        now = time.monotonic()
        for i in [i for i, at in stopped.items() if now >= at]:
            r.kill(i, signal.SIGCONT)
            del stopped[i]
        restore_limits(limited, now)
        if not check(f"the survivor, worker {survivor}, ended with {r.worker[survivor].poll()}", r.worker[survivor].poll() is None): break
        if now >= fault + EVERY_S:
            fault += EVERY_S
            disturb(r, survivor, stopped, limited, done)
        if now >= minute + min(60, 20 * minutes):
            minute = now
            n, (kib, fds) = r.lines(), size(r.worker[survivor].pid)
            sizes.append((kib, fds))
            print(f"{(now - began) / 60:.1f} min: {n} lines (+{n - before}), {len(r.alive())} alive; worker {survivor}: "
                  f"{kib / 1024:.1f} MiB, {fds} descriptors; {done}", flush=True)
            check(f"steps in the minute before {(now - began) / 60:.1f} min", n > before)
            before = n
    for i in stopped: r.kill(i, signal.SIGCONT)
    restore_limits(limited, float("inf"))
    return sizes


@row(37)
def soak():
    print(f"seed {seed}", flush=True)
    j = job("soak", data={"rounds": 640}, train={"batch_size": 1024})
    r = Ring("soak", j, N, 1000000, ["--min-workers", "1", "--form-timeout", "5s", "--checkpoint-interval", "10s"], tls=certs(j))
    r.start_all()
    sizes = run_faults(r)
    # The first minute fills caches; a worker in a ring of six has at most this many connections
    # more than one alone.
    if len(sizes) > 1:
        check(f"memory grew: {[k for k, _ in sizes]} KiB", sizes[-1][0] <= sizes[0][0] * 1.2 + 8192)
        check(f"descriptors grew: {[f for _, f in sizes]}", sizes[-1][1] <= sizes[0][1] + 4 * N)
    r.settle(3, 120)
    r.same()
    print(f"{r.lines()} lines of steps.jsonl, {r.epochs} epochs: digest {truth(r.job, r.epochs)[0]}")


main()
