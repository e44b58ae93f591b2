#!/usr/bin/python3
"""Rows of the fault table that lie between pods: partitions, loss, delay, resets, slow links, damaged bits."""
import time

from namespaces import Pods, Proxy, between, enter, nft, reset
from ring import check, figure, job, main, row, tell

enter()


@row(8)
def first():
    for tls in (False, True):
        r = Pods(f"half{tls}", job("half"), 4, 1000, ["--min-workers", "1"], tls=tls)
        at = time.monotonic()
        r.start_all()
        print("up", time.monotonic() - at)
        print("rate", r.rate(2))
        with Proxy(0, 1, 2, 3) as p:
            time.sleep(.2)
            print("proxied", r.rate(2), p.count())
            at = time.monotonic()
            reset([0])
            print("reset took", time.monotonic() - at, r.longest_gap(at, at + 1), r.grows_after(at))
        codes = r.wait()
        check(f"exit codes {codes}", codes == {0: 0, 1: 0, 2: 0, 3: 0})
        r.same()


main()
