"""A ring under attack: metrics, memory and ports of one worker observed from outside; attacks run
one after the other, each with limits. Used by tests/faults/rows_peers.py and others."""
import json, multiprocessing, os, shutil, signal, subprocess, time, urllib.request

import attacks
from ring import QRING, QRINGD, Ring, SANITIZED, check, folder, free_ports, job, report, truth, until

MARGIN = 40 if SANITIZED else 1  # a sanitizer quarantines 256 MB of freed memory and pads each block
PEER_KB, IDLE_KB, FOREVER = MARGIN * 16 << 10, MARGIN * 96, 1000000
fork = multiprocessing.get_context("fork")


def certificates(name, *more, out=None):
    out = out or folder(name)
    subprocess.run([QRING, "certs", *more, "--out", out], check=True, capture_output=True)
    return out


def issued(ca, name, names, days=1):
    """Returns a folder with a certificate for these names ("DNS.1=text") by the CA whose key is in
    the folder ca."""
    out = folder(name)
    shutil.copytree(ca, out, dirs_exist_ok=True)
    with open(out + "/ext", "w") as f:
        f.write("subjectAltName=@names\nextendedKeyUsage=serverAuth,clientAuth\n[names]\n" + "".join(n + "\n" for n in names))
    run = lambda *a: subprocess.run(["openssl", *a], check=True, capture_output=True)
    run("req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", out + "/tls.key", "-subj", "/CN=x", "-out", out + "/csr")
    run("x509", "-req", "-in", out + "/csr", "-CA", ca + "/ca.crt", "-CAkey", ca + "/ca.key", "-CAcreateserial", "-days", str(days), "-extfile", out + "/ext",
        "-out", out + "/tls.crt")
    return out


class Watched:
    """Metrics, memory and ports of a worker, observed from outside."""

    def __init__(self, ring, index, http):
        self.ring, self.pid, self.http, self.control = ring, ring.worker[index].pid, http, int(ring.peers[index].split(":")[1])

    def metrics(self):
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.http}/metrics", timeout=10).read().decode()
        return {k: float(v) for k, v in (l.rsplit(" ", 1) for l in text.splitlines() if not l.startswith("#"))}

    def kb(self, what):
        with open(f"/proc/{self.pid}/status") as f: return next(int(l.split()[1]) for l in f if l.startswith(what + ":"))

    def forget_peak(self):
        with open(f"/proc/{self.pid}/clear_refs", "w") as f: f.write("5")

    def settle(self):
        """Waits until memory is constant for half a second, so that the previous attack's work does
        not count for the next one."""
        since, last = time.monotonic(), self.kb("VmRSS")
        for _ in range(100):
            time.sleep(0.1)
            now = self.kb("VmRSS")
            if abs(now - last) > 256: since, last = time.monotonic(), now
            elif time.monotonic() - since >= 0.5: return

    def ports(self, *others):
        """Returns (control, data). others: listening ports of other services."""
        inodes = set()
        for fd in os.listdir(f"/proc/{self.pid}/fd"):
            try: inodes.add(os.readlink(f"/proc/{self.pid}/fd/{fd}"))
            except OSError: pass
        found = set()
        for table in "tcp", "tcp6":
            with open(f"/proc/net/{table}") as f:
                for l in f.readlines()[1:]:
                    p = l.split()
                    if p[3] == "0A" and f"socket:[{p[9]}]" in inodes: found.add(int(p[1].split(":")[1], 16))
        return self.control, next(p for p in found if p not in (self.control, self.http, *others))


def start(name, n=2, epochs=FOREVER, tls=None, views=None, more=()):
    """Starts a ring and observes worker 0. views: environment by index, a function of the ring;
    more: flags of worker 0."""
    r = Ring(name, job(name), n, epochs, ["--min-workers", "1"], tls=tls)
    http = free_ports(1)[0]
    r.start(0, "--http-port", str(http), *more)
    for i in range(1, n): r.start(i, env=(views or {}).get(i, lambda r: {})(r))
    r.joined()
    r.reaches(20)
    return r, Watched(r, 0, http)


def finish(r):
    """Sends SIGTERM to all workers, continues from their checkpoint with one worker to the epoch's
    end, and compares with an undisturbed run. Returns the number of lines."""
    for i in r.alive(): r.kill(i, signal.SIGTERM)
    codes = r.wait(20)
    check(f"{r.name}: after SIGTERM all exit with 143, not {codes}", set(codes.values()) == {143})
    with open(r.out + "/steps.jsonl") as f: r.epochs = json.loads(f.readlines()[-1])["epoch"] + 1
    with open(r.dir + "/last.log", "w") as log:
        code = subprocess.run([QRINGD, r.job, "--epochs", str(r.epochs), "--out", r.out], stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=120).returncode
    check(f"{r.name}: one worker continues from the checkpoint: exit code {code}", code == 0)
    return r.same() and len(truth(r.job, r.epochs)[1].splitlines())


STATE = "qring_generation", "qring_members", "qring_regroups_total", "qring_members_lost_total"


def state(m): return {k: m[k] for k in STATE}


def refused(m): return sum(v for k, v in m.items() if k.startswith("qring_tls_refused_total"))


def attack(r, w, number, what, function, port, cert, bound_kb, must_rise=None, each=None):
    """Runs one attack in its own process; checks the worker's memory, state and progress."""
    before, lines, began = w.metrics(), r.lines(), time.monotonic()
    w.forget_peak()
    had_kb = w.kb("VmRSS")
    p = fork.Process(target=function, args=(port, cert), daemon=True)
    p.start()
    p.join(20)
    check(f"{what}: the attack ends", not p.is_alive())
    if p.is_alive(): p.kill()
    ended = time.monotonic()
    w.settle()
    grown = w.kb("VmHWM") - had_kb
    check(f"{what}: training continues during the attack and afterwards", until(lambda: r.lines() > lines + 20))
    rises = lambda m: not must_rise or must_rise(m) > must_rise(before)
    check(f"{what}: counted", until(lambda: rises(w.metrics()), every=0.1))
    after = w.metrics()
    check(f"{what}: state unchanged: {state(before)}, {state(after)}", state(before) == state(after))
    check(f"{what}: {grown} KB more, at most {bound_kb}", grown <= bound_kb)
    more = f", {grown / each:.0f} KB each" if each else ""
    report(number, what, f"{grown / 1024:.1f} MB more at peak{more}; longest pause {r.longest_gap(began, ended):.2f} s", f"{bound_kb // 1024} MB")


def cut(m): return m["qring_link_cut_total"]


def start_attacked(name, number):
    """Starts two workers that train over TLS. Returns the ring, worker 0 observed, the certificate,
    and go(what, attack, port), which runs one attack on worker 0."""
    tls = certificates(f"{name}-tls", job(name))
    r, w = start(name, tls=tls)
    go = lambda what, f, port, kb=PEER_KB, rises=None, each=None: attack(r, w, number, what, f, port, tls, kb, rises, each)
    return r, w, tls, go


def call(port, cert):
    try:
        s = attacks.h2(port, cert)
        s.settimeout(2)
        while s.recv(4096): pass
    except OSError: pass
