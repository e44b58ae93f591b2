#!/bin/sh
# qring run under signals: a worker that dies is started again with --restart, and the digest stays; Ctrl-C and SIGTERM of qring run itself; workers
# that were told different numbers of epochs. What a ring does when its workers die, freeze and leave is in tests/faults.
. "$(dirname "$0")/common"
sed 's/"name": "qcnn"/"name": "kill"/' deploy/jobs/qcnn.json >"$work/job.json"
epochs=600
run_in 100 "$work/alone.log" "$qringd" "$work/job.json" --epochs $epochs --out "$work/alone" || fail "one worker does not train"
rm -rf "$work/run"
"$qring" run "$work/job.json" -n 3 --epochs $epochs --out "$work/run" --restart >"$work/run.log" 2>&1 </dev/null & r=$!
started="$started $r"
tries=0; until [ -s "$work/run/steps.jsonl" ] || [ $tries -gt 200 ]; do tries=$((tries + 1)); sleep 0.1; done
kill -9 "$(pgrep -P $r -f 'qringd' | head -n 1)"
wait $r; rc=$?
check "qring run --restart ends with 0, not $rc" test $rc = 0
check "it says that a worker died" grep -q 'died of signal 9.*2 go on, and it is started again' "$work/run.log"
d=$work/run; check "run: the digest" test "$(json_string "$d/result.json" state_digest)" = "$(json_string "$work/alone/result.json" state_digest)"
check "run: each step once" cmp -s "$d/steps.jsonl" "$work/alone/steps.jsonl"
stop_run() { # signal, exit code, flags: of qring run itself
    signal=$1 want=$2; shift 2
    rm -rf "$work/run"
    setsid "$qring" run "$work/job.json" -n 2 --epochs 1000000 --out "$work/run" "$@" >"$work/run.log" 2>&1 </dev/null & r=$!
    started="$started $r"
    tries=0; until [ -s "$work/run/steps.jsonl" ] || [ $tries -gt 200 ]; do tries=$((tries + 1)); sleep 0.1; done
    kill "-$signal" $r
    wait $r; rc=$?
    check "qring run ends with $want after SIG$signal $*, not $rc" test $rc = "$want"
}
# Workers that were told different numbers of epochs train the leader's, and the other says so once (row 41 of the fault table has the rest).
# shellcheck disable=SC2046
set -- $(free_ports 2)
TF_CONFIG=$(tf_config 0 "127.0.0.1:$1" "127.0.0.1:$2") timeout 30 "$qringd" "$work/job.json" --data-port 0 --epochs 3 --out "$work/e0" >"$work/e0.log" 2>&1 </dev/null & a=$!
TF_CONFIG=$(tf_config 1 "127.0.0.1:$1" "127.0.0.1:$2") timeout 30 "$qringd" "$work/job.json" --data-port 0 --epochs 5 --out "$work/e1" >"$work/e1.log" 2>&1 </dev/null & b=$!
wait $a; rc_a=$?; wait $b; rc_b=$?
for rc in $rc_a $rc_b; do check "3 and 5 epochs: exit code 0, not $rc" test "$rc" = 0; done
check "the other says whose count" grep -q "epochs is 5 here and 3 in the ring" "$work/e1.log"
check "three epochs" test "$(grep -c TRAIN "$work/e0/steps.jsonl")" = 6
stop_run INT 0
stop_run TERM 143
stop_run TERM 0 --exit-on-drain=0
end
