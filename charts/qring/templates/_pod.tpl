{{- /* What every pod of ours has: dict "root" $ "component" NAME. */}}
{{- define "qring.pod.metadata" -}}
labels:
  {{- include "qring.labels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .component }}
annotations:
  checksum/config: {{ include "qring.job" .root | sha256sum }}
  {{- with .root.Values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "qring.pod.spec" -}}
restartPolicy: Never
serviceAccountName: {{ include "qring.account" .root }}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ .root.Values.terminationGracePeriodSeconds }}
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
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: job
    configMap:
      name: {{ include "qring.name" .root }}
  - name: out
    {{- if .root.Values.outputClaim }}
    persistentVolumeClaim:
      claimName: {{ .root.Values.outputClaim }}
    {{- else }}
    emptyDir: {}
    {{- end }}
  - name: tmp
    emptyDir:
      medium: Memory
      sizeLimit: 64Mi
{{- end -}}

{{- define "qring.container" -}}
image: {{ include "qring.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
terminationMessagePolicy: FallbackToLogsOnError
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
resources:
  requests:
    cpu: {{ .root.Values.cpu | quote }}
    memory: {{ .root.Values.memory }}
  limits:
    cpu: {{ .root.Values.cpu | quote }}
    memory: {{ .root.Values.memory }}
volumeMounts:
  - name: job
    mountPath: /etc/qring
    readOnly: true
  - name: out
    mountPath: /out
  - name: tmp
    mountPath: /tmp
{{- end -}}
