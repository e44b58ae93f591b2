#!/bin/bash
# check.sh [more] — the runs of the Spin models here: what must hold, and the mutations that must fail. One line each: what it proves or which property
# caught the mutation, states, depth, seconds; then "N passed, N failed, N skipped". group.pml: who belongs, and what is applied; propose.pml: that
# it comes to an end, with times, data streams too; latest.pml: checkpoints and LATEST; poison.pml: a block that kills. Their headers say what each leaves out.
# Without an argument: the bounds of make test, under 40 s and 1 GB on one core. "more": larger bounds, minutes, at most 6 GB. A search counts as a pass
# only when it is complete: no error, no depth or memory limit reached, no bits for states.
here=$(cd "$(dirname "$0")" && pwd) passed=0 failed=0
if ! command -v spin >/dev/null || ! command -v gcc >/dev/null; then
    echo "SKIP spin or gcc is missing: apt-get install spin gcc"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT && cd "$work" || exit 1
limit=900 && [ "$1" = more ] && limit=6000

build() { # model, safety|fair|live, then -D options: what the next runs use
    local model=$1 kind=$2 how; shift 2
    what="$model $*" how='' flags=''
    case $kind in
    safety) how='-DSAFETY -DNOCLAIM -DNOFAIR' ;;
    fair) flags='-a -f' how='-DNFAIR=3' ;; # weak fairness
    live) flags='-a' how='-DNOFAIR -DNOREDUCE -DT_REVERSE' ;; # in the other order: these mutations are met sooner, what holds costs the same
    esac
    rm -f pan* ./*.trail out
    # shellcheck disable=SC2086
    if ! { cp "$here/$model.pml" . && spin -a "$@" "$model.pml" && gcc -O1 -w $how -DCOLLAPSE -DMEMLIM=$limit -o pan pan.c; } >out 2>&1; then
        cat out
        rm -f pan
    fi
}
one() { # holds|fails, what it shows, then VARIABLE=value
    local want=$1 shows=$2 got=broken caught; shift 2
    local start=$SECONDS
    # shellcheck disable=SC2086
    nice env "$@" ./pan -m200000 -w20 $flags >out 2>&1
    caught=$(sed -n 's/^pan:1: //p' out | head -1)
    if grep -q 'max search depth too small\|out of memory\|memory limit\|Search not completed\|hash-compact\|BITSTATE' out && [ -z "$caught" ]; then got=unfinished
    elif [ -n "$caught" ] && ! grep -q 'too small\|out of memory' <<<"$caught"; then got=fails
    elif [ -n "$flags" ] && ! grep -q 'acceptance   cycles.*+' out; then got='no cycles looked for'
    elif grep -q 'errors: 0' out; then got=holds
    fi
    if [ "$got" = "$want" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    printf '%-5s %-6s %s: %s; %s states, depth %s%s, %d s (%s %s)\n' "$([ "$got" = "$want" ] && echo ok || echo WRONG)" "$got" "${what%% *}" "$shows" \
        "$(awk '/states, stored/ {print $1; exit}' out)" "$(sed -n 's/.*depth reached \([0-9]*\).*/\1/p' out)" \
        "$([ "$got" = holds ] && echo ', complete')" $((SECONDS - start)) "${what#* }" "$*"
    if [ "$got" = fails ]; then echo "             caught by: ${caught:0:110}"; fi
    if [ "$got" != "$want" ]; then tail -25 out; fi
}

build group safety -DB=2 -DS=1 -DSLOTS=3
one holds 'once, ids, front, between, stable with a crash or a leaver' G=2 FAULTS=1 LEAVE=1
one fails 'held sets that overlap are kept' G=3 MUT=1
one fails 'works on in the old generation after a promise' G=2 MUT=3
one fails 'takes a Begin that it has not promised' G=3 MUT=4
one fails 'ids are compared by number alone' G=3 MUT=6
one fails 'applies before every contribution has come' G=2 MUT=7
one fails 'publishes before it is stable' G=2 MUT=8
one fails 'what is handed over is joined at once' G=2 FAULTS=1 LEAVE=2 MUT=9
one fails 'what is handed over is joined though it overlaps' G=3 FAULTS=1 LEAVE=2 MUT=10
one fails 'what is handed over after the promise is joined' G=2 FAULTS=1 LEAVE=2 MUT=12
one fails 'a Begin that comes again is taken again' G=2 MUT=13
build group safety -DB=2 -DS=2 -DSLOTS=3
one holds 'the same over two steps, with a leaver' G=2 FAULTS=1 LEAVE=2
one fails 'blocks of another state are kept' G=3 MUT=2
one fails 'what is handed over comes from another step' G=2 FAULTS=1 LEAVE=2 MUT=11
build group safety -DB=2 -DS=1 -DSLOTS=6 -DCALM=1
one holds 'end: all finish once faults stop, or are too few' G=2 FAULTS=1 LEAVE=2 MINW=2
one fails 'end: a smaller id is promised too' G=2 MUT=5
one fails 'end: the check itself, with no proposal left' G=6
build latest safety -DS=3
one holds 'monotone, acked, whole with a kill and a power cut, two halves' FAULTS=1 CUTS=1
one fails 'LATEST is written without compare-and-swap' FAULTS=1 MUT=1
one fails 'LATEST moves to an older state' FAULTS=1 MUT=2
one fails 'LATEST is written before its object' FAULTS=1 MUT=3
one fails 'a name is on disk before its content' FAULTS=1 CUTS=1 MUT=4
one fails 'pruned before the new LATEST is on disk' FAULTS=1 CUTS=1 MUT=5
one fails 'what LATEST names is pruned' FAULTS=1 MUT=6
one fails 'what is newer than LATEST is pruned' FAULTS=1 MUT=7
build latest fair -DS=2
one holds 'end: all end and LATEST says done, on disk too' FAULTS=1
one fails 'end: a lost swap is tried again with the version that lost' FAULTS=1 MUT=8

build propose live
one holds 'end: links that break and come back' FAULTS=1
one holds 'end: data streams that break, kills' FAULTS=2 KINDS=6
one fails 'end: suspend is forgotten' FAULTS=1 MUT=1
one fails 'end: a back-off without end' FAULTS=2 KINDS=1 MUT=2
one fails 'end: proposes without those it hears' FAULTS=1 MUT=3
one fails 'end: a member that is heard may be left out' FAULTS=1 MUT=5
one fails 'end: no look at who reports another generation' FAULTS=1 MUT=6
one fails 'end: no second try when a Begin is overdue' FAULTS=2 KINDS=1 MUT=7
one holds 'end: links that carry control and no data, each way and both' FAULTS=1 KINDS=8 HEAL=1
one fails 'end: hears who passes no data' FAULTS=1 KINDS=8 HEAL=1 MUT=9
one fails 'end: a stream that was given up is not renewed' FAULTS=1 KINDS=8 HEAL=1 MUT=10
one fails 'end: that the other has given the stream up counts for nothing' FAULTS=1 KINDS=8 HEAL=1 MUT=11
one fails 'end: the silence of a stream is not seen' FAULTS=1 KINDS=8 HEAL=1 MUT=12

build poison safety
one holds 'blame, bound' POISON=0
one holds 'blame: two deaths by chance, no block that kills' POISON=3 CHANCE=2
one fails 'suspects are not told before they are computed' POISON=1 MUT=1
one fails 'every death counts for all blocks of its owner' POISON=1 MUT=2
one fails 'a Begin does not carry the list of deaths' POISON=1 MUT=3
one fails 'blocks with two deaths are computed together' POISON=1 MUT=4
build poison fair
one holds 'end: the job ends, naming it' POISON=1
one holds 'end: the step is applied' POISON=3

if [ "$1" = more ]; then
    build group safety -DB=3 -DS=2 -DSLOTS=3
    one holds 'three blocks, two steps, a crash or a leaver' G=2 FAULTS=1 LEAVE=1
    build group safety -DB=2 -DS=1 -DSLOTS=3
    one holds 'three proposals' G=3
    one holds 'two crashes or leavers' G=2 FAULTS=2 LEAVE=1
    build group safety -DB=2 -DS=1 -DSLOTS=6 -DCALM=1
    one holds 'end: all finish once faults stop' G=2 FAULTS=1 LEAVE=1
    build latest safety -DS=3
    one holds 'two kills and a power cut' FAULTS=2 CUTS=1
    build latest fair -DS=2
    one holds 'end: with a power cut' FAULTS=1 CUTS=1
    build propose live
    one holds 'end: two faults of links' FAULTS=2 KINDS=1
    one holds 'end: three broken streams' FAULTS=3 KINDS=2
    one holds 'end: links that carry no data and heal at any time' FAULTS=1 KINDS=8
    one holds 'end: a stream that breaks and is dialed again' FAULTS=1 KINDS=16
    one holds 'end: two links that carry no data, kills' FAULTS=2 KINDS=12 HEAL=1
    build poison safety
    one fails 'blame: known, two named together and a third by chance' POISON=1 CHANCE=1
fi
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
