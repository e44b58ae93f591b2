#!/bin/sh
# tests/soak/soak.sh MINUTES: six workers on loopback, a random fault every 5 s (kill -9, SIGTERM, SIGSTOP with SIGCONT, one more started), one to six
# of them alive; one is never ended, and must not grow, in memory or descriptors. Then all are asked to leave, and a calm ring finishes two
# epochs later: digest and steps.jsonl are those of one worker that nobody disturbed. SEED=7 chooses the faults.
minutes=$1
. "$(dirname "$0")/../it/common"
unset TF_CONFIG
sed 's/"name": "qcnn"/"name": "soak"/; s/"rounds": 20/"rounds": 640/; s/"batch_size": 64/"batch_size": 1024/' deploy/jobs/qcnn.json >"$work/job.json"
# shellcheck disable=SC2046
$python tests/soak/drive.py "$minutes" "${SEED:-$$}" "$work" "$qringd" $(free_ports 6); rc=$?
check "the soak itself" test $rc = 0
if [ $rc = 0 ]; then
    epochs=$(cat "$work/epochs")
    run_in "$(awk "BEGIN { print int($minutes * 120) + 60 }")" "$work/alone.log" "$qringd" "$work/job.json" --epochs "$epochs" --out "$work/alone" || fail "one worker does not train"
    check "the digest" test "$(json_string "$work/out/result.json" state_digest)" = "$(json_string "$work/alone/result.json" state_digest)"
    check "each step once" cmp -s "$work/out/steps.jsonl" "$work/alone/steps.jsonl"
    echo "$(wc -l <"$work/out/steps.jsonl") lines of steps.jsonl, $epochs epochs: digest $(json_string "$work/out/result.json" state_digest)"
fi
end
