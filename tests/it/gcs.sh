#!/bin/sh
# Real workers and a Cloud Storage server on loopback (tests/fake/gcs.py): weights, job and data
# at gs:// URLs, the tutorial's two flags, a failing server, a read-only bucket, one that fails
# only at the end; TensorBoard's files in a bucket, live, through an outage, after kill -9 and
# SIGTERM.
. "$(dirname "$0")/common"
unset TF_CONFIG GOOGLE_APPLICATION_CREDENTIALS GCE_METADATA_HOST NO_GCE_CHECK
fake_storage
export STORAGE_EMULATOR_HOST="$at" GCE_METADATA_HOST="$at"
sed 's/"epochs": 50/"epochs": 2/' deploy/jobs/qcnn.json >"$work/job.json"
# logs BUCKET PREFIX DIR [whole]: the bucket's event files are prefixes of those in DIR, end at a
# record, and have the right crc32c; with "whole" they are equal to those in DIR. Prints their
# bytes.
logs() {
    $python - "$at" "$@" <<'P'
import json, os, struct, sys, urllib.error, urllib.request
sys.path.insert(0, "tests/fake")
import gcs
at, bucket, prefix, folder = sys.argv[1:5]
whole = sys.argv[5:] == ["whole"]
def get(path, headers={}):
    return urllib.request.urlopen(urllib.request.Request("http://%s%s" % (at, path), headers=headers), timeout=20).read()
token = json.loads(get("/computeMetadata/v1/instance/service-accounts/default/token", {"Metadata-Flavor": "Google"}))["access_token"]
auth = {"Authorization": "Bearer " + token}
items, page = [], ""
while page is not None:
    reply = json.loads(get("/storage/v1/b/%s/o?prefix=%s/&pageToken=%s" % (bucket, prefix, page), auth))
    items += reply.get("items", [])
    page = reply.get("nextPageToken")
local = sorted(os.path.relpath(os.path.join(d, f), folder) for d, _, files in os.walk(folder) for f in files)
names = [i["name"].removeprefix(prefix + "/") for i in items]
assert names and (names == local if whole else set(names) <= set(local)), (names, local)
total = 0
for item, name in zip(items, names):
    place = "/storage/v1/b/%s/o/%s?" % (bucket, item["name"].replace("/", "%2F"))
    data = None
    while data is None:  # the object may be replaced between the two requests
        item = json.loads(get(place, auth))
        try:
            data = get(place + "alt=media&generation=" + item["generation"], auth)
        except urllib.error.HTTPError as e:
            assert e.code == 404, e
    want = open(os.path.join(folder, name), "rb").read()
    assert data == want if whole else want.startswith(data), name
    assert item["crc32c"] == gcs.walk(data) and int(item["size"]) == len(data), name
    n = 0 if "tfevents" in name else len(data)
    while n < len(data):  # a record: length, its checksum, data, its checksum
        n += 16 + struct.unpack("<Q", data[n:n + 8])[0]
    assert n == len(data), name + " ends in half a record"
    total += n
print(total)
P
}
all_logs() { logs "$@" whole >/dev/null; }

check "training into a file" run_to "$work/local.log" "$qring" run "$work/job.json" -n 1 --out "$work/local"
check "training into a bucket" run_to "$work/one.log" "$qring" run "$work/job.json" -n 2 --out "$work/one" \
    --weights gs://auth-bucket/run/w.h5 --logdir gs://auth-bucket/run/logs/ --set "profile.steps=[2, 3]"
check "the bucket has the weights" object auth-bucket run/w.h5 "$work/w.h5"
check "the object's bytes are the file's" cmp "$work/w.h5" "$work/local/weights.h5"
check "the bucket has the event files, with the bytes and crc32c of the local ones" all_logs auth-bucket run/logs "$work/one/logs"
check "three event files" test "$(find "$work/one/logs" -name '*tfevents*' | wc -l)" = 3
profile=$(find "$work/one/logs/plugins/profile/steps_2_3" -name '*.xplane.pb' | head -n 1)
object auth-bucket "run/logs${profile#"$work/one/logs"}" "$work/profile.pb"
check "the bucket has the profile: $profile" cmp "$profile" "$work/profile.pb"
check "the log has the URL of the event files" holds "$work/one.log" gs://auth-bucket/run/logs
check "the log has the URL of the weights" holds "$work/one.log" gs://auth-bucket/run/w.h5
check "result.json has the URL" holds "$work/one/result.json" gs://auth-bucket/run/w.h5
check "the tutorial's two flags" run_to "$work/two.log" "$qring" run "$work/job.json" -n 1 --out "$work/two" --weights-gcs-bucket auth-bucket --weights-gcs-path tutorial/weights.h5
check "the bucket has the weights of the two flags" object auth-bucket tutorial/weights.h5 "$work/w2.h5"
check "the weights of the two flags are those of the file" cmp "$work/w2.h5" "$work/local/weights.h5"
check "infer reads from the bucket" run_to "$work/infer.log" "$qring" infer "$work/job.json" --weights gs://auth-bucket/run/w.h5 --json
run_to "$work/infer2.log" "$qring" infer "$work/job.json" --weights "$work/local/weights.h5" --json
sed 's|gs://auth-bucket/run/w.h5|URL|' "$work/infer.log" >"$work/infer.json"
sed "s|$work/local/weights.h5|URL|" "$work/infer2.log" >"$work/infer2.json"
check "infer predicts the same from the bucket and the file" cmp "$work/infer.json" "$work/infer2.json"
check "infer printed a loss, not an error" holds "$work/infer.json" loss
check "weights are converted into a bucket" run_to "$work/convert.log" "$qring" weights "$work/local/weights.safetensors" --to gs://auth-bucket/w.npz
check "weights are listed from a bucket" run_to "$work/list.log" "$qring" weights gs://auth-bucket/w.npz
check "weights are listed by name" holds "$work/list.log" pqc/parameters

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
check "job and data from a bucket" run_to "$work/cloud.log" "$qring" run gs://plain/jobs/cloud.json -n 2 --out "$work/cloud"
check "job and data from files" run_to "$work/disk.log" "$qring" run "$work/disk.json" -n 1 --out "$work/disk"
check "job and data from a bucket and from files: the same weights" cmp "$work/cloud/weights.h5" "$work/disk/weights.h5"

# initial weights and validation data, and the commands that read
put d/start.h5 "$work/disk/weights.h5"
more() { # JOB WEIGHTS FILE: writes the job with initial weights, and validation on its own data
    sed 's|"source": "csv", "url": \("[^"]*"\)|"source": "csv", "url": \1, "validation_url": \1|; s|"epochs": 2|"epochs": 2, "initial_weights": "'"$2"'"|' "$1" >"$3"
}
more "$work/cloud.json" gs://plain/d/start.h5 "$work/more-cloud.json"
more "$work/disk.json" "$work/disk/weights.h5" "$work/more-disk.json"
put jobs/more.json "$work/more-cloud.json"
check "initial weights and validation data from a bucket" run_to "$work/more.log" "$qring" run gs://plain/jobs/more.json --out "$work/more-cloud"
check "initial weights and validation data from files" run_to "$work/more.log" "$qring" run "$work/more-disk.json" --out "$work/more-disk"
check "validation data is used" holds "$work/more-cloud/result.json" '"val_loss"'
check "initial weights from a bucket and from a file: the same weights" cmp "$work/more-cloud/weights.h5" "$work/more-disk/weights.h5"
check "initial weights change the result" sh -c "! cmp -s '$work/more-cloud/weights.h5' '$work/cloud/weights.h5'"
run_to "$work/gradient1" "$qring" gradient gs://plain/jobs/cloud.json --weights gs://plain/d/start.h5 --samples 0
run_to "$work/gradient2" "$qring" gradient "$work/disk.json" --weights "$work/disk/weights.h5" --samples 0
check "gradient reads both from a bucket" holds "$work/gradient1" pqc/parameters
check "gradient from a bucket and from files: the same" cmp "$work/gradient1" "$work/gradient2"
check "show reads from a bucket" run_to "$work/show.log" "$qring" show gs://plain/jobs/cloud.json
check "validate, everything in buckets" run_to "$work/validate.log" "$qring" validate gs://plain/jobs/more.json --out "$work/nothing" \
    --weights gs://plain/w.h5 --logdir gs://plain/logs
check "validate writes no output" test ! -e "$work/nothing"
run_to "$work/validate.log" "$qring" validate "$work/job.json" --out "$work/nothing" --logdir gs://readonly-b/logs; rc=$?
check "validate of a read-only bucket: exit 2, not $rc" test $rc = 2
check "validate names the read-only bucket" holds "$work/validate.log" "on bucket readonly-b"

# Unusable buckets are reported before training, by name.
rejected() { # BUCKET WORDS
    run_to "$work/rejected.log" "$qring" run "$work/job.json" -n 2 --out "$work/rejected" --weights "gs://$1/w.h5"; rc=$?
    check "$1: exit 2, not $rc" test $rc = 2
    check "$1: '$2' in the error" holds "$work/rejected.log" "$2"
    check "$1: names the bucket" holds "$work/rejected.log" "bucket $1"
    check "$1: nothing was trained" test ! -s "$work/rejected/steps.jsonl"
}
rejected forbidden-b roles/storage.objectUser
run_to "$work/rejected.log" "$qring" run "$work/job.json" -n 2 --out "$work/rejected" --logdir gs://readonly-b/logs; rc=$?
check "--logdir in a read-only bucket: exit 2, not $rc" test $rc = 2
check "--logdir in a read-only bucket: the error names the bucket" holds "$work/rejected.log" "on bucket readonly-b"
check "--logdir in a read-only bucket: nothing was trained" test ! -s "$work/rejected/steps.jsonl"
check "--logdir in a bucket that rejects later writes: the run succeeds" \
    run_to "$work/late.log" "$qringd" "$work/job.json" --out "$work/late-logs" --logdir gs://late-b/logs
check "--logdir in a bucket that rejects later writes: the log names the local files" holds "$work/late.log" "$work/late-logs/logs has all of them"
check "--logdir in a bucket that rejects later writes: the same weights" cmp "$work/late-logs/weights.h5" "$work/local/weights.h5"
rejected readonly-b storage.objects.create
run_to "$work/missing.log" "$qring" run "$work/job.json" -n 1 --out "$work/rejected" --weights gs://missing-b/w.h5; rc=$?
check "missing bucket: exit 2, not $rc" test $rc = 2
check "missing bucket: the error" holds "$work/missing.log" "bucket does not exist"

# live: first records at once, more within the interval; training continues while the server hangs;
# kill -9 leaves whole records
endless() { # NAME
    exec "$qringd" "$work/job.json" --threads 1 --epochs 1000000 --out "$work/$1" --logdir "gs://auth-bucket/$1" >"$work/$1.log" 2>&1 </dev/null
}
soon() { # SECONDS COMMAND...: until it succeeds
    n=0 most=$(($1 * 10)); shift
    until "$@" >"$work/soon" 2>&1; do n=$((n + 1)); [ $n -lt $most ] || return 1; sleep 0.1; done
}
bytes_above() { n_bytes=$(logs auth-bucket "$2" "$3") && [ "$n_bytes" -gt "$1" ]; }
steps_above() { [ "$(wc -l <"$2")" -gt "$1" ]; }
endless live &
live=$! started="$started $!"
check "live: events are in the bucket while training runs" soon 60 bytes_above 0 live "$work/live/logs"
first=$(logs auth-bucket live "$work/live/logs")
check "live: they grow within the interval" soon 60 bytes_above "$first" live "$work/live/logs"
kill -STOP "$fake"
n_steps=$(wc -l <"$work/live/steps.jsonl")
check "live: training does not wait for a server that hangs" soon 60 steps_above $((n_steps + 1000)) "$work/live/steps.jsonl"
kill -9 "$live"; wait "$live" 2>/dev/null
kill -CONT "$fake"
check "killed: the uploaded files have whole records" bytes_above "$first" live "$work/live/logs"

# SIGTERM while the server hangs: exit within two seconds, with the number of missing bytes
endless term &
term=$! started="$started $!"
check "SIGTERM: events are in the bucket" soon 60 bytes_above 0 term "$work/term/logs"
kill -STOP "$fake"
began=$(now_ms)
kill "$term"; wait "$term"; rc=$?
took=$(($(now_ms) - began))
kill -CONT "$fake"
check "SIGTERM: exit 143, not $rc" test $rc = 143
bound "SIGTERM while the server hangs: out" $took 2000
check "SIGTERM: the log has the number of missing bytes" holds "$work/term.log" "bytes of TensorBoard events are not in gs://auth-bucket/term"
endless drain &
drain=$! started="$started $!"
check "SIGTERM: events are in the bucket again" soon 60 bytes_above 0 drain "$work/drain/logs"
kill "$drain"; wait "$drain"
# The last upload has a timeout, which may not suffice on a busy machine; the log then has the
# number of missing bytes.
uploaded_or_logged() { all_logs auth-bucket drain "$work/drain/logs" 2>/dev/null || holds "$work/drain.log" "bytes of TensorBoard events are not in gs://auth-bucket/drain"; }
check "SIGTERM with a responsive server: all is uploaded, or the log has the missing bytes" uploaded_or_logged

# SIGTERM before training, while the server hangs: reading the job, checking the bucket
kill -STOP "$fake"
for what in gs://auth-bucket/job.json "$work/job.json --weights gs://auth-bucket/w.h5" "$work/job.json --logdir gs://auth-bucket/l"; do
    : >"$work/words"
    # shellcheck disable=SC2086
    "$qringd" $what --out "$work/early" --http-port 0 --exit-on-drain 9 --termination-log "$work/words" >"$work/early.log" 2>&1 &
    early=$! started="$started $!"
    sleep 1
    began=$(now_ms)
    kill "$early"; wait "$early"; rc=$?
    took=$(($(now_ms) - began))
    check "SIGTERM before training: exit 9, not $rc ($what)" test $rc = 9
    bound "SIGTERM before training, while the server hangs: out ($what)" $took 2000
    check "SIGTERM before training: termination message ($what)" holds "$work/words" 'before the first step: drained on SIGTERM'
done
kill -CONT "$fake"

# A write rejected at the end: every worker exits with the same permanent code.
ring 3 "$work/late@.log" "$work/job.json" --out "$work/late" --weights gs://late-b/w.h5
wait_ring
check "403 at the end: exit 2 2 2, not$codes" test "$codes" = " 2 2 2"
for i in 0 1 2; do check "worker $i names the bucket" holds "$work/late$i.log" "bucket late-b"; done
end
