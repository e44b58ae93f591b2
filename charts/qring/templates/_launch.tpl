{{- /* Other ways to launch the ring of train.yaml; each takes the dict of qring.ring. */}}
{{- define "qring.statefulset" }}
# For clusters without Indexed Jobs (before 1.24), and for kubectl scale. A StatefulSet never completes: a finished worker is restarted with
# back-off ("CrashLoopBackOff" after exit 0), finds its job trained in the bucket, and exits; so is a worker after 1-127, where a Job would
# have failed. Read the log, then delete the StatefulSet.
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ .name }}
  {{- include "qring.job.metadata" . | nindent 2 }}
spec:
  serviceName: {{ include "qring.name" .root }}
  replicas: {{ .replicas }}
  # Start all pods at once. OrderedReady would work too, as no pod's readiness depends on another's, but slowly.
  podManagementPolicy: Parallel
  selector:
    matchLabels:
      {{- include "qring.selector" .root | nindent 6 }}
      app.kubernetes.io/component: {{ .component }}
  template:
    {{- include "qring.ring.pod" (merge (dict "restart" "Always") .) | nindent 4 }}
{{- end }}

{{- define "qring.jobset" }}
# For clusters with JobSet. Its controller creates the headless Service, NAME, which publishes names of pods that are not ready.
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: {{ .name }}
  {{- include "qring.job.metadata" . | nindent 2 }}
spec:
  network:
    subdomain: {{ .name }}
    enableDNSHostnames: true
    publishNotReadyAddresses: true
  failurePolicy:
    # Recreates all pods, which resume from the last checkpoint, when one index has used up its retries. The ring itself survives less.
    maxRestarts: {{ .retries }}
    restartStrategy: BlockingRecreate
    rules:
      # 1-127 are permanent: a retry does not help.
      - name: permanent
        action: FailJobSet
        onJobFailureReasons: [PodFailurePolicy]
  replicatedJobs:
    - name: workers
      # One Job of all workers; its size is fixed while it runs, unless the feature gate ElasticJobSet is on.
      replicas: 1
      template:
        spec:
          {{- $peers := printf "%s-workers-0-{i}.%s:2222" .name .name }}
          {{- $servers := include "qring.servers" (dict "n" .parameterServers "name" (printf "%s-servers-0" .name) "service" .name) | fromJsonArray }}
          {{- include "qring.ring" (merge (dict "restart" "Never" "peers" $peers "servers" $servers) .) | nindent 10 }}
    {{- if .parameterServers }}
    - name: servers
      replicas: 1
      template:
        spec:
          {{- $ps := dict "restart" "Never" "peers" $peers "servers" $servers "server" true "component" "ps" "replicas" .parameterServers }}
          {{- include "qring.ring" (merge $ps .) | nindent 10 }}
    {{- end }}
{{- end }}

{{- define "qring.tfjob" }}
# For clusters with the training operator: a TFJob with the operator's current features. deploy/jobs/tfjob.yaml is the tutorial's own.
apiVersion: kubeflow.org/v1
kind: TFJob
metadata:
  name: {{ .name }}
  {{- include "qring.job.metadata" . | nindent 2 }}
{{- $named := dict "peers" "none" }}
{{- if .parameterServers }}
{{- $servers := list }}
{{- range $i := until (int .parameterServers) }}{{ $servers = append $servers (printf "%s-ps-%d:2222" $.name $i) }}{{ end }}
{{- $named = dict "peers" (printf "%s-worker-{i}:2222" .name) "servers" $servers "before" (include "qring.tfjob.env" .) }}
{{- end }}
spec:
  # Completes when all workers have. By default a TFJob completes when worker 0 exits with 0, which an old operator also sees on a drain.
  successPolicy: AllWorkers
  {{- if .parameterServers }}
  # Without this key the operator (1.9.3) fails the TFJob when a worker is evicted, deleted or scaled down. An evicted parameter server
  # still fails it.
  {{- else }}
  # Without this key the operator (1.9.3) fails the TFJob when a worker is evicted, deleted or scaled down. With it, TF_CONFIG names this
  # worker only: the other names are derived from its own, and new workers join the running ring.
  {{- end }}
  enableDynamicWorker: true
  runPolicy:
    # Keep pods and their logs until the TFJob is deleted.
    cleanPodPolicy: None
    {{- with .root.Values.activeDeadlineSeconds }}
    activeDeadlineSeconds: {{ . }}
    {{- end }}
    {{- with .root.Values.ttlSecondsAfterFinished }}
    ttlSecondsAfterFinished: {{ . }}
    {{- end }}
    # No backoffLimit: with ExitCode the operator never counts up to it. Workers have timeouts of their own.
  tfReplicaSpecs:
    # "worker" in TF_CONFIG and in pod names, NAME-worker-0. A single worker gets no TF_CONFIG and needs none, but no worker can join it later.
    Worker:
      replicas: {{ .replicas }}
      # 1-127 fail the TFJob; 128 and above recreate the pod under the same name (operators before 1.5: 130, 137, 138 and 143 only). To scale
      # down with such an old operator add --exit-on-drain=0 (extraArgs), as it counts 143 of a removed worker as a failure.
      restartPolicy: ExitCode
      template:
        # The operator sets TF_CONFIG in the container named tensorflow only. Its Services publish ready pods only, so /readyz must not wait for
        # peers.
        {{- include "qring.ring.pod" (merge (dict "restart" "operator" "container" "tensorflow") $named .) | nindent 8 }}
    {{- if .parameterServers }}
    # Parameter servers: state replicas that do not compute.
    PS:
      replicas: {{ .parameterServers }}
      restartPolicy: ExitCode
      template:
        {{- $ps := dict "restart" "operator" "container" "tensorflow" "server" true "component" "ps" }}
        {{- include "qring.ring.pod" (merge $ps $named .) | nindent 8 }}
    {{- end }}
    {{- if .root.Values.evaluator }}
    # "evaluator" in TF_CONFIG: not a member; evaluates published states. The TFJob does not wait for it.
    Evaluator:
      replicas: 1
      restartPolicy: ExitCode
      template:
        {{- include "qring.evaluator.pod" (dict "root" .root "args" .args "operator" true) | nindent 8 }}
    {{- end }}
{{- end }}

{{- define "qring.tfjob.env" -}}
# These variables override TF_CONFIG, which names no workers to a parameter server if enableDynamicWorker is set.
- name: QRING_INDEX
  valueFrom:
    fieldRef: {fieldPath: "metadata.labels['training.kubeflow.org/replica-index']"}
{{- end }}

{{- define "qring.clustertrainingruntime" }}
{{- if not (has .root.Values.tls.mode (list "secret" "none")) }}
{{- fail (printf "tls.mode=%s: the pods of a ClusterTrainingRuntime run in any namespace: set tls.mode=secret and create its Secret in each, or none" .root.Values.tls.mode) }}
{{- end }}
{{- if .root.Values.job }}
{{- fail "job: a ClusterTrainingRuntime has no ConfigMap in the TrainJob's namespace: leave job empty and set QRING_JOB in the TrainJob" }}
{{- end }}
{{- if .root.Values.evaluator }}
{{- fail "evaluator: it has no place in the TrainJob's namespace: leave evaluator off and start qringd --role=evaluator there" }}
{{- end }}
{{- include "qring.trainingruntime" . }}
{{- end }}

{{- define "qring.trainingruntime" }}
{{- if .root.Values.kueue.queue }}
{{- fail "kueue.queue: Kueue reads the label of the TrainJob: leave kueue.queue empty and put kueue.x-k8s.io/queue-name there" }}
{{- end }}
{{- $shared := include "qring.shared" .root }}
{{- if $shared }}
# For clusters with Kubeflow Trainer v2: the runtime for TrainJobs in every namespace. Nothing of it is in those namespaces: a TrainJob names its
# job file by QRING_JOB (default: the tutorial's model), and no number of workers is set: the ring forms with those that start within ten
# seconds, and the others join it.
{{- else }}
# For clusters with Kubeflow Trainer v2: the runtime for any TrainJob that names it. The chart has no TrainJob: Helm would create it before the
# runtime, and Trainer rejects a TrainJob without its runtime.
{{- end }}
apiVersion: trainer.kubeflow.org/v1alpha1
kind: {{ if $shared }}Cluster{{ end }}TrainingRuntime
metadata:
  name: {{ .name }}
  {{- include "qring.job.metadata" . | nindent 2 }}
spec:
  # The plain policy: Trainer sets only the number of pods.
  mlPolicy:
    numNodes: {{ .replicas }}
  template:
    spec:
      failurePolicy:
        maxRestarts: {{ .retries }}
        restartStrategy: BlockingRecreate
        rules:
          - name: permanent
            action: FailJobSet
            onJobFailureReasons: [PodFailurePolicy]
      replicatedJobs:
        # Trainer finds the parts to fill in by this name, the label and the container's name.
        - name: node
          template:
            metadata:
              labels:
                trainer.kubeflow.org/trainjob-ancestor-step: trainer
            spec:
              {{- $servers := include "qring.servers" (dict "n" .parameterServers "name" "$(JOBSET_NAME)-ps-0" "service" "$(JOBSET_NAME)") | fromJsonArray }}
              {{- $ring := merge (dict "restart" "Never" "container" "node" "peers" "$(JOBSET_NAME)-node-0-{i}.$(JOBSET_NAME):2222" "servers" $servers) . }}
              {{- $_ := set $ring "before" (include "qring.trainingruntime.env" .) }}
              {{- include "qring.ring" $ring | nindent 14 }}
        {{- if .parameterServers }}
        - name: ps
          template:
            spec:
              {{- $ps := merge (dict "server" true "component" "ps" "replicas" .parameterServers "fixed" false) $ring }}
              {{- include "qring.ring" $ps | nindent 14 }}
        {{- end }}
{{- end }}

{{- define "qring.trainingruntime.env" -}}
# Trainer's JobSet and its Service have the TrainJob's name.
- name: JOBSET_NAME
  valueFrom:
    fieldRef: {fieldPath: "metadata.labels['jobset.sigs.k8s.io/jobset-name']"}
{{- if include "qring.shared" .root }}
# For weights and logdir: gs://BUCKET/$(NAMESPACE)/$(JOBSET_NAME)/weights.h5
- name: NAMESPACE
  valueFrom:
    fieldRef: {fieldPath: metadata.namespace}
{{- end }}
{{- end }}
