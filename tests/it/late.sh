#!/bin/sh
# Workers that wait for a peer form a group after the timeout. Meanwhile another worker, which
# they could not reach, has trained: they resume from its checkpoint, or end at once if it has
# finished. Digest and log are those of one undisturbed worker.
. "$(dirname "$0")/common"
epochs=3000
sed 's/"name": "qcnn"/"name": "late"/; s/"epochs": 50/"epochs": '$epochs'/' deploy/jobs/qcnn.json >"$work/job.json"
run_to "$work/alone.log" "$qringd" "$work/job.json" --out "$work/alone" || fail "one worker does not train"

start_two() { # folder, flags: workers 1 and 2, for which worker 0 has an unused address
    d=$work/$1; shift; mkdir -p "$d"
    # shellcheck disable=SC2046
    set -- $(free_ports 3) "$@"
    unused=$1 one=$2 two=$3; shift 3
    pids=
    for i in 1 2; do
        (TF_CONFIG=$(tf_config $i "127.0.0.1:$unused" "127.0.0.1:$one" "127.0.0.1:$two") exec "$qringd" "$work/job.json" --data-port 0 --out "$d/out" \
            --form-timeout 15s --min-workers 1 "$@" >"$d/worker$i.log" 2>&1 </dev/null) &
        pids="$pids $!"; started="$started $!"
    done
    tries=0
    until grep -q answered "$d/worker1.log" && grep -q answered "$d/worker2.log" || [ $tries -gt 1200 ]; do tries=$((tries + 1)); sleep 0.05; done
    check "$d: no worker trains yet" test ! -e "$d/out/steps.jsonl"
}
wait_two() { codes=; for p in $pids; do wait "$p"; codes="$codes $?"; done; check "$d: both end with 0, not$codes" test "$codes" = " 0 0"; }
lines() { if [ -f "$d/out/steps.jsonl" ]; then wc -l <"$d/out/steps.jsonl"; else echo 0; fi; }

# Worker 0 belongs to their ring but is partitioned. Here it has no peers, and --lock-fd keeps it
# from locking the folder.
start_two killed
"$qringd" "$work/job.json" --lock-fd 0 --out "$d/out" --checkpoint-interval 20ms --checkpoint-steps 5 >"$d/worker0.log" 2>&1 </dev/null & p=$!
started="$started $p"
tries=0; until [ "$(lines)" -gt 200 ] && [ -e "$d/out/checkpoints/LATEST" ] || [ $tries -gt 6000 ]; do tries=$((tries + 1)); sleep 0.01; done
kill -9 $p; wait $p 2>/dev/null
check "worker 0 has trained for a while" test "$(lines)" -gt 200 -a "$(lines)" -lt $((3 * epochs))
wait_two
check "workers 1 and 2 resume from the checkpoint of worker 0" grep -q 'resumed from step [1-9][0-9]* (other workers have trained further since this one started)' "$d/worker1.log"
check "the digest" test "$(json_string "$d/out/result.json" state_digest)" = "$(json_string "$work/alone/result.json" state_digest)"
check "each step once in steps.jsonl" cmp -s "$d/out/steps.jsonl" "$work/alone/steps.jsonl"

start_two ended --epochs 100
check "worker 0 trains to the end" run_to "$d/worker0.log" "$qringd" "$work/job.json" --lock-fd 0 --epochs 100 --out "$d/out"
cp "$d/out/result.json" "$d/before.json"
check "workers 1 and 2 have not begun meanwhile" test "$(lines)" = 300
began=$(now_ms)
wait_two
bound "workers 1 and 2 find the finished run after the form timeout" $(($(now_ms) - began)) 20000
check "the leader logs that the job is trained" grep -q 'already trained: 200 steps, 100 epochs' "$d/worker1.log"
check "the other worker ends with the leader" grep -q 'the others have ended the run, and all outputs are written' "$d/worker2.log"
check "result.json is not written again" cmp -s "$d/out/result.json" "$d/before.json"

# Workers 0 and 2 cannot reach each other, so worker 0 trains with worker 1. Worker 2 ends when they
# end, before its form timeout.
d=$work/aside; mkdir -p "$d"
# shellcheck disable=SC2046
set -- $(free_ports 4)
pids=
for i in 0 1 2; do
    zero=$1 two=$3 form=4s
    case $i in 0) two=$4 ;; 2) zero=$4 form=100s ;; esac # an unused port
    (TF_CONFIG=$(tf_config $i "127.0.0.1:$zero" "127.0.0.1:$2" "127.0.0.1:$two") exec "$qringd" "$work/job.json" --data-port 0 --out "$d/out" --epochs 2000 \
        --form-timeout $form --min-workers 2 >"$d/worker$i.log" 2>&1 </dev/null) &
    pids="$pids $!"; started="$started $!"
done
codes=; began=$(now_ms)
for p in $pids; do wait "$p"; codes="$codes $?"; done
check "the excluded worker ends with the others: 0 0 0, not$codes" test "$codes" = " 0 0 0"
bound "the excluded worker ends with the others, before its form timeout" $(($(now_ms) - began)) 40000 95000
check "the excluded worker logs the reason: $(tail -n 1 "$d/worker2.log")" grep -q "the run ended before this worker joined; but training has ended, and all outputs are written" "$d/worker2.log"
end
