#!/bin/sh
# Cost of a run: equals the integral of membership in the leader's log, through a killed worker, a
# killed and restarted leader, and restarts; in cost.json, result.json, qring status, /metrics and
# TensorBoard. --max-cost ends all workers within a step, with a checkpoint and exit code 5. A
# cost.json that cannot be written is a warning, a damaged one an error; --fresh starts from zero.
. "$(dirname "$0")/common"
unset TF_CONFIG QRING_HTTP_PORT
sed 's/"name": "qcnn"/"name": "cost"/; s/"epochs": 50/"epochs": 1000000/' deploy/jobs/qcnn.json >"$work/job.json"
# shellcheck disable=SC2046
set -- $(free_ports 6)
peers="127.0.0.1:$1 127.0.0.1:$2 127.0.0.1:$3" h1=$4
h0=$5 h2=$6
# a pod costs 1 EUR a second
start() { # INDEX FLAGS...: a worker of three, into p
    i=$1; shift
    eval "http=\$h$i"
    # shellcheck disable=SC2086
    (TF_CONFIG=$(tf_config "$i" $peers) exec "$qringd" "$work/job.json" --data-port 0 --threads 1 --min-workers 1 --out "$work/out" --http-port "$http" \
        --log-format json --price-per-pod-hour 3600 --currency EUR --checkpoint-interval 1s "$@" >>"$work/worker$i.log" 2>&1 </dev/null) & p=$!
    started="$started $p"
}
all() { rm -f "$work"/worker?.log; start 0 "$@"; w0=$p; start 1 "$@"; w1=$p; start 2 "$@"; w2=$p; }
# codes PID...: exit codes, in c; kills processes that have not ended after a minute (137)
codes() {
    (sleep 60; exec kill -9 "$@") 2>/dev/null & killer=$!
    c=; for p in "$@"; do wait "$p"; c="$c${c:+ }$?"; done
    kill "$killer" 2>/dev/null
}
seconds() { $python -c 'import json, sys; print(json.load(open(sys.argv[1]))["pod_seconds"])' "$work/out/checkpoints/cost.json"; }
is() { # NUMBER PYTHON-CONDITION on x
    $python -c 'import sys; x = float(sys.argv[1]); sys.exit(not (eval(sys.argv[2])))' "$1" "$2"
}
# integral LOG: pod-seconds from a leader's log: the number of members that it logs, from the first
# all-reduce to the end of the run
integral() {
    $python - "$@" <<'P'
import datetime, json, re, sys
total, members, since = 0.0, 0, None
for line in open(sys.argv[1]):
    r = json.loads(line)
    at = datetime.datetime.strptime(r["time"][:26], "%Y-%m-%dT%H:%M:%S.%f").timestamp()
    m = re.search(r"all-reduce: .* over (\d+) workers|with (\d+) workers? \(", r["message"])
    ends = re.search(r"--max-cost reached after step|ended after step|^done: ", r["message"])
    if m or ends:
        total += members * (at - since) if since else 0
        members, since = int(m and (m[1] or m[2]) or 0), at
print("%.3f" % total)
P
}
until_true() { # SECONDS WHAT COMMAND...
    tries=$(($1 * 10)) what=$2; shift 2
    until "$@"; do tries=$((tries - 1)); [ $tries -gt 0 ] || { fail "$what"; return 1; }; sleep 0.1; done
    pass
}
steps() { cat "$work/out/steps.jsonl" 2>/dev/null | wc -l; }
trains() { [ "$(steps)" -gt 20 ] 2>/dev/null; }
near() { # FIGURE INTEGRAL WHAT: times of log lines are some milliseconds late
    echo "$3: $1 pod-seconds, by the log $2"
    bound "$3: difference" "$($python -c "print(round(1e3 * abs($1 - $2)))")" 250 5000
}

beyond() { # POD-SECONDS MAX-COST: the run ended within a step of the limit
    check "the run did not end before --max-cost: $1 of $2" is "$1" "x >= $2"
    bound "pod-time beyond --max-cost $2" "$($python -c "print(round(1e3 * ($1 - $2)))")" 250 5000
}

all --max-cost 9
until_true 60 "the ring trains" trains
run_to "$work/status" "$qring" status "127.0.0.1:$h1"
check "qring status: $(grep '^cost' "$work/status")" grep -qE '^cost        [0-9.e-]+ pod-hours, [0-9.]+ at the set price$' "$work/status"
kill -9 "$w2"; wait "$w2" 2>/dev/null
codes "$w0" "$w1"
check "both workers end with 5, not $c" test "$c" = "5 5"
check "worker 0 logs --max-cost" holds "$work/worker0.log" '--max-cost is 9: ended after step'
check "worker 1 logs --max-cost" holds "$work/worker1.log" '--max-cost is 9: ended after step'
first=$(seconds)
beyond "$first" 9
near "$first" "$(integral "$work/worker0.log")" "a worker killed"
last=$(sed -n 's/.*ended after step \([0-9]*\),.*/\1/p' "$work/worker0.log" | head -n 1)
check "LATEST is of step $last" sh -c 'ls "$1" | grep -q -- "-0*$2-"' - "$work/out/checkpoints" "$last"
check "steps.jsonl ends with step $last" sh -c 'tail -n 1 "$1" | grep -q "\"step\":$2,"' - "$work/out/steps.jsonl" "$last"
check "no result.json is written" test ! -e "$work/out/result.json"

# The leader is killed and another continues the count; the restarted worker leads at once.
all --max-cost 25
until_true 60 "the cost so far is logged" sh -c 'grep -q "the run has cost 9.* so far" "$1"' - "$work/worker1.log"
until_true 60 "the ring resumes from the checkpoint" holds "$work/worker1.log" 'resuming from step'
until_true 60 "the ring has three workers" grep -q 'all-reduce: .* over 3 workers' "$work/worker1.log"
sleep 0.7; kill -9 "$w0"; wait "$w0" 2>/dev/null
until_true 60 "the ring continues without its leader" grep -q 'with 2 workers (1, 2)' "$work/worker1.log"
sleep 0.7; start 0 --max-cost 25; w0=$p
codes "$w0" "$w1" "$w2"
check "all workers end with 5, not $c" test "$c" = "5 5 5"
check "worker 0 has led again" grep -q 'with 3 workers (0, 1, 2)' "$work/worker1.log"
second=$(seconds)
beyond "$second" 25
near "$($python -c "print(round($second - $first, 3))")" "$(integral "$work/worker1.log")" "a leader killed"
check "each step once" sh -c '! grep -o "^{\"step\":[0-9]*,\"epoch\":[0-9]*,\"kind\":\"TRAIN\"" "$1" | sort | uniq -d | grep -q .' - "$work/out/steps.jsonl"

# A run that succeeds, on one worker; SIGTERM writes the cost.
alone() { run_to "$work/alone.log" "$qringd" "$work/job.json" --http-port 0 --threads 1 --out "$work/one" --log-format json --price-per-pod-hour 3600 "$@"; }
alone --epochs 300 --logdir "$work/one/logs"; rc=$?
check "a priced run ends with 0, not $rc" test $rc = 0
cost=$($python -c 'import json, sys; c = json.load(open(sys.argv[1]))["cost"]; assert abs(c["cost"] - c["pod_seconds"]) < 1e-6 and abs(c["pod_hours"] * 3600 - c["cost"]) < 1e-6; print(c["pod_seconds"])' "$work/one/result.json")
check "result.json: $cost" is "$cost" "0 < x < 30"
check "the log has the cost" holds "$work/alone.log" 'cost of the run: '
check "TensorBoard has the cost" sh -c 'grep -qa cost_pod_hours "$1"/train/*' - "$work/one/logs"
rm -f "$work"/one/checkpoints/LATEST "$work"/one/checkpoints/*.safetensors
alone --epochs 300 --max-cost 0.001; rc=$?
check "the cost of earlier runs counts: 5, not $rc" test $rc = 5
alone --epochs 300 --fresh; rc=$?
check "--fresh ends with 0, not $rc" test $rc = 0
check "--fresh starts the cost from zero" sh -c '! grep -q "has cost .* so far" "$1"' - "$work/alone.log"

# A folder in place of cost.json: one warning, and the run continues.
rm -rf "$work/one"; mkdir -p "$work/one/checkpoints"
(exec "$qringd" "$work/job.json" --http-port 0 --threads 1 --out "$work/one" --epochs 200000 --log-format json --price-per-pod-hour 3600 >"$work/stuck.log" 2>&1 </dev/null) & p=$!
started="$started $p"
until_true 60 "cost.json is written early" test -e "$work/one/checkpoints/cost.json"
rm -f "$work/one/checkpoints/cost.json"; mkdir "$work/one/checkpoints/cost.json"
kill -TERM "$p"; codes "$p"
check "SIGTERM: 143, not $c" test "$c" = 143
check "one warning that cost.json cannot be updated: $(grep -c 'cannot update cost.json' "$work/stuck.log")" test "$(grep -c 'cannot update cost.json' "$work/stuck.log")" = 1
rmdir "$work/one/checkpoints/cost.json"; echo '{"pod_seconds": "many"}' >"$work/one/checkpoints/cost.json"
alone --epochs 1; rc=$?
check "a damaged cost.json: 4, not $rc" test $rc = 4
check "a damaged cost.json is named" grep -q 'cannot read the cost of the run from .*checkpoints/cost.json; delete it' "$work/alone.log"
end
