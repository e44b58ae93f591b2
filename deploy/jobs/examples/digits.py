#!/usr/bin/env python3
"""Draws digits and writes them as tables of pixels, a row an image: digits-4x4.csv (3 and 6, pixels 0 or 1, label 1 and -1) for mnist.json,
digits-8x8.csv (all ten, pixels 0 to 9, the label is the digit) for mlp.json. The same bytes each time.

    python3 deploy/jobs/examples/digits.py [FOLDER]    # without FOLDER beside this file
"""
import math
import os
import random
import sys

# Each digit as lines between points, x to the right and y down, in a square of side 1.
STROKES = {
    0: [[(.5, .08), (.25, .25), (.22, .6), (.4, .9), (.62, .9), (.78, .6), (.75, .25), (.5, .08)]],
    1: [[(.35, .25), (.55, .08), (.55, .92)]],
    2: [[(.24, .28), (.4, .1), (.65, .12), (.74, .32), (.55, .58), (.24, .9), (.78, .9)]],
    3: [[(.25, .12), (.7, .12), (.48, .42), (.72, .58), (.72, .8), (.5, .92), (.25, .86)]],
    4: [[(.65, .92), (.65, .08), (.22, .64), (.82, .64)]],
    5: [[(.74, .1), (.32, .1), (.28, .45), (.6, .42), (.76, .64), (.62, .88), (.26, .88)]],
    6: [[(.68, .08), (.4, .25), (.25, .6), (.35, .88), (.62, .9), (.74, .7), (.6, .52), (.28, .6)]],
    7: [[(.22, .1), (.78, .1), (.42, .92)]],
    8: [[(.5, .48), (.28, .3), (.5, .08), (.72, .3), (.5, .48), (.26, .7), (.5, .92), (.74, .7), (.5, .48)]],
    9: [[(.72, .4), (.45, .5), (.28, .3), (.45, .1), (.7, .14), (.72, .4), (.62, .92)]],
}
FINE = 16  # points a side, at which a drawing is looked at


def distance(x, y, a, b):
    """From a point to the line between two"""
    dx, dy = b[0] - a[0], b[1] - a[1]
    t = ((x - a[0]) * dx + (y - a[1]) * dy) / (dx * dx + dy * dy)
    t = min(1.0, max(0.0, t))
    return math.hypot(x - a[0] - t * dx, y - a[1] - t * dy)


def drawn(digit, rng):
    """FINE x FINE points of 0 to 1: the digit as if hand-drawn: rotated, slanted, moved and stretched a little"""
    turn, slant = rng.uniform(-.3, .3), rng.uniform(-.3, .3)
    wide, high, pen = rng.uniform(.8, 1.15), rng.uniform(.8, 1.05), rng.uniform(.04, .08)
    right, down = rng.uniform(-.1, .1), rng.uniform(-.08, .08)
    lines = []
    for stroke in STROKES[digit]:
        points = []
        for x, y in stroke:
            x, y = (x - .5 + rng.uniform(-.05, .05)) * wide, (y - .5 + rng.uniform(-.05, .05)) * high
            x += slant * y
            points.append((.5 + right + x * math.cos(turn) - y * math.sin(turn), .5 + down + x * math.sin(turn) + y * math.cos(turn)))
        lines += list(zip(points, points[1:]))
    at = [(k + .5) / FINE for k in range(FINE)]
    near = [[min(distance(x, y, a, b) for a, b in lines) for x in at] for y in at]
    return [[min(1.0, max(0.0, 1 - (d - pen) * FINE)) for d in row] for row in near]


def pooled(image, side):
    """Means of its squares, row by row"""
    k = FINE // side
    return [sum(image[k * r + i][k * c + j] for i in range(k) for j in range(k)) / (k * k) for r in range(side) for c in range(side)]


def write(path, side, rows):
    with open(path, "w", encoding="ascii", newline="") as f:
        f.write(",".join("p%d_%d" % (r, c) for r in range(side) for c in range(side)) + ",y\n")
        f.writelines(",".join(map(str, row)) + "\n" for row in rows)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    rng = random.Random(16)
    rows = []
    for k in range(500):
        digit = (3, 6)[k % 2]
        rows.append([int(p > .5) for p in pooled(drawn(digit, rng), 4)] + [1 if digit == 3 else -1])
    write(os.path.join(folder, "digits-4x4.csv"), 4, rows)
    rows = [[round(9 * p) for p in pooled(drawn(k % 10, rng), 8)] + [k % 10] for k in range(400)]
    write(os.path.join(folder, "digits-8x8.csv"), 8, rows)


if __name__ == "__main__":
    main()
