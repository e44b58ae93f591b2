"""The tutorial's inference model (its qcnn_common.py) loads qring's weights, predicts, and saves
weights for qring. Usage: tutorial.py OUT QRING; OUT/ours/weights.h5 must exist. Runs in the
environment of tests/interop/run."""
import csv
import json
import math
import subprocess
import sys

import cirq
import numpy as np
import tensorflow as tf
import tensorflow_quantum as tfq

sys.path.insert(0, "tests/bench/peers")
from tfq_qcnn import cluster, stage

out, qring = sys.argv[1:3]
passed = failed = 0


def check(ok, what):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    print("ok    " if ok else "not so", what)


bits = cirq.GridQubit.rect(1, 8)
source = tf.keras.Input(shape=(), dtype=tf.dtypes.string)
state = tfq.layers.AddCircuit()(source, prepend=cluster(bits))
quantum = tfq.layers.PQC(stage(0, bits, "research"), [cirq.Z(b) for b in bits[4:]])(state)
dense = tf.keras.layers.Dense(8)(quantum)
dense = tf.keras.layers.Dense(1)(dense)
model = tf.keras.Model(inputs=[source], outputs=[dense])

# exponents of six decimals: TFQ rounds to that when it serializes a circuit
rng = np.random.default_rng(7)
exponents = np.round(rng.uniform(-1, 1, 48), 6)
where = [i % 8 for i in range(48)]
labels = [1 if abs(e) <= 0.5 else -1 for e in exponents]
circuits = tfq.convert_to_tensor([cirq.Circuit(cirq.rx(float(e) * math.pi)(bits[q])) for e, q in zip(exponents, where)])
with open(out + "/data.csv", "w", newline="") as f:
    w = csv.writer(f, lineterminator="\n")
    w.writerow(["x%d" % q for q in range(8)] + ["y"])
    for e, q, y in zip(exponents, where, labels):
        w.writerow([repr(float(e) * math.pi) if i == q else "0" for i in range(8)] + [y])
with open("deploy/jobs/qcnn.json") as f:
    job = json.load(f)
job["data"] = {"source": "csv", "url": out + "/data.csv", "validation_url": out + "/data.csv"}
with open(out + "/job.json", "w") as f:
    json.dump(job, f)


def qring_predictions(weights):
    path = out + "/predictions"
    subprocess.run([qring, "infer", out + "/job.json", "--weights", weights, "--predictions", path], check=True, stdout=subprocess.DEVNULL)
    sys.path.insert(0, "tests/it")
    import golden
    return np.array(golden.numbers(path))


check(len(model.trainable_weights) == 5, "the tutorial's model has 5 weight arrays, %d numbers" % sum(int(tf.size(w)) for w in model.trainable_weights))
model.load_weights(out + "/ours/weights.h5")
off = np.abs(model(circuits).numpy()[:, 0] - qring_predictions(out + "/ours/weights.h5")).max()
check(off <= 1e-5, "TFQ's model with qring's weights predicts the same as qring: off by %.2g" % off)

for w in model.trainable_weights:
    w.assign(rng.uniform(-2, 2, w.shape))
model.save_weights(out + "/theirs.h5")
off = np.abs(model(circuits).numpy()[:, 0] - qring_predictions(out + "/theirs.h5")).max()
# predictions are up to ten times larger with these weights
check(off <= 1e-4, "qring with weights that Keras saved predicts the same as TFQ: off by %.2g" % off)
print("%d passed, %d failed, 0 skipped" % (passed, failed))
sys.exit(failed > 0)
