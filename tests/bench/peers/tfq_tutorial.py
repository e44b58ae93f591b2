"""The tutorial trained by TensorFlow Quantum: its hybrid model, 112 + 48 samples, batches of 64,
Adam, mean squared error. Samples, their order and the initial weights are those of tests/golden, so
that the result can be compared. TensorBoard and the profiler are off. Usage: tfq_tutorial.py EPOCHS
WEIGHTS.h5. With TF_CONFIG it is one of several workers, and the first one saves. Prints one line of
JSON when the weights are on disk: seconds of each epoch, the last validation loss."""
import json
import os
import sys

import numpy as np
import tensorflow as tf

distributed = "TF_CONFIG" in os.environ
strategy = tf.distribute.MultiWorkerMirroredStrategy() if distributed else tf.distribute.get_strategy()  # must precede TFQ's operations

import cirq
import tensorflow_quantum as tfq

from tfq_qcnn import EpochSeconds, cluster, stage


def load(name):
    with open("tests/golden/tfq/" + name) as f:
        return json.load(f)


bits = cirq.GridQubit.rect(1, 8)
data = load("dataset_n8_seed2021.json")
circuits = tfq.convert_to_tensor([cirq.Circuit(cirq.rx(a)(bits[q])) for a, q in zip(data["angles"], data["qubits"])])
labels = np.array(data["labels"])
with strategy.scope():
    source = tf.keras.Input(shape=(), dtype=tf.dtypes.string)
    state = tfq.layers.AddCircuit()(source, prepend=cluster(bits))
    quantum = tfq.layers.PQC(stage(0, bits, "research"), [cirq.Z(b) for b in bits[4:]])(state)
    model = tf.keras.Model(inputs=[source], outputs=[tf.keras.layers.Dense(1)(tf.keras.layers.Dense(8)(quantum))])
    model.compile(optimizer=tf.keras.optimizers.Adam(learning_rate=0.02), loss=tf.losses.mse, metrics=["accuracy"])
initial, at, weights = np.array(load("train_hybrid_research_50ep.json")["initial_weights"]), 0, []
for w in model.get_weights():
    weights.append(initial[at:at + w.size].reshape(w.shape))
    at += w.size
model.set_weights(weights)
times = EpochSeconds()
history = model.fit(circuits[:112], labels[:112], batch_size=64, epochs=int(sys.argv[1]), shuffle=False, verbose=0,
                    validation_data=(circuits[112:], labels[112:]), callbacks=[times])
if not distributed or strategy.cluster_resolver.task_id == 0:
    model.save_weights(sys.argv[2])
    print(json.dumps({"epochs": times.seconds, "val_loss": history.history["val_loss"][-1]}), flush=True)
