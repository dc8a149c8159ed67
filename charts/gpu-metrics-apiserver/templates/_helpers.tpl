{{- define "gpu-metrics.name" -}}
{{- .Values.nameOverride | default "gpu-metrics-apiserver" | trunc 63 | trimSuffix "-" -}}
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
one under the same name: ours is named otherwise. The chart's name is the alias
where another chart contains it.
*/}}
{{- define "gpu-metrics.deployment" -}}
{{- $full := include "gpu-metrics.fullname" . -}}
{{- $ours := "gpu-metrics-apiserver" -}}
{{- if contains $ours $full -}}
{{- $full -}}
{{- else -}}
{{- printf "%s-%s" ($full | trunc (int (sub 62 (len $ours))) | trimSuffix "-") $ours -}}
{{- end -}}
{{- end -}}

{{- define "gpu-metrics.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{- define "gpu-metrics.serviceAccount" -}}
{{- $given := (.Values.serviceAccount).name -}}
{{- (.Values.serviceAccount).create | ternary ($given | default (include "gpu-metrics.fullname" .)) ($given | default "default") -}}
{{- end -}}

{{- define "gpu-metrics.identity" -}}
app.kubernetes.io/name: {{ include "gpu-metrics.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: gpu-metrics
{{- end -}}

{{/* Not empty where a name says that a release of prometheus-adapter was here. */}}
{{- define "gpu-metrics.takesOver" -}}
{{- $names := list .Release.Name .Chart.Name (include "gpu-metrics.fullname" .) | join " " -}}
{{- if contains "prometheus-adapter" $names }}yes{{ end -}}
{{- end -}}

{{/* Selects this server's pods, and none of prometheus-adapter's while these go. */}}
{{- define "gpu-metrics.selector" -}}
{{- if include "gpu-metrics.takesOver" . -}}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
gpu-metrics-apiserver: server
{{- else -}}
{{- include "gpu-metrics.identity" . -}}
{{- end -}}
{{- end -}}

{{/*
In place of prometheus-adapter the pods keep its labels: NetworkPolicies and
affinities select by them.
*/}}
{{- define "gpu-metrics.podLabels" -}}
{{- include "gpu-metrics.selector" . }}
{{- if include "gpu-metrics.takesOver" . }}
{{- $name := .Values.nameOverride | default "prometheus-adapter" | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/name: {{ $name }}
app.kubernetes.io/component: metrics
app.kubernetes.io/part-of: {{ $name }}
{{- end -}}
{{- end -}}

{{- define "gpu-metrics.labels" -}}
{{- $own := include "gpu-metrics.identity" . | fromYaml -}}
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
- v1.metrics.k8s.io
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
{{- fail (printf "\n\n%s: kube-apiserver must know the authority of this certificate, and verification is never skipped: set it in certificates.ca, or set certificates.apiServiceAnnotations for the tool that writes it, or remove the certificate so that the server issues its own\n" (ternary "extraArguments names a certificate" "certificates.existingSecret" (eq $way "arguments"))) -}}
{{- end -}}
{{- if and (eq $way "tls") (not (contains "BEGIN CERTIFICATE" .Values.tls.ca)) -}}
{{- fail "\n\ntls.enable without tls.ca: set it to the authority of tls.certificate as PEM; kube-apiserver verifies the certificate with it\n" -}}
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
{{- /* The workflow of a release replaces this name, and that of image.repository. */ -}}
{{- $published := "gpu-metrics-apiserver" -}}
{{- $repository := .Values.image.repository | default $published -}}
{{- $tag := .Values.image.tag | default "" | toString -}}
{{- $public := "^(registry\\.k8s\\.io|k8s\\.gcr\\.io)/prometheus-adapter/|^(docker\\.io/)?directxman12/k8s-prometheus-adapter" -}}
{{- if regexMatch $public $repository -}}
{{- $repository = $published -}}
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
{{- with include "gpu-metrics.prometheus" . | fromYaml }}{{ $_ := set $config "prometheus" . }}{{ end -}}
{{- with .Values.gpu }}{{ $_ := set $config "gpu" . }}{{ end -}}
{{- with .Values.presets }}{{ $_ := set $config "presets" . }}{{ end -}}
{{- $rules := list -}}
{{- if .Values.rules.default }}{{ $rules = (.Files.Get "files/default-rules.yaml" | fromYaml).rules }}{{ end -}}
{{- with concat $rules (.Values.rules.custom | default list) }}{{ $_ := set $config "rules" . }}{{ end -}}
{{- with .Values.rules.external }}{{ $_ := set $config "externalRules" . }}{{ end -}}
{{- with .Values.rules.resource }}{{ $_ := set $config "resourceRules" . }}{{ end -}}
{{- with include "gpu-metrics.unknown" . | fromYamlArray }}{{ $_ := set $config "warnings" . }}{{ end -}}
{{- with $config }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/* What the server is told of Prometheus in its configuration. */}}
{{- define "gpu-metrics.prometheus" -}}
{{- $known := (.Files.Get "files/keys.yaml" | fromYaml).prometheus -}}
{{- $settings := dict -}}
{{- range $key, $value := omit .Values.prometheus "url" "port" "path" -}}
{{- if hasKey $known $key }}{{ $_ := set $settings $key $value }}{{ end -}}
{{- end -}}
{{- toYaml $settings -}}
{{- end -}}

{{/* A sentence for each key of the values that is not known, as a list. */}}
{{- define "gpu-metrics.unknown" -}}
{{- include "gpu-metrics.unknownOf" (list "" .Values (.Files.Get "files/keys.yaml" | fromYaml)) -}}
{{- end -}}

{{/* The same of a map: (list path map known). */}}
{{- define "gpu-metrics.unknownOf" -}}
{{- $path := index . 0 -}}
{{- $known := index . 2 -}}
{{- range $key, $value := index . 1 }}
{{- if hasKey $known $key -}}
{{- $inner := index $known $key -}}
{{- if and $inner (kindIs "map" $value) }}{{ include "gpu-metrics.unknownOf" (list (printf "%s%s." $path $key) $value $inner) }}{{ end -}}
{{- else }}
- {{ printf "values: %s%s is not known and changes nothing%s" $path $key (include "gpu-metrics.nearest" (list $key (keys $known | sortAlpha))) | quote }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
The key that was meant, as the end of a sentence: (list key known). A quarter of
its letters may be wrong; else all are named that are known there, if these are few.
*/}}
{{- define "gpu-metrics.nearest" -}}
{{- $key := index . 0 -}}
{{- $known := index . 1 -}}
{{- $fewest := max 1 (div (len $key) 4) | add1 -}}
{{- $nearest := "" -}}
{{- range $known -}}
{{- $distance := include "gpu-metrics.distance" (list (lower $key) (lower .)) | int64 -}}
{{- if lt $distance $fewest }}{{ $fewest = $distance }}{{ $nearest = . }}{{ end -}}
{{- end -}}
{{- if $nearest }}; did you mean {{ $nearest }}?{{ else if lt (len $known) 15 }}; known there: {{ join ", " $known }}{{ end -}}
{{- end -}}

{{/* How many letters to insert, remove or replace (Levenshtein): (list one other). */}}
{{- define "gpu-metrics.distance" -}}
{{- $other := splitList "" (index . 1) -}}
{{- $row := untilStep 0 (len $other | add1 | int) 1 -}}
{{- range $at, $letter := splitList "" (index . 0) -}}
{{- $next := list (add1 $at) -}}
{{- range $place, $against := $other -}}
{{- $replaced := eq $letter $against | ternary 0 1 | add (index $row $place) -}}
{{- $next = append $next (min $replaced (add1 (index $row (add1 $place))) (add1 (last $next))) -}}
{{- end -}}
{{- $row = $next -}}
{{- end -}}
{{- last $row -}}
{{- end -}}

{{/* The container's arguments; extraArguments take the place of those they repeat. */}}
{{- define "gpu-metrics.arguments" -}}
{{- $address := tpl .Values.prometheus.url . | trimSuffix "/" -}}
{{- $isWhole := regexMatch "//[^/]*(:[0-9]+|/.*)$" $address -}}
{{- if not $isWhole -}}
{{- with .Values.prometheus.port }}{{ $address = printf "%s:%v" $address . }}{{ end -}}
{{- end -}}
{{- with .Values.prometheus.path }}{{ $address = printf "%s%s" $address . }}{{ end -}}
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
{{- range $own }}
{{- if not (has (regexFind "^-+[a-z0-9-]+" .) $given) }}
- {{ . | quote }}
{{- end }}
{{- end }}
{{- with .Values.extraArguments }}
{{ toYaml . }}
{{- end }}
{{- end -}}
