#!/usr/bin/python3
"""Rows about special files. 49: an input is not a regular file, or declares more data than it holds
or than fits. 50: an output would overwrite a file that a job file names, follow a link, or go into
another run's folder."""
import json, os, re, resource, signal, socket, struct, subprocess, sys, time, zlib

from ring import QRING, QRINGD, Ring, SANITIZED, TIMEOUT_S, WORK, check, figure, folder, job, main, report, row, skip, until

ENDLESS = 1000000


def with_data(name, kind, path, **top):
    """Writes a job file whose data is that file; returns its path."""
    with open(job(name, **top)) as f: j = json.load(f)
    j["data"] = {"source": kind, "url": path, "train_fraction": 0.7}
    with open(f"{WORK}/{name}.json", "w") as f: json.dump(j, f)
    return f.name


def expect(what, command, code, words, env=None, megabytes=None):
    """Checks that the command exits by itself with this code and prints all these words; returns
    (seconds, peak MiB)."""
    began = time.monotonic()
    with open(f"{WORK}/output", "w+") as output:
        p = subprocess.Popen(command, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
        gone = until(lambda: os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None, TIMEOUT_S)
        if not gone: os.killpg(p.pid, signal.SIGKILL)
        _, status, used = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    seconds, most = time.monotonic() - began, used.ru_maxrss / 1024
    last = (text.strip().splitlines() or ["no output"])[-1][-400:]
    check(f"{what}: does not exit; last line: {last}", gone)
    check(f"{what}: exit code {p.returncode}, not {code}: {last}", p.returncode == code)
    for w in words: check(f"{what}: does not print '{w}': {last}", w in text)
    if megabytes and not SANITIZED: check(f"{what}: takes {most:.0f} MiB, more than {megabytes}: {last}", most <= megabytes)
    return seconds, most


# ---- row 49: inputs ----

def odd_files(where):
    """Returns {name in error messages: path}."""
    fifo, sock = where + "/fifo", where + "/socket"
    os.mkfifo(fifo)
    s = socket.socket(socket.AF_UNIX)
    s.bind(os.path.relpath(sock))
    return {"FIFO": fifo, "device": "/dev/zero", "socket": sock, "directory": where}


@row(49)
def not_a_regular_file():
    where, base = folder("odd"), job("odd")
    out, slowest, tried = where + "/out", 0, 0
    os.makedirs(where + "/tls")
    odd = odd_files(where)
    for kind, path in odd.items():
        named = where + "/named." + kind
        os.symlink(path, named + ".h5")
        os.symlink(path, named + ".npz")
        latest = folder("odd-latest")
        os.symlink(path, latest + "/LATEST")
        cases = {
            "job of qring show": [QRING, "show", path], "job of qring run": [QRING, "run", path, "--out", out], "job of qringd": [QRINGD, path, "--out", out],
            "npz data": [QRINGD, with_data("odd-npz", "npz", path), "--out", out],
            "csv data": [QRINGD, with_data("odd-csv", "csv", path), "--out", out],
            "initial weights": [QRINGD, job("odd-initial", train={"initial_weights": named + ".h5"}), "--out", out],
            "weights": [QRING, "infer", base, "--weights", named + ".npz"],
            "weights to list": [QRING, "weights", named + ".h5"],
            "certificate": [QRINGD, base, "--out", out, "--index", "0", "--peers", "127.0.0.1:1,127.0.0.1:2", "--tls-cert", path, "--tls-key", path, "--tls-ca", path],
            "credentials": [QRINGD, "gs://bucket/job.json", "--out", out],
            "LATEST": [QRINGD, base, "--out", out, "--checkpoints", latest],
        }
        for what, command in cases.items():
            env = {"GOOGLE_APPLICATION_CREDENTIALS": path} if what == "credentials" else None
            took, _ = expect(f"a {kind} as {what}", command, 2, [f"is a {kind}, not a regular file"], env, megabytes=100)
            slowest, tried = max(slowest, took), tried + 1
    check("no file is written", not os.path.exists(out) or not any(files for _, _, files in os.walk(out)))
    figure(49, f"FIFO, device, socket and directory as job, data, weights, certificate, credentials, LATEST: {tried} messages, the slowest", slowest, 1.0)
    # A shell passes <(...) and a pipe as FIFOs.
    took, _ = expect("a job by process substitution", ["bash", "-c", f'"{QRING}" run <(cat {base}) --out {out}'], 2, ["is a FIFO, not a regular file"])
    took, _ = expect("a job from a pipe", ["bash", "-c", f'cat {base} | "{QRING}" show /dev/stdin'], 2, ["is a FIFO, not a regular file"])
    expect("a file as standard input", ["bash", "-c", f'"{QRING}" show /dev/stdin <{base}'], 0, [])


c = zlib.compressobj(9, zlib.DEFLATED, -15)
MEGABYTE = c.compress(bytes(1 << 20)) + c.flush(zlib.Z_FULL_FLUSH)  # zeros as raw deflate, can be repeated


def npy(shape, kind="<f8"):
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (63 - (10 + len(text)) % 64) + b"\n"
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(text)) + text


def deflated(shape, kind="<f8", megabytes=0, rest=0):
    """Returns (compressed bytes, size) of a member: this header, then zeros (megabytes MiB and rest
    bytes)."""
    head = npy(shape, kind)
    c = zlib.compressobj(9, zlib.DEFLATED, -15)
    begin = c.compress(head) + c.flush(zlib.Z_FULL_FLUSH)
    c = zlib.compressobj(9, zlib.DEFLATED, -15)
    return begin + MEGABYTE * megabytes + c.compress(bytes(rest)) + c.flush(), len(head) + (megabytes << 20) + rest


def archive(path, members, at=None):
    """Writes a zip of [(name, packed, size)] with wrong CRCs, which no reader reaches. at: offsets
    of members that the directory claims."""
    body, directory, offsets = b"", b"", {}
    for name, packed, size in members:
        offsets[name] = len(body)
        head = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, 0, len(packed), size, len(name), 0)
        body += b"PK\3\4" + head + name.encode() + packed
        where = (at or {}).get(name, offsets[name])
        directory += b"PK\1\2" + struct.pack("<H", 20) + head + struct.pack("<HHHII", 0, 0, 0, 0, where) + name.encode()
    with open(path, "wb") as f:
        f.write(body + directory + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(directory), len(body), 0))
    return path


@row(49)
def bombs():
    where = folder("bombs")
    y = ("y.npy", *deflated("(32,)", rest=32 * 8))
    labels = ("y.npy", *deflated("(33554432,)", megabytes=256))
    wide = archive(where + "/wide.npz", [("x.npy", *deflated("(268435456,)", megabytes=2048)), labels])
    other = archive(where + "/other.npz", [("x.npy", *deflated("(33554432, 8)", megabytes=2048)), ("z.npy", *deflated("(134217728,)", megabytes=1024)), y])
    packed, _ = deflated("(33554432, 8)", megabytes=1)
    lies = archive(where + "/lies.npz", [("x.npy", packed, len(npy("(33554432, 8)")) + (2048 << 20)), labels])
    small = archive(where + "/small.npz", [("x.npy", deflated("(64, 8)", megabytes=2048)[0], len(npy("(64, 8)")) + 64 * 64), ("y.npy", *deflated("(64,)", rest=64 * 8))])
    weights = archive(where + "/weights.npz", [("pqc/parameters.npy", *deflated("(134217728,)", megabytes=1024))])
    sizes = {f: os.path.getsize(f"{where}/{f}") for f in os.listdir(where)}
    most = 0
    run = lambda path: [QRINGD, with_data("bomb", "npz", path), "--out", where + "/out"]
    for what, path, words in [("2 GiB in a wrong shape", wide, ["wide.npz", "array x has 1 dimension"]),
                              ("2 GiB of x for 32 labels", other, ["other.npz", "x has 33554432 samples, but y has"]),
                              ("2 GiB declared, 3 KB stored", lies, ["lies.npz", "member 'x.npy'", "2147483776 bytes", "at most"]),
                              ("4 KB declared, 2 GiB stored", small, ["small.npz", "member 'x", "more bytes than"])]:
        took, used = expect(f"a bomb: {what}", run(path), 4, words, megabytes=100)
        most = max(most, used)
    took, used = expect("a bomb of weights", [QRING, "infer", job("bomb"), "--weights", weights], 2, ["weights.npz", "pqc/parameters", "134217728"], megabytes=100)
    report(49, f"npz files of {min(sizes.values())} to {max(sizes.values())} bytes that hold or declare 2 GiB: peak memory", f"{max(most, used):.0f} MiB", 100)


@row(49)
def bombs_with_memory_limit():
    """In a container of 512 MiB: arrays of the right shape, and a safetensors file whose tensors
    overlap."""
    where, box = folder("limit"), folder("limit-cgroup")
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode: return skip("a memory limit: no mount namespace")
    with open(box + "/memory.max", "w") as f: f.write(f"{512 << 20}\n")
    inside = ["unshare", "-m", "sh", "-c", f'mount --bind {box} /sys/fs/cgroup && exec "$@"', "sh"]
    labels = ("y.npy", *deflated("(33554432,)", "|b1", megabytes=32))
    right = archive(where + "/right.npz", [("x.npy", *deflated("(33554432, 8)", megabytes=2048)), labels])
    bytes_ = archive(where + "/bytes.npz", [("x.npy", *deflated("(33554432, 8)", "|b1", megabytes=256)), labels])
    run = lambda path: [*inside, QRINGD, with_data("limited", "npz", path), "--out", where + "/out"]
    most = max(expect(f"{what} of the right shape, limit of 512 MiB", run(path), 2, [name, "member 'x", "2147483648", "536870912"], megabytes=100)[1]
               for what, path, name in [("2 GiB", right, "right.npz"), ("256 MiB that become 2 GiB", bytes_, "bytes.npz")])
    header = json.dumps({f"t{i}": {"dtype": "U8", "shape": [8 << 20], "data_offsets": [0, 8 << 20]} for i in range(60)}).encode()
    with open(where + "/same.safetensors", "wb") as f: f.write(struct.pack("<Q", len(header)) + header + bytes(8 << 20))
    _, used = expect("60 tensors on the same 8 MiB", [*inside, QRING, "weights", where + "/same.safetensors"], 4, ["same.safetensors", "they overlap"], megabytes=100)
    report(49, "arrays of 2 GiB of the right shape and overlapping tensors, limit of 512 MiB: peak memory", f"{max(most, used):.0f} MiB", 100)


# ---- row 50: outputs ----

def content(path):
    with open(path, "rb") as f: return f.read()


PRECIOUS = b"line 1 of a file that must stay\nline 2\n"


def precious(where, name="precious"):
    with open(f"{where}/{name}", "wb") as f: f.write(PRECIOUS)
    return f"{where}/{name}"


@row(50)
def termination_log_of_job_file():
    """An untrusted job file names the termination log; the job fails, because its data is
    missing."""
    where = folder("words")
    kept, empty, fifo = precious(where), where + "/empty", where + "/fifo"
    open(empty, "w").close()
    os.mkfifo(fifo)
    os.symlink("empty", where + "/link")
    fails = lambda path: with_data("words", "csv", where + "/nowhere.csv", worker={"termination_log": path})
    run = lambda job_file, *more: [QRINGD, job_file, "--out", where + "/out", *more]
    expect("a file with content", run(fails(kept)), 2, ["worker.termination_log", kept, "is not overwritten"])
    good = check("the file is unchanged", content(kept) == PRECIOUS)
    for path in where + "/link", fifo: expect(f"{path}", run(fails(path)), 2, ["worker.termination_log", path, "nowhere.csv"])
    check("the link is not followed", content(empty) == b"")
    expect("an empty file, as the kubelet makes it", run(fails(empty)), 2, ["nowhere.csv"])
    check("the empty file has the reason", b"nowhere.csv" in content(empty))
    expect("a missing file", run(fails(where + "/absent")), 2, ["nowhere.csv"])
    check("no file is created", not os.path.exists(where + "/absent"))
    expect("a file named by the flag", run(fails(kept), "--termination-log", kept), 2, ["nowhere.csv"])
    check("the flag's file has the reason", b"nowhere.csv" in content(kept))
    expect("a FIFO without a reader, by a flag", run(fails(empty), "--termination-log", fifo), 2, ["nowhere.csv"])
    report(50, "worker.termination_log of a job file names a file with content", "unchanged" if good else "overwritten", "unchanged")


@row(50)
def links():
    where, base = folder("links"), job("links")
    kept = precious(where)
    lost = 0
    for name in "steps.jsonl", "worker-0.log":
        for how, link in ("a symbolic link", os.symlink), ("names (hard links)", os.link):
            out = folder("links-out")
            link(kept, f"{out}/{name}")
            for what, command in ("qring run", [QRING, "run", base, "--epochs", "2", "--out", out]), ("qringd", [QRINGD, base, "--epochs", "2", "--out", out]):
                if name != "steps.jsonl" and what == "qringd": continue
                expect(f"{what}: {name} {how}", command, 2, [f"{out}/{name}", how, "--out"])
                check(f"{what}: {name} {how}: no file is written: {os.listdir(out)}", [f for f in os.listdir(out) if os.path.isfile(f"{out}/{f}")] == [name])
                if not check(f"{what}: {name} {how}: the link's target is unchanged", content(kept) == PRECIOUS): lost, kept = lost + 1, precious(where)
    for name in "result.json", "provenance.json", "weights.h5", "weights.safetensors":  # written by rename, which replaces a link
        out = folder("links-out")
        os.symlink(kept, f"{out}/{name}")
        expect(f"{name} a link", [QRINGD, base, "--epochs", "2", "--out", out], 0, ["done"])
        check(f"{name}: the link is replaced, not followed", content(kept) == PRECIOUS and not os.path.islink(f"{out}/{name}"))
    out = folder("links-out")
    os.mkfifo(out + "/steps.jsonl")
    expect("steps.jsonl a FIFO", [QRINGD, base, "--epochs", "2", "--out", out], 2, ["steps.jsonl", "is a FIFO", "--out"])
    report(50, "steps.jsonl or a log is a link: changed targets", lost, 0)


def started(command, log, env=None):
    with open(log, "w") as f:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=f, stderr=f, env={**os.environ, **(env or {})}, start_new_session=True)


def lines(out):
    try: return content(out + "/steps.jsonl").count(b"\n")
    except OSError: return 0


def kill_group(p):
    if p.poll() is None: os.killpg(p.pid, signal.SIGKILL)
    p.wait()


@row(50)
def two_runs():
    """One run trains; a second of the same job starts in its folder, in each possible way."""
    where, base = folder("two"), job("two")
    out = where + "/out"
    run = [QRING, "run", base, "-n", "2", "--out", out, "--epochs", str(ENDLESS)]
    single = [QRINGD, base, "--out", out, "--epochs", str(ENDLESS)]
    pair = ["--index", "0", "--peers", "127.0.0.1:9,127.0.0.1:10", "--start-timeout", "2s", "--data-port", "0"]
    seconds = {"qring run": run, "qring run --fresh": run + ["--fresh"], "a lone qringd": single, "a worker of another ring": single + pair}
    for first in "qring run", "a lone qringd":
        p = started(seconds[first], where + "/first.log")
        holds = lambda: os.path.exists(out + "/.qring.lock") and str(p.pid) in content(out + "/.qring.lock").decode()
        check(f"{first}: trains", until(lambda: holds() and lines(out) > 20))
        for second, command in list(seconds.items())[0 if first == "qring run" else 1 :: 1 if first == "qring run" else 2]:
            before = os.stat(out + "/checkpoints/LATEST").st_ino if os.path.exists(out + "/checkpoints/LATEST") else 0
            took, _ = expect(f"{first}, then {second}", command, 2, [out, "is in use", f"process {p.pid}", os.uname().nodename, "--out"])
            figure(50, f"{first} trains, then {second} into its folder: refused", took, 2.0)
            there = os.path.exists(out + "/checkpoints")
            check(f"{first}, then {second}: the checkpoints stay", there or before == 0)
        expect(f"{first}, then qring validate", [QRING, "validate", base, "--out", out], 2, [out, "is in use", f"process {p.pid}"])
        n = lines(out)
        check(f"{first}: continues to train", p.poll() is None and until(lambda: lines(out) > n))
        kill_group(p)  # SIGKILL releases the lock
        p = started(single, where + "/next.log")
        n = lines(out)
        check(f"after SIGKILL of {first} the next run trains", until(lambda: lines(out) > n))
        p.send_signal(signal.SIGTERM)
        check("exits after SIGTERM", until(lambda: p.poll() is not None))
        kill_group(p)
        # On a busy machine the watchdog may end the process before it has closed its connections.
        in_time = b"a call hangs while closing the connections" not in content(where + "/next.log")
        check(f"the lock file is removed: {os.listdir(out)}", not in_time or ".qring.lock" not in os.listdir(out))
    log = content(where + "/next.log").decode()
    check(f"the next run is not refused: {log[-300:]}", "in use" not in log)


@row(50)
def one_ring():
    """Workers of one ring share a folder, also after the first is killed and restarted."""
    r = Ring("one", job("one"), 3, ENDLESS, ["--min-workers", "1", "--form-timeout", "2s"])
    r.start_all()
    r.kill(0)
    r.worker[0].wait()
    had, n = r.position(1), r.lines()
    check("the others continue", until(lambda: r.lines() > n + 20))
    r.start(0)
    r.joins(0)
    other = Ring("one-other", r.job, 2, ENDLESS)
    other.out = r.out
    p = other.start(0)
    check(f"a worker of another ring is refused: {other.last_lines()}", until(lambda: p.poll() is not None) and p.poll() == 2 and "is in use" in other.log(0))
    check(f"the message names --out and a peer of the ring: {other.last_lines()}", "--out" in other.log(0) and r.peers[0] in other.log(0))
    for i in r.alive(): r.kill(i)  # all at once
    for w in r.worker.values(): w.wait()
    r.settle()
    r.same()
    report(50, "three workers of one ring in one folder, the first killed and restarted, a worker of another ring in between", "same digest and steps", "same as one worker's")


@row(50)
def no_locks():
    """A file system without locks: one warning, and it trains."""
    where = folder("no-locks")
    preload = f"{where}/no_locks.so"
    with open(where + "/no_locks.c", "w") as f:
        f.write("""#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>
static int ours(int fd, int what, void *arg) {
    if (what == F_OFD_SETLK) return errno = ENOLCK, -1;
    return (int)syscall(SYS_fcntl, fd, what, arg);
}
int fcntl(int fd, int what, ...) { va_list ap; va_start(ap, what); void *arg = va_arg(ap, void *); va_end(ap); return ours(fd, what, arg); }
int fcntl64(int fd, int what, ...) { va_list ap; va_start(ap, what); void *arg = va_arg(ap, void *); va_end(ap); return ours(fd, what, arg); }
""")
    if SANITIZED: return skip("no locks: a sanitizer must be the first library")
    subprocess.run([os.environ.get("CC", "gcc"), "-shared", "-fPIC", "-o", preload, where + "/no_locks.c"], check=True)
    expect("a file system without locks", [QRINGD, job("no-locks"), "--epochs", "2", "--out", where + "/out"], 0, ["does not support locks", "done"], env={"LD_PRELOAD": preload})
    report(50, "a file system without locks", "one warning, and it trains", "one warning")


main()
