"""The tutorial's hybrid model with depolarizing noise after each gate, trained by TensorFlow
Quantum's NoisyPQC: Adam, all samples in each step. noisy_training.py writes job, samples, initial
weights and the weights to evaluate. Usage: tfq_noisy_training.py FOLDER STEPS REPETITIONS
EVALUATIONS NAME.safetensors... Prints one line of JSON: losses and seconds of the steps, the final
weights, seconds of steps without noise, and means and standard errors of the read-outs of all
samples at the final weights ("tfq") and at those of each file, from EVALUATIONS evaluations with
ten times the repetitions."""
import csv
import json
import sys

import cirq
import numpy as np
import tensorflow as tf
import tensorflow_quantum as tfq

from cases import read_safetensors
from tfq_gradient import noisy, numbered_of, set_weights
from tfq_qcnn import EpochSeconds, cluster, stage

NOISELESS_STEPS = 40
folder, steps, repetitions, evaluations = sys.argv[1], *map(int, sys.argv[2:5])
with open(folder + "/job.json") as f:
    job = json.load(f)
noise = job["model"][0]["circuit"]["noise"]["after"]["*"]["p"]
with open(folder + "/data.csv") as f:
    rows = [[float(v) for v in row] for row in list(csv.reader(f))[1:]]
labels = np.array([row[-1] for row in rows])[:, None]
bits = cirq.GridQubit.rect(1, 8)
circuit, observables = stage(0, bits, "research"), [cirq.Z(b) for b in bits[4:]]


def weights_of(path):
    tensors = read_safetensors(path)
    return [tensors[name] for name in ("pqc/parameters", "dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias")]


def model_of(p, pqc):
    """(model, dense layers, inputs), with the job's initial weights"""
    inputs = tfq.convert_to_tensor([noisy(p, cirq.Circuit(cirq.rx(a)(b) for a, b in zip(row, bits) if a or p)) for row in rows])
    source = tf.keras.Input(shape=(), dtype=tf.dtypes.string)
    head = [tf.keras.layers.Dense(8), tf.keras.layers.Dense(1)]
    found = pqc(tfq.layers.AddCircuit()(source, prepend=noisy(p, cluster(bits))))
    model = tf.keras.Model(inputs=[source], outputs=[head[1](head[0](found))])
    model.compile(optimizer=tf.keras.optimizers.Adam(learning_rate=job["train"]["optimizer"]["learning_rate"]), loss=tf.losses.mse)
    initial, *dense = weights_of(job["train"]["initial_weights"])
    set_weights(initial, dense, pqc, head)
    return model, head, inputs


def train(model, inputs, epochs):
    times = EpochSeconds()
    history = model.fit(inputs, labels, batch_size=len(rows), epochs=epochs, shuffle=False, verbose=0, callbacks=[times])
    return history.history["loss"], times.seconds


def evaluate(layer, inputs, weights):
    circuits = tfq.layers.AddCircuit()(inputs, prepend=noisy(noise, cluster(bits)))
    layer(circuits[:1])
    set_weights(weights, [], layer, [])
    found = np.array([layer(circuits).numpy() for _ in range(evaluations)])
    return {"mean": found.mean(0).tolist(), "error": (found.std(0, ddof=1) / evaluations ** 0.5).tolist()}


pqc = tfq.layers.NoisyPQC(noisy(noise, circuit), observables, repetitions=repetitions, sample_based=False)
model, head, inputs = model_of(noise, pqc)
losses, seconds = train(model, inputs, steps)
final = pqc.get_weights()[0][numbered_of(pqc)].tolist(), *[w.ravel().tolist() for layer in head for w in layer.get_weights()]
layer = tfq.layers.NoisyPQC(noisy(noise, circuit), observables, repetitions=10 * repetitions, sample_based=False)
readouts = {path: evaluate(layer, inputs, weights_of(path)[0]) for path in sys.argv[5:]}
readouts["tfq"] = evaluate(layer, inputs, final[0])
model, _, inputs = model_of(0, tfq.layers.PQC(circuit, observables))
_, noiseless = train(model, inputs, NOISELESS_STEPS)
print(json.dumps({"losses": losses, "seconds": seconds, "weights": final, "noiseless_seconds": noiseless, "readouts": readouts}), flush=True)
