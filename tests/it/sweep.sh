#!/bin/sh
# qring sweep: one table and one set of weights for any number of workers and machines, despite
# kill -9 of workers, of the processes that hold trials and of all processes, freezes, SIGTERM;
# halving; failing trials; a bucket; output for Katib and TensorBoard.
. "$(dirname "$0")/common"
unset TF_CONFIG QRING_JOB QRING_WEIGHTS QRING_SET QRING_SEED GOOGLE_APPLICATION_CREDENTIALS NO_GCE_CHECK
$python - "$work" <<'P'
import json, sys
work = sys.argv[1]
job = {"name": "sw", "seed": 1,
       "model": [{"layer": "quantum", "circuit": {"ansatz": "qcnn", "qubits": 4, "stages": 1}, "readouts": ["Z2", "Z3"]}, {"layer": "dense", "units": 1}],
       "data": {"source": "cluster-excitations", "rounds": 4, "train_fraction": 0.7},
       "train": {"epochs": 5, "batch_size": 16, "loss": "mse", "metrics": ["accuracy"], "optimizer": {"name": "adam", "learning_rate": 0.02}}}
rates = "train.optimizer.learning_rate"
def write(name, sweep, **train):
    with open(f"{work}/{name}.json", "w") as f: json.dump({**job, "train": {**job["train"], **train}, "sweep": sweep}, f)
write("grid", {"keys": {"seed": list(range(1, 17)), rates: [0.01, 0.02, 0.05, 0.1]}})
write("long", {"keys": {"seed": [1, 2, 3, 4, 5, 6]}}, epochs=12000)
write("halving", {"trials": 9, "keys": {rates: {"log_uniform": [0.001, 0.3]}, "train.batch_size": [4, 8], "model[1].units": {"integer": [1, 1]}},
                  "metric": "val_accuracy", "halving": {"epochs": [200, 400, 1200], "factor": 3}})
write("bad", {"keys": {rates: [0.01, 1e30], "train.optimizer.name": ["sgd"]}, "metric": "loss"})
write("worse", {"keys": {rates: [1e30]}})
with open(f"{work}/table.json", "w") as f:
    json.dump({"name": "table", "seed": 1, "model": [{"layer": "dense", "units": 1, "activation": "sigmoid"}],
               "data": {"source": "csv", "url": "table.csv", "train_fraction": 0.75},
               "train": {"epochs": 3, "batch_size": 10, "loss": "binary_crossentropy", "optimizer": {"name": "sgd", "learning_rate": 0.1}},
               "sweep": {"keys": {rates: [1e30, 0.1, 0.2], "data.train_fraction": [0.75, 0.5]}}}, f)
for name, shift in (("one", 0), ("two", 1)):
    with open(f"{work}/{name}.csv", "w") as f:
        print("a,b,y", *(f"{i % 7 - 3 + shift},{i % 5 - 2},{int(i % 7 + i % 5 > 5)}" for i in range(40)), sep="\n", file=f)
P
quick="--logdir= --threads 1"
often="--checkpoint-interval 20ms --checkpoint-steps 5 --lease 1s"
# weights_of DIR: a digest of each trial's weights
weights_of() { (cd "$1/trials" && sha256sum ./*/weights.h5 ./*/weights.safetensors ./*/steps.jsonl | sha256sum); }
# as DIR REFERENCE WHAT: the table and weights equal the reference, and no claim remains
as() {
    for f in sweep.csv sweep.json best/weights.h5 best/weights.safetensors best/job.json; do check "$3: $f" cmp "$1/$f" "$2/$f"; done
    check "$3: each trial's weights and steps" test "$(weights_of "$1")" = "$(weights_of "$2")"
    # Temporary files of a killed process are not claims.
    check "$3: no claim remains" test -z "$(ls "$1/sweep/claims" | grep -v '[.]tmp-')"
}
# background DIR LOG FLAGS...: starts a sweep in a new session; r is its process
background() { d=$1 log=$2; shift 2; setsid "$qring" sweep --out "$d" $quick $often "$@" >>"$log" 2>&1 </dev/null & r=$!; started="$started $r"; }
# children PID: its child processes
children() { ps -o pid= --ppid "$1" | tr -d ' '; }
rows() { ls "$1/sweep/rows" 2>/dev/null | grep -vc '^\.'; }
until_steps() { # DIR TRIAL N: waits until the trial's steps.jsonl has N lines
    tries=0
    while [ "$(cat "$1/trials/$2/steps.jsonl" 2>/dev/null | wc -l)" -lt "$3" ] && [ $tries -lt 3000 ]; do tries=$((tries + 1)); sleep 0.02; done
}

# 64 trials on 1, 2 and 5 workers
for n in 1 2 5; do
    check "64 trials, -n $n" run_to "$work/grid$n.log" "$qring" sweep "$work/grid.json" -n $n --out "$work/grid$n" $quick
    check "-n $n: 64 lines" test "$(grep -c '^trial [0-9]*: loss=' "$work/grid$n.log")" = 64
    check "-n $n: 65 lines in the table" test "$(wc -l <"$work/grid$n/sweep.csv")" = 65
    [ $n = 1 ] || as "$work/grid$n" "$work/grid1" "-n $n"
done
check "a finished sweep" run_to "$work/again.log" "$qring" sweep "$work/grid.json" --out "$work/grid2" $quick
check "a finished sweep: the message" holds "$work/again.log" 'resuming: 64 rows are there'
as "$work/grid2" "$work/grid1" "again"

# A trial equals a run.
check "a run" run_to "$work/run.log" "$qring" run "$work/grid.json" --set seed=3 --set train.optimizer.learning_rate=0.05 --out "$work/run" --logdir= --threads 1
check "run warns that it ignores the sweep" holds "$work/run.log" 'qring sweep trains its trials'
check "trial 10 has the weights of the run" cmp "$work/run/weights.h5" "$work/grid1/trials/0010/weights.h5"
digest=$(json_string "$work/run/result.json" state_digest)
check "the row of trial 10 has the run's digest" grep -q "^10,done,5,5,3,0.05,.*,$digest,$(json_string "$work/run/result.json" job_hash),\$" "$work/grid1/sweep.csv"
best=$(sed -n 's/.*"best":  *\([0-9]*\).*/\1/p; s/.*"best": \([0-9]*\).*/\1/p' "$work/grid1/sweep.json" | head -n 1)
lowest=$(tail -n +2 "$work/grid1/sweep.csv" | sort -t, -k8,8g -k1,1n | head -n 1 | cut -d, -f1)
check "the best trial has the lowest val_loss: $lowest" test "$best" = "$lowest"
check "best/ has the weights of the best trial" cmp "$work/grid1/best/weights.h5" "$work/grid1/trials/$(printf %04d "$best")/weights.h5"
check "infer reads best/" sh -c "'$qring' infer '$work/grid1/best' >'$work/infer.log'"

# Katib's metrics collector: its pattern on each line
$python - "$work" <<'P' || fail "Katib's pattern"
import csv, re, sys
work = sys.argv[1]
pattern = re.compile(r"([\w|-]+)\s*=\s*([+-]?\d*(\.\d+)?([Ee][+-]?\d+)?)")
got = {}
for line in open(work + "/grid1.log"):
    found = {m[0]: float(m[1]) for m in pattern.findall(line) if m[0] in ("loss", "val_loss", "accuracy", "val_accuracy", "seed")}
    if line.startswith("trial "): got[int(line.split(":")[0][6:])] = found
for row in csv.DictReader(open(work + "/grid1/sweep.csv")):
    assert got[int(row["trial"])] == {k: float(row[k]) for k in ("loss", "val_loss", "accuracy", "val_accuracy")}, row
P

# kill -9 of a worker, of a process with a trial, of all processes; two commands in one folder
check "six longer trials, undisturbed" run_to "$work/long.log" "$qring" sweep "$work/long.json" --out "$work/long" $quick
background "$work/killed" "$work/killed.log" "$work/long.json" -n 2
until_steps "$work/killed" 0000 300
# A process for trials has no worker between two trials.
hit='' tries=0
until [ -n "$hit" ] || [ $tries -ge 500 ]; do
    for slot in $(children $r); do for w in $(children "$slot"); do kill -9 "$w" 2>/dev/null && hit=$w && break 2; done; done
    tries=$((tries + 1)); sleep 0.02
done
tries=0; while ! holds "$work/killed.log" 'its worker was terminated by signal 9' && [ $tries -lt 1200 ]; do tries=$((tries + 1)); sleep 0.05; done
resumed='' # checked repeatedly: each start of a worker truncates its log
check_resumed() { [ -n "$resumed" ] || ! grep -qs 'resuming from step' "$work"/killed/trials/*/worker-0.log || resumed=yes; [ -n "$resumed" ]; }
tries=0; until check_resumed || [ $tries -ge 40 ]; do tries=$((tries + 1)); sleep 0.05; done
for slot in $(children $r); do kill -9 "$slot"; break; done
tries=0; while ! holds "$work/killed.log" 'a process for trials was terminated by signal 9' && [ $tries -lt 1200 ]; do tries=$((tries + 1)); sleep 0.05; done
until_steps "$work/killed" 0000 900
check_resumed
kill -9 $r; wait $r 2>/dev/null
left=$(rows "$work/killed")
check "the sweep was killed before the end: $left rows" test "$left" -lt 6
background "$work/killed" "$work/killed2.log" "$work/long.json"; first=$r
background "$work/killed" "$work/killed3.log" "$work/long.json"; second=$r
sleep 1
kill -9 $second; wait $second 2>/dev/null
wait $first; rc=$?
check "the remaining command ends with 0, not $rc" test $rc = 0
as "$work/killed" "$work/long" "kill -9"
check "the killed worker was logged" grep -q 'its worker was terminated by signal 9' "$work/killed.log"
check "a worker resumed from its checkpoint" check_resumed
check "the killed process for trials was logged" grep -q 'a process for trials was terminated by signal 9' "$work/killed.log"

# SIGTERM: 143, and the next command need not wait for the lease
background "$work/stopped" "$work/stopped.log" "$work/long.json" -n 2 --lease 1h
until_steps "$work/stopped" 0000 300
kill -TERM $r; wait $r; rc=$?
check "SIGTERM: 143, not $rc" test $rc = 143
check "SIGTERM: the message names the next command" holds "$work/stopped.log" 'stopped; the same command resumes'
check "SIGTERM: the same command resumes at once" run_to "$work/stopped2.log" "$qring" sweep "$work/long.json" -n 2 --out "$work/stopped" $quick --lease 1h
as "$work/stopped" "$work/long" "SIGTERM"

# Two machines with separate folders; one is frozen until the other has trained all trials.
background "$work/m1" "$work/m1.log" "$work/long.json" --to "$work/shared" --checkpoint-interval 10s; frozen=$r
until_steps "$work/m1" 0000 300
all=$(for slot in $(children $frozen); do echo "$slot"; children "$slot"; done)
# Not while it holds a file lock, which a frozen process never releases.
locked() { for f in "$work"/shared/sweep/claims/.*.lock "$work"/shared/trials/*/checkpoints/.*.lock; do [ ! -e "$f" ] || flock -n "$f" true || return 0; done; return 1; }
tries=0
while kill -STOP $frozen $all && locked && [ $tries -lt 1200 ]; do kill -CONT $frozen $all; sleep 0.05; tries=$((tries + 1)); done
check "the other machine trains all trials" run_to "$work/m2.log" "$qring" sweep "$work/long.json" --out "$work/m2" --to "$work/shared" $quick $often
kill -CONT $frozen $all
wait $frozen; rc=$?
check "the frozen command ends with 0, not $rc" test $rc = 0
for d in m1 m2 shared; do check "$d: the table" cmp "$work/$d/sweep.csv" "$work/long/sweep.csv"; done

# halving: the same for any number of processes, and after kill -9
check "halving" run_to "$work/halving.log" "$qring" sweep "$work/halving.json" --out "$work/halving" $quick
check "9, 3, 1" test "$(cut -d, -f2,3 "$work/halving/sweep.csv" | tail -n +2 | sort | uniq -c | awk '{printf "%s %s;", $1, $2}')" = "1 done,1200;6 stopped,200;2 stopped,400;"
background "$work/halving2" "$work/halving2.log" "$work/halving.json" -n 3
tries=0; while [ "$(rows "$work/halving2")" -lt 10 ] && [ $tries -lt 3000 ]; do tries=$((tries + 1)); sleep 0.02; done
kill -9 $r; wait $r 2>/dev/null
check "halving resumes" run_to "$work/halving3.log" "$qring" sweep "$work/halving.json" -n 2 --out "$work/halving2" $quick $often
as "$work/halving2" "$work/halving" "halving, killed"
$python - "$work/halving" "$work/halving.json" <<'P' || fail "halving does not promote the best trials"
import csv, json, glob, sys
out, job = sys.argv[1:]
rows = {}
for f in glob.glob(out + "/sweep/rows/*.json"):
    r = json.load(open(f)); rows[r["rung"], r["trial"]] = r["metrics"]["val_accuracy"]
for rung, n in ((0, 9), (1, 3), (2, 1)):
    here = [t for r, t in rows if r == rung]
    assert len(here) == n, (rung, here)
    if rung < 2:
        best = sorted(here, key=lambda t: (-rows[rung, t], t))[:(n + 2) // 3]
        assert sorted(best) == sorted(t for r, t in rows if r == rung + 1), (rung, best)
P

# Failed trials have rows.
check "one of two fails: exit 0" run_to "$work/bad.log" "$qring" sweep "$work/bad.json" --out "$work/bad" $quick
check "the row of a failed trial has the reason" grep -q '^1,failed,0,0,1e+30,sgd,.*gives a loss or gradient that is not finite' "$work/bad/sweep.csv"
run_to "$work/worse.log" "$qring" sweep "$work/worse.json" --out "$work/worse" $quick; rc=$?
check "all fail: exit 4, not $rc" test $rc = 4
check "all fail: the error" holds "$work/worse.log" 'no trial has a result'
check "--fresh, --json" sh -c "'$qring' sweep '$work/bad.json' --out '$work/bad' $quick --fresh --json 2>'$work/fresh.log' | cmp - '$work/bad/sweep.json'"
check "--fresh trains again" sh -c "! grep -q 'resuming' '$work/fresh.log'"

# --fresh removes what the sweep makes, nothing of the user's, and nothing below a link
mkdir -p "$work/bad/sweep/keep" "$work/user/rows"
echo user | tee "$work/bad/sweep/notes.txt" "$work/bad/sweep/keep/a.txt" "$work/bad/sweep/rows/user.json" "$work/user/result.json" >"$work/user/rows/0-0000.json"
check "--fresh beside files of the user's" run_to "$work/fresh2.log" "$qring" sweep "$work/bad.json" --out "$work/bad" $quick --fresh
for f in notes.txt keep/a.txt rows/user.json; do check "--fresh leaves $f" grep -qx user "$work/bad/sweep/$f"; done
for link in sweep trials trials/0001 trials/0001/checkpoints; do
    out=$work/links; rm -rf "$out"; mkdir -p "$out/$(dirname $link)"; ln -s "$work/user" "$out/$link"
    run_to "$work/link.log" "$qring" sweep "$work/bad.json" --out "$out" $quick --fresh; rc=$?
    check "--fresh through the link $link: exit 2, not $rc" test $rc = 2
    check "--fresh through the link $link: the error" holds "$work/link.log" "cannot delete files in $out/$link: it is a symbolic link"
done
check "the targets of links are unchanged" test "$(cat "$work/user/result.json" "$work/user/rows/0-0000.json" | tr '\n' ' ')" = "user user "

# Another file in place of a claim is removed, or the trial is trained without a claim.
mkdir -p "$work/odd/sweep/claims/0-0001/keep"; mkfifo "$work/odd/sweep/claims/0-0000"
check "claims that are a FIFO and a folder" run_to "$work/odd.log" "$qring" sweep "$work/bad.json" --out "$work/odd" $quick
check "the FIFO is removed, with a message" holds "$work/odd.log" "0-0000 is a FIFO"
check "a trial without a claim, with a message" holds "$work/odd.log" "training without a claim, since none can be written"
check "FIFO and folder: the same table" cmp "$work/odd/sweep.csv" "$work/bad/sweep.csv"
check "the folder is kept" test -d "$work/odd/sweep/claims/0-0001/keep"

# Any remaining rows and checkpoints of other data are rejected; so are files that the best trial
# did not write.
table() { cp "$work/$1.csv" "$work/table.csv"; run_to "$work/table.log" "$qring" sweep "$work/table.json" --out "$work/table" $quick; }
check "a sweep over a table" table one
cp -r "$work/table" "$work/table1"
for left in '*' 0-0000 0-0003 '0-000[01]' none; do # 0 and 1 have failed
    rm -rf "$work/table"; cp -r "$work/table1" "$work/table"
    find "$work/table/sweep/rows" -name '*.json' ! -name "$left.json" -delete
    table two; rc=$?
    check "other data with remaining rows $left: exit 2, not $rc" test $rc = 2
    check "other data with remaining rows $left: the error" holds "$work/table.log" 'cannot continue the sweep in'
    check "other data: the table is unchanged" cmp "$work/table/sweep.csv" "$work/table1/sweep.csv"
    check "the original data: the sweep resumes: $left" table one
    check "the original data: the same table" cmp "$work/table/sweep.csv" "$work/table1/sweep.csv"
done
best=$(printf %04d "$(sed -n 's/.*"best": \([0-9]*\).*/\1/p' "$work/table/sweep.json")")
for f in weights.h5 weights.safetensors result.json; do
    cp "$work/table/trials/$best/$f" "$work/kept"; cp "$work/table/best/$f" "$work/was"
    tr 1 2 <"$work/kept" >"$work/table/trials/$best/$f"
    table one; rc=$?
    check "a changed $f of the best trial: exit 4, not $rc" test $rc = 4
    check "a changed $f of the best trial: the error" holds "$work/table.log" "trials/$best/$f is not the file that trial"
    check "best/$f is unchanged" cmp "$work/table/best/$f" "$work/was"
    mv "$work/kept" "$work/table/trials/$best/$f"
done
# Trials that name files: all files are read before the first trial is trained.
cp "$work/table/best/weights.h5" "$work/begin.h5"
names() { run_to "$work/names.log" "$qring" sweep "$work/table.json" --set "sweep={\"keys\": {\"$1\": [\"$work/$2\", \"$work/$3\"]}}" --out "$work/names-$2-$3" $quick; }
for two in "data.url one.csv two.csv" "train.initial_weights begin.h5 begin.h5"; do
    check "trials that differ in $two" names $two; check "two rows: $two" test "$(grep -c ,done, "$work/names.log" "$work"/names-*-"${two##* }"/sweep.csv | tail -n 1 | sed 's/.*://')" = 2
done
for two in "data.url one.csv gone.csv" "train.initial_weights begin.h5 gone.h5"; do
    names $two; rc=$?
    check "trial 1 names a missing file: exit 1 ... 4, not $rc" test $rc -ge 1 -a $rc -le 4
    check "a missing file: the error has the number of the trial: $two" holds "$work/names.log" 'trial 1: '
    check "a missing file: no trial was trained: $two" sh -c "! ls '$work'/names-*-'${two##* }'/trials 2>/dev/null"
done
rm -r "$work/table/trials/$best" "$work/table/sweep/rows/0-$best.json"
check "the fix that the error names" table one
for f in sweep.csv best/weights.h5 best/weights.safetensors; do check "the fix that the error names: the same $f" cmp "$work/table/$f" "$work/table1/$f"; done

# TensorBoard's hyperparameters: the keys in which trials differ
check "a sweep with events" run_to "$work/events.log" "$qring" sweep "$work/bad.json" --out "$work/events" --threads 1
for key in train.optimizer.name train.optimizer.learning_rate; do
    check "trial 0's events have $key" sh -c "cat '$work'/events/trials/0000/logs/events* | grep -qa '$key'"
done
check "a sweep with events: the same table" cmp "$work/events/sweep.csv" "$work/bad/sweep.csv"

# with a value of train.log as the metric, without data
objective='{"name": "vqe", "model": [{"layer": "quantum", "circuit": {"qubits": 2, "gates": [{"ansatz": "hardware-efficient", "layers": 1}]}, "readouts": ["Z0 + X1"]}],
  "data": {"source": "none"}, "train": {"epochs": 9, "loss": "expectation", "log": {"above": "loss + 2"}, "optimizer": {"name": "sgd", "learning_rate": 0.01}},
  "sweep": {"keys": {"train.optimizer.learning_rate": [0.001, 0.2, 0.01]}, "metric": "above"}}'
echo "$objective" >"$work/logged.json"
for n in 1 2; do check "a logged value as the metric, -n $n" run_to "$work/logged$n.log" "$qring" sweep "$work/logged.json" -n $n --out "$work/logged$n" $quick; done
check "a logged value as the metric: the largest rate is best" grep -q '^best  above .*  trial 1  train.optimizer.learning_rate=0.2' "$work/logged1.log"
as "$work/logged2" "$work/logged1" "a logged value as the metric"

# other commands with a job with a sweep
check "show" sh -c "'$qring' show '$work/halving.json' | grep -q '^sweep       9 trials: draws of 3 keys .*; 9 to 200 epochs, 3 to 400 epochs, 1 to 1200 epochs'"
check "validate" sh -c "'$qring' validate '$work/grid.json' --out '$work/v' 2>/dev/null | grep -q '^sweep       64 trials: a grid of 2 keys'"
check "validate --json" sh -c "'$qring' validate '$work/grid.json' --out '$work/v' --json 2>/dev/null | grep -q '\"trials\":64'"
check "validate checks each trial" sh -c "! '$qring' validate '$work/grid.json' --out '$work/v' --set 'sweep.keys.seed=[1,-1]' >'$work/v.log' 2>&1 && grep -q 'trial 4 with seed=-1' '$work/v.log'"
check "an ensemble of the built-in job" run_to "$work/built.log" "$qring" sweep --set 'sweep={"keys": {"seed": [1, 2]}}' --set train.epochs=1 -n 2 --out "$work/built" $quick

# best/ of an earlier sweep in OUT: files that this sweep does not publish are removed.
cp -r "$work/built" "$work/mixed"
check "a sweep with its board elsewhere" run_to "$work/mixed.log" "$qring" sweep --set 'sweep={"keys": {"seed": [3, 4]}}' --set train.epochs=1 --out "$work/mixed" --to "$work/mixed-board" $quick
check "best/ has the files of this sweep: $(ls "$work/mixed/best" | tr '\n' ' ')" test "$(ls "$work/mixed/best" | tr '\n' ' ')" = "job.json weights.h5 "
run_to "$work/failed.log" "$qring" sweep --set 'sweep={"keys": {"train.optimizer.learning_rate": [1e300]}}' --set train.epochs=9 --fresh --out "$work/built" $quick; rc=$?
check "a fresh sweep without a best trial: exit $rc, and no weights in best/: $(ls "$work/built/best")" sh -c "! ls '$work/built/best' | grep -q weights"

# two machines with a bucket
fake_storage
export STORAGE_EMULATOR_HOST="$at" GCE_METADATA_HOST="$at"
background "$work/b1" "$work/b1.log" "$work/halving.json" --to gs://bucket/sweeps/one; first=$r
background "$work/b2" "$work/b2.log" "$work/halving.json" --to gs://bucket/sweeps/one; second=$r
wait $first; one=$?
wait $second; two=$?
check "two machines with a bucket: exit 0 and 0, not $one and $two: $(tail -n 1 "$work/b1.log") $(tail -n 1 "$work/b2.log")" test "$one $two" = "0 0"
object bucket sweeps/one/sweep.csv "$work/bucket.csv"; object bucket sweeps/one/best/weights.h5 "$work/bucket.h5"
for f in b1/sweep.csv b2/sweep.csv bucket.csv; do check "$f" cmp "$work/$f" "$work/halving/sweep.csv"; done
for f in b1/best/weights.h5 b2/best/weights.h5 bucket.h5; do check "$f" cmp "$work/$f" "$work/halving/best/weights.h5"; done
check "both machines have trained" sh -c "grep -q '^trial' '$work/b1.log' && grep -q '^trial' '$work/b2.log'"
end
