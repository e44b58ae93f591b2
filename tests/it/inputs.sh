#!/bin/sh
# Files that a job or a command reads are neither replaced nor deleted by it; closed standard
# streams do not turn log lines into lines of a file.
. "$(dirname "$0")/common"
{ echo a,y; for i in 1 2 3 4 5 6; do echo "0.$i,$((i % 2))"; done; } >"$work/d.csv"
echo '{"name": "a", "model": [{"layer": "dense", "units": 1}], "data": {"source": "csv", "url": "d.csv"}, "train": {"epochs": 3}}' >"$work/a.json"
quick="--logdir= --threads 1 --plaintext"

# Without descriptors 1 and 2, the first files that are opened would get these numbers.
"$qringd" "$work/a.json" --out "$work/closed" --logdir= --http-port 0 </dev/null >&- 2>&-; rc=$?
check "closed stdout and stderr: exit $rc, not 0" test $rc = 0
check "closed stdout and stderr: no log line in steps.jsonl" sh -c "! grep -q severity '$work/closed/steps.jsonl'"
check "closed stdout and stderr: the run verifies" run_to "$work/closed.log" "$qring" verify "$work/closed"

# kept FILE COMMAND...: exit 2, the message names the file, which stays as it is
kept() {
    file=$1; shift
    cp "$file" "$work/before"
    "$@" >"$work/out" 2>"$work/err" </dev/null; rc=$?
    check "$*: exit $rc, not 2" test $rc = 2
    check "$*: the message: $(tail -n 1 "$work/err")" grep -q "cannot write .*$(basename "$file").*this file" "$work/err"
    check "$*: the file is as before" cmp "$file" "$work/before"
}
# shellcheck disable=SC2086
run() { "$qring" run "$@" $quick -q; }
check "a run" run "$work/a.json" --out "$work/o"
$python - "$work" <<'P' || fail "an npz file"
import sys, numpy
numpy.savez(sys.argv[1] + "/data.npz", x=numpy.ones((4, 2)), y=numpy.ones(4))
numpy.savez(sys.argv[1] + "/nan.npz", k=numpy.array([numpy.nan, 1]))
numpy.savez(sys.argv[1] + "/number.npz", k=numpy.array([5.0, 1]))
P
echo '{"model": [{"layer": "dense", "units": 1}], "data": {"source": "npz", "url": "data.npz"}}' >"$work/n.json"
kept "$work/data.npz" run "$work/n.json" --out "$work/n" --weights "$work/data.npz"
kept "$work/data.npz" "$qringd" "$work/n.json" --out "$work/n" --weights "$work/data.npz" --logdir= --http-port 0 --log-format text
for from in weights.h5 weights.safetensors checkpoints/LATEST; do
    initial=train.initial_weights=$work/o/$from
    kept "$work/o/$from" run "$work/a.json" --out "$work/o" --set "$initial" --fresh
    check "initial weights of another run, $from" run "$work/a.json" --out "$work/other" --set "$initial" --fresh
done
mkdir "$work/here"; cp "$work/a.json" "$work/here/job.json"; cp "$work/d.csv" "$work/here"
kept "$work/here/job.json" run "$work/here/job.json" --out "$work/here" --set train.epochs=1
check "the job.json of a run continues it" run "$work/o/job.json" --out "$work/o"
check "the first run verifies" run_to "$work/o.log" "$qring" verify "$work/o"

# commands
echo 'OPENQASM 3.0; input float w; qubit q; U(w, 0, 0) q;' >"$work/c.qasm"
echo '1.0 Z0' >"$work/h.txt"
echo '{"model": [{"layer": "quantum", "circuit": {"url": "c.qasm"}}], "data": {"source": "none"}, "train": {"loss": "expectation"}}' >"$work/c.json"
echo '{"model": [{"layer": "quantum", "circuit": {"qubits": 1, "gates": [{"gate": "H", "qubits": [0]}]}, "readouts": [{"hamiltonian": "h.txt"}]}], "data": {"source": "none"}, "train": {"loss": "expectation"}}' >"$work/h.json"
kept "$work/c.qasm" "$qring" export "$work/c.json" --to qasm3 --out "$work/c.qasm"
kept "$work/h.txt" "$qring" sample "$work/h.json" --shots 10 --out "$work/h.txt"

# Standard output gets more than a buffer at a time; a file gets the same.
check "100000 strings in a file" run_to "$work/log" "$qring" sample "$work/c.json" --shots 100000 --seed 5 --out "$work/strings.csv"
"$qring" sample "$work/c.json" --shots 100000 --seed 5 >"$work/printed.csv" || fail "sample: exit $?"
check "100000 strings: the same are printed" cmp "$work/strings.csv" "$work/printed.csv"
check "100000 strings: $(wc -l <"$work/printed.csv") lines" test "$(wc -l <"$work/printed.csv")" = 100001

# NaN differs from any number.
check "NaN and 5 are compared" run_to "$work/compared" "$qring" weights "$work/nan.npz" "$work/number.npz"
check "NaN and 5 differ: $(cat "$work/compared")" grep -q 'k .* nan' "$work/compared"
end
