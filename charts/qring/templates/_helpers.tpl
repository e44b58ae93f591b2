{{- /* The name of everything: at most 46 characters, so that NAME-test has at most 52 and its pod NAME-test-63-abcde at most 63. */}}
{{- define "qring.name" -}}
{{- $name := .Values.fullnameOverride | default .Release.Name -}}
{{- if gt (len $name) 46 -}}
{{- $name = printf "%s-%s" ($name | trunc 37 | trimSuffix "-") ($name | sha256sum | trunc 8) -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "a Service cannot be called %q: set fullnameOverride to lower-case letters, digits and dashes, a letter first" $name) -}}
{{- end -}}
{{- $name -}}
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

{{- /* The job file's text; what is no JSON fails here. */}}
{{- define "qring.job" -}}
{{- $text := .Values.job | default (.Files.Get "files/qcnn.json") -}}
{{- if hasKey (fromJson $text) "Error" -}}
{{- fail (printf "job is not a JSON object: %s" (get (fromJson $text) "Error")) -}}
{{- end -}}
{{- $text -}}
{{- end -}}

{{- define "qring.account" -}}
{{ .Values.serviceAccount.name | default (include "qring.name" .) }}
{{- end -}}

{{- define "qring.weights" -}}
{{ .Values.weights | default "/out/weights.h5" }}
{{- end -}}

{{- /* The Secret with the certificate; empty where there is none: without TLS, and for predictions, which talk to nobody. */}}
{{- define "qring.tls.secret" -}}
{{- if and (eq .Values.mode "train") (ne .Values.tls.mode "none") -}}
{{ .Values.tls.existingSecret | default (printf "%s-tls" (include "qring.name" .)) }}
{{- end -}}
{{- end -}}

{{- /* The pods' names, as a certificate has them. Where it has no URI these make it the job's, so every renewal has the same. */}}
{{- define "qring.tls.names" -}}
{{- $service := printf "%s.%s.svc" (include "qring.name" .) .Release.Namespace -}}
{{ list (printf "*.%s" $service) $service | toJson }}
{{- end -}}

{{- /* Not empty where a value names a bucket, as a URL or by the tutorial's flag or its variable. */}}
{{- define "qring.gcs" -}}
{{- if regexMatch "gs://|weights-gcs-bucket|weights_gcs_bucket|WEIGHTS_GCS_BUCKET" (toJson .Values) }}yes{{ end -}}
{{- end -}}

{{- /* Not empty where a value names a bucket of S3. */}}
{{- define "qring.s3" -}}
{{- if regexMatch "s3://" (toJson .Values) }}yes{{ end -}}
{{- end -}}

{{- /* Not empty where a value names a file of a web server. */}}
{{- define "qring.https" -}}
{{- if regexMatch "https://" (toJson (omit .Values "progressTo")) }}yes{{ end -}}
{{- end -}}

{{- /* What --progress-to says. */}}
{{- define "qring.progress" -}}
{{- if eq .Values.progressTo "annotations" -}}
{{- if eq .Values.launch "trainingruntime" -}}
{{- fail "progressTo: a TrainJob is told by Kubeflow Trainer's own server (its gate TrainJobStatus): leave progressTo empty" -}}
{{- end -}}
{{ .Values.launch }}/{{ include "qring.name" . }}
{{- else -}}
{{ .Values.progressTo }}
{{- end -}}
{{- end -}}

{{- /* Not empty where pods train and patch annotations of an object of Kubernetes. */}}
{{- define "qring.progress.annotates" -}}
{{- if and (eq .Values.mode "train") (eq .Values.progressTo "annotations") }}yes{{ end -}}
{{- end -}}

{{- /* Not empty where the weights go to a bucket, or come from one. */}}
{{- define "qring.weights.bucket" -}}
{{- if regexMatch "^(gs|s3)://" .Values.weights }}yes{{ end -}}
{{- end -}}

{{- /* Not empty where an evaluator stands beside the ring. */}}
{{- define "qring.evaluates" -}}
{{- if and (eq .Values.mode "train") .Values.evaluator }}yes{{ end -}}
{{- end -}}

{{- /* Who may come in to any pod of ours. */}}
{{- define "qring.ingress" -}}
# probes and metrics: read only
- ports:
    - {port: 8080, protocol: TCP}
  {{- with .Values.networkPolicy.metricsFrom }}
  from:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- /* Where any pod of ours may go. */}}
{{- define "qring.egress" -}}
# the cluster's DNS, which may be a cache on the node
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
{{- if include "qring.gcs" . }}
# Cloud Storage, and GKE's metadata server for its credentials
- ports:
    - {port: 443, protocol: TCP}
- to:
    - ipBlock: {cidr: 169.254.169.254/32}
    - ipBlock: {cidr: 169.254.169.252/32}
  ports:
    - {port: 80, protocol: TCP}
    - {port: 988, protocol: TCP}
{{- end }}
{{- if include "qring.s3" . }}
# S3, and for its credentials STS, EKS' Pod Identity or EC2's metadata server
- ports:
    - {port: 443, protocol: TCP}
- to:
    - ipBlock: {cidr: 169.254.169.254/32}
    - ipBlock: {cidr: 169.254.170.23/32}
  ports:
    - {port: 80, protocol: TCP}
{{- end }}
{{- if include "qring.https" . }}
# web servers that are read
- ports:
    - {port: 443, protocol: TCP}
{{- end }}
{{- with .Values.networkPolicy.extraEgress }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}

{{- /* Beside that, of workers and parameter servers: whom they tell how far the run is. */}}
{{- define "qring.progress.egress" -}}
{{- if ne .Values.mode "train" -}}
{{- else if include "qring.progress.annotates" . -}}
# Kubernetes' API, as its Service has it and as its servers do
- ports:
    - {port: 443, protocol: TCP}
    - {port: 6443, protocol: TCP}
{{- else if and (eq .Values.launch "trainingruntime") (not .Values.progressTo) -}}
# Kubeflow Trainer's server for progress, where its gate TrainJobStatus is on
- ports:
    - {port: 10443, protocol: TCP}
{{- else if hasPrefix "http" .Values.progressTo -}}
{{- $host := regexReplaceAll "^https?://([^/?#]*@)?([^/?#]*).*$" .Values.progressTo "${2}" -}}
{{- $port := regexFind "[0-9]+$" (regexFind ":[0-9]+$" $host) | default (ternary "443" "80" (hasPrefix "https:" .Values.progressTo)) -}}
# the server of progressTo
- ports:
    - {port: {{ $port }}, protocol: TCP}
{{- end -}}
{{- end -}}
