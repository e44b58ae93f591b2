#!/usr/bin/python3
"""Rows that kill processes: at named points of a step, the leader, several at once, all, at the
end of training."""
import re, signal, time

import points
from ring import REPEAT, Ring, certs, check, figure, job, main, report, row, turn, until

ENDLESS = 1000000  # epochs: the row ends the ring when it has seen enough

# ---- row 1: a worker is killed as it enters a function ----

# what the worker is about to do, the function, the worker that is killed: "one" follower or
# "leader"
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
    ("switching to the new state", "train_swap", "one"),
    ("a heartbeat", "member_heartbeats", "one"),
    ("taking a micro-batch", "qr_group_take_micro_batch", "leader"),
    ("computing a micro-batch", "qr_model_put_micro_batch", "leader"),
    ("sending a chunk", "qr_chunk_encode", "leader"),
    ("checking the sum", "qr_reduction_check", "leader"),
    ("applying it", "qr_group_apply", "leader"),
    ("between applying and reporting", "qr_group_set_speeds", "leader"),
    ("writing a line of steps.jsonl", "qr_steps_log_write", "leader"),
    ("holding the lock of steps.jsonl", "qr_step_json", "leader"),
    ("switching to the new state", "train_swap", "leader"),
    ("writing a checkpoint", "qr_checkpoint_save", "leader"),
    ("between a checkpoint and LATEST", "qr_checkpoint_latest_encode", "leader"),
]
# the same during a change of the ring after another worker was killed
CHANGE = [
    ("noticing a lost peer", "member_peer_lost", "one"),
    ("ending its generation", "batch_queue_freeze", "one"),
    ("asked for a promise", "member_on_propose", "one"),
    ("promised, Begin received", "member_on_begin", "one"),
    ("beginning", "batch_queue_begin", "one"),
    ("connecting", "qr_mesh_form", "one"),
    ("ending its generation", "batch_queue_freeze", "leader"),
    ("receiving a promise", "member_on_promise", "leader"),
    ("sending Begin", "member_propose.c:propose_begin", "leader"),
    ("connecting", "qr_mesh_form", "leader"),
]


def ring(name, j, n, epochs, *flags, tls=False):
    return Ring(name, j, n, epochs, ["--min-workers", "1", *flags], tls=certs(j) if tls else None)


def kill_at(r, i, what, function, **more):
    """Kills worker i as it enters the function; returns the time, or None if that failed."""
    w = r.worker[i]
    points.arm(w, function, **more)
    return wait_killed(r, i, f"{what} ({function})")


def wait_killed(r, i, what):
    w = r.worker[i]
    good, at = until(lambda: w.poll() is not None, every=0.0005), time.monotonic()
    check(f"{r.name}: worker {i} reaches the point: {what}; {r.last_lines()}", good)
    return at if check(f"{r.name}: worker {i} is killed there by SIGKILL, not {w.poll()}: {what}", w.poll() == -signal.SIGKILL) else None


def check_end(r, killed):
    """Ends the ring: the others exit with 143, and the result is that of an undisturbed run."""
    codes = r.settle()
    want = {i: -signal.SIGKILL if i in killed else 143 for i in codes}
    check(f"{r.name}: exit codes {codes}, not {want}", codes == want)
    r.same()
    r.close()


def tls_label(tls):
    """Label of a figure that alternates between plaintext and TLS."""
    return ", plaintext and TLS alternately" if REPEAT > 1 else ", TLS" * tls


def rounds(all_, n):
    """Yields (number, TLS, points) for each ring. With REPEAT, each repetition does a fourth of
    them, and all count for one figure."""
    for k, i in enumerate(range(0, len(all_), n)):
        if REPEAT == 1 or (k + turn[0]) % 4 == 0: yield k, (k + turn[0] // 4) % 2 == 1, all_[i:i + n]


def point(what, more, tls): return f"SIGKILL {what if REPEAT == 1 else 'at a point'}{more}{tls_label(tls)}: next step"


@row(1, timed=True)
def points_of_a_step():
    j = job("points", micro_batch_size=4)  # so that each of six workers has a micro-batch
    for k, tls, some in rounds(STEP, 5):
        r = ring(f"points{k}", j, 6, ENDLESS, "--checkpoint-interval", "0s", "--checkpoint-steps", "20", tls=tls)
        r.start_all()
        killed = []
        for what, function, role in some:
            killed.append(min(r.alive()) if role == "leader" else max(r.alive()))
            at = kill_at(r, killed[-1], what, function)
            if at: figure(1, point(f"of {role}, {what}", "", tls), r.grows_after(at), 1.0)
        check_end(r, killed)


@row(1, timed=True)
def points_of_a_change():
    for k, tls, some in rounds(CHANGE, 2):
        r = ring(f"changes{k}", job("changes"), 6, ENDLESS, tls=tls)
        r.start_all()
        killed = []
        for what, function, role in some:
            i = min(r.alive()) if role == "leader" else max(r.alive())
            first = sorted(set(r.alive()) - {i})[len(r.alive()) // 2]
            points.arm(r.worker[i], function)
            r.kill(first)
            at = wait_killed(r, i, f"{what} ({function})")
            killed += [first, i]
            if at: figure(1, point(f"of {role}, {what}", ", after another was killed", tls), r.grows_after(at), 1.0)
        check_end(r, killed)


@row(1, timed=True)
def points_of_a_rejoin():
    """A restarted worker is killed while it fetches the state; then one that sends the state."""
    tls = turn[0] % 2 == 1
    r = ring("rejoin", job("rejoin"), 5, ENDLESS, tls=tls)
    r.start_all()
    r.kill(4)
    r.grows_after(time.monotonic())
    points.replaced("qr_mesh_fetch")  # cached before the restarted worker runs
    points.arm(r.start(4), "qr_mesh_fetch")
    at = wait_killed(r, 4, "fetching the state (qr_mesh_fetch)")
    if at: figure(1, f"SIGKILL of one, fetching the state{tls_label(tls)}: next step", r.grows_after(at), 1.0)
    for i in range(4): points.arm(r.worker[i], "qr_mesh_give")  # the lowest index that has the newest state sends it
    r.start(4)
    gone = lambda: [i for i in range(4) if r.worker[i].poll() is not None]
    there, at = until(gone, every=0.0005), time.monotonic()
    check(f"rejoin: one is killed as it sends the state; {r.last_lines()}", there)
    for i in set(range(4)) - set(gone()): points.disarm(r.worker[i], "qr_mesh_give")
    figure(1, f"SIGKILL of one, sending the state{tls_label(tls)}: next step", r.grows_after(at), 1.0)
    if len(gone()) < 4: r.joins(4)  # otherwise only the restarted worker is left
    check_end(r, gone())


@row(1)
def freeze_at_points():
    """SIGSTOP at these points until the others continue without the worker; after SIGCONT it
    rejoins and changes no result."""
    r = ring("frozen", job("frozen"), 4, ENDLESS)
    r.start_all()
    for i, what, function in ((3, "starting the reduction", "qr_mesh_reduce"), (2, "promised, Begin received", "member_on_begin"),
                              (1, "applying", "qr_group_apply"), (0, "holding the lock of steps.jsonl", "qr_step_json")):
        w = r.worker[i]
        points.arm(w, function, signal.SIGSTOP)
        if "Begin" in what: r.kill(3)
        there, at = until(lambda: points.is_stopped(w), every=0.001), time.monotonic()
        check(f"frozen: worker {i} reaches {function}", there)
        figure(1, f"SIGSTOP, {what}: the others continue", r.grows_after(at, 5), 2.0)
        was = r.position(i)
        points.disarm(w, function)
        r.joins(i, was)
    check_end(r, [3])


# ---- rows 2, 3, 4 ----

@row(2, timed=True)
def kill_the_leader():
    for tls in (False, True):
        r = ring(f"leader{'-tls' * tls}", job("leader"), 4, ENDLESS, tls=tls)
        r.start_all()
        at = time.monotonic()
        r.kill(0)
        figure(2, f"SIGKILL of worker 0{', TLS' * tls}: next step", r.grows_after(at), 1.0)
        for i in r.alive(): check(f"{r.name}: worker {i} names worker 0; {r.last_lines()}", r.wait_log(i, "worker 0 (") is not None)
        check_end(r, [0])


@row(3, timed=True)
def kill_many():
    for k, killed in ((1, [3]), (2, [0, 2]), (3, [0, 1, 4]), (4, [0, 1, 2, 4])):
        tls, back = k % 2 == turn[0] % 2, k % 2 == 0
        r = ring(f"many{k}", job("many"), 5, ENDLESS, tls=tls)
        r.start_all()
        at = time.monotonic()
        for i in killed: r.kill(i)
        figure(3, f"SIGKILL of {k} of 5{tls_label(tls)}: next step", r.grows_after(at), 1.0 if k == 4 else 2.0)
        if back:
            at = time.monotonic()
            for i in killed: r.start(i)
            for i in killed: r.joins(i)
            figure(3, f"{k} rejoin{tls_label(tls)}: longest pause", r.longest_gap(at, time.monotonic()), 1.0)
        check_end(r, [] if back else killed)


@row(3)
def kill_below_min_workers():
    """With fewer than --min-workers the rest wait until the timeout, exit with a retryable code and
    name the missing worker."""
    r = Ring("least", job("many"), 4, ENDLESS, ["--min-workers", "3", "--form-timeout", "2s"])
    r.start_all()
    at = time.monotonic()
    r.kill(2)
    figure(3, "SIGKILL, min_workers remain: next step", r.grows_after(at), 2.0)
    at = time.monotonic()
    r.kill(1)
    codes = r.wait()
    figure(3, "SIGKILL below min_workers: exit code 138 after the form timeout of 2 s", time.monotonic() - at, 3.0)
    check(f"least: exit codes {codes}", codes == {0: 138, 1: -9, 2: -9, 3: 138})
    check("least: the missing worker is named", re.search(r"worker 1 .*did not answer \(2 of 4 present, 3 needed\)", r.log(0)))


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
        check(f"all: worker 0 logs the step it resumes from; {r.last_lines()}", r.wait_log(0, "resuming from step", since=was) is not None)
        found = re.findall(r"resuming from step (\d+)", r.log(0)[was:])
        if not found: break
        lost = max(0, lines // 2 - int(found[0]))  # two lines for each step: an epoch has one step, and a line of its own
        report(4, f"SIGKILL of all, time {again + 1}: steps since the checkpoint that the next start resumes from, of {lines // 2}", lost,
               f"{every} s, or {rate / 2 * every:.0f} steps")
        figure(4, "SIGKILL of all: lost of the run", lost * 2 / rate, every + 0.2)
        if not r.reaches(lines + 20): break
    check_end(r, [])


# ---- row 40: the last step ----

# (index of the killed worker, what it is doing, function, closing), of three workers
END = [
    (2, "opening the closing reduction", "qr_group_open_reduction", True),
    (0, "opening the closing reduction", "qr_group_open_reduction", True),
    (2, "in the done vote, waiting for the result", "qr_group_done", False),
    (0, "done vote passed, nothing written yet", "qr_outputs_write", False),
    (0, "between the two weights' files", "qr_weights_encode", False),
    (0, "writing result.json", "qr_result_json", False),
    (0, "the last checkpoint, not marked as done", "qr_publisher_finish", False),
    (0, "everything written, Done not sent", "qr_group_done", False),
    (0, "Done sent to all", "qr_group_close", False),
    (2, "Done received", "qr_group_close", False),
]


@row(40)
def points_of_the_end():
    for k, (i, what, function, closing) in enumerate(END):
        r = ring(f"end{k}", job("end"), 3, 60, tls=k % 2 == 1)
        r.start_all(2)
        at = kill_at(r, i, what, function, closing=closing)
        codes = r.wait()
        check(f"{r.name}: exit codes {codes}; {r.last_lines()}", codes == {w: -signal.SIGKILL if w == i else 0 for w in range(3)})
        if at: figure(40, f"SIGKILL of worker {i}, {what}: the others exit with 0", time.monotonic() - at, 5.0)
        if r.same_weights() and function == "qr_weights_encode":
            report(2, "SIGKILL of worker 0 while it writes the weights: another writes all files", "the same bytes", "the same bytes")
        r.close()


main()
