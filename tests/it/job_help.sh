#!/bin/sh
# qring help job prints every key, name and heading of deploy/jobs/README.md (from "The keys" to
# "Worker") for a terminal; for a word, a path, a heading, and a word that it does not know.
. "$(dirname "$0")/common"
$python - "$qring" "$work" >"$work/said" 2>&1 <<'P'
import re, subprocess, sys
sys.path.insert(0, "tests/lint")
from job_page import Page, words
qring, work = sys.argv[1:]
failed = passed = 0
def check(ok, what):
    global failed, passed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok: print("not so:", what)
def ask(*about):
    done = subprocess.run([qring, "help", "job", *about], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr
flat = lambda text: re.sub(r"\s+", " ", text)
code, whole, said = ask()
check(code == 0 and not said, f"all of it: exit {code}, {said}")
lines = whole.split("\n")
check(len(lines) > 800, f"{len(lines)} lines")
wide = [l for l in lines if len(l) > 104 or len(l) > 96 and not l.startswith("    ")]
check(not wide, f"lines of over 96 columns (a job's 104): {wide[:3]}")
check(not re.search(r"\]\(#|\*\*|<!--|^\||`", whole, re.M), "marks of the page are left")
page, all_of_it = Page(), flat(whole)
check(len(page.keys) > 30, "the page has keys")
for (name, kind), rows in page.keys.items():
    path = page.objects[name].path
    for row in rows:
        key = f"{path}.{row.key}" if path else row.key
        start = f"  {key}: "
        check(any(l.startswith(start) for l in lines), f"{key} of {name} {kind} is printed")
        code, text, said = ask(key)
        check(code == 0 and start in text, f"{key}, asked for: exit {code}, {said}")
        default = row.default.replace("`", "")
        wanted = "; required" if not default else "" if default == "-" else f"; default {default}"
        check(flat(wanted) in flat(text), f"{key}: '{wanted}'")
        check("; default -" not in flat(text).replace("; default -1", ""), f"{key}: a dash is no default")
        # it is asked for by its path: no key of the same name that is not below it
        others = [l for l in text.split("\n") if re.match(rf"  \S+\.{re.escape(row.key)}: ", l) and not l.startswith("  " + path)]
        check(not path or not others, f"{key}: also {others[:2]}")
for what, rows in page.names.items():
    for name in (w for cells in rows for w in words(cells[0])):
        code, text, said = ask(name)
        check(code == 0 and re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text), f"{name} of {what}: exit {code}, {said}")
# sections and what belongs together
def holds(about, *parts, but=()):
    code, text, said = ask(*about.split(" "))
    check(code == 0 and all(p in text for p in parts) and not any(p in text for p in but), f"help job {about}: {code} {said} {text[:300]}")
holds("optimizer", "Optimizers\n", "train.optimizer.clipnorm", 'With "name": "lion":')
holds("Optimizers", "train.optimizer.clipnorm", but=["Training\n"])
holds("adam", 'With "name": "adam", "adamw":', "train.optimizer.amsgrad", but=["nesterov", "clipnorm"])
holds("model.layers", "Model\n", "model[].layer: ", "Subsections: Circuits, Ansätze,")
holds("model[0].circuit.gates[12].angle", "model[].circuit.gates[].angle: ", "model[].circuit.gates[].angle.data")
holds("early stopping", "Keras' callback", "train.early_stopping.patience")
holds("EARLY-STOPPING", "train.early_stopping.patience")
holds("ansatze", "Ansätze\n", "model[].circuit.entangler")
holds("zz-feature-map", "model[].circuit.alpha", but=["model[].circuit.entangler"])
holds("rx", "e^(-i angle X/2)", but=["RY\n"])
holds("train.optimizer.momentum", 'With "name": "rmsprop":', but=["ema_momentum"])
holds("checkpoint_interval", "Worker\n")
holds("expressions", "Any other name is a parameter")
code, text, said = ask("learning_rat")
check(code == 2 and not text and "did you mean 'learning_rate'?" in said, f"a typing error: {code} {said}")
code, text, said = ask("train.optimiser.momentun")
check(code == 2 and not text and "did you mean 'momentum'?" in said, f"in a path: {code} {said}")
code, text, said = ask("qqqqqq")
check(code == 2 and not text and "qring help job prints all of it" in said, f"no such word: {code} {said}")
for odd in ("", ".", "[", "model[", "x" * 5000, ".".join("a" * 40)):
    code, text, said = ask(odd)
    check(code in (0, 2), f"'{odd[:20]}': exit {code}")
done = subprocess.run([qring, "help"], capture_output=True, text=True)
check("help job [WORD]" in done.stdout, "qring help lists it")
full = subprocess.run([qring, "help", "job"], stdout=open("/dev/full", "w"), stderr=subprocess.PIPE, text=True)
check(full.returncode == 2 and "cannot write standard output" in full.stderr, f"a full disk: {full.returncode} {full.stderr}")
print(f"{passed} passed, {failed} failed, 0 skipped")
P
grep -v ' skipped$' "$work/said"
add "$work/said"
end
