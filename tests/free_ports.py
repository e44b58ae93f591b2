#!/usr/bin/python3
"""free_ports.py N: prints N free ports on loopback.

Test programs run in parallel: each port is returned once, and none is from the kernel's range of
ephemeral ports, where a connection could take it before the worker listens.
"""
import fcntl, os, socket, sys, tempfile

FIRST, LAST = 10000, 32000  # ephemeral ports of Linux begin at 32768
COUNTER = os.path.join(tempfile.gettempdir(), f"qring-test-ports-{os.getuid()}")


def is_free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # TIME_WAIT counts as free: workers set this option too
        try: s.bind(("127.0.0.1", port))
        except OSError: return False
        return True


def free_ports(n):
    with os.fdopen(os.open(COUNTER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        text, ports = f.read(), []
        last = int(text) if text.isdigit() else FIRST
        for _ in range(LAST - FIRST):
            if len(ports) == n: break
            last = last + 1 if FIRST <= last < LAST else FIRST
            if is_free(last): ports.append(last)
        f.seek(0)
        f.truncate()
        f.write(str(last))
    if len(ports) < n: raise SystemExit(f"cannot find {n} free ports between {FIRST} and {LAST}")
    return ports


if __name__ == "__main__": print(*free_ports(int(sys.argv[1])))
