{{- /* A ring of qringd pods that find each other by name:
       dict "root" $ "name" NAME "component" NAME "replicas" N "fixed" BOOL "retries" N "args" LIST, and where it is no Indexed Job:
       "container" NAME, "restart" the pods' restartPolicy ("operator": somebody else sets it), "peers" the template of their names ("none":
       TF_CONFIG has them).
       fixed: N is in the pods' environment. Else they read it from the ConfigMap when they start.
       "servers" LIST: the parameter servers' addresses; "server" BOOL: these pods are those, and "peers" is their workers' template. */}}
{{- define "qring.ring" -}}
completionMode: Indexed
completions: {{ .replicas }}
parallelism: {{ .replicas }}
{{- if semverCompare ">=1.29.0-0" .root.Capabilities.KubeVersion.Version }}
# The others train on without a lost pod, and its successor joins them. One index that has used up its own tries ends the Job.
backoffLimitPerIndex: {{ .retries }}
maxFailedIndexes: 0
{{- else }}
# The others train on without a lost pod, and its successor joins them. The pods' tries are counted together.
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
  {{- with include "qring.spread" . }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- include "qring.pod.spec" (dict "root" .root "keep" (not .fixed) "restart" .restart "server" .server "component" .component) | nindent 2 }}
  containers:
    - name: {{ .container | default "qringd" }}
      {{- include "qring.container" . | nindent 6 }}
      command: [qringd]
      args:
        - /etc/qring/job.json
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
        # Its index a pod has from its own name, NAME-0, NAME-1, ...
        {{- else if eq (.restart | default "Never") "operator" }}
        # Its index a pod has from the operator's label, and the others' names from a template.
        {{- else }}
        # Its index a pod has from JOB_COMPLETION_INDEX, which Kubernetes sets.
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
        {{- if ne (.restart | default "Never") "operator" }}
        - name: QRING_REPLICAS
          {{- if .fixed }}
          value: {{ .replicas | quote }}
          {{- else }}
          # Not a number here: pods of a Job cannot change, so a number would be wrong in every pod that starts after scaling.
          # Without any the ring would begin with whoever came within ten seconds, which a slow image pull outlasts.
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

{{- /* The addresses of N parameter servers: dict "n" N "name" WHAT-BEFORE-THE-INDEX "service" NAME. A list, as JSON. */}}
{{- define "qring.servers" -}}
{{- $all := list -}}
{{- range $i := until (int .n) }}{{ $all = append $all (printf "%s-%d.%s:2222" $.name $i $.service) }}{{ end -}}
{{- $all | toJson -}}
{{- end -}}

{{- define "qring.probes" -}}
# /readyz: it listens. Nobody waits for a ring here, and no peer's silence restarts a pod. Before it listens it reads job, data and
# weights, and asks whether a bucket can be written; each may be tried again for 600 s, then the worker ends itself with a sentence
# and 138. 1800 s let it: two such waits and the rest.
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

{{- /* The pod of an evaluator, which reads what the ring publishes and talks to nobody: dict "root" $ "args" LIST, and where the training operator
       runs it "operator" true. */}}
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
        # the operator wants one of that name; nobody listens there
        - {name: tfjob-port, containerPort: 2222}
        {{- end }}
        - {name: http, containerPort: 8080}
      {{- include "qring.probes" . | nindent 6 }}
{{- end -}}
