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


def check_end(r, killed=()):
    """Ends the ring: the workers exit with 143, and the result is that of an undisturbed run."""
    codes = r.settle()
    want = {i: -signal.SIGKILL if i in killed else 143 for i in codes}
    check(f"{r.name}: exit codes {codes}, not {want}", codes == want)
    r.same()
    r.close()


def check_no_change(r, since, what):
    """Checks that no worker has logged a change of the ring or a silent peer since then."""
    for i, at in since.items():
        log = r.log(i)[at:]
        check(f"{r.name}: worker {i} logged no change of the ring: {what}", "resumed after step" not in log and "silent for" not in log)


def positions(r): return {i: r.position(i) for i in r.alive()}


# ---- row 5: SIGSTOP ----

def tls_label(r): return ", TLS" * bool(r.tls)


def freeze(r, i, seconds):
    """Sends SIGSTOP; the worker is named and the others continue. Returns the argument of
    thaw()."""
    since = positions(r)
    watcher = min(set(r.alive()) - {i})
    at = time.monotonic()
    r.kill(i, signal.SIGSTOP)
    named = r.wait_log(watcher, f"worker {i} (", since=since[watcher])
    label = f"SIGSTOP of {'one' if i else 'the leader'}{tls_label(r)}"
    if check(f"{r.name}: worker {watcher} names worker {i}", named is not None): figure(5, f"{label}: named", named, 1.5)
    figure(5, f"{label}: next step", r.grows_after(at), 2.0)
    return at, seconds, since


def thaw(r, i, frozen):
    """Sends SIGCONT when the time is over; the worker rejoins."""
    at, seconds, since = frozen
    time.sleep(max(0, at + seconds - time.monotonic()))
    resumed = time.monotonic()
    r.kill(i, signal.SIGCONT)
    r.joins(i, since[i])
    figure(5, f"SIGCONT after {seconds} s{tls_label(r)}: longest pause until it has rejoined", r.longest_gap(resumed, time.monotonic()), 1.0)


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
        figure(5, "SIGSTOP of 0.2 s: next steps after SIGCONT", r.grows_after(at), 0.5)
    check_no_change(r, since, "SIGSTOP of 0.2 s")
    check_end(r)


@row(5, timed=True)
def frozen():
    """One worker for 10 s (with REPEAT, 60 s in the first repetition only); in that time another
    and the leader for 2 s each. Then the leader of a TLS ring."""
    long = 10 if REPEAT == 1 else 60 if turn[0] == 0 else 0
    r = ring("frozen", 5)
    r.start_all()
    if long: away = freeze(r, 4, long)
    thaw(r, 3, freeze(r, 3, 2))
    thaw(r, 0, freeze(r, 0, 2))
    if long: thaw(r, 4, away)
    check_end(r)
    r = ring("frozen-tls", 4, tls=True)
    r.start_all()
    thaw(r, 0, freeze(r, 0, 2))
    check_end(r)


# ---- row 6: SIGTERM ----

@row(6, timed=True)
def terminated():
    for tls in (False, True):
        r = ring(f"terminated{'-tls' * tls}", 4, tls=tls)
        r.start_all()
        for i, role in ((2, "one"), (0, "the leader")):
            watcher = 1
            since = positions(r)
            at = time.monotonic()
            r.kill(i, signal.SIGTERM)
            out = until(lambda: r.worker[i].poll() is not None, every=0.001)
            took = time.monotonic() - at
            check(f"{r.name}: worker {i} exits with 143, not {r.worker[i].poll()}", out and r.worker[i].returncode == 143)
            figure(6, f"SIGTERM to {role}{', TLS' * tls}: exit", took, 1.0)
            r.grows_after(at + 0.3)
            figure(6, f"SIGTERM to {role}{', TLS' * tls}: pause of the others", r.longest_gap(at, at + 0.3), 0.2)
            check(f"{r.name}: worker {i} is named", r.wait_log(watcher, f"worker {i} (", since=since[watcher]) is not None)
        check_end(r)


# ---- row 7: a pod in a crash loop ----

def steps_a_second(r, seconds):
    had, began = r.lines(), time.monotonic()
    time.sleep(seconds)
    return (r.lines() - had) / (time.monotonic() - began)


@row(7)
def crash_loop():
    """A worker that fails at its start, 100 times or for 10 s, never reaches the ring. One that
    joins and is killed, repeatedly, is admitted after a longer wait each time."""
    r = ring("loop", 3, "--form-timeout", "0.5s")
    for i in (0, 1): r.start(i)
    r.reaches(20)
    before = steps_a_second(r, 1.5)
    since = positions(r)
    codes = []

    def loop():
        command, env, end = r.command(2, "--weights", "nowhere.xyz"), {**os.environ, "TF_CONFIG": r.tf_config(2)}, time.monotonic() + 10
        with open(f"{r.dir}/worker2.log", "a") as log:
            while len(codes) < 100 and time.monotonic() < end:
                codes.append(subprocess.call(["nice", *command], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
    t = threading.Thread(target=loop)
    t.start()
    had, began = r.lines(), time.monotonic()
    t.join()
    took = time.monotonic() - began
    during = (r.lines() - had) / took
    check(f"loop: exit code 2 each time: {set(codes)}", set(codes) == {2})
    check_no_change(r, since, "a process exits repeatedly before it connects")
    report(7, f"crash loop, {len(codes)} exits in {took:.1f} s: throughput of the rest", f"{100 * during / before:.0f} %", "95 %")
    check_speed(f"loop: {during:.0f} steps a second of {before:.0f}", during >= 0.4 * before, during > 0)  # starting the programs takes CPU time

    def start_and_kill():
        w = r.start(2)
        points.arm(w, "qr_group_open_reduction")
        return w
    w, began = None, time.monotonic()
    was, had = r.position(0), r.lines()
    while time.monotonic() < began + 4:
        if w is None or w.poll() is not None: w = start_and_kill()
        time.sleep(0.01)
    joins = r.log(0)[was:].count("with 3 workers")
    during = (r.lines() - had) / (time.monotonic() - began)
    r.kill(2)
    report(7, f"one joins and is killed at once, for {time.monotonic() - began:.1f} s: admissions", joins, 5)
    check_speed(f"loop: back-off grows: admitted {joins} times", 2 <= joins <= 6, 1 <= joins <= 6)
    report(7, "one joins and is killed at once: throughput of the rest", f"{100 * during / before:.0f} %", "95 %")
    check_end(r, [2])


# ---- rows 16, 17: late pods, resizing ----

@row(16, timed=True)
def far_apart():
    r = Ring("apart", job("apart"), 3, ENDLESS)
    for i in (2, 0):
        r.start(i)
        time.sleep(0.5)
    check("apart: training does not begin before all have started", r.lines() == 0)
    at = time.monotonic()
    r.start(1)
    figure(16, "pods start 0.5 s apart: first step after the last one's start", r.grows_after(at, 1), 1.0)
    since = positions(r)
    time.sleep(0.5)
    check_no_change(r, since, "formed once")
    check_end(r)
    r = Ring("later", job("apart"), 4, ENDLESS, ["--form-timeout", "1.5s", "--min-workers", "2"])
    at = time.monotonic()
    for i in (3, 1): r.start(i)
    figure(16, "two of four, form timeout of 1.5 s: first step", r.grows_after(at, 1), 2.5)
    for i in (0, 2):
        at = time.monotonic()
        r.start(i)
        figure(16, "a late worker joins", r.joins(i), 1.0)
        figure(16, "a late worker joins: longest pause", r.longest_gap(at, time.monotonic()), 1.0)
    check_end(r)


@row(17, timed=True)
def resize():
    """2, 8, 3, 1, 5 workers. The first two keep their list of two peers; a restarted worker has a
    new address. Over TLS fewer: handshakes among eight take two processors most of a second."""
    for tls in (False, True):
        r = ring(f"resize{'-tls' * tls}", 2, tls=tls)
        r.start_all()
        size = 2
        for n in (4, 1, 3) if tls else (8, 3, 1, 5):
            at, gone, new = time.monotonic(), range(n, size), range(size, n)
            r.peers = r.peers[:min(size, n)] + [f"127.0.0.1:{p}" for p in free_ports(len(new))]
            for i in gone: r.kill(i, signal.SIGTERM)
            for i in gone: r.worker.pop(i).wait()
            since = {i: r.position(i) for i in new}
            for i in new: r.start(i)
            for i in new: r.joins(i, since[i])
            r.grows_after(time.monotonic() + 0.1)
            figure(17, f"{size} to {n} workers{', TLS' * tls}: longest pause", r.longest_gap(at, time.monotonic()), 1.0)
            size = n
        check_end(r)


# ---- row 19: duplicate index ----

@row(19, timed=True)
def doubles():
    """The later claim wins: the older process exits with a code that does not fail a Job."""
    r = ring("double", 2)
    r.start_all()
    older, since = r.worker[1], positions(r)
    r.peers = [r.peers[0], f"127.0.0.1:{free_ports(1)[0]}"]
    at = time.monotonic()
    newer = r.start(1)
    until(lambda: older.poll() is not None, every=0.001)
    figure(19, "a second process claims index 1: exit of the older one", time.monotonic() - at, 1.5)
    check(f"double: the older one exits with 138, not {older.poll()}", older.poll() == 138)
    r.joins(1, since[1])
    figure(19, "a second process claims index 1: longest pause", r.longest_gap(at, time.monotonic()), 1.5)
    check("double: the newer one continues", newer.poll() is None)
    check("double: the older one logs the reason", "another process claimed index 1" in r.log(1))
    check_end(r)


# ---- row 20: wall clock ----

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

    def jump(indexes, seconds):
        for i in indexes:
            with open(f"{r.dir}/clock{i}", "r+b") as f: f.write(seconds.to_bytes(8, "little", signed=True))
        at = time.monotonic()
        time.sleep(0.7)
        r.grows_after(time.monotonic())
        figure(20, f"the clock of {'all' if len(indexes) > 1 else 'one'} jumps: longest pause", r.longest_gap(at, time.monotonic()), 0.5)
    for indexes, seconds in (((2,), 3600), ((2,), -3600), (range(4), 3600), (range(4), -3600), (range(4), 0)): jump(indexes, seconds)
    check_no_change(r, since, "the clock jumps by an hour")
    report(20, "the clock jumps by an hour, forward and back, five times: ejections", 0, 0)
    latest = max(re.findall(r'"time":"([^"]{19})', r.log(0)))
    check(f"clock: the worker's log shows the later time: {latest}", latest > time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 3000)))
    check_end(r)


main()
