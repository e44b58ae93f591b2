#!/usr/bin/python3
"""Rows that stop, terminate and duplicate processes: SIGSTOP, SIGTERM, crash loops, late pods,
resizing, duplicate indexes, clocks."""
import os, re, signal, subprocess, threading, time

import points
from ring import REPEAT, Ring, WORK, certs, check, check_speed, figure, free_ports, job, main, report, row, turn, until

ENDLESS = 1000000  # epochs: the row ends the ring when it has seen enough


def ring(name, n, *flags, tls=False, j=None):
    j = j or job(name)
    return Ring(name, j, n, ENDLESS, ["--min-workers", "1", *flags], tls=certs(j) if tls else None)


def whole(r, killed=()):
    """All that were there to the end leave well when they are asked, and the bits are those of an undisturbed run."""
    codes = r.settle()
    want = {i: -signal.SIGKILL if i in killed else 143 for i in codes}
    check(f"{r.name}: exit codes {codes}, not {want}", codes == want)
    r.same()
    r.close()


def quiet(r, since, what):
    """Nobody was put out of the ring since then."""
    for i, at in since.items():
        words = r.log(i)[at:]
        check(f"{r.name}: worker {i} saw no change of the ring: {what}", "resumed after step" not in words and "silent for" not in words)


def positions(r): return {i: r.position(i) for i in r.alive()}


# ---- row 5: frozen ----

def word(r): return ", TLS" * bool(r.tls)


def freeze(r, i, seconds):
    """SIGSTOP: named, and the others go on."""
    since = positions(r)
    watcher = min(set(r.alive()) - {i})
    at = time.monotonic()
    r.kill(i, signal.SIGSTOP)
    named = r.wait_log(watcher, f"worker {i} (", since=since[watcher])
    who = f"SIGSTOP of {'one' if i else 'the leader'}{word(r)}"
    if check(f"{r.name}: worker {watcher} names worker {i}", named is not None): figure(5, f"{who}: named", named, 1.5)
    figure(5, f"{who}: next step", r.grows_after(at), 2.0)
    return at, seconds, since


def thaw(r, i, frozen):
    """SIGCONT when its time is over: it comes back."""
    at, seconds, since = frozen
    time.sleep(max(0, at + seconds - time.monotonic()))
    wakes = time.monotonic()
    r.kill(i, signal.SIGCONT)
    r.joins(i, since[i])
    figure(5, f"SIGCONT after {seconds} s{word(r)}: longest pause until it is back", r.longest_gap(wakes, time.monotonic()), 1.0)


@row(5, timed=True)
def frozen_shortly():
    r = ring("blink", 4)
    r.start_all()
    since = positions(r)
    for i in (3, 0):
        r.kill(i, signal.SIGSTOP)
        time.sleep(0.2)
        at = time.monotonic()
        r.kill(i, signal.SIGCONT)
        figure(5, "SIGSTOP of 0.2 s: goes on after SIGCONT", r.grows_after(at), 0.5)
    quiet(r, since, "SIGSTOP of 0.2 s")
    whole(r)


@row(5, timed=True)
def frozen():
    """One for 10 s (of many repetitions only the first: 60 s), meanwhile another and the leader for 2 s each; over TLS one."""
    long = 10 if REPEAT == 1 else 60 if turn[0] == 0 else 0
    r = ring("frozen", 5)
    r.start_all()
    if long: away = freeze(r, 4, long)
    thaw(r, 3, freeze(r, 3, 2))
    thaw(r, 0, freeze(r, 0, 2))
    if long: thaw(r, 4, away)
    whole(r)
    r = ring("frozen-tls", 4, tls=True)
    r.start_all()
    thaw(r, 0, freeze(r, 0, 2))
    whole(r)


# ---- row 6: asked to leave ----

@row(6, timed=True)
def asked_to_leave():
    for tls in (False, True):
        r = ring(f"asked{'-tls' * tls}", 4, tls=tls)
        r.start_all()
        for i, who in ((2, "one"), (0, "the leader")):
            watcher = 1
            since = positions(r)
            at = time.monotonic()
            r.kill(i, signal.SIGTERM)
            out = until(lambda: r.worker[i].poll() is not None, every=0.001)
            took = time.monotonic() - at
            check(f"{r.name}: worker {i} ends with 143, not {r.worker[i].poll()}", out and r.worker[i].returncode == 143)
            figure(6, f"SIGTERM to {who}{', TLS' * tls}: out", took, 1.0)
            r.grows_after(at + 0.3)
            figure(6, f"SIGTERM to {who}{', TLS' * tls}: the others stall", r.longest_gap(at, at + 0.3), 0.2)
            check(f"{r.name}: who left is named", r.wait_log(watcher, f"worker {i} (", since=since[watcher]) is not None)
        whole(r)


# ---- row 7: a pod in a crash loop ----

def steps_a_second(r, seconds):
    had, began = r.lines(), time.monotonic()
    time.sleep(seconds)
    return (r.lines() - had) / (time.monotonic() - began)


@row(7)
def crash_loop():
    """One that ends at its start, 100 times (at most 10 s long): it never gets as far as the ring. One that comes in and dies, again and
    again: it has to wait longer each time."""
    r = ring("loop", 3, "--form-timeout", "0.5s")
    for i in (0, 1): r.start(i)
    r.reaches(20)
    before = steps_a_second(r, 1.5)
    since = positions(r)
    ends = []

    def loop():
        command, env, end = r.command(2, "--weights", "nowhere.xyz"), {**os.environ, "TF_CONFIG": r.tf_config(2)}, time.monotonic() + 10
        with open(f"{r.dir}/worker2.log", "a") as log:
            while len(ends) < 100 and time.monotonic() < end:
                ends.append(subprocess.call(["nice", *command], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
    t = threading.Thread(target=loop)
    t.start()
    had, began = r.lines(), time.monotonic()
    t.join()
    took = time.monotonic() - began
    during = (r.lines() - had) / took
    check(f"loop: it ended with 2 each time: {set(ends)}", set(ends) == {2})
    quiet(r, since, "a process ended again and again before it said anything")
    report(7, f"crash loop, {len(ends)} ends in {took:.1f} s: throughput of the rest", f"{100 * during / before:.0f} %", "95 %")
    check_speed(f"loop: {during:.0f} steps a second of {before:.0f}", during >= 0.4 * before, during > 0)  # the programs' starts take their part

    def come_and_die():
        w = r.start(2)
        points.arm(w, "qr_group_open_reduction")
        return w
    w, began = None, time.monotonic()
    was, had = r.position(0), r.lines()
    while time.monotonic() < began + 4:
        if w is None or w.poll() is not None: w = come_and_die()
        time.sleep(0.01)
    joins = r.log(0)[was:].count("with 3 workers")
    during = (r.lines() - had) / (time.monotonic() - began)
    r.kill(2)
    report(7, f"one comes in and dies at once, for {time.monotonic() - began:.1f} s: times that it was let in", joins, 5)
    check_speed(f"loop: back-off grows: let in {joins} times", 2 <= joins <= 6, 1 <= joins <= 6)
    report(7, "meanwhile: throughput of the rest", f"{100 * during / before:.0f} %", "95 %")
    whole(r, [2])


# ---- rows 16, 17: pods that come late, and come and go ----

@row(16, timed=True)
def far_apart():
    r = Ring("apart", job("apart"), 3, ENDLESS)
    for i in (2, 0):
        r.start(i)
        time.sleep(0.5)
    check("apart: nobody begins before all are there", r.lines() == 0)
    at = time.monotonic()
    r.start(1)
    figure(16, "pods start 0.5 s apart: first step after the last one's start", r.grows_after(at, 1), 1.0)
    since = positions(r)
    time.sleep(0.5)
    quiet(r, since, "formed once")
    whole(r)
    r = Ring("later", job("apart"), 4, ENDLESS, ["--form-timeout", "1.5s", "--min-workers", "2"])
    at = time.monotonic()
    for i in (3, 1): r.start(i)
    figure(16, "two of four, form timeout of 1.5 s: first step", r.grows_after(at, 1), 2.5)
    for i in (0, 2):
        at = time.monotonic()
        r.start(i)
        figure(16, "a late one works with the others", r.joins(i), 1.0)
        figure(16, "a late one comes: longest pause", r.longest_gap(at, time.monotonic()), 1.0)
    whole(r)


@row(17, timed=True)
def resize():
    """2, 8, 3, 1, 5 workers. The two that began know of two names for ever; who comes again has another address. Fewer over TLS: the
    handshakes of eight with each other are most of a second's work for two processors."""
    for tls in (False, True):
        r = ring(f"resize{'-tls' * tls}", 2, tls=tls)
        r.start_all()
        here = 2
        for n in (4, 1, 3) if tls else (8, 3, 1, 5):
            at, gone, new = time.monotonic(), range(n, here), range(here, n)
            r.peers = r.peers[:min(here, n)] + [f"127.0.0.1:{p}" for p in free_ports(len(new))]
            for i in gone: r.kill(i, signal.SIGTERM)
            for i in gone: r.worker.pop(i).wait()
            since = {i: r.position(i) for i in new}
            for i in new: r.start(i)
            for i in new: r.joins(i, since[i])
            r.grows_after(time.monotonic() + 0.1)
            figure(17, f"{here} to {n} workers{', TLS' * tls}: longest pause", r.longest_gap(at, time.monotonic()), 1.0)
            here = n
        whole(r)


# ---- row 19: two of one index ----

@row(19, timed=True)
def doubles():
    """The later claim wins: the older process ends, with the code that does not fail a job."""
    r = ring("double", 2)
    r.start_all()
    older, since = r.worker[1], positions(r)
    r.peers = [r.peers[0], f"127.0.0.1:{free_ports(1)[0]}"]
    at = time.monotonic()
    newer = r.start(1)
    until(lambda: older.poll() is not None, every=0.001)
    figure(19, "a second process claims index 1: the older one is out", time.monotonic() - at, 1.5)
    check(f"double: the older one ends with 138, not {older.poll()}", older.poll() == 138)
    r.joins(1, since[1])
    figure(19, "a second process claims index 1: longest pause", r.longest_gap(at, time.monotonic()), 1.5)
    check("double: the newer one works on", newer.poll() is None)
    check("double: it is told why", "another process claimed index 1" in r.log(1))
    whole(r)


# ---- row 20: the clock ----

CLOCK = r"""
#include <stdint.h>
#include <sys/time.h>
#include <time.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static const volatile int64_t *ahead;
__attribute__((constructor)) static void begin(void) {
    int fd = open(getenv("CLOCK_FILE"), O_RDONLY);
    ahead = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);
}
int clock_gettime(clockid_t c, struct timespec *t) {
    long rc = syscall(SYS_clock_gettime, c, t);
    if (rc == 0 && (c == CLOCK_REALTIME || c == CLOCK_REALTIME_COARSE) && ahead) t->tv_sec += *ahead;
    return (int)rc;
}
int gettimeofday(struct timeval *t, void *zone) {
    struct timespec s;
    (void)zone;
    int rc = clock_gettime(CLOCK_REALTIME, &s);
    *t = (struct timeval){.tv_sec = s.tv_sec, .tv_usec = s.tv_nsec / 1000};
    return rc;
}
time_t time(time_t *t) {
    struct timespec s;
    clock_gettime(CLOCK_REALTIME, &s);
    return t ? *t = s.tv_sec : s.tv_sec;
}
"""


@row(20)
def clock_jumps():
    """The wall clock of one worker, then of all, jumps by an hour and back."""
    library, j = f"{WORK}/clock.so", job("clock")
    made = subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-x", "c", "-o", library, "-"], input=CLOCK, text=True, capture_output=True)
    if not check(f"clock: {made.stderr}", made.returncode == 0): return
    r = ring("clock", 4, tls=True, j=j)
    for i in range(4):
        with open(f"{r.dir}/clock{i}", "wb") as f: f.write(bytes(8))
        r.start(i, env={"LD_PRELOAD": library, "CLOCK_FILE": f"{r.dir}/clock{i}",
                        "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"})
    r.reaches(20)
    since = positions(r)

    def jump(who, seconds):
        for i in who:
            with open(f"{r.dir}/clock{i}", "r+b") as f: f.write(seconds.to_bytes(8, "little", signed=True))
        at = time.monotonic()
        time.sleep(0.7)
        r.grows_after(time.monotonic())
        figure(20, f"the clock of {'all' if len(who) > 1 else 'one'} jumps: longest pause", r.longest_gap(at, time.monotonic()), 0.5)
    for who, seconds in (((2,), 3600), ((2,), -3600), (range(4), 3600), (range(4), -3600), (range(4), 0)): jump(who, seconds)
    quiet(r, since, "the clock jumps by an hour")
    report(20, "the clock jumps by an hour, forth and back, five times: ejections", 0, 0)
    said = max(re.findall(r'"time":"([^"]{19})', r.log(0)))
    check(f"clock: the worker believed that it was later: {said}", said > time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 3000)))
    whole(r)


main()
