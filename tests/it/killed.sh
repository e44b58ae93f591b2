#!/bin/sh
# Memory used by other programs: a job that needs more than is available is rejected before the
# first step, with the numbers, by qring run for all its workers and by each worker, with a code
# for retries (138). A worker that the kernel killed for lack of memory is reported as such; one
# killed by a signal is not. /proc/meminfo and /proc/vmstat are test files in a mount namespace;
# then once for real, where a cgroup can be created.
. "$(dirname "$0")/common"
# shellcheck disable=SC2086,SC2059
unset TF_CONFIG QRING_HTTP_PORT
sed 's/"name": "qcnn"/"name": "killed"/' deploy/jobs/qcnn.json >"$work/job.json"
unshare=; for how in "unshare -m" "unshare -U -r -m"; do
    if [ -z "$unshare" ] && $how mount --bind "$work/job.json" /proc/vmstat 2>/dev/null; then unshare=$how; fi
done
[ -n "$unshare" ] || { skip "no mount namespace"; end; }
printf 'mount --bind "$1" "$2" && shift 2 && exec "$@"\n' >"$work/inside"
with="$unshare sh $work/inside"
free() { sed "s/^MemAvailable: .*/MemAvailable: $1 kB/; s/^SwapFree: .*/SwapFree: 0 kB/" /proc/meminfo >"$work/meminfo"; }

case $QR_B in */release)
    free 4000
    run_to "$work/output" $with "$work/meminfo" /proc/meminfo "$qringd" "$work/job.json" --out "$work/none"; code=$?
    check "a worker: 138, not $code" test "$code" = 138
    check "the error has the numbers of bytes: $(tail -n 1 "$work/output")" grep -qE 'job killed needs [0-9]{8,} bytes .* this process may use [0-9]+ bytes \(.*\), of which [0-9]+ are available now' "$work/output"
    check "the worker ends before the first step" test ! -e "$work/none/steps.jsonl"
    free 60000
    run_to "$work/output" $with "$work/meminfo" /proc/meminfo "$qring" run "$work/job.json" --epochs 1 --out "$work/one"
    check "memory for one worker: $(tail -n 1 "$work/output")" test $? = 0
    run_to "$work/output" $with "$work/meminfo" /proc/meminfo "$qring" run "$work/job.json" --epochs 1 -n 64 --threads 1 --out "$work/many"; code=$?
    check "no memory for 64 workers: 138, not $code" test "$code" = 138
    check "the error for 64 workers: $(tail -n 1 "$work/output")" grep -qE '64 workers need more than the [0-9]+ bytes that are available now \(each [0-9]+,' "$work/output"
    check "no output for 64 workers" test ! -e "$work/many"
    run_to "$work/output" $with "$work/meminfo" /proc/meminfo "$qring" validate "$work/job.json" --json
    check "qring validate prints the available memory" $python -c 'import json, sys
v = json.load(open(sys.argv[1])); sys.exit(not (60000 << 10 <= v["memory_available_bytes"] < v["memory_limit_bytes"]))' "$work/output" ;;
*) skip "memory that is not available: sanitizers change the memory use" ;;
esac

# ---- killed ----
kill_one() { # NAME KILLS: kills one of two workers and sets the kernel's counter of out-of-memory kills to KILLS
    name=$1 kills=$2
    sed 's/^oom_kill .*/oom_kill 3/' /proc/vmstat >"$work/vmstat"
    grep -q '^oom_kill' "$work/vmstat" || echo 'oom_kill 3' >>"$work/vmstat"
    $with "$work/vmstat" /proc/vmstat "$qring" run "$work/job.json" -n 2 --threads 1 --epochs 1000000 --plaintext --checkpoints none --out "$work/$name" \
        >"$work/$name.log" 2>&1 </dev/null & r=$!
    started="$started $r"
    tries=0; until [ -s "$work/$name/steps.jsonl" ]; do tries=$((tries + 1)); [ $tries -lt 600 ] || break; sleep 0.1; done
    sed "s/^oom_kill .*/oom_kill $kills/" "$work/vmstat" >"$work/vmstat.new"
    cat "$work/vmstat.new" >"$work/vmstat"
    kill -9 "$(pgrep -P "$r" | tail -n 1)" || fail "no worker"
    tries=0; until grep -q 'worker [01]: ' "$work/$name.log"; do tries=$((tries + 1)); [ $tries -lt 600 ] || break; sleep 0.1; done
    kill -TERM "$r"; wait "$r"
}
kill_one signal 3
check "killed by a signal: $(grep worker "$work/signal.log")" grep -qE 'W qring: worker [01]: was terminated by signal 9 \(Killed\); 1 remains' "$work/signal.log"
kill_one kernel 4
check "killed by the kernel: $(grep worker "$work/kernel.log")" \
    grep -qE 'W qring: worker [01]: was killed \(signal 9\), most likely because the kernel ran out of memory: .* a smaller job; 1 remains' "$work/kernel.log"

# ---- killed by the kernel ----
group=
for c in /sys/fs/cgroup/memory /sys/fs/cgroup; do
    [ -z "$group" ] && mkdir "$c/qring-killed-$$" 2>/dev/null && group=$c/qring-killed-$$
done
limit_file=memory.max; [ -e "$group/memory.limit_in_bytes" ] && limit_file=memory.limit_in_bytes
ended=
if [ -n "$group" ] && grep -q '^oom_kill' /proc/vmstat; then
    [ -e "$group/memory.swap.max" ] && echo 0 >"$group/memory.swap.max"
    # lower the limit until the worker, the larger process, does not fit and qring still does
    for mib in 14 13 12 11 10 9 8 7; do
        echo $((mib << 20)) >"$group/$limit_file" 2>/dev/null || break
        before=$(sed -n 's/^oom_kill //p' /proc/vmstat)
        run_to "$work/real.log" sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' - "$group" \
            "$qring" run "$work/job.json" -n 1 --threads 1 --epochs 20 --checkpoints none --out "$work/real" --fresh; code=$?
        [ "$(sed -n 's/^oom_kill //p' /proc/vmstat)" = "$before" ] && continue
        grep -q 'worker 0: ' "$work/real.log" && ended=yes
        break
    done
fi
if [ -n "$ended" ]; then
    echo "with $mib MiB: $(tail -n 1 "$work/real.log")"
    check "a worker killed by the kernel: $code" sh -c '[ "$1" = 138 ] && grep -q "kernel ended a process\|killed by the kernel" "$2"' - "$code" "$work/real.log"
else skip "no out-of-memory kill: no cgroup can be created, or the kernel does not count kills"; fi
[ -n "$group" ] && rmdir "$group" 2>/dev/null
end
