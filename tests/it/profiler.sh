#!/bin/sh
# The profiler of real workers: steps selected by the job, and captures while two workers train,
# with a client of this test. Same bits with and without; recorded spans are correct; a port in use,
# and garbage at the port.
. "$(dirname "$0")/common"
unset TF_CONFIG
client() { timeout 600 $python tests/it/profile_client.py "$@"; }
sed 's/"name": "qcnn"/"name": "profiler", "profile": {"steps": [5, 12]}/' deploy/jobs/qcnn.json >"$work/job.json"
sed 's/"name": "qcnn"/"name": "profiler"/' deploy/jobs/qcnn.json >"$work/plain.json"
run() { # NAME FLAGS...
    name=$1; shift
    run_to "$work/$name.log" "$qring" run "$@" --fresh --out "$work/$name"
}

# ---- steps of the job, of two workers ----
check "a run whose steps are recorded" run steps "$work/job.json" -n 2 --threads 2
check "a run without the profiler" run plain "$work/plain.json" -n 1
for key in state_digest job_hash sha256 safetensors_sha256; do
    check "the profiler changes no $key" test "$(json_string "$work/steps/result.json" $key)" = "$(json_string "$work/plain/result.json" $key)"
done
n=$(find "$work/steps/logs/plugins/profile/steps_5_12" -name '*.xplane.pb' | wc -l)
check "two profiles, one of each worker, not $n" test "$n" = 2
for f in "$work"/steps/logs/plugins/profile/steps_5_12/*.xplane.pb; do
    client spans "$f" >"$work/spans"
    cat "$work/spans" >>"$work/both"
    check "8 steps of the training thread: $(grep train "$work/spans" | tr '\n\t' '; ')" grep -q "^training	train	8	" "$work/spans"
    for name in reduce:AllReduce update:Optimizer prepare report test; do
        check "span $name" grep -q "	$name	" "$work/spans"
    done
    check "the parts of a step take no longer than the step" awk -F'\t' '$1 == "training" { t[$2] = $4 }
        END { exit !(t["compute"] + t["reduce:AllReduce"] + t["update:Optimizer"] <= t["train"] + t["test"]) }' "$work/spans"
done
# A worker with little CPU time in the first steps may compute no micro-batch in these.
for name in compute micro-batch forward/quantum_0:Quantum_streaming backward/quantum_0:Quantum_streaming gradient/dense_1:Dense loss:Loss; do
    check "span $name of one of the workers" grep -q "	$name	" "$work/both"
done
check "a worker waits for the other" grep -q '	wait for worker [01]	' "$work/both"
check "a run without --logdir" run nowhere "$work/job.json" -n 1 --logdir ''
check "a run without --logdir logs that no steps are recorded" holds "$work/nowhere/worker-0.log" 'profile.steps: not recorded, since no folder for TensorBoard is set'

# ---- at the port, while two workers train ----
port=0 next=0
for try in 1 2 3 4 5 6 7 8; do
    [ $next = $((port + 1)) ] || read -r port next <<P
$(free_ports 2)
P
done
check "two consecutive ports: $port $next, after $try tries" test $next = $((port + 1))
"$qring" run "$work/plain.json" -n 2 --epochs 1000000 --fresh --out "$work/long" --profiler-port "$port" >"$work/long.log" 2>&1 </dev/null &
pid=$!; started="$started $pid"
within=0
until client monitor "$port" 10 2>/dev/null | grep -q 'steps/s' || [ $within -ge 600 ]; do sleep 0.1; within=$((within + 1)); done
client capture "$port" 400 "$work/one.pb" & one=$!
client capture $((port + 1)) 400 "$work/two.pb" & two=$!
wait $one; check "worker 0 is captured" test $? = 0
wait $two; check "worker 1 is captured at the same time" test $? = 0
for f in one two; do
    client spans "$work/$f.pb" >"$work/$f.spans"
    check "steps of $f" grep -Eq '^training	train	[0-9]{2,}	' "$work/$f.spans"
done
check "worker 0 waits for worker 1" grep -q 'wait for worker 1' "$work/one.spans"
check "worker 1 waits for worker 0" grep -q 'wait for worker 0' "$work/two.spans"
check "400 ms were recorded" awk -F'\t' '$2 ~ /^(train|test)$/ { t += $4 } END { exit !(t > 100000 && t < 450000) }' "$work/one.spans"
client monitor "$port" 200 >"$work/monitor"
check "the monitor has the training speed: $(cat "$work/monitor")" grep -Eq '^[1-9][0-9.e+]* steps/s' "$work/monitor"
check "garbage gets no answer" client garbage "$port"
check "a capture after garbage" client capture "$port" 1000 "$work/three.pb"
wrong=$work/wrong.log
timeout 600 "$qringd" "$work/plain.json" --out "$work/taken" --profiler-port "$port" >"$wrong" 2>&1 </dev/null
check "a port in use is named: $(tail -n 1 "$wrong")" holds "$wrong" '--profiler-port: cannot listen on 127.0.0.1'

# ---- the address of a worker with remote peers: loopback, unless --profiler-bind is set ----
listens() { # PORT ADDRESS FLAGS...: in /proc/net, the address in hexadecimal
    at=$(printf '%s:%04X' "$2" "$1") free=$1
    shift 2
    "$qringd" "$work/plain.json" --out "$work/address" --plaintext --index 0 --peers 192.0.2.1:2222,192.0.2.2:2222 --bind 127.0.0.1 --port 0 --data-port 0 \
        --http-port 0 --profiler-port "$free" "$@" >"$work/address.log" 2>&1 </dev/null &
    address=$!; started="$started $address"
    within=0
    until grep -q 'profiler on port' "$work/address.log" || [ $within -ge 1200 ]; do sleep 0.1; within=$((within + 1)); done
    within=0 # a read of these tables may miss a socket while others open and close
    until grep -Eq " (0{16}FFFF0000|0{24})?$at 0*:0000 0A" /proc/net/tcp /proc/net/tcp6 || [ $within -ge 100 ]; do sleep 0.1; within=$((within + 1)); done
    test $within -lt 100; found=$?
    kill -TERM $address; wait $address
    return $found
}
check "the profiler listens on loopback" listens "$(free_ports 1)" 0100007F
check "the profiler listens on the given address" listens "$(free_ports 1)" 0200007F --profiler-bind 127.0.0.2
check "the profiler listens on all addresses" listens "$(free_ports 1)" 00000000 --profiler-bind 0.0.0.0

kill -TERM $pid; wait $pid
check "qring run ends on SIGTERM" test $? -lt 200
check "no error in the logs" test -z "$(grep -E '^E ' "$work"/long/worker-*.log)"
end
