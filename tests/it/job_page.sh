#!/bin/sh
# deploy/jobs/README.md, the page of the job file: its job, from the CSV file to the predictions.
. "$(dirname "$0")/common"
unset TF_CONFIG GOOGLE_APPLICATION_CREDENTIALS GCE_METADATA_HOST NO_GCE_CHECK QRING_JOB QRING_WEIGHTS
page=$root/deploy/jobs/README.md

# The walk: blocks with a file name are written to that file, sh blocks run one after the other.
here=$work/flowers; mkdir "$here"
awk -v dir="$here" '/<!-- walk -->/ { on = 1 } /<!-- \/walk -->/ { on = 0 }
    on && /^```/ { if (to != "") { close(to); to = ""; next }
        to = dir "/" ($2 != "" ? $2 : $1 == "```sh" ? sprintf("step%02d", ++steps) : "shown"); next }
    on && to != "" { print >to }' "$page"
check "the page has a walk of several steps" test -s "$here/step03"
cd "$here" || exit 1
PATH=$root/$QR_BIN:$PATH; export PATH
result=out/flowers/result.json
for step in step*; do
    run_to "$step.log" sh -e "$step"; rc=$?
    check "$step of the page ends with 0, not $rc: $(tail -n 3 "$step.log")" test $rc = 0
    [ ! -e $result ] || json_string $result state_digest >>digests
done
while read -r line; do
    check "the page shows what qring prints: $line" holds step02.log "$line"
done <shown
check "validate finds no problem" holds step02.log "No problems found"
epochs=$(sed -n 's/.*"epochs": *\([0-9]*\).*/\1/p' $result)
check "training stops early, not after $epochs epochs" test "$epochs" -lt 200
check "the accuracy for three classes" grep -qE '^60 samples .* accuracy: (0\.9|1\.0)' step02.log
best=$(sed -n 's/.*"kind":"EVAL".*"loss":\([0-9.e-]*\),.*/\1/p' out/flowers/steps.jsonl | sort -g | head -n 1)
# The weights file has float32.
final_loss=$(sed -n 's/.*validation set) - loss: \([0-9.e-]*\) -.*/\1/p' step02.log)
check "the weights have the loss of the best epoch, $best, not $final_loss" \
    awk -v a="$best" -v b="$final_loss" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < (1e-5 * a) ^ 2) }'
head=sample,label_0,label_1,label_2,prediction_0,prediction_1,prediction_2
check "predictions.csv: header" test "$(head -n 1 predictions.csv)" = $head
check "predictions.csv: one row per sample" test "$(wc -l <predictions.csv)" = 61
check "predictions of new samples: header" holds step02.log sample,class,probability_0,probability_1,probability_2
check "predictions of new samples: the third row" grep -Eq '^2,(setosa|versicolor|virginica),[0-9.e-]*,[0-9.e-]*,[0-9.e-]*$' step02.log
check "two runs" test "$(wc -l <digests)" = 2
check "the two runs have one digest" test "$(sort -u digests | wc -l)" = 1
run_to again.log qring run flowers.json; rc=$?
check "a second run: exit 0, not $rc" test $rc = 0
check "a second run logs that the job is trained" holds again.log 'already trained'
sed -i 's/0.02/0.03/' flowers.json
run_to other.log qring run flowers.json; rc=$?
check "another job in the same folder: exit 2, not $rc" test $rc = 2
check "another job in the same folder: --fresh is named" holds other.log '--fresh'
end
