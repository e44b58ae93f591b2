#!/bin/sh
# The Python package over build/release/libqring.so.1: all tests but those of frameworks, which
# make python runs. Packages of CPython 3.11 come from PyPI, those of other versions from Debian.
. "$(dirname "$0")/common"
case $QR_B in *address* | *thread*) skip "Python is not built with sanitizers"; end; exit ;; esac
export QRING_LIBRARY="$root/$QR_B/libqring.so.1" QRING="$qring" PYTHON=/usr/bin/python3 HELM
run_in 600 "$work/venv.log" "$root/tests/venv" "$root/build/tools/python" "$root/tests/python/packages.txt" 600
case $? in
0) PYTHON=$root/build/tools/python/bin/python ;;
77) ;;
*) fail "$(tail -n 1 "$work/venv.log")" ;;
esac
HELM=$("$root/tests/chart/tools" helm3 2>"$work/helm.log") || fail "$(tail -n 1 "$work/helm.log")"
run_in 900 "$work/log" "$root/tests/python/run" -rs --ignore=tests/test_torch.py --ignore=tests/test_jax.py --ignore=tests/test_keras.py \
    --ignore-glob='tests/test_pennylane*' --ignore=tests/test_frameworks_page.py
rc=$?
check "pytest ends with 0, not $rc" test $rc = 0
last=$(tail -n 1 "$work/log")
count() { echo "$last" | sed -n "s/.*\(^\|[^0-9]\)\([0-9][0-9]*\) $1.*/\2/p"; }
n=$(count passed) bad=$(count failed) broken=$(count error) without=$(count skipped)
check "number of tests: $last" test "${n:-0}" -ge 600
passed=$((passed + ${n:-0})) failed=$((failed + ${bad:-0} + ${broken:-0})) skipped=$((skipped + ${without:-0}))
grep -E '^(SKIPPED|FAILED|ERROR|E  )' "$work/log" | sed 's/^SKIPPED/SKIP/' | head -n 40
end
