#!/bin/sh
# Workers that are killed at any moment and restarted: digest, weights and log of an undisturbed
# run. kill -9 of all, once and repeatedly, SIGTERM, more epochs, a finished job, another job in the
# same folder, damaged files, a bucket, a bucket that rejects writes.
. "$(dirname "$0")/common"
unset TF_CONFIG GOOGLE_APPLICATION_CREDENTIALS NO_GCE_CHECK
epochs=3000
sed 's/"name": "qcnn"/"name": "resume"/; s/"epochs": 50/"epochs": '$epochs'/' deploy/jobs/qcnn.json >"$work/job.json"
often="--checkpoint-interval 20ms --checkpoint-steps 5 --logdir="

fake_storage
export STORAGE_EMULATOR_HOST="$at" GCE_METADATA_HOST="$at"

lines() { if [ -f "$1" ]; then wc -l <"$1"; else echo 0; fi; }
# latest DIR KEY: the value of a key in LATEST
latest() { sed -n 's/.*"'"$2"'":"\{0,1\}\([^",}]*\).*/\1/p' "$1/checkpoints/LATEST" 2>/dev/null; }
# started_run DIR FLAGS: starts qring run in the background; r is its process. It is nice, so that
# on a busy machine the process that kills it runs first
started_run() { d=$1; shift; setsid nice -n 19 "$qring" run "$work/job.json" --out "$d" $often "$@" >>"$d.log" 2>&1 </dev/null & r=$!; started="$started $r"; }
# until_lines DIR N: waits until steps.jsonl has N lines or the run has ended
until_lines() {
    tries=0
    while [ "$(lines "$1/steps.jsonl")" -lt "$2" ] && kill -0 "$r" 2>/dev/null && [ $tries -lt 3000 ]; do tries=$((tries + 1)); sleep 0.02; done
}
# as_undisturbed DIR WHAT [REFERENCE]: the output equals that of the reference run
as_undisturbed() {
    ref=${3:-$work/ref}
    check "$2: the digest" test "$(json_string "$1/result.json" state_digest)" = "$(json_string "$ref/result.json" state_digest)"
    check "$2: sha256 of the weights" test "$(json_string "$1/result.json" sha256)" = "$(json_string "$ref/result.json" sha256)"
    check "$2: the weights" cmp "$1/weights.h5" "$ref/weights.h5"
    check "$2: each step once in the log" cmp "$1/steps.jsonl" "$ref/steps.jsonl"
    sed '/"url"/d; /"workers"/d; /"seconds"/d; /"pod_/d' "$1/result.json" >"$work/a.json"
    sed '/"url"/d; /"workers"/d; /"seconds"/d; /"pod_/d' "$ref/result.json" >"$work/b.json"
    check "$2: the result" cmp "$work/a.json" "$work/b.json"
}
all=$((3 * epochs)) # two updates and an evaluation each epoch
check "an undisturbed run" run_to "$work/ref.log" "$qring" run "$work/job.json" -n 1 --out "$work/ref" --checkpoints none --logdir=
check "--checkpoints none writes none" test ! -e "$work/ref/checkpoints"
check "steps.jsonl of the undisturbed run has $all lines" test "$(lines "$work/ref/steps.jsonl")" = $all

# All processes are killed at random moments; each start resumes and logs that. If a run ends before
# it is killed, on a busy machine, the test starts over and kills sooner.
for n in 1 2; do
    d=$work/killed$n; kills=0; attempt=0
    while [ $kills -lt 4 ] && [ $attempt -lt 20 ]; do
        attempt=$((attempt + 1)); kills=0; before=0; rm -rf "$d" "$d.log"
        while [ $kills -lt 4 ]; do
            at_line=$($python -c "import random; print(random.randrange($before + 50, $before + max(100, $all // (18 * $attempt))))")
            started_run "$d" -n $n
            until_lines "$d" "$at_line"
            kill -9 $r 2>/dev/null
            wait $r 2>/dev/null; rc=$?
            [ $rc = 137 ] && [ "$(latest "$d" done)" != true ] || break
            kills=$((kills + 1)); before=$(lines "$d/steps.jsonl")
        done
        # Any other exit code is an error.
        [ $rc = 137 ] || check "-n $n: a run that was not killed ends with 0, not $rc" test $rc = 0
    done
    check "-n $n: killed four times before the end: $kills, at attempt $attempt" test $kills = 4
    resumed=$(grep -c "^resuming from step" "$d.log")
    check "-n $n: starts that resumed (the first kill may precede the first checkpoint): $resumed" test "$resumed" -ge $((kills - 2))
    check "-n $n: the run ends with 0" run_to "$d.last" "$qring" run "$work/job.json" -n $n --out "$d" $often
    check "-n $n: the last start logs where it resumes" \
        grep -q "^resuming from step [0-9]* of $((2 * epochs)), [0-9]* epochs finished ($d/checkpoints; --fresh" "$d.last"
    as_undisturbed "$d" "-n $n, kill -9 four times"
    # A step may have two checkpoints: before and after its evaluation. The one that is not in
    # LATEST may sort after the other, and is then kept.
    files=$(ls "$d/checkpoints" | grep -c 'safetensors$') steps=$(ls "$d/checkpoints" | sed -n 's/.*-\([0-9]*\)-.*safetensors$/\1/p' | sort -u | wc -l)
    check "-n $n: three checkpoints are kept, one more where two are of one step: $files of $steps steps" \
        test "$files" = 3 -a "$steps" -ge 2 -o "$files" = 4 -a "$steps" = 3
    check "-n $n: LATEST is done" test "$(latest "$d" done)" = true
done

# SIGTERM: the newest committed state is published at the exit; another number of workers resumes
d=$work/terminated
started_run "$d" -n 2 --checkpoint-interval 1h
until_lines "$d" 300
kill -TERM $r; wait $r; rc=$?
check "SIGTERM: 143, not $rc" test $rc = 143
pass=$(latest "$d" reductions) had=$(lines "$d/steps.jsonl")
check "SIGTERM: the log has the lines up to the checkpoint ($had, $pass)" test "${pass:-0}" -ge 299 -a "$had" -ge "${pass:-0}" -a "$had" -le $((${pass:-0} + 1))
check "SIGTERM: the run resumes" run_to "$d.last" "$qring" run "$work/job.json" -n 3 --out "$d" $often
check "SIGTERM: the run resumes from reduction $pass" grep -q "resuming from step $(latest_step=$((pass - pass / 3)); echo $latest_step) " "$d.last"
as_undisturbed "$d" "SIGTERM, then 3 workers"
digest=$(json_string "$d/result.json" state_digest)
check "SIGTERM: the digest is printed" grep -qx "state_digest: $digest" "$d.last"
check "SIGTERM: the digest is logged" grep -q "done: .*state_digest $digest" "$d/worker-0.log"

# done, more epochs, fewer
check "done: again" run_to "$work/done.log" "$qring" run "$work/job.json" -n 2 --out "$d" --json
check "done: the message" grep -q "already trained: $((2 * epochs)) steps, $epochs epochs.*--fresh starts over" "$work/done.log"
check "done: the result again" grep -q state_digest "$work/done.log"
check "done: a worker alone" run_to "$work/done1.log" "$qringd" "$work/job.json" --out "$d"
check "done: the message of a worker alone" grep -q "already trained.*state_digest $(json_string "$d/result.json" state_digest);" "$work/done1.log"
check "more epochs, undisturbed" run_to "$work/more.log" "$qring" run "$work/job.json" -n 1 --out "$work/more" --epochs $((epochs + 40)) --logdir=
check "more epochs: the run resumes" run_to "$work/more2.log" "$qring" run "$work/job.json" -n 2 --out "$d" --epochs $((epochs + 40)) --logdir=
check "more epochs: the run resumes from its end" grep -q "resuming from step $((2 * epochs)) of $((2 * epochs + 80))" "$work/more2.log"
as_undisturbed "$d" "more epochs" "$work/more"
check "fewer epochs: exit 0" run_to "$work/fewer.log" "$qring" run "$work/job.json" -n 1 --out "$d" --epochs 3
check "fewer epochs: the message" grep -q "already trained" "$work/fewer.log"

# state of other optimizers and of averaged weights: resumed after two epochs, to the committed
# digest
for name in adamw-warmup-polynomial nadam-restarts adagrad-average-piecewise; do
    job=tests/golden/digests/jobs/$name.json o=$work/$name
    check "$name: two epochs" run_to "$o.log" "$qring" run $job -n 2 --out "$o" --epochs 2 --logdir=
    check "$name: the run resumes" run_to "$o.log" "$qring" run $job -n 1 --out "$o" --logdir=
    check "$name: the run resumes from step 4" grep -q "resuming from step 4 of 10" "$o.log"
    check "$name: undisturbed" run_to "$o.log" "$qring" run $job -n 1 --out "$o-ref" --checkpoints none --logdir=
    as_undisturbed "$o" "$name" "$o-ref"
    check "$name: the committed digest" grep -q "^$name	10	$(json_string "$o/result.json" state_digest)$" tests/golden/digests/f32-v1.tsv
done

# another job in the same folder
sed 's/"seed": 1/"seed": 2/' "$work/job.json" >"$work/other.json"
run_to "$work/other.log" "$qring" run "$work/other.json" -n 2 --out "$d"; rc=$?
check "another job: exit 2, not $rc" test $rc = 2
check "another job: both hashes" grep -q "its hash is [0-9a-f]\{64\}, this job's is [0-9a-f]\{64\}" "$work/other.log"
check "another job: steps.jsonl is unchanged" cmp "$d/steps.jsonl" "$work/more/steps.jsonl"
run_to "$work/other1.log" "$qringd" "$work/other.json" --out "$d"; rc=$?
check "another job, a worker alone: exit 2, not $rc" test $rc = 2
cp -r "$d" "$work/there"
for how in "$qring run -n 1" "$qring run -n 2" "$qringd" "$qring validate"; do
    run_to "$work/none.log" $how "$work/other.json" --out "$d" --checkpoints none; rc=$?
    check "another job, --checkpoints none, ${how#"$qring"}: exit 2, not $rc" test $rc = 2
    check "another job, --checkpoints none, ${how#"$qring"}: both hashes" grep -q "its hash is [0-9a-f]\{64\}, this job's is [0-9a-f]\{64\}" "$work/none.log"
    run_to "$work/fewer.log" $how "$work/job.json" --epochs 1 --out "$d" --checkpoints none; rc=$?
    check "fewer epochs, --checkpoints none, ${how#"$qring"}: exit 2, not $rc" test $rc = 2
    check "fewer epochs, --checkpoints none, ${how#"$qring"}: the error" grep -q 'is beyond 1 epochs of 2 steps' "$work/fewer.log"
done
check "--checkpoints none: the folder is unchanged" diff -r "$d" "$work/there"
check "--fresh starts over" run_to "$work/fresh.log" "$qring" run "$work/other.json" -n 2 --out "$d" --fresh --epochs 20
check "--fresh: the reference" run_to "$work/fresh1.log" "$qring" run "$work/other.json" -n 1 --out "$work/other" --epochs 20
as_undisturbed "$d" "--fresh" "$work/other"
check "--fresh --checkpoints none" run_to "$work/bare.log" "$qring" run "$work/job.json" -n 1 --out "$d" --fresh --checkpoints none --epochs 5
check "--fresh deletes the checkpoints of the other job" test ! -e "$d/checkpoints/LATEST"

# The newest checkpoint is damaged: the one before is used, with a warning. Then LATEST.
d=$work/damaged
started_run "$d" -n 1
until_lines "$d" 500
tries=0 # until there is a checkpoint before the newest
until [ "$(ls "$d/checkpoints" | grep -c 'safetensors$')" -ge 3 ] || [ $tries -gt 3000 ]; do tries=$((tries + 1)); sleep 0.02; done
kill -9 $r; wait $r 2>/dev/null
newest=$d/checkpoints/$(latest "$d" object)
printf X | dd of="$newest" bs=1 seek=$(($(wc -c <"$newest") - 77)) conv=notrunc 2>/dev/null
started_run "$d" -n 1
begun=$(lines "$d/steps.jsonl")
until grep -q "newest intact checkpoint is" "$d.log" || ! kill -0 $r 2>/dev/null; do sleep 0.02; done
until_lines "$d" $((begun + 300))
kill -9 $r; wait $r 2>/dev/null
check "damaged: the checkpoint is named" grep -q "$newest is damaged: tensor" "$d.log"
check "damaged: the checkpoint before is used" grep -q "the newest intact checkpoint is that of step" "$d.log"
truncate -s 100 "$d/checkpoints/LATEST"
check "damaged: the run ends with 0" run_to "$d.last" "$qring" run "$work/job.json" -n 1 --out "$d" $often
check "damaged: LATEST is named" grep -q "LATEST is damaged" "$d.last"
as_undisturbed "$d" "damaged twice"

# all of them damaged, and one of a later version of the program
cp -r "$d/checkpoints" "$work/broken"
for f in "$work"/broken/*.safetensors; do truncate -s 50 "$f"; done
run_to "$work/broken.log" "$qring" run "$work/job.json" -n 2 --out "$work/b" --checkpoints "$work/broken"; rc=$?
check "no intact checkpoint: exit 4, not $rc" test $rc = 4
check "no intact checkpoint: the error names --fresh" grep -q "no checkpoint of this job is intact.*--fresh" "$work/broken.log"
check "no intact checkpoint: nothing was trained" test ! -e "$work/b/steps.jsonl"
$python - "$work/broken/LATEST" <<'P'
import sys
text = open(sys.argv[1]).read().replace('"format":1', '"format":2')
at = len(text) - len('"}\n') - 8
text = text[:at] + "00000000" + text[at + 8:]
crc = 0xFFFFFFFF # CRC-32C
for byte in text.encode():
    crc ^= byte
    for _ in range(8): crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
open(sys.argv[1], "w").write(text[:at] + "%08x" % (crc ^ 0xFFFFFFFF) + text[at + 8:])
P
run_to "$work/later.log" "$qringd" "$work/job.json" --out "$work/b" --checkpoints "$work/broken"; rc=$?
check "a checkpoint of a later version: exit 2, not $rc" test $rc = 2
check "a checkpoint of a later version: the error" grep -q "format 2, written by a later version" "$work/later.log"
run_to "$work/validate.log" "$qring" validate "$work/other.json" --out "$d"; rc=$?
check "validate finds another job's checkpoints: exit 2, not $rc" test $rc = 2
check "validate names both hashes" grep -q "its hash is [0-9a-f]\{64\}, this job's is" "$work/validate.log"

# Copied checkpoints of another job: a job with the same settings and another name resumes; other
# settings are rejected, with a hint at train.initial_weights.
d=$work/copied
started_run "$d" -n 1
until_lines "$d" 500
tries=0 # until there is a checkpoint to copy
until [ -e "$d/checkpoints/LATEST" ] || [ $tries -gt 3000 ]; do tries=$((tries + 1)); sleep 0.02; done
kill -9 $r; wait $r 2>/dev/null
mkdir -p "$work/renamed"; cp -r "$d/checkpoints" "$work/renamed/"
sed 's/"name": "resume"/"name": "renamed"/' "$work/job.json" >"$work/renamed.json"
check "copied: the same settings resume" run_to "$work/renamed.log" "$qring" run "$work/renamed.json" -n 2 --out "$work/renamed" $often
check "copied: the step is logged" grep -q "^resuming from step [0-9]* of $((2 * epochs))" "$work/renamed.log"
check "copied: the digest" test "$(json_string "$work/renamed/result.json" state_digest)" = "$(json_string "$work/ref/result.json" state_digest)"
check "copied: the weights" cmp "$work/renamed/weights.h5" "$work/ref/weights.h5"
mkdir -p "$work/reseeded"; cp -r "$d/checkpoints" "$work/reseeded/"
run_to "$work/reseeded.log" "$qring" run "$work/other.json" -n 2 --out "$work/reseeded"; rc=$?
check "copied, other settings: exit 2, not $rc" test $rc = 2
check "copied, other settings: the error has the fix" grep -q 'train.initial_weights.*LATEST.*--fresh' "$work/reseeded.log"
check "copied, other settings: nothing was trained" test ! -e "$work/reseeded/steps.jsonl"

# weights of another job's checkpoint
begins_with() { # URL FILE NAME: writes a job of two epochs with these initial weights
    sed 's|"epochs": [0-9]*|"epochs": 2, "initial_weights": "'"$1"'"|; s/"name": "resume"/"name": "'"$3"'"/' "$work/job.json" >"$2"
}
begins_with "$work/ref-ck/LATEST" "$work/from.json" from
begins_with "$work/ref/weights.safetensors" "$work/from2.json" from
cp -r "$work/renamed/checkpoints" "$work/ref-ck"
check "training from another job's checkpoint" run_to "$work/from.log" "$qring" run "$work/from.json" -n 1 --out "$work/from"
check "training from its weights" run_to "$work/from2.log" "$qring" run "$work/from2.json" -n 1 --out "$work/from2"
check "a checkpoint and its weights give the same result" cmp "$work/from/weights.h5" "$work/from2/weights.h5"
check "initial weights change the result" sh -c "! cmp -s '$work/from/weights.h5' '$work/ref/weights.h5'"
begins_with "$work/ref-ck/$(sed 's/.*"object":"\([^"]*\).*/\1/' "$work/ref-ck/LATEST")" "$work/from3.json" from
check "training from a checkpoint's file" run_to "$work/from3.log" "$qring" run "$work/from3.json" -n 1 --out "$work/from3"
check "a checkpoint's file and LATEST give the same result" cmp "$work/from/weights.h5" "$work/from3/weights.h5"
sed 's/"qubits": 8/"qubits": 4/; s/"Z4", "Z5", "Z6", "Z7"/"Z2", "Z3"/' "$work/from.json" >"$work/smaller.json"
run_to "$work/smaller.log" "$qring" run "$work/smaller.json" -n 1 --out "$work/smaller"; rc=$?
check "another model's checkpoint: exit 2, not $rc" test $rc = 2
check "another model's checkpoint: both shapes" grep -q "train.initial_weights.*dense/kernel\|train.initial_weights.*pqc" "$work/smaller.log"

# in a bucket: two pods without a shared disk, killed together
pods() { ring 2 "$work/pod@.log" "$work/job.json" --out "$work/pod@" --weights gs://auth-bucket/run/w.h5 $often; }
pods
until_lines "$work/pod0" 500
# shellcheck disable=SC2086
kill -9 $pids; wait $pids 2>/dev/null
pods
wait_ring
check "pods: exit codes 0 0, not$codes" test "$codes" = " 0 0"
for i in 0 1; do check "pod $i resumed" grep -q "resuming from step [0-9]*, .*(gs://auth-bucket/run/w.checkpoints)" "$work/pod$i.log"; done
check "pods: the digest" test "$(json_string "$work/pod0/result.json" state_digest)" = "$(json_string "$work/ref/result.json" state_digest)"
check "pods: each step once" cmp "$work/pod0/steps.jsonl" "$work/ref/steps.jsonl"
pods
wait_ring
check "pods, again: exit codes 0 0, not$codes" test "$codes" = " 0 0"
check "pods, again: trained already" grep -q "already trained" "$work/pod1.log"

# Worker 0 is killed: the next leader uploads the same bytes.
ring 2 "$work/next@.log" "$work/job.json" --out "$work/next@" --weights gs://auth-bucket/next/w.h5 --min-workers 1 $often
until_lines "$work/next0" 500
kill -9 "$(echo "$pids" | awk '{print $1}')"
wait_ring
check "worker 0 killed: exit codes 137 0, not$codes" test "$codes" = " 137 0"
check "worker 0 killed: the weights are in the bucket" object auth-bucket next/w.h5 "$work/next.h5"
check "worker 0 killed: the same bytes" cmp "$work/next.h5" "$work/ref/weights.h5"
check "worker 0 killed: LATEST is in the bucket" object auth-bucket next/w.checkpoints/LATEST "$work/next.latest"
check "worker 0 killed: LATEST is done" holds "$work/next.latest" '"done":true'

# Three workers with one folder: the leader is killed, the others continue and publish; they are
# killed too, and all three restart.
d=$work/three
three() { ring 3 "$d.@.log" "$work/job.json" --out "$d" --min-workers 1 $often; }
three
until_lines "$d" 300
kill -9 "$(echo "$pids" | awk '{print $1}')"
before=$(latest "$d" reductions)
tries=0
until after=$(latest "$d" reductions) && [ "${after:-0}" -gt 600 ] || [ $tries -gt 3000 ]; do tries=$((tries + 1)); sleep 0.02; done
check "three: the others publish after the leader was killed ($before, $after)" test "${after:-0}" -gt "${before:-0}" -a "${after:-0}" -gt 600
# shellcheck disable=SC2086
kill -9 $pids 2>/dev/null; wait $pids 2>/dev/null
three
wait_ring
check "three: exit codes 0 0 0, not$codes" test "$codes" = " 0 0 0"
as_undisturbed "$d" "leader killed, then all"

# Two pods without shared storage: the leader has checkpoints, the other fetches the state from it.
unshared() { ring 2 "$work/unshared@.log" "$work/job.json" --out "$work/unshared@" --min-workers 2 $often; }
unshared
until_lines "$work/unshared0" 900
# shellcheck disable=SC2086
kill -9 $pids; wait $pids 2>/dev/null
check "unshared: one of them has checkpoints" test -s "$work/unshared0/checkpoints/LATEST" -a ! -e "$work/unshared1/checkpoints/LATEST"
unshared
wait_ring
check "unshared: exit codes 0 0, not$codes" test "$codes" = " 0 0"
check "unshared: the other fetches the state" grep -q "fetched the state of step" "$work/unshared1.log"
as_undisturbed "$work/unshared0" "unshared"

# A bucket that starts to reject writes: all workers end with the same permanent code and name it.
ring 3 "$work/late@.log" "$work/job.json" --epochs 1000000 --out "$work/late" --checkpoints gs://late-b/ck $often
wait_ring
check "403 in the middle: exit 2 2 2, not$codes" test "$codes" = " 2 2 2"
for i in 0 1 2; do check "403: worker $i names the bucket" holds "$work/late$i.log" "bucket late-b"; done

# A disk that fills up: training continues to the end.
if [ -d /dev/shm ] && [ "$(id -u)" = 0 ] && mkdir -p "$work/full" && mount -t tmpfs -o size=16k tmpfs "$work/full" 2>/dev/null; then
    check "a full disk: training ends with 0" run_to "$work/full.log" "$qring" run "$work/job.json" -n 1 --out "$work/onfull" --checkpoints "$work/full/ck" $often
    check "a full disk: a warning" grep -q "cannot publish the checkpoint.*No space left" "$work/onfull/worker-0.log"
    as_undisturbed "$work/onfull" "a full disk"
    umount "$work/full"
else
    skip "a full disk: cannot mount a tmpfs"
fi
# the time of an epoch that an earlier process began
long=$(grep -rh ' - [0-9]\{4,\}\.[0-9]*s - ' --include='*.log' "$work" | head -n 1)
check "no epoch took 1000 s: $long" test -z "$long"
end
