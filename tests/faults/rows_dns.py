#!/usr/bin/python3
"""Row 15: DNS names that are missing, wrong, late or too many, each of two workers asking for the
other; and a server that caches answers for 30 s."""
import time

from namespaces import Pods, address, certificates, enter, run
from namespaces_dns import Names
from ring import SANITIZED, check, figure, job, main, row, until

enter(nameserver=True)
names = Names()
WRONG_S, EPOCHS, ENDLESS, DEAD = 5.0, 60, 1000000, "10.77.0.99"


class Named(Pods):
    """A ring whose workers know each other by name; the names point to their pods, but for worker 0's."""

    def __init__(self, name, n=2, port=2222, **more):
        peers = [f"{self.of(name, i)}:{port}" for i in range(n)]
        super().__init__(name, job("dns"), n, more.pop("epochs", EPOCHS), peers=peers, **more)
        for i in range(1, n): self.point(i, address(self.at.get(i, i)))

    @staticmethod
    def of(name, i): return f"w{i}.{name}.default.svc"
    def point(self, i, *ips, **more): names.answer[self.of(self.name, i)] = Names.address(*ips, **more)
    def lie(self, what):
        for i in range(self.n): names.answer[self.of(self.name, i)] = what
    def formed(self): return all("all-reduce:" in self.log(i) for i in self.worker)


def stranger(port, tls):
    """A worker of another job, which has the address and the port now."""
    peers = [f"{address(2)}:{port}", f"{DEAD}:{port}"]
    r = Pods("stranger-" + ("tls" if tls else "plain"), job("other", seed=7), 2, 10, peers=peers, at={0: 2},
             tls=certificates("other-tls", "ml", "other") if tls else False)
    r.start(0)
    return r


@row(15)
def lies():
    right = address(0)
    wrong = {  # name -> (what is answered for WRONG_S, what then; TLS)
        "nxdomain": (Names.NXDOMAIN, Names.address(right), True),
        "servfail": (Names.SERVFAIL, Names.address(right), False),
        "silence": (Names.SILENCE, Names.address(right), False),
        "stale": (Names.address(DEAD), Names.address(right), True),
        "reused-plain": (Names.address(address(2)), Names.address(right), False),
        "reused-tls": (Names.address(address(2)), Names.address(right), True),
    }
    odd = {  # name -> the right answer in an odd form, from the start
        "truncated": Names.address(right, truncated=True),
        "slow": Names.address(right, after=5.0),
        "lost": Names.address(right, lost=True),
        "thousand": Names.address(right, *(f"10.77.{i // 250 + 1}.{i % 250 + 1}" for i in range(999))),
    }
    rings = {}
    for k, name in enumerate([*wrong, *odd]):
        rings[name] = r = Named(name, port=2300 + k, tls=name in wrong and wrong[name][2])
        if name in wrong: r.lie(wrong[name][0])
        else: names.answer[Named.of(name, 0)] = odd[name]
        if name.startswith("reused"): stranger(2300 + k, r.name.endswith("tls"))
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
        check(f"{name}: nobody has left, nobody has begun: {rings[name].last_lines()}", waits)
        names.answer[Named.of(name, 0)] = then
        names.answer[Named.of(name, 1)] = Names.address(address(1))
    told = time.monotonic()
    until(look, every=0.02)
    for name, r in rings.items():
        asked = [a for a in names.asked if f".{name}." in a[1]][-8:]
        if not check(f"{name}: the ring forms; {r.last_lines()}; {asked}", name in formed): continue
        if name in wrong: figure(15, f"{name} for {WRONG_S:.0f} s: formed after the right answer", formed[name] - told, 5.0)
        else: figure(15, f"{name}: formed", formed[name] - began, 15.0)
        codes = r.wait()
        check(f"{name}: exit codes {codes}; {r.last_lines()}", codes == {0: 0, 1: 0})
        r.same()
    if "lost" in formed:  # by libc and then by c-ares, addresses of both kinds: five seconds a try, as is their custom, would be over ten
        check(f"what was lost is asked again soon: {formed['lost'] - began:.1f} s", formed["lost"] - began < (20 if SANITIZED else 9))
    for kind in ("plain", "tls"):
        text = rings["reused-" + kind].log(1)
        words = "of another job" if kind == "plain" else "rejected"
        check(f"reused-{kind}: the stranger is named: {text[-600:]}", words in text or "certificate" in text)


def come_back(who, tls):
    """Its node is gone with it: nobody at the old address says so. The name follows late, as endpoints do."""
    r = Named(f"back{who}-" + ("tls" if tls else "plain"), 3, tls=tls, epochs=ENDLESS)
    r.point(0, address(0))
    if not r.start_all(): return
    run("ip", "link", "set", f"v{who}", "down")
    r.kill(who)
    r.worker[who].wait()
    check(f"{r.name}: the others go on", until(lambda: "resumed after step" in r.log(2), every=0.01))
    r.at[who] = 5
    names_lag = 0.5
    r.start(who)
    time.sleep(names_lag)
    r.point(who, address(5))
    at = time.monotonic()
    back = until(lambda: "fetched the state of step" in r.log(who), every=0.01)
    if check(f"{r.name}: worker {who} trains again; {r.last_lines()}", back):
        figure(15, f"worker {who} comes back under a new address, {r.name[6:]}: trains after its name follows", time.monotonic() - at, 3.0)
    codes = r.settle()
    check(f"{r.name}: asked to leave they end with 143, not {codes}; {r.last_lines()}", codes == {0: 143, 1: 143, 2: 143})
    r.same()
    run("ip", "link", "set", f"v{who}", "up")


@row(15)
def remembers_lowest():
    """Worker 1 was there first, and its question for worker 0 is answered for 30 s."""
    r = Named("remembers-lowest", port=2400)
    names.remembers[r.name] = 30.0
    r.lie(Names.NXDOMAIN)
    r.start(1)
    time.sleep(3)
    r.point(1, address(1))
    r.start(0)
    at = time.monotonic()
    until(lambda: False, 0.5)
    r.point(0, address(0))
    if check(f"{r.name}: the ring forms; {r.last_lines()}", until(r.formed, every=0.02)):
        figure(15, "a server that remembers for 30 s, the lowest comes last: formed after its start", time.monotonic() - at, 3.0)
        codes = r.wait()
        check(f"{r.name}: exit codes {codes}; {r.last_lines()}", codes == {0: 0, 1: 0})
        r.same()


@row(15)
def remembers_growth():
    """Two train; two more start, and ask for each other before they have names, which is answered for 30 s."""
    r = Named("remembers-growth", 4, port=2410, epochs=ENDLESS, flags=["--min-workers", "1", "--form-timeout", "1s"])
    names.remembers[r.name] = 30.0
    for i in (2, 3): names.answer[Named.of(r.name, i)] = Names.NXDOMAIN
    r.point(0, address(0))
    for i in (0, 1): r.start(i)
    check(f"{r.name}: two train; {r.last_lines()}", until(lambda: "over 2 workers" in r.log(0), every=0.02))
    for i in (2, 3): r.start(i)
    at = time.monotonic()
    time.sleep(1)
    for i in (2, 3): r.point(i, address(i))
    grown = until(lambda: "over 4 workers" in r.log(0) or "with 4 workers" in r.log(0), every=0.02)
    if check(f"{r.name}: all four are in; {r.last_lines()}", grown):
        figure(15, "a server that remembers for 30 s, 2 to 4: all train after the new ones' start", time.monotonic() - at, 8.0)
    r.settle()
    r.same()


def remembers_everybody(tls):
    """Each asks for each before anybody has a name, which is answered for 30 s: nobody knows of anybody."""
    r = Named("remembers-" + ("tls" if tls else "plain"), 4, port=2420, tls=tls)
    names.remembers[r.name] = 30.0
    r.lie(Names.NXDOMAIN)
    for i in range(r.n): r.start(i)
    time.sleep(2)
    check(f"{r.name}: each was asked for: {names.asked[-8:]}", {a[1].split(".")[0] for a in names.asked if f".{r.name}." in a[1]} >= {"w0", "w1", "w2"})
    for i in range(r.n): r.point(i, address(i))
    at = time.monotonic()
    # whoever waits until the server has forgotten needs 28 s
    if check(f"{r.name}: the ring forms; {r.last_lines()}", until(r.formed, every=0.02)):
        figure(15, f"a server that remembers for 30 s, all ask too early, {r.name[10:]}: formed after the names are there", time.monotonic() - at, 8.0)
        codes = r.wait()
        check(f"{r.name}: exit codes {codes}; {r.last_lines()}", set(codes.values()) == {0})
        r.same()


@row(15)
def remembers_everybody_plain(): remembers_everybody(False)


@row(15)
def remembers_everybody_tls(): remembers_everybody(True)


@row(15, timed=True)
def leader_comes_back(): come_back(0, True)


@row(15, timed=True)
def middle_comes_back(): come_back(1, False)


main()
