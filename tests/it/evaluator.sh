#!/bin/sh
# An evaluator process beside workers: its curve has the lines of training's own evaluations, byte
# for byte, each once, through kill -9, SIGTERM and SIGSTOP; weights have the same bits with and
# without it; training never waits for it. Started by TF_CONFIG and by flags; reads a folder and a
# bucket.
. "$(dirname "$0")/common"
unset TF_CONFIG GOOGLE_APPLICATION_CREDENTIALS GCE_METADATA_HOST NO_GCE_CHECK
sed 's/"name": "qcnn"/"name": "evaluated"/; s/"metrics": \["accuracy"\]/"metrics": ["accuracy", "mae"], "log": {"gap": "val_loss - loss"}/' \
    deploy/jobs/qcnn.json >"$work/job.json"
epochs=3000
run_to "$work/alone.log" "$qringd" "$work/job.json" --epochs $epochs --out "$work/alone" || fail "one worker does not train"
digest=$(json_string "$work/alone/result.json" state_digest)
grep '"kind":"EVAL"' "$work/alone/steps.jsonl" | sed 's/,"state_digest.*/}/' >"$work/inline"

# points FILE: the lines of an evaluator's curve in the form of training's
points() { sed 's/,"job_hash":"[0-9a-f]\{16\}"}$/}/' "$1"; }
lines() { n=0; [ ! -e "$1/evaluation.jsonl" ] || n=$(wc -l <"$1/evaluation.jsonl"); }
until_lines() { # FOLDER LINES
    tries=0; until lines "$1"; [ "$n" -ge "$2" ] || [ $tries -gt 3000 ]; do tries=$((tries + 1)); sleep 0.02; done
}
wait_for_log() { tries=0; until grep -q "$2" "$1" 2>/dev/null || [ $tries -gt 3000 ]; do tries=$((tries + 1)); sleep 0.02; done; } # LOG WORDS
# curve WHAT FOLDER LEAST: the curve has at least LEAST points, in order, each once, all of them
# training's own, and ends with training's last
curve() {
    points "$2/evaluation.jsonl" >"$work/points"
    check "$1: at least $3 points, not $(wc -l <"$work/points")" test "$(wc -l <"$work/points")" -ge "$3"
    check "$1: each is a line of training's own evaluations" test "$(grep -c -xF -f "$work/inline" "$work/points")" = "$(wc -l <"$work/points")"
    check "$1: in order, each once" sh -c "grep -o '^{\"step\":[0-9]*' '$work/points' | cut -d: -f2 | sort -n -u -C"
    check "$1: the last point is training's last" test "$(tail -n 1 "$work/points")" = "$(tail -n 1 "$work/inline")"
}
same() { # WHAT FOLDER: digest and weights are those of one worker without an evaluator
    check "$1: the digest" test "$(json_string "$2/result.json" state_digest)" = "$digest"
    check "$1: the weights" cmp -s "$2/weights.safetensors" "$work/alone/weights.safetensors"
}
start_evaluator() { # LOG COMMAND...: in the background; p is its process
    log=$1; shift
    "$@" --evaluate-interval 20ms >>"$log" 2>&1 </dev/null & p=$!
    started="$started $p"
}
ends_epochs="--checkpoint-interval 1h --checkpoint-epochs 5"

# with two workers, by TF_CONFIG; killed and terminated repeatedly
# shellcheck disable=SC2046
set -- $(free_ports 4); w0=127.0.0.1:$1 w1=127.0.0.1:$2 e0=127.0.0.1:$3 http=$4
config() { printf '{"cluster":{"worker":["%s","%s"],"evaluator":["%s"]},"task":{"type":"%s","index":%s}}' "$w0" "$w1" "$e0" "$1" "$2"; }
out=$work/killed; mkdir -p "$out"
export TF_CONFIG
TF_CONFIG=$(config evaluator 0)
start_evaluator "$out.evaluator.log" "$qringd" "$work/job.json" --epochs $epochs --out "$out" --logdir "$out/logs" --http-port "$http"
wait_for_log "$out.evaluator.log" 'waiting'
check "the evaluator waits for a run that has not begun" grep -q 'no checkpoint of this job in .* yet; waiting' "$out.evaluator.log"
workers=
for i in 0 1; do
    TF_CONFIG=$(config worker $i)
    # shellcheck disable=SC2086
    "$qringd" "$work/job.json" --data-port 0 --threads 1 --epochs $epochs $ends_epochs --out "$out" >"$out.worker$i.log" 2>&1 </dev/null & workers="$workers $!"
done
started="$started $workers"
TF_CONFIG=$(config evaluator 0)
until_lines "$out" 2
run_to "$work/output" "$qring" status "127.0.0.1:$http"
check "status of an evaluator: $(head -n 1 "$work/output")" grep -q "^an evaluator at 127.0.0.1:$http" "$work/output"
check "status has the last point of the curve" grep -q '^evaluated   step [1-9][0-9]*, val_loss 0\.' "$work/output"
for sig in KILL TERM KILL; do
    kill -$sig "$p"; wait "$p" 2>/dev/null; rc=$?
    lines "$out"; before=$n # counted after its exit: its last lines do not count for the next one
    [ $sig = KILL ] || check "SIGTERM: 143, not $rc" test $rc = 143
    start_evaluator "$out.evaluator.log" "$qringd" "$work/job.json" --epochs $epochs --out "$out" --logdir "$out/logs" --http-port "$http"
    until_lines "$out" $((before + 1))
done
for pid in $workers; do wait "$pid"; rc=$?; check "a worker ends with 0, not $rc" test $rc = 0; done
wait "$p"; rc=$?
check "the evaluator ends with the run: 0, not $rc" test $rc = 0
check "the evaluator logs the end of the run" grep -q 'done: the run has ended' "$out.evaluator.log"
curve "killed" "$out" 5
same "killed" "$out"
check "the workers' steps are those of one alone" cmp -s "$out/steps.jsonl" "$work/alone/steps.jsonl"
check "the evaluator is not a member of the ring" grep -q 'all-reduce: .* over 2 workers' "$out.worker0.log"
check "the ring never changed" sh -c "! grep -q 'resumed after step' '$out.worker0.log'"
check "TensorBoard has a curve of the evaluator" grep -q 'evaluation_loss_vs_iterations' "$out"/logs/evaluator/events*
check "the evaluator logs its last step on SIGTERM" grep -q 'evaluator, last evaluated step [0-9]*: drained on SIGTERM' "$out.evaluator.log"
unset TF_CONFIG
echo "$(wc -l <"$out/evaluation.jsonl") of $epochs epochs in the curve of an evaluator that was killed twice"

# frozen throughout: training ends nevertheless; then the evaluator evaluates the last state
out=$work/frozen; mkdir -p "$out"
start_evaluator "$out.log" "$qringd" "$work/job.json" --role evaluator --epochs $epochs --out "$out"
wait_for_log "$out.log" 'waiting'
kill -STOP "$p"
# shellcheck disable=SC2086
run_to "$out.train.log" "$qringd" "$work/job.json" --epochs $epochs $ends_epochs --out "$out" || fail "training waits for an evaluator"
lines "$out"; check "a frozen evaluator evaluates nothing" test "$n" = 0
kill -CONT "$p"; wait "$p"; rc=$?
check "the resumed evaluator ends with 0, not $rc" test $rc = 0
curve "frozen" "$out" 1
lines "$out"; check "the resumed evaluator evaluates only the last state" test "$n" = 1
same "frozen" "$out"

# started twice after the end of the run, in a separate folder
for i in 1 2; do
    run_to "$work/late.$i.log" "$qringd" "$work/job.json" --role evaluator --epochs $epochs --out "$work/late" --checkpoints "$out/checkpoints"
    rc=$?; check "over, $i: 0, not $rc" test $rc = 0
done
curve "over" "$work/late" 1
lines "$work/late"; check "a second evaluator adds no line" test "$n" = 1
check "a second evaluator logs that the curve is complete" grep -q 'the curve had its last state' "$work/late.2.log"

# Training without evaluation: the same weights, and the evaluator's values are those of training
# with evaluation; SIGTERM while the evaluator waits.
out=$work/blind; mkdir -p "$out"
start_evaluator "$out.log" "$qringd" "$work/job.json" --role evaluator --set train.evaluate=false --epochs $epochs --out "$out" --termination-log "$out.words"
: >"$out.words"
wait_for_log "$out.log" 'waiting'
kill -TERM "$p"; wait "$p"; rc=$?
check "SIGTERM to a waiting evaluator: 143, not $rc" test $rc = 143
check "the termination message of a waiting evaluator" grep -q 'drained on SIGTERM' "$out.words"
start_evaluator "$out.log" "$qringd" "$work/job.json" --role evaluator --set train.evaluate=false --epochs $epochs --out "$out"
# shellcheck disable=SC2086
run_to "$out.train.log" "$qringd" "$work/job.json" --set train.evaluate=false --epochs $epochs $ends_epochs --out "$out" || fail "training without evaluation"
wait "$p"; rc=$?
check "blind: 0, not $rc" test $rc = 0
check "no evaluation in training" sh -c "! grep -q EVAL '$out/steps.jsonl'"
curve "blind" "$out" 2
same "blind" "$out"

# Checkpoints within an epoch: the loss is that of qring evaluate.
out=$work/within; mkdir -p "$out"
start_evaluator "$out.log" "$qringd" "$work/job.json" --role evaluator --epochs $epochs --out "$out"
run_to "$out.train.log" "$qringd" "$work/job.json" --epochs $epochs --checkpoint-interval 0 --checkpoint-steps 7 --out "$out" || fail "training with checkpoints within an epoch"
wait "$p"
tried=0
for file in "$out"/checkpoints/*.safetensors; do
    step=$(basename "$file" | cut -d- -f2 | sed 's/^0*//')
    line=$(grep "^{\"step\":$step," "$out/evaluation.jsonl") || continue
    run_to "$work/output" "$qring" evaluate "$work/job.json" --weights "$file" --json
    loss=$(sed -n 's/.*"loss":\([^,]*\),.*/\1/p' "$work/output")
    check "step $step: $loss in $line" sh -c "echo '$line' | grep -qF '\"loss\":$loss,'"
    tried=$((tried + 1))
done
check "at least one checkpoint was compared" test $tried -ge 1

# checkpoints and curves in a bucket
fake_storage
export STORAGE_EMULATOR_HOST="$at" GCE_METADATA_HOST="$at"
out=$work/bucket; mkdir -p "$out"
start_evaluator "$out.log" "$qringd" "$work/job.json" --role evaluator --epochs $epochs --out "$out/evaluator" --weights gs://auth-bucket/run/w.h5 --logdir gs://auth-bucket/run/logs
# shellcheck disable=SC2086
run_to "$out.train.log" "$qringd" "$work/job.json" --epochs $epochs $ends_epochs --out "$out/train" --weights gs://auth-bucket/run/w.h5 || fail "training with a bucket"
wait "$p"; rc=$?
check "an evaluator with a bucket: 0, not $rc" test $rc = 0
curve "bucket" "$out/evaluator" 1
same "bucket" "$out/train"
check "the bucket has the evaluator's events" object auth-bucket "run/logs/evaluator/$(cd "$out/evaluator/logs/evaluator" && ls)" "$work/events"
check "the events in the bucket are those of the local file" cmp -s "$work/events" "$out"/evaluator/logs/evaluator/events*
end
