{{- /* The name of everything: at most 46 characters, so that NAME-test has at most 52 and its pod NAME-test-63-abcde at most 63. */}}
{{- define "qring.name" -}}
{{- $name := .Values.fullnameOverride | default .Release.Name -}}
{{- if gt (len $name) 46 -}}
{{- printf "%s-%s" ($name | trunc 37 | trimSuffix "-") ($name | sha256sum | trunc 8) -}}
{{- else -}}
{{- $name -}}
{{- end -}}
{{- end -}}

{{- define "qring.selector" -}}
app.kubernetes.io/name: qring
app.kubernetes.io/instance: {{ include "qring.name" . }}
{{- end -}}

{{- define "qring.labels" -}}
{{ include "qring.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "qring.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "qring.job" -}}
{{- $text := .Values.job | default (.Files.Get "files/qcnn.json") -}}
{{- $parsed := mustFromJson $text -}}
{{- $text -}}
{{- end -}}

{{- define "qring.account" -}}
{{ .Values.serviceAccount.name | default (include "qring.name" .) }}
{{- end -}}

{{- define "qring.weights" -}}
{{ .Values.weights | default "/out/weights.h5" }}
{{- end -}}

{{- /* Not empty where a value names a bucket. */}}
{{- define "qring.gcs" -}}
{{- if contains "gs://" (toJson .Values) }}yes{{ end -}}
{{- end -}}
