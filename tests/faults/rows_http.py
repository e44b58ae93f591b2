#!/usr/bin/python3
"""Row 51: hundreds of slow clients on the HTTP port, from many addresses, are silent, send a byte
now and then, or do not read the reply, and reconnect when they are disconnected. Every probe is
answered within a second."""
import multiprocessing, socket, time, urllib.error, urllib.request

from ring import TIMEOUT_S, check, figure, main, report, row
from watched import MARGIN, finish, start

SLOW, ADDRESSES, HELD_S, WITHIN_S, MOST_KB = 400, 20, 3, 1, MARGIN * 4 << 10


class Slow:
    """A client that is silent, sends a byte of a request now and then, or reads one byte of the
    reply."""

    def __init__(self, port, i):
        self.port, self.i = port, i
        self.connect()

    def connect(self):
        self.s, self.requested = socket.socket(), False
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        self.s.setblocking(False)
        self.s.bind((f"127.0.0.{2 + self.i % ADDRESSES}", 0))
        self.s.connect_ex(("127.0.0.1", self.port))

    def act(self):
        """Returns False when the server has closed or refused the connection."""
        try:
            if self.i % 3 and not self.requested: self.s.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n" + (b"X: " if self.i % 3 == 1 else b"\r\n"))
            elif self.i % 3 == 1: self.s.send(b"x")
            self.requested = True
            return self.s.recv(1) != b""
        except BlockingIOError: return True
        except OSError: return False


def run_clients(port, seconds):
    """Runs all clients; a client that is disconnected reconnects."""
    clients, end = [Slow(port, i) for i in range(SLOW)], time.monotonic() + seconds
    while time.monotonic() < end:
        for c in clients:
            if not c.act():
                c.s.close()
                c.connect()
        time.sleep(0.05)


def probe(port, path):
    """Seconds until the reply; more than TIMEOUT_S when none came."""
    began = time.monotonic()
    try: urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=TIMEOUT_S).read()
    except urllib.error.HTTPError: pass  # a 503 is a reply
    except OSError: return TIMEOUT_S + 1
    return time.monotonic() - began


@row(51)
def slow_clients():
    r, w = start("http")
    had_kb = w.kb("VmRSS")
    w.forget_peak()
    clients = multiprocessing.get_context("fork").Process(target=run_clients, args=(w.http, HELD_S + 2), daemon=True)
    clients.start()
    time.sleep(0.5)
    worst, n, end = 0, 0, time.monotonic() + HELD_S
    while time.monotonic() < end:
        worst, n = max(worst, probe(w.http, ("/healthz", "/readyz", "/metrics")[n % 3])), n + 1
        time.sleep(0.02)
    grown = w.kb("VmHWM") - had_kb
    clients.join(10)
    figure(51, f"the slowest reply to a probe beside {SLOW} slow clients from {ADDRESSES} addresses", worst, WITHIN_S)
    check(f"{n} probes", n >= 5)
    check(f"{grown} KB more", grown <= MOST_KB)
    report(51, "memory during this time", f"{grown / 1024:.1f} MB more", f"{MOST_KB >> 10} MB")
    report(51, "steps, all equal to one worker's", finish(r), "all")


main()
