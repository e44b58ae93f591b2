#!/bin/sh
# qring import: the circuit that it prints is one that a job takes, with the same gates; --inputs and
# --layer; errors show the line and a caret; standard input; exit codes.
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
check "a job takes the layer" $python - "$work/shown" <<'J'
import json, sys
shown = json.load(open(sys.argv[1]))
assert shown["qubits"] == 2 and shown["circuit_parameters"] == 1 and shown["readouts"] == ["Z1", "Z0"], shown
J
# rejects CODE WORDS FILE ARGS...
rejects() {
    code=$1 words=$2; shift 2
    "$qring" import "$@" >"$work/out" 2>"$work/said"; rc=$?
    check "import $*: exit $rc, not $code" test $rc = "$code"
    check "import $*: nothing on standard output" test ! -s "$work/out"
    check "import $*: $(cat "$work/said"), not '$words'" holds "$work/said" "$words"
}
printf 'qubit q;\nbit c;\n\tc = measure q;\nif (c) U(1, 2, 3) q;\n' >"$work/bad.qasm"
rejects 2 "cannot import $work/bad.qasm: line 4, column 5: the condition depends on a measurement" "$work/bad.qasm"
printf '  if (c) U(1, 2, 3) q;\n      ^\n' >"$work/excerpt"
check "the line and a caret: $(cat "$work/said")" sh -c "tail -n 2 '$work/said' | cmp -s - '$work/excerpt'"
rejects 2 "the text has no free symbol 'theta' for an input; it has a, b, w" "$work/model.qasm" --inputs theta
rejects 2 "no file is given" --layer
rejects 2 "No such file" "$work/missing.qasm"
printf 'qubit q; U(\033[1m, 0, 0) q;' >"$work/control.qasm"
rejects 2 'line 1, column 12' "$work/control.qasm"
check "control characters are not printed" sh -c "! grep -q '$(printf '\033')' '$work/said'"
end
