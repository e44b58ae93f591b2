{{- /* Common fields of all Jobs: dict "root" $ "container" NAME. */}}
{{- define "qring.job.limits" -}}
{{- with .root.Values.activeDeadlineSeconds }}
activeDeadlineSeconds: {{ . }}
{{- end }}
{{- with .root.Values.ttlSecondsAfterFinished }}
ttlSecondsAfterFinished: {{ . }}
{{- end }}
podFailurePolicy:
  rules:
    # Evictions, preemptions and lost nodes do not count as failures.
    - action: Ignore
      onPodConditions:
        - type: DisruptionTarget
          status: "True"
    # 1-127 are permanent: bad job, bad data, rejected by a bucket. All others are counted and retried: 138 (please retry), 143 (SIGTERM).
    - action: FailJob
      onExitCodes:
        containerName: {{ .container }}
        operator: In
        values: [{{ untilStep 1 32 1 | join ", " }},
                 {{ untilStep 32 64 1 | join ", " }},
                 {{ untilStep 64 96 1 | join ", " }},
                 {{ untilStep 96 128 1 | join ", " }}]
{{- end -}}

{{- /* Labels and annotations of a Job: dict "root" $, "elastic": an Indexed Job that scales while it runs. */}}
{{- define "qring.job.metadata" -}}
labels:
  {{- include "qring.labels" .root | nindent 2 }}
  {{- with .root.Values.kueue.queue }}
  kueue.x-k8s.io/queue-name: {{ . }}
  {{- end }}
  {{- with .root.Values.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $elastic := and .elastic .root.Values.kueue.queue }}
{{- if or $elastic .root.Values.annotations }}
annotations:
  {{- if $elastic }}
  # Without it Kueue stops all pods when the Job is scaled, and queues the Job again.
  kueue.x-k8s.io/elastic-job: "true"
  {{- end }}
  {{- with .root.Values.annotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}

{{- /* Common metadata of all pods: dict "root" $ "component" NAME. */}}
{{- define "qring.pod.metadata" -}}
labels:
  {{- include "qring.labels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .component }}
  {{- with .root.Values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $own := not (include "qring.shared" .root) }}
{{- if or $own .root.Values.podAnnotations }}
annotations:
  {{- if $own }}
  # Pod templates of a Job are immutable: with another job file Kubernetes rejects the upgrade instead of ignoring the change.
  checksum/job: {{ include "qring.job" .root | sha256sum }}
  {{- end }}
  {{- with .root.Values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}

{{- /* Common spec of all pods: dict "root" $, "keep": /out may be the claim, "restart": the restartPolicy ("operator": none), "server": a
       parameter server (never on Spot nodes), "alone": no peers, so no certificate, "component": NAME, or none. */}}
{{- define "qring.pod.spec" -}}
{{- $spot := and .root.Values.spot (not .server) -}}
{{- if ne (.restart | default "Never") "operator" -}}
restartPolicy: {{ .restart | default "Never" }}
{{ end -}}
{{ if or .root.Values.serviceAccount.name (not (include "qring.shared" .root)) -}}
serviceAccountName: {{ include "qring.account" .root }}
{{ end -}}
automountServiceAccountToken: {{ if and (include "qring.progress.annotates" .root) (has .component (list "train" "ps")) }}true{{ else }}false{{ end }}
enableServiceLinks: false
terminationGracePeriodSeconds: {{ .root.Values.terminationGracePeriodSeconds }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if or .root.Values.nodeSelector $spot }}
nodeSelector:
  {{- if $spot }}
  cloud.google.com/gke-spot: "true"
  {{- end }}
  {{- with .root.Values.nodeSelector }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- if or .root.Values.tolerations $spot }}
tolerations:
  {{- if $spot }}
  - {key: cloud.google.com/gke-spot, operator: Equal, value: "true", effect: NoSchedule}
  {{- end }}
  {{- with .root.Values.tolerations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- with .root.Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  {{- if not (include "qring.shared" .root) }}
  - name: job
    configMap:
      name: {{ include "qring.name" .root }}
      items:
        - {key: job.json, path: job.json}
  {{- end }}
  - name: out
    {{- if and .keep .root.Values.outputClaim }}
    persistentVolumeClaim:
      claimName: {{ .root.Values.outputClaim }}
    {{- else }}
    emptyDir: {}
    {{- end }}
  - name: tmp
    emptyDir:
      medium: Memory
      sizeLimit: 64Mi
  {{- if not .alone }}
  {{- with include "qring.tls.secret" .root }}
  - name: tls
    secret:
      secretName: {{ . }}
      defaultMode: 0440
  {{- end }}
  {{- end }}
  {{- if not .alone }}
  {{- with include "qring.signing.secret" .root }}
  - name: signing
    secret:
      secretName: {{ . }}
      defaultMode: 0440
  {{- end }}
  {{- end }}
  {{- with .root.Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- /* Spreads the pods of a component over nodes: dict "root" $ "component" NAME. The value's constraints win; those without a labelSelector get
       the component's. */}}
{{- define "qring.spread" -}}
{{- $own := dict "matchLabels" (merge (dict "app.kubernetes.io/component" .component) (include "qring.selector" .root | fromYaml)) -}}
{{- $all := list -}}
{{- range .root.Values.topologySpreadConstraints -}}
{{- $one := deepCopy . -}}
{{- if not .labelSelector }}{{ $_ := set $one "labelSelector" $own }}{{ end -}}
{{- $all = append $all $one -}}
{{- end -}}
{{- if $all -}}
topologySpreadConstraints:
  {{- toYaml $all | nindent 2 }}
{{- else if .root.Values.spread -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "qring.selector" .root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
{{- end -}}
{{- end -}}

{{- define "qring.container" -}}
image: {{ include "qring.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
# The worker's termination message, else the end of its log.
terminationMessagePolicy: FallbackToLogsOnError
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
# Requests equal limits (QoS Guaranteed): such pods are evicted last.
resources:
  requests:
    cpu: {{ .root.Values.cpu | quote }}
    memory: {{ .root.Values.memory }}
  limits:
    cpu: {{ .root.Values.cpu | quote }}
    memory: {{ .root.Values.memory }}
volumeMounts:
  {{- if not (include "qring.shared" .root) }}
  - name: job
    mountPath: /etc/qring
    readOnly: true
  {{- end }}
  - name: out
    mountPath: /out
  - name: tmp
    mountPath: /tmp
  {{- if and (include "qring.tls.secret" .root) (not .alone) }}
  # Mount the folder, not single files (subPath): those are not updated when the Secret is renewed.
  - name: tls
    mountPath: /etc/qring/tls
    readOnly: true
  {{- end }}
  {{- if and (include "qring.signing.secret" .root) (not .alone) }}
  - name: signing
    mountPath: /etc/qring/signing
    readOnly: true
  {{- end }}
  {{- with .root.Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
