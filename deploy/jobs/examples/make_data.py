#!/usr/bin/env python3
"""Makes the samples of the examples: python3 make_data.py rewrites the CSV files in this folder, always the same."""
import csv
import math
import os
import random

HERE = os.path.dirname(os.path.abspath(__file__))


def write(name, head, rows):
    with open(os.path.join(HERE, name + ".csv"), "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(head)
        out.writerows(rows)


def parity(rng):
    """All words of four bits, and 1 where an odd number of them is set, else -1"""
    words = [[i >> 3 & 1, i >> 2 & 1, i >> 1 & 1, i & 1] for i in range(16)]
    rng.shuffle(words)
    return ["b0", "b1", "b2", "b3", "y"], [w + [1 if sum(w) % 2 else -1] for w in words]


def circle(rng):
    """Points of a square, and 1 inside the circle that has half of its area"""
    points = [[round(rng.uniform(-1, 1), 3) for _ in range(2)] for _ in range(400)]
    return ["x0", "x1", "y"], [p + [1 if math.hypot(*p) < math.sqrt(2 / math.pi) else 0] for p in points]


def moons(rng):
    """Two half circles that reach into each other, with noise; labels are one-hot"""
    rows = []
    for i in range(200):
        t, lower = math.pi * rng.random(), i % 2
        x = (1 - math.cos(t), 0.5 - math.sin(t)) if lower else (math.cos(t), math.sin(t))
        rows.append([round(v + rng.gauss(0, 0.1), 3) for v in x] + [1 - lower, lower])
    rng.shuffle(rows)
    return ["x0", "x1", "y0", "y1"], rows


def states(rng):
    """Angles between the two determinants of hydrogen's ground state, from short bonds to long ones; the first six train"""
    angles = [round(-1.6 * (i + 0.5) / 50, 4) for i in range(50)]
    six = angles[4::8]
    return ["theta"], [[a] for a in six + [a for a in angles if a not in six]]


def row(r, c): return abs(r) < 1


def column(r, c): return abs(c) < 1


def falling(r, c): return abs(r - c) < 1


def rising(r, c): return abs(r + c) < 1


def plus(r, c): return row(r, c) or column(r, c)


def cross(r, c): return falling(r, c) or rising(r, c)


def images(rng, shapes, n):
    """8 x 8 pixels from 0 to 9 of noisy strokes: each somewhere near the middle, of some size; and which of the shapes it is"""
    rows = []
    for i in range(n):
        shape, middle, size = i % len(shapes), [rng.uniform(2.5, 4.5), rng.uniform(2.5, 4.5)], rng.uniform(2, 3.5)

        def pixel(r, c):
            at = r - middle[0], c - middle[1]
            inside = max(map(abs, at)) <= size and shapes[shape](*at)
            return min(9, max(0, round((7 if inside else 1) + rng.gauss(0, 1.5))))

        rows.append([pixel(r, c) for r in range(8) for c in range(8)] + [shape])
    rng.shuffle(rows)
    return ["p%d" % i for i in range(64)] + ["y"], rows


if __name__ == "__main__":
    write("variational-classifier", *parity(random.Random(1)))
    write("reuploading", *circle(random.Random(2)))
    write("sandwich", *moons(random.Random(7)))
    write("autoencoder", *states(random.Random(4)))
    write("transfer-base", *images(random.Random(5), (row, column, falling, rising), 160))
    write("transfer-learning", *images(random.Random(6), (plus, cross), 60))
