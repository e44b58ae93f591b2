#!/bin/sh
# What operators get beside the chart. deploy/kustomize: committed files are what it renders,
# valid, and a misspelt key is found. deploy/gke/gke.sh: the dry run is complete, ordered,
# repeatable, and calls no other program; with stand-ins for gcloud, kubectl, helm and docker it
# can be repeated, also after a failure, clean deletes all that infra creates, and no value is
# executed. Alerts and dashboard: promtool accepts them, alerts fire when they should, every
# metric named in them and in the pages exists. The tutorial's TFJob with its flags and TF_CONFIG:
# trained, uploaded, inferred. The log of a lost worker matches deploy/README.md.
. "$(dirname "$0")/common"
unset TF_CONFIG GOOGLE_APPLICATION_CREDENTIALS GCE_METADATA_HOST NO_GCE_CHECK
. tests/chart/common

# ---- kustomize ----
if tests/chart/kustomize/render "$work/rendered" 2>"$work/kustomize.log"; then
    for s in gke prometheus kueue; do
        check "tests/chart/kustomize/$s.yaml is what kustomize renders (make manifests): $(diff "tests/chart/kustomize/$s.yaml" "$work/rendered/$s.yaml" 2>&1 | head -n 3)" \
            cmp "tests/chart/kustomize/$s.yaml" "$work/rendered/$s.yaml"
    done
elif kubectl kustomize deploy/jobs >/dev/null 2>&1 || tests/chart/tools kustomize >/dev/null 2>&1; then
    fail "kustomize renders the base and its components: $(tail -n 3 "$work/kustomize.log")"
else skip "no kustomize ($(tail -n 1 "$work/kustomize.log")): only the committed renderings are checked"; fi
if [ -n "$py_exe" ]; then
    made="tests/chart/kustomize/gke.yaml tests/chart/kustomize/prometheus.yaml tests/chart/kustomize/kueue.yaml"
    # shellcheck disable=SC2086
    {
        silent "our schemas accept the renderings" strict $made
        silent "the renderings follow the rules of tests/chart/objects.py" objects safe $made
        for minor in 30 31 32 33 34 35 36 37; do check "Kubernetes 1.$minor knows all of its own kinds" against 1.$minor $made; done
    }
    misspelt tests/chart/kustomize/gke.yaml fromPod endpoints targetLabels nodeSelector tolerations interval
    misspelt tests/chart/kustomize/prometheus.yaml podMetricsEndpoints relabelings sourceLabels expr alert groups annotations
    misspelt tests/chart/kustomize/kueue.yaml annotations labels
fi
for words in 'cloud.google.com/gke-spot: "true"' 'tls-dir=/etc/qring/tls' 'weights=gs://my-bucket/' 'kind: PodMonitoring' 'port: 443'; do
    check "the GKE overlay has $words" holds tests/chart/kustomize/gke.yaml "$words"
done
check "the queue's name is on the Job" holds tests/chart/kustomize/kueue.yaml 'kueue.x-k8s.io/queue-name: my-queue'
check "the plot of a run in a queue matches the recording" tests/cluster/draw --check
check "no load balancer and no node port" sh -c "! grep -rlE 'LoadBalancer|NodePort|hostPort' deploy"

# ---- deploy/gke/gke.sh ----
gke=$root/deploy/gke/gke.sh
mkdir -p "$work/tools"
for tool in gcloud kubectl helm docker sleep gke-gcloud-auth-plugin; do ln -s "$root/tests/fake/gke_tools" "$work/tools/$tool"; done
fresh() { rm -rf "$work/state"; mkdir -p "$work/state/there"; : >"$work/state/calls"; }
cloud() { env -i STATE="$work/state" BREAK_AT="${BREAK_AT-}" PATH="$work/tools:$PATH" PROJECT=my-project TAG=1 "$@" </dev/null; } # a clean environment
existing() { find "$work/state/there" -type f -name "${1:-*}" | wc -l; }
count_calls() { grep -cE "$1" "$work/state/calls"; }
fresh
cloud "$gke" --dry-run all >"$work/all" 2>"$work/output"; rc=$?
check "a dry run of all: exit $rc, $(cat "$work/output")" test $rc = 0
cloud "$gke" --dry-run all >"$work/all2" 2>&1
check "a second dry run is the same" cmp "$work/all" "$work/all2"
cloud "$gke" all --dry-run >"$work/all2" 2>&1
check "--dry-run after the command is the same" cmp "$work/all" "$work/all2"
check "a dry run calls no program: $(head -n 2 "$work/state/calls")" test ! -s "$work/state/calls"
check "the dry run is valid shell" sh -n "$work/all"
before=0 # the lines match these patterns in this order
while read -r words; do
    at=$(grep -nE -- "$words" "$work/all" | head -n 1 | cut -d: -f1)
    check "all has '$words' after line $before: ${at:-nowhere}" test "${at:-0}" -gt "$before"
    before=${at:-$before}
done <<'T'
services enable .*container.*artifactregistry.*storage
artifacts repositories create
storage buckets create
iam service-accounts create
projects add-iam-policy-binding .*defaultNodeServiceAccount
artifacts repositories add-iam-policy-binding .*artifactregistry.reader
container clusters create-auto
container clusters get-credentials
projects describe
storage buckets add-iam-policy-binding .*principal://iam.*ns/default/sa/qcnn" --role=roles/storage.objectUser
auth configure-docker
docker build
docker push
helm install qcnn .*spot=true
helm upgrade qcnn .*replicas=4
kubectl .*wait .*job/qcnn
helm install qcnn-infer
kubectl .*logs job/qcnn-infer
tensorboard.yaml .*apply
^# for http://localhost:6006 type: kubectl
clusters list
T
check "no service account keys, no Workload Identity annotations, no gsutil" sh -c "! grep -E 'keys create|gsutil|iam.gke.io|[/.]gcr[.]io' '$work/all' '$gke'"
cloud "$gke" --dry-run clean --yes >"$work/clean"
sed 's/^if //; s/ || /\n/g; s/; then /\n/g' "$work/all" "$work/clean" | grep '^gcloud ' | grep -vE 'configure-docker|gcloud (projects|storage (rm|buckets (describe|add|remove)))' >"$work/gcloud"
check "seven commands create or delete" test "$(grep -cE ' (create|create-auto|delete) ' "$work/gcloud")" = 7
check "each gcloud command has a project: $(grep -v -- --project= "$work/gcloud" | head -n 1)" sh -c "! grep -v -- --project= '$work/gcloud'"
check "each kubectl and helm command has a cluster" sh -c "! grep -E '^(kubectl|helm)' '$work/all' | grep -v context=gke_my-project_us-west1_qring"
if command -v shellcheck >/dev/null; then check "shellcheck finds nothing in gke.sh" shellcheck "$gke"
else skip "no shellcheck (apt-get install shellcheck): gke.sh is not checked"; fi

# executed with stand-ins; the lines of a dry run, typed into a shell, make the same calls
cloud "$gke" all >"$work/real.log" 2>&1; rc=$?
check "all: exit $rc, $(tail -n 1 "$work/real.log")" test $rc = 0
check "all creates two releases, and on Google Cloud a cluster, a registry, a bucket, an account, five grants" test "$(existing 'helm*') $(existing 'gcloud*')" = "2 9"
sed "s|$root|ROOT|g" "$work/state/calls" >"$work/calls"
fresh
cloud sh -e "$work/all" >"$work/typed.log" 2>&1
check "the dry run, typed, makes the same calls: $(diff "$work/calls" "$work/state/calls" | head -n 3)" sh -c "sed 's|$root|ROOT|g' '$work/state/calls' | cmp - '$work/calls'"
check "TensorBoard reads this bucket" holds "$work/state/applied" --logdir=gs://my-project-qring/qcnn/logs
: >"$work/state/calls"
cloud "$gke" all >"$work/again.log" 2>&1; rc=$?
check "all again: exit $rc, $(tail -n 1 "$work/again.log")" test $rc = 0
check "all again creates nothing: $(grep -E '<create' "$work/state/calls" | head -n 1)" test "$(count_calls '<create|helm <install> <qcnn>')" = 0
cloud "$gke" clean >"$work/output" 2>&1; rc=$?
check "clean without a terminal: exit 2, not $rc" test $rc = 2
check "clean without a terminal lists what it would delete, and names --yes" sh -c "grep -q 'gs://my-project-qring with all results' '$work/output' && grep -q -- --yes '$work/output'"
check "clean without a terminal deletes nothing" test "$(existing 'gcloud*')" = 9
cloud "$gke" stop >"$work/stop.log" 2>&1; rc=$?
check "stop: exit $rc; no release remains" test "$rc $(existing 'helm*')" = "0 0"
: >"$work/state/calls"
cloud "$gke" clean --yes >"$work/clean.log" 2>&1; rc=$?
check "clean: exit $rc, $(tail -n 1 "$work/clean.log")" test $rc = 0
check "clean deletes all that infra created: $(ls "$work/state/there")" test "$(existing)" = 0
: >"$work/state/calls"
cloud "$gke" clean --yes >"$work/clean.log" 2>&1; rc=$?
check "clean again: exit $rc, $(tail -n 1 "$work/clean.log")" test $rc = 0
check "clean again deletes nothing" test "$(count_calls '<delete>|<rm>')" = 0
check "clean ends with a list of billed resources" sh -c "tail -n 3 '$work/state/calls' | grep -q '<list>'"
# interrupted at each of its calls, then repeated
fresh
cloud "$gke" infra >/dev/null 2>&1
n=$(wc -l <"$work/state/calls") k=1 broken=0 whole=0
while [ $k -le "$n" ]; do
    fresh
    BREAK_AT=$k cloud "$gke" infra >"$work/broken.log" 2>&1 && broken=$((broken + 1)) # a failing list of costs is ignored
    : >"$work/state/calls"
    cloud "$gke" infra >"$work/whole.log" 2>&1 && [ "$(existing 'gcloud*')" = 9 ] && whole=$((whole + 1))
    k=$((k + 1))
done
check "infra, interrupted at each of its $n calls and repeated: $whole complete" test "$whole" = "$n"
check "only failing queries are ignored: $broken of $n" test "$broken" -le 5
# invalid input
rejects() { # WORDS ENV... ARGS...: exit 2, these words, no program called, no file written
    words=$1; shift
    fresh
    (cd "$work" && cloud "$@") >"$work/output" 2>&1; rc=$?
    check "$*: exit 2, not $rc" test $rc = 2
    check "$*: '$words' in the error, not $(head -n 1 "$work/output")" holds "$work/output" "$words"
    check "$*: calls no program" test ! -s "$work/state/calls" -a ! -e "$work/pwned"
}
rejects 'PROJECT is not set' PROJECT= "$gke" infra
rejects 'a command is missing' "$gke"
rejects "unknown command 'destroy'" "$gke" destroy
rejects 'unknown flag --force' "$gke" clean --force
rejects "unexpected argument '5'" "$gke" scale 4 5
rejects "SCALE_TO='0'" "$gke" scale 0
rejects 'not a file' JOB="$work/none.json" "$gke" train
rejects 'a comma' JOB="a,b.json" "$gke" train
hostile() { # VARIABLE VALUE
    fresh
    (cd "$work" && cloud "$1=$2" "$gke" --dry-run all) >"$work/output" 2>&1; rc=$?
    if [ $rc != 2 ] || ! grep -q "^gke.sh: $1" "$work/output" || [ -s "$work/state/calls" ] || [ -e "$work/pwned" ]; then
        fail "$1='$2': exit $rc, $(head -n 1 "$work/output")"
    else pass; fi
}
for value in '$(touch pwned)' '`touch pwned`' "a'b" 'a"b' 'a b' 'a,b=c' --all '*' 'a|b' 'Ä' 'a
b'; do hostile BUCKET "$value"; done
for variable in PROJECT REGION CLUSTER NAMESPACE NAME REPOSITORY TAG REPLICAS SCALE_TO SPOT TIMEOUT BUILDER; do
    hostile $variable 'a;touch pwned'
    hostile $variable "1
\$(touch pwned)"
done
cp deploy/jobs/qcnn.json "$work/my \$job.json"
fresh
cloud JOB="$work/my \$job.json" "$gke" train >"$work/output" 2>&1
check "a job file name with a space stays one argument: $(tail -n 1 "$work/output")" holds "$work/state/calls" "<job=$work/my \$job.json>"

# ---- metrics: alerts, dashboard, pages ----
port=$(free_ports 1)
(exec "$qringd" --epochs 100000000 --out "$work/single" --http-port "$port" --http-bind 127.0.0.1 --port 0 --data-port 0 >"$work/single.log" 2>&1 </dev/null) &
single=$!; started="$started $single"
tries=0
until $python -c "import sys, urllib.request as u; sys.stdout.buffer.write(u.urlopen('http://127.0.0.1:$port/metrics', timeout=2).read())" >"$work/metrics" 2>/dev/null &&
    [ -s "$work/metrics" ]; do tries=$((tries + 1)); [ $tries -lt 600 ] || break; sleep 0.1; done
kill -9 $single
sed -n 's/^# TYPE \([a-z_]*\) .*/\1/p' "$work/metrics" | sort -u >"$work/families"
check "a worker has families of metrics: $(wc -l <"$work/families")" test "$(wc -l <"$work/families")" -gt 40
for page in deploy/README.md deploy/runbook.md deploy/kustomize/monitoring/alerts.yaml deploy/kustomize/monitoring/dashboard.json; do
    grep -oE '\b(qring|process)_[a-z_]+' "$page" | grep -v '_$' | sort -u >"$work/named"
    check "$page names metrics" test -s "$work/named"
    check "each metric in $page is exported by a worker: $(comm -23 "$work/named" "$work/families" | paste -sd' ')" \
        test -z "$(comm -23 "$work/named" "$work/families")"
done
grep '^qring_' "$work/families" >"$work/exported"
grep -oE '\bqring_[a-z_]+' deploy/README.md | sort -u >"$work/named"
check "each exported metric is in deploy/README.md: $(comm -23 "$work/exported" "$work/named" | paste -sd' ')" test -z "$(comm -23 "$work/exported" "$work/named")"
# Metrics on no panel: identity and placement of one process, and metrics that follow from others.
cat >"$work/hidden" <<'END'
process_start_time_seconds
qring_build_info
qring_checkpoints_total
qring_epochs_planned
qring_evaluated_timestamp_seconds
qring_evaluations_total
qring_evaluator
qring_generation
qring_index
qring_member
qring_micro_batches_total
qring_parameter_server
qring_peers_connected
qring_progress_reports_total
qring_rank
qring_steps_total
qring_tls_accepted_total
qring_turns_total
qring_uptime_seconds
END
$python - "$work/on_panels" <<'P'
import json, re, sys
panels = json.load(open("deploy/kustomize/monitoring/dashboard.json", encoding="utf-8"))["panels"]
shown = {m for p in panels for t in p.get("targets", []) for m in re.findall(r"\b(?:qring|process)_[a-z_]+", t["expr"])}
open(sys.argv[1], "w").write("".join(m + "\n" for m in sorted(shown)))
P
check "each metric is on a panel of the dashboard, or listed as hidden: $(sort "$work/hidden" "$work/on_panels" | comm -13 - "$work/families" | paste -sd' ')" \
    test -z "$(sort "$work/hidden" "$work/on_panels" | comm -13 - "$work/families")"
check "no hidden metric is on a panel: $(comm -12 "$work/hidden" "$work/on_panels" | paste -sd' ')" test -z "$(comm -12 "$work/hidden" "$work/on_panels")"
check "each hidden metric is exported: $(comm -23 "$work/hidden" "$work/families" | paste -sd' ')" test -z "$(comm -23 "$work/hidden" "$work/families")"
check "the dashboard: valid JSON, panels with targets and unique ids, no overlap" $python - <<'P'
import json
d = json.load(open("deploy/kustomize/monitoring/dashboard.json", encoding="utf-8"))
panels = d["panels"]
assert len({p["id"] for p in panels}) == len(panels) > 15
places = set()
for p in panels:
    g = p["gridPos"]
    assert g["x"] + g["w"] <= 24
    for x in range(g["x"], g["x"] + g["w"]):
        for y in range(g["y"], g["y"] + g["h"]):
            assert (x, y) not in places, p["title"]
            places.add((x, y))
    assert p["type"] == "row" or p["targets"], p["title"]
P
grep -oE 'alert: Qring[A-Za-z]+' deploy/kustomize/monitoring/alerts.yaml | sed 's/.* //' | sort >"$work/alerts"
if command -v promtool >/dev/null; then
    $python - "$work" <<'P'
import json, sys, yaml
rules = yaml.safe_load(open("deploy/kustomize/monitoring/alerts.yaml", encoding="utf-8"))["spec"]
# the dashboard's expressions as recording rules, with values for its variables, so that promtool
# parses them
panels = json.load(open("deploy/kustomize/monitoring/dashboard.json", encoding="utf-8"))["panels"]
shown = [t["expr"].replace("$namespace", "n").replace("$ring", "r") for p in panels for t in p.get("targets", [])]
yaml.safe_dump(rules, open(sys.argv[1] + "/rules.yaml", "w", encoding="utf-8"))
yaml.safe_dump({"groups": [{"name": "shown", "rules": [{"record": "shown:%d" % i, "expr": e} for i, e in enumerate(shown)]}]},
               open(sys.argv[1] + "/shown.yaml", "w", encoding="utf-8"))
P
    for f in rules shown; do
        promtool check rules "$work/$f.yaml" >"$work/promtool" 2>&1; rc=$?
        check "promtool accepts $f: $(tail -n 3 "$work/promtool")" test $rc = 0
    done
    cp tests/chart/alerts_test.yaml "$work"
    promtool test rules "$work/alerts_test.yaml" >"$work/promtool" 2>&1; rc=$?
    check "alerts fire when they should, and only then: $(tail -n 12 "$work/promtool")" test $rc = 0
    while read -r alert; do check "$alert has a test" grep -q "alertname: $alert" tests/chart/alerts_test.yaml; done <"$work/alerts"
else skip "no promtool (make deps): alerts and dashboard are not checked"; fi

# ---- the log of a lost worker ----
sed 's/"name": "qcnn"/"name": "lost"/' deploy/jobs/qcnn.json >"$work/lost.json"
ring 3 "$work/lost@.log" "$work/lost.json" --out "$work/lost@" --epochs 100000000 --log-format json --min-workers 1 --threads 1
soon() { # WORDS [TIMES]: in worker 0's log, within 30 s
    tries=0
    until [ -e "$work/lost0.log" ] && [ "$(grep -cE -- "$1" "$work/lost0.log")" -ge "${2:-1}" ]; do tries=$((tries + 1)); [ $tries -lt 600 ] || return 1; sleep 0.1; done
}
# shellcheck disable=SC2086
set -- $pids
check "three workers train" soon 'epoch 3/'
kill -9 "$3"
check "two workers continue" soon 'resumed after step [0-9]+ with 2 workers'
kill -STOP "$2"
check "one worker continues" soon 'resumed after step [0-9]+ with 1 worker'
kill -CONT "$2"
check "the resumed worker joins again" soon 'resumed after step [0-9]+ with 2 workers' 2
kill -TERM "$2"
check "a worker leaves on SIGTERM" soon 'left: it was asked to stop'
sleep 0.3
kill -TERM "$1"
check "the last worker drains on SIGTERM" soon 'drained on SIGTERM'
sed -n '/<!-- lost -->/,/<!-- \/lost -->/s/^| `\([^`]*\)` |.*/\1/p' deploy/README.md >"$work/lines"
check "deploy/README.md has log lines" test "$(wc -l <"$work/lines")" -ge 5
while read -r words; do # names and numbers differ between runs
    pattern=$(echo "$words" | sed 's/qcnn-[0-9]*\.qcnn:2222/ADDRESS/; s/([0-9, ]*)/(0)/; s/[()]/\\&/g; s/[0-9][0-9.]*/[0-9., ]+/g; s/ADDRESS/[0-9.:]+/')
    check "a log has '$words' ($pattern)" grep -qE -- "$pattern" "$work/lost0.log"
done <"$work/lines"

# ---- the tutorial: its TFJob, flags and TF_CONFIG; only image and command differ ----
if [ -z "$py_exe" ]; then skip "the tutorial's manifest cannot be read"; end; fi
# shellcheck disable=SC2086
if ! unshare $as true 2>/dev/null || ! PATH="$PATH:/usr/sbin:/sbin" command -v ip >/dev/null; then
    skip "cannot create namespaces: the tutorial's pods do not run"; end
fi
pod() { # INDEX ADDRESS: a pod of the TFJob as the operator starts it
    names='"qcnn-worker-0.default.svc:2222","qcnn-worker-1.default.svc:2222"'
    printf "QRING_BIND=%s QRING_HTTP_BIND=%s QRING_PROFILER_BIND=%s TF_CONFIG='%s' " "$2" "$2" "$2" \
        "{\"cluster\":{\"worker\":[$names]},\"task\":{\"type\":\"worker\",\"index\":$1},\"environment\":\"cloud\"}"
    objects command deploy/jobs/tfjob.yaml qcnn | sed "s| qringd | $qringd |; s|/tmp/qcnn|$work/tf$1|"
}
cat >"$work/tutorial.sh" <<R
PATH="$PATH:/usr/sbin:/sbin" ip link set lo up || exit 99
printf '127.0.0.2 qcnn-worker-0.default.svc\n127.0.0.3 qcnn-worker-1.default.svc\n' >"$work/hosts" && mount --bind "$work/hosts" /etc/hosts || exit 99
unset QRING_HTTP_PORT
export STORAGE_EMULATOR_HOST=127.0.0.1:4443 GCE_METADATA_HOST=127.0.0.1:4443
$python "$root/tests/fake/gcs.py" 4443 >/dev/null 2>&1 &
fake=\$!
until $python -c 'import socket; socket.create_connection(("127.0.0.1", 4443), 1)' 2>/dev/null; do sleep 0.1; done
( $(pod 1 127.0.0.3) ) >"$work/tf1.log" 2>&1 &
one=\$!
( $(pod 0 127.0.0.2) ) >"$work/tf0.log" 2>&1; a=\$?
wait \$one; b=\$?
$qring infer --weights-gcs-bucket=my-bucket --weights-gcs-path=qcnn_weights.h5 >"$work/tf-infer.txt" 2>"$work/tf-infer.log"; c=\$?
get() { $python -c 'import sys, urllib.request as u; sys.stdout.buffer.write(u.urlopen("http://127.0.0.1:4443/storage/v1/b/my-bucket/o" + sys.argv[1]).read())' "\$1"; }
get '/qcnn_weights.h5?alt=media' >"$work/tf.h5"
get '?prefix=qcnn-logs/' >"$work/tf-logs.json"
kill \$fake
echo "\$a \$b \$c"
R
# shellcheck disable=SC2086
ends=$(timeout -k 5 600 unshare $as --kill-child sh "$work/tutorial.sh" 2>"$work/tutorial.log" </dev/null)
check "trained by two, uploaded, inferred: '$ends', not '0 0 0': $(tail -n 2 "$work/tf0.log") $(cat "$work/tf-infer.log" "$work/tutorial.log")" test "$ends" = "0 0 0"
for i in 0 1; do
    check "worker $i has the operator's identity" holds "$work/tf$i.log" "this is a worker, index $i, at qcnn-worker-$i.default.svc:2222 (tf_config"
done
check "the same job with qring run" run_to "$work/here.log" "$qring" run deploy/jobs/qcnn.json -n 1 --out "$work/here"
check "the uploaded weights are those of qring run" cmp "$work/tf.h5" "$work/here/weights.h5"
for part in train validation; do check "TensorBoard's files for $part are in the bucket" holds "$work/tf-logs.json" "qcnn-logs/$part/events.out.tfevents"; done
"$qring" infer deploy/jobs/qcnn.json --weights "$work/here/weights.h5" >"$work/here.txt" 2>&1
check "the predictions are those of a local qring infer" cmp "$work/tf-infer.txt" "$work/here.txt"
check "Results, Test Labels, Mean squared error" test "$(grep -cE '^(Results|Test Labels|Mean squared error: )' "$work/tf-infer.txt")" = 3
end
