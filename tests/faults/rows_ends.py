#!/usr/bin/python3
"""Rows about start and end of a process: thread creation that fails and libraries that hang (43),
small stacks and address spaces (48), a port that a previous process still holds, and time in
which the process was stopped (52)."""
import concurrent.futures, os, signal, subprocess, time, urllib.request

from ring import QRING, QRINGD, ROOT, Ring, SANITIZED, WORK, certs, check, figure, folder, free_ports, job, main, report, row, skip, until

ENDLESS = 1000000
LISTENS = ": /healthz, /readyz"  # only in the log line of a successful bind
DOCUMENTED_CODES = (0, 2, 134, 138, 143)


def broken_library():
    """Compiles tests/faults/broken_library.c for LD_PRELOAD; None with sanitizers, which must be
    loaded first."""
    if SANITIZED: return skip("row 43: libraries that break: a sanitizer must be the first library")
    os.makedirs(WORK, exist_ok=True)
    so = WORK + "/broken_library.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-I", ROOT, "-o", so, ROOT + "/tests/faults/broken_library.c", "-ldl"], check=True)
    return so


def last_line(text): return (text.strip().splitlines() or ["nothing"])[-1]


def run_to_end(command, seconds, env=None, term_after=None):
    """Returns (exit code or 128 + signal, output, seconds). With term_after, sends SIGTERM after
    that many seconds and counts from then. The code is None when the process does not exit."""
    p = subprocess.Popen(command, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         errors="replace")
    began = time.monotonic()
    try:
        if term_after:
            try: return outcome(p, p.communicate(timeout=term_after)[0], began)
            except subprocess.TimeoutExpired: p.send_signal(signal.SIGTERM)
            began = time.monotonic()
        return outcome(p, p.communicate(timeout=seconds)[0], began)
    except subprocess.TimeoutExpired:
        p.kill()
        return None, p.communicate()[0], seconds


def outcome(p, text, began): return p.returncode if p.returncode >= 0 else 128 - p.returncode, text, time.monotonic() - began


def has_message(text):
    """Returns whether the last line is a message of the program or of the system's loader.

    SIGSEGV counts only in an out-of-memory message: gRPC does not check allocations for what it
    reads (MemoryAllocator::MakeSlice).
    """
    line = last_line(text).replace("qring: out of memory (SIGSEGV in", "qring: out of memory (in")
    ours = line.startswith(("qring: ", "{", "E ", "W ", "I ")) or " E worker: " in line or " E qring: " in line or " I worker: " in line
    return (ours or "error while loading shared libraries" in line) and "SIGSEGV" not in line and "does not hold" not in line


# ---- row 43: threads, and libraries that hang ----

@row(43)
def no_thread_at_the_start():
    """Creation of the Nth thread and all later ones fails: for some N in the worker's trial of
    thread creation (lib/worker/limits.c), then for each N up to one with which it trains."""
    so = broken_library()
    if not so: return
    j = job("start-threads")

    def one(n):
        a, http = free_ports(2)
        out = folder(f"start-threads-{n}")
        command = [QRINGD, j, "--epochs", "1", "--out", out, "--peers", f"127.0.0.1:{a}", "--index", "0", "--data-port", "0", "--http-port", str(http), "--threads", "3",
                   "--start-timeout", "3s"]
        return n, run_to_end(command, 60, {"LD_PRELOAD": so, "QR_NO_THREADS": str(n)})
    with concurrent.futures.ThreadPoolExecutor(8) as pool: seen = dict(pool.map(one, [1, 12, *range(24, 42)]))
    for n, (code, text, took) in seen.items():
        check(f"no thread from the {n}th on: exit code {code} after {took:.1f} s: {last_line(text)[-300:]}", code in DOCUMENTED_CODES and has_message(text))
    check(f"training works where no thread is refused: {seen[41][0]}", seen[41][0] == 0)
    report(43, "the Nth thread refused, N 1 ... 41: exit codes", sorted({str(code) for code, _, _ in seen.values()}), "0, 138 and a message")
    figure(43, "the Nth thread refused: slowest exit", max(took for _, _, took in seen.values()), 7)


@row(43)
def no_thread_while_they_train():
    """Five train; then thread creation fails in all, and one is killed: the others form a ring
    again and train to the end."""
    so = broken_library()
    if not so: return
    r = Ring("late-threads", job("late-threads"), 5, 400, ["--min-workers", "1", "--form-timeout", "5s"])
    none = r.dir + "/none"
    r.env = {"LD_PRELOAD": so, "QR_NO_THREADS": none}
    r.start_all(lines=20)
    open(none, "w").close()
    r.kill(4)
    until(lambda: os.path.exists(r.out + "/result.json"), 60)
    at = time.monotonic()
    codes = r.wait(60)
    figure(43, "no new threads while five train: all have exited after the result is written", time.monotonic() - at, 10)
    check(f"late-threads: exit codes {codes}; {r.last_lines()}", {codes[i] for i in range(4)} == {0})
    r.same()


@row(43)
def library_breaks_at_the_end():
    """gRPC's shutdown hangs, aborts or faults: the exit code is the one decided before."""
    so = broken_library()
    if not so: return
    j, last = job("shutdown"), WORK + "/last"
    for how, bound in (("hangs", 6), ("aborts", 2), ("faults", 2)):
        a = free_ports(1)[0]
        ring = ["--peers", f"127.0.0.1:{a}", "--index", "0", "--data-port", "0", "--out", folder("shutdown-" + how), "--termination-log", last]
        env = {"LD_PRELOAD": so, "QR_AT_SHUTDOWN": how}
        code, text, took = run_to_end([QRINGD, j, "--epochs", "1", *ring], 60, env)
        check(f"{how} after a good run: exit code {code}: {last_line(text)[-300:]}", code == 0 and has_message(text.replace("SIGSEGV", "")))
        figure(43, f"gRPC's shutdown {how} after a good run: exit", took, bound)
        open(last, "w").close()
        code, text, took = run_to_end([QRINGD, j, "--epochs", str(ENDLESS), *ring, "--fresh"], 60, env, term_after=0.8)
        check(f"{how} after SIGTERM: exit code {code}: {last_line(text)[-300:]}", code == 143)
        with open(last) as f: content = f.read().strip()
        check(f"{how} after SIGTERM: the termination message: {content}", content.endswith("drained on SIGTERM"))
        figure(43, f"gRPC's shutdown {how} after SIGTERM: exit", took, 2)
    r = Ring("sigterm-twice", j, 1, ENDLESS, ["--peers", f"127.0.0.1:{free_ports(1)[0]}", "--index", "0"], env={"LD_PRELOAD": so, "QR_AT_SHUTDOWN": "hangs"})
    r.tf_config = lambda i: ""
    r.start(0)
    r.reaches(5)
    r.kill(0, signal.SIGTERM)
    check(f"the worker logs that it has drained: {r.last_lines()}", r.wait_log(0, "drained on SIGTERM") is not None)
    time.sleep(0.1)
    at = time.monotonic()
    r.kill(0, signal.SIGTERM)
    code = r.worker[0].wait(60)
    check(f"SIGTERM twice: exit code {code}; {r.last_lines()}", code == 143)
    figure(43, "gRPC's shutdown hangs, and a second SIGTERM: exit", time.monotonic() - at, 0.2)


@row(43)
def external_abort():
    """SIGABRT from outside (a supervisor that wants a core) ends a worker at once, after its log
    line."""
    if SANITIZED: return skip("SIGABRT: a sanitizer prints the last lines")
    r = waits_for_peer("aborted", free_ports(3))
    r.start(0)
    check(f"the worker waits: {r.last_lines()}", r.wait_log(0, LISTENS) is not None)
    at = time.monotonic()
    r.kill(0, signal.SIGABRT)
    code = until(lambda: r.worker[0].poll() is not None) and r.worker[0].poll()
    check(f"SIGABRT: {code}; {r.last_lines()}", code == -signal.SIGABRT and "ended by SIGABRT" in r.log(0))
    figure(43, "SIGABRT from outside: exit", time.monotonic() - at, 1)
    r.close()


# ---- row 48: stacks and address spaces ----

@row(48)
def small_stacks():
    """A hard limit that is too small is reported; a soft limit is raised."""
    if SANITIZED: return skip("row 48: stacks: sanitizers need larger frames")
    j = job("stacks")
    good = folder("stacks")
    check("a run that writes weights", subprocess.run([QRINGD, j, "--epochs", "1", "--out", good], capture_output=True).returncode == 0)
    a = free_ports(1)[0]
    commands = {"qringd": [QRINGD, j, "--epochs", "1", "--out", good + "/a"],
                "a ring's": [QRINGD, j, "--epochs", "1", "--out", good + "/b", "--peers", f"127.0.0.1:{a}", "--index", "0", "--data-port", "0"],
                "run": [QRING, "run", j, "-n", "2", "--epochs", "1", "--out", good + "/c"], "infer": [QRING, "infer", j, "--weights", good + "/weights.h5"],
                "gradient": [QRING, "gradient", j], "validate": [QRING, "validate", j]}
    for what, command in commands.items():
        for kb in (32, 64, 256, 1000):
            code, text, _ = run_to_end(["prlimit", f"--stack={kb << 10}:{kb << 10}", *command], 60)
            check(f"{what} with {kb} KiB of stack: exit code {code}: {last_line(text)[-300:]}", code == 138 and "raise the limit (ulimit -s)" in text and has_message(text))
        for soft, hard in ((64 << 10, "unlimited"), (32 << 10, 1 << 20)):
            code, text, _ = run_to_end(["prlimit", f"--stack={soft}:{hard}", *command], 30)
            check(f"{what} with a soft limit of {soft >> 10} KiB, hard {hard}: exit code {code}: {last_line(text)[-300:]}", code == 0)
    report(48, "stacks of 32 ... 1000 KiB, six commands: exit code", 138, "138 and both numbers")
    report(48, "soft limits of 32 and 64 KiB, six commands: exit code", 0, "raised")


def reaches_main(mib):
    """Returns whether the program reaches main. With less memory the system's loader or a library's
    constructor ends it before it can print a message."""
    text = run_to_end(["prlimit", f"--as={mib << 20}", f"--stack={1 << 20}", QRINGD, "--version"], 60)[1]
    return "cannot start: " in text or "this process may" in text or text.startswith(("qringd ", "qring: "))


@row(48)
def small_address_spaces():
    """From the least memory in which the program reaches main to enough: four workers at a time in
    a TLS ring with a fifth that has no limit."""
    if SANITIZED: return skip("row 48: address spaces: a sanitizer reserves terabytes")
    j = job("spaces")
    r = Ring("spaces", j, 5, ENDLESS, ["--min-workers", "1", "--form-timeout", "0.3s"], tls=certs(j))
    r.start(0)
    r.reaches(5)
    least = next(mib for mib in range(24, 80) if reaches_main(mib))

    def one(at):
        index, mib = at[0] % 4 + 1, at[1]
        command = ["prlimit", f"--as={mib << 20}", f"--stack={1 << 20}", QRINGD, j, "--epochs", str(ENDLESS), "--out", r.out, "--data-port", "0", "--threads", "1",
                   "--index", str(index), "--peers", ",".join(r.peers), "--tls-dir", r.tls, "--form-timeout", "5s"]
        return mib, run_to_end(command, 60, term_after=4)
    wanted = [least, least + 6, least + 12, least + 18, *range(least + 22, least + 46, 2), least + 64, least + 128]
    seen = {}
    with concurrent.futures.ThreadPoolExecutor(4) as pool: # four at a time: each needs its own index
        for i in range(0, len(wanted), 4): seen.update(pool.map(one, enumerate(wanted[i:i + 4])))
    for mib, (code, text, _) in seen.items():
        check(f"a worker with {mib} MiB: exit code {code}: {last_line(text)[-300:]}", code in DOCUMENTED_CODES and has_message(text) and "terminate called" not in text)
        check(f"a worker with {mib} MiB: 134 has a reason: {last_line(text)[-300:]}", code != 134 or "\nqring: out of memory (" in "\n" + text) # other threads may log after that line
    codes = {mib: code for mib, (code, _, _) in seen.items()}
    report(48, f"a worker with {wanted[0]} ... {wanted[-1]} MiB of address space: exit codes", sorted(set(codes.values()), key=str), "documented codes, each with a message")
    check(f"some memory limit gives 134, the largest none: {codes}", 134 in codes.values() and codes[wanted[-1]] == 143)
    check("the worker without a limit continues", r.alive() == [0])
    for what in (["gradient", j], ["validate", j]):
        for mib in (least, least + 1, least + 2, least + 4, least + 8):
            code, text, _ = run_to_end(["prlimit", f"--as={mib << 20}", f"--stack={1 << 20}", QRING, *what], 60)
            check(f"qring {what[0]} with {mib} MiB: exit code {code}: {last_line(text)[-200:]}", code in (0, 2, 127, 134, 138) and (code == 0 or has_message(text)))


# ---- row 52: the port of a previous process, and a process that was stopped ----

def waits_for_peer(name, ports, *more):
    r = Ring(name, job(name), 2, 20, ["--min-workers", "2", "--start-timeout", "30s", *more], peers=[f"127.0.0.1:{p}" for p in ports[:2]])
    r.flags += ["--http-port", str(ports[2])]
    return r


def stopped_predecessor():
    """A stopped worker holds both ports; another is started in its place; the first is killed a
    second later."""
    for which in ("peers", "probes"):
        ports = free_ports(4)
        r = waits_for_peer("predecessor-" + which, ports)
        first = r.start(0)
        check(f"the first one listens: {r.last_lines()}", r.wait_log(0, LISTENS) is not None)
        r.kill(0, signal.SIGSTOP)
        if which == "probes": r.peers[0] = f"127.0.0.1:{ports[3]}"
        since = r.position(0)
        second = r.start(0)
        check(f"{which}: it logs that it waits: {r.last_lines()}", r.wait_log(0, "retrying for 10 s", since=since) is not None)
        time.sleep(1)
        check(f"{which}: it waits; {r.last_lines()}", second.poll() is None)
        at = time.monotonic()
        first.kill()
        first.wait()
        check(f"{which}: it listens; {r.last_lines()}", r.wait_log(0, LISTENS, since=since) is not None)
        figure(52, f"the port for {which} of a stopped predecessor: bound after that one was killed", time.monotonic() - at, 0.5)
        check(f"{which}: the retry is logged once", r.log(0)[since:].count("retrying for") == 1)
        r.kill(0, signal.SIGSTOP)
        r.start(1, "--http-port", str(ports[2]))  # and SIGTERM ends the wait
        r.wait_log(1, "retrying for")
        at = time.monotonic()
        r.kill(1, signal.SIGTERM)
        code = r.worker[1].wait(60)
        check(f"{which}: SIGTERM while it waits: exit code {code}; {r.last_lines()}", code == 143)
        figure(52, f"waiting for the port for {which}, and SIGTERM: exit", time.monotonic() - at, 2)
        r.close()


def port_is_never_free():
    """A port stays in use until the retries end."""
    ports = free_ports(4)
    r = waits_for_peer("double", ports)
    r.start(0)
    r.wait_log(0, LISTENS)
    r.kill(0, signal.SIGSTOP)
    at = time.monotonic()
    double = r.start(0)
    double.wait(60)
    check(f"exit code {double.returncode}; {r.last_lines()}", double.returncode == 2 and "the port is in use" in last_line(r.log(0)))
    figure(52, "a port that stays in use: waited for, then exit code 2", time.monotonic() - at, 12)


@row(52)
def stopped_process():
    """A worker waiting for its peer is stopped for longer than its start timeout; its peer starts
    after SIGCONT, and both train. A training worker is stopped for longer than its liveness limit;
    after SIGCONT its probe succeeds. The tests of ports run in the meantime."""
    ports = free_ports(5)
    r = waits_for_peer("stopped", ports)
    r.start(0, "--start-timeout", "4s", "--form-timeout", "4s")
    r.wait_log(0, LISTENS)
    alone = Ring("probed", job("probed"), 1, ENDLESS, ["--http-port", str(ports[3])])
    alone.start(0)
    alone.reaches(5)
    for x in r, alone: x.kill(0, signal.SIGSTOP)
    at = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for tried in [pool.submit(f) for f in (port_is_never_free, stopped_predecessor)]: tried.result()
    time.sleep(max(0, at + 16.5 - time.monotonic()))
    stopped_s = time.monotonic() - at
    for x in r, alone: x.kill(0, signal.SIGCONT)
    with urllib.request.urlopen(f"http://127.0.0.1:{ports[3]}/healthz", timeout=60) as f: answer = f.read()
    check(f"the probe of a worker stopped for {stopped_s:.1f} s: {answer}", answer == b"ok\n")
    time.sleep(1)
    r.start(1, "--http-port", str(ports[4]))
    codes = r.wait(60)
    check(f"stopped while it waited: exit codes {codes}; {r.last_lines()}", set(codes.values()) == {0})
    report(52, f"stopped for {stopped_s:.1f} s with a form timeout of 4 s: exit codes", sorted(codes.values()), "0, 0")
    r.same()


main()
