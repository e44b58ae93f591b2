{{- /* An Indexed Job of qringd pods that find each other by name: dict "root" $ "name" NAME "component" NAME "args" LIST. */}}
{{- define "qring.ring" -}}
completionMode: Indexed
completions: {{ .root.Values.replicas }}
parallelism: {{ .root.Values.replicas }}
# A lost pod ends the others with 138, so each try counts once for every pod.
backoffLimit: {{ mul .root.Values.retries .root.Values.replicas }}
{{- with .root.Values.activeDeadlineSeconds }}
activeDeadlineSeconds: {{ . }}
{{- end }}
{{- with .root.Values.ttlSecondsAfterFinished }}
ttlSecondsAfterFinished: {{ . }}
{{- end }}
podFailurePolicy:
  rules:
    # Evictions and lost nodes are nobody's failure.
    - action: Ignore
      onPodConditions:
        - type: DisruptionTarget
          status: "True"
    # Permanent: a bad job, bad data, a refused bucket. 138 (try again) and 143 (SIGTERM) are counted and tried again.
    - action: FailJob
      onExitCodes:
        containerName: qringd
        operator: In
        values: [{{ untilStep 1 128 1 | join ", " }}]
template:
  metadata:
    {{- include "qring.pod.metadata" . | nindent 4 }}
  spec:
    subdomain: {{ include "qring.name" .root }}
    {{- if .root.Values.spread }}
    topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: ScheduleAnyway
        labelSelector:
          matchLabels:
            {{- include "qring.selector" .root | nindent 12 }}
            app.kubernetes.io/component: {{ .component }}
    {{- end }}
    {{- include "qring.pod.spec" . | nindent 4 }}
    containers:
      - name: qringd
        {{- include "qring.container" . | nindent 8 }}
        command: [qringd]
        args:
          - /etc/qring/job.json
          {{- if .root.Values.plaintext }}
          - --plaintext
          {{- end }}
          {{- range .args }}
          - {{ . | quote }}
          {{- end }}
          {{- range .root.Values.extraArgs }}
          - {{ . | quote }}
          {{- end }}
        env:
          # The index comes from JOB_COMPLETION_INDEX, which the Job sets.
          - name: QRING_PEER_TEMPLATE
            value: {{ printf "%s-{i}.%s:2222" .name (include "qring.name" .root) | quote }}
          - name: QRING_REPLICAS
            value: {{ .root.Values.replicas | quote }}
          {{- with .root.Values.extraEnv }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
        ports:
          - {name: control, containerPort: 2222}
          - {name: data, containerPort: 2224}
          - {name: http, containerPort: 8080}
        startupProbe:
          httpGet: {path: /readyz, port: http}
          periodSeconds: 2
          failureThreshold: 60
        readinessProbe:
          httpGet: {path: /readyz, port: http}
          periodSeconds: 5
        livenessProbe:
          httpGet: {path: /healthz, port: http}
          periodSeconds: 10
          timeoutSeconds: 5
          failureThreshold: 6
{{- end -}}
