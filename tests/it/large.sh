#!/bin/sh
# A ring of 32 workers over TLS on this machine trains to the digest of one worker.
. "$(dirname "$0")/common"
job=deploy/jobs/qcnn.json
for n in 1 32; do
    run_to "$work/log-$n" "$qring" run $job -n $n --threads 1 --epochs 2 --out "$work/$n" || { fail "$n workers: exit $?"; tail -n 5 "$work/log-$n"; }
done
one=$(json_string "$work/1/result.json" state_digest)
check "32 workers: $one" test -n "$one" -a "$one" = "$(json_string "$work/32/result.json" state_digest)"
end
