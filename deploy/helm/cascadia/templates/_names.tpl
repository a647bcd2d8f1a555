{{/* Names and labels. cascadia/render/kubernetes/release.py has the same for `render --target kubernetes`. */}}

{{- define "cascadia.fullName" -}}
{{- $name := .Release.Name | replace "." "-" -}}
{{- /* A Service's name begins with a letter. */ -}}
{{- if regexMatch "^[0-9]" $name }}{{ $name = printf "cascadia-%s" $name }}{{ end -}}
{{- .Values.fullnameOverride | default $name -}}
{{- end }}

{{/* (list root stem): short enough for what controllers append to it. */}}
{{- define "cascadia.named" -}}
{{- $whole := printf "%s-%s" (include "cascadia.fullName" (index . 0)) (index . 1) -}}
{{- if le (len $whole) 52 -}}
{{- $whole -}}
{{- else -}}
{{- printf "%s-%s" ($whole | trunc 45 | trimSuffix "-") ($whole | sha256sum | trunc 6) -}}
{{- end -}}
{{- end }}

{{/* (list root component) */}}
{{- define "cascadia.labels" -}}
app.kubernetes.io/part-of: cascadia
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 | quote }}
{{- end }}

{{/* (list root stem component): of an object called after the stem, or after the release alone. */}}
{{- define "cascadia.metadata" -}}
{{- $root := index . 0 -}}
name: {{ ternary (include "cascadia.named" (list $root (index . 1))) (include "cascadia.fullName" $root) (ne (index . 1) "") | quote }}
namespace: {{ $root.Release.Namespace | quote }}
labels:
  {{- include "cascadia.labels" (list $root (index . 2)) | nindent 2 }}
{{- end }}

{{/* (list root workload): the pods of one workload of this release. */}}
{{- define "cascadia.selector" -}}
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
cascadia/workload: {{ index . 1 | quote }}
{{- end }}

{{/* (list root unit): all pods of a stage, or of the judge. */}}
{{- define "cascadia.unitSelector" -}}
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
cascadia/service: {{ (index . 1).name | quote }}
{{- end }}

{{/* (list root slot): the pods of the group that has this place in its stage, of whichever shape. */}}
{{- define "cascadia.slotSelector" -}}
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
cascadia/slot: {{ index . 1 | quote }}
{{- end }}

{{- define "cascadia.policyVersion" -}}
{{- if .Capabilities.APIVersions.Has "policy/v1" }}policy/v1{{ else }}policy/v1beta1{{ end -}}
{{- end }}

{{/* (list root image): a digest goes before a tag, and the chart's version before none. */}}
{{- define "cascadia.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- with $root.Values.imageRegistry }}{{ . }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default $root.Chart.AppVersion }}{{ end -}}
{{- end }}
