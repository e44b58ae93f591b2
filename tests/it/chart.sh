#!/bin/sh
# Manifests and chart (Job, StatefulSet, JobSet, TFJob, TrainJob): committed files are what the
# chart renders, have known keys only (kubeconform with tests/schemas, kubernetes-validate
# for 1.30 to 1.37), and a misspelt key is found; wrong values are rejected by name; pods are
# restricted; scaling changes two numbers of the Job and no pod; the rendered commands form a
# ring, with certificates of Helm and of qring certs, and predict. Helm and kubeconform come from Go's
# module proxy, kubernetes-validate from PyPI, into build/tools; without them their part is skipped.
. "$(dirname "$0")/common"
unset TF_CONFIG
tests/chart/tools helm3 >"$work/helm" 2>"$work/helm.log" & # compiles for two minutes the first time
compiling=$!
check "the chart's README matches values.yaml" tests/chart/readme
check "the chart's job file is deploy/jobs/qcnn.json" cmp deploy/jobs/qcnn.json charts/qring/files/qcnn.json
rendered="qcnn infer sweep statefulset jobset tfjob-restarts tfjob-ps tfjob-evaluator trainjob clustertrainingruntime" # by make manifests
manifests=$(for f in $rendered tfjob tensorboard trainjob-cluster; do printf 'deploy/jobs/%s.yaml ' "$f"; done)

. tests/chart/common
if [ -n "$py_exe" ]; then
    # shellcheck disable=SC2086
    silent "our schemas accept the manifests" strict $manifests
    # shellcheck disable=SC2086
    check "Kubernetes 1.30 to 1.37 know all of their own kinds in $manifests" against 1.30,1.31,1.32,1.33,1.34,1.35,1.36,1.37 $manifests
    misspelt deploy/jobs/qcnn.yaml completions maxFailedIndexes onExitCodes subdomain readOnlyRootFilesystem publishNotReadyAddresses \
        egress automountServiceAccountToken configMapKeyRef httpGet topologyKey
    misspelt deploy/jobs/infer.yaml backoffLimit command podSelector seccompProfile
    misspelt deploy/jobs/tfjob.yaml tfReplicaSpecs replicas cleanPodPolicy image containerPort
    misspelt deploy/jobs/statefulset.yaml serviceName podManagementPolicy replicas restartPolicy
    misspelt deploy/jobs/jobset.yaml replicatedJobs maxRestarts onJobFailureReasons enableDNSHostnames backoffLimitPerIndex secretName
    misspelt deploy/jobs/tfjob-restarts.yaml successPolicy restartPolicy containerPort topologySpreadConstraints
    misspelt deploy/jobs/trainjob.yaml mlPolicy numNodes runtimeRef failurePolicy fieldRef onExitCodes
    misspelt deploy/jobs/clustertrainingruntime.yaml mlPolicy replicatedJobs fieldPath
    misspelt deploy/jobs/trainjob-cluster.yaml runtimeRef
    misspelt deploy/jobs/tensorboard.yaml ipBlock strategy targetPort
    sed 's/replicas: 2$/replicas: two/' deploy/jobs/tfjob.yaml >"$work/typo.yaml"
    if [ -n "$kubeconform" ]; then
        strict "$work/typo.yaml" >"$work/output" 2>&1; rc=$?
        check "a replica count that is not a number is rejected: $(cat "$work/output")" test $rc = 1
    fi
    for f in $rendered; do
        silent "deploy/jobs/$f.yaml follows the rules of tests/chart/objects.py" objects safe "deploy/jobs/$f.yaml"
    done
    check "the schema of the values rejects unknown keys" says_nothing objects closed charts/qring/values.schema.json

    # the command of a pod: its identity, the ring and its digest, the predictions
    job=$root/deploy/jobs/qcnn.json
    printf '%s --print-identity\n' "JOB_COMPLETION_INDEX=1 $(in_pod deploy/jobs/qcnn.yaml qcnn 1 "$job")" >"$work/identity.sh"
    check "a pod prints its identity" run_to "$work/identity.log" sh "$work/identity.sh"
    for words in '"source":"job_index"' '"index":1' '"address":"qcnn-1.qcnn:2222"' '"peers":["qcnn-0.qcnn:2222","qcnn-1.qcnn:2222"]'; do
        check "a pod's identity has $words" holds "$work/identity.log" "$words"
    done
    # the other ways to launch: FILE|ENVIRONMENT OF POD 1|ITS IDENTITY
    while IFS='|' read -r f with wanted; do
        printf '%s %s --print-identity\n' "$with" "$(in_pod "deploy/jobs/$f.yaml" qcnn 1 "$job")" >"$work/identity.sh"
        check "a pod of $f.yaml starts" run_to "$work/identity.log" sh "$work/identity.sh"
        for words in $wanted; do check "a pod of $f.yaml has identity $words: $(tail -n 1 "$work/identity.log")" holds "$work/identity.log" "$words"; done
    done <<T
jobset|JOB_COMPLETION_INDEX=1|"source":"job_index" "index":1 "peers":["qcnn-workers-0-0.qcnn:2222","qcnn-workers-0-1.qcnn:2222"]
trainjob|JOB_COMPLETION_INDEX=1|"source":"job_index" "index":1 "peers":["qcnn-node-0-0.qcnn:2222","qcnn-node-0-1.qcnn:2222"]
tfjob-restarts|TF_CONFIG='$(tf_config 1 qcnn-worker-0.default.svc:2222 qcnn-worker-1.default.svc:2222)'|"source":"tf_config" "index":1 "peers":["qcnn-worker-0.default.svc:2222","qcnn-worker-1.default.svc:2222"]
tfjob-restarts||"source":"single" "index":0
T
    # parameter servers, evaluators and their workers: FILE|POD|ENVIRONMENT OF POD 0|ITS IDENTITY
    sparse='{"cluster":{"worker":{},"ps":["p:2222"]},"task":' with_evaluator='{"cluster":{"worker":["w:2222"],"evaluator":["e:2222"]},"task":'
    while IFS='|' read -r f pod with wanted; do
        printf '%s %s --print-identity\n' "$with" "$(in_pod "$f" "$pod" 0 "$job")" >"$work/identity.sh"
        check "pod $pod of $f starts" run_to "$work/identity.log" sh "$work/identity.sh"
        for words in $wanted; do check "pod $pod of $f has identity $words: $(tail -n 1 "$work/identity.log")" holds "$work/identity.log" "$words"; done
    done <<T
deploy/jobs/tfjob-ps.yaml|qcnn|QRING_INDEX=0 TF_CONFIG='$sparse{"type":"worker","index":0}}'|"role":"worker" "index":1 "parameter_servers":1 "peers":["qcnn-ps-0:2222","qcnn-worker-0:2222"]
deploy/jobs/tfjob-ps.yaml|qcnn-ps|QRING_INDEX=0 TF_CONFIG='$sparse{"type":"ps","index":0}}'|"role":"ps" "index":0 "peers":["qcnn-ps-0:2222"]
deploy/jobs/tfjob-evaluator.yaml|qcnn|TF_CONFIG='$with_evaluator{"type":"worker","index":0}}'|"role":"worker" "index":0 "peers":["w:2222"]
deploy/jobs/tfjob-evaluator.yaml|qcnn-eval|TF_CONFIG='$with_evaluator{"type":"evaluator","index":0}}'|"role":"evaluator" "index":null "address":"e:2222"
T
    printf 'JOB_COMPLETION_INDEX=1 %s --replicas=2 --print-identity\n' "$(in_pod deploy/jobs/clustertrainingruntime.yaml qring 1 "$job")" >"$work/identity.sh"
    check "a pod of a TrainJob by the cluster's runtime starts" run_to "$work/identity.log" sh "$work/identity.sh"
    for words in '"source":"job_index"' '"index":1' '"peers":["qring-node-0-0.qring:2222","qring-node-0-1.qring:2222"]'; do
        check "a pod of a TrainJob by the cluster's runtime has identity $words: $(tail -n 1 "$work/identity.log")" holds "$work/identity.log" "$words"
    done
    printf 'hostname qcnn-1 && %s --print-identity\n' "$(in_pod deploy/jobs/statefulset.yaml qcnn 1 "$job")" >"$work/identity.sh"
    if unshare -U -r -u true 2>/dev/null; then
        check "a pod of statefulset.yaml starts" run_to "$work/identity.log" unshare -U -r -u sh "$work/identity.sh"
        for words in '"source":"statefulset"' '"index":1' '"peers":["qcnn-0.qcnn:2222","qcnn-1.qcnn:2222"]'; do
            check "a pod of statefulset.yaml has identity $words: $(tail -n 1 "$work/identity.log")" holds "$work/identity.log" "$words"
        done
    else skip "cannot set a host name in a user namespace: the identity of the StatefulSet's pod is not checked"; fi
    printf '%s --print-identity\n' "$(in_pod deploy/jobs/tfjob.yaml qcnn 1 "$job")" >"$work/tfjob.sh"
    for flag in --weights-gcs-bucket= --weights-gcs-path=qcnn_weights.h5 --logdir=gs:// --profiler-port=2223; do
        check "the TFJob has the tutorial's flag $flag" holds "$work/tfjob.sh" " $flag"
    done
    TF_CONFIG=$(tf_config 1 qcnn-worker-0.default.svc:2222 qcnn-worker-1.default.svc:2222)
    run_to "$work/tfjob.log" env TF_CONFIG="$TF_CONFIG" sh "$work/tfjob.sh"
    unset TF_CONFIG
    check "a TFJob's pod accepts the tutorial's flags and prints its index: $(tail -n 1 "$work/tfjob.log")" \
        grep -q '"source":"tf_config".*"index":1' "$work/tfjob.log"
    in_pod deploy/jobs/qcnn.yaml qcnn 0 "$job" | sed 's/ --plaintext//' >"$work/plain.sh"
    run_to "$work/plain.log" env JOB_COMPLETION_INDEX=0 QRING_START_TIMEOUT=1s sh "$work/plain.sh"; rc=$?
    check "without --plaintext a worker does not start: exit $rc" test $rc = 2
    check "the error names plaintext" holds "$work/plain.log" plaintext
    # two pods by their Service's names
    if ring_of deploy/jobs/qcnn.yaml qcnn "$job"; then
        check "two pods train and end with 0 0, not '$ends': $(tail -n 2 "$work/ring0.log")" test "$ends" = "0 0"
        run_to "$work/one.log" "$qring" run deploy/jobs/qcnn.json -n 1 --out "$work/one"
        one=$(json_string "$work/one/result.json" state_digest)
        two=$(json_string "$work/out0/result.json" state_digest)
        check "two pods: the digest of qring run: '$two', '$one'" test -n "$one" -a "$one" = "$two"
        check "the pods log that they use no TLS" holds "$work/ring0.log" --plaintext
    else skip "cannot create namespaces: the rendered rings do not run"; fi
    weights=$root/tests/golden/tfq/qcnn_weights.h5
    in_pod deploy/jobs/infer.yaml qcnn-infer 0 "$job" | sed "s|gs://my-bucket/qcnn/weights.h5|$weights|" >"$work/infer.sh"
    check "the inference pod runs" run_to "$work/infer.txt" sh "$work/infer.sh"
    "$qring" infer deploy/jobs/qcnn.json --weights "$weights" >"$work/local.txt" 2>&1
    check "the inference pod prints the output of a local qring infer" cmp "$work/infer.txt" "$work/local.txt"
    check "Results, Test Labels, Mean squared error" test "$(grep -cE '^(Results|Test Labels|Mean squared error: )' "$work/infer.txt")" = 3
    # two pods of the sweep, with a shared folder instead of the bucket; few epochs
    for i in 0 1; do
        in_pod deploy/jobs/sweep.yaml qcnn-sweep $i "$work/swept.json" | sed "s|gs://my-bucket/qcnn-sweep|$work/shared|" >"$work/sweep$i.sh"
    done
    py -c "
import sys, yaml
for part in yaml.safe_load_all(open('deploy/jobs/sweep.yaml')):
    if part['kind'] == 'ConfigMap': sys.stdout.write(part['data']['job.json'])" >"$work/swept.json"
    run_to "$work/sweep0.log" env JOB_COMPLETION_INDEX=0 QRING_SET=train.epochs=2 sh "$work/sweep0.sh" & first=$!
    run_to "$work/sweep1.log" env JOB_COMPLETION_INDEX=1 QRING_SET=train.epochs=2 sh "$work/sweep1.sh"; second=$?
    wait $first; first=$?
    check "two pods of the sweep end with 0 0, not $first $second: $(tail -n 1 "$work/sweep0.log")" test "$first $second" = "0 0"
    check "the two pods of the sweep write the same table" cmp "$work/out0/sweep.csv" "$work/out1/sweep.csv"
    check "the shared folder has the table of sixteen trials" test "$(grep -c ,done, "$work/shared/sweep.csv")" = 16
fi

# ---- the chart ----
if ! wait $compiling; then skip "no Helm, so the chart is not rendered: $(tail -n 1 "$work/helm.log")"; end; fi
helm=$(cat "$work/helm")
mkdir -p "$work/rendered"
check "the chart renders" tests/chart/render "$helm" "$work/rendered"
for f in $rendered; do
    f=$f.yaml
    check "deploy/jobs/$f is what the chart renders (make manifests): $(diff "deploy/jobs/$f" "$work/rendered/$f" | head -n 5)" \
        cmp "deploy/jobs/$f" "$work/rendered/$f"
done
check "the manifests contain no private key" sh -c "! grep -E 'PRIVATE KEY|^kind: Secret' deploy/jobs/*.yaml"
template() { "$helm" template "$@" --kube-version 1.33.0; }
for values in tests/chart/values/*.yaml; do
    out=$work/$(basename "$values")
    "$helm" lint --strict --kube-version 1.33.0 charts/qring -f "$values" >"$work/output" 2>&1; rc=$?
    check "helm lint --strict with $values: $(grep -E 'WARN|ERR' "$work/output")" test $rc = 0
    template a-release charts/qring -f "$values" >"$out" 2>"$work/output"; rc=$?
    check "the chart renders with $values: $(cat "$work/output")" test $rc = 0
    [ -n "$py_exe" ] || continue
    silent "our schemas accept $values" strict "$out"
    silent "the rules of tests/chart/objects.py hold with $values" objects safe "$out"
    known_to=1.30,1.37
    [ "$(basename "$values")" != podgroup.yaml ] || known_to=1.37
    check "Kubernetes $known_to know all of $values" against $known_to "$out"
    check "no registry is built in with $values" sh -c "! grep -E 'image: ' '$out' | grep -vE 'qring:$(cat lib/VERSION)|registry.example/'"
done
[ -z "$py_exe" ] || misspelt "$work/podgroup.yaml" podGroupName schedulingPolicy minCount
# parameter servers for each way to launch: identities of a server's and a worker's pod
if [ -n "$py_exe" ]; then
    job=$root/deploy/jobs/qcnn.json
    while IFS='|' read -r values servers workers; do
        for pod in a-release-ps a-release; do
            printf 'JOB_COMPLETION_INDEX=1 %s --print-identity\n' "$(in_pod "$work/$values.yaml" $pod 1 "$job")" >"$work/identity.sh"
            check "$values: $pod starts" run_to "$work/identity.log" sh "$work/identity.sh"
            i=3; [ $pod = a-release ] || i=1
            for words in "\"index\":$i," '"parameter_servers":2' "$servers" "$workers"; do
                check "$values: $pod has identity $words: $(tail -n 1 "$work/identity.log")" holds "$work/identity.log" "$words"
            done
        done
    done <<T
servers|"a-release-ps-0.a-release:2222","a-release-ps-1.a-release:2222"|"a-release-0.a-release:2222"
servers-jobset|"a-release-servers-0-0.a-release:2222","a-release-servers-0-1.a-release:2222"|"a-release-workers-0-0.a-release:2222"
servers-trainingruntime|"a-release-ps-0-0.a-release:2222","a-release-ps-0-1.a-release:2222"|"a-release-node-0-0.a-release:2222"
T
fi
# evaluators: a Job, with a ring of any kind; given the workers' volume, it evaluates their
# checkpoints
if [ -n "$py_exe" ]; then
    for values in evaluator evaluator-jobset; do
        printf 'JOB_COMPLETION_INDEX=1 %s --print-identity\n' "$(in_pod "$work/$values.yaml" a-release-eval 0 "$job")" >"$work/identity.sh"
        check "$values: the evaluator's pod starts" run_to "$work/identity.log" sh "$work/identity.sh"
        check "$values: the pod is an evaluator: $(tail -n 1 "$work/identity.log")" holds "$work/identity.log" '"role":"evaluator","index":null'
    done
    in_pod "$work/evaluator.yaml" a-release-eval 0 "$job" | sed "s|--out=[^ ]*|--out=$work/claim|" >"$work/eval.sh"
    run_to "$work/claim.log" "$qring" run deploy/jobs/qcnn.json -n 1 --epochs 7 --out "$work/claim"
    check "the evaluator ends with 0" run_to "$work/eval.log" sh "$work/eval.sh"
    check "the evaluator's last line is that of training's evaluation" test "$(sed 's/,"job_hash.*/}/' "$work/claim/evaluation.jsonl")" = "$(tail -n 1 "$work/claim/steps.jsonl" | sed 's/,"state_digest.*/}/')"
fi
check "an evaluator without shared storage is rejected" sh -c "'$helm' template a charts/qring --kube-version 1.33.0 --set evaluator=true 2>&1 | grep -q 'evaluator: the pods have nothing in common'"
check "65 members are rejected" sh -c "'$helm' template a charts/qring --kube-version 1.33.0 --set replicas=64,parameterServers=1 2>&1 | grep -q 'more than 64 members'"
# The releases that deploy/gke/gke.sh installs.
for command in train infer; do
    PROJECT=my-project TAG=1 deploy/gke/gke.sh --dry-run $command 2>&1 | sed -n "s/^\(helm status .* || \)\{0,1\}helm install //p" >"$work/output"
    check "gke.sh $command installs one release" test "$(wc -l <"$work/output")" = 1
    sed 's/ --create-namespace//; s/ --kube-context=[^ ]*//' "$work/output" | sed "s|^|'$helm' template --kube-version 1.33.0 |" >"$work/gke.sh"
    sh "$work/gke.sh" >"$work/gke.yaml" 2>"$work/output"; rc=$?
    check "the chart accepts the values of gke.sh $command: $(tail -n 1 "$work/output")" test $rc = 0
    for words in 'image: "us-west1-docker.pkg.dev/my-project/qring/qring:1"' 'weights=gs://my-project-qring/qcnn/weights.h5' gke-spot 'port: 443'; do
        check "gke.sh $command: $words" holds "$work/gke.yaml" "$words"
    done
    [ -z "$py_exe" ] || silent "gke.sh $command" strict "$work/gke.yaml"
    [ -z "$py_exe" ] || silent "gke.sh $command" objects safe "$work/gke.yaml"
done
# a cluster without backoffLimitPerIndex
"$helm" template a-release charts/qring --kube-version 1.27.0 >"$work/old.yaml" 2>&1
check "1.27: retries are counted for the whole Job" sh -c "grep -q 'backoffLimit: 12' '$work/old.yaml' && ! grep -q PerIndex '$work/old.yaml'"
check "1.26 is rejected" sh -c "! '$helm' template a charts/qring --kube-version 1.26.0 >/dev/null 2>&1"
# scaling
if [ -n "$py_exe" ]; then
    template a charts/qring --skip-tests --set replicas=2 >"$work/two.yaml"
    template a charts/qring --skip-tests --set replicas=5 >"$work/five.yaml"
    objects scaled "$work/two.yaml" "$work/five.yaml" >"$work/differ"
    # helm template has no cluster to look up the Secret in, so each rendering has a new one; the
    # pods do not change.
    check "2 and 5 workers differ in nothing else: $(cat "$work/differ")" test "$(paste -sd' ' "$work/differ")" = "ConfigMap/a.data.replicas \
Job/a.spec.completions Job/a.spec.parallelism PodDisruptionBudget/a.spec.minAvailable Secret/a-tls.data.ca.crt Secret/a-tls.data.tls.crt Secret/a-tls.data.tls.key"
fi
# certificates of Helm, and of qring certs with the two commands in deploy/jobs/qcnn.yaml
tls_ring() { # WHAT FILE IDENTITY: two pods with the Secret of FILE
    tls_of "$2"
    ring_of "$2" qcnn "$root/deploy/jobs/qcnn.json" || return 0 # skipped above
    check "$1: two pods end with 0 0, not '$ends': $(tail -n 2 "$work/ring0.log")" test "$ends" = "0 0"
    got=$(json_string "$work/out0/result.json" state_digest)
    check "$1: to the digest of qring run: '$got', '$one'" test -n "$one" -a "$got" = "$one"
    for i in 0 1; do
        check "$1: worker $i is $3" holds "$work/ring$i.log" "TLS between workers: as $3"
        check "$1: worker $i rejects no peer: $(grep rejected "$work/ring$i.log")" sh -c "! grep rejected '$work/ring$i.log'"
    done
}
if [ -n "$py_exe" ]; then
    template qcnn charts/qring >"$work/generated.yaml"
    tls_ring "Helm's certificates" "$work/generated.yaml" '*.qcnn.default.svc,qcnn.default.svc'
    if command -v openssl >/dev/null; then
        openssl x509 -in "$work/tls/tls.crt" -noout -text -checkend $((364 * 86400)) >"$work/output" 2>&1
        for words in 'CN = qcnn CA' 'CN = qcnn' '2048 bit' 'CA:FALSE' 'TLS Web Server Authentication, TLS Web Client Authentication' 'will not expire'; do
            check "Helm's certificate has $words" holds "$work/output" "$words"
        done
    fi
    sed -n 's/^#   //p' deploy/jobs/qcnn.yaml | sed "s|^qring |$qring |; s|^helm |$helm |; s/ | kubectl apply -f -//" >"$work/two.sh"
    check "deploy/jobs/qcnn.yaml has two commands" test "$(wc -l <"$work/two.sh")" = 2
    { sed -n 1p "$work/two.sh" | sh && echo --- && sed -n 2p "$work/two.sh" | sh; } >"$work/certs.yaml" 2>"$work/output"
    silent "our schemas accept the output of the two commands" strict "$work/certs.yaml"
    check "Kubernetes 1.30 knows the output of the two commands" against 1.30 "$work/certs.yaml"
    tls_ring "qring certs" "$work/certs.yaml" qring://default/qcnn
fi
# helm test: the ring ends with 0 0 only if it has finished its steps.
template qcnn charts/qring >"$work/tested.yaml"
[ -z "$py_exe" ] || tls_of "$work/tested.yaml"
if [ -n "$py_exe" ] && ring_of "$work/tested.yaml" qcnn-test "$root/deploy/jobs/qcnn.json"; then
    check "helm test's ring ends with 0 0, not '$ends': $(tail -n 2 "$work/ring0.log")" test "$ends" = "0 0"
    check "helm test's ring has written its two steps" test "$(grep -c '"kind":"TRAIN"' "$work/out0/test/steps.jsonl")" = 2
    check "helm test's ring has written its own weights" test -s "$work/out0/test/weights.h5"
    sed 's/cluster-excitations/no-such-source/' deploy/jobs/qcnn.json >"$work/broken.json"
    ring_of "$work/tested.yaml" qcnn-test "$work/broken.json"
    check "helm test's ring with an invalid job ends with 2 2, not '$ends'" test "$ends" = "2 2"
fi
# The commands in the notes; helm template omits the notes, so they are rendered as a file.
cp -r charts/qring "$work/noted" && mv "$work/noted/templates/NOTES.txt" "$work/noted/NOTES.txt"
printf 'kind: Notes\nnotes: |\n{{ tpl (.Files.Get "NOTES.txt") . | indent 2 }}\n' >"$work/noted/templates/notes.yaml"
template a-release "$work/noted" -n physics --show-only templates/notes.yaml --set weights=gs://b/w.h5 >"$work/notes" 2>&1
template a-release-infer charts/qring -f tests/chart/values/full.yaml --set mode=infer,fullnameOverride=,extraArgs=null >"$work/after.yaml" 2>&1
check "the notes' command for predictions, with every value set" grep -q -- '--weights=gs://my-bucket/pure.h5' "$work/after.yaml"
for words in '2 workers train as Job a-release in namespace physics, over TLS' 'in Secret a-release-tls, valid for 365 days' \
    'kubectl -n physics delete secret a-release-tls && helm -n physics upgrade a-release charts/qring --reuse-values' 'kubectl -n physics get pods' \
    'logs -f --tail=-1 -l batch.kubernetes.io/job-name=a-release' 'upgrade a-release charts/qring --reuse-values --set replicas=N' \
    '"completions":N,"parallelism":N' "patch pdb a-release -p '{\"spec\":{\"minAvailable\":M}}' (M: N less 1)" '--field-selector=status.phase=Running -o name) 8080' 'helm -n physics test a-release' \
    'install a-release-infer charts/qring -f - --set mode=infer,fullnameOverride=,extraArgs=null' 'helm -n physics uninstall a-release'; do
    check "the notes have: $words" holds "$work/notes" "$words"
done

# ---- progress reports to an object: LAUNCH|API GROUP|RESOURCE ----
while IFS='|' read -r launch group resource; do
    template a-release charts/qring --set "progressTo=annotations,launch=$launch,parameterServers=$([ "$launch" = job ] && echo 1 || echo 0)" >"$work/progress.yaml" 2>&1
    check "$launch: a role that may patch one object" sh -c 'grep -A 20 "^kind: Role$" "$1" | tr -d "\n " |
        grep -q "rules:-apiGroups:\[$2\]resources:\[$3\]resourceNames:\[a-release\]verbs:\[patch\]---"' - "$work/progress.yaml" "$group" "$resource"
    check "$launch: training pods mount a token, the test's pods and the account do not" sh -c \
        'grep -A 60 "component: \(train\|ps\)$" "$1" | grep -q "automountServiceAccountToken: true" && grep -q "^automountServiceAccountToken: false" "$1" &&
        [ "$(grep -c "automountServiceAccountToken: true" "$1")" = "$(grep -c -- "--progress-to=$2/a-release" "$1")" ]' - "$work/progress.yaml" "$launch"
    check "$launch: the network policy admits the API server" holds "$work/progress.yaml" '{port: 6443, protocol: TCP}'
done <<T
job|batch|jobs
statefulset|apps|statefulsets
jobset|jobset.x-k8s.io|jobsets
tfjob|kubeflow.org|tfjobs
T
template a-release charts/qring --set progressTo=annotations,launch=trainingruntime >"$work/progress.yaml" 2>&1
check "a TrainJob needs no progressTo" holds "$work/progress.yaml" 'leave progressTo empty'
template a-release charts/qring --set progressTo=annotations,mode=infer >"$work/progress.yaml" 2>&1
check "predictions report no progress" sh -c '! grep -qE "progress-to|kind: Role|ServiceAccountToken: true" "$1"' - "$work/progress.yaml"
template a-release charts/qring --set progressTo=http://me@host:8090/a:1 >"$work/progress.yaml" 2>&1
check "a server: its port is open, and there is no role" sh -c 'grep -q "{port: 8090, protocol: TCP}" "$1" && ! grep -q "kind: Role" "$1"' - "$work/progress.yaml"

# ---- rejected values: VALUE|WORDS ----
long=$(printf 'a%.0s' $(seq 60))
while IFS='|' read -r value words; do
    [ -n "$value" ] || continue
    if template a-release charts/qring --set "$value" >"$work/output" 2>&1; then fail "$value is accepted"
    elif ! holds "$work/output" "$words"; then fail "$value: no '$words' in the error: $(tail -n 2 "$work/output")"
    else pass; fi
done <<T
mode=serve|'/mode'
launch=pod|'/launch'
replicas=0|'/replicas'
replicas=65|'/replicas'
replicas=two|'/replicas'
replica=3|'replica'
weights=weights.h5|'/weights'
weights=gs://bucket|'/weights'
weights=s4://bucket/w.h5|'/weights'
weights=gs://bucket/w.txt|'/weights'
logdir=logs|'/logdir'
cost.max=much|'/cost/max'
cost.pricePerPodHour=-1|'/cost/pricePerPodHour'
cost.price=1|'price'
progressTo=job/qcnn|'/progressTo'
progressTo=ftp://host|'/progressTo'
progressTo=https:///path|'/progressTo'
outputClaim=My_Claim|'/outputClaim'
plaintext=true|'plaintext'
tls.mode=maybe|'/tls/mode'
tls.mode=secret|'/tls/existingSecret'
tls.mode=secret,tls.existingSecret=My_Secret|'/tls/existingSecret'
tls.existingSecret=a|'/tls/existingSecret'
tls.mode=certManager|'/tls/issuerRef'
tls.mode=certManager,tls.issuerRef.kind=Issuer|'/tls/issuerRef'
tls.mode=certManager,tls.issuerRef.nam=a|'nam'
tls.issuerRef.name=a|'/tls/issuerRef'
tls.mode=certManager,tls.issuerRef.name=a,tls.duration=90d|'/tls/duration'
tls.renewBefore=30|'/tls/renewBefore'
tls.days=0|'/tls/days'
tls.days=3651|'/tls/days'
tls.secretName=a|'secretName'
set={epochs}|'/set/0'
set={=60}|'/set/0'
set=train.epochs|'/set'
extraArgs={infer}|'/extraArgs/0'
extraArgs=--x|'/extraArgs'
extraEnv[0].value=x|'name'
extraEnv[0].name=A,extraEnv[0].vaule=x|'vaule'
extraVolumes[0].name=x|'/extraVolumes/0'
extraVolumeMounts[0].name=x,extraVolumeMounts[0].mountPath=x|'/extraVolumeMounts/0/mountPath'
fullnameOverride=Upper|'/fullnameOverride'
fullnameOverride=1ring|'/fullnameOverride'
image.repository=|'/image/repository'
image.repo=x|'repo'
image.tag=a:b|'/image/tag'
image.digest=sha256:12|'/image/digest'
image.pullPolicy=Sometimes|'/image/pullPolicy'
imagePullSecrets={a}|'/imagePullSecrets/0'
cpu=0|'/cpu'
cpu=half|'/cpu'
cpu=0.0|'/cpu'
memory=512|'/memory'
memory=512MB|'/memory'
retries=-1|'/retries'
terminationGracePeriodSeconds=1|'/terminationGracePeriodSeconds'
tolerations[0].keys=x|'keys'
affinity.nodeAfinity.x=y|'nodeAfinity'
nodeSelector.a=1|'/nodeSelector/a'
podLabels.app\\.kubernetes\\.io/instance=x|'/podLabels/app.kubernetes.io~1instance'
labels.app\\.kubernetes\\.io/name=x|'/labels/app.kubernetes.io~1name'
serviceAccount.create=true|'create'
networkPolicy.enable=true|'enable'
networkPolicy.metricsFrom[0].podselector.x=y|'podselector'
resources.limits.cpu=1|'resources'
mode=infer|weights=gs://
mode=infer,weights=gs://b/w.h5,extraArgs={--log-level=debug}|'/extraArgs/0'
mode=infer,weights=gs://b/w.h5,extraArgs={--weights-gcs-bucket=b}|'/extraArgs/0'
weightsWait=soon|'/weightsWait'
weightsWait=10|'/weightsWait'
podDisruptionBudget.maxUnavailable=0|'/podDisruptionBudget/maxUnavailable'
podDisruptionBudget.maxUnavailable=50%|'/podDisruptionBudget/maxUnavailable'
podDisruptionBudget.minAvailable=1|'minAvailable'
topologySpreadConstraints[0].maxSkew=1|'/topologySpreadConstraints/0'
topologySpreadConstraints[0].maxSkew=1,topologySpreadConstraints[0].topologyKey=a,topologySpreadConstraints[0].whenUnsatisfiable=Never|'/topologySpreadConstraints/0/whenUnsatisfiable'
mode=sweep|sweepTo=gs://
mode=sweep,sweepTo=/out/x|'/sweepTo'
job=nonsense|job is not a JSON object
T
# A bucket named by the tutorial's flags, or their variables, opens the port of Cloud Storage.
for with in 'extraArgs={--weights-gcs-bucket=b,--weights-gcs-path=w.h5}' 'extraEnv[0].name=QRING_WEIGHTS_GCS_BUCKET,extraEnv[0].value=b' weights=gs://b/w.h5; do
    template a charts/qring --set "$with" >"$work/rules.yaml" 2>&1
    check "the network policy admits Cloud Storage with $with" grep -q 'port: 443' "$work/rules.yaml"
done
template a charts/qring >"$work/rules.yaml" 2>&1
check "the network policy does not admit Cloud Storage without a bucket" sh -c "! grep -q 'port: 443' '$work/rules.yaml'"
# the disruption budget
if [ -n "$py_exe" ]; then
    template a charts/qring --skip-tests | sed -n '/^# Source: qring\/templates\/disruption/,/^---/p' >"$work/budget.yaml"
    check "there is a budget" holds "$work/budget.yaml" 'kind: PodDisruptionBudget'
    silent "our schemas accept the budget" strict "$work/budget.yaml"
    check "Kubernetes 1.30, 1.34 and 1.37 know the budget" against 1.30,1.34,1.37 "$work/budget.yaml"
    misspelt "$work/budget.yaml" minAvailable unhealthyPodEvictionPolicy matchExpressions
fi
# names
template "$(echo "$long" | cut -c1-53)" charts/qring >"$work/long.yaml" 2>&1
check "a long release name is cut and stays unique" grep -qE '^  name: a{37}-[0-9a-f]{8}$' "$work/long.yaml"
check "an invalid Service name is rejected, and the error names fullnameOverride" sh -c \
    "'$helm' template 3ring charts/qring --kube-version 1.33.0 2>&1 | grep -q 'fullnameOverride'"
end
