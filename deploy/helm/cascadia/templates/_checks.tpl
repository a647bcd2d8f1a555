{{/* What must hold between values, which a schema cannot say. cascadia/render/kubernetes/checks.py has the same, word
     for word. Each refusal: where, what is wrong, what to write. */}}

{{- define "cascadia.checks" -}}
{{- $values := .Values -}}
{{- $space := .Release.Namespace -}}
{{- if not (and (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" $space) (le (len $space) 63)) -}}
{{- fail (printf "namespace: %q is no name of one; write lower-case letters, digits and dashes, 63 at most" $space) -}}
{{- end -}}
{{- include "cascadia.checkNames" $values -}}
{{- $scaling := $values.router.autoscaling -}}
{{- if gt (int $scaling.minReplicas) (int $scaling.maxReplicas) -}}
{{- fail (printf "values: router.autoscaling.minReplicas: %d is above maxReplicas (%d); lower it, or raise maxReplicas" (int $scaling.minReplicas) (int $scaling.maxReplicas)) -}}
{{- end -}}
{{- $spec := $values.controller.spec -}}
{{- if and $values.controller.enabled (not $spec.configMapName) (not $spec.claimName) -}}
{{- fail "values: controller.spec: names neither a ConfigMap nor a claim; write configMapName: cascadia-spec" -}}
{{- end -}}
{{- include "cascadia.checkExternal" $values -}}
{{- include "cascadia.checkPerStage" $values -}}
{{- include "cascadia.checkResources" (list "router.resources" $values.router.resources) -}}
{{- include "cascadia.checkResources" (list "controller.resources" $values.controller.resources) -}}
{{- include "cascadia.checkResources" (list "judge.service.resources" $values.judge.service.resources) -}}
{{- $mounts := list -}}
{{- range $values.router.secrets -}}
{{- $mounts = append $mounts (dict "mountPath" (printf "/secrets/%s" .name)) -}}
{{- end -}}
{{- include "cascadia.checkMounts" (list "router.secrets" $mounts) -}}
{{- range $stage := $values.stages -}}
{{- include "cascadia.checkEngines" (list $ $stage "stage") -}}
{{- end -}}
{{- if $values.judge.groups -}}
{{- include "cascadia.checkEngines" (list $ $values.judge "judge") -}}
{{- end -}}
{{- end }}

{{/* No two objects have one name. */}}
{{- define "cascadia.checkNames" -}}
{{- $taken := dict -}}
{{- range list "router" "controller" "controller-state" "cache" "default" "dashboards" "engines" "test" -}}
{{- $_ := set $taken . "the chart" -}}
{{- end -}}
{{- $served := dict -}}
{{- $judge := .judge -}}
{{- if $judge.groups }}{{ $judge = merge (dict "servedModelName" "") $judge }}{{ else }}{{ $_ := set $taken "judge" "the chart" }}{{ end -}}
{{- range concat .stages (ternary (list $judge) list (not (empty $judge.groups))) -}}
{{- with .servedModelName -}}
{{- if hasKey $served . -}}
{{- fail (printf "values: stages: two are called %q; give each a servedModelName of its own" .) -}}
{{- end -}}
{{- $_ := set $served . true -}}
{{- end -}}
{{- $name := .name -}}
{{- $names := list $name (printf "%s-ranks" $name) -}}
{{- range $i, $group := .groups -}}
{{- $slot := printf "%s-%d" $name $i -}}
{{- $names = concat $names (list $group.name $slot (printf "%s-http" $slot)) -}}
{{- end -}}
{{- range $names -}}
{{- if hasKey $taken . -}}
{{- fail (printf "values: stages: the name %q of %s is taken by %s; give it another name" . $name (get $taken .)) -}}
{{- end -}}
{{- $_ := set $taken . $name -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Each is a stage of the cascade, and each router may send it something. */}}
{{- define "cascadia.checkExternal" -}}
{{- $values := . -}}
{{- $routers := include "cascadia.routers" . | int -}}
{{- range .externalStages -}}
{{- if not (has .servedModelName $values.cascade.stages) -}}
{{- fail (printf "values: externalStages: %q is not among cascade.stages; write it there, in its place" .servedModelName) -}}
{{- end -}}
{{- if and .requestsPerMinute (lt (int .requestsPerMinute) $routers) -}}
{{- fail (printf "values: externalStages: %s may be sent %d requests a minute, and there may be %d routers; lower router.autoscaling.maxReplicas" .servedModelName (int .requestsPerMinute) $routers) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "cascadia.checkPerStage" -}}
{{- $known := .cascade.stages -}}
{{- range .stages }}{{ $known = append $known .servedModelName }}{{ end -}}
{{- $known = append $known "judge" | uniq -}}
{{- range $name, $_ := .engines.perStage -}}
{{- if not (has $name $known) -}}
{{- fail (printf "values: engines.perStage.%s: is no stage; write one of %s" $name (join ", " $known)) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* (list root unit role) */}}
{{- define "cascadia.checkEngines" -}}
{{- $root := index . 0 -}}
{{- $unit := index . 1 -}}
{{- $where := printf "engines (of %s)" $unit.name -}}
{{- $engines := include "cascadia.enginesOf" . | fromYaml -}}
{{- if gt (int $engines.memoryGiPerGpu) (int $engines.memoryLimitGiPerGpu) -}}
{{- fail (printf "values: %s.memoryGiPerGpu: %d is above memoryLimitGiPerGpu (%d); lower it, or raise memoryLimitGiPerGpu" $where (int $engines.memoryGiPerGpu) (int $engines.memoryLimitGiPerGpu)) -}}
{{- end -}}
{{- range $unit.groups -}}
{{- if hasKey $engines.extraResources .gpuResource -}}
{{- fail (printf "values: %s.extraResources: %s is counted by the plan; leave it out" $where .gpuResource) -}}
{{- end -}}
{{- end -}}
{{- $volumes := list "cache" "shm" "tmp" -}}
{{- $mounts := list (dict "mountPath" "/cache") (dict "mountPath" "/dev/shm") (dict "mountPath" "/tmp") -}}
{{- range $i, $path := $engines.writablePaths -}}
{{- $volumes = append $volumes (printf "writable-%d" $i) -}}
{{- $mounts = append $mounts (dict "mountPath" $path) -}}
{{- end -}}
{{- if $unit.modelsVolume -}}
{{- $volumes = append $volumes "models" -}}
{{- $mounts = append $mounts (dict "mountPath" "/models") -}}
{{- end -}}
{{- range $engines.volumes -}}
{{- if has .name $volumes -}}
{{- fail (printf "values: %s.volumes: the name %s is taken; give the volume another name" $where .name) -}}
{{- end -}}
{{- $volumes = append $volumes .name -}}
{{- end -}}
{{- include "cascadia.checkMounts" (list (printf "%s.volumeMounts" $where) (concat $mounts $engines.volumeMounts) $volumes) -}}
{{- $containers := list "engine" -}}
{{- range $engines.initContainers -}}
{{- if has .name $containers -}}
{{- fail (printf "values: %s.initContainers: the name %s is taken; give the container another name" $where .name) -}}
{{- end -}}
{{- $containers = append $containers .name -}}
{{- include "cascadia.checkMounts" (list (printf "%s.initContainers.%s" $where .name) (.volumeMounts | default list) $volumes) -}}
{{- with .resources -}}
{{- include "cascadia.checkResources" (list (printf "%s.initContainers" $where) .) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* (list where mounts volumes): each of a known volume (where these are given), no two at one path. */}}
{{- define "cascadia.checkMounts" -}}
{{- $where := index . 0 -}}
{{- $volumes := list -}}
{{- if gt (len .) 2 }}{{ $volumes = index . 2 }}{{ end -}}
{{- $paths := list -}}
{{- range index . 1 -}}
{{- $path := .mountPath | trimSuffix "/" -}}
{{- if has $path $paths -}}
{{- fail (printf "values: %s: two are mounted at %s; leave one out" $where $path) -}}
{{- end -}}
{{- $paths = append $paths $path -}}
{{- if and .name $volumes (not (has .name $volumes)) -}}
{{- fail (printf "values: %s: %s is no volume; write one of %s" $where .name (join ", " $volumes)) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* (list where resources): none requests more than its limit; what cannot be shared, as much. */}}
{{- define "cascadia.checkResources" -}}
{{- $where := index . 0 -}}
{{- $limits := (index . 1).limits | default dict -}}
{{- range $name, $asked := (index . 1).requests | default dict -}}
{{- $most := get $limits $name -}}
{{- if and (hasKey $limits $name) (gt (include "cascadia.quantity" $asked | float64) (include "cascadia.quantity" $most | float64)) -}}
{{- fail (printf "values: %s: the request for %s is above its limit; lower it, or raise the limit" $where $name) -}}
{{- end -}}
{{- if and (contains "/" $name) (ne (include "cascadia.quantity" $asked) (include "cascadia.quantity" ($most | default 0))) -}}
{{- fail (printf "values: %s: the request for %s is not its limit, and it cannot be shared; write the same for both" $where $name) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* 512Mi as a number. */}}
{{- define "cascadia.quantity" -}}
{{- if kindIs "string" . -}}
{{- $factors := dict "" 1.0 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 "Pi" 1125899906842624.0 "Ei" 1152921504606846976.0 -}}
{{- $number := regexFind "^[0-9.]+" . -}}
{{- mulf (float64 $number) (get $factors (trimPrefix $number .)) -}}
{{- else -}}
{{- float64 . -}}
{{- end -}}
{{- end }}
