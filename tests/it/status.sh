#!/bin/sh
# qring status of a training ring: members and speed; a killed worker is reported as absent, counted
# and named; a restarted worker is counted. No listener, another server, no answer: a message and
# the documented exit code.
. "$(dirname "$0")/common"
unset TF_CONFIG QRING_HTTP_PORT
sed 's/"name": "qcnn"/"name": "status"/' deploy/jobs/qcnn.json >"$work/job.json"
# shellcheck disable=SC2046
set -- $(free_ports 6); p0=$1 p1=$2 h0=$3 h1=$4 other=$5 unused=$6

start() { # INDEX HTTP-PORT: starts a worker; sets p
    (TF_CONFIG=$(tf_config "$1" "127.0.0.1:$p0" "127.0.0.1:$p1") exec "$qringd" "$work/job.json" --data-port 0 --threads 1 --epochs 1000000 --min-workers 1 \
        --out "$work/out" --checkpoint-interval 1s --http-port "$2" >>"$work/worker$1.log" 2>&1 </dev/null) & p=$!
    started="$started $p"
}
ask() { run_to "$work/output" "$qring" status "$@"; }
printed() { grep -qE -- "$1" "$work/output"; }
until_printed() { # SECONDS PORT PATTERN WHAT
    tries=$1; until ask "127.0.0.1:$2" && printed "$3"; do
        tries=$((tries - 1)); [ $tries -gt 0 ] || { fail "$4"; cat "$work/output"; return 1; }
        sleep 0.2
    done
    pass
}
key() { $python -c 'import json, sys; d = json.load(open(sys.argv[1])); exec("v = d" + sys.argv[2]); print(v)' "$work/output" "$1"; }

start 0 "$h0"; w0=$p
start 1 "$h1"; w1=$p
until_printed 60 "$h0" 'slowest     worker [01], at [0-9]+ % of worker [01]' "status names the slower worker" && {
    check "the worker's identity" printed "^worker 0 at 127.0.0.1:$h0, rank [01] of 2 in generation [0-9]+\$"
    check "the cost" printed '^cost        [0-9.e-]+ pod-hours$'
    check "both workers are members" printed '^members     worker 0 \(.* micro-batches/s\), worker 1 \(.* micro-batches/s\)$'
    check "the step and the speed" printed '^step        [0-9]+ of [0-9]+, epoch [0-9]+ of 1000000; [0-9.e+]+ steps/s, .* left$'
    check "no worker was lost" printed '^changes     0: 0 joined, 0 lost'
    cat "$work/output"
}
ask "127.0.0.1:$h1" --json; rc=$?
check "--json ends with 0, not $rc" test $rc = 0
check "--json: the step rate" test "$(key '["steps_per_second"] > 0')" = True
check "--json: two members" test "$(key '["peers"]' | grep -o "'member': True" | wc -l)" = 2
check "--json: the index" test "$(key '["metrics"]["qring_index"]')" = 1
check "--json: the step" test "$(key '["metrics"]["qring_step"] > 0')" = True

kill -9 "$w1"; wait "$w1" 2>/dev/null
until_printed 40 "$h0" '^absent      worker 1$' "a killed worker is absent" && {
    check "the remaining worker is alone" printed ', rank 0 of 1 in generation'
    check "the killed worker is counted" printed '^changes     1: 0 joined, 1 lost or left; the last pause took [0-9.]+ s$'
    check "the last error names the killed worker" printed '^last error  W group: worker 1 .*ago$'
    check "the remaining worker trains" printed '; [0-9.e+]*[1-9][0-9.e+]* steps/s'
    sed -n '/^members/,$p' "$work/output"
}
start 1 "$h1"; w1=$p
until_printed 60 "$h0" '^changes     2: 1 joined, 1 lost' "a restarted worker is counted"
until_printed 20 "$h0" '^checkpoint  step [1-9][0-9]*, .* ago; [1-9][0-9]* published here, 0 failed$' "status has the checkpoints"
kill -STOP "$w0"
ask "127.0.0.1:$h0"; rc=$?
check "a frozen worker: 138, not $rc" test $rc = 138
check "a frozen worker: the error" printed "cannot query 127.0.0.1:$h0: Timeout was reached"
kill -CONT "$w0"
kill -TERM "$w0" "$w1"; wait "$w0" "$w1" 2>/dev/null

ask "127.0.0.1:$unused"; rc=$?
check "no listener: 138, not $rc" test $rc = 138
check "no listener: the error" printed "cannot query 127.0.0.1:$unused: .*connect to server: check that the worker runs"
$python -c '
import socket, sys
s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
for reply in (b"SSH-2.0-x\r\n", b"HTTP/1.1 404 Not Found\r\n\r\nno", b"HTTP/1.1 200 OK\r\n\r\n<html>\n", b"HTTP/1.1 200 OK\r\n\r\n{\"up\":1}", b""):
    c, _ = s.accept(); c.recv(65536); c.sendall(reply); c.close()' "$other" & started="$started $!"
tries=0; until ss -ltn 2>/dev/null | grep -q ":$other " || [ $tries -gt 600 ]; do tries=$((tries + 1)); sleep 0.1; done
for why in 'the reply is not HTTP' 'answers 404' 'line 1' 'version is missing'; do
    ask "127.0.0.1:$other"; rc=$?
    check "another program: 2, not $rc" test $rc = 2
    check "another program: '$why' in the error" printed "127.0.0.1:$other is not a qring worker: .*$why"
done
ask "127.0.0.1:$other"; rc=$?
check "no answer: 138, not $rc" test $rc = 138
for bad in '' '127.0.0.1:port' '[::1' ':1'; do
    ask "$bad"; rc=$?
    check "'$bad' is not an address: 2, not $rc" test $rc = 2
done
ask; rc=$?
check "no address: 2, not $rc" test $rc = 2
end
