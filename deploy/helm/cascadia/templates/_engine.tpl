{{/* The pod of one rank of a replica: (list root unit role group serves slot). */}}

{{- define "cascadia.engineLabels" -}}
{{- $unit := index . 1 -}}
{{- include "cascadia.labels" (list (index . 0) (index . 2)) }}
cascadia/service: {{ $unit.name | quote }}
cascadia/workload: {{ (index . 3).name | quote }}
app.kubernetes.io/name: {{ $unit.engine }}
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
{{- $engines := $root.Values.engines -}}
metadata:
  labels:
    {{- include "cascadia.engineLabels" . | nindent 4 }}
    cascadia/slot: {{ index . 5 | quote }}
    {{- if $serves }}
    cascadia/serves: "true"
    {{- end }}
  {{- with $engines.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "cascadia.fullName" $root }}
  automountServiceAccountToken: false
  # Kubernetes' variables for other services can collide with an engine's own.
  enableServiceLinks: false
  {{- include "cascadia.pullSecrets" $root | indent 2 }}
  {{- with $engines.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $engines.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  securityContext:
    {{- include "cascadia.podSecurity" . | nindent 4 }}
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
          - matchExpressions:
              - key: {{ $group.gpuLabel }}
                operator: In
                values:
                  {{- toYaml $group.gpuProducts | nindent 18 }}
    {{- if and (gt (int $group.podsPerReplica) 1) $engines.topologyKey }}
    # Ranks of a replica near one another.
    podAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: {{ $engines.topologyKey }}
            labelSelector:
              matchLabels:
                {{- include "cascadia.selector" (list $root $group.name) | nindent 16 }}
    {{- end }}
  tolerations:
    - key: {{ $group.gpuResource }}
      operator: Exists
      effect: NoSchedule
    {{- with $engines.tolerations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  terminationGracePeriodSeconds: {{ add (int $engines.preStopSeconds) (int $unit.drainSeconds) (int $engines.marginSeconds) }}
  containers:
    - {{- include "cascadia.engineContainer" . | nindent 6 }}
  volumes:
    {{- include "cascadia.engineVolumes" . | nindent 4 }}
{{- end }}

{{- define "cascadia.engineContainer" -}}
{{- $root := index . 0 -}}
{{- $unit := index . 1 -}}
{{- $group := index . 3 -}}
{{- $serves := index . 4 -}}
{{- $engines := $root.Values.engines -}}
{{- $gpus := int $group.gpusPerPod -}}
name: engine
image: {{ $group.image }}
imagePullPolicy: IfNotPresent
command:
  {{- toYaml $group.command | nindent 2 }}
args:
  {{- toYaml (ternary $group.args $group.workerArgs $serves) | nindent 2 }}
env:
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
        name: {{ $root.Values.huggingFaceToken.secretName }}
        key: {{ $root.Values.huggingFaceToken.secretKey }}
        optional: true
  {{- with $engines.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- if $serves }}
ports:
  {{- include "cascadia.httpPort" . | nindent 2 }}
{{- end }}
# No CPU limit: loading weights and compiling kernels peak far above serving.
resources:
  requests:
    cpu: {{ mul (int $engines.cpuPerGpu) $gpus | quote }}
    memory: {{ mul (int $engines.memoryGiPerGpu) $gpus }}Gi
    {{ $group.gpuResource }}: {{ $gpus | quote }}
  limits:
    memory: {{ mul (int $engines.memoryLimitGiPerGpu) $gpus }}Gi
    {{ $group.gpuResource }}: {{ $gpus | quote }}
securityContext:
  {{- include "cascadia.containerSecurity" . | nindent 2 }}
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
  - {name: writable-{{ $i }}, mountPath: {{ $path }}}
  {{- end }}
  {{- if $unit.modelsVolume }}
  - {name: models, mountPath: /models, readOnly: true}
  {{- end }}
{{- end }}

{{- define "cascadia.engineVolumes" -}}
{{- $root := index . 0 -}}
{{- $unit := index . 1 -}}
{{- $group := index . 3 -}}
{{- $engines := $root.Values.engines -}}
{{- $cache := $engines.cache -}}
- name: cache
  {{- if eq $cache.kind "claim" }}
  persistentVolumeClaim:
    claimName: {{ include "cascadia.named" (list $root "cache") }}
  {{- else if eq $cache.kind "existingClaim" }}
  persistentVolumeClaim:
    claimName: {{ $cache.claimName }}
  {{- else if eq $cache.kind "ephemeral" }}
  ephemeral:
    volumeClaimTemplate:
      spec:
        {{- include "cascadia.cacheClaim" $cache | nindent 8 }}
  {{- else if $cache.size }}
  emptyDir:
    sizeLimit: {{ $cache.size }}
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
    claimName: {{ $engines.modelsClaimName }}
    readOnly: true
{{- end }}
{{- end }}

{{- define "cascadia.cacheClaim" -}}
accessModes: [{{ .accessMode }}]
{{- with .storageClassName }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests:
    storage: {{ .size | default "1Ti" }}
{{- end }}
