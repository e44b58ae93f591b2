#!/bin/sh
# Real workers and a Cloud Storage on loopback (tests/fake/gcs.py): weights, job and data at gs:// URLs, the tutorial's two flags, a server that fails,
# a bucket that may not be written, one that refuses only at the end.
. "$(dirname "$0")/common"
unset TF_CONFIG GOOGLE_APPLICATION_CREDENTIALS GCE_METADATA_HOST NO_GCE_CHECK
$python tests/fake/gcs.py 0 "$work/port" >/dev/null 2>"$work/fake.log" &
started="$started $!"
tries=0
until [ -s "$work/port" ] || [ $tries -gt 100 ]; do tries=$((tries + 1)); sleep 0.1; done
check "the fake listens" test -s "$work/port" || end
at=127.0.0.1:$(cat "$work/port")
export STORAGE_EMULATOR_HOST="$at" GCE_METADATA_HOST="$at"
sed 's/"epochs": 50/"epochs": 2/' deploy/jobs/qcnn.json >"$work/job.json"
# object BUCKET NAME FILE: what is there, as another program reads it
object() {
    $python - "$at" "$@" <<'P'
import sys, urllib.request
at, bucket, name, out = sys.argv[1:]
req = urllib.request.Request("http://%s/storage/v1/b/%s/o/%s?alt=media" % (at, bucket, name.replace("/", "%2F")))
token = urllib.request.Request("http://%s/computeMetadata/v1/instance/service-accounts/default/token" % at, headers={"Metadata-Flavor": "Google"})
import json
req.add_header("Authorization", "Bearer " + json.load(urllib.request.urlopen(token))["access_token"])
open(out, "wb").write(urllib.request.urlopen(req).read())
P
}

check "training into a file" run_in 120 "$work/local.log" "$qring" run "$work/job.json" -n 1 --out "$work/local"
check "training into a bucket" run_in 120 "$work/one.log" "$qring" run "$work/job.json" -n 2 --out "$work/one" --weights gs://auth-bucket/run/w.h5
check "the object is there" object auth-bucket run/w.h5 "$work/w.h5"
check "the object's bytes are the file's" cmp "$work/w.h5" "$work/local/weights.h5"
check "the place is said" holds "$work/one.log" gs://auth-bucket/run/w.h5
check "result.json has the URL" holds "$work/one/result.json" gs://auth-bucket/run/w.h5
check "the tutorial's two flags" run_in 120 "$work/two.log" "$qring" run "$work/job.json" -n 1 --out "$work/two" --weights-gcs-bucket auth-bucket --weights-gcs-path tutorial/weights.h5
check "their object is there" object auth-bucket tutorial/weights.h5 "$work/w2.h5"
check "with the same bytes" cmp "$work/w2.h5" "$work/local/weights.h5"
check "infer reads from the bucket" run_in 60 "$work/infer.log" "$qring" infer "$work/job.json" --weights gs://auth-bucket/run/w.h5 --json
run_in 60 "$work/infer2.log" "$qring" infer "$work/job.json" --weights "$work/local/weights.h5" --json
sed 's|gs://auth-bucket/run/w.h5|URL|' "$work/infer.log" >"$work/infer.json"
sed "s|$work/local/weights.h5|URL|" "$work/infer2.log" >"$work/infer2.json"
check "and predicts the same" cmp "$work/infer.json" "$work/infer2.json"
check "predictions, not two errors" holds "$work/infer.json" loss
check "weights are converted into a bucket" run_in 60 "$work/convert.log" "$qring" weights "$work/local/weights.safetensors" --to gs://auth-bucket/w.npz
check "and listed from there" run_in 60 "$work/list.log" "$qring" weights gs://auth-bucket/w.npz
check "by name" holds "$work/list.log" pqc/parameters

# job and data from the bucket
$python - "$work" <<'P'
import math, sys
with open(sys.argv[1] + "/data.csv", "w") as f:
    f.write(",".join("x%d" % i for i in range(8)) + ",y\n")
    for n in range(40):
        f.write(",".join("%.6f" % math.sin(n * 8 + i) for i in range(8)) + ",%d\n" % (1 if n % 3 else -1))
P
put() { $python -c "import sys, urllib.request as u; u.urlopen(u.Request('http://$at/upload/storage/v1/b/plain/o?uploadType=media&name=' + sys.argv[1].replace('/', '%2F'), data=open(sys.argv[2], 'rb').read()))" "$1" "$2"; }
put d/data.csv "$work/data.csv"
sed 's|"data": .*|"data": {"source": "csv", "url": "gs://plain/d/data.csv"},|' "$work/job.json" >"$work/cloud.json"
sed 's|"data": .*|"data": {"source": "csv", "url": "'"$work/data.csv"'"},|' "$work/job.json" >"$work/disk.json"
put jobs/cloud.json "$work/cloud.json"
check "job and data from a bucket" run_in 120 "$work/cloud.log" "$qring" run gs://plain/jobs/cloud.json -n 2 --out "$work/cloud"
check "job and data from files" run_in 120 "$work/disk.log" "$qring" run "$work/disk.json" -n 1 --out "$work/disk"
check "the same weights" cmp "$work/cloud/weights.h5" "$work/disk/weights.h5"

# what cannot work is said before anything is trained, with the bucket's name
refused() { # BUCKET WORDS
    run_in 60 "$work/refused.log" "$qring" run "$work/job.json" -n 2 --out "$work/refused" --weights "gs://$1/w.h5"; rc=$?
    check "$1: exit 2, not $rc" test $rc = 2
    check "$1: says '$2'" holds "$work/refused.log" "$2"
    check "$1: names the bucket" holds "$work/refused.log" "bucket $1"
    check "$1: nothing was trained" test ! -s "$work/refused/steps.jsonl"
}
refused forbidden-b roles/storage.objectUser
refused readonly-b storage.objects.create
run_in 60 "$work/missing.log" "$qring" run "$work/job.json" -n 1 --out "$work/refused" --weights gs://missing-b/w.h5; rc=$?
check "missing bucket: exit 2, not $rc" test $rc = 2
check "missing bucket: says so" holds "$work/missing.log" "bucket does not exist"

# refused at the end: every worker exits with the same permanent code
# shellcheck disable=SC2046
set -- $(free_ports 3)
pids=
for i in 0 1 2; do
    (TF_CONFIG=$(tf_config $i "127.0.0.1:$1" "127.0.0.1:$2" "127.0.0.1:$3") exec "$qringd" "$work/job.json" --data-port 0 --out "$work/late" \
        --weights gs://late-b/w.h5 >"$work/late$i.log" 2>&1 </dev/null) &
    pids="$pids $!"
done
started="$started $pids"
codes=
for p in $pids; do wait "$p"; codes="$codes $?"; done
check "403 at the end: exit 2 2 2, not$codes" test "$codes" = " 2 2 2"
for i in 0 1 2; do check "worker $i names the bucket" holds "$work/late$i.log" "bucket late-b"; done
end
