#!/usr/bin/python3
"""Row 15: DNS names that are missing, wrong, late or have too many addresses, between two workers;
and a server that caches answers for 30 s."""
import time

from namespaces import Pods, address, certificates, enter, run
from namespaces_dns import Names
from ring import SANITIZED, check, figure, job, main, row, until

enter(nameserver=True)
names = Names()
WRONG_S, EPOCHS, ENDLESS, DEAD = 5.0, 60, 1000000, "10.77.0.99"


class Named(Pods):
    """A ring whose peers are names; all names but worker 0's resolve to their pods."""

    def __init__(self, name, n=2, port=2222, **more):
        peers = [f"{self.of(name, i)}:{port}" for i in range(n)]
        super().__init__(name, job("dns"), n, more.pop("epochs", EPOCHS), peers=peers, **more)
        for i in range(1, n): self.point(i, address(self.at.get(i, i)))

    @staticmethod
    def of(name, i): return f"w{i}.{name}.default.svc"
    def point(self, i, *ips, **more): names.answer[self.of(self.name, i)] = Names.address(*ips, **more)
    def answer_all(self, what):
        for i in range(self.n): names.answer[self.of(self.name, i)] = what
    def formed(self): return all("all-reduce:" in self.log(i) for i in self.worker)


def start_other_job(port, tls):
    """Starts a worker of another job at the reused address and port."""
    peers = [f"{address(2)}:{port}", f"{DEAD}:{port}"]
    r = Pods("other-job-" + ("tls" if tls else "plain"), job("other", seed=7), 2, 10, peers=peers, at={0: 2},
             tls=certificates("other-tls", "ml", "other") if tls else False)
    r.start(0)
    return r


@row(15)
def wrong_answers():
    right = address(0)
    wrong = {  # name -> (answer for WRONG_S, answer afterwards, TLS)
        "nxdomain": (Names.NXDOMAIN, Names.address(right), True),
        "servfail": (Names.SERVFAIL, Names.address(right), False),
        "silence": (Names.SILENCE, Names.address(right), False),
        "stale": (Names.address(DEAD), Names.address(right), True),
        "reused-plain": (Names.address(address(2)), Names.address(right), False),
        "reused-tls": (Names.address(address(2)), Names.address(right), True),
    }
    odd = {  # name -> the right answer in an unusual form, from the start
        "truncated": Names.address(right, truncated=True),
        "slow": Names.address(right, after=5.0),
        "lost": Names.address(right, lost=True),
        "thousand": Names.address(right, *(f"10.77.{i // 250 + 1}.{i % 250 + 1}" for i in range(999))),
    }
    rings = {}
    for k, name in enumerate([*wrong, *odd]):
        rings[name] = r = Named(name, port=2300 + k, tls=name in wrong and wrong[name][2])
        if name in wrong: r.answer_all(wrong[name][0])
        else: names.answer[Named.of(name, 0)] = odd[name]
        if name.startswith("reused"): start_other_job(2300 + k, r.name.endswith("tls"))
    began = time.monotonic()
    for r in rings.values():
        for i in range(2): r.start(i)
    formed = {}
    def look():
        for name, r in rings.items():
            if name not in formed and r.formed(): formed[name] = time.monotonic()
        return len(formed) == len(rings)
    until(lambda: look() and False, began + WRONG_S - time.monotonic(), 0.05)
    for name, (_, then, _) in wrong.items():
        waits = len(rings[name].alive()) == 2 and name not in formed
        check(f"{name}: both workers still wait: {rings[name].last_lines()}", waits)
        names.answer[Named.of(name, 0)] = then
        names.answer[Named.of(name, 1)] = Names.address(address(1))
    corrected = time.monotonic()
    until(look, every=0.02)
    for name, r in rings.items():
        asked = [a for a in names.asked if f".{name}." in a[1]][-8:]
        if not check(f"{name}: the ring forms; {r.last_lines()}; {asked}", name in formed): continue
        if name in wrong: figure(15, f"{name} for {WRONG_S:.0f} s: formed after the right answer", formed[name] - corrected, 5.0)
        else: figure(15, f"{name}: formed", formed[name] - began, 15.0)
        codes = r.wait()
        check(f"{name}: exit codes {codes}; {r.last_lines()}", codes == {0: 0, 1: 0})
        r.same()
    if "lost" in formed:  # libc and then c-ares ask for A and AAAA: with their default of 5 s a try this takes over 10 s
        check(f"lost queries are retried soon: {formed['lost'] - began:.1f} s", formed["lost"] - began < (20 if SANITIZED else 9))
    for kind in ("plain", "tls"):
        text = rings["reused-" + kind].log(1)
        words = "of another job" if kind == "plain" else "rejected"
        check(f"reused-{kind}: the other job is named: {text[-600:]}", words in text or "certificate" in text)


def come_back(i, tls):
    """Worker i disappears with its node (no RST from the old address) and restarts at a new
    address; its name follows later, as endpoints do."""
    r = Named(f"back{i}-" + ("tls" if tls else "plain"), 3, tls=tls, epochs=ENDLESS)
    r.point(0, address(0))
    if not r.start_all(): return
    run("ip", "link", "set", f"v{i}", "down")
    r.kill(i)
    r.worker[i].wait()
    check(f"{r.name}: the others continue", until(lambda: "resumed after step" in r.log(2), every=0.01))
    r.at[i] = 5
    names_lag = 0.5
    r.start(i)
    time.sleep(names_lag)
    r.point(i, address(5))
    at = time.monotonic()
    back = until(lambda: "fetched the state of step" in r.log(i), every=0.01)
    if check(f"{r.name}: worker {i} trains again; {r.last_lines()}", back):
        figure(15, f"worker {i} restarts at a new address, {r.name[6:]}: trains after its name follows", time.monotonic() - at, 3.0)
    codes = r.settle()
    check(f"{r.name}: after SIGTERM all exit with 143, not {codes}; {r.last_lines()}", codes == {0: 143, 1: 143, 2: 143})
    r.same()
    run("ip", "link", "set", f"v{i}", "up")


@row(15)
def cached_lowest_last():
    """Worker 1 starts first; the negative answer to its query for worker 0 is cached for 30 s."""
    r = Named("cached-lowest", port=2400)
    names.cache_seconds[r.name] = 30.0
    r.answer_all(Names.NXDOMAIN)
    r.start(1)
    time.sleep(3)
    r.point(1, address(1))
    r.start(0)
    at = time.monotonic()
    until(lambda: False, 0.5)
    r.point(0, address(0))
    if check(f"{r.name}: the ring forms; {r.last_lines()}", until(r.formed, every=0.02)):
        figure(15, "answers cached for 30 s, lowest index last: formed after its start", time.monotonic() - at, 3.0)
        codes = r.wait()
        check(f"{r.name}: exit codes {codes}; {r.last_lines()}", codes == {0: 0, 1: 0})
        r.same()


@row(15)
def cached_growth():
    """Two train; two more start and query each other before they have names; the negative answers
    are cached for 30 s."""
    r = Named("cached-growth", 4, port=2410, epochs=ENDLESS, flags=["--min-workers", "1", "--form-timeout", "1s"])
    names.cache_seconds[r.name] = 30.0
    for i in (2, 3): names.answer[Named.of(r.name, i)] = Names.NXDOMAIN
    r.point(0, address(0))
    for i in (0, 1): r.start(i)
    check(f"{r.name}: two train; {r.last_lines()}", until(lambda: "over 2 workers" in r.log(0), every=0.02))
    for i in (2, 3): r.start(i)
    at = time.monotonic()
    time.sleep(1)
    for i in (2, 3): r.point(i, address(i))
    grown = until(lambda: "over 4 workers" in r.log(0) or "with 4 workers" in r.log(0), every=0.02)
    if check(f"{r.name}: all four train; {r.last_lines()}", grown):
        figure(15, "answers cached for 30 s, 2 to 4 workers: all train after the start of the new ones", time.monotonic() - at, 8.0)
    r.settle()
    r.same()


def cached_all(tls):
    """All workers query each other before any has a name; all negative answers are cached for 30
    s."""
    r = Named("cached-" + ("tls" if tls else "plain"), 4, port=2420, tls=tls)
    names.cache_seconds[r.name] = 30.0
    r.answer_all(Names.NXDOMAIN)
    for i in range(r.n): r.start(i)
    time.sleep(2)
    check(f"{r.name}: workers 0, 1 and 2 were queried: {names.asked[-8:]}", {a[1].split(".")[0] for a in names.asked if f".{r.name}." in a[1]} >= {"w0", "w1", "w2"})
    for i in range(r.n): r.point(i, address(i))
    at = time.monotonic()
    # A worker that waits for the cache to expire needs 28 s.
    if check(f"{r.name}: the ring forms; {r.last_lines()}", until(r.formed, every=0.02)):
        figure(15, f"answers cached for 30 s, all query too early, {r.name[7:]}: formed after the names exist", time.monotonic() - at, 8.0)
        codes = r.wait()
        check(f"{r.name}: exit codes {codes}; {r.last_lines()}", set(codes.values()) == {0})
        r.same()


@row(15)
def cached_all_plain(): cached_all(False)


@row(15)
def cached_all_tls(): cached_all(True)


@row(15, timed=True)
def leader_comes_back(): come_back(0, True)


@row(15, timed=True)
def middle_comes_back(): come_back(1, False)


main()
