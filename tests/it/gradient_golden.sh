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

# Six samples in a micro-batch of 32: other intermediate results are kept than with 32 samples.
$python - "$work" <<'P'
import json, sys
quantum = {"qubits": 12, "columns": 3, "gates": [{"ansatz": "angle", "data": [0, 1, 2] * 4, "rotation": "RY"}, {"ansatz": "simplified-two-design", "layers": 3}]}
job = {"name": "few", "model": [{"layer": "quantum", "circuit": quantum, "readouts": ["Z6", "X6 Y7"]}], "train": {"loss": "mse"}, "data": {"source": "csv", "url": "few.csv"}}
with open(sys.argv[1] + "/few.json", "w") as f: json.dump(job, f)
with open(sys.argv[1] + "/few.csv", "w") as f:
    print("x0,x1,x2,y", *(f"{0.1 * i},{0.3 - 0.2 * i},{0.7 * i},{i % 2}" for i in range(6)), sep="\n", file=f)
P
for size in 32 6; do
    check "six samples in a micro-batch of $size" run_to "$work/few-$size" "$qring" gradient "$work/few.json" --set micro_batch_size=$size --threads 1
done
check "six samples: the same gradient" cmp "$work/few-32" "$work/few-6"
end
