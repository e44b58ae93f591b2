#!/bin/sh
# qring verify: an honest run is the same, for any number of threads, of several workers that were
# killed, from a read-only folder; each kind of tampering is named, with exit code 6; a run without
# a chain gives 7; missing steps give 2.
. "$(dirname "$0")/common"
often="--checkpoint-interval 1ms --checkpoint-steps 10 --logdir="
run=$work/run copy=$work/copy
check "a run" run_to "$work/run.log" "$qring" run -n 2 --out "$run" $often

# verified CODE FOLDER FLAGS...: qring verify ends with CODE; output in $work/out, errors in
# $work/err
verified() { want=$1; shift; timeout 600 "$qring" verify "$@" >"$work/out" 2>"$work/err" </dev/null; rc=$?; [ $rc = "$want" ] || { echo "exit $rc, not $want:"; cat "$work/out" "$work/err"; false; }; }
prints() { grep -qF -- "$1" "$work/out" || { echo "no '$1' in:"; cat "$work/out"; false; }; }

# Weights at a host that does not answer, for the whole time of the store's retries, while the rest is tested.
far=$work/far
cp -r "$run" "$far"; $python tests/it/tamper.py weights-at "$far" https://127.0.0.1:1/w.h5
timeout 600 "$qring" verify "$far" >"$work/far.out" 2>"$work/far.err" </dev/null & far=$!; started="$started $far"

check "an honest run is the same" verified 0 "$run"
check "an honest run: the verdict" prints "same"
check "all lines are checked" prints "150 lines, steps 1 to 100"
check "no step differs, one thread" verified 0 "$run" --all --threads 1
check "all steps were computed" prints "100 steps, 1 to 100: 100 computed"
check "the weights are those of the last step" prints "2 files have the recomputed weights"
check "the result is that of the last step" prints "result.json has the values computed"
check "other kernels" verified 0 "$run" --steps 1..20 --isa portable
check "one step" verified 0 "$run" --step 40
# last_kept STEP: the step of the last checkpoint before STEP; which ones are kept depends on the time
last_kept() { ls "$run/checkpoints" | sed -n 's/^[0-9a-f]*-0*\([0-9]*\)-.*/\1/p' | sort -n | awk -v step="$1" '$1 < step' | tail -n 1; }
before=$(last_kept 40)
check "one step is computed from the checkpoint before it, ${before:-none}" prints "1 step, 40 to 40: $((40 - ${before:-0})) computed"
last=$(last_kept 100)
check "a step after a checkpoint" verified 0 "$run" --step $((last + 1))
check "a step after a checkpoint is computed from it" prints "1 step, $((last + 1)) to $((last + 1)): 1 computed"
check "some steps" verified 0 "$run" --steps 5..7
check "drawn steps" verified 0 "$run" --sample 3 --verify-seed 7
cp "$work/out" "$work/drawn"
check "drawn steps with the same seed" verified 0 "$run" --sample 3 --verify-seed 7
check "the same seed draws the same steps" test "$(sed 's/ computed in.*//' "$work/out")" = "$(sed 's/ computed in.*//' "$work/drawn")"
check "a step beyond the run" verified 2 "$run" --step 101
check "a step beyond the run: the error" holds "$work/err" "the run has steps 1 to 100"
check "steps, the last ones beyond the run" verified 2 "$run" --steps 99..102
check "steps, the last ones beyond the run: the error" holds "$work/err" "cannot verify step 102: the run has steps 1 to 100"
check "not a run" verified 2 "$work"
mkdir "$work/elsewhere"
check "a run with weights elsewhere" run_to "$work/relative.log" sh -c "cd '$work' && '$qring' run '$root/deploy/jobs/qcnn.json' -n 1 --epochs 1 --out relative --weights elsewhere/w.h5 --logdir="
check "weights elsewhere, by a relative path: verified from another folder" verified 0 "$work/relative"

# Weights elsewhere, in a subfolder, and over the second file: the file that is named is checked.
trained() { out=$1; shift; run_to "$work/trained.log" sh -c 'cd "$0" && exec "$@"' "$work" "$qring" run "$root/deploy/jobs/qcnn.json" -n 1 --epochs 1 --out "$out" --logdir= "$@"; }
check "--weights OUT/weights.safetensors" trained single --weights single/weights.safetensors
check "--weights OUT/weights.safetensors: verified" verified 0 "$work/single"
check "--weights OUT/weights.safetensors: named once" prints "files        same         weights.safetensors, result.json"
check "weights of the same name elsewhere" trained named --weights "$work/elsewhere/weights.safetensors"
check "weights of the same name elsewhere: verified" verified 0 "$work/named" --all
echo junk >"$work/elsewhere/weights.safetensors"
check "weights of the same name elsewhere: the change is detected" verified 6 "$work/named"
check "weights of the same name elsewhere: the change is named" prints "/elsewhere/weights.safetensors has another SHA-256"
check "weights in a subfolder" trained sub --weights sub/w/weights.h5
cp -r "$work/sub" "$work/subcopy"; echo junk >"$work/subcopy/w/weights.h5"
check "weights in a subfolder: verified" verified 0 "$work/sub" --all
check "weights in a subfolder: two files" prints "2 files have the recomputed weights"
check "weights in a subfolder: a change of the copy is detected" verified 6 "$work/subcopy" --all
check "weights in a subfolder: the change is named" prints "w/weights.h5 has SHA-256"
echo junk >"$work/sub/w/weights.h5"; cp "$work/single/weights.safetensors" "$work/sub/weights.h5"
check "weights in a subfolder: one of that name beside is not read" verified 6 "$work/sub"
check "weights by a file URL" trained url --weights "file://$work/elsewhere/w2.h5"
check "weights by a file URL: verified" verified 0 "$work/url"
mv "$work/elsewhere/w.h5" "$work/relative/"
check "weights that were moved into the folder: verified" verified 0 "$work/relative"
check "JSON" verified 0 "$run" --json
check "JSON: the verdict" test "$($python -c 'import json, sys; print(json.load(open(sys.argv[1]))["verdict"])' "$work/out")" = same

# tampered KIND WORDS FLAGS...: tampering is detected, with these words
tampered() { changed 6 "$run" "$@"; }
# changed CODE RUN KIND WORDS FLAGS...: a changed copy of this run ends with CODE and these words
changed() {
    code=$1 of=$2 kind=$3 words=$4; shift 4
    rm -rf "$copy"; cp -r "$of" "$copy"
    # shellcheck disable=SC2086 # KIND may have an argument
    check "$kind: tampered" $python tests/it/tamper.py ${kind% *} "$copy" ${kind#* }
    check "$kind $*: detected" verified "$code" "$copy" "$@"
    check "$kind $*: named: $words" prints "$words"
}
tampered loss "line 31 (step 21) was changed"
tampered loss "step 21 differs" --step 21
tampered digest "line 31 (step 21) was changed"
tampered chain "line 31 (step 21) and its chain were changed"
tampered deleted "lines are missing before line 31: step 22 follows the evaluation of step 20"
tampered deleted-evaluation "the evaluation of step 22 is missing before line 33"
tampered deleted-last "lines at the end are missing"
tampered deleted-first "lines are missing before line 1"
tampered inserted "line 32 (step 8) was inserted"
tampered swapped "lines 31 and 32 were swapped"
tampered garbage "line 31 was changed: it is not a line of qring"
tampered cut "line 150 is cut off"
tampered weight "weights.safetensors has SHA-256"
check "the changed weight is named" prints "element 7 is"
tampered checkpoint "which does not match its name"
tampered seed "seed is 1 in the run, 2 in job.json"
tampered arithmetic "line 1 does not follow from job hash, data hash and arithmetic"
check "the arithmetic is named" prints "f32-v0 in the run"
tampered precision "f32-v1 in the run, f64-v1 by job.json"
tampered field "seed is 999 in the run, 1 in job.json" --all
tampered data-field "data is " --all
# All files agree, in lines that no training has.
tampered appended "step 101 is recorded, but not computed" --all
tampered appended "step 101 is recorded, but not computed" --step 101
tampered appended "step 101 is recorded, but not computed" --sample 101
tampered fewer-steps "ends at step 101 of epoch 50, result.json has other numbers"
tampered fewer-epochs "ends at step 100 of epoch 50, result.json has other numbers"
tampered fewer-epochs "step 99 differs" --all
tampered second-evaluation "line 151 (the evaluation of step 100) is out of order" --all
tampered early-evaluation "lines are missing before line 31: the evaluation of step 21 follows"
tampered skipped "lines are missing before line 31: step 22 follows the evaluation of step 20"
tampered skipped-evaluation "the evaluation of step 22 is missing before line 33" --step 21
check "skipped-evaluation: steps before the gap are computed" prints "1 step, 21 to 21"
tampered skipped-evaluation "not computed: the chain is broken before" --step 40
tampered far-step "lines are missing before line 151" --all
tampered far-step "lines are missing before line 151" --sample 3
# All files agree, in weights, values and names that are not those of the last step.
tampered result-loss "result       DIFFERS      loss is 0.0" --all
tampered result-accuracy '"val_accuracy":0.1' --all
tampered unlisted "the weights of result.json with sha256"
tampered unreadable "weights.h5: cannot be read" --all
changed 7 "$run" without-result "weights.h5 exists, but the run has no result that names it" --all
changed 7 "$run" without-result-file "weights.safetensors exists, but" --all
# Files outside of the run are not read, unless result.json says that its weights are there.
changed 7 "$run" "subject /etc/hostname" "/etc/hostname is outside of the run"
check "a file elsewhere: no hash is printed" sh -c "! grep -q SHA-256 '$work/out'"
changed 7 "$run" "subject https://127.0.0.1:1/w.h5" "https://127.0.0.1:1/w.h5 is outside of the run"
changed 6 "$run" "weights-at /etc/hostname.h5" "/etc/hostname.h5: "
changed 6 "$run" "weights-at $work/elsewhere/w2.h5" "elsewhere/w2.h5 has another SHA-256"
# An explicit flag that fails is an error.
check "unknown kernels" verified 2 "$run" --isa bogus
check "missing data, given by --data" verified 2 "$run" --data "$work/none.csv"
check "missing checkpoints, given by --checkpoints" verified 2 "$run" --checkpoints "$work/none"
check "missing checkpoints: the error" holds "$work/err" "no checkpoint of this job"
check "checkpoints elsewhere" verified 0 "$run" --checkpoints "$run/checkpoints"
check "an empty run" verified 2 ""
check "an empty run: the error" holds "$work/err" "the run is empty"
# All files agree: checkpoints reveal the forgery, and recomputing finds the changed value.
tampered forged-loss "the checkpoint of step"
rm -r "$copy/checkpoints"
check "forged, without checkpoints: the files agree" verified 0 "$copy"
check "forged loss: detected by recomputing" verified 6 "$copy" --step 21
check "forged loss: named" prints "step 21 differs: state digest"
check "forged loss: the value" prints "loss is 0.1"
tampered forged-digest "step 21 differs: state digest" --step 21
rm -rf "$copy"; cp -r "$run" "$copy"
check "a run of another program" $python tests/it/tamper.py other-program "$copy"
check "steps of another program are not verified" verified 7 "$copy" --step 3
check "another program: the arithmetic is named" prints "f32-v0 in the run, but this program"
rm -rf "$copy"; cp -r "$run" "$copy"
check "a run without a chain" $python tests/it/tamper.py without-chain "$copy"
check "a run without a chain is not verified" verified 7 "$copy"
check "a run without a chain: the message" prints "the lines have no chain"

# Signatures.
openssl genpkey -algorithm ed25519 -out "$work/key" 2>"$work/err"; openssl pkey -in "$work/key" -pubout -out "$work/pub"
openssl genpkey -algorithm ed25519 -out "$work/key2" 2>"$work/err"; openssl pkey -in "$work/key2" -pubout -out "$work/pub2"

check "not signed" verified 6 "$run" --key "$work/pub"
check "not signed: the message" prints "the run is not signed"
check "signed" run_to "$work/signed.log" "$qring" run -n 2 --out "$work/signed" --signing-key "$work/key" --logdir=
check "the signature is valid" verified 0 "$work/signed" --key "$work/pub"
check "the signature is reported" prints "signature    same         by key"
check "an invalid key file" verified 2 "$work/signed" --key "$work/run.log"
check "another key" verified 6 "$work/signed" --key "$work/pub2"
check "another key: the message" prints "has not signed provenance.json"
$python - "$work/signed/provenance.dsse.json" "$work/pae" "$work/sig" <<'END'
import base64, json, sys
e = json.load(open(sys.argv[1]))
kind, payload = e["payloadType"].encode(), base64.b64decode(e["payload"])
open(sys.argv[2], "wb").write(b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload))
open(sys.argv[3], "wb").write(base64.b64decode(e["signatures"][0]["sig"]))
END
check "OpenSSL verifies the signature" openssl pkeyutl -verify -pubin -inkey "$work/pub" -rawin -in "$work/pae" -sigfile "$work/sig" >"$work/err"
rm -rf "$copy"; cp -r "$work/signed" "$copy"
check "forged" $python tests/it/tamper.py forged-loss "$copy"
check "forged: the signature belongs to another statement" verified 6 "$copy" --key "$work/pub"
check "forged: the message" prints "provenance.json is not the statement that was signed"
check "a key that cannot sign: error at the start" sh -c "! '$qringd' --out '$work/none' --signing-key '$work/pub' 2>'$work/err'"
check "a key that cannot sign: the error" holds "$work/err" "no Ed25519 private key"
check "a key that cannot sign: no output" test ! -e "$work/none"
check "validate rejects a key that cannot sign" sh -c "! '$qring' validate --out '$work/none' --signing-key '$work/pub' >'$work/err'"
check "validate of a key that cannot sign: the error" holds "$work/err" "no Ed25519 private key"
check "without a key: a resumed run is no longer signed" run_to "$work/signed.log" "$qring" run --out "$work/signed" --epochs 51 --logdir=
check "the old signature is deleted" test ! -e "$work/signed/provenance.dsse.json"
check "more epochs: one chain" verified 0 "$work/signed" --all

# Data that has moved, and other data.
$python - "$work/train.csv" "$work/other.csv" <<'END'
import random, sys
random.seed(1)
rows = [[random.uniform(0, 3) for _ in range(2)] for _ in range(40)]
for n, path in enumerate(sys.argv[1:]):
    rows[7][1] += n
    with open(path, "w") as f:
        f.write("a,b,y\n" + "".join(f"{a},{b},{int(a > b)}\n" for a, b in rows))
END
echo '{"name":"csv","data":{"source":"csv","url":"'"$work"'/train.csv"},"model":[{"layer":"dense","units":4,"activation":"relu"},{"layer":"dense","units":1,"activation":"sigmoid"}],"train":{"loss":"binary_crossentropy","epochs":4,"batch_size":10,"optimizer":{"name":"adam"}}}' >"$work/csv.json"
check "a run with a file" run_to "$work/csv.log" "$qring" run "$work/csv.json" --out "$work/csv" --logdir=
changed 6 "$work/csv" input-names 'the names of the inputs are ["b","a"], expected ["a","b"]' --all
mv "$work/train.csv" "$work/moved.csv"
check "missing data: the rest is checked" verified 0 "$work/csv"
check "missing data: the message" prints "not checked: "
check "missing data: no step can be recomputed" verified 2 "$work/csv" --step 3
check "moved data, with --data" verified 0 "$work/csv" --data "$work/moved.csv" --all
check "other data" verified 6 "$work/csv" --data "$work/other.csv"
check "other data: the message" prints "data         DIFFERS"

# Two to four workers, all killed six times, then one thread.
sed 's/"epochs": 50/"epochs": 2000/' deploy/jobs/qcnn.json >"$work/long.json"
killed=$work/killed kills=0
while [ $kills -lt 6 ]; do
    setsid "$qring" run "$work/long.json" -n $((2 + kills % 3)) --out "$killed" $often >>"$work/killed.log" 2>&1 </dev/null & r=$!; started="$started $r"
    tries=0
    while [ "$(cat "$killed/steps.jsonl" 2>/dev/null | wc -l)" -lt $((300 * (kills + 1))) ] && [ $tries -lt 1500 ]; do tries=$((tries + 1)); sleep 0.02; done
    kill -9 -$r 2>/dev/null; wait $r 2>/dev/null; kills=$((kills + 1))
done
check "killed six times: the steps so far are the same" verified 0 "$killed" --sample 5
check "killed six times: the run ends with 0" run_to "$work/killed.log" "$qring" run "$work/long.json" -n 2 --out "$killed" $often
check "killed, several workers: the same with one thread" verified 0 "$killed" --all --threads 1
check "every step is recomputed" prints "4000 steps, 1 to 4000: 4000 computed"
began=$(now_ms); verified 0 "$killed" --step 3999 --threads 1; echo "one step of 4000, from a checkpoint: $(($(now_ms) - began)) ms"

# A run that goes on after its result: its files are not wrong, but not all proved.
on=$work/on
check "a result after three epochs" run_to "$work/on.log" "$qring" run "$work/long.json" -n 1 --out "$on" $often --epochs 3
setsid nice -n 19 "$qring" run "$work/long.json" -n 2 --out "$on" $often >>"$work/on.log" 2>&1 </dev/null & r=$!; started="$started $r"
tries=0; while [ "$(wc -l <"$on/steps.jsonl")" -lt 100 ] && [ $tries -lt 1500 ]; do tries=$((tries + 1)); sleep 0.02; done
kill -9 -$r 2>/dev/null; wait $r 2>/dev/null
check "after its result: not proved" verified 7 "$on"
check "after its result: the message" prints "chain        not proved   the run went on after its result: that is of step 6, steps.jsonl ends at step "
check "after its result: the files" prints "files        not proved   the run went on after its result: "
check "after its result: the steps are the same" verified 7 "$on" --all
check "after its result: all steps are computed" prints "steps        same"
rm -rf "$copy"; cp -r "$on" "$copy"
check "after its result: a changed weight" $python tests/it/tamper.py weight "$copy"
check "after its result: a changed weight is detected" verified 6 "$copy"
check "after its result: the changed weight is named" prints "weights.safetensors has SHA-256"
rm -rf "$copy"; cp -r "$on" "$copy"
sed -i '5s/"loss":0\./"loss":0.1/' "$copy/steps.jsonl"
check "after its result: a changed line is detected" verified 6 "$copy"
check "after its result: the run ends with 0" run_to "$work/on.log" "$qring" run "$work/long.json" -n 2 --out "$on" $often
check "after its result: the next result is the same" verified 0 "$on"
rm "$copy/result.json" "$copy/provenance.json"; : >"$copy/steps.jsonl"
check "no line yet: not proved" verified 7 "$copy"
check "no line yet: the message" prints "chain        not proved   none: the run has no line yet"
check "no line yet: no step" verified 7 "$copy" --all
rm -rf "$copy"; cp -r "$on" "$copy"; : >"$copy/steps.jsonl"
check "all lines deleted: detected" verified 6 "$copy"
echo '[]' >"$copy/result.json"
check "result.json is an array: an error" verified 4 "$copy"
check "result.json is an array: the message" grep -qF "$copy/result.json is not a JSON object" "$work/err"

# Many checkpoints: any step is verified quickly.
check "a long run that keeps many checkpoints" run_to "$work/many.log" "$qring" run "$work/long.json" -n 2 --out "$work/many" --logdir= \
    --checkpoint-interval 1ms --checkpoint-steps 100 --checkpoint-keep 1000
kept=$(ls "$work/many/checkpoints" | wc -l)
check "more than three checkpoints: $kept" test "$kept" -gt 3
middle=$(ls "$work/many/checkpoints" | sed -n 's/^[0-9a-f]*-0*\([0-9]*\)-.*/\1/p' | sort -n | sed -n "$((kept / 2))p")
began=$(now_ms); check "a step in the middle" verified 0 "$work/many" --step $((middle + 1)) --threads 1
echo "step $((middle + 1)) of 4000, with $kept checkpoints: $(($(now_ms) - began)) ms"
check "a step in the middle is computed from the checkpoint before" prints "1 step, $((middle + 1)) to $((middle + 1)): 1 computed"

# Read-only.
chmod -R a-w "$killed"
before=$(find "$killed" | sort | cksum)
check "a read-only folder" verified 0 "$killed" --step 3990
check "a read-only folder: no file was written" test "$(find "$killed" | sort | cksum)" = "$before"
chmod -R u+w "$killed"

wait "$far"; rc=$?
check "weights at a host that does not answer: a temporary failure, not $rc" test $rc = 138
check "weights at a host that does not answer: the error" holds "$work/far.err" "https://127.0.0.1:1/w.h5: download: no success"
end
