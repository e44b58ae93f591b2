#!/bin/sh
# Errors on the command line and in the environment (settings, URLs, --set keys, TF_CONFIG,
# ports), and machines that lack something.
. "$(dirname "$0")/wrong"

# the profiler
run 2 '--profiler-port|65536|0 ... 65535' "$base" --profiler-port 65536
run 2 '--profiler-port|here' "$base" --profiler-port here

# a URL with a missing slash is not taken for a folder
run 2 'gs:/bucket/w.h5|two slashes' "$base" --weights gs:/bucket/w.h5
run 2 '--logdir|gs:bucket/logs|gs://bucket/name has two slashes' "$base" --logdir gs:bucket/logs
run 2 '--logdir|two slashes' "$base" --logdir gs://

# web servers (tests/it/https.sh has more)
run 2 'http://h.example/j.json?...: http:// is not encrypted|give an https:// URL' "http://h.example/j.json?hush"
run 2 'https://h.example/j.json: a user or password in a URL is not supported|QRING_HTTPS_TOKENS' https://me:hush@h.example/j.json
run 2 'https://h.example/: the URL names no file' https://h.example/
run 2 'https:/h.example/j.json|https://host/path has two slashes' https:/h.example/j.json
run 2 'trained weights (--weights): https://h.example/w.h5: https:// URLs are read-only' "$base" --weights https://h.example/w.h5
run 2 'https://h.example/w.hdf?...: unknown suffix; name weights .h5' "$base" --set train.initial_weights=https://h.example/w.hdf?hush

# cost limits and prices
run 2 "--price-per-pod-hour: 'cheap' is not a number above 0" "$base" --price-per-pod-hour cheap
run 2 "--price-per-pod-hour: '0' is not a number above 0" "$base" --price-per-pod-hour 0
run 2 "--max-cost: '-1' is not a number above 0" "$base" --price-per-pod-hour 1 --max-cost -1
run 2 "--max-cost: 'nan' is not a number" "$base" --price-per-pod-hour 1 --max-cost nan
run 2 '--max-cost needs a price|--price-per-pod-hour too' "$base" --max-cost 5
run 2 '--currency needs a price' "$base" --currency EUR
run 2 "--progress-to: 'deployment/q' is not a valid target|kinds: job, pod" "$base" --progress-to deployment/q
run 2 "--progress-to: 'job/' is not a valid target" "$base" --progress-to job/
run 2 "--progress-to: 'job/A_B' is not a valid target" "$base" --progress-to job/A_B
run 2 "--progress-to: 'ftp://host' is not a valid target" "$base" --progress-to ftp://host/
run 2 "--progress-to: 'https://' is not a valid target" "$base" --progress-to https:///path
run 2 '--currency|at most 8 bytes' "$base" --price-per-pod-hour 1 --currency doubloons

# Keys set outside the job file: same checks, and the error names the flag or variable.
set_to() { words=$1; shift; wrong 2 "$words" "$qring" run "$base" -n 1 --out "$out" "$@"; }
set_to "qcnn.json: --set train.epochs=many: train.epochs must be an integer, not the string" --set train.epochs=many
set_to "--set train.epoch=1: train: unknown key 'epoch'; did you mean 'epochs'?" --set train.epoch=1
set_to "--set trian.epochs=1: the job: unknown key 'trian'; did you mean 'train'?" --set trian.epochs=1
set_to '--seed x: seed must be an integer' --seed x
set_to '--seed -1: seed is -1' --seed=-1
set_to "model has 3 elements|no [3]; to add an element, give the whole array" --set 'model[3]={"layer": "dense", "units": 1}'
set_to "--set model[head].units=1: model: no element has the \"name\" 'head'" --set 'model[head].units=1'
set_to "--set: 'epochs' is not PATH=VALUE" --set epochs
set_to "'train..epochs' is not a path" --set train..epochs=1
set_to '--set needs a value' --set
set_to '--set worker.thread=2: worker.thread is not a setting; did you mean' --set worker.thread=2
set_to 'qcnn.json with model[0].circuit.qubits=4 set: model[0].readouts' --set 'model[0].circuit.qubits=4'
wrong 2 'QRING_SET train.epochs=0: train.epochs is 0' env QRING_SET='seed=1
train.epochs=0' "$qringd" "$base" --out "$out"
wrong 2 "QRING_SEED many: seed must be" env QRING_SEED=many "$qring" infer "$base" --weights tests/golden/tfq/qcnn_weights.h5
wrong 2 '--set train.loss=mes: train.loss is' "$qring" show "$base" --set train.loss=mes
wrong 2 '--set seed=x: seed must be' "$qring" gradient "$base" --set seed=x
wrong 2 '--set seed=x: seed must be' "$qring" validate "$base" --set seed=x --out "$out"
run 2 'worker.set belongs on the command line' "$(edit 's/"seed": 1/"seed": 1, "worker": {"set": "seed=2"}/' worker-set)"

# texts on a full disk
for text in "$qring --version" "$qring --help" "$qring help run" "$qringd --version" "$qringd --help" "$qringd --print-identity"; do
    wrong 2 'cannot write standard output' sh -c "$text >/dev/full"
done

# the command line and the machine
wrong 2 '--threads' "$qring" run "$base" --thread 2 --out "$out"
wrong 2 'run' "$qring" rnu "$base"
wrong 2 'unknown flag --quite; did you mean --quiet' "$qring" run "$base" --quite --out "$out"
wrong 2 '--watched' "$qring" status localhost:1 --watched
wrong 2 '-n' "$qring" run "$base" -n 0 --out "$out"
wrong 2 'avx512' "$qring" run "$base" --isa avx51 --out "$out"
: >"$work/file"
wrong permanent "$work/file" "$qring" run "$base" -n 1 --out "$work/file/out"
mkdir -p "$out/result.json"
wrong 2 'result.json|directory' "$qring" run "$base" -n 1 --out "$out"
rmdir "$out/result.json" "$out"
# Outputs that are not regular files, named by a flag or by the job file.
mkdir "$work/dir.h5"
mkfifo "$work/pipe.h5"
for f in 'dir.h5|is a directory' 'pipe.h5|is a FIFO'; do
    run 2 "$f" "$(edit 's|"seed": 1|"seed": 1, "worker": {"weights": "'"$work/${f%%|*}"'"}|' place)"
    wrong 2 "$f" "$qringd" "$work/place.json" --out "$out" --http-port 0
done
wrong permanent "$work/pipe.h5" "$qringd" "$(edit 's|"seed": 1|"seed": 1, "worker": {"out": "'"$work/pipe.h5"'"}|' folder)" --http-port 0
check "the FIFO is not replaced" test -p "$work/pipe.h5"

# places, and the kernel table of another architecture
wrong permanent 'gs://bucket|local folder' "$qring" run "$base" -n 1 --out gs://bucket/out
check "no folder named gs: is created" test ! -e gs:
check "predictions are written to a file URL" "$qring" infer "$base" --weights tests/golden/tfq/qcnn_weights.h5 --predictions "file://$work/p.csv" >/dev/null
check "the file has predictions" test -s "$work/p.csv"
wrong 2 '--columns' "$qring" show "$base" --columns wide
case $(uname -m) in aarch64) other=avx2 ;; *) other=neon ;; esac
wrong permanent "$other" "$qring" run "$base" -n 1 --isa $other --out "$out"

# TF_CONFIG
identity() { wrong "$1" "$2" env TF_CONFIG="$3" "$qringd" "$base" --print-identity; }
identity 2 'TF_CONFIG' '{'
identity 2 'TF_CONFIG' '[]'
identity 2 'TF_CONFIG' 'hello'
identity 2 'TF_CONFIG' '{"cluster":{"worker":["a:2222","b:2222"]},"task":{"type":"worker","index":7}}'
identity 2 'TF_CONFIG' '{"cluster":{"worker":["a:2222","b:2222"]},"task":{"type":"worker","index":"x"}}'
identity 2 'TF_CONFIG' '{"cluster":{"worker":["a:2222","b:2222"]},"task":{"type":"boss","index":0}}'
identity 2 'TF_CONFIG' '{"cluster":{"worker":["a:99999","b:2222"]},"task":{"type":"worker","index":0}}'
identity 2 'TF_CONFIG' '{"cluster":{"worker":"a:2222"},"task":{"type":"worker","index":0}}'

identity 2 'no worker, chief or master to compute' '{"cluster":{"ps":["a:2222"]},"task":{"type":"ps","index":0}}'
identity 2 'names no ps' '{"cluster":{"worker":["a:2222"]},"task":{"type":"ps","index":0}}'
identity 2 'no cluster' '{"task":{"type":"ps","index":0}}'
identity 2 'enableDynamicWorker' '{"sparseCluster":{"worker":{},"ps":["p:2222"]},"task":{"type":"ps","index":0}}'
roles() { wrong 2 "$1" "$qringd" "$base" --print-identity "$2" "$3" --index 0 --peers a:1,b:2; }
roles '--role|boss|worker|evaluator' --role boss
roles '--role|--parameter-servers' --role ps
roles 'a:1|twice' --parameter-servers a:1
roles 'number 1|not an address' --parameter-servers p,
wrong 2 'TF_CONFIG defines the roles' env TF_CONFIG="$(tf_config 0 a:1)" "$qringd" "$base" --print-identity --role ps
wrong 2 '--parameter-servers|nothing names the workers' "$qringd" "$base" --print-identity --parameter-servers p

# evaluators
evaluator() { words=$1 file=$2; shift 2; wrong 2 "$words" "$qringd" "$file" --role evaluator "$@"; } # words, job, flags
evaluator 'an evaluator needs validation samples, but all 160 samples train|data.train_fraction below 1' "$(edit 's|"train_fraction": 0.7|"train_fraction": 1|' unjudged)" --out "$out"
wrong permanent 'an evaluator needs validation samples' "$qring" validate "$work/unjudged.json" --role evaluator --out "$out"
evaluator "an evaluator reads a run's checkpoints, and --checkpoints is none" "$base" --out "$out" --checkpoints none
evaluator '--evaluate-interval|soon|500ms, 10s' "$base" --out "$out" --evaluate-interval soon
evaluator '--checkpoint-epochs|-1' "$base" --out "$out" --checkpoint-epochs -1
evaluator '--out|results' "$base" --out gs://bucket/name
wrong 2 '--role is not supported by qring run' "$qring" run "$base" -n 1 --role evaluator --out "$out"
wrong 2 'TF_CONFIG defines the roles' env TF_CONFIG="$(tf_config 0 a:1)" "$qringd" "$base" --role evaluator --out "$out"
run_to "$work/judged.log" "$qringd" "$base" --epochs 2 --out "$work/judged"
evaluator 'judged/checkpoints has the checkpoints of another job: its hash is|this evaluator|--set' "$base" --out "$work/judge" --set seed=4711 --checkpoints "$work/judged/checkpoints"
mkdir -p "$work/judge"; echo 'step,loss' >"$work/judge/evaluation.jsonl"
evaluator 'judge/evaluation.jsonl: its last line was not written by an evaluator; delete it, or choose another --out' "$base" --epochs 2 --out "$work/judge" --checkpoints "$work/judged/checkpoints"
check "the file of another program is unchanged" test "$(cat "$work/judge/evaluation.jsonl")" = 'step,loss'
rm "$work/judge/evaluation.jsonl"; mkdir "$work/judge/evaluation.jsonl"
evaluator 'judge/evaluation.jsonl: it is a directory' "$base" --epochs 2 --out "$work/judge" --checkpoints "$work/judged/checkpoints"
rmdir "$work/judge/evaluation.jsonl"
: >"$work/judge/evaluation.jsonl"; $python -c "
import fcntl, time
f = open('$work/judge/evaluation.jsonl', 'r+'); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); time.sleep(60)" >"$work/held" &
holder=$!; started="$started $holder"
tries=0; until [ -s "$work/held" ] || [ $tries -gt 600 ]; do tries=$((tries + 1)); sleep 0.1; done
wrong 138 'judge/evaluation.jsonl: another evaluator is writing it|choose another --out' \
    "$qringd" "$base" --role evaluator --epochs 2 --out "$work/judge" --checkpoints "$work/judged/checkpoints"
kill $holder

# a port in use
$python -c "
import socket, time
s = socket.socket(); s.bind(('0.0.0.0', 0)); s.listen(); print(s.getsockname()[1], flush=True); time.sleep(60)" >"$work/port" &
holder=$!; started="$started $holder"
tries=0; until [ -s "$work/port" ] || [ $tries -gt 600 ]; do tries=$((tries + 1)); sleep 0.1; done
taken=$(cat "$work/port"); other=$(free_ports 1)
wrong permanent "$taken|in use" env TF_CONFIG="$(tf_config 0 "127.0.0.1:$taken" "127.0.0.1:$other")" "$qringd" "$base" --data-port 0 --out "$out"
kill $holder

# Without /proc, qring run reports a setup error; a single worker does not need it.
case $QR_B in */release) sanitized= ;; *) sanitized=1 ;; esac
if [ "$sanitized" ]; then
    skip "a machine without /proc: sanitizers read it"
elif unshare -m true 2>/dev/null; then
    no_proc() { run_to "$work/no-proc.log" unshare -m sh -c 'mount -t tmpfs none /proc && exec "$@"' sh "$@" "$base" --epochs 1 --out "$work/no-proc"; }
    no_proc "$qring" run; rc=$?
    check "qring run without /proc: 2, not $rc" test $rc = 2
    check "qring run without /proc: the fix" holds "$work/no-proc.log" "mount /proc (mount -t proc proc /proc), or start qringd itself"
    no_proc "$qringd"; rc=$?
    check "a worker without /proc: 0, not $rc" test $rc = 0
    rm -rf "$work/no-proc"
else
    skip "a machine without /proc: cannot create a mount namespace"
fi

# two jobs with different settings under one name: both workers name the field and both values
edit 's/"seed": 1/"seed": 4711/' other >/dev/null
# shellcheck disable=SC2046
set -- $(free_ports 2)
TF_CONFIG=$(tf_config 0 "127.0.0.1:$1" "127.0.0.1:$2") timeout 600 "$qringd" "$base" --data-port 0 --out "$work/a" >"$work/a.log" 2>&1 </dev/null & a=$!
TF_CONFIG=$(tf_config 1 "127.0.0.1:$1" "127.0.0.1:$2") timeout 600 "$qringd" "$work/other.json" --data-port 0 --out "$work/b" >"$work/b.log" 2>&1 </dev/null & b=$!
wait $a; rc_a=$?; wait $b; rc_b=$?
check "two jobs under one name: exit codes 3 and 3, not $rc_a and $rc_b" test "$rc_a $rc_b" = "3 3"
for side in a b; do for w in seed 4711; do check "worker $side logs '$w'" holds "$work/$side.log" "$w"; done; done
check "worker a logs its own seed" grep -Eq 'seed.*[^0-9]1[^0-9]' "$work/a.log"
check "two jobs under one name wrote nothing" test -z "$(find "$work/a" "$work/b" -type f 2>/dev/null)"
end
