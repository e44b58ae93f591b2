#!/bin/sh
# The figures in tests/bench/README.md and the picture match the recorded lines.
. "$(dirname "$0")/common"
check "figures are the recorded ones" $python tests/bench/draw --check
check "the recorded lines begin with the machine" sh -c 'head -qn 1 tests/bench/recorded/*.jsonl | grep -v "^{\"bench\": \"machine\"" | wc -l | grep -qx 0'
check "the table can be made" sh -c 'for f in tests/bench/recorded/*.jsonl; do tests/bench/table "$f"; done >/dev/null'
end
