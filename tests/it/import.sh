#!/bin/sh
# qring import: a job accepts the printed circuit, with the same gates; --inputs and --layer; Cirq's
# JSON; a model of TensorFlow Quantum as a job; errors show the line and a caret;
# standard input; exit codes.
. "$(dirname "$0")/common"
cat >"$work/model.qasm" <<'Q'
OPENQASM 3.0;
include "stdgates.inc";
input float a; input float b; input angle w;
qubit[2] q; bit[2] c;
rx(2 * a) q[0]; ry(b + w) q[1];
gate g(t) p, r { ctrl @ U(t, 0, 0) p, r; }
g(w) q[0], q[1];
c[1] = measure q[1]; c[0] = measure q[0];
Q
"$qring" import "$work/model.qasm" --inputs b,a >"$work/circuit.json" || fail "import: exit $?"
"$qring" import - --layer --inputs b,a <"$work/model.qasm" >"$work/layer.json" || fail "import -: exit $?"
check "the circuit, and the layer with its read-outs" $python - "$work/circuit.json" "$work/layer.json" <<'J'
import json, sys
circuit, layer = (json.load(open(f)) for f in sys.argv[1:])
assert layer == {"layer": "quantum", "circuit": circuit, "readouts": ["Z1", "Z0"]}, layer
assert circuit["qubits"] == 2 and circuit["columns"] == 2
assert circuit["gates"][:2] == [{"gate": "RX", "qubits": [0], "angle": "2*x[1]"}, {"gate": "RY", "qubits": [1], "angle": "x[0] + w"}], circuit
J
tr -d '\n' <"$work/layer.json" >"$work/line"
"$qring" show --set "model[0]=$(cat "$work/line")" --json >"$work/shown" || fail "show: exit $?"
check "a job accepts the layer" $python - "$work/shown" <<'J'
import json, sys
shown = json.load(open(sys.argv[1]))
assert shown["qubits"] == 2 and shown["circuit_parameters"] == 1 and shown["readouts"] == ["Z1", "Z0"], shown
J
cat >"$work/model.json" <<'C'
[{"cirq_type": "Circuit", "moments": [{"cirq_type": "Moment", "operations": [{"cirq_type": "GateOperation",
 "gate": {"cirq_type": "Rx", "rads": {"cirq_type": "sympy.Symbol", "name": "a"}},
 "qubits": [{"cirq_type": "GridQubit", "row": 0, "col": 3}]}]}]},
 {"cirq_type": "PauliString", "qubit_pauli_map": [[{"cirq_type": "GridQubit", "row": 0, "col": 1},
 {"cirq_type": "_PauliZ"}]], "coefficient": {"cirq_type": "complex", "real": -2.0, "imag": 0.0}}]
C
"$qring" import "$work/model.json" --layer --inputs a >"$work/layer.json" || fail "import of Cirq's JSON: exit $?"
check "a layer of Cirq's JSON" $python - "$work/layer.json" <<'J'
import json, sys
layer = json.load(open(sys.argv[1]))
assert layer == {"layer": "quantum", "readouts": ["-2*Z0"], "circuit": {
    "qubits": 2, "columns": 1, "gates": [{"gate": "RX", "qubits": [1], "angle": "x[0]"}]}}, layer
J
$python - "$work/model.npz" "$root/tests/golden/cirq/tfq.json" <<'J' || fail "no npz file"
import json, sys
import numpy
model = json.load(open(sys.argv[2]))["model"]
arrays = {name: numpy.array([bytes.fromhex(h) for h in model[name]]) for name in ("prepend", "circuit", "readouts")}
numpy.savez(sys.argv[1], x=numpy.array([bytes.fromhex(h) for h in model["data"]]), y=numpy.array([[1, -1]] * 4), **arrays)
J
"$qring" import "$work/model.npz" --job "$work/job" >"$work/out" || fail "import --job: exit $?"
check "nothing on standard output" test ! -s "$work/out"
"$qring" run "$work/job/job.json" --out "$work/run" >"$work/out" 2>&1 || fail "the imported job: exit $?: $(cat "$work/out")"
"$qring" import "$work/model.npz" --job "$work/job" --weights "$work/run/weights.h5" || fail "import --weights: exit $?"
check "a job with data, labels and weights" $python - "$work/job" "$work/run/weights.h5" <<'J'
import json, sys
import numpy
job = json.load(open(sys.argv[1] + "/job.json"))
assert job["data"] == {"source": "npz", "url": "columns.npz"}
assert job["train"] == {"loss": "mse", "initial_weights": sys.argv[2]}, job["train"]
data = numpy.load(sys.argv[1] + "/columns.npz")
assert data["x"].shape == (4, 7) and data["y"].shape == (4, 2)
J
"$qring" run "$work/job/job.json" --out "$work/again" >"$work/out" 2>&1 || fail "the job with weights: exit $?: $(cat "$work/out")"
# A job with the circuit's URL trains the same circuit with the same job hash; its record has the
# absolute path.
mkdir "$work/beside" && cp "$work/model.qasm" "$work/beside"
printf 'a,b,label\n0.1,0.2,1\n0.3,0.4,-1\n0.5,0.6,1\n0.7,0.8,-1\n' >"$work/beside/d.csv"
# job_of CIRCUIT READOUTS: a job file in that folder
job_of() { echo "{\"model\": [{\"layer\": \"quantum\", $1}, {\"layer\": \"dense\", \"units\": 1}], \"data\": {\"source\": \"csv\", \"url\": \"d.csv\", \"labels\": \"label\"}, \"train\": {\"epochs\": 2}}" >"$work/beside/job.json"; }
job_of "\"circuit\": {\"url\": \"model.qasm\", \"inputs\": [\"b\", \"a\"]}"
"$qring" run "$work/beside/job.json" --out "$work/named" >"$work/log" 2>&1 || fail "run: $(cat "$work/log")"
job_of "\"circuit\": $(cat "$work/circuit.json" | tr -d '\n'), \"readouts\": [\"Z1\", \"Z0\"]"
"$qring" run "$work/beside/job.json" --out "$work/written" >"$work/log" 2>&1 || fail "run: $(cat "$work/log")"
for key in job_hash state_digest; do
    check "$key: $(json_string "$work/named/result.json" $key)" test "$(json_string "$work/named/result.json" $key)" = "$(json_string "$work/written/result.json" $key)"
done
job_of "\"circuit\": {\"url\": \"../model.json\", \"inputs\": [\"a\"]}"
sed -i 's/"label"}/"label", "columns": ["b"]}/' "$work/beside/job.json"
"$qring" show "$work/beside/job.json" --json >"$work/out" 2>&1 || fail "a job with Cirq's JSON: $(cat "$work/out")"
check "the read-out of Cirq's JSON" holds "$work/out" '"-2*Z0"'
check "the record has the absolute path" holds "$work/named/job.json" "\"url\": \"$work/beside/model.qasm\""
# rejects CODE WORDS FILE ARGS...
rejects() {
    code=$1 words=$2; shift 2
    "$qring" import "$@" >"$work/out" 2>"$work/output"; rc=$?
    check "import $*: exit $rc, not $code" test $rc = "$code"
    check "import $*: nothing on standard output" test ! -s "$work/out"
    check "import $*: $(cat "$work/output"), not '$words'" holds "$work/output" "$words"
}
printf 'qubit q;\nbit c;\n\tc = measure q;\nif (c) c = measure q;\n' >"$work/bad.qasm"
rejects 2 "cannot import $work/bad.qasm: line 4, column 12: whether this is measured depends on a measured bit" "$work/bad.qasm"
printf '  if (c) c = measure q;\n             ^\n' >"$work/excerpt"
check "the line and a caret: $(cat "$work/output")" sh -c "tail -n 2 '$work/output' | cmp -s - '$work/excerpt'"
rejects 2 "the text has no free symbol 'theta' for an input; it has a, b, w" "$work/model.qasm" --inputs theta
rejects 2 "the input 'a' is named twice; name it once" "$work/model.qasm" --inputs a,a
rejects 2 "no file is given" --layer
rejects 2 "--job needs an npz file" "$work/model.json" --job "$work/other"
rejects 2 "add --job FOLDER" "$work/model.npz" --weights w.h5
rejects 2 "[0].moments[0].operations[0].gate.rads: 'sympy.sin'" - <<J
$(sed 's/sympy.Symbol/sympy.sin/' "$work/model.json")
J
rejects 2 "No such file" "$work/missing.qasm"
printf 'qubit q; U(\033[1m, 0, 0) q;' >"$work/control.qasm"
rejects 2 'line 1, column 12' "$work/control.qasm"
check "control characters are not printed" sh -c "! grep -q '$(printf '\033')' '$work/output'"
end
