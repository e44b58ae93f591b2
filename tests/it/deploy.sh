#!/bin/sh
# What operators get beside the chart. deploy/kustomize: what is committed is what it renders, valid, a misspelt key is found. deploy/gke/gke.sh: the
# dry run is whole, in order, twice the same and calls nobody; with programs that stand in for gcloud, kubectl, helm and docker it can be given
# again, also after it broke off, and clean takes away all that infra made; no value becomes anything else than a name. Alerts and dashboard:
# promtool takes them, the alerts ring when they should, every metric named there and in the pages is one that a worker has. The tutorial's own
# TFJob with its flags and TF_CONFIG: trained, uploaded, inferred. The log of a lost worker is as deploy/README.md says.
. "$(dirname "$0")/common"
unset TF_CONFIG GOOGLE_APPLICATION_CREDENTIALS GCE_METADATA_HOST NO_GCE_CHECK
. tests/chart/common

# ---- kustomize ----
if kubectl kustomize deploy/jobs >"$work/base.yaml" 2>"$work/kustomize.log"; then
    check "kustomize makes the base and its components" tests/chart/kustomize/render "$work/rendered"
    for s in gke prometheus kueue; do
        check "tests/chart/kustomize/$s.yaml is what it makes (make manifests): $(diff "tests/chart/kustomize/$s.yaml" "$work/rendered/$s.yaml" 2>&1 | head -n 3)" \
            cmp "tests/chart/kustomize/$s.yaml" "$work/rendered/$s.yaml"
    done
else skip "no kubectl with kustomize ($(tail -n 1 "$work/kustomize.log")): the committed renderings are looked at, not made anew"; fi
if [ -n "$py_exe" ]; then
    made="tests/chart/kustomize/gke.yaml tests/chart/kustomize/prometheus.yaml tests/chart/kustomize/kueue.yaml"
    # shellcheck disable=SC2086
    {
        check "our schemas accept them: $(strict $made 2>&1 | head -n 3)" says_nothing strict $made
        check "they keep their promises: $(objects safe $made 2>&1 | head -n 3)" says_nothing objects safe $made
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
check "nothing public: no load balancer, no node's port" sh -c "! grep -rlE 'LoadBalancer|NodePort|hostPort' deploy"

# ---- deploy/gke/gke.sh ----
gke=$root/deploy/gke/gke.sh
mkdir -p "$work/tools"
for tool in gcloud kubectl helm docker sleep gke-gcloud-auth-plugin; do ln -s "$root/tests/fake/gke_tools" "$work/tools/$tool"; done
fresh() { rm -rf "$work/state"; mkdir -p "$work/state/there"; : >"$work/state/calls"; }
cloud() { env -i STATE="$work/state" BREAK_AT="${BREAK_AT-}" PATH="$work/tools:$PATH" PROJECT=my-project TAG=1 "$@" </dev/null; } # a clean environment
there() { find "$work/state/there" -type f -name "${1:-*}" | wc -l; }
called() { grep -cE "$1" "$work/state/calls"; }
fresh
cloud "$gke" --dry-run all >"$work/all" 2>"$work/said"; rc=$?
check "a dry run of all: exit $rc, $(cat "$work/said")" test $rc = 0
cloud "$gke" --dry-run all >"$work/all2" 2>&1
check "twice the same" cmp "$work/all" "$work/all2"
cloud "$gke" all --dry-run >"$work/all2" 2>&1
check "wherever the flag stands" cmp "$work/all" "$work/all2"
check "and calls nobody: $(head -n 2 "$work/state/calls")" test ! -s "$work/state/calls"
check "it can be typed: a shell reads it" sh -n "$work/all"
before=0 # each of these, in this order
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
check "no key, no account of Google's for pods, no bucket tool of old" sh -c "! grep -E 'keys create|gsutil|iam.gke.io|[/.]gcr[.]io' '$work/all' '$gke'"
grep -oE '^gcloud .*|\|\| gcloud .*' "$work/all" | grep -vE 'configure-docker|gcloud (projects|storage buckets (describe|add))' >"$work/gcloud"
check "each gcloud command says which project: $(grep -v -- --project= "$work/gcloud" | head -n 1)" sh -c "! grep -v -- --project= '$work/gcloud'"
check "each kubectl and helm command says which cluster" sh -c "! grep -E '^(kubectl|helm)' '$work/all' | grep -v context=gke_my-project_us-west1_qring"
if command -v shellcheck >/dev/null; then check "shellcheck finds nothing in gke.sh" shellcheck "$gke"
else skip "no shellcheck (apt-get install shellcheck): its opinion of gke.sh is missing"; fi

# for real, with stand-ins; what is printed by a dry run, typed into a shell, is the same
cloud "$gke" all >"$work/real.log" 2>&1; rc=$?
check "all, done: exit $rc, $(tail -n 1 "$work/real.log")" test $rc = 0
check "there are two releases, and of Google's a cluster, a registry, a bucket, an account, five grants" test "$(there 'helm*') $(there 'gcloud*')" = "2 9"
sed "s|$root|ROOT|g" "$work/state/calls" >"$work/calls"
fresh
cloud sh -e "$work/all" >"$work/typed.log" 2>&1
check "the dry run, typed, makes the same calls: $(diff "$work/calls" "$work/state/calls" | head -n 3)" sh -c "sed 's|$root|ROOT|g' '$work/state/calls' | cmp - '$work/calls'"
check "TensorBoard's bucket is this one" holds "$work/state/applied" --logdir=gs://my-project-qring/qcnn/logs
: >"$work/state/calls"
cloud "$gke" all >"$work/again.log" 2>&1; rc=$?
check "all once more: exit $rc, $(tail -n 1 "$work/again.log")" test $rc = 0
check "makes nothing twice: $(grep -E '<create' "$work/state/calls" | head -n 1)" test "$(called '<create|helm <install> <qcnn>')" = 0
cloud "$gke" clean >"$work/said" 2>&1; rc=$?
check "clean without anybody to ask: exit 2, not $rc" test $rc = 2
check "says what it would remove, and wants --yes" sh -c "grep -q 'gs://my-project-qring with all results' '$work/said' && grep -q -- --yes '$work/said'"
check "and has removed nothing" test "$(there 'gcloud*')" = 9
cloud "$gke" stop >"$work/stop.log" 2>&1; rc=$?
check "stop: exit $rc; no release is left" test "$rc $(there 'helm*')" = "0 0"
: >"$work/state/calls"
cloud "$gke" clean --yes >"$work/clean.log" 2>&1; rc=$?
check "clean: exit $rc, $(tail -n 1 "$work/clean.log")" test $rc = 0
check "nothing that infra made is left: $(ls "$work/state/there")" test "$(there)" = 0
: >"$work/state/calls"
cloud "$gke" clean --yes >"$work/clean.log" 2>&1; rc=$?
check "clean once more: exit $rc, $(tail -n 1 "$work/clean.log")" test $rc = 0
check "removes nothing" test "$(called '<delete>|<rm>')" = 0
check "and ends with what costs money" sh -c "tail -n 3 '$work/state/calls' | grep -q '<list>'"
# broken off at each of its calls, then given again
fresh
cloud "$gke" infra >/dev/null 2>&1
n=$(wc -l <"$work/state/calls") k=1 broken=0 whole=0
while [ $k -le "$n" ]; do
    fresh
    BREAK_AT=$k cloud "$gke" infra >"$work/broken.log" 2>&1 && broken=$((broken + 1)) # but where the list of costs fails: that is no failure
    : >"$work/state/calls"
    cloud "$gke" infra >"$work/whole.log" 2>&1 && [ "$(there 'gcloud*')" = 9 ] && whole=$((whole + 1))
    k=$((k + 1))
done
check "infra, broken off at each of its $n calls and given again: $whole whole" test "$whole" = "$n"
check "only questions may go unanswered: $broken of $n" test "$broken" -le 5
# what cannot be
refuses() { # WORDS ENV... -- ARGS...: exit 2, these words, nothing called, nothing done
    words=$1; shift
    fresh
    (cd "$work" && cloud "$@") >"$work/said" 2>&1; rc=$?
    check "$*: exit 2, not $rc" test $rc = 2
    check "$*: says '$words', not $(head -n 1 "$work/said")" holds "$work/said" "$words"
    check "$*: calls nobody" test ! -s "$work/state/calls" -a ! -e "$work/pwned"
}
refuses 'PROJECT is not set' PROJECT= "$gke" infra
refuses 'a command is missing' "$gke"
refuses "unknown command 'destroy'" "$gke" destroy
refuses 'unknown flag --force' "$gke" clean --force
refuses "'5' is too much" "$gke" scale 4 5
refuses "SCALE_TO='0'" "$gke" scale 0
refuses 'no file' JOB="$work/none.json" "$gke" train
refuses 'a comma' JOB="a,b.json" "$gke" train
hostile() { # VARIABLE VALUE
    fresh
    (cd "$work" && cloud "$1=$2" "$gke" --dry-run all) >"$work/said" 2>&1; rc=$?
    if [ $rc != 2 ] || ! grep -q "^gke.sh: $1" "$work/said" || [ -s "$work/state/calls" ] || [ -e "$work/pwned" ]; then
        fail "$1='$2': exit $rc, $(head -n 1 "$work/said")"
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
cloud JOB="$work/my \$job.json" "$gke" train >"$work/said" 2>&1
check "a job file's name stays one word: $(tail -n 1 "$work/said")" holds "$work/state/calls" "<job=$work/my \$job.json>"
end
