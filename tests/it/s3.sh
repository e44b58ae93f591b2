#!/bin/sh
# Workers and an S3 server on loopback (tests/fake/s3.py): weights, event files, job and data
# at s3:// URLs, checkpoints through faults and kill -9, keys from each source of a pod, unusable
# buckets. S3_SERVER=http://host:port with keys in the environment: a real server, on which a
# bucket is created (make interop-s3); checks that need the fake are left out.
. "$(dirname "$0")/common"
unset TF_CONFIG AWS_PROFILE AWS_REGION AWS_DEFAULT_REGION AWS_SESSION_TOKEN AWS_WEB_IDENTITY_TOKEN_FILE AWS_ROLE_ARN AWS_ENDPOINT_URL_S3 \
    AWS_CONTAINER_CREDENTIALS_FULL_URI AWS_CONTAINER_CREDENTIALS_RELATIVE_URI
export HOME="$work" AWS_EC2_METADATA_DISABLED=true
if [ -n "${S3_SERVER:-}" ]; then
    export AWS_ENDPOINT_URL="$S3_SERVER"
else
    fake_storage s3.py
    export AWS_ENDPOINT_URL="http://$at" AWS_ACCESS_KEY_ID=AKIDFAKE AWS_SECRET_ACCESS_KEY=fake/secret+key
fi
b=${S3_BUCKET:-qring}
client() { $python -B tests/fake/s3_client.py "$@"; }
control() { # PATH [BODY]
    $python -c "import sys, urllib.request as u; print(u.urlopen(u.Request('$AWS_ENDPOINT_URL/control/' + sys.argv[1], data=sys.argv[2].encode() or None), timeout=20).read().decode())" "$1" "${2:-}"
}
soon() { # SECONDS COMMAND...: until it succeeds
    n=0 most=$(($1 * 10)); shift
    until "$@" >"$work/soon" 2>&1; do n=$((n + 1)); [ $n -lt $most ] || return 1; sleep 0.1; done
}
sed 's/"epochs": 50/"epochs": 2/' deploy/jobs/qcnn.json >"$work/job.json"

# weights and event files
check "training into a file" run_to "$work/local.log" "$qring" run "$work/job.json" -n 1 --out "$work/local"
check "training into a bucket" run_to "$work/one.log" "$qring" run "$work/job.json" -n 2 --out "$work/one" --weights "s3://$b/run/w.h5" --logdir "s3://$b/run/logs/"
check "the bucket has the weights" client get "$b" run/w.h5 "$work/w.h5"
check "the object's bytes are the file's" cmp "$work/w.h5" "$work/local/weights.h5"
check "the log has the URL of the weights" holds "$work/one.log" "s3://$b/run/w.h5"
check "result.json has the URL" holds "$work/one/result.json" "s3://$b/run/w.h5"
client list "$b" run/logs/ >"$work/names"
(cd "$work/one/logs" && find . -type f | sed 's|^\./|run/logs/|' | LC_ALL=C sort) >"$work/files"
check "the bucket has three event files" test "$(wc -l <"$work/names")" = 3
check "the event files have their local names" cmp "$work/names" "$work/files"
while read -r name; do
    client get "$b" "$name" "$work/event"
    check "the bytes of $name" cmp "$work/event" "$work/one/logs/${name#run/logs/}"
done <"$work/names"
client list "$b" run/ | grep check- >"$work/left"
check "the check of the bucket leaves nothing" test ! -s "$work/left"
check "infer reads from the bucket" run_to "$work/infer.log" "$qring" infer "$work/job.json" --weights "s3://$b/run/w.h5" --json
check "infer printed a loss, not an error" holds "$work/infer.log" loss
check "weights are converted into a bucket" run_to "$work/convert.log" "$qring" weights "$work/local/weights.safetensors" --to "s3://$b/w.npz"
check "the converted weights are equal" run_to "$work/equal.log" "$qring" weights "s3://$b/w.npz" "$work/local/weights.h5" --job "$work/job.json"

# job and data
$python - "$work" <<'P'
import math, sys
with open(sys.argv[1] + "/data.csv", "w") as f:
    f.write(",".join("x%d" % i for i in range(8)) + ",y\n")
    for n in range(40):
        f.write(",".join("%.6f" % math.sin(n * 8 + i) for i in range(8)) + ",%d\n" % (1 if n % 3 else -1))
P
sed 's|"data": .*|"data": {"source": "csv", "url": "s3://'"$b"'/d/data.csv"},|' "$work/job.json" >"$work/cloud.json"
sed 's|"data": .*|"data": {"source": "csv", "url": "'"$work/data.csv"'"},|' "$work/job.json" >"$work/disk.json"
client put "$b" d/data.csv "$work/data.csv"
client put "$b" jobs/cloud.json "$work/cloud.json"
check "job and data from a bucket" run_to "$work/cloud.log" "$qring" run "s3://$b/jobs/cloud.json" -n 2 --out "$work/cloud"
check "job and data from files" run_to "$work/disk.log" "$qring" run "$work/disk.json" -n 1 --out "$work/disk"
check "the same weights" cmp "$work/cloud/weights.h5" "$work/disk/weights.h5"
check "validate, everything in buckets" run_to "$work/validate.log" "$qring" validate "s3://$b/jobs/cloud.json" --out "$work/nothing" --weights "s3://$b/v.h5" --logdir "s3://$b/v"

# checkpoints: through each fault of the store, and resumed after kill -9
often="--checkpoint-interval 20ms --checkpoint-steps 5"
endless() { # NAME FLAGS...: in the background
    name=$1; shift
    # shellcheck disable=SC2086
    "$qringd" "$work/job.json" --threads 1 --epochs 1000000 --out "$work/$name" --weights "s3://$b/$name/w.h5" $often "$@" >>"$work/$name.log" 2>&1 </dev/null &
    worker=$! started="$started $!"
}
published() { # NAME FILE: LATEST differs from FILE; copies it to FILE
    client get "$b" "$1/w.checkpoints/LATEST" "$2.new" && ! cmp -s "$2.new" "$2" && mv "$2.new" "$2"
}
endless held
check "checkpoints are published" soon 60 published held "$work/latest"
if [ -z "${S3_SERVER:-}" ]; then
    for fault in insert:return-503 insert:return-429 insert:return-500 insert:return-412 insert:return-reset-connection insert:return-503-after-512B \
        insert:lost-acknowledgement insert:wrong-crc32c insert:html-reply get:return-503 get:wrong-crc32c get:return-broken-stream delete:return-503; do
        control faults '{"instructions": {"storage.objects.'"${fault%%:*}"'": ["'"${fault#*:}"'"]}}' >/dev/null
        occurred() { control state | grep -q '"faults_left": 0,'; }
        check "$fault occurs" soon 60 occurred
        check "$fault: published again" soon 60 published held "$work/latest"
    done
fi
kill -9 "$worker"; wait "$worker" 2>/dev/null
check "no checkpoint was damaged" sh -c "! grep -q damaged '$work/held.log'"
endless held
check "killed and restarted: the worker resumes from the bucket" soon 60 grep -q "resuming from step [1-9][0-9]*, .*(s3://$b/held/w.checkpoints)" "$work/held.log"
check "killed and restarted: the worker publishes" soon 60 published held "$work/latest"
kill "$worker"; wait "$worker"; rc=$?
check "SIGTERM: exit 143, not $rc" test $rc = 143
# shellcheck disable=SC2086
check "a ring with checkpoints in the bucket" run_to "$work/ring.log" "$qring" run "$work/job.json" -n 2 --out "$work/ring" --weights "s3://$b/ring/w.h5" --checkpoints "s3://$b/ring/ck" $often
# shellcheck disable=SC2086
check "a finished job is not trained again" run_to "$work/again.log" "$qring" run "$work/job.json" -n 1 --out "$work/again" --weights "s3://$b/ring/w.h5" --checkpoints "s3://$b/ring/ck" $often
check "a finished job: the message" holds "$work/again.log" "already trained"
client get "$b" ring/w.h5 "$work/ring.h5"
check "the weights are those of a run with files" cmp "$work/ring.h5" "$work/local/weights.h5"
[ -z "${S3_SERVER:-}" ] || end

# credentials from each source of a pod
key=$AWS_ACCESS_KEY_ID secret=$AWS_SECRET_ACCESS_KEY
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
reads() { # WHAT COMMAND...: with that environment the weights are read
    what=$1; shift
    check "$what" run_to "$work/keys.log" env "$@" "$qring" weights "s3://$b/run/w.h5"
    check "$what: weights are listed" holds "$work/keys.log" pqc/parameters
}
printf subject-of-a-pod >"$work/subject"
printf container-token >"$work/token"
reads "web identity (IRSA)" AWS_ROLE_ARN=arn:aws:iam::1:role/qring AWS_WEB_IDENTITY_TOKEN_FILE="$work/subject"
reads "the container's endpoint (EKS Pod Identity, ECS)" AWS_CONTAINER_CREDENTIALS_FULL_URI="$AWS_ENDPOINT_URL/v2/credentials" AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE="$work/token"
reads "the instance's metadata (EC2)" AWS_EC2_METADATA_DISABLED=false AWS_EC2_METADATA_SERVICE_ENDPOINT="$AWS_ENDPOINT_URL"
mkdir -p "$work/.aws"
printf '[pod]\naws_access_key_id = %s\naws_secret_access_key = %s\n' "$key" "$secret" >"$work/.aws/credentials"
printf '[profile pod]\nregion = us-east-1\nendpoint_url = %s\n' "$AWS_ENDPOINT_URL" >"$work/.aws/config"
reads "a profile, with its endpoint" -u AWS_ENDPOINT_URL AWS_PROFILE=pod
run_to "$work/none.log" "$qring" weights "s3://$b/run/w.h5"; rc=$?
check "no keys: exit 2, not $rc" test $rc = 2
check "no keys: the error lists the sources" holds "$work/none.log" "no credentials for S3: neither AWS_ACCESS_KEY_ID"

# Unusable buckets are reported before training.
export AWS_ACCESS_KEY_ID="$key" AWS_SECRET_ACCESS_KEY="$secret"
rejected() { # BUCKET WORDS
    run_to "$work/rejected.log" "$qring" run "$work/job.json" -n 2 --out "$work/rejected" --weights "s3://$1/w.h5"; rc=$?
    check "$1: exit 2, not $rc" test $rc = 2
    check "$1: '$2' in the error" holds "$work/rejected.log" "$2"
    check "$1: names the bucket" holds "$work/rejected.log" "s3://$1"
    check "$1: nothing was trained" test ! -s "$work/rejected/steps.jsonl"
}
rejected forbidden-b "s3:PutObject, s3:GetObject, s3:DeleteObject and s3:ListBucket on bucket forbidden-b"
rejected readonly-b "on bucket readonly-b"
rejected missing-b "bucket does not exist"
rejected elsewhere-b "set AWS_REGION=eu-west-7"
rejected careless-b "ignores If-None-Match"
rejected unable-b "conditional writes"
ring 3 "$work/late@.log" "$work/job.json" --out "$work/late" --weights s3://late-b/w.h5
wait_ring
check "403 at the end: exit 2 2 2, not$codes" test "$codes" = " 2 2 2"
for i in 0 1 2; do check "worker $i names the bucket" holds "$work/late$i.log" "bucket late-b"; done
end
