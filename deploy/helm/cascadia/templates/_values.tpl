{{/* How values are put over one another. cascadia/render/kubernetes/chart_values.py has the same. */}}

{{/* (list base over): maps member by member, anything else as a whole; null takes a member away. As YAML. */}}
{{- define "cascadia.merged" -}}
{{- $result := deepCopy (index . 0) -}}
{{- range $key, $value := index . 1 -}}
{{- $old := get $result $key -}}
{{- if kindIs "invalid" $value -}}
{{- $_ := unset $result $key -}}
{{- else -}}
{{- if and (kindIs "map" $value) (kindIs "map" $old) -}}
{{- $value = include "cascadia.merged" (list $old $value) | fromYaml -}}
{{- end -}}
{{- $_ := set $result $key $value -}}
{{- end -}}
{{- end -}}
{{- toYaml $result -}}
{{- end }}

{{/* (list root unit role): `engines` with what is different of this unit's; lists are appended. As YAML. */}}
{{- define "cascadia.enginesOf" -}}
{{- $engines := (index . 0).Values.engines -}}
{{- $unit := index . 1 -}}
{{- $own := get $engines.perStage (ternary "judge" $unit.servedModelName (eq (index . 2) "judge")) | default dict -}}
{{- $lists := dict -}}
{{- range $key, $value := $own -}}
{{- if kindIs "slice" $value -}}
{{- $_ := set $lists $key (concat (get $engines $key) $value) -}}
{{- end -}}
{{- end -}}
{{- $merged := include "cascadia.merged" (list $engines $own) | fromYaml -}}
{{- include "cascadia.merged" (list $merged $lists) -}}
{{- end }}

{{/* Variables of a container: the last of a name is the one. */}}
{{- define "cascadia.variables" -}}
{{- $last := dict -}}
{{- range $i, $one := . }}{{ $_ := set $last $one.name $i }}{{ end -}}
{{- range $i, $one := . }}
{{- if eq (get $last $one.name) $i }}
- {{- toYaml $one | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}
