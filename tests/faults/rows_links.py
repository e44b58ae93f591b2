#!/usr/bin/python3
"""Row 42: links whose control port works and whose data port does not. Five workers; two of them
pass no data to each other (both ways, one way, at the leader, new connections reset), or one
passes none to any other. Training continues without one of the two, at half the rate or more from
3 s on; both are named; after healing all five are members within 10 s. DROP_SECONDS=100 drops for
100 s instead of six. A frame takes HOP_US to the next pod, so rates depend on waiting and not on
the load of the machine."""
import os, time

from namespaces import Pods, Proxy, address, cut, enter, inside, reset, run
from ring import QRING, check, check_speed, figure, job, main, report, row, until

enter()
ALL = (0, 1, 2, 3, 4)
SECONDS = float(os.environ.get("DROP_SECONDS", "6"))
PORT, HOP_US = 2224, 1000
SHARE = 0.5 if SECONDS >= 30 else 0.25  # of the undisturbed rate: seconds beside other programs say less than minutes


def from_data_port(a, b):
    """What pod b does with what comes from pod a on data connections, whoever dialed."""
    return [f"ip saddr {address(a)} tcp dport {PORT} drop", f"ip saddr {address(a)} tcp sport {PORT} drop"]


def dropped(pairs):
    rules = {}
    for a, b in pairs: rules.setdefault(b, []).extend(from_data_port(a, b))
    return rules


def both(a, b): return [(a, b), (b, a)]


def refused(a, b):
    """New data connections are reset; the higher one dials."""
    return {a: [f"ip saddr {address(b)} tcp dport {PORT} tcp flags & (syn|ack) == syn reject with tcp reset"]}


def members(r): return [r.metrics(i).get("qring_members") for i in ALL]


def ring(name): return Pods("links-" + name, job("links"), 5, 1000000, ["--http-port", "8080", "--data-port", str(PORT)])


def without_data(r, what, rules, pair, reset_too=False):
    """One fault, from a ring of five to a ring of five."""
    clean, since = r.rate(2), {i: r.position(i) for i in ALL}
    cut(rules)
    if reset_too: reset(pair)
    at = time.monotonic()
    r.grows_after(at + 0.5, 1)
    time.sleep(max(0, at + 3 - time.monotonic()))
    rate = r.rate(SECONDS)
    said = f"{rate:.0f} steps/s instead of {clean:.0f} from 3 s on, for {SECONDS:.0f} s"
    report(42, what, said, "half")
    check_speed(f"{r.name}: {what}: {said}; {r.last_lines()}", rate >= clean * SHARE, rate > 0)
    left = [i for i in ALL if r.metrics(i).get("qring_members") == 4]
    # the one that is left out shows its last generation, which may have had four members too, without the other of the pair
    check(f"{r.name}: {what}: four of them go on: {members(r)}", len(left) >= 4)
    log = "".join(r.log(i)[since[i]:] for i in ALL)
    named = any(words in log for words in ("no data received from it", "reports no data from this worker", "no data connection with it"))
    check(f"{r.name}: {what}: the pair is in the logs", named)
    a, b = pair
    metrics = r.metrics(a), r.metrics(b)
    silent = [k for m in metrics for k, v in m.items() if k.startswith("qring_peer_no_data") and v == 1]
    check(f"{r.name}: {what}: the pair is in the metrics: {silent}", silent)  # of one with all, the first that was noticed
    status = run(*inside(a), QRING, "status", "127.0.0.1:8080", check=False) + run(*inside(b), QRING, "status", "127.0.0.1:8080", check=False)
    check(f"{r.name}: {what}: the pair is in the status:\n{status}", "no data" in status)
    check(f"{r.name}: {what}: nobody has left; {r.last_lines()}", r.alive() == list(ALL))
    cut({})
    at = time.monotonic()
    good = until(lambda: members(r) == [5] * 5)
    check(f"{r.name}: {what}: all five are members again: {members(r)}; {r.last_lines()}", good)
    figure(42, f"{what}: healed, all five again", time.monotonic() - at, 10.0)


def one_after_the_other(r, faults):
    with Proxy(*ALL, delay_us=HOP_US):
        if not r.start_all(): return
        check(f"{r.name}: all five at the beginning: {members(r)}; {r.last_lines()}", until(lambda: members(r) == [5] * 5))
        for fault in faults: without_data(r, *fault)
    r.settle()
    r.same()


@row(42, timed=True)
def both_ways(): one_after_the_other(ring("both-ways"), [("both ways between 1 and 3", dropped(both(1, 3)), (1, 3))])


@row(42)
def in_turn():
    """Each is healed before the next begins; the five have one history, and in the end one digest."""
    one_after_the_other(ring("in-turn"), [
        ("one way from 1 to 3", dropped([(1, 3)]), (1, 3)),
        ("one way from 3 to 1", dropped([(3, 1)]), (1, 3)),
        ("both ways between 0 and 2", dropped(both(0, 2)), (0, 2)),
        ("both ways between 0 and 1", dropped(both(0, 1)), (0, 1)),
        ("both ways between 2 and all", dropped([p for i in ALL if i != 2 for p in both(2, i)]), (0, 2)),
        ("new connections reset between 1 and 3", refused(1, 3), (1, 3), True)])


main()
