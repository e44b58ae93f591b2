#!/bin/sh
# A rolling update of a ring: workers of this protocol version and of the next one, whose messages
# have unknown fields, train together and are replaced, the leader last, then rolled back; the
# digest is that of an undisturbed run. A worker of a version with other arithmetic, or without a
# common protocol, is rejected by name, and the ring continues.
. "$(dirname "$0")/common"
versions=$root/$QR_B/tests/upgrade
for v in next later bits; do
    [ -x "$versions/$v" ] || { fail "no worker of another version: make $QR_B/tests/upgrade/$v"; end; }
done
ports=$(free_ports 3)
# shellcheck disable=SC2086
peers() { for port in $ports; do printf '127.0.0.1:%s ' "$port"; done; }
# worker INDEX PROGRAM FLAGS: starts a worker; p$INDEX is its process
worker() {
    i=$1 program=$2; shift 2
    : >>"$work/worker$i.log" # wait_for_log() may read it before the worker writes
    # shellcheck disable=SC2046
    TF_CONFIG=$(tf_config "$i" $(peers)) "$program" deploy/jobs/qcnn.json --out "$work/out$i" --data-port 0 --threads 1 --min-workers 1 --checkpoints "$work/checkpoints" \
        --checkpoint-interval 50ms --checkpoint-steps 5 --log-format json "$@" >>"$work/worker$i.log" 2>&1 </dev/null &
    eval "p$i=$!"; started="$started $!"
}
# wait_for_log INDEX WORDS N: waits until N lines of the worker's log have the words
wait_for_log() {
    tries=0
    while [ "$(grep -cE -- "$2" "$work/worker$1.log")" -lt "$3" ] && [ $tries -lt 600 ]; do tries=$((tries + 1)); sleep 0.05; done
    check "worker $1: $2 ($3 times): $(grep -v '"train"' "$work/worker$1.log" | tail -n 2)" test "$(grep -cE -- "$2" "$work/worker$1.log")" -ge "$3"
}
stop() { # INDEX: ends the worker with SIGTERM
    eval "p=\$p$1"
    # shellcheck disable=SC2154
    kill -TERM "$p"; wait "$p"; check "worker $1 ends on SIGTERM" test $? = 143
}
count_regroups() { grep -cE 'with 3 workers' "$work/worker$1.log"; }

for i in 0 1 2; do worker $i "$qringd" --epochs 1000000; done
for i in 0 1 2; do wait_for_log $i 'all-reduce: .* over 3 workers' 1; done
# Update all workers, the leader last; then roll the leader back.
for change in "2 next" "1 next" "0 next" "0 this"; do
    i=${change% *} program=$versions/next observer=$(((i + 1) % 3))
    [ "${change#* }" = next ] || program=$qringd
    before=$(count_regroups $observer)
    stop "$i"
    worker "$i" "$program" --epochs 1000000
    wait_for_log $observer 'with 3 workers' $((before + 1))
    echo "worker $i: ${change#* } version"
done
check "none was rejected: $(grep -h "other settings" "$work"/worker?.log | head -n 1)" test -z "$(grep -h "other settings" "$work"/worker?.log)"

# Worker 1 is replaced by a version with other arithmetic, then by one without a common protocol.
stop 1
for other in "bits contract is f32-v1 there and f32-v2 here" "later protocol is 6-6 there and 7-8 here"; do
    words=${other#* }
    : >"$work/worker1.log"
    worker 1 "$versions/${other%% *}" --epochs 1000000 --checkpoints none --out "$work/other"
    tries=0; while kill -0 "$p1" 2>/dev/null && [ $tries -lt 600 ]; do tries=$((tries + 1)); sleep 0.05; done
    kill -9 "$p1" 2>/dev/null
    wait "$p1"; rc=$?
    check "${other%% *}: exit code 3, not $rc" test $rc = 3
    check "${other%% *}: $words: $(tail -n 1 "$work/worker1.log")" holds "$work/worker1.log" "$words"
done
check "worker 0 logs the other arithmetic" holds "$work/worker0.log" "contract is f32-v2 there and f32-v1 here"
before=$(wc -l <"$work/worker0.log") tries=0
while [ "$(wc -l <"$work/worker0.log")" -lt $((before + 20)) ] && [ $tries -lt 600 ]; do tries=$((tries + 1)); sleep 0.05; done
check "the ring continues" test "$(wc -l <"$work/worker0.log")" -ge $((before + 20))

# Train to the end of an epoch with both versions; compare with an undisturbed run.
stop 2
stop 0
steps=$(sed -n 's/.*"message":"step \([0-9]*\) of [0-9]*: drained.*/\1/p' "$work/worker0.log" | tail -n 1)
epochs=$((${steps:-0} / 2 + 1))
worker 0 "$versions/next" --epochs $epochs
worker 2 "$qringd" --epochs $epochs
worker 1 "$qringd" --epochs $epochs
for i in 0 1 2; do eval "p=\$p$i"; wait "$p"; check "worker $i: done: $(tail -n 1 "$work/worker$i.log")" test $? = 0; done
check "an undisturbed run of $epochs epochs" run_to "$work/ref.log" "$qringd" deploy/jobs/qcnn.json --epochs $epochs --out "$work/ref" --checkpoints none
one=$(json_string "$work/ref/result.json" state_digest)
check "digest of an undisturbed run: $one" test "$(json_string "$work/out0/result.json" state_digest)" = "$one"
end
