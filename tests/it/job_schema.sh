#!/bin/sh
# deploy/jobs/job.schema.json, read by another program (Debian's python3-jsonschema): accepts
# every job of the repository and rejects what qring rejects. test_job_keys holds defaults and
# limits against the reader.
. "$(dirname "$0")/common"
cat >"$work/faults" <<'T'
# a sed script for deploy/jobs/qcnn.json | words of the program's error
s/"epochs"/"epoch"/ | unknown key 'epoch'
s/"name": "qcnn"/"name": "q cnn"/ | is not a valid job name
s/"seed": 1/"seed": -1/ | must be at least 0
s/"seed": 1/"seed": 1.5/ | seed
s/"seed": 1/"seed": 1, "$schema": 1/ | must be a string
s/"seed": 1/"seed": 1, "precision": "half"/ | precision
s/"seed": 1/"seed": 1, "micro_batch_size": 0/ | micro_batch_size
s/"seed": 1/"seed": 1, "worker": {"thread": 2}/ | thread
s/"seed": 1/"seed": 1, "worker": {"fresh": true}/ | cannot be set in a job file
s/"seed": 1/"seed": 1, "worker": {"signing_key": "k"}/ | belongs on the command line
s/"seed": 1/"seed": 1, "layers": []/ | unknown key 'layers'
s/"quantum"/"quantom"/ | did you mean 'quantum'
s/"ansatz": "qcnn"/"ansatz": "qnn"/ | did you mean 'qcnn'
s/"ansatz": "qcnn"/"ansatz": "angle"/ | unknown key 'stages'
s/"qubits": 8/"qubits": "8"/ | must be an integer
s/"qubits": 8/"qubits": 1025/ | between 1 and 1024
s/"stages": 1/"stages": 0/ | between 1 and 1024
s/\["Z4", "Z5", "Z6", "Z7"\]/[]/ | 0 read-outs
s/"Z4"/4/ | must be a string
s/"Z4"/{"hamiltonian": 4}/ | must be terms
s/"units": 8/"units": 0/ | between 1 and
s/"units": 8/"units": 8, "activation": "softmaks"/ | softmax
s/"units": 8/"units": 8, "l2": -1/ | must be at least 0
s/"units": 8/"units": 8, "trainable": 1/ | true or false
s/"layer": "dense", "units": 8/"layer": "dropout", "rate": 1/ | must be below 1
s/"layer": "dense", "units": 8/"layer": "dropout", "rate": -0.5/ | between 0 and
s/"layer": "dense", "units": 8/"layer": "scale"/ | neither factor nor offset
s/"layer": "dense", "units": 8/"layer": "activation"/ | activation
s/"cluster-excitations"/"cluster"/ | data.source
s/"rounds": 20/"url": "a.csv"/ | unknown key 'url'
s/"mse"/"mes"/ | mse
s/"mse"/{"name": "mse", "delta": 1}/ | unknown key 'delta'
s/"mse"/{"name": "binary_crossentropy", "label_smoothing": 2}/ | label_smoothing
s/\["accuracy"\]/["acuracy"]/ | accuracy
s/\["accuracy"\]/[{"name": "recall", "k": 2}]/ | unknown key 'k'
s/"name": "adam"/"name": "adan"/ | adam
s/"name": "adam"/"name": "adam", "momentum": 0.9/ | unknown key 'momentum'
s/"name": "adam"/"name": "adam", "beta_1": 1/ | beta_1
s/"learning_rate": 0.02/"learning_rate": {"schedule": "cosine"}/ | decay_steps is missing
s/"learning_rate": 0.02/"learning_rate": {"schedule": "cosine", "decay_steps": 9, "decay_rate": 1}/ | does not use it
s/"epochs": 50/"epochs": 50, "early_stopping": {"patience": -1}/ | patience
s/"epochs": 50/"epochs": 50, "class_weight": 1/ | must be an array
s/"epochs": 50/"epochs": 50, "initial_weights": {"url": "w.h5", "layer": []}/ | unknown key 'layer'
s/"seed": 1/"seed": 1, "sweep": {"keys": {"seed": 1}}/ | must be an array
s/"seed": 1/"seed": 1, "sweep": {"keys": {}}/ | 0 keys
s/"seed": 1/"seed": 1, "sweep": {"trials": 0, "keys": {"seed": [1]}}/ | between 1 and
s/"seed": 1/"seed": 1, "sweep": {"trials": 1, "keys": {"seed": {"normal": [0, 1]}}}/ | unknown key 'normal'
s/"seed": 1/"seed": 1, "sweep": {"keys": {"seed": [1]}, "halving": {"factor": 2}}/ | epochs is missing
s/"circuit": {[^}]*}/"circuit": {"url": 1}/ | must be a string
s/"circuit": {[^}]*}/"circuit": {"url": "a.qasm", "inputs": "x"}/ | must be an array
s/"circuit": {[^}]*}/"circuit": {"url": "a.qasm", "qubits": 8}/ | unknown key 'qubits'
T
# gates in place of the ansatz
gates='s/"circuit": {[^}]*}/"circuit": {"qubits": 8, "gates": [GATE]}/; s/GATE/'
while read -r gate; do echo "$gates${gate%% | *}/ | ${gate#* | }"; done >>"$work/faults" <<'T'
{"gate": "RXX", "qubits": [0]} | acts on 2 qubits
{"gate": "CNOTT", "qubits": [0, 1]} | unknown gate
{"gate": "CRX", "qubits": [0, 1], "theta": 1} | takes angle
{"gate": "RX", "qubits": [0]} | angle is missing
{"gate": "RX", "qubits": [0], "angle": true} | must be a number
{"gate": "RX", "qubits": [0], "angle": {"data": 0, "parameter": "w"}} | not both
{"gate": "RX", "qubits": [0], "angle": {"dat": 0}} | unknown key 'dat'
{"gate": "x", "qubits": [0], "angle": 1, "exponent": 1} | give the angle alone
{"gate": "U2", "qubits": [0], "phi": 1} | lambda is missing
{"gate": "U2", "qubits": [0], "phi": 1, "lambda": 1, "delta": 1} | two names of one angle
{"gate": "H", "qubits": [0], "repeat": 3} | give one
{"ansatz": "angle", "qubits": 4} | must be an array
{"ansatz": "qcnn"} | is a whole circuit
{"repeat": -1, "gates": [{"gate": "H", "qubits": [0]}]} | between 0 and
{"repeat": 2, "index": "i", "gates": [{"gate": "H", "qubit": ["i"]}]} | unknown key 'qubit'
T
$python - "$work" "$qring" >"$work/output" 2>&1 <<'P'
import glob, json, subprocess, sys
import jsonschema
work, qring = sys.argv[1:]
with open("deploy/jobs/job.schema.json") as f:
    schema = json.load(f)
jsonschema.Draft202012Validator.check_schema(schema)
valid = jsonschema.Draft202012Validator(schema)
failed = passed = 0
def check(ok, what):
    global failed, passed
    passed, failed = passed + ok, failed + (not ok)
    if not ok: print("not so:", what)
folders = ["deploy/jobs", "deploy/jobs/examples", "tests/golden/digests/jobs", "charts/qring/files"]
files = sorted({f for folder in folders for f in glob.glob(folder + "/*.json")} - {"deploy/jobs/job.schema.json"})
check(len(files) > 50, f"jobs found: {len(files)}")
for f in files:
    with open(f) as text:
        wrong = jsonschema.exceptions.best_match(valid.iter_errors(json.load(text)))
    check(wrong is None, f"{f}: {wrong and (wrong.json_path, wrong.message[:200])}")
rows = [line.strip().rsplit(" | ", 1) for line in open(work + "/faults") if line[0] != "#"]
for script, words in rows:
    text = subprocess.run(["sed", script, "deploy/jobs/qcnn.json"], capture_output=True, text=True, check=True).stdout
    with open(work + "/job.json", "w") as f: f.write(text)
    result = subprocess.run([qring, "run", work + "/job.json", "--out", work + "/none"], capture_output=True, text=True)
    check(result.returncode == 2 and words in result.stderr, f"exit {result.returncode}, no '{words}' in the error: {script}: {result.stderr.strip()}")
    check(not valid.is_valid(json.loads(text)), f"the schema accepts it: {script}")
# An unknown key in an object of each kind is rejected by the program and the schema.
def objects(v, at=()):
    if isinstance(v, dict): yield at
    for k, x in v.items() if isinstance(v, dict) else enumerate(v) if isinstance(v, list) else ():
        yield from objects(x, at + (k,))
def reached(v, at):
    for k in at: v = v[k]
    return v
kinds = set()
for f in files:
    text = open(f).read()
    for at in objects(json.loads(text)):
        if at[-1:] == ("hamiltonian",): continue # its keys are terms, which the schema does not read
        job = json.loads(text)
        odd = reached(job, at)
        kind = tuple(k for k in at if isinstance(k, str)), tuple(sorted(odd))
        if kind in kinds: continue
        kinds.add(kind)
        odd["nonsense"] = 1
        with open(work + "/job.json", "w") as out: json.dump(job, out)
        result = subprocess.run([qring, "show", work + "/job.json"], capture_output=True, text=True)
        check(result.returncode == 2 and "nonsense" in result.stderr, f"the program accepts an unknown key in {f}, {at}: {result.stderr.strip()}")
        check(not valid.is_valid(job), f"the schema accepts an unknown key in {f}, {at}")
check(len(kinds) > 100, f"{len(kinds)} kinds of objects")
# "$schema" is accepted and does not change the job hash
job = json.load(open("deploy/jobs/qcnn.json"))
job["train"]["epochs"] = 1
hashes = set()
for extra in ({}, {"$schema": "job.schema.json"}):
    with open(work + "/job.json", "w") as f: json.dump({**extra, **job}, f)
    check(valid.is_valid({**extra, **job}), "a job that names its schema")
    done = subprocess.run([qring, "run", work + "/job.json", "--fresh", "--json", "--out", work + "/out"], capture_output=True, text=True)
    hashes.add(json.loads(done.stdout)["job_hash"] if done.returncode == 0 else done.stderr)
check(len(hashes) == 1, f"one hash: {hashes}")
print(f"{passed} passed, {failed} failed, 0 skipped")
P
grep -v ' skipped$' "$work/output"
add "$work/output"
end
