#!/bin/sh
# qring sample: counts add up; the same strings for any threads, kernels and selection of samples,
# with and without noise; a job with shots trains to one digest on any number of workers; QAOA and a
# Born machine trained with shots; bad arguments.
. "$(dirname "$0")/common"
job=$root/deploy/jobs/qcnn.json
digest() { json_string "$1/result.json" state_digest; }
sed 's/"stages": 1,/"stages": 1, "noise": {"after": {"*2": {"channel": "Depolarize", "p": 0.02}}, "readout": {"p_01": 0.03}},/; s/"epochs": 50/"epochs": 2/' \
    "$job" >"$work/noisy.json"
holds "$work/noisy.json" Depolarize || fail "the job is not noisy"
for each in "$job" "$work/noisy.json"; do
    name=$(basename "$each" .json)
    run_to "$work/$name.csv" "$qring" sample "$each" --samples 0,5 --shots 500
    check "$name: a line for each string" test "$(wc -l <"$work/$name.csv")" = 1001
    run_to "$work/$name.alone" "$qring" sample "$each" --samples 5 --shots 500 --isa portable --threads 1
    sed -n '/^5,/p' "$work/$name.csv" >"$work/$name.of5"
    sed 1d "$work/$name.alone" >"$work/$name.body"
    check "$name: one sample, portable, one thread: the same strings" cmp "$work/$name.of5" "$work/$name.body"
    run_to "$work/$name.counts" "$qring" sample "$each" --samples 0 --shots 500 --counts --format json
    check "$name: counts add up" test "$(sed 's/.*"counts"//' "$work/$name.counts" | grep -o '": [0-9]*' | awk '{ n += $2 } END { print n }')" = 500
    run_to "$work/$name.seed" "$qring" sample "$each" --samples 5 --shots 500 --seed 99
    check "$name: another seed, other strings" test "$(cmp "$work/$name.seed" "$work/$name.alone" >/dev/null 2>&1; echo $?)" = 1
done
sed -i 's/"layer": "quantum"/"layer": "quantum", "shots": 200, "trajectories": 50/' "$work/noisy.json"
for n in 1 3; do run_to "$work/run$n" "$qring" run "$work/noisy.json" -n $n --out "$work/out$n"; done
check "one digest with shots and noise" test "$(digest "$work/out1")" = "$(digest "$work/out3")"
# Without data the loss is the prediction: both use the shots of the seed.
cat >"$work/turn.json" <<'END'
{"name": "turn", "seed": 1, "data": {"source": "none"}, "train": {"epochs": 1, "loss": "expectation"},
 "model": [{"layer": "quantum", "shots": 1000, "readouts": ["Z0"],
   "circuit": {"qubits": 1, "gates": [{"gate": "RY", "qubits": [0], "angle": {"parameter": "w"}}]}}]}
END
run_to "$work/turn.log" "$qring" run "$work/turn.json" --out "$work/turn"
for seed in 3 99; do
    for of in loss prediction; do
        run_to "$work/$of$seed" "$qring" gradient "$work/turn.json" --weights "$work/turn/weights.h5" --of $of --seed $seed
        sed -i 's/.*"'$of'":\([^,]*\).*/\1/' "$work/$of$seed"
    done
    check "seed $seed: the prediction of qring gradient equals its loss" cmp "$work/loss$seed" "$work/prediction$seed"
done
check "another seed, another prediction" test "$(cmp "$work/prediction3" "$work/prediction99" >/dev/null 2>&1; echo $?)" = 1
# Petersen's graph: the largest of its cuts has 12 of 15 edges.
maxcut=$root/deploy/jobs/examples/maxcut.json
run_to "$work/maxcut.log" "$qring" run "$maxcut" --out "$work/maxcut" --set 'model[0].shots=200' --set 'model[0].gradient="parameter-shift"'
run_to "$work/cuts" "$qring" sample "$maxcut" --weights "$work/maxcut/weights.h5" --shots 1000 --counts
largest=$(awk -F, 'BEGIN { n = split("0 1 1 2 2 3 3 4 4 0 0 5 1 6 2 7 3 8 4 9 5 7 6 8 7 9 8 5 9 6", v, " ") }
    NR > 1 { cut = 0; for (i = 1; i < n; i += 2) cut += substr($2, v[i] + 1, 1) != substr($2, v[i + 1] + 1, 1); if (cut == 12) sum += $3 }
    END { print sum + 0 }' "$work/cuts")
check "QAOA trained with shots: $largest of 1000 strings are the largest cut" test "$largest" -ge 900

# A Born machine: trains strings of three qubits to these probabilities. Untrained, the distance is
# 0.4 or more.
printf 'x,y0,y1,y2,y3,y4,y5,y6,y7\n0,0.02,0.2,0.25,0.03,0.03,0.25,0.2,0.02\n' >"$work/born.csv"
cat >"$work/born.json" <<'END'
{"name": "born", "seed": 1,
 "model": [{"layer": "quantum", "shots": 1000, "gradient": "parameter-shift", "readouts": [{"probs": [0, 1, 2]}],
   "circuit": {"qubits": 3, "columns": 1, "gates": [
     {"repeat": 4, "index": "l", "gates": [
       {"repeat": 3, "index": "q", "gates": [
         {"gate": "RY", "qubits": ["q"], "angle": {"parameter": "y{l}_{q}"}}, {"gate": "RZ", "qubits": ["q"], "angle": {"parameter": "z{l}_{q}"}}]},
       {"gate": "CZ", "qubits": [0, 1]}, {"gate": "CZ", "qubits": [1, 2]}, {"gate": "CZ", "qubits": [2, 0]}]},
     {"repeat": 3, "index": "q", "gates": [{"gate": "RY", "qubits": ["q"], "angle": {"parameter": "last{q}"}}]}]}}],
 "data": {"source": "csv", "url": "born.csv"},
 "train": {"epochs": 300, "batch_size": 1, "loss": "mse", "optimizer": {"name": "adam", "learning_rate": 0.05}}}
END
run_to "$work/born.log" "$qring" run "$work/born.json" --out "$work/born"
run_to "$work/strings" "$qring" sample "$work/born.json" --weights "$work/born/weights.h5" --shots 100000 --counts
distance=$(sed 1d "$work/strings" | awk -F, 'BEGIN { split("0.02 0.2 0.25 0.03 0.03 0.25 0.2 0.02", p, " ") }
    { i = 1 + 4 * substr($2, 1, 1) + 2 * substr($2, 2, 1) + substr($2, 3, 1); off = $3 / 100000 - p[i]; sum += off < 0 ? -off : off; p[i] = 0 }
    END { for (i in p) sum += p[i]; print sum / 2 }')
check "Born machine trained with shots: distance $distance" awk "BEGIN { exit !($distance < 0.05) }"

wrong() { # exit code, words, arguments
    "$qring" sample "$work/noisy.json" "$3" "$4" >"$work/wrong" 2>&1
    check "exit code of $3 $4" test $? = "$1"
    check "$3 $4: $(tail -n 1 "$work/wrong")" holds "$work/wrong" "$2"
}
wrong 2 "'0' is not a number from 1" --shots 0
wrong 2 'neither csv nor json' --format xml
wrong 2 'not a position in the training set' --samples 100000
end
