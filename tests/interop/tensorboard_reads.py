"""TensorBoard itself reads our event files: its accumulator and its HTTP API, while training runs, after kill -9 and after a good end.
Arguments: the folder for results, the program qring, the program qringd. Prints "N passed, N failed, N skipped"."""
import glob, json, os, signal, socket, struct, subprocess, sys, time, urllib.parse, urllib.request
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

out, qring, qringd = sys.argv[1:4]
passed = failed = 0


def check(ok, text):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        print("not so:", text)


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
    """Tags, steps and values equal to steps.jsonl, of which a killed run's events may be the beginning."""
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
    return train, val


def keras_tags():
    """What the tutorial's own callback wrote, by run, but the read-outs (whose steps were wrong there)."""
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
    check("parameters_0/histogram" in tb.get("plugin/histograms/tags")["train"], "histograms by HTTP")
    check(len(tb.get("plugin/histograms/histograms?run=train&tag=parameters_0%2Fhistogram")) == 10, "ten histograms by HTTP")
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
        tb.wait(lambda: len(tb.scalars("train", "batch_loss")) > 0, "the curve is there while training runs")
        first = tb.scalars("train", "batch_loss")[-1][1]
        tb.wait(lambda: tb.scalars("train", "batch_loss")[-1][1] > first, "the curve grows while training runs")
        check(p.poll() is None, "the worker is alive")
        p.send_signal(signal.SIGKILL)
        p.wait()
        train, _ = compare(d, d + "/tb", False)
        last = points(train, "batch_loss")[-1]
        check(last[0] > first, "events reach beyond what was seen")
        tb.wait(lambda: tb.scalars("train", "batch_loss")[-1][1] == last[0], "TensorBoard shows the last whole record after kill -9")
        before = glob.glob(d + "/tb/**/*tfevents*", recursive=True)
        sizes = [os.path.getsize(f) for f in before]
        time.sleep(1.1)
        subprocess.run([*worker[:2], "--epochs", "3", "--out", d, "--logdir", d + "/tb", "--threads", "1"], check=True, stdout=log, stderr=log)
        check([os.path.getsize(f) for f in before] == sizes, "a new process leaves old files as they are")
        check(len(glob.glob(d + "/tb/**/*tfevents*", recursive=True)) == 2 * len(before), "and writes files of its own")
        tb.wait(lambda: len(tb.scalars("train", "batch_loss")) == 6, "TensorBoard shows the new run's 6 steps in place of the old one's")
        tb.close()


good_end()
killed()
print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(failed > 0)
