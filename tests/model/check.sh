#!/bin/bash
# check.sh [more] — the runs of group.pml: what must hold, and the mutations that must fail. One line each, then "N passed, N failed, N skipped".
# Without an argument: the CI bounds, under 90 s on one core. "more": larger bounds, minutes. Memory is limited to 3 GB.
here=$(cd "$(dirname "$0")" && pwd) passed=0 failed=0
if ! command -v spin >/dev/null || ! command -v gcc >/dev/null; then
    echo "SKIP spin or gcc is missing: apt-get install spin gcc"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT && cd "$work" || exit 1
one() { # holds|fails, then -D options
    local want=$1 got=fails start=$SECONDS; shift
    rm -f pan* out ./*.trail
    spin -a "$@" "$here/group.pml" >out 2>&1 && gcc -O1 -w -DSAFETY -DCOLLAPSE -DNOFAIR -DMEMLIM=2800 -o pan pan.c >>out 2>&1 && nice ./pan -m1000000 -w23 >out 2>&1
    if grep -q 'not completed\|max search depth\|error: \|resource' out && ! grep -q 'assertion violated' out; then got=unfinished
    elif grep -q 'errors: 0' out; then got=holds
    elif ! grep -q 'assertion violated' out; then got=broken; fi
    if [ "$got" = "$want" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    printf '%-10s %-5s %9s states %4d s  %s  %s\n' "$got" "$([ "$got" = "$want" ] && echo ok || echo WRONG)" \
        "$(awk '/states, stored/ {print $1; exit}' out)" $((SECONDS - start)) "$*" "$(grep -o 'assertion violated.*(at' out | cut -c20-80)"
}
one holds -DG=2 -DFAULTS=1 -DB=3 -DS=2
one holds -DG=2 -DFAULTS=1 -DB=2 -DS=1 -DCALM=1 -DCALM_G=4
one fails -DG=2 -DFAULTS=1 -DB=2 -DS=1 -DCALM=1 -DCALM_G=0 # the check of the end can fail
one fails -DG=3 -DFAULTS=0 -DB=2 -DS=1 -DMUT_OVERLAP
one fails -DG=2 -DFAULTS=0 -DB=2 -DMUT_BASE
one fails -DG=2 -DFAULTS=0 -DB=2 -DMUT_SUSPEND
one fails -DG=3 -DFAULTS=0 -DB=2 -DMUT_BEGIN
one holds -DG=2 -DFAULTS=0 -DB=2 -DS=1 -DMUT_ANY # does no harm by itself: a Begin counts only for the present promise
one fails -DG=3 -DFAULTS=0 -DB=2 -DMUT_NUMBER
one fails -DG=2 -DFAULTS=0 -DB=2 -DMUT_EARLY
if [ "$1" = more ]; then
    one holds -DG=3 -DFAULTS=0 -DB=3 -DS=2
    one holds -DG=3 -DFAULTS=1 -DB=2 -DS=1
    one holds -DG=2 -DFAULTS=2 -DB=2 -DS=2
    one holds -DG=2 -DFAULTS=2 -DB=2 -DS=1 -DCALM=1 -DCALM_G=4
fi
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
