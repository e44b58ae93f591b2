"""Rings of real workers for the fault rows (tests/faults/rows_*.py): start, disturb, observe,
compare.

A program of rows has functions under @row(NUMBER, ...) and ends with main(). It has its own working
directory; tests/run sets QR_BIN and QR_B. `rows_x.py 5 6` runs two rows; REPEAT=20 repeats the rows
that measure a time and prints median and maximum of each figure. Every row compares its result with
that of one undisturbed worker. By default a row asserts only that an event happens within TIMEOUT_S
and prints times and rates; the bounds of tests/faults/README.md are asserted on virtual time
(tests/cluster_sim), and here with QR_BOUNDS=1 (`make faults`, on an idle machine).
"""
import json, os, re, shutil, signal, statistics, subprocess, sys, threading, time, zlib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, ROOT + "/tests")
from free_ports import free_ports

BIN = os.path.join(ROOT, os.environ.get("QR_BIN", "build/bin"))
QRINGD, QRING = BIN + "/qringd", BIN + "/qring"
WORK = os.path.join(ROOT, os.environ.get("QR_B", "build/release"), "faults", os.path.basename(sys.argv[0]).removesuffix(".py"))
SANITIZED = not os.environ.get("QR_B", "release").endswith("release")  # slower, and with other memory limits
ASSERT_BOUNDS = bool(os.environ.get("QR_BOUNDS"))
TIMEOUT_S = 60  # for events without an asserted bound
REPEAT = int(os.environ.get("REPEAT", "1"))
CWD = WORK + "/cwd"
subprocess.run([ROOT + "/tests/cwd", CWD], check=True)
os.chdir(CWD)  # keeps default outputs out of the user's directory
for name in list(os.environ):
    if name.startswith("QRING_") or name == "TF_CONFIG": del os.environ[name]
os.environ["QRING_HTTP_PORT"] = "0"

counts = {"passed": 0, "failed": 0, "skipped": 0}
figures = {}  # (row, what) -> ([seconds], bound)
rows, rings = [], []
turn = [0]  # index of the repetition (REPEAT): some rows alternate variants by it


def check(what, good):
    counts["passed" if good else "failed"] += 1
    if not good: print("not so:", what, flush=True)
    return good


def skip(what):
    counts["skipped"] += 1
    print("SKIP", what, flush=True)


def figure(number, what, seconds, bound):
    """Records a measured time. main() compares the median of all repetitions with the bound."""
    figures.setdefault((number, what), ([], bound))[0].append(seconds)
    print(f"ROW {number}: {what}: {seconds:.3f} s (bound {bound} s)", flush=True)
    return check(f"row {number}: {what} within {TIMEOUT_S} s, not {seconds:.3f} s", seconds <= max(TIMEOUT_S, 2 * bound))


def check_speed(what, good, at_all=True):
    """Checks a condition that depends on the machine's speed; without QR_BOUNDS, only at_all."""
    return check(what, good if ASSERT_BOUNDS else at_all)


def report(number, what, value, bound):
    """Prints a figure other than a time. The bound is text; the caller checks it."""
    print(f"ROW {number}: {what}: {value} (bound {bound})", flush=True)


def until(test, seconds=TIMEOUT_S, every=0.005):
    """Waits until test() is true. Returns False after the timeout."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if test(): return True
        time.sleep(every)
    return bool(test())


def folder(name):
    path = os.path.join(WORK, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def job(name, data=None, train=None, **top):
    """Writes the tutorial's job file with some keys changed; returns its path."""
    with open(ROOT + "/deploy/jobs/qcnn.json") as f: j = json.load(f)
    j.update(top, name=name)
    j["data"].update(data or {})
    j["train"].update(train or {})
    path = f"{WORK}/{name}.json"
    os.makedirs(WORK, exist_ok=True)
    with open(path, "w") as f: json.dump(j, f)
    return path


def certs(job_file):
    """Returns a folder with the job's certificate, key and CA, for the argument tls of Ring."""
    out = folder("tls-" + os.path.basename(job_file).removesuffix(".json"))
    subprocess.run([QRING, "certs", job_file, "--out", out], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    return out


WEIGHTS = ("weights.h5", "weights.safetensors")
truths = {}


def alone(job_file, epochs):
    """Folder of truth()'s run. Its key omits the job's name, which appears in no output."""
    with open(job_file) as f: settings = {k: v for k, v in json.load(f).items() if k != "name"}
    return f"{WORK}/alone-{zlib.crc32(json.dumps(settings, sort_keys=True).encode()):08x}-{epochs}"


def truth(job_file, epochs):
    """Returns (digest, bytes of steps.jsonl) of one undisturbed worker. Cached by job, without its
    name, and epochs."""
    out = key = alone(job_file, epochs)
    if key not in truths:
        folder(os.path.basename(out))
        with open(out + ".log", "w") as log:
            code = subprocess.run([QRINGD, job_file, "--epochs", str(epochs), "--out", out], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                  timeout=1500).returncode
        if code: raise SystemExit(f"the undisturbed worker exited with {code}: {out}.log")
        with open(out + "/result.json") as f: digest = json.load(f)["state_digest"]
        with open(out + "/steps.jsonl", "rb") as f: truths[key] = digest, f.read()
    return truths[key]


class Ring:
    """n workers on loopback, configured by TF_CONFIG. A thread watches the ring's steps.jsonl:
    growth[] has (time, bytes)."""

    def __init__(self, name, job_file, n, epochs, flags=(), peers=None, prefix=None, env=None, tls=None):
        self.name, self.job, self.n, self.epochs, self.dir = name, job_file, n, epochs, folder(name)
        self.out, self.flags, self.env = self.dir + "/out", list(flags), env or {}
        self.peers = peers or [f"127.0.0.1:{p}" for p in free_ports(n)]
        self.prefix = prefix or (lambda i: [])  # worker i's command prefix: ["ip", "netns", "exec", "pod1"]
        self.tls = tls
        if tls: self.flags += ["--tls-dir", tls]
        self.worker, self.growth, self.closed = {}, [], False
        os.makedirs(self.out)
        threading.Thread(target=self._watch, daemon=True).start()
        rings.append(self)

    def _watch(self):
        path, last = self.out + "/steps.jsonl", 0
        while not self.closed:
            try: size = os.stat(path).st_size
            except OSError: size = 0
            if size != last:
                self.growth.append((time.monotonic(), size))
                last = size
            time.sleep(0.002)

    def tf_config(self, i): return json.dumps({"cluster": {"worker": self.peers}, "task": {"type": "worker", "index": i}})

    def command(self, i, *more):
        return self.prefix(i) + [QRINGD, self.job, "--epochs", str(self.epochs), "--out", self.out, "--data-port", "0", "--threads", "1",
                                 *self.flags, *more]

    def start(self, i, *more, env=None, wrap=()):
        """wrap: a command before the prefix, for example gdb."""
        with open(f"{self.dir}/worker{i}.log", "a") as log:
            self.worker[i] = subprocess.Popen([*wrap, *self.command(i, *more)], env={**os.environ, "TF_CONFIG": self.tf_config(i), **self.env, **(env or {})},
                                              stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self.worker[i]

    def start_all(self, lines=20, seconds=TIMEOUT_S):
        """Starts all workers; waits until steps.jsonl has that many lines and all have joined."""
        for i in range(self.n): self.start(i)
        return self.reaches(lines, seconds) & self.joined(seconds)

    def joined(self, seconds=TIMEOUT_S):
        """Waits until one ring contains all started workers. Use only before the first fault: any
        earlier line in the log counts."""
        n = len(self.worker)
        there = n == 1 or until(lambda: all(f"over {n} workers" in self.log(i) for i in self.worker), seconds, 0.01)
        return check(f"{self.name}: all {n} workers are in the ring within {seconds} s; {self.last_lines()}", there)

    def reaches(self, lines, seconds=TIMEOUT_S):
        there = until(lambda: self.lines() >= lines, seconds)
        return check(f"{self.name}: {lines} lines in steps.jsonl within {seconds} s; {self.last_lines()}", there)

    def lines(self):
        try:
            with open(self.out + "/steps.jsonl", "rb") as f: return f.read().count(b"\n")
        except OSError: return 0

    def kill(self, i, number=signal.SIGKILL): self.worker[i].send_signal(number)
    def alive(self): return [i for i, w in self.worker.items() if w.poll() is None]

    def log(self, i):
        try:
            with open(f"{self.dir}/worker{i}.log", errors="replace") as f: return f.read()
        except OSError: return ""

    def last_lines(self): return " | ".join(f"worker {i}: " + (self.log(i).strip().splitlines() or ["nothing"])[-1][-200:] for i in sorted(self.worker))

    def grows_after(self, at, times=3, seconds=TIMEOUT_S):
        """Seconds from `at` until steps.jsonl has grown `times` times. More than one, because a
        step that had begun before the fault may still complete."""
        later = lambda: [t for t, _ in self.growth if t > at]
        grew = until(lambda: len(later()) >= times, seconds)
        check(f"{self.name}: training continues within {seconds} s; {self.last_lines()}", grew)
        return later()[times - 1] - at if grew else seconds

    def longest_gap(self, begin, end):
        """The longest interval without growth that overlaps begin..end."""
        t = [x for x, _ in self.growth]
        return max((b - a for a, b in zip(t, t[1:]) if b > begin and a < end), default=end - begin)

    def wait_log(self, i, words, seconds=TIMEOUT_S, since=0):
        """Seconds until worker i's log contains the words after position `since`; None on
        timeout."""
        began = time.monotonic()
        return time.monotonic() - began if until(lambda: words in self.log(i)[since:], seconds, 0.01) else None

    def wait(self, seconds=120):
        """Returns exit codes by index (negative: a signal). Kills a worker that hangs, and counts a
        failure."""
        end = time.monotonic() + seconds
        for i, w in self.worker.items():
            try: w.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                check(f"{self.name}: worker {i} does not exit; {self.last_lines()}", False)
                w.kill()
                w.wait()
        return {i: w.returncode for i, w in sorted(self.worker.items())}

    def same(self):
        """Checks that digest and steps.jsonl equal those of the undisturbed run."""
        digest, log = truth(self.job, self.epochs)
        try:
            with open(self.out + "/result.json") as f: mine = json.load(f)["state_digest"]
            with open(self.out + "/steps.jsonl", "rb") as f: steps = f.read()
        except OSError as e: return check(f"{self.name}: {e}; {self.last_lines()}", False)
        return check(f"{self.name}: digest {mine}, not {digest}", mine == digest) & check(f"{self.name}: each step once in steps.jsonl", steps == log)

    def same_weights(self):
        """Also checks that the weights files equal those of the undisturbed run, byte for byte."""
        good = self.same()
        for name in WEIGHTS:
            with open(f"{alone(self.job, self.epochs)}/{name}", "rb") as f: theirs = f.read()
            try:
                with open(f"{self.out}/{name}", "rb") as f: mine = f.read()
            except OSError as e: mine = str(e)
            good &= check(f"{self.name}: the bytes of {name}", mine == theirs)
        return good

    def settle(self, n=1, seconds=60, extra=2):
        """Ends a ring started with more epochs than it has time for: sends SIGTERM to all workers,
        then runs n undisturbed workers to the end of a later epoch, so that same() can compare.
        Returns the exit codes after SIGTERM."""
        for i in self.alive(): self.kill(i, signal.SIGTERM)
        codes = self.wait(seconds)
        with open(self.out + "/steps.jsonl") as f: self.epochs = json.loads(f.readlines()[-1])["epoch"] + extra
        self.worker.clear()
        self.peers = [f"127.0.0.1:{p}" for p in free_ports(n)]
        for i in range(n): self.start(i, "--min-workers", "1")
        finishing = self.wait(seconds)
        check(f"{self.name}: the finishing workers exit with 0, not {finishing}; {self.last_lines()}", set(finishing.values()) == {0})
        return codes

    def position(self, i):
        """Current end of worker i's log, for wait_log(since=)."""
        return len(self.log(i))

    def joins(self, i, since=0, seconds=TIMEOUT_S):
        """Seconds until worker i, started or resumed, trains with others. A resumed worker need not
        fetch the state: it may have trained alone and lead the new ring."""
        began = time.monotonic()
        there = until(lambda: re.search(r"fetched the state|resumed after step \d+ with [2-9]", self.log(i)[since:]), seconds, 0.005)
        check(f"{self.name}: worker {i} joins the ring within {seconds} s; {self.last_lines()}", there)
        return time.monotonic() - began

    def regroups(self, i, since=0):
        """Number of generations worker i has begun since that position in its log, except its
        first."""
        return self.log(i)[since:].count("resumed after step")

    def close(self):
        self.closed = True
        for w in self.worker.values():
            if w.poll() is None:
                w.kill()
                w.wait()
        for i in self.worker:
            found = re.search(r"^.*(Sanitizer: |runtime error: ).*$", self.log(i), re.M)
            if found: check(f"worker {i}: {found[0]}", False)


def row(number, timed=False):
    def keep(f):
        rows.append((number, timed, f))
        return f
    return keep


def main():
    wanted = [int(a) for a in sys.argv[1:]]
    for turn[0] in range(REPEAT):
        for number, timed, f in rows:
            if (wanted and number not in wanted) or (REPEAT > 1 and not timed): continue
            began, busy = time.monotonic(), sum(os.times()[:4])
            try: f()
            except Exception as e: check(f"row {number}, {f.__name__}: {type(e).__name__}: {e}", False)
            finally:
                while rings: rings.pop().close()
            print(f"    row {number}, {f.__name__}: {time.monotonic() - began:.1f} s in total, {sum(os.times()[:4]) - busy:.1f} s of CPU time", flush=True)
    for (number, what), (s, bound) in sorted(figures.items()):
        if REPEAT > 1: print(f"{number:3d}  {what:60s} {len(s):3d} times: median {statistics.median(s):.3f} s, worst {max(s):.3f} s, bound {bound} s")
        if ASSERT_BOUNDS: check(f"row {number}: {what}: median within {bound} s, not {statistics.median(s):.3f} s", statistics.median(s) <= bound)
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    sys.exit(counts["failed"] > 0)
