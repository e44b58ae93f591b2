#!/usr/bin/python3
"""Row 54: malformed HTTP/2 on every port, plaintext and TLS, with the job's certificate and
without, and from servers that a worker dials. First every metadata name that libgrpc knows with
every value, then random requests, replies and handshakes. REQUESTS=1000000 sets their number
(6000), SEED=7 the seed (1)."""
import os, time

import attacks, http2
from ring import Ring, check, free_ports, job, main, report, row, until
from watched import PEER_KB, Watched, certificates, finish, start

REQUESTS, SEED = int(os.environ.get("REQUESTS", "6000")), os.environ.get("SEED", "1")
PER_CONNECTION = 50  # a worker closes a connection that opens more than 64 streams a second
SERVERS, REPLIES = 6, 120


def running(r, what):
    code = r.worker[0].poll()
    return code is None or check(f"{what}: worker 0 exited with {code}; {r.last_lines()}", False)


def send_names(r, what, port, context, base):
    """Sends each name with each value as a client."""
    fields = closed = 0
    for blocks in http2.every_name(base):
        fields += len(blocks)
        # A field that closes the connection hides those after it: send each by itself.
        if not http2.send_blocks(port, context, blocks): closed += sum(not http2.send_blocks(port, context, [b]) for b in blocks)
        if not running(r, f"{what}, names"): return False
    report(54, f"{fields} fields of libgrpc's names, {what}", f"{closed} close their connection", "the worker continues")
    return True


def flood(r, w, what, n, session):
    """Sends n requests by session(seed), which returns how many it sent; checks the memory."""
    w.forget_peak()
    before, began, sent, i = w.kb("VmRSS"), time.monotonic(), 0, 0
    while sent < n:
        sent += session(f"{SEED}/{what}/{i}")
        i += 1
        if not running(r, f"{what}, connection {i} of seed {SEED}"): return
    seconds = time.monotonic() - began
    w.settle()
    peak, after = w.kb("VmHWM"), w.kb("VmRSS")
    check(f"{what}: {after - before} KB remain, {peak - before} KB at peak", after - before <= 2 * PEER_KB and peak - before <= 4 * PEER_KB)
    report(54, f"{sent} requests on {i} connections, {what}", f"{seconds:.1f} s, {before / 1024:.1f} MB before, {peak / 1024:.1f} MB at peak, {after / 1024:.1f} MB after",
           f"{2 * PEER_KB >> 10} MB remain, {4 * PEER_KB >> 10} MB at peak")


def one_handshake(port):
    def session(seed):
        http2.attack_handshake(port, seed)
        return 1
    return session


def attack_ring(name, tls, share):
    """Attacks the three ports of worker 0 of two that train, one after the other."""
    profiler = free_ports(1)[0]
    r, w = start(name, tls=tls, more=["--profiler-port", str(profiler)])
    control, data = w.ports(profiler)
    with_cert, without = (attacks.context(tls), attacks.context()) if tls else (None, None)
    ports = [("control", control, with_cert), ("data", data, with_cert), ("profiler", profiler, None)]
    lines = r.lines()
    for what, port, context in ports:
        what = f"{what} port, {'TLS with certificate' if context else 'plaintext'}{' beside TLS' if tls and not context else ''}"
        if not send_names(r, what, port, context, http2.request_of()): return
        flood(r, w, what, REQUESTS * share // len(ports), lambda seed: http2.attack(port, context, seed, PER_CONNECTION))
        if tls and context:
            for blocks in http2.every_name(http2.request_of())[:3]: http2.send_blocks(port, without, blocks)
            flood(r, w, what.replace("with certificate", "handshakes with changed bytes"), max(REQUESTS // 100, 50), one_handshake(port))
        if r.worker[0].poll() is not None: return
    check(f"{name}: training continues", until(lambda: r.lines() > lines + 50, 20))
    report(54, f"steps, all equal to one worker's, {name}", finish(r), "all")


@row(54)
def plaintext(): attack_ring("http2-plain", None, 0.5)


@row(54)
def tls(): attack_ring("http2-tls", certificates("http2-tls-dir", job("http2-tls")), 0.5)


def dialled(name, cert):
    """Runs a worker whose peers are all hostile servers."""
    ports = free_ports(SERVERS + 1)
    r = Ring(name, job(name), SERVERS + 1, 3, ["--min-workers", str(SERVERS + 1), "--start-timeout", "600s"], peers=[f"127.0.0.1:{p}" for p in ports], tls=cert)
    servers = [http2.Server(p, cert, f"{SEED}/{name}/{i}", http2.VALUES[i::SERVERS]) for i, p in enumerate(ports[1:])]
    replies = lambda: sum(s.replies for s in servers)
    http = free_ports(1)[0]
    r.start(0, "--http-port", str(http))
    w = Watched(r, 0, http)
    check(f"{name}: the worker dials; {r.last_lines()}", until(lambda: replies() > SERVERS, 30, 0.05))
    before, began = w.kb("VmRSS"), time.monotonic()
    until(lambda: replies() >= REPLIES * max(1, REQUESTS // 100000) or not running(r, name), 600, 0.05)
    running(r, name)
    after = w.kb("VmRSS")
    check(f"{name}: {after - before} KB more", after - before <= 2 * PEER_KB)
    report(54, f"{replies()} replies on {sum(s.connections for s in servers)} connections of hostile servers, {'TLS' if cert else 'plaintext'}",
           f"{time.monotonic() - began:.1f} s, {before / 1024:.1f} MB before, {after / 1024:.1f} MB after", f"{2 * PEER_KB >> 10} MB remain")
    for s in servers: s.close()


@row(54)
def servers():
    dialled("http2-servers", None)
    dialled("http2-servers-tls", certificates("http2-servers-tls-dir", job("http2-servers-tls")))


MONITOR = http2.request_of(b"/tensorflow.ProfilerService/Monitor")


def monitor(port, host, ms):
    """Opens a connection from this address that calls Monitor for that many milliseconds."""
    s = attacks.tcp(port, host=host)
    s.sendall(attacks.PREFACE + attacks.frame(attacks.SETTINGS, 0, 0) + attacks.frame(attacks.HEADERS, 4, 1, MONITOR)
              + attacks.frame(attacks.DATA, 1, 1, attacks.message(bytes([8, ms & 127 | 128, ms >> 7 & 127 | 128, ms >> 14]))))
    return s


def read_reply(s):
    """Reads until the end of the call: a reply's text is in a message, a refusal's in the
    trailers."""
    seen, end = b"", time.monotonic() + 30
    s.settimeout(30)
    while time.monotonic() < end and b"steps/s" not in seen and b"grpc-status" not in seen: seen += s.recv(65536)
    return seen


def received(s):
    """Bytes received so far."""
    seen = b""
    try:
        s.settimeout(0.05)
        while b := s.recv(65536): seen += b
    except OSError: pass
    return seen


@row(54)
def profiler_calls():
    """One host holds as many profiler calls as it can; an earlier and a later call of another host
    are answered."""
    port = free_ports(1)[0]
    r = Ring("http2-profiler", job("http2-profiler"), 1, 1000000, ["--profiler-port", str(port)])
    r.start_all()
    before = monitor(port, "127.0.0.1", 1000)
    many = [monitor(port, "127.0.0.2", 60000) for _ in range(40)]
    after = monitor(port, "127.0.0.1", 50)
    for what, s in ("a call that waits", before), ("a new call", after):
        reply = read_reply(s)
        check(f"{what} is answered beside {len(many)} of another host: {reply[-100:]}", b"steps/s" in reply)
    refused = sum(b"too many calls" in received(s) for s in many)
    check(f"{refused} of {len(many)} calls of one host are refused", len(many) - 16 <= refused <= len(many) - 14)
    report(54, "two calls of one host beside 40 of another", f"both answered, {refused} of the 40 refused", "both answered, all but 16 refused")


main()
