#!/bin/sh
# qring help job prints every key of the job file for a terminal, and answers for a key, a path, an
# object, a name, a word of other programs, and a word that it does not know.
. "$(dirname "$0")/common"
$python - "$qring" >"$work/said" 2>&1 <<'P'
import json, re, subprocess, sys
qring = sys.argv[1]
failed = passed = 0
def check(ok, what):
    global failed, passed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok: print("not so:", what)
def ask(*about):
    done = subprocess.run([qring, "help", "job", *about], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr
code, whole, said = ask()
check(code == 0 and not said, f"all of it: exit {code}, {said}")
lines = whole.split("\n")
check(len(lines) > 400, f"{len(lines)} lines")
check(not [l for l in lines if len(l) > 96], "lines of over 96 columns")
keys = [m[1] for m in (re.match(r"  (\S+): ", l) for l in lines) if m and not m[1].isupper()]
check(len(keys) > 150, f"{len(keys)} keys")
for key in sorted(set(keys)):
    code, text, said = ask(key)
    check(code == 0 and f"  {key}: " in text, f"{key}, asked for: exit {code}, {said}")
    # it is asked for by its path: no key of the same name elsewhere
    others = [l for l in text.split("\n") if re.match(rf"  \S+\.{re.escape(key.split('.')[-1])}: ", l) and not l.startswith("  " + key)]
    check("." not in key or not others, f"{key}: also {others[:2]}")
names = set()
def enums(v):
    if isinstance(v, dict): names.update(x for x in v.get("enum", []) if isinstance(x, str))
    for x in v.values() if isinstance(v, dict) else v if isinstance(v, list) else (): enums(x)
schema = json.loads(ask("--schema")[1])
enums(schema)
names |= {k[5:] for k in schema["$defs"] if k.startswith("gate.")}
check(len(names) > 100, f"{len(names)} names")
for name in sorted(names):
    code, text, said = ask(name)
    check(code == 0 and re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text), f"{name}: exit {code}, {said}")
def holds(about, *parts, but=()):
    code, text, said = ask(*about.split(" "))
    check(code == 0 and all(p in text for p in parts) and not any(p in text for p in but), f"help job {about}: {code} {said} {text[:300]}")
holds("optimizer", "train.optimizer.clipnorm", "train.optimizer.nesterov")
holds("Optimizers", "train.optimizer.clipnorm", but=["train.epochs"])
holds("adam", "train.optimizer.amsgrad", but=["nesterov:"])
holds("lr", "train.optimizer.learning_rate")
holds("reps", "model[].circuit.layers")
holds("model[0].circuit.gates[12].angle", "model[].circuit.gates[].angle: ", "model[].circuit.gates[].angle.data")
holds("early stopping", "train.early_stopping.patience")
holds("EARLY-STOPPING", "train.early_stopping.patience")
holds("zz-feature-map", "model[].circuit.alpha", but=["model[].circuit.entangler"])
holds("rx", "RX: 1 qubit; takes angle")
holds("unitary", "Unitary, QubitUnitary, UnitaryGate: 1 to 6 qubits; takes matrix")
holds("train.optimizer.momentum", "train.optimizer.momentum", but=["ema_momentum"])
holds("checkpoint_interval", "worker.checkpoint_interval")
code, text, said = ask("learning_rat")
check(code == 0 or "did you mean 'learning_rate'?" in said, f"a typing error: {code} {said}")
code, text, said = ask("train.optimiser.momentun")
check(code == 2 and not text and "did you mean 'momentum'?" in said, f"in a path: {code} {said}")
code, text, said = ask("qqqqqq")
check(code == 2 and not text and "qring help job prints all of it" in said, f"no such word: {code} {said}")
for odd in ("", ".", "[", "model[", "x" * 5000, ".".join("a" * 40)):
    code, text, said = ask(odd)
    check(code in (0, 2), f"'{odd[:20]}': exit {code}")
done = subprocess.run([qring, "help"], capture_output=True, text=True)
check("help job [WORD]" in done.stdout, "qring help lists it")
for form in ([], ["--schema"], ["--tables"], ["--man"]):
    full = subprocess.run([qring, "help", "job", *form], stdout=open("/dev/full", "w"), stderr=subprocess.PIPE, text=True)
    check(full.returncode == 2 and "cannot write standard output" in full.stderr, f"a full disk: {full.returncode} {full.stderr}")
print(f"{passed} passed, {failed} failed, 0 skipped")
P
grep -v ' skipped$' "$work/said"
add "$work/said"
end
