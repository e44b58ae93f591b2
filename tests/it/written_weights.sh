#!/bin/sh
# Results of a run and a sweep describe the written weights: qring evaluate of
# weights.safetensors gives the same numbers and matrix, to the last bit, as result.json, the last
# line of qring run (with its digits), sweep.csv, sweep.json and TensorBoard's HParams, with early
# stopping, averages and halving.
. "$(dirname "$0")/common"
unset TF_CONFIG QRING_JOB QRING_WEIGHTS QRING_SET QRING_SEED
cat >"$work/results.py" <<'P'
import csv, glob, json, struct, subprocess, sys
qring, work = sys.argv[1:3]
failed = passed = 0

def check(what, good):
    global failed, passed
    passed += good
    failed += not good
    if not good: print("not so:", what)

def fields(b):
    at = 0
    def varint():
        nonlocal at
        n = shift = 0
        while True:
            c = b[at]; at += 1
            n |= (c & 127) << shift; shift += 7
            if c < 128: return n
    while at < len(b):
        key = varint()
        if key & 7 == 0: yield key >> 3, varint()
        elif key & 7 == 1: yield key >> 3, b[at:at + 8]; at += 8
        elif key & 7 == 5: yield key >> 3, b[at:at + 4]; at += 4
        else:
            n = varint()
            yield key >> 3, b[at:at + n]; at += n

def last_scalars(folder):
    """Return the values of each tag at its highest step, as HParams shows them."""
    ret = {}
    for path in sorted(glob.glob(folder + "/*tfevents*")):
        data, at = open(path, "rb").read(), 0
        while at < len(data):
            size = struct.unpack("<Q", data[at:at + 8])[0]
            event, at = list(fields(data[at + 12:at + 12 + size])), at + 16 + size
            step = dict(event).get(2, 0)
            for k, summary in event:
                if k != 5: continue
                for _, value in fields(summary):
                    v = dict(fields(value))
                    tensor = dict(fields(v[8])) if 8 in v else {}
                    if len(tensor.get(4, b"")) == 4:
                        tag = v[1].decode()
                        if tag not in ret or step >= ret[tag][0]: ret[tag] = step, struct.unpack("<f", tensor[4])[0]
    return {tag: v for tag, (_, v) in ret.items()}

def single(x): return struct.unpack("<f", struct.pack("<f", x))[0]

def shown(x): return "%.6g" % x if x == 0 or 1e-3 <= abs(x) < 1e6 else "%.5e" % x

def evaluated(out, weights="weights.safetensors"):
    text = subprocess.run([qring, "evaluate", out + "/job.json", "--weights", f"{out}/{weights}", "--json"], check=True, capture_output=True).stdout
    e = json.loads(text)
    assert e["set"] == "validation"
    return {"val_loss": e["loss"], **{"val_" + k: v for k, v in e["metrics"].items()}}, e.get("confusion_matrix")

def run(name, log, restored, average):
    out = f"{work}/{name}"
    e, matrix = evaluated(out)
    r = json.load(open(out + "/result.json"))
    mine = {"val_loss": r["val_loss"], **{k: v for k, v in r["metrics"].items() if k.startswith("val_")}}
    check(f"{name}: result.json {mine}, evaluate {e}", mine == e)
    check(f"{name}: the matrix {r.get('val_confusion_matrix')}, evaluate {matrix}", r["val_confusion_matrix"] == matrix)
    lines = open(log).read().splitlines()
    all_values = {"loss": r["loss"], "val_loss": r["val_loss"], **r["metrics"]}
    final = dict(p.split(": ") for p in lines[-1].split(" - "))
    check(f"{name}: the last line {final}", final == {k: shown(v) for k, v in all_values.items() if "confusion" not in k})
    text = subprocess.run([qring, "evaluate", out], check=True, capture_output=True, text=True).stdout.splitlines()
    text = {"val_" + l.split()[0]: l.split()[1] for l in text[1:] if len(l.split()) > 1 and not l.split()[0].isdigit() and "onfusion" not in l}
    check(f"{name}: the last line {final}, evaluate {text}", text and all(final.get(k) == v for k, v in text.items()))
    check(f"{name}: the matrix on screen", [[int(x) for x in l.split()] for l in lines[-2 - len(matrix):-2]] == matrix)
    seen = last_scalars(out + "/logs")
    for tag, value in ((t, v) for t, v in all_values.items() if t != "gap"): check(f"{name}: TensorBoard's {tag} is {seen.get(tag)}, not {value}", seen.get(tag) == single(value))
    steps = [json.loads(l) for l in open(out + "/steps.jsonl")]
    evals = {s["epoch"]: {"val_loss": s["loss"], **{"val_" + k: v for k, v in s["metrics"].items() if k != "gap"}} for s in steps if s["kind"] == "EVAL"}
    stopping = r.get("early_stopping")
    if stopping:
        best = min(evals, key=lambda k: (evals[k]["val_loss"], k))
        check(f"{name}: {stopping}", stopping == {"monitor": "val_loss", "best_epoch": best, "best": evals[best]["val_loss"], "restored": restored})
        check(f"{name}: the best epoch is logged", any(l.startswith(f"best epoch {best}: val_loss {shown(evals[best]['val_loss'])}; ") for l in lines))
        check(f"{name}: the best epoch {best} is not the last, {r['epochs']}", best < r["epochs"])
    of = stopping["best_epoch"] if restored else r["epochs"]
    check(f"{name}: values of epoch {of}, unless averaged", (mine == evals[of]) == (not average))
    # One step per epoch: the line of the step is that of the epoch.
    check(f"{name}: loss is of epoch {of}", r["loss"] == next(s["loss"] for s in steps if s["kind"] == "TRAIN" and s["epoch"] == of))

def sweep(name):
    out = f"{work}/{name}"
    table = json.load(open(out + "/sweep.json"))
    rows = {int(r["trial"]): r for r in csv.DictReader(open(out + "/sweep.csv"))}
    last = max(r["epochs"] for r in table["trials"]) if "halving" in name else 0
    values = {}
    for t in table["trials"]:
        folder = f"{out}/trials/{t['trial']:04}"
        e, _ = evaluated(folder)
        mine = {k: v for k, v in t["metrics"].items() if k.startswith("val_")}
        check(f"{name}, trial {t['trial']}: sweep.json {mine}, evaluate {e}", mine == e)
        check(f"{name}, trial {t['trial']}: sweep.csv", all(float(rows[t["trial"]][k]) == v for k, v in e.items()))
        seen = last_scalars(folder + "/logs")
        check(f"{name}, trial {t['trial']}: TensorBoard {seen}", all(seen[k] == single(v) for k, v in e.items()))
        if t["status"] == "done": values[t["trial"]] = e["val_loss"]
    best = min(values, key=lambda t: (values[t], t))
    check(f"{name}: trial {table['best']} is best, and by evaluate {best}", table["best"] == best)
    e, _ = evaluated(out + "/best")
    check(f"{name}: best/ has {e}", e["val_loss"] == values[best])

if sys.argv[3] == "sweep": sweep(sys.argv[4])
else: run(sys.argv[3], sys.argv[4], sys.argv[5] == "restored", sys.argv[6] == "average")
print(f"{passed} passed, {failed} failed, 0 skipped")
P
check_results() { $python "$work/results.py" "$qring" "$work" "$@" >"$work/check_results.log" 2>&1; grep '^not so' "$work/check_results.log"; add "$work/check_results.log"; }
$python - "$work" <<'P'
import json, sys
job = {"name": "j", "seed": 1,
       "model": [{"layer": "quantum", "circuit": {"ansatz": "qcnn", "qubits": 4, "stages": 1}, "readouts": ["Z2", "Z3"]}, {"layer": "dense", "units": 1, "l2": 0.01}],
       "data": {"source": "cluster-excitations", "rounds": 8, "train_fraction": 0.5}}
train = {"epochs": 30, "batch_size": 64, "loss": "mse", "metrics": ["accuracy", "confusion_matrix", "mae"], "log": {"gap": "val_loss - loss"}}
fast, slow = {"name": "adam", "learning_rate": 0.5}, {"name": "adam", "learning_rate": 0.05}
ema = {"use_ema": True, "ema_momentum": 0.9}
last = {"patience": 3, "restore_best_weights": False}
def write(name, optimizer, early=None, sweep=None):
    with open(f"{sys.argv[1]}/{name}.json", "w") as f:
        json.dump({**job, "train": {**train, "optimizer": optimizer, **({"early_stopping": early} if early else {})}, **({"sweep": sweep} if sweep else {})}, f)
write("plain", slow)
write("best", fast, {"patience": 3})
write("best-to-the-end", {"name": "adam", "learning_rate": 1.5}, {"patience": 100})
write("last", fast, last)
write("average", {**slow, **ema})
write("average-best", {**fast, **ema}, {"patience": 3})
write("average-last", {**fast, **ema}, last)
write("spsa", {"name": "spsa", "learning_rate": 0.05, **ema})
keys = {"seed": [1, 2, 3], "train.optimizer.learning_rate": [0.1, 0.5]}
write("sweep-best", fast, {"patience": 3}, {"keys": keys})
write("sweep-last", fast, last, {"keys": keys})
write("sweep-average", {**slow, **ema}, None, {"keys": keys})
halving = {"keys": {"seed": [1, 2, 3, 4, 5, 6], "train.optimizer.learning_rate": [0.1, 0.5]}, "halving": {"epochs": [2, 5, 15], "factor": 2}}
write("sweep-halving", fast, {"patience": 100}, halving)
write("sweep-halving-average", {**slow, **ema}, None, halving)
P
for n in 1 3; do
    while read -r job restored average; do
        check "$job, -n $n" run_to "$work/$job-$n.log" "$qring" run "$work/$job.json" -n $n --plaintext --threads 1 --out "$work/$job-$n"
        check_results "$job-$n" "$work/$job-$n.log" "$restored" "$average"
        [ $n = 1 ] || for f in weights.h5 weights.safetensors steps.jsonl; do check "$job: the same $f on 3" cmp "$work/$job-1/$f" "$work/$job-3/$f"; done
    done <<J
plain last none
best restored none
best-to-the-end restored none
last last none
average last average
average-best restored none
average-last last average
spsa last average
J
done
# LATEST can be read as weights.
check "LATEST to .h5" run_to "$work/latest.log" "$qring" weights "$work/last-1/checkpoints/LATEST" --to "$work/latest.h5" --job "$work/last.json"
check "the weights in LATEST are those of the last step" cmp "$work/latest.h5" "$work/last-1/weights.h5"
for job in sweep-best sweep-last sweep-average sweep-halving sweep-halving-average; do
    check "$job" run_to "$work/$job.log" "$qring" sweep "$work/$job.json" -n 2 --threads 1 --out "$work/$job"
    check_results sweep "$job"
done
end
