"""Rings of real workers for the fault rows (tests/faults/rows_*.py): start, disturb, observe, compare.

A program of rows has functions under @row(NUMBER, ...) and ends with main(). It has its own working directory; QR_BIN and QR_B are set by
tests/run; `rows_x.py 5 6` runs those rows, and REPEAT=20 repeats the rows that measure a time and prints median and maximum of each
figure. Every row compares with one undisturbed worker. A test asserts that something happens at all: times and rates are printed, and bounds, those of
tests/faults/README.md, are asserted on virtual time (tests/cluster_sim). QR_BOUNDS=1 (`make faults`, on an idle machine) asserts them here too.
"""
import json, os, re, shutil, signal, statistics, subprocess, sys, threading, time, zlib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, ROOT + "/tests")
from free_ports import free_ports

BIN = os.path.join(ROOT, os.environ.get("QR_BIN", "build/bin"))
QRINGD, QRING = BIN + "/qringd", BIN + "/qring"
WORK = os.path.join(ROOT, os.environ.get("QR_B", "build/release"), "faults", os.path.basename(sys.argv[0]).removesuffix(".py"))
SANITIZED = not os.environ.get("QR_B", "release").endswith("release")  # slow, and its memory is another
ASSERT_BOUNDS = bool(os.environ.get("QR_BOUNDS"))
TIMEOUT_S = 60  # seconds for what must happen at all
REPEAT = int(os.environ.get("REPEAT", "1"))
CWD = WORK + "/cwd"
subprocess.run([ROOT + "/tests/cwd", CWD], check=True)
os.chdir(CWD)  # where programs write by default is not the user's
for name in list(os.environ):
    if name.startswith("QRING_") or name == "TF_CONFIG": del os.environ[name]
os.environ["QRING_HTTP_PORT"] = "0"

counts = {"passed": 0, "failed": 0, "skipped": 0}
figures = {}  # (row, what) -> ([seconds], bound)
rows, rings = [], []
turn = [0]  # which of REPEAT this is: rows may take turns in what they vary


def check(what, good):
    counts["passed" if good else "failed"] += 1
    if not good: print("not so:", what, flush=True)
    return good


def skip(what):
    counts["skipped"] += 1
    print("SKIP", what, flush=True)


def figure(number, what, seconds, bound):
    """A measured time: printed, and kept for the table, where the median is judged."""
    figures.setdefault((number, what), ([], bound))[0].append(seconds)
    print(f"ROW {number}: {what}: {seconds:.3f} s (bound {bound} s)", flush=True)
    return check(f"row {number}: {what} within {TIMEOUT_S} s, not {seconds:.3f} s", seconds <= max(TIMEOUT_S, 2 * bound))


def check_speed(what, good, at_all=True):
    """What depends on how fast the machine is; at_all must hold on a busy one too."""
    return check(what, good if ASSERT_BOUNDS else at_all)


def report(number, what, value, bound):
    """A figure that is no time."""
    print(f"ROW {number}: {what}: {value} (bound {bound})", flush=True)


def until(test, seconds=TIMEOUT_S, every=0.005):
    """Waits until test() is true; False when it never was."""
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
    """A job file made of the tutorial's, with these keys changed; its path."""
    with open(ROOT + "/deploy/jobs/qcnn.json") as f: j = json.load(f)
    j.update(top, name=name)
    j["data"].update(data or {})
    j["train"].update(train or {})
    path = f"{WORK}/{name}.json"
    os.makedirs(WORK, exist_ok=True)
    with open(path, "w") as f: json.dump(j, f)
    return path


def certs(job_file):
    """A folder with a job's certificate, its key and its CA, for Ring's tls=."""
    out = folder("tls-" + os.path.basename(job_file).removesuffix(".json"))
    subprocess.run([QRING, "certs", job_file, "--out", out], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    return out


WEIGHTS = ("weights.h5", "weights.safetensors")
truths = {}


def alone(job_file, epochs):
    """The folder of truth(). A job's name reaches none of what it leaves."""
    with open(job_file) as f: settings = {k: v for k, v in json.load(f).items() if k != "name"}
    return f"{WORK}/alone-{zlib.crc32(json.dumps(settings, sort_keys=True).encode()):08x}-{epochs}"


def truth(job_file, epochs):
    """(digest, bytes of steps.jsonl) of one worker that nobody disturbed. Once for the jobs that differ in their name alone, and a number of epochs."""
    out = key = alone(job_file, epochs)
    if key not in truths:
        folder(os.path.basename(out))
        with open(out + ".log", "w") as log:
            code = subprocess.run([QRINGD, job_file, "--epochs", str(epochs), "--out", out], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                  timeout=1500).returncode
        if code: raise SystemExit(f"one worker alone ends with {code}: {out}.log")
        with open(out + "/result.json") as f: digest = json.load(f)["state_digest"]
        with open(out + "/steps.jsonl", "rb") as f: truths[key] = digest, f.read()
    return truths[key]


class Ring:
    """n workers that know each other by TF_CONFIG on loopback. The ring's steps.jsonl is watched by a thread: growth[] has (time, bytes)."""

    def __init__(self, name, job_file, n, epochs, flags=(), peers=None, prefix=None, env=None, tls=None):
        self.name, self.job, self.n, self.epochs, self.dir = name, job_file, n, epochs, folder(name)
        self.out, self.flags, self.env = self.dir + "/out", list(flags), env or {}
        self.peers = peers or [f"127.0.0.1:{p}" for p in free_ports(n)]
        self.prefix = prefix or (lambda i: [])  # a command in front, by index: ["ip", "netns", "exec", "pod1"]
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
        """wrap: a command in front of all, gdb for example."""
        with open(f"{self.dir}/worker{i}.log", "a") as log:
            self.worker[i] = subprocess.Popen([*wrap, *self.command(i, *more)], env={**os.environ, "TF_CONFIG": self.tf_config(i), **self.env, **(env or {})},
                                              stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self.worker[i]

    def start_all(self, lines=20, seconds=TIMEOUT_S):
        """All of them, until so many lines are in steps.jsonl and nobody waits to be taken in."""
        for i in range(self.n): self.start(i)
        return self.reaches(lines, seconds) & self.joined(seconds)

    def joined(self, seconds=TIMEOUT_S):
        """Waits until all that were started work in one ring; not for rings that other things have disturbed by then."""
        n = len(self.worker)
        there = n == 1 or until(lambda: all(f"over {n} workers" in self.log(i) for i in self.worker), seconds, 0.01)
        return check(f"{self.name}: all {n} are in the ring within {seconds} s; {self.last_lines()}", there)

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
        """Seconds from `at` until steps.jsonl has grown so many times: what was under way when a fault came may pass once."""
        later = lambda: [t for t, _ in self.growth if t > at]
        grew = until(lambda: len(later()) >= times, seconds)
        check(f"{self.name}: training goes on within {seconds} s; {self.last_lines()}", grew)
        return later()[times - 1] - at if grew else seconds

    def longest_gap(self, begin, end):
        """The longest time without growth that touches begin..end."""
        t = [x for x, _ in self.growth]
        return max((b - a for a, b in zip(t, t[1:]) if b > begin and a < end), default=end - begin)

    def wait_log(self, i, words, seconds=TIMEOUT_S, since=0):
        """Seconds until worker i's log has the words after position `since`; None when it never did."""
        began = time.monotonic()
        return time.monotonic() - began if until(lambda: words in self.log(i)[since:], seconds, 0.01) else None

    def wait(self, seconds=120):
        """Exit codes by index (negative: a signal). Who hangs is killed and counted as failed."""
        end = time.monotonic() + seconds
        for i, w in self.worker.items():
            try: w.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                check(f"{self.name}: worker {i} hangs; {self.last_lines()}", False)
                w.kill()
                w.wait()
        return {i: w.returncode for i, w in sorted(self.worker.items())}

    def same(self):
        """Digest and steps.jsonl are the undisturbed run's."""
        digest, log = truth(self.job, self.epochs)
        try:
            with open(self.out + "/result.json") as f: mine = json.load(f)["state_digest"]
            with open(self.out + "/steps.jsonl", "rb") as f: steps = f.read()
        except OSError as e: return check(f"{self.name}: {e}; {self.last_lines()}", False)
        return check(f"{self.name}: digest {mine}, not {digest}", mine == digest) & check(f"{self.name}: each step once in steps.jsonl", steps == log)

    def same_weights(self):
        """The weights' files are the undisturbed run's, byte for byte, whoever wrote them."""
        good = self.same()
        for name in WEIGHTS:
            with open(f"{alone(self.job, self.epochs)}/{name}", "rb") as f: theirs = f.read()
            try:
                with open(f"{self.out}/{name}", "rb") as f: mine = f.read()
            except OSError as e: mine = str(e)
            good &= check(f"{self.name}: the bytes of {name}", mine == theirs)
        return good

    def settle(self, n=1, seconds=60, extra=2):
        """Of a ring that was told more epochs than it will have time for: asks all to leave, and n calm workers go on to the end of an epoch soon
        after. Then same() can compare. Returns the exit codes of those that were asked."""
        for i in self.alive(): self.kill(i, signal.SIGTERM)
        codes = self.wait(seconds)
        with open(self.out + "/steps.jsonl") as f: self.epochs = json.loads(f.readlines()[-1])["epoch"] + extra
        self.worker.clear()
        self.peers = [f"127.0.0.1:{p}" for p in free_ports(n)]
        for i in range(n): self.start(i, "--min-workers", "1")
        calm = self.wait(seconds)
        check(f"{self.name}: the calm ones end with 0, not {calm}; {self.last_lines()}", set(calm.values()) == {0})
        return codes

    def position(self, i):
        """Where worker i's log ends now, for wait_log(since=)."""
        return len(self.log(i))

    def joins(self, i, since=0, seconds=TIMEOUT_S):
        """Seconds until worker i, that came or was away, works with others. (One that was frozen may have trained on alone, and lead them then.)"""
        began = time.monotonic()
        there = until(lambda: re.search(r"fetched the state|resumed after step \d+ with [2-9]", self.log(i)[since:]), seconds, 0.005)
        check(f"{self.name}: worker {i} comes into the ring within {seconds} s; {self.last_lines()}", there)
        return time.monotonic() - began

    def regroups(self, i, since=0):
        """How many generations worker i has begun since that position in its log, its first one left out."""
        return self.log(i)[since:].count("resumed after step")

    def close(self):
        self.closed = True
        for w in self.worker.values():
            if w.poll() is None:
                w.kill()
                w.wait()
        for i in self.worker:
            report = re.search(r"^.*(Sanitizer: |runtime error: ).*$", self.log(i), re.M)  # also of those that were killed afterwards
            if report: check(f"worker {i}: {report[0]}", False)


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
            print(f"    row {number}, {f.__name__}: {time.monotonic() - began:.1f} s in all, {sum(os.times()[:4]) - busy:.1f} s of processor", flush=True)
    for (number, what), (s, bound) in sorted(figures.items()):
        if REPEAT > 1: print(f"{number:3d}  {what:60s} {len(s):3d} times: median {statistics.median(s):.3f} s, worst {max(s):.3f} s, bound {bound} s")
        if ASSERT_BOUNDS: check(f"row {number}: {what}: median within {bound} s, not {statistics.median(s):.3f} s", statistics.median(s) <= bound)
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    sys.exit(counts["failed"] > 0)
