#!/usr/bin/python3
"""Row 28: file descriptors, threads and ephemeral ports run out at the start and while two workers
train."""
import os, resource, signal, socket, subprocess, sys, threading, time

import attacks
from ring import QRING, QRINGD, Ring, check, folder, free_ports, job, main, report, row, skip, truth, until


def ends(what, command, env=None, seconds=60, words=()):
    """Checks that the command exits by itself with a retryable code and one of the words; returns
    the code."""
    began = time.monotonic()
    try: p = subprocess.run(command, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, text=True, errors="replace")
    except subprocess.TimeoutExpired: return check(f"{what}: does not exit within {seconds} s", False)
    last = p.stderr.strip().splitlines()[-1:] or ["no output"]
    check(f"{what}: exit code {p.returncode}, {last}", p.returncode >= 128 and any(w in p.stderr for w in words))
    report(28, what, f"exit code {p.returncode} after {time.monotonic() - began:.1f} s", ">= 128")
    return p.returncode


def cpu(pid):
    with open(f"/proc/{pid}/stat") as f: p = f.read().rsplit(")", 1)[1].split()
    return (int(p[11]) + int(p[12])) / os.sysconf("SC_CLK_TCK")


def certificates(name):
    out = folder(name + "-tls")
    subprocess.run([QRING, "certs", name, "--out", out], check=True, capture_output=True)
    return out


def finish(r):
    """Checks that all workers train to the end, with the result of an undisturbed run."""
    codes = r.wait(120)
    check(f"{r.name}: exit codes {codes}; {r.last_lines()}", set(codes.values()) == {0})
    r.same()


@row(28)
def few_descriptors():
    for n in 8, 16, 32, 63:
        ends(f"{n} descriptors", ["prlimit", f"--nofile={n}:{n}", QRINGD, job("few"), "--out", folder("few")], words=["raise the limit"])
    r = Ring("enough", job("enough"), 2, 200, ["--min-workers", "2"], prefix=lambda i: ["prlimit", "--nofile=64:64"])
    r.start_all()
    finish(r)
    report(28, "64 descriptors each", "two workers train to the end", "they train")


@row(28)
def few_descriptors_of_run():
    """qring run raises a soft limit, and names a hard one that is too low."""
    for n, soft, hard, fine in (1, 16, 63, False), (1, 16, 64, True), (3, 64, 4096, True), (3, 64, 64, True), (3, 95, 95, True), (64, 64, 64, False):
        command = ["prlimit", f"--nofile={soft}:{hard}", QRING, "run", job("few-run"), "-n", str(n), "--epochs", "1", "--out", folder(f"few-run-{n}-{hard}")]
        what = f"run of {n} with {soft} of {hard} descriptors"
        if not fine:
            ends(what, command, words=["raise the limit (ulimit -n)"])
            continue
        p = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, text=True, errors="replace")
        check(f"{what}: exit code {p.returncode}: {p.stderr[-300:]}", p.returncode == 0)
    report(28, "qring run, soft limits of 16 ... 95 descriptors: exit code", 0, "raised")


@row(28)
def descriptors_run_out():
    """Worker 0 runs out of descriptors while it trains and foreign hosts connect; once it has some
    again, a restarted worker joins."""
    tls = certificates("running-out")
    r = Ring("running-out", job("running-out"), 2, 1000000, ["--min-workers", "1"], tls=tls)
    r.start_all()
    pid, port = r.worker[0].pid, int(r.peers[0].split(":")[1])
    had, lines, before = resource.prlimit(pid, resource.RLIMIT_NOFILE), r.lines(), cpu(pid)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")), had[1]))
    calls = []
    for _ in range(30):
        try: calls.append(attacks.tcp(port))
        except OSError: pass
    time.sleep(2)
    check("no descriptor left: training continues", r.lines() > lines + 20)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, had)
    for s in calls: s.close()
    lines = r.lines()
    r.kill(1)
    r.worker[1].wait()
    check("worker 0 continues", until(lambda: r.lines() > lines + 50))
    r.start(1)
    began = time.monotonic()
    joined = r.wait_log(0, "with 2 workers", since=len(r.log(0)))
    check(f"a restarted worker joins once there are descriptors again; {r.last_lines()}", joined is not None)
    report(28, "descriptors run out while training", f"no pause; {joined or -1:.1f} s until a restarted worker joins", "no exit, no hang")
    check("worker 0 logs the reason", "out of file descriptors" in r.log(0))
    for i in r.alive(): r.kill(i, signal.SIGTERM)
    codes = r.wait(60)
    check(f"after SIGTERM both exit with 143: {codes}", set(codes.values()) == {143})
    with open(r.out + "/steps.jsonl", "rb") as f: lines = f.read().splitlines()
    check("every step equals one worker's", truth(r.job, len(lines) // 3 + 1)[1].splitlines()[:len(lines)] == lines)


@row(28)
def no_threads():
    """A worker starts as a user with a small limit of threads."""
    if os.geteuid() != 0: return skip("threads: only root can run a worker as another user")
    user, out = 54321 + os.getpid() % 1000, folder("threads")
    os.chmod(out, 0o777)
    for d in out, os.path.dirname(out): os.chmod(d, 0o777)
    job_file, codes = job("threads"), {}
    for n in 1, 2, 4, 8, 16, 24:
        peers = [f"127.0.0.1:{p}" for p in free_ports(2)]
        command = ["setpriv", f"--reuid={user}", "--clear-groups", "--inh-caps=-all", "prlimit", f"--nproc={n}:{n}", QRINGD, job_file, "--out", f"{out}/{n}", "--index", "0",
                   "--peers", ",".join(peers), "--data-port", "0", "--threads", "4", "--start-timeout", "2s", "--termination-log", "/dev/null"]
        env = dict(os.environ, ASAN_OPTIONS="detect_leaks=0")  # the leak check needs a thread
        try: p = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, text=True, errors="replace", env=env)
        except subprocess.TimeoutExpired:
            check(f"{n} threads: does not exit", False)
            continue
        codes[n] = p.returncode if p.returncode >= 0 else 128 - p.returncode
        check(f"{n} threads: exit code {p.returncode}: {p.stderr[-300:]}", codes[n] >= 128)
        check(f"{n} threads: the limit is named: {p.stderr[-300:]}", "raise the limit (ulimit -u" in p.stderr)
    report(28, "1 ... 24 threads for a worker that needs more", f"exit codes {sorted(set(codes.values()))}", ">= 128")


def inside():
    """Runs in its own network namespace with eight ephemeral ports: all are used for connections to
    worker 0, then released."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with open("/proc/sys/net/ipv4/ip_local_port_range", "w") as f: f.write("40000 40007")
    r = Ring("ports", job("ports"), 2, 3000, ["--min-workers", "1"], peers=["127.0.0.1:2222", "127.0.0.1:2223"])
    # Worker 0 has a wrong address for worker 1, so only worker 1's dial connects them.
    r.start(0, "--start-timeout", "60s", "--data-port", "2224", env={"TF_CONFIG": r.tf_config(0).replace(":2223", ":9")})
    held = []
    check("worker 0 listens", r.wait_log(0, "listening on"))
    try:
        while len(held) < 9: held.append(attacks.tcp(2222))
    except OSError: pass
    check(f"{len(held)} ports are in use", len(held) == 8)
    r.start(1, "--start-timeout", "60s", "--data-port", "2225")
    time.sleep(2)
    busy = cpu(r.worker[1].pid)
    time.sleep(2)
    busy = cpu(r.worker[1].pid) - busy
    check(f"without a port worker 1 waits, and does not spin: {busy:.2f} s in 2 s", r.worker[1].poll() is None and busy < 0.5)
    for s in held: attacks.end(s)
    began = time.monotonic()
    r.reaches(20, 30)
    report(28, "no ephemeral port for 4 s", f"trains {time.monotonic() - began:.1f} s after their release; {100 * busy / 2:.0f} % CPU in between", "no exit, no hang")
    finish(r)


@row(28)
def no_ports():
    if "inside" in sys.argv: return
    if os.geteuid() != 0 or subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode: return skip("ports: no network namespace")
    p = subprocess.run(["unshare", "-n", sys.executable, os.path.abspath(__file__), "inside"], capture_output=True, text=True, timeout=200)
    print("".join(l + "\n" for l in p.stdout.splitlines() if l.startswith(("ROW", "not so"))), end="")
    check(f"without ephemeral ports: {p.stdout[-300:]}{p.stderr[-300:]}", p.returncode == 0)


if sys.argv[1:] == ["inside"]:
    import ring
    del sys.argv[1:], ring.rows[:]
    ring.rows.append((28, False, inside))
main()
