#!/bin/sh
# `qring show --plan` prints the tutorial's plan as lib/sim/planner.md explains it; the same as
# JSON; every engine gives the reason for its choice.
. "$(dirname "$0")/common"
"$qring" show --plan >"$work/output" 2>&1 || fail "show --plan: exit $?"
awk '/^```$/ { if (inside) exit; inside = 1; next } inside' lib/sim/planner.md >"$work/page"
check "lib/sim/planner.md has the printed plan: $(diff "$work/page" "$work/output" | head -n 6)" cmp -s "$work/page" "$work/output"
"$qring" show --json >"$work/json" || fail "show --json: exit $?"
check "--json: the same numbers" $python - "$work/json" "$work/output" <<'J'
import json, re, sys
v, text = json.load(open(sys.argv[1])), open(sys.argv[2]).read()
plan = v["plan"]
assert v["engine"] == plan["engine"] == "streaming" and plan["order"] == "direction known" and v["zero_gradient"] == ["qconv20"]
for line in plan["lines"]:
    assert line["text"].split()[0] in text
per_batch = [s for s in plan["stages"] if s["per"] == "micro-batch"]
assert plan["flop"] == sum(s["flop"] for s in per_batch) and plan["bytes"] == sum(s["bytes"] for s in per_batch)
assert plan["flop"] == plan["samples_of_a_micro_batch"] * v["flop_per_gradient"]
assert plan["workspace_bytes"] == sum(m["bytes"] for m in plan["memory"]) < v["bytes_per_thread"]
assert len(plan["fused_gates"]) == v["fused_gates"] == 10 and {b["part"] for b in plan["fused_gates"]} == {"layer 1", "tail"}
assert sum(s["fused_gates"] for s in plan["shapes"]) == 10
for half in (1, 2): # disjoint pairs that reach every qubit
    q = [x for b in plan["fused_gates"] if b["part"] == "layer 1" and b["half_layer"] == half for x in b["qubits"]]
    assert sorted(q) == list(range(8)), q
gates = {s["shape"]: len(s["gates"].split()) for s in plan["shapes"]}
assert sum(gates[b["shape"]] for b in plan["fused_gates"]) + 3 * 8 + 4 == v["gates"] # H, CZ, RX; the pool's CNOTs
assert re.search(r"total +%.3g Kflop" % (v["flop_per_gradient"] / 1000), text)
J
# engine JOB ENGINE WORDS: the plan has this engine, and these words as the reason
engine() {
    "$qring" show "$1" --plan >"$work/other" 2>&1 || fail "show $1: exit $?"
    check "$1: $2 engine" holds "$work/other" "plan        $2 engine"
    check "$1: prints '$3'" holds "$work/other" "$3"
}
jobs=tests/golden/digests/jobs
engine $jobs/hybrid-4.json statevector "4 qubits: streaming supports 8 to 36"
engine $jobs/hybrid-15-angles.json cones "each read-out term depends on at most 12 qubits"
engine $jobs/pure-24.json streaming "all threads share the slices of one sample"
engine $jobs/pure-11.json streaming "16 samples side by side"
engine $jobs/pure-12.json streaming "cones: the read-outs' cones are too wide to contract"
# inputs: data columns, and expressions of data columns
cat >"$work/expressions.json" <<'J'
{"model": [{"layer": "dense", "units": 4},
  {"layer": "quantum", "circuit": {"qubits": 4, "gates": [{"repeat": "n", "index": "i", "gates": [
    {"gate": "RX", "qubits": ["i"], "angle": "a{i}*x[{i}] + b{i}"}, {"gate": "RY", "qubits": ["i"], "angle": "c{i}*x[{i}]"},
    {"gate": "RX", "qubits": ["i"], "angle": "sin(x[{i}])*d{i}"}]}]}}],
 "data": {"source": "csv", "url": "columns.csv"}}
J
echo a,b,y >"$work/columns.csv"; echo 0.1,0.2,1 >>"$work/columns.csv"
"$qring" show "$work/expressions.json" --plan >"$work/inputs" 2>&1
check "4 inputs are counted as 4, not 16" holds "$work/inputs" "derivatives with respect to 4 of 4 data columns and 12 of 12 expressions of data columns"
check "the circuit is drawn only without --plan" sh -c "! grep -q '─' '$work/other' && '$qring' show | grep -q '─'"
end
