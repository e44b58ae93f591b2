#!/bin/sh
# deploy/jobs/examples, run with the commands of their page: they reach the documented values,
# with the same bits for any number of workers; every job in the folder also runs at a small size.
# Reference values of H2 and MaxCut are in tests/golden/hamiltonians/values.json (dense
# diagonalisation, all cuts).
. "$(dirname "$0")/common"
unset TF_CONFIG QRING_JOB QRING_WEIGHTS
examples=$root/deploy/jobs/examples
here=$work/here; mkdir "$here"; mkdir -p "$here/deploy/jobs"; cp -r "$examples" "$here/deploy/jobs/examples"
cd "$here" || exit 1
PATH=$root/$QR_BIN:$PATH; export PATH
awk '/^```sh/ { on = 1; next } /^```/ { on = 0 } on' "$examples/README.md" >typed
check "the page has commands" grep -q '^qring run' typed
while read -r line; do
    # shellcheck disable=SC2086
    run_to log $line; rc=$?
    check "$line: exit 0, not $rc: $(tail -n 3 log)" test $rc = 0
done <typed

# holds_of RUN EXPRESSION: a Python expression of result r, steps s, golden values v and energy h2
# is true
holds_of() {
    $python -c '
import json, sys
r = json.load(open(sys.argv[1] + "/result.json"))
s = [json.loads(line) for line in open(sys.argv[1] + "/steps.jsonl")]
v = json.load(open(sys.argv[2]))
h2 = v["operators"][0]["lowest"]
sys.exit(0 if eval(sys.argv[3]) else str((r["loss"], s[-1]["loss"])))' "out/$1" "$root/tests/golden/hamiltonians/values.json" "$2"
}
check "H2's ground energy to 1e-9" holds_of vqe-h2 'abs(r["loss"] - h2) < 1e-9'
check "H2's energy to 1e-13 at the last step, as documented" holds_of vqe-h2 'abs(s[-1]["loss"] - h2) < 1e-13'
check "H2's training starts above the ground energy" holds_of vqe-h2 's[0]["loss"] > h2 + 0.1'
check "one step per epoch" holds_of vqe-h2 'r["steps"] == r["epochs"] == len(s) == 60 and all(l["samples"] == 1 for l in s)'
check "the largest cut of Petersen's graph" holds_of maxcut 'abs(r["loss"] + v["petersen"]["largest_cut"]) < 1e-5'
check "the cut's training starts below the largest cut" holds_of maxcut 's[0]["loss"] > -9'
for name in vqe-h2 maxcut; do
    digest=$(json_string out/$name/result.json state_digest)
    for n in 1 3; do
        run_to log qring run "deploy/jobs/examples/$name.json" -n $n --threads 2 --out "out/$name-$n"
        check "$name, $n workers: the same bits" test "$(json_string "out/$name-$n/result.json" state_digest)" = "${digest:-none}"
    done
done

# documented values of the other examples
right() { holds_of "$1" "round($2 * r['metrics']['$3']) == $4 and abs($2 * r['metrics']['$3'] - $4) < 1e-9"; } # right RUN TOTAL METRIC CORRECT
check "parity: all training samples" right variational-classifier 10 accuracy 10
check "parity: all validation samples" right variational-classifier 6 val_accuracy 6
check "the circle: 92 % of training samples" right reuploading 200 binary_accuracy 184
check "the circle: 91 % of validation samples" right reuploading 200 val_binary_accuracy 183
check "moons: 85 % of training samples" right sandwich 150 binary_accuracy 127
check "moons: 94 % of validation samples" right sandwich 50 val_binary_accuracy 47
check "the autoencoder's loss on three qubits" holds_of autoencoder '0 < r["loss"] < 1e-6 and 0 < r["val_loss"] < 1e-6 and s[0]["loss"] > 0.5'
check "strokes: all training samples" right transfer-base 120 accuracy 120
check "strokes: 37 validation samples" right transfer-base 40 val_accuracy 37
check "transfer learning: all training samples" right transfer-learning 36 accuracy 36
check "transfer learning: 22 validation samples" right transfer-learning 24 val_accuracy 22
check "3 or 6: 97 % of training samples" right mnist 400 accuracy 388
check "3 or 6: 99 validation samples" right mnist 100 val_accuracy 99
check "ten digits: 312 training samples" right mlp 320 accuracy 312
check "ten digits: 73 validation samples" right mlp 80 val_accuracy 73
check "the energy falls from a plateau" holds_of barren-plateaus 'abs(s[0]["loss"]) < 2 and abs(r["loss"] + 96.2) < 0.1'
run_to log $python deploy/jobs/examples/barren-plateaus.py 4 6
check "variances are as documented" sh -c "test \$(wc -l <log) = 2 && ! grep -vFx -f '$examples/README.md' log"
check "transfer-base.h5 has the weights of the base job" test "$("$qring" weights out/transfer-base/weights.h5 deploy/jobs/examples/transfer-base.h5 | tail -n 1)" = equal
cp deploy/jobs/examples/*.csv .
check "make_data.py writes the samples" $python deploy/jobs/examples/make_data.py
check "digits.py writes the samples" $python deploy/jobs/examples/digits.py .
for f in *.csv; do check "$f is what its program writes" cmp "$f" "deploy/jobs/examples/$f"; done

# Every job in the folder: it is documented, and trains for a few epochs with one and two workers,
# to the same bits.
falls() { # FOLDER: the last epoch's mean loss is below the first one's
    $python -c '
import json, sys
s = [json.loads(line) for line in open(sys.argv[1] + "/steps.jsonl")]
s = [l for l in s if l["kind"] == "TRAIN"]
def mean(epoch): part = [l for l in s if l["epoch"] == epoch]; return sum(l["samples"] * l["loss"] for l in part) / sum(l["samples"] for l in part)
sys.exit(0 if mean(s[-1]["epoch"]) < mean(1) else "%s, then %s" % (mean(1), mean(s[-1]["epoch"])))' "$1"
}
for job in deploy/jobs/examples/*.json; do
    name=${job##*/} name=${name%.json}
    check "$name is on the page" holds "$examples/README.md" "[$name.json]($name.json)"
    check "$name: the page has its command" grep -q "^qring run $job" typed
    check "$name: the job is named as its file" test "$(json_string "$job" name)" = "$name"
    check "$name: validate finds no problem" sh -c "timeout 600 qring validate $job --out out/v-$name >log 2>&1 </dev/null && grep -q 'No problems found' log"
    check "$name: no warning" sh -c "! grep -q '^W ' log"
    check "$name: show" run_to log qring show "$job"
    digest=
    for n in 1 2; do
        run_to log qring run "$job" -n $n --threads 1 --epochs 4 --out "small/$name-$n"; rc=$?
        check "$name, $n workers: exit 0, not $rc: $(tail -n 3 log)" test $rc = 0
        check "$name, $n workers: the loss falls" falls "small/$name-$n"
        new=$(json_string "small/$name-$n/result.json" state_digest)
        check "$name, $n workers: the same bits" test "${digest:-$new}" = "${new:-none}"
        digest=$new
    done
done

# the other commands for a job without data and labels
run_to log qring infer deploy/jobs/examples/vqe-h2.json --weights out/vqe-h2/weights.h5
check "infer prints the energy" holds log 'Loss (expectation):  -1.13727'
check "infer prints no labels" sh -c "! grep -q Labels log"
run_to log qring infer deploy/jobs/examples/vqe-h2.json --weights out/vqe-h2/weights.safetensors --predictions -
check "a prediction without a label: $(head -n 1 log)" test "$(head -n 1 log)" = sample,prediction
run_to log qring validate deploy/jobs/examples/vqe-h2.json --out out/v
check "validate finds no problem in a job without data" holds log 'No problems found'
run_to log qring show deploy/jobs/examples/vqe-h2.json
check "show prints the number of terms and the hash of the Hamiltonian" holds log 'a Hamiltonian of 15 terms, sha256 5406865b6216a40ff08c35a579428c9f'
run_to log qring gradient deploy/jobs/examples/vqe-h2.json
check "gradient of a job without data: $(tail -n 1 log)" grep -q '"pqc/parameters"' log

# The job hash covers the content of the Hamiltonian's file, not its name; the file is found beside
# the job.
hash_of() { json_string "out/$1/result.json" job_hash; }
sed 's/h2.txt/again.txt/' deploy/jobs/examples/vqe-h2.json >deploy/jobs/examples/again.json
cp "$root/tests/golden/hamiltonians/h2-pennylane.txt" deploy/jobs/examples/again.txt
run_to log qring run deploy/jobs/examples/again.json -n 1 --epochs 1 --out out/again
check "the same terms in another file and format: the same job hash" test "$(hash_of again)" = "$(hash_of vqe-h2)"
sed -i 's/0.1711977493030587 /0.1711977493030586 /' deploy/jobs/examples/h2.txt
run_to log qring run deploy/jobs/examples/vqe-h2.json -n 1 --epochs 1 --out out/other
check "another coefficient: another job hash" test "$(hash_of other)" != "$(hash_of vqe-h2)"
end
