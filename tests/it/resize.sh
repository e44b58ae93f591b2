#!/bin/sh
# A pod that is resized while its worker computes: threads follow the CPU limit, and the share of it
# that other processes leave, without a restart and without a changed bit; a memory limit below the
# need ends the worker with both numbers. With fake cgroup files in a mount namespace; then with the
# kernel's quota and its throttled time.
. "$(dirname "$0")/common"

[ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null ||
    { skip "resize: cannot create a mount namespace"; end; }
[ "$(nproc)" -ge 2 ] || { skip "resize: one CPU, so threads cannot change"; end; }
cat >"$work/inside" <<'END'
#!/bin/sh
tree=$1; shift
mount --bind "$tree" /sys/fs/cgroup || exit 99
exec "$@"
END
chmod +x "$work/inside"
$python - "$work/shared.json" <<'P'
import json, sys
n = 18  # large enough that threads share a state vector
gates = []
for layer in range(8):
    gates += [{"gate": "RY", "qubits": [q], "angle": {"parameter": f"y{layer}_{q}"}} for q in range(n)]
    gates += [{"gate": "CZ", "qubits": [q, (q + 1 + 3 * layer) % n]} for q in range(n)]
readout = {"hamiltonian": [[f"X{q}", 1.0] for q in range(n)]}
json.dump({"name": "shared", "seed": 3, "model": [{"layer": "quantum", "circuit": {"qubits": n, "gates": gates}, "readouts": [readout]}],
           "data": {"source": "none"}, "train": {"epochs": 1, "loss": "expectation"}}, open(sys.argv[1], "w"))
P
run_to "$work/plan" "$qring" show "$work/shared.json"
check "threads share a state vector: $(grep threads "$work/plan")" holds "$work/plan" "all threads share"

# started_worker NAME JOB FLAGS: starts a worker with the cgroup files in NAME.cgroup; r is its
# process
started_worker() {
    name=$1 job=$2; shift 2
    : >"$work/$name.log"
    setsid nice unshare -m "$work/inside" "$work/$name.cgroup" "$qringd" "$job" --epochs 1000000 --out "$work/$name" --checkpoint-interval 100ms --log-format json "$@" \
        >"$work/$name.log" 2>&1 </dev/null & r=$!; started="$started $r"
}
# resize NAME LIMIT [FILE]: writes the limit to the fake cgroup file [cpu.max]
resize() { mkdir -p "$work/$1.cgroup"; echo "$2" >"$work/$1.cgroup/${3:-cpu.max}"; }
# wait_for_log NAME WORDS [N]: waits until N lines of the log have the words; took is the time in ms
wait_for_log() {
    began=$(now_ms) tries=0
    while [ "$(grep -cF -- "$2" "$work/$1.log")" -lt "${3:-1}" ] && kill -0 "$r" 2>/dev/null && [ $tries -lt 600 ]; do tries=$((tries + 1)); sleep 0.05; done
    took=$(($(now_ms) - began))
    check "$1: $2 (${3:-1} times): $(tail -n 2 "$work/$1.log")" test "$(grep -cF -- "$2" "$work/$1.log")" -ge "${3:-1}"
}
lines() { if [ -f "$1" ]; then wc -l <"$1"; else echo 0; fi; }
until_steps() { # NAME: waits for five more steps
    before=$(lines "$work/$1/steps.jsonl") tries=0
    while [ "$(lines "$work/$1/steps.jsonl")" -lt $((before + 5)) ] && kill -0 "$r" 2>/dev/null && [ $tries -lt 600 ]; do tries=$((tries + 1)); sleep 0.05; done
}
# finish NAME JOB FLAGS: SIGTERM; resumes to the end of the epoch, and compares with an undisturbed
# run
finish() {
    name=$1 job=$2; shift 2
    kill -TERM "$r"; wait "$r"; check "$name: the worker ends on SIGTERM" test $? = 143
    steps=$(sed -n 's/.*"message":"step \([0-9]*\) of [0-9]*: drained.*/\1/p' "$work/$name.log" | tail -n 1)
    each=$(grep -c '"epoch":1,"kind":"TRAIN"' "$work/$name/steps.jsonl")
    epochs=$((${steps:-0} / (each > 0 ? each : 1) + 1))
    check "$name: the run resumes" run_to "$work/$name.rest" "$qringd" "$job" --epochs $epochs --out "$work/$name" --threads 1 "$@"
    check "$name: undisturbed, $epochs epochs" run_to "$work/$name.one" "$qringd" "$job" --epochs $epochs --out "$work/$name.ref" --threads 1 --checkpoints none "$@"
    one=$(json_string "$work/$name.ref/result.json" state_digest)
    check "$name: digest of an undisturbed run ($one)" test "$(json_string "$work/$name/result.json" state_digest)" = "$one"
    check "$name: each step once" cmp "$work/$name/steps.jsonl" "$work/$name.ref/steps.jsonl"
}

for job in deploy/jobs/qcnn.json "$work/shared.json"; do
    name=$(basename "$job" .json)
    resize "$name" "50000 100000"
    started_worker "$name" "$job"
    wait_for_log "$name" "limits: 1 thread (cgroup v2, cpu.max)"
    until_steps "$name"
    for k in 1 2; do
        resize "$name" "200000 100000"
        wait_for_log "$name" "changed threads from 1 to 2: CPU limit is 2" $k
        bound "$name: one more thread after" "$took" 2000
        until_steps "$name"
        resize "$name" "50000 100000"
        wait_for_log "$name" "changed threads from 2 to 1: CPU limit is 0.5" $k
        bound "$name: one fewer thread after" "$took" 2000
        until_steps "$name"
    done
    finish "$name" "$job"
done

# A throttled worker that uses one of two CPUs, as if other processes used the rest of the quota: a
# step has one micro-batch, so one thread computes.
stat() { echo "nr_periods $1
nr_throttled $2
throttled_usec $3"; }
resize share "200000 100000"
stat 0 0 0 >"$work/share.cgroup/cpu.stat"
started_worker share deploy/jobs/qcnn.json --set train.batch_size=16 --set train.evaluate=false
wait_for_log share "limits: 2 threads"
until_steps share
(k=0; while kill -0 "$r" 2>/dev/null && [ $k -lt 300 ]; do k=$((k + 1)); stat $k $k $((k * 60000)) >"$work/stat"; mv "$work/stat" "$work/share.cgroup/cpu.stat"; sleep 0.1; done) & s=$!; started="$started $s"
wait_for_log share "changed threads from 2 to 1: CPU share is"
bound "a throttled share: fewer threads after" "$took" 2000
finish share deploy/jobs/qcnn.json --set train.batch_size=16 --set train.evaluate=false
kill $s 2>/dev/null; wait $s 2>/dev/null

# A number of threads that the user has set is kept.
resize set "200000 100000"
started_worker set deploy/jobs/qcnn.json --threads 2
wait_for_log set "limits: 2 threads (as set)"
resize set "50000 100000"
sleep 2
until_steps set
check "--threads: $(grep "changed threads" "$work/set.log")" [ "$(grep -c "changed threads" "$work/set.log")" = 0 ]
# A memory limit below the need: the worker ends with a retryable code, and no step is lost.
resize set 8388608 memory.max
wait "$r"; rc=$?
check "too little memory: 138, not $rc" test $rc = 138
check "the error has both numbers: $(tail -n 1 "$work/set.log")" grep -qE 'cannot continue: job qcnn needs [0-9]{8} bytes with 2 threads, and the memory limit is now 8388608 bytes \(cgroup v2, memory.max\)' "$work/set.log"
steps=$(grep -c '"kind":"TRAIN"' "$work/set/steps.jsonl")
run_to "$work/set.rest" "$qringd" deploy/jobs/qcnn.json --epochs $((steps / 2 + 1)) --out "$work/set" --log-format json
resumed=$(sed -n 's/.*"message":"resuming from step \([0-9]*\),.*/\1/p' "$work/set.rest")
check "the run resumes after its last step, $steps, not ${resumed:-from the start}" test "${resumed:-0}" -ge $((steps - 1))
run_to "$work/set.one" "$qringd" deploy/jobs/qcnn.json --epochs $((steps / 2 + 1)) --out "$work/set.ref" --checkpoints none
check "no step is lost" cmp "$work/set/steps.jsonl" "$work/set.ref/steps.jsonl"

# The kernel's quota: with half a CPU, two threads are throttled longer than one.
v1=/sys/fs/cgroup/cpu group=qring-$$
if ! mkdir "$v1/$group" 2>/dev/null || ! echo 200000 >"$v1/$group/cpu.cfs_quota_us" 2>/dev/null; then
    rmdir "$v1/$group" 2>/dev/null
    skip "the kernel's cgroup v1 has no CPU quota, or is read-only"; end
fi
in_group() { exec sh -c 'echo $$ >"$1/tasks" && shift && exec "$@"' sh "$v1/$group" "$@"; }
port=$(free_ports 1)
metric() { $python -c 'import sys, urllib.request
for line in urllib.request.urlopen("http://127.0.0.1:%s/metrics" % sys.argv[1]).read().decode().split("\n"):
    if line.startswith(sys.argv[2] + " "): print(line.split()[1])' "$port" "$1"; }
# over SECONDS WHAT: prints steps and throttled seconds per second
over() {
    steps=$(metric qring_steps_total) throttled=$(metric qring_throttled_seconds_total)
    sleep "$1"
    echo "$2: $(metric qring_threads) threads, $(awk -v a="$steps" -v b="$(metric qring_steps_total)" -v s="$1" 'BEGIN { printf "%.0f", (b - a) / s }') steps/s, throttled $(awk -v a="$throttled" -v b="$(metric qring_throttled_seconds_total)" -v s="$1" 'BEGIN { printf "%.2f", (b - a) / s }') s/s"
}
name=quota
in_group "$qringd" deploy/jobs/qcnn.json --epochs 1000000 --out "$work/quota" --checkpoints none --log-format json --http-port "$port" >"$work/quota.log" 2>&1 </dev/null & r=$!
started="$started $r"
wait_for_log quota "limits: 2 threads"
until_steps quota
over 2 "limit of 2 CPUs"
echo 50000 >"$v1/$group/cpu.cfs_quota_us"
over 1 "limit of 0.5 CPUs, at once"
wait_for_log quota "changed threads from 2 to 1: CPU limit is 0.5"
over 2 "limit of 0.5 CPUs"
echo 200000 >"$v1/$group/cpu.cfs_quota_us"
wait_for_log quota "changed threads from 1 to 2: CPU limit is 2"
bound "the kernel's quota: all CPUs used after" "$took" 2000
over 2 "limit of 2 CPUs again"
kill -TERM "$r"; wait "$r"; check "quota: the worker ends on SIGTERM" test $? = 143
tries=0; until rmdir "$v1/$group" 2>/dev/null || [ $tries -gt 100 ]; do tries=$((tries + 1)); sleep 0.05; done
end
