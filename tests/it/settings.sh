#!/bin/sh
# The job from the command line: keys set by flags and by the environment equal those in a job
# file, in one process and in a ring; a job on standard input; a run's folder; differences to an
# existing run, by key.
. "$(dirname "$0")/common"
unset TF_CONFIG QRING_JOB QRING_WEIGHTS QRING_SET QRING_SEED
base=$root/deploy/jobs/qcnn.json
digest() { json_string "$1/result.json" state_digest; }
same() { check "$1: the same state" test "$(digest "$work/$1")" = "$(digest "$work/ref")"; check "$1: the same job hash" test "$(json_string "$work/$1/result.json" job_hash)" = "$(json_string "$work/ref/result.json" job_hash)"; }
ends_with() { want=$1 words=$2 log=$3; shift 3; run_to "$log" "$@"; rc=$?; check "exit $want, not $rc: $*: $(tail -n 1 "$log")" test $rc = "$want"; check "'$words' in the output: $*: $(tail -n 2 "$log")" holds "$log" "$words"; }

# the same result as with the keys in a job file
sed 's/"seed": 1/"seed": 5/; s/"epochs": 50/"epochs": 3/; s/"learning_rate": 0.02/"learning_rate": 0.01/' "$base" >"$work/job.json"
check "the job file has other keys" sh -c "! cmp -s '$base' '$work/job.json'"
check "a job file" run_to "$work/ref.log" "$qring" run "$work/job.json" --out "$work/ref"
set -- --set train.epochs=9 --set train.epochs=3 --seed 5 --set train.optimizer.learning_rate=0.01
check "keys from flags, two workers" run_to "$work/flags.log" "$qring" run "$base" -n 2 --out "$work/flags" "$@"
same flags
check "set keys are logged" holds "$work/flags.log" 'set: train.epochs=9, train.epochs=3, seed=5, train.optimizer.learning_rate=0.01'
lines='train.epochs=9
train.optimizer.learning_rate=0.01
train.epochs=3'
check "keys from the environment" run_to "$work/environment.log" env QRING_SET="$lines" QRING_SEED=5 "$qring" run "$base" -n 2 --out "$work/environment"
same environment
check "a worker: flags override the environment" run_to "$work/worker.log" env QRING_SET="$lines" QRING_SEED=7 "$qringd" "$base" --seed 5 --out "$work/worker"
same worker
check "the worker logs set keys" grep -q 'settings from flags: .*set=train.epochs=9, train.optimizer.learning_rate=0.01, train.epochs=3, seed=7, seed=5' "$work/worker.log"
check "show prints set keys" sh -c "'$qring' show '$base' --seed 5 | grep -qx 'set         seed=5'"
check "show --json" sh -c "'$qring' show '$base' --json --set 'model[1].units=3' | grep -q '\"set\":\\[\"model\\[1\\].units=3\"\\].*\"parameters\":3[0-9]'"
check "validate prints set keys" sh -c "'$qring' validate '$base' --seed 5 --out '$work/v' 2>/dev/null | grep -qx 'set         seed=5'"
check "validate --json" sh -c "QRING_SET=train.epochs=2 '$qring' validate '$base' --seed 5 --json --out '$work/v' 2>/dev/null | grep -q '\"set\":\\[\"train.epochs=2\",\"seed=5\"\\]'"
check "gradient applies --seed" sh -c "test \"\$('$qring' gradient '$base' --samples 0 --seed 5)\" = \"\$('$qring' gradient '$work/job.json' --samples 0)\""

# job.json in a run's folder is a job file, and the folder a job with its weights
check "the run's job.json trains again" run_to "$work/again.log" "$qring" run "$work/flags/job.json" --out "$work/again"
same again
check "qring run in a finished run's folder" run_to "$work/folder.log" "$qring" run "$work/flags" --out "$work/flags"
check "a finished run: the message, without differing keys" sh -c "grep -q '^already trained' '$work/folder.log' && ! grep -q 'in the run in' '$work/folder.log'"
"$qring" infer "$base" --weights "$work/flags/weights.safetensors" "$@" --json >"$work/a.json"; "$qring" infer "$work/flags" --json >"$work/b.json"
for f in a b; do sed 's/"weights":"[^"]*"//' "$work/$f.json" >"$work/$f.cut"; done
check "infer of the folder: loss and predictions" cmp "$work/a.cut" "$work/b.cut"
check "infer of the folder prints predictions" grep -q predictions "$work/b.json"
QRING_SET=train.optimizer.learning_rate=0.01 QRING_SEED=5 QRING_JOB=$base "$qring" infer --weights "$work/flags/weights.safetensors" --json >"$work/c.json"
check "infer reads the variables" cmp "$work/a.json" "$work/c.json"
check "without the variables the test set is another" sh -c "! '$qring' infer '$base' --weights '$work/flags/weights.safetensors' --json | cmp -s - '$work/a.json'"

# Files beside the job file are found from the run's folder.
mkdir -p "$work/beside"
printf 'x,y\n0.1,0\n0.2,1\n0.3,0\n0.4,1\n' >"$work/beside/d.csv"
echo '{"name": "beside", "model": [{"layer": "dense", "units": 1}], "data": {"source": "csv", "url": "d.csv", "train_fraction": 0.5}, "train": {"loss": "mse"}}' >"$work/beside/j.json"
check "a job with a file beside it" run_to "$work/beside.log" "$qring" run "$work/beside/j.json" --out "$work/beside/out"
check "the run's folder finds the file" sh -c "'$qring' infer '$work/beside/out' >/dev/null"

# standard input
check "a job on standard input, two workers" sh -c "'$qring' run - -n 2 --out '$work/input' <'$work/job.json' >'$work/input.log' 2>&1"
same input
check "a job from a pipe, with keys" sh -c "cat '$base' | QRING_JOB=- '$qring' run --out '$work/pipe' --seed 5 --set train.epochs=3 --set train.optimizer.learning_rate=0.01 >'$work/pipe.log' 2>&1"
same pipe
check "qringd with a job on standard input" sh -c "cat '$work/job.json' | '$qringd' - --out '$work/inputd' >'$work/inputd.log' 2>&1"
same inputd
for command in show gradient "validate --out $work/none" "infer --weights $work/ref/weights.h5"; do
    check "qring ${command%% *} with a job on standard input" sh -c "cat '$work/job.json' | '$qring' $command - >/dev/null 2>'$work/reads.log'"
done
check "qring certs with a job on standard input" sh -c "cat '$work/job.json' | '$qring' certs - --out '$work/certs' >/dev/null 2>&1"
ends_with 2 'the job on standard input: line 1, column 1' "$work/empty.log" "$qring" run -

# differences to an existing run, by key
ends_with 0 "train.epochs: 3 in the run in $work/ref, 4 here" "$work/more.log" "$qring" run "$work/job.json" --set train.epochs=4 --out "$work/ref"
check "more epochs: the run resumes" grep -q '^resuming from step 6 of 8' "$work/more.log"
ends_with 0 "train.epochs: 4 in the run in $work/ref, 2 here" "$work/fewer.log" "$qringd" "$work/job.json" --epochs 2 --out "$work/ref"
ends_with 2 "seed: 5 in the run in $work/ref, 6 here; train.loss: \"mse\" in the run in $work/ref, \"mae\" here: $work/ref/checkpoints has the checkpoints of another job" \
    "$work/other.log" "$qring" run "$work/job.json" --epochs 4 --seed 6 --set train.loss=mae --out "$work/ref"
ends_with 2 "seed: 5 in the run in $work/ref, 6 here: " "$work/otherd.log" "$qringd" "$work/job.json" --epochs 4 --seed 6 --out "$work/ref"
ends_with 2 "seed: 5 in the run in $work/ref, 6 here: " "$work/otherv.log" "$qring" validate "$work/job.json" --epochs 4 --seed 6 --out "$work/ref"
printf 'x,y\n0.1,0\n0.2,1\n0.3,0\n0.4,0\n' >"$work/beside/d.csv"
ends_with 2 "no key differs from $work/beside/out/job.json, but the data" "$work/data.log" "$qring" run "$work/beside/j.json" --out "$work/beside/out"

# a ring with one worker with another QRING_SET
# shellcheck disable=SC2046
set -- $(free_ports 2)
for i in 0 1; do
    QRING_SET="train.optimizer.learning_rate=0.0$((i + 1))" TF_CONFIG=$(tf_config $i "127.0.0.1:$1" "127.0.0.1:$2") \
        timeout 600 "$qringd" "$base" --data-port 0 --out "$work/ring$i" >"$work/ring$i.log" 2>&1 </dev/null & eval "p$i=$!"
done
# shellcheck disable=SC2154
wait "$p0"; rc0=$?
# shellcheck disable=SC2154
wait "$p1"; rc1=$?
check "another QRING_SET: 3 3, not $rc0 $rc1" test "$rc0 $rc1" = "3 3"
check "the worker logs the key and both values" grep -q 'learning_rate is 0.0[12] there and 0.0[12] here' "$work/ring1.log"
end
