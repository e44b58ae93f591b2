"""TensorBoard reads qring's event files by its accumulator and its HTTP API: while training runs,
after SIGKILL and after a normal end, from a folder and from a bucket. Gradients and read-outs are
compared with a simulation in NumPy. Arguments: the folder for results, the program qring, the
program qringd. Prints "N passed, N failed, N skipped"."""
import glob, json, os, shutil, signal, socket, struct, subprocess, sys, time, urllib.parse, urllib.request
import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

sys.path.insert(0, "tests")
import tally
from tally import check

out, qring, qringd = sys.argv[1:4]


def run_of(folder):
    a = EventAccumulator(folder, size_guidance={"tensors": 0})
    a.Reload()
    return a


def points(a, tag):
    return [(e.step, float(tensor_util.make_ndarray(e.tensor_proto))) for e in a.Tensors(tag)] if tag in a.Tags()["tensors"] else []


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def lines(folder):
    with open(folder + "/steps.jsonl") as f:
        return [json.loads(line) for line in f if line.endswith("\n")]


def same(got, want, what):
    check(got == want, f"{what}: {got[:3]}... ({len(got)}), not {want[:3]}... ({len(want)})")


def compare(folder, logs, whole):
    """Checks that tags, steps and values equal those of steps.jsonl; the events of a killed run may
    end earlier."""
    train, val, steps = run_of(logs + "/train"), run_of(logs + "/validation"), lines(folder)
    t, v = [s for s in steps if s["kind"] == "TRAIN"], [s for s in steps if s["kind"] == "EVAL"]
    for tag, want in [("batch_loss", [(s["step"], f32(s["loss"])) for s in t]), ("batch_accuracy", [(s["step"], f32(s["metrics"]["accuracy"])) for s in t])]:
        got = points(train, tag)
        check(len(got) > 0 and (not whole or len(got) == len(want)), f"{tag}: {len(got)} points of {len(want)}")
        same(got, want[:len(got)], tag)
    for tag, want in [("evaluation_loss_vs_iterations", [(s["step"], f32(s["loss"])) for s in v]),
                      ("epoch_loss", [(s["epoch"] - 1, f32(s["loss"])) for s in v]), ("epoch_accuracy", [(s["epoch"] - 1, f32(s["metrics"]["accuracy"])) for s in v])]:
        got = points(val, tag)
        check(len(got) > 0 and (not whole or len(got) == len(want)), f"validation {tag}: {len(got)} points of {len(want)}")
        same(got, want[:len(got)], "validation " + tag)
    epochs = {}
    for s in t:
        epochs.setdefault(s["epoch"] - 1, []).append((s["samples"], s["loss"]))
    for epoch, loss in points(train, "epoch_loss"):
        mean = sum(n * x for n, x in epochs[epoch]) / sum(n for n, _ in epochs[epoch])
        check(abs(loss - mean) < 1e-6 * abs(mean), f"epoch_loss {epoch}: {loss}, not {mean}")
    for run, lines_of, what in ((train, t, "train"), (val, v, "validation")):
        got = histograms(run, "Readouts")
        shown = [s for s in lines_of if what == "validation" or shows(s["step"])]
        check(len(got) > 0 and (not whole or len(got) == len(shown)), f"{what} Readouts: {len(got)} of {len(shown)}")
        same([step for step, _ in got], [s["step"] for s in shown][:len(got)], what + " Readouts' steps")
        for (_, h), s in zip(got, shown):
            n = h[:, 2].sum()
            check(n == 4 * s["samples"] and h[0, 0] == -1 and h[-1, 1] == 1, f"{what} Readouts {s['step']}: {n} values")
    return train, val


def histograms(a, tag):
    return [(e.step, tensor_util.make_ndarray(e.tensor_proto)) for e in a.Tensors(tag)] if tag in a.Tags()["tensors"] else []


def shows(step):
    every = 1
    while step >= 128 * every:
        every *= 2
    return step % every == 0


def keras_tags():
    """Tags and plugins of the tutorial's own callback, by run, without the read-outs, whose steps
    are wrong there."""
    tags, run = {}, None
    for line in open("tests/golden/tfq/tensorboard_listing.txt"):
        words = line.split()
        if words[:1] == ["RUN"]:
            run = words[1]
        elif words[:1] == ["tag"] and not words[1].strip("'").endswith("Readouts"):
            tags.setdefault(run, {})[words[1].strip("'")] = words[2]
    return tags


class Tensorboard:
    def __init__(self, logdir):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.log = open(out + "/tensorboard.log", "ab")
        self.process = subprocess.Popen([os.path.dirname(sys.executable) + "/tensorboard", "--logdir", logdir, "--port", str(self.port), "--host", "127.0.0.1",
                                         "--reload_interval", "1", "--samples_per_plugin", "scalars=10000000"], stdout=self.log, stderr=self.log)

    def get(self, path, body=None):
        url = f"http://127.0.0.1:{self.port}/data/{path}"
        request = urllib.request.Request(url, data=None if body is None else json.dumps(body).encode(), headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as r:
            return json.load(r)

    def scalars(self, run, tag):
        try:
            return self.get("plugin/scalars/scalars?" + urllib.parse.urlencode({"run": run, "tag": tag}))
        except OSError:
            return []

    def wait(self, what, text):
        end = time.time() + 60
        while time.time() < end:
            try:
                if what():
                    return check(True, text)
            except OSError:
                pass
            time.sleep(0.3)
        check(False, text + " within a minute")

    def close(self):
        self.process.terminate()
        self.process.wait()


def check_graph(train, tb):
    """Checks the graph as read by TensorBoard's accumulator and as served to the graph tab."""
    nodes = {n.name: n for n in train.Graph().node}
    want = {"inputs": [], "pqc/encoder": ["inputs"], "pqc/parameters": [], "pqc/ansatz": ["pqc/encoder", "pqc/parameters"], "pqc/readouts": ["pqc/ansatz"],
            "dense/kernel": [], "dense/bias": [], "dense/MatMul": ["pqc/readouts", "dense/kernel"], "dense/BiasAdd": ["dense/MatMul", "dense/bias"],
            "dense_1/kernel": [], "dense_1/bias": [], "dense_1/MatMul": ["dense/BiasAdd", "dense_1/kernel"],
            "dense_1/BiasAdd": ["dense_1/MatMul", "dense_1/bias"], "labels": [], "loss": ["dense_1/BiasAdd", "labels"], "optimizer": ["loss"]}
    check({name: list(n.input) for name, n in nodes.items()} == want, f"graph: {nodes.keys()}")
    shape = lambda name: [d.size for d in nodes[name].attr["_output_shapes"].list.shape[0].dim]
    check(shape("inputs") == [-1, 8] and shape("pqc/parameters") == [20] and shape("dense/kernel") == [4, 8] and shape("loss") == [], "shapes of the graph")
    check(nodes["pqc/ansatz"].attr["qubits"].i == 8 and nodes["optimizer"].attr["optimizer"].s == b"adam", "attributes of the graph")
    info = tb.get("plugin/graphs/info")
    check(list(info) == ["train"] and info["train"]["run_graph"], f"the graph tab's runs: {info}")
    with urllib.request.urlopen(f"http://127.0.0.1:{tb.port}/data/plugin/graphs/graph?run=train&conceptual=false", timeout=20) as r:
        text = r.read().decode()
    check(text.count("node {") == len(want) and 'name: "pqc/ansatz"' in text, f"the graph by HTTP: {text[:200]}")


def good_end():
    d = out + "/whole"
    subprocess.run([qring, "run", "deploy/jobs/qcnn.json", "-n", "2", "--epochs", "10", "--out", d], check=True, stdout=subprocess.DEVNULL)
    train, val = compare(d, d + "/logs", True)
    for run, a in (("train", train), ("validation", val)):
        for tag, plugin in keras_tags()[run].items():
            check(tag in a.Tags()["tensors"], f"{run} has Keras' {tag}")
            if tag in a.Tags()["tensors"]:
                check("plugin=" + a.SummaryMetadata(tag).plugin_data.plugin_name == plugin, f"{run} {tag}: {plugin}")
    for tag in train.Tags()["tensors"]:
        if tag.endswith("/histogram"):
            for e in train.Tensors(tag):
                h = tensor_util.make_ndarray(e.tensor_proto)
                check(h.shape == (30, 3) and (h[:, 0] <= h[:, 1]).all(), f"{tag}: {h.shape}")
            count = {"parameters_0": 20, "dense/kernel_0": 32, "dense/bias_0": 8, "dense_1/kernel_0": 8, "dense_1/bias_0": 1}[tag[:-len("/histogram")]]
            check(h[:, 2].sum() == count, f"{tag}: {h[:, 2].sum()} values, not {count}")
    tb = Tensorboard(d + "/logs")
    tb.wait(lambda: len(tb.scalars("train", "batch_loss")) == 20, "the HTTP API has 20 steps of batch_loss")
    same([(s, v) for _, s, v in tb.scalars("train", "batch_loss")], [(s["step"], f32(s["loss"])) for s in lines(d) if s["kind"] == "TRAIN"], "batch_loss by HTTP")
    check(set(tb.get("plugin/scalars/tags")["validation"]) == {"epoch_loss", "epoch_accuracy", "evaluation_loss_vs_iterations", "evaluation_accuracy_vs_iterations"},
          "the scalars of validation by HTTP")
    tags = tb.get("plugin/histograms/tags")
    check({"parameters_0/histogram", "Readouts"} <= set(tags["train"]) and list(tags["validation"]) == ["Readouts"], "histograms by HTTP")
    check(len(tb.get("plugin/histograms/histograms?run=train&tag=Readouts")) == 20, "twenty Readouts by HTTP")
    check(len(tb.get("plugin/histograms/histograms?run=train&tag=parameters_0%2Fhistogram")) == 10, "ten histograms by HTTP")
    check_graph(train, tb)
    experiment = tb.get("plugin/hparams/experiment", {})
    check({h["name"] for h in experiment["hparamInfos"]} >= {"learning_rate", "optimizer", "qubits"}, f"hparams: {experiment}")
    groups = tb.get("plugin/hparams/session_groups", {"experimentName": "", "allowedStatuses": ["STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING", "STATUS_UNKNOWN"],
                                                      "colParams": [{"metric": {"group": "", "tag": "val_loss"}}], "startIndex": 0, "sliceSize": 10})
    group = groups["sessionGroups"][0]
    check(len(groups["sessionGroups"]) == 1 and group["hparams"]["learning_rate"] == 0.02 and group["hparams"]["optimizer"] == "adam", f"session group: {group}")
    session = group["sessions"][0]
    check(session["status"] == "STATUS_SUCCESS", f"session: {session['status']}")
    metrics = {(m["name"]["group"], m["name"]["tag"]): m["value"] for m in session["metricValues"]}
    last = [s for s in lines(d) if s["kind"] == "EVAL"][-1]
    check(metrics.get(("", "val_loss")) == f32(last["loss"]) and ("", "accuracy") in metrics, f"metrics: {metrics}")
    tb.close()


def killed():
    d = out + "/killed"
    worker = [qringd, "deploy/jobs/qcnn.json", "--epochs", "1000000", "--out", d, "--logdir", d + "/tb", "--threads", "1"]
    with open(out + "/killed.log", "wb") as log:
        p = subprocess.Popen(worker, stdout=log, stderr=log)
        tb = Tensorboard(d + "/tb")
        tb.wait(lambda: len(tb.scalars("train", "batch_loss")) > 0, "the curve is shown while training runs")
        first = tb.scalars("train", "batch_loss")[-1][1]
        tb.wait(lambda: tb.scalars("train", "batch_loss")[-1][1] > first, "the curve grows while training runs")
        check(p.poll() is None, "the worker is running")
        p.send_signal(signal.SIGKILL)
        p.wait()
        train, _ = compare(d, d + "/tb", False)
        last = points(train, "batch_loss")[-1]
        check(last[0] > first, "the files have later events than TensorBoard has shown")
        tb.wait(lambda: tb.scalars("train", "batch_loss")[-1][1] == last[0], "TensorBoard shows the last whole record after SIGKILL")
        before = glob.glob(d + "/tb/**/*tfevents*", recursive=True)
        sizes = [os.path.getsize(f) for f in before]
        time.sleep(1.1)
        subprocess.run([*worker[:2], "--epochs", "3", "--out", d, "--logdir", d + "/tb", "--threads", "1"], check=True, stdout=log, stderr=log)
        check([os.path.getsize(f) for f in before] == sizes, "a new process does not change old files")
        check(len(glob.glob(d + "/tb/**/*tfevents*", recursive=True)) == 2 * len(before), "a new process writes its own files")
        tb.wait(lambda: len(tb.scalars("train", "batch_loss")) == 6, "TensorBoard shows the new run's 6 steps in place of the old one's")
        tb.close()


def numbers_of_workers():
    """The read-outs are the same for 1, 2 and 3 workers."""
    want = None
    for n in (1, 2, 3):
        d = f"{out}/workers{n}"
        subprocess.run([qring, "run", "deploy/jobs/qcnn.json", "-n", str(n), "--epochs", "3", "--out", d],
                       check=True, stdout=subprocess.DEVNULL)
        got = [(step, h.tolist()) for run in ("train", "validation") for step, h in histograms(run_of(d + "/logs/" + run), "Readouts")]
        check(len(got) == 9, f"Readouts of 6 steps and 3 evaluations: {len(got)}")
        want = want or got
        check(got == want, f"Readouts of {n} workers equal those of one")


# ---- a model in NumPy: three qubits, two read-outs, one linear unit ----
PAULI = {"X": np.array([[0, 1], [1, 0]], complex), "Y": np.array([[0, -1j], [1j, 0]]), "Z": np.diag([1, -1]).astype(complex)}


def on(state, matrix, *qubits):
    k = len(qubits)
    state = np.tensordot(matrix.reshape((2,) * 2 * k), state, (range(k, 2 * k), qubits))
    return np.moveaxis(state, range(k), qubits)


def rotated(state, axis, angle, qubit):
    return on(state, np.cos(angle / 2) * np.eye(2) - 1j * np.sin(angle / 2) * PAULI[axis], qubit)


def readouts_of(x, theta):
    s = np.zeros((2, 2, 2), complex)
    s[0, 0, 0] = 1
    for q in range(3):
        s = rotated(s, "X", x[q], q)
    s = rotated(s, "Y", theta[0], 0)
    s = on(s, np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]], complex), 0, 1)
    s = rotated(s, "X", 2 * theta[1], 1)
    s = on(s, np.diag([1, 1, 1, -1]).astype(complex), 1, 2)
    s = rotated(s, "Y", theta[2], 2)
    s = rotated(s, "X", theta[3], 0)
    mean = lambda state: np.vdot(s, state).real
    return np.array([mean(on(s, PAULI["Z"], 0)), 0.5 * mean(on(on(s, PAULI["X"], 1), PAULI["Z"], 2)) - mean(on(s, PAULI["Y"], 2))])


def loss_of(w, x, y):
    z = np.array([readouts_of(row, w[:4]) for row in x])
    return np.mean((z @ w[4:6] + w[6] - y) ** 2), z


def numpy_agrees():
    d = out + "/numpy"
    os.makedirs(d)
    rng = np.random.default_rng(5)
    x, y, w = rng.uniform(-3, 3, (40, 3)), rng.choice([-1.0, 1.0], 40), rng.uniform(-2, 2, 7)
    np.savez(d + "/data.npz", x=x, y=y)
    np.savez(d + "/initial.npz", **{"pqc/parameters": w[:4], "dense/kernel": w[4:6].reshape(2, 1), "dense/bias": w[6:]})
    angle = lambda gate, q, **a: {"gate": gate, "qubits": [q], "angle": a}
    gates = [angle("RX", q, data=q) for q in range(3)]
    gates += [angle("RY", 0, parameter="a"), {"gate": "CNOT", "qubits": [0, 1]}, angle("RX", 1, parameter="b", scale=2),
              {"gate": "CZ", "qubits": [1, 2]}, angle("RY", 2, parameter="c"), angle("RX", 0, parameter="d")]
    quantum = {"layer": "quantum", "circuit": {"qubits": 3, "gates": gates}, "readouts": ["Z0", "0.5*X1 Z2 - Y2"]}
    job = {"name": "numpy", "precision": "double", "model": [quantum, {"layer": "dense", "units": 1}],
           "data": {"source": "npz", "url": d + "/data.npz", "train_fraction": 0.75},
           "train": {"epochs": 1, "batch_size": 16, "loss": "mse", "shuffle": False, "initial_weights": d + "/initial.npz",
                     "optimizer": {"name": "sgd", "learning_rate": 0.1}}}
    json.dump(job, open(d + "/job.json", "w"))
    subprocess.run([qring, "run", d + "/job.json", "-n", "2", "--out", d + "/out"], check=True, stdout=subprocess.DEVNULL)
    train, val = run_of(d + "/out/logs/train"), run_of(d + "/out/logs/validation")
    logged = {tag: dict(points(train, tag)) for tag in train.Tags()["tensors"] if tag.startswith("batch_")}
    shown = {"train": dict(histograms(train, "Readouts")), "validation": dict(histograms(val, "Readouts"))}

    def values(what, step, z):
        h, (want, edges) = shown[what][step], np.histogram(z, 30, (-1.5, 1.5))
        check(np.allclose(h[:, :2], np.stack([edges[:-1], edges[1:]], 1), 0, 1e-12), f"{what} Readouts {step}: {h[:, :2]}")
        check((h[:, 2] == want).all(), f"{what} Readouts {step}: {h[:, 2]}, not {want}")

    for step, some in ((1, slice(0, 16)), (2, slice(16, 30))):
        loss, z = loss_of(w, x[some], y[some])
        values("train", step, z)
        h, g = 1e-6, np.zeros(7)
        for i in range(7):
            e = np.eye(7)[i] * h
            g[i] = (loss_of(w + e, x[some], y[some])[0] - loss_of(w - e, x[some], y[some])[0]) / (2 * h)
        for tag, want in (("batch_loss", loss), ("batch_gradient_norm", np.sqrt((g ** 2).sum())),
                          ("batch_gradient_norm/parameters_0", np.sqrt((g[:4] ** 2).sum())), ("batch_gradient_variance/parameters_0", g[:4].var())):
            # float32 in the file: 6e-8; central differences: h^2 and 1e-16 / h, about 1e-10
            check(abs(logged[tag][step] - want) < 2e-7 * abs(want) + 1e-9, f"{tag} {step}: {logged[tag][step]}, not {want}")
        w = w - 0.1 * g
    values("validation", 2, loss_of(w, x[30:], y[30:])[1])


def in_a_bucket():
    """Event files of a killed worker in a bucket, downloaded first: TensorBoard reads buckets only
    with TensorFlow."""
    d = out + "/bucket"
    os.makedirs(d)
    fake = subprocess.Popen([sys.executable, "tests/fake/gcs.py", "0", d + "/port"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not os.path.exists(d + "/port") or not open(d + "/port").read():
        time.sleep(0.1)
    host = "127.0.0.1:" + open(d + "/port").read().strip()
    environment = {**os.environ, "STORAGE_EMULATOR_HOST": host}
    environment.pop("GCE_METADATA_HOST", None)

    def download():
        shutil.rmtree(d + "/tb", ignore_errors=True)
        page = ""
        while page is not None:
            with urllib.request.urlopen(f"http://{host}/storage/v1/b/bucket/o?prefix=tb/&pageToken={page}", timeout=20) as r:
                reply = json.load(r)
            page = reply.get("nextPageToken")
            for item in reply.get("items", []):
                os.makedirs(os.path.dirname(d + "/" + item["name"]), exist_ok=True)
                with urllib.request.urlopen(item["mediaLink"], timeout=20) as r, open(d + "/" + item["name"], "wb") as f:
                    f.write(r.read())
        return len(points(run_of(d + "/tb/train"), "batch_loss")) if os.path.isdir(d + "/tb/train") else 0

    with open(d + "/worker.log", "wb") as log:
        command = [qringd, "deploy/jobs/qcnn.json", "--epochs", "1000000", "--out", d, "--logdir", "gs://bucket/tb", "--threads", "1"]
        p = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    end = time.time() + 60
    first = 0
    while first == 0 and time.time() < end:
        time.sleep(0.2)
        first = download()
    more = first
    while more <= first and time.time() < end:
        time.sleep(1)
        more = download()
    check(0 < first < more and p.poll() is None, f"the bucket's curve grows while training runs: {first}, {more} steps")
    p.kill()
    p.wait()
    download()
    compare(d, d + "/tb", False)
    tb = Tensorboard(d + "/tb")
    tb.wait(lambda: len(tb.scalars("train", "batch_loss")) >= more, "TensorBoard shows the steps that the killed worker had uploaded")
    tb.close()
    fake.kill()
    fake.wait()


good_end()
numbers_of_workers()
numpy_agrees()
killed()
in_a_bucket()
print(f"{tally.passed} passed, {tally.failed} failed, 0 skipped")
sys.exit(tally.failed > 0)
