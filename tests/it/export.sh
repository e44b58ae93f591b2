#!/bin/sh
# qring show --format; qring export: a job's circuit with symbols and with the values of its
# weights; layers, copies, inputs, --out; qring import reads the output; weights by name; errors and
# exit codes.
. "$(dirname "$0")/common"
"$qring" export deploy/jobs/qcnn.json --to qasm3 >"$work/symbols.qasm" || fail "export: exit $?"
check "20 parameters by name" test "$(grep -c '^input float\[64\] qconv' "$work/symbols.qasm")" = 20
check "a measurement for each read-out" test "$(grep -c measure "$work/symbols.qasm")" = 4
"$qring" import "$work/symbols.qasm" --inputs x0,x1,x2,x3,x4,x5,x6,x7 >"$work/circuit.json" || fail "import: exit $?"
check "8 columns" grep -q '"columns": 8' "$work/circuit.json"
"$qring" weights --init deploy/jobs/qcnn.json --seed 7 --to "$work/w.npz" >"$work/out" || fail "weights: exit $?"
"$qring" weights --init deploy/jobs/qcnn.json --seed 7 >"$work/w.csv" || fail "weights: exit $?"
"$qring" weights "$work/w.npz" --job deploy/jobs/qcnn.json --values >"$work/values.csv" || fail "weights: exit $?"
check "weights --values prints what --init does" cmp -s "$work/w.csv" "$work/values.csv"
for form in cirq tfq python; do
    "$qring" export deploy/jobs/qcnn.json --to $form >"$work/out" || fail "export --to $form: exit $?"
    check "$form has parameters by name" grep -aq qconv20 "$work/out"
done
"$qring" export deploy/jobs/qcnn.json --to cirq >"$work/circuit" || fail "export: exit $?"
check "a circuit for Cirq is one JSON object" test "$(head -c 1 "$work/circuit")" = "{"
"$qring" export deploy/jobs/qcnn.json --to tfq >"$work/program" || fail "export: exit $?"
"$qring" export deploy/jobs/qcnn.json --to cirq --readouts >"$work/list" || fail "export --readouts: exit $?"
for form in circuit program; do
    "$qring" import "$work/$form" >"$work/output" || fail "import of $form: exit $?"
done
"$qring" import "$work/list" --layer >"$work/output" || fail "import of a list: exit $?"
check "the list has the read-outs" $python - "$work/output" <<'J'
import json, sys
assert json.load(open(sys.argv[1]))["readouts"] == ["Z4", "Z5", "Z6", "Z7"]
J
"$qring" export deploy/jobs/qcnn.json --weights "$work/w.npz" --inputs 1,2,3,4,5,6,7,8 --to qasm3 --out "$work/numbers.qasm" ||
    fail "export: exit $?"
check "no symbols remain" sh -c "! grep -q ^input '$work/numbers.qasm'"
check "the exported angle of qconv15" $python - "$work/w.csv" "$work/numbers.qasm" <<'J'
import csv, math, re, sys
w = {r["parameter"]: float(r["value"]) for r in csv.DictReader(open(sys.argv[1]))}
last = re.findall(r"^rx\((.*)\) q\[7\];", open(sys.argv[2]).read(), re.M)[-1]
assert math.isclose(float(last), -math.pi * w["qconv15"], rel_tol=1e-15), (last, w["qconv15"])
J
"$qring" show --format svg --columns 100 >"$work/circuit.svg" || fail "show: exit $?"
check "the SVG is XML of at most 800 pixels" $python - "$work/circuit.svg" <<'J'
import sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
assert root.tag.endswith("svg") and float(root.get("width")) <= 800, root.attrib
J
"$qring" show --format latex >"$work/circuit.tex" || fail "show: exit $?"
check "the LaTeX has several circuits of the width of 120 columns" test "$(grep -c 'begin{quantikz}' "$work/circuit.tex")" = 5
# rejects WORDS ARGS...
rejects() {
    words=$1; shift
    "$qring" export "$@" >"$work/out" 2>"$work/output"; rc=$?
    check "export $*: exit $rc, not 2" test $rc = 2
    check "export $*: $(cat "$work/output"), not '$words'" holds "$work/output" "$words"
}
rejects "--to is missing; choose one of qasm3"
rejects "unknown format 'qasm'; choose one of qasm3" --to qasm
rejects "qasm2 has no symbols, and the circuit has parameters (qconv0); give weights" --to qasm2
rejects "has no read-outs" --to tfq --readouts
rejects "--layer: model[1] is not a quantum layer" --to qasm3 --layer 1
rejects "--copy: '1' is not a number from 0 to 0" --to qasm3 --copy 1
rejects "--inputs has 2 numbers, but the circuit has 8 inputs" --to qasm3 --inputs 1,2
rejects "--inputs: 'a' is not a number" --to qasm3 --inputs 1,a
rejects "No such file" --to qasm3 --weights "$work/missing.npz"
rejects "the job has no quantum layer" deploy/jobs/examples/mlp.json --to qasm3
layer='{"layer": "quantum", "circuit": {"qubits": 4, "gates": [{"gate": "RX", "qubits": [0], "angle": "w*x[0]*x[3]"}]}}'
rejects "several quantum layers: model[0], model[1]; choose one with --layer" --to qasm3 --set "model[1]=$layer"
end
