#!/bin/sh
# Certificate files in every state that a partial write can leave, under two training workers: no
# worker ends, both keep the last good pair, and the next good pair is used. Every step is that of
# one worker alone.
. "$(dirname "$0")/common"
command -v openssl >/dev/null || { skip "no openssl"; end; }
sed 's/"name": "qcnn"/"name": "tls"/' deploy/jobs/qcnn.json >"$work/job.json"
a=$work/a live=$work/live
certs() { "$qring" certs tls --namespace ml "$@" >"$work/certs.log" 2>&1 || fail "qring certs: $(cat "$work/certs.log")"; }
certs --out "$a" --keep-ca
mkdir "$live"; cp "$a/tls.crt" "$a/tls.key" "$a/ca.crt" "$live"
# shellcheck disable=SC2046
set -- $(free_ports 2); p0=$1 p1=$2
for i in 0 1; do
    TF_CONFIG=$(tf_config $i 127.0.0.1:$p0 127.0.0.1:$p1) "$qringd" "$work/job.json" --data-port 0 --tls-dir "$live" --epochs 1000000 \
        --out "$work/out" >"$work/$i.log" 2>&1 </dev/null & started="$started $!"; eval w$i=$!
done
steps() { [ ! -e "$work/out/steps.jsonl" ] || wc -l <"$work/out/steps.jsonl"; }
# eventually WHAT COMMAND...: the command succeeds within a minute
eventually() { what=$1 tries=0; shift; until "$@"; do tries=$((tries + 1))
    kill -0 "$w0" && kill -0 "$w1" && [ $tries -lt 600 ] || { fail "$what"; end; }; sleep 0.1; done; pass; }
more_than() { n=$(steps) && [ "${n:-0}" -gt "$1" ]; }
eventually "two workers train" more_than 5
served_serial() { timeout 5 openssl s_client -connect 127.0.0.1:$p0 -alpn h2 -cert "$a/tls.crt" -key "$a/tls.key" </dev/null 2>/dev/null | openssl x509 -noout -serial 2>/dev/null; }
serial() { openssl x509 -in "$1" -noout -serial; }
serves() { test "$(served_serial)" = "$(serial "$1")"; }
eventually "the first certificate is served" serves "$a/tls.crt"

# bad WHAT FILE COMMAND...: runs the command, which makes FILE unusable, waits until both workers
# have logged that and gRPC has had time to read FILE, then restores the file
bad() {
    state=$1 file=$2; shift 2
    for i in 0 1; do eval "warned$i=$(lines $i "$unusable") reread$i=$(lines $i "$usable")"; done
    "$@" >"$work/write.log" 2>&1
    for i in 0 1; do eval "n=\$warned$i"; eventually "$state: worker $i names the file" names $i "$n" "$file"; done
    sleep 1.2
    kill -0 $w0 && kill -0 $w1 || { fail "$state: a worker has ended"; end; }
    check "$state: the last good certificate is served" serves "$a/tls.crt"
    for i in 0 1; do eval "n=\$warned$i"; check "$state: worker $i warns once" test "$(lines $i "$unusable")" = $((n + 1)); done
    rm -rf "${live:?}/$file"; cp "$a/tls.crt" "$a/tls.key" "$a/ca.crt" "$live"
    for i in 0 1; do eval "n=\$reread$i"; eventually "$state: worker $i reads the good files" more_lines $i "$usable" "$n"; done
}
unusable='cannot use the changed certificates' usable='files can be used again'
lines() { grep -c "$2" "$work/$1.log"; }
more_lines() { test "$(lines "$1" "$2")" -gt "$3"; }
names() { more_lines "$1" "$unusable" "$2" && grep "$unusable" "$work/$1.log" | tail -n 1 | grep -qF "$live/$3"; }
shorter() { head -c $(($(wc -c <"$a/$1") / 2)) "$a/$1" >"$live/$1"; }
renamed() { : >"$live/.new"; mv "$live/.new" "$live/$1"; }
full() { (trap '' XFSZ; ulimit -f 0; cat "$a/$1" >"$live/$1"); } # as on a full disk: truncated, then the write fails
folder() { rm "$live/$1"; mkdir "$live/$1"; }
fifo() { rm "$live/$1"; mkfifo "$live/$1"; }
loop() { rm "$live/$1"; ln -s "$1" "$live/$1"; } # cannot be opened, even by root
removed() { rm "$live/$1"; }
# every file in every state: tests/unit/test_certificate_reload.c
for how in shorter renamed full folder fifo loop removed; do bad "tls.crt: $how" tls.crt $how tls.crt; done
for how in shorter full folder removed; do bad "tls.key: $how" tls.key $how tls.key; done
for how in renamed fifo removed; do bad "ca.crt: $how" ca.crt $how ca.crt; done

# Files overwritten with the same bytes: a worker may read an empty file.
caught_up() { grep -e "$unusable" -e "$usable" "$work/$1.log" | tail -n 1 | grep -q "$usable"; }
i=0; while [ $i -lt 300 ]; do cp "$a/tls.crt" "$a/tls.key" "$a/ca.crt" "$live"; i=$((i + 1)); done
for i in 0 1; do eventually "files overwritten 300 times: worker $i has read the last" caught_up $i; done

# a new certificate with the old key, then with its own key
old=$work/old; cp -R "$a" "$old"
certs --ca "$a" --out "$work/next"
# By rename: a worker that reads a file truncated by cp logs another error first.
new_certificate() { cp "$work/next/tls.crt" "$live/.new"; mv "$live/.new" "$live/tls.crt"; }
a=$old; bad "a new certificate with the old key" tls.key new_certificate
cp "$work/next/tls.crt" "$live/tls.crt"; cp "$work/next/tls.key" "$live/tls.key"
eventually "the renewed certificate is served with its key" serves "$work/next/tls.crt"
for i in 0 1; do eventually "worker $i logs the renewal" holds "$work/$i.log" 'renewed certificate'; done

had=$(steps); eventually "both workers continue to train" more_than $((had + 20))
kill -TERM $w0 $w1; wait $w0; rc0=$?; wait $w1; rc1=$?
check "both workers end on SIGTERM: $rc0, $rc1" test "$rc0 $rc1" = "143 143"
n=$(steps); epochs=$(tail -n 1 "$work/out/steps.jsonl" | sed 's/.*"epoch": *\([0-9]*\).*/\1/')
"$qringd" "$work/job.json" --epochs $((epochs + 1)) --out "$work/long" >"$work/long.log" 2>&1 </dev/null
head -n "$n" "$work/long/steps.jsonl" >"$work/long.steps"
check "every step is that of one worker, to 17 digits" cmp "$work/long.steps" "$work/out/steps.jsonl"
end
