{{- define "gpu-metrics.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/*
A release of prometheus-adapter keeps the names of its Service, its
ServiceAccount and the rest: certificates and rights may go by them.
*/}}
{{- define "gpu-metrics.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- $theirs := .Values.nameOverride | default "prometheus-adapter" -}}
{{- $full := .Values.fullnameOverride -}}
{{- if not $full -}}
{{- $full = or (contains $name .Release.Name) (contains $theirs .Release.Name) | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- end -}}
{{- $full | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/*
A Deployment's selector cannot be changed, and prometheus-adapter's is another
one under the same name: ours is named otherwise.
*/}}
{{- define "gpu-metrics.deployment" -}}
{{- $full := include "gpu-metrics.fullname" . -}}
{{- if contains .Chart.Name $full -}}
{{- $full -}}
{{- else -}}
{{- printf "%s-%s" ($full | trunc (int (sub 62 (len .Chart.Name))) | trimSuffix "-") .Chart.Name -}}
{{- end -}}
{{- end -}}

{{- define "gpu-metrics.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{- define "gpu-metrics.serviceAccount" -}}
{{- $given := (.Values.serviceAccount).name -}}
{{- (.Values.serviceAccount).create | ternary ($given | default (include "gpu-metrics.fullname" .)) ($given | default "default") -}}
{{- end -}}

{{/*
The component is not prometheus-adapter's: its pods are not selected while they
go, whatever nameOverride says.
*/}}
{{- define "gpu-metrics.selector" -}}
app.kubernetes.io/name: {{ include "gpu-metrics.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: gpu-metrics
{{- end -}}

{{- define "gpu-metrics.labels" -}}
{{- $own := include "gpu-metrics.selector" . | fromYaml -}}
{{- $_ := set $own "app.kubernetes.io/version" .Chart.AppVersion -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" .Release.Service -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- toYaml (merge $own (.Values.customLabels | default dict)) -}}
{{- end -}}

{{/* Labels and annotations of an object: (list $ annotations). */}}
{{- define "gpu-metrics.about" -}}
{{- $root := index . 0 -}}
labels: {{- include "gpu-metrics.labels" $root | nindent 2 }}
{{- with merge (dict) (index . 1 | default dict) ($root.Values.customAnnotations | default dict) }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "gpu-metrics.subject" -}}
- kind: ServiceAccount
  name: {{ include "gpu-metrics.serviceAccount" . }}
  namespace: {{ include "gpu-metrics.namespace" . }}
{{- end -}}

{{/* The APIServices that are made, one a line. */}}
{{- define "gpu-metrics.apiServices" -}}
{{- if .Values.apiServices.custom }}
- v1beta2.custom.metrics.k8s.io
- v1beta1.custom.metrics.k8s.io
{{- end }}
{{- if .Values.apiServices.external }}
- v1beta1.external.metrics.k8s.io
{{- end }}
{{- if .Values.rules.resource }}
- v1beta1.metrics.k8s.io
{{- end }}
{{- end -}}

{{/*
Where the serving certificate comes from: self (the server makes it), tls,
cert-manager, secret (an existing one), arguments (files named there).
*/}}
{{- define "gpu-metrics.certificates" -}}
{{- $named := false -}}
{{- range .Values.extraArguments }}{{ if or (hasPrefix "--tls-cert-file" .) (hasPrefix "--cert-dir" .) }}{{ $named = true }}{{ end }}{{ end -}}
{{- $way := "self" -}}
{{- if $named -}}{{- $way = "arguments" -}}
{{- else if .Values.certificates.existingSecret -}}{{- $way = "secret" -}}
{{- else if .Values.certManager.enabled -}}{{- $way = "cert-manager" -}}
{{- else if .Values.tls.enable -}}{{- $way = "tls" -}}
{{- end -}}
{{- if and (include "gpu-metrics.apiServices" .) (has $way (list "arguments" "secret")) (not .Values.certificates.ca) (not .Values.certificates.apiServiceAnnotations) -}}
{{- fail (printf "\n\n%s: kube-apiserver must know the authority of this certificate, and verification is never skipped: give it in certificates.ca, or name who writes it in certificates.apiServiceAnnotations, or leave the certificate out and the server makes its own\n" (ternary "extraArguments names a certificate" "certificates.existingSecret" (eq $way "arguments"))) -}}
{{- end -}}
{{- if and (eq $way "tls") (not (contains "BEGIN CERTIFICATE" .Values.tls.ca)) -}}
{{- fail "\n\ntls.enable without tls.ca: give the authority of tls.certificate as PEM; kube-apiserver verifies by it\n" -}}
{{- end -}}
{{- $way -}}
{{- end -}}

{{/* The Secret that is mounted, or in which the server keeps its certificates. */}}
{{- define "gpu-metrics.certificateSecret" -}}
{{- $way := include "gpu-metrics.certificates" . -}}
{{- $full := include "gpu-metrics.fullname" . | trunc 50 | trimSuffix "-" -}}
{{- if eq $way "self" -}}
{{- .Values.certificates.secretName | default (printf "%s-certificates" $full) -}}
{{- else if eq $way "secret" -}}
{{- .Values.certificates.existingSecret -}}
{{- else -}}
{{- printf "%s-tls" $full -}}
{{- end -}}
{{- end -}}

{{/* prometheus-adapter's image and versions are never what is run. */}}
{{- define "gpu-metrics.image" -}}
{{- $ours := "gpu-metrics-apiserver" -}}
{{- $repository := .Values.image.repository | default $ours -}}
{{- $tag := .Values.image.tag | default "" | toString -}}
{{- $public := "^(registry\\.k8s\\.io|k8s\\.gcr\\.io)/prometheus-adapter/|^(docker\\.io/)?directxman12/k8s-prometheus-adapter" -}}
{{- if regexMatch $public $repository -}}
{{- $repository = $ours -}}
{{- $tag = "" -}}
{{- else if regexMatch "prometheus-adapter[^/]*$" $repository -}}
{{- fail (printf "\n\nimage.repository: %s is prometheus-adapter's image: give your copy of this server's, for example --set image.repository=registry.example.com/gpu-metrics-apiserver --set image.tag=%s\n" $repository .Chart.AppVersion) -}}
{{- else if regexMatch "^v0\\.([0-9]|1[0-2])\\.[0-9]+$" $tag -}}
{{- $tag = "" -}}
{{- end -}}
{{- printf "%s:%s" $repository ($tag | default .Chart.AppVersion) -}}
{{- end -}}

{{/* The server's configuration; nothing where a ConfigMap of yours has it. */}}
{{- define "gpu-metrics.config" -}}
{{- $config := dict -}}
{{- with omit .Values.prometheus "url" "port" "path" }}{{ $_ := set $config "prometheus" . }}{{ end -}}
{{- with .Values.gpu }}{{ $_ := set $config "gpu" . }}{{ end -}}
{{- $rules := list -}}
{{- if .Values.rules.default }}{{ $rules = (.Files.Get "files/default-rules.yaml" | fromYaml).rules }}{{ end -}}
{{- with concat $rules (.Values.rules.custom | default list) }}{{ $_ := set $config "rules" . }}{{ end -}}
{{- with .Values.rules.external }}{{ $_ := set $config "externalRules" . }}{{ end -}}
{{- with .Values.rules.resource }}{{ $_ := set $config "resourceRules" . }}{{ end -}}
{{- with $config }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/* The container's arguments; extraArguments take the place of those they repeat. */}}
{{- define "gpu-metrics.arguments" -}}
{{- $addresses := list -}}
{{- range splitList "," (tpl .Values.prometheus.url .) -}}
{{- $address := . -}}
{{- with $.Values.prometheus.port }}{{ $address = printf "%s:%v" $address . }}{{ end -}}
{{- with $.Values.prometheus.path }}{{ $address = printf "%s%s" $address . }}{{ end -}}
{{- $addresses = append $addresses $address -}}
{{- end -}}
{{- $address := join "," $addresses -}}
{{- $own := list
  "--config=/etc/gpu-metrics-apiserver/config.yaml"
  (printf "--secure-port=%v" (.Values.listenPort | default 6443))
  (printf "--prometheus-url=%s" $address) -}}
{{- with .Values.metricsRelistInterval }}{{ $own = append $own (printf "--metrics-relist-interval=%s" .) }}{{ end -}}
{{- if not (kindIs "invalid" .Values.logLevel) }}{{ $own = append $own (printf "--v=%v" .Values.logLevel) }}{{ end -}}
{{- $own = append $own (printf "--service=%s/%s" (include "gpu-metrics.namespace" .) (include "gpu-metrics.fullname" .)) -}}
{{- $way := include "gpu-metrics.certificates" . -}}
{{- if eq $way "self" -}}
{{- $own = append $own (printf "--certificate-secret=%s" (include "gpu-metrics.certificateSecret" .)) -}}
{{- else if ne $way "arguments" -}}
{{- $own = concat $own (list "--tls-cert-file=/var/run/serving-cert/tls.crt" "--tls-private-key-file=/var/run/serving-cert/tls.key") -}}
{{- end -}}
{{- $given := list -}}
{{- range .Values.extraArguments }}{{ $given = append $given (regexMatch "^-v([0-9=]|$)" . | ternary "--v" (regexFind "^-+[a-zA-Z0-9-]+" .)) }}{{ end -}}
- serve
{{- range $own }}
{{- if not (has (regexFind "^-+[a-z0-9-]+" .) $given) }}
- {{ . | quote }}
{{- end }}
{{- end }}
{{- with .Values.extraArguments }}
{{ toYaml . }}
{{- end }}
{{- end -}}
