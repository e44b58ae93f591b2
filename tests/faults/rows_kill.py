#!/usr/bin/python3
"""Rows that kill processes: at named points of a step, the leader, several at once, all, at the
very end."""
import re, signal, time

import points
from ring import REPEAT, Ring, certs, check, figure, job, main, report, row, turn, until

ENDLESS = 1000000  # epochs: the row ends the ring when it has seen enough

# ---- row 1: a worker dies as it enters a function ----

# what it is about to do, the function, who dies: "one" that follows, or the "leader"
STEP = [
    ("opening a reduction", "qr_group_open_reduction", "one"),
    ("taking a micro-batch", "qr_group_take_micro_batch", "one"),
    ("computing a micro-batch", "qr_model_put_micro_batch", "one"),
    ("starting the reduction", "qr_mesh_reduce", "one"),
    ("sending a chunk", "qr_chunk_encode", "one"),
    ("taking a chunk", "qr_reduction_message", "one"),
    ("checking the sum", "qr_reduction_check", "one"),
    ("updating the weights", "qr_optimizer_part", "one"),
    ("applying it", "qr_group_apply", "one"),
    ("between applying and reporting", "qr_group_set_speeds", "one"),
    ("reporting", "train_report", "one"),
    ("handing the state to the publisher", "qr_publisher_committed", "one"),
    ("making the new state the present one", "train_swap", "one"),
    ("a heartbeat", "member_heartbeats", "one"),
    ("taking a micro-batch", "qr_group_take_micro_batch", "leader"),
    ("computing a micro-batch", "qr_model_put_micro_batch", "leader"),
    ("sending a chunk", "qr_chunk_encode", "leader"),
    ("checking the sum", "qr_reduction_check", "leader"),
    ("applying it", "qr_group_apply", "leader"),
    ("between applying and reporting", "qr_group_set_speeds", "leader"),
    ("writing a line of steps.jsonl", "qr_steps_log_write", "leader"),
    ("in the lock of steps.jsonl", "qr_step_json", "leader"),
    ("making the new state the present one", "train_swap", "leader"),
    ("writing a checkpoint", "qr_checkpoint_save", "leader"),
    ("between a checkpoint and LATEST", "qr_checkpoint_latest_encode", "leader"),
]
# the same while the ring changes because another one died
CHANGE = [
    ("noticing a death", "member_peer_lost", "one"),
    ("ending its generation", "batch_queue_freeze", "one"),
    ("asked for a promise", "member_on_propose", "one"),
    ("promised, the Begin has come", "member_on_begin", "one"),
    ("beginning", "batch_queue_begin", "one"),
    ("connecting", "qr_mesh_form", "one"),
    ("ending its generation", "batch_queue_freeze", "leader"),
    ("having the promises", "member_on_promise", "leader"),
    ("sending Begin", "member_propose.c:propose_begin", "leader"),
    ("connecting", "qr_mesh_form", "leader"),
]


def ring(name, j, n, epochs, *flags, tls=False):
    return Ring(name, j, n, epochs, ["--min-workers", "1", *flags], tls=certs(j) if tls else None)


def die_at(r, i, what, function, **more):
    """Worker i dies as it enters the function; the time. None when it never did, or otherwise."""
    w = r.worker[i]
    points.arm(w, function, **more)
    return dead(r, i, f"{what} ({function})")


def dead(r, i, what):
    w = r.worker[i]
    good, at = until(lambda: w.poll() is not None, every=0.0005), time.monotonic()
    check(f"{r.name}: worker {i} comes to the point: {what}; {r.last_lines()}", good)
    return at if check(f"{r.name}: worker {i} dies there of SIGKILL, not {w.poll()}: {what}", w.poll() == -signal.SIGKILL) else None


def whole(r, killed):
    """The others end well when they are asked, and the bits are those of an undisturbed run."""
    codes = r.settle()
    want = {i: -signal.SIGKILL if i in killed else 143 for i in codes}
    check(f"{r.name}: exit codes {codes}, not {want}", codes == want)
    r.same()
    r.close()


def word(tls):
    """For figures that have TLS by turns."""
    return ", plain and TLS by turns" if REPEAT > 1 else ", TLS" * tls


def rounds(all_, n):
    """(number, over TLS?, points) of each ring. Of many repetitions each does a fourth, and the figures are one."""
    for k, i in enumerate(range(0, len(all_), n)):
        if REPEAT == 1 or (k + turn[0]) % 4 == 0: yield k, (k + turn[0] // 4) % 2 == 1, all_[i:i + n]


def point(what, more, tls): return f"SIGKILL {what if REPEAT == 1 else 'at a point'}{more}{word(tls)}: next step"


@row(1, timed=True)
def points_of_a_step():
    j = job("points", micro_batch_size=4)  # so that each of six has a micro-batch
    for k, tls, some in rounds(STEP, 5):
        r = ring(f"points{k}", j, 6, ENDLESS, "--checkpoint-interval", "0s", "--checkpoint-steps", "20", tls=tls)
        r.start_all()
        killed = []
        for what, function, who in some:
            killed.append(min(r.alive()) if who == "leader" else max(r.alive()))
            at = die_at(r, killed[-1], what, function)
            if at: figure(1, point(f"of {who}, {what}", "", tls), r.grows_after(at), 1.0)
        whole(r, killed)


@row(1, timed=True)
def points_of_a_change():
    for k, tls, some in rounds(CHANGE, 2):
        r = ring(f"changes{k}", job("changes"), 6, ENDLESS, tls=tls)
        r.start_all()
        killed = []
        for what, function, who in some:
            i = min(r.alive()) if who == "leader" else max(r.alive())
            first = sorted(set(r.alive()) - {i})[len(r.alive()) // 2]
            points.arm(r.worker[i], function)
            r.kill(first)
            at = dead(r, i, f"{what} ({function})")
            killed += [first, i]
            if at: figure(1, point(f"of {who}, {what}", ", another is dead", tls), r.grows_after(at), 1.0)
        whole(r, killed)


@row(1, timed=True)
def points_of_a_return():
    """The one that comes back dies while it fetches the state; one that gives it, while it does."""
    tls = turn[0] % 2 == 1
    r = ring("return", job("return"), 5, ENDLESS, tls=tls)
    r.start_all()
    r.kill(4)
    r.grows_after(time.monotonic())
    points.replaced("qr_mesh_fetch")  # looked up before the newcomer is under way
    points.arm(r.start(4), "qr_mesh_fetch")
    at = dead(r, 4, "fetching the state (qr_mesh_fetch)")
    if at: figure(1, f"SIGKILL of one, fetching the state{word(tls)}: next step", r.grows_after(at), 1.0)
    for i in range(4): points.arm(r.worker[i], "qr_mesh_give")  # the lowest of those that have the newest state gives it
    r.start(4)
    gone = lambda: [i for i in range(4) if r.worker[i].poll() is not None]
    there, at = until(gone, every=0.0005), time.monotonic()
    check(f"return: one dies as it gives the state; {r.last_lines()}", there)
    for i in set(range(4)) - set(gone()): points.disarm(r.worker[i], "qr_mesh_give")
    figure(1, f"SIGKILL of one, giving the state{word(tls)}: next step", r.grows_after(at), 1.0)
    if len(gone()) < 4: r.joins(4)  # else the newcomer is the last
    whole(r, gone())


@row(1)
def freeze_at_points():
    """SIGSTOP there instead, for as long as the others need to go on without it; then it wakes and changes nothing."""
    r = ring("frozen", job("frozen"), 4, ENDLESS)
    r.start_all()
    for who, what, function in ((3, "starting the reduction", "qr_mesh_reduce"), (2, "promised, the Begin has come", "member_on_begin"),
                                (1, "applying", "qr_group_apply"), (0, "in the lock of steps.jsonl", "qr_step_json")):
        w = r.worker[who]
        points.arm(w, function, signal.SIGSTOP)
        if "Begin" in what: r.kill(3)
        there, at = until(lambda: points.is_stopped(w), every=0.001), time.monotonic()
        check(f"frozen: worker {who} comes to {function}", there)
        figure(1, f"SIGSTOP, {what}: the others go on", r.grows_after(at, 5), 2.0)
        was = r.position(who)
        points.disarm(w, function)
        r.joins(who, was)
    whole(r, [3])


# ---- rows 2, 3, 4 ----

@row(2, timed=True)
def kill_the_leader():
    for tls in (False, True):
        r = ring(f"leader{'-tls' * tls}", job("leader"), 4, ENDLESS, tls=tls)
        r.start_all()
        at = time.monotonic()
        r.kill(0)
        figure(2, f"SIGKILL of worker 0{', TLS' * tls}: next step", r.grows_after(at), 1.0)
        for i in r.alive(): check(f"{r.name}: worker {i} names it; {r.last_lines()}", r.wait_log(i, "worker 0 (") is not None)
        whole(r, [0])


@row(3, timed=True)
def kill_many():
    for k, killed in ((1, [3]), (2, [0, 2]), (3, [0, 1, 4]), (4, [0, 1, 2, 4])):
        tls, back = k % 2 == turn[0] % 2, k % 2 == 0
        r = ring(f"many{k}", job("many"), 5, ENDLESS, tls=tls)
        r.start_all()
        at = time.monotonic()
        for i in killed: r.kill(i)
        figure(3, f"SIGKILL of {k} of 5{word(tls)}: next step", r.grows_after(at), 1.0 if k == 4 else 2.0)
        if back:
            at = time.monotonic()
            for i in killed: r.start(i)
            for i in killed: r.joins(i)
            figure(3, f"{k} come back{word(tls)}: longest pause", r.longest_gap(at, time.monotonic()), 1.0)
        whole(r, [] if back else killed)


@row(3)
def kill_below_the_least():
    """Fewer than are needed: they wait, bounded, and end with "please retry", naming who is missing."""
    r = Ring("least", job("many"), 4, ENDLESS, ["--min-workers", "3", "--form-timeout", "2s"])
    r.start_all()
    at = time.monotonic()
    r.kill(2)
    figure(3, "SIGKILL, as many as are needed are left: next step", r.grows_after(at), 2.0)
    at = time.monotonic()
    r.kill(1)
    codes = r.wait()
    figure(3, "SIGKILL below min_workers: they end with 138 after the form timeout of 2 s", time.monotonic() - at, 3.0)
    check(f"least: exit codes {codes}", codes == {0: 138, 1: -9, 2: -9, 3: 138})
    check("least: it says who is missing", re.search(r"worker 1 .*did not answer \(2 of 4 present, 3 needed\)", r.log(0)))


@row(4)
def kill_all():
    every = 0.3
    r = Ring("all", job("all"), 4, ENDLESS, ["--checkpoint-interval", f"{every}s", "--checkpoint-steps", "1"])
    r.start_all()
    for again in range(2):
        had, began = r.lines(), time.monotonic()
        time.sleep(1.0)
        lines = r.lines()
        rate = (lines - had) / (time.monotonic() - began)
        for i in r.alive(): r.kill(i)
        for i in range(4): r.worker[i].wait()
        lines, was = r.lines(), r.position(0)
        for i in range(4): r.start(i)
        check(f"all: worker 0 says where it goes on from; {r.last_lines()}", r.wait_log(0, "resuming from step", since=was) is not None)
        found = re.findall(r"resuming from step (\d+)", r.log(0)[was:])
        if not found: break
        lost = max(0, lines // 2 - int(found[0]))  # a line for each step, one for each epoch, which has one step
        report(4, f"SIGKILL of all, time {again + 1}: steps since the checkpoint that the next start goes on from, of {lines // 2}", lost,
               f"{every} s, or {rate / 2 * every:.0f} steps")
        figure(4, "SIGKILL of all: lost of the run", lost * 2 / rate, every + 0.2)
        if not r.reaches(lines + 20): break
    whole(r, [])


# ---- row 40: the last step ----

# who dies, where; of three workers
END = [
    (2, "opening the closing reduction", "qr_group_open_reduction", True),
    (0, "opening the closing reduction", "qr_group_open_reduction", True),
    (2, "in the done vote, waiting for the end", "qr_group_done", False),
    (0, "done vote passed, writing nothing yet", "qr_outputs_write", False),
    (0, "between the two weights' files", "qr_weights_encode", False),
    (0, "writing result.json", "qr_result_json", False),
    (0, "the last checkpoint, not marked as done", "qr_publisher_finish", False),
    (0, "everything written, Done not sent", "qr_group_done", False),
    (0, "everybody told", "qr_group_close", False),
    (2, "told that all is done", "qr_group_close", False),
]


@row(40)
def the_last_step():
    for k, (i, what, function, closing) in enumerate(END):
        r = ring(f"end{k}", job("end"), 3, 60, tls=k % 2 == 1)
        r.start_all(2)
        at = die_at(r, i, what, function, closing=closing)
        codes = r.wait()
        check(f"{r.name}: exit codes {codes}; {r.last_lines()}", codes == {w: -signal.SIGKILL if w == i else 0 for w in range(3)})
        if at: figure(40, f"SIGKILL of worker {i}, {what}: the others out with 0", time.monotonic() - at, 5.0)
        if r.same_weights() and function == "qr_weights_encode":
            report(2, "SIGKILL of worker 0 while it writes the weights: another writes all files", "the same bytes", "the same")
        r.close()


main()
