#!/usr/bin/python3
"""Row 51: hundreds of slow clients on the HTTP port, from many addresses; they are silent, send a
byte now and then, or do not read the answer, and reconnect when they are cut off. Every probe is
answered within a second."""
import multiprocessing, socket, time, urllib.error, urllib.request

from ring import TIMEOUT_S, check, figure, main, report, row
from watched import MARGIN, finish, start

SLOW, ADDRESSES, HELD_S, WITHIN_S, MOST_KB = 400, 20, 3, 1, MARGIN * 4 << 10


class Slow:
    """One of them: silent, a byte of a request now and then, or one byte of the answer."""

    def __init__(self, port, i):
        self.port, self.i = port, i
        self.come()

    def come(self):
        self.s, self.asked = socket.socket(), False
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        self.s.setblocking(False)
        self.s.bind((f"127.0.0.{2 + self.i % ADDRESSES}", 0))
        self.s.connect_ex(("127.0.0.1", self.port))

    def turn(self):
        """False: it was cut off, or never let in."""
        try:
            if self.i % 3 and not self.asked: self.s.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n" + (b"X: " if self.i % 3 == 1 else b"\r\n"))
            elif self.i % 3 == 1: self.s.send(b"x")
            self.asked = True
            return self.s.recv(1) != b""
        except BlockingIOError: return True
        except OSError: return False


def crowd(port, seconds):
    """All of them; who is cut off comes again."""
    all_of_them, end = [Slow(port, i) for i in range(SLOW)], time.monotonic() + seconds
    while time.monotonic() < end:
        for c in all_of_them:
            if not c.turn():
                c.s.close()
                c.come()
        time.sleep(0.05)


def probe(port, path):
    """Seconds until the answer; TIMEOUT_S when none came by then."""
    began = time.monotonic()
    try: urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=TIMEOUT_S).read()
    except urllib.error.HTTPError: pass  # a 503 is an answer
    except OSError: return TIMEOUT_S + 1
    return time.monotonic() - began


@row(51)
def slow_clients():
    r, w = start("http")
    had_kb = w.kb("VmRSS")
    w.forget_peak()
    them = multiprocessing.get_context("fork").Process(target=crowd, args=(w.http, HELD_S + 2), daemon=True)
    them.start()
    time.sleep(0.5)
    worst, n, end = 0, 0, time.monotonic() + HELD_S
    while time.monotonic() < end:
        worst, n = max(worst, probe(w.http, ("/healthz", "/readyz", "/metrics")[n % 3])), n + 1
        time.sleep(0.02)
    grown = w.kb("VmHWM") - had_kb
    them.join(10)
    figure(51, f"the slowest answer to a probe beside {SLOW} slow clients from {ADDRESSES} addresses", worst, WITHIN_S)
    check(f"{n} probes", n >= 5)
    check(f"{grown} KB more", grown <= MOST_KB)
    report(51, "memory meanwhile", f"{grown / 1024:.1f} MB more", f"{MOST_KB >> 10} MB")
    report(51, "steps, each that of one worker alone", finish(r), "all")


main()
