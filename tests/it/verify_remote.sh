#!/bin/sh
# qring verify of a run in a bucket of Cloud Storage, in a bucket of S3 and on a web server, which
# cannot list files, all on loopback: same, steps from checkpoints, changed lines.
. "$(dirname "$0")/common"
unset TF_CONFIG GOOGLE_APPLICATION_CREDENTIALS GCE_METADATA_HOST NO_GCE_CHECK AWS_PROFILE AWS_REGION AWS_DEFAULT_REGION AWS_SESSION_TOKEN \
    AWS_WEB_IDENTITY_TOKEN_FILE AWS_ROLE_ARN AWS_ENDPOINT_URL_S3 AWS_CONTAINER_CREDENTIALS_FULL_URI AWS_CONTAINER_CREDENTIALS_RELATIVE_URI \
    QRING_HTTPS_TOKENS https_proxy HTTPS_PROXY all_proxy ALL_PROXY
run=$work/web/run
mkdir -p "$work/web"
check "a run" run_to "$work/run.log" "$qring" run -n 2 --out "$run" --checkpoint-interval 1ms --checkpoint-steps 10 --logdir=
rm -f "$run/checkpoints/.LATEST.lock"
verified() { want=$1; shift; timeout 600 "$qring" verify "$@" >"$work/out" 2>"$work/err" </dev/null; rc=$?; [ $rc = "$want" ] || { echo "exit $rc, not $want:"; cat "$work/out" "$work/err"; false; }; }
prints() { grep -qF -- "$1" "$work/out" || { echo "no '$1' in:"; cat "$work/out"; false; }; }
# check_run URL: checks that hold for every place
check_run() {
    check "$1: same" verified 0 "$1"
    check "$1: files" prints "files        same"
    check "$1: one step" verified 0 "$1" --step 7 --threads 1
    check "$1: all steps" verified 0 "$1/" --all
    check "$1: weights" prints "2 files have the recomputed weights"
    check "$1: a missing run" verified 2 "$1x"
}

# Cloud Storage
fake_storage
export STORAGE_EMULATOR_HOST="$at" GCE_METADATA_HOST="$at"
put() { # FILE NAME
    $python - "$at" "$1" "$2" <<'P'
import json, sys, urllib.parse, urllib.request as u
at, path, name = sys.argv[1:]
token = json.load(u.urlopen(u.Request(f"http://{at}/computeMetadata/v1/instance/service-accounts/default/token", headers={"Metadata-Flavor": "Google"})))["access_token"]
u.urlopen(u.Request(f"http://{at}/upload/storage/v1/b/qring/o?uploadType=media&name={urllib.parse.quote(name, safe='')}", data=open(path, "rb").read(),
    headers={"Authorization": "Bearer " + token, "Content-Type": "application/octet-stream"}, method="POST"))
P
}
upload() { (cd "$run" && find . -type f ! -name '*.log' | sed 's|^\./||') | while read -r name; do $1 "$run/$name" "published/$name" || echo "cannot upload $name"; done; }
check "uploaded" test -z "$(upload put)"
check_run gs://qring/published
check "gs: a step from the checkpoint before" verified 0 gs://qring/published --step 100
check "gs: the checkpoints are listed" prints "checkpoints  same         $(ls "$run"/checkpoints/*.safetensors | wc -l), "
sed '31s/"loss":0\./"loss":0.1/' "$run/steps.jsonl" >"$work/steps"
put "$work/steps" published/steps.jsonl
check "gs: a changed line is detected" verified 6 gs://qring/published
check "gs: the changed line is named" prints "line 31 (step 21) was changed"

# S3
rm "$work/port"
fake_storage s3.py
export AWS_ENDPOINT_URL="http://$at" AWS_ACCESS_KEY_ID=AKIDFAKE AWS_SECRET_ACCESS_KEY=fake/secret+key AWS_EC2_METADATA_DISABLED=true
put_s3() { $python -B tests/fake/s3_client.py put qring "$2" "$1" >"$work/put" 2>&1; }
check "uploaded to S3" test -z "$(upload put_s3)"
check_run s3://qring/published


# A web server: without a list, only the checkpoint in LATEST is known.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$work/key.pem" -out "$work/ca.pem" -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost 2>"$work/openssl"
$python -B tests/fake/https.py 0 "$work/web.port" "$work/web" "$work/ca.pem" "$work/key.pem" >"$work/web.log" 2>&1 & started="$started $!"
tries=0; until [ -s "$work/web.port" ] || [ $tries -gt 600 ]; do tries=$((tries + 1)); sleep 0.1; done
export SSL_CERT_FILE="$work/ca.pem"
check_run "https://localhost:$(cat "$work/web.port")/run"
verified 0 "https://localhost:$(cat "$work/web.port")/run"
check "https: the checkpoint in LATEST" prints "checkpoints  same         1, the last of step 100"
# weights_at CODE URL: a local run whose weights are at this URL
weights_at() {
    rm -rf "$work/copy"; cp -r "$run" "$work/copy"
    check "weights at $2" $python tests/it/tamper.py weights-at "$work/copy" "$2"
    check "weights at $2: exit $1" verified "$1" "$work/copy"
}
weights_at 0 "https://localhost:$(cat "$work/web.port")/run/weights.h5"
weights_at 7 "https://localhost:$(cat "$work/web.port")/403,403/run/weights.h5"
check "denied weights: the message" prints "files        not proved"
end
