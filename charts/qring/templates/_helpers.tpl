{{- /* Name of all objects: at most 46 characters, so that NAME-test has at most 52 and its pod NAME-test-63-abcde at most 63. */}}
{{- define "qring.name" -}}
{{- $name := .Values.fullnameOverride | default .Release.Name -}}
{{- if gt (len $name) 46 -}}
{{- $name = printf "%s-%s" ($name | trunc 37 | trimSuffix "-") ($name | sha256sum | trunc 8) -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "cannot name a Service %q: set fullnameOverride to lower-case letters, digits and dashes, first a letter" $name) -}}
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

{{- /* Text of the job file; fails if it is not JSON. */}}
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

{{- /* Not empty if the pods run in any namespace, where none of the chart's objects are. */}}
{{- define "qring.shared" -}}
{{- if and (eq .Values.mode "train") (eq .Values.launch "clustertrainingruntime") }}yes{{ end -}}
{{- end -}}

{{- /* Not empty if pods read the number of workers from the ConfigMap. In a queue quota decides how many of them there are: the ring forms with
       those that start within ten seconds, even one, and the others join it. */}}
{{- define "qring.counted" -}}
{{- if not (or (include "qring.shared" .) (and .Values.kueue.queue (eq .Values.launch "job"))) }}yes{{ end -}}
{{- end -}}

{{- define "qring.weights" -}}
{{ .Values.weights | default "/out/weights.h5" }}
{{- end -}}

{{- /* Name of the Secret with the certificate; empty without TLS and for predictions, which have no peers. */}}
{{- define "qring.tls.secret" -}}
{{- if and (eq .Values.mode "train") (ne .Values.tls.mode "none") -}}
{{ .Values.tls.existingSecret | default (printf "%s-tls" (include "qring.name" .)) }}
{{- end -}}
{{- end -}}

{{- /* DNS names of the pods in the certificate. In a certificate without a URI they identify the job, so every renewal has the same. */}}
{{- define "qring.signing.secret" -}}
{{- if eq .Values.mode "train" }}{{ .Values.signing.existingSecret }}{{ end }}
{{- end -}}

{{- define "qring.tls.names" -}}
{{- $service := printf "%s.%s.svc" (include "qring.name" .) .Release.Namespace -}}
{{ list (printf "*.%s" $service) $service | toJson }}
{{- end -}}

{{- /* Not empty if a value names a bucket, by URL, the tutorial's flag or its variable. */}}
{{- define "qring.gcs" -}}
{{- if regexMatch "gs://|weights-gcs-bucket|weights_gcs_bucket|WEIGHTS_GCS_BUCKET" (toJson .Values) }}yes{{ end -}}
{{- end -}}

{{- /* Not empty if a value names an S3 bucket. */}}
{{- define "qring.s3" -}}
{{- if regexMatch "s3://" (toJson .Values) }}yes{{ end -}}
{{- end -}}

{{- /* Not empty if a value has an https:// URL. */}}
{{- define "qring.https" -}}
{{- if regexMatch "https://" (toJson (omit .Values "progressTo")) }}yes{{ end -}}
{{- end -}}

{{- /* Value of --progress-to. */}}
{{- define "qring.progress" -}}
{{- if eq .Values.progressTo "annotations" -}}
{{- if hasSuffix "trainingruntime" .Values.launch -}}
{{- fail "progressTo: a TrainJob is told by Kubeflow Trainer's own server (its gate TrainJobStatus): leave progressTo empty" -}}
{{- end -}}
{{ .Values.launch }}/{{ include "qring.name" . }}
{{- else -}}
{{ .Values.progressTo }}
{{- end -}}
{{- end -}}

{{- /* Not empty if training pods patch annotations of a Kubernetes object. */}}
{{- define "qring.progress.annotates" -}}
{{- if and (eq .Values.mode "train") (eq .Values.progressTo "annotations") }}yes{{ end -}}
{{- end -}}

{{- /* Not empty if the weights are in a bucket. */}}
{{- define "qring.weights.bucket" -}}
{{- if regexMatch "^(gs|s3)://" .Values.weights }}yes{{ end -}}
{{- end -}}

{{- /* Not empty if there is an evaluator. */}}
{{- define "qring.evaluates" -}}
{{- if and (eq .Values.mode "train") .Values.evaluator }}yes{{ end -}}
{{- end -}}

{{- /* Ingress rules of all pods. */}}
{{- define "qring.ingress" -}}
# Probes and metrics: read only.
- ports:
    - {port: 8080, protocol: TCP}
  {{- with .Values.networkPolicy.metricsFrom }}
  from:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- /* Egress rules of all pods. */}}
{{- define "qring.egress" -}}
# The cluster's DNS, possibly a cache on the node.
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
{{- if include "qring.gcs" . }}
# Cloud Storage, and GKE's metadata server for credentials.
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
# S3, and for credentials STS, EKS Pod Identity or EC2's metadata server.
- ports:
    - {port: 443, protocol: TCP}
- to:
    - ipBlock: {cidr: 169.254.169.254/32}
    - ipBlock: {cidr: 169.254.170.23/32}
  ports:
    - {port: 80, protocol: TCP}
{{- end }}
{{- if include "qring.https" . }}
# Web servers with https:// URLs.
- ports:
    - {port: 443, protocol: TCP}
{{- end }}
{{- with .Values.networkPolicy.extraEgress }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}

{{- /* More egress rules of workers and parameter servers: targets of progress reports. */}}
{{- define "qring.progress.egress" -}}
{{- if ne .Values.mode "train" -}}
{{- else if include "qring.progress.annotates" . -}}
# Kubernetes' API: ports of its Service and of its servers.
- ports:
    - {port: 443, protocol: TCP}
    - {port: 6443, protocol: TCP}
{{- else if and (eq .Values.launch "trainingruntime") (not .Values.progressTo) -}}
# Kubeflow Trainer's progress server (feature gate TrainJobStatus).
- ports:
    - {port: 10443, protocol: TCP}
{{- else if hasPrefix "http" .Values.progressTo -}}
{{- $host := regexReplaceAll "^https?://([^/?#]*@)?([^/?#]*).*$" .Values.progressTo "${2}" -}}
{{- $port := regexFind "[0-9]+$" (regexFind ":[0-9]+$" $host) | default (ternary "443" "80" (hasPrefix "https:" .Values.progressTo)) -}}
# The server of progressTo.
- ports:
    - {port: {{ $port }}, protocol: TCP}
{{- end -}}
{{- end -}}
