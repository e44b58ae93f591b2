#!/bin/sh
# The figures in tests/bench/README.md and the plot match the recorded results.
. "$(dirname "$0")/common"
check "figures match the recorded results" $python tests/bench/draw --check
check "recorded results begin with a description of the machine" sh -c 'head -qn 1 tests/bench/recorded/*.jsonl | grep -v "^{\"bench\": \"machine\"" | wc -l | grep -qx 0'
check "a table can be made of each recording" sh -c 'for f in tests/bench/recorded/*.jsonl; do tests/bench/table "$f" || exit 1; done >/dev/null'
end
