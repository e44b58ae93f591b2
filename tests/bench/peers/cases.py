"""What is compared: models, batches, weights, samples. A case is a text file that every side reads (gradient.c too):

    kind qcnn-pure        down to one qubit, whose Z is the prediction; or qcnn-hybrid: one stage, the rest's Z into dense 8, dense 1
    qubits N
    engine auto           or statevector: qring's
    weights W W W ...     exponents of the trainable gates in the order of their symbols' numbers, kernel and bias of each dense layer
    sample QUBIT ANGLE LABEL   one RX, as the tutorial's data have; its exponent has six decimals, more do not reach TFQ's simulator

What is computed is the gradient of the mean squared error."""
import math
import random
import struct

# kind, qubits, batch, repetitions; LONG=1 adds the last two
GRADIENTS = [
    ("qcnn-pure", 8, 16, 21),
    ("qcnn-pure", 8, 64, 21),
    ("qcnn-pure", 8, 112, 15),
    ("qcnn-hybrid", 8, 64, 21),
    ("qcnn-pure", 12, 16, 21),
    ("qcnn-pure", 16, 16, 7),
    ("qcnn-pure", 20, 2, 7),
]
LONG_GRADIENTS = [
    ("qcnn-pure", 22, 2, 5),
    ("qcnn-pure", 23, 1, 5),
]


def stages(kind, n):
    """Each stage's qubits: pooling keeps the unpaired last one of an odd number."""
    bits, k = list(range(n)), 0
    while len(bits) > 1 and (kind == "qcnn-pure" or k < 1):
        yield bits
        bits, k = bits[len(bits) // 2:], k + 1


def write_case(path, kind, n, batch):
    """The same numbers every time: gates over their whole period, float32 numbers all."""
    rng = random.Random("%s %d" % (kind, n))
    weights = [rng.uniform(0, 2) for _ in stages(kind, n) for _ in range(21)]
    if kind == "qcnn-hybrid":
        weights += [rng.uniform(-0.7, 0.7) for _ in range((n - n // 2) * 8 + 8 + 8 + 1)]
    with open(path, "w") as f:
        f.write("kind %s\nqubits %d\n" % (kind, n))
        f.write("weights %s\n" % " ".join(repr(struct.unpack("f", struct.pack("f", w))[0]) for w in weights))
        for _ in range(batch):
            exponent = round(rng.uniform(-1, 1), 6)
            f.write("sample %d %r %d\n" % (rng.randrange(n), exponent * math.pi, 1 if abs(exponent) <= 0.5 else -1))


def with_engine(path, engine):
    """The same case for another engine of qring's: the path of its file"""
    other = path + "-" + engine
    with open(path) as f, open(other, "w") as g:
        g.write("engine %s\n%s" % (engine, f.read()))
    return other


class Case:
    def __init__(self, path):
        self.samples, self.labels = [], []
        with open(path) as f:
            for line in f:
                key, *words = line.split()
                if key == "kind":
                    self.kind = words[0]
                elif key == "qubits":
                    self.n = int(words[0])
                elif key == "weights":
                    self.weights = [float(w) for w in words]
                elif key == "sample":
                    self.samples.append((int(words[0]), float(words[1])))
                    self.labels.append(float(words[2]))
