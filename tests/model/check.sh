#!/bin/bash
# check.sh [more] — checks the Spin models in this folder: properties that must hold, and mutations
# that must violate one. Prints a line per search (property or violated assertion, states, depth,
# seconds), then "N passed, N failed, N skipped". group.pml: membership and applied sums;
# propose.pml: progress, with times and data streams; latest.pml: checkpoints and LATEST. Their
# headers list what is not modelled. The file searches has the bounds of make test: 38 s of CPU
# time, 1 GB per part. "more" adds searches.more: larger bounds, minutes, at most 6 GB. A search
# passes only if it is complete: no error, no depth or memory limit reached, no bitstate hashing.
# One part per CPU runs at a time (QR_LANES); with "more" one part, which may need all of the
# memory, with compressed states.
here=$(cd "$(dirname "$0")" && pwd) passed=0 failed=0
if ! command -v spin >/dev/null || ! command -v gcc >/dev/null; then
    echo "SKIP spin or gcc is missing: make deps"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi

build() { # model, safety|fair|live, then -D options: builds the verifier of the next searches
    local model=$1 kind=$2 how; shift 2
    what="$model $*" how='' flags=''
    case $kind in
    safety) how='-DSAFETY -DNOCLAIM -DNOFAIR' ;;
    fair) flags='-a -f' how='-DNFAIR=3' ;; # weak fairness
    live) flags='-a' how='-DNOFAIR -DNOREDUCE -DT_REVERSE' ;; # reversed transitions: mutations are found sooner, properties that hold cost the same
    esac
    rm -f pan* ./*.trail out
    # shellcheck disable=SC2086
    if ! { cp "$here/$model.pml" . && spin -a "$@" "$model.pml" && gcc -O1 -w $how $store -DMEMLIM=$limit -o pan pan.c; } >out 2>&1; then
        cat out
        rm -f pan
    fi
}
one() { # holds|fails, description, then VARIABLE=value
    local want=$1 shows=$2 got=broken caught; shift 2
    local start=$SECONDS
    # shellcheck disable=SC2086
    env "$@" ./pan -m200000 -w20 $flags >out 2>&1
    caught=$(sed -n 's/^pan:1: //p' out | head -1)
    if grep -q 'max search depth too small\|out of memory\|memory limit\|Search not completed\|hash-compact\|BITSTATE' out && [ -z "$caught" ]; then got=unfinished
    elif [ -n "$caught" ] && ! grep -q 'too small\|out of memory' <<<"$caught"; then got=fails
    elif [ -n "$flags" ] && ! grep -q 'acceptance   cycles.*+' out; then got='no search for cycles'
    elif grep -q 'errors: 0' out; then got=holds
    fi
    if [ "$got" = "$want" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    printf '%-5s %-6s %s: %s; %s states, depth %s%s, %d s (%s %s)\n' "$([ "$got" = "$want" ] && echo ok || echo WRONG)" "$got" "${what%% *}" "$shows" \
        "$(awk '/states, stored/ {print $1; exit}' out)" "$(sed -n 's/.*depth reached \([0-9]*\).*/\1/p' out)" \
        "$([ "$got" = holds ] && echo ', complete')" $((SECONDS - start)) "${what#* }" "$*"
    if [ "$got" = fails ]; then echo "             caught by: ${caught:0:110}"; fi
    if [ "$got" != "$want" ]; then tail -25 out; fi
}

if [ "$1" = --part ]; then # FOLDER of a part: prints its output in one write; counts go to a file
    limit=$3 store=$4
    cd "$2" || exit 1
    { . ./part; echo "$passed $failed" >counts; } >output 2>&1
    cat output
    exit 0
fi
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT || exit 1
lanes=${QR_LANES:-$(nproc)} limit=900 store= from=$here/searches
[ "$1" != more ] || { lanes=1 limit=6000 store=-DCOLLAPSE; from="$from $here/searches.more"; }
# shellcheck disable=SC2086
cat $from | awk -v to="$work" '/^#/ || /^$/ { next }
    /^build / { n++; dir = sprintf("%s/%03d", to, n); system("mkdir " dir) }
    { print >(dir "/part") }'
printf '%s\n' "$work"/*/ | xargs -I '{}' -P "$lanes" bash "$here/check.sh" --part '{}' "$limit" "$store"
for part in "$work"/*/; do
    read -r p f <"$part/counts" || { p=0 f=1; echo "WRONG        a part ended early: $(head -n 1 "$part/part")"; }
    passed=$((passed + p)) failed=$((failed + f))
    [ $((p + f)) = "$(grep -c '^one ' "$part/part")" ] || { failed=$((failed + 1)); echo "WRONG        $p + $f searches in: $(head -n 1 "$part/part")"; }
done
[ $((passed + failed)) -gt 0 ] || failed=1
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
