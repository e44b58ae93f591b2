#!/bin/sh
# Output on a terminal: qring run --quiet prints errors only; warnings and errors are coloured on
# a terminal, unless NO_COLOR or TERM forbid it, and nowhere else; control characters of files are
# escaped; qring status --watch redraws on a terminal and writes lines elsewhere, until Ctrl-C
# (130) or until the worker no longer answers.
. "$(dirname "$0")/common"
unset TF_CONFIG QRING_HTTP_PORT NO_COLOR
sed 's/"name": "qcnn"/"name": "terminal"/; s/"epochs": 50/"epochs": 2/' deploy/jobs/qcnn.json >"$work/job.json"
# tty SECONDS SCREEN COMMAND...: runs the command on a new terminal and writes its output to SCREEN;
# sends Ctrl-C after SECONDS, or once the output has $until three times; returns the exit code, or
# 128 + n for a signal
tty() {
    $python - "$@" <<'P'
import os, pty, select, signal, sys, time
end, until, shown = time.monotonic() + float(sys.argv[1]), os.environ.get("until", "").encode(), b""
pid, fd = pty.fork()
if pid == 0:
    signal.signal(signal.SIGINT, signal.SIG_DFL) # it is ignored below a shell's background job
    os.execvp(sys.argv[3], sys.argv[3:])
with open(sys.argv[2], "wb") as screen:
    while True:
        if not select.select([fd], [], [], max(0, end - time.monotonic()))[0]:
            os.write(fd, b"\3")
            end += 1000
            continue
        try:
            block = os.read(fd, 4096)
        except OSError:
            break
        if not block: break
        screen.write(block)
        shown += block
        if until and shown.count(until) >= 3: end, until = 0, b""
status = os.waitpid(pid, 0)[1]
sys.exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
P
}
has() { $python -c 'import sys; sys.exit(eval(sys.argv[2]).encode() not in open(sys.argv[1], "rb").read())' "$1" "'$2'"; }
lacks() { ! has "$@"; }

# ---- quiet ----
run_both() { "$qring" run "$work/job.json" --out "$work/quiet" "$@" >"$work/out" 2>"$work/err" </dev/null; code=$?; }
run_both --fresh
check "without --quiet: more than ten lines" test "$code" = 0 -a "$(wc -l <"$work/out")" -gt 10
run_both --fresh --quiet
check "--quiet: no output" test "$code" = 0 -a ! -s "$work/out" -a ! -s "$work/err"
run_both --fresh -q -n 2 --json
check "-q --json: the result only" test "$code" = 0 -a "$(json_string "$work/out" job)" = terminal -a ! -s "$work/err"
check "-q --json: valid JSON" $python -m json.tool "$work/out" /dev/null
run_both -q
check "already trained: no output" test "$code" = 0 -a ! -s "$work/out" -a ! -s "$work/err"
sed 's/"seed": 1/"seed": 1, "sweep": {"keys": {"seed": [1, 2]}}/' "$work/job.json" >"$work/warning.json"
"$qring" run "$work/warning.json" --out "$work/warning" >/dev/null 2>"$work/warned" </dev/null
check "a job with a warning" holds "$work/warned" 'has a sweep'
"$qring" run "$work/warning.json" --out "$work/warning" --fresh --quiet >"$work/out" 2>"$work/err" </dev/null
check "--quiet suppresses the warning" test "$?" = 0 -a ! -s "$work/out" -a ! -s "$work/err"
run_both -q --epochs nine
check "--quiet prints an error" test "$code" = 2 -a ! -s "$work/out" -a "$(wc -l <"$work/err")" = 1
check "an error in a file has no colour" sh -c 'head -c 9 "$1" | grep -q "^E qring: "' - "$work/err"

# ---- colours ----
export TERM=xterm
tty 20 "$work/red" "$qring" run "$work/job.json" --epochs nine; code=$?
check "an error is red on a terminal: exit code $code" has "$work/red" '\x1b[1;31mE qring:\x1b[0m --epochs'
tty 20 "$work/yellow" "$qring" run "$work/warning.json" --out "$work/warning"
check "a warning is yellow" has "$work/yellow" '\x1b[33mW qring:\x1b[0m the job has a sweep'
tty 20 "$work/worker" "$qringd" "$work/nowhere.json"
check "a worker's error is red" has "$work/worker" '\x1b[1;31mE worker:\x1b[0m'
tty 20 "$work/piped" sh -c '"$@" 2>&1 | cat' - "$qring" run "$work/job.json" --epochs nine
check "an error in a pipe has no colour" lacks "$work/piped" '\x1b['
for how in "env NO_COLOR=1" "env TERM=dumb" "env -u TERM"; do
    # shellcheck disable=SC2086
    tty 20 "$work/plain" $how "$qring" run "$work/job.json" --epochs nine
    check "$how: no colour" lacks "$work/plain" '\x1b['
    check "$how: the error" has "$work/plain" 'E qring: --epochs'
done
tty 20 "$work/plain" env NO_COLOR="" "$qring" run "$work/job.json" --epochs nine
check "an empty NO_COLOR has no effect" has "$work/plain" '\x1b[1;31m'

# ---- watching ----
port=$(free_ports 1)
"$qringd" "$work/job.json" --epochs 1000000 --threads 1 --out "$work/watched" --http-port "$port" >"$work/watched.log" 2>&1 </dev/null & w=$!
started="$started $w"
tries=0; until "$qring" status "127.0.0.1:$port" >"$work/once" 2>&1 && grep -q '^loss' "$work/once"; do
    tries=$((tries + 1)); [ $tries -lt 300 ] || { fail "the worker does not answer"; break; }; done
until='last error' tty 30 "$work/drawn" "$qring" status "127.0.0.1:$port" --watch; code=$?
check "Ctrl-C ends --watch with 130, not $code" test "$code" = 130
check "the screen is cleared" has "$work/drawn" '\x1b[2J\x1b[H'
check "the screen is cleared once" test "$(tr -d '\n' <"$work/drawn" | grep -o '2J' | wc -l)" = 1
check "the screen is redrawn" has "$work/drawn" '\x1b[J\x1b[H'
check "all lines are redrawn three times" test "$(grep -c '^last error' "$work/drawn")" -ge 3
"$qring" status "127.0.0.1:$port" --watch >"$work/lines" 2>&1 </dev/null & lines=$!
"$qring" status "127.0.0.1:$port" --watch --json >"$work/objects" 2>&1 </dev/null & objects=$!
until='steps/s' tty 30 "$work/dumb" env TERM=dumb "$qring" status "127.0.0.1:$port" --watch
check "a dumb terminal gets lines" sh -c 'grep -q "^step [0-9]* of 2000000, epoch" "$1" && ! grep -q "$(printf "\033")" "$1"' - "$work/dumb"
sh -c '"$@" | head -n 1' - timeout 20 "$qring" status "127.0.0.1:$port" --watch >"$work/head" 2>"$work/head.err" </dev/null
check "a closed pipe ends --watch without a message" test "$(wc -l <"$work/head")" = 1 -a ! -s "$work/head.err"
tries=0; until [ "$(wc -l <"$work/lines")" -ge 3 ] && [ "$(wc -l <"$work/objects")" -ge 3 ]; do
    tries=$((tries + 1)); [ $tries -lt 300 ] || { fail "three lines in 60 s"; break; }; sleep 0.2; done
began=$(now_ms)
kill -9 "$w"; wait "$w" 2>/dev/null
wait $lines; code=$?
check "--watch ends with 0, not $code, after the worker's exit" test "$code" = 0
took=$(($(now_ms) - began))
check "--watch retries for 3 s: $took ms" test $took -ge 3000
bound "--watch ends after the worker's exit" $took 10000
wait $objects; code=$?
check "--watch --json ends with 0, not $code, after the worker's exit" test "$code" = 0
check "content of the lines: $(head -n 1 "$work/lines")" \
    test "$(grep -cE '^step [0-9]+ of 2000000, epoch [0-9]+ of 1000000; [0-9.e+]+ steps/s, .* left; loss [0-9.]+, val_loss [0-9.]+; 1 member$' "$work/lines")" -ge 3
check "the steps increase" test "$(grep -o '^step [0-9]*' "$work/lines" | sort -u | wc -l)" -ge 3
check "the last line has the last step: $(tail -n 1 "$work/lines")" grep -qE '^127.0.0.1:[0-9]+ does not respond any more: its last response was at step [0-9]+ of 2000000 \(.*\)$' "$work/lines"
check "JSON lines" $python -c 'import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
sys.exit(not (len(rows) >= 3 and all(r["metrics"]["qring_steps_planned"] == 2000000 for r in rows)))' "$work/objects"
run_to "$work/none" "$qring" status "127.0.0.1:$port" --watch
check "--watch without a listener: 138" test "$?" = 138
# ---- control characters of files are escaped in messages and text logs; other UTF-8 is not ----
mkdir "$work/odd"
$python - "$work/job.json" "$work/odd" <<'P'
import json, struct, sys
job, out = json.load(open(sys.argv[1])), sys.argv[2]
evil = "\x1b[2J\x07größe\nFAKE\x9b"
def put(to, **more): json.dump({**job, **more}, open(f"{out}/{to}.json", "w"))
put("key", **{evil: 1})
put("name", name=evil)
put("layer", model=[{"layer": evil}])
put("worker", worker={"log_level": evil})
put("logdir", worker={"logdir": f"{out}/{evil}"})
put("file", data={"source": "csv", "url": evil})
head = json.dumps({evil: {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}).encode()
open(f"{out}/w.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + struct.pack("<d", 1))
P
# clean FILE: the output has the text of the file, and no control characters but newlines and tabs
clean() { $python - "$1" <<'P'
import sys
text = open(sys.argv[1], "rb").read().decode()
bad = [c for c in text if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160]
sys.exit(f"{bad} in {text!r}" if bad or "\nFAKE" in text else "größe" not in text and f"no text of the file in {text!r}")
P
}
at() { log=$work/odd/$1.log; shift; run_to "$log" "$@"; check "$*: control characters are escaped" clean "$log"; }
for j in key name layer worker file; do
    at $j-run "$qring" run "$work/odd/$j.json" --out "$work/odd/out"
    at $j-text "$qringd" "$work/odd/$j.json" --out "$work/odd/out" --log-format text
    at $j-validate "$qring" validate "$work/odd/$j.json" --out "$work/odd/out"
done
at logdir "$qring" run "$work/odd/logdir.json" --epochs 1 --out "$work/odd/logdir-out"
at logdir-text "$qringd" "$work/odd/logdir.json" --epochs 1 --fresh --out "$work/odd/logdir-out" --log-format text
at weights "$qring" weights "$work/odd/w.safetensors"
at set "$qring" show "$work/job.json" --set "$(printf 'name=gr\303\266\303\237e\033[2J\aFAKE')"
end
