#!/bin/sh
# The committed state digests of each contract version: for the fastest kernel table of this
# machine, with LONG=1 for all. Above 20 qubits the portable table takes 5 to 40 s per job: only
# "full" (make matrix) runs those.
. "$(dirname "$0")/common"
full=$1
tables=""
for isa in portable avx2 avx512; do
    if "$qring" run "$root/tests/golden/digests/jobs/hybrid-4.json" -n 1 --epochs 1 --isa $isa --out "$work/probe" >"$work/probe.log" 2>&1 </dev/null; then tables="$tables $isa"
    elif [ $isa = portable ]; then fail "the portable table does not run"; tail -n 3 "$work/probe.log"
    else skip "no $isa on this CPU: its digests are not checked"; fi
done
[ -n "$full${LONG:-}" ] || tables=${tables##* }
for contract in f32-v1 f64-v1; do
    while read -r name step digest; do
        [ "$name" != "#" ] || continue
        job=tests/golden/digests/jobs/$name.json
        qubits=$(grep -oE '"qubits": *[0-9]+' "$job" | grep -oE '[0-9]+$' | sort -n | tail -n 1)
        if [ $contract = f64-v1 ]; then
            sed '1,/"name"/s/\("name".*\)/\1\n "precision": "double",/' "$job" >"$work/$name.json"; job=$work/$name.json
        fi
        for isa in $tables; do
            if [ "$isa" = portable ] && [ "${qubits:-0}" -gt 20 ] && [ "$full" != full ]; then continue; fi
            out=$work/$contract-$isa-$name
            if ! run_to "$work/log" "$qringd" "$job" --isa "$isa" --out "$out"; then fail "$contract $name $isa: exit $?"; tail -n 3 "$work/log"; continue; fi
            got="$(sed -n 's/.*"steps" *: *\([0-9]*\).*/\1/p' "$out/result.json") $(json_string "$out/result.json" state_digest)"
            if [ "$got" = "$step $digest" ]; then pass; else fail "$contract $name by $isa: step and digest $got, committed $step $digest"; fi
        done
    done <tests/golden/digests/$contract.tsv
done
end
