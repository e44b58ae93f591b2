"""The MLP (mlp.py) in Keras: compile and fit, in float64. Usage and output are those of
numpy_mlp.py."""
import json
import sys
import time

import numpy as np
import tensorflow as tf

folder, name, rate, batch, epochs, threads = sys.argv[1], sys.argv[2], float(sys.argv[3]), *map(int, sys.argv[4:7])
tf.config.threading.set_intra_op_parallelism_threads(threads)
tf.config.threading.set_inter_op_parallelism_threads(threads)
tf.keras.backend.set_floatx("float64")


class Epochs(tf.keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.results = {"ns": [], "cpu_ns": [], "losses": []}

    def on_epoch_begin(self, epoch, logs=None):
        self.cpu, self.start = time.process_time_ns(), time.perf_counter_ns()

    def on_epoch_end(self, epoch, logs=None):
        self.results["ns"].append(time.perf_counter_ns() - self.start)
        self.results["cpu_ns"].append(time.process_time_ns() - self.cpu)
        self.results["losses"].append(logs["loss"])


data, start = np.load(folder + "/data.npz"), np.load(folder + "/weights.npz")
x, y = data["x"], tf.keras.utils.to_categorical(data["y"], 10, dtype="float64")
model = tf.keras.Sequential([tf.keras.layers.Dense(128, activation="relu", input_shape=(x.shape[1],)),
                             tf.keras.layers.Dense(10, activation="softmax")])
model.set_weights([start[w] for w in ("dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias")])
optimizer = {"sgd": tf.keras.optimizers.SGD, "adam": tf.keras.optimizers.Adam}[name](learning_rate=rate)
model.compile(optimizer=optimizer, loss="categorical_crossentropy")
times = Epochs()
model.fit(x, y, batch_size=batch, epochs=epochs, shuffle=False, verbose=0, callbacks=[times])
print(json.dumps(times.results))
