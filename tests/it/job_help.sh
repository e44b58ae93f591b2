#!/bin/sh
# qring help job prints every key of the job file, and the help of a key, a path, an object, a name
# and a name in other programs; an unknown word is an error.
. "$(dirname "$0")/common"
$python - "$qring" >"$work/output" 2>&1 <<'P'
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
code, whole, err = ask()
check(code == 0 and not err, f"qring help job: exit {code}, {err}")
lines = whole.split("\n")
check(len(lines) > 400, f"{len(lines)} lines")
check(not [l for l in lines if len(l) > 96], "lines of more than 96 columns")
keys = [m[1] for m in (re.match(r"  (\S+): ", l) for l in lines) if m and not m[1].isupper()]
check(len(keys) > 150, f"{len(keys)} keys")
for key in sorted(set(keys)):
    code, text, err = ask(key)
    check(code == 0 and f"  {key}: " in text, f"qring help job {key}: exit {code}, {err}")
    # a path selects one key: no key of the same name in another object
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
    code, text, err = ask(name)
    check(code == 0 and re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text), f"{name}: exit {code}, {err}")
def holds(about, *parts, but=()):
    code, text, err = ask(*about.split(" "))
    check(code == 0 and all(p in text for p in parts) and not any(p in text for p in but), f"help job {about}: {code} {err} {text[:300]}")
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
code, text, err = ask("learning_rat")
check(code == 0 or "did you mean 'learning_rate'?" in err, f"a misspelt key: {code} {err}")
code, text, err = ask("train.optimiser.momentun")
check(code == 2 and not text and "did you mean 'momentum'?" in err, f"a misspelt key in a path: {code} {err}")
code, text, err = ask("qqqqqq")
check(code == 2 and not text and "qring help job prints all of it" in err, f"an unknown word: {code} {err}")
for odd in ("", ".", "[", "model[", "x" * 5000, ".".join("a" * 40)):
    code, text, err = ask(odd)
    check(code in (0, 2), f"'{odd[:20]}': exit {code}")
done = subprocess.run([qring, "help"], capture_output=True, text=True)
check("help job [WORD]" in done.stdout, "qring help lists it")
for form in ([], ["--schema"], ["--tables"], ["--man"]):
    full = subprocess.run([qring, "help", "job", *form], stdout=open("/dev/full", "w"), stderr=subprocess.PIPE, text=True)
    check(full.returncode == 2 and "cannot write standard output" in full.stderr, f"full disk: {full.returncode} {full.stderr}")
print(f"{passed} passed, {failed} failed, 0 skipped")
P
grep -v ' skipped$' "$work/output"
add "$work/output"
end
