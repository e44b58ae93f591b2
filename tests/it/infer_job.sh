#!/bin/sh
# The inference Job prints the bytes of a local qring infer: predictions, labels, mean squared
# error. It runs as another user (65532 if the test runs as root), in a read-only directory, without
# HOME, with settings from the environment only; job, data and weights are at gs:// URLs
# (tests/fake/gcs.py). The numbers are those of Keras and TensorFlow Quantum for weights that Keras
# wrote.
. "$(dirname "$0")/common"
unset TF_CONFIG GOOGLE_APPLICATION_CREDENTIALS GCE_METADATA_HOST NO_GCE_CHECK QRING_JOB QRING_WEIGHTS
weights=$root/tests/golden/tfq/qcnn_weights.h5
golden infer-job "$work" single
mv "$work/job.json" "$work/golden.json"

# locally
run_to "$work/golden.txt" "$qring" infer "$work/golden.json" --weights "$weights" || fail "qring infer: exit $?"
run_to "$work/tutorial.txt" "$qring" infer --weights "$weights" || fail "qring infer of the built-in job: exit $?"
golden infer-text "$work/golden.txt"
check "three headings" test "$(grep -cE '^(Results|Test Labels|Mean squared error:  [0-9.]+)$' "$work/tutorial.txt")" = 3
for flags in "--threads 1" "--threads 3 --isa portable" "--predictions $work/p.csv"; do
    # shellcheck disable=SC2086
    run_to "$work/again.txt" "$qring" infer --weights "$weights" $flags
    check "the same text with $flags" cmp "$work/tutorial.txt" "$work/again.txt"
done
run_to "$work/p2.csv" "$qring" infer --weights "$weights" --predictions -
check "--predictions - prints the content of the file" cmp "$work/p.csv" "$work/p2.csv"
run_to "$work/rejected.txt" "$qring" infer --weights "$weights" --predictions - --json; rc=$?
check "--predictions - with --json: exit 2, not $rc" test $rc = 2
run_to "$work/rejected.txt" "$qring" infer --weights "$weights" --weights-gcs-bucket b; rc=$?
check "two URLs for the weights: exit 2, not $rc" test $rc = 2
run_to "$work/rejected.txt" "$qring" infer --weights-gcs-bucket b; rc=$?
check "a bucket without a path: exit 2, not $rc, and the missing flag is named" sh -c "test $rc = 2 && grep -q 'weights-gcs-path is missing' '$work/rejected.txt'"
# More than 1000 samples: first and last ones, as NumPy prints them, and the flag that writes all.
sed 's/"rounds": 20/"rounds": 500/; s/"train_fraction": 0.7/"train_fraction": 0.5/' deploy/jobs/qcnn.json >"$work/many.json"
run_to "$work/many.txt" "$qring" infer "$work/many.json" --weights "$weights"
check "2000 samples are shortened, and the flag that writes all is named" sh -c "test \$(grep -cF ' ... ' '$work/many.txt') = 2 && grep -qF 'writes all 2000' '$work/many.txt'"

# the bucket
fake_storage
put() { # OBJECT FILE: uploads to the bucket auth-infer, which requires a token
    $python - "$at" "$1" "$2" <<'P'
import json, sys, urllib.request as u
at, name, path = sys.argv[1:]
token = json.load(u.urlopen(u.Request("http://%s/computeMetadata/v1/instance/service-accounts/default/token" % at, headers={"Metadata-Flavor": "Google"})))
u.urlopen(u.Request("http://%s/upload/storage/v1/b/auth-infer/o?uploadType=media&name=%s" % (at, name.replace("/", "%2F")), data=open(path, "rb").read(),
                    headers={"Authorization": "Bearer " + token["access_token"]}))
P
}
sed "s|\"[^\"]*data.csv\"|\"gs://auth-infer/run/data.csv\"|" "$work/golden.json" >"$work/cloud.json"
check "the job has the URL of the data" holds "$work/cloud.json" gs://auth-infer/run/data.csv
put run/job.json "$work/cloud.json"; put run/data.csv "$work/data.csv"; put qcnn/weights.h5 "$weights"

# The Job: the program is readable by another user, in a read-only directory.
pod=$(mktemp -d /tmp/qring-pod-XXXXXX)
cp "$qring" "$pod/qring"; mkdir "$pod/cwd"; chmod 0555 "$pod" "$pod/cwd"
as=""; [ "$(id -u)" != 0 ] || as="setpriv --reuid=65532 --regid=65532 --clear-groups --no-new-privs --bounding-set=-all"
job() { # OUT WORDS...: VAR=VALUE... then arguments after --
    out=$1; shift
    # shellcheck disable=SC2086
    (cd "$pod/cwd" && exec env -i STORAGE_EMULATOR_HOST="$at" GCE_METADATA_HOST="$at" "$@" ) >"$out" 2>"$out.log" </dev/null
}
# shellcheck disable=SC2086
job "$work/job.txt" QRING_JOB=gs://auth-infer/run/job.json QRING_WEIGHTS=gs://auth-infer/qcnn/weights.h5 $as "$pod/qring" infer; rc=$?
check "the Job ends with 0, not $rc: $(tail -n 2 "$work/job.txt.log")" test $rc = 0
check "settings from the environment: the local output" cmp "$work/golden.txt" "$work/job.txt"
# shellcheck disable=SC2086
job "$work/job2.txt" $as "$pod/qring" infer --weights=gs://auth-infer/qcnn/weights.h5
check "the chart's arguments, the tutorial's job: the local output" cmp "$work/tutorial.txt" "$work/job2.txt"
# shellcheck disable=SC2086
job "$work/job3.txt" $as "$pod/qring" infer --weights-gcs-bucket=auth-infer --weights-gcs-path=qcnn/weights.h5
check "the tutorial's two flags: the local output" cmp "$work/tutorial.txt" "$work/job3.txt"
# shellcheck disable=SC2086
job "$work/job4.txt" QRING_WEIGHTS=gs://auth-infer/qcnn/none.h5 $as "$pod/qring" infer; rc=$?
check "missing weights: exit 2, not $rc, and the object is named" sh -c "test $rc = 2 && grep -q gs://auth-infer/qcnn/none.h5 '$work/job4.txt.log' && test ! -s '$work/job4.txt'"
# --wait waits for weights and logs that
(sleep 2; put qcnn/late.h5 "$weights") &
# shellcheck disable=SC2086
job "$work/late.txt" $as "$pod/qring" infer --weights=gs://auth-infer/qcnn/late.h5 --wait=20s; rc=$?
check "weights that come 2 s later: the local output, exit $rc" cmp "$work/tutorial.txt" "$work/late.txt"
check "waiting for weights is logged once: $(cat "$work/late.txt.log")" test "$(grep -c "no weights yet at gs://auth-infer/qcnn/late.h5: waiting up to 20s" "$work/late.txt.log")" = 1
# shellcheck disable=SC2086
job "$work/never.txt" $as "$pod/qring" infer --weights=gs://auth-infer/qcnn/none.h5 --wait=1s; rc=$?
check "weights that never come: retryable exit code 138, not $rc" test $rc = 138
check "weights that never come: the last log line: $(cat "$work/never.txt.log")" sh -c \
    "tail -n 1 '$work/never.txt.log' | grep -q 'no weights at gs://auth-infer/qcnn/none.h5 after 1s (--wait); check whether the training that writes them still runs'"
put qcnn/damaged.h5 "$work/data.csv"
# shellcheck disable=SC2086
job "$work/damaged.txt" $as "$pod/qring" infer --weights=gs://auth-infer/qcnn/damaged.h5 --wait=20s; rc=$?
check "damaged weights end without waiting (exit $rc): $(cat "$work/damaged.txt.log")" sh -c "test $rc = 4 && ! grep -q waiting '$work/damaged.txt.log'"
if unshare -pf --kill-child true 2>/dev/null; then # as PID 1, for which signals have no default action
    : >"$work/first.log"
    unshare -pf --kill-child sh -c "exec '$qring' infer --weights '$work/none.h5' --wait 60s" >"$work/first.log" 2>&1 & outer=$!
    for _ in $(seq 100); do grep -q waiting "$work/first.log" && break; sleep 0.1; done
    kill -TERM "$(cut -d' ' -f1 "/proc/$outer/task/$outer/children")"; wait $outer; rc=$?
    check "SIGTERM ends the wait: 143, not $rc" test $rc = 143
else skip "cannot create a PID namespace: SIGTERM to PID 1 is not tested"; fi
check "nothing was written where the Job ran" test -z "$(ls -A "$pod/cwd")"
chmod -R u+w "$pod"; rm -rf "$pod"
cat "$work/job.txt"
end
