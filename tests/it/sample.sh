#!/bin/sh
# qring sample: counts add up; the same strings for any threads, kernels and selection of samples, with and without noise; a job whose read-outs are
# shots trains to one digest on any number of workers; bad arguments.
. "$(dirname "$0")/common"
job=$root/deploy/jobs/qcnn.json
digest() { json_string "$1/result.json" state_digest; }
sed 's/"stages": 1,/"stages": 1, "noise": {"after": {"*2": {"channel": "Depolarize", "p": 0.02}}, "readout": {"p_01": 0.03}},/; s/"epochs": 50/"epochs": 2/' \
    "$job" >"$work/noisy.json"
holds "$work/noisy.json" Depolarize || fail "the job is not noisy"
for each in "$job" "$work/noisy.json"; do
    name=$(basename "$each" .json)
    run_in 60 "$work/$name.csv" "$qring" sample "$each" --samples 0,5 --shots 500
    check "$name: a line for each string" test "$(wc -l <"$work/$name.csv")" = 1001
    run_in 60 "$work/$name.alone" "$qring" sample "$each" --samples 5 --shots 500 --isa portable --threads 1
    sed -n '/^5,/p' "$work/$name.csv" >"$work/$name.of5"
    sed 1d "$work/$name.alone" >"$work/$name.body"
    check "$name: the same strings alone, portable, one thread" cmp "$work/$name.of5" "$work/$name.body"
    run_in 60 "$work/$name.counts" "$qring" sample "$each" --samples 0 --shots 500 --counts --format json
    check "$name: counts add up" test "$(sed 's/.*"counts"//' "$work/$name.counts" | grep -o '": [0-9]*' | awk '{ n += $2 } END { print n }')" = 500
    run_in 60 "$work/$name.seed" "$qring" sample "$each" --samples 5 --shots 500 --seed 99
    check "$name: another seed, other strings" test "$(cmp "$work/$name.seed" "$work/$name.alone" >/dev/null 2>&1; echo $?)" = 1
done
sed -i 's/"layer": "quantum"/"layer": "quantum", "shots": 200, "trajectories": 50/' "$work/noisy.json"
for n in 1 3; do run_in 120 "$work/run$n" "$qring" run "$work/noisy.json" -n $n --out "$work/out$n"; done
check "one digest with shots and noise" test "$(digest "$work/out1")" = "$(digest "$work/out3")"
wrong() { # exit code, words, arguments
    "$qring" sample "$work/noisy.json" "$3" "$4" >"$work/wrong" 2>&1
    check "exit code of $3 $4" test $? = "$1"
    check "$3 $4: $(tail -n 1 "$work/wrong")" holds "$work/wrong" "$2"
}
wrong 2 "'0' is no number from 1" --shots 0
wrong 2 'neither csv nor json' --format xml
wrong 2 'not a position in the training set' --samples 100000
end
