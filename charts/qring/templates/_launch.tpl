{{- /* The other ways to launch the ring of train.yaml, for clusters that have them: each with the dict of qring.ring. */}}
{{- define "qring.statefulset" }}
# For clusters without Indexed Jobs (before 1.24), and for kubectl scale. A StatefulSet knows no end: a worker that is done is started again, finds
# its job trained in the bucket, and ends at once, ever more slowly ("CrashLoopBackOff" after exit 0); so it does after 1-127, where a Job
# would have failed. Read the log, then delete it.
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ .name }}
  {{- include "qring.job.metadata" . | nindent 2 }}
spec:
  serviceName: {{ include "qring.name" .root }}
  replicas: {{ .replicas }}
  # All at once. One after the other (OrderedReady) would do too, since no pod's readiness waits for another's, but slowly.
  podManagementPolicy: Parallel
  selector:
    matchLabels:
      {{- include "qring.selector" .root | nindent 6 }}
      app.kubernetes.io/component: {{ .component }}
  template:
    {{- include "qring.ring.pod" (merge (dict "restart" "Always") .) | nindent 4 }}
{{- end }}

{{- define "qring.jobset" }}
# For clusters with JobSet. Its controller makes the headless Service, NAME, with names of pods that are not ready.
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
    # All pods anew, from the last checkpoint, when one index has used up its own tries; the ring survives less than that by itself.
    maxRestarts: {{ .retries }}
    restartStrategy: BlockingRecreate
    rules:
      # 1-127: trying again will not help.
      - name: permanent
        action: FailJobSet
        onJobFailureReasons: [PodFailurePolicy]
  replicatedJobs:
    - name: workers
      # one Job of all workers; its size cannot change while it runs, but where the gate ElasticJobSet is on
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
# For clusters with the training operator: a TFJob that uses what the operator has now. deploy/jobs/tfjob.yaml is the tutorial's own.
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
  # Done when all are. By default it is when worker 0 exits with 0, which an old operator would also see where worker 0 was asked to leave.
  successPolicy: AllWorkers
  {{- if .parameterServers }}
  # The operator (1.9.3) would take a worker that is evicted, deleted or scaled away for the failure of the whole. A parameter server's pod it
  # takes for that still.
  {{- else }}
  # The operator (1.9.3) would take a worker that is evicted, deleted or scaled away for the failure of the whole. With this TF_CONFIG has this
  # worker alone: names of the others are made from its own, and whoever comes later joins who trains already.
  {{- end }}
  enableDynamicWorker: true
  runPolicy:
    # Pods and their logs stay until the TFJob is deleted.
    cleanPodPolicy: None
    {{- with .root.Values.activeDeadlineSeconds }}
    activeDeadlineSeconds: {{ . }}
    {{- end }}
    {{- with .root.Values.ttlSecondsAfterFinished }}
    ttlSecondsAfterFinished: {{ . }}
    {{- end }}
    # No backoffLimit: with ExitCode, where pods are made anew, the operator never counts up to it. Workers give up by themselves.
  tfReplicaSpecs:
    # worker in TF_CONFIG and in the pods' names, NAME-worker-0. One alone gets no TF_CONFIG and needs none, but nobody can join it later.
    Worker:
      replicas: {{ .replicas }}
      # 1-127 end the TFJob; 138 and 143 make the pod anew under the same name. Operators before 1.5 know 130, 137, 138 and 143 alone as such
      # codes, all later ones each from 128 on. Where such an old one is scaled down, add --exit-on-drain=0 (extraArgs): it takes 143 of a
      # worker that it removes for the failure of the whole.
      restartPolicy: ExitCode
      template:
        # TF_CONFIG goes into the container called tensorflow, and no other. The Services come after the pods, with names of ready pods alone:
        # /readyz says "listens", and waits for nobody. Members are who answers.
        {{- include "qring.ring.pod" (merge (dict "restart" "operator" "container" "tensorflow") $named .) | nindent 8 }}
    {{- if .parameterServers }}
    # They hold the state and compute nothing.
    PS:
      replicas: {{ .parameterServers }}
      restartPolicy: ExitCode
      template:
        {{- $ps := dict "restart" "operator" "container" "tensorflow" "server" true "component" "ps" }}
        {{- include "qring.ring.pod" (merge $ps $named .) | nindent 8 }}
    {{- end }}
    {{- if .root.Values.evaluator }}
    # evaluator in TF_CONFIG: it is no member, and makes a curve of what they publish. The TFJob does not wait for it.
    Evaluator:
      replicas: 1
      restartPolicy: ExitCode
      template:
        {{- include "qring.evaluator.pod" (dict "root" .root "args" .args "operator" true) | nindent 8 }}
    {{- end }}
{{- end }}

{{- define "qring.tfjob.env" -}}
# All this comes before TF_CONFIG, which names no workers to a parameter server where enableDynamicWorker is set.
- name: QRING_INDEX
  valueFrom:
    fieldRef: {fieldPath: "metadata.labels['training.kubeflow.org/replica-index']"}
{{- end }}

{{- define "qring.trainingruntime" }}
# For clusters with Kubeflow Trainer v2: how qring runs, for any TrainJob that names it. Not with a TrainJob beside it: Trainer refuses one whose
# runtime is not there yet, and Helm would send it first.
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata:
  name: {{ .name }}
  {{- include "qring.job.metadata" . | nindent 2 }}
spec:
  # The plain policy: Trainer sets the number of pods and nothing in them.
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
        # the name, the label and the container's name by which Trainer knows what to fill in
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
# The JobSet that Trainer makes is called as its TrainJob is, and so is its Service.
- name: JOBSET_NAME
  valueFrom:
    fieldRef: {fieldPath: "metadata.labels['jobset.sigs.k8s.io/jobset-name']"}
{{- end }}
