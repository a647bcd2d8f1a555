{{/* What all pods have in common: they pass the "restricted" Pod Security Standard, with a read-only root. */}}

{{- define "cascadia.podSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "cascadia.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "cascadia.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "cascadia.httpPort" -}}
- name: http
  containerPort: 8000
  protocol: TCP
{{- end }}

{{- define "cascadia.servicePort" -}}
- name: http
  port: 8000
  targetPort: http
  protocol: TCP
{{- end }}

{{/* (list root workload): pods of ours prefer to be apart. */}}
{{- define "cascadia.spread" -}}
{{- $root := index . 0 -}}
{{- $workload := index . 1 -}}
{{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "cascadia.selector" (list $root $workload) | nindent 6 }}
{{- end }}
{{- end }}
