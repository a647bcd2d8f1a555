{{/* The pod of one rank of a replica: (list root unit role group serves slot). */}}

{{- define "cascadia.engineLabels" -}}
{{- $unit := index . 1 -}}
{{- include "cascadia.labels" (list (index . 0) (index . 2)) }}
cascadia/service: {{ $unit.name | quote }}
cascadia/workload: {{ (index . 3).name | quote }}
app.kubernetes.io/name: {{ $unit.engine | quote }}
app.kubernetes.io/version: {{ $unit.engineVersion | quote }}
{{- end }}

{{- define "cascadia.unitAnnotations" -}}
cascadia/served-model-name: {{ (index . 1).servedModelName | quote }}
cascadia/plan: {{ (index . 0).Values.plan.digest | quote }}
{{- end }}

{{- define "cascadia.enginePod" -}}
{{- $root := index . 0 -}}
{{- $unit := index . 1 -}}
{{- $group := index . 3 -}}
{{- $serves := index . 4 -}}
{{- $engines := include "cascadia.enginesOf" . | fromYaml -}}
metadata:
  labels:
    {{- include "cascadia.engineLabels" . | nindent 4 }}
    cascadia/slot: {{ index . 5 | quote }}
    {{- if $serves }}
    cascadia/serves: "true"
    {{- end }}
    {{- with $engines.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $engines.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "cascadia.fullName" $root | quote }}
  automountServiceAccountToken: false
  # Kubernetes' variables for other services can collide with an engine's own.
  enableServiceLinks: false
  {{- include "cascadia.pullSecrets" $root | indent 2 }}
  {{- with $engines.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- with $engines.runtimeClassName }}
  runtimeClassName: {{ . | quote }}
  {{- end }}
  {{- with $engines.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- include "cascadia.podSecurity" $engines.podSecurityContext | nindent 4 }}
  affinity:
    {{- include "cascadia.engineAffinity" (list $root $group $engines) | nindent 4 }}
  tolerations:
    - key: {{ $group.gpuResource | quote }}
      operator: Exists
      effect: NoSchedule
    {{- with $engines.tolerations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  terminationGracePeriodSeconds: {{ add (int $engines.preStopSeconds) (int $unit.drainSeconds) (int $engines.marginSeconds) }}
  {{- with $engines.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - {{- include "cascadia.engineContainer" (append . $engines) | nindent 6 }}
  volumes:
    {{- include "cascadia.engineVolumes" (append . $engines) | nindent 4 }}
{{- end }}

{{/* (list root group engines): nodes with the pool's GPU, and ranks of a replica near one another; a user's affinity
     besides. Terms for nodes are alternatives: each wants the GPU. */}}
{{- define "cascadia.engineAffinity" -}}
{{- $root := index . 0 -}}
{{- $group := index . 1 -}}
{{- $engines := index . 2 -}}
{{- $found := deepCopy $engines.affinity -}}
{{- $required := "requiredDuringSchedulingIgnoredDuringExecution" -}}
{{- $preferred := "preferredDuringSchedulingIgnoredDuringExecution" -}}
{{- $onGpu := dict "key" $group.gpuLabel "operator" "In" "values" $group.gpuProducts -}}
{{- $nodes := $found.nodeAffinity | default dict -}}
{{- $terms := list -}}
{{- range (get $nodes $required | default dict).nodeSelectorTerms | default (list dict) -}}
{{- $expressions := concat (list $onGpu) (.matchExpressions | default list) -}}
{{- $terms = append $terms (merge (dict "matchExpressions" $expressions) .) -}}
{{- end -}}
{{- $_ := set $nodes $required (dict "nodeSelectorTerms" $terms) -}}
{{- $_ := set $found "nodeAffinity" $nodes -}}
{{- if and (gt (int $group.podsPerReplica) 1) $engines.topologyKey -}}
{{- $ranks := dict "matchLabels" (include "cascadia.selector" (list $root $group.name) | fromYaml) -}}
{{- $near := dict "topologyKey" $engines.topologyKey "labelSelector" $ranks -}}
{{- $pods := $found.podAffinity | default dict -}}
{{- $terms := concat (list (dict "weight" 100 "podAffinityTerm" $near)) (get $pods $preferred | default list) -}}
{{- $_ := set $pods $preferred $terms -}}
{{- $_ := set $found "podAffinity" $pods -}}
{{- end -}}
{{- toYaml $found -}}
{{- end }}

{{- define "cascadia.engineContainer" -}}
{{- $root := index . 0 -}}
{{- $unit := index . 1 -}}
{{- $group := index . 3 -}}
{{- $serves := index . 4 -}}
{{- $engines := index . 6 -}}
{{- $gpus := int $group.gpusPerPod -}}
name: engine
image: {{ $group.image | quote }}
imagePullPolicy: IfNotPresent
command:
  {{- toYaml $group.command | nindent 2 }}
args:
  {{- toYaml (ternary $group.args $group.workerArgs $serves) | nindent 2 }}
env:
  {{- include "cascadia.variables" (concat (include "cascadia.engineVariables" $root | fromYamlArray) $engines.env) | nindent 2 }}
{{- if $serves }}
ports:
  {{- include "cascadia.httpPort" . | nindent 2 }}
{{- end }}
# No CPU limit: loading weights and compiling kernels peak far above serving.
resources:
  requests:
    cpu: {{ mul (int $engines.cpuPerGpu) $gpus | quote }}
    memory: {{ mul (int $engines.memoryGiPerGpu) $gpus }}Gi
    {{ $group.gpuResource | quote }}: {{ $gpus | quote }}
    {{- include "cascadia.extraResources" $engines | nindent 4 }}
  limits:
    memory: {{ mul (int $engines.memoryLimitGiPerGpu) $gpus }}Gi
    {{ $group.gpuResource | quote }}: {{ $gpus | quote }}
    {{- include "cascadia.extraResources" $engines | nindent 4 }}
securityContext:
  {{- include "cascadia.containerSecurity" $engines.securityContext | nindent 2 }}
{{- if $serves }}
# Patient: SGLang's /health generates a token, which takes over a second.
startupProbe:
  httpGet: {path: /health, port: http}
  timeoutSeconds: 10
  periodSeconds: 10
  failureThreshold: {{ div (int $engines.startupSeconds) 10 }}
readinessProbe:
  httpGet: {path: /health, port: http}
  timeoutSeconds: 10
  periodSeconds: 10
  failureThreshold: 2
livenessProbe:
  httpGet: {path: /health, port: http}
  timeoutSeconds: 10
  periodSeconds: 10
  failureThreshold: 6
{{- end }}
# Routers forget the pod before its engine is told to stop; its own shutdown then fits the grace period.
lifecycle:
  preStop:
    exec:
      command: [sleep, {{ int $engines.preStopSeconds | quote }}]
volumeMounts:
  - {name: cache, mountPath: /cache}
  - {name: shm, mountPath: /dev/shm}
  - {name: tmp, mountPath: /tmp}
  {{- range $i, $path := $engines.writablePaths }}
  - {name: writable-{{ $i }}, mountPath: {{ $path | quote }}}
  {{- end }}
  {{- if $unit.modelsVolume }}
  - {name: models, mountPath: /models, readOnly: true}
  {{- end }}
  {{- with $engines.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "cascadia.engineVariables" -}}
# A user id without an entry in the image's passwd needs its home and name said.
- name: HOME
  value: /cache
- name: USER
  value: cascadia
- name: HF_HOME
  value: /cache/huggingface
- name: VLLM_NO_USAGE_STATS
  value: "1"
- name: HF_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ .Values.huggingFaceToken.secretName | quote }}
      key: {{ .Values.huggingFaceToken.secretKey | quote }}
      optional: true
{{- end }}

{{- define "cascadia.extraResources" -}}
{{- range $name, $count := .extraResources }}
{{ $name | quote }}: {{ int $count | quote }}
{{- end }}
{{- end }}

{{- define "cascadia.engineVolumes" -}}
{{- $root := index . 0 -}}
{{- $unit := index . 1 -}}
{{- $group := index . 3 -}}
{{- $engines := index . 6 -}}
{{- $cache := $engines.cache -}}
- name: cache
  {{- if eq $cache.kind "claim" }}
  persistentVolumeClaim:
    claimName: {{ include "cascadia.named" (list $root "cache") | quote }}
  {{- else if eq $cache.kind "existingClaim" }}
  persistentVolumeClaim:
    claimName: {{ $cache.claimName | quote }}
  {{- else if eq $cache.kind "ephemeral" }}
  ephemeral:
    volumeClaimTemplate:
      spec:
        {{- include "cascadia.cacheClaim" $cache | nindent 8 }}
  {{- else if $cache.size }}
  emptyDir:
    sizeLimit: {{ $cache.size | quote }}
  {{- else }}
  emptyDir: {}
  {{- end }}
# Tensor-parallel workers talk through /dev/shm; the default of 64 MiB is too small.
- name: shm
  emptyDir:
    medium: Memory
    sizeLimit: {{ max 4 (mul 2 (int $group.gpusPerPod)) }}Gi
- name: tmp
  emptyDir: {}
{{- range $i, $path := $engines.writablePaths }}
- name: writable-{{ $i }}
  emptyDir: {}
{{- end }}
{{- if $unit.modelsVolume }}
- name: models
  persistentVolumeClaim:
    claimName: {{ $engines.modelsClaimName | quote }}
    readOnly: true
{{- end }}
{{- with $engines.volumes }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{- define "cascadia.cacheClaim" -}}
accessModes: [{{ .accessMode | quote }}]
{{- with .storageClassName }}
storageClassName: {{ . | quote }}
{{- end }}
resources:
  requests:
    storage: {{ .size | default "1Ti" | quote }}
{{- end }}
