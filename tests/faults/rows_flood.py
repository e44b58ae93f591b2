#!/usr/bin/python3
"""Row 45: endless HTTP/2 frames outside messages (PINGs, settings, headers ...) from a holder of
the job's certificate that reads the answers or does not; one connection and eight at once, beside
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
    go("PINGs without end, answers unread, one connection", [pings], control, PEER_KB)
    for name, port in ("control", control), ("data", data):
        go(f"PINGs without end, answers unread, eight connections, {name} port", [pings] * EIGHT, port)
        go(f"headers without end, eight connections, {name} port", [attacks.endless_headers, attacks.empty_continuations] * (EIGHT // 2), port)
        for said, reads in ("read", True), ("unread", False):
            go(f"frames of {len(kinds)} kinds without end, a connection each, answers {said}, {name} port", [attacks.flood(k, reads) for k in kinds], port)
    grown = lambda: w.kb("VmRSS") - first_kb
    until(lambda: grown() <= PEER_KB, every=0.1)
    left_kb = grown()
    check(f"of all of them {left_kb} KB stay, not {PEER_KB}", left_kb <= PEER_KB)
    report(45, "what stays of all of them", f"{left_kb / 1024:.1f} MB", f"{PEER_KB >> 10} MB")
    report(45, "steps, each that of one worker alone", finish(r), "all")


main()
