#!/bin/sh
# deploy/jobs/examples, typed as their page has it: they reach what the page says, the same bits with any number of workers. What is right is in
# tests/golden/hamiltonians/values.json: dense diagonalisation, all cuts.
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
    run_in 120 log $line; rc=$?
    check "$line: exit 0, not $rc: $(tail -n 3 log)" test $rc = 0
done <typed

# says FILE, a Python expression of result r, steps s and golden values v
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
check "and to 1e-13 at its last step, as the page says" holds_of vqe-h2 'abs(s[-1]["loss"] - h2) < 1e-13'
check "it does not begin there" holds_of vqe-h2 's[0]["loss"] > h2 + 0.1'
check "a step an epoch" holds_of vqe-h2 'r["steps"] == r["epochs"] == len(s) == 60 and all(l["samples"] == 1 for l in s)'
check "the largest cut of Petersen's graph" holds_of maxcut 'abs(r["loss"] + v["petersen"]["largest_cut"]) < 1e-5'
check "it does not begin there" holds_of maxcut 's[0]["loss"] > -9'
for name in vqe-h2 maxcut; do
    digest=$(json_string out/$name/result.json state_digest)
    for n in 1 3; do
        run_in 120 log qring run "deploy/jobs/examples/$name.json" -n $n --threads 2 --out "out/$name-$n"
        check "$name, $n workers: the same bits" test "$(json_string "out/$name-$n/result.json" state_digest)" = "${digest:-none}"
    done
done

# what the other commands say where there are neither data nor labels
run_in 60 log qring infer deploy/jobs/examples/vqe-h2.json --weights out/vqe-h2/weights.h5
check "infer has the energy" holds log 'Loss (expectation):  -1.13727'
check "and no labels" sh -c "! grep -q Labels log"
run_in 60 log qring infer deploy/jobs/examples/vqe-h2.json --weights out/vqe-h2/weights.safetensors --predictions -
check "a prediction without a label: $(head -n 1 log)" test "$(head -n 1 log)" = sample,prediction
run_in 60 log qring validate deploy/jobs/examples/vqe-h2.json --out out/v
check "validate finds nothing against it" holds log 'Nothing was found that would stop it'
run_in 60 log qring show deploy/jobs/examples/vqe-h2.json
check "show says the Hamiltonian by its terms" holds log 'a Hamiltonian of 15 terms, sha256 6a82e8084432d88189d58b2569c9f2ec'
run_in 60 log qring gradient deploy/jobs/examples/vqe-h2.json
check "gradient takes it: $(tail -n 1 log)" grep -q '"pqc/parameters"' log

# the file's content is in the job hash, not its name; it is found beside the job
hash_of() { json_string "out/$1/result.json" job_hash; }
sed 's/h2.txt/again.txt/' deploy/jobs/examples/vqe-h2.json >deploy/jobs/examples/again.json
cp "$root/tests/golden/hamiltonians/h2-pennylane.txt" deploy/jobs/examples/again.txt
run_in 60 log qring run deploy/jobs/examples/again.json -n 1 --epochs 1 --out out/again
check "another name, another form, the same terms: one job hash" test "$(hash_of again)" = "$(hash_of vqe-h2)"
sed -i 's/0.1711977493030587 /0.1711977493030586 /' deploy/jobs/examples/h2.txt
run_in 60 log qring run deploy/jobs/examples/vqe-h2.json -n 1 --epochs 1 --out out/other
check "another coefficient, another hash" test "$(hash_of other)" != "$(hash_of vqe-h2)"
end
