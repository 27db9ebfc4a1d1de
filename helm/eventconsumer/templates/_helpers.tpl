{{/* Labels of every object of the chart. */}}
{{- define "eventconsumer.labels" -}}
app.kubernetes.io/name: eventconsumer
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* Labels that select the operator's pod. */}}
{{- define "eventconsumer.selector" -}}
app.kubernetes.io/name: eventconsumer
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{/* The served namespaces if scope is Namespaced, as a JSON list. */}}
{{- define "eventconsumer.namespaces" -}}
{{- if not .Values.watchNamespaces }}
{{- fail (printf "watchNamespaces is empty: name the namespaces whose EventConsumers the operator serves, such as watchNamespaces={shop}, or set scope=Cluster. Do not name %s, the operator's own namespace, unless its users may act as the operator: a Spark driver there can create pods with the operator's service account." .Release.Namespace) }}
{{- end }}
{{- .Values.watchNamespaces | toJson }}
{{- end }}

{{/* The namespaceSelector of monitors for hosts. */}}
{{- define "eventconsumer.monitored" -}}
{{- if eq .Values.scope "Cluster" }}
any: true
{{- else }}
matchNames: {{ include "eventconsumer.namespaces" . }}
{{- end }}
{{- end }}

{{/* The Secret with the key that signs operator messages; empty if the operator generates a key. */}}
{{- define "eventconsumer.fleetKey" -}}
{{- .Values.fleetKey.existingSecret | default (ternary "eventconsumer-fleet-key" "" .Values.fleetKey.create) }}
{{- end }}

{{/* Secrets of this installation that no EventConsumer may name, as a JSON list. */}}
{{- define "eventconsumer.reservedSecrets" -}}
{{- $names := list }}
{{- with include "eventconsumer.fleetKey" . }}
{{- $names = append $names . }}
{{- end }}
{{- range .Values.imagePullSecrets }}
{{- $names = append $names .name }}
{{- end }}
{{- $names | uniq | toJson }}
{{- end }}

{{/*
The reference of an image, from a list of its name in `image` and its value. Container runtimes take a reference whose
first part is not a host from docker.io (github.com/distribution/reference, splitDockerDomain), so it is refused.
*/}}
{{- define "eventconsumer.image" -}}
{{- $name := first . }}
{{- $image := last . }}
{{- if not $image }}
{{- fail (printf "image.%[1]s is not set: build the images, push them to your registry, and set image.%[1]s=<registry>/%[1]s@sha256:<digest> (docs/how-to/install.md). The chart has no default images." $name) }}
{{- end }}
{{- $registry := splitList "/" $image | initial | first | default "" }}
{{- if not (or (contains "." $registry) (contains ":" $registry) (eq $registry "localhost")) }}
{{- fail (printf "image.%s: %s names no registry, so nodes would pull it from docker.io: write <registry>/%s" $name $image $image) }}
{{- end }}
{{- $image }}
{{- end }}

{{/* The remedy for a value that is not allowed, from a list of: the allowed values, the setting, the words before them. */}}
{{- define "eventconsumer.choice" -}}
{{- $allowed := index . 0 }}
{{- if $allowed -}}
is not allowed: {{ index . 2 }}{{ join ", " $allowed }}, or ask the operator's administrator to extend {{ index . 1 }}
{{- else -}}
is not allowed: ask the operator's administrator to set {{ index . 1 }}
{{- end }}
{{- end }}

{{/*
Allowed suffixes of a role as a JSON list, from a list of a setting and its value; empty: those of the operator
(AZURE_HUB_SUFFIXES and AZURE_STORAGE_SUFFIXES), and none for proxies.
*/}}
{{- define "eventconsumer.suffixes" -}}
{{- $azure := dict
  "hubSuffixes" (list "servicebus.windows.net" "servicebus.usgovcloudapi.net" "servicebus.chinacloudapi.cn")
  "storageSuffixes" (list "core.windows.net" "storage.azure.net" "core.usgovcloudapi.net" "core.chinacloudapi.cn")
  "proxySuffixes" list
}}
{{- $found := list }}
{{- range last . | default (index $azure (first .)) }}
{{- $found = append $found (lower . | trimPrefix "*" | trimPrefix "." | trimSuffix ".") }}
{{- end }}
{{- $found | toJson }}
{{- end }}

{{/* Regular expressions of the images that prefixes cover, as a JSON list: those of the operator (resource/images.py). */}}
{{- define "eventconsumer.images" -}}
{{- $found := list }}
{{- range . }}
{{- $name := regexQuoteMeta . }}
{{- $last := splitList "/" . | last }}
{{- if hasSuffix "/" . }}
{{- $found = append $found (printf "^%s.*$" $name) }}
{{- else if and (eq $last .) (or (contains "." .) (contains ":" .) (eq . "localhost") (ne . (lower .))) }}
{{- $found = append $found (printf "^%s(/.*)?$" $name) }}
{{- else if or (contains ":" $last) (contains "@" $last) }}
{{- $found = append $found (printf "^%s$" $name) }}
{{- else }}
{{- $found = append $found (printf "^%s([/@].*|:[^/]*)?$" $name) }}
{{- end }}
{{- end }}
{{- $found | toJson }}
{{- end }}

{{/* Regular expressions of the allowed hosts of a role, as a JSON list: those of the operator (eventconsumer_api.spec.endpoints). */}}
{{- define "eventconsumer.hosts" -}}
{{- $setting := first . }}
{{- $account := "[a-z0-9]{3,24}(-(internet|microsoft)routing)?(-secondary)?" }}
{{- $found := list }}
{{- range last . }}
{{- $suffix := regexQuoteMeta . }}
{{- if eq $setting "hubSuffixes" }}
{{- $found = append $found (printf "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.%s(:(5671|443))?$" $suffix) }}
{{- else if eq $setting "storageSuffixes" }}
{{- $found = append $found (printf "^%s%s\\.(blob|dfs)\\.%s$" $account (eq . "storage.azure.net" | ternary "\\.z[0-9]{1,2}" "") $suffix) }}
{{- else }}
{{- $found = append $found (printf "^([a-z0-9-]+\\.)*%s(:[0-9]{1,5})?$" $suffix) }}
{{- end }}
{{- end }}
{{- $found | toJson }}
{{- end }}
