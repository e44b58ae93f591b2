#!/bin/sh
# Four workers on loopback. kill -9 of one: the others name it and exit 138 ("please retry"). SIGTERM to one: it exits 143 itself.
# The bound of 2 s is asserted on virtual time in tests/sim; here, on a machine that may be busy, 5 s must do.
. "$(dirname "$0")/common"
sed 's/"name": "qcnn"/"name": "kill"/' deploy/jobs/qcnn.json >"$work/job.json"

start_four() { # folder: four workers that would train for hours; returns when worker 0 has finished steps
    d=$work/$1; mkdir -p "$d"
    # shellcheck disable=SC2046
    set -- $(free_ports 4)
    pids=
    for i in 0 1 2 3; do
        (TF_CONFIG=$(tf_config $i "127.0.0.1:$1" "127.0.0.1:$2" "127.0.0.1:$3" "127.0.0.1:$4") \
            exec "$qringd" "$work/job.json" --data-port 0 --epochs 1000000 --out "$d/out" >"$d/worker$i.log" 2>&1 </dev/null) &
        pids="$pids $!"
    done
    started="$started $pids"
    p2=$(echo "$pids" | awk '{print $3}')
    tries=0
    until [ -s "$d/out/steps.jsonl" ] && [ "$(wc -l <"$d/out/steps.jsonl")" -gt 20 ]; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] || { fail "$d: four workers do not train"; tail -n 5 "$d"/worker*.log; return 1; }
        sleep 0.1
    done
}
wait_all() { # exit status of each, by index, into codes; bounded
    codes= i=0
    for p in $pids; do
        tries=0
        while kill -0 "$p" 2>/dev/null && [ "$(cut -d' ' -f3 "/proc/$p/stat" 2>/dev/null)" != Z ]; do
            tries=$((tries + 1))
            [ $tries -lt 100 ] || { fail "worker $i hangs"; kill -9 "$p"; break; }
            sleep 0.1
        done
        wait "$p" 2>/dev/null; codes="$codes $?"; i=$((i + 1))
    done
}

if start_four killed; then
    killed_at=$(date +%s%N)
    kill -9 "$p2"
    wait_all
    took=$((($(date +%s%N) - killed_at) / 1000000))
    check "exit codes after kill -9 are 138 138 137 138, not$codes" test "$codes" = " 138 138 137 138"
    check "all had ended after 5000 ms; it took $took" test $took -lt 5000
    echo "kill -9: the other three had exited after $took ms"
    for i in 0 1 3; do check "worker $i names worker 2" grep -q 'worker 2' "$work/killed/worker$i.log"; done
fi
if start_four asked; then
    kill -TERM "$p2"
    wait_all
    check "exit codes after SIGTERM to worker 2 are 138 138 143 138, not$codes" test "$codes" = " 138 138 143 138"
    for i in 0 1 3; do check "worker $i names worker 2" grep -q 'worker 2' "$work/asked/worker$i.log"; done
fi
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
stop_run INT 0
stop_run TERM 143
stop_run TERM 0 --exit-on-drain=0
end
