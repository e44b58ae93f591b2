#!/bin/sh
# Exact gradients against an independent simulator and against TFQ.
. "$(dirname "$0")/common"
for precision in double single; do
    for name in hybrid_research_n8 pure_notebook_n8 three_notebook_n8 pure_notebook_n12 lcg_pure_n8 lcg_pure_n12 lcg_pure_n16 lcg_pure_n20; do
        d=$work/$name-$precision
        mkdir -p "$d"
        golden gradient-job "$d" "$name" "$precision"
        if timeout 600 "$qring" gradient "$d/job.json" --weights "$d/weights.safetensors" --of prediction >"$d/prediction.jsonl" 2>"$d/log" &&
            timeout 600 "$qring" gradient "$d/job.json" --weights "$d/weights.safetensors" --of loss >"$d/loss.jsonl" 2>>"$d/log"; then
            pass; golden gradient-check "$d" "$name" "$precision"
        else fail "qring gradient $d/job.json: exit $?"; tail -n 5 "$d/log"; fi
    done
done
end
