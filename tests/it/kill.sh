#!/bin/sh
# qring run under signals: --restart restarts a worker that was killed, and the digest stays;
# Ctrl-C and SIGTERM of qring run; workers with different numbers of epochs. Rings whose workers
# are killed, frozen or leave are in tests/faults.
. "$(dirname "$0")/common"
sed 's/"name": "qcnn"/"name": "kill"/' deploy/jobs/qcnn.json >"$work/job.json"
sed 's/"trajectories": 20/"trajectories": 2000/' tests/golden/digests/jobs/measured-trajectories.json >"$work/measured.json"
kill_one() { # job, epochs: kills one of three workers, which --restart restarts
    run_to "$work/alone.log" "$qringd" "$work/$1.json" --epochs "$2" --out "$work/$1-alone" || fail "$1: one worker does not train"
    rm -rf "$work/run"
    "$qring" run "$work/$1.json" -n 3 --epochs "$2" --out "$work/run" --restart >"$work/run.log" 2>&1 </dev/null & r=$!
    started="$started $r"
    tries=0; until [ -s "$work/run/steps.jsonl" ] || [ $tries -gt 600 ]; do tries=$((tries + 1)); sleep 0.1; done
    kill -9 "$(pgrep -P $r -f 'qringd' | head -n 1)"
    wait $r; rc=$?
    check "$1: qring run --restart ends with 0, not $rc" test $rc = 0
    check "$1: the log has the killed worker" grep -q 'was terminated by signal 9.*2 remain; restarting it' "$work/run.log"
    d=$work/run; check "$1: the digest" test "$(json_string "$d/result.json" state_digest)" = "$(json_string "$work/$1-alone/result.json" state_digest)"
    check "$1: each step once" cmp -s "$d/steps.jsonl" "$work/$1-alone/steps.jsonl"
}
kill_one job 600
kill_one measured 40
stop_run() { # signal, exit code, flags: sends the signal to qring run
    signal=$1 want=$2; shift 2
    rm -rf "$work/run"
    setsid "$qring" run "$work/job.json" -n 2 --epochs 1000000 --out "$work/run" "$@" >"$work/run.log" 2>&1 </dev/null & r=$!
    started="$started $r"
    tries=0; until [ -s "$work/run/steps.jsonl" ] || [ $tries -gt 600 ]; do tries=$((tries + 1)); sleep 0.1; done
    kill "-$signal" $r
    wait $r; rc=$?
    check "qring run ends with $want after SIG$signal $*, not $rc" test $rc = "$want"
}
# Workers with different numbers of epochs train the leader's number, and the other worker logs that
# (row 41 of the fault table tests more).
# shellcheck disable=SC2046
set -- $(free_ports 2)
TF_CONFIG=$(tf_config 0 "127.0.0.1:$1" "127.0.0.1:$2") timeout 600 "$qringd" "$work/job.json" --data-port 0 --epochs 3 --out "$work/e0" >"$work/e0.log" 2>&1 </dev/null & a=$!
TF_CONFIG=$(tf_config 1 "127.0.0.1:$1" "127.0.0.1:$2") timeout 600 "$qringd" "$work/job.json" --data-port 0 --epochs 5 --out "$work/e1" >"$work/e1.log" 2>&1 </dev/null & b=$!
wait $a; rc_a=$?; wait $b; rc_b=$?
for rc in $rc_a $rc_b; do check "3 and 5 epochs: exit code 0, not $rc" test "$rc" = 0; done
check "the other worker logs both numbers of epochs" grep -q "epochs is 5 here and 3 in the ring" "$work/e1.log"
check "three epochs" test "$(grep -c TRAIN "$work/e0/steps.jsonl")" = 6
stop_run INT 130
stop_run TERM 143
stop_run TERM 0 --exit-on-drain=0
# Ctrl-C: SIGINT to the process group of a shell, as a terminal sends it
cat >"$work/loop.py" <<'END'
import os, signal, subprocess, sys, time
qring, job, work, shell, times, freeze = sys.argv[1:4] + [sys.argv[4], int(sys.argv[5]), sys.argv[6] == "freeze"]
out = f"{work}/loop"
script = f'for s in 1 2 3; do "{qring}" run "{job}" -n 2 --epochs 1000000 --out "{out}/$s" >>"{out}.log" 2>&1; echo "code $?"; done; echo end'
p = subprocess.Popen([shell, "-c", script], start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
end = time.monotonic() + 30
while not os.path.exists(f"{out}/1/steps.jsonl") and time.monotonic() < end: time.sleep(0.02)
if freeze: # workers that cannot stop
    for pid in subprocess.run(["pgrep", "-f", f"qringd .*--out={out}/1"], capture_output=True, text=True).stdout.split(): os.kill(int(pid), signal.SIGSTOP)
begin = time.monotonic()
for i in range(times):
    if i: time.sleep(0.3)
    os.killpg(p.pid, signal.SIGINT)
try: out_words = p.communicate(timeout=30)[0].split()
except subprocess.TimeoutExpired: os.killpg(p.pid, signal.SIGKILL); out_words = ["hangs"]
print(p.returncode, len(os.listdir(out)), "fast" if time.monotonic() - begin < 5 else "slow", *out_words)
END
interrupted() { rm -rf "$work/loop" "$work/loop.log"; $python "$work/loop.py" "$qring" "$work/job.json" "$work" "$@"; }
for shell in bash dash; do
    command -v $shell >/dev/null || { skip "no $shell"; continue; }
    got=$(interrupted $shell 1 not)
    case $got in "-2 1 fast"*) stops=yes ;; *) stops=no ;; esac
    check "Ctrl-C ends the loop of $shell: '$got'" test $stops = yes
    check "workers have exited after Ctrl-C in $shell" holds "$work/loop.log" "stopped: all workers have exited"
    check "Ctrl-C in $shell leaves a checkpoint" test -s "$work/loop/1/checkpoints/LATEST"
done
got=$(interrupted bash 2 freeze)
check "a second Ctrl-C ends frozen workers at once: '$got'" test "$got" = "-2 1 fast"
end
