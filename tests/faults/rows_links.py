#!/usr/bin/python3
"""Row 42: links whose control port works and whose data port does not. Five workers; two of them
exchange no data (both ways, one way, at the leader, new connections reset), or one exchanges none
with any other. Training continues without one of the two, at half the rate or more from 3 s on;
both are named; after healing all five are members within 10 s. DROP_SECONDS=100 drops for 100 s
instead of six. A frame takes HOP_US to the next pod, so rates depend on waiting and not on the load
of the machine."""
import os, time

from namespaces import Pods, Proxy, address, cut, enter, inside, reset, run
from ring import QRING, check, check_speed, figure, job, main, report, row, until

enter()
ALL = (0, 1, 2, 3, 4)
SECONDS = float(os.environ.get("DROP_SECONDS", "6"))
PORT, HOP_US = 2224, 1000
SHARE = 0.5 if SECONDS >= 30 else 0.25  # minimum share of the undisturbed rate: short measurements on a busy machine vary more


def from_data_port(a, b):
    """Rules of pod b that drop what pod a sends on data connections, whichever dialed."""
    return [f"ip saddr {address(a)} tcp dport {PORT} drop", f"ip saddr {address(a)} tcp sport {PORT} drop"]


def dropped(pairs):
    rules = {}
    for a, b in pairs: rules.setdefault(b, []).extend(from_data_port(a, b))
    return rules


def both(a, b): return [(a, b), (b, a)]


def refused(a, b):
    """Rules that reset new data connections; the higher index dials."""
    return {a: [f"ip saddr {address(b)} tcp dport {PORT} tcp flags & (syn|ack) == syn reject with tcp reset"]}


def members(r): return [r.metrics(i).get("qring_members") for i in ALL]


def ring(name): return Pods("links-" + name, job("links"), 5, 1000000, ["--http-port", "8080", "--data-port", str(PORT)])


def without_data(r, what, rules, pair, reset_too=False):
    """One fault: starts and ends with a ring of five."""
    clean, since = r.rate(2), {i: r.position(i) for i in ALL}
    cut(rules)
    if reset_too: reset(pair)
    at = time.monotonic()
    r.grows_after(at + 0.5, 1)
    time.sleep(max(0, at + 3 - time.monotonic()))
    rate = r.rate(SECONDS)
    rates = f"{rate:.0f} steps/s instead of {clean:.0f} from 3 s on, for {SECONDS:.0f} s"
    report(42, what, rates, "half")
    check_speed(f"{r.name}: {what}: {rates}; {r.last_lines()}", rate >= clean * SHARE, rate > 0)
    left = [i for i in ALL if r.metrics(i).get("qring_members") == 4]
    # The excluded worker shows its last generation, which may also have had four members: all but
    # the other of the pair.
    check(f"{r.name}: {what}: four continue: {members(r)}", len(left) >= 4)
    log = "".join(r.log(i)[since[i]:] for i in ALL)
    named = any(words in log for words in ("no data received from it", "reports no data from this worker", "no data connection with it"))
    check(f"{r.name}: {what}: the pair is in the logs", named)
    a, b = pair
    metrics = r.metrics(a), r.metrics(b)
    silent = [k for m in metrics for k, v in m.items() if k.startswith("qring_peer_no_data") and v == 1]
    check(f"{r.name}: {what}: the pair is in the metrics: {silent}", silent)  # when one worker has no data with any other, only the first pair noticed
    status = run(*inside(a), QRING, "status", "127.0.0.1:8080", check=False) + run(*inside(b), QRING, "status", "127.0.0.1:8080", check=False)
    check(f"{r.name}: {what}: the pair is in the status:\n{status}", "no data" in status)
    check(f"{r.name}: {what}: no worker has exited; {r.last_lines()}", r.alive() == list(ALL))
    cut({})
    at = time.monotonic()
    good = until(lambda: members(r) == [5] * 5)
    check(f"{r.name}: {what}: all five are members again: {members(r)}; {r.last_lines()}", good)
    figure(42, f"{what}: healed, all five are members", time.monotonic() - at, 10.0)


def run_faults(r, faults):
    with Proxy(*ALL, delay_us=HOP_US):
        if not r.start_all(): return
        check(f"{r.name}: all five are members at the beginning: {members(r)}; {r.last_lines()}", until(lambda: members(r) == [5] * 5))
        for fault in faults: without_data(r, *fault)
    r.settle()
    r.same()


@row(42, timed=True)
def both_ways(): run_faults(ring("both-ways"), [("both ways between 1 and 3", dropped(both(1, 3)), (1, 3))])


@row(42)
def in_turn():
    """Each fault is healed before the next begins; at the end one digest and one log."""
    run_faults(ring("in-turn"), [
        ("one way from 1 to 3", dropped([(1, 3)]), (1, 3)),
        ("one way from 3 to 1", dropped([(3, 1)]), (1, 3)),
        ("both ways between 0 and 2", dropped(both(0, 2)), (0, 2)),
        ("both ways between 0 and 1", dropped(both(0, 1)), (0, 1)),
        ("both ways between 2 and all others", dropped([p for i in ALL if i != 2 for p in both(2, i)]), (0, 2)),
        ("new connections reset between 1 and 3", refused(1, 3), (1, 3), True)])


main()
