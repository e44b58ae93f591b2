#!/usr/bin/python3
"""Rows where a worker has other settings, too little memory, non-finite numbers, a slow processor
or busy neighbours."""
import json, os, re, signal, subprocess, threading, time, urllib.request

from ring import (ASSERT_BOUNDS, QRINGD, Ring, TIMEOUT_S, WORK, certs, check, check_speed, figure, folder, free_ports, job, main, report, row, skip,
                  turn, until)

ENDLESS = 1000000


# ---- row 18: other settings ----

@row(18, timed=True)
def other_settings():
    right = job("settings")
    wrong = [("spec", dict(train={"optimizer": {"name": "adam", "learning_rate": 0.03}}), "learning_rate", "0.03", "0.02"),
             ("data", dict(data={"rounds": 21}), "data", None, None),
             ("version", dict(precision="double"), "contract", "f64-v1", "f32-v1")]
    for what, change, field, there, here in wrong:
        r = Ring(f"other-{what}", right, 3, ENDLESS, ["--min-workers", "1", "--form-timeout", "0.3s"])
        for i in (0, 1): r.start(i)
        r.joined()
        r.reaches(20)
        had = r.position(0)
        r.job = job(f"settings-{what}", **change)
        with open(r.job) as f: text = json.load(f)
        text["name"] = "settings"
        with open(r.job, "w") as f: json.dump(text, f)
        at = time.monotonic()
        w = r.start(2)
        until(lambda: w.poll() is not None, every=0.001)
        figure(18, f"another {what}: exit of the worker", time.monotonic() - at, 1.0)
        check(f"other {what}: exit code 3, not {w.poll()}; {r.last_lines()}", w.poll() == 3)
        found = re.search(r"has other settings under the job name [^:]*: (%s) is (.+?) there and (.+?) here" % field, r.log(2))
        if check(f"other {what}: field and both values in {r.log(2)[-600:]}", found):
            report(18, f"another {what}: message", f"{found[1]} is {found[2]} there and {found[3]} here", "field and both values")
            check(f"other {what}: {found[0]}", found[2] != found[3] and (there is None or (found[2], found[3]) == (here, there)))
        check(f"other {what}: a member logs it too", until(lambda: "has other settings" in r.log(0)[had:]))
        check(f"other {what}: the ring continues unchanged", "resumed after step" not in r.log(0)[had:] and r.alive() == [0, 1])
        r.job = right
        r.settle()
        r.same()
        r.close()


# ---- row 27: memory ----

@row(27)
def too_little_memory():
    """The limit is a cgroup file as in a container, bind-mounted over the machine's in a mount
    namespace."""
    n = 20
    gates = [{"gate": "XX", "qubits": [a, a + 1], "exponent": {"parameter": f"p{a}"}} for a in range(n - 1)]
    big = job("big", model=[{"layer": "quantum", "circuit": {"qubits": n, "gates": gates}, "readouts": ["Z0"]}])
    with open(big) as f: text = json.load(f)
    text["data"] = {"source": "csv", "url": f"{WORK}/big.csv", "train_fraction": 0.5}
    with open(big, "w") as f: json.dump(text, f)
    row_ = ",".join(["0.5"] * n + ["1"]) + "\n"
    with open(f"{WORK}/big.csv", "w") as f: f.write(",".join([f"x{i}" for i in range(n)] + ["y"]) + "\n" + 4 * row_)
    box = folder("cgroup")
    with open(box + "/memory.max", "w") as f: f.write(f"{8 << 20}\n")
    command = ["unshare", "-m", "sh", "-c", f'mount --bind {box} /sys/fs/cgroup && exec "$@"', "sh", QRINGD, big, "--out", WORK + "/big"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    if "unshare" in done.stderr[:40] or "mount:" in done.stderr[:40]: return skip(f"row 27 needs a mount namespace: {done.stderr.strip()}")
    numbers = re.findall(r"\d{6,}(?= bytes)", done.stderr)
    check(f"the exit code is permanent, not {done.returncode}: {done.stderr[-500:]}", 1 <= done.returncode < 124)
    check(f"the message has both numbers: {done.stderr[-500:]}", str(8 << 20) in numbers and any(int(n) > 8 << 20 for n in numbers))
    check("no step is logged", not os.path.exists(WORK + "/big/steps.jsonl"))
    report(27, "memory limit below need: refused before the first step, need and limit in bytes", ", ".join(numbers), "both numbers")


# ---- row 29: a gradient that is not finite ----

@row(29)
def not_finite():
    """One sample's label makes its micro-batch's sums overflow. All workers find it in the same sum
    and log the same message."""
    with open(f"{WORK}/bad.csv", "w") as f:
        f.write("a,b,c,d,e,f,g,h,y\n")
        for i in range(200): f.write(",".join(str(0.01 * (i + q)) for q in range(8)) + (",1e11\n" if i == 77 else f",{1 - 2 * (i % 2)}\n"))
    bad = job("bad", train={"batch_size": 100, "metrics": []})
    with open(bad) as f: j = json.load(f)
    j["data"] = {"source": "csv", "url": f"{WORK}/bad.csv", "train_fraction": 0.75}
    with open(bad, "w") as f: json.dump(j, f)
    r = Ring("bad", bad, 3, 100, ["--min-workers", "1"])
    for i in range(3): r.start(i)
    codes = set(r.wait(60).values())
    messages = {tuple(re.findall(r"step \d+: sample \d+ \(micro-batch \d+[^\"]*", r.log(i))[-1:]) for i in range(3)}
    check(f"bad: one permanent code, not {codes}; {r.last_lines()}", len(codes) == 1 and 1 <= min(codes) < 124)
    if check(f"bad: one message: {messages}", len(messages) == 1 and () not in messages):
        text = messages.pop()[0]
        check(f"bad: it names the sample: {text}", "sample 77 " in text)
        report(29, f"a gradient that is not finite: all three exit with {min(codes)}; message", text[:90], "<= 1 step")
        step = int(re.match(r"step (\d+)", text)[1])
        check(f"bad: nothing of step {step} is applied: {r.lines()} lines", r.lines() < step)


# ---- rows 21, 38: slow, and busy neighbours ----

def micro_batches(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as f:
        return int(re.search(rb"^qring_micro_batches_total (\d+)", f.read(), re.M)[1])


def shares(r, ports, seconds):
    """Returns (seconds per step, worker 1's share of the micro-batches)."""
    had, lines, began = [micro_batches(p) for p in ports], r.lines(), time.monotonic()
    time.sleep(seconds)
    took, steps = time.monotonic() - began, r.lines() - lines
    new = [micro_batches(p) - h for p, h in zip(ports, had)]
    return took / max(1, steps), new[1] / max(1, sum(new))


@row(21)
def slow_worker():
    """SIGSTOP and SIGCONT leave one of two workers a third of its processor: micro-batches move to
    the other. With speeds of 1 and 1/3 its ideal share is a quarter, and a step takes 1.5 times as
    long; without moving any, 3 times."""
    model = [{"layer": "quantum", "circuit": {"ansatz": "qcnn", "qubits": 15}}, {"layer": "dense", "units": 1}]
    j = job("slow", micro_batch_size=8, model=model, data={"rounds": 16, "train_fraction": 1}, train={"batch_size": 256})
    r = Ring("slow", j, 2, ENDLESS, ["--min-workers", "1"])
    ports = free_ports(2)
    for i in (0, 1): r.start(i, "--http-port", str(ports[i]))
    r.reaches(4)
    since = time.monotonic()
    r.reaches(6)
    two = time.monotonic() - since
    before, share = shares(r, ports, max(1.5, 2 * two))
    check_speed(f"slow: about half of the micro-batches before: {share:.2f}", 0.3 < share < 0.7, 0 < share < 1)
    end = threading.Event()

    def throttle():
        while not end.is_set():
            r.kill(1, signal.SIGSTOP)
            time.sleep(0.02)
            r.kill(1, signal.SIGCONT)
            time.sleep(0.01)
    t = threading.Thread(target=throttle)
    t.start()
    time.sleep(max(1.5, 8 * before))  # speeds are averages over about eight steps
    slow, share = shares(r, ports, max(1.5, 4 * before))
    end.set()
    t.join()
    report(21, "one of two workers at a third of its speed: its share of the micro-batches (ideal 0.25)", f"{share:.2f}", "0.4")
    report(21, f"a step of {before:.3f} s takes {slow:.3f} s: relative to the ideal time", f"{slow / (1.5 * before):.2f}", "1.25")
    check_speed(f"slow: micro-batches move: {share:.2f} for the slow worker", 0.1 < share < 0.45, 0 < share < 1)
    r.settle(extra=1)
    r.same()


@row(38)
def busy_neighbours():
    """Eight busy loops on the same processors for some seconds: no member is ejected."""
    seconds = 4
    r = Ring("busy", job("busy"), 4, ENDLESS, ["--min-workers", "1"])
    r.start_all()
    since = {i: r.position(i) for i in r.alive()}
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(8)]
    at = time.monotonic()
    try: time.sleep(seconds)
    finally:
        for p in loops:
            p.kill()
            p.wait()
    figure(38, f"eight busy neighbours for {seconds} s: longest pause", r.longest_gap(at, time.monotonic()), 1.25)
    ejected = sum(r.log(i)[at_:].count("resumed after step") for i, at_ in since.items())
    report(38, f"eight busy neighbours for {seconds} s: ejections", ejected, 0)
    check_speed(f"busy: {ejected} changes of the ring", ejected == 0)
    r.settle()
    r.same()


# ---- row 55: no processor for a whole ring ----

def ring_metrics(port):
    """(members, generation) as that worker sees them."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as f: text = f.read()
    return tuple(int(re.search(rb"^qring_%s (\d+)" % name, text, re.M)[1]) for name in (b"members", b"generation"))


@row(55, timed=True)
def starved_ring():
    """All workers of a ring run for 10 ms of each 200, at different times, as under a quota of 5 %
    of a processor for each; every other time they are stopped throughout, and continued one after
    the other. The figure is the last time after it at which a worker was in no ring of all or in
    another generation than the others."""
    n, seconds, watched = 6, 20 if ASSERT_BOUNDS else 4, 8 if ASSERT_BOUNDS else 1
    stopped = turn[0] % 2
    j = job("starved")
    r = Ring("stopped" if stopped else "starved", j, n, ENDLESS, ["--min-workers", "1"], tls=certs(j))
    ports = free_ports(n)
    for i in range(n): r.start(i, "--http-port", str(ports[i]))
    r.reaches(20)
    r.joined()
    end = time.monotonic() + seconds
    for i in range(n): r.kill(i, signal.SIGSTOP)
    if stopped: time.sleep(seconds)
    while not stopped and time.monotonic() < end:
        for i in r.alive():
            r.kill(i, signal.SIGCONT)
            time.sleep(0.01)
            r.kill(i, signal.SIGSTOP)
            time.sleep(0.2 / n - 0.01)
    for i in range(n):
        r.kill(i, signal.SIGCONT)
        time.sleep(0.5)
    at = time.monotonic()
    check(f"starved: all workers live: {r.alive()}; {r.last_lines()}", r.alive() == list(range(n)))

    def whole():
        seen = {ring_metrics(p) for p in ports}
        return len(seen) == 1 and seen.pop()[0] == n
    broken = 0.0
    while time.monotonic() < at + watched:
        if not whole(): broken = time.monotonic() - at
        time.sleep(0.02)
    if not check(f"starved: the ring is whole again; {r.last_lines()}", until(whole)): broken = TIMEOUT_S
    figure(55, f"a ring of {n}, all {'stopped' if stopped else 'at 5 % of a processor'} for {seconds} s: whole again", broken, 5.0)
    r.grows_after(time.monotonic())
    r.settle(extra=1)
    r.same()


main()
