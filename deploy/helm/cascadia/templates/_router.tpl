{{/* router.yaml: docs/reference/router.md has its keys. An entry of replicas is the headless Service of a group: each of its pods is a replica. */}}

{{- define "cascadia.routerConfig" -}}
{{- $router := .Values.router -}}
{{- $stages := list -}}
{{- range .Values.stages -}}
{{- $stage := dict "name" .servedModelName "threshold" .threshold "max_model_len" (int .maxModelLen) -}}
{{- if .skipBelow -}}
{{- $_ := set $stage "skip_below" .skipBelow -}}
{{- end -}}
{{- with .cost -}}
{{- $_ := set $stage "cost" . -}}
{{- end -}}
{{- $_ := set $stage "replicas" (include "cascadia.routerReplicas" (list $ .) | fromYamlArray) -}}
{{- $stages = append $stages (include "cascadia.merged" (list $stage .routing) | fromYaml) -}}
{{- end -}}
{{- if .Values.externalStages -}}
{{- $byName := dict -}}
{{- range $stages }}{{ $_ := set $byName .name . }}{{ end -}}
{{- range .Values.externalStages -}}
{{- $stage := include "cascadia.externalStage" (list $ .) | fromYaml -}}
{{- $_ := set $byName .servedModelName (include "cascadia.merged" (list $stage .routing) | fromYaml) -}}
{{- end -}}
{{- $stages = list -}}
{{- range .Values.cascade.stages -}}
{{- with get $byName . -}}
{{- $stages = append $stages . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $config := dict "cascade" .Values.cascade.name "stages" $stages "host" "0.0.0.0" "port" 8000 -}}
{{- with .Values.cascade.stages -}}
{{- $_ := set $config "names" . -}}
{{- end -}}
{{- with .Values.cascade.mixture -}}
{{- $_ := set $config "mixture" . -}}
{{- end -}}
{{- with .Values.cascade.gears -}}
{{- $_ := set $config "gears" . -}}
{{- end -}}
{{- with .Values.cascade.underLoad -}}
{{- $_ := set $config "under_load" . -}}
{{- end -}}
{{- with .Values.cascade.exits -}}
{{- $_ := set $config "exits" . -}}
{{- end -}}
{{- with .Values.cascade.costUnit -}}
{{- $_ := set $config "cost_unit" . -}}
{{- end -}}
{{- with .Values.cascade.planned -}}
{{- $_ := set $config "planned" . -}}
{{- end -}}
{{- with include "cascadia.routerJudge" . | fromYaml -}}
{{- $_ := set $config "judge" . -}}
{{- end -}}
{{- $_ := set $config "limits" (dict "drain_notice_s" $router.noticeSeconds "drain_s" $router.drainSeconds) -}}
{{- $_ := set $config "health" (dict "startup_s" .Values.engines.startupSeconds) -}}
{{- include "cascadia.merged" (list $config $router.config) -}}
{{- end }}

{{/* (list root stage): somebody else's API. Each router sends its part of what is allowed in a minute. */}}
{{- define "cascadia.externalStage" -}}
{{- $routers := include "cascadia.routers" (index . 0).Values | int -}}
{{- with index . 1 -}}
name: {{ .servedModelName | quote }}
model: {{ .model | quote }}
threshold: {{ toYaml .threshold }}
max_model_len: {{ int .maxModelLen }}
{{- if .skipBelow }}
skip_below: {{ toYaml .skipBelow }}
{{- end }}
replicas:
  - url: {{ .url | quote }}
    health_path: null
    {{- with .apiKeyEnv }}
    api_key_env: {{ . | quote }}
    {{- end }}
    {{- if .requestsPerMinute }}
    requests_per_minute: {{ max 1 (div (int .requestsPerMinute) $routers) }}
    {{- end }}
{{- end }}
{{- end }}

{{/* Most routers that there may be at a time. */}}
{{- define "cascadia.routers" -}}
{{- ternary (int .router.autoscaling.maxReplicas) (int .router.replicas) .router.autoscaling.enabled -}}
{{- end }}

{{/* (list root unit) */}}
{{- define "cascadia.routerReplicas" -}}
{{- $root := index . 0 -}}
{{- $unit := index . 1 -}}
{{- range $i, $group := $unit.groups }}
- url: {{ printf "http://%s:8000" (include "cascadia.named" (list $root (printf "%s-%d-http" $unit.name $i))) | quote }}
  resolve: dns
  share: {{ printf "%.6g" (divf (float64 $group.share) (max 1 (int $group.replicas))) }}
  max_concurrency: {{ min (int $unit.maxConcurrency) 100000 }}
  {{- if and $root.Values.cascade.gears (gt (int $group.replicas) 1) }}
  planned: {{ int $group.replicas }}
  {{- end }}
  {{- with $group.learns }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "cascadia.routerJudge" -}}
{{- $judge := .Values.judge -}}
{{- if ne $judge.kind "none" -}}
kind: {{ $judge.kind | quote }}
timeout_s: {{ $judge.timeoutSeconds }}
on_failure: {{ $judge.onFailure | quote }}
{{- if eq $judge.kind "llm" }}
{{- with $judge.servedModelName }}
model: {{ . | quote }}
{{- end }}
{{- end }}
{{- if $judge.groups }}
replicas:
  {{- include "cascadia.routerReplicas" (list . $judge) | nindent 2 }}
{{- else if eq $judge.kind "certainty" }}
{{- else if $judge.url }}
replicas:
  - url: {{ $judge.url | quote }}
    health_path: null
    {{- if $judge.apiKey.secretName }}
    api_key_env: CASCADIA_JUDGE_KEY
    {{- end }}
{{- else if eq $judge.kind "embedding" }}
replicas:
  - url: {{ printf "http://%s:8000" (include "cascadia.named" (list . $judge.name)) | quote }}
{{- else if eq $judge.kind "llm" }}
{{- fail "values: judge.url is empty, and the judge runs elsewhere; write its address" }}
{{- end }}
{{- end }}
{{- end }}
