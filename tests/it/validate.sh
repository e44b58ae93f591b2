#!/bin/sh
# qring validate reports problems of a job before it runs, with exit code 2, or its cost; it writes
# no files.
. "$(dirname "$0")/common"
unset TF_CONFIG GOOGLE_APPLICATION_CREDENTIALS GCE_METADATA_HOST NO_GCE_CHECK STORAGE_EMULATOR_HOST
base=$root/deploy/jobs/qcnn.json
mkdir "$work/here"; cd "$work/here" || exit 1
row=0
# expect CODES WORDS COMMAND...: the exit code is one of "2|138", the output has every word of
# "a|b|c", no file is written
expect() {
    codes=$1 words=$2; shift 2
    row=$((row + 1)) log=$work/row$row.log
    run_to "$log" "$@"; rc=$?
    case "|$codes|" in *"|$rc|"*) pass ;; *) fail "exit $rc, expected $codes: $*"; tail -n 5 "$log" ;; esac
    old_ifs=$IFS; IFS='|'
    for w in $words; do if holds "$log" "$w"; then pass; else fail "no '$w' in the output: $*"; tail -n 5 "$log"; fi; done
    IFS=$old_ifs
    left=$(find . -mindepth 1 | head -n 3)
    if [ -z "$left" ]; then pass; else fail "left $left: $*"; rm -rf ./*; fi
}

# the tutorial
expect 0 'ring        a single worker (no --index, no TF_CONFIG, no --peer-template)|112 training samples|memory|pod-hours|recommended: |a message between pods about 200 us|No problems found' \
    "$qring" validate "$base" --threads 1
expect 0 'out/qcnn/weights.h5' "$qring" validate
expect 0 'cost: pod-hours x 1 CPU x 0.04' "$qring" validate "$base" --threads 1 --price-per-cpu-hour 0.04
expect 0 'deep/er/still' "$qring" validate "$base" --out deep/er/still --logdir deep/logs --weights other/w.npz
expect 0 'Usage: qring validate' "$qring" validate --help
expect 2 'price-per-cpu-hour' "$qring" validate "$base" --price-per-cpu-hour cheap
expect 2 '--threads' "$qring" validate "$base" --thread 2

# All errors of a job file are reported.
sed 's/"epochs": *[0-9]*/"epochs": -1/; s/"batch_size": *[0-9]*/"batch_size": "many", "leanring_rate": 3/; s/"seed": *[0-9]*/"seed": 0.5/' "$base" >"$work/faulty.json"
expect 2 "train.epochs|train.batch_size|leanring_rate|seed" "$qring" validate "$work/faulty.json"
check "each error is reported once" test "$(grep -c 'train.epochs' "$work/row$row.log")" = 1

# --json: the rows follow the cost model
"$qring" validate "$base" --threads 1 --json --price-per-cpu-hour 3 >"$work/v.json" 2>"$work/v.log"
check "--json: the numbers are consistent" $python - "$work/v.json" <<'P'
import json, sys
v = json.load(open(sys.argv[1]))
assert v["good"] and v["findings"] == [] and v["job"] == "qcnn" and v["ring"]["role"] == "single", v
assert v["train_samples"] == 112 and v["validation_samples"] == 48 and v["threads"] == 1
assert 0 < v["memory_bytes"] < v["memory_limit_bytes"]
one, two = v["workers"][:2]
assert one["workers"] == 1 and one["speed_up"] == 1 and len(v["workers"]) == 64
assert one["seconds_per_step"] >= 4 * v["seconds_per_wave"] > 0
assert two["seconds_per_step"] > v["message_seconds_assumed"] == 2e-4
for r in v["workers"]:
    assert abs(r["pod_hours"] - r["workers"] * r["seconds"] / 3600) <= 1e-12 * r["pod_hours"]
    assert abs(r["cost"] - 3 * r["pod_hours"]) <= 1e-12 * r["cost"]
P
# a large circuit: micro-batches take much longer than messages, so more workers pay off
TF_CONFIG='{"cluster": {"worker": ["127.0.0.1:1"], "evaluator": ["127.0.0.1:2"]}, "task": {"type": "evaluator", "index": 0}}' \
    "$qring" validate "$base" --threads 1 --json >"$work/outside.json" 2>"$work/outside.log"
check "--json: outside the ring there is no index" $python -c "import json; assert json.load(open('$work/outside.json'))['ring']['index'] is None"
sed 's/"qubits": 8, "stages": 1/"qubits": 16/; s/"readouts": \[[^]]*\]/"readouts": ["Z15"]/; s/"rounds": 20/"rounds": 4/' "$base" >"$work/wide.json"
"$qring" validate "$work/wide.json" --threads 1 --json >"$work/wide.out" 2>"$work/wide.log"
check "16 qubits: more than one worker pays off" $python -c "import json; v = json.load(open('$work/wide.out')); assert v['best_workers'] > 1, v['best_workers']"
# The recommended number of workers is the fastest with an efficiency of at least one half.
for out in v.json wide.out; do
    check "$out: the best number is the table's" $python -c "
import json
v = json.load(open('$work/$out'))
efficient = [r for r in v['workers'] if 2 * r['speed_up'] >= r['workers']]
best = min(efficient, key=lambda r: r['seconds'])['workers']
assert v['best_workers'] == best, (v['best_workers'], best)
assert '$out' == 'v.json' or len(efficient) < len(v['workers'])"
done

# Circuits that take seconds per sample: the time is scaled or estimated, within a bound.
case ${QR_B:-release} in *release) slow=23 ;; *) slow=21 ;; esac # sanitizers are slower
for row_of in "$slow scaled" "32 estimated"; do
    n=${row_of% *} want=${row_of#* }
    sed 's/"qubits": 8, "stages": 1/"qubits": '"$n"'/; s/"research"},/"research"}},/; /"readouts"/d; s/"rounds": 20/"rounds": 8/; s/"seed": 1,/& "micro_batch_size": 64,/' "$base" >"$work/n$n.json"
    began=$(now_ms)
    check "$n qubits are accepted" "$qring" validate "$work/n$n.json" --threads 1 --json >"$work/n$n.out"
    took=$(($(now_ms) - began))
    bound "$n qubits: validated" $took 30000 300000
    check "$n qubits: $want" $python -c "
import json
v = json.load(open('$work/n$n.out'))
assert v['timing'] == '$want' and v['seconds_per_wave'] > 2 and len(v['workers']) == 64, {k: v[k] for k in v if k != 'workers'}"
done

# --json: the same keys for every problem
sed 's|"data": .*|"data": {"source": "csv", "url": "missing.csv"},|' "$base" >"$work/csv.json"
keys() { "$qring" validate "$@" --json 2>/dev/null | $python -c 'import json, sys; print(sorted(json.load(sys.stdin)))'; }
all=$(keys "$base")
for k in logdir checkpoints ring train_samples timing workers; do case "$all" in *"'$k'"*) pass ;; *) fail "no $k in $all" ;; esac; done
check "no job: every key" test "$(keys "$work/nowhere.json")" = "$all"
check "no ring: every key" test "$(TF_CONFIG='{' keys "$base")" = "$all"
check "no data: every key" test "$(keys "$work/csv.json")" = "$all"
"$qring" validate "$work/csv.json" --json --logdir l --out o >"$work/null.out" 2>/dev/null
check "--json: unknown values are null" $python -c "
import json
v = json.load(open('$work/null.out'))
assert v['logdir'].endswith('l') and v['checkpoints'].endswith('o/checkpoints') and v['out'].endswith('o'), v
assert v['timing'] is v['workers'] is v['parameters'] is v['best_workers'] is None and v['ring']['role'] == 'single', v"

# the ring and its names
expect 0 'index 1|127.0.0.1:2222 -> 127.0.0.1' env TF_CONFIG="$(tf_config 1 127.0.0.1:2222 127.0.0.1:2223)" "$qring" validate "$base"
# Without a DNS server the lookup fails with a retryable code.
expect '2|138' 'worker 1  nowhere.invalid:2222 -> no address|name nowhere.invalid' \
    env TF_CONFIG="$(tf_config 0 127.0.0.1:2222 nowhere.invalid:2222)" "$qring" validate "$base" --plaintext
expect 2 '--plaintext' "$qring" validate "$base" --index 0 --peers 10.255.255.1:2222,10.255.255.2:2222
expect 0 '10.255.255.2:2222 -> 10.255.255.2' "$qring" validate "$base" --index 0 --peers 10.255.255.1:2222,10.255.255.2:2222 --plaintext
expect 0 'ps, index 0|ps     0  127.0.0.1:2223 -> 127.0.0.1|worker 1  127.0.0.1:2222' \
    env TF_CONFIG='{"cluster":{"worker":["127.0.0.1:2222"],"ps":["127.0.0.1:2223"]},"task":{"type":"ps","index":0}}' "$qring" validate "$base"
expect 2 'no worker, chief or master to compute' env TF_CONFIG='{"cluster":{"ps":["127.0.0.1:2223"]},"task":{"type":"ps","index":0}}' "$qring" validate "$base"
expect 2 'TF_CONFIG' env TF_CONFIG='{' "$qring" validate "$base"

# job, data, memory, places
expect 2 'nowhere.json' "$qring" validate "$work/nowhere.json"
sed 's/"epochs": 50/"epoch": 50/' "$base" >"$work/key.json"
expect 2 "'epochs'" "$qring" validate "$work/key.json"
: >"$work/file"
expect 2 "missing.csv|$work/file|2 problems" "$qring" validate "$work/csv.json" --out "$work/file/out"
expect 2 '64 qubits|bytes' "$qring" validate "$(sed 's/"qubits": 8/"qubits": 64/; s/"stages": 1, //; s/"Z4", "Z5", "Z6", "Z7"/"Z63"/' "$base" >"$work/big.json"; echo "$work/big.json")"
expect 2 'gs://bucket/out|local folder' "$qring" validate "$base" --out gs://bucket/out

# Cloud Storage
fake_storage
expect 2 'gs://auth-bucket|credentials' env NO_GCE_CHECK=true HOME="$work" "$qring" validate "$base" --weights gs://auth-bucket/w.h5
export STORAGE_EMULATOR_HOST="$at" GCE_METADATA_HOST="$at"
expect 0 'gs://auth-bucket/w.h5' "$qring" validate "$base" --weights gs://auth-bucket/w.h5
expect 2 'bucket forbidden-b|roles/storage.objectUser' "$qring" validate "$base" --weights gs://forbidden-b/w.h5
expect 2 'bucket readonly-b' "$qring" validate "$base" --weights-gcs-bucket readonly-b --weights-gcs-path w.h5
expect 2 'bucket does not exist' "$qring" validate "$base" --weights gs://missing-b/w.h5
$python -c "import urllib.request as u; print(u.urlopen('http://$at/control/log').read().decode())" >"$work/requests"
check "the bucket's permissions were requested" grep -q testPermissions "$work/requests"
check "nothing was uploaded" sh -c "! grep -q /upload/ '$work/requests'"

# completions
check "bash completes validate" sh -c "'$qring' completion bash | grep -A 2 '^    validate)' | grep -q -- '--price-per-cpu-hour.*--peer-template'"
check "fish completes validate" sh -c "'$qring' completion fish | grep -q 'seen_subcommand_from validate. -l peer-template'"
end
