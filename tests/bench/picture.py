"""Draws the time of one gradient (logarithmic) against qubits, from lines of lines.py, as SVG
text."""
import math
from html import escape

WIDTH, HEIGHT = 1000, 620
LEFT, RIGHT, TOP, BOTTOM = 96, 700, 76, 548
FONT = 'font-family="Helvetica, Arial, sans-serif"'
N_LOW, N_HIGH = 7, 33
DECADES = -7, 3  # of seconds
MARKS = ["100 ns", "1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s", "1000 s"]

# who, threads, engine -> label, colour, dashes, marker
SERIES = [
    (("tfq", 1, None), "TensorFlow Quantum, 1 core", "#b3261e", "", "square"),
    (("tfq", 2, None), "TensorFlow Quantum, 2 cores", "#b3261e", "7 5", "square"),
    (("lightning", 1, None), "PennyLane Lightning, 1 core", "#7b3fa0", "", "triangle"),
    (("lightning", 2, None), "PennyLane Lightning, 2 cores", "#7b3fa0", "7 5", "triangle"),
    (("qring", 1, "statevector"), "qring, any circuit, 1 core", "#c77700", "", "diamond"),
    (("qring", 2, "statevector"), "qring, any circuit, 2 cores", "#c77700", "7 5", "diamond"),
    (("qring", 1, "streaming"), "qring, streaming, 1 core", "#00695c", "", "circle"),
    (("qring", 2, "streaming"), "qring, streaming, 2 cores", "#00695c", "7 5", "circle"),
]


def x_of(n): return LEFT + (n - N_LOW) / (N_HIGH - N_LOW) * (RIGHT - LEFT)


def y_of(ns): return BOTTOM - (math.log10(ns * 1e-9) - DECADES[0]) / (DECADES[1] - DECADES[0]) * (BOTTOM - TOP)


def gradients(lines):
    """(who, threads, engine) -> {n: line}: the pure model with the fastest table; at 8 qubits a
    batch of 64."""
    got = {}
    best = {}
    for l in lines:
        if l["bench"] != "gradient" or l["name"] != "qcnn-pure" or (l["n"] == 8 and l["batch"] != 64): continue
        key = l["who"], l["threads"], l.get("engine") if l["who"] == "qring" else None
        at = key + (l["n"],)
        rank = -l.get("part", 1), l["ns"]  # all of the work before a part of it, then the fastest table
        if at in best and best[at] < rank: continue
        best[at] = rank
        got.setdefault(key, {})[l["n"]] = l
    return got


def limits(lines, got):
    """Lower bounds from the machine's rates, (label, threads) -> {n: ns}: of the streaming engine's
    multiply-adds, and of the state vector engine's memory traffic."""
    ceiling = [l for l in lines if l["bench"] == "ceiling"]
    out = {}
    for threads in 1, 2:
        peaks = [l["gflops_best"] for l in ceiling if l["name"] == "fma-float32" and l["threads"] == threads]
        flops = {n: l["flops"] / l.get("part", 1) for n, l in got.get(("qring", threads, "streaming"), {}).items()}
        label = f"streaming: multiply-adds, {threads} core{'s' if threads > 1 else ''}"
        if peaks and flops: out[label, threads] = {n: f / max(peaks) for n, f in flops.items()}
    rates = {l["name"]: (l["bytes"], l["gb_per_s_best"]) for l in ceiling if "triad-" in l["name"] and l["threads"] == 1}
    whole = got.get(("qring", 1, "statevector"), {})
    if len(rates) == 4 and whole:
        def rate(n):  # of the cache level that holds two vectors; triad uses half of L1 and L2, a quarter of L3
            state = 2 * 8 * 2 ** n
            for level, share in ("l1", 2), ("l2", 2), ("l3", 4):
                if state <= rates["triad-" + level][0] * share: return rates["triad-" + level][1]
            return rates["triad-dram"][1]
        out["any circuit: memory traffic", 0] = {n: l["bytes"] / rate(n) for n, l in whole.items() if "bytes" in l and n >= 12}
    return out


def marker(kind, x, y, colour, hollow):
    fill, r = "#ffffff" if hollow else colour, 4.5
    style = f'fill="{fill}" stroke="{colour}" stroke-width="2"'
    if kind == "circle": return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}" {style}/>'
    if kind == "square": return f'<rect x="{x - r:.1f}" y="{y - r:.1f}" width="{2 * r}" height="{2 * r}" {style}/>'
    points = [(0, -r - 1.5), (r + 1.5, 0), (0, r + 1.5), (-r - 1.5, 0)] if kind == "diamond" else [(0, -r - 1), (r + 1, r), (-r - 1, r)]
    return f'<polygon points="{" ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in points)}" {style}/>'


def path(points, colour, dashes, width):
    d = "M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<path d="{d}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"{dashed}/>'


def text(x, y, words, size=15, anchor="start", colour="#202124", more=""):
    style = f'font-size="{size}" text-anchor="{anchor}" fill="{colour}" {FONT}{more}'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'


def axes():
    out = []
    for decade in range(DECADES[0], DECADES[1] + 1):
        y = y_of(10.0 ** (9 + decade))
        out += [path([(LEFT, y), (RIGHT, y)], "#dadce0", "", 1), text(LEFT - 10, y + 5, MARKS[decade - DECADES[0]], anchor="end")]
    for n in range(8, 33, 4):
        out += [path([(x_of(n), TOP), (x_of(n), BOTTOM)], "#eceff1", "", 1), text(x_of(n), BOTTOM + 24, str(n), anchor="middle")]
    corners = [(LEFT, TOP), (RIGHT, TOP), (RIGHT, BOTTOM), (LEFT, BOTTOM), (LEFT, TOP)]
    out.append(path(corners, "#5f6368", "", 1.2))
    out.append(text((LEFT + RIGHT) / 2, BOTTOM + 52, "qubits n (a state is 2ⁿ amplitudes)", 16, "middle"))
    middle = (TOP + BOTTOM) / 2
    out.append(text(24, middle, "time of one gradient, per sample", 16, "middle", more=f' transform="rotate(-90 24 {middle})"'))
    return out


def draw(lines):
    where = next(l for l in lines if l["bench"] == "machine")
    got = gradients(lines)
    whole = f'width="{WIDTH}" height="{HEIGHT}"'
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {whole} role="img">',
           "<title>Time of one gradient of the pure QCNN against qubits</title>", f'<rect {whole} fill="#ffffff"/>',
           text(LEFT, 32, "One gradient of the pure QCNN, all parameters, per sample", 20, more=' font-weight="bold"'),
           text(LEFT, 56, f"{where['cpu']}, {where['processors']} cores; median of the runs", 15, colour="#5f6368")] + axes()
    y, hollow, edge = TOP + 14, False, RIGHT + 22
    def entry(label, colour, dashes, kind, width):
        nonlocal y
        out.append(path([(edge, y - 5), (edge + 36, y - 5)], colour, dashes, width))
        if kind: out.append(marker(kind, edge + 18, y - 5, colour, False))
        out.append(text(edge + 46, y, label, 14.5))
        y += 26
    limit = limits(lines, got)
    def style(threads): return "#5f6368" if threads else "#c77700", "" if threads == 1 else "2 4"
    for (_, threads), points in limit.items(): out.append(path([(x_of(n), y_of(points[n])) for n in sorted(points)], *style(threads), 1.6))
    for key, label, colour, dashes, kind in SERIES:
        points = got.get(key)
        if not points: continue
        at = [(x_of(n), y_of(points[n]["ns"] / points[n].get("part", 1))) for n in sorted(points)]
        out.append(path(at, colour, dashes, 2.4))
        for n, (x, h) in zip(sorted(points), at):
            part = points[n].get("part", 1) != 1
            hollow |= part
            out.append(marker(kind, x, h, colour, part))
        entry(label, colour, dashes, kind, 2.4)
    y += 14
    if limit:
        out.append(text(edge, y, "Limits of the machine", 14.5, more=' font-weight="bold"'))
        y += 26
    for label, threads in limit: entry(label, *style(threads), "", 1.6)
    if hollow:
        y += 14
        for words in ("Hollow: a part of the slices,", "scaled up to all of them."):
            out.append(text(edge, y, words, 14.5, colour="#5f6368"))
            y += 20
    return "\n".join(out + ["</svg>"]) + "\n"
