#!/bin/sh
# Probes and metrics of real workers while they wait for peers, train and end; beside busy
# processes; with a port in use. SIGTERM: exit within 2 s with code and termination message, also
# within a long micro-batch. promtool (Debian: prometheus) reads the metrics if installed.
. "$(dirname "$0")/common"
unset TF_CONFIG QRING_HTTP_PORT
sed 's/"name": "qcnn"/"name": "http"/' deploy/jobs/qcnn.json >"$work/job.json"

# fetch PORT PATH: status code on standard output, body in $work/body; 000 without an answer within
# 30 s
fetch() {
    $python - "$1" "$2" "$work/body" <<'P'
import socket, sys
try:
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=30)
    s.sendall(f"GET {sys.argv[2]} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    text = b""
    while part := s.recv(65536): text += part
    head, _, body = text.partition(b"\r\n\r\n")
    open(sys.argv[3], "wb").write(body)
    print(head.split()[1].decode())
except OSError:
    print("000")
P
}
value() { sed -n "s/^$1 //p" "$work/body"; } # of a metric in $work/body
answers() { # PORT CODE PATH PHASE
    code=$(fetch "$1" "$3")
    check "$3 answers $2, not $code, while $4: $(head -c 200 "$work/body")" test "$code" = "$2"
}
# probes PORT...: 50 probes each, /healthz and /readyz in turn, on new connections like the
# kubelet's; prints successes and times
probes() {
    $python - "$@" <<'P'
import http.client, sys, time
took, good = [], 0
for n in range(50):
    for i, port in enumerate(sys.argv[1:]):
        began = time.monotonic()
        try:
            c = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
            c.request("GET", ("/healthz", "/readyz")[(n + i) % 2])
            status = c.getresponse().status
        except OSError: status = 0
        took.append(time.monotonic() - began)
        good += status == 200
    time.sleep(0.01)
took.sort()
print(f"{good} good of {len(took)}, median {took[len(took) // 2] * 1e3:.1f} ms, worst {took[-1] * 1e3:.0f} ms")
P
}
have_promtool=1; command -v promtool >/dev/null || { have_promtool=; skip "no promtool (apt-get install prometheus): /metrics is not checked"; }
all_three() { # PORT PHASE; leaves the metrics in $work/body
    answers "$1" 200 /healthz "$2"
    answers "$1" 200 /readyz "$2"
    answers "$1" 200 /metrics "$2"
    [ -z "$have_promtool" ] || check "promtool accepts /metrics while $2: $(cat "$work/promtool" 2>/dev/null)" sh -c "promtool check metrics <'$work/body' >'$work/promtool' 2>&1"
}
until_true() { # SECONDS WHAT COMMAND...
    tries=$(($1 * 20)) what=$2; shift 2
    until "$@"; do
        tries=$((tries - 1)); [ $tries -gt 0 ] || { fail "$what"; return 1; }
        sleep 0.05
    done
}
listens() { [ "$(fetch "$1" /readyz)" = 200 ]; }
steps_beyond() { fetch "$1" /metrics >/dev/null; [ "$(value qring_step | cut -d. -f1)" -gt "$2" ] 2>/dev/null; }
# shellcheck disable=SC2046
set -- $(free_ports 6)
p0=$1 p1=$2 h0=$3 h1=$4 h2=$5 h3=$6
start() { # worker, job, more flags
    i=$1 j=$2; shift 2
    : >"$work/last$i"
    (TF_CONFIG=$(tf_config "$i" "127.0.0.1:$p0" "127.0.0.1:$p1") exec "$qringd" "$j" --data-port 0 --out "$work/out" --termination-log "$work/last$i" "$@" \
        >"$work/worker$i.log" 2>&1 </dev/null) &
    pid=$!; started="$started $pid"
}
term_and_wait() { # PID: SIGTERM; exit code into rc, milliseconds into took
    from=$(now_ms)
    kill -TERM "$1"; wait "$1"; rc=$?
    took=$(($(now_ms) - from))
}

# forming, training, with busy processes, drained
start 0 "$work/job.json" --http-port "$h0" --epochs 1000000; w0=$pid
if until_true 60 "worker 0 does not answer" listens "$h0"; then
    all_three "$h0" "worker 0 waits for worker 1"
    check "no generation yet" test "$(value qring_generation) $(value qring_members) $(value qring_steps_total)" = "0 0 0"
    start 1 "$work/job.json" --http-port "$h1" --epochs 1000000; w1=$pid
    until_true 60 "two workers do not train" steps_beyond "$h0" 20
    all_three "$h0" "worker 0 trains"
    check "one peer, two members, generation 1 or more" test "$(value qring_peers_connected) $(value qring_members) $(($(value qring_generation) >= 1))" = "1 2 1"
    for m in qring_loss 'qring_phase_seconds_total{phase="compute"}' 'qring_phase_seconds_total{phase="reduce"}' 'qring_phase_seconds_total{phase="update"}' \
        qring_micro_batches_total qring_samples_total qring_link_sent_bytes_total qring_link_received_bytes_total 'qring_turns_total{thread="control"}' \
        'qring_store_operations_total{op="get"}' qring_uptime_seconds; do
        v=$(value "$m")
        check "$m is above 0, not '$v'" awk "BEGIN { exit !(\"$v\" + 0 > 0) }"
    done
    before=$(value qring_steps_total); sleep 0.3
    all_three "$h1" "worker 1 trains"
    check "steps advance: $before, then $(value qring_steps_total)" test "$(value qring_steps_total)" -gt "$before"
    check "qring_build_info has the version" grep -q '^qring_build_info{version="[0-9.]*",contract="f32-v1",isa="[a-z0-9]*"} 1$' "$work/body"

    planned=$(value qring_steps_planned)
    for n in 1 2; do (exec sh -c 'while :; do :; done') & started="$started $!"; busy="$busy $!"; done
    probes "$h0" "$h1" >"$work/probes"
    # shellcheck disable=SC2086
    kill -9 $busy; wait $busy 2>/dev/null
    echo "probes of two training workers with two busy processes: $(cat "$work/probes")"
    check "100 probes with two busy processes are answered with 200: $(cat "$work/probes")" grep -q '^100 good of 100' "$work/probes"
    bound "the slowest probe with two busy processes" "$(sed 's/.*worst \([0-9]*\) ms/\1/' "$work/probes")" 1000

    term_and_wait "$w0"
    check "exit code 143 after SIGTERM, not $rc" test $rc = 143
    bound "SIGTERM while training: out" $took 2000
    check "the termination message has the step: $(cat "$work/last0")" grep -qE "^step [0-9]+ of $planned: drained on SIGTERM\$" "$work/last0"
    check "the termination message has no final newline" test "$(tail -c 1 "$work/last0")" = M
    check "no answer after the exit" test "$(fetch "$h0" /readyz)" = 000
    all_three "$h1" "worker 1 trains alone"
    before=$(value qring_steps_total); sleep 0.3
    all_three "$h1" "worker 1 trains alone"
    check "the other worker continues: $before, then $(value qring_steps_total)" test "$(value qring_steps_total)" -gt "$before"
    check "the other worker is the only member" test "$(value qring_members)" = 1
    term_and_wait "$w1"
    check "the other worker ends with 143 after SIGTERM, not $rc" test $rc = 143
fi

# A whole run, polled without a pause until it exits: every answer is 200, except "not listening" at
# the end.
start 0 "$work/job.json" --http-port "$h0" --epochs 1500 --fresh; w0=$pid
until_true 60 "worker 0 does not answer" listens "$h0"
$python - "$h0" "$work/seen" >"$work/whole" <<'P' &
import http.client, sys
seen, step, bad = set(), 0, []
while True:
    try:
        for path in ("/healthz", "/readyz", "/metrics"):
            c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=2)
            c.request("GET", path)
            r = c.getresponse(); text = r.read().decode()
            if r.status != 200 and not (path == "/readyz" and text.startswith("not listening")): bad.append((path, r.status, text))
            if path == "/metrics":
                v = dict(l.rsplit(" ", 1) for l in text.splitlines() if l[0] != "#")
                step = int(v["qring_step"])
                seen.add("forming" if v["qring_generation"] == "0" else "training")
                open(sys.argv[2], "a").write(text[:1])
    except TimeoutError: bad.append("timeout"); break
    except OSError: break
    except http.client.HTTPException: break
print(*sorted(seen), "last step", step, "bad", bad)
P
sampler=$!; started="$started $sampler"
until_true 60 "the sampler gets no metrics" test -s "$work/seen"
start 1 "$work/job.json" --http-port 0 --epochs 1500 --fresh; w1=$pid
wait "$w0"; rc0=$?; wait "$w1"; rc1=$?; wait "$sampler"
check "a whole run ends with 0 0, not $rc0 $rc1" test "$rc0 $rc1" = "0 0"
check "every answer was good: $(cat "$work/whole")" grep -q '^forming training.*bad \[\]' "$work/whole"

# while the leader uploads weights to a slow bucket; then until it exits
$python - "$work/port" >/dev/null 2>"$work/fake.log" <<'P' &
import os, sys, time
sys.path.insert(0, "tests/fake")
import gcs
insert = gcs.Handler.insert
def slow(self):
    open(sys.argv[1] + ".upload", "w").close()
    time.sleep(4)
    return insert(self)
gcs.Handler.insert = slow
server = gcs.Server(("127.0.0.1", 0), gcs.Handler)
with open(sys.argv[1] + ".new", "w") as f: f.write(str(server.server_port))
os.rename(sys.argv[1] + ".new", sys.argv[1])
server.serve_forever()
P
started="$started $!"
until_true 60 "the slow bucket does not listen" test -s "$work/port"
STORAGE_EMULATOR_HOST="127.0.0.1:$(cat "$work/port")"; export STORAGE_EMULATOR_HOST
start 0 "$work/job.json" --http-port "$h0" --epochs 2 --weights gs://slow/w.h5; w0=$pid
start 1 "$work/job.json" --http-port "$h1" --epochs 2 --weights gs://slow/w.h5; w1=$pid
if until_true 60 "nothing is uploaded" test -e "$work/port.upload"; then
    all_three "$h0" "the leader uploads"
    check "every step is done: $(value qring_step) of $(value qring_steps_planned)" test "$(value qring_step)" = "$(value qring_steps_planned)"
    all_three "$h1" "another waits for the leader's upload"
    while [ "$(fetch "$h0" /metrics)" = 200 ]; do cp "$work/body" "$work/last"; done
    [ -z "$have_promtool" ] || check "promtool accepts the last /metrics before the exit" sh -c "promtool check metrics <'$work/last' >'$work/promtool' 2>&1"
fi
unset STORAGE_EMULATOR_HOST
wait "$w0"; rc0=$?; wait "$w1"; rc1=$?
check "a slow bucket ends with 0 0, not $rc0 $rc1" test "$rc0 $rc1" = "0 0"

# a port in use, and no port
if listens "$h1"; then fail "port $h1 should be free"; fi
$python -c "
import socket, time
s = socket.socket(); s.bind(('127.0.0.1', $h2)); s.listen(); print('bound', flush=True); time.sleep(60)" >"$work/bound" &
started="$started $!"
until_true 60 "no port is held" grep -q bound "$work/bound"
: >"$work/last2"
run_to "$work/taken.log" "$qringd" "$work/job.json" --epochs 1 --http-port "$h2" --out "$work/taken" --termination-log "$work/last2"; rc=$?
check "a port in use: exit 2, not $rc" test $rc = 2
check "a port in use is named: $(tail -n 1 "$work/taken.log")" grep -q "port $h2.*in use.*--http-port" "$work/taken.log"
check "a port in use is in the termination message" grep -q "port $h2" "$work/last2"
run_to "$work/two.log" "$qring" run "$work/job.json" -n 2 --epochs 1 --out "$work/two"
check "workers of qring run bind no HTTP port by default" sh -c "! grep -q 'probes and metrics on' '$work'/two/worker-*.log"

# SIGTERM within a long micro-batch
sed 's/"name": "qcnn"/"name": "long"/; s/"qubits": 8, "stages": 1/"qubits": 22/; s/"Z4", "Z5", "Z6", "Z7"/"Z21"/; s/"rounds": 20/"rounds": 2/' deploy/jobs/qcnn.json >"$work/long.json"
: >"$work/last3"
"$qringd" "$work/long.json" --threads 1 --http-port "$h3" --out "$work/long" --termination-log "$work/last3" >"$work/long.log" 2>&1 </dev/null &
w=$!; started="$started $w"
if until_true 60 "the long job does not answer" listens "$h3"; then
    sleep 0.5
    answers "$h3" 200 /healthz "a long micro-batch is computed"
    term_and_wait "$w"
    check "exit code 143 after SIGTERM in a long micro-batch, not $rc" test $rc = 143
    bound "SIGTERM in a long micro-batch: out" $took 2000
    check "the termination message: $(cat "$work/last3")" grep -q 'drained on SIGTERM' "$work/last3"
fi
end
