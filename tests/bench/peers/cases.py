"""What is compared: circuits, batches, weights, samples. A case is a text file that every side reads (gradient.c too):

    qubits N | stages S (0: down to one qubit) | variant notebook or research | engine auto or blocked (qring's)
    theta T T T ...      exponents of the trainable gates, in the order of their symbols' numbers; float32 numbers
    sample QUBIT ANGLE   one RX, as the tutorial's data have; the angle's exponent has six decimals, more does not reach TFQ's simulator
"""
import math
import random
import struct

# name, qubits, stages, variant, batch, repetitions; LONG=1 adds the last two
GRADIENTS = [
    ("qcnn-pure", 8, 0, "notebook", 16, 21),
    ("qcnn-pure", 8, 0, "notebook", 64, 21),
    ("qcnn-pure", 8, 0, "notebook", 112, 15),
    ("qcnn-hybrid", 8, 1, "research", 64, 21),
    ("qcnn-pure", 12, 0, "notebook", 16, 21),
    ("qcnn-pure", 16, 0, "notebook", 16, 7),
    ("qcnn-pure", 20, 0, "notebook", 2, 5),
]
LONG_GRADIENTS = [
    ("qcnn-pure", 22, 0, "notebook", 2, 5),
    ("qcnn-pure", 23, 0, "notebook", 1, 5),
]


def n_parameters(n, stages, variant):
    count = 0
    while n > 1 and (stages == 0 or count < stages):
        n -= n // 2
        count += 1
    return 21 * count - (count if variant == "research" else 0)


def write_case(path, n, stages, variant, batch):
    """The same numbers every time; weights over the gates' whole period."""
    rng = random.Random("%d %d %s" % (n, stages, variant))
    theta = [struct.unpack("f", struct.pack("f", rng.uniform(0, 2)))[0] for _ in range(n_parameters(n, stages, variant))]
    with open(path, "w") as f:
        f.write("qubits %d\nstages %d\nvariant %s\n" % (n, stages, variant))
        f.write("theta %s\n" % " ".join(map(repr, theta)))
        for i in range(batch):
            f.write("sample %d %r\n" % (rng.randrange(n), round(rng.uniform(-1, 1), 6) * math.pi))


def with_engine(path, engine):
    """The same case for another engine of qring's: the path of its file"""
    other = path + "-" + engine
    with open(path) as f, open(other, "w") as g:
        g.write("engine %s\n%s" % (engine, f.read()))
    return other


class Case:
    def __init__(self, path):
        self.samples = []
        with open(path) as f:
            for line in f:
                key, *words = line.split()
                if key == "qubits":
                    self.n = int(words[0])
                elif key == "stages":
                    self.stages = int(words[0])
                elif key == "variant":
                    self.variant = words[0]
                elif key == "theta":
                    self.theta = [float(w) for w in words]
                elif key == "sample":
                    self.samples.append((int(words[0]), float(words[1])))


def stage_sizes(n, stages):
    """(qubits before, qubits after) of each stage: pooling keeps the unpaired last qubit of an odd number"""
    while n > 1 and stages >= 0:
        yield n, n - n // 2
        n -= n // 2
        stages = stages - 1 or -1 if stages else 0
