#!/bin/sh
# One micro-batch of one step kills each worker that computes it: after three deaths the others
# end, all with the same message and a permanent code.
. "$(dirname "$0")/common"
qringd=$root/$QR_B/tests/it/qringd_poison
[ -x "$qringd" ] || { fail "no $qringd: make test builds it"; end; }
sed 's/"name": "qcnn"/"name": "poison", "micro_batch_size": 1/' deploy/jobs/qcnn.json >"$work/job.json"
step=40 micro_batch=13 # of 64

count_gone() { # how many of $pids have ended
    gone=0
    for p in $pids; do
        [ -d "/proc/$p" ] && [ "$(cut -d' ' -f3 "/proc/$p/stat" 2>/dev/null)" != Z ] || gone=$((gone + 1))
    done
}
ring() { # workers, flags
    n=$1 d=$work/ring$1; shift; mkdir -p "$d"
    # shellcheck disable=SC2046
    addresses=$(for p in $(free_ports "$n"); do echo "127.0.0.1:$p"; done)
    pids= i=0
    while [ $i -lt "$n" ]; do
        # shellcheck disable=SC2086
        (POISON="$step $micro_batch" TF_CONFIG=$(tf_config $i $addresses) exec "$qringd" "$work/job.json" --data-port 0 --epochs 100 --out "$d/out" "$@" \
            >"$d/worker$i.log" 2>&1 </dev/null) &
        pids="$pids $!" started="$started $!" i=$((i + 1))
    done
    third=0 tries=0
    while count_gone; [ $gone -lt "$n" ] && [ $tries -lt 6000 ]; do
        [ $gone -lt 3 ] || [ $third != 0 ] || third=$(now_ms)
        tries=$((tries + 1)); sleep 0.01
    done
    last=$(now_ms) codes= killed=0 ended=0 i=0 said=
    [ $third != 0 ] || third=$last
    for p in $pids; do
        kill -9 "$p" 2>/dev/null; wait "$p" 2>/dev/null; rc=$?; codes="$codes $rc"
        if [ $rc = 137 ]; then killed=$((killed + 1)); fi
        if [ $rc = 4 ]; then
            ended=$((ended + 1))
            words=$(grep -o "step [0-9]*: micro-batch $micro_batch killed 3 workers, one after the other: [^\"]*" "$d/worker$i.log" | tail -n 1)
            [ -z "$said" ] || check "worker $i of $n says what the others say: $words" test "$words" = "$said"
            said=$words
        fi
        i=$((i + 1))
    done
    check "a ring of $n: three are killed, the others end with 4:$codes" test "$killed $ended" = "3 $((n - 3))"
    check "the sentence names workers and samples: $said" test -n "$(echo "$said" | grep 'worker [0-9] (127.0.0.1:[0-9]*), .*; it has training samples [0-9]*:')"
    echo "poison micro-batch in a ring of $n: $said"
    bound "poison micro-batch in a ring of $n: all have ended after the third death" $((last - third)) 2000
}
ring 4 --min-workers 1 --log-level debug
ring 5 --min-workers 3 --threads 2 --log-level debug
end
