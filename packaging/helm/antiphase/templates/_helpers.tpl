{{- define "antiphase.name" -}}
{{- printf "%s" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "antiphase.labels" -}}
app.kubernetes.io/name: antiphase
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "antiphase.selector" -}}
app.kubernetes.io/name: antiphase
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "antiphase.serverName" -}}
{{- printf "%s-topology.%s.svc" (include "antiphase.name" .) .Release.Namespace -}}
{{- end -}}
