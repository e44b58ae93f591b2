#!/bin/sh
# The Python package over build/release/libqring.so.1: its tests that need NumPy alone. Those of
# frameworks are run by make python.
. "$(dirname "$0")/common"
export QRING_LIBRARY="$root/$QR_B/libqring.so.1" QRING="$qring"
case $QR_B in *address*) skip "Python is not built with sanitizers"; end ;; esac
run_in 600 "$work/log" "$root/tests/python/run" -rs --ignore=tests/test_torch.py --ignore=tests/test_jax.py --ignore=tests/test_keras.py \
    --ignore=tests/test_pennylane.py
rc=$?
check "pytest ends with 0, not $rc" test $rc = 0
last=$(tail -n 1 "$work/log")
count() { echo "$last" | sed -n "s/.*\(^\|[^0-9]\)\([0-9][0-9]*\) $1.*/\2/p"; }
n=$(count passed) bad=$(count failed) broken=$(count error) without=$(count skipped)
check "its last line counts: $last" test "${n:-0}" -ge 400
passed=$((passed + ${n:-0})) failed=$((failed + ${bad:-0} + ${broken:-0})) skipped=$((skipped + ${without:-0}))
grep -E '^(SKIPPED|FAILED|ERROR|E  )' "$work/log" | sed 's/^SKIPPED/SKIP/' | head -n 40
end
