#!/bin/sh
# SIGTERM in the middle of a step: the worker leaves, and the others compute its micro-batches of
# that step again. Measures how soon it exits and how long the others wait
# (row 6 of the fault table).
. "$(dirname "$0")/common"
cat >"$work/slow.json" <<'END'
{"name": "drain", "seed": 1, "micro_batch_size": 1, "model": [{"layer": "quantum", "circuit": {"ansatz": "qcnn", "qubits": 16}}],
 "data": {"source": "cluster-excitations", "rounds": 100, "train_fraction": 1},
 "train": {"epochs": 5, "batch_size": 1600, "loss": "mse", "optimizer": {"name": "adam", "learning_rate": 0.02}}}
END
sed 's/"name": "qcnn"/"name": "drain-fast"/' deploy/jobs/qcnn.json >"$work/fast.json"
# Sends SIGTERM to a process S seconds after a file has N lines, and watches how the file grows.
# Prints, in ms: time until the process exited; longest interval between lines after SIGTERM minus
# the median before; that median.
cat >"$work/terminate.py" <<'END'
import os, select, signal, statistics, sys, time
pid, path, lines, later = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
def count():
    try:
        with open(path, "rb") as f: return f.read().count(b"\n")
    except FileNotFoundError: return 0
end = time.monotonic() + 60
while count() < lines and time.monotonic() < end: time.sleep(0.002)
fd, seen, had, sent, exited = os.pidfd_open(pid), [], count(), 0, 0
begin = time.monotonic()
poll = select.poll(); poll.register(fd, select.POLLIN)
while time.monotonic() < end:
    now, n = time.monotonic(), count()
    if n != had: seen.append(now); had = n
    if not sent and now - begin >= later: sent = now; os.kill(pid, signal.SIGTERM)
    if sent and not exited and poll.poll(0): exited = time.monotonic()
    if exited and now - exited > 1 and len(seen) > 1 and seen[-1] > exited: break
    time.sleep(0.0005)
before = [b - a for a, b in zip(seen, seen[1:]) if b <= sent] or [0]
after = [b - a for a, b in zip(seen, seen[1:]) if b > sent] or [99]
usual = statistics.median(before)
print("%.0f %.0f %.0f" % tuple(1e3 * s for s in (exited - sent if exited else 99, max(max(after) - usual, 0), usual)))
END
start_three() { # folder, job, flags
    d=$work/$1 job=$2; shift 2; flags=$*; mkdir -p "$d"
    # shellcheck disable=SC2046
    set -- $(free_ports 3)
    pids=
    for i in 0 1 2; do
        # shellcheck disable=SC2086
        (TF_CONFIG=$(tf_config $i "127.0.0.1:$1" "127.0.0.1:$2" "127.0.0.1:$3") exec "$qringd" "$job" --data-port 0 --out "$d/out" --min-workers 1 \
            --threads 1 --log-level debug $flags >"$d/worker$i.log" 2>&1 </dev/null) &
        pids="$pids $!"; started="$started $!"
    done
}
wait_three() { codes=; for p in $pids; do wait "$p"; codes="$codes $?"; done; }
# no_trouble WORKER: the others log that it left, and do not warn
no_trouble() {
    for i in 0 1 2; do
        [ $i = "$1" ] && continue
        check "worker $i logs that worker $1 left" grep -q "worker $1 ([^)]*) left: it was asked to stop" "$d/worker$i.log"
        warned=$(grep '"severity":"WARNING".*worker '"$1 (" "$d/worker$i.log")
        check "worker $i does not warn that worker $1 left: $warned" test -z "$warned"
    done
}
# sum_of WORDS: the sum over the workers' logs of the number after these words
sum_of() { cat "$d"/worker?.log | sed -n "s/.*$1 \\([0-9]*\\) micro-batch.*/\\1/p" | awk '{n += $1} END {print n + 0}'; }

check "one worker, the slow job" run_to "$work/alone.log" "$qringd" "$work/slow.json" --out "$work/alone" --log-level debug
micro_batches=$(sed -n 's/.*computed \([0-9]*\) micro-batch.*/\1/p' "$work/alone.log")
check "5 steps of 1600 micro-batches are 8000, not $micro_batches" test "$micro_batches" = 8000
for leaving in 0 1; do
    start_three "slow$leaving" "$work/slow.json"
    # shellcheck disable=SC2086
    set -- $pids; shift $leaving
    # shellcheck disable=SC2046
    set -- $($python "$work/terminate.py" "$1" "$d/out/steps.jsonl" 1 0.3)
    wait_three
    want="0 0 0"; [ $leaving = 0 ] && want="143 0 0"; [ $leaving = 1 ] && want="0 143 0"
    check "worker $leaving leaves the slow job: exit codes are $want, not$codes" test "$codes" = " $want"
    check "worker $leaving leaves the slow job: the digest" test "$(json_string "$d/out/result.json" state_digest)" = "$(json_string "$work/alone/result.json" state_digest)"
    check "worker $leaving leaves the slow job: each step once in steps.jsonl" cmp -s "$d/out/steps.jsonl" "$work/alone/steps.jsonl"
    no_trouble $leaving
    bound "ROW 6: SIGTERM in a slow step, $(($(sum_of computed) - micro_batches)) micro-batches computed twice: out" "$1" 1000
done
check "one worker, the fast job" run_to "$work/fast.log" "$qringd" "$work/fast.json" --epochs 2000 --out "$work/fast"
for leaving in 2 0; do
    start_three "fast$leaving" "$work/fast.json" --epochs 2000
    # shellcheck disable=SC2086
    set -- $pids; shift $leaving
    # shellcheck disable=SC2046
    set -- $($python "$work/terminate.py" "$1" "$d/out/steps.jsonl" 20 0.5)
    wait_three
    check "worker $leaving leaves the fast job: the digest" test "$(json_string "$d/out/result.json" state_digest)" = "$(json_string "$work/fast/result.json" state_digest)"
    check "worker $leaving leaves the fast job: each step once in steps.jsonl" cmp -s "$d/out/steps.jsonl" "$work/fast/steps.jsonl"
    no_trouble $leaving
    bound "ROW 6: SIGTERM: out" "$1" 1000
    bound "ROW 6: SIGTERM: the others stall" "$2" 200
done
end
