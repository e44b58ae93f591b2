#!/bin/sh
# The tutorial on Google Kubernetes Engine, from an empty project to predictions, and back to an empty project.
#
#   PROJECT=my-project deploy/gke/gke.sh [--dry-run] [--yes] COMMAND
#
#   infra        a registry, a bucket, an account for nodes, an Autopilot cluster, and what the pods may do with the bucket
#   image        builds the image from this checkout and pushes it
#   train        starts REPLICAS workers; weights, checkpoints and TensorBoard's files go to the bucket
#   scale N      N workers from now on (SCALE_TO), while they train
#   infer        waits for the weights, then predicts with them and prints what the tutorial's inference prints
#   tensorboard  the curves on http://localhost:6006, until Ctrl-C
#   stop         takes training, predictions and TensorBoard away; results, cluster and registry stay
#   clean        removes everything that infra made, results too
#   costs        lists what costs money
#   all          infra, image, train, scale, infer, tensorboard (which it leaves running), costs
#
# Each command can be given again: what is there stays. --dry-run prints what would be typed, for a shell, and touches nothing.
# Variables, with what they are when not set (no value may have other characters than such names can have):
#   PROJECT      (must be set)      REGION    us-west1             BUCKET      PROJECT-qring     CLUSTER    qring
#   NAMESPACE    default            NAME      qcnn                 REPOSITORY  qring             TAG        the checkout's commit
#   REPLICAS     2                  SCALE_TO  4                    SPOT        true              TIMEOUT    1h, for training
#   JOB          (the tutorial's)   BUILDER   docker, or podman
set -u
me=gke.sh
refuse() { echo "$me: $*" >&2; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd) || exit 1

# ---- what is asked ----
dry='' yes='' command='' count=''
for word in "$@"; do
    case $word in
    --dry-run) dry=1 ;;
    --yes) yes=1 ;;
    -h | --help | help) sed -n '2,26s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) refuse "unknown flag $word; $me --help" ;;
    *)  if [ -z "$command" ]; then command=$word
        elif [ "$command" = scale ] && [ -z "$count" ]; then count=$word
        else refuse "'$word' is too much; $me --help"; fi ;;
    esac
done
case $command in
infra | image | train | scale | infer | tensorboard | stop | clean | costs | all) ;;
'') refuse "a command is missing: infra, image, train, scale, infer, tensorboard, stop, clean, costs or all; $me --help" ;;
*) refuse "unknown command '$command': infra, image, train, scale, infer, tensorboard, stop, clean, costs or all" ;;
esac

# fits VARIABLE PATTERN WHAT: its whole value, one line, is what Google Cloud or Kubernetes take for such a name. So no value can be read as
# anything else by a shell, by Helm or by gcloud.
fits() {
    value=
    eval "value=\$$1"
    case $value in *'
'*) refuse "$1 has more than one line: it must be $3" ;; esac
    printf '%s\n' "$value" | LC_ALL=C grep -qxE "$2" || refuse "$1='$value' cannot be: it must be $3"
}
[ -n "${PROJECT-}" ] || refuse "PROJECT is not set. It is the id of a Google Cloud project with billing: PROJECT=my-project $me $command"
fits PROJECT '[a-z][a-z0-9-]{4,28}[a-z0-9]' "a project's id: 6 to 30 lower-case letters, digits, dashes"
: "${REGION:=us-west1}" "${BUCKET:=$PROJECT-qring}" "${CLUSTER:=qring}" "${NAMESPACE:=default}" "${NAME:=qcnn}" "${REPOSITORY:=qring}" \
    "${REPLICAS:=2}" "${SCALE_TO:=4}" "${SPOT:=true}" "${TIMEOUT:=1h}" "${JOB:=}" "${BUILDER:=docker}"
if [ -z "${TAG-}" ]; then TAG=$(git -C "$root" describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null) || TAG=latest; fi
SCALE_TO=${count:-$SCALE_TO}
fits REGION '[a-z]+-[a-z]+[0-9]+' "a region such as us-west1"
fits BUCKET '[a-z0-9][a-z0-9_-]{1,61}[a-z0-9]' "a bucket's name: 3 to 63 lower-case letters, digits, dashes"
fits CLUSTER '[a-z]([a-z0-9-]{0,38}[a-z0-9])?' "a cluster's name: up to 40 lower-case letters, digits, dashes"
fits NAMESPACE '[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?' "a namespace's name"
fits NAME '[a-z]([a-z0-9-]{0,28}[a-z0-9])?' "a name of up to 30 lower-case letters, digits, dashes"
fits REPOSITORY '[a-z]([a-z0-9-]{0,61}[a-z0-9])?' "a repository's name: lower-case letters, digits, dashes"
fits TAG '[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}' "an image's tag"
fits REPLICAS '([1-9]|[1-5][0-9]|6[0-4])' "a number of workers, 1 to 64"
fits SCALE_TO '([1-9]|[1-5][0-9]|6[0-4])' "a number of workers, 1 to 64"
fits SPOT 'true|false' "true or false"
fits TIMEOUT '[1-9][0-9]*[smh]' "a time such as 90m"
fits BUILDER 'docker|podman' "docker or podman"
case $JOB in
'') ;;
*[,\\\"\']*) refuse "JOB='$JOB' cannot be: Helm takes no path with a comma, a backslash or a quote" ;;
*) [ -f "$JOB" ] || refuse "JOB='$JOB' is no file" ;;
esac

# ---- words and lines ----
# line WORD...: a command for a shell, in $words: words of harmless letters as they are, others in quotes
line() {
    words=
    for word in "$@"; do
        case $word in
        '' | *[!A-Za-z0-9_./:=@%+-]*) word="'$(printf '%s' "$word" | sed "s/'/'\\\\''/g")'" ;;
        esac
        words="$words${words:+ }$word"
    done
}
say() { [ -n "$dry" ] || echo >&2; echo "# $*"; }
# does LINE: prints it; without --dry-run it is also done, and has to succeed
does() {
    if [ -n "$dry" ]; then printf '%s\n' "$1"; return; fi
    printf '+ %s\n' "$1" >&2
    eval "$1" || { rc=$?; echo "$me: this did not succeed (exit $rc): $1" >&2; exit 1; }
}
run() { line "$@"; does "$words"; }
# asked WHAT IS ASKED -- WHAT IS DONE: both for a shell, in $first and $words
asked() {
    first=
    while [ "$1" != -- ]; do line "$1"; first="$first${first:+ }$words"; shift; done
    shift
    line "$@"
}
# made: done where the question fails, so it is made once. taken: done where it succeeds
made() { asked "$@"; does "$first >/dev/null 2>&1 || $words"; }
taken() { asked "$@"; does "if $first >/dev/null 2>&1; then $words; fi"; }
# again LINE: an account that was made just now is not known everywhere for some seconds
again() {
    if [ -n "$dry" ]; then does "$1"; return; fi
    for try in 1 2 3 4 5; do
        printf '+ %s\n' "$1" >&2
        eval "$1" && return
        echo "$me: try $try of 6; once more in 10 s" >&2
        sleep 10
    done
    does "$1"
}
tools() {
    [ -z "$dry" ] || return 0
    for tool in "$@"; do
        command -v "$tool" >/dev/null || case $tool in
        gcloud) refuse "gcloud is missing: https://cloud.google.com/sdk/docs/install" ;;
        gke-gcloud-auth-plugin) refuse "gke-gcloud-auth-plugin is missing: gcloud components install gke-gcloud-auth-plugin" ;;
        *) refuse "$tool is missing" ;;
        esac
    done
}

registry=$REGION-docker.pkg.dev
image=$registry/$PROJECT/$REPOSITORY/qring
context=gke_${PROJECT}_${REGION}_$CLUSTER
nodes=qring-nodes@$PROJECT.iam.gserviceaccount.com
apis="container.googleapis.com artifactregistry.googleapis.com storage.googleapis.com iam.googleapis.com"
weights=gs://$BUCKET/$NAME/weights.h5
logs=gs://$BUCKET/$NAME/logs
# what the pods' accounts may do with the bucket: the accounts of Kubernetes themselves, without keys and without accounts of Google's in between
grants="$NAME:roles/storage.objectUser $NAME-infer:roles/storage.objectViewer $NAME-tensorboard:roles/storage.objectViewer"
principal() { # ACCOUNT: in double quotes, for the number comes from gcloud
    # shellcheck disable=SC2016
    printf '"principal://iam.googleapis.com/projects/$PROJECT_NUMBER/locations/global/workloadIdentityPools/%s/subject/ns/%s/sa/%s"' \
        "$PROJECT.svc.id.goog" "$NAMESPACE" "$1"
}
number() { line gcloud projects describe "$PROJECT" "--format=value(projectNumber)"; does "PROJECT_NUMBER=\$($words)"; }
k() { run kubectl "--context=$context" "--namespace=$NAMESPACE" "$@"; }
h() { verb=$1; shift; run helm "$verb" "$@" "--kube-context=$context" "--namespace=$NAMESPACE"; }

# ---- commands ----
infra() {
    tools gcloud kubectl gke-gcloud-auth-plugin
    say "what of Google Cloud is used"
    # shellcheck disable=SC2086
    run gcloud services enable $apis "--project=$PROJECT"
    say "a registry for the image"
    made gcloud artifacts repositories describe "$REPOSITORY" "--location=$REGION" "--project=$PROJECT" -- \
        gcloud artifacts repositories create "$REPOSITORY" --repository-format=docker "--location=$REGION" "--project=$PROJECT" --labels=app=qring
    say "a bucket; a deleted checkpoint is deleted, not kept (and paid) for another week"
    made gcloud storage buckets describe "gs://$BUCKET" -- gcloud storage buckets create "gs://$BUCKET" "--location=$REGION" \
        "--project=$PROJECT" --uniform-bucket-level-access --public-access-prevention --soft-delete-duration=0
    say "an account for the nodes: logs, metrics, this registry, nothing else"
    made gcloud iam service-accounts describe "$nodes" "--project=$PROJECT" -- \
        gcloud iam service-accounts create "${nodes%%@*}" "--project=$PROJECT" "--display-name=Nodes of cluster $CLUSTER"
    line gcloud projects add-iam-policy-binding "$PROJECT" "--member=serviceAccount:$nodes" --role=roles/container.defaultNodeServiceAccount \
        --condition=None
    again "$words >/dev/null"
    line gcloud artifacts repositories add-iam-policy-binding "$REPOSITORY" "--location=$REGION" "--project=$PROJECT" \
        "--member=serviceAccount:$nodes" --role=roles/artifactregistry.reader
    again "$words >/dev/null"
    say "a cluster: Autopilot, billed by what pods ask for (this takes minutes)"
    made gcloud container clusters describe "$CLUSTER" "--location=$REGION" "--project=$PROJECT" -- \
        gcloud container clusters create-auto "$CLUSTER" "--location=$REGION" "--project=$PROJECT" --release-channel=regular \
        "--service-account=$nodes" --enable-dns-access --labels=app=qring
    run gcloud container clusters get-credentials "$CLUSTER" "--location=$REGION" "--project=$PROJECT" --dns-endpoint
    say "what the pods may do with the bucket"
    number
    for grant in $grants; do
        line gcloud storage buckets add-iam-policy-binding "gs://$BUCKET"
        again "$words --member=$(principal "${grant%%:*}") --role=${grant#*:} >/dev/null"
    done
}
image() {
    tools gcloud "$BUILDER"
    say "the image, from this checkout"
    run gcloud auth configure-docker "$registry" --quiet
    run "$BUILDER" build --platform=linux/amd64 "--tag=$image:$TAG" "$root"
    run "$BUILDER" push "$image:$TAG"
}
train() {
    tools kubectl helm
    say "$REPLICAS workers, over TLS, certificates made by Helm; what trains already stays as it is: scale changes its size, stop takes it away"
    set -- "$NAME" "$root/charts/qring" --set "image.repository=$image" --set-string "image.tag=$TAG" --set "replicas=$REPLICAS" \
        --set "weights=$weights" --set "logdir=$logs" --set "spot=$SPOT"
    [ -z "$JOB" ] || set -- "$@" --set-file "job=$JOB"
    made helm status "$NAME" "--kube-context=$context" "--namespace=$NAMESPACE" -- \
        helm install "$@" --create-namespace "--kube-context=$context" "--namespace=$NAMESPACE"
    k apply "--filename=$root/deploy/kustomize/monitoring-gke/podmonitoring.yaml"
    k get pods "--selector=app.kubernetes.io/instance=$NAME"
}
scale() {
    tools kubectl helm
    say "$SCALE_TO workers; those that train go on meanwhile"
    h upgrade "$NAME" "$root/charts/qring" --reuse-values --set "replicas=$SCALE_TO"
    k get pods "--selector=app.kubernetes.io/instance=$NAME"
}
infer() {
    tools kubectl helm
    say "predictions, as soon as the weights are there"
    k wait --for=condition=complete "--timeout=$TIMEOUT" "job/$NAME"
    h uninstall "$NAME-infer" --ignore-not-found --wait
    set -- "$NAME-infer" "$root/charts/qring" --set mode=infer --set "image.repository=$image" --set-string "image.tag=$TAG" \
        --set "weights=$weights" --set "spot=$SPOT"
    [ -z "$JOB" ] || set -- "$@" --set-file "job=$JOB"
    h install "$@"
    k wait --for=condition=complete --timeout=20m "job/$NAME-infer"
    k logs "job/$NAME-infer"
}
# NAME and bucket in place of the manifest's
tensorboard() {
    tools kubectl
    say "TensorBoard, for whoever may reach the cluster: no address of its own"
    line sed "s|gs://my-bucket/qcnn/logs|$logs|; s|qcnn-tensorboard|$NAME-tensorboard|g" "$root/deploy/jobs/tensorboard.yaml"
    from=$words
    line kubectl "--context=$context" "--namespace=$NAMESPACE" apply --filename=-
    does "$from | $words"
    k rollout status "deployment/$NAME-tensorboard" --timeout=15m
    set -- port-forward "service/$NAME-tensorboard" 6006:6006
    if [ "$command" = tensorboard ]; then
        say "http://localhost:6006 until Ctrl-C"
        k "$@"
    else
        line kubectl "--context=$context" "--namespace=$NAMESPACE" "$@"
        say "for http://localhost:6006 type: $words"
    fi
}
stop() {
    tools kubectl helm
    say "training, predictions and TensorBoard"
    for release in "$NAME-infer" "$NAME"; do h uninstall "$release" --ignore-not-found --wait; done
    k delete --ignore-not-found "--filename=$root/deploy/kustomize/monitoring-gke/podmonitoring.yaml"
    k delete --ignore-not-found "deployment/$NAME-tensorboard" "service/$NAME-tensorboard" "serviceaccount/$NAME-tensorboard" \
        "networkpolicy/$NAME-tensorboard"
}
clean() {
    tools gcloud
    if [ -z "$dry$yes" ]; then
        echo "This removes cluster $CLUSTER, registry $REPOSITORY, account $nodes and bucket gs://$BUCKET with all results in it." >&2
        [ -t 0 ] || refuse "clean wants a terminal to ask, or --yes"
        printf 'Type the bucket name to go on: ' >&2
        read -r answer
        [ "$answer" = "$BUCKET" ] || refuse "nothing was removed"
    fi
    say "what infra made, last first"
    number
    for grant in $grants; do
        line gcloud storage buckets remove-iam-policy-binding "gs://$BUCKET"
        does "$words --member=$(principal "${grant%%:*}") --role=${grant#*:} >/dev/null 2>&1 || true"
    done
    taken gcloud container clusters describe "$CLUSTER" "--location=$REGION" "--project=$PROJECT" -- \
        gcloud container clusters delete "$CLUSTER" "--location=$REGION" "--project=$PROJECT" --quiet
    taken gcloud artifacts repositories describe "$REPOSITORY" "--location=$REGION" "--project=$PROJECT" -- \
        gcloud artifacts repositories delete "$REPOSITORY" "--location=$REGION" "--project=$PROJECT" --quiet
    taken gcloud storage buckets describe "gs://$BUCKET" -- gcloud storage rm "gs://$BUCKET" --recursive
    line gcloud projects remove-iam-policy-binding "$PROJECT" "--member=serviceAccount:$nodes" \
        --role=roles/container.defaultNodeServiceAccount --condition=None
    does "$words >/dev/null 2>&1 || true"
    taken gcloud iam service-accounts describe "$nodes" "--project=$PROJECT" -- \
        gcloud iam service-accounts delete "$nodes" "--project=$PROJECT" --quiet
    say "left enabled, which costs nothing: $apis"
}
costs() {
    tools gcloud
    say "what costs money now: clusters, storage, images; and what a cluster may have left behind: disks, load balancers"
    for list in "container clusters" "storage buckets" "artifacts repositories" "compute disks" "compute forwarding-rules"; do
        # shellcheck disable=SC2086
        line gcloud $list list "--project=$PROJECT" "--format=table(name.basename(),location.basename(),zone.basename(),region.basename(),status)"
        does "$words || true" # not every project has each of these
    done
}

case $command in
all) for step in infra image train scale infer tensorboard costs; do $step; done ;;
infra | clean) $command; costs ;;
*) $command ;;
esac
