#!/usr/bin/python3
"""Rows of the fault table that end, freeze or multiply processes: kills, SIGSTOP, SIGTERM."""
import time

from ring import Ring, check, figure, job, main, row


@row(2, timed=True)
def kill_the_leader():
    r = Ring("leader", job("leader"), 4, 1000, ["--min-workers", "1"])
    r.start_all()
    at = time.monotonic()
    r.kill(0)
    figure(2, "SIGKILL of worker 0: next step", r.grows_after(at), 1.0)
    codes = r.wait()
    check(f"exit codes {codes}", codes == {0: -9, 1: 0, 2: 0, 3: 0})
    r.same()


main()
