#!/bin/sh
# One state digest and one pair of weight files for each job, for all numbers of workers and
# threads, kernels and all-reduce schedules. Without an argument: an array in which every pair of
# choices occurs (except the tutorial with one worker, which digests.sh runs); "full": the whole
# product.
. "$(dirname "$0")/common"
$python tests/it/golden.py mlp-data "$work" || fail "data of the dense job"
jobs=tests/golden/digests/jobs
cat >"$work/dense-npz.json" <<J
{"name": "dense-npz", "seed": 5,
 "model": [{"layer": "dense", "units": 128, "activation": "relu"}, {"layer": "dense", "units": 10, "activation": "softmax"}],
 "data": {"source": "npz", "url": "$work/mlp.npz", "train_fraction": 0.75},
 "train": {"epochs": 2, "batch_size": 64, "loss": "categorical_crossentropy", "metrics": ["accuracy"], "optimizer": {"name": "adam", "learning_rate": 0.001}}}
J
job_file() { case $1 in 0) echo $jobs/tutorial.json ;; 1) echo $jobs/tutorial-block2.json ;; 2) echo $jobs/three-filters.json ;; 3) echo $jobs/pure-12.json ;; 4) echo "$work/dense-npz.json" ;;
    5) echo $jobs/hybrid-9-angles.json ;; 6) echo $jobs/filters-12.json ;; 7) echo $jobs/hybrid-15-angles.json ;; 8) echo $jobs/pure-24.json ;;
    9) echo $jobs/adamw-warmup-polynomial.json ;; 10) echo $jobs/nadam-restarts.json ;; 11) echo $jobs/adagrad-average-piecewise.json ;;
    12) echo $jobs/weighted-classes.json ;; 13) echo $jobs/huber-penalty.json ;; 14) echo $jobs/chain-12.json ;; 15) echo $jobs/chain-frozen.json ;;
    16) echo $jobs/chain-sandwich.json ;; 17) echo $jobs/chain-two-circuits.json ;; 18) echo $jobs/ansatz-feature-map.json ;; 19) echo $jobs/ansatz-uploading.json ;;
    20) echo $jobs/expressions.json ;; 21) echo $jobs/vqe-hamiltonian.json ;; 22) echo $jobs/expectation-weights.json ;; 23) echo $jobs/counts-auc.json ;;
    24) echo $jobs/lbfgs-vqe.json ;; 25) echo $jobs/spsa-classes.json ;; 26) echo $jobs/natural-vqe.json ;;
    27) echo $jobs/noise-trajectories-9.json ;; 28) echo $jobs/noise-damping-trajectories.json ;; 29) echo $jobs/shots-noise.json ;;
    30) echo $jobs/shots-parameter-shift.json ;; 31) echo $jobs/measured-trajectories.json ;;
    32) echo $jobs/structured-12.json ;; 33) echo $jobs/structured-15.json ;; esac; }
models="14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33" # chains, ansätze, expressions, objectives, optimizers with several
# evaluations per step, trajectories, shots, measured bits, structured state vectors
fast=; # kernel tables for pure-24, whose threads share the slices of one sample
isa_name() { case $1 in 0) echo portable ;; 1) echo avx2 ;; 2) echo avx512 ;; esac; }
sum_name() { case $1 in 0) echo ring ;; 1) echo star ;; 2) echo doubling ;; esac; }
have=" portable "
for isa in avx2 avx512; do
    if run_to "$work/log" "$qring" run $jobs/hybrid-4.json -n 1 --epochs 1 --isa $isa --out "$work/probe"; then have="$have$isa " fast="$fast $isa"; else skip "no $isa on this CPU: its rows run portable"; fi
done

one() { # workers, threads, isa, all-reduce, job number
    isa=$3; case $have in *" $isa "*) ;; *) isa=portable ;; esac
    job=$(job_file "$5"); name=$(basename "$job" .json)
    out=$work/$name-$1-$2-$isa-$4
    run_to "$work/log" "$qring" run "$job" -n "$1" --threads "$2" --isa "$isa" --allreduce "$4" --out "$out"
    rc=$?
    if [ $rc != 0 ]; then fail "$name with $1 workers, $2 threads, $isa, $4: exit $rc"; tail -n 5 "$work/log"; return; fi
    digest=$(json_string "$out/result.json" state_digest)
    line="$digest $(sha256sum <"$out/weights.h5" | cut -d' ' -f1) $(sha256sum <"$out/weights.safetensors" | cut -d' ' -f1)"
    written=$(json_string "$out/result.json" sha256)
    case "$line" in *"$written"*) pass ;; *) fail "$name: result.json has sha256 $written, not that of a weights file" ;; esac
    [ -n "$digest" ] || fail "$name: no state_digest in result.json"
    [ -e "$work/$name.first" ] || echo "$line" >"$work/$name.first"
    if [ "$line" = "$(cat "$work/$name.first")" ]; then pass; else fail "$name with $1 workers, $2 threads, $isa, $4: $line; the first run had $(cat "$work/$name.first")"; fi
    committed=$(awk -v n="$name" '$1 == n { print $3 }' tests/golden/digests/f32-v1.tsv)
    if [ -n "$committed" ]; then if [ "$digest" = "$committed" ]; then pass; else fail "$name: $digest, committed $committed"; fi; fi
    rm -rf "$out"
}

if [ "$1" = full ]; then
    for number in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 $models; do for n in 1 2 3 5 8; do for t in 1 2; do for isa in portable avx2 avx512; do
        case $have in *" $isa "*) ;; *) continue ;; esac
        if [ $number$isa = 8portable ]; then continue; fi
        for sum in ring star doubling halving; do
            case $n$sum in 1ring | 2* | 8*) ;; 1* | *halving) continue ;; esac # halving falls back to ring for three and five workers
            one $n $t $isa $sum $number; done
    done; done; done; done
else
    for i in 0 1 2 3 4; do for k in 0 1 2 3 4; do
        [ $i$k != 00 ] || continue
        n=$(echo 1 2 3 5 8 | cut -d' ' -f$((i + 1)))
        one "$n" $(((i + k) % 2 + 1)) "$(isa_name $(((i + k) % 3)))" "$(sum_name $(((i + 2 * k) % 3)))" $k
    done; done
    one 2 2 avx2 halving 1
    for k in 12 13; do # weights, counts and penalties
        one 2 1 avx2 ring $k
        one 3 2 portable star $k
        one 8 1 avx512 doubling $k
    done
    one 8 1 avx512 halving 4
    for k in 5 6 7; do # plans by slices, and by samples with read-outs first
        one 1 2 portable ring $k
        one 2 1 avx2 doubling $k
        one 3 2 avx512 star $k
    done
    one 3 2 portable star 9 # optimizers and schedules
    one 2 1 avx2 doubling 10
    one 5 1 avx512 ring 11
    for k in $models; do
        one 2 2 avx2 $(sum_name $((k % 3))) $k
        one 3 1 avx512 $(sum_name $(((k + 1) % 3))) $k
        one 5 2 portable $(sum_name $(((k + 2) % 3))) $k
        one 8 1 avx2 $(sum_name $((k % 3))) $k
    done
    for isa in $fast; do
        one 1 1 "$isa" ring 8
        one 2 2 "$isa" ring 8
    done
fi
for f in "$work"/*.first; do echo "$(basename "$f" .first): $(cat "$f")"; done
end
