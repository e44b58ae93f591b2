#!/bin/sh
# qring verify: an honest run is the same, by any number of threads, of several workers that were killed, from a read-only folder and through a bucket; each
# kind of tampering is named, with exit code 6; a run without a chain is 7; steps that the run does not have are 2.
. "$(dirname "$0")/common"
often="--checkpoint-interval 1ms --checkpoint-steps 10 --logdir="
run=$work/run copy=$work/copy
check "a run" run_in 60 "$work/run.log" "$qring" run -n 2 --out "$run" $often

# verified CODE FOLDER FLAGS...: the exit code; the answer in $work/out, the error in $work/err
verified() { want=$1; shift; timeout 60 "$qring" verify "$@" >"$work/out" 2>"$work/err" </dev/null; rc=$?; [ $rc = "$want" ] || { echo "exit $rc, not $want:"; cat "$work/out" "$work/err"; false; }; }
says() { grep -qF -- "$1" "$work/out" || { echo "no '$1' in:"; cat "$work/out"; false; }; }

check "an honest run is the same" verified 0 "$run"
check "it says so" says "same"
check "all lines" says "150 lines, steps 1 to 100"
check "no step differs, one thread" verified 0 "$run" --all --threads 1
check "all steps were computed" says "100 steps, 1 to 100: 100 computed"
check "the weights are those of the last step" says "2 files have the recomputed weights"
check "other kernels" verified 0 "$run" --steps 1..20 --isa portable
check "one step" verified 0 "$run" --step 40
check "it was computed from the start" says "1 step, 40 to 40: 40 computed"
last=$(ls "$run/checkpoints" | sed -n 's/^[0-9a-f]*-0*\([0-9]*\)-.*/\1/p' | sort -n | awk '$1 < 100' | tail -n 1)
check "a step after a checkpoint" verified 0 "$run" --step $((last + 1))
check "it was computed from there" says "1 step, $((last + 1)) to $((last + 1)): 1 computed"
check "some steps" verified 0 "$run" --steps 5..7
check "drawn steps" verified 0 "$run" --sample 3 --verify-seed 7
cp "$work/out" "$work/drawn"
check "the seed draws the same" verified 0 "$run" --sample 3 --verify-seed 7
check "as before" test "$(sed 's/ computed in.*//' "$work/out")" = "$(sed 's/ computed in.*//' "$work/drawn")"
check "a step beyond the run" verified 2 "$run" --step 101
check "its name" holds "$work/err" "the run has steps 1 to 100"
check "not a run" verified 2 "$work"
check "JSON" verified 0 "$run" --json
check "its verdict" test "$($python -c 'import json, sys; print(json.load(open(sys.argv[1]))["verdict"])' "$work/out")" = same

# tampered KIND WORDS FLAGS...: found, with these words
tampered() {
    kind=$1 words=$2; shift 2
    rm -rf "$copy"; cp -r "$run" "$copy"
    check "$kind: made" $python tests/it/tamper.py "$kind" "$copy"
    check "$kind: found" verified 6 "$copy" "$@"
    check "$kind: named: $words" says "$words"
}
tampered loss "line 31 (step 21) was changed"
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
check "the weight" says "element 7 is"
tampered checkpoint "which does not match its name"
tampered seed "seed is 1 in the run, 2 in job.json"
tampered arithmetic "line 1 does not follow from job hash, data hash and arithmetic"
check "the arithmetic" says "f32-v0 in the run"
# All files agree: the states of the checkpoints give it away, and a computation says what.
tampered forged-loss "the checkpoint of step"
rm -r "$copy/checkpoints"
check "forged, without checkpoints: the files agree" verified 0 "$copy"
check "forged loss: computed" verified 6 "$copy" --step 21
check "forged loss: named" says "step 21 differs: state digest"
check "forged loss: the value" says "loss is 0.1"
tampered forged-digest "step 21 differs: state digest" --step 21
rm -rf "$copy"; cp -r "$run" "$copy"
check "a run of another program" $python tests/it/tamper.py other-program "$copy"
check "its steps are not proved" verified 7 "$copy" --step 3
check "its arithmetic is named" says "f32-v0 in the run, but this program"
rm -rf "$copy"; cp -r "$run" "$copy"
check "a run of before" $python tests/it/tamper.py without-chain "$copy"
check "it is not proved" verified 7 "$copy"
check "it has no chain" says "the lines have no chain"

# Signed.
openssl genpkey -algorithm ed25519 -out "$work/key" 2>"$work/err"; openssl pkey -in "$work/key" -pubout -out "$work/pub"
openssl genpkey -algorithm ed25519 -out "$work/key2" 2>"$work/err"; openssl pkey -in "$work/key2" -pubout -out "$work/pub2"

check "not signed" verified 6 "$run" --key "$work/pub"
check "it says so" says "the run is not signed"
check "signed" run_in 60 "$work/signed.log" "$qring" run -n 2 --out "$work/signed" --signing-key "$work/key" --logdir=
check "by that key" verified 0 "$work/signed" --key "$work/pub"
check "it is named" says "signature    same         by key"
check "a key that is none" verified 2 "$work/signed" --key "$work/run.log"
check "not by another" verified 6 "$work/signed" --key "$work/pub2"
check "which is named" says "has not signed provenance.json"
$python - "$work/signed/provenance.dsse.json" "$work/pae" "$work/sig" <<'END'
import base64, json, sys
e = json.load(open(sys.argv[1]))
kind, payload = e["payloadType"].encode(), base64.b64decode(e["payload"])
open(sys.argv[2], "wb").write(b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload))
open(sys.argv[3], "wb").write(base64.b64decode(e["signatures"][0]["sig"]))
END
check "OpenSSL finds the same" openssl pkeyutl -verify -pubin -inkey "$work/pub" -rawin -in "$work/pae" -sigfile "$work/sig" >"$work/err"
rm -rf "$copy"; cp -r "$work/signed" "$copy"
check "forged" $python tests/it/tamper.py forged-loss "$copy"
check "forged: the signature is that of another statement" verified 6 "$copy" --key "$work/pub"
check "it says so" says "provenance.json is not the statement that was signed"
check "a key that cannot sign ends at the start" sh -c "! '$qringd' --out '$work/none' --signing-key '$work/pub' 2>'$work/err'"
check "its name" holds "$work/err" "no Ed25519 private key"
check "nothing was written" test ! -e "$work/none"
check "validate says so too" sh -c "! '$qring' validate --out '$work/none' --signing-key '$work/pub' >'$work/err'"
check "its name" holds "$work/err" "no Ed25519 private key"
check "without a key: a resumed run is no longer signed" run_in 60 "$work/signed.log" "$qring" run --out "$work/signed" --epochs 51 --logdir=
check "no signature is left" test ! -e "$work/signed/provenance.dsse.json"
check "more epochs: one chain" verified 0 "$work/signed" --all

# Other data, from another place.
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
check "a run with a file" run_in 60 "$work/csv.log" "$qring" run "$work/csv.json" --out "$work/csv" --logdir=
mv "$work/train.csv" "$work/moved.csv"
check "its data is gone: the rest is checked" verified 0 "$work/csv"
check "it says so" says "not checked: "
check "a step needs the data" verified 2 "$work/csv" --step 3
check "its data elsewhere" verified 0 "$work/csv" --data "$work/moved.csv" --all
check "another file" verified 6 "$work/csv" --data "$work/other.csv"
check "it is the data" says "data         DIFFERS"

# Two to four workers, all killed six times, then one thread.
sed 's/"epochs": 50/"epochs": 2000/' deploy/jobs/qcnn.json >"$work/long.json"
killed=$work/killed kills=0
while [ $kills -lt 6 ]; do
    setsid "$qring" run "$work/long.json" -n $((2 + kills % 3)) --out "$killed" $often >>"$work/killed.log" 2>&1 </dev/null & r=$!; started="$started $r"
    tries=0
    while [ "$(cat "$killed/steps.jsonl" 2>/dev/null | wc -l)" -lt $((300 * (kills + 1))) ] && [ $tries -lt 1500 ]; do tries=$((tries + 1)); sleep 0.02; done
    kill -9 -$r 2>/dev/null; wait $r 2>/dev/null; kills=$((kills + 1))
done
check "killed six times: what is there is the same" verified 0 "$killed" --sample 5
check "it ends" run_in 120 "$work/killed.log" "$qring" run "$work/long.json" -n 2 --out "$killed" $often
check "killed, several workers: the same by one thread" verified 0 "$killed" --all --threads 1
check "every step" says "4000 steps, 1 to 4000: 4000 computed"
began=$(now_ms); verified 0 "$killed" --step 3999 --threads 1; echo "one step of 4000, from a checkpoint: $(($(now_ms) - began)) ms"

# Many checkpoints: any step in little time.
check "a long run that keeps many checkpoints" run_in 120 "$work/many.log" "$qring" run "$work/long.json" -n 2 --out "$work/many" --logdir= \
    --checkpoint-interval 1ms --checkpoint-steps 100 --checkpoint-keep 1000
kept=$(ls "$work/many/checkpoints" | wc -l)
check "more than three: $kept" test "$kept" -gt 3
middle=$(ls "$work/many/checkpoints" | sed -n 's/^[0-9a-f]*-0*\([0-9]*\)-.*/\1/p' | sort -n | sed -n "$((kept / 2))p")
began=$(now_ms); check "a step in the middle" verified 0 "$work/many" --step $((middle + 1)) --threads 1
echo "step $((middle + 1)) of 4000, with $kept checkpoints: $(($(now_ms) - began)) ms"
check "from the checkpoint before" says "1 step, $((middle + 1)) to $((middle + 1)): 1 computed"

# Read-only.
chmod -R a-w "$killed"
before=$(find "$killed" | sort | cksum)
check "a read-only folder" verified 0 "$killed" --step 3990
check "nothing was written" test "$(find "$killed" | sort | cksum)" = "$before"
chmod -R u+w "$killed"
end
