"""memory.py QRING QRINGD FOLDER QUBITS: measured and predicted memory of workers.

Trains a short step for circuits of QUBITS ("8,12") qubits: one worker and two, one thread and two,
plaintext and TLS, streaming, statevector and cones with several controls, three filters, large data.
The measured peak is ru_maxrss. The prediction of `qring validate` must be within 10 %, for worker 0,
which writes the weights, and for the others. Prints a table, then the counts.
"""
import json, os, socket, subprocess, sys

qring, qringd, folder, qubits = sys.argv[1:]
MIB = 1048576.0
passed = failed = 0


def job(n, kind, rows=2):
    """Write a job; returns its path. Streaming does not support XX on distant qubits (statevector)."""
    name = os.path.join(folder, "%s-%d" % (kind, n))
    with open(name + ".csv", "w") as f:
        f.write(",".join("x%d" % q for q in range(n)) + ",y\n")
        for i in range(rows):
            label = 1 - 2 * (i % 2)
            f.write(",".join("%.6f" % (0.1 + 0.07 * q * label) for q in range(n)) + ",%d\n" % label)
    layer, head, block = {"layer": "quantum", "circuit": {"ansatz": "qcnn", "qubits": n}}, [], 1
    if kind == "statevector":
        gates = [{"gate": "RX", "qubits": [q], "angle": {"data": q, "scale": 1}} for q in range(n)]
        gates += [{"gate": "XX", "qubits": [q, (q + 3) % n], "exponent": {"parameter": "p%d" % q, "scale": 1}} for q in range(n)]
        layer = {"layer": "quantum", "circuit": {"qubits": n, "gates": gates}, "readouts": ["Z0"]}
    if kind == "cones":
        gates = [{"gate": "RX", "qubits": [q], "angle": {"data": q}} for q in range(n)]
        for q in range(0, n - 3, 3):
            gates += [{"gate": "DoubleExcitation", "qubits": [q, q + 1, q + 2, q + 3], "angle": {"parameter": "d%d" % q}},
                      {"gate": "CCX", "qubits": [q, q + 1, q + 2]}, {"gate": "FSIM", "qubits": [q, q + 1], "theta": {"data": q}, "phi": {"parameter": "f"}}]
        layer, block = {"layer": "quantum", "circuit": {"qubits": n, "gates": gates}, "readouts": ["Z%d" % (n // 2)]}, 16
    if kind == "filters":
        layer["circuit"]["stages"], layer["filters"] = 1, 3
        head, block = [{"layer": "dense", "units": 4, "activation": "tanh"}, {"layer": "dense", "units": 1}], 16
    if kind == "large data":
        block = 16
    with open(name + ".json", "w") as f:
        json.dump({"name": "memory", "model": [layer] + head, "data": {"source": "csv", "url": name + ".csv"}, "micro_batch_size": block,
                   "train": {"epochs": 1, "batch_size": rows if n < 24 else 1, "loss": "mse", "optimizer": {"name": "adam"}}}, f)
    return name + ".json"


def settings(n_workers):
    """Return the environments of n workers on free ports."""
    sockets = [socket.socket() for _ in range(n_workers)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    peers = ["127.0.0.1:%d" % s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    base = {k: v for k, v in os.environ.items() if k != "TF_CONFIG"}
    if n_workers == 1:
        return [base]
    return [dict(base, TF_CONFIG=json.dumps({"cluster": {"worker": peers}, "task": {"type": "worker", "index": i}})) for i in range(n_workers)]


def peaks(path, environments, flags):
    """Run the workers; returns their peak bytes and wait statuses."""
    out = os.path.join(folder, "out")
    subprocess.run(["rm", "-rf", out], check=True)
    pids = []
    for i, environment in enumerate(environments):
        log = os.open(os.path.join(folder, "log%d" % i), os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
        pids.append(os.posix_spawn(qringd, [qringd, path, "--out", out, "--data-port", "0"] + flags, environment,
                                   file_actions=[(os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)]))
        os.close(log)
    ends = [os.wait4(pid, 0) for pid in pids]
    return [e[2].ru_maxrss * 1024 for e in ends], [e[1] for e in ends]


def check(what, measured, predicted):
    global passed, failed
    off = predicted / measured - 1
    print("%-44s measured %8.2f MiB, predicted %8.2f MiB, %+5.1f %%" % (what, measured / MIB, predicted / MIB, 100 * off))
    if abs(off) <= 0.1:
        passed += 1
    else:
        failed += 1
        print("not so: %s: within 10 %%" % what)


def case(path, what, n_workers, threads, tls):
    global failed
    flags = ["--threads", str(threads)] + (["--tls-dir", os.path.join(folder, "tls")] if tls else [])
    environments = settings(n_workers)
    validated = subprocess.run([qring, "validate", path, "--json", "--fresh", "--out", os.path.join(folder, "out")] + flags, env=environments[0],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if validated.returncode != 0:
        failed += 1
        print("not so: %s: validate fails: %s %s" % (what, validated.stdout.decode(), validated.stderr.decode()))
        return
    validated = json.loads(validated.stdout.decode())
    measured, codes = peaks(path, environments, flags)
    if any(codes):
        failed += 1
        print("not so: %s: a worker ended with %s: %s" % (what, codes, open(os.path.join(folder, "log0")).read()[-400:]))
        return
    what += ", %d thread%s" % (threads, "" if threads == 1 else "s")
    check(what + (", alone" if n_workers == 1 else ", leads"), measured[0], validated["memory_bytes"])
    for m in measured[1:]:
        check(what + ", follows", m, validated["memory_follower_bytes"])


def main():
    subprocess.run([qring, "certs", "memory", "--out", os.path.join(folder, "tls")], check=True, stdout=subprocess.DEVNULL)
    for n in map(int, qubits.split(",")):
        path = job(n, "pure")
        case(path, "%d qubits" % n, 1, 1 if n < 24 else 2, False)
        case(path, "%d qubits, TLS" % n, 2, 2, True)
        if n in (8, 16, 23):
            case(path, "%d qubits" % n, 1, 2, False)
            case(path, "%d qubits, plaintext" % n, 2, 1, False)
        if n in (8, 20):
            case(job(n, "statevector"), "%d qubits, statevector" % n, 1, 2, False)
    case(job(16, "filters"), "16 qubits, three filters", 1, 2, False)
    case(job(60, "cones", 64), "60 qubits, gates with several controls", 1, 2, False)
    case(job(8, "large data", 50000), "8 qubits, 50000 samples", 1, 1, False)
    print("%d passed, %d failed, 0 skipped" % (passed, failed))


main()
