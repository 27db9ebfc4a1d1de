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

{{/* The served namespaces, as a JSON list. */}}
{{- define "eventconsumer.namespaces" -}}
{{ .Values.watchNamespaces | default (list .Release.Namespace) | toJson }}
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
