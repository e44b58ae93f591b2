#!/bin/sh
# A parameter server with workers, as processes: it leads, computes nothing and keeps every step
# when all workers are killed at once, repeatedly; without it the workers continue. Digest,
# weights and steps.jsonl are those of one worker. By TF_CONFIG and by flags.
. "$(dirname "$0")/common"
unset TF_CONFIG QRING_HTTP_PORT
sed 's/"name": "qcnn"/"name": "roles"/' deploy/jobs/qcnn.json >"$work/job.json"
epochs=800
run_to "$work/alone.log" "$qringd" "$work/job.json" --epochs $epochs --http-port 0 --out "$work/alone" || fail "one worker does not train"
digest=$(json_string "$work/alone/result.json" state_digest)
# shellcheck disable=SC2046
set -- $(free_ports 4); ps=127.0.0.1:$1 w0=127.0.0.1:$2 w1=127.0.0.1:$3 http=$4

config() { printf '{"cluster":{"worker":["%s","%s"],"ps":["%s"]},"task":{"type":"%s","index":%s}}' "$w0" "$w1" "$ps" "$1" "$2"; }
start() { # TYPE INDEX FLAGS...: starts a process; sets p
    type=$1 i=$2; shift 2
    (TF_CONFIG=$(config "$type" "$i") exec "$qringd" "$work/job.json" --data-port 0 --threads 1 --epochs $epochs --http-port 0 --out "$out" "$@" \
        >>"$out.$type$i.log" 2>&1 </dev/null) & p=$!
    started="$started $p"
}
steps() { n=0; [ ! -e "$out/steps.jsonl" ] || n=$(wc -l <"$out/steps.jsonl"); }
until_steps() { # LINES: waits until steps.jsonl has as many
    tries=0; until steps; [ "$n" -ge "$1" ] || [ $tries -gt 3000 ]; do tries=$((tries + 1)); sleep 0.02; done
}
same() { # WHAT: digest, steps and weights are those of one worker
    check "$1: the digest" test "$(json_string "$out/result.json" state_digest)" = "$digest"
    check "$1: each step once" cmp -s "$out/steps.jsonl" "$work/alone/steps.jsonl"
    check "$1: the weights" cmp -s "$out/weights.safetensors" "$work/alone/weights.safetensors"
}

# All workers are killed at once, repeatedly.
out=$work/again; mkdir -p "$out"
start ps 0 --http-port "$http"; server=$p
start worker 0; a=$p; start worker 1; b=$p
for round in 1 2 3 4; do
    until_steps $((round * 300)); before=$n
    kill -9 "$a" "$b"; wait "$a" "$b" 2>/dev/null
    sleep 0.5; steps; held=$n
    check "kill $round: no training without workers, after $before lines $held" test $((held - before)) -lt 300
    [ $round != 2 ] || {
        run_to "$work/output" "$qring" status "127.0.0.1:$http"
        check "status of a parameter server: $(head -n 1 "$work/output")" grep -q "^parameter server 0 at " "$work/output"
        check "status names the members or the absent workers" grep -q '^members     parameter server 0\|^absent ' "$work/output"
    }
    start worker 0; a=$p; start worker 1; b=$p
done
wait "$server"; rc=$?; wait "$a"; rc_a=$?; wait "$b"; rc_b=$?
check "all processes end with 0, not $rc $rc_a $rc_b" test "$rc $rc_a $rc_b" = "0 0 0"
same "all workers killed four times"
check "the server waited for workers" test "$(grep -c 'too few workers left (0 of 1 needed)' "$out.ps0.log")" -ge 4
check "the server never went back to a checkpoint" test -z "$(grep -e 'went back' -e 'goes on from step' -e 'resumed from step' -e 'resuming from step' "$out.ps0.log")"
check "workers fetch the state" grep -q 'fetched the state of step' "$out.worker0.log"
check "the server is not counted as computing" grep -q 'with 2 workers (1, 2) and 1 parameter server (0)' "$out.ps0.log"
check "the server logs its role" grep -q 'this is a ps, index 0, at' "$out.ps0.log"
echo "all workers killed four times, in steps $(grep -o 'keeps the state of [0-9]* reductions' "$out.ps0.log" | grep -o '[0-9]*' | tr '\n' ' ')"

# The server is killed and not restarted: the workers continue, and write the outputs.
out=$work/lost; mkdir -p "$out"
start ps 0; server=$p; start worker 0; a=$p; start worker 1; b=$p
until_steps 300
kill -9 "$server"; wait "$server" 2>/dev/null
wait "$a"; rc_a=$?; wait "$b"; rc_b=$?
check "without the server: 0 and 0, not $rc_a $rc_b" test "$rc_a $rc_b" = "0 0"
same "the server killed"

# SIGTERM to a server without workers: its state is published, and a worker resumes from it
out=$work/stopped; mkdir -p "$out"
start ps 0; server=$p; start worker 0; a=$p; start worker 1; b=$p
until_steps 300
kill -9 "$a" "$b"; wait "$a" "$b" 2>/dev/null
sleep 0.2; kill -TERM "$server"; wait "$server"; rc=$?
check "SIGTERM to a waiting server: 143, not $rc" test $rc = 143
check "the server's state is published" test -s "$out/checkpoints/LATEST"
unset TF_CONFIG
run_to "$out.alone.log" "$qringd" "$work/job.json" --epochs $epochs --http-port 0 --out "$out" || fail "a worker alone does not resume"
check "the worker resumes from the checkpoint" grep -q 'resuming from step' "$out.alone.log"
same "from its checkpoint"

# two servers, by flags
out=$work/flags; mkdir -p "$out"
# shellcheck disable=SC2046
set -- $(free_ports 3)
member() { # LOG FLAGS...
    log=$1; shift
    ("$qringd" "$work/job.json" --data-port 0 --http-port 0 --threads 1 --epochs $epochs --out "$out" "$@" >"$out.$log.log" 2>&1 </dev/null) & p=$!
    started="$started $p"
}
member ps0 --role ps --index 0 --parameter-servers "127.0.0.1:$1,127.0.0.1:$2" --peers "127.0.0.1:$3"; a=$p
member ps1 --role ps --index 1 --parameter-servers "127.0.0.1:$1,127.0.0.1:$2" --peers "127.0.0.1:$3"; b=$p
member w0 --index 0 --parameter-servers "127.0.0.1:$1,127.0.0.1:$2" --peers "127.0.0.1:$3"
wait "$p"; rc=$?; wait "$a"; rc_a=$?; wait "$b"; rc_b=$?
check "two servers and a worker: 0, not $rc $rc_a $rc_b" test "$rc $rc_a $rc_b" = "0 0 0"
same "two servers and a worker"
check "result.json counts one worker" test "$(sed -n 's/.*"workers" *: *\([0-9]*\).*/\1/p' "$out/result.json")" = 1

# A server allocates no workspaces, such as a statevector of 20 qubits.
cat >"$work/big.json" <<'J'
{"name": "big", "seed": 1, "model": [{"layer": "quantum", "circuit": {"ansatz": "strongly-entangling", "qubits": 20, "layers": 4},
  "readouts": ["Z0 Z1 Z2 Z3 Z4 Z5 Z6 Z7 Z8 Z9 Z10 Z11 Z12 Z13 Z14 Z15 Z16 Z17 Z18 Z19"]}], "data": {"source": "none"}, "train": {"epochs": 2, "loss": "expectation"}}
J
out=$work/big; mkdir -p "$out"
for role in ps worker; do
    (TF_CONFIG=$(config $role 0 | sed "s/,\"$w1\"//") exec /usr/bin/env python3 -c '
import os, resource, subprocess, sys
rc = subprocess.call(sys.argv[2:], stdin=subprocess.DEVNULL)
open(sys.argv[1], "w").write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)); sys.exit(rc)' "$work/kib.$role" "$qringd" "$work/big.json" --data-port 0 \
        --threads 1 --http-port 0 --out "$out" >"$out.$role.log" 2>&1) & started="$started $!" pid_last=$!
    [ $role = ps ] && pid_ps=$pid_last
done
wait "$pid_last"; rc=$?; wait "$pid_ps"; rc_ps=$?
check "20 qubits: 0 and 0, not $rc $rc_ps" test "$rc $rc_ps" = "0 0"
kib_ps=$(cat "$work/kib.ps") kib_worker=$(cat "$work/kib.worker")
echo "20 qubits: a worker took $((kib_worker / 1024)) MiB, the parameter server $((kib_ps / 1024)) MiB"
check "the server is smaller by a statevector" test $((kib_worker - kib_ps)) -gt 8192
end
