"""Writes jobs from tests/golden/tfq and compares qring's results with it.

Reads the files without qring's code. Called by tests/it/*.sh; each subcommand prints a line per
failed check and appends its counts "passed failed" to the file $COUNTS.
"""
import csv
import hashlib
import json
import math
import os
import re
import struct
import sys

sys.path.insert(0, "tests")
import tally
from tally import check

GOLDEN = "tests/golden/tfq/"


def load(name):
    with open(GOLDEN + name) as f:
        return json.load(f)


def largest(values):
    """Return the largest, or NaN if there is one: max() skips NaN, so that a comparison would pass."""
    values = list(values)
    return max(values) if all(v == v for v in values) else math.nan


def flat(v):
    return [x for w in v for x in flat(w)] if isinstance(v, list) else [v]


# ---- files ------------------------------------------------------------------------------------------------------

def write_safetensors(path, tensors):
    header, body = {}, b""
    for name, shape, values in tensors:
        raw = struct.pack("<%dd" % len(values), *values)
        header[name] = {"dtype": "F64", "shape": shape, "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


def read_safetensors(path):
    with open(path, "rb") as f:
        raw = f.read()
    n = struct.unpack("<Q", raw[:8])[0]
    out = {}
    for name, t in json.loads(raw[8:8 + n]).items():
        if name == "__metadata__":
            continue
        a, b = (8 + n + o for o in t["data_offsets"])
        code, size = {"F64": ("d", 8), "F32": ("f", 4)}[t["dtype"]]
        out[name] = (t["shape"], list(struct.unpack("<%d%s" % ((b - a) // size, code), raw[a:b])))
    return out


def write_csv(path, n, angles, qubits, labels):
    with open(path, "w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(["x%d" % q for q in range(n)] + ["y"])
        for a, q, y in zip(angles, qubits, labels):
            w.writerow([repr(a) if i == q else "0" for i in range(n)] + [y])


def steps(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


# ---- models -----------------------------------------------------------------------------------------------------

def natural(symbols_sorted):
    """Return the position in sorted order of each symbol in natural order."""
    order = sorted(range(len(symbols_sorted)), key=lambda i: int(symbols_sorted[i][5:]))
    return order


def tensors_of(kind, symbols_sorted, vector):
    """Return a golden vector (Keras' get_weights, sorted symbols) as named tensors in natural order."""
    order, out, at = natural(symbols_sorted), [], 0
    for f in range(3 if kind == "three" else 1):
        part = vector[at:at + len(order)]
        out.append(("pqc/parameters" if f == 0 else "pqc_%d/parameters" % f, [len(order)], [part[i] for i in order]))
        at += len(order)
    if kind != "pure":
        width = 12 if kind == "three" else 4
        for name, shape in (("dense/kernel", [width, 8]), ("dense/bias", [8]), ("dense_1/kernel", [8, 1]), ("dense_1/bias", [1])):
            out.append((name, shape, vector[at:at + math.prod(shape)]))
            at += math.prod(shape)
    assert at == len(vector)
    return out


def model_of(kind, variant, n=8):
    circuit = {"ansatz": "qcnn", "qubits": n, "variant": variant}
    if kind == "pure":
        return [{"layer": "quantum", "circuit": circuit}]
    circuit["stages"] = 1
    quantum = {"layer": "quantum", "circuit": circuit, "readouts": ["Z%d" % q for q in range(n // 2, n)]}
    if kind == "three":
        quantum["filters"] = 3
    return [quantum, {"layer": "dense", "units": 8}, {"layer": "dense", "units": 1}]


def write_job(folder, name, precision, model, data, train):
    os.makedirs(folder, exist_ok=True)
    job = {"name": name, "precision": precision, "model": model, "data": data, "train": train}
    with open(folder + "/job.json", "w") as f:
        json.dump(job, f, indent=1)


# ---- training ---------------------------------------------------------------------------------------------------

def train_golden(name):
    """Return a golden file's content, kind, variant, sorted symbols and epochs.

    The file of the 50-epoch run has fewer keys.
    """
    if name == "50ep":
        g, base = load("train_hybrid_research_50ep.json"), load("train_hybrid_research.json")
        return g, "hybrid", "research", base["symbols_sorted"], 50
    g = load("train_%s.json" % name)
    return g, g["kind"], g["variant"], g["symbols_sorted"], len(g["exact"]["val_loss"])


def cmd_train_job(folder, name, precision):
    g, kind, variant, symbols, epochs = train_golden(name)
    d = load("dataset_n8_seed2021.json")
    write_job(folder, "golden-" + name.replace("_", "-"), precision, model_of(kind, variant),
              {"source": "csv", "url": folder + "/data.csv", "train_fraction": 0.7},
              {"epochs": epochs, "batch_size": 64, "shuffle": False, "loss": "mse", "metrics": ["accuracy", "binary_accuracy"],
               "optimizer": {"name": "adam", "learning_rate": 0.02}, "initial_weights": folder + "/initial.safetensors"})
    write_csv(folder + "/data.csv", 8, d["angles"], d["qubits"], d["labels"])
    write_safetensors(folder + "/initial.safetensors", tensors_of(kind, symbols, g["initial_weights"]))


def cmd_train_check(folder, name, precision):
    g, kind, _, symbols, epochs = train_golden(name)
    double = precision == "double"
    lines = steps(folder + "/out/steps.jsonl")
    train = [s for s in lines if s["kind"] == "TRAIN"]
    evals = [s for s in lines if s["kind"] == "EVAL"]
    with open(folder + "/out/result.json") as f:
        result = json.load(f)
    check(len(train) == 2 * epochs and len(evals) == epochs, "%d train and %d eval lines for %d epochs" % (len(train), len(evals), epochs))
    check([s["samples"] for s in train] == [64, 48] * epochs and all(s["samples"] == 48 for s in evals), "samples of each step")
    ours = read_safetensors(folder + "/out/weights.safetensors")
    start = dict((n, v) for n, _, v in tensors_of(kind, symbols, g["initial_weights"]))
    if name == "50ep":
        # The reference is the final validation loss.
        tolerance = 1e-8 if double else 5e-5
        for got in (evals[-1]["loss"], result["val_loss"]):
            check(abs(got - g["exact_val_loss"][-1]) <= tolerance, "validation loss %.10f, golden %.10f" % (got, g["exact_val_loss"][-1]))
        check(abs(result["val_loss"] - 0.2280) <= 5e-5, "validation loss is 0.2280")
        check(abs(result["loss"] - g["exact_epoch_loss"][-1]) <= (1e-8 if double else 5e-5), "epoch loss %.10f" % result["loss"])
        check(abs(result["metrics"]["val_accuracy"] - g["exact_val_sign_accuracy"][-1]) < 1e-12, "sign accuracy")
        check(abs(result["metrics"]["val_binary_accuracy"] - g["exact_val_accuracy"][-1]) < 1e-12, "Keras' accuracy")
        final, zero = g["exact_final_weights"], [13]
        # 100 steps of Adam amplify rounding errors, so the weights have a wide tolerance
        tol_w = 1e-7 if double else 2e-3
    else:
        e = g["exact"]
        tol_l, tol_w = (1e-10, 1e-10) if double else (2e-6, 2e-5)
        for i, (s, want) in enumerate(zip(train, e["step_loss"])):
            check(abs(s["loss"] - want) <= tol_l, "loss of step %d: %.12f, golden %.12f" % (i + 1, s["loss"], want))
        for i, (s, want) in enumerate(zip(evals, e["val_loss"])):
            check(abs(s["loss"] - want) <= tol_l, "validation loss %d: %.12f, golden %.12f" % (i + 1, s["loss"], want))
        # exact, since no prediction lies within 2e-6 of a threshold
        for i, s in enumerate(train):
            check(abs(s["metrics"]["accuracy"] - e["step_sign_accuracy"][i]) < 1e-12, "accuracy by sign of step %d" % (i + 1))
            check(abs(s["metrics"]["binary_accuracy"] - e["step_accuracy"][i]) < 1e-12, "Keras' accuracy of step %d" % (i + 1))
        for i, s in enumerate(evals):
            check(abs(s["metrics"]["accuracy"] - e["val_sign_accuracy"][i]) < 1e-12, "validation accuracy by sign %d" % (i + 1))
            check(abs(s["metrics"]["binary_accuracy"] - e["val_accuracy"][i]) < 1e-12, "Keras' validation accuracy %d" % (i + 1))
        final, zero = e["final_weights"], g["zero_gradient_weight_indices"]
    unmoved = set()
    order = natural(symbols)
    for z in zero:
        if z < len(order) * (3 if kind == "three" else 1):
            unmoved.add((z // len(order), order.index(z % len(order))))
    worst = 0
    for n, shape, want in tensors_of(kind, symbols, final):
        check(n in ours and ours[n][0] == shape, "%s has shape %s" % (n, shape))
        if n not in ours:
            continue
        got = ours[n][1]
        f = 0 if n == "pqc/parameters" else int(n[4]) if n.startswith("pqc_") else -1
        for i, (a, b) in enumerate(zip(got, want)):
            if (f, i) in unmoved:
                check(a == start[n][i], "%s[%d] has no gradient but moved from %.17g to %.17g" % (n, i, start[n][i], a))
            else:
                worst = largest((worst, abs(a - b)))
    check(worst <= tol_w, "final weights: off by %.3g, allowed %.3g" % (worst, tol_w))
    print("%s %s: weights within %.2g" % (name, precision, worst))


# ---- gradients --------------------------------------------------------------------------------------------------

def cmd_gradient_job(folder, name, precision):
    g = load("golden_%s.json" % name)
    if "angles" in g:
        kind, variant, symbols = g["kind"], g["variant"], g["symbols_sorted"]
        angles, qubits, labels = g["angles"], g["qubits"], g["labels"]
        vector = flat(g["weights_sorted"])
        if kind != "pure":
            vector += flat(g["dense_kernel"]) + g["dense_bias"] + flat(g["dense_1_kernel"]) + g["dense_1_bias"]
        tensors = tensors_of(kind, symbols, vector)
    else:
        kind, variant = "pure", "notebook"
        angles, qubits, labels = [g["angle"]], [g["qubit"]], [1]
        tensors = [("pqc/parameters", [len(g["weights_natural"])], g["weights_natural"])]
    write_job(folder, "golden-gradient", precision, model_of(kind, variant, g["n"]),
              {"source": "csv", "url": folder + "/data.csv"}, {"loss": "mse"})
    write_csv(folder + "/data.csv", g["n"], angles, qubits, labels)
    write_safetensors(folder + "/weights.safetensors", tensors)


def cmd_gradient_check(folder, name, precision):
    g = load("golden_%s.json" % name)
    tol = 1e-12 if precision == "double" else 2e-6
    with open(folder + "/prediction.jsonl") as f:
        ours = [json.loads(line) for line in f]
    worst = worst_tfq = 0
    if "angles" not in g:
        # one sample, one read-out; derivatives by symbol number
        got = ours[0]["gradient"]["pqc/parameters"]
        want = g["exact_gradient"]
        check(len(ours) == 1 and len(got) == len(want), "one sample with %d derivatives" % len(want))
        check(abs(flat(ours[0]["readouts"])[0] - g["exact_expectation"]) <= tol, "expectation %.12f" % flat(ours[0]["readouts"])[0])
        worst = largest(abs(a - b) for a, b in zip(got, want)) / max(map(abs, want))
        worst_tfq = largest(abs(a - b) for a, b in zip(got, g["tfq_gradient"]))
    else:
        kind, symbols = g["kind"], g["symbols_sorted"]
        check([s["sample"] for s in ours] == list(range(len(g["angles"]))), "one line for each sample")
        for s, line in enumerate(ours):
            for block, limit in (("exact", tol), ("tfq", 1.5e-4)):
                e = g[block]["expectations"]
                z = [x for f in e for x in f[s]] if kind == "three" else e[s]
                check(largest(abs(a - b) for a, b in zip(flat(line["readouts"]), z)) <= limit and len(flat(line["readouts"])) == len(z),
                      "read-outs of sample %d against %s" % (s, block))
                # A prediction sums 8 linear units of read-outs with kernels near 1: at most ten
                # times their error.
                check(abs(flat(line["prediction"])[0] - g[block]["prediction"][s]) <= 10 * limit, "prediction of sample %d against %s" % (s, block))
                want = tensors_of(kind, symbols, g[block]["dprediction_dweights"][s])
                scale = max(map(abs, g[block]["dprediction_dweights"][s]))
                check(set(line["gradient"]) == {n for n, _, _ in want}, "names in the gradient of sample %d" % s)
                for n, shape, w in want:
                    got = flat(line["gradient"][n])
                    check(len(got) == len(w), "%s of sample %d has %d values" % (n, s, len(w)))
                    off = largest(abs(a - b) for a, b in zip(got, w))
                    if block == "exact":
                        worst = largest((worst, off / scale))
                    else:
                        worst_tfq = largest((worst_tfq, off))
        with open(folder + "/loss.jsonl") as f:
            loss = json.loads(f.readline())
        check(abs(loss["loss"] - g["exact"]["loss_mse"]) <= 20 * tol, "mean loss %.12f" % loss["loss"])
        want = g["exact"]["dloss_dweights"]
        off = largest(abs(a - b) for n, _, w in tensors_of(kind, symbols, want) for a, b in zip(flat(loss["gradient"][n]), w))
        # The loss's derivative sums those of six predictions with factors 2 (p - y) / 6 of both
        # signs.
        check(off <= 4 * tol * max(map(abs, want)), "gradient of the loss: off by %.3g" % off)
    check(worst <= tol, "exact gradients: off by %.3g of the largest component, allowed %.3g" % (worst, tol))
    check(worst_tfq <= 1.5e-4, "TFQ's gradients: off by %.3g, allowed 1.5e-4" % worst_tfq)
    print("%s %s: within %.2g of the largest component; of TFQ's own within %.2g" % (name, precision, worst, worst_tfq))


# ---- inference --------------------------------------------------------------------------------------------------

def cmd_infer_job(folder, precision):
    g = load("qcnn_weights_check.json")
    write_job(folder, "golden-infer", precision, model_of("hybrid", "research"),
              {"source": "csv", "url": folder + "/data.csv", "validation_url": folder + "/data.csv"}, {"loss": "mse", "metrics": ["accuracy"]})
    write_csv(folder + "/data.csv", 8, g["angles"], g["qubits"], g["labels"])


def cmd_infer_check(folder, precision):
    g = load("qcnn_weights_check.json")
    ours = numbers(folder + "/predictions")
    check(len(ours) == 6, "six predictions, not %d" % len(ours))
    for i, p in enumerate(ours):
        check(abs(p - g["exact_predictions"][i]) <= 1e-6, "prediction %d: %.9f, exact %.9f" % (i, p, g["exact_predictions"][i]))
        check(abs(p - g["tfq_predictions_float32"][i]) <= 1e-6, "prediction %d: %.9f, Keras %.9f" % (i, p, g["tfq_predictions_float32"][i]))
    with open(folder + "/infer.json") as f:
        report = json.load(f)
    mse = sum((p - y) ** 2 for p, y in zip(g["exact_predictions"], g["labels"])) / 6
    check(abs(report["loss"] - mse) <= 1e-5, "loss %r, exact %.9f" % (report["loss"], mse))


def cmd_infer_text(path):
    """Check the text that qring infer prints: three parts."""
    g = load("qcnn_weights_check.json")
    with open(path) as f:
        m = re.match(r"Results\n\[([^]]*)\]\nTest Labels\n\[([^]]*)\]\nMean squared error:  ([0-9.]+)\n6 samples .validation set. - loss: ", f.read())
    check(m, "Results, Test Labels, Mean squared error, then one line")
    if not m:
        return
    ours, labels = [float(w) for w in m.group(1).split()], [float(w) for w in m.group(2).split()]
    check(len(ours) == 6 and labels == g["labels"][:6], "six predictions and the golden labels: %s" % m.group(2))
    for i, p in enumerate(ours):
        check(abs(p - g["exact_predictions"][i]) <= 1e-6, "printed prediction %d: %.9f, exact %.9f" % (i, p, g["exact_predictions"][i]))
        check(abs(p - g["tfq_predictions_float32"][i]) <= 1e-6, "printed prediction %d: %.9f, Keras %.9f" % (i, p, g["tfq_predictions_float32"][i]))
    mse = sum((p - y) ** 2 for p, y in zip(g["exact_predictions"], g["labels"])) / 6
    check(abs(float(m.group(3)) - mse) <= 1e-5, "printed mean squared error %s, exact %.9f" % (m.group(3), mse))


def numbers(path):
    """Return the predictions in a CSV or in JSON lines.

    In a CSV: column prediction, or the first that begins so, or the last.
    """
    with open(path) as f:
        text = f.read().strip()
    if text.startswith("{"):
        return [flat(json.loads(line)["prediction"])[0] for line in text.splitlines()]
    rows = list(csv.reader(text.splitlines()))
    col = rows[0].index("prediction") if "prediction" in rows[0] else next((i for i, h in enumerate(rows[0]) if h.startswith("prediction")), -1)
    return [float(r[col]) for r in rows[1:]]


def cmd_same_weights(safetensors, npz):
    import numpy
    a, b = read_safetensors(safetensors), numpy.load(npz)
    check(set(a) == set(b.files) and len(a) > 0, "the same names: %s and %s" % (sorted(a), sorted(b.files)))
    for name in a:
        check(list(b[name].shape) == a[name][0] and list(b[name].ravel()) == a[name][1], "%s is the same in both" % name)


# ---- data for bits.sh --------------------------------------------------------------------------

def cmd_mlp_data(folder):
    """Write 256 samples of 784 values and 10 classes from a 64-bit LCG, not from NumPy's generators."""
    import numpy
    os.makedirs(folder, exist_ok=True)
    state, mask, rows, n = 2021, (1 << 64) - 1, [], 256
    labels = []
    for i in range(n):
        row = []
        for _ in range(784):
            state = (6364136223846793005 * state + 1442695040888963407) & mask
            row.append((state >> 40) / (1 << 24))
        labels.append(i * 7 % 10)
        row[labels[-1] * 70] += 2.0
        rows.append(row)
    one_hot = [[1.0 if c == y else 0.0 for c in range(10)] for y in labels]
    numpy.savez(folder + "/mlp.npz", x=numpy.array(rows), y=numpy.array(one_hot))


def cmd_sha256(path):
    with open(path, "rb") as f:
        print(hashlib.sha256(f.read()).hexdigest())


if __name__ == "__main__":
    globals()["cmd_" + sys.argv[1].replace("-", "_")](*sys.argv[2:])
    if os.environ.get("COUNTS"):
        with open(os.environ["COUNTS"], "a") as f:
            f.write("%d %d\n" % (tally.passed, tally.failed))
