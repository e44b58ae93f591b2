#!/usr/bin/python3
"""Row 45: endless HTTP/2 frames outside messages (PINGs, settings, headers ...) from a holder of
the job's certificate that reads the replies or does not; one connection and eight at once, beside
two workers that train over TLS."""
import attacks
from ring import check, main, report, row, until
from watched import PEER_KB, start_attacked, cut, finish

EIGHT, EIGHT_KB = 8, 2 * PEER_KB


@row(45)
def floods():
    r, w, _, one = start_attacked("floods", 45)
    control, data = w.ports()
    go = lambda what, functions, port, kb=EIGHT_KB: one(what, attacks.at_once(functions), port, kb, rises=cut)
    first_kb = w.kb("VmRSS")
    pings, kinds = attacks.flood("PING", reads=False), list(attacks.FLOODS)
    go("endless PINGs, replies unread, one connection", [pings], control, PEER_KB)
    for name, port in ("control", control), ("data", data):
        go(f"endless PINGs, replies unread, eight connections, {name} port", [pings] * EIGHT, port)
        go(f"endless headers, eight connections, {name} port", [attacks.endless_headers, attacks.empty_continuations] * (EIGHT // 2), port)
        for replies, reads in ("read", True), ("unread", False):
            go(f"frames of {len(kinds)} kinds, endless, a connection each, replies {replies}, {name} port", [attacks.flood(k, reads) for k in kinds], port)
    grown = lambda: w.kb("VmRSS") - first_kb
    until(lambda: grown() <= PEER_KB, every=0.1)
    remaining_kb = grown()
    check(f"after all attacks {remaining_kb} KB remain, at most {PEER_KB}", remaining_kb <= PEER_KB)
    report(45, "memory that remains after all attacks", f"{remaining_kb / 1024:.1f} MB", f"{PEER_KB >> 10} MB")
    report(45, "steps, all equal to one worker's", finish(r), "all")


main()
