#!/usr/bin/python3
"""Row 53: a run begins in another run's folder, and is killed or fails at each call that changes a
file."""
import json, os, shutil, signal, socket, subprocess, time

from ring import QRING, QRINGD, ROOT, WORK, alone, check, folder, main, report, row, skip, truth
from storage import small

EPOCHS = 3
OFTEN = ["--checkpoint-interval", "0s", "--checkpoint-steps", "1", "--logdir="]


def read(path):
    try:
        with open(path, "rb") as f: return f.read()
    except OSError: return None


def named(path):
    try: return json.loads(read(path))
    except (TypeError, ValueError): return {}


def run(job, out, *more, env=None):
    return subprocess.run([QRINGD, job, "--epochs", str(EPOCHS), "--out", out, "--threads", "1", *OFTEN, *more], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120, env={**os.environ, **(env or {})})


class Job:
    def __init__(self, name, seed):
        path = small(name)
        with open(path) as f: self.file = {**json.load(f), "seed": seed}
        self.path, self.seed = path, seed
        with open(path, "w") as f: json.dump(self.file, f)
        self.digest, self.log = truth(path, EPOCHS)
        self.ref = alone(path, EPOCHS)

    def has(self, name, content): return content == read(f"{self.ref}/{name}")


def mixed(out, jobs, hashes):
    """Describes files of the folder that belong to another job than job.json, or that claim missing
    results; "" if there are none."""
    seed = named(out + "/job.json").get("seed")
    j = jobs.get(seed)
    if not j: return f"job.json has neither job: seed {seed}"
    steps, result, at = read(out + "/steps.jsonl") or b"", named(out + "/result.json"), named(out + "/checkpoints/LATEST")
    wrong = []
    if not j.log.startswith(steps[:steps.rfind(b"\n") + 1]): wrong.append("lines of another job")
    for name in ("weights.h5", "weights.safetensors"):
        content = read(f"{out}/{name}")
        if content is not None and not j.has(name, content): wrong.append(f"{name} of another job")
        if content is None and result: wrong.append(f"a result without {name}")
    if result and result["state_digest"] != j.digest: wrong.append("a result of another job")
    if at and hashes[seed] != at["job_hash"]: wrong.append("LATEST of another job")
    if at.get("done") and not result: wrong.append("LATEST is marked done, but there is no result")
    return ", ".join(wrong)


def is_temporary(name): return ".tmp-" in name or name.startswith(".qring-probe-")


def check_next_start(what, out, job, others, hashes):
    """Starts this job without --fresh in a copy of the folder: it must complete its own run, or be
    refused with the name of the folder's job."""
    copy = out + ".next"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(out, copy)
    at = named(copy + "/checkpoints/LATEST").get("job_hash")
    for d, _, names in os.walk(copy):  # as if written an hour ago
        for n in names:
            if is_temporary(n): os.utime(f"{d}/{n}", (time.time() - 3600,) * 2)
    ended = run(job.path, copy)
    left = [n for _, _, names in os.walk(copy) for n in names if is_temporary(n)]
    check(f"{what}: the next start leaves no temporary file: {left}", not left)
    if at and at != hashes[job.seed]:
        good = ended.returncode == 2 and at in ended.stderr and "no key differs" not in ended.stderr and "seed: " in ended.stderr
        return check(f"{what}: the next start is refused and names the folder's job: {ended.returncode} {ended.stderr[-600:]}", good)
    good = ended.returncode == 0 and read(copy + "/steps.jsonl") == job.log and named(copy + "/result.json").get("state_digest") == job.digest
    good = good and all(job.has(n, read(f"{copy}/{n}")) for n in ("weights.h5", "weights.safetensors")) and not mixed(copy, others, hashes)
    return check(f"{what}: the next start completes the run: {ended.returncode} {ended.stderr[-600:]}", good)


def nth_call():
    so = WORK + "/nth_call.so"
    os.makedirs(WORK, exist_ok=True)
    subprocess.run(["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-I", ROOT, "-o", so, ROOT + "/tests/faults/nth_call.c", "-ldl"], check=True)
    return so


def disturbed(so, job, out, n, how, *more):
    """Runs the job, killed or failing at call n; returns the ended process and its calls."""
    env = {"LD_PRELOAD": so, "QR_NTH_BELOW": out + "/", "QR_NTH": str(n), "QR_NTH_HOW": how, "ASAN_OPTIONS": "verify_asan_link_order=0"}
    ended = run(job.path, out, *more, env=env)
    calls = (read(out + "/.calls") or b"").decode().splitlines()
    if calls: os.unlink(out + "/.calls")
    return ended, calls


def earlier_run(so, job, whole):
    """Folder of an earlier run, complete or interrupted before the result is written."""
    out = folder("base")
    if whole:
        check("an earlier run", run(job.path, out).returncode == 0)
        return out
    n = 1000
    for _ in range(20):  # the order of calls varies: two threads make them
        out = folder("base")
        calls = disturbed(so, job, out, n, "kill")[1]
        if named(out + "/checkpoints/LATEST") and not read(out + "/result.json"): break
        n = next((i + 1 for i, c in enumerate(calls) if "rename result.json" in c), n)
    check(f"an earlier run is interrupted: {calls}", named(out + "/checkpoints/LATEST") and not read(out + "/result.json"))
    return out


@row(53)
def begins_in_used_folder():
    """--fresh in the folder of another job's run, complete and interrupted, and of its own: killed,
    or failing with EIO, at each call that changes a file."""
    if not shutil.which("cc"): return skip("row 53: no compiler")
    so, old, new = nth_call(), Job("earlier", 1), Job("later", 2)
    jobs = {1: old, 2: new}
    hashes = {}
    for j in jobs.values():
        out = folder(f"hash-{j.seed}")
        run(j.path, out)
        hashes[j.seed] = named(out + "/checkpoints/LATEST")["job_hash"]
    points = 0
    for what, there, whole, how in (("another's run", old, True, "kill"), ("another's run", old, True, "EIO"), ("its own run", new, True, "kill"),
                                    ("another's run, interrupted", old, False, "kill")):
        base = earlier_run(so, there, whole)
        for n in range(1, 400):
            out = folder("begin") + "/out"
            shutil.copytree(base, out)
            ended, calls = disturbed(so, new, out, n, how, "--fresh")
            if len(calls) < n: break
            where = f"{what}, {how} at {calls[n - 1]}"
            if how == "kill": check(f"{where}: killed", ended.returncode == -signal.SIGKILL)
            else: check(f"{where}: exit code 0 or 2, not {ended.returncode}", ended.returncode in (0, 2))
            wrong = mixed(out, jobs, hashes)
            check(f"{where}: {wrong}", not wrong)
            for j in {new, there}: check_next_start(where, out, j, jobs, hashes)
            points += 1
    report(53, f"a run in a used folder, killed or failing at {points} calls: folders that mix two runs", 0, 0)


@row(53)
def fails_before_it_begins():
    """A failure before training (a port in use) leaves the earlier run unchanged, for qringd and
    for qring run."""
    old, new = Job("earlier", 1), Job("later", 2)
    base = folder("stays")
    check("an earlier run", run(old.path, base).returncode == 0)
    files = lambda: {n: read(f"{d}/{n}") for d, _, names in os.walk(base) for n in names if not n.startswith("worker-")}
    before = files()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = str(s.getsockname()[1])
        ended = run(new.path, base, "--fresh", "--http-port", port, "--http-bind", "127.0.0.1")
        check(f"a port in use: 2, not {ended.returncode} {ended.stderr[-300:]}", ended.returncode == 2)
        check("a port in use: no file has changed", files() == before)
        ended = subprocess.run([QRING, "run", new.path, "--fresh", "--epochs", "3", "--out", base, "--http-port", port, "--http-bind", "127.0.0.1", *OFTEN],
                               stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        check(f"qring run, a port in use: 2, not {ended.returncode} {ended.stderr[-300:]}", ended.returncode == 2)
        check("qring run, a port in use: no file has changed", files() == before)
    ended = subprocess.run([QRING, "run", new.path, "-n", "2", "--fresh", "--epochs", "3", "--out", base, *OFTEN], stdin=subprocess.DEVNULL, capture_output=True,
                           text=True, timeout=120)
    check(f"with a free port it trains: {ended.returncode} {ended.stderr[-300:]}", ended.returncode == 0)
    check("each step of the new run once", read(base + "/steps.jsonl") == new.log)
    check("its weights", new.has("weights.h5", read(base + "/weights.h5")))
    report(53, "failures before training: files of the earlier run that changed", 0, 0)


main()
