#!/usr/bin/python3
"""Rows about storage: disks that are full, broken or read-only; a Cloud Storage server
(tests/fake/gcs.py) with all its faults, tokens included; all workers killed during an upload."""
import json, os, re, resource, shutil, signal, subprocess, sys, time, urllib.request

can_mount = os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode == 0
if can_mount and os.environ.get("QR_OWN_MOUNTS") != "1":
    os.environ["QR_OWN_MOUNTS"] = "1"  # mounts end with this program
    os.execvp("unshare", ["unshare", "-m", *sys.argv])

from ring import QRING, ROOT, Ring, WORK, alone, check, check_speed, folder, free_ports, main, report, row, skip, until
from storage import OFTEN, Fake, small

SLOW = ["--allreduce", "ring"]  # many messages a step: few steps for the reference run to repeat
ENDLESS = 1000000
LONGEST_S = 2.0  # allows for a busy machine; training that waited for the store would pause for the outage of 5 s


def metric(port, name):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as r: text = r.read().decode()
    return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.M).group(1))


def latest(folder):
    try:
        with open(folder + "/LATEST") as f: return json.load(f)
    except (OSError, ValueError): return {}


def mounted(path, size="64m"):
    """Mounts a small disk."""
    os.makedirs(path, exist_ok=True)
    return subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0777", "tmpfs", path],
                          stderr=subprocess.DEVNULL).returncode == 0


def fill(folder):
    """Fills the disk to the last byte; returns the path of the file."""
    path = folder + "/filler"
    with open(path, "wb", buffering=0) as f:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while f.write(b"x" * size): pass
            except OSError: pass
    return path


def remount(disk, how):
    """Remounts a disk. Retries, because a disk cannot become read-only during a write."""
    once = lambda: subprocess.run(["mount", "-o", f"remount,{how}", disk], stderr=subprocess.DEVNULL).returncode == 0
    check(f"{disk} is {how}", until(once, every=0.001))


def break_calls(ctl, calls):
    """From now on these calls fail in processes with the environment of broken_disk()."""
    with open(ctl + ".new", "w") as f: f.write(calls)
    os.rename(ctl + ".new", ctl)


def broken_disk(root):
    """Environment of a worker whose calls below root fail when root.ctl names them; None without a
    compiler."""
    so = WORK + "/broken_disk.so"
    os.makedirs(WORK, exist_ok=True)
    if not shutil.which("cc"): return None
    subprocess.run(["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-I", ROOT, "-o", so, ROOT + "/tests/faults/broken_disk.c", "-ldl"],
                   check=True)
    return {"LD_PRELOAD": so, "QR_BROKEN_DISK": root, "ASAN_OPTIONS": "verify_asan_link_order=0"}


def warnings(r, words, since=0): return r.log(0)[since:].count(words)


# ---- disks ----

@row(22)
def checkpoints_on_a_bad_disk():
    """The leader of three workers writes checkpoints to a disk with one fault after the other.
    Published files stay, training continues, each fault is logged once and counted, and publishing
    resumes after it."""
    http = free_ports(1)[0]
    disk = folder("disk")
    mount = os.environ.get("QR_OWN_MOUNTS") == "1" and mounted(disk, "2m")
    place, ctl = disk + "/checkpoints", disk + ".ctl"
    env = broken_disk(disk)
    r = Ring("bad-disk", small("bad-disk"), 3, ENDLESS, [*OFTEN, *SLOW, "--checkpoints", place], env=env)
    r.start(0, "--http-port", str(http))
    for i in range(1, 3): r.start(i)
    r.reaches(50)
    check("a first checkpoint", until(lambda: latest(place).get("reductions", 0) > 10))

    faults = []
    if mount: faults += [("disk full", lambda: fill(disk), lambda: os.unlink(disk + "/filler")),
                         ("read-only", lambda: remount(disk, "ro"), lambda: remount(disk, "rw"))]
    else: skip("a full and a read-only disk: cannot mount")
    if env: faults += [(what, lambda text=text: break_calls(ctl, text), lambda: os.unlink(ctl)) for what, text in
                       (("write: EIO", "EIO write"), ("fsync fails", "EIO fsync"), ("rename fails", "EIO rename"))]
    else: skip("a disk that breaks: no compiler")
    for what, begin, end in faults:
        since, errors = r.position(0), metric(http, "qring_checkpoint_errors_total")
        begin()
        failed = until(lambda: metric(http, "qring_checkpoint_errors_total") > errors)
        before, steps, at = latest(place), r.lines(), time.monotonic()
        check(f"{what}: a failure is counted", failed)
        time.sleep(0.3 if faults[0][0] != what else 1.3)  # for the first fault, long enough for one more try
        check(f"{what}: training continues", r.lines() > steps + 10)
        check(f"{what}: LATEST stays", latest(place) == before)
        whole = subprocess.run([QRING, "weights", f"{place}/{before['object']}"], capture_output=True, text=True)
        check(f"{what}: the checkpoint that LATEST names is whole: {whole.stderr}", whole.returncode == 0)
        logged = warnings(r, "cannot publish the checkpoint", since)
        check(f"{what}: logged once, not {logged} times", logged == 1)
        gap = r.longest_gap(at - 0.2, time.monotonic())
        end()
        again = until(lambda: latest(place).get("reductions", 0) > before["reductions"])
        check(f"{what}: publishing resumes; {r.last_lines()}", again)
        report(22, f"{what} under the checkpoints: LATEST stayed whole, {r.lines() - steps} steps meanwhile, {logged} warning, longest gap",
               f"{gap:.3f} s",
               "0 corrupted, training continues")
    r.settle()
    r.same()


@row(22)
def permission_lost():
    """The workers lose write permission for the checkpoints' folder."""
    disk = folder("closed")
    os.chmod(disk, 0o777)
    place = disk + "/checkpoints"
    prefix = None
    if os.geteuid() == 0:
        if not shutil.which("setpriv"): return skip("permission lost: no setpriv to drop root")
        prefix = lambda i: ["setpriv", "--reuid", "65534", "--clear-groups"]
    r = Ring("closed-ring", small("closed"), 2, ENDLESS, [*OFTEN, *SLOW, "--checkpoints", place], prefix=prefix)
    os.chmod(r.out, 0o777)
    os.chmod(r.dir, 0o777)
    r.start_all(50)
    if not check("a first checkpoint", until(lambda: latest(place).get("reductions", 0) > 10)): return
    owner = os.stat(place).st_mode & 0o777
    os.chmod(place, 0o555)
    check("the failure is logged", r.wait_log(0, "cannot publish the checkpoint") is not None)
    before, steps = latest(place), r.lines()
    time.sleep(0.5)
    check("training continues", r.lines() > steps + 10)
    check("LATEST stays, and the failure is logged once", latest(place) == before and warnings(r, "cannot publish the checkpoint") == 1)
    os.chmod(place, owner)
    check("publishing resumes", until(lambda: latest(place)["reductions"] > before["reductions"]))
    report(22, "permission for the checkpoints lost: LATEST stayed whole, steps meanwhile", r.lines() - steps,
           "0 corrupted, training continues")
    r.settle()
    r.same()


def step_of(port): return metric(port, "qring_step")


@row(22)
def log_and_events_on_a_full_disk():
    """steps.jsonl and the event files are on a full disk, then under a limit on file sizes: lines
    wait, event files end with a message; at the end each line is there once."""
    if os.environ.get("QR_OWN_MOUNTS") != "1": return skip("a full disk under the log: cannot mount")
    http = free_ports(1)[0]
    r = Ring("full-log", small("full-log"), 2, ENDLESS, [*OFTEN[:4], *SLOW])
    r.env = broken_disk(r.out) or {}
    if not mounted(r.out, "8m"): return skip("a full disk under the log: no tmpfs")
    r.flags += ["--checkpoints", folder("full-log-checkpoints"), "--logdir", r.out + "/logs"]
    r.start(0, "--http-port", str(http), wrap=("bash", "-c", f'exec "$@" > >(exec cat >>{r.dir}/worker0.log) 2>&1', "bash"))  # keeps the worker's log outside the file size limit
    r.start(1)
    r.reaches(50)
    filler = fill(r.out)
    check("the failure is logged", r.wait_log(0, "training continues, the lines are kept") is not None)
    lines, step, errors = r.lines(), step_of(http), metric(http, 'qring_store_errors_total{op="put"}')
    time.sleep(1.5)
    went = step_of(http) - step
    check("training continues", went > 10)
    check(f"no line is added: {lines}, {r.lines()}", r.lines() == lines)
    check("failures are counted", metric(http, 'qring_store_errors_total{op="put"}') >= errors > 0)
    logged = warnings(r, "training continues, the lines are kept")
    check(f"logged once, not {logged} times", logged == 1)
    check("the failure of the event files is logged once", until(lambda: warnings(r, "stopped writing TensorBoard events") == 1))
    os.unlink(filler)
    back = r.wait_log(0, "succeeds again")
    check("the lines are written when there is space", back is not None and until(lambda: r.lines() > lines + went))
    report(22, f"a full disk under steps.jsonl: {went:.0f} steps meanwhile, {logged} warning, waiting lines written after",
           f"{back or -1:.2f} s", "each once")
    # a file size limit, and a disk with I/O errors
    pid, ctl = r.worker[0].pid, r.out + ".ctl"
    limit = lambda n: resource.prlimit(pid, resource.RLIMIT_FSIZE, (n, resource.RLIM_INFINITY))
    faults = [("a limit on files", lambda: limit(os.stat(r.out + "/steps.jsonl").st_size + 1000), lambda: limit(resource.RLIM_INFINITY))]
    if r.env: faults.append(("write: EIO", lambda: break_calls(ctl, "EIO write"), lambda: os.unlink(ctl)))
    for what, begin, end in faults:
        since = r.position(0)
        begin()
        check(f"{what}: logged once", until(lambda: warnings(r, "training continues, the lines are kept", since) == 1))
        step = step_of(http)
        check(f"{what}: training continues", until(lambda: step_of(http) > step + 10))
        end()
        check(f"{what}: the end of the fault is logged", r.wait_log(0, "succeeds again", since=since) is not None)
    r.settle()
    r.same()


@row(22)
def no_state_beyond_the_log():
    """steps.jsonl on a full disk, the checkpoints on another: no checkpoint is published beyond the
    lines on disk, so the next start computes them again. After SIGKILL and after SIGTERM."""
    if os.environ.get("QR_OWN_MOUNTS") != "1": return skip("a full disk under the log: cannot mount")
    for name, number in (("killed", signal.SIGKILL), ("terminated", signal.SIGTERM)):
        http = free_ports(1)[0]
        r = Ring("behind-" + name, small("behind"), 1, ENDLESS, OFTEN)
        if not mounted(r.out, "1m"): return skip("a full disk under the log: no tmpfs")
        place = folder("behind-checkpoints-" + name)
        r.flags += ["--checkpoints", place]
        r.start(0, "--http-port", str(http))
        r.reaches(50)
        check(f"{name}: a first checkpoint", until(lambda: latest(place).get("reductions", 0) > 10, 20))
        filler = fill(r.out)
        check(f"{name}: the failure is logged", r.wait_log(0, "training continues, the lines are kept", 20) is not None)
        lines = r.lines()
        check(f"{name}: training continues", until(lambda: step_of(http) > lines + 100, 30))
        r.kill(0, number)
        codes = r.wait()
        check(f"{name}: exit code {-number if name == 'killed' else 143}, not {codes}", codes == {0: -number if name == "killed" else 143})
        at = latest(place).get("reductions", 0)
        check(f"{name}: LATEST has {at} reductions, the log {r.lines()} lines", 0 < at <= r.lines())
        os.unlink(filler)
        r.start(0)
        r.reaches(lines + 50)
        r.settle()
        r.same()
        report(22, f"a full disk under steps.jsonl, checkpoints elsewhere, {name}: reductions published, lines on disk", f"{at}, {lines}", "none beyond")


@row(22)
def log_that_memory_cannot_hold():
    """The disk under steps.jsonl stays full: both workers exit with 2 before a line is lost; after
    a restart with space each line is there once."""
    if os.environ.get("QR_OWN_MOUNTS") != "1": return skip("a full disk under the log: cannot mount")
    r = Ring("long-log", small("long-log"), 2, ENDLESS, OFTEN)
    if not mounted(r.out, "64k"): return skip("a full disk under the log: no tmpfs")
    place = folder("long-log-checkpoints")
    r.flags += ["--checkpoints", place]
    for i in range(2): r.start(i)
    codes = r.wait(300)
    check(f"exit codes 2, not {codes}; {r.last_lines()}", codes == {0: 2, 1: 2})
    for i in range(2): check(f"worker {i} logs the reason", "lines are kept in memory, which is the limit" in r.log(i))
    check(f"LATEST has {latest(place).get('reductions')} reductions, the log {r.lines()} lines", 0 < latest(place).get("reductions", 0) <= r.lines())
    lines = r.lines()
    subprocess.run(["mount", "-o", "remount,size=8m", r.out], check=True)
    for i in range(2): r.start(i)
    r.reaches(lines + 50)
    r.settle()
    r.same()


@row(22)
def no_room_for_the_weights():
    """The weights cannot be written: all workers exit with a permanent code; a restart writes the
    weights when there is space."""
    if os.environ.get("QR_OWN_MOUNTS") != "1": return skip("no room for the weights: cannot mount")
    for name, words in (("full", "No space left"), ("read-only", "Read-only file system"), ("broken", "Input/output error")):
        disk = folder("weights-" + name)
        env = broken_disk(disk)
        if name == "broken" and not env: return skip("a disk that breaks: no compiler")
        r = Ring("no-room-" + name, small("no-room"), 2, 600, OFTEN, env=env)
        if not mounted(disk, "1m"): return skip("no room for the weights: no tmpfs")
        r.flags += ["--weights", disk + "/w.h5"]
        r.start_all()
        filler = fill(disk) if name == "full" else remount(disk, "ro") if name == "read-only" else break_calls(disk + ".ctl", "EIO write")
        codes = r.wait()
        check(f"{name}: exit codes 2, not {codes}; {r.last_lines()}", codes == {0: 2, 1: 2})
        for i in range(2): check(f"{name}: worker {i} logs the reason: {r.last_lines()}", words in r.log(i) and disk in r.log(i))
        check(f"{name}: no partial weights file", os.listdir(disk) == (["filler"] if filler else []))
        if filler: os.unlink(filler)
        elif name == "broken": os.unlink(disk + ".ctl")
        else: remount(disk, "rw")
        marks = [r.position(i) for i in range(2)]
        for i in range(2): r.start(i)
        codes = r.wait()
        check(f"{name}: exit codes 0, not {codes}; {r.last_lines()}", codes == {0: 0, 1: 0})
        check(f"{name}: training resumes", "resuming from step" in r.log(0)[marks[0]:])
        r.same()
        with open(disk + "/w.h5", "rb") as f, open(alone(r.job, r.epochs) + "/weights.h5", "rb") as g:
            check(f"{name}: the weights are complete", f.read() == g.read())
        report(22, f"no room for the weights at the end ({name}): exit 2 with the reason, and a restart later", "writes them",
               "nothing lost")


# ---- Cloud Storage ----

def in_bucket(name, fake):
    return Ring(name, small(name), 3, ENDLESS, [*OFTEN, *SLOW, "--weights", f"gs://auth-bucket/{name}/w.h5"], env=fake.env)


def publishes(fake, seconds=40):
    """Seconds until another LATEST is stored; None on timeout."""
    began, n = time.monotonic(), len(fake.stored("/LATEST"))
    return time.monotonic() - began if until(lambda: len(fake.stored("/LATEST")) > n, seconds, 0.02) else None


def start_in_bucket(name, fake):
    """Starts a ring that trains and publishes; returns it and its longest gap between steps without
    faults."""
    r = in_bucket(name, fake)
    r.start_all(50)
    check("a first checkpoint", publishes(fake) is not None)
    began = time.monotonic()
    time.sleep(1.5)
    return r, r.longest_gap(began, time.monotonic())


def objects_whole(fake, spare=0):
    """Checks that each checkpoint object was stored once, at most `spare` of them twice with the
    same bytes. Returns the numbers of objects and of duplicates."""
    seen, twice = {}, 0
    for _, name, sha, _ in fake.stored(".safetensors"):
        if name in seen: twice += 1
        check(f"the same bytes in {name}", seen.setdefault(name, sha) == sha)
    check(f"{twice} objects were stored twice", twice <= spare)
    return len(seen), twice


FAULTS = [("429", "insert", "return-429"), ("500", "insert", "return-500"), ("503", "insert", "return-503"),
          ("412", "insert", "return-412"), ("reset before the reply", "insert", "return-reset-connection"),
          ("reset mid-upload", "insert", "return-broken-stream-after-512B"), ("503 mid-upload", "insert", "return-503-after-512B"),
          ("lost acknowledgement", "insert", "lost-acknowledgement"), ("wrong crc32c of an upload", "insert", "wrong-crc32c"),
          ("wrong crc32c of a download", "get", "wrong-crc32c"), ("503 of a download", "get", "return-503"),
          ("broken download", "get", "return-broken-stream")]


@row(25)
def storage_that_fails():
    with Fake("fails") as fake:
        r, normal = start_in_bucket("fails", fake)
        gaps = []
        for what, method, instruction in [*FAULTS, ("expired token", None, None)]:
            at = time.monotonic()
            if method: fake.ask("faults", {"instructions": {"storage.objects." + method: [instruction]}})
            else: fake.ask("expire", {})
            met = not method or until(lambda: fake.ask("state")["faults_left"] == 0, every=0.02)
            check(f"{what}: the fault is used", met)
            check(f"{what}: published again; {r.last_lines()}", publishes(fake) is not None)
            gaps.append((r.longest_gap(at, time.monotonic()), what))
        objects, twice = objects_whole(fake, spare=1)
        worst, of = max(gaps)
        report(25, f"{len(gaps)} storage faults, one after the other: longest gap between steps ({of})", f"{worst:.3f} s",
               f"as without: {normal:.3f} s")
        check_speed(f"training does not wait: {worst:.3f} s, {normal:.3f} s without", worst <= max(4 * normal, LONGEST_S))
        report(25, f"of {objects} checkpoint objects stored twice", twice, "1, the same bytes")
        at = time.monotonic()
        for how in ("503", "hang"):
            fake.ask("down", {"storage": [how, 4]})  # 4 s: replaced or cleared after 2.5 s, before it ends
            time.sleep(2.5)
        fake.ask("down", {})
        gap = r.longest_gap(at, time.monotonic())
        report(25, "an outage of 5 s (503, then silence): longest gap between steps", f"{gap:.3f} s", f"as without: {normal:.3f} s")
        check_speed(f"outage: training does not wait: {gap:.3f} s", gap <= max(4 * normal, LONGEST_S), gap < 5)
        check("nothing is stored during an outage", [o for o in fake.stored("") if at + 0.2 < o[3] < at + 4.8] == [])
        later = lambda: [o[3] for o in fake.stored("/LATEST") if o[3] > at + 4.8]
        check(f"published after the outage; {r.last_lines()}", until(later, every=0.02))
        report(25, "published again after the outage", f"{(later() or [0])[0] - at - 5:.1f} s", "32 s: the longest wait between tries")
        r.settle()
        r.same()
        with open(r.out + "/weights.safetensors", "rb") as f: check("the weights are written", len(f.read()) > 100)
        check("the weights are uploaded", [o for o in fake.stored("/w.h5")] != [])


@row(26)
def token_server_down():
    with Fake("tokens") as fake:
        r, normal = start_in_bucket("tokens", fake)
        at = time.monotonic()
        fake.ask("down", {"token": ["503", 100]})
        fake.ask("expire", {})
        warned = r.wait_log(0, "no success for")  # the tries are at random times
        check(f"the failure is logged; {r.last_lines()}", warned is not None)
        took = time.monotonic() - at
        fake.ask("down", {})
        gap = r.longest_gap(at, time.monotonic())
        check_speed(f"training continues: {gap:.3f} s, {normal:.3f} s without", gap <= max(4 * normal, LONGEST_S))
        check(f"published again; {r.last_lines()}", publishes(fake, 60) is not None)
        report(26, f"the token server down for {took:.0f} s: retried, logged once, longest gap between steps", f"{gap:.3f} s",
               f"as without: {normal:.3f} s")
        r.settle()
        r.same()


@row(4)
def killed_during_an_upload():
    """SIGKILL of all during an upload, before and after it is stored: the next start resumes from a
    whole checkpoint."""
    with Fake("killed") as fake:
        r = in_bucket("killed", fake)
        froms, newest = [], -1
        for part, after in ((".safetensors", False), (".safetensors", True), ("/LATEST", False), ("/LATEST", True)):
            marks = [r.position(i) for i in range(3)]
            for i in range(3): r.start(i)
            check(f"training publishes; {r.last_lines()}", publishes(fake) is not None)
            fake.ask("hold", {"name": part, "after": after})
            check("the upload is under way", until(lambda: fake.ask("state")["holding"]))
            for i in r.alive(): r.kill(i)
            r.wait()
            fake.ask("release", {})
            resumed = re.findall(r"resuming from step (\d+)", r.log(0)[marks[0]:])
            if froms: check(f"killed while {froms[-1]}: the next start resumes from {resumed} ", len(resumed) == 1 and int(resumed[0]) >= newest > 0)
            check("nothing is damaged", "damaged" not in "".join(r.log(i)[marks[i]:] for i in range(3)))
            froms.append(part + (" was stored" if after else " was being uploaded"))
            newest = max(newest, int(resumed[0]) if resumed else 1)
        for i in range(3): r.start(i)
        check("training publishes after the last restart", publishes(fake) is not None)
        objects, twice = objects_whole(fake)
        report(4, f"SIGKILL of all during {len(froms)} uploads ({objects} checkpoints in the bucket): starts that resumed from a whole one",
               len(froms), "all")
        r.settle()
        r.same()


main()
