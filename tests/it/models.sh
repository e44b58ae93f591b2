#!/bin/sh
# Models of every kind (chains with dropout, frozen layers and two circuits, ansätze, expressions,
# objectives without labels) whose workers are killed: one of three, which is restarted, and all,
# which resume from checkpoints. Weights and steps are those of an undisturbed worker. bits.sh
# runs the same jobs over workers, threads, kernels and schedules.
. "$(dirname "$0")/common"
unset TF_CONFIG QRING_JOB QRING_WEIGHTS
models="chain-12 chain-frozen chain-sandwich chain-two-circuits ansatz-feature-map ansatz-uploading expressions vqe-hamiltonian expectation-weights counts-auc"
often="--checkpoint-interval 20ms --checkpoint-steps 5 --logdir="

# started_run DIR FLAGS: starts qring run of $job in the background; sets d and r. until_lines N:
# waits for N steps or the exit
started_run() { d=$1; shift; setsid nice -n 19 "$qring" run "$job" --out "$d" --epochs $epochs "$@" >>"$d.log" 2>&1 </dev/null & r=$!; started="$started $r"; }
lines() { if [ -f "$1" ]; then wc -l <"$1"; else echo 0; fi; }
until_lines() {
    tries=0
    while [ "$(lines "$d/steps.jsonl")" -lt "$1" ] && kill -0 "$r" 2>/dev/null && [ $tries -lt 3000 ]; do tries=$((tries + 1)); sleep 0.02; done
}
as_undisturbed() {
    check "$name, $1: the digest" test "$(json_string "$d/result.json" state_digest)" = "$(json_string "$work/$name-alone/result.json" state_digest)"
    check "$name, $1: the weights" cmp -s "$d/weights.h5" "$work/$name-alone/weights.h5"
    check "$name, $1: each step once" cmp -s "$d/steps.jsonl" "$work/$name-alone/steps.jsonl"
}
# undisturbed: trains $job with one worker; sets all to the number of lines in its steps.jsonl
undisturbed() {
    run_to "$work/log" "$qring" run "$job" -n 1 --epochs $epochs --out "$work/$name-alone" --checkpoints none --logdir= || fail "$name: $(tail -n 2 "$work/log")"
    all=$(lines "$work/$name-alone/steps.jsonl")
}
# all_killed: kills two workers of $job after a third of the steps; one worker resumes
all_killed() {
    # shellcheck disable=SC2086
    started_run "$work/$name-all" -n 2 $often
    until_lines $((all / 3))
    if kill -9 $r 2>/dev/null; then kills=$((kills + 1)); fi
    wait $r 2>/dev/null
    # shellcheck disable=SC2086
    run_to "$work/log" "$qring" run "$job" -n 1 --epochs $epochs --out "$d" $often; rc=$?
    check "$name: the resumed run ends with 0, not $rc: $(tail -n 2 "$work/log")" test $rc = 0
    if grep -q "^resuming from step" "$work/log"; then resumed="$resumed $name"; fi
    as_undisturbed "all killed"
}
kills=0
for name in $models; do
    job=tests/golden/digests/jobs/$name.json epochs=600
    undisturbed
    started_run "$work/$name-one" -n 3 --restart --logdir=
    until_lines $((all / 5))
    if kill -9 "$(pgrep -P $r -f qringd | head -n 1)" 2>/dev/null; then kills=$((kills + 1)); fi
    wait $r; rc=$?
    check "$name: a ring with one worker killed ends with 0, not $rc: $(tail -n 2 "$d.log")" test $rc = 0
    as_undisturbed "one of three killed"
    all_killed
    rm -rf "$work/$name-one" "$work/$name-all"
done
check "most runs were killed while training: $kills of 20" test $kills -ge 12
check "most runs resumed from a checkpoint:$resumed" test "$(echo "$resumed" | wc -w)" -ge 6

# transfer learning: a trained circuit, frozen, with a new head; from each file format
old=$work/chain-sandwich-alone
"$qring" weights "$old/weights.safetensors" --to "$work/old.npz" >/dev/null
cp "$old/weights.safetensors" "$old/weights.h5" "$work"
for file in weights.safetensors weights.h5 old.npz; do
    $python - "$work" "$file" <<'P'
import json, sys
work, file = sys.argv[1:]
job = json.load(open("tests/golden/digests/jobs/chain-sandwich.json"))
job["name"] = "head"
job["seed"] = 7
job["model"][0]["name"] = "embedding"
job["model"][2]["trainable"] = False
job["model"][4]["name"] = "head"
job["train"]["initial_weights"] = {"url": work + "/" + file, "layers": {"embedding": "dense", "pqc": "pqc"}}
json.dump(job, open(work + "/head.json", "w"))
# with a negligible learning rate, with and without the old weights: the initial weights
job["train"]["optimizer"]["learning_rate"] = 1e-13
json.dump(job, open(work + "/start.json", "w"))
del job["train"]["initial_weights"]
json.dump(job, open(work + "/anew.json", "w"))
P
    run_to "$work/log" "$qring" run "$work/head.json" -n 2 --epochs 3 --out "$work/head-$file"; rc=$?
    check "a new head on $file: exit 0, not $rc: $(tail -n 2 "$work/log")" test $rc = 0
    check "the start of a new head on $file" run_to "$work/log" "$qring" run "$work/start.json" -n 1 --epochs 1 --out "$work/start-$file"
done
"$qring" show "$work/head.json" --json >"$work/counts.json"; "$qring" show "$work/head.json" >"$work/counts.txt"
"$qring" validate "$work/head.json" --out "$work/v" >"$work/validate.txt" 2>&1
total=$(sed 's/.*"parameters":\([0-9]*\),"frozen.*/\1/' "$work/counts.json") frozen=$(sed 's/.*"frozen_parameters":\([0-9]*\).*/\1/' "$work/counts.json")
check "$frozen of $total parameters are frozen" test "${frozen:-0}" -gt 0 -a "${frozen:-0}" -lt "${total:-0}"
check "show prints both numbers" test "$(grep -cxE "Trainable params: $((total - frozen))|Non-trainable params: $frozen" "$work/counts.txt")" = 2
check "validate prints both numbers" holds "$work/validate.txt" "$total parameters: $((total - frozen)) trainable, $frozen frozen"
check "the log has both numbers" holds "$work/head-old.npz/worker-0.log" "$total parameters: $((total - frozen)) trainable, $frozen frozen"
check "the model with weights from the seed" run_to "$work/log" "$qring" run "$work/anew.json" -n 1 --epochs 1 --out "$work/anew"
check "the same weights from safetensors and npz" cmp -s "$work/head-weights.safetensors/weights.h5" "$work/head-old.npz/weights.h5"
check "the frozen circuit has the old bits (h5: as float32); embedding and head are trained, from the old weights and from the seed" $python - "$work" <<'P'
import json, struct, sys
def tensors(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n])
    of = lambda at: struct.unpack("<%dd" % ((at[1] - at[0]) // 8), raw[8 + n + at[0]:8 + n + at[1]])
    return {k: of(v["data_offsets"]) for k, v in head.items() if k != "__metadata__"}
single = lambda v: struct.unpack("<%df" % len(v), struct.pack("<%df" % len(v), *v))
far = lambda a, b: max(abs(x - y) for x, y in zip(a, b))
work = sys.argv[1]
old, anew = tensors(work + "/weights.safetensors"), tensors(work + "/anew/weights.safetensors")
for file in "weights.safetensors", "weights.h5":
    new = tensors(work + "/head-%s/weights.safetensors" % file)
    ok = sorted(new) == sorted(k.replace("dense_1/", "head/").replace("dense/", "embedding/") for k in old)
    kept = old["pqc/parameters"]
    ok = ok and new["pqc/parameters"] == (single(kept) if file.endswith("h5") else kept)
    # three epochs are 12 steps of Adam, none of which moves a weight by more than 0.05 / sqrt(1 - 0.999) * (1 - 0.9)
    moved = far(new["embedding/kernel"], old["dense/kernel"])
    ok = ok and 0 < moved < 12 * 0.05 * 3.2 and far(new["head/kernel"], old["dense_1/kernel"]) > 0.01
    start = tensors(work + "/start-%s/weights.safetensors" % file)
    ok = ok and far(start["embedding/kernel"], old["dense/kernel"]) < 1e-6 and far(start["head/kernel"], anew["head/kernel"]) < 1e-9
    if not ok:
        sys.exit("%s: %s, moved by %g" % (file, sorted(new), moved))
P
# A killed run resumes from its checkpoint, not from the old weights. On a busy machine a run may end
# before it is killed: then another is started.
name=head job=$work/head.json resumed= runs=0
undisturbed
while [ -z "$resumed" ] && [ $runs -lt 10 ]; do runs=$((runs + 1)); rm -rf "$work/$name-all"; all_killed; done
check "transfer learning resumed from a checkpoint: $(head -n 3 "$work/log")" test "$resumed" = " head"
# initial weights: qring weights --init, and a run with learning rate 0
still="--set train.optimizer.learning_rate=0"
check "the first weights, as a file" run_to "$work/init.log" "$qring" weights --init "$work/head.json" --seed 9 $still --to "$work/first.safetensors"
check "a run with learning rate 0" run_to "$work/log" "$qring" run "$work/head.json" --seed 9 $still --epochs 1 --out "$work/still"
check "the run ends with the initial weights" cmp "$work/first.safetensors" "$work/still/weights.safetensors"
"$qring" weights --init deploy/jobs/qcnn.json >"$work/init.csv"; rc=$?
check "initial weights as CSV: exit 0, not $rc" test $rc = 0
check "initial weights as CSV: parameters by name, in order" test "$(sed -n '2,4p;11,12p' "$work/init.csv" | cut -d, -f1-3 | tr '\n' ' ')" = \
    "pqc/parameters,0,qconv0 pqc/parameters,1,qconv1 pqc/parameters,2,qconv2 pqc/parameters,9,qconv10 pqc/parameters,10,qconv11 "
check "initial weights as JSON: the same values" $python - "$work/init.csv" "$("$qring" weights --init deploy/jobs/qcnn.json --json)" <<'P'
import csv, json, sys
rows, report = list(csv.DictReader(open(sys.argv[1]))), json.loads(sys.argv[2])
flat = lambda v: [x for i in v for x in flat(i)] if isinstance(v, list) else [v]
for name, values in report["weights"].items():
    of = [r for r in rows if r["tensor"] == name]
    assert [float(r["value"]) for r in of] == flat(values) and [int(r["index"]) for r in of] == list(range(len(of)))
    assert [r["parameter"] for r in of] == report["parameters"].get(name, [""] * len(of))
assert len(rows) == sum(len(flat(v)) for v in report["weights"].values())
P
run_to "$work/log" "$qring" weights --init deploy/jobs/qcnn.json "$work/first.safetensors"; rc=$?
check "--init with a weights file: exit 2, not $rc" test $rc = 2
run_to "$work/log" "$qring" weights "$work/first.safetensors" --seed 3; rc=$?
check "--seed without a job: exit 2, not $rc" test $rc = 2
end
