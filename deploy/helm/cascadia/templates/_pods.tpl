{{/* What all pods have in common: they pass the "restricted" Pod Security Standard, with a read-only root. */}}

{{/* What a user puts over it. */}}
{{- define "cascadia.podSecurity" -}}
{{- $ours := dict "runAsNonRoot" true "runAsUser" 1000 "runAsGroup" 1000 "fsGroup" 1000 -}}
{{- $_ := set $ours "fsGroupChangePolicy" "OnRootMismatch" -}}
{{- $_ := set $ours "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- include "cascadia.merged" (list $ours .) -}}
{{- end }}

{{/* What a user puts over it. */}}
{{- define "cascadia.containerSecurity" -}}
{{- $ours := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true -}}
{{- $_ := set $ours "capabilities" (dict "drop" (list "ALL")) -}}
{{- include "cascadia.merged" (list $ours .) -}}
{{- end }}

{{/* Where the pods of a service of ours may run, and before whom. */}}
{{- define "cascadia.scheduling" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "cascadia.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
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
  topologyKey: {{ . | quote }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "cascadia.selector" (list $root $workload) | nindent 6 }}
{{- end }}
{{- end }}
