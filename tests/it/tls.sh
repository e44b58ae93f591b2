#!/bin/sh
# TLS between workers, with certificates from `qring certs`; OpenSSL's tools check the
# certificates and try to connect. Certificates change while two workers train; every step is that
# of one worker alone.
. "$(dirname "$0")/common"
command -v openssl >/dev/null || { skip "no openssl"; end; }
sed 's/"name": "qcnn"/"name": "tls"/' deploy/jobs/qcnn.json >"$work/job.json"
digest() { json_string "$1/result.json" state_digest; }
expect() { rc=$1 words=$2; shift 2; "$@" >"$work/output" 2>&1 </dev/null; got=$?
    check "exit code $rc, not $got: $*" test $got = "$rc"; check "'$words' in: $(cat "$work/output")" holds "$work/output" "$words"
    check "no key in the output: $*" test "$(grep -c 'PRIVATE KEY' "$work/output")" = 0; }

# ---- qring certs ----
a=$work/a b=$work/b
expect 0 'qring://ml/tls until' "$qring" certs "$work/job.json" --namespace ml --service ring --out "$a" --keep-ca
expect 0 'qring://ml/other' "$qring" certs other --namespace ml --ca "$a" --out "$work/foreign" --days 20
expect 0 'ca.crt' "$qring" certs tls --namespace ml --out "$b" --keep-ca
for f in tls.crt tls.key ca.crt ca.key; do check "$f is readable by its owner only" test "$(stat -c %a "$a/$f")" = 600; done
for p in sslserver sslclient; do expect 0 OK openssl verify -CAfile "$a/ca.crt" -purpose $p "$a/tls.crt"; done
expect 0 'does match' openssl x509 -in "$a/tls.crt" -noout -checkhost tls-3.ring.ml.svc
expect 2 'failed' openssl verify -CAfile "$b/ca.crt" "$a/tls.crt"
openssl x509 -in "$a/tls.crt" -noout -text >"$work/text"
for w in 'URI:qring://ml/tls' 'DNS:*.ring.ml.svc,' 'CA:FALSE' 'Digital Signature' 'TLS Web Server Authentication, TLS Web Client Authentication' 'prime256v1'; do
    check "the certificate has $w" holds "$work/text" "$w"
done
expect 2 'another CA' "$qring" certs tls --out "$a"
expect 2 'is not a number in' "$qring" certs tls --ca "$a" --out "$a" --days 9999
expect 2 'cannot be used in a certificate' "$qring" certs 'a,DNS:evil' --out "$work/evil"
expect 2 'either --out' "$qring" certs tls
expect 2 '--keep-ca' "$qring" certs tls --secret --keep-ca
expect 2 'ca.key' "$qring" certs tls --ca "$work/none" --out "$work/none"
"$qring" certs My_Job --secret >"$work/secret.yaml"
check "a Secret of type kubernetes.io/tls" holds "$work/secret.yaml" 'type: kubernetes.io/tls'
check "the Secret has a valid name" holds "$work/secret.yaml" 'name: my-job-tls'
check "the Secret does not have the CA's key" test "$(grep -c 'PRIVATE KEY' "$work/secret.yaml")" = 2
sed -n '/tls.crt/,/END/s/^    //p' "$work/secret.yaml" >"$work/s.crt"; sed -n '/ca.crt/,/END/s/^    //p' "$work/secret.yaml" >"$work/s.ca"
expect 0 OK openssl verify -CAfile "$work/s.ca" "$work/s.crt"

# ---- settings ----
far="--index 0 --peers 10.255.255.1:2222,10.255.255.2:2222"
# shellcheck disable=SC2086
{
    expect 2 'there are no certificates' "$qringd" "$work/job.json" $far
    expect 2 'exclude each other' "$qringd" "$work/job.json" $far --plaintext --tls-dir "$a"
    expect 2 '--tls-key is missing' "$qringd" "$work/job.json" $far --tls-cert "$a/tls.crt"
    expect 2 'No such file' "$qringd" "$work/job.json" $far --tls-dir "$work/nowhere"
    expect 2 'is not the key of' "$qringd" "$work/job.json" $far --tls-dir "$a" --tls-key "$b/tls.key"
    openssl pkey -in "$a/tls.key" -aes256 -passout pass:secret -out "$work/locked.key"
    expect 2 'is encrypted' "$qringd" "$work/job.json" $far --tls-dir "$a" --tls-key "$work/locked.key"
    expect 2 'was not issued by' "$qring" validate "$work/job.json" $far --tls-dir "$a" --tls-ca "$b/ca.crt"
}

# ---- rings with TLS and plaintext train like one worker; connections from outside ----
"$qringd" "$work/job.json" --epochs 4 --out "$work/one" >"$work/one.log" 2>&1 </dev/null
expect 0 'TLS' "$qring" run "$work/job.json" -n 3 --epochs 4 --out "$work/three"
expect 0 'plaintext' "$qring" run "$work/job.json" -n 2 --epochs 4 --out "$work/plain" --plaintext
for d in three plain; do check "the digest of $d is that of one worker" test "$(digest "$work/$d")" = "$(digest "$work/one")"; done
check "qring run generates a certificate" holds "$work/three/worker-1.log" 'TLS between workers: as qring://local/run'

start_two() { # FOLDER DIR0 DIR1 FLAGS...: two workers with these certificates
    d=$work/$1 c0=$2 c1=$3; shift 3; mkdir -p "$d"
    # shellcheck disable=SC2046
    set -- $(free_ports 3) "$@"; p0=$1 p1=$2 http=$3; shift 3
    TF_CONFIG=$(tf_config 0 127.0.0.1:$p0 127.0.0.1:$p1) "$qringd" "$work/job.json" --data-port 0 --tls-dir "$c0" --http-port $http --out "$d/out" "$@" >"$d/0.log" 2>&1 </dev/null & w0=$!
    TF_CONFIG=$(tf_config 1 127.0.0.1:$p0 127.0.0.1:$p1) "$qringd" "$work/job.json" --data-port 0 --tls-dir "$c1" --out "$d/out" "$@" >"$d/1.log" 2>&1 </dev/null & w1=$!
    started="$started $w0 $w1"
}
wait_steps() { tries=0; until [ -s "$work/$1/out/steps.jsonl" ] && [ "$(wc -l <"$work/$1/out/steps.jsonl")" -gt "$2" ]; do
    tries=$((tries + 1)); [ $tries -lt 600 ] || { fail "$1: no $2 steps"; tail -n 3 "$work/$1"/?.log; return 1; }; sleep 0.1; done; }
counted() { $python -c "
import sys, urllib.request
for l in urllib.request.urlopen('http://127.0.0.1:$http/metrics').read().decode().splitlines():
    if l.startswith('$1 '): print(l.split()[1])" 2>/dev/null; }
more() { # WHAT REASON COMMAND...: the command increases the counter of rejections
    what=$1 row="qring_tls_refused_total{reason=\"$2\"}" before=$(counted "qring_tls_refused_total{reason=\"$2\"}"); shift 2; "$@" >"$work/outside" 2>&1
    tries=0; until now=$(counted "$row") && [ "${now:-0}" -gt "${before:-0}" ]; do tries=$((tries + 1)); [ $tries -lt 600 ] || { fail "$what: $row stays $before"; return; }; sleep 0.1; done; pass; }
client() { timeout 5 openssl s_client -connect 127.0.0.1:$p0 -alpn h2 "$@" </dev/null; }

version=0
mount() { # FOLDER CA: updates files like the kubelet a Secret's volume: a new folder and one symbolic link
    version=$((version + 1)); new=$work/live/..$version; mkdir -p "$new"
    cp "$1/tls.crt" "$1/tls.key" "$new"; cp "$2" "$new/ca.crt"
    ln -s "..$version" "$work/live/..new"; mv -T "$work/live/..new" "$work/live/..data"; }
mount "$a" "$a/ca.crt"
for f in tls.crt tls.key ca.crt; do ln -s "..data/$f" "$work/live/$f"; done
start_two live "$work/live" "$work/live" --epochs 1000000
if wait_steps live 5; then
    client -cert "$a/tls.crt" -key "$a/tls.key" -CAfile "$a/ca.crt" -verify_return_error >"$work/good" 2>&1
    for w in 'TLSv1.3' 'ALPN protocol: h2' 'Verify return code: 0'; do check "s_client with the job's certificate: $w" holds "$work/good" "$w"; done
    client -tls1_2 -cert "$a/tls.crt" -key "$a/tls.key" -CAfile "$a/ca.crt" >"$work/tls12" 2>&1
    check "TLS 1.2 is accepted" holds "$work/tls12" 'Verify return code: 0'
    check "TLS 1.1 is rejected" sh -c "! timeout 5 openssl s_client -connect 127.0.0.1:$p0 -tls1_1 -cipher ALL@SECLEVEL=0 -cert $a/tls.crt -key $a/tls.key </dev/null 2>&1 | grep -q 'Cipher is [A-Z]*-'"
    more "no certificate" no_certificate client
    more "another CA" wrong_ca client -cert "$b/tls.crt" -key "$b/tls.key"
    more "another job" foreign_job client -cert "$work/foreign/tls.crt" -key "$work/foreign/tls.key"
    more "plaintext" plaintext timeout 2 $python -c "
import socket
s = socket.create_connection(('127.0.0.1', $p0)); s.sendall(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'); s.recv(9)"
    for w in 'presented no certificate' 'qring://ml/other' 'another CA' 'does not use TLS'; do check "worker 0 logs: $w" holds "$work/live/0.log" "$w"; done
    generation=$(counted qring_generation)
    # another certificate, then another CA, during training
    serial() { client -cert "$1/tls.crt" -key "$1/tls.key" 2>/dev/null | openssl x509 -noout -serial 2>/dev/null; }
    other_serial() { # DIR OLD: waits until the served certificate is not OLD; prints its serial number
        tries=0
        until new=$(serial "$1"); [ -n "$new" ] && [ "$new" != "$2" ] || [ $tries -ge 150 ]; do tries=$((tries + 1)); sleep 0.2; done
        echo "$new"; }
    first=$(serial "$a")
    expect 0 tls.crt "$qring" certs tls --namespace ml --service ring --ca "$a" --out "$a"
    mount "$a" "$a/ca.crt"
    second=$(other_serial "$a" "$first"); check "a new certificate is served: $first, $second" test "${second:-$first}" != "$first"
    mkdir -p "$work/bundle"; cat "$a/ca.crt" "$b/ca.crt" >"$work/bundle/ca.crt"
    mount "$a" "$work/bundle/ca.crt"; sleep 1.2
    mount "$b" "$work/bundle/ca.crt"
    third=$(other_serial "$b" "$second"); check "the other CA's certificate is served: $third" test "${third:-$second}" != "$second"
    mount "$b" "$b/ca.crt"; sleep 1.2
    more "the first CA, after its removal" wrong_ca client -cert "$a/tls.crt" -key "$a/tls.key"
    had=$(wc -l <"$work/live/out/steps.jsonl"); wait_steps live $((had + 20))
    check "both workers are still running" kill -0 $w0 $w1
    now=$(counted qring_generation)
    check "the generation has not changed: $generation, $now" test "${generation:-none}" = "$now"
    kill -TERM $w0 $w1; wait $w0; rc0=$?; wait $w1; rc1=$?
    check "both workers end on SIGTERM: $rc0, $rc1" test "$rc0 $rc1" = "143 143"
    steps=$(wc -l <"$work/live/out/steps.jsonl")
    epochs=$(tail -n 1 "$work/live/out/steps.jsonl" | sed 's/.*"epoch": *\([0-9]*\).*/\1/')
    "$qringd" "$work/job.json" --epochs $((epochs + 1)) --out "$work/long" >"$work/long.log" 2>&1 </dev/null
    head -n "$steps" "$work/long/steps.jsonl" >"$work/long.steps"
    check "every step is that of one worker, to 17 digits" cmp "$work/long.steps" "$work/live/out/steps.jsonl"
    echo "$steps steps during four changes of files, equal to those of one worker"
fi

# ---- certificates of another issuer: RSA, an intermediate CA, DNS names only; ca.crt has the root only ----
o=$work/openssl; mkdir "$o"
printf 'basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n' >"$o/ca.ext"
printf 'subjectAltName=DNS:*.ring.ml.svc,DNS:ring.ml.svc\nkeyUsage=digitalSignature,keyEncipherment\nextendedKeyUsage=serverAuth,clientAuth\n' >"$o/leaf.ext"
sign() { # NAME ISSUER EXTENSIONS: writes NAME.key and NAME.crt
    openssl req -new -newkey rsa:2048 -nodes -keyout "$o/$1.key" -subj "/CN=$1" -out "$o/$1.csr" 2>/dev/null
    openssl x509 -req -in "$o/$1.csr" -CA "$o/$2.crt" -CAkey "$o/$2.key" -CAcreateserial -days 9 -extfile "$o/$3.ext" -out "$o/$1.crt" 2>/dev/null; }
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$o/root.key" -subj /CN=root -days 9 -out "$o/root.crt" 2>/dev/null
sign middle root ca; sign leaf middle leaf; sign twin middle leaf
for n in leaf twin; do mkdir "$o/$n"; cat "$o/$n.crt" "$o/middle.crt" >"$o/$n/tls.crt"; cp "$o/$n.key" "$o/$n/tls.key"; cp "$o/root.crt" "$o/$n/ca.crt"; done
start_two given "$o/leaf" "$o/twin" --epochs 4
wait $w0; rc0=$?; wait $w1; rc1=$?
check "workers with certificates of another issuer end with 0 0: $rc0, $rc1" test "$rc0$rc1" = 00
check "workers with certificates of another issuer: the digest of one worker" test "$(digest "$work/given/out")" = "$(digest "$work/one")"
check "the identity is the DNS names" holds "$work/given/0.log" 'as *.ring.ml.svc,ring.ml.svc'

# ---- a worker of another job, and one without TLS, never become members ----
start_two foreign "$a" "$work/foreign" --start-timeout 2s --form-timeout 2s --min-workers 2
wait $w0; wait $w1
check "the rejection names another job" holds "$work/foreign/0.log" 'another job'
check "no step was trained with a foreign worker" test ! -s "$work/foreign/out/steps.jsonl"

# ---- no key in any log, nor in an error ----
find "$work" -name '*.log' >"$work/logs"
check "at least ten logs" test "$(wc -l <"$work/logs")" -ge 10
check "no key in any log" test -z "$(xargs grep -l 'PRIVATE KEY' <"$work/logs")"
end
