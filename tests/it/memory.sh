#!/bin/sh
# The memory that `qring validate` predicts is what a worker uses, within 10 %. LONG=1: up to 30
# qubits, some five minutes.
. "$(dirname "$0")/common"
unset TF_CONFIG
case $QR_B in */release) ;; *) skip "sanitizers change the memory use"; end ;; esac
qubits=8,12,16,20,23
[ "$LONG" != 1 ] || qubits=$qubits,26,28,30
$python "$root/tests/it/memory.py" "$qring" "$qringd" "$work" "$qubits" >"$work/log" 2>&1 || fail "memory.py ended with $?"
grep -v ' passed, ' "$work/log"
add "$work/log"
end
