#!/bin/sh
# Instruction counts of the hot paths match the committed ones, and doubled work is detected.
. "$(dirname "$0")/common"
$python tests/bench/counts check >"$work/log"
grep -v ' passed, ' "$work/log"
add "$work/log"
if grep -q '^SKIP no AVX2' "$work/log"; then end; fi
$python tests/bench/counts check json-parse-tutorial 2 >"$work/twice"
check "a slowdown is noticed" holds "$work/twice" "not so: json-parse-tutorial takes "
end
