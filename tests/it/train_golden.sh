#!/bin/sh
# Training against the double-precision simulator: the loss of each step, the final weights, the
# fifty-epoch run.
. "$(dirname "$0")/common"
for precision in double single; do
    for name in hybrid_research pure_notebook three_notebook 50ep; do
        d=$work/$name-$precision
        mkdir -p "$d"
        golden train-job "$d" "$name" "$precision"
        if run_to "$d/log" "$qring" run "$d/job.json" -n 1 --out "$d/out"; then pass; golden train-check "$d" "$name" "$precision"
        else fail "qring run $d/job.json: exit $?"; tail -n 5 "$d/log"; fi
    done
done
end
