#!/usr/bin/python3
"""Row 41: a newcomer with other settings never ends a training ring. Where all workers need one
value the ring's applies, and the newcomer logs that; where each may have its own nothing is logged;
otherwise the newcomer alone is refused, with key and both values. Early: at the start with the
others; late: into a training ring. The newcomer has the lowest index, and so leads and proposes, or
the highest. Digest and steps.jsonl are those of one undisturbed worker."""
import errno, json, os, re, shutil, signal, subprocess, time

from ring import QRINGD, Ring, SANITIZED, certs, check, folder, free_ports, job, main, report, row, truth, until

EPOCHS, FOREVER = 400 if SANITIZED else 3000, 1000000  # longer than a newcomer needs to join on an idle machine
SOON = 400 if SANITIZED else 700  # where all start together
MORE, FEWER = 100000, 40
KINDS = "ring", "doubling", "star", "halving", "auto"


def ring(name, n=3, epochs=EPOCHS, *flags, **more):
    return Ring("other-" + name, job("other-" + name), n, epochs, ["--min-workers", "1", "--form-timeout", "2s", *flags], **more)


def start_others(r, *without):
    """Starts all workers but these; waits until they train."""
    for i in range(r.n):
        if i not in without: r.start(i, "--form-timeout", "300ms")
    r.reaches(20)


def remove_worker(r, index):
    """Removes a worker that has exited, or kills it, so that later checks skip it."""
    gone = r.worker.pop(index)
    if gone.poll() is None: gone.kill()
    gone.wait()


def replace_folder(path, other):
    """Replaces a folder by a copy of another, atomically: a worker may write there at the same
    time."""
    shutil.copytree(other, path + ".new")
    for turn in range(100):
        if os.path.exists(path): os.rename(path, f"{path}.{turn}")
        try: return os.rename(path + ".new", path)
        except OSError as e:
            if e.errno not in (errno.ENOTEMPTY, errno.EEXIST): raise


def digest_in(out):
    try:
        with open(out + "/result.json") as f: return json.load(f)["state_digest"]
    except OSError as e: return str(e)


def check_logged_once(r, i, key, own, theirs, others):
    words = f"{key} is {own} here and {theirs} in the ring; the ring's value applies until the run ends: to change it, stop all workers"
    n = len(re.findall(re.escape(words), r.log(i)))
    check(f"{r.name}: worker {i} logs once, not {n} times: {words}", n == 1)
    logged = [k for k in others if " here and " in r.log(k)]
    check(f"{r.name}: the others log nothing about it, not {logged}", not logged)


def check_end(r, what, seconds=120):
    codes = r.wait(seconds)
    good = check(f"{r.name}: all exit with 0, not {codes}; {r.last_lines()}", set(codes.values()) == {0})
    good &= r.same()
    report(41, what, f"all exit with {sorted(set(codes.values()))}, {'the same digest' if good else 'ANOTHER DIGEST'}", "codes 0, the same digest")


@row(41)
def epochs_late():
    """Two train; two join together, below and above them: one with fewer epochs, one with more."""
    for lowest, highest in ((FEWER, MORE), (MORE, FEWER)):
        r = ring(f"late-{lowest}-{highest}", 4)
        start_others(r, 0, 3)
        for i, other in ((0, lowest), (3, highest)): r.start(i, "--epochs", str(other))
        for i in (0, 3): r.joins(i)
        for i, other in ((0, lowest), (3, highest)): check_logged_once(r, i, "epochs", other, r.epochs, (1, 2))
        check_end(r, f"{lowest} epochs, late, lowest index, and {highest}, highest index")


@row(41)
def epochs_early():
    """All start together: the first leader's epochs apply to all."""
    for word, other in (("fewer", FEWER), ("more", 2 * SOON)):
        for index in (0, 2):
            r = ring(f"early-{word}-{index}", 3, SOON)
            for i in range(3): r.start(i, *(["--epochs", str(other)] if i == index else []))
            if index == 0: r.epochs = other
            check_end(r, f"{word} epochs, early, {'lowest' if index == 0 else 'highest'} index")
            for i in range(3):
                logged = r.log(i).count("epochs is ")
                check(f"{r.name}: worker {i} logs it {logged} times", logged == (i != 0 if index == 0 else i == 2))


@row(41)
def epochs_beyond():
    """The newcomer finds the ring's checkpoint, which is beyond its own epochs, and joins. Where no
    ring trains, it exits with a message."""
    r = ring("beyond", 3, EPOCHS, "--checkpoint-interval", "10ms", "--checkpoint-steps", "1")
    start_others(r, 0)
    r.reaches(3 * FEWER + 30)
    until(lambda: os.path.exists(r.out + "/checkpoints/LATEST"))
    r.start(0, "--epochs", "2", "--form-timeout", "2s")
    r.joins(0)
    check_end(r, "fewer epochs than a checkpoint has, late, lowest index")
    check(f"{r.name}: the newcomer logs that it looks for the ring", "looking for a ring that trains more" in r.log(0))
    r.worker.clear()
    for i in range(3): r.start(i, "--epochs", "2")
    codes = r.wait(60)
    check(f"{r.name}: after the end of training, fewer epochs exit with 0: {codes}", set(codes.values()) == {0})
    r = ring("no-ring", 3, FOREVER, "--checkpoint-interval", "10ms", "--checkpoint-steps", "1")
    start_others(r, 0)
    r.reaches(30)
    for i in r.alive(): r.kill(i, signal.SIGTERM)
    r.wait(60)
    at = {i: r.position(i) for i in r.worker}
    for i in range(3): r.start(i, "--epochs", "2", "--form-timeout", "20s")
    codes = r.wait(60)
    check(f"{r.name}: fewer epochs than are trained exit with 2: {codes}; {r.last_lines()}", set(codes.values()) == {2})
    logged = [i for i in at if "epochs are already trained, and the leader, worker 0" in r.log(i)[at[i]:] and "raise --epochs" in r.log(i)[at[i]:]]
    check(f"{r.name}: {logged} log the reason", logged == [1, 2])
    report(41, "fewer epochs than are trained, and no ring trains", f"codes {sorted(set(codes.values()))}, and the reason", "code 2")


@row(41)
def allreduce():
    """Two train with one all-reduce; then four start together, each with another: above, below and
    between."""
    for kind in KINDS:
        r = ring(f"allreduce-{kind}", 6, FOREVER, "--allreduce", kind)
        start_others(r, 0, 2, 3, 5)
        other = dict(zip((0, 2, 3, 5), (k for k in KINDS if k != kind)))
        for i in other: r.start(i, "--allreduce", other[i])
        for i in other: r.joins(i)
        check(f"{r.name}: all six train; {r.last_lines()}", until(lambda: "with 6 workers" in r.log(1)))
        r.reaches(r.lines() + 10)
        for i in other: check_logged(r, i, "allreduce", other[i], kind)
        ended = [i for i in range(6) if i not in r.alive()]
        check(f"{r.name}: no worker exits, not {ended}; {r.last_lines()}", not ended)
        codes = r.settle()
        good = check(f"{r.name}: after SIGTERM all exit with 143, not {codes}", set(codes.values()) == {143}) & r.same()
        report(41, f"allreduce {kind}, then {', '.join(other.values())}", "all six train, the same digest" if good else "ANOTHER RESULT", "the same digest")


def check_logged(r, i, key, own, theirs):
    n = r.log(i).count(f"{key} is {own} here and {theirs} in the ring")
    check(f"{r.name}: worker {i} logs once, not {n} times, that {key} is {own} here and {theirs} in the ring", n == 1)


@row(41)
def everything():
    """A newcomer differs in every setting that may differ."""
    with open("/proc/cpuinfo") as f: isa = "avx2" if " avx2 " in f.read() else "portable" # an epoch of "portable" takes seconds
    for index in (0, 2):
        r = ring(f"everything-{index}", 3, min(EPOCHS, 1000), "--allreduce", "doubling")
        start_others(r, index)
        aside = folder(f"aside-{index}")
        mine = r.peers[index].split(":")[1]
        flags = ["--index", str(index), "--peers", ",".join(p.replace("127.0.0.1", "localhost") for p in r.peers + ["localhost:9"]), "--max-workers", "9",
                 "--min-workers", "4", "--port", mine, "--bind", "127.0.0.1", "--http-port", str(free_ports(1)[0]), "--http-bind", "127.0.0.1",
                 "--start-timeout", "33s", "--form-timeout", "22s", "--threads", "2", "--isa", isa, "--allreduce", "ring", "--epochs", str(FEWER),
                 "--out", aside, "--weights", aside + "/other.npz", "--checkpoints", aside + "/other", "--checkpoint-interval", "50ms",
                 "--checkpoint-steps", "7", "--checkpoint-epochs", "3", "--evaluate-interval", "1s", "--fresh", "--logdir", aside + "/logs", "--profiler-port", "2223", "--profiler-bind", "127.0.0.1", "--log-level", "debug", "--log-format", "text",
                 "--exit-on-drain", "7", "--termination-log", aside + "/last"]
        r.start(index, *flags, env={"TF_CONFIG": ""})
        r.joins(index)
        for key, own, theirs in ("epochs", FEWER, r.epochs), ("allreduce", "ring", "doubling"), ("min-workers", 4, 1): check_logged(r, index, key, own, theirs)
        check(f"{r.name}: the newcomer logs that the ring's paths apply", "out, weights or checkpoints differ from the ring's" in r.log(index))
        codes = r.wait(400) # "portable" takes twenty times as long on a busy machine
        good = check(f"{r.name}: all exit with 0, not {codes}; {r.last_lines()}", set(codes.values()) == {0})
        digest = digest_in(aside if index == 0 else r.out)
        good &= check(f"{r.name}: digest {digest} in the leader's folder", digest == truth(r.job, r.epochs)[0])
        if index == 2: good &= r.same()
        report(41, f"every setting that may differ does, {'lowest' if index == 0 else 'highest'} index", "codes 0, the same digest" if good else codes, "codes 0, the same digest")


@row(41)
def more_needed():
    """A newcomer with a larger --min-workers than there are workers: the ring's value applies. With
    the lowest index the newcomer is the one that proposes."""
    for index in (0, 2):
        r = ring(f"needs-{index}", 3)
        start_others(r, index)
        r.start(index, "--min-workers", "60")
        r.joins(index)
        at = time.monotonic()
        r.kill(1)
        r.grows_after(at)
        check_logged(r, index, "min-workers", 60, 1)
        codes = r.wait(120)
        good = check(f"{r.name}: the other two exit with 0: {codes}; {r.last_lines()}", {c for i, c in codes.items() if i != 1} == {0}) & r.same()
        report(41, f"min-workers 60 in a ring of three, {'lowest' if index == 0 else 'highest'} index", "trains on, also after SIGKILL of one" if good else codes, "trains on")


@row(41)
def fresh():
    """--fresh of a newcomer deletes nothing of a training ring; where no ring trains it does."""
    r = ring("fresh", 3, FOREVER, "--checkpoint-interval", "2s", "--checkpoint-steps", "1")
    start_others(r, 0)
    latest = r.out + "/checkpoints/LATEST"
    until(lambda: os.path.exists(latest))
    r.start(0, "--fresh")
    gone = until(lambda: not os.path.exists(latest), 1, 0.002)
    check(f"{r.name}: LATEST stays", not gone)
    r.joins(0)
    report(41, "--fresh, late, lowest index", "the ring's checkpoints stay" if not gone else "THEY ARE DELETED", "they stay")
    r.settle()
    r.same()
    r.worker.clear()
    r.peers = [f"127.0.0.1:{p}" for p in free_ports(3)]
    for i in range(3): r.start(i, "--fresh", "--epochs", "5")
    codes = r.wait(60)
    check(f"{r.name}: --fresh of all: {codes}", set(codes.values()) == {0})
    r.epochs = 5
    r.same()


@row(41)
def output_paths():
    """A newcomer leads and can no longer write to its paths: it exits, and the next leader writes
    to the ring's paths."""
    r = ring("weights")
    start_others(r, 0)
    aside = folder("aside-weights")
    r.start(0, "--out", aside, "--checkpoints", "none")
    r.joins(0)
    os.rename(aside, r.dir + "/away")
    open(aside, "w").close()
    codes = r.wait(120)
    os.unlink(aside)
    good = check(f"{r.name}: only the newcomer exits with 2: {codes}; {r.last_lines()}", codes == {0: 2, 1: 0, 2: 0})
    good = good and check(f"{r.name}: the digest", digest_in(r.out) == truth(r.job, r.epochs)[0])
    report(41, "a newcomer leads and cannot write its --out", codes if not good else "only the newcomer exits with 2, the others write theirs", "codes 2, 0, 0")
    foreign = folder("aside-foreign")  # the checkpoints of another job
    other = job("other-checkpoints-of", seed=99)
    with open(foreign + ".log", "w") as log:
        subprocess.run([QRINGD, other, "--epochs", "2", "--out", foreign], stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True, timeout=60)
    r = ring("checkpoints", 3, FOREVER)
    start_others(r, 0)
    aside = folder("aside-checkpoints")
    r.start(0, "--checkpoints", aside + "/there", "--checkpoint-interval", "300ms", "--checkpoint-steps", "1")
    r.joins(0)
    replace_folder(aside + "/there", foreign + "/checkpoints")
    gone = r.worker[0]
    check(f"{r.name}: the newcomer exits", until(lambda: gone.poll() is not None))
    good = check(f"{r.name}: with 2, not {gone.returncode}; {r.log(0)[-300:]}", gone.returncode == 2)
    good &= r.reaches(r.lines() + 10) & check(f"{r.name}: the others train on", r.alive() == [1, 2])
    remove_worker(r, 0)
    codes = r.settle()
    good &= check(f"{r.name}: after SIGTERM all exit with 143, not {codes}", set(codes.values()) == {143})
    good &= r.same()
    report(41, "a newcomer leads and may not write its --checkpoints", "only the newcomer exits with 2, the same digest" if good else codes, "code 2 for it")


@row(41)
def other_job():
    """Another seed under the same job name: the newcomer alone is refused, with the key and both
    values, at any index and also while the ring changes."""
    for index in (0, 3):
        r = ring(f"seed-{index}", 4, FOREVER)
        with open(r.job) as f: j = json.load(f)
        j["seed"] = 77
        with open(r.dir + "/other.json", "w") as f: json.dump(j, f)
        start_others(r, index)
        own, other = r.job, r.dir + "/other.json"
        first = [i for i in range(4) if i != index][0]
        r.job = other
        newcomer = r.start(index)
        check(f"{r.name}: the newcomer exits", until(lambda: newcomer.poll() is not None))
        check(f"{r.name}: with 3, not {newcomer.returncode}", newcomer.returncode == 3)
        check(f"{r.name}: the newcomer's log has key and values", re.search(r"seed is \d+ there and 77 here", r.log(index)))
        since = r.position(index)
        newcomer = r.start(index)  # again, while the leader is killed and restarted
        r.wait_log(index, "has other settings", since=since)
        r.kill(first)
        r.worker[first].wait()
        r.job = own
        at = r.position(first)
        r.start(first)
        r.joins(first, since=at)
        r.reaches(r.lines() + 10)
        if newcomer.poll() is None: newcomer.kill()  # it waits 30 s if no leader refuses it
        check(f"{r.name}: with 3, if at all, not {newcomer.wait()}", newcomer.returncode in (3, -9))
        remove_worker(r, index)
        ended = [i for i in r.worker if i not in r.alive()]
        check(f"{r.name}: no worker exits, not {ended}; {r.last_lines()}", not ended)
        codes = r.settle()
        good = check(f"{r.name}: after SIGTERM all exit with 143, not {codes}", set(codes.values()) == {143}) & r.same()
        report(41, f"another seed, {'lowest' if index == 0 else 'highest'} index, and SIGKILL of the leader", "only the newcomer is refused, the same digest" if good else codes, "code 3 for it")


@row(41)
def tls_or_not():
    """A newcomer without TLS in a TLS ring, and the reverse: it is not admitted, and it alone gives
    up."""
    t = certs(job("other-tls"))
    for word, flags, more in ("TLS into a plain ring", [], ["--tls-dir", t]), ("plain into a TLS ring", ["--tls-dir", t], ["--tls-dir", "", "--plaintext"]):
        for index in (0, 2):
            r = Ring(f"other-tls-{word.split()[0]}-{index}", job("other-tls"), 3, FOREVER, ["--min-workers", "1", "--form-timeout", "300ms", *flags])
            start_others(r, index)
            gone = r.start(index, *more, "--form-timeout", "500ms", "--min-workers", "2")
            good = check(f"{r.name}: the newcomer gives up", until(lambda: gone.poll() is not None, 60))
            good &= check(f"{r.name}: with 138, not {gone.returncode}; {r.log(index)[-300:]}", gone.returncode == 138)
            remove_worker(r, index)
            good &= r.reaches(r.lines() + 10)
            codes = r.settle()
            good &= check(f"{r.name}: after SIGTERM the others exit with 143, not {codes}", set(codes.values()) == {143}) & r.same()
            report(41, f"{word}, {'lowest' if index == 0 else 'highest'} index", "only the newcomer gives up, the same digest" if good else codes, "code 138 for it")


if __name__ == "__main__": main()
