"""The benchmarks' lines of JSON (README.md has the keys), written and read."""
import json, os, platform


def say(bench, name, **figures):
    print(json.dumps({"bench": bench, "name": name, "who": "qring", **figures}), flush=True)


def spread(values):
    """ns, ns_low, ns_high, runs of what was measured, in ns: median, p10, p90; the nearest value, none between two."""
    v, last = sorted(values), len(values) - 1
    return {"ns": round(v[len(v) // 2]), "ns_low": round(v[last // 10]), "ns_high": round(v[last - last // 10]), "runs": len(v)}


def machine():
    """The first line of a file: where it was measured, and how busy it was at the start."""
    with open("/proc/cpuinfo") as f: first = f.read().split("\n\n")[0].splitlines()
    cpu = dict(tuple(map(str.strip, l.split(":", 1))) for l in first if ":" in l)
    name = cpu.get("model name") or cpu.get("CPU part") or "unknown"
    if "cpu family" in cpu: name += f" (family {cpu['cpu family']}, model {cpu['model']})"
    return {"bench": "machine", "cpu": name, "processors": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "load": round(os.getloadavg()[0], 2)}


def read(path):
    with open(path) as f: return [json.loads(l) for l in f if l.startswith("{")]


def best_of(lines, bench="gradient", threads=1):
    """Of each case of make bench-peers, on so many cores: ((name, n, batch), qring's line or None, the others' lines, the fastest first).
    Theirs have `ratio` where qring did the case: the median over the rounds."""
    found, ratio = {}, {}
    for l in lines:
        case = l.get("name"), l.get("n"), l.get("batch")
        if bench == "gradient" and l["bench"] in ("problem", "skipped") and "name" in l: found.setdefault(case, [])
        if l.get("threads") != threads or l["bench"] not in (bench, bench + "-ratio"): continue
        if l["bench"] == bench: found.setdefault(case, []).append(l)
        elif "engine" not in l: ratio[case, l["against"]] = l["ratio"]
    for case, sides in found.items():
        ours = [l for l in sides if l["who"] == "qring"]
        others = [dict(l, ratio=ratio.get((case, l["who"]))) for l in sides if l["who"] != "qring"]
        yield case, ours[0] if ours else None, sorted(others, key=lambda l: l["ns"])


def time(ns):
    for unit, size in ("s", 1e9), ("ms", 1e6), ("µs", 1e3):
        if ns >= size: return f"{ns / size:.3g} {unit}" if ns < 1000 * size else f"{ns / size:.0f} {unit}"
    return f"{ns:.0f} ns"


def size(n):
    for unit, least in ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10):
        if n >= least: return f"{n / least:.0f} {unit}" if n >= 100 * least else f"{n / least:.3g} {unit}"
    return f"{n:.0f} B"
