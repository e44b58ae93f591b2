"""profiler_pages.py OUT QRING: the real TensorBoard with its profile plugin: "Capture profile" of
two training workers, and steps of a job; the data of its pages equals the recorded files.
Screenshots with Chromium."""
import collections
import gzip
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.dirname(HERE))
from free_ports import free_ports

OUT, QRING = sys.argv[1], sys.argv[2]
counts = collections.Counter()


def check(what, ok):
    counts["passed" if ok else "failed"] += 1
    if not ok:
        print("not so:", what)
    return ok


def get(path, **query):
    url = f"http://127.0.0.1:{board}/data/plugin/profile/{path}?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=90) as reply:
        body = reply.read()
    return gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body


def wait_for(what, seconds):
    by = time.monotonic() + seconds
    while time.monotonic() < by:
        try:
            found = what()
            if found:
                return found
        except OSError:
            pass
        time.sleep(0.2)
    return None


def tables(data):
    return json.loads(data) if isinstance(json.loads(data), list) else [json.loads(data)]


def rows(table):
    names = [c["label"] for c in table["cols"]]
    return [dict(zip(names, [c["v"] for c in row["c"]])) for row in table["rows"]]


# ---- data of the pages ----

def trace(run, host):
    events = json.loads(get("data", run=run, tag="trace_viewer", host=host, tqx="out:json"))["traceEvents"]
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    spans = [(threads.get((e["pid"], e["tid"]), "?"), e["name"], e["dur"]) for e in events if e.get("ph") == "X"]
    return spans


def check_trace(run, host, recorded):
    spans = trace(run, host)
    count, total_us = collections.Counter(), collections.Counter()
    for thread, name, dur in spans:
        name = name.rstrip("0123456789 ") if name.startswith(("train ", "test ")) else name
        count[thread, name] += 1
        total_us[thread, name] += dur
    for thread, name, n, us in recorded:
        if name == "test" and not count[thread, name]:
            continue  # the plugin may append a number to an evaluation's name
        check(f"{run} {host}: {n} of {name} on {thread}, not {count[thread, name]}", count[thread, name] == n)
        check(f"{run} {host}: {name} took {us} us, not {total_us[thread, name]}", abs(total_us[thread, name] - us) <= 0.01 * us + 1)
    return count


def recorded_in(path):
    client = os.path.join(ROOT, "tests/it/profile_client.py")
    lines = subprocess.run([sys.executable, client, "spans", path], check=True, capture_output=True, text=True).stdout
    return [(t, n, int(k), float(us)) for t, n, k, us in (line.split("\t") for line in lines.splitlines())]


def check_statistics(run, hosts, recorded):
    of_all = collections.Counter()
    for _, name, n, _ in recorded:
        of_all[name] += n
    shown = [r for t in tables(get("data", run=run, tag="framework_op_stats", host=hosts[0], tqx="out:json")) for r in rows(t)]
    operations = {r["Operation Name"]: r for r in shown if r.get("Host/device") == "Host"}
    print("  operations:", ", ".join(f"{r['Operation Name']}:{r['Operation Type']} {r['Total time (us)']:.0f} us" for r in list(operations.values())[:8]))
    for name in ("forward/quantum_0", "backward/quantum_0", "forward/dense_1", "reduce", "update"):
        check(f"{run}: {name} among the operations", name in operations)


def check_overview(run, host):
    overview = json.loads(get("data", run=run, tag="overview_page", host=host, tqx="out:json"))
    properties = {k: v for t in overview for k, v in t.get("p", {}).items()}
    print("  overview:", {k: properties.get(k) for k in ("steptime_ms_average", "host_compute_time_ms_avg", "hardware_type")})
    check(f"{run}: step times in the overview", float(properties.get("steptime_ms_average", 0)) > 0)
    steps = [r for t in overview if any(c["id"] == "stepnum" for c in t.get("cols", [])) for r in t["rows"]]
    check(f"{run}: a bar for each step", len(steps) > 2)


def check_run(run, folder, n):
    hosts = sorted(f[:-len(".xplane.pb")] for f in os.listdir(folder) if f.endswith(".xplane.pb"))
    if not check(f"{run}: files of {n} workers, not {hosts}", len(hosts) == n):
        return
    tools = json.loads(get("run_tools", run=run))
    check(f"{run}: {tools}", any(t.startswith("trace_viewer") for t in tools) and "overview_page" in tools)
    for host in hosts:
        recorded = recorded_in(os.path.join(folder, host + ".xplane.pb"))
        check_trace(run, host, recorded)
    check_statistics(run, hosts, recorded)
    check_overview(run, hosts[0])
    return hosts


# ---- pictures ----

def picture(name, run, tag, host):
    chromium = shutil.which("chromium")
    if not chromium:
        print(f"SKIP no Chromium: no picture {name}")
        counts["skipped"] += 1
        return
    path = os.path.join(OUT, name + ".png")
    query = urllib.parse.urlencode({"run": run, "tag": tag, "host": host})
    url = f"http://127.0.0.1:{board}/data/plugin/profile/index.html#profile" if tag is None else \
        f"http://127.0.0.1:{board}/?{query}#profile&{query}"
    subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1800,900",
                    f"--user-data-dir={OUT}/chromium", "--virtual-time-budget=60000", "--timeout=60000", f"--screenshot={path}", url],
                   capture_output=True, timeout=90, check=False)
    if check(f"a picture {name}", os.path.exists(path) and os.path.getsize(path) > 5000):
        print(f"  picture {path}")


# ---- main ----

board, first, second = free_ports(3)
logdir = os.path.join(OUT, "logs")
os.makedirs(logdir)
with open(os.path.join(ROOT, "deploy/jobs/qcnn.json"), encoding="utf-8") as f:
    job = json.load(f)
job["profile"] = {"steps": [20, 23]}
with open(os.path.join(OUT, "job.json"), "w", encoding="utf-8") as f:
    json.dump(job, f)
started = [subprocess.Popen([QRING, "run", os.path.join(OUT, "job.json"), "-n", "2", "--fresh", "--epochs", "1000000", "--out",
                             os.path.join(OUT, "run"), "--logdir", logdir, "--profiler-port", str(first)],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)]
started.append(subprocess.Popen([sys.executable, "-m", "tensorboard.main", "--logdir", logdir, "--port", str(board), "--bind_all"],
                                stdout=open(os.path.join(OUT, "tensorboard.log"), "w"), stderr=subprocess.STDOUT))
try:
    check("TensorBoard replies", wait_for(lambda: get("version"), 60))
    reply = json.loads(get("capture_profile", service_addr=f"localhost:{first},localhost:{first + 1}", is_tpu_name="false", duration="1000",
                           num_retry="3", worker_list="", host_tracer_level="2", device_tracer_level="1", python_tracer_level="0", delay="0"))
    check(f"Capture profile: {reply}", "result" in reply)
    runs = wait_for(lambda: (lambda r: len(r) > 1 and r)(json.loads(get("runs"))), 30) or []
    print("  runs:", runs)
    for run in runs:
        name = run.split("/")[-1]
        folder = os.path.join(logdir, "plugins/profile", name)
        hosts = check_run(run, folder, 2)
        if hosts:
            short = "steps" if name.startswith("steps") else "capture"
            picture(f"{short}-overview", run, "overview_page", hosts[0])
            picture(f"{short}-trace", run, "trace_viewer@", hosts[0])
            picture(f"{short}-operations", run, "framework_op_stats", hosts[0])
    check("steps of the job and a capture", len(runs) == 2)
finally:
    for p in started:
        p.terminate()
    for p in started:
        try:
            p.wait(20)
        except subprocess.TimeoutExpired:
            p.kill()
print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
sys.exit(counts["failed"] > 0)
