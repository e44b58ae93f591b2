#!/bin/sh
# The tutorial on Google Kubernetes Engine, from an empty project to predictions, and back to an empty project.
#
#   PROJECT=my-project deploy/gke/gke.sh [--dry-run] [--yes] COMMAND
#
#   infra        creates registry, bucket, node account, Autopilot cluster and the pods' bucket grants
#   image        builds the image from this checkout and pushes it
#   train        starts REPLICAS workers; weights, checkpoints and event files go to the bucket
#   scale N      changes the number of workers (SCALE_TO) while they train
#   infer        waits for the weights, then prints predictions as the tutorial's inference does
#   tensorboard  shows the curves on http://localhost:6006, until Ctrl-C
#   stop         removes training, predictions and TensorBoard; results, cluster and registry stay
#   clean        removes everything that infra created, and the results
#   costs        lists what costs money
#   all          infra, image, train, scale, infer, tensorboard (left running), costs
#
# Every command can be repeated: existing resources stay. --dry-run prints the commands, for a shell, and runs none.
# Variables and defaults (a value with characters that the name cannot have is rejected):
#   PROJECT      (must be set)      REGION    us-west1             BUCKET      PROJECT-qring     CLUSTER    qring
#   NAMESPACE    default            NAME      qcnn                 REPOSITORY  qring             TAG        the checkout's commit
#   REPLICAS     2                  SCALE_TO  4                    SPOT        true              TIMEOUT    1h, for training
#   JOB          (the tutorial's)   BUILDER   docker, or podman
set -u
me=gke.sh
refuse() { echo "$me: $*" >&2; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd) || exit 1

# ---- arguments ----
dry='' yes='' command='' count=''
for word in "$@"; do
    case $word in
    --dry-run) dry=1 ;;
    --yes) yes=1 ;;
    -h | --help | help) sed -n '2,26s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) refuse "unknown flag $word; $me --help" ;;
    *)  if [ -z "$command" ]; then command=$word
        elif [ "$command" = scale ] && [ -z "$count" ]; then count=$word
        else refuse "unexpected argument '$word'; $me --help"; fi ;;
    esac
done
case $command in
infra | image | train | scale | infer | tensorboard | stop | clean | costs | all) ;;
'') refuse "a command is missing; choose infra, image, train, scale, infer, tensorboard, stop, clean, costs or all; $me --help" ;;
*) refuse "unknown command '$command'; choose infra, image, train, scale, infer, tensorboard, stop, clean, costs or all" ;;
esac

# fits VARIABLE PATTERN WHAT: rejects a value that is not a single line of the form that Google Cloud or Kubernetes accept for such a name, so
# that no value is special to a shell, Helm or gcloud.
fits() {
    value=
    eval "value=\$$1"
    case $value in *'
'*) refuse "$1 has more than one line; set $3" ;; esac
    printf '%s\n' "$value" | LC_ALL=C grep -qxE "$2" || refuse "$1='$value' is invalid; set $3"
}
[ -n "${PROJECT-}" ] || refuse "PROJECT is not set; set the id of a Google Cloud project with billing: PROJECT=my-project $me $command"
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
*[,\\\"\']*) refuse "JOB='$JOB' is invalid: Helm accepts no path with a comma, a backslash or a quote" ;;
*) [ -f "$JOB" ] || refuse "JOB='$JOB' is not a file" ;;
esac

# ---- commands as shell text ----
# line WORD...: sets $words to a shell command, quoting words with special characters
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
# does LINE: prints a command, and without --dry-run runs it; a failure ends the script
does() {
    if [ -n "$dry" ]; then printf '%s\n' "$1"; return; fi
    printf '+ %s\n' "$1" >&2
    eval "$1" || { rc=$?; echo "$me: command failed (exit $rc): $1" >&2; exit 1; }
}
run() { line "$@"; does "$words"; }
# asked QUERY -- COMMAND: sets $first and $words to the two as shell commands
asked() {
    first=
    while [ "$1" != -- ]; do line "$1"; first="$first${first:+ }$words"; shift; done
    shift
    line "$@"
}
# made QUERY -- COMMAND: runs COMMAND if QUERY fails (the resource does not exist). taken: runs COMMAND if QUERY succeeds
made() { asked "$@"; does "$first >/dev/null 2>&1 || $words"; }
taken() { asked "$@"; does "if $first >/dev/null 2>&1; then $words; fi"; }
# again LINE: runs a command with retries, since a new account takes some seconds to be known everywhere
again() {
    if [ -n "$dry" ]; then does "$1"; return; fi
    for try in 1 2 3 4 5; do
        printf '+ %s\n' "$1" >&2
        eval "$1" && return
        echo "$me: attempt $try of 6 failed; retry in 10 s" >&2
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
# Roles of the pods' Kubernetes accounts on the bucket, granted directly, without keys or Google accounts
grants="$NAME:roles/storage.objectUser $NAME-infer:roles/storage.objectViewer $NAME-tensorboard:roles/storage.objectViewer"
principal() { # ACCOUNT: in double quotes, as the shell inserts the project number
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
    say "enable the APIs"
    # shellcheck disable=SC2086
    run gcloud services enable $apis "--project=$PROJECT"
    say "create the image registry"
    made gcloud artifacts repositories describe "$REPOSITORY" "--location=$REGION" "--project=$PROJECT" -- \
        gcloud artifacts repositories create "$REPOSITORY" --repository-format=docker "--location=$REGION" "--project=$PROJECT" --labels=app=qring
    say "create the bucket, without soft delete (deleted checkpoints would cost for another week)"
    made gcloud storage buckets describe "gs://$BUCKET" -- gcloud storage buckets create "gs://$BUCKET" "--location=$REGION" \
        "--project=$PROJECT" --uniform-bucket-level-access --public-access-prevention --soft-delete-duration=0
    say "create the node account: logs, metrics, this registry only"
    made gcloud iam service-accounts describe "$nodes" "--project=$PROJECT" -- \
        gcloud iam service-accounts create "${nodes%%@*}" "--project=$PROJECT" "--display-name=Nodes of cluster $CLUSTER"
    line gcloud projects add-iam-policy-binding "$PROJECT" "--member=serviceAccount:$nodes" --role=roles/container.defaultNodeServiceAccount \
        --condition=None
    again "$words >/dev/null"
    line gcloud artifacts repositories add-iam-policy-binding "$REPOSITORY" "--location=$REGION" "--project=$PROJECT" \
        "--member=serviceAccount:$nodes" --role=roles/artifactregistry.reader
    again "$words >/dev/null"
    say "create the Autopilot cluster, billed by pod requests (takes minutes)"
    made gcloud container clusters describe "$CLUSTER" "--location=$REGION" "--project=$PROJECT" -- \
        gcloud container clusters create-auto "$CLUSTER" "--location=$REGION" "--project=$PROJECT" --release-channel=regular \
        "--service-account=$nodes" --enable-dns-access --labels=app=qring
    run gcloud container clusters get-credentials "$CLUSTER" "--location=$REGION" "--project=$PROJECT" --dns-endpoint
    say "grant the bucket to the pods"
    number
    for grant in $grants; do
        line gcloud storage buckets add-iam-policy-binding "gs://$BUCKET"
        again "$words --member=$(principal "${grant%%:*}") --role=${grant#*:} >/dev/null"
    done
}
image() {
    tools gcloud "$BUILDER"
    say "build and push the image of this checkout"
    run gcloud auth configure-docker "$registry" --quiet
    run "$BUILDER" build --platform=linux/amd64 "--tag=$image:$TAG" "$root"
    run "$BUILDER" push "$image:$TAG"
}
train() {
    tools kubectl helm
    say "start $REPLICAS workers, over TLS with certificates from Helm; a running release stays as it is (use scale or stop)"
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
    say "scale to $SCALE_TO workers; training continues"
    h upgrade "$NAME" "$root/charts/qring" --reuse-values --set "replicas=$SCALE_TO"
    k get pods "--selector=app.kubernetes.io/instance=$NAME"
}
infer() {
    tools kubectl helm
    say "wait for the weights, then predict"
    k wait --for=condition=complete "--timeout=$TIMEOUT" "job/$NAME"
    h uninstall "$NAME-infer" --ignore-not-found --wait
    set -- "$NAME-infer" "$root/charts/qring" --set mode=infer --set "image.repository=$image" --set-string "image.tag=$TAG" \
        --set "weights=$weights" --set "spot=$SPOT"
    [ -z "$JOB" ] || set -- "$@" --set-file "job=$JOB"
    h install "$@"
    k wait --for=condition=complete --timeout=20m "job/$NAME-infer"
    k logs "job/$NAME-infer"
}
# Applies the manifest with NAME and BUCKET
tensorboard() {
    tools kubectl
    say "start TensorBoard, without a public address"
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
    say "remove training, predictions and TensorBoard"
    for release in "$NAME-infer" "$NAME"; do h uninstall "$release" --ignore-not-found --wait; done
    k delete --ignore-not-found "--filename=$root/deploy/kustomize/monitoring-gke/podmonitoring.yaml"
    k delete --ignore-not-found "deployment/$NAME-tensorboard" "service/$NAME-tensorboard" "serviceaccount/$NAME-tensorboard" \
        "networkpolicy/$NAME-tensorboard"
}
clean() {
    tools gcloud
    if [ -z "$dry$yes" ]; then
        echo "This removes cluster $CLUSTER, registry $REPOSITORY, account $nodes and bucket gs://$BUCKET with all results in it." >&2
        [ -t 0 ] || refuse "clean needs a terminal for confirmation, or --yes"
        printf 'Type the bucket name to continue: ' >&2
        read -r answer
        [ "$answer" = "$BUCKET" ] || refuse "nothing was removed"
    fi
    say "remove what infra created, in reverse order"
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
    say "still enabled, free of charge: $apis"
}
costs() {
    tools gcloud
    say "resources that cost money: clusters, storage, images; leftovers of a cluster: disks, load balancers"
    for list in "container clusters" "storage buckets" "artifacts repositories" "compute disks" "compute forwarding-rules"; do
        # shellcheck disable=SC2086
        line gcloud $list list "--project=$PROJECT" "--format=table(name.basename(),location.basename(),zone.basename(),region.basename(),status)"
        does "$words || true" # some lists fail in some projects
    done
}

case $command in
all) for step in infra image train scale infer tensorboard costs; do $step; done ;;
infra | clean) $command; costs ;;
*) $command ;;
esac
