#!/bin/sh
# Random faults over a whole run of four real workers: kill -9, SIGTERM, SIGSTOP with SIGCONT, at random moments, everybody started again.
# Digest and steps.jsonl are those of one worker that nobody disturbed. N=20 for twenty seeds, SEED=7 for one.
. "$(dirname "$0")/common"
sed 's/"name": "qcnn"/"name": "faults"/' deploy/jobs/qcnn.json >"$work/job.json"
epochs=800
run_in 100 "$work/alone.log" "$qringd" "$work/job.json" --epochs $epochs --out "$work/alone" || fail "one worker does not train"

cat >"$work/drive.py" <<'P'
import os, random, signal, subprocess, sys, time
seed, out, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
dice = random.Random(seed)
run = subprocess.Popen(command, stdout=open(out + ".log", "w"), stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
steps, stopped, done, end = out + "/steps.jsonl", {}, [0, 0, 0], time.monotonic() + 60
def workers():
    try: return [int(p) for p in open(f"/proc/{run.pid}/task/{run.pid}/children").read().split()]
    except OSError: return []
def send(pid, number):
    try: os.kill(pid, number)
    except OSError: pass
while run.poll() is None and time.monotonic() < end and not (os.path.exists(steps) and os.path.getsize(steps) > 2000): time.sleep(0.02)
began = time.monotonic()
while run.poll() is None and time.monotonic() < end:
    time.sleep(dice.uniform(0.02, 0.4))
    for pid, at in list(stopped.items()):
        if time.monotonic() >= at: send(pid, signal.SIGCONT); del stopped[pid]
    here = workers()
    if len(here) < 2 or time.monotonic() > began + 8: continue # one goes on; and the last part is calm
    pid, what = dice.choice(here), dice.randrange(3)
    if pid in stopped: continue
    done[what] += 1
    if what == 0: send(pid, signal.SIGKILL)
    if what == 1: send(pid, signal.SIGTERM)
    if what == 2: send(pid, signal.SIGSTOP); stopped[pid] = time.monotonic() + dice.uniform(0.05, 2.5)
for pid in stopped: send(pid, signal.SIGCONT)
try: code = run.wait(60)
except subprocess.TimeoutExpired: run.kill(); code = "none: it hangs"
print(f"seed {seed}: {done[0]} killed, {done[1]} asked to leave, {done[2]} stopped; exit code {code}")
sys.exit(code != 0)
P
for seed in ${SEED:-$(seq 1 "${N:-2}")}; do
    out=$work/seed$seed
    check "seed $seed ends with 0" $python "$work/drive.py" "$seed" "$out" "$qring" run "$work/job.json" -n 4 --restart --epochs $epochs --out "$out"
    check "seed $seed: the digest" test "$(json_string "$out/result.json" state_digest)" = "$(json_string "$work/alone/result.json" state_digest)"
    check "seed $seed: each step once" cmp -s "$out/steps.jsonl" "$work/alone/steps.jsonl"
done
end
