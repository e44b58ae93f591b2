{{- /* A ring of qringd pods that find each other by name:
       dict "root" $ "name" NAME "component" NAME "replicas" N "fixed" BOOL "retries" N "args" LIST; unless an Indexed Job, also
       "container" NAME, "restart": the pods' restartPolicy ("operator": set by the operator), "peers": template of their names ("none":
       from TF_CONFIG).
       fixed: N is in the pods' environment; else pods read N from the ConfigMap at start.
       "servers" LIST: addresses of the parameter servers; "server" BOOL: these pods are parameter servers, "peers" names their workers. */}}
{{- define "qring.ring" -}}
completionMode: Indexed
completions: {{ .replicas }}
parallelism: {{ .replicas }}
{{- if semverCompare ">=1.29.0-0" .root.Capabilities.KubeVersion.Version }}
# The other workers continue without a lost pod, and its replacement joins them. The Job fails when one index has used up its retries.
backoffLimitPerIndex: {{ .retries }}
maxFailedIndexes: 0
{{- else }}
# The other workers continue without a lost pod, and its replacement joins them. Retries of all pods are counted together.
backoffLimit: {{ mul .retries .replicas }}
{{- end }}
{{- include "qring.job.limits" (dict "root" .root "container" (.container | default "qringd")) }}
template:
  {{- include "qring.ring.pod" . | nindent 2 }}
{{- end -}}

{{- define "qring.ring.pod" -}}
metadata:
  {{- include "qring.pod.metadata" . | nindent 2 }}
spec:
  {{- if not .restart }}
  subdomain: {{ include "qring.name" .root }}
  {{- end }}
  {{- if and .root.Values.podGroup (eq .component "train") }}
  schedulingGroup: {podGroupName: {{ .name }}}
  {{- end }}
  {{- with include "qring.spread" . }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- include "qring.pod.spec" (dict "root" .root "keep" (not .fixed) "restart" .restart "server" .server "component" .component) | nindent 2 }}
  containers:
    - name: {{ .container | default "qringd" }}
      {{- include "qring.container" . | nindent 6 }}
      command: [qringd]
      args:
        {{- if not (include "qring.shared" .root) }}
        - /etc/qring/job.json
        {{- end }}
        {{- if include "qring.tls.secret" .root }}
        - --tls-dir=/etc/qring/tls
        {{- else }}
        - --plaintext
        {{- end }}
        {{- range .args }}
        - {{ . | quote }}
        {{- end }}
      {{- $peers := .peers | default (printf "%s-{i}.%s:2222" .name (include "qring.name" .root)) }}
      {{- if or (ne $peers "none") .root.Values.set .root.Values.extraEnv }}
      env:
        {{- if ne $peers "none" }}
        {{- if eq (.restart | default "Never") "Always" }}
        # A pod's index comes from its own name, NAME-0, NAME-1, ...
        {{- else if eq (.restart | default "Never") "operator" }}
        # A pod's index comes from the operator's label, the other names from a template.
        {{- else }}
        # A pod's index comes from JOB_COMPLETION_INDEX, which Kubernetes sets.
        {{- end }}
        {{- with .before }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- if .server }}
        - name: QRING_ROLE
          value: ps
        {{- end }}
        {{- with .servers }}
        - name: QRING_PARAMETER_SERVERS
          value: {{ join "," . | quote }}
        {{- end }}
        - name: QRING_PEER_TEMPLATE
          value: {{ $peers | quote }}
        {{- if or .fixed (and (ne (.restart | default "Never") "operator") (include "qring.counted" .root)) }}
        - name: QRING_REPLICAS
          {{- if .fixed }}
          value: {{ .replicas | quote }}
          {{- else }}
          # From the ConfigMap, since the pod template is immutable and a number here would be wrong after scaling. Without
          # a number the ring would form with the workers that start within ten seconds, less than a slow image pull.
          valueFrom:
            configMapKeyRef: {name: {{ include "qring.name" .root }}, key: replicas}
          {{- end }}
        {{- end }}
        {{- end }}
        {{- with .root.Values.set }}
        - name: QRING_SET
          value: {{ join "\n" . | quote }}
        {{- end }}
        {{- with .root.Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      ports:
        - {name: {{ ternary "tfjob-port" "control" (eq (.restart | default "") "operator") }}, containerPort: 2222}
        - {name: data, containerPort: 2224}
        - {name: http, containerPort: 8080}
      {{- include "qring.probes" . | nindent 6 }}
{{- end -}}

{{- /* Addresses of N parameter servers, as a JSON list: dict "n" N "name" PREFIX-OF-THE-INDEX "service" NAME. */}}
{{- define "qring.servers" -}}
{{- $all := list -}}
{{- range $i := until (int .n) }}{{ $all = append $all (printf "%s-%d.%s:2222" $.name $i $.service) }}{{ end -}}
{{- $all | toJson -}}
{{- end -}}

{{- define "qring.probes" -}}
# /readyz means "listens": no probe waits for a ring, and a silent peer restarts no pod. Before that the worker reads job, data and
# weights and checks the bucket; each is retried for up to 600 s, then the worker exits with 138. The limit of 1800 s allows two such
# waits and the rest.
startupProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 900
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 5
  timeoutSeconds: 2
livenessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end -}}

{{- /* Pod of an evaluator, which reads published states and has no peers: dict "root" $ "args" LIST, "operator" true for the training
       operator. */}}
{{- define "qring.evaluator.pod" -}}
metadata:
  {{- include "qring.pod.metadata" (dict "root" .root "component" "evaluator") | nindent 2 }}
spec:
  {{- include "qring.pod.spec" (dict "root" .root "keep" true "restart" (ternary "operator" "Never" .operator) "alone" true) | nindent 2 }}
  containers:
    - name: {{ ternary "tensorflow" "qringd" .operator }}
      {{- include "qring.container" (dict "root" .root "alone" true) | nindent 6 }}
      command: [qringd]
      args:
        - /etc/qring/job.json
        {{- range .args }}
        - {{ . | quote }}
        {{- end }}
        {{- if not .operator }}
        - --role=evaluator
        {{- end }}
      {{- if or .root.Values.set .root.Values.extraEnv }}
      env:
        {{- with .root.Values.set }}
        - name: QRING_SET
          value: {{ join "\n" . | quote }}
        {{- end }}
        {{- with .root.Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      ports:
        {{- if .operator }}
        # The operator requires a port of this name; it is unused.
        - {name: tfjob-port, containerPort: 2222}
        {{- end }}
        - {name: http, containerPort: 8080}
      {{- include "qring.probes" . | nindent 6 }}
{{- end -}}
