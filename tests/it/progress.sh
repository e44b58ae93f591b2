#!/bin/sh
# Progress reports: the leader alone reports to Kubeflow Trainer's status server (HTTPS, its own
# CA, a token that is renewed), at most every five seconds, and so does the next leader; the last
# report has 100 %. A Kubernetes object gets annotations, another server the same JSON. Any failing
# server gives one warning: the run ends with 0, in time, with the same weights.
. "$(dirname "$0")/common"
unset TF_CONFIG QRING_HTTP_PORT KUBERNETES_SERVICE_HOST KUBERNETES_SERVICE_PORT
command -v openssl >/dev/null || { skip "no openssl"; end; }
sed 's/"name": "qcnn"/"name": "progress"/; s/"epochs": 50/"epochs": 3/' deploy/jobs/qcnn.json >"$work/job.json"

# ---- the servers: two CAs, one of which signs the server's certificate ----
for ca in server-ca other-ca; do
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$ca" -keyout "$work/$ca.key" -out "$work/$ca.crt" \
        >"$work/openssl.log" 2>&1 || fail "openssl: $(tail -n 1 "$work/openssl.log")"
done
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=server -keyout "$work/server.key" -out "$work/server.csr" >>"$work/openssl.log" 2>&1
printf 'subjectAltName=IP:127.0.0.1\n' >"$work/names"
openssl x509 -req -in "$work/server.csr" -CA "$work/server-ca.crt" -CAkey "$work/server-ca.key" -days 2 -extfile "$work/names" -out "$work/server.crt" \
    >>"$work/openssl.log" 2>&1
serve() { # FOLDER CERT KEY
    mkdir -p "$work/$1"
    $python tests/fake/trainer.py "$work/$1" "$2" "$3" >"$work/$1/out" 2>&1 & started="$started $!"
    tries=0; until [ -s "$work/$1/port" ] || [ $tries -gt 600 ]; do tries=$((tries + 1)); sleep 0.1; done
    check "the fake server in $1 listens" test -s "$work/$1/port" || end
}
serve tls "$work/server.crt" "$work/server.key"; tls=$(cat "$work/tls/port")
serve plain - -; plain=$(cat "$work/plain/port")
path=/apis/trainer.kubeflow.org/v1alpha1/namespaces/physics/trainjobs/progress/status
token=$work/token ca=$work/server-ca.crt
trainjob() { # COMMAND...: with the environment of a Kubeflow Trainer pod
    KUBEFLOW_TRAINER_SERVER_URL=https://127.0.0.1:$tls$path KUBEFLOW_TRAINER_SERVER_CA_CERT=$ca KUBEFLOW_TRAINER_SERVER_TOKEN=$token "$@"
}
# received FOLDER PYTHON: a Python expression of the list of requests and their trainerStatus is
# true
received() {
    $python - "$work/$1/log" "$2" <<'P'
import json, os, sys
received = [json.loads(line) for line in open(sys.argv[1])] if os.path.exists(sys.argv[1]) else []
status = [s["body"].get("trainerStatus", {}) for s in received]
value = lambda s, name: next(m["value"] for m in s["metrics"] if m["name"] == name)
ok = eval("(%s)" % sys.argv[2])
if not ok: print(sys.argv[2], json.dumps(received[-3:]), file=sys.stderr)
sys.exit(not ok)
P
}
until_received() { # SECONDS FOLDER PYTHON WHAT
    tries=$(($1 * 5)); until received "$2" "$3" 2>/dev/null; do
        tries=$((tries - 1)); [ $tries -gt 0 ] || { fail "$4"; received "$2" "$3"; return 1; }
        sleep 0.2
    done
    pass
}
token_is() { for f in "$token" "$work/tls/want-token"; do echo "$1" >"$f.new"; mv "$f.new" "$f"; done; }

# ---- a ring: the leader reports, then the next leader ----
token_is first
# shellcheck disable=SC2046
set -- $(free_ports 4)
peers="127.0.0.1:$1 127.0.0.1:$2" h1=$4
long() { # INDEX HTTP-PORT: into p
    # shellcheck disable=SC2086
    (export TF_CONFIG="$(tf_config "$1" $peers)"
    trainjob exec "$qringd" "$work/job.json" --epochs 1000000 --data-port 0 --threads 1 --min-workers 1 --out "$work/long" --http-port "$2" \
        >"$work/long$1.log" 2>&1 </dev/null) & p=$!
    started="$started $p"
}
long 0 "$3"; w0=$p
long 1 "$4"; w1=$p
until_received 30 tls 'len(received) >= 2' "two reports of a TrainJob"
check "method, path, type and token of Kubeflow Trainer" received tls 'all(s["method"] == "POST" and s["path"] == "'"$path"'" and s["type"] == "application/json" and s["token"]
    for s in received)'
check "content of the reports" received tls 'all(set(s) <= {"progressPercentage", "estimatedRemainingSeconds", "metrics", "lastUpdatedTime"} and
    s["progressPercentage"] < 100 and value(s, "totalEpochs") == "1000000" and float(value(s, "loss")) > 0 and float(value(s, "accuracy")) > 0 and
    all(0 < len(m["name"]) <= 64 and 0 < len(m["value"]) <= 64 for m in s["metrics"]) for s in status)'
check "the step advances, and the remaining time is estimated" received tls 'int(value(status[1], "currentStep")) > int(value(status[0], "currentStep")) and
    status[1]["estimatedRemainingSeconds"] > 10 and __import__("re").match(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$", status[1]["lastUpdatedTime"])'
check "one worker reports" received tls 'len({s["peer"] for s in received}) == 1'
token_is second
until_received 30 tls 'len(received) >= 3' "a report with the second token"
check "the current token is sent" received tls 'all(s["token"] for s in received)'
# Times of arrival: on a busy machine a report may be delayed.
check "at most every five seconds" received tls 'all(b["at"] - a["at"] > 4 for a, b in zip(received, received[1:]))'
kill -9 "$w0"; wait "$w0" 2>/dev/null
until_received 30 tls 'len({s["peer"] for s in received}) == 2' "the next leader reports"
$python -c 'import sys, urllib.request; print(urllib.request.urlopen("http://127.0.0.1:%s/metrics" % sys.argv[1]).read().decode())' "$h1" >"$work/metrics"
check "reports are counted" grep -qE '^qring_progress_reports_total [1-9]' "$work/metrics"
check "no report failed" holds "$work/metrics" 'qring_progress_report_errors_total 0'
kill -TERM "$w1"; wait "$w1"
check "the last report of a stopped run is below 100" received tls 'status[-1]["progressPercentage"] < 100'
check "no warning about progress" sh -c '! grep -q "cannot update\|is not reported" "$@"' - "$work/long0.log" "$work/long1.log"

# ---- a run that ends: 100 %, and the weights of a run without reports ----
short() { # NAME FLAGS...: a short run; sets code and took_ms; the log is NAME.log
    name=$1; shift
    began=$(now_ms)
    trainjob run_to "$work/$name.log" "$qringd" "$work/job.json" --threads 1 --http-port 0 --checkpoints none --out "$work/$name" "$@"
    code=$?
    took_ms=$(($(now_ms) - began))
}
digest() { json_string "$work/$1/result.json" state_digest; }
rm -f "$work/tls/log"
short none --progress-to none
check "--progress-to none: no report" test "$code" = 0 -a ! -e "$work/tls/log"
alone=$took_ms
short reported
check "a run with reports ends with 0: $(tail -n 1 "$work/reported.log")" test "$code" = 0
check "the last report" received tls 'status[-1]["progressPercentage"] == 100 and status[-1]["estimatedRemainingSeconds"] == 0 and
    value(status[-1], "currentEpoch") == "3" and value(status[-1], "currentStep") == value(status[-1], "totalSteps") and
    float(value(status[-1], "val_loss")) > 0'
check "the same bits with and without reports" test "$(digest reported)" = "$(digest none)" -a -n "$(digest none)"

# ---- failing servers: one warning, exit code 0, the same bits, no delay. MODE:WORDS ----
while IFS=: read -r mode words; do
    echo "$mode" >"$work/tls/mode"
    ca=$work/server-ca.crt token=$work/token
    case $mode in
    ca) echo 200 >"$work/tls/mode"; ca=$work/other-ca.crt ;;
    no-ca) echo 200 >"$work/tls/mode"; ca=$work/nowhere ;;
    token) echo 200 >"$work/tls/mode"; token=$work/nowhere ;;
    wrong-token) echo 200 >"$work/tls/mode"; token=$work/server.csr ;;
    old-token) echo 200 >"$work/tls/mode"; echo old >"$work/old"; token=$work/old ;;
    esac
    short "bad-$mode"
    check "$mode: exit code $code" test "$code" = 0
    check "$mode: a warning with '$words': $(grep 'cannot update' "$work/bad-$mode.log")" grep -qE "cannot update the TrainJob: .*$words" "$work/bad-$mode.log"
    check "$mode: one warning" test "$(grep -c 'cannot update' "$work/bad-$mode.log")" = 1
    check "$mode: no token in the log" sh -c '! grep -q "second\|namespaces/" "$1"' - "$work/bad-$mode.log"
    check "$mode: the same bits" test "$(digest "bad-$mode")" = "$(digest none)"
    bound "$mode: extra time" $((took_ms - alone)) 4000
done <<T
401:127.0.0.1:$tls answers 401: planted, 401
403:answers 403: planted, 403
404:answers 404
409:answers 409
500:answers 500
html:answers 503
cut:127.0.0.1:$tls
short:127.0.0.1:$tls
hang:(no response by the end of the run|127.0.0.1:[0-9]+: Timeout was reached)
ca:certificate cannot be verified
no-ca:certificate
token:nowhere
wrong-token:holds no token
old-token:answers 401: Unauthorized
T
echo 200 >"$work/tls/mode"
ca=$work/server-ca.crt token=$work/token

# ---- an object of Kubernetes ----
account=$work/account
mkdir -p "$account" && cp "$ca" "$account/ca.crt" && cp "$token" "$account/token" && echo physics >"$account/namespace"
in_pod() { KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT=$tls "$@"; }
object() { in_pod short "$1" --progress-to job/progress --service-account "$account"; }
rm -f "$work/tls/log"
object annotated
check "annotations: $(tail -n 1 "$work/annotated.log")" test "$code" = 0
check "a merge patch of the Job" received tls 'all(s["method"] == "PATCH" and s["path"] == "/apis/batch/v1/namespaces/physics/jobs/progress" and
    s["type"] == "application/merge-patch+json" and s["token"] for s in received)'
check "annotations of the Job" received tls '(lambda a: a["qring.dev/progress"] == "100%" and a["qring.dev/epoch"] == "3/3" and float(a["qring.dev/loss"]) > 0 and
    float(a["qring.dev/val_accuracy"]) >= 0 and a["qring.dev/remaining"] == "0s")(received[-1]["body"]["metadata"]["annotations"])'
echo 403 >"$work/tls/mode"
object refused
check "a service account without permission: one warning" test "$code$(grep -c 'cannot update job/progress: the pod.s service account may not patch it: .*403' "$work/refused.log")" = 01
echo 200 >"$work/tls/mode"
short outside --progress-to job/progress
check "outside a cluster: one warning, and the run succeeds" test "$code$(grep -c "progress is not reported: KUBERNETES_SERVICE_HOST is not set" "$work/outside.log")" = 01
in_pod short unmounted --progress-to job/progress --service-account "$work/nowhere"
check "no token in the pod: one warning, and the run succeeds" test "$code$(grep -c 'automountServiceAccountToken' "$work/unmounted.log")" = 01

# ---- another server, without a token ----
short elsewhere --progress-to "http://127.0.0.1:$plain/hook?key=hush"
check "a run with another server ends with 0: $(tail -n 1 "$work/elsewhere.log")" test "$code" = 0
check "another server: the same JSON, no token" received plain 'all(s["method"] == "POST" and s["path"] == "/hook?key=hush" and s["token"] for s in received) and
    status[-1]["progressPercentage"] == 100'
short nowhere --progress-to "http://me:hush@127.0.0.1:1/hush?key=hush"
check "no server: one warning, and the run succeeds" test "$code$(grep -c 'cannot update http://127.0.0.1:1: 127.0.0.1:1: ' "$work/nowhere.log")" = 01
check "no log has a password, a path or a query of the target" sh -c '! grep -l hush "$0"/elsewhere.log "$0"/nowhere.log' "$work"

# ---- qring run passes the settings to its workers ----
rm -f "$work/tls/log"
trainjob run_to "$work/run.log" "$qring" run "$work/job.json" -n 2 --out "$work/run"
check "qring run: $(tail -n 1 "$work/run.log")" received tls 'status[-1]["progressPercentage"] == 100'
end
