"""The ring of tests/soak/soak.sh: starts, disturbs, watches and ends it. Writes WORK/epochs, how many the calm ring was told."""
import json, os, random, signal, subprocess, sys, time

minutes, seed, work, qringd, ports = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5:]
N, EVERY_S = len(ports), 5
dice = random.Random(seed)
steps = work + "/out/steps.jsonl"
workers, stopped, bad = {}, {}, []
done = dict.fromkeys(("kill -9", "SIGTERM", "SIGSTOP", "start"), 0)


def start(i, epochs):
    peers = ["127.0.0.1:" + p for p in ports]
    env = dict(os.environ, TF_CONFIG=json.dumps({"cluster": {"worker": peers}, "task": {"type": "worker", "index": i}}))
    command = [qringd, work + "/job.json", "--threads", "1", "--data-port", "0", "--min-workers", "1", "--form-timeout", "5s", "--epochs", str(epochs),
               "--out", work + "/out", "--checkpoint-interval", "10s"]
    with open(f"{work}/worker{i}.log", "a") as log:
        workers[i] = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def lines():
    try:
        with open(steps, "rb") as f: return sum(1 for _ in f)
    except OSError: return 0


def size(pid): # resident KiB, descriptors
    with open(f"/proc/{pid}/statm") as f: pages = int(f.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024, len(os.listdir(f"/proc/{pid}/fd"))


def alive(): return [i for i, w in workers.items() if w.poll() is None]


def wait_all(seconds):
    end = time.monotonic() + seconds
    for i, w in workers.items():
        try: w.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            w.kill()
            w.wait()
            bad.append(f"worker {i} hangs")


def disturb(survivor):
    here, away = alive(), [i for i in range(N) if i not in alive()]
    others = [i for i in here if i != survivor and i not in stopped]
    kinds = ["SIGSTOP"] + ["start"] * 2 * bool(away) + ["kill -9", "SIGTERM"] * bool(others)
    kind = dice.choice(kinds)
    done[kind] += 1
    if kind == "start": start(dice.choice(away), 1000000)
    elif kind == "SIGSTOP":
        i = dice.choice(here)
        workers[i].send_signal(signal.SIGSTOP)
        stopped[i] = time.monotonic() + dice.uniform(0.1, 4)
    else: workers[dice.choice(others)].send_signal(signal.SIGKILL if kind == "kill -9" else signal.SIGTERM)


def soak():
    survivor = dice.randrange(N)
    for i in range(N): start(i, 1000000)
    end = time.monotonic() + 60
    while lines() < 20 and time.monotonic() < end: time.sleep(0.2)
    began = fault = minute = time.monotonic()
    sizes, before = [], lines()
    while time.monotonic() < began + 60 * minutes:
        time.sleep(0.1)
        now = time.monotonic()
        for i in [i for i, at in stopped.items() if now >= at]:
            workers[i].send_signal(signal.SIGCONT)
            del stopped[i]
        if workers[survivor].poll() is not None:
            bad.append(f"the survivor, worker {survivor}, ended with {workers[survivor].returncode}")
            return
        if now >= fault + EVERY_S:
            fault += EVERY_S
            disturb(survivor)
        if now >= minute + min(60, 20 * minutes):
            minute = now
            n, (kib, fds) = lines(), size(workers[survivor].pid)
            sizes.append((kib, fds))
            print(f"{(now - began) / 60:.1f} min: {n} lines (+{n - before}), {len(alive())} alive; worker {survivor}: {kib / 1024:.1f} MiB, "
                  f"{fds} descriptors; {done}", flush=True)
            if n == before: bad.append(f"no step in the minute before {(now - began) / 60:.1f} min")
            before = n
    # the first minute fills what is kept for good; a ring of six has at most this many connections more than one alone
    if len(sizes) > 1:
        if sizes[-1][0] > sizes[0][0] * 1.2 + 8192: bad.append(f"memory grew: {[k for k, _ in sizes]} KiB")
        if sizes[-1][1] > sizes[0][1] + 4 * N: bad.append(f"descriptors grew: {[f for _, f in sizes]}")


def main():
    print(f"seed {seed}")
    try:
        soak()
        for i in stopped: workers[i].send_signal(signal.SIGCONT)
        for i in alive(): workers[i].send_signal(signal.SIGTERM)
        wait_all(60)
        if not bad:
            with open(steps) as f: epochs = json.loads(f.readlines()[-1])["epoch"] + 2
            with open(work + "/epochs", "w") as f: f.write(str(epochs))
            workers.clear()
            for i in range(3): start(i, epochs)
            wait_all(120)
            for i, w in workers.items():
                if w.returncode: bad.append(f"worker {i} of the calm ring ended with {w.returncode}")
    finally:
        for i in alive(): workers[i].kill()
    for b in bad: print("not so:", b)
    return bool(bad)


sys.exit(main())
